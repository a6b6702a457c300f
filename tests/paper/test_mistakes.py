"""Bad input to what the paper names: one sentence each, with the value and the fix."""

from __future__ import annotations

import numpy as np
import pytest

from vpunn import HiPaN, PadicCode, Tree, VpunnError, structure
from vpunn.hipaq import Group, HiPaQ, identify_group, subgroup_lattice
from vpunn.paper.geometry import three_codes
from vpunn.paper.reports import reproduce
from vpunn.regress import Boxes
from vpunn.tabular import semantic_ids

TREE = Tree.from_paths([("owl", "barn owl"), ("owl", "eagle owl"), ("auk",)], root="birds")
OTHER = Tree.from_paths([("eel",), ("cod",)], root="fish")
ONE = Tree.from_parents([-1])
LOOP = [[0, 1, 2], [1, 0, 2], [2, 1, 0]]
ROWS = np.random.default_rng(0).normal(size=(6, 3))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: HiPaN(ONE), "a single node"),
        (lambda: three_codes(ONE), "a single node"),
        (lambda: reproduce("one", 1, data=ONE), "a tree of one node"),
        (lambda: HiPaN(TREE).fit().decode([4, 0]), "are no paths of this tree"),
        (lambda: structure.box_counting(TREE, p=2), "p=2 cannot write 2 children and a stop; use p ≥ 3"),
        (lambda: structure.entropy([[1, -1]]), "whole numbers from 0, got -1 in row 0"),
        (lambda: structure.mapper([[0, 1]]), "goes on after a 0"),
        (lambda: PadicCode(OTHER).read(PadicCode(TREE).stamp()), "tree"),
        (lambda: PadicCode(TREE).decode(10**6), "is the code of no node"),
        (lambda: HiPaQ(TREE).purity({"eel": 1}, 1), "no label for the leaf 'barn owl'"),
        (lambda: HiPaQ(TREE).prefix(-1), "at least 0, got -1"),
        (lambda: semantic_ids(ROWS, 3, 0), "got p=3, K=0"),
        (lambda: Boxes([0.0], [1.0], 0), "got 0"),
        (lambda: Group.from_table(LOOP), "not associative at the triple"),
        (lambda: identify_group([[0, 1], [1, 1]]), "has no inverse"),
        (lambda: subgroup_lattice(LOOP), "not associative at the triple"),
    ],
)
def test_bad_input_is_one_clear_sentence(call, said):
    with pytest.raises(VpunnError) as error:
        call()
    text = str(error.value)
    assert said in text and "\n" not in text and text.endswith("."), text
