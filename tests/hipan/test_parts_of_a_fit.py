"""Parts of a fit by themselves: slots that can win, where linear heads start, rounding in place, and what other processes get."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse

from vpunn.hipan import HiPaNClassifier, _training
from vpunn.hipan._balls import Balls, Items
from vpunn.hipan._holdout import Round
from vpunn.hipan._linear import Linear
from vpunn.hipan._slots import HOPELESS, Slots
from vpunn.hipan._weights import half
from vpunn.tree import Tree


def test_slots_that_cannot_win_are_left_out_but_for_the_right_one():
    rng = np.random.default_rng(0)
    valid = rng.random((40, 9)) < 0.7
    truth = rng.integers(0, 9, 40)
    valid[np.arange(40), truth] = True
    z, weight = rng.normal(size=(40, 9, 3)).astype(np.float32), rng.random(40)
    linear = np.array([9.0, -6.0, 3.0], np.float32)
    centre, unit = np.array([0.5, -1.0, 0.0], np.float32), np.array([1.0, 0.25, 3.0], np.float32)
    some = Slots.of(z, valid, truth, weight).likely(linear).standard(np.arange(40), centre, unit)
    left = at = 0
    for r in range(40):
        score = np.where(valid[r], z[r] @ linear, -np.inf)
        p = np.exp(score - score.max())
        kept = p / p.sum() > HOPELESS
        left += int(not kept[truth[r]])
        kept[truth[r]] = True
        stop = at + kept.sum()
        assert (some.start[r], some.size[r]) == (at, kept.sum())
        assert np.array_equal(some.z[at:stop], (z[r, kept] - centre) * unit)
        assert np.array_equal(some.z[some.right[r]], (z[r, truth[r]] - centre) * unit)
        at = stop
    assert at == len(some.z) < valid.sum() and left  # some are hopeless, right ones among them
    assert np.array_equal(some.weight, weight)


def of_one_word(classes, each):
    """Rows with a word of their class and one of their own, which names the row."""
    n = classes * each
    node = np.repeat(np.arange(classes), each)
    X = sparse.hstack([sparse.csr_matrix(np.eye(classes)[node]), sparse.eye(n)], "csr", dtype=np.float32)
    return X, np.array([f"c{k}" for k in node])


@pytest.mark.parametrize("whole_class", [False, True])
def test_linear_heads_of_all_rows_start_where_those_of_the_last_round_stopped(monkeypatch, whole_class):
    """Each row with its own numbers; where a class was missing from the round, columns would not fit, and they start anew."""
    X, y = of_one_word(4, 30)
    out = np.arange(90, 120) if whole_class else np.arange(3, 120, 7)
    first = np.arange(1, 120, 9)
    none = np.zeros(0, np.int64)
    rounds = [Round(rows, np.ones(len(rows)), none) for rows in (first, out)]
    monkeypatch.setattr(_training, "plan_holdout", lambda *_, **__: rounds)
    calls = []
    fitted = Linear.fitted.__func__

    def spied(cls, balls, cost, wanted, dual=None):
        before = None if dual is None else dual.copy()
        made = fitted(cls, balls, cost, wanted, dual)
        row = balls.items.X[:, 4:].argmax(1)
        calls.append((np.asarray(row).ravel(), before, dual))
        return made

    monkeypatch.setattr(Linear, "fitted", classmethod(spied))
    HiPaNClassifier(Tree.from_paths([(f"c{k}",) for k in range(4)], root="r"), random_state=0).fit(X, y)
    (rows, _, own), (everyone, start, _) = calls[-2:]
    assert set(rows) == set(range(120)) - set(out) and set(everyone) == set(range(120))
    if whole_class:
        assert own.shape[1] == 3 and start is None
        return
    assert own.any(1).all()
    placed = np.zeros((120, 4), np.float32)
    placed[rows] = own
    assert np.array_equal(start, placed[everyone])


@pytest.mark.parametrize("cut", [np.s_[:, ::2], np.s_[::3], np.s_[:, :5]])
def test_rounding_into_some_columns_or_rows_of_an_array(cut):
    values = np.random.default_rng(0).normal(size=(60, 10)).astype(np.float32)
    whole = values.copy()
    given = half(whole[cut], whole[cut])
    assert np.array_equal(whole[cut], values[cut].astype(np.float16)) and np.array_equal(given, whole[cut])
    others = np.ones(values.shape, bool)
    others[cut] = False
    assert np.array_equal(whole[others], values[others])


def test_balls_are_sent_as_they_are():
    """Processes that train need neither nearest items nor a dictionary, which take long and much memory to make."""
    X, _ = of_one_word(4, 10)
    node, one = np.repeat(np.arange(1, 5), 10).astype(np.int32), np.ones(40, np.float32)
    balls = Balls(Tree.from_parents([-1, 0, 0, 0, 0]), Items(X, node, one, np.zeros(40, np.int8)))
    late = {"nearest", "dictionary"}
    sent = pickle.loads(pickle.dumps(balls))
    assert not late & balls.__dict__.keys() and not late & sent.__dict__.keys()
    whole = pickle.loads(pickle.dumps(balls.complete()))
    assert late <= whole.__dict__.keys()
    for name, made in balls.derived().items():
        assert np.array_equal(made, sent.derived()[name]) and np.array_equal(made, whole.derived()[name])


@pytest.mark.parametrize(("classes", "times"), [(100, 3), (20, 1)])
def test_heads_that_answer_are_the_mean_of_several_orders_where_classes_are_many(monkeypatch, classes, times):
    rng, found, train = np.random.default_rng(0), [], _training.train

    def noted(balls, heads, *rest):
        train(balls, heads, *rest)
        found.append(np.array(heads.weight))

    monkeypatch.setattr(_training, "train", noted)
    y = np.arange(300) % classes
    X = sparse.csr_matrix(np.eye(classes)[y] + (rng.random((300, classes)) < 0.05))
    model = HiPaNClassifier(epochs=1).fit(X, y)
    alike = [weights for weights in found if len(weights) == len(model.heads_.weight)][
        -times:
    ]  # of all rows, the last ones
    assert len({weights.tobytes() for weights in alike}) == times
    assert np.allclose(model.heads_.weight, np.mean(alike, 0), atol=2e-3)
