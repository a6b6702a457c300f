"""Valuation, norm, distance and balls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from vpunn._types import Numbers, OneOrMany
from vpunn.errors import CodeError, examples
from vpunn.padic._numbers import as_integers, check_base, check_integer, check_level, is_int
from vpunn.padic._primes import check_prime


def valuation(x: Numbers, p: int) -> OneOrMany:
    """ν_p(x): how often p divides x; of 0 it is ``math.inf``. Takes integers and fractions.

    One number gives an int (or ``math.inf``), an array gives float64, because only floats hold infinity; valuations are
    small whole numbers, so nothing is lost.

    >>> valuation(50, 5), valuation(0, 5)
    (2, inf)
    >>> valuation([7, 10, 0], 5)
    array([ 0.,  1., inf])
    """
    p = check_prime(p)
    if isinstance(x, Fraction):
        return valuation(x.numerator, p) - valuation(x.denominator, p) if x else math.inf
    values, scalar = as_integers(x)
    found = np.frompyfunc(lambda one: _valuation(one, p), 1, 1)(values)
    return found if scalar else found.astype(np.float64)


def _valuation(x: int, p: int) -> int | float:
    """Repeated squaring: O(log ν) divisions, so a large power of p does not cost one division per factor."""
    if x == 0:
        return math.inf
    powers = [p]
    while x % powers[-1] == 0:
        powers.append(powers[-1] ** 2)
    count = 0
    for j in reversed(range(len(powers) - 1)):
        quotient, remainder = divmod(x, powers[j])
        if remainder == 0:
            x, count = quotient, count + 2**j
    return count


def norm(x: Numbers, p: int) -> OneOrMany:
    """|x|_p = p^{-ν(x)} as an exact Fraction, 0 for 0; an array gives an object array.

    >>> norm(50, 5), norm(Fraction(1, 100), 5), norm(0, 5)
    (Fraction(1, 25), Fraction(25, 1), Fraction(0, 1))
    """
    p = check_prime(p)

    def one(v: float) -> Fraction:
        return Fraction(0) if v == math.inf else Fraction(p) ** -int(v)

    exponent = valuation(x, p)
    return np.frompyfunc(one, 1, 1)(exponent) if isinstance(exponent, np.ndarray) else one(exponent)


def distance(x: Numbers, y: Numbers, p: int) -> OneOrMany:
    """|x − y|_p, exactly; arrays broadcast.

    >>> [str(distance(x, y, 2)) for x, y in ((0, 4), (0, 6), (4, 6))]  # the toy example put right (E-03)
    ['1/4', '1/2', '1/2']
    """
    if isinstance(x, Fraction) or isinstance(y, Fraction):
        wrong = [one for one in (x, y) if not isinstance(one, Fraction) and not is_int(one)]
        if wrong:
            raise CodeError(f"a Fraction has a distance to one integer or Fraction, got {examples(wrong)}.")
        return norm(x - y, p)
    a, b = as_integers(x)[0], as_integers(y)[0]
    try:
        difference = a - b
    except ValueError:
        raise CodeError(
            f"numbers of shapes {a.shape} and {b.shape} do not pair up; give equal shapes, or one and many."
        ) from None
    return norm(difference, p)


def prefix(x: Numbers, k: int, p: int) -> OneOrMany:
    """The first k digits as a number: x mod p^k, also for negative x. Two numbers share a ball B_k iff these agree.

    >>> prefix(57, 2, 5), prefix(-1, 2, 5)
    (7, 24)
    """
    values, scalar = as_integers(x)
    rest = values % check_base(p) ** check_level(k)
    return rest if not scalar else int(rest)


@dataclass(frozen=True)
class Ball:
    """B_k(a) = {x : x ≡ a mod p^k}, radius p^{-k}: a residue class. Two balls are nested or disjoint, never crossing.

    >>> ball = Ball(57, 2, 5)
    >>> ball, ball.radius, 7 in ball, 8 in ball
    (Ball(center=7, k=2, p=5), Fraction(1, 25), True, False)
    >>> ball <= Ball(2, 1, 5), ball.isdisjoint(Ball(1, 1, 5)), [b.center for b in ball.children()]
    (True, True, [7, 32, 57, 82, 107])
    """

    center: int
    k: int
    p: int

    def __post_init__(self) -> None:
        check_prime(self.p)
        check_level(self.k)
        check_integer(self.center)
        # Every point of a ball is its centre; keep the smallest, so that equal balls compare and hash equal.
        object.__setattr__(self, "center", prefix(self.center, self.k, self.p))

    @property
    def radius(self) -> Fraction:
        """p^{-k}."""
        return Fraction(1, self.p**self.k)

    def __contains__(self, x: object) -> bool:
        return is_int(x) and (x - self.center) % self.p**self.k == 0

    def __le__(self, other: Ball) -> bool:
        """Is this ball inside the other (or the same)?"""
        self._check_same_prime(other)
        return self.k >= other.k and self.center in other

    def __lt__(self, other: Ball) -> bool:
        return self <= other and self != other

    def __ge__(self, other: Ball) -> bool:
        self._check_same_prime(other)
        return other <= self

    def __gt__(self, other: Ball) -> bool:
        return self >= other and self != other

    def isdisjoint(self, other: Ball) -> bool:
        """Whether the balls share no point, which is the case unless one is inside the other."""
        return not (self <= other or other <= self)

    def children(self) -> list[Ball]:
        """The p balls of the next smaller radius that make up this one, by next digit."""
        return [Ball(self.center + digit * self.p**self.k, self.k + 1, self.p) for digit in range(self.p)]

    def _check_same_prime(self, other: Any) -> None:
        if not isinstance(other, Ball):
            raise CodeError(
                f"a ball can be compared with another ball, got {other!r}; 'x in ball' asks about a number."
            )
        if self.p != other.p:
            raise CodeError(f"balls of different primes, {self.p} and {other.p}, cannot be compared.")
