"""Blocks of features: dense evidence against slow twins, several blocks at once, and the hold-out rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_digits

from vpunn import load
from vpunn.errors import VpunnError
from vpunn.explain import contrast, describe_ball, explain
from vpunn.hipan import HiPaNClassifier, Views, _dense
from vpunn.hipan._arrays import Lift
from vpunn.hipan._balls import FEW_CLASSES, Items, branches
from vpunn.hipan._dense import EVIDENCE, PER_KIND, SHARPNESS, VOTERS, WIDE, Dense, Space
from vpunn.hipan._holdout import pace, plan_holdout, units
from vpunn.hipan._logistic import fit_logistic
from vpunn.hipan._views import unit_rows
from vpunn.hipan.kernels.dense import N_EVIDENCE, N_PER_KIND, add_rows
from vpunn.hipan.kernels.products import best_columns, best_products
from vpunn.hipan.kernels.ranks import add_log_ranks
from vpunn.tree import Tree

TREE = Tree.from_paths([("a", "b"), ("a", "c"), ("d", "e"), ("d", "f", "g"), ("d", "f", "h")], root="r")


def dense_case(seed=0, rows=60, width=5):
    rng = np.random.default_rng(seed)
    node = np.concatenate([np.asarray(TREE.index(list("bcegh"))).repeat(rows // 5), [TREE.index(["f"])[0]] * 2])
    X = (rng.normal(size=(TREE.n_nodes, width))[node] * 2 + rng.normal(size=(len(node), width))).astype(np.float32)
    kind = np.zeros(len(node), np.int8)
    kind[np.unique(node, return_index=True)[1]] = 1
    weight = (rng.random(len(node)) + 0.5).astype(np.float32)
    return X, Items(X, node.astype(np.int32), weight, kind)


@pytest.mark.parametrize("width", [5, WIDE])
def test_dense_evidence_matches_a_slow_twin(width):
    """Every column, recomputed from the definition with plain loops."""
    X, items = dense_case(width=width)
    block = Dense("x", TREE, items)
    assert len(EVIDENCE) == N_EVIDENCE and len(PER_KIND) == N_PER_KIND
    queries = X[::7] + np.random.default_rng(1).normal(size=X[::7].shape).astype(np.float32)
    nodes = np.unique(items.node)
    candidates = np.tile(np.append(nodes, -1), (len(queries), 1)).astype(np.int32)
    evidence = block.look(queries).evidence(candidates)
    assert evidence.shape[2] == len(block.names())
    space, branch = block.space, branches(TREE)
    Z, Q = ((A - space.centre) / space.scale @ space.turn for A in (X, queries))
    U, V = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (Z, Q))
    inside = [np.arange(TREE.n_nodes)[TREE.slice(b)] for b in range(TREE.n_nodes)]
    for r, (z, v) in enumerate(zip(Q, V, strict=True)):
        cosine = U @ v
        voters = np.lexsort((np.arange(len(cosine)), -cosine[block_order(items)]))[:VOTERS]
        voters = block_order(items)[voters]
        share = np.exp(SHARPNESS * (cosine[voters] - cosine[voters].max()))
        share /= share.sum()
        table = np.zeros((len(nodes), len(EVIDENCE) + 2))
        for j, c in enumerate(nodes):
            parent = TREE.parent[c]
            for k, ball in enumerate(([c], inside[c], inside[parent])):
                at = np.isin(items.node, ball)
                total = (items.weight[at, None] * U[at]).sum(0)
                table[j, k] = v @ total / np.linalg.norm(total)
            mine = (items.node == c) & (items.kind == 0)
            near = np.sort(np.append(cosine[mine], [0, 0]))[::-1]
            table[j, 3:5] = np.maximum(near[:2], 0)
            table[j, 5] = -np.log(np.linalg.norm(Z[mine] - z, axis=1).min())
            table[j, 6] = share[items.node[voters] == c].sum()
            table[j, 7] = share[TREE.parent[items.node[voters]] == parent].sum()
            table[j, 8] = share[branch[items.node[voters]] == branch[c]].sum()
            at = block.class_at[c]
            heard = z * (space.usual / np.linalg.norm(z) if width >= WIDE else 1.0)
            table[j, 9] = (block.own_mean[at] * space.metric) @ heard + block.mean_bias[at]
            table[j, 12] = heard @ block.head[:-1, at] + block.head[-1, at]
            table[j, 18] = max(cosine[items.node == c].max(), 0)
            table[j, 20] = cosine[(items.node == c) & (items.kind == 1)][0]
        for column, into in ((5, 5), (9, 9), (12, 12), (0, 14), (1, 15), (2, 16), (3, 17), (18, 19), (20, 21)):
            table[:, into] = table[:, column] - table[:, column].max()
        table[:, [9, 12]] = np.maximum(table[:, [9, 12]], -60)
        for score, into in ((9, 10), (12, 13)):
            p = np.exp(table[:, score]) / np.exp(table[:, score]).sum()
            table[:, into] = np.log(p)
            if into == 10:
                family = [p[TREE.parent[nodes] == TREE.parent[c]].sum() for c in nodes]
                table[:, 11] = np.log(np.maximum(family, 1e-30))
        np.testing.assert_allclose(evidence[r, : len(nodes)], table, rtol=5e-3, atol=1e-2)
        assert not evidence[r, len(nodes)].any()  # an empty slot


def test_products_made_again_are_those_that_were_kept(monkeypatch):
    """Exact products: evidence and proposals have the same bits whether all products are kept or made for the candidates."""
    X, items = dense_case(3, rows=400, width=WIDE)
    candidates = np.tile(np.unique(items.node), (len(X), 1)).astype(np.int32)
    found = []
    for crowd in (0, 1e9):
        monkeypatch.setattr("vpunn.hipan._dense.CROWD", crowd)
        look = Dense("x", TREE, items).look(X)
        assert bool(look.near.shape[1]) == (crowd > 0)
        found.append((*look.propose(3), look.evidence(candidates)))
    for kept, made in zip(*found, strict=True):
        np.testing.assert_array_equal(kept, made)


def block_order(items):
    return np.lexsort((-items.kind.astype(np.int8), items.node))


def test_closed_form_heads_are_sums_along_the_balls():
    _, items = dense_case(2)
    block = Dense("x", TREE, items)
    for j, c in enumerate(block.classes):
        chain = [int(c)] + [TREE.n_nodes + u for u in TREE.ancestors(int(c)) if u and not TREE.is_leaf[u]]
        weights = sum(block.ball_head(b)[0] for b in chain)
        constant = sum(block.ball_head(b)[1] for b in chain)
        mean, metric = block.own_mean[j], block.space.metric
        np.testing.assert_allclose(weights, block.space.turn @ (metric * mean), atol=1e-5)
        np.testing.assert_allclose(constant, -0.5 * (mean**2 @ metric), atol=1e-5)


def test_axes_count_by_what_they_tell_about_classes():
    """Of columns that spread alike, those on which classes differ count, and in a wide block the others are left out."""
    rng, told = np.random.default_rng(0), 10
    node = np.repeat(np.arange(1, 401), 5).astype(np.int32)
    X = rng.normal(size=(len(node), 2 * WIDE))
    X[:, :told] = rng.normal(size=(401, told))[node] + 0.5 * X[:, :told]
    space = Space.of(X, node)
    assert told <= space.turn.shape[1] < WIDE  # sampling noise keeps some that tell nothing
    first = np.abs(space.turn[:, :told])
    assert (first[:told].max(0) > 5 * first[told:].max(0)).all()
    assert space.pull[:told].min() > 2 * space.pull[told:].max()
    narrow = Space.of(X[:, : told + 4], node)
    assert narrow.turn.shape == (told + 4, told + 4) and narrow.usual == 0


def test_a_block_without_pairs_counts_all_axes_alike():
    """Where no class has two rows, nothing tells which axes matter."""
    X = np.random.default_rng(0).normal(size=(300, 80))
    space = Space.of(X, np.arange(300, dtype=np.int32))
    assert space.turn.shape == (80, 80) and np.ptp(space.pull) < 1e-6


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_sums_of_rows_are_those_of_numpy_to_the_bit(kind):
    rng = np.random.default_rng(3)
    unit, length = rng.normal(size=(500, 13)).astype(np.float32), rng.random(500).astype(np.float32)
    node, weight = rng.integers(0, 20, 500), rng.random(500).astype(kind)
    slow, fast = np.zeros((30, 13)), np.zeros((30, 13))
    np.add.at(slow, node, (unit * length[:, None]) * weight[:, None].astype(np.float64))
    add_rows(unit, length, node, weight, fast)
    assert fast.tobytes() == slow.tobytes()


@pytest.mark.parametrize("columns", [1, 63, 64, 65, 400])
def test_best_products_of_all_blocks_match_sorting(monkeypatch, columns):
    """Many equal products, and blocks far smaller than usual."""
    monkeypatch.setattr("vpunn.hipan.kernels.products.PRODUCTS_AT_ONCE", 5 * 64)
    rng = np.random.default_rng(columns)
    rows, wide = (rng.integers(-1, 2, (n, 3)).astype(np.float32) for n in (5, columns))
    limit = min(20, columns)
    best, top = best_products(rows, wide, limit)
    products = rows @ wide.T
    np.testing.assert_array_equal(best, np.argsort(-products, axis=1, kind="stable")[:, :limit])
    np.testing.assert_array_equal(top, np.take_along_axis(products, best, 1))
    length, scale, bias = (rng.random(n).astype(np.float32) for n in (5, columns, columns))
    best, top = best_products(rows, wide, limit, Lift(length, scale, bias))
    lifted = products * scale * length[:, None] + bias
    np.testing.assert_array_equal(top, np.take_along_axis(lifted, best, 1))
    np.testing.assert_array_equal(top, -np.sort(-lifted, axis=1)[:, :limit])


@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_best_columns_and_ranks_match_sorting(seed, limit, width):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 5, (4, width)).astype(np.float32)
    limit = min(limit, width)
    np.testing.assert_array_equal(best_columns(values, limit), np.argsort(-values, axis=1, kind="stable")[:, :limit])
    evidence = np.zeros((4, width + 1, 2), np.float32)
    evidence[:, :-1, 0] = values
    add_log_ranks(evidence, np.zeros((4, width), np.int32), np.array([0]))
    ranks = evidence[:, :-1, 1]
    np.testing.assert_allclose(ranks, -np.log1p((values[:, None, :] > values[:, :, None]).sum(2)), rtol=1e-6)


def test_softmax_regression_has_no_slope_left():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 4)), rng.integers(0, 3, 300)
    X[np.arange(300), y] += 1.5
    found, penalty = fit_logistic(X, y, np.ones(300), 3)
    assert np.array_equal(found, fit_logistic(X, y, np.ones(300), 3)[0])
    again, given = fit_logistic(
        X, y, np.ones(300), 3, penalty
    )  # from zero, not from the path: the same but for rounding
    assert given == penalty and np.abs(again - found).max() < 0.02
    score = X @ found[:-1] + found[-1]
    assert np.mean(score.argmax(1) == y) > 0.7
    p = np.exp(score - score.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    np.testing.assert_allclose(p.mean(0), np.bincount(y) / 300, atol=1e-2)  # the bias is not penalised


def digits_model(rows=500):
    X, y = load_digits(return_X_y=True)
    tree = Tree.from_paths([("even" if c % 2 == 0 else "odd", str(c)) for c in range(10)], root="digit")
    return HiPaNClassifier(tree).fit(X[:rows], y[:rows].astype(str)), X, y.astype(str)


def test_dense_tables_are_learned_and_kept(tmp_path):
    model, X, y = digits_model()
    assert np.mean(model.predict(X[900:]) == y[900:]) > 0.88
    together = model.predict_node_proba(X[900:1200])
    for size in (1, 7, 256):
        parts = [model.predict_node_proba(X[900 + i : 900 + min(i + size, 300)]) for i in range(0, 300, size)]
        assert np.array_equal(np.concatenate(parts), together)
    model.save(tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").predict_node_proba(X[900:1200]), together)
    said = explain(model, X[900:901])
    assert abs(sum(ball.head for ball in said.balls) - said.score) < 1e-9 and said.blocks.keys() == {"numbers"}
    assert describe_ball(model, "3").speaks_for and contrast(model, "3", "8")


def two_blocks(seed=0, rows=400):
    """Words tell the branch, numbers the leaf within it."""
    rng = np.random.default_rng(seed)
    leaf = rng.integers(0, 4, rows)
    tree = Tree.from_paths([("a", "a0"), ("a", "a1"), ("b", "b0"), ("b", "b1")], root="r")
    words = sparse.csr_matrix(
        (rng.random((rows, 30)) < 0.1) + 3.0 * np.eye(30)[leaf // 2 + 2 * rng.integers(0, 5, rows)]
    )
    numbers = rng.normal(size=(rows, 3)) + 4.0 * (leaf % 2)[:, None]
    return tree, Views(words=words, size=numbers), tree.labels[tree.leaves][leaf]


def test_blocks_speak_together(tmp_path):
    tree, X, y = two_blocks()
    model = HiPaNClassifier(tree).fit(X.take(slice(0, 300)), y[:300])
    rest = X.take(slice(300, None))
    both = np.mean(model.predict(rest) == y[300:])
    alone = [
        np.mean(HiPaNClassifier(tree).fit(X[b][:300], y[:300]).predict(X[b][300:]) == y[300:])
        for b in ("words", "size")
    ]
    assert both > 0.9 > max(alone) + 0.2
    swapped = {"size": rest["size"], "words": rest["words"]}
    assert np.array_equal(model.predict_node_proba(swapped), model.predict_node_proba(rest))
    model.save(tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").predict_node_proba(rest), model.predict_node_proba(rest))
    said = explain(model, rest.take(slice(0, 1)))
    assert said.blocks.keys() == {"words", "size"} and "spoke for it" in str(said)
    model.partial_fit(rest, y[300:])
    assert np.mean(model.predict(rest) == y[300:]) > 0.9


def test_descriptions_of_a_dense_block_reach_nodes_without_rows():
    rng = np.random.default_rng(0)
    tree = Tree.from_paths([(f"g{i // 6}", f"c{i}") for i in range(90)], root="r")
    place = rng.normal(size=(tree.n_nodes, 20))
    node = rng.choice(tree.leaves[:75], 600)
    model = HiPaNClassifier(tree).fit(
        {"e": place[node] + 0.3 * rng.normal(size=(600, 20))}, tree.labels[node], X_nodes={"e": place}
    )
    asked = rng.choice(tree.leaves[75:], 100)
    found = model.locate({"e": place[asked] + 0.3 * rng.normal(size=(100, 20))})
    assert np.mean(found == asked) > 0.5


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
def test_bad_blocks_are_named(change, said):
    tree, X, y = two_blocks(rows=80)
    model = HiPaNClassifier(tree, epochs=1).fit(X, y)
    with pytest.raises(VpunnError, match=said):
        model.predict(change(dict(X)))


def test_groups_and_equal_rows_are_held_out_together():
    words = sparse.csr_matrix(np.array([[1.0, 0], [0, 1], [1, 0], [1, 1], [0, 0], [0, 0]]))
    assert len(set(units(words, [], None)[[0, 2]])) == 1
    assert len(set(units(words, [], None))) == 5  # empty rows are not equal
    joined = units(words, [], np.array([0, 1, 2, 0, 3, 3]))
    assert joined[0] == joined[2] == joined[3] and joined[4] == joined[5] and len(set(joined)) == 3
    rng = np.random.default_rng(0)
    unit = rng.integers(0, 40, 300)
    for one in plan_holdout(rng.integers(0, 5, 300), unit, 3, 0.1, rng):
        assert not np.isin(unit[one.out], unit[np.setdiff1d(np.arange(300), one.out)]).any()
    with pytest.raises(VpunnError, match="groups needs one entry per row"):
        HiPaNClassifier().fit(np.eye(4), list("abcd"), groups=[1, 2])
    for nothing in (None, np.nan):
        with pytest.raises(VpunnError, match="groups has no value in 2 rows: 1, 3; give each of them a group"):
            HiPaNClassifier().fit(np.eye(4), list("abcd"), groups=[1, nothing, 2, nothing])


def test_of_texts_with_copies_a_third_leaves_whole_and_a_third_row_by_row():
    """Nobody knows whether new rows will meet a copy of themselves, under their label or another: the combiner meets all cases."""
    words = sparse.csr_matrix(np.repeat(np.random.default_rng(0).random((900, 3)), 2, axis=0))
    node = np.tile([0, 1], 900)
    unit = units(words, [], None, node).reshape(900, 2)
    together = unit[:, 0] == unit[:, 1]
    assert abs(together.mean() - 1 / 3) < 0.01 and np.corrcoef(together[:-1], together[1:])[0, 1] < 0.1
    assert len(np.unique(unit)) == 900 + (~together).sum()
    alone = np.diff(units(words, [], None, np.zeros(1800, int)).reshape(900, 2)).ravel() != 0
    assert abs(alone.mean() - 1 / 3) < 0.01 and not (alone & together).any()  # copies under one label
    phrase = sparse.csr_matrix(np.ones((300, 2)))  # one text under all labels: it does not take the table with it
    assert len(np.unique(units(phrase, [], None, np.arange(300) % 7))) == 300


@pytest.mark.parametrize(
    ("numbers", "classes", "at_once", "rows"),
    [(50_000, 40, 400, 2000), (200_000, 40, 400, 1600), (500_000, 40, 800, 800), (50_000, 90, 400, 3200)],
)
def test_experts_that_judge_have_nearly_all_rows_where_rounds_are_cheap(numbers, classes, at_once, rows):
    rng = np.random.default_rng(0)
    share, enough = pace(0.1, 4000, 0, numbers, classes <= FEW_CLASSES)
    rounds = plan_holdout(rng.integers(0, classes, 4000), np.arange(4000), 0, share, rng, None, enough)
    assert [len(one.out) for one in rounds] == [at_once] * (rows // at_once)


def test_dense_heads_that_judge_and_answer_have_one_penalty(monkeypatch):
    """Chosen for every round anew it may be ten times another, and the combiner reads scores of a scale it does not know."""
    model, seen = HiPaNClassifier(random_state=0), []
    fit = _dense.fit_logistic

    def spy(X, y, weight, n_classes, penalty=None):
        found = fit(X, y, weight, n_classes, penalty)
        seen.append((penalty, found[1]))
        return found

    monkeypatch.setattr(_dense, "fit_logistic", spy)
    X, y = load_digits(return_X_y=True)
    model.fit(X[:300], y[:300])
    (first, chosen), *others = seen
    assert first is None and len(others) > 2 and set(others) == {(chosen, chosen)}
    model.partial_fit(X[300:310], y[300:310])
    assert seen[-1] == (chosen, chosen)


def test_heads_of_a_wide_block_read_all_rows_at_one_length():
    """An encoder that learned from the training rows makes new rows longer or shorter; that is no sign of being sure."""
    X, items = dense_case(width=WIDE)
    block = Dense("x", TREE, items)
    centre = block.space.centre
    longer = (X[:9] - centre) * 1.5 + centre
    np.testing.assert_allclose(block.trained(longer.astype(np.float32)), block.trained(X[:9]), atol=2e-2)
    narrow_X, narrow = dense_case(width=5)
    block = Dense("x", TREE, narrow)
    longer = (narrow_X[:9] - block.space.centre) * 1.5 + block.space.centre
    assert np.abs(block.trained(longer.astype(np.float32)) - block.trained(narrow_X[:9])).max() > 0.5


def test_single_rows_are_held_out_as_often_as_new_classes_are_asked_for():
    rng = np.random.default_rng(0)
    thin = rng.zipf(1.3, 6000) % 4000  # many classes of one row, and many of none: Good and Turing hold
    met = np.unique(thin, return_counts=True)[1]
    rounds = plan_holdout(thin, np.arange(6000), 4000 - len(met), 0.1, rng)
    single = np.isin(thin, np.flatnonzero(np.bincount(thin) == 1))
    out = np.concatenate([one.out for one in rounds])
    assert abs(single[out].mean() - single.mean()) < 0.03 and all((one.weight == 1).all() for one in rounds)
    listed = np.concatenate([np.arange(800), rng.integers(800, 1000, 2000)])  # every code once, no empty code
    # several rows of one text, under any labels, are asked about together or not at all
    unit = np.where(np.arange(2800) % 5 == 0, np.arange(2800) % 97, np.arange(2800) + 100)
    for one in plan_holdout(listed, unit, 0, 0.1, rng):
        kept = np.setdiff1d(np.arange(2800), np.concatenate([one.out, one.dropped]))
        assert not np.isin(unit[one.out], unit[kept]).any()
    for one in plan_holdout(listed, np.arange(2800), 0, 0.1, rng):
        assert not np.isin(one.out, np.arange(800)).any()
        kept = np.setdiff1d(np.arange(2800), np.concatenate([one.out, one.dropped]))
        left = np.bincount(listed[kept], minlength=1000)[listed[one.out]]
        share = one.weight[left == 1].sum() / one.weight.sum()
        assert (left >= 1).all() and 0.6 < share < 0.9  # classes of one row are asked about


def test_numbers_far_from_zero_keep_their_differences(tmp_path):
    """Nanoseconds since 1970, a day apart, beside a constant column: 32 bits would not tell one from the other."""
    rng = np.random.default_rng(0)
    leaf = rng.integers(0, 4, 300)
    when = 1.7e18 + 8.64e13 * (leaf + 0.2 * rng.random(300))
    X = np.stack([when, np.full(300, 5.0)], 1)
    model = HiPaNClassifier().fit(X[:200], leaf[:200])
    assert np.mean(model.predict(X[200:]) == leaf[200:]) > 0.95
    assert np.isfinite(model.predict_proba(np.array([[-1e150, 1e150]]))).all()
    model.save(tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").predict_proba(X), model.predict_proba(X))


@given(st.integers(0, 10_000), st.sampled_from([1e-160, 1.0, 1e140]))
@settings(max_examples=40, deadline=None)
def test_unit_rows_match_whole_array_operations(seed, size):
    """The same bits; numbers whose squares are no numbers, empty rows and rows of stored zeros among them."""
    rng = np.random.default_rng(seed)
    X = sparse.random(6, 9, 0.4, format="csr", random_state=seed)
    X.data = size * rng.normal(size=len(X.data)) * (rng.random(len(X.data)) < 0.8)
    row = np.repeat(np.arange(6), np.diff(X.indptr))
    largest = np.zeros(6)
    np.maximum.at(largest, row, np.abs(X.data))
    data = X.data / np.where(largest == 0, 1.0, largest)[row]
    norm = np.sqrt(np.bincount(row, data**2, minlength=6))
    norm[norm == 0] = 1.0
    unit = unit_rows(X)
    assert unit.data.dtype == np.float32 and np.array_equal(unit.data, (data / norm[row]).astype(np.float32))
    assert np.array_equal(unit.indices, X.indices) and unit.shape == X.shape
