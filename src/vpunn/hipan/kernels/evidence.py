"""Compiled loops that gather the evidence about candidates; how blocks are stored is told in `_propose_kernels`."""

from __future__ import annotations

import numpy as np

from vpunn.hipan.kernels import helper, kernel
from vpunn.hipan.kernels.propose import longest_row
from vpunn.hipan.kernels.train import add_chain, branch_scores, find_hits, most_hits

#: Evidence columns of one candidate; `EVIDENCE` in `combiner` names them.
N_EVIDENCE = 33
#: Further columns per kind of description.
PER_KIND = 6
#: A power of two.
MARKS = 4096


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
    """Of one item: its product with the row, with the row read through the dictionary, and its share that the row has.

    Two passes, because every wrong guess whether a feature is shared costs as much as ten features: the first lists the
    shared ones in ``found`` without a branch.
    """
    count = 0
    for a in range(start, stop):
        found[count] = a
        count += mark[indices[a] & (MARKS - 1)]
    s, t, known = np.float32(0), np.float32(0), np.float32(0)
    for i in range(count):
        f, v = indices[found[i]], data[found[i]]
        s += v * x[f, 0]
        t += v * x[f, 1]
        known += v * v if x[f, 0] != 0 else np.float32(0)
    return s, t, known


def gather_evidence(rows, reading, candidates, tree, entries, balls, memory, n_kinds) -> tuple[np.ndarray, np.ndarray]:
    """Evidence for every candidate of every row, (rows, candidates + 1, columns), the last slot being "none"; and the
    scores (rows, branches) of the depth-1 balls. The groups of arrays are those of `weights.gather`."""
    n_rows, width = candidates.shape
    (indptr, indices, _), (parent, *_, longest_chain) = rows, tree
    feature_start, branch_weight = entries[0], entries[-1]
    out = np.zeros((n_rows, width + 1, N_EVIDENCE + PER_KIND * n_kinds), np.float32)
    branch_score = np.empty((n_rows, branch_weight.shape[1]), np.float32)
    n_blocks = width * (longest_chain + 2)
    longest = longest_row(indptr)
    room = most_hits(indptr, indices, feature_start, n_blocks)
    found = np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room, np.int32)
    listed = (
        np.full(2 * len(parent), -1, np.int32),
        np.empty(n_blocks, np.int32),
        np.empty(longest_chain + 2, np.int32),
    )
    work = (
        np.zeros((n_blocks, longest), np.float32),
        np.zeros((n_blocks + 1, longest), np.float32),
        np.empty((6, n_blocks), np.float32),
        np.empty(n_blocks, np.int32),
        np.empty(n_blocks, np.int32),
    )
    row = (
        np.zeros((len(feature_start) - 1, 2), np.float32),
        np.zeros(MARKS, np.bool_),
        np.empty(longest_row(memory[3]) + 1, np.int64),
        np.empty(width, np.int32),
    )
    scratch = (*listed, *found)
    _gather(rows, reading, candidates, tree[:-1], entries, balls, memory, scratch, work, row, out, branch_score)
    return out, branch_score


@kernel
def _gather(rows, reading, candidates, tree, entries, balls, memory, scratch, work, row, out, branch_score):
    """``row`` holds the row and the row read through the dictionary, which features it may have by their last bits (that stays in
    the nearest cache), and room; ``work`` what is known about the blocks around its candidates."""
    n_rows, width = candidates.shape
    parent, _, inner, _, branch_of = tree
    place, blocks, stack = scratch[0], scratch[1], scratch[2]
    x, mark, found, classes = row
    for r in range(n_rows):
        count, n_classes = np.int64(0), 0
        while n_classes < width and candidates[r, n_classes] >= 0:
            count = add_chain(candidates[r, n_classes], parent, inner, place, blocks, count, stack)
            n_classes += 1
        _mark(rows, r, x, 0, mark, True)
        _mark(reading, r, x, 1, mark, True)
        _add_up(rows, r, entries, scratch, count, balls, work)
        _measure_blocks(rows, r, parent, inner, scratch, count, balls, work)
        for j in range(n_classes):
            c = candidates[r, j]
            _judge(c, rows, r, tree, place, balls, work, out[r, j])
            _remember(c, memory, x, mark, found, balls[0], out[r, j])
            classes[j] = work[4][place[c]]
        _compare_candidates(out[r], candidates[r], n_classes, parent, classes)
        if branch_score.shape[1]:
            indptr, indices, data = rows
            branch_scores(indptr, r, indices, data, entries[7], branch_score[r])
            top = branch_score[r, 0]
            for b in range(1, branch_score.shape[1]):
                top = max(top, branch_score[r, b])
            for j in range(n_classes):
                b = branch_of[candidates[r, j]]
                if b > 0:
                    out[r, j, 32] = branch_score[r, b - 1] - top
        _mark(rows, r, x, 0, mark, False)
        _mark(reading, r, x, 1, mark, False)
        for q in range(count):
            place[blocks[q]] = -1


@helper
def _mark(rows, r, x, column, mark, there):
    """Write a row into a column of ``x`` and its features into ``mark``, or take them out again."""
    indptr, indices, data = rows
    for a in range(indptr[r], indptr[r + 1]):
        x[indices[a], column] = data[a] if there else np.float32(0)
        mark[indices[a] & (MARKS - 1)] = there


@helper
def _add_up(rows, r, entries, scratch, count, balls, work):
    """Head scores, products and coverage of the listed blocks, and their sums at the row's features."""
    indptr, indices, data = rows
    feature_start, entry_block, entry_sum, weight, bias, dense_row, dense_entry, _ = entries
    place, blocks, _, hit_entry, hit_block, hit_position = scratch
    sums, share, per_block = work[0], work[1], work[2]
    dot, cover, head = per_block[0], per_block[1], per_block[3]
    background, start = balls[4], indptr[r]
    m = indptr[r + 1] - start
    for a in range(m):
        share[len(share) - 1, a] = background[indices[start + a]]
    for q in range(count):
        head[q] = bias[blocks[q]]
        dot[q] = 0
        cover[q] = 0
        for a in range(m):
            sums[q, a] = 0
    hits = find_hits(
        indptr,
        r,
        indices,
        feature_start,
        entry_block,
        dense_row,
        dense_entry,
        place,
        blocks,
        count,
        hit_entry,
        hit_block,
        hit_position,
    )
    for i in range(hits):
        q, a, e = hit_block[i], hit_position[i], hit_entry[i]
        v, s = data[start + a], entry_sum[e]
        head[q] += weight[e] * v
        dot[q] += s * v
        cover[q] += v * v if s != 0 else np.float32(0)
        sums[q, a] = s


@helper
def _measure_blocks(rows, r, parent, inner, scratch, count, balls, work):
    """Cosines, head scores summed along the ancestors and shrunk likelihoods of the listed blocks, ancestors first."""
    indptr, _, data = rows
    norm2, seen_share, news, _, _, use_likelihood = balls
    sums, share, per_block, above, branch = work
    dot, cosine, head, prefix, branch_fit = per_block[0], per_block[2], per_block[3], per_block[4], per_block[5]
    place, blocks, n_nodes, root = scratch[0], scratch[1], len(parent), len(share) - 1
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
def _judge(c, rows, r, tree, place, balls, work, z):
    """What the blocks around one candidate say."""
    indptr, _, data = rows
    parent, depth, inner, n_children, _ = tree
    counts, use_likelihood = balls[3], balls[5]
    share, per_block, branch = work[1], work[2], work[4]
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
        z[9] = _log_ratio(share, q, m, data, start)
        z[30] = branch_fit[branch[q]]
    z[10], z[11] = prefix[q], head[q]
    z[12] = prefix[up] if up >= 0 else np.float32(0)
    z[13] = np.log1p(counts[c])
    z[14] = np.log1p(counts[n_nodes + (parent[c] if c > 0 else 0)])
    z[15] = np.float32(0.1) * depth[c]
    z[16] = 1 if inner[c] else 0
    z[23] = np.log1p(np.float32(n_children[parent[c]] if c > 0 else 0))
    z[24] = np.log1p(np.float32(m))


@helper
def _remember(c, memory, x, mark, found, norm2, z):
    """What the items of one candidate say: the nearest two, its descriptions, and both through the dictionary."""
    span, kind, weight, indptr, indices, data = memory
    first, second, nearest, total = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    for i in range(span[c, 0], span[c, 1]):
        s, t, known = _products(x, mark, indptr[i], indptr[i + 1], indices, data, found)
        total += t * weight[i]
        if kind[i]:
            at = N_EVIDENCE + PER_KIND * (kind[i] - 1)
            z[at], z[at + 1], z[at + 2] = s, known, t
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
def _compare_candidates(z, classes, n_classes, parent, branch):
    """Evidence relative to the row's best candidate, agreement with siblings, and the slot for "none of these"."""
    none = z[len(z) - 1]
    none[22] = 1
    if n_classes == 0:
        return
    product, similar, cosine, like, head, up = z[0, 0] * z[0, 6], z[0, 4], z[0, 0], z[0, 9], z[0, 10], z[0, 12]
    cover = z[0, 6]
    for j in range(1, n_classes):
        product = max(product, z[j, 0] * z[j, 6])
        similar = max(similar, z[j, 4])
        cosine = max(cosine, z[j, 0])
        like = max(like, z[j, 9])
        head = max(head, z[j, 10])
        up = max(up, z[j, 12])
        cover = max(cover, z[j, 6])
    total = np.float32(0)
    for j in range(n_classes):
        total += np.exp(z[j, 10] - head)
    for j in range(n_classes):
        family, nearest, wide = np.float32(0), np.float32(0), np.float32(0)
        for i in range(n_classes):
            if branch[i] == branch[j]:
                wide += np.exp(z[i, 10] - head)
            if parent[classes[i]] == parent[classes[j]]:
                family += np.exp(z[i, 10] - head)
                nearest = max(nearest, z[i, 4])
        z[j, 21] = np.log(
            max(family / total, np.float32(1e-30))
        )  # of heads far below the best nothing is left in 32 bits
        z[j, 31] = np.log(max(wide / total, np.float32(1e-30)))
        z[j, 25] = nearest - similar
    for j in range(n_classes):
        z[j, 17] = z[j, 0] * z[j, 6] - product
        z[j, 18] = z[j, 4] - similar
        z[j, 19] = z[j, 0] - cosine
        z[j, 20] = z[j, 10] - head - np.log(total)
        z[j, 9] -= like
        z[j, 10] -= head
        z[j, 12] -= up
    none[0], none[4], none[6], none[17] = cosine, similar, cover, product
    none[20] = -np.log(total)
    none[24] = z[0, 24]
    _below_best(z, n_classes, np.int64(30), np.int64(30))
    for first in range(26, 28):
        none[first] = _below_best(z, n_classes, first, first + 2)
    for kind in range(N_EVIDENCE, z.shape[1], PER_KIND):
        for first in range(kind, kind + 3):
            none[first] = _below_best(z, n_classes, first, first + 3)


@helper
def _below_best(z, n_classes, column, into):
    """Write how far each candidate is below the best one in a column; returns the best."""
    top = z[0, column]
    for j in range(1, n_classes):
        top = max(top, z[j, column])
    for j in range(n_classes):
        z[j, into] = z[j, column] - top
    return top
