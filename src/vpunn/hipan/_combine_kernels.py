"""The combiner's forward pass and the choice of one answer, as fixed loops: a row gives the same bits alone and in a batch."""

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


@njit(cache=True)
def choose(candidates, probability, spread, prior, prior_ball, parent, depth, typical_depth, fallback, agreement):
    """For every row the candidate of largest p(c) + agreement · (Σ_{B∋c} P(B)) · 2 / (depth(c) + typical depth + 2)."""
    n_rows, width = candidates.shape
    ball = np.zeros(len(parent), np.float64)
    answer = np.empty(n_rows, np.int64)
    for r in range(n_rows):
        for j in range(width):
            u = candidates[r, j]
            while u >= 0:  # what the candidates add to the background of each ball around them
                ball[u] += probability[r, j] - spread[r] * prior[candidates[r, j]]
                u = parent[u]
        best, found = -1.0, fallback
        for j in range(width):
            c = candidates[r, j]
            if c < 0:
                break
            shared = 0.0
            u = c
            while u >= 0:
                shared += ball[u] + spread[r] * prior_ball[u]
                u = parent[u]
            value = probability[r, j] + agreement * shared * 2.0 / (depth[c] + typical_depth + 2.0)
            if value > best:
                best, found = value, c
        for j in range(width):
            u = candidates[r, j]
            while u >= 0:
                ball[u] = 0.0
                u = parent[u]
        answer[r] = found
    return answer
