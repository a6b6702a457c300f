"""The nearest items: the memory of the words, asked as a whole.

Every row is compared with all training items that share a feature with it (exact, by an inverted index); the nearest propose their
nodes, and vote for node, parent and branch, nearer ones more: shares of exp(SHARPNESS · similarity).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from vpunn.hipan._arrays import Rooms, Sparse
from vpunn.tree import Tree

#: Items that vote.
VOTERS = 16
#: How much nearer items outvote farther ones.
SHARPNESS = 8.0
#: Votes without which no logarithm is taken.
FAINT = 0.01

EVIDENCE = (
    "votes of the nearest items for the node",
    "votes of the nearest items for the parent",
    "votes of the nearest items for the branch",
    "log-votes of the nearest items for the node",
)

Floats = npt.NDArray[np.float32]
Nodes = npt.NDArray[np.int32]


class Nearest:
    """The items of the words by feature (``index``), and the node of each."""

    def __init__(self, tree: Tree, branch: Nodes, node: Nodes, index: sparse.csc_matrix) -> None:
        self.node = node.astype(np.int32)
        self.parent, self.branch = np.asarray(tree.parent), branch
        self.index = index
        self.label = np.zeros(len(self.node), np.int64)
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
        return NearestLook(self, item, similarity)

    def closest(
        self,
        X: sparse.csr_matrix,
        limit: int,
        own: npt.NDArray[Any] | None = None,
        label: npt.NDArray[Any] | None = None,
    ) -> tuple[Nodes, Floats]:
        """The ``limit`` nearest items of each row, those whose ``label`` is the row's ``own`` left out; −1 padded."""
        from vpunn.hipan.kernels.nearest import nearest_items

        own = np.full(X.shape[0], -1, np.int64) if own is None else own
        label = self.label if label is None else label
        with self.rooms.one() as room:
            return nearest_items(
                Sparse.of(X), own, Sparse.of(self.index), label, min(limit, max(len(self.node), 1)), room
            )


@dataclass
class NearestLook:
    """What the nearest items say about some rows."""

    memory: Nearest
    item: Nodes
    similarity: Floats

    def propose(self, limit: int) -> list[Nodes]:
        """The nodes of the nearest items, at most ``limit``."""
        node = np.where(self.item >= 0, self.memory.node[self.item], -1).astype(np.int32)
        return [once(node)[:, :limit]]

    def evidence(self, candidates: Nodes) -> Floats:
        """Evidence (rows, candidates + 1, columns)."""
        memory = self.memory
        there = self.item >= 0
        vote = np.where(there, np.exp(SHARPNESS * (self.similarity - self.similarity[:, :1])), 0.0)
        vote /= np.maximum(vote.sum(1, keepdims=True), 1e-12)
        node = memory.node[self.item]
        out = np.zeros((len(candidates), candidates.shape[1] + 1, len(EVIDENCE)), np.float32)
        for k, of in enumerate((np.arange(len(memory.parent)), memory.parent, memory.branch)):
            voter, asked = np.where(there, of[node], -9), of[candidates]
            for v in range(voter.shape[1]):
                out[:, :-1, k] += np.where(asked == voter[:, v, None], vote[:, v, None], 0.0)
        out[:, :-1, :3][candidates < 0] = 0
        out[:, :, 3] = np.log(out[:, :, 0] + FAINT)
        return out


def once(nodes: Nodes) -> Nodes:
    """Repeated nodes of a row replaced by −1 behind their first, and all −1 moved to the end."""
    out = nodes.copy()
    for j in range(1, nodes.shape[1]):
        out[(nodes[:, :j] == nodes[:, j : j + 1]).any(1), j] = -1
    return np.take_along_axis(out, np.argsort(out < 0, axis=1, kind="stable"), 1)
