"""Numbers that evolve along the branches of a tree: exact likelihoods by pruning, O(nodes) each.

    y_i = x_i·β + z(tip of i) + e_i,      z(node) = keep · z(parent) + N(0, σ²·step(node)),

with ``keep`` and ``step`` from `variances`. The intercept is one of the β, so that the restricted likelihood (REML) and generalised
least squares over a phylogeny (PGLS) are one solution. Two sweeps: up for the likelihood, down for every node's state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpunn.errors import VpunnError, advice, counted, examples
from vpunn.regress.variances import FREE, Branches, Steps
from vpunn.tree import Tree

FloatArray = np.ndarray

_TINY = "pass lengths={'zero': 'tiny'}"
#: Variance of a contrast, in units of the tree's height, below which two sayings count as one.
LEAST = 1e-13
#: Range in which each parameter is sought, in units of the tree's height; α ends where a hundredth of it forgets half.
RANGES = {"lambda": (0.0, 1.0), "alpha": (1e-4, 70.0), "kappa": (0.0, 3.0), "noise": (1e-8, 1e4), "rate": (1e-8, 1e8)}
#: Those sought on the scale of logarithms.
LOGARITHMIC = ("alpha", "noise", "rate")
_SHARES = [0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.96, 0.99, 1.0]


#: Arrays of an `EvolutionFit`, with what a saved one may hold.
EVOLUTION_ARRAYS: dict[str, dict[str, Any]] = {
    **{name: {"low": -1e150, "high": 1e150} for name in ("values", "centres", "beta", "beta_covariance")},
    **{name: {"low": 0, "high": 1e300} for name in ("variance", "own", "below")},
}


@dataclass(frozen=True)
class EvolutionFit:
    """What `fit_evolution` found, for one target."""

    model: str
    parameters: dict[str, float]  #: in the units of the tree; ``rate`` is σ² per unit of length
    values: FloatArray  #: per node: its state with the covariates at 0
    variance: FloatArray  #: per node: of its state, for known β
    own: FloatArray  #: per node: variance of one more measurement there
    below: FloatArray  #: per node: variance of a new tip below it, around it
    centres: FloatArray  #: per node: what the intercept's and the covariates' columns are measured against
    beta: FloatArray  #: intercept first
    beta_covariance: FloatArray
    log_likelihood: float  #: restricted
    dof: float  #: rows less coefficients
    n_parameters: int  #: variances found by likelihood

    @property
    def slopes(self) -> FloatArray:
        """Coefficients of the covariates."""
        return np.asarray(self.beta[1:])

    @property
    def noise(self) -> float:
        """Variance of a measurement at a tip, on average: what does not follow the branches."""
        return float(self.own.mean())

    def facts(self) -> dict[str, Any]:
        """What is no array, for a saved model."""
        names = ("model", "parameters", "log_likelihood", "dof", "n_parameters")
        found = {name: getattr(self, name) for name in names}
        found["log_likelihood"] = written(self.log_likelihood)
        return found

    @classmethod
    def of_facts(cls, facts: dict[str, Any], arrays: dict[str, Any]) -> EvolutionFit:
        """The opposite of `facts`, checked."""
        facts = facts | {"log_likelihood": read_number(facts.get("log_likelihood"))}
        numbers = [facts["log_likelihood"], facts.get("dof"), *dict(facts.get("parameters", {})).values()]
        if facts.get("model") not in FREE or not all(isinstance(value, int | float) for value in numbers):
            raise VpunnError(f"there is no model {facts.get('model')!r} with {numbers!r}.")
        return cls(**arrays, **facts)

    def predict(self, nodes: np.ndarray, covariates: FloatArray | None = None) -> FloatArray:
        """Mean for rows at ``nodes``."""
        mean = self.values[nodes]
        return np.asarray(mean if covariates is None else mean + covariates @ self.beta[1:])

    def predictive_variance(
        self, tree: Tree, nodes: np.ndarray, depths: np.ndarray | None = None, covariates: FloatArray | None = None
    ) -> FloatArray:
        """Variance of a new observation: at its tip, or, where the path ends at an inner node, at a new tip below it."""
        more = self.own[nodes]
        if depths is not None:
            more = np.where(tree.is_leaf[nodes], more, self.below[nodes])
        return np.asarray(self.state_variance(nodes, covariates) + more)

    def state_variance(self, nodes: np.ndarray, covariates: FloatArray | None = None) -> FloatArray:
        """Variance of the value at nodes, β's uncertainty in it."""
        x = np.zeros((len(nodes), len(self.beta)))
        x[:, 0] = 1.0
        if covariates is not None:
            x[:, 1:] = covariates
        away = x - self.centres[nodes]
        return np.asarray(self.variance[nodes] + np.einsum("ij,jk,ik->i", away, self.beta_covariance, away))

    def coefficients(self, tree: Tree) -> FloatArray:
        """c_B of every branch: differences to the parent."""
        return np.append(self.values[:1], self.values[1:] - self.values[tree.parent[1:]])


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
class _State:
    steps: Steps
    means: FloatArray
    gaps: FloatArray
    inverse: FloatArray
    beta: FloatArray
    rate: float
    dof: float
    deviance: float  # −2 log likelihood
    clashes: int


def evaluate(rows: Rows, model: str, parameters: Mapping[str, float], *, restricted: bool = True) -> _State:
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
    return _State(steps, means, gaps, inverse, beta, found, dof, float(deviance), int(clashes))


def log_likelihood(rows: Rows, state: _State, *, restricted: bool = True) -> float:
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


def solution(rows: Rows, model: str, parameters: dict[str, float]) -> EvolutionFit:
    """Sweep up and down at the final parameters and undo the units."""
    from vpunn.regress import _pruning_kernels as kernels

    tree, branches = rows.branches.tree, rows.branches
    state = evaluate(rows, model, parameters)
    if state.clashes and rows.scale[0] > 0:
        raise VpunnError(
            f"{counted(state.clashes, 'pair')} of species at distance 0 have different values, which a model without noise cannot "
            f"have; {advice('evolution', 'lambda')}, or {advice('lengths', 'zero=tiny', _TINY)}."
        )
    y_scale, x_scale = rows.scale[0], rows.scale[1:]
    rate, steps = state.rate * y_scale**2, state.steps
    scaled = state.rate if "rate" in parameters else 1.0  # gaps are in units of the rate, unless it was given
    means, gaps = state.means.copy(), state.gaps.copy()
    kernels.spread(tree.parent, steps.keep, steps.step * scaled, means, gaps)
    variance = gaps / scaled * rate
    unit = np.divide(1.0, x_scale, out=np.zeros_like(x_scale), where=x_scale > 0)
    # standardised: y' = b0 + x'·b; in the data's units the intercept is where the covariates are 0, not at their means
    change = np.zeros((len(state.beta), len(state.beta)))
    change[0, 0] = 1.0
    change[1:, 1:] = np.diag(unit)
    change[0, 1:] = -rows.centre[1:] * unit
    beta = change @ state.beta * y_scale
    beta[0] += rows.centre[0]
    covariance = change @ state.inverse @ change.T * y_scale**2 * (1.0 if "rate" in parameters else state.rate)
    ones = means[:, 1]
    centres = np.column_stack([ones, means[:, 2:] * x_scale + ones[:, None] * rows.centre[1:]])
    values = means[:, 0] * y_scale + ones * rows.centre[0] + beta[0] - centres @ beta
    nu = parameters.get("noise", 0.0)
    own = (steps.own + nu) * rate
    below = (
        _semivariance(branches, model, parameters) + kernels.means_below(tree.parent, tree.is_leaf, steps.own) + nu
    ) * rate
    if rows.repeated:
        extra = branches.along(model, parameters).own
        below = below + kernels.means_below(tree.parent, tree.is_leaf, extra) * rate
    raw = {name: value for name, value in parameters.items() if name not in ("rate", "noise")}
    raw["rate"] = float(rate) / branches.unit ** (parameters["kappa"] if model == "kappa" else 1.0)
    if "alpha" in raw:
        raw["alpha"] /= branches.unit
    if nu:
        raw["noise"] = nu * rate
    return EvolutionFit(
        model=model,
        parameters=raw,
        values=values,
        variance=variance,
        own=own,
        below=below,
        centres=centres,
        beta=beta,
        beta_covariance=covariance,
        log_likelihood=log_likelihood(rows, state),
        dof=float(state.dof),
        n_parameters=1 + len(FREE[model]) + (nu > 0),
    )


def _semivariance(branches: Branches, model: str, parameters: Mapping[str, float]) -> FloatArray:
    """Variance between a node and a tip at the mean distance of those below it, for a rate of 1."""
    from vpunn.regress import _pruning_kernels as kernels

    tree = branches.tree
    share = parameters.get("lambda", 1.0)
    if model == "kappa":
        height = kernels.path_sums(
            tree.parent, np.where(branches.length > 0, branches.length ** parameters["kappa"], 0.0)
        )
    else:
        height = branches.height
    away = kernels.means_below(tree.parent, tree.is_leaf, height) - height
    if model == "ou":
        return np.asarray(share * -np.expm1(-parameters["alpha"] * away) / parameters["alpha"])
    return np.asarray(share * away)


def scaled(parameters: Mapping[str, float], branches: Branches) -> dict[str, float]:
    """Parameters of a user, in units of the tree, in those of `Branches`."""
    known = {"lambda", "alpha", "kappa"}
    if not isinstance(parameters, Mapping):
        raise VpunnError(f"parameters must be a dict, such as {{'lambda': 0.5}}, got {parameters!r}.")
    out = {}
    for name, value in parameters.items():
        if name not in known or not isinstance(value, int | float) or not np.isfinite(value):
            raise VpunnError(f"parameters hold numbers for {examples(sorted(known))}; got {name!r}: {value!r}.")
        out[name] = float(value) * (branches.unit if name == "alpha" else 1.0)
    alpha = out.get("alpha", 1.0)
    if not (0 <= out.get("lambda", 1.0) <= 1 and 0 <= out.get("kappa", 1.0) <= 100 and 1e-12 <= alpha <= 1e12):
        raise VpunnError(
            "λ lies between 0 and 1, κ between 0 and 100, and α between 1e-12 and 1e12 over the mean height of the tips; got "
            f"{dict(parameters)}."
        )
    return out


def written(value: Any) -> Any:
    """A number as JSON has it, which has none that is infinite, as the likelihood of a constant trait is."""
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def read_number(value: Any) -> Any:
    """The opposite of `written`."""
    return float(value) if value in ("inf", "-inf", "nan") else value


def candidate(model: str, log_likelihood: float, parameters: int) -> dict[str, Any]:
    """A row of the table that "auto" chooses from."""
    aic = 2 * parameters - 2 * log_likelihood
    return {"model": model, "log likelihood": float(log_likelihood), "parameters": parameters, "AIC": float(aic)}


def fit_evolution(
    branches: Branches,
    nodes: np.ndarray,
    y: FloatArray,
    *,
    model: str,
    covariates: FloatArray | None = None,
    weight: FloatArray | None = None,
    error: FloatArray | None = None,
    parameters: Mapping[str, float] | None = None,
    repeated: bool | None = None,
) -> tuple[EvolutionFit, list[dict[str, Any]]]:
    """Fit one target of rows at ``nodes`` under one of the models of `variances.FREE`, or the best of them (``"auto"``).

    The second answer is the table of the models that ``auto`` compared.

    ``auto`` takes the model of the least AIC (restricted likelihood, two for each parameter found).
    """
    n = len(y)
    X = np.zeros((n, 0)) if covariates is None else covariates
    rows = Rows.of(branches, nodes, y, X, np.ones(n) if weight is None else weight, error, repeated)
    fixed = scaled(parameters or {}, branches)
    if model != "auto":
        return solution(rows, model, search(rows, model, fixed)), []
    fits: dict[str, dict[str, float]] = {}
    table: list[dict[str, Any]] = []
    for name in FREE:
        found = search(rows, name, {key: value for key, value in fixed.items() if key in FREE[name]})
        state = evaluate(rows, name, found)
        if state.clashes and name == "brownian":
            continue
        likelihood = log_likelihood(rows, state)
        count = 1 + len(found)
        fits[name] = found
        table.append(candidate(name, likelihood, count))
    best = min(table, key=lambda row: (row["AIC"], row["parameters"]))
    return solution(rows, best["model"], fits[best["model"]]), table


def solve_evolution(
    branches: Branches,
    nodes: np.ndarray,
    y: FloatArray,
    weight: FloatArray,
    model: str,
    parameters: Mapping[str, float],
) -> EvolutionFit:
    """The states at known parameters, those of an `EvolutionFit` with ``rate`` and ``noise``: nothing is sought."""
    rows = Rows.of(branches, nodes, y, np.zeros((len(y), 0)), weight, None, True)
    told = {name: value for name, value in parameters.items() if name not in ("rate", "noise")}
    rate = parameters["rate"] * branches.unit ** (parameters["kappa"] if model == "kappa" else 1.0)
    known = scaled(told, branches) | {"noise": parameters["noise"] / rate, "rate": rate / (rows.scale[0] or 1.0) ** 2}
    return solution(rows, model, known)
