"""Columns of a sparse table that hold numbers, not words: latitude, age or price beside one-hot columns.

Rows of words are read by their direction. A latitude of 45 beside ones makes all rows point the same way, so such columns are taken
apart and become a dense block with scales of their own. Words that nearly every text has are left where they are, but for those
that are counted many times more often than others; a dense block reads these as well.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

Ints = npt.NDArray[np.int64]

#: A column is full if so many of the rows have it; one that some rows have is judged if at least so many have it.
FULL, SOME = 0.9, 0.01
#: Fewer rows than this do not tell what a column holds, and so many do.
ENOUGH_ROWS, LOOKED_AT = 20, 20_000
#: Values of either sign: the share of the rarer one at least. Words have none, and hashed words fill no column.
SIGNED = 0.02
#: How many times what other columns usually hold a full column of whole numbers must hold, and any column.
LARGE, DROWNING = 10.0, 30.0
#: More columns than this that only some rows have and whose values differ are a vocabulary; dense they would take far more room.
FEW_NUMBERS = 64
#: Rows are of one length if their lengths differ no more than by this share.
ONE_LENGTH = 1e-3


def number_columns(X: sparse.csr_matrix) -> Ints:
    """The columns of a table without stored zeros that hold numbers.

    A full column is one if it has values of either sign. Unless all rows have one length, it is one as well if it holds much larger
    ones than other columns do; so is a column that only some rows have, if it would drown all others. Where the others are
    no vocabulary, fractions make a full column one, and beside one-hot columns every column of which the values differ is one.

    >>> place = np.array([[45.1 + k % 7, 9.3 - k % 5] for k in range(40)])
    >>> number_columns(sparse.csr_matrix(np.hstack([place, np.eye(4)[np.arange(40) % 4]]))).tolist()
    [0, 1]
    """
    if X.shape[0] > LOOKED_AT:
        X = X[np.linspace(0, X.shape[0] - 1, LOOKED_AT).astype(np.int64)]
    n, width = X.shape
    if n < ENOUGH_ROWS or not X.nnz:
        return np.zeros(0, np.int64)
    size, column = np.abs(X.data), X.indices
    filled = np.bincount(column, minlength=width)
    there = np.maximum(filled, 1)
    typical = np.bincount(column, size, minlength=width) / there
    negative = np.bincount(column[X.data < 0], minlength=width) / there
    full = filled >= FULL * n
    found = full & (np.minimum(negative, 1.0 - negative) >= SIGNED)
    if _one_length(X):
        return np.flatnonzero(found)
    varies = np.bincount(column, (size - typical[column]) ** 2, minlength=width) > 1e-9 * there * typical**2
    fractions = np.bincount(column[X.data != np.rint(X.data)], minlength=width) > 0
    others = ~full & (filled > 0)
    few = (varies & others).sum() <= FEW_NUMBERS
    if few:
        found |= full & varies & fractions
    if not others.any():
        return np.flatnonzero(found | (full & varies & found.any()))
    usual = float(np.median(typical[others]))
    found |= full & varies & (typical >= LARGE * usual)
    drowning = varies & (filled >= max(SOME * n, ENOUGH_ROWS)) & (typical >= DROWNING * usual)
    if (drowning & ~full).sum() <= FEW_NUMBERS:
        found |= drowning
    if few and _one_hot(X, varies):
        found |= varies
    return np.flatnonzero(found)


def _one_hot(X: sparse.csr_matrix, varies: npt.NDArray[np.bool_]) -> bool:
    """Whether rows have equally many of the columns that hold but one value: one for each categorical column."""
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    count = np.bincount(row[~varies[X.indices]], minlength=X.shape[0])
    return bool(count.any() and np.bincount(count)[1:].max() >= FULL * X.shape[0])


def _one_length(X: sparse.csr_matrix) -> bool:
    """Whether all rows that are not empty have the same length, or the same sum."""
    start = X.indptr[:-1][np.diff(X.indptr) > 0]
    lengths = (np.sqrt(np.add.reduceat(X.data**2, start)), np.add.reduceat(np.abs(X.data), start))
    return any(np.ptp(length) <= ONE_LENGTH * length.max() for length in lengths)
