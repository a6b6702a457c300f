"""Tables as pandas frames: `read_table` and `write_table`, the only way the package reads or writes one.

(Tables that describe a tree, one row per edge or path, are read by `tables`, which keeps every cell as it is written.)
"""

from __future__ import annotations

import csv
import difflib
import io
import json
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn import files
from vpunn._show import plain
from vpunn.errors import DataError, DataWarning, examples

if TYPE_CHECKING:
    import pandas as pd

    from vpunn._types import Cell, FilePath, FileSource

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
}
#: Endings of spreadsheets, which are not read: a sheet holds more than a table.
SHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
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
    """A table from a file: CSV, TSV, Parquet, JSON lines or Feather by its ending; ``"-"`` is standard input.

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
            hint = " (save the sheet as CSV)" if files.suffix(path) in SHEETS else ""
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
    }
    frame = readers[kind]()
    if not len(frame):
        raise DataError(f"{source.name!r} has no rows below its column names, {examples(list(frame.columns))}.")
    check_columns(frame, columns, source.name)
    return frame


#: How a spreadsheet recognises a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_table(frame: pd.DataFrame, path: FilePath, *, spreadsheet: bool = False) -> Path:
    """Write a table that `read_table` reads back, by its ending; the file appears whole or not at all. The path.

    Text is UTF-8 with commas (.csv) or tabs; the index is not written. ``"-"`` prints CSV. Text cells that start with =, +,
    - or @ are formulas to a spreadsheet, which runs them: ``spreadsheet=True`` writes an apostrophe before them, which
    `read_table` does not take away again.
    """
    if spreadsheet:
        frame = frame.rename(columns=_not_a_formula)
        for at, kind in enumerate(frame.dtypes):
            if kind.kind not in "biufcmM":
                frame.isetitem(at, frame.iloc[:, at].map(_not_a_formula).to_numpy(object))
    kind = "text" if str(path) == "-" else ENDINGS[files.suffix(check_table_path(path))]
    if kind in ("parquet", "feather"):
        with files.written_beside(path) as scratch:
            frame = frame.reset_index(drop=True)
            frame.to_parquet(scratch, index=False) if kind == "parquet" else frame.to_feather(scratch)
    elif kind == "lines":
        rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
        files.save(path, "".join(json.dumps(row, default=plain, ensure_ascii=False) + "\n" for row in rows).encode())
    else:
        comma = str(path) == "-" or files.suffix(path) == ".csv"
        files.save(path, frame.to_csv(index=False, sep="," if comma else "\t").encode())
    return Path(path)


def _not_a_formula(cell: Cell) -> Cell:
    """A cell as a spreadsheet should show it."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def check_table_path(path: FilePath) -> Path:
    """Refuse a place where no table can be written, before any work is done for it. The path."""
    return files.check_writable(path, tuple(ENDINGS))


def check_columns(frame: pd.DataFrame, names: Sequence[str], where: object, block: str = "") -> None:
    """Refuse names that are no columns, with the columns there are and the likeliest one meant; ``block`` is what reads them."""
    for name in names:
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

    if source.data.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise DataError(f"{source.name!r} is a spreadsheet or an archive, not text; save the sheet as CSV.")
    text = _decoded(source, encoding)
    if "\0" in text:
        raise source.line_error(text.count("\n", 0, text.find("\0")) + 1, "there is a zero byte; this is not text.")
    hint = SEP_LINE.match(text)
    if hint:  # a blank line in its place keeps the numbers of the lines
        text, delimiter = text[hint.end(1) :], hint[2] if delimiter is None else delimiter
    mark = files.find_delimiter(text) if delimiter is None else delimiter
    names = [name.strip() for name in _check_cells(source, text, mark)]
    twice_named(names, source.name)
    if numbers is not None:
        as_text = [*as_text, *(name for name in names if name not in numbers)]
    try:
        kept = {at: str for at, name in enumerate(names) if name in as_text}
        options: dict[str, Any] = {"low_memory": False, "index_col": False}
        if int(pd.__version__.partition(".")[0]) < 3:  # newer ones read numbers to the last bit by themselves
            options["float_precision"] = "round_trip"
        frame = pd.read_csv(io.StringIO(text), sep=mark, dtype=kept or None, **options)
    except (ValueError, OverflowError) as error:
        reason = str(error).strip().splitlines()[-1].rstrip(".")
        raise DataError(f"{source.name!r} cannot be read as a table: {reason}.") from error
    frame.columns = pd.Index([str(given).strip() for given in frame.columns])
    return frame if mark == "," else _with_decimal_points(frame, source.name, as_text)


#: The line with which spreadsheets tell each other the separator.
SEP_LINE = re.compile("(\ufeff?sep=([,;|\t]))\\r?\\n", re.IGNORECASE)
#: 3,5 and 1.234,50; a point that no comma follows may be a decimal point, so 1.234 is none.
COMMA_NUMBER = r"[-+]?(?:[0-9]+(?:,[0-9]+)?(?:[eE][-+]?[0-9]+)?|[1-9][0-9]{0,2}(?:\.[0-9]{3})+,[0-9]+)"


def _with_decimal_points(frame: pd.DataFrame, name: str, as_text: Sequence[str]) -> pd.DataFrame:
    """Columns of numbers with decimal commas as numbers; 1,234 beside nothing but such could mean thousands and stays text."""
    import pandas as pd

    changed, thousands = [], False
    for column in frame.columns[frame.dtypes.map(pd.api.types.is_string_dtype)]:
        cells = frame[column].dropna().astype(str).str.strip()
        cells = cells[cells != ""]  # a blank cell is an empty one
        if column in as_text or not len(cells) or not cells.str.fullmatch(COMMA_NUMBER).all():
            continue
        if cells.str.fullmatch(r"[-+]?[1-9][0-9]{0,2},[0-9]{3}|[-+]?[0-9]+").all():
            continue
        plain = frame[column].astype(object).str.strip().str.replace(".", "", regex=False)
        frame[column] = pd.to_numeric(plain.str.replace(",", ".", regex=False))
        changed.append(column)
        thousands |= bool(cells.str.contains(".", regex=False).any())
    if changed:
        also = ", the point as a mark of thousands" if thousands else ""
        said = f"{name!r}: the comma in the numbers of {examples(changed)} was read as a decimal point{also}."
        warnings.warn(said, DataWarning, stacklevel=5)
    return frame


def _decoded(source: files.Source, encoding: str | None) -> str:
    if encoding is not None:
        return source.text(encoding)
    text, note = source.guessed_text()
    if note:
        warnings.warn(note, DataWarning, stacklevel=5)
    return text


def _check_cells(source: files.Source, text: str, delimiter: str) -> list[str]:
    """The names in the first line, after checking that every line has as many cells; blank lines do not count."""
    check_mark(delimiter)
    with long_cells(text):
        return _checked_cells(source, text, delimiter)


@contextmanager
def long_cells(text: str) -> Iterator[None]:
    """Python's reader takes cells as long as the text: it is in memory already."""
    longest = csv.field_size_limit(max(len(text), 1))
    try:
        yield
    finally:
        csv.field_size_limit(longest)


def check_mark(delimiter: object) -> None:
    """Refuse what cannot separate cells."""
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '\r\n"':
        raise DataError(f"delimiter={delimiter!r} must be a single character, such as ';', that ends no line or cell.")


def twice_named(names: Sequence[str], where: str) -> None:
    """Refuse two columns of one name."""
    twice = [name for name in dict.fromkeys(names) if name and names.count(name) > 1]
    if twice:
        raise DataError(f"{where!r}: two columns are called {examples(twice)}; rename one of them.")


def _checked_cells(source: files.Source, text: str, delimiter: str) -> list[str]:
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        names: list[str] = next((row for row in rows if row), [])
    except csv.Error as error:
        raise broken_quote(source, line, error) from None
    if '"' not in text and "\r" not in text.replace("\r\n", ""):  # a line is a row: count separators between line ends
        letters = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        ends = np.append(np.flatnonzero(letters == ord("\n")), len(letters))
        seen = np.append(0, np.cumsum(letters == ord(delimiter)))
        starts = np.append(0, ends[:-1] + 1)
        cells = seen[ends] - seen[np.minimum(starts, len(letters))] + 1
        blank = ends - starts <= (letters[np.minimum(starts, len(letters) - 1)] == ord("\r"))
        wrong = np.flatnonzero((cells != len(names)) & ~blank)
        if len(wrong):
            raise wrong_cells(source, int(wrong[0]) + 1, int(cells[wrong[0]]), len(names), delimiter)
        return names
    line = rows.line_num + 1
    try:
        for row in rows:
            if row and len(row) != len(names):
                raise wrong_cells(source, line, len(row), len(names), delimiter)
            line = rows.line_num + 1
    except csv.Error as error:
        raise broken_quote(source, line, error) from None
    return names


def broken_quote(source: files.Source, line: int, error: csv.Error) -> DataError:
    """What is wrong with the quotes of a row."""
    if "field larger than" in str(error):
        return source.line_error(
            line, 'a quote (") opened in this row is not closed for millions of letters; close it.'
        )
    if "unexpected end of data" in str(error):
        return source.line_error(line, 'the quote (") opened in this row is never closed; close it, or double it ("").')
    return source.line_error(line, f'{error}; a quote (") inside a quoted cell is doubled ("").')


def wrong_cells(source: files.Source, line: int, count: int, wanted: int, delimiter: str) -> DataError:
    """What is wrong with a row that is longer or shorter than the first."""
    cells = f"{count} cell{'s' if count != 1 else ''}"
    return source.line_error(
        line, f"{cells} where the first line has {wanted}; quote cells that contain {delimiter!r}, or repair the line."
    )


def _read_lines(source: files.Source, encoding: str | None) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for number, line in enumerate(_decoded(source, encoding).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=files.keys_once)
        except ValueError as error:
            raise source.line_error(number, f"this is not JSON ({error}); each line holds one object.") from None
        if not isinstance(row, dict):
            raise source.line_error(number, f"each line holds one object such as {{…}}, got {line.strip()[:40]!r}.")
        if files.half_letter(line):
            raise source.line_error(
                number, f"{files.HALF_LETTER} ({files.half_letter(line)}); repair it where it comes from."
            )
        rows.append(row)
    return pd.DataFrame(rows)


def _read_binary(source: files.Source, kind: str) -> pd.DataFrame:
    import pandas as pd
    import pyarrow as pa

    read = pd.read_parquet if kind == "Parquet" else pd.read_feather
    try:
        return read(io.BytesIO(source.data))
    except (pa.ArrowException, ValueError, OSError) as error:
        raise DataError(f"{source.name!r} cannot be read as {kind}: {str(error).splitlines()[0]}.") from None
