"""`TreeBandit`: which arm to pull when arms are leaves of a tree and neighbours are alike."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from vpunn._types import Ratios
from vpunn.errors import VpunnError, check_choice, examples
from vpunn.regress.shrinkage import fit_shrinkage, ratios_per_depth
from vpunn.regress.variances import by_depth
from vpunn.tree import Nodes, Tree

Rule = Literal["thompson", "ucb"]

#: Precision, in units of one pull, of the vague prior on the root's value.
VAGUE = 1e-3
#: The ratios are learned again whenever the number of pulls has doubled, from this many on.
FIRST_FIT = 32


class TreeBandit:
    """A bandit whose value function is a van der Put sum, V(x) = Σ_{B∋x} V_B with V_B ~ N(0, σ²·r_depth).

    The posterior of all balls given all rewards is the regressor's, exact by one sweep up and one down (`fit_shrinkage`);
    a pull at one arm moves its relatives as much as the ratios r say. Arms never pulled inherit from their balls.

    Parameters
    ----------
    tree : the hierarchy.
    rule : ``"thompson"`` pulls the best arm of one joint draw from the posterior; ``"ucb"`` the arm with the largest mean +
        √(2 log(1 + pulls)) posterior standard deviations.
    arms : node ids that can be pulled; default: the leaves.
    noise : standard deviation of a reward at a fixed arm.
    ratios : variance of a difference over the noise variance, one number or one per depth 1…K. By default they start at 1
        and are learned by restricted maximum likelihood whenever the number of pulls has doubled: a tree that says nothing about
        the rewards is then ignored.
    random_state : seed; the same seed and rewards give the same pulls.

    A choice costs O(nodes).

    >>> tree = Tree.from_paths([("a", "x"), ("a", "y"), ("b", "z"), ("b", "w")], root="r")
    >>> bandit = TreeBandit(tree, noise=0.1, random_state=0)
    >>> reward = dict(zip(tree.index(["x", "y", "z", "w"]).tolist(), [1.0, 1.1, 0.0, 0.1]))
    >>> for _ in range(40):
    ...     arm = bandit.select()
    ...     bandit.update(arm, reward[arm])
    >>> tree.labels[bandit.best()]
    'y'
    """

    def __init__(
        self,
        tree: Tree,
        rule: Rule = "thompson",
        *,
        arms: Nodes | None = None,
        noise: float = 1.0,
        ratios: Ratios = None,
        random_state: int = 0,
    ) -> None:
        check_choice("rule", rule, get_args(Rule))
        if not isinstance(tree, Tree):
            raise VpunnError(f"tree must be a vpunn Tree, got {type(tree).__name__}.")
        if not np.isfinite(noise) or noise <= 0:
            raise VpunnError(f"noise is a standard deviation above 0, got {noise!r}.")
        self.tree, self.rule, self.noise = tree, rule, float(noise)
        self.arms = np.asarray(tree.leaves if arms is None else tree.check_nodes(arms), np.int64)
        if self.arms.ndim != 1 or not len(self.arms):
            raise VpunnError("a bandit needs at least one arm.")
        self.learns = ratios is None
        self.ratios = ratios_per_depth(1.0 if ratios is None else ratios, tree.max_depth)
        self._random = np.random.default_rng(random_state)
        self._weight, self._total = np.zeros(tree.n_nodes), np.zeros((tree.n_nodes, 1))
        self._weight[0] = VAGUE
        self._pulled: list[int] = []
        self._rewards: list[float] = []
        self._next_fit = FIRST_FIT

    def __len__(self) -> int:
        return len(self._pulled)

    def update(self, arm: int, reward: float) -> None:
        """Take note of a reward."""
        node = int(self.tree.check_nodes(arm))
        if not np.isfinite(reward):
            raise VpunnError(
                f"a reward must be a finite number, got {reward!r} at {examples([self.tree.labels[node]])}."
            )
        self._weight[node] += 1.0
        self._total[node, 0] += reward
        self._pulled.append(node)
        self._rewards.append(float(reward))
        if self.learns and len(self) >= self._next_fit:
            self._next_fit = 2 * len(self)
            self._learn_ratios()

    def _learn_ratios(self) -> None:
        rewards = np.array(self._rewards)
        if self.tree.max_depth and rewards.std() > 0:
            fit = fit_shrinkage(self.tree, np.array(self._pulled), rewards)
            self.ratios = fit.ratios * fit.noise / self.noise**2

    def _swept(self) -> tuple[np.ndarray, ...]:
        from vpunn.regress import _kernels as kernels

        ratio = by_depth(self.tree, self.ratios)
        return ratio, *kernels.collect(self.tree.parent, ratio, self._weight, self._total)

    def posterior(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the value of every node."""
        from vpunn.regress import _kernels as kernels

        ratio, precision, information = self._swept()
        mean, variance = kernels.distribute(self.tree.parent, ratio, precision, information)
        return mean[:, 0], self.noise * np.sqrt(variance)

    def draw(self) -> np.ndarray:
        """One joint draw of the values of all nodes."""
        from vpunn.regress import _kernels as kernels

        ratio, precision, information = self._swept()
        normal = self.noise * self._random.standard_normal(self.tree.n_nodes)
        found: np.ndarray = kernels.sample(self.tree.parent, ratio, precision, information, normal)
        return found

    def select(self) -> int:
        """The arm to pull next."""
        if self.rule == "thompson":
            return int(self.arms[self.draw()[self.arms].argmax()])
        mean, spread = self.posterior()
        bound = mean[self.arms] + np.sqrt(2 * np.log1p(len(self))) * spread[self.arms]
        most = np.flatnonzero(bound == bound.max())  # before the first pull all arms are alike
        return int(self.arms[self._random.choice(most)])

    def best(self) -> int:
        """The arm with the largest posterior mean."""
        return int(self.arms[self.posterior()[0][self.arms].argmax()])
