"""Arrays as every room keeps them: labels of any kind, what is missing among values, rows by owner, views nobody writes to."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Iterable, Sequence
from types import NoneType
from typing import Any

import numpy as np

from vpunn._types import Label
from vpunn.errors import TreeError, examples, refuse_lazy

#: Fewer labels than this are numbered in less time than importing pandas takes (on many, its hash table is twice as fast).
PANDAS_FROM = 10_000


def frozen(array: np.ndarray) -> np.ndarray:
    """A view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def paired(a: np.ndarray, b: np.ndarray) -> Sequence[np.ndarray]:
    """Both arrays in their common shape."""
    if a.shape == b.shape:
        return a, b
    try:
        return np.broadcast_arrays(a, b)
    except ValueError:
        raise TreeError(
            f"arrays of shapes {a.shape} and {b.shape} do not pair up; give equal shapes, or one and many."
        ) from None


def grouped(owner: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows by their owner, one of 0 … n − 1: ``order[start[i]:start[i + 1]]`` are the rows of owner ``i``, in their order.

    >>> start, order = grouped(np.array([1, 0, 1]), 2)
    >>> start.tolist(), order.tolist()
    ([0, 1, 3], [1, 0, 2])
    """
    start = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(owner, minlength=n), out=start[1:])
    return start, np.argsort(owner, kind="stable")


def label_array(values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Labels as int64 (all whole numbers) or objects, and which of them are missing (None, NaN).

    Whole floats become integers, because a missing value turns a pandas column of integers into floats.
    """
    refuse_lazy(values)
    array = values if isinstance(values, np.ndarray) or hasattr(values, "dtype") else _label_objects(values)
    if np.ndim(array) != 1:
        raise TreeError(f"labels must be one-dimensional, got shape {np.shape(array)}.")
    if isinstance(array, np.ndarray) and array.dtype.kind in "iuU":  # none of these can be missing
        whole = array.dtype.kind != "U" and (array.dtype != np.uint64 or not (array > np.iinfo(np.int64).max).any())
        return array.astype(np.int64 if whole else object), np.zeros(len(array), bool)
    kinds = set(map(type, array)) if array.dtype == object else {object}
    if kinds <= {str, NoneType} or {str} < kinds <= {str, int, NoneType}:  # texts, also beside numbers, need no pandas
        texts = np.array(array, object)
        return texts, np.fromiter((text is None for text in texts), bool, len(texts))
    import pandas as pd

    missing = np.asarray(pd.isna(array))
    present = np.asarray(array[~missing] if missing.any() else array)
    if present.dtype == object:
        kind = pd.api.types.infer_dtype(present, skipna=False)
        if kind in ("integer", "floating", "mixed-integer-float"):
            present = np.asarray(pd.Series(present).infer_objects())
    if present.dtype.kind == "f" and (present == np.floor(present)).all() and (np.abs(present) < 2**53).all():
        present = present.astype(np.int64)
    if present.dtype.kind in "iu" and (present.dtype != np.uint64 or not (present > np.iinfo(np.int64).max).any()):
        present = present.astype(np.int64)
        blank: Any = 0
    else:
        present = _as_objects(present)
        blank = None
    if not missing.any():
        return present, missing
    full = np.full(len(missing), blank, present.dtype)
    full[~missing] = present
    return full, missing


def _label_objects(values: Any) -> np.ndarray:
    return object_array(collection(values, "labels must be a sequence with one label for each row or node"))


def collection(values: Any, what: str) -> Collection[Any]:
    """Values that can be counted and walked through; one text or number in place of them is refused with ``what``."""
    try:
        iter(values)
    except TypeError:
        raise TreeError(f"{what}, got {reprlib.repr(values)}.") from None
    if isinstance(values, str | bytes):
        raise TreeError(f"{what}, got {reprlib.repr(values)}.")
    return values if isinstance(values, Collection) else list(values)


def object_array(values: Iterable[Any]) -> np.ndarray:
    """A one-dimensional object array, also of tuples (which np.array would spread over a second axis)."""
    listed = values if isinstance(values, Collection) else list(values)
    return np.fromiter(listed, object, len(listed))


def _as_objects(array: np.ndarray) -> np.ndarray:
    """A new object array; dates stay dates (NumPy would turn those of nanosecond precision into integers)."""
    import pandas as pd

    return np.array(pd.Series(array).astype(object)) if array.dtype.kind in "mM" else array.astype(object)


def number_labels(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A number for each label, equal ones alike, in order of appearance, and the labels by number."""
    try:
        if labels.dtype == object and len(labels) < PANDAS_FROM:
            given = labels.tolist()
            place = {label: i for i, label in enumerate(dict.fromkeys(given))}
            return np.array([place[label] for label in given], np.int64), object_array(place)
        import pandas as pd

        codes, distinct = pd.factorize(labels)
    except TypeError:
        wrong = [label for label in labels.tolist() if not _is_hashable(label)]
        if not wrong:
            raise
        raise TreeError(f"labels must be hashable, such as text, numbers or tuples, got {examples(wrong)}.") from None
    return codes.astype(np.int64), distinct


def _is_hashable(label: Label) -> bool:
    """Whether a label can be looked up; a tuple that holds a list cannot, although tuples in general can."""
    try:
        hash(label)
    except TypeError:
        return False
    return True


def take_or_missing(values: Any, at: np.ndarray) -> np.ndarray:
    """``values[at]`` as an array, with NaN (numbers) or None (everything else) where ``at`` is −1."""
    import pandas as pd

    array: np.ndarray = values if isinstance(values, np.ndarray) else np.asarray(pd.Series(values))
    if array.dtype == object and pd.api.types.infer_dtype(array) in (
        "integer",
        "floating",
        "mixed-integer-float",
        "boolean",
    ):
        array = np.asarray(pd.Series(array).infer_objects())
    if array.dtype.kind not in "iufb":
        array = _as_objects(array)
        array[pd.isna(array)] = None
    missing = at < 0
    if not missing.any():
        return np.asarray(array[at])
    taken = array[np.where(missing, 0, at)] if len(array) else np.full(len(at), None, object)
    taken = (
        taken.astype(float) if array.dtype.kind in "iu" else taken if array.dtype.kind == "f" else taken.astype(object)
    )
    taken[missing] = np.nan if taken.dtype.kind == "f" else None
    return taken


def as_frame(table: Any) -> Any:
    """A table of polars, pyarrow or whoever else has columns in Arrow's form, as pandas has it; anything else as it is."""
    if type(table).__module__.partition(".")[0] == "pandas" or not hasattr(table, "columns"):
        return table
    if not hasattr(table, "__arrow_c_stream__"):
        return table
    import pyarrow as pa

    return pa.table(table).to_pandas()
