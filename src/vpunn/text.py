"""Text to features: TF-IDF of words, word pairs and, on request, character n-grams."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import FeatureUnion
from sklearn.utils.validation import check_is_fitted

from vpunn.errors import VpunnError
from vpunn.io.store import Draft, Storable, Stored

#: A run of letters, digits and underscores; scikit-learn's default drops those of length one.
WORD = r"(?u)\b\w+\b"


class TextFeatures(Storable, FeatureUnion):
    """What `text_features` makes: scikit-learn's union of TF-IDF parts, which can be saved without pickle.

    A loaded one makes the same features; it knows vocabulary and weights, not the texts.
    """

    def _to_store(self, draft: Draft) -> None:
        parts = {}
        for name, part in self.transformer_list:
            check_is_fitted(part, "idf_")
            draft.labels(f"{name}.vocabulary", part.get_feature_names_out())
            draft.array(f"{name}.idf", part.idf_)
            kept = ("ngram_range", "analyzer", "sublinear_tf", "min_df")
            parts[name] = {option: getattr(part, option) for option in kept}
        draft.settings["parts"] = parts

    @classmethod
    def _from_store(cls, stored: Stored) -> TextFeatures:
        parts = []
        for name, options in stored.setting("parts", dict).items():
            words = stored.labels(f"{name}.vocabulary")
            shortest, longest = options["ngram_range"]
            part = TfidfVectorizer(
                **{**options, "ngram_range": (int(shortest), int(longest))},
                vocabulary=words.tolist(),
                token_pattern=WORD if options["analyzer"] == "word" else None,
            )
            part.idf_ = stored.array(f"{name}.idf", dtype="f8", shape=(len(words),))
            parts.append((name, part))
        return cls(parts)


def text_features(
    *, words: tuple[int, int] = (1, 2), characters: tuple[int, int] | None = (3, 5), min_rows: int = 2
) -> TextFeatures:
    """A transformer from texts to sparse features, one unit-length part for words and one for character n-grams.

    Word n-grams of the lengths ``words`` (one letter or digit is a word: "vitamin C", "G2/M") and, unless ``characters``
    is None, character n-grams within words; each is sublinear TF-IDF over features that occur in at least ``min_rows``
    rows. An empty text gives an empty row, unknown words give nothing.

    >>> features = text_features(characters=None, min_rows=1)
    >>> X = features.fit_transform(["a kind of small bird", "a kind of large fish"])
    >>> X.shape, features.transform(["unknown"]).nnz
    ((2, 13), 0)
    """
    for name, span in (("words", words), ("characters", characters)):
        if span is not None and not 1 <= span[0] <= span[1]:
            raise VpunnError(f"{name} is a (shortest, longest) pair of n-gram lengths, got {span!r}.")
    common = {"sublinear_tf": True, "min_df": min_rows, "strip_accents": None}
    parts = [("words", TfidfVectorizer(ngram_range=words, token_pattern=WORD, **common))]
    if characters is not None:
        parts.append(("characters", TfidfVectorizer(analyzer="char_wb", ngram_range=characters, **common)))
    return TextFeatures(parts)


def by_word(text: str, features: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Contributions of features, summed over the words of a text that they come from; largest first.

    ``features`` are named as `TextFeatures` names them: ``words__red breast`` counts half for each of its words,
    ``characters__bre`` for the words that contain it. So a word is told once, with all its n-grams, and nothing is lost: the
    sum stays the same.

    >>> by_word("A red breast", [("words__red", 0.5), ("words__red breast", 0.5), ("characters__bre", -0.125)])
    [('red', 0.75), ('breast', 0.125)]
    """
    words = list(dict.fromkeys(re.findall(WORD, text.lower())))
    found: dict[str, float] = {}
    for feature, value in features:
        part, _, name = feature.partition("__")
        if part == "characters":
            inside = [word for word in words if name in f" {word} "]
        else:
            inside = [word for word in name.split(" ") if word in words]
        for word in inside or [name.strip() or feature]:
            found[word] = found.get(word, 0.0) + value / max(len(inside), 1)
    return sorted(found.items(), key=lambda item: (-abs(item[1]), item[0]))
