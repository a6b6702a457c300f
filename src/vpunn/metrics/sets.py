"""How good are answer *sets*? Rows with several labels: sets against sets, scores against sets, marginals against sets.

Sets are tables (rows × labels) of 0 and 1, dense or SciPy sparse; scores are tables of the same shape. `table_of` makes one from
lists of node ids and `with_ancestors` adds all ancestors by any path: that is the whole difference between plain and
hierarchical scores. What is never stored counts as 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from vpunn.errors import VpunnError, check_choice, examples
from vpunn.metrics.confidence import CalibrationInterval, calibration_error_interval
from vpunn.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpunn._types import Indicator, Numbers, Scores


Average = Literal["micro", "macro", "example"]
#: Thresholds at which the function-prediction community looks: 0.01, 0.02, …, 1.
THRESHOLDS = np.round(np.arange(1, 101) / 100, 2)


def table_of(tree: Tree, sets: Sequence[Any] | np.ndarray) -> sparse.csr_matrix:
    """Lists of node ids (or ``(start, ids)``) as a table (rows × nodes) of 0 and 1."""
    from vpunn.tree._parents import as_sets

    start, ids = as_sets(tree, sets)
    table = sparse.csr_matrix((np.ones(len(ids)), ids.astype(np.int64), start), shape=(len(start) - 1, tree.n_nodes))
    table.sum_duplicates()
    table.data[:] = 1.0
    return table


def with_ancestors(tree: Tree, table: Indicator, *, root: bool = False) -> sparse.csr_matrix:
    """A table of nodes with all ancestors of what it holds, by any path; the root, which every answer has, only on request.

    >>> tree = Tree.from_edges([("thing", "pet"), ("thing", "mammal"), ("pet", "dog"), ("mammal", "dog")])
    >>> with_ancestors(tree, table_of(tree, [[tree.index("dog")]])).sum()
    np.float64(3.0)
    """
    given = _table(table, "the table")
    if given.shape[1] != tree.n_nodes:
        raise VpunnError(f"the table has {given.shape[1]:,} columns for {tree.n_nodes:,} nodes; one per node.")
    start, ids = tree.closure((given.indptr.astype(np.int64), given.indices))
    closed = sparse.csr_matrix((np.ones(len(ids)), ids.astype(np.int64), start), shape=given.shape)
    if not root:
        closed.data[closed.indices == 0] = 0.0
        closed.eliminate_zeros()
    return closed


class PRF(NamedTuple):
    """Precision, recall and their harmonic mean."""

    precision: float
    recall: float
    f1: float


def precision_recall(truth: Indicator, predicted: Indicator, average: Average = "micro") -> PRF:
    """Precision, recall and F1 of sets.

    ``"micro"`` counts pairs of row and label, ``"macro"`` averages over labels that are true or predicted somewhere,
    ``"example"`` over rows. A label (or row) without predictions has precision 0, one without truth recall 0; a row where both
    are empty has all three at 1. Given tables with ancestors the micro values are hierarchical precision and recall.

    >>> precision_recall([[1, 1, 0], [0, 0, 1]], [[1, 0, 0], [0, 1, 1]]).f1
    0.6666666666666666
    """
    check_choice("average", average, ("micro", "macro", "example"))
    t, p = _pair(truth, predicted)
    both = t.multiply(p)
    if average == "micro":
        hit, said, true = float(both.sum()), float(p.sum()), float(t.sum())
        return PRF(_ratio(hit, said), _ratio(hit, true), _ratio(2 * hit, said + true))
    axis = 0 if average == "macro" else 1
    hits, saids, trues = (np.asarray(table.sum(axis), float).ravel() for table in (both, p, t))
    if average == "macro":
        some = (saids + trues) > 0
        hits, saids, trues = hits[some], saids[some], trues[some]
    empty = (saids + trues) == 0
    with np.errstate(invalid="ignore", divide="ignore"):
        parts = hits / saids, hits / trues, 2 * hits / (saids + trues)
    found = [np.where(empty, 1.0, np.nan_to_num(part)) for part in parts]
    return PRF(*(float(part.mean()) if len(part) else 0.0 for part in found))


def micro_f1(truth: Indicator, predicted: Indicator) -> float:
    """F1 over all pairs of row and label."""
    return precision_recall(truth, predicted, "micro").f1


def macro_f1(truth: Indicator, predicted: Indicator) -> float:
    """Mean F1 of the labels that are true or predicted somewhere."""
    return precision_recall(truth, predicted, "macro").f1


def example_f1(truth: Indicator, predicted: Indicator) -> float:
    """Mean F1 of the rows; two empty sets agree."""
    return precision_recall(truth, predicted, "example").f1


class Fmax(NamedTuple):
    """The best protein-centric F, and where."""

    value: float
    threshold: float
    precision: float
    recall: float


def f_max(truth: Indicator, scores: Scores, thresholds: Numbers = THRESHOLDS) -> Fmax:
    """Fmax as in CAFA: max over t of 2·pr·rc/(pr + rc), with pr(t) the mean precision of the rows that predict anything at t and
    rc(t) the mean recall of all rows that have a label.

    Give tables with ancestors and without the root. Scores below the least threshold are never predicted.

    >>> f_max([[1, 1, 0], [0, 0, 1]], [[0.9, 0.4, 0.1], [0.0, 0.5, 0.3]])
    Fmax(value=0.8571428571428571, threshold=0.11, precision=0.75, recall=1.0)
    """
    hit, said, true, at = _sweep(truth, scores, thresholds)
    precision, recall = _mean_precision_recall(hit, said, true, np.ones((1, len(true))))
    value = _harmonic(precision, recall)[0]
    k = int(value.argmax())
    if not value[k]:
        return Fmax(0.0, float(at[0]), 0.0, 0.0)
    return Fmax(float(value[k]), float(at[k]), float(precision[0, k]), float(recall[0, k]))


def f_max_gain(
    truth: Indicator, scores: Scores, other: Scores, *, draws: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """95 % interval of the difference in `f_max` of two methods on the same rows: the rows are drawn anew ``draws`` times.

    >>> f_max_gain([[1, 0], [0, 1]], [[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.2, 0.8]])
    (0.0, 0.0)
    """
    n = _table(truth, "truth").shape[0]
    counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1.0 / n), size=draws).astype(float)
    best = []
    for given in (scores, other):
        hit, said, true, _ = _sweep(truth, given, THRESHOLDS)
        best.append(_harmonic(*_mean_precision_recall(hit, said, true, counts)).max(1))
    low, high = np.quantile(best[0] - best[1], [0.025, 0.975]).tolist()
    return low, high


def information_content(tree: Tree, closed: Indicator) -> np.ndarray:
    """Bits of each node given its parents, −log₂ P(node | all parents), from a table with ancestors (Clark and Radivojac).

    A node never met has the bits of one that is met once more than its parents were; the root has none.
    """
    columns = _table(closed, "the table").tocsc()
    columns.sort_indices()
    start, up = tree.all_parents
    count = np.diff(columns.indptr).astype(float)
    count[0] = columns.shape[0]  # every row has the root, given or not
    above = np.empty(tree.n_nodes)
    above[0] = count[0]
    several = np.diff(start) > 1
    single = np.flatnonzero(~several)[1:]
    above[single] = count[up[start[single]]]
    for node in np.flatnonzero(several).tolist():
        held = [
            columns.indices[columns.indptr[p] : columns.indptr[p + 1]] for p in up[start[node] : start[node + 1]] if p
        ]
        rows = np.concatenate(held)  # rows that have all parents are there once for each
        above[node] = (np.bincount(rows) == len(held)).sum() if len(rows) else 0
    met = count > 0
    return np.asarray(np.where(met, -np.log2(np.maximum(count, 1) / np.maximum(above, 1)), np.log2(above + 1.0)))


class Smin(NamedTuple):
    """The least semantic distance, and where; ``missed`` and ``wrong`` are the bits per row."""

    value: float
    threshold: float
    missed: float
    wrong: float


def s_min(truth: Indicator, scores: Scores, information: Numbers, thresholds: Numbers = THRESHOLDS) -> Smin:
    """S_min as in CAFA: min over t of √(ru² + mi²), the mean bits of true labels missed and of predicted labels that are wrong."""
    bits = np.asarray(information, float)
    t, s = _table(truth, "truth"), _scores(scores)
    _same(t, s)
    if bits.shape != (t.shape[1],) or not np.isfinite(bits).all():
        raise VpunnError(f"information needs one finite number per label ({t.shape[1]:,}), got shape {bits.shape}.")
    row = np.repeat(np.arange(s.shape[0]), np.diff(s.indptr))
    right = _at(t, row, s.indices)
    at = np.sort(np.asarray(thresholds, float))
    passed = np.searchsorted(at, s.data, side="right")  # a score reaches the thresholds before this one
    value = bits[s.indices]
    hit, wrong = (
        np.bincount(passed[those], value[those], minlength=len(at) + 1)[::-1].cumsum()[-2::-1]
        for those in (right, ~right)
    )
    n = max(t.shape[0], 1)
    missed, wrong = (float((t @ bits).sum()) - hit) / n, wrong / n
    far = np.hypot(missed, wrong)
    k = int(far.argmin())
    return Smin(float(far[k]), float(at[k]), float(missed[k]), float(wrong[k]))


def precision_at(truth: Indicator, scores: Scores, k: int) -> float:
    """P@k: the mean share of the k best-scored labels that are true; labels of score 0 fill up in the order of columns."""
    t = _table(truth, "truth")
    top = _top(t, scores, k)
    return float(_at(t, np.repeat(np.arange(len(top)), k), top.ravel()).mean())


def propensities(counts: Numbers, rows: int, a: float = 0.55, b: float = 1.5) -> np.ndarray:
    """How likely a true label is to be seen, by its number of training rows: 1/(1 + C·(n_l + b)^−a) (Jain and others)."""
    c = (np.log(max(rows, 3)) - 1.0) * (b + 1.0) ** a
    return np.asarray(1.0 / (1.0 + c * np.exp(-a * np.log(np.asarray(counts, float) + b))))


def propensity_scored_precision_at(truth: Indicator, scores: Scores, k: int, propensity: Numbers) -> float:
    """PSP@k: true labels among the k best count 1/propensity, as a share of the best that any ranking could reach."""
    t, weight = _table(truth, "truth"), 1.0 / np.asarray(propensity, float)
    top = _top(t, scores, k)
    got = float((_at(t, np.repeat(np.arange(len(top)), k), top.ravel()) * weight[top.ravel()]).sum())
    best = sum(
        float(np.sort(weight[t.indices[low:high]])[::-1][:k].sum())
        for low, high in zip(t.indptr[:-1], t.indptr[1:], strict=True)
    )
    return _ratio(got, best)


def ball_calibration(
    truth: Indicator, marginals: Scores, *, least: float = 0.01, bins: int = 15
) -> CalibrationInterval:
    """Expected calibration error of marginals of at least ``least``, in bins of equal mass, with interval and chance level."""
    t, s = _table(truth, "truth"), _scores(marginals)
    _same(t, s)
    row = np.repeat(np.arange(s.shape[0]), np.diff(s.indptr))
    said = s.data >= least
    if not said.any():
        raise VpunnError(f"no marginal reaches least={least}; there is nothing to judge.")
    right = _at(t, row[said], s.indices[said]).astype(float)
    return calibration_error_interval(np.minimum(s.data[said], 1.0), right, bins=bins, strategy="quantile")


def missed_share(truth: Indicator, predicted: Indicator) -> float:
    """Mean share of the true labels that a set leaves out; rows without a label miss nothing. 1 − coverage."""
    t, p = _pair(truth, predicted)
    true = np.asarray(t.sum(1), float).ravel()
    hit = np.asarray(t.multiply(p).sum(1), float).ravel()
    return float(np.mean(1.0 - np.where(true > 0, hit / np.maximum(true, 1.0), 1.0)))


def set_size(predicted: Indicator) -> float:
    """Mean number of labels per row."""
    return float(_table(predicted, "the prediction").sum(1).mean())


# ---- helpers ---------------------------------------------------------------------------------------------------------


def _table(table: Indicator, name: str) -> sparse.csr_matrix:
    """A table of 0 and 1, sorted and without stored zeros."""
    try:
        found = sparse.csr_matrix(table, dtype=float, copy=True)
    except (TypeError, ValueError):
        raise VpunnError(f"{name} must be a table (rows × labels) of 0 and 1.") from None
    found.sum_duplicates()
    found.eliminate_zeros()
    if not np.isin(found.data, (1.0,)).all():
        raise VpunnError(f"{name} must hold 0 and 1, got {examples(np.unique(found.data)[:5])}.")
    if not found.shape[0]:
        raise VpunnError(f"{name} has no rows.")
    return found


def _scores(scores: Scores) -> sparse.csr_matrix:
    try:
        found = sparse.csr_matrix(scores, dtype=float, copy=True)
    except (TypeError, ValueError):
        raise VpunnError("scores must be a table of numbers (rows × labels).") from None
    found.sum_duplicates()
    if not np.isfinite(found.data).all():
        raise VpunnError("scores must be finite; some are NaN or infinite.")
    return found


def _same(a: sparse.csr_matrix, b: sparse.csr_matrix) -> None:
    if a.shape != b.shape:
        raise VpunnError(f"truth and prediction must have the same shape, got {a.shape} and {b.shape}.")


def _pair(truth: Indicator, predicted: Indicator) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    t, p = _table(truth, "truth"), _table(predicted, "the prediction")
    _same(t, p)
    return t, p


def _ratio(a: float, b: float) -> float:
    return a / b if b else 0.0


def _at(table: sparse.csr_matrix, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Which pairs of row and column a table holds."""
    width = np.int64(table.shape[1])
    mine = np.repeat(np.arange(table.shape[0], dtype=np.int64), np.diff(table.indptr)) * width + table.indices
    return np.isin(row.astype(np.int64) * width + column, mine)


def _sweep(
    truth: Indicator, scores: Scores, thresholds: Numbers
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Hits and predictions (rows × thresholds), the number of true labels of each row, and the thresholds in order."""
    t, s = _table(truth, "truth"), _scores(scores)
    _same(t, s)
    at = np.asarray(thresholds, float)
    if at.ndim != 1 or not len(at) or not np.isfinite(at).all():
        raise VpunnError("thresholds must be a list of finite numbers.")
    at = np.sort(at)
    row = np.repeat(np.arange(s.shape[0]), np.diff(s.indptr))
    right = _at(t, row, s.indices)
    passed = np.searchsorted(at, s.data, side="right")  # a score reaches the thresholds before this one
    shape = s.shape[0], len(at) + 1
    cell = row * shape[1] + passed
    said = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
    hit = np.bincount(cell[right], minlength=shape[0] * shape[1]).reshape(shape)
    reach = [table[:, ::-1].cumsum(1)[:, -2::-1].astype(float) for table in (hit, said)]
    return reach[0], reach[1], np.diff(t.indptr).astype(float), at


def _mean_precision_recall(
    hit: np.ndarray, said: np.ndarray, true: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean precision of rows that predict and recall of rows that have a label, (draws × thresholds); rows count ``counts``."""
    some, rows = (said > 0).astype(float), (true > 0).astype(float)
    precision = counts @ np.where(said > 0, hit / np.maximum(said, 1.0), 0.0) / np.maximum(counts @ some, 1e-300)
    recall = counts @ (hit / np.maximum(true, 1.0)[:, None]) / np.maximum(counts @ rows, 1e-300)[:, None]
    return precision, recall


def _harmonic(precision: np.ndarray, recall: np.ndarray) -> np.ndarray:
    return np.asarray(2 * precision * recall / np.maximum(precision + recall, 1e-300))


def _top(t: sparse.csr_matrix, scores: Scores, k: int) -> np.ndarray:
    """The k best-scored columns of each row, the first of equal ones."""
    s = _scores(scores)
    _same(t, s)
    if not isinstance(k, int | np.integer) or not 1 <= k <= s.shape[1]:
        raise VpunnError(f"k must be a whole number from 1 to the number of labels, {s.shape[1]:,}; got {k!r}.")
    out = np.empty((s.shape[0], k), np.int64)
    step = max(4_000_000 // s.shape[1], 1)
    for at in range(0, s.shape[0], step):
        dense = s[at : at + step].toarray()
        out[at : at + step] = np.argsort(-dense, axis=1, kind="stable")[:, :k]
    return out
