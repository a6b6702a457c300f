"""What ``y`` may be: node labels of a given tree, plain classes, level columns or paths; always one node per row."""

from __future__ import annotations

from typing import Any

import numpy as np

from vpunn.errors import TreeError, VpunnError, examples
from vpunn.tree import Tree


def nodes_of(tree: Tree, y: Any) -> np.ndarray:
    """Node ids of targets: labels of the tree, or paths below its root as tuples."""
    values = as_column(y)
    if len(values) and isinstance(values[0], tuple) and values[0] not in set(tree.labels[:1]):
        return tree.index_paths(values).astype(np.int32)  # type: ignore[arg-type]
    return np.asarray(tree.index(values), dtype=np.int32)


def tree_of(y: Any) -> tuple[Tree, np.ndarray, np.ndarray | None]:
    """A tree for targets that come without one, the node of every row, and the classes if the targets are flat.

    Level columns (2-D) or tuples give a tree of their paths; plain labels give a root with one child per class.
    """
    if np.ndim(y) == 2 and np.shape(y)[1] > 1:
        table = np.asarray(y)
        reject_indicator(table)
        y = [tuple(cell for cell in row if not _missing(cell)) for row in table.tolist()]
    values = as_column(y)
    if len(values) and isinstance(values[0], tuple):
        tree = Tree.from_paths(sorted(set(values.tolist()), key=repr), root="(all)")
        return tree, tree.index_paths(values).astype(np.int32), None  # type: ignore[arg-type]
    classes, place = np.unique(values, return_inverse=True)
    labels = np.empty(len(classes) + 1, object)
    labels[0] = "(all)"
    labels[1:] = classes.tolist()
    tree = Tree.from_parents(np.concatenate([[-1], np.zeros(len(classes), np.int64)]), labels)
    return tree, (place + 1).astype(np.int32), classes


def as_column(y: Any) -> np.ndarray:
    """Targets as a one-dimensional array; tuples stay tuples, several labels per row are refused."""
    if isinstance(y, list | tuple) and len(y) and any(isinstance(value, tuple) for value in y[:1]):
        column = np.empty(len(y), object)
        column[:] = [tuple(v) for v in y]
        return column
    if isinstance(y, list | tuple) and any(isinstance(value, list | set | frozenset) for value in y):
        raise VpunnError(
            f"a row can have one label only, got {examples([v for v in y if isinstance(v, list | set | frozenset)][:3])}; "
            "repeat the row once per label, or write paths as tuples."
        )
    array = np.asarray(y)
    if array.ndim == 2:
        reject_indicator(array)
    from sklearn.utils import column_or_1d

    if array.dtype == object and array.ndim == 1:
        return array
    return column_or_1d(array, warn=True)


def reject_indicator(table: np.ndarray) -> None:
    """A 0/1 matrix means several labels per row, which one path per row cannot hold."""
    if table.shape[1] > 1 and table.dtype.kind in "biuf":
        raise VpunnError(
            f"the targets are a numeric table of shape {table.shape}, which reads as several labels per row; give one label "
            "per row, or level columns of names."
        )


def _missing(cell: Any) -> bool:
    return cell is None or cell == "" or (isinstance(cell, float) and np.isnan(cell))


def check_in_tree(tree: Tree, y: Any) -> np.ndarray:
    """`nodes_of` with the sentence that names the fit."""
    try:
        return nodes_of(tree, y)
    except TreeError as error:
        raise VpunnError(f"the targets do not fit the tree: {error}") from error
