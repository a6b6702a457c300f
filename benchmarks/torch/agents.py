"""`TreeValue` beside a table and tile coding: episodes to a given return in a maze and in gymnasium's MountainCar.

    python -m benchmarks.torch.agents [--seeds 10]

*maze*: 64 × 64 cells, walls by recursive division with two gaps each, a maze per seed; −1 a step, at most 2,000 steps; the agent
knows its cell. *MountainCar-v0* of gymnasium: place and speed cut into 64 × 64 cells, −1 a step, at most 200 steps, as made. All
three agents learn Q by one-step SARSA, discount 1 (0.99 in the maze), all values 0 at the start, which is optimistic, and no other
exploration. The tree is the quadtree of the cells (`Boxes`), the table one number a cell (`TreeValue` on a star), tile coding
eight grids of 8 × 8 or 32 × 32 shifted against each other. Rates, how wide `TreeValue` shares (``sharing``) and the size of the
grids are chosen on two other seeds. An agent has arrived when the mean return of
ten episodes reaches the goal; who never does counts as the number of episodes allowed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.common import write_results
from numba import njit

from vpunn.errors import VpunnError
from vpunn.regress import Boxes, TreeValue
from vpunn.regress._value_kernels import td_step, value_of
from vpunn.tree import Tree

SIDE, TILINGS, WINDOW = 64, 8, 10
#: Environment → episodes allowed, discount.
TASKS = {"maze": (1500, 0.99), "MountainCar-v0": (400, 1.0)}
RATES = (0.3, 0.6, 1.0)
#: Agent → how widely it may generalise: `TreeValue`'s ``sharing``, the table not at all, cells along a side of a grid.
WIDTHS: dict[str, tuple[float, ...]] = {"TreeValue": (1.0, 3.0), "table": (0.0,), "tile coding": (8, 32)}
MOVES = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])


class Maze:
    """A maze of −1 a step from the upper left to the lower right corner; moves into walls leave the agent where it is."""

    low, high, actions, most = np.zeros(2), np.full(2, float(SIDE)), len(MOVES), 2000

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.wall = np.zeros((SIDE, SIDE), bool)
        rooms = [(0, 0, SIDE, SIDE)]
        while rooms:
            r, c, high, wide = rooms.pop()
            if max(high, wide) < 12:
                continue
            across = high < wide
            size, length = (wide, high) if across else (high, wide)
            at = int(rng.integers(size // 3, size - size // 3))
            gaps = rng.integers(0, length, 2)
            line = np.ones(length, bool)
            line[gaps] = line[(gaps + 1) % length] = False
            if across:
                self.wall[r : r + high, c + at] = line
                rooms += [(r, c, high, at), (r, c + at + 1, high, wide - at - 1)]
            else:
                self.wall[r + at, c : c + wide] = line
                rooms += [(r, c, at, wide), (r + at + 1, c, high - at - 1, wide)]
        self.wall[0, 0] = self.wall[-1, -1] = False
        self.shortest = self._breadth_first()
        if self.shortest < 0:
            raise VpunnError(f"the maze of seed {seed} has no way to its exit; take another seed.")
        self.states: np.ndarray | None = None  # of every cell, as the agent sees them

    def _breadth_first(self) -> int:
        """Steps of the shortest way; −1 if there is none."""
        steps = np.full((SIDE, SIDE), -1)
        steps[0, 0], front = 0, [(0, 0)]
        while front and steps[-1, -1] < 0:
            after = []
            for r, c in front:
                for dr, dc in MOVES.tolist():
                    a, b = r + dr, c + dc
                    if 0 <= a < SIDE and 0 <= b < SIDE and not self.wall[a, b] and steps[a, b] < 0:
                        steps[a, b] = steps[r, c] + 1
                        after.append((a, b))
            front = after
        return int(steps[-1, -1])

    def episode(self, value: Any, state_of: Callable[[Any], Any], rng: np.random.Generator) -> float:
        """The return of one episode of SARSA, compiled: a Python step would take a hundred times as long."""
        if self.states is None:
            self.states = np.array([state_of((r, c)) for r in range(SIDE) for c in range(SIDE)])
        states = self.states
        if isinstance(value, TreeValue):
            chain = (value.parts, value.visits, value._parent)
            return float(walk(self.wall, states, rng, *chain, value.discount, value.rate, value.sharing, self.most))
        return float(walk_tiles(self.wall, states, rng, value.weight, value.discount, value.rate, self.most))


@njit(cache=True)
def move(wall, cell, action):
    r, c = cell // SIDE + MOVES[action, 0], cell % SIDE + MOVES[action, 1]
    return SIDE * r + c if 0 <= r < SIDE and 0 <= c < SIDE and not wall[r, c] else cell


@njit(cache=True)
def greedy(q, rng):
    best, many = q.max(), 0
    chosen = 0
    for a in range(len(q)):
        if q[a] == best:
            many += 1
            if rng.random() * many < 1:  # each of the best is as likely
                chosen = a
    return chosen


@njit(cache=True)
def walk(wall, states, rng, parts, visits, parent, discount, rate, sharing, most):
    q, cell, action, n = np.empty(4), 0, -1, 0
    while n < most and cell != SIDE * SIDE - 1:
        if action < 0:
            for a in range(4):
                q[a] = value_of(parts, parent, states[cell], a)
            action = greedy(q, rng)
        after = move(wall, cell, action)
        n += 1
        over = after == SIDE * SIDE - 1
        for a in range(4):
            q[a] = value_of(parts, parent, states[after], a)
        following = greedy(q, rng)
        end = -1 if over else states[after]
        td_step(parts, visits, parent, states[cell], action, -1.0, end, following, discount, rate, sharing)
        cell, action = after, following
    return -float(n)


@njit(cache=True)
def tile_values(weight, tiles, q):
    q[:] = 0.0
    for k in range(len(tiles)):
        q += weight[k, tiles[k]]


@njit(cache=True)
def walk_tiles(wall, states, rng, weight, discount, rate, most):
    q, cell, n = np.empty(4), 0, 0
    tile_values(weight, states[cell], q)
    action = greedy(q, rng)
    value = q[action]
    while n < most and cell != SIDE * SIDE - 1:
        after = move(wall, cell, action)
        n += 1
        tile_values(weight, states[after], q)
        following = greedy(q, rng)
        ahead = 0.0 if after == SIDE * SIDE - 1 else discount * q[following]
        for k in range(len(states[cell])):
            weight[k, states[cell, k], action] += rate / len(states[cell]) * (ahead - 1.0 - value)
        tile_values(weight, states[after], q)
        cell, action, value = after, following, q[following]
    return -float(n)


class Tiles:
    """Tile coding: Q(s, a) = Σ of one weight in each of eight grids; the same calls as `TreeValue`."""

    def __init__(
        self, low: np.ndarray, high: np.ndarray, actions: int, discount: float, rate: float, side: int
    ) -> None:
        self.low, self.width, self.discount, self.rate, self.row = low, (high - low) / side, discount, rate, side + 2
        self.weight = np.zeros((TILINGS, self.row**2, actions))
        self.shift = np.stack([np.arange(TILINGS) * k % TILINGS for k in (1, 3)], 1) / TILINGS

    def leaf(self, point: Any) -> np.ndarray:
        """The tile of a point in every grid."""
        place = np.floor((np.asarray(point, float) - self.low) / self.width + self.shift)
        cell = np.clip(place, 0, self.row - 1).astype(int)
        return np.asarray(self.row * cell[:, 0] + cell[:, 1])

    def __call__(self, state: Any) -> np.ndarray:
        return np.asarray(self.weight[np.arange(TILINGS), state].sum(0))

    def learn(self, state: Any, reward: float, after: Any, *, action: int, next_action: int) -> None:
        """One step of SARSA."""
        ahead = 0.0 if after is None else self.discount * self(after)[next_action]
        error = reward + ahead - self(state)[action]
        self.weight[np.arange(TILINGS), state, action] += self.rate / TILINGS * error


Setting = tuple[float, float]


def agents(low: np.ndarray, high: np.ndarray, actions: int, discount: float) -> dict[str, Callable[[Setting], Any]]:
    """Every agent as a function of its rate and width to (values, states of observations)."""
    boxes, star = Boxes(low, high, 6), Tree.from_parents([-1] + [0] * SIDE**2)
    middle = low + (np.indices((SIDE, SIDE)).reshape(2, -1).T + 0.5) * (high - low) / SIDE
    leaf, (x, y), (w, h) = boxes.leaf(middle).tolist(), low.tolist(), ((high - low) / SIDE).tolist()

    def cell(seen: Any) -> int:
        return SIDE * min(int((seen[0] - x) / w), SIDE - 1) + min(int((seen[1] - y) / h), SIDE - 1)

    def tree(setting: Setting) -> Any:
        value = TreeValue(boxes.tree, actions, discount=discount, rate=setting[0], sharing=setting[1])
        return value, lambda seen: leaf[cell(seen)]

    def table(setting: Setting) -> Any:
        value = TreeValue(star, actions, discount=discount, rate=setting[0], sharing=1e-12)  # all of it to the cell
        return value, lambda seen: 1 + cell(seen)

    def tiles(setting: Setting) -> Any:
        value = Tiles(low, high, actions, discount, setting[0], int(setting[1]))
        return value, value.leaf

    return {"TreeValue": tree, "table": table, "tile coding": tiles}


def episodes(make: Callable[[Setting], Any], env: Any, setting: Setting, allowed: int, goal: float, seed: int) -> int:
    """Episodes until the mean return of ten in a row is at least ``goal``."""
    value, state_of = make(setting)
    rng = np.random.default_rng(seed)
    returns: list[float] = []

    def choose(state: Any) -> int:
        q = value(state)
        best = np.flatnonzero(q == q.max())
        return int(best[rng.integers(len(best))] if len(best) > 1 else best[0])

    def one(episode: int) -> float:
        seen, _ = env.reset(seed=1000 * seed + episode)
        state, total, over, cut = state_of(seen), 0.0, False, False
        action = choose(state)
        while not (over or cut):
            seen, reward, over, cut, _ = env.step(action)
            total += reward
            after = None if over else state_of(seen)
            next_action = 0 if over else choose(after)
            value.learn(state, reward, after, action=action, next_action=next_action)
            state, action = after, next_action
        return total

    for episode in range(1, allowed + 1):
        returns.append(env.episode(value, state_of, rng) if isinstance(env, Maze) else one(episode))
        if len(returns) >= WINDOW and np.mean(returns[-WINDOW:]) >= goal:
            return episode
    return allowed


def _maze(seed: int) -> Maze:
    """The maze of a seed, or the next that has a way to its exit."""
    try:
        return Maze(seed)
    except VpunnError:
        return _maze(seed + 1000)


def environment(name: str, seed: int) -> tuple[Any, np.ndarray, np.ndarray, int, float]:
    """The environment, its bounds, its actions and the goal."""
    if name == "maze":
        maze = _maze(seed)
        return maze, maze.low, maze.high, maze.actions, -2.0 * maze.shortest
    import gymnasium

    env = gymnasium.make(name)
    space: Any = env.observation_space
    return env, space.low.astype(float), space.high.astype(float), int(env.action_space.n), -150.0  # type: ignore[attr-defined]


def run(name: str, seeds: int) -> list[dict[str, Any]]:
    """The table of one environment."""
    allowed, discount = TASKS[name]
    rows = []
    for who in ("TreeValue", "table", "tile coding"):

        def trial(setting: Setting, seed: int, who: str = who) -> int:
            env, low, high, actions, goal = environment(name, seed)
            return episodes(agents(low, high, actions, discount)[who], env, setting, allowed, goal, seed)

        settings = [(rate, width) for rate in RATES for width in WIDTHS[who]]
        mean = {setting: float(np.mean([trial(setting, seed) for seed in (101, 102)])) for setting in settings}
        setting = min(settings, key=mean.__getitem__)
        found = np.array([trial(setting, seed) for seed in range(1, seeds + 1)], float)
        row: dict[str, Any] = {"environment": name, "agent": who, "setting": setting}
        row |= {"episodes": float(found.mean()), "median": float(np.median(found))}
        row |= {"se": float(found.std(ddof=1) / np.sqrt(seeds)), "never": int((found == allowed).sum())}
        rows.append(row)
        print(row, mean, flush=True)
    return rows


def main() -> None:
    """Run, print and write both tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", nargs="*", default=list(TASKS))
    parser.add_argument("--seeds", type=int, default=10)
    chosen = parser.parse_args()
    write_results("torch-agents", [row for name in chosen.task for row in run(name, chosen.seeds)])


if __name__ == "__main__":
    main()
