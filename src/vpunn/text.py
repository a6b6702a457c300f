"""Text to features: TF-IDF of words, word pairs and, on request, character n-grams."""

from __future__ import annotations

import json
import os
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import DataError, VpunnError

if TYPE_CHECKING:
    from sklearn.pipeline import FeatureUnion


#: A run of letters, digits and underscores; scikit-learn's default drops those of length one.
WORD = r"(?u)\b\w+\b"


def text_features(
    *, words: tuple[int, int] = (1, 2), characters: tuple[int, int] | None = (3, 5), min_rows: int = 2
) -> FeatureUnion:
    """A transformer from texts to sparse features, one unit-length part for words and one for character n-grams.

    Word n-grams of the lengths ``words`` (one letter or digit is a word: "vitamin C", "G2/M") and, unless ``characters``
    is None, character n-grams within words; each is sublinear TF-IDF over features that occur in at least ``min_rows``
    rows. An empty text gives an empty row, unknown words give nothing.

    >>> features = text_features(characters=None, min_rows=1)
    >>> X = features.fit_transform(["a kind of small bird", "a kind of large fish"])
    >>> X.shape, features.transform(["unknown"]).nnz
    ((2, 13), 0)
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import FeatureUnion

    for name, span in (("words", words), ("characters", characters)):
        if span is not None and not 1 <= span[0] <= span[1]:
            raise VpunnError(f"{name} is a (shortest, longest) pair of n-gram lengths, got {span!r}.")
    common = {"sublinear_tf": True, "min_df": min_rows, "strip_accents": None}
    parts = [("words", TfidfVectorizer(ngram_range=words, token_pattern=WORD, **common))]
    if characters is not None:
        parts.append(("characters", TfidfVectorizer(analyzer="char_wb", ngram_range=characters, **common)))
    return FeatureUnion(parts)


def save_text_features(features: FeatureUnion, path: str | os.PathLike[str]) -> None:
    """Write a fitted `text_features` to one file without pickle: settings, vocabulary and weights of each part."""
    from vpunn.io.files import written_beside

    arrays: dict[str, Any] = {}
    settings = {}
    for name, part in features.transformer_list:
        words = part.get_feature_names_out()
        arrays[f"{name}_vocabulary"], arrays[f"{name}_idf"] = words.astype(str), part.idf_
        settings[name] = {"ngram_range": part.ngram_range, "analyzer": part.analyzer}
    arrays["settings"] = np.array(json.dumps(settings))
    with written_beside(path) as beside, open(beside, "wb") as file:
        np.savez_compressed(file, **arrays)


def load_text_features(path: str | os.PathLike[str]) -> FeatureUnion:
    """Read what `save_text_features` wrote; it makes the same features."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import FeatureUnion

    try:
        with np.load(path, allow_pickle=False) as archive:
            settings = json.loads(str(archive["settings"]))
            parts = []
            for name, options in settings.items():
                part = TfidfVectorizer(
                    sublinear_tf=True,
                    vocabulary=archive[f"{name}_vocabulary"].tolist(),
                    ngram_range=tuple(options["ngram_range"]),
                    analyzer=options["analyzer"],
                    token_pattern=WORD if options["analyzer"] == "word" else None,
                )
                part.idf_ = archive[f"{name}_idf"]
                parts.append((name, part))
    except (KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{os.fspath(path)!r} holds no text features: {error}; save_text_features writes them."
        ) from error
    return FeatureUnion(parts)
