"""Rows that many others are like: they have one answer, and the threshold of a cautious answer is set by that very answer."""

import numpy as np
import pytest
from scipy import sparse

from vpunn import Tree
from vpunn.hipan import HiPaNClassifier
from vpunn.hipan._alike import kinds_of_rows, kinds_of_words
from vpunn.placing import conformal

COIN = Tree.from_paths([("a",), ("b",)], root="r")


def drawn(n, share, seed):
    return np.where(np.random.default_rng(seed).random(n) < share, "a", "b")


@pytest.mark.parametrize("columns", [5, 20])
@pytest.mark.parametrize("share", [0.6, 0.8])
def test_rows_that_are_all_the_same_have_the_class_shares(columns, share):
    y = drawn(400, share, 1)
    model = HiPaNClassifier(COIN, random_state=0).fit(np.ones((400, columns)), y)
    assert model.predict_proba(np.ones((1, columns)))[0, 0] == pytest.approx(np.mean(y == "a"), abs=0.02)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("rows", [np.ones((400, 3)), sparse.csr_matrix(np.ones((400, 3))), sparse.csr_matrix((400, 3))])
def test_a_cautious_answer_about_rows_that_are_all_the_same_is_the_root(rows, seed):
    model = HiPaNClassifier(COIN, random_state=0).fit(rows, drawn(400, 0.8, seed))
    assert set(model.predict(rows[:3], stop="risk", alpha=0.1)) == {"r"}


def test_a_row_in_the_very_middle_of_a_narrow_block_is_heard():
    X = np.tile([[-1.0], [0.0], [1.0]], (60, 1))
    model = HiPaNClassifier(random_state=0).fit(X, np.tile(["low", "middle", "high"], 60))
    assert model.predict(X[:3]).tolist() == ["low", "middle", "high"]
    evidence = model.posterior(X[:3], evidence=True).evidence
    names = model.experts_.names()
    heard = evidence[1, :, names.index("numbers: log-probability by the closed-form head")]
    assert len(np.unique(heard)) > 1
    votes = evidence[1, :, names.index("numbers: votes of the nearest items for the node")]
    assert not votes.any()  # all items lie in no direction from there


@pytest.mark.parametrize("given", [False, True])
def test_scores_of_kinds_are_those_of_the_model_that_answers(given):
    """Four kinds of rows, and a dense block that says nothing and is not read: no score but those of the four answers."""
    rng = np.random.default_rng(3)
    kind, y = rng.integers(0, 4, 600), drawn(600, 0.6, 3)
    X = {"kinds": sparse.csr_matrix(np.eye(4)[kind] + 0.3), "noise": rng.normal(size=(600, 30))}
    part = {name: block[300:] for name, block in X.items()}
    model = HiPaNClassifier(COIN, random_state=0)
    model.fit({k: b[:300] for k, b in X.items()}, y[:300], validation=(part, y[300:]) if given else None)
    assert model.layout_.silent == ("noise",)
    posterior = model.posterior(X)
    told = np.unique(posterior.chain(posterior.best())[1][:, 1])
    assert len(told) == 4
    assert set(np.unique(model.miss_scores_)) <= {0.0, *told}


def test_kinds_of_rows_tell_words_and_numbers_apart():
    words = sparse.csr_matrix(np.repeat(np.eye(3), [50, 50, 5], axis=0).astype(np.float32))
    numbers = np.repeat(np.array([[0.0], [1.0], [2.0]], np.float32), [25, 30, 50], axis=0)
    kinds = kinds_of_rows(kinds_of_words(words), {"size": numbers}, np.arange(105))
    assert (kinds.of[100:] == -1).all() and (
        kinds.of[50:55] == -1
    ).all()  # a class of five rows, and five of another size
    assert [len(set(kinds.of[a:b])) for a, b in ((0, 25), (25, 50), (55, 100))] == [1, 1, 1]
    for row in (0, 25, 55):
        assert (kinds.rows.words[kinds.of[row]] != words[row]).nnz == 0
        assert kinds.rows.dense["size"][kinds.of[row]] == numbers[row]
    together = kinds_of_rows(kinds_of_words(words), {"size": numbers}, np.repeat([0, 1, 2], 35))
    assert (together.of == -1).all() and len(together.rows) == 0


def test_several_rows_may_have_one_distribution():
    X = np.array([[0.0, 1.0], [1.0, 0.0]] * 40)
    model = HiPaNClassifier(COIN, random_state=0).fit(X, drawn(80, 0.5, 0))
    truth, which = model.nodes_of(["a", "b", "a"]), np.array([1, 0, 0])
    expected = conformal.miss_scores(model.posterior(X[which]), truth)
    assert np.array_equal(conformal.miss_scores(model.posterior(X[:2]), truth, which), expected)
