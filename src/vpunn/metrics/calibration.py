"""Make probabilities honest: temperatures per depth for scores, and a monotone map per depth for finished probabilities.

Both are fitted on *held-out* rows (a model is always overconfident on its own training rows) and are functions of plain
arrays, so any hierarchical model can use them:

- a model that scores the children of a ball and normalises by soft-max rescales the scores: `fit_depth_temperatures` finds
  one temperature for each depth, and `group_softmax` normalises;
- a model that ends in probabilities, however made, maps them: `BetaMap` for one confidence per row, `DepthCalibrator` for
  the whole chain of balls on the predicted path, which stays a chain (a ball is never less probable than one inside it).

`vpunn.metrics` measures the effect (`calibration_error`, `reliability_by_depth`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from vpunn._types import Numbers
from vpunn.errors import VpunnError, examples

FloatArray = np.ndarray

#: How strongly parameters are held near "change nothing", in units of one row's information: matters only below ~50 rows.
PRIOR_WEIGHT = 2.0
#: Probabilities are kept this far from 0 and 1 before taking logarithms.
EDGE = 1e-7


# ---- temperatures: groups of scores ------------------------------------------------------------------------------------


def group_softmax(scores: Numbers, start: Numbers) -> FloatArray:
    """Soft-max within groups laid end to end: group g is ``scores[start[g]:start[g+1]]`` (no group may be empty)."""
    s, begin, sizes = _groups(scores, start)
    e = np.exp(s - np.repeat(np.maximum.reduceat(s, begin), sizes))
    return np.asarray(e / np.repeat(np.add.reduceat(e, begin), sizes))


def fit_depth_temperatures(
    scores: Numbers, start: Numbers, target: Numbers, depth: Numbers, n_depths: int | None = None
) -> FloatArray:
    """One temperature T_k per depth k = 1…K that makes ``group_softmax(scores / T)`` most likely on held-out rows.

    Each group is one decision, a row at one ball choosing among its children: ``scores`` as in `group_softmax`,
    ``target[g]`` the position of the true child inside group g, ``depth[g]`` the children's depth (1…K). The loss is convex
    in 1/T and separate for each depth; Newton's method takes about six passes. A weak prior holds log T near 0, so a depth
    without decisions keeps T = 1. Divide scores by ``T[depth − 1]``; T > 1 means the model was overconfident.

    >>> rng = np.random.default_rng(0)
    >>> honest = rng.normal(size=(5000, 4))                        # 5,000 decisions among four children
    >>> truth = (rng.gumbel(size=honest.shape) + honest).argmax(axis=1)
    >>> start = np.arange(0, 20001, 4)
    >>> overconfident = fit_depth_temperatures(3 * honest.ravel(), start, truth, np.ones(5000, int))
    >>> bool(abs(overconfident[0] - 3) < 0.15)
    True
    """
    s, begin, sizes = _groups(scores, start)
    chosen, level = np.asarray(target), np.asarray(depth)
    if len(begin) and (chosen.dtype.kind not in "iu" or level.dtype.kind not in "iu"):
        raise VpunnError(f"targets and depths must be integers, got {chosen.dtype} and {level.dtype}.")
    if chosen.shape != begin.shape or level.shape != begin.shape:
        raise VpunnError(
            f"need one target and one depth per group: {len(begin)} groups, got {chosen.shape} and {level.shape}."
        )
    bad = np.flatnonzero((chosen < 0) | (chosen >= sizes))
    if len(bad):
        raise VpunnError(f"targets must be positions inside their group; groups {examples(bad)} have targets outside.")
    top = int(level.max(initial=0)) if n_depths is None else n_depths
    if len(level) and (level.min() < 1 or level.max() > top):
        raise VpunnError(f"depths must lie in 1…{top}, got {examples(level[(level < 1) | (level > top)])}.")
    begin_and_end = np.append(begin, len(s))
    own = s[begin + chosen.astype(np.int64)]

    def slopes(log_b: FloatArray) -> tuple[FloatArray, FloatArray]:
        """First and second derivative of the loss at each depth in β = log(1/T); the second made positive."""
        b = np.exp(log_b)
        p = group_softmax(s * np.repeat(b[level - 1], sizes), begin_and_end)
        mean = np.add.reduceat(p * s, begin)
        variance = np.maximum(np.add.reduceat(p * s * s, begin) - mean**2, 0.0)
        first = np.bincount(level, weights=mean - own, minlength=top + 1)[1:] * b
        second = np.bincount(level, weights=variance, minlength=top + 1)[1:] * b * b
        return first + PRIOR_WEIGHT * log_b, second + np.maximum(first, 0.0) + PRIOR_WEIGHT

    log_b = np.zeros(top)
    if len(begin):
        for _ in range(50):
            first, second = slopes(log_b)
            step = np.clip(first / second, -1.0, 1.0)
            log_b = np.clip(log_b - step, -8.0, 8.0)
            if np.abs(step).max() < 1e-8:
                break
    return np.exp(-log_b)


def _groups(scores: Numbers, start: Numbers) -> tuple[FloatArray, np.ndarray, np.ndarray]:
    s, ends = np.asarray(scores, dtype=float), np.asarray(start)
    if (
        s.ndim != 1
        or ends.ndim != 1
        or not len(ends)
        or ends[0] != 0
        or ends[-1] != len(s)
        or (np.diff(ends) < 1).any()
    ):
        raise VpunnError(
            f"start must rise from 0 to the number of scores ({s.size}) with no empty group, got {examples(np.ravel(ends))}."
        )
    if not np.isfinite(s).all():
        raise VpunnError(
            f"scores must be finite; they are not at positions {examples(np.flatnonzero(~np.isfinite(s)))}."
        )
    return s, ends[:-1], np.diff(ends)


# ---- monotone maps: finished probabilities ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class BetaMap:
    """Beta calibration: logit p' = a·log p − b·log(1 − p) + c with a, b ≥ 0, a monotone map of [0, 1].

    (1, 1, 0) changes nothing; a = b = 1/T is temperature scaling of a two-way choice. Three numbers bend it enough for the
    usual over- and underconfidence and need only a few hundred held-out rows.
    """

    a: float = 1.0
    b: float = 1.0
    c: float = 0.0

    def apply(self, confidence: Numbers) -> FloatArray:
        """The calibrated probabilities; NaN stays NaN."""
        p = np.clip(np.asarray(confidence, dtype=float), EDGE, 1 - EDGE)
        return np.asarray(expit(self.a * np.log(p) - self.b * np.log1p(-p) + self.c))

    @classmethod
    def fit(cls, confidence: Numbers, correct: Numbers) -> BetaMap:
        """Most likely map for held-out rows, held near the identity by a weak prior (no rows give the identity).

        >>> rng = np.random.default_rng(0)
        >>> p = rng.uniform(size=4000)
        >>> overconfident = BetaMap.fit(np.where(p > 0.5, 1 - (1 - p) ** 2, p**2), rng.uniform(size=4000) < p)
        >>> bool(abs(overconfident.apply(0.96) - 0.8) < 0.03)
        True
        """
        from scipy.optimize import minimize

        p, right = np.asarray(confidence, dtype=float), np.asarray(correct, dtype=float)
        if p.ndim != 1 or p.shape != right.shape:
            raise VpunnError(
                f"confidence and correct must be equally long lists, got shapes {p.shape} and {right.shape}."
            )
        if not ((p >= 0) & (p <= 1 + 1e-9)).all():
            raise VpunnError(f"confidences must lie in [0, 1], got {examples(p[~((p >= 0) & (p <= 1 + 1e-9))])}.")
        if not np.isin(right, (0.0, 1.0)).all():
            raise VpunnError(
                f"correct must be 0 or 1 for each row, got {examples(right[~np.isin(right, (0.0, 1.0))])}."
            )
        p = np.clip(p, EDGE, 1 - EDGE)
        design = np.column_stack([np.log(p), -np.log1p(-p), np.ones_like(p)])
        identity = np.array([1.0, 1.0, 0.0])

        def loss(theta: FloatArray) -> tuple[float, FloatArray]:
            score = design @ theta
            away = theta - identity
            value = float(np.sum(np.logaddexp(0.0, score) - right * score)) + 0.5 * PRIOR_WEIGHT * float(away @ away)
            return value, design.T @ (expit(score) - right) + PRIOR_WEIGHT * away

        found = minimize(loss, identity, jac=True, method="L-BFGS-B", bounds=[(0, 50), (0, 50), (-30, 30)])
        return cls(*map(float, found.x))


class DepthCalibrator:
    """Calibrates the chain of balls on predicted paths: one `BetaMap` per depth, on the *conditional* probabilities.

    Where the path is right down to depth k − 1, the share of rows that are right at depth k should be
    q_k = P_k / P_{k−1}. Each depth's map is fitted to exactly those held-out rows, and the calibrated P_k is the product
    of the mapped q_1…q_k, so P_1 ≥ P_2 ≥ … still holds and the chain rule of audit S24 is kept.

    Within one ball, siblings of the predicted child share what it leaves: multiply them by (1 − q′)/(1 − q).
    """

    maps: list[BetaMap]

    def __init__(self, maps: list[BetaMap]) -> None:
        self.maps = maps

    @classmethod
    def fit(cls, path_proba: Numbers, right_to: Numbers) -> DepthCalibrator:
        """From held-out rows: ``path_proba`` (rows × K, NaN past the predicted path's end) and ``right_to``, the number
        of leading depths at which the predicted path is right (``tree.lca_depth(true, predicted)``)."""
        proba, right = np.asarray(path_proba, dtype=float), np.asarray(right_to)
        if proba.ndim != 2 or right.shape != proba.shape[:1]:
            raise VpunnError(
                f"need path_proba (rows × K) and one right_to per row, got {proba.shape} and {right.shape}."
            )
        conditional = _conditional(proba)
        maps = []
        for k in range(1, proba.shape[1] + 1):
            rows = (right >= k - 1) & ~np.isnan(conditional[:, k - 1])
            maps.append(BetaMap.fit(conditional[rows, k - 1], right[rows] >= k))
        return cls(maps)

    def conditional(self, path_proba: Numbers) -> FloatArray:
        """The calibrated q_k of each row and depth."""
        proba = np.asarray(path_proba, dtype=float)
        if proba.ndim != 2 or proba.shape[1] != len(self.maps):
            raise VpunnError(
                f"path_proba must have one column for each of the {len(self.maps)} depths, got {proba.shape}."
            )
        q = _conditional(proba)
        return np.column_stack([m.apply(q[:, k]) for k, m in enumerate(self.maps)]) if self.maps else q

    def apply(self, path_proba: Numbers) -> FloatArray:
        """The calibrated P_k: probability that the path is right down to depth k (NaN past its end)."""
        return np.cumprod(self.conditional(path_proba), axis=1)


def _conditional(proba: FloatArray) -> FloatArray:
    above = np.column_stack([np.ones(len(proba)), proba[:, :-1]]) if proba.shape[1] else proba
    return np.asarray(np.clip(np.divide(proba, above, out=np.zeros_like(proba), where=above != 0), 0.0, 1.0))
