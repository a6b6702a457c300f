"""Text tables of any size: how they are written, and their cells, a block at a time.

One set of rules for tables and for tables that describe a tree: what separates cells, quotes, rows of another length (found by
Arrow's parser, explained by line), and names of columns.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vpunn import files
from vpunn.errors import DataError, examples, repeated
from vpunn.io import texts
from vpunn.io.cells import MISSING
from vpunn.io.texts import Text, open_text

if TYPE_CHECKING:
    import pyarrow as pa

#: The line with which spreadsheets tell each other the separator.
SEP_LINE = re.compile("sep=([,;|\t])\\r?\\n", re.IGNORECASE)


@dataclass(frozen=True)
class TextTable:
    """A text with cells: what separates them, the lines above its first row, and the names of its columns."""

    text: Text
    mark: str
    skipped: int
    names: list[str]

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.text.name

    def blocks(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The chosen columns (all by default) as text; an empty cell and words such as NA without quotes are null."""
        import pyarrow as pa
        import pyarrow.csv as arrow_csv

        try:
            with self.text.stream() as stream:
                reader = arrow_csv.open_csv(
                    stream,
                    arrow_csv.ReadOptions(
                        block_size=texts.BLOCK, use_threads=False, skip_rows=self.skipped, column_names=self.names
                    ),
                    arrow_csv.ParseOptions(delimiter=self.mark, newlines_in_values=True),
                    arrow_csv.ConvertOptions(
                        check_utf8=False,  # it was when the encoding was found
                        include_columns=self.names if columns is None else list(dict.fromkeys(columns)),
                        column_types=dict.fromkeys(self.names, pa.string()),
                        null_values=sorted(MISSING),
                        strings_can_be_null=True,
                        quoted_strings_can_be_null=False,
                    ),
                )
                for batch in reader:
                    yield pa.Table.from_batches([batch])
        except pa.ArrowException as error:
            if "Empty CSV" in str(error):  # names and nothing else
                return
            for _ in self.rows():  # a row of another length is explained by its line
                pass
            reason = str(error).splitlines()[0].removeprefix("CSV parse error: ").rstrip(". ")
            raise DataError(f"{self.name!r} cannot be read as a table: {reason}.") from None

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """The rows below the names, each with the line on which it begins; blank lines are none."""
        source = files.Source(self.name, b"")
        with self._reader() as rows:
            line = self.skipped + 1
            try:
                for row in rows:
                    if row and len(row) != len(self.names):
                        raise wrong_cells(source, line, len(row), len(self.names), self.mark)
                    if row:
                        yield line, row
                    line = self.skipped + rows.line_num + 1
            except csv.Error as error:
                raise broken_quote(source, line, error) from None

    def check_quotes(self) -> None:
        """Refuse a quote that is never closed or stands inside a cell: Arrow takes all that follows for one cell."""
        try:
            with self._reader() as rows:
                lengths = set(map(len, rows))
        except csv.Error:
            lengths = {-1}
        if not lengths <= {0, len(self.names)}:
            for _ in self.rows():
                pass

    @contextmanager
    def _reader(self) -> Iterator[csv.Reader]:  # type: ignore[name-defined]
        with self.text.lines() as lines, long_cells():
            for _ in range(self.skipped):
                lines.readline()
            yield csv.reader(lines, delimiter=self.mark, strict=True)


def open_text_table(
    source: files.Source | Path, delimiter: str | None = None, encoding: str | None = None, *, names: bool = True
) -> TextTable:
    """Tell how a text table is written; what cannot be read without losing something is refused.

    ``names=False``: the first line is a row, and columns are called "column 1", "column 2" and so on.
    """
    text = open_text(source, encoding)
    head = text.head()
    if not head.strip():
        raise DataError(f"{text.name!r} is empty; a table begins with a line of column names.")
    hint = SEP_LINE.match(head)
    head = head[hint.end() :] if hint else head
    mark = delimiter if delimiter is not None else hint[1] if hint else files.find_delimiter(head)
    check_mark(mark)
    skipped, line = int(bool(hint)), 1
    with text.lines() as lines, long_cells():
        for _ in range(skipped):
            lines.readline()
        first = csv.reader(lines, delimiter=mark, strict=True)
        try:
            cells = next((row for row in first if row), [])
            line = first.line_num
        except csv.Error as error:
            raise broken_quote(files.Source(text.name, b""), skipped + 1, error) from None
    if names:
        called = [cell.strip() or f"Unnamed: {at}" for at, cell in enumerate(cells)]
        skipped += line
        twice_named(called, text.name)
    else:
        called = [f"column {at + 1}" for at in range(len(cells))]
    table = TextTable(text, mark, skipped, called)
    if text.quoted:
        table.check_quotes()
    return table


# ---- what is wrong, by line ------------------------------------------------------------------------------------------


@contextmanager
def long_cells() -> Iterator[None]:
    """Python's reader takes cells as long as a block."""
    longest = csv.field_size_limit(texts.BLOCK)
    try:
        yield
    finally:
        csv.field_size_limit(longest)


def check_mark(delimiter: object) -> None:
    """Refuse what cannot separate cells."""
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '\r\n"' or not delimiter.isascii():
        raise DataError(
            f"delimiter={delimiter!r} must be a single character of ASCII, such as ';', that ends no line or cell."
        )


def twice_named(names: Sequence[str], where: str) -> None:
    """Refuse two columns of one name."""
    if twice := repeated(names):
        raise DataError(f"{where!r}: two columns are called {examples(twice)}; rename one of them.")


def broken_quote(source: files.Source, line: int, error: csv.Error) -> DataError:
    """What is wrong with the quotes of a row."""
    if "field larger than" in str(error):
        return source.line_error(
            line,
            f'a cell has more than {texts.BLOCK:,} letters; if a quote (") opened in this row is not closed, close it.',
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
