"""What the combiner learns from: slots that hold nothing are passed over, and Newton's method ends at the optimum."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from vpunn.hipan import _combiner, _slots
from vpunn.hipan._combiner import (
    LARGEST_LOG,
    NONE,
    TELLTALE,
    _best_alone,
    _least,
    fit_combiner,
    losses_with_and_without,
)
from vpunn.hipan._experts import Seen
from vpunn.hipan._slots import Slots, fit_linear
from vpunn.hipan._teaching import HeldOut


def some_rows(seed, share=0.97, rows=300, slots=12, columns=6):
    """Evidence of any scale about slots of which a ``share`` hold something, the right one among them."""
    rng = np.random.default_rng(seed)
    evidence = rng.normal(size=(rows, slots, columns)).astype(np.float32)
    truth, valid = rng.integers(0, slots, rows), rng.random((rows, slots)) < share
    evidence[np.arange(rows), truth] += np.array([1.5, 0.5, 0, 0, 0, -0.5], np.float32)
    evidence = evidence * np.array([1, 10, 0.1, 1, 3, 1], np.float32) + np.array([0, 50, 0, -3, 0, 1], np.float32)
    valid[np.arange(rows), truth] = True
    evidence[~valid] = 0
    return evidence, valid, truth, rng.random(rows) + 0.5


@pytest.mark.parametrize("seed", range(3))
def test_slots_that_hold_nothing_are_passed_over_where_they_stand(seed):
    evidence, valid, truth, weight = some_rows(seed)
    kept = evidence.copy()
    seen = Slots.of(evidence, valid, truth, weight)
    with patch.object(_slots, "MOST_HOLD", 2.0):
        copied = Slots.of(evidence, valid, truth, weight)
    assert np.shares_memory(seen.z, evidence) and not np.shares_memory(copied.z, evidence)
    assert np.array_equal(np.concatenate(list(seen.parts())), copied.z)
    for one, other in zip(seen.bounds(), copied.bounds(), strict=True):
        assert np.array_equal(one, other)
    w = np.array([1, 0.1, 3, 0, 0.2, -1], np.float32)
    np.testing.assert_allclose(seen.softmax(seen.z @ w)[1], copied.softmax(copied.z @ w)[1], rtol=1e-5)
    rows = np.array([7, 3, 299])
    standard = np.linspace(-1, 1, 6, dtype=np.float32), np.linspace(3, 1, 6, dtype=np.float32)
    one, other = (slots.likely(w).standard(rows, *standard) for slots in (seen, copied))
    for a, b in zip(one[:-1], other[:-1], strict=True):
        assert np.array_equal(a, b)
    columns = [4, 0, 5]
    some, same = (
        seen.take(rows, columns),
        Slots.of(evidence[rows][:, :, columns], valid[rows], truth[rows], weight[rows]),
    )
    losses = (taken.softmax(taken.z @ w[columns])[1] for taken in (some, same))
    np.testing.assert_allclose(*losses, rtol=1e-6)
    assert np.array_equal(evidence, kept)  # nothing of it was written to


def test_bounds_where_a_last_slot_stands_alone_and_holds_nothing():
    """205 rows of five slots are 1,024 and one more."""
    evidence, valid, truth, weight = some_rows(0, rows=205, slots=5)
    truth[-1], valid[-1] = 0, [True, True, True, True, False]
    seen = Slots.of(evidence, valid, truth, weight)
    assert [len(part) for part in seen.parts()][-1] == 0
    for one, other in zip(seen.bounds(), (evidence[valid].min(0), evidence[valid].max(0)), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("share", [0.97, 0.3])
def test_newtons_method_ends_where_a_slow_twin_does(share):
    evidence, valid, truth, weight = some_rows(4, share)
    unit = np.array([1, 0.1, 10, 0, 0.3, 1])  # one piece of evidence is not read
    start, penalty = np.array([1.0, 0, 0, 0.7, 0, 0]), 1e-3

    def loss(w):
        score = np.where(valid, evidence.astype(float) @ (w * unit), -np.inf)
        top = score.max(1)
        losses = np.log(np.exp(score - top[:, None]).sum(1)) + top - score[np.arange(len(truth)), truth]
        return weight @ losses / weight.sum() + penalty / 2 * ((w - start) ** 2).sum()

    seen = Slots.of(evidence, valid, truth, weight)
    found, value = fit_linear(seen, start.astype(np.float32), penalty, unit)
    twin = minimize(loss, start, options={"gtol": 1e-8})
    assert value == pytest.approx(twin.fun, abs=2e-5) == pytest.approx(loss(found), abs=2e-5)
    np.testing.assert_allclose(found, twin.x, atol=0.02)
    assert found[3] == np.float32(0.7)  # stays where it started


def test_curvature_is_how_the_slope_changes():
    evidence, valid, truth, weight = some_rows(5, 0.8)
    seen, share = Slots.of(evidence, valid, truth, weight), weight / weight.sum()
    w, steps = np.array([1, 0.05, 2, 0.3, 0.2, -1], np.float64), 1e-3 * np.eye(6)

    def slope(w):
        p = seen.softmax(seen.z.astype(float) @ w)[0]
        p[seen.right] -= 1
        return (p * np.repeat(share, seen.size)) @ seen.z.astype(float)

    twin = np.array([(slope(w + step) - slope(w - step)) / 2e-3 for step in steps])
    size = np.sqrt(np.outer(np.diag(twin), np.diag(twin)))
    p = seen.softmax(seen.z.astype(float) @ w)[0]
    with patch.object(_slots, "NUMBERS_AT_ONCE", 500):  # some rows at a time
        found = seen.curvature(p, share)
        with patch.object(_slots, "COLUMNS", 5):  # slots that are unlikely are not read
            roughly = seen.curvature(p, share)
    np.testing.assert_allclose(found / size, twin / size, atol=4e-4)
    np.testing.assert_allclose(roughly / size, twin / size, atol=0.03)
    assert np.abs(roughly / size - twin / size).max() > 1e-3


def test_some_rows_choose_the_best_single_expert_of_wide_evidence():
    evidence, valid, truth, weight = some_rows(8, rows=900)
    scale, read = np.ones(50), np.ones(50, bool)

    def chosen(width, rows=slice(None)):
        wide = np.concatenate([evidence, np.zeros((900, 12, width - 6), np.float32)], 2)[rows]
        seen = Slots.of(wide, valid[rows], truth[rows], weight[rows])
        return _best_alone(seen, [0, 1, 3], scale[:width], read[:width])[0]

    with patch.object(_combiner, "ENOUGH_ALONE", 100):
        some = np.linspace(0, 899, 100).astype(int)
        assert np.array_equal(chosen(50), chosen(50, some)) and not np.array_equal(chosen(44), chosen(44, some))
    assert np.flatnonzero(chosen(50)).tolist() == [0, NONE]


def test_evidence_of_few_classes_is_learned_from_without_a_copy_and_alike():
    evidence, valid, truth, weight = some_rows(6, rows=500, columns=6)
    evidence = np.concatenate([evidence, np.zeros((500, 12, 17), np.float32)], 2)
    names = ["log-probability by the heads", *(f"other {k}" for k in range(21)), "none of the candidates"]
    given = evidence, valid, truth, weight.astype(np.float32), names
    found = fit_combiner(*given, np.random.default_rng(0), unread=TELLTALE)
    with patch.object(_slots, "MOST_HOLD", 2.0):
        copied = fit_combiner(*given, np.random.default_rng(0), unread=TELLTALE)
    assert found.output.any()  # hidden units too, and sums in another order lead them elsewhere
    candidates = np.where(valid[:, :-1], np.arange(11, dtype=np.int32), np.int32(-1))
    one, other = (np.column_stack(made.shares(evidence, candidates, 99)) for made in (found, copied))
    np.testing.assert_allclose(one, other, atol=0.05)
    assert np.abs(one - other).mean() < 0.002


@pytest.mark.parametrize("place", [-3.0, -0.41, 0.0, 0.2503, 9.0])
def test_the_least_of_one_hollow_is_found(place):
    def loss(x):
        return np.cosh(x - place) + 0.1 * (x - place)

    twin = minimize_scalar(loss, bounds=(-LARGEST_LOG, LARGEST_LOG), method="bounded").x
    assert _least(loss) == pytest.approx(twin, abs=1e-3)


def test_some_evidence_is_read_or_not_by_two_halves_that_judge_each_other():
    evidence, valid, truth, weight = some_rows(7, rows=600)
    evidence = np.concatenate([evidence, np.zeros((600, 12, NONE - 5), np.float32)], 2)
    evidence[:, -1, NONE] = 1.0
    names = ["log-probability by the heads", *(f"other {k}" for k in range(1, NONE)), "none of the candidates"]
    halves = [
        Slots.of(evidence[rows], valid[rows], truth[rows], weight[rows]) for rows in (slice(280), slice(280, 600))
    ]
    for left_out, least, most in ((1, 0.02, 0.3), (3, -0.01, 0.01)):  # one that tells, and one that is chance
        some = np.arange(NONE + 1) == left_out
        losses, without = losses_with_and_without(halves, names, some)
        assert len(losses) == len(without) == 600
        assert least < np.mean(without - losses) < most
        fit = fit_linear(halves[0], np.zeros(NONE + 1, np.float32), 0.01, ~some / np.ones(NONE + 1))[0]
        by_first = halves[1].softmax(halves[1].z @ fit)[1]
        assert np.mean(without[280:]) == pytest.approx(by_first.mean(), abs=0.02)
        assert not np.array_equal(without[280:], by_first)


def test_columns_are_forgotten_where_they_stand():
    rng = np.random.default_rng(0)
    evidence = rng.normal(size=(150, 5, 7)).astype(np.float32)
    some = np.arange(7) % 3 == 1
    twin = evidence[:, :, ~some].copy()
    rest = [np.zeros(150)] * 5
    held = HeldOut(Seen(np.zeros((150, 4), np.int32), evidence, np.zeros((150, 0))), *rest)
    held.forget_columns(some)
    assert np.array_equal(held.seen.evidence, twin) and held.seen.evidence.flags.c_contiguous
    assert np.shares_memory(held.seen.evidence, evidence)
