"""v-PuNNs: exact interpolation, gauges, Lipschitz constants, ablation, depth schedules."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import trees
from vpunn.errors import VpunnError
from vpunn.network import VPuNN
from vpunn.network.gauges import lossless_depths
from vpunn.network.rings import Ring, valuations
from vpunn.paper.balls import BallNeuron, indicator
from vpunn.tree import Tree


def complete(branching: int, depth: int) -> Tree:
    parents, level = [-1], [0]
    for _ in range(depth):
        new = list(range(len(parents), len(parents) + branching * len(level)))
        parents += [v for v in level for _ in range(branching)]
        level = new
    return Tree.from_parents(parents)


def values_for(kind: str, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if kind == "rational":
        return np.array(
            [Fraction(int(a), int(b)) for a, b in zip(rng.integers(-99, 99, n), rng.integers(1, 99, n), strict=True)]
        )
    return rng.integers(-(10**6), 10**6, n)


@settings(max_examples=60)
@given(trees(), st.sampled_from(["integer", "rational", "padic"]), st.integers(0, 99))
def test_interpolation_is_exact_with_leaves_and_with_nodes_coefficients(tree: Tree, kind: str, seed: int) -> None:
    g = values_for(kind, tree.n_leaves, seed)
    p = 101
    net = VPuNN(tree, values=kind, p=p, precision=6).interpolate(g)
    expected = g % p**6 if kind == "padic" else g
    assert (net.predict(tree.leaves) == expected).all()
    assert net.n_nonzero <= tree.n_leaves
    if kind == "rational":
        mean = VPuNN(tree, values=kind).interpolate(g, gauge="mean")
        assert (mean.predict(tree.leaves) == g).all()
        start, ids = tree.child_index
        for v in np.flatnonzero(tree.n_children):
            assert sum(mean.coefficients_[ids[start[v] : start[v + 1]]]) == 0
    nodes = values_for(kind, tree.n_nodes, seed + 1)
    full = VPuNN(tree, values=kind, p=p, precision=6).interpolate_nodes(nodes)
    assert (full.predict(np.arange(tree.n_nodes)) == (nodes % p**6 if kind == "padic" else nodes)).all()


@settings(max_examples=30)
@given(trees(), st.integers(0, 99))
def test_real_interpolation_is_right_to_rounding_for_vectors(tree: Tree, seed: int) -> None:
    g = np.random.default_rng(seed).normal(size=(tree.n_leaves, 3))
    for gauge in ("vdp", "mean"):
        np.testing.assert_allclose(VPuNN(tree).interpolate(g, gauge=gauge).predict(tree.leaves), g, atol=1e-13)


@settings(max_examples=40)
@given(trees().filter(lambda t: t.n_nodes > 1), st.integers(0, 99))
def test_gauges_convert_into_each_other_and_leave_leaf_values_alone(tree: Tree, seed: int) -> None:
    start = VPuNN(tree, values_for("rational", tree.n_nodes, seed), values="rational")
    seen = {gauge: start.to_gauge(gauge) for gauge in ("vdp", "mean", "root-zero")}
    for net in seen.values():
        assert (net.predict(tree.leaves) == start.predict(tree.leaves)).all()
        for gauge, expected in seen.items():
            assert (net.to_gauge(gauge).coefficients_ == expected.coefficients_).all()
    assert seen["root-zero"].coefficients_[0] == 0
    assert seen["vdp"].n_nonzero <= tree.n_leaves
    assert seen["root-zero"].n_nonzero <= tree.n_leaves


def test_padic_values_with_p_in_the_denominator() -> None:
    tree = Tree.from_parents([-1, 0, 0])
    net = VPuNN(tree, values="padic", p=5, precision=4).interpolate([Fraction(3, 25), Fraction(1, 3)])
    first, second = net.predict(tree.leaves)
    assert first == Fraction(3, 25)
    assert valuations(np.array([second - Fraction(1, 3)], dtype=object), 5)[0] >= 4


def test_huge_integers_stay_exact() -> None:
    tree = complete(2, 3)
    g = np.array([(-1) ** i * 10**40 + i for i in range(8)], dtype=object)
    assert VPuNN(tree, values="integer").interpolate(g).predict(tree.leaves).tolist() == g.tolist()


def averaged_construction(tree: Tree, g: list[Fraction]) -> np.ndarray:
    """The appendix of the paper, Step 3: leaves carry g, every other ball the mean of its children's coefficients."""
    c = np.full(tree.n_nodes, Fraction(0), dtype=object)
    c[tree.leaves] = g
    for v in range(tree.n_nodes - 1, -1, -1):
        if not tree.is_leaf[v]:
            c[v] = sum(c[tree.children(v)], Fraction(0)) / len(tree.children(v))
    return c


def test_the_papers_averaged_construction_does_not_telescope() -> None:
    tree = complete(2, 3)  # AUDIT E-31: the constant function 1 comes out as K + 1
    net = VPuNN(tree, averaged_construction(tree, [Fraction(1)] * 8), values="rational")
    assert set(net.predict(tree.leaves)) == {Fraction(4)}
    assert set(VPuNN(tree, values="rational").interpolate([Fraction(1)] * 8).predict(tree.leaves)) == {Fraction(1)}


def test_rank_of_shallow_balls_refutes_the_papers_count() -> None:
    tree = complete(3, 3)  # AUDIT E-30: balls of depth < K span 9 of the 27 dimensions

    def rank(nodes: np.ndarray) -> int:
        return int(np.linalg.matrix_rank(np.stack([indicator(tree, int(b), tree.leaves) for b in nodes])))

    assert rank(np.flatnonzero(tree.depth < 3)) == 9
    g = np.arange(27) ** 2 + 1
    net = VPuNN(tree, values="integer").interpolate(g)
    assert net.n_nonzero == 27
    assert rank(np.flatnonzero(net.coefficients_)) == 27


@settings(max_examples=60)
@given(trees(), st.sampled_from([2, 3, 5]), st.integers(0, 99))
def test_lipschitz_constant_is_the_largest_quotient(tree: Tree, p: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    g = rng.integers(-200, 200, tree.n_leaves) * p ** rng.integers(0, 3, tree.n_leaves)
    net = VPuNN(tree, values="integer", p=p).interpolate(g)
    shifted = VPuNN(tree, net.coefficients_, values="rational", p=p).to_gauge("mean")  # any gauge gives the same answer
    best, real = Fraction(0), 0.0
    for (i, x), (j, y) in combinations(enumerate(tree.leaves), 2):
        gap, scale = int(g[i] - g[j]), Fraction(p) ** tree.lca_depth(int(x), int(y))
        if gap:
            best = max(best, scale / Fraction(p) ** int(valuations(np.array([gap]), p)[0]))
            real = max(real, float(scale) * abs(gap))
    assert net.lipschitz_constant() == best
    assert shifted.lipschitz_constant() == best
    assert VPuNN(tree, p=p).interpolate(g).lipschitz_constant() == pytest.approx(real)


def test_a_layer_is_not_one_lipschitz() -> None:
    tree = complete(2, 2)  # AUDIT E-36: c = 1 on one ball of depth 2 has constant p, not 1
    c = np.zeros(7, int)
    c[2] = 1
    assert VPuNN(tree, c, values="integer", p=3).lipschitz_constant() == 3


@settings(max_examples=40)
@given(trees(), st.integers(0, 99), st.data())
def test_ablation_changes_nothing_outside_the_ball(tree: Tree, seed: int, data: st.DataObject) -> None:
    c = np.random.default_rng(seed).normal(size=tree.n_nodes)
    net = VPuNN(tree, c)
    ball = data.draw(st.integers(0, tree.n_nodes - 1))
    every = np.arange(tree.n_nodes)
    before, after = net.predict(every), net.ablate(ball).predict(every)
    inside = np.zeros(tree.n_nodes, bool)
    inside[tree.slice(ball)] = True
    assert before[~inside].tobytes() == after[~inside].tobytes()
    np.testing.assert_allclose(before[inside] - after[inside], c[ball], atol=1e-12)
    assert net.coefficients_[ball] == c[ball]  # the original is untouched


@settings(max_examples=40)
@given(trees(), st.integers(0, 99))
def test_network_is_the_sum_of_its_layers_and_of_its_neurons(tree: Tree, seed: int) -> None:
    c = np.random.default_rng(seed).integers(-9, 9, tree.n_nodes)
    net, every = VPuNN(tree, c, values="integer"), np.arange(tree.n_nodes)
    assert (sum(layer(every) for layer in net.layers) == net.predict(every)).all()
    assert (sum(layer.activations(every).sum(axis=1) for layer in net.layers) == net.predict(every)).all()
    assert (sum(BallNeuron(tree, b, c[b])(every) for b in range(tree.n_nodes)) == net.predict(every)).all()
    for v in range(tree.n_nodes):
        assert net.predict(v) == c[net.sparse_activation_path(v)].sum()
        fires = [b for b in range(tree.n_nodes) if indicator(tree, b, v)]
        assert fires == net.sparse_activation_path(v).tolist()


@settings(max_examples=40)
@given(trees(), st.integers(0, 99))
def test_pruning_unary_depths_is_lossless(tree: Tree, seed: int) -> None:
    net = VPuNN(tree, values_for("rational", tree.n_nodes, seed), values="rational")
    pruned, kept = net.prune_depths(), lossless_depths(tree)
    assert (pruned.predict(tree.leaves) == net.predict(tree.leaves)).all()
    assert (pruned.restrict(kept).coefficients_ == pruned.coefficients_).all()
    for k in set(range(tree.max_depth + 1)) - set(kept.tolist()):
        assert len(set(tree.parent[tree.depth == k])) == (tree.depth == k).sum()  # only children there


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: VPuNN(t, values="complex"), "values='complex' is unknown"),
        (lambda t: VPuNN(t, values="padic", p=6), "must be a prime number, got 6"),
        (lambda t: VPuNN(t, values="padic", p=5, precision=0), "precision=0"),
        (lambda t: VPuNN(t, [1, 2]), "got 2 coefficients where 3"),
        (lambda t: VPuNN(t).interpolate([1, 2, 3]), "got 3 leaf values where 2"),
        (lambda t: VPuNN(t).interpolate(5), "got 0 leaf values"),
        (lambda t: VPuNN(t).interpolate_nodes([1]), "got 1 node values where 3"),
        (lambda t: VPuNN(t).interpolate([1, np.nan]), "finite, got nan"),
        (lambda t: VPuNN(t).interpolate(["a", "b"]), "must be numbers, got 'a', 'b'"),
        (lambda t: VPuNN(t, values="integer").interpolate([0.5, 1]), "0.5 are not integers"),
        (lambda t: VPuNN(t, values="rational").interpolate(["x", "1/2"]), "finite numbers"),
        (lambda t: VPuNN(t).interpolate([1, 2], gauge="leaf"), "gauge='leaf' is unknown"),
        (lambda t: VPuNN(t, values="integer").interpolate([1, 2], gauge="mean"), "divides"),
        (lambda t: VPuNN(t).layer(3), "within 0..1"),
        (lambda t: VPuNN(t).restrict([1, 0]), "rise strictly"),
        (lambda t: VPuNN(t).predict(7), "outside this tree"),
        (lambda t: VPuNN(t).ablate(-1), "outside this tree"),
    ],
)
def test_bad_input_is_one_clear_sentence(call, words: str) -> None:
    with pytest.raises(VpunnError, match=words.replace("(", r"\(")) as error:
        call(Tree.from_parents([-1, 0, 0]))
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(".")


def test_root_zero_needs_children() -> None:
    with pytest.raises(VpunnError, match="one node"):
        VPuNN(Tree.from_parents([-1])).interpolate([1.0], gauge="root-zero")


def test_rings_read_text_and_booleans() -> None:
    assert Ring("rational").store(["1/3", "0.5"])[1].tolist() == [Fraction(1, 3), Fraction(1, 2)]
    assert Ring("integer").store([True, False])[1].tolist() == [1, 0]


@pytest.mark.parametrize("kind", ["real", "integer", "rational", "padic"])
def test_every_ring_supports_every_edit(kind: str) -> None:
    """The default p-adic precision keeps residues as Python integers, whose zero must still be an array element."""
    tree = Tree.from_parents([-1, 0, 1, 2, 2, 1])
    net = VPuNN(tree, values=kind).interpolate([3, 5, 8])  # type: ignore[arg-type]
    for edited in (net.to_gauge("root-zero"), net.to_gauge("vdp"), net.prune_depths()):
        assert edited.predict(tree.leaves).tolist() == [3, 5, 8]
    c = net.coefficients_
    assert net.ablate(4).predict(tree.leaves).tolist() == [3, 5 - c[4], 8]
    assert net.restrict([0]).predict(tree.leaves).tolist() == [c[0]] * 3


def test_integer_sums_along_a_chain_do_not_wrap() -> None:
    tree = Tree.from_parents([-1, *range(60)])
    net = VPuNN(tree, [2**61] * 61, values="integer")
    assert net.predict(60) == 61 * 2**61
    assert net.prune_depths().predict(60) == 61 * 2**61


def test_padic_values_from_narrow_integers() -> None:
    tree = Tree.from_parents([-1, 0, 0])
    net = VPuNN(tree, values="padic", p=5, precision=5).interpolate(np.array([1, -2], np.int8))
    assert net.predict(tree.leaves).tolist() == [1, 5**5 - 2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda t: VPuNN(t).interpolate([[1], [1, 2], [3]]), "differ in length"),
        (lambda t: VPuNN(t).interpolate([1j, 2, 3]), "must be numbers"),
        (lambda t: VPuNN(t, values="rational").interpolate(["1/0", 2, 3]), "finite numbers"),
        (lambda t: VPuNN(t, p=4), "prime number, got 4"),
        (lambda t: VPuNN(t, values="padic", precision=2.5), "precision=2.5"),
        (lambda t: VPuNN(t).ablate([1, 2]), "one node id"),
        (lambda t: VPuNN(t).restrict(1), "got 1"),
    ],
)
def test_bad_values_are_named(make: Any, message: str) -> None:
    with pytest.raises(VpunnError, match=message):
        make(Tree.from_parents([-1, 0, 0, 0]))
