"""The answer for rows that bring nothing the model knows: empty ones, or those of features that no training row has.

By the prior they would be answered as if nothing were known about them. But training rows that share no feature with any other
would have been such rows had they come later, and often they are of some classes rather than others: jobs with a name of their
own, records that were never filled in. Their classes are counted beside the prior, which stands for as many rows as make these
counts likeliest (Dirichlet-multinomial): few if they are unlike the prior, many if they follow it.
"""

from __future__ import annotations

import numpy as np

from vpunn.hipan._rest import down_the_largest
from vpunn.hipan._views import Rows, says
from vpunn.tree import Tree

#: Rows that the prior may stand for.
DOUBTS = 2.0 ** np.arange(12)
#: Nodes that such rows name, each with a probability of its own; all others share the rest by the prior.
NAMED = 64


def alone(rows: Rows) -> np.ndarray:
    """Which rows have no feature that another one has, and say nothing in any dense block."""
    X = rows.words
    others = np.bincount(X.indices, minlength=X.shape[1])[X.indices] > 1
    shared = np.bincount(np.repeat(np.arange(len(rows)), np.diff(X.indptr))[others], minlength=len(rows)) > 0
    for block in rows.dense.values():
        shared |= says(block)
    return ~shared


def unknown_answer(tree: Tree, prior: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes for rows that bring nothing known and their probabilities; ``count`` rows of every node were alone.

    The first is the node that lies in the most probable ball at every depth, made as probable as the most probable node, so that
    the answer never lies outside of its own most probable balls.

    >>> tree = Tree.from_paths([("a",), ("b",), ("c",)], root="all")
    >>> nodes, p = unknown_answer(tree, np.array([0.0, 0.5, 0.3, 0.2]), np.array([0, 0, 300, 0]))
    >>> tree.labels[nodes].tolist(), p.round(3).tolist()
    (['b', 'a', 'c'], [0.998, 0.002, 0.001])
    >>> unknown_answer(tree, np.array([0.0, 0.5, 0.3, 0.2]), np.zeros(4))[0].tolist()
    [1]
    """
    doubt = _likeliest_doubt(prior, count)
    share = (count + doubt * prior) / (count.sum() + doubt)
    usual = down_the_largest(tree, share)
    named = np.argsort(-share, kind="stable")[:NAMED] if count.any() else np.array([usual])
    named = np.concatenate([[usual], named[(named != usual) & (share[named] > 0)]])
    p = share[named]
    p[0] = min(float(share.max()) * (1 + 1e-9), 1.0)
    return named.astype(np.int32), p / max(float(p.sum()), 1.0)


def _likeliest_doubt(prior: np.ndarray, count: np.ndarray) -> float:
    """The doubt κ under which counts drawn by shares that are Dirichlet(κ · prior) are likeliest."""
    from scipy.special import gammaln

    met = count > 0
    base, total = DOUBTS[:, None] * prior[met], count.sum()
    likely = gammaln(DOUBTS) - gammaln(DOUBTS + total) + (gammaln(base + count[met]) - gammaln(base)).sum(1)
    return float(DOUBTS[likely.argmax()]) if met.any() else 1.0
