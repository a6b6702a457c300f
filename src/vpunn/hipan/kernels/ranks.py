"""Compiled loop that ranks candidates by columns of evidence."""

from __future__ import annotations

import numpy as np

from vpunn.hipan.kernels import kernel


def log_ranks(evidence, candidates, columns) -> np.ndarray:
    """−ln(1 + how many candidates of the row are better) by each of the columns, (rows, slots, columns); 0 for "none"."""
    rows, width = candidates.shape
    out = np.zeros((rows, width + 1, len(columns)), np.float32)
    table = -np.log(np.arange(1, width + 2)).astype(np.float32)
    _log_ranks(evidence, candidates, columns, table, np.empty(width, np.float32), out)
    return out


@kernel
def _log_ranks(evidence, candidates, columns, table, values, out):
    rows, width = candidates.shape
    for r in range(rows):
        count = 0
        while count < width and candidates[r, count] >= 0:
            count += 1
        for k in range(len(columns)):
            for j in range(count):
                values[j] = evidence[r, j, columns[k]]
            for j in range(count):
                better = 0
                for i in range(count):
                    better += values[i] > values[j]
                out[r, j, k] = table[better]
