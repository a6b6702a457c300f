"""The controls: codes that are not isometric, not injective, or not of all nodes, and how badly they fail."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import spearmanr

from strategies import random_tree, trees
from vpunn import padic
from vpunn.codes import PadicCode
from vpunn.datasets import load_wordnet
from vpunn.errors import CodeError
from vpunn.paper import leaf_code, paper_code
from vpunn.tree import Tree


def algorithm_2(tree, node, p):
    """The paper's Algorithm 2, line by line."""
    digits, n = [], node
    while n != 0:
        digits.append(int(tree.digit[n]) - 1)  # sibling_index
        n = tree.parent[n]
    digits += [0] * (tree.max_depth - len(digits))
    return sum(a * p**k for k, a in enumerate(digits))


@settings(max_examples=100)
@given(trees(max_nodes=25))
def test_paper_code_is_algorithm_2_and_counts_its_collisions(tree):
    control = paper_code(tree)
    assert control.nodes.tolist() == tree.leaves.tolist()
    assert control.codes.tolist() == [algorithm_2(tree, leaf, control.p) for leaf in tree.leaves]
    assert control.n_distinct == len(set(control.codes.tolist()))
    listed = control.codes.tolist()
    assert control.colliding.tolist() == [n for n, c in zip(control.nodes, listed, strict=True) if listed.count(c) > 1]
    everyone = paper_code(tree, np.arange(tree.n_nodes))
    assert everyone.codes.tolist() == [algorithm_2(tree, node, control.p) for node in range(tree.n_nodes)]


def test_collision_example_of_the_audit():  # AUDIT 5.3
    tree = Tree.from_parents([-1, 0, 0, 1, 1], labels=["root", "A", "B", "A0", "A1"])
    control = paper_code(tree)
    assert control.n_distinct == 2
    assert sorted(tree.labels[control.colliding]) == ["A1", "B"]
    # and it is no isometry: the deepest siblings are as far apart as can be
    a0, a1 = (control.codes[list(control.nodes).index(tree.index(name))] for name in ("A0", "A1"))
    assert padic.distance(a0, a1, control.p) == 1
    assert PadicCode(tree).distance(*tree.index(["A0", "A1"]), exact=True) == Fraction(1, 3)


def test_many_random_trees_collide_with_algorithm_2_and_none_with_ours():
    small = [random_tree(12, seed) for seed in range(200)]
    assert 20 < sum(paper_code(tree).n_distinct < tree.n_leaves for tree in small) < 180
    assert all(len(set(PadicCode(tree).encode().tolist())) == tree.n_nodes for tree in small)


@settings(max_examples=100)
@given(trees(max_nodes=20))
def test_leaf_codes_are_isometric_on_leaves(tree):
    control = leaf_code(tree)
    assert control.p == padic.next_prime(max(2, tree.max_branching))
    assert control.n_distinct == tree.n_leaves
    assert len(control.colliding) == 0
    for (i, u), (j, v) in itertools.combinations(enumerate(control.nodes.tolist()), 2):
        assert padic.valuation(control.codes[i] - control.codes[j], control.p) == tree.lca_depth(u, v)


def test_leaf_code_refuses_a_small_prime():
    star = Tree.from_parents([-1] + [0] * 5)
    assert leaf_code(star).p == 5  # one less than the node code needs
    assert leaf_code(star, p=7).codes.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(CodeError, match="p = 3 is too small"):
        leaf_code(star, p=3)


def test_wordnet_collides_with_algorithm_2():  # E-02
    wordnet = load_wordnet("3.0").tree
    control = paper_code(wordnet)
    assert 0 < len(control.colliding) < 500
    assert control.n_distinct < wordnet.n_leaves
    assert leaf_code(wordnet).n_distinct == wordnet.n_leaves


def test_the_papers_order_knows_little_of_the_tree():
    tree = random_tree(3000, seed=2)
    u, v = np.random.default_rng(0).choice(tree.leaves, (2, 20_000))
    u, v = u[u != v], v[u != v]
    control = paper_code(tree)
    place = np.searchsorted(control.nodes, [u, v])
    wrong_way = padic.valuation(control.codes[place[0]] - control.codes[place[1]], control.p)
    assert abs(spearmanr(-np.minimum(wrong_way, 99), tree.lca_depth(u, v)).statistic) < 0.3
