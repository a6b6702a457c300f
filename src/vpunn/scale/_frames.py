"""Rows and frames as sums take them: checked nodes, weights and numbers, and sums of a database, exact where its types are."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from vpunn._types import Table
from vpunn.errors import DataError, VpunnError, examples
from vpunn.scale._exact import ExactSums
from vpunn.tree import Nodes, Tree

Array = npt.NDArray[Any]


def check_node_ids(tree: Tree, nodes: Nodes) -> Array:
    found = np.asarray(tree.check_nodes(nodes), np.int64)
    if found.ndim != 1:
        raise VpunnError(f"nodes must be one node id per row, got shape {found.shape}.")
    return found


def number_columns(values: Any, what: str, n: int) -> Array:
    """Numbers as (n × columns) doubles, or a sentence about what they are."""
    try:
        table = np.asarray(values, float)
    except (TypeError, ValueError):
        raise VpunnError(f"{what} must be numbers, got {examples(np.asarray(values, object).ravel()[:5])}.") from None
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != n:
        raise VpunnError(f"{what} needs one row for each of {n:,} nodes, got shape {np.shape(values)}.")
    bad = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if len(bad):
        raise VpunnError(f"{what} must be finite; it is not in rows {examples(bad)}. Drop or fill these rows first.")
    return table


def same_tree(a: Tree, b: Tree) -> None:
    """Refuse sums over two trees."""
    if a is not b and a.fingerprint != b.fingerprint:
        raise VpunnError(
            f"these sums belong to different trees ({a!r} {a.fingerprint}, {b!r} {b.fingerprint}); sum over one tree."
        )


def as_arrow(frame: Table) -> Any:
    """A table of Arrow from pandas, Polars, DuckDB, Arrow, or a mapping of columns."""
    import pyarrow as pa

    try:
        if isinstance(frame, pa.Table):
            return frame
        if hasattr(frame, "to_arrow"):
            found = frame.to_arrow()
            return found if isinstance(found, pa.Table) else pa.table(found)
        if hasattr(frame, "iloc"):
            return pa.Table.from_pandas(frame, preserve_index=False)
        return pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"a {type(frame).__name__} cannot be read as a frame: {error}.") from None


def frame_nodes(tree: Tree, column: Any) -> Array:
    """Node ids of a column of ids, or of labels if it holds text."""
    import pyarrow as pa

    if column.null_count:
        raise DataError(f"{column.null_count:,} rows have no node; leave them out, or put them at the root.")
    if pa.types.is_integer(column.type):
        return check_node_ids(tree, column.to_numpy())
    return tree.locate(column).nodes


def sum_column(column: Any, at: Array, n: int, name: str) -> tuple[ExactSums, int, bool]:
    """A column's sums by place, the decimal places they are counted in, and whether they are exact."""
    import pyarrow as pa

    if column.null_count:
        raise DataError(f"column {name!r} has {column.null_count:,} missing sums; COALESCE them to 0.")
    kind = column.type
    if pa.types.is_integer(kind):
        return ExactSums.of_integers(column.to_pylist(), at, n), 0, True
    if pa.types.is_decimal(kind):
        cells: list[Decimal] = column.to_pylist()
        whole = [int(cell.scaleb(kind.scale)) for cell in cells]
        return ExactSums.of_integers(whole, at, n), max(kind.scale, 0), True
    if pa.types.is_floating(kind):
        values = np.asarray(column.to_numpy(), float)
        if not np.isfinite(values).all():
            raise DataError(f"column {name!r} holds sums that are not finite; find the rows that are NaN or infinite.")
        sums = ExactSums(n)
        sums.add(at, values)
        return sums, 0, False
    raise DataError(f"column {name!r} holds {kind}; sums are whole numbers, decimals or floats.")
