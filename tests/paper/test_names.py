"""The names of the paper: Algorithms 1–3 to the letter, the calls of Table 6, and what wrong arguments get."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vpunn
from strategies import trees
from vpunn import PadicCode, Tree, VPuNN, paper
from vpunn.datasets import load_wordnet
from vpunn.errors import CodeError, TreeError, VpunnError
from vpunn.paper import paper_code

TREE = Tree.from_parents([-1, 0, 0, 1, 1], labels=["root", "A", "B", "A0", "A1"])


def test_every_name_of_table_6_and_of_the_algorithms_is_there():
    names = "AdamScalar GISTScalar DenseMSEHead TwoLogitCEHead sparse_activation_path describe_ball export_tree_for_viz"
    names += " build_tree encode_path decode next_prime HiPaN"
    assert [name for name in names.split() if not hasattr(paper, name)] == []
    assert vpunn.HiPaN is paper.HiPaN
    assert vpunn.hipaq.HiPaQ(vpunn.Tree.from_parents([-1, 0, 0])).check()
    assert vpunn.TabHiPaN.__name__ == "TabHiPaN"


@given(trees(30))
def test_algorithms_1_and_2_are_the_control_code(tree):
    found = paper.build_tree(tree)
    assert found.all_leaves == tree.labels[tree.leaves].tolist()
    assert found.visits == tree.n_nodes
    assert tree.max_depth == found.K
    control = paper_code(tree)
    assert [paper.encode_path(found, leaf) for leaf in found.all_leaves] == control.codes.tolist()
    deepest = [leaf for leaf, depth in found.leaf_depths.items() if depth == found.K]
    assert [paper.decode(found, paper.encode_path(found, leaf)) for leaf in deepest] == deepest


def test_algorithm_1_on_a_graph_visits_twice_and_keeps_the_last_parent():
    edges = {"r": ["a", "b"], "a": ["x"], "b": ["y", "x"], "x": [], "y": []}
    found = paper.build_tree("r", edges.__getitem__)
    assert found.all_leaves == ["x", "y", "x"]
    assert (found.parent_of["x"], found.sibling_index["x"], found.visits) == ("b", 1, 6)
    with pytest.raises(TreeError, match="cycle through 'r'"):
        paper.build_tree("r", {"r": ["a"], "a": ["r"]}.__getitem__)
    with pytest.raises(TreeError, match="a root and a function"):
        paper.build_tree("r")
    with pytest.raises(TreeError, match="label twice"):
        paper.build_tree(Tree.from_parents([-1, 0, 0], labels=["a", "b", "b"]))


def test_algorithms_2_and_3_refuse_what_is_not_there():
    found = paper.build_tree(TREE)
    with pytest.raises(TreeError, match="no node 'C'"):
        paper.encode_path(found, "C")
    with pytest.raises(CodeError, match="has 2 children"):
        paper.decode(found, [2, 0])
    with pytest.raises(CodeError, match="reads K = 2 digits"):
        paper.decode(found, [1])


def test_describe_ball_takes_the_depth_of_the_ball():
    tree = load_wordnet("3.1").tree
    code = PadicCode(tree)
    dog = int(tree.index("dog.n.01"))
    digits = code.digits(dog)[: tree.depth[dog]].tolist()
    animal = int(tree.index("animal.n.01"))
    k = int(tree.depth[animal])
    for theta in ("dog.n.01", dog, digits):
        ball = paper.describe_ball(tree, theta, k, show=3)
        assert (ball.label, ball.around, len(ball.members), len(ball.tokens)) == ("animal.n.01", dog, 3, 3)
    assert paper.describe_ball(code, int(code.encode(dog)), k).node == animal
    assert ball.files[0][0] == "noun.animal"
    assert ball.files[0][1] > 0.9
    inside = range(animal, animal + int(tree.size[animal]))
    assert ball.n_lemmas == len({word for i in inside for word in tree.columns["lemmas"][i].split("; ")})
    leaves = tree.leaves[(tree.leaves >= animal) & (tree.leaves < animal + tree.size[animal])]
    assert ball.depths == (tree.depth[leaves].min(), tree.depth[leaves].max())
    assert "noun.animal" in str(ball)
    with pytest.raises(VpunnError, match=r"k=30 is deeper than 'dog.n.01'.*show= is the length"):
        paper.describe_ball(tree, dog, 30)
    with pytest.raises(CodeError, match="digit 1 is 400"):
        paper.describe_ball(tree, [1, 400])
    with pytest.raises(VpunnError, match="digits must lie in"):
        paper.describe_ball(tree, [1, -1])


def test_the_exported_tree_carries_digit_code_and_coefficient():
    net = VPuNN(TREE, [9, 0, 1, 2, 3], values="integer")
    found = json.loads(paper.export_tree_for_viz(net))
    code = PadicCode(TREE)
    stack = [found]
    while stack:
        entry = stack.pop()
        i = entry["id"]
        assert (entry["digit"], entry["code"], entry["coefficient"]) == (
            TREE.digit[i],
            str(code.encode(i)),
            net.coefficients_[i],
        )
        stack.extend(entry.get("children", []))
    assert "coefficient" not in json.loads(paper.export_tree_for_viz(TREE))


@given(st.lists(st.integers(-(10**6), 10**6), min_size=5, max_size=5))
def test_coefficients_are_powers_times_units(values):
    net = VPuNN(TREE, values, values="integer")
    for c, v, u in zip(values, net.valuations_, net.units_, strict=True):
        assert (u == 0 and v == np.inf) if c == 0 else (net.p ** int(v) * u == c and u % net.p != 0)
    with pytest.raises(VpunnError, match="floats have no p-adic valuation"):
        _ = VPuNN(TREE).valuations_


@given(trees(12), st.floats(0.01, 5))
def test_the_exponential_distance_has_the_order_of_the_p_adic_one(tree, alpha):
    code, nodes = PadicCode(tree), np.arange(tree.n_nodes)
    found = code.distance(nodes[:, None], nodes, alpha=alpha)
    for u in nodes:
        for v in nodes:
            expected = 0.0 if u == v else np.exp(-alpha * tree.lca_depth(u, v))
            assert np.isclose(found[u, v], expected)
    with pytest.raises(CodeError, match="positive number"):
        code.distance(0, 0, alpha=-1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paper.sparse_activation_path(3, "A"), "expected a fitted classifier, a code or a Tree"),
        (lambda: paper.sparse_activation_path(TREE, "Z"), "'Z'"),
        (lambda: paper.describe_ball(TREE, "A", -1), "k must be a whole number"),
        (lambda: paper.describe_ball(TREE, "A", show=-1), "show must be a whole number"),
        (lambda: paper.describe_ball(TREE, "A", 1.5), "k must be a whole number"),
    ],
)
def test_wrong_arguments_get_one_sentence(call, message):
    with pytest.raises(VpunnError, match=message):
        call()
