"""Names for nodes that have none: inner nodes of a phylogeny rarely do, and every message, path and picture needs one."""

from __future__ import annotations

import re
from collections.abc import Hashable

import numpy as np

from vpunn._arrays import object_array
from vpunn.tree._tree import Tree

#: What a stand-in looks like.
_MADE = re.compile(r" … |^[0-9]+ above ")


def stand_in_names(tree: Tree) -> np.ndarray:
    """What every node is called if it has no name of its own, as an object array. O(nodes).

    An inner node is a slice of the leaves, so it is called by the first and the last of them; one with a single child counts
    the steps down to what is below; a leaf is counted.

    >>> stand_in_names(Tree.from_parents([-1, 0, 1, 1, 0, 4], labels=["", "", "owl", "emu", "", ""])).tolist()
    ['owl … tip 3', 'owl … emu', 'tip 1', 'tip 2', '1 above tip 3', 'tip 3']
    """
    labels, is_leaf = tree.labels.tolist(), np.asarray(tree.is_leaf)
    names = np.full(tree.n_nodes, None, object)
    leaves = tree.leaves
    names[leaves] = object_array([f"tip {k}" for k in range(1, len(leaves) + 1)])
    tips = [
        str(name) if _is_empty(label := labels[i]) else str(label)
        for i, name in zip(leaves, names[leaves], strict=True)
    ]
    inner = np.flatnonzero(~is_leaf)
    before = np.concatenate([[0], np.cumsum(is_leaf)])
    first, last = before[inner], before[inner + tree.size[inner]] - 1
    names[inner] = object_array([f"{tips[a]} … {tips[b]}" for a, b in zip(first.tolist(), last.tolist(), strict=True)])
    below: dict[int, tuple[int, str]] = {}  # of nodes with one child: how far below, and what, is called by a name
    for node in inner[tree.n_children[inner] == 1][::-1].tolist():
        child = node + 1
        own = labels[child]
        unnamed = _is_empty(own) or own == names[child]
        steps, end = below[child] if unnamed and child in below else (0, str(names[child] if _is_empty(own) else own))
        below[node] = (steps + 1, end)
        names[node] = f"{steps + 1} above {end}"
    return names


def with_names(tree: Tree) -> Tree:
    """The tree with `stand_in_names` where labels are empty; the tree itself if none is."""
    empty = np.array([_is_empty(label) for label in tree.labels.tolist()], bool)
    if not empty.any():
        return tree
    labels = tree.labels.astype(object)
    labels[empty] = stand_in_names(tree)[empty]
    return tree.relabel(labels)


def unnamed(tree: Tree) -> np.ndarray:
    """Which inner nodes carry a stand-in name: they have none in a file, and none is worth drawing."""
    if tree.labels.dtype.kind in "iuf":
        return np.zeros(tree.n_nodes, bool)
    stand_in = stand_in_names(tree)
    same = [_is_empty(label) or label == name for label, name in zip(tree.labels.tolist(), stand_in, strict=True)]
    return np.asarray(np.array(same, bool) & ~tree.is_leaf)


def named_paths(tree: Tree, nodes: np.ndarray) -> list[tuple[Hashable, ...]]:
    """Per node the labels on the way down to it, without the stand-ins that nobody wrote; a node itself is always named.

    >>> tree = with_names(Tree.from_parents([-1, 0, 1, 2, 2], labels=["", "bird", "", "owl", "emu"]))
    >>> named_paths(tree, [3, 2])
    [('bird', 'owl'), ('bird', 'owl … emu')]
    """
    chains = [tree.ancestors(int(node)) for node in nodes]
    paths = [tuple(tree.labels[chain].tolist()) for chain in chains]
    if not any(isinstance(label, str) and _MADE.search(label) for path in paths for label in path):
        return paths
    bare = unnamed(tree)
    return [
        tuple(label for label, node in zip(path, chain.tolist(), strict=True) if node == chain[-1] or not bare[node])
        for path, chain in zip(paths, chains, strict=True)
    ]


def _is_empty(label: object) -> bool:
    return label is None or (isinstance(label, str) and not label)
