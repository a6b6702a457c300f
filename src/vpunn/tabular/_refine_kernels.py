"""Compiled loops of `refine`: messages of the nested Gaussian model, and row moves scored along two ancestor chains.

Arrays are indexed by ball: ``parent``, ``depth``, ``kids`` (ball × slot) and ``n_kids`` give the shape; ``rows`` (count),
``total`` (Σ x), ``squares`` (Σ ‖x‖²) the rows of leaf balls; ``mean``, ``variance`` the message a ball sends up and
``cost`` its own part of the score. ``spread[k]`` is the variance of a ball at depth k about its parent, ``noise`` the
variance of a row about its leaf ball.
"""

import math

import numpy as np
from numba import njit

LOG_2PI = math.log(2.0 * math.pi)


@njit(cache=True)
def refresh(ball, depth, kids, n_kids, rows, total, squares, mean, variance, cost, spread, noise, max_kids):
    """Recompute a ball's message and cost from its rows (leaf ball) or from its children's messages. O(children · d).

    Gaussian part: the children's positions integrated over the ball's own; assignment part: which child each row takes
    (uniform Dirichlet–multinomial, children unordered) and how many children there are.
    """
    d = total.shape[1]
    if n_kids[ball] == 0:
        n = rows[ball]
        inside = squares[ball]
        for k in range(d):
            mean[ball, k] = total[ball, k] / n
            inside -= total[ball, k] * mean[ball, k]
        variance[ball] = noise / n
        gauss = 0.5 * d * (n * (LOG_2PI + math.log(noise)) - LOG_2PI - math.log(variance[ball]))
        cost[ball] = gauss + 0.5 * max(inside, 0.0) / noise + math.log(max_kids + 1.0)
        return
    m = n_kids[ball]
    precision = 0.0
    count = 0
    logs = 0.0
    assignment = -math.lgamma(m) - math.lgamma(m + 1.0)
    for k in range(d):
        mean[ball, k] = 0.0
    for at in range(m):
        child = kids[ball, at]
        width = variance[child] + spread[depth[child]]
        precision += 1.0 / width
        logs += LOG_2PI + math.log(width)
        count += rows[child]
        assignment -= math.lgamma(rows[child] + 1.0)
        for k in range(d):
            mean[ball, k] += mean[child, k] / width
    for k in range(d):
        mean[ball, k] /= precision
    misfit = 0.0
    for at in range(m):
        child = kids[ball, at]
        gap = 0.0
        for k in range(d):
            gap += (mean[child, k] - mean[ball, k]) ** 2
        misfit += gap / (variance[child] + spread[depth[child]])
    rows[ball] = count
    variance[ball] = 1.0 / precision
    assignment += math.lgamma(count + m)
    cost[ball] = 0.5 * d * (logs - LOG_2PI + math.log(precision)) + 0.5 * misfit + assignment + math.log(max_kids + 1.0)


@njit(cache=True)
def refresh_all(order, depth, kids, n_kids, rows, total, squares, mean, variance, cost, spread, noise, max_kids):
    """Refresh the balls of ``order`` (children before parents); returns the full score, the sum of their costs."""
    score = 0.0
    for ball in order:
        refresh(ball, depth, kids, n_kids, rows, total, squares, mean, variance, cost, spread, noise, max_kids)
        score += cost[ball]
    return score


@njit(cache=True)
def refresh_chain(
    ball, parent, depth, kids, n_kids, rows, total, squares, mean, variance, cost, spread, noise, max_kids
):
    """Refresh a ball and its ancestors; returns by how much the score changed."""
    change = 0.0
    while ball >= 0:
        change -= cost[ball]
        refresh(ball, depth, kids, n_kids, rows, total, squares, mean, variance, cost, spread, noise, max_kids)
        change += cost[ball]
        ball = parent[ball]
    return change


@njit(cache=True)
def _shift(ball, row, sign, rows, total, squares):
    rows[ball] += sign
    for k in range(len(row)):
        total[ball, k] += sign * row[k]
        squares[ball] += sign * row[k] * row[k]


@njit(cache=True)
def _save(ball, parent, rows, total, squares, mean, variance, cost, at, box, numbers):
    """Copy a chain's state into scratch rows from ``at`` on; returns the next free row."""
    d = total.shape[1]
    while ball >= 0:
        for k in range(d):
            box[at, k], box[at, d + k] = total[ball, k], mean[ball, k]
        numbers[at, 0], numbers[at, 1], numbers[at, 2], numbers[at, 3] = (
            squares[ball],
            variance[ball],
            cost[ball],
            rows[ball],
        )
        at += 1
        ball = parent[ball]
    return at


@njit(cache=True)
def _restore(ball, parent, rows, total, squares, mean, variance, cost, at, box, numbers):
    d = total.shape[1]
    while ball >= 0:
        for k in range(d):
            total[ball, k], mean[ball, k] = box[at, k], box[at, d + k]
        squares[ball], variance[ball], cost[ball] = numbers[at, 0], numbers[at, 1], numbers[at, 2]
        rows[ball] = int(numbers[at, 3])
        at += 1
        ball = parent[ball]
    return at


@njit(cache=True)
def move_rows(
    data, leaf, leaves, tries, parent, depth, kids, n_kids, rows, total, squares, mean, variance, cost, spread, noise, max_kids,
):  # fmt: skip
    """Offer every row the ``tries`` nearest other leaf balls; a move stays only if the score falls.

    Returns the number of moves and the change of the score, added up move by move.
    """
    d = data.shape[1]
    longest = depth.max() + 1
    box, numbers = np.empty((2 * longest, 2 * d)), np.empty((2 * longest, 4))
    gap = np.empty(len(leaves))
    moved, change = 0, 0.0
    for i in range(len(data)):
        home = leaf[i]
        if rows[home] < 2:
            continue
        for j in range(len(leaves)):
            gap[j] = np.inf
            if leaves[j] != home:
                gap[j] = 0.0
                for k in range(d):
                    gap[j] += (data[i, k] - mean[leaves[j], k]) ** 2
        for _ in range(min(tries, len(leaves) - 1)):
            nearest = np.argmin(gap)
            gap[nearest] = np.inf
            other = leaves[nearest]
            middle = _save(home, parent, rows, total, squares, mean, variance, cost, 0, box, numbers)
            _save(other, parent, rows, total, squares, mean, variance, cost, middle, box, numbers)
            _shift(home, data[i], -1, rows, total, squares)
            _shift(other, data[i], 1, rows, total, squares)
            delta = refresh_chain(
                home, parent, depth, kids, n_kids, rows, total, squares, mean, variance, cost, spread, noise, max_kids
            ) + refresh_chain(
                other, parent, depth, kids, n_kids, rows, total, squares, mean, variance, cost, spread, noise, max_kids
            )
            if delta < -1e-9:
                leaf[i] = other
                moved += 1
                change += delta
                break
            _restore(other, parent, rows, total, squares, mean, variance, cost, middle, box, numbers)
            _restore(home, parent, rows, total, squares, mean, variance, cost, 0, box, numbers)
    return moved, change
