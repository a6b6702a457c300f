"""Compiled walks between nodes and digits: up a path and down again. Imported on first use only, like `_kernels`."""

import numpy as np
from numba import njit


@njit(cache=True)
def along_paths(parent, depth, values, nodes, out):
    """out[i, k] = values of node i's ancestor at depth k + 1 (the root is left out); shorter paths keep their padding."""
    for i in range(len(nodes)):
        node = nodes[i]
        for k in range(depth[node] - 1, -1, -1):
            out[i, k] = values[node]
            node = parent[node]


@njit(cache=True)
def descend(start, children, digits):
    """Follow each row of digits from the root: the deepest node reached, and the position of the digit that is wrong.

    A digit is wrong if it exceeds the number of children or follows a 0 (0 = the path stops here); −1 if none is.
    """
    n, K = digits.shape
    found = np.zeros(n, np.int64)
    wrong = np.full(n, -1, np.int64)
    for i in range(n):
        node = 0
        stopped = False
        for k in range(K):
            digit = digits[i, k]
            if digit == 0:
                stopped = True
            elif stopped or digit > start[node + 1] - start[node]:
                wrong[i] = k
                break
            else:
                node = children[start[node] + digit - 1]
        found[i] = node
    return found, wrong


@njit(cache=True, nogil=True)
def fill_keys(parent, digit, length, offsets, data):
    """data[offsets[i]:offsets[i + 1]] = the parent's key and the digit's own bytes; parents come first in preorder."""
    for i in range(1, len(parent)):
        start, up = offsets[i], parent[i]
        above = offsets[up + 1] - offsets[up]
        for k in range(above):
            data[start + k] = data[offsets[up] + k]
        n, rest = length[i], digit[i]
        for k in range(n - 1, -1, -1):
            data[start + above + k] = rest & 0xFF
            rest >>= 8
        if n > 1:
            data[start + above] |= (0xFF00 >> (n - 1)) & 0xFF
