"""Loops that run as they stand on small trees, where loading the compiler would take a hundred times longer than the work.

Plain Python on plain arrays; `_kernels` and `codes/_kernels` compile the same functions, so there is one source and one answer.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

#: Trees of at most this many nodes are walked in Python (milliseconds) unless the compiler is loaded already.
SMALL = 2000


def in_python(size: int) -> bool:
    """Whether so little work is done in Python."""
    return size <= SMALL and "numba" not in sys.modules


def preorder(parent: np.ndarray, root: int) -> tuple[np.ndarray, ...]:
    """Walk the tree depth first without a stack: down to the first child, else right, else up.

    Returns ``order`` (input position of each preorder node) and the preorder arrays ``parent, depth, size, digit``.
    The walk covers fewer nodes than there are exactly when some nodes sit on a cycle; ``order`` is then shorter.
    """
    n = len(parent)
    first, right = np.full((2, n), -1, np.int32)
    order, up, depth, size, digit = arrays = [np.empty(n, np.int32) for _ in range(5)]
    walk: Any = preorder_walk
    if not in_python(n):
        from vpunn.tree import _kernels

        walk = _kernels.preorder_walk
    count = walk(parent, root, first, right, order, up, depth, size, digit)
    return tuple(array[:count] for array in arrays)


def preorder_walk(parent, root, first, right, order, up, depth, size, digit):  # type: ignore[no-untyped-def]
    """Fill the arrays; how many nodes were reached."""
    n = len(parent)
    for i in range(n - 1, -1, -1):  # backwards, so that siblings end up in input order
        a = parent[i]
        if a >= 0:
            right[i] = first[a]
            first[a] = i
    order[0], up[0], depth[0], digit[0] = root, -1, 0, 0
    count, here, node = 1, 0, root  # `here` is the preorder id of input node `node`
    while True:
        if first[node] >= 0:
            node = first[node]
            order[count], up[count], depth[count], digit[count] = node, here, depth[here] + 1, 1
            here = count
            count += 1
            continue
        while node != root and right[node] < 0:
            size[here] = count - here
            here = up[here]
            node = order[here]
        size[here] = count - here
        if node == root:
            break
        left = here
        node = right[node]
        order[count], up[count], depth[count], digit[count] = node, up[left], depth[left], digit[left] + 1
        here = count
        count += 1
    return count


def along_paths(parent, depth, values, nodes, out):  # type: ignore[no-untyped-def]
    """out[i, k] = values of node i's ancestor at depth k + 1 (the root is left out); shorter paths keep their padding."""
    for i in range(len(nodes)):
        node = nodes[i]
        for k in range(depth[node] - 1, -1, -1):
            out[i, k] = values[node]
            node = parent[node]


def descend(start, children, digits):  # type: ignore[no-untyped-def]
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
