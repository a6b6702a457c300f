"""Which features stand for which, learned from the classes, and how many items of a node are remembered."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from vpunn.hipan import _dictionary
from vpunn.hipan._arrays import Sparse
from vpunn.hipan._balls import MEMORY, PARTS, Balls, Items
from vpunn.hipan._dictionary import learn_dictionary
from vpunn.hipan._views import unit_rows
from vpunn.tree import Tree


def test_dictionary_matches_a_slow_twin():
    rng = np.random.default_rng(2)
    X = unit_rows(sparse.csr_matrix(rng.random((40, 12)) * (rng.random((40, 12)) < 0.3)))
    node, weight = rng.integers(0, 8, 40).astype(np.int32), (rng.random(40) + 0.5).astype(np.float32)
    items = Items(X, node, weight, np.zeros(40, np.int8))
    found = learn_dictionary(items, X.tocsc(), 8).toarray()
    some = learn_dictionary(items, X.tocsc(), 8, np.array([1, 4])).toarray()  # no bit of theirs depends on the others
    assert np.array_equal(some[[1, 4]], found[[1, 4]]) and np.count_nonzero(some) == np.count_nonzero(found[[1, 4]]) > 0
    dense = X.toarray().astype(float)
    total = np.array([(weight[node == c, None] * dense[node == c]).sum(0) for c in range(8)])
    rest = total[node] - weight[:, None] * dense
    rest[rest < 1e-4] = 0  # no profile here has more than PROFILE features
    length = np.linalg.norm(rest, axis=1)
    rest[length > 0] /= length[length > 0, None]
    usual = rest.sum(0) / (length > 0).sum()
    for f in range(12):
        rows = np.flatnonzero((dense[:, f] > 0) & (length > 0))
        v = (dense[:, f] * weight)[rows]
        mean = v @ rest[rows] / (v.sum() * (1 + 3.0 / len(rows)))
        np.testing.assert_allclose(found[f], np.maximum(mean - usual, 0) * (mean > 0), rtol=1e-3, atol=1e-5)


def test_features_of_one_row_alone_are_read_as_one_of_them_is(monkeypatch):
    """Words that one row has mean the same, so one of them is kept; a row is read as if all were."""
    rng = np.random.default_rng(5)
    shared, own = rng.random((30, 8)) * (rng.random((30, 8)) < 0.5), np.zeros((30, 60))
    own[np.repeat(np.arange(30), 2), np.arange(60)] = rng.random(60) + 0.1
    X = unit_rows(sparse.csr_matrix(np.hstack([shared, own])))
    items = Items(X, rng.integers(0, 5, 30).astype(np.int32), np.ones(30, np.float32), np.zeros(30, np.int8))
    balls = Balls(Tree.from_parents([-1, 0, 0, 0, 0]), items)
    found = balls.dictionary
    monkeypatch.setattr(_dictionary, "meaning_as", lambda by_feature: np.arange(by_feature.shape[1], dtype=np.int32))
    whole = Balls(balls.tree, items).dictionary
    per_feature = np.diff(whole.pairs.indptr)
    assert np.array_equal(np.diff(found.pairs.indptr)[8:], np.where(np.arange(60) % 2, per_feature[8:], 0))
    assert found.pairs.nnz < whole.pairs.nnz
    asked = unit_rows(sparse.csr_matrix(rng.random((20, 68)) * (rng.random((20, 68)) < 0.2)))
    one, other = found.read(Sparse.of(asked)), whole.read(Sparse.of(asked))
    assert np.array_equal(one.indices, other.indices)
    np.testing.assert_allclose(one.data, other.data, atol=1e-6)


def test_the_dictionary_of_large_classes_needs_their_strongest_features_only(monkeypatch):
    """Two classes of 2,000 features, one with many equal sums, and a small one."""
    rng = np.random.default_rng(4)
    filled = rng.random((120, 2000)) < 0.02
    values = np.where(np.arange(120)[:, None] < 60, 1.0, rng.random((120, 2000)))
    node = np.repeat([1, 2, 3], [60, 50, 10]).astype(np.int32)
    X = sparse.csr_matrix(filled * values, dtype=np.float32)
    items = Items(X, node, np.ones(120, np.float32), np.zeros(120, np.int8))
    found = learn_dictionary(items, X.tocsc(), 4)
    monkeypatch.setattr("vpunn.hipan.kernels.dictionary.LARGE", 10**6)
    whole = learn_dictionary(items, X.tocsc(), 4)
    assert found.nnz and all(np.array_equal(getattr(found, part), getattr(whole, part)) for part in PARTS)


def test_no_more_items_of_a_node_are_kept_than_are_compared():
    node = np.repeat([1, 2, 3], [40, 3, 20]).astype(np.int32)
    X = sparse.eye(63, format="csr", dtype=np.float32)
    memory = Balls(
        Tree.from_parents([-1, 0, 0, 0]), Items(X, node, np.ones(63, np.float32), np.zeros(63, np.int8))
    ).memory
    assert memory.span.tolist() == [[0, 0], [0, MEMORY], [MEMORY, MEMORY + 3], [MEMORY + 3, 2 * MEMORY + 3]]
    assert memory.words.indices.tolist() == [*range(MEMORY), 40, 41, 42, *range(43, 43 + MEMORY)]
