"""The combiner's forward pass as fixed loops, so that a row scores the same alone and in a batch."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def combine(evidence, centre, scale, linear, hidden, hidden_bias, output):
    """Scores (rows, slots) of evidence (rows, slots, width)."""
    n, slots, width = evidence.shape
    units = len(output)
    out = np.empty((n, slots), np.float32)
    z = np.empty(width, np.float32)
    for r in range(n):
        for j in range(slots):
            score = np.float32(0)
            for k in range(width):
                z[k] = (evidence[r, j, k] - centre[k]) / scale[k]
                score += linear[k] * z[k]
            for u in range(units):
                inside = hidden_bias[u]
                for k in range(width):
                    inside += hidden[u, k] * z[k]
                if inside > 0:
                    score += output[u] * inside
            out[r, j] = score
    return out
