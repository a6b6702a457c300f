"""Head weights: one sparse block per ball, trained by softmax over hard candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from vpunn.hipan.balls import PROPOSING, Balls, writable

OWN_RATE, BALL_RATE, BIAS_RATE = np.float32(2.0), np.float32(1.0), np.float32(0.1)


@dataclass
class Heads:
    """Weights of all (ball, feature) entries and biases of all balls, with AdaGrad's sums of squared gradients."""

    weight: np.ndarray
    bias: np.ndarray
    energy: np.ndarray
    bias_energy: np.ndarray

    def __post_init__(self) -> None:
        self.weight, self.bias = writable(self.weight), writable(self.bias)

    def __reduce__(self) -> tuple[Any, ...]:
        return Heads, (self.weight, self.bias, self.energy, self.bias_energy)

    @classmethod
    def zeros(cls, balls: Balls) -> Heads:
        """Untrained heads."""
        n, blocks = balls.n_entries, 2 * balls.tree.n_nodes
        return cls(np.zeros(n, np.float32), np.zeros(blocks, np.float32), np.ones(n, np.float32), np.ones(blocks, np.float32))

    def carried(self, old: Balls, new: Balls) -> Heads:
        """The same weights in the layout of ``new``, a model of the same tree with more rows; new entries start at zero."""
        heads = Heads.zeros(new)
        place = np.searchsorted(new.keys(), old.keys())
        heads.weight[place], heads.energy[place] = self.weight, self.energy
        heads.bias, heads.bias_energy = self.bias.copy(), self.bias_energy.copy()
        return heads

    def rounded(self) -> Heads:
        """Weights as they are stored: half precision, so that a loaded model equals the saved one bit for bit."""
        small = self.weight.astype(np.float16).astype(np.float32)
        return Heads(small, self.bias.astype(np.float16).astype(np.float32), self.energy, self.bias_energy)


def propose_for_items(balls: Balls, limit: int) -> np.ndarray:
    """The classes nearest to each training row by coverage · cosine, the row itself left out of its class."""
    return _nearest(balls, balls.items.X, balls.items.node, balls.items.weight, limit)


def _nearest(balls: Balls, X: sparse.csr_matrix, own: np.ndarray, weight: np.ndarray, limit: int) -> np.ndarray:
    from vpunn.hipan import _kernels

    return _kernels.propose_by_centroid(
        X.indptr, X.indices, X.data, own, weight, balls.feature_start, balls.entry_block, balls.entry_sum, balls.norm2,
        balls.tree.n_nodes, min(limit, len(balls.classes)), PROPOSING,
    )


def propose(balls: Balls, heads: Heads, X: sparse.csr_matrix, limit: int) -> np.ndarray:
    """Candidates of every row (−1 padded): the best by coverage · cosine, then the best by head score."""
    new = np.full(X.shape[0], -1, np.int32)
    first = _nearest(balls, X, new, np.zeros(X.shape[0], np.float32), limit)
    return add_by_heads(balls, heads, X, first, limit)


def add_by_heads(balls: Balls, heads: Heads, X: sparse.csr_matrix, first: np.ndarray, limit: int) -> np.ndarray:
    """The given candidates and, behind them, the best ``limit`` classes by head score."""
    from vpunn.hipan import _kernels

    return _kernels.propose_by_heads(
        X.indptr, X.indices, X.data, balls.parent, balls.inner, balls.feature_start, balls.entry_block, heads.weight,
        heads.bias, min(limit, len(balls.classes)), PROPOSING, first,
    )


def train_pass(balls: Balls, heads: Heads, candidates: np.ndarray, order: np.ndarray) -> float:
    """One pass over the items in ``order``; ``candidates`` has a row per item. Returns the mean loss met on the way."""
    from vpunn.hipan import _kernels

    X = balls.items.X
    return _kernels.train_heads(
        X.indptr, X.indices, X.data, balls.items.node, balls.items.weight, candidates, balls.parent, balls.inner,
        balls.tree.max_depth, balls.feature_start, balls.entry_block, balls.dense_row, balls.dense_entry,
        heads.weight, heads.energy, heads.bias, heads.bias_energy, order, OWN_RATE, BALL_RATE, BIAS_RATE,
    )


def gather(balls: Balls, heads: Heads, X: sparse.csr_matrix, candidates: np.ndarray, smoothing: float) -> np.ndarray:
    """Evidence (rows, candidates + 1, columns) for the candidates; see `combiner.EVIDENCE`."""
    from vpunn.hipan import _kernels

    memory, text = balls.items.X, balls.descriptions
    return _kernels.gather_evidence(
        X.indptr, X.indices, X.data, candidates, balls.parent, balls.depth, balls.inner,
        balls.n_children, balls.tree.max_depth, balls.feature_start, balls.entry_block, balls.entry_sum, heads.weight,
        heads.bias, balls.dense_row, balls.dense_entry, balls.norm2, balls.mass, balls.counts, balls.background,
        np.float32(smoothing), balls.use_likelihood, balls.class_start, balls.class_items,
        memory.indptr, memory.indices, memory.data, text.indptr, text.indices, text.data,
    )
