"""Less of the machine's memory at once: sums over slices of a table, and memory given back, the compiler's code with it."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

#: Rows of a table that are worked on at once.
ROWS_AT_ONCE = 1024
#: Linux's ``MADV_DONTNEED``.
DONTNEED = 4


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
    """Give memory back to the system: what was freed, which the C library may keep in the hope of being asked for more, and the
    pages of the compiler's code."""
    trim, advise = _c_function("malloc_trim"), _c_function("madvise")
    if trim is not None:
        trim(0)
    if advise is not None and hasattr(sys.modules.get("numba"), "njit"):  # loaded, to its end
        for start, size in _compiler_code():
            advise(ctypes.c_void_p(start), ctypes.c_size_t(size), DONTNEED)


@cache
def _c_function(name: str) -> Any:
    """A function of the C library, None where it has none: ``malloc_trim`` is glibc's, others give back by themselves."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None


@cache
def _compiler_code() -> list[tuple[int, int]]:
    """Where LLVM's code and constants stand, on Linux: start and size of what was mapped from its file and is never written.

    Loops from numba's cache need little of it, but Linux maps what lies around every page that is read, 60 MB in all. To let go of
    such pages loses nothing: they stay in the system's cache and are mapped again when they are read. Those that the loader has
    written addresses into, which are anonymous since then, must stay.
    """
    found: list[tuple[int, int]] = []
    if not sys.platform.startswith("linux"):
        return found
    try:
        lines = Path("/proc/self/smaps").read_bytes().decode(errors="replace").split("\n")  # files may have any name
    except OSError:
        return found
    start = stop = 0
    for line in filter(None, lines):
        words = line.split()
        if not words[0].endswith(":"):  # a mapping begins: addresses, rights, offset, device, inode, file
            start, stop = (int(end, 16) for end in words[0].split("-"))
            is_code = ("libllvmlite" in line or "libLLVM" in line) and "w" not in words[1]
        elif is_code and words[:2] == ["Anonymous:", "0"]:
            found.append((start, stop - start))
    return found
