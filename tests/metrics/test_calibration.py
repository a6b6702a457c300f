"""Calibration on simulated models whose truth is known, always judged on rows the map was not fitted to."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from vpunn.errors import VpunnError
from vpunn.metrics import calibration_error, reliability_by_depth
from vpunn.metrics.calibration import PRIOR_WEIGHT, BetaMap, DepthCalibrator, fit_depth_temperatures, group_softmax
from vpunn.tree import Tree


@st.composite
def ragged(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = np.array(draw(st.lists(st.integers(1, 6), min_size=1, max_size=30)))
    start = np.append(0, np.cumsum(sizes))
    return rng.normal(size=start[-1]) * 3, start, rng.integers(sizes), rng.integers(1, 4, size=len(sizes))


@given(ragged())
@settings(max_examples=50, deadline=None)
def test_group_softmax_is_a_soft_max_of_each_group(case):
    scores, start, _, _ = case
    slow = np.concatenate([softmax(scores[a:b]) for a, b in pairwise(start)])
    np.testing.assert_allclose(group_softmax(scores, start), slow)


@given(ragged())
@settings(max_examples=40, deadline=None)
def test_temperatures_minimise_the_loss_of_their_depth(case):
    scores, start, target, depth = case
    found = fit_depth_temperatures(scores, start, target, depth, n_depths=4)
    assert found[3] == 1.0  # nothing seen at depth 4
    for k in (1, 2, 3):

        def loss(log_b, k=k):
            groups = [(scores[start[g] : start[g + 1]], target[g]) for g in np.flatnonzero(depth == k)]
            fit = -sum(np.log(softmax(np.exp(log_b) * s)[t]) for s, t in groups)
            return fit + PRIOR_WEIGHT * log_b**2 / 2

        best = minimize_scalar(loss, bounds=(-8, 8), method="bounded")
        assert loss(-np.log(found[k - 1])) <= best.fun + 1e-5


def test_known_temperatures_are_recovered():
    rng = np.random.default_rng(0)
    honest = rng.normal(size=(20_000, 5)) * 1.5
    truth = (honest + rng.gumbel(size=honest.shape)).argmax(axis=1)
    depth = np.repeat([1, 2], 10_000)
    wrong = honest * np.array([2.5, 0.4])[depth - 1][:, None]
    start = np.arange(0, 100_001, 5)
    temperatures = fit_depth_temperatures(wrong.ravel(), start, truth, depth)
    assert temperatures == pytest.approx([2.5, 0.4], rel=0.05)
    assert fit_depth_temperatures(np.array([]), np.array([0]), np.array([]), np.array([], int), 2).tolist() == [
        1.0,
        1.0,
    ]


@pytest.mark.parametrize("power", [0.4, 1.0, 3.0])
def test_beta_map_repairs_held_out_confidences(power):
    rng = np.random.default_rng(1)
    truth = rng.beta(3, 1.5, size=8000)
    stated = truth**power / (truth**power + (1 - truth) ** power)
    right = rng.uniform(size=8000) < truth
    fitted = BetaMap.fit(stated[:2000], right[:2000])
    after = calibration_error(fitted.apply(stated[2000:]), right[2000:])
    before = calibration_error(stated[2000:], right[2000:])
    assert after < 0.025
    assert power == 1.0 or after < before / 3


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=40))
@settings(max_examples=60, deadline=None)
def test_beta_map_is_monotone_and_stays_inside(items):
    fitted = BetaMap.fit([c for c, _ in items], [r for _, r in items])
    grid = fitted.apply(np.linspace(0, 1, 101))
    assert (np.diff(grid) >= -1e-12).all()
    assert ((grid >= 0) & (grid <= 1)).all()
    if not items:
        np.testing.assert_allclose(fitted.apply([0.2, 0.7]), [0.2, 0.7])


def simulated_paths(tree, sharpness, n, rng):
    """A model that overstates its conditional probabilities; truths drawn from the honest ones."""
    honest = {}
    for node in range(tree.n_nodes):
        children = tree.children(node)
        if len(children):
            honest[node] = (children, rng.normal(size=(n, len(children))))
    truth, predicted = np.zeros(n, np.int64), np.zeros(n, np.int64)
    stated = np.full((n, tree.max_depth), np.nan)
    for i in range(n):
        here = 0
        while here in honest:
            children, scores = honest[here]
            here = children[(scores[i] + rng.gumbel(size=len(children))).argmax()]
        truth[i] = here
        here, p = 0, 1.0
        while here in honest:
            children, scores = honest[here]
            q = softmax(sharpness * scores[i])
            here = children[q.argmax()]
            p *= q.max()
            stated[i, tree.depth[here] - 1] = p
        predicted[i] = here
    return truth, predicted, stated


def test_depth_calibrator_repairs_every_depth_on_held_out_rows():
    tree = Tree.from_parents([-1, 0, 0, 0, 1, 1, 1, 2, 2, 4, 4, 4])
    rng = np.random.default_rng(0)
    truth, predicted, stated = simulated_paths(tree, 3.0, 6000, rng)
    fit, test = slice(0, 2000), slice(2000, None)
    calibrator = DepthCalibrator.fit(stated[fit], tree.lca_depth(truth[fit], predicted[fit]))
    after = calibrator.apply(stated[test])
    np.testing.assert_array_equal(np.isnan(after), np.isnan(stated[test]))
    chain = np.nan_to_num(after, nan=0.0)
    assert (np.diff(chain, axis=1) <= 1e-12).all()
    before = reliability_by_depth(tree, truth[test], predicted[test], stated[test])
    repaired = reliability_by_depth(tree, truth[test], predicted[test], after)
    for k in repaired:
        noise = np.sqrt(len(repaired[k].n_items) / repaired[k].n_items.sum()) / 2  # of the measurement itself
        assert repaired[k].ece < 0.02 + noise
        assert repaired[k].ece < before[k].ece / 3


def test_one_row_equals_the_row_in_a_batch():
    rng = np.random.default_rng(0)
    stated = np.cumprod(rng.uniform(0.5, 1, size=(300, 3)), axis=1)
    calibrator = DepthCalibrator.fit(stated, rng.integers(0, 4, size=300))
    np.testing.assert_array_equal(calibrator.apply(stated[7:8])[0], calibrator.apply(stated)[7])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: group_softmax([1.0, 2.0], [0, 1]), "number of scores"),
        (lambda: group_softmax([1.0, 2.0], [0, 0, 2]), "no empty group"),
        (lambda: group_softmax([1.0, np.inf], [0, 2]), "finite"),
        (lambda: fit_depth_temperatures([1.0, 2.0], [0, 2], [2], [1]), "inside their group"),
        (lambda: fit_depth_temperatures([1.0, 2.0], [0, 2], [1], [0]), "depths must lie"),
        (lambda: fit_depth_temperatures([1.0, 2.0], [0, 2], [1, 1], [1]), "one target and one depth"),
        (lambda: BetaMap.fit([1.5], [1]), "lie in"),
        (lambda: BetaMap.fit([0.5, 0.5], [1]), "equally long"),
        (lambda: DepthCalibrator.fit([0.5], [1]), "rows × K"),
        (lambda: DepthCalibrator([BetaMap()]).apply([[0.5, 0.4]]), "one column for each"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(VpunnError, match=words):
        call()


def test_labels_and_depths_must_be_what_they_say() -> None:
    with pytest.raises(VpunnError, match="0 or 1 for each row, got 7.0"):
        BetaMap.fit([0.2], [7])
    with pytest.raises(VpunnError, match="must be integers, got int64 and float64"):
        fit_depth_temperatures([1.0, 2.0], [0, 2], [0], [1.0])
