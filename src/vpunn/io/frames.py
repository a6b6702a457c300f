"""Tables as pandas frames: `read_table` and `write_table`, the only way the package reads or writes one.

(Tables that describe a tree, one row per edge or path, are read by `tables`, which keeps every cell as it is written.)
"""

from __future__ import annotations

import difflib
import io
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vpunn import files
from vpunn._show import plain
from vpunn.errors import DataError, DataWarning, examples, first_words
from vpunn.io.cells import Column, in_types, seen
from vpunn.io.json_lines import json_rows
from vpunn.io.spreadsheets import without_formulas
from vpunn.io.text_tables import TextTable, open_text_table
from vpunn.io.texts import Text, open_text

if TYPE_CHECKING:
    import pandas as pd

    from vpunn._types import FilePath, FileSource

#: Kinds of table by file ending (also before .gz, .bz2, .xz).
ENDINGS = {
    ".csv": "text",
    ".tsv": "text",
    ".tab": "text",
    ".txt": "text",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "lines",
    ".ndjson": "lines",
    ".feather": "feather",
    ".xlsx": "excel",
}
#: Endings of spreadsheets that are not read.
SHEETS = (".xls", ".xlsm", ".ods")
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "feather", b"FEA1": "feather", b"{": "lines"}


def read_table(
    path: FileSource,
    *,
    columns: Sequence[str] = (),
    as_text: Sequence[str] = (),
    numbers: Sequence[str] | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> pd.DataFrame:
    """A table from a file: CSV, TSV, Parquet, JSON lines, Feather or Excel by its ending; ``"-"`` is standard input.

    Text may be separated by commas, semicolons, tabs or bars (the commonest in the first line, unless ``delimiter`` is
    given, or what a first line ``sep=;`` says, as spreadsheets write it) and be UTF-8 or UTF-16, with or without byte order
    mark; other bytes are read as Latin-1, or Windows-1252 where Latin-1 has no letter, and a `DataWarning` says so. Packed
    files (gzip, bzip2, xz) are unpacked. ``columns`` are names that must be there. Cells of the columns ``as_text`` stay as
    they are written (007 and 1.10 are names there, not the numbers 7 and 1.1); given ``numbers``, so do those of all columns of a
    text but these. Where the separator is no comma, a column of numbers such as 3,5 or 1.234,50 is read as 3.5 and 1234.5, which a
    `DataWarning` says. Empty cells and NA, NaN, null, None, N/A are missing; blanks around column names do not count. A file
    without rows, a row with more or fewer cells than the first line (named by its line), a quote that is never closed, two
    columns of one name and a column that is not there are errors of one
    sentence.

    >>> read_table(io.StringIO("bird;grams\\nwren;8.9\\nowl;540\\n"))
       bird  grams
    0  wren    8.9
    1   owl  540.0
    """
    stream = hasattr(path, "read") or str(path) == "-"
    if not stream:
        files.check_path(path)
        stream = Path(path).is_fifo() or Path(path).is_char_device()  # <(…) and /dev/stdin of a shell
    if not stream:
        if files.suffix(path) not in ENDINGS:
            hint = " (save the sheet as .xlsx or .csv)" if files.suffix(path) in SHEETS else ""
            raise DataError(
                f"{os.fspath(path)!r} has the ending {Path(path).suffix!r}; tables are read from {', '.join(ENDINGS)}{hint}."
            )
        if not Path(path).is_file():
            raise DataError(f"there is no file {os.fspath(path)!r}.")
    source = files.load(path)
    kind = _kind_of(source.data) if stream else ENDINGS[files.suffix(path)]
    if not source.data.strip():
        raise DataError(f"{source.name!r} is empty; a table begins with a line of column names.")
    readers: dict[str, Callable[[], pd.DataFrame]] = {
        "text": lambda: _read_text(source, delimiter, encoding, as_text, numbers),
        "lines": lambda: _read_lines(source, encoding),
        "parquet": lambda: _read_binary(source, "Parquet"),
        "feather": lambda: _read_binary(source, "Feather"),
        "excel": lambda: _read_sheet(source),
    }
    frame = readers[kind]()
    if not len(frame):
        raise DataError(f"{source.name!r} has no rows below its column names, {examples(list(frame.columns))}.")
    check_columns(frame, columns, source.name)
    return frame


def write_table(frame: pd.DataFrame, path: FilePath, *, spreadsheet: bool = False) -> Path:
    """Write a table that `read_table` reads back, by its ending; the file appears whole or not at all. The path.

    Text is UTF-8 with commas (.csv) or tabs; the index is not written. ``"-"`` prints CSV. Text cells that start with =, +,
    - or @ and are no numbers are formulas to a spreadsheet, which runs them: ``spreadsheet=True`` writes an apostrophe before
    them, which `read_table` does not take away again.
    """
    if spreadsheet:
        frame = without_formulas(frame)
    kind = "text" if str(path) == "-" else ENDINGS[files.suffix(check_table_path(path))]
    if kind in ("parquet", "feather"):
        with files.written_beside(path) as scratch:
            frame = frame.reset_index(drop=True)
            frame.to_parquet(scratch, index=False) if kind == "parquet" else frame.to_feather(scratch)
    elif kind == "excel":
        from vpunn.io.excel import SheetWriter

        with files.written_beside(path) as scratch:
            writer = SheetWriter(scratch)
            writer.append(frame)
            writer.close()
    elif kind == "lines":
        rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
        files.save(path, "".join(json.dumps(row, default=plain, ensure_ascii=False) + "\n" for row in rows).encode())
    else:
        comma = str(path) == "-" or files.suffix(path) == ".csv"
        files.save(path, frame.to_csv(index=False, sep="," if comma else "\t").encode())
    return Path(path)


def check_table_path(path: FilePath) -> Path:
    """Refuse a place where no table can be written, before any work is done for it. The path."""
    return files.check_writable(path, tuple(ENDINGS))


def check_columns(frame: pd.DataFrame, names: Sequence[str], where: object, block: str = "") -> None:
    """Refuse names that are no columns, with the columns there are and the likeliest one meant; ``block`` is what reads them."""
    if not hasattr(frame, "columns"):
        raise DataError(
            f"{str(where)!r} is of the type {type(frame).__name__}; give a pandas DataFrame with columns of names."
        )
    twice = set(frame.columns[frame.columns.duplicated()])
    for name in names:
        if name in twice:
            raise DataError(f"{str(where)!r} has several columns {name!r}; rename or drop all but one.")
        if name not in frame.columns:
            known = [str(column) for column in frame.columns]
            close = [column for column in known if column.casefold() == str(name).casefold()]
            close = close or difflib.get_close_matches(str(name), known, n=1)
            begun = [column for column in known if column.casefold().startswith(str(name).casefold())]
            close = close or (begun if len(begun) == 1 and name else [])  # price for "Price (€)"
            meant = f"did you mean {close[0]!r}? It has" if close else "it has"
            inside = f" (block {block!r})" if block else ""
            raise DataError(f"{str(where)!r} has no column {name!r}{inside}; {meant} {examples(known, limit=20)}.")


def pop_column(frame: pd.DataFrame, name: str | None) -> tuple[pd.DataFrame, pd.Series | None]:
    """The table without one column, and that column."""
    if name is None:
        return frame, None
    check_columns(frame, [name], "the table")
    return frame.drop(columns=name), frame[name]


# ---- readers ---------------------------------------------------------------------------------------------------------


def _kind_of(data: bytes) -> str:
    return next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), "text")


def _read_text(
    source: files.Source,
    delimiter: str | None,
    encoding: str | None,
    as_text: Sequence[str],
    numbers: Sequence[str] | None,
) -> pd.DataFrame:
    import pandas as pd
    import pyarrow as pa

    table = open_text_table(source, delimiter, encoding)
    guessed = [name for name in table.names if name not in as_text and (numbers is None or name in numbers)]
    blocks = list(table.blocks())
    if not blocks:
        return pd.DataFrame(columns=pd.Index(table.names))
    columns = seen(blocks, guessed, table.mark != ",")
    warn_of(table, columns)
    frame: pd.DataFrame = in_types(pa.concat_tables(blocks), columns).to_pandas()
    return frame


def warn_of(table: TextTable, columns: Mapping[str, Column]) -> None:
    """Say by which rules a text was read that may not be what its author meant."""
    commas = {name: column for name, column in columns.items() if column.kind == "comma"}
    say_guess(table.text)
    if commas:
        also = ", the point as a mark of thousands" if any(column.points for column in commas.values()) else ""
        said = (
            f"{table.name!r}: the comma in the numbers of {examples(list(commas))} was read as a decimal point{also}."
        )
        warnings.warn(said, DataWarning, stacklevel=5)


def say_guess(text: Text) -> None:
    """Say which encoding was guessed."""
    if text.note:
        warnings.warn(text.note, DataWarning, stacklevel=5)


def _read_lines(source: files.Source, encoding: str | None) -> pd.DataFrame:
    import pandas as pd

    text = open_text(source, encoding)
    say_guess(text)
    return pd.DataFrame(list(json_rows(text)))


def _read_sheet(source: files.Source) -> pd.DataFrame:
    from vpunn.io.excel import read_sheet

    return read_sheet(source)


def _read_binary(source: files.Source, kind: str) -> pd.DataFrame:
    from pyarrow import feather, parquet

    read = parquet.read_table if kind == "Parquet" else feather.read_table
    try:
        table = read(io.BytesIO(source.data))
        table.validate(full=True)  # or bytes that are no text are found when somebody first reads them
        frame: pd.DataFrame = table.to_pandas()
        return frame
    except (
        Exception
    ) as error:  # pandas keeps notes on its types in these files, and raises anything where they are damaged
        raise DataError(f"{source.name!r} cannot be read as {kind}: {first_words(error)}.") from None
