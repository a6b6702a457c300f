"""The compiled sweeps of `shrinkage`. A parent precedes its children in preorder, so plain loops suffice.

``tests/test_regress.py`` holds their dense-matrix twin. Imported on first use, like `_kernels`.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def collect(parent, ratio, weight, total):
    """Up: the precision J and the information h that each subtree holds about its top node's value.

    A node passes J/(1 + rJ) and h/(1 + rJ) to its parent: the part that survives its own difference, whose variance is
    r times the noise. Returns ``(J, h)`` of all nodes, before passing.
    """
    precision = weight.copy()
    information = total.copy()
    for node in range(len(parent) - 1, 0, -1):
        if precision[node] == 0.0:
            continue
        share = 1.0 / (1.0 + ratio[node] * precision[node])
        up = parent[node]
        precision[up] += share * precision[node]
        for j in range(information.shape[1]):
            information[up, j] += share * information[node, j]
    return precision, information


@njit(cache=True, nogil=True)
def distribute(parent, ratio, precision, information):
    """Down: posterior mean of every node's value (per column) and its variance in units of the noise.

    Given its parent's value u, a node's is (r·h + u)/(1 + rJ) with variance r/(1 + rJ).
    """
    mean = np.empty_like(information)
    variance = np.empty_like(precision)
    mean[0] = information[0] / precision[0]
    variance[0] = 1.0 / precision[0]
    for node in range(1, len(parent)):
        up = parent[node]
        share = 1.0 / (1.0 + ratio[node] * precision[node])
        variance[node] = share * (ratio[node] + share * variance[up])
        for j in range(information.shape[1]):
            mean[node, j] = share * (ratio[node] * information[node, j] + mean[up, j])
    return mean, variance


@njit(cache=True, nogil=True)
def gather(parent, weight, value, variance):
    """Up: over the rows of every ball, Σw·((their node's value − the ball's)² + their node's variance), and Σw.

    A ball's sum of squares is moved from its own value to its parent's by the sum of its differences, so nothing cancels.
    """
    rows = weight.copy()
    squares = weight * variance
    away = np.zeros_like(weight)
    for node in range(len(parent) - 1, 0, -1):
        up = parent[node]
        step = value[node] - value[up]
        squares[up] += squares[node] + step * (2.0 * away[node] + step * rows[node])
        away[up] += away[node] + step * rows[node]
        rows[up] += rows[node]
    return squares, rows


@njit(cache=True, nogil=True)
def sample(parent, ratio, precision, information, normal):
    """Down: one joint draw of all nodes' values from the posterior, in units of the noise; ``normal`` has a draw per node.

    The root's value is free; given its parent's value u, a node's is normal around (r·h + u)/(1 + rJ) with variance
    r/(1 + rJ): the same sweep as `distribute`, with draws in place of means.
    """
    value = np.empty_like(precision)
    value[0] = information[0, 0] / precision[0] + normal[0] / np.sqrt(precision[0])
    for node in range(1, len(parent)):
        share = 1.0 / (1.0 + ratio[node] * precision[node])
        centre = share * (ratio[node] * information[node, 0] + value[parent[node]])
        value[node] = centre + normal[node] * np.sqrt(share * ratio[node])
    return value


@njit(cache=True, nogil=True)
def ratio_gradient(parent, ratio, precision, information, mean, variance, mean_slope, variance_slope):
    """Derivative, by each node's ratio, of a loss whose slopes in the results of `distribute` are given (and overwritten).

    Reverse mode: the two sweeps run backwards, `distribute` from the last node up, then `collect` from the root down.
    """
    n, columns = information.shape
    slope = np.zeros(n)
    share_slope = np.zeros(n)
    information_slope = np.zeros_like(information)
    for node in range(n - 1, 0, -1):
        up, r = parent[node], ratio[node]
        share = 1.0 / (1.0 + r * precision[node])
        of_share = variance_slope[node] * (r + 2.0 * share * variance[up])
        of_ratio = variance_slope[node] * share
        variance_slope[up] += share * share * variance_slope[node]
        for j in range(columns):
            g = mean_slope[node, j]
            of_share += g * (r * information[node, j] + mean[up, j])
            of_ratio += g * share * information[node, j]
            information_slope[node, j] = g * share * r
            mean_slope[up, j] += g * share
        slope[node] = of_ratio
        share_slope[node] = of_share
    precision_slope = np.zeros(n)
    top = precision[0]
    precision_slope[0] = -variance_slope[0] / (top * top)
    for j in range(columns):
        information_slope[0, j] = mean_slope[0, j] / top
        precision_slope[0] -= mean_slope[0, j] * information[0, j] / (top * top)
    for node in range(1, n):
        up, r, J = parent[node], ratio[node], precision[node]
        share = 1.0 / (1.0 + r * J)
        of_share = share_slope[node] + precision_slope[up] * J
        for j in range(columns):
            of_share += information_slope[up, j] * information[node, j]
            information_slope[node, j] += share * information_slope[up, j]
        precision_slope[node] = share * precision_slope[up] - share * share * r * of_share
        slope[node] -= share * share * J * of_share
    return slope


@njit(cache=True, nogil=True)
def boosted(X, start, baseline, value, feature, threshold, missing_left, left, right, is_leaf):
    """Sums of regression trees: every row walks down each of them."""
    out = np.full(len(X), baseline)
    for tree in range(len(start) - 1):
        for row in range(len(X)):
            node = start[tree]
            while not is_leaf[node]:
                x = X[row, feature[node]]
                if np.isnan(x):
                    node = left[node] if missing_left[node] else right[node]
                else:
                    node = left[node] if x <= threshold[node] else right[node]
            out[row] += value[node]
    return out
