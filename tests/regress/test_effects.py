"""Several trees at once around any estimator: `TreeEffects`."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from strategies import random_tree
from vpunn import Tree, TreeEffects, VPuNNRegressor, load
from vpunn.errors import VpunnError

#: A row given twice may stand in two folds.
FOLDS = {"check_sample_weight_equivalence_on_dense_data": "what f says of a row comes from folds of the rows"}


@parametrize_with_checks(
    [
        TreeEffects(LinearRegression(), max_iter=2),
        TreeEffects(DecisionTreeRegressor(max_depth=3, random_state=0), effects=[0]),
    ],
    expected_failed_checks=lambda _: FOLDS,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def crossed(n=600, seed=0):
    rng = np.random.default_rng(seed)
    shop, day, x = rng.integers(0, 40, n), rng.integers(0, 12, n), rng.normal(size=(n, 2))
    truth = {"shop": rng.normal(size=40), "day": 0.7 * rng.normal(size=12)}
    y = 3 + x @ [1.0, -0.5] + truth["shop"][shop] + truth["day"][day] + 0.3 * rng.normal(size=n)
    frame = pd.DataFrame({"shop": shop, "x": x[:, 0], "day": [f"d{k}" for k in day], "z": x[:, 1]})
    return frame, y, truth


def dense_reml(y, X, Zs, noise, variances):
    """−2 restricted log-likelihood and the effects' posterior mean, by matrices."""
    V = noise * np.eye(len(y)) + sum(s * Z @ Z.T for s, Z in zip(variances, Zs, strict=True))
    solved = np.linalg.solve(V, np.column_stack([y, X]))
    gram = X.T @ solved[:, 1:]
    beta = np.linalg.solve(gram, X.T @ solved[:, 0])
    rest = solved[:, 0] - solved[:, 1:] @ beta
    deviance = np.linalg.slogdet(V)[1] + np.linalg.slogdet(gram)[1] + (y - X @ beta) @ rest
    return deviance, X @ beta + sum(s * Z @ (Z.T @ rest) for s, Z in zip(variances, Zs, strict=True)), rest


def test_crossed_effects_are_those_of_dense_matrices_and_near_their_likeliest_variances():
    frame, y, _ = crossed(300)
    y = y - frame["x"].to_numpy() + 0.5 * frame["z"].to_numpy()
    model = TreeEffects(effects=["shop", "day"]).fit(frame[["shop", "day"]], y)
    Zs = [pd.get_dummies(frame[name]).to_numpy(float) for name in ("shop", "day")]
    variances = [float(effect.depth_variance_[0]) for effect in model.effects_]
    here, mean, _ = dense_reml(y, np.ones((300, 1)), Zs, model.noise_variance_, variances)
    np.testing.assert_allclose(model.predict(frame[["shop", "day"]]), mean, atol=1e-4)
    for scale in ((1.3, 1), (0.75, 1), (1, 1.5), (1, 0.6)):  # no likelier place nearby, up to what the data can tell
        there = dense_reml(
            y, np.ones((300, 1)), Zs, model.noise_variance_, [s * v for s, v in zip(scale, variances, strict=True)]
        )[0]
        assert there > here - 0.2


def test_what_others_say_of_a_row_is_a_fit_without_it():
    rng = np.random.default_rng(1)
    group, y = rng.integers(0, 9, 40).astype(str), rng.normal(size=40)
    model = TreeEffects(effects=[0]).fit(group[:, None], y)
    effect = model._effects[0]
    again = VPuNNRegressor(penalty=model.noise_variance_ / effect.model.depth_variance_[0])
    effect.read(group[:, None].astype(object))
    effect.solve(y, np.ones(40), model.noise_variance_)
    left, variance = effect.left_out(y, model.noise_variance_)
    for i in (0, 7, 23):
        others = np.arange(40) != i
        again.fit(group[others, None], y[others])
        np.testing.assert_allclose(left[i], again.predict(group[[i], None])[0], atol=1e-9)
        y_changed = y.copy()
        y_changed[i] += 100
        effect.solve(y_changed, np.ones(40), model.noise_variance_)
        np.testing.assert_allclose(effect.left_out(y_changed, model.noise_variance_)[0][i], left[i], atol=1e-9)
    assert (variance > 0).all()


def test_frames_new_categories_intervals_explanations_and_saving(tmp_path):
    frame, y, truth = crossed(2000)
    model = TreeEffects(effects=["shop", "day"], cv=3, max_iter=2, random_state=0).fit(frame[:1500], y[:1500])
    mean, sd = model.predict(frame[1500:], return_std=True)
    assert np.sqrt(np.mean((mean - y[1500:]) ** 2)) < 0.4  # the noise is 0.3
    assert 0.93 < np.mean(np.abs(mean - y[1500:]) < 1.96 * sd) < 0.97
    assert np.sqrt(model.effects_[0].depth_variance_[0]) == pytest.approx(truth["shop"].std(), rel=0.2)
    new = frame[:2].assign(shop=[99, 99])
    assert (model.predict(new, return_std=True)[1] > 0.8).all()
    told = model.explain(frame[:1])
    assert told.prediction == pytest.approx(model.predict(frame[:1])[0]) and "shop, the sum of" in str(told)
    again = TreeEffects(effects=["shop", "day"], cv=3, max_iter=2, random_state=0).fit(
        pl.from_pandas(frame[:1500]), y[:1500]
    )
    np.testing.assert_array_equal(again.predict(pl.from_pandas(frame)), model.predict(frame))
    kept = load(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(kept.predict(frame, return_std=True), model.predict(frame, return_std=True))
    assert kept.explain(frame[:1]).prediction == told.prediction
    with pytest.raises(VpunnError, match="LinearRegression has no form without pickle"):
        TreeEffects(LinearRegression(), effects=["shop"]).fit(frame.drop(columns="day"), y).save(tmp_path / "no")


def test_slopes_levels_and_trees_with_branches():
    rng = np.random.default_rng(2)
    tree = random_tree(120, 2)
    tree = tree.replace(columns={"length": rng.exponential(size=tree.n_nodes)})
    tips = rng.choice(tree.leaves, 900)
    steps = rng.normal(size=tree.n_nodes) * np.sqrt(tree.columns["length"])
    value = np.array([steps[tree.ancestors(int(tip))].sum() for tip in tips])
    person, x = rng.integers(0, 50, 900), rng.normal(size=900)
    slope = rng.normal(size=50)
    y = value + slope[person] * x + 0.3 * rng.normal(size=900)
    frame = pd.DataFrame({"species": tree.labels[tips], "person": person, "x": x})
    effects = {"species": {"tree": tree, "evolution": "brownian"}, "person": {"slope": "x"}}
    model = TreeEffects(LinearRegression(), effects=effects).fit(frame, y)
    assert model.names_ == ["species", "person × x"]
    assert model.noise_variance_ == pytest.approx(0.09, rel=0.25)
    found = model.effects_[1].coef_[1:] / model._effects[1].unit
    there = np.asarray(model.effects_[1].tree_.labels[1:], int)
    assert np.corrcoef(found + model.effects_[1].coef_[0], slope[there])[0, 1] > 0.98
    nested = TreeEffects(effects=[("person", "species")], max_iter=1).fit(frame[["person", "species"]], y)
    assert nested.effects_[0].tree_.max_depth == 2
    with pytest.raises(VpunnError, match="'nobody'"):
        model.fit(frame.assign(species=["nobody", *frame["species"][1:]]), y)
    for evolution in ("lambda", "kappa", "ou", "auto"):
        small = TreeEffects(effects={0: {"tree": tree, "evolution": evolution}}).fit(frame[["species"]].to_numpy(), y)
        assert np.isfinite(small.predict(frame[["species"]].to_numpy(), return_std=True)).all()


def test_a_grid_of_settings_is_searched():
    frame, y, _ = crossed(120)
    grid = {"effects": [["shop", "day"], {"shop": Tree.from_edges([("root", k) for k in range(40)]), "day": None}]}
    found = GridSearchCV(TreeEffects(LinearRegression(), max_iter=2), grid, cv=2).fit(frame, y)
    assert np.isfinite(found.best_score_)


@pytest.mark.parametrize(
    ("effects", "words"),
    [
        ("shop", "a list or a dict; write"),
        (["nobody"], "no effect column 'nobody'"),
        ([9], "no position"),
        (["shop", "shop"], "given twice"),
        ([3.5], "an effect is a column"),
        ([True], "an effect is a column"),
        (Tree.from_parents([-1]), "a list or a dict of columns"),
        ({"shop": {"slope": ["x"]}}, "slope of the effect 'shop' must be a column"),
        ({"shop": {"tre": 1}}, "one says a tree, or a dict of"),
        ({"shop": {"lengths": 1}}, "lengths but no evolution"),
        ({"shop": {"slope": "day"}}, "must hold numbers"),
        (["shop"], "columns that are no effect must be numbers"),
    ],
)
def test_bad_effects_are_one_sentence(effects, words):
    frame, y, _ = crossed(30)
    with pytest.raises(VpunnError, match=words):
        TreeEffects(effects=effects).fit(frame, y)


@pytest.mark.parametrize("estimator", [TreeEffects(effects=[0]), VPuNNRegressor()], ids=["effects", "regressor"])
@pytest.mark.parametrize(
    ("y", "weight", "words"),
    [
        ([1e300, 1, 2], None, "y holds 1e.300 in row 0"),
        ([1, 10**400, 2], None, "no float can hold"),
        (["a", "b", "c"], None, "y must hold numbers"),
        ([1, 2, None], None, "y is missing in rows 2"),
        ([1, np.inf, 2], None, "y holds inf in row 1"),
        ([1, 2], None, "inconsistent numbers of samples"),
        ([[1], [1, 2], [3]], None, "equally many"),
        (np.array(["2020-01-01"] * 3, "M8[D]"), None, "dates or times"),
        ([1, 2, 3], [1e300] * 3, "at most 1e.15"),
        ([1, 2, 3], [1e-300] * 3, "at least 1e-15"),
    ],
)
def test_what_is_no_target_and_no_weight_is_one_sentence(estimator, y, weight, words):
    with pytest.raises(VpunnError, match=words):
        clone(estimator).fit([["a"], ["b"], ["a"]], y, sample_weight=weight)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"tol": "a"}, "tol must be a number"),
        ({"estimator": LinearRegression}, "estimator must be a regressor"),
        ({"effects": {0: {"slope": 1}}, "x": 0.0}, "is 0 in every row"),
        ({"effects": {0: {"slope": 1}}, "x": 1e300}, "up to 1e.150"),
        ({"estimator": LinearRegression(), "x": np.nan}, "LinearRegression cannot use the columns that are no effect"),
        ({"x": 10**400}, "columns that are no effect must be numbers"),
    ],
)
def test_settings_and_covariates_that_cannot_be_used_are_one_sentence(changed, words):
    x = changed.get("x", 1.0)
    X = np.array([[name, x] for name in "ababcc"], object)
    changed = {name: value for name, value in changed.items() if name != "x"}
    with pytest.raises(VpunnError, match=words):
        TreeEffects(**{"effects": [0], **changed}).fit(X, np.arange(6.0))


def test_extremes_are_answered():
    constant = TreeEffects(effects=[0]).fit([["a"], ["b"], ["a"]], [2.0, 2.0, 2.0])
    mean, sd = constant.predict([["a"], ["c"]], return_std=True)
    assert mean.tolist() == [2, 2] and (sd < 1e-6).all()
    X = np.array([["a", 1.0], ["b", 2.0], ["a", 3.0], ["b", np.nan]] * 30, object)
    weighted = TreeEffects(effects=[0], random_state=1).fit(
        X, np.arange(120.0), sample_weight=np.r_[np.ones(60), np.zeros(60)]
    )
    assert np.isfinite(weighted.predict(X)).all()  # the default estimator reads missing covariates
    X[:, 1] = np.nan  # says nothing
    assert np.isfinite(TreeEffects(effects=[0], max_iter=1).fit(X, np.arange(120.0)).predict(X)).all()
    with pytest.raises(VpunnError, match="max_iter must be a whole number"):
        TreeEffects(max_iter=0).fit(X[:, 1:], np.arange(120.0))
