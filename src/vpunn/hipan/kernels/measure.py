"""Compiled loops of the learned measure: the nearest of all items, and what they say about candidates."""

from __future__ import annotations

import numpy as np

from vpunn.hipan._arrays import filled
from vpunn.hipan.kernels import kernel
from vpunn.hipan.kernels.nearest import SOME, best_of_all

#: Votes without which no logarithm is taken, and how far below the nearest an item is at most.
LEAST_VOTES, FARTHEST = np.float32(0.01), np.float32(-20)


def nearest_by_measure(rows, at, index, columns, start, weight, limit, room) -> tuple[np.ndarray, np.ndarray]:
    """The ``limit`` items nearest to each row, nearest first, smaller numbers first among equals, and how near they are; −1 padded.

    ``rows`` are words and ``index`` the items by word, ``weight`` what words count; ``at`` (rows, columns) are numbers, NaN: not
    known, and ``columns`` (columns, items) those of the items; ``start`` is 0, or −∞ for items that are not compared.
    """
    found = filled((len(at), limit), -1, np.int32)
    value = np.zeros((len(at), limit), np.float32)
    near = room.empty("near", len(start), np.float32)[: len(start)]
    some, best = np.empty(SOME * limit, np.int32), np.empty(limit, np.int32)
    _nearest_by_measure(rows, at, index, columns, start, np.float32(weight), near, some, best, found, value)
    return found, value


@kernel
def _nearest_by_measure(rows, at, index, columns, start, weight, near, some, best, found, value):
    (indptr, indices, data), (first, item, entry) = rows, index
    for r in range(len(found)):
        for i in range(len(near)):
            near[i] = start[i]
        for a in range(indptr[r], indptr[r + 1]):
            f, v = indices[a], data[a] * weight
            for e in range(first[f], first[f + 1]):
                near[item[e]] += v * entry[e]
        for k in range(len(columns)):
            x = at[r, k]
            if x == x:
                for i in range(len(near)):
                    near[i] -= (x - columns[k, i]) * (x - columns[k, i])
        kept = best_of_all(near, np.float32(-np.inf), some, best)
        for j in range(kept):
            found[r, j] = best[j]
            value[r, j] = near[best[j]]


def gather_votes(candidates, node, nearness, parent, branch, out) -> None:
    """Votes of items (their nodes, −1 padded, and how near they are) for each candidate's node, parent and branch, the logarithm of
    the first, and how near its nearest item is, below the nearest of all: those that do not vote are no nearer than the last."""
    _gather_votes(candidates, node, nearness, parent, branch, *np.empty((2, node.shape[1]), np.float32), out)


@kernel
def _gather_votes(candidates, node, nearness, parent, branch, below, vote, out):
    for r in range(len(candidates)):
        voters, total = 0, np.float32(0)
        while voters < node.shape[1] and node[r, voters] >= 0:
            below[voters] = max(nearness[r, voters] - nearness[r, 0], FARTHEST)
            vote[voters] = np.exp(below[voters])
            total += vote[voters]
            voters += 1
        for j in range(candidates.shape[1]):
            c, z = candidates[r, j], out[r, j]
            nearest = below[voters - 1] if voters else np.float32(0)
            for i in range(voters if c >= 0 else 0):
                v, share = node[r, i], vote[i] / total
                z[0] += share if v == c else np.float32(0)
                z[1] += share if parent[v] == parent[c] else np.float32(0)
                z[2] += share if branch[v] == branch[c] else np.float32(0)
                nearest = max(nearest, below[i]) if v == c else nearest
            z[3] = np.log(z[0] + LEAST_VOTES)
            z[4] = nearest if c >= 0 else np.float32(0)
        out[r, candidates.shape[1], 3] = np.log(LEAST_VOTES)
