"""Compiled loop of the linear heads: each class against the rest by squared hinge loss, all classes of a row at once."""

from __future__ import annotations

import numpy as np

from vpunn.hipan._arrays import Sparse
from vpunn.hipan.kernels import kernel

#: Entries whose weights are written at once.
WRITTEN_AT_ONCE = 16_384


def solve_one_against_rest(rows, own, row_cost, order, dual, weight, tolerance, passes) -> int:
    """Dual coordinate descent (Hsieh and others, 2008) of min ½‖w‖² + Σ cost · max(0, 1 ∓ ⟨w, x⟩)² for every class, + in its rows.

    ``weight`` (features + 1, classes; the constant last) and ``dual`` (rows, classes) are where it starts, and are written. Rows
    whose classes all lie within ``tolerance`` of their optimum are passed over until no others are left; then all are seen once
    more. Ends there, or when as many rows were visited as ``passes`` over all of them would; each pass takes the next ``order`` of
    the rows. Returns how many passes were made. Memory: ``dual``, four bytes a row and class.

    The weights of a feature that one row alone has are this row's dual times its value, so they are written when all is done; until
    then they add value² · dual to its scores. That is most of the features of texts, and each would be fetched from far away.
    """
    once = np.bincount(rows.indices, minlength=len(weight))[rows.indices] == 1
    of = np.repeat(np.arange(len(own)), np.diff(rows.indptr))
    square, alone = (np.bincount(of, values, len(own)) for values in (rows.data**2, np.where(once, rows.data**2, 0)))
    ridge = np.float32(0.5) / np.maximum(row_cost, np.float32(1e-30))  # a row that weighs nothing stays 0
    start = np.concatenate([[0], np.cumsum(~once)])[rows.indptr].astype(rows.indptr.dtype)
    shared = Sparse(start, rows.indices[~once], rows.data[~once])
    given = shared, own, (ridge + alone).astype(np.float32), (1 / (1 + square + ridge)).astype(np.float32)
    waiting, at_work = np.ones(len(own), np.bool_), False
    work = np.empty(weight.shape[1], np.float32), np.empty(weight.shape[1], np.int32)
    done, left = 0, passes * len(own)
    while left > 0:
        left -= max(np.count_nonzero(waiting), 1) if at_work else len(own)
        worst = _one_pass(given, order[done % len(order)], waiting, at_work, dual, weight, work, tolerance)
        done += 1
        if worst <= tolerance and not at_work:
            break
        at_work = worst > tolerance
    for start in range(0, len(rows.indices), WRITTEN_AT_ONCE):
        at = start + np.flatnonzero(once[start : start + WRITTEN_AT_ONCE])
        weight[rows.indices[at]] = rows.data[at, None] * signed(dual[of[at]], own[of[at]])
    return done


def signed(dual, own) -> np.ndarray:
    """Duals of some rows, + in their own class and − in others: how much of each row is in the weights of the classes."""
    out = -dual
    at = np.arange(len(own)), own
    out[at] = -out[at]
    return out


@kernel
def _one_pass(given, order, waiting, at_work, dual, weight, work, tolerance):
    """One visit to the rows that wait (all, unless ``at_work``); returns the largest violation met."""
    ((indptr, indices, data), own, hold, length), (score, moved) = given, work
    n_classes, last = len(score), len(weight) - 1
    worst = np.float32(0)
    for t in range(len(order)):
        r = order[t]
        if at_work and not waiting[r]:
            continue
        for k in range(n_classes):
            score[k] = weight[last, k]
        for a in range(indptr[r], indptr[r + 1]):
            f, v = indices[a], data[a]
            for k in range(n_classes):
                score[k] += v * weight[f, k]
        off, step, count = np.float32(0), length[r], 0
        for k in range(n_classes):
            sign = np.float32(1) if k == own[r] else np.float32(-1)
            slope = sign * score[k] - 1 + hold[r] * dual[r, k]
            before = dual[r, k]
            after = max(before - slope * step, np.float32(0))
            off = max(off, abs(slope) if before > 0 else -slope)
            dual[r, k] = after
            score[k] = sign * (after - before)
            moved[count] = k
            count += after != before
        waiting[r] = off > tolerance
        worst = max(worst, off)
        if 4 * count > n_classes:
            for k in range(n_classes):
                weight[last, k] += score[k]
            for a in range(indptr[r], indptr[r + 1]):
                f, v = indices[a], data[a]
                for k in range(n_classes):
                    weight[f, k] += v * score[k]
        else:
            for j in range(count):
                weight[last, moved[j]] += score[moved[j]]
            for a in range(indptr[r], indptr[r + 1]):
                f, v = indices[a], data[a]
                for j in range(count):
                    weight[f, moved[j]] += v * score[moved[j]]
    return worst
