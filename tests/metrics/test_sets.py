"""Scores of answer sets against scikit-learn, brute force and the definitions written out row by row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score, precision_recall_fscore_support

from vpunn import Tree
from vpunn.errors import VpunnError
from vpunn.metrics import sets

TREE = Tree.from_edges([("r", "a"), ("r", "b"), ("a", "c"), ("b", "c"), ("b", "d"), ("d", "e")])


@st.composite
def tables(draw, labels: int = 5):
    n = draw(st.integers(1, 6))
    rows = st.lists(st.lists(st.integers(0, 1), min_size=labels, max_size=labels), min_size=n, max_size=n)
    scores = st.lists(
        st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 0.93, 1.0]), min_size=labels, max_size=labels),
        min_size=n, max_size=n,
    )  # fmt: skip
    return np.array(draw(rows)), np.array(draw(scores))


@given(tables())
def test_averages_agree_with_scikit_learn(pair):
    truth, scores = pair
    said = (scores >= 0.5).astype(int)
    for average in ("micro", "macro"):
        some = np.flatnonzero((truth + said).any(0)) if average == "macro" else np.arange(5)
        if not len(some):
            continue
        wanted = precision_recall_fscore_support(truth, said, labels=some, average=average, zero_division=0)
        assert np.allclose(sets.precision_recall(truth, said, average), wanted[:3])
    both = (truth + said).sum(1) == 0
    rows = [1.0 if e else f1_score(t, s, zero_division=0) for t, s, e in zip(truth, said, both, strict=True)]
    assert sets.example_f1(truth, said) == pytest.approx(np.mean(rows))
    assert sets.micro_f1(truth, said) == sets.precision_recall(truth, said).f1
    assert sets.macro_f1(truth, said) == sets.precision_recall(truth, said, "macro").f1


@given(tables())
def test_fmax_and_smin_by_their_definitions(pair):
    truth, scores = pair
    bits = np.array([0.0, 0.5, 1.0, 2.0, 3.0])
    best, least = 0.0, np.inf
    for t in np.round(np.arange(1, 101) / 100, 2):
        said = scores >= t
        ru = np.mean([(bits * (row > s)).sum() for row, s in zip(truth, said, strict=True)])
        mi = np.mean([(bits * (s > row)).sum() for row, s in zip(truth, said, strict=True)])
        least = min(least, np.sqrt(ru**2 + mi**2))
        precision = [(row & s).sum() / s.sum() for row, s in zip(truth, said, strict=True) if s.any()]
        recall = [(row & s).sum() / row.sum() for row, s in zip(truth, said, strict=True) if row.any()]
        if precision and recall and np.mean(precision) + np.mean(recall) > 0:
            pr, rc = np.mean(precision), np.mean(recall)
            best = max(best, 2 * pr * rc / (pr + rc))
    assert sets.f_max(truth, scores).value == pytest.approx(best)
    assert sets.s_min(truth, scores, bits).value == pytest.approx(least)


@given(tables(), st.integers(1, 5))
def test_precision_at_k(pair, k):
    truth, scores = pair
    top = [sorted(range(5), key=lambda j: (-row[j], j))[:k] for row in scores]
    assert sets.precision_at(truth, scores, k) == pytest.approx(
        np.mean([truth[i][row].mean() for i, row in enumerate(top)])
    )
    p = sets.propensities([1, 5, 20, 3, 0], 100)
    got = sum(truth[i][j] / p[j] for i, row in enumerate(top) for j in row)
    best = sum(sum(sorted((1 / p[truth[i] > 0]).tolist())[::-1][:k]) for i in range(len(truth)))
    found = sets.propensity_scored_precision_at(truth, scores, k, p)
    assert found == pytest.approx(got / best if best else 0.0) and 0 <= found <= 1 + 1e-12


def test_propensities_rise_with_the_number_of_rows():
    p = sets.propensities([0, 1, 10, 1000, 10**6], 14_146)
    assert (np.diff(p) > 0).all() and 0 < p[0] < 0.3 and p[-1] > 0.99
    n, a, b = 14_146, 0.55, 1.5
    c = (np.log(n) - 1) * (b + 1) ** a
    assert p[2] == pytest.approx(1 / (1 + c * np.exp(-a * np.log(10 + b))))


def test_ancestors_by_any_path_and_hierarchical_scores():
    at = {label: TREE.index(label) for label in "rabcde"}
    truth = sets.with_ancestors(TREE, sets.table_of(TREE, [[at["c"]], [at["e"]]]))
    said = sets.with_ancestors(TREE, sets.table_of(TREE, [[at["d"]], [at["d"]]]))
    assert {TREE.labels[j] for j in truth[0].indices} == {"a", "b", "c"}
    found = sets.precision_recall(truth, said)  # shared: b; b, d; said 2 + 2; true 3 + 3
    assert found == pytest.approx((3 / 4, 3 / 6, 0.6))
    assert sets.with_ancestors(TREE, truth, root=True).sum() == truth.sum() + 2


def test_information_content_is_given_all_parents():
    at = {label: TREE.index(label) for label in "rabcde"}
    rows = [["c"], ["c"], ["a"], ["b"], ["a", "b"], ["e"], ["d"], []]
    closed = sets.with_ancestors(TREE, sets.table_of(TREE, [[at[x] for x in row] for row in rows]))
    bits = sets.information_content(TREE, closed)
    assert bits[at["r"]] == 0
    assert bits[at["a"]] == pytest.approx(-np.log2(4 / 8))
    assert bits[at["c"]] == pytest.approx(-np.log2(2 / 3))  # three rows have both a and b
    assert bits[at["e"]] == pytest.approx(-np.log2(1 / 2))


def test_calibration_coverage_and_size():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=(400, 20))
    truth = rng.uniform(size=p.shape) < p
    honest, proud = sets.ball_calibration(truth, p), sets.ball_calibration(truth, np.sqrt(p))
    assert honest.value < 2 * honest.noise < 0.05 < proud.value
    assert sets.missed_share([[1, 1, 0], [0, 0, 0]], [[1, 0, 1], [1, 0, 0]]) == 0.25
    assert sets.set_size([[1, 0, 1], [1, 0, 0]]) == 1.5


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: sets.micro_f1([[1, 2]], [[1, 0]]), "must hold 0 and 1"),
        (lambda: sets.micro_f1([[1, 0]], [[1, 0, 0]]), "same shape"),
        (lambda: sets.f_max([[1, 0]], [[np.nan, 0]]), "finite"),
        (lambda: sets.precision_at([[1, 0]], [[0.5, 0]], 3), "from 1 to the number of labels, 2"),
        (lambda: sets.precision_recall([[1]], [[1]], "mean"), "average='mean'"),
        (lambda: sets.with_ancestors(TREE, [[1, 0]]), "one per node"),
        (lambda: sets.ball_calibration([[1, 0]], [[0.0, 0.001]]), "nothing to judge"),
        (lambda: sets.s_min([[1, 0]], [[0.5, 0]], [1.0]), "one finite number per label"),
    ],
)
def test_bad_tables_are_refused(call, said):
    with pytest.raises(VpunnError, match=said):
        call()


def test_gain_in_f_max_is_paired_and_matches_drawing_rows():
    rng = np.random.default_rng(4)
    truth = (rng.random((60, 12)) < 0.3).astype(float)
    good, poor = np.clip(truth * 0.5 + rng.random((60, 12)) * 0.5, 0, 1), rng.random((60, 12))
    low, high = sets.f_max_gain(truth, good, poor, draws=50)
    assert 0 < low < high
    counts = np.random.default_rng(0).multinomial(60, np.full(60, 1 / 60), size=50)
    picks = [np.repeat(np.arange(60), row) for row in counts]
    gains = [sets.f_max(truth[p], good[p]).value - sets.f_max(truth[p], poor[p]).value for p in picks]
    assert (low, high) == pytest.approx(np.quantile(gains, [0.025, 0.975]).tolist())
