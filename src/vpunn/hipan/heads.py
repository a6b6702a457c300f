"""Linear heads, one per block: its rows against others, for any number of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from vpunn.hipan._kernel import at, helper, kernel
from vpunn.hipan.evidence import Column, Look, Sample, Slots
from vpunn.hipan.feature_table import FeatureTable, Scratch, add_one, csr, insert, rarest, read_at
from vpunn.hipan.sums import sum_along_path
from vpunn.hipan.tree_arrays import Occupied

#: C of the squared hinge.
COST = 1.0
#: A head is done after so many passes over its rows, or when no row is further from its optimum than this.
PASSES, TOLERANCE = 5, 0.1
#: Rows of others that all heads together learn from; where that is all rows of all heads, every row is one of the others.
PAIRS = 1e6
#: The least number of others that a head learns from.
FEWEST = 100
#: Weights below this are left out.
SMALL = 0.05
#: Weights that are made at a time.
AT_ONCE = 2**21


@dataclass(frozen=True)
class Heads:
    """min over w, bias of (|w|^2 + bias^2) / 2 + C sum_i weight_i max(0, 1 - y_i (w x_i + bias))^2, for every block but the root.

    Rows of the block have y = 1. The others are rows that propose one of its leaves (`Sample.rivals`), and rows of its nearest
    relatives: its siblings, then its parent's siblings, until there are enough. Cost: passes x non-zeros of these rows.
    """

    table: FeatureTable
    bias: np.ndarray  # (blocks,)
    tree: Occupied

    columns: ClassVar[tuple[Column, ...]] = (
        Column("margin", decides=True),
        Column("margin of the parent"),
        Column("margin of the branch"),
        Column("mean margin of the path", decides=True),
        Column("hinge of the path", decides=True),
        Column("log-share of the hinge of the path", kinds="known", decides=True),
    )

    @classmethod
    def fit(cls, sample: Sample, earlier: dict[str, object]) -> Heads:
        """One problem for each block, one after the other."""
        tree, rows = sample.tree, sample.rows
        order = np.argsort(sample.leaf, kind="stable")
        first = np.searchsorted(sample.leaf[order], np.arange(len(tree.leaf) + 1))
        others = int(np.clip(PAIRS / max(tree.blocks - 1, 1), FEWEST, len(order)))
        relations = tree.parent, tree.size, tree.first_leaf, order, first
        rival = _by_leaf(sample.rivals, len(tree.leaf))
        cost = (COST * sample.weight / sample.weight.mean()).astype(np.float32)
        room = _Room.of(rows, cost)
        bias, end = np.zeros(tree.blocks, np.float32), np.zeros(tree.blocks, np.int64)
        feature, weight = np.empty(AT_ONCE + rows.shape[1], np.int32), np.empty(AT_ONCE + rows.shape[1], np.float32)
        features, weights, head = [], [], 1
        counts = np.zeros(tree.blocks, np.int64)
        while head < tree.blocks:
            stop = _train(head, csr(rows), cost, relations, rival, others, room, (feature, weight, bias, end))
            counts[head:stop] = np.diff(end[head:stop], prepend=0)
            features.append(feature[: end[stop - 1]].copy())
            weights.append(weight[: end[stop - 1]].copy())
            head = stop
        start = np.concatenate([[0], np.cumsum(counts)])
        shape = tree.blocks, rows.shape[1]
        weight, feature = np.concatenate(weights or [weight[:0]]), np.concatenate(features or [feature[:0]])
        del weights, features  # every copy of all entries counts
        by_feature = sp.csr_matrix((weight, feature, start), shape).tocsc()
        del weight, feature
        by_feature.sort_indices()
        return cls(FeatureTable.of(by_feature), bias, tree)

    def look(self, rows: sp.csr_matrix) -> Look:
        """The largest margins propose."""
        tree = self.tree

        def propose(k: int) -> list[np.ndarray]:
            shape = rows.shape[0], min(k, len(tree.leaf))
            leaves, scores = np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32)
            about = tree.size, tree.first_leaf, self.bias
            _best(
                rarest(rows, self.table.start),
                self.table.arrays,
                about,
                Scratch.of(tree.blocks, 1),
                leaves,
                scores,
            )
            return [leaves]

        def values(slots: Slots) -> list[np.ndarray]:
            asked = slots.asked
            out = np.zeros((len(asked.block), 1), np.float32)
            read_at(csr(rows), self.table.arrays, (asked.start, asked.block), np.zeros(tree.blocks, np.int64), out)
            margin = out[:, 0] + self.bias[asked.block]
            hinge = -(np.maximum(1 - margin, 0) ** 3)
            margin[asked.block == 0] = hinge[asked.block == 0] = 0
            path = margin.copy()
            sum_along_path(asked.up, path)
            sum_along_path(asked.up, hinge)
            steps = np.maximum(tree.depth[asked.block], 1).astype(np.float32)
            of_path = hinge[asked.own]
            of_known = np.where(slots.known, of_path, -np.inf)
            share = np.exp(of_known - of_known.max(1, keepdims=True, initial=-1e30))
            total = np.cumsum(share, 1)[:, -1:]  # in turn, so that a wider batch adds nothing
            share = np.log(np.maximum(share / np.maximum(total, 1e-30), 1e-6))
            margins = [margin[asked.own], margin[asked.parent], margin[asked.branch]]
            return [*margins, (path / steps)[asked.own], of_path, share]

        return Look(propose, values)


class _Room(NamedTuple):
    """Room for one head at a time."""

    row: np.ndarray
    alpha: np.ndarray
    square: np.ndarray  # (rows,) 1 + |x|^2 + 1 / 2C
    order: np.ndarray
    chosen: np.ndarray  # (rows,) the head that has chosen a row last
    weight: np.ndarray  # (features,)
    met: np.ndarray
    feature: np.ndarray

    @classmethod
    def of(cls, matrix: sp.csr_matrix, cost: np.ndarray) -> _Room:
        rows, features = matrix.shape
        length = np.asarray(matrix.multiply(matrix).sum(1), np.float32).ravel()
        square = 1 + length + np.float32(0.5) / cost
        some = np.zeros(rows, np.int64), np.zeros(rows, np.float32), square, np.zeros(rows, np.int64)
        wide = np.zeros(features, np.float32), np.zeros(features, np.uint8), np.zeros(features, np.int32)
        return cls(*some, np.zeros(rows, np.int32), *wide)


def _by_leaf(rivals: np.ndarray, leaves: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows that propose each leaf: (start, row)."""
    row, k = np.nonzero(rivals >= 0)
    leaf = rivals[row, k]
    order = np.argsort(leaf, kind="stable")
    start = np.searchsorted(leaf[order], np.arange(leaves + 1))
    return start.astype(np.int64), row[order].astype(np.int64)


@kernel
def _best(rows, table, about, scratch, leaves, scores):
    size, first_leaf, bias = about
    for r in range(len(rows[0]) - 1):
        n = add_one(r, rows, table, scratch)
        total, touched, _ = scratch
        for i in range(n):
            b = touched[at(i)]
            if size[at(b)] == 1:
                insert(first_leaf[at(b)], total[at(b), 0] + bias[at(b)], leaves[r], scores[r])


@helper
def _choose(head, relations, rival, others, room):
    """The rows that a head learns from: its own first, then rivals, then relatives; how many are its own, and how many in all."""
    (parent, size, first_leaf, order, first), (start, rival_row) = relations, rival
    low, high = first_leaf[head], first_leaf[head + size[head]]
    a, z = first[low], first[high]
    n = 0
    for i in range(a, z):
        room.row[at(n)], room.chosen[at(order[i])] = order[i], head
        n += 1
    own = n
    there = start[high] - start[low]
    step = max(there // others, 1)
    for i in range(start[low], start[high], step):
        r = rival_row[i]
        if room.chosen[at(r)] != head:
            room.row[at(n)], room.chosen[at(r)] = r, head
            n += 1
    u = parent[head]
    c, e = first[first_leaf[u]], first[first_leaf[u + size[u]]]
    while u > 0 and (e - c) - (z - a) < others:
        u = parent[u]
        c, e = first[first_leaf[u]], first[first_leaf[u + size[u]]]
    left = (e - c) - (z - a)
    some = min(others, left)
    for k in range(some):
        i = c + k * left // some
        if i >= a:
            i += z - a
        r = order[i]
        if room.chosen[at(r)] != head:
            room.row[at(n)], room.chosen[at(r)] = r, head
            n += 1
    return own, n


@kernel
def _train(head, rows, cost, relations, rival, others, room, out):
    """Heads from ``head`` on, until the room for weights is full; the next head."""
    feature, weight, bias, end = out
    used, full = 0, len(feature) - len(room.weight)
    while head < len(bias) and used <= full:
        own, n = _choose(head, relations, rival, others, room)
        used, bias[head] = _solve(head, own, n, rows, cost, room, feature, weight, used)
        end[head] = used
        head += 1
    return head


@helper
def _solve(head, own, n, rows, cost, room, feature, weight, used):
    """Dual coordinate descent of the squared hinge (Hsieh et al. 2008). A row that is further on its own side of the margin than
    any row was on the wrong one in the pass before is not looked at again."""
    (indptr, indices, data), w = rows, room.weight
    n_met, bias, state = 0, np.float32(0), np.uint64(head) * np.uint64(2654435761) + np.uint64(1)
    for i in range(n):
        room.alpha[at(i)], room.order[at(i)] = 0, i
    left, before = n, np.float32(np.inf)
    for _ in range(PASSES):
        worst, active = np.float32(0), left
        for k in range(active - 1, -1, -1):
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            j = np.int64(state % np.uint64(k + 1))
            i = room.order[at(j)]
            room.order[at(j)], room.order[at(k)] = room.order[at(k)], i
            r = room.row[at(i)]
            y = np.float32(1) if i < own else np.float32(-1)
            score = bias
            for e in range(indptr[at(r)], indptr[at(r + 1)]):
                score += w[at(indices[at(e)])] * data[at(e)]
            alpha = room.alpha[at(i)]
            slope = y * score - 1 + alpha * np.float32(0.5) / cost[at(r)]
            if alpha == 0 and slope >= 0:
                if slope > before:
                    left -= 1
                    room.order[at(k)], room.order[at(left)] = room.order[at(left)], i
                continue
            new = max(alpha - slope / room.square[at(r)], np.float32(0))
            step = (new - alpha) * y
            worst, room.alpha[at(i)] = max(worst, abs(slope)), new
            bias += step
            for e in range(indptr[at(r)], indptr[at(r + 1)]):
                f = indices[at(e)]
                w[at(f)] += step * data[at(e)]
                if not room.met[at(f)]:
                    room.met[at(f)], room.feature[at(n_met)] = 1, f
                    n_met += 1
        if worst < TOLERANCE:
            break
        before = worst
    for k in range(n_met):
        f = room.feature[at(k)]
        if abs(w[at(f)]) > SMALL:
            feature[at(used)], weight[at(used)] = f, w[at(f)]
            used += 1
        w[at(f)], room.met[at(f)] = 0, 0
    return used, bias
