"""Tables larger than memory: record batches in, and files out that appear whole, or as a folder of parts that can go on.

`read_table` and `write_table` hold a table in memory; here the same kinds of files pass through in batches of rows.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpunn import files
from vpunn.errors import DataError, VpunnError, examples, first_words
from vpunn.io.cells import in_types, seen
from vpunn.io.frames import ENDINGS, check_columns, check_table_path, read_table, say_guess, warn_of
from vpunn.io.json_lines import line_blocks, types_of
from vpunn.io.text_tables import open_text_table
from vpunn.io.texts import open_text

if TYPE_CHECKING:
    from types import ModuleType

    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    from vpunn._types import FilePath

_HEAD = 1 << 20
MANIFEST = "_manifest.json"


def table_files(source: FilePath | list[Any] | tuple[Any, ...]) -> list[Path]:
    """The files of an input: one file, those of a folder, of a pattern such as ``days/*.parquet``, or of a list, sorted.

    Names that begin with ``_`` or ``.`` in a folder are no tables (manifests, scratch files).
    """
    if isinstance(source, list | tuple):
        found = [path for one in source for path in table_files(one)]
    else:
        files.check_path(source)
        path = Path(source)
        if path.is_dir():
            found = sorted(p for p in path.iterdir() if p.name[0] not in "._" and files.suffix(p) in ENDINGS)
        elif any(mark in str(path) for mark in "*?[") and not path.exists():
            anchor = Path(path.anchor) if path.is_absolute() else Path()
            found = sorted(anchor.glob(str(path.relative_to(anchor) if path.is_absolute() else path)))
        else:
            found = [path]
    if not found:
        raise DataError(f"there are no tables in {str(source)!r}; they end in {', '.join(ENDINGS)}.")
    for path in found:
        if not path.exists():
            raise DataError(f"there is no file {str(path)!r}.")
        if files.suffix(path) not in ENDINGS or not path.is_file():
            raise DataError(f"{str(path)!r} is no table file; tables end in {', '.join(ENDINGS)}.")
    return found


def read_batches(
    path: Path,
    columns: Sequence[str],
    *,
    as_text: Sequence[str] = (),
    delimiter: str | None = None,
    encoding: str | None = None,
    rows: int = 1 << 16,
    begin: int = 0,
) -> Iterator[pa.Table]:
    """The chosen columns of a file, from row ``begin`` on, in tables of exactly ``rows`` rows (the last has the rest).

    The rules are those of `read_table`, and what a column holds is told from all of its cells before the first batch. Memory: a
    block and a batch. Row groups of Parquet that end before ``begin`` are not read.
    """
    kind = ENDINGS[files.suffix(path)]
    if kind == "parquet" and files.packer_of(path) is None:
        file = open_parquet(path)
        groups = list(range(file.metadata.num_row_groups))
        while groups and file.metadata.row_group(groups[0]).num_rows <= begin:
            begin -= file.metadata.row_group(groups.pop(0)).num_rows
        found = _parquet_batches(path, file, columns, groups, rows)
    elif kind == "feather" and files.packer_of(path) is None:
        found = _feather_batches(path, columns)
    elif kind == "text":
        found = _text_batches(path, columns, as_text, delimiter, encoding)
    elif kind == "lines":
        found = _line_batches(path, columns, encoding, rows)
    else:
        frame = read_table(path, columns=columns)[list(dict.fromkeys(columns))]
        found = iter([_without_metadata(frame)])
    return regrouped(after(found, begin), rows)


def column_names(path: Path, delimiter: str | None = None, encoding: str | None = None) -> list[str]:
    """The names of a table's columns."""
    kind = ENDINGS[files.suffix(path)]
    if kind == "text":
        return open_text_table(path, delimiter, encoding).names
    if kind == "lines":
        return list(types_of(open_text(path, encoding)))
    if kind == "parquet" and files.packer_of(path) is None:
        return list(open_parquet(path).schema_arrow.names)
    return [str(name) for name in read_table(path).columns]


def open_parquet(path: Path) -> pq.ParquetFile:
    """A Parquet file, of which its end has been read."""
    import pyarrow.parquet as pq

    with readable(path, " as Parquet"):
        return pq.ParquetFile(path)


@contextmanager
def readable(path: Path, kind: str = "") -> Iterator[None]:
    """What Arrow complains of inside the block, as one sentence about the file."""
    import pyarrow as pa

    try:
        yield
    except VpunnError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{str(path)!r} cannot be read{kind}: {first_words(error)}.") from None


def _without_metadata(frame: pd.DataFrame) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()


def regrouped(tables: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of a fixed length, so that what is written does not depend on blocks of bytes."""
    import pyarrow as pa

    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        while len(table):
            part = table.slice(0, rows - count)
            waiting.append(part)
            count += len(part)
            table = table.slice(len(part))
            if count == rows:
                yield pa.concat_tables(waiting)
                waiting, count = [], 0
    if count:
        yield pa.concat_tables(waiting)


def after(tables: Iterator[pa.Table], begin: int) -> Iterator[pa.Table]:
    """The rows from ``begin`` on."""
    for table in tables:
        if begin < len(table):
            yield table.slice(begin)
        begin = max(0, begin - len(table))


def _check_names(names: Sequence[str], columns: Sequence[str], path: Path) -> None:
    import pandas as pd

    check_columns(pd.DataFrame(columns=pd.Index(names)), columns, path)


def _parquet_batches(
    path: Path, file: pq.ParquetFile, columns: Sequence[str], groups: list[int], rows: int
) -> Iterator[pa.Table]:
    import pyarrow as pa

    _check_names(file.schema_arrow.names, columns, path)
    with readable(path):
        for batch in file.iter_batches(rows, groups, list(columns), use_threads=False):
            yield _whole(pa.Table.from_batches([batch]))


def _feather_batches(path: Path, columns: Sequence[str]) -> Iterator[pa.Table]:
    import pyarrow as pa
    import pyarrow.feather

    with readable(path), pa.memory_map(str(path)) as source:
        stream = pa.ipc.open_file(source)
        _check_names(stream.schema.names, columns, path)
        for at in range(stream.num_record_batches):
            yield _whole(pa.Table.from_batches([stream.get_batch(at)]).select(list(columns)))


def _whole(table: pa.Table) -> pa.Table:
    """The rows, after a look at what a damaged file may hold: text that is none, places outside the file."""
    table.validate(full=True)
    return table


def _text_batches(
    path: Path, columns: Sequence[str], as_text: Sequence[str], delimiter: str | None, encoding: str | None
) -> Iterator[pa.Table]:
    table = open_text_table(path, delimiter, encoding)
    _check_names(table.names, columns, path)
    guessed = [name for name in dict.fromkeys(columns) if name not in as_text]
    told = seen(table.blocks(guessed) if guessed else (), guessed, table.mark != ",")
    warn_of(table, told)
    rows = 0
    for block in table.blocks(columns):
        rows += len(block)
        yield in_types(block, told)
    if not rows:
        raise DataError(f"{str(path)!r} has no rows below its column names, {examples(table.names)}.")


def _line_batches(path: Path, columns: Sequence[str], encoding: str | None, rows: int) -> Iterator[pa.Table]:
    text = open_text(path, encoding)
    say_guess(text)
    types = types_of(text)
    _check_names(list(types), columns, path)
    return line_blocks(text, list(dict.fromkeys(columns)), types, rows)


# ---- out -------------------------------------------------------------------------------------------------------------


class TableWriter:
    """Writes tables one after another to a scratch file; see `writing_table`."""

    def __init__(self, scratch: Path, kind: str, comma: bool, packer: ModuleType | None) -> None:
        self._scratch, self._kind, self._comma, self._packer = scratch, kind, comma, packer
        self._writer: Any = None
        self._file: Any = None
        self._schema: Any = None
        self.rows = 0

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._writer is None:
            self._schema = table.schema
            if self._kind == "parquet":
                self._writer = pq.ParquetWriter(self._scratch, table.schema)
            elif self._kind == "feather":
                options = pa.ipc.IpcWriteOptions(compression="lz4")
                self._writer = pa.ipc.new_file(str(self._scratch), table.schema, options=options)
            elif self._kind == "excel":
                from vpunn.io.excel import SheetWriter

                self._writer = SheetWriter(self._scratch)
            else:
                self._file = open(self._scratch, "wb")  # noqa: SIM115 (closed by `close`)
                self._writer = self._file
                if self._packer is gzip:
                    self._writer = gzip.GzipFile("", "wb", 6, self._file, mtime=0)  # no time stamp: the same bytes
                elif self._packer is not None:
                    self._writer = self._packer.open(self._file, "wb")
        if self._kind in ("parquet", "feather"):
            self._writer.write_table(table if table.schema == self._schema else self._like_the_first(table))
        elif self._kind == "excel":
            self._writer.append(table.to_pandas(integer_object_nulls=True))
        else:
            self._writer.write(self._lines(table))
        self.rows += len(table)

    def _like_the_first(self, table: pa.Table) -> pa.Table:
        """Rows in the types of the rows before them."""
        import pyarrow as pa

        try:
            return table.cast(self._schema)
        except (pa.ArrowException, ValueError):
            pairs = zip(self._schema, table.schema, strict=False)
            name, before, now = next((a.name, a.type, b.type) for a, b in pairs if a.type != b.type)
            raise DataError(
                f"column {name!r} holds {before} at first and {now} from row {self.rows:,} on; write it in one type."
            ) from None

    def _lines(self, table: pa.Table) -> bytes:
        """Rows as text; bytes (path keys) are written as hexadecimal digits."""
        import pyarrow as pa

        frame = table.to_pandas(integer_object_nulls=True)  # node 2 stays 2 beside one that is not there
        for at, kind in enumerate(table.schema.types):
            if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
                frame.isetitem(at, [None if cell is None else cell.hex() for cell in table.column(at).to_pylist()])
        if self._kind == "lines":
            from vpunn._show import plain

            rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
            return "".join(json.dumps(row, default=plain, ensure_ascii=False) + "\n" for row in rows).encode()
        text: str = frame.to_csv(index=False, sep="," if self._comma else "\t", header=not self.rows)
        return text.encode()

    def close(self) -> None:
        """Finish the file."""
        for one in (self._writer, self._file):
            if one is not None:
                one.close()


@contextmanager
def writing_table(path: Path) -> Iterator[TableWriter]:
    """A `TableWriter` whose file takes its place when the block ends well; nothing is left otherwise."""
    check_table_path(path)
    packer = files.packer_of(path)
    kind = ENDINGS[files.suffix(path)]
    with files.written_beside(path) as scratch:
        writer = TableWriter(scratch, kind, files.suffix(path) == ".csv", packer)
        try:
            yield writer
        finally:
            writer.close()
        if not scratch.exists():
            raise DataError(f"there are no rows to write to {str(path)!r}.")


def fingerprint(path: Path) -> dict[str, Any]:
    """What tells a file from another of its name: its size, and a checksum of its first and last megabyte."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read(_HEAD))
        file.seek(max(0, size - _HEAD))
        digest.update(file.read(_HEAD))
    return {"file": path.name, "bytes": size, "sha256": digest.hexdigest()}


@dataclass
class Parts:
    """A folder of Parquet parts with a manifest: each part appears whole, and the same work continues where it was."""

    folder: Path
    job: dict[str, Any]

    @classmethod
    def open(cls, folder: Path, job: Mapping[str, Any]) -> Parts:
        """Begin, or go on with, the job a manifest describes; a folder of another job or of other files is refused."""
        wanted = json.loads(json.dumps(dict(job), default=str))
        manifest = folder / MANIFEST
        if manifest.exists():
            try:
                found = json.loads(manifest.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                raise DataError(f"{str(manifest)!r} cannot be read; name another folder.") from None
            other = [key for key in wanted if found.get(key) != wanted[key]]
            if other:
                raise DataError(
                    f"{str(folder)!r} holds the parts of another job: its {examples(other)} differ"
                    f" ({found.get(other[0])!r}, now {wanted[other[0]]!r}); name another folder, or remove this one."
                )
        else:
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                raise DataError(f"{str(folder)!r} exists and holds other files; name a new folder for the parts.")
            folder.mkdir(parents=True, exist_ok=True)
            files.save(manifest, _json({**wanted, "complete": False}))
        return cls(folder, wanted)

    def path(self, file: int, part: int) -> Path:
        """Where a part stands."""
        return self.folder / f"part-{file:05d}-{part:05d}.parquet"

    def write(self, file: int, part: int, tables: Sequence[pa.Table]) -> None:
        """Write one part."""
        with writing_table(self.path(file, part)) as writer:
            for table in tables:
                writer.write(table)

    def rows_there(self) -> list[int]:
        """How many rows the parts have that were written before."""
        return [int(open_parquet(path).metadata.num_rows) for path in sorted(self.folder.glob("part-*.parquet"))]

    def finish(self, **facts: Any) -> None:
        """Say in the manifest that all is there."""
        files.save(self.folder / MANIFEST, _json({**self.job, "complete": True, **facts}))


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True).encode() + b"\n"


def is_folder(out: FilePath) -> bool:
    """Whether an output is meant as a folder of parts: it ends in ``/``, or is one."""
    files.check_path(out)
    return str(out).endswith(("/", os.sep)) or Path(out).is_dir()
