"""TF-IDF of words and of letters in a row: learned from texts, saved, and read again without scikit-learn.

A part has a vocabulary in order of its words, each with the weight ln((1 + texts) / (1 + texts with it)) + 1; a text is the
weighted counts (1 + ln count) of what it has of it, as a row of unit length. scikit-learn's `TfidfVectorizer` gives the same bits.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from scipy import sparse

from vpunn._arrays import object_array
from vpunn._types import Numbers
from vpunn.errors import VpunnError, check_choice, counted, examples
from vpunn.store import Draft, Storable, Stored
from vpunn.text.ngrams import MIXED, character_grams, word_grams

#: Options of a part that are saved.
KEPT = ("ngram_range", "analyzer", "sublinear_tf", "min_df")


def check_options(options: Any) -> None:
    """Refuse options of a saved part that `text_features` never writes: they are looked at before they are used."""
    kinds = {"ngram_range": list, "analyzer": str, "sublinear_tf": bool, "min_df": int | float}
    if isinstance(options, dict) and options.get("analyzer") == "word":
        kinds |= {name: bool for name in MIXED[1:] if name in options}
    if not isinstance(options, dict) or set(options) != set(kinds):
        raise VpunnError(f"a part of text features has the options {examples(kinds)}, got {options!r}.")
    for option, kind in kinds.items():
        if not isinstance(options[option], kind):
            raise VpunnError(f"the option {option!r} of text features is {options[option]!r}.")
    check_choice("analyzer", options["analyzer"], ("word", "char", "char_wb"))
    if options.get("cut") and options.get("starts"):
        raise VpunnError("words that mix letters and digits are cut or have beginnings, not both.")
    span = options["ngram_range"]
    if len(span) != 2 or any(type(n) is not int for n in span) or not 1 <= span[0] <= span[1] <= 1000:
        raise VpunnError(f"the option 'ngram_range' of text features is {span!r}.")


def mixed_of(options: dict[str, Any]) -> str:
    """What words that mix letters and digits are for a saved part."""
    return next((name for name in MIXED[1:] if options.get(name)), "whole")


class Part:
    """One vocabulary with its weights: words in order, and how a text is taken apart."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = dict(options)
        self.place: dict[str, int] = {}
        self.idf = np.zeros(0)

    def known(self, words: list[str], idf: np.ndarray) -> Self:
        """With what was learned before."""
        self.place, self.idf = dict(zip(words, range(len(words)), strict=True)), idf
        if len(self.place) != len(words):
            raise VpunnError("a vocabulary of text features holds a word twice.")
        return self

    def grams(self, text: str) -> Iterable[str]:
        """What a text consists of."""
        shortest, longest = self.options["ngram_range"]
        if self.options["analyzer"] == "word":
            return word_grams(text, shortest, longest, mixed_of(self.options))
        return character_grams(text, shortest, longest, self.options["analyzer"] == "char_wb")

    def learn(self, texts: list[str]) -> sparse.csr_matrix:
        """Vocabulary and weights of texts, and their rows."""
        counts = self._counts(texts, learn=True)
        if not self.place:
            raise VpunnError(f"the texts hold no word (letters or digits): {examples(texts)}; give texts that do.")
        held = np.bincount(counts.indices, minlength=len(self.place))
        least = self.options["min_df"]
        words = sorted(word for word, count in zip(self.place, held.tolist(), strict=True) if count >= least)
        if not words:
            raise VpunnError(
                f"no word occurs in as many as {least} of the {counted(len(texts), 'text')}; give more, or "
                "text_features(min_rows=1)."
            )
        order = np.array([self.place[word] for word in words])
        self.known(words, np.log((1 + len(texts)) / (1 + held[order])) + 1)
        return self._weighted(sparse.csr_matrix(counts[:, order]))

    def rows(self, texts: Iterable[str]) -> sparse.csr_matrix:
        """TF-IDF of the known n-grams, rows of unit length."""
        return self._weighted(self._counts(texts))

    def _counts(self, texts: Iterable[str], learn: bool = False) -> sparse.csr_matrix:
        """How often each text has each known n-gram; to ``learn`` is to number all of them, in order of appearance."""
        start, indices, counts = array("q", [0]), array("i"), array("d")
        place = self.place
        for text in texts:
            found: dict[int, int] = {}
            for gram in self.grams(text):
                at = place.setdefault(gram, len(place)) if learn else place.get(gram, -1)
                if at >= 0:
                    found[at] = found.get(at, 0) + 1
            indices.extend(found)
            counts.extend(found.values())
            start.append(len(indices))
        indptr = np.array(start, np.int64 if len(indices) >= 2**31 else np.int32)
        parts = (np.array(counts, np.float64), np.array(indices, np.int32), indptr)
        return sparse.csr_matrix(parts, shape=(len(indptr) - 1, len(place)))

    def _weighted(self, rows: sparse.csr_matrix) -> sparse.csr_matrix:
        rows.sort_indices()
        value = rows.data
        if self.options["sublinear_tf"]:
            np.log(value, out=value)
            value += 1.0
        value *= self.idf[rows.indices]
        row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        length = np.sqrt(np.bincount(row, value * value, rows.shape[0]))  # adds in order, as scikit-learn does
        length[length == 0] = 1.0
        value /= length[row]
        return rows


class TextReader(Storable):
    """Learned parts side by side: what `TextFeatures` make of texts."""

    _stored_as = "TextFeatures"

    parts_: dict[str, Part]

    def transform(self, X: Iterable[str]) -> sparse.csr_matrix:
        """One sparse row per text."""
        texts = list(X)
        return sparse.csr_matrix(sparse.hstack([part.rows(texts) for part in self.parts_.values()]))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """What the columns are called."""
        return object_array([f"{name}__{word}" for name, part in self.parts_.items() for word in part.place])

    def forget(self, columns: Numbers) -> Self:
        """Blank the words of columns (`HiPaNClassifier.unheard`): they are read no more, and stand in no folder saved later."""
        gone, first = set(np.asarray(columns).tolist()), 0
        for part in self.parts_.values():
            words = list(part.place)
            part.known(
                [f"\0{i}" if first + i in gone else word for i, word in enumerate(words)], part.idf
            )  # in no text
            first += len(words)
        return self

    def _to_store(self, draft: Draft) -> None:
        for name, part in self.parts_.items():
            draft.labels(f"{name}.vocabulary", object_array(part.place))
            draft.array(f"{name}.idf", part.idf)
        draft.settings["parts"] = {name: part.options for name, part in self.parts_.items()}

    @classmethod
    def _from_store(cls, stored: Stored) -> Self:
        made, found = cls(), {}
        for name, options in stored.setting("parts", dict).items():
            words = stored.labels(f"{name}.vocabulary")
            check_options(options)
            idf = stored.array(f"{name}.idf", dtype="f8", shape=(len(words),))
            found[name] = Part(options).known(words.tolist(), idf)
        made.parts_ = found
        return made
