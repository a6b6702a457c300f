"""Trees made from trees: new leaves, canonical sibling order, no unary nodes."""

from __future__ import annotations

import warnings

import numpy as np

from vpunn._types import Labels
from vpunn.errors import CodeChangeWarning, TreeError
from vpunn.padic import code_prime
from vpunn.tree._tree import Tree
from vpunn.tree._tree_arrays import Nodes
from vpunn.tree.sweeps import nearest_marked_ancestor


def insert_leaves(tree: Tree, parents: Nodes, labels: Labels) -> Tree:
    """See `Tree.insert`."""
    up = np.atleast_1d(tree.check_nodes(parents))
    names = [labels] if isinstance(labels, str | tuple) or np.ndim(labels) == 0 else list(labels)
    if len(up) != len(names):
        raise TreeError(f"insert needs one parent per new leaf: got {len(up)} parents and {len(names)} labels.")
    columns = {key: np.concatenate([value, _missing(value.dtype, len(up))]) for key, value in tree.columns.items()}
    start, extra = tree.extra_parents
    grown = Tree.from_parents(
        np.concatenate([tree.parent.astype(np.int64), up]),
        [*tree.labels.tolist(), *names],
        columns=columns,
        report=tree.report,
        extra_parents=(np.append(start, np.full(len(up), start[-1])), extra),
    )
    before, after = code_prime(tree.max_branching), code_prime(grown.max_branching)
    if after != before:
        warnings.warn(
            f"the largest branching grew from {tree.max_branching} to {grown.max_branching}, so the prime grows from "
            f"{before} to {after} and every integer code changes (digits stay); PadicCode(tree, p=…) with a larger "
            "prime from the start avoids this.",
            CodeChangeWarning,
            stacklevel=3,
        )
    return grown


def _missing(kind: np.dtype, count: int) -> np.ndarray:
    """What a column holds for a node nobody described: NaN, None or zero."""
    if kind.kind == "f":
        return np.full(count, np.nan, kind)
    return np.full(count, None, object) if kind == object else np.zeros(count, kind)


def canonical_order(tree: Tree) -> Tree:
    """See `Tree.canonical`. Shapes are compared by a 64-bit hash, and the hash is then *verified*: nodes with equal
    hashes must have equal multisets of child hashes, else another seed is tried. So the order is exact, not probable.
    """
    from vpunn.tree import _kernels

    for seed in range(1, 100):
        shape = _kernels.shape_hash(tree.parent, np.uint64(seed * 0x9E3779B97F4A7C15 % 2**64))
        if _shapes_consistent(tree, shape):
            break
    order = np.lexsort((shape, -tree.size))
    place = np.empty(tree.n_nodes, np.int64)
    place[order] = np.arange(tree.n_nodes)
    parent = np.where(tree.parent[order] < 0, -1, place[tree.parent[order]])
    return tree.take(parent, order)


def _shapes_consistent(tree: Tree, shape: np.ndarray) -> bool:
    """True if equal hashes imply equal child counts and sorted child hashes, hence (by induction) equal shapes."""
    start, ids = tree.child_index
    by_hash = ids[np.lexsort((shape[ids], tree.parent[ids]))]  # children of each node, sorted by hash
    _, first, group = np.unique(shape, return_index=True, return_inverse=True)
    twin = first[group]  # a representative node of each class
    if (tree.n_children != tree.n_children[twin]).any():
        return False
    inside = np.arange(len(ids)) - start[tree.parent[ids]]
    return bool((shape[by_hash] == shape[by_hash[start[twin[tree.parent[ids]]] + inside]]).all())


def collapse_unary(tree: Tree) -> Tree:
    """See `Tree.collapse_unary`. A node that is somebody's extra parent has more than one child and stays; the extra parents
    of a removed node go to the node that takes its place.
    """
    keep = (tree.n_children != 1) | (np.diff(tree.extra_children[0]) > 0)
    nodes = np.flatnonzero(keep)
    if len(nodes) == tree.n_nodes:
        return tree
    place = np.full(tree.n_nodes + 1, -1, np.int64)  # the extra last entry answers "no kept ancestor" (index −1)
    place[nodes] = np.arange(len(nodes))
    above = nearest_marked_ancestor(tree, keep)[nodes]
    said = f"removed {tree.n_nodes - len(nodes):,} nodes with a single child"
    start, ids = tree.extra_parents
    # In preorder the node that takes a removed one's place is the next that is kept.
    heir = nodes[np.searchsorted(nodes, np.repeat(np.arange(tree.n_nodes), np.diff(start)))] if len(ids) else ids
    order = np.argsort(heir, kind="stable")
    counts = np.concatenate([[0], np.cumsum(np.bincount(place[heir], minlength=len(nodes)))])
    columns = {key: value[nodes] for key, value in tree.columns.items()}
    return Tree.from_parents(
        place[above],
        tree.labels[nodes],
        columns=columns,
        report=(*tree.report, said),
        extra_parents=(counts, place[ids[order]]),
    )
