"""Numbers that evolve along the branches of a tree: every node's state, at the parameters that are most likely.

Two sweeps: up for the likelihood (`likelihood`), down for the states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpunn.errors import VpunnError, advice, counted, examples
from vpunn.regress.likelihood import Rows, evaluate, log_likelihood, search
from vpunn.regress.shrinkage import check_covariance
from vpunn.regress.variances import FREE, Branches
from vpunn.store import Draft, Storable, Stored
from vpunn.tree import Tree

FloatArray = np.ndarray

_TINY = "pass lengths={'zero': 'tiny'}"


@dataclass(frozen=True)
class EvolutionFit(Storable):
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

    def _to_store(self, draft: Draft) -> None:
        for name in ("values", "variance", "own", "below", "centres", "beta", "beta_covariance"):
            draft.array(name, getattr(self, name), balls=not name.startswith("beta"))
        for name in ("model", "parameters", "log_likelihood", "dof", "n_parameters"):
            draft.settings[name] = written(getattr(self, name))

    @classmethod
    def _from_store(cls, stored: Stored) -> EvolutionFit:
        n, c = stored.array("centres", dtype="f8", shape=(None, None)).shape
        shapes = {"centres": (n, c), "beta": (c,), "beta_covariance": (c, c)}
        one: dict[str, Any] = {
            name: stored.array(name, dtype="f8", shape=shapes.get(name, (n,)), low=-1e150, high=1e150)
            for name in ("values", "centres", "beta", "beta_covariance")
        }
        one |= {
            name: stored.array(name, dtype="f8", shape=(n,), low=0, high=1e300) for name in ("variance", "own", "below")
        }
        one["log_likelihood"] = read_number(stored.setting("log_likelihood", (int, float, str)))
        one |= {name: stored.setting(name, (int, float)) for name in ("dof", "n_parameters")}
        one |= {"model": stored.setting("model", str), "parameters": stored.setting("parameters", dict)}
        check_covariance(one["beta_covariance"])
        numbers = [one["log_likelihood"], *one["parameters"].values()]
        if one["model"] not in FREE or not all(isinstance(value, int | float) for value in numbers):
            raise VpunnError(f"there is no model {one['model']!r} with {numbers!r}.")
        return cls(**one)

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
