"""What biologists ask of a fitted regressor: states of ancestors, independent contrasts, phylogenetic signal, coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import VpunnError, counted, examples
from vpunn.regress.evolution import EvolutionFit
from vpunn.regress.likelihood import Rows, evaluate, log_likelihood, search
from vpunn.regress.variances import Branches, branch_lengths
from vpunn.tree import Tree

if TYPE_CHECKING:
    import pandas as pd

    from vpunn.regress.regressor import VPuNNRegressor

FloatArray = np.ndarray


@dataclass(frozen=True)
class Signal:
    """How much relatives resemble each other; ``str()`` is one paragraph."""

    lambda_: float  #: Pagel's λ, most likely (not restricted)
    log_likelihood: float  #: there
    log_likelihood_0: float  #: without signal
    lambda_p: float  #: likelihood-ratio test of λ = 0, χ² with one degree
    k: float  #: Blomberg's K: 1 under Brownian motion
    k_p: float  #: share of permutations of the tips with at least this K
    tips: int
    permutations: int

    @property
    def verdict(self) -> str:
        """One sentence."""
        has = "resemble" if self.lambda_p < 0.05 else "cannot be shown to resemble"
        tests = f"λ = {self.lambda_:.3f} (p = {self.lambda_p:.2g}), K = {self.k:.3f} (p = {self.k_p:.2g})"
        return f"Relatives {has} each other: {tests}."

    def __str__(self) -> str:
        return f"{self.verdict} {counted(self.tips, 'tip')}, {counted(self.permutations, 'permutation')}."


def states(model: VPuNNRegressor, target: int, level: float) -> pd.DataFrame:
    """States of inner nodes with intervals of ``level``."""
    import pandas as pd
    from scipy.stats import norm

    from vpunn._sklearn import check_is_fitted

    check_is_fitted(model)
    fit, tree = _fit_of(model, target), model.tree_
    if not 0 < level < 1:
        raise VpunnError(f"level is a share between 0 and 1, such as 0.95; got {level!r}.")
    inner = np.flatnonzero(~np.asarray(tree.is_leaf))
    variance = fit.state_variance(inner) if isinstance(fit, EvolutionFit) else fit.variance[inner]
    mean, sd = fit.values[inner], np.sqrt(variance)
    half = norm.ppf(0.5 + level / 2) * sd
    return pd.DataFrame(
        {
            "node": inner,
            "label": tree.labels[inner],
            "depth": tree.depth[inner],
            "mean": mean,
            "sd": sd,
            "low": mean - half,
            "high": mean + half,
        }
    )


def coefficient_table(model: VPuNNRegressor, target: int) -> pd.DataFrame:
    """Name, estimate, standard error, t and p of the intercept and the covariates."""
    import pandas as pd
    from scipy.stats import t as student

    from vpunn._sklearn import check_is_fitted

    check_is_fitted(model)
    fit = _fit_of(model, target)
    names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)])
    names = [str(names[j]) for j in model._covariate_columns]
    if isinstance(fit, EvolutionFit):
        names, beta, covariance, dof = ["(intercept)", *names], fit.beta, fit.beta_covariance, fit.dof
    else:
        beta, covariance = fit.beta, fit.beta_covariance
        dof = max(len(model._training[0]) - 1 - len(beta), 1) if hasattr(model, "_training") else np.inf
    error = np.sqrt(np.diag(covariance))
    t = np.divide(beta, error, out=np.full(len(beta), np.nan), where=error > 0)
    p = 2 * student.sf(np.abs(t), dof)
    return pd.DataFrame(
        {"estimate": beta, "standard error": error, "t": t, "p": p}, index=pd.Index(names, name="coefficient")
    )


def _fit_of(model: VPuNNRegressor, target: int) -> Any:
    if not 0 <= target < len(model._fits):
        raise VpunnError(f"target {target} is no column of y, which has {len(model._fits)}.")
    return model._fits[target]


def contrasts(tree: Tree, nodes: np.ndarray, y: FloatArray, *, lengths: Any = None) -> pd.DataFrame:
    """Independent contrasts of values at tips: one for every join, (one side − the other)/√variance, as `ape::pic` has them.

    The sign is that of the first side less the second, in the order of children. A node of k sides with data has k − 1 contrasts.
    O(nodes).
    """
    import pandas as pd

    from vpunn.regress import _pruning_kernels as kernels

    length = branch_lengths(tree, lengths)
    at, values = tip_means(nodes, y)
    node, child, difference, variance = kernels.contrasts(tree.parent, length, at, values)
    zero = (variance == 0) & (difference != 0)
    if zero.any():
        raise VpunnError(
            f"{counted(int(zero.sum()), 'join')} of sides at distance 0 ({examples(tree.labels[node[zero]], limit=3)}) "
            "has an infinite contrast; pass lengths={'zero': 'tiny'}."
        )
    scaled = np.divide(difference, np.sqrt(variance), out=np.zeros_like(difference), where=variance > 0)
    order = np.argsort(node, kind="stable")
    table = {
        "node": node,
        "label": tree.labels[node],
        "child": tree.labels[child],
        "contrast": scaled,
        "variance": variance,
    }
    return pd.DataFrame({name: column[order] for name, column in table.items()})


def tip_means(nodes: np.ndarray, y: FloatArray) -> tuple[np.ndarray, FloatArray]:
    """One value a node: the mean of its rows."""
    at, place = np.unique(nodes, return_inverse=True)
    return at, np.bincount(place, weights=y) / np.bincount(place)


def signal(
    tree: Tree, nodes: np.ndarray, y: FloatArray, *, lengths: Any = None, permutations: int = 999, random_state: int = 0
) -> Signal:
    """Pagel's λ by maximum likelihood with its test, and Blomberg's K with permutations, as `phytools` has them."""
    from scipy.stats import chi2

    branches = Branches.of(tree, lengths)
    at, values = tip_means(nodes, y)
    n = len(at)
    if n < 3 or values.std() == 0:
        raise VpunnError(
            f"phylogenetic signal needs at least 3 tips with different values, got {n} with {len(set(values))}."
        )
    rows = Rows.of(branches, at, values, np.zeros((n, 0)), np.ones(n), None)
    found = search(rows, "lambda", {}, restricted=False)
    best, none = (
        log_likelihood(rows, evaluate(rows, "lambda", share, restricted=False), restricted=False)
        for share in (found, {"lambda": 0.0})
    )
    ratio = max(2 * (best - none), 0.0)
    random = np.random.default_rng(random_state)
    k = _blomberg(rows, rows.columns[:, 0])
    chance = sum(_blomberg(rows, random.permutation(rows.columns[:, 0])) >= k for _ in range(permutations))
    k_p = (chance + 1) / (permutations + 1)
    return Signal(found["lambda"], best, none, float(chi2.sf(ratio, 1)), k, float(k_p), n, permutations)


def _blomberg(rows: Rows, y: FloatArray) -> float:
    """K: observed over expected ratio of the mean squares around the root's state, without and with the tree."""
    from vpunn.regress import _pruning_kernels as kernels

    branches, n = rows.branches, len(y)
    columns = np.column_stack([y, np.ones(n)])
    ones = np.ones(branches.tree.n_nodes)
    _, _, gram, _, _ = kernels.prune(branches.tree.parent, ones, branches.length, rows.at, columns, np.zeros(n), 1e-13)
    root = gram[0, 1] / gram[1, 1]
    with_tree = gram[0, 0] - root * gram[0, 1]
    expected = (branches.height[rows.at].sum() - n / gram[1, 1]) / (n - 1)
    return float(((y - root) ** 2).sum() / with_tree / expected)
