"""How far up to go so that the answer contains the truth: split conformal prediction on the chain of balls.

The answers for one row are the balls around its predicted node, from that node up to the root: a nested family.
A row's score is the probability of the largest ball on the chain that misses the truth (0 if none does). Going
up until the ball's probability *exceeds* the ⌈(n+1)(1−α)⌉-th smallest calibration score covers the truth with probability
at least 1 − α whenever calibration rows and new rows are exchangeable, whatever the quality of the probabilities.
"""

from __future__ import annotations

import numpy as np

from vpunn.errors import VpunnError
from vpunn.hipan.distribution import NodeDistribution


def miss_scores(posterior: NodeDistribution, truth: np.ndarray, which: np.ndarray | None = None) -> np.ndarray:
    """For every row the probability of the largest ball on its chain that misses the truth; ``which`` row of the distributions
    each has, if several have one."""
    balls, p = posterior.chain(posterior.best())
    if which is not None:
        balls, p = balls[which], p[which]
    tree = posterior.tree
    misses = (balls >= 0) & ~((truth[:, None] >= balls) & (truth[:, None] < balls + tree.size[balls]))
    return np.asarray(np.where(misses, p, 0.0).max(1))


def of_equal_weight(scores: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Scores of rows that stand for more or fewer rows, as scores that count alike: as many of their quantiles as they are worth.

    Weighted scores are worth (Σw)² / Σw² equal ones (Kish), so that the rank among them leaves room for what is not known.

    >>> of_equal_weight(np.array([0.2, 0.7, 0.1, 0.0]), np.array([1.0, 2.0, 1.0, 1.0])).tolist()
    [0.0, 0.2, 0.7]
    """
    weight = weight.astype(np.float64)
    if not len(weight) or (weight == weight[0]).all():
        return scores
    order = np.argsort(scores, kind="stable")
    up_to = np.cumsum(weight[order])
    worth = max(int(up_to[-1] ** 2 / (weight @ weight)), 1)
    return np.asarray(scores[order][np.searchsorted(up_to, (np.arange(worth) + 0.5) / worth * up_to[-1])])


def conformal_threshold(scores: np.ndarray, alpha: float) -> float:
    """The ⌈(n+1)(1−α)⌉-th smallest score; 1 (answer the root) when there are too few rows for this α.

    >>> conformal_threshold(np.array([0.0, 0.0, 0.2, 0.7]), 0.25)
    0.7
    >>> conformal_threshold(np.array([0.0, 0.0, 0.2, 0.7]), 0.1)
    1.0
    """
    if not isinstance(alpha, int | float | np.integer | np.floating) or not 0 < alpha < 1:
        raise VpunnError(f"alpha is the accepted risk, a number between 0 and 1; got {alpha!r}.")
    rank = int(np.ceil((len(scores) + 1) * (1 - alpha)))
    return 1.0 if rank > len(scores) else float(np.sort(scores)[rank - 1])


def cautious_nodes(posterior: NodeDistribution, threshold: float) -> np.ndarray:
    """The smallest ball around each row's predicted node whose probability exceeds the threshold, else the root."""
    balls, p = posterior.chain(posterior.best())
    sure = (p > threshold) & (balls >= 0)
    sure[:, 0] = True
    deepest = sure.shape[1] - 1 - sure[:, ::-1].argmax(1)
    return np.take_along_axis(balls, deepest[:, None], 1)[:, 0]
