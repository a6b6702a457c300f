"""The blocks of numbers that belong to balls: sums of training rows, counts, and head weights, in one sparse layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from vpunn._rows import slices
from vpunn.hipan._arrays import Alone, Ancestry, Entries, Memory, Places, Rooms, Sparse
from vpunn.hipan._dictionary import Dictionary, learn_dictionary
from vpunn.hipan._nearest import Nearest
from vpunn.hipan._ram import give_back
from vpunn.tree import Tree
from vpunn.tree.sweeps import sweep_up

#: Features in more blocks than this get a table of their blocks: from there on a look into it is quicker than reading them all.
FREQUENT = 100
#: Entries a row may read to open candidates and to score them, its rarest features first (all features count as evidence).
PROPOSING = 1_500, 5_000
#: Items of a node that a row is compared with one by one, at most: sums and the nearest items of all tell the rest. On validation
#: rows 16 are as good as 64 and half the work; folders that do not say how many were made with those.
MEMORY, MEMORY_ONCE = 16, 64
#: Depth-1 balls that are compared with each other as a whole, at most.
BRANCHES = 64
#: So many classes are all candidates of every row.
FEW_CLASSES = 64
#: Memory for these tables, in words of 32 blocks; the most frequent features come first.
TABLE_WORDS = 500_000
#: Features whose tables are filled at once.
TABLES_AT_ONCE = 64
#: What a model file keeps of the balls, so that loading it is no work: entries by feature, numbers of balls and features, and two
#: sparse matrices (the items by feature, the dictionary) in three parts each.
ENTRIES = "feature_start", "entry_block", "entry_sum"
MEASURES = "norm2", "seen", "news", "background"
PARTS = "data", "indices", "indptr"


def writable(array: np.ndarray) -> np.ndarray:
    """The array, copied only if it is read-only (memory-mapped models): one compiled version of every kernel is enough."""
    flags = array.flags
    return array if flags.writeable and flags.c_contiguous else np.require(array, requirements=["C", "W"])


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


class Balls:
    """Everything the kernels read, built once from the items in O(non-zeros · depth).

    ``sums`` holds, for every ball, the weighted sum of the rows in it: block ``c`` the rows at node ``c``, block
    ``N + u`` those in the subtree of inner node ``u`` (one sweep up; the root is left out, it separates nothing).
    What takes long to build is one of the `derived` arrays; a saved model brings them along as ``made``.
    ``by_likelihood``: whether nodes are also proposed by how likely a row is by their own rows.
    """

    def __init__(
        self,
        tree: Tree,
        items: Items,
        made: Mapping[str, np.ndarray] | None = None,
        remembers: int = MEMORY,
        by_likelihood: bool = False,
    ) -> None:
        self.tree, self.items, self.remembers, self.by_likelihood = tree, items, remembers, by_likelihood
        n = tree.n_nodes
        self.parent, self.inner = np.array(tree.parent), ~tree.is_leaf
        self.depth, self.n_children = np.array(tree.depth), np.array(tree.n_children)
        self.use_likelihood = bool(len(items.X.data) == 0 or items.X.data.min() >= 0)
        row = items.kind == 0
        examples = np.bincount(items.node[row], items.weight[row], minlength=n)
        self.counts = np.concatenate([examples, sweep_up(tree, examples)]).astype(np.float32)
        self.classes = np.flatnonzero(np.bincount(items.node, minlength=n)).astype(np.int32)
        self.branch_of = branches(tree)
        if made is not None and "nearest.data" in made:
            rows, words = items.X.shape
            by_feature = sparse.csc_matrix(tuple(made[f"nearest.{part}"] for part in PARTS), shape=(rows, words))
            self.nearest = Nearest(tree, self.branch_of, items.node, items.X, by_feature)
            pairs = tuple(made[f"dictionary.{part}"] for part in PARTS)
            self.dictionary = Dictionary(sparse.csr_matrix(pairs, shape=(words, words)), by_feature)
        made = _sums(tree, items) if made is None else made
        self.feature_start, self.entry_block, self.entry_sum = (made[name] for name in ENTRIES)
        self.norm2, self.seen, self.news, self.background = (made[name] for name in MEASURES)
        self.n_kinds = int(items.kind.max(initial=0))
        self.ancestry, self.places = (
            Ancestry(self.parent, self.inner),
            Places(self.depth, self.n_children, self.branch_of),
        )
        self.rooms = Rooms()

    @cached_property
    def entries(self) -> Entries:
        """Which blocks hold a number at a feature; made for the first row that is asked."""
        tables = _tables(self.feature_start, self.entry_block, 2 * self.tree.n_nodes)
        return Entries(self.feature_start, self.entry_block, *tables)

    @cached_property
    def alone(self) -> Alone:
        """What the likelihood by a node's own rows takes: all that was met, over the mean number of nodes that have a feature."""
        n = self.tree.n_nodes
        seen, news = self.seen[:n].astype(np.float64), self.news[:n].astype(np.float64)
        mass = np.divide(1.0 - news, seen, out=np.zeros(n), where=seen > 0).clip(
            0, 1e30
        )  # sums of signed numbers may be less
        entries, features = int((self.entry_block < n).sum()), int((self.background > 0).sum())
        expected = max(float(mass.sum()) * features / max(entries, 1), 1e-12)
        return Alone(np.float32(expected), np.log1p(mass / expected).astype(np.float32))

    @cached_property
    def memory(self) -> Memory:
        """The items by node; made for the first row that is asked."""
        return _memory(self.items, self.tree.n_nodes, self.remembers)

    @cached_property
    def nearest(self) -> Nearest:
        """The items by feature; unless a file brought them, made for the first row that is asked."""
        return Nearest(self.tree, self.branch_of, self.items.node, self.items.X, self.items.X.tocsc())

    @cached_property
    def dictionary(self) -> Dictionary:
        """What features of rows stand for; unless a file brought it, made for the first row that is asked."""
        return self._dictionary()

    def _dictionary(self, features: np.ndarray | None = None) -> Dictionary:
        by_feature = self.nearest.by_feature
        return Dictionary(learn_dictionary(self.items, by_feature, self.tree.n_nodes, features), by_feature)

    def complete(self) -> Balls:
        """Make what takes long and only rows that are asked need: training goes without, which is when memory is short."""
        _ = self.nearest, self.dictionary
        return self

    @contextmanager
    def ready_for(self, words: sparse.csr_matrix) -> Iterator[None]:
        """What some rows need to be asked, made here because several threads would each make it: unless there is a dictionary of
        all features, one of theirs, which is a fraction as large, and gone afterwards."""
        _ = self.nearest
        if "dictionary" in self.__dict__:
            yield
            return
        self.dictionary = self._dictionary(np.unique(words.indices))
        try:
            yield
        finally:
            del self.dictionary

    def derived(self) -> dict[str, np.ndarray]:
        """The arrays that take long to build, by name."""
        found = {name: getattr(self, name) for name in (*ENTRIES, *MEASURES)}
        return found | _named("nearest", self.nearest.by_feature) | _named("dictionary", self.dictionary.pairs)

    def __reduce__(self) -> tuple[Any, ...]:
        """What is there goes along and nothing is made for it: processes that train need the sums alone."""
        whole = {"nearest", "dictionary"} <= self.__dict__.keys()
        made = self.derived() if whole else {name: getattr(self, name) for name in (*ENTRIES, *MEASURES)}
        return Balls, (self.tree, self.items, made, self.remembers, self.by_likelihood)

    @property
    def n_entries(self) -> int:
        """Number of (ball, feature) pairs that hold a number."""
        return len(self.entry_block)

    def keys(self) -> np.ndarray:
        """One sorted integer per entry that names its (feature, ball): carries weights from one layout to a grown one."""
        feature = np.repeat(np.arange(len(self.feature_start) - 1), np.diff(self.feature_start))
        return np.asarray(feature * np.int64(2 * self.tree.n_nodes) + self.entry_block)


def _named(name: str, kept: sparse.csr_matrix | sparse.csc_matrix) -> dict[str, np.ndarray]:
    """The arrays of a sparse matrix under the names a model file has for them."""
    return {f"{name}.{part}": getattr(kept, part) for part in PARTS}


def _sums(tree: Tree, items: Items) -> dict[str, np.ndarray]:
    """The sums of all balls by feature, and what follows from them for balls and features."""
    n, rows = tree.n_nodes, items.X.shape[0]
    membership = sparse.csr_matrix((items.weight, (items.node, np.arange(rows))), shape=(n, rows), dtype=np.float32)
    own = sparse.csr_matrix(membership @ items.X)
    spread = np.asarray(own.sum(0), dtype=np.float64).ravel()
    stacked = sparse.vstack([own, _inner_balls(tree) @ own])
    del own
    give_back()
    matrix = stacked.tocsc()
    del stacked
    matrix.sort_indices()
    by_ball = matrix.tocsr()
    mass = np.asarray(by_ball.sum(1)).ravel()
    kinds = np.diff(by_ball.indptr)
    typical = by_ball.data[: by_ball.indptr[n]].mean() if by_ball.indptr[n] else 1.0  # mean sum of an entry of a node
    # Witten and Bell: a ball that has met many different features for its mass expects more new ones.
    news = (kinds * typical / np.maximum(mass + kinds * typical, 1e-12)).astype(np.float32)
    news[kinds == 0] = 1.0
    by_ball.data *= by_ball.data
    return {
        "feature_start": matrix.indptr.astype(np.int64),
        "entry_block": matrix.indices.astype(np.int32, copy=False),
        "entry_sum": matrix.data.astype(np.float32, copy=False),
        "norm2": np.asarray(by_ball.sum(1)).ravel().astype(np.float32),
        "seen": ((1 - news) / np.maximum(mass, 1e-12)).astype(np.float32),
        "news": news,
        "background": (spread / max(spread.sum(), 1e-12)).astype(np.float32),
    }


def _memory(items: Items, n_nodes: int, most: int) -> Memory:
    """The items of every node once more, ``most`` at the most, sorted by node, so that they are read in one sweep."""
    key = items.node.astype(np.int64) * 128 - items.kind  # of a node descriptions first, the last kind in front
    order = np.argsort(key, kind="stable")
    first = np.searchsorted(items.node[order], np.arange(n_nodes))
    order = order[np.arange(len(order)) - first[items.node[order]] < most]
    words, start = items.X[order], np.searchsorted(items.node[order], np.arange(n_nodes + 1))
    longest = int(np.diff(words.indptr).max(initial=1))
    return Memory(
        np.stack([start[:-1], start[1:]], 1), items.kind[order], items.weight[order], Sparse.of(words), longest
    )


def _tables(feature_start: np.ndarray, entry_block: np.ndarray, n_blocks: int) -> tuple[np.ndarray, np.ndarray]:
    """For the most frequent features, which blocks have one: a row number for every feature (−1: none), and rows of pairs, 32
    blocks each: a bit per block, and how many entries of the feature come before."""
    count = np.diff(feature_start)
    words = -(-n_blocks // 32)
    frequent = np.flatnonzero(count > FREQUENT)
    frequent = frequent[np.argsort(-count[frequent], kind="stable")][: max(TABLE_WORDS // words, 1)]
    row_of = np.full(len(count), -1, np.int32)
    row_of[frequent] = np.arange(len(frequent))
    table = np.zeros((max(len(frequent), 1), words, 2), np.uint32)
    for part in slices(len(frequent), TABLES_AT_ONCE):
        _fill_tables(table[part].reshape(-1, 2), feature_start[frequent[part]], count[frequent[part]], entry_block)
    return row_of, table


def _fill_tables(table: np.ndarray, start: np.ndarray, size: np.ndarray, entry_block: np.ndarray) -> None:
    """Write the rows of some features, whose entries begin at ``start``."""
    words = len(table) // len(size)
    before = np.cumsum(size) - size
    block = entry_block[np.arange(size.sum()) + np.repeat(start - before, size)]
    word = np.repeat(np.arange(len(size)) * words, size) + (block >> 5)
    first = np.flatnonzero(np.diff(word, prepend=-1))  # of the entries in each word, which stand side by side
    if len(first):
        bits = np.left_shift(np.uint32(1), (block & 31).astype(np.uint32))
        table[word[first], 0] = np.bitwise_or.reduceat(bits, first)
        table[word[first], 1] = first - before[word[first] // words]


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
