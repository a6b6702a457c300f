"""Cells: where a dense block has many items, a row is compared with those that lie about where it does.

Directions of items are gathered around some centres (k-means by angle: a fixed draw of items, a fixed number of rounds). A row
looks into the twelfth of the cells whose centres lie nearest to it, 72 at most, and compares itself with everything there: items,
means and centroids of classes. Products are exact, so neither the batch nor the number of threads changes what a row finds; what
lies in other cells it does not find. `benchmarks.ann` tells how much that is, and what an index of other libraries would find.

Cost: as many products a row as there are cells, and those with a twelfth of the items, or O(√items) from 47,000 items on;
O(items · cells) to make them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vpunn._rows import slices
from vpunn.hipan._arrays import Asked
from vpunn.hipan._directions import directed, padded

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]

#: Items from which on a dense block has cells. Products with all of fewer leave 2,000 answers a second, and cells cost a little:
#: with the 36,000 items of GO molecular function and a light encoder 0.004 of exact accuracy on validation rows (when rows looked
#: into an eighth of the cells).
CELLS_FROM = 40_000
#: Cells for each root of the number of items.
PER_ROOT = 4
#: A row looks into one of this many cells, and no more than so many: the finer they are, the more of what is near lies there.
ONE_IN = 12
MOST_CELLS = 72
#: Items for each cell that the centres are made of, and how often they move.
DRAWN = 32
ROUNDS = 6
#: Items that are compared with all centres at once.
COMPARED_AT_ONCE = 4096


@dataclass
class Cells:
    """Centres (`exactly` directions, `padded`) and the cell of every item."""

    centre: Floats
    of_item: Ints

    @classmethod
    def of(cls, unit: Floats) -> Cells:
        """The cells of some items, by their directions."""
        rng = np.random.default_rng(0)
        number = int(PER_ROOT * np.sqrt(len(unit)))
        drawn = unit[np.sort(rng.permutation(len(unit))[: DRAWN * number])]
        centre = drawn[np.sort(rng.permutation(len(drawn))[:number])]
        for _ in range(ROUNDS):
            cell = nearest_centre(drawn, centre)
            order = np.argsort(cell, kind="stable")
            some, first = np.unique(cell[order], return_index=True)  # an empty cell stays where it is
            centre[some] = directed(np.add.reduceat(drawn[order].astype(np.float64), first))[0]
        return cls(padded(centre), nearest_centre(unit, centre))

    def starts(self, cell: Ints) -> npt.NDArray[np.int64]:
        """From where to where those of each cell stand, given the ``cell`` of each, which must rise."""
        return np.searchsorted(cell, np.arange(len(self.centre) + 1)).astype(np.int64)

    def asked(self, unit: Floats, few: int | None = None) -> Asked:
        """The cells that rows look into: the nearest ``few``, and those as near as the last of these; none for rows of zeros."""
        score = unit @ self.centre.T
        few = min(max(score.shape[1] // ONE_IN, 1), MOST_CELLS) if few is None else few
        bar = np.partition(score, score.shape[1] - few, axis=1)[:, -few]
        bar[~unit.any(1)] = np.inf  # all centres are as near to them
        cell, row = np.nonzero((score >= bar[:, None]).T)
        bound = np.searchsorted(cell, np.arange(score.shape[1] + 1))
        return Asked(row, bound[:-1], bound[1:])


def nearest_centre(unit: Floats, centre: Floats) -> Ints:
    """The centre nearest to each direction, the first among equals."""
    parts = [np.argmax(unit[part] @ centre.T, axis=1) for part in slices(len(unit), COMPARED_AT_ONCE)]
    return np.concatenate(parts).astype(np.int32)
