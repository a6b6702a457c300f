"""`Tree.locate`, the one door from names to nodes: every kind of column and path, whole numbers as text, and three answers to
what is not in the tree."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import trees
from vpunn import Tree, TreeError, VPuNNRegressor
from vpunn.errors import VpunnError
from vpunn.scale import BallSums, sum_rows
from vpunn.tree import _label_index as label_index

TEXTS = Tree.from_parents([-1, 0, 1, 0], labels=["all", "9605", "9606", "birds"])
NUMBERS = Tree.from_parents([-1, 0, 1, 0], labels=[1, 9605, 9606, 7])
MIXED = Tree.from_parents([-1, 0, 1, 0], labels=["all", 9605, 9606, "7"])

KINDS = {
    "list": list,
    "objects": lambda cells: np.array([*cells, None], object)[:-1],
    "series": pd.Series,
    "categories": pd.Categorical,
    "text of pandas": lambda cells: pd.Series(cells, dtype="string"),
    "arrow": pa.array,
    "large": lambda cells: pa.array(cells, pa.large_string()),
    "slice": lambda cells: pa.array(["x", *cells]).slice(1),
    "chunks": lambda cells: pa.chunked_array([cells[:1], cells[1:]]),
    "dictionary": lambda cells: pa.array(cells).dictionary_encode(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tree", [TEXTS, NUMBERS, MIXED], ids=["texts", "numbers", "mixed"])
@pytest.mark.parametrize("limit", [label_index.DICT_UP_TO, 0], ids=["dict", "bytes"])
def test_text_that_writes_a_number_finds_it_through_every_door(tree, kind, limit, monkeypatch):
    monkeypatch.setattr(label_index, "DICT_UP_TO", limit)
    tree = Tree.from_parents(tree.parent, tree.labels)  # with an index of its own
    column = KINDS[kind](["9606", "9605", "9606"])
    assert tree.locate(column).nodes.tolist() == [2, 1, 2]
    assert tree.index(column).tolist() == [2, 1, 2] and tree.index("9606") == tree.find("9606") == 2
    assert tree.encode_column(column).to_pylist() == [2, 1, 2]
    assert tree.locate([("9605", "9606"), ("9605",)]).nodes.tolist() == [2, 1]
    assert tree.locate(pd.DataFrame({"a": ["9605"], "b": ["9606"]})).nodes.tolist() == [2]
    lost = KINDS[kind](["9606", "nothing", None])
    assert tree.locate(lost, "null").nodes.tolist() == [2, -1, -1]
    nodes, depth = tree.locate(lost, "ancestor")
    assert nodes.tolist() == [2, 0, 0] and depth.tolist() == [2, 2, 0]
    with pytest.raises(TreeError, match="no node is labelled 'nothing'"):
        tree.locate(lost)


@pytest.mark.parametrize(
    "column", [[9606, 9605], np.array([9606, 9605]), [9606.0, 9605.0], pa.array([9606, 9605]), pd.Series([9606, 9605])]
)
@pytest.mark.parametrize("tree", [TEXTS, NUMBERS, MIXED], ids=["texts", "numbers", "mixed"])
@pytest.mark.parametrize("limit", [label_index.DICT_UP_TO, 0], ids=["dict", "bytes"])
def test_a_number_finds_the_text_that_writes_it(tree, column, limit, monkeypatch):
    monkeypatch.setattr(label_index, "DICT_UP_TO", limit)
    tree = Tree.from_parents(tree.parent, tree.labels)
    assert tree.locate(column).nodes.tolist() == [2, 1]
    assert tree.index(9606) == 2 and tree.encode_column(column).to_pylist() == [2, 1]
    assert tree.locate([(9605, 9606), (9605,)]).nodes.tolist() == [2, 1]
    assert tree.locate([2**70, 2.5, True, "9606x"], "null").nodes.tolist() == [-1] * 4
    assert tree.find([3, "9606"] if tree is TEXTS else ["9606", "9606"])[1] == 2


def test_a_number_to_find_is_an_id_where_labels_are_text():
    assert Tree.from_parents([-1, 0, 1], labels=["2", "1", "0"]).find([0, "0", 1]).tolist() == [0, 2, 1]
    assert Tree.from_parents([-1, 0, 1], labels=["2", "1", "0"]).find(0) == 0
    assert MIXED.find([9605, "7"]).tolist() == [1, 3]


def test_every_door_of_the_package_finds_text_of_a_number(tmp_path):
    """`sum_rows` and `BallSums.from_frame` refused what `find` and `encode` found; estimators put it at the root."""
    path = tmp_path / "rows.csv"
    path.write_text("taxon,mass\n9606,70\n9605,60\n9606,80\n", encoding="utf-8")
    sums = sum_rows(NUMBERS, path, label="taxon", y="mass")
    assert sums.n_rows == 3 and sums == BallSums.from_rows(NUMBERS, [2, 1, 2], [70.0, 60.0, 80.0])
    grouped = {"node": ["9606", "9605"], "weight": [2, 1], "sum": [150, 60], "product": [11300, 3600]}
    assert BallSums.from_frame(NUMBERS, grouped).exact
    with pytest.raises(VpunnError, match="no node is labelled '9607'"):
        BallSums.from_frame(NUMBERS, {**grouped, "node": ["9607", "9605"]})
    model = VPuNNRegressor(NUMBERS).fit([["9606"], ["9605"]], [1.0, 2.0])
    assert model.nodes_of(np.array([["9606"], [9605], ["9607"]], object)).tolist() == [2, 1, 0]


@given(trees(), st.data())
def test_locate_is_a_walk_from_the_root(tree, data):
    """Against the obvious walk, with names that repeat, missing ends and steps that lead out of the tree."""
    tree = tree.relabel([f"n{d}" for d in tree.digit.tolist()])  # siblings differ, cousins need not
    steps = st.lists(st.sampled_from(["n1", "n2", "n3", "zz", None]), max_size=4).map(tuple)
    rows = data.draw(st.lists(steps, min_size=1, max_size=8))
    nodes, depth = tree.locate(rows, "ancestor")
    null = tree.locate(rows, "null").nodes
    for row, node, deep, found in zip(rows, nodes.tolist(), depth.tolist(), null.tolist(), strict=True):
        named = list(row)
        while named and named[-1] is None:
            named.pop()
        here = 0
        for name in named:
            below = [i for i in tree.children(here).tolist() if tree.labels[i] == name]
            if not below:
                break
            here = below[0]
        assert (node, deep) == (here, len(named))
        assert found == (here if tree.depth[here] == len(named) else -1)
    if (null < 0).any():
        with pytest.raises(TreeError, match="leaves the tree at step"):
            tree.locate(rows)


@given(trees())
def test_every_node_is_located_by_its_path_and_by_its_label(tree):
    named = tree.relabel([f"n{i}" for i in range(tree.n_nodes)])
    everything = np.arange(tree.n_nodes)
    for labels in (named.labels, named.labels.tolist(), pa.array(named.labels.tolist())):
        nodes, depth = named.locate(labels)
        assert np.array_equal(nodes, everything) and np.array_equal(depth, named.depth)
    assert np.array_equal(named.locate([named.path(i)[1:] for i in range(tree.n_nodes)]).nodes, everything)
    numbered = tree.relabel(everything[::-1] - 3)
    assert np.array_equal(numbered.locate(numbered.labels).nodes, everything)


def test_missing_levels_and_nodes_without_a_name():
    tree = Tree.from_paths([("a", "(missing)", "b"), ("c",)], root="r")
    table = pd.DataFrame({"x": ["a", "c", None, "a"], "y": ["", None, None, None], "z": ["b", np.nan, None, ""]})
    assert tree.locate(table).nodes.tolist() == [3, 4, 0, 1]
    unnamed = Tree.from_parents([-1, 0, 1, 0], labels=["r", None, "x", "y"])
    assert unnamed.locate([(None, "x"), ("y",)]).nodes.tolist() == [2, 3]


def test_namesakes_are_refused_where_they_are_asked_for():
    tree = Tree.from_parents([-1, 0, 0, 1, 2], labels=["r", "a", "b", "x", "x"])
    for limit in (None, "ancestor", "null"):
        with pytest.raises(TreeError, match="'x' names 2 nodes: 'r / a / x', 'r / b / x'"):
            tree.locate(["a", "x"], *([limit] if limit else []))
    assert tree.locate(["a", "b"]).nodes.tolist() == [1, 3]
    assert tree.locate([("b", "x")]).nodes.tolist() == [4]
    with pytest.raises(TreeError, match="'r' has two children named 'a'"):
        Tree.from_parents([-1, 0, 0], labels=["r", "a", "a"]).locate([("a",)])


def test_rows_that_are_none():
    with pytest.raises(TreeError, match="rows must be a list"):
        TEXTS.locate("all")
    with pytest.raises(VpunnError, match="unseen='drop' is unknown; choose one of error, null, ancestor"):
        TEXTS.locate(["all"], "drop")
    with pytest.raises(TreeError, match="rows mix paths and labels"):
        TEXTS.locate([("9605",), "birds"])
    with pytest.raises(TreeError, match="hashable"):
        MIXED.locate([{"a": 1}])
    assert len(TEXTS.locate([]).nodes) == 0


def test_names_are_what_people_call_the_nodes():
    tree = Tree.from_parents([-1, 0, 0, 0], labels=[1, 2, 3, 4], columns={"name": ["all", "", None, "four"]})
    assert tree.names.tolist() == ["all", "2", "3", "four"]
    assert NUMBERS.names.tolist() == ["1", "9605", "9606", "7"] and TEXTS.names is TEXTS.names


def test_whole_floats_are_the_same_labels_however_a_tree_is_made():
    """Equal trees had different fingerprints, so codes stamped on one were refused by the other."""
    edges = Tree.from_edges([(1.0, 2.0), (1.0, 3.0)])
    parents = Tree.from_parents([-1, 0, 0], labels=[1.0, 2.0, 3.0])
    assert edges == parents and edges.fingerprint == parents.fingerprint
    halves = Tree.from_parents([-1, 0], labels=[0.5, 2.0])
    assert halves.labels.tolist() == [0.5, 2.0]
