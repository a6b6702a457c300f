"""What a narrow dense block tells about few classes beside balls and angles: each class's own spread, and votes by distance.

The space of a block is whitened by one spread for all classes. But a class may be small inside a wide one (two circles around one
centre) or long where others are round, and in a few columns a class may lie anywhere: then neither centroids nor angles tell it.

- *Quadratic head*: every class has a mean and a spread A of its own, (1 − α) S_c + α I with the shrinkage of `_within` for the rows
  of that class, so that a class of few rows is as wide as all are; a row is as likely as by Student's distribution, which is what
  unsure spreads leave of a normal one.
- *Votes by distance*: the classes of the 16 and of the 64 nearest items, all of those as near as the last, so that where rows
  repeat each other the order of the items says nothing. A class without votes keeps its share of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vpunn.hipan._balls import FEW_CLASSES
from vpunn.hipan._within import usual_doubt

if TYPE_CHECKING:
    from vpunn.hipan._dense import Dense

Floats = npt.NDArray[np.float32]

#: How many of the nearest items vote.
FEWER, MORE = 16, 64
#: Rows that a table must have.
LOCAL_FROM = 100
#: Rows that a spread of all classes is worth, beside one for each column.
PRIOR = 10.0
#: Of rows that were learned later and lie beyond all others a spread keeps at least this share on every axis: less would be lost in
#: its rounding.
LEAST = 1e-12

LOCAL = (
    "quadratic head below the best",
    "log-probability by the quadratic head",
    "log-votes of the nearest items by distance",
    "log-votes of many nearest items by distance",
)


def suits(items: int, classes: int) -> bool:
    """Whether classes get spreads of their own: in smaller tables they are those of all."""
    return items >= LOCAL_FROM and 2 <= classes <= FEW_CLASSES


class Local:
    """The classes of a dense block, each with a spread of its own."""

    def __init__(self, block: Dense, unit: Floats, length: Floats) -> None:
        space, items = block.space, block.items
        assert space is not None
        pull = space.pull.astype(np.float64)
        self.axis = np.sqrt(space.metric * (1.0 + pull / (1.0 + pull)))  # rows of a class spread by one along each
        self.mean = block.own_mean * self.axis
        classes, width = self.mean.shape
        self.root = np.empty((classes, width, width))  # Rᵀ R is the inverse of the spread
        self.constant, self.freedom = np.empty(classes), np.empty(classes)
        place = block.class_at[items.node]
        order = np.argsort(place, kind="stable")
        for k, rows in enumerate(np.split(order, np.searchsorted(place[order], np.arange(1, classes)))):
            weight = items.weight[rows].astype(np.float64)
            weight *= len(rows) / max(float(weight.sum()), 1e-300)
            Z = unit[rows].astype(np.float64) * length[rows][:, None] * self.axis - self.mean[k]
            doubt = usual_doubt(width, len(rows) - 1)
            spread = (1.0 - doubt) * (Z.T * weight) @ Z / max(len(rows) - 1, 1)
            spread += max(doubt, LEAST * float(np.trace(spread))) * np.eye(width)
            low = np.linalg.cholesky(spread * (1.0 + 1.0 / len(rows)))  # a mean is itself unsure
            self.root[k], self.constant[k] = np.linalg.inv(low), -np.log(np.diag(low)).sum()
            self.freedom[k] = len(rows) + PRIOR
        share = np.bincount(place[items.kind == 0], minlength=classes) + 0.5
        share /= share.sum()
        self.constant += np.log(share)
        self.share = np.append(share, 0.5 * share.min())  # last of a class without rows
        memory = block.memory.astype(np.float64)  # rounded directions: not quite of length one
        self.item_square = ((memory**2).sum(1) * block.memory_length**2).astype(np.float32)
        self.item_class = np.where(block.memory_kind == 0, block.class_at[block.memory_node], -1).astype(np.int32)

    def scores(self, unit: Floats, length: Floats, class_of: npt.NDArray[np.int32]) -> Floats:
        """Scores (rows, candidates) by the quadratic head: of the candidates alone, as a model may learn many classes later."""
        from vpunn.hipan.kernels.local import quadratic

        classes = (self.mean, self.root, self.constant, self.freedom)
        return quadratic(unit[:, : len(self.axis)], length, self.axis, classes, class_of)

    def evidence(self, block: Dense, row: tuple[Floats, Floats, Floats], class_of: npt.NDArray[np.int32]) -> Floats:
        """Evidence (rows, candidates + 1, columns) about candidates: ``class_of`` is the place of each among the classes, behind
        them of one without rows, −1 where there is no candidate."""
        from vpunn.hipan.kernels.local import gather_local

        unit, length, near = row
        items = (self.item_square, block.memory_length, self.item_class)
        score = self.scores(unit, length, class_of)
        return gather_local(class_of, length, score, near, items, self.share, (FEWER, MORE))
