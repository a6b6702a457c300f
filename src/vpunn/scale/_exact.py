"""`ExactSums`: many sums of doubles that are exact, so that their order and grouping cannot matter."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from vpunn._rows import slices
from vpunn.errors import VpunnError

Array = npt.NDArray[Any]

#: So many additions fit into the spare bits of a limb before carries must be settled.
MOST = 1 << 29
#: Limbs (below and above the binary point) that hold any sum of products of three doubles.
_LOWEST, _HIGHEST = -102, 99


class ExactSums:
    """``n`` sums of doubles (or of products of doubles), each a whole number of 32-bit limbs: exact over the whole range.

    The window of limbs is as wide as the numbers need, the same for all sums of one object: four limbs for ordinary
    measurements, one for whole numbers below 2³¹, 134 for the largest and smallest doubles together. Equal sums have equal
    arrays, however they were added up.

    >>> one = ExactSums(2)
    >>> one.add(np.array([0, 0, 0, 1]), np.array([1e300, 1.0, -1e300, 0.1]))
    >>> one.round()
    array([1. , 0.1])
    """

    def __init__(self, n: int, low: int = 0, limbs: Array | None = None) -> None:
        """``limbs`` (n × width) must be normalised, the last one signed."""
        self.low = low
        self._limbs = np.zeros((n, 1), np.int64) if limbs is None else limbs
        self._added = 0

    def __len__(self) -> int:
        return len(self._limbs)

    def add(self, at: Array, values: Array, weights: Array | None = None) -> None:
        """Add weight·value of every row to the sum ``at`` it belongs to. O(rows). Values must be finite, weights ≥ 0."""
        from vpunn.scale import _kernels as kernels

        bits = np.ascontiguousarray(values, np.float64).view(np.int64)
        weigh = np.empty(0, np.int64)
        if weights is not None:
            weigh = np.ascontiguousarray(weights, np.float64).view(np.int64)
        for part in slices(len(bits), MOST):
            lowest, highest = kernels.span(bits[part], weigh[part])
            self._make_room(lowest // 32, (highest + 30) // 32 + 1)
            if self._added + len(bits[part]) > MOST:
                self._settle()
                self._make_room(lowest // 32, (highest + 30) // 32 + 1)
            self._added += len(bits[part])
            kernels.add_rows(self._limbs, self.low, at[part], bits[part], weigh[part])

    def _make_room(self, low: int, top: int) -> None:
        """Widen the window to limbs ``low`` … ``top`` and two above what is there (an addition touches three)."""
        have = self.low + self._limbs.shape[1]
        new_low, end = min(low, self.low), max(top + 3, have if self._added else have + 1)
        if new_low == self.low and end == have:
            return
        wide = np.zeros((len(self._limbs), end - new_low), np.int64)
        wide[:, self.low - new_low : have - new_low] = self._limbs
        self.low, self._limbs = new_low, wide

    def _settle(self) -> None:
        """Carry, and cut the window to what is needed: the one form that a sum has."""
        if not self._added:
            return
        from vpunn.scale import _kernels as kernels

        first, last = kernels.normalise(self._limbs)
        self._added = 0
        if first > last:
            self.low, self._limbs = 0, np.zeros((len(self._limbs), 1), np.int64)
            return
        kept = self._limbs[:, first : last + 1].copy()
        kept[:, -1] = ((kept[:, -1] + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
        self.low, self._limbs = self.low + first, kept

    @property
    def limbs(self) -> Array:
        """(n × width) limbs in their one form; limb k counts 2^(32(low + k))."""
        self._settle()
        return self._limbs

    def __add__(self, other: ExactSums) -> ExactSums:
        """The sums of both. O(n)."""
        mine, theirs = self.limbs, other.limbs
        low = min(self.low, other.low)
        end = max(self.low + mine.shape[1], other.low + theirs.shape[1]) + 1
        wide = np.zeros((len(mine), end - low), np.int64)
        wide[:, self.low - low : self.low - low + mine.shape[1]] = mine
        wide[:, other.low - low : other.low - low + theirs.shape[1]] += theirs
        both = ExactSums(len(mine), low, wide)
        both._added = 1
        both._settle()
        return both

    def __iadd__(self, other: ExactSums) -> ExactSums:
        """Add another's sums in place: no second array where the window is wide enough already."""
        theirs = other.limbs
        self._make_room(other.low, other.low + theirs.shape[1])
        at = other.low - self.low
        self._limbs[:, at : at + theirs.shape[1]] += theirs
        self._added += 1
        if self._added >= MOST:
            self._settle()
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExactSums):
            return NotImplemented
        return np.array_equal(self.limbs, other.limbs) and self.low == other.low

    __hash__ = None  # type: ignore[assignment]

    def pairs(self) -> tuple[Array, Array]:
        """Every sum as hi + lo, two doubles good to 30 digits; ±inf where the sum exceeds the doubles."""
        from vpunn.scale import _kernels as kernels

        limbs = self.limbs
        hi, lo = kernels.round_pairs(limbs, self.low)
        return hi, lo

    def round(self) -> Array:
        """Every sum as the nearest double (either neighbour where it lies half-way to thirty digits)."""
        return self.pairs()[0]

    def exact(self, at: int) -> Fraction:
        """One sum as it is."""
        limbs = self.limbs[at].tolist()
        whole = sum(limb << (32 * k) for k, limb in enumerate(limbs))
        return Fraction(whole) * Fraction(2) ** (32 * self.low)

    @classmethod
    def of_integers(cls, values: Sequence[int], at: Array, n: int) -> ExactSums:
        """Sums of Python's whole numbers of any size."""
        found = cls(n)
        digits = np.asarray(values, object)
        shift = 0
        while len(digits):  # 30 bits at a time, lowest first; the sign travels with the rest
            found.add(at, np.ldexp((digits & 0x3FFFFFFF).astype(float), shift))
            digits, shift = digits >> 30, shift + 30
            ended = (digits == 0) | (digits == -1)
            if ended.all():
                found.add(at, np.where(digits == -1, -np.ldexp(1.0, shift), 0.0))
                break
        return found


def exact_products(a: Array, b: Array, weights: Array | None = None) -> Fraction:
    """Σ w·a·b over all rows, exactly. O(rows)."""
    from vpunn.scale import _kernels as kernels

    limbs = np.zeros((1, _HIGHEST - _LOWEST + 4), np.int64)
    columns = [np.ascontiguousarray(v, np.float64).view(np.int64) for v in (a, b)]
    weigh = np.empty(0, np.int64)
    if weights is not None:
        weigh = np.ascontiguousarray(weights, np.float64).view(np.int64)
    for part in slices(len(a), MOST // 16):
        kernels.add_products(limbs[0], _LOWEST, columns[0][part], columns[1][part], weigh[part])
        kernels.normalise(limbs)
    return ExactSums(1, _LOWEST, limbs).exact(0)


def times_ten(sums: ExactSums, places: int) -> ExactSums:
    """Sums of whole numbers times 10^places."""
    if places == 0:
        return sums
    whole = [sums.exact(i) * 10**places for i in range(len(sums))]
    odd = [value for value in whole if value.denominator != 1]
    if odd:
        raise VpunnError("sums of decimals can only be added to sums of decimals or whole numbers, not of floats.")
    return ExactSums.of_integers([value.numerator for value in whole], np.arange(len(sums)), len(sums))
