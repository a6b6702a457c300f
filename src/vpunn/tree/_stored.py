"""A tree as the arrays of a saved folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vpunn.errors import DataError
from vpunn.store import PLAIN, Draft, Stored
from vpunn.tree._parents import check_extra
from vpunn.tree._validate import check_preorder
from vpunn.tree.dag import EdgeReport

if TYPE_CHECKING:
    import numpy as np

    from vpunn.tree._tree import Tree

#: What a tree is made of.
ARRAYS = ("parent", "depth", "size", "digit")


def write(tree: Tree, draft: Draft) -> None:
    """Put a tree into a draft."""
    for name in ARRAYS:
        draft.array(name, getattr(tree, name))
    draft.labels("labels", tree.labels)
    if tree.n_extra:
        draft.array("extra_start", tree.extra_parents[0])
        draft.array("extra_parents", tree.extra_parents[1])
    for at, (column, values) in enumerate(tree.columns.items()):
        if not isinstance(column, str):
            raise DataError(f"columns of a saved tree are named by text, got {column!r}.")
        try:
            _write_column(draft, f"column{at}", values)
        except DataError as error:
            raise DataError(f"column {column!r} of the tree cannot be saved: {error}") from None
    lines = []
    for at, line in enumerate(tree.report):
        if isinstance(line, EdgeReport):
            draft.labels(f"report{at}.parents", line.parents)
            draft.labels(f"report{at}.children", line.children)
        lines.append([str(line), getattr(line, "reason", None), isinstance(line, EdgeReport)])
    draft.settings |= {"columns": list(tree.columns), "report": lines}


def read(stored: Stored) -> tuple[Any, ...]:
    """The arguments of `Tree`, checked."""
    parent = stored.array("parent", dtype="i4", shape=(None,))
    n = len(parent)
    depth, size, digit = (stored.array(name, dtype="i4", shape=(n,)) for name in ARRAYS[1:])
    if wrong := check_preorder(parent, depth, size, digit):
        raise stored.damaged(f"its arrays are no tree: {wrong.rstrip('.')}")
    labels, extra = stored.labels("labels", n), None
    if "extra_start" in stored:
        extra = stored.array("extra_start", dtype="i8"), stored.array("extra_parents", dtype="i4")
        if wrong := check_extra(parent, extra, labels):
            raise stored.damaged(f"its extra parents cannot be: {wrong.rstrip('.')}")
    columns = {}
    for at, key in enumerate(stored.setting("columns", list)):
        columns[str(key)] = values = _read_column(stored, f"column{at}")
        if values.shape[:1] != (n,):
            raise stored.damaged(f"column {key!r} has {len(values)} values for {n} nodes")
    report: list[str] = []
    for at, (text, reason, edges) in enumerate(stored.setting("report", list)):
        if edges:
            above, below = (stored.labels(f"report{at}.{side}") for side in ("parents", "children"))
        report.append(EdgeReport(text, above, below, reason) if edges else str(text))
    return parent, depth, size, digit, labels, columns, report, extra


def _write_column(draft: Draft, name: str, values: np.ndarray) -> None:
    if values.ndim > 1 and values.dtype.kind not in PLAIN:
        raise DataError(f"it holds {values.dtype} in shape {values.shape}; one value per node can be saved.")
    draft.labels(name, values)


def _read_column(stored: Stored, name: str) -> np.ndarray:
    return stored.labels(name) if f"{name}.offsets" in stored.names else stored.array(name, finite=False)
