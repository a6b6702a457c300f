"""Where a path can turn: the options of every ball as contiguous slots, children first, then "stop here".

A ball with c ≥ 2 options owns c consecutive slots, so its weights are a slice of one matrix. A ball with a single option
has no choice and no slots: its child has conditional probability 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vpunn.tree import Tree


class Slots(NamedTuple):
    """Slots of a tree. Choices (balls with at least two options) are numbered in preorder."""

    start: np.ndarray  #: (choices + 1) first slot of each choice
    ball: np.ndarray  #: (choices) the ball that chooses
    choice: np.ndarray  #: (slots) the choice a slot belongs to
    node: np.ndarray  #: (slots) the node a slot leads to; the ball itself for "stop here"
    slot: np.ndarray  #: (nodes) the slot that leads to a node from its parent, −1 where there is no choice
    stop_slot: np.ndarray  #: (nodes) the slot that stops at a node, −1 at leaves and where stopping is not allowed
    choice_of: np.ndarray  #: (nodes) the choice of a ball, −1 if it has none

    @property
    def n_slots(self) -> int:
        return len(self.choice)


def inner_answer_mask(tree: Tree, inner_answers: Any) -> np.ndarray:
    """Which inner nodes can be answers: none (False), all (True), or those listed by node id."""
    if isinstance(inner_answers, bool | np.bool_):
        return ~tree.is_leaf if inner_answers else np.zeros(tree.n_nodes, bool)
    nodes = tree.check_nodes(inner_answers)
    mask = np.zeros(tree.n_nodes, bool)
    mask[nodes] = True
    mask &= ~tree.is_leaf
    return mask


def slots_of(tree: Tree, inner_answers: np.ndarray) -> Slots:
    """Slots for a tree whose inner nodes in ``inner_answers`` (a mask) can be answers. O(nodes)."""
    options = tree.n_children.astype(np.int64) + inner_answers
    ball = np.flatnonzero(options >= 2)
    start = np.concatenate([[0], np.cumsum(options[ball])])
    choice_of = np.full(tree.n_nodes, -1, np.int64)
    choice_of[ball] = np.arange(len(ball))
    slot = np.full(tree.n_nodes, -1, np.int64)
    up = tree.parent[1:]
    chosen = np.flatnonzero(choice_of[up] >= 0)
    slot[chosen + 1] = start[choice_of[up[chosen]]] + tree.digit[chosen + 1] - 1
    stop_slot = np.full(tree.n_nodes, -1, np.int64)
    here = np.flatnonzero(inner_answers)
    stop_slot[here] = start[choice_of[here]] + tree.n_children[here]
    node = np.empty(int(start[-1]), np.int64)
    node[slot[chosen + 1]] = chosen + 1
    node[stop_slot[here]] = here
    return Slots(start, ball, np.repeat(np.arange(len(ball)), np.diff(start)), node, slot, stop_slot, choice_of)


def answers_below(tree: Tree, inner_answers: np.ndarray) -> np.ndarray:
    """Number of possible answers (leaves and inner ones) in every ball."""
    return tree.subtree_sum((tree.is_leaf | inner_answers).astype(np.int64))
