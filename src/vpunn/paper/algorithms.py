"""Algorithms 1–3 of the paper to the letter with what they lose, other ways to write a path, and one-line names of its Table 6."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from vpunn._types import HasTree, Label
from vpunn.codes import PadicCode
from vpunn.errors import CodeError, TreeError
from vpunn.padic import check_prime, code_prime, from_radix, next_prime
from vpunn.tree import IntArray, Nodes, Tree


@dataclass
class PaperTree:
    """What Algorithm 1 fills: ``children``, ``parent_of``, ``sibling_index`` (from 0), ``all_leaves``, ``leaf_depths``.

    ``visits`` counts calls; on a graph with several parents nodes are visited again and the last parent wins, so
    ``all_leaves`` may hold a leaf twice and ``leaf_depths`` may be stale (AUDIT E-13).
    """

    root: Hashable
    children: dict[Hashable, list[Hashable]] = field(default_factory=dict)
    parent_of: dict[Hashable, Hashable] = field(default_factory=dict)
    sibling_index: dict[Hashable, int] = field(default_factory=dict)
    all_leaves: list[Hashable] = field(default_factory=list)
    leaf_depths: dict[Hashable, int] = field(default_factory=dict)
    visits: int = 0

    @property
    def K(self) -> int:
        """The largest leaf depth, in edges."""
        return max(self.leaf_depths.values(), default=0)

    @property
    def p(self) -> int:
        """next_prime(B_max + 1), read as "the smallest prime ≥"."""
        return next_prime(max((len(kids) for kids in self.children.values()), default=0) + 1)


def build_tree(root: Any, sorted_hyponyms: Callable[[Any], Iterable[Hashable]] | None = None) -> PaperTree:
    """Algorithm 1: walk down from ``root`` and record children, parents, sibling indices, leaves and their depths.

    ``sorted_hyponyms(node)`` lists the children; a `Tree` can be given instead of both, whose labels are then the nodes. The
    recursion of the paper is a stack here, in the same order; a cycle is an error. O(visits + Σ leaf depths).

    >>> found = build_tree(Tree.from_parents([-1, 0, 0, 1, 1], labels=["root", "A", "B", "A0", "A1"]))
    >>> found.all_leaves, found.sibling_index["A1"], found.K, found.p
    (['A0', 'A1', 'B'], 1, 2, 3)
    """
    if isinstance(root, Tree):
        tree = root
        if len(set(tree.labels.tolist())) < tree.n_nodes:
            raise TreeError("Algorithm 1 tells nodes apart by their labels, and this tree has a label twice.")
        start, ids = tree.child_index
        below = {
            label: tree.labels[ids[start[i] : start[i + 1]]].tolist() for i, label in enumerate(tree.labels.tolist())
        }
        root, sorted_hyponyms = tree.labels[0], below.__getitem__
    if sorted_hyponyms is None:
        raise TreeError("build_tree takes a Tree, or a root and a function that lists the children of a node.")
    found = PaperTree(root)
    stack: list[tuple[Hashable, Hashable, int]] = [(root, None, 0)]
    above: set[Hashable] = set()
    while stack:
        node, parent, index = stack.pop()
        if index < 0:  # everything below this node is done
            above.discard(node)
            continue
        if node in above:
            raise TreeError(f"the hierarchy has a cycle through {node!r}; Algorithm 1 would not end.")
        if node != root:
            found.parent_of[node], found.sibling_index[node] = parent, index
        found.visits += 1
        kids = found.children[node] = list(sorted_hyponyms(node))
        if not kids:
            depth, here = 0, node
            while here != root:
                here, depth = found.parent_of[here], depth + 1
            found.all_leaves.append(node)
            found.leaf_depths[node] = depth
        above.add(node)
        stack.append((node, None, -1))
        stack.extend((child, node, at) for at, child in reversed(list(enumerate(kids))))
    return found


def encode_path(found: PaperTree, node: Hashable) -> int:
    """Algorithm 2: climb from a node, append sibling indices, pad with zeros, Σ digits[k]·p^k, so the *leaf* digit is at p⁰.

    Neither injective nor isometric (AUDIT E-01, E-02); `PadicCode` is both.

    >>> found = build_tree(Tree.from_parents([-1, 0, 0, 1, 1], labels=["root", "A", "B", "A0", "A1"]))
    >>> [encode_path(found, leaf) for leaf in found.all_leaves]
    [0, 1, 1]
    """
    if node not in found.children:
        raise TreeError(f"there is no node {node!r} in this tree.")
    code, weight = 0, 1
    while node != found.root:
        code += found.sibling_index[node] * weight
        weight *= found.p
        node = found.parent_of[node]
    return code


def decode(found: PaperTree, code: int | list[int]) -> Hashable:
    """Algorithm 3: from the root, for k = K−1 down to 0 take child digits[k]; the first leaf met is the answer.

    A code (or its K digits, leaf digit first) of a leaf above depth K starts with padding zeros, which Algorithm 3 reads as
    first children, so it walks elsewhere; a digit without a child is an error here.

    >>> found = build_tree(Tree.from_parents([-1, 0, 0, 1, 1], labels=["root", "A", "B", "A0", "A1"]))
    >>> decode(found, 0), decode(found, 1)                      # 1 is the code of A1 and of B
    ('A0', 'A1')
    """
    p, K = found.p, found.K
    digits = [code // p**k % p for k in range(K)] if isinstance(code, int | np.integer) else list(code)
    if len(digits) != K:
        raise CodeError(f"Algorithm 3 reads K = {K} digits, got {len(digits)}.")
    node = found.root
    for k in range(K - 1, -1, -1):
        kids = found.children[node]
        if not kids:
            return node
        if not 0 <= digits[k] < len(kids):
            raise CodeError(f"digit {k} is {digits[k]} but {node!r}, reached by then, has {len(kids)} children.")
        node = kids[digits[k]]
    return node


def sparse_activation_path(source: HasTree, item: Label) -> list[Any]:
    """Labels of the balls χ_B that fire for an item (label or node id): its ancestor chain, root first. O(depth).

    ``source`` is a `Tree` or anything with one (a code, a network, a model).
    """
    from vpunn.explanations import find_node, tree_of

    tree = tree_of(source)
    return list(tree.labels[tree.ancestors(find_node(tree, item))])


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
    return ControlCode(p, wanted, from_radix(upward_digits(tree, wanted), np.full(tree.max_depth, p, np.int64)))


def upward_digits(tree: Tree, nodes: IntArray) -> np.ndarray:
    """The K digits of Algorithm 2, the node's own first and zeros on top."""
    # Position k from the node up is depth − 1 − k from the root down.
    climb = tree.depth[nodes][:, None] - 1 - np.arange(tree.max_depth)
    return np.where(climb >= 0, np.take_along_axis(PadicCode(tree).digits(nodes), np.maximum(climb, 0), axis=1) - 1, 0)


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
