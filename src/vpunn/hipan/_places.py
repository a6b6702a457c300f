"""Items that stand where a row stands in a narrow dense block: rows of one city, one postcode, one setting of a machine.

Nearness tells little there: in one or two columns something is near to every row, and by angles all that lies behind it is. Whether
a row was met before decides how much its neighbours count. So where rows of a block repeat each other, those at the very same
place propose their classes, and the combiner learns what they say: the log-share of each class among them, half an item spread over
all classes beside; nothing about rows of other places. Rows of a place leave together or one by one when they are held out
(`_holdout`), so it meets both.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vpunn._rows import slices
from vpunn.hipan._balls import Items
from vpunn.hipan._ram import ROWS_AT_ONCE
from vpunn.hipan._within import WIDE

Floats = npt.NDArray[np.float32]
Nodes = npt.NDArray[np.int32]

PLACED = ("log-share of the items at the row's place",)
#: A block has places if no less than this share of its rows stands where others stand.
REPEATED = 0.1
#: Items that stand for what nobody knows, beside those of a place.
UNKNOWN = 0.5


def repeats(X: npt.NDArray[np.float32]) -> bool:
    """Whether rows of a block stand where others stand, often enough."""
    if X.shape[1] >= WIDE or not len(X):
        return False
    known = X[X.any(1)]
    count = np.unique(keys(known), return_inverse=True, return_counts=True)[1:]
    return bool((count[1][count[0].ravel()] > 1).sum() >= REPEATED * len(X))


def keys(X: npt.NDArray[np.float32]) -> npt.NDArray[np.uint64]:
    """A number for every row, the same for the same row: sums of its bits, each mixed by its column."""
    odd = np.random.default_rng(22).integers(0, 2**63, (2, X.shape[1]), np.uint64) * np.uint64(2) + np.uint64(1)
    out = np.empty(len(X), np.uint64)
    for part in slices(len(X), ROWS_AT_ONCE):
        bits = np.ascontiguousarray(X[part] + np.float32(0)).view(np.uint32).astype(np.uint64)  # minus zero is zero
        mixed = (bits + np.uint64(1)) * odd[0]
        mixed = (mixed ^ (mixed >> np.uint64(31))) * odd[1]
        out[part] = (mixed ^ (mixed >> np.uint64(29))).sum(1, dtype=np.uint64)
    return out


class Places:
    """Which classes the items of every place have, by their weight against the mean."""

    def __init__(self, unit: Floats, length: Floats, items: Items, n_nodes: int) -> None:
        rows = np.flatnonzero((items.kind == 0) & (length > 0))
        weight = items.weight[rows] / max(float(items.weight[rows].mean()), 1e-300) if len(rows) else np.zeros(0)
        self.key, place = np.unique(_standing(unit[rows], length[rows]), return_inverse=True)
        self.size = np.bincount(place.ravel(), weight, minlength=len(self.key))
        self.n_nodes, self.n_classes = n_nodes, len(np.unique(items.node))
        self.pair, at = np.unique(place.ravel() * n_nodes + items.node[rows], return_inverse=True)
        self.count = np.bincount(at.ravel(), weight, minlength=len(self.pair))
        order = np.lexsort((-self.count, self.pair // n_nodes))  # of a place the most frequent first
        self.node = (self.pair % n_nodes)[order].astype(np.int32)
        self.start = np.searchsorted(self.pair // n_nodes, np.arange(len(self.key) + 1))

    def at(self, unit: Floats, length: Floats) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Which of some rows stand at places of items, and at which."""
        asked = _standing(unit, length)
        place = np.minimum(np.searchsorted(self.key, asked), max(len(self.key) - 1, 0))
        met = np.flatnonzero((self.key[place] == asked) & (length > 0)) if len(self.key) else np.zeros(0, np.int64)
        return met, place[met]

    def propose(self, unit: Floats, length: Floats, limit: int) -> Nodes:
        """The most frequent nodes of the place of each row, −1 padded."""
        out = np.full((len(unit), limit), -1, np.int32)
        met, place = self.at(unit, length)
        found = self.start[place, None] + np.arange(limit)
        there = found < self.start[place + 1, None]
        out[met] = np.where(there, self.node[np.where(there, found, 0)], -1)
        return out

    def evidence(self, unit: Floats, length: Floats, candidates: Nodes) -> Floats:
        """Evidence (rows, candidates + 1, columns): zeros for rows of no known place."""
        out = np.zeros((len(unit), candidates.shape[1] + 1, len(PLACED)), np.float32)
        met, place = self.at(unit, length)
        if not len(met):
            return out
        there = candidates[met]
        pair = place[:, None] * self.n_nodes + there
        at = np.minimum(np.searchsorted(self.pair, pair), len(self.pair) - 1)
        count = np.where((self.pair[at] == pair) & (there >= 0), self.count[at], 0.0)
        nobody, total = UNKNOWN / (self.n_classes + 1), np.log(self.size[place] + UNKNOWN)
        out[met, :-1, 0] = np.where(there >= 0, np.log(count + nobody) - total[:, None], 0.0)
        out[met, -1, 0] = np.log(nobody) - total
        return out


def _standing(unit: Floats, length: Floats) -> npt.NDArray[np.uint64]:
    """Keys of rows by their directions and lengths."""
    return keys(np.column_stack([unit, length]))
