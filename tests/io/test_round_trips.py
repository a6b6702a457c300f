"""Files: round trips of awkward names, columns and shapes in every format."""

import json

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import is_valid_linkage, linkage

from shapes import from_text as text
from strategies import trees
from vpunn.errors import TreeError
from vpunn.io import read_tree, write_tree
from vpunn.io.nested import parse_deep
from vpunn.tree import Tree
from vpunn.tree.build import tree_from_edges
from vpunn.tree.convert import tree_from_linkage, tree_from_networkx
from vpunn.tree.unnamed import with_names

# Everything text can hold, with the marks that the formats use themselves over-represented.
NAMES = st.text(
    st.one_of(
        st.sampled_from("'\"(),:;[]{}\t\r\n \\/|=_0a"),
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
    ),
    max_size=6,
)


@st.composite
def named_trees(draw, names=NAMES, max_nodes=15):
    tree = draw(trees(max_nodes))
    labels = draw(st.lists(names, min_size=tree.n_nodes, max_size=tree.n_nodes))
    return Tree.from_parents(tree.parent, labels)


def through(tree, format, folder, **options):
    """Write and read back."""
    path = folder / f"tree.{format}"
    write_tree(tree, path, format=format)
    return read_tree(path, format=format, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("trees")


@pytest.mark.parametrize("format", ["newick", "json", "csv", "tsv", "parquet"])
def test_any_names_survive(format, folder):
    @given(named_trees())
    def check(tree):
        options = {"numbers": False} if format in ("csv", "tsv") else {}
        named = with_names(tree) if format == "newick" else tree  # its readers name what has no name
        assert through(tree, format, folder, **options) == named

    check()


@pytest.mark.parametrize("format", ["newick", "json", "csv", "tsv", "parquet"])
def test_whole_numbers_survive_as_labels(format, folder):
    options = {"numbers": True} if format == "newick" else {}

    @given(named_trees(st.integers(-(2**62), 2**62)))
    def check(tree):
        again = through(tree, format, folder, **options)
        assert again == tree
        assert again.labels.dtype == np.int64

    check()


@pytest.mark.parametrize("labels", [[("a", "b"), ("c", "d")], ["a", frozenset("b")], ["a", b"b"]])
@pytest.mark.parametrize("format", ["newick", "json", "csv", "tsv", "parquet"])
def test_labels_that_files_cannot_hold(format, labels, tmp_path):
    tree = Tree.from_parents([-1, 0], labels)
    with pytest.raises(
        TreeError, match="labels must be text or numbers to be written to a file, got .*; make a tree with"
    ):
        write_tree(tree, tmp_path / "x", format=format)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("format", ["json", "csv", "tsv", "parquet"])
def test_columns_survive(format, folder):
    @settings(max_examples=50)
    @given(trees(12), st.data())
    def check(tree, data):
        def column(values):
            return data.draw(st.lists(values, min_size=tree.n_nodes, max_size=tree.n_nodes))

        # The first node has a value everywhere: a column without any is text to a text file, and nothing to JSON.
        columns = {
            "number": np.array([0.5, *column(st.floats(allow_nan=True))[1:]], float),
            "whole": np.array(column(st.integers(-(2**53), 2**53)), np.int64),
            "truth": np.array(column(st.booleans())),
            "text, with: marks": np.array(["x" + x for x in column(NAMES)], object),
            "some text": np.array(["x", *(x and "x" + x for x in column(st.none() | NAMES)[1:])], object),
        }
        again = through(Tree.from_parents(tree.parent, columns=columns), format, folder).columns
        assert set(again) == set(columns)
        for name, values in columns.items():
            np.testing.assert_array_equal(again[name], values)
            assert again[name].dtype.kind == values.dtype.kind

    check()


@given(named_trees(), st.data())
def test_newick_keeps_lengths_and_comments(tree, data):
    lengths = data.draw(st.lists(st.floats(allow_nan=True), min_size=tree.n_nodes, max_size=tree.n_nodes))
    note = st.none() | st.sampled_from(["&R", "a[b]c", "'(", ""])
    notes = data.draw(st.lists(note, min_size=tree.n_nodes, max_size=tree.n_nodes))
    made = Tree.from_parents(tree.parent, tree.labels, columns={"length": lengths, "comment": np.array(notes, object)})
    again = text(made.to_newick(), format="newick")
    assert again == with_names(tree)
    np.testing.assert_array_equal(again.columns.get("length", np.full(tree.n_nodes, np.nan)), lengths)
    assert again.columns.get("comment", np.full(tree.n_nodes, None)).tolist() == notes


@given(named_trees())
def test_networkx_there_and_back(tree):
    graph = tree.to_networkx()
    assert nx.is_arborescence(graph)
    assert tree_from_networkx(graph, label="label") == tree


@given(st.integers(2, 30), st.integers(0, 2**32), st.sampled_from(["single", "average", "ward"]))
def test_linkage_there_and_back(n, seed, method):
    table = linkage(np.random.default_rng(seed).normal(size=(n, 2)), method)
    tree = tree_from_linkage(table)
    again = tree.to_linkage()
    assert is_valid_linkage(again)
    np.testing.assert_array_equal(again[:, 2:], table[:, 2:])
    # observation k of the new matrix is leaf k: translate back and compare every merge
    leaf = tree.labels[tree.leaves]
    ids = np.concatenate([leaf, np.arange(n, 2 * n - 1)])
    np.testing.assert_array_equal(ids[again[:, :2].astype(int)], table[:, :2])


def test_linkage_without_heights_and_of_other_trees():
    tree = tree_from_edges([("r", "a"), ("r", "x"), ("a", "b"), ("a", "c")])
    assert tree.to_linkage().tolist() == [[0, 1, 1, 2], [3, 2, 2, 3]]
    assert tree_from_linkage(tree.to_linkage(), ["b", "c", "x"]).n_leaves == 3
    with pytest.raises(TreeError, match=r"1 nodes have another number of children than two \('r'\).*collapse_unary"):
        tree_from_edges([("r", "a"), ("r", "x"), ("r", "b")]).to_linkage()
    with pytest.raises(TreeError, match="a single node"):
        Tree.from_parents([-1]).to_linkage()
    with pytest.raises(TreeError, match="does not decrease towards the root, which fails at 0"):
        Tree.from_parents([-1, 0, 0, 1, 1], columns={"height": [1.0, 2, 0, 0, 0]}).to_linkage()


def test_frame_has_one_row_per_node():
    tree = Tree.from_parents([-1, 0, 0], labels=["r", "a", "b"], columns={"w": [1.5, 2.5, 3.5]})
    frame = tree.to_frame()
    assert frame.columns.tolist() == ["id", "label", "parent", "depth", "size", "digit", "w"]
    assert frame["w"].tolist() == [1.5, 2.5, 3.5]
    assert (
        Tree.from_edges(frame["parent"].where(frame["parent"] >= 0), frame["id"]).parent.tolist()
        == tree.parent.tolist()
    )
    with pytest.raises(TreeError, match="uses the name 'depth' itself; rename"):
        Tree.from_parents([-1], columns={"depth": [1]}).to_frame()


SHAPES = {
    "path": lambda n: np.arange(-1, n - 1),
    "star": lambda n: np.where(np.arange(n) == 0, -1, 0),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("format", ["newick", "csv", "parquet"])
def test_a_million_nodes_deep_or_wide(shape, format, tmp_path):
    tree = Tree.from_parents(SHAPES[shape](1_000_000))
    again = through(tree, format, tmp_path)
    assert np.array_equal(again.parent, tree.parent)
    assert again.labels[-1] == ("999999" if format == "newick" else 999_999)


@pytest.mark.parametrize("shape", SHAPES)
def test_json_of_any_depth(shape, tmp_path):
    tree = Tree.from_parents(SHAPES[shape](100_000))
    assert through(tree, "json", tmp_path) == tree


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | NAMES,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
        max_leaves=20,
    )
)
def test_deep_parser_agrees_with_json(value):
    assert parse_deep(json.dumps(value)) == value
    assert parse_deep(json.dumps(value, indent=1, ensure_ascii=False)) == value


@given(st.text(st.sampled_from('[]{}",:01.e- tnf\\'), max_size=8))
def test_deep_parser_refuses_what_json_refuses(content):
    try:
        wanted, position = json.loads(content), None
    except json.JSONDecodeError as error:
        wanted, position = None, error.pos
    if position is None:
        assert parse_deep(content) == wanted
    else:
        with pytest.raises(json.JSONDecodeError) as caught:
            parse_deep(content)
        assert caught.value.pos == position
