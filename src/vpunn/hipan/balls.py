"""The blocks of numbers that belong to balls: sums of training rows, counts, and head weights, in one sparse layout."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from vpunn.sweeps import sweep_up
from vpunn.tree import Tree

#: Features in more blocks than this get a direct block → entry table.
FREQUENT = 500
#: Features in more blocks than this do not propose candidates (they still count as evidence).
PROPOSING = 800
#: Memory for the direct tables, in entries; the most frequent features come first.
TABLE_ENTRIES = 20_000_000


def writable(array: np.ndarray) -> np.ndarray:
    """The array, copied only if it is read-only (memory-mapped models): one compiled version of every kernel is enough."""
    return np.require(array, requirements=["C", "W"])


@dataclass
class Items:
    """Training rows: features (unit length), the node of each, its weight, and whether it is a node's own description."""

    X: sparse.csr_matrix
    node: np.ndarray
    weight: np.ndarray
    is_description: np.ndarray

    def __post_init__(self) -> None:
        X = self.X
        self.X = sparse.csr_matrix((writable(X.data), writable(X.indices), writable(X.indptr)), shape=X.shape)
        self.node, self.weight, self.is_description = map(writable, (self.node, self.weight, self.is_description))

    def __reduce__(self) -> tuple[Any, ...]:
        return Items, (self.X, self.node, self.weight, self.is_description)

    def take(self, rows: np.ndarray) -> Items:
        """Some of the rows."""
        return Items(self.X[rows], self.node[rows], self.weight[rows], self.is_description[rows])


@dataclass
class Balls:
    """Everything the kernels read, built once from the items in O(non-zeros · depth).

    ``sums`` holds, for every ball, the weighted sum of the rows in it: block ``c`` the rows at node ``c``, block
    ``N + u`` those in the subtree of inner node ``u`` (one sweep up; the root is left out, it separates nothing).
    """

    tree: Tree
    items: Items
    feature_start: np.ndarray = field(init=False)
    entry_block: np.ndarray = field(init=False)
    entry_sum: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        tree, items = self.tree, self.items
        n = tree.n_nodes
        rows = items.X.shape[0]
        self.parent, self.inner = np.array(tree.parent), ~tree.is_leaf
        self.depth, self.n_children = np.array(tree.depth), np.array(tree.n_children)
        membership = sparse.csr_matrix((items.weight, (items.node, np.arange(rows))), shape=(n, rows), dtype=np.float32)
        own = sparse.csr_matrix(membership @ items.X)
        subtrees = _inner_balls(tree) @ own
        matrix = sparse.vstack([own, subtrees]).tocsc()
        matrix.sort_indices()
        self.feature_start = matrix.indptr.astype(np.int64)
        self.entry_block = matrix.indices.astype(np.int32)
        self.entry_sum = matrix.data.astype(np.float32)
        by_ball = matrix.tocsr()
        self.norm2 = np.asarray(by_ball.multiply(by_ball).sum(1)).ravel().astype(np.float32)
        self.mass = np.asarray(by_ball.sum(1)).ravel().astype(np.float32)
        spread = np.asarray(own.sum(0), dtype=np.float64).ravel()
        self.background = (spread / max(spread.sum(), 1e-12)).astype(np.float32)
        self.use_likelihood = bool(len(items.X.data) == 0 or items.X.data.min() >= 0)
        examples = np.bincount(items.node[~items.is_description], items.weight[~items.is_description], minlength=n)
        self.counts = np.concatenate([examples, sweep_up(tree, examples)]).astype(np.float32)
        self.classes = np.flatnonzero(np.bincount(items.node, minlength=n)).astype(np.int32)
        self._tables()
        order = np.argsort(items.node, kind="stable")
        order = order[~items.is_description[order]]
        self.class_start = np.zeros(n + 1, np.int64)
        np.cumsum(np.bincount(items.node[order], minlength=n), out=self.class_start[1:])
        self.class_items = order.astype(np.int64)
        described = np.flatnonzero(items.is_description)
        pick = sparse.csr_matrix(
            (np.ones(len(described), np.float32), (items.node[described], described)), shape=(n, rows)
        )
        self.descriptions = sparse.csr_matrix(pick @ items.X)

    def _tables(self) -> None:
        """Direct block → entry rows for the most frequent features."""
        count = np.diff(self.feature_start)
        n_blocks = 2 * self.tree.n_nodes
        frequent = np.flatnonzero(count > FREQUENT)
        frequent = frequent[np.argsort(-count[frequent], kind="stable")][: max(TABLE_ENTRIES // n_blocks, 1)]
        self.dense_row = np.full(len(count), -1, np.int32)
        self.dense_row[frequent] = np.arange(len(frequent))
        self.dense_entry = np.full((max(len(frequent), 1), n_blocks), -1, np.int32)
        for row, f in enumerate(frequent):
            part = slice(self.feature_start[f], self.feature_start[f + 1])
            self.dense_entry[row, self.entry_block[part]] = np.arange(part.start, part.stop)

    def __reduce__(self) -> tuple[Any, ...]:
        return Balls, (self.tree, self.items)  # the rest follows from these

    @property
    def n_entries(self) -> int:
        """Number of (ball, feature) pairs that hold a number."""
        return len(self.entry_block)

    def keys(self) -> np.ndarray:
        """One sorted integer per entry that names its (feature, ball): carries weights from one layout to a grown one."""
        feature = np.repeat(np.arange(len(self.feature_start) - 1), np.diff(self.feature_start))
        return feature * np.int64(2 * self.tree.n_nodes) + self.entry_block


def _inner_balls(tree: Tree) -> sparse.csr_matrix:
    """Membership of nodes in the balls of inner nodes below the root: entry (u, v) is 1 if v lies in u's slice."""
    u = np.flatnonzero(~tree.is_leaf)
    u = u[u > 0]
    size = tree.size[u].astype(np.int64)
    start = np.concatenate([[0], np.cumsum(size)])
    columns = np.arange(start[-1]) - np.repeat(start[:-1] - u, size)
    indptr = np.zeros(tree.n_nodes + 1, np.int64)
    indptr[u + 1] = size
    indptr = np.cumsum(indptr)
    return sparse.csr_matrix((np.ones(len(columns), np.float32), columns, indptr), shape=(tree.n_nodes, tree.n_nodes))
