"""Compiled walks along the balls around the candidates: what a ball holds, the deepest sure one, the best of a depth.

The probability of a ball is that of the candidates in it and its part of the rest: a number of the chain for the balls around the
best candidate, else its free prior times the factor of the ring in which it lies (`rest`). So only chains are walked, and balls
that are likely enough to matter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vpunn.hipan._arrays import filled
from vpunn.hipan.kernels import helper, kernel

#: A ball may be less probable than one inside of it by a rounding error; it is still walked through.
ALMOST = 1.0 - 1e-9


class Marks(NamedTuple):
    """Of every ball: probability and prior of the candidates in it, and k for the k-th ball of the chain below the root; of every
    node: whether it is a candidate. All zero between rows."""

    held: np.ndarray
    level: np.ndarray
    listed: np.ndarray

    @classmethod
    def of(cls, room, n_nodes) -> Marks:
        """Those of a room."""
        return cls(
            room.full("held", (n_nodes, 2), np.float64),
            room.full("level", n_nodes, np.int32),
            room.full("listed", n_nodes, np.bool_),
        )


@helper
def _mark(answer, r, prior, parent, chain, marks):
    """Mark the balls around the candidates of a row; returns how many candidates it has."""
    candidates, probability = answer
    count = 0
    while count < candidates.shape[1] and candidates[r, count] >= 0:
        u = candidates[r, count]
        p, q = probability[r, count], prior[u]
        marks.listed[u] = True
        while u > 0:
            marks.held[u, 0] += p
            marks.held[u, 1] += q
            u = parent[u]
        count += 1
    for k in range(1, chain.shape[1]):
        if chain[r, k] < 0:
            break
        marks.level[chain[r, k]] = k
    return count


@helper
def _unmark(answer, r, count, parent, chain, marks):
    for j in range(count):
        u = answer.candidates[r, j]
        marks.listed[u] = False
        while u > 0:
            marks.held[u, 0] = 0.0
            marks.held[u, 1] = 0.0
            u = parent[u]
    for k in range(1, chain.shape[1]):
        if chain[r, k] < 0:
            break
        marks.level[chain[r, k]] = 0


@helper
def _around(c, r, shares, parent, rest, marks):
    """What turns the prior of a node into its probability: the factor of the ring in which it lies."""
    u = c
    while u > 0 and marks.level[u] == 0:
        u = parent[u]
    return rest.factor[r, marks.level[u]] if u > 0 else rest.outer[r, shares.branch[c]]


@helper
def _ball(u, r, around, shares, rest, marks):
    """Probability of a ball below the root."""
    k = marks.level[u]
    free = max(shares.ball[u] - marks.held[u, 1], 0.0)
    return marks.held[u, 0] + (rest.inside[r, k] if k else around * free)


class Wish(NamedTuple):
    """What `choose` maximises: see there."""

    typical: np.ndarray
    typical_depth: float
    agreement: float


def choose(answer, shares, tree, rest, wish, likeliest, room) -> np.ndarray:
    """For every row the node c of largest p(c) + agreement · (Σ_{B∋c} P(B)) · 2 / (depth(c) + typical depth + 2).

    Asked are the candidates, the ``likeliest`` node of the row and one ``typical`` node per branch (−1: none).
    """
    chosen = np.empty(len(answer.candidates), np.int64)
    _choose(answer, shares, tree, rest, wish, likeliest, Marks.of(room, len(tree.parent)), chosen)
    return chosen


@kernel
def _choose(answer, shares, tree, rest, wish, likeliest, marks, chosen):
    (candidates, probability), (parent, depth, _) = answer, tree
    for r in range(len(chosen)):
        count = _mark(answer, r, shares.prior, parent, rest.chain, marks)
        best, found = -1.0, 0
        for j in range(count + 1 + len(wish.typical)):
            c = likeliest[r] if j == count else candidates[r, j] if j < count else wish.typical[j - count - 1]
            if c < 0 or (j >= count and marks.listed[c]):
                continue
            around = _around(c, r, shares, parent, rest, marks)
            shared = 1.0  # the root
            u = c
            while u > 0:
                shared += _ball(u, r, around, shares, rest, marks)
                u = parent[u]
            p = probability[r, j] if j < count else around * shares.prior[c]
            value = p + wish.agreement * shared * 2.0 / (depth[c] + wish.typical_depth + 2.0)
            if value > best:
                best, found = value, c
        _unmark(answer, r, count, parent, rest.chain, marks)
        chosen[r] = found


def along(answer, shares, tree, rest, nodes, room) -> tuple[np.ndarray, np.ndarray]:
    """The balls around one node per row, root first, −1 padded, and their probabilities, both (rows, depth + 1)."""
    balls = filled(rest.chain.shape, -1, np.int64)
    out = np.zeros(balls.shape)
    _along(answer, shares, tree, rest, nodes, balls, out)
    return balls, out


@kernel
def _along(answer, shares, tree, rest, nodes, balls, out):
    """What `_ball` gives, asked for a few balls only: the candidates in each are looked up, not marked."""
    (candidates, probability), (prior, ball, branch), (chain, inside, factor, outer) = answer, shares, rest
    parent, depth, size = tree
    for r in range(len(out)):
        node = nodes[r]
        deep, last, u = 0, depth[node], node  # of the chain's balls that lie around the node, and of its own
        for k in range(last, -1, -1):
            balls[r, k] = u
            u = parent[u]
        while (
            deep + 1 < chain.shape[1]
            and 0 <= chain[r, deep + 1] <= node < chain[r, deep + 1] + size[chain[r, deep + 1]]
        ):
            deep += 1
        around = factor[r, deep] if deep else outer[r, branch[node]]
        out[r, 0] = 1.0
        for k in range(1, last + 1):
            u = balls[r, k]
            p, q = 0.0, 0.0
            for j in range(candidates.shape[1]):
                if u <= candidates[r, j] < u + size[u]:
                    p += probability[r, j]
                    q += prior[candidates[r, j]]
            p += inside[r, k] if k <= deep else around * max(ball[u] - q, 0.0)
            out[r, k] = min(p, 1.0)


def deepest(answer, shares, tree, rest, threshold, room) -> np.ndarray:
    """The deepest ball with probability ≥ threshold, the more probable of equally deep ones, the first of equally probable ones."""
    return _walked(answer, shares, tree, rest, float(threshold), -1, room)


def at_depth(answer, shares, tree, rest, depth, room) -> np.ndarray:
    """The most probable of the balls of a depth and of the nodes above that stop there."""
    return _walked(answer, shares, tree, rest, 0.0, int(depth), room)


def _walked(answer, shares, tree, rest, threshold, cut, room) -> np.ndarray:
    n_nodes = len(tree.parent)
    chosen = np.empty(len(answer.candidates), np.int64)
    stack = room.empty("walk", n_nodes, np.int64), room.empty("walk around", n_nodes, np.float64)
    _walk(answer, shares, tree, rest, threshold, cut, Marks.of(room, n_nodes), stack, chosen)
    return chosen


@kernel
def _walk(answer, shares, tree, rest, threshold, cut, marks, stack, chosen):
    """Down from the root into every ball that is likely enough: at least the threshold, or (``cut`` ≥ 0) the best value so far."""
    (parent, depth, size), (waiting, ring) = tree, stack
    for r in range(len(chosen)):
        count = _mark(answer, r, shares.prior, parent, rest.chain, marks)
        best, found, least = 0.0, 0, threshold
        if cut >= 0:
            least = _first_guess(answer, r, count, shares, tree, rest, cut, marks)
            best = (
                1.0 if cut == 0 else _exactly(answer, r, count, 0, rest.outer[r, shares.branch[0]], shares.prior, marks)
            )
        waiting[0], left = 0, 1 if cut != 0 else 0
        while left:
            left -= 1
            u, around = waiting[left], ring[left]
            stop = u + size[u]
            v = u + 1
            while v < stop:
                k = marks.level[u]
                factor = (rest.factor[r, k] if k else rest.outer[r, shares.branch[v]]) if k or u == 0 else around
                p = _ball(v, r, factor, shares, rest, marks)
                if p >= least * ALMOST:
                    if cut < 0:
                        value = depth[v] + 0.5 * min(p, 1.0) if p >= least else 0.0
                    elif depth[v] == cut:
                        value = p
                    else:
                        own = rest.factor[r, marks.level[v]] if marks.level[v] else factor
                        value = _exactly(answer, r, count, v, own, shares.prior, marks)
                    if value > best or (value == best and v < found):
                        best, found = value, v
                    if cut >= 0:
                        least = max(least, best)
                    if size[v] > 1 and (cut < 0 or depth[v] < cut):
                        waiting[left], ring[left] = v, factor
                        left += 1
                v += size[v]
        _unmark(answer, r, count, parent, rest.chain, marks)
        chosen[r] = found


@helper
def _exactly(answer, r, count, u, factor, prior, marks):
    """Probability of the node itself."""
    if not marks.listed[u]:
        return factor * prior[u]
    p = 0.0
    for j in range(count):
        if answer.candidates[r, j] == u:
            p = answer.probability[r, j]
    return p


@helper
def _first_guess(answer, r, count, shares, tree, rest, cut, marks):
    """A value that the best of a depth has at least: that of the candidates' own balls."""
    (candidates, probability), best = answer, 0.0
    for j in range(count):
        c = candidates[r, j]
        if tree.depth[c] < cut:
            best = max(best, probability[r, j])
            continue
        around = _around(c, r, shares, tree.parent, rest, marks)
        while tree.depth[c] > cut:
            c = tree.parent[c]
        if c > 0:
            best = max(best, _ball(c, r, around, shares, rest, marks))
    return best
