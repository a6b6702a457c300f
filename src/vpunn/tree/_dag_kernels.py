"""Compiled loops over the edges of a directed acyclic graph; imported on first use only, like `_kernels`.

Edges are two int64 arrays ``parent, child`` in input order. ``start, edges`` lists the edges that leave each node:
``edges[start[i]:start[i + 1]]``, in input order. `tests/test_dag.py` holds the slow, obvious twins.
"""

import numpy as np
from numba import njit


@njit(cache=True)
def group_edges(parent, n):
    """Edges sorted by parent, stable: one counting pass, one placing pass."""
    start = np.zeros(n + 1, np.int64)
    for p in parent:
        start[p + 1] += 1
    for i in range(n):
        start[i + 1] += start[i]
    place = start[:-1].copy()
    edges = np.empty(len(parent), np.int64)
    for e in range(len(parent)):
        p = parent[e]
        edges[place[p]] = e
        place[p] += 1
    return start, edges


@njit(cache=True)
def topological(start, edges, child):
    """Nodes with every parent before its children (Kahn); shorter than n exactly when there is a cycle.

    Also returns how many parents of each node are still waiting, which is > 0 on and below cycles.
    """
    n = len(start) - 1
    waiting = np.zeros(n, np.int64)
    for c in child:
        waiting[c] += 1
    order = np.empty(n, np.int64)
    count = 0
    for i in range(n):
        if waiting[i] == 0:
            order[count] = i
            count += 1
    at = 0
    while at < count:
        node = order[at]
        at += 1
        for k in range(start[node], start[node + 1]):
            c = child[edges[k]]
            waiting[c] -= 1
            if waiting[c] == 0:
                order[count] = c
                count += 1
    return order[:count], waiting


@njit(cache=True)
def breadth_first(start, edges, child, root):
    """The edge by which a breadth-first walk first reaches each node; −1 at the root, −2 where it never comes."""
    n = len(start) - 1
    found = np.full(n, -2, np.int64)
    queue = np.empty(n, np.int64)
    queue[0], found[root] = root, -1
    at, count = 0, 1
    while at < count:
        node = queue[at]
        at += 1
        for k in range(start[node], start[node + 1]):
            c = child[edges[k]]
            if found[c] == -2:
                found[c] = edges[k]
                queue[count] = c
                count += 1
    return found


@njit(cache=True)
def longest_depths(order, start, edges, child):
    """Edges on the longest path from a parentless node down to each node."""
    depth = np.zeros(len(order), np.int64)
    for node in order:
        for k in range(start[node], start[node + 1]):
            c = child[edges[k]]
            depth[c] = max(depth[c], depth[node] + 1)
    return depth


@njit(cache=True)
def best_edges(parent, child, score):
    """For each node the incoming edge whose parent scores highest, the earliest one on ties; −1 without any."""
    chosen = np.full(len(score), -1, np.int64)
    for e in range(len(parent)):
        c = child[e]
        if chosen[c] < 0 or score[parent[e]] > score[parent[chosen[c]]]:
            chosen[c] = e
    return chosen


@njit(cache=True)
def count_descendants(order, start, edges, child, candidate):
    """Distinct nodes below each candidate (itself not counted); 0 for nodes that are not candidates.

    Sixty-four candidates at a time: each owns one bit of a word that is handed down from parents to children, so a
    node reached by several ways is still counted once. Candidates go in topological order, which lets every batch
    start at its first candidate instead of at the root.
    """
    n = len(order)
    below = np.zeros(n, np.int64)
    words = np.zeros(n, np.uint64)
    batch = np.empty(64, np.int64)
    at = 0
    while at < n:
        first, size = at, 0
        while at < n and size < 64:
            node = order[at]
            if candidate[node]:
                words[node] |= np.uint64(1) << np.uint64(size)
                batch[size] = node
                size += 1
            at += 1
        for i in range(first, n):
            node = order[i]
            word = words[node]
            if word == 0:
                continue
            words[node] = 0  # clean for the next batch: nobody hands anything to this node any more
            for k in range(start[node], start[node + 1]):
                words[child[edges[k]]] |= word
            bit = 0
            while word != 0:
                if word & np.uint64(1):
                    below[batch[bit]] += 1
                word >>= np.uint64(1)
                bit += 1
    for node in range(n):
        if candidate[node]:
            below[node] -= 1
    return below


@njit(cache=True)
def count_paths(order, start, edges, child, root):
    """Number of paths from the root to all nodes together: the nodes of the unfolded tree (a float, it can be huge)."""
    paths = np.zeros(len(order))
    paths[root] = 1.0
    total = 0.0
    for node in order:
        total += paths[node]
        for k in range(start[node], start[node + 1]):
            paths[child[edges[k]]] += paths[node]
    return total


@njit(cache=True)
def unfold(start, edges, child, root, total):
    """Copy every node once per path: graph node, edge it was reached by, and parent copy, in breadth-first order."""
    node = np.empty(total, np.int64)
    edge = np.empty(total, np.int64)
    up = np.empty(total, np.int64)
    node[0], edge[0], up[0] = root, -1, -1
    count = 1
    for i in range(total):
        for k in range(start[node[i]], start[node[i] + 1]):
            node[count], edge[count], up[count] = child[edges[k]], edges[k], i
            count += 1
    return node, edge, up


def trie(words, start, n_words) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Merge word sequences that begin alike: parent and word of each trie node, and the node where each row ends.

    Row ``r`` is ``words[start[r]:start[r + 1]]``; node 0 is the empty prefix, others are numbered as they appear. The
    step from a node along a word is looked up in an open-addressing table that doubles when half full; the part that
    a row shares with the row before it is not looked up at all.
    """
    rows = len(start) - 1
    end = np.zeros(rows, np.int64)
    path = np.zeros(int(np.diff(start).max(initial=0)) + 1, np.int64)
    up, word_of = np.full((2, 1024), -1, np.int64)
    count, row = 1, 0
    while True:
        table = np.full(len(up), -1, np.int64)  # node ids, placed by (parent, word)
        count, row = _add_rows(words, start, n_words, table, up, word_of, path, end, count, row)
        if row == rows:
            return up[:count].copy(), word_of[:count].copy(), end
        up, word_of = (np.concatenate([array, np.full_like(array, -1)]) for array in (up, word_of))


@njit(cache=True, nogil=True)
def _add_rows(words, start, n_words, table, up, word_of, path, end, count, row):
    """Enter rows from ``row`` on, until all are in or the table is half full; returns how many nodes and rows there are.

    ``path`` holds the nodes of the current row, still those of the row before it at first.
    """
    capacity = len(table)
    for node in range(1, count):
        slot = _slot(up[node], word_of[node], n_words, capacity)
        while table[slot] >= 0:
            slot = (slot + 1) & (capacity - 1)
        table[slot] = node
    previous = 0
    for r in range(row, len(end)):
        length = start[r + 1] - start[r]
        k = 0
        while k < min(length, previous) and words[start[r] + k] == words[start[r - 1] + k]:
            k += 1
        while k < length:
            word, here = words[start[r] + k], path[k]
            slot = _slot(here, word, n_words, capacity)
            while table[slot] >= 0 and (up[table[slot]] != here or word_of[table[slot]] != word):
                slot = (slot + 1) & (capacity - 1)
            if table[slot] < 0:
                if 2 * count >= capacity:
                    return count, r
                table[slot], up[count], word_of[count] = count, here, word
                count += 1
            path[k + 1] = table[slot]
            k += 1
        end[r] = path[length]
        previous = length
    return count, len(end)


@njit(inline="always")
def _slot(node, word, n_words, capacity):
    """Place of the step (node, word) in a table whose size is a power of two; the multiplier spreads neighbours."""
    key = np.uint64(node) * np.uint64(n_words) + np.uint64(word)
    key = (key ^ (key >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((key >> np.uint64(20)) & np.uint64(capacity - 1))
