"""Sums of rows from anywhere, here or on an engine: the same bytes for any partitioning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vpunn._types import DataSource, Engine, Table
from vpunn.errors import DataError, VpunnError
from vpunn.io.streams import Parts
from vpunn.scale.class_sums import ClassSums
from vpunn.scale.engine import Sent, checked_engine, result_of, submit
from vpunn.scale.sources import Part, Reading, parts_of
from vpunn.scale.sums import BallSums
from vpunn.tree import Tree

#: A checkpoint of sums holds at most so many files: parts are added up in so many groups.
GROUPS = 16


def sum_rows(
    tree: Tree,
    source: DataSource,
    *,
    label: str,
    y: str | Sequence[str],
    X: Sequence[str] = (),
    w: str | None = None,
    classes: bool = False,
    delimiter: str | None = None,
    encoding: str | None = None,
    engine: Engine = None,
    checkpoint: str | Path | None = None,
) -> Any:
    """`BallSums` (or, with ``classes``, `ClassSums`) of rows from any source that `predict` takes, however it is divided.

    ``label`` names the column of node labels (all must be in the tree), ``y`` the target, ``X`` covariates, ``w`` weights. Empty
    partitions and a class missing in one are normal. With ``checkpoint``, a folder, sums of groups of parts are kept, so that a
    killed run goes on; another source or other columns are refused there. Make models with ``from_sums``.
    """
    columns = Columns(label, (y,) if isinstance(y, str) else tuple(y), tuple(X), w, classes)
    reading = columns.reading(delimiter, encoding)
    parts = parts_of(source, columns.names)
    if not parts:
        raise DataError("there are no parts to sum: the source is empty.")
    engine = checked_engine(engine)
    # Sums are as large as the tree, so they travel seldom: twice a thread. A checkpoint's groups do not depend on the engine.
    count = GROUPS if engine is None or checkpoint is not None else max(2, 2 * sum(engine.nthreads().values()))
    groups = [parts[i::count] for i in range(min(count, len(parts)))]
    kept: list[Path | None] = [None] * len(groups)
    if checkpoint is not None:
        facts = {"columns": columns.facts(), "input": [part.facts() for part in parts]}
        Parts.open(Path(checkpoint), {"command": "sum", "tree": tree.fingerprint, **facts})
        kept = [Path(checkpoint) / f"sums-{i:05d}" for i in range(len(groups))]
    todo = [(group, columns, reading, place) for group, place in zip(groups, kept, strict=True)]
    if engine is None:
        return _added(_group_sums(tree, *one) for one in todo)
    there = Sent(tree)
    waiting = [submit(engine, _group_sums, (there, *one)) for one in todo]
    while len(waiting) > 1:
        waiting = [submit(engine, _added, [waiting[i : i + 4]]) for i in range(0, len(waiting), 4)]
    return result_of(engine, waiting[0])


class Columns:
    """Which columns of a part are summed."""

    def __init__(self, label: str, y: tuple[str, ...], X: tuple[str, ...], w: str | None, classes: bool) -> None:
        if classes and (X or len(y) > 1):
            raise VpunnError("classes are counted from one column and without covariates; leave X out.")
        self.label, self.y, self.X, self.w, self.classes = label, y, X, w, classes

    @property
    def names(self) -> list[str]:
        """All of them."""
        return list(dict.fromkeys([self.label, *self.y, *self.X, *([self.w] if self.w else [])]))

    def reading(self, delimiter: str | None, encoding: str | None) -> Reading:
        """Labels stay as they are written."""
        return Reading(tuple(self.names), (self.label,), delimiter, encoding)

    def facts(self) -> dict[str, Any]:
        """For a manifest."""
        return {"label": self.label, "y": list(self.y), "X": list(self.X), "w": self.w, "classes": self.classes}

    def empty(self, tree: Tree) -> Any:
        """Sums of no rows."""
        if self.classes:
            return ClassSums.from_rows(tree, [], np.array([], "U1"))
        return BallSums(tree, len(self.y), len(self.X))

    def add(self, sums: Any, tree: Tree, table: Table) -> Any:
        """The sums with the rows of a table."""
        if not len(table):
            return sums
        nodes = _numbers_of(tree.encode_column(table[self.label]), self.label).astype(np.int64)
        w = None if self.w is None else _numbers_of(table[self.w], self.w)
        if self.classes:
            cells = table[self.y[0]]
            labels = np.asarray(cells.to_pylist() if cells.type != "string" else cells.to_pandas())
            return sums + ClassSums.from_rows(tree, nodes, labels, w)
        y = np.column_stack([_numbers_of(table[name], name) for name in self.y])
        X = np.column_stack([_numbers_of(table[name], name) for name in self.X]) if self.X else None
        return sums.add_rows(nodes, y, X, w)


def _numbers_of(column: Any, name: str) -> np.ndarray:
    if column.null_count:
        raise DataError(f"column {name!r} has {column.null_count:,} missing cells; drop or fill these rows first.")
    return np.asarray(column.to_numpy())


def _group_sums(tree: Tree, parts: Sequence[Part], columns: Columns, reading: Reading, kept: Path | None) -> Any:
    """The sums of some parts, read from a checkpoint if they are there."""
    if kept is not None and (kept / "model.json").exists():
        return (ClassSums if columns.classes else BallSums).load(kept)
    sums = columns.empty(tree)
    for part in parts:
        for table in part.tables(reading):
            sums = columns.add(sums, tree, table)
    if kept is not None:
        sums.save(kept)
    return sums


def _added(parts: Any) -> Any:
    """The sum of sums, in place where that is possible."""
    total: Any = None
    for part in parts:
        if total is None:
            total = part.copy() if isinstance(part, BallSums) else part
        elif isinstance(total, BallSums):
            total += part
        else:
            total = total + part
    return total
