"""Where the numbers of a v-PuNN live: reals, integers, exact rationals, or Q_p at a fixed precision.

A network only adds and subtracts, so any of the four will do. Three of them are exact; floats round.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np

from vpunn.errors import VpunnError, check_choice, examples
from vpunn.padic import check_prime, valuation

Kind = Literal["real", "integer", "rational", "padic"]

#: Integers up to this size are kept in int64: differences and sums of two still fit.
_SMALL = 2**61
#: Residues below this are kept in int64: a chain of 2³¹ of them cannot overflow.
_SMALL_MODULUS = 2**32

_numerator = np.frompyfunc(lambda x: x.numerator, 1, 1)
_denominator = np.frompyfunc(lambda x: x.denominator, 1, 1)
_fraction = np.frompyfunc(Fraction, 1, 1)
_integer = np.frompyfunc(int, 1, 1)


@dataclass(frozen=True)
class Ring:
    """A number system; `store` reads user numbers in, `show` writes them out, `reduce` folds sums back.

    ``padic`` keeps x as the integer x·p^shift mod p^(precision + shift), so every number is known to absolute precision
    p^−precision; ``shift`` grows when data has p in its denominators.

    >>> ring, stored = Ring("padic", p=5, precision=3).store([Fraction(1, 3), 7])
    >>> stored * 3 % 125
    array([ 1, 21])
    """

    kind: Kind = "real"
    p: int = 2
    precision: int = 20
    shift: int = 0

    def __post_init__(self) -> None:
        check_choice("values", self.kind, get_args(Kind))
        if self.kind == "padic":
            check_prime(self.p)
            if not isinstance(self.precision, int | np.integer) or self.precision < 1:
                raise VpunnError(
                    f"precision={self.precision!r} must be a whole number ≥ 1: numbers are kept modulo p**precision."
                )

    @property
    def modulus(self) -> int:
        """p^(precision + shift): stored residues lie below it."""
        return int(self.p ** (self.precision + self.shift))

    def store(self, values: Any) -> tuple[Ring, np.ndarray]:
        """User numbers as an array of this ring, and the ring that fits them (``shift`` may have grown)."""
        try:
            array = np.asarray(values)
        except ValueError as error:
            raise VpunnError(
                "values must form a regular array, one row per item; these rows differ in length."
            ) from error
        if self.kind == "real":
            return self, _as_floats(array)
        if self.kind == "integer":
            return self, _as_integers(array)
        if self.kind == "padic" and array.dtype.kind in "bi" and not self.shift:  # integers are residues already
            return self, self.reduce(array.astype(np.int64))
        exact = _as_fractions(array)
        return (self, exact) if self.kind == "rational" else self._store_padic(exact)

    def _store_padic(self, exact: np.ndarray) -> tuple[Ring, np.ndarray]:
        lowest = int(valuations(exact, self.p).min(initial=0.0))
        ring = replace(self, shift=max(self.shift, -lowest))
        modulus = ring.modulus
        scaled = exact * self.p**ring.shift
        inverse = np.frompyfunc(lambda d: pow(int(d), -1, modulus), 1, 1)
        residues = _numerator(scaled) * inverse(_denominator(scaled)) % modulus
        return ring, ring.reduce(residues)

    def reduce(self, array: np.ndarray) -> np.ndarray:
        """Fold sums and differences back into the ring."""
        if self.kind != "padic":
            return array
        if self.modulus < _SMALL_MODULUS:
            return (array % self.modulus).astype(np.int64)
        return array.astype(object) % self.modulus

    def show(self, array: np.ndarray) -> np.ndarray:
        """Stored numbers as the user knows them; shifted p-adics come back as Fractions with denominator p^shift."""
        if self.kind == "padic" and self.shift:
            return np.asarray(_fraction(array.astype(object)) / self.p**self.shift)
        return array

    @property
    def zero(self) -> int | Fraction:
        """Zero as a Python number, which any array of this ring takes (a NumPy zero would not add to big integers)."""
        return Fraction(0) if self.kind == "rational" else 0

    def zeros(self, shape: tuple[int, ...]) -> np.ndarray:
        """An array of zeros of this ring."""
        small = self.kind == "integer" or (self.kind == "padic" and self.modulus < _SMALL_MODULUS)
        return np.full(shape, self.zero, float if self.kind == "real" else np.int64 if small else object)


def valuations(array: np.ndarray, p: int) -> np.ndarray:
    """ν_p of integers or Fractions, elementwise, as floats; ∞ for zero.

    >>> valuations(np.array([1, 18, 0, Fraction(2, 9)], dtype=object), 3)
    array([ 0.,  2., inf, -2.])
    """
    if array.dtype != object:
        return np.asarray(valuation(array, p))
    return np.asarray(valuation(_numerator(array), p) - valuation(_denominator(array), p))


def _as_floats(array: np.ndarray) -> np.ndarray:
    try:
        if array.dtype.kind == "c":
            raise TypeError("complex numbers are not real")
        floats = array.astype(float)
    except OverflowError:
        raise VpunnError(
            f"real values lie below 1.8e308, got a whole number of {_digits_of(array)} digits; use values='integer'."
        ) from None
    except (TypeError, ValueError) as error:
        raise VpunnError(f"real values must be numbers, got {examples(array.ravel())}.") from error
    if not np.isfinite(floats).all():
        bad = floats[~np.isfinite(floats)]
        raise VpunnError(f"values must be finite, got {examples(bad)}.")
    return floats


def _digits_of(array: np.ndarray) -> str:
    """About how many decimal digits the largest whole number has; printing it may be refused by Python itself."""
    most = max((abs(x).bit_length() for x in array.ravel().tolist() if isinstance(x, int)), default=0)
    return f"{int(most * 0.30103) + 1:,}"


def _as_integers(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "bi":
        big = array.size and (int(array.min()) < -_SMALL or int(array.max()) > _SMALL)
        return array.astype(object) if big else array.astype(np.int64)
    exact = _as_fractions(array)
    broken = (_denominator(exact) != 1).astype(bool)
    if broken.any():
        raise VpunnError(f"{examples(array[broken])} are not integers; use values='rational' or 'real'.")
    whole = _numerator(exact)
    if all(-_SMALL <= x <= _SMALL for x in whole.ravel()):
        return np.asarray(whole.astype(np.int64))
    return np.asarray(whole)


def _as_fractions(array: np.ndarray) -> np.ndarray:
    """Exact Fractions; a float is taken at its exact binary value, text such as '1/3' is read."""
    try:
        if array.dtype.kind in "biu":
            return _fraction(_integer(array)) if array.ndim else np.asarray(_fraction(int(array)), dtype=object)
        return np.asarray(_fraction(array), dtype=object)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise VpunnError(f"exact values must be finite numbers, got {examples(array.ravel())}.") from error
