"""The tree as the classifier sees it: grown so that every answer is a leaf, and cut down to what rows can tell apart.

`Grown` is the given tree in which every inner node has one more child, its *stop*: "the answer is this node itself". So every
possible answer is a leaf (a *place*), every other block is a ball of places, and no expert has to know inner nodes from leaves.

`Occupied` is what experts work on: the places that have rows, and the balls at which rows part. A ball with rows below one child
only holds the same rows as that child, so both are one block here. It has fewer than twice as many blocks as there are classes,
however many nodes the tree has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vpunn.hipan._kernel import at, kernel
from vpunn.tree import Tree


class Grown(NamedTuple):
    """Arrays in preorder: block ``b`` is the slice ``[b, b + size[b])``."""

    parent: np.ndarray  # (blocks,) the root is its own parent
    size: np.ndarray  # (blocks,) 1: a place
    depth: np.ndarray  # (blocks,)
    stop: np.ndarray  # (blocks,) where an answer stays that goes no deeper: the stop of a ball, a place itself
    place: np.ndarray  # (nodes,) the place of every node of the given tree
    node: np.ndarray  # (blocks,) the node of the given tree

    @classmethod
    def of(cls, tree: Tree) -> Grown:
        """O(nodes)."""
        given, nodes = np.asarray(tree.size, np.int64), np.arange(tree.n_nodes)
        inner = given > 1
        before = np.concatenate([[0], np.cumsum(inner)])  # stops in front of a node
        ball = nodes + before[:-1]
        place = ball + inner
        blocks = tree.n_nodes + int(before[-1])
        size, parent = np.ones(blocks, np.int32), np.zeros(blocks, np.int32)
        depth, stop, node = np.zeros(blocks, np.int32), np.arange(blocks, dtype=np.int32), np.zeros(blocks, np.int32)
        size[ball] = given + before[nodes + given] - before[:-1]
        parent[ball[1:]] = ball[np.asarray(tree.parent)[1:]]
        parent[place[inner]] = ball[inner]
        depth[ball] = tree.depth
        depth[place[inner]] = np.asarray(tree.depth)[inner] + 1
        stop[ball] = place
        node[ball], node[place] = nodes, nodes
        return cls(parent, size, depth, stop, place.astype(np.int32), node)

    @property
    def blocks(self) -> int:
        return len(self.parent)

    @property
    def is_place(self) -> np.ndarray:
        return np.asarray(self.size == 1)

    @property
    def is_stop(self) -> np.ndarray:
        """Places that stand for an inner node."""
        return np.asarray(
            (self.size == 1) & (self.stop[self.parent] == np.arange(self.blocks)) & (self.size[self.parent] > 1)
        )

    def below(self, value: np.ndarray) -> np.ndarray:
        """The sum over every block of a value per block that is nought but at places. O(blocks)."""
        total = np.concatenate([[0.0], np.cumsum(value, dtype=np.float64)])
        start = np.arange(self.blocks)
        return np.asarray(total[start + self.size] - total[start])


class Occupied(NamedTuple):
    """Arrays in preorder over the blocks whose rows differ; leaves are the places with rows, in their order."""

    parent: np.ndarray  # (blocks,) the root is its own parent
    size: np.ndarray  # (blocks,) length of the slice; 1: a leaf
    depth: np.ndarray  # (blocks,)
    branch: np.ndarray  # (blocks,) the ancestor just below the root
    first_leaf: np.ndarray  # (blocks + 1,) leaves in front of the block; its own leaves are a slice as well
    leaf: np.ndarray  # (leaves,) the block of every leaf
    place: np.ndarray  # (leaves,) its place in the grown tree
    is_stop: np.ndarray  # (leaves,) whether that stands for an inner node
    of_block: (
        np.ndarray
    )  # (blocks of the grown tree,) the block here that holds the same rows; without any, the next above

    @classmethod
    def of(cls, tree: Grown, has_rows: np.ndarray) -> Occupied:
        """``has_rows``: of every block of the grown tree that is a place. O(blocks)."""
        n = tree.below(has_rows)
        # a block stands for itself if it is a place with rows, or if its rows part below it: no child has all of them
        full = np.zeros(tree.blocks, bool)
        child = np.arange(1, tree.blocks)
        full[tree.parent[child[n[child] == n[tree.parent[child]]]]] = True
        kept = (n > 0) & ~full & (~tree.is_place | has_rows)
        kept[0] = True
        number = np.cumsum(kept) - 1
        blocks = int(kept.sum())
        original = np.flatnonzero(kept)
        of_block = np.zeros(tree.blocks, np.int32)
        parent, depth = np.zeros(blocks, np.int32), np.zeros(blocks, np.int32)
        branch = np.arange(blocks, dtype=np.int32)
        _links(tree.parent, tree.size, n, kept, number, of_block, parent, depth, branch)
        size = number[original + tree.size[original] - 1] - number[original] + 1
        leaf = np.flatnonzero(size == 1)
        first_leaf = np.concatenate([[0], np.cumsum(size == 1)])
        return cls(
            parent,
            size.astype(np.int32),
            depth,
            branch,
            first_leaf.astype(np.int32),
            leaf.astype(np.int32),
            original[leaf].astype(np.int32),
            tree.is_stop[original[leaf]],
            of_block,
        )

    @property
    def blocks(self) -> int:
        return len(self.parent)

    @property
    def is_leaf(self) -> np.ndarray:
        return np.asarray(self.size == 1)

    def sums(self, value: np.ndarray) -> np.ndarray:
        """Sums over every block of one value per leaf. O(blocks)."""
        total = np.concatenate([np.zeros((1, *value.shape[1:])), np.cumsum(value, 0, dtype=np.float64)])
        return np.asarray(total[self.first_leaf[np.arange(self.blocks) + self.size]] - total[self.first_leaf[:-1]])

    def levels(self) -> list[np.ndarray]:
        """Blocks by depth, the root first: what a sweep from above takes at a time."""
        order = np.argsort(self.depth, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.depth))[:-1])


class Places(NamedTuple):
    """Where rows lie, and where answers may: the place of every row, rows per place, whether answers may lie where no row does, and
    how many places of every block may be the answer."""

    grown: Grown
    place: np.ndarray
    rows_at: np.ndarray
    novelty: bool
    room: np.ndarray


@kernel
def _links(up, size, n, kept, number, of_block, parent, depth, branch):
    """The kept block above every block; a block that is not kept is the one kept block below it that has all its rows."""
    for b in range(len(up)):
        if kept[b]:
            k = number[b]
            of_block[at(b)] = k
            if k > 0:
                p = up[b]
                while not kept[at(p)]:
                    p = up[at(p)]
                p = number[at(p)]
                parent[at(k)], depth[at(k)] = p, depth[at(p)] + 1
                if p > 0:
                    branch[at(k)] = branch[at(p)]
    for b in range(len(up) - 1, -1, -1):  # children stand behind: from below, what holds the same rows
        if not kept[b]:
            of_block[b] = -1
    for b in range(len(up) - 1, 0, -1):
        if of_block[b] >= 0 and of_block[at(up[b])] < 0 and n[b] == n[at(up[b])]:
            of_block[at(up[b])] = of_block[b]
    for b in range(1, len(up)):  # without rows: what stands above
        if of_block[b] < 0:
            of_block[b] = of_block[at(up[b])]
