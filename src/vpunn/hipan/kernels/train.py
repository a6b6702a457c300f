"""Compiled loops that train the heads; how blocks are stored is told in `_propose_kernels`."""

from __future__ import annotations

import numpy as np

from vpunn.hipan.kernels import helper, kernel


@helper
def add_chain(c, parent, inner, place, blocks, count, stack):
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


def most_hits(indptr: np.ndarray, indices: np.ndarray, feature_start: np.ndarray, n_blocks: int) -> int:
    """How many entries `find_hits` can find for one row, at most: of a feature no more than it has, nor than blocks."""
    each = np.minimum(feature_start[indices + 1] - feature_start[indices], n_blocks)
    below = np.concatenate([[0], np.cumsum(each)])
    return max(int((below[indptr[1:]] - below[indptr[:-1]]).max(initial=0)), 1)


@helper
def find_hits(
    indptr,
    row,
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
):
    """All stored entries at (listed block, feature of the row); returns how many."""
    hits = 0
    start_row = indptr[row]
    for a in range(start_row, indptr[row + 1]):
        f = indices[a]
        start, stop = feature_start[f], feature_start[f + 1]
        if stop - start <= (4 if dense_row[f] >= 0 else 16) * count:
            for e in range(start, stop):
                q = place[entry_block[e]]
                if q >= 0:
                    hit_entry[hits] = e
                    hit_block[hits] = q
                    hit_position[hits] = a - start_row
                    hits += 1
        elif dense_row[f] >= 0:
            direct = dense_row[f]
            for q in range(count):
                e = dense_entry[direct, blocks[q]]
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


def train_heads(
    indptr,
    indices,
    data,
    own,
    row_weight,
    candidates,
    parent,
    inner,
    longest_chain,
    feature_start,
    entry_block,
    dense_row,
    dense_entry,
    weight_energy,
    bias,
    bias_energy,
    order,
    own_rate,
    ball_rate,
    bias_rate,
    losses,
) -> None:
    """One AdaGrad pass over the rows in ``order``; ``losses`` receives the loss of each before its update.

    Loss of a row: softmax cross-entropy of its class among its candidates, with the score Σ_{B∋c} (⟨w_B, x⟩ + b_B).
    The gradient of a ball is (probability of the candidates inside it − 1 if the class is inside) · x, so siblings
    share what their ancestors learn. Updates are in place.
    """
    n_nodes = len(parent)
    width = candidates.shape[1] + 1
    n_blocks = width * (longest_chain + 2)
    room = most_hits(indptr, indices, feature_start, n_blocks)
    _train_heads(
        indptr,
        indices,
        data,
        own,
        row_weight,
        candidates,
        parent,
        inner,
        feature_start,
        entry_block,
        dense_row,
        dense_entry,
        weight_energy,
        bias,
        bias_energy,
        order,
        own_rate,
        ball_rate,
        bias_rate,
        losses,
        np.full(2 * n_nodes, -1, np.int32),
        np.empty(n_blocks, np.int32),
        np.empty(n_blocks, np.float32),
        np.empty(n_blocks, np.float32),
        np.empty(longest_chain + 2, np.int32),
        np.empty(room, np.int64),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty(width, np.int32),
        np.empty(width, np.float32),
    )


@kernel
def _train_heads(
    indptr,
    indices,
    data,
    own,
    row_weight,
    candidates,
    parent,
    inner,
    feature_start,
    entry_block,
    dense_row,
    dense_entry,
    weight_energy,
    bias,
    bias_energy,
    order,
    own_rate,
    ball_rate,
    bias_rate,
    losses,
    place,
    blocks,
    score,
    gradient,
    stack,
    hit_entry,
    hit_block,
    hit_position,
    classes,
    p,
):
    n_nodes, width = len(parent), len(classes)
    for t in range(len(order)):
        r = order[t]
        n_classes, truth, count = 0, -1, np.int64(0)
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
            count = add_chain(classes[j], parent, inner, place, blocks, count, stack)
        for q in range(count):
            score[q] = bias[blocks[q]]
            gradient[q] = 0
        start = indptr[r]
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
                weight_energy[e, 0] -= (
                    (own_rate if blocks[q] < n_nodes else ball_rate) * d / np.sqrt(weight_energy[e, 1])
                )
        for q in range(count):
            b = blocks[q]
            place[b] = -1
            g = gradient[q]
            bias_energy[b] += g * g
            bias[b] -= bias_rate * g / np.sqrt(bias_energy[b])


@helper
def branch_scores(indptr, r, indices, data, weight, score):
    """Write the scores of the depth-1 balls for one row; the last row of ``weight`` is the bias."""
    for b in range(len(score)):
        score[b] = weight[len(weight) - 1, b]
    for a in range(indptr[r], indptr[r + 1]):
        f, v = indices[a], data[a]
        for b in range(len(score)):
            score[b] += v * weight[f, b]


def train_branches(indptr, indices, data, branch, row_weight, order, weight, energy) -> None:
    """One AdaGrad pass of max(0, 1 ∓ score)² for every depth-1 ball, + in its rows; rows outside of all are passed over."""
    score = np.empty(weight.shape[1], np.float32)
    _train_branches(indptr, indices, data, branch, row_weight, order, weight, energy, score)


@kernel
def _train_branches(indptr, indices, data, branch, row_weight, order, weight, energy, score):
    last = len(weight) - 1
    for t in range(len(order)):
        r = order[t]
        if branch[r] == 0:
            continue
        branch_scores(indptr, r, indices, data, weight, score)
        for b in range(len(score)):
            sign = np.float32(1 if b + 1 == branch[r] else -1)
            g = -sign * max(np.float32(0), 1 - sign * score[b]) * row_weight[r]
            if g == 0:
                continue
            for a in range(indptr[r], indptr[r + 1]):
                f = indices[a]
                d = g * data[a]
                energy[f, b] += d * d
                weight[f, b] -= d / np.sqrt(energy[f, b])
            energy[last, b] += g * g
            weight[last, b] -= g / np.sqrt(energy[last, b])
