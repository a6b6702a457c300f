"""Words, word pairs and character n-grams of texts, and TF-IDF of the known ones: saved `TextFeatures` without scikit-learn.

`vpunn.text` learns vocabulary and weights with scikit-learn's `TfidfVectorizer`. A `TextReader` only reads what was learned, so
that a command need not import it, and gives the same bits.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import numpy as np
from scipy import sparse

from vpunn.errors import VpunnError, check_choice, examples
from vpunn.store import Storable, Stored

#: A run of letters, digits and underscores; scikit-learn's default drops those of length one.
WORD = r"(?u)\b\w+\b"
#: A run of letters or of digits; a word of several is mixed.
RUN = r"(?u)[^\W\d_]+|\d+"
_WORD, _RUN = re.compile(WORD), re.compile(RUN)
#: What words that mix letters and digits are: words as they are, cut where the two meet, or whole and their beginnings too.
MIXED = ("whole", "cut", "starts")
_BLANKS = re.compile(r"\s\s+")

#: Options of a part that are saved.
KEPT = ("ngram_range", "analyzer", "sublinear_tf", "min_df")


def beginnings(word: str) -> list[str]:
    """A word up to every place where letters, digits and underscores meet.

    >>> beginnings("slc25a4"), beginnings("bird")
    (['slc…', 'slc25…', 'slc25a…'], [])
    """
    return [f"{word[: run.start()]}…" for run in _RUN.finditer(word) if run.start()]


def runs(word: str) -> list[str]:
    """The runs of letters and of digits.

    >>> runs("slc25a4"), runs("bird")
    (['slc', '25', 'a', '4'], ['bird'])
    """
    return _RUN.findall(word)


def word_grams(text: str, shortest: int, longest: int, mixed: str = "whole") -> Iterator[str]:
    """The n-grams of the words of a text; ``mixed`` says what words are that mix letters and digits, one of `MIXED`.

    >>> list(word_grams("A red SLC25A4", 1, 2, "starts"))
    ['a', 'red', 'slc25a4', 'a red', 'red slc25a4', 'slc…', 'slc25…', 'slc25a…']
    >>> list(word_grams("red SLC25", 1, 2, "cut"))
    ['red', 'slc', '25', 'red slc', 'slc 25']
    """
    words = (_RUN if mixed == "cut" else _WORD).findall(text.lower())
    for n in range(shortest, longest + 1):
        yield from words if n == 1 else (" ".join(words[k : k + n]) for k in range(len(words) - n + 1))
    if mixed == "starts":
        for word in words:
            yield from beginnings(word)


def character_grams(text: str, shortest: int, longest: int, within: bool = True) -> Iterator[str]:
    """The character n-grams of a text; ``within`` its words, a blank at either end: one too short for several lengths counts once.

    >>> list(character_grams("ab", 3, 5)), list(character_grams("a  bc", 3, 3, within=False))
    ([' ab', 'ab ', ' ab '], ['a b', ' bc'])
    """
    text = _BLANKS.sub(" ", text.lower())
    for piece in (f" {word} " for word in text.split()) if within else (text,):
        for n in range(shortest, longest + 1):
            last = len(piece) - n
            if within and last <= 0:
                yield piece
                break
            for k in range(last + 1):
                yield piece[k : k + n]


def check_options(options: Any) -> None:
    """Refuse options of a saved part that `text_features` never writes: scikit-learn looks at them only when they are used."""
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


class _Part:
    """One vocabulary with its weights."""

    def __init__(self, words: np.ndarray, idf: np.ndarray, options: dict[str, Any]) -> None:
        self.place = {word: k for k, word in enumerate(words.tolist())}
        if len(self.place) != len(words):
            raise VpunnError("a vocabulary of text features holds a word twice.")
        self.idf, self.sublinear = idf, options["sublinear_tf"]
        shortest, longest = options["ngram_range"]
        kind, mixed = options["analyzer"], mixed_of(options)
        self.grams: Callable[[str], Iterable[str]]
        if kind == "word":
            self.grams = lambda text: word_grams(text, shortest, longest, mixed)
        else:
            self.grams = lambda text: character_grams(text, shortest, longest, kind == "char_wb")

    def rows(self, texts: Iterable[str]) -> sparse.csr_matrix:
        """TF-IDF of the known n-grams, rows of unit length."""
        start, indices, counts = array("q", [0]), array("i"), array("d")
        find = self.place.get
        for text in texts:
            found: dict[int, int] = {}
            for gram in self.grams(text):
                at = find(gram)
                if at is not None:
                    found[at] = found.get(at, 0) + 1
            order = sorted(found)
            indices.extend(order)
            counts.extend([found[at] for at in order])
            start.append(len(indices))
        indptr = np.array(start, np.int64 if len(indices) >= 2**31 else np.int32)
        column, value = np.array(indices, np.int32), np.array(counts, np.float64)
        if self.sublinear:
            np.log(value, out=value)
            value += 1.0
        value *= self.idf[column]
        row = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        length = np.sqrt(np.bincount(row, value * value, len(indptr) - 1))  # adds in order, as scikit-learn does
        length[length == 0] = 1.0
        value /= length[row]
        return sparse.csr_matrix((value, column, indptr), shape=(len(indptr) - 1, len(self.idf)))


class TextReader(Storable):
    """What saved `TextFeatures` make of texts, bit for bit."""

    _stored_as = "TextFeatures"

    def __init__(self, parts: dict[str, _Part]) -> None:
        self.parts = parts

    @classmethod
    def _from_store(cls, stored: Stored) -> Self:
        parts = {}
        for name, options in stored.setting("parts", dict).items():
            words = stored.labels(f"{name}.vocabulary")
            check_options(options)
            idf = stored.array(f"{name}.idf", dtype="f8", shape=(len(words),))
            parts[name] = _Part(words, idf, options)
        return cls(parts)

    def transform(self, texts: Iterable[str]) -> sparse.csr_matrix:
        """One sparse row per text."""
        texts = list(texts)
        made = [part.rows(texts) for part in self.parts.values()]
        return sparse.csr_matrix(sparse.hstack(made))

    def get_feature_names_out(self) -> np.ndarray:
        """What the columns are called."""
        names = [f"{name}__{word}" for name, part in self.parts.items() for word in part.place]
        return np.array(names, dtype=object)
