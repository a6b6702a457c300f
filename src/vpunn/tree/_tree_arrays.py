"""The arrays of a tree, frozen, and what is counted, looked up and asked of them. Node ids in, node ids out."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from vpunn._arrays import frozen, grouped, paired
from vpunn._types import OneOrMany
from vpunn.errors import TreeError, examples
from vpunn.store import Storable
from vpunn.tree._packed import PackedCode
from vpunn.tree.sweeps import sweep_up

IntArray = np.ndarray
#: Node ids: one integer or an array of them.
Nodes = int | np.integer | Sequence[int] | np.ndarray
#: Sets of nodes, one after the other: set ``s`` is ``ids[start[s]:start[s + 1]]``.
NodeSets = tuple[np.ndarray, np.ndarray]


class TreeArrays(Storable):
    """What a `Tree` consists of; it adds construction, names, new trees and files, `TreeParents` the extra parents."""

    parent: IntArray
    depth: IntArray
    size: IntArray
    digit: IntArray
    labels: np.ndarray
    columns: Mapping[str, np.ndarray]
    report: tuple[str, ...]
    extra_parents: tuple[IntArray, IntArray]

    def __init__(
        self,
        parent: IntArray,
        depth: IntArray,
        size: IntArray,
        digit: IntArray,
        labels: np.ndarray,
        columns: Mapping[str, np.ndarray] | None = None,
        report: Sequence[str] = (),
        extra_parents: NodeSets | None = None,
    ) -> None:
        """For internal use: the arrays must already be a valid preorder (see `check_tree`), extra parents acyclic."""
        for name, array in (("parent", parent), ("depth", depth), ("size", size), ("digit", digit)):
            array = np.ascontiguousarray(array, dtype=np.int32)
            self.__dict__[name] = frozen(array)
        self.__dict__["labels"] = frozen(labels)
        self.__dict__["columns"] = {key: frozen(np.asarray(value)) for key, value in (columns or {}).items()}
        self.__dict__["report"] = tuple(report)
        start, ids = no_extra(len(parent)) if extra_parents is None else extra_parents
        self.__dict__["extra_parents"] = (frozen(np.asarray(start, np.int64)), frozen(np.asarray(ids, np.int32)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"a Tree is frozen; cannot set {name!r}. Build a changed tree instead (insert, subtree, …)."
        )

    # ---- counts and simple views ---------------------------------------------------------------------------------

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.parent)

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def is_leaf(self) -> np.ndarray:
        """Boolean array: which nodes have no children."""
        return frozen(self.size == 1)

    @cached_property
    def leaves(self) -> IntArray:
        """Ids of the leaves, in preorder."""
        return frozen(np.flatnonzero(self.is_leaf).astype(np.int32))

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.leaves)

    @cached_property
    def max_depth(self) -> int:
        """K: edges on the longest path from the root, which is the number of digits of the longest code."""
        return int(self.depth.max())

    @cached_property
    def max_branching(self) -> int:
        """Largest number of children of any node."""
        return int(self.digit.max())

    @cached_property
    def n_children(self) -> IntArray:
        """Number of children of every node."""
        return frozen(np.bincount(self.parent[1:], minlength=self.n_nodes).astype(np.int32))

    @cached_property
    def leaf_counts(self) -> IntArray:
        """Number of leaves below every node (a leaf counts itself): a running sum read at both ends of each slice."""
        return self.subtree_sum(self.is_leaf.astype(np.int32)).astype(np.int32)

    def subtree_sum(self, values: np.ndarray) -> np.ndarray:
        """Sum ``values`` (one per node, first axis) over every subtree in one sweep.

        Integers sum exactly, as differences of a running total. Floats are added from the children up, so that a large
        value, a NaN or an infinity reaches only the subtrees it belongs to.
        """
        values = np.asarray(values)
        if values.shape[:1] != (self.n_nodes,):
            raise TreeError(
                f"subtree_sum needs one value per node: got shape {values.shape} for {self.n_nodes:,} nodes."
            )
        if values.dtype.kind == "f":
            # The kernels know two kinds of floats; anything else (half precision, foreign byte order) becomes double.
            return sweep_up(self, values if values.dtype in (np.float32, np.float64) else values.astype(np.float64))
        kind = np.int64 if values.dtype.kind in "bui" else values.dtype
        running = np.zeros((self.n_nodes + 1, *values.shape[1:]), kind)
        np.cumsum(values, axis=0, out=running[1:])
        return np.asarray(running[np.arange(self.n_nodes) + self.size] - running[:-1])

    @cached_property
    def child_index(self) -> tuple[IntArray, IntArray]:
        """Children of all nodes at once: ``(start, ids)``; node ``i``'s children are ``ids[start[i]:start[i+1]]``."""
        start, order = grouped(self.parent[1:], self.n_nodes)
        return frozen(start), frozen(order.astype(np.int32) + np.int32(1))

    @cached_property
    def levels(self) -> tuple[IntArray, IntArray]:
        """Nodes by depth: ``(start, ids)``; depth ``k`` is ``ids[start[k]:start[k+1]]``, in preorder."""
        start, order = grouped(self.depth, self.max_depth + 1)
        return frozen(start), frozen(order.astype(np.int32))

    def check_nodes(self, nodes: Nodes) -> IntArray:
        """Node ids as an int32 or int64 array, after checking that they exist."""
        array = np.asarray(nodes)
        if array.dtype.kind not in "iu":
            if array.size == 0:
                return array.astype(np.int64)
            raise TreeError(
                f"node ids must be integers, got {examples(array.ravel())}; tree.index(labels) finds the ids of labels."
            )
        bad = (array < 0) | (array >= self.n_nodes)
        if bad.any():
            raise TreeError(
                f"node ids {examples(array[bad])} are outside this tree of {self.n_nodes:,} nodes (ids 0 to {self.n_nodes - 1})."
            )
        return machine_ids(array)

    def _one_node(self, node: Any) -> int:
        """A single checked node id."""
        array = self.check_nodes(node)
        if array.ndim:
            raise TreeError(
                f"this takes one node id, got {examples(array.ravel())} of shape {array.shape}; ask for one at a time."
            )
        return int(array)

    # ---- queries -----------------------------------------------------------------------------------------------------

    @cached_property
    def packed(self) -> PackedCode:
        """The machine-word code behind `lca_depth`, built on first use (8 bytes per node and tier)."""
        return PackedCode(self.parent, self.depth, self.size, self.leaf_counts)

    def lca_depth(self, u: Nodes, v: Nodes) -> OneOrMany:
        """Depth of the lowest common ancestor of each pair: the p-adic valuation of the difference of their codes.

        ``u`` and ``v`` broadcast. A node with itself gives its own depth. Two ints give an int.
        """
        a, b = as_ids(u), as_ids(v)
        if a.shape != b.shape:
            # copies, because the kernels want plain arrays and NumPy warns about writing to broadcast views
            a, b = (x.copy() for x in paired(a, b))
        depth = self.packed.lca_depth(a.reshape(-1), b.reshape(-1)).reshape(a.shape)
        return depth if depth.ndim else int(depth)

    def lca_depth_matrix(self, u: Nodes, v: Nodes | None = None) -> IntArray:
        """LCA depth of every node in ``u`` with every node in ``v`` (default: ``u`` with itself)."""
        rows = self.check_nodes(u)
        columns = rows if v is None else self.check_nodes(v)
        if rows.ndim != 1 or columns.ndim != 1:
            raise TreeError(f"lca_depth_matrix takes two lists of nodes, got shapes {rows.shape} and {columns.shape}.")
        return self.packed.lca_depth_matrix(rows, columns)

    def lca(self, u: Nodes, v: Nodes) -> OneOrMany:
        """Lowest common ancestor of each pair."""
        depth = self.lca_depth(u, v)  # also checks the ids
        return self.ancestor_at(np.minimum(u, v), depth)

    @cached_property
    def _level_keys(self) -> IntArray:
        """Sorted keys depth·n + id, so that one binary search finds the last node of a depth before a position."""
        _, ids = self.levels
        return np.asarray(self.depth[ids].astype(np.int64) * self.n_nodes + ids)

    def ancestor_at(self, nodes: Nodes, depth: Any) -> OneOrMany:
        """The ancestor of each node at ``depth`` (the node itself at its own depth). O(log n) each, vectorised.

        In preorder it is the last node of that depth at or before the node.
        """
        ids = self.check_nodes(nodes).astype(np.int64)
        wanted = np.asarray(depth)
        if wanted.dtype.kind not in "iu" and wanted.size:
            raise TreeError(f"a depth must be a whole number, got {examples(wanted.ravel())}.")
        wanted = wanted.astype(np.int64)
        ids, wanted = paired(ids, wanted)
        if np.any((wanted > self.depth[ids]) | (wanted < 0)):
            at = np.flatnonzero((wanted > self.depth[ids]) | (wanted < 0))[0]
            node, k = int(ids.reshape(-1)[at]), int(wanted.reshape(-1)[at])
            raise TreeError(
                f"node {node} ({self.labels[node]!r}) has depth {self.depth[node]}, so it has no ancestor at depth {k}."
            )
        _, by_level = self.levels
        at = np.searchsorted(self._level_keys, wanted * self.n_nodes + ids, side="right") - 1
        found = by_level[at].astype(np.int64)
        return found if found.ndim else int(found)

    def is_ancestor(self, u: Nodes, v: Nodes) -> OneOrMany:
        """Whether each ``u`` is an ancestor of ``v`` or ``v`` itself: is ``v`` inside ``u``'s slice?"""
        a, b = paired(self.check_nodes(u), self.check_nodes(v))
        # One comparison suffices once the offset is read as unsigned: v < u wraps to a huge number.
        inside = (b - a).astype(np.uint32) < self.size[a].view(np.uint32)
        return inside if np.ndim(inside) else bool(inside)

    def ancestors(self, node: int) -> IntArray:
        """The chain of balls around a node: ids from the root down to the node itself."""
        here = self._one_node(node)
        chain = np.empty(int(self.depth[here]) + 1, np.int64)
        for k in range(len(chain) - 1, -1, -1):
            chain[k] = here
            here = int(self.parent[here])
        return chain

    def paths(self, nodes: Nodes) -> IntArray:
        """The ancestors of each node at all depths: ``(…, max_depth + 1)`` ids, root first, the node, then −1.

        Column ``k`` is ``ancestor_at(nodes, k)`` where there is one. O(len(nodes) · max_depth), a gather per depth.

        >>> from vpunn import Tree
        >>> Tree.from_parents([-1, 0, 0, 1]).paths([1, 2, 3])
        array([[ 0,  1, -1],
               [ 0,  1,  2],
               [ 0,  3, -1]])
        """
        ids = self.check_nodes(nodes)
        chain = np.full((*ids.shape, self.max_depth + 1), -1, np.int64)
        np.put_along_axis(chain, self.depth[ids][..., None].astype(np.int64), ids[..., None], -1)
        for k in range(self.max_depth, 0, -1):
            inside = chain[..., k] >= 0
            chain[..., k - 1] = np.where(inside, self.parent[chain[..., k]], chain[..., k - 1])
        return chain

    def path(self, node: int) -> tuple[Hashable, ...]:
        """Labels from the root down to the node."""
        return tuple(self.labels[self.ancestors(node)].tolist())

    def children(self, node: int) -> IntArray:
        """Ids of a node's children, in digit order."""
        start, ids = self.child_index
        i = self._one_node(node)
        return ids[start[i] : start[i + 1]].astype(np.int64)

    def slice(self, node: int) -> slice:
        """The ids of a node's subtree as a slice; ``tree.labels[tree.slice(node)]`` is the ball's content."""
        i = self._one_node(node)
        return slice(i, i + int(self.size[i]))


def as_ids(nodes: Any) -> IntArray:
    """Integer array of ids, unchecked (the kernels check ranges as they read)."""
    ids = np.asarray(nodes)
    if ids.dtype.kind not in "iu":
        if ids.size:
            raise TreeError(f"node ids must be integers, got {examples(ids.ravel())}; tree.index(labels) finds them.")
        ids = ids.astype(np.int64)
    return machine_ids(ids)


def machine_ids(ids: np.ndarray) -> IntArray:
    """Integers as the kernels know them; also signed, because differences of unsigned ids wrap around."""
    return ids if ids.dtype in (np.int32, np.int64) else ids.astype(np.int64)


def no_extra(n: int) -> NodeSets:
    """The extra parents of a plain tree: none."""
    return np.zeros(n + 1, np.int64), np.zeros(0, np.int32)
