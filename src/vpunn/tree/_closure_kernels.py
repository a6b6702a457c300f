"""Compiled loops along all edges of a tree with extra parents; imported on first use only, like `_kernels`.

``up_start, up`` lists the parents of every node, ``order`` has every parent before its children.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def close_sets(start, ids, up_start, up, seen, first, found, out):
    """Sets from ``first`` on with the ancestors of their members by any path, until all are done or ``found`` is full.

    Returns the next set. A set's walk marks nodes in ``seen`` with its number; what it finds is its own queue. ``out`` gets
    where each set ends.
    """
    count = out[first]
    for s in range(first, len(start) - 1):
        at = count
        for k in range(start[s], start[s + 1]):
            if seen[ids[k]] != s:
                if count == len(found):
                    return s
                seen[ids[k]] = s
                found[count] = ids[k]
                count += 1
        while at < count:
            node = found[at]
            at += 1
            for j in range(up_start[node], up_start[node + 1]):
                if seen[up[j]] != s:
                    if count == len(found):
                        return s
                    seen[up[j]] = s
                    found[count] = up[j]
                    count += 1
        out[s + 1] = count
    return len(start) - 1


@njit(cache=True, nogil=True)
def count_root_paths(order, up_start, up):
    """Number of paths from the root to each node (floats, they can be huge)."""
    paths = np.zeros(len(order))
    for node in order:
        if up_start[node] == up_start[node + 1]:
            paths[node] = 1.0
        for j in range(up_start[node], up_start[node + 1]):
            paths[node] += paths[up[j]]
    return paths


@njit(cache=True, nogil=True)
def longest_from_root(order, up_start, up):
    """Edges on the longest path from the root down to each node."""
    depth = np.zeros(len(order), np.int32)
    for node in order:
        for j in range(up_start[node], up_start[node + 1]):
            depth[node] = max(depth[node], depth[up[j]] + 1)
    return depth


@njit(cache=True, nogil=True)
def deepest_shared(a_start, a_ids, b_start, b_ids, depth):
    """For pairs of sorted sets the largest depth of a common member; −1 if they share none."""
    out = np.full(len(a_start) - 1, -1, np.int32)
    for s in range(len(out)):
        i, j = a_start[s], b_start[s]
        while i < a_start[s + 1] and j < b_start[s + 1]:
            if a_ids[i] == b_ids[j]:
                out[s] = max(out[s], depth[a_ids[i]])
                i += 1
                j += 1
            elif a_ids[i] < b_ids[j]:
                i += 1
            else:
                j += 1
    return out
