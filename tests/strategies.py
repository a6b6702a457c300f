"""Hypothesis strategies shared by all tests: random trees of every awkward kind.

Use as ``from strategies import trees`` and ``@given(trees())``; ``parent_arrays`` gives the raw pointers instead.
"""

import numpy as np
from hypothesis import strategies as st

from vpunn.tree import Tree


@st.composite
def parent_arrays(draw, max_nodes: int = 40, shuffled: bool = False) -> list[int]:
    """Parent pointers of one tree: a single node, a chain, a star, a caterpillar, a bush or a uniform attachment tree.

    Parents precede children, so the list is topologically ordered but in general not preorder; ``shuffled`` permutes
    the positions as well, so that the root may stand anywhere.
    """
    n = draw(st.integers(1, max_nodes))
    kind = draw(st.sampled_from(["any", "chain", "star", "caterpillar", "near", "unary runs"]))
    if kind == "chain":
        parent = list(range(-1, n - 1))
    elif kind == "star":
        parent = [-1] + [0] * (n - 1)
    elif kind == "caterpillar":
        parent = [-1] + [2 * ((i - 1) // 2) for i in range(1, n)]
    elif kind == "unary runs":  # each node extends a chain or starts a new branch somewhere
        grows = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
        parent = [-1] + [i - 1 if grows[i] else draw(st.integers(0, i - 1)) for i in range(1, n)]
    elif kind == "near":  # deep and bushy: the parent is one of the last few nodes
        parent = [-1] + [draw(st.integers(max(0, i - 4), i - 1)) for i in range(1, n)]
    else:
        parent = [-1] + [draw(st.integers(0, i - 1)) for i in range(1, n)]
    if not shuffled:
        return parent
    place = draw(st.permutations(range(n)))
    moved = [-1] * n
    for i, up in enumerate(parent):
        moved[place[i]] = -1 if up < 0 else place[up]
    return moved


def trees(max_nodes: int = 40) -> st.SearchStrategy[Tree]:
    """Random trees with at most ``max_nodes`` nodes, labelled by input position."""
    return parent_arrays(max_nodes).map(Tree.from_parents)


def random_tree(n_nodes: int, seed: int = 0, reach: int | None = None) -> Tree:
    """A larger random tree without Hypothesis: each node's parent is uniform among the previous ``reach`` (or all)."""
    rng = np.random.default_rng(seed)
    ids = np.arange(n_nodes)
    low = np.zeros(n_nodes, np.int64) if reach is None else np.maximum(0, ids - reach)
    parent = rng.integers(low, np.maximum(ids, 1))
    parent[0] = -1
    return Tree.from_parents(parent)


#: Four kinds of living things, two deep; several tests place rows on it.
LIFE = Tree.from_paths([("animal", "bird"), ("animal", "fish"), ("plant", "tree"), ("plant", "fern")], root="life")
KINDS = ("bird", "fish", "tree", "fern")
