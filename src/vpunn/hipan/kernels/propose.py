"""Compiled loops that propose candidates: a few nodes per row, by centroid and by head score.

How blocks are stored is told in `_arrays`. Everything is computed row by row with fixed loops, so a row gives the same bits alone
and in a batch. Arrays are made outside of the compiled loops: every way to make one costs numba as much to compile as a loop of
its own; those as long as the tree are kept from call to call.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vpunn.hipan._arrays import Room, filled
from vpunn.hipan.kernels import at, helper, kernel
from vpunn.hipan.kernels.fetch import fetch

#: Places in which a row marks its features by their last bits, so that they stay in the nearest cache; a power of two.
MARKS = 4096


@helper
def list_marked(indices, start, stop, mark, found):
    """List the entries from ``start`` to ``stop`` whose feature is marked, without a branch: every wrong guess whether a feature is
    shared costs as much as ten features. Returns how many."""
    count = at(0)
    for a in range(at(start), at(stop)):
        found[count] = a
        count += at(mark[at(indices[a] & (MARKS - 1))])
    return np.int64(count)


@helper
def log_growth(met, background, expected):
    """The logarithm of how much more of a feature is there once ``met`` was: it is there as in the root before."""
    before = background * expected
    return np.log(np.float32(1) + met / before) if met > 0 and before > 0 else np.float32(0)


@helper
def fetch_first(indices, rarest, count, start, stored, numbers):
    """Have the first entries of a row's features brought near; what follows comes by itself."""
    for k in range(count):
        first = start[indices[rarest[k]]]
        fetch(stored, first)
        fetch(numbers, first)


@helper
def keep_best(values: np.ndarray, count: int, limit: int, ids: np.ndarray, best: np.ndarray) -> int:
    """The ``limit`` ids of largest value in descending order, smaller ids first among equals; returns how many."""
    filled = 0
    for j in range(at(count if limit > 0 else 0)):
        i = ids[j]
        value = values[at(i)]
        if filled < limit:
            place = filled
            filled += 1
        else:
            worst = values[at(best[at(limit - 1)])]
            if not value >= worst or (value == worst and i > best[limit - 1]):  # also what is not a number
                continue
            place = limit - 1
        while place > 0 and (
            values[best[place - 1]] < value or (values[best[place - 1]] == value and best[place - 1] > i)
        ):
            best[place] = best[place - 1]
            place -= 1
        best[place] = i
    return filled


def merged(first, more, limit) -> np.ndarray:
    """Candidates of ``first``, and behind them those of the first ``limit`` different ones of ``more`` that are new; −1 padded."""
    limit = min(limit, more.shape[1])
    out = filled((len(first), first.shape[1] + limit), -1, np.int32)
    _merged(np.ascontiguousarray(first), np.ascontiguousarray(more), limit, out)
    return out


@kernel
def _merged(first, more, limit, out):
    for r in range(len(out)):
        known = 0
        for j in range(first.shape[1]):
            if first[r, j] >= 0:
                out[r, known] = first[r, j]
                known += 1
        filled, taken = known, 0
        for j in range(more.shape[1]):
            node = more[r, j]
            fresh = node >= 0 and taken < limit
            for i in range(j):
                fresh = fresh and more[r, i] != node
            taken += fresh
            for i in range(known):
                fresh = fresh and out[r, i] != node
            if fresh:
                out[r, filled] = node
                filled += 1


def longest_row(indptr):
    """Most entries of a row, at least one."""
    if len(indptr) == 2:  # one row, which is often asked alone
        return max(int(indptr[1]) - int(indptr[0]), 1)
    return int(np.maximum.reduce(indptr[1:] - indptr[:-1], initial=1))


@helper
def rarest_first(start, stop, indices, feature_start, budget, rarest):
    """Positions of the row's features from the rarest to the commonest, and how many may open classes and add scores.

    The rarest open classes, as many as ``opening`` entries allow; the next ones only add to open classes, up to ``scoring``
    entries (both are the ``budget``). At least one feature does both.
    """
    opening, scoring = budget
    count = 0
    for a in range(start, stop):
        size = feature_start[indices[a] + 1] - feature_start[indices[a]]
        if size > 0:
            rarest[count] = (size << 31) | (a - start)  # one number to sort by: the size, then the place in the row
            count += 1
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:  # Shell's sort: rows are short, and one of 100,000 features must not take squares of that
        for k in range(gap, count):
            key, place = rarest[k], k
            while place >= gap and rarest[place - gap] > key:
                rarest[place] = rarest[place - gap]
                place -= gap
            rarest[place] = key
        gap //= 3
    total, openers, scorers = 0, min(count, 1), min(count, 1)
    for k in range(count):
        rarest[k] = start + (rarest[k] & 0x7FFFFFFF)
        f = indices[rarest[k]]
        total += feature_start[f + 1] - feature_start[f]
        if total <= opening:
            openers = k + 1
        if total <= scoring:
            scorers = max(k + 1, scorers)
    return openers, max(openers, scorers)


class Opened(NamedTuple):
    """Classes that a row's features open: which, in a list; the best of them; and the features, rarest first."""

    there: np.ndarray
    classes: np.ndarray
    best: np.ndarray
    rarest: np.ndarray

    @classmethod
    def of(cls, room: Room, indptr: np.ndarray, n_nodes: int, limit: int) -> Opened:
        """Empty ones, for rows of that length."""
        return cls(
            room.full("opened", n_nodes, np.bool_),
            room.empty("classes", n_nodes, np.int32),
            np.empty(limit, np.int32),
            np.empty(longest_row(indptr), np.int64),
        )


def propose_by_centroid(rows, own, row_weight, entries, entry_sum, norm2, n_nodes, limit, budget, room) -> np.ndarray:
    """Classes by coverage · cosine: how much of the row the class has seen, times the cosine with its centroid.

    ``own[r]`` is the class the row itself was counted in (−1: none); that row's share is taken out again exactly, so
    training rows are judged as if they had been left out. The row's rarest features
    propose (`rarest_first`: the common ones cost most and separate least); the evidence that follows is exact.
    """
    out = filled((len(rows.indptr) - 1, limit), -1, np.int32)
    totals = room.full("dot", n_nodes, np.float32), room.full("covered", n_nodes, np.float32)
    opened = Opened.of(room, rows.indptr, n_nodes, limit)
    _by_centroid(rows, own, row_weight, entries, entry_sum, norm2, budget, totals, opened, out)
    return out


@kernel
def _by_centroid(rows, own, row_weight, entries, entry_sum, norm2, budget, totals, opened_, out):
    (indptr, indices, data), (dot, covered), (opened, classes, best, rarest) = rows, totals, opened_
    feature_start, entry_block = entries.start, entries.block
    n_rows, limit = out.shape
    n_nodes = len(dot)
    for r in range(n_rows):
        count = np.int64(0)
        square, read = np.float32(0), np.int64(0)
        openers, scorers = rarest_first(indptr[r], indptr[r + 1], indices, feature_start, budget, rarest)
        fetch_first(indices, rarest, scorers, feature_start, entry_block, entry_sum)
        for k in range(scorers):
            f, v = indices[rarest[k]], data[rarest[k]]
            square += v * v
            read += feature_start[f + 1] - feature_start[f]
            for e in range(at(feature_start[f]), at(feature_start[f + 1])):
                c = entry_block[e]
                if c >= n_nodes:
                    break
                dot[at(c)] += v * entry_sum[e]
                if c != own[r] or entry_sum[e] - row_weight[r] * v > 1e-6:
                    covered[at(c)] += v * v
                if k < openers and not opened[at(c)]:
                    opened[at(c)] = True
                    classes[count] = c
                    count += 1
        for j in range(count):
            c = at(classes[j])
            opened[c] = False
            s, q = dot[c], norm2[c]
            if classes[j] == own[r]:
                w = row_weight[r]
                q = q - 2 * w * s + w * w * square
                s -= w * square
            dot[c] = covered[c] * s / np.sqrt(q) if q > 1e-6 else np.float32(-1e30)
        filled = keep_best(dot, count, limit, classes, best)
        kept = 0
        for j in range(filled):
            if dot[best[j]] > -1e29:
                out[r, kept] = best[j]
                kept += 1
        if read > n_nodes // 8:  # as many as there are nodes: all of them at once
            for c in range(n_nodes):
                dot[c] = 0
                covered[c] = 0
            continue
        for k in range(scorers):
            f = indices[rarest[k]]
            for e in range(at(feature_start[f]), at(feature_start[f + 1])):
                c = entry_block[e]
                if c >= n_nodes:
                    break
                dot[at(c)] = 0
                covered[at(c)] = 0


def propose_by_likelihood(rows, entries, entry_sum, background, alone, limit, budget, room) -> np.ndarray:
    """Classes by whose own rows the row is likeliest (`Alone`), as far as `rarest_first` reads it."""
    n_nodes = len(alone.growth)
    out = filled((len(rows.indptr) - 1, limit), -1, np.int32)
    opened = Opened.of(room, rows.indptr, n_nodes, limit)
    _by_likelihood(
        rows, entries, entry_sum, background, alone, budget, room.full("fit", n_nodes, np.float32), opened, out
    )
    return out


@kernel
def _by_likelihood(rows, entries, entry_sum, background, alone, budget, fit, opened_, out):
    (indptr, indices, data), (opened, classes, best, rarest) = rows, opened_
    feature_start, entry_block, n_nodes, limit = entries.start, entries.block, len(fit), out.shape[1]
    for r in range(len(out)):
        count, size = np.int64(0), np.float32(0)
        openers, scorers = rarest_first(indptr[r], indptr[r + 1], indices, feature_start, budget, rarest)
        fetch_first(indices, rarest, scorers, feature_start, entry_block, entry_sum)
        for k in range(scorers):
            f, v = indices[rarest[k]], data[rarest[k]]
            size += v
            for e in range(at(feature_start[f]), at(feature_start[f + 1])):
                c = entry_block[e]
                if c >= n_nodes:
                    break
                fit[at(c)] += v * log_growth(entry_sum[e], background[f], alone.expected)
                if k < openers and not opened[at(c)]:
                    opened[at(c)] = True
                    classes[count] = c
                    count += 1
        for j in range(count):
            opened[classes[j]] = False
            fit[classes[j]] -= size * alone.growth[classes[j]]
        filled = keep_best(fit, count, limit, classes, best)
        for j in range(filled):
            out[r, j] = best[j]
        for k in range(scorers):  # leave nothing behind
            f = indices[rarest[k]]
            for e in range(at(feature_start[f]), at(feature_start[f + 1])):
                if entry_block[e] >= n_nodes:
                    break
                fit[at(entry_block[e])] = 0


class Sums(NamedTuple):
    """Head scores of blocks, their sums along the ancestors, which of those are known, and of whole classes."""

    local: np.ndarray
    chain: np.ndarray
    known: np.ndarray
    total: np.ndarray
    stack: np.ndarray


def propose_by_heads(rows, ancestry, entries, weight, bias, limit, budget, first, room) -> np.ndarray:
    """Append to ``first`` (−1 padded candidates) the ``limit`` best classes by head score that are not in it yet.

    Scores one scatter over the row's features; only nodes that share a feature with the row are ranked, and the sum along
    the ancestors is kept for the ones that follow.
    """
    n_nodes = len(ancestry.parent)
    out = filled((len(rows.indptr) - 1, first.shape[1] + limit), -1, np.int32)
    sums = Sums(
        room.full("local", 2 * n_nodes, np.float32),
        room.empty("chain", n_nodes, np.float32),
        room.full("known", n_nodes, np.bool_),
        room.empty("total", n_nodes, np.float32),
        room.empty("stack", n_nodes, np.int32),
    )
    opened = Opened.of(room, rows.indptr, n_nodes, limit)
    _by_heads(rows, ancestry, entries, weight, bias, budget, first, sums, opened, out)
    return out


@kernel
def _by_heads(rows, ancestry, entries, weight, bias, budget, first, sums, opened_, out):
    (indptr, indices, data), (parent, inner), (opened, classes, best, rarest) = rows, ancestry, opened_
    local, chain, known, total, stack = sums
    feature_start, entry_block = entries.start, entries.block
    n_nodes, limit = len(parent), len(best)
    for r in range(len(out)):
        n_classes = np.int64(0)
        openers, scorers = rarest_first(indptr[r], indptr[r + 1], indices, feature_start, budget, rarest)
        fetch_first(indices, rarest, scorers, feature_start, entry_block, weight)
        read = np.int64(0)
        for k in range(scorers):
            f, v = indices[rarest[k]], data[rarest[k]]
            read += feature_start[f + 1] - feature_start[f]
            for e in range(at(feature_start[f]), at(feature_start[f + 1])):
                local[at(entry_block[e])] += (
                    weight[e] * v
                )  # no question asked: a wrong guess costs more than an addition
        for k in range(openers):
            f = indices[rarest[k]]
            for e in range(at(feature_start[f]), at(feature_start[f + 1])):
                c = entry_block[e]
                if c >= n_nodes:
                    break
                if not opened[at(c)]:
                    opened[at(c)] = True
                    classes[n_classes] = c
                    n_classes += 1
        for j in range(at(n_classes)):
            waiting = 0
            c = u = at(classes[j])
            while u > 0 and not known[u]:
                stack[at(waiting)] = u
                waiting += 1
                u = at(parent[u])
            s = chain[u] if u > 0 else np.float32(0)
            for i in range(waiting - 1, -1, -1):
                u = at(stack[at(i)])
                if inner[u]:
                    s += bias[at(n_nodes) + u] + local[at(n_nodes) + u]
                chain[u] = s
                known[u] = True
            total[c] = s + bias[c] + local[c]
            opened[c] = False
        filled = keep_best(total, n_classes, limit, classes, best)
        known_before = 0
        while known_before < first.shape[1] and first[r, known_before] >= 0:
            out[r, known_before] = first[r, known_before]
            known_before += 1
        for j in range(at(n_classes)):  # leave nothing behind
            u = at(classes[j])
            while u > 0 and known[u]:
                known[u] = False
                u = at(parent[u])
        kept = known_before
        for j in range(filled):
            fresh = True
            for i in range(known_before):
                fresh = fresh and out[r, i] != best[j]
            if fresh:
                out[r, kept] = best[j]
                kept += 1
        if read > len(local) // 8:  # as many as it is long: all of it at once
            for b in range(len(local)):
                local[b] = 0
            continue
        for k in range(scorers):
            f = indices[rarest[k]]
            for e in range(at(feature_start[f]), at(feature_start[f + 1])):
                local[at(entry_block[e])] = 0
