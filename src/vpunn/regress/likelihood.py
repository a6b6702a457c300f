"""The likelihood of numbers that evolve along branches, exactly by pruning, O(nodes) each; and the parameters that are most likely.

    y_i = x_i·β + z(tip of i) + e_i,      z(node) = keep · z(parent) + N(0, σ²·step(node)),

with ``keep`` and ``step`` from `variances`. The intercept is one of the β, so that the restricted likelihood (REML) and generalised
least squares over a phylogeny (PGLS) are one solution.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpunn.errors import VpunnError
from vpunn.regress.variances import FREE, Branches, Steps

FloatArray = np.ndarray

#: Variance of a contrast, in units of the tree's height, below which two sayings count as one.
LEAST = 1e-13
#: Range in which each parameter is sought, in units of the tree's height; α ends where a hundredth of it forgets half.
RANGES = {"lambda": (0.0, 1.0), "alpha": (1e-4, 70.0), "kappa": (0.0, 3.0), "noise": (1e-8, 1e4), "rate": (1e-8, 1e8)}
#: Those sought on the scale of logarithms.
LOGARITHMIC = ("alpha", "noise", "rate")
_SHARES = [0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.96, 0.99, 1.0]


@dataclass(frozen=True)
class Rows:
    """Rows on a tree in standard units: columns are the target, ones, and covariates."""

    branches: Branches
    at: np.ndarray
    columns: FloatArray
    weight: FloatArray
    error: FloatArray | None  #: variance of each measurement, in squared standard units of the target
    centre: FloatArray
    scale: FloatArray  #: of the target and the covariates; 0 for one that is constant
    repeated: bool  #: whether rows have a noise of their own, which a node's own difference can be told from

    @classmethod
    def of(
        cls,
        branches: Branches,
        nodes: np.ndarray,
        y: FloatArray,
        X: FloatArray,
        weight: FloatArray,
        error: FloatArray | None,
        repeated: bool | None = None,
    ) -> Rows:
        """``repeated`` None: where a node has several measurements."""
        used = np.flatnonzero(weight > 0)
        if not len(used):
            raise VpunnError(
                "all sample weights are zero, so there is nothing to fit; give some row a positive weight."
            )
        used = used[np.argsort(nodes[used], kind="stable")]
        table, w = np.column_stack([y, X])[used], weight[used]
        centre = w @ table / w.sum()
        table = table - centre
        scale = np.sqrt(w @ table**2 / w.sum())
        scale = np.where(scale > 1e-12 * np.abs(centre), scale, 0.0)
        table = table * np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        columns = np.column_stack([table[:, 0], np.ones(len(used)), table[:, 1:]])
        known = None if error is None else (error[used] / (scale[0] or 1.0)) ** 2
        at = nodes[used]
        if repeated is None:
            repeated = bool((at[1:] == at[:-1]).any() or (w != 1).any())
        return cls(branches, at, np.ascontiguousarray(columns), w, known, centre, scale, repeated)


@dataclass(frozen=True)
class State:
    steps: Steps
    means: FloatArray
    gaps: FloatArray
    inverse: FloatArray
    beta: FloatArray
    rate: float
    dof: float
    deviance: float  # −2 log likelihood
    clashes: int


def evaluate(rows: Rows, model: str, parameters: Mapping[str, float], *, restricted: bool = True) -> State:
    """The likelihood at given parameters (in units of `Branches`): one sweep up, then small matrices.

    Without ``rate`` among the parameters the rate is the one that is most likely, in closed form.
    """
    from vpunn.regress import _pruning_kernels as kernels

    steps = rows.branches.along(model, parameters)
    nu, w = parameters.get("noise", 0.0), rows.weight
    if rows.repeated:  # what is a tip's own is shared by its rows
        steps = Steps(
            steps.keep, np.where(rows.branches.tree.is_leaf, steps.step + steps.own, steps.step), 0.0 * steps.own
        )
    noise = nu / w + steps.own[rows.at]
    step, rate = steps.step, parameters.get("rate")
    if rate is not None:
        step, noise = step * rate, noise * rate
        if rows.error is not None:
            noise = noise + rows.error / w
    means, gaps, gram, log_det, clashes = kernels.prune(
        rows.branches.tree.parent, steps.keep, step, rows.at, rows.columns, noise, LEAST * (rate or 1.0)
    )
    if rows.repeated and nu > 0:
        log_det += float(((w - 1) * np.log(nu * (rate or 1.0)) + np.log(w)).sum())
    eigenvalues, vectors = np.linalg.eigh(gram[1:, 1:])
    kept = eigenvalues > 1e-12 * eigenvalues.max()
    vectors, eigenvalues = vectors[:, kept], eigenvalues[kept]
    inverse = (vectors / eigenvalues) @ vectors.T
    beta = inverse @ gram[1:, 0]
    count = float(w.sum())
    dof = count - kept.sum() if restricted else count
    rest = max(float(gram[0, 0] - beta @ gram[1:, 0]), 0.0)
    if rate is None:
        found = max(rest / max(dof, 1.0), 1e-300)
        deviance = dof * np.log(found) + dof
    else:
        found, deviance = rate, rest
    deviance += log_det + dof * np.log(2 * np.pi)
    if restricted:
        deviance += np.log(eigenvalues).sum()
    return State(steps, means, gaps, inverse, beta, found, dof, float(deviance), int(clashes))


def log_likelihood(rows: Rows, state: State, *, restricted: bool = True) -> float:
    """In the units of the data."""
    if rows.scale[0] == 0:
        return float("inf")
    units = state.dof * np.log(rows.scale[0] ** 2)
    x = rows.scale[1:]
    return float(-0.5 * (state.deviance + units) - (np.log(x[x > 0]).sum() if restricted else 0.0))


def search(rows: Rows, model: str, fixed: Mapping[str, float], *, restricted: bool = True) -> dict[str, float]:
    """The most likely parameters of a model, in units of `Branches`; those that are ``fixed`` stay."""
    names = [name for name in FREE[model] if name not in fixed]
    if rows.repeated and "noise" not in fixed:
        names.append("noise")
    if rows.error is not None:
        names.append("rate")
    start = dict(fixed)
    if rows.scale[0] == 0 or rows.weight.sum() < rows.columns.shape[1] + 1:  # nothing to learn variances from
        return start | {name: {"lambda": 1.0, "kappa": 1.0, "rate": 1.0}.get(name, 1e-3) for name in names}
    return _minimum(rows, model, start, names, restricted)[1]


def _minimum(
    rows: Rows, model: str, fixed: dict[str, float], names: list[str], restricted: bool
) -> tuple[float, dict[str, float]]:
    """Least deviance, by a grid and then Brent (one parameter) or Nelder and Mead (several, and each edge of λ)."""
    from itertools import product

    from scipy.optimize import minimize, minimize_scalar

    ends = {name: _range(rows, name) for name in names}

    def at(point: Iterable[float]) -> dict[str, float]:
        found = {name: float(np.clip(u, *ends[name])) for name, u in zip(names, point, strict=True)}
        return fixed | {name: float(np.exp(u)) if name in LOGARITHMIC else u for name, u in found.items()}

    def loss(point: Any) -> float:
        value = evaluate(rows, model, at(np.atleast_1d(point)), restricted=restricted).deviance
        return value if np.isfinite(value) else 1e300

    if not names:
        return loss([]), fixed
    count = {1: 9, 2: 5}.get(len(names), 4)
    grids = [np.linspace(*ends[name], count) for name in names]
    for j, name in enumerate(names):
        if name == "lambda":  # signal is often strong, and the likelihood changes fastest near 1
            grids[j] = np.array([0.0, 0.5, 0.9, 0.99, 1.0][: max(count, 4)] if count < 9 else _SHARES)
    scores = {point: loss(point) for point in product(*grids)}
    best = min(scores, key=lambda point: scores[point])
    if len(names) == 1:
        place = int(np.flatnonzero(grids[0] == best[0])[0])
        low, high = grids[0][max(place - 1, 0)], grids[0][min(place + 1, len(grids[0]) - 1)]
        found = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-7})
        return (float(found.fun), at([found.x])) if found.fun < scores[best] else (scores[best], at(best))
    side = np.array([0.1 * (ends[name][1] - ends[name][0]) for name in names])
    top = np.array([ends[name][1] for name in names])
    corners = np.where(np.array(best) + side <= top, side, -side)
    simplex = np.array(best) + np.vstack([np.zeros(len(names)), np.diag(corners)])
    options = {"initial_simplex": simplex, "xatol": 1e-6, "fatol": 1e-8, "maxiter": 400}
    found = minimize(loss, best, method="Nelder-Mead", options=options)
    result = (float(found.fun), at(found.x))
    if "lambda" in names:  # its most likely value is often an end
        rest = [name for name in names if name != "lambda"]
        edge = _minimum(rows, model, fixed | {"lambda": 1.0}, rest, restricted)
        result = min(result, edge, key=lambda pair: pair[0])
    return result


def _range(rows: Rows, name: str) -> tuple[float, float]:
    low, high = RANGES[name]
    if name == "alpha":
        high /= rows.branches.longest
    return (float(np.log(low)), float(np.log(high))) if name in LOGARITHMIC else (low, high)
