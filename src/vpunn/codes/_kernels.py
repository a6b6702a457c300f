"""Compiled walks between nodes and digits: up a path and down again. Imported on first use only, like `_kernels`."""

from numba import njit

from vpunn.tree import _loops

along_paths = njit(cache=True)(_loops.along_paths)
descend = njit(cache=True)(_loops.descend)


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
