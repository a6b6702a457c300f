"""Compiled loops of the model of label sets: heads by dual coordinate descent, and the evidence about a row's labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vpunn.hipan.kernels import helper, kernel

#: Nearest items that are looked at, and how many of them the narrower votes count.
NEAREST, NEAR, NEXT = 30, 10, 3
#: Sums per label that a row fills: votes (near, near and sharp, all, next), nearest, head score, share by words.
NEAR_VOTE, SHARP_VOTE, WIDE_VOTE, NEXT_VOTE, NEAREST_ITEM, HEAD, WORDS = range(7)
#: Columns of evidence about one label of one row; `vpunn.hipan.sets._evidence.COLUMNS` names them.
WIDTH = 16


class ByRow(NamedTuple):
    """A sparse matrix by rows."""

    start: np.ndarray
    ids: np.ndarray
    values: np.ndarray


class Plan(NamedTuple):
    """How heads are trained."""

    ridge: np.ndarray  #: 1 / (2 · cost) of every row
    bias: float  #: the constant feature
    slack: float  #: rows this far beyond their margin are put aside
    floor: float  #: smaller weights are dropped
    tolerance: float
    common: int  #: features of more rows do not make a row a near miss
    epochs: int


class Desk(NamedTuple):
    """Room to work in: per feature, per row, and lists of rows and features."""

    weight: np.ndarray
    seen_feature: np.ndarray
    marked: np.ndarray
    used: np.ndarray
    dual: np.ndarray
    side: np.ndarray
    seen_row: np.ndarray
    active: np.ndarray


@helper
def _near_misses(X, positive, columns, order, common, label, desk, count):
    """Rows that share an uncommon feature with a row of the label, and some others, behind the label's own rows."""
    for k in range(count):
        i = positive[k]
        for q in range(X.start[i], X.start[i + 1]):
            f = X.ids[q]
            if desk.seen_feature[f] == label:
                continue
            desk.seen_feature[f] = label
            if columns.start[f + 1] - columns.start[f] > common:
                continue
            for r in range(columns.start[f], columns.start[f + 1]):
                j = columns.ids[r]
                if desk.side[j] < 0 and desk.seen_row[j] != label:
                    desk.seen_row[j] = label
                    desk.active[count] = j
                    count += 1
    for k in range(min(200, len(order))):
        j = order[k]
        if desk.side[j] < 0 and desk.seen_row[j] != label:
            desk.seen_row[j] = label
            desk.active[count] = j
            count += 1
    return count


@kernel
def train_heads(X, positives, columns, order, plan, desk, base, first, offset, head_ids, head_values, filled):
    """One squared-hinge head per label from ``first`` on, s = offset + ⟨w, x⟩, by dual coordinate descent; returns the next label.

    A head starts at −1 for every row ("no"), so that rows without anything in common with a label's need not be looked at: a
    label of few rows is trained against its near misses, in an order that depends on ``base + label`` alone: any part of the labels
    is trained as among all. ``filled`` counts the entries of weights (label, feature); the kernel returns early if they do not fit.
    """
    n = len(order)
    for label in range(first, len(positives.start) - 1):
        low, high = positives.start[label], positives.start[label + 1]
        for k in range(low, high):
            desk.side[positives.ids[k]] = 1
            desk.active[k - low] = positives.ids[k]
        if n <= 20 * (high - low):
            count = n
            for k in range(n):
                desk.active[k] = order[k]
        else:
            count = _near_misses(X, positives.ids[low:high], columns, order, plan.common, label, desk, high - low)
            state = np.uint64(88172645463325252) + np.uint64(base + label) * np.uint64(11400714819323198485)
            for k in range(count - 1, 0, -1):
                state ^= state << np.uint64(13)
                state ^= state >> np.uint64(7)
                state ^= state << np.uint64(17)
                j = np.int64(state % np.uint64(k + 1))
                other = desk.active[k]
                desk.active[k] = desk.active[j]
                desk.active[j] = other
        used = 0
        bias = 0.0
        for _ in range(plan.epochs):
            kept, worst = 0, 0.0
            for a in range(count):
                i = desk.active[a]
                side = desk.side[i]
                score = bias * plan.bias - 1.0
                if used > 0:  # else all weights are 0; without signs nobody asks whether an index counts from the end
                    for k in range(np.uint64(X.start[i]), np.uint64(X.start[i + 1])):
                        score += desk.weight[np.uint32(X.ids[k])] * X.values[k]
                old = desk.dual[i]
                gradient = side * score - 1.0 + old * plan.ridge[i]
                if old == 0.0 and gradient > -1e-3:
                    if side > 0 or gradient < plan.slack:
                        desk.active[kept] = i
                        kept += 1
                    continue
                desk.active[kept] = i
                kept += 1
                worst = max(worst, abs(gradient))
                square = plan.bias * plan.bias
                for k in range(X.start[i], X.start[i + 1]):
                    square += X.values[k] * X.values[k]
                new = max(old - gradient / (square + plan.ridge[i]), 0.0)
                desk.dual[i] = new
                step = (new - old) * side
                for k in range(X.start[i], X.start[i + 1]):
                    f = X.ids[k]
                    if desk.marked[f] != label:
                        desk.marked[f] = label
                        desk.used[used] = f
                        used += 1
                    desk.weight[f] += step * X.values[k]
                bias += step * plan.bias
            count = kept
            if worst < plan.tolerance:
                break
        fits = filled[0] + used <= len(head_values)
        for k in range(used):
            f = desk.used[k]
            if fits and abs(desk.weight[f]) > plan.floor:
                head_ids[filled[0], 0], head_ids[filled[0], 1] = label, f
                head_values[filled[0]] = desk.weight[f]
                filled[0] += 1
            desk.weight[f] = 0.0
        desk.dual[:] = 0.0
        for k in range(low, high):
            desk.side[positives.ids[k]] = -1
        if not fits:
            return label
        offset[label] = bias * plan.bias - 1.0
    return len(positives.start) - 1


class SetMemory(NamedTuple):
    """What a fitted model knows: rows by feature, their labels, heads and counts of labels by feature, rates and parents."""

    columns: ByRow
    labels: ByRow
    heads: ByRow
    counts: ByRow
    offset: np.ndarray
    rate: np.ndarray
    parents: ByRow
    depth: np.ndarray


class Cuts(NamedTuple):
    """When a label is a candidate."""

    head: float
    words: float
    rate: float
    shrink: float  #: prior rows behind the share of a label among the rows with a word
    planes: np.ndarray  #: a cut for every further plane of evidence


class Tray(NamedTuple):
    """Room to work in: per feature, per training row and per label."""

    value: np.ndarray
    similarity: np.ndarray
    met: np.ndarray
    touched: np.ndarray
    sums: np.ndarray
    near: np.ndarray
    near_row: np.ndarray


@helper
def _find_nearest(X, i, memory, tray):
    """The nearest training items of a row, most similar first (the earlier row on ties), and how many there are."""
    count = 0
    for q in range(X.start[i], X.start[i + 1]):
        f = X.ids[q]
        if tray.value[f] == 0.0:
            continue
        for r in range(memory.columns.start[f], memory.columns.start[f + 1]):
            j = memory.columns.ids[r]
            if not tray.met[j]:  # products may add up to zero on the way
                tray.met[j] = True
                tray.touched[count] = j
                count += 1
            tray.similarity[j] += tray.value[f] * memory.columns.values[r]
    found = 0
    for k in range(count):
        j = tray.touched[k]
        s = tray.similarity[j]
        tray.similarity[j] = 0.0
        tray.met[j] = False
        if s <= 0.0 or (found == NEAREST and s < tray.near[found - 1]):
            continue
        at = min(found, NEAREST - 1)
        if found == NEAREST and s == tray.near[at] and j > tray.near_row[at]:
            continue
        while at > 0 and (tray.near[at - 1] < s or (tray.near[at - 1] == s and tray.near_row[at - 1] > j)):
            tray.near[at] = tray.near[at - 1]
            tray.near_row[at] = tray.near_row[at - 1]
            at -= 1
        tray.near[at] = s
        tray.near_row[at] = j
        found = min(found + 1, NEAREST)
    return found


@helper
def _vote(memory, tray, found):
    """Votes of the nearest items, weighted by powers of their similarity."""
    wide, near, sharp, next_ = 1e-9, 1e-9, 1e-9, 1e-9
    for k in range(found):
        s = tray.near[k]
        wide += s
        if k < NEAR:
            near += s * s
            sharp += s * s * s * s
        if k < NEXT:
            next_ += s * s
    for k in range(found):
        s = tray.near[k]
        j = tray.near_row[k]
        for q in range(memory.labels.start[j], memory.labels.start[j + 1]):
            label = memory.labels.ids[q]
            tray.sums[WIDE_VOTE, label] += s / wide
            if k < NEAR:
                tray.sums[NEAR_VOTE, label] += s * s / near
                tray.sums[SHARP_VOTE, label] += s * s * s * s / sharp
                if s > tray.sums[NEAREST_ITEM, label]:
                    tray.sums[NEAREST_ITEM, label] = s
            if k < NEXT:
                tray.sums[NEXT_VOTE, label] += s * s / next_


@helper
def _read(X, i, memory, cuts, tray):
    """Known features of a row at unit length, head scores and shares by words; returns how many features are known."""
    square, known = 0.0, 0
    for q in range(X.start[i], X.start[i + 1]):
        f = X.ids[q]
        if memory.columns.start[f + 1] > memory.columns.start[f]:
            square += X.values[q] * X.values[q]
            known += 1
    scale = 1.0 / np.sqrt(square) if square > 0.0 else 0.0
    rest = 1.0 if known == 0 else 0.0
    for q in range(X.start[i], X.start[i + 1]):
        f = X.ids[q]
        rows = memory.columns.start[f + 1] - memory.columns.start[f]
        if rows == 0:
            continue
        v = X.values[q] * scale
        tray.value[f] = v
        for k in range(memory.heads.start[f], memory.heads.start[f + 1]):
            tray.sums[HEAD, memory.heads.ids[k]] += v * memory.heads.values[k]
        share = v * v / (rows + cuts.shrink)
        rest += share * cuts.shrink
        for k in range(memory.counts.start[f], memory.counts.start[f + 1]):
            tray.sums[WORDS, memory.counts.ids[k]] += share * memory.counts.values[k]
    for label in range(len(memory.offset)):
        tray.sums[HEAD, label] += memory.offset[label]
        tray.sums[WORDS, label] += rest * memory.rate[label]
    return known


@kernel
def examine(X, planes, first, memory, cuts, tray, pair_start, pair_label, evidence):
    """Candidates of rows from ``first`` on and the evidence about each, while there is room; returns the next row.

    ``planes`` (planes, rows, labels) is what other experts say about every label.
    """
    labels = len(memory.offset)
    at = pair_start[first]
    n = len(X.start) - 1
    for i in range(first, n):
        if at + labels > len(pair_label):
            return i
        tray.sums[:] = 0.0
        known = _read(X, i, memory, cuts, tray)
        found = _find_nearest(X, i, memory, tray)
        _vote(memory, tray, found)
        for q in range(X.start[i], X.start[i + 1]):
            tray.value[X.ids[q]] = 0.0
        closeness = 0.0
        for k in range(min(found, NEAR)):
            closeness += tray.near[k] / NEAR
        for label in range(labels):
            s = tray.sums[:, label]
            wanted = (
                s[WIDE_VOTE] > 0.0 or s[HEAD] > cuts.head or s[WORDS] > cuts.words or memory.rate[label] > cuts.rate
            )
            for k in range(len(cuts.planes)):
                wanted = wanted or planes[k, i, label] > cuts.planes[k]
            if not wanted:
                continue
            pair_label[at] = label
            e = evidence[at]
            at += 1
            for k in range(7):
                e[k] = s[k]
            e[7], e[8], e[9], above = s[HEAD], 1.0, 1.0, 1.0
            for q in range(memory.parents.start[label], memory.parents.start[label + 1]):
                p = memory.parents.ids[q]
                e[7] = min(e[7], tray.sums[HEAD, p]) if q > memory.parents.start[label] else tray.sums[HEAD, p]
                e[8] = min(e[8], tray.sums[NEAR_VOTE, p])
                e[9] = min(e[9], tray.sums[WORDS, p])
                above = min(above, memory.rate[p])
            rate = max(memory.rate[label], np.float32(1e-6))
            e[10] = np.log(rate)
            e[11] = np.log(rate / max(above, np.float32(1e-6)))
            e[12] = tray.near[0] if found > 0 else 0.0
            e[13] = closeness
            e[14] = np.log(1.0 + known)
            e[15] = memory.depth[label]
            for k in range(len(cuts.planes)):
                e[WIDTH + k] = planes[k, i, label]
        pair_start[i + 1] = at
    return n


@kernel
def settle(pair_start, pair_label, odds, low, parents, order, group, slope, shift, rest, out):
    """Marginals (rows, labels) of candidates with log-odds: raised to their ancestors, repaired by depth, raised again.

    ``rest`` is what labels have that are no candidates; ``group`` says by which ``slope`` and ``shift`` a label's log-odds are
    repaired. Both steps leave no label above one of its parents.
    """
    for i in range(len(pair_start) - 1):
        row = out[i]
        for label in range(len(rest)):
            row[label] = low
        for k in range(pair_start[i], pair_start[i + 1]):
            row[pair_label[k]] = max(odds[k], low)
        _raise(row, parents, order)
        for label in range(len(rest)):
            value = 0.0
            if row[label] > low:
                value = 1.0 / (1.0 + np.exp(-(slope[group[label]] * row[label] + shift[group[label]])))
            row[label] = max(value, rest[label])
        _raise(row, parents, order)


@helper
def _raise(row, parents, order):
    for k in range(len(order) - 1, -1, -1):
        label = order[k]
        for q in range(parents.start[label], parents.start[label + 1]):
            if row[label] > row[parents.ids[q]]:
                row[parents.ids[q]] = row[label]


@kernel
def lift(table, parents, order):
    """Raise every ball of rows (rows, labels) to the largest value below it."""
    for i in range(len(table)):
        _raise(table[i], parents, order)
