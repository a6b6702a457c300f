"""Mapper: the nerve of a cover, as a graph, and whether its components say more than the cover put in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._types import Features, Numbers
from vpunn.errors import VpunnError, check_whole, examples
from vpunn.structure._finding import Finding
from vpunn.structure._source import coded
from vpunn.tree import Tree

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True, eq=False, repr=False)
class Mapper(Finding):
    """``graph`` has one node per set of the cover (attributes ``leaves``: how many it holds, ``family``: the depth-1 ball
    most of them belong to, ``ball``: the tree node that is the set or holds it, ``cell``: the number of its interval, −1
    for none), and an edge where two sets share leaves (``weight``: how many); ``graph.graph["families"]`` names the
    families.

    ``components`` numbers the component of every graph node. ``agreement`` is the adjusted mutual information between
    component and family over the leaves (1: the components are the families); ``bridges`` counts edges between sets of
    different families; ``forced`` says that no data could have given another answer.
    """

    graph: nx.Graph
    components: np.ndarray
    n_families: int
    agreement: float | None
    bridges: int
    forced: bool
    n_dropped: int  #: sets left out because they were smaller than ``min_size``

    @property
    def n_components(self) -> int:
        """Number of connected components."""
        return int(self.components.max(initial=-1)) + 1

    @property
    def verdict(self) -> str:
        if self.graph.number_of_nodes() == 0:
            return "no set of the cover holds enough leaves: there is no graph."
        seen = f"{self.n_components:,} component{'s' if self.n_components != 1 else ''} for {self.n_families:,} top-level families"
        agree = "" if self.agreement is None else f" (agreement {self.agreement:.2f})"
        if self.forced:
            return (
                f"{seen}{agree} and {self.bridges} bridges, as the cover forces: two balls meet only if one lies in the other, "
                "so this graph shows the tree and cannot test anything learned."
            )
        return f"{seen}{agree}, {self.bridges:,} of {self.graph.number_of_edges():,} edges join different families."

    def summary(self) -> dict[str, Any]:
        return {
            "sets": self.graph.number_of_nodes(),
            "edges": self.graph.number_of_edges(),
            "components": self.n_components,
            "families": self.n_families,
            "agreement": self.agreement,
            "bridges": self.bridges,
            "sets left out": self.n_dropped,
        }


def mapper(
    source: Any,
    lens: Numbers | None = None,
    *,
    depths: Sequence[int] = (1, 2, 3),
    points: Features = None,
    intervals: int = 12,
    overlap: float = 0.3,
    radius: float | None = None,
    min_size: int = 1,
) -> Mapper:
    """The Mapper graph of the leaves of a tree, of the rows of a table of digits (n, K), or of a model that gives either.

    Without a ``lens`` the cover is the code itself: all balls of the given ``depths`` (and leaves above a depth, on their
    own). Two balls meet only if nested, so components are the balls of the smallest depth, whatever the data.

    With a ``lens`` (one number per leaf, in preorder) the cover is ``intervals`` of equal length that overlap by the share
    ``overlap``; the leaves of an interval are split into clusters, by balls of the last depth or, if ``points`` (one row
    per leaf) are given, by links shorter than ``radius`` between points (default: the median distance to the fifth
    nearest point; single linkage). Then components and bridges are findings. Sets with fewer than ``min_size`` leaves are
    left out, and counted. Needs networkx (``pip install 'vpunn[figures]'``). O(leaves × depths), with points the cost of the links.

    >>> from vpunn import Tree
    >>> found = mapper(Tree.from_parents([-1, 0, 0, 1, 1, 2, 2]), depths=(1, 2))
    >>> found.n_components, found.graph.number_of_edges(), found.forced
    (2, 4, True)
    """
    levels = sorted({check_whole("a depth", k, 0) for k in depths})
    check_whole("intervals", intervals)
    check_whole("min_size", min_size)
    if not levels or not 0 <= overlap < 1:
        raise VpunnError(
            f"mapper needs at least one depth and 0 ≤ overlap < 1, got depths={examples(depths)}, overlap={overlap}."
        )
    if points is not None and lens is None:
        raise VpunnError("points are clustered inside the intervals of a lens; give lens=… too (any number per leaf).")
    given = coded(source)
    tree, leaves = given.tree, given.nodes
    if lens is None:
        sets = [(_balls(tree, leaves, k), np.full(len(leaves), -1)) for k in levels]
    else:
        sets = _cover(tree, leaves, lens, points, levels[-1], intervals, overlap, radius)
    families = {int(ball): given.name_of(int(ball)) for ball in np.unique(_balls(tree, leaves, 1) % tree.n_nodes)}
    return _nerve(tree, leaves, sets, min_size, families, forced=points is None, by_ball=lens is None or points is None)


def _balls(tree: Tree, leaves: np.ndarray, depth: int) -> np.ndarray:
    """The ball of each point at a depth; a point above it is on its own, also at an inner node, which gets a number of its own."""
    found = np.asarray(tree.ancestor_at(leaves, np.minimum(depth, tree.depth[leaves])))
    alone = (tree.depth[leaves] < depth) & ~tree.is_leaf[leaves]
    return np.where(alone, found + tree.n_nodes, found)


def _cover(
    tree: Tree,
    leaves: np.ndarray,
    lens: Numbers,
    points: Features,
    depth: int,
    intervals: int,
    overlap: float,
    radius: float | None,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each interval of the lens the cluster of every leaf (−1: not in it), and the interval's number."""
    values = np.asarray(lens, float)
    if values.shape != (len(leaves),) or not np.isfinite(values).all():
        raise VpunnError(f"the lens needs one finite number per leaf ({len(leaves):,}), got shape {values.shape}.")
    rows = None if points is None else np.asarray(points, float)
    if rows is not None and (rows.ndim != 2 or len(rows) != len(leaves) or not np.isfinite(rows).all()):
        raise VpunnError(f"points need one row of finite numbers per leaf ({len(leaves):,}), got shape {rows.shape}.")
    if rows is not None and radius is None:
        radius = _usual_gap(rows)
    low, high = float(values.min()), float(values.max())
    length = (high - low) / (intervals - (intervals - 1) * overlap) or 1.0
    balls = _balls(tree, leaves, depth)
    sets = []
    for i in range(intervals):
        start = low + i * length * (1 - overlap)
        inside = np.flatnonzero((values >= start - 1e-12) & (values <= start + length + 1e-12))
        cluster = np.full(len(leaves), -1)
        if len(inside):
            cluster[inside] = balls[inside] if rows is None else _linked(rows[inside], float(radius or 0.0))
        sets.append((cluster, np.full(len(leaves), i)))
    return sets


def _usual_gap(rows: np.ndarray) -> float:
    """Median distance to the fifth nearest other point."""
    from sklearn.neighbors import NearestNeighbors

    near = min(6, len(rows))
    distance, _ = NearestNeighbors(n_neighbors=near).fit(rows).kneighbors(rows)
    return float(np.median(distance[:, -1]))


def _linked(rows: np.ndarray, radius: float) -> np.ndarray:
    """Single-linkage clusters: components of the graph of pairs closer than ``radius``."""
    from scipy.sparse.csgraph import connected_components
    from sklearn.neighbors import radius_neighbors_graph

    return np.asarray(connected_components(radius_neighbors_graph(rows, radius, include_self=True), directed=False)[1])


def _nerve(
    tree: Tree,
    leaves: np.ndarray,
    sets: list[tuple[np.ndarray, np.ndarray]],
    min_size: int,
    families: dict[int, str],
    *,
    forced: bool,
    by_ball: bool,
) -> Mapper:
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components
    from sklearn.metrics import adjusted_mutual_info_score

    family = _balls(tree, leaves, 1) % tree.n_nodes
    _, family_number = np.unique(family, return_inverse=True)
    rows, columns, names, dropped, next_id = [], [], [], 0, 0
    seen: set[int] = set()
    for cluster, cell in sets:
        inside = np.flatnonzero(cluster >= 0)
        values, which = np.unique(cluster[inside], return_inverse=True)
        size = np.bincount(which, minlength=len(values))
        fresh = np.array([cell[0] >= 0 or int(v) not in seen for v in values], bool)
        seen.update(values.tolist() if len(cell) and cell[0] < 0 else [])
        keep = (size >= min_size) & fresh
        dropped += int(((size < min_size) & fresh).sum())
        number = np.full(len(values), -1)
        number[keep] = next_id + np.arange(int(keep.sum()))
        next_id += int(keep.sum())
        chosen = number[which] >= 0
        rows.append(number[which][chosen])
        columns.append(inside[chosen])
        names += [
            (int(v) % tree.n_nodes if by_ball else -1, int(cell[0]), int(s))
            for v, s in zip(values[keep], size[keep], strict=True)
        ]
    r, c = np.concatenate(rows), np.concatenate(columns)
    member = csr_matrix((np.ones(len(r)), (r, c)), shape=(next_id, len(leaves)))
    graph, majority = _graph(member, names, families, family, family_number)
    if next_id == 0:
        return Mapper(graph, np.zeros(0, int), len(np.unique(family)), None, 0, forced, dropped)
    shared = (member @ member.T).tocoo()
    upper = shared.row < shared.col
    edges = zip(shared.row[upper].tolist(), shared.col[upper].tolist(), shared.data[upper].tolist(), strict=True)
    graph.add_weighted_edges_from((a, b, int(w)) for a, b, w in edges)
    bridges = int((majority[shared.row[upper]] != majority[shared.col[upper]]).sum())
    components = np.asarray(connected_components(shared, directed=False)[1])
    first = np.full(len(leaves), -1)
    first[c] = components[r]  # all sets of a leaf are in one component, so any will do
    covered = first >= 0
    agreement = float(adjusted_mutual_info_score(family_number[covered], first[covered])) if covered.any() else None
    return Mapper(graph, components, len(np.unique(family)), agreement, bridges, forced, dropped)


def _graph(
    member: Any, names: list[tuple[int, int, int]], families: dict[int, str], family: np.ndarray, number: np.ndarray
) -> tuple[Any, np.ndarray]:
    """The graph's nodes with their attributes, and the majority family of each."""
    import_networkx()
    import networkx as nx
    from scipy.sparse import csr_matrix

    which = csr_matrix((np.ones(len(number)), (np.arange(len(number)), number)))
    majority = np.asarray((member @ which).argmax(1)).ravel() if len(names) else np.zeros(0, int)
    ball_of = np.unique(family)
    graph = nx.Graph(families=families)
    for i, (ball, cell, size) in enumerate(names):
        graph.add_node(i, leaves=size, family=int(ball_of[majority[i]]), ball=ball, cell=cell)
    return graph, majority


def import_networkx() -> None:
    """Say what to install if networkx is missing."""
    try:
        import networkx  # noqa: F401
    except ImportError as error:
        raise VpunnError("the nerve is a networkx graph: pip install 'vpunn[figures]'.") from error
