"""Rows that bring nothing the model knows are answered as the training rows that would have been such were."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import dirichlet_multinomial

import vpunn
from vpunn.hipan import HiPaNClassifier
from vpunn.hipan._unknown import NAMED, alone, unknown_answer
from vpunn.hipan._views import Rows
from vpunn.tree import Tree


def records(seed: int = 0) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Twelve classes told by their columns; of the eighth most records were never filled in."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 12, 1200)
    X = np.zeros((1200, 240))
    for row, label in zip(X, y, strict=True):
        row[rng.integers(0, 20, 4) + 20 * label] = 1
    X[rng.random(1200) < np.where(y == 7, 0.7, 0.05)] = 0
    return sparse.csr_matrix(X), y


def test_empty_records_mostly_mean_what_they_meant():
    X, y = records()
    model = HiPaNClassifier(random_state=0).fit(X[:800], y[:800])
    empty = np.flatnonzero(np.diff(X.indptr)[800:] == 0)
    assert (model.predict(X[800:]) == y[800:]).mean() > 0.93  # 0.90 by the prior
    p = model.predict_proba(X[800:][empty])
    share = (0.7 / 12) / (0.7 / 12 + 0.05 * 11 / 12)
    assert abs(p[0, 7] - share) < 0.13 and np.allclose(p.sum(1), 1)  # by the prior it is 0.08


def test_saved_and_loaded_they_are_answered_alike(tmp_path):
    X, y = records()
    model = HiPaNClassifier(random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    again = vpunn.load(tmp_path / "model")
    nothing = sparse.csr_matrix((3, 240))
    assert np.array_equal(model.predict_proba(nothing), again.predict_proba(nothing))
    assert np.array_equal(again.predict(nothing), [7, 7, 7])


def test_rows_without_company():
    X = sparse.csr_matrix([[1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]], dtype=np.float32)
    assert alone(Rows(X, {})).tolist() == [False, False, True, True]
    said = np.zeros((4, 20), np.float32)
    said[3] = 1
    assert alone(Rows(X, {"meaning": said})).tolist() == [False, False, True, False]


@pytest.mark.parametrize("classes", [3, 500])
@pytest.mark.parametrize("rows", [0, 5, 400])
def test_the_answer_lies_in_its_own_most_probable_balls(classes, rows):
    rng = np.random.default_rng(classes + rows)
    tree = Tree.from_paths([(f"g{k % 7}", f"c{k}") for k in range(classes)], root="r")
    prior = np.where(tree.is_leaf, rng.random(tree.n_nodes), 0.0)
    prior /= prior.sum()
    count = np.bincount(rng.choice(np.flatnonzero(tree.is_leaf), rows), minlength=tree.n_nodes)
    nodes, p = unknown_answer(tree, prior, count)
    assert p[0] == p.max() and p.sum() <= 1 + 1e-12 and len(np.unique(nodes)) == len(nodes) <= NAMED + 1
    share = np.where(tree.is_leaf, prior, 0.0)
    if rows:
        doubt = max(
            2.0 ** np.arange(12),
            key=lambda k: dirichlet_multinomial.logpmf(count[prior > 0], k * prior[prior > 0], rows),
        )
        share = (count + doubt * prior) / (rows + doubt)
    balls = tree.subtree_sum(share)
    top = np.flatnonzero(tree.depth == 1)
    assert tree.parent[nodes[0]] == top[balls[top].argmax()]
    assert np.allclose(p[1:], share[nodes[1:]], rtol=0.1)
    if not rows:
        assert len(nodes) == 1
