"""How good are predicted nodes, and how honest are their probabilities?

Two kinds of function, all on whole arrays and free of any model:

- **nodes**: ``f(tree, true, predicted)`` compares node ids (``tree.index(labels)`` finds them); a target may be a leaf
  or an internal node of any depth, and every one of them rests on the depth of the lowest common ancestor;
- **probabilities**: ``f(confidence, correct)`` and ``f(proba, target)`` judge confidences on *held-out* items.

Depth counts edges below the root. Padding never counts: an item is compared on the digits it has (audit 3.2, E-60).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from vpunn.errors import VpunnError, examples
from vpunn.sweeps import sweep_down
from vpunn.tree import Nodes, Tree

FloatArray = np.ndarray
#: One number ≥ 0 for each depth 1…K.
Weights = Sequence[float] | np.ndarray
Strategy = Literal["uniform", "quantile"]


# ---- predicted nodes ------------------------------------------------------------------------------------------------


def leaf_accuracy(tree: Tree, true: Nodes, predicted: Nodes) -> float:
    """Share of items whose *whole path* is right, that is, whose predicted node is the true node."""
    t, q = _node_pairs(tree, true, predicted)
    return float(np.mean(t == q))


def root_accuracy(tree: Tree, true: Nodes, predicted: Nodes) -> float:
    """Share of items whose first digit is right; never below `leaf_accuracy` (the paper has it the other way)."""
    return float(prefix_accuracy(tree, true, predicted)[0])


def prefix_accuracy(tree: Tree, true: Nodes, predicted: Nodes, *, reached_only: bool = False) -> FloatArray:
    """Accuracy at every depth k = 1…K: is the path right as far as depth k? K entries, one sweep over the pairs.

    Both paths are cut at depth k and must end in the same node. A path shorter than k is compared whole, so the first
    entry is the root accuracy, the last is the leaf accuracy, and the curve never rises.

    With ``reached_only`` entry k averages over the items whose *true* path is at least k long (NaN if there are none);
    that answers "how good are we this far down?", but the population changes with k and so the curve may rise.

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1], labels=["animal", "bird", "fish", "owl", "robin"])
    >>> true, predicted = tree.index(["owl", "robin", "fish"]), tree.index(["owl", "owl", "bird"])
    >>> prefix_accuracy(tree, true, predicted).round(2)      # fish → bird is wrong from the first digit on
    array([0.67, 0.33])
    >>> prefix_accuracy(tree, true, predicted, reached_only=True)
    array([0.66666667, 0.5       ])
    """
    t, q = _node_pairs(tree, true, predicted)
    depths = np.arange(1, max(tree.max_depth, 1) + 1)
    right_to = _right_to_depth(tree, t, q)
    if reached_only:
        hits = _count_at_least(np.minimum(right_to, tree.depth[t]), depths)
        reached = _count_at_least(tree.depth[t], depths)
        return np.divide(hits, reached, out=np.full(len(depths), np.nan), where=reached > 0)
    return _count_at_least(right_to, depths) / len(t)


class HierarchicalScores(NamedTuple):
    """Hierarchical precision, recall and their harmonic mean."""

    precision: float
    recall: float
    f1: float


def hierarchical_scores(
    tree: Tree, true: Nodes, predicted: Nodes, *, average: Literal["micro", "macro"] = "micro"
) -> HierarchicalScores:
    """Precision and recall over the *ancestor sets* (root left out): |A(t)∩A(q)| over |A(q)| and over |A(t)|.

    The intersection has exactly LCA-depth many balls. ``micro`` divides the sums over all items, ``macro`` averages the
    items' own ratios; an item with an empty set (the root itself) scores 1 there if both are the root, else 0. With
    ``micro`` a data set of nothing but correct roots scores 1.

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1], labels=["animal", "bird", "fish", "owl", "robin"])
    >>> hierarchical_scores(tree, tree.index(["owl", "robin"]), tree.index(["bird", "owl"]))
    HierarchicalScores(precision=0.6666666666666666, recall=0.5, f1=0.5714285714285715)
    """
    t, q = _node_pairs(tree, true, predicted)
    shared = tree.lca_depth(t, q).astype(float)
    if average == "micro":
        precision, recall = (
            float(shared.sum() / total) if total else float((t == q).all())
            for total in (tree.depth[q].sum(dtype=float), tree.depth[t].sum(dtype=float))
        )
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        return HierarchicalScores(precision, recall, f1)
    if average != "macro":
        raise VpunnError(f'average must be "micro" or "macro", got {average!r}.')
    same = (t == q).astype(float)
    each = [np.divide(shared, total, out=same.copy(), where=total > 0) for total in (tree.depth[q], tree.depth[t])]
    both = tree.depth[q] + tree.depth[t]
    f1s = np.divide(2 * shared, both, out=same.copy(), where=both > 0)
    return HierarchicalScores(float(each[0].mean()), float(each[1].mean()), float(f1s.mean()))


def wu_palmer(tree: Tree, true: Nodes, predicted: Nodes) -> FloatArray:
    """Wu–Palmer similarity of each pair, 2·d(lca) / (d(t) + d(q)) with depths counted in *nodes* (the root has 1).

    In (0, 1]; 1 exactly for equal nodes. Take the mean for a data set.
    """
    t, q = _node_pairs(tree, true, predicted)
    return 2.0 * (tree.lca_depth(t, q) + 1.0) / (tree.depth[t] + tree.depth[q] + 2.0)


def mean_lca_depth(tree: Tree, true: Nodes, predicted: Nodes) -> float:
    """Mean number of leading digits shared by truth and prediction: the mean valuation of their difference."""
    t, q = _node_pairs(tree, true, predicted)
    return float(tree.lca_depth(t, q).mean())


def depth_weights(tree: Tree, p: int | None = None) -> FloatArray:
    """The weights w_1…w_K that make `ultrametric_loss` the p-adic distance: a path that leaves at depth ν costs p^{-ν}.

    ``p`` defaults to the tree's prime (smallest prime > largest branching). A small p such as 2 spreads the cost over
    the depths; a large one is nearly the root error.
    """
    from vpunn.padic import next_prime

    base = float(next_prime(tree.max_branching + 1) if p is None else p)
    if base <= 1:
        raise VpunnError(f"the base of the distance must be larger than 1, got p={p}.")
    cost = base ** -np.arange(max(tree.max_depth, 1), dtype=float)  # cost of leaving after 0, 1, … shared digits
    return cost - np.append(cost[1:], 0.0)


def ultrametric_loss(
    tree: Tree, true: Nodes, predicted: Nodes, *, weights: Weights | None = None, p: int | None = None
) -> FloatArray:
    """Loss of each item, Σ_k w_k·[the paths cut at depth k differ]: a monotone function of the valuation (audit S17).

    Without ``weights`` it is the p-adic distance p^{-ν} (0 for equal nodes), see `depth_weights`; all ones count the
    wrong depths. ``weights`` has K entries ≥ 0. Take the mean for a data set.

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1], labels=["animal", "bird", "fish", "owl", "robin"])
    >>> owl = tree.index("owl")
    >>> ultrametric_loss(tree, [owl] * 4, tree.index(["owl", "robin", "bird", "fish"]), p=3)
    array([0.        , 0.33333333, 0.33333333, 1.        ])
    """
    t, q = _node_pairs(tree, true, predicted)
    return _tail(_weights(tree, weights, p))[_right_to_depth(tree, t, q)]


def bayes_nodes(
    tree: Tree, node_proba: Any, *, weights: Weights | None = None, p: int | None = None
) -> tuple[np.ndarray, FloatArray]:
    """The node with the least expected `ultrametric_loss` for each row, and that loss. Any node may win, leaf or not.

    ``node_proba`` (items × nodes) holds the probability of every *ball*: a parent's is its own stopping mass plus its
    children's. Naming v is right at depth k ≤ depth(v) if the truth lies in v's ancestor there, and below only if the
    truth is v itself, so one sweep down decides exactly (audit S17). O(items · nodes).
    """
    proba = np.asarray(node_proba, dtype=float)
    if proba.ndim != 2 or proba.shape[1] != tree.n_nodes:
        raise VpunnError(f"node_proba must have one column per node ({tree.n_nodes:,}), got shape {proba.shape}.")
    bad = np.flatnonzero(~((proba >= 0) & (proba <= 1 + 1e-6)).all(axis=1))
    if len(bad):
        raise VpunnError(f"node probabilities must lie in [0, 1]; they do not in rows {examples(bad)}.")
    loss = _weights(tree, weights, p)
    balls = proba.T
    below = np.zeros_like(balls)
    np.add.at(below, tree.parent[1:], balls[1:])
    right = sweep_down(tree, np.append(0.0, loss)[tree.depth][:, None] * balls)
    right += _tail(loss)[np.minimum(tree.depth, len(loss))][:, None] * (balls - below)
    best = np.argmax(right, axis=0)
    return best, loss.sum() * balls[0] - right[best, np.arange(proba.shape[0])]


def hierarchical_summary(tree: Tree, true: Nodes, predicted: Nodes) -> dict[str, Any]:
    """Every metric of this section for one set of predictions, as plain numbers (the prefix accuracies as a list)."""
    t, q = _node_pairs(tree, true, predicted)
    scores = hierarchical_scores(tree, t, q)
    prefixes = prefix_accuracy(tree, t, q)
    return {
        "n": len(t),
        "root_accuracy": float(prefixes[0]),
        "leaf_accuracy": leaf_accuracy(tree, t, q),
        "prefix_accuracy": prefixes.tolist(),
        "hierarchical_precision": scores.precision,
        "hierarchical_recall": scores.recall,
        "hierarchical_f1": scores.f1,
        "wu_palmer": float(wu_palmer(tree, t, q).mean()),
        "mean_lca_depth": mean_lca_depth(tree, t, q),
        "ultrametric_loss": float(ultrametric_loss(tree, t, q).mean()),
    }


# ---- confidences ----------------------------------------------------------------------------------------------------


class Reliability(NamedTuple):
    """A reliability diagram as arrays, one entry per non-empty bin, in order of confidence."""

    confidence: FloatArray  #: mean confidence in the bin
    accuracy: FloatArray  #: share of right items in the bin
    n_items: np.ndarray  #: items in the bin

    @property
    def ece(self) -> float:
        """Expected calibration error: mean |accuracy − confidence| weighted by the bins' shares."""
        return float(np.sum(self.n_items * np.abs(self.accuracy - self.confidence)) / self.n_items.sum())


def reliability(confidence: Any, correct: Any, *, bins: int = 15, strategy: Strategy = "uniform") -> Reliability:
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


def calibration_error(confidence: Any, correct: Any, *, bins: int = 15, strategy: Strategy = "uniform") -> float:
    """Expected calibration error (ECE) of confidences on held-out items; 0 is perfect. See `reliability` for the bins.

    >>> calibration_error([0.75] * 8, [1] * 6 + [0] * 2)
    0.0
    >>> round(calibration_error([0.99] * 10, [1] * 8 + [0] * 2, strategy="quantile"), 2)
    0.19
    """
    return reliability(confidence, correct, bins=bins, strategy=strategy).ece


def calibration_error_interval(
    confidence: Any,
    correct: Any,
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
        raise VpunnError(f"need a level inside (0, 1) and n_bootstrap ≥ 1, got level={level!r} and n_bootstrap={n_bootstrap!r}.")
    c, right = _confidences(confidence, correct)
    which = _bins(c, bins, strategy)
    n, count, gap = len(c), np.bincount(which), right - c
    full = count > 0
    total, square, chance = (np.bincount(which, weights=v)[full] for v in (gap, gap * gap, c * (1 - c)))
    count = count[full]
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
    tree: Tree, true: Nodes, predicted: Nodes, path_proba: Any, *, bins: int = 15, strategy: Strategy = "uniform"
) -> dict[int, Reliability]:
    """A reliability diagram for every depth k: is the ball that the prediction names there right as often as it says?

    ``path_proba[i, k−1]`` is the probability of the depth-k ball on item i's predicted path (NaN past its end, those
    are left out); see `path_probabilities`. Depths that no prediction reaches are absent.
    """
    t, q = _node_pairs(tree, true, predicted)
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


def path_probabilities(tree: Tree, predicted: Nodes, node_proba: Any) -> FloatArray:
    """Gather, for every item, the probabilities of the balls on its predicted path: (items × K), NaN past the end.

    ``node_proba`` is (items × nodes), dense or scipy sparse.
    """
    q = np.atleast_1d(tree.check_nodes(predicted))
    proba = node_proba.tocsr() if hasattr(node_proba, "tocsr") else np.asarray(node_proba, dtype=float)
    if proba.shape != (len(q), tree.n_nodes):
        raise VpunnError(f"node_proba must have shape {(len(q), tree.n_nodes)}, got {proba.shape}.")
    out = np.full((len(q), tree.max_depth), np.nan)
    for k in range(1, tree.max_depth + 1):
        rows = np.flatnonzero(tree.depth[q] >= k)
        out[rows, k - 1] = np.asarray(proba[rows, tree.ancestor_at(q[rows], k)]).ravel()
    return out


class RiskCoverage(NamedTuple):
    """Risk of the most confident items as the share answered grows."""

    coverage: FloatArray  #: share of items answered, rising to 1
    risk: FloatArray  #: mean loss of the answered items
    threshold: FloatArray  #: answer iff confidence ≥ this
    area: float  #: area under the curve (0 is best): mean over items of the risk at the item's own coverage


def risk_coverage(confidence: Any, loss: Any) -> RiskCoverage:
    """Answer the most confident items first: what is the mean loss at each coverage?

    ``loss`` is 0/1 errors or any other per-item loss such as `ultrametric_loss`. Items with equal confidence are
    answered together, so the curve has one point per distinct confidence and does not depend on the order of the rows.

    >>> curve = risk_coverage([0.9, 0.8, 0.8, 0.1], [0, 0, 1, 1])
    >>> curve.coverage, curve.risk
    (array([0.25, 0.75, 1.  ]), array([0.        , 0.33333333, 0.5       ]))
    """
    c, lost = _finite(confidence, "confidence"), _finite(loss, "loss")
    _same_length(c, lost, "confidence", "loss")
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


def brier_score(proba: Any, target: Any) -> Brier:
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


def negative_log_likelihood(proba: Any, target: Any, *, floor: float = 0.0) -> float:
    """Mean −log p(true class), in nats; infinite if a true class got probability 0 and ``floor`` is 0.

    ``proba`` and ``target`` as in `brier_score`. A positive ``floor`` replaces smaller probabilities, which is only
    fair if every model in the comparison gets the same one.
    """
    true = np.maximum(_probability_of(*_distributions(proba, target)), floor)
    with np.errstate(divide="ignore"):
        return float(-np.log(true).mean())


# ---- checks and small steps shared above ----------------------------------------------------------------------------


def _node_pairs(tree: Tree, true: Nodes, predicted: Nodes) -> tuple[np.ndarray, np.ndarray]:
    t, q = np.atleast_1d(tree.check_nodes(true)), np.atleast_1d(tree.check_nodes(predicted))
    if t.ndim != 1 or t.shape != q.shape or not len(t):
        raise VpunnError(f"need as many predicted nodes as true ones, and at least one: got {q.size} and {t.size}.")
    return t.astype(np.int64), q.astype(np.int64)


def _right_to_depth(tree: Tree, t: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The largest k at which the two paths, cut at depth k, agree: K for equal nodes, else the LCA depth."""
    return np.where(t == q, max(tree.max_depth, 1), tree.lca_depth(t, q))


def _count_at_least(values: np.ndarray, depths: np.ndarray) -> np.ndarray:
    ordered = np.sort(values)
    return (len(ordered) - np.searchsorted(ordered, depths, side="left")).astype(float)


def _weights(tree: Tree, weights: Any, p: int | None) -> FloatArray:
    if weights is None:
        return depth_weights(tree, p)
    w = _finite(weights, "weights")
    if len(w) != max(tree.max_depth, 1) or (w < 0).any():
        raise VpunnError(f"weights needs one number ≥ 0 for each depth 1…{tree.max_depth}, got {examples(w)}.")
    return w


def _tail(w: FloatArray) -> FloatArray:
    """Entry ν is w_{ν+1} + … + w_K, the loss of paths that agree down to depth ν; the last entry is 0."""
    return np.append(np.cumsum(w[::-1])[::-1], 0.0)


def _finite(values: Any, name: str) -> FloatArray:
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise VpunnError(f"{name} must be a list of numbers.") from None
    if array.ndim != 1 or not array.size:
        raise VpunnError(f"{name} must be a non-empty list of numbers, got shape {array.shape}.")
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise VpunnError(f"{name} must be finite; it is not at rows {examples(bad)}.")
    return array


def _same_length(a: np.ndarray, b: np.ndarray, first: str, second: str) -> None:
    if len(a) != len(b):
        raise VpunnError(f"{first} and {second} must be equally long, got {len(a):,} and {len(b):,} values.")


def _confidences(confidence: Any, correct: Any) -> tuple[FloatArray, FloatArray]:
    c, right = _finite(confidence, "confidence"), _finite(correct, "correct")
    _same_length(c, right, "confidence", "correct")
    outside = np.flatnonzero((c < 0) | (c > 1 + 1e-9))
    if len(outside):
        raise VpunnError(f"confidences must lie in [0, 1], got {examples(c[outside])}; pass probabilities, not scores.")
    if not np.isin(right, (0.0, 1.0)).all():
        raise VpunnError(f"correct must be 0 or 1 for each item, got {examples(right[~np.isin(right, (0.0, 1.0))])}.")
    return np.minimum(c, 1.0), right


def _bins(c: FloatArray, bins: int, strategy: str) -> np.ndarray:
    if not isinstance(bins, int | np.integer) or bins < 1:
        raise VpunnError(f"bins must be a whole number ≥ 1, got {bins}.")
    if strategy == "uniform":
        return np.minimum((c * bins).astype(np.int64), bins - 1)
    if strategy != "quantile":
        raise VpunnError(f'strategy must be "uniform" (equal width) or "quantile" (equal mass), got {strategy!r}.')
    # An item's bin follows the middle of the ranks that share its confidence, so that ties stay together.
    _, inverse, count = np.unique(c, return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - (count + 1) / 2
    return np.minimum(middle * bins / len(c), bins - 1).astype(np.int64)[inverse]


def _distributions(proba: Any, target: Any) -> tuple[Any, np.ndarray]:
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
