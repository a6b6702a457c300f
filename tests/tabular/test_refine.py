"""Refinement: the score against dense linear algebra, chains against full recomputation, planted trees."""

from __future__ import annotations

from itertools import pairwise
from math import lgamma, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vpunn.errors import VpunnError
from vpunn.tabular import LatentTreeEncoder, refine_tree, triplet_accuracy
from vpunn.tabular._refine_kernels import closest
from vpunn.tabular.refine import _State, planted_rows
from vpunn.tree import Tree


def random_tree(random: np.random.Generator, levels: int, widest: int) -> Tree:
    parent, level = [-1], [0]
    for _ in range(levels):
        below = []
        for ball in level:
            for _ in range(int(random.integers(1, widest + 1))):
                below.append(len(parent))
                parent.append(ball)
        level = below
    return Tree.from_parents(parent)


def slow_score(
    data: np.ndarray, tree: Tree, leaf: np.ndarray, spread: np.ndarray, noise: float, max_kids: int
) -> float:
    """The score from one n × n covariance matrix and from counts, with no message passing."""
    n, d = data.shape
    shared = np.array([0.0, *np.cumsum(spread[1:])])  # variance that two rows share, by LCA depth
    covariance = shared[tree.lca_depth_matrix(leaf)] + noise * np.eye(n)
    inverse = np.linalg.inv(covariance)
    ones = np.ones(n)
    middle = ones @ inverse @ ones  # flat prior on the root's place
    project = inverse - np.outer(inverse @ ones, ones @ inverse) / middle
    gauss = 0.5 * (np.linalg.slogdet(covariance)[1] + log(middle) + (n - 1) * log(2 * np.pi)) * d
    gauss += 0.5 * np.einsum("ik,ij,jk->", data, project, data)
    rows = tree.subtree_sum(np.bincount(leaf, minlength=tree.n_nodes))
    assignment = 0.0
    for node in range(tree.n_nodes):
        kids = tree.children(node)
        if len(kids):
            m = len(kids)
            assignment += lgamma(rows[node] + m) - lgamma(m) - lgamma(m + 1) - sum(lgamma(rows[k] + 1) for k in kids)
    return gauss + assignment + tree.n_nodes * log(max_kids + 1)


def random_state(seed: int) -> tuple[_State, Tree]:
    random = np.random.default_rng(seed)
    tree = random_tree(random, int(random.integers(1, 4)), 3)
    leaf = np.concatenate([tree.leaves, random.choice(tree.leaves, size=2 * tree.n_leaves)])
    data = random.normal(size=(len(leaf), int(random.integers(1, 5))))
    state = _State.of_tree(data, tree, leaf, 4)
    state.spread, state.noise = random.uniform(0.1, 2.0, tree.max_depth + 1), float(random.uniform(0.1, 2.0))
    return state, tree


@given(st.integers(0, 10**6))
@settings(max_examples=50, deadline=None)
def test_messages_equal_dense_linear_algebra(seed):
    state, tree = random_state(seed)
    expected = slow_score(state.data, tree, state.leaf, state.spread, state.noise, state.max_kids)
    assert state.score() == pytest.approx(expected, rel=1e-9)


@given(st.integers(0, 10**6))
@settings(max_examples=50, deadline=None)
def test_incremental_score_equals_full_recomputation(seed):
    state, _ = random_state(seed)
    before = state.score()
    state.move_rows()
    after = state.score()
    assert after - before == pytest.approx(state.change, abs=1e-8)
    for kind in ("re-attachments", "exchanges", "merges", "splits"):
        for ball in range(1, state.n_balls):
            if state.parent[ball] < 0:
                continue
            propose, make = state._kinds()[kind]
            for move in list(propose(ball))[:1]:
                make(ball, *move)  # made whether good or bad
                by_chain = float(state.cost[state.parent > -2].sum())
                assert by_chain == pytest.approx(state.score(), rel=1e-10)
    tree, leaf = state.to_tree()
    expected = slow_score(state.data, tree, leaf, state.spread, state.noise, state.max_kids)
    assert state.score() == pytest.approx(expected, rel=1e-9)
    assert tree.max_branching <= state.max_kids


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_rejected_moves_leave_no_trace(seed):
    state, _ = random_state(seed)
    state.score()
    rng = np.random.default_rng(seed)
    for kind in ("re-attachments", "exchanges", "merges", "splits"):
        for ball in rng.permutation(np.flatnonzero(state.parent > -1))[:3]:
            for move in state._kinds()[kind][0](int(ball)):
                saved = [array.copy() for array in state._balls()]
                if not state._attempt(kind, int(ball), *move):
                    for a, b in zip(saved, state._balls(), strict=True):
                        np.testing.assert_array_equal(a, b)
                break


def test_score_never_rises_and_codes_stay_ultrametric():
    rows, _, _ = planted_rows(noise=3.0, seed=1)
    encoder = LatentTreeEncoder(nodes_per_level=[3, 9, 27]).fit(rows)
    found = refine_tree(encoder.table_.matrix(rows), encoder.tree_, encoder.leaf_, max_children=6)
    assert all(b <= a + 1e-7 for a, b in pairwise(found.history))
    assert found.history[-1] < found.history[0]
    assert found.improved
    depth = found.tree.lca_depth_matrix(found.leaf[:60])
    worst = np.minimum(depth[:, :, None], depth[None, :, :]) > depth[:, None, :]
    assert not worst.any()


def test_beats_ward_at_moderate_noise_and_changes_nothing_at_low_noise():
    gain = {}
    for noise in (0.5, 3.0):
        before, after = [], []
        for seed in range(6):
            rows, tree, leaf = planted_rows(noise, seed)
            encoder = LatentTreeEncoder(nodes_per_level=[3, 9, 27]).fit(rows)
            widest = max(4, encoder.tree_.max_branching)
            found = refine_tree(encoder.table_.matrix(rows), encoder.tree_, encoder.leaf_, max_children=widest)
            before.append(triplet_accuracy(encoder.tree_, encoder.leaf_, tree, leaf))
            after.append(triplet_accuracy(found.tree, found.leaf, tree, leaf))
        gain[noise] = np.subtract(after, before)
    assert gain[3.0].mean() > 0.01
    assert (gain[3.0] > 0).sum() >= 5
    assert abs(gain[0.5]).max() < 0.01  # Ward had it right already


def test_says_when_nothing_improves():
    rows = np.repeat([[0.0, 0.0], [9.0, 0.0]], 8, axis=0) + np.random.default_rng(0).normal(scale=0.1, size=(16, 2))
    tree = Tree.from_parents([-1, 0, 0])
    leaf = np.repeat([1, 2], 8)
    found = refine_tree(rows, tree, leaf)
    assert not found.improved
    assert "no move lowered" in str(found)
    assert found.tree.n_leaves == 2
    assert triplet_accuracy(found.tree, found.leaf, tree, leaf) == 1.0


def test_refined_encoder_is_inductive():
    rows, _, _ = planted_rows(noise=3.0, seed=0)
    encoder = LatentTreeEncoder(nodes_per_level=[3, 9, 27], refine=True).fit(rows)
    np.testing.assert_array_equal(encoder.apply(rows), encoder.leaf_)
    assert encoder.refinement_.improved
    assert 0.5 < encoder.kept_ <= 1.0


def test_bad_input_is_named():
    tree = Tree.from_parents([-1, 0, 0])
    with pytest.raises(VpunnError, match="one leaf ball for each"):
        refine_tree(np.zeros((3, 1)), tree, np.array([1, 2]))
    with pytest.raises(VpunnError, match="leaf ball 2 holds no row"):
        refine_tree(np.zeros((3, 1)), tree, np.array([1, 1, 1]))
    with pytest.raises(VpunnError, match="below the tree's own branching"):
        refine_tree(np.zeros((2, 1)), tree, np.array([1, 2]), max_children=1)
    with pytest.raises(VpunnError, match="nothing to judge"):
        triplet_accuracy(tree, np.array([1, 2]), Tree.from_parents([-1]), np.array([0, 0]))


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 6))
def test_the_closest_balls_are_those_of_a_stable_sort(seed, balls, many):
    rng = np.random.default_rng(seed)
    mean = rng.integers(0, 3, (balls + 1, 2)).astype(float)  # many are equally near
    at = rng.permutation(balls + 1)[:balls]
    gap = ((mean[at] - mean[0]) ** 2).sum(axis=1)
    assert closest(0, at, mean, many).tolist() == np.argsort(gap, kind="stable")[:many].tolist()
