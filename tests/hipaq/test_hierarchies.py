"""HiPaQ of hierarchies: canonical codes are equal exactly for isomorphic trees, and everything follows from the codes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings

from shapes import AWKWARD
from strategies import random_tree, trees
from vpunn import PadicCode, Tree, VpunnError
from vpunn.hipaq import HiPaQ, group_catalogue, hydrogen_tree, read_decays, rooted_trees


def shape(tree: Tree) -> tuple:
    """A slow twin: the nested sorted tuple of children's shapes."""
    below: list[list] = [[] for _ in range(len(tree))]
    for node in range(len(tree) - 1, 0, -1):
        below[tree.parent[node]].append(tuple(sorted(below[node])))
    return tuple(sorted(below[0]))


def shuffled(tree: Tree, rng: np.random.Generator) -> Tree:
    place = rng.permutation(len(tree))
    parent = np.empty(len(tree), np.int64)
    parent[place] = np.where(tree.parent < 0, -1, place[tree.parent])
    return Tree.from_parents(parent)


def test_canonical_codes_are_equal_exactly_for_isomorphic_trees():
    """A thousand random trees and a shuffled copy of each: all pairs that share a shape share their codes, no other does."""
    rng = np.random.default_rng(0)
    by_code: dict[tuple, set] = {}
    by_shape: dict[tuple, set] = {}
    for i in range(1000):
        tree = random_tree(int(rng.integers(1, 14 if i % 2 else 200)), seed=i, reach=[None, 1, 3][i % 3])
        one, other = HiPaQ(tree, canonical=True), HiPaQ(shuffled(tree, rng), canonical=True)
        assert one == other and one.codes.tolist() == other.codes.tolist() and one.check()
        codes, form = tuple(one.codes.tolist()), shape(tree)
        by_code.setdefault(codes, set()).add(form)
        by_shape.setdefault(form, set()).add(codes)
    assert all(len(forms) == 1 for forms in by_code.values())
    assert all(len(codes) == 1 for codes in by_shape.values())
    assert len(by_shape) < 1000  # small trees repeat, so that equal codes were seen


def test_all_small_trees_have_codes_of_their_own():
    found = [HiPaQ(tree, canonical=True) for n in range(1, 9) for tree in rooted_trees(n)]
    assert all(one != other for one, other in combinations(found, 2))


@settings(max_examples=60, deadline=None)
@given(trees())
def test_everything_follows_from_the_codes(tree):
    one = HiPaQ(tree)
    code = PadicCode(tree)
    assert one.codes.tolist() == np.atleast_1d(code.encode(tree.leaves)).tolist() and one.check()
    assert one.network.predict(np.arange(len(tree))).tolist() == np.atleast_1d(code.encode()).tolist()
    assert one.n_parameters == len(one.network.coefficients_)
    for k in range(tree.max_depth + 1):
        assert one.prefix(k).tolist() == [x % one.p**k for x in one.codes.tolist()]
    for node in range(len(tree)):
        inside = tree.labels[tree.slice(node)][tree.is_leaf[tree.slice(node)]]
        assert one.identify(code.encode(node)).candidates == tuple(inside.tolist())


@settings(max_examples=40, deadline=None)
@given(trees())
def test_purity_counts_majorities(tree):
    rng = np.random.default_rng(0)
    labels = rng.choice(["a", "b", "c"], tree.n_leaves)
    one = HiPaQ(tree)
    for k in range(tree.max_depth + 1):
        groups: dict[int, list] = {}
        for ball, label in zip(one.prefix(k).tolist(), labels.tolist(), strict=True):
            groups.setdefault(ball, []).append(label)
        right = sum(max(map(group.count, group)) for group in groups.values())
        assert one.purity(labels, k) == pytest.approx(right / tree.n_leaves)
    by_leaf = dict(zip(one.labels.tolist(), labels.tolist(), strict=True))
    assert HiPaQ(tree, canonical=True).purity(by_leaf, tree.max_depth) == 1.0


def test_the_hierarchies_of_the_paper():
    for tree in (group_catalogue().tree, hydrogen_tree().tree, read_decays().tree):
        assert HiPaQ(tree).check() and HiPaQ(tree, canonical=True).check()
    states = hydrogen_tree()
    assert HiPaQ(states.tree).purity({name: name[0] for name in states.names}, 1) == 1.0


def test_saved_and_opened_again(tmp_path):
    import vpunn

    one = HiPaQ(random_tree(50, 1), canonical=True)
    one.save(tmp_path / "h")
    again = vpunn.load(tmp_path / "h")
    assert again == one and again.canonical and again.labels.tolist() == one.labels.tolist()


def test_what_is_no_code_names_nothing():
    one = HiPaQ(Tree.from_parents([-1, 0, 0, 1, 1]))
    lost = one.identify(2 + 3 * 1)  # the second child of the root is a leaf
    assert (lost.candidates, lost.code, lost.digits, lost.new_at) == ((), 2, (2,), "digit 1")
    assert one.identify(10**30).candidates == ()


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_hierarchies(name):
    one = HiPaQ(AWKWARD[name], canonical=True)
    assert one.check() and one.check().verdict.endswith(".") and repr(one)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda one: HiPaQ({"letters": len}), "vpunn.hipaq.Invariants"),
        (lambda one: one.identify(-1), "a whole number from 0, got -1"),
        (lambda one: one.identify("3"), "a whole number from 0, got '3'"),
        (lambda one: one.prefix(-1), "k must be a whole number of at least 0"),
        (lambda one: one.purity(["a"], 1), "one label a leaf .3., got 1"),
        (lambda one: one.purity("colour", 1), "no column 'colour'"),
        (lambda one: one.purity({2: "x"}, 1), "no label for the leaf"),
    ],
)
def test_refusals(call, said):
    with pytest.raises(VpunnError, match=said):
        call(HiPaQ(Tree.from_parents([-1, 0, 0, 1, 1])))
