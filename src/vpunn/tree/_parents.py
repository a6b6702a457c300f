"""Several parents: the edges a tree could not keep, and what is asked along all of them.

A tree read from a graph has one parent per node and a code per node; the parents it had to leave out stay as *extra
parents*. "Ancestor by any path" means along both kinds of edges. Everything here is a sweep in topological order.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from vpunn._arrays import grouped
from vpunn.errors import TreeError, examples
from vpunn.padic import code_prime
from vpunn.tree._tree_arrays import IntArray, NodeSets, TreeArrays, no_extra


class TreeParents(TreeArrays):
    """The part of `Tree` that looks along extra parents too."""

    @property
    def n_extra(self) -> int:
        """Number of edges to extra parents; 0 for a tree that is only a tree."""
        return len(self.extra_parents[1])

    @cached_property
    def extra_children(self) -> tuple[IntArray, IntArray]:
        """The extra edges from above: ``(start, ids)``; ``ids[start[i]:start[i+1]]`` have ``i`` as an extra parent."""
        start, up = self.extra_parents
        child = np.repeat(np.arange(self.n_nodes, dtype=np.int32), np.diff(start))
        begins, order = grouped(up, self.n_nodes)
        return begins, child[order]

    @cached_property
    def all_parents(self) -> tuple[IntArray, IntArray]:
        """All parents of all nodes: ``(start, ids)``, a node's parent in the tree first, then its extra ones."""
        extra, up = self.extra_parents
        n = self.n_nodes
        start = extra + np.maximum(np.arange(n + 1) - 1, 0)  # every node before but the root has one parent more
        ids = np.empty(n - 1 + len(up), np.int32)
        first = np.zeros(len(ids), bool)
        first[start[1:-1]] = True
        ids[first], ids[~first] = self.parent[1:], up
        return start, ids

    @cached_property
    def topological(self) -> IntArray:
        """All nodes with every parent, extra ones included, before its children; for a plain tree the preorder itself."""
        if not self.n_extra:
            return np.arange(self.n_nodes)
        return topological_order(self.parent, self.extra_parents, self.labels)

    @cached_property
    def longest_depth(self) -> IntArray:
        """Edges on the longest path from the root to each node; the depth, in a plain tree."""
        from vpunn.tree import _closure_kernels as kernels

        return np.asarray(kernels.longest_from_root(self.topological, *self.all_parents))

    def closure(self, sets: Any) -> NodeSets:
        """Sets of nodes with all ancestors of their members by any path, themselves included: ``(start, ids)``, ids ascending.

        ``sets`` is ``(start, ids)`` with an integer array ``start``, or a list of lists of node ids. O(size of the result).

        >>> from vpunn import Tree
        >>> tree = Tree.from_edges([("thing", "pet"), ("thing", "mammal"), ("pet", "dog"), ("mammal", "dog")])
        >>> start, ids = tree.closure([[tree.index("dog")], []])
        >>> start.tolist(), tree.labels[ids].tolist()
        ([0, 4, 4], ['thing', 'pet', 'dog', 'mammal'])
        """
        from vpunn.tree import _closure_kernels as kernels

        start, ids = as_sets(self, sets)
        out, done = np.zeros(len(start), np.int64), 0
        found = np.empty(8 * len(ids) + 64, np.int32)
        while True:
            seen = np.full(self.n_nodes, -1, np.int64)  # afresh: a set that did not fit is walked again
            done = kernels.close_sets(start, ids, *self.all_parents, seen, done, found, out)
            if done == len(start) - 1:
                return _sorted_sets((out, found[: out[-1]]))
            found = np.concatenate([found, np.empty_like(found)])

    def all_ancestors(self, node: int) -> IntArray:
        """Ancestors of a node by any path and the node itself, every parent before its children (the root first)."""
        ids = self.closure(([0, 1], [self._one_node(node)]))[1]
        place = np.empty(self.n_nodes, np.int64)
        place[self.topological] = np.arange(self.n_nodes)
        return ids[np.argsort(place[ids])].astype(np.int64)

    def ball_counts(self, sets: Any = None) -> IntArray:
        """In how many sets some member lies in each node's ball, by any path; a set counts once.

        Without ``sets`` every node is a set of its own: the number of distinct nodes at or below each.
        """
        n = self.n_nodes
        closed = self.closure((np.arange(n + 1), np.arange(n)) if sets is None else sets)[1]
        return np.bincount(closed, minlength=n)

    def root_paths(self, node: int, limit: int = 1000) -> list[tuple[int, ...]]:
        """All paths from the root to a node as tuples of ids, the one in the tree first.

        The number of paths can be exponential, so it is counted first; more than ``limit`` are refused with their number.

        >>> from vpunn import Tree
        >>> tree = Tree.from_edges([("thing", "pet"), ("thing", "mammal"), ("pet", "dog"), ("mammal", "dog")])
        >>> [tree.labels[list(path)].tolist() for path in tree.root_paths(tree.index("dog"))]
        [['thing', 'pet', 'dog'], ['thing', 'mammal', 'dog']]
        """
        from vpunn.tree import _closure_kernels as kernels

        here = self._one_node(node)
        start, up = self.all_parents
        count = kernels.count_root_paths(self.topological, start, up)[here]
        if count > limit:
            many = f"{int(count):,}" if count < 1e15 else f"about {count:.1e}"
            raise TreeError(
                f"{self.labels[here]!r} has {many} paths from the root, more than limit={limit:,}; raise limit."
            )
        done: list[tuple[int, ...]] = []
        open_paths: list[tuple[int, ...]] = [(here,)]
        while open_paths:
            path = open_paths.pop()
            if path[0] == 0:
                done.append(path)
            open_paths += [(int(u), *path) for u in up[start[path[0]] : start[path[0] + 1]][::-1]]
        return done

    def set_valuation(self, u: Any, v: Any) -> IntArray:
        """Valuation of pairs of items that sit at several nodes: the longest beginning that two of their root paths share.

        ``u`` and ``v`` are equally many sets as in `closure`. An item's codes are all root paths of its nodes, so this is
        the largest valuation over pairs of codes: the largest `longest_depth` of a common ancestor by any path. −1 if one
        of the two sets is empty.
        """
        from vpunn.tree import _closure_kernels as kernels

        a, b = self.closure(u), self.closure(v)
        if len(a[0]) != len(b[0]):
            raise TreeError(f"need as many sets on both sides, got {len(a[0]) - 1:,} and {len(b[0]) - 1:,}.")
        return np.asarray(kernels.deepest_shared(*a, *b, self.longest_depth))

    def set_distance(self, u: Any, v: Any, p: int | None = None) -> np.ndarray:
        """Distance of pairs of items that sit at several nodes: the least ``p^{-ν}`` over pairs of their codes.

        0 if the items share a node, NaN if one of them sits nowhere. For single nodes of a plain tree this is the p-adic
        ultrametric. For sets it is **not** ultrametric, nor a metric: two items may both share a node with a third and be
        far from each other.

        >>> from vpunn import Tree
        >>> tree = Tree.from_parents([-1, 0, 0])
        >>> tree.set_distance([[1], [1, 2], [1]], [[1, 2], [2], [2]], p=2)
        array([0., 0., 1.])
        """
        from vpunn.tree import _closure_kernels as kernels

        one, other = (_sorted_sets(as_sets(self, sets)) for sets in (u, v))
        valuation = self.set_valuation(one, other)
        prime = code_prime(self.max_branching) if p is None else p
        same = kernels.deepest_shared(*one, *other, np.zeros(self.n_nodes, np.int32)) >= 0
        far = np.where(valuation < 0, np.nan, float(prime) ** -valuation.astype(float))
        return np.asarray(np.where(same, 0.0, far))


def as_sets(tree: TreeArrays, sets: Any) -> NodeSets:
    """Sets of nodes as checked ``(start, ids)``."""
    if isinstance(sets, tuple) and len(sets) == 2 and np.ndim(sets[0]) == 1 and np.ndim(sets[1]) == 1 and len(sets[0]):
        start, ids = np.asarray(sets[0], np.int64), tree.check_nodes(sets[1])
        if start[0] == 0 and start[-1] == len(ids) and (np.diff(start) >= 0).all():
            return start, ids.astype(np.int32)
    if not isinstance(sets, Iterable) or not all(isinstance(part, Iterable) for part in sets):
        raise TreeError(f"sets of nodes are a list of lists of node ids, or (start, ids), got {examples([sets])}.")
    parts = [list(part) for part in sets]
    ids = tree.check_nodes(np.array([node for part in parts for node in part]))
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64), ids.astype(np.int32)


def _sorted_sets(sets: NodeSets) -> NodeSets:
    start, ids = sets
    owner = np.repeat(np.arange(len(start) - 1), np.diff(start))
    return start, ids[np.lexsort((ids, owner))]


def extra_arrays(parent: np.ndarray, child: np.ndarray, up: np.ndarray, labels: np.ndarray) -> NodeSets:
    """Extra edges (between preorder ids) as ``(start, ids)`` in the given order; edges of the tree and repeats add nothing.

    A cycle through an extra edge is an error.
    """
    n = len(parent)
    child, up = np.asarray(child, np.int64), np.asarray(up, np.int64)
    new = np.flatnonzero(parent[child] != up)
    key = child[new] * n + up[new]
    new = np.sort(new[np.unique(key, return_index=True)[1]])
    if not len(new):
        return no_extra(n)
    begins, order = grouped(child[new], n)
    extra = begins, up[new][order].astype(np.int32)
    topological_order(parent, extra, labels)
    return extra


def topological_order(parent: np.ndarray, extra: NodeSets, labels: np.ndarray) -> np.ndarray:
    """Nodes with every parent before its children; a cycle through an extra edge is an error."""
    from vpunn.tree import dag

    n = len(parent)
    above = np.concatenate([parent[1:], extra[1]]).astype(np.int64)
    below = np.concatenate([np.arange(1, n), np.repeat(np.arange(n), np.diff(extra[0]))])
    return dag.sort_edges(above, below, labels)[2]


def given_extra(extra: Any, n: int, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Child and parent ids of extra edges given as ``(start, ids)`` over positions that ``place`` translates to ids."""
    try:
        start, ids = (np.asarray(part) for part in extra)
        shaped = (
            start.shape == (n + 1,)
            and ids.ndim == 1
            and start.dtype.kind in "iu"
            and (start[0], start[-1]) == (0, len(ids))
        )
        shaped = (
            shaped and bool((np.diff(start.astype(np.int64)) >= 0).all()) and (not len(ids) or ids.dtype.kind in "iu")
        )
    except (TypeError, ValueError, IndexError):
        shaped = False
    if not shaped:
        raise TreeError(
            f"extra_parents is (start, ids) with {n + 1:,} starts from 0 to the number of ids, like child_index."
        )
    bad = ids[(ids < 0) | (ids >= n)] if len(ids) else ids
    if len(bad):
        raise TreeError(f"extra parents {examples(bad)} are outside this tree of {n:,} nodes.")
    ids = ids.astype(np.int64)
    return place[np.repeat(np.arange(n), np.diff(start))], place[ids]


def kept_extra(tree: TreeArrays, nodes: np.ndarray) -> tuple[NodeSets, int]:
    """Extra edges among chosen nodes, as ``(start, ids)`` over positions in ``nodes``, and how many are left out."""
    start, up = tree.extra_parents
    if not len(up):
        return no_extra(len(nodes)), 0
    place = np.full(tree.n_nodes, -1, np.int64)
    place[nodes] = np.arange(len(nodes))
    child = np.repeat(place, np.diff(start))
    inside = (child >= 0) & (place[up] >= 0)
    child, above = child[inside], place[up[inside]]
    begins, order = grouped(child, len(nodes))
    return (begins, above[order]), int(len(up) - inside.sum())


def report_lost(count: int) -> tuple[str, ...]:
    """The report line about extra edges that lead out of a part."""
    return (f"left out {count:,} extra parents that lie outside",) if count else ()


def same_extra(one: TreeParents, other: TreeParents) -> bool:
    """Whether two trees of one shape have the same extra edges; their order does not matter."""
    if one.n_extra != other.n_extra or not one.n_extra:
        return one.n_extra == other.n_extra
    a, b = (_sorted_sets(tree.extra_parents) for tree in (one, other))
    return np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1])


def check_extra(parent: np.ndarray, extra: NodeSets, labels: np.ndarray) -> str:
    """Empty text if these can be the extra parents of a tree, else what is wrong."""
    start, ids = extra
    n = len(parent)
    if len(start) != n + 1 or start[0] != 0 or start[-1] != len(ids) or (np.diff(start) < 0).any():
        return "the starts of the extra parents do not count them."
    if len(ids) == 0:
        return ""
    if ids.min() < 0 or ids.max() >= n:
        return "an extra parent is no node of the tree."
    child = np.repeat(np.arange(n, dtype=np.int64), np.diff(start))
    if (parent[child] == ids).any() or len(np.unique(child * n + ids)) < len(ids):
        return "an extra parent is given twice."
    try:
        topological_order(parent, extra, labels)
    except TreeError as error:
        return str(error)
    return ""
