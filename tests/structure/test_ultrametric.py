"""`how_ultrametric` and `compare_trees` against full enumeration and simulated truths."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform

from strategies import random_tree, trees
from vpunn import Tree, VpunnError, structure

STEPS = (0.05, 0.1, 0.2, 0.5)


def exact_tree(n: int, rng) -> np.ndarray:
    """Random merges at rising heights: an ultrametric."""
    groups, out = [[i] for i in range(n)], np.zeros((n, n))
    for height in np.sort(rng.gamma(2, 1, n - 1)):
        a, b = rng.choice(len(groups), 2, replace=False)
        out[np.ix_(groups[a], groups[b])] = out[np.ix_(groups[b], groups[a])] = height
        groups[a] = groups[a] + groups[b]
        del groups[b]
    return out


def additive_tree(n: int, rng) -> np.ndarray:
    """Random merges with a random length on every branch: distances along the tree."""
    groups, parent, length = list(range(n)), {}, rng.exponential(1, 2 * n)
    for new in range(n, 2 * n - 1):
        a, b = rng.choice(len(groups), 2, replace=False)
        parent[groups[a]] = parent[groups[b]] = new
        groups = [g for i, g in enumerate(groups) if i not in (a, b)] + [new]
    on_path = np.zeros((n, 2 * n))
    for leaf in range(n):
        node = leaf
        while node in parent:
            on_path[leaf, node] = length[node]
            node = parent[node]
    return np.abs(on_path[:, None] - on_path[None]).sum(2)


def with_noise(distances: np.ndarray, share: float, rng) -> np.ndarray:
    n = len(distances)
    noise = np.triu(rng.normal(0, share * distances[np.triu_indices(n, 1)].std(), (n, n)), 1)
    out = np.abs(distances + noise + noise.T)
    np.fill_diagonal(out, 0)
    return out


def cloud(n: int, rng) -> np.ndarray:
    return squareform(pdist(rng.normal(size=(n, 5))))


def enumerated(distances: np.ndarray) -> tuple[float, float]:
    """Mean defects over all triangles and all quadruples, by definition."""
    n = len(distances)
    triangle = []
    for i, j, k in combinations(range(n), 3):
        _, b, c = sorted((distances[i, j], distances[i, k], distances[j, k]))
        triangle.append((c - b) / c)
    four = []
    for i, j, k, m in combinations(range(n), 4):
        _, b, c = sorted(
            (distances[i, j] + distances[k, m], distances[i, k] + distances[j, m], distances[i, m] + distances[j, k])
        )
        four.append((c - b) / c)
    return float(np.mean(triangle)), float(np.mean(four))


def simulate(count: int, n: int = 20, sample: int = 400) -> tuple[int, int, int, list[str]]:
    """Over ``count`` cases: how often the two intervals cover the enumerated values, and every order that is wrong."""
    covered = covered_four = total = 0
    wrong = []
    for seed in range(count // (len(STEPS) + 3) + 1):
        rng = np.random.default_rng(seed)
        tree, additive, points = exact_tree(n, rng), additive_tree(n, rng), cloud(n, rng)
        cases = {
            "tree": tree,
            **{f"noise {s}": with_noise(tree, s, rng) for s in STEPS},
            "additive": additive,
            "cloud": points,
        }
        found = {}
        for name, distances in cases.items():
            if total == count:
                return total, covered, covered_four, wrong
            found[name] = one = structure.how_ultrametric(distances, sample=sample, seed=seed)
            triangle, four = enumerated(distances)
            covered += one.defects.triangle_interval[0] - 1e-12 <= triangle <= one.defects.triangle_interval[1] + 1e-12
            covered_four += (
                one.defects.four_point_interval[0] - 1e-12 <= four <= one.defects.four_point_interval[1] + 1e-12
            )
            total += 1
        order = [found["tree"].score, *(found[f"noise {s}"].score for s in STEPS)]
        if not all(a > b for a, b in pairwise(order)):
            wrong.append(f"seed {seed}: noise steps rank {order}")
        if found["tree"].score < 1 - 1e-9 or found["additive"].additive < 1 - 1e-9:
            wrong.append(f"seed {seed}: an exact tree is not called exact")
        if (
            not found["tree"].score > found["additive"].score
            or not found["additive"].additive > found["cloud"].additive
        ):
            wrong.append(f"seed {seed}: tree, additive tree, cloud out of order")
        if not found["noise 0.1"].score > found["cloud"].score or "not tree-like" not in found["cloud"].verdict:
            wrong.append(f"seed {seed}: the cloud passes for a tree: {found['cloud'].verdict}")
    return total, covered, covered_four, wrong


def test_two_hundred_simulated_cases_rank_in_order_and_intervals_cover():
    total, covered, covered_four, wrong = simulate(200)
    assert total == 200 and wrong == []
    assert covered >= 185 and covered_four >= 185, (covered, covered_four)


@settings(max_examples=25, deadline=None)
@given(st.integers(4, 9), st.integers(0, 1000))
def test_small_cases_are_enumerated_exactly(n, seed):
    rng = np.random.default_rng(seed)
    distances = with_noise(exact_tree(n, rng), 0.3, rng)
    found = structure.how_ultrametric(distances)
    assert (found.defects.triangle, found.defects.four_point) == pytest.approx(enumerated(distances), abs=1e-12)
    assert found.defects.triangle_interval == (found.defects.triangle,) * 2
    deltas = [
        (max(s) - sorted(s)[1]) / 2
        for i, j, k, m in combinations(range(n), 4)
        for s in [
            (distances[i, j] + distances[k, m], distances[i, k] + distances[j, m], distances[i, m] + distances[j, k])
        ]
    ]
    assert found.delta == pytest.approx(max(deltas) / distances.max(), abs=1e-12)


def test_gap_is_to_the_largest_ultrametric_below():
    """Minimax paths, by Floyd and Warshall, are the subdominant ultrametric."""
    rng = np.random.default_rng(3)
    distances = cloud(12, rng)
    below = distances.copy()
    for k in range(12):
        below = np.minimum(below, np.maximum(below[:, [k]], below[[k], :]))
    upper = np.triu_indices(12, 1)
    twin = (distances - below)[upper].mean() / distances[upper].mean()
    assert structure.how_ultrametric(distances).gap == pytest.approx(twin)


@settings(max_examples=25, deadline=None)
@given(trees(max_nodes=25))
def test_distances_of_a_tree_are_ultrametric(tree):
    if tree.n_leaves < 3:
        return
    valuation = structure.distance_matrix(tree).valuation
    distances = 3.0 ** -valuation.astype(float)
    np.fill_diagonal(distances, 0)
    found = structure.how_ultrametric(distances)
    assert found.gap == 0 and found.defects.triangle == 0 and found.delta <= 1e-12
    assert found.score in (1.0, None)


def test_points_tables_and_vectors_are_understood():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(10 * i, 0.1, (20, 3)) for i in range(4)])
    found = structure.how_ultrametric(rows)
    assert found.n_points == 80 and found.score > found.random_points[0]
    assert structure.how_ultrametric(pdist(rows)).score == pytest.approx(found.score)
    square = np.abs(rng.normal(size=(6, 6)))
    assert structure.how_ultrametric(square).n_points == 6  # not symmetric: six points of six features
    many = structure.how_ultrametric(rng.normal(size=(300, 2)), max_points=50)
    assert many.n_sampled == 50 and "50 of 300" in many.verdict
    assert str(structure.how_ultrametric(rows)) == str(found)


def test_bad_input_is_refused_in_a_sentence():
    ones = np.ones((5, 5)) - np.eye(5)
    assert "star" in structure.how_ultrametric(ones).verdict
    for bad, words in (
        (np.zeros((4, 4)), "all distances are 0"),
        (-ones, "negative"),
        (ones * np.nan, "missing"),
        ([1.0, 2.0], "condensed"),
        (np.ones((2, 3)), "at least 3"),
        ([["a"]], "numbers"),
    ):
        with pytest.raises(VpunnError, match=words):
            structure.how_ultrametric(bad)
    with pytest.raises(VpunnError, match="symmetric"):
        structure.how_ultrametric(np.arange(16.0).reshape(4, 4), kind="distances")


# ---- two trees ---------------------------------------------------------------------------------------------------------


def clusters(tree: Tree, common: set) -> set[frozenset]:
    out = set()
    for i in range(tree.n_nodes):
        part = tree.slice(i)
        names = frozenset(
            n for n, leaf in zip(tree.labels[part].tolist(), tree.is_leaf[part], strict=True) if leaf and n in common
        )
        if 1 < len(names) < len(common):
            out.add(names)
    return out


def closest(tree: Tree, names) -> frozenset | None:
    pairs = {frozenset(pair): tree.lca_depth(*(tree.index(x) for x in pair)) for pair in combinations(names, 2)}
    best = max(pairs.values())
    found = [pair for pair, depth in pairs.items() if depth == best]
    return found[0] if len(found) == 1 else None


@settings(max_examples=40, deadline=None)
@given(trees(max_nodes=22), st.integers(0, 10**6))
def test_tree_comparison_twin(tree, seed):
    """The same leaves under another tree, some leaves missing on either side."""
    rng = np.random.default_rng(seed)
    other = random_tree(int(rng.integers(3, 22)), seed)
    labels = other.labels.copy()
    leaves = tree.labels[tree.leaves]
    fresh = rng.permutation(np.concatenate([leaves, np.arange(1000, 1000 + other.n_leaves)]))[: other.n_leaves]
    labels[other.leaves] = fresh
    labels[~other.is_leaf] = 5000 + np.arange((~other.is_leaf).sum())
    other = Tree.from_parents(other.parent, labels)
    common = set(leaves.tolist()) & set(fresh.tolist())
    if not common:
        with pytest.raises(VpunnError, match="share no leaf"):
            structure.compare_trees(tree, other)
        return
    found = structure.compare_trees(tree, other)
    a, b = clusters(tree, common), clusters(other, common)
    assert found.robinson_foulds == len(a ^ b) and found.n_clusters == len(a) + len(b)
    assert found.n_common == len(common) and found.only_a == tree.n_leaves - len(common)
    if len(common) >= 3:
        kinds = [(closest(tree, t), closest(other, t)) for t in combinations(sorted(common), 3)]
        assert found.triplet == pytest.approx(np.mean([x != y for x, y in kinds]))
        assert found.conflicting == pytest.approx(np.mean([x != y and None not in (x, y) for x, y in kinds]))


def test_sampled_triplets_cover_the_enumerated_share():
    a, b = random_tree(60, 0), random_tree(60, 1)
    labels = b.labels.copy()
    labels[b.leaves] = (
        np.resize(a.labels[a.leaves], b.n_leaves)
        if b.n_leaves <= a.n_leaves
        else np.concatenate([a.labels[a.leaves], 900 + np.arange(b.n_leaves - a.n_leaves)])
    )
    labels[~b.is_leaf] = 5000 + np.arange((~b.is_leaf).sum())
    b = Tree.from_parents(b.parent, labels)
    exact = structure.compare_trees(a, b, sample=10**6)
    assert exact.interval == (exact.triplet, exact.triplet)
    hits = 0
    for seed in range(40):
        low, high = structure.compare_trees(a, b, sample=400, seed=seed).interval
        hits += low <= exact.triplet <= high
    assert hits >= 34


def test_trees_with_twins_among_the_leaves_are_refused():
    twice = Tree.from_parents([-1, 0, 0], labels=["r", "a", "a"])
    with pytest.raises(VpunnError, match="two leaves"):
        structure.compare_trees(twice, twice)


def test_a_matrix_that_could_be_meant_either_way_is_not_guessed():
    rng = np.random.default_rng(3)
    similar = np.corrcoef(rng.normal(size=(12, 5)))
    one_way = rng.random((12, 12))
    np.fill_diagonal(one_way, 0.0)
    for matrix in (similar, one_way):
        with pytest.raises(VpunnError, match="kind='points'"):
            structure.how_ultrametric(matrix)
        assert structure.how_ultrametric(matrix, kind="points").n_points == 12
    distances = 1 - similar
    rounded = distances + np.diag(np.full(12, 2e-16))  # what 1 − correlation leaves on the diagonal
    assert str(structure.how_ultrametric(rounded)) == str(structure.how_ultrametric(distances * (1 - np.eye(12))))
