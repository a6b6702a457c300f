"""Rows of a table on the way to a model: read by the rules of `vpunn.tables.cells`, checked, counted, and split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import DataError, advice, check_choice, counted, either, examples, rows_have
from vpunn.io.frames import check_columns
from vpunn.tables.cells import (
    LabelCells,
    decimal_commas,
    numbers_of,
    place_cells,
    refuse_bytes,
    refuse_measurements,
    refuse_missing,
)
from vpunn.tables.gaps import Gaps, with_medians
from vpunn.tables.inputs import MISSING, Inputs, TableReport, describe_table, like_paths, target_cells
from vpunn.tables.names import completed, last_name, locate, matched, merged, unseen_error
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
    missing: str = "median",
    unseen: str = "error",
) -> TableRows:
    """Rows to be fitted, by the rules of `tables`: every row needs a label (or number), and a place in the tree if one is given.

    Rows without a label or number are left out, as in `vpunn.tables.truth`; a number missing among the inputs is read as the median
    of its column (`vpunn.tables.gaps`). ``missing="drop"`` leaves out rows with any of these, ``"error"`` refuses them with count,
    row and fix. ``unseen="skip"`` leaves out rows whose label is not in the tree. The report counts all of it.
    """
    check_choice("missing", missing, MISSING)
    check_choice("unseen", unseen, UNSEEN)
    check_inputs(frame, inputs, where)
    check_columns(frame, [*inputs.levels, *inputs.target, *([inputs.groups] if inputs.groups else [])], where)
    refuse_bytes(frame, inputs.text, where)
    if inputs.label_sep is not None:
        from vpunn.tables.sets import read_set_sample

        return read_set_sample(frame, inputs, where, tree, missing, unseen)
    cells, spelled = _places(frame, inputs, where, regress, tree, match)
    values, keep = _learned(frame, cells, inputs, where, regress, missing)
    strange = np.zeros(len(frame), bool)
    if tree is not None:
        strange = locate(tree, cells)[1] & keep
        if unseen == "error" and strange.any():
            raise unseen_error(tree, cells, strange, where, unseen_ways(match))
    rows = np.flatnonzero(keep & ~strange)
    if not len(rows):
        raise DataError(f"no row of {str(where)!r} is left: all are without a label or a number, or not in the tree.")
    left_out = _left_out(cells, ~keep, strange)
    frame, kept = frame.iloc[rows], cells.take(rows)
    numbers = None if values is None else values[rows, 0]  # or classes
    dropped = len(keep) - len(rows)
    report = describe_table(frame, inputs, kept, where, numbers=numbers, left_out=left_out, dropped=dropped)
    more = _without_rows(tree, kept) if tree is not None else [] if regress else like_paths(kept, inputs)
    report = replace(report, notes=(*spelled, *report.notes, *more, *notes_on_gaps(frame, inputs, where)))
    return with_groups(TableRows(frame, kept, report, numbers), inputs)


#: What happens to rows to be fitted whose label is not in the tree.
UNSEEN = ("error", "skip")


def check_inputs(frame: pd.DataFrame, inputs: Inputs, where: object) -> None:
    """Refuse a table that lacks columns that a block of the model reads."""
    for names, kind in ((inputs.text, "words"), (inputs.columns, "numbers")):
        check_columns(frame, names, where, inputs.block(kind))


def _places(
    frame: pd.DataFrame, inputs: Inputs, where: object, regress: bool, tree: Tree | None, match: str
) -> tuple[LabelCells, list[str]]:
    """The places that the rows name, as the tree or the other rows write them, and a note on spellings that were merged."""
    cells = place_cells(frame, inputs.levels, where) if regress else target_cells(frame, inputs, where)
    if inputs.path_sep is not None and missing_cells(cells.values[:, 1]).all():
        raise DataError(
            f"no cell of {inputs.target[0]!r} in {str(where)!r} holds {inputs.path_sep!r}, which --path-sep says is "
            f"between two levels; it holds {examples(dict.fromkeys(cells.values[:, 0]), limit=2)}."
        )
    if tree is not None:
        return matched(cells, tree, match)[0], []
    cells, spelled = _merged(cells) if match == "loose" else (cells, [])
    return completed(cells, (row[~missing_cells(row)].tolist() for row in cells.values)), spelled


def _learned(
    frame: pd.DataFrame, cells: LabelCells, inputs: Inputs, where: object, regress: bool, missing: str
) -> tuple[Any, np.ndarray]:
    """What is learned beside the places (numbers or classes of levels, else None), and the rows that have all they need."""
    if regress and not inputs.classes:
        return rows_with_numbers(frame, [*inputs.target, *inputs.columns], inputs, where, missing)
    given = place_cells(frame, inputs.target, where) if inputs.classes else cells
    if not inputs.classes and inputs.path_sep is None:
        refuse_measurements(cells, inputs.target, where)
    if missing == "error" and given.blank.any():
        rows, what = np.flatnonzero(given.blank), "class" if inputs.classes else "label"
        raise DataError(
            f"{rows_have(len(rows), len(frame), where)} no {what} in {examples(inputs.target)}, "
            f"row {examples(rows, limit=3)} (counted from 0); {ways_out()}."
        )
    keep = ~given.blank & rows_with_numbers(frame, inputs.columns, inputs, where, missing)[1]
    return (given.values if inputs.classes else None), keep


def unseen_ways(match: str) -> str:
    """What to do about labels that are not in the tree, in the words of whoever called."""
    note = "if only the spelling differs, or names stand for ids"
    loosely = "" if match == "loose" else advice("match", "loose", note=note)
    return either(advice("unseen", "skip", note="to leave them out"), loosely)


def _left_out(cells: LabelCells, empty: np.ndarray, strange: np.ndarray) -> list[str]:
    """Notes on rows that are left out, and why."""
    found = [f"{counted(int(empty.sum()), 'row')} without a label or a number left out"] if empty.any() else []
    if strange.any():
        which = list(dict.fromkeys(last_name(row) for row in cells.values[strange].tolist()))
        found.append(f"{counted(int(strange.sum()), 'row')} not in the tree left out ({examples(which)})")
    return found


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
    """Numeric columns, and which rows have the numbers they need: those that are learned, with ``"drop"`` also the inputs."""
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
    """Notes about the numbers of rows to be fitted: how they are written, and those that are missing, where they may be."""
    gaps = Gaps.of(frame, inputs, where)
    gaps.refuse_empty(where, "leave it out of --columns")
    commas = decimal_commas(frame, [*inputs.columns, *(inputs.target if inputs.levels and not inputs.classes else ())])
    told = [f"the comma in the numbers of {examples(commas)} was read as a decimal point"] if commas else []
    return [*told, *(gaps.said(with_medians(inputs, frame, where)) if gaps.rows else [])]


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
