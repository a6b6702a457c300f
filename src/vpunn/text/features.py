"""`text_features`: texts to sparse rows of words and, on request, letters in a row, as a transformer of scikit-learn."""

from __future__ import annotations

from typing import Any, Literal, Self, cast

from scipy import sparse

from vpunn._sklearn import BaseEstimator, TransformerMixin, check_is_fitted
from vpunn._types import Targets, Texts
from vpunn.errors import VpunnError, check_choice
from vpunn.store import Draft, Stored
from vpunn.text.ngrams import MIXED, checked_texts
from vpunn.text.tfidf import Part, TextReader, mixed_of

Mixed = Literal["whole", "cut", "starts"]


class TextFeatures(TextReader, TransformerMixin, BaseEstimator):
    """What `text_features` makes: a transformer that learns vocabulary and weights; a loaded one makes the same features.

    It knows words, not texts.
    """

    def __init__(
        self,
        *,
        words: tuple[int, int] = (1, 2),
        characters: tuple[int, int] | None = (3, 5),
        min_rows: int = 2,
        mixed: Mixed = "whole",
    ) -> None:
        self.words = words
        self.characters = characters
        self.min_rows = min_rows
        self.mixed = mixed

    def fit(self, X: Texts, y: Targets = None) -> Self:
        """Learn vocabulary and weights."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Texts, y: Targets = None) -> sparse.csr_matrix:
        """Learn vocabulary and weights of texts, and make their features."""
        texts = checked_texts(X)
        parts = {name: Part(options) for name, options in self._options().items()}
        rows = [part.learn(texts) for part in parts.values()]
        self.parts_ = parts
        return sparse.csr_matrix(sparse.hstack(rows))

    def transform(self, X: Texts) -> sparse.csr_matrix:
        """Features of texts, a row each."""
        check_is_fitted(self)
        return super().transform(checked_texts(X))

    def _options(self) -> dict[str, dict[str, Any]]:
        """The parts and their options, checked."""
        for name, span in (("words", self.words), ("characters", self.characters)):
            if span is not None and not 1 <= span[0] <= span[1]:
                raise VpunnError(f"{name} is a (shortest, longest) pair of n-gram lengths, got {span!r}.")
        check_choice("mixed", self.mixed, MIXED)
        common = {"sublinear_tf": True, "min_df": self.min_rows}
        parts = {"words": {"ngram_range": list(self.words), "analyzer": "word", **common}}
        if self.mixed != "whole":
            parts["words"][self.mixed] = True
        if self.characters is not None:
            parts["characters"] = {"ngram_range": list(self.characters), "analyzer": "char_wb", **common}
        return parts

    def _to_store(self, draft: Draft) -> None:
        check_is_fitted(self)
        super()._to_store(draft)

    @classmethod
    def _from_store(cls, stored: Stored) -> Self:
        made = super()._from_store(stored)
        words, characters = (
            made.parts_[name].options if name in made.parts_ else None for name in ("words", "characters")
        )
        made.characters = None if characters is None else tuple(characters["ngram_range"])
        if words is not None:
            made.words, made.min_rows, made.mixed = (
                tuple(words["ngram_range"]),
                words["min_df"],
                cast(Mixed, mixed_of(words)),
            )
        return made


def text_features(
    *,
    words: tuple[int, int] = (1, 2),
    characters: tuple[int, int] | None = (3, 5),
    min_rows: int = 2,
    mixed: Mixed = "whole",
) -> TextFeatures:
    """A transformer from texts to sparse features, one unit-length part for words and one for character n-grams.

    Word n-grams of the lengths ``words`` (one letter or digit is a word: "vitamin C", "G2/M") and, unless ``characters``
    is None, character n-grams within words; each is sublinear TF-IDF over features that occur in at least ``min_rows``
    rows. An empty text gives an empty row, unknown words give nothing.

    ``mixed`` is what becomes of a word that mixes letters and digits, such as a gene's symbol, a part number or a diagnosis:
    "whole" (SLC25A4 is a word), "cut" (it is slc, 25, a and 4, and their pairs; so is every other word cut at underscores) or
    "starts" (whole, and by its beginnings too: slc…, slc25… and slc25a…). Texts without such words or underscores have the
    same features.

    >>> features = text_features(characters=None, min_rows=1)
    >>> X = features.fit_transform(["a kind of small bird", "a kind of large fish"])
    >>> X.shape, features.transform(["unknown"]).nnz
    ((2, 13), 0)
    """
    features = TextFeatures(words=words, characters=characters, min_rows=min_rows, mixed=mixed)
    features._options()
    return features
