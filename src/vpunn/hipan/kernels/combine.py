"""The combiner's forward pass as fixed loops: a row gives the same bits alone and in a batch."""

from __future__ import annotations

import numpy as np

from vpunn.hipan.kernels import at, kernel


def combine(evidence, candidates, centre, scale, least, most, linear, hidden, hidden_bias, output) -> np.ndarray:
    """Scores (rows, slots) of evidence (rows, slots, width) where there is a candidate, and of the last slot; −inf elsewhere.

    What lies outside of ``least`` to ``most`` counts as the nearer of the two.
    """
    out = np.full(evidence.shape[:2], -np.inf, np.float32)
    columns = np.ascontiguousarray(hidden.T)
    _combine(
        evidence,
        candidates,
        centre,
        scale,
        least,
        most,
        linear,
        columns,
        hidden_bias,
        output,
        np.empty_like(output),
        out,
    )
    return out


def softmax(score, candidates, n_classes) -> tuple[np.ndarray, np.ndarray, bool]:
    """Probabilities of the candidates and of "none", which is no answer where all ``n_classes`` are candidates; and whether every
    row's best score is a number."""
    p, none = np.empty(candidates.shape), np.empty(len(candidates))
    return p, none, _softmax(score, candidates, n_classes, p, none)


@kernel
def _softmax(score, candidates, n_classes, p, none):
    n, width = candidates.shape
    numbers = True
    for r in range(n):
        count = 0
        for j in range(width):
            count += candidates[r, j] >= 0
        slots = width + 1 if count < n_classes else width
        top, total = -np.inf, 0.0
        for j in range(slots):
            numbers = numbers and score[r, j] < np.inf  # nor is what is not a number
            top = max(top, np.float64(score[r, j]))
        numbers = numbers and top > -np.inf
        none[r] = np.exp(score[r, width] - top) if slots > width else 0.0
        for j in range(width):
            p[r, j] = np.exp(score[r, j] - top)
            total += p[r, j]
        total += none[r]  # in order, whatever the width of the batch
        none[r] /= total
        for j in range(width):
            p[r, j] /= total
    return numbers


@kernel
def _combine(evidence, candidates, centre, scale, least, most, linear, columns, hidden_bias, output, inside, out):
    """All units advance together, one column at a time: eight sums to an instruction."""
    n, slots, width = evidence.shape
    units = len(output)
    for r in range(n):
        for j in range(slots):
            if j < slots - 1 and candidates[r, j] < 0:
                continue
            score = np.float32(0)
            for u in range(units):
                inside[u] = hidden_bias[u]
            for k in range(width):
                z = (min(max(evidence[r, j, k], least[k]), most[k]) - centre[k]) / scale[k]
                score += linear[k] * z
                for u in range(units):
                    inside[u] += columns[k, u] * z
            for u in range(units):
                score += output[u] * max(inside[u], np.float32(0))
            out[r, j] = score


def taken(z, place, start, size, rows, centre, unit) -> np.ndarray:
    """What stands in ``z`` at the ``place`` of the slots of some ``rows``, less the ``centre`` and times the ``unit``."""
    out = np.empty((int(size[rows].sum()), len(unit)), np.float32)
    _taken(z, place, start, size, rows, centre, unit, out)
    return out


@kernel
def _taken(z, place, start, size, rows, centre, unit, out):
    i = 0
    for r in rows:
        for j in range(start[r], start[r] + size[r]):
            slot = at(place[j])
            for k in range(len(unit)):
                out[i, k] = (z[slot, k] - centre[k]) * unit[k]
            i += 1


def through_hidden(active, error, output) -> tuple[np.ndarray, np.ndarray]:
    """The ``error`` of every slot at the hidden units that speak of it, written over ``active``, and its sum over the slots."""
    total = np.zeros(len(output), active.dtype)
    _through_hidden(active, error, output, total)
    return active, total


@kernel
def _through_hidden(active, error, output, total):
    for i in range(len(active)):
        e = error[i]
        for u in range(len(output)):
            active[i, u] = e * output[u] if active[i, u] > 0 else np.float32(0)
        for u in range(len(output)):
            total[u] += active[i, u]
