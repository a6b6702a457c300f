"""Felsenstein's pruning and its way back, compiled. A parent precedes its children in preorder, so plain loops suffice.

What a subtree says about its top node's value is a mean and a variance ``gap`` (0: known exactly; ∞: nothing said), for
every column at once. Two such sayings of one node differ by a contrast whose variance is the sum of theirs: the likelihood is a
product of contrasts, all of them positive terms, so nothing cancels. The dense twin is in ``tests/regress/test_evolution.py``.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, inline="always")
def _join(node, mean, gap, means, gaps, gram, least):
    """Add a saying to what is known of a node, and their contrast to the sums. Returns log of its variance, and whether it is 0."""
    if gaps[node] == np.inf:
        gaps[node] = gap
        means[node] = mean
        return 0.0, 0
    total = gap + gaps[node]
    clash = 0
    if total < least:  # two exact sayings; they may agree
        for j in range(len(mean)):
            clash |= abs(mean[j] - means[node, j]) > 1e-9
        total = least
    for j in range(len(mean)):
        dj = mean[j] - means[node, j]
        for k in range(j + 1):
            gram[j, k] += dj * (mean[k] - means[node, k]) / total
    own = gap / total if gap + gaps[node] >= least else 0.5
    for j in range(len(mean)):
        means[node, j] = mean[j] + (means[node, j] - mean[j]) * own
    gaps[node] = gap * gaps[node] / total
    return np.log(total), clash


@njit(cache=True, nogil=True)
def prune(parent, keep, step, at, columns, noise, least):
    """Up: rows at nodes ``at`` (their noise in variance), then every node into its parent.

    A node's value is ``keep`` × its parent's and a normal step of variance ``step``; the root's own is ``step[0]`` around 0.
    Returns the means and gaps of all nodes, the matrix Σ (contrast ⊗ contrast)/variance = columns' V⁻¹ columns, log|V|, and
    how many contrasts of variance 0 are not 0 themselves.
    """
    n, c = len(parent), columns.shape[1]
    means, gaps, gram = np.zeros((n, c)), np.full(n, np.inf), np.zeros((c, c))
    log_det, clashes = 0.0, 0
    passed = np.empty(c)
    for row in range(len(at)):
        add, clash = _join(at[row], columns[row], noise[row], means, gaps, gram, least)
        log_det += add
        clashes += clash
    for node in range(n - 1, 0, -1):
        if gaps[node] == np.inf:
            continue
        f = keep[node]
        for j in range(c):
            passed[j] = means[node, j] / f
        add, clash = _join(parent[node], passed, (gaps[node] + step[node]) / (f * f), means, gaps, gram, least)
        log_det += add
        if f != 1.0:
            log_det += 2.0 * np.log(f)
        clashes += clash
    total = max(gaps[0] + step[0], least)
    log_det += np.log(total)
    for j in range(c):
        for k in range(j + 1):
            gram[j, k] += means[0, j] * means[0, k] / total
            gram[k, j] = gram[j, k]
    return means, gaps, gram, log_det, clashes


@njit(cache=True, nogil=True)
def spread(parent, keep, step, means, gaps):
    """Down, in place: posterior means of every node's value per column, and its variance, from what `prune` returned."""
    n, c = means.shape
    for node in range(n):
        before, known, f = 0.0, 0.0, 0.0
        if node > 0:
            known, f = gaps[parent[node]], keep[node]
        before = step[node]
        share = 1.0  # of the subtree's own saying
        if gaps[node] == np.inf:
            share = 0.0
        elif before + gaps[node] > 0.0:
            share = before / (before + gaps[node])
        for j in range(c):
            above = f * means[parent[node], j] if node > 0 else 0.0
            means[node, j] = above + share * (means[node, j] - above)
        gaps[node] = (1.0 - share) * before + (1.0 - share) ** 2 * f * f * known


@njit(cache=True, nogil=True)
def contrasts(parent, length, at, values):
    """Felsenstein's independent contrasts of one value a tip: per join its node, first child, contrast, and variance."""
    n = len(parent)
    mean, gap, first = np.zeros(n), np.full(n, np.inf), np.full(n, -1, np.int64)
    node_of, child_of = np.empty(n, np.int64), np.empty(n, np.int64)
    contrast, variance = np.empty(n), np.empty(n)
    count = 0
    for row in range(len(at)):
        mean[at[row]], gap[at[row]] = values[row], 0.0
    for node in range(n - 1, 0, -1):
        if gap[node] == np.inf:
            continue
        up, own = parent[node], gap[node] + length[node]
        if gap[up] == np.inf:
            mean[up], gap[up], first[up] = mean[node], own, node
            continue
        total = own + gap[up]
        node_of[count], child_of[count] = up, node
        contrast[count], variance[count] = mean[node] - mean[up], total
        count += 1
        share = own / total if total > 0.0 else 0.5
        mean[up] = mean[node] + (mean[up] - mean[node]) * share
        gap[up] = own * gap[up] / total if total > 0.0 else 0.0
    return node_of[:count], child_of[:count], contrast[:count], variance[:count]


@njit(cache=True, nogil=True)
def path_sums(parent, length):
    """Distance of every node from the root; the root's own length does not count."""
    out = np.zeros(len(parent))
    for node in range(1, len(parent)):
        out[node] = out[parent[node]] + length[node]
    return out


@njit(cache=True, nogil=True)
def means_below(parent, is_leaf, values):
    """Mean of a number of the leaves below (or at) every node."""
    total, count = np.where(is_leaf, values, 0.0), is_leaf.astype(np.float64)
    for node in range(len(parent) - 1, 0, -1):
        total[parent[node]] += total[node]
        count[parent[node]] += count[node]
    return total / count


@njit(cache=True, nogil=True)
def prune_classes(parent, length, values, vectors, said):
    """Up, for classes: the likelihood of what was seen below each node, by the node's class, each divided by its largest.

    Transitions over a branch t are U·exp(Λt)·Uᵀ with eigenvalues ``values`` and ``vectors`` of the symmetric rates. ``said``
    holds the likelihood of the rows at each node, and is overwritten. Returns what each node passes up, and the log of the
    product of the largest.
    """
    n, k = said.shape
    passed = np.ones((n, k))
    log_likelihood = 0.0
    turned = np.empty(k)
    for node in range(n - 1, -1, -1):
        top = said[node].max()
        if top <= 0.0:
            return passed, -np.inf
        log_likelihood += np.log(top)
        for j in range(k):
            said[node, j] /= top
        if node == 0:
            break
        for a in range(k):
            total = 0.0
            for j in range(k):
                total += vectors[j, a] * said[node, j]
            turned[a] = total * np.exp(values[a] * length[node])
        for i in range(k):
            total = 0.0
            for a in range(k):
                total += vectors[i, a] * turned[a]
            passed[node, i] = max(total, 0.0)
            said[parent[node], i] *= passed[node, i]
    return passed, log_likelihood


@njit(cache=True, nogil=True)
def spread_classes(parent, length, values, vectors, said, passed):
    """Down: the distribution of every node's class, from what `prune_classes` left; the root's prior is uniform.

    Given its parent's class i, a node is of class j with probability P_ij·said_j / passed_i.
    """
    n, k = said.shape
    out = np.empty((n, k))
    out[0] = said[0] / said[0].sum()
    turned = np.empty(k)
    for node in range(1, n):
        up = parent[node]
        for a in range(k):
            total = 0.0
            for i in range(k):
                if out[up, i] > 0.0 and passed[node, i] > 0.0:
                    total += vectors[i, a] * out[up, i] / passed[node, i]
            turned[a] = total * np.exp(values[a] * length[node])
        whole = 0.0
        for j in range(k):
            total = 0.0
            for a in range(k):
                total += vectors[j, a] * turned[a]
            out[node, j] = max(total, 0.0) * said[node, j]
            whole += out[node, j]
        for j in range(k):
            out[node, j] /= whole
    return out
