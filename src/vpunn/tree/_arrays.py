"""Arrays that come in: node ids as the kernels read them, values of one per node, and what must not be written to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vpunn.errors import TreeError, examples

IntArray = np.ndarray


def frozen(array: np.ndarray) -> np.ndarray:
    """A view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def as_ids(nodes: Any) -> IntArray:
    """Integer array of ids, unchecked (the kernels check ranges as they read)."""
    ids = np.asarray(nodes)
    if ids.dtype.kind not in "iu":
        if ids.size:
            raise TreeError(f"node ids must be integers, got {examples(ids.ravel())}; tree.index(labels) finds them.")
        ids = ids.astype(np.int64)
    return machine_ids(ids)


def machine_ids(ids: np.ndarray) -> IntArray:
    """Integers as the kernels know them; also signed, because differences of unsigned ids wrap around."""
    return ids if ids.dtype in (np.int32, np.int64) else ids.astype(np.int64)


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


def node_column(name: str, values: Any, n: int) -> np.ndarray:
    """A column of one value per node."""
    array = np.asarray(values)
    if array.shape[:1] != (n,):
        got = f"{len(array):,}" if array.ndim else repr(values)
        raise TreeError(f"column {name!r} needs one value per node: got {got} for {n:,} nodes.")
    return array
