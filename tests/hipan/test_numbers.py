"""Numbers inside a sparse table, as scikit-learn's ColumnTransformer puts them beside one-hot columns."""

import json

import numpy as np
import pytest
from scipy import sparse

from stores import edit_array, write_head
from vpunn import HiPaNClassifier, Tree
from vpunn.errors import DataError
from vpunn.explain import explain
from vpunn.hipan._numbers import number_columns
from vpunn.hipan._views import Layout

TREE = Tree.from_paths([("north", "a"), ("north", "b"), ("south", "c"), ("south", "d"), ("south", "e")], root="all")
NAMES = np.array(list("abcde"))


def places(rows, seed=0):
    """Latitude and longitude of five classes, beside a one-hot column that says nothing."""
    rng = np.random.default_rng(seed)
    y = np.arange(rows) % 5
    centre = np.random.default_rng(0).normal(size=(5, 2)) * 4
    place = centre[y] + rng.normal(size=(rows, 2)) + [45.0, -93.0]
    return sparse.csr_matrix(np.hstack([place, np.eye(6)[rng.integers(0, 6, rows)]])), NAMES[y]


def found(X):
    return number_columns(sparse.csr_matrix(X)).tolist()


def counts(rng, rows, length, words=300):
    """Words of texts, some far commoner than others."""
    share = 1.0 / np.arange(1, words + 1)
    return rng.multinomial(length, share / share.sum(), size=rows).astype(float)


def test_words_stay_words():
    rng = np.random.default_rng(0)
    for length in (12, 400):
        X = counts(rng, 200, length)
        assert found(X) == []
        assert found(X > 0) == []
        assert found(X / np.linalg.norm(X, axis=1, keepdims=True)) == []  # the commonest fill every row
        assert found(X / X.sum(1, keepdims=True)) == []
        assert (
            found(X * np.where(np.arange(300) % 2, 1.0, -1.0)) == []
        )  # hashed: a column has one sign if it has one word


@pytest.mark.parametrize("scaled", ["as it is", "standardised", "0 to 1"])
def test_numbers_beside_one_hot_columns_are_found(scaled):
    rng = np.random.default_rng(1)
    numbers = np.stack([rng.normal(45, 2, 300), rng.integers(18, 90, 300), rng.poisson(0.4, 300) * 7.0], 1)
    if scaled == "standardised":
        numbers = (numbers - numbers.mean(0)) / numbers.std(0)
    elif scaled == "0 to 1":
        numbers = (numbers - numbers.min(0)) / np.ptp(numbers, axis=0)
    kinds = np.hstack([np.eye(4)[rng.integers(0, 4, 300)], np.eye(30)[rng.integers(0, 30, 300)]])
    assert found(np.hstack([kinds[:, :4], numbers, kinds[:, 4:]])) == [4, 5, 6]


def test_a_column_that_drowns_words_is_a_number():
    rng = np.random.default_rng(2)
    X = counts(rng, 300, 12)
    X[:, 7] = np.where(rng.random(300) < 0.1, rng.integers(5_000, 99_000, 300), 0)
    assert found(X) == [7]


@pytest.mark.parametrize("beside", ["a kind", "a kind and a price", "a flag"])
def test_a_vocabulary_beside_one_hot_columns_stays_one(beside):
    """Long texts, one in a hundred empty: rows differ in length, every word's weight varies, and each row has one kind."""
    rng = np.random.default_rng(5)
    texts = counts(rng, 400, 300, words=1500)
    texts[::100] = 0
    texts /= np.maximum(np.linalg.norm(texts, axis=1, keepdims=True), 1e-9)
    kind = np.eye(5)[rng.integers(0, 5, 400)]
    price = rng.uniform(5, 500, (400, 1))
    more = {
        "a kind": kind,
        "a kind and a price": np.hstack([price, kind]),
        "a flag": (rng.random((400, 1)) < 0.95) * 1.0,
    }
    columns = np.array(found(np.hstack([texts, more[beside]])))
    assert len(columns) < 25
    assert (columns == 1500).any() == (beside == "a kind and a price")


def test_names_of_blocks_are_their_own():
    X = places(60)[0]
    layout = Layout.of({"a": X, "a'": X, "numbers of a": X[:, :2].toarray()})
    assert list(layout.numbers()) == ["numbers of a", "numbers of a'", "numbers of a''"]


def test_vectors_and_tables_kept_as_sparse_matrices_are_numbers():
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(100, 12))
    assert found(vectors / np.linalg.norm(vectors, axis=1, keepdims=True)) == list(range(12))
    assert found(np.column_stack([rng.normal(13, 1, 100), rng.integers(70, 160, 100)])) == [0, 1]
    assert found(vectors[:10]) == []  # too few rows to tell


@pytest.fixture(scope="module")
def model():
    return HiPaNClassifier(TREE).fit(*places(600))


def test_they_are_told_apart_as_in_a_dense_table(model):
    X, y = places(600)
    new, truth = places(500, seed=1)
    dense = HiPaNClassifier(TREE).fit(X.toarray(), y)
    assert model.layout_.dense_names() == ["numbers"]
    assert model.score(new, truth) > dense.score(new.toarray(), truth) - 0.02 > 0.8
    assert model.balls_.items.X[:, [0, 1]].nnz == 0


def test_a_wide_dense_table_of_ones_and_numbers_is_read_alike(model):
    """Dense tables that are mostly zeros are read as words, but for their numbers."""
    X, y = places(600)
    wide = sparse.hstack([X, np.eye(90)[np.arange(600) % 90]]).tocsr()
    wide.data[wide.indices == 1] *= -1.0  # no number below 0
    kept, told = (HiPaNClassifier(TREE).fit(Z, y) for Z in (wide, wide.toarray()))
    assert [len(columns) for columns in told.layout_.apart] == [2]
    np.testing.assert_array_equal(kept.predict_proba(wide), told.predict_proba(wide.toarray()))


def test_rows_alone_blocks_and_saved_models_have_the_same_bits(model, tmp_path):
    X, y = places(40, seed=2)
    whole = model.predict_node_proba(X)
    np.testing.assert_array_equal(np.vstack([model.predict_node_proba(X[i]) for i in range(len(y))]), whole)
    loaded = HiPaNClassifier.load(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(loaded.predict_node_proba(X), whole)
    known, labels = places(600)
    blocks = HiPaNClassifier(TREE).fit({"table": known}, labels)
    assert blocks.layout_.dense_names() == ["numbers of table"]
    np.testing.assert_array_equal(blocks.predict_node_proba({"table": X}), whole)


def test_an_older_folder_reads_all_columns_as_words(tmp_path):
    rng = np.random.default_rng(4)
    X, y = sparse.csr_matrix(counts(rng, 60, 12)), NAMES[np.arange(60) % 5]
    fitted = HiPaNClassifier(TREE).fit(X, y)
    folder = fitted.save(tmp_path / "m")
    head = json.loads((folder / "model.json").read_text())
    del head["arrays"]["apart0"]
    (folder / "apart0.npy").unlink()
    write_head(folder, head)
    np.testing.assert_array_equal(HiPaNClassifier.load(folder).predict_proba(X), fitted.predict_proba(X))


@pytest.mark.parametrize(
    ("edit", "said"),
    [(lambda a: a[::-1].copy(), "not in order"), (lambda a: a + 100, "not below"), (lambda a: a[:1], "shape")],
)
def test_edited_columns_are_refused(model, tmp_path, edit, said):
    folder = model.save(tmp_path / "m")
    edit_array(folder, "apart0", edit)
    with pytest.raises(DataError, match=said):
        HiPaNClassifier.load(folder)


def test_explanations_add_up_and_name_the_columns(model):
    X, y = places(20, seed=3)
    names = np.array(["latitude", "longitude", *(f"kind {k}" for k in range(6))])
    why = explain(model, X[0], y[0], feature_names=names)
    told = {name for ball in why.balls for name, _ in ball.features}
    assert {"latitude", "longitude"} <= told
    assert set(why.blocks) == {"words", "numbers"}


def test_descriptions_more_rows_and_label_sets():
    X, y = places(600)
    described = sparse.lil_matrix((TREE.n_nodes, X.shape[1]))
    described[TREE.index("a")] = X[0]
    with_texts = HiPaNClassifier(TREE).fit(X, y, X_nodes=sparse.csr_matrix(described))
    new, truth = places(300, seed=5)
    assert with_texts.score(new, truth) > 0.8
    more, labels = places(300, seed=6)
    assert with_texts.partial_fit(more, labels).score(new, truth) > 0.8
    two = {label: {label, "e"} if label == "a" else {label} for label in NAMES.tolist()}
    sets = HiPaNClassifier(TREE).fit(X, [two[label] for label in y])
    assert sets.multilabel_
    assert sets.score(new, [two[label] for label in truth]) > 0.8
