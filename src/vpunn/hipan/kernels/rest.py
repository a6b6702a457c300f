"""Compiled loops over the rings around the best candidate, and exact questions to a distribution spread over them.

Every ball is one slice of the nodes in preorder, so a ring is two slices and a depth-1 ball is one. Priors are multiples of
2⁻⁵⁰ (`rest.rounded`), so that sums of them over slices, and differences of those, are exact.
"""

from __future__ import annotations

import numpy as np

from vpunn.hipan._arrays import filled
from vpunn.hipan.kernels import at, helper, kernel

#: Share of the candidates' probability that is added on both sides of a step inwards.
DAMPING = 0.02
#: No step is surer than these log-odds.
FARTHEST = 30.0


def measure_rings(answer, tilt, shares, below, share, tree, deepest) -> tuple[np.ndarray, ...]:
    """Chain of balls, free prior of rings and of the next balls, and votes; see `rest.Rings`."""
    n_rows = len(answer.candidates)
    chain = filled((n_rows, deepest + 1), -1, np.int32)
    ring, core, vote = np.zeros((3, n_rows, deepest + 1))
    free, votes = np.empty((2, deepest + 1))
    _measure_rings(
        answer, tilt, shares, below, share, tree, (free, votes, np.empty(len(share))), (chain, ring, core, vote)
    )
    return chain, ring, core, vote


@kernel
def _measure_rings(answer, tilt, shares, below, share, tree, work, rings):
    (candidates, probability), (free, votes, branch_free), (chain, ring, core, vote) = answer, work, rings
    (prior, _, branch), (parent, depth, size) = shares, tree
    n_rows, width = candidates.shape
    for r in range(n_rows):
        best = 0
        for j in range(1, width):
            if candidates[r, j] >= 0 and probability[r, j] > probability[r, best]:
                best = j
        node = candidates[r, best] if width and candidates[r, 0] >= 0 else 0
        if size[node] == 1 and node > 0:  # nothing but the candidate itself lies in the last ball
            node = parent[node]
        last = depth[node]
        for k in range(last, -1, -1):
            chain[r, k] = node
            free[k] = below[node + size[node]] - below[node]
            votes[k] = 0.0
            node = parent[node]
        for b in range(len(share)):
            branch_free[b] = share[b]
        for j in range(width):
            c = candidates[r, j]
            if c < 0:
                break
            branch_free[branch[c]] -= prior[c]
            for k in range(last + 1):
                u = chain[r, k]
                if c < u or c >= u + size[u]:
                    break
                free[k] -= prior[c]
                votes[k] += probability[r, j]
        doubt = DAMPING * votes[0] + 1e-12
        for k in range(last):
            core[r, k] = free[k + 1]
            ring[r, k] = free[k] - free[k + 1]
            vote[r, k] = np.log((votes[k + 1] + doubt) / (votes[k] - votes[k + 1] + doubt))
        ring[r, last] = free[last]
        if last > 0:
            first = branch[chain[r, 1]]
            core[r, 0] *= tilt[r, first]
            branch_free[first] -= free[1]
        ring[r, 0] = 0.0  # branches differ
        for b in range(len(share)):
            ring[r, 0] += tilt[r, b] * branch_free[b]


def spread_rings(rings, rest, tilt, weights, by_prior, unknown) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rest mass in every ball of the chain, factors of the rings, and those of ring 0 for each branch; see `rest.Rest`."""
    inside, factor = np.empty((2, *rings.ring.shape))
    outer = np.empty(tilt.shape)
    _spread_rings(rings, rest, tilt, (weights, by_prior), unknown, (inside, factor, outer))
    return inside, factor, outer


@kernel
def _spread_rings(rings, rest, tilt, weights, unknown, out):
    (_, ring, core, vote), (learned, by_prior), (inside, factor, outer) = rings, weights, out
    for r in range(len(ring)):
        share = 1.0
        for k in range(ring.shape[1]):
            inside[r, k] = share * rest[r]
            inward = 1.0 if core[r, k] > 0 else 0.0
            if core[r, k] > 0 and ring[r, k] > 0:
                w = by_prior[min(k, 1)] if unknown[r] else learned[min(k, 1)]
                x = w[0] + w[1] * vote[r, k] + w[2] * np.log(core[r, k] / ring[r, k])
                inward = 1.0 / (1.0 + np.exp(-min(max(x, -FARTHEST), FARTHEST)))
            factor[r, k] = inside[r, k] * (1.0 - inward) / ring[r, k] if ring[r, k] > 0 else 0.0
            share *= inward
        for b in range(tilt.shape[1]):
            outer[r, b] = factor[r, 0] * tilt[r, b]


@kernel
def fill_masses(answer, shares, size, rest, dense):
    """Write the probability of every node: ring by ring from the outside, then the candidates."""
    (candidates, probability), (prior, _, branch), (chain, _, factor, outer) = answer, shares, rest
    for r in range(len(dense)):
        for v in range(len(prior)):
            dense[r, v] = outer[r, at(branch[v])] * prior[v]
        for k in range(1, chain.shape[1]):
            u = chain[r, k]
            if u < 0:
                break
            for v in range(u, u + size[u]):
                dense[r, v] = factor[r, k] * prior[v]
        for j in range(candidates.shape[1]):
            if candidates[r, j] < 0:
                break
            dense[r, candidates[r, j]] = probability[r, j]


def merge_best(answer, peaks, edges, size, rest, k, room) -> tuple[np.ndarray, np.ndarray]:
    """The k most probable nodes of every row and their probabilities, smaller nodes first among equals; −1 and 0 if fewer.

    Best first: nodes that are no candidates keep the order of the prior within a slice of one ring, so a slice is split
    at its likeliest node (``peaks``: a tree of maxima) only while that node is among the best k.
    """
    n_rows, width = answer.candidates.shape
    node = filled((n_rows, k), -1, np.int64)
    value = np.zeros((n_rows, k), np.float64)
    listed = room.full("listed", len(size), np.bool_)
    deep = 2 * (len(edges) + rest.chain.shape[1]) + 4 * (k + width) + 64
    stack = room.empty("slice from", deep, np.int64), room.empty("slice to", deep, np.int64)
    _merge_best(answer, peaks, edges, size, rest, listed, (*stack, room.empty("share", deep, np.float64)), node, value)
    return node, value


@kernel
def _merge_best(answer, peaks, edges, size, rest, listed, stack, node, value):
    (candidates, probability), (lows, highs, shares) = answer, stack
    half, k = len(peaks) // 2, node.shape[1]
    for r in range(len(node)):
        waiting = _slices(r, edges, size, rest, stack)
        filled, j, share = 0, 0, 0.0
        while j < candidates.shape[1] and candidates[r, j] >= 0:
            listed[candidates[r, j]] = True
            j += 1
        count = j
        while j or waiting:
            if j:  # the candidates first
                j -= 1
                c, p, low, high = np.int64(candidates[r, j]), probability[r, j], np.int64(0), np.int64(0)
            else:
                waiting -= 1
                low, high, share = lows[waiting], highs[waiting], shares[waiting]
                c = _likeliest(peaks, low, high)
                p = share * peaks[half + c]
                if not peaks[half + c] > 0:
                    continue
            if low == high or not listed[c]:
                place = filled
                if filled == k:
                    place = filled - 1
                    if not p >= value[r, place] or (
                        p == value[r, place] and c > node[r, place]
                    ):  # also what is no number
                        continue
                else:
                    filled += 1
                while place > 0 and (value[r, place - 1] < p or (value[r, place - 1] == p and node[r, place - 1] > c)):
                    value[r, place], node[r, place] = value[r, place - 1], node[r, place - 1]
                    place -= 1
                value[r, place], node[r, place] = p, c
            if low == high or waiting + 2 > len(
                lows
            ):  # the latter cannot happen while factors are numbers of at least zero
                continue
            if c + 1 < high:
                lows[waiting], highs[waiting], shares[waiting] = c + 1, high, share
                waiting += 1
            if low < c:
                lows[waiting], highs[waiting], shares[waiting] = low, c, share
                waiting += 1
        for j in range(count):
            listed[candidates[r, j]] = False


@helper
def _slices(r, edges, size, rest, stack):
    """List the slices of nodes that share one factor: of every branch, then of every ball of the chain, what is outside of the next
    ball of the chain; returns how many."""
    (chain, _, factor, outer), (lows, highs, shares) = rest, stack
    count, branches = 0, len(edges) - 1
    for i in range(branches + chain.shape[1] - 1):
        level = max(i - branches + 1, 0)
        if level == 0:
            start, stop, share = edges[i], edges[i + 1], outer[r, i]
        else:
            start, share = np.int64(chain[r, level]), factor[r, level]
            if start < 0:
                break
            stop = start + size[start]
        low, high = stop, stop
        if level + 1 < chain.shape[1] and chain[r, level + 1] >= 0:
            low = np.int64(chain[r, level + 1])
            high = low + size[low]
        for side in range(2):
            first, end = (start, min(stop, low)) if side == 0 else (max(start, high), stop)
            if first < end:
                lows[count], highs[count], shares[count] = first, end, share
                count += 1
    return count


@helper
def _likeliest(peaks, low, high):
    """First position of the largest value in [low, high): ``peaks[i]`` is the larger of ``peaks[2i]`` and ``peaks[2i + 1]``."""
    half = len(peaks) // 2
    left, right = low + half, high + half
    best, top = left, peaks[left]
    right_best, right_top = 0, -1.0
    while left < right:
        if left & 1:
            if peaks[left] > top:
                best, top = left, peaks[left]
            left += 1
        if right & 1:
            right -= 1
            if peaks[right] >= right_top:
                right_best, right_top = right, peaks[right]
        left >>= 1
        right >>= 1
    if right_top > top:
        best = right_best
    while best < half:
        best = 2 * best if peaks[2 * best] >= peaks[2 * best + 1] else 2 * best + 1
    return best - half
