"""Missing numbers in the rows of a table: what stands in for them, and the one sentence that says so.

A missing number is read as the median of its column in the training rows, which the model keeps, and the row is answered from
all the rest. The median, because in a column of a long tail (masses, prices, what a laboratory finds) the mean is like few rows,
and is believed: truths are less likely by it (`tests/tables/test_gaps.py`). Where there is no tail, means are a little better.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from vpunn.errors import DataError, counted, examples
from vpunn.tables.categories import one_hot, unknown, with_values
from vpunn.tables.cells import numbers_of, refuse_missing

if TYPE_CHECKING:
    import pandas as pd

    from vpunn.tables.inputs import Inputs

#: Columns that a sentence names at most.
NAMED = 5


def with_medians(inputs: Inputs, frame: pd.DataFrame, where: object) -> Inputs:
    """The columns of a model with their medians in the rows to be fitted (0 for a column that has no number there), and with the
    values of its categories."""
    inputs = with_values(inputs, frame, where)
    if not inputs.columns:
        return inputs
    numbers = numbers_of(frame, inputs.columns, where, inputs.block("numbers"))
    there = [column[~np.isnan(column)] for column in numbers.T]
    return replace(inputs, medians=tuple(float(np.median(column)) if len(column) else 0.0 for column in there))


def filled_numbers(frame: pd.DataFrame, inputs: Inputs, where: object) -> np.ndarray:
    """The numeric columns of a table as floats, the median where a number is missing; `Gaps` says where that was. Behind them
    its categories as numbers.

    A model of an older version has kept no medians; then missing numbers are refused.
    """
    block = inputs.block("numbers")
    numbers = numbers_of(frame, inputs.columns, where, block)
    if inputs.columns and not inputs.medians:
        fix = "fill in or leave out these rows, or fit the model again: this one was written before models knew what to put there"
        refuse_missing(numbers, inputs.columns, where, fix, block)
    numbers = np.where(np.isnan(numbers), inputs.medians, numbers) if inputs.medians else numbers
    return np.concatenate([numbers, one_hot(frame, inputs, where)], axis=1) if inputs.categories else numbers


def numberless(frame: pd.DataFrame, inputs: Inputs, where: object) -> np.ndarray:
    """Rows that lack the numbers of all columns, and have no known category: medians say nothing about them."""
    bare = np.asarray(np.isnan(numbers_of(frame, inputs.columns, where, inputs.block("numbers"))).all(axis=1))
    return bare & unknown(frame, inputs, where) if inputs.categories else bare


@dataclass(frozen=True)
class Gaps:
    """Missing numbers: how many of ``total`` ``rows`` lack one, and how many by column; those of batches add up."""

    total: int = 0
    rows: int = 0
    columns: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, frame: pd.DataFrame, inputs: Inputs, where: object) -> Gaps:
        """Those of a table."""
        gone = np.isnan(numbers_of(frame, inputs.columns, where, inputs.block("numbers")))
        count = Counter(dict(zip(inputs.columns, gone.sum(axis=0).tolist(), strict=True)))
        return cls(len(frame), int(gone.any(axis=1).sum()), count)

    def __add__(self, other: Gaps) -> Gaps:
        return Gaps(self.total + other.total, self.rows + other.rows, self.columns + other.columns)

    def said(self, inputs: Inputs) -> list[str]:
        """One sentence: how many rows, which columns, and what was put there; nothing if no number is missing."""
        if not self.rows:
            return []
        value = dict(zip(inputs.columns, inputs.medians, strict=True))
        found = [(name, count) for name, count in self.columns.most_common() if count]
        parts = [f"{examples([name])} {value[name]:.4g} in {counted(n, 'row')}" for name, n in found[:NAMED]]
        more = f" and {counted(len(found) - NAMED, 'more column')}" if len(found) > NAMED else ""
        lack = "lacks a number" if self.rows == 1 else "lack numbers"
        stands = "read as the median of the training rows"
        return [f"{self.rows:,} of {counted(self.total, 'row')} {lack}, {stands}: {', '.join(parts)}{more}"]

    def refuse_empty(self, where: object, fix: str) -> None:
        """Refuse a table with a column that has no number in any row: most likely another column was meant.

        A table of one row is a question about it, which is answered.
        """
        empty = [name for name, count in self.columns.items() if count == self.total]
        if empty and self.total > 1:
            raise DataError(
                f"the column {examples(empty)} of {str(where)!r} has no number in any of {counted(self.total, 'row')}; {fix}."
            )


#: What to do about a column without numbers in a table that is to be answered.
FILL_IN = "fill it in, or fit a model that does not read it"
