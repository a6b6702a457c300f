"""Compiled loops of the paper's composed model, one digit position at a time; imported on first use.

Parameters of a position: ``over[i]``, one value per context (parent digit), and ``good[s]``, one per slot (parent digit,
child digit). Slots of one child digit stand side by side (a *column*, ``column[c]:column[c+1]``), because the paper's leaky
indicator adds α times the values of all other balls of the depth: a value is read as (1 − α)·v + α·Σ v over its column.
The plain twins are in tests/paper/test_hipan.py.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def softplus(x):
    """ln(1 + eˣ), without overflow."""
    return max(x, 0.0) + np.log1p(np.exp(-abs(x)))


@njit(cache=True, nogil=True)
def slot_cost(two_logit, tau, good, over, target):
    """Loss of one digit: −ln σ(z_good − z_other) with z = −τ(v − t)², or the squared error of ``over``."""
    if two_logit:
        return softplus(tau * ((good - target) ** 2 - (over - target) ** 2))
    return (over - target) ** 2


@njit(cache=True, nogil=True)
def adam_step(i, gradient, v, m, u, steps, rate, b1, b2, fade1, fade2, eps):
    """Algorithm 5 on parameter i; returns how far it moved. ``fade`` hold 1 − βᵗ."""
    steps[i] += 1
    m[i] = b1 * m[i] + (1 - b1) * gradient
    u[i] = b2 * u[i] + (1 - b2) * gradient * gradient
    t = min(steps[i], len(fade1) - 1)
    move = rate * (m[i] / fade1[t]) / (np.sqrt(u[i] / fade2[t]) + eps)
    v[i] -= move
    return -move


@njit(cache=True, nogil=True, error_model="numpy")
def adam_range(low, high, pull, shared, share, scale, state, rates):
    """Algorithm 5 on parameters low…high − 1 with gradients (share·pull + shared)·scale; returns Σ v afterwards.

    ``state`` = (v, m, u, steps), ``rates`` = (rate, β₁, β₂, fade₁, fade₂, ε).

    With a leak the parameters of a range are always updated together, so one step count serves all; nothing in the loop
    depends on another turn of it, which lets it run four values at a time (error_model: no branch for a zero divisor).
    """
    v, m, u, steps = state
    rate, b1, b2, fade1, fade2, eps = rates
    t = min(steps[low] + 1, len(fade1) - 1)
    f1, f2 = fade1[t], fade2[t]
    for i in range(low, high):
        gradient = (share * pull[i] + shared) * scale
        m[i] = b1 * m[i] + (1 - b1) * gradient
        u[i] = b2 * u[i] + (1 - b2) * gradient * gradient
        v[i] -= rate * (m[i] / f1) / (np.sqrt(u[i] / f2) + eps)
        steps[i] += 1
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = low + (high - low) // 4 * 4
    for i in range(low, whole, 4):
        a, b, c, d = a + v[i], b + v[i + 1], c + v[i + 2], d + v[i + 3]
    for i in range(whole, high):
        a += v[i]
    return (a + b) + (c + d)


@njit(cache=True, nogil=True)
def adam_position(events, batch, shape, head, place, good, over, rates):
    """One epoch of a position: shuffled items in mini-batches, gradients summed, then Adam on every value they touch.

    ``events`` are the slots of the items; ``shape`` = (context, digit, weight, of, column, range of contexts) with ``of``
    the column of each slot; ``head`` = (two_logit, τ, α); ``place`` = scratch (gradients of slots, contexts, columns, and
    their marks); ``good`` and ``over`` = (v, m, u, steps); ``rates`` = (rate, β₁, β₂, fade₁, fade₂, ε).
    Returns the number of parameter updates.
    """
    context, digit, weight, of, column, low, high = shape
    two_logit, tau, alpha = head
    pull_good, pull_over, pull_column, seen_good, seen_over, seen_column = place
    rate, b1, b2, fade1, fade2, eps = rates
    v_good, m_good, u_good, t_good = good
    v_over, m_over, u_over, t_over = over
    slots, contexts, columns = np.empty(batch, np.int64), np.empty(batch, np.int64), np.empty(batch, np.int64)
    updates, total_over = 0, 0.0
    sums = np.zeros(len(column) - 1)
    if alpha > 0:
        for i in range(low, high):
            total_over += v_over[i]
        for c in range(of[events.min()], of[events.max()] + 1):
            for s in range(column[c], column[c + 1]):
                sums[c] += v_good[s]
    for first in range(0, len(events), batch):
        last = min(first + batch, len(events))
        ns, nc, nk, leak_over = 0, 0, 0, 0.0
        for e in range(first, last):
            s = events[e]
            i, c, t = context[s], of[s], float(digit[s])
            o = (1 - alpha) * v_over[i] + alpha * total_over
            if two_logit:
                g = (1 - alpha) * v_good[s] + alpha * sums[c]
                gap = tau * ((o - t) ** 2 - (g - t) ** 2)
                wrong = weight[s] / (1 + np.exp(min(gap, 700.0)))
                by_good, by_over = 2 * tau * (g - t) * wrong, -2 * tau * (o - t) * wrong
                if not seen_good[s]:
                    seen_good[s] = True
                    slots[ns] = s
                    ns += 1
                pull_good[s] += by_good
                if not seen_column[c]:
                    seen_column[c] = True
                    columns[nk] = c
                    nk += 1
                pull_column[c] += by_good
            else:
                by_over = 2 * weight[s] * (o - t)
            if not seen_over[i]:
                seen_over[i] = True
                contexts[nc] = i
                nc += 1
            pull_over[i] += by_over
            leak_over += by_over
        scale = 1.0 / (last - first)
        if alpha > 0:  # every ball of the depth feels the leak
            total_over = adam_range(low, high, pull_over, alpha * leak_over, 1 - alpha, scale, over, rates)
            for j in range(nk):
                c = columns[j]
                sums[c] = adam_range(
                    column[c], column[c + 1], pull_good, alpha * pull_column[c], 1 - alpha, scale, good, rates
                )
                updates += column[c + 1] - column[c]
            updates += high - low
        else:
            for j in range(nc):
                i = contexts[j]
                adam_step(i, pull_over[i] * scale, v_over, m_over, u_over, t_over, rate, b1, b2, fade1, fade2, eps)
            for j in range(ns):
                s = slots[j]
                adam_step(s, pull_good[s] * scale, v_good, m_good, u_good, t_good, rate, b1, b2, fade1, fade2, eps)
            updates += nc + ns
        for j in range(ns):
            pull_good[slots[j]], seen_good[slots[j]] = 0.0, False
        for j in range(nc):
            pull_over[contexts[j]], seen_over[contexts[j]] = 0.0, False
        for j in range(nk):
            pull_column[columns[j]], seen_column[columns[j]] = 0.0, False
    return updates


@njit(cache=True, nogil=True)
def gist_position(slots, shape, head, mass, members, p, good, over):
    """Algorithm 4 on every value of a position, in place: θ ± 1 mod p, kept only where the whole loss falls strictly.

    Without leak a slot's value is judged on its own digit and a context's on its slots (``members`` = start, slots by
    context); with leak on the column, and on all ``slots`` of the position. Returns (moves, evaluations).
    """
    context, digit, of, column, low, high = shape
    two_logit, tau, alpha = head
    start, inside = members
    first, last = slots
    moves, evaluations, total_over = 0, 0, 0.0
    sums = np.zeros(len(column) - 1)
    if alpha > 0:
        for i in range(low, high):
            total_over += over[i]
        for s in range(first, last):
            sums[of[s]] += good[s]
    for i in range(low, high):
        best, cheapest = over[i], np.inf
        n = last - first if alpha > 0 else start[i + 1] - start[i]
        for option in range(3):
            value = over[i] if option == 0 else (over[i] + 2 * option - 3) % p
            shift, cost = value - over[i], 0.0
            for j in range(n):
                s = first + j if alpha > 0 else inside[start[i] + j]
                o = (1 - alpha) * over[context[s]] + alpha * (total_over + shift)
                if context[s] == i:
                    o += (1 - alpha) * shift
                g = (1 - alpha) * good[s] + alpha * sums[of[s]]
                cost += mass[s] * slot_cost(two_logit, tau, g, o, float(digit[s]))
            evaluations += n
            if cost < cheapest:
                best, cheapest = value, cost
        if best != over[i]:
            moves += 1
            total_over += best - over[i]
            over[i] = best
    if not two_logit:
        return moves, evaluations
    for s in range(first, last):
        c = of[s]
        low_s, high_s = (column[c], column[c + 1]) if alpha > 0 else (s, s + 1)
        best, cheapest = good[s], np.inf
        for option in range(3):
            value = good[s] if option == 0 else (good[s] + 2 * option - 3) % p
            shift, cost = value - good[s], 0.0
            for r in range(low_s, high_s):
                g = (1 - alpha) * good[r] + alpha * (sums[c] + shift)
                if r == s:
                    g += (1 - alpha) * shift
                o = (1 - alpha) * over[context[r]] + alpha * total_over
                cost += mass[r] * slot_cost(True, tau, g, o, float(digit[r]))
            evaluations += high_s - low_s
            if cost < cheapest:
                best, cheapest = value, cost
        if best != good[s]:
            moves += 1
            sums[c] += best - good[s]
            good[s] = best
    return moves, evaluations
