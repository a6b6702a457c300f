"""An edge list on its way to becoming a tree: self-parents, repeats, roots and several parents, settled in that order."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from vpunn._arrays import as_frame, collection, label_array, object_array, take_or_missing
from vpunn._types import Labels
from vpunn.errors import TreeError, advice, check_choice, either, examples
from vpunn.tree import dag
from vpunn.tree._tree import Tree


def by_row(rows: np.ndarray) -> str:
    """How messages call input rows, unless a reader knows their lines."""
    return f"row {examples(rows)}, counted from 0"


@dataclass(frozen=True)
class Choices:
    """How to settle what an edge list leaves open; see `vpunn.tree.build.tree_from_edges`."""

    policy: str = "first"
    root: Hashable | None = None
    add_root: Hashable | None = None
    duplicates: str = "drop"
    self_parents: str = "error"
    max_nodes: int = dag.MAX_UNFOLDED
    place: Callable[[np.ndarray], str] = by_row

    def __post_init__(self) -> None:
        check_choice("policy", self.policy, dag.POLICIES)
        check_choice("duplicates", self.duplicates, ("drop", "error"))
        check_choice("self_parents", self.self_parents, ("error", "root"))
        if not isinstance(self.max_nodes, Real):
            raise TreeError(f"max_nodes={self.max_nodes!r} must be a number of nodes.")
        if self.root is not None and self.add_root is not None:
            raise TreeError(
                f"root={self.root!r} keeps one root and add_root={self.add_root!r} joins several; pass one of them."
            )


@dataclass(frozen=True)
class EdgeList:
    """Edges ``parent → child`` between nodes ``0 … len(labels) − 1``. Steps return a changed list and add to ``report``."""

    parent: np.ndarray
    child: np.ndarray
    row: np.ndarray  #: input row of each edge
    labels: np.ndarray
    marked: np.ndarray  #: for each node the input row that says it is a root, or −1
    report: tuple[str, ...] = ()

    def to_tree(self, choices: Choices, columns: Any, n_rows: int) -> Tree:
        """The tree, with ``columns`` as in `tree_from_edges` for ``n_rows`` input rows."""
        if len(self.labels) == 0:
            raise TreeError("there are no edges; a tree needs at least one node (a missing parent marks a root).")
        edges = self.without_self_parents(choices).without_repeats(choices)
        edges.check_marks()
        if choices.root is not None:
            edges, top = edges.below(choices.root)
        else:
            edges, top = edges.with_one_root(choices.add_root)
        chosen = dag.choose(edges.parent, edges.child, edges.labels, top, choices.policy, choices.max_nodes)
        # A node is described by the row of the edge it hangs on, the root by the row that marks it.
        row = np.append(edges.row, edges.marked[top])[chosen.edge]
        names = edges.labels[chosen.node]
        table = node_columns(columns, row, names, n_rows)
        report = (*edges.report, *chosen.report)
        return Tree.from_parents(
            chosen.up, names, columns=table, report=report, extra_parents=chosen.extra(edges.parent, edges.child)
        )

    def without_self_parents(self, choices: Choices) -> EdgeList:
        """Edges from a node to itself are an error, or marks of a root."""
        own = self.parent == self.child
        if not own.any():
            return self
        rows, nodes = self.row[own], self.child[own]
        if choices.self_parents == "error":
            raise TreeError(
                f"{examples(self.labels[nodes])} {'is its' if len(nodes) == 1 else 'are their'} own parent "
                f"({choices.place(rows)}); "
                + either("correct it", advice("self_parents", "root", note="to read that as 'this is the root'"))
                + "."
            )
        marked = self.marked.copy()
        marked[nodes] = rows
        return replace(self, parent=self.parent[~own], child=self.child[~own], row=self.row[~own], marked=marked)

    def without_repeats(self, choices: Choices) -> EdgeList:
        """Repeated edges are an error, or dropped and reported."""
        if len(self.child) == 0 or np.bincount(self.child).max() == 1:  # one parent each, so nothing can repeat
            return self
        import pandas as pd

        again = np.asarray(pd.Index(self.parent.astype(np.int64) * len(self.labels) + self.child).duplicated())
        if not again.any():
            return self
        ends = self.labels[self.parent[again]], self.labels[self.child[again]]
        count = f"{int(again.sum()):,}"
        if choices.duplicates == "error":
            raise TreeError(
                f"{count} edges are repeated ({dag.edge_examples(*ends)}; {choices.place(self.row[again])}); "
                f"{either('remove them', advice('duplicates', 'drop'))}."
            )
        line = dag.report_edges(f"dropped {count} repeated edges", *ends, "repeated")
        kept = replace(self, parent=self.parent[~again], child=self.child[~again], row=self.row[~again])
        return replace(kept, report=(*self.report, line))

    def check_marks(self) -> None:
        """A node cannot be marked as a root and have a parent."""
        both = np.unique(self.child[self.marked[self.child] >= 0])
        if len(both):
            names = examples(self.labels[both])
            raise TreeError(
                f"{names} is marked as a root (missing parent) but also has a parent; remove one of the rows."
            )

    def with_one_root(self, add_root: Hashable | None) -> tuple[EdgeList, int]:
        """The list and its root: the only parentless node, or a new one named ``add_root`` above several."""
        n = len(self.labels)
        tops = np.flatnonzero(np.bincount(self.child, minlength=n) == 0)
        if len(tops) == 1:
            return self, int(tops[0])
        if len(tops) == 0:
            dag.sort_edges(self.parent, self.child, self.labels)  # no parentless node means a cycle: let it be named
        if add_root is None:
            raise TreeError(self._describe_roots(tops))
        if len(dag.find_label(self.labels, add_root)):
            raise TreeError(f"add_root={add_root!r} is already the name of a node; choose a name that is not taken.")
        mentioned = np.full(n, np.iinfo(np.int64).max)
        np.minimum.at(mentioned, self.parent, self.row)
        mentioned = np.where(self.marked >= 0, self.marked, mentioned)
        tops = tops[np.argsort(mentioned[tops], kind="stable")]  # the new root's children in input order
        names = np.empty(n + 1, object)
        names[:n], names[n] = self.labels, add_root
        grown = EdgeList(
            parent=np.append(self.parent, np.full(len(tops), n)),
            child=np.append(self.child, tops),
            row=np.append(self.row, self.marked[tops]),
            labels=label_array(names)[0],
            marked=np.append(self.marked, -1),
            report=self.report,
        )
        return grown, n

    def _describe_roots(self, tops: np.ndarray) -> str:
        """Sentence about several parentless nodes; if one is marked as the root, the others are orphaned parents."""
        marked, orphans = tops[self.marked[tops] >= 0], tops[self.marked[tops] < 0]
        if len(marked) == 1:
            top, named = self.labels[marked[:1]].tolist()[0], examples(self.labels[marked[:1]])
            ways = either(
                "add their rows",
                advice("root", top, note="to drop what hangs on them"),
                advice("add_root", "…", note="to put all of them below a new root"),
            )
            return (
                f"{len(orphans):,} parent{' has' if len(orphans) == 1 else 's have'} no row as a child "
                f"({examples(self.labels[orphans])}) while the root is {named}; {ways}."
            )
        ways = either(
            advice("add_root", "…", note="to put a new root above them"),
            advice("root", self.labels[tops[:1]].tolist()[0], note="to keep only what lies below one"),
        )
        return f"{len(tops):,} nodes have no parent ({examples(self.labels[tops])}) but a tree has one root; {ways}."

    def below(self, root: Hashable) -> tuple[EdgeList, int]:
        """What can be reached from the node labelled ``root``, renumbered, and that node."""
        from vpunn.tree import _dag_kernels as kernels

        found = dag.find_label(self.labels, root)
        if not len(found):
            raise TreeError(
                f"the root {root!r} is not a node; the labels are such as {examples(self.labels[:5], len(self.labels))}."
            )
        if len(found) > 1:
            raise TreeError(f"the root {root!r} names {len(found)} nodes; it must name one.")
        start, edges = kernels.group_edges(self.parent, len(self.labels))
        inside = kernels.breadth_first(start, edges, self.child, int(found[0])) >= -1
        place = np.cumsum(inside) - 1
        kept = inside[self.parent] & inside[self.child]
        cut = inside[self.child] & ~inside[self.parent] & (self.child != found[0])
        report = list(self.report)
        if not inside.all():
            report.append(f"kept the {int(inside.sum()):,} of {len(inside):,} nodes that are {root!r} or lie below it")
        if cut.any():
            lost = self.labels[self.parent[cut]], self.labels[self.child[cut]]
            line = f"dropped {int(cut.sum()):,} edges from nodes outside {root!r}"
            report.append(dag.report_edges(line, *lost, f"outside {root!r}"))
        ends = place[self.parent[kept]], place[self.child[kept]]
        part = EdgeList(*ends, self.row[kept], self.labels[inside], self.marked[inside], tuple(report))
        return part, int(place[found[0]])


# ---- what users hand in ------------------------------------------------------------------------------------------------


def split_pairs(parents: Labels, children: Labels) -> tuple[Any, Any]:
    """Parents and children apart, from whichever form the pairs were given in."""
    if children is not None:
        return parents, children
    import pandas as pd

    parents = as_frame(parents)
    if isinstance(parents, pd.DataFrame):
        if parents.shape[1] != 2:
            raise TreeError(
                f"an edge table needs two columns, parent and child, got {examples(list(parents.columns), limit=20)}; "
                "select them, and pass others as columns={'name': values}."
            )
        return parents.iloc[:, 0], parents.iloc[:, 1]
    if isinstance(parents, np.ndarray) and parents.ndim == 2 and parents.shape[1] == 2:
        return parents[:, 0], parents[:, 1]
    if isinstance(parents, np.ndarray):
        raise TreeError(
            f"an array of edges needs the shape (n, 2), one (parent, child) pair per row, got {parents.shape}."
        )
    pairs = list(collection(parents, "edges must be (parent, child) pairs or two sequences"))
    wrong = [pair for pair in pairs if isinstance(pair, str | bytes) or not hasattr(pair, "__len__") or len(pair) != 2]
    if wrong:
        raise TreeError(f"edges must be (parent, child) pairs, got {examples(wrong)}; or pass two sequences.")
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def node_columns(columns: Any, row: np.ndarray, labels: np.ndarray, n_rows: int) -> dict[str, np.ndarray]:
    """Per-node arrays from values per input row, dicts by label, or a DataFrame indexed by label."""
    if columns is None or (isinstance(columns, dict) and not columns):
        return {}
    import pandas as pd

    if isinstance(columns, pd.DataFrame):
        if not columns.index.is_unique:
            twice = columns.index[columns.index.duplicated()]
            raise TreeError(f"the index of columns must name each node once, but {examples(twice)} is repeated.")
        at = columns.index.get_indexer(pd.Index(labels, tupleize_cols=False))
        return {str(name): take_or_missing(columns[name], at) for name in columns}
    if not isinstance(columns, Mapping):
        raise TreeError(f"columns must be a dict from names to values, or a DataFrame, got {reprlib.repr(columns)}.")
    table = {}
    for name, values in columns.items():
        if isinstance(values, Mapping):
            keys = pd.Index(np.fromiter(values, object, len(values)), tupleize_cols=False)
            at = keys.get_indexer(pd.Index(labels, tupleize_cols=False))
            table[name] = take_or_missing(object_array(list(values.values())), at)
        elif len(collection(values, f"column {name!r} needs one value per input row")) != n_rows:
            raise TreeError(f"column {name!r} needs one value per input row: got {len(values):,} for {n_rows:,} rows.")
        else:
            table[name] = take_or_missing(values, row)
    return table
