"""Whole-tree sweeps: down (parents to children) and up (children to parents), one array operation per depth.

A tree of depth K costs K array operations; chains deeper than `DEEP` go through the compiled twin instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from vpunn.tree._tree_arrays import Nodes, TreeArrays


def nearest_marked_ancestor(tree: TreeArrays, marked: np.ndarray) -> np.ndarray:
    """For every node the closest *proper* ancestor with ``marked`` set, or −1. O(n), any depth."""
    from vpunn.tree import _kernels

    return np.asarray(_kernels.nearest_marked(tree.parent, np.ascontiguousarray(marked)))


def sweep_down(tree: TreeArrays, coefficients: np.ndarray) -> np.ndarray:
    """Sum along every ancestor chain: F(x) = Σ_{B∋x} c_B for all nodes, float or integer, any trailing shape."""
    from vpunn.tree import _kernels

    values = np.array(coefficients)
    if values.dtype == object:  # exact numbers (Fraction, big integers): the same recurrence, level by level
        start, ids = tree.levels
        for k in range(1, tree.max_depth + 1):
            level = ids[start[k] : start[k + 1]]
            values[level] += values[tree.parent[level]]
        return values
    flat = values.reshape(len(values), -1)
    _kernels.add_parents(tree.parent, flat)
    return flat.reshape(values.shape)


def path_lengths(tree: TreeArrays, u: Nodes, v: Nodes) -> np.ndarray:
    """Patristic distance of pairs of nodes: the sum of the column ``length`` over the branches between them. O(nodes + pairs).

    A node's length is that of the branch above it; the root's does not count. NaN where a branch in between has none, or
    the sum is too large.

    >>> from vpunn import Tree
    >>> tree = Tree.from_parents([-1, 0, 0, 1], columns={"length": [np.nan, 1.0, 2.5, 0.5]})
    >>> path_lengths(tree, [3, 3], [2, 1])
    array([4. , 3.5])
    """
    length = np.array(tree.columns["length"], dtype=float)
    length[0] = 0.0
    known = np.isfinite(length)
    below = sweep_down(tree, np.where(known, length, 0.0))
    gaps = sweep_down(tree, (~known).astype(float))
    u, v = np.atleast_1d(u), np.atleast_1d(v)
    top = np.atleast_1d(tree.lca(u, v))
    with np.errstate(over="ignore", invalid="ignore"):  # of lengths whose sum no float holds: NaN
        found = below[u] + below[v] - 2 * below[top]
    return np.where(gaps[u] + gaps[v] - 2 * gaps[top] > 0, np.nan, found)


def sweep_up(tree: TreeArrays, values: np.ndarray) -> np.ndarray:
    """Sum over every subtree, children added into parents one by one (no running total, so floats stay accurate)."""
    from vpunn.tree import _kernels

    sums = np.array(values)
    flat = sums.reshape(len(sums), -1)
    _kernels.add_children(tree.parent, flat)
    return flat.reshape(sums.shape)


def depth_first(tree: TreeArrays, enter: np.ndarray, leave: np.ndarray) -> str:
    """The texts of entering and of leaving every node, joined in the order of a depth-first walk, without recursion.

    Node ``i`` (preorder) is entered as event ``2·i − depth`` and left as event ``2·(i + size) − depth − 1`` of the 2n events.
    """
    ids = np.arange(tree.n_nodes, dtype=np.int64)
    events = np.empty(2 * tree.n_nodes, object)
    events[2 * ids - tree.depth] = enter
    events[2 * (ids + tree.size) - tree.depth - 1] = leave
    return "".join(events.tolist())
