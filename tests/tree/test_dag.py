"""DAG policies against slow, obvious twins, the report of dropped edges, and the size guard of `unfold`."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vpunn.errors import TreeError, VpunnError
from vpunn.tree import Tree, build, dag
from vpunn.tree import _dag_kernels as kernels


@st.composite
def acyclic_graphs(draw, max_nodes=9):
    """Edges (parent, child) with one root 0 and larger numbers below smaller ones, rows shuffled."""
    n = draw(st.integers(2, max_nodes))
    edges = []
    for child in range(1, n):
        parents = draw(st.sets(st.integers(0, child - 1), min_size=1, max_size=3))
        edges += [(parent, child) for parent in parents]
    return draw(st.permutations(edges))


def all_paths(edges):
    """Every path from node 0, by brute force."""
    paths, at = [(0,)], 0
    while at < len(paths):
        paths += [(*paths[at], c) for p, c in edges if p == paths[at][-1]]
        at += 1
    return paths


def descendants(edges, node):
    return {path[-1] for path in all_paths_from(edges, node)} - {node}


def all_paths_from(edges, node):
    found = [(node,)]
    for path in found:
        found += [(*path, c) for p, c in edges if p == path[-1]]
    return found


def parents_of(tree):
    return {int(tree.labels[i]): int(tree.labels[tree.parent[i]]) for i in range(1, tree.n_nodes)}


@given(acyclic_graphs())
def test_first_keeps_a_shortest_path_and_the_earliest_parent_of_the_walk(edges):
    kept = parents_of(build.tree_from_edges(edges, policy="first"))
    seen, queue = {0: None}, [0]
    for node in queue:
        for parent, child in edges:
            if parent == node and child not in seen:
                seen[child] = node
                queue.append(child)
    del seen[0]
    assert kept == seen
    tree = build.tree_from_edges(edges)
    shortest = {node: min(len(path) for path in all_paths(edges) if path[-1] == node) - 1 for node in [0, *kept]}
    assert dict(zip(tree.labels.tolist(), tree.depth.tolist(), strict=True)) == shortest


@given(acyclic_graphs())
def test_deepest_keeps_a_longest_path(edges):
    tree = build.tree_from_edges(edges, policy="deepest")
    longest = {}
    for path in all_paths(edges):
        longest[path[-1]] = max(longest.get(path[-1], 0), len(path) - 1)
    assert dict(zip(tree.labels.tolist(), tree.depth.tolist(), strict=True)) == longest
    for child, parent in parents_of(tree).items():
        best = [p for p, c in edges if c == child and longest[p] == longest[parent]]
        assert best[0] == parent


@given(acyclic_graphs())
def test_most_specific_keeps_the_parent_with_fewest_descendants(edges):
    tree = build.tree_from_edges(edges, policy="most-specific")
    for child, parent in parents_of(tree).items():
        candidates = [p for p, c in edges if c == child]
        sizes = [len(descendants(edges, p)) for p in candidates]
        assert parent == candidates[sizes.index(min(sizes))]


@given(acyclic_graphs(max_nodes=7))
def test_unfold_has_one_node_per_path(edges):
    tree = build.tree_from_edges(edges, policy="unfold")
    assert sorted(tree.path(i) for i in range(tree.n_nodes)) == sorted(all_paths(edges))


@given(acyclic_graphs(), st.sampled_from(["first", "deepest", "most-specific"]))
def test_kept_and_dropped_edges_are_all_edges_and_siblings_keep_row_order(edges, policy):
    tree = build.tree_from_edges(edges, policy=policy)
    lost = dag.dropped_edges(tree)
    kept = [(parent, child) for child, parent in parents_of(tree).items()]
    assert sorted(kept + list(zip(lost["parent"], lost["child"], strict=True))) == sorted(edges)
    for node in range(tree.n_nodes):
        rows = [edges.index((tree.labels[node], tree.labels[c])) for c in tree.children(node)]
        assert rows == sorted(rows)


@settings(max_examples=20)
@given(st.integers(65, 300), st.integers(0, 2**32))
def test_descendants_in_batches_of_64_match_sets(n, seed):
    rng = np.random.default_rng(seed)
    child = np.repeat(np.arange(1, n), 2)
    parent = (rng.random(len(child)) * child).astype(np.int64)
    below = [set() for _ in range(n)]
    for c in range(n - 1, 0, -1):
        for p in parent[child == c]:
            below[p] |= below[c] | {c}
    start, edges = kernels.group_edges(parent, n)
    order, _ = kernels.topological(start, edges, child)
    candidate = rng.random(n) < 0.7
    counts = kernels.count_descendants(order, start, edges, child, candidate)
    assert counts.tolist() == [len(b) if c else 0 for b, c in zip(below, candidate, strict=True)]


def test_cycles_are_printed_under_every_policy():
    edges = [("root", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("c", "leaf")]
    for policy in ("first", "deepest", "most-specific", "unfold"):
        with pytest.raises(TreeError, match="cycle, written from child to parent: a → c → b → a;"):
            build.tree_from_edges(edges, policy=policy)


@given(acyclic_graphs(), st.data())
def test_any_closed_walk_is_found(edges, data):
    inner = data.draw(st.sampled_from([path for path in all_paths(edges) if len(path) > 1]))
    with pytest.raises(TreeError, match="cycle") as caught:
        build.tree_from_edges([*edges, (inner[-1], inner[0])])
    text = str(caught.value).split(": ")[1].split(";")[0]
    ring = [int(x) for x in text.split(" → ")]
    assert ring[0] == ring[-1]
    assert all((up, down) in [*edges, (inner[-1], inner[0])] for down, up in pairwise(ring))


def test_policy_error_names_the_parents():
    with pytest.raises(TreeError, match=r"1 node has several parents \('r' → 'd', 'a' → 'd'\)"):
        build.tree_from_edges([("r", "a"), ("r", "d"), ("a", "d")], policy="error")
    assert build.tree_from_edges([("r", "a"), ("a", "d")], policy="error").report == ()


def test_unknown_policy_lists_the_known_ones():
    with pytest.raises(VpunnError, match="policy='last' is unknown.*first, deepest, most-specific, unfold, error"):
        build.tree_from_edges([("r", "a")], policy="last")


def test_unfold_says_the_size_before_making_it():
    ladder = [(k, k + 1) for k in range(60)] + [(k, k + 2) for k in range(59)]  # Fibonacci many paths
    with pytest.raises(TreeError, match=r"would copy 61 nodes into [\d,]{16,}, more than max_nodes=10,000,000"):
        build.tree_from_edges(ladder, policy="unfold")
    for rungs, size in ((100, r"about 1\.5e\+21"), (5000, r"more than 1e300")):
        with pytest.raises(TreeError, match=f"into {size}, more than max_nodes"):
            build.tree_from_edges(
                [(k, k + 1) for k in range(rungs)] + [(k, k + 2) for k in range(rungs - 1)], policy="unfold"
            )
    short = [edge for edge in ladder if max(edge) <= 10]
    tree = build.tree_from_edges(short, policy="unfold")
    assert tree.n_nodes == sum([1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89])
    with pytest.raises(TreeError, match="max_nodes=231"):
        build.tree_from_edges(short, policy="unfold", max_nodes=231)


def test_report_survives_pickling_and_is_plain_text():
    tree = build.tree_from_edges([("r", "a"), ("r", "d"), ("a", "d")])
    copy = pickle.loads(pickle.dumps(tree))
    assert isinstance(copy, Tree)
    assert copy.report == tree.report
    assert dag.dropped_edges(copy).to_dict("records") == [{"parent": "a", "child": "d", "reason": "policy 'first'"}]
    assert dag.dropped_edges(Tree.from_parents([-1])).empty


def test_a_wide_and_a_deep_graph_of_a_million_nodes():
    n = 1_000_000
    parent, child = np.arange(n - 1), np.arange(1, n)
    skips = np.arange(0, n - 2, 10)  # every tenth node also reaches two down
    both = np.concatenate([parent, skips]), np.concatenate([child, skips + 2])
    assert build.tree_from_edges(*both, policy="deepest").max_depth == n - 1
    assert build.tree_from_edges(*both, policy="first").max_depth == n - 1 - len(skips)
    star = np.zeros(n, np.int64), np.arange(1, n + 1)
    for policy in dag.POLICIES:
        assert build.tree_from_edges(*star, policy=policy).max_branching == n
