"""How far a word is to be trusted: rows that share *zinc finger* agree about their answers, rows that share *protein 2* do not."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from vpunn.placing.layout import unit_rows

#: Pairs of rows behind the agreement that a feature is believed to have before any are seen, and that agreement.
PAIRS, PRIOR = 4.0, 0.25
#: Power of the agreement that weighs a feature.
POWER = 0.5


def agreement(rows: sp.csr_matrix, truth: sp.csr_matrix) -> np.ndarray:
    """Weight of every feature: the mean cosine of the answers of two rows that share it, to the power of one half.

    Answers are weighed by √bits, so that agreeing on what everybody has is worth little. With u the unit vectors of the rows'
    answers and n rows, the mean over pairs is (|Σ u|² − Σ|u|²) / (n (n − 1)): one sparse product. Features of no row weigh nothing.
    """
    rate = np.asarray(truth.sum(0), np.float64).ravel() / max(truth.shape[0], 1)
    bits = np.sqrt(-np.log(np.clip(rate, 1e-9, 1.0)))
    u = sp.csr_matrix(truth.multiply(bits[None]))
    length = np.sqrt(np.asarray(u.multiply(u).sum(1)).ravel())
    u = sp.csr_matrix(sp.diags(1.0 / np.where(length > 0, length, 1.0)) @ u)
    present = sp.csr_matrix((np.ones(rows.nnz), rows.indices, rows.indptr), shape=rows.shape).T.tocsr()
    sums = sp.csr_matrix(present @ u)
    n = np.diff(present.indptr).astype(np.float64)
    own = present @ (length > 0).astype(np.float64)
    together = np.asarray(sums.multiply(sums).sum(1)).ravel() - own
    mean = (np.maximum(together, 0.0) + PAIRS * PRIOR) / (n * (n - 1.0) + PAIRS)
    return np.asarray(np.where(n > 0, mean**POWER, 0.0), np.float32)


def weighed(rows: sp.csr_matrix, trust: np.ndarray) -> sp.csr_matrix:
    """Rows with every feature times its weight, at unit length again."""
    return unit_rows(sp.csr_matrix((rows.data * trust[rows.indices], rows.indices, rows.indptr), shape=rows.shape))
