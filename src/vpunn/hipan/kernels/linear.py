"""Compiled loop of the linear heads: each class against the rest by squared hinge loss, all classes of a row at once."""

from __future__ import annotations

import numpy as np

from vpunn.hipan._arrays import Sparse
from vpunn.hipan.kernels import at, helper, kernel
from vpunn.hipan.kernels.fetch import LINE, fetch

#: The share of rows that may still be beyond the tolerance when all are seen: to move the last of them again changes nothing.
LEFT = 0.002
#: Weights of a feature stand in so many columns, or a multiple of it: as many as one instruction takes.
TOGETHER = 8


def solve_one_against_rest(
    rows, own, row_cost, order, dual, n_features, tolerance, passes
) -> tuple[Sparse, np.ndarray, int]:
    """Dual coordinate descent (Hsieh and others, 2008) of min ½‖w‖² + Σ cost · max(0, 1 ∓ ⟨w, x⟩)² for every class, + in its rows.

    ``dual`` (rows, classes) is where it starts, and is written. Rows whose classes all lie within ``tolerance`` of their optimum
    are passed over until no others are left; then all are seen once more. Ends there if hardly any (`LEFT`) is beyond it, or when
    as many rows were visited as ``passes`` over all of them would; each pass takes the next ``order`` of the rows. Returns, by
    feature, the weights that are not zero and their classes; the classes' constants; and how many passes were made. Memory:
    ``dual``, four bytes a row and class, as many a class and feature that several rows have, and five a weight.

    The weights of a feature that one row alone has are this row's dual times its value, so they are written when all is done; until
    then they add value² · dual to its scores. That is most of the features of texts, and each would be fetched from far away.
    """
    n_classes, count = dual.shape[1], np.zeros(n_features, np.int32)
    _count(rows.indices, count)
    once, features = (count == 1)[rows.indices], np.flatnonzero(count > 1)
    square, alone = np.zeros((2, len(own)))
    _squares(rows, once, square, alone)
    ridge = np.float32(0.5) / np.maximum(row_cost, np.float32(1e-30))  # a row that weighs nothing stays 0
    shared = rows.entries(~once)
    shared = shared._replace(indices=(np.cumsum(count > 1, dtype=np.int32) - np.int32(1))[shared.indices])
    given = shared, own, (ridge + alone).astype(np.float32), (1 / (1 + square + ridge)).astype(np.float32)
    inner = np.zeros((len(features) + 1, -(-n_classes // TOGETHER) * TOGETHER), np.float32)
    score, slope, moved = (np.zeros(inner.shape[1], kind) for kind in (np.float32, np.float32, np.int32))
    state, work = (dual, inner, dual.reshape(-1), inner.reshape(-1)), (score, slope, moved)
    if dual.any():
        _add_rows(shared, own, dual, inner)
    waiting, at_work = np.ones(len(own), np.bool_), False
    done, left = 0, passes * len(own)
    while left > 0:
        visited = order[done % len(order)]
        if at_work:
            visited = visited[waiting[visited]]
        left -= max(len(visited), 1)
        worst = _one_pass(given, visited, waiting, state, work, tolerance)
        done += 1
        if not at_work and np.count_nonzero(waiting) <= LEFT * len(own):
            break
        at_work = worst > tolerance
    del given, shared
    return _by_feature(rows.entries(once), own, dual, inner, features, n_features), inner[-1, :n_classes].copy(), done


@kernel
def _count(indices, count):
    for a in range(len(indices)):
        count[indices[a]] += 1


@kernel
def _squares(rows, once, square, alone):
    """Sums of the squares of every row's values: of all, and of those that stand ``once``."""
    indptr, _, data = rows
    for r in range(len(square)):
        for a in range(indptr[r], indptr[r + 1]):
            square[r] += data[a] * data[a]
            if once[a]:
                alone[r] += data[a] * data[a]


def _by_feature(rows, own, dual, inner, features, n_features) -> Sparse:
    """The weights that are not zero: of ``features`` that several rows have from ``inner``, of those of ``rows`` from the duals."""
    count = np.zeros(n_features + 1, np.int64)
    count[features + 1] = np.count_nonzero(inner[:-1, : dual.shape[1]], axis=1)
    count[rows.indices + 1] = np.repeat(np.count_nonzero(dual, axis=1), np.diff(rows.indptr))
    start = np.cumsum(count)
    small = np.min_scalar_type(dual.shape[1])  # a byte, unless classes came later
    found = Sparse(start, np.empty(start[-1], small), np.empty(start[-1], np.float32))
    _write(rows, own, dual, inner, features, found)
    return found


@kernel
def _write(rows, own, dual, inner, features, out):
    (indptr, indices, data), (start, which, value) = rows, out
    n_classes = dual.shape[1]
    for j in range(len(features)):
        a = start[features[j]]
        for k in range(n_classes):
            if inner[j, k] != 0:
                which[a], value[a] = k, inner[j, k]
                a += 1
    for r in range(len(own)):
        for b in range(indptr[r], indptr[r + 1]):
            a = start[indices[b]]
            for k in range(n_classes):
                if dual[r, k] != 0:
                    which[a], value[a] = k, data[b] * (dual[r, k] if k == own[r] else -dual[r, k])
                    a += 1


def linear_scores(rows, weight, constant) -> np.ndarray:
    """Scores (rows, classes) of sparse rows."""
    out = np.zeros((len(rows.indptr) - 1, len(constant)), np.float32)
    _linear_scores(rows, weight, constant, out)
    return out


@kernel
def _linear_scores(rows, weight, constant, out):
    (indptr, indices, data), (start, which, value) = rows, weight
    for r in range(len(out)):
        for a in range(at(indptr[r]), at(indptr[r + 1])):
            f, v = indices[a], data[a]
            for b in range(at(start[f]), at(start[f + 1])):
                out[r, which[b]] += v * value[b]
        for k in range(len(constant)):
            out[r, k] += constant[k]


@kernel
def _add_rows(rows, own, dual, weight):
    """Add to the weights of features, and to the constants behind them, what the rows have in the classes."""
    (indptr, indices, data), last = rows, len(weight) - 1
    for r in range(len(own)):
        for k in range(dual.shape[1]):
            if dual[r, k] != 0:
                d = dual[r, k] if k == own[r] else -dual[r, k]
                weight[last, k] += d
                for a in range(indptr[r], indptr[r + 1]):
                    weight[indices[a], k] += data[a] * d


@helper
def _duals_ahead(n, rows, dual, weight, duals, weights):
    """Have the duals of a row and the weights of its features brought near; the latter two are the same in a line."""
    n_classes, width = dual.shape[1], weight.shape[1]
    for k in range(0, n_classes, LINE):
        fetch(duals, n * n_classes + k)
    for a in range(rows.indptr[n], rows.indptr[n + 1]):
        for k in range(0, width, LINE):
            fetch(weights, np.int64(rows.indices[a]) * width + k)


@kernel
def _one_pass(given, order, waiting, state, work, tolerance):
    """One visit to some rows in ``order``, each of which then waits or not; returns the largest violation met."""
    (rows, own, hold, length), (dual, weight, duals, weights), (score, slope, moved) = given, state, work
    indptr, indices, data = rows
    n_classes, width, last = dual.shape[1], len(score), len(weight) - 1
    worst = np.float32(0)
    for t in range(len(order)):
        r = order[t]
        if t + 1 < len(order):
            _duals_ahead(order[t + 1], rows, dual, weight, duals, weights)
        for k in range(width):
            score[k] = weight[last, k]
        a, stop = indptr[r], indptr[r + 1]
        while a + 1 < stop:  # two at once: the scores stay where they are
            f, v, g, u = indices[a], data[a], indices[a + 1], data[a + 1]
            for k in range(width):
                score[k] = score[k] + v * weight[f, k] + u * weight[g, k]
            a += 2
        if a < stop:
            f, v = indices[a], data[a]
            for k in range(width):
                score[k] += v * weight[f, k]
        held, step = hold[r], length[r]
        score[own[r]] = -score[own[r]]  # as if it were another class, so that no question is asked
        for k in range(n_classes):
            before = dual[r, k]
            s = -score[k] - 1 + held * before
            after = max(before - s * step, np.float32(0))
            dual[r, k] = after
            slope[k] = s if before > 0 else min(s, np.float32(0))
            score[k] = before - after
        score[own[r]] = -score[own[r]]
        off, count = np.float32(0), 0
        for k in range(n_classes):
            off = max(off, abs(slope[k]))
            moved[count] = k
            count += score[k] != 0
        waiting[r] = off > tolerance
        worst = max(worst, off)
        if TOGETHER * count > n_classes:
            for k in range(width):
                weight[last, k] += score[k]
            for a in range(indptr[r], stop):
                f, v = indices[a], data[a]
                for k in range(width):
                    weight[f, k] += v * score[k]
        else:
            for j in range(count):
                weight[last, moved[j]] += score[moved[j]]
            for a in range(indptr[r], stop):
                f, v = indices[a], data[a]
                for j in range(count):
                    weight[f, moved[j]] += v * score[moved[j]]
    return worst
