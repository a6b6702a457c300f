"""Constructors: every accepted form of input, round trips, columns, and one sentence for each kind of bad input."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import linkage

from strategies import trees
from vpunn import _arrays as arrays
from vpunn.errors import TreeError, VpunnError
from vpunn.tree import Tree, build, check_tree
from vpunn.tree.dag import dropped_edges

LABELS = st.one_of(st.text(max_size=4), st.integers(-5, 5), st.tuples(st.integers(0, 2), st.text(max_size=2)))


def edges_of(tree, names=None):
    names = tree.labels.tolist() if names is None else names
    return [(None if tree.parent[i] < 0 else names[tree.parent[i]], names[i]) for i in range(tree.n_nodes)]


def relabelled(tree, names):
    return Tree.from_parents(tree.parent, names)


# ---- edges ---------------------------------------------------------------------------------------------------------


@given(trees(25), st.data())
def test_edges_in_preorder_give_the_tree_back(tree, data):
    names = data.draw(st.lists(LABELS, min_size=tree.n_nodes, max_size=tree.n_nodes, unique=True))
    tree = relabelled(tree, names)
    assert build.tree_from_edges(edges_of(tree)) == tree
    if tree.n_nodes > 1:
        assert build.tree_from_edges(edges_of(tree)[1:]) == tree  # the root needs no row of its own


@given(trees(25), st.data())
def test_shuffled_edges_keep_parents_and_row_order_of_siblings(tree, data):
    rows = data.draw(st.permutations(edges_of(tree)))
    again = build.tree_from_edges([p for p, _ in rows], [c for _, c in rows])
    assert check_tree(again)
    assert sorted(edges_of(again)[1:]) == sorted(edges_of(tree)[1:])
    place = {child: k for k, (_, child) in enumerate(rows)}
    for node in range(again.n_nodes):
        at = [place[int(again.labels[c])] for c in again.children(node)]
        assert at == sorted(at)


def test_all_forms_of_pairs_are_one_tree():
    pairs = [(10, 20), (10, 30), (20, 40)]
    up, down = [10, 10, 20], [20, 30, 40]
    wanted = build.tree_from_edges(pairs)
    frame = pd.DataFrame({"p": [None, *up], "c": [10, *down]})  # the None makes the column float
    assert frame["p"].dtype == float
    for form in (
        (np.array(pairs),),
        (np.array(pairs, object),),
        (frame,),
        (frame.astype("Int64"),),
        (up, down),
        (np.array(up, np.uint8), pd.Series(down, index=list("xyz"))),
        (pd.Series(up, dtype="category"), tuple(down)),
        (iter(pairs),),
        (nx.DiGraph(pairs).edges,),
    ):
        tree = build.tree_from_edges(*form)
        assert tree == wanted
        assert tree.labels.dtype == np.int64


def test_labels_of_mixed_types_do_not_become_text():
    tree = build.tree_from_edges([(1, "1"), (1, (2, 3)), ("1", 2.5)])
    assert tree.labels.tolist() == [1, "1", 2.5, (2, 3)]
    assert tree.index((2, 3)) == 3


def test_strings_in_every_container():
    words = [("r", "a"), ("r", "b")]
    wanted = build.tree_from_edges(words)
    frame = pd.DataFrame(words, columns=["x", "y"])
    for form in (np.array(words), frame, frame.astype("string"), frame.astype("category"), frame.astype(object)):
        assert build.tree_from_edges(form) == wanted


def test_dates_stay_dates():
    days = pd.to_datetime(["2024-01-01", "2024-01-02"])
    tree = build.tree_from_edges([None, days[0]], days, columns={"day": days})
    assert tree.labels.tolist() == tree.columns["day"].tolist() == list(days)
    assert tree.index(days[1]) == 1


def test_single_node():
    assert build.tree_from_edges([None], ["only"]).labels.tolist() == ["only"]


@pytest.mark.parametrize(
    ("parents", "children", "options", "message"),
    [
        (["a", "b"], ["c"], {}, "got 2 parents and 1 children"),
        ([], [], {}, "there are no edges"),
        (["a", "a"], ["b", None], {}, r"child is missing \(row 1, counted"),
        (["a", "a"], ["b", float("nan")], {}, r"child is missing \(row 1, counted"),
        (
            ["a", "x", "y"],
            ["b", "x", "y"],
            {},
            r"'x', 'y' are their own parent \(row 1, 2, counted from 0\); correct it, or pass self_parents='root'",
        ),
        (["a", "x"], ["b", "y"], {}, r"2 nodes have no parent \('a', 'x'\).*add_root='…'.*root='a'"),
        ([None, None], ["b", "y"], {}, r"2 nodes have no parent \('b', 'y'\)"),
        ([None, "r", "gone"], ["r", "a", "b"], {}, r"1 parent has no row as a child \('gone'\) while the root is 'r'"),
        (["a", "b"], ["b", "a"], {}, "cycle, written from child to parent: b → a → b"),
        ([None, "a", "b"], ["r", "b", "a"], {"add_root": "x"}, "cycle"),
        ([None, "r", "a"], ["a", "a", "b"], {}, "'a' is marked as a root .* but also has a parent"),
        (["r", "r"], ["a", "a"], {"duplicates": "error"}, r"1 edges are repeated \('r' → 'a'; row 1, counted from 0\)"),
        (["r", "x"], ["a", "y"], {"add_root": "y"}, "add_root='y' is already the name"),
        (["r"], ["a"], {"root": "z"}, "the root 'z' is not a node"),
        (["r"], ["a"], {"root": "r", "add_root": "z"}, "pass one of them"),
        (["r"], ["a"], {"duplicates": "maybe"}, "duplicates='maybe' is unknown; choose one of drop, error"),
        (["r"], ["a"], {"self_parents": "x"}, "self_parents='x' is unknown"),
        ([["r"]], ["a"], {}, r"labels must be hashable, such as text, numbers or tuples, got \['r'\]"),
        (["r"], ["a"], {"columns": {"w": [1, 2]}}, "column 'w' needs one value per input row: got 2 for 1 rows"),
    ],
)
def test_bad_edges_are_one_sentence(parents, children, options, message):
    with pytest.raises(VpunnError, match=message):
        build.tree_from_edges(parents, children, **options)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["ab", "cd"], "must be .parent, child. pairs, got 'ab', 'cd'"),
        ([("a", "b", "c")], "pairs, got"),
        ([1, 2], "pairs, got 1, 2"),
        (pd.DataFrame({"a": [1], "b": [2], "c": [3]}), "needs two columns, parent and child, got 'a', 'b', 'c'"),
        (np.zeros((3, 3)), r"needs the shape \(n, 2\), one .* per row, got \(3, 3\)"),
        (5, "pairs or two sequences, got 5"),
        (None, "pairs or two sequences, got None"),
        ("ab", "pairs or two sequences, got 'ab'"),
    ],
)
def test_bad_pairs(pairs, message):
    with pytest.raises(TreeError, match=message):
        build.tree_from_edges(pairs)


@given(st.lists(LABELS | st.sampled_from([1, 1.0, True, "1", (1, "a"), (1.0, "a")]), max_size=30))
def test_few_labels_are_numbered_like_many(labels):
    """Below `arrays.PANDAS_FROM` a dict does it, above it pandas."""
    array = arrays.object_array(labels)
    codes, distinct = arrays.number_labels(array)
    many, names = arrays.number_labels(np.concatenate([array, np.full(arrays.PANDAS_FROM, "filler", object)]))
    assert codes.tolist() == many[: len(labels)].tolist()
    assert distinct.tolist() == names[: len(distinct)].tolist()


@pytest.mark.parametrize("n", [1, arrays.PANDAS_FROM])
def test_unhashable_labels(n):
    for label in (["a"], ("a", ["b"])):
        with pytest.raises(TreeError, match="labels must be hashable, such as text, numbers or tuples, got"):
            arrays.number_labels(arrays.object_array([label] * n))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parents": 5}, "a sequence with one label for each row or node, got 5"),
        ({"parents": "ab"}, "a sequence with one label for each row or node, got 'ab'"),
        ({"columns": 5}, "a dict from names to values, or a DataFrame, got 5"),
        ({"columns": {"size": 5}}, "column 'size' needs one value per input row, got 5"),
        ({"max_nodes": "many"}, "max_nodes='many' must be a number"),
    ],
)
def test_bad_edge_options(options, message):
    with pytest.raises(TreeError, match=message):
        build.tree_from_edges(**{"parents": ["a", "a"], "children": ["b", "c"]} | options)


def test_named_options_repair():
    assert build.tree_from_edges(["r", "r"], ["r", "a"], self_parents="root").labels.tolist() == ["r", "a"]
    twice = build.tree_from_edges([("r", "a"), ("r", "a"), ("a", "b"), ("r", "a")])
    assert twice.labels.tolist() == ["r", "a", "b"]
    assert twice.report == ("dropped 2 repeated edges: 'r' → 'a', 'r' → 'a'",)
    assert dropped_edges(twice)["reason"].tolist() == ["repeated", "repeated"]
    forest = [("b", "c"), (None, "a"), ("x", "y")]
    joined = build.tree_from_edges(forest, add_root="top")
    assert [joined.labels[i] for i in joined.children(0)] == ["b", "a", "x"]
    assert build.tree_from_edges([("a", "b")], add_root="top").labels.tolist() == ["a", "b"]
    assert build.tree_from_edges([(1, 2), (3, 4)], add_root=0).labels.dtype == np.int64
    part = build.tree_from_edges([("b", "c"), ("x", "y"), ("x", "c"), ("up", "b")], root="b")
    assert part.labels.tolist() == ["b", "c"]
    assert part.report == (
        "kept the 2 of 5 nodes that are 'b' or lie below it",
        "dropped 1 edges from nodes outside 'b': 'x' → 'c'",
    )


def test_columns_follow_the_kept_edge_and_the_label():
    parents, children = [None, "r", "r", "a"], ["r", "a", "d", "d"]
    length = [0, 1, 2, 3]
    names = {"a": "Anna", "d": "Dora"}
    first = build.tree_from_edges(parents, children, columns={"length": length, "name": names})
    assert first.labels.tolist() == ["r", "a", "d"]
    assert first.columns["length"].tolist() == [0, 1, 2]
    assert first.columns["name"].tolist() == [None, "Anna", "Dora"]
    deep = build.tree_from_edges(parents, children, policy="deepest", columns={"length": length})
    assert deep.columns["length"].tolist() == [0, 1, 3]
    unfolded = build.tree_from_edges(parents, children, policy="unfold", columns={"length": length, "name": names})
    assert unfolded.columns["length"].tolist() == [0, 1, 3, 2]
    assert unfolded.columns["name"].tolist() == [None, "Anna", "Dora", "Dora"]
    frame = pd.DataFrame({"size": [7, 8], "ok": [True, False]}, index=["d", "a"])
    by_label = build.tree_from_edges(parents, children, columns=frame)
    np.testing.assert_equal(by_label.columns["size"], [np.nan, 8, 7])
    assert by_label.columns["ok"].tolist() == [None, False, True]
    forest = build.tree_from_edges([None, None, "x"], ["a", "x", "y"], add_root="top", columns={"w": [1, 2, 3]})
    np.testing.assert_equal(forest.columns["w"], [np.nan, 1, 2, 3])
    below = build.tree_from_edges([None, "r", "a"], ["r", "a", "b"], root="a", columns={"w": [1, 2, 3]})
    assert below.labels.tolist() == ["a", "b"]
    assert below.columns["w"].tolist()[1] == 3
    with pytest.raises(TreeError, match="index of columns must name each node once, but 'a' is repeated"):
        build.tree_from_edges(parents, children, columns=pd.DataFrame({"x": [1, 2]}, index=["a", "a"]))


# ---- paths and levels ------------------------------------------------------------------------------------------------


@given(trees(25), st.data())
def test_paths_give_the_tree_back(tree, data):
    """Names may repeat anywhere but among siblings."""
    names = [data.draw(LABELS) for _ in range(tree.n_nodes)]
    seen = set()
    for i in range(tree.n_nodes):
        while (tree.parent[i], names[i]) in seen:
            names[i] = (names[i], "again")
        seen.add((tree.parent[i], names[i]))
    tree = relabelled(tree, names)
    paths = [tree.path(i) for i in range(tree.n_nodes)]
    assert build.tree_from_paths(paths) == tree
    assert build.tree_from_paths([paths[i] for i in tree.leaves]) == tree
    under = build.tree_from_paths(paths, root="top")
    assert under.subtree(1) == tree
    assert under.labels[0] == "top"
    assert build.tree_from_paths([path[1:] for path in paths], root=names[0]) == tree


@given(st.lists(st.lists(st.sampled_from("ab"), max_size=4), max_size=30))
def test_paths_are_the_set_of_prefixes(paths):
    tree = build.tree_from_paths(paths, root="·")
    prefixes = dict.fromkeys(tuple(path[:k]) for path in paths for k in range(len(path) + 1))
    found = {tree.path(i)[1:] for i in range(tree.n_nodes)}
    assert found == set(prefixes) | {()}
    assert tree.n_nodes == len(found)


def test_the_trie_table_grows():
    rng = np.random.default_rng(0)
    rows = [tuple(row) for row in rng.integers(0, 30, (20_000, 3)).tolist()]
    tree = build.tree_from_paths(rows, root=-1)
    assert tree.n_nodes == 1 + sum(len({row[:k] for row in rows}) for k in (1, 2, 3))
    ids = tree.locate(rows).nodes
    assert [tree.path(i)[1:] for i in ids[:50]] == rows[:50]


def test_separated_strings():
    tree = build.tree_from_paths(["/a/b/", "a/c", "a"], sep="/", columns={"w": [1.5, 2.5, 0.5]})
    assert tree.labels.tolist() == ["a", "b", "c"]
    assert tree.columns["w"].tolist() == [0.5, 1.5, 2.5]
    assert build.tree_from_paths(["a::b"], sep="::").labels.tolist() == ["a", "b"]
    assert build.tree_from_paths(["", "/"], sep="/", root="r").labels.tolist() == ["r"]
    np.testing.assert_equal(build.tree_from_paths(["a/b"], sep="/", columns={"w": [1]}).columns["w"], [np.nan, 1])


@pytest.mark.parametrize(
    ("paths", "options", "message"),
    [
        (["a/b"], {}, "got strings as paths .'a/b'.; pass sep='/'"),
        ([("a", "b")], {"sep": "/"}, "every path must be a string, got"),
        (pd.DataFrame({"genus": ["Mus"]}), {}, r"a table with the columns 'genus'; Tree.from_levels\(table\)"),
        (["a//b"], {"sep": "/"}, "'a//b' has an empty label between"),
        (["a"], {"sep": ""}, "sep='' cannot separate"),
        (["a"], {"sep": 5}, "sep=5 cannot separate"),
        (5, {}, "paths must be a list of paths, each a sequence of labels, got 5"),
        ("a/b", {"sep": "/"}, "paths must be a list of paths, each a sequence of labels, got 'a/b'"),
        ([("a", "b"), 5], {}, "a path must be a sequence of labels from the root down, got 5"),
        ([["a"], ["b"]], {}, r"start with 2 different labels \('a', 'b'\).*root='…'"),
        ([["a"], []], {}, r"include an empty one \(number 1\)"),
        ([], {}, "there are no paths"),
        ([["a"], ["a", None]], {}, r"path 1 has a missing label: \('a', None\)"),
    ],
)
def test_bad_paths_are_one_sentence(paths, options, message):
    with pytest.raises(TreeError, match=message):
        build.tree_from_paths(paths, **options)


@given(trees(25))
def test_levels_give_the_tree_back(tree):
    tree = relabelled(tree, [f"n{i}" for i in range(tree.n_nodes)])
    rows = [tree.path(i) for i in tree.leaves]
    frame = pd.DataFrame([list(row) + [None] * (tree.max_depth + 1 - len(row)) for row in rows])
    assert build.tree_from_levels(frame, root=None) == tree
    assert Tree.from_levels(frame, list(frame.columns), root="top").subtree(1) == tree


def test_levels_stop_skip_and_complain():
    frame = pd.DataFrame(
        {"order": ["R", "R", None], "family": ["F", np.nan, ""], "genus": ["G", "H", None], "mass": [1, 2, 3]},
        index=["x", "y", "z"],
    )
    levels = ["order", "family", "genus"]
    with pytest.raises(
        TreeError, match="1 row has a label below a missing one, such as row 'y', where 'family' is missing"
    ):
        build.tree_from_levels(frame, levels)
    tree = build.tree_from_levels(frame, levels, gaps="skip", root="life")
    assert [tree.path(i) for i in tree.leaves] == [("life", "R", "F", "G"), ("life", "R", "H")]
    assert build.tree_from_levels(frame[["order"]]).labels.tolist() == ["root", "R"]
    with pytest.raises(TreeError, match="no level column 'tribe' in the table, which has 'order', 'family'"):
        build.tree_from_levels(frame, ["tribe"])
    with pytest.raises(TreeError, match="at least one level column"):
        build.tree_from_levels(frame, [])
    for columns in (5, "order"):
        with pytest.raises(TreeError, match=f"columns must be a list of level columns, got {columns!r}"):
            build.tree_from_levels(frame, columns)
    with pytest.raises(
        TreeError, match=r"needs a table \(pandas, polars, Arrow\), got \[\['R', 'F'\]\]; from_paths takes plain rows"
    ):
        build.tree_from_levels([["R", "F"]])
    with pytest.raises(VpunnError, match="gaps='no' is unknown; choose one of error, skip, fill"):
        build.tree_from_levels(frame, levels, gaps="no")


def test_level_columns_of_numbers_keep_them():
    tree = build.tree_from_levels(pd.DataFrame({"year": [2020, 2020, 2021], "month": [1, 2, None]}), root=0)
    assert tree.labels.tolist() == [0, 2020, 1, 2, 2021]
    assert tree.labels.dtype == np.int64


# ---- networkx and linkage --------------------------------------------------------------------------------------------


def test_networkx_attributes_become_columns():
    graph = nx.DiGraph([("r", "a"), ("r", "b"), ("a", "d"), ("b", "d")])
    graph.nodes["a"]["name"] = "Anna"
    graph.nodes["d"]["weight"] = 3
    tree = Tree.from_networkx(graph, policy="first")
    assert tree.labels.tolist() == ["r", "a", "d", "b"]
    assert tree.columns["name"].tolist() == [None, "Anna", None, None]
    np.testing.assert_equal(tree.columns["weight"], [np.nan, np.nan, 3, np.nan])
    assert dropped_edges(tree)["parent"].tolist() == ["b"]
    named = Tree.from_networkx(graph, label="name")
    assert named.labels.tolist() == [None, "Anna", None, None]
    assert "name" not in named.columns
    single = nx.DiGraph()
    single.add_node("only")
    assert Tree.from_networkx(single).labels.tolist() == ["only"]
    undirected, nothing = nx.Graph([(1, 2)]), nx.DiGraph()
    for bad, message in (
        (undirected, "undirected graph"),
        (nothing, "graph is empty"),
        (None, "networkx.DiGraph.*got None"),
    ):
        with pytest.raises(TreeError, match=message):
            Tree.from_networkx(bad)
    with pytest.raises(TreeError, match="no node attribute is called 'title'"):
        Tree.from_networkx(graph, label="title")
    with pytest.raises(TreeError, match="2 nodes have no parent"):
        Tree.from_networkx(nx.DiGraph([(1, 2), (3, 4)]))


def test_linkage_merges_become_nodes():
    points = np.random.default_rng(1).normal(size=(12, 2))
    table = linkage(points, "average")
    tree = Tree.from_linkage(table)
    assert (tree.n_nodes, tree.n_leaves) == (23, 12)
    assert sorted(tree.labels[tree.leaves]) == list(range(12))
    for row, (a, b, height, count) in enumerate(table):
        node = tree.index(12 + row)
        assert tree.labels[tree.children(node)].tolist() == [a, b]
        assert tree.columns["height"][node] == height
        assert tree.leaf_counts[node] == count
    named = Tree.from_linkage(table, labels=[f"x{i}" for i in range(12)])
    assert named.labels[named.index("x3")] == "x3"
    assert np.array_equal(named.parent, tree.parent)
    with pytest.raises(TreeError, match="got 2 labels for 12 observations"):
        Tree.from_linkage(table, labels=["a", "b"])
    with pytest.raises(TreeError, match="one label for each row or node, got 12"):
        Tree.from_linkage(table, labels=12)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[0, 1, 2]], r"rows \(cluster, cluster, height, observations\) of numbers, got shape \(1, 3\)"),
        ("x", "of numbers, got 'x'"),
        (None, "of numbers, got None"),
        ([], r"of numbers, got \[\]"),
        ([[0, 1, 1, 2], [2]], r"of numbers, got \[\[0, 1, 1, 2\], \[2\]\]"),
        ([[0, 1, 1j, 2]], "of numbers, got"),
        ([[0, 0, 1, 2]], r"row 0 merges a cluster that is merged twice: \[0, 0, 1, 2\]"),
        ([[0, 1, 1, 2], [1, 3, 2, 3]], r"row 0 merges a cluster that is merged twice: \[0, 1, 1, 2\] \(2 such rows\)"),
        ([[0.5, 1, 1, 2]], r"row 0 merges clusters that do not exist yet .*: \[0.5, 1, 1, 2\]"),
        ([[0, 5, 1, 2]], r"clusters that do not exist yet .*: \[0, 5, 1, 2\]"),
        ([[-1, 1, 1, 2]], "clusters that do not exist yet"),
        ([[np.nan, 1, 1, 2]], "clusters that do not exist yet"),
        ([[0, 1, 1, 2], [2, 4, 1, 2]], "row 1 merges clusters that do not exist yet"),
        ([[0, 1, np.nan, 2]], "row 0 merges at a height that is not a finite number ≥ 0"),
        ([[0, 1, np.inf, 2]], "not a finite number ≥ 0"),
        ([[0, 1, -1, 2]], "not a finite number ≥ 0"),
        ([[0, 1, 1, 3]], "says 3 for cluster 2, which holds 2"),
        ([[0, 1, 1, 2], [2, 3, 2, np.nan]], "says nan for cluster 4, which holds 3"),
    ],
)
def test_what_is_no_linkage_matrix(table, message):
    with pytest.raises(TreeError, match=message):
        Tree.from_linkage(table)


def test_linkage_with_inversions_is_kept():
    """Centroid linkage of an equilateral triangle: the last merge stands lower than the first."""
    table = linkage([[0, 0], [1, 0], [0.5, 0.87]], "centroid")
    assert table[1, 2] < table[0, 2]
    tree = Tree.from_linkage(table)
    assert tree.columns["height"].tolist() == [table[1, 2], 0, table[0, 2], 0, 0]
