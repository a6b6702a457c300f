"""Fisher-VAPO: natural gradient with the exact Fisher information, which is block-diagonal over balls (AUDIT L2).

For P(leaf) = Π softmax(θ_B)[child] the Fisher matrix is ⊕_B π_B·(diag q_B − q_B q_Bᵀ) with π_B = P(B). With the
observed ball mass in place of π_B it is the Hessian of the loss, and its inverse times the gradient is, per ball,

    Δθ_c = η_B (q̂_c / q_c − 1),

which costs O(n) for all balls and no longer contains the mass that starves deep balls of plain gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._types import Numbers
from vpunn.errors import VpunnError
from vpunn.vapo.driver import real_start

if TYPE_CHECKING:
    from vpunn.vapo.heads import SoftmaxHeads


class FisherSolver:
    """Damped natural-gradient steps on `SoftmaxHeads` without margin.

    The step of a ball is η_B = log(1 + r)/r with r the range of its Δθ: the bound of generalised self-concordance (Sun
    and Tran-Dinh 2019), under which the loss of every ball falls at every step and the last steps are full Newton steps.
    """

    method = "fisher"

    def __init__(
        self,
        problem: SoftmaxHeads,
        *,
        start: Numbers | None = None,
        seed: int = 0,
        tolerance: float = 1e-6,
        max_steps: int = 100,
    ) -> None:
        self.problem, self.seed, self.tolerance, self.epochs = problem, seed, tolerance, max_steps
        theta = real_start(problem, start)
        self.state = {"theta": theta}
        with np.errstate(divide="ignore"):
            self._log_frequencies = np.log(problem.frequencies)

    def settings(self) -> dict[str, Any]:
        return {"tolerance": self.tolerance}

    def parameters(self) -> np.ndarray:
        return self.state["theta"]

    def certificate(self) -> None:
        return None

    def finished(self, history: list[float]) -> bool:
        known = self.problem.known_optimum
        return known is not None and history[-1] - known <= 0.1 * self.tolerance

    def epoch(self, number: int) -> int:
        layout, theta = self.problem.layout, self.state["theta"]
        log_ratio = self._log_frequencies - self.problem.log_probabilities(theta)
        step = np.expm1(np.minimum(log_ratio, 100.0))  # 100: the damping takes its logarithm anyway
        low = layout.start[:-1]
        spread = np.maximum.reduceat(step, low) - np.minimum.reduceat(step, low)
        safe = np.maximum(spread, 1e-12)
        theta += (np.log1p(safe) / safe)[layout.context] * step
        return layout.n_contexts


def information_blocks(heads: SoftmaxHeads, theta: np.ndarray) -> np.ndarray:
    """Trace of the Fisher block of every context, Σ_B π_B·(1 − Σ_c q_c²) over the balls B that share the context. O(n).

    The law is that of `SoftmaxHeads.node_probabilities`: q is the soft-max over the children that B really has and π_B the
    probability of reaching B by the same laws. Soft-max over all digits of the context would be another law for ``markov``
    and ``depth``: it spends probability on children that do not exist.
    """
    layout, tree = heads.layout, heads.tree
    reached = heads.node_probabilities(theta)
    above = reached[tree.parent[1:]]
    share = np.divide(reached[1:], above, out=np.zeros(len(above)), where=above > 0)
    # Σ_B π_B (1 − Σ q²) = Σ_c π_c (1 − q_c), because the children's π sum to π_B.
    return np.bincount(layout.context[layout.slot[1:]], reached[1:] * (1 - share), minlength=layout.n_contexts)


def information(heads: SoftmaxHeads, theta: np.ndarray, depth: int | None = None) -> np.ndarray | float:
    """Fisher information (trace) of the law on the leaves about the heads at each digit position, or at one of them.

    >>> from vpunn.tree import Tree
    >>> from vpunn.vapo.heads import SoftmaxHeads
    >>> heads = SoftmaxHeads(Tree.from_parents([-1, 0, 0, 1, 1]))
    >>> information(heads, heads.initial()), information(heads, heads.initial(), depth=1)
    (array([0.5 , 0.25]), 0.25)

    A ball with one child tells nothing about the law it shares with others:

    >>> tied = SoftmaxHeads(Tree.from_parents([-1, 0, 0, 1, 1, 2]), "depth")
    >>> information(tied, tied.initial())
    array([0.5 , 0.25])
    """
    per_depth = np.bincount(heads.layout.position, information_blocks(heads, theta), minlength=heads.tree.max_depth)
    if depth is None:
        return per_depth
    if not 0 <= depth < len(per_depth):
        raise VpunnError(f"depth={depth!r} has no heads; positions run from 0 to {len(per_depth) - 1}.")
    return float(per_depth[depth])


def fisher_block(heads: SoftmaxHeads, theta: np.ndarray, ball: int) -> np.ndarray:
    """The Fisher matrix of one ball's logits, π_B·(diag q − q qᵀ), for ``node`` heads."""
    if heads.layout.factorisation != "node" or heads.tree.is_leaf[heads.tree.check_nodes(ball)]:
        raise VpunnError(f"fisher_block needs 'node' heads and a ball with children, got ball {ball!r}.")
    q = np.exp(heads.log_probabilities(theta))[heads.layout.slot[heads.tree.children(ball)]]
    return np.asarray(heads.node_probabilities(theta)[ball] * (np.diag(q) - np.outer(q, q)))
