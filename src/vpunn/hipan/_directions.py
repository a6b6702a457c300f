"""Directions whose products are exact: what dense experts compare rows, items and balls by."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

#: Compiled loops take so many numbers of a direction at a time.
VECTOR = 32


def exactly(directions: npt.NDArray[Any]) -> Floats:
    """Rows of length one as multiples of 2⁻¹², a little shorter so that rounding does not make them longer than one.

    Products of two such rows, and all their partial sums, are multiples of 2⁻²⁴ of at most one: every sum is exact in 32 bits, so
    a product has the same bits in any order, alone or in a batch, whatever library multiplies with however many threads.
    """
    room = 1.0 - np.sqrt(directions.shape[1]) * 2.0**-13
    return np.asarray(np.rint(np.asarray(directions, np.float64) * (4096 * room)) / 4096, np.float32)


def directed(vectors: npt.NDArray[Any]) -> tuple[Floats, Floats]:
    """Rows of `exactly` that point where those of ``vectors`` do, and the lengths."""
    length = np.sqrt((np.asarray(vectors, np.float64) ** 2).sum(1))
    return exactly(vectors / np.where(length > 0, length, 1.0)[:, None]), length.astype(np.float32)


def is_exact(directions: Floats) -> bool:
    """Whether rows are as `exactly` makes them: multiples of 2⁻¹², no longer than one."""
    return bool(((directions * 4096) % 1 == 0).all() and ((directions.astype(np.float64) ** 2).sum(1) <= 1.0).all())


def padded_width(width: int) -> int:
    """Columns of `padded`."""
    return -(-width // VECTOR) * VECTOR


def padded(directions: Floats) -> Floats:
    """The same with zeros behind, to a multiple of `VECTOR` columns; products stay what they are."""
    rows, width = directions.shape
    out = np.zeros((rows, padded_width(width)), np.float32)
    out[:, :width] = directions
    return out
