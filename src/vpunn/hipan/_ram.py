"""Less of the machine's memory at once: sums over slices of a table, and freed memory given back."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

#: Rows of a table that are worked on at once.
ROWS_AT_ONCE = 1024


def centre_and_scale(
    parts: Callable[[], Iterable[npt.NDArray[np.float32]]],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Mean and standard deviation of every column of a table that comes in ``parts``, each time it is asked for, as NumPy finds
    them in 64 bits, without a copy of the table in 64 bits."""
    rows = sum(map(len, parts()))
    centre = _total(parts(), lambda some: some) / rows
    return centre, np.sqrt(_total(parts(), lambda some: np.square(some - centre)) / rows)


def _total(
    parts: Iterable[npt.NDArray[Any]], of: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
) -> npt.NDArray[np.float64]:
    total = None
    for part in parts:
        before = np.zeros((1, part.shape[1])) if total is None else total
        total = np.concatenate([before, of(part)]).sum(0, keepdims=True)  # row by row, as all of them would be
    assert total is not None
    return np.asarray(total[0])


def give_back() -> None:
    """Give freed memory back to the system: the C library may keep it, in the hope of being asked for more."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    """glibc's ``malloc_trim``; other libraries give back by themselves."""
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return found
