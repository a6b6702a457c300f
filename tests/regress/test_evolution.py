"""Models along branches: their dense twin, intervals, noise, awkward data, saved models."""

import io

import numpy as np
import pytest

from vpunn import Tree, VpunnError, VPuNNRegressor, load, read_tree
from vpunn.regress import branch_lengths
from vpunn.regress.evolution import solution
from vpunn.regress.likelihood import Rows, evaluate
from vpunn.regress.variances import Branches


def random_tree(n, seed, zero=0.1):
    rng = np.random.default_rng(seed)
    parent = np.array([-1, *(rng.integers(max(0, i - 6), i) for i in range(1, n))])
    length = np.where(rng.random(n) < zero, 0.0, rng.exponential(size=n) * 3)
    return Tree.from_parents(parent, [f"n{i}" for i in range(n)], columns={"length": length})


def dense(branches, model, parameters):
    """Covariance of all nodes' values, from the definition by distances."""
    tree, share = branches.tree, parameters.get("lambda", 1.0)
    step = branches.length.copy()
    step[0] = 0
    if model == "kappa":
        step = np.where(step > 0, step ** parameters["kappa"], 0)
    n = tree.n_nodes
    chain = np.zeros((n, n))
    for i in range(n):
        chain[i, tree.ancestors(i)] = 1
    shared = chain @ np.diag(step) @ chain.T
    if model != "ou":
        return share * shared, (1 - share) * np.diag(shared)
    away = np.diag(shared)[:, None] + np.diag(shared) - 2 * shared
    alpha = parameters["alpha"]
    return share * np.exp(-alpha * away) / (2 * alpha), (1 - share) * -np.expm1(-2 * alpha * np.diag(shared)) / (
        2 * alpha
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("repeated", [False, True])
def test_two_sweeps_are_the_dense_solution(seed, repeated):
    rng = np.random.default_rng(seed)
    tree = random_tree(40, seed, zero=0)
    branches = Branches.of(tree)
    leaves = np.asarray(tree.leaves)
    nodes = rng.choice(np.arange(1, 40) if not repeated else leaves, 25, replace=repeated)
    y, X = rng.normal(size=25), rng.normal(size=(25, 2))
    model, parameters = [
        ("brownian", {}),
        ("ou", {"alpha": 2.0, "lambda": 0.7}),
        ("kappa", {"kappa": 0.4, "lambda": 0.9}),
    ][seed % 3]
    parameters = dict(parameters) | {"noise": 0.3} if repeated else dict(parameters) | {"lambda": 0.8}
    model = "lambda" if model == "brownian" else model
    rows = Rows.of(branches, nodes, y, X, np.ones(25), None)
    fit = solution(rows, model, parameters)
    V, own = dense(branches, model, parameters)
    at = nodes
    full = V[np.ix_(at, at)]
    if repeated:
        full = full + np.where(at[:, None] == at, own[at], 0.0) + 0.3 * np.eye(25)
    else:
        full = full + np.diag(own[at])
    A = np.column_stack([np.ones(25), X])
    inverse = np.linalg.inv(full)
    information = A.T @ inverse @ A
    beta = np.linalg.solve(information, A.T @ inverse @ y)
    rest = y - A @ beta
    rate = rest @ inverse @ rest / (25 - 3)
    np.testing.assert_allclose(fit.beta, beta, atol=1e-7)
    np.testing.assert_allclose(fit.beta_covariance, np.linalg.inv(information) * rate, atol=1e-7)
    value = V[:, at] + (
        np.where(np.asarray(tree.is_leaf)[:, None] & (np.arange(40)[:, None] == at), own[:, None], 0) if repeated else 0
    )
    np.testing.assert_allclose(fit.values, beta[0] + value @ inverse @ rest, atol=1e-6)
    prior = np.diag(V) + (np.where(tree.is_leaf, own, 0) if repeated else 0)
    known = prior - np.einsum("ij,jk,ik->i", value, inverse, value)
    np.testing.assert_allclose(fit.variance, known * rate, atol=1e-6)
    restricted = 22 * np.log(2 * np.pi * rate) + 22 + np.linalg.slogdet(full)[1] + np.linalg.slogdet(information)[1]
    np.testing.assert_allclose(fit.log_likelihood, -0.5 * restricted, atol=1e-6)


def test_known_errors_of_measurement_are_the_dense_likelihood():
    rng, tree = np.random.default_rng(1), random_tree(30, 5, zero=0)
    leaves = np.asarray(tree.leaves)
    y, error = rng.normal(size=len(leaves)), rng.uniform(0.1, 1, len(leaves))
    branches = Branches.of(tree)
    rows = Rows.of(branches, leaves, y, np.zeros((len(y), 0)), np.ones(len(y)), error)
    state = evaluate(rows, "lambda", {"lambda": 0.5, "rate": 0.8})
    V, own = dense(branches, "lambda", {"lambda": 0.5})
    full = 0.8 * (V[np.ix_(leaves, leaves)] + np.diag(own[leaves])) + np.diag((error / y.std()) ** 2)
    z, ones = (y - y.mean()) / y.std(), np.ones(len(y))
    inverse = np.linalg.inv(full)
    information = ones @ inverse @ ones
    rest = z - (ones @ inverse @ z) / information
    dof = len(y) - 1
    wanted = dof * np.log(2 * np.pi) + np.linalg.slogdet(full)[1] + np.log(information) + rest @ inverse @ rest
    np.testing.assert_allclose(state.deviance, wanted)
    # a tip known exactly stays, one with a large error goes to its relatives
    X = np.column_stack(
        [tree.labels[leaves].astype(object), np.where(np.arange(len(y)) == 0, 50.0, 0.0).astype(object)]
    )
    model = VPuNNRegressor(tree, y_error=1, evolution="brownian").fit(X.tolist(), y)
    found = model.predict(X)
    np.testing.assert_allclose(found[1:], y[1:], atol=1e-6)
    assert abs(found[0] - y[0]) > 1e-3


def test_weights_repeat_rows_and_units_of_length_do_not_matter(tmp_path):
    rng, tree = np.random.default_rng(2), random_tree(60, 3)
    leaves = np.asarray(tree.leaves)
    nodes = rng.choice(leaves, 50)
    y, w = rng.normal(size=50) + nodes / 20, rng.integers(0, 3, 50)
    X = tree.labels[nodes][:, None]
    model = VPuNNRegressor(tree, evolution="lambda").fit(X, y, sample_weight=w)
    twice = np.repeat(np.arange(50), w)
    again = VPuNNRegressor(tree, evolution="lambda").fit(X[twice], y[twice])
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-5)
    for unit in (1e-9, 1e9):
        far = VPuNNRegressor(tree, evolution="lambda", lengths=tree.columns["length"] * unit)
        far.fit(X, y, sample_weight=w)
        np.testing.assert_allclose(far.predict(X), model.predict(X), rtol=1e-6)
        np.testing.assert_allclose(far.parameters_["rate"] * unit, model.parameters_["rate"], rtol=1e-6)
    kept = load(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(kept.predict(X, return_std=True), model.predict(X, return_std=True))
    assert kept.evolution_ == "lambda" and kept.parameters_ == model.parameters_
    with pytest.raises(VpunnError, match="pass X and y"):
        kept.signal()
    assert str(kept.ancestors()) == str(model.ancestors())


@pytest.mark.parametrize("model", ["brownian", "lambda", "ou", "kappa", "auto"])
def test_intervals_hold_what_evolved(model):
    """Drawn from Brownian motion with noise; 95 % intervals of tips held out."""
    rng, tree = np.random.default_rng(0), random_tree(4000, 8, zero=0)
    step = rng.normal(size=tree.n_nodes) * np.sqrt(tree.columns["length"])
    value = np.zeros(tree.n_nodes)
    for i in range(1, tree.n_nodes):
        value[i] = value[tree.parent[i]] + step[i]
    leaves = np.asarray(tree.leaves)
    y = value[leaves] + (0 if model == "brownian" else 1.5) * rng.normal(size=len(leaves))
    held = rng.random(len(leaves)) < 0.3
    X = tree.labels[leaves][:, None]
    fitted = VPuNNRegressor(tree, evolution=model).fit(X[~held], y[~held])
    mean, sd = fitted.predict(X[held], return_std=True)
    assert 0.92 < np.mean(np.abs(y[held] - mean) < 1.96 * sd) < 0.98
    if model == "auto":
        assert {row["model"] for row in fitted.selection_} == {"brownian", "lambda", "ou", "kappa", "depth"}
        assert fitted.evolution_ == min(fitted.selection_, key=lambda row: row["AIC"])["model"] != "brownian"


def test_what_auto_compared_is_told_and_saved_where_depth_wins_too(tmp_path):
    """Groups of equal size and values that branches of one length cannot explain: by depth, and the table stays."""
    rng = np.random.default_rng(0)
    tree = Tree.from_paths([[f"g{i}", f"g{i}s{j}"] for i in range(30) for j in range(8)], root="all")
    group = np.repeat(rng.normal(size=30) * 5, 8)
    X, y = tree.labels[tree.leaves].astype(object)[:, None], group + 0.01 * rng.normal(size=240)
    lengths = np.where(tree.is_leaf, 3.0, 0.01)
    model = VPuNNRegressor(tree, evolution="auto", lengths=lengths).fit(X, y)
    chosen = min(model.selection_, key=lambda row: row["AIC"])["model"]
    assert model.evolution_ == chosen == "depth" and len(model.selection_) == 5
    assert VPuNNRegressor.load(model.save(tmp_path / "m")).selection_ == model.selection_


def test_awkward_data_are_answered_or_refused_in_a_sentence():
    tree = read_tree(io.StringIO("((a:1,b:1):1,(c:0,d:0):2,e:2);"))
    X = [["a"], ["b"], ["c"], ["d"]]
    for model in ("brownian", "lambda", "ou", "kappa", "auto"):
        constant = VPuNNRegressor(tree, evolution=model).fit(X, [3.0] * 4)
        mean, sd = constant.predict([["e"], ["a"]], return_std=True)
        assert mean.round(9).tolist() == [3, 3] and sd.tolist() == [0, 0]
    with pytest.raises(VpunnError, match="at distance 0 have different values"):
        VPuNNRegressor(tree, evolution="brownian").fit(X, [1.0, 2, 3, 4])
    lengths = {"zero": "tiny"}
    VPuNNRegressor(tree, evolution="brownian", lengths=lengths).fit(X, [1.0, 2, 3, 4])
    assert np.isfinite(VPuNNRegressor(tree, evolution="auto").fit(X, [1.0, 2, 3, 4]).predict([["e"], ["nobody"]])).all()
    with pytest.raises(VpunnError, match="'nobody'"):
        VPuNNRegressor(tree, evolution="lambda").fit([["nobody"], ["a"]], [1.0, 2])
    one = read_tree(io.StringIO("a:1;"))
    assert VPuNNRegressor(one, evolution="lambda").fit([["a"], ["a"]], [1.0, 3.0]).predict([["a"]]).tolist() == [2.0]
    bare = read_tree(io.StringIO("((a,b),c);"))
    with pytest.raises(VpunnError, match="no branch lengths"):
        VPuNNRegressor(bare, evolution="lambda").fit([["a"], ["b"]], [1.0, 2])
    assert VPuNNRegressor(bare, evolution="auto").fit([["a"], ["b"]], [1.0, 2]).evolution_ == "depth"
    VPuNNRegressor(bare, evolution="lambda", lengths=1).fit([["a"], ["b"], ["c"]], [1.0, 2, 3])
    for newick, words in (
        ("(a:-1,b:2);", "1 branch length is negative .*a: -1"),
        ("(a,b:2);", "length is missing"),
        ("(a:inf,b:2);", "length is infinite"),
        ("(a:0,b:0);", "all branches"),
        ("(a:1e300,b:1e300);", "another unit"),
    ):
        with pytest.raises(VpunnError, match=words):
            VPuNNRegressor(read_tree(io.StringIO(newick)), evolution="lambda").fit([["a"], ["b"]], [1.0, 2])
    assert branch_lengths(read_tree(io.StringIO("(a,b:2,c:4);")), missing="mean").tolist() == [0, 3, 2, 4]
    assert branch_lengths(read_tree(io.StringIO("(a:-1,b:2);")), {"negative": "absolute"}).tolist() == [0, 1, 2]
    with pytest.raises(VpunnError, match="negative, zero and missing ones, got 'long'"):
        branch_lengths(tree, {"long": "cut"})
    for options, words in (
        ({"evolution": "brown"}, "brown"),
        ({"evolution": None, "lengths": 1}, "belongs to a model along branches"),
        ({"evolution": "lambda", "penalty": 1.0}, "penalty"),
        ({"evolution": "lambda", "parameters": {"lambda": 2}}, "between 0 and 1"),
        ({"evolution": "lambda", "parameters": {"beta": 2}}, "beta"),
        ({"evolution": "lambda", "lengths": "height"}, "height"),
        ({"evolution": "kappa", "parameters": {"kappa": 1e300}}, "between 0 and 100"),
        ({"evolution": "lambda", "parameters": [1]}, "parameters must be a dict"),
        ({"evolution": "lambda", "lengths": [1, 2]}, "one number for each"),
    ):
        with pytest.raises(VpunnError, match=words):
            VPuNNRegressor(tree, **options).fit(X, [1.0, 2, 3, 4])


def test_several_targets_and_covariates_are_saved_and_explained(tmp_path):
    rng, tree = np.random.default_rng(4), random_tree(50, 4)
    leaves = np.asarray(tree.leaves)
    X = np.column_stack([tree.labels[leaves].astype(object), rng.normal(size=(len(leaves), 1)).astype(object)])
    Y = rng.normal(size=(len(leaves), 2)) + leaves[:, None] / 10
    model = VPuNNRegressor(tree, covariates=[1], evolution="auto").fit(X, Y)
    kept = load(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(kept.predict(X), model.predict(X))
    assert kept.explain(X[:1], target=1).prediction == model.explain(X[:1], target=1).prediction
    assert kept.coefficients(1).index.tolist()[-1] == "x1"
