"""The one table of words, feature -> (block, values): a row is examined by adding up the entries at its features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from vpunn.hipan._kernel import at, helper, kernel

#: Entries that are read of a row to find what to propose, those of its rarest features first.
ENTRIES = 4096
#: A list this many times as long as the blocks that are asked about is searched instead of read.
SEARCH = 8


class FeatureTable(NamedTuple):
    """The entries of feature ``f`` are ``start[f] .. start[f + 1]``, their blocks ascending."""

    start: np.ndarray  # (features + 1,)
    block: np.ndarray  # (entries,)
    value: np.ndarray  # (entries, values)
    blocks: int

    @classmethod
    def of(cls, by_feature: sp.csc_matrix, *more: np.ndarray) -> FeatureTable:
        """From a matrix (blocks, features) and further values of its entries, in its order."""
        value = np.column_stack([by_feature.data, *more]).astype(np.float32)
        return cls(by_feature.indptr.astype(np.int64), by_feature.indices.astype(np.int32), value, by_feature.shape[0])

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the loops take."""
        return self.start, self.block, self.value


def rarest(rows: sp.csr_matrix, start: np.ndarray, entries: int = ENTRIES) -> sp.csr_matrix:
    """Every row cut to its rarest features, those with the shortest lists, as long as their lists have so many entries together.

    Frequent features say little about what to propose, and take most of the time; slots are judged by all features.
    """
    length = np.diff(start)
    if rows.nnz * int(length.max(initial=0)) <= entries or int(length[rows.indices].sum()) <= entries:
        return rows
    keep = np.zeros(rows.nnz, bool)
    told = csr(rows)
    _rarest(told, length, entries, np.empty(int(np.diff(told[0]).max()), np.int64), keep)
    out = sp.csr_matrix(rows.shape, dtype=rows.dtype)  # not from arrays, which would be checked again
    out.data, out.indices = rows.data[keep], rows.indices[keep]
    out.indptr = np.concatenate([[0], np.cumsum(keep)])[rows.indptr].astype(np.int32)
    return out


@kernel
def _rarest(rows, length, entries, order, keep):
    indptr, indices, _ = rows
    for r in range(len(indptr) - 1):
        met, read = 0, 0
        for i in range(indptr[r], indptr[r + 1]):  # the row's features by the length of their lists
            j, long = met, length[at(indices[at(i)])]
            while j > 0 and length[at(indices[at(order[at(j - 1)])])] > long:
                order[at(j)] = order[at(j - 1)]
                j -= 1
            order[at(j)] = i
            met += 1
        for j in range(met):
            read += length[at(indices[at(order[at(j)])])]
            if j > 0 and read > entries:
                break
            keep[at(order[at(j)])] = True


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
                for k in range(value.shape[1]):
                    total[at(b), at(k)] = 0
            for k in range(value.shape[1]):
                total[at(b), at(k)] += x * value[at(e), at(k)]
    return n


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
