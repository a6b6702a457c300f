"""Compiled loops of the dense expert: how rows are read, and the evidence about candidates."""

from __future__ import annotations

import numpy as np

from vpunn.hipan.kernels import exact_helper, helper, kernel
from vpunn.hipan.kernels.ranks import below_best

#: Columns of one candidate; `EVIDENCE` in `_dense` names them.
N_EVIDENCE = 20
N_PER_KIND = 2


def times(X, turn) -> tuple[np.ndarray, np.ndarray]:
    """Rows times a matrix by fixed loops, and the lengths of the results."""
    out, length = np.zeros((len(X), turn.shape[1])), np.empty(len(X))
    _times(X, turn, out, length)
    return out, length


@kernel
def _times(X, turn, out, length):
    rows, width = out.shape
    whole = X.shape[1] // 4 * 4
    for r in range(rows):
        for k in range(0, whole, 4):  # four at a time: sums are made in the same order and written a fourth as often
            a, b, c, d = X[r, k], X[r, k + 1], X[r, k + 2], X[r, k + 3]
            for j in range(width):
                out[r, j] = out[r, j] + a * turn[k, j] + b * turn[k + 1, j] + c * turn[k + 2, j] + d * turn[k + 3, j]
        for k in range(whole, X.shape[1]):
            for j in range(width):
                out[r, j] += X[r, k] * turn[k, j]
        square = 0.0
        for j in range(width):
            square += out[r, j] * out[r, j]
        length[r] = np.sqrt(square)


def add_rows(unit, length, node, weight, out) -> None:
    """Add the rows of these directions and lengths, each times its weight, to those of their nodes, one after the other."""
    _add_rows(unit, length, node.astype(np.int32, copy=False), weight.astype(np.float64, copy=False), out)


@kernel
def _add_rows(unit, length, node, weight, out):
    for r in range(len(unit)):
        for k in range(out.shape[1]):
            out[node[r], k] += np.float64(unit[r, k] * length[r]) * weight[r]


@exact_helper
def _cosine(unit, centroid):
    total = np.float32(0)
    for k in range(len(unit)):
        total += unit[k] * centroid[k]
    return total


@helper
def _distances_below_best(z, count, column):
    """Log-distances against the least; a candidate without items is as far as the farthest."""
    top, low = np.float32(-1e30), np.float32(1e30)
    for j in range(count):
        if not np.isnan(z[j, column]):
            top = max(top, z[j, column])
            low = min(low, z[j, column])
    for j in range(count):
        z[j, column] = (low - top if np.isnan(z[j, column]) else z[j, column] - top) if top > -1e29 else np.float32(0)


@helper
def _log_share(z, count, score, into, family, group):
    """Log-probability of every candidate by a column of scores (≤ 0), and of its group if ``family`` is a column."""
    total = np.float32(0)
    for j in range(count):
        total += np.exp(z[j, score])
    for j in range(count):
        z[j, into] = z[j, score] - np.log(total)
        if family >= 0:
            shared = np.float32(0)
            for i in range(count):
                if group[i] == group[j]:
                    shared += np.exp(z[i, score])
            z[j, family] = np.log(max(shared / total, np.float32(1e-30)))
    return -np.log(total)


def gather_dense(candidates, parent, branch, row, items, centroids, heads, n_kinds, nearest, sharpness) -> np.ndarray:
    """Evidence (rows, candidates + 1, columns) about candidates from their items, the centroids of the balls around them and the
    heads; last slot "none".

    ``nearest`` are the items that vote, the nearest first, and their similarities."""
    rows, width = candidates.shape
    out = np.zeros((rows, width + 1, N_EVIDENCE + N_PER_KIND * n_kinds), np.float32)
    vote, up = np.empty(nearest[0].shape[1], np.float32), np.empty(width, np.int32)
    _gather_dense(candidates, parent, branch, row, items, centroids, heads, sharpness, nearest, vote, up, out)
    return out


@kernel
def _gather_dense(candidates, parent, branch, row, items, centroids, heads, sharpness, nearest, vote, up, out):
    unit, length, heard, near = row
    memory, item_length, item_node, item_kind, span, by_node = items
    centroid, block_at = centroids
    mean, mean_length, mean_bias, trained, class_at = heads
    best, similarity = nearest
    rows, width = candidates.shape
    n_nodes = len(parent)
    for r in range(rows):
        z = out[r]
        none = z[width]
        if length[r] == 0:
            continue  # nothing known about the row
        total, voters = np.float32(0), len(vote) if unit[r].any() else 0  # no item is near to a row without a direction
        for v in range(voters):
            vote[v] = np.exp(sharpness * (similarity[r, v] - similarity[r, 0]))
            total += vote[v]
        count = 0
        while count < width and candidates[r, count] >= 0:
            c = candidates[r, count]
            up[count] = parent[c]
            if block_at[c] >= 0:
                z[count, 0] = _cosine(unit[r], centroid[block_at[c]])
                z[count, 1] = z[count, 0]
            if block_at[n_nodes + c] >= 0:
                z[count, 1] = _cosine(unit[r], centroid[block_at[n_nodes + c]])
            if parent[c] > 0 and block_at[n_nodes + parent[c]] >= 0:
                sibling = 0
                while up[sibling] != parent[c]:
                    sibling += 1
                if sibling < count:
                    z[count, 2] = z[sibling, 2]
                else:
                    z[count, 2] = _cosine(unit[r], centroid[block_at[n_nodes + parent[c]]])
            first, second, least, any_kind = np.float32(0), np.float32(0), np.float32(1e30), np.float32(0)
            for at in range(span[c], span[c + 1]):
                i = by_node[at]
                s = near[r, i] if near.shape[1] else _cosine(unit[r], memory[i])
                any_kind = max(any_kind, s)
                if item_kind[i]:
                    z[count, N_EVIDENCE + N_PER_KIND * (item_kind[i] - 1)] = s
                    continue
                if s > first:
                    first, second = s, first
                elif s > second:
                    second = s
                least = min(least, item_length[i] * item_length[i] - 2 * item_length[i] * length[r] * s)
            z[count, 3], z[count, 4] = first, second
            z[count, 18] = any_kind
            gap = np.sqrt(max(least + length[r] * length[r], np.float32(1e-6)))
            z[count, 5] = -np.log(gap) if least < 1e29 else np.float32(np.nan)  # no item at all
            for v in range(voters):
                node = item_node[best[r, v]]
                share = vote[v] / total
                if node == c:
                    z[count, 6] += share
                if parent[node] == parent[c]:
                    z[count, 7] += share
                if branch[node] == branch[c]:
                    z[count, 8] += share
            at = class_at[c]
            z[count, 9] = np.float32(-1e4)
            if at >= 0:
                z[count, 9] = _cosine(unit[r], mean[at]) * mean_length[at] * heard[r] + mean_bias[at]
            if trained.shape[1]:
                z[count, 12] = trained[r, at] if at >= 0 else np.float32(-1e4)
            count += 1
        if count == 0:
            continue
        _distances_below_best(z, count, 5)
        below_best(z, count, 9, 9)
        none[18] = below_best(z, count, 18, 19)
        for j in range(count):
            z[j, 9] = max(z[j, 9], np.float32(-60))
        none[10] = _log_share(z, count, 9, 10, 11, up)
        if trained.shape[1]:
            below_best(z, count, 12, 12)
            for j in range(count):
                z[j, 12] = max(z[j, 12], np.float32(-60))
            none[13] = _log_share(z, count, 12, 13, -1, up)
        for k in range(4):
            none[k] = below_best(z, count, k, 14 + k)
        for kind in range(N_EVIDENCE, z.shape[1], N_PER_KIND):
            none[kind] = below_best(z, count, kind, kind + 1)
