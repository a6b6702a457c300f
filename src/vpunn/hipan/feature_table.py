"""The one table of words, feature -> (block, values): a row is examined by adding up the entries at its features."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from vpunn.hipan._kernel import at, helper, kernel

#: Entries that are read of a row to find what to propose, those of its rarest features first.
ENTRIES = 4096
#: A list this many times as long as the blocks that are asked about is searched instead of read.
SEARCH = 32


class FeatureTable(NamedTuple):
    """The entries of feature ``f`` are ``start[f] .. start[f + 1]``, their blocks ascending."""

    start: np.ndarray  # (features + 1,)
    block: np.ndarray  # (entries,)
    value: np.ndarray  # (entries, values)
    blocks: int

    @classmethod
    def of(cls, by_feature: sp.csc_matrix, *more: np.ndarray) -> FeatureTable:
        """From a matrix (blocks, features) and further values of its entries, in its order."""
        value = by_feature.data[:, None] if not more else np.column_stack([by_feature.data, *more])
        start, block = by_feature.indptr.astype(np.int64), by_feature.indices.astype(np.int32, copy=False)
        return cls(start, block, value.astype(np.float32, copy=False), by_feature.shape[0])

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the loops take."""
        return self.start, self.block, self.value


def rarest(rows: sp.csr_matrix, start: np.ndarray, entries: int = ENTRIES) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every row, as `csr` has it, cut to its rarest features, those with the shortest lists, as long as their lists have so many
    entries together.

    Frequent features say little about what to propose, and take most of the time; slots are judged by all features.
    """
    told = indptr, indices, data = csr(rows)
    length = np.diff(start)
    if int(length[indices].sum()) <= entries:
        return told
    own, counts = length[indices], np.diff(indptr)
    order = np.lexsort(
        (own, np.repeat(np.arange(len(counts)), counts))
    )  # the row's features by the length of their lists
    before = np.concatenate([[0], np.cumsum(own[order])])
    keep = np.zeros(len(indices), bool)
    keep[order] = before[1:] - np.repeat(before[indptr[:-1]], counts) <= entries
    keep[order[indptr[:-1][counts > 0]]] = True
    return np.concatenate([[0], np.cumsum(keep)])[indptr], indices[keep], data[keep]


class Scratch(NamedTuple):
    """Room for one row at a time: sums per block, which of them were touched, and by which row."""

    total: np.ndarray  # (blocks, values)
    touched: np.ndarray  # (blocks,)
    row: np.ndarray  # (blocks,) the last row that touched the block

    @classmethod
    def of(cls, blocks: int, values: int) -> Scratch:
        return cls(np.zeros((blocks, values), np.float32), np.zeros(blocks, np.int32), np.full(blocks, -1, np.int64))


def csr(rows: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The three arrays of a sparse matrix as the loops take them."""
    return rows.indptr.astype(np.int64, copy=False), rows.indices.astype(np.int32, copy=False), rows.data


def adding(values: int) -> Any:
    """The loop below for entries of so many values, a number that is known when it is compiled: two to three times as fast."""

    @helper
    def add_up(r, rows, table, scratch):
        """sum over features f of x[r, f] * value[f, b] for every block b that has one of the features; how many have."""
        (indptr, indices, data), (start, block, value), (total, touched, row) = rows, table, scratch
        n = 0
        for i in range(indptr[at(r)], indptr[at(r + 1)]):
            x, f = data[at(i)], indices[at(i)]
            for e in range(start[at(f)], start[at(f + 1)]):
                b = block[at(e)]
                if row[at(b)] != r:
                    row[at(b)], touched[at(n)] = r, b
                    n += 1
                    for k in range(values):
                        total[at(b), at(k)] = x * value[at(e), at(k)]
                else:
                    for k in range(values):
                        total[at(b), at(k)] += x * value[at(e), at(k)]
        return n

    return add_up


add_one, add_three = adding(1), adding(3)


def sizes(rows: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How many features every row has, the sum of their sizes, and its length."""
    out = np.zeros((rows.shape[0], 3), np.float32)
    _sizes(csr(rows), out)
    return out[:, 0], out[:, 1], out[:, 2]


@kernel
def _sizes(rows, out):
    indptr, _, data = rows
    for r in range(len(out)):
        out[r, 0] = indptr[r + 1] - indptr[r]
        for i in range(indptr[r], indptr[r + 1]):
            out[r, 1] += abs(data[at(i)])
            out[r, 2] += data[at(i)] * data[at(i)]
        out[r, 2] = np.sqrt(out[r, 2])


def as_csr(start: np.ndarray, feature: np.ndarray, value: np.ndarray, shape: tuple[int, int]) -> sp.csr_matrix:
    """A sparse matrix of arrays that are known to be right: scipy would look at them again, which a single row feels."""
    out = sp.csr_matrix(shape, dtype=value.dtype)
    out.indptr, out.indices, out.data = start, feature, value
    return out


@helper
def insert(item, score, best_item, best_score):
    """Keep the item if it scores more than the least of the best; equal ones in the order in which they came."""
    j = len(best_score) - 1
    if not score > best_score[at(j)]:
        return
    while j > 0 and best_score[at(j - 1)] < score:
        best_score[at(j)], best_item[at(j)] = best_score[at(j - 1)], best_item[at(j - 1)]
        j -= 1
    best_score[at(j)], best_item[at(j)] = score, item


@kernel
def read_at(rows, table, asked, mark, out):
    """What the table says about the blocks that are asked about, of every row: as `add_up`, only there.

    ``asked``: (start, block), the blocks of row r are ``block[start[r] : start[r + 1]]``; ``out``: one line for each.
    """
    (indptr, indices, data), (start, block, value), (first, wanted) = rows, table, asked
    for r in range(len(first) - 1):
        a, z = first[r], first[r + 1]
        for w in range(a, z):
            mark[at(wanted[w])] = w + 1
        for i in range(indptr[r], indptr[r + 1]):
            x, f = data[i], indices[i]
            low, high = start[at(f)], start[at(f + 1)]
            if high - low <= SEARCH * (z - a):
                for e in range(low, high):
                    w = mark[at(block[at(e)])]
                    if w:
                        for k in range(value.shape[1]):
                            out[at(w - 1), at(k)] += x * value[at(e), at(k)]
            else:
                for w in range(a, z):
                    b, left, right = wanted[at(w)], low, high
                    while left < right:
                        middle = (left + right) // 2
                        if block[at(middle)] < b:
                            left = middle + 1
                        else:
                            right = middle
                    if left < high and block[at(left)] == b:
                        for k in range(value.shape[1]):
                            out[at(w), at(k)] += x * value[at(left), at(k)]
        for w in range(a, z):
            mark[at(wanted[w])] = 0
