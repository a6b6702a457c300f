"""Whole-tree sweeps: down (parents to children) and up (children to parents), one array operation per depth.

A tree of depth K costs K array operations; chains deeper than `DEEP` go through the compiled twin instead.
"""

from __future__ import annotations

import numpy as np

from vpunn.tree._tree import Tree


def nearest_marked_ancestor(tree: Tree, marked: np.ndarray) -> np.ndarray:
    """For every node the closest *proper* ancestor with ``marked`` set, or −1. O(n), any depth."""
    from vpunn.tree import _kernels

    return np.asarray(_kernels.nearest_marked(tree.parent, np.ascontiguousarray(marked)))


def sweep_down(tree: Tree, coefficients: np.ndarray) -> np.ndarray:
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


def sweep_up(tree: Tree, values: np.ndarray) -> np.ndarray:
    """Sum over every subtree, children added into parents one by one (no running total, so floats stay accurate)."""
    from vpunn.tree import _kernels

    sums = np.array(values)
    flat = sums.reshape(len(sums), -1)
    _kernels.add_children(tree.parent, flat)
    return flat.reshape(sums.shape)
