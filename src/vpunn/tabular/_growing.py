"""Grow a tree of balls from rows (cut a dendrogram, or split by k-means) and route any row to its ball.

Two routes, both by nearest prototype. `Cells`: every leaf ball holds a few fine prototypes, and a row belongs where the
nearest of all prototypes lies. Ward's clusters are far from round, and one mean per leaf would lose them (of the wines
75 % lie nearest the mean of their own leaf out of 64; 1,000 prototypes keep 99.5 %). `Descent`: one
prototype and one price per ball, and from the root a row takes the child with the least ‖row − prototype‖² + price;
this is what k-means splits build, and it serves millions of leaves.
Training rows take the same route as unseen ones, so a row's code never depends on having been in the training set.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral

import numpy as np
from threadpoolctl import threadpool_limits

from vpunn._rows import slices
from vpunn._threads import in_threads
from vpunn.errors import VpunnError
from vpunn.store import Draft, Stored
from vpunn.tree import Tree

#: k-means rounds per level; a level stops earlier when no row moves.
ROUNDS = 25
#: Rows that a thread routes at a time.
BLOCK = 8192
#: Rows a child that a split is learned from, at most.
SAMPLE = 256


def _blocks(rows: int) -> list[slice]:
    """Blocks of rows that threads take in turn, at least one."""
    return list(slices(rows, BLOCK)) or [slice(0, 0)]


class Cells:
    """Routes a row to the ball of its nearest prototype. O(m·d) a row for m prototypes."""

    def __init__(self, prototypes: np.ndarray, ball: np.ndarray) -> None:
        self.prototypes, self.ball = prototypes, np.asarray(ball)

    def route(self, rows: np.ndarray, n_jobs: int | None = None) -> np.ndarray:
        """Leaf ball of every row."""
        return np.asarray(self.ball[self.cell(rows, n_jobs)])

    def cell(self, rows: np.ndarray, n_jobs: int | None = None) -> np.ndarray:
        """Nearest prototype of every row."""
        from vpunn.tabular import _kernels

        found, columns = np.empty(len(rows), np.int64), np.ascontiguousarray(self.prototypes.T)
        rows = np.ascontiguousarray(rows)
        in_threads(lambda part: _kernels.nearest_cell(rows[part], columns, found[part]), _blocks(len(rows)), n_jobs)
        return found

    def renumbered(self, position: np.ndarray) -> Cells:
        """With balls renumbered (−1: the ball is gone, and its prototypes with it)."""
        ball = position[self.ball]
        return Cells(self.prototypes[ball >= 0], ball[ball >= 0])


class Descent:
    """Routes a row from the root down, at each ball to the child with the least ‖row − prototype‖² + price."""

    def __init__(self, tree: Tree, prototypes: np.ndarray, prices: np.ndarray) -> None:
        self.start, self.ids = tree.child_index
        self.prototypes, self.prices = np.ascontiguousarray(prototypes), prices

    def route(self, rows: np.ndarray, n_jobs: int | None = None) -> np.ndarray:
        """Leaf ball of every row."""
        from vpunn.tabular import _kernels

        node, rows = np.zeros(len(rows), np.int64), np.ascontiguousarray(rows)
        way = self.start, self.ids, self.prototypes, self.prices
        in_threads(lambda part: _kernels.descend(rows[part], *way, node[part]), _blocks(len(rows)), n_jobs)
        return node

    cell = route  # the leaf itself is the finest thing that descent tells apart


@dataclass
class BallTree:
    """A tree of balls, the leaf ball of every training row, and the route for other rows."""

    tree: Tree
    leaf: np.ndarray
    router: Cells | Descent

    def put(self, draft: Draft) -> None:
        """Write leaves and prototypes into a draft; the tree stands elsewhere."""
        draft.array("leaf", self.leaf)
        draft.array("prototypes", self.router.prototypes, balls=True)
        if isinstance(self.router, Cells):
            draft.array("prototype_ball", self.router.ball)
        else:
            draft.array("prices", self.router.prices, balls=True)

    @classmethod
    def get(cls, stored: Stored, tree: Tree, width: int | None = None) -> BallTree:
        """The balls of `put`; ``width`` is the number of columns a row has."""
        leaf = stored.array("leaf", dtype="i8", shape=(None,), low=0, high=tree.n_nodes)
        prototypes = stored.array("prototypes", dtype="f8", shape=(None, width))
        if "prototype_ball" in stored:
            ball = stored.array("prototype_ball", dtype="i8", shape=(len(prototypes),), low=0, high=tree.n_nodes)
            if not len(ball) or not tree.is_leaf[ball].all():
                raise VpunnError("a prototype belongs to no leaf ball.")
            return cls(tree, leaf, Cells(prototypes, ball))
        if len(prototypes) != tree.n_nodes:
            raise VpunnError(f"there are {len(prototypes)} prototypes for {tree.n_nodes} balls.")
        prices = stored.array("prices", dtype="f8", shape=(tree.n_nodes,))
        return cls(tree, leaf, Descent(tree, prototypes, prices))


# ---- cutting a dendrogram ----------------------------------------------------------------------------------------


def cut_by_branching(linkage: np.ndarray, children: int, levels: int) -> tuple[np.ndarray, np.ndarray]:
    """Undo merges from the top: each ball becomes up to ``children`` balls, ``levels`` times.

    Inside a ball the highest merge goes first; merges at height 0 (equal rows) are never undone, so a ball of equal rows
    is a leaf at whatever depth. Returns parent pointers in level order and the dendrogram node of each ball.
    """
    n = len(linkage) + 1
    sides = linkage[:, :2].astype(np.int64)
    parent, member, level = [-1], [2 * n - 2], [0]
    for _ in range(levels):
        below: list[int] = []
        for ball in level:
            parts = _split_highest(member[ball], sides, linkage[:, 2], n, children)
            if len(parts) > 1:
                below += range(len(parent), len(parent) + len(parts))
                parent += [ball] * len(parts)
                member += parts
        level = below
    return np.array(parent), np.array(member)


def _split_highest(node: int, sides: np.ndarray, heights: np.ndarray, n: int, many: int) -> list[int]:
    """Up to ``many`` clusters below a dendrogram node, undoing its highest merges."""
    parts: list[tuple[float, int]] = [(-_height(node, heights, n), node)]
    while len(parts) < many and parts[0][0] < 0:
        _, top = heapq.heappop(parts)
        for side in sides[top - n]:
            heapq.heappush(parts, (-_height(int(side), heights, n), int(side)))
    return [part for _, part in sorted(parts)]


def _height(node: int, heights: np.ndarray, n: int) -> float:
    return float(heights[node - n]) if node >= n else 0.0


def cut_by_counts(linkage: np.ndarray, counts: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Cut the dendrogram into ``counts[0]`` clusters, these into ``counts[1]`` in all, and so on.

    Every leaf lies at depth ``len(counts)``; a cluster that a cut leaves whole has one child. A count above the number
    of distinct rows is cut down to it.
    """
    n = len(linkage) + 1
    distinct = int((linkage[:, 2] > 0).sum()) + 1
    up = np.full(2 * n - 1, 2 * n - 2)
    up[linkage[:, :2].astype(np.int64).ravel()] = np.repeat(np.arange(n, 2 * n - 1), 2)
    parents, members = [np.array([-1])], [np.array([2 * n - 2])]
    offset = 0
    for count in np.minimum(counts, distinct):
        undone = 2 * n - 1 - (count - 1)  # ids from here on are merges above the cut
        nodes = np.arange(2 * n - 2)
        tops = nodes[(up[:-1] >= undone) & (nodes < undone)] if count > 1 else members[0]
        owner = np.full(2 * n - 1, -1)
        owner[members[-1]] = np.arange(len(members[-1]))
        above = tops.copy()
        while (owner[above] < 0).any():  # climb to the ball of the level above: at most as many steps as merges undone
            above = np.where(owner[above] < 0, up[above], above)
        parents.append(offset + owner[above])
        offset += len(members[-1])
        members.append(tops)
    return np.concatenate(parents), np.concatenate(members)


def leaf_of_rows(linkage: np.ndarray, member: np.ndarray) -> np.ndarray:
    """The leaf ball of each row, for balls cut from a dendrogram."""
    from vpunn.tabular import _kernels

    n = len(linkage) + 1
    up = np.full(2 * n - 1, -1)
    up[linkage[:, :2].astype(np.int64).ravel()] = np.repeat(np.arange(n, 2 * n - 1), 2)
    owner = np.full(2 * n - 1, -1)
    owner[member] = np.arange(len(member))  # a chain of one-child balls shares a dendrogram node: the deepest wins
    _kernels.spread_owner(up, owner)
    return owner[:n]


def fine_clusters(linkage: np.ndarray, many: int) -> np.ndarray:
    """A label per row: the dendrogram cut into ``many`` clusters (each distinct row its own when there are fewer)."""
    _, member = cut_by_counts(linkage, [many])
    return leaf_of_rows(linkage, member)


def balls_with_cells(
    rows: np.ndarray,
    parent: np.ndarray,
    items: np.ndarray,
    weights: np.ndarray,
    leaf: np.ndarray,
    fine: np.ndarray,
    n_jobs: int | None = None,
    *,
    row_weights: np.ndarray | None = None,
) -> BallTree:
    """Route ``rows`` by the weighted means of ``items`` that share a leaf ball and a fine cluster.

    ``row_weights`` say how much the rows themselves weigh when balls are ordered by size.
    Balls that no row reaches are dropped; their prototypes are nobody's nearest, so no training row moves by that.
    """
    _, cell = np.unique(leaf * (fine.max(initial=0) + 1) + fine, return_inverse=True)
    mass = np.bincount(cell, weights=weights)
    means = np.column_stack([np.bincount(cell, weights=weights * column) for column in items.T]) / mass[:, None]
    ball = np.zeros(len(mass), np.int64)
    ball[cell] = leaf
    cells = Cells(means, ball)
    tree, position, routed = _number(parent, cells.route(rows, n_jobs), row_weights)
    return BallTree(tree, routed, cells.renumbered(position))


# ---- splitting from the root ---------------------------------------------------------------------------------------


def grow_kmeans(
    rows: np.ndarray,
    children: int,
    levels: int,
    *,
    seed: int,
    weights: np.ndarray | None = None,
    rounds: int = ROUNDS,
    n_jobs: int | None = None,
) -> BallTree:
    """Split by balanced k-means from the root down: at most ``children`` children a ball and ``levels`` levels.

    A ball of m rows with r levels left needs no more than m^(1/r) children to tell its rows apart, and gets no more.
    Each child carries a price that rises while it holds more than its share of the rows (the dual of optimal transport with
    equal capacities), which evens out the sizes. A ball learns its children from at most `SAMPLE` rows a child, by products of
    matrices; then every row takes the child with the least ‖row − prototype‖² + price, as new rows will. O(n·d·branching) a level.
    With ``weights`` (positive) rows count in means and sizes, and are drawn, as their weights say.
    """
    parent = np.array([-1])
    prototypes = _mean(rows, weights)[None]
    prices = np.zeros(1)
    node = np.zeros(len(rows), np.int64)
    random = np.random.default_rng(seed)
    for level in range(levels):
        order = np.argsort(node, kind="stable")
        balls, first, count = np.unique(node[order], return_index=True, return_counts=True)
        found = []
        with threadpool_limits(1, user_api="blas"):  # sums in another order are other bytes
            for ball, at, size in zip(balls.tolist(), first.tolist(), count.tolist(), strict=True):
                many = min(children, int(np.ceil(size ** (1.0 / (levels - level)) - 1e-9)))
                if many < 2:
                    continue
                inside, mass = _sampled(order[at : at + size], SAMPLE * many, weights, random)
                seeds = _seeds(rows, inside, mass, random.random(many))
                if len(seeds) > 1:
                    found.append((np.full(len(seeds), ball), *_split(rows[inside], rows[seeds], rounds, mass)))
        if not found:
            break
        new_parent, new_prototypes, new_prices = zip(*found, strict=True)
        parent = np.concatenate([parent, *new_parent])
        prototypes = np.concatenate([prototypes, *new_prototypes])
        prices = np.concatenate([prices, *new_prices])
        _step_down(rows, (*_children(parent), prototypes, prices), node, n_jobs)
    tree, position, leaf = _number(parent, node, weights)
    kept = np.argsort(position, kind="stable")[-tree.n_nodes :]  # old numbers of the balls that remain, in preorder
    return BallTree(tree, leaf, Descent(tree, prototypes[kept], prices[kept]))


def _mean(rows: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    return np.asarray(rows.mean(axis=0) if weights is None else np.average(rows, axis=0, weights=weights))


def draw_by_weight(
    inside: np.ndarray, weights: np.ndarray, size: int, random: np.random.Generator | np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """``size`` draws from rows in proportion to their weights: the rows drawn, in order, and how often each was."""
    drawn, often = np.unique(random.choice(inside, size, p=weights / weights.sum()), return_counts=True)
    return drawn, often.astype(float)


def _sampled(
    inside: np.ndarray, most: int, weights: np.ndarray | None, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray | None]:
    """At most ``most`` of a ball's rows, and what each counts for."""
    if weights is None:
        return inside if len(inside) <= most else np.sort(random.choice(inside, most, replace=False)), None
    mass = weights[inside]
    return (inside, mass) if len(inside) <= most else draw_by_weight(inside, mass, most, random)


def _seeds(rows: np.ndarray, inside: np.ndarray, mass: np.ndarray | None, uniform: np.ndarray) -> np.ndarray:
    """k-means++ seeds among the rows ``inside``, as places in ``rows``; fewer when fewer rows are distinct."""
    if mass is None:
        from vpunn.tabular import _kernels

        return np.asarray(_kernels.seed_children(rows, inside, 0, len(inside), uniform))
    chosen, gap, chance = [], np.full(len(inside), np.inf), mass
    for u in uniform:
        total = np.cumsum(chance)
        if not total[-1] > 0:
            break
        # the first row whose sum passes the draw has a chance above 0; rounding may run past the last such row
        at = min(int(np.searchsorted(total, u * total[-1], side="right")), int(np.flatnonzero(chance)[-1]))
        chosen.append(inside[at])
        gap = np.minimum(gap, ((rows[inside] - rows[inside[at]]) ** 2).sum(axis=1))
        chance = mass * gap
    return np.array(chosen)


def _step_down(rows: np.ndarray, way: tuple[np.ndarray, ...], node: np.ndarray, n_jobs: int | None) -> None:
    """Every row goes from its ball (``node``, overwritten) to the child that takes it."""
    from vpunn.tabular import _kernels

    in_threads(lambda part: _kernels.step_down(rows[part], *way, node[part]), _blocks(len(rows)), n_jobs)


def _split(
    rows: np.ndarray, seeds: np.ndarray, rounds: int, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Prototypes and prices of a ball's children: k-means from the seeds; then prices, with the prototypes fixed.

    Single precision about the ball's centre is enough to find them: where rows go is decided afterwards, in double precision.
    """
    centre = _mean(rows, weights)
    share = None if weights is None else weights / weights.mean()
    X, P = (rows - centre).astype(np.float32), (seeds - centre).astype(np.float32)
    child, numbers = np.full(len(X), -1), np.arange(len(P))
    for _ in range(rounds):
        now = _distances(X, P).argmin(axis=1)
        if np.array_equal(now, child):
            break
        child = now
        member = (child[:, None] == numbers).astype(np.float32)
        if share is not None:
            member *= share[:, None].astype(np.float32)
        count = member.sum(axis=0)
        filled = count > 0
        P[filled] = (member.T @ X)[filled] / count[filled, None]
    # with the prototypes fixed, the prices solve a concave problem and settle
    far = _distances(X, P)
    unit = float(((P - P.mean(axis=0)) ** 2).sum(axis=1).mean())
    prices = np.zeros(len(P), np.float32)
    for turn in range(rounds):
        surplus = np.bincount((far + prices).argmin(axis=1), share, minlength=len(P)) * (len(P) / len(X)) - 1.0
        # a subgradient step: crowded children become dearer, empty ones cheaper, in units of the way between prototypes
        move = unit / np.sqrt(turn + 1.0) * np.clip(surplus, -1.0, 1.0)
        prices += (move - move.mean()).astype(np.float32)
    return centre + P, prices.astype(np.float64)


def _distances(X: np.ndarray, P: np.ndarray) -> np.ndarray:
    """‖x − p‖² of every row and prototype, less ‖x‖², which is the same for all."""
    return np.asarray((P**2).sum(axis=1) - 2.0 * (X @ P.T))


def _children(parent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Children of level-ordered parent pointers as (start, ids)."""
    start = np.zeros(len(parent) + 1, np.int64)
    np.cumsum(np.bincount(parent[1:], minlength=len(parent)), out=start[1:])
    return start, np.argsort(parent[1:], kind="stable") + 1


def _number(
    parent: np.ndarray, leaf: np.ndarray, weights: np.ndarray | None = None
) -> tuple[Tree, np.ndarray, np.ndarray]:
    """Drop empty balls, order siblings by size (the largest gets digit 1), number in preorder, label by digits.

    ``parent`` lists parents before children. Returns the tree, the new number of each old ball (−1 if dropped) and the
    new leaf of each row.
    """
    count = np.bincount(leaf, weights, minlength=len(parent))
    for ball in range(len(parent) - 1, 0, -1):
        count[parent[ball]] += count[ball]
    kept = np.flatnonzero(count > 0)
    order = kept[np.argsort(-count[kept], kind="stable")]
    place = np.full(len(parent), -1)
    place[order] = np.arange(len(order))
    shape = Tree.from_parents(np.where(parent[order] >= 0, place[parent[order]], -1))
    balls = order[shape.labels]
    position = np.full(len(parent), -1)
    position[balls] = np.arange(len(balls))
    tree = shape.replace(labels=digit_labels(shape), columns={"rows": count[balls]})
    return tree, position, position[leaf]


def digit_labels(tree: Tree) -> np.ndarray:
    """Name every ball by its digits: ``all`` for the root, then ``1``, ``1.2``, …"""
    labels = np.empty(tree.n_nodes, object)
    labels[0] = "all"
    for node in range(1, tree.n_nodes):
        up = tree.parent[node]
        labels[node] = f"{tree.digit[node]}" if up == 0 else f"{labels[up]}.{tree.digit[node]}"
    return labels


def check_counts(counts: Sequence[int]) -> list[int]:
    """``nodes_per_level`` as a growing list of positive integers."""
    values = [c for c in counts if isinstance(c, Integral)]
    if not values or len(values) < len(counts) or values[0] < 1 or any(b < a for a, b in pairwise(values)):
        raise VpunnError(
            f"nodes_per_level must be whole numbers ≥ 1 that never fall, such as [5, 20, 60]; got {list(counts)}."
        )
    return [int(c) for c in values]
