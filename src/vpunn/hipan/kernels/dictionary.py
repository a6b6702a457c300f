"""Compiled loops of the dictionary."""

from __future__ import annotations

import numpy as np

from vpunn.hipan.kernels import kernel
from vpunn.hipan.kernels.propose import keep_best


def profiles(
    indptr, indices, data, node, weight, sum_indptr, sum_indices, sum_data, limit
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For every row the ``limit`` strongest features of the other rows of its class, scaled to unit length."""
    start, feature, value = _room(len(indptr) - 1, limit)
    width = 1 + int(max(indices.max(initial=0), sum_indices.max(initial=0)))
    filled = _profiles(
        indptr,
        indices,
        data,
        node,
        weight,
        sum_indptr,
        sum_indices,
        sum_data,
        np.zeros(width, np.float32),
        np.empty(width, np.int32),
        np.empty(limit, np.int32),
        start,
        feature,
        value,
    )
    return start, feature[:filled].copy(), value[:filled].copy()


def _room(rows, limit):
    """Arrays for at most ``limit`` features of each row: where a row starts, the features and their values."""
    return np.zeros(rows + 1, np.int64), np.empty(rows * limit, np.int32), np.empty(rows * limit, np.float32)


@kernel
def _profiles(
    indptr,
    indices,
    data,
    node,
    weight,
    sum_indptr,
    sum_indices,
    sum_data,
    rest,
    listed,
    best,
    start,
    feature,
    value,
):
    limit = len(best)
    filled = 0
    for r in range(len(start) - 1):
        c = node[r]
        for a in range(sum_indptr[c], sum_indptr[c + 1]):
            rest[sum_indices[a]] = sum_data[a]
        for a in range(indptr[r], indptr[r + 1]):
            rest[indices[a]] -= weight[r] * data[a]
        count = np.int64(0)
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
    return filled


def meanings(
    feature_start, row, value, weight, profile_start, profile_feature, profile_value, usual, limit, doubt
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For every feature the ``limit`` features most in excess in the profiles of its rows."""
    n_features = len(feature_start) - 1
    start = np.zeros(n_features + 1, np.int64)
    work = np.concatenate([[0], np.cumsum(np.diff(profile_start)[row])])[feature_start]
    room = int(np.minimum(np.diff(work), limit).sum())
    meaning = np.empty(room, np.int32)
    strength = np.empty(room, np.float32)
    filled = _meanings(
        feature_start,
        row,
        value,
        weight,
        profile_start,
        profile_feature,
        profile_value,
        usual,
        doubt,
        np.zeros(n_features, np.float32),
        np.zeros(n_features, np.bool_),
        np.empty(n_features, np.int32),
        np.empty(limit, np.int32),
        start,
        meaning,
        strength,
    )
    return start, meaning[:filled].copy(), strength[:filled].copy()


@kernel
def _meanings(
    feature_start,
    row,
    value,
    weight,
    profile_start,
    profile_feature,
    profile_value,
    usual,
    doubt,
    total,
    known,
    listed,
    best,
    start,
    meaning,
    strength,
):
    limit = len(best)
    filled = 0
    for f in range(len(start) - 1):
        count, seen, rows = np.int64(0), np.float32(0), 0
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
            above = np.int64(0)
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
    return filled


def translate(
    indptr, indices, data, meaning_start, meaning, strength, limit
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows read through the dictionary: the ``limit`` strongest meanings, of unit length, sorted by feature."""
    n_features = len(meaning_start) - 1
    start, feature, value = _room(len(indptr) - 1, limit)
    filled = _translate(
        indptr,
        indices,
        data,
        meaning_start,
        meaning,
        strength,
        np.zeros(n_features, np.float32),
        np.zeros(n_features, np.bool_),
        np.empty(n_features, np.int32),
        np.empty(limit, np.int32),
        start,
        feature,
        value,
    )
    return start, feature[:filled].copy(), value[:filled].copy()


@kernel
def _translate(
    indptr, indices, data, meaning_start, meaning, strength, total, known, listed, best, start, feature, value
):
    limit = len(best)
    filled = 0
    for r in range(len(start) - 1):
        count = np.int64(0)
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
        first = filled
        for j in range(kept if square > 0 else 0):  # sorted as they come: there are few
            place = filled
            while place > first and feature[place - 1] > best[j]:
                feature[place] = feature[place - 1]
                place -= 1
            feature[place] = best[j]
            filled += 1
        for j in range(first, filled):
            value[j] = total[feature[j]] / np.sqrt(square)
        start[r + 1] = filled
        for j in range(count):
            total[listed[j]] = 0
            known[listed[j]] = False
    return filled
