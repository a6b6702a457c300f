"""Compiled loops that train the heads; how blocks are stored is told in `_arrays`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vpunn._rows import slices
from vpunn.hipan._arrays import Hits, Listed
from vpunn.hipan._ram import ROWS_AT_ONCE
from vpunn.hipan.kernels import at, helper, kernel
from vpunn.hipan.kernels.fetch import LINE, fetch

#: Entries of a feature that are asked for while the row before is worked on.
ENTRIES_AHEAD = 64


@helper
def add_chain(c, ancestry, listed, count):
    """Append the blocks of class ``c``'s chain that are not listed yet, ancestors before descendants."""
    (parent, inner), (place, blocks, stack) = ancestry, listed
    n_nodes = at(len(parent))
    waiting = 0
    u = at(c)
    if place[u] < 0:
        stack[at(waiting)] = u
        waiting += 1
    while u > 0:
        if inner[u]:
            if place[n_nodes + u] >= 0:
                break
            stack[at(waiting)] = n_nodes + u
            waiting += 1
        u = at(parent[u])
    for j in range(waiting - 1, -1, -1):
        place[at(stack[at(j)])] = count
        blocks[at(count)] = stack[at(j)]
        count += 1
    return count


def most_hits(indptr: np.ndarray, indices: np.ndarray, feature_start: np.ndarray, n_blocks: int) -> int:
    """How many entries `find_hits` can find for one row, at most: of a feature no more than it has, nor than blocks; and one more,
    which it may look at."""
    most = 1
    for rows in slices(len(indptr) - 1, ROWS_AT_ONCE):
        start = indptr[rows.start : rows.stop + 1]
        some = indices[start[0] : start[-1]]
        each = np.minimum(feature_start[some + 1] - feature_start[some], n_blocks)
        if len(start) == 2:  # one row, which is often asked alone
            return max(int(each.sum()), most) + 1
        below = np.zeros(len(each) + 1, np.int64)
        np.cumsum(each, out=below[1:])
        most = max(most, int(np.diff(below[start - start[0]]).max()))
    return most + 1


@helper
def find_hits(rows, row, entries, listed, count, hits, wanted):
    """All stored entries at (listed block, feature of the row), of which the arrays ``wanted`` will be read; returns how many.

    Each is written behind those found before, and counts if it is one: no question asked.
    """
    found = at(0)
    start_row = rows.indptr[row]
    for a in range(start_row, rows.indptr[row + 1]):
        f = rows.indices[a]
        first, start, stop, direct = found, entries.start[f], entries.start[f + 1], entries.row[f]
        if stop - start <= (4 if direct >= 0 else 16) * count:
            for e in range(at(start), at(stop)):
                hits.entry[found] = e
                found += at(listed.place[at(entries.block[e])] >= 0)
            for i in range(first, found):
                hits.block[i] = listed.place[at(entries.block[at(hits.entry[i])])]
        else:
            for q in range(count):
                if direct >= 0:
                    there, e = _in_table(entries.table, direct, np.int64(listed.blocks[q]))
                    e += start
                    for array in wanted:
                        fetch(array, e)
                else:
                    e = _in_order(entries.block, start, stop, listed.blocks[q])
                    there = e < stop
                hits.entry[found] = e
                hits.block[found] = q
                found += at(there)
        for i in range(first, found):
            hits.position[i] = a - start_row
    return np.int64(found)


@helper
def _in_table(table, row, b):
    """Whether the feature has an entry of block ``b``, and how many of its entries come before."""
    bits, before = np.int64(table[row, b >> 5, 0]), np.int64(table[row, b >> 5, 1])
    there = (bits >> (b & 31)) & 1 > 0
    bits &= (np.int64(1) << (b & 31)) - 1
    bits -= (bits >> 1) & 0x55555555
    bits = (bits & 0x33333333) + ((bits >> 2) & 0x33333333)
    return there, before + ((((bits + (bits >> 4)) & 0x0F0F0F0F) * 0x01010101 >> 24) & 0xFF)


@helper
def _in_order(block, start, stop, b):
    """The entry of block ``b`` among those from ``start`` to ``stop``; ``stop`` if it has none."""
    low, high = start, stop
    while low < high:
        middle = (low + high) >> 1
        if block[at(middle)] < b:
            low = middle + 1
        else:
            high = middle
    return low if low < stop and block[low] == b else stop


class Weights(NamedTuple):
    """Weight and AdaGrad's energy of every entry side by side, so that an update waits for memory once; and of the biases."""

    weight_energy: np.ndarray
    bias: np.ndarray
    bias_energy: np.ndarray


class Work(NamedTuple):
    """Scores and gradients of listed blocks, classes of a row and their probabilities."""

    score: np.ndarray
    gradient: np.ndarray
    classes: np.ndarray
    p: np.ndarray


def train_heads(rows, own, row_weight, candidates, ancestry, deepest, entries, weights, order, rates, losses) -> None:
    """One AdaGrad pass over the rows in ``order``; ``losses`` receives the loss of each before its update.

    Loss of a row: softmax cross-entropy of its class among its candidates, with the score Σ_{B∋c} (⟨w_B, x⟩ + b_B).
    The gradient of a ball is (probability of the candidates inside it − 1 if the class is inside) · x, so siblings
    share what their ancestors learn. Updates are in place; ``rates`` are those of nodes, balls and biases.
    """
    width = candidates.shape[1] + 1
    n_blocks = width * (deepest + 2)
    listed = Listed(
        np.full(2 * len(ancestry.parent), -1, np.int32), np.empty(n_blocks, np.int32), np.empty(deepest + 2, np.int32)
    )
    room = most_hits(rows.indptr, rows.indices, entries.start, n_blocks)
    hits = Hits(np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room, np.int32))
    score, gradient = np.empty((2, n_blocks), np.float32)
    work = Work(score, gradient, np.empty(width, np.int32), np.empty(width, np.float32))
    _train_heads(
        rows, own, row_weight, candidates, ancestry, entries, weights, order, rates, losses, (listed, hits), work
    )


@kernel
def _train_heads(rows, own, row_weight, candidates, ancestry, entries, weights, order, rates, losses, found, work):
    (parent, inner), (listed, hits), (score, gradient, classes, p) = ancestry, found, work
    (own_rate, ball_rate, bias_rate), (weight_energy, bias, bias_energy) = rates, weights
    place, blocks = listed.place, listed.blocks
    n_nodes, width = len(parent), len(classes)
    for t in range(len(order)):
        _rows_ahead(rows, order, t, entries, weight_energy)
        r = order[t]
        n_classes, truth, count = 0, -1, np.int64(0)
        for j in range(width - 1):
            c = candidates[r, j]
            if c < 0:
                break
            if c == own[r]:
                truth = n_classes
            classes[n_classes] = c
            n_classes += 1
        if truth < 0:
            truth = n_classes
            classes[n_classes] = own[r]
            n_classes += 1
        if n_classes < 2:
            continue
        for j in range(n_classes):
            count = add_chain(classes[j], ancestry, listed, count)
        for q in range(count):
            score[q] = bias[blocks[q]]
            gradient[q] = 0
        start = rows.indptr[r]
        n_hits = find_hits(rows, r, entries, listed, count, hits, (weight_energy,))
        for i in range(at(n_hits)):
            e, v = at(hits.entry[i]), rows.data[at(start + hits.position[i])]
            score[at(hits.block[i])] += weight_energy[e, at(0)] * v
        top = np.float32(-1e30)
        for j in range(n_classes):
            u = at(classes[j])
            s = score[at(place[u])]
            while u > 0:
                if inner[u]:
                    s += score[at(place[at(n_nodes) + u])]
                u = at(parent[u])
            p[j] = s
            top = max(top, s)
        total = np.float32(0)
        for j in range(n_classes):
            p[j] = np.exp(p[j] - top)
            total += p[j]
        losses[r] = -np.log(p[truth] / total + 1e-30)
        for j in range(n_classes):
            g = (p[j] / total - (1 if j == truth else 0)) * row_weight[r]
            u = at(classes[j])
            gradient[at(place[u])] += g
            while u > 0:
                if inner[u]:
                    gradient[at(place[at(n_nodes) + u])] += g
                u = at(parent[u])
        for i in range(at(n_hits)):
            q = at(hits.block[i])
            g = gradient[q]
            if abs(g) > 1e-2:  # rows already explained cost nothing further
                e = at(hits.entry[i])
                d = g * rows.data[at(start + hits.position[i])]
                energy = weight_energy[e, at(1)] + d * d
                weight_energy[e, at(1)] = energy
                weight_energy[e, at(0)] -= (own_rate if blocks[q] < n_nodes else ball_rate) * d / np.sqrt(energy)
        for q in range(count):
            b = at(blocks[q])
            place[b] = -1
            g = gradient[q]
            bias_energy[b] += g * g
            bias[b] -= bias_rate * g / np.sqrt(bias_energy[b])


@helper
def _rows_ahead(rows, order, t, entries, weight_energy):
    """Have what the next row reads brought near, and where that of the one after it begins."""
    if t + 1 < len(order):
        for a in range(rows.indptr[order[t + 1]], rows.indptr[order[t + 1] + 1]):
            start, stop = entries.start[rows.indices[a]], entries.start[rows.indices[a] + 1]
            for e in range(start, min(stop, start + ENTRIES_AHEAD), LINE // 2):  # pairs of weight and energy
                fetch(entries.block, e)
                fetch(weight_energy, e)
    if t + 2 < len(order):
        for a in range(rows.indptr[order[t + 2]], rows.indptr[order[t + 2] + 1]):
            fetch(entries.start, rows.indices[a])
            fetch(entries.row, rows.indices[a])


@helper
def branch_scores(rows, r, weight, score):
    """Write the scores of the depth-1 balls for one row; the last row of ``weight`` is the bias."""
    for b in range(len(score)):
        score[b] = weight[len(weight) - 1, b]
    for a in range(rows.indptr[r], rows.indptr[r + 1]):
        f, v = rows.indices[a], rows.data[a]
        for b in range(len(score)):
            score[b] += v * weight[f, b]


def train_branches(rows, branch, row_weight, order, weight_energy) -> None:
    """One AdaGrad pass of max(0, 1 ∓ score)² for every depth-1 ball, + in its rows; rows outside of all are passed over.

    ``weight_energy`` holds the weights of a feature and behind them their energies, so that an update waits for memory once.
    """
    width = weight_energy.shape[1] // 2
    wrong = np.empty(width, np.int32), np.empty(width)
    _train_branches(rows, branch, row_weight, order, weight_energy, np.empty(width, np.float32), wrong)


@kernel
def _train_branches(rows, branch, row_weight, order, weight_energy, score, wrong):
    (indptr, indices, data), (ball, gradient) = rows, wrong
    last, width = len(weight_energy) - 1, len(score)
    for t in range(len(order)):
        r = order[t]
        if branch[r] == 0:
            continue
        branch_scores(rows, r, weight_energy, score)
        count = 0
        for b in range(width):
            sign = np.float32(1 if b + 1 == branch[r] else -1)
            g = -sign * max(np.float32(0), 1 - sign * score[b]) * row_weight[r]
            if g != 0:
                ball[count], gradient[count] = b, g
                count += 1
        for a in range(indptr[r], indptr[r + 1]):
            f = indices[a]
            for j in range(count):
                b, d = ball[j], gradient[j] * data[a]
                weight_energy[f, width + b] += d * d
                weight_energy[f, b] -= d / np.sqrt(weight_energy[f, width + b])
        for j in range(count):
            b, g = ball[j], gradient[j]
            weight_energy[last, width + b] += g * g
            weight_energy[last, b] -= g / np.sqrt(weight_energy[last, width + b])
