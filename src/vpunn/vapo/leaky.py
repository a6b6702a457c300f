"""Training a real v-PuNN through the paper's leaky indicators, so that the leak can be ablated (AUDIT E-26, S21)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from vpunn._types import Numbers
from vpunn.errors import VpunnError
from vpunn.network import VPuNN
from vpunn.tree import Nodes, Tree
from vpunn.tree.sweeps import sweep_down, sweep_up
from vpunn.vapo.adam import FullBatchAdam
from vpunn.vapo.gist import LeakyGist

#: The paper's leak. It exists in training surrogates only; no prediction uses it (AUDIT S21).
LEAK = 0.01


def surrogate(net: VPuNN, nodes: Nodes, alpha: float = LEAK) -> np.ndarray:
    """The leaky training surrogate Σ_B c_B χ̃_B(x) = (1 − α) F(x) + α Σ_B c_B of a real-valued network.

    With α > 0 every ball answers everywhere, so this is no prediction (AUDIT E-26).
    """
    if net.ring.kind != "real":
        raise VpunnError(f"the leaky surrogate needs values='real' (α is not small in Q_p), got {net.ring.kind!r}.")
    return np.asarray((1 - alpha) * net.predict(nodes) + alpha * net.coefficients_.sum(axis=0))


class LeakyRegression:
    """Least squares on leaf values with χ̃_B = χ_B + α(1 − χ_B): the surrogate is (1−α)F(x) + αΣ_B c_B.

    `loss` is what training sees, `honest_loss` the error of the network itself (α = 0). Zero is reachable for every α < 1
    (`closed_form`); this exists to measure what the leak does to training.

    >>> from vpunn.vapo import minimize
    >>> problem = LeakyRegression(Tree.from_parents([-1, 0, 0, 1, 1]), [1.0, 2.0, 4.0], alpha=0.02)
    >>> result = minimize(problem, "adam")
    >>> bool(result.loss < 1e-3 < problem.honest_loss(result.parameters))
    True
    """

    known_optimum = 0.0
    solvers: ClassVar[dict[str, Any]] = {"adam": FullBatchAdam, "gist": LeakyGist}

    def __init__(self, tree: Tree, leaf_values: Numbers, *, alpha: float = LEAK) -> None:
        try:
            values = np.asarray(leaf_values, float)
        except (TypeError, ValueError):
            raise VpunnError(f"leaf_values needs {tree.n_leaves:,} finite numbers, got something else.") from None
        if values.shape != (tree.n_leaves,) or not np.isfinite(values).all():
            raise VpunnError(
                f"leaf_values needs {tree.n_leaves:,} finite numbers, got an array of shape {values.shape}."
            )
        if not 0 <= alpha < 1:
            raise VpunnError(f"alpha={alpha!r} must lie in 0 ≤ α < 1; the paper uses 0.01.")
        self.tree, self.alpha, self.target = tree, float(alpha), values
        self.items = values  # what distinguishes two problems on one tree
        self.n_parameters = tree.n_nodes
        self.positions = tree.depth

    def settings(self) -> dict[str, Any]:
        """What identifies the problem besides the tree and the values."""
        return {"head": "LeakyRegression", "alpha": self.alpha}

    def initial(self) -> np.ndarray:
        """All coefficients zero."""
        return np.zeros(self.n_parameters)

    def errors(self, coefficients: np.ndarray) -> np.ndarray:
        """Surrogate minus target on every leaf."""
        return self._errors(coefficients, self.alpha)

    def closed_form(self) -> np.ndarray:
        """Coefficients of zero loss: those of `VPuNN.interpolate` divided by 1 − α, and the root's lowered by α·S/(1 − α),
        where S is the sum of the former.

        The new ones sum to S again, so the surrogate is (1−α)·(y − αS)/(1−α) + αS = y at every leaf. The network itself
        then predicts (y − αS)/(1 − α): it is right only where y = S.

        >>> problem = LeakyRegression(Tree.from_parents([-1, 0, 0, 1, 1]), [1.0, 2.0, 4.0], alpha=0.5)
        >>> exact = problem.closed_form()
        >>> problem.loss(exact), problem.honest_loss(exact) > 1
        (0.0, True)
        """
        exact = np.array(VPuNN(self.tree).interpolate(self.target).coefficients_, float)
        total = exact.sum()
        exact /= 1 - self.alpha
        exact[0] -= self.alpha * total / (1 - self.alpha)
        return exact

    def _errors(self, coefficients: np.ndarray, alpha: float) -> np.ndarray:
        own = sweep_down(self.tree, coefficients)[self.tree.leaves]
        return np.asarray((1 - alpha) * own + alpha * coefficients.sum() - self.target)

    def loss(self, coefficients: np.ndarray) -> float:
        """Mean squared error of the leaky surrogate."""
        return float((self._errors(coefficients, self.alpha) ** 2).mean())

    def honest_loss(self, coefficients: np.ndarray) -> float:
        """Mean squared error of the network itself: prediction never leaks."""
        return float((self._errors(coefficients, 0.0) ** 2).mean())

    def gradient(self, coefficients: np.ndarray) -> np.ndarray:
        """∂loss/∂c_B = (1−α)·Σ_{x∈B} r_x + α·Σ_x r_x with r the scaled errors."""
        pull = np.zeros(self.tree.n_nodes)
        pull[self.tree.leaves] = 2 * self._errors(coefficients, self.alpha) / self.tree.n_leaves
        return np.asarray((1 - self.alpha) * sweep_up(self.tree, pull) + self.alpha * pull.sum())
