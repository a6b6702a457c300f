"""The dictionary: which features the rest of a class holds when a row of it holds this one.

A row read through it is another row, examined by the same sums and the same items.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
import scipy.sparse as sp

from vpunn.hipan._kernel import at, kernel
from vpunn.hipan.evidence import Column, Look, Sample, Slots
from vpunn.hipan.feature_table import Scratch, add_one, as_csr, csr, insert
from vpunn.hipan.nearest import Nearest
from vpunn.hipan.sums import Sums, block_sums

#: Features kept of the rest of a class, and of an entry.
WORDS = 16
#: Features looked at of the sum of a class, lest a class of many rows costs their square.
OF_CLASS = 64
#: Features whose entries are made at a time, before the largest are kept.
AT_ONCE = 4096
#: Features kept of a row that was read.
READ = 16
#: Entries that are read of such a row to find what is like it: a hint needs fewer than the row itself.
FEWER = 1024
#: A feature of so many rows counts half.
DOUBT = 3.0


@dataclass(frozen=True)
class Dictionary:
    """entry(f) = sum over rows with f of the rest of their class / (rows with f + 3) - what is usual, where above."""

    entries: sp.csr_matrix  # (features, features)
    sums: Sums
    items: Nearest

    columns: ClassVar[tuple[Column, ...]] = (
        Column("cosine through the dictionary", decides=True),
        Column("nearest item through the dictionary", decides=True),
        Column("cosine of the parent through the dictionary", kinds="known"),
    )

    @classmethod
    def fit(cls, sample: Sample, earlier: dict[str, object]) -> Dictionary:
        """O(rows x 16 x features of a row)."""
        rows = sample.rows
        sums, items = cast(Sums, earlier["Sums"]), cast(Nearest, earlier["Nearest"])
        classes = largest(block_sums(sample)[sample.tree.leaf], OF_CLASS)
        rest = largest(classes[sample.leaf] - sp.diags_array(sample.weight.astype(np.float32)) @ rows, WORDS)
        rest.data[rest.data < 1e-6] = 0
        rest.eliminate_zeros()
        told = np.diff(rest.indptr) > 0
        if not told.any():  # no class has two rows: it has nothing to say
            return cls(sp.csr_matrix((rows.shape[1],) * 2, dtype=np.float32), sums, items)
        rest, holds = unit(rest[told]), (rows[told] > 0).astype(np.float32)
        usual, held = np.asarray(rest.mean(0)).ravel(), np.asarray(holds.sum(0)).ravel()
        by_feature, parts = holds.T.tocsr(), []
        for first in range(0, len(held), AT_ONCE):
            some = held[first : first + AT_ONCE]
            entries = sp.csr_matrix(sp.diags_array(1 / (some + DOUBT)) @ (by_feature[first : first + AT_ONCE] @ rest))
            feature = np.repeat(np.arange(len(some)), np.diff(entries.indptr))
            entries.data -= usual[entries.indices] * (some / (some + DOUBT))[feature]
            entries.data[entries.data < 0] = 0
            entries.eliminate_zeros()
            parts.append(largest(entries, WORDS))
        return cls(sp.csr_matrix(sp.vstack(parts), dtype=np.float32), sums, items)

    def look(self, rows: sp.csr_matrix) -> Look:
        """The rows as the dictionary reads them, before the same sums and items."""
        read = self.read(rows)
        near = self.items.nearest(read, FEWER)

        def propose(k: int) -> list[np.ndarray]:
            return [self.sums.best(read, max(k // 2, 1), FEWER)[0][0]]

        def values(slots: Slots) -> list[np.ndarray]:
            cosine = self.sums.at(read, slots.asked)[0]
            nearest = self.items.items.tally(near, slots)[1]
            return [cosine[slots.asked.own], nearest, cosine[slots.asked.parent]]

        return Look(propose, values)

    def read(self, rows: sp.csr_matrix) -> sp.csr_matrix:
        """What the rest of their classes would hold."""
        shape, most = rows.shape, min(READ, rows.shape[1])
        start = np.zeros(shape[0] + 1, np.int32)
        feature, value = np.empty(shape[0] * most, np.int32), np.empty(shape[0] * most, np.float32)
        best = np.empty(most, np.int32), np.empty(most, np.float32)
        entries = csr(self.entries)
        n = _read(
            csr(rows), (*entries[:2], entries[2][:, None]), Scratch.of(shape[1], 1), best, (start, feature, value)
        )
        return as_csr(start, feature[:n], value[:n], shape)


@kernel
def _read(rows, entries, scratch, best, out):
    """The sum of the entries at a row's features: its largest parts, features in order, of length one."""
    (feature, score), (start, column, value) = best, out
    total, touched, _ = scratch
    n = 0
    for r in range(len(start) - 1):
        met = add_one(r, rows, entries, scratch)
        score[:] = 0
        for i in range(met):
            insert(touched[at(i)], total[at(touched[at(i)]), 0], feature, score)
        first, length = n, np.float32(0)
        for j in range(len(score)):
            if score[at(j)] > 0:
                i = n
                while i > first and column[at(i - 1)] > feature[at(j)]:
                    column[at(i)], value[at(i)] = column[at(i - 1)], value[at(i - 1)]
                    i -= 1
                column[at(i)], value[at(i)] = feature[at(j)], score[at(j)]
                length += score[at(j)] * score[at(j)]
                n += 1
        for i in range(first, n):
            value[at(i)] /= np.sqrt(length)
        start[r + 1] = n
    return n


def largest(matrix: sp.spmatrix, k: int) -> sp.csr_matrix:
    """The k largest entries of every row, columns in order."""
    m = sp.csr_matrix(matrix, dtype=np.float32)
    start = m.indptr.astype(np.int64)
    column, value, begin = np.empty(m.nnz, np.int32), np.empty(m.nnz, np.float32), np.zeros_like(start)
    best = np.empty(k, np.int64), np.empty(k, np.float32)
    n = _largest((start, m.indices.astype(np.int32, copy=False), m.data), best, (begin, column, value))
    out = sp.csr_matrix((value[:n].copy(), column[:n].copy(), begin), shape=m.shape)
    out.sort_indices()
    return out


@kernel
def _largest(rows, best, out):
    (indptr, indices, data), (place, score), (begin, column, value) = rows, best, out
    n = 0
    for r in range(len(indptr) - 1):
        score[:] = -np.inf
        for e in range(indptr[r], indptr[r + 1]):
            insert(e, data[at(e)], place, score)
        for j in range(min(len(score), indptr[r + 1] - indptr[r])):
            column[at(n)], value[at(n)] = indices[at(place[j])], score[j]
            n += 1
        begin[r + 1] = n
    return n


def unit(m: sp.csr_matrix) -> sp.csr_matrix:
    """Rows of length one; empty ones stay."""
    length = np.sqrt(np.asarray(m.multiply(m).sum(1)).ravel())
    out = sp.csr_matrix(sp.diags_array(1 / np.maximum(length, 1e-12)) @ m, dtype=np.float32)
    out.sort_indices()
    return out
