"""Compiled loops of `refine`: messages of the nested Gaussian model, and row moves scored along two ancestor chains.

`Balls` are arrays indexed by ball: ``parent``, ``depth``, ``kids`` (ball × slot) and ``n_kids`` give the shape; ``rows`` (count),
``total`` (Σ x), ``squares`` (Σ ‖x‖²) the rows of leaf balls; ``mean``, ``variance`` the message a ball sends up and
``cost`` its own part of the score. In `Model` ``spread[k]`` is the variance of a ball at depth k about its parent, ``noise`` the
variance of a row about its leaf ball, and a ball has at most ``max_kids`` children.
"""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit

from vpunn._compiled import forget_older

LOG_2PI = math.log(2.0 * math.pi)


class Balls(NamedTuple):
    """The state that moves change."""

    parent: np.ndarray
    depth: np.ndarray
    kids: np.ndarray
    n_kids: np.ndarray
    rows: np.ndarray
    total: np.ndarray
    squares: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    cost: np.ndarray


class Model(NamedTuple):
    """The variances a score is computed with."""

    spread: np.ndarray
    noise: float
    max_kids: int


@njit(cache=True)
def refresh(ball, balls, model):
    """Recompute a ball's message and cost from its rows (leaf ball) or from its children's messages. O(children · d).

    Gaussian part: the children's positions integrated over the ball's own; assignment part: which child each row takes
    (uniform Dirichlet–multinomial, children unordered) and how many children there are.
    """
    depth, kids, n_kids, rows, total = balls.depth, balls.kids, balls.n_kids, balls.rows, balls.total
    squares, mean, variance, cost = balls.squares, balls.mean, balls.variance, balls.cost
    spread, noise = model.spread, model.noise
    d = total.shape[1]
    if n_kids[ball] == 0:
        n = rows[ball]
        inside = squares[ball]
        for k in range(d):
            mean[ball, k] = total[ball, k] / n
            inside -= total[ball, k] * mean[ball, k]
        variance[ball] = noise / n
        gauss = 0.5 * d * (n * (LOG_2PI + math.log(noise)) - LOG_2PI - math.log(variance[ball]))
        cost[ball] = gauss + 0.5 * max(inside, 0.0) / noise + math.log(model.max_kids + 1.0)
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
    cost[ball] = (
        0.5 * d * (logs - LOG_2PI + math.log(precision)) + 0.5 * misfit + assignment + math.log(model.max_kids + 1.0)
    )


@njit(cache=True)
def refresh_all(order, balls, model):
    """Refresh the balls of ``order`` (children before parents); returns the full score, the sum of their costs."""
    score = 0.0
    for ball in order:
        refresh(ball, balls, model)
        score += balls.cost[ball]
    return score


@njit(cache=True)
def refresh_chain(ball, balls, model):
    """Refresh a ball and its ancestors; returns by how much the score changed."""
    change = 0.0
    while ball >= 0:
        change -= balls.cost[ball]
        refresh(ball, balls, model)
        change += balls.cost[ball]
        ball = balls.parent[ball]
    return change


@njit(cache=True)
def _shift(ball, row, sign, balls):
    balls.rows[ball] += sign
    for k in range(len(row)):
        balls.total[ball, k] += sign * row[k]
        balls.squares[ball] += sign * row[k] * row[k]


@njit(cache=True)
def _save(ball, balls, at, box, numbers):
    """Copy a chain's state into scratch rows from ``at`` on; returns the next free row."""
    d = balls.total.shape[1]
    while ball >= 0:
        for k in range(d):
            box[at, k], box[at, d + k] = balls.total[ball, k], balls.mean[ball, k]
        numbers[at, 0], numbers[at, 1] = balls.squares[ball], balls.variance[ball]
        numbers[at, 2], numbers[at, 3] = balls.cost[ball], balls.rows[ball]
        at += 1
        ball = balls.parent[ball]
    return at


@njit(cache=True)
def _restore(ball, balls, at, box, numbers):
    d = balls.total.shape[1]
    while ball >= 0:
        for k in range(d):
            balls.total[ball, k], balls.mean[ball, k] = box[at, k], box[at, d + k]
        balls.squares[ball], balls.variance[ball] = numbers[at, 0], numbers[at, 1]
        balls.cost[ball], balls.rows[ball] = numbers[at, 2], int(numbers[at, 3])
        at += 1
        ball = balls.parent[ball]
    return at


@njit(cache=True)
def closest(ball, at, mean, many):
    """Which of the balls ``at`` lie nearest to a ``ball``, nearest first, the first among equals: positions in ``at``."""
    best, gaps = np.empty(many, np.int64), np.empty(many)
    count = 0
    for j in range(len(at)):
        gap = 0.0
        for k in range(mean.shape[1]):
            gap += (mean[at[j], k] - mean[ball, k]) ** 2
        place = count
        while place > 0 and gaps[place - 1] > gap:
            place -= 1
        if place < many:
            count = min(count + 1, many)
            for i in range(count - 1, place, -1):
                best[i], gaps[i] = best[i - 1], gaps[i - 1]
            best[place], gaps[place] = j, gap
    return best[:count]


@njit(cache=True)
def move_rows(data, leaf, near, tries, balls, model):
    """Offer every row the ``tries`` nearest of the leaf balls ``near`` its own; a move stays only if the score falls.

    Returns the number of moves and the change of the score, added up move by move.
    """
    d = data.shape[1]
    longest = balls.depth.max() + 1
    box, numbers = np.empty((2 * longest, 2 * d)), np.empty((2 * longest, 4))
    gap = np.empty(near.shape[1])
    moved, change = 0, 0.0
    for i in range(len(data)):
        home = leaf[i]
        if balls.rows[home] < 2:
            continue
        for j in range(len(gap)):
            gap[j] = 0.0
            for k in range(d):
                gap[j] += (data[i, k] - balls.mean[near[home, j], k]) ** 2
        for _ in range(min(tries, len(gap))):
            nearest = np.argmin(gap)
            gap[nearest] = np.inf
            other = near[home, nearest]
            middle = _save(home, balls, 0, box, numbers)
            _save(other, balls, middle, box, numbers)
            _shift(home, data[i], -1, balls)
            _shift(other, data[i], 1, balls)
            delta = refresh_chain(home, balls, model) + refresh_chain(other, balls, model)
            if delta < -1e-9:
                leaf[i] = other
                moved += 1
                change += delta
                break
            _restore(other, balls, middle, box, numbers)
            _restore(home, balls, 0, box, numbers)
    return moved, change


forget_older(move_rows, [Path(__file__)])
