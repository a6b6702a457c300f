"""HiPaN's probabilities: they sum to one, agree with products counted by hand, are calibrated by depth, and are saved."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vpunn
from strategies import random_tree, trees
from vpunn import HiPaN, Tree, VpunnError
from vpunn.paper.hybrid import paper_digits

TREE = Tree.from_parents([-1, 0, 0, 1, 1, 1, 3, 3, 2, 2], labels=list("abcdefghij"))


def by_hand(model: HiPaN, leaf: int, shown: list[int] | None) -> float:
    """The probability of one leaf, ball by ball, from the stored values alone."""
    tree, problem = model.tree, model.problem_
    root, over, good = problem.parts(model.theta_)
    contexts = {int(key): float(value) for key, value in zip(problem.context_key, over, strict=True)}
    slots = {int(key): float(value) for key, value in zip(problem.slot_key, good, strict=True)}
    tau, p = problem.tau, problem.p
    probability = 1.0
    chain = tree.ancestors(leaf).tolist()
    for k, (ball, child) in enumerate(pairwise(chain)):
        children = tree.children(ball).tolist()
        above = max(int(tree.digit[ball]) - 1, 0)
        index, n = children.index(child), len(children)
        other = contexts.get(k * p + above, 0.0)

        def value(c: int, k: int = k, above: int = above) -> float:
            return slots.get((k * p + c) * p + above, 0.0)

        if k == 0:
            scores = [float(root[c]) for c in range(n)]
        elif k <= problem.split_depth:
            scores = [-((other - c) ** 2) for c in range(n)]
        else:
            scores = [-tau * (value(c) - c) ** 2 for c in range(n)]
        if shown is not None and k > problem.split_depth and shown[k] < n and n > 1:
            t = shown[k]
            gap = -tau * (value(t) - t) ** 2 + tau * (other - t) ** 2
            mine = 1 / (1 + math.exp(-gap))
            probability *= mine if index == t else (1 - mine) / (n - 1)
        else:
            probability *= math.exp(scores[index]) / sum(map(math.exp, scores))
    return probability


@pytest.mark.parametrize("optimizer", ["adam", "gist"])
@pytest.mark.parametrize("split_depth", [0, 1, 2])
def test_probabilities_are_products_of_the_heads_along_the_path(optimizer, split_depth):
    tree = random_tree(60, 3, 9)
    seen = tree.leaves[::2]
    model = HiPaN(tree, optimizer, split_depth=split_depth).fit(seen)
    items = tree.leaves[:7]
    digits = paper_digits(tree, items)
    for rule, shown in (("given", digits.tolist()), ("predicted", [None] * len(items))):
        found = model.predict_proba(items, rule)
        assert found.sum(axis=1) == pytest.approx(1)
        for row, said in zip(found, shown, strict=True):
            assert row == pytest.approx([by_hand(model, int(leaf), said) for leaf in tree.leaves])
        best = model.classes_[found.argmax(axis=1)]
        assert model.predict(items, rule).tolist() == best.tolist()
        assert np.exp(model.predict_log_proba(items, rule)) == pytest.approx(found)


@settings(max_examples=25)
@given(trees(25), st.integers(0, 3))
def test_every_row_sums_to_one_on_any_tree(tree, seed):
    if tree.n_nodes < 2:
        return
    items = tree.leaves[: 1 + seed]
    model = HiPaN.DS(tree, sweeps=1).fit(items).calibrate(items, "given").calibrate(items)
    for rule in ("given", "predicted"):
        assert model.predict_proba(None, rule).sum(axis=1) == pytest.approx(1)


def test_a_temperature_a_depth_makes_other_items_likelier_and_is_saved(tmp_path):
    tree = random_tree(400, 1, 20)
    order = np.random.default_rng(0).permutation(tree.leaves)
    seen, fit, test = np.split(order, [len(order) // 2, 3 * len(order) // 4])
    model = HiPaN(tree).fit(seen)
    at = np.searchsorted(tree.leaves, test)
    before = model.predict_log_proba(test)[np.arange(len(test)), at].mean()
    model.calibrate(fit)
    after = model.predict_log_proba(test)[np.arange(len(test)), at].mean()
    assert after > before + 0.5
    assert model.temperatures_["predicted"].shape == (tree.max_depth,)
    assert "given" not in model.temperatures_
    model.calibrate(fit, rule="paper")  # an older name
    model.save(tmp_path / "m")
    again = vpunn.load(tmp_path / "m")
    for rule in ("given", "predicted"):
        assert np.array_equal(again.predict_proba(test[:5], rule), model.predict_proba(test[:5], rule))
    assert model.fit(seen).temperatures_ == {}


def test_old_words_mean_the_same():
    model = HiPaN(TREE).fit()
    for new, old in (("given", "paper"), ("predicted", "honest")):
        assert np.array_equal(model.predict_digits(None, new), model.predict_digits(None, old))
        assert np.array_equal(model.predict_proba(["g"], new), model.predict_proba(["g"], old))
        assert model.score(rule=old).rule == new


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: HiPaN(Tree.from_parents([-1])), "single node"),
        (lambda: HiPaN(TREE).predict_proba(["g"]), "has not been fitted"),
        (lambda: HiPaN(TREE).fit().predict_proba(["g"], "told"), "choose one of given, predicted, paper, honest"),
        (lambda: HiPaN(TREE).fit().calibrate(["g"], "told"), "choose one of given, predicted"),
        (lambda: HiPaN(TREE).fit().predict_proba(["zebra"]), "'zebra'"),
        (lambda: HiPaN(TREE).fit().calibrate([]), "at least one item"),
        (lambda: HiPaN(TREE, depths=[]).fit(), "digit positions in 0..2, got none"),
        (lambda: HiPaN(TREE).fit().decode([7, 0, 0]), "are no paths of this tree"),
    ],
)
def test_wrong_arguments_get_one_sentence(call, message):
    with pytest.raises(VpunnError, match=message):
        call()


def test_too_many_probabilities_are_refused_before_they_are_made(monkeypatch):
    from vpunn.paper import hipan

    monkeypatch.setattr(hipan, "MOST", 20)
    with pytest.raises(VpunnError, match="give at most 3 items at a time"):
        HiPaN(TREE).fit().predict_proba()
