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
N_EVIDENCE = 28


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
def propose_by_centroid(
    indptr, indices, data, own, row_weight, feature_start, entry_block, entry_sum, norm2, n_nodes, limit, longest
):
    """Classes by coverage · cosine: how much of the row the class has seen, times the cosine with its centroid.

    ``own[r]`` is the class the row itself was counted in (−1: none); that row's share is taken out again exactly, so
    training rows are judged as if they had been left out. Features that occur in more than ``longest`` classes are
    skipped here (they cost most and separate least); the evidence that follows is exact.
    """
    n_rows = len(indptr) - 1
    out = np.full((n_rows, limit), -1, np.int32)
    dot = np.zeros(n_nodes, np.float32)
    covered = np.zeros(n_nodes, np.float32)
    seen = np.zeros(n_nodes, np.bool_)
    touched = np.empty(n_nodes, np.int32)
    best = np.empty(limit, np.int32)
    for r in range(n_rows):
        count = 0
        square = np.float32(0)
        for a in range(indptr[r], indptr[r + 1]):
            f = indices[a]
            v = data[a]
            start, stop = feature_start[f], feature_start[f + 1]
            if stop - start > longest:
                continue
            square += v * v
            for e in range(start, stop):
                c = entry_block[e]
                if c >= n_nodes:
                    break
                if not seen[c]:
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
    indptr, indices, data, parent, inner, feature_start, entry_block, weight, bias, limit, longest, first
):
    """Append to ``first`` (−1 padded candidates) the ``limit`` best classes by head score that are not in it yet.

    Scores one scatter over the row's features; only nodes that share a feature with the row are ranked, and the sum along
    the ancestors is kept for the ones that follow. As above, features in more than ``longest`` blocks are left to the exact
    evidence, unless the row has no others.
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
    for r in range(n_rows):
        count, n_classes = 0, 0
        bound = longest
        for a in range(indptr[r], indptr[r + 1]):
            if feature_start[indices[a] + 1] - feature_start[indices[a]] <= longest:
                break
        else:
            bound = np.int64(2) * n_nodes  # only frequent features: use them all
        for a in range(indptr[r], indptr[r + 1]):
            f = indices[a]
            v = data[a]
            start, stop = feature_start[f], feature_start[f + 1]
            if stop - start > bound:
                continue
            for e in range(start, stop):
                b = entry_block[e]
                if not dirty[b]:
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
    dense_row, dense_entry, weight, energy, bias, bias_energy, order, own_rate, ball_rate, bias_rate,
):
    """One AdaGrad pass over the rows in ``order``; returns the mean loss before each update.

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
    loss = 0.0
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
            score[hit_block[i]] += weight[hit_entry[i]] * data[start + hit_position[i]]
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
        loss -= np.log(p[truth] / total + 1e-30)
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
            if abs(g) > 1e-3:  # rows already explained cost nothing further
                e = hit_entry[i]
                d = g * data[start + hit_position[i]]
                energy[e] += d * d
                weight[e] -= (own_rate if blocks[q] < n_nodes else ball_rate) * d / np.sqrt(energy[e])
        for q in range(count):
            b = blocks[q]
            place[b] = -1
            g = gradient[q]
            bias_energy[b] += g * g
            bias[b] -= bias_rate * g / np.sqrt(bias_energy[b])
    return loss / max(len(order), 1)


@njit(cache=True)
def gather_evidence(
    indptr, indices, data, candidates, parent, depth, inner, n_children,
    longest_chain, feature_start, entry_block, entry_sum, weight, bias, dense_row, dense_entry,
    norm2, mass, counts, background, smoothing, use_likelihood,
    class_start, class_items, item_indptr, item_indices, item_data, node_indptr, node_indices, node_data,
):
    """Evidence for every candidate of every row: array (rows, candidates + 1, N_EVIDENCE); the last slot is "none"."""
    n_rows = len(indptr) - 1
    n_nodes = len(parent)
    n_features = len(feature_start) - 1
    width = candidates.shape[1]
    out = np.zeros((n_rows, width + 1, N_EVIDENCE), np.float32)
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
    x = np.zeros(n_features, np.float32)
    above = np.empty(len(blocks), np.int32)
    for r in range(n_rows):
        start = indptr[r]
        m = indptr[r + 1] - start
        count, n_classes = 0, 0
        while n_classes < width and candidates[r, n_classes] >= 0:
            count = _add_chain(candidates[r, n_classes], parent, inner, place, blocks, count, stack)
            n_classes += 1
        for a in range(m):
            x[indices[start + a]] = data[start + a]
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
                room_left = mass[b] + smoothing
                for a in range(m):
                    back = share[above[q], a] if above[q] >= 0 else background[indices[start + a]]
                    share[q, a] = (sums[q, a] + smoothing * back) / room_left
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
            first, second = np.float32(0), np.float32(0)
            for k in range(class_start[c], class_start[c + 1]):
                i = class_items[k]
                s = np.float32(0)
                for a in range(item_indptr[i], item_indptr[i + 1]):
                    s += item_data[a] * x[item_indices[a]]
                if s > first:
                    first, second = s, first
                elif s > second:
                    second = s
            z[4], z[5] = first, second
            if use_likelihood:
                s = np.float32(0)
                for a in range(m):
                    back = background[indices[start + a]]
                    if back > 0:
                        s += data[start + a] * np.log(share[q, a] / back)
                z[9] = s
            z[10], z[11] = prefix[q], head[q]
            z[12] = prefix[up] if up >= 0 else np.float32(0)
            z[13] = np.log1p(counts[c])
            z[14] = np.log1p(counts[n_nodes + (parent[c] if c > 0 else 0)])
            z[15] = np.float32(0.1) * depth[c]
            z[16] = 1 if inner[c] else 0
            s = np.float32(0)
            for a in range(node_indptr[c], node_indptr[c + 1]):
                s += node_data[a] * x[node_indices[a]]
            z[22] = s
            z[25] = np.log1p(np.float32(n_children[parent[c]] if c > 0 else 0))
            z[26] = np.log1p(np.float32(m))
        _compare_candidates(out[r], candidates[r], n_classes, parent)
        for a in range(m):
            x[indices[start + a]] = 0
        for q in range(count):
            place[blocks[q]] = -1
    return out


@njit(cache=True)
def _compare_candidates(z, classes, n_classes, parent):
    """Evidence relative to the row's best candidate, agreement with siblings, and the slot for "none of these"."""
    none = z[len(z) - 1]
    none[24] = 1
    if n_classes == 0:
        return
    product, similar, cosine, like, head, up, node = z[0, 0] * z[0, 6], z[0, 4], z[0, 0], z[0, 9], z[0, 10], z[0, 12], z[0, 22]
    cover = z[0, 6]
    for j in range(1, n_classes):
        product = max(product, z[j, 0] * z[j, 6])
        similar = max(similar, z[j, 4])
        cosine = max(cosine, z[j, 0])
        like = max(like, z[j, 9])
        head = max(head, z[j, 10])
        up = max(up, z[j, 12])
        node = max(node, z[j, 22])
        cover = max(cover, z[j, 6])
    total = np.float32(0)
    for j in range(n_classes):
        total += np.exp(z[j, 10] - head)
    for j in range(n_classes):
        family, nearest = np.float32(0), np.float32(0)
        for i in range(n_classes):
            if parent[classes[i]] == parent[classes[j]]:
                family += np.exp(z[i, 10] - head)
                nearest = max(nearest, z[i, 4])
        z[j, 21] = np.log(family / total)
        z[j, 27] = nearest - similar
    for j in range(n_classes):
        z[j, 17] = z[j, 0] * z[j, 6] - product
        z[j, 18] = z[j, 4] - similar
        z[j, 19] = z[j, 0] - cosine
        z[j, 20] = z[j, 10] - head - np.log(total)
        z[j, 9] -= like
        z[j, 10] -= head
        z[j, 12] -= up
        z[j, 23] = z[j, 22] - node
    none[0], none[4], none[6], none[17], none[22] = cosine, similar, cover, product, node
    none[20] = -np.log(total)
    none[26] = z[0, 26]
