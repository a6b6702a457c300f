"""JSON lines: one object a line, each a row of a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from vpunn import files
from vpunn.errors import DataError, first_words
from vpunn.io.texts import Text

if TYPE_CHECKING:
    import pyarrow as pa


def json_rows(text: Text) -> Iterator[dict[str, Any]]:
    """The rows, or one sentence about a line that is no object."""
    source = files.Source(text.name, b"")
    with text.lines() as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line, object_pairs_hook=files.keys_once)
            except ValueError as error:
                raise source.line_error(number, f"this is not JSON ({error}); each line holds one object.") from None
            if not isinstance(row, dict):
                raise source.line_error(number, f"each line holds one object such as {{…}}, got {line.strip()[:40]!r}.")
            if half := files.half_letter(line):
                raise source.line_error(number, f"{files.HALF_LETTER} ({half}); repair it where it comes from.")
            yield row


def types_of(text: Text) -> dict[str, set[type]]:
    """What each key holds over all rows; a row without it holds nothing (None)."""
    found: dict[str, set[type]] = {}
    count = 0
    held: dict[str, int] = {}
    for row in json_rows(text):
        count += 1
        for name, value in row.items():
            found.setdefault(name, set()).add(type(value))
            held[name] = held.get(name, 0) + 1
    for name, kinds in found.items():
        kinds |= {type(None)} if held[name] < count else set()
    return found


def line_blocks(text: Text, columns: Sequence[str], types: dict[str, set[type]], rows: int) -> Iterator[pa.Table]:
    """The chosen columns in tables of ``rows`` rows, each column in one type."""
    import pyarrow as pa

    reader = json_rows(text)
    while some := list(islice(reader, rows)):
        try:
            yield pa.table({name: pa.array([row.get(name) for row in some], _arrow(types[name])) for name in columns})
        except (pa.ArrowException, OverflowError) as error:
            reason = first_words(error)
            raise DataError(f"{text.name!r} cannot be read as a table: {reason}; write each key in one type.") from None


def _arrow(types: set[type]) -> Any:
    """The type of a column, as pandas would choose it; None lets Arrow find one for lists and objects."""
    import pyarrow as pa

    for kinds, kind in (({int}, pa.int64()), ({bool}, pa.bool_()), ({str}, pa.string()), ({int, float}, pa.float64())):
        if types <= kinds or (types <= {*kinds, type(None)} and kind != pa.int64()):
            return kind if types != {type(None)} else pa.string()
    return None
