"""From names to nodes: one index of a tree's labels, asked by `Tree.locate` and its short forms.

A label is looked up as it is; a text that is no label but writes a whole number means the label of that number, and a number the
text that writes it, so that "9606" of a table finds 9606 of a taxonomy and the other way round. A path is a walk over the edges
below the root. What was asked for and is not there is an error, nothing (−1), or the deepest ancestor that is there: `unseen`
decides, everywhere by these three words.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vpunn._arrays import collection, label_array, object_array
from vpunn._types import Labels
from vpunn.errors import TreeError, advice, check_choice, examples, refuse_lazy
from vpunn.tree.find import leaves_the_tree, namesakes, unknown

if TYPE_CHECKING:
    from vpunn.tree._tree import Tree

#: What may happen to rows that the tree does not have.
UNSEEN = ("error", "null", "ancestor")
#: Label of a level that is missing although a deeper one is given.
UNKNOWN = "(missing)"


class Located(NamedTuple):
    """The node of every row, and the depth of what the row asked for.

    A row that is not (wholly) in the tree asks for more than its node is: ``tree.depth[nodes] < depth``. With
    ``unseen="null"`` its node is −1. An unseen label says nothing of its depth and counts as the deepest leaf.
    """

    nodes: np.ndarray
    depth: np.ndarray


def locate(tree: Tree, rows: Any, unseen: str = "error") -> Located:
    """See `Tree.locate`."""
    check_choice("unseen", unseen, UNSEEN)
    refuse_lazy(rows)
    if hasattr(rows, "to_arrow"):  # Polars, DuckDB
        rows = rows.to_arrow()
    if not hasattr(rows, "__array__") and not hasattr(rows, "null_count"):
        rows = collection(rows, "rows must be a list, an array or a column of labels or paths; for one, write [one]")
    paths = _as_paths(tree, rows)
    return _locate_labels(tree, rows, unseen) if paths is None else _locate_paths(tree, *paths, unseen)


# ---- labels ----------------------------------------------------------------------------------------------------------


def _locate_labels(tree: Tree, labels: Any, unseen: str) -> Located:
    place, missing = _places(tree, labels, unseen)
    lost = place < 0
    depth = tree.depth[np.where(lost, 0, place)].astype(np.int64)
    depth[lost & ~missing] = max(tree.max_depth, 1)
    if unseen == "ancestor":
        place = np.where(lost, 0, place)
    return Located(place, depth)


def _places(tree: Tree, labels: Any, unseen: str) -> tuple[np.ndarray, np.ndarray]:
    """The node of every label, −1 if there is none, and which cells are missing; namesakes are refused."""
    place, missing = tree.label_index.places(labels)
    if unseen == "error" and (place < 0).any():
        raise unknown(tree, list(dict.fromkeys(_cells_at(labels, np.flatnonzero(place < 0)))))
    repeated = tree.label_index.repeated
    if repeated is not None and (twice := repeated[place] & (place >= 0)).any():
        first = int(place[twice][0])
        raise namesakes(tree, tree.labels[first], tree.label_index.all_of(first))
    return place, missing


def _cells_at(column: Any, at: np.ndarray) -> list[Any]:
    """Cells of a column of any kind as Python objects."""
    if hasattr(column, "null_count"):
        import pyarrow as pa

        return list(column.take(pa.array(at)).to_pylist())
    if hasattr(column, "iloc"):
        column = column.iloc[at]
    elif isinstance(column, np.ndarray):
        column = column[at]
    else:
        listed = list(column)
        return [listed[i] for i in at.tolist()]
    return list(column.tolist())


# ---- paths -----------------------------------------------------------------------------------------------------------


def _as_paths(tree: Tree, rows: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Cells (rows × levels) and how many of them each row fills; None if the rows are labels."""
    if hasattr(rows, "columns") or np.ndim(rows if hasattr(rows, "__array__") else 0) == 2:
        whole = [rows.iloc[:, k] if hasattr(rows, "iloc") else rows[:, k] for k in range(rows.shape[1])]
        cells = np.empty(rows.shape, object)
        missing = np.empty(rows.shape, bool)
        for k, column in enumerate(whole):
            cells[:, k], missing[:, k] = label_array(column)
            cells[missing[:, k], k] = None
        return _closed(tree, cells, np.full(len(cells), cells.shape[1], np.int64))
    first = None if hasattr(rows, "null_count") else next(iter(rows), None)
    if not isinstance(first, tuple | list) or (isinstance(first, tuple) and tree.label_index.has_tuples):
        return None
    given = list(rows)
    wrong = [row for row in given if not isinstance(row, tuple | list)]
    if wrong:
        raise TreeError(f"rows mix paths and labels, such as {given[0]!r} and {wrong[0]!r}; write all of them one way.")
    lengths = np.fromiter(map(len, given), np.int64, len(given))
    flat, missing = label_array(object_array(list(itertools.chain.from_iterable(given))))
    flat = flat.astype(object)
    flat[missing] = None
    cells = np.full((len(given), int(lengths.max(initial=0))), None, object)
    cells[np.arange(cells.shape[1]) < lengths[:, None]] = flat
    return _closed(tree, cells, lengths)


def _closed(tree: Tree, cells: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Missing cells at the end of a path are none of it; those above a label are a level called "(missing)".

    Not where the tree itself has nodes without a name: there a missing cell is the name of one.
    """
    inside = np.arange(cells.shape[1]) < lengths[:, None]
    blank = inside & missing_cells(cells)
    blank[blank] = [tree.label_index.place(cell) < 0 for cell in cells[blank].tolist()]
    if not blank.any():
        return cells, lengths
    filled = inside & ~blank
    lengths = np.where(filled, np.arange(1, cells.shape[1] + 1), 0).max(axis=1, initial=0)
    cells = cells.copy()
    cells[blank] = UNKNOWN
    return cells, lengths


def _locate_paths(tree: Tree, cells: np.ndarray, lengths: np.ndarray, unseen: str) -> Located:
    index = tree.label_index
    nodes = np.zeros(len(cells), np.int64)
    going = np.ones(len(cells), bool)
    for k in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(going & (lengths > k))
        step = index.child(nodes[rows], index.places(cells[rows, k])[0])
        lost = step < 0
        if unseen == "error" and lost.any():
            raise leaves_the_tree(tree, cells[rows[lost][0], : lengths[rows[lost][0]]], k, nodes[rows[lost][0]])
        nodes[rows[~lost]] = step[~lost]
        going[rows[lost]] = False
    return Located(nodes if unseen == "ancestor" else np.where(going, nodes, -1), lengths)


def missing_cells(cells: np.ndarray) -> np.ndarray:
    """Which cells say nothing: None, NaN or the empty string."""
    flat = cells.ravel()
    if set(map(type, flat.tolist())) <= {str, type(None)}:
        return np.fromiter((not cell for cell in flat), bool, cells.size).reshape(cells.shape)
    import pandas as pd

    return np.asarray(pd.isna(cells) | (cells == ""))


# ---- short forms -----------------------------------------------------------------------------------------------------


def is_one(asked: Labels) -> bool:
    """Whether one label is asked for rather than several."""
    is_array = hasattr(asked, "__array__")
    many = np.ndim(asked) if is_array else isinstance(asked, Sequence) or hasattr(asked, "null_count")
    return isinstance(asked, str | bytes | tuple) or not many


def index(tree: Tree, labels: Labels) -> Any:
    """See `Tree.index`."""
    refuse_lazy(labels)
    one = is_one(labels)
    if one:
        place, repeated = tree.label_index.place(labels), tree.label_index.repeated
        if place >= 0 and (repeated is None or not repeated[place]):
            return place
        labels = object_array([labels])
    elif np.ndim(labels if hasattr(labels, "__array__") else 0) > 1:
        raise TreeError(f"labels must be one-dimensional, got shape {np.shape(labels)}.")
    elif not hasattr(labels, "__array__") and not hasattr(labels, "null_count"):
        labels = list(labels)
    found = _places(tree, labels, "error")[0]
    return int(found[0]) if one else found


def encode_column(tree: Tree, column: Any, unseen: str = "error") -> Any:
    """See `Tree.encode_column`."""
    import pyarrow as pa

    from vpunn.errors import counted

    refuse_lazy(column)
    check_choice("unseen", unseen, ("error", "null"))
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        column = pa.array(column, from_pandas=True)
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([encode_column(tree, chunk, unseen) for chunk in column.chunks], pa.int32())
    found = _places(tree, column, "null")[0]
    lost = found < 0
    if unseen == "error" and lost.any():
        rows = np.flatnonzero(lost & ~column.is_null().to_numpy(zero_copy_only=False))
        if len(rows):
            shown = examples(_cells_at(column, rows[:5]), total=len(rows))
            kind = ", whose labels are whole numbers" if tree.label_index.whole else ""
            raise TreeError(
                f"{counted(len(rows), 'label is', 'labels are')} not in the tree{kind}: {shown}; "
                + advice("unseen", "null", "add them with tree.insert, or pass unseen='null'")
                + "."
            )
    return pa.array(found.astype(np.int32), pa.int32(), mask=lost)
