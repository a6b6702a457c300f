"""Compiled steps of `TreeValue`: sums along chains, and one temporal difference divided among the balls of a chain."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def sum_chains(parts, parent, nodes, out):
    """Σ of ``parts`` over the ancestors of each node and itself."""
    for i in range(len(nodes)):
        node = nodes[i]
        while node >= 0:
            out[i] += parts[node]
            node = parent[node]


@njit(cache=True, nogil=True)
def value_of(parts, parent, node, action):
    total = 0.0
    while node >= 0:
        total += parts[node, action]
        node = parent[node]
    return total


@njit(cache=True, nogil=True)
def td_step(parts, visits, parent, state, action, reward, after, next_action, discount, rate, sharing):
    """Adjust the chain of ``state`` by ``rate`` · δ, balls in proportion to sharing^(levels up) / (1 + visits); return δ."""
    target = reward
    if after >= 0:
        if next_action >= 0:
            best = value_of(parts, parent, after, next_action)
        else:
            best = -np.inf
            for a in range(parts.shape[1]):
                best = max(best, value_of(parts, parent, after, a))
        target += discount * best
    value, total, node, part = 0.0, 0.0, state, 1.0
    while node >= 0:
        value += parts[node, action]
        total += part / (1.0 + visits[node, action])
        part *= sharing
        node = parent[node]
    error = target - value
    node, part = state, 1.0
    while node >= 0:
        parts[node, action] += rate * error * part / (1.0 + visits[node, action]) / total
        visits[node, action] += 1.0
        part *= sharing
        node = parent[node]
    return error
