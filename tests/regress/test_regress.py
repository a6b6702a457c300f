"""The two-sweep solver against dense matrices, and the estimators on top of it."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from strategies import random_tree, trees
from vpunn.errors import VpunnError
from vpunn.regress import VPuNNClassifier, VPuNNRegressor, shrinkage
from vpunn.regress.shrinkage import fit_class_shrinkage, fit_shrinkage, restricted_log_likelihood
from vpunn.tree import Tree
from vpunn.tree.build import UNKNOWN


@parametrize_with_checks([VPuNNRegressor(), VPuNNClassifier()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# ---- the solver against its dense twin --------------------------------------------------------------------------


def dense_solution(tree, nodes, y, X, ratios):
    """Generalised least squares with the full covariance matrix: β, σ², c_B, covariance of (u, β), −2 log REML."""
    member = np.zeros((len(y), tree.n_nodes))
    for i, node in enumerate(nodes):
        member[i, tree.ancestors(int(node))] = 1.0
    prior = np.append(0.0, ratios)[tree.depth]
    V = np.eye(len(y)) + (member * prior) @ member.T
    F = np.column_stack([np.ones(len(y)), X])
    Vi = np.linalg.inv(V)
    C = np.linalg.inv(F.T @ Vi @ F)
    b = C @ F.T @ Vi @ y
    e = y - F @ b
    dof = len(y) - F.shape[1]
    noise = e @ Vi @ e / dof
    c = prior * (member.T @ Vi @ e)
    c[0] = b[0]
    deviance = np.linalg.slogdet(V)[1] - np.linalg.slogdet(C)[1] + dof * (np.log(2 * np.pi * noise) + 1)
    return b[1:], noise, c, C[1:, 1:] * noise, -0.5 * deviance


def predictive_variance_twin(tree, nodes, X, ratios, noise, node, x):
    """Var(new y | y) = kriging variance with estimated mean, by dense matrices."""
    covariance = lambda u, v: np.append(0.0, ratios)[: tree.lca_depth(u, v) + 1].sum()  # noqa: E731
    V = np.eye(len(nodes)) + [[covariance(int(u), int(v)) for v in nodes] for u in nodes]
    k = np.array([covariance(int(node), int(v)) for v in nodes])
    F = np.column_stack([np.ones(len(nodes)), X])
    f = np.append(1.0, x)
    Vi = np.linalg.inv(V)
    away = f - F.T @ Vi @ k
    return noise * (1 + covariance(int(node), int(node)) - k @ Vi @ k + away @ np.linalg.inv(F.T @ Vi @ F) @ away)


@st.composite
def problems(draw):
    tree = draw(trees(25))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, covariates = draw(st.integers(6, 20)), draw(st.integers(0, 2))
    nodes = rng.integers(tree.n_nodes, size=n)
    X = rng.normal(size=(n, covariates)) * [10.0, 0.1][:covariates]
    y = 5.0 + X.sum(axis=1) + rng.normal(size=n) + rng.normal(size=tree.n_nodes)[nodes]
    return tree, nodes, y, X, rng.uniform(0.05, 3.0, size=tree.max_depth)


@given(problems())
@settings(max_examples=60, deadline=None)
def test_two_sweeps_equal_the_dense_solution(problem):
    tree, nodes, y, X, ratios = problem
    fit = fit_shrinkage(tree, nodes, y, covariates=X, ratios=ratios)
    beta, noise, c, beta_covariance, likelihood = dense_solution(tree, nodes, y, X, ratios)
    np.testing.assert_allclose(fit.beta, beta, atol=1e-8)
    assert fit.noise == pytest.approx(noise)
    np.testing.assert_allclose(fit.coefficients(tree), c, atol=1e-7)
    np.testing.assert_allclose(fit.beta_covariance, beta_covariance, rtol=1e-6)
    assert fit.log_likelihood == pytest.approx(likelihood)
    assert restricted_log_likelihood(tree, nodes, y, ratios, covariates=X) == fit.log_likelihood
    for node in range(min(tree.n_nodes, 4)):
        x = np.ones(X.shape[1])
        twin = predictive_variance_twin(tree, nodes, X, ratios, noise, node, x)
        assert fit.predictive_variance(tree, np.array([node]), covariates=x[None])[0] == pytest.approx(twin)


@given(problems())
@settings(max_examples=40, deadline=None)
def test_it_is_the_ridge_minimiser(problem):
    """No small change of the coefficients lowers Σ(y−F)² + Σ c²/r."""
    tree, nodes, y, _, ratios = problem
    c = fit_shrinkage(tree, nodes, y, ratios=ratios).coefficients(tree)
    chains = [tree.ancestors(int(node)) for node in nodes]

    def loss(coefficients):
        fitted = np.array([coefficients[chain].sum() for chain in chains])
        return ((y - fitted) ** 2).sum() + (coefficients[1:] ** 2 / np.append(0, ratios)[tree.depth[1:]]).sum()

    rng = np.random.default_rng(0)
    for _ in range(5):
        assert loss(c) <= loss(c + rng.normal(size=len(c)) * 1e-3)


@given(problems())
@settings(max_examples=40, deadline=None)
def test_likelihood_gradient(problem):
    tree, nodes, y, X, ratios = problem
    work = shrinkage._Problem(tree, shrinkage._moments_of_rows(tree, nodes, y, X, np.ones(len(y))))
    at = np.log(ratios)
    gradient = work.objective(at)[1]
    for k in range(tree.max_depth):
        step = np.zeros(tree.max_depth)
        step[k] = 1e-5
        slope = (work.objective(at + step)[0] - work.objective(at - step)[0]) / 2e-5
        assert gradient[k] == pytest.approx(slope, abs=1e-4)


def test_marginal_likelihood_recovers_the_variances():
    rng = np.random.default_rng(0)
    parent = np.concatenate([[-1], np.zeros(40, int), np.repeat(np.arange(1, 41), 25)])
    tree = Tree.from_parents(parent)
    effects = rng.normal(size=tree.n_nodes) * np.sqrt([0.0, 4.0, 0.5])[tree.depth]
    leaves = np.repeat(tree.leaves, 4).astype(np.int64)
    y = effects[leaves] + effects[tree.parent[leaves]] + rng.normal(size=len(leaves)) * 0.7
    fit = fit_shrinkage(tree, leaves, y)
    assert fit.converged
    assert fit.noise == pytest.approx(0.49, rel=0.05)
    assert fit.ratios * fit.noise == pytest.approx([4.0, 0.5], rel=0.35)
    best = fit.log_likelihood
    assert best > restricted_log_likelihood(tree, leaves, y, fit.ratios * 1.5)
    assert best > restricted_log_likelihood(tree, leaves, y, fit.ratios / 1.5)


def test_predictive_intervals_cover_new_rows_seen_and_unseen():
    rng = np.random.default_rng(1)
    rows, inside = 0, 0
    for _ in range(20):
        order = rng.integers(12, size=400)
        genus = rng.integers(60, size=400)
        effect = {key: rng.normal() for key in set(zip(order, genus, strict=True))}
        level = rng.normal(size=12) * 2
        y = level[order] + [effect[key] for key in zip(order, genus, strict=True)] + rng.normal(size=400) * 0.5
        X = np.column_stack([order, genus])
        mean, sd = VPuNNRegressor().fit(X[:300], y[:300]).predict(X[300:], return_std=True)
        inside += np.sum(np.abs(y[300:] - mean) < 1.96 * sd)
        rows += 100
    assert 0.92 < inside / rows < 0.975


def test_deep_trees_and_many_rows():
    tree = random_tree(30_000, seed=2, reach=3000)
    rng = np.random.default_rng(0)
    nodes = rng.integers(tree.n_nodes, size=100_000)
    y = rng.normal(size=tree.n_nodes)[tree.parent[nodes]] + rng.normal(size=len(nodes))
    fit = fit_shrinkage(tree, nodes, y)
    assert np.isfinite(fit.values).all()
    chain = Tree.from_parents(np.arange(-1, 3000))
    assert np.isfinite(fit_shrinkage(chain, np.array([10, 2999, 3000]), np.array([1.0, 2.0, 4.0])).values).all()


# ---- the regressor --------------------------------------------------------------------------------------------------

LEVELS = pd.DataFrame(
    {
        "order": ["Rodentia", "Rodentia", "Rodentia", "Rodentia", "Cetacea", "Cetacea"],
        "genus": ["Mus", "Mus", "Rattus", None, "Orcinus", "Orcinus"],
    }
)
Y = np.array([1.2, 1.4, 2.3, 2.0, 6.5, 6.6])


def test_prediction_is_the_sum_of_coefficients_along_the_path():
    model = VPuNNRegressor().fit(LEVELS, Y)
    tree = model.tree_
    nodes = tree.locate([("Rodentia", "Mus"), ("Rodentia",), ("Cetacea", "Orcinus")]).nodes
    by_hand = [model.coef_[tree.ancestors(int(node))].sum() for node in nodes]
    np.testing.assert_allclose(model.predict(LEVELS.iloc[[0, 3, 4]]), by_hand)
    assert model.depth_variance_.shape == (2,)


def test_unseen_labels_fall_back_to_their_known_ancestors():
    model = VPuNNRegressor().fit(LEVELS, Y)
    rows = pd.DataFrame(
        [
            ["Rodentia", None],
            ["Rodentia", "Glis"],
            ["Rodentia", ""],
            ["Primates", "Mus"],
            [None, None],
            ["Rodentia", "Orcinus"],
        ],
        columns=LEVELS.columns,
    )
    mean, sd = model.predict(rows, return_std=True)
    assert mean[0] == mean[1] == mean[2] == mean[5]  # Orcinus is no known genus *of Rodentia*
    assert mean[3] == mean[4] == pytest.approx(model.coef_[0])
    assert sd[0] == sd[2] < sd[1] == sd[5]  # a blank may be a known genus, another name is not
    assert sd[4] < sd[3]
    known = model._fits[0].variance[model.nodes_of(rows[1:2])] + model.noise_variance_
    assert sd[1] ** 2 - known == pytest.approx(model.depth_variance_[1])


def test_one_column_of_labels_with_a_given_tree_equals_level_columns():
    levels = VPuNNRegressor().fit(LEVELS, Y)
    labels = np.array(["Mus", "Mus", "Rattus", "Rodentia", "Orcinus", "Orcinus"], dtype=object)[:, None]
    given_tree = VPuNNRegressor(levels.tree_).fit(labels, Y)
    np.testing.assert_allclose(given_tree.predict(labels), levels.predict(LEVELS))
    mean, sd = given_tree.predict([["Glis"], ["Rodentia"], ["root"]], return_std=True)
    assert mean[0] == mean[2]
    assert sd[0] > sd[2]
    paths = VPuNNRegressor(levels.tree_).fit(LEVELS, Y)
    np.testing.assert_allclose(paths.predict(LEVELS), levels.predict(LEVELS))


def test_a_node_of_the_given_tree_without_data_inherits():
    tree = Tree.from_paths([("a", "x"), ("a", "y"), ("b", "z")], root="r")
    model = VPuNNRegressor(tree).fit([["x"], ["x"], ["b"]], [1.0, 1.2, 3.0])
    mean, sd = model.predict([["y"], ["a"]], return_std=True)
    assert mean[0] == pytest.approx(mean[1])
    assert sd[0] > sd[1]


def test_weights_count_repetitions_and_zero_removes():
    rng = np.random.default_rng(0)
    X, y, w = rng.integers(4, size=(40, 2)), rng.normal(size=40), rng.integers(0, 4, size=40)
    weighted = VPuNNRegressor().fit(X, y, sample_weight=w)
    repeated = VPuNNRegressor().fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(weighted.predict(X[w > 0]), repeated.predict(X[w > 0]), rtol=1e-5)
    assert weighted.log_likelihood_ == pytest.approx(repeated.log_likelihood_)


def test_several_targets_equal_one_by_one():
    both = VPuNNRegressor().fit(LEVELS, np.column_stack([Y, -(Y**2)]))
    mean, sd = both.predict(LEVELS, return_std=True)
    for j, target in enumerate((Y, -(Y**2))):
        one, one_sd = VPuNNRegressor().fit(LEVELS, target).predict(LEVELS, return_std=True)
        np.testing.assert_allclose(mean[:, j], one)
        np.testing.assert_allclose(sd[:, j], one_sd)
    assert both.coef_.shape == (2, both.tree_.n_nodes)


def test_covariates_by_name_and_position_and_in_a_pipeline():
    rng = np.random.default_rng(0)
    n = 300
    frame = pd.DataFrame(
        {"mass": rng.normal(size=n), "order": rng.choice(list("abcdef"), n), "sex": rng.choice(["m", "f"], n)}
    )
    y = (
        2.0 * frame["mass"]
        + frame["order"].map(dict(zip("abcdef", rng.normal(size=6), strict=True)))
        + rng.normal(size=n) * 0.1
    )
    model = VPuNNRegressor(covariates=["mass"]).fit(frame, y)
    assert model.covariate_coef_ == pytest.approx([2.0], abs=0.03)
    assert model.tree_.max_depth == 2
    assert model.score(frame, y) > 0.97
    array = VPuNNRegressor(covariates=[0]).fit(frame.to_numpy(), y.to_numpy())
    np.testing.assert_allclose(array.predict(frame.to_numpy()), model.predict(frame))
    holes = frame.assign(mass=frame["mass"].mask(rng.uniform(size=n) < 0.1))
    reorder = make_column_transformer((SimpleImputer(), ["mass"]), ("passthrough", ["order", "sex"]))
    assert make_pipeline(reorder, VPuNNRegressor(covariates=[0])).fit(holes, y).score(holes, y) > 0.8
    # a constant and a duplicated covariate change nothing
    wide = frame.assign(one=1.0, again=frame["mass"])
    same = VPuNNRegressor(covariates=["mass", "one", "again"]).fit(wide, y)
    np.testing.assert_allclose(same.predict(wide), model.predict(frame), atol=1e-6)


def test_given_penalty_is_ridge():
    free = VPuNNRegressor(penalty=1e-6).fit(LEVELS, Y)
    assert free.predict(LEVELS)[[0, 2, 4]] == pytest.approx([1.3, 2.3, 6.55], abs=1e-3)
    pooled = VPuNNRegressor(penalty=[1e9, 1e9]).fit(LEVELS, Y)
    assert pooled.predict(LEVELS) == pytest.approx(np.full(6, Y.mean()), abs=1e-5)


def test_small_and_degenerate_data():
    for X, y in (
        ([["a"]], [1.0]),
        ([["a"], ["b"]], [3.0, 3.0]),
        ([["a"], ["a"]], [1.0, 2.0]),
        ([[None], [np.nan]], [1.0, 2.0]),
    ):
        model = VPuNNRegressor().fit(np.array(X, dtype=object), y)
        mean, sd = model.predict(np.array([*X, ["new"]], dtype=object), return_std=True)
        assert np.isfinite(mean).all()
        assert np.isfinite(sd).all()
        assert mean[-1] == pytest.approx(np.mean(y))
    exact = VPuNNRegressor().fit(LEVELS, np.array([1.0, 1.0, 2.0, 1.5, 7.0, 7.0]))
    assert exact.predict(LEVELS)[[0, 4]] == pytest.approx([1.0, 7.0], abs=0.05)
    wide = np.arange(400)[:, None]  # 400 children, one row each
    assert np.isfinite(VPuNNRegressor().fit(wide, np.arange(400.0)).predict(wide)).all()


def test_gaps_keep_their_depth_and_number_types_do_not_matter():
    gappy = pd.DataFrame({"order": ["a", "a", "b"], "family": [None, "f", "g"], "genus": ["x", "y", "z"]})
    model = VPuNNRegressor().fit(gappy, [1.0, 2.0, 3.0])
    assert model.tree_.path(int(model.tree_.index("x"))) == ("root", "a", UNKNOWN, "x")
    numbers = VPuNNRegressor().fit(np.array([[1.0], [1.5], [2.0]]), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(numbers.predict([[2.0], [1]]), numbers.predict([[1.5], [2.0], [1.0]])[1:])


def test_shuffled_tree_removes_the_gain():
    rng = np.random.default_rng(0)
    family = np.repeat(np.arange(30), 40)
    genus = np.arange(1200) // 4
    y = rng.normal(size=30)[family] + 0.5 * rng.normal(size=300)[genus] + 0.3 * rng.normal(size=1200)
    test = rng.uniform(size=1200) < 0.5
    mixed = rng.permutation(family.reshape(-1, 4)[:, 0])[genus]  # every genus gets another one's family

    def error(families):
        X = np.column_stack([families, genus])
        return np.mean((VPuNNRegressor().fit(X[~test], y[~test]).predict(X[test]) - y[test]) ** 2)

    flat = np.mean((VPuNNRegressor().fit(genus[~test, None], y[~test]).predict(genus[test, None]) - y[test]) ** 2)
    assert error(family) < 0.9 * flat
    assert error(mixed) > 0.95 * flat


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: VPuNNRegressor(tree="mammals").fit(LEVELS, Y), "must be a vpunn.Tree"),
        (
            lambda: VPuNNRegressor(Tree.from_parents([-1, 0], ["r", "Mus"])).fit([["Mus"], ["Glis"]], [1, 2]),
            "'Glis'; add them",
        ),
        (
            lambda: VPuNNRegressor(Tree.from_parents([-1, 0, 0], ["r", "a", "a"])).fit([["a"]], [1]),
            "names 2 nodes",
        ),
        (
            lambda: VPuNNRegressor(Tree.from_parents([-1, 0, 0], ["r", "a", "a"])).fit([["a", "b"]], [1]),
            "two children named",
        ),
        (lambda: VPuNNRegressor(covariates=["mass"]).fit(LEVELS, Y), "no covariate column 'mass'"),
        (lambda: VPuNNRegressor(covariates=[7]).fit(LEVELS, Y), "is no position in X"),
        (lambda: VPuNNRegressor(covariates=[0, 1]).fit(LEVELS, Y), "every column is a covariate"),
        (lambda: VPuNNRegressor(covariates=["genus"]).fit(LEVELS, Y), "must hold numbers"),
        (lambda: VPuNNRegressor(covariates=[0]).fit([[np.nan, "a"], [1.0, "b"]], [1, 2]), "rows 0"),
        (lambda: VPuNNRegressor(penalty=0).fit(LEVELS, Y), "positive"),
        (lambda: VPuNNRegressor(penalty=[1.0]).fit(LEVELS, Y), "each of the 2 depths"),
        (lambda: VPuNNRegressor().fit(LEVELS, Y, sample_weight=np.zeros(6)), "all sample weights are zero"),
        (lambda: VPuNNRegressor().fit(LEVELS, Y, sample_weight=-np.ones(6)), "at least 0; got"),
        (lambda: VPuNNRegressor().fit(LEVELS, Y).predict(LEVELS[["order"]]), "[Ff]eature"),
    ],
)
def test_bad_input_is_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()


# ---- the classifier -------------------------------------------------------------------------------------------------


@given(trees(15), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_leave_one_out_is_exact_and_distributions_are_proper(tree, seed):
    rng = np.random.default_rng(seed)
    n, classes = 12, 3
    nodes, column = rng.integers(tree.n_nodes, size=n), rng.integers(classes, size=n)
    ratios = rng.uniform(0.1, 3.0, size=tree.max_depth)
    found = fit_class_shrinkage(tree, nodes, column, classes, np.ones(n), ratios)
    assert (found.proba > 0).all()
    np.testing.assert_allclose(found.proba.sum(axis=1), 1.0)
    np.testing.assert_allclose(found.left_out.sum(axis=1), 1.0)
    for i in range(n):
        keep = np.arange(n) != i
        again = fit_class_shrinkage(tree, nodes[keep], column[keep], classes, np.ones(n - 1), ratios)
        np.testing.assert_allclose(found.left_out[i], again.proba[nodes[i]], atol=1e-9)
    own = found.left_out[np.arange(n), column]
    assert found.log_loss == pytest.approx(-np.log(own).mean())


@given(trees(15), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_chosen_mixing_is_a_minimum_of_the_leave_one_out_loss(tree, seed):
    rng = np.random.default_rng(seed)
    nodes, column = rng.integers(tree.n_nodes, size=60), rng.integers(2, size=60)
    weight = np.ones(60)
    best = fit_class_shrinkage(tree, nodes, column, 2, weight)

    def penalised(ratios):
        prior = np.log(ratios) / shrinkage.PRIOR_SD
        return 60 * fit_class_shrinkage(tree, nodes, column, 2, weight, ratios).log_loss + 0.5 * prior @ prior

    for k in range(tree.max_depth):
        step = np.ones(tree.max_depth)
        step[k] = 1.3
        assert penalised(best.ratios) <= penalised(best.ratios * step) + 1e-4
        assert penalised(best.ratios) <= penalised(best.ratios / step) + 1e-4


def test_classifier_is_calibrated_and_falls_back():
    from vpunn.metrics import calibration_error_interval

    rng = np.random.default_rng(0)
    n = 6000
    order, genus = rng.integers(8, size=n), rng.integers(40, size=n)
    rate = rng.beta(1, 1, size=8)
    local = np.clip(rate[:, None] + rng.normal(size=(8, 40)) * 0.2, 0, 1)
    y = np.where(rng.uniform(size=n) < local[order, genus], "yes", "no")
    X = np.column_stack([order, genus])
    model = VPuNNClassifier().fit(X[:3000], y[:3000])
    proba = model.predict_proba(X[3000:])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    right = model.predict(X[3000:]) == y[3000:]
    assert calibration_error_interval(proba.max(axis=1), right).value < 0.04
    np.testing.assert_allclose(
        model.predict_proba([[0, 999]])[0], model.node_proba_[model.tree_.locate([(0,)]).nodes[0]]
    )
    np.testing.assert_allclose(model.predict_proba([[999, 0]])[0], model.node_proba_[0])


def test_classifier_covariates_help_when_they_carry_the_signal():
    rng = np.random.default_rng(0)
    n = 2000
    group, x = rng.integers(20, size=n), rng.normal(size=n)
    score = rng.normal(size=20)[group] + 2.0 * x
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-score))).astype(int)
    X = np.column_stack([group, x])
    train = np.arange(n) < 1000
    with_x = VPuNNClassifier(covariates=[1]).fit(X[train], y[train])
    without = VPuNNClassifier().fit(X[train, :1], y[train])
    assert with_x.score(X[~train], y[~train]) > without.score(X[~train, :1], y[~train]) + 0.1
    np.testing.assert_allclose(with_x.predict_proba(X).sum(axis=1), 1.0)


def test_classifier_edge_cases():
    one = VPuNNClassifier().fit([["a"], ["b"]], ["x", "x"])
    np.testing.assert_array_equal(one.predict_proba([["a"], ["c"]]), [[1.0], [1.0]])
    rare = VPuNNClassifier().fit([["a"]] * 5 + [["b"]], list("xxxxxy"))  # a class with one sample
    assert rare.predict_proba([["b"]])[0, 1] > rare.predict_proba([["a"]])[0, 1] > 0
    with pytest.raises(VpunnError, match="not in the tree"):
        VPuNNClassifier(Tree.from_parents([-1, 0], ["r", "a"])).fit([["b"]], ["x"])


def test_clone_keeps_the_tree():
    tree = Tree.from_parents([-1, 0, 0], ["r", "a", "b"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clone(VPuNNRegressor(tree)).tree == tree


@pytest.mark.parametrize("unit", [1e-140, 1e-13, 1e13, 1e140])
def test_predictions_do_not_depend_on_the_unit_of_y(unit: float) -> None:
    X, y = [["a", "x"], ["a", "y"], ["b", "z"], ["b", "z"], ["c", "w"]], np.array([1.0, 2.0, 5.0, 6.0, 3.0])
    scaled = VPuNNRegressor().fit(X, y * unit).predict(X)
    np.testing.assert_allclose(scaled / unit, VPuNNRegressor().fit(X, y).predict(X), rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"covariates": "mass"}, "write ['mass']"),
        ({"covariates": 1}, "write [1]"),
        ({"covariates": [1.0]}, "column 1.0 is no position"),
        ({"penalty": [1, 2, 3]}, "one for each of the 2 depths, got [1, 2, 3]"),
        ({"penalty": "large"}, "got 'large'"),
    ],
)
def test_options_that_make_no_sense_are_named(options: dict, words: str) -> None:
    with pytest.raises(VpunnError) as error:
        VPuNNRegressor(**options).fit([["a", "x"], ["b", "y"]], [1.0, 2.0])
    assert words in str(error.value)


def test_missing_classes_are_named() -> None:
    with pytest.raises(VpunnError, match="y is missing in rows 1"):
        VPuNNClassifier().fit([["a"], ["b"], ["a"]], np.array(["u", None, "v"], object))
