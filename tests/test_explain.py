"""Explanations add up exactly, describe what is there, and refuse what they cannot explain."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from vpunn import explain
from vpunn.codes import PadicCode
from vpunn.errors import VpunnError
from vpunn.explanations import contrast, describe_ball, export_tree_for_viz
from vpunn.hipan import HiPaNClassifier
from vpunn.regress import VPuNNRegressor
from vpunn.text import text_features
from vpunn.tree import Tree

TEXTS = {
    "owl": "night bird that hoots and hunts mice",
    "robin": "small bird with a red breast that sings",
    "carp": "pond fish with large scales",
    "eel": "long slippery fish like a snake",
}


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    tree = Tree.from_paths([("bird", "owl"), ("bird", "robin"), ("fish", "carp"), ("fish", "eel")], root="animal")
    labels = np.array(list(TEXTS) * 15)
    texts = [" ".join(rng.permutation(TEXTS[label].split())[:5]) for label in labels]
    features = text_features(characters=None, min_rows=1)
    X = features.fit_transform(texts)
    return HiPaNClassifier(tree).fit(X, labels), features, X


@pytest.mark.parametrize("node", [None, "owl", "eel", "fish", "animal"])
def test_contributions_sum_to_the_score(model, node):
    classifier, features, _ = model
    x = features.transform(["a night bird hoots"])
    found = explain(classifier, x, node, feature_names=features.get_feature_names_out())
    tree = classifier.tree_
    if node is None:
        assert found.label == classifier.predict(x)[0] == "owl"
    assert found.score == sum(ball.head for ball in found.balls)
    np.testing.assert_allclose(found.score, slow_head_score(classifier, x, found.node), rtol=1e-5, atol=1e-6)
    exact = classifier.posterior(x).masses(slice(0, 1))[0, found.node]
    if exact > 0:
        np.testing.assert_allclose(np.exp(found.log_probability), exact, rtol=1e-9)
    path = [ball.node for ball in found.balls]
    assert path[: tree.depth[found.node]] == tree.ancestors(found.node)[:-1].tolist()
    probabilities = classifier.predict_node_proba(x)[0]
    for ball in found.balls[:-1]:
        np.testing.assert_allclose(ball.probability, probabilities[ball.node], atol=1e-9)
    assert str(found).startswith(f"{found.label}: probability")


def slow_head_score(classifier, x, node):
    """What `contrast` says against the root, weighed by the row, and the constants."""
    weights = dict(contrast(classifier, node, 0, classifier.n_features_in_))
    row = classifier._rows(x).blocks[0].toarray()[0]
    found = explain(classifier, x, node, k=len(row))
    constants = sum(ball.head - sum(value for _, value in ball.features) for ball in found.balls)
    return constants + sum(weights.get(f"x{f}", 0.0) * value for f, value in enumerate(row))


def test_who_spoke_for_it_and_who_against(model):
    classifier, features, _ = model
    x = features.transform(["a night bird hoots"])
    owl, eel = explain(classifier, x), explain(classifier, x, "eel")
    assert {"sums of rows", "nearest rows", "linear heads", "dictionary"} <= set(owl.spoke)
    assert sum(owl.spoke.values()) > 1 > 0 > sum(eel.spoke.values())
    assert owl.verdict.startswith("owl: ") and "nothing spoke for it" in eel.verdict
    assert owl.near and all(classifier.task_.node[row] == owl.node for row, _ in owl.near)
    assert set(owl.evidence) == set(eel.evidence) and not owl.blocks
    nobody = explain(classifier, x, "animal")
    assert not nobody.spoke and not nobody.evidence and "no expert proposed it" in nobody.verdict


def test_numbers_beside_words_speak_by_block(model):
    """Beside a row without a known word numbers alone speak, and their parts are told in full."""
    classifier, features, X = model
    labels = np.array(list(TEXTS) * 15)
    size = np.random.default_rng(0).normal(size=(60, 2)) + 2.0 * (labels == "owl")[:, None]
    both = HiPaNClassifier(classifier.tree_).fit({"words": X, "size": size}, labels)
    x = {"words": features.transform(["zzz"]), "size": np.array([[3.0, 3.5]])}
    found = explain(both, x, "owl")
    assert set(found.blocks) == {"words", "size"} and found.blocks["size"] > 0
    assert {name for ball in found.balls for name, _ in ball.features} == {"size[0]", "size[1]"}


def test_a_pipeline_is_explained_in_the_users_words(model):
    classifier, _, _ = model
    texts = [" ".join(np.roll(text.split(), turn)[:4]) for text in TEXTS.values() for turn in range(8)]
    labels = np.repeat(list(TEXTS), 8)
    made = make_pipeline(text_features(characters=None, min_rows=1), HiPaNClassifier(classifier.tree_)).fit(
        texts, labels
    )
    found = explain(made, ["a night bird hoots"], k=3)
    told = {name for ball in found.balls for name, _ in ball.features}
    assert found.label == "owl" and "words__night" in told and not any(name.startswith("x1") for name in told)
    search = GridSearchCV(made, {"hipanclassifier__novelty": [False]}, cv=2).fit(texts, labels)
    assert explain(search, ["a night bird hoots"]).label == "owl"


def test_every_model_explains_its_own_way():
    X, y = np.array([["a", "b"], ["a", "c"]] * 5, object), np.arange(10.0)
    model = VPuNNRegressor().fit(X, y)
    assert explain(model, X[:1]).prediction == pytest.approx(model.predict(X[:1])[0])
    with pytest.raises(VpunnError, match="explains its number, not a node"):
        explain(model, X[:1], "a")
    with pytest.raises(VpunnError, match=r"without k=; it takes X, target, feature_names"):
        explain(model, X[:1], k=3)
    with pytest.raises(VpunnError, match="a Tree has no explanations"):
        explain(Tree.from_parents([-1, 0]), X[:1])


def test_ball_descriptions(model):
    classifier, features, _ = model
    names = features.get_feature_names_out()
    bird = describe_ball(classifier, "bird", show=6, feature_names=names)
    assert bird.members == ["owl", "robin"]
    assert bird.n_rows == 30
    assert bird.entropy == pytest.approx(1.0)
    assert any("bird" in name for name, _ in bird.speaks_for)
    assert describe_ball(PadicCode(classifier.tree_), "fish").n_leaves == 2
    assert describe_ball(classifier, "owl").entropy == 0


def test_glosses_speak_for_a_ball():
    tree = Tree.from_parents(
        [-1, 0, 0, 1, 2],
        list("abcde"),
        columns={"gloss": np.array(["top", "feathered wings", "scaly fins", "feathered night", "scaly water"], object)},
    )
    assert describe_ball(tree, "b", show=1).speaks_for == [("feathered", 1.0)]


def test_contrast_is_antisymmetric(model):
    classifier, features, _ = model
    names = features.get_feature_names_out()
    forward = dict(contrast(classifier, "owl", "carp", 400, feature_names=names))
    backward = dict(contrast(classifier, "carp", "owl", 400, feature_names=names))
    assert forward.keys() == backward.keys()
    assert all(forward[name] == pytest.approx(-backward[name]) for name in forward)
    assert max(forward, key=forward.get).removeprefix("words__").split()[0] in TEXTS["owl"].split()


def test_export_for_a_viewer(model):
    classifier, features, _ = model
    x = features.transform(["slippery snake"])
    top = json.loads(export_tree_for_viz(classifier, x))
    assert top["name"] == "animal"
    assert top["probability"] == pytest.approx(1.0)
    assert [child["name"] for child in top["children"]] == ["bird", "fish"]
    assert sum(child["probability"] for child in top["children"]) <= 1 + 1e-9
    small = json.loads(export_tree_for_viz(classifier, x, max_nodes=3))
    assert small["hidden"] == 4
    assert json.loads(export_tree_for_viz(classifier.tree_, max_nodes=1))["hidden"] == 6


def test_refusals(model):
    classifier, _, X = model
    with pytest.raises(VpunnError, match="one row"):
        explain(classifier, X[:2])
    with pytest.raises(VpunnError, match="feature_names needs"):
        explain(classifier, X[:1], feature_names=["a"])
    with pytest.raises(VpunnError, match="no node is labelled 'cat'"):
        explain(classifier, X[:1], "cat")
    with pytest.raises(VpunnError, match="only a fitted classifier"):
        export_tree_for_viz(classifier.tree_, X[:1])
    with pytest.raises(VpunnError, match="expected a fitted classifier"):
        describe_ball(3, 0)
