"""Joint tree learning (limitation L3 of the paper): improve a tree of balls by local moves under a description length.

The score is the number of nats needed to write the table down with the tree, and it is a sum over balls:

    score = Σ_B [ −log ∫ Π_{c child of B} N(m_c; μ_B, w_c) dμ_B  −  log P(which child each row of B takes) ]

The first part is the nested Gaussian model behind the library's ridge: a ball lies around its parent with variance
``spread[depth]``, a row around its leaf ball with variance ``noise``; m_c, w_c is the message a child sends up. A move
changes the two ancestor chains it touches and nothing else, so it costs O(depth · branching · d) to score.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vpunn import metrics
from vpunn._progress import progress_bar
from vpunn.errors import VpunnError, check_choice
from vpunn.store import Draft, Storable, Stored
from vpunn.tree import Tree

#: How many neighbouring balls a row or a ball is offered.
TRIES = 4
#: Among how many balls around its own those of a row are sought.
AROUND = 16
#: The moves, in the order of a sweep.
KINDS = ("row moves", "re-attachments", "exchanges", "merges", "splits")
#: log-variances are fitted between these bounds (the data have variance 1 per column).
BOUNDS = (-12.0, 6.0)


@dataclass(frozen=True)
class Refinement(Storable):
    """A refined tree. ``leaf`` is the leaf ball of each row, ``history`` the score after every sweep (it never rises),
    ``moves`` how many moves of each kind were accepted."""

    tree: Tree
    leaf: np.ndarray
    history: tuple[float, ...]
    moves: dict[str, int] = field(default_factory=dict)

    @property
    def improved(self) -> bool:
        """Did any move lower the score?"""
        return bool(sum(self.moves.values()))

    def __str__(self) -> str:
        if not self.improved:
            return f"no move lowered the description length of {self.history[0]:,.1f} nats; the tree is unchanged"
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.moves.items() if count)
        return f"description length {self.history[0]:,.1f} → {self.history[-1]:,.1f} nats by {kinds}"

    def _to_store(self, draft: Draft) -> None:
        draft.settings |= {"history": list(self.history), "moves": self.moves}
        draft.add("tree", self.tree)
        draft.array("leaf", self.leaf)

    @classmethod
    def _from_store(cls, stored: Stored) -> Refinement:
        tree = stored.get("tree", Tree)
        history = tuple(float(score) for score in stored.setting("history", list))
        moves = {str(kind): int(count) for kind, count in stored.setting("moves", dict).items()}
        return cls(tree, stored.array("leaf", dtype="iu", shape=(None,), low=0, high=tree.n_nodes), history, moves)


def refine_tree(
    rows: np.ndarray,
    tree: Tree,
    leaf: np.ndarray,
    *,
    max_children: int | None = None,
    sweeps: int = 20,
    kinds: Sequence[str] = KINDS,
    verbose: bool | None = None,
) -> Refinement:
    """Improve ``tree``, whose leaf ``leaf[i]`` holds row ``i``, until no move lowers the score or ``sweeps`` are done.

    Moves: a row to another leaf ball near its own, a ball to another parent of the same depth, two balls of one depth
    exchanged, two siblings into one, one ball into two siblings; ``kinds`` names those that are tried. No ball gets more than
    ``max_children`` children (default: as many as the tree has). Between sweeps the variances are fitted again, which is kept
    only if the score falls too. Scoring a move costs O(depth · branching · d); finding the balls around each ball takes
    O(balls² · d) a sweep, as products of matrices.

    >>> random = np.random.default_rng(0)
    >>> rows = np.repeat([[0.0], [1.0], [10.0], [11.0]], 5, axis=0) + random.normal(scale=0.1, size=(20, 1))
    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1, 2, 2])
    >>> wrong = np.repeat([2, 5, 3, 6], 5)  # 0 beside 10 and 1 beside 11
    >>> better = refine_tree(rows, tree, wrong)
    >>> zero, one, ten, eleven = better.leaf[::5]
    >>> better.tree.lca_depth([zero, ten, zero], [one, eleven, ten])  # neighbours share a ball again
    array([1, 1, 0], dtype=int32)
    """
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    leaf = np.asarray(leaf)
    if len(leaf) != len(rows) or not tree.is_leaf[tree.check_nodes(leaf)].all():
        raise VpunnError(f"leaf must name one leaf ball for each of the {len(rows)} rows; got {len(leaf)} values.")
    for kind in kinds:
        check_choice("kinds", kind, KINDS)
    state = _State.of_tree(rows, tree, leaf, max_children or max(tree.max_branching, 2))
    state.fit_variances()
    history = [state.score()]
    moves = dict.fromkeys(kinds, 0)
    seconds = 2e-7 * len(rows) * TRIES * tree.max_depth * rows.shape[1] * sweeps / 4
    with progress_bar(f"refining {tree.n_leaves:,} balls", sweeps, seconds, verbose) as advance:
        for _ in range(sweeps):
            before = sum(moves.values())
            for kind in moves:
                moves[kind] += state.move_rows() if kind == "row moves" else state.move_balls(kind)
            state.fit_variances()
            history.append(state.score())
            advance(1)
            if sum(moves.values()) == before:
                break
    refined, new_leaf = state.to_tree()
    return Refinement(refined, new_leaf, tuple(history), moves)


class _State:
    """The mutable tree and its messages; `score` recomputes everything, the move methods work by chains."""

    def __init__(self, data: np.ndarray, leaf: np.ndarray, n_balls: int, room: int, max_kids: int) -> None:
        d = data.shape[1]
        self.data, self.leaf, self.max_kids = data, leaf, max_kids
        self.n_balls = n_balls  # ids below this are in use or retired; the rest is room for splits
        self.parent = np.full(room, -2)  # −2: not in the tree
        self.depth = np.zeros(room, np.int64)
        self.kids = np.full((room, max_kids), -1)
        self.n_kids = np.zeros(room, np.int64)
        self.rows = np.zeros(room, np.int64)
        self.total, self.mean = np.zeros((room, d)), np.zeros((room, d))
        self.squares, self.variance, self.cost = np.zeros(room), np.zeros(room), np.zeros(room)
        self.spread, self.noise = np.ones(1), 1.0
        self._gathered: Any = None

    @classmethod
    def of_tree(cls, data: np.ndarray, tree: Tree, leaf: np.ndarray, max_kids: int) -> _State:
        if tree.max_branching > max_kids:
            raise VpunnError(f"max_children={max_kids} is below the tree's own branching of {tree.max_branching}.")
        empty = np.setdiff1d(tree.leaves, leaf)
        if len(empty):
            raise VpunnError(f"leaf ball {int(empty[0])} holds no row; every leaf ball needs at least one.")
        state = cls(data, leaf.astype(np.int64).copy(), tree.n_nodes, 2 * tree.n_nodes + 16, max_kids)
        n = tree.n_nodes
        state.parent[:n], state.depth[:n], state.n_kids[:n] = tree.parent, tree.depth, tree.n_children
        state.kids[tree.parent[1:], tree.digit[1:] - 1] = np.arange(1, n)
        gap = np.maximum(data.var(axis=0).mean(), 1e-6)
        state.spread, state.noise = np.full(tree.max_depth + 1, 0.5 * gap), 0.5 * gap
        state.add_up_rows()
        return state

    # ---- score ---------------------------------------------------------------------------------------------------

    def add_up_rows(self) -> None:
        """Lists and sums of the rows of every leaf ball, from the rows themselves."""
        room = len(self.parent)
        order = np.argsort(self.leaf, kind="stable")
        balls, first = np.unique(self.leaf[order], return_index=True)
        self.members = dict(zip(balls.tolist(), np.split(order, first[1:]), strict=True))
        self.rows[:] = np.bincount(self.leaf, minlength=room)
        for k in range(self.data.shape[1]):
            self.total[:, k] = np.bincount(self.leaf, weights=self.data[:, k], minlength=room)
        self.squares[:] = np.bincount(self.leaf, weights=(self.data**2).sum(axis=1), minlength=room)

    def score(self) -> float:
        """The full score, recomputed from the rows."""
        from vpunn.tabular import _refine_kernels

        self.add_up_rows()
        return float(_refine_kernels.refresh_all(self.upwards(), self._balls(), self._model()))

    def upwards(self) -> np.ndarray:
        """Balls of the tree, children before parents."""
        used = np.flatnonzero(self.parent > -2)
        return used[np.argsort(-self.depth[used], kind="stable")]

    def _balls(self) -> Any:
        """The arrays as the kernels take them; they change in place, so they are gathered once."""
        from vpunn.tabular._refine_kernels import Balls

        if self._gathered is None:
            self._gathered = Balls(*(getattr(self, name) for name in Balls._fields))
        return self._gathered

    def _model(self) -> Any:
        from vpunn.tabular._refine_kernels import Model

        return Model(self.spread, self.noise, self.max_kids)

    def fit_variances(self, rounds: int = 3) -> None:
        """Noise and spreads by coordinate descent on the score itself; each step is kept only if the score falls."""
        from scipy.optimize import minimize_scalar

        from vpunn.tabular import _refine_kernels

        order, best = self.upwards(), self.score()
        names = [-1, *range(1, int(self.depth[order].max()) + 1)]

        def trial(which: int, log_variance: float) -> float:
            spread, noise = self.spread.copy(), self.noise
            if which < 0:
                noise = float(np.exp(log_variance))
            else:
                spread[which] = np.exp(log_variance)
            model = _refine_kernels.Model(spread, noise, self.max_kids)
            return float(_refine_kernels.refresh_all(order, self._balls(), model))

        for _ in range(rounds):
            for which in names:
                found = minimize_scalar(lambda x, which=which: trial(which, x), bounds=BOUNDS, method="bounded")
                if found.fun < best:
                    best = float(found.fun)
                    if which < 0:
                        self.noise = float(np.exp(found.x))
                    else:
                        self.spread[which] = np.exp(found.x)
        self.score()

    # ---- moves ---------------------------------------------------------------------------------------------------

    def move_rows(self) -> int:
        """One sweep over the rows; returns the number of accepted moves."""
        from vpunn.tabular import _refine_kernels

        leaves = np.flatnonzero((self.parent > -2) & (self.n_kids == 0))
        near = np.full((len(self.parent), min(AROUND, len(leaves) - 1)), -1)
        near[leaves] = leaves[_nearest(self.mean[leaves], near.shape[1])]
        moved, self.change = _refine_kernels.move_rows(self.data, self.leaf, near, TRIES, self._balls(), self._model())
        self.score()  # fresh sums: the running ones have collected rounding errors
        return int(moved)

    def move_balls(self, kind: str) -> int:
        """Try every move of one kind once, in a fixed order; returns the number of accepted moves."""
        propose, _ = self._kinds()[kind]
        accepted = 0
        for ball in np.flatnonzero(self.parent > -1):
            if self.parent[ball] < 0:
                continue  # an earlier move removed it
            for arguments in propose(int(ball)):
                if self._attempt(kind, int(ball), arguments[0]):
                    accepted += 1
                    break
        return accepted

    def _kinds(self) -> dict[str, tuple[Any, Any]]:
        """For every kind of move: what proposes it and what makes it."""
        return {
            "re-attachments": (self._reattachments, self._reattach),
            "exchanges": (self._exchanges, self._exchange),
            "merges": (self._merges, self._merge),
            "splits": (self._splits, self._split),
        }

    def _attempt(self, kind: str, ball: int, argument: Any) -> bool:
        """Make a move; undo it unless the score falls. Only the balls on the two chains and their children change."""
        other = argument if isinstance(argument, int) else ball
        touched = self._near(ball, other)
        members = self.members.get(ball), self.members.get(other)
        saved = [array[touched].copy() for array in self._balls()]
        before, n_balls = float(self.cost[touched].sum()), self.n_balls
        self._kinds()[kind][1](ball, argument)
        if float(self.cost[touched].sum()) < before - 1e-9:
            return True
        for name, values in zip(self._balls()._fields, saved, strict=True):
            getattr(self, name)[touched] = values
        self.members.pop(n_balls, None)
        for one, rows in ((ball, members[0]), (other, members[1])):
            if rows is not None:
                self.members[one] = rows
                self.leaf[rows] = one
        self.n_balls = n_balls
        return False

    def _near(self, ball: int, other: int) -> np.ndarray:
        """All balls that a move of two balls can change: their chains, their children, and a new ball."""
        if self.n_balls >= len(self.parent):
            self._make_room()
        found = [self.n_balls]
        for one in (ball, other):
            found += self.kids[one, : self.n_kids[one]].tolist()
            while one >= 0:
                found.append(one)
                one = int(self.parent[one])
        return np.unique(found)

    def _refresh(self, ball: int) -> None:
        from vpunn.tabular import _refine_kernels

        _refine_kernels.refresh_chain(ball, self._balls(), self._model())

    def _detach(self, ball: int) -> None:
        up = self.parent[ball]
        kids = [k for k in self.kids[up, : self.n_kids[up]] if k != ball]
        self.kids[up] = -1
        self.kids[up, : len(kids)] = kids
        self.n_kids[up] = len(kids)

    def _attach(self, ball: int, up: int) -> None:
        self.kids[up, self.n_kids[up]] = ball
        self.n_kids[up] += 1
        self.parent[ball], self.depth[ball] = up, self.depth[up] + 1

    def _retire(self, ball: int) -> None:
        """Take a ball without rows or children out of the tree."""
        self.parent[ball], self.n_kids[ball], self.rows[ball], self.cost[ball] = -2, 0, 0, 0.0
        self.total[ball], self.squares[ball] = 0.0, 0.0

    def _reattachments(self, ball: int) -> Iterator[tuple[int]]:
        up = int(self.parent[ball])
        if up < 0 or self.n_kids[up] < 2:
            return
        room = (self.parent > -2) & (self.depth == self.depth[up]) & (self.n_kids > 0) & (self.n_kids < self.max_kids)
        room[up] = False
        others = np.flatnonzero(room)
        for other in others[self._closest(ball, others)]:
            yield (int(other),)

    def _closest(self, ball: int, others: np.ndarray) -> np.ndarray:
        """Positions of the few of ``others`` whose means are nearest to the ball's."""
        from vpunn.tabular import _refine_kernels

        return np.asarray(_refine_kernels.closest(ball, others, self.mean, TRIES))

    def _reattach(self, ball: int, other: int) -> None:
        up = int(self.parent[ball])
        self._detach(ball)
        self._attach(ball, other)
        self._refresh(up)
        self._refresh(other)

    def _exchanges(self, ball: int) -> Iterator[tuple[int]]:
        up = int(self.parent[ball])
        others = np.flatnonzero((self.parent > -1) & (self.depth == self.depth[ball]) & (self.parent != up))
        # the ball wants to sit where its new siblings are near
        for other in others[self._closest(ball, self.parent[others].astype(np.int64))]:
            yield (int(other),)

    def _exchange(self, ball: int, other: int) -> None:
        up, far = int(self.parent[ball]), int(self.parent[other])
        self.kids[up][self.kids[up] == ball] = other
        self.kids[far][self.kids[far] == other] = ball
        self.parent[ball], self.parent[other] = far, up
        self._refresh(up)
        self._refresh(far)

    def _merges(self, ball: int) -> Iterator[tuple[int]]:
        up = int(self.parent[ball])
        for other in self.kids[up, : self.n_kids[up]]:
            both_leaves = self.n_kids[ball] == 0 and self.n_kids[other] == 0
            both_inner = self.n_kids[ball] > 0 and self.n_kids[other] > 0
            fits = self.n_kids[ball] + self.n_kids[other] <= self.max_kids
            if other > ball and (both_leaves or (both_inner and fits)):
                yield (int(other),)

    def _merge(self, ball: int, other: int) -> None:
        for child in self.kids[other, : self.n_kids[other]].copy():
            self._attach(int(child), ball)
        if other in self.members:
            rows = self.members.pop(other)
            self.leaf[rows] = ball
            self.members[ball] = np.sort(np.concatenate([self.members[ball], rows]))
        self.total[ball] += self.total[other]
        self.squares[ball] += self.squares[other]
        if self.n_kids[ball] == 0:
            self.rows[ball] += self.rows[other]
        self._detach(other)
        self._retire(other)
        self._refresh(ball)

    def _splits(self, ball: int) -> Iterator[tuple[np.ndarray]]:
        """Two halves by 2-means: of the rows of a leaf ball, of the children of an inner one."""
        if self.n_kids[self.parent[ball]] >= self.max_kids:
            return
        inner = self.n_kids[ball] > 0
        members = self.kids[ball, : self.n_kids[ball]] if inner else self.members[ball]
        if len(members) < (4 if inner else 2):
            return
        half = _two_means((self.mean if inner else self.data)[members])
        if 0 < half.sum() < len(members):
            yield (members[half],)

    def _split(self, ball: int, part: np.ndarray) -> None:
        new = self.n_balls
        if new >= len(self.parent):
            self._make_room()
        self.n_balls += 1
        self._attach(new, int(self.parent[ball]))
        if self.n_kids[ball]:
            for child in part.copy():
                self._detach(int(child))
                self._attach(int(child), new)
        else:
            self.leaf[part] = new
            self.members[new], self.members[ball] = part, np.setdiff1d(self.members[ball], part, assume_unique=True)
            rows = self.data[part]
            self.rows[new], self.total[new], self.squares[new] = len(part), rows.sum(axis=0), (rows**2).sum()
            self.rows[ball] -= len(part)
            self.total[ball] -= self.total[new]
            self.squares[ball] -= self.squares[new]
        self._refresh(new)
        self._refresh(ball)

    def _make_room(self) -> None:
        for name in self._balls()._fields:
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.zeros_like(array)]))
        self.parent[self.n_balls :] = -2
        self._gathered = None

    def to_tree(self) -> tuple[Tree, np.ndarray]:
        """The balls as a tree, and the leaf of each row in it."""
        used = np.flatnonzero(self.parent > -2)
        place = np.full(len(self.parent), -1)
        place[used] = np.arange(len(used))
        tree = Tree.from_parents(np.where(self.parent[used] >= 0, place[self.parent[used]], -1))
        position = np.empty(len(used), np.int64)
        position[tree.labels] = np.arange(len(used))
        return tree, position[place[self.leaf]]


def _nearest(points: np.ndarray, many: int) -> np.ndarray:
    """The ``many`` nearest other points of each, in any order; in blocks of rows, so that memory stays small."""
    square = (points**2).sum(axis=1)
    found = np.empty((len(points), many), np.int64)
    step = max(2**22 // max(len(points), 1), 1)
    for start in range(0, len(points) if many else 0, step):
        gap = square - 2.0 * points[start : start + step] @ points.T
        gap[np.arange(len(gap)), start + np.arange(len(gap))] = np.inf
        found[start : start + step] = np.argpartition(gap, many - 1, axis=1)[:, :many]
    return found


def planted_rows(
    noise: float,
    seed: int,
    *,
    spreads: tuple[float, ...] = (4.0, 2.0, 1.0),
    children: int = 3,
    per_leaf: int = 15,
    columns: int = 16,
) -> tuple[np.ndarray, Tree, np.ndarray]:
    """Rows with a known tree, for trials: each ball lies Gaussian about its parent, each row about its leaf ball.

    Returns the rows, the tree and the leaf of each row; ``spreads`` has one standard deviation per level.
    """
    random = np.random.default_rng(seed)
    inner = (children ** len(spreads) - 1) // (children - 1)
    tree = Tree.from_parents([-1, *np.repeat(np.arange(inner), children)])
    place = np.zeros((tree.n_nodes, columns))
    start, ids = tree.levels
    for k, spread in enumerate(spreads, start=1):
        level = ids[start[k] : start[k + 1]]
        place[level] = place[tree.parent[level]] + spread * random.normal(size=(len(level), columns))
    leaf = np.repeat(tree.leaves, per_leaf)
    return place[leaf] + noise * random.normal(size=(len(leaf), columns)), tree, leaf


def _two_means(points: np.ndarray, rounds: int = 10) -> np.ndarray:
    """Which points go to the second of two groups: 2-means from the two ends of the longest principal axis."""
    centred = points - points.mean(axis=0)
    axis = np.linalg.svd(centred, full_matrices=False)[2][0] if len(points) > 1 else np.zeros(points.shape[1])
    half = centred @ axis > 0
    for _ in range(rounds):
        if not 0 < half.sum() < len(points):
            break
        a, b = points[~half].mean(axis=0), points[half].mean(axis=0)
        new = ((points - b) ** 2).sum(axis=1) < ((points - a) ** 2).sum(axis=1)
        if (new == half).all():
            break
        half = new
    return np.asarray(half)


def triplet_accuracy(
    tree: Tree, leaf: np.ndarray, true_tree: Tree, true_leaf: np.ndarray, *, many: int = 20_000, seed: int = 0
) -> float:
    """`metrics.triplet_accuracy` of random triples of rows, which stand at leaves of two trees."""
    random = np.random.default_rng(seed)
    x, y, z = random.integers(len(leaf), size=(3, many))
    apart = (x != y) & (y != z) & (x != z)
    x, y, z = x[apart], y[apart], z[apart]

    def shared(tree: Tree, at: np.ndarray) -> np.ndarray:
        at = np.asarray(at)
        return np.stack([tree.lca_depth(at[a], at[b]) for a, b in ((x, y), (x, z), (y, z))])

    return metrics.triplet_accuracy(shared(true_tree, true_leaf), shared(tree, leaf))
