"""Primes, the prime of a tree, and the counts that depend on it."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from vpunn.errors import CodeError
from vpunn.padic._numbers import MAX_PRIME, check_integer, is_int, show_integer


def is_prime(n: int) -> bool:
    """Whether n is a prime; trial division, exact for n < 2³¹."""
    n = check_integer(n)
    if n > MAX_PRIME:
        raise CodeError(f"primes up to 2**31 are supported, got {show_integer(n)}.")
    return _is_prime(n)


@lru_cache(maxsize=1024)
def _is_prime(n: int) -> bool:
    if n < 4:
        return n >= 2
    return n % 2 == 1 and all(n % q for q in range(3, math.isqrt(n) + 1, 2))


def next_prime(n: int) -> int:
    """Smallest prime ≥ n (not strictly greater: the audit's E-04).

    >>> [next_prime(b + 1) for b in (1, 2, 280, 329, 408)]
    [2, 3, 281, 331, 409]
    """
    n = max(2, check_integer(n))
    while not is_prime(n):
        n += 1
    return n


def code_prime(branching: int) -> int:
    """The prime of the codes of a tree: the smallest p ≥ b + 1 for at most b children, so that digits 1…b and 0 fit.

    >>> [code_prime(b) for b in (1, 2, 280, 329, 408)]
    [2, 3, 281, 331, 409]
    """
    return next_prime(check_integer(branching) + 1)


def check_prime(p: Any) -> int:
    """p as a Python int, or an error that names the next prime."""
    if not is_int(p):
        raise CodeError(f"p must be a prime number, got {p!r}.")
    if p < 2 or not is_prime(int(p)):
        raise CodeError(f"p must be a prime number, got {p}; the next prime is {next_prime(p)}.")
    return int(p)
