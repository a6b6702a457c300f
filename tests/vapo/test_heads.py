"""Digit heads: gradients by finite differences, closed forms, weightings, ceilings, separability, the leak."""

from __future__ import annotations

import heapq
from collections import Counter
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import trees
from vpunn.errors import VpunnError
from vpunn.paper.ceilings import ceilings, leaky_paper_rule, separability
from vpunn.tree import Tree
from vpunn.vapo import DenseMSEHead, DigitHeads, QuadraticHeads, SoftmaxHeads
from vpunn.vapo import _kernels as _head_kernels
from vpunn.vapo.heads import Layout, check_probabilities
from vpunn.vapo.losses import bernoulli_loss, margin_loss, ordinal_loss, slot_weights, two_logit_loss

FACTORISATIONS = ("node", "markov", "depth")
grown = trees(30).filter(lambda tree: tree.n_nodes > 1)


def leaf_digits(tree: Tree) -> list[list[int]]:
    return [tree.digit[tree.ancestors(int(leaf))[1:]].tolist() for leaf in tree.leaves]


def numeric(function, x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    out = np.empty(len(x))
    for i in range(len(x)):
        high, low = x.copy(), x.copy()
        high[i] += step
        low[i] -= step
        out[i] = (function(high) - function(low)) / (2 * step)
    return out


@given(grown, st.sampled_from(FACTORISATIONS))
def test_layout_groups_the_edges_it_should(tree: Tree, factorisation: str) -> None:
    layout = Layout(tree, factorisation)
    key = {
        "node": lambda v: (int(tree.parent[v]),),
        "markov": lambda v: (int(tree.depth[tree.parent[v]]), int(tree.digit[tree.parent[v]])),
        "depth": lambda v: (int(tree.depth[tree.parent[v]]),),
    }[factorisation]
    for u, v in product(range(1, tree.n_nodes), repeat=2):
        same_context = layout.context[layout.slot[u]] == layout.context[layout.slot[v]]
        assert same_context == (key(u) == key(v))
        assert (layout.slot[u] == layout.slot[v]) == (key(u) == key(v) and tree.digit[u] == tree.digit[v])
    for s in range(layout.n_slots):
        assert layout.start[layout.context[s]] <= s < layout.start[layout.context[s] + 1]


@settings(max_examples=40)
@given(
    grown,
    st.sampled_from(FACTORISATIONS),
    st.sampled_from(["none", "inverse-sqrt", "huffman"]),
    st.sampled_from([0.0, 0.7]),
    st.sampled_from([SoftmaxHeads, QuadraticHeads]),
    st.integers(0, 99),
)
def test_gradients_match_finite_differences(tree, factorisation, weighting, margin, kind, seed) -> None:
    rng = np.random.default_rng(seed)
    items = rng.random(tree.n_nodes) + 0.1
    heads = kind(tree, factorisation, items=items, weighting=weighting, margin=margin)
    theta = heads.initial() + rng.normal(size=heads.n_parameters)
    np.testing.assert_allclose(heads.gradient(theta), numeric(heads.loss, theta), rtol=1e-4, atol=1e-7)


@settings(max_examples=30)
@given(grown, st.sampled_from(FACTORISATIONS), st.integers(0, 99))
def test_other_heads_gradients_and_optima(tree, factorisation, seed) -> None:
    rng = np.random.default_rng(seed)
    for heads in (
        DenseMSEHead(tree, factorisation),
        DigitHeads(tree, factorisation, loss="squared"),
        DigitHeads(tree, factorisation, loss="ordinal"),
    ):
        theta = rng.normal(2, 1, heads.n_parameters)
        np.testing.assert_allclose(heads.gradient(theta), numeric(heads.loss, theta), rtol=1e-4, atol=1e-7)
    dense = DenseMSEHead(tree, factorisation)
    assert np.abs(dense.gradient(dense.closed_form())).max() < 1e-12
    assert dense.loss(dense.closed_form()) <= dense.loss(theta)


@given(st.floats(-4, 6), st.floats(-4, 6), st.integers(1, 5), st.booleans(), st.floats(0.1, 1.0))
def test_the_papers_two_logit_forms_have_these_gradients(v, other, t, right, tau) -> None:
    _, by_v, by_other = two_logit_loss(v, other, t, tau)
    assert by_v == pytest.approx(numeric(lambda x: two_logit_loss(x[0], other, t, tau)[0], np.array([v]))[0], abs=1e-4)
    assert by_other == pytest.approx(
        numeric(lambda x: two_logit_loss(v, x[0], t, tau)[0], np.array([other]))[0], abs=1e-4
    )
    slope = numeric(lambda x: bernoulli_loss(x[0], t, right, tau)[0], np.array([v]))[0]
    assert bernoulli_loss(v, t, right, tau)[1] == pytest.approx(slope, abs=1e-4)
    digits = np.arange(1, 6)
    slope = numeric(lambda x: ordinal_loss(x[0], digits, t, tau)[0], np.array([v]))[0]
    assert ordinal_loss(v, digits, t, tau)[1] == pytest.approx(slope, abs=1e-4)


def test_the_papers_printed_gradient_has_the_wrong_sign() -> None:
    v, psi, tau = 2.3, 1.0, 0.5  # AUDIT E-41

    def paper(right: bool) -> float:
        return 2 * tau * (v - psi) * (1 / (1 + np.exp(-((v - psi) ** 2) / tau)) - right)

    assert bernoulli_loss(v, psi, True)[1] == pytest.approx(0.909, abs=1e-3)
    assert paper(True) == pytest.approx(-0.043, abs=1e-3)
    assert bernoulli_loss(v, psi, False)[1] == pytest.approx(-0.391, abs=1e-3)
    assert paper(False) == pytest.approx(1.257, abs=1e-3)


@settings(max_examples=40)
@given(grown, st.sampled_from(FACTORISATIONS), st.sampled_from(["none", "inverse-sqrt", "huffman"]), st.integers(0, 99))
def test_frequencies_are_the_optimum(tree, factorisation, weighting, seed) -> None:
    rng = np.random.default_rng(seed)
    for kind in (SoftmaxHeads, QuadraticHeads):
        heads = kind(tree, factorisation, weighting=weighting)
        best = heads.closed_form()
        assert heads.loss(best) == pytest.approx(heads.optimum(), abs=1e-9)
        for _ in range(5):
            assert heads.loss(best + rng.normal(size=len(best))) >= heads.optimum() - 1e-9


@settings(max_examples=40)
@given(grown, st.sampled_from(FACTORISATIONS), st.integers(0, 99))
def test_probabilities_form_a_law_on_the_leaves(tree, factorisation, seed) -> None:
    heads = SoftmaxHeads(tree, factorisation)
    theta = np.random.default_rng(seed).normal(size=heads.n_parameters)
    ball = check_probabilities(tree, heads.node_probabilities(theta))
    assert ball[tree.leaves].sum() == pytest.approx(1)
    assert heads.support_mass(theta) <= 1 + 1e-9
    if factorisation == "node":
        assert heads.support_mass(theta) == pytest.approx(1)
        again = heads.from_probabilities(ball)
        np.testing.assert_allclose(heads.node_probabilities(again), ball, atol=1e-12)
    node = SoftmaxHeads(tree)
    np.testing.assert_allclose(node.node_probabilities(node.closed_form()), tree.leaf_counts / tree.n_leaves)


@settings(max_examples=30)
@given(grown, st.booleans())
def test_ceilings_against_brute_force(tree: Tree, padding: bool) -> None:
    rows = leaf_digits(tree)
    K, judged = tree.max_depth, 0
    tables = [Counter(), Counter(), Counter()]
    for row in rows:
        digits = [d - 1 for d in row] + [0] * (K - len(row)) if padding else row
        for k, d in enumerate(digits):
            before = tuple(digits[:k])
            judged += 1
            for table, context in zip(tables, (k, (k, before[-1] if before else 0), (k, before)), strict=True):
                table[context, d] += 1
    expected = []
    for table in tables:
        best: dict = {}
        for (context, _), n in table.items():
            best[context] = max(best.get(context, 0), n)
        expected.append(sum(best.values()) / judged)
    found = ceilings(tree, padding=padding)
    assert [found.nothing, found.parent_digit, found.prefix] == pytest.approx(expected)
    assert found.nothing <= found.parent_digit + 1e-12
    assert found.parent_digit <= found.prefix + 1e-12


@settings(max_examples=40)
@given(grown)
def test_separability_against_brute_force(tree: Tree) -> None:
    groups: dict = {}
    for v in range(tree.n_nodes):
        law = tuple(tree.leaf_counts[c] / tree.leaf_counts[v] for c in tree.children(v))
        groups.setdefault((int(tree.depth[v]), int(tree.digit[v])), []).append(law)
    same_branching = sum(len(laws) for laws in groups.values() if len({len(law) for law in laws}) == 1)
    same_law = sum(len(laws) for laws in groups.values() if len(set(laws)) == 1)
    found = separability(tree)
    assert found["same_branching"] == pytest.approx(same_branching / tree.n_nodes)
    assert found["same_law"] == pytest.approx(same_law / tree.n_nodes)
    stop, step = set(), set()
    for row in leaf_digits(tree):
        states = list(enumerate([0, *row]))
        stop.add(states[-1])
        step.update(pairwise(states))

    def paths(state) -> int:
        return (state in stop) + sum(paths(b) for a, b in step if a == state)

    assert found["chain_paths"] == paths((0, 0))
    if found["same_law"] == 1:
        markov, node = SoftmaxHeads(tree, "markov"), SoftmaxHeads(tree)
        assert markov.optimum() == pytest.approx(node.optimum())


def test_markov_heads_fail_at_the_predicted_rate_on_an_adversarial_tree() -> None:
    # AUDIT L7: two nodes with the same depth and sibling index but opposite child laws (3:1 and 1:3 leaves).
    parents = [-1, 0, 0, 1, 2, 3, 3, 4, 4, *[5] * 3, *[6], *[7], *[8] * 3]
    tree = Tree.from_parents(parents)
    node, markov = SoftmaxHeads(tree), SoftmaxHeads(tree, "markov")
    assert separability(tree)["same_law"] < 1
    at_two = (markov.layout.position == 2)[markov.layout.context]
    q = np.exp(markov.log_probabilities(markov.closed_form()))[at_two]
    np.testing.assert_allclose(q, 0.5)
    kl = 0.75 * np.log(0.75 / 0.5) + 0.25 * np.log(0.25 / 0.5)
    last = (markov.layout.position == 3)[markov.layout.context]
    lost_below = -(markov.mass[last] * markov.log_probabilities(markov.closed_form())[last]).sum() / 8
    lost_below -= (
        -(
            node.mass[(node.layout.position == 3)[node.layout.context]]
            * node.log_probabilities(node.closed_form())[(node.layout.position == 3)[node.layout.context]]
        ).sum()
        / 8
    )
    assert markov.optimum() - node.optimum() == pytest.approx(kl + lost_below)


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=9), min_size=1, max_size=5))
def test_huffman_lengths_are_optimal(groups: list[list[int]]) -> None:
    counts = np.array([c for group in groups for c in group], float)
    start = np.cumsum([0, *map(len, groups)])
    lengths = _head_kernels.huffman_lengths(start, counts)
    for group, low in zip(groups, start, strict=False):
        found = lengths[low : low + len(group)]
        heap, cost = list(group), 0
        heapq.heapify(heap)
        while len(heap) > 1:  # the textbook algorithm: total cost is the sum of all merged weights
            merged = heapq.heappop(heap) + heapq.heappop(heap)
            cost += merged
            heapq.heappush(heap, merged)
        assert (found * np.array(group)).sum() == cost
        assert len(group) == 1 or sum(2.0**-x for x in found) == 1


def test_weights_keep_the_scale_and_break_calibration() -> None:
    counts, start = np.array([90.0, 9, 1, 50, 50]), np.array([0, 3, 5])
    for name in ("none", "inverse-sqrt", "huffman"):
        w = slot_weights(name, counts, start)
        assert (w * counts).sum() == pytest.approx(counts.sum())
    tree = Tree.from_parents([-1, 0, 0, *[1] * 9, 2])
    heads = SoftmaxHeads(tree, weighting="inverse-sqrt")
    share = heads.node_probabilities(heads.closed_form())[[1, 11]]
    np.testing.assert_allclose(share, [0.75, 0.25])  # √9 : √1 instead of 9 : 1


def test_margin_loss_by_hand() -> None:
    scores, counts = np.array([2.0, 1.5, 0.0, 7.0]), np.array([1.0, 2, 4, 8])
    start, context = np.array([0, 3, 4]), np.array([0, 0, 0, 1])
    total, gradient = margin_loss(scores, counts, start, context, margin=1.0)
    assert total == 1 * 0.5 + 2 * 1.5 + 4 * 3.0
    assert gradient.tolist() == [-1 + 2 + 4, 1 - 2, -4, 0]


@settings(max_examples=30)
@given(grown, st.integers(0, 9))
def test_the_leak_answers_everything_and_the_honest_query_does_not(tree: Tree, seed: int) -> None:
    shown = leaky_paper_rule(tree, seed=seed)
    assert shown["leaky"] == {"digit": 1.0, "root": 1.0, "path": 1.0}
    assert shown["honest"]["digit"] <= ceilings(tree).parent_digit + 1e-12
    assert shown["honest"]["path"] <= 1 / tree.n_leaves + 1e-12


def test_accuracies_of_a_small_tree() -> None:
    tree = Tree.from_parents([-1, 0, 0, 1, 1, 1])
    heads = SoftmaxHeads(tree)
    assert heads.accuracies(heads.closed_form()) == {"digit": 4 / 7, "root": 0.75, "leaf": 0.25}
    assert DenseMSEHead(tree).accuracies(DenseMSEHead(tree).closed_form()) == {"digit": 4 / 7, "root": 0.75}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: SoftmaxHeads(t, "bigram"), "factorisation='bigram' is unknown"),
        (lambda t: SoftmaxHeads(t, weighting="sqrt"), "weighting='sqrt' is unknown"),
        (lambda t: SoftmaxHeads(t, margin=-1), "margin=-1"),
        (lambda t: SoftmaxHeads(t, items=[1]), "one weight per node"),
        (lambda t: SoftmaxHeads(t, items=[0, 1, -1]), "≥ 0, got -1.0"),
        (lambda t: SoftmaxHeads(t, items=[1, 0, 0]), "no item lies below the root"),
        (lambda t: SoftmaxHeads(t).loss(np.zeros(5)), "2 parameters, got an array of float64 of shape"),
        (lambda t: SoftmaxHeads(t).from_probabilities([1, 0.5, 0.6]), "do not add up at node 0"),
        (lambda t: SoftmaxHeads(t).from_probabilities([1, -0.5, 1.5]), "[0, 1], got -0.5, 1.5"),
        (lambda t: SoftmaxHeads(t, "depth").from_probabilities([1, 0.5, 0.5]), "factorisation='node'"),
        (lambda t: SoftmaxHeads(t).from_probabilities([1, 1]), "one probability per node"),
        (lambda t: DigitHeads(t, loss="hinge"), "loss='hinge' is unknown"),
        (lambda t: DigitHeads(t, p=2), "p=2 is too small"),
        (lambda t: DigitHeads(t).check_digits([3]), "0..2, got 3"),
        (lambda t: DigitHeads(t).check_digits([0.5]), "integer digits"),
        (lambda t: DigitHeads(t).gradient(np.zeros(1)), "no useful gradient"),
        (lambda t: leaky_paper_rule(t, start="truth"), "start='truth' is unknown"),
        (lambda t: Layout(t.subtree(1)), "at least one edge"),
    ],
)
def test_bad_input_is_one_clear_sentence(call, words: str) -> None:
    with pytest.raises(VpunnError) as error:
        call(Tree.from_parents([-1, 0, 0]))
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_infinite_probabilities_are_no_law() -> None:
    with pytest.raises(VpunnError, match=r"must lie in \[0, 1\], got inf"):
        check_probabilities(Tree.from_parents([-1, 0, 0]), [np.inf] * 3)


@pytest.mark.parametrize("head", [SoftmaxHeads, QuadraticHeads, DenseMSEHead, DigitHeads])
def test_parameters_of_the_wrong_length_are_refused(head: Any) -> None:
    heads = head(Tree.from_parents([-1, 0, 0, 1, 1]))
    for read in (heads.loss, heads.accuracies):
        for n in (heads.n_parameters - 1, heads.n_parameters + 1):
            with pytest.raises(VpunnError, match=f"has {heads.n_parameters} parameters"):
                read(np.ones(n, int))


def test_digit_heads_name_one_leaf_or_none() -> None:
    heads = DigitHeads(Tree.from_parents([-1, 0, 0, 1, 1, 1]))  # contexts: the root, node 1
    assert heads.named_leaf(np.array([1, 3])) == 4
    assert heads.named_leaf(np.array([2, 0])) == 5
    assert heads.named_leaf(np.array([1, 0])) is None
    assert heads.accuracies(np.array([1, 3])) == {"digit": 4 / 7, "root": 0.75, "leaf": 0.25}
    assert heads.accuracies(np.array([1, 0]))["leaf"] == 0


def test_tau_and_ceilings_refuse_what_has_no_answer() -> None:
    with pytest.raises(VpunnError, match="tau=0"):
        QuadraticHeads(Tree.from_parents([-1, 0, 0]), tau=0)
    with pytest.raises(VpunnError, match="single node"):
        ceilings(Tree.from_parents([-1]), padding=True)
