"""Files larger than memory through a model or a tree: batches in, one file or a folder of parts out, constant memory.

A folder of parts has a manifest (input, checksum of the model, options): the same call again goes on where it was, another
one is refused. One file is written whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._progress import progress_bar
from vpunn._types import DataSource, HasTree
from vpunn.errors import DataError, VpunnError, counted, examples
from vpunn.files import open_bytes
from vpunn.io import streams
from vpunn.io.streams import Parts, is_folder, read_batches, table_files, writing_table
from vpunn.scale.predictor import Predictor
from vpunn.tables.cells import Spelling
from vpunn.tables.gaps import FILL_IN, Gaps
from vpunn.tree import Tree

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows that are worked on at once, and rows in one part of a folder.
BATCH_ROWS, PART_ROWS = 1 << 16, 1 << 18
#: Larger inputs are announced with a bar.
ANNOUNCED = 8 << 20


@dataclass(frozen=True)
class Written:
    """What a stream wrote: where, how many rows, which of them held nothing known (their count and the first few), and what
    was filled in (``notes``)."""

    out: Path
    rows: int
    unknown: int = 0
    examples: tuple[int, ...] = ()
    continued: bool = False
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """One sentence."""
        said = f"{counted(self.rows, 'row')} written to {self.out}"
        return "; ".join([said + (f", {self.unknown:,} of them unknown to it" if self.unknown else ""), *self.notes])

    def __str__(self) -> str:
        return self.verdict


#: From a batch, the number of its first row and the name of its file to the rows that are written.
Step = Callable[["pa.Table", int, object], "pa.Table"]


def predict_stream(
    model: HasTree,
    source: DataSource,
    out: Any,
    *,
    columns: Sequence[str] = (),
    keep: Sequence[str] = (),
    delimiter: str | None = None,
    encoding: str | None = None,
    batch_rows: int = BATCH_ROWS,
    part_rows: int = PART_ROWS,
    **options: Any,
) -> Written:
    """Predictions for every row of ``source`` (a file, a folder, a pattern, a list, or a ``pyarrow.dataset``), written to ``out``.

    ``model`` is a folder or a `Predictor`; ``columns``, ``keep`` and ``options`` are those of `Predictor`. ``out`` is a table
    file, or a folder of Parquet parts if it ends in ``/`` or the input has several files. Memory: a batch, whatever the rows.
    Missing numbers are filled in as by `Predictor`, which the result's ``notes`` say; a column without any is refused at the end.
    """
    predictor = model if isinstance(model, Predictor) else Predictor(model, columns=columns, keep=keep, **options)
    as_text = [] if predictor._table is None else predictor._table.inputs.as_text
    reading = {"as_text": [*as_text, *predictor.keep], "delimiter": delimiter, "encoding": encoding}
    told = {**predictor.options, "keep": predictor.keep, "columns": predictor.columns}
    job = {"command": "predict", "model": predictor.checksum, "options": told}

    watch = _GapWatch(predictor, source)

    def step(table: pa.Table, start: int, where: object) -> pa.Table:
        return predictor(table, start=start, where=where)

    done = _stream(step, predictor.names, source, out, job, reading, batch_rows, part_rows, "predicting", watch)
    return replace(done, notes=tuple(predictor.said(watch.gaps)))


def encode_stream(
    tree: Tree,
    source: DataSource,
    out: Any,
    *,
    column: str | None = None,
    mode: str | None = None,
    prime: int | None = None,
    unseen: str = "error",
    match: str = "exact",
    delimiter: str | None = None,
    encoding: str | None = None,
    batch_rows: int = BATCH_ROWS,
    part_rows: int = PART_ROWS,
) -> Written:
    """Codes of a column of labels, row by row: ``label, node, last, depth, path_key`` and, with ``mode``, the printed ``code``.

    ``source`` None encodes the tree's own nodes (with their readable ``name`` if it has one). See `codes_table` for what the
    columns mean, and `predict_stream` for ``out``. Labels the tree does not have are an error, or null with ``unseen="null"``;
    ``match="loose"`` finds them by `Spelling`, and the label written is the tree's.
    """
    import pyarrow as pa

    from vpunn.codes import PadicCode, codes_table

    codes = codes_table(tree)
    code = None if mode is None else PadicCode(tree, prime)

    def answers(label: Any, nodes: Any) -> dict[str, Any]:
        taken = codes.take(nodes)
        found = {"label": label, **{name: taken[name] for name in ("node", "last", "depth", "path_key")}}
        if code is not None and mode is not None:
            known = nodes.is_valid().to_numpy(zero_copy_only=False)
            texts = np.full(len(nodes), None, object)
            texts[known] = code.format(np.asarray(nodes.drop_null()), mode)
            found["code"] = pa.array(texts, pa.string())
        return found

    job = {"command": "encode", "tree": tree.fingerprint, "options": {"column": column, "mode": mode, "unseen": unseen}}
    spell: Spelling | None = None
    if match != "exact":  # its tables of names cost a pass over the tree
        spell = Spelling(tree, match)
        job["options"] = {"column": column, "mode": mode, "unseen": unseen, "match": match}
    if source is None:
        return _own_nodes(tree, codes, answers, out, job, batch_rows, part_rows)
    name = column or _label_column(table_files(source)[0], delimiter, encoding)

    def step(table: pa.Table, start: int, where: object) -> pa.Table:
        label = table[name].combine_chunks()
        if spell is not None:
            words = label.cast(pa.string()).dictionary_encode()
            called = [None if word is None else str(spell(word)[0]) for word in words.dictionary.to_pylist()]
            label = pa.array(called, pa.string()).take(words.indices)
        nodes = tree.encode_column(label, unseen)
        if isinstance(nodes, pa.ChunkedArray):
            nodes = nodes.combine_chunks()
        return pa.table(answers(label, nodes))

    reading = {"as_text": [name], "delimiter": delimiter, "encoding": encoding}
    return _stream(step, [name], source, out, job, reading, batch_rows, part_rows, "encoding")


def _own_nodes(
    tree: Tree, codes: pa.Table, answers: Any, out: Any, job: dict[str, Any], batch_rows: int, part_rows: int
) -> Written:
    """The codes of all nodes, in preorder."""
    import pyarrow as pa

    names = None
    if "name" in tree.columns:
        names = pa.array([None if name is None else str(name) for name in tree.columns["name"].tolist()])

    def tables() -> Iterator[pa.Table]:
        for start in range(0, tree.n_nodes, batch_rows):
            nodes = pa.array(np.arange(start, min(start + batch_rows, tree.n_nodes), dtype=np.int32))
            found = answers(codes["label"].slice(start, len(nodes)), nodes)
            if names is not None:
                found["name"] = names.slice(start, len(nodes))
            yield pa.table(found)

    if is_folder(out):
        parts = Parts.open(Path(out), {**job, "input": [], "part_rows": part_rows})
        for at, table in enumerate(streams._regrouped(tables(), part_rows)):
            if not parts.path(0, at).exists():
                parts.write(0, at, [table])
        parts.finish(rows=tree.n_nodes)
    else:
        with writing_table(Path(out)) as writer:
            for table in tables():
                writer.write(table)
    return Written(Path(out), tree.n_nodes)


def _label_column(path: Path, delimiter: str | None, encoding: str | None) -> str:
    """The column of labels of a table: ``label``, or the only one."""
    import pyarrow.parquet as pq

    from vpunn import files
    from vpunn.io.frames import ENDINGS, read_table

    if ENDINGS[files.suffix(path)] == "parquet":
        names = list(pq.ParquetFile(path).schema_arrow.names)
    else:
        import io

        with open_bytes(path) as stream:
            head = stream.read(1 << 16)
        names = list(
            read_table(io.BytesIO(head[: head.rfind(b"\n") + 1] or head), delimiter=delimiter, encoding=encoding)
        )
    if len(names) == 1 or "label" in names:
        return "label" if "label" in names else names[0]
    raise DataError(f"{str(path)!r} has the columns {examples(names)}; say with --column which one holds the labels.")


# ---- the walk over batches -------------------------------------------------------------------------------------------


def _stream(
    step: Step,
    names: Sequence[str],
    source: DataSource,
    out: Any,
    job: dict[str, Any],
    reading: dict[str, Any],
    batch_rows: int,
    part_rows: int,
    what: str,
    watch: _GapWatch | None = None,
) -> Written:
    """Walk through all batches; a batch's answers depend on its rows alone, so parts can be left out that are there.

    ``watch`` sees all batches, also those of such parts, and may refuse the whole before it counts as written.
    """
    if part_rows % batch_rows and batch_rows % part_rows:
        raise VpunnError(f"part_rows={part_rows} must be a multiple of batch_rows={batch_rows}.")
    batch_rows = min(batch_rows, part_rows)
    inputs = _inputs_of(source, names, reading, batch_rows)
    tally = _Tally()
    many = len(inputs) > 1 or is_folder(out)
    if many and Path(out).suffix and not is_folder(out):
        raise DataError(f"the input has {len(inputs)} files, so the output is a folder of parts; write {out}/ for one.")
    with progress_bar(f"{what}…", verbose=sum(i.bytes for i in inputs) > ANNOUNCED) as bar:
        if not many:
            with writing_table(Path(out)) as writer:
                for table in inputs[0].tables():
                    writer.write(tally.seen(step(table, tally.rows, inputs[0].name), len(table)))
                    bar.say(f"{tally.rows:,} rows")
                    if watch is not None:
                        watch.add(table, inputs[0].name)
                if watch is not None:
                    watch.close()
            return Written(Path(out), tally.written, tally.unknown, tuple(tally.examples))
        facts = {"input": [i.facts() for i in inputs], "part_rows": part_rows, "batch_rows": batch_rows}
        parts = Parts.open(Path(out), {**job, **facts})
        import pyarrow.parquet as pq

        there = sorted(Path(out).glob("part-*.parquet"))
        continued, before = bool(there), sum(pq.ParquetFile(path).metadata.num_rows for path in there)
        for at, one in enumerate(inputs):
            waiting: list[Any] = []
            first = tally.rows
            for table in one.tables():
                part = (tally.rows - first) // part_rows
                if parts.path(at, part).exists():
                    tally.rows += len(table)
                else:
                    waiting.append(tally.seen(step(table, tally.rows, one.name), len(table)))
                if watch is not None:
                    watch.add(table, one.name)
                if waiting and (tally.rows - first) % part_rows == 0:
                    parts.write(at, part, waiting)
                    waiting = []
                bar.say(f"{tally.rows:,} rows")
            if waiting:
                parts.write(at, (tally.rows - first - 1) // part_rows, waiting)
        if watch is not None:
            watch.close()
        parts.finish(rows=tally.rows)
    return Written(Path(out), tally.written + before, tally.unknown, tuple(tally.examples), continued)


class _GapWatch:
    """Missing numbers of the rows read so far; a column without any number in all of them is refused at the end."""

    def __init__(self, predictor: Predictor, source: DataSource) -> None:
        self.predictor, self.source, self.gaps = predictor, source, Gaps()

    def add(self, table: pa.Table, where: object) -> None:
        self.gaps += self.predictor.gaps(table, where)

    def close(self) -> None:
        self.gaps.refuse_empty(self.source, FILL_IN)


class _Tally:
    """Rows seen so far and those that held nothing known."""

    def __init__(self) -> None:
        self.rows = self.written = self.unknown = 0
        self.examples: list[int] = []

    def seen(self, answers: pa.Table, rows: int) -> pa.Table:
        if "known" in answers.column_names:
            dark = np.flatnonzero(~answers["known"].to_numpy())
            if "row" in answers.column_names:
                dark = np.unique(answers["row"].to_numpy()[dark])
            else:
                dark = dark + self.rows
            self.unknown += len(dark)
            self.examples += dark[: 3 - len(self.examples)].tolist()
        self.rows += rows
        self.written += len(answers)
        return answers


@dataclass(frozen=True)
class _Input:
    """One file of the input, or a whole dataset."""

    name: str
    bytes: int
    facts: Callable[[], dict[str, Any]]
    tables: Callable[[], Iterator[pa.Table]]


def _inputs_of(source: DataSource, names: Sequence[str], reading: dict[str, Any], rows: int) -> list[_Input]:
    import pyarrow.dataset as ds

    if isinstance(source, ds.Dataset):
        lost = [name for name in names if name not in source.schema.names]
        if lost:
            raise DataError(f"the dataset has no column {lost[0]!r}; it has {examples(source.schema.names, limit=20)}.")
        fragments = list(source.get_fragments())
        return [_fragment(one, at, names, rows) for at, one in enumerate(fragments)]
    found = table_files(source)
    return [
        _Input(
            str(path),
            path.stat().st_size,
            lambda path=path: streams.fingerprint(path),  # type: ignore[misc]
            lambda path=path: read_batches(path, names, rows=rows, **reading),  # type: ignore[misc]
        )
        for path in found
    ]


def _fragment(fragment: Any, at: int, names: Sequence[str], rows: int) -> _Input:
    import pyarrow as pa

    def tables() -> Iterator[pa.Table]:
        batches = fragment.to_batches(columns=list(names), batch_size=rows, use_threads=False)
        return streams._regrouped((pa.Table.from_batches([b]) for b in batches), rows)

    path = getattr(fragment, "path", None)
    known = path is not None and os.path.exists(path)
    return _Input(
        str(path or f"fragment {at}"),
        os.path.getsize(path) if known and path is not None else 0,
        lambda: streams.fingerprint(Path(str(path))) if known else {"fragment": at, "rows": fragment.count_rows()},
        tables,
    )
