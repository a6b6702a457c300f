"""`TreeValue` beside a twin of sums over ancestors, and `Boxes` beside arithmetic on cells."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import random_tree, trees
from vpunn.errors import VpunnError
from vpunn.regress import Boxes, TreeValue


@given(trees(20), st.sampled_from([None, 3]), st.sampled_from([0.5, 1.0]), st.integers(0, 5))
def test_steps_equal_the_twin(tree, actions, sharing, seed):
    rng = np.random.default_rng(seed)
    value = TreeValue(tree, actions, discount=0.9, rate=0.5, sharing=sharing)
    parts, visits = np.zeros((2, tree.n_nodes, actions or 1))
    for _ in range(15):
        state, after, action = rng.integers(tree.n_nodes), rng.integers(-1, tree.n_nodes), rng.integers(actions or 1)
        chosen = int(rng.integers(actions or 1)) if rng.random() < 0.5 else None
        reward = float(rng.normal())
        ahead = 0.0
        if after >= 0:
            q = parts[tree.ancestors(int(after))].sum(0)
            ahead = q.max() if chosen is None else q[chosen]
        chain = tree.ancestors(int(state))
        error = reward + 0.9 * ahead - parts[chain, action].sum()
        share = sharing ** np.arange(len(chain))[::-1] / (1 + visits[chain, action])
        parts[chain, action] += 0.5 * error * share / share.sum()
        visits[chain, action] += 1
        end = None if after < 0 else int(after)
        assert np.isclose(value.learn(int(state), reward, end, action=int(action), next_action=chosen), error)
    wanted = np.stack([parts[tree.ancestors(i)].sum(0) for i in range(tree.n_nodes)])
    found = value(np.arange(tree.n_nodes))
    assert np.allclose(found, wanted if actions else wanted[:, 0])
    if actions:
        assert np.allclose(value(0), wanted[0]) and value.best(0) == wanted[0].argmax()


def test_a_chain_of_states_learns_its_discounted_values():
    boxes = Boxes([0.0], [8.0], 3)
    value = TreeValue(boxes.tree, discount=0.5)
    cells = boxes.leaf(np.arange(8)[:, None] + 0.5).tolist()
    for _ in range(400):
        for here, after in zip(cells, [*cells[1:], None], strict=True):
            value.learn(here, float(after is None), after)
    assert np.allclose(value(cells), 0.5 ** np.arange(7, -1, -1), atol=1e-3)


def test_boxes_are_cells_and_neighbours_share_balls():
    boxes = Boxes([-1, 0], [1, 4], 3)
    points = np.random.default_rng(0).uniform([-1, 0], [1, 4], (200, 2))
    cell = np.floor((points - [-1, 0]) / [2, 4] * 8).astype(int)
    leaf = boxes.leaf(points)
    for depth in range(4):
        same = (cell[:, None] >> (3 - depth) == cell[None] >> (3 - depth)).all(-1)
        assert ((boxes.tree.lca_depth(leaf[:, None], leaf[None]) >= depth) == same).all()
    assert boxes.leaf([[-9, -9], [9, 9]]).tolist() == [boxes.tree.leaves[0], boxes.tree.leaves[-1]]


def test_what_cannot_be_used_is_refused():
    tree = random_tree(10, seed=0)
    value = TreeValue(tree)
    for call, words in (
        (lambda: TreeValue([1]), "must be a vpunn Tree"),
        (lambda: TreeValue(tree, discount=1.5), "discount is a number between 0 and 1"),
        (lambda: TreeValue(tree, rate=0), "rate is a number"),
        (lambda: value.learn(10, 0.0), "nodes from 0 to 9"),
        (lambda: value.learn(0, 0.0, action=1), "actions from 0 to 0"),
        (lambda: value.learn(0, float("nan")), "reward must be a number"),
        (lambda: value.learn(0, 1e300), "reward must be a number"),
        (lambda: value.learn(0, "much"), "reward must be a number"),
        (lambda: value.learn("shop", 1.0), "learn takes nodes"),
        (lambda: value.learn(0, 1.0, 1.5), "learn takes nodes"),
        (lambda: TreeValue(tree, 10**30), "more than 1,000,000,000 values"),
        (lambda: value.best(0), "no actions"),
        (lambda: Boxes([0], [0], 2), "low below high"),
        (lambda: Boxes([0] * 5, [1] * 5, 9), "at most 2\\^24"),
        (lambda: Boxes([0], [1], 2).leaf([[np.nan]]), "no NaN"),
        (lambda: Boxes(["a"], [1], 2), "low and high must hold numbers"),
        (lambda: Boxes([0], [1], 2).leaf([["a"]]), "points are rows"),
    ):
        with pytest.raises(VpunnError, match=words):
            call()
