"""`TreeBandit`: its posterior is the regressor's, its draws have that mean and variance, and it finds the best arm."""

import numpy as np
import pytest

from strategies import random_tree
from vpunn.errors import VpunnError
from vpunn.regress import TreeBandit
from vpunn.regress.shrinkage import fit_shrinkage
from vpunn.tree import Tree


def test_posterior_is_the_regressors():
    tree = random_tree(40, seed=1, reach=8)
    rng = np.random.default_rng(0)
    arms = rng.choice(tree.leaves, 200)
    rewards = rng.normal(size=200)
    ratios = rng.uniform(0.1, 2.0, tree.max_depth)
    bandit = TreeBandit(tree, noise=0.7, ratios=ratios)
    for arm, reward in zip(arms, rewards, strict=True):
        bandit.update(arm, reward)
    mean, spread = bandit.posterior()
    fit = fit_shrinkage(tree, arms, rewards, ratios=ratios)
    assert np.allclose(mean, fit.values, atol=1e-3)  # the vague prior on the root is the difference
    assert np.allclose(spread**2 / 0.49, fit.variance / fit.noise, rtol=1e-2)
    draws = np.array([bandit.draw() for _ in range(4000)])
    assert np.allclose(draws.mean(0), mean, atol=5 * spread.max() / np.sqrt(4000))
    assert np.allclose(draws.std(0), spread, rtol=0.1)
    a = tree.leaves[0]
    shared = np.cov(draws[:, tree.parent[a]], draws[:, a])[0, 1]
    assert shared > 0  # a joint draw: a node moves with its parent


@pytest.mark.parametrize("rule", ["thompson", "ucb"])
def test_finds_the_best_arm_and_learns_what_the_tree_says(rule):
    tree = Tree.from_paths([(i, (i, j)) for i in range(8) for j in range(6)], root="r")
    rng = np.random.default_rng(1)
    value = np.zeros(tree.n_nodes)
    value[tree.leaves] = (2.0 * rng.normal(size=8))[:, None].repeat(6, 1).ravel() + 0.1 * rng.normal(size=48)
    bandit = TreeBandit(tree, rule, noise=0.5, random_state=3)
    pulled = []
    for _ in range(400):
        arm = bandit.select()
        pulled.append(arm)
        bandit.update(arm, value[arm] + 0.5 * rng.normal())
    best = value[tree.leaves].max()
    assert value[bandit.best()] > best - 0.3
    assert (best - value[pulled[-100:]]).mean() < 0.2 * (best - value[tree.leaves]).mean()
    assert bandit.ratios[0] > 5 * bandit.ratios[1]  # families differ, members hardly
    twin = TreeBandit(tree, rule, noise=0.5, random_state=3)
    assert twin.select() == pulled[0]


def test_what_cannot_be_used_is_refused():
    tree = random_tree(10)
    for call, words in (
        (lambda: TreeBandit(tree, "greedy"), "choose one of thompson, ucb"),
        (lambda: TreeBandit(tree, noise=0), "above 0"),
        (lambda: TreeBandit(tree, arms=[]), "at least one arm"),
        (lambda: TreeBandit(tree, ratios=[-1.0]), "ratios must be"),
        (lambda: TreeBandit(tree).update(99, 1.0), "outside this tree"),
        (lambda: TreeBandit(tree).update(1, np.nan), "finite number"),
        (lambda: TreeBandit([1]), "must be a vpunn Tree"),
    ):
        with pytest.raises(VpunnError, match=words):
            call()
    alone = TreeBandit(Tree.from_parents([-1]))
    assert alone.select() == 0 and len(alone) == 0
