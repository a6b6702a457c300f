"""Compiled loops of the dictionary."""

from __future__ import annotations

import numpy as np

from vpunn.hipan._arrays import Sparse
from vpunn.hipan.kernels import at, helper, kernel
from vpunn.hipan.kernels.fetch import LINE, fetch
from vpunn.hipan.kernels.propose import keep_best, longest_row

#: Classes with so many times more features than are read of any are not sorted whole.
LARGE = 4
#: Entries of a feature before which a row's profile is asked for.
ROWS_AHEAD = 8


def profiles(rows, node, weight, sums, limit) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For every row the ``limit`` strongest features of the other rows of its class, scaled to unit length.

    ``sums`` is the matrix of the classes' sums, features in order. Those of a class are sorted by strength once: a row only lowers
    what it has itself, so the strongest of the rest are among the first ``limit`` and as many more as the row has features.
    """
    n, width = len(rows.indptr) - 1, sums.shape[1]
    sums = _strongest(Sparse.of(sums), limit + longest_row(rows.indptr))
    order = np.lexsort((-sums.data, np.repeat(np.arange(len(sums.indptr) - 1, dtype=np.int32), np.diff(sums.indptr))))
    start = np.zeros(n + 1, np.int64)
    feature, value = np.empty(n * limit, np.int32), np.empty(n * limit, np.float32)
    filled = _profiles(
        rows,
        node,
        weight,
        Sparse(sums.indptr, sums.indices[order], sums.data[order]),
        np.zeros(width, np.float32),
        np.zeros(width, np.float32),
        np.empty(width, np.int32),
        np.empty(limit, np.int32),
        (start, feature, value),
    )
    return start, feature[:filled].copy(), value[:filled].copy()


def _strongest(sums, most) -> Sparse:
    """Of the numbers of large classes those that are as large as the ``most`` largest, of others all."""
    kept = np.ones(len(sums.data), np.bool_)
    for c in np.flatnonzero(np.diff(sums.indptr) > LARGE * most):
        values = sums.data[sums.indptr[c] : sums.indptr[c + 1]]
        kept[sums.indptr[c] : sums.indptr[c + 1]] = values >= np.partition(values, len(values) - most)[-most]
    return sums.entries(kept)


@kernel
def _profiles(rows, node, weight, sums, own, rest, listed, best, out):
    (indptr, indices, data), (sum_start, sum_feature, sum_value), (start, feature, value) = rows, sums, out
    limit = len(best)
    filled = 0
    for r in range(len(start) - 1):
        for a in range(indptr[r], indptr[r + 1]):
            own[indices[a]] = weight[r] * data[a]
        first = sum_start[node[r]]
        last = min(first + limit + indptr[r + 1] - indptr[r], sum_start[node[r] + 1])
        count = np.int64(0)
        for a in range(first, last):
            f = sum_feature[a]
            rest[f] = sum_value[a] - own[f]
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
        for a in range(indptr[r], indptr[r + 1]):
            own[indices[a]] = 0
    return filled


def meanings(by_feature, weight, profiles, usual, limit, doubt) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For every feature the ``limit`` features most in excess in the profiles of its rows."""
    n_features = len(by_feature.indptr) - 1
    start = np.zeros(n_features + 1, np.int64)
    work = np.concatenate([[0], np.cumsum(np.diff(profiles.indptr)[by_feature.indices])])[by_feature.indptr]
    room = int(np.minimum(np.diff(work), limit).sum())
    meaning = np.empty(room, np.int32)
    strength = np.empty(room, np.float32)
    totals = np.zeros(n_features, np.float32), np.zeros(n_features, np.bool_), np.empty(n_features, np.int32)
    best = np.empty(limit, np.int32)
    filled = _meanings(by_feature, weight, profiles, usual, doubt, totals, best, (start, meaning, strength))
    meaning.resize(filled, refcheck=False)  # in place: they are large
    strength.resize(filled, refcheck=False)
    return start, meaning, strength


@kernel
def _meanings(by_feature, weight, profiles, usual, doubt, totals, best, out):
    (feature_start, row, value), (profile_start, profile_feature, profile_value) = by_feature, profiles
    (total, known, listed), (start, meaning, strength) = totals, out
    limit = len(best)
    filled = 0
    for f in range(len(start) - 1):
        count, seen, rows = np.int64(0), np.float32(0), 0
        for a in range(feature_start[f], feature_start[f + 1]):
            _profiles_ahead(row, a, profiles)
            r = row[a]
            if profile_start[r + 1] == profile_start[r]:
                continue
            v = value[a] * weight[r]
            seen += v
            rows += 1
            for b in range(at(profile_start[r]), at(profile_start[r + 1])):
                g = at(profile_feature[b])
                if not known[g]:
                    known[g] = True
                    listed[at(count)] = profile_feature[b]
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
        for j in range(at(count)):
            total[at(listed[j])] = 0
            known[at(listed[j])] = False
        start[f + 1] = filled
    return filled


@helper
def _profiles_ahead(row, a, profiles):
    """Have the profile of a row that comes soon brought near, and where that of a later one begins."""
    if a + 2 * ROWS_AHEAD < len(row):
        start, feature, value = profiles
        fetch(start, row[a + 2 * ROWS_AHEAD])
        first = start[row[a + ROWS_AHEAD]]
        for b in (first, first + LINE - 1):
            fetch(feature, b)
            fetch(value, b)


def unit_readings(feature, value) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features (rows, k), −1 padded, and their values as sparse rows: in the order of features, each row of unit length."""
    start = np.zeros(len(feature) + 1, np.int32)
    flat = np.empty(feature.size, np.int32), np.empty(feature.size, np.float32)
    _unit_readings(feature, value, start, *flat)
    return start, flat[0][: start[-1]], flat[1][: start[-1]]


@kernel
def _unit_readings(feature, value, start, features, values):
    count = np.int64(0)
    for r in range(len(feature)):
        first, square = count, 0.0
        for j in range(feature.shape[1]):
            f, v = feature[r, j], value[r, j]
            if f < 0:
                continue
            place = count
            while place > first and features[place - 1] > f:
                features[place], values[place] = features[place - 1], values[place - 1]
                place -= 1
            features[place], values[place] = f, v
            square += np.float64(v) * v
            count += 1
        for k in range(first, count):
            values[k] = values[k] / np.sqrt(square) if square > 0 else values[k]
        start[r + 1] = count
