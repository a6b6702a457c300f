"""Joint tree learning (limitation L3 of the paper): the tree over classes and the heads in its balls, learned together.

The heads are Gaussian: in a ball, log P(child c | x) = −|x − m_c|² / 2 s_depth + log n_c − log of the sum over siblings, where
m_c = (Σ rows of c + κ m_parent) / (n_c + κ) is drawn to its ball's mean, so that classes of few rows lean on their relatives. The
objective is the leave-one-out likelihood J = −Σ_i log P(y_i | x_i, means without row i), exact because a row is subtracted from
the sums of its own path. Every step proposes a whole tree and is kept only if J falls.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vpunn.errors import VpunnError, check_whole
from vpunn.tree import Tree

#: Parents that a ball is offered in one sweep of single moves.
TRIES = 2
#: Bounds of log s and log κ.
BOUNDS = (-8.0, 8.0)


@dataclass(frozen=True)
class JointTree:
    """A learned tree whose leaves are classes. ``history`` is J per row after every accepted step (it never rises), ``moves`` how
    many steps of each kind were accepted."""

    tree: Tree
    history: tuple[float, ...]
    moves: dict[str, int]
    heads: _Heads = field(repr=False)

    def log_proba(self, rows: np.ndarray) -> np.ndarray:
        """log P of every class (the leaves of ``tree`` in order), (rows, classes)."""
        return self.heads.log_proba(self.tree, np.asarray(rows, float))

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """The most probable class of each row."""
        return np.asarray(self.tree.labels[self.tree.leaves[self.log_proba(rows).argmax(1)]])

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.moves.items() if count) or "no step"
        return f"{self.history[0]:.3f} → {self.history[-1]:.3f} nats a row, left out, by {kinds}"


def joint_tree(
    rows: np.ndarray,
    y: Any,
    tree: Tree,
    *,
    capacity: int | None = None,
    sweeps: int = 5,
    learn: bool = True,
) -> JointTree:
    """Improve ``tree``, whose leaves are the classes, for the heads that tell classes apart by ``rows``; labels are ``y``.

    A sweep has three kinds of steps: *refined*, `refine_tree`'s re-attachments and exchanges under the description length;
    *transported*, all balls of one depth given to the parents above them by optimal transport, where the cost is how little
    likely the parents' heads find the balls' rows and no parent takes more than ``capacity`` (default: the most children a ball
    has now); and *moved*, one ball to another parent of its depth. Variances and κ are fitted again after each sweep. It ends
    when a sweep changes nothing. ``learn=False`` fits the heads alone.

    >>> random = np.random.default_rng(0)
    >>> y = np.repeat(list("abcd"), 6)
    >>> rows = np.repeat([[0.0], [2.0], [10.0], [12.0]], 6, axis=0) + random.normal(scale=0.7, size=(24, 1))
    >>> wrong = Tree.from_paths([("left", "a"), ("left", "c"), ("right", "b"), ("right", "d")], root="all")
    >>> found = joint_tree(rows, y, wrong)
    >>> sorted(sorted(found.tree.labels[found.tree.children(b)].tolist()) for b in found.tree.children(0))
    [['a', 'b'], ['c', 'd']]
    """
    rows = np.ascontiguousarray(rows, dtype=float)
    labels = np.asarray(y)
    if rows.ndim != 2 or labels.shape != (len(rows),) or not np.isfinite(rows).all():
        raise VpunnError(f"rows must be a finite table with one label each; got {rows.shape} and {labels.shape}.")
    leaf = np.asarray(tree.index(labels.tolist()))
    missing = np.setdiff1d(tree.leaves, leaf)
    if len(missing) or not tree.is_leaf[leaf].all():
        raise VpunnError(f"classes are the leaves of the tree, each with a row; {len(missing)} leaves have none.")
    widest = int(tree.max_branching)
    room = widest if capacity is None else check_whole("capacity", capacity)
    if room < widest:
        raise VpunnError(f"capacity={room} is below the tree's own branching of {widest}.")
    state = _Search(tree, rows, labels, room)
    while learn and sweeps > 0 and state.sweep():
        sweeps -= 1
    return JointTree(state.tree, tuple(state.history), state.moves, state.heads)


def transport(cost: np.ndarray, capacity: np.ndarray, *, sharpness: float = 50.0, rounds: int = 200) -> np.ndarray:
    """The parent of every child: entropic optimal transport (Sinkhorn, in logarithms), rounded with capacities kept.

    ``cost`` is (children, parents), ``capacity`` how many children each parent may take. Room that stays free is filled by one
    row of cost 0. Costs are scaled to 1 and multiplied by ``sharpness``. Rounding goes through the plan from its largest entry.

    >>> transport(np.array([[0.0, 1.0], [0.1, 1.0], [0.2, 0.4]]), np.array([2, 2])).tolist()
    [0, 0, 1]
    """
    n, free = len(cost), int(np.sum(capacity)) - len(cost)
    if free < 0:
        raise VpunnError(f"{n} children do not fit into parents with room for {int(np.sum(capacity))}.")
    gap = cost - cost.min(axis=1, keepdims=True)
    log_k = -sharpness * np.vstack([gap, np.zeros(gap.shape[1])]) / max(float(gap.max()), 1e-300)
    with np.errstate(divide="ignore"):
        log_row, log_column = np.log(np.append(np.ones(n), free)), np.log(np.asarray(capacity, float))
    v = np.zeros(gap.shape[1])
    for _ in range(rounds):
        u = log_row - _log_sum(log_k + v, 1)
        v = log_column - _log_sum(log_k + np.where(np.isfinite(u), u, -1e9)[:, None], 0)
    plan, left = log_k[:-1] + v + u[:-1, None], np.asarray(capacity).copy()
    chosen = np.full(n, -1)
    for at in np.argsort(-plan, axis=None, kind="stable").tolist():
        child, parent = divmod(at, gap.shape[1])
        if chosen[child] < 0 and left[parent] > 0:
            chosen[child] = parent
            left[parent] -= 1
    return chosen


class _Heads:
    """Sums of rows per node, κ and the variance of every depth."""

    def __init__(self, kappa: float, scale: np.ndarray) -> None:
        self.kappa, self.scale = kappa, scale

    def add_up(self, tree: Tree, rows: np.ndarray, leaf: np.ndarray) -> None:
        """Counts and sums of every ball."""
        own = np.zeros((tree.n_nodes, rows.shape[1]))
        np.add.at(own, leaf, rows)
        self.count = tree.subtree_sum(np.bincount(leaf, minlength=tree.n_nodes).astype(float))
        self.total = tree.subtree_sum(own)

    def steps(
        self, tree: Tree, rows: np.ndarray, leaf: np.ndarray | None
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Of every depth: its nodes and log P(node | its parent, row), (rows, nodes); with ``leaf`` each row is left out of its
        own path. Elsewhere than among the siblings of a row's path the numbers are only right without ``leaf``."""
        start, ids = tree.levels
        mean = np.broadcast_to(self.total[0] / max(self.count[0], 1), rows.shape)
        chain = (
            None
            if leaf is None
            else tree.ancestor_at(leaf[:, None], np.minimum(np.arange(tree.max_depth + 1), tree.depth[leaf][:, None]))
        )
        if chain is not None:
            mean = (self.total[0] - rows) / max(self.count[0] - 1, 1)
        means = self.total[:1] / max(self.count[0], 1)
        square = (rows**2).sum(1)[:, None]
        for depth in range(1, tree.max_depth + 1):
            nodes = ids[start[depth] : start[depth + 1]]
            up, n = tree.parent[nodes], self.count[nodes]
            place = np.searchsorted(ids[start[depth - 1] : start[depth]], up)
            if chain is None:  # the mean of each node's own parent
                means = (self.total[nodes] + self.kappa * means[place]) / (n + self.kappa)[:, None]
                gap = square - 2 * rows @ means.T + (means**2).sum(1)
                log_n = np.broadcast_to(np.log(n + 0.5), gap.shape)
            else:  # the mean of the row's ball without the row, m = a + b · mean; the row's own child is without it too
                b = self.kappa / (n + self.kappa)
                a = self.total[nodes] / (n + self.kappa)[:, None]
                cross, inner = mean @ a.T, (rows * mean).sum(1)[:, None]
                gap = square - 2 * (b * inner + rows @ a.T) + b**2 * (mean**2).sum(1)[:, None]
                gap += 2 * b * cross + (a**2).sum(1)
                log_n = np.broadcast_to(np.log(n + 0.5), gap.shape).copy()
                has = np.flatnonzero(tree.depth[leaf] >= depth)
                at = np.searchsorted(nodes, chain[has, depth])
                own = (self.total[chain[has, depth]] - rows[has] + self.kappa * mean[has]) / (n[at] - 1 + self.kappa)[
                    :, None
                ]
                gap[has, at] = ((rows[has] - own) ** 2).sum(1)
                log_n[has, at] = np.log(n[at] - 0.5)
                mean = mean.copy()
                mean[has] = own
            score = log_n - gap / (2 * self.scale[depth])
            first = np.flatnonzero(np.diff(place, prepend=-1))
            top = np.maximum.reduceat(score, first, axis=1)
            family = np.cumsum(np.diff(place, prepend=-1) > 0) - 1
            norm = np.log(np.add.reduceat(np.exp(score - top[:, family]), first, axis=1)) + top
            yield depth, nodes, score - norm[:, family]

    def left_out(self, tree: Tree, rows: np.ndarray, leaf: np.ndarray) -> float:
        """J per row."""
        cost = np.zeros(len(rows))
        for depth, nodes, step in self.steps(tree, rows, leaf):
            has = np.flatnonzero(tree.depth[leaf] >= depth)
            cost[has] -= step[has, np.searchsorted(nodes, tree.ancestor_at(leaf[has], depth))]
        return float(cost.mean())

    def log_proba(self, tree: Tree, rows: np.ndarray) -> np.ndarray:
        log_p = np.zeros((tree.n_nodes, len(rows)))
        for _, nodes, step in self.steps(tree, rows, None):
            log_p[nodes] = log_p[tree.parent[nodes]] + step.T
        return np.asarray(log_p[tree.leaves].T)


class _Search:
    """The tree, its heads and J; proposals are trees, and the best so far stays."""

    def __init__(self, tree: Tree, rows: np.ndarray, labels: np.ndarray, capacity: int) -> None:
        self.rows, self.labels, self.capacity = rows, labels, capacity
        spread = max(float(rows.var(axis=0).sum()) / 4, 1e-12)
        self.tree, self.heads = tree, _Heads(1.0, np.full(tree.max_depth + 1, spread))
        self.moves = {"refined": 0, "transported": 0, "moved": 0}
        self.heads, cost = self._fitted(tree)
        self.history = [cost]

    def leaf(self, tree: Tree) -> np.ndarray:
        """The leaf of every row."""
        return np.asarray(tree.index(self.labels.tolist()))

    def _judged(self, tree: Tree) -> tuple[_Heads, float]:
        """The heads of a tree with the variances as they are, and J."""
        heads, leaf = _Heads(self.heads.kappa, self.heads.scale), self.leaf(tree)
        heads.add_up(tree, self.rows, leaf)
        return heads, heads.left_out(tree, self.rows, leaf)

    def _fitted(self, tree: Tree) -> tuple[_Heads, float]:
        """The heads of a tree and J, with κ and the variances by coordinate descent on J; a value is kept only if J falls."""
        from scipy.optimize import minimize_scalar

        heads, best = self._judged(tree)
        leaf, spread = self.leaf(tree), heads.scale[0]

        def trial(which: int, log_value: float) -> _Heads:
            kappa, scale = heads.kappa, heads.scale.copy()
            if which:
                scale[which] = spread * np.exp(log_value)
            else:
                kappa = float(np.exp(log_value))
            made = _Heads(kappa, scale)
            made.count, made.total = heads.count, heads.total
            return made

        for which in (*range(1, tree.max_depth + 1), 0):
            found = minimize_scalar(
                lambda v, which=which: trial(which, v).left_out(tree, self.rows, leaf),
                bounds=BOUNDS,
                method="bounded",
                options={"maxiter": 12},
            )
            if found.fun < best:
                heads, best = trial(which, found.x), float(found.fun)
        return heads, best

    def _offer(self, kind: str, tree: Tree | None, fit: bool) -> bool:
        """Take a proposal if J falls. A proposal that changes a whole level is judged by variances of its own."""
        if tree is None:
            return False
        heads, cost = self._fitted(tree) if fit else self._judged(tree)
        if not cost < self.history[-1] - 1e-9:
            return False
        self.tree, self.heads = tree, heads
        self.history.append(cost)
        self.moves[kind] += 1
        return True

    def sweep(self) -> bool:
        """One step of every kind; False if nothing changed."""
        before = sum(self.moves.values())
        self._offer("refined", self._refined(), True)
        for depth in range(1, self.tree.max_depth):
            if depth < self.tree.max_depth:
                self._offer("transported", self._transported(depth), True)
        self._single_moves()
        heads, cost = self._fitted(self.tree)
        if cost < self.history[-1]:
            self.heads = heads
            self.history.append(cost)
        return sum(self.moves.values()) > before

    def _refined(self) -> Tree | None:
        from vpunn.tabular.refine import refine_tree

        leaf = self.leaf(self.tree)
        kinds = ("re-attachments", "exchanges")
        found = refine_tree(
            self.rows, self.tree, leaf, max_children=self.capacity, sweeps=1, kinds=kinds, verbose=False
        )
        if not found.improved:
            return None
        names = np.array([f"ball {i}" for i in range(found.tree.n_nodes)], object)
        names[found.leaf] = self.labels
        return Tree.from_parents(found.tree.parent, names.tolist())

    def _with_parents(self, nodes: np.ndarray, parents: np.ndarray) -> Tree:
        """The tree with some nodes below other parents; balls without a class go. Inner balls are named anew."""
        up = self.tree.parent.copy()
        up[nodes] = parents
        kept = np.zeros(len(up), bool)
        at = self.tree.leaves
        while len(at):
            kept[at] = True
            at = np.unique(up[at[up[at] >= 0]])
            at = at[~kept[at]]
        place = np.cumsum(kept) - 1
        names = [
            label if leaf else f"ball {i}"
            for i, (label, leaf) in enumerate(zip(self.tree.labels, self.tree.is_leaf, strict=True))
        ]
        above = up[kept]
        return Tree.from_parents(np.where(above >= 0, place[above], -1), [names[i] for i in np.flatnonzero(kept)])

    def _level(self, depth: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Balls below ``depth``, the inner balls of that depth, and how little likely the latter find the rows of the former."""
        tree, leaf = self.tree, self.leaf(self.tree)
        log_p = np.zeros((tree.n_nodes, len(self.rows)))
        for _, nodes, step in self.heads.steps(tree, self.rows, None):
            log_p[nodes] = log_p[tree.parent[nodes]] + step.T
        start, ids = tree.levels
        below = ids[start[depth + 1] : start[depth + 2]]
        parents = ids[start[depth] : start[depth + 1]]
        parents = parents[~tree.is_leaf[parents]]
        has = np.flatnonzero(tree.depth[leaf] > depth)
        cost = np.zeros((len(below), len(parents)))
        np.add.at(cost, np.searchsorted(below, tree.ancestor_at(leaf[has], depth + 1)), -log_p[parents][:, has].T)
        return below, parents, cost

    def _transported(self, depth: int) -> Tree | None:
        below, parents, cost = self._level(depth)
        chosen = parents[transport(cost, np.full(len(parents), self.capacity))]
        return None if (chosen == self.tree.parent[below]).all() else self._with_parents(below, chosen)

    def _single_moves(self) -> None:
        """Every ball once to the parents that find its rows likeliest; balls are followed by a class they hold."""
        for depth in range(self.tree.max_depth - 1, 0, -1):
            start, ids = self.tree.levels
            below = ids[start[depth + 1] : start[depth + 2]] if depth < self.tree.max_depth else ids[:0]
            witness = self.tree.labels[self.tree.leaves[np.searchsorted(self.tree.leaves, below)]]
            for label in witness.tolist():
                self._try_parents(int(self.tree.index(label)), depth)

    def _try_parents(self, leaf: int, depth: int) -> None:
        """The ball of ``leaf`` below ``depth`` to the first parent that lowers J."""
        if self.tree.depth[leaf] <= depth:
            return  # an earlier move has lifted it
        ball = int(self.tree.ancestor_at(leaf, depth + 1))
        below, parents, cost = self._level(depth)
        nearest = parents[np.argsort(cost[np.searchsorted(below, ball)], kind="stable")[: TRIES + 1]]
        room = (nearest != self.tree.parent[ball]) & (self.tree.n_children[nearest] < self.capacity)
        for parent in nearest[room].tolist():
            if self._offer("moved", self._with_parents(np.array([ball]), np.array([parent])), False):
                return


def _log_sum(values: np.ndarray, axis: int) -> np.ndarray:
    from scipy.special import logsumexp

    with np.errstate(divide="ignore"):
        return np.asarray(logsumexp(values, axis=axis))
