"""Compiled loops of the classifier, one module a stage; imported on first use. Slow twins live in the tests.

Compiling them once is what a first ``fit`` waits for, and numba's time goes by functions and specialisations more than by lines.
So arrays are made outside (every way to make, sort or slice one is a function to compile), a helper gets arguments of one type
wherever it is called (a constant such as ``True`` is a type of its own), and only what Python calls gets an entry from Python and
a place in the cache. A loop that pays only on large data is left to large data (`_nearest.PRUNING`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from vpunn._compiled import forget_older

#: What kernels are made of: these modules, which share helpers, and those with the tuples that kernels get.
_HERE = Path(__file__).parent
_SOURCES = (*sorted(_HERE.glob("*.py")), _HERE.parent / "_arrays.py", _HERE.parent / "_rest.py")

#: Divisions give inf or nan as in NumPy: a test for zero at each of them would be code to compile. Arrays belong to the caller and
#: none are made, so nobody counts references to them: that would be a fifth of what there is to compile.
_OPTIONS = {"nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy", "_nrt": False}
#: A place in an array, at least 0. Of a signed number numba asks at every access whether it counts from the end, which in loops
#: over places that were read from an array takes a third of the time. (A sum of this and a signed number is no place.)
at = np.uint64
#: What only kernels call; their compiled code is kept inside of the kernels'.
helper = njit(no_cpython_wrapper=True, **_OPTIONS)
#: A helper whose sums of exact numbers (`exactly` in `_directions`) may be made in any order, and products added without rounding.
exact_helper = njit(no_cpython_wrapper=True, fastmath={"reassoc", "contract"}, **_OPTIONS)


def kernel(loop: Callable[..., Any]) -> Any:
    """What Python calls."""
    made = njit(cache=True, **_OPTIONS)(loop)
    forget_older(made, _SOURCES)
    return made
