"""What texts consist of: words, pairs of words, letters in a row; and what of a text a feature stands for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

import numpy as np

from vpunn._types import Texts
from vpunn.errors import VpunnError, counted, examples

#: A run of letters, digits and underscores; scikit-learn's default drops those of length one.
WORD = r"(?u)\b\w+\b"
#: A run of letters or of digits; a word of several is mixed.
RUN = r"(?u)[^\W\d_]+|\d+"
_WORD, _RUN = re.compile(WORD), re.compile(RUN)
#: What words that mix letters and digits are: words as they are, cut where the two meet, or whole and their beginnings too.
MIXED = ("whole", "cut", "starts")
_BLANKS = re.compile(r"\s\s+")


def checked_texts(X: Texts) -> list[str]:
    """Texts as a list of at least one, each of them a text."""
    if isinstance(X, str | bytes | Mapping | Set) or not isinstance(X, Iterable) or getattr(X, "ndim", 1) != 1:
        shown = type(X).__name__ if isinstance(X, Iterable) and not isinstance(X, str | bytes) else examples([X])
        raise VpunnError(f"texts are given as a list or one column of them, such as ['red', 'blue']; got {shown}.")
    texts = list(X.to_pylist() if hasattr(X, "to_pylist") else X)
    if not texts:
        raise VpunnError("there are no texts; give a list of at least one.")
    other = [k for k, text in enumerate(texts) if not isinstance(text, str | bytes)]
    if other:
        first = texts[other[0]]
        raise VpunnError(
            f"row {other[0]} of the texts is {examples([first]) if np.ndim(first) == 0 else type(first).__name__} "
            f"({counted(len(other), 'row is', 'rows are')} no text); fill in '' where there is none, str(value) for a number."
        )
    try:
        return [text if isinstance(text, str) else text.decode() for text in texts]
    except UnicodeDecodeError as error:
        raise VpunnError(f"bytes among the texts are not UTF-8 ({error}); decode them first.") from None


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


def by_word(
    text: str, features: Iterable[tuple[str, float]], numbers: Mapping[str, Any] | None = None
) -> list[tuple[str, float]]:
    """Contributions of features, summed over the words of a text that they come from; largest first.

    ``features`` are named as `TextFeatures` names them: ``words__red breast`` counts half for each of its words,
    ``characters__bre`` for the words that contain it. So a word is told once, with all its n-grams, and nothing is lost: the
    sum stays the same. ``numbers__price`` is told as ``price=12.5``, its cell as ``numbers`` has it.

    >>> by_word("A red breast", [("words__red", 0.5), ("words__red breast", 0.5), ("characters__bre", -0.125)])
    [('red', 0.75), ('breast', 0.125)]
    >>> by_word("a “red” one", [("characters__ “re", 0.5), ("words__red", 0.25)])
    [('red', 0.75)]
    """
    words = list(dict.fromkeys(re.findall(WORD, text.lower())))
    chunks = [(f" {chunk} ", list(dict.fromkeys(re.findall(WORD, chunk)))) for chunk in text.lower().split()]
    cut: dict[str, list[str]] = {}  # words that mix letters and digits, by their runs
    for word in words:
        for run in runs(word):
            cut.setdefault(run, []).append(word)
    found: dict[str, float] = {}
    for feature, value in features:
        part, _, name = feature.partition("__")
        if part == "numbers" and numbers is not None:
            inside = [f"{name}={numbers[name]}"]
        elif part == "characters":
            inside = [word for word in words if name in f" {word} "]
            if not inside:  # the “ of “profi” belongs to the word
                inside = next((inner for chunk, inner in chunks if name in chunk), [])
        elif name.endswith("…"):
            inside = [word for word in words if name in beginnings(word)]
        else:
            inside = [word for piece in name.split(" ") for word in ([piece] if piece in words else cut.get(piece, []))]
        for word in inside or [name.strip() or feature]:
            found[word] = found.get(word, 0.0) + value / max(len(inside), 1)
    return sorted(found.items(), key=lambda item: (-abs(item[1]), item[0]))
