"""The classical van der Put basis on Z/p^K (E-29)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vpunn._types import Numbers, OneOrMany
from vpunn.errors import CodeError
from vpunn.padic._numbers import as_integers, as_numbers, is_int
from vpunn.padic._primes import check_prime


def vdp_coefficients(values: Numbers, p: int) -> np.ndarray:
    """van der Put coefficients of f given by f(0), …, f(p^K − 1): a_0 = f(0), a_n = f(n) − f(n₋).

    n₋ is n without its leading digit. Works for integers, floats, Fractions, and any trailing shape. O(p^K).

    >>> vdp_coefficients([3, 4, 7, 9], 2)  # f(0), f(1)−f(0), f(2)−f(0), f(3)−f(1)
    array([3, 1, 4, 5])
    """
    f = _as_function(values, p)
    differences = f.copy()
    for low, high in _leading_blocks(len(f), p):
        differences[low:high] -= f[np.arange(low, high) % low]
    return differences


def vdp_evaluate(coefficients: Numbers, p: int) -> np.ndarray:
    """f(0), …, f(p^K − 1) from van der Put coefficients: f(x) = Σ_n a_n e_n(x), by f(n) = a_n + f(n₋). O(p^K).

    >>> vdp_evaluate(vdp_coefficients([3, 4, 7, 9], 2), 2)
    array([3, 4, 7, 9])
    """
    f = _as_function(coefficients, p).copy()
    for low, high in _leading_blocks(len(f), p):
        f[low:high] += f[np.arange(low, high) % low]
    return f


def _as_function(values: Numbers, p: int) -> np.ndarray:
    """One value per element of Z/p^K; integers become wide enough (int64, else Python's) to hold every difference."""
    p = check_prime(p)
    f = as_numbers(values, f"a function on Z/{p}^K is given by a sequence of numbers")
    if f.ndim == 0:
        raise CodeError(f"a function on Z/{p}^K is given by a sequence of numbers, got {values!r}.")
    if f.dtype.kind in "biu":
        wide = f.size and (int(f.max()) >= 2**62 or int(f.min()) <= -(2**62))
        f = f.astype(object if wide else np.int64)
    power = 1
    while power < len(f):
        power *= p
    if power != len(f):
        raise CodeError(f"a function on Z/{p}^K has {p}^K values (1, {p}, {p * p}, …), which {len(f)} is not.")
    return f


def _leading_blocks(count: int, p: int) -> Iterator[tuple[int, int]]:
    """(p^s, p^{s+1}) for every s: the numbers with leading digit at position s; for them n₋ = n mod p^s."""
    low = 1
    while low < count:
        yield low, low * p
        low *= p


def vdp_basis(n: int, x: Numbers, p: int) -> OneOrMany:
    """e_n(x): 1 if |x − n|_p < 1/n, else 0; e_0 = 1. For p^s ≤ n < p^{s+1} that is the ball B_{s+1}(n).

    >>> vdp_basis(2, range(8), 2)
    array([0, 0, 1, 0, 0, 0, 1, 0])
    """
    p = check_prime(p)
    if not is_int(n) or n < 0:
        raise CodeError(f"the van der Put basis is numbered 0, 1, 2, …; there is no e_n for n = {n!r}.")
    modulus = 1
    while modulus <= n:
        modulus *= p
    values, scalar = as_integers(x)
    inside = (values - n) % modulus == 0
    return int(inside) if scalar else inside.astype(np.int64)
