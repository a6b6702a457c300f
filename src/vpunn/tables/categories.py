"""Categories as numbers: a column for each value, 1 where a row has it, less the share of the training rows that have it.

So a blank cell, or a value that no training row had, is nought in every column: it is read as what is usual.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from vpunn.tables.cells import place_cells

if TYPE_CHECKING:
    import pandas as pd

    from vpunn.tables.inputs import Inputs


def with_values(inputs: Inputs, frame: pd.DataFrame, where: object) -> Inputs:
    """The columns of a model with the values of its categories in the rows to be fitted, each with its share of the rows."""
    values, shares = [], []
    for cells in _cells(inputs, frame, where):
        named, count = np.unique(cells[cells != ""], return_counts=True)
        values.append(tuple(named.tolist()))
        shares.append(tuple((count / max(count.sum(), 1)).tolist()))
    return replace(inputs, values=tuple(values), shares=tuple(shares))


def one_hot(frame: pd.DataFrame, inputs: Inputs, where: object) -> np.ndarray:
    """The categories of a table as numbers, (rows, values of all columns)."""
    parts = [np.zeros((len(frame), 0))]
    for cells, values, shares in zip(_cells(inputs, frame, where), inputs.values, inputs.shares, strict=True):
        same = cells[:, None] == np.array(values, str)
        parts.append(np.where(same.any(1)[:, None], same - np.array(shares), 0.0))
    return np.concatenate(parts, axis=1)


def forgotten(inputs: Inputs, rows: np.ndarray) -> Inputs:
    """The columns of a model without the names of values that none of its ``rows`` of numbers has (see `one_hot`)."""
    had = iter(np.any(rows[:, rows.shape[1] - sum(map(len, inputs.values)) :] > 0, axis=0).ravel().tolist())
    values = tuple(tuple(value if next(had) else f"\0{i}" for i, value in enumerate(of)) for of in inputs.values)
    return replace(inputs, values=values)


def unknown(frame: pd.DataFrame, inputs: Inputs, where: object) -> np.ndarray:
    """Rows none of whose categories has a value the model knows."""
    there = [np.isin(cells, values) for cells, values in zip(_cells(inputs, frame, where), inputs.values, strict=True)]
    return np.asarray(~np.any([np.zeros(len(frame), bool), *there], axis=0))


def _cells(inputs: Inputs, frame: pd.DataFrame, where: object) -> list[np.ndarray]:
    """The cells of each category column as text, "" where there is none."""
    if not inputs.categories:
        return []
    cells = place_cells(frame, inputs.categories, where, gaps=False).values
    return [np.array(["" if cell is None else str(cell) for cell in column], str) for column in cells.T]
