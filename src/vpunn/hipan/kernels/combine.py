"""The combiner's forward pass as fixed loops: a row gives the same bits alone and in a batch."""

from __future__ import annotations

import numpy as np

from vpunn.hipan.kernels import kernel


def combine(evidence, candidates, centre, scale, linear, hidden, hidden_bias, output) -> np.ndarray:
    """Scores (rows, slots) of evidence (rows, slots, width) where there is a candidate, and of the last slot; −inf elsewhere."""
    out = np.full(evidence.shape[:2], -np.inf, np.float32)
    columns = np.ascontiguousarray(hidden.T)
    _combine(evidence, candidates, centre, scale, linear, columns, hidden_bias, output, np.empty_like(output), out)
    return out


@kernel
def _combine(evidence, candidates, centre, scale, linear, columns, hidden_bias, output, inside, out):
    """All units advance together, one column at a time: eight sums to an instruction."""
    n, slots, width = evidence.shape
    units = len(output)
    for r in range(n):
        for j in range(slots):
            if j < slots - 1 and candidates[r, j] < 0:
                continue
            score = np.float32(0)
            for u in range(units):
                inside[u] = hidden_bias[u]
            for k in range(width):
                z = (evidence[r, j, k] - centre[k]) / scale[k]
                score += linear[k] * z
                for u in range(units):
                    inside[u] += columns[k, u] * z
            for u in range(units):
                score += output[u] * max(inside[u], np.float32(0))
            out[r, j] = score
