"""Extra parents: what trees keep of graphs, against slow obvious twins on small random graphs."""

import pickle
import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vpunn
from strategies import parent_arrays
from vpunn.errors import CodeChangeWarning, DataError, DataWarning, TreeError
from vpunn.tree import Tree, check_tree
from vpunn.tree.dag import dropped_edges


@st.composite
def graphs(draw, max_nodes: int = 14) -> Tree:
    """A tree with extra edges from earlier to later positions of a topologically ordered parent array."""
    parent = draw(parent_arrays(max_nodes))
    n = len(parent)
    lists = [draw(st.lists(st.integers(0, i - 1), max_size=2)) if i else [] for i in range(n)]
    start = np.concatenate([[0], np.cumsum([len(x) for x in lists])])
    return Tree.from_parents(parent, extra_parents=(start, np.array([u for x in lists for u in x], int)))


def edges_of(tree: Tree) -> set[tuple[int, int]]:
    start, ids = tree.extra_parents
    extra = {(int(u), c) for c in range(tree.n_nodes) for u in ids[start[c] : start[c + 1]]}
    assert len(extra) == tree.n_extra
    return extra | {(int(tree.parent[c]), c) for c in range(1, tree.n_nodes)}


def labelled_edges(tree: Tree) -> set[tuple[object, object]]:
    return {(tree.labels[u], tree.labels[c]) for u, c in edges_of(tree)}


def above(tree: Tree, node: int) -> set[int]:
    found = {node}
    for u, c in edges_of(tree):
        if c == node:
            found |= above(tree, u)
    return found


def paths_to(tree: Tree, node: int) -> set[tuple[int, ...]]:
    if node == 0:
        return {(0,)}
    return {(*path, node) for u, c in edges_of(tree) if c == node for path in paths_to(tree, u)}


@given(graphs())
def test_closure_counts_paths_and_order(tree):
    place = np.argsort(tree.topological)
    assert all(place[u] < place[c] for u, c in edges_of(tree))
    start, ids = tree.closure([[i] for i in range(tree.n_nodes)])
    sets = [set(ids[start[i] : start[i + 1]].tolist()) for i in range(tree.n_nodes)]
    assert sets == [above(tree, i) for i in range(tree.n_nodes)]
    assert tree.ball_counts().tolist() == [sum(i in s for s in sets) for i in range(tree.n_nodes)]
    for node in range(tree.n_nodes):
        found = tree.root_paths(node, limit=10**6)
        assert len(found) == len(set(found)) and set(found) == paths_to(tree, node)
        assert found[0] == tuple(tree.ancestors(node).tolist())
        assert tree.longest_depth[node] == max(map(len, found)) - 1
        assert set(tree.all_ancestors(node).tolist()) == sets[node]
        assert tree.all_ancestors(node)[0] == 0 and tree.all_ancestors(node)[-1] == node


@given(graphs(9), st.data())
def test_distance_of_sets_is_the_least_over_pairs_of_codes(tree, data):
    some = st.lists(st.lists(st.integers(0, tree.n_nodes - 1), min_size=1, max_size=3), min_size=2, max_size=2)
    u, v = data.draw(some), data.draw(some)
    found, p = tree.set_distance(u, v, p=3), 3.0
    for a, b, distance in zip(u, v, found, strict=True):
        best = np.inf
        codes = ([path for node in side for path in paths_to(tree, node)] for side in (a, b))
        for x, y in product(*codes):
            shared = next((k for k in range(min(len(x), len(y))) if x[k] != y[k]), min(len(x), len(y)))
            best = min(best, 0.0 if x == y else p ** -(shared - 1))
        assert distance == pytest.approx(best, rel=1e-14)
    assert np.isnan(tree.set_distance([[]], [[0]]))[0]


def test_distance_of_sets_is_not_ultrametric_and_single_nodes_are():
    tree = Tree.from_parents([-1, 0, 0])
    (ab, bc, ac) = tree.set_distance([[1], [1, 2], [1]], [[1, 2], [2], [2]])
    assert ac > ab + bc  # not even the triangle inequality
    plain = Tree.from_parents([-1, 0, 0, 1, 1, 2, 2, 3])
    n = plain.n_nodes
    i, j = (x.ravel() for x in np.meshgrid(range(n), range(n)))
    d = plain.set_distance([[a] for a in i], [[b] for b in j], p=2).reshape(n, n)
    assert np.array_equal(d, np.where(np.eye(n), 0, 2.0 ** -plain.lca_depth_matrix(np.arange(n)).astype(float)))
    assert (d[:, None, :] <= np.maximum(d[:, :, None], d[None])).all()


@given(graphs())
def test_reshaping_keeps_the_edges(tree):
    edges = labelled_edges(tree)
    assert labelled_edges(tree.canonical()) == edges
    assert tree.relabel(tree.labels.tolist()) == tree and pickle.loads(pickle.dumps(tree)) == tree
    with warnings.catch_warnings(action="ignore", category=CodeChangeWarning):
        grown = tree.insert([0, tree.n_nodes - 1], ["x", "y"])
    assert labelled_edges(grown) - edges == {(tree.labels[0], "x"), (tree.labels[-1], "y")}
    for node in range(tree.n_nodes):
        part = tree.subtree(node)
        inside = set(tree.labels[tree.slice(node)].tolist())
        assert labelled_edges(part) == {(u, c) for u, c in edges if {u, c} <= inside and c != tree.labels[node]}
        assert check_tree(part)


@given(graphs())
def test_collapsing_keeps_who_is_above_whom(tree):
    small = tree.collapse_unary()
    assert check_tree(small)
    names = small.labels.tolist()
    for node in small.leaves.tolist():
        old = tree.labels[sorted(above(tree, int(np.flatnonzero(tree.labels == small.labels[node])[0])))].tolist()
        assert set(small.labels[sorted(above(small, node))].tolist()) == set(old) & set(names)


@given(graphs())
def test_tables_json_graphs_and_folders_keep_extra_parents(tmp_path_factory, tree):
    folder = tmp_path_factory.mktemp("trees")
    tree = tree.relabel([f"n{i}" for i in range(tree.n_nodes)])
    for name in ("tree.csv", "tree.json", "tree.parquet"):
        vpunn.write_tree(tree, folder / name)
        assert vpunn.read_tree(folder / name) == tree, name
    tree.save(folder / "saved")
    assert Tree.load(folder / "saved") == tree
    assert Tree.from_networkx(tree.to_networkx(), label="label") == tree
    if tree.n_extra:
        with pytest.warns(DataWarning, match="extra parents are left out"):
            tree.to_newick()
        plain = Tree.from_parents(tree.parent, tree.labels)
        assert plain != tree and plain.fingerprint != tree.fingerprint


def test_graphs_keep_what_the_policy_drops():
    edges = [("thing", "pet"), ("thing", "mammal"), ("mammal", "dog"), ("pet", "dog"), ("thing", "dog")]
    for policy in ("first", "deepest", "most-specific"):
        tree = Tree.from_edges(edges, policy=policy)
        assert labelled_edges(tree) == set(edges)
        assert len(dropped_edges(tree)) == tree.n_extra == 2
    assert Tree.from_edges(edges, policy="unfold").n_extra == 0
    assert Tree.from_edges(edges[:2]).n_extra == 0


def test_bad_extra_parents_are_refused(tmp_path):
    with pytest.raises(TreeError, match="cycle.*→"):
        Tree.from_parents([-1, 0, 1], extra_parents=([0, 0, 1, 1], [2]))
    with pytest.raises(TreeError, match="cycle"):
        Tree.from_parents([-1, 0, 1], extra_parents=([0, 0, 1, 1], [1]))
    with pytest.raises(TreeError, match="cycle"):
        Tree.from_parents([-1, 0, 1], extra_parents=([0, 1, 1, 1], [1]))
    with pytest.raises(TreeError, match="outside"):
        Tree.from_parents([-1, 0], extra_parents=([0, 0, 1], [7]))
    for wrong in (([0, 1], [0]), ([0, 2, 1], [0]), 3, ([0, 0, 1], ["a"])):
        with pytest.raises(TreeError, match="extra_parents is"):
            Tree.from_parents([-1, 0], extra_parents=wrong)
    assert Tree.from_parents([-1, 0, 0], extra_parents=([0, 0, 0, 2], [0, 0])).n_extra == 0  # says nothing new
    (tmp_path / "bad.json").write_text('{"name": "a", "children": [{"name": "b", "extra_parents": "x"}]}')
    with pytest.raises(DataError, match="extra parents of node 1"):
        vpunn.read_tree(tmp_path / "bad.json")
    parent = Tree.from_parents([-1, 0, 1, 2])
    draft = parent.draft()
    draft.array("extra_start", np.array([0, 0, 1, 1, 1], np.int64))
    draft.array("extra_parents", np.array([3], np.int32))
    draft.write(tmp_path / "cyclic")
    with pytest.raises(DataError, match="extra parents.*cycle"):
        Tree.load(tmp_path / "cyclic")


def test_many_paths_are_counted_before_they_are_walked():
    layers = 60  # two nodes a layer, all joined: 2^59 paths to a node of the last one
    edges = [("top", "a0"), ("top", "b0")]
    for k in range(layers - 1):
        edges += [(f"{u}{k}", f"{v}{k + 1}") for u in "ab" for v in "ab"]
    tree = Tree.from_edges(edges)
    with pytest.raises(TreeError, match=r"has about 5.8e\+17 paths from the root, more than limit=1,000"):
        tree.root_paths(tree.index("a59"))
    assert len(tree.root_paths(tree.index("a3"))) == 8


def test_gene_ontology_keeps_all_parents():
    go = pytest.importorskip("vpunn.datasets").load_go()
    tree = go.tree
    assert tree.n_extra == len(dropped_edges(tree)[lambda t: t["reason"] == "policy 'first'"]) > 2000
    counts = tree.ball_counts()
    assert (counts >= tree.size).all() and (counts > tree.size).sum() > 100
    kinase = tree.index("GO:0004672")
    ids = tree.closure([[kinase]])[1]
    assert set(ids.tolist()) == {node for path in tree.root_paths(kinase) for node in path}
