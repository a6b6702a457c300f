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
