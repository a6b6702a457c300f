"""LatentTreeEncoder: exact Ward, cuts, routes, tables with every kind of trouble, scikit-learn's own checks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster import hierarchy
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from vpunn.errors import VpunnError
from vpunn.tabular import LatentTreeEncoder, _growing, ward_cost, ward_linkage
from vpunn.tabular._columns import TableCoder, TableError
from vpunn.tabular._growing import Cells, cut_by_branching, cut_by_counts, fine_clusters, grow_kmeans, leaf_of_rows


def blobs(n: int, d: int = 5, centres: int = 6, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.normal(size=(centres, d))[random.integers(centres, size=n)] * 3 + random.normal(size=(n, d))


def mixed(n: int = 60) -> pd.DataFrame:
    random = np.random.default_rng(1)
    kind = random.integers(3, size=n)
    return pd.DataFrame(
        {
            "size": kind * 10.0 + random.normal(size=n),
            "colour": np.array(["red", "green", "blue"])[kind],
            "count": random.poisson(4, size=n),
            "flag": random.random(n) < 0.5,
        }
    )


@parametrize_with_checks(
    [
        LatentTreeEncoder(),
        LatentTreeEncoder("kmeans", random_state=0),
        LatentTreeEncoder("two-stage", n_prototypes=10, random_state=0),
        LatentTreeEncoder(nodes_per_level=[2, 4]),
    ],
    # it asks for the same digits, but equally large siblings take theirs in the order of rows; test_weights.py asks for the balls
    expected_failed_checks=lambda _: {"check_sample_weight_equivalence_on_dense_data": "digits of equal siblings"},
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# ---- Ward ------------------------------------------------------------------------------------------------------------


@given(st.integers(2, 40), st.integers(1, 6), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_ward_equals_scipy(n, d, seed):
    rows = np.random.default_rng(seed).normal(size=(n, d))
    ours, theirs = ward_linkage(rows), hierarchy.linkage(rows, "ward")
    assert hierarchy.is_valid_linkage(ours)
    np.testing.assert_allclose(ours[:, 2:], theirs[:, 2:], rtol=1e-9, atol=1e-12)
    for many in (2, 3, n):  # no ties in continuous data, so the clusters are the same too
        a, b = (hierarchy.fcluster(z, many, "maxclust") for z in (ours, theirs))
        assert adjusted_rand_score(a, b) == 1.0


@pytest.mark.parametrize("method", ["ward", "kmeans"])
def test_threads_send_rows_to_the_same_balls(method, monkeypatch):
    rows = np.random.default_rng(0).normal(size=(300, 3))
    encoder = LatentTreeEncoder(method, random_state=0).fit(rows)
    monkeypatch.setattr(_growing, "BLOCK", 16)
    assert np.array_equal(encoder.set_params(n_jobs=2).apply(rows), encoder.leaf_)
    with pytest.raises(VpunnError, match="n_jobs is a number of threads"):
        encoder.set_params(n_jobs=0).apply(rows)


def test_ward_equals_fastcluster_with_duplicate_rows():
    fastcluster = pytest.importorskip("fastcluster")
    rows = np.round(blobs(800), 1)
    rows[:200] = rows[200:400]
    np.testing.assert_allclose(ward_linkage(rows)[:, 2], fastcluster.linkage_vector(rows, "ward")[:, 2], atol=1e-9)


def test_a_weight_is_a_row_counted_several_times():
    rows = blobs(40)
    weight = np.random.default_rng(0).integers(1, 4, size=40)
    weighted = ward_linkage(rows, weight)
    repeated = ward_linkage(np.repeat(rows, weight, axis=0))
    np.testing.assert_allclose(weighted[:, 2:], repeated[-39:, 2:], rtol=1e-9)


def test_ward_refuses_what_it_cannot_square():
    for rows, words in (([[np.nan], [0.0]], "finite"), ([[1e200], [0.0]], "rescale")):
        with pytest.raises(VpunnError, match=words):
            ward_linkage(np.array(rows))
    with pytest.raises(VpunnError, match="positive numbers"):
        ward_linkage(np.zeros((2, 1)), np.array([1.0, 0.0]))


def test_estimate_grows_with_the_square_and_is_announced(capsys):
    small, large = ward_cost(2_000, 10), ward_cost(200_000, 10)
    assert large.seconds > 1_000 * small.seconds
    assert large.bytes == 100 * small.bytes
    ward_linkage(blobs(300), verbose=True)
    assert "exact Ward on 300 rows, about" in capsys.readouterr().err
    ward_linkage(blobs(300), verbose=False)
    assert capsys.readouterr().err == ""


# ---- cutting -----------------------------------------------------------------------------------------------------------


def test_cut_by_counts_equals_fcluster_and_nests():
    linkage = ward_linkage(blobs(200))
    counts = [2, 5, 5, 30]
    parent, member = cut_by_counts(linkage, counts)
    assert len(parent) == 1 + sum(counts)
    assert (parent[1:] < np.arange(1, len(parent))).all()
    for depth in range(1, len(counts) + 1):
        upto = 1 + sum(counts[:depth])
        ours = leaf_of_rows(linkage, member[:upto])
        assert adjusted_rand_score(ours, hierarchy.fcluster(linkage, counts[depth - 1], "maxclust")) == 1.0


def test_cut_by_branching_undoes_the_highest_merges():
    linkage = ward_linkage(blobs(100))
    parent, member = cut_by_branching(linkage, 3, 1)  # one level of three is the three-cluster cut
    assert adjusted_rand_score(leaf_of_rows(linkage, member), hierarchy.fcluster(linkage, 3, "maxclust")) == 1.0
    parent, member = cut_by_branching(linkage, 2, 4)
    assert np.bincount(parent[1:]).max() <= 2


def test_equal_rows_are_never_cut_apart():
    rows = np.repeat([[0.0], [1.0], [5.0]], 4, axis=0)
    linkage = ward_linkage(rows)
    assert len(np.unique(fine_clusters(linkage, 12))) == 3
    encoder = LatentTreeEncoder(p=5, K=3).fit(rows)
    assert encoder.tree_.n_leaves == 3
    assert len(np.unique(encoder.leaf_.reshape(3, 4), axis=1).T) == 1


# ---- routes ------------------------------------------------------------------------------------------------------------


def test_cells_equal_brute_force():
    rows, prototypes = blobs(300), blobs(50, seed=1)
    ball = np.arange(50) // 5
    gap = ((rows[:, None] - prototypes[None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(Cells(prototypes, ball).route(rows), ball[gap.argmin(axis=1)])


@given(
    st.sampled_from(["ward", "two-stage", "kmeans"]), st.integers(1, 60), st.integers(1, 5), st.integers(3, 7), st.integers(1, 4),
    st.integers(0, 10**6),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_training_rows_keep_their_leaf_and_rows_do_not_interact(method, n, d, p, K, seed):
    random = np.random.default_rng(seed)
    rows = np.round(random.normal(size=(n, d)), 1)
    encoder = LatentTreeEncoder(method, p=p, K=K, n_prototypes=20, random_state=seed).fit(rows)
    tree = encoder.tree_
    np.testing.assert_array_equal(encoder.apply(rows), encoder.leaf_)
    assert tree.max_branching <= p - 1 or n == 1
    assert tree.max_depth <= K
    assert tree.is_leaf[encoder.leaf_].all()
    count = np.bincount(encoder.leaf_, minlength=tree.n_nodes)
    np.testing.assert_array_equal(count[tree.leaves], tree.columns["rows"][tree.leaves])
    unseen = random.normal(size=(7, d))
    together = encoder.transform(unseen)
    for i in range(7):
        np.testing.assert_array_equal(encoder.transform(unseen[i : i + 1])[0], together[i])


def test_few_rows_are_exactly_wards_clusters():
    rows = blobs(150)
    encoder = LatentTreeEncoder(nodes_per_level=[3, 9]).fit(rows)
    assert encoder.kept_ == 1.0
    assert adjusted_rand_score(encoder.leaf_, hierarchy.fcluster(encoder.linkage_, 9, "maxclust")) == 1.0


def test_two_stage_finds_the_clusters_of_exact_ward():
    rows = blobs(3000, centres=5) * 2
    exact = LatentTreeEncoder(nodes_per_level=[5]).fit(rows)
    quick = LatentTreeEncoder("two-stage", nodes_per_level=[5], n_prototypes=200, random_state=0).fit(rows)
    assert adjusted_rand_score(exact.leaf_, quick.leaf_) > 0.95


def test_kmeans_balls_are_balanced():
    sizes = grow_kmeans(blobs(2000), 4, 2, seed=0)
    count = sizes.tree.columns["rows"][sizes.tree.leaves]
    assert len(count) == 16
    assert count.min() > 0.7 * 2000 / 16
    assert count.max() < 1.4 * 2000 / 16


def test_same_seed_same_bytes():
    rows = blobs(500)
    for method in ("two-stage", "kmeans"):
        a, b = (LatentTreeEncoder(method, n_prototypes=50, random_state=3).fit(rows) for _ in range(2))
        assert a.transform(rows).tobytes() == b.transform(rows).tobytes()
        assert a.tree_ == b.tree_


# ---- outputs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["digits", "codes", "prefixes", "one-hot"])
@pytest.mark.parametrize("p", [3, 256])
def test_outputs_lead_back_to_the_ball(output, p):
    rows = blobs(300)
    encoder = LatentTreeEncoder(p=p, K=3, output=output).fit(rows)
    out = encoder.transform(rows)
    assert out.shape == (300, len(encoder.get_feature_names_out()))
    typical = encoder.inverse_transform(out)
    leaf = encoder.leaf_
    for ball in np.unique(leaf)[:5]:
        np.testing.assert_allclose(typical[leaf == ball][0], rows[leaf == ball].mean(axis=0))


def test_digits_are_the_path_and_prefixes_the_balls():
    encoder = LatentTreeEncoder(p=4, K=3).fit(blobs(100))
    digits = encoder.transform(blobs(100))
    for leaf, row in zip(encoder.leaf_, digits, strict=True):
        assert encoder.tree_.labels[leaf] == ".".join(str(d) for d in row if d)
    balls = encoder.set_params(output="prefixes").transform(blobs(100))
    assert (balls[:, -1] == encoder.leaf_).all()
    assert (encoder.tree_.depth[balls[:, 0]] == 1).all()
    member = encoder.set_params(output="one-hot").transform(blobs(100))
    np.testing.assert_array_equal(np.asarray(member.sum(axis=0)).ravel(), encoder.tree_.columns["rows"][1:])


def test_describe_names_the_column_that_was_planted():
    table = mixed().drop(columns="flag")
    encoder = LatentTreeEncoder(nodes_per_level=[3]).fit(table)
    for ball in range(1, 4):
        text = encoder.describe(ball)
        rows = table[encoder.leaf_ == ball]
        assert rows["colour"].nunique() == 1
        assert any(d.column == f"colour = {rows['colour'].iloc[0]}" and d.here == "100%" for d in text.differences)
        size = next(d for d in text.differences if d.column == "size")
        assert float(size.here) == pytest.approx(rows["size"].mean(), rel=1e-3)
        assert float(size.siblings) == pytest.approx(table[encoder.leaf_ != ball]["size"].mean(), rel=1e-3)
    assert "siblings" in str(encoder.describe((1,)))
    assert encoder.describe("all").differences == ()
    with pytest.raises(VpunnError, match="no node is labelled '7'"):
        encoder.describe("7")


# ---- difficult tables --------------------------------------------------------------------------------------------------


def test_flat_columns_never_matter():
    table = mixed().assign(constant=3.3, empty=np.nan, same="x")
    encoder = LatentTreeEncoder().fit(table)
    assert set(encoder.table_.flat) == {"constant", "empty", "same"}
    plain = LatentTreeEncoder().fit(mixed())
    np.testing.assert_array_equal(encoder.leaf_, plain.leaf_)
    typical = encoder.inverse_transform(encoder.transform(table))
    assert typical["empty"].isna().all()
    assert (typical["constant"] == 3.3).all()


def test_missing_unseen_and_mixed_values():
    table = mixed()
    table.loc[::7, "size"] = np.nan
    table.loc[::5, "colour"] = None
    encoder = LatentTreeEncoder().fit(table)
    np.testing.assert_array_equal(encoder.apply(table), encoder.leaf_)
    strange = table.head(3).assign(colour="ultraviolet")
    unknown = table.head(3).assign(colour=None)
    np.testing.assert_array_equal(encoder.transform(strange), encoder.transform(unknown))


def test_infinite_values_name_the_column_and_row():
    table = mixed()
    table.loc[4, "size"] = np.inf
    with pytest.raises(TableError, match="column 'size' holds an infinite value in row 4"):
        LatentTreeEncoder().fit(table)
    encoder = LatentTreeEncoder().fit(mixed())
    with pytest.raises(TableError, match="row 4"):
        encoder.transform(table)


def test_text_in_a_numeric_column_is_named():
    encoder = LatentTreeEncoder().fit(mixed())
    table = mixed().astype({"size": object})
    table.loc[2, "size"] = "large"
    with pytest.raises(TableError, match="'size' was read as numbers but holds 'large'"):
        encoder.transform(table)


def test_table_coder_round_trip_and_equal_weights():
    table = mixed()
    coder = TableCoder().fit(table)
    pd.testing.assert_frame_equal(coder.join(*coder.split(table)), table, check_dtype=False)
    scaled = coder.matrix(table)
    assert scaled.var(axis=0).sum() == pytest.approx(len(table.columns))
    with pytest.raises(TableError, match="names no column 'sise'"):
        TableCoder(["sise"]).fit(table)
    with pytest.raises(TableError, match="dates"):
        TableCoder().fit(table.assign(day=pd.Timestamp("2020-01-01")))


def test_wrong_parameters_are_one_sentence():
    rows = blobs(10)
    for settings_, words in (
        ({"method": "average"}, "one of ward"),
        ({"output": "bits"}, "one of digits"),
        ({"p": 2}, "p ≥ 3"),
        ({"nodes_per_level": [5, 3]}, "never fall"),
        ({"method": "kmeans", "nodes_per_level": [2]}, "give p and K"),
    ):
        with pytest.raises(VpunnError, match=words):
            LatentTreeEncoder(**settings_).fit(rows)


@pytest.mark.parametrize("method", ["ward", "two-stage", "kmeans"])
def test_a_table_without_any_difference_is_one_ball(method):
    for table in (np.ones((5, 2)), pd.DataFrame({"a": [np.nan] * 5, "b": "x"})):
        encoder = LatentTreeEncoder(method, n_prototypes=3, random_state=0).fit(table)
        assert encoder.tree_.n_nodes == 1
        assert encoder.transform(table).shape == (5, 0)
        assert len(encoder.get_feature_names_out()) == 0


def test_pandas_output_and_column_checks():
    table = mixed()
    encoder = LatentTreeEncoder(K=3).set_output(transform="pandas").fit(table)
    assert list(encoder.transform(table).columns) == ["digit1", "digit2", "digit3"]
    with pytest.raises(ValueError, match="feature names"):
        encoder.transform(table.rename(columns={"size": "length"}))
    with pytest.raises(VpunnError, match="0 rows"):
        encoder.transform(table.head(0))


@pytest.mark.parametrize("method", ["ward", "kmeans"])
def test_a_row_far_outside_still_finds_the_ball_on_its_side(method):
    rows = np.concatenate([np.linspace(-2, -1, 20), np.linspace(1, 2, 20)])[:, None]
    encoder = LatentTreeEncoder(method, p=3, K=3, random_state=0).fit(rows)
    near, far = encoder.transform([[-2.0], [2.0]]), encoder.transform([[-1e300], [1e300]])
    assert (near[:, 0] == far[:, 0]).all()


def test_repeated_column_names_and_fractions_are_one_sentence():
    twice = pd.DataFrame(blobs(20, 2), columns=["a", "a"])
    with pytest.raises(VpunnError, match="'a' occurs more than once"):
        LatentTreeEncoder().fit(twice)
    for wrong in ({"p": 3.5}, {"K": "3"}, {"nodes_per_level": [2.5]}, {"nodes_per_level": "5,20"}):
        with pytest.raises(VpunnError, match="whole number"):
            LatentTreeEncoder(**wrong).fit(blobs(20))
    for cell in ([1], {1: 2}, np.ones(2)):
        with pytest.raises(VpunnError, match="unpack the column"):
            LatentTreeEncoder().fit(pd.DataFrame({"x": [cell] * 5, "y": range(5)}))
