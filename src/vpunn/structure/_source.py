"""What an analysis looks at: a tree, rows of digits, or a model that gives either."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vpunn.codes import tree_of_digits
from vpunn.errors import VpunnError
from vpunn.padic import code_prime
from vpunn.tree import Tree


class Coded(NamedTuple):
    """Points with digits: the tree of their prefixes, the node at which each point ends, and each node's digit as written.

    A tree's points are its leaves. Several rows of digits may end at one node (they are equal), and a row may end where
    others go on.
    """

    tree: Tree
    nodes: np.ndarray
    digit: np.ndarray
    p: int
    named: bool = True  #: whether the tree's labels mean something; rows of digits have none

    def name_of(self, node: int) -> str:
        """What people call a node: its name, or the digit that leads to it."""
        return str(self.tree.names[node]) if self.named else f"digit {self.digit[node]}"

    @property
    def ends(self) -> np.ndarray:
        """The nodes at which at least one point ends."""
        found: np.ndarray = np.unique(self.nodes)
        return found


def coded(source: Any) -> Coded:
    """The points of a tree, of a table of digits (n, K), or of a model.

    Digits are those of the package's codes: 1, 2, … name a child and 0 says that the path has stopped. A model either has a
    method ``digit_rows()`` that gives such rows, or a tree (``tree_`` or ``tree``), with ``node`` where its items stand.
    """
    if isinstance(source, Tree):
        return _of_tree(source, source.leaves)
    if hasattr(source, "digit_rows"):
        return _of_digits(source.digit_rows())
    for name in ("tree_", "tree"):
        tree = getattr(source, name, None)
        if isinstance(tree, Tree):
            return _of_tree(tree, getattr(source, "node", tree.leaves))
    if hasattr(source, "fit"):
        raise VpunnError(f"this {type(source).__name__} has no tree and no digits yet; fit it first.")
    return _of_digits(source)


def _of_tree(tree: Tree, nodes: np.ndarray) -> Coded:
    return Coded(tree, np.asarray(nodes, np.int64), tree.digit, code_prime(tree.max_branching))


def _of_digits(rows: Any) -> Coded:
    found = tree_of_digits(rows)
    return Coded(*found, code_prime(int(found.digit.max())), named=False)
