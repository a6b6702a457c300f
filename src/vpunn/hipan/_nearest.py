"""The nearest items: the memory of the words, asked as a whole.

Every row is compared with all training items that share a feature with it (exact, by an inverted index); the nearest propose their
nodes, and vote for node, parent and branch, nearer ones more: shares of exp(SHARPNESS · similarity).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from vpunn.hipan._arrays import Rooms, Sparse, filled
from vpunn.tree import Tree

#: Items that vote.
VOTERS = 16
#: How much nearer items outvote farther ones.
SHARPNESS = 8.0
#: Entries from which on looking at few of the common features pays for compiling a loop that does.
PRUNING = 300_000
#: How often a row must meet every item, on average, for products with all of them to be quicker.
CROWDED = 4.0
#: Votes without which no logarithm is taken.
LEAST_VOTES = 0.01

EVIDENCE = (
    "votes of the nearest items for the node",
    "votes of the nearest items for the parent",
    "votes of the nearest items for the branch",
    "log-votes of the nearest items for the node",
)

Floats = npt.NDArray[np.float32]
Nodes = npt.NDArray[np.int32]


class Nearest:
    """The items of the words, also by feature (``by_feature``, its arrays in ``index``), and the node of each."""

    def __init__(
        self, tree: Tree, branch: Nodes, node: Nodes, items: sparse.csr_matrix, index: sparse.csc_matrix
    ) -> None:
        self.node = node.astype(np.int32)
        self.parent, self.branch = np.array(tree.parent), branch
        self.items, self.by_feature, self.index = Sparse.of(items), index, Sparse.by_far(index)
        self.label = np.zeros(len(self.node), np.int64)
        self._node_or_none = np.append(self.node, np.int32(-1))  # item −1 is none
        self.rooms = Rooms()

    def names(self) -> tuple[str, ...]:
        """Evidence columns."""
        return EVIDENCE

    def ranked(self) -> tuple[str, ...]:
        """Of these, those by which candidates are ranked."""
        return ()

    def look(self, X: sparse.csr_matrix) -> NearestLook:
        """The nearest items of some rows."""
        item, similarity = self.closest(X, VOTERS)
        return NearestLook(self, item, similarity, self._node_or_none[item])

    def closest(
        self,
        X: sparse.csr_matrix,
        limit: int,
        own: npt.NDArray[Any] | None = None,
        label: npt.NDArray[Any] | None = None,
    ) -> tuple[Nodes, Floats]:
        """The ``limit`` nearest items of each row, those whose ``label`` is the row's ``own`` left out; −1 padded."""
        from vpunn.hipan.kernels.nearest import nearest_among_all, nearest_items, nearest_of

        own = filled(X.shape[0], -1, np.int64) if own is None else own
        label = self.label if label is None else label
        rows, index, limit = Sparse.of(X), self.index, min(limit, max(len(self.node), 1))
        with self.rooms.one() as room:
            if len(self.index.data) < PRUNING or self.most is None or X.data.min(initial=0) < 0:
                return nearest_items(rows, own, index, label, limit, room)
            if self.crowded:
                return nearest_among_all(rows, own, index, label, limit, room)
            return nearest_of(rows, own, index, self.items, self.longest, self.most, label, limit, room)

    @cached_property
    def crowded(self) -> bool:
        """Whether a row like the items meets each of them several times: then reading few of its features saves nothing."""
        often = np.diff(self.index.indptr).astype(np.float64)
        return bool(often @ often > CROWDED * len(self.node) ** 2)

    @cached_property
    def longest(self) -> int:
        """Most features of an item."""
        return int(np.diff(self.items.indptr).max(initial=1))

    @cached_property
    def most(self) -> Floats | None:
        """The largest value of each feature in any item; None if some are negative."""
        start, data = self.index.indptr, self.index.data
        most = np.zeros(len(start) - 1, np.float32)
        if len(data):
            some = np.flatnonzero(start[1:] > start[:-1])
            most[some] = np.maximum.reduceat(data, start[some])
        return most if data.min(initial=0) >= 0 else None


@dataclass
class NearestLook:
    """What the nearest items say about some rows."""

    memory: Nearest
    item: Nodes
    similarity: Floats
    node: Nodes  #: of each item, −1 where there is none

    def propose(self, limit: int) -> list[Nodes]:
        """The nodes of the nearest items, which may repeat."""
        return [self.node]

    def evidence(self, candidates: Nodes) -> Floats:
        """Evidence (rows, candidates + 1, columns)."""
        from vpunn.hipan.kernels.nearest import add_votes

        memory = self.memory
        vote = np.exp(SHARPNESS * (self.similarity - self.similarity[:, :1]))
        vote *= self.item >= 0
        vote /= np.maximum(vote.sum(1, keepdims=True), 1e-12)
        out = np.zeros((len(candidates), candidates.shape[1] + 1, len(EVIDENCE)), np.float32)
        add_votes(candidates, self.node, vote, memory.parent, memory.branch, out)
        out[:, :, 3] = np.log(out[:, :, 0] + LEAST_VOTES)
        return out
