"""What ``vpunn evaluate`` says of rows from anywhere, in constant memory, here or on an engine."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from vpunn._progress import progress_bar
from vpunn._types import DataSource, Engine, HasTree
from vpunn.errors import VpunnError, check_choice
from vpunn.scale.engine import checked_engine, each
from vpunn.scale.sources import BATCH_ROWS, Part, Reading, parts_of
from vpunn.scale.writing import ANNOUNCED
from vpunn.tables.answers import Evaluation
from vpunn.tables.gaps import FILL_IN
from vpunn.tables.models import open_table_model
from vpunn.tables.scores import Scored
from vpunn.tables.truth import UNSEEN, Unseen


def evaluate(
    model: HasTree,
    source: DataSource,
    *,
    unseen: Unseen = "ancestor",
    delimiter: str | None = None,
    encoding: str | None = None,
    engine: Engine = None,
    batch_rows: int = BATCH_ROWS,
) -> Evaluation:
    """`vpunn evaluate` in constant memory: scores of a model of tables over rows from any source that `predict` takes.

    With an ``engine`` every part is a task; the scores of parts are added in their order, so they are the same here and there.
    """
    check_choice("unseen", unseen, UNSEEN)
    engine = checked_engine(engine)
    opened = hasattr(model, "inputs")
    if engine is not None and opened:
        raise VpunnError("workers open the model themselves; give the folder it is saved in.")
    fitted: Any = model if opened else open_table_model(Path(model))
    if getattr(fitted.model, "multilabel_", False):
        raise VpunnError(
            "rows with several labels are scored from one table that fits into memory, not from a folder or in parts; "
            "evaluate its files one by one."
        )
    inputs = fitted.inputs
    names = tuple(dict.fromkeys([*inputs.names, *inputs.target]))
    reading = Reading(names, tuple(inputs.as_text), delimiter, encoding)
    parts = parts_of(source, names)
    total, what = Scored(), model if opened else str(model)
    with progress_bar("evaluating…", verbose=sum(one.bytes for one in parts) > ANNOUNCED) as bar:
        for scored in each(engine, _part_scores, [(what, one, reading, unseen, batch_rows) for one in parts]):
            total += scored
            bar.say(f"{total.rows:,} rows")
    total.gaps.refuse_empty(source, FILL_IN)
    made: Evaluation = fitted.evaluation(total, source)
    return made


@lru_cache(maxsize=2)
def _opened(path: str) -> Any:
    return open_table_model(Path(path))


def _part_scores(model: Any, part: Part, reading: Reading, unseen: Unseen, rows: int) -> Scored:
    """The scores of one part."""
    fitted = _opened(model) if isinstance(model, str) else model
    total = Scored()
    for table, _, where in part.batches(reading, rows):
        total += fitted.scored(table.to_pandas(), where, unseen)
    return total
