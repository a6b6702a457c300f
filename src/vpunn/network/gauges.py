"""Gauges: how a function on leaves is extended to internal nodes, which fixes every coefficient (AUDIT E-35, S11).

Adding t to a ball's coefficient and taking t from each of its children changes no leaf value, so coefficients mean
nothing until the freedom is fixed. A gauge fixes it by naming the value G(B) of each internal node; then

    c_root = G(root),   c_B = G(B) − G(parent B).

- ``vdp``: G(B) is the value at the first leaf of B. First children get coefficient 0, so at most #leaves coefficients
  are non-zero: van der Put's.
- ``mean``: G(B) is the plain mean over B's children, so sibling coefficients sum to zero (analysis of variance on
  the tree; for attribution). It divides, so it needs real or rational values.
- ``root-zero``: as ``vdp``, but G(root) = 0: the constant moves into the root's children.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from vpunn.errors import VpunnError, check_choice
from vpunn.network.rings import Ring
from vpunn.tree import Tree

Gauge = Literal["vdp", "mean", "root-zero"]


def extend_to_nodes(tree: Tree, leaf_values: np.ndarray, gauge: Gauge, ring: Ring) -> np.ndarray:
    """Node values G of a gauge from values on ``tree.leaves``; O(n), exact in exact rings."""
    check_choice("gauge", gauge, get_args(Gauge))
    if gauge == "mean":
        if ring.kind not in ("real", "rational"):
            raise VpunnError(
                f"the mean gauge divides by the number of children, which leaves the {ring.kind} numbers; "
                "use gauge='vdp', or values='rational'."
            )
        return _mean_over_children(tree, leaf_values)
    # Preorder goes down through first children, so the first leaf of B is the first leaf at or after B.
    values = leaf_values[np.searchsorted(tree.leaves, np.arange(tree.n_nodes))]
    if gauge == "root-zero":
        if tree.n_nodes == 1:
            raise VpunnError("a tree of one node has no children to carry its value; gauge='root-zero' needs some.")
        values[0] = ring.zero
    return values


def _mean_over_children(tree: Tree, leaf_values: np.ndarray) -> np.ndarray:
    """Bottom up, level by level; in level order the children of one node stand together."""
    values = np.empty((tree.n_nodes, *leaf_values.shape[1:]), leaf_values.dtype)
    values[tree.leaves] = leaf_values
    start, ids = tree.levels
    for k in range(tree.max_depth, 0, -1):
        level = ids[start[k] : start[k + 1]]
        parents, first = np.unique(tree.parent[level], return_index=True)
        count = tree.n_children[parents].astype(values.dtype if values.dtype != object else object)
        values[parents] = np.add.reduceat(values[level], first, axis=0) / count.reshape(-1, *[1] * (values.ndim - 1))
    return values


def differences(tree: Tree, node_values: np.ndarray, ring: Ring) -> np.ndarray:
    """Coefficients of node values: c_root = G(root), c_B = G(B) − G(parent B)."""
    coefficients = node_values.copy()
    coefficients[1:] -= node_values[tree.parent[1:]]
    return ring.reduce(coefficients)


def lossless_depths(tree: Tree) -> np.ndarray:
    """Depths that must stay: 0, and every depth at which some node has a sibling (H(digit | prefix) > 0; S20).

    At any other depth every node is an only child, its ball holds the same leaves as its parent's, and the layer can
    be folded into the one above without changing a single leaf value.

    >>> lossless_depths(Tree.from_parents([-1, 0, 1, 1])).tolist()
    [0, 2]
    """
    has_sibling = tree.digit > 1
    return np.unique(np.concatenate([[0], tree.depth[has_sibling]]))


def check_depths(tree: Tree, depths: Sequence[int] | np.ndarray) -> np.ndarray:
    """A depth schedule 0 ≤ D₀ < D₁ < … ≤ K as an array, after checking it."""
    schedule = np.asarray(depths)
    good = schedule.ndim == 1 and len(schedule) > 0 and schedule.dtype.kind in "iu"
    if not good or (np.diff(schedule) <= 0).any() or schedule[0] < 0 or schedule[-1] > tree.max_depth:
        raise VpunnError(f"a depth schedule must rise strictly within 0..{tree.max_depth}, got {schedule.tolist()!r}.")
    return schedule
