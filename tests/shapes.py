"""Trees every analysis has to survive."""

import io

import numpy as np

from vpunn import Tree
from vpunn.io import read_tree


def path(n: int) -> Tree:
    return Tree.from_parents(np.arange(-1, n - 1))


def star(n: int) -> Tree:
    return Tree.from_parents([-1] + [0] * (n - 1))


def caterpillar(n: int) -> Tree:
    return Tree.from_parents([-1] + [2 * ((i - 1) // 2) for i in range(1, n)])


def full(b: int, depth: int) -> Tree:
    return Tree.from_parents([-1] + [(i - 1) // b for i in range(1, (b ** (depth + 1) - 1) // (b - 1))])


AWKWARD = {
    "single node": path(1),
    "two nodes": path(2),
    "path": path(9),
    "star": star(9),
    "caterpillar": caterpillar(41),
    "full": full(2, 4),
}


def from_text(content: str, **options):
    """A tree read from the text of a file."""
    return read_tree(io.StringIO(content), **options)
