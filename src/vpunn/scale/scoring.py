"""What ``vpunn evaluate`` says of rows from anywhere, in constant memory, here or on an engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._progress import progress_bar
from vpunn._types import DataSource, Engine, HasTree
from vpunn.errors import DataError, VpunnError, check_choice, counted, examples
from vpunn.scale.engine import checked_engine, each
from vpunn.scale.sources import BATCH_ROWS, Part, Reading, parts_of
from vpunn.scale.writing import ANNOUNCED
from vpunn.tables.answers import Evaluation
from vpunn.tables.cells import LabelCells, numbers_of
from vpunn.tables.gaps import FILL_IN, Gaps
from vpunn.tables.inputs import target_cells
from vpunn.tables.models import TableClassifier, open_table_model
from vpunn.tables.names import last_name, locate, matched, unseen_error
from vpunn.tables.scores import ClassScores, NumberScores
from vpunn.tables.truth import SAID, UNSEEN

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class _Scored:
    """Scores of some rows, how many labels in them are new (and which) or missing, how many rows hold nothing known, and their
    missing numbers."""

    scores: Any
    new: int = 0
    blank: int = 0
    dark: int = 0
    gaps: Gaps = field(default_factory=Gaps)
    names: tuple[str, ...] = ()

    def __add__(self, other: _Scored) -> _Scored:
        return _Scored(
            self.scores + other.scores,
            self.new + other.new,
            self.blank + other.blank,
            self.dark + other.dark,
            self.gaps + other.gaps,
            tuple(dict.fromkeys((*self.names, *other.names))),
        )


def evaluate(
    model: HasTree,
    source: DataSource,
    *,
    unseen: str = "ancestor",
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
    _check_scored(fitted, unseen)
    inputs = fitted.inputs
    names = tuple(dict.fromkeys([*inputs.names, *inputs.target]))
    reading = Reading(names, tuple(inputs.as_text), delimiter, encoding)
    parts = parts_of(source, names)
    total = _none(fitted)
    with progress_bar("evaluating…", verbose=sum(one.bytes for one in parts) > ANNOUNCED) as bar:
        what = model if opened else str(model)
        for scored in each(engine, _part_scores, [(what, one, reading, unseen, batch_rows) for one in parts]):
            total += scored
            bar.say(f"{_rows_of(total):,} rows")
    return _evaluation(fitted, total, source, unseen)


@lru_cache(maxsize=2)
def _opened(path: str) -> Any:
    return open_table_model(Path(path))


def _part_scores(model: Any, part: Part, reading: Reading, unseen: str, rows: int) -> _Scored:
    """The scores of one part."""
    fitted = _opened(model) if isinstance(model, str) else model
    score = _class_scores if isinstance(fitted, TableClassifier) else _number_scores
    total = _none(fitted)
    for table in part.tables(reading, rows):
        total += score(fitted, table.to_pandas(), part.name, unseen)
    return total


def _none(fitted: Any) -> _Scored:
    return _Scored(ClassScores() if isinstance(fitted, TableClassifier) else NumberScores())


def _rows_of(scored: _Scored) -> int:
    return scored.scores.nodes.n if isinstance(scored.scores, ClassScores) else scored.scores.n


def _check_scored(fitted: Any, unseen: str) -> None:
    if isinstance(fitted, TableClassifier) and getattr(fitted.model, "multilabel_", False):
        raise VpunnError(
            "rows with several labels are scored from one table that fits into memory, not from a folder or in parts; "
            "evaluate its files one by one."
        )
    if fitted.inputs.classes:
        raise VpunnError(
            "classes of levels are scored from one table, not from a folder or in parts; evaluate its files one by one."
        )
    if not isinstance(fitted, TableClassifier) and unseen == "wrong":
        raise DataError(
            "--unseen wrong is for labels; a number is predicted at the deepest known ancestor, or skipped."
        )


def _class_scores(fitted: Any, frame: pd.DataFrame, where: object, unseen: str) -> _Scored:
    inputs, tree = fitted.inputs, fitted.model.label_tree_
    cells, _ = matched(target_cells(frame, inputs, where), tree, inputs.match)
    blank = cells.blank
    nodes, new = locate(tree, cells)
    if new.any() and unseen == "error":
        raise unseen_error(tree, cells, new, where, "--unseen ancestor, skip or wrong scores the rest")
    names = tuple(dict.fromkeys(str(last_name(row)) for row in cells.values[new].tolist()))
    found = _Scored(ClassScores(), int(new.sum()), int(blank.sum()), names=names)
    keep = np.flatnonzero(~((new | blank) if unseen == "skip" else blank))
    if not len(keep):
        return found
    rows = frame.iloc[keep]
    X = fitted.rows(rows, where)
    dark = int((~fitted.known(X, rows, where)).sum())
    scores = ClassScores.of(fitted.model, X, nodes[keep], np.asarray(new[keep]) & (unseen == "wrong"))
    return found + _Scored(scores, dark=dark, gaps=Gaps.of(rows, inputs, where))


def _number_scores(fitted: Any, frame: pd.DataFrame, where: object, unseen: str) -> _Scored:
    inputs = fitted.inputs
    numbers = numbers_of(frame, inputs.target, where)
    X = fitted.rows(frame, where)
    cells = LabelCells(X[:, : X.shape[1] - len(inputs.columns)])
    _, new = locate(fitted.model.tree_, cells)
    if new.any() and unseen == "error":
        raise unseen_error(fitted.model.tree_, cells, new, where, "--unseen ancestor or skip scores the rest")
    keep = ~np.isnan(numbers[:, 0]) & ~(new & (unseen == "skip"))
    found = _Scored(NumberScores(), int(new.sum()), int(np.isnan(numbers[:, 0]).sum()))
    if not keep.any():
        return found
    mean, sd = fitted.model.predict(X[keep], return_std=True)
    truth = fitted.scaled(numbers[keep, 0], where)
    return found + _Scored(NumberScores.of(truth, mean, sd), gaps=Gaps.of(frame[keep], inputs, where))


def _evaluation(fitted: Any, total: _Scored, where: object, unseen: str) -> Evaluation:
    classes = isinstance(total.scores, ClassScores)
    if classes and not total.scores.nodes.n:
        raise DataError(f"no row of {str(where)!r} can be scored: none has a label that the model knows.")
    if not classes and total.scores.n < 2:
        raise DataError(f"fewer than two rows of {str(where)!r} can be scored.")
    notes = []
    if total.new:
        what = "labels the model does not know" if classes else "levels the model does not know"
        what += f" ({examples(total.names, limit=3)})" if classes else ""
        how = SAID[unseen] if classes else {"skip": "left out"}.get(unseen, "predicted at their deepest known ancestor")
        notes.append(f"{counted(total.new, 'row has', 'rows have')} {what}, {how}")
    if total.blank:
        notes.append(f"{counted(total.blank, 'row')} without a {'label' if classes else 'number'} left out")
    notes += fitted.said_of_dark(total.dark) if classes else []
    total.gaps.refuse_empty(where, FILL_IN)
    made: Evaluation = total.scores.evaluation((*notes, *total.gaps.said(fitted.inputs)))
    return made
