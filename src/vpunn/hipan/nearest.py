"""Nearest items: the same product as for sums, with training rows in the place of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from vpunn.hipan._kernel import at, kernel
from vpunn.hipan.evidence import Column, Look, Sample, Slots
from vpunn.hipan.feature_table import ENTRIES, FeatureTable, Scratch, add_one, csr, insert, rarest
from vpunn.hipan.tree_arrays import Occupied

#: Items that vote.
ITEMS = 32
#: So many times as many are found by rare features and measured by all.
LOOKED_AT = 2
#: An item that is less alike by one twelfth counts 1 / e.
SHARPNESS = 12.0


class Near(NamedTuple):
    """The nearest items of some rows, best first (-1: none), and how alike they are."""

    item: np.ndarray  # (rows, items)
    alike: np.ndarray


class Items(NamedTuple):
    """What votes: the leaf and the weight of every training row."""

    leaf: np.ndarray
    weight: np.ndarray
    tree: Occupied

    def tally(self, near: Near, slots: Slots) -> list[np.ndarray]:
        """Every slot's share of the vote, its nearest and its second nearest item, and the same two of its parent.

        weight = w exp(12 (likeness - best likeness)); an item votes for every block that holds it. O(slots + items x depth) a row.
        """
        lines = np.zeros((len(slots.asked.block), 3), np.float32)
        told = (slots.asked.start, slots.asked.block, slots.asked.up)
        items = (self.leaf, self.weight.astype(np.float32), self.tree.leaf, self.tree.parent)
        _tally(near, items, told, np.zeros(self.tree.blocks, np.int64), SHARPNESS, lines)
        own, above = lines[slots.asked.own], lines[slots.asked.parent]
        return [own[..., 0], own[..., 1], own[..., 2], above[..., 0], above[..., 1]]


@kernel
def _tally(near, items, told, mark, sharpness, out):
    (item, alike), (leaf, weight, block_of, parent), (start, block, _) = near, items, told
    for r in range(len(item)):
        if item[r, 0] < 0:
            continue
        for w in range(start[r], start[r + 1]):
            mark[at(block[w])] = w + 1
        total = np.float32(0)
        for j in range(item.shape[1]):
            if item[r, j] >= 0:
                total += weight[at(item[r, j])] * np.exp(np.float32(sharpness) * (alike[r, j] - alike[r, 0]))
        for j in range(item.shape[1]):
            if item[r, j] < 0:
                break
            share = weight[at(item[r, j])] * np.exp(np.float32(sharpness) * (alike[r, j] - alike[r, 0])) / total
            b = block_of[at(leaf[at(item[r, j])])]
            while True:
                w = mark[at(b)]
                if w:
                    w -= 1
                    out[at(w), 0] += share
                    if out[at(w), 1] == 0:
                        out[at(w), 1] = alike[r, j]
                    elif out[at(w), 2] == 0:
                        out[at(w), 2] = alike[r, j]
                if b == 0:
                    break
                b = parent[at(b)]
        for w in range(start[r], start[r + 1]):
            mark[at(block[w])] = 0


@dataclass(frozen=True)
class Nearest:
    """Training rows by feature; alike is the inner product, of rows of unit length the cosine."""

    rows: sp.csr_matrix
    table: FeatureTable
    items: Items

    columns: ClassVar[tuple[Column, ...]] = (
        Column("vote", decides=True),
        Column("nearest item", decides=True, usual=SHARPNESS),
        Column("second nearest item"),
        Column("vote for the parent", kinds="known"),
        Column("nearest item of the parent", kinds="known"),
    )

    @classmethod
    def fit(cls, sample: Sample, earlier: dict[str, object]) -> Nearest:
        """Keep the rows. O(non-zeros)."""
        by_feature = sample.rows.tocsc()
        by_feature.sort_indices()
        return cls(sample.rows, FeatureTable.of(by_feature), Items(sample.leaf, sample.weight, sample.tree))

    def look(self, rows: sp.csr_matrix) -> Look:
        """The nearest items propose their leaves."""
        near = self.nearest(rows)

        def propose(k: int) -> list[np.ndarray]:
            return [np.where(near.item >= 0, self.items.leaf[near.item], -1)[:, :k]]

        return Look(propose, lambda slots: self.items.tally(near, slots))

    def nearest(self, rows: sp.csr_matrix, entries: int = ENTRIES) -> Near:
        """The nearest items of every row, those with no feature in common left out."""
        items = len(self.items.leaf)
        looked, kept = (np.full((rows.shape[0], min(k, items)), -1, np.int32) for k in (LOOKED_AT * ITEMS, ITEMS))
        near = Near(kept, np.zeros(kept.shape, np.float32))
        scratch, wide = Scratch.of(items, 1), np.zeros(rows.shape[1], np.float32)
        _nearest(
            rarest(rows, self.table.start, entries),
            self.table.arrays,
            scratch,
            np.zeros(looked.shape[1], np.float32),
            looked,
        )
        _measure(csr(rows), csr(self.rows), looked, wide, near)
        return near


@kernel
def _nearest(rows, table, scratch, score, looked):
    """The items most alike by the features that are read."""
    total, touched, _ = scratch
    for r in range(len(looked)):
        n = add_one(r, rows, table, scratch)
        score[:] = 0
        for i in range(n):
            insert(touched[at(i)], total[at(touched[at(i)]), 0], looked[r], score)


@kernel
def _measure(rows, items, looked, wide, near):
    """How alike they are by all features, the most alike first."""
    (indptr, indices, data), (first, feature, value) = rows, items
    for r in range(len(looked)):
        for i in range(indptr[r], indptr[r + 1]):
            wide[at(indices[i])] = data[i]
        for j in range(looked.shape[1]):
            item = looked[r, j]
            if item < 0:
                break
            alike = np.float32(0)
            for e in range(first[at(item)], first[at(item + 1)]):
                alike += value[at(e)] * wide[at(feature[at(e)])]
            insert(item, alike, near.item[r], near.alike[r])
        for i in range(indptr[r], indptr[r + 1]):
            wide[at(indices[i])] = 0
