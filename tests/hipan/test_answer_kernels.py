"""Compiled steps between scores and a distribution, beside whole-array operations that say the same."""

import numpy as np
import pytest

from vpunn.errors import VpunnError
from vpunn.hipan._combiner import Combiner, anything
from vpunn.hipan._rest import BY_PRIOR, Rings, spread_rest
from vpunn.hipan.kernels.combine import softmax
from vpunn.hipan.kernels.dictionary import unit_readings


@pytest.mark.parametrize("seed", range(3))
def test_softmax_over_candidates_and_none(seed):
    rng = np.random.default_rng(seed)
    candidates = np.where(np.arange(6) < rng.integers(0, 7, (40, 1)), 1, -1).astype(np.int32)
    score = np.where(candidates >= 0, rng.normal(0, 9, candidates.shape), -np.inf)
    score = np.concatenate([score, rng.normal(0, 9, (40, 1))], 1).astype(np.float32)
    n_classes = 6  # rows with six candidates have all of them: "none" is no answer
    p, none, numbers = softmax(score, candidates, n_classes)
    slow = score.astype(np.float64)
    slow[(candidates >= 0).all(1), -1] = -np.inf
    slow = np.exp(slow - slow.max(1, keepdims=True))
    slow /= slow.sum(1, keepdims=True)
    assert numbers
    assert np.allclose(np.column_stack([p, none]), slow, rtol=1e-12, atol=0)
    alone = [softmax(score[i : i + 1], candidates[i : i + 1], n_classes) for i in range(40)]
    assert all(np.array_equal(a[0][0], b) and a[1][0] == c for a, b, c in zip(alone, p, none, strict=True))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_no_numbers_are_refused(bad):
    numbers = np.zeros((1, 1), np.float32)
    combiner = Combiner(
        np.zeros(1, np.float32),
        np.ones(1, np.float32),
        *anything(1),
        np.full(1, bad, np.float32),
        numbers,
        np.zeros(1, np.float32),
        np.zeros(1, np.float32),
        np.zeros(()),
        BY_PRIOR,
    )
    with pytest.raises(VpunnError, match="not finite"):
        combiner.shares(np.ones((1, 3, 1), np.float32), np.array([[1, 2]], np.int32), 9)


def test_readings_are_unit_rows_in_the_order_of_features():
    rng = np.random.default_rng(0)
    feature = np.array([rng.permutation(50)[:8] for _ in range(20)], np.int32)
    feature[np.arange(8) >= rng.integers(0, 9, (20, 1))] = -1
    value = np.where(feature >= 0, rng.random(feature.shape) + 0.01, 0).astype(np.float32)
    start, features, values = unit_readings(feature, value)
    assert start.tolist() == [0, *np.cumsum((feature >= 0).sum(1)).tolist()]
    for r in range(20):
        there = np.flatnonzero(feature[r] >= 0)
        order = there[np.argsort(feature[r][there])]
        here = slice(start[r], start[r + 1])
        assert np.array_equal(features[here], feature[r][order])
        assert np.allclose(values[here], value[r][order] / max(np.linalg.norm(value[r]), 1e-30), rtol=1e-6)


def test_the_rest_walks_inwards_ring_by_ring():
    rng = np.random.default_rng(1)
    shape = 30, 5
    ring, core = np.where(rng.random((2, *shape)) < 0.2, 0.0, rng.random((2, *shape)))
    rings = Rings(np.zeros(shape, np.int32), ring, core, rng.normal(0, 2, shape))
    rest, tilt, weights, unknown = rng.random(30), rng.random((30, 3)), rng.normal(0, 1, (2, 3)), rng.random(30) < 0.3
    found = spread_rest(rings, rest, tilt, weights, unknown)
    for r in range(30):
        inside = rest[r]
        for k in range(5):
            w = (BY_PRIOR if unknown[r] else weights)[min(k, 1)]
            inward = float(core[r, k] > 0)
            if core[r, k] > 0 and ring[r, k] > 0:
                inward = 1 / (1 + np.exp(-(w @ [1, rings.vote[r, k], np.log(core[r, k] / ring[r, k])])))
            assert np.isclose(found.inside[r, k], inside)
            assert np.isclose(found.factor[r, k], inside * (1 - inward) / ring[r, k] if ring[r, k] else 0)
            inside *= inward
    assert np.allclose(found.outer, found.factor[:, :1] * tilt)
