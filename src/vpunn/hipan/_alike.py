"""Kinds of rows: rows with the same features, where they are many.

All rows of a kind have one answer, so they pass a threshold all at once or not at all. What held-out rows of a kind were told is
spread a little, because each was judged by the experts of its round: a threshold between these numbers may lie on the wrong side
of the one that all new rows of the kind get, a tenth of the answers perhaps. So they are scored by the model that will answer. They
took part in it, but among so many that one hardly moves the answer. (Rows that were held out with all their copies are not: they
stand for texts that nobody has met.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from vpunn.hipan._holdout import same_rows
from vpunn.hipan._views import Rows

Ints = npt.NDArray[np.int64]

#: So many rows that are held out one without another make a kind.
MANY_ALIKE = 20


class Kinds(NamedTuple):
    """The kind ``of`` every row (−1: none), and one row of each as it is read when it is asked."""

    of: Ints
    rows: Rows


def kinds_of_words(words: sparse.csr_matrix) -> Kinds:
    """Kinds by the words alone, before these are rounded."""
    number = same_rows(words, [])
    of, first = _common(number, np.arange(len(number)))
    return Kinds(of, Rows(words[first], {}))


def kinds_of_rows(worded: Kinds, dense: dict[str, npt.NDArray[np.float32]], unit: Ints) -> Kinds:
    """Kinds by the words and the dense blocks that are read; ``unit`` numbers what is held out together."""
    some = np.flatnonzero(worded.of >= 0)  # the others are of no kind already
    blocks = {name: block[some] for name, block in dense.items()}
    alike = same_rows(sparse.csr_matrix((len(some), 0)), list(blocks.values()))
    both = np.unique(np.stack([worded.of[some], alike], 1), axis=0, return_inverse=True)[1].ravel()
    kind, first = _common(both, unit[some])
    of = np.full(len(worded.of), -1)
    of[some] = kind
    words = worded.rows.words[worded.of[some[first]]]
    return Kinds(of, Rows(words, {name: block[first] for name, block in blocks.items()}))


def _common(number: Ints, unit: Ints) -> tuple[Ints, Ints]:
    """The kind of every row, −1 if rows of its ``number`` are in few units, and the first row of each kind.

    >>> of, first = _common(np.repeat([7, 3, 5, 2], [30, 10, 20, 25]), np.append(np.arange(60), [60] * 25))
    >>> np.unique(of).tolist(), of[first].tolist(), first.tolist()  # all rows of number 2 are one unit
    ([-1, 0, 1], [0, 1], [40, 0])
    """
    value, first, at = np.unique(number, return_index=True, return_inverse=True)
    count = np.bincount(np.unique(np.stack([at.ravel(), unit], 1), axis=0)[:, 0], minlength=len(value))
    common = count >= MANY_ALIKE
    return np.where(common, np.cumsum(common) - 1, -1)[at.ravel()], first[common]
