"""Tables with a row or two a class: what can be told apart is told apart, however little can be held out."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest
from scipy import sparse

from vpunn.hipan import HiPaNClassifier
from vpunn.hipan._balls import FEW_CLASSES, Items
from vpunn.hipan._holdout import counts_tell, plan_holdout, units
from vpunn.hipan._lists import unmet_in_list
from vpunn.hipan._unseen import asked_again, still_found
from vpunn.hipan._views import Rows, Sample
from vpunn.text import text_features
from vpunn.tree import Tree

COMMON = ("red", "blue", "small", "large", "new", "old", "fine", "rough", "strong", "light", "soft", "hard")


def table(classes: int, rows: int, seed: int = 0) -> tuple[list[str], np.ndarray, list[str], np.ndarray]:
    """Texts of one word that only their class has and two that all have, their classes; and one new text of every class."""
    draw = random.Random(seed)
    words = ["".join(draw.sample("abcdefghijklmnoprstuwz", 7)) for _ in range(classes)]

    def text(k: int) -> str:
        return " ".join([words[k], *draw.sample(COMMON, 2)])

    known = [k for k in range(classes) for _ in range(rows)]
    labels = np.array([f"k{k:03d}" for k in range(classes)])
    return [text(k) for k in known], labels[known], [text(k) for k in range(classes)], labels


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("classes", [5, FEW_CLASSES, FEW_CLASSES + 1, 150])
def test_a_word_of_its_own_finds_its_class(classes, rows):
    texts, y, new, labels = table(classes, rows)
    features = text_features(min_rows=rows)  # with two rows every such word is just frequent enough
    model = HiPaNClassifier(random_state=0).fit(features.fit_transform(texts), y)
    assert (model.predict(features.transform(texts)) == y).all()
    assert (model.predict(features.transform(new)) == labels).mean() > 0.95


def test_a_list_on_a_tree_with_answers_that_have_no_row():
    texts, y, new, labels = table(150, 1)
    tree = Tree.from_paths([(f"g{k % 40}", label) for k, label in enumerate(labels.tolist())], root="all")
    features = text_features(min_rows=1)
    model = HiPaNClassifier(tree, random_state=0).fit(features.fit_transform(texts), y)
    assert (model.predict(features.transform(new)) == labels).mean() > 0.95


def test_a_list_of_numbers_finds_what_lies_near():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 12))
    model = HiPaNClassifier(random_state=0).fit(X, np.arange(100))
    assert (model.predict(X + 0.1 * rng.normal(size=X.shape)) == np.arange(100)).mean() > 0.95


@pytest.mark.parametrize("before", [1, 2, FEW_CLASSES])
def test_classes_learned_later_may_be_many(before, tmp_path):
    texts, y, _, labels = table(FEW_CLASSES + 4, 2)
    X = text_features(min_rows=1).fit_transform(texts)
    tree = Tree.from_paths([(label,) for label in labels.tolist()], root="all")
    model = HiPaNClassifier(tree, random_state=0).fit(X[: 2 * before], y[: 2 * before])
    model.partial_fit(X[2 * before :], y[2 * before :])
    model.save(tmp_path / "model")
    loaded = HiPaNClassifier.load(tmp_path / "model")
    assert (loaded.predict_proba(X) == model.predict_proba(X)).all()
    assert (model.predict(X) == y).mean() > 0.95 or before == 1


def test_one_row_of_every_class_is_held_out_at_once():
    node = np.repeat(np.arange(300), 2)
    assert counts_tell(np.full(600, 2))
    for one in plan_holdout(node, np.arange(600), 0, 0.1, np.random.default_rng(0)):
        assert len(np.unique(node[one.out])) == len(one.out) > 250  # nothing is left of a class that tells of it
    sizes = np.repeat([1, 2, 4, 8, 16, 32], [1, 2, 4, 8, 16, 32])
    assert not counts_tell(sizes) and not counts_tell(np.full(600, 30))


def test_rare_words_are_hidden_unless_they_are_what_is_asked_by():
    texts, y, _, _ = table(40, 2)
    X = text_features(min_rows=2).fit_transform(texts)
    rows, node = Rows(X, {}), np.unique(y, return_inverse=True)[1].astype(np.int32)
    sample = Sample(rows, node, np.ones(80, np.float32), np.zeros(80, np.int8))
    held = np.arange(1, 80, 8)
    assert not still_found(sample.take(np.setdiff1d(np.arange(80), held)).words(), sample.take(held))
    many, of, _, _ = table(10, 12)
    X = text_features(min_rows=2).fit_transform(many)
    node = np.unique(of, return_inverse=True)[1].astype(np.int32)
    known, asked = np.arange(120) % 6 != 0, np.arange(120) % 6 == 0
    there = Items(X[known], node[known], np.ones(100, np.float32), np.zeros(100, np.int8))
    assert still_found(there, Sample(Rows(X[asked], {}), node[asked], np.ones(20, np.float32), np.zeros(20, np.int8)))


def test_rows_asked_again_keep_a_word_and_count_for_half_at_least():
    texts, _, _, _ = table(100, 1)
    texts[3] = ""
    X = text_features(min_rows=1, characters=None).fit_transform(texts)
    block = np.random.default_rng(1).normal(size=(100, 4)).astype(np.float32)
    sample = Sample(Rows(X, {"n": block}), np.arange(100), np.ones(100, np.float32), np.zeros(100, np.int8))
    again = asked_again(sample, 0.9, np.random.default_rng(0))
    left = again.rows.words.multiply(X > 0)
    assert left[[3]].nnz == 0 and (np.delete(np.diff(left.tocsr().indptr), 3) > 0).all()
    assert 0.35 < left.nnz / X.nnz < 0.7 and 0.35 < (again.rows.words.nnz - left.nnz) / X.nnz < 0.7  # as much of others
    np.testing.assert_allclose(again.weight, 0.5)
    assert unmet_in_list(np.arange(100), np.arange(100), 10) == pytest.approx(0.3)
    assert unmet_in_list(np.arange(100) // 2, np.arange(100), 10) is None
    near = np.linalg.norm(again.rows.dense["n"] - block, axis=1)
    assert 0 < near.mean() < np.linalg.norm(block - block[::-1], axis=1).mean() / 2


def exact_of(texts: list[str], y: list[str]) -> float:
    X = text_features(characters=None, min_rows=1).fit_transform(texts)
    return float(np.mean(HiPaNClassifier(random_state=0).fit(X, y).predict(X) == np.array(y)))


@pytest.mark.parametrize("second", [1, 10, 60])
def test_a_list_of_codes_with_a_few_second_names(second):
    """Only classes of two rows can lose one, and must not lose both: that taught that no answer is right."""
    texts, y, _, _ = table(200, 1)
    more = [f"{text} too" for text in texts[:second]]
    assert exact_of([*texts, *more], [*y, *y[:second]]) == 1.0


@pytest.mark.parametrize("wrong", [0, 1, 100])
def test_copies_of_one_text_a_class_are_found_although_some_are_labelled_wrong(wrong):
    """Held out with all copies of their label, only the wrong ones would be left to be found."""
    draw = random.Random(0)
    texts = [f"alpha{k} beta{k} gamma{k % 17}" for k in range(100) for _ in range(10)]
    right = [f"k{k}" for k in range(100) for _ in range(10)]
    y = list(right)
    for at in draw.sample(range(1000), wrong):
        y[at] = f"k{draw.randrange(100)}"
    assert exact_of(texts, y) >= np.mean(np.array(y) == right) - 0.01


def test_of_copies_with_three_labels_in_ten_wrong_the_commonest_label_is_the_answer():
    """Held out with the copies of its label alone, a text would be left to those that are wrong."""
    draw = random.Random(0)
    texts = [f"alpha{k} beta{k}x{j} gamma{(7 * k + j) % 17}" for k in range(100) for j in range(3) for _ in range(10)]
    right = np.repeat([f"k{k}" for k in range(100)], 30)
    y = right.copy()
    for at in draw.sample(range(3000), 900):
        y[at] = f"k{draw.randrange(100)}"
    X = text_features(characters=None, min_rows=1).fit_transform(texts)
    model = HiPaNClassifier(random_state=0).fit(X, y)
    assert (model.predict(X) == right).mean() > 0.99
    assert (
        abs(model.posterior(X).top_k(1)[1].mean() - (y == right).mean()) < 0.05
    )  # and it knows that three in ten are wrong


@pytest.mark.parametrize("seed", [4, 14])
def test_of_copies_with_a_label_in_ten_wrong_the_commonest_label_is_the_answer(seed):
    draw = random.Random(seed)
    texts = [f"alpha{i} beta{i % 100} gamma{i % 17}" for i in range(300) for _ in range(5)]
    y = np.array([f"k{i % 100 if draw.random() < 0.9 else draw.randrange(100)}" for i in range(300) for _ in range(5)])
    commonest = [max(sorted(set(five)), key=list(five).count) for five in y.reshape(-1, 5)]
    X = text_features(characters=None, min_rows=1).fit_transform(texts)
    model = HiPaNClassifier(random_state=0).fit(X, y)
    assert (model.predict(X[::5]) == commonest).mean() > 0.9


def test_memory_does_not_settle_what_is_far_from_all_it_knows():
    texts, y, _, _ = table(150, 2)
    features = text_features(min_rows=1)
    X = features.fit_transform(texts)
    model = HiPaNClassifier(random_state=0).fit(X, y)
    assert model.first_ is not None and model.first_.memory and model.first_.near > 0.2
    far = model.posterior(features.transform([f"{texts[0][:4]} qqq xyx"]))
    assert far.settled is None or not far.settled.any()
    assert model.posterior(X).settled.mean() > 0.9


@pytest.mark.parametrize("wrong", [0, 100])
def test_copies_of_one_text_a_label_set_are_found_too(wrong):
    draw = random.Random(0)
    own = [{f"k{k}", f"k{(7 * k + 3) % 100}"} for k in range(100)]
    y = [set(own[k]) for k in range(100) for _ in range(10)]
    for at in draw.sample(range(1000), wrong):
        y[at] = {f"k{draw.randrange(100)}"}
    texts = [f"alpha{k} beta{k} gamma{k % 17}" for k in range(100) for _ in range(10)]
    X = text_features(characters=None, min_rows=1).fit_transform(texts)
    model = HiPaNClassifier(random_state=0).fit(X, y)
    assert np.mean([found == own[k // 10] for k, found in enumerate(model.predict(X))]) > 0.99


@pytest.mark.parametrize("empty", [1, 2])
@pytest.mark.parametrize("rows", [np.eye(2), np.array([[0.0], [1.0]]), sparse.csr_matrix([[1.0, 1, 0], [1.0, 0, 1]])])
def test_a_class_without_rows_is_not_the_answer_to_copies_of_the_rows(rows, empty):
    """Of two rows of a class each, holding out one asks about a class that no row has; that is no reason to expect such classes."""
    tree = Tree.from_paths([(label,) for label in "abcd"[: 2 + empty]], root="all")
    model = HiPaNClassifier(tree, random_state=0).fit(rows, ["a", "b"])
    assert model.predict(rows).tolist() == ["a", "b"]
    p = model.predict_proba(rows)
    assert (p[:, 2:] > 0.01).all() and (p[:, 2:].sum(1) < 0.3).all()  # but neither is it ruled out


@pytest.mark.parametrize("labels", ["abcd", "abcde", "abcdd", "abb", "abcc"])
def test_a_handful_of_numbers_finds_its_rows_beside_a_class_without_any(labels):
    rows = np.random.default_rng(0).normal(size=(len(labels), 3))
    tree = Tree.from_paths([(label,) for label in "abcdef"[: len(set(labels)) + 1]], root="all")
    model = HiPaNClassifier(tree, random_state=0).fit(rows, list(labels))
    assert model.predict(rows).tolist() == list(labels)


@pytest.mark.parametrize("copies", [1, 3, 20, 50])
@pytest.mark.parametrize(("columns", "shift"), [(1, 0.0), (3, 0.0), (20, 5.0)])
def test_a_class_at_the_mean_of_all_columns_is_found(columns, shift, copies):
    X = np.repeat([-1.0, 0.0, 1.0], copies)[:, None] * np.ones(columns) + shift
    y = np.repeat(["low", "middle", "high"], copies)
    model = HiPaNClassifier(random_state=0).fit(X, y)
    assert (model.predict(X) == y).all()
    assert model.top_k(X[[copies]], 1)[1][0, 0] > 0.9


@pytest.mark.parametrize("columns", [2, 3, 5])
def test_a_class_close_around_the_mean_of_all_is_found(columns):
    rng = np.random.default_rng(columns)
    centre = 3 * rng.normal(size=(4, columns))
    centre = np.concatenate([centre, [centre.mean(0)]])
    y = np.repeat(np.arange(5), 20)
    X, new = (centre[y] + 0.05 * rng.normal(size=(100, columns)) for _ in range(2))
    model = HiPaNClassifier(random_state=0).fit(np.concatenate([X, [X.mean(0)]]), [*y, 4])
    assert (model.predict(new) == y).all() and model.predict([X.mean(0)]).tolist() == [4]


@pytest.mark.parametrize("seed", range(4))
def test_rows_of_a_small_table_are_not_told_from_their_own_class_by_lying_on_it(seed):
    """Where classes overlap, the few rows held out lay nearer to others, and all training rows were answered wrong."""
    rng = np.random.default_rng(seed)
    y = np.arange(50) % 5
    X = 0.3 * rng.normal(size=(5, 9))[y] + rng.normal(size=(50, 9))
    model = HiPaNClassifier(random_state=0).fit(X, y)
    assert (model.predict(X) == y).mean() > 0.35  # chance has 0.2


def test_columns_that_nearly_repeat_each_other_tell_by_their_difference():
    """What two columns have in common is noise; their small difference tells the class, as linear discriminants see."""
    rng = np.random.default_rng(0)

    def draw(n):
        y, common = np.arange(n) % 2, rng.normal(size=n)
        return np.stack([common, common + 0.1 * y + 0.02 * rng.normal(size=n), rng.normal(size=n)], 1), y

    (X, y), (new, truth) = draw(24), draw(400)
    assert (HiPaNClassifier(random_state=0).fit(X, y).predict(new) == truth).mean() > 0.95


def test_copies_of_numbers_are_one_unit_wherever_they_stand():
    """Bits of a product of matrices differ by the place of a row in it."""
    for seed, (rows, columns) in enumerate(product((5, 33, 97, 1001), (3, 7, 64, 384))):
        rng = np.random.default_rng(seed)
        of = rng.integers(0, rows // 3, rows)
        block = rng.normal(size=(rows // 3, columns)).astype(np.float32)[of]
        block[block < -2] = 0.0
        block[::2][block[::2] == 0] = -0.0
        found = units(sparse.csr_matrix((rows, 0), dtype=np.float32), [block], None)
        assert len(np.unique(found)) == len(np.unique(of)) == len(np.unique(np.stack([found, of], 1), axis=0))
