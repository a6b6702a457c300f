"""Compiled loops of the head: soft-maxes along paths, their gradients, and exact best-first search.

The weights of one ball are a slice of the weight matrix, so every ball costs one small matrix product, whatever the batch.
"""

import heapq

import numpy as np
from numba import njit

#: Scores of one ball held at once: a star of many children is worked off in strips of rows.
STRIP = 1 << 21


@njit(cache=True, nogil=True)
def ball_scores(x, weight, bias, rows, first, last):
    """Scores of the options ``first:last`` for some rows of ``x``, and those rows."""
    part = np.empty((len(rows), x.shape[1]), x.dtype)
    for i in range(len(rows)):
        part[i] = x[rows[i]]
    scores = np.empty((len(rows), last - first), x.dtype)
    np.dot(part, weight[first:last].T, scores)
    if len(bias):
        scores += bias[first:last]
    return part, scores


@njit(cache=True, nogil=True)
def log_sum_exp(scores):
    """In double precision; NaN stays NaN."""
    top = -np.inf
    for s in scores:
        if s > top:
            top = s
    if top == -np.inf:  # nothing but −inf, or NaN
        return np.float64(scores.sum())
    total = 0.0
    for s in scores:
        total += np.exp(np.float64(s) - top)
    return top + np.log(total)


@njit(cache=True, nogil=True)
def path_forward(x, weight, bias, start, edges, choice, row, slot, log_p, normaliser):
    """log soft-max of each visit (row, slot); visits are sorted by choice, ``edges`` bounds those of each choice."""
    for g in range(len(choice)):
        first, last = start[choice[g]], start[choice[g] + 1]
        step = max(STRIP // (last - first), 1)
        for begin in range(edges[g], edges[g + 1], step):
            end = min(begin + step, edges[g + 1])
            _, scores = ball_scores(x, weight, bias, row[begin:end], first, last)
            for i in range(end - begin):
                total = log_sum_exp(scores[i])
                normaliser[begin + i] = total
                log_p[begin + i] = scores[i, slot[begin + i] - first] - total


@njit(cache=True, nogil=True)
def path_backward(x, weight, bias, start, edges, choice, row, slot, normaliser, grad, place, grad_x, grad_w, grad_b):
    """Gradients of Σ grad·log_p: ``grad_w[place[g]:]`` is the block of choice g, so only touched balls are written."""
    for g in range(len(choice)):
        first, last = start[choice[g]], start[choice[g] + 1]
        out = grad_w[place[g] : place[g] + last - first]
        out_b = grad_b[place[g] : place[g] + last - first]
        step = max(STRIP // (last - first), 1)
        for begin in range(edges[g], edges[g + 1], step):
            end = min(begin + step, edges[g + 1])
            part, pull = ball_scores(x, weight, bias, row[begin:end], first, last)
            for i in range(end - begin):
                h = grad[begin + i]
                z = normaliser[begin + i]
                for j in range(last - first):
                    pull[i, j] = -h * np.exp(pull[i, j] - z)
                pull[i, slot[begin + i] - first] += h
            back = np.dot(pull, weight[first:last])
            for i in range(end - begin):
                grad_x[row[begin + i]] += back[i]
            if begin == edges[g]:
                np.dot(pull.T, part, out)
            else:
                out += np.dot(pull.T, part)
            for i in range(end - begin):
                out_b += pull[i]


@njit(cache=True, nogil=True)
def open_ball(heap, ball, log_p, x, weight, bias, layout, stops_at):
    """Push the options of a ball: (−log p, 0, child) for balls still to open, (−log p, 1, node) for answers.

    ``layout`` = (start, slot, stop, choice_of, child_start, child, depth, size). False if the scores are NaN.
    """
    start, _, stop, choice_of, child_start, child, depth, size = layout
    c = choice_of[ball]
    k = child_start[ball + 1] - child_start[ball]
    if c < 0:  # a single child takes everything
        scores = np.zeros(1, x.dtype)
    else:
        scores = np.dot(weight[start[c] : start[c + 1]], x)
        if len(bias):
            scores += bias[start[c] : start[c + 1]]
    total = 0.0 if c < 0 else log_sum_exp(scores)
    if np.isnan(total):
        return False
    for j in range(k):
        node = np.int64(child[child_start[ball] + j])
        final = size[node] == 1 or depth[node] == stops_at
        heapq.heappush(heap, (-(log_p + scores[j] - total), 1 if final else 0, node))
    if stop[ball] >= 0:
        heapq.heappush(heap, (-(log_p + scores[k] - total), 1, np.int64(ball)))
    return True


@njit(cache=True, nogil=True)
def best_first(x, weight, bias, layout, stops_at, nodes, log_p):
    """The most probable answers of each row in order, exactly; balls at depth ``stops_at`` count as answers.

    A ball is at least as probable as anything in it, so the first answer taken from the queue is the best one left.
    Returns a row whose scores are NaN, or −1.
    """
    size = layout[7]
    for i in range(len(x)):
        final = 1 if size[0] == 1 or stops_at == 0 else 0
        heap = [(-0.0, final, np.int64(0))]
        found = 0
        while len(heap) > 0 and found < nodes.shape[1]:
            value, is_answer, node = heapq.heappop(heap)
            if is_answer == 1:
                nodes[i, found] = node
                log_p[i, found] = -value
                found += 1
            elif not open_ball(heap, node, -value, x[i], weight, bias, layout, stops_at):
                return i
    return -1


@njit(cache=True, nogil=True)
def deepest_ball(x, weight, bias, layout, floor, answer):
    """The deepest ball with log p ≥ ``floor`` of each row, the more probable (then the first) of equally deep ones."""
    depth, size = layout[6], layout[7]
    for i in range(len(x)):
        heap = [(-0.0, 1 if size[0] == 1 else 0, np.int64(0))]
        best = np.int64(0)
        while len(heap) > 0:
            value, is_answer, node = heapq.heappop(heap)
            if -value < floor:
                break
            # Less probable ones come later, so only a deeper ball replaces the answer; stops come back as their own ball.
            if depth[node] > depth[best]:
                best = node
            if is_answer == 0 and not open_ball(heap, node, -value, x[i], weight, bias, layout, -1):
                return i
        answer[i] = best
    return -1
