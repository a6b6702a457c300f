"""The same work on many machines: partitions of a dask DataFrame or files of a Parquet dataset, on dask.distributed.

``engine`` is a ``distributed.Client``; None works through the parts one after another in this process. What comes out is the
same bytes either way: sums are exact, and a row's prediction depends on the row alone. dask moves the data; a tree travels once
to each worker, a model is opened from its folder, memory-mapped. Workers may die: `vpunn.scale._tasks`. Extra ``scale``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from vpunn._types import DataSource, Engine, HasTree, Table
from vpunn.errors import DataError, VpunnError, examples
from vpunn.io import streams
from vpunn.io.streams import Parts, read_batches, table_files
from vpunn.scale._tasks import Sent, each, results
from vpunn.scale.class_sums import ClassSums
from vpunn.scale.predictor import Predictor, as_table
from vpunn.scale.streams import BATCH_ROWS, PART_ROWS, Written
from vpunn.scale.sums import BallSums
from vpunn.tables.gaps import Gaps
from vpunn.tree import Tree

#: A checkpoint of sums holds at most so many files: parts are added up in so many groups.
GROUPS = 16


def sum_rows(
    tree: Tree,
    source: DataSource,
    *,
    label: str,
    y: str | Sequence[str],
    X: Sequence[str] = (),
    w: str | None = None,
    classes: bool = False,
    engine: Engine = None,
    checkpoint: str | Path | None = None,
) -> Any:
    """`BallSums` (or, with ``classes``, `ClassSums`) of a dask DataFrame or a Parquet dataset: the same bytes for any partitioning.

    ``label`` names the column of node labels (all must be in the tree), ``y`` the target, ``X`` covariates, ``w`` weights. Empty
    partitions and a class missing in one are normal. With ``checkpoint``, a folder, sums of groups of parts are kept, so that a
    killed run goes on; another source or other columns are refused there. Make models with ``from_sums``.
    """
    columns = Columns(label, (y,) if isinstance(y, str) else tuple(y), tuple(X), w, classes)
    parts = _parts_of(source, columns.names)
    if not parts:
        raise DataError("there are no parts to sum: the source is empty.")
    engine = _engine(engine)
    # Sums are as large as the tree, so they travel seldom: twice a thread. A checkpoint's groups do not depend on the engine.
    count = GROUPS if engine is None or checkpoint is not None else max(2, 2 * sum(engine.nthreads().values()))
    groups = [parts[i::count] for i in range(min(count, len(parts)))]
    folder = None
    if checkpoint is not None:
        folder = Path(checkpoint)
        job = {"command": "sum", "tree": tree.fingerprint, "columns": columns.facts(), "input": _facts(source, parts)}
        Parts.open(folder, job)
    if engine is None:
        return _added(_group_sums(tree, group, columns, _at(folder, i)) for i, group in enumerate(groups))

    def ask(there: Any) -> Any:
        todo = [(there, group, columns, _at(folder, i)) for i, group in enumerate(groups)]
        waiting = [engine.submit(_group_sums, *one, pure=False) for one in todo]
        while len(waiting) > 1:
            pairs = [waiting[i : i + 4] for i in range(0, len(waiting), 4)]
            waiting = [engine.submit(_added, pair, pure=False) for pair in pairs]
        return waiting[0]

    return next(results(engine, ask, [(Sent(tree),)]))


class Columns:
    """Which columns of a part are summed."""

    def __init__(self, label: str, y: tuple[str, ...], X: tuple[str, ...], w: str | None, classes: bool) -> None:
        if classes and (X or len(y) > 1):
            raise VpunnError("classes are counted from one column and without covariates; leave X out.")
        self.label, self.y, self.X, self.w, self.classes = label, y, X, w, classes

    @property
    def names(self) -> list[str]:
        """All of them."""
        return list(dict.fromkeys([self.label, *self.y, *self.X, *([self.w] if self.w else [])]))

    def facts(self) -> dict[str, Any]:
        """For a manifest."""
        return {"label": self.label, "y": list(self.y), "X": list(self.X), "w": self.w, "classes": self.classes}

    def empty(self, tree: Tree) -> Any:
        """Sums of no rows."""
        if self.classes:
            return ClassSums.from_rows(tree, [], np.array([], "U1"))
        return BallSums(tree, len(self.y), len(self.X))

    def add(self, sums: Any, tree: Tree, table: Table) -> Any:
        """The sums with the rows of a table."""
        if not len(table):
            return sums
        nodes = _numbers_of(tree.encode_column(table[self.label]), self.label).astype(np.int64)
        w = None if self.w is None else _numbers_of(table[self.w], self.w)
        if self.classes:
            cells = table[self.y[0]]
            labels = np.asarray(cells.to_pylist() if cells.type != "string" else cells.to_pandas())
            return sums + ClassSums.from_rows(tree, nodes, labels, w)
        y = np.column_stack([_numbers_of(table[name], name) for name in self.y])
        X = np.column_stack([_numbers_of(table[name], name) for name in self.X]) if self.X else None
        return sums.add_rows(nodes, y, X, w)


def _numbers_of(column: Any, name: str) -> np.ndarray:
    if column.null_count:
        raise DataError(f"column {name!r} has {column.null_count:,} missing cells; drop or fill these rows first.")
    return np.asarray(column.to_numpy())


def _group_sums(tree: Tree, parts: Sequence[Part], columns: Columns, kept: Path | None) -> Any:
    """The sums of some parts, read from a checkpoint if they are there."""
    if kept is not None and (kept / "model.json").exists():
        return (ClassSums if columns.classes else BallSums).load(kept)
    sums = columns.empty(tree)
    for part in parts:
        for table in part.tables(columns.names):
            sums = columns.add(sums, tree, table)
    if kept is not None:
        sums.save(kept)
    return sums


def _added(parts: Any) -> Any:
    """The sum of sums, in place where that is possible."""
    total: Any = None
    for part in parts:
        if total is None:
            total = part.copy() if isinstance(part, BallSums) else part
        elif isinstance(total, BallSums):
            total += part
        else:
            total = total + part
    return total


def _at(folder: Path | None, group: int) -> Path | None:
    return None if folder is None else folder / f"sums-{group:05d}"


# ---- prediction and encoding -----------------------------------------------------------------------------------------


def predict_frame(model: HasTree, frame: Table, **options: Any) -> Any:
    """Predictions for a dask DataFrame as a dask DataFrame with the same partitions, lazily; ``options`` are those of `Predictor`.

    Kept columns are text in the answers' declared types; ``row`` counts within the partition.
    """
    import pyarrow as pa

    predictor = model if isinstance(model, Predictor) else Predictor(model, **options)
    _check_dask(frame, predictor.names)
    meta = predictor.schema(pa.Schema.from_pandas(frame._meta[predictor.names], preserve_index=False))
    return frame[predictor.names].map_partitions(_answer_frame, predictor, meta=_meta(meta))


def _answer_frame(frame: Table, predictor: Predictor) -> Any:
    return predictor(frame).to_pandas()


def encode_frame(tree: Tree, frame: Table, column: str, *, unseen: str = "error") -> Any:
    """A dask DataFrame with the columns ``node`` and ``depth`` of its column of labels beside its own, lazily."""
    _check_dask(frame, [column])
    meta = frame._meta.assign(node=np.array([], np.int64), depth=np.array([], np.int64))
    if unseen == "null":
        meta = meta.astype({"node": "Int64", "depth": "Int64"})
    from dask.base import normalize_token

    # The tree is hashed by its fingerprint, so that the graph holds it once and building it costs nothing.
    normalize_token.register(Tree, lambda one: ("vpunn.Tree", one.fingerprint))
    return frame.map_partitions(_encoded_frame, tree, column, unseen, meta=meta)


def _encoded_frame(frame: Table, tree: Tree, column: str, unseen: str) -> Any:
    import pandas as pd
    import pyarrow as pa

    nodes = tree.encode_column(pa.array(frame[column], from_pandas=True), unseen)
    found = pd.Series(nodes.to_pandas(types_mapper={pa.int32(): pd.Int64Dtype()}.get).array, frame.index)
    depth = pa.array(tree.depth.astype(np.int64)).take(nodes)
    deep = pd.Series(depth.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get).array, frame.index)
    if unseen == "error":
        if nodes.null_count:
            raise DataError(
                f"column {column!r} has {nodes.null_count:,} missing labels; fill them in, or pass unseen='null'."
            )
        found, deep = found.astype(np.int64), deep.astype(np.int64)
    return frame.assign(node=found, depth=deep)


def predict_dataset(
    model: HasTree,
    source: DataSource,
    out: Any,
    *,
    engine: Engine = None,
    batch_rows: int = BATCH_ROWS,
    part_rows: int = PART_ROWS,
    **options: Any,
) -> Written:
    """Predictions for Parquet files, written by the workers as a folder of parts: the parts of `predict_stream`, byte for byte.

    A part appears whole or not at all, and parts that are there are not made again, so a killed worker, or a killed run started
    again, ends with the same bytes. Missing numbers are filled in as by `Predictor`; the result's ``notes`` say so of the parts
    that this run made.
    """
    predictor = model if isinstance(model, Predictor) else Predictor(model, **options)
    found = table_files(source)
    told = {**predictor.options, "keep": predictor.keep, "columns": predictor.columns}
    job: dict[str, Any] = {"command": "predict", "model": predictor.checksum, "options": told}
    job |= {"input": [streams.fingerprint(path) for path in found], "part_rows": part_rows, "batch_rows": batch_rows}
    parts = Parts.open(Path(out), job)
    engine = _engine(engine)
    tasks, first = [], 0
    for at, path in enumerate(found):
        rows = _rows_of(path)
        for part in range(-(-rows // part_rows)):
            if not parts.path(at, part).exists():
                tasks.append((path, at, part, first))
        first += rows
    gaps = each(engine, _write_part, [(predictor, parts, task, batch_rows, part_rows) for task in tasks])
    lacking = sum(gaps, Gaps())
    parts.finish(rows=first)
    return Written(Path(out), first, notes=tuple(predictor.said(lacking)))


def _write_part(predictor: Predictor, parts: Parts, task: tuple[Path, int, int, int], batch: int, size: int) -> Gaps:
    """Answer the rows of a part and write them; which numbers they lack."""
    path, at, part, first = task
    begin = part * size
    tables, gaps = [], Gaps()
    for i, table in enumerate(_rows_from(path, predictor.names, begin, size, batch)):
        tables.append(predictor(table, start=first + begin + i * batch, where=path))
        gaps += predictor.gaps(table, path)
    parts.write(at, part, tables)
    return gaps


def _rows_from(path: Path, names: Sequence[str], begin: int, count: int, batch: int) -> Iterator[Any]:
    """Batches of the rows from ``begin`` on; whole row groups before them are not read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    groups, skipped = list(range(file.metadata.num_row_groups)), 0
    while groups and skipped + file.metadata.row_group(groups[0]).num_rows <= begin:
        skipped += file.metadata.row_group(groups.pop(0)).num_rows
    batches = (pa.Table.from_batches([b]) for b in file.iter_batches(batch, groups, list(names), use_threads=False))

    def wanted() -> Iterator[Any]:
        at = skipped
        for table in batches:
            here = table.slice(max(0, begin - at), max(0, begin + count - max(at, begin)))
            at += len(table)
            if len(here):
                yield here
            if at >= begin + count:
                return

    return streams._regrouped(wanted(), batch)


def _rows_of(path: Path) -> int:
    import pyarrow.parquet as pq

    if path.suffix not in (".parquet", ".pq"):
        raise DataError(f"{str(path)!r} is no Parquet file; predict_dataset reads Parquet, predict_stream any table.")
    return int(pq.ParquetFile(path).metadata.num_rows)


def evaluate_dataset(model: HasTree, source: DataSource, *, unseen: str = "ancestor", engine: Engine = None) -> Any:
    """`vpunn.scale.evaluate_stream` with a task per file; sums of scores are added in the order of the files."""
    from vpunn.scale.scores import scores_of

    found = table_files(source)
    engine = _engine(engine)
    total = scores_of(_table_model(str(model)), source, unseen)
    for scores in each(engine, _file_scores, [(str(model), path, unseen) for path in found]):
        total.merge(scores)
    return total.evaluation()


@lru_cache(maxsize=2)
def _table_model(path: str) -> Any:
    from vpunn.tables.models import open_table_model

    return open_table_model(Path(path))


def _file_scores(model: str, path: Path, unseen: str) -> Any:
    from vpunn.scale.scores import frames_of, scores_of

    fitted = _table_model(model)
    scores = scores_of(fitted, path, unseen)
    for frame in frames_of(fitted, [path], None, None, BATCH_ROWS):
        scores.add(frame)
    scores.fitted = None  # what travels back is sums
    return scores


# ---- parts and engines -----------------------------------------------------------------------------------------------


class Part:
    """One partition of the rows, as tables of a batch each."""

    def __init__(self, read: Callable[[Sequence[str]], Iterator[Any]], facts: Any) -> None:
        self._read, self.facts = read, facts

    def tables(self, names: Sequence[str]) -> Iterator[Any]:
        """The columns asked for."""
        return self._read(names)


class _FileReader:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, names: Sequence[str]) -> Iterator[Any]:
        return read_batches(self.path, names, as_text=names[:1], rows=BATCH_ROWS)


class _DelayedReader:
    """A partition of a dask DataFrame, computed where it is summed."""

    def __init__(self, delayed: Any) -> None:
        self.delayed = delayed

    def __call__(self, names: Sequence[str]) -> Iterator[Any]:
        yield as_table(self.delayed.compute(scheduler="synchronous"), names, "a partition")


def _parts_of(source: DataSource, names: Sequence[str]) -> list[Part]:
    if hasattr(source, "dask") and hasattr(source, "map_partitions"):
        _check_dask(source, names)
        return [Part(_DelayedReader(one), at) for at, one in enumerate(source[list(names)].to_delayed())]
    return [Part(_FileReader(path), streams.fingerprint(path)) for path in table_files(source)]


def _facts(source: DataSource, parts: Sequence[Part]) -> Any:
    if hasattr(source, "dask"):
        from dask.base import tokenize

        return {"frame": tokenize(source), "partitions": len(parts)}
    return [part.facts for part in parts]


def _check_dask(frame: Table, names: Sequence[str]) -> None:
    if not (hasattr(frame, "map_partitions") and hasattr(frame, "_meta")):
        raise VpunnError(
            f"this takes a dask DataFrame, got a {type(frame).__name__}; vpunn.scale.Predictor takes other batches."
        )
    lost = [name for name in names if name not in frame.columns]
    if lost:
        raise DataError(f"the frame has no column {lost[0]!r}; it has {examples(list(frame.columns), limit=20)}.")


def _meta(schema: Any) -> Any:
    return schema.empty_table().to_pandas()


def _engine(engine: Engine) -> Any:
    if engine is not None and not (hasattr(engine, "submit") and hasattr(engine, "scatter")):
        raise VpunnError(
            f"engine must be a distributed.Client, or None for this process; got a {type(engine).__name__}."
        )
    return engine
