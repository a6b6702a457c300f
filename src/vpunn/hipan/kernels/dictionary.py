"""Compiled loops of the dictionary."""

from __future__ import annotations

import numpy as np
from numba import njit

from vpunn.hipan.kernels.propose import keep_best


@njit(cache=True)
def profiles(indptr, indices, data, node, weight, sum_indptr, sum_indices, sum_data, limit):
    """For every row the ``limit`` strongest features of the other rows of its class, scaled to unit length."""
    n_rows = len(indptr) - 1
    start = np.zeros(n_rows + 1, np.int64)
    feature = np.empty(n_rows * limit, np.int32)
    value = np.empty(n_rows * limit, np.float32)
    rest = np.zeros(_width(indices, sum_indices), np.float32)
    listed = np.empty(len(rest), np.int32)
    best = np.empty(limit, np.int32)
    filled = 0
    for r in range(n_rows):
        c = node[r]
        for a in range(sum_indptr[c], sum_indptr[c + 1]):
            rest[sum_indices[a]] = sum_data[a]
        for a in range(indptr[r], indptr[r + 1]):
            rest[indices[a]] -= weight[r] * data[a]
        count = 0
        for a in range(sum_indptr[c], sum_indptr[c + 1]):
            f = sum_indices[a]
            if rest[f] > 1e-4:
                listed[count] = f
                count += 1
        kept = keep_best(rest, count, limit, listed, best)
        square = 0.0
        for j in range(kept):
            square += rest[best[j]] ** 2
        for j in range(kept):
            feature[filled] = best[j]
            value[filled] = rest[best[j]] / np.sqrt(square)
            filled += 1
        start[r + 1] = filled
        for a in range(sum_indptr[c], sum_indptr[c + 1]):
            rest[sum_indices[a]] = 0
    return start, feature[:filled].copy(), value[:filled].copy()


@njit(cache=True)
def _width(first, second):
    width = 1
    for f in first:
        width = max(width, f + 1)
    for f in second:
        width = max(width, f + 1)
    return width


@njit(cache=True)
def meanings(feature_start, row, value, weight, profile_start, profile_feature, profile_value, usual, limit, doubt):
    """For every feature the ``limit`` features most in excess in the profiles of its rows."""
    n_features = len(feature_start) - 1
    start = np.zeros(n_features + 1, np.int64)
    room = 0
    for f in range(n_features):
        work = 0
        for a in range(feature_start[f], feature_start[f + 1]):
            work += profile_start[row[a] + 1] - profile_start[row[a]]
        room += min(limit, work)
    meaning = np.empty(room, np.int32)
    strength = np.empty(room, np.float32)
    total = np.zeros(n_features, np.float32)
    known = np.zeros(n_features, np.bool_)
    listed = np.empty(n_features, np.int32)
    best = np.empty(limit, np.int32)
    filled = 0
    for f in range(n_features):
        count, seen, rows = 0, np.float32(0), 0
        for a in range(feature_start[f], feature_start[f + 1]):
            r = row[a]
            if profile_start[r + 1] == profile_start[r]:
                continue
            v = value[a] * weight[r]
            seen += v
            rows += 1
            for b in range(profile_start[r], profile_start[r + 1]):
                g = profile_feature[b]
                if not known[g]:
                    known[g] = True
                    listed[count] = g
                    count += 1
                total[g] += v * profile_value[b]
        if seen > 0:
            scale = np.float32(1) / (seen * (1 + doubt / rows))
            above = 0
            for j in range(count):
                g = listed[j]
                total[g] = total[g] * scale - usual[g]
                if total[g] > 0:
                    listed[above], listed[j] = g, listed[above]
                    above += 1
            kept = keep_best(total, above, limit, listed, best)
            for j in range(kept):
                meaning[filled] = best[j]
                strength[filled] = total[best[j]]
                filled += 1
        for j in range(count):
            total[listed[j]] = 0
            known[listed[j]] = False
        start[f + 1] = filled
    return start, meaning[:filled].copy(), strength[:filled].copy()


@njit(cache=True)
def translate(indptr, indices, data, meaning_start, meaning, strength, limit):
    """Rows read through the dictionary: the ``limit`` strongest meanings, of unit length, sorted by feature."""
    n_rows = len(indptr) - 1
    n_features = len(meaning_start) - 1
    start = np.zeros(n_rows + 1, np.int64)
    feature = np.empty(n_rows * limit, np.int32)
    value = np.empty(n_rows * limit, np.float32)
    total = np.zeros(n_features, np.float32)
    known = np.zeros(n_features, np.bool_)
    listed = np.empty(n_features, np.int32)
    best = np.empty(limit, np.int32)
    filled = 0
    for r in range(n_rows):
        count = 0
        for a in range(indptr[r], indptr[r + 1]):
            f = indices[a]
            for b in range(meaning_start[f], meaning_start[f + 1]):
                g = meaning[b]
                if not known[g]:
                    known[g] = True
                    listed[count] = g
                    count += 1
                total[g] += data[a] * strength[b]
        kept = keep_best(total, count, limit, listed, best)
        square = 0.0
        for j in range(kept):
            square += total[best[j]] ** 2
        chosen = np.sort(best[: kept if square > 0 else 0])
        for j in range(len(chosen)):
            feature[filled] = chosen[j]
            value[filled] = total[chosen[j]] / np.sqrt(square)
            filled += 1
        start[r + 1] = filled
        for j in range(count):
            total[listed[j]] = 0
            known[listed[j]] = False
    return start, feature[:filled].copy(), value[:filled].copy()
