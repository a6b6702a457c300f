"""The few compiled loops. Imported on first use only, because numba takes longer to import than all of vpunn.

Every kernel takes plain arrays and never sees a Python callable; `tests/test_tree.py` holds the slow, obvious twin of
each. Node ids are preorder positions, so a parent always precedes its children.
"""

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from vpunn.tree import _loops

# Bits of code (and of boundary mask) held by one 64-bit word; see packed.py.
TIER_BITS = 32


@intrinsic
def _popcount(typingctx, x):
    """Number of set bits: one machine instruction, which numba does not expose by itself."""

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def _leading_zeros(typingctx, x):
    """Number of zero bits before the first set bit of a non-zero word."""

    def codegen(context, builder, signature, args):
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), codegen


preorder_walk = njit(cache=True, nogil=True)(_loops.preorder_walk)


@njit(cache=True)
def digit_lengths(size, leaves, code_bits):
    """Bits of each node's last digit, ⌈log₂(leaves of parent / leaves of node)⌉ but at least 1; fills ``code_bits``
    (bits from the root) and returns ``(lengths, longest code)``. Stops early past 65,535 bits."""
    n = len(size)
    lengths = np.zeros(n, np.uint8)
    longest = 0
    for node in range(n):
        end = node + size[node]
        child = node + 1
        while child < end:
            bits, share = 1, np.int64(leaves[child]) << 1
            while share < leaves[node]:
                share <<= 1
                bits += 1
            total = np.int64(code_bits[node]) + bits
            if total > 65535:
                return lengths, total
            lengths[child] = bits
            code_bits[child] = total
            longest = max(longest, total)
            child += size[child]
    return lengths, longest


@njit(cache=True)
def pack_words(size, lengths, code_bits, words):
    """Write the tiered words (zeros before): tier t holds code bits [32t, 32t+32) above the mask of digit ends at those bits.

    Siblings receive canonical prefix-free strings (shorter first), which exist because Σ 2^-length ≤ 1.
    """
    n_tiers, n = words.shape
    next_string = np.zeros(64, np.int64)
    for node in range(n):
        end = node + size[node]
        shortest, longest = 64, 0
        child = node + 1
        while child < end:
            shortest = min(shortest, lengths[child])
            longest = max(longest, lengths[child])
            child += size[child]
        if longest == 0:
            continue
        for bits in range(longest + 1):
            next_string[bits] = 0
        child = node + 1
        while child < end:
            next_string[lengths[child]] += 1  # counts first, turned into first strings below
            child += size[child]
        string = 0
        for bits in range(shortest, longest + 1):
            count = next_string[bits]
            next_string[bits] = string
            string = (string + count) << 1
        start = np.int64(code_bits[node])
        child = node + 1
        while child < end:
            for tier in range(n_tiers):
                words[tier, child] = words[tier, node]
            bits = np.int64(lengths[child])
            string = next_string[lengths[child]]
            next_string[lengths[child]] += 1
            for k in range(bits):
                at = start + k
                bit = np.uint64(1) << np.uint64(63 - at % 32)
                if (string >> (bits - 1 - k)) & 1:
                    words[at // 32, child] |= bit
                if k == bits - 1:
                    words[at // 32, child] |= bit >> np.uint64(32)
            child += size[child]


@njit(inline="always")
def _shared_digits(a, b):
    """Digits that end inside the common code prefix of two words: the mask (low half) without the bits past it."""
    same = _leading_zeros((a ^ b) | np.uint64(1 << (TIER_BITS - 1)))
    return _popcount((a & b & np.uint64((1 << TIER_BITS) - 1)) >> (np.uint64(TIER_BITS) - same))


@njit(cache=True, nogil=True)
def lca_depth_near(words, u, v, out):
    """LCA depth of each pair where one tier says all and lies in the processor's cache; the first position with an id outside
    the tree, or -1. Ids are unsigned, so that negative ones are huge.

    Four pairs at a time share one test of their ids; nothing else interrupts the loop.
    """
    first, limit = words[0], np.uint64(words.shape[1])
    i = 0
    while i + 4 <= len(u):
        p, q, r, s = np.uint64(u[i]), np.uint64(u[i + 1]), np.uint64(u[i + 2]), np.uint64(u[i + 3])
        t, w, x, y = np.uint64(v[i]), np.uint64(v[i + 1]), np.uint64(v[i + 2]), np.uint64(v[i + 3])
        over = (p >= limit) | (q >= limit) | (r >= limit) | (s >= limit)
        if over | (t >= limit) | (w >= limit) | (x >= limit) | (y >= limit):
            break
        out[i], out[i + 1] = _shared_digits(first[p], first[t]), _shared_digits(first[q], first[w])
        out[i + 2], out[i + 3] = _shared_digits(first[r], first[x]), _shared_digits(first[s], first[y])
        i += 4
    for k in range(i, len(u)):
        x, y = np.uint64(u[k]), np.uint64(v[k])
        if x >= limit or y >= limit:
            return k
        out[k] = _shared_digits(first[x], first[y])
    return -1


@njit(cache=True, nogil=True)
def _largest(u, v):
    most = u[0]
    for i in range(len(u)):
        most = max(most, max(u[i], v[i]))
    return most


@njit(cache=True, nogil=True)
def _fetch(first, u, v, left, right):
    for i in range(len(u)):
        left[i] = first[u[i]]
        right[i] = first[v[i]]


@njit(cache=True, nogil=True)
def _compare(left, right, out):
    """Shared digits within the tier; how many pairs agree through all of it."""
    through = np.uint64(0)
    for i in range(len(out)):
        out[i] = _shared_digits(left[i], right[i])
        through += np.uint64(left[i] ^ right[i] < np.uint64(1 << TIER_BITS))
    return through


@njit(cache=True, nogil=True)
def lca_depth_far(words, u, v, out):
    """The same for words that lie in memory, in any number of tiers.

    A block's words are fetched before any is looked at: while they wait for each other, reads would not be under way.
    """
    n_tiers, n = words.shape
    block = 1024
    left, right = np.empty((2, block), np.uint64)
    for start in range(0, len(u), block):
        x, y, depth = u[start : start + block], v[start : start + block], out[start : start + block]
        if _largest(x, y) >= n:
            for i in range(len(x)):
                if x[i] >= n or y[i] >= n:
                    return start + i
        _fetch(words[0], x, y, left, right)
        if _compare(left, right, depth) and n_tiers > 1:
            for i in range(len(x)):
                a, b, tier = left[i], right[i], 1
                while tier < n_tiers and (a ^ b) >> np.uint64(TIER_BITS) == 0:
                    a, b = words[tier, x[i]], words[tier, y[i]]
                    depth[i] += _shared_digits(a, b)
                    tier += 1
    return -1


@njit(cache=True)
def lca_depth_table(words, u, v, out):
    """All LCA depths between two lists of valid nodes; words are gathered once, so the inner loop streams."""
    n_tiers = words.shape[0]
    right = np.empty((n_tiers, len(v)), np.uint64)
    for tier in range(n_tiers):
        for j in range(len(v)):
            right[tier, j] = words[tier, v[j]]
    first = right[0]
    for i in range(len(u)):
        a = words[0, u[i]]
        for j in range(len(v)):
            b = first[j]
            depth = _shared_digits(a, b)
            c, d, tier = a, b, 1
            while tier < n_tiers and (c ^ d) >> np.uint64(TIER_BITS) == 0:
                c, d = words[tier, u[i]], right[tier, j]
                depth += _shared_digits(c, d)
                tier += 1
            out[i, j] = depth


@njit(cache=True)
def heavy_heads(size):
    """Top node of the heavy path through each node (a heavy path always continues into the largest subtree)."""
    n = len(size)
    head = np.zeros(n, np.int32)
    for node in range(n):
        end = node + size[node]
        child, heavy = node + 1, -1
        while child < end:
            head[child] = child
            if heavy < 0 or size[child] > size[heavy]:
                heavy = child
            child += size[child]
        if heavy >= 0:
            head[heavy] = head[node]
    return head


@njit(cache=True)
def lca_depth_heavy(head, parent, depth, u, v, out):
    """LCA depth by climbing heavy paths, at most log₂ n of them; returns the first bad position, or -1."""
    limit = np.uint64(len(head))
    for i in range(len(u)):
        x, y = u[i], v[i]
        if np.uint64(x) >= limit or np.uint64(y) >= limit:
            return i
        while head[x] != head[y]:
            if depth[head[x]] >= depth[head[y]]:
                x = parent[head[x]]
            else:
                y = parent[head[y]]
        out[i] = min(depth[x], depth[y])
    return -1


@njit(cache=True)
def shape_hash(parent, seed):
    """A 64-bit hash of each subtree's shape, blind to sibling order: one sweep from the last node to the root."""
    n = len(parent)
    total = np.zeros(n, np.uint64)
    for node in range(n - 1, -1, -1):
        h = total[node] + seed
        h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        h ^= h >> np.uint64(31)
        total[node] = h
        if node > 0:
            # odd multiplier: the sum of children differs from a hash of one child with the same total
            total[parent[node]] += h * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1)
    return total


@njit(cache=True)
def nearest_marked(parent, marked):
    """Closest proper ancestor that is marked, or -1: a parent's answer is ready before its children ask."""
    found = np.full(len(parent), -1, np.int32)
    for node in range(1, len(parent)):
        up = parent[node]
        found[node] = up if marked[up] else found[up]
    return found


@njit(cache=True)
def add_parents(parent, values):
    """values[node] += values[parent[node]], root first, in place: the sum along each ancestor chain."""
    for node in range(1, len(parent)):
        up = parent[node]
        for j in range(values.shape[1]):
            values[node, j] += values[up, j]


@njit(cache=True)
def add_children(parent, values):
    """values[parent[node]] += values[node], last node first, in place: the sum over each subtree."""
    for node in range(len(parent) - 1, 0, -1):
        up = parent[node]
        for j in range(values.shape[1]):
            values[up, j] += values[node, j]


@njit(cache=True, nogil=True, inline="always")
def _text_hash(data, start, stop):
    """64 bits of a text (FNV-1a, stirred so that the low bits depend on all)."""
    h = np.uint64(14695981039346656037)
    for k in range(start, stop):
        h = (h ^ np.uint64(data[k])) * np.uint64(1099511628211)
    h ^= h >> np.uint64(32)
    return h


@njit(cache=True, nogil=True, inline="always")
def _same_text(data, start, stop, other, begin, end):
    if stop - start != end - begin:
        return False
    k = 0
    while k < stop - start and data[start + k] == other[begin + k]:
        k += 1
    return k == stop - start


@njit(cache=True, nogil=True)
def fill_slots(offsets, data, slots):
    """Put every text into an open hash table of a power of two slots, once; of each the first that is equal to it."""
    mask = np.uint64(len(slots) - 1)
    first = np.arange(len(offsets) - 1)
    for i in range(len(offsets) - 1):
        at = _text_hash(data, offsets[i], offsets[i + 1]) & mask
        while slots[at] >= 0:
            j = slots[at]
            if _same_text(data, offsets[i], offsets[i + 1], data, offsets[j], offsets[j + 1]):
                first[i] = j
                break
            at = (at + np.uint64(1)) & mask
        if slots[at] < 0:
            slots[at] = i
    return first


@njit(cache=True, nogil=True)
def find_texts(offsets, data, slots, asked, texts):
    """The place of each asked text in the table of `fill_slots`, −1 if it is not there."""
    mask = np.uint64(len(slots) - 1)
    found = np.full(len(asked) - 1, -1, np.int32)
    for i in range(len(asked) - 1):
        at = _text_hash(texts, asked[i], asked[i + 1]) & mask
        while slots[at] >= 0:
            j = slots[at]
            if _same_text(texts, asked[i], asked[i + 1], data, offsets[j], offsets[j + 1]):
                found[i] = j
                break
            at = (at + np.uint64(1)) & mask
    return found


@njit(cache=True, nogil=True, inline="always")
def _number_hash(number):
    """64 bits of a number, stirred so that the low bits depend on all."""
    h = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
    return h ^ (h >> np.uint64(32))


@njit(cache=True, nogil=True)
def fill_number_slots(numbers, slots):
    """Put every number into an open hash table of a power of two slots, once; of each the first that is equal to it."""
    mask = np.uint64(len(slots) - 1)
    first = np.arange(len(numbers))
    for i in range(len(numbers)):
        at = _number_hash(numbers[i]) & mask
        while slots[at] >= 0 and numbers[slots[at]] != numbers[i]:
            at = (at + np.uint64(1)) & mask
        if slots[at] < 0:
            slots[at] = i
        else:
            first[i] = slots[at]
    return first


@njit(cache=True, nogil=True)
def find_numbers(numbers, slots, asked):
    """The place of each asked number in the table of `fill_number_slots`, −1 if it is not there."""
    mask = np.uint64(len(slots) - 1)
    found = np.full(len(asked), -1, np.int32)
    for i in range(len(asked)):
        at = _number_hash(asked[i]) & mask
        while slots[at] >= 0:
            if numbers[slots[at]] == asked[i]:
                found[i] = slots[at]
                break
            at = (at + np.uint64(1)) & mask
    return found


@njit(cache=True)
def edges_below(parent):
    """Edges from each node (preorder) down to its farthest leaf."""
    height = np.zeros(len(parent), np.int64)
    for node in range(len(parent) - 1, 0, -1):
        up = parent[node]
        height[up] = max(height[up], height[node] + 1)
    return height
