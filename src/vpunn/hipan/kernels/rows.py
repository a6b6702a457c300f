"""Compiled loops that scale rows to unit length, and round numbers."""

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


def round_to_half(values, out) -> None:
    """Write 32-bit numbers as half-precision ones hold them; those beyond their range become the largest."""
    _round_to_half(values, values.view(np.uint32), out, out.view(np.uint32))


@kernel
def _round_to_half(values, bits, out, out_bits):
    """Each number is read and written as what it is or as its bits."""
    largest, ordinary, unit = np.float32(65504), np.float32(2.0**-14), np.float32(0.75)
    for i in range(len(values)):
        x, size = values[i], abs(values[i])
        if size == 0:
            out[i] = x
        elif size < ordinary:  # multiples of 2⁻²⁴, as numbers from ½ to 1 are
            out[i] = np.copysign(x + unit - unit, x)
        elif size > largest:
            out[i] = np.copysign(largest, x)
        else:
            out_bits[i] = (bits[i] + 0xFFF + ((bits[i] >> 13) & 1)) & 0xFFFFE000
