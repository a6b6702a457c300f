"""Exact sums: a slow twin in Python's fractions, any partitioning to the same bytes, and the models made from them."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vpunn
from vpunn import Tree, VpunnError
from vpunn.scale import BallSums, ClassSums, shrunk_centroids
from vpunn.scale._exact import ExactSums, exact_products
from vpunn.vapo.heads import SoftmaxHeads

DOUBLES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-10, 10),
    st.integers(-5, 5).map(float),
    st.sampled_from([5e-324, -5e-324, 1.7976931348623157e308, -1.7976931348623157e308, 2.0**-1022, 0.0, -0.0]),
)
WEIGHTS = st.one_of(st.floats(0, 1e308), st.sampled_from([0.0, 1.0, 2.0, 0.5, 5e-324]), st.floats(0, 3))


def random_tree(n: int, seed: int) -> Tree:
    rng = np.random.default_rng(seed)
    parents = [-1, *(int(rng.integers(0, i)) for i in range(1, n))]
    return Tree.from_parents(parents, labels=[f"n{i}" for i in range(n)])


def rows_of(tree: Tree, n: int, seed: int, columns: int = 2):
    """Rows with effects of balls: nodes, y, X, w."""
    rng = np.random.default_rng(seed)
    nodes = rng.integers(0, tree.n_nodes, n)
    X = rng.standard_normal((n, columns)) + [5.0, 1e6][:columns]
    effect = rng.standard_normal(tree.n_nodes)
    return nodes, effect[nodes] + X.sum(1) + rng.standard_normal(n) + 1e3, X, rng.random(n)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.integers(0, 2), DOUBLES, WEIGHTS), max_size=12), st.integers(0, 12), st.booleans())
def test_sums_are_those_of_fractions_and_parts_add_up_to_the_same_bytes(rows, cut, weighted):
    at = np.array([row[0] for row in rows], np.int64)
    values = np.array([row[1] for row in rows], float)
    weights = np.array([row[2] for row in rows], float) if weighted else None
    whole = ExactSums(3)
    whole.add(at, values, weights)
    unit = np.ones(len(rows)) if weights is None else weights
    for node in range(3):
        twin = sum(
            (Fraction(w) * Fraction(v) for a, v, w in zip(at, values, unit, strict=True) if a == node), Fraction(0)
        )
        assert whole.exact(node) == twin
        try:
            nearest = float(twin)
        except OverflowError:
            continue
        if twin and abs(nearest) > 1e-290:  # in the last subnormal digits the pair itself is rounded
            hi, lo = (part[node] for part in whole.pairs())
            assert abs(Fraction(hi) + Fraction(lo) - twin) <= abs(twin) * Fraction(1, 2**99)
            assert abs(Fraction(hi) - twin) <= abs(twin) * Fraction(1, 2**52)
    twin = sum((Fraction(w) * Fraction(v) ** 2 for v, w in zip(values, unit, strict=True)), Fraction(0))
    assert exact_products(values, values, weights) == twin
    parts = []
    for part in (slice(0, cut), slice(cut, None)):
        one = ExactSums(3)
        one.add(at[part], values[part], None if weights is None else weights[part])
        parts.append(one)
    both = parts[1] + parts[0]
    assert both == whole and both.limbs.tobytes() == whole.limbs.tobytes()
    parts[0] += parts[1]
    assert parts[0].limbs.tobytes() == whole.limbs.tobytes()


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 30), st.integers(1, 60), st.integers(0, 10_000))
def test_one_two_and_seven_partitions_give_the_same_bytes(n_nodes, n_rows, seed):
    tree = random_tree(n_nodes, seed)
    nodes, y, X, w = rows_of(tree, n_rows, seed)
    labels = np.array(list("abc"))[np.random.default_rng(seed).integers(0, 3, n_rows)]
    whole, classes = BallSums.from_rows(tree, nodes, y, X, w), ClassSums.from_rows(tree, nodes, labels)
    model, heads = vpunn.VPuNNRegressor.from_sums(whole), SoftmaxHeads.from_sums
    for k in (2, 7):
        parts = np.array_split(np.random.default_rng(seed + k).permutation(n_rows), k)  # some are empty
        sums = sum(BallSums.from_rows(tree, nodes[p], y[p], X[p], w[p]) for p in parts)
        assert sums == whole
        again = vpunn.VPuNNRegressor.from_sums(sums)
        for name in ("coef_", "covariate_coef_", "depth_variance_"):
            assert getattr(again, name).tobytes() == getattr(model, name).tobytes()
        counted = sum(ClassSums.from_rows(tree, nodes[p], labels[p]) for p in reversed(parts))
        assert counted == classes
        one, other = (vpunn.VPuNNClassifier.from_sums(part).node_proba_ for part in (classes, counted))
        assert one.tobytes() == other.tobytes()
        if (classes.weights()[1:] > 0).any():
            assert heads(counted).closed_form().tobytes() == heads(classes).closed_form().tobytes()


def test_models_from_sums_are_those_of_the_rows():
    tree = random_tree(80, 1)
    nodes, y, X, w = rows_of(tree, 900, 1)
    table = np.column_stack([tree.labels[nodes], X.astype(object)])
    fitted = vpunn.VPuNNRegressor(tree, covariates=[1, 2]).fit(table, y, sample_weight=w)
    made = vpunn.VPuNNRegressor.from_sums(BallSums.from_rows(tree, nodes, y, X, w))
    for a, b in zip(made.predict(table, return_std=True), fitted.predict(table, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    two = np.column_stack([y, -y])
    targets = vpunn.VPuNNRegressor.from_sums(BallSums.from_rows(tree, nodes, two, None, w), penalty=2.0)
    direct = vpunn.VPuNNRegressor(tree, penalty=2.0).fit(tree.labels[nodes][:, None], two, sample_weight=w)
    np.testing.assert_allclose(targets.coef_, direct.coef_, rtol=1e-9, atol=1e-9)
    labels = np.where(y > np.median(y), "high", "low")
    counted = BallSums.from_rows(tree, nodes, labels, w=np.arange(900) % 3)
    classes = vpunn.VPuNNClassifier(tree).fit(tree.labels[nodes][:, None], labels, sample_weight=np.arange(900) % 3)
    np.testing.assert_allclose(vpunn.VPuNNClassifier.from_sums(counted).node_proba_, classes.node_proba_, atol=1e-5)
    for sums, target in ((BallSums.from_rows(tree, nodes, y), y), (ClassSums.from_rows(tree, nodes, labels), labels)):
        encoder = vpunn.PadicTargetEncoder(tree).fit(tree.labels[nodes][:, None], target)
        of_sums = vpunn.PadicTargetEncoder.from_sums(sums)
        np.testing.assert_allclose(of_sums.node_values_, encoder.node_values_, rtol=1e-5)
        assert of_sums.get_feature_names_out().tolist() == encoder.get_feature_names_out().tolist()


def test_levels_in_place_of_labels():
    frame = pd.DataFrame({"a": ["x", "x", "y"], "b": ["1", "2", "1"]})
    fitted = vpunn.VPuNNRegressor().fit(frame, [1.0, 2.0, 5.0])
    nodes = fitted.tree_.locate(frame).nodes
    made = vpunn.VPuNNRegressor.from_sums(BallSums.from_rows(fitted.tree_, nodes, [1.0, 2.0, 5.0]), levels=2)
    np.testing.assert_allclose(made.predict(frame.to_numpy()), fitted.predict(frame))
    by_label = vpunn.VPuNNRegressor.from_sums(BallSums.from_rows(fitted.tree_, nodes, [1.0, 2.0, 5.0]))
    with pytest.raises(VpunnError, match="'1' names 2 nodes"):
        by_label.predict([["1"]])


def test_a_mean_far_above_the_spread_costs_no_digits():
    """Raw moments in floats would leave nothing of the spread here; exact ones leave all of it."""
    tree = random_tree(20, 3)
    nodes, y, _, _ = rows_of(tree, 300, 3)
    y = np.round((y - 1e3) * 1024) / 1024
    near = vpunn.VPuNNRegressor.from_sums(BallSums.from_rows(tree, nodes, y))
    far = vpunn.VPuNNRegressor.from_sums(BallSums.from_rows(tree, nodes, y + 2.0**40))
    np.testing.assert_allclose(far.noise_variance_, near.noise_variance_, rtol=1e-6)
    np.testing.assert_allclose(far.coef_[1:], near.coef_[1:], atol=1e-3)


def test_centroids_are_shrunk_means():
    tree = random_tree(30, 2)
    nodes, y, X, _ = rows_of(tree, 400, 2)
    features = np.column_stack([y, X])
    centroids = shrunk_centroids(BallSums.from_rows(tree, nodes, features))
    for j in range(3):
        direct = vpunn.VPuNNRegressor(tree).fit(tree.labels[nodes][:, None], features[:, j])
        np.testing.assert_allclose(centroids[:, j], direct.predict(tree.labels[:, None]), rtol=1e-6)


def test_sums_of_a_database_say_whether_they_are_exact():
    tree = random_tree(6, 0)
    nodes = np.array([1, 1, 2, 5, 5, 5])
    cents = np.array([1010, 3, -250, 7, 7, 99])
    rows = pd.DataFrame({"node": nodes, "weight": 1, "sum": cents, "product": cents**2})
    whole = BallSums.from_frame(tree, rows.groupby("node", as_index=False).sum())
    assert whole.exact and whole.totals()[:, 0].tolist() == [0, 1013, -250, 0, 0, 113]
    money = rows.assign(
        sum=[Decimal(int(c)).scaleb(-2) for c in cents], product=[Decimal(int(c) ** 2).scaleb(-4) for c in cents]
    )
    euros = BallSums.from_frame(tree, money.iloc[:2]) + BallSums.from_frame(tree, money.iloc[2:])
    assert euros.exact and euros == BallSums.from_frame(tree, money)
    assert euros.totals()[:, 0].tolist() == [0, 10.13, -2.5, 0, 0, 1.13]
    scaled = vpunn.VPuNNRegressor.from_sums(whole).predict(tree.labels[:, None]) / 100
    np.testing.assert_allclose(vpunn.VPuNNRegressor.from_sums(euros).predict(tree.labels[:, None]), scaled)
    assert (whole + euros).totals()[1, 0] == 1023.13  # of two scales
    floats = rows.astype({"sum": float, "product": float}).assign(node=tree.labels[nodes])
    assert not BallSums.from_frame(tree, floats).exact and not (whole + BallSums.from_frame(tree, floats)).exact
    with pytest.raises(vpunn.DataError, match="has no column 'sum'"):
        BallSums.from_frame(tree, rows.drop(columns="sum"))
    counts = pd.DataFrame({"node": [1, 2], "class": ["a", "b"], "count": [3, 1]})
    assert ClassSums.from_frame(tree, counts).table()[1].tolist() == [3, 0]


def test_saved_sums_are_the_same(tmp_path):
    tree = random_tree(12, 5)
    nodes, y, X, w = rows_of(tree, 50, 5)
    for sums in (BallSums.from_rows(tree, nodes, y, X, w), ClassSums.from_rows(tree, nodes, y > 1e3)):
        sums.save(tmp_path / type(sums).__name__)
        again = vpunn.load(tmp_path / type(sums).__name__)
        assert again == sums and again + sums == sums + again and repr(again) == repr(sums)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [1.0, np.nan]}, "y must be finite; it is not in rows 1"),
        ({"w": [1.0, -1.0]}, "weights must be finite and at least 0; got -1"),
        ({"nodes": [1, 9]}, "outside this tree"),
        ({"y": ["a", "b"], "w": [1.0, 0.5]}, "must be whole numbers, got 0.5"),
        ({"y": ["a", None]}, "y is missing in rows 1"),
        ({"X": [[1.0]]}, "X needs one row for each of 2 nodes"),
    ],
)
def test_bad_rows_are_refused_with_a_sentence(change, message):
    tree = Tree.from_parents([-1, 0, 0])
    given = {"nodes": [1, 2], "y": [1.0, 2.0], "X": None, "w": None} | change
    with pytest.raises(VpunnError, match=message):
        BallSums.from_rows(tree, **given)


def test_sums_of_two_trees_or_two_shapes_are_not_added():
    tree, other = Tree.from_parents([-1, 0, 0]), Tree.from_parents([-1, 0, 1])
    with pytest.raises(VpunnError, match="different trees"):
        BallSums.from_rows(tree, [1], [1.0]) + BallSums.from_rows(other, [1], [1.0])
    with pytest.raises(VpunnError, match="cannot be added"):
        BallSums.from_rows(tree, [1], [1.0]) + BallSums.from_rows(tree, [1], [1.0], [[2.0]])
    with pytest.raises(VpunnError, match="two kinds"):
        ClassSums.from_rows(tree, [1], ["a"]) + ClassSums.from_rows(tree, [1], [1])
    with pytest.raises(VpunnError, match="nothing to fit"):
        vpunn.VPuNNRegressor.from_sums(BallSums(tree))
