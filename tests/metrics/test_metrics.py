"""Metrics against slow, obvious twins that work on label paths and loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import log_loss

from strategies import trees
from vpunn import metrics as m
from vpunn.errors import VpunnError
from vpunn.tree import Tree


@st.composite
def predictions(draw):
    """A random tree of 1…25 nodes and 1…12 (true, predicted) pairs of its nodes."""
    tree = draw(trees(25))
    node = st.integers(0, tree.n_nodes - 1)
    true, predicted = np.array(draw(st.lists(st.tuples(node, node), min_size=1, max_size=12))).T
    return tree, true, predicted


def chain(tree, node):
    return tree.ancestors(int(node)).tolist()


def right_at(tree, t, q, k):
    """The two paths cut at depth k end in the same node."""
    return chain(tree, t)[: k + 1] == chain(tree, q)[: k + 1]


@given(predictions())
@settings(max_examples=150, deadline=None)
def test_node_metrics_equal_their_twins(case):
    tree, true, predicted = case
    pairs = list(zip(true, predicted, strict=True))
    top = max(tree.max_depth, 1)
    prefixes = m.prefix_accuracy(tree, true, predicted)
    assert prefixes.tolist() == [np.mean([right_at(tree, t, q, k) for t, q in pairs]) for k in range(1, top + 1)]
    assert (np.diff(prefixes) <= 0).all()
    assert m.leaf_accuracy(tree, true, predicted) == prefixes[-1]
    assert m.root_accuracy(tree, true, predicted) == prefixes[0] >= prefixes[-1]

    reached = m.prefix_accuracy(tree, true, predicted, reached_only=True)
    for k in range(1, top + 1):
        rows = [right_at(tree, t, q, k) for t, q in pairs if tree.depth[t] >= k]
        assert reached[k - 1] == np.mean(rows) if rows else np.isnan(reached[k - 1])

    sets = [(set(chain(tree, t)[1:]), set(chain(tree, q)[1:])) for t, q in pairs]
    shared = sum(len(a & b) for a, b in sets)
    size_t, size_q = sum(len(a) for a, _ in sets), sum(len(b) for _, b in sets)
    scores = m.hierarchical_scores(tree, true, predicted)
    same = float(all(t == q for t, q in pairs))
    assert scores.precision == pytest.approx(shared / size_q if size_q else same)
    assert scores.recall == pytest.approx(shared / size_t if size_t else same)
    assert m.mean_lca_depth(tree, true, predicted) == pytest.approx(shared / len(pairs))

    macro = m.hierarchical_scores(tree, true, predicted, average="macro")
    assert macro.recall == pytest.approx(np.mean([len(a & b) / len(a) if a else float(a == b) for a, b in sets]))
    assert macro.f1 == pytest.approx(np.mean([2 * len(a & b) / (len(a) + len(b)) if a or b else 1 for a, b in sets]))
    similar = [2 * (len(a & b) + 1) / (len(a) + len(b) + 2) for a, b in sets]
    np.testing.assert_allclose(m.wu_palmer(tree, true, predicted), similar)


@given(predictions(), st.integers(2, 7), st.data())
@settings(max_examples=100, deadline=None)
def test_ultrametric_loss_is_a_sum_over_depths_and_the_padic_distance(case, p, data):
    tree, true, predicted = case
    top = max(tree.max_depth, 1)
    weights = np.array(data.draw(st.lists(st.floats(0, 10), min_size=top, max_size=top)))
    slow = [
        sum(w for k, w in enumerate(weights, 1) if not right_at(tree, t, q, k))
        for t, q in zip(true, predicted, strict=True)
    ]
    np.testing.assert_allclose(m.ultrametric_loss(tree, true, predicted, weights=weights), slow, atol=1e-12)
    distance = np.where(true == predicted, 0.0, float(p) ** -tree.lca_depth(true, predicted))
    np.testing.assert_allclose(m.ultrametric_loss(tree, true, predicted, p=p), distance, atol=1e-12)


@given(predictions(), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_bayes_nodes_minimises_the_expected_loss_over_all_nodes(case, seed):
    tree = case[0]
    rng = np.random.default_rng(seed)
    mass = rng.dirichlet(np.full(tree.n_nodes, 0.3), size=4)  # probability that the truth is exactly this node
    balls = tree.subtree_sum(mass.T).T
    weights = rng.uniform(size=max(tree.max_depth, 1))
    best, loss = m.bayes_nodes(tree, balls, weights=weights)
    everything = np.arange(tree.n_nodes)
    pairwise = [m.ultrametric_loss(tree, everything, everything * 0 + v, weights=weights) for v in everything]
    expected = mass @ np.stack(pairwise).T
    np.testing.assert_allclose(loss, expected.min(axis=1), atol=1e-9)
    np.testing.assert_allclose(expected[np.arange(4), best], expected.min(axis=1), atol=1e-9)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60), st.integers(1, 20))
@settings(max_examples=150, deadline=None)
def test_calibration_error_equals_a_loop_over_bins(items, bins):
    confidence, correct = map(np.array, zip(*items, strict=True))
    ece = sum(abs(sum(r - c for c, r in items if min(int(c * bins), bins - 1) == b)) / len(items) for b in range(bins))
    assert m.calibration_error(confidence, correct, bins=bins) == pytest.approx(ece, abs=1e-12)
    diagram = m.reliability(confidence, correct, bins=bins, strategy="quantile")
    assert diagram.n_items.sum() == len(items)
    assert len(diagram.n_items) <= bins
    assert (np.diff(diagram.confidence) >= 0).all()
    assert (diagram.n_items @ diagram.accuracy) == pytest.approx(correct.sum())
    # the error in the large is a lower bound for any binning
    assert diagram.ece >= abs(correct.mean() - confidence.mean()) - 1e-12


def test_quantile_bins_have_equal_mass_without_ties_and_never_split_ties():
    rng = np.random.default_rng(0)
    diagram = m.reliability(0.99 + rng.uniform(size=1500) / 100, rng.uniform(size=1500) < 0.995, strategy="quantile")
    assert set(diagram.n_items) == {100}
    assert len(m.reliability(0.99 + rng.uniform(size=1500) / 100, np.ones(1500)).n_items) == 1  # what equal width sees
    tied = m.reliability([0.3] * 50 + [0.6] * 50, [0, 1] * 50, strategy="quantile")
    assert tied.n_items.tolist() == [50, 50]


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_interval_covers_the_true_error_and_zero_when_calibrated(strategy):
    rng = np.random.default_rng(3)
    covered = {"honest": 0, "shifted": 0}
    for trial in range(60):
        confidence = rng.uniform(0.3, 1.0, 4000)
        for name, shift in (("honest", 0.0), ("shifted", 0.1)):
            correct = rng.uniform(size=4000) < confidence - shift
            found = m.calibration_error_interval(confidence, correct, strategy=strategy, n_bootstrap=200, seed=trial)
            assert found.low <= found.value
            covered[name] += found.low <= shift <= found.high
            if not shift:
                assert abs(found.value - found.noise) < 0.02
    assert covered["honest"] >= 53
    assert covered["shifted"] >= 53


def test_interval_agrees_with_resampling_the_items_themselves():
    rng = np.random.default_rng(1)
    confidence = rng.beta(4, 2, 3000)
    correct = rng.uniform(size=3000) < confidence**1.5
    fast = m.calibration_error_interval(confidence, correct, n_bootstrap=2000)
    again = []
    for _ in range(500):
        rows = rng.integers(3000, size=3000)
        again.append(m.calibration_error(confidence[rows], correct[rows]))
    low, high = np.quantile(again, [0.025, 0.975])
    assert fast.low == pytest.approx(2 * fast.value - high, abs=0.004)
    assert fast.high == pytest.approx(2 * fast.value - low, abs=0.004)


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(1, 30))
@settings(max_examples=80, deadline=None)
def test_brier_and_likelihood_equal_loops_and_the_bound_holds(seed, classes, n):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.ones(classes), size=n)
    target = rng.integers(classes, size=n)
    slow = np.mean([sum((proba[i, c] - (c == target[i])) ** 2 for c in range(classes)) for i in range(n)])
    brier = m.brier_score(proba, target)
    assert brier.score == pytest.approx(slow)
    error = np.mean(proba.argmax(axis=1) != target)
    assert brier.lower_bound == pytest.approx(error / 2)
    assert brier.score >= brier.lower_bound
    assert m.brier_score(sparse.csr_array(proba), target) == pytest.approx(brier)
    loss = log_loss(target, proba, labels=np.arange(classes))
    assert m.negative_log_likelihood(proba, target) == pytest.approx(loss)
    assert m.negative_log_likelihood(sparse.csr_array(proba), target) == pytest.approx(loss)


def test_likelihood_of_an_impossible_event():
    assert m.negative_log_likelihood([[1.0, 0.0]], [1]) == np.inf
    assert m.negative_log_likelihood([[1.0, 0.0]], [1], floor=1e-3) == pytest.approx(-np.log(1e-3))


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.4, 0.5]), st.floats(0, 3)), min_size=1, max_size=40), st.randoms())
@settings(max_examples=100, deadline=None)
def test_risk_coverage_is_the_mean_loss_above_each_threshold(items, shuffler):
    confidence, loss = map(np.array, zip(*items, strict=True))
    curve = m.risk_coverage(confidence, loss)
    for coverage, risk, threshold in zip(curve.coverage, curve.risk, curve.threshold, strict=True):
        assert coverage == pytest.approx(np.mean(confidence >= threshold))
        assert risk == pytest.approx(loss[confidence >= threshold].mean())
    assert curve.coverage[-1] == 1
    at_own = [loss[confidence >= c].mean() for c in confidence]
    assert curve.area == pytest.approx(np.mean(at_own))
    shuffler.shuffle(items)
    again = m.risk_coverage(*map(np.array, zip(*items, strict=True)))
    np.testing.assert_allclose(again.risk, curve.risk)


def test_reliability_by_depth_asks_each_depth_its_own_question():
    tree = Tree.from_parents([-1, 0, 0, 1, 1])  # node 1 has the children 2 and 3 in preorder; node 4 is a leaf
    rng = np.random.default_rng(0)
    n = 4000
    leaf_mass = rng.dirichlet([2, 2, 2], size=n)  # leaves 2, 3, 4
    truth = np.array([2, 3, 4])[(rng.uniform(size=(n, 1)) > np.cumsum(leaf_mass, axis=1)).sum(axis=1)]
    mass = np.zeros((n, 5))
    mass[:, [2, 3, 4]] = leaf_mass
    balls = tree.subtree_sum(mass.T).T
    predicted = np.array([2, 3, 4])[leaf_mass.argmax(axis=1)]
    paths = m.path_probabilities(tree, predicted, balls)
    np.testing.assert_array_equal(np.isnan(paths[:, 1]), predicted == 4)
    np.testing.assert_allclose(m.path_probabilities(tree, predicted, sparse.csr_array(balls)), paths)
    diagrams = m.reliability_by_depth(tree, truth, predicted, paths)
    assert set(diagrams) == {1, 2}
    assert diagrams[1].n_items.sum() == n
    assert diagrams[2].n_items.sum() == np.sum(predicted != 4)
    assert diagrams[1].ece < 0.03
    assert diagrams[2].ece < 0.03
    wrong = m.reliability_by_depth(tree, truth, predicted, paths**3)
    assert wrong[1].ece > 0.1


def test_summary_holds_every_number():
    tree = Tree.from_parents([-1, 0, 0, 1, 1])
    summary = m.hierarchical_summary(tree, [2, 3], [2, 4])
    assert summary["n"] == 2
    assert summary["leaf_accuracy"] == summary["root_accuracy"] == 0.5
    assert all(np.isfinite(value).all() for value in summary.values())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: m.leaf_accuracy(t, [1, 2], [1]), "as many predicted"),
        (lambda t: m.leaf_accuracy(t, [], []), "at least one"),
        (lambda t: m.leaf_accuracy(t, [1], [9]), "outside this tree"),
        (lambda t: m.leaf_accuracy(t, ["a"], ["b"]), "tree.index"),
        (lambda t: m.hierarchical_scores(t, [1], [1], average="both"), "macro"),  # type: ignore[arg-type]
        (lambda t: m.ultrametric_loss(t, [1], [1], weights=[1, 2, 3]), "each depth 1…2"),
        (lambda t: m.ultrametric_loss(t, [1], [1], p=1), "larger than 1"),
        (lambda t: m.bayes_nodes(t, [[1.0]]), "one column per node"),
        (lambda t: m.calibration_error([1.5], [1]), "pass probabilities"),
        (lambda t: m.calibration_error([0.5], [2]), "0 or 1"),
        (lambda t: m.calibration_error([np.nan], [1]), "finite"),
        (lambda t: m.calibration_error([0.5, 0.5], [1]), "equally long"),
        (lambda t: m.calibration_error([0.5], [1], strategy="mass"), "quantile"),  # type: ignore[arg-type]
        (lambda t: m.calibration_error([0.5], [1], bins=0), "whole number"),
        (lambda t: m.brier_score([[0.5, 0.5]], [2]), "column numbers"),
        (lambda t: m.brier_score([[0.5, -0.5]], [0]), "lie in"),
        (lambda t: m.brier_score([[0.5, 0.5]], [0, 1]), "one row"),
        (lambda t: m.path_probabilities(t, [1], [[1.0]]), "shape"),
        (lambda t: m.reliability_by_depth(t, [1], [1], [0.3]), "one row per item"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(VpunnError, match=words):
        call(Tree.from_parents([-1, 0, 0, 1, 1]))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: m.brier_score([[0.9, 0.9]], [0]), "more than 1; they do in rows 0"),
        (lambda: m.calibration_error([0.5], [1], bins=1.5), "whole number"),
        (lambda: m.calibration_error(["high"], [1]), "list of numbers"),
        (lambda: m.calibration_error_interval([0.5], [1], level=2), "level=2"),
        (lambda: m.calibration_error_interval([0.5], [1], n_bootstrap=0), "n_bootstrap=0"),
        (lambda: m.bayes_nodes(Tree.from_parents([-1, 0]), [[np.nan, 1.0]]), "not in rows 0"),
    ],
)
def test_impossible_questions_get_one_sentence(call, words: str) -> None:
    with pytest.raises(VpunnError) as error:
        call()
    assert words in str(error.value)
