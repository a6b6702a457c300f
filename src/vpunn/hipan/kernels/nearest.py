"""Compiled loop of the nearest items: exact products of a row with every item that shares a feature, by an inverted index."""

from __future__ import annotations

import numpy as np

from vpunn.hipan.kernels import kernel
from vpunn.hipan.kernels.propose import keep_best


def nearest_items(rows, own, index, label, limit, room) -> tuple[np.ndarray, np.ndarray]:
    """The ``limit`` items of largest positive product with each of the ``rows``, best first, smaller numbers first among equals.

    ``index`` has the items by feature, ``label`` one of each item: those of the label ``own[r]`` (−1: none) are passed over. −1 and
    0 where there are fewer.
    """
    n_items = len(label)
    found = np.full((len(own), limit), -1, np.int32)
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
            for e in range(start[f], start[f + 1]):
                i = item[e]
                total[i] += v * weight[e]
                listed[count] = i
                count += not met[i]  # no question asked: a wrong guess costs more than a write
                met[i] = True
        for j in range(count):
            met[listed[j]] = False
            if own[r] >= 0 and label[listed[j]] == own[r]:
                total[listed[j]] = 0
        kept = keep_best(total, count, len(best), listed, best)
        for j in range(kept):
            if total[best[j]] > 0:
                found[r, j] = best[j]
                value[r, j] = total[best[j]]
        for j in range(count):
            total[listed[j]] = 0
