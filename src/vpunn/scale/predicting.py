"""Predictions for rows from anywhere, written to a file or a folder of parts, here or on an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vpunn._types import DataSource, Engine, HasTree, Table
from vpunn.errors import VpunnError
from vpunn.scale.engine import checked_engine
from vpunn.scale.predictor import Predictor
from vpunn.scale.sources import BATCH_ROWS, Reading, check_frame, is_dask, parts_of
from vpunn.scale.writing import PART_ROWS, Sizes, write_rows
from vpunn.tables.gaps import FILL_IN, Gaps

if TYPE_CHECKING:
    import pyarrow as pa


def predict(
    model: HasTree,
    source: DataSource,
    out: Any = None,
    *,
    columns: Sequence[str] = (),
    keep: Sequence[str] = (),
    delimiter: str | None = None,
    encoding: str | None = None,
    engine: Engine = None,
    batch_rows: int = BATCH_ROWS,
    part_rows: int = PART_ROWS,
    **options: Any,
) -> Any:
    """Predictions for every row of ``source``, written to ``out``: a `Written`. The same bytes here or on an engine.

    ``source`` is a file, a folder, a pattern, a list of them, a ``pyarrow.dataset`` or a dask DataFrame; of the last, without
    ``out``, answers are a dask DataFrame with the same partitions, lazily (``row`` counts within the partition, kept columns have
    the types the answers declare). ``model`` is a folder or a `Predictor`; ``columns``, ``keep`` and ``options`` are those of
    `Predictor`. ``out`` is a table file, or a folder of Parquet parts if it ends in ``/``, the input has several files, or an
    ``engine`` (a ``distributed.Client``) does the work. Parts appear whole, and parts that are there are not made again, so a
    killed worker, or a killed run started again, ends with the same bytes. Memory: a batch, whatever the rows. Missing numbers are
    filled in as by `Predictor`, which the result's ``notes`` say; a column without any is refused at the end.
    """
    predictor = model if isinstance(model, Predictor) else Predictor(model, columns=columns, keep=keep, **options)
    if out is None:
        return _lazily(predictor, source)
    labels = predictor.columns[:1] if predictor._table is None else predictor._table.inputs.as_text
    reading = Reading(tuple(predictor.names), (*labels, *predictor.keep), delimiter, encoding)
    told = {**predictor.options, "keep": predictor.keep, "columns": predictor.columns}
    job = {"command": "predict", "model": predictor.checksum, "options": told}
    inputs, sizes = parts_of(source, predictor.names), Sizes.checked(batch_rows, part_rows)
    step = _Predict(predictor, str(source))
    done, tally, parts = write_rows(step, inputs, reading, out, job, sizes, checked_engine(engine), "predicting")
    if parts is not None:
        step.refuse(tally.gaps)
        parts.finish(rows=tally.rows)
    return replace(done, notes=tuple(predictor.said(tally.gaps or Gaps())))


class _Predict:
    """Answers of a predictor, and the numbers its rows lack."""

    def __init__(self, predictor: Predictor, where: str) -> None:
        self.predictor, self.where = predictor, where

    def __call__(self, table: pa.Table, start: int, where: object) -> pa.Table:
        return self.predictor(table, start=start, where=where)

    def gaps(self, table: pa.Table, where: object) -> Gaps:
        return self.predictor.gaps(table, where)

    def refuse(self, gaps: Gaps | None) -> None:
        """Refuse a column without any number in all rows."""
        if gaps is not None:
            gaps.refuse_empty(self.where, FILL_IN)


def _lazily(predictor: Predictor, frame: Any) -> Any:
    import pyarrow as pa

    if not is_dask(frame):
        raise VpunnError("say where the answers go: out='answers/' is a folder of parts, out='answers.csv' one table.")
    check_frame(frame, predictor.names)
    meta = predictor.schema(pa.Schema.from_pandas(frame._meta[predictor.names], preserve_index=False))
    meta = meta.empty_table().to_pandas()
    return frame[predictor.names].map_partitions(_answer_frame, predictor, meta=meta)


def _answer_frame(frame: Table, predictor: Predictor) -> Any:
    return predictor(frame).to_pandas()
