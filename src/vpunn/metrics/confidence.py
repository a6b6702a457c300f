"""How honest are probabilities? ``f(confidence, correct)`` and ``f(proba, target)`` judge confidences on *held-out* items."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from vpunn._types import Numbers
from vpunn.errors import VpunnError, check_choice, check_whole, examples
from vpunn.metrics._checks import FloatArray, finite, node_pairs, same_length
from vpunn.tree import Nodes, Tree

Strategy = Literal["uniform", "quantile"]


class Reliability(NamedTuple):
    """A reliability diagram as arrays, one entry per non-empty bin, in order of confidence."""

    confidence: FloatArray  #: mean confidence in the bin
    accuracy: FloatArray  #: share of right items in the bin
    n_items: np.ndarray  #: items in the bin

    @property
    def ece(self) -> float:
        """Expected calibration error: mean |accuracy − confidence| weighted by the bins' shares."""
        return float(np.sum(self.n_items * np.abs(self.accuracy - self.confidence)) / self.n_items.sum())


def reliability(
    confidence: Numbers, correct: Numbers, *, bins: int = 15, strategy: Strategy = "uniform"
) -> Reliability:
    """Bin items by confidence: ``"uniform"`` bins of equal width on [0, 1], or ``"quantile"`` bins of equal mass.

    Equal-width bins say little when almost all confidences are near 1 (audit E-68); equal-mass bins split those.
    Equal confidences always share a bin.
    """
    c, right = _confidences(confidence, correct)
    which = _bins(c, bins, strategy)
    n = int(which.max()) + 1
    count = np.bincount(which, minlength=n)
    full = count > 0
    mean, rate = (np.bincount(which, weights=v, minlength=n)[full] / count[full] for v in (c, right))
    return Reliability(mean, rate, count[full])


class CalibrationInterval(NamedTuple):
    """An expected calibration error with its confidence interval, and what chance alone would give."""

    value: float
    low: float  #: 0 exactly when the data do not contradict perfect calibration
    high: float
    noise: float  #: mean ECE of a *perfectly* calibrated model with these confidences: values near it are good


def calibration_error(
    confidence: Numbers, correct: Numbers, *, bins: int = 15, strategy: Strategy = "uniform"
) -> float:
    """Expected calibration error (ECE) of confidences on held-out items; 0 is perfect. See `reliability` for the bins.

    >>> calibration_error([0.75] * 8, [1] * 6 + [0] * 2)
    0.0
    >>> round(calibration_error([0.99] * 10, [1] * 8 + [0] * 2, strategy="quantile"), 2)
    0.19
    """
    return reliability(confidence, correct, bins=bins, strategy=strategy).ece


def calibration_error_interval(
    confidence: Numbers,
    correct: Numbers,
    *,
    bins: int = 15,
    strategy: Strategy = "uniform",
    level: float = 0.95,
    n_bootstrap: int = 1000,
    seed: int = 0,
) -> CalibrationInterval:
    """`calibration_error` with a bootstrap confidence interval (items are resampled, the bins stay as they are).

    The absolute value makes the estimate too large by about √(bins/n), and resampling adds as much again, so the
    interval is the *reflected* one, [2e − q_high, 2e − q_low] cut at 0, which takes that bias off; and ``low`` is 0
    unless e is larger than perfectly calibrated confidences would give in all but 1 − ``level`` of the samples.
    Resampling needs only each bin's count and the mean and variance of the gap in it, so it costs the same for any n.

    >>> rng = np.random.default_rng(0)
    >>> confidence = rng.uniform(size=2000)
    >>> honest = calibration_error_interval(confidence, rng.uniform(size=2000) < confidence)
    >>> honest.low, honest.value < 2 * honest.noise
    (0.0, True)
    """
    if not 0 < level < 1 or n_bootstrap < 1:
        raise VpunnError(
            f"need a level inside (0, 1) and n_bootstrap ≥ 1, got level={level!r} and n_bootstrap={n_bootstrap!r}."
        )
    c, right = _confidences(confidence, correct)
    which = _bins(c, bins, strategy)
    count, gap = np.bincount(which), right - c
    full = count > 0
    total, square, chance = (np.bincount(which, weights=v)[full] for v in (gap, gap * gap, c * (1 - c)))
    return interval_of_bins(count[full], total, square, chance, level=level, n_bootstrap=n_bootstrap, seed=seed)


def interval_of_bins(
    count: FloatArray,
    total: FloatArray,
    square: FloatArray,
    chance: FloatArray,
    *,
    level: float = 0.95,
    n_bootstrap: int = 1000,
    seed: int = 0,
) -> CalibrationInterval:
    """`calibration_error_interval` from what it needs of each (not empty) bin: items, and sums of the gap (right −
    confidence), of its square and of confidence·(1 − confidence). Such sums add up over batches and machines."""
    n, count = int(count.sum()), count.astype(np.int64)
    mean = total / count
    spread = np.sqrt(np.maximum(square / count - mean**2, 0.0))
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(n, count / n, size=n_bootstrap)
    # The sum of m resampled gaps is mean·m ± spread·√m: exact in mean and variance, normal by the central limit.
    sums = drawn * mean + rng.standard_normal(drawn.shape) * spread * np.sqrt(drawn)
    again = np.abs(sums).sum(axis=1) / n
    honest = np.abs(rng.standard_normal(drawn.shape) * np.sqrt(chance)).sum(axis=1) / n
    value = float(np.abs(total).sum() / n)
    q_low, q_high = np.quantile(again, [(1 - level) / 2, (1 + level) / 2])
    low = 2 * value - q_high if value > np.quantile(honest, level) else 0.0
    return CalibrationInterval(value, max(0.0, float(low)), max(0.0, float(2 * value - q_low)), float(honest.mean()))


def reliability_by_depth(
    tree: Tree, true: Nodes, predicted: Nodes, path_proba: Numbers, *, bins: int = 15, strategy: Strategy = "uniform"
) -> dict[int, Reliability]:
    """A reliability diagram for every depth k: is the ball that the prediction names there right as often as it says?

    ``path_proba[i, k−1]`` is the probability of the depth-k ball on item i's predicted path (NaN past its end, those
    are left out); see `path_probabilities`. Depths that no prediction reaches are absent.
    """
    t, q = node_pairs(tree, true, predicted)
    proba = np.asarray(path_proba, dtype=float)
    if proba.ndim != 2 or len(proba) != len(t):
        raise VpunnError(f"path_proba must have one row per item ({len(t):,}), got shape {proba.shape}.")
    shared = tree.lca_depth(t, q)
    out = {}
    for k in range(1, proba.shape[1] + 1):
        rows = np.flatnonzero((tree.depth[q] >= k) & ~np.isnan(proba[:, k - 1]))
        if len(rows):
            out[k] = reliability(proba[rows, k - 1], shared[rows] >= k, bins=bins, strategy=strategy)
    return out


def path_probabilities(tree: Tree, predicted: Nodes, node_proba: Numbers) -> FloatArray:
    """Gather, for every item, the probabilities of the balls on its predicted path: (items × K), NaN past the end.

    ``node_proba`` is (items × nodes), dense or scipy sparse.
    """
    q = np.atleast_1d(tree.check_nodes(predicted))
    proba = node_proba.tocsr() if hasattr(node_proba, "tocsr") else np.asarray(node_proba, dtype=float)
    if proba.shape != (len(q), tree.n_nodes):
        raise VpunnError(f"node_proba must have shape {(len(q), tree.n_nodes)}, got {proba.shape}.")
    out = np.full((len(q), tree.max_depth), np.nan)
    path = tree.paths(q)[:, 1:]
    rows, k = np.nonzero(path >= 0)
    out[rows, k] = np.asarray(proba[rows, path[rows, k]]).ravel()
    return out


class RiskCoverage(NamedTuple):
    """Risk of the most confident items as the share answered grows."""

    coverage: FloatArray  #: share of items answered, rising to 1
    risk: FloatArray  #: mean loss of the answered items
    threshold: FloatArray  #: answer iff confidence ≥ this
    area: float  #: area under the curve (0 is best): mean over items of the risk at the item's own coverage


def risk_coverage(confidence: Numbers, loss: Numbers) -> RiskCoverage:
    """Answer the most confident items first: what is the mean loss at each coverage?

    ``loss`` is 0/1 errors or any other per-item loss such as `ultrametric_loss`. Items with equal confidence are
    answered together, so the curve has one point per distinct confidence and does not depend on the order of the rows.

    >>> curve = risk_coverage([0.9, 0.8, 0.8, 0.1], [0, 0, 1, 1])
    >>> curve.coverage, curve.risk
    (array([0.25, 0.75, 1.  ]), array([0.        , 0.33333333, 0.5       ]))
    """
    c, lost = finite(confidence, "confidence"), finite(loss, "loss")
    same_length(c, lost, "confidence", "loss")
    order = np.argsort(-c, kind="stable")
    c = c[order]
    last = np.flatnonzero(np.append(c[1:] != c[:-1], True))
    risk = np.cumsum(lost[order])[last] / (last + 1)
    return RiskCoverage((last + 1) / len(c), risk, c[last], float(np.sum(risk * np.diff(last, prepend=-1)) / len(c)))


# ---- whole distributions --------------------------------------------------------------------------------------------


class Brier(NamedTuple):
    """The multi-class Brier score (sum form, 0…2) and the least value its own errors allow."""

    score: float
    lower_bound: float  #: ½ · (share of wrong arg-max answers): no probabilities with these errors can score less


def brier_score(proba: Numbers, target: Numbers) -> Brier:
    """Mean of Σ_c (p_c − [c is true])², with the lower bound that exposes impossible reports (audit E-68).

    ``proba`` is (items × classes), dense or scipy sparse (classes not stored have probability 0); ``target`` holds the
    column of each item's true class. A wrong arg-max item has p_true ≤ p_answer, hence costs at least
    (1−p)² + p² ≥ ½. A tie for the arg-max counts as right.

    >>> brier_score([[0.5, 0.5], [0.9, 0.1]], [0, 1])
    Brier(score=1.06, lower_bound=0.25)
    """
    stored, columns = _distributions(proba, target)
    true = _probability_of(stored, columns)
    if hasattr(stored, "tocsr"):
        squares = np.asarray(stored.multiply(stored).sum(axis=1)).ravel()
        top = stored.max(axis=1).toarray().ravel()
    else:
        squares, top = np.einsum("ij,ij->i", stored, stored), stored.max(axis=1)
    return Brier(float(np.mean(squares - 2 * true + 1)), float(np.mean(true < top) / 2))


def negative_log_likelihood(proba: Numbers, target: Numbers, *, floor: float = 0.0) -> float:
    """Mean −log p(true class), in nats; infinite if a true class got probability 0 and ``floor`` is 0.

    ``proba`` and ``target`` as in `brier_score`. A positive ``floor`` replaces smaller probabilities, which is only
    fair if every model in the comparison gets the same one.
    """
    true = np.maximum(_probability_of(*_distributions(proba, target)), floor)
    with np.errstate(divide="ignore"):
        return float(-np.log(true).mean())


def _confidences(confidence: Numbers, correct: Numbers) -> tuple[FloatArray, FloatArray]:
    c, right = finite(confidence, "confidence"), finite(correct, "correct")
    same_length(c, right, "confidence", "correct")
    outside = np.flatnonzero((c < 0) | (c > 1 + 1e-9))
    if len(outside):
        raise VpunnError(f"confidences must lie in [0, 1], got {examples(c[outside])}; pass probabilities, not scores.")
    if not np.isin(right, (0.0, 1.0)).all():
        raise VpunnError(f"correct must be 0 or 1 for each item, got {examples(right[~np.isin(right, (0.0, 1.0))])}.")
    return np.minimum(c, 1.0), right


def _bins(c: FloatArray, bins: int, strategy: str) -> np.ndarray:
    check_whole("bins", bins)
    check_choice("strategy", strategy, ("uniform", "quantile"))
    if strategy == "uniform":
        return np.minimum((c * bins).astype(np.int64), bins - 1)
    # An item's bin follows the middle of the ranks that share its confidence, so that ties stay together.
    _, inverse, count = np.unique(c, return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - (count + 1) / 2
    return np.minimum(middle * bins / len(c), bins - 1).astype(np.int64)[inverse]


def _distributions(proba: Numbers, target: Numbers) -> tuple[Any, np.ndarray]:
    stored = proba.tocsr() if hasattr(proba, "tocsr") else np.asarray(proba, dtype=float)
    columns = np.asarray(target)
    if stored.ndim != 2 or columns.shape != stored.shape[:1] or not len(columns):
        raise VpunnError(f"need one row of probabilities per target: got shapes {stored.shape} and {columns.shape}.")
    if columns.dtype.kind not in "iu" or columns.min() < 0 or columns.max() >= stored.shape[1]:
        raise VpunnError(f"targets must be column numbers from 0 to {stored.shape[1] - 1}, got {examples(columns)}.")
    values: np.ndarray = np.asarray(stored.data) if hasattr(stored, "tocsr") else stored
    if not np.all((values >= 0) & (values <= 1 + 1e-6)):
        bad = values[~((values >= 0) & (values <= 1 + 1e-6))]
        raise VpunnError(f"probabilities must lie in [0, 1], got {examples(np.ravel(bad))}.")
    sums = np.asarray(stored.sum(axis=1)).ravel()
    over = np.flatnonzero(sums > 1 + 1e-4)  # less than 1 is fine: a sparse row may keep the largest probabilities only
    if len(over):
        raise VpunnError(f"probabilities of one item must not add up to more than 1; they do in rows {examples(over)}.")
    return stored, columns


def _probability_of(stored: Any, columns: np.ndarray) -> FloatArray:
    return np.asarray(stored[np.arange(len(columns)), columns], dtype=float).ravel()
