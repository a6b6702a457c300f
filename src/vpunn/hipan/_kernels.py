"""Compiled loops of the classifier: proposing candidates, training the heads, gathering evidence, the combiner.

Blocks. The classifier keeps one sparse block of numbers per ball. Ball ``c < N`` is the single node ``c`` (digit 0
after its path: "stop here"); ball ``N + u`` is the subtree of an inner node ``u`` other than the root. The chain of a
node is its own block, then the subtree blocks of itself (if inner) and of its ancestors. All blocks live in one matrix
stored by feature: entry ``e`` of feature ``f`` (``feature_start[f] ≤ e < feature_start[f+1]``) belongs to block
``entry_block[e]``, sorted within the feature. Features that occur in many blocks also have a row in ``dense_entry``
(block → entry, −1 if absent) so that a lookup is one read.

Everything is computed row by row with fixed loops, so a row gives the same bits alone and in a batch.
"""

from __future__ import annotations

import numpy as np
from numba import njit

#: Evidence columns of one candidate; `EVIDENCE` in `combiner` names them.
N_EVIDENCE = 33
#: Further columns per kind of description.
PER_KIND = 6
#: A power of two.
MARKS = 4096


@njit(cache=True)
def _keep_best(values: np.ndarray, count: int, limit: int, ids: np.ndarray, best: np.ndarray) -> int:
    """The ``limit`` ids of largest value in descending order, smaller ids first among equals; returns how many."""
    filled = 0
    for j in range(count):
        i = ids[j]
        value = values[i]
        if filled < limit:
            place = filled
            filled += 1
        else:
            worst = values[best[limit - 1]]
            if value < worst or (value == worst and i > best[limit - 1]):
                continue
            place = limit - 1
        while place > 0 and (
            values[best[place - 1]] < value or (values[best[place - 1]] == value and best[place - 1] > i)
        ):
            best[place] = best[place - 1]
            place -= 1
        best[place] = i
    return filled


@njit(cache=True)
def _longest_row(indptr):
    longest = 1
    for r in range(len(indptr) - 1):
        longest = max(longest, indptr[r + 1] - indptr[r])
    return longest


@njit(cache=True)
def _rarest_first(start, stop, indices, feature_start, opening, scoring, rarest):
    """Positions of the row's features from the rarest to the commonest, and how many may open classes and add scores.

    The rarest open classes, as many as ``opening`` entries allow; the next ones only add to open classes, up to ``scoring``
    entries. At least one feature does both.
    """
    count = 0
    for a in range(start, stop):
        f = indices[a]
        size = feature_start[f + 1] - feature_start[f]
        if size == 0:
            continue
        place = count
        while place > 0:
            other = indices[rarest[place - 1]]
            if feature_start[other + 1] - feature_start[other] <= size:
                break
            rarest[place] = rarest[place - 1]
            place -= 1
        rarest[place] = a
        count += 1
    total, openers, scorers = 0, min(count, 1), min(count, 1)
    for k in range(count):
        f = indices[rarest[k]]
        total += feature_start[f + 1] - feature_start[f]
        if total <= opening:
            openers = k + 1
        if total <= scoring:
            scorers = max(k + 1, scorers)
    return openers, max(openers, scorers)


@njit(cache=True)
def propose_by_centroid(
    indptr, indices, data, own, row_weight, feature_start, entry_block, entry_sum, norm2, n_nodes, limit, opening, scoring
):
    """Classes by coverage · cosine: how much of the row the class has seen, times the cosine with its centroid.

    ``own[r]`` is the class the row itself was counted in (−1: none); that row's share is taken out again exactly, so
    training rows are judged as if they had been left out. The row's rarest features
    propose (`_rarest_first`: the common ones cost most and separate least); the evidence that follows is exact.
    """
    n_rows = len(indptr) - 1
    out = np.full((n_rows, limit), -1, np.int32)
    dot = np.zeros(n_nodes, np.float32)
    covered = np.zeros(n_nodes, np.float32)
    seen = np.zeros(n_nodes, np.bool_)
    touched = np.empty(n_nodes, np.int32)
    best = np.empty(limit, np.int32)
    rarest = np.empty(_longest_row(indptr), np.int64)
    for r in range(n_rows):
        count = 0
        square = np.float32(0)
        openers, scorers = _rarest_first(indptr[r], indptr[r + 1], indices, feature_start, opening, scoring, rarest)
        for k in range(scorers):
            a = rarest[k]
            f = indices[a]
            v = data[a]
            start, stop = feature_start[f], feature_start[f + 1]
            square += v * v
            for e in range(start, stop):
                c = entry_block[e]
                if c >= n_nodes:
                    break
                if not seen[c]:
                    if k >= openers:
                        continue
                    seen[c] = True
                    touched[count] = c
                    count += 1
                dot[c] += v * entry_sum[e]
                if c != own[r] or entry_sum[e] - row_weight[r] * v > 1e-6:
                    covered[c] += v * v
        for j in range(count):
            c = touched[j]
            s, q = dot[c], norm2[c]
            if c == own[r]:
                w = row_weight[r]
                q = q - 2 * w * s + w * w * square
                s -= w * square
            dot[c] = covered[c] * s / np.sqrt(q) if q > 1e-6 else np.float32(-1e30)
        filled = _keep_best(dot, count, limit, touched, best)
        kept = 0
        for j in range(filled):
            if dot[best[j]] > -1e29:
                out[r, kept] = best[j]
                kept += 1
        for j in range(count):
            c = touched[j]
            dot[c] = 0
            covered[c] = 0
            seen[c] = False
    return out


@njit(cache=True)
def propose_by_heads(
    indptr, indices, data, parent, inner, feature_start, entry_block, weight, bias, limit, opening, scoring, first
):
    """Append to ``first`` (−1 padded candidates) the ``limit`` best classes by head score that are not in it yet.

    Scores one scatter over the row's features; only nodes that share a feature with the row are ranked, and the sum along
    the ancestors is kept for the ones that follow.
    """
    n_rows = len(indptr) - 1
    n_nodes = len(parent)
    out = np.full((n_rows, first.shape[1] + limit), -1, np.int32)
    local = bias.copy()
    dirty = np.zeros(2 * n_nodes, np.bool_)
    touched = np.empty(2 * n_nodes, np.int32)
    classes = np.empty(n_nodes, np.int32)
    chain = np.zeros(n_nodes, np.float32)
    known = np.full(n_nodes, -1, np.int32)
    total = np.empty(n_nodes, np.float32)
    best = np.empty(max(limit, 1), np.int32)
    seen = np.zeros(n_nodes, np.bool_)
    stack = np.empty(n_nodes, np.int32)
    rarest = np.empty(_longest_row(indptr), np.int64)
    for r in range(n_rows):
        count, n_classes = 0, 0
        openers, scorers = _rarest_first(indptr[r], indptr[r + 1], indices, feature_start, opening, scoring, rarest)
        for k in range(scorers):
            a = rarest[k]
            f = indices[a]
            v = data[a]
            start, stop = feature_start[f], feature_start[f + 1]
            for e in range(start, stop):
                b = entry_block[e]
                if not dirty[b]:
                    if k >= openers and b < n_nodes:
                        continue
                    dirty[b] = True
                    touched[count] = b
                    count += 1
                    if b < n_nodes:
                        classes[n_classes] = b
                        n_classes += 1
                local[b] += weight[e] * v
        for j in range(n_classes):
            c = classes[j]
            waiting = 0
            u = c
            while u > 0 and known[u] != r:
                stack[waiting] = u
                waiting += 1
                u = parent[u]
            s = chain[u] if u > 0 else np.float32(0)
            for i in range(waiting - 1, -1, -1):
                u = stack[i]
                if inner[u]:
                    s += local[n_nodes + u]
                chain[u] = s
                known[u] = r
            total[c] = s + local[c]
        filled = _keep_best(total, n_classes, limit, classes, best)
        kept = 0
        for j in range(first.shape[1]):
            if first[r, j] < 0:
                break
            out[r, kept] = first[r, j]
            seen[first[r, j]] = True
            kept += 1
        for j in range(filled):
            if not seen[best[j]]:
                out[r, kept] = best[j]
                kept += 1
        for j in range(first.shape[1]):
            if first[r, j] < 0:
                break
            seen[first[r, j]] = False
        for j in range(count):
            local[touched[j]] = bias[touched[j]]
            dirty[touched[j]] = False
    return out


@njit(cache=True)
def _add_chain(c, parent, inner, place, blocks, count, stack):
    """Append the blocks of class ``c``'s chain that are not listed yet, ancestors before descendants."""
    n_nodes = len(parent)
    waiting = 0
    if place[c] < 0:
        stack[waiting] = c
        waiting += 1
    u = c
    while u > 0:
        if inner[u]:
            if place[n_nodes + u] >= 0:
                break
            stack[waiting] = n_nodes + u
            waiting += 1
        u = parent[u]
    for j in range(waiting - 1, -1, -1):
        place[stack[j]] = count
        blocks[count] = stack[j]
        count += 1
    return count


@njit(cache=True)
def _find_hits(
    start_row, stop_row, indices, feature_start, entry_block, dense_row, dense_entry, place, blocks, count,
    hit_entry, hit_block, hit_position,
):
    """All stored entries at (listed block, feature of the row); returns how many."""
    hits = 0
    for a in range(start_row, stop_row):
        f = indices[a]
        start, stop = feature_start[f], feature_start[f + 1]
        if stop - start <= 4 * count:
            for e in range(start, stop):
                q = place[entry_block[e]]
                if q >= 0:
                    hit_entry[hits] = e
                    hit_block[hits] = q
                    hit_position[hits] = a - start_row
                    hits += 1
        elif dense_row[f] >= 0:
            row = dense_row[f]
            for q in range(count):
                e = dense_entry[row, blocks[q]]
                if e >= 0:
                    hit_entry[hits] = e
                    hit_block[hits] = q
                    hit_position[hits] = a - start_row
                    hits += 1
        else:
            for q in range(count):
                low, high = start, stop
                while low < high:
                    middle = (low + high) >> 1
                    if entry_block[middle] < blocks[q]:
                        low = middle + 1
                    else:
                        high = middle
                if low < stop and entry_block[low] == blocks[q]:
                    hit_entry[hits] = low
                    hit_block[hits] = q
                    hit_position[hits] = a - start_row
                    hits += 1
    return hits


@njit(cache=True)
def train_heads(
    indptr, indices, data, own, row_weight, candidates, parent, inner, longest_chain, feature_start, entry_block,
    dense_row, dense_entry, weight_energy, bias, bias_energy, order, own_rate, ball_rate, bias_rate, losses,
):
    """One AdaGrad pass over the rows in ``order``; ``losses`` receives the loss of each before its update.

    Loss of a row: softmax cross-entropy of its class among its candidates, with the score Σ_{B∋c} (⟨w_B, x⟩ + b_B).
    The gradient of a ball is (probability of the candidates inside it − 1 if the class is inside) · x, so siblings
    share what their ancestors learn. Updates are in place.
    """
    n_nodes = len(parent)
    width = candidates.shape[1] + 1
    place = np.full(2 * n_nodes, -1, np.int32)
    blocks = np.empty(width * (longest_chain + 2), np.int32)
    score = np.empty(len(blocks), np.float32)
    gradient = np.empty(len(blocks), np.float32)
    stack = np.empty(longest_chain + 2, np.int32)
    longest_row = 0
    for r in range(len(indptr) - 1):
        longest_row = max(longest_row, indptr[r + 1] - indptr[r])
    room = longest_row * len(blocks)
    hit_entry = np.empty(room, np.int64)
    hit_block = np.empty(room, np.int32)
    hit_position = np.empty(room, np.int32)
    classes = np.empty(width, np.int32)
    p = np.empty(width, np.float32)
    for t in range(len(order)):
        r = order[t]
        n_classes, truth, count = 0, -1, 0
        for j in range(width - 1):
            c = candidates[r, j]
            if c < 0:
                break
            if c == own[r]:
                truth = n_classes
            classes[n_classes] = c
            n_classes += 1
        if truth < 0:
            truth = n_classes
            classes[n_classes] = own[r]
            n_classes += 1
        if n_classes < 2:
            continue
        for j in range(n_classes):
            count = _add_chain(classes[j], parent, inner, place, blocks, count, stack)
        for q in range(count):
            score[q] = bias[blocks[q]]
            gradient[q] = 0
        start = indptr[r]
        hits = _find_hits(
            start, indptr[r + 1], indices, feature_start, entry_block, dense_row, dense_entry, place, blocks, count,
            hit_entry, hit_block, hit_position,
        )
        for i in range(hits):
            score[hit_block[i]] += weight_energy[hit_entry[i], 0] * data[start + hit_position[i]]
        top = np.float32(-1e30)
        for j in range(n_classes):
            s = score[place[classes[j]]]
            u = classes[j]
            while u > 0:
                if inner[u]:
                    s += score[place[n_nodes + u]]
                u = parent[u]
            p[j] = s
            top = max(top, s)
        total = np.float32(0)
        for j in range(n_classes):
            p[j] = np.exp(p[j] - top)
            total += p[j]
        losses[r] = -np.log(p[truth] / total + 1e-30)
        for j in range(n_classes):
            g = (p[j] / total - (1 if j == truth else 0)) * row_weight[r]
            gradient[place[classes[j]]] += g
            u = classes[j]
            while u > 0:
                if inner[u]:
                    gradient[place[n_nodes + u]] += g
                u = parent[u]
        for i in range(hits):
            q = hit_block[i]
            g = gradient[q]
            if abs(g) > 1e-2:  # rows already explained cost nothing further
                e = hit_entry[i]
                d = g * data[start + hit_position[i]]
                weight_energy[e, 1] += d * d
                weight_energy[e, 0] -= (own_rate if blocks[q] < n_nodes else ball_rate) * d / np.sqrt(weight_energy[e, 1])
        for q in range(count):
            b = blocks[q]
            place[b] = -1
            g = gradient[q]
            bias_energy[b] += g * g
            bias[b] -= bias_rate * g / np.sqrt(bias_energy[b])


@njit(cache=True)
def _log_ratio(share, m, start, indices, data, background):
    """Log-likelihood of the row under a ball's shares, against the background."""
    s = np.float32(0)
    for a in range(m):
        back = background[indices[start + a]]
        if back > 0:
            s += data[start + a] * np.log(max(share[a], np.float32(1e-30)) / back)
    return s


@njit(cache=True)
def _products(x, mark, start, stop, indices, data):
    """Of one item: its product with the row, with the row read through the dictionary, and its share that the row has."""
    s, t, known = np.float32(0), np.float32(0), np.float32(0)
    for a in range(start, stop):
        f = indices[a]
        if mark[f & (MARKS - 1)]:
            v = data[a]
            t += v * x[f, 1]
            if x[f, 0] != 0:
                s += v * x[f, 0]
                known += v * v
    return s, t, known


@njit(cache=True)
def branch_probabilities(start, stop, indices, data, weight, chance):
    """Softmax over the depth-1 balls of their scores for one row; the last row of ``weight`` is the bias."""
    for b in range(len(chance)):
        chance[b] = weight[len(weight) - 1, b]
    for a in range(start, stop):
        f, v = indices[a], data[a]
        for b in range(len(chance)):
            chance[b] += v * weight[f, b]
    top, total = chance.max(), np.float32(0)
    for b in range(len(chance)):
        chance[b] = np.exp(chance[b] - top)
        total += chance[b]
    for b in range(len(chance)):
        chance[b] /= total


@njit(cache=True)
def train_branches(indptr, indices, data, branch, row_weight, order, weight, energy, rate):
    """One AdaGrad pass of multinomial logistic regression over the depth-1 balls; rows outside of all of them are passed over."""
    chance = np.empty(weight.shape[1], np.float32)
    last = len(weight) - 1
    for t in range(len(order)):
        r = order[t]
        if branch[r] < 0:
            continue
        branch_probabilities(indptr[r], indptr[r + 1], indices, data, weight, chance)
        chance[branch[r]] -= 1
        for b in range(len(chance)):
            g = chance[b] * row_weight[r]
            if abs(g) < 1e-3:
                continue
            for a in range(indptr[r], indptr[r + 1]):
                f = indices[a]
                d = g * data[a]
                energy[f, b] += d * d
                weight[f, b] -= rate * d / np.sqrt(energy[f, b])
            energy[last, b] += g * g
            weight[last, b] -= rate * g / np.sqrt(energy[last, b])


@njit(cache=True)
def gather_evidence(
    indptr, indices, data, reading_indptr, reading_indices, reading_data, branch_of, branch_weight, candidates, parent, depth, inner, n_children,
    longest_chain, feature_start, entry_block, entry_sum, weight, bias, dense_row, dense_entry,
    norm2, seen_share, news, counts, background, use_likelihood,
    n_kinds, memory_span, memory_kind, memory_weight, item_indptr, item_indices, item_data,
):
    """Evidence for every candidate of every row: array (rows, candidates + 1, N_EVIDENCE); the last slot is "none"."""
    n_rows = len(indptr) - 1
    n_nodes = len(parent)
    n_features = len(feature_start) - 1
    width = candidates.shape[1]
    out = np.zeros((n_rows, width + 1, N_EVIDENCE + PER_KIND * n_kinds), np.float32)
    place = np.full(2 * n_nodes, -1, np.int32)
    blocks = np.empty(width * (longest_chain + 2), np.int32)
    stack = np.empty(longest_chain + 2, np.int32)
    longest_row = 1
    for r in range(n_rows):
        longest_row = max(longest_row, indptr[r + 1] - indptr[r])
    room = longest_row * len(blocks)
    hit_entry = np.empty(room, np.int64)
    hit_block = np.empty(room, np.int32)
    hit_position = np.empty(room, np.int32)
    sums = np.zeros((len(blocks), longest_row), np.float32)
    share = np.zeros((len(blocks), longest_row), np.float32)
    dot = np.empty(len(blocks), np.float32)
    cover = np.empty(len(blocks), np.float32)
    cosine = np.empty(len(blocks), np.float32)
    head = np.empty(len(blocks), np.float32)
    prefix = np.empty(len(blocks), np.float32)
    x = np.zeros((n_features, 2), np.float32)  # the row, and the row read through the dictionary
    mark = np.zeros(MARKS, np.bool_)  # which features the row may have, by their last bits: stays in the nearest cache
    above = np.empty(len(blocks), np.int32)
    classes = np.empty(width, np.int32)
    branch_chance = np.empty(branch_weight.shape[1], np.float32)
    branch = np.empty(len(blocks), np.int32)  # the block of the depth-1 ball a block lies in
    branch_fit = np.empty(len(blocks), np.float32)
    for r in range(n_rows):
        start = indptr[r]
        m = indptr[r + 1] - start
        count, n_classes = 0, 0
        while n_classes < width and candidates[r, n_classes] >= 0:
            count = _add_chain(candidates[r, n_classes], parent, inner, place, blocks, count, stack)
            n_classes += 1
        for a in range(m):
            x[indices[start + a], 0] = data[start + a]
            mark[indices[start + a] & (MARKS - 1)] = True
        for a in range(reading_indptr[r], reading_indptr[r + 1]):
            x[reading_indices[a], 1] = reading_data[a]
            mark[reading_indices[a] & (MARKS - 1)] = True
        for q in range(count):
            head[q] = bias[blocks[q]]
            dot[q] = 0
            cover[q] = 0
            for a in range(m):
                sums[q, a] = 0
        hits = _find_hits(
            start, start + m, indices, feature_start, entry_block, dense_row, dense_entry, place, blocks, count,
            hit_entry, hit_block, hit_position,
        )
        for i in range(hits):
            q, a, e = hit_block[i], hit_position[i], hit_entry[i]
            head[q] += weight[e] * data[start + a]
            sums[q, a] = entry_sum[e]
        for q in range(count):
            b = blocks[q]
            is_node = b < n_nodes
            u = b if is_node else b - n_nodes
            up = (n_nodes + u if inner[u] and u > 0 else n_nodes + parent[u]) if is_node else n_nodes + parent[u]
            if u == 0 or up <= n_nodes:
                above[q] = -1  # the root: its distribution is the background
            else:
                above[q] = place[up]
            for a in range(m):
                v = data[start + a]
                s = sums[q, a]
                dot[q] += s * v
                if s != 0:
                    cover[q] += v * v
            cosine[q] = dot[q] / np.sqrt(norm2[b]) if norm2[b] > 1e-6 else np.float32(0)
            prefix[q] = head[q] + (prefix[above[q]] if above[q] >= 0 else np.float32(0))
            if use_likelihood:
                known, new = seen_share[b], news[b]
                for a in range(m):
                    back = share[above[q], a] if above[q] >= 0 else background[indices[start + a]]
                    share[q, a] = known * sums[q, a] + new * back
            branch[q] = branch[above[q]] if above[q] >= 0 else q
            if use_likelihood and branch[q] == q:
                branch_fit[q] = _log_ratio(share[q], m, start, indices, data, background)
        for j in range(n_classes):
            c = candidates[r, j]
            q = place[c]
            z = out[r, j]
            ball = place[n_nodes + c] if inner[c] and c > 0 else q
            up = place[n_nodes + parent[c]] if c > 0 and parent[c] > 0 else -1
            far = -1
            if up >= 0 and parent[parent[c]] > 0:
                far = place[n_nodes + parent[parent[c]]]
            z[0], z[1], z[6], z[7] = cosine[q], cosine[ball], cover[q], cover[ball]
            z[2] = cosine[up] if up >= 0 else np.float32(0)
            z[8] = cover[up] if up >= 0 else np.float32(0)
            z[3] = cosine[far] if far >= 0 else np.float32(0)
            first, second, nearest, total = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
            for i in range(memory_span[c, 0], memory_span[c, 1]):
                s, t, known = _products(x, mark, item_indptr[i], item_indptr[i + 1], item_indices, item_data)
                total += t * memory_weight[i]
                if memory_kind[i]:
                    at = N_EVIDENCE + PER_KIND * (memory_kind[i] - 1)
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
            if use_likelihood:
                z[9] = _log_ratio(share[q], m, start, indices, data, background)
                z[30] = branch_fit[branch[q]]
            z[10], z[11] = prefix[q], head[q]
            z[12] = prefix[up] if up >= 0 else np.float32(0)
            z[13] = np.log1p(counts[c])
            z[14] = np.log1p(counts[n_nodes + (parent[c] if c > 0 else 0)])
            z[15] = np.float32(0.1) * depth[c]
            z[16] = 1 if inner[c] else 0
            z[23] = np.log1p(np.float32(n_children[parent[c]] if c > 0 else 0))
            z[24] = np.log1p(np.float32(m))
            classes[j] = branch[q]
        _compare_candidates(out[r], candidates[r], n_classes, parent, classes)
        if len(branch_chance):
            branch_probabilities(start, start + m, indices, data, branch_weight, branch_chance)
            for j in range(n_classes):
                b = branch_of[candidates[r, j]]
                if b >= 0:
                    out[r, j, 32] = np.log(branch_chance[b] + np.float32(1e-6))
        for a in range(m):
            x[indices[start + a], 0] = 0
        for a in range(reading_indptr[r], reading_indptr[r + 1]):
            x[reading_indices[a], 1] = 0
        mark[:] = False
        for q in range(count):
            place[blocks[q]] = -1
    return out


@njit(cache=True)
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
        z[j, 21] = np.log(family / total)
        z[j, 31] = np.log(wide / total)
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
    _below_best(z, n_classes, 30, 30)
    for first in (26, 27):
        none[first] = _below_best(z, n_classes, first, first + 2)
    for kind in range(N_EVIDENCE, z.shape[1], PER_KIND):
        for first in range(kind, kind + 3):
            none[first] = _below_best(z, n_classes, first, first + 3)


@njit(cache=True)
def _below_best(z, n_classes, column, into):
    """Write how far each candidate is below the best one in a column; returns the best."""
    top = z[0, column]
    for j in range(1, n_classes):
        top = max(top, z[j, column])
    for j in range(n_classes):
        z[j, into] = z[j, column] - top
    return top
