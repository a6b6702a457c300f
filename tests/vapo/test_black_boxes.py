"""VAPO on functions of digits: certificates are true, budgets are kept."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vpunn.vapo import (
    minimize,
)
from vpunn.vapo.gist import neighbours


@settings(max_examples=120)
@given(
    st.integers(2, 4),
    st.integers(1, 4),
    st.sampled_from(["full", "pm1"]),
    st.sampled_from(["valuation", "random"]),
    st.integers(0, 99),
    st.sampled_from([None, 1]),
    st.booleans(),
    st.one_of(st.none(), st.integers(1, 60)),
)
def test_black_box_certificates_are_true(p, n, neighbourhood, order, seed, coordinates, vectorized, budget) -> None:
    """``optimal`` says that every neighbour of the returned point was evaluated there, and none is better."""
    table = np.random.default_rng(seed).integers(0, 50, (p,) * n)
    calls, seen = 0, set()

    def loss(x):
        nonlocal calls
        calls += len(x) if vectorized else 1
        seen.update(map(tuple, np.atleast_2d(x).tolist()))
        return table[tuple(x.T)] if vectorized else table[tuple(x)]

    result = minimize(
        loss,
        p=p,
        n=n,
        neighbourhood=neighbourhood,
        order=order,
        seed=seed,
        coordinates=coordinates,
        vectorized=vectorized,
        budget=budget,
    )
    certificate = result.certificate
    assert certificate["optimal"] == (certificate["looked_at"] == n) == result.converged
    assert certificate["optimal"] or budget
    assert result.evaluations == calls and (budget is None or calls <= budget)
    assert result.loss == table[tuple(result.parameters)] == min(table[x] for x in seen)
    if certificate["optimal"]:
        for i in range(n):
            for value in neighbours(int(result.parameters[i]), p, neighbourhood):
                moved = result.parameters.copy()
                moved[i] = value
                assert tuple(moved.tolist()) in seen and table[tuple(moved)] >= result.loss


def test_a_budget_that_ends_inside_a_neighbourhood_proves_nothing() -> None:
    losses = [1, 2, 3, 2, 0]
    result = minimize(lambda x: losses[x[0]], p=5, n=1, start=[0], budget=3)
    assert not result.certificate["optimal"] and result.certificate["looked_at"] == 0
    full = minimize(lambda x: losses[x[0]], p=5, n=1, start=[0], budget=5)
    assert full.certificate["optimal"] and (full.loss, full.evaluations) == (0, 5)


@pytest.mark.parametrize("n", [10, 100])
@pytest.mark.parametrize("step", [1, -1])
def test_an_ultrametric_objective_takes_about_a_sweep(n: int, step: int) -> None:
    p, target = 5, np.random.default_rng(n).integers(0, 5, n)

    def loss(x):  # number of digits after the first wrong one: only the next digit ever gives a signal
        wrong = np.flatnonzero((x != target)[::step])
        return n - wrong[0] if len(wrong) else 0

    result = minimize(loss, p=p, n=n)
    assert result.loss == 0
    # about one sweep to solve and one to certify, whichever way the digits are stored (then one more to find the start)
    assert result.evaluations <= 4 * n * (p - 1)


def test_perturbation_escapes_and_keeps_the_budget() -> None:
    def trap(x):  # pairs of digits: (0, 0) is deceptive, (2, 2) is best
        pairs = x.reshape(-1, 2)
        return float(np.where((pairs == 2).all(axis=1), 0, 1 + pairs.sum(axis=1)).sum())

    stuck = minimize(trap, p=3, n=10, start=np.zeros(10, int))
    freed = minimize(trap, p=3, n=10, start=np.zeros(10, int), budget=3000, seed=1)
    assert stuck.loss == 5
    assert freed.loss == 0
    assert freed.evaluations == 3000
    assert (np.diff(freed.history) < 0).all()
    assert freed.at[0] == 1
    assert minimize(trap, p=3, n=10, budget=7).evaluations == 7
    best = min(trap(np.array(x)) for x in product(range(3), repeat=4))
    assert minimize(trap, p=3, n=4, budget=2000).loss == best
