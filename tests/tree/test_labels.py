"""Labels to nodes and back: paths of ancestors, other labels on the same shape, and what a person types."""

from __future__ import annotations

import time
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import trees
from vpunn import Tree, TreeError
from vpunn.tree.find import suggestions


@given(trees(), st.data())
def test_paths_are_the_ancestors_of_every_node(tree, data):
    nodes = np.array(data.draw(st.lists(st.integers(0, tree.n_nodes - 1), max_size=20)), dtype=int)
    found = tree.paths(nodes)
    assert found.shape == (len(nodes), tree.max_depth + 1) and found.dtype == np.int64
    for node, row in zip(nodes, found, strict=True):
        chain = tree.ancestors(int(node)).tolist()
        assert row.tolist() == chain + [-1] * (tree.max_depth + 1 - len(chain))


def test_paths_take_any_shape_and_refuse_foreign_nodes():
    tree = Tree.from_parents([-1, 0, 0, 1])
    assert tree.paths(2).tolist() == [0, 1, 2]
    assert tree.paths([[1, 2], [3, 0]]).shape == (2, 2, 3)
    with pytest.raises(TreeError, match="outside this tree"):
        tree.paths([4])


@given(trees())
def test_relabelling_changes_labels_alone(tree):
    named = tree.replace(columns={"weight": np.arange(tree.n_nodes)}, report=["made here"])
    other = named.relabel([f"ball {i}" for i in range(tree.n_nodes)])
    assert other.labels[0] == "ball 0" and other.report == ("made here",)
    assert np.array_equal(other.parent, tree.parent) and np.array_equal(
        other.columns["weight"], np.arange(tree.n_nodes)
    )
    assert other.relabel(tree.labels) == tree


def test_replacing_needs_one_value_per_node():
    tree = Tree.from_parents([-1, 0, 0])
    with pytest.raises(TreeError, match="need one label per node: got 2 labels for 3 nodes"):
        tree.relabel(["a", "b"])
    with pytest.raises(TreeError, match="column 'x' needs one value per node"):
        tree.replace(columns={"x": [1]})


@pytest.fixture(scope="module")
def things():
    return Tree.from_paths(
        ["animal/bird/crane", "animal/bird/owl", "machine/crane", "machine/saw"], sep="/", root="things"
    )


def test_find_tells_namesakes_apart_by_any_end_of_their_paths(things):
    assert things.find("bird/crane") == things.find("things / animal / bird / crane") == things.find(("bird", "crane"))
    assert things.find("machine / crane") == things.locate([("machine", "crane")]).nodes[0]
    assert things.find(["owl", "saw", 0]).tolist() == [things.index("owl"), things.index("saw"), 0]
    with pytest.raises(
        TreeError, match="'crane' names 2 nodes: 'things / animal / bird / crane', 'things / machine / crane'"
    ):
        things.find("crane")
    with pytest.raises(TreeError, match="no node is labelled 'fish/crane'"):
        things.find("fish/crane")
    with pytest.raises(TreeError, match="outside this tree"):
        things.find(99)


@given(trees())
def test_every_node_is_found_by_its_own_path(tree):
    names = [f"n{i}" for i in range(tree.n_nodes)]
    named = tree.relabel(names)
    typed = [" / ".join(map(str, named.path(i))) for i in range(tree.n_nodes)]
    assert named.find(typed).tolist() == list(range(tree.n_nodes))
    same = tree.relabel([i % 2 for i in range(tree.n_nodes)])  # numbers that repeat: never silently one of several
    for i in range(tree.n_nodes):
        with suppress(TreeError):
            assert same.find(same.path(i)) == i


def test_find_reads_numbers_and_readable_names():
    tree = Tree.from_parents([-1, 0, 0], labels=[1, 9605, 9606], columns={"name": ["all", "Homo", "Homo sapiens"]})
    assert tree.find(["9606", 9605, "Homo sapiens", "1/9605"]).tolist() == [2, 1, 2, 1]
    with pytest.raises(TreeError, match="did you mean 'Homo sapiens'"):
        tree.find("homo sapien")
    with pytest.raises(TreeError, match="no node is labelled 2"):
        tree.find(2)


def test_unknown_labels_say_what_was_meant(things):
    for asked, meant in (("brid", "'bird'"), ("Owl", "'owl'"), ("mach", "'machine'"), ("maschine", "'machine'")):
        with pytest.raises(TreeError, match=f"did you mean {meant}"):
            things.index(asked)
    with pytest.raises(TreeError, match="labels of this tree are such as 'things'"):
        things.index("quark")


def test_suggestions_among_millions_of_labels_take_seconds_at_most():
    labels = np.array([f"{chr(97 + i % 26)}{i * 7919 % 1_000_003}-taxon" for i in range(1_000_000)], object)
    tree = Tree.from_parents(np.r_[-1, np.zeros(999_999, int)], labels)
    started = time.process_time()
    assert suggestions(tree, str(labels[77]).replace("taxon", "taxom"))
    assert time.process_time() - started < 10
