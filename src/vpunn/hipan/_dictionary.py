"""A dictionary learned from the classes: which features of a row stand for which features of the class it belongs to.

A row that says "breakdown" belongs to a class whose other rows say "catabolic", whatever the class. The dictionary collects such
pairs over all classes: entry (f, g) is how much more of feature g the rest of the class holds, on average, when a row has
feature f. A row read through it is compared with nodes that share none of its own features. It belongs to the root ball,
because it holds for all classes alike, and follows from the training rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from vpunn.hipan._arrays import Rooms, Sparse, filled
from vpunn.hipan._ram import give_back

if TYPE_CHECKING:
    from vpunn.hipan._balls import Items


#: Strongest features of the rest of a class that a row is paired with.
PROFILE = 16
#: Meanings kept per feature.
MEANINGS = 16
#: Features kept of a row read through the dictionary.
READING = 32
#: A feature's meanings are averaged over its rows and this many rows without any meaning.
BLANK_ROWS = 3.0


def learn_dictionary(
    items: Items, by_feature: sparse.csc_matrix, n_nodes: int, features: np.ndarray | None = None
) -> sparse.csr_matrix:
    """Features × features. Every row is paired with the other rows of its class, itself left out. O(non-zeros · PROFILE).

    ``by_feature`` is the items' matrix by columns. Of some ``features`` alone, the others stand for nothing; and of those that mean
    the same one alone (`meaning_as`).
    """
    X = items.X
    if not len(X.data) or X.data.min() < 0:
        return sparse.csr_matrix(
            (X.shape[1], X.shape[1]), dtype=np.float32
        )  # signed features have no words to translate
    from vpunn.hipan.kernels import dictionary as kernels

    rows = X.shape[0]
    membership = sparse.csr_matrix(
        (items.weight, (items.node, np.arange(rows))), shape=(n_nodes, rows), dtype=np.float32
    )
    sums = sparse.csr_matrix(membership @ X)
    sums.sort_indices()
    profile_start, profile_feature, profile_value = kernels.profiles(
        Sparse.of(X), items.node, items.weight, sums, PROFILE
    )
    del membership, sums
    give_back()
    paired = max(int(np.count_nonzero(np.diff(profile_start))), 1)
    usual = np.bincount(profile_feature, profile_value, minlength=X.shape[1]) / paired
    wanted, alike = np.zeros(X.shape[1], bool), meaning_as(by_feature)
    wanted[alike if features is None else alike[features]] = True
    rows_of = Sparse.of(by_feature)
    rows_of = rows_of.entries(np.repeat(wanted, np.diff(rows_of.indptr)))
    profiles = Sparse(profile_start, profile_feature, profile_value)
    start, meaning, value = kernels.meanings(
        rows_of, items.weight, profiles, usual.astype(np.float32), MEANINGS, np.float32(BLANK_ROWS)
    )
    return sparse.csr_matrix((value, meaning, start), shape=(X.shape[1], X.shape[1]))


def meaning_as(by_feature: sparse.csc_matrix) -> np.ndarray:
    """For every feature one that means the same: itself, or, of those that one row alone has, the last one of this row.

    All of these mean what the rest of the row's class holds, whatever their value. Of texts they are most of the features.

    >>> meaning_as(sparse.csc_matrix([[1, 2, 0, 3], [1, 0, 0, 0], [0, 0, 4, 0]])).tolist()
    [0, 3, 2, 3]
    """
    alike = np.arange(by_feature.shape[1], dtype=np.int32)
    once = alike[np.diff(by_feature.indptr) == 1]
    entry = by_feature.indptr[once]
    once, row = once[by_feature.data[entry] > 0], by_feature.indices[entry][by_feature.data[entry] > 0]
    last = np.zeros(by_feature.shape[0], np.int32)
    last[row] = once
    alike[once] = last[row]
    return alike


class Dictionary:
    """The learned pairs as arrays, and rows read through them; ``by_feature`` is the items' matrix by columns."""

    def __init__(self, pairs: sparse.csr_matrix, by_feature: sparse.csc_matrix) -> None:
        self.pairs, self._arrays, self._alike = pairs, Sparse.by_far(pairs), meaning_as(by_feature)
        self._rooms, self._label = Rooms(), np.zeros(pairs.shape[1], np.int64)

    def read(self, rows: Sparse) -> Sparse:
        """Every row as the features its own stand for, at most READING of them, of unit length."""
        from vpunn.hipan.kernels.dictionary import unit_readings
        from vpunn.hipan.kernels.nearest import nearest_items

        none, rows = filled(len(rows.indptr) - 1, -1, np.int64), rows._replace(indices=self._alike[rows.indices])
        with self._rooms.one() as room:
            feature, value = nearest_items(rows, none, self._arrays, self._label, READING, room)
        return Sparse(*unit_readings(feature, value))
