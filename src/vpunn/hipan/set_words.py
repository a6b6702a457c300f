"""The experts of words for rows with several labels: heads, shares among rows with the same words, and nearest items.

One table, feature -> (node, weight of its head, rows of the node that have the feature); a row is read by adding up entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from vpunn.hipan._kernel import at, helper, kernel
from vpunn.hipan.feature_table import FeatureTable, Scratch, add_one, csr, insert
from vpunn.hipan.layout import unit_rows
from vpunn.hipan.set_heads import fit_heads
from vpunn.hipan.set_nodes import Nodes

#: Nearest items that are looked at, and how many of them the narrower votes count.
NEAREST, NEAR, NEXT = 30, 10, 3
#: Sums per node that a row fills.
NEAR_VOTE, SHARP_VOTE, WIDE_VOTE, NEXT_VOTE, NEAREST_ITEM, HEAD, WORDS = range(7)
SUMS = 7
#: Names of the columns of evidence: the sums, then what the kernel adds.
COLUMNS = (
    "share of the nearest items, by similarity squared",
    "share of the nearest items, by its fourth power",
    "share of the thirty nearest items",
    "share of the three nearest items",
    "similarity of the nearest item that has it",
    "head score",
    "share among rows with the same words",
    "least head score of a parent",
    "least share of the nearest items at a parent",
    "least share by words at a parent",
    "log rate",
    "log rate within the rarest parent",
    "similarity of the nearest item",
    "mean similarity of the nearest items",
    "log number of known features",
    "depth",
)
WIDTH = len(COLUMNS)
#: Columns that are 0 for a row of which nothing is known.
SAYS = COLUMNS.index("similarity of the nearest item"), COLUMNS.index("log number of known features")
#: Nodes with a head score, share by words or rate above these are candidates, besides those of near items.
HEAD_CUT, WORDS_CUT, RATE_CUT = -0.6, 0.1, 0.05
#: Prior rows behind the share of a node among the rows with a word.
SHRINK = 2.0
#: Pairs of rows behind the agreement that a feature is believed to have before any are seen, and that agreement.
PAIRS, USUAL = 4.0, 0.25
#: Power of the agreement that weighs a feature.
POWER = 0.5


class Pairs(NamedTuple):
    """Candidate nodes of rows, ``place[start[i]:start[i + 1]]``, and the evidence about each."""

    start: np.ndarray
    place: np.ndarray
    evidence: np.ndarray

    @property
    def row(self) -> np.ndarray:
        """The row of each pair."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    def take(self, rows: np.ndarray) -> Pairs:
        """Some of the rows."""
        counts = np.diff(self.start)[rows]
        start = np.concatenate([[0], np.cumsum(counts)])
        at = np.repeat(self.start[rows] - start[:-1], counts) + np.arange(start[-1])
        return Pairs(start, self.place[at], self.evidence[at])

    @classmethod
    def joined(cls, parts: list[Pairs]) -> Pairs:
        """Several, one after the other."""
        counts = np.concatenate([np.diff(part.start) for part in parts])
        return cls(
            np.concatenate([[0], np.cumsum(counts)]),
            np.concatenate([part.place for part in parts]),
            np.concatenate([part.evidence for part in parts]),
        )


@dataclass(frozen=True)
class Words:
    """What is learned from rows of words; every feature counts as far as it is trusted: rows that share *zinc finger* agree about
    their answers, rows that share *protein 2* do not."""

    rows: sp.csr_matrix  # (rows, features) weighed
    trust: np.ndarray  # (features,)
    heads: sp.csr_matrix  # (features, nodes)
    offset: np.ndarray  # (nodes,)
    truth: sp.csr_matrix  # (rows, nodes)

    @classmethod
    def fit(cls, rows: sp.csr_matrix, truth: sp.csr_matrix, weight: np.ndarray, rng: np.random.Generator) -> Words:
        """From rows of length one and the nodes of each, ancestors included."""
        trust = agreement(rows, truth)
        read = weighed(rows, trust)
        heads, offset = fit_heads(read, truth, weight, rng)
        return cls(read, trust, heads, offset, truth)

    def read(self, rows: sp.csr_matrix) -> sp.csr_matrix:
        """Rows of words, weighed; unknown features are gone."""
        return weighed(rows, self.trust)

    @cached_property
    def rate(self) -> np.ndarray:
        """How many rows have each node, as a share."""
        return np.asarray(np.asarray(self.truth.sum(0), np.float64).ravel() / self.truth.shape[0], np.float32)

    @cached_property
    def table(self) -> FeatureTable:
        """feature -> (node, weight of its head, rows that have both)."""
        present = sp.csr_matrix(
            (np.ones(self.rows.nnz, np.float32), self.rows.indices, self.rows.indptr), self.rows.shape
        )
        counts = sp.csr_matrix(present.T @ self.truth)
        some = sp.csr_matrix(abs(self.heads) + counts)
        some.sort_indices()
        value = np.zeros((some.nnz, 2), np.float32)
        for k, matrix in enumerate((self.heads, counts)):
            matrix.sort_indices()
            _align(csr(some), csr(matrix), value[:, k])
        return FeatureTable(some.indptr.astype(np.int64), some.indices.astype(np.int32), value, some.shape[1])

    @cached_property
    def items(self) -> FeatureTable:
        """feature -> (row, value)."""
        by_feature = self.rows.tocsc()
        by_feature.sort_indices()
        return FeatureTable.of(by_feature)

    def examine(self, rows: sp.csr_matrix, nodes: Nodes, planes: np.ndarray, cuts: np.ndarray) -> Pairs:
        """Candidates of weighed rows and the evidence about each; ``planes`` (planes, rows, nodes) is what others say of every
        node, which is a candidate too where a plane says more than its cut."""
        n, many = rows.shape[0], len(nodes.node)
        parents = nodes.start, nodes.parent, nodes.depth.astype(np.float32)
        memory = self.table.arrays, self.items.arrays, csr(self.truth), parents, self.offset, self.rate
        scratch = Scratch.of(len(self.rows.indptr) - 1, 1)
        near = np.zeros(NEAREST, np.int32), np.zeros(NEAREST, np.float32)
        sums, start = np.zeros((SUMS, many), np.float32), np.zeros(n + 1, np.int64)
        parts, done, room = [], 0, max(n * 128, 4096) + many
        place, evidence = np.empty(room, np.int32), np.empty((room, WIDTH + len(cuts)), np.float32)
        while done < n:
            stop = _examine(csr(rows), planes, done, memory, cuts, (scratch, near, sums), start, place, evidence)
            used = start[stop] - start[done]
            parts.append((place[:used].copy(), evidence[:used].copy()))
            done = stop
        if not parts:
            return Pairs(start, place[:0], evidence[:0])
        places, lines = zip(*parts, strict=True)
        return Pairs(start, np.concatenate(places), np.concatenate(lines))


def agreement(rows: sp.csr_matrix, truth: sp.csr_matrix) -> np.ndarray:
    """Weight of every feature: the mean cosine of the answers of two rows that share it, to the power of one half.

    Answers are weighed by √bits, so that agreeing on what everybody has is worth little. With u the unit vectors of the rows'
    answers and n rows, the mean over pairs is (|Σ u|² − Σ|u|²) / (n (n − 1)): one sparse product. Features of no row weigh nothing.
    """
    rate = np.asarray(truth.sum(0), np.float64).ravel() / max(truth.shape[0], 1)
    bits = np.sqrt(-np.log(np.clip(rate, 1e-9, 1.0)))
    u = sp.csr_matrix(truth.multiply(bits[None]))
    length = np.sqrt(np.asarray(u.multiply(u).sum(1)).ravel())
    u = sp.csr_matrix(sp.diags(1.0 / np.where(length > 0, length, 1.0)) @ u)
    present = sp.csr_matrix((np.ones(rows.nnz), rows.indices, rows.indptr), shape=rows.shape).T.tocsr()
    sums = sp.csr_matrix(present @ u)
    n = np.diff(present.indptr).astype(np.float64)
    own = present @ (length > 0).astype(np.float64)
    together = np.asarray(sums.multiply(sums).sum(1)).ravel() - own
    mean = (np.maximum(together, 0.0) + PAIRS * USUAL) / (n * (n - 1.0) + PAIRS)
    return np.asarray(np.where(n > 0, mean**POWER, 0.0), np.float32)


def weighed(rows: sp.csr_matrix, trust: np.ndarray) -> sp.csr_matrix:
    """Rows with every feature times its weight, at unit length again."""
    return unit_rows(sp.csr_matrix((rows.data * trust[rows.indices], rows.indices, rows.indptr), shape=rows.shape))


@kernel
def _align(some, matrix, out):
    """The values of a matrix at the entries of one that has them all."""
    (start, place, _), (first, mine, value) = some, matrix
    for f in range(len(start) - 1):
        k = first[f]
        for e in range(start[f], start[f + 1]):
            if k < first[f + 1] and mine[at(k)] == place[at(e)]:
                out[at(e)] = value[at(k)]
                k += 1


@helper
def _read(r, rows, memory, sums):
    """Head scores and shares by words; how many features are known."""
    (indptr, indices, data), (table, items, _, _, offset, rate) = rows, memory
    (start, place, value), (holders, _, _) = table, items
    known, rest = 0, np.float32(0)
    for i in range(indptr[at(r)], indptr[at(r + 1)]):
        f, x = indices[at(i)], data[at(i)]
        many = holders[at(f + 1)] - holders[at(f)]
        if many == 0:
            continue
        known += 1
        share = x * x / (many + np.float32(SHRINK))
        rest += share * np.float32(SHRINK)
        for e in range(start[at(f)], start[at(f + 1)]):
            v = place[at(e)]
            sums[HEAD, at(v)] += x * value[at(e), 0]
            sums[WORDS, at(v)] += share * value[at(e), 1]
    if known == 0:
        rest = np.float32(1)
    for v in range(len(offset)):
        sums[HEAD, at(v)] += offset[v]
        sums[WORDS, at(v)] += rest * rate[v]
    return known


@helper
def _vote(truth, near, sums):
    """Votes of the nearest items, weighed by powers of their similarity."""
    (start, label, _), (item, alike) = truth, near
    wide, close, sharp, three = np.float32(1e-9), np.float32(1e-9), np.float32(1e-9), np.float32(1e-9)
    for k in range(NEAREST):
        s = alike[k]
        wide += s
        if k < NEAR:
            close += s * s
            sharp += s * s * s * s
        if k < NEXT:
            three += s * s
    for k in range(NEAREST):
        s, j = alike[k], item[k]
        if s <= 0:
            break
        for q in range(start[at(j)], start[at(j + 1)]):
            v = at(label[at(q)])
            sums[WIDE_VOTE, v] += s / wide
            if k < NEAR:
                sums[NEAR_VOTE, v] += s * s / close
                sums[SHARP_VOTE, v] += s * s * s * s / sharp
                sums[NEAREST_ITEM, v] = max(sums[NEAREST_ITEM, v], s)
            if k < NEXT:
                sums[NEXT_VOTE, v] += s * s / three


@kernel
def _examine(rows, planes, first, memory, cuts, room, pair_start, pair_place, evidence):
    """Rows from ``first`` on, while there is room; the next row."""
    (_, items, truth, parents, offset, rate), (scratch, near, sums) = memory, room
    (up_start, up, depth), (item, alike) = parents, near
    used, n = 0, len(rows[0]) - 1
    for r in range(first, n):
        if used + len(offset) > len(pair_place):
            return r
        sums[:] = 0
        alike[:] = 0
        known = _read(r, rows, memory, sums)
        found = add_one(r, rows, items, scratch)
        for k in range(found):
            j = scratch.touched[at(k)]
            insert(j, scratch.total[at(j), 0], item, alike)
        _vote(truth, near, sums)
        closeness = np.float32(0)
        for k in range(NEAR):
            closeness += alike[k] / NEAR
        for v in range(len(offset)):
            wanted = (
                sums[WIDE_VOTE, v] > 0 or sums[HEAD, v] > HEAD_CUT or sums[WORDS, v] > WORDS_CUT or rate[v] > RATE_CUT
            )
            for k in range(len(cuts)):
                wanted = wanted or planes[k, r, v] > cuts[k]
            if not wanted:
                continue
            pair_place[used], e = v, evidence[used]
            used += 1
            for k in range(SUMS):
                e[k] = sums[k, v]
            e[7], e[8], e[9], above = sums[HEAD, v], 1.0, 1.0, 1.0
            for q in range(up_start[v], up_start[v + 1]):
                p = up[q]
                e[7] = min(e[7], sums[HEAD, p]) if q > up_start[v] else sums[HEAD, p]
                e[8] = min(e[8], sums[NEAR_VOTE, p])
                e[9] = min(e[9], sums[WORDS, p])
                above = min(above, rate[p])
            own = max(rate[v], 1e-6)
            e[10], e[11] = np.log(own), np.log(own / max(above, 1e-6))
            e[12], e[13], e[14], e[15] = alike[0], closeness, np.log(1.0 + known), depth[v]
            for k in range(len(cuts)):
                e[WIDTH + k] = planes[k, r, v]
        pair_start[r + 1] = pair_start[first] + used
    return n
