"""Compiled loops of the heads and of VAPO; imported on first use. Each has a NumPy twin in `heads` or in the tests.

Slots are parameters, contexts are groups of competing slots: context i owns slots ``start[i]:start[i+1]``.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit

from vpunn._compiled import forget_older

# Codes of the score function and of the digit losses, shared with heads.py.
LOGITS, QUADRATIC = 0, 1
ZERO_ONE, SQUARED, CIRCULAR, ORDINAL = 0, 1, 2, 3


class Slots(NamedTuple):
    """Which slots compete (context i owns ``start[i]:start[i + 1]``), their digits, and how a parameter becomes a score."""

    start: np.ndarray
    digit: np.ndarray
    score: int
    tau: float
    margin: float


class AdamArrays(NamedTuple):
    """Parameters and moments per slot, steps per context; ``work`` and ``push`` are scratch (``push`` zero without margin)."""

    theta: np.ndarray
    m: np.ndarray
    u: np.ndarray
    steps: np.ndarray
    work: np.ndarray
    push: np.ndarray


class AdamStep(NamedTuple):
    """Learning rate and constants of one update."""

    rate: float
    b1: float
    b2: float
    eps: float


@njit(cache=True)
def huffman_lengths(start, counts):
    """Huffman code length of each slot inside its context, by the two-queue method on sorted counts."""
    lengths = np.zeros(len(counts), np.int64)
    widest = 0
    for i in range(len(start) - 1):
        widest = max(widest, start[i + 1] - start[i])
    weight = np.empty(2 * widest)
    up = np.empty(2 * widest, np.int64)
    depth = np.empty(2 * widest, np.int64)
    for i in range(len(start) - 1):
        first, n = start[i], start[i + 1] - start[i]
        if n < 2:
            continue
        order = np.argsort(counts[first : first + n], kind="mergesort")
        for j in range(n):
            weight[j] = counts[first + order[j]]
        leaf, merged, made = 0, n, n  # heads of the two queues, end of the second
        while made < 2 * n - 1:
            total = 0.0
            for _ in range(2):
                if merged >= made or (leaf < n and weight[leaf] <= weight[merged]):
                    pick = leaf
                    leaf += 1
                else:
                    pick = merged
                    merged += 1
                total += weight[pick]
                up[pick] = made
            weight[made] = total
            made += 1
        depth[made - 1] = 0
        for j in range(made - 2, -1, -1):
            depth[j] = depth[up[j]] + 1
        for j in range(n):
            lengths[first + order[j]] = depth[j]
    return lengths


@njit(cache=True)
def digit_cost(first, last, counts, digit, value, loss, p, tau):
    """Σ_s counts·ℓ(value, digit_s) over one context; see `heads.DigitHeads` for the four losses."""
    total = 0.0
    weight = 0.0
    partition = 0.0
    for s in range(first, last):
        gap = float(value - digit[s])
        if loss == ZERO_ONE:
            cost = 1.0 if gap != 0 else 0.0
        elif loss == CIRCULAR:
            gap = abs(gap)
            cost = min(gap, p - gap)
        elif loss == SQUARED:
            cost = gap * gap
        else:
            cost = tau * gap * gap
            partition += np.exp(-cost)
        total += counts[s] * cost
        weight += counts[s]
    if loss == ORDINAL and weight > 0:
        if partition < 1e-300:  # far from every child: only the nearest one matters
            nearest = np.inf
            for s in range(first, last):
                nearest = min(nearest, tau * float(value - digit[s]) ** 2)
            return total - weight * nearest
        total += weight * np.log(partition)
    return total


@njit(cache=True)
def gist_sweep(contexts, start, counts, digit, theta, full, loss, p, tau):
    """One coordinate sweep in place over the listed contexts; returns (moves, evaluations, total decrease).

    ``full`` tries every digit that can be optimal: a child's, and for the ordinal loss also those beyond its children
    until the loss is flat to rounding, 20/τ digits on. Otherwise θ±1 mod p, as in the paper's Algorithm 4. A move must
    lower the context's loss strictly, and among equals the first candidate wins, so sweeps are deterministic.
    """
    moves, evaluations, gain = 0, 0, 0.0
    for i in contexts:
        first, last = start[i], start[i + 1]
        here = theta[i]
        base = digit_cost(first, last, counts, digit, here, loss, p, tau)
        best, best_cost = here, base
        evaluations += 1
        weight, moment, square = 0.0, 0.0, 0.0
        for s in range(first, last):
            weight += counts[s]
            moment += counts[s] * digit[s]
            square += counts[s] * digit[s] * digit[s]
        candidates = last - first if full else 2
        if full and loss == ORDINAL:
            candidates = min(p, digit[last - 1] + 2 + int(20 / tau))
        for j in range(candidates):
            if full:
                value = j if loss == ORDINAL else digit[first + j]
            else:
                value = (here + (2 * j - 1)) % p
            if value == here:
                continue
            if full and loss == ZERO_ONE:  # O(1) each from the sums, so a ball with b children costs O(b), not O(b²)
                cost = weight - counts[first + j]
            elif full and loss == SQUARED:
                cost = (weight * value - 2 * moment) * value + square
            else:
                cost = digit_cost(first, last, counts, digit, value, loss, p, tau)
            evaluations += 1
            if cost < best_cost:
                best, best_cost = value, cost
        if best != here:
            theta[i] = best
            moves += 1
            gain += base - best_cost
    return moves, evaluations, gain


@njit(cache=True)
def logit_sweep(contexts, start, counts, digit, theta, full, p, score, tau):
    """GIST on soft-max values that are digits: θ_s ± 1 mod p (or every digit), judged by the context's cross-entropy.

    Returns (moves, evaluations). A candidate costs O(1): only its own term of the partition changes.
    """
    moves, evaluations = 0, 0
    for i in contexts:
        first, last = start[i], start[i + 1]
        weight = 0.0
        for s in range(first, last):
            weight += counts[s]
        if weight == 0 or last - first < 2:
            continue
        for s in range(first, last):
            top = -np.inf
            for r in range(first, last):
                if r != s:
                    top = max(top, _slot_score(score, tau, theta[r], digit[r]))
            others = 0.0
            for r in range(first, last):
                if r != s:
                    others += np.exp(_slot_score(score, tau, theta[r], digit[r]) - top)
            here = theta[s]
            best, cheapest = here, _with_score(weight, counts[s], others, top, _slot_score(score, tau, here, digit[s]))
            for j in range(p if full else 2):
                value = j if full else (here + 2 * j - 1) % p
                cost = _with_score(weight, counts[s], others, top, _slot_score(score, tau, value, digit[s]))
                if cost < cheapest - 1e-12 * abs(cheapest):  # a strict fall, not a rounding error
                    best, cheapest = value, cost
            evaluations += p if full else 3
            if best != here:
                theta[s] = best
                moves += 1
    return moves, evaluations


@njit(cache=True)
def _slot_score(score, tau, value, digit):
    return value if score == LOGITS else -tau * (value - digit) ** 2


@njit(cache=True)
def _with_score(weight, count, others, top, own):
    """weight·ln(others·e^top + e^own) − count·own: the part of a context's cross-entropy that one slot's score changes."""
    if own > top:
        return weight * (own + np.log1p(others * np.exp(top - own))) - count * own
    return weight * (top + np.log(others + np.exp(own - top))) - count * own


@njit(cache=True)
def leaky_sweep(size, weight, errors, theta, alpha, full, p):
    """GIST on the digits θ_B of a leaky network, squared error: moving one by δ adds δ·(α + (1−α)·[x ∈ B]) to leaf x.

    ``errors`` are those of the surrogate at every node with ``weight`` 1 (leaves) and are kept up to date; the part that
    reaches all leaves is one running offset, so a ball costs its slice. Returns (moves, evaluations).
    """
    n, total, offset = 0.0, 0.0, 0.0
    for x in range(len(size)):
        n += weight[x]
        total += weight[x] * errors[x]
    moves, evaluations = 0, 0
    for ball in range(len(size)):
        end = ball + size[ball]
        inside, pull = 0.0, 0.0
        for x in range(ball, end):
            inside += weight[x]
            pull += weight[x] * (errors[x] + offset)
        slope = 2 * ((1 - alpha) * pull + alpha * total)
        bend = inside * (1 - alpha * alpha) + n * alpha * alpha  # Σ_x (α + (1−α)·[x ∈ B])²
        best, cheapest = theta[ball], -1e-9
        for j in range(p if full else 2):
            value = float(j) if full else (theta[ball] + 2 * j - 1) % p
            step = value - theta[ball]
            cost = step * (slope + step * bend)
            if cost < cheapest:
                best, cheapest = value, cost
        evaluations += int(inside) * (p if full else 3)
        step = best - theta[ball]
        if step != 0:
            moves += 1
            theta[ball] = best
            offset += alpha * step
            total += step * (alpha * n + (1 - alpha) * inside)
            for x in range(ball, end):
                errors[x] += (1 - alpha) * step
    return moves, evaluations


@njit(cache=True)
def hinge(first, last, counts, margin, scores, push):
    """Gradient of Σ_t counts_t·max(0, margin − s_t + max_{c≠t} s_c) over one context, written to ``push``."""
    winner, runner_up = first, -1
    for s in range(first + 1, last):
        if scores[s] > scores[winner]:
            winner, runner_up = s, winner
        elif runner_up < 0 or scores[s] > scores[runner_up]:
            runner_up = s
    for s in range(first, last):
        push[s] = 0.0
    for s in range(first, last):
        rival = runner_up if s == winner else winner
        if margin - scores[s] + scores[rival] > 0:
            push[s] -= counts[s]
            push[rival] += counts[s]


@njit(cache=True)
def adam_update(contexts, counts, scale, slots, adam, step):
    """Adam on the soft-max loss of the listed contexts, in place; ``counts`` are (weighted) counts per slot.

    Each context keeps its own step counter, so an untouched ball neither decays nor drifts (lazy Adam). ``work`` and
    ``push`` are scratch, one entry per slot (``push`` stays zero without margin).
    """
    start, digit, tau = slots.start, slots.digit, slots.tau
    theta, m, u, steps, work, push = adam.theta, adam.m, adam.u, adam.steps, adam.work, adam.push
    b1, b2 = step.b1, step.b2
    for i in contexts:
        first, last = start[i], start[i + 1]
        if last - first < 2:
            continue
        weight, top = 0.0, -np.inf
        for s in range(first, last):
            weight += counts[s]
            work[s] = theta[s] if slots.score == LOGITS else -tau * (theta[s] - digit[s]) ** 2
            top = max(top, work[s])
        if weight == 0:
            continue
        if slots.margin > 0:
            hinge(first, last, counts, slots.margin, work, push)
        partition = 0.0
        for s in range(first, last):
            work[s] = np.exp(work[s] - top)
            partition += work[s]
        steps[i] += 1
        rate = step.rate / (1 - b1 ** steps[i])
        growth = 1 / (1 - b2 ** steps[i])
        share = weight / partition
        for s in range(first, last):
            g = (share * work[s] - counts[s] + push[s]) * scale
            if slots.score == QUADRATIC:
                g *= -2 * tau * (theta[s] - digit[s])
            m[s] = b1 * m[s] + (1 - b1) * g
            u[s] = b2 * u[s] + (1 - b2) * g * g
            theta[s] -= rate * m[s] / (np.sqrt(u[s] * growth) + step.eps)


@njit(cache=True)
def adam_epoch(events, amounts, batch, context, slots, adam, step):
    """One pass over ``events`` (slot ids of single digits, already shuffled) in mini-batches; returns updates made."""
    counts = np.zeros(len(adam.theta))
    marked = np.zeros(len(slots.start) - 1, np.bool_)
    touched = np.empty(min(batch, len(slots.start) - 1), np.int64)
    updates = 0
    for low in range(0, len(events), batch):
        high = min(low + batch, len(events))
        n = 0
        for e in range(low, high):
            counts[events[e]] += amounts[e]
            i = context[events[e]]
            if not marked[i]:
                marked[i] = True
                touched[n] = i
                n += 1
        adam_update(touched[:n], counts, 1.0 / (high - low), slots, adam, step)
        updates += n
        for e in range(low, high):
            counts[events[e]] = 0.0
            marked[context[events[e]]] = False
    return updates


@njit(cache=True)
def network_sweep(size, balls, target, weight, current, theta, full, p, circular):
    """One GIST sweep over the coefficients of F(x) = Σ_{B∋x} θ_B mod p, in place; ball-local, O(Σ depth).

    Only points inside a ball feel its coefficient, so a ball is judged on the histogram of the shifts its own slice
    asks for. Returns (moves, evaluations of single points, decrease).
    """
    wanted = np.zeros(p)
    used = np.empty(p, np.int64)
    moves, evaluations, gain = 0, 0, 0.0
    for ball in balls:
        end = ball + size[ball]
        n = 0
        for x in range(ball, end):
            if weight[x] > 0:
                shift = (target[x] - current[x]) % p
                if wanted[shift] == 0:
                    used[n] = shift
                    n += 1
                wanted[shift] += weight[x]
                evaluations += 1
        if n == 0:
            continue
        best, base, best_cost = 0, 0.0, np.inf
        candidates = n + 1 if full and not circular else (p if full else 3)
        for j in range(candidates):
            if j == 0:
                move = 0
            elif full:
                move = j if circular else used[j - 1]
            else:
                move = 1 if j == 1 else p - 1
            cost = 0.0
            for k in range(n):
                gap = (used[k] - move) % p
                cost += wanted[used[k]] * (min(gap, p - gap) if circular else (1 if gap else 0))
            if j == 0:
                base = cost
            if cost < best_cost:
                best, best_cost = move, cost
        for k in range(n):
            wanted[used[k]] = 0.0
        if best != 0:
            theta[ball] = (theta[ball] + best) % p
            moves += 1
            gain += base - best_cost
            for x in range(ball, end):
                current[x] = (current[x] + best) % p
    return moves, evaluations, gain


forget_older(adam_update, [Path(__file__)])
