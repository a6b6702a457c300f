"""Cells of a table: names of places on a tree, texts and numbers, and what of them is refused.

One rule for cells that name places on a tree, in every command: blanks around a name do not count, letters are composed
(NFC), an empty cell at the end of level columns ends the path, one above a given label is the level "(missing)", and a column
whose cells are all whole numbers written plainly holds numbers (007 is a name). What the rule changed is counted in a
`TableReport`.
"""

from __future__ import annotations

import re
import reprlib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._arrays import label_array, object_array
from vpunn._rows import LARGEST_FEATURE
from vpunn.errors import DataError, examples
from vpunn.io.cells import COMMA_NUMBER
from vpunn.io.frames import check_columns
from vpunn.io.tree_tables import whole_labels
from vpunn.tree.lookup import UNKNOWN, missing_cells

if TYPE_CHECKING:
    import pandas as pd

    from vpunn._types import Cell, Targets

#: Kinds of changes that `LabelCells` counts.
CHANGES = 5


@dataclass
class LabelCells:
    """Cells that name places, (rows, columns) of labels with None where there is none, and what reading them changed.

    ``changes`` has a row per row: how many cells were trimmed, whether a blank level is called `UNKNOWN`, whether the path ends
    early, how many cells were matched loosely, and whether a blank level was `completed`; None if nothing was.
    ``spelled`` has the tree's name for every name matched loosely.
    """

    values: np.ndarray
    changes: np.ndarray | None = None
    spelled: Mapping[Any, Any] = field(default_factory=dict)

    @property
    def blank(self) -> np.ndarray:
        """Rows without any label."""
        return np.asarray(missing_cells(self.values).all(axis=1))

    @property
    def trimmed(self) -> int:
        """Cells that were written with blanks around or letters in two parts."""
        return self._total(0)

    @property
    def gaps(self) -> int:
        """Rows with a blank level above a given one, of which nothing else is known."""
        return self._total(1)

    @property
    def ends(self) -> int:
        """Rows that end above the last level."""
        return self._total(2)

    @property
    def blanks(self) -> int:
        """Rows with a blank level, above or below a given one; some have both."""
        return 0 if self.changes is None else int(self.changes[:, [1, 2, 4]].any(axis=1).sum())

    @property
    def completed(self) -> int:
        """Rows whose blank level above a given one was filled in (`completed`)."""
        return self._total(4)

    @property
    def loose(self) -> int:
        """Cells that were matched loosely."""
        return self._total(3)

    def _total(self, change: int) -> int:
        return 0 if self.changes is None else int(self.changes[:, change].sum())

    def take(self, rows: np.ndarray) -> LabelCells:
        """Some of the rows, and what was changed in them."""
        values = self.values[rows]
        here = set(values.ravel().tolist()) if self.spelled else ()
        spelled = {cell: name for cell, name in self.spelled.items() if name in here}
        return LabelCells(values, None if self.changes is None else self.changes[rows], spelled)

    def labels(self) -> Targets:
        """As estimators take them: one label per row, or level columns."""
        column = self.values[:, 0]
        if self.values.shape[1] > 1:
            return self.values
        return np.array(column.tolist()) if all(type(cell) is int for cell in column) else column


def place_cells(frame: pd.DataFrame, names: Sequence[str], where: object, *, gaps: bool = True) -> LabelCells:
    """The cells of label or level columns, read by the rule of this module; numbers only where all of a column are.

    Without ``gaps`` the columns are not levels of each other, so an empty cell stays empty.
    """
    check_columns(frame, names, where)
    raw, changes = np.empty((len(frame), len(names)), object), np.zeros((len(frame), CHANGES), np.int64)
    for k, name in enumerate(names):
        cells, missing = label_array(_plain_cells(frame[name], where))
        texts = [None if gone else _clean(cell) for cell, gone in zip(cells.tolist(), missing, strict=True)]
        changes[:, 0] += [a is not None and a != b for a, b in zip(texts, cells.tolist(), strict=True)]
        present = np.array([text is not None for text in texts], bool)
        column = object_array(texts)
        if present.any() and all(isinstance(text, str) for text in column[present]):
            column[present] = whole_labels(column[present]).tolist()
        raw[:, k] = column
    filled = ~missing_cells(raw)
    if not gaps:
        raw[~filled] = None
        return LabelCells(raw)
    values = _without_gaps(raw, filled)
    changes[:, 1] = (~missing_cells(values) & ~filled).any(axis=1)
    changes[:, 2] = missing_cells(values).any(axis=1) & filled.any(axis=1)
    return LabelCells(values, changes)


def _without_gaps(cells: np.ndarray, filled: np.ndarray) -> np.ndarray:
    """Missing cells as None; one with a label below it is no end of a path but a gap, which becomes the level `UNKNOWN`."""
    reaches = np.logical_or.accumulate(filled[:, ::-1], axis=1)[:, ::-1]
    values = cells.copy()
    values[~filled] = None
    values[reaches & ~filled] = UNKNOWN
    return values


def split_paths(frame: pd.DataFrame, name: str, separator: str, where: object) -> tuple[pd.DataFrame, list[str]]:
    """A column of paths such as ``Home > Kitchen > Knives`` as a table of level columns, at least two, and their names.

    Separators at the ends of a path do not count; an empty level between two others stays empty.
    """
    import pandas as pd

    check_columns(frame, [name], where)
    cells = object_array(list(_plain_cells(frame[name], where)))
    first, last = separator.lstrip(), separator.rstrip()
    paths = [
        [] if gone else str(cell).strip().removeprefix(first).removesuffix(last).split(separator)
        for cell, gone in zip(cells.tolist(), missing_cells(cells), strict=True)
    ]
    names = [f"{name} {k + 1}" for k in range(max([2, *map(len, paths)]))]
    levels = [[*(level.strip() for level in path), *[None] * (len(names) - len(path))] for path in paths]
    return pd.DataFrame(levels, columns=names, dtype=object), names


def _plain_cells(column: pd.Series[Any], where: object) -> pd.Series[Any] | list[Cell]:
    """A column of labels: dates as text; cells that hold several things are refused."""
    if column.dtype.kind in "mM":
        return column.astype(object).map(str).where(column.notna(), None)
    if column.dtype != object:
        return column
    refuse_nested(column, where, "write one label in a cell, or give --label-sep if rows have several")
    cells = column.tolist()
    return [str(cell) if isinstance(cell, date) and cell == cell else cell for cell in cells]


def refuse_nested(column: pd.Series[Any], where: object, fix: str) -> None:
    """Refuse lists, objects and bytes in the cells of a column, as JSON lines and Parquet may have them."""
    for row, cell in enumerate(column.tolist()):
        if isinstance(cell, list | tuple | set | dict | np.ndarray | bytes):
            kind = "bytes" if isinstance(cell, bytes) else "an object" if isinstance(cell, dict) else "a list"
            raise DataError(
                f"the column {column.name!r} of {str(where)!r} holds {kind} in row {row} (counted from 0): "
                f"{reprlib.repr(cell)}; {fix}."
            )


def refuse_bytes(frame: pd.DataFrame, names: Sequence[str], where: object) -> None:
    """Refuse bytes in text columns, which may be text in any encoding or none."""
    for name in names:
        if frame[name].dtype == object and any(isinstance(cell, bytes) for cell in frame[name].tolist()):
            refuse_nested(frame[name], where, "write it as text")


def _clean(cell: Cell) -> Cell:
    """A name without blanks around it and with composed letters; None if nothing is left."""
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    return (text if text.isascii() else unicodedata.normalize("NFC", text)) or None


def texts_of(frame: pd.DataFrame, names: Sequence[str], where: object, block: str = "") -> list[str]:
    """One text per row: the cells of text columns side by side, nothing for missing ones."""
    import pandas as pd

    check_columns(frame, names, where, block)
    refuse_bytes(frame, names, where)
    columns = [frame[name].to_numpy() for name in names]
    parts = [
        ["" if gap else str(cell) for cell, gap in zip(cells.tolist(), pd.isna(cells), strict=True)]
        for cells in columns
    ]
    return [" ".join(cells) for cells in zip(*parts, strict=True)]


def numbers_of(frame: pd.DataFrame, names: Sequence[str], where: object, block: str = "") -> np.ndarray:
    """Numeric columns as floats, NaN where a cell is missing: empty, blank, or a word such as NA, also in JSON and Parquet.

    A cell that is something else and no finite number is refused with its place.
    """
    import pandas as pd
    from pandas._libs.parsers import STR_NA_VALUES

    check_columns(frame, names, where, block)
    found = np.empty((len(frame), len(names)))
    for k, name in enumerate(names):
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column.dtype):
            values = column.to_numpy(dtype=float, na_value=np.nan)
        elif (written := written_numbers(column)) is not None:
            values = written
        else:
            try:
                values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
            except OverflowError:  # a whole number beyond all floats
                values = pd.to_numeric(column.astype(str), errors="coerce").to_numpy(dtype=float, na_value=np.nan)
            odd = np.flatnonzero(np.isnan(values) & column.notna().to_numpy())
            odd = odd[[str(cell).strip() not in STR_NA_VALUES for cell in column.iloc[odd]]] if len(odd) else odd
            if len(odd) and _PLAIN_NUMBER.fullmatch(
                str(column.iloc[odd[0]])
            ):  # as older versions of pandas give up on 1e999
                _refuse_cells(column, odd[:1], where, block, "too large or infinite", "correct or leave out these rows")
            if len(odd):
                _refuse_no_numbers(column, odd, where, block)
        infinite = np.flatnonzero(np.abs(values) > LARGEST_FEATURE)
        if len(infinite):
            _refuse_cells(column, infinite, where, block, "too large or infinite", "correct or leave out these rows")
        found[:, k] = values
    return found


def decimal_commas(frame: pd.DataFrame, names: Iterable[str]) -> list[str]:
    """The columns in whose numbers a comma is the decimal point."""
    return [
        name
        for name in names
        if written_numbers(frame[name]) is not None and frame[name].map(lambda cell: "," in str(cell)).any()
    ]


def written_numbers(column: pd.Series[Any]) -> np.ndarray | None:
    """The numbers of a column of texts with decimals, as spreadsheets of some countries have them (12,50 or 12.50), NaN where
    there is nothing; None if a cell is something else, and of whole numbers only, which may be names.

    >>> import pandas as pd
    >>> written_numbers(pd.Series(["12,50", None, "1.234,00", 7.5])).tolist()
    [12.5, nan, 1234.0, 7.5]
    >>> written_numbers(pd.Series(["0901", "0902"])) is None
    True
    """
    import pyarrow as pa

    from vpunn.io.cells import Column

    cells, there = column.to_numpy(object), column.notna().to_numpy()
    text = np.array([isinstance(cell, str) for cell in cells], bool)
    rest = cells[there & ~text]
    if not text.any() or not all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in rest):
        return None
    written = pa.chunked_array([pa.array(cells[text].tolist(), pa.string())])
    kind = Column(commas=True)
    kind.see(written)
    if kind.kind not in ("number", "comma"):
        return None
    values = np.full(len(cells), np.nan)
    values[there & ~text] = rest.astype(float)
    values[text] = kind.read(written).to_numpy(zero_copy_only=False)
    return values


def _refuse_no_numbers(column: pd.Series[Any], odd: np.ndarray, where: object, block: str) -> None:
    """Refuse cells that are no numbers: beside numbers such as 19,8 those few that kept their commas from being read."""
    commas = column.iloc[odd].astype(str).str.strip().str.fullmatch(COMMA_NUMBER).to_numpy(bool)
    few = "write numbers there, or empty these cells, which are read as the median of the column"
    if commas.any() and not commas.all():
        _refuse_cells(column, odd[~commas], where, block, "not numeric", few)
    fix = few if len(odd) < column.notna().sum() else "write numbers like 3.5; words and kinds belong in --text"
    if commas.all():
        fix = "write 3,5 as 3.5, and thousands without a comma"
    _refuse_cells(column, odd, where, block, "not numeric", fix)


def _in_block(block: str) -> str:
    return f" (block {block!r})" if block else ""


def _refuse_cells(column: pd.Series[Any], rows: np.ndarray, where: object, block: str, what: str, fix: str) -> None:
    cells = examples(list(dict.fromkeys(str(cell)[:40] for cell in column.iloc[rows])), limit=3)
    raise DataError(
        f"the column {column.name!r}{_in_block(block)} of {str(where)!r} is {what} in row {examples(rows, limit=3)} "
        f"(counted from 0): {cells}; {fix}."
    )


def refuse_missing(X: np.ndarray, names: Sequence[str], where: object, fix: str, block: str = "") -> None:
    """Refuse missing numbers, naming column and row."""
    for k, name in enumerate(names):
        rows = np.flatnonzero(np.isnan(X[:, k]))
        if len(rows):
            raise DataError(
                f"the column {name!r}{_in_block(block)} of {str(where)!r} has no number (NaN) in {len(rows):,} of {len(X):,} "
                f"rows, row {examples(rows, limit=3)} (counted from 0); {fix}."
            )


def refuse_measurements(cells: LabelCells, names: Sequence[str], where: object) -> None:
    """Refuse a target of decimal numbers that hardly repeat: a quantity, not a class (1.10 and 1.2 as chapters are classes)."""
    column = [cell for cell in cells.values[:, 0].tolist() if cell is not None]
    different = set(map(str, column))
    if len(names) > 1 or len(different) <= max(len(column) / 2, 3) or all(isinstance(cell, int) for cell in column):
        return
    if all(_is_decimal(text) for text in different):
        raise DataError(
            f"the target {names[0]!r} of {str(where)!r} holds numbers such as {examples(column, limit=2)} that hardly repeat; "
            f"predict them with --regress {names[0]} and --levels, or round them to classes."
        )


_PLAIN_NUMBER = re.compile(r"\s*[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\s*")


def _is_decimal(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
