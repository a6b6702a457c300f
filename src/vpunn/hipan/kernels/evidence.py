"""Compiled loops that gather the evidence about candidates; how blocks are stored is told in `_arrays`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vpunn.hipan._arrays import Hits, Listed
from vpunn.hipan.kernels import at, helper, kernel
from vpunn.hipan.kernels.fetch import LINE, fetch
from vpunn.hipan.kernels.propose import MARKS, list_marked, log_growth, longest_row
from vpunn.hipan.kernels.ranks import below_best
from vpunn.hipan.kernels.train import add_chain, branch_scores, find_hits, most_hits

#: Evidence columns of one candidate; `EVIDENCE` in `combiner` names them.
N_EVIDENCE = 34
#: Further columns per kind of description.
N_PER_KIND = 6
#: Blocks of a feature that are asked for ahead; what follows comes by itself.
AHEAD = 128
#: Columns that are compared with the best candidate's: which, where that goes, and whether "none" gets the best.
BELOW_BEST = np.array(
    [
        (17, 17, 1),
        (4, 18, 1),
        (0, 19, 1),
        (9, 9, 0),
        (10, 10, 0),
        (12, 12, 0),
        (30, 30, 0),
        (33, 33, 0),
        (26, 28, 1),
        (27, 29, 1),
    ]
)
#: Of heads far below the best nothing is left in 32 bits.
LEAST_SHARE = np.float32(1e-30)


@helper
def _log_ratio(share, q, m, data, start):
    """Log-likelihood of the row under the shares of ball ``q``, against the root's, which stand last."""
    s = np.float32(0)
    root = len(share) - 1
    for a in range(m):
        if share[root, a] > 0:
            s += data[start + a] * np.log(max(share[q, a], np.float32(1e-30)) / share[root, a])
    return s


@helper
def _products(x, mark, start, stop, indices, data, found):
    """Of one item: its product with the row, with the row read through the dictionary, and its share that the row has."""
    count = list_marked(indices, start, stop, mark, found)
    s, t, known = np.float32(0), np.float32(0), np.float32(0)
    for i in range(at(count)):
        f, v = at(indices[at(found[i])]), data[at(found[i])]
        s += v * x[f, at(0)]
        t += v * x[f, at(1)]
        known += v * v if x[f, at(0)] != 0 else np.float32(0)
    return s, t, known


class BlockWork(NamedTuple):
    """What is known about the blocks around a row's candidates: sums and shares at its features, and seven numbers each; the block
    above and the outermost one."""

    sums: np.ndarray
    share: np.ndarray
    per_block: np.ndarray
    above: np.ndarray
    branch: np.ndarray


class Row(NamedTuple):
    """The row and the row read through the dictionary, which features it may have (`list_marked`), room for shared features, and
    the branches of its candidates."""

    x: np.ndarray
    mark: np.ndarray
    found: np.ndarray
    classes: np.ndarray


def gather_evidence(
    rows, reading, candidates, ancestry, places, deepest, entries, numbers, branch_weight, memory, n_kinds, room, out
) -> np.ndarray:
    """Write the evidence for every candidate of every row into the first columns of ``out`` (rows, candidates + 1, columns), all
    zero, the last slot being "none"; returns the scores (rows, branches) of the depth-1 balls."""
    n_rows, width = candidates.shape
    n_blocks, longest = width * (deepest + 2), longest_row(rows.indptr)
    hits = most_hits(rows.indptr, rows.indices, entries.start, n_blocks)
    found = Hits(
        *(room.empty(name, hits, kind) for name, kind in (("he", np.int64), ("hb", np.int32), ("hp", np.int32)))
    )
    place = room.full("place", 2 * len(ancestry.parent), np.int32, -1)
    listed = Listed(place, np.empty(n_blocks, np.int32), np.empty(deepest + 2, np.int32))
    work = BlockWork(
        np.empty((n_blocks, longest), np.float32),
        np.empty((n_blocks + 1, longest), np.float32),
        np.empty((7, n_blocks), np.float32),
        np.empty(n_blocks, np.int32),
        np.empty(n_blocks, np.int32),
    )
    row = Row(
        room.full("x", (len(entries.start) - 1, 2), np.float32),
        room.full("mark", MARKS, np.bool_),
        room.empty("shared", memory.longest + 1, np.int64),
        np.empty(width, np.int32),
    )
    branch_score = np.empty((n_rows, branch_weight.shape[1]), np.float32)
    tree = ancestry, places
    given = entries, numbers, branch_weight, memory, n_kinds
    _gather(rows, reading, candidates, tree, given, (listed, found), work, row, out, branch_score)
    return branch_score


@kernel
def _gather(rows, reading, candidates, tree, given, found, work, row, out, branch_score):
    (ancestry, places), (entries, numbers, branch_weight, memory, n_kinds), (listed, hits) = tree, given, found
    n_rows, width = candidates.shape
    place, x, mark = listed.place, row.x, row.mark
    for r in range(n_rows):
        if r + 1 < n_rows:
            _candidates_ahead(rows, candidates, r + 1, entries, memory)
        count, n_classes = np.int64(0), 0
        while n_classes < width and candidates[r, n_classes] >= 0:
            count = add_chain(candidates[r, n_classes], ancestry, listed, count)
            n_classes += 1
        _mark(rows, reading, r, x, mark, np.float32(1))
        _add_up(rows, r, entries, listed, hits, count, numbers, work)
        _measure_blocks(rows, r, ancestry, listed, count, numbers, work)
        for j in range(n_classes):
            c = candidates[r, j]
            _judge(c, rows, r, ancestry, places, place, numbers, work, out[r, j])
            _remember(c, memory, x, mark, row.found, numbers.norm2, out[r, j])
            row.classes[j] = work.branch[place[c]]
        _compare_candidates(out[r], candidates[r], n_classes, n_kinds, ancestry.parent, row.classes)
        if branch_score.shape[1]:
            branch_scores(rows, r, branch_weight, branch_score[r])
            top = branch_score[r, 0]
            for b in range(1, branch_score.shape[1]):
                top = max(top, branch_score[r, b])
            for j in range(n_classes):
                b = places.branch_of[candidates[r, j]]
                if b > 0:
                    out[r, j, 32] = branch_score[r, b - 1] - top
        _mark(rows, reading, r, x, mark, np.float32(0))
        for q in range(count):
            place[listed.blocks[q]] = -1


@helper
def _candidates_ahead(rows, candidates, r, entries, memory):
    """Have the items of a row's candidates brought near, and the first blocks of its features."""
    for a in range(rows.indptr[r], rows.indptr[r + 1]):
        start, stop = entries.start[rows.indices[a]], entries.start[rows.indices[a] + 1]
        for e in range(start, min(stop, start + AHEAD), LINE):
            fetch(entries.block, e)
    span, (indptr, indices, data) = memory.span, memory.words
    for j in range(candidates.shape[1]):
        c = candidates[r, j]
        if c < 0:
            break
        for a in range(indptr[span[c, 0]], indptr[span[c, 1]], LINE):
            fetch(indices, a)
            fetch(data, a)


@helper
def _mark(rows, reading, r, x, mark, there):
    """Write a row and what it was read as into the columns of ``x`` and their features into ``mark`` (``there`` = 1), or take them
    out again (0)."""
    for a in range(rows.indptr[r], rows.indptr[r + 1]):
        f = rows.indices[a]
        x[f, 0] = rows.data[a] * there
        mark[f & (MARKS - 1)] = there > 0
    for a in range(reading.indptr[r], reading.indptr[r + 1]):
        f = reading.indices[a]
        x[f, 1] = reading.data[a] * there
        mark[f & (MARKS - 1)] = there > 0


@helper
def _add_up(rows, r, entries, listed, hits, count, numbers, work):
    """Head scores, products and coverage of the listed blocks, their sums at the row's features, and likelihoods by nodes' own
    rows."""
    indptr, indices, data = rows
    sums, share, per_block = work.sums, work.share, work.per_block
    dot, cover, head, alone = per_block[0], per_block[1], per_block[3], per_block[6]
    (expected, growth), background, n_nodes = numbers.alone, share[len(share) - 1], len(numbers.alone.growth)
    start = indptr[r]
    m = indptr[r + 1] - start
    known = np.float32(0)
    for a in range(m):
        background[a] = numbers.background[indices[start + a]]
        known += data[start + a] if background[a] > 0 else np.float32(0)
    for q in range(count):
        b = listed.blocks[q]
        head[q] = numbers.bias[b]
        alone[q] = -known * growth[b] if b < n_nodes else np.float32(0)
        dot[q] = 0
        cover[q] = 0
        for a in range(m):
            sums[q, a] = 0
    n_hits = find_hits(rows, r, entries, listed, count, hits, (numbers.entry_sum, numbers.weight))
    for i in range(at(n_hits)):
        q, a, e = at(hits.block[i]), at(hits.position[i]), at(hits.entry[i])
        v, s = data[at(start) + a], numbers.entry_sum[e]
        head[q] += numbers.weight[e] * v
        dot[q] += s * v
        cover[q] += v * v if s != 0 else np.float32(0)
        sums[q, a] = s
        if listed.blocks[q] < n_nodes:
            alone[q] += v * log_growth(s, background[a], expected)


@helper
def _measure_blocks(rows, r, ancestry, listed, count, numbers, work):
    """Cosines, head scores summed along the ancestors and shrunk likelihoods of the listed blocks, ancestors first."""
    (indptr, _, data), (parent, inner) = rows, ancestry
    norm2, seen_share, news, use_likelihood = numbers.norm2, numbers.seen, numbers.news, numbers.use_likelihood
    sums, share, per_block, above, branch = work
    dot, cosine, head, prefix, branch_fit = per_block[0], per_block[2], per_block[3], per_block[4], per_block[5]
    place, blocks, n_nodes, root = listed.place, listed.blocks, len(parent), len(share) - 1
    start = indptr[r]
    m = indptr[r + 1] - start
    for q in range(count):
        b = blocks[q]
        is_node = b < n_nodes
        u = b if is_node else b - n_nodes
        up = (n_nodes + u if inner[u] and u > 0 else n_nodes + parent[u]) if is_node else n_nodes + parent[u]
        if u == 0 or up <= n_nodes:
            above[q] = -1  # the root: its distribution is the background
        else:
            above[q] = place[up]
        cosine[q] = dot[q] / np.sqrt(norm2[b]) if norm2[b] > 1e-6 else np.float32(0)
        prefix[q] = head[q] + (prefix[above[q]] if above[q] >= 0 else np.float32(0))
        if use_likelihood:
            wider = above[q] if above[q] >= 0 else root
            for a in range(m):
                share[q, a] = seen_share[b] * sums[q, a] + news[b] * share[wider, a]
        branch[q] = branch[above[q]] if above[q] >= 0 else q
        if use_likelihood and branch[q] == q:
            branch_fit[q] = _log_ratio(share, q, m, data, start)


@helper
def _judge(c, rows, r, ancestry, places, place, numbers, work, z):
    """What the blocks around one candidate say."""
    (indptr, _, data), (parent, inner) = rows, ancestry
    counts, use_likelihood = numbers.counts, numbers.use_likelihood
    share, per_block, branch = work.share, work.per_block, work.branch
    cover, cosine, head, prefix, branch_fit = per_block[1], per_block[2], per_block[3], per_block[4], per_block[5]
    n_nodes, start = len(parent), indptr[r]
    m = indptr[r + 1] - start
    q = place[c]
    ball = place[n_nodes + c] if inner[c] and c > 0 else q
    up = place[n_nodes + parent[c]] if c > 0 and parent[c] > 0 else -1
    far = -1
    if up >= 0 and parent[parent[c]] > 0:
        far = place[n_nodes + parent[parent[c]]]
    z[0], z[1], z[6], z[7] = cosine[q], cosine[ball], cover[q], cover[ball]
    z[2] = cosine[up] if up >= 0 else np.float32(0)
    z[8] = cover[up] if up >= 0 else np.float32(0)
    z[3] = cosine[far] if far >= 0 else np.float32(0)
    if use_likelihood:
        z[9] = _log_ratio(share, np.int64(q), m, data, start)
        z[30] = branch_fit[branch[q]]
        z[33] = work.per_block[6, q]
    z[10], z[11] = prefix[q], head[q]
    z[12] = prefix[up] if up >= 0 else np.float32(0)
    z[13] = np.log1p(counts[c])
    z[14] = np.log1p(counts[n_nodes + (parent[c] if c > 0 else 0)])
    z[15] = np.float32(0.1) * places.depth[c]
    z[16] = 1 if inner[c] else 0
    z[23] = np.log1p(np.float32(places.n_children[parent[c]] if c > 0 else 0))
    z[24] = np.log1p(np.float32(m))


@helper
def _remember(c, memory, x, mark, found, norm2, z):
    """What the items of one candidate say: the nearest two, its descriptions, and both through the dictionary."""
    span, kind, weight, (indptr, indices, data) = memory.span, memory.kind, memory.weight, memory.words
    first, second, nearest, total = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    for i in range(span[c, 0], span[c, 1]):
        s, t, known = _products(x, mark, indptr[i], indptr[i + 1], indices, data, found)
        total += t * weight[i]
        if kind[i]:
            first_of = N_EVIDENCE + N_PER_KIND * (kind[i] - 1)
            z[first_of], z[first_of + 1], z[first_of + 2] = s, known, t
            continue
        if s > first:
            first, second = s, first
        elif s > second:
            second = s
        nearest = max(nearest, t)
    z[4], z[5], z[26] = first, second, nearest
    if norm2[c] > 1e-6:
        z[27] = total / np.sqrt(norm2[c])


@helper
def _compare_candidates(z, classes, n_classes, n_kinds, parent, branch):
    """Evidence relative to the row's best candidate, agreement with siblings, and the slot for "none of these"."""
    none = z[len(z) - 1]
    none[22] = 1
    if n_classes == 0:
        return
    cover, total = z[0, 6], np.float32(0)
    for j in range(n_classes):
        cover = max(cover, z[j, 6])
        z[j, 17] = z[j, 0] * z[j, 6]
    for i in range(len(BELOW_BEST)):
        top = below_best(z, n_classes, BELOW_BEST[i, 0], BELOW_BEST[i, 1])
        if BELOW_BEST[i, 2]:
            none[BELOW_BEST[i, 0]] = top
    for kind in range(N_EVIDENCE, N_EVIDENCE + N_PER_KIND * n_kinds, N_PER_KIND):
        for first in range(kind, kind + 3):
            none[first] = below_best(z, n_classes, first, first + 3)
    for j in range(n_classes):
        z[j, 20] = np.exp(z[j, 10])
        total += z[j, 20]
    for j in range(n_classes):
        family, nearest, wide = np.float32(0), np.float32(0), np.float32(0)
        for i in range(n_classes):
            if branch[i] == branch[j]:
                wide += z[i, 20]
            if parent[classes[i]] == parent[classes[j]]:
                family += z[i, 20]
                nearest = max(nearest, z[i, 4])
        z[j, 21] = np.log(max(family / total, LEAST_SHARE))
        z[j, 31] = np.log(max(wide / total, LEAST_SHARE))
        z[j, 25] = nearest - none[4]
    for j in range(n_classes):
        z[j, 20] = z[j, 10] - np.log(total)
    none[6] = cover
    none[20] = -np.log(total)
    none[24] = z[0, 24]
