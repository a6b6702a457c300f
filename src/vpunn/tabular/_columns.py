"""Columns of a table as numbers: which are numeric, which are categories, and the scaled matrix that distances use.

A table is a data frame or a two-dimensional array. `TableCoder` learns its columns once and afterwards reads any table
with the same columns. Every column weighs the same in a distance: a numeric column is standardised, a categorical one
becomes indicators divided by √(1 − Σ share²), so that both have total variance 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vpunn._rows import uneven_weights
from vpunn._types import Table
from vpunn.errors import VpunnError, examples
from vpunn.store import Draft, Storable, Stored

#: Unseen numbers count as at most this many standard deviations off, so that squared distances keep their digits
#: (no training row of n can be farther than √n).
FARTHEST = 1e6


class TableError(VpunnError):
    """A table cannot be read as numbers and categories."""


class CellError(TableError, TypeError):
    """A cell holds a container."""


class TableCoder(Storable):
    """Learns the columns of a table and turns tables into matrices and back.

    ``categorical`` names (or numbers) the columns to read as categories; by default every column whose values are not
    numbers, and every pandas ``category`` or boolean column. Missing values are kept: `scale` puts them at the column's
    mean (numbers) or at the zero vector (categories), which is also where a category never seen in `fit` goes.
    Constant and all-missing columns get scale 0, so they never move a row; they are listed in ``flat``.

    >>> import pandas as pd
    >>> wines = pd.DataFrame({"alcohol": [9.0, 11.0, 13.0, None], "colour": ["red", "white", "red", "white"]})
    >>> coder = TableCoder().fit(wines)
    >>> numbers, codes = coder.split(wines)
    >>> coder.scale(numbers, codes).round(2)
    array([[-1.22,  1.41,  0.  ],
           [ 0.  ,  0.  ,  1.41],
           [ 1.22,  1.41,  0.  ],
           [ 0.  ,  0.  ,  1.41]])
    """

    def __init__(self, categorical: Sequence[Any] | None = None) -> None:
        self.categorical = categorical

    def fit(self, table: Table, weights: np.ndarray | None = None) -> TableCoder:
        """Learn names, kinds, means, scales and categories; rows of weight 0 are read (see `split`) and not learned from."""
        import pandas as pd

        self.is_frame = isinstance(table, pd.DataFrame)
        self.names = list(table.columns) if self.is_frame else list(range(np.shape(table)[1]))
        chosen = self._chosen()
        used = None if weights is None else np.flatnonzero(weights)
        learned = table if used is None else _take(table, used)
        plain = not self.is_frame and not chosen and getattr(table, "dtype", np.dtype(object)).kind in "fiub"
        kinds = (
            np.zeros(len(self.names), bool)
            if plain
            else np.array(
                [name in chosen or _looks_categorical(_column(learned, j), name) for j, name in enumerate(self.names)],
                bool,
            )
        )
        self.numeric = np.flatnonzero(~kinds)
        self.symbolic = np.flatnonzero(kinds)
        self.levels = [_levels(_column(learned, j)) for j in self.symbolic]
        numbers, codes = self.split(table)
        if weights is not None:
            numbers, codes, weights = numbers[used], codes[used], uneven_weights(weights[used])
        self._measure(numbers, codes, weights)
        return self

    def _to_store(self, draft: Draft) -> None:
        draft.settings["is_frame"] = self.is_frame
        draft.labels("names", list(self.names))
        draft.labels("flat", list(self.flat))
        for name in ("numeric", "symbolic", "mean", "spread", "whole", "missing", "weight"):
            draft.array(name, np.asarray(getattr(self, name), None if len(getattr(self, name)) else float))
        for k, (levels, share) in enumerate(zip(self.levels, self.shares, strict=True)):
            draft.labels(f"levels{k}", list(levels))
            draft.array(f"share{k}", share)

    @classmethod
    def _from_store(cls, stored: Stored) -> TableCoder:
        import pandas as pd

        table = cls()
        table.is_frame = stored.setting("is_frame", bool)
        table.names, table.flat = stored.labels("names").tolist(), stored.labels("flat").tolist()
        n, m = len(table.names), len(stored.array("mean", dtype="f8", shape=(None,)))
        table.numeric, table.symbolic = (
            stored.array(name, shape=(many,), low=0, high=n).astype(np.int64)
            for name, many in (("numeric", m), ("symbolic", n - m))
        )
        if len({*table.numeric.tolist(), *table.symbolic.tolist()}) != n:
            raise VpunnError("some column is both numeric and a category.")
        for name in ("mean", "spread", "missing"):
            low = None if name == "mean" else 0
            setattr(table, name, stored.array(name, dtype="f8", shape=(m,), low=low))
        table.whole = stored.array("whole", shape=(m,)).astype(bool)
        table.levels = [pd.Index(stored.labels(f"levels{k}"), dtype=object) for k in range(n - m)]
        table.shares = [
            stored.array(f"share{k}", dtype="f8", shape=(len(levels),), low=0) for k, levels in enumerate(table.levels)
        ]
        table.weight = stored.array("weight", dtype="f8", shape=(n - m,), low=0).tolist()
        return table

    def _measure(self, numbers: np.ndarray, codes: np.ndarray, weights: np.ndarray | None) -> None:
        """Means, scales and shares of columns as `split` returns them."""
        total = max(len(numbers), 1) if weights is None else weights.sum()
        seen = _sum(np.isfinite(numbers), weights)
        safe = np.where(seen > 0, seen, 1)
        with np.errstate(over="ignore"):
            self.mean = _sum(numbers, weights) / safe
            self.spread = np.sqrt(_sum((numbers - self.mean) ** 2, weights) / safe)
        if not (np.isfinite(self.mean).all() and np.isfinite(self.spread).all()):
            bad = [self.names[j] for j in self.numeric[~(np.isfinite(self.mean) & np.isfinite(self.spread))]]
            raise TableError(
                f"the values of column {examples(bad)} are too large to square; divide the column by a constant."
            )
        # a spread that is only the rounding error of the mean is a constant column
        self.spread[self.spread <= 1e-12 * np.abs(self.mean)] = 0.0
        self.whole = np.array([_is_whole(column) for column in numbers.T], bool)
        self.missing = np.maximum(1.0 - seen / total, 0.0)  # a sum of weights may round to above the total
        self.shares = [_category_sums(c, len(v), weights) / total for c, v in zip(codes.T, self.levels, strict=True)]
        self.weight = [_indicator_weight(share) for share in self.shares]
        numeric_flat = [self.names[j] for j, s in zip(self.numeric, self.spread, strict=True) if s == 0]
        self.flat = numeric_flat + [self.names[j] for j, w in zip(self.symbolic, self.weight, strict=True) if w == 0]

    def _chosen(self) -> set[Any]:
        """Names of the columns the caller declared categorical (a position stands for a name)."""
        if self.categorical is None:
            return set()
        unknown = [
            c for c in self.categorical if c not in self.names and not (isinstance(c, int) and c < len(self.names))
        ]
        if unknown:
            raise TableError(
                f"categorical names no column {examples(unknown)}; the columns are {examples(self.names)}."
            )
        return {c if c in self.names else self.names[c] for c in self.categorical}

    @property
    def width(self) -> int:
        """Columns of the scaled matrix."""
        return len(self.numeric) + sum(len(v) for v in self.levels)

    def split(self, table: Table) -> tuple[np.ndarray, np.ndarray]:
        """Numbers (float64, NaN where missing) and category codes (int32, −1 where missing or never seen)."""
        n = np.shape(table)[0]
        if not len(self.symbolic) and not self.is_frame:
            numbers = np.asarray(table)
            if numbers.dtype.kind not in "fiub":
                numbers = np.column_stack([_numbers(numbers[:, j], j) for j in self.numeric])
            numbers = numbers.astype(np.float64, copy=False)
        else:
            numbers = np.empty((n, len(self.numeric)))
            for k, j in enumerate(self.numeric):
                numbers[:, k] = _numbers(_column(table, j), self.names[j])
        infinite = np.isinf(numbers)
        if infinite.any():
            row, k = map(int, np.argwhere(infinite)[0])
            raise TableError(
                f"column {self.names[self.numeric[k]]!r} holds an infinite value in row {row}; "
                "replace it with a number, or with NaN to count it as missing."
            )
        codes = np.empty((n, len(self.symbolic)), np.int32)
        for k, j in enumerate(self.symbolic):
            codes[:, k] = self.levels[k].get_indexer(_symbols(_column(table, j)))
        return numbers, codes

    def scale(self, numbers: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """The matrix that distances are measured in: standardised numbers, then weighted indicators."""
        inverse = np.divide(1.0, self.spread, out=np.zeros_like(self.spread), where=self.spread > 0)
        scaled = np.zeros((len(numbers), self.width))
        m = len(self.numeric)
        np.subtract(numbers, self.mean, out=scaled[:, :m])
        scaled[:, :m] *= inverse
        np.nan_to_num(scaled[:, :m], copy=False, nan=0.0)
        np.clip(scaled[:, :m], -FARTHEST, FARTHEST, out=scaled[:, :m])
        for code, levels, weight in zip(codes.T, self.levels, self.weight, strict=True):
            known = np.flatnonzero(code >= 0)
            scaled[known, m + code[known]] = weight
            m += len(levels)
        return scaled

    def matrix(self, table: Table) -> np.ndarray:
        """`split` then `scale`."""
        return self.scale(*self.split(table))

    def join(self, numbers: np.ndarray, codes: np.ndarray) -> Any:
        """A table like the one given to `fit`: a data frame if that was one, else an array.

        Columns that held only whole numbers are rounded; code −1 becomes a missing value.
        """
        import pandas as pd

        numbers = np.where(self.whole, np.round(numbers), numbers) if len(self.whole) else numbers
        columns: dict[int, Any] = {int(j): numbers[:, k] for k, j in enumerate(self.numeric)}
        for k, j in enumerate(self.symbolic):
            values = np.array([*self.levels[k], None], dtype=object)
            columns[int(j)] = values[codes[:, k]]
        if self.is_frame:
            return pd.DataFrame({j: columns[j] for j in range(len(self.names))}).set_axis(self.names, axis=1)
        if not len(self.symbolic):
            return numbers
        return np.column_stack([np.asarray(columns[j], dtype=object) for j in range(len(self.names))])


def _column(table: Table, j: Any) -> Any:
    """Column ``j`` by position."""
    return table.iloc[:, j] if hasattr(table, "iloc") else np.asarray(table)[:, j]


def _take(table: Table, rows: np.ndarray) -> Any:
    """Some rows of a table."""
    return table.iloc[rows] if hasattr(table, "iloc") else np.asarray(table)[rows]


def _sum(values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Sum of every column without its NaNs, rows counting as often as they weigh."""
    return np.asarray(np.nansum(values if weights is None else weights[:, None] * values, axis=0))


def _category_sums(code: np.ndarray, many: int, weights: np.ndarray | None) -> np.ndarray:
    """How often each category occurs, or how much its rows weigh."""
    known = code >= 0
    return np.bincount(code[known], None if weights is None else weights[known], minlength=many)


def _symbols(column: Any) -> Any:
    """Values of a categorical column as plain objects with one kind of missing value."""
    import pandas as pd

    values = pd.Series(column).astype(object)
    return values.where(values.notna(), None)


def _levels(column: Any) -> Any:
    """Sorted distinct categories (by text when they do not compare), without the missing value."""
    import pandas as pd

    cells = pd.Series(column).astype(object).dropna()
    held = next((cell for cell in cells if isinstance(cell, dict | list | set | np.ndarray)), None)
    if held is not None:
        raise CellError(
            f"a table cell argument must be a string or a number, not a {type(held).__name__}; unpack the column."
        )
    values = pd.unique(cells)
    try:
        return pd.Index(sorted(values), dtype=object)
    except TypeError:
        return pd.Index(sorted(values, key=str), dtype=object)


def _looks_categorical(column: Any, name: Any) -> bool:
    """Booleans, pandas categories, dates aside: anything that does not read as numbers."""
    import pandas as pd

    kind = getattr(column, "dtype", np.dtype(object))
    if kind == bool or isinstance(kind, pd.CategoricalDtype | pd.BooleanDtype):
        return True
    if kind.kind == "M":
        raise TableError(f"column {name!r} holds dates; turn it into numbers first, e.g. days since a start date.")
    try:
        _numbers(column, name)
    except TableError:
        return True
    return False


def _numbers(column: Any, name: Any) -> np.ndarray:
    """A column as float64, missing values as NaN."""
    import pandas as pd

    kind = getattr(column, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind in "fiub":
        return np.asarray(column, dtype=np.float64)
    if isinstance(kind, np.dtype) and kind.kind == "c":
        raise TableError("Complex data not supported: split it into real and imaginary columns.")
    try:
        return pd.to_numeric(pd.Series(column)).to_numpy(dtype=np.float64, na_value=np.nan)
    except (ValueError, TypeError):
        values = pd.Series(column)
        bad = values[pd.to_numeric(values, errors="coerce").isna() & values.notna()]
        raise TableError(
            f"column {name!r} was read as numbers but holds {examples(list(dict.fromkeys(map(str, bad))))}; "
            "clean it, or list the column in categorical=."
        ) from None


def _is_whole(column: np.ndarray) -> bool:
    """Does a column hold whole numbers only (and any at all)?"""
    values = column[np.isfinite(column)]
    return bool(len(values)) and bool((values == np.round(values)).all())


def _indicator_weight(share: np.ndarray) -> float:
    """1/√(1 − Σ share²): makes the indicators' total variance 1; 0 for a constant column."""
    variance = float(share.sum() - (share**2).sum())
    return 1.0 / np.sqrt(variance) if variance > 1e-12 else 0.0
