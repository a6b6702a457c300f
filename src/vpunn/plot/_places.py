"""Where nodes go: outlines that keep the largest branches, wedges by leaves, nested circles, forces."""

from __future__ import annotations

import numpy as np

from vpunn._types import Numbers
from vpunn.tree import Tree


def first_leaf(tree: Tree) -> np.ndarray:
    """How many leaves come before each node: its left edge where leaves stand side by side."""
    return np.concatenate([[0], np.cumsum(tree.is_leaf)[:-1]])


def wedges(tree: Tree) -> tuple[np.ndarray, np.ndarray]:
    """Left edge and width of every node on [0, 1], leaves of equal width."""
    return first_leaf(tree) / tree.n_leaves, tree.leaf_counts / tree.n_leaves


def outline(tree: Tree, count: int) -> np.ndarray:
    """The ``count`` nodes with most leaves, in preorder: with a node always its ancestors."""
    if tree.n_nodes <= count:
        return np.arange(tree.n_nodes)
    order = np.lexsort((np.arange(tree.n_nodes), tree.depth, -tree.leaf_counts))
    return np.sort(order[:count])


def cut(tree: Tree, tips: int) -> np.ndarray:
    """Nodes of the tree with at most ``tips`` tips, opened at the largest balls first (children come all together)."""
    import heapq

    forks = np.flatnonzero(tree.n_children != 1)
    kept, open_tips = [np.zeros(1, np.int64)], 1
    heap = [(-int(tree.leaf_counts[0]), 0)]
    while heap:
        _, node = heapq.heappop(heap)
        fork = int(forks[np.searchsorted(forks, node)])  # down to it every node has one child: all of them are one tip
        kept.append(np.arange(node + 1, fork + 1))
        children = tree.children(fork)
        if len(children) == 0 or open_tips + len(children) - 1 > max(tips, 1):
            continue
        open_tips += len(children) - 1
        kept.append(children)
        for size, child in zip(tree.leaf_counts[children].tolist(), children.tolist(), strict=True):
            heapq.heappush(heap, (-size, child))
    return np.sort(np.concatenate(kept))


def aggregate(tree: Tree, values: Numbers) -> np.ndarray:
    """Mean of a column (by name, or one number per node; NaN is missing) over every ball, NaN where a ball has none."""
    from vpunn.errors import VpunnError

    if isinstance(values, str):
        if values not in tree.columns:
            raise VpunnError(f"this tree has no column {values!r}; it has {', '.join(tree.columns) or 'none'}.")
        values = tree.columns[values]
    try:
        given = np.asarray(values, float)
    except (TypeError, ValueError):
        raise VpunnError(
            "a colour for each branch needs numbers; give a numeric column or one number per node."
        ) from None
    if given.shape != (tree.n_nodes,):
        raise VpunnError(
            f"a colour for each branch needs one number per node ({tree.n_nodes:,}), got shape {given.shape}."
        )
    known = np.isfinite(given)
    total = tree.subtree_sum(np.where(known, given, 0.0))
    count = tree.subtree_sum(known.astype(np.int64))
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def nested_circles(tree: Tree, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Centre and radius of a circle per node down to a depth (radius 0 below), children on a ring inside their parent."""
    centre, radius = np.zeros((tree.n_nodes, 2)), np.zeros(tree.n_nodes)
    radius[0] = 1.0
    start, ids = tree.levels
    for k in range(1, min(depth, tree.max_depth) + 1):
        level = ids[start[k] : start[k + 1]]
        up = tree.parent[level]
        many = tree.n_children[up]
        share = np.where(
            many == 1, 0.82, np.sin(np.pi / np.maximum(many, 2)) / (1 + np.sin(np.pi / np.maximum(many, 2)))
        )
        radius[level] = radius[up] * share * 0.93
        angle = np.pi / 2 - 2 * np.pi * (tree.digit[level] - 1) / many
        ring = np.where(many == 1, 0.0, radius[up] * (1 - share) * 0.97)
        centre[level] = centre[up] + ring[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return centre, radius


def force_layout(tree: Tree, *, skeleton: int = 700, iterations: int = 60, seed: int = 0) -> np.ndarray:
    """(nodes, 2): spring forces on the largest balls, all other nodes thrown around the nearest of them.

    Fruchterman and Reingold's rule on ``skeleton`` nodes, O(skeleton²) a step; the rest costs O(nodes).
    """
    rng = np.random.default_rng(seed)
    kept = outline(tree, skeleton)
    place = np.full(tree.n_nodes, -1)
    place[kept] = np.arange(len(kept))
    n = len(kept)
    at = rng.standard_normal((n, 2)) * np.sqrt(n) / 4
    up = place[tree.parent[kept[1:]]]
    child = np.arange(1, n)
    for step in range(iterations):
        gap = at[:, None] - at[None]
        square = np.maximum((gap**2).sum(2), 1e-4)
        push = (gap / square[:, :, None]).sum(1)
        pull = at[child] - at[up]
        pull *= np.hypot(*pull.T)[:, None]
        np.add.at(push, child, -pull)
        np.add.at(push, up, pull)
        length = np.maximum(np.hypot(*push.T), 1e-9)[:, None]
        heat = 0.12 * np.sqrt(n) * (1 - step / iterations) + 0.01
        at += push / length * np.minimum(length, heat)
    out = np.zeros((tree.n_nodes, 2))
    out[kept] = at
    marked = place >= 0
    from vpunn.tree.sweeps import nearest_marked_ancestor

    anchor = nearest_marked_ancestor(tree, marked)
    rest = np.flatnonzero(~marked)
    far = np.sqrt(tree.leaf_counts[anchor[rest]] / tree.n_leaves) * np.sqrt(n) * 1.6 + 0.4
    angle, reach = rng.uniform(0, 2 * np.pi, len(rest)), np.sqrt(rng.uniform(0, 1, len(rest))) * far
    out[rest] = out[anchor[rest]] + reach[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return out
