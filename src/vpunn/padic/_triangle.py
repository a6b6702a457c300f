"""Whether distances keep the strong triangle inequality."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vpunn._types import Table
from vpunn.errors import CodeError
from vpunn.padic._numbers import as_numbers, is_int


@dataclass(frozen=True, eq=False)
class UltrametricReport:
    """What `check_ultrametric` saw; ``triples`` has rows (x, y, z) with d(x, z) > max(d(x, y), d(y, z))."""

    checked: int
    violations: int
    triples: np.ndarray

    @property
    def ok(self) -> bool:
        """No violation among the triples looked at."""
        return self.violations == 0


def check_ultrametric(
    table: Table,
    *,
    valuations: bool = False,
    n: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    tolerance: float = 0,
    limit: int = 1000,
) -> UltrametricReport:
    """Count violations of the strong triangle inequality d(x, z) ≤ max(d(x, y), d(y, z)) and say where they are.

    ``table`` is a symmetric matrix of distances, or of valuations with ``valuations=True`` (ν(x,z) ≥ min(…) instead).
    All n(n−1)(n−2)/2 triples are looked at, O(n³) in whole-matrix steps; with ``sample``, that many random triples.
    For more points than a matrix can hold, ``table`` may be a function of two index arrays, such as ``tree.lca_depth``,
    with ``n`` and ``sample``. ``tolerance`` forgives rounding; at most ``limit`` violating triples are listed.

    >>> check_ultrametric([[0, 1, 9], [1, 0, 2], [9, 2, 0]])
    UltrametricReport(checked=3, violations=1, triples=array([[0, 1, 2]]))
    """
    if sample is not None and not (is_int(sample) and sample >= 0):
        raise CodeError(f"sample must be a number of triples, got {sample!r}.")
    sign = -1 if valuations else 1  # with d = −ν both inequalities are the same
    if callable(table):
        if not is_int(n) or sample is None:
            raise CodeError("check_ultrametric on a function needs n (how many points) and sample (how many triples).")
        return _check_sampled(lambda i, j: sign * np.asarray(table(i, j)), n, sample, seed, tolerance, limit)
    d = sign * _symmetric(table, tolerance)
    if sample is not None:
        return _check_sampled(lambda i, j: d[i, j], len(d), sample, seed, tolerance, limit)
    count, kept = 0, []
    above = np.triu(np.ones(d.shape, bool), 1)
    for y in range(len(d)):
        wrong = (d > np.maximum(d[:, y, None], d[None, y, :]) + tolerance) & above
        wrong[y] = wrong[:, y] = False
        found = np.argwhere(wrong)
        if len(found) and count < limit:
            kept.append(np.insert(found[: limit - count], 1, y, axis=1))
        count += len(found)
    size = len(d)
    return UltrametricReport(size * (size - 1) * (size - 2) // 2, count, _stacked(kept))


def _symmetric(table: Table, tolerance: float) -> np.ndarray:
    """The table as a signed square matrix, after checking that it is symmetric off the diagonal and has no NaN."""
    d = as_numbers(table, "check_ultrametric needs a square matrix of numbers")
    if d.ndim != 2 or d.shape[0] != d.shape[1]:
        raise CodeError(f"check_ultrametric needs a square matrix, got shape {d.shape}.")
    if d.dtype.kind in "bu":
        d = d.astype(np.int64)
    with np.errstate(invalid="ignore"):  # ∞ − ∞; equal infinities are accepted by the first test
        crooked = (d != d.T) & ~np.asarray(abs(d - d.T) <= tolerance, bool)
    np.fill_diagonal(crooked, False)
    if crooked.any():
        i, j = (int(k) for k in np.argwhere(crooked)[0])
        raise CodeError(f"the matrix is not symmetric: entry ({i}, {j}) is {d[i, j]}, entry ({j}, {i}) is {d[j, i]}.")
    return d


def _check_sampled(
    d: Callable[[np.ndarray, np.ndarray], np.ndarray], n: int, sample: int, seed: int, tolerance: float, limit: int
) -> UltrametricReport:
    """Random triples of distinct points: draw from n, n−1 and n−2 values and step over those already taken."""
    if n < 3:
        return UltrametricReport(0, 0, _stacked([]))
    rng = np.random.default_rng(seed)
    x, y, z = (rng.integers(0, n - taken, sample) for taken in range(3))
    y += y >= x
    low, high = np.minimum(x, y), np.maximum(x, y)
    z += z >= low
    z += z >= high
    wrong = np.flatnonzero(d(x, z) > np.maximum(d(x, y), d(y, z)) + tolerance)
    return UltrametricReport(sample, len(wrong), np.stack([x, y, z], axis=1)[wrong[:limit]])


def _stacked(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.empty((0, 3), np.int64)
