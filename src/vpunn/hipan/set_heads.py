"""One linear head per node, for rows with several labels: is one of the answers in here?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from vpunn.hipan._kernel import at, helper, kernel
from vpunn.hipan.feature_table import csr

#: Cost of a row beyond its margin, the constant feature, and passes over the rows that are still active.
COST, CONSTANT, PASSES = 3.0, 0.3, 6
#: A row this far beyond its margin is put aside; a head is done when no row is further from its optimum than this.
SLACK, TOLERANCE = 0.2, 0.1
#: Features in more than this share of the rows make no near misses. Up to so many rows, where it costs little, a larger share.
COMMON, LARGER, LARGER_UP_TO = 0.01, 0.03, 450
#: Rows that every head learns from besides near misses; a node of more than one row in so many learns from all rows.
OTHERS, ALL_FROM = 200, 20
#: Smaller weights are dropped.
SMALL = 0.03


class _Room(NamedTuple):
    """Room for one head at a time: per feature, and per row."""

    weight: np.ndarray
    met: np.ndarray  # the last head that looked for near misses at a feature
    marked: np.ndarray  # the last head that gave it a weight
    used: np.ndarray
    dual: np.ndarray
    side: np.ndarray  # 1: rows of the node
    chosen: np.ndarray  # the last head that learned from a row
    active: np.ndarray

    @classmethod
    def of(cls, rows: int, features: int) -> _Room:
        return cls(
            np.zeros(features, np.float32),
            np.full(features, -1, np.int32),
            np.full(features, -1, np.int32),
            np.empty(features, np.int32),
            np.zeros(rows, np.float32),
            np.full(rows, -1, np.int8),
            np.full(rows, -1, np.int32),
            np.empty(rows, np.int32),
        )


def fit_heads(
    rows: sp.csr_matrix, truth: sp.csr_matrix, weight: np.ndarray, rng: np.random.Generator
) -> tuple[sp.csr_matrix, np.ndarray]:
    """Weights (features, nodes) and the offset of every node: squared hinge in the dual, s = offset + ⟨w, x⟩.

    A head starts at −1 for every row ("no"), so that rows without anything in common with those of its node need not be looked at:
    a node of few rows learns from rows that share an uncommon feature with them, and some others.
    Cost: passes x non-zeros of these rows.
    """
    n, features = rows.shape
    by_node, by_feature = truth.T.tocsr(), rows.T.tocsr()
    order = rng.permutation(n).astype(np.int32)
    common = int(max(COMMON * n, min(LARGER * n, LARGER_UP_TO))) + 1
    ridge = (weight.mean() / (2 * COST * weight)).astype(np.float32)
    offset, end = np.full(by_node.shape[0], -1, np.float32), np.zeros(by_node.shape[0], np.int64)
    room, at_once = _Room.of(n, features), 2**21
    feature, value = np.empty(at_once + features, np.int32), np.empty(at_once + features, np.float32)
    table, node = (csr(rows), csr(by_node), csr(by_feature), order, ridge, common), 0
    parts: list[tuple[np.ndarray, ...]] = []
    while node < len(offset):
        stop = _train(*table, node, room, at_once, (feature, value, offset, end))
        used = int(end[stop - 1])
        counts = np.diff(end[node:stop], prepend=0)
        parts.append((np.repeat(np.arange(node, stop), counts), feature[:used].copy(), value[:used].copy()))
        node = stop
    nodes, columns, weights = (np.concatenate(some) for some in zip(*parts, strict=True))
    return sp.csr_matrix((weights, (columns, nodes)), shape=(features, len(offset))), offset


@helper
def _near_misses(mine, rows, by_feature, order, common, node, room, count):
    """Rows that share an uncommon feature with a row of the node, and some others, behind the node's own rows."""
    (start, ids, _), (first, holders, _) = rows, by_feature
    for k in range(count):
        i = mine[k]
        for q in range(start[at(i)], start[at(i + 1)]):
            f = ids[at(q)]
            if room.met[at(f)] == node:
                continue
            room.met[at(f)] = node
            if first[at(f + 1)] - first[at(f)] > common:
                continue
            for r in range(first[at(f)], first[at(f + 1)]):
                j = holders[at(r)]
                if room.side[at(j)] < 0 and room.chosen[at(j)] != node:
                    room.chosen[at(j)] = node
                    room.active[at(count)] = j
                    count += 1
    for k in range(min(OTHERS, len(order))):
        j = order[k]
        if room.side[at(j)] < 0 and room.chosen[at(j)] != node:
            room.chosen[at(j)] = node
            room.active[at(count)] = j
            count += 1
    return count


@helper
def _shuffle(active, count, node):
    state = np.uint64(88172645463325252) + np.uint64(node) * np.uint64(11400714819323198485)
    for k in range(count - 1, 0, -1):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        j = np.int64(state % np.uint64(k + 1))
        active[at(k)], active[at(j)] = active[at(j)], active[at(k)]


@helper
def _solve(node, count, rows, ridge, room):
    """Dual coordinate descent (Hsieh et al. 2008); how many features have a weight, and the bias."""
    start, ids, data = rows
    used, bias = 0, 0.0
    for _ in range(PASSES):
        kept, worst = 0, 0.0
        for a in range(count):
            i = room.active[at(a)]
            side, score = room.side[at(i)], bias * CONSTANT - 1.0
            if used > 0:  # else all weights are 0
                for k in range(start[at(i)], start[at(i + 1)]):
                    score += room.weight[at(ids[at(k)])] * data[at(k)]
            old = room.dual[at(i)]
            gradient = side * score - 1.0 + old * ridge[at(i)]
            if old == 0.0 and gradient > -1e-3:
                if side > 0 or gradient < SLACK:
                    room.active[at(kept)] = i
                    kept += 1
                continue
            room.active[at(kept)] = i
            kept += 1
            worst = max(worst, abs(gradient))
            square = CONSTANT * CONSTANT
            for k in range(start[at(i)], start[at(i + 1)]):
                square += data[at(k)] * data[at(k)]
            new = max(old - gradient / (square + ridge[at(i)]), 0.0)
            room.dual[at(i)] = new
            step = (new - old) * side
            for k in range(start[at(i)], start[at(i + 1)]):
                f = ids[at(k)]
                if room.marked[at(f)] != node:
                    room.marked[at(f)] = node
                    room.used[at(used)] = f
                    used += 1
                room.weight[at(f)] += step * data[at(k)]
            bias += step * CONSTANT
        count = kept
        if worst < TOLERANCE:
            break
    return used, bias


@kernel
def _train(rows, by_node, by_feature, order, ridge, common, node, room, at_once, out):
    """Heads from ``node`` on, until so many weights are made at once; the next node."""
    (first, mine, _), (feature, value, offset, end) = by_node, out
    filled, n = 0, len(order)
    while node < len(offset) and filled <= at_once:
        low, high = first[at(node)], first[at(node + 1)]
        for k in range(low, high):
            room.side[at(mine[at(k)])] = 1
            room.active[at(k - low)] = mine[at(k)]
        if n <= ALL_FROM * (high - low):
            count = n
            for k in range(n):
                room.active[at(k)] = order[k]
        else:
            count = _near_misses(mine[low:high], rows, by_feature, order, common, node, room, high - low)
            _shuffle(room.active, count, node)
        used, bias = _solve(node, count, rows, ridge, room)
        for k in range(used):
            f = room.used[at(k)]
            if abs(room.weight[at(f)]) > SMALL:
                feature[at(filled)], value[at(filled)] = f, room.weight[at(f)]
                filled += 1
            room.weight[at(f)] = 0
        room.dual[:] = 0
        for k in range(low, high):
            room.side[at(mine[at(k)])] = -1
        offset[at(node)], end[at(node)] = bias * CONSTANT - 1.0, filled
        node += 1
    return node
