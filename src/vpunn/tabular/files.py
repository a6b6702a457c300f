"""Read a table from a file and write one: CSV with any usual separator, TSV, Parquet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from vpunn.errors import DataError, examples

if TYPE_CHECKING:
    import pandas as pd

KINDS = (".csv", ".tsv", ".txt", ".parquet")


def read_table(path: str | os.PathLike[str]) -> pd.DataFrame:
    """A table from ``.csv``, ``.tsv``, ``.txt`` or ``.parquet``; the separator of text is the commonest in its header."""
    import pandas as pd

    path = Path(path)
    if path.suffix.lower() not in KINDS:
        raise DataError(f"{path} has the ending {path.suffix!r}; tables are read from {', '.join(KINDS)}.")
    if not path.is_file():
        raise DataError(f"there is no file {path}.")
    try:
        if path.suffix.lower() == ".parquet":
            return pd.read_parquet(path)
        with open(path, encoding="utf-8-sig") as file:
            header = file.readline()
        separator = max(",;\t|", key=header.count)
        table = pd.read_csv(path, sep=separator, encoding="utf-8-sig")
    except (ValueError, UnicodeDecodeError, OSError) as error:
        raise DataError(f"{path} cannot be read as a table: {str(error).strip().splitlines()[-1]}.") from error
    if not len(table):
        raise DataError(f"{path} has a header but no rows.")
    return table


def write_table(table: pd.DataFrame, path: str | os.PathLike[str]) -> Path:
    """Write a table as CSV, TSV or Parquet by its ending; the file appears whole or not at all."""
    path = check_output(path, KINDS)
    beside = path.with_name(f".{path.name}.part")
    try:
        if path.suffix.lower() == ".parquet":
            table.to_parquet(beside, index=False)
        else:
            table.to_csv(beside, index=False, sep="," if path.suffix.lower() == ".csv" else "\t")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def check_output(path: str | os.PathLike[str], endings: tuple[str, ...] = ()) -> Path:
    """Refuse a file that cannot be written before any work is done for it; no ``endings`` means any."""
    path = Path(path)
    if endings and path.suffix.lower() not in endings:
        raise DataError(f"{path} has the ending {path.suffix!r}; it can be written as {', '.join(endings)}.")
    if not path.parent.is_dir():
        raise DataError(f"there is no folder {path.parent} to write {path.name} to; make it first.")
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise DataError(f"{path} cannot be written: it is a folder or its folder is read-only; choose another place.")
    return path


def pop_column(table: pd.DataFrame, name: str | None) -> tuple[pd.DataFrame, pd.Series | None]:
    """The table without one column, and that column."""
    if name is None:
        return table, None
    if name not in table.columns:
        raise DataError(f"there is no column {name!r}; the columns are {examples(list(table.columns))}.")
    return table.drop(columns=name), table[name]
