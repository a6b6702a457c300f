"""Compiled loop of the nearest items: exact products of a row with every item that shares a feature, by an inverted index."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vpunn.hipan._arrays import filled
from vpunn.hipan.kernels import at, helper, kernel
from vpunn.hipan.kernels.fetch import fetch
from vpunn.hipan.kernels.propose import MARKS, fetch_first, keep_best, list_marked, longest_row, rarest_first

#: Rounding errors of products and bounds in 32 bits, and of the length of items kept in 16, are far smaller.
CLOSE, LOOSE = np.float32(1 - 1e-4), np.float32(1 + 1e-2)
#: Entries of a feature that can be read while one item is fetched and multiplied.
DEAR = 30
#: What an item that was met has at least: a product of two tiny numbers may be zero. It is nothing beside `LOOSE`.
TINY = np.float32(1e-30)
#: Items that are collected before the best of them are kept, in units of these.
SOME = 4


def nearest_items(rows, own, index, label, limit, room) -> tuple[np.ndarray, np.ndarray]:
    """The ``limit`` items of largest positive product with each of the ``rows``, best first, smaller numbers first among equals.

    ``index`` has the items by feature, ``label`` one of each item: those of the label ``own[r]`` (−1: none) are passed over. −1 and
    0 where there are fewer.
    """
    n_items = len(label)
    found = filled((len(own), limit), -1, np.int32)
    value = np.zeros((len(own), limit), np.float32)
    _nearest(
        rows,
        own,
        index,
        label,
        room.full("product", n_items, np.float32),
        room.full("met", n_items, np.bool_),
        room.empty("items", n_items + 1, np.int32),
        np.empty(limit, np.int32),
        found,
        value,
    )
    return found, value


@kernel
def _nearest(rows, own, index, label, total, met, listed, best, found, value):
    indptr, indices, data = rows
    start, item, weight = index
    for r in range(len(found)):
        count = np.int64(0)
        for a in range(indptr[r], indptr[r + 1]):
            f, v = indices[a], data[a]
            for e in range(at(start[f]), at(start[f + 1])):
                i = at(item[e])
                total[i] += v * weight[e]
                listed[at(count)] = item[e]
                count += not met[i]  # no question asked: a wrong guess costs more than a write
                met[i] = True
        for j in range(at(count)):
            i = at(listed[j])
            met[i] = False
            if own[r] >= 0 and label[i] == own[r]:
                total[i] = 0
        kept = keep_best(total, count, len(best), listed, best)
        for j in range(kept):
            if total[best[j]] > 0:
                found[r, j] = best[j]
                value[r, j] = total[best[j]]
        for j in range(at(count)):
            total[at(listed[j])] = 0


def nearest_among_all(rows, own, index, label, limit, room) -> tuple[np.ndarray, np.ndarray]:
    """`nearest_items`, the same bits, for rows so long that they meet every item several times: all products are added up, without
    a list of items met, and looked through."""
    n_items = len(label)
    found = filled((len(own), limit), -1, np.int32)
    value = np.zeros((len(own), limit), np.float32)
    some = np.empty(SOME * limit, np.int32)
    best = np.empty(limit, np.int32)
    _nearest_among_all(rows, own, index, label, room.full("product", n_items, np.float32), some, best, found, value)
    return found, value


@kernel
def _nearest_among_all(rows, own, index, label, total, some, best, found, value):
    (indptr, indices, data), (start, item, weight) = rows, index
    for r in range(len(found)):
        for a in range(indptr[r], indptr[r + 1]):
            f, v = indices[a], data[a]
            for e in range(at(start[f]), at(start[f + 1])):
                total[at(item[e])] += v * weight[e]
        if own[r] >= 0:
            for i in range(len(total)):
                total[i] = np.float32(0) if label[i] == own[r] else total[i]
        kept = best_of_all(total, np.float32(0), some, best)
        for j in range(kept):
            found[r, j] = best[j]
            value[r, j] = total[best[j]]
        for i in range(len(total)):
            total[i] = 0


@helper
def best_of_all(total, least, some, best):
    """Items of the largest numbers above ``least`` into ``best``, in descending order; returns how many. ``some`` is room."""
    count = np.int64(0)
    for i in range(len(total)):
        some[count] = i
        count += total[i] > least  # of equal ones the first stay
        if count == len(some):
            kept = keep_best(total, count, len(best), some, best)
            least = total[best[kept - 1]]
            for j in range(kept):
                some[j] = best[j]
            count = np.int64(kept)
    return keep_best(total, count, len(best), some, best)


class Pruned(NamedTuple):
    """What `nearest_of` works with: products so far (0: not met), the list of items met, the best; features from rare to common,
    a bound on what the rest of them can add, the row by feature, which features it may have, and room for shared ones."""

    total: np.ndarray
    listed: np.ndarray
    best: np.ndarray
    rarest: np.ndarray
    bound: np.ndarray
    x: np.ndarray
    mark: np.ndarray
    shared: np.ndarray


def nearest_of(rows, own, index, items, longest_item, most, label, limit, room) -> tuple[np.ndarray, np.ndarray]:
    """`nearest_items` for rows and items without negative numbers, the same bits, looking at few of the common features.

    A row's features are taken from the rarest to the commonest. ``most`` is the largest value of each in any item, so what the
    remaining ones can still add to a product is bounded, by Σ value · most and by the length of that part of the row (items have
    length one). Items that can no longer come among the best are forgotten. Once none can by the remaining features alone, and few
    are left, those are multiplied with the row, whole and in the order of features (``items``: by row).
    """
    n_items, longest = len(label), longest_row(rows.indptr)
    found = filled((len(own), limit), -1, np.int32)
    value = np.zeros((len(own), limit), np.float32)
    work = Pruned(
        room.full("product", n_items, np.float32),
        room.empty("items", n_items + 1, np.int32),
        np.empty(limit, np.int32),
        np.empty(longest, np.int64),
        np.empty(longest + 1, np.float32),
        room.full("row", len(most), np.float32),
        room.full("mark", MARKS, np.bool_),
        room.empty("shared", longest_item + 1, np.int64),
    )
    everything = 2**62, 2**62  # a budget without an end
    _nearest_of(rows, own, index, items, most, label, everything, work, found, value)
    return found, value


@kernel
def _nearest_of(rows, own, index, items, most, label, everything, work, found, value):
    (indptr, indices, data), (start, item, weight) = rows, index
    total, listed, best, rarest, bound, x, mark, shared = work
    for r in range(len(found)):
        features, _ = rarest_first(indptr[r], indptr[r + 1], indices, start, everything, rarest)
        fetch_first(indices, rarest, features, start, item, weight)
        _bounds(rows, rarest, features, most, bound)
        for a in range(indptr[r], indptr[r + 1]):
            x[indices[a]] = data[a]
            mark[indices[a] & (MARKS - 1)] = True
        count, k, full, least = np.int64(0), 0, False, np.float32(0)
        while k < features:
            f, v = indices[rarest[k]], data[rarest[k]]
            more = start[f + 1] - start[f]
            if 2 * more > count >= len(best):
                least = total[best[keep_best(total, count, len(best), listed, best) - 1]] * CLOSE
                count = _near_enough(total, count, listed, least, bound[k])
                full = bound[k] < least
                if full and count * DEAR <= more:
                    break
            if full:  # no item that was not met can be among the best
                for e in range(at(start[f]), at(start[f + 1])):
                    i = at(item[e])
                    t = total[i]
                    total[i] = t + v * weight[e] if t > 0 else np.float32(0)
            else:
                count = _meet(f, v, index, own[r], label, total, listed, count, least - bound[k + 1])
            k += 1
        kept = keep_best(total, count, len(best), listed, best)
        least = total[best[kept - 1]] * CLOSE if kept == len(best) else np.float32(0)
        count = _near_enough(total, count, listed, least, bound[k])
        for j in range(count):
            fetch(items.indices, items.indptr[listed[j]])
            fetch(items.data, items.indptr[listed[j]])
        for j in range(count):
            total[listed[j]] = _product(listed[j], items, x, mark, shared)
        kept = keep_best(total, count, len(best), listed, best)
        for j in range(kept):
            if total[best[j]] > 0:
                found[r, j] = best[j]
                value[r, j] = total[best[j]]
        for j in range(at(count)):
            total[at(listed[j])] = 0
        for a in range(indptr[r], indptr[r + 1]):
            x[indices[a]] = 0
            mark[indices[a] & (MARKS - 1)] = False


@helper
def _meet(f, v, index, own, label, total, listed, count, worth):
    """Add a feature's part to the products of its items and list those not met before, unless that part is below ``worth``: with
    what the remaining features can add they are not among the best. Returns how many are listed."""
    start, item, weight = index
    for e in range(at(start[f]), at(start[f + 1])):
        i = at(item[e])
        if own >= 0 and label[i] == own:
            continue
        t, more = total[i], v * weight[e] + TINY
        listed[at(count)] = item[e]
        new = t == 0 and more >= worth
        count += new  # no question asked: a wrong guess costs more than a write
        total[i] = t + more if t > 0 or new else np.float32(0)
    return count


@helper
def _near_enough(total, count, listed, least, bound):
    """Keep the items that may still reach ``least`` if no product grows by more than ``bound``, the others are as not met; returns
    how many."""
    near = np.int64(0)
    for j in range(at(count)):
        i = at(listed[j])
        t = total[i]
        listed[at(near)] = listed[j]
        near += t + bound >= least
        total[i] = t if t + bound >= least else np.float32(0)
    return near


@helper
def _product(i, items, x, mark, shared):
    """The product of an item with the row, in the order of features."""
    count = list_marked(items.indices, items.indptr[i], items.indptr[i + 1], mark, shared)
    s = np.float32(0)
    for j in range(at(count)):
        a = at(shared[j])
        s += x[at(items.indices[a])] * items.data[a]
    return s


@helper
def _bounds(rows, rarest, count, most, bound):
    """What the features from each one on can add to a product at most, a little more because sums are rounded."""
    linear, square = np.float32(0), np.float32(0)
    bound[count] = 0
    for k in range(count - 1, -1, -1):
        v = rows.data[rarest[k]]
        linear += v * most[rows.indices[rarest[k]]]
        square += v * v
        bound[k] = min(linear, np.sqrt(square)) * LOOSE


@kernel
def add_votes(candidates, voter, vote, parent, branch, out):
    """Add the votes of the voters' nodes (−1: none) for each candidate's node, parent and branch to the first three columns."""
    for r in range(len(candidates)):
        for j in range(candidates.shape[1]):
            c = candidates[r, j]
            for i in range(voter.shape[1] if c >= 0 else 0):
                v = voter[r, i]
                if v >= 0:
                    out[r, j, 0] += vote[r, i] if v == c else np.float32(0)
                    out[r, j, 1] += vote[r, i] if parent[v] == parent[c] else np.float32(0)
                    out[r, j, 2] += vote[r, i] if branch[v] == branch[c] else np.float32(0)
