"""The nearest items by a learned measure: all blocks at once, and every number as much as it tells.

"The same player and nearly the same year" is a property of an item, not of a class: experts that read one block each cannot say it.
Here an item i is as near to a row as

    α · ⟨words, words_i⟩ − Σ_k β_k (z_k − z_ik)²

over the columns k of all narrow dense blocks, standardised. α and the β_k are learned (`_measuring`), so that of the items nearest
to rows held out those of their own class count most. The nearest propose their nodes and vote, each by the exponential of its
nearness.

Cost: a row is compared with all items, column by column: tables of more than `MOST` numbers have no such expert.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from vpunn.hipan._arrays import Rooms, Sparse
from vpunn.hipan._balls import Balls
from vpunn.hipan._views import Rows, says
from vpunn.hipan._within import WIDE
from vpunn.tree import Tree

#: Items that vote, and those of them that propose.
VOTERS, PROPOSERS = 32, 16
#: Numbers (items times columns) that a row is compared with at most: a fifth of a millisecond.
MOST = 500_000

EVIDENCE = (
    "votes of the nearest items by the measure for the node",
    "votes of the nearest items by the measure for the parent",
    "votes of the nearest items by the measure for the branch",
    "log-votes of the nearest items by the measure for the node",
    "nearest item by the measure, below the best",
)
RANKED = EVIDENCE[4:]
#: No weight is larger, so that the largest numbers can be squared.
HEAVIEST = 1000.0

Floats = npt.NDArray[np.float32]
Nodes = npt.NDArray[np.int32]


def numbers_of(rows: Rows, left_out: Sequence[str] = ()) -> Floats:
    """The columns of all narrow blocks side by side, (rows, columns): where columns are many none of them tells much by itself."""
    blocks = [block for name, block in rows.dense.items() if block.shape[1] < WIDE and name not in left_out]
    return np.concatenate([np.zeros((len(rows), 0), np.float32), *blocks], 1)


class Measure:
    """The items by all narrow blocks, and the weights of the words and of every column."""

    speaker = "learned measure"  #: what `explain` calls it, as it belongs to no block

    def __init__(self, tree: Tree, balls: Balls, numbers: Floats, weight: Floats, proposes: bool = True) -> None:
        self.balls, self.numbers, self.weight = balls, numbers, np.asarray(weight, np.float32)
        self.proposes = proposes
        self.parent = np.array(tree.parent)
        self.scale = np.sqrt(self.weight[1:])
        self.columns = np.ascontiguousarray((numbers * self.scale).T)
        self.node = np.append(balls.items.node, -1).astype(np.int32)  # item −1 is none
        self.start = np.where(balls.items.kind == 0, 0.0, -np.inf).astype(np.float32)  # descriptions are no rows
        self.rooms = Rooms()

    def names(self) -> tuple[str, ...]:
        """Evidence columns."""
        return EVIDENCE

    def ranked(self) -> tuple[str, ...]:
        """Of these, those by which candidates are ranked."""
        return RANKED

    def weighted(self, weight: Floats) -> Measure:
        """The same with other weights."""
        return Measure(self.balls.tree, self.balls, self.numbers, weight)

    def look(self, rows: Rows) -> MeasureLook:
        """The nearest items of some rows."""
        item, nearness = self.closest(rows, VOTERS)
        return MeasureLook(self, nearness, self.node[item])

    def closest(self, rows: Rows, limit: int) -> tuple[Nodes, Floats]:
        """The ``limit`` nearest items of each row and how near they are, nearest first; −1 padded."""
        from vpunn.hipan.kernels.measure import nearest_by_measure

        index = Sparse.by_far(sparse.csc_matrix((len(self.start), 0), dtype=np.float32))
        if rows.words.shape[1]:
            index = self.balls.nearest.index
        at, limit = self.placed(rows) * self.scale, min(limit, max(len(self.start), 1))
        with self.rooms.one() as room:
            return nearest_by_measure(
                Sparse.of(rows.words), at, index, self.columns, self.start, self.weight[0], limit, room
            )

    @staticmethod
    def placed(rows: Rows) -> Floats:
        """The numbers of some rows; NaN in blocks in which a row says nothing."""
        blocks = {name: block.copy() for name, block in rows.dense.items() if block.shape[1] < WIDE}
        for name, block in blocks.items():
            block[~says(rows.dense[name])] = np.nan
        return numbers_of(Rows(rows.words, blocks))


@dataclass
class MeasureLook:
    """What the nearest items by the measure say about some rows."""

    memory: Measure
    nearness: Floats
    node: Nodes  #: of each item, −1 where there is none

    def propose(self, limit: int) -> list[Nodes]:
        """The nodes of the nearest items, which may repeat."""
        return [np.ascontiguousarray(self.node[:, :PROPOSERS])] if self.memory.proposes else []

    def evidence(self, candidates: Nodes) -> Floats:
        """Evidence (rows, candidates + 1, columns)."""
        from vpunn.hipan.kernels.measure import gather_votes

        memory = self.memory
        out = np.zeros((len(candidates), candidates.shape[1] + 1, len(EVIDENCE)), np.float32)
        gather_votes(candidates, self.node, self.nearness, memory.parent, memory.balls.branch_of, out)
        return out
