"""The blocks of numbers that belong to balls: sums of training rows, counts, and head weights, in one sparse layout."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from vpunn.hipan._dictionary import learn_dictionary
from vpunn.hipan._nearest import Nearest
from vpunn.tree import Tree
from vpunn.tree.sweeps import sweep_up

#: Features in more blocks than this get a direct block → entry table.
FREQUENT = 500
#: Entries a row may read to open candidates and to score them, its rarest features first (all features count as evidence).
PROPOSING = 1_500, 5_000
#: Items of a node that a row is compared with one by one; larger nodes are known well enough by their sums.
MEMORY = 64
#: Depth-1 balls that are compared with each other as a whole, at most.
BRANCHES = 64
#: So many classes are all candidates of every row.
FEW_CLASSES = 64
#: Memory for the direct tables, in entries; the most frequent features come first.
TABLE_ENTRIES = 20_000_000


def writable(array: np.ndarray) -> np.ndarray:
    """The array, copied only if it is read-only (memory-mapped models): one compiled version of every kernel is enough."""
    return np.require(array, requirements=["C", "W"])


@dataclass
class Items:
    """Training rows: features (unit length), the node, weight and kind of each: 0 for a row, k for a node's k-th description."""

    X: Any
    node: np.ndarray
    weight: np.ndarray
    kind: np.ndarray

    def __post_init__(self) -> None:
        X = self.X
        self.node, self.weight, self.kind = map(writable, (self.node, self.weight, self.kind))
        if isinstance(X, np.ndarray):  # a dense block
            self.X = writable(X)
            return
        self.X = sparse.csr_matrix((writable(X.data), writable(X.indices), writable(X.indptr)), shape=X.shape)

    def __reduce__(self) -> tuple[Any, ...]:
        return Items, (self.X, self.node, self.weight, self.kind)

    def take(self, rows: np.ndarray) -> Items:
        """Some of the rows."""
        return Items(self.X[rows], self.node[rows], self.weight[rows], self.kind[rows])

    def joined(self, more: Items) -> Items:
        """These rows and more of them."""
        dense = isinstance(self.X, np.ndarray)
        X = np.concatenate([self.X, more.X]) if dense else sparse.csr_matrix(sparse.vstack([self.X, more.X]))
        arrays = zip((self.node, self.weight, self.kind), (more.node, more.weight, more.kind), strict=True)
        return Items(X, *(np.concatenate(pair) for pair in arrays))


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
        mass = np.asarray(by_ball.sum(1)).ravel()
        kinds = np.diff(by_ball.indptr)
        typical = (
            by_ball.data[: by_ball.indptr[n]].mean() if by_ball.indptr[n] else 1.0
        )  # mean sum of an entry of a node
        # Witten and Bell: a ball that has met many different features for its mass expects more new ones.
        self.news = (kinds * typical / np.maximum(mass + kinds * typical, 1e-12)).astype(np.float32)
        self.news[kinds == 0] = 1.0
        self.seen = ((1 - self.news) / np.maximum(mass, 1e-12)).astype(np.float32)
        spread = np.asarray(own.sum(0), dtype=np.float64).ravel()
        self.background = (spread / max(spread.sum(), 1e-12)).astype(np.float32)
        self.use_likelihood = bool(len(items.X.data) == 0 or items.X.data.min() >= 0)
        row = items.kind == 0
        examples = np.bincount(items.node[row], items.weight[row], minlength=n)
        self.counts = np.concatenate([examples, sweep_up(tree, examples)]).astype(np.float32)
        self.classes = np.flatnonzero(np.bincount(items.node, minlength=n)).astype(np.int32)
        self.branch_of = branches(tree)
        self.nearest = Nearest(tree, self.branch_of, items)
        self._tables()
        self.dictionary = learn_dictionary(items, n)
        # The memory: the items once more, sorted by node, so that those of a node are read in one sweep.
        order = np.lexsort((-items.kind.astype(np.int8), items.node))  # descriptions first
        self.memory, self.memory_kind, self.memory_weight = items.X[order], items.kind[order], items.weight[order]
        start = np.searchsorted(items.node[order], np.arange(n + 1))
        self.memory_span = np.stack([start[:-1], np.minimum(start[1:], start[:-1] + MEMORY)], 1)
        self.n_kinds = int(items.kind.max(initial=0))

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
        return np.asarray(feature * np.int64(2 * self.tree.n_nodes) + self.entry_block)


def branches(tree: Tree) -> np.ndarray:
    """For every node the number, from 1, of the depth-1 ball it lies in (0: the root, or there are too many to compare)."""
    first = np.flatnonzero(tree.depth == 1)
    if not 2 <= len(first) <= BRANCHES:
        return np.zeros(tree.n_nodes, np.int32)
    return np.searchsorted(first, np.arange(tree.n_nodes), side="right").astype(np.int32)


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
