"""Figures of shape for three sources of digits: the numbers said are those of each, on one tree with texts and one without."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from strategies import random_tree
from vpunn import HiPaN, PadicCode, Tree, structure
from vpunn.paper.geometry import EMBEDDED, EXACT, LEARNED, SHAPES, commonest_child, draw_shapes, three_codes

WORDS = ["heron", "finch", "gull", "plover", "petrel", "tern", "crake", "stork"]


def named_tree() -> Tree:
    """Eight families of eight kinds, whose glosses name the family."""
    paths = [
        (family, f"{word} {family}")
        for family in WORDS
        for word in ("red", "blue", "grey", "small", "great", "king", "sea", "sand")
    ]
    tree = Tree.from_paths(paths, root="bird")
    gloss = np.array([str(label) for label in tree.labels], object)
    return tree.replace(columns={"gloss": gloss})


@pytest.fixture(scope="module")
def codes():
    return three_codes(named_tree())


def test_digits_of_one_tree_from_three_sources(codes):
    tree = named_tree()
    assert list(codes) == [EXACT, LEARNED, EMBEDDED]
    assert (codes[EXACT] == PadicCode(tree).digits(tree.leaves)).all()
    assert (codes[LEARNED] == HiPaN.DS(tree).fit().digit_rows()).all()
    assert len(np.unique(codes[LEARNED], axis=0)) == 1  # no input but the answer: one path for all
    assert len(np.unique(codes[EMBEDDED], axis=0)) == tree.n_leaves


@pytest.mark.parametrize("key", SHAPES)
def test_every_shape_is_drawn_thrice_with_a_sentence_each(codes, key):
    figure, said = draw_shapes(key, codes)
    titles = [ax.get_title().partition("\n")[0] for ax in figure.axes if ax.get_title().startswith(tuple(codes))]
    assert titles == list(codes) and said.count(". ") >= 3 and said.endswith("what it learned has no shape.")
    slope = structure.box_counting(codes[EXACT]).slope
    assert key != "F13" or f"slope {slope:.3f}" in said
    assert key != "F11" or "ρ = +" in said  # glosses that name the family put it together


def test_a_tree_without_texts_has_two_sources():
    codes = three_codes(random_tree(60, 1))
    assert list(codes) == [EXACT, LEARNED]
    assert all(draw_shapes(key, codes)[1] for key in SHAPES)


def test_learned_digits_stop_where_the_tree_does():
    tree = random_tree(80, 2)
    rows = HiPaN(tree).fit().digit_rows(tree.leaves[:5])
    assert rows.shape == (5, tree.max_depth)
    found = structure.box_counting(HiPaN(tree).fit())
    assert found.counts.tolist() == [1] * len(found.counts)


def test_digit_accuracy_is_that_of_the_commonest_child():
    tree = random_tree(900, 7, 60)
    hits, asked = np.zeros(tree.max_depth), np.zeros(tree.max_depth)
    for leaf in tree.leaves.tolist():
        chain = tree.ancestors(leaf).tolist()
        for k, (ball, child) in enumerate(pairwise(chain)):
            children = tree.children(ball)
            asked[k] += 1
            hits[k] += child == children[np.argmax(tree.leaf_counts[children])]
    assert commonest_child(tree) == pytest.approx(hits / asked)
