"""Canonical codes of rooted trees themselves: equal code ⇔ isomorphic trees, labels and sibling order ignored.

The code is the walk around the tree in canonical (AHU) order: 1 for a step down, 0 for a step up, read as a binary
number. It has 2·(nodes − 1) bits, can be turned back into the tree, and orders trees of equal size.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np

from vpunn.errors import CodeError
from vpunn.hipaq.invariants import Catalogue, Invariants
from vpunn.padic import show_integer
from vpunn.tree import Tree

#: Number of rooted trees with 1, 2, … nodes (OEIS A000081).
ROOTED_TREE_COUNTS = (1, 1, 2, 4, 9, 20, 48, 115, 286, 719)


def tree_code(tree: Tree) -> int:
    """The canonical code of a rooted tree as an integer; O(n log n).

    >>> star, chain = Tree.from_parents([-1, 0, 0, 0]), Tree.from_parents([-1, 0, 1, 2])
    >>> bin(tree_code(star)), bin(tree_code(chain))
    ('0b1101010', '0b1111000')
    >>> tree_code(Tree.from_parents([3, 3, 0, -1])) == tree_code(Tree.from_parents([-1, 0, 1, 0]))
    True

    The leading 1 marks the start, so that the number also says how long the walk is.
    """
    return int("1" + tree_word(tree), 2)


def tree_word(tree: Tree) -> str:
    """The walk as a string of 1 (down) and 0 (up); the empty string for a single node."""
    depth = tree.canonical().depth
    # Between consecutive nodes of a preorder the walk climbs depth[i] − depth[i+1] + 1 steps, then goes down one.
    climbs = np.append(depth[:-1] - depth[1:] + 1, depth[-1])
    return "".join("0" * int(up) + "1" for up in climbs[:-1]) + "0" * int(climbs[-1])


def tree_from_code(code: int) -> Tree:
    """The canonical tree of a code, the inverse of `tree_code`; a number that is no code is an error.

    >>> tree_from_code(0b1101010)
    Tree(4 nodes, 3 leaves, depth 1, branching ≤ 3)
    """
    if not isinstance(code, int | np.integer) or isinstance(code, bool) or code < 1:
        raise CodeError(f"{code!r} is the code of no tree; codes are whole numbers from 1.")
    code = int(code)
    steps = np.array([1 if bit == "1" else -1 for bit in bin(code)[3:]], np.int64)
    height = np.cumsum(steps)
    if (height < 0).any() or (len(height) and height[-1] != 0):
        walk = bin(code)[3:] if code < 2**64 else "…"
        raise CodeError(f"{show_integer(code)} is the code of no tree: its walk {walk!r} does not end at the root.")
    tree = _tree_of_levels([0, *height[steps == 1].tolist()]).canonical()
    if tree_code(tree) != code:
        other = show_integer(tree_code(tree))
        raise CodeError(
            f"{show_integer(code)} walks around a tree whose siblings are not in canonical order; its code is {other}."
        )
    return tree


def rooted_trees(n: int) -> Iterator[Tree]:
    """Every rooted tree with n nodes once (up to isomorphism), by Beyer and Hedetniemi's level sequences.

    >>> [sum(1 for _ in rooted_trees(n)) for n in range(1, 8)]
    [1, 1, 2, 4, 9, 20, 48]
    """
    levels = list(range(n))
    while True:
        yield _tree_of_levels(levels)
        # The last node deeper than 1 moves up one level, and the piece from its new sibling on repeats to the end.
        last = max((i for i, level in enumerate(levels) if level > 1), default=0)
        if not last:
            return
        above = max(i for i in range(last) if levels[i] == levels[last] - 1)
        period = last - above
        for i in range(last, n):
            levels[i] = levels[i - period]


def _tree_of_levels(levels: list[int]) -> Tree:
    """The tree whose nodes have these depths in preorder: the parent is the latest node one level up."""
    latest: dict[int, int] = {}
    parent = []
    for node, level in enumerate(levels):
        parent.append(latest.get(level - 1, -1))
        latest[level] = node
    return Tree.from_parents(parent)


#: A cascade that describes a tree's shape coarsely before the exact code settles it.
TREE_CASCADE: dict[str, Callable[[Tree], Hashable]] = {
    "nodes": lambda tree: tree.n_nodes,
    "depth": lambda tree: tree.max_depth,
    "leaves": lambda tree: tree.n_leaves,
    "widths": lambda tree: tuple(np.bincount(tree.depth).tolist()),
    "branching": lambda tree: tuple(np.sort(tree.n_children)[::-1].tolist()),
    "sizes": lambda tree: tuple(np.sort(tree.size)[::-1].tolist()),
    "AHU code": tree_code,
}


def tree_catalogue(max_nodes: int = 10) -> Catalogue:
    """All rooted trees up to a size; the last digit is the complete invariant, so no tie is left."""
    trees: list[Any] = [tree for n in range(1, max_nodes + 1) for tree in rooted_trees(n)]
    return Invariants(TREE_CASCADE).catalogue(trees, names=[tree_code(tree) for tree in trees])
