"""What questions to all kinds of models have in common: a list of rows, cells by column name, numbers and what they lack."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import examples
from vpunn.web.replies import ApiError
from vpunn.web.subject import clip

if TYPE_CHECKING:
    from vpunn.tables.inputs import Inputs


def check_fields(body: dict[str, Any], known: Collection[str]) -> None:
    """Refuse fields that mean nothing here."""
    for name in body:
        if name not in known:
            raise ApiError(422, f"there is no field {clip(name)!r}; fields are {', '.join(sorted(known))}.", name)


def read_list(body: dict[str, Any], name: str, max_rows: int) -> list[Any]:
    """The rows of a question: a list that is neither empty nor too long."""
    listed = body[name]
    if not isinstance(listed, list) or not listed:
        raise ApiError(422, f"{name} must be a list with at least one entry.", name)
    if len(listed) > max_rows:
        raise ApiError(413, f"{len(listed):,} rows are more than the {max_rows:,} a request may hold.", name)
    return listed


def check_cells(listed: list[Any], columns: Sequence[str]) -> None:
    """Refuse rows that are no objects, or that lack a column."""
    wrong = [row for row in listed if not isinstance(row, dict)]
    if wrong:
        raise ApiError(422, f"rows must be objects with cells by column name, got {clip(repr(wrong[0]))}.", "rows")
    if not columns:
        raise ApiError(422, "this model names no columns; ask with X.", "rows")
    missing = [name for name in columns if any(name not in row for row in listed)]
    if missing:
        raise ApiError(422, f"every row needs the columns {examples(columns)}; missing: {examples(missing)}.", "rows")


def read_numbers(listed: list[Any], width: int, where: str) -> np.ndarray:
    """Rows of numbers as floats; in ``rows`` a number may be missing (null), which gives NaN."""
    kinds: tuple[type, ...] = (int, float, type(None)) if where == "rows" else (int, float)
    for row in listed:
        if not isinstance(row, list) or len(row) != width:
            raise ApiError(422, f"every row needs {width:,} numbers, got {clip(repr(row))}.", where)
        if any(isinstance(v, bool) or not isinstance(v, kinds) for v in row):
            raise ApiError(422, f"features are numbers, got {clip(repr(row))}.", where)
    if not all(v is None or np.isfinite(_float(v, where)) for row in listed for v in row):
        raise ApiError(422, "features must be finite numbers.", where)
    return np.array(listed, np.float64).reshape(len(listed), width)


def _float(value: float, where: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ApiError(422, "a feature is too large for a float.", where) from None


def fill_gaps(numbers: np.ndarray, inputs: Inputs, categories: Sequence[Any] = ()) -> tuple[np.ndarray, list[str]]:
    """Numbers with medians of the training rows where they are missing, as in ``vpunn predict``, behind them the ``categories`` of
    every row as numbers, and the sentence about what was missing."""
    import pandas as pd

    from vpunn.tables.gaps import FILL_IN, Gaps, filled_numbers

    frame = pd.DataFrame(numbers, columns=list(inputs.columns))
    for k, name in enumerate(inputs.categories):
        frame[name] = np.array([row[k] for row in categories], object)
    filled = filled_numbers(frame, inputs, "rows")
    gaps = Gaps.of(frame, inputs, "rows")
    gaps.refuse_empty("rows", FILL_IN)
    return filled, gaps.said(inputs)
