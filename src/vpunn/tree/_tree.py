"""The tree: four frozen arrays in preorder, names of nodes, trees made from it, and what other libraries and files get of it.

Node ``i`` owns the slice ``[i, i + size[i])``: a subtree is a p-adic ball is a slice. What is asked of the arrays alone stands in
`_tree_arrays`, what of further parents in `_parents`. Construction from edges, paths and tables lives in `build`, from other
libraries in `convert`, from files in `io`; this module takes parent pointers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._arrays import frozen, object_array
from vpunn._types import Labels, Numbers, OneOrMany, Table
from vpunn.errors import TreeError
from vpunn.tree import _loops, _stored, find, lookup
from vpunn.tree import _parents as several
from vpunn.tree import _validate as validate
from vpunn.tree._label_index import LabelIndex
from vpunn.tree._parents import TreeParents
from vpunn.tree._tree_arrays import IntArray, Nodes

if TYPE_CHECKING:
    import networkx
    import pandas as pd

    from vpunn.store import Draft, Stored


class Tree(TreeParents):
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
        table = {key: validate.node_column(key, value, n)[order] for key, value in (columns or {}).items()}
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
        """From a directed graph with edges parent → child; see `vpunn.tree.convert.tree_from_networkx`."""
        from vpunn.tree import convert

        return convert.tree_from_networkx(graph, **options)

    @classmethod
    def from_linkage(cls, linkage: Numbers, labels: Sequence[Hashable] | None = None) -> Tree:
        """From a SciPy linkage matrix (merge heights kept in the column ``height``); see `vpunn.tree.convert`."""
        from vpunn.tree import convert

        return convert.tree_from_linkage(linkage, labels)

    # ---- labels ----------------------------------------------------------------------------------------------------

    @cached_property
    def label_index(self) -> LabelIndex:
        """The index behind `locate`, `index` and `find`, built when first asked."""
        return LabelIndex(self.parent, self.labels)

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
        tells these rows. The text "9606" and the number 9606 mean each other where only one of them is a label. O(1) a
        label, O(log n) a step of a path, without a loop over rows.

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
        table = (
            self.columns
            if columns is None
            else {key: validate.node_column(key, value, n) for key, value in columns.items()}
        )
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

    # ---- to other libraries and files --------------------------------------------------------------------------------

    def to_networkx(self) -> networkx.DiGraph:
        """A networkx DiGraph on node ids with attributes ``label`` and the columns; edges parent → child."""
        from vpunn.tree import convert

        return convert.to_networkx(self)

    def to_linkage(self) -> np.ndarray:
        """A SciPy linkage matrix; only binary trees have one. Heights come from the column ``height``, if there is one."""
        from vpunn.tree import convert

        return convert.to_linkage(self)

    def to_frame(self) -> pd.DataFrame:
        """One row per node: id, label, parent, depth, size, digit, and the columns."""
        from vpunn.tree import convert

        return convert.to_frame(self)

    def to_newick(self) -> str:
        """Newick text; names quoted where needed, branch lengths from the column ``length`` if there is one."""
        from vpunn.io import newick

        return newick.to_newick(self)

    def to_json(self) -> str:
        """Nested JSON: ``{"name": …, "children": […]}`` with the columns as further keys."""
        from vpunn.io import nested

        return nested.to_json(self)

    def _to_store(self, draft: Draft) -> None:
        _stored.write(self, draft)

    @classmethod
    def _from_store(cls, stored: Stored) -> Tree:
        return cls(*_stored.read(stored))

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
