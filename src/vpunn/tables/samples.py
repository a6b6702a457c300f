"""Rows of a table on the way to a model: read by the rules of `vpunn.tables.cells`, checked, counted, and split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from vpunn.errors import DataError, advice, check_choice, counted, either, examples, rows_have
from vpunn.io.frames import check_columns
from vpunn.tables.cells import (
    LabelCells,
    last_name,
    locate,
    matched,
    merged,
    numbers_of,
    place_cells,
    refuse_bytes,
    refuse_measurements,
    refuse_missing,
    unseen_error,
)
from vpunn.tables.gaps import Gaps, with_medians
from vpunn.tables.inputs import MISSING, Inputs, TableReport, describe_table, like_paths, target_cells
from vpunn.tree import Tree
from vpunn.tree.lookup import missing_cells

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class TableRows:
    """Rows of a table ready to be fitted: their labels (cells, or numbers of a regressor) and what was read."""

    frame: pd.DataFrame
    cells: LabelCells
    report: TableReport
    numbers: np.ndarray | None = None
    groups: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.frame)

    def take(self, rows: np.ndarray) -> TableRows:
        """Some of the rows."""
        numbers, groups = (None if v is None else v[rows] for v in (self.numbers, self.groups))
        return TableRows(self.frame.iloc[rows], self.cells.take(rows), self.report, numbers, groups)


def read_sample(
    frame: pd.DataFrame,
    inputs: Inputs,
    where: object,
    *,
    regress: bool = False,
    tree: Tree | None = None,
    match: str = "exact",
    missing: str = "error",
) -> TableRows:
    """Rows to be fitted, by the rules of `tables`: every row needs a label (or number), and a place in the tree if one is given.

    ``missing="drop"`` leaves out rows that have none; the report counts them. ``"median"`` does so too, but keeps rows that lack
    numbers of the inputs (`vpunn.tables.gaps`). Else they are refused with count, row and fix.
    """
    check_choice("missing", missing, MISSING)
    for names, kind in ((inputs.text, "words"), (inputs.columns, "numbers")):
        check_columns(frame, names, where, inputs.block(kind))
    check_columns(frame, [*inputs.levels, *inputs.target, *([inputs.groups] if inputs.groups else [])], where)
    refuse_bytes(frame, inputs.text, where)
    if inputs.label_sep is not None:
        from vpunn.tables.sets import read_set_sample

        return read_set_sample(frame, inputs, where, tree, missing)
    cells = place_cells(frame, inputs.levels, where) if regress else target_cells(frame, inputs, where)
    if inputs.path_sep is not None and missing_cells(cells.values[:, 1]).all():
        raise DataError(
            f"no cell of {inputs.target[0]!r} in {str(where)!r} holds {inputs.path_sep!r}, which --path-sep says is "
            f"between two levels; it holds {examples(dict.fromkeys(cells.values[:, 0]), limit=2)}."
        )
    spelled: list[str] = []
    if tree is not None:
        cells, _ = matched(cells, tree, match)
    elif match == "loose":
        cells, spelled = _merged(cells)
    keep, unseen = np.ones(len(frame), bool), np.zeros(len(frame), bool)
    if inputs.classes:
        given = place_cells(frame, inputs.target, where)
        values, named = given.values, ~given.blank
        if missing == "error" and not named.all():
            rows = np.flatnonzero(~named)
            raise DataError(
                f"{rows_have(len(rows), len(frame), where)} no class in {examples(inputs.target)}, row {examples(rows, limit=3)} "
                f"(counted from 0); {ways_out()}."
            )
        keep &= named & rows_with_numbers(frame, inputs.columns, inputs, where, missing)[1]
    elif regress:
        values, numbered = rows_with_numbers(frame, [*inputs.target, *inputs.columns], inputs, where, missing)
        keep &= numbered
    else:
        if inputs.path_sep is None:
            refuse_measurements(cells, inputs.target, where)
        keep &= ~cells.blank
        if missing == "error" and not keep.all():
            rows = np.flatnonzero(~keep)
            raise DataError(
                f"{rows_have(len(rows), len(frame), where)} no label in {examples(inputs.target)}, "
                f"row {examples(rows, limit=3)} (counted from 0); {ways_out()}."
            )
        keep &= rows_with_numbers(frame, inputs.columns, inputs, where, missing)[1]
    if tree is not None:
        _, unseen = locate(tree, cells)
        if missing == "error" and (unseen & keep).any():
            note = "if only the spelling differs, or names stand for ids"
            loosely = "" if match == "loose" else advice("match", "loose", note=note)
            out = advice("missing", "drop", note="to leave them out")
            raise unseen_error(tree, cells, unseen & keep, where, either(out, loosely))
    empty, strange = int((~keep).sum()), keep & unseen
    keep &= ~unseen
    rows = np.flatnonzero(keep)
    if not len(rows):
        raise DataError(f"no row of {str(where)!r} is left: all are without a label or a number, or not in the tree.")
    frame, kept = frame.iloc[rows], cells.take(rows)
    left_out = [f"{counted(empty, 'row')} without a label or a number left out"] if empty else []
    if strange.any():
        which = list(dict.fromkeys(last_name(row) for row in cells.values[strange].tolist()))
        left_out.append(f"{counted(int(strange.sum()), 'row')} not in the tree left out ({examples(which)})")
    numbers = values[rows, 0] if regress else None  # or classes
    dropped = int((~keep).sum())
    report = describe_table(frame, inputs, kept, where, numbers=numbers, left_out=left_out, dropped=dropped)
    more = _without_rows(tree, kept) if tree is not None else [] if regress else like_paths(kept, inputs)
    report = replace(report, notes=(*spelled, *report.notes, *more, *notes_on_gaps(frame, inputs, where)))
    return with_groups(TableRows(frame, kept, report, numbers), inputs)


def _merged(cells: LabelCells) -> tuple[LabelCells, list[str]]:
    """Cells whose spellings are merged, and a note that lists them."""
    cells, found, total = merged(cells)
    if not found:
        return cells, []
    listed = [f"{name!r} from {examples(others, limit=3)}" for name, others in found.items()]
    more = f" and {counted(len(listed) - MERGED, 'more name')}" if len(listed) > MERGED else ""
    return cells, [f"{counted(total, 'label')} of another spelling merged: {'; '.join(listed[:MERGED])}{more}"]


#: Names whose other spellings a note lists at most.
MERGED = 8


#: What to do about rows without a label or a number.
def ways_out() -> str:
    """In the words of whoever called."""
    return either("fill in or leave out these rows", advice("missing", "drop"))


def rows_with_numbers(
    frame: pd.DataFrame, names: Sequence[str], inputs: Inputs, where: object, missing: str
) -> tuple[np.ndarray, np.ndarray]:
    """Numeric columns, and which rows have the numbers they need: all, or with ``"median"`` those that are no inputs."""
    block = inputs.block("numbers")
    values = numbers_of(frame, names, where, block)
    if missing == "error":
        target = [
            name for name in names if name not in inputs.columns
        ]  # it stands first, and no median stands in for it
        refuse_missing(values, target, where, ways_out(), block)
        refuse_missing(values, names, where, either(ways_out(), advice("missing", "median")), block)
    needed = [k for k, name in enumerate(names) if missing != "median" or name not in inputs.columns]
    return values, ~np.isnan(values[:, needed]).any(axis=1)


def notes_on_gaps(frame: pd.DataFrame, inputs: Inputs, where: object) -> list[str]:
    """A note about numbers that are missing in rows to be fitted, where they may be."""
    gaps = Gaps.of(frame, inputs, where)
    gaps.refuse_empty(where, "leave it out of --columns")
    return gaps.said(with_medians(inputs, frame, where)) if gaps.rows else []


def _without_rows(tree: Tree, cells: LabelCells) -> list[str]:
    """A note about leaves of a tree that no row of the table names."""
    named = np.zeros(tree.n_nodes, bool)
    named[locate(tree, cells)[0]] = True
    bare = np.flatnonzero(np.asarray(tree.is_leaf) & ~named)
    if not len(bare):
        return []
    leaves = counted(int(np.count_nonzero(tree.is_leaf)), "leaf", "leaves")
    has = "has" if len(bare) == 1 else "have"
    return [f"{len(bare):,} of {leaves} of the tree {has} no row ({examples(tree.labels[bare], limit=3)})"]


def with_groups(sample: TableRows, inputs: Inputs) -> TableRows:
    """The rows with their groups, if a column names some; a row whose cell is empty is a group of its own."""
    if inputs.groups is None:
        return sample
    cells = place_cells(sample.frame, [inputs.groups], sample.report.where)
    blank, column = cells.blank, cells.values[:, 0].tolist()
    groups = np.array(
        [f"row {k}" if gone else f"group {cell}" for k, (cell, gone) in enumerate(zip(column, blank, strict=True))]
    )
    told = [
        f"{counted(len(set(groups[~blank].tolist())), 'group')} in {inputs.groups!r}, whose rows are held out together"
    ]
    if blank.any():
        told.append(f"{counted(int(blank.sum()), 'row')} without a group in {inputs.groups!r}, each held out alone")
    return replace(sample, groups=groups, report=replace(sample.report, notes=(*sample.report.notes, *told)))
