"""Tree arrays against slow, obvious twins, and every refusal."""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import parent_arrays, trees
from vpunn.errors import CodeChangeWarning, TreeError
from vpunn.padic import next_prime
from vpunn.tree import Tree, check_tree
from vpunn.tree.sweeps import nearest_marked_ancestor, sweep_down, sweep_up


def chain_of(parent, node):
    """Ancestors of a node, root first, by following pointers."""
    chain = [node]
    while parent[chain[-1]] >= 0:
        chain.append(parent[chain[-1]])
    return chain[::-1]


def slow_lca(parent, u, v):
    common = [a for a, b in zip(chain_of(parent, u), chain_of(parent, v), strict=False) if a == b]
    return common[-1]


@given(parent_arrays())
def test_arrays_are_a_preorder_of_the_input(parent):
    tree = Tree.from_parents(parent)
    assert check_tree(tree, explain=True) == (True, "")
    assert sorted(tree.labels.tolist()) == list(range(len(parent)))
    for node in range(tree.n_nodes):
        given_parent = parent[tree.labels[node]]
        assert given_parent == (-1 if node == 0 else tree.labels[tree.parent[node]])
        kids = [c for c in range(len(parent)) if parent[c] == tree.labels[node]]
        assert tree.labels[tree.children(node)].tolist() == kids  # siblings keep the given order
        assert tree.digit[tree.children(node)].tolist() == list(range(1, len(kids) + 1))
        chain = chain_of(tree.parent.tolist(), node)
        assert tree.ancestors(node).tolist() == chain
        assert tree.depth[node] == len(chain) - 1
        inside = [v for v in range(tree.n_nodes) if node in chain_of(tree.parent.tolist(), v)]
        assert list(range(tree.slice(node).start, tree.slice(node).stop)) == inside
        assert tree.leaf_counts[node] == sum(tree.size[v] == 1 for v in inside)


@given(parent_arrays())
def test_lca_of_all_pairs(parent):
    tree = Tree.from_parents(parent)
    ids = np.arange(tree.n_nodes)
    u, v = (side.ravel() for side in np.meshgrid(ids, ids))
    up = tree.parent.tolist()
    expected = np.array([slow_lca(up, a, b) for a, b in zip(u.tolist(), v.tolist(), strict=True)])
    assert tree.lca(u, v).tolist() == expected.tolist()
    assert tree.lca_depth(u, v).tolist() == tree.depth[expected].tolist()
    assert (tree.lca_depth_matrix(ids).ravel() == tree.lca_depth(v, u)).all()
    assert tree.is_ancestor(u, v).tolist() == (expected == u).tolist()


@given(parent_arrays())
def test_sweeps_are_sums_over_chains_and_slices(parent):
    tree = Tree.from_parents(parent)
    values = np.random.default_rng(len(parent)).integers(-9, 9, (tree.n_nodes, 2))
    down, up = sweep_down(tree, values), sweep_up(tree, values)
    for node in range(tree.n_nodes):
        assert down[node].tolist() == values[tree.ancestors(node)].sum(0).tolist()
        assert up[node].tolist() == values[tree.slice(node)].sum(0).tolist()
    assert (tree.subtree_sum(values) == up).all()
    assert sweep_down(tree, values.astype(object)).tolist() == down.tolist()


@given(parent_arrays())
def test_subtree_and_collapse_unary_keep_leaves(parent):
    tree = Tree.from_parents(parent)
    node = tree.n_nodes // 2
    part = tree.subtree(node)
    assert check_tree(part)
    assert part.labels.tolist() == tree.labels[tree.slice(node)].tolist()
    short = tree.collapse_unary()
    assert check_tree(short)
    assert not (short.n_children == 1).any()
    assert short.labels[short.leaves].tolist() == tree.labels[tree.leaves].tolist()
    removed = tree.n_nodes - short.n_nodes
    assert removed == (tree.n_children == 1).sum()
    # leaves that part below node B still part below the node that took its place
    kept = short.index(tree.labels[tree.leaves])
    deep, shallow = tree.lca_depth_matrix(tree.leaves), short.lca_depth_matrix(kept)
    assert ((deep[:, :, None] < deep[:, None, :]) == (shallow[:, :, None] < shallow[:, None, :])).all()


@given(parent_arrays())
def test_nearest_marked_ancestor(parent):
    tree = Tree.from_parents(parent)
    marked = np.arange(tree.n_nodes) % 3 == 0
    for node, found in enumerate(nearest_marked_ancestor(tree, marked)):
        above = [a for a in tree.ancestors(node)[:-1] if marked[a]]
        assert found == (above[-1] if above else -1)


@given(parent_arrays())
def test_canonical_order_forgets_sibling_order(parent):
    shuffle = np.random.default_rng(len(parent)).permutation(len(parent))
    place = np.argsort(shuffle)
    again = [-1 if parent[i] < 0 else place[parent[i]] for i in shuffle]
    one, two = Tree.from_parents(parent).canonical(), Tree.from_parents(again).canonical()
    assert check_tree(one)
    assert one.parent.tolist() == two.parent.tolist()


def test_canonical_separates_what_is_not_isomorphic():
    """All rooted trees up to 8 nodes: as many canonical parent arrays as there are shapes (1, 1, 2, 4, 9, 20, 48, 115)."""
    shapes = {(-1,)}
    counts = [1]
    for _ in range(7):
        shapes = {
            tuple(Tree.from_parents([*shape, at]).canonical().parent.tolist())
            for shape in shapes
            for at in range(len(shape))
        }
        counts.append(len(shapes))
    assert counts == [1, 1, 2, 4, 9, 20, 48, 115]


@given(parent_arrays())
def test_insert_keeps_old_digits(parent):
    tree = Tree.from_parents(parent, columns={"weight": np.arange(len(parent)) / 2})
    under = tree.n_nodes - 1
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        grown = tree.insert([under, 0], [10**6, 10**6 + 1])
    assert check_tree(grown)
    old = grown.index(tree.labels)
    assert (grown.digit[old] == tree.digit).all()
    assert (grown.depth[old] == tree.depth).all()
    assert (grown.columns["weight"][old] == tree.columns["weight"]).all()
    assert np.isnan(grown.columns["weight"][grown.index(10**6)])
    grew = next_prime(grown.max_branching + 1) != next_prime(tree.max_branching + 1)
    assert bool(seen) == grew


def test_insert_announces_a_larger_prime():
    star = Tree.from_parents([-1, 0, 0, 0, 0], labels=list("rabcd"))
    with pytest.warns(CodeChangeWarning, match="prime grows from 5 to 7"):
        star.insert(0, "e")
    with pytest.raises(TreeError, match="one parent per new leaf: got 1 parents and 2 labels"):
        star.insert(0, ["e", "f"])


def test_a_path_and_a_star_of_a_million_nodes():
    n = 1_000_000
    path = Tree.from_parents(np.arange(-1, n - 1))
    assert (path.max_depth, path.n_leaves, path.max_branching) == (n - 1, 1, 1)
    assert path.packed.layout == "heavy"  # one bit per unary step would need a million bits
    assert path.lca_depth([5, n - 1], [n - 1, 7]).tolist() == [5, 7]
    assert path.ancestor_at(n - 1, 12345) == 12345
    assert path.collapse_unary().n_nodes == 1
    assert path.canonical() == path
    star = Tree.from_parents(np.r_[-1, np.zeros(n, int)])
    assert star.packed.layout == "words"
    assert star.lca_depth([1, 1, 0], [n, 1, 3]).tolist() == [0, 1, 0]
    assert star.canonical().n_leaves == n


def test_heavy_layout_agrees_with_words():
    """A caterpillar longer than the words allow, against the ancestor chains themselves."""
    n = 400
    parent = [-1, *(i - (2 if i % 2 else 1) if i > 1 else 0 for i in range(1, n))]
    tree = Tree.from_parents(parent)
    assert tree.packed.layout == "heavy"
    ids = np.arange(n)
    up = tree.parent.tolist()
    expected = [[tree.depth[slow_lca(up, a, b)] for b in range(0, n, 7)] for a in range(0, n, 11)]
    assert tree.lca_depth_matrix(ids[::11], ids[::7]).tolist() == expected
    assert tree.lca_depth(ids[::11, None], ids[None, ::7]).tolist() == expected


def test_single_node():
    tree = Tree.from_parents([-1], labels=["only"])
    assert (tree.n_nodes, tree.n_leaves, tree.max_depth, tree.max_branching) == (1, 1, 0, 0)
    assert tree.lca_depth(0, 0) == 0
    assert tree.children(0).tolist() == []
    assert tree.collapse_unary() == tree
    assert tree.canonical() == tree
    assert tree.show() == "only"


@pytest.mark.parametrize(
    ("parent", "sentence"),
    [
        ([], "at least one node"),
        ([[-1, 0]], "one-dimensional"),
        ([0.5, -1], "must be integers"),
        ([-1, float("nan")], "must be integers"),
        (["a", "b"], "must be integers"),
        ([-1, 7], "node 1 has parent 7, but parents run from -1 .root. to 1"),
        ([-1, -2], "has parent -2"),
        ([-1, 1], "node 1 is its own parent"),
        ([-1, -1, -1], r"3 roots \(0, 1, 2\)"),
        ([1, 0], "no root.*0 → 1 → 0"),
        ([-1, 2, 3, 1], "3 nodes cannot be reached from the root because of a cycle: 1 → 2 → 3 → 1"),
    ],
)
def test_what_is_not_a_tree_is_refused(parent, sentence):
    with pytest.raises(TreeError, match=sentence):
        Tree.from_parents(parent)
    ok, reason = check_tree(parent, explain=True)
    assert not ok
    assert reason


def test_check_tree_finds_broken_arrays():
    tree = Tree.from_parents([-1, 0, 0, 1, 1, 2])
    fields = ("parent", "depth", "size", "digit")
    for name in fields:
        for node in range(tree.n_nodes):
            arrays = {key: getattr(tree, key).copy() for key in fields}
            arrays[name][node] += 1
            assert not check_tree(Tree(**arrays, labels=tree.labels)), (name, node)


def test_index_translates_and_refuses():
    tree = Tree.from_parents([-1, 0, 0, 1, 2], labels=["life", "plant", "animal", "jaguar", "jaguar"])
    assert tree.index("plant") == 1
    assert tree.index(["animal", "plant", "plant"]).tolist() == [3, 1, 1]
    with pytest.raises(TreeError, match="no node is labelled 'stone'"):
        tree.index(["plant", "stone"])
    with pytest.raises(TreeError, match="'jaguar' names 2 nodes: 'life / plant / jaguar', 'life / animal / jaguar'"):
        tree.index("jaguar")
    assert tree.locate([("animal", "jaguar"), (), ("plant",)]).nodes.tolist() == [4, 0, 1]
    with pytest.raises(TreeError, match="leaves the tree at step 1: 'plant' has no child 'fern'"):
        tree.locate([("plant", "fern")])
    with pytest.raises(TreeError, match="leaves the tree at step 0"):
        tree.locate([("fern",)])


def test_queries_refuse_foreign_nodes():
    tree = Tree.from_parents([-1, 0, 0])
    for call in (
        lambda: tree.lca_depth([0, 1], [2, 3]),
        lambda: tree.lca_depth(-1, 0),
        lambda: tree.lca_depth_matrix([0, 9]),
        lambda: tree.children(3),
        lambda: tree.subtree(-1),
        lambda: tree.is_ancestor(0, 3),
        lambda: tree.insert(5, "x"),
    ):
        with pytest.raises(TreeError, match="outside this tree of 3 nodes"):
            call()
    with pytest.raises(TreeError, match="must be integers.*tree.index"):
        tree.lca_depth("a", "b")
    with pytest.raises(TreeError, match="no ancestor at depth 2"):
        tree.ancestor_at([1, 2], 2)
    with pytest.raises(TreeError, match="one value per node"):
        tree.subtree_sum([1, 2])
    with pytest.raises(TreeError, match="2 labels for 3 nodes"):
        Tree.from_parents([-1, 0, 0], labels=["a", "b"])
    with pytest.raises(TreeError, match="column 'w' needs one value per node"):
        Tree.from_parents([-1, 0, 0], columns={"w": [1]})


def test_frozen_and_picklable():
    tree = Tree.from_parents([-1, 0, 0], labels=["a", "b", "c"], columns={"w": [1.0, 2.0, 3.0]})
    with pytest.raises(AttributeError, match="frozen"):
        tree.parent = tree.depth
    with pytest.raises(ValueError, match="read-only"):
        tree.parent[0] = 3
    twin = pickle.loads(pickle.dumps(tree))
    assert twin == tree
    assert twin.columns["w"].tolist() == [1, 2, 3]
    assert tree != Tree.from_parents([-1, 0, 0])


def test_show_draws_branches():
    tree = Tree.from_parents([-1, 0, 1, 1, 0, 4], labels=list("rabcde"))
    assert tree.show().splitlines() == ["r", "├─ a", "│  ├─ b", "│  └─ c", "└─ d", "   └─ e"]
    assert tree.show(max_nodes=3).splitlines()[-1] == "… 3 more nodes"
    assert tree.show(node=1).splitlines() == ["a", "├─ b", "└─ c"]


def test_labels_of_any_kind_are_found_as_they_are():
    mixed = Tree.from_parents([-1, 0, 0], labels=["a", 3, "3"])
    assert mixed.index(["a", 3]).tolist() == [0, 1]  # not the node named '3'
    states = Tree.from_parents([-1, 0, 0], labels=[(0, 0), (1, 2), (3, 4)])
    assert states.index([(3, 4), (1, 2)]).tolist() == [2, 1]
    assert states.index((3, 4)) == 2
    assert states.locate([[(1, 2)]]).nodes.tolist() == [1]
    with pytest.raises(TreeError, match=r"the label \(1, 2\) names 2 nodes"):
        Tree.from_parents([-1, 0, 0], labels=["root", (1, 2), (1, 2)]).index([(1, 2)])
    assert Tree.from_parents([-1, 0], labels=[2**70, 1]).index(2**70) == 0
    with pytest.raises(TreeError, match="hashable"):
        mixed.index([{}])
    with pytest.raises(TreeError, match="one-dimensional"):
        mixed.index(np.array([["a"]]))


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint64, np.int8, ">i4", ">i8"])
def test_ids_of_any_integer_type(kind):
    chain = Tree.from_parents(np.arange(400).astype(np.int16) - 1)
    u, v = np.array([5, 3], kind), np.array([3, 5], kind)
    assert chain.is_ancestor(u, v).tolist() == [False, True]  # 3 − 5 must not wrap around
    assert chain.lca(u, v).tolist() == [3, 3]
    assert chain.lca_depth_matrix(u).tolist() == [[5, 3], [3, 3]]
    assert chain.ancestor_at(u, np.array([1, 2], kind)).tolist() == [1, 2]
    assert Tree.from_parents(np.array([-1, 0], ">i4")).n_nodes == 2


def test_a_missing_value_reaches_only_its_own_subtrees():
    tree = Tree.from_parents([-1, 0, 0, 0])
    for strange in (np.nan, np.inf):
        assert np.array_equal(tree.subtree_sum([0, strange, 1.0, 2.0]), [strange, strange, 1, 2], equal_nan=True)
    assert tree.subtree_sum([0, 1e20, 1.0, 2.0]).tolist()[2:] == [1, 2]


def test_wrong_shapes_and_types_are_one_sentence():
    tree = Tree.from_parents([-1, 0, 0, 1, 1])
    for question in (tree.lca_depth, tree.lca, tree.is_ancestor, tree.ancestor_at):
        with pytest.raises(TreeError, match=r"shapes \(3,\) and \(2,\) do not pair up"):
            question([1, 2, 3], [0, 0])
    with pytest.raises(TreeError, match="a depth must be a whole number, got 1.7"):
        tree.ancestor_at(3, 1.7)
    with pytest.raises(TreeError, match="node ids must be integers"):
        tree.lca("a", "b")
    for question in (tree.ancestors, tree.path, tree.children, tree.slice, tree.subtree):
        with pytest.raises(TreeError, match="takes one node id"):
            question([1, 2])
    for nodes in (3, [[3, 4]]):
        with pytest.raises(TreeError, match="two lists of nodes"):
            tree.lca_depth_matrix(nodes)
    with pytest.raises(TreeError, match="one value per node"):
        tree.subtree_sum(3)
    for parent in ([-1, 1e300], [[1], [2, 3]]):
        assert not check_tree(parent)
    for extra in ({"labels": 5}, {"columns": {"mass": 5}}):
        with pytest.raises(TreeError, match="per node"):
            Tree.from_parents([-1, 0], **extra)


@settings(max_examples=40)
@given(trees(), st.sampled_from([np.int32, np.int64]), st.integers(1, 1100), st.randoms(use_true_random=False))
def test_both_loops_of_lca_depth_agree_with_climbing(tree, dtype, pairs, chance):
    u, v = (np.array([chance.randrange(tree.n_nodes) for _ in range(pairs)], dtype) for _ in range(2))
    slow = np.array(
        [len(np.intersect1d(tree.ancestors(a), tree.ancestors(b))) - 1 for a, b in zip(u[:50], v[:50], strict=True)]
    )
    for near in (0, 1 << 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("vpunn.tree._packed.NEAR_BYTES", near)
            np.testing.assert_array_equal(tree.lca_depth(u, v)[:50], slow)
            for at, wrong in ((0, -1), (pairs // 2, tree.n_nodes), (pairs - 1, np.iinfo(dtype).min)):
                bad = u.copy()
                bad[at] = wrong
                with pytest.raises(TreeError, match=f"node id {wrong} at pair {at} is outside this tree"):
                    tree.lca_depth(bad, v)


@given(parent_arrays())
def test_small_trees_are_walked_alike_in_python_and_compiled(parent):
    """One source, two ways to run it; which one depends on the size and on whether numba is loaded."""
    from vpunn.codes import PadicCode
    from vpunn.codes import _kernels as compiled_codes
    from vpunn.tree import _kernels, _loops

    given_, root = np.asarray(parent, np.int32), int(np.flatnonzero(np.asarray(parent) < 0)[0])
    found = []
    for walk in (_loops.preorder_walk, _kernels.preorder_walk):
        arrays = [np.full(len(given_), -1, np.int32) for _ in range(7)]
        found.append([walk(given_, root, *arrays), *(array.tolist() for array in arrays)])
    assert found[0] == found[1]
    tree = Tree.from_parents(parent)
    nodes = np.arange(tree.n_nodes)
    tables = [np.zeros((tree.n_nodes, tree.max_depth), np.int32) for _ in range(2)]
    for loops, table in zip((_loops, compiled_codes), tables, strict=True):
        loops.along_paths(tree.parent, tree.depth, tree.digit, nodes, table)
    assert (tables[0] == tables[1]).all() and (tables[0] == PadicCode(tree).digits()).all()
    wrong = tables[0] + (np.arange(tables[0].size).reshape(tables[0].shape) % 3)
    for digits in (tables[0], wrong):
        pairs = zip(
            _loops.descend(*tree.child_index, digits), compiled_codes.descend(*tree.child_index, digits), strict=True
        )
        assert all((a == b).all() for a, b in pairs)
