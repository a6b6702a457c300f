"""Codes of nodes: isometry, losslessness, text, mixed radix, and the controls that fail where they should."""

import itertools
import math
import pickle
import re
import tempfile
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

import vpunn
from strategies import random_tree, trees
from vpunn import padic
from vpunn.codes import MixedRadixCode, PadicCode
from vpunn.codes._text import MODES
from vpunn.errors import CodeChangeWarning, CodeError, DataError, TreeError, VpunnError
from vpunn.padic import Ball
from vpunn.tree import Tree
from vpunn.tree.sweeps import sweep_down


def animals():
    return Tree.from_parents([-1, 0, 0, 1, 1], labels=["animal", "bird", "fish", "owl", "robin"])


def slow_path(tree, node):
    """Digits by climbing one step at a time."""
    digits = []
    while tree.parent[node] >= 0:
        siblings = [i for i in range(tree.n_nodes) if tree.parent[i] == tree.parent[node]]
        digits.append(siblings.index(node) + 1)
        node = tree.parent[node]
    return digits[::-1]


def slow_lca_depth(tree, u, v):
    above = set()
    while u >= 0:
        above.add(u)
        u = tree.parent[u]
    while v not in above:
        v = tree.parent[v]
    return tree.depth[v]


def pairs_of(tree):
    ids = np.arange(tree.n_nodes)
    return (side.ravel() for side in np.meshgrid(ids, ids))


# ---- isometry, injectivity, round trips --------------------------------------------------------------------------------


@settings(max_examples=1000)
@given(trees(max_nodes=25))
def test_codes_are_isometric_and_lossless_on_all_pairs(tree):  # AUDIT 5.1, 5.2
    code = PadicCode(tree)
    codes = code.encode()
    assert len(set(codes.tolist())) == tree.n_nodes
    assert codes[0] == 0
    assert max(codes) < code.p**code.K or code.K == 0
    assert code.decode(codes).tolist() == list(range(tree.n_nodes))
    u, v = pairs_of(tree)
    by_arithmetic = padic.valuation(codes[u] - codes[v], code.p)
    distinct = u != v
    assert (by_arithmetic[distinct] == tree.lca_depth(u, v)[distinct]).all()
    assert np.isinf(by_arithmetic[~distinct]).all()
    assert (code.valuation(u, v) == tree.lca_depth(u, v)).all()


@settings(max_examples=50)
@given(trees(max_nodes=15))
def test_against_slow_climbing(tree):
    code = PadicCode(tree)
    for u in range(tree.n_nodes):
        path = slow_path(tree, u)
        assert code.encode(u) == sum(a * code.p**k for k, a in enumerate(path))
        assert code.digits(u).tolist() == path + [0] * (code.K - len(path))
        for v in range(tree.n_nodes):
            assert code.valuation(u, v) == slow_lca_depth(tree, u, v)


@pytest.mark.parametrize("reach", [3, 30, None])
def test_all_pairs_of_a_larger_tree(reach):  # AUDIT 5.2 up to 300 nodes
    tree = random_tree(300, seed=5, reach=reach)
    code = PadicCode(tree)
    codes = code.encode()
    valuations = padic.valuation(codes[:, None] - codes[None, :], code.p)
    np.fill_diagonal(valuations, tree.depth)
    assert (valuations == tree.lca_depth_matrix(np.arange(300))).all()


@given(trees(), st.data())
def test_encoding_some_nodes_equals_encoding_all(tree, data):
    wanted = data.draw(st.lists(st.integers(0, tree.n_nodes - 1), max_size=3))
    everything = PadicCode(tree).encode()
    fresh = PadicCode(tree)
    assert fresh.encode(np.array(wanted, np.int64)).tolist() == everything[wanted].tolist()
    assert (fresh.digits(np.array(wanted, np.int64)) == fresh.digits()[wanted]).all()


def test_shapes_and_types():
    tree = random_tree(60, seed=1)
    code = PadicCode(tree)
    square = np.arange(6).reshape(2, 3)
    for _ in range(2):  # before and after the whole tree was encoded
        assert type(code.encode(5)) is int
        assert type(code.encode(np.int32(5))) is int
        assert code.encode(square).shape == (2, 3)
        assert code.encode([]).shape == (0,)
        assert code.digits(square).shape == (2, 3, code.K)
        assert code.digits(5).shape == (code.K,)
        code.encode()
    assert type(code.decode(code.encode(5))) is int
    assert code.decode(code.encode(square)).tolist() == square.tolist()
    assert code.decode([]).shape == (0,)
    assert code.format(square, "digits").shape == (2, 3)
    assert code.digits().dtype == np.int32
    assert not code.encode().flags.writeable
    again = pickle.loads(pickle.dumps(code))
    assert again.encode(5) == code.encode(5)


def test_small_int_arrays_decode_too():
    code = PadicCode(animals())
    assert code.decode(np.array([0, 1, 4, 7, 2], np.uint8)).tolist() == [0, 1, 2, 3, 4]


def test_single_node_has_one_empty_code():
    code = PadicCode(Tree.from_parents([-1]))
    assert (code.p, code.K, code.bits) == (2, 0, 0)
    assert code.encode().tolist() == [0]
    assert code.decode(0) == 0
    assert code.digits().shape == (1, 0)
    assert code.distance(0, 0) == 0
    assert code.members(0, 0).tolist() == [0]
    assert [code.format(0, mode) for mode in MODES] == ["0", "[]", "…0", "0", "0"]
    assert code.parse(["0", "[]", "…0", "0"]).tolist() == [0, 0, 0, 0]
    with pytest.raises(CodeError, match="K = 0"):
        code.decode(1)


# ---- the prime -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("b", "p"), [(408, 409), (329, 331), (280, 281), (1, 2), (2, 3)])
def test_prime_of_a_star(b, p):  # AUDIT 5.5
    assert PadicCode(Tree.from_parents([-1] + [0] * b)).p == p


def test_a_larger_prime_is_allowed_and_a_smaller_or_composite_one_is_not():
    tree = Tree.from_parents([-1] + [0] * 4, labels=["hub", "a", "b", "c", "d"])
    assert PadicCode(tree, p=7).encode().tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(CodeError, match="p = 3 is too small: 'hub' has 4 children.*such as 5"):
        PadicCode(tree, p=3)
    with pytest.raises(CodeError, match="prime number, got 6; the next prime is 7"):
        PadicCode(tree, p=6)
    with pytest.raises(CodeError, match=r"got 5\.0"):
        PadicCode(tree, p=5.0)


def test_a_larger_prime_leaves_room_for_new_leaves():
    tree = animals()
    before = dict(zip(tree.labels, PadicCode(tree, p=5).encode(), strict=True))
    with pytest.warns(CodeChangeWarning):  # the smallest prime grows from 3 to 5, which is why 5 was taken at once
        grown = tree.insert([tree.index("bird")] * 2, ["wren", "crow"])
    after = dict(zip(grown.labels, PadicCode(grown, p=5).encode(), strict=True))
    assert {name: after[name] for name in before} == before


# ---- decoding ------------------------------------------------------------------------------------------------------------


def slow_decode(tree, p, x):
    """(deepest node whose digits x begins with, whether x is its code)."""
    code = PadicCode(tree, p)
    best = 0
    for node, c in enumerate(code.encode().tolist()):
        depth = int(tree.depth[node])
        if x % p**depth == c and depth > tree.depth[best]:
            best = node
    return best, code.encode(best) == x


@settings(max_examples=60)
@given(trees(max_nodes=12), st.data())
def test_every_number_decodes_or_is_refused(tree, data):
    code = PadicCode(tree)
    limit = code.p ** (code.K + 1)
    numbers = (
        range(-3, limit) if limit < 300 else data.draw(st.lists(st.integers(-limit, limit), min_size=20, max_size=20))
    )
    for x in numbers:
        node, valid = slow_decode(tree, code.p, x)
        assert code.decode(x, strict=False) == node
        if valid:
            assert code.decode(x) == node
        else:
            with pytest.raises(CodeError, match=re.escape(f"the number {x} at position 0 is the code of no node")):
                code.decode(x)
    expected = [slow_decode(tree, code.p, x)[0] for x in numbers]
    assert code.decode(list(numbers), strict=False).tolist() == expected


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (5, "digit 1 is 1 but 'fish', reached by then, has 0 children"),
        ([0, 7, 3], "number 3 at position 2.*digit 1 is 1 although digit 0 is 0, where the path stops .at 'animal'."),
        (9, "more than K = 2 digits"),
        (-1, "not negative"),
        ([5, 5, 5], "2 more numbers are no codes either"),
        (3**5000, "number of 7,925 bits"),
        (2.0, r"exact integers are needed, got 2\.0"),
        (["owl"], "exact integers are needed, got 'owl'"),
        (True, "exact integers"),
    ],
)
def test_decoding_errors_name_the_digit(numbers, words):
    with pytest.raises(CodeError, match=words):
        PadicCode(animals()).decode(numbers)


def test_unknown_nodes_are_refused():
    code = PadicCode(animals())
    for call in (code.encode, code.digits, code.format):
        with pytest.raises(TreeError, match="5"):
            call([0, 5])
    with pytest.raises(TreeError, match="no ancestor at depth 2"):
        code.ball(1, 2)


# ---- distances and balls -------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(trees(max_nodes=15))
def test_distances_are_the_p_adic_ones(tree):
    code = PadicCode(tree)
    u, v = pairs_of(tree)
    exact = code.distance(u, v, exact=True)
    codes = code.encode()
    assert (exact == padic.distance(codes[u], codes[v], code.p)).all()
    floats = code.distance(u, v)
    assert floats.dtype == np.float64
    assert np.allclose(floats, exact.astype(float), rtol=1e-12, atol=0)
    assert ((floats == 0) == (u == v)).all()
    assert padic.check_ultrametric(exact.reshape(tree.n_nodes, -1)).ok


def test_scalar_distances():
    code = PadicCode(animals())
    assert code.distance(2, 3) == pytest.approx(1 / 3)
    assert code.distance(2, 3, exact=True) == Fraction(1, 3)
    assert code.distance(2, 2) == code.distance(2, 2, exact=True) == 0
    assert isinstance(code.distance(2, 3), float)
    assert isinstance(code.distance(2, 2, exact=True), Fraction)


def test_rank_correlation_with_lca_depth_is_minus_one():  # AUDIT 5.17
    tree = random_tree(3000, seed=2)
    code = PadicCode(tree)
    rng = np.random.default_rng(0)
    u, v = rng.choice(tree.leaves, (2, 20_000))
    u, v = u[u != v], v[u != v]
    depth = tree.lca_depth(u, v)
    assert spearmanr(code.distance(u, v), depth).statistic == pytest.approx(-1, abs=1e-12)


@settings(max_examples=60)
@given(trees(max_nodes=20), st.data())
def test_balls_are_subtrees(tree, data):
    code = PadicCode(tree)
    node = data.draw(st.integers(0, tree.n_nodes - 1))
    k = data.draw(st.integers(0, int(tree.depth[node])))
    centre = code.ball(node, k)
    assert tree.depth[centre] == k
    assert tree.is_ancestor(centre, node)
    ball = Ball(code.encode(node), k, code.p)
    assert ball.center == code.encode(centre)
    inside = [i for i, x in enumerate(code.encode()) if x in ball]
    assert code.members(node, k).tolist() == inside
    assert code.ball([node, node], k).tolist() == [centre, centre]


def test_box_slopes_are_at_most_one():  # AUDIT 5.16
    for seed in range(5):
        tree = random_tree(400, seed, reach=60)
        code = PadicCode(tree)
        digits = code.digits(tree.leaves)
        counts = [len(np.unique(digits[:, :k], axis=0)) for k in range(code.K + 1)]
        slopes = np.diff(np.log(counts)) / math.log(code.p)
        assert (slopes >= 0).all()
        assert (slopes <= 1).all()
        # What the counts count: a leaf's k-prefix is its ancestor at depth k, or the leaf itself if it has stopped.
        prefixes = [
            set(tree.ancestor_at(tree.leaves, np.minimum(tree.depth[tree.leaves], k))) for k in range(code.K + 1)
        ]
        assert counts == [len(p) for p in prefixes]


# ---- exact interpolation on the same arrays (AUDIT 5.7) ------------------------------------------------------------------


@settings(max_examples=50)
@given(trees(max_nodes=20), st.data())
def test_differences_interpolate_and_averages_do_not(tree, data):
    g = np.array(data.draw(st.lists(st.fractions(), min_size=tree.n_nodes, max_size=tree.n_nodes)), object)
    differences = g.copy()
    differences[1:] -= g[tree.parent[1:]]
    assert (sweep_down(tree, differences) == g).all()
    # The paper's averaged ancestors (E-31): c_B = mean of g over the leaves of B, so a constant comes out multiplied.
    averages = tree.subtree_sum(tree.is_leaf.astype(np.int64)) / tree.leaf_counts
    assert (sweep_down(tree, averages)[tree.leaves] == 1 + tree.depth[tree.leaves]).all()


# ---- text ----------------------------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(trees(max_nodes=25))
def test_text_round_trips(tree):
    code = PadicCode(tree)
    everyone = list(range(tree.n_nodes))
    for mode in MODES[:-1]:
        texts = code.format(mode=mode)
        assert len(set(texts.tolist())) == tree.n_nodes
        assert code.parse(texts).tolist() == everyone
        assert code.parse(texts[-1]) == tree.n_nodes - 1
    for node in everyone:
        assert code.format(node, "path") == "/".join(map(str, tree.path(node)))
        assert eval(code.format(node, "series").replace("^", "**")) == code.encode(node)
        assert eval(code.format(node, "digits")) == slow_path(tree, node)
        shown = code.format(node, "bars").removeprefix("…").split("|")
        assert padic.from_digits([int(a) for a in reversed(shown)], code.p) == code.encode(node)


def test_texts_of_one_node():
    code = PadicCode(animals(), p=5)
    assert [code.format(3, mode) for mode in MODES] == ["11", "[1, 2]", "…2|1", "1 + 2*5", "animal/bird/robin"]
    assert [code.parse(t) for t in ("11", " [1,2] ", "...2|1", "2*5^1 + 1", "…0|0|0|2|1", "1 + 2*5 + 0*5^9")] == [3] * 6
    deep = PadicCode(Tree.from_parents(range(-1, 4)))
    assert deep.format(4, "series") == "1 + 1*2 + 1*2^2 + 1*2^3"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("robin", "cannot read 'robin'"),
        ("", "cannot read ''"),
        ("1 + + 2*3", "cannot read"),
        ("1 + 2*5", "written in base 5, but this code has p = 3"),
        ("[1, 3]", "digit '3'.*smaller than 3"),
        ("…9|1", "digit '9'"),
        ("[1, 2, 1]", "more digits than codes of this tree, which have K = 2"),
        ("1*3^999999999", "more digits"),
        ("1 + 1", "two terms with exponent 0"),
        ("-4", "not negative"),
        ("[2, 1]", "digit 1 is 1 but 'fish'"),
        ("9" * 5000, "5,000 decimal places"),
        (7, "decode takes integers"),
    ],
)
def test_bad_texts_are_refused(text, words):
    with pytest.raises(CodeError, match=words):
        PadicCode(animals()).parse([text])


def test_lenient_parsing_gives_the_nearest_ancestor():
    code = PadicCode(animals())
    texts = ["16", "[1, 2, 1]", "…1|2|1", "1 + 2*3 + 1*3^2", "[2, 1]", "[0, 2]"]
    assert code.parse(texts, strict=False).tolist() == [3, 3, 3, 3, 4, 0]
    with pytest.raises(CodeError, match="digit '3'"):
        code.parse("[1, 3]", strict=False)


def test_unknown_mode_lists_the_good_ones():
    with pytest.raises(VpunnError, match="mode='hex' is unknown; choose one of int, digits, bars, series, path"):
        PadicCode(animals()).format(0, "hex")


# ---- mixed radix (AUDIT 5.23) --------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(trees(max_nodes=25))
def test_mixed_radix_is_isometric_and_lossless(tree):
    mixed, single = MixedRadixCode(tree), PadicCode(tree)
    assert mixed.radices.tolist() == [
        1 + max(int(b) for b, d in zip(tree.n_children, tree.depth, strict=True) if d == k)
        for k in range(tree.max_depth)
    ]
    codes = mixed.encode()
    assert len(set(codes.tolist())) == tree.n_nodes
    assert (mixed.decode(codes) == np.arange(tree.n_nodes)).all()
    weights = [math.prod(mixed.radices[:k].tolist()) for k in range(mixed.K + 1)]
    for u, v in itertools.combinations(range(tree.n_nodes), 2):
        valuation = max(k for k in range(mixed.K + 1) if (codes[u] - codes[v]) % weights[k] == 0)
        assert valuation == tree.lca_depth(u, v) == mixed.valuation(u, v)
        assert mixed.distance(u, v, exact=True) == Fraction(1, weights[valuation])
    assert (mixed.to_padic(codes) == single.encode()).all()
    assert (mixed.from_padic(single.encode()) == codes).all()
    assert mixed.bits <= single.bits
    larger = PadicCode(tree, p=padic.next_prime(single.p + 1))
    assert (mixed.from_padic(mixed.to_padic(codes, larger.p), larger.p) == codes).all()


def test_mixed_radix_equals_the_single_prime_on_regular_trees():
    for b, levels in ((1, 5), (2, 4), (4, 3)):
        n = sum(b**k for k in range(levels + 1))
        tree = Tree.from_parents([-1] + [(i - 1) // b for i in range(1, n)])
        assert MixedRadixCode(tree).encode().tolist() == PadicCode(tree).encode().tolist()
        assert MixedRadixCode(tree).bits == PadicCode(tree).bits


def test_mixed_radix_refuses_what_is_no_code():
    code = MixedRadixCode(animals())
    assert code.radices.tolist() == [3, 3]
    with pytest.raises(CodeError, match="negative or too large"):
        code.to_padic(9)
    with pytest.raises(CodeError, match="digit 1 of row 1 is 4"):
        code.from_padic([0, 20], p=5)
    with pytest.raises(CodeError, match="reached by then"):
        code.decode(5)
    assert code.to_padic(7) == 7


def test_summary_compares_bits():
    tree = random_tree(2000, seed=3)
    rows = PadicCode(tree).summary()
    assert [row["code"] for row in rows] == ["single prime", "mixed radix", "packed words"]
    assert [row["bits"] for row in rows] == [PadicCode(tree).bits, MixedRadixCode(tree).bits, tree.packed.bits]
    assert rows[0]["bits"] == (PadicCode(tree).p ** tree.max_depth - 1).bit_length()


# ---- controls ------------------------------------------------------------------------------------------------------------


# ---- large and deep --------------------------------------------------------------------------------------------------------


def test_a_million_deep_chain_needs_no_integers():
    chain = Tree.from_parents(np.arange(-1, 999_999))
    code = PadicCode(chain)
    assert (code.p, code.K, code.bits) == (2, 999_999, 999_999)
    assert code.valuation([5, 999_999], [999_999, 10]).tolist() == [5, 10]
    assert code.distance(5, 10) == 2.0**-5
    assert code.distance(999_998, 999_999) == 0.0  # below the smallest float, as documented
    assert code.ball(999_999, 7) == 7
    assert len(code.members(999_999, 999_990)) == 10
    with pytest.raises(CodeError, match="lca_depth"):
        code.encode()
    with pytest.raises(CodeError, match="lca_depth"):
        code.digits()
    with pytest.raises(CodeError, match="too many decimal places"):
        code.format(50_000)
    assert code.encode(20_000) == 2**20_000 - 1
    assert code.format(3, "digits") == "[1, 1, 1]"
    assert code.summary()[2]["bits"] is None


def test_a_wide_star():
    star = Tree.from_parents(np.r_[-1, np.zeros(200_000, int)])
    code = PadicCode(star)
    assert code.p == 200_003
    assert (code.decode(code.encode()) == np.arange(200_001)).all()


@pytest.fixture(scope="module", params=["3.0", "3.1"])
def wordnet(request):
    from vpunn.datasets import load_wordnet

    return load_wordnet(request.param).tree


def test_wordnet_is_coded_without_loss(wordnet):
    code, mixed = PadicCode(wordnet), MixedRadixCode(wordnet)
    assert code.p == {402: 409, 412: 419}[wordnet.max_branching]
    codes = code.encode()
    assert len(set(codes.tolist())) == wordnet.n_nodes
    assert (code.decode(codes) == np.arange(wordnet.n_nodes)).all()
    assert (code.bits, mixed.bits) == (157, 108)
    assert (mixed.to_padic(mixed.encode()) == codes).all()
    rng = np.random.default_rng(0)
    u, v = rng.integers(0, wordnet.n_nodes, (2, 30_000))
    u, v = u[u != v], v[u != v]
    assert (padic.valuation(codes[u] - codes[v], code.p) == wordnet.lca_depth(u, v)).all()
    assert padic.check_ultrametric(code.valuation, valuations=True, n=wordnet.n_nodes, sample=100_000).ok


def test_a_code_needs_a_tree():
    with pytest.raises(CodeError, match="a code needs a Tree, got list"):
        PadicCode([-1, 0])


@settings(max_examples=30)
@given(trees())
def test_a_mixed_radix_code_is_kept(tree):
    with tempfile.TemporaryDirectory() as folder:
        code = vpunn.load(MixedRadixCode(tree).save(f"{folder}/code"))
        assert isinstance(code, MixedRadixCode)
        assert code.encode().tolist() == MixedRadixCode(tree).encode().tolist()
        with pytest.raises(DataError, match="holds a MixedRadixCode"):
            PadicCode.load(f"{folder}/code")
