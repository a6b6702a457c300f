"""Analyses of one tree against slow, obvious twins, on awkward shapes, and on WordNet."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import log, log2

import numpy as np
import pytest
from hypothesis import given, settings

from shapes import AWKWARD, caterpillar, full, path, star
from strategies import random_tree, trees
from vpunn import PadicCode, Tree, VpunnError, structure
from vpunn.structure.distances import count_violations


def leaf_digits(tree: Tree) -> list[tuple[int, ...]]:
    return [tuple(row) for row in PadicCode(tree).digits(tree.leaves).tolist()]


def bits(items) -> float:
    counts = Counter(items).values()
    n = sum(counts)
    return -sum(c / n * log2(c / n) for c in counts)


@settings(max_examples=60, deadline=None)
@given(trees())
def test_boxes_are_distinct_prefixes(tree):
    found = structure.box_counting(tree)
    digits = leaf_digits(tree)
    assert found.counts.tolist() == [len({d[:k] for d in digits}) for k in range(tree.max_depth + 1)]
    assert (found.local <= 1 + 1e-12).all()
    if found.slope is not None:
        k = np.arange(found.fit[0], found.fit[1] + 1)
        slope = np.polyfit(k, [log(found.counts[i]) / log(found.p) for i in k], 1)[0]
        assert found.slope == pytest.approx(slope, abs=1e-9) and found.slope <= 1
        assert found.rate == pytest.approx(slope * log(found.p), abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(trees())
def test_entropies_are_those_of_counted_digits(tree):
    found = structure.entropy(tree)
    digits = leaf_digits(tree)
    for k in range(tree.max_depth):
        assert found.digit[k] == pytest.approx(bits(d[k] for d in digits), abs=1e-9)
        assert found.prefix[k + 1] == pytest.approx(bits(d[: k + 1] for d in digits), abs=1e-9)
        assert found.given[k] == pytest.approx(found.prefix[k + 1] - found.prefix[k], abs=1e-9)
    assert (np.diff(found.prefix) >= 0).all()


def test_entropy_of_weighted_leaves():
    tree = full(2, 2)
    found = structure.entropy(tree, [3, 1, 0, 0])
    assert found.digit.tolist() == [0.0, pytest.approx(bits([1, 1, 1, 2]))]
    with pytest.raises(VpunnError, match="one per point"):
        structure.entropy(tree, [1, 2])


def test_digit_entropy_may_fall_and_the_verdict_says_so():
    four_then_two = Tree.from_parents([-1, 0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
    assert structure.entropy(four_then_two).digit.tolist() == [2.0, 1.0]
    assert "falls 1 time" in structure.entropy(four_then_two).verdict
    assert "never falls" in structure.entropy(full(2, 3)).verdict


def test_entropy_against_accuracy():
    found = structure.entropy(random_tree(300, 1)).against([0.9, 0.5, float("nan"), 0.2])
    assert len(found.entropy) == 3 and -1 <= found.rho <= 1
    assert structure.entropy(full(2, 3)).against([0.1, 0.2, 0.3]).rho is None  # one entropy at all digits


@settings(max_examples=40, deadline=None)
@given(trees())
def test_branching_counts_children(tree):
    found = structure.branching(tree, permutations=19)
    seen = Counter((int(tree.depth[i]), len(tree.children(i))) for i in range(tree.n_nodes) if len(tree.children(i)))
    assert {(d, b): c for d, b, c in zip(found.depth, found.degree, found.count, strict=True)} == seen
    if found.information is not None:
        flat = [key for key, c in seen.items() for _ in range(c)]
        twin = bits(d for d, _ in flat) + bits(b for _, b in flat) - bits(flat)
        assert found.information == pytest.approx(twin, abs=1e-9)
        assert 0 < found.p_value <= 1


def test_branching_test_keeps_its_level_and_has_power():
    """Depths of one law are called different in about 5 % of the cases; depths of two laws nearly always."""
    rng = np.random.default_rng(0)

    def grown(laws) -> Tree:
        parent, level = [-1], [0]
        for law in laws:
            nxt = []
            for node in level:
                for _ in range(int(law(rng))):
                    nxt.append(len(parent))
                    parent.append(node)
            level = nxt or [level[-1]]
        return Tree.from_parents(parent)

    def same(r):
        return 1 + r.poisson(2.0)

    def wide(r):
        return 2 + r.poisson(4.0)

    same_p = [structure.branching(grown([same] * 4), permutations=99, seed=i).p_value for i in range(60)]
    other_p = [structure.branching(grown([same] * 4 + [wide]), permutations=99, seed=i).p_value for i in range(20)]
    # the last level's leaves are not inner nodes, so nothing favours one depth
    assert sum(p <= 0.05 for p in same_p if p is not None) <= 9
    assert sum(p <= 0.05 for p in other_p) >= 17


def test_tail_of_a_planted_power_law_is_found():
    rng = np.random.default_rng(0)
    degrees = rng.zipf(2.5, 4000)
    parent = [-1, *([0] * len(degrees))]
    for i, b in enumerate(np.minimum(degrees, 3000).tolist(), 1):
        parent += [i] * b
    tail = structure.branching(Tree.from_parents(parent), permutations=1).tail
    assert tail.alpha == pytest.approx(2.5, abs=0.15)
    assert tail.geometric[0] > 0 and tail.geometric[1] < 0.01 and "heavy tail" in tail.verdict
    few = [-1, *([0] * 4000)]
    for i, b in enumerate(rng.geometric(0.3, 4000).tolist(), 1):
        few += [i] * b
    assert "not a power law" in structure.branching(Tree.from_parents(few), permutations=1).tail.verdict


@pytest.mark.parametrize(
    "tree", [path(70), star(90), caterpillar(81), full(3, 4), random_tree(200, 3), random_tree(80, 5, 3)]
)
def test_spectrum_equals_dense_eigenvectors(tree):
    n = tree.n_nodes
    adjacency = np.zeros((n, n))
    adjacency[np.arange(1, n), tree.parent[1:]] = adjacency[tree.parent[1:], np.arange(1, n)] = 1
    laplacian = np.diag(adjacency.sum(0)) - adjacency
    found = structure.spectrum(tree)
    assert found.eigenvalues == pytest.approx(np.linalg.eigvalsh(laplacian)[1:4], abs=1e-8)
    assert laplacian @ found.vectors == pytest.approx(found.vectors * found.eigenvalues, abs=1e-6)
    assert np.linalg.norm(found.vectors, axis=0) == pytest.approx(1.0)
    assert found.vectors.sum(0) == pytest.approx(0.0, abs=1e-6)


def test_spectrum_says_when_its_plane_is_arbitrary_and_repeats_itself():
    assert structure.spectrum(star(90)).arbitrary and "not unique" in structure.spectrum(full(4, 3)).verdict
    tree = random_tree(3000, 2)
    assert not structure.spectrum(tree).arbitrary
    assert (structure.spectrum(tree).vectors == structure.spectrum(tree).vectors).all()
    part = structure.spectrum(tree, 1)
    assert len(part.tree) == tree.size[1] and len(part.radius) == tree.size[1]


@settings(max_examples=40, deadline=None)
@given(trees(max_nodes=25))
def test_distance_matrix_has_no_broken_triangle(tree):
    found = structure.distance_matrix(tree)
    twin = [[int(tree.lca_depth(int(a), int(b))) for b in tree.leaves] for a in tree.leaves]
    assert found.valuation.tolist() == twin and found.unordered == 0
    closest = np.where(np.eye(len(twin), dtype=bool), 99, np.array(twin))
    assert found.violations == count_violations(closest) == 0


def test_broken_triangles_are_counted():
    rng = np.random.default_rng(1)
    valuation = rng.integers(0, 4, (12, 12))
    valuation = np.maximum(valuation, valuation.T)
    twin = sum(
        sorted((valuation[i, j], valuation[i, k], valuation[j, k]))[0]
        != sorted((valuation[i, j], valuation[i, k], valuation[j, k]))[1]
        for i, j, k in combinations(range(12), 3)
    )
    assert count_violations(valuation) == twin > 0


def test_distance_matrix_samples_and_refuses():
    tree = random_tree(3000, 0)
    found = structure.distance_matrix(tree, sample=50, seed=1)
    assert len(found.leaves) == 50 and (np.diff(found.leaves) > 0).all() and tree.is_leaf[found.leaves].all()
    assert (found.leaves == structure.distance_matrix(tree, sample=50, seed=1).leaves).all()
    with pytest.raises(VpunnError, match="5,000"):
        structure.distance_matrix(star(7000), sample=9000)


@settings(max_examples=40, deadline=None)
@given(trees(max_nodes=25))
def test_mapper_of_the_code_is_the_nesting_of_balls(tree):
    depths = (1, 2, 4)
    found = structure.mapper(tree, depths=depths)
    digits = {int(leaf): code for leaf, code in zip(tree.leaves, leaf_digits(tree), strict=True)}
    sets = {
        frozenset(leaf for leaf in digits if digits[leaf][:k] == code[:k]) for code in digits.values() for k in depths
    }
    balls = [
        frozenset(np.flatnonzero(tree.is_leaf & tree.is_ancestor(d["ball"], np.arange(tree.n_nodes))).tolist())
        for _, d in found.graph.nodes(data=True)
    ]
    # a chain of single children holds the same leaves, once per depth
    assert set(balls) == sets
    edges = {frozenset((a, b)) for a, b in combinations(range(len(balls)), 2) if balls[a] & balls[b]}
    assert {frozenset(e) for e in found.graph.edges} == edges
    tops = {code[:1] for code in digits.values()}
    assert found.n_components == len(tops) and found.bridges == 0 and found.forced


def test_mapper_of_points_can_find_bridges():
    tree = full(2, 6)
    rng = np.random.default_rng(0)
    apart = np.repeat([0.0, 100.0], 32)[:, None] + rng.normal(size=(64, 2))
    mixed = rng.normal(size=(64, 2))
    lens = rng.uniform(size=64)
    separated = structure.mapper(tree, lens, points=apart, intervals=4, radius=5.0)
    assert not separated.forced and separated.bridges == 0 and separated.n_components == 2
    assert separated.agreement == pytest.approx(1.0)
    assert structure.mapper(tree, lens, points=mixed, intervals=4, radius=5.0).n_components == 1
    with pytest.raises(VpunnError, match="lens"):
        structure.mapper(tree, points=mixed)
    with pytest.raises(VpunnError, match="one finite number per leaf"):
        structure.mapper(tree, [1.0])


def test_mapper_leaves_out_small_sets_and_counts_them():
    found = structure.mapper(star(9), depths=(0, 1), min_size=2)
    assert found.graph.number_of_nodes() == 1 and found.n_dropped == 8


@settings(max_examples=40, deadline=None)
@given(trees(max_nodes=30))
def test_prefix_information_twin(tree):
    values = [i % 3 if i % 7 else None for i in range(tree.n_nodes)]
    items = [int(i) for i in tree.leaves if values[i] is not None]
    if not items:
        return
    found = structure.prefix_information(tree, values)
    digits = dict(zip(tree.leaves.tolist(), leaf_digits(tree), strict=True))
    for k in range(len(found.after_prefix)):
        twin = bits((digits[i][:k], values[i]) for i in items) - bits(digits[i][:k] for i in items)
        assert found.after_prefix[k] == pytest.approx(twin, abs=1e-9)
    for k in range(len(found.after_digit)):
        twin = bits((digits[i][k], values[i]) for i in items) - bits(digits[i][k] for i in items)
        assert found.after_digit[k] == pytest.approx(twin, abs=1e-9)


def test_shared_levels_twin():
    tree = full(3, 3)
    codes = ["1.1.1", "1.1.2", "1.2", "1.-", "1.-", "2.1.1", "2.1.1", "3"]
    nodes = tree.leaves[[0, 1, 3, 9, 12, 10, 11, 20]]
    found = structure.shared_levels(tree, nodes, codes)

    def common(a: str, b: str) -> int:
        n = 0
        for x, y in zip(a.split("."), b.split("."), strict=False):
            if x != y or x == "-":
                break
            n += 1
        return n

    pairs = [
        (common(codes[i], codes[j]), int(tree.lca_depth(nodes[i], nodes[j]))) for i, j in combinations(range(8), 2)
    ]
    for level, count, mean in zip(found.levels, found.count, found.mean, strict=True):
        depths = [d for s, d in pairs if s == level]
        assert count == len(depths) and mean == pytest.approx(np.mean(depths))


def test_magnitudes_by_depth_and_bits():
    tree = full(2, 5)
    rng = np.random.default_rng(0)
    c = rng.choice([-1.0, 1.0], tree.n_nodes) * 3.0 ** -tree.depth.astype(float)
    found = structure.magnitudes(tree, c)
    assert found.slope == pytest.approx(-1.0) and found.p == 3
    twin = [np.abs(c[tree.depth == k]).mean() for k in range(6)]
    assert found.mean == pytest.approx(twin)
    assert found.error[-1] <= 0.01 and (found.error[:-1] > 0.01).all() and found.bits == len(found.error)
    assert structure.magnitudes(tree, np.zeros(tree.n_nodes)).bits is None
    with pytest.raises(VpunnError, match="one finite number"):
        structure.magnitudes(tree, [1.0])
    with pytest.raises(VpunnError, match="tolerance"):
        structure.magnitudes(tree, c, tolerance=0.0)


@pytest.mark.parametrize("name", AWKWARD)
def test_every_analysis_of_awkward_trees_answers_in_a_sentence(name):
    tree = AWKWARD[name]
    found = [
        structure.branching(tree, permutations=9),
        structure.box_counting(tree),
        structure.entropy(tree),
        structure.spectrum(tree),
        structure.mapper(tree),
        structure.distance_matrix(tree),
        structure.compare_trees(tree, tree),
        structure.prefix_information(tree, np.arange(tree.n_nodes)),
        structure.magnitudes(tree, np.zeros(tree.n_nodes)),
    ]
    for one in found:
        assert one.verdict.endswith(".") and "nan" not in str(one).lower(), str(one)
        assert one.verdict in str(one)
        assert all(value is None or value == value for row in one.rows() for value in row.values())


def test_wordnet_has_the_measured_numbers():
    from vpunn.datasets import load_wordnet

    tree = load_wordnet().tree
    boxes = structure.box_counting(tree)
    assert (
        boxes.fit == (1, 7)
        and boxes.slope == pytest.approx(0.2615, abs=1e-4)
        and boxes.rate == pytest.approx(1.573, abs=1e-3)
    )
    topics = structure.prefix_information(tree, "lexicographer")
    assert (topics.bits, topics.after_prefix[8], topics.after_digit[7]) == pytest.approx(
        (3.979, 0.0121, 3.551), abs=1e-3
    )
    assert structure.entropy(tree).prefix[-1] == pytest.approx(log2(tree.n_leaves))
    assert "not self-similar" in structure.branching(tree, permutations=199).verdict
    plane = structure.spectrum(tree, tree.index("physical_entity.n.01"))
    assert plane.rho == pytest.approx(0.659, abs=0.01)


def test_enzymes_that_share_levels_lie_close_in_the_gene_ontology():
    """The paper says so without a number; over terms with one whole EC number it is ρ = +0.83."""
    from vpunn.datasets import load_go

    go = load_go("molecular_function")
    enzymes = go.references("EC").drop_duplicates("node", keep=False)
    enzymes = enzymes[enzymes["name"].str.fullmatch(r"\d+\.\d+\.\d+\.n?\d+")]
    assert len(enzymes) > 4300
    found = structure.shared_levels(go.tree, enzymes["node"].to_numpy(), enzymes["name"].to_list())
    assert found.rho == pytest.approx(0.83, abs=0.01) and found.balanced > 0.75
    assert found.levels.tolist() == [0, 1, 2, 3, 4] and (np.diff(found.mean[:4]) > 0).all()
    # the same numbers dealt to other terms say nothing
    dealt = np.random.default_rng(0).permutation(enzymes["name"].to_numpy()).tolist()
    assert abs(structure.shared_levels(go.tree, enzymes["node"].to_numpy(), dealt).rho) < 0.02


@pytest.mark.parametrize("reach", [None, 3, 1])
def test_a_million_nodes(reach):
    """A bush, a deep tree and a path of a million nodes: nothing recurses, nothing loops over nodes."""
    tree = path(1_000_000) if reach == 1 else random_tree(1_000_000, 0, reach)
    assert structure.box_counting(tree).counts[-1] == tree.n_leaves
    assert structure.entropy(tree).prefix[-1] == pytest.approx(log2(tree.n_leaves), abs=1e-6)
    assert structure.branching(tree, permutations=9).verdict
    assert structure.distance_matrix(tree, sample=100).violations == 0
    assert structure.mapper(tree, depths=(1, 2), min_size=1000).verdict
    assert structure.compare_trees(tree, tree, sample=1000).robinson_foulds == 0


def rows_of(tree: Tree) -> np.ndarray:
    return PadicCode(tree).digits(tree.leaves)


class Model:
    """A model that gives digits, and one whose tree has them."""

    def __init__(self, tree: Tree, own: bool) -> None:
        if own:
            self.digit_rows = lambda: rows_of(tree)
        else:
            self.tree_ = tree


ANALYSES = {
    "box_counting": lambda source: structure.box_counting(source),
    "entropy": lambda source: structure.entropy(source),
    "mapper": lambda source: structure.mapper(source, depths=(1, 2)),
    "spectrum": lambda source: structure.spectrum(source),
    "distance_matrix": lambda source: structure.distance_matrix(source, sample=12),
    "branching": lambda source: structure.branching(source, permutations=9),
    "how_ultrametric": lambda source: structure.how_ultrametric(source, kind="digits", sample=100),
}


def answer(analyse, source) -> dict[str, object]:
    """Every number of a finding, as plain values; the sentence of a refusal."""
    try:
        found = analyse(source)
    except VpunnError as error:
        return {"refused": str(error)}
    numbers = {name: value for name, value in vars(found).items() if name not in ("labels", "graph", "tree")}
    return {"said": str(found), **{k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in numbers.items()}}


@pytest.mark.parametrize("name", ANALYSES)
@settings(max_examples=25, deadline=None)
@given(trees().filter(lambda tree: tree.max_depth > 0))
def test_structure_of_digits_is_that_of_the_tree_they_came_from(name, tree):
    expected = answer(ANALYSES[name], tree)
    for source in (rows_of(tree), rows_of(tree).tolist(), Model(tree, True), Model(tree, False)):
        assert answer(ANALYSES[name], source) == expected


def test_equal_rows_and_rows_inside_others_are_points_of_their_own():
    rows = [[1, 2], [1, 0], [1, 2], [2, 1], [0, 0]]
    assert structure.box_counting(rows).counts.tolist() == [len({tuple(r[:k]) for r in rows}) for k in range(3)]
    found = structure.entropy(rows)
    assert found.prefix.tolist() == pytest.approx([bits(tuple(r[:k]) for r in rows) for k in range(3)])
    assert found.digit.tolist() == pytest.approx([bits(r[k] for r in rows) for k in range(2)])
    matrix = structure.distance_matrix(rows)
    assert matrix.valuation.tolist() == [[0] * 5, [0, 1, 1, 1, 0], [0, 1, 2, 2, 0], [0, 1, 2, 2, 0], [0, 0, 0, 0, 2]]
    assert (matrix.violations, matrix.unordered) == (0, 0)
    assert (
        structure.mapper(rows, depths=(1, 2)).graph.number_of_nodes() == 6
    )  # the root's own point, 1, 2; below: 12, 1 alone, 21
    assert structure.how_ultrametric([[1], [1], [2], [3]], kind="digits").verdict


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([[0, 1]], "add 1 to digits that count from 0"),
        ([[1, -1]], "got -1 in row 0, digit 1"),
        ([[1.5]], "whole numbers from 0, got 1.5"),
        ([[]], "at least one column"),
        ([1, 2], "one row per item"),
        ([["a"]], "one row per item"),
        ([[1], [1, 2]], "one row per item"),
    ],
)
def test_what_are_no_digits_is_refused_in_a_sentence(given, said):
    for analyse in ANALYSES.values():
        with pytest.raises(VpunnError, match=said):
            analyse(given)
