"""Honest marginals: a repair by depth, and the threshold of conformal risk control."""

from __future__ import annotations

import numpy as np

from vpunn.errors import VpunnError

#: A repair of few rows stays near the identity: this many squared units of slope and shift cost one nat.
TRUST = 5.0
#: Depths from here on share one repair.
DEPTHS = 8


def fit_repair(p: np.ndarray, truth: np.ndarray, group: np.ndarray, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """For each group the (slope, shift) on log-odds that makes probabilities honest: logistic regression, shrunk to (1, 0)."""
    slope, shift = np.ones(groups), np.zeros(groups)
    x = np.clip(p.astype(np.float64), 1e-6, 1 - 1e-6)
    x = np.log(x / (1 - x))
    for g in np.unique(group).tolist():
        z, y, found = x[group == g], truth[group == g].astype(np.float64), np.array([1.0, 0.0])
        for _ in range(12):
            q = 1.0 / (1.0 + np.exp(-(found[0] * z + found[1])))
            pull = TRUST * (found - np.array([1.0, 0.0]))
            gradient = np.array([(q - y) @ z, (q - y).sum()]) + pull
            w = q * (1 - q)
            hessian = np.array([[w @ (z * z), w @ z], [w @ z, w.sum()]]) + TRUST * np.eye(2)
            found = found - np.linalg.solve(hessian, gradient)
            found[0] = np.clip(found[0], 0.2, 5.0)  # log-odds keep their order
        slope[g], shift[g] = found
    return slope, shift


def risk_threshold(p: np.ndarray, weight: np.ndarray, rows: int, alpha: float) -> float:
    """The largest threshold t with n/(n+1) · R(t) + 1/(n+1) ≤ α, where R(t) is the mean share of true nodes with p < t.

    Conformal risk control: for exchangeable rows the expected share of true nodes that ``p ≥ t`` leaves out is at most α,
    whatever the quality of the probabilities. 0 (answer everything) when there are too few rows for this α.

    >>> risk_threshold(np.array([0.1, 0.9, 0.8, 0.7]), np.array([0.5, 0.5, 1.0, 1.0]), 3, 0.4)
    0.7
    """
    if not isinstance(alpha, int | float | np.integer | np.floating) or not 0 < alpha < 1:
        raise VpunnError(f"alpha is the accepted share of missed answers, a number between 0 and 1; got {alpha!r}.")
    budget = alpha * (rows + 1) - 1.0  # of missed weight, of which there is ``rows`` in all
    if budget < 0 or not len(p):
        return 0.0
    order = np.argsort(p, kind="stable")
    missed = np.cumsum(weight[order])
    at = int(np.searchsorted(missed, budget + 1e-9, side="right"))
    return float(p[order[at]]) if at < len(p) else 1.0
