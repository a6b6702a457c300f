"""Other ways to write a path, and what they lose: the paper's Algorithm 2 to the letter, and codes of leaves alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vpunn.codes import PadicCode
from vpunn.errors import CodeError
from vpunn.padic import check_prime, code_prime, from_radix, next_prime
from vpunn.tree import IntArray, Nodes, Tree


@dataclass(frozen=True, eq=False)
class ControlCode:
    """Codes that are not promised to be injective, and how often they collide."""

    p: int
    nodes: IntArray
    codes: np.ndarray

    @cached_property
    def n_distinct(self) -> int:
        """Number of different codes."""
        return len(Counter(self.codes.tolist()))

    @cached_property
    def colliding(self) -> IntArray:
        """The nodes that share their code with another one."""
        count = Counter(self.codes.tolist())
        return np.asarray(
            self.nodes[np.fromiter((count[code] > 1 for code in self.codes.tolist()), bool, len(self.codes))]
        )


def paper_code(tree: Tree, nodes: Nodes | None = None) -> ControlCode:
    """The paper's Algorithm 2 to the letter, as a negative control: leaf digit at p⁰, digits from 0, zeros on top.

    x(node) = (child index) + p·x(parent). It is neither injective nor isometric (E-01, E-02): a first child deep down and
    the padding of a shallow leaf look alike. ``nodes`` defaults to the leaves. Use `PadicCode` for anything real.

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1], labels=["root", "A", "B", "A0", "A1"])
    >>> control = paper_code(tree)
    >>> dict(zip(tree.labels[control.nodes], control.codes)), control.n_distinct
    ({'A0': 0, 'A1': 1, 'B': 1}, 2)
    >>> tree.labels[control.colliding].tolist()
    ['A1', 'B']
    """
    wanted = tree.leaves if nodes is None else np.atleast_1d(tree.check_nodes(nodes))
    p = code_prime(tree.max_branching)
    digits = PadicCode(tree, p).digits(wanted)
    steps = np.arange(tree.max_depth)
    climb = tree.depth[wanted][:, None] - 1 - steps  # position k from the node up is depth − 1 − k from the root down
    upward = np.take_along_axis(digits, np.maximum(climb, 0), axis=1) - 1
    return ControlCode(p, wanted, from_radix(np.where(climb >= 0, upward, 0), np.full(tree.max_depth, p, np.int64)))


def leaf_code(tree: Tree, p: int | None = None) -> ControlCode:
    """Leaf-only codes with digits from 0, root first: isometric and injective on *leaves*, with a prime ≥ max_branching.

    Inner nodes have no code of their own here (a node and its first child would share one; S7), which is why the prime
    can be smaller than that of `PadicCode`.

    >>> leaf_code(Tree.from_parents([-1, 0, 0, 1, 1])).codes.tolist()
    [0, 2, 1]
    """
    least = max(2, tree.max_branching)
    prime = next_prime(least) if p is None else check_prime(p)
    if prime < least:
        raise CodeError(f"p = {p} is too small for {tree.max_branching} children; take a prime ≥ {least}.")
    digits = np.maximum(PadicCode(tree).digits(tree.leaves) - 1, 0)
    return ControlCode(prime, tree.leaves, from_radix(digits, np.full(tree.max_depth, prime, np.int64)))
