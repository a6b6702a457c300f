"""Weights of rows in latent trees and in what is learned with them: copies, zeros, equal weights, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vpunn
from vpunn.errors import VpunnError
from vpunn.tabular import Generator, LatentTreeEncoder, Mahalanobis, TabHiPaN, _growing, encoder
from vpunn.tabular._columns import TableCoder
from vpunn.tabular._growing import grow_kmeans
from vpunn.tabular.boosting import Booster
from vpunn.tabular.generator import NormalScores

METHODS = {
    "ward": {"p": 4, "K": 3},
    "levels": {"nodes_per_level": [3, 7]},
    "two-stage": {"method": "two-stage", "n_prototypes": 12},
    "kmeans": {"method": "kmeans", "p": 4, "K": 2},
}
same = np.testing.assert_array_equal


def close(one, other):
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def people(n: int = 60, seed: int = 0) -> pd.DataFrame:
    """Numbers without ties, gaps, categories."""
    random = np.random.default_rng(seed)
    kind = random.random(n) < 0.4
    table = pd.DataFrame(
        {
            "height": np.where(kind, 180, 160) + 4 * random.normal(size=n),
            "income": np.exp(kind + random.normal(size=n)),
            "town": random.choice(["Ulm", "Bonn", "Kiel"], n),
        }
    )
    table.loc[random.random(n) < 0.1, "income"] = np.nan
    table.loc[random.random(n) < 0.1, "town"] = None
    return table


def tree_of(table, method="ward", **options):
    return LatentTreeEncoder(**METHODS[method], random_state=0).fit(table, **options)


def nearness(model, rows=slice(None)):
    """How many balls every two rows share: the tree without its digits."""
    leaf = model.leaf_[rows]
    return model.tree_.lca_depth(leaf[:, None], leaf[None])


def bytes_of(model):
    """Everything that a fit learned, bit for bit."""
    table, found, router = model.table_, model.statistics_, model._balls.router
    arrays = [
        model.leaf_,
        model.tree_.parent,
        table.mean,
        table.spread,
        table.missing,
        *table.shares,
        router.prototypes,
    ]
    arrays += [model.tree_.columns["rows"], found.rows, found.count, found.mean, found.spread, *found.shares]
    return [(array.dtype, array.tobytes()) for array in arrays]


@pytest.mark.parametrize("method", ["ward", "levels"])
@given(st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_whole_weights_are_copies(method, seed):
    table, weight = people(40, seed), np.random.default_rng(seed).integers(0, 4, 40)
    copy = np.repeat(np.arange(40), weight)
    weighted, copied = tree_of(table, method, sample_weight=weight), tree_of(table.iloc[copy], method)
    same(nearness(weighted, copy), nearness(copied))
    for name in ("mean", "spread", "missing"):
        close(getattr(weighted.table_, name), getattr(copied.table_, name))
    for one, other in zip(weighted.table_.shares, copied.table_.shares, strict=True):
        close(one, other)
    assert np.isclose(weighted.kept_, copied.kept_)
    for one, other in zip(weighted.leaf_[copy], copied.leaf_, strict=True):  # the same ball may have another digit
        close(weighted.tree_.columns["rows"][one], copied.tree_.columns["rows"][other])
        for name in ("rows", "count", "mean"):
            close(getattr(weighted.statistics_, name)[one], getattr(copied.statistics_, name)[other])
        close(weighted.statistics_.spread[one] ** 2, copied.statistics_.spread[other] ** 2)  # a difference of squares
        close(weighted.statistics_.shares[0][one], copied.statistics_.shares[0][other])
    assert weighted.describe(0).rows == len(copy)


@pytest.mark.parametrize("method", METHODS)
def test_equal_weights_are_no_weights(method):
    table = people()
    plain = tree_of(table, method)
    assert bytes_of(tree_of(table, method, sample_weight=np.ones(60))) == bytes_of(plain)
    assert bytes_of(tree_of(table, method, sample_weight=None)) == bytes_of(plain)
    for each in (0.3, 7):
        scaled = tree_of(table, method, sample_weight=each)  # one number for all
        same(scaled.transform(table), plain.transform(table))
        close(scaled.tree_.columns["rows"], each * plain.tree_.columns["rows"])
        close(scaled.statistics_.mean, plain.statistics_.mean)
    assert str(tree_of(table, sample_weight=0.5 / 60).describe(0)) == "branch all: 0.50 rows (100.0%)"


@pytest.mark.parametrize("method", METHODS)
def test_rows_of_weight_zero_take_no_part(method):
    table, weight = people(), np.random.default_rng(3).choice([0.0, 0.5, 2.0], 60)
    table.loc[weight == 0, "town"] = "Atlantis"
    table.loc[weight == 0, "height"] *= 1000
    used = weight > 0
    for given_ in (weight, 1.0 * used):
        whole = tree_of(table, method, sample_weight=given_)
        part = tree_of(table[used], method, sample_weight=given_[used])
        same(whole.leaf_[used], part.leaf_)
        same(whole.leaf_, whole.apply(table))  # all rows have a leaf
        same(whole.statistics_.mean, part.statistics_.mean)
        assert "Atlantis" not in whole.table_.levels[0]


@pytest.mark.parametrize("method", METHODS)
def test_a_weighted_tree_is_saved(tmp_path, method):
    table, weight = people(), np.random.default_rng(3).choice([0.0, 0.01, 0.2], 60)
    model = tree_of(table, method, sample_weight=weight)
    again = vpunn.load(model.save(tmp_path / "m"), verify=True)
    assert bytes_of(again) == bytes_of(model)
    assert str(again.describe(1)) == str(model.describe(1))
    assert np.isclose(model.tree_.columns["rows"][0], weight.sum())


@pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf])
def test_wrong_weights_are_refused(wrong):
    table, weight = people(), np.ones(60)
    weight[7] = wrong
    for model in (LatentTreeEncoder(), TabHiPaN()):
        with pytest.raises(VpunnError, match="finite and at least 0"):
            model.fit(table, sample_weight=weight)
    weight[7] = 1e-200
    with pytest.raises(VpunnError, match="from 1e-200 to 1 are too far from 1"):
        LatentTreeEncoder().fit(table, sample_weight=weight)


def test_refinement_takes_equal_weights_alone():
    table, half = people(), np.arange(60) % 2
    model = LatentTreeEncoder(K=2, refine=True)
    same(model.fit(table, sample_weight=half).leaf_[half > 0], model.fit(table[half > 0]).leaf_)
    with pytest.raises(VpunnError, match="refine=True takes no weights that differ"):
        model.fit(table, sample_weight=1 + half)


def test_an_unreadable_row_is_named_by_its_place():
    table, weight = people(), np.arange(60) % 2
    table.loc[31, "height"] = np.inf
    with pytest.raises(VpunnError, match="infinite value in row 31"):
        LatentTreeEncoder().fit(table, sample_weight=weight)


def test_heavy_rows_are_the_ones_that_prototypes_and_splits_are_learned_from(monkeypatch):
    """All but a hundred rows weigh next to nothing, more of them than a sample has room for: the hundred decide."""
    random = np.random.default_rng(0)
    rows = np.concatenate(
        [random.normal(size=(5000, 2)), 20 + random.normal(size=(50, 2)), random.normal(size=(50, 2)) - 20]
    )
    weights = np.where(np.arange(5100) < 5000, 1e-9, 1.0)
    balls = grow_kmeans(rows, 2, 1, seed=0, weights=weights)
    assert len({*balls.leaf[5000:5050]} | {*balls.leaf[5050:]}) == 2
    np.testing.assert_allclose(
        np.sort(balls.router.prototypes[1:, 0]), [-20, 20], atol=0.5
    )  # not between 0 and one of them
    np.testing.assert_allclose(balls.tree.columns["rows"][1:], 50, rtol=1e-4)
    monkeypatch.setattr(encoder, "SAMPLE_PER_PROTOTYPE", 10)
    centres, mass = encoder._prototypes(rows, 200, np.random.RandomState(0), weights)
    assert len(centres) <= 100 and mass.sum() == 2000 and (np.abs(centres) > 10).all()


def test_seeds_follow_weights():
    rows, inside = np.array([[0.0], [0.0], [5.0], [9.0]]), np.arange(4)
    uniform = np.random.default_rng(0).random((4000, 2))
    drawn = np.array([_growing._seeds(rows, inside, np.array([1.0, 2.0, 3.0, 4.0]), u) for u in uniform])
    np.testing.assert_allclose(np.bincount(drawn[:, 0]) / 4000, [0.1, 0.2, 0.3, 0.4], atol=0.03)
    second = drawn[drawn[:, 0] <= 1, 1]  # far and heavy rows are likelier
    np.testing.assert_allclose(np.bincount(second, minlength=4) / len(second), [0, 0, 75 / 399, 324 / 399], atol=0.05)
    assert len(_growing._seeds(rows, inside[:2], np.ones(2), np.array([0.9999999, 0.5]))) == 1


def test_without_weights_the_sums_are_plain_ones():
    """To the bit: trees of tables without weights are those of the versions that knew none."""
    table = people()
    coder = TableCoder().fit(table)
    numbers, codes = coder.split(table)
    seen = np.isfinite(numbers).sum(axis=0)
    same(coder.mean, np.nansum(numbers, axis=0) / seen)
    same(coder.spread, np.sqrt(np.nansum((numbers - coder.mean) ** 2, axis=0) / seen))
    same(coder.missing, 1.0 - seen / 60)
    same(coder.shares[0], np.bincount(codes[codes >= 0], minlength=3) / 60)
    rows = coder.scale(numbers, codes)
    drawn = np.sort(np.random.default_rng(5).choice(np.arange(60), 20, replace=False))
    same(_growing._sampled(np.arange(60), 20, None, np.random.default_rng(5))[0], drawn)
    for one, other in zip(
        _growing._split(rows, rows[:3], 9), _growing._split(rows, rows[:3], 9, np.ones(60)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)  # its own centre, in single precision


# ---- what is learned with the tree ---------------------------------------------------------------------------------------


def test_tables_distances_and_scores_count_copies():
    table, weight = people(), np.random.default_rng(0).integers(1, 4, 60).astype(float)
    copy = np.repeat(np.arange(60), weight.astype(int))
    coder = TableCoder().fit(table, weight)
    rows = coder.matrix(table)
    close(Mahalanobis.of(rows, weight).inverse, Mahalanobis.of(rows[copy]).inverse)
    numbers = coder.split(table)[0]
    level = (np.arange(500) + 0.5) / 500
    for found, column in zip(NormalScores.of(numbers, weights=weight).values, numbers[copy].T, strict=True):
        same(found, np.quantile(column[np.isfinite(column)], level, method="inverted_cdf"))


@pytest.mark.parametrize("engine", ["lightgbm", "sklearn"])
def test_boosters_learn_from_heavy_rows(engine):
    if engine == "lightgbm":
        pytest.importorskip("lightgbm")
    x = np.tile(np.arange(200.0)[:, None], (2, 1))
    y = np.repeat([1.0, -1.0], 200) * (x[:, 0] - 100)
    weights = np.repeat([1e-9, 9e-9], 200)  # only the ratio matters
    found = Booster("regression", rounds=100, engine=engine).fit(x, y, weights).predict(x[:200])
    assert np.corrcoef(found, 100 - x[:200, 0])[0, 1] > 0.99
    chances = (
        Booster("classification", rounds=50, engine=engine).fit(0 * x, y > 0, np.where(y > 0, 3.0, 1.0)).predict(x[:1])
    )
    share = 3 * (y > 0).sum() / (3 * (y > 0).sum() + (y <= 0).sum())
    assert abs(chances[0, 1] - share) < 0.02


def test_a_model_drops_rows_of_weight_zero_and_knows_equal_weights():
    pytest.importorskip("torch.nn", reason="needs torch (extra tab)")
    table, weight = people(120), np.arange(120) % 3 / 2
    target = pd.Series(np.where(weight > 0, np.arange(120.0), np.nan))  # nobody looks at the targets of dropped rows
    used = weight > 0

    def learned(rows, **options):
        model = TabHiPaN(LatentTreeEncoder(K=2), generator=Generator(2, hidden=8), rounds=5)
        return model.fit(table[rows], target[rows], **options)

    def answers(model):
        made = model.sample(20)["height"].to_numpy()
        return np.concatenate([model.predict(table), model.predict(table, code=False), made, model.vae_.history])

    every = np.full(120, True)
    same(answers(learned(every, sample_weight=weight)), answers(learned(used, sample_weight=weight[used])))
    same(answers(learned(used, sample_weight=3.0)), answers(learned(used)))
    assert not np.array_equal(answers(learned(used, sample_weight=weight[used])), answers(learned(used)))


def test_the_generator_follows_weights():
    pytest.importorskip("torch.nn", reason="needs torch (extra tab)")
    random = np.random.default_rng(0)
    town = random.choice(["Ulm", "Bonn"], 300)
    table = pd.DataFrame({"height": random.normal(size=300), "town": town})
    model = TabHiPaN(LatentTreeEncoder(p=3, K=1), generator=Generator(40, hidden=16, latent=2))
    made = model.fit(table, sample_weight=np.where(town == "Ulm", 9.0, 1.0)).sample(1000, seed=1)
    assert abs((made["town"] == "Ulm").mean() - 0.9) < 0.06
