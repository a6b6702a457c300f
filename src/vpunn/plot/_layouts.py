"""Places for the nodes of graphs: forces for small ones, shelves for many components."""

from __future__ import annotations

from typing import Any

import numpy as np


def pack_components(
    graph: Any, components: np.ndarray, largest: int, sets: int
) -> tuple[dict[int, np.ndarray], list[int]]:
    """Places of the nodes of the largest components (each with its largest sets), laid out apart and set on shelves."""
    import networkx as nx

    size = np.array([graph.nodes[i]["leaves"] for i in range(len(components))])
    # the largest set of a component holds it; sums would count nested sets several times
    weight = np.zeros(int(components.max()) + 1)
    np.maximum.at(weight, components, size)
    chosen = np.argsort(-weight, kind="stable")[:largest]
    share = np.maximum((sets * np.sqrt(weight[chosen]) / np.sqrt(weight[chosen]).sum()).astype(int), 1)
    place: dict[int, np.ndarray] = {}
    cursor_x = cursor_y = shelf = 0.0
    width = 2.2 * np.sqrt(np.sum(share)) * 1.3
    for component, room in zip(chosen.tolist(), share.tolist(), strict=True):
        members = np.flatnonzero(components == component)
        members = members[np.argsort(-size[members], kind="stable")][:room]
        part = graph.subgraph(members.tolist())
        radius = max(np.sqrt(len(members)), 0.6)
        if len(members) == 1:
            local = {int(members[0]): np.zeros(2)}
        else:
            local = nx.spring_layout(part, seed=0, iterations=80, weight=None)
        points = np.array([local[int(i)] for i in members])
        points = points - points.mean(0)
        points = points / max(np.abs(points).max(), 1e-9) * radius
        if cursor_x + 2 * radius > width and cursor_x > 0:
            cursor_x, cursor_y, shelf = 0.0, cursor_y - shelf - 0.8, 0.0
        centre = np.array([cursor_x + radius, cursor_y - radius])
        for i, point in zip(members.tolist(), points, strict=True):
            place[int(i)] = centre + point
        cursor_x += 2 * radius + 0.8
        shelf = max(shelf, 2 * radius)
    return place, list(place)
