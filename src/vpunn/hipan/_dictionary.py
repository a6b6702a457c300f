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

    ``by_feature`` is the items' matrix by columns. Of some ``features`` alone, the others stand for nothing.
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
    rows_of = Sparse.of(by_feature)
    if features is not None:
        rows_of = rows_of.entries(np.repeat(np.isin(np.arange(X.shape[1]), features), np.diff(rows_of.indptr)))
    profiles = Sparse(profile_start, profile_feature, profile_value)
    start, meaning, value = kernels.meanings(
        rows_of, items.weight, profiles, usual.astype(np.float32), MEANINGS, np.float32(BLANK_ROWS)
    )
    return sparse.csr_matrix((value, meaning, start), shape=(X.shape[1], X.shape[1]))


class Dictionary:
    """The learned pairs as arrays, and rows read through them."""

    def __init__(self, pairs: sparse.csr_matrix) -> None:
        self.pairs, self._arrays = pairs, Sparse.by_far(pairs)
        self._rooms, self._label = Rooms(), np.zeros(pairs.shape[1], np.int64)

    def read(self, rows: Sparse) -> Sparse:
        """Every row as the features its own stand for, at most READING of them, of unit length."""
        from vpunn.hipan.kernels.dictionary import unit_readings
        from vpunn.hipan.kernels.nearest import nearest_items

        none = filled(len(rows.indptr) - 1, -1, np.int64)
        with self._rooms.one() as room:
            feature, value = nearest_items(rows, none, self._arrays, self._label, READING, room)
        return Sparse(*unit_readings(feature, value))
