"""Classes that evolve along branches: `VPuNNClassifier(evolution="mk")`."""

import io
from itertools import product

import numpy as np
import pytest
from scipy.linalg import expm

from strategies import random_tree
from vpunn import VPuNNClassifier, load, read_tree
from vpunn.errors import VpunnError
from vpunn.regress.variances import branch_lengths

NEWICK = "(((a:1,b:1):1,c:1.5):0.5,(d:1,e:2):1);"


def by_hand(tree, rates, seen):
    """Every node's distribution by summing over all histories."""
    n, k = tree.n_nodes, len(rates)
    moves = [expm(rates * length) for length in np.nan_to_num(tree.columns["length"])]
    proba = np.zeros((n, k))
    for classes in product(range(k), repeat=n):
        if any(classes[node] != wanted for node, wanted in seen.items()):
            continue
        chance = 1 / k
        for node in range(1, n):
            chance *= moves[node][classes[tree.parent[node]], classes[node]]
        proba[range(n), classes] += chance
    return proba / proba[0].sum(), np.log(proba[0].sum())


@pytest.mark.parametrize("rates", ["equal", "symmetric"])
def test_nodes_have_the_distribution_of_all_histories(rates, tmp_path):
    tree = read_tree(io.StringIO(NEWICK))
    X, y = [["a"], ["b"], ["d"], ["e"]], np.array(["x", "x", "y", "z"])
    model = VPuNNClassifier(tree, evolution="mk", rates=rates).fit(X, y)
    seen = dict(zip(tree.index(["a", "b", "d", "e"]).tolist(), [0, 0, 1, 2], strict=True))
    proba, likelihood = by_hand(tree, model.rates_, seen)
    np.testing.assert_allclose(model.node_proba_, proba, atol=1e-9)
    assert model.log_likelihood_ == pytest.approx(likelihood)
    np.testing.assert_allclose(model.predict_proba([["c"]])[0], proba[tree.index(["c"])[0]], atol=1e-9)
    assert model.predict(X).tolist() == y.tolist()
    np.testing.assert_allclose(model.ancestors()[["x", "y", "z"]].sum(axis=1), 1)
    kept = load(model.save(tmp_path / "m"))
    rows = [["c"], ["a … b"], ["nobody"]]
    np.testing.assert_array_equal(kept.predict_proba(rows), model.predict_proba(rows))
    np.testing.assert_allclose(model.predict_proba(rows).sum(axis=1), 1)
    told = kept.explain([["a … b"]])  # a new tip below it
    assert told.prediction == pytest.approx(sum(ball.coefficient for ball in told.balls) + told.covariates[0][1])


def test_classes_of_relatives_are_found_again():
    rng = np.random.default_rng(0)
    tree = random_tree(3000, 0)
    tree = tree.replace(columns={"length": rng.exponential(size=tree.n_nodes)})
    truth = np.zeros(tree.n_nodes, int)
    for node in range(1, tree.n_nodes):
        stays = rng.random() < np.exp(-3 * 0.1 * tree.columns["length"][node])
        truth[node] = truth[tree.parent[node]] if stays else rng.integers(3)
    tips = np.asarray(tree.leaves)
    held = rng.random(len(tips)) < 0.3
    model = VPuNNClassifier(tree, evolution="mk").fit(tree.labels[tips[~held]][:, None], truth[tips[~held]])
    assert model.rates_[0, 1] == pytest.approx(0.1, rel=0.2)
    proba = model.predict_proba(tree.labels[tips[held]][:, None])
    right = proba.argmax(1) == truth[tips[held]]
    assert abs(proba.max(1).mean() - right.mean()) < 0.05


def test_bad_input_is_one_sentence_and_rows_of_a_tip_may_differ():
    tree = read_tree(io.StringIO(NEWICK))
    X = [["a"], ["b"], ["c"]]
    for options, words in (
        ({"evolution": "mkk"}, "mkk"),
        ({"evolution": "mk", "rates": "all"}, "all"),
        ({"rates": "symmetric"}, "belong to evolution"),
        ({"lengths": 1}, "belong to evolution"),
    ):
        with pytest.raises(VpunnError, match=words):
            VPuNNClassifier(tree, **options).fit(X, ["x", "y", "x"])
    with pytest.raises(VpunnError, match="no covariates"):
        VPuNNClassifier(tree, evolution="mk", covariates=[1]).fit([["a", 1], ["b", 2]], ["x", "y"])
    with pytest.raises(VpunnError, match="no branch lengths"):
        VPuNNClassifier(read_tree(io.StringIO("(a,b);")), evolution="mk").fit(X[:2], ["x", "y"])
    with pytest.raises(VpunnError, match="'nobody'"):
        VPuNNClassifier(tree, evolution="mk").fit([["nobody"], ["a"]], ["x", "y"])
    both = VPuNNClassifier(tree, evolution="mk").fit([["a"], ["a"], ["b"]], ["x", "y", "x"])
    assert 0 < both.predict_proba([["a"]])[0, 0] < 1
    assert VPuNNClassifier(tree, evolution="mk").fit(X, ["x", "x", "x"]).predict_proba([["e"]]).tolist() == [[1.0]]
    touching = read_tree(io.StringIO("((a:0,b:0):1,c:1);"))
    with pytest.raises(VpunnError, match="distance 0"):
        VPuNNClassifier(touching, evolution="mk").fit(X, ["x", "y", "x"])
    VPuNNClassifier(touching, evolution="mk", lengths=branch_lengths(touching, zero="tiny")).fit(X, ["x", "y", "x"])
