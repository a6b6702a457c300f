"""Compiled loops: how numba is asked for them in this room."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from vpunn._compiled import forget_older

_SOURCES = tuple(sorted(Path(__file__).parent.glob("*.py")))
#: Divisions give inf or nan as in NumPy. Arrays are made by the caller, so nobody counts references to them.
_OPTIONS = {"nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy", "_nrt": False}
#: A place in an array, never below 0: of a signed number numba asks at every access whether it counts from the end.
at = np.uint64
#: What only kernels call.
helper = njit(no_cpython_wrapper=True, **_OPTIONS)


def kernel(loop: Callable[..., Any]) -> Any:
    """What Python calls; kept on disk between runs, and compiled again when any file of this room has changed."""
    made = njit(cache=True, **_OPTIONS)(loop)
    forget_older(made, _SOURCES)
    return made
