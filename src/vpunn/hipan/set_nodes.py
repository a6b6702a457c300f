"""The nodes that rows with several labels are asked about, and the edges among them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from vpunn.hipan._kernel import at, kernel
from vpunn.tree import Tree


class Nodes(NamedTuple):
    """The nodes that are, or have below them, a label of some row; not the root. Parents by any edge, in places among these."""

    node: np.ndarray  # (nodes,) of the tree, ascending
    start: np.ndarray  # (nodes + 1,) of the parents of each
    parent: np.ndarray
    order: np.ndarray  # (nodes,) parents before children
    depth: np.ndarray  # (nodes,)

    @classmethod
    def of(cls, tree: Tree, node: np.ndarray) -> Nodes:
        """O(nodes and edges of the tree)."""
        first, up = tree.all_parents
        place = np.full(tree.n_nodes, -1, np.int64)
        place[node] = np.arange(len(node))
        child = place[np.repeat(np.arange(tree.n_nodes), np.diff(first))]
        inside = (child >= 0) & (place[up] >= 0)
        start = np.concatenate([[0], np.cumsum(np.bincount(child[inside], minlength=len(node)))])
        order = place[tree.topological]
        depth = np.asarray(tree.depth)[node].astype(np.int64)
        return cls(node, start, place[up[inside]].astype(np.int32), order[order >= 0], depth)

    def agreed(self, p: np.ndarray) -> np.ndarray:
        """Probabilities (rows, nodes) no larger than those of any parent: half the largest of a node and what is below it, half
        the least of a node and what is above it."""
        high, low = p.copy(), p.copy()
        _raise(self.start, self.parent, self.order, high)
        _lower(self.start, self.parent, self.order, low)
        return np.asarray((high + low) / 2)

    def raised(self, p: np.ndarray) -> np.ndarray:
        """The largest of a node and what is below it."""
        high = p.copy()
        _raise(self.start, self.parent, self.order, high)
        return high


def closed_sets(tree: Tree, sets: tuple[np.ndarray, np.ndarray]) -> sp.csr_matrix:
    """Sets of nodes ``(start, ids)`` with all ancestors by any edge but the root, (sets, nodes) of 0 and 1."""
    start, ids = tree.closure(sets)
    table = sp.csr_matrix((np.ones(len(ids), np.float32), ids, start), shape=(len(start) - 1, tree.n_nodes))
    table.data[table.indices == 0] = 0
    table.eliminate_zeros()
    return table


def has(table: sp.csr_matrix, row: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Which pairs are in a table of 0 and 1."""
    width = np.int64(table.shape[1])
    mine = np.repeat(np.arange(table.shape[0], dtype=np.int64), np.diff(table.indptr)) * width + table.indices
    return np.isin(row * width + place, mine)


@kernel
def _raise(start, parent, order, p):
    for r in range(len(p)):
        for i in range(len(order) - 1, -1, -1):
            v = order[at(i)]
            for e in range(start[at(v)], start[at(v + 1)]):
                u = parent[at(e)]
                p[r, at(u)] = max(p[r, at(u)], p[r, at(v)])


@kernel
def _lower(start, parent, order, p):
    for r in range(len(p)):
        for i in range(len(order)):
            v = order[at(i)]
            for e in range(start[at(v)], start[at(v + 1)]):
                p[r, at(v)] = min(p[r, at(v)], p[r, at(parent[at(e)])])
