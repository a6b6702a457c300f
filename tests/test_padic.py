"""p-adic arithmetic against slow twins and definitions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vpunn import padic
from vpunn.errors import CodeError
from vpunn.padic import Ball

primes = st.sampled_from([2, 3, 5, 7, 409, 43711, 2**31 - 1])
integers = st.integers(-(10**30), 10**30)


def slow_digits(x, p):
    digits = []
    while x:
        x, a = divmod(x, p)
        digits.append(a)
    return tuple(digits)


def slow_valuation(x, p):
    if x == 0:
        return math.inf
    count = 0
    while x % p == 0:
        x, count = x // p, count + 1
    return count


# ---- primes and counts -----------------------------------------------------------------------------------------------


def test_primes_agree_with_a_sieve():
    sieve = np.ones(20_000, bool)
    sieve[:2] = False
    for q in range(2, 142):
        sieve[q * q :: q] &= not sieve[q]
    assert [padic.is_prime(n) for n in range(20_000)] == sieve.tolist()


def test_next_prime_is_not_strict_and_reaches_large_numbers():
    assert [padic.next_prime(b + 1) for b in (0, 1, 2, 280, 329, 408)] == [2, 2, 3, 281, 331, 409]  # AUDIT 5.5
    assert padic.next_prime(-7) == 2
    assert padic.next_prime(10**9) == 1_000_000_007
    assert padic.next_prime(2**31 - 1) == 2**31 - 1
    with pytest.raises(CodeError, match=r"2\*\*31"):
        padic.next_prime(2**31 + 5)


@given(st.integers(0, 10**6))
def test_next_prime_agrees_with_sympy(n):
    sympy = pytest.importorskip("sympy")
    assert padic.next_prime(n) == (n if sympy.isprime(n) else sympy.nextprime(n))


@pytest.mark.parametrize("bad", [1, 0, -3, 4, 409 * 409, 2.0, "5", True, None])
def test_composite_or_odd_p_is_refused(bad):
    with pytest.raises(CodeError, match="prime"):
        padic.valuation(10, bad)


# ---- digits ----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**3000), primes)
def test_digits_of_one_number(x, p):
    digits = padic.to_digits(x, p)
    assert digits == slow_digits(x, p)
    assert padic.from_digits(digits, p) == x
    assert padic.to_digits(x, p, K=len(digits) + 3) == (*digits, 0, 0, 0)


@given(st.lists(st.integers(0, 2**300), max_size=20), primes)
def test_digits_of_many_numbers_are_the_rows_of_each(numbers, p):
    table = padic.to_digits(numbers, p)
    assert table.dtype == np.int32
    assert [row[: len(slow_digits(x, p))] for row, x in zip(table.tolist(), numbers, strict=True)] == [
        list(slow_digits(x, p)) for x in numbers
    ]
    assert padic.from_digits(table, p).tolist() == numbers
    assert all(type(x) is int for x in padic.from_digits(table, p))


def test_digits_keep_shapes_and_small_cases():
    assert padic.to_digits(0, 5) == ()
    assert padic.from_digits([], 5) == 0
    assert padic.to_digits([], 5).shape == (0, 0)
    assert padic.to_digits([0, 0], 5).shape == (2, 0)
    square = np.arange(24).reshape(4, 6)
    assert padic.to_digits(square, 5).shape == (4, 6, 2)
    assert (padic.from_digits(padic.to_digits(square, 5), 5) == square).all()
    assert padic.to_digits(np.uint64(2**64 - 1), 2) == (1,) * 64
    assert padic.to_digits([2**63, 1], 2).sum() == 2  # NumPy alone would make this list uint64 or float


def test_a_long_code_is_split_in_reasonable_time():
    x = 3**60_000 + 5
    digits = padic.to_digits(x, 3)
    assert len(digits) == 60_001
    assert padic.from_digits(digits, 3) == x


@given(st.lists(st.integers(1, 2**31), max_size=12), st.data())
def test_mixed_radix_round_trip(radices, data):
    whole = math.prod(radices)
    numbers = data.draw(st.lists(st.integers(0, 3 * whole), min_size=1, max_size=5))
    digits, rest = padic.to_radix(np.array(numbers, object), np.array(radices, np.int64))
    assert ((digits >= 0) & (digits < np.array(radices, np.int64))).all()
    assert rest.tolist() == [x // whole for x in numbers]
    again = padic.from_radix(digits, np.array(radices, np.int64))
    assert again.tolist() == [x % whole for x in numbers]
    for row, x in zip(digits.tolist(), numbers, strict=True):
        assert sum(a * math.prod(radices[:k]) for k, a in enumerate(row)) == x % whole


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: padic.to_digits(-1, 5), "negative.*-1"),
        (lambda: padic.to_digits([3, 125, 130], 5, K=3), "125, 130 needs more than K = 3"),
        (lambda: padic.to_digits(1.5, 5), "exact integers.*1.5"),
        (lambda: padic.to_digits([True], 5), "exact integers.*True"),
        (lambda: padic.to_digits(3, 1), "base.*1"),
        (lambda: padic.to_digits(3, 5, K=-1), "0 or more, got -1"),
        (lambda: padic.to_digits(2**40_000, 3, K=2), "40,001 bits"),
        (lambda: padic.from_digits([1, 5], 5), "digit 1 of row 0 is 5.*0 to 4"),
        (lambda: padic.from_digits([[1, 2], [-1, 7]], 5), "digit 0 of row 1 is -1"),
        (lambda: padic.from_digits(7, 5), "sequence"),
        (lambda: padic.prefix(7, -1, 5), "0 or more, got -1"),
        (lambda: Ball(1, 2, 4), "prime.*4"),
        (lambda: Ball(1, 1.5, 5), "1.5"),
        (lambda: Ball(1, 1, 5) <= Ball(1, 1, 3), "different primes, 5 and 3"),
        (lambda: Ball(1, 1, 5) <= 3, "compared with another ball, got 3"),
        (lambda: Ball(1, 1, 5) < 3, "compared with another ball, got 3"),
        (lambda: Ball(1, 1, 5) >= 3, "compared with another ball, got 3"),
        (lambda: Ball(1, 1, 5) > 3, "compared with another ball, got 3"),
        (lambda: Ball(1, 1, 5).isdisjoint(3), "compared with another ball, got 3"),
        (lambda: Ball([1, 2], 1, 5), r"one whole number is needed, got \[1, 2\]"),
        (lambda: padic.next_prime("a"), "one whole number is needed, got 'a'"),
        (lambda: padic.next_prime(2.5), "one whole number is needed, got 2.5"),
        (lambda: padic.is_prime([7]), r"one whole number is needed, got \[7\]"),
        (lambda: padic.distance(Fraction(1, 2), "a", 5), "one integer or Fraction, got 'a'"),
        (lambda: padic.distance(0.5, Fraction(1, 2), 5), "one integer or Fraction, got 0.5"),
        (lambda: padic.distance([1, 2], [1, 2, 3], 5), r"shapes \(2,\) and \(3,\) do not pair up"),
        (lambda: padic.vdp_coefficients([1, 2, "a"], 3), "sequence of numbers, got"),
        (lambda: padic.vdp_coefficients([[1], [1, 2], 3], 3), "sequence of numbers, got rows of different lengths"),
        (lambda: padic.vdp_coefficients(np.array([1, None, 2]), 3), "sequence of numbers, got None"),
        (lambda: padic.vdp_coefficients(7, 3), "sequence of numbers, got 7"),
        (lambda: padic.check_ultrametric([["a"]]), "square matrix of numbers, got 'a'"),
        (lambda: padic.check_ultrametric(max, n="a", sample=3), "needs n"),
        (lambda: padic.vdp_coefficients(range(10), 3), "10 is not"),
        (lambda: padic.vdp_coefficients([], 3), "0 is not"),
        (lambda: padic.vdp_basis(-1, 0, 3), "n = -1"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(CodeError, match=words):
        call()


# ---- valuation, norm, balls ------------------------------------------------------------------------------------------


@given(integers, primes, st.integers(0, 40))
def test_valuation_agrees_with_repeated_division(x, p, extra):
    x *= p**extra
    assert padic.valuation(x, p) == slow_valuation(x, p)
    assert padic.valuation([x, 0, 1], p).tolist() == [slow_valuation(x, p), math.inf, 0]


def test_valuation_of_a_huge_power_is_quick():
    assert padic.valuation(7 * 2**200_003, 2) == 200_003


@given(st.fractions(), st.fractions(), primes)
def test_norm_is_multiplicative_and_ultrametric(x, y, p):
    assert padic.norm(x * y, p) == padic.norm(x, p) * padic.norm(y, p)
    assert padic.norm(x + y, p) <= max(padic.norm(x, p), padic.norm(y, p))
    assert (padic.norm(x, p) == 0) == (x == 0)
    if padic.norm(x, p) != padic.norm(y, p):
        assert padic.norm(x + y, p) == max(padic.norm(x, p), padic.norm(y, p))


@given(st.lists(integers, min_size=1, max_size=6), primes)
def test_distance_broadcasts_exactly(numbers, p):
    column = np.array(numbers, object)[:, None]
    table = padic.distance(column, numbers, p)
    for (i, x), (j, y) in itertools.product(enumerate(numbers), repeat=2):
        assert table[i, j] == padic.norm(x - y, p)


def test_the_leak_is_not_small_p_adically():  # E-26
    assert padic.norm(Fraction(1, 100), 7) == 1
    assert padic.norm(Fraction(1, 100), 2) == 4
    assert padic.norm(Fraction(1, 100), 5) == 25


def test_toy_example_of_the_paper():  # AUDIT 5.4, E-03
    def distances(codes):
        return [padic.distance(x, y, 2) for x, y in itertools.combinations(codes, 2)]

    claimed = [Fraction(1, 4), Fraction(1, 2), Fraction(1, 2)]
    assert distances([0, 1, 3]) == [1, 1, Fraction(1, 2)] != claimed  # the printed codes do not have these distances
    root_first = [padic.from_digits(digits, 2) for digits in ([0, 0, 0], [0, 0, 1], [0, 1, 1])]
    assert root_first == [0, 4, 6]
    assert distances(root_first) == claimed


@given(integers, integers, st.integers(0, 6), primes)
def test_prefix_ball_and_valuation_say_the_same(x, y, k, p):
    together = padic.prefix(x, k, p) == padic.prefix(y, k, p)
    assert together == (padic.valuation(x - y, p) >= k)
    assert together == (y in Ball(x, k, p))
    assert together == (Ball(x, k, p) == Ball(y, k, p))
    assert together == (padic.distance(x, y, p) <= Ball(x, k, p).radius)
    assert 0 <= padic.prefix(x, k, p) < p**k


@pytest.mark.parametrize(("p", "K"), [(2, 4), (3, 3), (5, 2)])
def test_balls_exhaustively_against_sets(p, K):
    points = range(p**K)
    balls = {Ball(a, k, p): {x for x in points if x in Ball(a, k, p)} for k in range(K + 1) for a in points}
    assert len(balls) == sum(p**j for j in range(K + 1))
    for (a, inside_a), (b, inside_b) in itertools.product(balls.items(), repeat=2):
        assert (a <= b) == (inside_a <= inside_b)
        assert (a < b) == (inside_a < inside_b)
        assert a.isdisjoint(b) == inside_a.isdisjoint(inside_b)
        assert (a >= b) == (inside_a >= inside_b)
        assert (a > b) == (inside_a > inside_b)
    for ball, inside in balls.items():
        assert len(inside) * ball.radius**-1 == p**K
        if ball.k < K:
            parts = [balls[child] for child in ball.children()]
            assert sum(map(len, parts)) == len(inside)
            assert set().union(*parts) == inside
    assert "a" not in Ball(0, 0, p)


# ---- van der Put (E-29) ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "K"), [(2, 4), (3, 3), (5, 2), (7, 1)])
def test_basis_is_the_indicator_of_its_definition(p, K):
    points = range(p**K)
    for n in points:
        by_definition = [1 if n == 0 or padic.distance(x, n, p) < Fraction(1, n) else 0 for x in points]
        assert padic.vdp_basis(n, points, p).tolist() == by_definition
        assert padic.vdp_basis(n, n, p) == 1


@given(st.sampled_from([(2, 0), (2, 3), (3, 3), (5, 2)]), st.data())
def test_expansion_is_exact(shape, data):  # AUDIT 5.8: p = 3, K = 3 has 27 coefficients
    p, K = shape
    points = range(p**K)
    values = np.array(data.draw(st.lists(st.fractions(), min_size=p**K, max_size=p**K)), object)
    coefficients = padic.vdp_coefficients(values, p)
    assert len(coefficients) == p**K
    basis = np.array([padic.vdp_basis(n, points, p) for n in points], object)
    assert (coefficients @ basis == values).all()
    assert (padic.vdp_evaluate(coefficients, p) == values).all()
    for n in points[1:]:
        leading = p ** (len(slow_digits(n, p)) - 1)
        assert coefficients[n] == values[n] - values[n % leading]


def test_ranks_of_the_paper_s_family():  # AUDIT 5.8, E-30
    p, K = 3, 3
    points = np.arange(p**K)
    shallow = [points % p**k == a for k in range(K) for a in range(p**k)]
    assert len(shallow) == 13
    assert np.linalg.matrix_rank(np.array(shallow, float)) == 9
    basis = np.array([padic.vdp_basis(n, points, p) for n in points], float)
    assert np.linalg.matrix_rank(basis) == 27


def test_lipschitz_reading_of_the_coefficients():
    """f is 1-Lipschitz iff |a_n|_p ≤ p^{-⌊log_p n⌋} (E-36): true for x², false after one coefficient is spoilt."""
    p, K = 3, 3
    values = [x * x for x in range(p**K)]

    def small(coefficients):
        return all(padic.valuation(int(a), p) >= len(slow_digits(n, p)) - 1 for n, a in enumerate(coefficients) if n)

    def lipschitz(f):
        return all(padic.norm(int(f[x] - f[y]), p) <= padic.distance(x, y, p) for x in range(27) for y in range(27))

    coefficients = padic.vdp_coefficients(values, p)
    assert small(coefficients)
    assert lipschitz(values)
    coefficients[20] += 1
    assert not small(coefficients)
    assert not lipschitz(padic.vdp_evaluate(coefficients, p))


def test_expansion_of_unsigned_and_vector_values():
    values = np.array([[3, 1], [2, 0]], np.uint8)
    assert padic.vdp_coefficients(values, 2).tolist() == [[3, 1], [-1, -1]]
    assert (padic.vdp_evaluate(padic.vdp_coefficients(values, 2), 2) == values).all()


# ---- strong triangle inequality --------------------------------------------------------------------------------------


def slow_violations(d):
    n = len(d)
    return {
        (x, y, z)
        for x, z in itertools.combinations(range(n), 2)
        for y in range(n)
        if y not in (x, z) and d[x][z] > max(d[x][y], d[y][z])
    }


@given(st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_violations_agree_with_three_loops(n, seed):
    d = np.random.default_rng(seed).integers(0, 6, (n, n))
    d = np.maximum(d, d.T)
    report = padic.check_ultrametric(d)
    expected = slow_violations(d)
    assert report.checked == n * (n - 1) * (n - 2) // 2
    assert report.violations == len(expected)
    assert set(map(tuple, report.triples.tolist())) == expected
    assert report.ok == (not expected)
    mirrored = padic.check_ultrametric(10 - d, valuations=True)
    assert set(map(tuple, mirrored.triples.tolist())) == expected


@given(st.lists(integers, min_size=1, max_size=12), primes)
def test_p_adic_distances_never_violate_it(numbers, p):
    exact = padic.distance(np.array(numbers, object)[:, None], numbers, p)
    assert padic.check_ultrametric(exact).ok
    valuations = padic.valuation(np.array(numbers, object)[:, None] - np.array(numbers, object), p)
    assert padic.check_ultrametric(valuations, valuations=True).ok


def test_sampling_finds_violations_at_the_true_rate():
    points = np.random.default_rng(1).normal(size=(60, 2))
    d = np.linalg.norm(points[:, None] - points, axis=2)
    everything = padic.check_ultrametric(d, limit=10)
    assert len(everything.triples) == 10
    sampled = padic.check_ultrametric(d, sample=100_000, seed=2)
    assert sampled.checked == 100_000
    assert sampled.violations / sampled.checked == pytest.approx(everything.violations / everything.checked, abs=0.01)
    x, y, z = sampled.triples.T
    assert ((x != y) & (y != z) & (x != z)).all()
    assert (d[x, z] > np.maximum(d[x, y], d[y, z])).all()
    by_function = padic.check_ultrametric(lambda i, j: d[i, j], n=60, sample=100_000, seed=2)
    assert by_function.violations == sampled.violations


def test_tolerance_and_bad_matrices():
    d = [[0, 1, 1 + 1e-12], [1, 0, 1], [1 + 1e-12, 1, 0]]
    assert padic.check_ultrametric(d).violations == 1
    assert padic.check_ultrametric(d, tolerance=1e-9).ok
    with pytest.raises(CodeError, match=r"entry \(0, 1\) is 1.*entry \(1, 0\) is 2"):
        padic.check_ultrametric([[0, 1], [2, 0]])
    with pytest.raises(CodeError, match="not symmetric"):
        padic.check_ultrametric([[0, np.nan], [np.nan, 0]])
    with pytest.raises(CodeError, match=r"\(2, 3\)"):
        padic.check_ultrametric(np.zeros((2, 3)))
    with pytest.raises(CodeError, match="needs n"):
        padic.check_ultrametric(lambda i, j: i)
    assert padic.check_ultrametric(lambda i, j: i, n=2, sample=5).checked == 0
    with pytest.raises(CodeError, match="number of triples, got -1"):
        padic.check_ultrametric(np.zeros((3, 3)), sample=-1)


def test_van_der_put_differences_do_not_wrap_around():
    assert padic.vdp_coefficients(np.array([-100, 100], np.int8), 2).tolist() == [-100, 200]
    extremes = np.array([-(2**63), 2**63 - 1])
    assert padic.vdp_coefficients(extremes, 2).tolist() == [-(2**63), 2**64 - 1]
    assert padic.vdp_coefficients(np.array([0, 2**64 - 1], np.uint64), 2).tolist() == [0, 2**64 - 1]
    for wrong in (3, ["a", "b"]):
        with pytest.raises(CodeError, match="a sequence of numbers"):
            padic.vdp_coefficients(wrong, 2)
