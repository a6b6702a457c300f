"""Text tables too large to hold: read in blocks, after a pass that finds what a reader of blocks would take without a word."""

from __future__ import annotations

import csv
import io
import lzma
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vpunn import files
from vpunn.errors import DataError, examples
from vpunn.io.frames import SEP_LINE, broken_quote, check_mark, twice_named, wrong_cells

if TYPE_CHECKING:
    from _csv import Reader

    import pyarrow as pa

#: Bytes of text in a block; a row must fit into one.
BLOCK = 16 << 20
_HEAD = 1 << 20
#: What a packed file that is cut or damaged raises while it is unpacked.
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, OSError)


class Layout(NamedTuple):
    """How a text table is written: its encoding, its separator, the lines before the names, and the names."""

    encoding: str
    mark: str
    skipped: int
    names: list[str]  #: as they are written, with the blanks around them


def text_blocks(path: Path, columns: Sequence[str], delimiter: str | None, encoding: str | None) -> Iterator[pa.Table]:
    """The chosen columns as text, a block at a time; a file with zero bytes or broken quotes is refused before the first."""
    import pyarrow as pa
    import pyarrow.csv
    from pandas._libs.parsers import STR_NA_VALUES

    try:
        layout = _layout(path, delimiter, encoding)
        raw = {name.strip(): name for name in layout.names}
        _check_names(layout, columns, path)
        _check_text(path, layout)
        with open_bytes(path) as stream:
            code = "utf8" if layout.encoding == "utf-8" else layout.encoding
            reader = pa.csv.open_csv(
                stream,
                pa.csv.ReadOptions(block_size=BLOCK, encoding=code, use_threads=False, skip_rows=layout.skipped),
                pa.csv.ParseOptions(delimiter=layout.mark, newlines_in_values=True),
                pa.csv.ConvertOptions(
                    include_columns=[raw[name] for name in columns],
                    column_types=dict.fromkeys(layout.names, pa.string()),
                    null_values=sorted(STR_NA_VALUES),
                    strings_can_be_null=True,
                ),
            )
            rows = 0
            for batch in reader:
                rows += len(batch)
                yield pa.Table.from_batches([batch]).rename_columns(list(columns))
            if not rows:
                raise DataError(f"{str(path)!r} has no rows below its column names, {examples(list(raw))}.")
    except (pa.ArrowException, UnicodeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        hint = f"; {files.OTHER_ENCODING}" if "UTF8" in reason or "utf" in reason else ""
        raise DataError(f"{str(path)!r} cannot be read as a table: {reason}{hint}.") from None
    except DAMAGED as error:
        raise DataError(f"{str(path)!r} cannot be read to its end: {error}.") from None


def open_bytes(path: Path) -> Any:
    """A file's bytes, unpacked on the way."""
    packer = files._PACKERS.get(path.suffix.lower())
    return open(path, "rb") if packer is None else packer.open(path, "rb")


def _layout(path: Path, delimiter: str | None, encoding: str | None) -> Layout:
    """What the first lines say, by the rules of `read_table`."""
    with open_bytes(path) as stream:
        head = stream.read(_HEAD)
    if head.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise DataError(f"{str(path)!r} is a spreadsheet or an archive, not text; save the sheet as CSV.")
    wide = "utf-16" if head.startswith(files._BOM_UTF16) else "utf-16-be" if head[:1] == b"\0" else "utf-16-le"
    code = encoding or (wide if head.startswith(files._BOM_UTF16) or b"\0" in head[:2] else "utf-8")
    try:
        text = head.decode(code, "ignore").removeprefix("\ufeff")
    except LookupError:
        raise DataError(f"there is no encoding {code!r}; latin-1 reads any file.") from None
    hint = SEP_LINE.match(text)
    text = text[hint.end() :] if hint else text
    mark = delimiter if delimiter is not None else hint[2] if hint else files.find_delimiter(text)
    check_mark(mark)
    try:
        names = next((row for row in csv.reader(io.StringIO(text, newline=""), delimiter=mark) if row), [])
    except csv.Error as error:
        raise broken_quote(files.Source(str(path), b""), 1, error) from None
    return Layout(code, mark, 1 if hint else 0, names)


def _check_names(layout: Layout, columns: Sequence[str], path: Path) -> None:
    import pandas as pd

    from vpunn.io.frames import check_columns

    names = [name.strip() for name in layout.names]
    twice_named(names, str(path))
    check_columns(pd.DataFrame(columns=pd.Index(names)), columns, path)


def _check_text(path: Path, layout: Layout) -> None:
    """Refuse zero bytes, quotes that are never closed or stand inside a cell, and rows of another length, by line.

    Rows of a file without any quote are left to the reader, which counts their cells itself.
    """
    source, quoted = files.Source(str(path), b""), False
    with open_bytes(path) as stream:
        while block := stream.read(BLOCK):
            quoted = quoted or b'"' in block
            if b"\0" in block and not layout.encoding.startswith(("utf-16", "utf-32")):
                raise DataError(f"{source.name}: there is a zero byte; this is not text.")
    if not quoted:
        return
    longest = csv.field_size_limit(BLOCK)
    try:
        with (
            open_bytes(path) as stream,
            io.TextIOWrapper(stream, layout.encoding, errors="replace", newline="") as lines,
        ):
            for _ in range(layout.skipped):
                lines.readline()
            _check_rows(source, csv.reader(lines, delimiter=layout.mark, strict=True), layout)
    finally:
        csv.field_size_limit(longest)


def _check_rows(source: files.Source, rows: Reader, layout: Layout) -> None:
    line = 1
    try:
        for row in rows:
            if row and len(row) != len(layout.names):
                raise wrong_cells(source, line + layout.skipped, len(row), len(layout.names), layout.mark)
            line = rows.line_num + 1
    except csv.Error as error:
        raise broken_quote(source, line + layout.skipped, error) from None
