"""From a graph in which nodes may have several parents to a tree: named policies, and a record of what was dropped.

WordNet and the Gene Ontology are not trees (AUDIT E-13), and a code belongs to a tree, so the choice of one parent per
node must be declared; the other parents stay with the tree as ``tree.extra_parents``:

- ``"first"``: the parent through which a breadth-first walk from the root, following the edges in input order, reaches
  the node first. Every node ends up at its smallest possible depth (AUDIT S1).
- ``"deepest"``: the parent farthest from the root, by the longest path. Every node ends up as deep as possible.
- ``"most-specific"``: the parent with the fewest distinct descendants, the narrowest category that holds the node.
- ``"unfold"``: all of them. The node is copied once per path from the root; labels then repeat. The size of the result
  is computed first and refused above ``max_nodes``.
- ``"error"``: none of them: several parents are an error.

``deepest`` and ``most-specific`` break ties by the edge that comes first in the input. All policies are linear in the
edges, except ``most-specific``: edges × (parents of ambiguous nodes) / 64.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vpunn.errors import TreeError, check_choice
from vpunn.tree._validate import cycle_text

if TYPE_CHECKING:
    import pandas as pd

    from vpunn.tree._tree import Tree

POLICIES = ("first", "deepest", "most-specific", "unfold", "error")

#: `unfold` refuses to make more nodes than this unless told otherwise.
MAX_UNFOLDED = 10_000_000


class EdgeReport(str):
    """A line of ``tree.report`` that also holds the edges it is about, as label arrays ``parents`` and ``children``.

    It is plain text for everyone who only prints reports; `dropped_edges` collects the edges.
    """

    parents: np.ndarray
    children: np.ndarray
    reason: str

    def __new__(cls, text: str, parents: np.ndarray, children: np.ndarray, reason: str) -> EdgeReport:
        self = super().__new__(cls, text)
        self.parents, self.children, self.reason = parents, children, reason
        return self

    def __reduce__(self) -> tuple[type[EdgeReport], tuple[object, ...]]:
        return EdgeReport, (str(self), self.parents, self.children, self.reason)


def dropped_edges(tree: Tree) -> pd.DataFrame:
    """All edges that building ``tree`` left out, with the reason: columns ``parent``, ``child``, ``reason``.

    >>> from vpunn.tree._tree import Tree
    >>> tree = Tree.from_edges([("thing", "pet"), ("thing", "mammal"), ("mammal", "dog"), ("pet", "dog")])
    >>> tree.report
    ("policy 'first' dropped 1 of 4 edges (1 node has several parents): 'mammal' → 'dog'",)
    >>> dropped_edges(tree)
       parent child          reason
    0  mammal   dog  policy 'first'
    """
    import pandas as pd

    parts = [part for part in tree.report if isinstance(part, EdgeReport)]
    return pd.DataFrame(
        {
            "parent": [label for part in parts for label in part.parents.tolist()],
            "child": [label for part in parts for label in part.children.tolist()],
            "reason": [part.reason for part in parts for _ in part.parents],
        },
        dtype=object,
    )


def report_edges(text: str, parents: np.ndarray, children: np.ndarray, reason: str) -> EdgeReport:
    """The report line ``text`` followed by up to five of the edges."""
    return EdgeReport(f"{text}: {edge_examples(parents, children)}", parents, children, reason)


def edge_examples(parents: np.ndarray, children: np.ndarray) -> str:
    """Up to five edges as ``'a' → 'b'``, and how many more."""
    pairs = zip(parents[:5].tolist(), children[:5].tolist(), strict=True)
    shown = ", ".join(f"{p!r} → {c!r}" for p, c in pairs)
    return shown if len(parents) <= 5 else f"{shown} and {len(parents) - 5:,} more"


class Chosen(NamedTuple):
    """A tree inside (or unfolded from) a graph; nodes in an order in which siblings stand as in the input."""

    node: np.ndarray  #: graph node of each tree node
    edge: np.ndarray  #: edge by which it hangs on its parent; −1 at the root
    up: np.ndarray  #: its parent, as a position in these arrays; −1 at the root
    report: tuple[str, ...]
    lost: np.ndarray | None = None  #: edges that the policy dropped

    def extra(self, parent: np.ndarray, child: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """The dropped edges as ``(start, ids)`` over positions in these arrays: the extra parents of the tree."""
        if self.lost is None:
            return None
        n = len(self.node)
        place = np.empty(n, np.int64)
        place[self.node] = np.arange(n)
        below, above = place[child[self.lost]], place[parent[self.lost]]
        order = np.argsort(below, kind="stable")
        return np.concatenate([[0], np.cumsum(np.bincount(below, minlength=n))]), above[order]


def choose(
    parent: np.ndarray,
    child: np.ndarray,
    labels: np.ndarray,
    root: int,
    policy: str = "first",
    max_nodes: int = MAX_UNFOLDED,
) -> Chosen:
    """Turn an acyclic graph with one parentless node ``root`` into a tree by a policy.

    ``parent`` and ``child`` are edges between nodes ``0 … len(labels) − 1``, in input order and without repeats;
    ``labels`` names nodes in messages. A cycle is an error under every policy.
    """
    check_choice("policy", policy, POLICIES)
    n = len(labels)
    n_parents = np.bincount(child, minlength=n)
    several = np.flatnonzero(n_parents > 1)
    if not len(several):  # a tree, or a tree and cycles; `Tree.from_parents` finds those
        place = np.empty(n, np.int64)
        place[root], place[child] = 0, np.arange(1, n)
        return Chosen(np.append(root, child), np.arange(-1, n - 1), np.append(-1, place[parent]), ())
    if policy == "error":
        raise TreeError(_describe_several(parent, child, labels, n_parents))
    from vpunn.tree import _dag_kernels as kernels

    start, edges, order = sort_edges(parent, child, labels)
    if policy == "unfold":
        total = kernels.count_paths(order, start, edges, child, root)
        if not total <= max_nodes:
            raise TreeError(
                f"the policy unfold would copy {n:,} nodes into {_rounded(total)}, more than max_nodes={max_nodes:,}; "
                "raise max_nodes, or keep one parent per node with the policy first, deepest or most-specific."
            )
        node, edge, up = kernels.unfold(start, edges, child, root, int(total))
        line = f"policy 'unfold' copied {n:,} nodes into {len(node):,}, one per path from the root"
        return Chosen(node, edge, up, (line,))
    if policy == "deepest":
        kept = kernels.best_edges(parent, child, kernels.longest_depths(order, start, edges, child))
    elif policy == "most-specific":
        candidate = np.zeros(n, bool)
        candidate[parent[n_parents[child] > 1]] = True
        kept = kernels.best_edges(parent, child, -kernels.count_descendants(order, start, edges, child, candidate))
    else:
        kept = kernels.breadth_first(start, edges, child, root)
    return _arrange(parent, child, labels, kept, policy, len(several))


def sort_edges(parent: np.ndarray, child: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges grouped by parent (``start``, ``edges``) and nodes in topological order; a cycle is an error."""
    from vpunn.tree import _dag_kernels as kernels

    start, edges = kernels.group_edges(parent, len(labels))
    order, waiting = kernels.topological(start, edges, child)
    if len(order) < len(labels):
        raise TreeError(_describe_cycle(parent, child, labels, waiting))
    return start, edges, order


def _arrange(
    parent: np.ndarray, child: np.ndarray, labels: np.ndarray, kept: np.ndarray, policy: str, several: int
) -> Chosen:
    """Nodes by the input position of their kept edge (root first), so that siblings stand in input order."""
    node = np.argsort(kept, kind="stable")
    place = np.empty(len(node), np.int64)
    place[node] = np.arange(len(node))
    edge = kept[node]
    up = np.full(len(node), -1, np.int64)
    up[1:] = place[parent[edge[1:]]]
    lost = np.ones(len(parent), bool)
    lost[edge[1:]] = False
    text = (
        f"policy {policy!r} dropped {int(lost.sum()):,} of {len(parent):,} edges "
        f"({several:,} node{_has(several)} several parents)"
    )
    line = report_edges(text, labels[parent[lost]], labels[child[lost]], f"policy {policy!r}")
    return Chosen(node, edge, up, (line,), np.flatnonzero(lost))


def _describe_cycle(parent: np.ndarray, child: np.ndarray, labels: np.ndarray, waiting: np.ndarray) -> str:
    """A node still waiting has a parent still waiting, so climbing such parents must come round to a cycle."""
    stuck = waiting > 0
    up = np.full(len(labels), -1, np.int64)
    inner = np.flatnonzero(stuck[parent] & stuck[child])
    up[child[inner[::-1]]] = parent[inner[::-1]]
    ring = cycle_text(up, int(np.flatnonzero(stuck)[0]), lambda i: labels[i])
    return f"the edges run in a cycle, written from child to parent: {ring}; remove one of them."


def _describe_several(parent: np.ndarray, child: np.ndarray, labels: np.ndarray, n_parents: np.ndarray) -> str:
    """Sentence about nodes with several parents, showing the edges of the first of them together."""
    edges = np.flatnonzero(n_parents[child] > 1)
    edges = edges[np.argsort(child[edges], kind="stable")]
    nodes = int((n_parents > 1).sum())
    shown = edge_examples(labels[parent[edges]], labels[child[edges]])
    return (
        f"{nodes:,} node{_has(nodes)} several parents ({shown}), and the policy error allows one; "
        "the policies first, deepest and most-specific keep one of them, unfold all."
    )


def _has(count: int) -> str:
    return " has" if count == 1 else "s have"


def _rounded(total: float) -> str:
    return f"{int(total):,}" if total < 1e15 else f"about {total:.1e}" if total < 1e300 else "more than 1e300"


def find_label(labels: np.ndarray, wanted: Hashable) -> np.ndarray:
    """Positions of a label, also if it is a tuple (which NumPy would compare element by element)."""
    import pandas as pd

    one = np.empty(1, object)
    one[0] = wanted
    return np.flatnonzero(pd.Index(labels, tupleize_cols=False).isin(pd.Index(one, tupleize_cols=False)))
