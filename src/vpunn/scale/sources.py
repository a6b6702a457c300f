"""Where rows come from: a file, a folder, a pattern, a list of them, an Arrow data set, a dask frame; each in parts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vpunn import files
from vpunn._types import DataSource, Table
from vpunn.errors import DataError, VpunnError, examples
from vpunn.io.frames import ENDINGS
from vpunn.io.streams import after, fingerprint, open_parquet, read_batches, regrouped, table_files
from vpunn.scale.predictor import as_table

#: Rows that are worked on at once.
BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class Reading:
    """What to read of every part: columns, those that stay text, and how text files are written."""

    names: tuple[str, ...]
    as_text: tuple[str, ...] = ()
    delimiter: str | None = None
    encoding: str | None = None


@dataclass(frozen=True)
class Part:
    """Some of the rows: those of one file."""

    path: Path

    @property
    def name(self) -> str:
        """What messages call it."""
        return str(self.path)

    @property
    def bytes(self) -> int:
        """Its size, 0 if nobody knows."""
        return self.path.stat().st_size

    def facts(self) -> dict[str, Any]:
        """What tells it from another, for a manifest."""
        return fingerprint(self.path)

    def rows(self) -> int | None:
        """How many rows it has, if that is known without reading them."""
        if ENDINGS[files.suffix(self.path)] != "parquet" or files.packer_of(self.path) is not None:
            return None
        return int(open_parquet(self.path).metadata.num_rows)

    def tables(self, reading: Reading, rows: int = BATCH_ROWS, begin: int = 0) -> Iterator[Any]:
        """The rows from ``begin`` on, in tables of exactly ``rows`` rows (the last has the rest)."""
        how = {"as_text": reading.as_text, "delimiter": reading.delimiter, "encoding": reading.encoding}
        return read_batches(self.path, reading.names, rows=rows, begin=begin, **how)  # type: ignore[arg-type]

    def batches(self, reading: Reading, rows: int) -> Iterator[tuple[Any, int, str]]:
        """All its rows in batches: each with the number of its first row, and what messages call it, whose rows count from 0."""
        start = 0
        for table in self.tables(reading, rows):
            end = start + len(table)
            whole = not start and len(table) < rows
            yield table, start, self.name if whole else f"{self.name}, rows {start:,} to {end - 1:,}"
            start = end


@dataclass(frozen=True)
class Fragment(Part):
    """A part of an Arrow data set."""

    fragment: Any
    at: int

    @property
    def name(self) -> str:
        return str(getattr(self.fragment, "path", None) or f"fragment {self.at}")

    @property
    def bytes(self) -> int:
        return os.path.getsize(self.name) if os.path.exists(self.name) else 0

    def facts(self) -> dict[str, Any]:
        return fingerprint(Path(self.name)) if self.bytes else {"fragment": self.at, "rows": self.rows()}

    def rows(self) -> int | None:
        return int(self.fragment.count_rows())

    def tables(self, reading: Reading, rows: int = BATCH_ROWS, begin: int = 0) -> Iterator[Any]:
        import pyarrow as pa

        batches = self.fragment.to_batches(columns=list(reading.names), batch_size=rows, use_threads=False)
        return regrouped(after((pa.Table.from_batches([batch]) for batch in batches), begin), rows)


@dataclass(frozen=True)
class Partition(Part):
    """A partition of a dask DataFrame, computed where it is read."""

    delayed: Any
    token: str

    @property
    def name(self) -> str:
        return "a partition"

    @property
    def bytes(self) -> int:
        return 0

    def facts(self) -> dict[str, Any]:
        return {"frame": self.token}

    def rows(self) -> int | None:
        return None

    def tables(self, reading: Reading, rows: int = BATCH_ROWS, begin: int = 0) -> Iterator[Any]:
        table = as_table(self.delayed.compute(scheduler="synchronous"), reading.names, self.name)
        return regrouped(iter([table.slice(begin)]), rows)


def parts_of(source: DataSource, names: Sequence[str]) -> list[Part]:
    """The parts of a source that has these columns (files are looked into when they are read)."""
    if is_dask(source):
        from dask.base import tokenize

        _check_columns(source.columns, names, "the frame")
        delayed = source[list(names)].to_delayed()
        return [Partition(Path(), one, f"{tokenize(source)} {at}") for at, one in enumerate(delayed)]
    if type(source).__module__.startswith("pyarrow.") and hasattr(source, "get_fragments"):
        _check_columns(source.schema.names, names, "the dataset")
        return [Fragment(Path(), one, at) for at, one in enumerate(source.get_fragments())]
    if not isinstance(source, str | os.PathLike | list | tuple):
        raise VpunnError(
            "rows come from a file, a folder, a pattern, a list of them, a pyarrow.dataset or a dask DataFrame, got a "
            f"{type(source).__name__}; vpunn.scale.Predictor takes other batches."
        )
    return [Part(path) for path in table_files(source)]


def is_dask(source: Any) -> bool:
    """Whether it is a dask DataFrame."""
    return hasattr(source, "map_partitions") and hasattr(source, "_meta")


def check_frame(frame: Table, names: Sequence[str]) -> None:
    """Refuse a dask DataFrame without these columns."""
    _check_columns(frame.columns, names, "the frame")


def _check_columns(have: Any, names: Sequence[str], what: str) -> None:
    lost = [name for name in names if name not in have]
    if lost:
        raise DataError(f"{what} has no column {lost[0]!r}; it has {examples(list(have), limit=20)}.")
