"""`TreeValue`: values of states that are nodes of a tree, V(s) = Σ_{B∋s} V_B, learned by temporal differences."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from vpunn._rows import LARGEST_FEATURE, squarable
from vpunn.errors import VpunnError, check_whole, examples
from vpunn.tree import Tree

#: More values than memory has room for.
MAX_VALUES = 10**9


class TreeValue:
    """V(s) = Σ_{B∋s} V_B (with ``actions``: Q(s, a) = Σ_{B∋s} Q_B(a)), learned one step at a time by temporal differences.

    A step with error δ adds ``rate`` · δ to V(s), divided among the balls around s: a ball of depth d that was adjusted n times
    takes a part in proportion to ``sharing`` to the (K − d) over (1 + n) (K is the depth of s). At first everything is said to
    whole regions, so states never seen have the value of their balls; with visits large balls come to rest, and small ones
    take over.

    Parameters
    ----------
    tree : states are its nodes, as a rule leaves; `Boxes` cuts a box of numbers into one.
    actions : number of actions, or None for the value of states alone.
    discount : of the next state's value, in [0, 1].
    rate : share of the error that a step removes, in (0, 1].
    sharing : how much a ball takes per level of depth below it, > 0; 1 is even, small numbers keep values to the
        states, large ones give them to whole regions first (gymnasium's MountainCar learns with 3, not with 1).

    >>> tree = Tree.from_paths([("east", "shop"), ("east", "park"), ("west", "lake")], root="town")
    >>> value = TreeValue(tree, discount=0.9)
    >>> for _ in range(50):
    ...     _ = value.learn(tree.index("shop"), 1.0), value.learn(tree.index("lake"), 0.0)
    >>> [round(float(v), 1) for v in value(tree.index(["shop", "park", "lake"]))]  # the park was never seen, its region was
    [1.0, 0.6, 0.0]
    """

    def __init__(
        self,
        tree: Tree,
        actions: int | None = None,
        *,
        discount: float = 0.99,
        rate: float = 0.5,
        sharing: float = 1.0,
    ) -> None:
        if not isinstance(tree, Tree):
            raise VpunnError(f"tree must be a vpunn Tree, got {type(tree).__name__}; Tree.from_edges builds one.")
        for name, number, low, high in (
            ("discount", discount, 0.0, 1.0),
            ("rate", rate, 1e-12, 1.0),
            ("sharing", sharing, 1e-12, 1e12),
        ):
            if isinstance(number, bool) or not isinstance(number, int | float) or not low <= number <= high:
                raise VpunnError(f"{name} is a number between {low:g} and {high:g}, got {number!r}.")
        self.tree, self.discount, self.rate, self.sharing = tree, float(discount), float(rate), float(sharing)
        self.actions = None if actions is None else check_whole("actions", actions)
        columns = 1 if self.actions is None else self.actions
        if columns * tree.n_nodes > MAX_VALUES:
            raise VpunnError(f"{columns:,} actions on {tree.n_nodes:,} nodes are more than {MAX_VALUES:,} values.")
        self.parts = np.zeros((tree.n_nodes, columns))  #: V_B, one row per ball
        self.visits = np.zeros((tree.n_nodes, columns))  #: how often each was adjusted
        self._parent = tree.parent.astype(np.int64)

    def __call__(self, nodes: Any) -> np.ndarray:
        """Values of nodes: one number each, or one per action."""
        from vpunn.regress import _value_kernels

        if type(nodes) is int and 0 <= nodes < self.tree.n_nodes:  # an agent asks for one state a step
            ids = np.array(nodes)
        else:
            ids = np.asarray(self.tree.check_nodes(nodes), np.int64)
        out = np.zeros((ids.size, self.parts.shape[1]))
        _value_kernels.sum_chains(self.parts, self._parent, ids.reshape(-1), out)
        return out.reshape(ids.shape if self.actions is None else (*ids.shape, -1))

    def learn(
        self, state: int, reward: float, after: int | None = None, *, action: int = 0, next_action: int | None = None
    ) -> float:
        """One step: in ``state`` (by ``action``) came ``reward`` and the state ``after``, None at the end. Returns the error δ.

        δ = reward + discount · V(after) − V(state); with actions V(after) is that of the best one (Q-learning), or of
        ``next_action`` if it is given (SARSA).
        """
        from vpunn.regress import _value_kernels

        n, columns = self.parts.shape
        end = -1 if after is None else after
        chosen = -1 if next_action is None else next_action
        whole = all(isinstance(number, int | np.integer) for number in (state, end, action, chosen))
        if not (whole and 0 <= state < n and -1 <= end < n and 0 <= action < columns and -1 <= chosen < columns):
            raise VpunnError(
                f"learn takes nodes from 0 to {n - 1} and actions from 0 to {columns - 1}; "
                f"got state {state!r}, after {after!r}, action {action!r}, next_action {next_action!r}."
            )
        if not (isinstance(reward, Real) and -LARGEST_FEATURE <= reward <= LARGEST_FEATURE):
            raise VpunnError(f"reward must be a number of at most {LARGEST_FEATURE:g}, got {examples([reward])}.")
        return float(
            _value_kernels.td_step(
                self.parts, self.visits, self._parent, int(state), int(action), float(reward), int(end), int(chosen),
                self.discount, self.rate, self.sharing,
            )
        )  # fmt: skip

    def best(self, state: int) -> int:
        """The action of the highest value; the first of equals."""
        if self.actions is None:
            raise VpunnError("this TreeValue has no actions; build it with TreeValue(tree, actions=n).")
        if not isinstance(state, int | np.integer):
            raise VpunnError(f"a state is a node, a whole number, got {state!r}.")
        return int(self(int(state)).argmax())


class Boxes:
    """A box of numbers cut in two along every column, ``depth`` times: a tree with 2^columns children a ball.

    >>> boxes = Boxes(low=[0, 0], high=[1, 1], depth=3)  # a quadtree of 8 × 8 cells
    >>> a, b, c = boxes.leaf([[0.1, 0.1], [0.2, 0.2], [0.9, 0.1]])
    >>> boxes.tree.lca_depth([a, a], [b, c]).tolist()
    [2, 0]
    """

    def __init__(self, low: Any, high: Any, depth: int) -> None:
        self.low, self.high = (np.atleast_1d(squarable(given, "low and high")) for given in (low, high))
        self.depth = check_whole("depth", depth)
        if self.low.shape != self.high.shape or self.low.ndim > 1 or not (self.high > self.low).all():
            raise VpunnError(f"low and high are one number a column, low below high in all; got {low!r} and {high!r}.")
        width = len(self.low)
        if width * self.depth > 24:
            raise VpunnError(
                f"{width} columns cut {depth} times are 2^{width * self.depth} cells; at most 2^24 are made."
            )
        counts = 2 ** (width * np.arange(self.depth + 1))
        first = np.cumsum(counts) - counts
        above = [first[k - 1] + np.arange(counts[k]) // 2**width for k in range(1, self.depth + 1)]
        self.tree = Tree.from_parents(np.concatenate([[-1], *above]))

    def leaf(self, points: Any) -> np.ndarray:
        """The leaf that holds each point (…, columns); points outside are taken to the border."""
        try:
            points = np.asarray(points, float)
        except (TypeError, ValueError, OverflowError) as error:
            raise VpunnError(f"points are rows of {len(self.low)} numbers ({error}).") from None
        if points.shape[-1:] != self.low.shape or np.isnan(points).any():
            raise VpunnError(f"a point has {len(self.low)} numbers and no NaN, got an array of shape {points.shape}.")
        points = np.clip(points, self.low, self.high)
        cells = np.floor((points - self.low) / (self.high - self.low) * 2.0**self.depth)
        cell = np.clip(cells, 0, 2**self.depth - 1).astype(np.int64)
        number = np.zeros(points.shape[:-1], np.int64)
        for bit in range(self.depth - 1, -1, -1):
            for column in range(len(self.low)):
                number = 2 * number + (cell[..., column] >> bit & 1)
        return np.asarray(self.tree.leaves, np.int64)[number]
