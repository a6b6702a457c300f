"""The temperature: what scores must be divided by to be as sure as they are right."""

import numpy as np
import pytest

from vpunn.hipan._combiner import fit_temperature


@pytest.mark.parametrize("sure", [0.7, 1.0, 1.4])
def test_scores_that_are_too_sure_are_cooled(sure):
    rng = np.random.default_rng(0)
    score = rng.normal(size=(20_000, 6)) * 2
    valid = rng.random(score.shape) < 0.8
    valid[:, 0] = True
    p = np.where(valid, np.exp(score), 0)
    p /= p.sum(1, keepdims=True)
    truth = (p.cumsum(1) < rng.random((len(p), 1))).sum(1)
    found = fit_temperature(sure * score, valid, truth, np.ones(len(p)))
    assert found == pytest.approx(sure, abs=0.03)


def test_few_rows_leave_scores_as_they_are():
    score = np.array([[3.0, 0.0], [3.0, 0.0]])
    found = fit_temperature(score, np.ones((2, 2), bool), np.array([0, 1]), np.ones(2))
    assert 1.0 < found < 1.05


def drawn(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of six candidates, and right ones drawn as the scores say."""
    rng = np.random.default_rng(1)
    score = rng.normal(size=(rows, 6)) * 2
    p = np.exp(score)
    return score, ((p / p.sum(1, keepdims=True)).cumsum(1) < rng.random((rows, 1))).sum(1)


@pytest.mark.parametrize("sure", [1.0, 1.4])
def test_a_few_rows_held_for_impossible_do_not_cool_the_others(sure):
    score, truth = drawn(4000)
    score *= sure
    score[:80, 5], truth[:80] = -60.0, 5
    found = fit_temperature(score, np.ones(score.shape, bool), truth, np.ones(len(score)))
    assert found == pytest.approx(sure, abs=0.03)


def test_rows_held_for_impossible_make_no_others_surer():
    score, truth = drawn(4000)
    score *= 0.8
    score[:80, 5], truth[:80] = -60.0, 5
    assert fit_temperature(score, np.ones(score.shape, bool), truth, np.ones(len(score))) == 1.0


def of_pairs(rows: int, *, too_sure: float) -> tuple[np.ndarray, np.ndarray]:
    """Scores of three pairs of candidates and of "none": which of a pair it is, is told ``too_sure``, which pair too timidly."""
    rng = np.random.default_rng(3)
    pair, within = rng.normal(size=(rows, 3, 1)) * 4, rng.normal(size=(rows, 3, 2))
    right = (pair + within).reshape(rows, 6)
    p = np.exp(right)
    truth = ((p / p.sum(1, keepdims=True)).cumsum(1) < rng.random((rows, 1))).sum(1)
    told = (0.75 * pair + too_sure * within).reshape(rows, 6)
    return np.column_stack([told, np.full(rows, -30.0)]), truth


def gap(score: np.ndarray, truth: np.ndarray) -> float:
    """How much surer answers are than they are right, on average."""
    p = np.exp(score - score.max(1, keepdims=True))
    return float((p.max(1) / p.sum(1)).mean() - (score.argmax(1) == truth).mean())


def test_answers_are_as_sure_as_they_are_right_where_other_scores_are_not():
    score, truth = of_pairs(3000, too_sure=2.0)
    found = fit_temperature(score, np.ones(score.shape, bool), truth, np.ones(len(score)))
    assert abs(gap(score / found, truth)) < 0.015
    assert gap(score, truth) > 0.05


def test_the_unit_of_weights_does_not_matter():
    score, truth = drawn(300)
    weight = np.random.default_rng(2).random(300).astype(np.float32)
    found = [fit_temperature(1.4 * score, np.ones(score.shape, bool), truth, weight * unit) for unit in (0.001, 1, 100)]
    assert found == pytest.approx([found[1]] * 3, abs=1e-4) and found[1] > 1.1
