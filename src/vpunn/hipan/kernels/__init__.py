"""Compiled loops of the classifier, one module a stage; imported on first use. Slow twins live in the tests.

Compiling them once is what a first ``fit`` waits for, and numba's time goes by functions and specialisations more than by lines.
So arrays are made outside (every way to make, sort or slice one is a function to compile), a helper gets arguments of one type
wherever it is called, and only what Python calls gets an entry from Python and a place in the cache.
"""

from numba import njit

#: What Python calls. Divisions give inf or nan as in NumPy: a test for zero at each of them would be code to compile.
kernel = njit(cache=True, nogil=True, no_cfunc_wrapper=True, error_model="numpy")
#: What only kernels call; their compiled code is kept inside of the kernels'.
helper = njit(nogil=True, no_cfunc_wrapper=True, no_cpython_wrapper=True, error_model="numpy")
