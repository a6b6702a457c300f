"""How much of the spread within classes of a small table is taken back, against sums made again without each row."""

from __future__ import annotations

import numpy as np
import pytest

from vpunn.hipan._within import _LeftOut, usual_doubt, within


def test_how_much_of_a_spread_is_taken_back():
    rng = np.random.default_rng(0)
    node = np.repeat([1, 2], 15)
    plain = rng.normal(size=(30, 6)) + node[:, None]
    usual = usual_doubt(6, 28)
    assert within(plain, node, 6).doubt == usual  # nothing speaks for less
    common = 5 * rng.normal(size=(30, 1))
    repeated = common + 0.1 * rng.normal(size=(30, 6)) + 0.2 * (node[:, None] == 1) * np.array([1, -1, 1, -1, 1, -1])
    little = within(repeated, node, 6).doubt
    assert little < usual / 8
    told_by_none = common + 0.1 * rng.normal(size=(30, 6))
    assert within(told_by_none, node, 6).doubt > little  # likelier, but no class is told by it
    wide = np.tile(repeated, (1, 11))
    assert within(wide, node, 66).doubt == usual_doubt(66, 28)


def test_a_row_left_out_of_a_spread_is_what_the_sums_without_it_say():
    rng = np.random.default_rng(1)
    at = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2, 2])
    Z = rng.normal(size=(10, 3)) @ rng.normal(size=(3, 3)) + at[:, None]
    count = np.bincount(at)
    means = np.stack([Z[at == c].mean(0) for c in range(3)])
    inside = Z - means[at]
    spread = inside.T @ inside / 7
    left, doubt, usual = _LeftOut(Z, inside, at, means, count, spread, 0.5), 0.3, 0.5
    far, _, share = left._far(doubt, left._spread(doubt))
    losses = left._losses(doubt)
    for i in range(10):
        rest = np.arange(10) != i
        mean = np.stack([Z[rest & (at == c)].mean(0) for c in range(3)])
        own = Z[rest] - mean[at[rest]]
        around = (1 - doubt) * own.T @ own / 6 + doubt * usual * np.eye(3)
        square = np.einsum("ci,ij,cj->c", Z[i] - mean, np.linalg.inv(around), Z[i] - mean)
        assert left.grown[i] * far[i] == pytest.approx(square[at[i]])
        assert np.log(left._spread(doubt)).sum() + np.log(share[i]) == pytest.approx(np.linalg.slogdet(around)[1])
        n = np.bincount(at[rest])
        score = np.log(n + 0.5) - 4.0 * np.log1p(square / (1 + 1 / n) / 7)
        assert losses[i] == pytest.approx(np.log(np.exp(score).sum()) - score[at[i]])
