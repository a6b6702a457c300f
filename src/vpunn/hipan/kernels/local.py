"""Compiled loops of what narrow dense blocks tell about few classes."""

from __future__ import annotations

import numpy as np

from vpunn.hipan.kernels import helper, kernel
from vpunn.hipan.kernels.ranks import below_best

#: Columns of one candidate; `LOCAL` in `_local` names them.
N_LOCAL = 4


def quadratic(unit, length, axis, classes, class_of) -> np.ndarray:
    """Scores (rows, candidates) of rows, each class by its mean, root of its inverse spread, constant and freedom; of a class that
    is none of these the least."""
    out = np.full(class_of.shape, -1e4, np.float32)
    _quadratic(unit, length, axis, *classes, class_of, np.empty(len(axis)), out)
    return out


@kernel
def _quadratic(unit, length, axis, mean, root, constant, freedom, class_of, off, out):
    width = len(axis)
    for r in range(len(out)):
        for j in range(out.shape[1]):
            c = class_of[r, j]
            if c < 0 or c >= len(mean):
                continue
            for k in range(width):
                off[k] = np.float64(unit[r, k]) * length[r] * axis[k] - mean[c, k]
            far = 0.0
            for i in range(width):
                along = 0.0
                for k in range(i + 1):
                    along += root[c, i, k] * off[k]
                far += along * along
            out[r, j] = constant[c] - 0.5 * (freedom[c] + width) * np.log1p(far / freedom[c])


def gather_local(class_of, length, score, near, items, share, voters) -> np.ndarray:
    """Evidence (rows, candidates + 1, columns) by the scores and by votes of the nearest items; last slot "none"."""
    rows, width = class_of.shape
    out = np.zeros((rows, width + 1, N_LOCAL), np.float32)
    fewer, more = min(voters[0], len(items[0])), min(voters[1], len(items[0]))
    gap, nearest = np.empty(len(items[0]), np.float32), np.empty(more, np.float32)
    votes = np.empty((2, len(share)), np.float64)
    _gather_local(class_of, length, score, near, items, share, fewer, gap, nearest, votes, out)
    return out


@helper
def _nearest_gaps(gap, nearest):
    """The least of the numbers, in order."""
    size, held = len(nearest), 0
    for i in range(len(gap)):
        if held == size and gap[i] >= nearest[size - 1]:
            continue
        at = held if held < size else size - 1
        held = at + 1
        while at > 0 and nearest[at - 1] > gap[i]:
            nearest[at] = nearest[at - 1]
            at -= 1
        nearest[at] = gap[i]


@kernel
def _gather_local(class_of, length, score, near, items, share, fewer, gap, nearest, votes, out):
    item_square, item_length, item_class = items
    rows, width = class_of.shape
    for r in range(rows):
        if length[r] == 0:
            continue  # nothing known about the row
        for i in range(len(gap)):
            square = item_square[i] - 2 * item_length[i] * length[r] * near[r, i]
            gap[i] = square if item_class[i] >= 0 else np.float32(1e30)
        _nearest_gaps(gap, nearest)
        votes[:] = 0
        slack = np.float32(1e-5) * (length[r] * length[r] + 1)
        far, farther = nearest[fewer - 1] + slack, nearest[len(nearest) - 1] + slack
        total, more = 1.0, 1.0
        for i in range(len(gap)):
            if gap[i] <= farther and item_class[i] >= 0:
                votes[1, item_class[i]] += 1
                more += 1
                if gap[i] <= far:
                    votes[0, item_class[i]] += 1
                    total += 1
        z = out[r]
        none, count = z[width], 0
        while count < width and class_of[r, count] >= 0:
            c = class_of[r, count]
            z[count, 0] = score[r, count]
            z[count, 2] = np.log((votes[0, c] + share[c]) / total)
            z[count, 3] = np.log((votes[1, c] + share[c]) / more)
            count += 1
        if count == 0:
            continue
        below_best(z, count, 0, 0)
        sum_of = 0.0
        for j in range(count):
            z[j, 0] = max(z[j, 0], np.float32(-60))
            sum_of += np.exp(z[j, 0])
        for k in range(1, N_LOCAL):
            none[k] = np.float32(-1e30)
        for j in range(count):
            z[j, 1] = z[j, 0] - np.log(sum_of)
            for k in range(1, N_LOCAL):
                none[k] = max(none[k], z[j, k])
