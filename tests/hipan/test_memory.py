"""Nearest items, linear heads of few classes, and a hold-out that leaves neighbours apart."""

import json
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.svm import LinearSVC

from stores import edit_array, write_head
from vpunn import load
from vpunn.errors import DataError, VpunnError
from vpunn.explain import explain
from vpunn.hipan import HiPaNClassifier, _crew, _nearest
from vpunn.hipan._arrays import Room, Sparse
from vpunn.hipan._balls import Balls, Items
from vpunn.hipan._holdout import MOST_HELD, plan_holdout
from vpunn.hipan._linear import COSTS, Linear, chosen
from vpunn.hipan._nearest import LEAST_VOTES, SHARPNESS
from vpunn.hipan._views import unit_rows
from vpunn.hipan._weights import half
from vpunn.hipan.kernels.linear import linear_scores, solve_one_against_rest
from vpunn.hipan.kernels.nearest import nearest_among_all, nearest_items, nearest_of
from vpunn.hipan.kernels.propose import merged
from vpunn.metrics import calibration_error
from vpunn.tree import Tree


def random_items(seed, rows=30, features=12, n_nodes=9):
    rng = np.random.default_rng(seed)
    tree = Tree.from_parents(np.concatenate([[-1], [0] * 3, [1] * 2, [3] * 3]))
    X = (rng.random((rows, features)) < 0.3) * rng.integers(1, 8, (rows, features)) / 8  # sums of these are exact
    node = rng.integers(1, n_nodes, rows).astype(np.int32)
    items = Items(sparse.csr_matrix(X, dtype=np.float32), node, np.ones(rows, np.float32), np.zeros(rows, np.int8))
    return tree, items, rng


@pytest.mark.parametrize(("pruning", "crowded"), [(0, 1e9), (10**9, 1e9), (0, 0.0)])
@given(st.integers(0, 10_000), st.integers(1, 20))
@settings(max_examples=40, deadline=None)
def test_nearest_items_match_all_products(pruning, crowded, seed, limit):
    tree, items, rng = random_items(seed)
    items = replace(items, X=items.X / 8)  # no item is longer than one, as the search may assume; sums stay exact
    memory = Balls(tree, items).nearest
    asked = sparse.csr_matrix((rng.random((7, 12)) < 0.3) * rng.integers(1, 8, (7, 12)) / 8, dtype=np.float32)
    label, own = rng.integers(0, 4, 30), rng.integers(-1, 4, 7)
    with patch.object(_nearest, "PRUNING", pruning), patch.object(_nearest, "CROWDED", crowded):
        found, value = memory.closest(asked, limit, own, label)
    products = (asked @ items.X.T).toarray()
    products[(label == own[:, None]) & (own[:, None] >= 0)] = 0
    for r in range(7):
        order = [i for i in np.argsort(-products[r], kind="stable")[:limit] if products[r, i] > 0]
        assert (
            found[r][found[r] >= 0].tolist() == order and value[r][: len(order)].tolist() == products[r, order].tolist()
        )


@pytest.mark.parametrize(("seed", "limit"), [(0, 1), (1, 5), (2, 16)])
def test_few_entries_of_common_features_are_read_and_no_bit_changes(seed, limit):
    """Features as frequent as words are, so that the commonest are left out; against the loop that reads all entries."""
    rng = np.random.default_rng(seed)
    chance = 1.0 / np.arange(1, 301)
    weight = np.sqrt(np.arange(1, 301))
    rows = unit_rows(sparse.csr_matrix((rng.random((1500, 300)) < chance * 1.2) * weight * rng.random((1500, 300))))
    asked = rows[rng.permutation(1500)[:80]]
    index, own = Sparse.of(rows.tocsc()), np.where(rng.random(80) < 0.5, rng.integers(0, 3, 80), -1)
    label, most = rng.integers(0, 3, 1500), np.asarray(rows.max(0).todense()).ravel()
    given = (Sparse.of(asked), own, index)
    plain = nearest_items(*given, label, limit, Room())
    room = Room()
    for _ in range(2):  # the room is left as it was found
        longest = int(np.diff(rows.indptr).max(initial=1))
        pruned = nearest_of(*given, Sparse.of(rows), longest, most, label, limit, room)
        together = nearest_among_all(*given, label, limit, room)
        for other in (pruned, together):
            assert np.array_equal(other[0], plain[0]) and np.array_equal(other[1], plain[1])


def test_votes_match_a_slow_twin():
    tree, items, _ = random_items(3)
    balls = Balls(tree, items)
    branch, memory = balls.branch_of, balls.nearest
    asked = items.X[:6]
    candidates = np.array([[1, 4, 5, 8, -1]] * 6, np.int32)
    out = memory.look(asked).evidence(candidates)
    found, value = memory.closest(asked, 16)
    for r in range(6):
        there = found[r][found[r] >= 0]
        vote = np.exp(SHARPNESS * (value[r][: len(there)].astype(float) - value[r, 0]))
        vote /= vote.sum()
        for j, c in enumerate([1, 4, 5, 8]):
            for k, of in enumerate((np.arange(9), tree.parent, branch)):
                assert out[r, j, k] == pytest.approx(vote[of[items.node[there]] == of[c]].sum(), abs=1e-6)
            assert out[r, j, 3] == pytest.approx(np.log(out[r, j, 0] + LEAST_VOTES), abs=1e-6)
    assert (out[:, 4:, :3] == 0).all()
    first, nodes = np.array([[4, -1]] * 6, np.int32), memory.look(asked).propose(3)[0]
    for row, new, i in zip(nodes.tolist(), merged(first, nodes, 3).tolist(), found[:, 0], strict=True):
        assert row[0] == items.node[i]
        different = [node for node in dict.fromkeys(row) if node >= 0][:3]
        assert [node for node in new if node >= 0] == [4, *(node for node in different if node != 4)]


def whole(weight, constant):
    """Weights of all features and classes, zeros too, the constants last."""
    by_feature = sparse.csr_matrix(
        (weight.data, weight.indices, weight.indptr), (len(weight.indptr) - 1, len(constant))
    )
    return np.vstack([by_feature.toarray(), constant])


def test_linear_heads_are_those_of_a_linear_svm(tmp_path):
    tree, items, _ = random_items(5, rows=200)
    balls = Balls(tree, items)
    heads = chosen(balls, items.X, items.node, items.weight, wanted=True)
    cost = heads.cost
    place = np.searchsorted(balls.classes, items.node)
    right = [(Linear.fitted(balls, c, wanted=True).scores(items.X).argmax(1) == place).sum() for c in COSTS]
    assert right[COSTS.index(cost)] == max(right)
    again = Linear.fitted(balls, cost, wanted=True)
    assert all(
        map(np.array_equal, (*heads.weight, heads.constant), (*again.weight, again.constant))
    )  # not solved again
    svm = LinearSVC(C=cost, tol=0.1, max_iter=1000, dual=True, random_state=0).fit(items.X, items.node)
    np.testing.assert_allclose(heads.scores(items.X), svm.decision_function(items.X), atol=0.1)
    out = heads.look(items.X[:4]).evidence(np.array([[1, 3, -1]] * 4, np.int32))
    score = heads.scores(items.X[:4])
    below = score - score.max(1, keepdims=True)
    np.testing.assert_allclose(out[:, :2, 0], below[:, np.searchsorted(balls.classes, [1, 3])], atol=1e-6)
    np.testing.assert_allclose(out[:, :2, 1], 4 * out[:, :2, 0] - np.log(np.exp(4 * below).sum(1))[:, None], atol=1e-5)
    assert (out[:, 2] == 0).all()
    model = HiPaNClassifier(tree).fit(items.X, tree.labels[items.node])
    model.save(tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").predict_proba(items.X), model.predict_proba(items.X))
    for name, change in {
        "class": lambda which: which + np.uint8(len(balls.classes)),
        "value": lambda value: value * np.float32(1e30),
        "constant": lambda constant: constant + np.float32(1e30),
        "start": lambda start: np.maximum(start, 2),
    }.items():
        edit_array(tmp_path / "m", f"linear.{name}", change)
        with pytest.raises(DataError, match=rf"linear\.{name}|begin at 0"):
            load(tmp_path / "m")
        model.save(tmp_path / "m")
    edit_array(tmp_path / "m", "linear.classes", lambda classes: classes + 1)
    with pytest.raises(DataError, match="do not belong"):
        load(tmp_path / "m")


def test_linear_heads_of_an_older_folder_have_all_their_zeros(tmp_path):
    tree, items, _ = random_items(5, rows=200)
    model = HiPaNClassifier(tree).fit(items.X, tree.labels[items.node])
    folder = model.save(tmp_path / "m")
    head = json.loads((folder / "model.json").read_text())
    for name in ("start", "class", "value", "constant"):
        del head["arrays"][f"linear.{name}"]
        (folder / f"linear.{name}.npy").unlink()
    head["arrays"]["linear.weight"] = head["arrays"]["linear.classes"].copy()
    head["format"] = 1
    write_head(folder, head)
    np.save(folder / "linear.weight.npy", 0)
    edit_array(
        folder, "linear.weight", lambda _: whole(model.linear_.weight, model.linear_.constant).astype(np.float16)
    )
    assert np.array_equal(load(folder).predict_proba(items.X), model.predict_proba(items.X))


def test_linear_heads_of_more_classes_than_a_byte_can_number(tmp_path):
    """Few classes have linear heads; those that come later join them, however many there are."""
    tree = Tree.from_paths([(f"c{k:03}",) for k in range(260)], root="all")
    X = sparse.hstack([sparse.eye(260), sparse.csr_matrix(np.ones((260, 1)))], "csr", dtype=np.float32)
    X, y = sparse.vstack([X] * 3, "csr"), np.tile([f"c{k:03}" for k in range(260)], 3)
    few = np.flatnonzero(np.arange(780) % 260 < 40)
    model = HiPaNClassifier(tree).fit(X[few], y[few]).partial_fit(*(a[np.arange(780) % 260 >= 40] for a in (X, y)))
    heads = model.linear_
    assert len(heads.classes) == 260
    assert np.array_equal(tree.labels[heads.classes[heads.scores(X).argmax(1)]], y)
    model.save(tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").predict_proba(X), model.predict_proba(X))


def test_linear_heads_pickled_with_their_zeros_are_read():
    tree, items, _ = random_items(5, rows=200)
    heads = Linear.fitted(Balls(tree, items), 2.0, wanted=True)
    older = Linear.__new__(Linear)
    older.__setstate__({"classes": heads.classes, "weight": whole(heads.weight, heads.constant), "cost": 2.0})
    assert np.array_equal(older.scores(items.X), heads.scores(items.X))


@pytest.mark.parametrize("classes", [2, 5])
def test_all_classes_solved_at_once_are_each_at_the_optimum(classes):
    """Rows of unequal cost; against one class at a time, both to the end."""
    rng = np.random.default_rng(classes)
    filled = (rng.random((150, 40)) < 0.2) & (np.arange(150) != 3)[:, None]  # one row has no word
    filled[:, 30:] = (
        np.arange(150)[:, None] == np.arange(10) // 2 + 5
    )  # words that one row alone has, five rows two of them
    X = sparse.csr_matrix(filled * rng.random((150, 40)), dtype=np.float32)
    own, cost = rng.integers(0, classes, 150).astype(np.int32), rng.integers(1, 4, 150).astype(np.float32)
    order = np.stack([rng.permutation(150) for _ in range(3)]).astype(np.int32)
    dual = np.zeros((150, classes), np.float32)
    heads, constant, passes = solve_one_against_rest(Sparse.of(X), own, cost, order, dual, 40, np.float32(1e-4), 5000)
    weight = whole(heads, constant)
    assert passes < 5000 and (dual >= 0).all()
    sign = np.where(np.arange(classes) == own[:, None], 1.0, -1.0)
    np.testing.assert_allclose((sign * dual).T @ X.toarray(), weight[:-1].T, atol=1e-4)  # what the dual stands for
    assert (heads.data != 0).all()
    assert np.array_equal(linear_scores(Sparse.of(X), heads, constant), X @ weight[:-1] + weight[-1])
    for k in range(classes):
        svm = LinearSVC(C=1.0, tol=1e-6, max_iter=100_000, dual=True, random_state=0)
        svm.fit(X, own == k, sample_weight=cost)
        np.testing.assert_allclose(X @ weight[:-1, k] + weight[-1, k], svm.decision_function(X), atol=2e-3)


def test_a_weak_penalty_is_solved_too_and_a_row_that_weighs_nothing_does_no_harm():
    rng = np.random.default_rng(3)
    X = sparse.csr_matrix((rng.random((600, 300)) < 0.03) * rng.random((600, 300)), dtype=np.float32)
    own, cost = (X @ rng.normal(size=(300, 4))).argmax(1).astype(np.int32), np.full(600, 8.0, np.float32)
    cost[0] = 1e-42

    def objective(weight):
        sign = np.where(np.arange(4) == own[:, None], 1.0, -1.0)
        loss = np.maximum(0, 1 - sign * (X @ weight[:-1] + weight[-1])) ** 2
        return 0.5 * (weight**2).sum() + (cost[:, None] * loss).sum()

    order = np.stack([rng.permutation(600) for _ in range(10)]).astype(np.int32)
    found = []
    for tolerance, passes in ((0.05, 60), (1e-4, 20_000)):
        dual = np.zeros((600, 4), np.float32)
        heads = solve_one_against_rest(Sparse.of(X), own, cost, order, dual, 300, np.float32(tolerance), passes)[:2]
        found.append(objective(whole(*heads)))
    assert np.isfinite(found).all() and found[0] < 1.01 * found[1]


def test_heads_start_where_those_of_fewer_rows_stopped_and_end_where_they_would_without():
    rng = np.random.default_rng(5)
    X = sparse.csr_matrix((rng.random((800, 200)) < 0.05) * rng.random((800, 200)), dtype=np.float32)
    node = 1 + (X @ rng.normal(size=(200, 5))).argmax(1).astype(np.int32)
    items = Items(X, node, np.ones(800, np.float32), np.zeros(800, np.int8))
    tree = Tree.from_parents([-1, 0, 0, 0, 0, 0])
    fewer, all_rows = Balls(tree, items.take(np.arange(720))), Balls(tree, items)
    own = np.zeros((720, 5), np.float32)
    Linear.fitted(fewer, 2.0, wanted=True, dual=own)
    dual = np.concatenate([own, np.zeros((80, 5), np.float32)])
    warm, cold = (Linear.fitted(all_rows, 2.0, wanted=True, dual=start).scores(X) for start in (dual, None))
    assert own.any() and dual[720:].any()
    np.testing.assert_allclose(warm, cold, atol=0.05)


def test_numbers_are_rounded_as_half_precision_holds_them():
    """Against NumPy: ordinary and tiny ones, ties, what is too large, and both zeros."""
    rng = np.random.default_rng(0)
    ties = np.ldexp(np.arange(1, 9000, dtype=np.float32), -26)
    odd = np.array(
        [0.0, -0.0, 65504, 65519, 65520, 1e9, -1e9, 2**-14, 2**-14 * (1 - 2**-12), 2**-25, 3 * 2**-25], np.float32
    )
    some = [(rng.standard_normal(20_000) * size).astype(np.float32) for size in (1e-8, 1e-5, 0.3, 1e5)]
    values = np.concatenate([*some, ties, -ties, 2**12 * ties, odd])
    plain = np.clip(values, -65504, 65504).astype(np.float16).astype(np.float32)
    assert np.array_equal(half(values).view(np.uint32), plain.view(np.uint32))


def near_copies(classes=90, originals=4, words=120, vocabulary=2000):
    """Two copies of each original to learn from and one to ask about, each without 60 % of its words; classes share all words."""
    rng = np.random.default_rng(0)
    tree = Tree.from_paths([(f"g{c // 9}", f"c{c}") for c in range(classes)], root="all")
    X, y = [], []
    for c in range(classes):
        for _ in range(originals):
            chosen = rng.choice(vocabulary, words, replace=False)
            for _ in range(3):
                X.append(np.bincount(chosen[rng.random(words) > 0.6], minlength=vocabulary))
                y.append(f"c{c}")
    X, y = sparse.csr_matrix(np.array(X, float)), np.array(y)
    asked = np.arange(len(y)) % 3 == 2
    return tree, X[~asked], y[~asked], X[asked], y[asked]


def test_near_copies_are_remembered():
    tree, X, y, asked, truth = near_copies()
    model = HiPaNClassifier(tree).fit(X, y)
    labels, p = model.top_k(asked, 1)
    assert np.mean(labels[:, 0] == truth) > 0.98 and p.mean() > 0.9


def test_a_row_is_not_held_out_together_with_its_nearest():
    rng = np.random.default_rng(0)
    node, unit = rng.integers(0, 10, 400), np.arange(400)
    nearest = np.arange(400) ^ 1  # pairs
    rounds = plan_holdout(node, unit, 0, 0.2, rng, lambda rows: nearest[rows])
    assert rounds
    for one in rounds:
        assert len(one.out) > 40 and not np.isin(nearest[one.out], one.out).any()


def test_a_block_without_a_say_is_not_heard(tmp_path):
    rng = np.random.default_rng(1)
    tree = Tree.from_paths([(f"g{c // 8}", f"c{c}") for c in range(80)], root="all")
    node = rng.choice(tree.leaves, 900)
    words = sparse.csr_matrix(
        (rng.random((900, 300)) < 0.02) + 2.0 * (rng.random((900, 300)) < 0.9) * np.eye(tree.n_nodes, 300)[node]
    )
    noise, weak = rng.normal(size=(900, 20)), rng.normal(size=(900, 4)) + 0.5 * (node % 5)[:, None]
    X = {"words": words, "noise": noise, "weak": weak}
    model = HiPaNClassifier(tree).fit(X, tree.labels[node])
    assert model.layout_.silent == ("noise",) and set(model.dense_) == {"weak"} and not model.dense_["weak"].proposes
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert np.array_equal(again.predict_node_proba(X), model.predict_node_proba(X))
    assert explain(again, {name: block[:1] for name, block in X.items()}).blocks.keys() == {"words", "weak"}
    again.partial_fit(X, tree.labels[node])
    only = HiPaNClassifier(tree).fit({"noise": noise}, tree.labels[node])
    assert not only.layout_.silent  # something must be read


def test_threads_change_no_bit(monkeypatch):
    tree, X, y, asked, _ = near_copies(classes=70, originals=2, words=40)
    model = HiPaNClassifier(tree, epochs=1).fit(X, y)
    many = sparse.vstack([asked] * 18).tocsr()  # more than two tiles
    alone = model.predict_node_proba(many)
    for n_jobs in (2, -1):
        assert np.array_equal(model.set_params(n_jobs=n_jobs).predict_node_proba(many), alone)
    monkeypatch.setattr(_crew, "BLOCK", 32)  # several blocks for the threads of a fit
    assert np.array_equal(HiPaNClassifier(tree, epochs=1, n_jobs=2).fit(X, y).predict_node_proba(many), alone)
    with pytest.raises(VpunnError, match="n_jobs is a number of threads"):
        model.set_params(n_jobs=0).predict(asked)


def test_rows_of_the_callers_own_teach_the_combiner():
    """Training rows are cleaner than those to come: held-out ones promise too much, rows of the caller's own do not."""
    rng = np.random.default_rng(0)
    tree = Tree.from_paths([(f"g{c // 4}", f"c{c}") for c in range(12)], root="all")

    def rows(n, kept):
        leaf = rng.integers(0, 12, n)
        own = np.eye(12, 40)[leaf] * (rng.random((n, 1)) < kept)
        return sparse.csr_matrix(own + (rng.random((n, 40)) < 0.1)), tree.labels[tree.leaves][leaf]

    X, y = rows(600, 1.0)
    given, (asked, truth) = rows(600, 0.5), rows(600, 0.5)
    trusting = HiPaNClassifier(tree).fit(X, y)
    careful = HiPaNClassifier(tree).fit(X, y, validation=given)
    errors = [
        calibration_error(p[:, 0], labels[:, 0] == truth)
        for labels, p in (m.top_k(asked, 1) for m in (trusting, careful))
    ]
    assert errors[1] < 0.1 < errors[0] and len(careful.miss_scores_) == 600
    with pytest.raises(VpunnError, match="validation is a pair"):
        HiPaNClassifier(tree).fit(X, y, validation=asked)
    with pytest.raises(VpunnError, match="labels that no training row has"):
        HiPaNClassifier().fit(X, y, validation=(X[:1], ["other"]))


def test_of_many_rows_no_more_are_held_out_than_teach():
    n = 15 * MOST_HELD
    node = np.random.default_rng(0).integers(0, 500, n)
    (one,) = plan_holdout(node, np.arange(n), 0, 0.1, np.random.default_rng(1))
    assert 0.99 * MOST_HELD <= len(one.out) <= MOST_HELD and len(np.unique(node[one.out])) == 500
