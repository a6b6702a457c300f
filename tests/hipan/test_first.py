"""A first opinion: rows that one expert settles, and that everything else stays as it would be."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import vpunn
from stores import write_head
from vpunn import HiPaNClassifier, Tree
from vpunn.errors import DataError
from vpunn.explain import explain
from vpunn.hipan._first import OTHERWISE, FirstOpinion

TREE = Tree.from_paths([(g, f"{g}{k}") for g in "ab" for k in range(3)], root="all")
CLASSES = [f"{g}{k}" for g in "ab" for k in range(3)]


def texts(rows: int, seed: int, doubtful: float = 0.4) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Rows of four words of their class; doubtful ones have words of any class."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 6, rows)
    word = rng.integers(0, 10, (rows, 4)) + 10 * np.where(
        rng.random((rows, 1)) < doubtful, rng.integers(0, 6, (rows, 4)), kind[:, None]
    )
    X = sparse.csr_matrix((np.ones(4 * rows), (np.repeat(np.arange(rows), 4), word.ravel())), shape=(rows, 60))
    return X, np.array(CLASSES, object)[kind]


@pytest.fixture(scope="module")
def model() -> HiPaNClassifier:
    return HiPaNClassifier(TREE, random_state=0).fit(*texts(1500, 0))


def test_most_sure_rows_are_settled_and_answered_as_all_experts_together_would(model):
    X, y = texts(800, 1)
    posterior = model.posterior(X)
    settled = posterior.settled
    assert 0.1 < settled.mean() < 0.9  # the doubtful ones are not
    first, model.first_ = model.first_, None
    try:
        heard = model.posterior(X)
    finally:
        model.first_ = first
    assert heard.settled is None
    same = posterior.best() == heard.best()
    assert same[~settled].all() and same[settled].mean() >= 1 - 3 * OTHERWISE
    np.testing.assert_array_equal(posterior.probability[~settled], heard.probability[~settled])
    right = model.labels_[posterior.best()[settled]] == y[settled]
    said = posterior.top_k(1)[1][settled, 0]
    assert abs(said.mean() - right.mean()) < 0.05
    np.testing.assert_allclose(posterior.probability.sum(1) + posterior.rest, 1.0)


def test_labels_that_hardly_count_do_not_make_settled_rows_doubtful():
    X, y = texts(1500, 6, 0.2)
    rng = np.random.default_rng(0)
    wrong = rng.random(1500) < 0.3
    y[wrong] = rng.choice(np.array(CLASSES, object), wrong.sum())
    model = HiPaNClassifier(TREE, random_state=0).fit(X, y, sample_weight=np.where(wrong, 0.01, 1.0))
    asked, right = texts(800, 7, 0.2)
    posterior = model.posterior(asked)
    settled = posterior.settled
    assert settled.mean() > 0.1
    said = posterior.top_k(1)[1][settled, 0]
    assert abs(said.mean() - (model.labels_[posterior.best()] == right)[settled].mean()) < 0.03


def test_the_same_bits_alone_in_a_batch_and_with_evidence(model):
    X, _ = texts(120, 2)
    whole = model.posterior(X)
    told = model.posterior(X, evidence=True)
    np.testing.assert_array_equal(whole.probability, told.probability)
    np.testing.assert_array_equal(whole.settled, told.settled)
    assert told.evidence.shape[0] == 120
    for step in (1, 7):
        parts = [model.posterior(X[k : k + step]) for k in range(0, 120, step)]
        np.testing.assert_array_equal(np.concatenate([p.top_k(3)[1] for p in parts]), whole.top_k(3)[1])


def test_rows_without_a_known_word_are_not_settled(model):
    posterior = model.posterior(sparse.vstack([sparse.csr_matrix((2, 60)), texts(3, 3, 0.0)[0]]).tocsr())
    assert posterior.settled.tolist() == [False, False, True, True, True]
    assert posterior.unknown.tolist() == [True, True, False, False, False]


def test_explanations_say_who_settled_the_row(model):
    X, _ = texts(200, 4)
    settled = model.posterior(X).settled
    sure, open_ = int(np.flatnonzero(settled)[0]), int(np.flatnonzero(~settled)[0])
    found = explain(model, X[[sure]])
    assert "settled by the linear heads of the words alone" in str(found)
    assert found.label == model.predict(X[[sure]])[0]
    assert found.blocks["words"] == pytest.approx(found.log_probability - np.log(model.prior_[found.node]))
    assert "settled" not in str(explain(model, X[[open_]]))


def test_numbers_settle_too():
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 6, 1200)
    X = rng.normal(size=(6, 5))[kind] * 2 + rng.normal(size=(1200, 5))
    model = HiPaNClassifier(TREE, random_state=0).fit(X[:900], np.array(CLASSES, object)[kind[:900]])
    posterior = model.posterior(X[900:])
    assert model.first_.block == "numbers" and posterior.settled.any()
    assert "settled by the trained head of 'numbers' alone" in str(explain(model, X[900:][posterior.settled][:1]))


def copies(rows: int, seed: int) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Rows without half of the 30 words of one of 240 originals, two a class."""
    rng = np.random.default_rng(seed)
    originals = np.random.default_rng(0).integers(0, 600, (240, 30))
    of = rng.permutation(np.arange(rows) % 240)
    X = sparse.lil_matrix((rows, 600))
    for r, word in enumerate(originals[of]):
        X[r, word[rng.random(30) < 0.5]] = 1.0
    return sparse.csr_matrix(X), np.array([f"c{k // 2}" for k in of], object)


@pytest.fixture(scope="module")
def remembering() -> HiPaNClassifier:
    tree = Tree.from_paths([(f"g{k // 10}", f"c{k}") for k in range(120)], root="all")
    return HiPaNClassifier(tree, random_state=0).fit(*copies(960, 1))


def test_near_copies_are_settled_by_memory(remembering, tmp_path):
    X, y = copies(480, 2)
    model, posterior = remembering, remembering.posterior(X)
    assert model.first_.memory and posterior.settled.mean() > 0.5
    assert (model.labels_[posterior.best()] == y)[posterior.settled].mean() > 0.98
    np.testing.assert_allclose(posterior.probability.sum(1) + posterior.rest, 1.0)
    first, model.first_ = model.first_, None
    try:
        heard = model.posterior(X)
    finally:
        model.first_ = first
    same = posterior.best() == heard.best()
    assert same[~posterior.settled].all() and same.mean() >= 1 - 3 * OTHERWISE
    for step in (1, 7):
        parts = [model.posterior(X[k : k + step]) for k in range(0, 119, step)]
        np.testing.assert_array_equal(np.concatenate([p.top_k(3)[1] for p in parts]), posterior.top_k(3)[1][:119])
    model.save(tmp_path / "m")
    again = vpunn.load(tmp_path / "m").posterior(X)
    np.testing.assert_array_equal(again.probability, posterior.probability)
    np.testing.assert_array_equal(again.candidates, posterior.candidates)


def test_what_memory_settled_is_explained_by_the_evidence_about_its_own_candidates(remembering):
    X, _ = copies(60, 3)
    told, plain = remembering.posterior(X, evidence=True), remembering.posterior(X)
    np.testing.assert_array_equal(told.top_k(3)[1], plain.top_k(3)[1])
    wide = plain.candidates.shape[1]
    np.testing.assert_array_equal(told.candidates[:, :wide], plain.candidates)
    seen = remembering.experts_.examine(remembering._rows(X), 12)
    for r in range(60):
        for j, node in enumerate(told.candidates[r]):
            if node >= 0:
                at = int(np.flatnonzero(seen.candidates[r] == node)[0])
                np.testing.assert_array_equal(told.evidence[r, j], seen.evidence[r, at])
    sure = int(np.flatnonzero(plain.settled)[0])
    assert "settled by the nearest items alone" in str(explain(remembering, X[[sure]]))


def test_rows_that_memory_does_not_know_are_not_settled(remembering):
    posterior = remembering.posterior(sparse.csr_matrix((2, 600)))
    assert not posterior.settled.any() and posterior.unknown.all()


def test_saved_loaded_and_damaged(model, tmp_path):
    X, _ = texts(100, 5)
    model.save(tmp_path / "m")
    again = vpunn.load(tmp_path / "m")
    assert again.first_.sure == model.first_.sure
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    head = json.loads((tmp_path / "m" / "model.json").read_text())
    wrongs = ({"block": "colour"}, {"sure": "much"}, {"sure": -1.0}, {"memory": True}, {"memory": 1}, {"memory": None})
    for wrong in ({"block": None, "sure": 1.0} | more for more in wrongs):
        write_head(tmp_path / "m", head | {"settings": head["settings"] | {"first": wrong}})
        with pytest.raises(DataError, match="'first'"):
            vpunn.load(tmp_path / "m")


def test_an_opinion_of_classes_that_have_grown_is_not_asked(model, tmp_path):
    model.save(tmp_path / "m")
    grown = vpunn.load(tmp_path / "m")
    grown.linear_ = replace(grown.linear_, classes=grown.linear_.classes[:-1])
    assert isinstance(grown.first_, FirstOpinion) and not grown.first_.speaks(grown.experts_)


def test_a_model_that_has_outgrown_its_first_opinion_is_saved_without(tmp_path):
    """More than 64 classes have no trained head; the folder was refused when it was loaded."""
    rng = np.random.default_rng(0)
    label = np.arange(800) % 80
    X, y = rng.normal(size=(80, 5))[label] * 6 + rng.normal(size=(800, 5)), label.astype(str)
    tree = vpunn.Tree.from_paths([(name,) for name in y[:80]], root="all")
    model = HiPaNClassifier(tree, random_state=0).fit(X[label < 30], y[label < 30])
    assert model.first_ is not None
    model.partial_fit(X[label >= 30], y[label >= 30])
    again = vpunn.load(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(again.predict_node_proba(X), model.predict_node_proba(X))
