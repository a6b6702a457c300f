"""What users see of `HiPaNClassifier`: one answer, exact probabilities, the same bits, folders, blocks, small tables."""

from __future__ import annotations

import json
import pickle
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.covariance import ledoit_wolf
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import vpunn
from stores import write_head
from vpunn import HiPaNClassifier, Tree, metrics, text_features
from vpunn.errors import DataError, VpunnError
from vpunn.hipan import Views, conformal
from vpunn.hipan.answering import Answering
from vpunn.hipan.readings import shrunk_covariance
from vpunn.hipan.targets import without_gaps

#: Folds are drawn, so doubling a weight is not the same as repeating a row.
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "random folds",
    "check_sample_weight_equivalence_on_sparse_data": "random folds",
}


@parametrize_with_checks([HiPaNClassifier()], expected_failed_checks=lambda _: EXPECTED_FAILURES)
def test_scikit_learn(estimator, check):
    check(estimator)


def toy(seed=0, n_nodes=40, rows=400, features=60):
    """Rows whose features are drawn from those of the node's ancestors: a hierarchy that features can see."""
    rng = np.random.default_rng(seed)
    tree = Tree.from_parents(
        [-1, *(int(rng.integers(0, i)) for i in range(1, n_nodes))], [f"n{i}" for i in range(n_nodes)]
    )
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


# ---- answers ---------------------------------------------------------------------------------------------------------


def test_it_learns_what_features_show(fitted):
    model, X, nodes = fitted
    tree = model.tree_
    right = np.mean(model.predict(X[300:]) == tree.labels[nodes[300:]])
    assert right > 0.6 > 3 * np.bincount(nodes[:300]).max() / 300
    assert np.mean(tree.lca_depth(model.locate(X[300:]), nodes[300:]) >= 1) > right


def test_probabilities_add_up_and_rankings_are_exact(fitted):
    model, X, _ = fitted
    tree, rows = model.tree_, X[300:]
    node, exact = model.predict_node_proba(rows), np.zeros((100, tree.n_nodes))
    dense = exact[:, model.class_nodes_] = model.predict_proba(rows)
    np.testing.assert_allclose(node[:, 0], 1.0)
    children = np.zeros_like(node)
    np.add.at(children.T, tree.parent[1:], node[:, 1:].T)
    np.testing.assert_allclose(node, exact + children, atol=1e-9)
    labels, p = model.top_k(rows, 12)
    np.testing.assert_allclose(p, -np.sort(-dense, axis=1)[:, :12], atol=1e-9)
    place = {label: i for i, label in enumerate(model.classes_)}
    for row, (names, values) in enumerate(zip(labels, p, strict=True)):
        assert len(set(names)) == 12
        np.testing.assert_allclose([dense[row, place[name]] for name in names], values, atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(rows, k=10_000).toarray(), dense, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_every_way_to_ask_gives_the_same_node(seed):
    tree, X, nodes = toy(seed, n_nodes=20, rows=120, features=20)
    model = HiPaNClassifier(tree, random_state=seed).fit(X[:80], tree.labels[nodes[:80]])
    rows = sparse.vstack([X[80:], sparse.csr_matrix((3, 20))]).tocsr()
    answer = model.predict(rows)
    assert np.array_equal(answer, model.top_k(rows, 1)[0][:, 0])
    assert np.array_equal(answer, tree.labels[model.locate(rows)])
    assert [path[-1] for path in model.predict_path(rows)] == answer.tolist()
    assert [vpunn.explain(model, rows[[i]]).label for i in (0, 1, 42)] == answer[[0, 1, 42]].tolist()
    proba = model.predict_proba(rows)
    assert np.allclose(proba[np.arange(43), [model.classes_.tolist().index(a) for a in answer]], proba.max(1))
    by_path = model.posterior(rows).best("path")
    assert np.array_equal(model.predict(rows, rule="path"), tree.labels[by_path])
    with pytest.raises(VpunnError, match="rule='wide' is unknown"):
        model.predict(X, rule="wide")
    with pytest.raises(VpunnError, match="give one of them"):
        model.predict(X, rule="path", stop="risk")


def test_stops(fitted):
    model, X, _ = fitted
    tree, p = model.tree_, model.predict_node_proba(X[300:])
    for threshold in (0.3, 0.6, 0.95):
        answer = tree.index(model.predict(X[300:], stop="threshold", threshold=threshold))
        assert all(node == 0 or p[r, node] >= threshold - 1e-9 for r, node in enumerate(answer))
    assert (tree.depth[tree.index(model.predict(X[300:], stop="depth", depth=1))] <= 1).all()
    assert model.predict(X[300:], stop="depth", depth=0).tolist() == [tree.labels[0]] * 100
    for cost in (0.2, 3.0):
        cheap = tree.index(model.predict(X[300:], stop="cost", cost=cost))
        assert np.array_equal(
            cheap, metrics.bayes_nodes(tree, p.clip(0, 1), weights=cost ** np.arange(tree.max_depth))[0]
        )
    assert (tree.depth[tree.index(model.predict(X[300:], stop="cost", cost=1e200))] > 0).all()  # no overflow
    for wrong, said in ({"stop": "depth", "depth": 99}, "depth must lie between"), ({"stop": "soon"}, "stop="):
        with pytest.raises(VpunnError, match=said):
            model.predict(X[:1], **wrong)


def test_conformal_answers_cover():
    """Coverage over many exchangeable splits of rows the model has not seen lies at or just above 1 − α."""
    tree, X, nodes = toy(2, rows=900)
    model = HiPaNClassifier(tree).fit(X[:300], tree.labels[nodes[:300]])
    posterior = model.posterior(X[300:])
    scores, rng = conformal.miss_scores(posterior, nodes[300:]), np.random.default_rng(0)
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


def test_a_held_out_row_counts_for_what_it_stands_for():
    rng = np.random.default_rng(0)
    score, copies = rng.random(400), rng.integers(1, 9, 400)
    for alpha in (0.05, 0.1, 0.3):
        whole = conformal.conformal_threshold(np.repeat(score, copies), alpha)
        found = conformal.of_equal_weight(score, copies.astype(np.float32))
        assert whole <= conformal.conformal_threshold(found, alpha) <= whole + 0.02
    assert 200 < len(found) < 400 and conformal.of_equal_weight(score, np.full(400, 3.0)) is score


# ---- targets and descriptions ----------------------------------------------------------------------------------------


def shop():
    """Texts about things of a shop and their levels, some of which are blank."""
    rng, things = np.random.default_rng(0), {"kitchen": ("pan", "bowl", "kettle"), "garden": ("spade", "rake")}
    chosen = [(name, rng.choice(things[name])) for name in rng.choice(list(things), 200)]
    texts = [f"{name[:3]} nice {thing} {rng.integers(9)}" for name, thing in chosen]
    return texts, np.array([(name, thing if rng.random() < 0.9 else None) for name, thing in chosen], object)


def test_columns_are_in_the_order_of_labels_as_log_loss_takes_them():
    texts, levels = shop()
    whole = np.flatnonzero([cell is not None for cell in levels[:, 1]])
    X, y = text_features().fit_transform(np.array(texts)[whole]), levels[whole, 1].astype(str)
    model = HiPaNClassifier(Tree.from_paths([(a, b) for a, b in levels if b], root="shop")).fit(X, y)
    assert model.classes_.tolist() == sorted(model.classes_)
    p = model.predict_proba(X)
    of_truth = p[np.arange(len(y)), np.searchsorted(model.classes_.astype(str), y)]
    assert log_loss(y, p) == pytest.approx(-np.log(of_truth).mean()) and log_loss(y, p) < 0.3


def test_level_columns_are_scored_as_they_are_fitted():
    texts, levels = shop()
    X = text_features().fit_transform(texts)
    model = HiPaNClassifier().fit(X, levels)
    right = model.posterior(X).best() == model.tree_.locate(without_gaps(levels)).nodes
    assert model.score(X, levels) == right.mean() > 0.8
    new = levels.copy()
    new[:50, 1] = "hoe"  # a path that no tree has is wrong, not an error: folds leave some out
    assert model.score(X, new) == right[50:].sum() / 200
    blank = np.where(levels == None, "", levels).astype(str)  # noqa: E711  # scikit-learn sorts what it is given
    assert (cross_val_score(make_pipeline(text_features(), HiPaNClassifier()), texts, blank, cv=3) > 0.7).all()


def test_descriptions_reach_nodes_without_rows():
    tree = Tree.from_paths([("bird", "owl"), ("bird", "robin"), ("fish", "carp"), ("fish", "eel")], root="animal")
    said = ("owl hoots at night", "owl night feathers", "robin red breast feathers", "carp lives in ponds")
    texts, labels = [f"{text} w{i}" for i in range(12) for text in said], ["owl", "owl", "robin", "carp"] * 12
    names = ["", "bird", "owl", "robin", "fish", "carp", "eel"]
    meant = ["", "feathers wings", "night hoots", "red breast", "water fins", "pond ponds", "long slippery eel snake"]
    features = text_features(characters=None, min_rows=1)
    everything = features.fit_transform([*texts, *names, *meant])
    X, kinds = everything[:48], [everything[48:55], everything[55:]]
    for given in (kinds, kinds[1]):
        model = HiPaNClassifier(tree).fit(X, labels, X_nodes=given)
        assert "eel" in model.top_k(features.transform(["a slippery long snake eel"]), 2)[0][0]
    p = HiPaNClassifier(tree, novelty=True).fit(X, labels).predict_node_proba(features.transform(["slippery"]))[0]
    assert p[tree.index("eel")] > 0  # never seen, still possible
    for wrong in (kinds[0][:3], [kinds[0], kinds[1][:2]]):
        with pytest.raises(VpunnError, match="one row per node"):
            HiPaNClassifier(tree).fit(X, labels, X_nodes=wrong)


# ---- the same bits ---------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
WIDE = Tree.from_parents([-1] + [0] * 12 + [1 + i // 8 for i in range(96)])
Y = RNG.integers(0, 96, 700)
NUMBERS = RNG.normal(size=(96, 24))[Y] + RNG.normal(size=(700, 24)) * 1.2
MARKS = RNG.integers(0, 300, (96, 4))[Y]
WORDS = sparse.csr_matrix((np.ones(2800), (np.repeat(np.arange(700), 4), MARKS.ravel())), shape=(700, 300))
WORDS = sparse.csr_matrix(WORDS + sparse.random(700, 300, 0.03, random_state=0, format="csr"))


@pytest.mark.parametrize("kind", ["words", "numbers", "both"])
def test_a_row_alone_in_a_batch_and_loaded_has_the_same_bits(kind, tmp_path):
    def rows(part):
        blocks = {"words": WORDS[part], "numbers": NUMBERS[part]}
        return blocks if kind == "both" else blocks[kind]

    model = HiPaNClassifier(WIDE, random_state=0).fit(rows(slice(None)), WIDE.labels[WIDE.leaves[Y]])
    together = model.predict_node_proba(rows(slice(0, 42)))
    for width in (1, 7):
        for start in range(0, 42, width):
            part = slice(start, start + width)
            assert np.array_equal(model.predict_node_proba(rows(part)), together[part])
    path = model.save(tmp_path / "m")
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    loaded = vpunn.load(path, verify=True)
    assert type(loaded) is HiPaNClassifier and np.array_equal(loaded.predict_node_proba(rows(slice(0, 42))), together)
    assert {file.name: file.read_bytes() for file in loaded.save(tmp_path / "again").iterdir()} == before
    for copy in (loaded, pickle.loads(pickle.dumps(model))):
        copy.partial_fit(rows(slice(0, 9)), WIDE.labels[WIDE.leaves[Y[:9]]])
        assert np.array_equal(
            copy.predict(rows(slice(0, 42))), loaded.predict(rows(slice(0, 42)))
        )  # learned more alike
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before  # the mapped files are as they were


def test_the_same_seed_gives_the_same_folder_and_the_order_in_memory_is_no_matter(tmp_path):
    tree, X, nodes = toy(1, rows=150)
    for name in ("a", "b"):
        HiPaNClassifier(tree, random_state=3).fit(X, tree.labels[nodes]).save(tmp_path / name)
    a, b = ({f.name: f.read_bytes() for f in (tmp_path / name).iterdir()} for name in ("a", "b"))
    assert a == b
    rng, y = np.random.default_rng(5), np.arange(300) % 5
    rows = np.round(np.eye(20)[y] + rng.normal(size=(300, 20)), 1)
    one, other = (
        HiPaNClassifier(random_state=0).fit(x, y).predict_proba(rows) for x in (rows, np.asfortranarray(rows))
    )
    assert one.tobytes() == other.tobytes()


def test_the_half_that_answers_gives_the_same_answers(fitted, tmp_path):
    """`Answering` reads the same folder without what learns, and without scikit-learn."""
    model, X, _ = fitted
    half = Answering.load(model.save(tmp_path / "m"))
    assert not isinstance(half, BaseEstimator)
    for options in ({}, {"rule": "path"}, {"stop": "threshold"}, {"stop": "depth"}, {"stop": "risk"}):
        assert half.predict(X, **options).tolist() == model.predict(X, **options).tolist()
    for given in (X.toarray(), X.toarray().tolist(), X.astype(np.float32), X.tocsc()):
        assert np.array_equal(half.predict_node_proba(given), model.predict_node_proba(X))
    for wrong in (X[:, :3], X[:0], np.full((1, X.shape[1]), np.nan), ["text"]):
        told = []
        for one in (half, model):
            with pytest.raises(VpunnError) as error:
                one.predict(wrong)
            told.append(str(error.value))
        assert told[0] == told[1]
    with pytest.raises(NotFittedError):
        Answering().predict(X)
    head = half.save(tmp_path / "again") / "model.json"
    assert head.read_bytes() == (tmp_path / "m" / "model.json").read_bytes()


def test_a_folder_of_the_old_classifier_is_refused_in_one_sentence(fitted, tmp_path):
    path = fitted[0].save(tmp_path / "m")
    head = json.loads((path / "model.json").read_text())
    write_head(path, head | {"format": 2, "version": "0.2.0"})
    with pytest.raises(DataError, match=r"of format 2 \(vpunn 0.2.0\), which answered by other rules; fit it again"):
        vpunn.load(path)


def test_a_few_more_rows_are_learned_by_all_experts(fitted):
    _, X, nodes = fitted
    tree, _, _ = toy()
    labels = tree.labels[nodes]
    model = HiPaNClassifier(tree, random_state=0).fit(X[:70], labels[:70])
    before = np.mean(model.predict(X[350:]) == labels[350:])
    model.partial_fit(X[70:350], labels[70:350])
    assert np.mean(model.predict(X[350:]) == labels[350:]) > before
    assert model.task_.n == 350


# ---- blocks ----------------------------------------------------------------------------------------------------------


def two_blocks(seed=0, rows=400):
    """Words tell the branch, numbers the leaf within it."""
    rng = np.random.default_rng(seed)
    leaf = rng.integers(0, 4, rows)
    tree = Tree.from_paths([("a", "a0"), ("a", "a1"), ("b", "b0"), ("b", "b1")], root="r")
    words = sparse.csr_matrix(
        (rng.random((rows, 30)) < 0.1) + 3.0 * np.eye(30)[leaf // 2 + 2 * rng.integers(0, 5, rows)]
    )
    return tree, Views(words=words, size=rng.normal(size=(rows, 3)) + 4.0 * (leaf % 2)[:, None]), leaf


def test_blocks_speak_together():
    tree, X, leaf = two_blocks()
    y = tree.labels[tree.leaves][leaf]
    model, rest = HiPaNClassifier(tree).fit(X.take(slice(0, 300)), y[:300]), X.take(slice(300, None))
    alone = [
        np.mean(HiPaNClassifier(tree).fit(X[b][:300], y[:300]).predict(X[b][300:]) == y[300:])
        for b in ("words", "size")
    ]
    assert np.mean(model.predict(rest) == y[300:]) > 0.9 > max(alone) + 0.2
    swapped = {"size": rest["size"], "words": rest["words"]}
    assert np.array_equal(model.predict_node_proba(swapped), model.predict_node_proba(rest))
    model.partial_fit(rest, y[300:])
    assert np.mean(model.predict(rest) == y[300:]) > 0.9


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda X: X | {"size": X["size"][:-1]}, "differ in their number of rows"),
        (lambda X: X | {"size": np.full_like(X["size"], np.nan)}, "block 'size' .*NaN"),
        (lambda X: X | {"size": X["size"][:, :2]}, "block 'size' has 2 columns"),
        (lambda X: {"words": X["words"]}, "reads the blocks .*; 'size' is missing"),
        (lambda X: X | {"more": X["size"]}, "'more' is not one of them"),
        (lambda X: X["words"], "pass a dict"),
        (lambda X: X | {"size": np.array([["x"] * 3] * len(X["size"]))}, "block 'size' cannot be used"),
    ],
)
def test_bad_blocks_are_named(change, said, blocks):
    model, X = blocks
    with pytest.raises(VpunnError, match=said):
        model.predict(change(dict(X)))


@pytest.fixture(scope="module")
def blocks():
    tree, X, leaf = two_blocks(rows=80)
    return HiPaNClassifier(tree).fit(X, tree.labels[tree.leaves][leaf]), X


def test_dense_tables_are_learned():
    X, y = load_digits(return_X_y=True)
    tree = Tree.from_paths([("even" if c % 2 == 0 else "odd", str(c)) for c in range(10)], root="digit")
    model = HiPaNClassifier(tree).fit(X[:500], y[:500].astype(str))
    assert np.mean(model.predict(X[900:]) == y[900:].astype(str)) > 0.88


def test_groups_are_held_out_together_whatever_they_tell():
    """Every source has a word of its own that tells its class: only rows of other sources say how much words are worth."""
    rng = np.random.default_rng(0)
    source = np.repeat(np.arange(60), 10)
    y = source % 3
    X = np.eye(60)[source] + 0.0
    X = sparse.csr_matrix(np.concatenate([X, rng.random((600, 20)) < 0.2], 1))
    told, plain = (
        HiPaNClassifier(random_state=0).fit(X, y, **options).top_k(sparse.csr_matrix(X[:50] * 0 + X[[7] * 50]), 1)[1]
        for options in ({"groups": source}, {})
    )
    new = sparse.csr_matrix(np.concatenate([np.zeros((50, 60)), rng.random((50, 20)) < 0.2], 1))
    sure = HiPaNClassifier(random_state=0).fit(X, y, groups=source).top_k(new, 1)[1].mean()
    assert sure < 0.6 and told.mean() <= plain.mean()


# ---- small tables ----------------------------------------------------------------------------------------------------

COMMON = ("red", "blue", "small", "large", "new", "old", "fine", "rough", "strong", "light", "soft", "hard")


def own_words(classes: int, rows: int, seed: int = 0):
    """Texts of one word that only their class has and two that all have, their classes; and one new text of every class."""
    rng = np.random.default_rng(seed)
    words = ["".join(rng.choice(list("abcdefghijklmnoprstuwz"), 7)) for _ in range(classes)]

    def text(k: int) -> str:
        return " ".join([words[k], *rng.choice(COMMON, 2, replace=False)])

    known = [k for k in range(classes) for _ in range(rows)]
    labels = np.array([f"k{k:03d}" for k in range(classes)])
    return [text(k) for k in known], labels[known], [text(k) for k in range(classes)], labels


@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize("classes", [5, 64, 65, 150])
def test_a_word_of_its_own_finds_its_class(classes, rows):
    texts, y, new, labels = own_words(classes, rows)
    features = text_features(min_rows=1)
    model = HiPaNClassifier(random_state=0).fit(features.fit_transform(texts), y)
    assert (model.predict(features.transform(texts)) == y).mean() > 0.95
    assert (model.predict(features.transform(new)) == labels).mean() > 0.9


def test_a_list_of_numbers_finds_what_lies_near():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 12))
    model = HiPaNClassifier(random_state=0).fit(X, np.arange(100))
    assert (model.predict(X + 0.1 * rng.normal(size=X.shape)) == np.arange(100)).mean() > 0.95


@pytest.mark.parametrize("copies", [1, 3, 20])
@pytest.mark.parametrize(("columns", "shift"), [(1, 0.0), (20, 5.0)])
def test_a_class_at_the_mean_of_all_columns_is_found(columns, shift, copies):
    X = np.repeat([-1.0, 0.0, 1.0], copies)[:, None] * np.ones(columns) + shift
    y = np.repeat(["low", "middle", "high"], copies)
    assert (HiPaNClassifier(random_state=0).fit(X, y).predict(X) == y).all()


@pytest.mark.parametrize("columns", [2, 3, 5])
def test_a_class_close_around_the_mean_of_all_is_found(columns):
    rng = np.random.default_rng(columns)
    centre = 3 * rng.normal(size=(4, columns))
    centre = np.concatenate([centre, [centre.mean(0)]])
    y = np.repeat(np.arange(5), 20)
    X, new = (centre[y] + 0.05 * rng.normal(size=(100, columns)) for _ in range(2))
    assert (HiPaNClassifier(random_state=0).fit(X, y).predict(new) == y).mean() > 0.98


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_wide_rows_that_are_all_the_same(rows):
    model = HiPaNClassifier(random_state=0).fit(np.full((rows, 300), 3.0), ["x", "y", "x", "x", "y"][:rows])
    posterior = model.posterior(np.vstack([np.full(300, 3.0), np.arange(300.0)]))
    assert np.isfinite(posterior.top_k(1)[1]).all() and set(model.predict(np.full((1, 300), 3.0))) <= {"x", "y"}


@pytest.mark.parametrize(("rows", "columns"), [(5, 3), (50, 1), (40, 60), (2, 4)])
def test_the_shrunk_covariance_is_ledoit_and_wolfs(rows, columns):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, columns)) @ rng.normal(size=(columns, columns))
    x -= x.mean(0)
    assert np.allclose(shrunk_covariance(x), partial(ledoit_wolf, assume_centered=True)(x)[0])
