"""The tree that rows of digits come from."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vpunn.errors import VpunnError
from vpunn.tree import Tree


class DigitTree(NamedTuple):
    """The tree of all prefixes of some rows of digits, the node at which each row ends, and each node's digit as written."""

    tree: Tree
    nodes: np.ndarray
    digit: np.ndarray


def tree_of_digits(rows: Any) -> DigitTree:
    """The tree of the rows of a table of digits (n, K), the inverse of `PadicCode.digits`; O(n·K) after sorting.

    Digits are those of the package's codes: 1, 2, … name a child and 0 says that the path has stopped, so nothing but 0 may
    follow. Rows may be equal, and a row may end where others go on. Siblings stand in the order of their digits, which need
    not be without gaps.

    >>> found = tree_of_digits([[1, 2], [1, 1], [2, 0], [1, 1]])
    >>> found.tree.parent.tolist(), found.digit.tolist(), found.nodes.tolist()
    ([-1, 0, 1, 1, 0], [0, 1, 1, 2, 2], [3, 2, 4, 2])
    """
    table = _as_digits(rows)
    order = np.lexsort(table.T[::-1])
    digits = table[order]
    new = np.ones(digits.shape, bool)  # whether a row is the first with its first k + 1 digits
    new[1:] = np.logical_or.accumulate(digits[1:] != digits[:-1], axis=1)
    new &= digits > 0
    # Rows in order, digits from left to right: a node is met after its parent and all that comes before it.
    number = np.cumsum(new.ravel()).reshape(new.shape)
    latest = np.maximum.accumulate(np.where(new, number, 0), axis=0)
    above = np.column_stack([np.zeros(len(digits), np.int64), latest])
    end = above[np.arange(len(digits)), (digits > 0).sum(1)]
    nodes = np.empty(len(digits), np.int64)
    nodes[order] = end
    tree = Tree.from_parents(np.append(-1, above[:, :-1][new]))
    return DigitTree(tree, nodes, np.append(0, digits[new]))


def _as_digits(rows: Any) -> np.ndarray:
    """Rows of whole digits ≥ 0 that stop only once."""
    try:
        table = np.asarray(rows)
    except ValueError:
        table = np.empty(0, object)
    if table.ndim != 2 or 0 in table.shape or table.dtype.kind not in "iuf":
        raise VpunnError(
            "give a tree, a model that has one, or a table of digits with one row per item and at least one column; got "
            f"{type(rows).__name__} of shape {np.shape(table)}."
        )
    digits = table.astype(np.int64) if np.isfinite(table).all() else np.full(table.shape, -1)
    bad = np.argwhere((digits != table) | (digits < 0))
    if len(bad):
        row, k = bad[0].tolist()
        raise VpunnError(f"digits are whole numbers from 0, got {table[row, k]} in row {row}, digit {k}.")
    late = np.argwhere((digits[:, 1:] > 0) & (digits[:, :-1] == 0))
    if len(late):
        row = int(late[0, 0])
        raise VpunnError(
            f"row {row}, {digits[row].tolist()}, goes on after a 0, which says that a path stops; add 1 to digits that count "
            "from 0."
        )
    return digits
