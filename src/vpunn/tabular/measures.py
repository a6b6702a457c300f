"""Is generated data like real data? Kernel two-sample distance with a floor and a test, and a classifier's AUC."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vpunn.errors import VpunnError


def median_bandwidth(rows: np.ndarray, most: int = 2000, seed: int = 0) -> float:
    """Median distance between (up to ``most``) rows: choose it once, on training rows, and keep it for every comparison."""
    from scipy.spatial.distance import pdist

    if len(rows) > most:
        rows = rows[np.random.default_rng(seed).choice(len(rows), most, replace=False)]
    gap = pdist(rows)
    found = float(np.median(gap)) if len(gap) else 0.0
    if not found > 0:
        raise VpunnError("more than half of the rows are equal, so the median distance is 0; give a bandwidth instead.")
    return found


@dataclass(frozen=True)
class Discrepancy:
    """``mmd`` is √max(MMD², 0), ``squared`` the unbiased estimate (it may be negative), ``p_value`` from permutations."""

    mmd: float
    squared: float
    p_value: float


def mmd(a: np.ndarray, b: np.ndarray, bandwidth: float, permutations: int = 0, seed: int = 0) -> Discrepancy:
    """Maximum mean discrepancy of two samples under k(x, y) = exp(−‖x − y‖² / 2·bandwidth²).

    MMD² = mean k(a, a') + mean k(b, b') − 2 mean k(a, b), without the diagonal (unbiased). With ``permutations`` the
    p-value is the share of relabellings at least as far apart, counting the real one. O((n+m)²) time and memory.

    >>> random = np.random.default_rng(0)
    >>> same = mmd(random.normal(size=(200, 2)), random.normal(size=(200, 2)), 1.0, permutations=99)
    >>> apart = mmd(random.normal(size=(200, 2)), 1 + random.normal(size=(200, 2)), 1.0, permutations=99)
    >>> same.p_value > 0.05, apart.p_value, apart.mmd > 5 * same.mmd
    (True, 0.01, True)
    """
    n, m = len(a), len(b)
    if n < 2 or m < 2 or not bandwidth > 0:
        raise VpunnError(
            f"MMD needs two samples of at least 2 rows and a positive bandwidth; got {n}, {m} and {bandwidth}."
        )
    both = np.concatenate([a, b])
    square = (both**2).sum(axis=1)
    kernel = np.exp(-np.maximum(square[:, None] + square[None] - 2.0 * both @ both.T, 0.0) / (2.0 * bandwidth**2))
    np.fill_diagonal(kernel, 0.0)
    sign = np.concatenate([np.ones(n), np.zeros(m)])
    whole = float(kernel.sum())

    def squared(first: np.ndarray) -> np.ndarray:
        """MMD² for columns of 0/1 membership in the first sample; all from two products with the kernel."""
        inner = kernel @ first
        aa = (first * inner).sum(axis=0)
        ab = inner.sum(axis=0) - aa
        bb = whole - aa - 2.0 * ab
        return np.asarray(aa / (n * (n - 1)) + bb / (m * (m - 1)) - 2.0 * ab / (n * m))

    found = float(squared(sign[:, None])[0])
    p_value = float("nan")
    if permutations:
        random = np.random.default_rng(seed)
        shuffled = np.column_stack([random.permutation(sign) for _ in range(permutations)])
        p_value = (1 + int((squared(shuffled) >= found).sum())) / (permutations + 1)
    return Discrepancy(float(np.sqrt(max(found, 0.0))), found, p_value)


def two_sample_auc(real: np.ndarray, other: np.ndarray, folds: int = 5, seed: int = 0) -> float:
    """Cross-validated AUC of a gradient-boosted classifier that tells two samples apart: 0.5 cannot, 1.0 always.

    Equal rows stay in one fold, so that a copied row cannot be recognised.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import StratifiedGroupKFold

    rows = np.concatenate([real, other])
    label = np.repeat([0, 1], [len(real), len(other)])
    _, group = np.unique(np.nan_to_num(rows, nan=-1e300), axis=0, return_inverse=True)
    score = np.empty(len(rows))
    for train, test in StratifiedGroupKFold(folds, shuffle=True, random_state=seed).split(rows, label, group.ravel()):
        model = HistGradientBoostingClassifier(max_iter=100, random_state=seed).fit(rows[train], label[train])
        score[test] = model.predict_proba(rows[test])[:, 1]
    return float(roc_auc_score(label, score))


@dataclass(frozen=True)
class Mahalanobis:
    """Distance under the (weighted) covariance of training rows (scaled matrix); never below any one column's gap in s.d.

    >>> random = np.random.default_rng(0)
    >>> rows = random.normal(size=(500, 2)) @ [[1.0, 0.8], [0.0, 0.6]]
    >>> metric = Mahalanobis.of(rows)
    >>> one, two = np.zeros((1, 2)), np.array([[0.0, 2.0]])
    >>> bool(metric(one, two)[0] >= 2.0 / rows[:, 1].std())
    True
    """

    inverse: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, weights: np.ndarray | None = None) -> Mahalanobis:
        """The distance that these rows make."""
        covariance = np.atleast_2d(np.cov(rows, rowvar=False, bias=True, aweights=weights))
        # the pseudo-inverse leaves out directions in which the training rows do not vary at all
        return cls(np.linalg.pinv(covariance, rcond=1e-10, hermitian=True))

    def __call__(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        gap = np.asarray(a) - np.asarray(b)
        return np.asarray(np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", gap, self.inverse, gap), 0.0)))
