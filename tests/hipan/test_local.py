"""Narrow dense blocks of few classes: spreads of their own, and votes by distance."""

import json

import numpy as np
import pytest
from scipy.stats import multivariate_t
from sklearn.neighbors import KNeighborsClassifier

from stores import write_head
from vpunn.hipan import HiPaNClassifier
from vpunn.hipan._dense import WIDE, Dense, Items
from vpunn.hipan._local import FEWER, LOCAL, LOCAL_FROM, MORE, PRIOR, suits
from vpunn.hipan._within import usual_doubt
from vpunn.hipan.kernels.local import N_LOCAL
from vpunn.tree import Tree

TREE = Tree.from_paths([("a", "b"), ("a", "c"), ("d", "e"), ("d", "f"), ("g",)], root="all")
LEAVES = np.flatnonzero(TREE.is_leaf)


def table(seed=0, rows=240, width=4, repeated=False):
    """Rows of all leaves but the last, some heavier; a description each; many repeat each other, if wanted."""
    rng = np.random.default_rng(seed)
    node = np.concatenate([rng.choice(LEAVES[:-1], rows), LEAVES[:-1]]).astype(np.int32)
    X = (rng.normal(size=(TREE.n_nodes, width))[node] + rng.normal(size=(len(node), width))).astype(np.float32)
    X = np.round(X) if repeated else X
    weight = (rng.random(len(node)) + 0.5).astype(np.float32)
    kind = np.repeat(np.array([0, 1], np.int8), [rows, len(LEAVES) - 1])
    return X, Items(X, node, weight, kind)


@pytest.mark.parametrize("repeated", [False, True])
def test_local_evidence_matches_a_slow_twin(repeated):
    """Every column from its definition: Student's distribution by SciPy, votes by sorting; a class without rows comes last."""
    X, items = table(repeated=repeated)
    block = Dense("x", TREE, items)
    assert block.is_local and len(LOCAL) == N_LOCAL and block.names()[-N_LOCAL:] == tuple(f"x: {n}" for n in LOCAL)
    asked = X[::9] if repeated else X[::9] + 0.3
    candidates = np.tile(np.append(LEAVES, -1), (len(asked), 1)).astype(np.int32)
    found = block.look(asked).evidence(candidates)[:, :, -N_LOCAL:]
    space = block.space
    Z, Q = (np.multiply(unit, length[:, None], dtype=float) for unit, length in (space.read(X), space.read(asked)))
    pull = space.pull.astype(float)
    axis = np.sqrt(space.metric * (1 + pull / (1 + pull)))
    own = items.kind == 0
    share = np.array([(items.node[own] == c).sum() + 0.5 for c in block.classes])
    share /= share.sum()
    score = np.full((len(Q), len(LEAVES)), -1e4)
    for k, c in enumerate(block.classes):
        at = items.node == c
        n, mean = at.sum(), block.own_mean[k] * axis
        weight = items.weight[at] / items.weight[at].mean()
        off = Z[at] * axis - mean
        doubt = usual_doubt(Z.shape[1], n - 1)
        spread = ((1 - doubt) * (off.T * weight) @ off / (n - 1) + doubt * np.eye(Z.shape[1])) * (1 + 1 / n)
        student = multivariate_t(mean, spread, df=n + PRIOR)
        constant = (
            student.logpdf(mean) + 0.5 * np.linalg.slogdet(spread)[1]
        )  # of the degrees of freedom alone: left out
        score[:, k] = student.logpdf(Q * axis) - constant + np.log(share[k])
    score = np.maximum(score - score.max(1, keepdims=True), -60)
    np.testing.assert_allclose(found[:, :-2, 0], score, atol=1e-3)
    log_p = score - np.log(np.exp(score).sum(1, keepdims=True))
    np.testing.assert_allclose(found[:, :-2, 1], log_p, atol=1e-3)
    share = np.append(share, 0.5 * share.min())
    for column, voters in ((2, FEWER), (3, MORE)):
        for r, q in enumerate(Q):
            gap = ((Z[own] - q) ** 2).sum(1)
            far, slack = np.sort(gap)[voters - 1], 1e-5 * (q @ q + 1)
            if ((gap > far + 0.5 * slack) & (gap < far + 2 * slack)).any():
                continue  # by digits beyond those of 32 bits
            voting = items.node[own][gap <= far + slack]
            votes = np.array([(voting == c).sum() for c in LEAVES])
            np.testing.assert_allclose(found[r, :-2, column], np.log((votes + share) / (len(voting) + 1)), atol=1e-4)
    np.testing.assert_allclose(found[:, -1, 1:], found[:, :-2, 1:].max(1), atol=1e-6)  # "none" is as the best
    assert not found[:, -2].any()  # no candidate


def circles(seed, rows, width=10):
    rng = np.random.default_rng(seed)
    label = np.arange(rows) % 2
    return rng.normal(size=(rows, width)) * (1.0 + label)[:, None], np.array(["inner", "outer"])[label]


def test_a_class_inside_another_is_told_by_its_spread():
    """Both have one centre; with one spread for all, seven in ten were right. By the true densities 0.93 are."""
    model = HiPaNClassifier().fit(*circles(0, 800))
    X, y = circles(1, 2000)
    assert np.mean(model.predict(X) == y) > 0.9


def test_classes_that_lie_anywhere_are_told_as_well_as_by_nearest_rows():
    """Squares of a chess board with a tenth of the labels wrong: no direction tells them."""

    def board(seed, rows):
        rng = np.random.default_rng(seed)
        X = rng.random((rows, 2)) * 4
        label = (np.floor(X).sum(1) % 2).astype(int)
        return X, np.where(rng.random(rows) < 0.1, 1 - label, label), label

    X, y, _ = board(0, 1500)
    new, _, true = board(1, 2000)
    model = HiPaNClassifier().fit(X, y)
    peer = KNeighborsClassifier(20).fit(X, y)
    assert np.mean(model.predict(new) == true) > np.mean(peer.predict(new) == true) - 0.02


def test_rows_are_answered_alike_alone_and_in_batches():
    model = HiPaNClassifier().fit(*circles(0, 300))
    X, _ = circles(1, 300)
    whole = model.predict_node_proba(X)
    for size in (1, 7, 256):
        parts = [model.predict_node_proba(X[at : at + size]) for at in range(0, len(X), size)]
        assert np.array_equal(np.concatenate(parts), whole)


def test_rows_that_say_nothing_get_no_evidence():
    """All zeros, where there are many columns."""
    X, items = table(width=WIDE - 1)
    look = Dense("x", TREE, items).look(np.zeros((1, X.shape[1]), np.float32))
    assert not look.evidence(LEAVES[None].astype(np.int32))[:, :, -N_LOCAL:].any()


def test_which_tables_are_local():
    assert suits(LOCAL_FROM, 2) and not suits(LOCAL_FROM - 1, 2) and not suits(LOCAL_FROM, 65) and not suits(500, 1)
    assert not Dense("x", TREE, table(width=WIDE)[1]).is_local  # wide blocks never


def test_a_model_stays_local_when_more_classes_are_learned():
    """The combiner has learned to read those columns, whatever the number of classes is later."""
    tree = Tree.from_paths([(f"c{k:02}",) for k in range(80)], root="all")
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(80), 6)
    X = rng.normal(size=(80, 3))[y] * 5 + rng.normal(size=(480, 3))
    first = y < 40
    model = HiPaNClassifier(tree).fit(X[first], [f"c{k:02}" for k in y[first]])
    names = model.experts_.names()
    model.partial_fit(X[~first], [f"c{k:02}" for k in y[~first]])
    assert model.experts_.names() == names and any(name.endswith(LOCAL[0]) for name in names)
    assert np.mean(model.predict(X) == np.array([f"c{k:02}" for k in y])) > 0.5


def test_candidates_alone_are_scored():
    """A model may learn thousands of classes later: a row has some candidates still, each scored as among all."""
    X, items = table()
    block = Dense("x", TREE, items)
    look, n = block.look(X[:5]), len(block.classes)
    every = block.local.scores(look.unit, look.length, np.tile(np.arange(n, dtype=np.int32), (5, 1)))
    some = block.local.scores(look.unit, look.length, np.tile(np.array([2, n, -1], np.int32), (5, 1)))
    np.testing.assert_array_equal(some, np.column_stack([every[:, 2], np.full((5, 2), -1e4, np.float32)]))


@pytest.mark.parametrize("far", [1e9, 1e30])
def test_rows_beyond_all_others_are_learned_later(far):
    """A spread of one axis alone, in 64 bits, has no root."""
    X, y = circles(0, 300)
    model = HiPaNClassifier().fit(X, y)
    more = X[:100].copy()
    more[5, 0] = far
    p = model.partial_fit(more, y[:100]).predict_node_proba(X)
    assert np.isfinite(p).all()


def test_a_folder_of_an_older_version_has_one_spread(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("vpunn.hipan._local.LOCAL_FROM", 10**9)
        X, y = circles(0, 300)
        model = HiPaNClassifier().fit(X, y)
    folder = model.save(tmp_path / "m")
    head = json.loads((folder / "model.json").read_text())
    del head["parts"]["dense0"]["settings"]["is_local"]
    write_head(folder, head)
    loaded = HiPaNClassifier.load(folder, verify=False)
    assert np.array_equal(loaded.predict_node_proba(X), model.predict_node_proba(X))
    again = HiPaNClassifier().fit(X, y)
    assert np.array_equal(
        HiPaNClassifier.load(again.save(tmp_path / "n")).predict_node_proba(X), again.predict_node_proba(X)
    )
