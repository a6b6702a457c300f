"""What ``y`` may be: node labels of a given tree, plain classes, level columns or paths; always one node per row."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Set, ValuesView
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import DataWarning, TreeError, VpunnError, examples, refuse_lazy
from vpunn.tree import Tree
from vpunn.tree.lookup import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vpunn._types import Cell, Targets


#: Nobody asks for the probabilities of more classes than this, and to sort their labels would take seconds.
A_COLUMN_EACH = 500_000


def nodes_of(tree: Tree, y: Targets) -> np.ndarray:
    """Node ids of targets: labels of the tree, or paths below its root as tuples or level columns."""
    values = paths_of(y) if getattr(y, "ndim", 1) == 2 and y.shape[1] > 1 else as_column(y)
    if len(values) and isinstance(values[0], tuple) and values[0] not in set(tree.labels[:1]):
        return tree.locate(without_gaps(values)).nodes.astype(np.int32)
    return np.asarray(tree.index(values), dtype=np.int32)


def tree_of(y: Targets) -> tuple[Tree, np.ndarray, np.ndarray | None]:
    """A tree for targets that come without one, the node of every row, and the classes if the targets are flat.

    Level columns (2-D) or tuples give a tree of their paths; plain labels give a root with one child per class.
    """
    values = paths_of(y) if _is_table(y) else as_column(y)
    if len(values) and isinstance(values[0], tuple):
        values = without_gaps(values)
        tree = Tree.from_paths(sorted(set(values.tolist()), key=repr), root="root")
        return tree, tree.locate(values).nodes.astype(np.int32), None
    reject_missing(values)
    try:
        classes, place = np.unique(values, return_inverse=True)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in values.tolist()})
        raise VpunnError(
            f"labels of several types ({', '.join(kinds)}) have no order; turn all of them into text."
        ) from None
    labels = np.empty(len(classes) + 1, object)
    labels[0] = "root"
    labels[1:] = classes.tolist()
    tree = Tree.from_parents(np.concatenate([[-1], np.zeros(len(classes), np.int64)]), labels)
    return tree, (place + 1).astype(np.int32), classes


def path_nodes(tree: Tree, y: Targets) -> np.ndarray | None:
    """Nodes of level columns or paths, −1 where the tree has none; None if the targets are labels."""
    values = paths_of(y) if _is_table(y) else as_column(y)
    if not len(values) or not isinstance(values[0], tuple) or values[0] in set(tree.labels[:1]):
        return None
    return tree.locate(without_gaps(values), unseen="null").nodes


def _is_table(y: Targets) -> bool:
    """Level columns: a two-dimensional array, or lists of one length above one."""
    if hasattr(y, "ndim"):
        return bool(y.ndim == 2 and y.shape[1] > 1)
    return (
        len(y) > 0 and all(isinstance(row, list) for row in y) and len({len(row) for row in y}) == 1 and len(y[0]) > 1
    )


def paths_of(y: Targets) -> np.ndarray:
    """Level columns as one tuple per row, see `without_gaps`; not all cells of a row may be missing."""
    table = np.asarray(y)
    reject_indicator(table)
    if isinstance(y, list) and isinstance(y[0], list):
        said = (
            f"lists such as {examples(y[:1])} are read as paths, broadest label first; write paths as tuples to say so"
        )
        warnings.warn(f"{said}, or pass multilabel=True if rows have several labels.", DataWarning, stacklevel=4)
    rows = without_gaps([tuple(row) for row in (y if isinstance(y, list) else table.tolist())])
    bare = [i for i, row in enumerate(rows) if not row]
    if bare:
        raise VpunnError(f"rows {examples(bare)} have no label in any level column; leave them out.")
    return rows


def without_gaps(paths: Targets) -> np.ndarray:
    """Paths as an array of tuples: missing cells at the end are left out, those above a label are called "(missing)"."""
    column = np.empty(len(paths), object)
    column[:] = [_without_gap(path) for path in paths]
    return column


def _without_gap(path: Iterable[Cell]) -> tuple[Any, ...]:
    cells = [UNKNOWN if _absent(cell) or (isinstance(cell, str) and not cell) else cell for cell in path]
    while cells and cells[-1] is UNKNOWN:
        cells.pop()
    return tuple(cells)


def as_column(y: Targets) -> np.ndarray:
    """Targets as a one-dimensional array; tuples stay tuples, several labels per row are refused."""
    if isinstance(y, list | tuple) and any(isinstance(value, list | set | frozenset) for value in y):
        raise VpunnError(
            f"a row can have one label only, got {examples([v for v in y if isinstance(v, list | set | frozenset)][:3])}; "
            "if rows have several labels write a set for each, or pass multilabel=True; a path is a tuple."
        )
    if isinstance(y, list | tuple) and any(isinstance(value, tuple) for value in y):
        y = object_array(y)
    array = as_it_stands(y)
    if array.ndim == 2:
        reject_indicator(array)
    if array.dtype == object and array.ndim == 1:
        return _all_paths_or_none(array)
    if array.ndim > 2 or (array.ndim == 2 and array.shape[1] != 1):
        raise VpunnError(f"y must hold one label per row or level columns, got an array of shape {array.shape}.")
    if array.ndim == 1 and array.dtype.kind in "biufUS":
        return np.ascontiguousarray(array)
    from vpunn._sklearn import column_or_1d

    return np.asarray(column_or_1d(array, warn=True))


def as_it_stands(y: Targets) -> np.ndarray:
    """Targets as an array, no two of them the same that were not: NumPy writes numbers beside texts as texts, truth beside numbers
    as numbers, and texts without the zeros at their end."""
    array = np.asarray(y)
    if isinstance(y, np.ndarray) or array.ndim != 1:
        return array
    values = list(y) if isinstance(y, Iterable) else array.tolist()
    if array.dtype.kind in "US" and array.tolist() != values:
        return object_array(values)
    kinds = {type(value) for value in values} if array.dtype.kind in "iuf" else set()
    if kinds & {bool, np.bool_} and len(kinds) > 1:
        raise VpunnError(
            "labels of several types (truth values beside numbers) are not told apart; turn all of them into text."
        )
    return array


def object_array(values: list[Any] | tuple[Any, ...]) -> np.ndarray:
    """One cell per value, of whatever kind."""
    column = np.empty(len(values), object)
    column[:] = values
    return column


def _all_paths_or_none(column: np.ndarray) -> np.ndarray:
    """Refuse a mixture of paths and labels."""
    paths = [isinstance(value, tuple) for value in column]
    if any(paths) and not all(paths):
        raise VpunnError(
            f"y mixes paths and labels, such as {column[paths.index(True)]!r} and {column[paths.index(False)]!r}."
        )
    return column


def refuse_single(y: Targets, name: str = "y", one: str = "one label per row") -> None:
    """A column of labels is no single one."""
    if y is None or isinstance(y, str | bytes) or (hasattr(y, "ndim") and y.ndim == 0):
        raise VpunnError(f"{name} must hold {one}, got {repr(y)[:60]}.")
    if not (hasattr(y, "__len__") or hasattr(y, "__array__")) or isinstance(y, Mapping | Set | ValuesView):
        raise VpunnError(f"{name} must hold {one} in a list or an array, got {repr(y)[:60]}.")
    refuse_masked(y, name)


def refuse_masked(given: Any, name: str) -> None:
    """Masked entries hold numbers that are not meant to be read."""
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        count = int(np.ma.getmaskarray(given).sum())
        raise VpunnError(
            f"{name} has {count:,} masked entries; fill them in with .filled(value) or leave their rows out."
        )


def reject_missing(values: np.ndarray) -> None:
    """Every row needs a label."""
    if values.dtype.kind in "mM":  # as plain values some would be numbers
        empty = np.flatnonzero(np.isnat(values)).tolist()
    else:
        empty = [i for i, value in enumerate(values.tolist()) if _absent(value)] if values.dtype.kind in "Of" else []
    if empty:
        many = f"{len(empty):,} of {len(values):,} rows"
        raise VpunnError(f"y has no label (NaN or None) in {many}, at {examples(empty)}; leave those rows out.")
    if values.dtype.kind in "Of":
        endless = [i for i, value in enumerate(values.tolist()) if isinstance(value, float) and abs(value) == np.inf]
        if endless:
            raise VpunnError(f"y is infinite in row {examples(endless)}, which is no label; leave those rows out.")


def reject_indicator(table: np.ndarray) -> None:
    """A 0/1 matrix means several labels per row, which one path per row cannot hold."""
    if table.shape[1] > 1 and table.dtype.kind in "biuf":
        raise VpunnError(
            f"the targets are a numeric table of shape {table.shape}, which reads as several labels per row: pass "
            "multilabel=True and the names of its columns as classes=[…], or a set of labels for each row."
        )


def _absent(cell: Cell) -> bool:
    """None, NaN, or the missing values of pandas."""
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and cell != cell)


def by_label(tree: Tree, nodes: np.ndarray) -> np.ndarray:
    """Nodes in the order of their labels; as they are where labels cannot be compared, or are too many for a column each.

    >>> tree = Tree.from_edges([("root", "b"), ("root", "a")])
    >>> tree.labels[by_label(tree, np.array([1, 2]))].tolist()
    ['a', 'b']
    """
    labels = tree.labels[nodes]
    if len(nodes) > A_COLUMN_EACH:
        return nodes
    try:
        return nodes[np.argsort(labels, kind="stable")]
    except TypeError:  # numbers and texts
        return nodes


def check_in_tree(tree: Tree, y: Targets) -> np.ndarray:
    """`nodes_of` with the sentence that names the fit."""
    refuse_single(y)
    try:
        return nodes_of(tree, y)
    except TreeError as error:
        reject_missing(np.asarray(as_column(y) if np.ndim(y) < 2 else []))
        raise VpunnError(f"the targets do not fit the tree: {error}") from error


def checked(y: Targets, rows: int) -> Targets:
    """Targets of ``rows`` rows as `nodes_of` and `tree_of` take them; tuples and level columns are allowed."""
    refuse_lazy(y)
    check_length(y, rows)
    if not isinstance(y, list | tuple):
        y = as_it_stands(y)
    column = np.asarray(y, dtype=object) if not hasattr(y, "dtype") else np.asarray(y)
    if column.ndim == 1 and column.dtype.kind == "c":
        raise VpunnError(f"labels are texts or whole numbers, got complex ones such as {column[0]}.")
    if column.ndim == 1 and column.dtype.kind == "f":
        from vpunn._sklearn import check_classification_targets

        if not np.isfinite(column).all():
            raise VpunnError("Input y contains NaN or infinity; every row needs a label.")
        try:
            check_classification_targets(column)
        except ValueError as error:
            raise VpunnError(str(error)) from error
    return as_column(column) if column.ndim == 2 and column.shape[1] == 1 else y


def check_length(y: Targets, rows: int) -> None:
    """One label per row."""
    refuse_single(y)
    many = len(y) if hasattr(y, "__len__") else len(np.asarray(y))
    if many != rows:
        raise VpunnError(
            f"X has {rows:,} rows but y has {many:,}; one label per row (inconsistent numbers of samples)."
        )
