"""Triage of a real classifier on held-out rows, against counting row by row."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from strategies import random_tree
from vpunn import HiPaNClassifier, Tree, VpunnError
from vpunn.report import triage
from vpunn.report._triage import triage_of, wilson


@pytest.fixture(scope="module")
def fitted():
    """Rows scattered around points that drift down a random tree: siblings are alike, so they are confused."""
    rng = np.random.default_rng(0)
    tree = random_tree(60, 4)
    centre = np.zeros((tree.n_nodes, 12))
    for node in range(1, tree.n_nodes):
        centre[node] = centre[tree.parent[node]] + rng.normal(size=12)
    y = rng.choice(tree.leaves, 900)
    X = centre[y] + rng.normal(scale=1.2, size=(900, 12))
    labels = tree.labels[y]
    model = HiPaNClassifier(tree, random_state=0).fit(X[:600], labels[:600])
    return model, X[600:], labels[600:]


def test_every_count_equals_a_walk_over_the_rows(fitted):
    model, X, y = fitted
    tree = model.tree_
    found = triage(model, X, y)
    proba = model.predict_node_proba(X)
    answer = tree.index(model.predict(X))
    truth = tree.index(y)
    mistakes, reached, asked, right = Counter(), Counter(), Counter(), Counter()
    claimed, confused = Counter(), Counter()
    for row, (t, a) in enumerate(zip(truth.tolist(), answer.tolist(), strict=True)):
        path_t, path_a = tree.ancestors(t).tolist(), tree.ancestors(a).tolist()
        shared = [b for b in path_t if b in path_a]
        reached.update(shared)
        asked.update(path_a)
        right.update(b for b in path_a if b in path_t)
        for b in path_a:
            claimed[b] += proba[row, b]
        if t != a:
            fork = shared[-1]
            mistakes[fork] += 1
            k = len(shared)
            confused[(path_t[k] if k < len(path_t) else fork, path_a[k] if k < len(path_a) else fork)] += 1
    for b in range(tree.n_nodes):
        assert (found.mistakes[b], found.reached[b], found.asked[b], found.right[b]) == (
            mistakes[b],
            reached[b],
            asked[b],
            right[b],
        )
        assert found.claimed[b] == pytest.approx(claimed[b], abs=1e-6)
    assert {(c["true"], c["predicted"]): c["rows"] for c in found.confusions(10**6)} == confused
    assert sum(ball["mistakes"] for ball in found.hardest(10**6)) == (truth != answer).sum() == found.wrong.sum()
    assert found.hardest(1)[0]["mistakes"] == max(mistakes.values())


def test_rows_examples_and_matrix_point_at_the_mistakes(fitted):
    model, X, y = fitted
    found = triage(model, X, y)
    worst = found.hardest(1)[0]
    rows = found.rows_at(worst["ball"])
    assert len(rows) == worst["mistakes"] and (np.diff(found.confidence[rows]) <= 0).all()
    assert len(found.rows_at(0, below=True)) == found.wrong.sum()
    pair = found.confusions(1)[0]
    assert all(found.fork[row] == pair["fork"] and found.wrong[row] for row in pair["examples"])
    balls, table = found.matrix(1)
    assert table.sum() == found.n_rows and (model.tree_.depth[balls] <= 1).all()
    off = table.sum() - np.trace(table)
    assert off == found.mistakes[0]  # a row leaves its branch exactly if its path goes wrong at the root


def test_it_is_plain_data_and_repeats(fitted):
    model, X, y = fitted
    document = triage(model, X, y).to_dict()
    assert json.loads(json.dumps(document)) == document
    assert triage(model, X, y).to_dict() == document
    assert document["verdict"] in str(triage(model, X, y))


class Pretender:
    """A posterior with given answers and a given confidence for every ball below the root."""

    def __init__(self, tree, answers, confidence):
        self.tree, self.answers, self.confidence = tree, np.asarray(answers), confidence

    def top_k(self, k):
        return self.answers[:, None], np.full((len(self.answers), 1), self.confidence)

    def chain(self, nodes):
        balls = np.column_stack([np.zeros(len(nodes), int), nodes])
        return balls, np.column_stack([np.ones(len(nodes)), np.full(len(nodes), self.confidence)])


def test_planted_over_confidence_is_found_and_honesty_is_not_accused():
    tree = Tree.from_parents([-1, 0, 0, 0], labels=["r", "a", "b", "c"])
    rng = np.random.default_rng(1)
    answers = np.repeat([1, 2], 400)
    honest = np.where(rng.uniform(size=400) < 0.9, 1, 3)
    boastful = np.where(rng.uniform(size=400) < 0.6, 2, 3)
    found = triage_of(Pretender(tree, answers, 0.9), np.concatenate([honest, boastful]))
    listed = found.overconfident()
    assert [ball["name"] for ball in listed] == ["b"]
    assert listed[0]["accuracy"] == pytest.approx(np.mean(boastful == 2)) and listed[0]["confidence"] == pytest.approx(
        0.9
    )
    alarms = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        truth = np.where(rng.uniform(size=800) < 0.9, answers, 3)
        alarms += bool(triage_of(Pretender(tree, answers, 0.9), truth).overconfident())
    assert alarms <= 12  # one in twenty by design


def test_all_right_and_refusals(fitted):
    model, X, _ = fitted
    answers = model.predict(X)
    assert triage(model, X, answers).verdict == "all 300 rows are right."
    one = np.append(answers[1:2] if answers[1] != answers[0] else answers[answers != answers[0]][:1], answers[1:])
    assert "begin in" not in triage(model, X, one).verdict  # one mistake at one ball says nothing about balls
    with pytest.raises(VpunnError, match="one label per row"):
        triage(model, X, model.predict(X)[:5])
    with pytest.raises(VpunnError, match="posterior"):
        triage(object(), X, [])
    with pytest.raises(VpunnError):
        triage(model, X[:1], ["no such label"])


def test_wilson_interval():
    assert wilson(0, 0) == (0.0, 1.0)
    low, high = wilson(5, 10)
    assert (round(low, 3), round(high, 3)) == (0.237, 0.763)  # the textbook value


def test_confusion_picture_has_the_counts(fitted):
    model, X, y = fitted
    found = triage(model, X, y)
    ax = found.plot()
    _, table = found.matrix(1)
    shown = np.asarray(ax.images[0].get_array())
    if len(table) <= 14:
        assert shown == pytest.approx(100 * table / np.maximum(table.sum(1, keepdims=True), 1))
    assert ax.get_xlabel() == "answer"


@pytest.mark.parametrize("bias", [9.0, 60.0])
def test_the_surest_mistakes_are_not_lost(bias):
    """Hundreds of standard errors, or certainty that is wrong: no p-value is left, the ball must be listed all the same."""
    torch = pytest.importorskip("torch", reason="the head with a chosen bias needs vpunn[torch]")
    from vpunn.torch import HierarchicalHead

    head = HierarchicalHead(Tree.from_parents([-1, 0, 0, 0], labels=["all", "a", "b", "c"]), 1, dtype=torch.float64)
    with torch.no_grad():
        head.bias.copy_(torch.tensor([bias, 0.0, 0.0]))
    found = triage(head, np.zeros((400, 1)), ["a"] * 340 + ["b"] * 60)
    (worst,) = found.overconfident()
    assert worst["name"] == "a" and worst["accuracy"] == 0.85 and worst["confidence"] > 0.999
    assert "1 branch is right less often" in found.verdict
