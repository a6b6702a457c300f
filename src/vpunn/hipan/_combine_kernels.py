"""The combiner's forward pass and the choice of one answer, as fixed loops: a row gives the same bits alone and in a batch."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def combine(evidence, candidates, centre, scale, linear, hidden, hidden_bias, output):
    """Scores (rows, slots) of evidence (rows, slots, width) where there is a candidate, and of the last slot; −inf elsewhere."""
    n, slots, width = evidence.shape
    units = len(output)
    columns = np.ascontiguousarray(hidden.T)  # all units advance together, one column at a time: eight sums to an instruction
    inside = np.empty(units, np.float32)
    out = np.full((n, slots), -np.inf, np.float32)
    for r in range(n):
        for j in range(slots):
            if j < slots - 1 and candidates[r, j] < 0:
                continue
            score = np.float32(0)
            inside[:] = hidden_bias
            for k in range(width):
                z = (evidence[r, j, k] - centre[k]) / scale[k]
                score += linear[k] * z
                for u in range(units):
                    inside[u] += columns[k, u] * z
            for u in range(units):
                score += output[u] * max(inside[u], np.float32(0))
            out[r, j] = score
    return out


@njit(cache=True)
def choose(candidates, probability, factor, branch, prior, prior_ball, parent, depth, typical_depth, typical, agreement):
    """For every row the node c of largest p(c) + agreement · (Σ_{B∋c} P(B)) · 2 / (depth(c) + typical depth + 2).

    Asked are the candidates and one ``typical`` node per branch (−1: none). ``factor[r, branch[v]]`` turns the prior of a
    node that is no candidate into its probability.
    """
    n_rows, width = candidates.shape
    ball = np.zeros(len(parent), np.float64)  # what the candidates add to the background of each ball around them
    listed = np.zeros(len(parent), np.bool_)
    answer = np.empty(n_rows, np.int64)
    for r in range(n_rows):
        count = 0
        while count < width and candidates[r, count] >= 0:
            c = candidates[r, count]
            listed[c] = True
            extra = probability[r, count] - factor[r, branch[c]] * prior[c]
            u = c
            while u > 0:
                ball[u] += extra
                u = parent[u]
            count += 1
        best, found = -1.0, 0
        for j in range(count + len(typical)):
            c = candidates[r, j] if j < count else typical[j - count]
            if c < 0 or (j >= count and listed[c]):
                continue
            shared = 1.0  # the root
            u = c
            while u > 0:
                shared += ball[u] + factor[r, branch[u]] * prior_ball[u]
                u = parent[u]
            p = probability[r, j] if j < count else factor[r, branch[c]] * prior[c]
            value = p + agreement * shared * 2.0 / (depth[c] + typical_depth + 2.0)
            if value > best:
                best, found = value, c
        for j in range(count):
            u = candidates[r, j]
            listed[u] = False
            while u > 0:
                ball[u] = 0.0
                u = parent[u]
        answer[r] = found
    return answer


@njit(cache=True)
def merge_best(candidates, probability, factor, prior, ranked, branch_start, k):
    """The k most probable nodes of every row and their probabilities, smaller nodes first among equals; −1 and 0 if fewer.

    Best first: within a branch the nodes that are no candidates keep the order of the prior (``ranked``), so each branch
    is read until its next node is not among the best k any more.
    """
    n_rows, width = candidates.shape
    node = np.full((n_rows, k), -1, np.int64)
    value = np.zeros((n_rows, k), np.float64)
    listed = np.zeros(len(prior), np.bool_)
    for r in range(n_rows):
        filled = 0
        for j in range(width):
            c = candidates[r, j]
            if c < 0:
                break
            listed[c] = True
            filled, _ = _enter(node[r], value[r], filled, c, probability[r, j])
        for b in range(len(branch_start) - 1):
            for i in range(branch_start[b], branch_start[b + 1]):
                c = ranked[i]
                if listed[c]:
                    continue
                if prior[c] == 0:
                    break
                filled, entered = _enter(node[r], value[r], filled, c, factor[r, b] * prior[c])
                if not entered:
                    break
        for j in range(width):
            c = candidates[r, j]
            if c < 0:
                break
            listed[c] = False
    return node, value


@njit(cache=True)
def _enter(node, value, filled, c, p):
    """Put node ``c`` into the sorted list if it belongs there; returns how many are listed and whether it does."""
    place = filled
    if filled == len(node):
        place = filled - 1
        if p < value[place] or (p == value[place] and c > node[place]):
            return filled, False
    else:
        filled += 1
    while place > 0 and (value[place - 1] < p or (value[place - 1] == p and node[place - 1] > c)):
        value[place], node[place] = value[place - 1], node[place - 1]
        place -= 1
    value[place], node[place] = p, c
    return filled, True
