"""Sums of rows per block: centroids, coverage, and the likelihood shrunk along the path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from vpunn.hipan._kernel import at, kernel
from vpunn.hipan.evidence import Column, Look, Sample, Slots
from vpunn.hipan.feature_table import ENTRIES, FeatureTable, Scratch, add_three, csr, insert, rarest, read_at, sizes
from vpunn.hipan.slots import Asked
from vpunn.hipan.tree_arrays import Occupied


@dataclass(frozen=True)
class Sums:
    """Per block B and feature f, with s the sum of x_f over the rows of B, three values in one table:

    s (its cosine with the row), 1 (the share of the row that B has met), and the coefficient of B in

        log P_b(row) = sum over the blocks B on the path to b of   |row| log news_B + sum_f x_f c_B(f),
        c_B(f) = log(1 + (1 - news_B) / news_B * s / (mass_B P_parent(f))),

    the likelihood of the multinomial P_B = (1 - news_B) s / mass_B + news_B P_parent(B) over that of the root: one coefficient
    for each ball and feature. `news` is Witten and Bell's: a block that has met many different features for its mass expects more
    new ones. Fit: O(non-zeros x depth).
    """

    table: FeatureTable
    norm: np.ndarray  # (blocks,) length of the sum
    log_news: np.ndarray  # (blocks,)
    tree: Occupied

    columns: ClassVar[tuple[Column, ...]] = (
        Column("cosine", decides=True),
        Column("coverage"),
        Column("coverage x cosine", decides=True),
        Column("likelihood of the path", decides=True),
        Column("likelihood of the path to the parent"),
        Column("likelihood of the own block", kinds="known", decides=True),
        Column("cosine of the parent"),
        Column("coverage of the parent"),
        Column("cosine of the grandparent", kinds="known"),
    )

    @classmethod
    def fit(cls, sample: Sample, earlier: dict[str, object]) -> Sums:
        """From rows of words; where words have either sign, what is counted is their size."""
        tree = sample.tree
        sums = block_sums(sample)
        size = abs(sums) if sums.nnz and sums.data.min() < 0 else sums
        mass = np.maximum(np.asarray(size.sum(1)).ravel().astype(np.float64), 1e-12)
        usual = np.abs(sample.rows.data).mean() if sample.rows.nnz else 1.0
        met = np.diff(sums.indptr) * float(usual)
        news = np.where(met > 0, met / (mass + met), 1.0)
        ground = np.asarray(size[0].toarray()).ravel().astype(np.float64) + 1e-9
        norm = np.maximum(np.sqrt(np.asarray(sums.multiply(sums).sum(1)).ravel()), 1e-6).astype(np.float32)
        by_feature = sums.tocsc()
        by_feature.sort_indices()
        coefficient = np.zeros(by_feature.nnz, np.float32)
        entries = by_feature.indptr, by_feature.indices, by_feature.data
        room = np.zeros(tree.blocks), np.zeros(tree.blocks, np.int64)
        _coefficients(entries, mass, news, ground / ground.sum(), tree.parent, room, coefficient)
        table = FeatureTable.of(by_feature, np.ones(by_feature.nnz, np.float32), coefficient)
        return cls(table, norm, np.log(news).astype(np.float32), tree)

    def look(self, rows: sp.csr_matrix) -> Look:
        """Two ways of proposing: coverage times cosine, and the likelihood of the path."""

        def propose(k: int) -> list[np.ndarray]:
            return [leaves for leaves, _ in self.best(rows, k)]

        def values(slots: Slots) -> list[np.ndarray]:
            asked = slots.asked
            cosine, coverage, alone, path = self.at(rows, asked)
            own, met = cosine[asked.own], coverage[asked.own]
            likelihood = [path[asked.own], path[asked.parent], alone[asked.own]]
            up = [cosine[asked.parent], coverage[asked.parent], cosine[asked.grandparent]]
            return [own, met, own * met, *likelihood, *up]

        return Look(propose, values)

    def best(self, rows: sp.csr_matrix, k: int, entries: int = ENTRIES) -> list[tuple[np.ndarray, np.ndarray]]:
        """Leaves (rows, k) and what speaks for them: by coverage x cosine, then by the likelihood of the path."""
        shape = rows.shape[0], min(k, len(self.tree.leaf))
        leaves = [np.full(shape, -1, np.int32) for _ in range(2)]
        scores = [np.zeros(shape, np.float32), np.full(shape, -np.inf, np.float32)]
        about = self.tree.parent, self.tree.size, self.tree.first_leaf, self.norm, self.log_news
        _best(
            rarest(rows, self.table.start, entries),
            self.table.arrays,
            about,
            Scratch.of(self.tree.blocks, 3),
            tuple(leaves),
            tuple(scores),
        )
        return list(zip(leaves, scores, strict=True))

    def at(self, rows: sp.csr_matrix, lines: Asked) -> tuple[np.ndarray, ...]:
        """Cosine, coverage, likelihood of the block alone and of its path, of every line that is asked about."""
        out = np.zeros((len(lines.block), 3), np.float32)
        read_at(csr(rows), self.table.arrays, (lines.start, lines.block), np.zeros(self.tree.blocks, np.int64), out)
        alone = out[:, 2] + np.repeat(sizes(rows)[1], np.diff(lines.start)) * self.log_news[lines.block]
        path = alone.copy()
        sum_along_path(lines.up, path)
        return out[:, 0] / self.norm[lines.block], out[:, 1], alone, path


def block_sums(sample: Sample) -> sp.csr_matrix:
    """Weighted sums of the rows of every block: (blocks, features). O(non-zeros x depth)."""
    tree = sample.tree
    block, row = [tree.leaf[sample.leaf]], [np.arange(len(sample.leaf))]
    while len(block[-1]):
        inner = block[-1] > 0
        block.append(tree.parent[block[-1][inner]])
        row.append(row[-1][inner])
    blocks, rows = np.concatenate(block), np.concatenate(row)
    weight = sample.weight[rows].astype(np.float32)
    member = sp.csr_matrix((weight, (blocks, rows)), shape=(tree.blocks, len(sample.leaf)))
    sums = sp.csr_matrix(member @ sample.rows)
    sums.sort_indices()
    return sums


@kernel
def _coefficients(entries, mass, news, ground, parent, room, out):
    """c_B(f) of every entry. Blocks ascend within a feature; a parent without an entry (its rows cancel) says what the next above
    says."""
    (start, block, s), (p, met) = entries, room
    for f in range(len(start) - 1):
        for e in range(start[f], start[f + 1]):
            b = block[e]
            u, above = b, 1.0
            while u > 0:
                u = parent[u]
                if met[u] == f + 1:
                    break
                above *= news[u]
            above *= p[u] if met[u] == f + 1 else ground[f]
            own = (1 - news[b]) * abs(s[e]) / mass[b]
            p[b], met[b] = own + news[b] * above, f + 1
            out[e] = np.log1p(own / (news[b] * above))


@kernel
def sum_along_path(up, value):
    """F = the sum of the values of a block and all above it, in place; lines with parents first."""
    for i in range(len(up)):
        if up[i] != i:
            value[i] += value[at(up[i])]


@kernel
def _best(rows, table, about, scratch, leaves, scores):
    parent, size, first_leaf, norm, log_news = about
    indptr, _, data = rows
    for r in range(len(indptr) - 1):
        n = add_three(r, rows, table, scratch)
        mass = np.float32(0)
        for i in range(indptr[r], indptr[r + 1]):
            mass += abs(data[i])
        total, touched, _ = scratch
        for i in range(n):
            b = touched[at(i)]
            if size[at(b)] > 1:
                continue
            insert(first_leaf[at(b)], total[at(b), 0] / norm[at(b)] * total[at(b), 1], leaves[0][r], scores[0][r])
            u, path = b, np.float32(0)
            while u > 0:  # all above it have met what it has met
                path += total[at(u), 2] + mass * log_news[at(u)]
                u = parent[at(u)]
            insert(first_leaf[at(b)], path, leaves[1][r], scores[1][r])
