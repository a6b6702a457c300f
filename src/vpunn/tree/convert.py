"""Trees as other libraries have them: tables of nodes (pandas), graphs (networkx) and linkage matrices (SciPy), both ways."""

from __future__ import annotations

import json
import reprlib
import warnings
from collections.abc import Hashable, Iterable, Sequence
from numbers import Real
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._arrays import label_array, object_array
from vpunn._types import Json, Numbers
from vpunn.errors import DataError, DataWarning, TreeError, examples
from vpunn.tree import dag
from vpunn.tree._edges import Choices, EdgeList
from vpunn.tree._tree import Tree

if TYPE_CHECKING:
    import networkx
    import pandas as pd

#: Columns of `to_frame` that describe the tree itself.
FRAME_COLUMNS = ("id", "label", "parent", "depth", "size", "digit")
#: The column of further parents, written only if there are any: lists of ids, which are preorder positions.
EXTRA = "extra_parents"

# ---- a table of nodes --------------------------------------------------------------------------------------------------


def to_frame(tree: Tree) -> pd.DataFrame:
    """One row per node in preorder: id, label, parent (an id, −1 at the root), depth, size, digit, and the columns.

    >>> to_frame(Tree.from_parents([-1, 0, 0], labels=["bird", "owl", "wren"]))
       id label  parent  depth  size  digit
    0   0  bird      -1      0     3      0
    1   1   owl       0      1     1      1
    2   2  wren       0      1     1      2
    """
    import pandas as pd

    return pd.DataFrame(frame_columns(tree))


def frame_columns(tree: Tree) -> dict[str, np.ndarray]:
    """The columns of `to_frame` as arrays."""
    refuse_columns(tree, (*FRAME_COLUMNS, EXTRA) if tree.n_extra else FRAME_COLUMNS, "a table of nodes")
    own = (np.arange(tree.n_nodes), tree.labels, tree.parent, tree.depth, tree.size, tree.digit)
    columns = dict(zip(FRAME_COLUMNS, own, strict=True)) | {str(key): value for key, value in tree.columns.items()}
    if tree.n_extra:
        columns[EXTRA] = extra_lists(tree)
    return {key: value if value.ndim == 1 else object_array(value.tolist()) for key, value in columns.items()}


def extra_lists(tree: Tree) -> np.ndarray:
    """For every node the list of its extra parents, None where there are none."""
    start, ids = tree.extra_parents
    lists = np.full(tree.n_nodes, None, object)
    for node in np.flatnonzero(np.diff(start)).tolist():
        lists[node] = ids[start[node] : start[node + 1]].tolist()
    return lists


def read_extra(lists: Json, n: int) -> tuple[np.ndarray, np.ndarray]:
    """``(start, ids)`` of what `extra_lists` wrote, as lists or as their JSON text; anything else is an error."""
    counts, ids = np.zeros(n + 1, np.int64), list[int]()
    for node, given in enumerate(lists):
        if given is None or given != given:
            continue
        try:
            found = json.loads(given) if isinstance(given, str) else list(given)
        except (TypeError, ValueError):
            found = None
        if not isinstance(found, list) or not all(isinstance(x, int | np.integer) for x in found):
            raise DataError(f"the extra parents of node {node} must be a list of ids such as [3, 17], got {given!r}.")
        counts[node + 1] = len(found)
        ids += found
    return np.cumsum(counts), np.array(ids, np.int64)


def refuse_columns(tree: Tree, taken: tuple[str, ...], what: str) -> None:
    """Columns must not have names that the format uses itself."""
    clash = [name for name in tree.columns if name in taken]
    if clash:
        raise TreeError(f"{what} uses the name {examples(clash)} itself; rename that column of the tree.")


def check_labels(tree: Tree) -> None:
    """Files hold text and numbers (or nothing); a tuple would come back as something else, or not at all."""
    labels = tree.labels.tolist()
    odd = tuple(kind for kind in set(map(type, labels)) if not issubclass(kind, str | Real | NoneType))
    if odd:
        wrong = [label for label in labels if isinstance(label, odd)]
        raise TreeError(
            f"labels must be text or numbers to be written to a file, got {examples(wrong)}; "
            "make a tree with such labels: tree.relabel([str(x) for x in tree.labels])."
        )


def say_dropped(tree: Tree, what: str) -> None:
    """Warn that a format holds one parent per node only."""
    if tree.n_extra:
        warnings.warn(
            f"{what} holds one parent per node, so {tree.n_extra:,} extra parents are left out; "
            "tables, JSON, OBO and `save` keep them.",
            DataWarning,
            stacklevel=3,
        )


# ---- networkx ----------------------------------------------------------------------------------------------------------


def tree_from_networkx(
    graph: networkx.DiGraph,
    *,
    label: str | None = None,
    policy: str = "first",
    root: Hashable | None = None,
    add_root: Hashable | None = None,
    max_nodes: int = dag.MAX_UNFOLDED,
) -> Tree:
    """A tree from a directed networkx graph with edges parent → child; node attributes become columns.

    Labels are the graph's nodes, or the node attribute named by ``label`` (``label="label"`` reads back what
    `Tree.to_networkx` wrote). Edges with the attribute ``extra=True`` become extra parents.
    ``policy``, ``root`` and ``add_root`` are those of `tree_from_edges`.
    """
    if not hasattr(graph, "is_directed"):
        raise TreeError(f"from_networkx needs a networkx.DiGraph with edges parent → child, got {reprlib.repr(graph)}.")
    if not graph.is_directed():
        raise TreeError("an undirected graph has no parents; pass a networkx.DiGraph with edges parent → child.")
    nodes = list(graph.nodes)
    if not nodes:
        raise TreeError("the graph is empty; a tree needs at least one node.")
    place = {node: i for i, node in enumerate(nodes)}
    further = {(u, v) for u, v, extra in graph.edges(data="extra") if extra is True}  # as `Tree.to_networkx` marks them
    ends = np.fromiter(
        (place[node] for edge in graph.edges() if edge not in further for node in edge), np.int64
    ).reshape(-1, 2)
    labels = object_array(nodes)
    keys = dict.fromkeys(key for _, data in graph.nodes(data=True) for key in data)
    columns = {str(key): {node: data[key] for node, data in graph.nodes(data=True) if key in data} for key in keys}
    edges = EdgeList(ends[:, 0], ends[:, 1], np.arange(len(ends)), labels, marked=np.full(len(nodes), -1))
    choices = Choices(policy, root, add_root, max_nodes=max_nodes)
    tree = edges.to_tree(choices, columns, n_rows=len(ends))
    if further:
        tree = _with_further(tree, further)
    if label is None:
        names: np.ndarray = tree.labels
    elif label in tree.columns:
        names = tree.columns[label]
    else:
        raise TreeError(
            f"no node attribute is called {label!r}; the graph has {examples(list(tree.columns), limit=20)}."
        )
    rest = {key: value for key, value in tree.columns.items() if key != label}
    return tree.replace(labels=label_array(names)[0], columns=rest)


def _with_further(tree: Tree, edges: Iterable[tuple[Any, Any]]) -> Tree:
    """The tree with further (parent, child) edges between its labels as extra parents."""
    above, below = (
        np.asarray(tree.index(object_array(list(side)))) for side in zip(*sorted(edges, key=repr), strict=True)
    )
    start, ids = tree.extra_parents
    child = np.concatenate([np.repeat(np.arange(tree.n_nodes), np.diff(start)), below])
    up = np.concatenate([ids, above])
    order = np.argsort(child, kind="stable")
    counts = np.concatenate([[0], np.cumsum(np.bincount(child, minlength=tree.n_nodes))])
    return Tree.from_parents(
        tree.parent, tree.labels, columns=tree.columns, report=tree.report, extra_parents=(counts, up[order])
    )


def to_networkx(tree: Tree) -> networkx.DiGraph:
    """A networkx DiGraph on node ids with attributes ``label`` and the columns; edges parent → child.

    Edges from extra parents carry the attribute ``extra=True``.
    """
    import networkx

    refuse_columns(tree, ("label",), "a graph")
    graph = networkx.DiGraph()
    names = ["label", *tree.columns]
    values = zip(*(column.tolist() for column in (tree.labels, *tree.columns.values())), strict=True)
    graph.add_nodes_from((i, dict(zip(names, row, strict=True))) for i, row in enumerate(values))
    graph.add_edges_from(zip(tree.parent[1:].tolist(), range(1, tree.n_nodes), strict=True))
    start, ids = tree.extra_parents
    child = np.repeat(np.arange(tree.n_nodes), np.diff(start))
    graph.add_edges_from(zip(ids.tolist(), child.tolist(), strict=True), extra=True)
    return graph


# ---- linkage matrices --------------------------------------------------------------------------------------------------


def tree_from_linkage(linkage: Numbers, labels: Sequence[Hashable] | None = None) -> Tree:
    """The dendrogram of a SciPy linkage matrix, with the merge heights in the column ``height`` (0 at the leaves).

    Leaves carry ``labels`` (default: their observation numbers), merges their SciPy cluster number: row ``i`` of a
    linkage of n observations is cluster n + i. Children stand in the order of the matrix. A merge may stand lower than
    one below it, as centroid and median linkage produce; heights are kept as they are.

    >>> tree = tree_from_linkage([[0, 1, 0.5, 2], [2, 3, 1.0, 3]], labels=["owl", "robin", "cod"])
    >>> print(tree.show())
    4
    ├─ cod
    └─ 3
       ├─ owl
       └─ robin
    >>> tree.columns["height"]
    array([1. , 0. , 0.5, 0. , 0. ])
    """
    table = _linkage_table(linkage)
    n = len(table) + 1
    names: np.ndarray = np.arange(2 * n - 1)
    if labels is not None:
        given = label_array(labels)[0]
        if len(given) != n:
            raise TreeError(f"need one label per observation: got {len(given):,} labels for {n:,} observations.")
        names = np.concatenate([given.astype(object), names[n:].astype(object)])
    # Sibling order follows node order, so list the nodes as the matrix lists them: the last row's two clusters first.
    order = np.concatenate([[2 * n - 2], table[::-1, :2].astype(np.int64).ravel()])
    place = np.empty(2 * n - 1, np.int64)
    place[order] = np.arange(2 * n - 1)
    parent = np.concatenate([[-1], place[np.repeat(np.arange(2 * n - 2, n - 1, -1), 2)]])
    height = np.concatenate([np.zeros(n), table[:, 2]])
    observations = np.concatenate([np.ones(n), table[:, 3]])
    tree = Tree.from_parents(
        parent, names[order], columns={"height": height[order], "observations": observations[order]}
    )
    wrong = np.flatnonzero(tree.columns["observations"] != tree.leaf_counts)
    if len(wrong):
        count, found = tree.columns["observations"][wrong[0]], tree.leaf_counts[wrong[0]]
        raise TreeError(
            f"this is not a SciPy linkage matrix: the fourth column must count the observations of each merge, but says "
            f"{count:g} for cluster {tree.labels[wrong[0]]}, which holds {found}."
        )
    return tree.replace(columns={"height": tree.columns["height"]})


def _linkage_table(linkage: Numbers) -> np.ndarray:
    """The matrix as floats, after checking that every row merges two clusters that stand above it, each only once.

    SciPy's own check looks at less, and at nothing at all in a matrix of one row.
    """
    try:
        table = np.asarray(linkage, dtype=np.float64)
    except (TypeError, ValueError):
        table = np.empty(0)
    if table.ndim != 2 or table.shape[1] != 4 or not len(table):
        got = f"shape {table.shape}" if table.ndim == 2 else reprlib.repr(linkage)
        raise TreeError(
            f"a SciPy linkage matrix has rows (cluster, cluster, height, observations) of numbers, got {got}."
        )
    pairs, height = table[:, :2], table[:, 2]
    with np.errstate(invalid="ignore"):
        formed = (pairs >= 0) & (pairs < len(table) + 1 + np.arange(len(table))[:, None]) & (pairs == np.floor(pairs))
    for bad, what in (
        (~formed.all(axis=1), "clusters that do not exist yet (row i of n − 1 may merge 0 to n + i − 1)"),
        (~(np.isfinite(height) & (height >= 0)), "at a height that is not a finite number ≥ 0"),
    ):
        _refuse_merges(table, np.flatnonzero(bad), what)
    used = pairs.astype(np.int64)
    again = (np.bincount(used.ravel())[used] > 1).any(axis=1)
    _refuse_merges(table, np.flatnonzero(again), "a cluster that is merged twice")
    return table


def _refuse_merges(table: np.ndarray, rows: np.ndarray, what: str) -> None:
    if len(rows):
        shown = ", ".join(f"{x:g}" for x in table[rows[0]])
        raise TreeError(
            f"this is not a SciPy linkage matrix: row {rows[0]} merges {what}: [{shown}]"
            f"{f' ({len(rows):,} such rows)' if len(rows) > 1 else ''}."
        )


def to_linkage(tree: Tree) -> np.ndarray:
    """A SciPy linkage matrix of a binary tree; observation ``k`` is the leaf ``tree.leaves[k]``.

    Heights come from the column ``height``, else a node's height is the number of edges down to its farthest leaf.
    Every inner node must have two children (`collapse_unary` removes single ones) and stand no lower than them.
    """
    say_dropped(tree, "a linkage matrix")
    inner = np.flatnonzero(~tree.is_leaf)
    wrong = inner[tree.n_children[inner] != 2]
    if len(wrong) or not len(inner):
        why = (
            f"{len(wrong):,} nodes have another number of children than two ({examples(tree.labels[wrong])})"
            if len(wrong)
            else "this tree has a single node"
        )
        raise TreeError(f"only binary trees are linkages, and {why}; collapse_unary() removes nodes with one child.")
    if "height" in tree.columns:
        height = np.asarray(tree.columns["height"], dtype=float)
    else:
        from vpunn.tree import _kernels

        height = _kernels.edges_below(tree.parent).astype(float)
    child = np.arange(1, tree.n_nodes)
    low = child[~(height[tree.parent[1:]] >= height[1:]) & ~tree.is_leaf[1:]]
    if len(low) or not np.isfinite(height[inner]).all():
        bad = tree.parent[low] if len(low) else inner[~np.isfinite(height[inner])]
        raise TreeError(
            f"the column 'height' must be a number that does not decrease towards the root, which fails at "
            f"{examples(tree.labels[bad])}; repair it or drop the column."
        )
    # Of equal heights the later one in preorder goes first, so that children are merged before their parents.
    order = inner[np.lexsort((-inner, height[inner]))]
    cluster = np.empty(tree.n_nodes, np.int64)
    cluster[tree.leaves] = np.arange(tree.n_leaves)
    cluster[order] = tree.n_leaves + np.arange(len(order))
    first = order + 1
    second = first + tree.size[first]
    return np.column_stack([cluster[first], cluster[second], height[order], tree.leaf_counts[order]]).astype(float)
