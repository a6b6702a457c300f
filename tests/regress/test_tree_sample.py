"""`TreeSampleRegressor`: a mean over trees, with the variance between them."""

import io

import numpy as np
import pytest

from vpunn import VPuNNRegressor, load
from vpunn.errors import VpunnError
from vpunn.io import read_trees
from vpunn.regress import TreeSampleRegressor

NEWICK = "(((a:1,b:1):2,(c:1,d:1):2):1,e:4); (((a:1,c:1):1,(b:2,e:2):1):2,d:5); ((((d:1,e:1):1,a:2):1,b:3):1,c:4);"
X, y = [["a"], ["b"], ["c"], ["d"]], [1.0, 1.2, 4.0, 4.4]


@pytest.fixture(scope="module")
def trees():
    return read_trees(io.StringIO(NEWICK))


def test_mean_and_variance_are_those_of_the_trees_by_hand(trees):
    model = TreeSampleRegressor(trees, estimator=VPuNNRegressor(evolution="brownian")).fit(X, y)
    mean, sd = model.predict([["e"], ["a"], ["nobody"]], return_std=True)
    alone = [
        VPuNNRegressor(tree, evolution="brownian").fit(X, y).predict([["e"], ["a"], ["nobody"]], return_std=True)
        for tree in trees.values()
    ]
    means, variances = np.array([m for m, _ in alone]), np.array([s**2 for _, s in alone])
    np.testing.assert_allclose(mean, means.sum(0) / 3, rtol=1e-12)
    between = ((means - means.sum(0) / 3) ** 2).sum(0) / 3
    np.testing.assert_allclose(sd**2, variances.sum(0) / 3 + between, rtol=1e-12)
    assert between[0] > 0.1 and sd[0] > np.sqrt(variances[:, 0].mean())
    np.testing.assert_array_equal(model.predict([["e"], ["a"], ["nobody"]]), mean)


def test_one_tree_is_the_regressor_itself(trees):
    tree = trees["tree 1"]
    for found, alone in zip(
        TreeSampleRegressor([tree]).fit(X, y).predict(X, return_std=True),
        VPuNNRegressor(tree).fit(X, y).predict(X, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(found, alone, rtol=1e-14)


def test_covariates_and_several_targets_come_back_from_the_folder(trees, tmp_path):
    rows = np.array([[*row, k * k] for k, row in enumerate(X)], object)
    estimator = VPuNNRegressor(evolution="brownian", covariates=[1])
    model = TreeSampleRegressor(trees, estimator=estimator).fit(rows, np.column_stack([y, y[::-1]]))
    again = load(model.save(tmp_path / "m"), verify=True)
    assert len(again.models_) == 3 and again.estimator.evolution == "brownian"
    for one, two in zip(model.predict(rows, return_std=True), again.predict(rows, return_std=True), strict=True):
        assert one.shape == (4, 2)
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(again.fit(rows, y).predict(rows).shape, (4,))


def test_what_does_not_fit_is_one_sentence(trees):
    other = read_trees(io.StringIO("((a,b),(c,(d,f)));"))["tree 1"]
    for given, words in (
        (None, "at least one"),
        ([], "at least one"),
        (["t.nwk"], "a list of vpunn.Tree"),
        ([trees["tree 1"], other], "tree 2 has other tips than tree 1: 'e', 'f'"),
    ):
        with pytest.raises(VpunnError, match=words):
            TreeSampleRegressor(given).fit(X, y)
    with pytest.raises(VpunnError, match="without a tree"):
        TreeSampleRegressor(trees, estimator=VPuNNRegressor(other)).fit(X, y)
    with pytest.raises(VpunnError, match="only some of the trees have"):
        TreeSampleRegressor(trees).fit(X, y).predict([["a … b"]])
