"""The classifier: scikit-learn's checks, exact probabilities, stops, edge cases, and held-out accuracy on real data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import vpunn
from vpunn.errors import VpunnError
from vpunn.hipan import HiPaNClassifier
from vpunn.hipan._arrays import Answer, Sparse
from vpunn.hipan._balls import Balls, Items, branches
from vpunn.hipan._combiner import fit_sharpness
from vpunn.hipan._rest import BY_PRIOR, Prior, fit_rings, rings_around, rounded
from vpunn.hipan._targets import without_gaps
from vpunn.hipan._unseen import as_unseen
from vpunn.hipan._views import unit_rows
from vpunn.hipan._weights import Heads, add_by_heads
from vpunn.hipan.posterior import Posterior
from vpunn.placing import conformal
from vpunn.placing.distribution import NodeDistribution
from vpunn.text import text_features
from vpunn.tree import Tree

#: Rows are drawn in random order and split at random, so doubling a weight is not the same as repeating a row.
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "stochastic training order and holdout",
    "check_sample_weight_equivalence_on_sparse_data": "stochastic training order and holdout",
}


@parametrize_with_checks([HiPaNClassifier()], expected_failed_checks=lambda _: EXPECTED_FAILURES)
def test_scikit_learn(estimator, check):
    check(estimator)


def random_tree(rng, n):
    return Tree.from_parents([-1, *(int(rng.integers(0, i)) for i in range(1, n))], [f"n{i}" for i in range(n)])


def toy(seed=0, n_nodes=40, rows=400, features=60):
    """Rows whose features are drawn from those of the node's ancestors: a hierarchy that features can see."""
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, n_nodes)
    marks = rng.integers(0, features, (n_nodes, 4))
    nodes = rng.integers(1, n_nodes, rows)
    X = np.zeros((rows, features))
    for r, node in enumerate(nodes):
        for ancestor in tree.ancestors(int(node)):
            X[r, marks[ancestor, rng.random(4) < 0.8]] += 1 + (ancestor == node)
        X[r, rng.integers(0, features, 3)] += 1
    return tree, sparse.csr_matrix(X), nodes


@pytest.fixture(scope="module")
def fitted():
    tree, X, nodes = toy()
    return HiPaNClassifier(tree).fit(X[:300], tree.labels[nodes[:300]]), X, nodes


def test_learns_what_features_show(fitted):
    model, X, nodes = fitted
    tree = model.tree_
    right = np.mean(model.predict(X[300:]) == tree.labels[nodes[300:]])
    majority = np.bincount(nodes[:300]).max() / 300
    assert right > 0.6 > 3 * majority
    assert np.mean(tree.lca_depth(model.locate(X[300:]), nodes[300:]) >= 1) > right


def test_node_probabilities_add_up(fitted):
    model, X, _ = fitted
    tree = model.tree_
    node, exact = model.predict_node_proba(X[300:]), np.zeros((100, tree.n_nodes))
    exact[:, model.class_nodes_] = model.predict_proba(X[300:])
    np.testing.assert_allclose(node[:, 0], 1.0)
    children = np.zeros_like(node)
    np.add.at(children.T, tree.parent[1:], node[:, 1:].T)
    np.testing.assert_allclose(node, exact + children, atol=1e-12)
    assert (exact >= 0).all()


def test_top_k_is_exact(fitted):
    model, X, _ = fitted
    dense = model.predict_proba(X[300:])
    labels, p = model.top_k(X[300:], 12)
    np.testing.assert_allclose(p, -np.sort(-dense, axis=1)[:, :12])
    place = {label: i for i, label in enumerate(model.classes_)}
    for row, (names, values) in enumerate(zip(labels, p, strict=True)):
        assert len(set(names)) == 12
        np.testing.assert_allclose([dense[row, place[name]] for name in names], values)
    everything = model.predict_proba(X[300:], k=10_000)
    np.testing.assert_allclose(everything.toarray(), dense)


@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(1, 8), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_posterior_questions_match_the_dense_answer(seed, n, width, k):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, n)
    rows = 5
    candidates = np.full((rows, width), -1, np.int32)
    probability = np.zeros((rows, width))
    for r in range(rows):
        count = int(rng.integers(0, min(width, n) + 1))
        candidates[r, :count] = rng.permutation(n)[:count]
        probability[r, :count] = rng.random(count)
    prior = rng.random(n) * (rng.random(n) < 0.7) + 1e-9
    prior = rounded(prior / prior.sum())
    full = np.array([prior[c[c >= 0]].sum() > 1 - 1e-9 for c in candidates])
    rest = np.where(full, 0.0, rng.random(rows) + 0.01)
    total = probability.sum(1) + rest
    branch = branches(tree)
    share = np.bincount(branch, prior)
    tilt = rng.random((rows, len(share))) + 0.1
    tilt /= (tilt @ share)[:, None]
    shared = (tree, candidates, probability / total[:, None], rest / total, prior, branch, tilt)
    dense = Posterior(*shared, BY_PRIOR).masses(slice(0, rows))
    np.testing.assert_allclose(dense.sum(1), 1.0)
    for r in range(rows):  # without anything learned about rings: in proportion to prior and tilt
        other = np.setdiff1d(np.arange(n), candidates[r])
        expected = prior[other] * tilt[r, branch[other]]
        np.testing.assert_allclose(dense[r, other] * expected.sum(), expected * dense[r, other].sum(), atol=1e-9)
    posterior = Posterior(*shared, rng.normal(size=(2, 3)))
    dense = posterior.masses(slice(0, rows))
    np.testing.assert_allclose(dense.sum(1), 1.0)
    nodes, p = posterior.top_k(k)
    m = min(k, n)
    np.testing.assert_allclose(p[:, :m], -np.sort(-dense, axis=1)[:, :m], atol=1e-12)
    ball = tree.subtree_sum(dense.T).T
    chain, q = posterior.chain(nodes[:, 0])
    for r in range(rows):
        path = tree.ancestors(int(nodes[r, 0]))
        assert chain[r][chain[r] >= 0].tolist() == path.tolist()
        np.testing.assert_allclose(q[r][: len(path)], ball[r, path], atol=1e-9)
    ball_sum = np.array([[ball[r, tree.ancestors(c)].sum() for c in range(n)] for r in range(rows)])
    utility = dense + ball_sum * 2 / (tree.depth + prior @ tree.depth + 2)
    for r, node in enumerate(posterior.best("path")):
        listed = candidates[r][candidates[r] >= 0]
        assert prior[node] > 0
        assert utility[r, node] >= utility[r, listed].max(initial=0) - 1e-9
    assert np.array_equal(posterior.best(), nodes[:, 0])
    for threshold in (0.0, 0.03, 0.2, 0.6, 0.95):
        twin = NodeDistribution.deepest(posterior, threshold)
        for r, node in enumerate(posterior.deepest(threshold)):
            close = tree.depth[node] == tree.depth[twin[r]] and abs(ball[r, node] - ball[r, twin[r]]) < 1e-12
            assert node == twin[r] or close
    for depth in range(tree.max_depth + 1):
        twin = NodeDistribution.at_depth(posterior, depth)
        worth = np.where(tree.depth == depth, ball, dense)
        for r, node in enumerate(posterior.at_depth(depth)):
            assert tree.depth[node] <= depth
            assert node == twin[r] or abs(worth[r, node] - worth[r, twin[r]]) < 1e-12


def test_one_row_alone_equals_the_row_in_a_batch(fitted):
    model, X, _ = fitted
    together = model.predict_node_proba(X[300:320])
    for i in range(20):
        assert np.array_equal(model.predict_node_proba(X[300 + i])[0], together[i])


def test_same_seed_same_bytes(tmp_path):
    tree, X, nodes = toy(1, rows=150)
    for name in ("a", "b"):
        HiPaNClassifier(tree, random_state=3).fit(X, tree.labels[nodes]).save(tmp_path / name)
    a, b = ({f.name: f.read_bytes() for f in (tmp_path / name).iterdir()} for name in ("a", "b"))
    assert a == b


def test_saved_model_predicts_the_same_bits(fitted, tmp_path):
    model, X, _ = fitted
    model.save(tmp_path / "m")
    loaded = HiPaNClassifier.load(tmp_path / "m", verify=True)
    assert np.array_equal(loaded.predict_node_proba(X), model.predict_node_proba(X))
    assert np.array_equal(loaded.predict(X, stop="risk"), model.predict(X, stop="risk"))
    assert [f.name for f in tmp_path.iterdir()] == ["m"]
    assert type(vpunn.load(tmp_path / "m")) is HiPaNClassifier
    loaded.save(tmp_path / "again")
    for file in (tmp_path / "m").iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes()


def test_flat_model_keeps_its_classes(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(3, 6, 60)
    X = rng.normal(size=(60, 4)) + 4 * np.eye(4)[y - 3]
    model = HiPaNClassifier().fit(X, y)
    model.save(tmp_path / "flat")
    loaded = HiPaNClassifier.load(tmp_path / "flat")
    assert loaded.predict(X).tolist() == model.predict(X).tolist()
    assert np.mean(model.predict(X) == y) > 0.9
    assert loaded.classes_.tolist() == [3, 4, 5]


def test_stops(fitted):
    model, X, _ = fitted
    tree = model.tree_
    p = model.predict_node_proba(X[300:])
    for threshold in (0.3, 0.6, 0.95):
        answer = tree.index(model.predict(X[300:], stop="threshold", threshold=threshold))
        for r, node in enumerate(answer):
            assert node == 0 or p[r, node] >= threshold
    shallow = tree.index(model.predict(X[300:], stop="depth", depth=1))
    assert (tree.depth[shallow] <= 1).all()
    assert model.predict(X[300:], stop="depth", depth=0).tolist() == [tree.labels[0]] * 100
    with pytest.raises(VpunnError, match="depth must lie between"):
        model.predict(X[:1], stop="depth", depth=99)
    with pytest.raises(VpunnError, match="stop="):
        model.predict(X[:1], stop="soon")


def test_a_held_out_row_counts_for_what_it_stands_for():
    rng = np.random.default_rng(0)
    score, copies = rng.random(400), rng.integers(1, 9, 400)
    for alpha in (0.05, 0.1, 0.3):
        whole = conformal.conformal_threshold(np.repeat(score, copies), alpha)
        found = conformal.of_equal_weight(score, copies.astype(np.float32))
        assert whole <= conformal.conformal_threshold(found, alpha) <= whole + 0.02
    assert 200 < len(found) < 400
    assert conformal.of_equal_weight(score, np.full(400, 3.0)) is score


def test_conformal_stop_covers():
    """Coverage over many exchangeable splits of rows the model has not seen lies at or just above 1 − α."""
    tree, X, nodes = toy(2, rows=900)
    model = HiPaNClassifier(tree).fit(X[:300], tree.labels[nodes[:300]])
    posterior = model.posterior(X[300:])
    scores = conformal.miss_scores(posterior, nodes[300:])
    rng = np.random.default_rng(0)
    for alpha in (0.1, 0.3):
        covered = []
        for _ in range(40):
            order = rng.permutation(600)
            threshold = conformal.conformal_threshold(scores[order[:300]], alpha)
            answer = conformal.cautious_nodes(posterior, threshold)[order[300:]]
            covered.append(np.mean(tree.is_ancestor(answer, nodes[300:][order[300:]])))
        exact = np.mean(tree.is_ancestor(posterior.best(), nodes[300:]))  # no answer is smaller than the node
        assert 1 - alpha - 0.01 <= np.mean(covered) <= max(1 - alpha + 0.08, exact + 0.02)
    model.calibrate(X[300:600], tree.labels[nodes[300:600]])
    assert len(model.miss_scores_) == 300
    assert model.predict(X[600:], stop="risk", alpha=0.001).tolist() == [tree.labels[0]] * 300


def _head(tree, W, bias, x, c):
    chain = [c] + [tree.n_nodes + u for u in tree.ancestors(int(c)) if u and not tree.is_leaf[u]]
    return sum(W[b] @ x + bias[b] for b in chain)


def test_heads_propose_the_best_nodes_that_share_a_feature():
    tree, X, nodes = toy(4, n_nodes=20, rows=60, features=30)
    balls = Balls(tree, Items(unit_rows(X), nodes.astype(np.int32), np.ones(60, np.float32), np.zeros(60, bool)))
    heads = Heads.zeros(balls)
    heads.weight[:] = np.random.default_rng(0).normal(size=balls.n_entries)
    queries = unit_rows(X[:10])
    found = add_by_heads(balls, heads, Sparse.of(queries), np.zeros((10, 0), np.int32), 5)
    feature = np.repeat(np.arange(30), np.diff(balls.feature_start))
    W = np.zeros((40, 30))
    W[balls.entry_block, feature] = heads.weight
    has = np.zeros((40, 30), bool)
    has[balls.entry_block, feature] = True
    for r, x in enumerate(queries.toarray()):
        shares = [c for c in range(20) if has[c][x != 0].any()]
        ranked = sorted(shares, key=lambda c: -_head(tree, W, heads.bias, x, c))[:5]
        assert found[r][found[r] >= 0].tolist() == ranked


def test_descriptions_reach_nodes_without_rows():
    tree = Tree.from_paths([("bird", "owl"), ("bird", "robin"), ("fish", "carp"), ("fish", "eel")], root="animal")
    texts = ["owl hoots at night", "owl night feathers", "robin red breast feathers", "carp lives in ponds"] * 12
    labels = ["owl", "owl", "robin", "carp"] * 12
    described = [
        "",
        "feathers wings",
        "night hoots",
        "red breast",
        "water fins",
        "pond ponds",
        "long slippery eel snake",
    ]
    features = text_features(characters=None, min_rows=1)
    X = features.fit_transform([*texts, *described])
    model = HiPaNClassifier(tree).fit(X[: len(texts)], labels, X_nodes=X[len(texts) :])
    assert "eel" in model.top_k(features.transform(["a slippery long snake eel"]), 2)[0][0]
    plain = HiPaNClassifier(tree).fit(X[: len(texts)], labels)
    p = plain.predict_node_proba(features.transform(["slippery"]))[0]
    assert p[tree.index("eel")] > 0  # never seen, still possible
    with pytest.raises(VpunnError, match="one row per node"):
        HiPaNClassifier(tree).fit(X[: len(texts)], labels, X_nodes=X[:3])


SAID = ("hoots at night", "night feathers", "red breast feathers", "lives in ponds")


def test_several_descriptions_per_node():
    """Names and definitions as two matrices: each kind has evidence of its own, and the fitted model is kept whole."""
    tree = Tree.from_paths([("bird", "owl"), ("bird", "robin"), ("fish", "carp"), ("fish", "eel")], root="animal")
    texts = [f"{text} w{i}" for i in range(12) for text in SAID]  # equal rows would be held out together
    names = ["", "bird", "owl", "robin", "fish", "carp", "eel"]
    definitions = ["", "feathers wings", "", "red breast", "water fins", "pond ponds", "long slippery snake"]
    features = text_features(characters=None, min_rows=1)
    everything = features.fit_transform([*texts, *names, *definitions])
    X, given = everything[:48], [everything[48:55], everything[55:]]
    model = HiPaNClassifier(tree).fit(X, ["owl", "owl", "robin", "carp"] * 12, X_nodes=given)
    assert model.balls_.n_kinds == 2
    assert "eel" in model.top_k(features.transform(["eel"]), 2)[0][0]
    with pytest.raises(VpunnError, match="one row per node"):
        HiPaNClassifier(tree).fit(X, ["owl", "owl", "robin", "carp"] * 12, X_nodes=[given[0], given[1][:2]])


def test_words_learned_in_some_classes_serve_others():
    """Each class is named "up X" or "down X"; "raised" and "lowered" are only ever seen with other classes than the asked one."""
    things = [f"thing{i}" for i in range(60)]
    tree = Tree.from_paths([(f"{way} {thing}",) for thing in things for way in ("up", "down")], root="change")
    names = np.array([str(label) for label in tree.labels], object)
    names[0] = ""
    ways = (("raised", "up"), ("lowered", "down"))
    rows = [(f"{word} {thing}", f"{way} {thing}") for thing in things[:50] for word, way in ways]
    features = text_features(words=(1, 1), characters=None, min_rows=1)
    everything = features.fit_transform([*(text for text, _ in rows), *names])
    model = HiPaNClassifier(tree).fit(
        everything[: len(rows)], [label for _, label in rows], X_nodes=everything[len(rows) :]
    )
    asked = [(f"{word} {thing}", f"{way} {thing}") for thing in things[50:] for word, way in ways]
    answer = model.predict(features.transform([text for text, _ in asked]))
    assert np.mean(answer == [label for _, label in asked]) > 0.9  # without the dictionary a coin decides


def test_evidence_stays_finite_in_deep_trees_with_rare_features():
    """Shares shrink by a factor per level; they must not reach zero in half-precision data on a chain of 60 nodes."""
    tree = Tree.from_parents(np.arange(-1, 60), [f"n{i}" for i in range(61)])
    rng = np.random.default_rng(0)
    dense = (rng.random((600, 400)) < 0.02) * 1.0
    dense[:, 0] = 1.0
    X = sparse.csr_matrix(dense)
    node = rng.integers(1, 61, 600)
    with np.errstate(invalid="raise", divide="raise", over="raise"):
        model = HiPaNClassifier(tree).fit(X, tree.labels[node])
        p = model.predict_node_proba(X[:20])
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p[:, 0], 1.0)


def test_targets_as_levels_and_paths():
    rng = np.random.default_rng(0)
    levels = np.array([["a", "x"], ["a", "y"], ["b", "x"]] * 20, dtype=object)
    X = rng.normal(size=(60, 5))
    X[:, 0] += 4 * (levels[:, 0] == "a")
    X[:, 1] += 4 * (levels[:, 1] == "x")
    by_levels = HiPaNClassifier().fit(X, levels)
    by_paths = HiPaNClassifier().fit(X, [tuple(row) for row in levels])
    assert by_levels.predict_path(X) == by_paths.predict_path(X)
    right = [path[1:] == tuple(row) for path, row in zip(by_levels.predict_path(X), levels, strict=True)]
    assert np.mean(right) > 0.9


def test_partial_fit_learns_a_new_class():
    tree, X, nodes = toy(5)
    rare = int(np.bincount(nodes[:300]).argmax())
    first = nodes[:300] != rare
    model = HiPaNClassifier(tree).fit(X[:300][first], tree.labels[nodes[:300][first]])
    later = nodes[300:] == rare
    before = np.mean(model.locate(X[300:][later]) == rare)
    model.partial_fit(X[:300][~first], tree.labels[nodes[:300][~first]])
    assert before < 0.6 < np.mean(model.locate(X[300:][later]) == rare)  # "none of the others" may have meant it
    np.testing.assert_allclose(model.predict_node_proba(X[300:])[:, 0], 1.0)


def test_zero_weights_drop_rows():
    tree, X, nodes = toy(6, rows=120)
    weight = (np.arange(120) % 3 > 0).astype(float)
    a = HiPaNClassifier(tree).fit(X, tree.labels[nodes], sample_weight=weight)
    b = HiPaNClassifier(tree).fit(X[weight > 0], tree.labels[nodes[weight > 0]])
    assert np.array_equal(a.predict_node_proba(X), b.predict_node_proba(X))


@pytest.mark.parametrize("n_leaves", [1, 400])
def test_very_narrow_and_very_wide_trees(n_leaves):
    rng = np.random.default_rng(0)
    tree = Tree.from_parents([-1] + [0] * n_leaves, [f"c{i}" for i in range(n_leaves + 1)])
    nodes = rng.integers(1, n_leaves + 1, 600)
    columns = np.stack([nodes, rng.integers(0, 401, 600)], 1).ravel()
    X = sparse.csr_matrix((np.ones(1200), (np.repeat(np.arange(600), 2), columns)), shape=(600, 401))
    model = HiPaNClassifier(tree).fit(X, tree.labels[nodes])
    assert np.mean(model.locate(X) == nodes) > 0.85
    np.testing.assert_allclose(model.predict_proba(X[:3]).sum(1), 1.0)


def test_odd_rows(fitted):
    model, X, _ = fitted
    empty = sparse.csr_matrix((2, X.shape[1]))
    p = model.predict_node_proba(empty)
    np.testing.assert_allclose(p[:, 0], 1.0)
    assert np.array_equal(p[0], p[1])
    tree = model.tree_
    single = HiPaNClassifier(tree).fit(X[:1], [tree.labels[3]])
    assert single.predict(X[:2]).tolist() == [tree.labels[3]] * 2
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.full((1, X.shape[1]), np.nan))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([["n1", "n2"], ["n3"]], "one label only"),
        (np.eye(2), "several labels per row"),
        (["n1", "nowhere"], "no node is labelled 'nowhere'"),
        (["n1"], "X has 2 rows but y has 1"),
    ],
)
def test_bad_targets(y, message):
    tree, X, _ = toy(7, rows=10)
    with pytest.raises(VpunnError, match=message):
        HiPaNClassifier(tree).fit(X[:2], y)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"candidates": 0}, "candidates"), ({"holdout": 0.9}, "holdout"), ({"tree": [1]}, "tree")],
)
def test_bad_settings(options, message):
    with pytest.raises(VpunnError, match=message):
        HiPaNClassifier(**options).fit(np.eye(3), [0, 1, 2])


def test_held_out_rows_bring_no_private_vocabulary():
    known = sparse.csr_matrix(np.array([[1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 1, 1]], dtype=np.float32))
    new = sparse.csr_matrix(np.array([[3, 0, 0, 4]], dtype=np.float32))
    assert as_unseen(known, new).toarray().tolist() == [[1, 0, 0, 0]]  # feature 3 occurs twice only with the new row
    dense = np.ones((20, 3), np.float32)
    assert as_unseen(sparse.csr_matrix(dense[:18]), sparse.csr_matrix(dense[18:])).nnz == 6


def cellular_components():
    """Features of GO cellular component synonyms and, of a nearest-centroid rule, how often it is right and what it says."""
    from vpunn.datasets.tasks import go_synonyms

    task = go_synonyms(0, namespace="cellular_component")
    features = text_features(characters=None, min_rows=1)
    everything = features.fit_transform(np.concatenate([task.texts["train"], *task.descriptions]))
    rows, n = len(task.texts["train"]), task.tree.n_nodes
    X, D = everything[:rows], [everything[rows + k * n : rows + (k + 1) * n] for k in range(2)]
    Z = features.transform(task.texts["test"])
    member = sparse.csr_matrix((np.ones(rows), (task.nodes["train"], np.arange(rows))), shape=(n, rows))
    cosine = (Z @ unit_rows(sparse.csr_matrix(member @ X + sum(D))).T).toarray()
    return task, X, Z, D, cosine.argmax(1) == task.nodes["test"], cosine.max(1)


def test_beats_centroids_on_real_data():
    """GO cellular component synonyms, two passes only: still well above nearest centroid, and far better calibrated."""
    from vpunn.metrics import calibration_error

    task, X, Z, D, centroid, said = cellular_components()
    model = HiPaNClassifier(task.tree, epochs=2, holdout=0.3).fit(X, task.labels("train"), X_nodes=D)
    labels, p = model.top_k(Z, 1)
    right = labels[:, 0] == task.labels("test")
    assert np.mean(model.predict(Z) == task.labels("test")) > centroid.mean() + 0.03
    assert calibration_error(p[:, 0], right) < 0.5 * calibration_error(np.clip(said, 0, 1), centroid)


@pytest.mark.slow
def test_shuffled_tree_loses_the_gain():
    """The control: the same shape with nodes permuted must be worse, else the tree would not be what helps."""
    task, X, Z, D, *_ = cellular_components()
    tree, place, rng = task.tree, np.arange(task.tree.n_nodes), np.random.default_rng(0)
    for group in (np.flatnonzero(tree.is_leaf), np.flatnonzero(~tree.is_leaf)):
        place[group] = rng.permutation(group)
    ours = HiPaNClassifier(tree).fit(X, task.labels("train"), X_nodes=D).locate(Z)
    moved = [d[np.argsort(place)] for d in D]
    control = HiPaNClassifier(tree).fit(X, tree.labels[place[task.nodes["train"]]], X_nodes=moved).locate(Z)
    found = np.argsort(place)[control]
    assert np.mean(ours == task.nodes["test"]) > np.mean(found == task.nodes["test"]) + 0.02


def test_sharpness_is_found_again():
    """Branches drawn with prior · exp(3 · score): the fit finds 3; scores that say nothing get 0."""
    rng = np.random.default_rng(0)
    share = np.array([0.6, 0.3, 0.1])
    score = rng.normal(size=(4000, 3)).astype(np.float32)
    chance = share * np.exp(3 * score)
    branch = 1 + (rng.random((4000, 1)) > np.cumsum(chance / chance.sum(1, keepdims=True), 1)).sum(1)
    assert abs(fit_sharpness(score, branch, share) - 3) <= 0.25
    assert fit_sharpness(score[rng.permutation(4000)], branch, share) <= 0.25
    assert fit_sharpness(score, np.zeros(4000, int), share) == 0


def test_rings_are_found_again():
    """Answers drawn from rings with known weights: the fit finds the weights."""
    rng = np.random.default_rng(0)
    tree = random_tree(rng, 120)
    rows, width = 6000, 4
    candidates = np.array([rng.permutation(tree.n_nodes)[:width] for _ in range(rows)], np.int32)
    probability = rng.dirichlet(np.ones(width), rows) * 0.5
    prior, branch = rounded(rng.dirichlet(np.ones(tree.n_nodes))), branches(tree)
    tilt = np.ones((rows, branch.max() + 1))
    weights = np.array([[0.5, 0.6, 0.8], [-0.4, 0.7, 0.5]])
    posterior = Posterior(tree, candidates, probability, np.full(rows, 0.5), prior, branch, tilt, weights)
    other = posterior.masses(slice(0, rows))
    np.put_along_axis(other, candidates.astype(np.int64), 0.0, 1)
    np.testing.assert_allclose(other.sum(1), 0.5)
    truth = (2 * np.cumsum(other, 1) < rng.random((rows, 1))).sum(1)
    rings = rings_around(Prior(tree, prior, branch), Answer(candidates, probability), tilt)
    np.testing.assert_allclose(fit_rings(rings, tree, truth), weights, atol=0.15)


def _shop() -> tuple[list[str], np.ndarray]:
    """Texts about things of a shop and their levels, some of which are blank."""
    rng, things = np.random.default_rng(0), {"kitchen": ("pan", "bowl", "kettle"), "garden": ("spade", "rake")}
    chosen = [(name, rng.choice(things[name])) for name in rng.choice(list(things), 200)]
    texts = [f"{name[:3]} nice {thing} {rng.integers(9)}" for name, thing in chosen]
    levels = np.array([(name, thing if rng.random() < 0.9 else None) for name, thing in chosen], object)
    return texts, levels


def test_columns_are_in_the_order_of_labels_as_log_loss_takes_them() -> None:
    texts, levels = _shop()
    whole = np.flatnonzero([cell is not None for cell in levels[:, 1]])
    X, y = text_features().fit_transform(np.array(texts)[whole]), levels[whole, 1].astype(str)
    tree = Tree.from_paths([(a, b) for a, b in levels if b], root="shop")
    model = HiPaNClassifier(tree).fit(X, y)
    assert model.classes_.tolist() == sorted(model.classes_) != tree.labels[tree.is_leaf].tolist()
    p = model.predict_proba(X)
    of_truth = p[np.arange(len(y)), np.searchsorted(model.classes_.astype(str), y)]
    assert log_loss(y, p) == pytest.approx(-np.log(of_truth).mean())
    assert log_loss(y, p) < 0.2
    assert (model.classes_[p.argmax(1)] == model.predict(X)).all()
    assert (model.predict_proba(X, k=5).toarray() == p).all()


def test_level_columns_are_scored_as_they_are_fitted() -> None:
    texts, levels = _shop()
    X = text_features().fit_transform(texts)
    model = HiPaNClassifier().fit(X, levels)
    right = model.posterior(X).best() == model.tree_.locate(without_gaps(levels)).nodes
    assert model.score(X, levels) == right.mean() > 0.8
    new = levels.copy()
    new[:50, 1] = "hoe"  # a path that no tree has is wrong, not an error: folds leave some out
    assert model.score(X, new) == right[50:].sum() / 200
    blank = np.where(levels == None, "", levels).astype(str)  # noqa: E711  # scikit-learn sorts what it is given
    assert (cross_val_score(make_pipeline(text_features(), HiPaNClassifier()), texts, blank, cv=3) > 0.7).all()
