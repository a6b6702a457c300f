"""Semantic ids: unique, prefix-structured, reproducible, near vectors share prefixes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from vpunn.errors import VpunnError
from vpunn.tabular import prefix_recall, semantic_ids


@given(st.integers(1, 80), st.integers(1, 4), st.integers(3, 9), st.integers(1, 3), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_ids_are_unique_paths_with_digits_below_p(n, d, p, K, seed):
    vectors = np.random.default_rng(seed).integers(3, size=(n, d)).astype(float)  # few values: many equal vectors
    ids = semantic_ids(vectors, p=p, K=K, random_state=seed)
    assert len(np.unique(ids.digits, axis=0)) == n
    assert ids.digits.min() >= 0
    assert ids.digits.max() <= p - 1
    ended = ids.digits == 0
    assert (ended[:, 1:] >= ended[:, :-1]).all()  # nothing after the path ends
    assert ids.tree.is_leaf[ids.node].all()
    assert len(np.unique(ids.node)) == n == ids.tree.n_leaves
    inside = np.arange(K) < ids.balls.tree.depth[ids.balls.leaf][:, None]  # before the collision digits
    np.testing.assert_array_equal(ids.assign(vectors), np.where(inside, ids.digits[:, :K], 0))


def test_equal_vectors_take_as_many_collision_digits_as_they_need():
    ids = semantic_ids(np.ones((100, 2)), p=4, K=2)
    assert ids.n_collisions == 100
    assert ids.digits.shape[1] == 5  # 3^4 < 100 ≤ 3^5
    assert len({ids.text(i) for i in range(100)}) == 100


@pytest.mark.parametrize(("p", "K"), [(2, 3), (256, 0), (256, 10**9)])
def test_ids_of_too_few_or_too_many_digits_are_refused(p, K):
    with pytest.raises(VpunnError, match=f"got p={p}, K={K}"):
        semantic_ids(np.ones((3, 2)), p=p, K=K)


def test_near_digits_share_prefixes_far_above_chance():
    images = load_digits().data
    ids = semantic_ids(images, p=256, K=3)
    table = prefix_recall(ids, images)
    assert [row["digits"] for row in table] == [1, 2, 3]
    assert table[0]["recall"] > 5 * table[0]["chance"]
    assert all(a["recall"] >= b["recall"] for a, b in pairwise(table))
    shuffled = semantic_ids(np.random.default_rng(0).permutation(images), p=256, K=3)
    control = prefix_recall(shuffled, images)  # ids of other rows: must fall to chance
    assert control[0]["recall"] < 2 * control[0]["chance"]


def test_bad_vectors_are_named():
    for vectors, options, words in (
        (np.zeros((0, 3)), {}, "non-empty"),
        ([[np.nan]], {}, "finite"),
        ([[1.0]], {"p": 2}, "p ≥ 3"),
        ([[1.0]], {"metric": "manhattan"}, "cosine"),
    ):
        with pytest.raises(VpunnError, match=words):
            semantic_ids(np.array(vectors), **options)
    with pytest.raises(VpunnError, match="needs more than 10"):
        prefix_recall(semantic_ids(np.eye(3)), np.eye(3))
