"""Excel sheets (.xlsx) as tables: the first sheet that holds cells, its first filled row the names of the columns.

Needs openpyxl: ``pip install 'vpunn[excel]'``. Cells keep the types that the sheet gives them; formulas are read as the values they
had when the file was saved. What is written is never a formula, whatever a text begins with.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpunn.errors import DataError, DataWarning, examples, first_words

if TYPE_CHECKING:
    import pandas as pd

    from vpunn import files

#: What Excel shows where a formula has no value; such a cell is missing.
ERRORS = ("#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!")
#: Rows of a sheet, the names among them.
MOST_ROWS = 1_048_576
_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def _openpyxl() -> Any:
    try:
        import openpyxl
    except ImportError:
        raise DataError("Excel files need openpyxl: pip install 'vpunn[excel]'; or save the sheet as CSV.") from None
    return openpyxl


def read_sheet(source: files.Source) -> pd.DataFrame:
    """The first sheet that holds cells; if others do too, a `DataWarning` names the one that was read."""
    import pandas as pd

    _openpyxl()
    try:
        sheets = pd.read_excel(
            io.BytesIO(source.data), sheet_name=None, header=None, dtype=object, engine="openpyxl", na_values=ERRORS
        )
    except Exception as error:  # openpyxl and zipfile raise what they like on a damaged file
        raise DataError(f"{source.name!r} cannot be read as an Excel sheet: {first_words(error)}.") from None
    filled = {name: sheet.dropna(how="all").dropna(axis=1, how="all") for name, sheet in sheets.items()}
    filled = {name: sheet for name, sheet in filled.items() if len(sheet)}
    if not filled:
        raise DataError(f"{source.name!r} is empty; a table begins with a line of column names.")
    name, sheet = next(iter(filled.items()))
    if len(filled) > 1:
        said = f"{source.name!r} has {len(filled)} filled sheets; the first, {name!r}, was read."
        warnings.warn(said, DataWarning, stacklevel=4)
    names = [None if cell != cell or cell is None else str(cell).strip() for cell in sheet.iloc[0].tolist()]
    if None in names or "" in names:
        raise DataError(
            f"{source.name!r}, sheet {name!r}: a filled column has no name in the first row ({examples(names, limit=3)}); "
            "write one there, and leave out lines above the names."
        )
    twice = [one for one in dict.fromkeys(names) if names.count(one) > 1]
    if twice:
        raise DataError(f"{source.name!r}, sheet {name!r}: two columns are called {examples(twice)}; rename one.")
    frame = sheet.iloc[1:].reset_index(drop=True)
    frame.columns = pd.Index(names)
    return frame.apply(_typed)


def _typed(column: pd.Series[Any]) -> pd.Series[Any]:
    """A column of numbers as numbers (a sheet has no whole numbers: 5.0 is 5 there, and so is 1e300), others as they are."""
    there = column.dropna().tolist()
    if there and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in there):
        column = column.astype(float)
        whole = len(there) == len(column) and all(isinstance(cell, int) and abs(cell) < 2**53 for cell in there)
        return column.astype("int64") if whole else column
    return column.infer_objects()


class SheetWriter:
    """Writes frames one below the other to one sheet; texts stay texts, also those that begin as a formula does."""

    def __init__(self, path: Path) -> None:
        self._path, self._book = path, _openpyxl().Workbook(write_only=True)
        self._sheet = self._book.create_sheet("table")
        self._rows = 0

    def append(self, frame: pd.DataFrame) -> None:
        """Rows, with the names above the first."""
        if not self._rows:
            self._line([str(name) for name in frame.columns])
        for row in frame.astype(object).where(frame.notna(), None).itertuples(index=False, name=None):
            self._line(row)

    def _line(self, cells: Any) -> None:
        from openpyxl.cell import WriteOnlyCell
        from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

        self._rows += 1
        written = []
        for value in cells:
            value = value.item() if hasattr(value, "item") else value
            if value is None or isinstance(value, bool | int | float) or hasattr(value, "isoformat"):
                written.append(WriteOnlyCell(self._sheet, value))
                continue
            if ILLEGAL_CHARACTERS_RE.search(str(value)):
                self._refuse(f"the cell {str(value)!r} holds a control character, which no sheet can; clean it.")
            written.append(WriteOnlyCell(self._sheet, str(value)))
            written[-1].data_type = "s"
        if self._rows > MOST_ROWS:
            self._refuse(f"a sheet holds {MOST_ROWS:,} rows; write more to .csv or .parquet.")
        self._sheet.append(written)

    def _refuse(self, sentence: str) -> None:
        self._sheet.close()
        raise DataError(sentence)

    def close(self) -> None:
        """Finish the file; when it was written is left out, so that the same rows are the same bytes."""
        made = io.BytesIO()
        self._book.save(made)
        with zipfile.ZipFile(made) as book, zipfile.ZipFile(self._path, "w", zipfile.ZIP_DEFLATED) as file:
            for name in book.namelist():
                part = book.read(name)
                if name == "docProps/core.xml":
                    part = _TIME.sub(b"1980-01-01T00:00:00Z", part)
                entry = zipfile.ZipInfo(name)
                entry.compress_type = zipfile.ZIP_DEFLATED
                file.writestr(entry, part)
