"""Classes that evolve along the branches of a tree: the Mk model, exactly, by pruning.

Along a branch of length t a class turns into another with probabilities exp(Qt). Q has one rate for all pairs of classes
(``"equal"``), or one for each pair, alike both ways (``"symmetric"``). The root's class is uniform, which is the stationary
distribution of both. Rates by maximum likelihood, O(nodes · classes²) an evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vpunn.errors import VpunnError, advice
from vpunn.regress.variances import Branches
from vpunn.tree import Tree

FloatArray = np.ndarray

#: Range in which a rate is sought, in changes per mean height of the tips.
SLOWEST, FASTEST = 1e-8, 1e3
#: Symmetric rates have several best places at times: they are sought from these too.
STARTS = (0.1, 1.0, 10.0)


@dataclass(frozen=True)
class ClassEvolution:
    """What `fit_classes` found."""

    proba: FloatArray  #: (nodes × classes): distribution of every node
    below: FloatArray  #: (nodes × classes): of a new tip below it, at the mean distance of those there are; of a tip, its own
    rates: FloatArray  #: Q, per unit of branch length; rows sum to 0
    log_likelihood: float


@dataclass(frozen=True)
class SeenClasses:
    """What was seen at the nodes of a tree: per node and class the share of its rows that have it, 1 where there are none."""

    branches: Branches
    said: FloatArray

    @classmethod
    def of(
        cls, branches: Branches, nodes: np.ndarray, column: np.ndarray, n_classes: int, weight: FloatArray
    ) -> SeenClasses:
        """From rows; rows of one node that differ say that it is one of their classes, by their shares."""
        n = branches.tree.n_nodes
        cell = np.bincount(nodes * n_classes + column, weights=weight, minlength=n * n_classes).reshape(n, n_classes)
        total = cell.sum(axis=1, keepdims=True)
        return cls(branches, np.divide(cell, total, out=np.ones_like(cell), where=total > 0))

    def log_likelihood(self, rates: FloatArray) -> float:
        """At given rates, per unit of `Branches`."""
        return self._up(rates)[-1]

    def _up(self, rates: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, float]:
        from vpunn.regress import _pruning_kernels as kernels

        values, vectors = np.linalg.eigh(rates)
        said = self.said.copy()
        passed, total = kernels.prune_classes(self.branches.tree.parent, self.branches.length, values, vectors, said)
        if not np.isfinite(total):
            return values, vectors, said, passed, -np.inf
        return values, vectors, said, passed, float(total + np.log(said[0].mean()))

    def solution(self, rates: FloatArray) -> ClassEvolution:
        """Sweep up and down."""
        from vpunn.regress import _pruning_kernels as kernels

        tree, branches = self.branches.tree, self.branches
        values, vectors, said, passed, found = self._up(rates)
        if not np.isfinite(found):
            raise VpunnError(
                "species at distance 0 have different classes, which no rate can explain; "
                + advice("lengths", "zero=tiny", "pass lengths={'zero': 'tiny'}")
                + "."
            )
        proba = kernels.spread_classes(tree.parent, branches.length, values, vectors, said, passed)
        away = kernels.means_below(tree.parent, tree.is_leaf, branches.height) - branches.height
        below = (proba @ vectors * np.exp(np.outer(np.maximum(away, 0.0), values))) @ vectors.T
        below = np.maximum(below, 0.0)
        return ClassEvolution(proba, below / below.sum(axis=1, keepdims=True), rates / branches.unit, found)


def rate_matrix(rates: FloatArray, n_classes: int) -> FloatArray:
    """Q from one rate, or from one for each pair of classes: (0, 1), (0, 2)… (1, 2)…

    >>> rate_matrix(np.array([1.0]), 3).tolist()
    [[-2.0, 1.0, 1.0], [1.0, -2.0, 1.0], [1.0, 1.0, -2.0]]
    """
    matrix = np.zeros((n_classes, n_classes))
    matrix[np.triu_indices(n_classes, 1)] = rates
    matrix += matrix.T
    return np.asarray(matrix - np.diag(matrix.sum(axis=1)))


def fit_classes(
    tree: Tree,
    nodes: np.ndarray,
    column: np.ndarray,
    n_classes: int,
    weight: FloatArray,
    *,
    rates: str = "equal",
    lengths: object = None,
) -> ClassEvolution:
    """The most likely rates, and every node's distribution."""
    from scipy.optimize import minimize, minimize_scalar

    seen = SeenClasses.of(Branches.of(tree, lengths), nodes, column, n_classes, weight)
    if n_classes == 1:
        return seen.solution(np.zeros((1, 1)))

    def loss(logs: FloatArray) -> float:
        value = -seen.log_likelihood(rate_matrix(np.exp(logs), n_classes))
        return value if np.isfinite(value) else 1e300

    grid = np.linspace(np.log(SLOWEST), np.log(FASTEST), 26)
    scores = [loss(np.array([u])) for u in grid]
    at = int(np.argmin(scores))
    ends = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
    one = minimize_scalar(lambda u: loss(np.array([u])), bounds=ends, method="bounded", options={"xatol": 1e-8})
    best = np.array([one.x if one.fun <= scores[at] else grid[at]])
    if rates == "symmetric" and n_classes > 2:
        pairs = n_classes * (n_classes - 1) // 2
        limits = [(np.log(SLOWEST), np.log(FASTEST))] * pairs
        options = {"maxiter": 500, "ftol": 1e-15, "gtol": 1e-7, "maxfun": 100_000}
        tries = [
            minimize(loss, np.full(pairs, start), jac="3-point", method="L-BFGS-B", bounds=limits, options=options)
            for start in (best[0], *np.log(STARTS))
        ]
        best = min(tries, key=lambda found: float(found.fun)).x
    return seen.solution(rate_matrix(np.exp(best), n_classes))
