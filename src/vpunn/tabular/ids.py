"""Semantic ids: short unique names for embedding vectors, such that near vectors share a prefix.

The K leading digits come from balanced k-means splits (see `grow_kmeans`); vectors that still share a ball are told
apart by a collision digit. The result is a tree whose leaves are the vectors, so an id is a p-adic code, every prefix
is a ball, and |x − y|_p is small for near vectors. With p = 256 a digit is one byte.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vpunn._seed import seed_of
from vpunn._types import Features, Numbers, Seed
from vpunn.errors import DataError, VpunnError, check_choice, refuse_lazy
from vpunn.store import Draft, Storable, Stored
from vpunn.tabular._growing import BallTree, grow_kmeans
from vpunn.tree import Tree

METRICS = ("euclidean", "cosine")
#: Ids of more leading digits than this are a mistake: every vector would have room for all of them.
LONGEST = 1000


@dataclass(frozen=True)
class SemanticIds(Storable):
    """Ids of a set of vectors.

    ``digits[i]`` is the id of vector ``i``: digits from 1 to p − 1, padded with 0; ``tree`` has one node per vector,
    ``node[i]``, a leaf unless vectors added later stand below it; ``n_collisions`` vectors needed a collision digit.
    """

    p: int
    K: int
    digits: np.ndarray
    tree: Tree
    node: np.ndarray
    n_collisions: int
    metric: str
    balls: BallTree

    def __len__(self) -> int:
        return len(self.digits)

    def text(self, i: int) -> str:
        """One id as text, digits joined by dots."""
        return ".".join(str(d) for d in self.digits[i] if d)

    def assign(self, vectors: Features) -> np.ndarray:
        """Leading digits (n × K) of vectors, seen or not: the ball they fall into, without a collision digit."""
        leaf = self.balls.router.route(_as_rows(vectors, self.metric))
        return _path_digits(self.balls.tree, leaf, self.K)

    def index(self, digits: Numbers) -> np.ndarray:
        """The vector of each id: the inverse of ``digits``, −1 where no vector has it. Zeros on the right do not count."""
        rows = np.atleast_2d(np.asarray(digits, np.int64))
        start, child = self.tree.child_index
        node = np.zeros(len(rows), np.int64)
        ended, good = np.zeros(len(rows), bool), np.ones(len(rows), bool)
        for digit in rows.T:
            good &= (digit >= 0) & (digit <= np.where(ended, 0, self.tree.n_children[node]))
            ended |= digit == 0
            step = good & ~ended
            node[step] = child[start[node[step]] + digit[step] - 1]
        item = np.full(self.tree.n_nodes, -1, np.int64)
        item[self.node] = np.arange(len(self.node))
        return np.where(good, item[node], -1)

    def add(self, vectors: Features) -> SemanticIds:
        """Ids with more vectors: the old ids stay as they are, each new vector goes into the ball it falls into.

        It takes the next free digit below that ball, or below one of its children where all p − 1 are taken. Old ids may
        thereby become prefixes of new ones, which `PrefixTrie` knows.
        """
        rows = _as_rows(vectors, self.metric)
        width = self.balls.router.prototypes.shape[1]
        if rows.shape[1] != width:
            raise VpunnError(f"new vectors need {width} numbers each, as the old ones; got {rows.shape[1]}.")
        leaf = self.balls.router.route(rows)
        start, child = self.tree.child_index
        at = np.zeros(len(rows), np.int64)  # the same ball in the tree of ids, found by its digits
        for digit in _path_digits(self.balls.tree, leaf, self.K).T:
            step = digit > 0
            at[step] = child[start[at[step]] + digit[step] - 1]
        parent, fresh = _hang(self.tree.parent.astype(np.int64), at, self.p - 1)
        tree = Tree.from_parents(parent)
        position = np.empty(tree.n_nodes, np.int64)
        position[tree.labels] = np.arange(tree.n_nodes)
        node = np.concatenate([position[self.node], position[fresh]])
        balls = replace(self.balls, leaf=np.concatenate([self.balls.leaf, leaf.astype(self.balls.leaf.dtype)]))
        digits = _path_digits(tree, node, max(self.K, int(tree.max_depth)))
        shared = self.n_collisions + len(rows)
        return SemanticIds(self.p, self.K, digits, tree, node, shared, self.metric, balls)

    def _to_store(self, draft: Draft) -> None:
        draft.settings |= {
            "p": int(self.p),
            "K": int(self.K),
            "metric": self.metric,
            "n_collisions": int(self.n_collisions),
        }
        draft.add("tree", self.tree)
        draft.add("balls", self.balls.tree)
        draft.array("node", self.node)
        self.balls.put(draft)

    @classmethod
    def _from_store(cls, stored: Stored) -> SemanticIds:
        tree, p, K = stored.get("tree", Tree), stored.setting("p", int), stored.setting("K", int)
        balls = BallTree.get(stored, stored.get("balls", Tree))
        if not max(balls.tree.max_depth, 1) <= K <= LONGEST or p <= max(tree.max_branching, 2):
            raise DataError(
                f"{str(stored.path)!r}: ids of K={K} digits below p={p} cannot name {tree.n_nodes:,} nodes like these; "
                "the model is damaged."
            )
        node = stored.array("node", dtype="i8", shape=balls.leaf.shape, low=0, high=tree.n_nodes)
        digits = _path_digits(tree, node, max(K, int(tree.max_depth)))
        many, metric = stored.setting("n_collisions", int), stored.setting("metric", str)
        check_choice("metric", metric, METRICS)
        return cls(p, K, digits, tree, node, many, metric, balls)


def semantic_ids(
    vectors: Features, p: int = 256, K: int = 3, *, metric: str = "euclidean", random_state: Seed = 0
) -> SemanticIds:
    """Give each vector (a row) a unique id of at most ``K`` leading digits below ``p`` and, if needed, a collision digit.

    A ball of m vectors with r levels left is split into min(p − 1, ⌈m^(1/r)⌉) balls of about equal size.
    ``metric="cosine"`` scales vectors to length 1 first. More than p − 1 vectors in one ball (equal vectors, say) take
    as many collision digits as they need. Same seed, same ids. O(n·d·K·branching).

    >>> random = np.random.default_rng(0)
    >>> centres = 10 * random.normal(size=(4, 8))
    >>> ids = semantic_ids(np.repeat(centres, 3, axis=0) + random.normal(size=(12, 8)), p=256, K=2)
    >>> len(np.unique(ids.digits, axis=0))
    12
    >>> [len(np.unique(group)) for group in ids.digits[:, 0].reshape(4, 3)]  # each cluster has one leading digit
    [1, 1, 1, 1]
    """
    if p < 3 or not 1 <= K <= LONGEST:
        raise VpunnError(f"semantic ids need p ≥ 3 and K from 1 to {LONGEST:,}; got p={p}, K={K}.")
    rows = _as_rows(vectors, metric)
    balls = grow_kmeans(rows, p - 1, K, seed=seed_of(random_state))
    tree, node, shared = _tell_apart(balls, p - 1)
    width = max(K, int(tree.max_depth))
    return SemanticIds(p, K, _path_digits(tree, node, width), tree, node, shared, metric, balls)


def _as_rows(vectors: Features, metric: str) -> np.ndarray:
    refuse_lazy(vectors)
    check_choice("metric", metric, METRICS)
    rows = np.ascontiguousarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or not len(rows) or not np.isfinite(rows).all():
        raise VpunnError(
            f"vectors must be a non-empty table of finite numbers, one vector a row; got shape {rows.shape}."
        )
    if metric == "cosine":
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows / np.where(length > 0, length, 1.0)
    return rows


def _path_digits(tree: Tree, nodes: np.ndarray, width: int) -> np.ndarray:
    """Digits from the root to each node, padded with 0 to ``width``."""
    path = tree.paths(nodes)[:, 1:]
    digits = np.zeros((len(nodes), width), np.int32)
    digits[:, : path.shape[1]] = np.where(path >= 0, tree.digit[path], 0)
    return digits


def _tell_apart(balls: BallTree, children: int) -> tuple[Tree, np.ndarray, int]:
    """Hang the rows of every crowded ball below it, in as many levels as ``children`` a level require."""
    leaf = balls.leaf
    order = np.argsort(leaf, kind="stable")
    _, first, size = np.unique(leaf[order], return_index=True, return_counts=True)
    rank = np.empty(len(leaf), np.int64)
    rank[order] = np.arange(len(leaf)) - np.repeat(first, size)
    crowd = np.empty(len(leaf), np.int64)
    crowd[order] = np.repeat(size, size)
    parent = balls.tree.parent.astype(np.int64)
    at, step = leaf.astype(np.int64).copy(), np.ones(len(leaf), np.int64)
    crowded = np.flatnonzero(crowd > 1)
    shared = len(crowded)
    while True:  # the widest group of ranks that still needs a digit sets the step, so siblings fill up evenly
        step[crowded] = 1
        while len(crowded) and (wide := -(-crowd[crowded] // step[crowded]) > children).any():
            step[crowded[wide]] *= children
        if not len(crowded):
            break
        part = rank[crowded] // step[crowded]
        key, place = np.unique(np.column_stack([at[crowded], part]), axis=0, return_inverse=True)
        at[crowded] = len(parent) + place.ravel()
        parent = np.concatenate([parent, key[:, 0]])
        rank[crowded] %= step[crowded]
        crowd[crowded] = np.bincount(place.ravel())[place.ravel()]
        crowded = crowded[crowd[crowded] > 1]
    tree = Tree.from_parents(parent)
    position = np.empty(len(parent), np.int64)
    position[tree.labels] = np.arange(len(parent))
    return tree, position[at], shared


def _hang(parent: np.ndarray, at: np.ndarray, children: int) -> tuple[np.ndarray, np.ndarray]:
    """Parent pointers with one new leaf per entry of ``at``, and the leaves: below ``at`` while that node has fewer than
    ``children``, else below its children in turn, and so on down."""
    place, waiting = at.copy(), np.arange(len(at))
    leaf = np.empty(len(at), np.int64)
    while len(waiting):
        taken = np.bincount(parent[1:], minlength=len(parent))
        order = waiting[np.argsort(place[waiting], kind="stable")]
        nodes, first, size = np.unique(place[order], return_index=True, return_counts=True)
        rank, room = np.arange(len(order)) - np.repeat(first, size), np.repeat(children - taken[nodes], size)
        fits = rank < room
        leaf[order[fits]] = len(parent) + np.arange(int(fits.sum()))
        parent = np.concatenate([parent, place[order[fits]]])
        waiting, over = order[~fits], (rank - room)[~fits]
        kids = np.argsort(parent, kind="stable")  # the root's pointer, −1, comes first
        place[waiting] = kids[np.searchsorted(parent[kids], place[waiting]) + over % children]
    return parent, leaf


def prefix_recall(
    ids: SemanticIds, vectors: Features, k: int = 10, queries: int = 1000, seed: int = 0
) -> list[dict[str, float]]:
    """How many of a vector's ``k`` nearest neighbours share its first j digits, for each j.

    Per depth: ``recall``; ``candidates``, the mean number of other vectors that share the prefix; and ``chance``, the
    recall of as many random candidates. A good id has recall far above chance.
    """
    from sklearn.neighbors import NearestNeighbors

    rows = _as_rows(vectors, ids.metric)
    n = len(rows)
    if k >= n:
        raise VpunnError(f"recall of {k} neighbours needs more than {k} vectors; got {n}.")
    chosen = np.random.default_rng(seed).choice(n, min(queries, n), replace=False)
    near = NearestNeighbors(n_neighbors=k + 1).fit(rows).kneighbors(rows[chosen], return_distance=False)
    # drop the query itself; among equal vectors it may not come first, or not at all
    own = near == chosen[:, None]
    own[~own.any(axis=1), -1] = True
    near = near[~own].reshape(len(chosen), k)
    depth = ids.tree.lca_depth(np.repeat(ids.node[chosen], k), ids.node[near.ravel()])
    found = []
    path = ids.tree.paths(ids.node[chosen])
    for j in range(1, ids.K + 1):
        ball = path[:, min(j, ids.tree.max_depth)]
        ball = np.where(ball >= 0, ball, ids.node[chosen])
        size = ids.tree.leaf_counts[ball] - 1.0
        recall, candidates = float((depth >= j).mean()), float(size.mean())
        found.append({"digits": j, "recall": recall, "candidates": candidates, "chance": candidates / (n - 1)})
    return found
