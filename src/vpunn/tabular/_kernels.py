"""Compiled loops of the tabular part. Imported on first use, like `vpunn.tree._kernels`; slow twins live in the tests."""

import numpy as np
from numba import njit

# Sums may be reordered (that is what lets the compiler use vector instructions); NaN and infinity stay as they are.
_FAST = {"reassoc", "contract", "nsz"}


@njit(cache=True, fastmath=_FAST)
def _nearest(centre, weight, active, slot, distance):
    """Slot with the least Ward cost w·v/(w+v)·‖a−b‖² from ``slot``, among the first ``active`` slots."""
    for j in range(active):
        distance[j] = 0.0
    for k in range(centre.shape[0]):  # dimension-major, so that the inner loop is one vector operation
        row = centre[k]
        here = row[slot]
        for j in range(active):
            gap = row[j] - here
            distance[j] += gap * gap
    own = weight[slot]
    for j in range(active):
        distance[j] *= own * weight[j] / (own + weight[j])
    distance[slot] = np.inf
    least = np.inf
    for j in range(active):  # the minimum first (a vector reduction), its place after: faster than both at once
        least = min(least, distance[j])
    best = 0
    while distance[best] != least:
        best += 1
    return best


@njit(cache=True)
def ward_chain(centre, weight, cluster, slot_of, chain, state, merges, budget):
    """Nearest-neighbour chain for Ward's criterion; goes on until ``budget`` more merges are done.

    Clusters live in the first ``active`` slots of ``centre`` (dimension × slot) and ``weight``; ``cluster[slot]`` is one
    row that the cluster holds, and ``slot_of`` the inverse. ``state`` = [active, chain length, merges done] lets the
    caller stop and resume. A merge is (row of one side, row of the other, cost, weight). Follow nearest neighbours
    until two clusters are each other's nearest; they may merge at once because Ward's criterion is reducible.
    """
    n = len(cluster)
    distance = np.empty(n)
    target = min(n - 1, state[2] + budget)
    while state[2] < target:
        active = state[0]
        if state[1] == 0:
            chain[0] = cluster[0]
            state[1] = 1
        while True:
            top = slot_of[chain[state[1] - 1]]
            best = _nearest(centre, weight, active, top, distance)
            if state[1] > 1:
                previous = slot_of[chain[state[1] - 2]]
                if distance[previous] <= distance[best]:  # ties go back, so that the chain ends
                    best = previous
                    break
            chain[state[1]] = cluster[best]
            state[1] += 1
        state[1] -= 2
        done = state[2]
        low, high = min(top, best), max(top, best)
        total = weight[low] + weight[high]
        merges[done, 0], merges[done, 1] = cluster[low], cluster[high]
        merges[done, 2], merges[done, 3] = distance[best], total
        share = weight[high] / total
        for k in range(centre.shape[0]):
            centre[k, low] += share * (centre[k, high] - centre[k, low])
            centre[k, high] = centre[k, active - 1]
        weight[low], weight[high] = total, weight[active - 1]
        cluster[high] = cluster[active - 1]
        slot_of[cluster[high]] = high
        state[0] = active - 1
        state[2] = done + 1


@njit(cache=True)
def relabel_merges(left, right):
    """SciPy's cluster ids for merges listed by height, each side given by one of its rows (union–find)."""
    n = len(left) + 1
    up = np.full(2 * n - 1, -1, np.int64)
    pairs = np.empty((n - 1, 2), np.int64)
    for i in range(n - 1):
        for side in range(2):
            row = left[i] if side == 0 else right[i]
            top = row
            while up[top] >= 0:
                top = up[top]
            while row != top:  # shorten the path for the next search
                up[row], row = top, up[row]
            pairs[i, side] = top
        up[pairs[i, 0]] = n + i
        up[pairs[i, 1]] = n + i
    return pairs


@njit(cache=True)
def spread_owner(up, owner):
    """Every dendrogram node without an owner takes its parent's (parents have higher ids), in place."""
    for node in range(len(up) - 2, -1, -1):
        if owner[node] < 0:
            owner[node] = owner[up[node]]


@njit(cache=True)
def _squared(row, other):
    """‖row − other‖². The order of the sum is fixed, because fitting and transforming must agree to the last bit;
    four running sums, written out, still become one vector instruction."""
    d = len(row)
    blocks = d - d % 4
    a, b, c, e = 0.0, 0.0, 0.0, 0.0
    for k in range(0, blocks, 4):
        a += (row[k] - other[k]) ** 2
        b += (row[k + 1] - other[k + 1]) ** 2
        c += (row[k + 2] - other[k + 2]) ** 2
        e += (row[k + 3] - other[k + 3]) ** 2
    for k in range(blocks, d):
        a += (row[k] - other[k]) ** 2
    return (a + b) + (c + e)


@njit(
    cache=True, nogil=True, fastmath={"nnan", "nsz"}
)  # only what lets the minimum run as vector instructions: no sum is reordered
def nearest_cell(rows, columns, found):
    """Nearest prototype of every row, the first one on ties; ``columns`` is dimension × prototype.

    Plain scanning: in ten dimensions the triangle inequality rules out too few prototypes to pay for its branches.
    """
    d, m = columns.shape
    distance = np.empty(m)
    for i in range(len(rows)):
        for j in range(m):
            distance[j] = 0.0
        for k in range(d):
            here = rows[i, k]
            column = columns[k]
            for j in range(m):
                gap = column[j] - here
                distance[j] += gap * gap
        least = distance[0]
        for j in range(1, m):
            least = min(least, distance[j])
        best = 0
        while distance[best] > least:
            best += 1
        found[i] = best


@njit(cache=True)
def _closest_child(row, start, ids, node, prototype, offset):
    """The child c of ``node`` with the least ‖row − prototype_c‖² + offset_c, the first one on ties."""
    best, least = -1, np.inf
    for at in range(start[node], start[node + 1]):
        child = ids[at]
        total = _squared(row, prototype[child]) + offset[child]
        if total < least:
            best, least = child, total
    return best


@njit(cache=True, nogil=True)
def descend(rows, start, ids, prototype, offset, node):
    """Walk every row from ``node`` (its current ball, overwritten) down to a leaf by nearest prototype."""
    for i in range(len(rows)):
        here = node[i]
        while start[here + 1] > start[here]:
            here = _closest_child(rows[i], start, ids, here, prototype, offset)
        node[i] = here


@njit(cache=True, nogil=True)
def step_down(rows, start, ids, prototype, offset, node):
    """One level: every row moves from its ball (``node``, overwritten) to the closest child, if it has children."""
    for i in range(len(rows)):
        best = _closest_child(rows[i], start, ids, node[i], prototype, offset)
        if best >= 0:
            node[i] = best


@njit(cache=True, fastmath=_FAST)
def seed_children(rows, order, first, last, uniform):
    """k-means++ seeds among ``rows[order[first:last]]``: one per random number in ``uniform``, far rows likelier.

    Returns positions into ``rows``; fewer when the ball holds fewer distinct rows.
    """
    size, many = last - first, len(uniform)
    chosen = np.empty(many, np.int64)
    chosen[0] = order[first + int(uniform[0] * size)]
    gap = np.full(size, np.inf)
    for m in range(1, many + 1):
        centre = rows[chosen[m - 1]]
        mass = 0.0
        for i in range(size):
            row = rows[order[first + i]]
            d = 0.0
            for k in range(len(row)):
                d += (row[k] - centre[k]) ** 2
            if d < gap[i]:
                gap[i] = d
            mass += gap[i]
        if m == many or mass <= 0.0:
            return chosen[:m]
        left = uniform[m] * mass
        pick = size - 1
        for i in range(size):
            left -= gap[i]
            if left < 0.0 and gap[i] > 0.0:
                pick = i
                break
        while gap[pick] <= 0.0:  # rounding ran past the end: take the last row that is not a seed already
            pick -= 1
        chosen[m] = order[first + pick]
    return chosen
