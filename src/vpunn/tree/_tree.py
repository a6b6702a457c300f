"""The tree: four frozen arrays in preorder, labels, and whole-array queries.

Node ``i`` owns the slice ``[i, i + size[i])``: a subtree is a p-adic ball is a slice. Everything below is arithmetic on
that. Construction from edges, paths, tables and files lives in `build` and `io`; this module takes parent pointers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._types import Labels, Numbers, OneOrMany, Table
from vpunn.errors import TreeError, examples
from vpunn.tree import _loops, find, lookup
from vpunn.tree import _parents as several
from vpunn.tree import _validate as validate
from vpunn.tree._arrays import as_ids, frozen, machine_ids, node_column, paired
from vpunn.tree._inputs import object_array
from vpunn.tree._out import TreeOut
from vpunn.tree._packed import PackedCode
from vpunn.tree._parents import NodeSets, TreeParents

if TYPE_CHECKING:
    import networkx

IntArray = np.ndarray
#: Node ids: one integer or an array of them.
Nodes = int | np.integer | Sequence[int] | np.ndarray


class Tree(TreeOut, TreeParents):
    """A rooted tree as preorder arrays. Make one with `Tree.from_parents` and its siblings, or `vpunn.read_tree`.

    ``parent`` (−1 at the root), ``depth``, ``size`` (nodes in the subtree) and ``digit`` (child index + 1; 0 at the
    root) are read-only int32 arrays indexed by node id, and a node id is a preorder position. ``labels[i]`` names node
    ``i``; two nodes may carry the same name. ``columns`` holds further per-node arrays (branch lengths, glosses…) that
    travel with the nodes. ``report`` says what construction had to change, as text, and is empty if nothing.
    ``extra_parents`` are the further parents of nodes read from a graph, ``(start, ids)`` like `child_index` and empty for a
    plain tree: node ``i`` also hangs below ``ids[start[i]:start[i+1]]``. Codes and balls follow ``parent`` alone.

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1], labels=["animal", "bird", "fish", "owl", "robin"])
    >>> tree
    Tree(5 nodes, 3 leaves, depth 2, branching ≤ 2)
    >>> print(tree.show())
    animal
    ├─ bird
    │  ├─ owl
    │  └─ robin
    └─ fish
    >>> owl, robin, fish = tree.index(["owl", "robin", "fish"])
    >>> tree.lca_depth([owl, owl], [robin, fish])
    array([1, 0], dtype=int32)
    """

    parent: IntArray
    depth: IntArray
    size: IntArray
    digit: IntArray
    labels: np.ndarray
    columns: Mapping[str, np.ndarray]
    report: tuple[str, ...]

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
        start, ids = several.no_extra(len(parent)) if extra_parents is None else extra_parents
        self.__dict__["extra_parents"] = (frozen(np.asarray(start, np.int64)), frozen(np.asarray(ids, np.int32)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"a Tree is frozen; cannot set {name!r}. Build a changed tree instead (insert, subtree, …)."
        )

    # ---- construction ------------------------------------------------------------------------------------------

    @classmethod
    def from_parents(
        cls,
        parent: Numbers,
        labels: Sequence[Hashable] | np.ndarray | None = None,
        *,
        columns: Mapping[str, Any] | None = None,
        report: Sequence[str] = (),
        extra_parents: tuple[Any, Any] | None = None,
    ) -> Tree:
        """Build from parent pointers in any order; −1 marks the root. Siblings keep the given order. O(n).

        Without ``labels`` each node is named by its position in ``parent``, so ``tree.index(positions)`` translates.
        ``extra_parents`` are ``(start, ids)`` over the same positions; repeats and the parent itself add nothing there.
        Cycles, several roots, self-parents and ids out of range are errors that name the nodes.
        """
        given = validate.as_parent_array(parent)
        n = len(given)
        names = validate.as_labels(labels, n)
        root = validate.find_root(given, names)
        order, up, depth, size, digit = _loops.preorder(given, root)
        if len(order) < n:
            raise TreeError(validate.describe_cycle(given, names, order))
        names = order if names is None else names[order]
        table = {key: node_column(key, value, n)[order] for key, value in (columns or {}).items()}
        extra = None
        if extra_parents is not None:
            place = np.empty(n, np.int64)
            place[order] = np.arange(n)
            extra = several.extra_arrays(up, *several.given_extra(extra_parents, n, place), names)
        return cls(up, depth, size, digit, names, table, report, extra)

    @classmethod
    def from_edges(cls, parents: Labels, children: Labels = None, **options: Any) -> Tree:
        """From (parent, child) label pairs; see `vpunn.tree.build.tree_from_edges` for the options."""
        from vpunn.tree import build

        return build.tree_from_edges(parents, children, **options)

    @classmethod
    def from_paths(cls, paths: Labels, **options: Any) -> Tree:
        """From root-to-node label paths; see `vpunn.tree.build.tree_from_paths`."""
        from vpunn.tree import build

        return build.tree_from_paths(paths, **options)

    @classmethod
    def from_levels(cls, frame: Table, columns: Sequence[str] | None = None, **options: Any) -> Tree:
        """From level columns of a table (order, family, genus…); see `vpunn.tree.build.tree_from_levels`."""
        from vpunn.tree import build

        return build.tree_from_levels(frame, columns, **options)

    @classmethod
    def from_networkx(cls, graph: networkx.DiGraph, **options: Any) -> Tree:
        """From a directed graph with edges parent → child; see `vpunn.tree.build.tree_from_networkx`."""
        from vpunn.tree import build

        return build.tree_from_networkx(graph, **options)

    @classmethod
    def from_linkage(cls, linkage: Numbers, labels: Sequence[Hashable] | None = None) -> Tree:
        """From a SciPy linkage matrix (merge heights kept in the column ``height``); see `build`."""
        from vpunn.tree import build

        return build.tree_from_linkage(linkage, labels)

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
            from vpunn.tree.sweeps import sweep_up

            # The kernels know two kinds of floats; anything else (half precision, foreign byte order) becomes double.
            return sweep_up(self, values if values.dtype in (np.float32, np.float64) else values.astype(np.float64))
        kind = np.int64 if values.dtype.kind in "bui" else values.dtype
        running = np.zeros((self.n_nodes + 1, *values.shape[1:]), kind)
        np.cumsum(values, axis=0, out=running[1:])
        return np.asarray(running[np.arange(self.n_nodes) + self.size] - running[:-1])

    @cached_property
    def child_index(self) -> tuple[IntArray, IntArray]:
        """Children of all nodes at once: ``(start, ids)``; node ``i``'s children are ``ids[start[i]:start[i+1]]``."""
        start = np.zeros(self.n_nodes + 1, np.int64)
        np.cumsum(self.n_children, out=start[1:])
        ids = np.argsort(self.parent[1:], kind="stable").astype(np.int32) + np.int32(1)
        return frozen(start), frozen(ids)

    @cached_property
    def levels(self) -> tuple[IntArray, IntArray]:
        """Nodes by depth: ``(start, ids)``; depth ``k`` is ``ids[start[k]:start[k+1]]``, in preorder."""
        start = np.zeros(self.max_depth + 2, np.int64)
        np.cumsum(np.bincount(self.depth), out=start[1:])
        return frozen(start), frozen(np.argsort(self.depth, kind="stable").astype(np.int32))

    # ---- labels ----------------------------------------------------------------------------------------------------

    @cached_property
    def label_index(self) -> lookup.LabelIndex:
        """The index behind `locate`, `index` and `find`, built when first asked."""
        return lookup.LabelIndex(self.parent, self.labels)

    @cached_property
    def names(self) -> np.ndarray:
        """What people call the nodes, as text: the column ``name`` where there is one, else the label."""
        called = self.columns.get("name", self.labels).tolist()
        if all(type(name) is str and name for name in called):
            return frozen(object_array(called))
        pairs = zip(called, self.labels.tolist(), strict=True)
        texts = [str(b) if a is None or a != a or a == "" else str(a) for a, b in pairs]
        return frozen(object_array(texts))

    def locate(self, rows: Labels, unseen: str = "error") -> lookup.Located:
        """The node of every row of labels or paths, and the depth of what the row asked for: ``(nodes, depth)``.

        ``rows`` are labels (a list, an array, a Series, an Arrow column), or paths below the root: lists or tuples of labels,
        or a table with one column per level, broadest first (where the labels of the tree are tuples themselves, a tuple is a
        label). Missing cells at the end of a path are no part of it; those above a label are the level "(missing)".
        ``unseen`` says what becomes of rows that are not in the tree: an ``"error"`` (also of missing labels), the node −1
        (``"null"``), or the deepest ``"ancestor"`` that is there, the root for a label; then ``tree.depth[nodes] < depth``
        tells these rows. A text that is no label but writes a whole number means the label of that number. O(1) a label,
        O(log n) a step of a path, without a loop over rows.

        >>> tree = Tree.from_paths(["animal/bird/crane", "machine/crane"], sep="/", root="things")
        >>> tree.locate([("animal", "bird", "crane"), ("machine",), ()]).nodes
        array([3, 4, 0])
        >>> tree.locate([("animal", "bird", "owl"), ("animal", None, None)], unseen="ancestor")
        Located(nodes=array([2, 1]), depth=array([3, 1]))
        >>> Tree.from_parents([-1, 0], labels=[1, 9606]).locate(["9606", 7, None], unseen="null").nodes
        array([ 1, -1, -1])
        """
        return lookup.locate(self, rows, unseen)

    def index(self, labels: Labels) -> OneOrMany:
        """Node ids of labels: one label gives an int, several give an int64 array; `locate` for one kind of rows.

        Unknown labels, and labels that name several nodes, are errors; `locate` takes paths, which tell namesakes apart.
        """
        return lookup.index(self, labels)

    def encode_column(self, column: Any, unseen: str = "error") -> Any:
        """`locate` of a column of labels as an Arrow array of int32, missing cells as nulls; chunked if the column is.

        Labels the tree does not have are an error, or null with ``unseen="null"``.

        >>> Tree.from_parents([-1, 0, 0], labels=["all", "a", "b"]).encode_column(["b", None, "a"]).to_pylist()
        [2, None, 1]
        """
        return lookup.encode_column(self, column, unseen)

    def find(self, asked: Labels) -> OneOrMany:
        """Node ids of what a person writes: one gives an int, a list gives an int64 array.

        A label first; then a node id (an integer, unless labels are integers), a readable name (the column ``name``), or
        the end of a path, ``"bird / owl"``, ``"bird/owl"`` or ``("bird", "owl")``, as long as it names one node. Unknown
        names are errors that suggest similar ones; namesakes are errors that print their paths. O(1) each if found.

        >>> tree = Tree.from_paths(["animal/bird/crane", "machine/crane"], sep="/", root="things")
        >>> tree.find(["bird", "bird / crane", 0, ("machine", "crane")])
        array([2, 3, 0, 5])
        >>> tree.find("brid")
        Traceback (most recent call last):
        vpunn.errors.TreeError: no node is labelled 'brid'; did you mean 'bird'?
        """
        return find.find_nodes(self, asked)

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

    # ---- new trees -----------------------------------------------------------------------------------------------------

    def subtree(self, node: int) -> Tree:
        """The subtree below a node as a tree of its own; O(its size). Extra parents outside it are left out and reported."""
        part = self.slice(node)
        parent = self.parent[part] - np.int32(part.start)
        parent[0] = -1
        digit = self.digit[part].copy()
        digit[0] = 0
        depth = self.depth[part] - self.depth[part.start]
        columns = {key: value[part] for key, value in self.columns.items()}
        extra, lost = several.kept_extra(self, np.arange(part.start, part.stop))
        report = (*self.report, *several.report_lost(lost))
        return Tree(parent, depth, self.size[part], digit, self.labels[part], columns, report, extra)

    def replace(
        self,
        *,
        labels: Sequence[Hashable] | np.ndarray | None = None,
        columns: Mapping[str, Any] | None = None,
        report: Sequence[str] | None = None,
    ) -> Tree:
        """The same shape with other labels, columns or report (None keeps them). O(n) checks, no copy of the shape."""
        n = self.n_nodes
        names = self.labels if labels is None else validate.as_labels(labels, n)
        table = self.columns if columns is None else {key: node_column(key, value, n) for key, value in columns.items()}
        assert names is not None
        said = self.report if report is None else report
        return Tree(self.parent, self.depth, self.size, self.digit, names, table, said, self.extra_parents)

    def relabel(self, labels: Sequence[Hashable] | np.ndarray) -> Tree:
        """The same tree under other labels, one per node in the order of ids; columns and report stay."""
        return self.replace(labels=labels)

    def take(self, parent: Numbers, nodes: IntArray, report: Sequence[str] = ()) -> Tree:
        """A tree of the given nodes (labels, columns and extra parents among them taken along) with new parent pointers."""
        columns = {key: value[nodes] for key, value in self.columns.items()}
        extra, lost = several.kept_extra(self, nodes)
        report = (*self.report, *report, *several.report_lost(lost))
        return Tree.from_parents(parent, self.labels[nodes], columns=columns, report=report, extra_parents=extra)

    def insert(self, parents: Nodes, labels: Labels) -> Tree:
        """A tree with one new leaf per label, each as the last child of its parent.

        New leaves take the next free digit, so digits of old nodes never change, nor do their integer codes unless the
        largest branching outgrows the prime; that is announced with a `CodeChangeWarning`. New nodes get missing values
        (NaN, None, 0 for integers) in ``columns``.
        """
        from vpunn.tree import _reshape as reshape

        return reshape.insert_leaves(self, parents, labels)

    def canonical(self) -> Tree:
        """The same tree with siblings ordered by the shape of their subtrees (AHU), larger first.

        Isomorphic trees become equal arrays, so their codes are equal; labels do not matter.
        """
        from vpunn.tree import _reshape as reshape

        return reshape.canonical_order(self)

    def collapse_unary(self) -> Tree:
        """The tree without nodes that have exactly one child: lossless for everything said about the leaves.

        A removed node's only child takes its place (also at the root); how many were removed is in ``report``.
        """
        from vpunn.tree import _reshape as reshape

        return reshape.collapse_unary(self)

    # ---- looks ----------------------------------------------------------------------------------------------------

    def explore(self, **options: Any) -> Any:
        """Walk the tree in a browser or, in a notebook, in a widget; see `vpunn.web.explore` for the options."""
        from vpunn.web import explore

        return explore(self, **options)

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """The tree as boxes below each other, as wide as their share of the leaves; see `vpunn.plot.icicle` for the options and
        `vpunn.plot` for other pictures."""
        from vpunn.plot import icicle

        return icicle(self, ax, **options)

    def show(self, node: int = 0, max_nodes: int = 40) -> str:
        """The subtree as text with box-drawing lines, cut off after ``max_nodes`` lines."""
        part = self.slice(node)
        last = [part.stop]  # where the slice of each open ancestor ends: a node ending there is a last child
        lines = [str(self.labels[part.start])]
        for i in range(part.start + 1, min(part.stop, part.start + max_nodes)):
            del last[int(self.depth[i] - self.depth[part.start]) :]
            end = i + int(self.size[i])
            bars = "".join("   " if inner == outer else "│  " for outer, inner in pairwise(last))
            lines.append(f"{bars}{'└─ ' if end == last[-1] else '├─ '}{self.labels[i]}")
            last.append(end)
        if len(lines) < part.stop - part.start:
            lines.append(f"… {part.stop - part.start - len(lines):,} more nodes")
        return "\n".join(lines)

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that tell trees apart by shape, sibling order, labels and extra parents, not by columns.

        >>> Tree.from_parents([-1, 0, 0]).fingerprint == Tree.from_parents([-1, 0, 0], columns={"x": [1, 2, 3]}).fingerprint
        True
        """
        digest = hashlib.sha256(np.ascontiguousarray(self.parent, np.int64).tobytes())
        digest.update("\0".join(map(str, self.labels.tolist())).encode("utf-8", "surrogatepass"))
        if self.n_extra:
            for part in self.extra_parents:
                digest.update(np.ascontiguousarray(part, np.int64).tobytes())
        return digest.hexdigest()[:16]

    def __repr__(self) -> str:
        return (
            f"Tree({self.n_nodes:,} nodes, {self.n_leaves:,} leaves, depth {self.max_depth}, "
            f"branching ≤ {self.max_branching})"
        )

    def __eq__(self, other: object) -> bool:
        """Equal shape, sibling order, labels and sets of extra parents (columns are not compared)."""
        if not isinstance(other, Tree):
            return NotImplemented
        same = np.array_equal(self.parent, other.parent) and np.array_equal(self.labels, other.labels)
        return same and several.same_extra(self, other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        arrays = (self.parent, self.depth, self.size, self.digit, self.labels, dict(self.columns), self.report)
        return Tree, (*arrays, self.extra_parents)


def check_tree(tree: Any, *, explain: bool = False) -> bool | tuple[bool, str]:
    """Is this a valid tree? Takes a `Tree` or parent pointers; with ``explain`` also says why not.

    The raising twin is ``Tree.from_parents``.

    >>> check_tree([-1, 0, 0])
    True
    >>> check_tree([1, 2, 0, -1], explain=True)
    (False, '3 nodes cannot be reached from the root because of a cycle: 0 → 1 → 2 → 0.')
    """
    if isinstance(tree, Tree):
        reason = validate.check_preorder(tree.parent, tree.depth, tree.size, tree.digit)
        reason = reason or several.check_extra(tree.parent, tree.extra_parents, tree.labels)
    else:
        try:
            Tree.from_parents(tree)
            reason = ""
        except TreeError as error:
            reason = str(error)
    return (not reason, reason) if explain else not reason
