"""VAPO: optima reached, certificates checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vpunn
from strategies import random_tree, trees
from vpunn.datasets import load_wordnet
from vpunn.network import VPuNN
from vpunn.tree import Tree
from vpunn.vapo import (
    SCHEDULES,
    AdamScalar,
    AdamState,
    DenseMSEHead,
    DigitHeads,
    DigitNetwork,
    GISTScalar,
    LeakyRegression,
    Phase,
    QuadraticHeads,
    Schedule,
    SoftmaxHeads,
    fisher_block,
    information,
    minimize,
)
from vpunn.vapo import _kernels as _head_kernels
from vpunn.vapo.adam import AdamSolver
from vpunn.vapo.gist import neighbours
from vpunn.vapo.leaky import surrogate

FACTORISATIONS = ("node", "markov", "depth")
grown = trees(30).filter(lambda tree: tree.n_nodes > 1)


@pytest.fixture(scope="module")
def wordnet() -> Tree:
    return load_wordnet("3.1").tree


# ---- soft-max heads ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factorisation", FACTORISATIONS)
def test_fisher_and_adam_reach_the_closed_form_on_wordnet(wordnet: Tree, factorisation: str) -> None:
    heads = SoftmaxHeads(wordnet, factorisation)
    for method in ("fisher", "adam"):
        result = minimize(heads, method)
        assert result.converged
        assert 0 <= result.loss - heads.optimum() <= 1e-6
        assert heads.accuracies(result.parameters)["digit"] == pytest.approx(
            heads.accuracies(heads.closed_form())["digit"]
        )
        if method == "fisher":
            assert result.epochs <= 30


@settings(max_examples=40)
@given(grown, st.sampled_from(FACTORISATIONS), st.integers(0, 99))
def test_fisher_falls_at_every_step_and_needs_few(tree: Tree, factorisation: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    heads = SoftmaxHeads(tree, factorisation, items=rng.pareto(0.7, tree.n_nodes) + 1e-3)
    result = minimize(heads, "fisher")
    assert result.converged
    assert result.epochs <= 30
    assert (np.diff(result.history) <= 1e-12).all()


@pytest.mark.parametrize("depth", [1, 2, 4, 8])
def test_fisher_steps_do_not_grow_with_depth(depth: int) -> None:
    parents, level = [-1], [0]
    for _ in range(depth):
        new = list(range(len(parents), len(parents) + 3 * len(level)))
        parents += [v for v in level for _ in range(3)]
        level = new
    tree = Tree.from_parents(parents)
    items = np.random.default_rng(0).pareto(1.0, tree.n_nodes) * tree.is_leaf
    assert minimize(SoftmaxHeads(tree, items=items), "fisher").epochs <= 20


@settings(max_examples=25)
@given(grown, st.integers(0, 99))
def test_fisher_information_is_block_diagonal_and_exact(tree: Tree, seed: int) -> None:
    heads = SoftmaxHeads(tree)
    theta = np.random.default_rng(seed).normal(size=heads.n_parameters)
    share = heads.node_probabilities(theta)[tree.leaves]
    q = np.exp(heads.log_probabilities(theta))
    exact = np.zeros((heads.n_parameters, heads.n_parameters))
    for leaf, weight in zip(tree.leaves, share, strict=True):  # E[score scoreᵀ], leaf by leaf
        score = np.zeros(heads.n_parameters)
        for v in tree.ancestors(int(leaf))[1:]:
            brothers = heads.layout.slot[tree.children(int(tree.parent[v]))]
            score[brothers] -= q[brothers]
            score[heads.layout.slot[v]] += 1
        exact += weight * np.outer(score, score)
    blocks = np.zeros_like(exact)
    for ball in np.flatnonzero(~tree.is_leaf):
        slots = heads.layout.slot[tree.children(int(ball))]
        blocks[np.ix_(slots, slots)] = fisher_block(heads, theta, int(ball))
    np.testing.assert_allclose(exact, blocks, atol=1e-12)
    per_depth = information(heads, theta)
    np.testing.assert_allclose(per_depth.sum(), np.trace(exact), atol=1e-12)
    assert information(heads, theta, depth=0) == pytest.approx(per_depth[0])


@settings(max_examples=25)
@given(
    grown,
    st.sampled_from(FACTORISATIONS),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from([SoftmaxHeads, QuadraticHeads]),
    st.integers(0, 99),
)
def test_compiled_adam_equals_its_numpy_twin(tree, factorisation, margin, kind, seed) -> None:
    rng = np.random.default_rng(seed)
    heads = kind(tree, factorisation, margin=margin, items=rng.random(tree.n_nodes) + 0.1)
    start = heads.initial() + rng.normal(size=heads.n_parameters)
    schedule = Schedule("three steps", (Phase("fit", 3, 0.1),))
    solver = AdamSolver(heads, schedule=schedule, start=start)
    twin = AdamState(start, heads.layout.context)
    for number in range(3):
        solver.epoch(number)
        gradient = heads.gradient(twin.v)
        several = np.diff(heads.layout.start)[heads.layout.context] > 1
        twin.steps += np.diff(heads.layout.start) > 1
        twin._move(np.flatnonzero(several), gradient[several], 0.1, (0.9, 0.999))
        # a vanishing gradient (symmetric siblings) may round to either sign, and Adam's first step is the sign
        clear = np.abs(gradient) > 1e-12
        if not clear[several].all():
            return
    np.testing.assert_allclose(solver.adam.v, twin.v, atol=1e-6)


def test_margin_and_weighting_train_and_change_the_optimum() -> None:
    tree = random_tree(400, seed=3)
    plain = minimize(SoftmaxHeads(tree), "adam")
    hinge = minimize(SoftmaxHeads(tree, margin=1.0), "adam")
    assert hinge.history[-1] < hinge.history[0]
    assert SoftmaxHeads(tree).loss(hinge.parameters) > plain.loss + 1e-3  # the hinge costs likelihood
    weighted = SoftmaxHeads(tree, weighting="inverse-sqrt")
    result = minimize(weighted, "adam")
    assert result.loss - weighted.optimum() <= 1e-6
    assert SoftmaxHeads(tree).loss(result.parameters) > plain.loss + 1e-3


def test_dense_mse_head_reaches_the_mean_digit() -> None:
    heads = DenseMSEHead(random_tree(300, seed=1))
    result = minimize(heads, "adam")
    assert result.loss - heads.optimum() < 1e-4


@settings(max_examples=25)
@given(grown, st.floats(0, 0.2), st.integers(0, 99))
def test_leaky_regression_has_the_right_gradient_and_optimum(tree: Tree, alpha: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=tree.n_leaves)
    problem = LeakyRegression(tree, values, alpha=alpha)
    c, direction, step = rng.normal(size=tree.n_nodes), rng.normal(size=tree.n_nodes), 1e-5
    slope = (problem.loss(c + step * direction) - problem.loss(c - step * direction)) / (2 * step)
    assert problem.gradient(c) @ direction == pytest.approx(slope, rel=1e-5, abs=1e-7)
    net = VPuNN(tree, c)
    assert problem.loss(c) == pytest.approx(((surrogate(net, tree.leaves, alpha) - values) ** 2).mean())
    assert problem.honest_loss(c) == pytest.approx(((net.predict(tree.leaves) - values) ** 2).mean())
    assert problem.honest_loss(VPuNN(tree).interpolate(values).coefficients_) < 1e-24


def test_the_leak_biases_training_and_its_absence_does_not_stall_it() -> None:
    tree = random_tree(300, seed=9, reach=40)  # the paper says α < 0.005 stalls
    values = np.random.default_rng(0).normal(size=tree.n_leaves)
    honest = []
    for alpha in (0.0, 0.005, 0.02):
        problem = LeakyRegression(tree, values, alpha=alpha)
        result = minimize(problem, "adam")
        assert result.loss < 1e-2 * result.history[0]
        honest.append(problem.honest_loss(result.parameters))
    assert honest[0] == min(honest)


@pytest.mark.parametrize("name", ["paper-main", "paper-appendix"])
def test_paper_schedules_train_what_they_say(name: str) -> None:
    heads = SoftmaxHeads(random_tree(300, seed=5, reach=20))
    schedule = SCHEDULES[name]
    assert [p.epochs for p in schedule.phases] == ([8, 4, 100] if name == "paper-main" else [20, 20, 20])
    solver = AdamSolver(heads, schedule=name)
    position = heads.layout.position[heads.layout.context]
    for number in range(schedule.phases[0].epochs):
        solver.epoch(number)
    assert (solver.adam.v[position < 2] == 0).all()
    assert np.abs(solver.adam.v[position >= 2]).max() > 0
    deep = solver.adam.v[position >= 2].copy()
    for number in range(schedule.phases[0].epochs, schedule.phases[0].epochs + schedule.phases[1].epochs):
        solver.epoch(number)
    assert (solver.adam.v[position >= 2] == deep).all()
    assert np.abs(solver.adam.v[position < 2]).max() > 0
    result = minimize(heads, "adam", schedule=name)
    assert result.epochs == schedule.epochs
    assert result.loss < result.history[0]


def test_adam_scalar_is_a_view_of_the_state() -> None:
    state = AdamState(np.array([0.0, 6.7]))
    scalar = AdamScalar(state, 1)
    assert scalar.digit(7) == 0  # round(6.7) mod 7
    reference, m, u = 6.7, 0.0, 0.0
    for t in range(1, 6):  # the paper's Algorithm 5, written out
        g = 2 * (reference - 3)
        m, u = 0.9 * m + 0.1 * g, 0.999 * u + 0.001 * g * g
        reference -= 0.015 * (m / (1 - 0.9**t)) / (np.sqrt(u / (1 - 0.999**t)) + 1e-12)
        scalar.step(2 * (scalar.value - 3))
    assert scalar.value == pytest.approx(reference)
    assert state.v[0] == 0.0


# ---- digits ------------------------------------------------------------------------------------------------------------


def best_digits(heads: DigitHeads) -> float:
    """Brute force: contexts are independent, so try every digit in each."""
    table = np.stack(
        [
            heads.layout.per_context(heads.mass * heads.slot_losses(np.full(heads.n_parameters, d)))
            for d in range(heads.p)
        ]
    )
    return float(table.min(axis=0).sum() / heads.total)


@settings(max_examples=40)
@given(
    grown,
    st.sampled_from(FACTORISATIONS),
    st.sampled_from(["zero-one", "squared", "circular", "ordinal"]),
    st.integers(0, 99),
)
def test_full_gist_reaches_the_coordinate_optimum_in_one_sweep(tree, factorisation, loss, seed) -> None:
    rng = np.random.default_rng(seed)
    heads = DigitHeads(tree, factorisation, loss=loss, items=rng.integers(1, 9, tree.n_nodes))
    start = rng.integers(0, heads.p, heads.n_parameters)
    result = minimize(heads, start=start)
    assert result.history[1] == pytest.approx(best_digits(heads), abs=1e-9)
    assert result.converged
    assert result.epochs <= 2  # the second sweep only certifies


@settings(max_examples=40)
@given(
    grown,
    st.sampled_from(["zero-one", "squared", "circular", "ordinal"]),
    st.sampled_from(["pm1", "full"]),
    st.integers(0, 99),
    st.sampled_from([None, 3]),
)
def test_certificate_means_no_neighbour_is_better(tree, loss, neighbourhood, seed, batch) -> None:
    heads = DigitHeads(tree, loss=loss, p=11 if tree.max_branching < 11 else None)
    start = np.random.default_rng(seed).integers(0, heads.p, heads.n_parameters)
    result = minimize(heads, neighbourhood=neighbourhood, start=start, seed=seed, batch=batch)
    assert result.certificate["optimal"]
    assert result.loss <= result.history.min() + 1e-9
    if batch is None:
        assert (np.diff(result.history) <= 1e-12).all()
    assert result.loss == pytest.approx(heads.loss(result.parameters))
    for i in range(heads.n_parameters):
        for value in neighbours(int(result.parameters[i]), heads.p, neighbourhood):
            moved = result.parameters.copy()
            moved[i] = value
            assert heads.loss(moved) >= result.loss - 1e-9


@settings(max_examples=30)
@given(
    grown,
    st.sampled_from(["zero-one", "circular"]),
    st.sampled_from(["pm1", "full"]),
    st.integers(0, 99),
    st.sampled_from([None, 2]),
)
def test_digit_network_certificates(tree, loss, neighbourhood, seed, batch) -> None:
    p = 5
    net = DigitNetwork(tree, np.random.default_rng(seed).integers(0, p, tree.n_leaves), p=p, loss=loss)
    result = minimize(net, neighbourhood=neighbourhood, batch=batch, seed=seed)
    assert result.certificate["optimal"]
    for i in range(net.n_parameters):
        for value in neighbours(int(result.parameters[i]), p, neighbourhood):
            moved = result.parameters.copy()
            moved[i] = value
            assert net.loss(moved) >= result.loss - 1e-9
    if neighbourhood == "full":
        assert result.loss == 0  # leaves have coefficients of their own, so every function is reached


def test_pm1_gets_stuck_where_full_does_not() -> None:
    losses = [1, 2, 0, 2, 2]  # AUDIT E-40
    theta = np.array([0])
    assert GISTScalar(theta, 0, p=5).step(lambda t: losses[t[0]]).value == 0
    assert GISTScalar(theta, 0, p=5).step(lambda t: losses[t[0]], "full").value == 2
    stuck = minimize(lambda x: losses[x[0]], p=5, n=1, start=[0], neighbourhood="pm1")
    found = minimize(lambda x: losses[x[0]], p=5, n=1, start=[0])
    assert (stuck.loss, found.loss) == (1, 0)
    assert stuck.certificate["optimal"]


def test_straight_through_adam_comes_near_the_digit_optimum() -> None:
    heads = DigitHeads(random_tree(300, seed=2), loss="squared")
    best = minimize(heads).loss
    result = minimize(heads, "adam")
    assert result.parameters.dtype == np.int64
    assert result.loss <= best * 1.05


def test_gist_sweep_kernel_counts_what_it_says() -> None:
    heads = DigitHeads(Tree.from_parents([-1, 0, 0, 0]), loss="squared")
    theta = np.array([0])
    moves, evaluations, gain = _head_kernels.gist_sweep(
        np.arange(1), heads.layout.start, heads.mass, heads.layout.digit, theta, True, heads.loss_code, heads.p, 0.5
    )
    assert (moves, evaluations, theta[0]) == (1, 4, 2)
    assert gain == (1 + 4 + 9) - (1 + 0 + 1)


@settings(max_examples=40, deadline=None)
@given(trees(12).filter(lambda tree: tree.n_nodes > 1), st.sampled_from(["pm1", "full"]), st.integers(0, 99), st.data())
def test_gist_on_real_heads_and_leaky_networks_stops_at_an_optimum_of_its_neighbourhood(
    tree, neighbourhood, seed, data
):
    kind = data.draw(st.sampled_from(["softmax", "quadratic", "dense", "leaky", "honest"]))
    if kind in ("leaky", "honest"):
        targets = np.random.default_rng(seed).normal(1, 1, tree.n_leaves)
        problem: Any = LeakyRegression(tree, targets, alpha=0.05 if kind == "leaky" else 0.0)
    else:
        factorisation = data.draw(st.sampled_from(FACTORISATIONS))
        problem = {"softmax": SoftmaxHeads, "quadratic": QuadraticHeads, "dense": DenseMSEHead}[kind](
            tree, factorisation
        )
    result = minimize(problem, "gist", neighbourhood=neighbourhood)
    p = vpunn.padic.next_prime(tree.max_branching + 1)
    assert result.converged
    assert (np.diff(result.history) <= 1e-9).all()
    assert (result.parameters == np.rint(result.parameters)).all()
    assert ((result.parameters >= 0) & (result.parameters < p)).all()
    # DigitHeads' own kernel leaves out digits no child has, which can never be the best.
    for i in range(problem.n_parameters):
        for value in neighbours(int(result.parameters[i]), p, neighbourhood):
            other = np.array(result.parameters, float)
            other[i] = value
            assert problem.loss(other) >= result.loss - 1e-6


@given(trees(), st.floats(0.0, 0.9), st.integers(0, 10**6))
def test_the_leak_has_an_exact_solution_that_predicts_something_else(tree: Tree, alpha: float, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=tree.n_leaves)
    problem = LeakyRegression(tree, values, alpha=alpha)
    exact = problem.closed_form()
    assert problem.loss(exact) == pytest.approx(0, abs=1e-18 / (1 - alpha) ** 2)
    interpolated = VPuNN(tree).interpolate(values).coefficients_
    shift = (values - alpha * interpolated.sum()) / (1 - alpha) - values
    assert problem.honest_loss(exact) == pytest.approx((shift**2).mean(), abs=1e-12, rel=1e-9)
