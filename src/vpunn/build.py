"""Trees from edges, paths, level columns, networkx graphs and linkage matrices.

All constructors end in `Tree.from_parents`; this module turns labels into integers (one hash pass), sorts out roots,
repeats and several parents, and carries further columns along. Nothing recurses and nothing loops over nodes in Python.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn import dag
from vpunn.errors import TreeError, examples
from vpunn.inputs import label_array, node_columns, one_of, split_pairs
from vpunn.tree import Tree

if TYPE_CHECKING:
    import networkx
    import pandas as pd


def tree_from_edges(
    parents: Any,
    children: Any = None,
    *,
    policy: str = "first",
    root: Hashable | None = None,
    add_root: Hashable | None = None,
    duplicates: str = "drop",
    self_parents: str = "error",
    columns: Mapping[str, Any] | pd.DataFrame | None = None,
    max_nodes: int = dag.MAX_UNFOLDED,
) -> Tree:
    """A tree from (parent, child) pairs of labels, in any order. Siblings keep the order of their rows. O(n).

    Give two sequences of equal length, or one list of pairs, one (n, 2) array or one DataFrame with two columns. A
    missing parent (None, NaN) marks its child as the root; without such a row the root is the node without a parent.

    - ``policy`` decides for nodes with several parents, see `vpunn.dag`; the edges it drops are listed in
      ``tree.report``, and `vpunn.dag.dropped_edges` returns them as a table.
    - ``add_root="name"`` puts a new root above several parentless nodes (with only one, nothing is added);
      ``root="name"`` keeps that node and what lies below it. Otherwise several parentless nodes are an error.
    - ``duplicates``: repeated edges are ``"drop"``-ped (and reported) or an ``"error"``.
    - ``self_parents``: a node that is its own parent is an ``"error"``, or with ``"root"`` a root (as NCBI writes it).
    - ``columns``: per-node values under a name, either one value per edge that describes the edge's child, or a dict
      from label to value; or a DataFrame indexed by label. Nodes without a value get NaN or None.
    - ``max_nodes`` bounds what ``policy="unfold"`` may create.

    >>> tree = tree_from_edges([("string", "violin"), ("music", "string"), ("music", "wind"), ("string", "lute")])
    >>> print(tree.show())
    music
    ├─ string
    │  ├─ violin
    │  └─ lute
    └─ wind
    >>> tree_from_edges(["a", "b", "c"], ["b", "c", "a"])
    Traceback (most recent call last):
    ...
    vpunn.errors.TreeError: the edges run in a cycle, written from child to parent: b → a → c → b; remove one of them.
    """
    one_of("duplicates", duplicates, ("drop", "error"))
    one_of("self_parents", self_parents, ("error", "root"))
    up, down = split_pairs(parents, children)
    above, no_parent = label_array(up)
    below, no_child = label_array(down)
    if len(above) != len(below):
        raise TreeError(f"need one parent per child: got {len(above):,} parents and {len(below):,} children.")
    if no_child.any():
        rows = np.flatnonzero(no_child)
        raise TreeError(f"the child is missing in row {examples(rows)}; only parents may be missing (that marks the root).")
    import pandas as pd

    rows = np.flatnonzero(~no_parent)
    if above.dtype != below.dtype:
        above, below = above.astype(object), below.astype(object)
    codes, labels = pd.factorize(np.concatenate([below, above[rows]]))
    child, parent = codes[: len(below)], codes[len(below) :]
    return _from_codes(
        parent,
        child[rows],
        rows,
        labels,
        marked=np.flatnonzero(no_parent),
        marked_nodes=child[no_parent],
        options=_Options(policy, root, add_root, duplicates, self_parents, max_nodes),
        columns=columns,
        n_rows=len(below),
    )


def tree_from_paths(
    paths: Iterable[Any],
    *,
    sep: str | None = None,
    root: Hashable | None = None,
    columns: Mapping[str, Any] | None = None,
) -> Tree:
    """A tree from root-to-node label paths: sequences of labels, or strings cut at ``sep``. O(total length).

    A node *is* its path, so equal names in different places are different nodes. Repeated paths and paths that are the
    beginning of another add nothing. All paths must start with the same label, which is the root, unless ``root``
    gives a name for a new root above them (then ``()`` is the root itself). Separators at either end of a string are
    ignored; an empty label between two separators is an error. ``columns`` holds one value per path, for the node
    where it ends.

    >>> tree = tree_from_paths(["lib/python/os.py", "lib/README", "bin/README"], sep="/", root="usr")
    >>> print(tree.show())
    usr
    ├─ lib
    │  ├─ python
    │  │  └─ os.py
    │  └─ README
    └─ bin
       └─ README
    """
    given = list(paths)
    if sep is not None:
        if not sep:
            raise TreeError("sep='' cannot separate labels; leave sep out to pass paths as sequences of labels.")
        wrong = [path for path in given if not isinstance(path, str)]
        if wrong:
            raise TreeError(f"with sep={sep!r} every path must be a string, got {examples(wrong)}.")
        given = [_split(path, sep) for path in given]
    elif any(isinstance(path, str | bytes) for path in given):
        raise TreeError(
            f"got strings as paths ({examples([p for p in given if isinstance(p, str | bytes)])}); "
            "pass sep='/' (or your separator) to cut them into labels, or pass sequences of labels."
        )
    lengths = np.fromiter((len(path) for path in given), np.int64, len(given))
    words, missing = label_array(np.fromiter(chain.from_iterable(given), object, int(lengths.sum())))
    if missing.any():
        at = int(np.searchsorted(np.cumsum(lengths), np.flatnonzero(missing)[0], side="right"))
        raise TreeError(f"path {at} has a missing label: {tuple(given[at])!r}; leave the rest of a short path out instead.")
    return _from_words(words, lengths, root, columns)


def tree_from_levels(
    frame: pd.DataFrame,
    columns: Sequence[str] | None = None,
    *,
    root: Hashable | None = "root",
    gaps: str = "error",
) -> Tree:
    """A tree from level columns of a table, broadest first (order, family, genus, species): one path per row.

    A missing or empty cell ends the path; a label after a missing one is an error, or with ``gaps="skip"`` the missing
    level is left out of that path. ``columns`` defaults to all columns. ``root`` names the node above the first column;
    with ``root=None`` the first column must hold one label, which is the root.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"order": ["Rodentia", "Rodentia", "Primates"], "genus": ["Mus", "Rattus", None]})
    >>> print(tree_from_levels(rows, root="Mammalia").show())
    Mammalia
    ├─ Rodentia
    │  ├─ Mus
    │  └─ Rattus
    └─ Primates
    """
    one_of("gaps", gaps, ("error", "skip"))
    names = list(frame.columns) if columns is None else list(columns)
    absent = [name for name in names if name not in frame.columns]
    if absent or not names:
        raise TreeError(
            f"no level column {examples(absent)} in the table, which has {examples(list(frame.columns), limit=20)}."
            if absent
            else "from_levels needs at least one level column."
        )
    cells = np.empty((len(frame), len(names)), object)
    filled = np.empty(cells.shape, bool)
    for k, name in enumerate(names):
        cells[:, k], missing = label_array(frame[name])
        filled[:, k] = ~missing & (cells[:, k] != "")
    lengths = filled.sum(axis=1)
    last = np.where(filled, np.arange(1, len(names) + 1), 0).max(axis=1)
    gap = np.flatnonzero(lengths != last)
    if len(gap) and gaps == "error":
        row = gap[0]
        k = int(np.flatnonzero(~filled[row])[0])
        after = examples(cells[row][k:][filled[row][k:]], limit=1)
        raise TreeError(
            f"{len(gap):,} row{'s have' if len(gap) > 1 else ' has'} a label below a missing one, such as row "
            f"{frame.index[row]!r}, where {names[k]!r} is missing but {after} follows; "
            "fill the level in, or pass gaps='skip' to leave it out of the path."
        )
    return _from_words(cells[filled], lengths, root, None)


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
    `Tree.to_networkx` wrote). ``policy``, ``root`` and ``add_root`` are those of `tree_from_edges`.
    """
    if not graph.is_directed():
        raise TreeError("an undirected graph has no parents; pass a networkx.DiGraph with edges parent → child.")
    nodes = list(graph.nodes)
    if not nodes:
        raise TreeError("the graph is empty; a tree needs at least one node.")
    place = {node: i for i, node in enumerate(nodes)}
    ends = np.fromiter((place[node] for edge in graph.edges() for node in edge), np.int64).reshape(-1, 2)
    labels = np.fromiter(nodes, object, len(nodes))
    keys = dict.fromkeys(key for _, data in graph.nodes(data=True) for key in data)
    columns = {str(key): {node: data[key] for node, data in graph.nodes(data=True) if key in data} for key in keys}
    options = _Options(policy, root, add_root, "drop", "error", max_nodes)
    tree = _from_codes(
        ends[:, 0], ends[:, 1], np.arange(len(ends)), labels, options=options, columns=columns, n_rows=len(ends)
    )
    if label is None:
        names: np.ndarray = tree.labels
    elif label in tree.columns:
        names = tree.columns[label]
    else:
        raise TreeError(f"no node attribute is called {label!r}; the graph has {examples(list(tree.columns), limit=20)}.")
    rest = {key: value for key, value in tree.columns.items() if key != label}
    return Tree.from_parents(tree.parent, label_array(names)[0], columns=rest, report=tree.report)


def tree_from_linkage(linkage: Any, labels: Sequence[Hashable] | None = None) -> Tree:
    """The dendrogram of a SciPy linkage matrix, with the merge heights in the column ``height`` (0 at the leaves).

    Leaves carry ``labels`` (default: their observation numbers), merges their SciPy cluster number: row ``i`` of a
    linkage of n observations is cluster n + i. Children stand in the order of the matrix.

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
    from scipy.cluster.hierarchy import is_valid_linkage

    table = np.asarray(linkage, dtype=np.float64)
    try:
        is_valid_linkage(table, throw=True)
    except (TypeError, ValueError) as error:
        raise TreeError(f"this is not a SciPy linkage matrix: {error}") from None
    n = len(table) + 1
    if labels is not None and len(labels) != n:
        raise TreeError(f"need one label per observation: got {len(labels):,} labels for {n:,} observations.")
    names: np.ndarray = np.arange(2 * n - 1)
    if labels is not None:
        names = np.concatenate([label_array(labels)[0].astype(object), names[n:].astype(object)])
    # Sibling order follows node order, so list the nodes as the matrix lists them: the last row's two clusters first.
    order = np.concatenate([[2 * n - 2], table[::-1, :2].astype(np.int64).ravel()])
    place = np.empty(2 * n - 1, np.int64)
    place[order] = np.arange(2 * n - 1)
    parent = np.concatenate([[-1], place[np.repeat(np.arange(2 * n - 2, n - 1, -1), 2)]])
    height = np.concatenate([np.zeros(n), table[:, 2]])
    return Tree.from_parents(parent, names[order], columns={"height": height[order]})


def with_report(tree: Tree, *lines: str) -> Tree:
    """The same tree with lines put before its report."""
    return Tree(tree.parent, tree.depth, tree.size, tree.digit, tree.labels, tree.columns, (*lines, *tree.report))


# ---- the parts they share ------------------------------------------------------------------------------------------


class _Options:
    """How to settle what an edge list leaves open; see `tree_from_edges`."""

    def __init__(
        self, policy: str, root: Hashable, add_root: Hashable, duplicates: str, self_parents: str, max_nodes: int
    ) -> None:
        dag.check_policy(policy)
        if root is not None and add_root is not None:
            raise TreeError(f"root={root!r} keeps one root and add_root={add_root!r} joins several; pass one of them.")
        self.policy, self.root, self.add_root = policy, root, add_root
        self.duplicates, self.self_parents, self.max_nodes = duplicates, self_parents, max_nodes


def _from_codes(
    parent: np.ndarray,
    child: np.ndarray,
    rows: np.ndarray,
    labels: np.ndarray,
    *,
    options: _Options,
    columns: Any,
    n_rows: int,
    marked: np.ndarray | None = None,
    marked_nodes: np.ndarray | None = None,
) -> Tree:
    """The tree of edges between nodes ``0 … len(labels) − 1``; ``rows`` are their input rows.

    ``marked`` are input rows that say "this node is a root", ``marked_nodes`` those nodes.
    """
    if len(labels) == 0:
        raise TreeError("there are no edges; a tree needs at least one node (a missing parent marks a root).")
    own = parent == child
    marked = np.zeros(0, np.int64) if marked is None else marked
    marked_nodes = np.zeros(0, np.int64) if marked_nodes is None else marked_nodes
    if own.any():
        if options.self_parents == "error":
            raise TreeError(
                f"{examples(labels[child[own]])} {'is its' if own.sum() == 1 else 'are their'} own parent (row "
                f"{examples(rows[own])}); self_parents='root' reads that as 'this is the root'."
            )
        marked, marked_nodes = np.concatenate([marked, rows[own]]), np.concatenate([marked_nodes, child[own]])
        parent, child, rows = parent[~own], child[~own], rows[~own]
    keep, report = _unrepeated(parent, child, rows, labels, options.duplicates)
    parent, child, rows = parent[keep], child[keep], rows[keep]
    described = np.full(len(labels) + 1, -1, np.int64)  # the row that describes a root; one more for an added root
    described[marked_nodes[::-1]] = marked[::-1]
    both = marked_nodes[np.isin(marked_nodes, child)]
    if len(both):
        names = examples(labels[np.unique(both)])
        raise TreeError(f"{names} is marked as a root (missing parent) but also has a parent; remove one of the rows.")
    if options.root is not None:
        parent, child, rows, top, labels, lines = _below(parent, child, rows, labels, options.root)
        report += lines
        described = described[np.append(top[1], -1)]
        start = top[0]
    else:
        parent, child, rows, labels, start = _with_one_root(parent, child, rows, labels, described, options.add_root)
    chosen = dag.choose(parent, child, labels, start, options.policy, options.max_nodes)
    row = np.where(chosen.edge >= 0, rows[chosen.edge] if len(rows) else -1, described[chosen.node])
    names = labels[chosen.node]
    table = node_columns(columns, row, names, n_rows)
    return Tree.from_parents(chosen.up, names, columns=table, report=(*report, *chosen.report))


def _unrepeated(
    parent: np.ndarray, child: np.ndarray, rows: np.ndarray, labels: np.ndarray, duplicates: str
) -> tuple[np.ndarray | slice, tuple[str, ...]]:
    """Which edges are not repeats of an earlier one, and a report line about the others."""
    if len(child) == 0 or np.bincount(child).max() == 1:  # one parent each, so nothing can repeat
        return slice(None), ()
    import pandas as pd

    again = pd.Index(parent.astype(np.int64) * len(labels) + child).duplicated()
    if not again.any():
        return slice(None), ()
    ends = labels[parent[again]], labels[child[again]]
    if duplicates == "error":
        raise TreeError(
            f"{int(again.sum()):,} edges are repeated ({dag.edge_examples(*ends)}; row {examples(rows[again])}); "
            "remove them, or pass duplicates='drop'."
        )
    return ~again, (dag.report_edges(f"dropped {int(again.sum()):,} repeated edges", *ends, "repeated"),)


def _with_one_root(
    parent: np.ndarray, child: np.ndarray, rows: np.ndarray, labels: np.ndarray, described: np.ndarray, add_root: Hashable
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """The edges and labels, with a new root on top if several nodes lack a parent and ``add_root`` names one.

    ``described`` is the input row that marks a node as a root, or −1.
    """
    n = len(labels)
    tops = np.flatnonzero(np.bincount(child, minlength=n) == 0)
    if len(tops) == 1:
        return parent, child, rows, labels, int(tops[0])
    if len(tops) == 0:
        dag.sort_edges(parent, child, labels)  # no parentless node means a cycle: let it be named
    if add_root is None:
        marked, orphans = tops[described[tops] >= 0], tops[described[tops] < 0]
        if len(marked) == 1:
            top = labels[marked[0]]
            raise TreeError(
                f"{len(orphans):,} parent{' has' if len(orphans) == 1 else 's have'} no row as a child "
                f"({examples(labels[orphans])}) while the root is {top!r}; add their rows, or pass root={top!r} to drop "
                "what hangs on them, or add_root='name' to put all of them below a new root."
            )
        raise TreeError(
            f"{len(tops):,} nodes have no parent ({examples(labels[tops])}) but a tree has one root; pass "
            f"add_root='name' to put a new root above them, or root={labels[tops[0]]!r} to keep only what lies below one."
        )
    if len(dag.find_label(labels, add_root)):
        raise TreeError(f"add_root={add_root!r} is already the name of a node; choose a name that is not taken.")
    mentioned = np.full(n, np.iinfo(np.int64).max)
    np.minimum.at(mentioned, parent, rows)
    mentioned = np.where(described[:n] >= 0, described[:n], mentioned)
    tops = tops[np.argsort(mentioned[tops], kind="stable")]  # the new root's children in input order
    names = np.empty(n + 1, object)
    names[:n] = labels
    names[n] = add_root
    return (
        np.concatenate([parent, np.full(len(tops), n)]),
        np.concatenate([child, tops]),
        np.concatenate([rows, described[tops]]),
        label_array(names)[0],
        n,
    )


def _below(
    parent: np.ndarray, child: np.ndarray, rows: np.ndarray, labels: np.ndarray, root: Hashable
) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[int, np.ndarray], np.ndarray, tuple[str, ...]]:
    """What can be reached from the label ``root``: edges renumbered, (new root, old ids), labels, report."""
    from vpunn import _dag_kernels as kernels

    found = dag.find_label(labels, root)
    if not len(found):
        raise TreeError(f"root={root!r} is not a node; the labels are such as {examples(labels[:5], len(labels))}.")
    if len(found) > 1:
        raise TreeError(f"root={root!r} names {len(found)} nodes; it must name one.")
    start, edges = kernels.group_edges(parent, len(labels))
    inside = kernels.breadth_first(start, edges, child, int(found[0])) >= -1
    nodes = np.flatnonzero(inside)
    place = np.cumsum(inside) - 1
    kept = inside[parent] & inside[child]
    cut = inside[child] & ~inside[parent] & (child != found[0])
    report: tuple[str, ...] = ()
    if len(nodes) < len(labels):
        report = (f"kept the {len(nodes):,} of {len(labels):,} nodes that are {root!r} or lie below it",)
    if cut.any():
        line = f"dropped {int(cut.sum()):,} edges from nodes outside {root!r}"
        report += (dag.report_edges(line, labels[parent[cut]], labels[child[cut]], f"outside {root!r}"),)
    return place[parent[kept]], place[child[kept]], rows[kept], (int(place[found[0]]), nodes), labels[nodes], report


def _from_words(words: np.ndarray, lengths: np.ndarray, root: Hashable | None, columns: Any) -> Tree:
    """The tree of label sequences laid end to end, cut by ``lengths``."""
    import pandas as pd

    from vpunn import _dag_kernels as kernels

    if len(lengths) == 0 and root is None:
        raise TreeError("there are no paths; a tree needs at least one node (root='name' gives it one).")
    start = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=start[1:])
    codes, vocabulary = pd.factorize(words)
    up, word, end = kernels.trie(codes.astype(np.int64), start, len(vocabulary) + 1)
    labels = np.empty(len(up), object)
    labels[1:] = vocabulary[word[1:]]
    if root is None:
        tops = np.flatnonzero(up == 0)
        if (lengths == 0).any() or len(tops) != 1:
            what = f"start with {len(tops):,} different labels ({examples(labels[tops])})"
            if (lengths == 0).any():
                what = f"include an empty one (number {np.flatnonzero(lengths == 0)[0]})"
            raise TreeError(f"the paths {what}, so there is no single root; pass root='name' to put a new root above them.")
        up, labels, end = up[1:] - 1, labels[1:], end - 1  # node 1 is the common first label
    else:
        labels[0] = root
    row = np.full(len(up), -1, np.int64)
    row[end[::-1]] = np.arange(len(end))[::-1]  # backwards, so that the first of equal paths describes the node
    names = label_array(labels)[0] if len(up) else labels
    return Tree.from_parents(up, names, columns=node_columns(columns, row, names, len(lengths)))


def _split(path: str, sep: str) -> list[str]:
    labels = path.removeprefix(sep).removesuffix(sep).split(sep)
    if "" in labels:
        if path in ("", sep):
            return []
        raise TreeError(f"the path {path!r} has an empty label between two separators {sep!r}; remove one of them.")
    return labels
