"""Softmax regression of few classes on dense rows: convex, by L-BFGS, with the penalty chosen on rows set aside."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

#: Penalties tried, from strong to weak, each started from the last; per row and squared weight.
PENALTIES = (1e-1, 1e-2, 1e-3, 1e-4)
#: Share of the rows set aside to choose one.
ASIDE = 0.2


def fit_logistic(
    X: npt.NDArray[Any], y: npt.NDArray[Any], weight: npt.NDArray[Any], n_classes: int, penalty: float | None = None
) -> tuple[npt.NDArray[np.float32], float]:
    """Weights (columns + 1, classes), bias last, and their ``penalty``, chosen unless it is given. Rows are set aside for that by
    their position: every fifth."""
    X = np.asarray(X, np.float32)  # steps are chosen in 64 bits; what they are chosen by need not be
    aside = np.arange(len(X)) % round(1 / ASIDE) == 0
    start = np.zeros((X.shape[1] + 1, n_classes))
    best, chosen, kept = np.inf, penalty or PENALTIES[0], start
    if penalty is None and aside.any() and not aside.all():
        for tried in PENALTIES:
            start = _minimise(X[~aside], y[~aside], weight[~aside], tried, start)
            loss = _loss(X[aside], y[aside], weight[aside], 0.0, start)[0]
            if loss < best:
                best, chosen, kept = loss, tried, start
            elif loss > 1.05 * best:
                break
    return _minimise(X, y, weight, chosen, kept).astype(np.float32), chosen


def _loss(
    X: npt.NDArray[Any], y: npt.NDArray[Any], weight: npt.NDArray[Any], penalty: float, w: npt.NDArray[Any]
) -> tuple[float, npt.NDArray[Any]]:
    """Mean cross-entropy with a ridge, and its gradient."""
    score = X @ w[:-1].astype(np.float32) + w[-1].astype(np.float32)
    score -= score.max(1, keepdims=True)
    p = np.exp(score)
    total = p.sum(1, keepdims=True)
    share = (weight / weight.sum()).astype(np.float64)
    at = np.arange(len(y))
    loss = float(share @ (np.log(total[:, 0].astype(np.float64)) - score[at, y]))
    p /= total
    p[at, y] -= 1.0
    p *= share[:, None].astype(np.float32)
    slope = np.concatenate([X.T @ p, p.sum(0)[None]]).astype(np.float64)
    slope[:-1] += penalty * w[:-1]
    return loss + 0.5 * penalty * float((w[:-1] ** 2).sum()), slope


def _minimise(
    X: npt.NDArray[Any], y: npt.NDArray[Any], weight: npt.NDArray[Any], penalty: float, start: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    from scipy.optimize import minimize

    def flat(w: npt.NDArray[Any]) -> tuple[float, npt.NDArray[Any]]:
        loss, gradient = _loss(X, y, weight, penalty, w.reshape(start.shape))
        return loss, gradient.ravel()

    found = minimize(flat, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 100, "ftol": 1e-6})
    return np.asarray(found.x).reshape(start.shape)
