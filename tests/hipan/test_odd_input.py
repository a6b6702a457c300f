"""The classifier and its explanations under odd input: one clear sentence, and nothing silently wrong."""

from __future__ import annotations

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from strategies import KINDS, LIFE
from vpunn.errors import DataError, VpunnError
from vpunn.explanations import contrast, describe_ball, explain, export_tree_for_viz
from vpunn.hipan import HiPaNClassifier
from vpunn.tree import Tree

TREE = LIFE
LABELS = np.array(KINDS * 15)


def features():
    rng = np.random.default_rng(0)
    base = {name: rng.random(6) * (rng.random(6) < 0.6) for name in LABELS[:4]}
    return np.array([np.maximum(base[name] + rng.normal(0, 0.1, 6), 0) for name in LABELS])


X = features()
S = sparse.csr_matrix(X)


@pytest.fixture(scope="module")
def model():
    return HiPaNClassifier(
        TREE,
    ).fit(S, LABELS)


def fitted(y=LABELS, X=S, tree=None, **options):
    return HiPaNClassifier(
        tree,
    ).fit(X, y, **options)


# ---- copies and files ------------------------------------------------------------------------------------------------


def test_a_pickled_model_still_knows_its_tree(model, tmp_path):
    copy = pickle.loads(pickle.dumps(model))
    assert explain(copy, S[:1], "animal").label == "animal"
    one, other = copy.save(tmp_path / "copy"), model.save(tmp_path / "model")
    assert {f.name: f.read_bytes() for f in one.iterdir()} == {f.name: f.read_bytes() for f in other.iterdir()}
    more = copy.partial_fit(S[:8], LABELS[:8])
    assert np.array_equal(more.classes_, model.classes_)
    assert more.calibrate(S, LABELS).predict(S[:1], stop="risk").shape == (1,)


def test_a_model_of_read_only_arrays_answers_as_before(model, tmp_path):
    """As in the processes of joblib, which get large arrays so."""
    joblib.dump(model, tmp_path / "model")
    mapped = joblib.load(tmp_path / "model", mmap_mode="r")
    assert np.array_equal(mapped.predict_proba(S), model.predict_proba(S))


@pytest.mark.parametrize("options", [{"X_nodes": "none"}, {"groups": [1, 2]}])
def test_a_fit_that_is_refused_leaves_the_model_as_it_was(options):
    model = fitted()
    before = model.predict_proba(S)
    wide, other = sparse.random(60, 9, 0.5, format="csr", random_state=0), np.array(["oak", "elm"] * 30)
    with pytest.raises(VpunnError):
        model.fit(wide, other, **options)
    assert np.array_equal(model.predict_proba(S), before) and model.n_features_in_ == 6


@pytest.mark.parametrize("column", [-1, 6, 10**6])
def test_entries_outside_of_a_sparse_matrix_are_refused(model, column):
    """SciPy does not look, and ``vocabulary.get(word, -1)`` gives them."""
    bad = sparse.csr_matrix(S[:3])
    bad.indices = bad.indices.copy()
    bad.indices[1] = column
    for use in (
        model.predict,
        lambda X: fitted(LABELS[:3], X),
        lambda X: fitted(LABELS[:3], {"words": X}),
        lambda X: fitted(X_nodes=X, tree=TREE),
    ):
        with pytest.raises(VpunnError, match=f"entry in column {column:,}"):
            use(bad)
    bad = sparse.csr_matrix(S[:3])
    bad.indptr = np.array([0, 5, 2, bad.nnz], bad.indptr.dtype)
    with pytest.raises(VpunnError, match="indptr does not rise"):
        model.predict(bad)


@pytest.mark.parametrize("kind", [">i4", ">i8", "u8", "u4", "i2"])
def test_places_of_a_sparse_matrix_may_be_whole_numbers_of_any_type(model, kind):
    """As other libraries and files of other machines have them; the loops were compiled for SciPy's."""
    odd = sparse.csr_matrix(S)
    odd.indices, odd.indptr = odd.indices.astype(kind), odd.indptr.astype(kind)
    assert np.array_equal(model.predict_proba(odd), model.predict_proba(S))
    assert np.array_equal(fitted(X=odd).predict_proba(S), fitted().predict_proba(S))


def test_weights_too_small_for_32_bits_are_refused():
    with pytest.raises(VpunnError, match="multiply all of them by the same number"):
        fitted(sample_weight=np.full(60, 1e-50))


def test_a_block_without_descriptions_that_its_only_row_leaves():
    rng = np.random.default_rng(0)
    blocks = {"meaning": rng.normal(size=(1, 16)), "size": rng.normal(size=(1, 2))}
    model = fitted(LABELS[:1], blocks, TREE, X_nodes={"size": rng.normal(size=(TREE.n_nodes, 2))})
    assert model.predict(blocks).tolist() == LABELS[:1].tolist()


def test_a_data_frame_of_zeros_and_ones_names_its_classes():
    table = pd.get_dummies(pd.Series(LABELS)).astype(int)
    table.iloc[:5, 0] = table.iloc[:5, 1] = 1
    model, named = (
        fitted(table, multilabel=True),
        fitted(table.to_numpy(), multilabel=True, classes=list(table.columns)),
    )
    assert set(model.classes_) >= set(table.columns)
    assert np.array_equal(model.predict_proba(S), named.predict_proba(S))


@pytest.mark.parametrize(
    "y",
    [
        LABELS.astype(object),
        np.array([np.int64(i % 4) for i in range(60)], object),
        np.arange(60) % 2 == 0,
        [("a",), ("a", "b"), ("c", "d", "e")] * 20,
    ],
)
def test_labels_of_any_kind_come_back(y, tmp_path):
    first = HiPaNClassifier(random_state=3).fit(S, y)
    first.save(tmp_path / "m")
    again = HiPaNClassifier.load(tmp_path / "m")
    assert again.classes_.dtype == first.classes_.dtype
    assert np.array_equal(again.predict(S), first.predict(S))
    assert np.array_equal(again.predict_node_proba(S), first.predict_node_proba(S))
    assert again.random_state == 3


def test_what_is_no_saved_classifier(model, tmp_path):
    model.tree_.save(tmp_path / "tree")
    with pytest.raises(DataError, match="holds a Tree, not a HiPaNClassifier"):
        HiPaNClassifier.load(tmp_path / "tree")
    with pytest.raises(DataError, match="there is no model folder"):
        HiPaNClassifier.load(tmp_path / "nowhere")
    with pytest.raises(DataError, match="a file is named"):
        model.save(None)


# ---- targets and weights ---------------------------------------------------------------------------------------------


def test_paths_of_any_length_and_type():
    assert fitted([("a",), ("a", "b")] * 30).tree_.n_nodes == 3
    assert fitted([(1, 2), (1, 3)] * 30).tree_.labels.tolist() == ["root", 1, 2, 3]
    levels = np.array([["animal", "bird"], ["plant", None]] * 30, object)
    assert set(fitted(levels, tree=TREE).task_.node.tolist()) == {TREE.index("bird"), TREE.index("plant")}


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([None, *LABELS[1:]], "no label .* in 1 of 60 rows, at 0"),
        (np.array([np.nan, *LABELS[1:]], object), "no label"),
        ([float("nan"), *range(59)], "no label"),
        ([float("inf"), *range(59)], "infinite in row 0, which is no label"),
        (np.array([*range(59), -np.inf], object), "infinite in row 59"),
        (pd.Series([pd.NA, *LABELS[1:]], dtype="string"), "no label"),
        (np.array([1, *LABELS[1:]], object), "several types"),
        ([("a", "b"), "c"] * 30, "mixes paths and labels"),
        (["bird", ("a", "b")] * 30, "mixes paths and labels"),
        (np.array([["a", "b"], [None, None]] * 30, object), "no label in any level column"),
        (np.zeros((60, 2, 2), str), "shape"),
        (np.linspace(0, 1, 60), "Unknown label type"),
        (3, "one label per row"),
        ("bird", "one label per row"),
        (np.array("bird"), "one label per row, got array\\('bird'"),
        (np.array(3), "one label per row"),
        (dict(enumerate(LABELS)), "in a list or an array"),
        (set(range(60)), "in a list or an array"),
        ((label for label in LABELS), "in a list or an array"),
        (dict(enumerate(LABELS)).values(), "in a list or an array"),
        (np.ma.array(LABELS, mask=np.arange(60) == 3), "y has 1 masked entries"),
        (np.array(["2020-01-01", "NaT"] * 30, "M8[ns]"), "no label .* in 30 of 60 rows"),
        (np.array(["2020-01-01", "NaT"] * 30, "M8[D]"), "no label .* in 30 of 60 rows"),
        (1j * (np.arange(60) % 2), "complex"),
    ],
)
def test_bad_targets_are_one_sentence(y, message):
    with pytest.raises(VpunnError, match=message):
        fitted(y)


def test_labels_must_match_rows_later_too(model):
    for method in (model.calibrate, model.partial_fit):
        with pytest.raises(VpunnError, match="60 rows but y has 5"):
            method(S, LABELS[:5])
        with pytest.raises(VpunnError, match="one label per row"):
            method(S, None)
    with pytest.raises(VpunnError, match=r"such as root"):
        fitted().partial_fit(S, ["unicorn"] * 60)


@pytest.mark.parametrize("weight", [np.zeros(60), -np.ones(60), np.full(60, np.nan), np.ones(3), ["a"] * 60])
def test_bad_weights(model, weight):
    with pytest.raises(VpunnError):
        fitted(sample_weight=weight)
    with pytest.raises(VpunnError):
        model.partial_fit(S, LABELS, sample_weight=weight)


def test_partial_fit_drops_rows_of_weight_zero():
    weight = (np.arange(60) % 2).astype(float)
    a = fitted(tree=TREE).partial_fit(S, LABELS, sample_weight=weight)
    b = fitted(tree=TREE).partial_fit(S[1::2], LABELS[1::2])
    assert np.array_equal(a.predict_node_proba(S), b.predict_node_proba(S))


def test_a_single_label_is_no_column_anywhere(model):
    one = np.array("bird")
    ask = [model.calibrate, model.partial_fit, model.score, HiPaNClassifier().partial_fit]
    for y in (one, "bird", None, (label for label in LABELS)):
        for method in ask:
            with pytest.raises(VpunnError, match="one label per row|y is None"):
                method(S, y)
    with pytest.raises(VpunnError, match="one label per row"):
        model.nodes_of(one)
    with pytest.raises(VpunnError, match="validation= teaches the combiner of rows with several labels"):
        fitted(validation=(S, LABELS))
    for options in ({"multilabel": True}, {}):
        with pytest.raises(VpunnError, match="one label per row"):
            fitted(one, **options)
    with pytest.raises(VpunnError, match="classes must hold one label per column"):
        fitted(sparse.csr_matrix(np.eye(2)[np.arange(60) % 2]), classes=one)


# ---- features and descriptions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [np.full((1, 6), np.nan), np.zeros((0, 6)), X[0], X[:, :3], [["a"] * 6]])
def test_bad_rows(model, rows):
    with pytest.raises(VpunnError):
        model.predict(rows)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (np.array(3.0), "Expected 2D array, got scalar array instead; Reshape your data: .*\\.$"),
        (X[0], "Expected 2D array, got 1D array instead; Reshape your data: .*\\.$"),
        ((row for row in X), "table of numbers, got generator"),
        (object(), "table of numbers, got object"),
        ((X + 1j).tolist(), "table of numbers, got list"),
        (X + 1j, "Complex data not supported; give the real and imaginary parts"),
        (np.ma.array(X, mask=X > 1), "masked entries"),
        (np.where(X > 0.5, np.inf, -np.inf), "contains infinity"),
        ({}, "no blocks|reads one matrix"),
        ({1: X}, "names of blocks are texts, such as 'words', got 1|reads one matrix"),
        ({"1": X, 1: X}, "names of blocks are texts|reads one matrix"),
        ({"": X}, "names of blocks are texts|reads one matrix"),
        ({"n": np.array(3.0)}, "block 'n' cannot be used: Expected 2D array|reads one matrix"),
        ({"n": (row for row in X)}, "block 'n' cannot be used: X must be a table|reads one matrix"),
        ({"n": np.ma.array(X, mask=X > 1)}, "block 'n' has .* masked|reads one matrix"),
    ],
)
def test_what_is_no_table_of_numbers(model, rows, said):
    """One sentence, without the numbers of the array."""
    for ask in (lambda: fitted(X=rows), lambda: model.predict(rows)):
        with pytest.raises(VpunnError, match=said) as error:
            ask()
        assert "\n" not in str(error.value) and len(str(error.value)) < 250


@pytest.mark.parametrize("kind", ["i1", "u1", "i8", "f2", "f4", "g", "?", "O"])
def test_numbers_of_any_type_are_the_same_numbers(kind):
    whole = np.rint(4 * X).astype(bool if kind == "?" else np.int64)
    wanted = fitted(X=whole.astype(float)).predict_proba(whole.astype(float))
    assert (fitted(X=whole.astype(kind)).predict_proba(whole.astype(kind)) == wanted).all()


def test_zero_rows_of_descriptions_are_no_descriptions_in_dense_data():
    texts = np.zeros((TREE.n_nodes, 6))
    texts[TREE.index("bird")] = X[0]
    for given in (texts, sparse.coo_array(texts), [texts]):
        task = fitted(X=X, tree=TREE, X_nodes=given).task_
        assert task.node[task.n :].tolist() == [TREE.index("bird")]
    task = fitted(X=X, tree=TREE, X_nodes=[]).task_
    assert task.n == len(task.node)


def test_the_root_over_flat_classes_takes_no_description():
    model = fitted(X_nodes=np.ones((5, 6)))
    np.testing.assert_allclose(model.predict_proba(S).sum(1), 1.0, atol=1e-12)
    assert all(len(set(row)) == 4 for row in model.top_k(S, 9)[0].tolist())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.full((7, 6), "a"), "table of numbers"),
        ("text", "table of numbers"),
        (np.full((7, 6), np.inf), "NaN or infinity"),
        (np.zeros((3, 6)), "one row per node"),
        ([None], "one row per node"),
    ],
)
def test_bad_descriptions(given, message):
    with pytest.raises(VpunnError, match=message):
        fitted(tree=TREE, X_nodes=given)


# ---- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"stop": "threshold", "threshold": 2},
        {"stop": "threshold", "threshold": float("nan")},
        {"stop": "threshold", "threshold": "a"},
        {"stop": "risk", "alpha": None},
        {"stop": "depth", "depth": 1.5},
        {"stop": "depth", "depth": "a"},
    ],
)
def test_bad_stops(model, options):
    with pytest.raises(VpunnError, match=options["stop"] if options["stop"] != "risk" else "alpha"):
        model.predict(S[:1], **options)


def test_bad_numbers(model):
    for k in (0, -1, 1.5, "a"):
        with pytest.raises(VpunnError, match="k must be"):
            model.predict_proba(S[:1], k=k)
    for name, value in (
        ("novelty", "a"),
        ("novelty", 1.5),
        ("answers", "some"),
        ("random_state", "a"),
        ("random_state", -1),
    ):
        with pytest.raises(VpunnError, match=name):
            HiPaNClassifier(**{name: value}).fit(S, LABELS)


def test_explanations_refuse_what_they_cannot_explain(model):
    for ask in (lambda: explain(HiPaNClassifier(), S[:1]), lambda: contrast(HiPaNClassifier(), "bird", "fish")):
        with pytest.raises(Exception, match="not fitted"):
            ask()
    with pytest.raises(VpunnError, match="one node"):
        describe_ball(model, ["bird", "fish"])
    with pytest.raises(VpunnError, match="k must be"):
        describe_ball(model, "bird", k=-2)
    with pytest.raises(VpunnError, match="max_nodes"):
        export_tree_for_viz(model, max_nodes="a")
    gaps = Tree.from_parents(
        [-1, 0, 0], ["a", "b", "c"], columns={"gloss": np.array([None, float("nan"), "words here"], object)}
    )
    assert [word for word, _ in describe_ball(gaps, "c").speaks_for] == ["here", "words"]


# ---- shapes of data -----------------------------------------------------------------------------------------------


def test_few_seen_classes_in_a_tree_with_empty_leaves():
    """Where every class with rows is a candidate, "none of them" must be learned to be rare, not left to chance."""
    tree = Tree.from_paths([("a", "x"), ("a", "y"), ("b", "z"), ("b", "w"), ("c", "u"), ("c", "v")], root="all")
    rng = np.random.default_rng(0)
    y = np.array(["x", "y", "z", "w"])[np.arange(150) % 4]
    X = sparse.csr_matrix(np.eye(12)[np.arange(150) % 4 + 4 * rng.integers(0, 2, 150)] + 0.3 * rng.random((150, 12)))
    model = HiPaNClassifier(tree).fit(X, y)
    assert np.mean(model.predict(X) == y) > 0.9
    p = model.predict_node_proba(X)
    assert 0 < p[:, tree.index("c")].max() < 0.2


def test_rows_of_opposite_signs_and_of_any_size():
    rng = np.random.default_rng(0)
    words = rng.random((40, 3)) * (
        rng.random((40, 3)) < 0.7
    )  # were they full they would be numbers, whose size matters
    X = sparse.csr_matrix(np.repeat(words, 4, axis=1))
    y = np.arange(40) % 4
    model = HiPaNClassifier().fit(X, y)
    odd = sparse.csr_matrix(np.tile([1.0, -1.0], (2, 6)))
    assert np.isfinite(model.predict_proba(odd)).all()
    for scale in (1e-200, 1e100):
        np.testing.assert_allclose(model.predict_proba(X * scale), model.predict_proba(X), atol=1e-5)
    with pytest.raises(VpunnError, match="at most 1e\\+09"):
        HiPaNClassifier().fit(X, y, sample_weight=np.full(40, 1e19))


def test_sums_that_cancel():
    """Features of opposite sign may leave a ball without an entry: weights go to their own entries or nowhere."""
    assert HiPaNClassifier().fit(np.array([[1.0], [-1.0]]), ["a", "a"]).predict([[1.0]]).tolist() == ["a"]
    rng = np.random.default_rng(0)
    X = sparse.csr_matrix(rng.choice([-1.0, 1.0], size=(40, 3)))
    model = HiPaNClassifier().fit(X[:20], np.arange(20) % 2)
    assert np.isfinite(model.partial_fit(X[20:], np.arange(20) % 2).predict_proba(X)).all()


def test_deep_chains_stay_finite():
    paths = [tuple(f"{name}{k}" for k in range(60)) for name in "abc"]
    rng = np.random.default_rng(0)
    tree = Tree.from_paths(paths, root="all")
    y = np.array([path[-1] for path in paths])[np.arange(90) % 3]
    X = sparse.csr_matrix(np.eye(3)[np.arange(90) % 3] @ rng.random((3, 20)) + 0.1 * rng.random((90, 20)))
    p = HiPaNClassifier(tree).fit(X, y).predict_node_proba(X)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p[:, 0], 1.0)


def test_a_flat_answer_is_the_most_probable_one():
    rng = np.random.default_rng(3)
    for classes in (3, 64, 70):
        X = rng.random((4 * classes, 10)) * (rng.random((4 * classes, 10)) < 0.3)
        model = HiPaNClassifier().fit(X, np.arange(4 * classes) % classes)
        p = model.predict_proba(X)
        np.testing.assert_allclose(p[np.arange(len(p)), model.predict(X)], p.max(1))


def test_a_row_of_nothing_known_gets_what_is_usual():
    y = np.repeat(list("abc"), [40, 20, 10])
    rng = np.random.default_rng(0)
    words = sparse.csr_matrix(np.eye(3)[np.searchsorted(list("abc"), y)] + (rng.random((70, 3)) < 0.1))
    p = HiPaNClassifier().fit(words, y).predict_proba(sparse.csr_matrix((1, 3)))[0]
    assert p.argmax() == 0 and p.sum() == pytest.approx(1) and p.min() > 0.01


@pytest.mark.parametrize(
    "texts", [["a red bird", "a fish"], np.array(["a red bird", "a fish"]), pd.Series(["a red bird", "b"])]
)
def test_texts_are_sent_to_the_features(texts):
    for X in (texts, {"words": texts}):
        with pytest.raises(VpunnError, match="'a red bird'; make features of them first: text_features"):
            HiPaNClassifier().fit(X, ["x", "y"])
