"""Statements of the paper's optimisation theory, each with the numbers that refute it (AUDIT TH18, TH19, TH29, E-37…E-39, E-83)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vpunn import Tree, vapo
from vpunn.paper import GISTScalar, HybridLoss

P = 5


def project(v: float, p: int = P) -> int:
    """The paper's Π(v) = round(v) mod p."""
    return round(v) % p


def around(v: float, digit: int, p: int = P) -> float:
    """The distance of v from the nearest number that has this digit mod p."""
    return abs((v - digit + p / 2) % p - p / 2)


def test_lemma_3_the_projection_is_expansive_and_not_near():  # TH18
    near = 0.49, 0.51
    assert abs(project(near[0]) - project(near[1])) / abs(near[0] - near[1]) > 49  # "non-expansive" would be ≤ 1
    assert abs(project(P - 0.4) - (P - 0.4)) == P - 0.4  # "|θ − v| ≤ ½"
    # In the valuation metric two different digits are at distance 1, however near the latents: no Lipschitz constant exists.
    for gap in (1e-1, 1e-3, 1e-6):
        assert project(0.5 - gap) != project(0.5 + gap)
    # What holds: v is within ½ of some number with that digit.
    grid = np.linspace(-3 * P, 3 * P, 3001)
    assert max(around(v, project(v)) for v in grid) <= 0.5 + 1e-12


def test_proposition_4_the_rounding_error_is_bounded_only_inside_the_first_period():  # TH19
    grid = np.linspace(-2 * P, 2 * P, 2001)
    error = np.array([abs(project(v) - v) for v in grid])
    inside = (grid > -0.5) & (grid < P - 0.5)
    assert error[inside].max() <= 0.5
    outside = (grid < -0.5 - 1e-9) | (grid > P - 0.5 + 1e-9)  # on the edge itself ½ is rounded to even
    assert (error[outside] > 0.5).all()
    # "so surrogate gradients deviate by at most L/2": the squared loss (v − t)² has L = 2; at v = p − 0.4 and its digit 0 the
    # gradients 2(v − t) differ by 2(p − 0.4), not by 1.
    v, target = P - 0.4, 2
    assert abs(2 * (v - target) - 2 * (project(v) - target)) == pytest.approx(2 * (P - 0.4))


# ---- prefix-convexity ----------------------------------------------------------------------------------------------------


def ravine(x: np.ndarray) -> float:
    """2|a − b| − (a + b)/2 + 4 on two digits: convex in both digits together, with its minimum 0 at (4, 4)."""
    a, b = (float(digit) for digit in x)
    return 2 * abs(a - b) - (a + b) / 2 + P - 1


def test_no_reading_of_prefix_convex_makes_the_search_global():  # TH20, E-83
    # The paper never defines the word. Let it mean the most it can: convex in all digits jointly, hence in each one given
    # its prefix. GIST still stays where it starts, with 4 to gain.
    points = [np.array([a, b]) for a in range(P) for b in range(P)]
    for x in points:
        for y in points:
            if not ((x + y) % 2).any():
                assert ravine((x + y) // 2) <= (ravine(x) + ravine(y)) / 2
    for neighbourhood in ("pm1", "full"):
        found = vapo.minimize(ravine, p=P, n=2, start=[0, 0], neighbourhood=neighbourhood)
        assert (found.parameters.tolist(), found.loss) == ([0, 0], 4.0)
    assert min(map(ravine, points)) == 0


def test_a_single_digit_that_is_not_convex_stops_the_papers_step():  # E-40
    losses = (1, 2, 0, 2, 2)
    assert GISTScalar(0, p=P).step(losses.__getitem__).digit() == 0
    assert (losses[0], min(losses)) == (1, 0)


def test_the_papers_own_loss_is_not_convex_in_its_values():
    problem = HybridLoss(Tree.from_parents([-1, 0, 0, 1, 1, 1, 3, 3]), leak=0.0)
    theta = np.zeros(problem.n_parameters)
    bent = []
    for i in range(problem.n_parameters):
        for at in np.arange(-4.0, 4.5, 0.5):
            low, middle, high = (theta.copy() for _ in range(3))
            low[i], middle[i], high[i] = at - 1, at, at + 1
            bent.append(problem.loss(low) + problem.loss(high) - 2 * problem.loss(middle) < -1e-9)
    assert sum(bent) > 10


# ---- the Azuma bound -------------------------------------------------------------------------------------------------------


def test_corollary_a5_its_first_inequality_fails_and_the_rest_gets_worse_with_t():  # TH29
    assert 2 * math.log(2) < 1 + 1 / 2  # Σ 1/t ≤ 2 log T "for T ≥ 2" fails at T = 2
    # Azuma needs ε² ≥ 2 Σ c_t² log(2/δ), and Σ c_t² grows like log T: more updates make the requirement harder.
    needed = [2 * sum(1 / t for t in range(1, T + 1)) * math.log(2 / 0.05) for T in (10, 100, 1000)]
    assert needed == sorted(needed)
    assert needed[2] > 2 * needed[0]


def test_corollary_a5_promises_what_a_run_does_not_keep():  # TH29
    # L of the ravine in the valuation metric: the first digit differs (distance 1) or only the second (distance 1/p).
    pairs = [((a, b), (c, d)) for a in range(P) for b in range(P) for c in range(P) for d in range(P)]
    lipschitz = max(
        abs(ravine(np.array(x)) - ravine(np.array(y))) / (1.0 if x[0] != y[0] else 1 / P) for x, y in pairs if x != y
    )
    epsilon, delta, K, eta = 1.0, 0.5, 2, 0.1
    promised = 2 * K**2 * lipschitz**2 * eta**2 / epsilon**2 * math.log(2 / delta)
    theta = np.array([0, 0])
    for update in range(10 * math.ceil(promised)):
        GISTScalar(theta, update % K, p=P).step(ravine)
    assert ravine(theta) - 0 >= epsilon  # in every run, where the corollary allows it in at most half of them
