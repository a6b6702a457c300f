"""Numbers to digits and back, in one base or in several."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vpunn._types import Numbers, OneOrMany
from vpunn.errors import CodeError
from vpunn.padic._numbers import as_integers, check_base, check_level, refuse


def to_digits(x: Numbers, p: int, K: int | None = None) -> OneOrMany:
    """Base-p digits, lowest first: x = Σ_k a_k p^k. One integer gives a tuple, n integers an (n, K) int32 array.

    Without ``K`` the largest x decides how many digits there are (0 has none). With ``K``, numbers outside
    0 … p^K − 1 are an error; reduce them with `prefix` first if you mean their residues.

    >>> to_digits(11, 5), to_digits(11, 5, K=4)
    ((1, 2), (1, 2, 0, 0))
    >>> to_digits([0, 11, 3], 5)
    array([[0, 0],
           [1, 2],
           [3, 0]], dtype=int32)
    """
    base = check_base(p)
    values, scalar = as_integers(x)
    flat = values.reshape(-1)
    refuse(flat < 0, flat, "negative numbers have no finite expansion, got {}; prefix(x, K, p) gives their residues.")
    if K is None:
        longest = max(map(int.bit_length, flat.tolist()), default=0)
        count = -(-longest // (base.bit_length() - 1))
    else:
        count = check_level(K)
    digits, rest = to_radix(flat, np.full(count, base, np.int64))
    if K is None:
        used = np.flatnonzero(digits.any(axis=0))
        digits = digits[:, : used[-1] + 1 if len(used) else 0]
    else:
        refuse(rest != 0, flat, "{} needs more than " + f"K = {K} digits in base {p}.")
    if scalar:
        return tuple(digits[0].tolist())
    return np.ascontiguousarray(digits).reshape(*values.shape, digits.shape[1])


def from_digits(digits: Numbers, p: int) -> OneOrMany:
    """The inverse of `to_digits`: digits along the last axis; one row gives an int, more an object array of ints.

    >>> from_digits([1, 2], 5)
    11
    >>> from_digits([[0, 0], [1, 2]], 5)
    array([0, 11], dtype=object)
    """
    table, _ = as_integers(digits)
    if table.ndim == 0:
        raise CodeError(f"digits must be a sequence or rows of digits, got the single number {digits!r}.")
    K = table.shape[-1]
    rows = table.reshape(math.prod(table.shape[:-1]), K)
    values = from_radix(rows, np.full(K, check_base(p), np.int64))
    return values[0] if table.ndim == 1 else values.reshape(table.shape[:-1])


def to_radix(values: np.ndarray, radices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mixed-radix digits of exact integers: x = Σ_k a_k Π_{j<k} m_j, as an (n, K) int32 array, and what is left over.

    Runs of digits whose product is below 2⁶³ are split off together and then taken apart in machine words, so a code of
    157 bits costs three exact divisions instead of eighteen; runs are split off in halves, so long codes stay fast.
    """
    digits = np.empty((len(values), len(radices)), np.int32)
    runs, products = _machine_runs(radices)
    whole = product(products)
    exact = values.astype(object)
    for (first, last, weights), part in zip(runs, _split(exact % whole, products), strict=True):
        digits[:, first:last] = part.astype(np.int64)[:, None] // weights % radices[first:last]
    return digits, exact // whole


def from_radix(digits: np.ndarray, radices: np.ndarray) -> np.ndarray:
    """The inverse of `to_radix`: exact integers from an (n, K) array of digits; digits out of range are an error."""
    wrong = (digits < 0) | (digits >= radices)
    if wrong.any():
        row, k = (int(i) for i in np.argwhere(wrong)[0])
        rows = int(wrong.any(axis=1).sum())
        raise CodeError(
            f"digit {k} of row {row} is {digits[row, k]}, but digits there run from 0 to {int(radices[k]) - 1}"
            f" ({rows:,} row{'s' if rows > 1 else ''} with such a digit)."
        )
    runs, products = _machine_runs(radices)
    parts = [(digits[:, first:last].astype(np.int64) @ weights).astype(object) for first, last, weights in runs]
    return _join(parts, products) if parts else np.zeros(len(digits), object)


def product(factors: Sequence[int]) -> int:
    """Exact product of many factors, multiplied in halves so that the intermediate numbers stay balanced."""
    if len(factors) <= 8:
        return math.prod(factors)
    half = len(factors) // 2
    return product(factors[:half]) * product(factors[half:])


def _machine_runs(radices: np.ndarray) -> tuple[list[tuple[int, int, np.ndarray]], list[int]]:
    """Cut the digits into runs with products below 2⁶³: (first, last, weight of each digit in its run), the products."""
    runs, products, first = [], [], 0
    weights = [1]
    for k, m in enumerate(radices.tolist()):
        if weights[-1] * m >= 2**63:
            runs.append((first, k, np.array(weights[:-1], np.int64)))
            products.append(weights[-1])
            first, weights = k, [1]
        weights.append(weights[-1] * m)
    if first < len(radices):
        runs.append((first, len(radices), np.array(weights[:-1], np.int64)))
        products.append(weights[-1])
    return runs, products


def _split(values: np.ndarray, products: list[int]) -> list[np.ndarray]:
    """One number per run, lowest first; halving keeps the divisions balanced."""
    if len(products) <= 1:
        return [values] * len(products)
    half = len(products) // 2
    low = product(products[:half])
    return _split(values % low, products[:half]) + _split(values // low, products[half:])


def _join(parts: list[np.ndarray], products: list[int]) -> np.ndarray:
    """The inverse of `_split`."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    high = _join(parts[half:], products[half:])
    return np.asarray(_join(parts[:half], products[:half]) + high * product(products[:half]))
