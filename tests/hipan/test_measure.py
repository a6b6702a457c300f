"""The learned measure: loops and gradient against slow twins, what it finds, and that it leaves where it has nothing to say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from vpunn import load
from vpunn.errors import VpunnError
from vpunn.hipan import HiPaNClassifier, _measuring, _training
from vpunn.hipan._balls import Balls, Items, branches
from vpunn.hipan._dense import WIDE
from vpunn.hipan._measure import EVIDENCE, Measure, numbers_of
from vpunn.hipan._measuring import _Votes, fit_weights
from vpunn.hipan._views import SILENT_COLUMNS, Rows, Sample, unit_rows
from vpunn.hipan.kernels.measure import FARTHEST, LEAST_VOTES
from vpunn.tree import Tree

TREE = Tree.from_paths([(f"g{k // 3}", f"c{k}") for k in range(12)], root="r")
CLASSES = np.asarray(TREE.index([f"c{k}" for k in range(12)]))


def careers(rows=1500, seed=0):
    """Players change their class at times of their own: who and when tell it together, neither does alone. Beside it, noise."""
    rng = np.random.default_rng(seed)
    change, team = np.sort(rng.random((40, 3)), 1), rng.integers(0, 12, (40, 4))
    who, when = rng.integers(0, 40, rows), rng.random(rows)
    node = CLASSES[team[who, (when[:, None] > change[who]).sum(1)]]
    words = sparse.csr_matrix((np.ones(rows), (np.arange(rows), who)), shape=(rows, 40))
    return {"who": words, "when": np.column_stack([when, rng.normal(size=rows)])}, node


def take(X, rows):
    return {name: block[rows] for name, block in X.items()}


@pytest.fixture(scope="module")
def learned():
    X, node = careers()
    return HiPaNClassifier(TREE, random_state=0).fit(take(X, slice(1000)), TREE.labels[node[:1000]]), X, node


def small_case(columns, seed=1):
    """Rows and items by words and numbers, descriptions among the items, and a row that says nothing if columns are many."""
    rng = np.random.default_rng(seed)
    items, asked = 90, 8
    words = unit_rows(sparse.random(items + asked, 15, 0.2, random_state=2, format="csr", dtype=np.float32))
    numbers = rng.normal(size=(items + asked, columns)).astype(np.float32)
    numbers[items] = 0
    kind = np.zeros(items, np.int8)
    kind[:5] = 1
    balls = Balls(TREE, Items(words[:items], rng.choice(CLASSES, items).astype(np.int32), np.ones(items), kind))
    weight = np.append(3.0, rng.random(columns)).astype(np.float32)
    wide = rng.normal(size=(asked, WIDE)).astype(np.float32)
    return Measure(TREE, balls, numbers[:items], weight), Rows(words[items:], {"x": numbers[items:], "wide": wide})


@pytest.mark.parametrize("columns", [3, SILENT_COLUMNS])
def test_evidence_matches_a_slow_twin(columns):
    measure, rows = small_case(columns)
    items, branch = measure.balls.items, branches(TREE)
    candidates = np.tile(np.append(CLASSES, -1), (len(rows), 1)).astype(np.int32)
    look = measure.look(rows)
    evidence = look.evidence(candidates)
    assert evidence.shape[2] == len(EVIDENCE)
    for r in range(len(rows)):
        apart = np.square(rows.dense["x"][r] - measure.numbers) @ measure.weight[1:]
        if r == 0 and columns >= SILENT_COLUMNS:
            apart = 0 * apart
        near = measure.weight[0] * (items.X @ rows.words[r].T).toarray()[:, 0] - apart
        voters = np.lexsort((np.arange(len(near)), -near, items.kind > 0))[:32]
        assert np.allclose(look.nearness[r], near[voters], atol=1e-4)
        assert np.array_equal(look.node[r], items.node[voters])
        below = np.maximum(near[voters] - near[voters[0]], FARTHEST)
        share = np.exp(below) / np.exp(below).sum()
        for j, c in enumerate(CLASSES):
            v = items.node[voters]
            votes = share[v == c].sum()
            family = share[TREE.parent[v] == TREE.parent[c]].sum()
            expected = [votes, family, share[branch[v] == branch[c]].sum(), np.log(votes + LEAST_VOTES)]
            expected.append(below[v == c].max(initial=below[-1]))
            assert np.allclose(evidence[r, j], expected, atol=2e-4)
        assert np.allclose(evidence[r, -1], [0, 0, 0, np.log(LEAST_VOTES), 0])


def test_the_gradient_is_that_of_the_loss():
    rng = np.random.default_rng(0)
    parts, there = rng.normal(size=(20, 9, 3)).astype(np.float32), rng.random((20, 9)) < 0.9
    votes = _Votes(parts, there, there & (rng.random((20, 9)) < 0.3), rng.random(20))
    at, first = np.array([0.3, -0.5, 0.1]), np.zeros(3)
    step = 1e-3 * np.eye(3)
    slow = [(votes.loss(at + d, first)[0] - votes.loss(at - d, first)[0]) / 2e-3 for d in step]
    assert np.allclose(votes.loss(at, first)[1], slow, rtol=2e-2, atol=2e-2)


def test_weights_grow_where_items_of_a_class_lie_close():
    """Of the two columns one tells the class of an item with the same words; the other is noise."""
    X, node = careers()
    rows = Rows(unit_rows(X["who"]), {"when": ((X["when"] - X["when"].mean(0)) / X["when"].std(0)).astype(np.float32)})
    weight, kind = np.ones(len(node), np.float32), np.zeros(len(node), np.int8)
    balls = Balls(TREE, Items(rows.words[:1000], node[:1000].astype(np.int32), weight[:1000], kind[:1000]))
    start = Measure(TREE, balls, numbers_of(rows)[:1000], np.array([8.0, 1.0, 1.0], np.float32))
    asked = Sample(rows, node, weight, kind).take(np.arange(1000, 1500))
    words, when, noise = fit_weights(start, asked)
    assert when > 5 > 0.3 > noise and words > 2


def test_who_and_when_together(learned, monkeypatch):
    model, X, node = learned
    assert model.measure_ is not None
    new = take(X, slice(1000, None))
    right = (model.posterior(new).best() == node[1000:]).mean()
    monkeypatch.setattr(_measuring, "MOST", 0)
    apart = HiPaNClassifier(TREE, random_state=0).fit(take(X, slice(1000)), TREE.labels[node[:1000]])
    assert apart.measure_ is None
    assert right > 0.8 > 0.1 + (apart.posterior(new).best() == node[1000:]).mean()


def test_a_block_that_says_nothing_by_itself_is_heard_together(monkeypatch):
    """Every player has a class before and another after some time; over all players no time goes with any class."""
    X, node = careers(rows=2500, seed=3)
    X["when"] = X["when"][:, :1]
    monkeypatch.setattr(_training, "_ahead", lambda score, own: 0.0)
    model = HiPaNClassifier(TREE, random_state=0).fit(take(X, slice(2000)), TREE.labels[node[:2000]])
    assert list(model.dense_) == ["when"] and model.measure_ is not None
    rng = np.random.default_rng(0)
    X["when"] = rng.random((2500, 1))
    model = HiPaNClassifier(TREE, random_state=0).fit(take(X, slice(2000)), TREE.labels[node[:2000]])
    assert not model.dense_ and model.measure_ is None


def test_a_row_has_the_same_bits_in_any_batch(learned):
    model, X, _ = learned
    new = take(X, slice(1000, 1256))
    whole = model.posterior(new, evidence=True)
    for size in (1, 7):
        for at in range(0, 28, size):
            part = model.posterior(take(new, slice(at, at + size)), evidence=True)
            assert np.array_equal(part.probability, whole.probability[at : at + size])
            assert np.array_equal(part.evidence, whole.evidence[at : at + size])


def test_saved_loaded_and_fitted_again(learned, tmp_path):
    model, X, node = learned
    new = take(X, slice(1000, 1100))
    model.save(tmp_path / "m")
    found = load(tmp_path / "m")
    again = HiPaNClassifier(TREE, random_state=0).fit(take(X, slice(1000)), TREE.labels[node[:1000]])
    expected = model.posterior(new).probability
    assert np.array_equal(found.posterior(new).probability, expected)
    assert np.array_equal(again.posterior(new).probability, expected)


@pytest.mark.parametrize(
    ("name", "edit"), [("weight", lambda a: -a), ("weight", lambda a: a[:-1]), ("numbers", lambda a: a[:-1])]
)
def test_a_damaged_measure_is_refused(learned, tmp_path, name, edit):
    learned[0].save(tmp_path / "m")
    file = next((tmp_path / "m").rglob(f"measure.{name}.npy"))
    np.save(file, edit(np.load(file)))
    with pytest.raises(VpunnError, match="measure"):
        load(tmp_path / "m")


def test_items_learned_later_are_measured(learned, tmp_path):
    model, X, node = learned
    model.save(tmp_path / "m")
    more = load(tmp_path / "m").partial_fit(take(X, slice(1000, 1250)), TREE.labels[node[1000:1250]])
    assert len(more.measure_.numbers) == 1250
    nearest, _ = more.measure_.closest(more._rows(take(X, slice(1000, 1250))), 1)
    assert np.array_equal(nearest[:, 0], np.arange(1000, 1250))


def test_explain_names_it(learned):
    model, X, _ = learned
    told = model.explain(take(X, slice(1000, 1001)))
    assert list(told.blocks) == ["words", "when", "learned measure"]
    assert told.blocks["learned measure"] > max(v for k, v in told.blocks.items() if k != "learned measure")
    assert set(EVIDENCE) <= set(told.evidence)


def test_where_it_has_nothing_to_add_it_leaves_no_trace(monkeypatch):
    """Classes are told by their means: not a bit of any answer differs from that of a model that never tried."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 12, 900)
    X = {
        "a": rng.normal(size=(12, 4))[y] + rng.normal(size=(900, 4)),
        "b": rng.normal(size=(12, 3))[y] + rng.normal(size=(900, 3)),
    }
    labels = TREE.labels[CLASSES[y]]
    tried = HiPaNClassifier(TREE, random_state=0).fit(take(X, slice(700)), labels[:700])
    assert tried.measure_ is None
    monkeypatch.setattr(_measuring, "MOST", 0)
    never = HiPaNClassifier(TREE, random_state=0).fit(take(X, slice(700)), labels[:700])
    new = take(X, slice(700, None))
    assert np.array_equal(tried.posterior(new).probability, never.posterior(new).probability)


def test_one_row_to_judge_by_decides_nothing_quietly():
    """Half of one row is none: its mean weight was NumPy's warning."""
    X, node = careers(400)
    X["noise"] = np.random.default_rng(3).normal(size=(400, 2))
    y = TREE.labels[node]
    model = HiPaNClassifier(TREE, random_state=0).fit(X, y, validation=(take(X, slice(1)), y[:1]))
    assert model.measure_ is None


def test_weights_of_rows_count_by_their_ratio():
    start, rows = small_case(3)
    node = np.random.default_rng(0).choice(CLASSES, len(rows))
    found = [
        fit_weights(start, Sample(rows, node, np.full(len(rows), w, np.float32), np.zeros(len(rows), np.int8)))
        for w in (1.0, 2.0**-90)
    ]
    np.testing.assert_array_equal(found[1], found[0])
