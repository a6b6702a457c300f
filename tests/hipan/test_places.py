"""Rows that stand where others stood: told by those, whatever lies beside them."""

from __future__ import annotations

import numpy as np
import pytest

import vpunn
from vpunn.hipan import HiPaNClassifier
from vpunn.hipan._balls import Items
from vpunn.hipan._places import PLACED, UNKNOWN, Places, repeats


def rows_of_places(classes=30, columns=2, places=300, rows=2600, seed=0):
    """Rows that repeat some places, each of which has one class by lot: neighbours tell nothing."""
    rng = np.random.default_rng(seed)
    at, where = rng.integers(0, places, rows), rng.uniform(-90, 90, (places, columns))
    label = rng.integers(0, classes, places)
    return where[at], np.array([f"c{k:03}" for k in label[at]])


@pytest.mark.parametrize("seed", range(3))
def test_places_match_a_slow_twin(seed):
    rng = np.random.default_rng(seed)
    unit = rng.choice([-0.5, 0.0, 0.5], (60, 2)).astype(np.float32)
    length = rng.choice([0.0, 1.0, 2.0], 60).astype(np.float32)
    node, kind = rng.integers(1, 6, 60).astype(np.int32), (rng.random(60) < 0.2).astype(np.int8)
    weight = rng.choice([1.0, 3.0], 40).astype(np.float32)
    places = Places(unit[:40], length[:40], Items(unit[:40], node[:40], weight, kind[:40]), 6)
    counts_as = weight / weight[(kind[:40] == 0) & (length[:40] > 0)].mean()
    candidates = np.array([rng.permutation([1, 2, 3, 4, 5, -1]) for _ in range(60)], np.int32)
    found, proposed = places.evidence(unit, length, candidates), places.propose(unit, length, 3)
    nobody = UNKNOWN / (len(np.unique(node[:40])) + 1)
    met = 0
    for r in range(60):
        same = [
            i
            for i in range(40)
            if kind[i] == 0 and length[r] > 0 and length[i] == length[r] and np.array_equal(unit[i], unit[r])
        ]
        share = np.zeros(7)
        np.add.at(share, node[same], counts_as[same])
        met += bool(same)
        for j, c in enumerate([*candidates[r], 0]):
            told = np.log((share[c] + nobody) / (share.sum() + UNKNOWN)) if same and c >= 0 else 0.0
            assert found[r, j, 0] == pytest.approx(told, rel=1e-5)
        there = [c for c in proposed[r] if c >= 0]
        assert len(there) == min((share > 0).sum(), 3)
        assert share[there].tolist() == sorted(share, reverse=True)[: len(there)]
    assert 10 < met < 60


def test_only_narrow_blocks_whose_rows_repeat_have_places():
    rng = np.random.default_rng(0)
    apart = rng.normal(size=(200, 3)).astype(np.float32)
    again = np.concatenate([apart[:180], apart[:20] * 1.0])
    assert not repeats(apart) and not repeats(again[:185]) and repeats(again)  # 20 rows twice are 40 of 200
    assert not repeats(np.zeros((50, 3), np.float32))  # they say nothing
    assert not repeats(np.tile(rng.normal(size=(50, 70)), (2, 1)).astype(np.float32))
    assert repeats(np.array([[0.0, 1.0], [-0.0, 1.0]], np.float32))


@pytest.mark.parametrize(("classes", "columns"), [(5, 1), (30, 2), (100, 2)])
def test_rows_of_known_places_are_told_by_them(classes, columns):
    X, y = rows_of_places(classes, columns)
    model = HiPaNClassifier(random_state=0).fit(X[:1600], y[:1600])
    known = (X[1600:, None] == X[:1600]).all(2).any(1)
    right = model.predict(X[1600:]) == y[1600:]
    sure = np.asarray(model.posterior(X[1600:]).top_k(1)[1])[:, 0]
    assert right[known].mean() > 0.98
    assert abs(sure[known].mean() - right[known].mean()) < 0.06


def test_rows_of_new_places_are_answered_by_their_neighbours():
    rng = np.random.default_rng(1)
    where = rng.uniform(-1, 1, (900, 2))
    label = np.where(np.hypot(*where.T) < 0.6, "inside", "outside")
    old = rng.integers(0, 500, 1500)
    model = HiPaNClassifier(random_state=0).fit(where[old], label[old])
    assert any(name.endswith(PLACED[0]) for name in model.experts_.names())
    right = model.predict(where[500:]) == label[500:]
    sure = np.asarray(model.posterior(where[500:]).top_k(1)[1])[:, 0]
    assert right.mean() > 0.93 and abs(sure.mean() - right.mean()) < 0.04


def test_saved_loaded_and_learned_further(tmp_path):
    X, y = rows_of_places()
    model = HiPaNClassifier(random_state=0).fit(X[:1200], y[:1200])
    model.save(tmp_path / "model")
    loaded = vpunn.load(tmp_path / "model")
    for a, b in zip(model.posterior(X[1200:1500]).top_k(3), loaded.posterior(X[1200:1500]).top_k(3), strict=True):
        assert np.array_equal(a, b)
    asked = X[1200:1240]
    whole = model.posterior(asked).top_k(3)[1]
    for step in (1, 7):  # the same bits in any batch
        parts = [model.posterior(asked[k : k + step]).top_k(3)[1] for k in range(0, 40, step)]
        assert np.array_equal(np.concatenate(parts), whole)
    new = ~(X[1200:, None] == X[:1200]).all(2).any(1)
    more, asked = X[1200:][new][::2], y[1200:][new][::2]
    before = (loaded.predict(more) == asked).mean()
    loaded.partial_fit(more, asked)
    assert (loaded.predict(more) == asked).mean() > max(before, 0.95)
