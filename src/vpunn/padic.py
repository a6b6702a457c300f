"""p-adic arithmetic on exact integers: digits, valuation, norm, balls, primes, the van der Put basis, counts.

Nothing here knows about trees. Digits are written lowest first (the digit at p⁰ leads), which is root first for codes.
Numbers are Python integers of any size, alone or in arrays; powers of p never become floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from numbers import Number
from typing import Any, TypeGuard

import numpy as np

from vpunn._types import Numbers, OneOrMany, Table
from vpunn.errors import CodeError, examples

#: Primes stay below this, so that a digit fits 32 bits and trial division takes a millisecond.
MAX_PRIME = 2**31


# ---- primes and counts -----------------------------------------------------------------------------------------------


def is_prime(n: int) -> bool:
    """Whether n is a prime; trial division, exact for n < 2³¹."""
    n = _check_integer(n)
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
    n = max(2, _check_integer(n))
    while not is_prime(n):
        n += 1
    return n


def code_prime(branching: int) -> int:
    """The prime of the codes of a tree: the smallest p ≥ b + 1 for at most b children, so that digits 1…b and 0 fit.

    >>> [code_prime(b) for b in (1, 2, 280, 329, 408)]
    [2, 3, 281, 331, 409]
    """
    return next_prime(_check_integer(branching) + 1)


def check_prime(p: Any) -> int:
    """p as a Python int, or an error that names the next prime."""
    if not _is_int(p):
        raise CodeError(f"p must be a prime number, got {p!r}.")
    if p < 2 or not is_prime(int(p)):
        raise CodeError(f"p must be a prime number, got {p}; the next prime is {next_prime(p)}.")
    return int(p)


def n_full_balls(p: int, K: int) -> int:
    """Balls of the full p-ary tree of K digits, root and points included: Σ_{j=0}^{K} p^j (E-17, E-30).

    >>> n_full_balls(5, 3), n_full_balls(5, 4)
    (156, 781)
    """
    base = check_base(p)
    return int((base ** (_check_level(K) + 1) - 1) // (base - 1))


def n_markov_heads(p: int, K: int) -> int:
    """The paper's N_HiPaN = K·p·(p+1): one parameter per (depth, parent digit or none, child digit).

    >>> n_markov_heads(409, 18), n_markov_heads(331, 14), n_markov_heads(281, 15)
    (3018420, 1538488, 1188630)
    """
    base = check_base(p)
    return _check_level(K) * base * (base + 1)


# ---- digits ----------------------------------------------------------------------------------------------------------


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
    _refuse(flat < 0, flat, "negative numbers have no finite expansion, got {}; prefix(x, K, p) gives their residues.")
    if K is None:
        longest = max(map(int.bit_length, flat.tolist()), default=0)
        count = -(-longest // (base.bit_length() - 1))
    else:
        count = _check_level(K)
    digits, rest = to_radix(flat, np.full(count, base, np.int64))
    if K is None:
        used = np.flatnonzero(digits.any(axis=0))
        digits = digits[:, : used[-1] + 1 if len(used) else 0]
    else:
        _refuse(rest != 0, flat, "{} needs more than " + f"K = {K} digits in base {p}.")
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


# ---- valuation, norm, balls ------------------------------------------------------------------------------------------


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
        wrong = [one for one in (x, y) if not isinstance(one, Fraction) and not _is_int(one)]
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
    rest = values % check_base(p) ** _check_level(k)
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
        _check_level(self.k)
        _check_integer(self.center)
        # Every point of a ball is its centre; keep the smallest, so that equal balls compare and hash equal.
        object.__setattr__(self, "center", prefix(self.center, self.k, self.p))

    @property
    def radius(self) -> Fraction:
        """p^{-k}."""
        return Fraction(1, self.p**self.k)

    def __contains__(self, x: object) -> bool:
        return _is_int(x) and (x - self.center) % self.p**self.k == 0

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


# ---- the classical van der Put basis on Z/p^K (E-29) ---------------------------------------------------------------


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
    f = _as_numbers(values, f"a function on Z/{p}^K is given by a sequence of numbers")
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
    if not _is_int(n) or n < 0:
        raise CodeError(f"the van der Put basis is numbered 0, 1, 2, …; there is no e_n for n = {n!r}.")
    modulus = 1
    while modulus <= n:
        modulus *= p
    values, scalar = as_integers(x)
    inside = (values - n) % modulus == 0
    return int(inside) if scalar else inside.astype(np.int64)


# ---- strong triangle inequality --------------------------------------------------------------------------------------


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
    if sample is not None and not (_is_int(sample) and sample >= 0):
        raise CodeError(f"sample must be a number of triples, got {sample!r}.")
    sign = -1 if valuations else 1  # with d = −ν both inequalities are the same
    if callable(table):
        if not _is_int(n) or sample is None:
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
    d = _as_numbers(table, "check_ultrametric needs a square matrix of numbers")
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


# ---- checks ----------------------------------------------------------------------------------------------------------


def check_base(p: Any) -> int:
    """p as a Python int if it can be the base of an expansion (2 … 2³¹; digits do not need a prime)."""
    if not _is_int(p) or not 2 <= p <= MAX_PRIME:
        raise CodeError(f"the base p must be a whole number from 2 to 2**31, got {p!r}.")
    return int(p)


def _as_numbers(values: Numbers, what: str) -> np.ndarray:
    """An array of numbers of any kind, exact ones included; ``what`` begins the sentence that refuses others."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        raise CodeError(f"{what}, got rows of different lengths.") from None
    if array.dtype.kind not in "biufcO":
        raise CodeError(f"{what}, got {examples(array.reshape(-1))}.")
    if array.dtype == object:
        wrong = [one for one in array.reshape(-1).tolist() if not isinstance(one, Number)]
        if wrong:
            raise CodeError(f"{what}, got {examples(wrong)}.")
    return array


def as_integers(x: Numbers) -> tuple[np.ndarray, bool]:
    """Exact integers as an object array, and whether there was only one; floats and booleans are refused."""
    if isinstance(x, np.ndarray) and x.dtype.kind in "iu":
        return x.astype(object), x.ndim == 0
    # NumPy would read mixed lists such as [2**63, -1] as floats, so lists become objects before it looks at them.
    array = np.array(list(x) if isinstance(x, range) else x, dtype=object)
    wrong = [one for one in array.reshape(-1).tolist() if type(one) is not int and not _is_int(one)]
    if wrong:
        raise CodeError(f"exact integers are needed, got {examples(wrong)}.")
    if any(type(one) is not int for one in array.reshape(-1).tolist()):
        array = np.frompyfunc(int, 1, 1)(array) if array.ndim else np.array(int(array.item()), object)
    return array, array.ndim == 0


def _is_int(x: object) -> TypeGuard[int]:
    return isinstance(x, int | np.integer) and not isinstance(x, bool | np.bool_)


def _check_integer(n: Any) -> int:
    """One exact integer as a Python int."""
    if not _is_int(n):
        raise CodeError(f"one whole number is needed, got {n!r}.")
    return int(n)


def _check_level(k: Any) -> int:
    if not _is_int(k) or k < 0:
        raise CodeError(f"a number of digits must be 0 or more, got {k!r}.")
    return int(k)


def show_integer(x: int) -> str:
    """An integer for a message; a long one is described (Python refuses to print more than 4,300 places)."""
    return str(x) if x.bit_length() <= 256 else f"(a number of {x.bit_length():,} bits)"


def _refuse(bad: Any, values: np.ndarray, sentence: str) -> None:
    wrong = values[np.asarray(bad, bool)]
    if len(wrong):
        more = f" and {len(wrong) - 5:,} more" if len(wrong) > 5 else ""
        raise CodeError(sentence.format(", ".join(show_integer(x) for x in wrong[:5]) + more))
