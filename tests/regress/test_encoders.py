"""Encoders: paths as features, and cross-fitted target encoding."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import TargetEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from vpunn.codes import PadicCode
from vpunn.errors import VpunnError
from vpunn.regress import VPuNNClassifier, VPuNNRegressor
from vpunn.regress.encoders import PadicEncoder, PadicTargetEncoder
from vpunn.tree import Tree

#: fit_transform is cross-fitted on purpose, so it differs from fit().transform(), as it does for scikit-learn's TargetEncoder.
CROSS_FITTED = {
    "check_transformer_general": "fit_transform is cross-fitted",
    "check_transformer_data_not_an_array": "fit_transform is cross-fitted",
}


@parametrize_with_checks(
    [PadicEncoder(), PadicEncoder(output="prefixes"), PadicEncoder(output="balls"), PadicTargetEncoder(random_state=0)],
    expected_failed_checks=lambda estimator: CROSS_FITTED if isinstance(estimator, PadicTargetEncoder) else {},
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def made_up(n=600, seed=0):
    rng = np.random.default_rng(seed)
    family, genus = rng.integers(8, size=n), rng.integers(40, size=n)
    y = rng.normal(size=8)[family] + rng.normal(size=(8, 40))[family, genus] * 0.5 + rng.normal(size=n) * 0.5
    return pd.DataFrame({"family": family.astype(str), "genus": genus.astype(str)}), y


def test_digits_are_those_of_the_code_and_prefixes_its_balls():
    X, _ = made_up(200)
    encoder = PadicEncoder().fit(X)
    tree = encoder.tree_
    nodes = tree.locate(X).nodes
    np.testing.assert_array_equal(encoder.transform(X), PadicCode(tree).digits(nodes))
    prefixes = PadicEncoder(output="prefixes").fit_transform(X)
    np.testing.assert_array_equal(prefixes[:, 1], nodes)
    np.testing.assert_array_equal(prefixes[:, 0], tree.parent[nodes])


def test_balls_span_every_function_of_the_node():
    X, y = made_up(300)
    encoder = PadicEncoder(output="balls").fit(X)
    balls = encoder.transform(X)
    assert sparse.issparse(balls)
    np.testing.assert_array_equal(
        PadicEncoder(output="balls", sparse_output=False).fit(X).transform(X), balls.toarray()
    )
    np.testing.assert_array_equal(balls.sum(axis=1), 2)
    means = pd.Series(y).groupby([X["family"], X["genus"]]).transform("mean")
    fitted = LinearRegression().fit(balls.toarray(), y).predict(balls.toarray())
    np.testing.assert_allclose(fitted, means, atol=1e-6)
    names = encoder.get_feature_names_out()
    assert len(names) == balls.shape[1]
    assert f"{X['family'][0]}/{X['genus'][0]}" in names


def test_ridge_on_balls_is_the_regressor():
    """The estimator's fixed penalty equals scikit-learn's Ridge on ball indicators: two ways to the same numbers."""
    X, y = made_up(300)
    balls = PadicEncoder(output="balls").fit_transform(X)
    ridge = Ridge(alpha=1.7, tol=1e-12).fit(balls.toarray(), y)
    np.testing.assert_allclose(
        ridge.predict(balls.toarray()), VPuNNRegressor(penalty=1.7).fit(X, y).predict(X), atol=1e-8
    )


def test_unseen_and_missing_labels():
    X = pd.DataFrame({"a": ["x", "x", "y"], "b": ["1", "2", None]})
    rows = pd.DataFrame({"a": ["x", "z", "y", None], "b": ["9", "1", None, None]})
    assert PadicEncoder().fit(X).transform(rows).tolist() == [[1, 0], [0, 0], [2, 0], [0, 0]]
    assert PadicEncoder(output="prefixes").fit(X).transform(rows)[:, 1].tolist() == [-1] * 4
    assert PadicEncoder(output="balls").fit(X).transform(rows).sum(axis=1).tolist() == [1, 0, 1, 0]
    encoder = PadicTargetEncoder(random_state=0).fit(X, [1.0, 2.0, 5.5])
    known = encoder.transform(pd.DataFrame({"a": ["x", None, "y"], "b": [None, None, None]}))
    np.testing.assert_array_equal(encoder.transform(rows)[:, 0], known[[0, 1, 2, 1], 0])


def test_transform_is_the_full_fit_and_fit_transform_leaves_the_fold_out():
    X, y = made_up()
    encoder = PadicTargetEncoder(cv=4, random_state=3)
    crossed = encoder.fit_transform(X, y)
    splitter = KFold(4, shuffle=True, random_state=3)
    np.testing.assert_array_equal(PadicTargetEncoder(cv=splitter).fit_transform(X, y), crossed)
    np.testing.assert_allclose(encoder.transform(X)[:, 0], VPuNNRegressor().fit(X, y).predict(X))
    for train, test in splitter.split(X):
        fold = VPuNNRegressor(encoder.tree_).fit(X.iloc[train], y[train])
        np.testing.assert_allclose(crossed[test, 0], fold.predict(X.iloc[test]))


def test_cross_fitting_does_not_leak_noise():
    """y is pure noise and every row its own category: a leaking encoder would correlate with y."""
    rng = np.random.default_rng(0)
    X, y = np.arange(500)[:, None], rng.normal(size=500)
    encoder = PadicTargetEncoder(random_state=0)
    assert abs(np.cov(encoder.fit_transform(X, y)[:, 0], y)[0, 1]) < 0.05
    assert np.corrcoef(encoder.transform(X)[:, 0], y)[0, 1] > 0.9  # why it is needed


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=25, deadline=None)
def test_a_rows_own_label_changes_nothing_in_its_own_encoding(seed, classes):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 3, 40), rng.integers(0, 12, 40)])
    y = rng.integers(0, 2, 40) if classes else rng.normal(size=40)
    row = int(rng.integers(40))
    flipped = y.copy()
    flipped[row] = 1 - y[row] if classes else y[row] + 1000
    kind = "classes" if classes else "continuous"
    once, again = (PadicTargetEncoder(target_type=kind, random_state=0).fit_transform(X, each) for each in (y, flipped))
    np.testing.assert_array_equal(once[row], again[row])


def test_beats_the_flat_target_encoder_in_a_pipeline():
    X, y = made_up(800, seed=1)
    ours = cross_val_score(make_pipeline(PadicTargetEncoder(random_state=0), LinearRegression()), X, y)
    flat = cross_val_score(make_pipeline(TargetEncoder(), LinearRegression()), X, y)
    assert ours.mean() > flat.mean() + 0.03


def test_targets_of_every_kind():
    X, y = made_up()
    labels = np.where(y > 1, "high", np.where(y < -1, "low", "mid"))
    three = PadicTargetEncoder(random_state=0).fit(X, labels)
    np.testing.assert_allclose(three.transform(X), VPuNNClassifier().fit(X, labels).predict_proba(X))
    assert three.get_feature_names_out().tolist() == ["padic_high", "padic_low", "padic_mid"]
    np.testing.assert_allclose(three.fit_transform(X, labels).sum(axis=1), 1.0)
    two = PadicTargetEncoder(random_state=0).fit(X, y > 0)
    assert two.transform(X).shape == (600, 1)
    both = PadicTargetEncoder(random_state=0).fit(X, np.column_stack([y, y**2]))
    assert both.get_feature_names_out().tolist() == ["padic0", "padic1"]
    np.testing.assert_allclose(both.transform(X)[:, :1], PadicTargetEncoder().fit(X, y).transform(X))
    counts = np.round(y).astype(int)
    assert PadicTargetEncoder(target_type="continuous").fit(X, counts).transform(X).shape == (600, 1)
    assert PadicTargetEncoder().fit(X, counts).transform(X).shape == (600, len(set(counts)))
    rare = np.where(np.arange(600) == 5, "once", "often")
    assert np.isfinite(PadicTargetEncoder(random_state=0).fit_transform(X, rare)).all()


def test_per_depth_ends_with_the_row_itself_and_output_can_be_pandas():
    X, y = made_up()
    deep = PadicTargetEncoder(per_depth=True, random_state=0).fit(X, y)
    assert deep.get_feature_names_out().tolist() == ["padic_depth1", "padic_depth2"]
    np.testing.assert_array_equal(deep.transform(X)[:, 1:], PadicTargetEncoder().fit(X, y).transform(X))
    frame = clone(deep).set_output(transform="pandas").fit_transform(X, y)
    assert list(frame.columns) == ["padic_depth1", "padic_depth2"]
    np.testing.assert_array_equal(frame.to_numpy(), clone(deep).fit_transform(X, y))
    assert list(PadicEncoder().set_output(transform="pandas").fit_transform(X).columns) == ["digit1", "digit2"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PadicEncoder(output="onehot").fit([["a"]]), "balls"),
        (lambda: PadicEncoder(Tree.from_parents([-1, 0], ["r", "a"])).fit([["b"]]), "not in the tree"),
        (lambda: PadicTargetEncoder(target_type="binary").fit([["a"]], [1.0]), "target_type"),
        (lambda: PadicTargetEncoder(cv=1).fit_transform([["a"], ["b"]], [1.5, 2.5]), "at least 2"),
        (lambda: PadicTargetEncoder(target_type="continuous").fit([["a"], ["b"]], ["u", "v"]), "numeric"),
    ],
)
def test_bad_input_is_named(make, words):
    with pytest.raises(VpunnError, match=words):
        make()


def test_folds_must_cover_every_row_once() -> None:
    from sklearn.model_selection import ShuffleSplit

    X, y = [["a", "x"], ["a", "y"], ["b", "z"], ["b", "z"]], [1.5, 2.5, 3.5, 4.5]
    for cv, words in (
        (ShuffleSplit(2, random_state=0), "exactly one test fold"),
        ("five", "got 'five'"),
        (None, "got None"),
    ):
        with pytest.raises(VpunnError, match=words):
            PadicTargetEncoder(cv=cv).fit_transform(X, y)
    with pytest.raises(VpunnError, match="y is missing in rows 2"):
        PadicTargetEncoder().fit(X, np.array(["u", "v", None, "u"], object))


def test_weights_are_those_of_the_estimators():
    X = np.array([["bird", "owl"], ["bird", "owl"], ["fish", "cod"], ["fish", "eel"], ["fish", "eel"]])
    weight = np.array([1.0, 3.0, 1.0, 0.5, 2.0])
    y, labels = np.array([1.0, 2.5, 5.5, 3.2, 3.9]), np.array(["a", "b", "a", "b", "b"])
    values = PadicTargetEncoder().fit(X, y, sample_weight=weight).transform(X)[:, 0]
    np.testing.assert_allclose(values, VPuNNRegressor().fit(X, y, sample_weight=weight).predict(X))
    chances = PadicTargetEncoder().fit(X, labels, sample_weight=weight).transform(X)[:, 0]
    np.testing.assert_allclose(chances, VPuNNClassifier().fit(X, labels, sample_weight=weight).predict_proba(X)[:, 1])
    assert not np.allclose(values, PadicTargetEncoder().fit(X, y).transform(X)[:, 0])
    with pytest.raises(VpunnError, match="at least 0; got"):
        PadicTargetEncoder().fit(X, y, sample_weight=-weight)
