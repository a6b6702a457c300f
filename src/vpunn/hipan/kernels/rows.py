"""Compiled loop that scales rows to unit length."""

from __future__ import annotations

import numpy as np

from vpunn.hipan.kernels import kernel


def unit_values(indptr, data) -> np.ndarray:
    """Values of sparse rows, each row divided by its length; a row of zeros stays one."""
    out = np.empty(len(data), np.float32)
    _unit_values(indptr, data.astype(np.float64, copy=False), out)
    return out


@kernel
def _unit_values(indptr, data, out):
    for r in range(len(indptr) - 1):
        largest, square = 0.0, 0.0
        for a in range(indptr[r], indptr[r + 1]):
            largest = max(largest, abs(data[a]))
        if largest > 0:
            for a in range(
                indptr[r], indptr[r + 1]
            ):  # by the largest first, so that squares neither overflow nor vanish
                square += (data[a] / largest) * (data[a] / largest)
        length = np.sqrt(square)
        for a in range(indptr[r], indptr[r + 1]):
            out[a] = data[a] / largest / length if length > 0 else 0.0
