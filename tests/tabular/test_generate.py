"""Boosters, the conditional generator, edits, saving, and the measures that judge generated rows."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vpunn
from stores import edit_array
from vpunn.errors import DataError, VpunnError
from vpunn.tabular import Generator, LatentTreeEncoder, Mahalanobis, TabHiPaN, median_bandwidth, mmd, two_sample_auc
from vpunn.tabular._columns import TableCoder
from vpunn.tabular._forest import Forest
from vpunn.tabular.boosting import Booster, guess_kind
from vpunn.tabular.generator import CodeVAE, NormalScores


def people(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """Two kinds of rows that differ in every column, with gaps."""
    random = np.random.default_rng(seed)
    kind = random.random(n) < 0.4
    table = pd.DataFrame(
        {
            "height": np.where(kind, 180, 160) + random.normal(size=n) * 4,
            "income": np.exp(np.where(kind, 2.0, 0.0) + 0.3 * random.normal(size=n)),
            "town": np.where(random.random(n) < 0.9, np.where(kind, "Ulm", "Bonn"), "Kiel"),
            "children": random.poisson(np.where(kind, 3, 1)),
        }
    )
    table.loc[random.random(n) < 0.2, "income"] = np.nan
    table.loc[random.random(n) < 0.1, "town"] = None
    return table


@pytest.fixture(scope="module")
def model() -> TabHiPaN:
    pytest.importorskip("torch.nn", reason="needs torch (extra tab)")
    table = people()
    encoder = LatentTreeEncoder(p=3, K=3)
    return TabHiPaN(encoder, generator=Generator(60, hidden=32, latent=4), rounds=20).fit(
        table, table["height"] + table["children"]
    )


# ---- predicting --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["lightgbm", "sklearn"])
def test_boosters_learn_numbers_and_classes_with_gaps(engine):
    if engine == "lightgbm":
        pytest.importorskip("lightgbm")
    table = TableCoder().fit(people())
    numbers, codes = table.split(people())
    x = np.column_stack([numbers, np.where(codes >= 0, codes, np.nan)])
    y = numbers[:, 0]
    half = len(x) // 2
    values = Booster("regression", [3], rounds=50, engine=engine).fit(x[:half], y[:half]).predict(x[half:])
    assert np.abs(values - y[half:]).mean() < 2.0
    for classes in (np.array(["low", "high"])[(y > 170).astype(int)], np.digitize(y, [160, 178])):
        model = Booster("classification", [3], rounds=30, engine=engine).fit(x[:half], classes[:half])
        chance = model.predict(x[half:])
        np.testing.assert_allclose(chance.sum(axis=1), 1.0)
        assert (model.classes_[chance.argmax(axis=1)] == classes[half:]).mean() > 0.9


def test_without_lightgbm_scikit_learn_takes_over(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    rows = np.random.default_rng(0).normal(size=(60, 2))
    model = TabHiPaN(rounds=10).fit(rows, rows[:, 0])
    assert model.plain_.engine == "sklearn"
    assert model.predict(rows).shape == (60,)


def test_without_torch_one_sentence_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(VpunnError, match=r"pip install 'vpunn\[tab\]'"):
        TabHiPaN(generator=Generator()).fit(np.random.default_rng(0).normal(size=(20, 2)))


def test_kinds_are_guessed():
    assert guess_kind(["a", "b"]) == "classification"
    assert guess_kind([1, 2, 3]) == "classification"
    assert guess_kind([1.5, 2.0]) == "regression"
    assert guess_kind(np.arange(30)) == "regression"


def test_the_target_never_enters_the_code():
    table = people()
    a = TabHiPaN(rounds=5).fit(table, table["height"])
    b = TabHiPaN(rounds=5).fit(table, -table["height"])
    np.testing.assert_array_equal(a.encoder_.leaf_, b.encoder_.leaf_)


# ---- generating --------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
@settings(max_examples=60, deadline=None)
def test_normal_scores_stay_in_range_and_keep_order(values):
    column = np.array(values)[:, None]
    scores = NormalScores.of(column)
    forward = scores.forward(column)
    back = scores.backward(forward)
    order = np.argsort(column[:, 0], kind="stable")
    assert (np.diff(forward[order, 0]) >= 0).all()
    assert back.min() >= column.min() - 1e-6
    assert back.max() <= column.max() + 1e-6


def test_samples_look_like_the_table(model):
    table = people()
    made = model.sample(400, seed=1)
    assert list(made.columns) == list(table.columns)
    assert set(made["town"].dropna()) <= {"Ulm", "Bonn", "Kiel"}
    assert (made["children"] == made["children"].round()).all()
    assert made["income"].isna().mean() == pytest.approx(0.2, abs=0.08)
    coder = model.encoder_.table_
    fresh = people(1500, seed=5)
    real, fake = coder.matrix(fresh), coder.matrix(made)
    width = median_bandwidth(real)
    random = np.random.default_rng(0)
    shuffled = fresh.apply(lambda c: c.to_numpy()[random.permutation(len(c))])  # right columns, not together
    assert mmd(real, fake, width).mmd < 0.6 * mmd(real, coder.matrix(shuffled), width).mmd


def test_samples_obey_the_ball(model):
    for ball in ("1", "2"):
        made = model.sample(200, ball, seed=2)
        node = model.encoder_.find(ball)
        inside = model.tree_.is_ancestor(node, model.encoder_.apply(made))
        assert np.mean(inside) > 0.8


def test_same_seed_same_rows_and_a_saved_model_is_the_same(model, tmp_path):
    pd.testing.assert_frame_equal(model.sample(20, seed=3), model.sample(20, seed=3))
    assert not model.sample(20, seed=3).equals(model.sample(20, seed=4))
    path = model.save(tmp_path / "model")
    again = vpunn.load(path, verify=True)
    pd.testing.assert_frame_equal(model.sample(20, seed=3), again.sample(20, seed=3))
    np.testing.assert_array_equal(model.predict(people()), again.predict(people()))
    np.testing.assert_array_equal(model.predict(people(), code=False), again.predict(people(), code=False))
    row = people(1, seed=5)
    one, other = (m.edit(row, 1, seed=2) for m in (model, again))
    pd.testing.assert_frame_equal(one.rows, other.rows)
    np.testing.assert_array_equal(one.distance, other.distance)
    assert str(again.encoder_.describe(1)) == str(model.encoder_.describe(1))
    assert again.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    again.save(tmp_path / "again")
    names = sorted(p.name for p in path.iterdir())
    assert [(path / n).read_bytes() for n in names] == [(tmp_path / "again" / n).read_bytes() for n in names]
    assert not [n for n in names if not n.endswith((".npy", ".json"))]


def test_same_seed_same_weights_and_no_trace_in_global_random_numbers():
    pytest.importorskip("torch.nn", reason="needs torch (extra tab)")
    import torch

    table = people(100)
    encoder = LatentTreeEncoder(p=3, K=2).fit(table)
    numbers, codes = encoder.table_.split(table)
    before = torch.random.get_rng_state()
    size = {"epochs": 3, "hidden": 8, "latent": 2, "seed": 7}
    a, b = (CodeVAE(encoder.table_, encoder.tree_, **size).fit(numbers, codes, encoder.leaf_) for _ in range(2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert a.history == b.history
    assert a.history[-1] < a.history[0]


# ---- editing -----------------------------------------------------------------------------------------------------------


def test_an_edit_keeps_the_digits_above_and_lands_in_an_existing_ball(model):
    table = people(seed=9)
    tree, edits = model.tree_, 0
    for i in range(40):
        row = table.iloc[[i]]
        leaf = int(model.encoder_.apply(row)[0])
        for depth in range(1, int(tree.depth[leaf]) + 1):
            if tree.n_children[tree.ancestor_at(leaf, depth - 1)] < 2:
                continue
            twins = model.edit(row, depth, twins=6, seed=i)
            edits += 1
            assert (twins.codes[:, : depth - 1] == twins.code[: depth - 1]).all()
            assert (twins.codes[:, depth - 1] != twins.code[depth - 1]).all()
            powers = np.array([model.encoder_.code_.p**k for k in range(twins.codes.shape[1])])
            goal = model.encoder_.code_.decode(twins.codes @ powers)  # raises if a code does not exist
            assert tree.is_leaf[goal].all()
            target = model.encoder_.find(twins.target)
            np.testing.assert_array_equal(twins.landed, tree.is_ancestor(target, model.encoder_.apply(twins.rows)))
            shift = np.nan_to_num(twins.shift[:, : len(model.encoder_.table_.numeric)])
            assert (twins.distance >= np.abs(shift).max(axis=1) - 1e-6).all()  # E-80: no column may move farther
    assert edits > 60


def test_wide_edits_move_the_columns_that_differ(model):
    row = {"height": 160.0, "income": 1.0, "town": "Bonn", "children": 1}
    twins = model.edit(row, 1, twins=30)
    assert twins.landed.mean() > 0.9
    assert twins.rows["height"].mean() > 168
    assert "height" in twins.changed(twins.best())
    assert "→" in str(twins)


def test_impossible_edits_are_one_sentence(model):
    row = people(1, seed=3)
    for settings_, words in (({"depth": 9}, "no digit 9"), ({"depth": 1, "digit": 7}, "has digit 7; choose from")):
        with pytest.raises(VpunnError, match=words):
            model.edit(row, **settings_)
    with pytest.raises(VpunnError, match="one row"):
        model.edit(people(2))
    bare = TabHiPaN().fit(people(50))
    with pytest.raises(VpunnError, match="no generator"):
        bare.sample(3)
    with pytest.raises(VpunnError, match="without a target"):
        bare.predict(people(5))


# ---- measures ----------------------------------------------------------------------------------------------------------


def test_mmd_equals_its_definition():
    random = np.random.default_rng(0)
    a, b = random.normal(size=(9, 3)), random.normal(size=(12, 3)) + 0.5

    def k(x, y):
        return np.exp(-((x - y) ** 2).sum() / (2 * 1.3**2))

    aa = np.mean([k(x, y) for i, x in enumerate(a) for j, y in enumerate(a) if i != j])
    bb = np.mean([k(x, y) for i, x in enumerate(b) for j, y in enumerate(b) if i != j])
    ab = np.mean([k(x, y) for x in a for y in b])
    assert mmd(a, b, 1.3).squared == pytest.approx(aa + bb - 2 * ab)
    with pytest.raises(VpunnError, match="at least 2 rows"):
        mmd(a[:1], b, 1.0)
    with pytest.raises(VpunnError, match="give a bandwidth"):
        median_bandwidth(np.zeros((5, 2)))


def test_permutation_test_has_the_right_level():
    random = np.random.default_rng(1)
    p = [mmd(random.normal(size=(30, 2)), random.normal(size=(30, 2)), 1.0, 99, seed=i).p_value for i in range(60)]
    assert np.mean(np.array(p) <= 0.1) < 0.25
    assert min(p) >= 0.01


def test_two_sample_auc_knows_equal_from_different():
    random = np.random.default_rng(2)
    a, b = random.normal(size=(2, 300, 3))
    assert abs(two_sample_auc(a, b) - 0.5) < 0.1
    assert two_sample_auc(a, b + 1.5) > 0.85
    assert abs(two_sample_auc(a, a.copy()) - 0.5) < 0.1  # copies share a fold, so they cannot be told apart


def test_the_papers_twin_is_impossible(wine):
    """AUDIT E-80 and acceptance test 19: +2.3 alcohol is at least 1.86 from the original, whatever else changes."""
    assert int(wine.duplicated().sum()) == 937
    table = wine.drop(columns="quality")
    row = table.loc[[4869]]
    assert (row["pH"].item(), row["alcohol"].item()) == (3.19, 9.8)
    coder = TableCoder().fit(table)
    metric = Mahalanobis.of(coder.matrix(table))
    rows = pd.concat([table.sample(500, random_state=0).assign(alcohol=12.1), row.assign(alcohol=12.1)])
    distance = metric(coder.matrix(rows), coder.matrix(row))
    assert distance.min() > 1.86
    assert distance[-1] == pytest.approx(5.19, abs=0.01)  # only alcohol moves


def test_bad_targets_are_one_sentence():
    rows = np.random.default_rng(0).normal(size=(30, 2))
    for kind, target, word in (
        ("classification", ["a"] * 30, "at least two classes"),
        ("classification", np.array([1, "a"] * 15, dtype=object), "compare"),
        ("regression", ["a", "b"] * 15, "target of numbers"),
        ("regression", [np.inf] + [1.0] * 29, "infinite in row 0"),
        ("regression", [1.0, np.nan] + [1.0] * 28, "missing or infinite in row 1"),
    ):
        with pytest.raises(VpunnError, match=word):
            TabHiPaN(rounds=2, kind=kind).fit(rows, target)


def test_damaged_and_foreign_models_are_one_sentence(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 2))
    fitted = TabHiPaN(rounds=5).fit(rows, rows.sum(axis=1))
    for name, values, said in (
        ("encoder.prototypes", lambda a: a[:, :1], "shape"),
        ("encoder.prototype_ball", lambda a: a * 0, "no leaf ball"),
        ("encoder.leaf", lambda a: a + 10**6, "not below"),
        ("encoder.table.numeric", lambda a: a * 0, "both numeric and a category"),
        ("plain.lightgbm", lambda a: a[:50], "LightGBM cannot read"),
        ("metric", lambda a: a * np.inf, "not finite"),
    ):
        path = fitted.save(tmp_path / "m")
        edit_array(path, name, values)
        with pytest.raises(DataError, match=said):
            TabHiPaN.load(path)
    (tmp_path / "old").write_bytes(b"vpunn-tabhipan-1\nabc")
    with pytest.raises(DataError, match=r"vpunn 0.1, which is no longer read; fit and save it again"):
        TabHiPaN.load(tmp_path / "old")
    with pytest.raises(DataError, match="there is no model folder"):
        TabHiPaN.load(tmp_path / "none")


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_scikit_learn_boosting_is_saved_as_arrays(tmp_path, monkeypatch, classes):
    monkeypatch.setattr("vpunn.tabular.boosting.best_engine", lambda: "sklearn")
    rng = np.random.default_rng(0)
    rows = np.where(rng.random((300, 3)) < 0.1, np.nan, rng.normal(size=(300, 3)))
    y = np.nan_to_num(rows).sum(axis=1) + rng.integers(0, 2, 300)
    rows = pd.DataFrame(rows, columns=list("abc")).assign(town=rng.choice(["Ulm", "Bonn", "Jena"], 300))
    target = y if not classes else np.array(list("abc"))[np.digitize(y, [1.0, 3.0][: classes - 1])]
    model = TabHiPaN(rounds=20).fit(rows, target)
    answer = model.predict(rows) if not classes else model.predict_proba(rows)
    again = TabHiPaN.load(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(again.predict(rows) if not classes else again.predict_proba(rows), answer)
    for name, values, said in (
        ("coded.forest.left", lambda a: a * 0, "does not lead down"),
        ("coded.forest.feature", lambda a: a + 10**6, "not below"),
        ("coded.forest.base", lambda a: a * np.nan, "not finite"),
    ):
        path = model.save(tmp_path / "m")
        edit_array(path, name, values)
        with pytest.raises(DataError, match=said):
            TabHiPaN.load(path)


def test_a_forest_answers_as_scikit_learn_does():
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng(1)
    x = np.column_stack([rng.normal(size=(400, 2)), rng.choice([1.0, 4.0, 9.0, np.nan], 400)])
    y = (np.nan_to_num(x[:, 2]) > 3).astype(int) + (x[:, 0] > 0)
    model = HistGradientBoostingClassifier(max_iter=15, categorical_features=[2], random_state=0).fit(x, y)
    asked = np.column_stack([rng.normal(size=(200, 2)), rng.choice([1.0, 4.0, 5.0, 9.0, np.nan], 200)])
    np.testing.assert_array_equal(Forest.of(model, [2], x, 3).predict(asked), model.predict_proba(asked))


def test_any_random_state_will_do():
    rows = np.random.default_rng(0).normal(size=(80, 2))
    for state in (None, np.random.RandomState(3), np.int64(3)):
        assert TabHiPaN(random_state=state).fit(rows).seed_ >= 0
    one, two = (TabHiPaN(random_state=np.random.RandomState(3)).fit(rows).seed_ for _ in range(2))
    assert one == two


def test_edit_refuses_an_incomplete_row(model):
    with pytest.raises(VpunnError, match="lacks the column 'income'"):
        model.edit({"height": 170.0, "town": "Ulm", "children": 1, "incme": 3.0}, 1)
    with pytest.raises(VpunnError, match="2 values"):
        model.edit([170.0, 1.0], 1)
    with pytest.raises(VpunnError, match="twins must be"):
        model.edit(people(1), 1, twins=0)
    for many in (-1, 2.5):
        with pytest.raises(VpunnError, match="n must be"):
            model.sample(many)


def test_one_seed_reaches_the_encoder():
    rows = np.random.default_rng(0).normal(size=(300, 3))
    encoder = LatentTreeEncoder("kmeans", p=5, K=3)
    one, two = (TabHiPaN(encoder, random_state=7).fit(rows).encoder_.transform(rows) for _ in range(2))
    assert (one == two).all()
