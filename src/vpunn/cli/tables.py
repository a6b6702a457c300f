"""What the commands on tables share: the arguments that name one, and how it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import pandas as pd

    from vpunn.tables.inputs import Inputs

Model = Annotated[Path, typer.Argument(help="Folder that `vpunn fit` wrote.")]
Table = Annotated[
    Path | None,
    typer.Argument(
        help="A table (CSV, TSV, Excel, Parquet, JSON lines, Feather) with the columns the model reads; - for standard input."
    ),
]
Ask = Annotated[str | None, typer.Option(help="A text of your own instead of a table.")]


@dataclass(frozen=True)
class Reading:
    """How a text table is read, where that is not found by itself."""

    delimiter: Annotated[
        str | None, typer.Option(help="What separates the cells of a text table; found by itself if not given.")
    ] = None
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of a text table, such as cp1252; UTF-8 and UTF-16 are found.")
    ] = None

    def __post_init__(self) -> None:
        if self.delimiter in ("\\t", "tab"):  # a shell hands a tab through in quotes only
            object.__setattr__(self, "delimiter", "\t")

    def read_plain(self, table: Path) -> pd.DataFrame:
        """The table, its cells read as what they look like."""
        from vpunn.io import read_table

        return read_table(table, delimiter=self.delimiter, encoding=self.encoding)

    def read(self, table: Path, inputs: Inputs, keep: Sequence[str] = ()) -> pd.DataFrame:
        """The table, its texts, labels and kept columns as they are written."""
        from vpunn.io import read_table

        as_text = [*inputs.as_text, *keep]
        numbers = [
            *inputs.columns,
            *(inputs.target if inputs.levels else ()),
        ]  # nothing is said of other columns' commas
        return read_table(table, as_text=as_text, numbers=numbers, delimiter=self.delimiter, encoding=self.encoding)


AS_FOUND = Reading()


def provenance_of(table: Path) -> dict[str, str]:
    """Where the rows of a model are from: the file, and a checksum by which it is known again."""
    from hashlib import file_digest

    found = {"data": str(table)}
    if table.is_file():
        with table.open("rb") as file:
            found["data_sha256"] = file_digest(file, "sha256").hexdigest()
    return found


def notes_on_origin(model: Path, table: Path | None) -> list[str]:
    """A note if a model is scored on the very file that it was fitted on."""
    from vpunn.store import Stored

    known = Stored.open(model).provenance.get("data_sha256")
    if known is None or table is None or provenance_of(table).get("data_sha256") != known:
        return []
    return [
        "the model was fitted on this very table, so these scores are better than those of new rows; give vpunn fit "
        "--test-size 0.2 to score rows held out"
    ]
