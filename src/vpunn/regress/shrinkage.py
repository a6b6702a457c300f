"""Exact ridge on van der Put differences, with the ridge chosen by marginal likelihood.

The model is one coefficient per ball and, beside the tree, linear covariates:

    y_i = x_i·β + Σ_{B ∋ node(i)} c_B + ε_i,     c_B ~ N(0, σ²·r_depth(B)),  ε_i ~ N(0, σ²/w_i),

with the root's coefficient free (it is the intercept). Its posterior mean is the minimiser of
Σ w (y − F)² + Σ_B c_B²/r, that is, ridge with λ = 1/r per depth: the nested random-effects BLUP. One sweep up and one
down solve it exactly in O(nodes), and the same sweeps give the determinant, hence the restricted likelihood (REML) of
the ratios r and its gradient, which a quasi-Newton search maximises. Nothing is left to tune by hand.

Weights count repetitions: a row of weight 2 is the row given twice, a row of weight 0 is absent.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from vpunn._types import Ratios
from vpunn.errors import VpunnError
from vpunn.regress.variances import by_depth
from vpunn.store import Draft, Storable, Stored
from vpunn.tree import Tree

FloatArray = np.ndarray

#: A weak prior on each depth's log ratio, N(0, 3²): decides only where the data are silent, such as between the noise and
#: the finest level when every leaf has one row. A factor of 20 either way is inside one standard deviation.
PRIOR_SD = 3.0
#: Log ratios are kept in ±15, where differences are pooled or left alone to seven digits; beyond, sums lose accuracy.
LOG_RATIO_LIMIT = 15.0
#: Smallest noise variance, relative to the variance of y: data without any noise stay solvable.
NOISE_FLOOR = 1e-10


#: Fields of a `ShrinkageFit` that hold one number, or row, per ball.
OF_BALLS = ("values", "variance", "centres", "ball_variance")


@dataclass(frozen=True)
class ShrinkageFit(Storable):
    """What `fit_shrinkage` found, for one target."""

    values: FloatArray  #: per node: posterior mean of its value with the covariates at 0
    variance: FloatArray  #: per node: posterior variance of its value, for known β
    noise: float  #: σ²
    ratios: FloatArray  #: per depth 1…K: variance of a difference over the noise; the ridge λ is 1/ratio
    beta: FloatArray  #: covariate coefficients
    beta_covariance: FloatArray  #: their posterior covariance
    centres: FloatArray  #: per node: shrunken mean of each covariate, which is what β is measured against
    ball_variance: FloatArray  #: per node: variance around its value of one more row of the ball, without noise
    open_variance: FloatArray  #: per depth 0…K: variance of what may come below a new name there
    log_likelihood: float  #: restricted log-likelihood at the ratios, without the prior
    evaluations: int
    converged: bool

    @property
    def slopes(self) -> FloatArray:
        """Coefficients of the covariates."""
        return self.beta

    def predict(self, nodes: np.ndarray, covariates: FloatArray | None = None) -> FloatArray:
        """Posterior mean for rows at ``nodes``."""
        mean = self.values[nodes]
        return np.asarray(mean if covariates is None else mean + covariates @ self.beta)

    def predictive_variance(
        self, tree: Tree, nodes: np.ndarray, depths: np.ndarray | None = None, covariates: FloatArray | None = None
    ) -> FloatArray:
        """Variance of a new observation at ``nodes``: of the value, of β, of what lies below, and of the noise.

        ``depths`` says how deep each row's own path goes. If it ends below its node (unseen labels), every missing difference
        adds its depth's variance, and what may come below it. If it ends at its node, the row is one more row of that ball, at
        the node or below: `ball_variance`. Without ``depths`` rows are at their nodes and nowhere below.
        """
        variance = self.variance[nodes]
        if depths is not None:
            down = np.concatenate([[0.0], np.cumsum(self.ratios)]) * self.noise
            here, there = tree.depth[nodes], np.minimum(depths, len(self.ratios))
            unseen = variance + (down[there] - down[here]) + self.open_variance[there]
            variance = np.where(here < there, unseen, self.ball_variance[nodes])
        variance = variance + self.noise
        if covariates is not None:
            away = covariates - self.centres[nodes]
            variance = variance + np.einsum("ij,jk,ik->i", away, self.beta_covariance, away)
        return np.asarray(variance)

    def coefficients(self, tree: Tree) -> FloatArray:
        """c_B of every ball: the value at the root, then differences to the parent. They sum to `values` along paths."""
        return np.append(self.values[:1], self.values[1:] - self.values[tree.parent[1:]])

    def _to_store(self, draft: Draft) -> None:
        for field in fields(self):
            draft.array(field.name, getattr(self, field.name), balls=field.name in OF_BALLS)

    @classmethod
    def _from_store(cls, stored: Stored) -> ShrinkageFit:
        """Numbers a prediction is the sum of stay so small that it is finite; a log-likelihood may be infinite."""
        n, c = stored.array("centres", dtype="f8", shape=(None, None)).shape
        depth = len(stored.array("ratios", shape=(None,)))
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("values", "variance", "ball_variance"), (n,))
        shapes |= {"centres": (n, c), "ratios": (depth,), "beta": (c,), "beta_covariance": (c, c)}
        shapes["open_variance"] = (depth + 1,)
        bounds: dict[str, dict[str, Any]] = {"log_likelihood": {"finite": False}, "evaluations": {}, "converged": {}}
        bounds["ball_variance"] = bounds["open_variance"] = {"low": 0, "high": 1e300}  # squares of the others
        one: dict[str, Any] = {}
        for field in fields(cls):
            dtype = {"evaluations": "i8", "converged": "?"}.get(field.name, "f8")
            bound = bounds.get(field.name, {"low": -1e150, "high": 1e150})
            array = stored.array(field.name, dtype=dtype, shape=shapes.get(field.name, ()), **bound)
            one[field.name] = array if array.ndim else array.item()
        check_covariance(one["beta_covariance"])
        return cls(**one)


def check_covariance(matrix: FloatArray) -> None:
    """Refuse a stored covariance of coefficients by which a variance would be negative."""
    least = 1e-9 * np.abs(matrix).max(initial=0.0)
    if matrix.size and (np.abs(matrix - matrix.T).max() > least or np.linalg.eigvalsh(matrix).min() < -least):
        raise VpunnError("its beta_covariance is no covariance.")


def fit_shrinkage(
    tree: Tree,
    nodes: np.ndarray,
    y: FloatArray,
    *,
    covariates: FloatArray | None = None,
    weight: FloatArray | None = None,
    ratios: Ratios = None,
    noise: float | None = None,
) -> ShrinkageFit:
    """Fit one target ``y`` of rows at ``nodes`` (leaves or internal nodes); see the module for the model.

    ``ratios`` (a number, or one per depth 1…K) fixes the variance ratios, i.e. the ridge 1/ratio; by default they are
    found by restricted maximum likelihood with a weak prior; ``noise`` is a σ² that is known. Each evaluation costs
    O(nodes · (1 + covariates)), whatever the number of rows; about 15 evaluations are needed.

    >>> tree = Tree.from_parents([-1, 0, 0, 0])
    >>> fit = fit_shrinkage(tree, np.array([1, 1, 2]), np.array([3.0, 5.0, 1.0]), ratios=1.0)
    >>> fit.values.round(3)      # node 3 has no data: it inherits the root's value
    array([2.714, 3.571, 1.857, 2.714])
    """
    w = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=float)
    X = np.zeros((len(y), 0)) if covariates is None else np.asarray(covariates, dtype=float)
    return fit_moments(tree, _moments_of_rows(tree, nodes, np.asarray(y, dtype=float), X, w), ratios, noise)


@dataclass(frozen=True)
class NodeMoments:
    """Rows reduced to sums of standardised columns (the target first, then the covariates): all that a fit needs of them."""

    rows: float  #: Σw
    centre: FloatArray  #: mean of each column
    scale: FloatArray  #: spread of each column, 0 for one that is constant
    weight: FloatArray  #: per node: Σw
    total: FloatArray  #: (nodes × columns): Σw·(column − centre)/scale
    gram: FloatArray  #: (columns × columns): Σw of products of the standardised columns


def fit_moments(tree: Tree, moments: NodeMoments, ratios: Ratios = None, noise: float | None = None) -> ShrinkageFit:
    """Fit one target from the moments of its rows; `fit_shrinkage` does this after summing rows. O(nodes) an evaluation."""
    problem = _Problem(tree, moments, noise)
    if ratios is not None:
        fixed = ratios_per_depth(ratios, tree.max_depth)
        return problem.solution(fixed, 0, True)
    if problem.constant or tree.max_depth == 0:
        return problem.solution(np.ones(tree.max_depth), 0, True)
    from scipy.optimize import minimize

    found = minimize(
        problem.objective,
        np.zeros(tree.max_depth),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)] * tree.max_depth,
        options={"maxiter": 200},
    )
    return problem.solution(np.exp(found.x), int(found.nfev), bool(found.success))


def restricted_log_likelihood(
    tree: Tree,
    nodes: np.ndarray,
    y: FloatArray,
    ratios: Ratios,
    *,
    covariates: FloatArray | None = None,
    weight: FloatArray | None = None,
) -> float:
    """The exact REML log-likelihood at given ratios, maximised over β, the intercept and σ². O(nodes)."""
    return fit_shrinkage(tree, nodes, y, covariates=covariates, weight=weight, ratios=ratios).log_likelihood


def _moments_of_rows(tree: Tree, nodes: np.ndarray, y: FloatArray, X: FloatArray, w: FloatArray) -> NodeMoments:
    """Sum rows by node, in their order."""
    rows = float(w.sum())
    if rows <= 0:
        raise VpunnError("all sample weights are zero, so there is nothing to fit; give some row a positive weight.")
    columns = np.column_stack([y, X])
    _refuse_extremes(columns[w > 0])
    centre = w @ columns / rows
    columns = columns - centre
    largest = np.abs(columns[w > 0]).max(axis=0)
    unit = np.where(largest > 0, largest, 1.0)  # squares of very large or small units would leave the floats
    spread = unit * np.sqrt(w @ (columns / unit) ** 2 / rows)
    # a column that only rounding keeps from being constant says nothing
    scale = np.where(spread > 1e-12 * np.abs(centre), spread, 0.0)
    columns *= np.divide(1.0, scale, out=np.zeros_like(spread), where=scale > 0)
    weight = np.bincount(nodes, weights=w, minlength=tree.n_nodes)
    total = np.column_stack([np.bincount(nodes, weights=w * column, minlength=tree.n_nodes) for column in columns.T])
    return NodeMoments(rows, centre, scale, weight, total, (columns * w[:, None]).T @ columns)


#: Larger numbers, and differences smaller than its inverse, have squares that leave the floats.
LARGEST = 1e150


def _refuse_extremes(columns: FloatArray) -> None:
    """Refuse numbers that cannot be squared and added."""
    low, high = columns.min(axis=0), columns.max(axis=0)
    largest = float(np.maximum(np.abs(low), np.abs(high)).max())
    if largest > LARGEST:
        raise VpunnError(
            f"y or a covariate holds {largest:.3g}; numbers may be at most {LARGEST:g}: rescale the column."
        )
    spread = high - low
    if ((spread > 0) & (spread < 1 / LARGEST)).any():
        raise VpunnError(
            f"y or a covariate varies by {spread[spread > 0].min():.3g} only; differences below {1 / LARGEST:g} are lost: "
            "rescale the column."
        )


@dataclass(frozen=True)
class _State:
    """One evaluation: everything the likelihood, its gradient and the solution are made of."""

    ratio: FloatArray  # per node, 0 at the root
    precision: FloatArray
    information: FloatArray
    gram: FloatArray  # [y X]' P [y X], P with the intercept projected out
    inverse: FloatArray  # (X' P X)⁺
    beta: FloatArray
    noise: float
    dof: float
    deviance: float  # −2 log REML up to a constant


class _Problem:
    """The likelihood of the ratios, its gradient and the solution, from the moments of the rows."""

    def __init__(self, tree: Tree, moments: NodeMoments, noise: float | None = None) -> None:
        self.tree = tree
        self.rows, self.centre, self.scale = moments.rows, moments.centre, moments.scale
        self.weight, self.total, self.gram = moments.weight, moments.total, moments.gram
        self.constant = self.scale[0] == 0
        self.known = None if noise is None or self.constant else noise / float(self.scale[0]) ** 2

    def evaluate(self, ratios: FloatArray) -> _State:
        """Sweep up once; the rest is small matrices.

        Integrating out node B's difference leaves y'Py smaller by r h²/(1 + rJ) and the determinant larger by 1 + rJ;
        the root, with its flat prior, takes h²/J and J.
        """
        from vpunn.regress import _kernels as kernels

        ratio = by_depth(self.tree, ratios)
        precision, information = kernels.collect(self.tree.parent, ratio, self.weight, self.total)
        taken = ratio / (1.0 + ratio * precision)
        taken[0] = 1.0 / precision[0]
        gram = self.gram - information.T @ (taken[:, None] * information)
        eigenvalues, vectors = np.linalg.eigh(gram[1:, 1:])
        kept = eigenvalues > 1e-10 * self.rows
        vectors, eigenvalues = vectors[:, kept], eigenvalues[kept]
        inverse = (vectors / eigenvalues) @ vectors.T
        beta = inverse @ gram[1:, 0]
        dof = max(self.rows - 1.0 - kept.sum(), 1.0)
        rest = max(float(gram[0, 0] - beta @ gram[1:, 0]), 0.0)
        noise = max(rest / dof, NOISE_FLOOR) if self.known is None else self.known
        deviance = (
            np.log1p(ratio * precision)[1:].sum()
            + np.log(precision[0])
            + np.log(eigenvalues).sum()
            + dof * np.log(noise)
            + rest / noise
        )
        return _State(ratio, precision, information, gram, inverse, beta, noise, dof, float(deviance))

    def objective(self, log_ratios: FloatArray) -> tuple[float, FloatArray]:
        """Deviance plus prior, and its gradient in the log ratios.

        With z_B the indicator of ball B, ∂/∂r_B is z'Pz − (z'Py)²/σ², and the down-sweep holds both: given the parent's
        posterior (mean u, variance V), z'Py = (h − J·u)/(1 + rJ) and z'Pz = a − a²V with a = J/(1 + rJ).
        """
        from vpunn.regress import _kernels as kernels

        state = self.evaluate(np.exp(log_ratios))
        parent, J = self.tree.parent, state.precision[1:]
        mean, variance = kernels.distribute(parent, state.ratio, state.precision, state.information)
        up = parent[1:]
        share = 1.0 / (1.0 + state.ratio[1:] * J)
        q = (state.information[1:] - J[:, None] * mean[up]) * share[:, None]
        a = J * share
        own = a - a * a * variance[up] - np.einsum("ni,ij,nj->n", q[:, 1:], state.inverse, q[:, 1:])
        slope = (own - (q[:, 0] - q[:, 1:] @ state.beta) ** 2 / state.noise) * state.ratio[1:]
        gradient = np.bincount(self.tree.depth[1:], weights=slope, minlength=self.tree.max_depth + 1)[1:]
        prior = log_ratios / PRIOR_SD
        return state.deviance + float(prior @ prior), gradient + 2.0 * prior / PRIOR_SD

    def solution(self, ratios: FloatArray, evaluations: int, converged: bool) -> ShrinkageFit:
        """Sweep up and down at the final ratios and undo the standardisation."""
        from vpunn.regress import _kernels as kernels

        state = self.evaluate(ratios)
        mean, variance = kernels.distribute(self.tree.parent, state.ratio, state.precision, state.information)
        y_scale, x_scale = self.scale[0], self.scale[1:]
        unit = np.divide(1.0, x_scale, out=np.zeros_like(x_scale), where=x_scale > 0)
        noise = state.noise * y_scale**2
        own = variance * noise
        below = _open_variance(self.tree, self.weight, ratios * state.noise)
        ball = self._ball_variance(mean[:, 0] - mean[:, 1:] @ state.beta, variance * state.noise, below)
        beta = state.beta * unit * y_scale
        centres = mean[:, 1:] * x_scale + self.centre[1:]
        values = mean[:, 0] * y_scale + self.centre[0] - centres @ beta
        units = state.dof * np.log(2 * np.pi * y_scale**2) if y_scale > 0 else -np.inf  # a constant y is certain
        likelihood = -0.5 * (state.deviance + units) - float(np.log(x_scale[x_scale > 0]).sum())
        return ShrinkageFit(
            values=values,
            variance=own,
            noise=float(noise),
            ratios=ratios,
            beta=beta,
            beta_covariance=state.inverse * np.outer(unit, unit) * noise,
            centres=centres,
            ball_variance=np.where(self.tree.is_leaf, own, ball * y_scale**2),  # a leaf is a whole name
            open_variance=below * y_scale**2,
            log_likelihood=float(likelihood),
            evaluations=evaluations,
            converged=converged,
        )

    def _ball_variance(self, value: FloatArray, variance: FloatArray, below: FloatArray) -> FloatArray:
        """E(F − value of the ball)² of a row whose path ends at the ball: the mean over the ball's rows, where they stand.

        Rows that ended there bring the variance of its value, rows below also their node's squared distance from it. One row
        more, which goes on as rows of its depth do and to a new child, stands for what no row has shown.
        """
        from vpunn.regress import _kernels as kernels

        tree = self.tree
        squares, rows = kernels.gather(tree.parent, self.weight, value, variance)
        return np.asarray((squares + variance + below[tree.depth]) / (rows + 1.0))


def _open_variance(tree: Tree, weight: FloatArray, steps: FloatArray) -> FloatArray:
    """Per depth 0…K: the variance below a ball without rows, whose path goes on as often as rows' paths do at its depth.

    ``steps`` are the variances of a difference at depth 1…K. Below depths that no row has reached, paths go on to the end.
    """
    reached = np.bincount(tree.depth, weights=weight, minlength=len(steps) + 1)[::-1].cumsum()[::-1]
    goes_on = np.divide(reached[1:], reached[:-1], out=np.ones(len(steps)), where=reached[:-1] > 0)
    below = np.zeros(len(steps) + 1)
    for k in range(len(steps), 0, -1):
        below[k - 1] = goes_on[k - 1] * (steps[k - 1] + below[k])
    return below


def ratios_per_depth(ratios: Ratios, depth: int) -> FloatArray:
    """One ratio for each depth 1…K, from one number or so many."""
    fixed = np.asarray(ratios, dtype=float)
    if fixed.ndim > 1 or (fixed.ndim == 1 and len(fixed) != depth) or not np.all(np.isfinite(fixed) & (fixed >= 0)):
        raise VpunnError(
            f"ratios must be one finite number ≥ 0, or one for each depth 1…{depth}, got {fixed.tolist()}."
        )
    return np.broadcast_to(fixed, depth).astype(float)


@dataclass(frozen=True)
class ClassShrinkage:
    """What `fit_class_shrinkage` found."""

    proba: FloatArray  #: (nodes × classes): distribution of every ball, rows sum to 1
    ratios: FloatArray  #: per depth 1…K, as in `ShrinkageFit`
    left_out: FloatArray  #: (rows × classes): the row's distribution had the row itself been absent
    log_loss: float  #: mean leave-one-out −log p(own class)


def fit_class_shrinkage(
    tree: Tree, nodes: np.ndarray, column: np.ndarray, n_classes: int, weight: FloatArray, ratios: Ratios = None
) -> ClassShrinkage:
    """Shrink class indicators with the ratios that minimise the leave-one-out log loss (given ones are kept).

    All classes share the ratios, so every node's values are convex mixes of indicators: a distribution. Taking a row of
    weight m out of its node of posterior variance V changes p to (p − mV·indicator)/(1 − mV), exactly, so the
    leave-one-out loss costs no more than one fit, O(nodes · classes), and the same sweeps reversed give its gradient.
    One uniform pseudo-row at the root keeps every class possible.
    """
    from vpunn.regress import _kernels as kernels

    mass = np.bincount(nodes, weights=weight, minlength=tree.n_nodes)
    cell = nodes * n_classes + column
    total = np.bincount(cell, weights=weight, minlength=tree.n_nodes * n_classes).reshape(tree.n_nodes, n_classes)
    mass[0] += 1.0
    total[0] += 1.0 / n_classes
    taken = np.minimum(weight, 1.0)
    rows = np.arange(len(nodes))

    def sweep(log_ratios: FloatArray) -> tuple[FloatArray, ...]:
        ratio = by_depth(tree, np.exp(log_ratios))
        found = kernels.collect(tree.parent, ratio, mass, total)
        return ratio, *found, *kernels.distribute(tree.parent, ratio, *found)

    def loss(log_ratios: FloatArray) -> tuple[float, FloatArray]:
        ratio, precision, information, proba, variance = sweep(log_ratios)
        own = taken * variance[nodes]
        left = np.maximum(proba[nodes, column] - own, 1e-12)
        pull = np.where(left > 1e-12, weight / left, 0.0)
        by_proba = np.bincount(cell, weights=-pull, minlength=total.size).reshape(total.shape)
        by_variance = np.bincount(nodes, weights=taken * (pull - weight / (1.0 - own)), minlength=tree.n_nodes)
        slope = kernels.ratio_gradient(
            tree.parent, ratio, precision, information, proba, variance, by_proba, by_variance
        )
        gradient = np.bincount(tree.depth, weights=slope * ratio, minlength=tree.max_depth + 1)[1:]
        prior = log_ratios / PRIOR_SD
        value = float(weight @ (np.log1p(-own) - np.log(left)))
        return value + 0.5 * float(prior @ prior), gradient + prior / PRIOR_SD

    if ratios is not None:
        best = np.log(np.maximum(ratios_per_depth(ratios, tree.max_depth), 1e-300))
    elif tree.max_depth == 0 or n_classes == 1:
        best = np.zeros(tree.max_depth)
    else:
        from scipy.optimize import minimize

        limits = [(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)] * tree.max_depth
        best = minimize(loss, np.zeros(tree.max_depth), jac=True, method="L-BFGS-B", bounds=limits).x
    *_, proba, variance = sweep(best)
    proba /= proba.sum(axis=1, keepdims=True)
    own = taken * variance[nodes]
    left_out = proba[nodes].copy()
    left_out[rows, column] -= own
    left_out = np.maximum(left_out / (1.0 - own)[:, None], 1e-12)
    left_out /= left_out.sum(axis=1, keepdims=True)
    mean_loss = -float(weight @ np.log(left_out[rows, column])) / float(weight.sum())
    return ClassShrinkage(proba, np.exp(best), left_out, mean_loss)
