"""The general tool, rooted trees, hydrogen and decays."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import eval_genlaguerre, factorial

import vpunn
from stores import edit_array
from strategies import parent_arrays
from vpunn.errors import CodeError, DataError, VpunnError
from vpunn.hipaq import (
    InvariantError,
    Invariants,
    group_catalogue,
    hydrogen_observables,
    hydrogen_states,
    hydrogen_tree,
    read_decays,
    recover_shells,
    rooted_trees,
    tree_code,
    tree_from_code,
)
from vpunn.hipaq.decays import huffman_lengths
from vpunn.hipaq.hydrogen import ALPHA
from vpunn.hipaq.invariants import TIE
from vpunn.hipaq.rooted_trees import ROOTED_TREE_COUNTS, tree_catalogue
from vpunn.tree import Tree

# ---- the tool ----------------------------------------------------------------------------------------------------------

CASCADE = Invariants({"parity": lambda n: n % 2, "digits": lambda n: len(str(n)), "mod7": lambda n: n % 7})


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=60, unique=True), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_digits_are_invariants(numbers, random):
    """Shared digits = shared leading invariants; codes do not depend on the order of the objects; look-ups invert."""
    catalogue = CASCADE.catalogue(numbers)
    for a, b in itertools.combinations(numbers[:12], 2):
        mine, other = CASCADE.values(a).values(), CASCADE.values(b).values()
        agree = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(mine, other, strict=True))))
        assert catalogue.code.valuation(catalogue._leaf[a], catalogue._leaf[b]) == agree
    assert [catalogue.lookup(catalogue.code_of(n)) for n in numbers] == [(n,) for n in numbers]
    again = list(numbers)
    random.shuffle(again)
    moved = CASCADE.catalogue(again)
    tied = {n for same in catalogue.tie_classes() for n in same}
    for n in numbers:
        if n not in tied:
            assert moved.code_of(n) == catalogue.code_of(n)
    assert catalogue.n_separated() == len(numbers) - len(tied)


def test_the_table_of_digits():
    numbers = list(range(40))
    catalogue = CASCADE.catalogue(numbers)
    rows = catalogue.digits()
    for k, row in enumerate(rows[:3], 1):
        prefixes = [tuple(CASCADE.values(n).values())[:k] for n in numbers]
        assert row["classes"] == len(set(prefixes))
        assert row["alone"] == sum(prefixes.count(p) == 1 for p in prefixes)
        assert row["largest class"] == max(map(prefixes.count, prefixes))
    assert [row["kind"] for row in rows] == ["invariant"] * 3 + ["look-up"]
    assert rows[-1]["invariant"] == TIE
    assert rows[-1]["alone"] == 40
    found = catalogue.separating_digit()
    assert sorted(found) == numbers
    for k in range(1, 5):
        assert sum(digit <= k for digit in found.values()) == rows[k - 1]["alone"]


def test_identify_known_new_and_tied():
    catalogue = Invariants({"length": len, "first": lambda w: w[0]}).catalogue(["owl", "eel", "emu", "heron"])
    known = catalogue.identify("hyena")
    assert known.candidates == ("heron",)
    assert known.settled_by == "invariants"
    assert catalogue.lookup(known.code) == ("heron",)
    new = catalogue.identify("ant")
    assert (new.candidates, new.new_at, new.path) == ((), "first", {"length": 3, "first": "a"})
    assert set(catalogue.lookup(new.code)) == {"owl", "eel", "emu"}
    assert catalogue.identify("elk").candidates == ("eel", "emu")
    tested = Invariants({"length": len}, same=lambda a, b: a == b).catalogue(["owl", "eel"])
    assert tested.identify("eel").settled_by == "test"
    assert tested.identify("ant").new_at == TIE


def test_refusals_of_the_tool():
    with pytest.raises(InvariantError, match="empty"):
        Invariants({})
    with pytest.raises(InvariantError, match="at least one object"):
        CASCADE.catalogue([])
    with pytest.raises(InvariantError, match="unique, but 'a'"):
        Invariants({"n": len}).catalogue(["a", "b"], names=["a", "a"])
    with pytest.raises(InvariantError, match="2 names for 1"):
        Invariants({"n": len}).catalogue(["a"], names=["a", "b"])
    with pytest.raises(InvariantError, match="sortable"):
        Invariants({"itself": lambda x: x}).catalogue([1, "a"])
    with pytest.raises(InvariantError, match="same object"):
        Invariants({"n": len}, same=lambda a, b: a == b).catalogue(["a", "a"], names=[1, 2])
    with pytest.raises(InvariantError, match="not in the catalogue"):
        CASCADE.catalogue([1]).code_of(2)
    with pytest.raises(InvariantError, match="not in the catalogue"):
        CASCADE.catalogue([1]).member(2)
    with pytest.raises(InvariantError, match="maps a digit's name to a function"):
        Invariants([len])
    with pytest.raises(InvariantError, match="names must be hashable"):
        Invariants({"n": len}).catalogue([[1], [2, 3]])
    with pytest.raises(InvariantError, match="1 names for 2"):
        Invariants({"n": len}).catalogue_from_values([(1,), (2,)], ["a"])
    for row in ((), (1, 2)):
        with pytest.raises(InvariantError, match="needs 1 values"):
            Invariants({"n": len}).catalogue_from_values([row], ["a"])
    with pytest.raises(InvariantError, match="needs a test"):
        CASCADE.catalogue([1]).identify(1, verify=True)


# ---- saving --------------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=40, unique=True))
@settings(deadline=None, max_examples=25)
def test_a_saved_catalogue_has_the_same_codes_and_answers(tmp_path_factory, numbers):
    catalogue = CASCADE.catalogue(numbers)
    again = vpunn.load(catalogue.save(tmp_path_factory.mktemp("saved") / "numbers"))
    assert (again.names, again.rows) == (catalogue.names, catalogue.rows)
    assert [again.code_of(n) for n in numbers] == [catalogue.code_of(n) for n in numbers]
    assert again.tie_classes() == catalogue.tie_classes()
    for n in (*numbers[:5], 7, 123456):
        assert again.identify_values(CASCADE.values(n)) == catalogue.identify(n)
        assert again.using(CASCADE).identify(n) == catalogue.identify(n)


def test_a_loaded_catalogue_says_what_it_lacks(tmp_path):
    for make in (group_catalogue, lambda: hydrogen_tree(4, spin=True), lambda: tree_catalogue(7)):
        whole = make()
        folder = whole.save(tmp_path / "catalogue", provenance={"made": "here"})
        again = vpunn.load(folder)
        assert again.tree.fingerprint == whole.tree.fingerprint
        assert again.lookup(whole.code_of(whole.names[-1])) == (whole.names[-1],)
    with pytest.raises(InvariantError, match="no function for 'nodes'.*identify_values"):
        again.identify(Tree.from_parents([-1, 0]))
    with pytest.raises(InvariantError, match="holds no objects"):
        again.member(again.names[0])
    with pytest.raises(InvariantError, match="the value of 'nodes' is missing"):
        again.identify_values({})
    with pytest.raises(InvariantError, match="the digits 'nodes'"):
        again.using(CASCADE)
    edit_array(folder, "names.bytes", lambda data: data[::-1].copy())
    with pytest.raises(DataError):
        vpunn.load(folder)


# ---- rooted trees ------------------------------------------------------------------------------------------------------


def nested(tree: Tree, node: int = 0) -> str:
    """AHU by the book, recursively: the slow twin."""
    return "(" + "".join(sorted(nested(tree, int(child)) for child in tree.children(node))) + ")"


def test_all_rooted_trees_up_to_ten_nodes():
    codes = set()
    for n, count in enumerate(ROOTED_TREE_COUNTS, 1):
        these = list(rooted_trees(n))
        assert all(tree.n_nodes == n for tree in these)
        words = {nested(tree) for tree in these}
        assert len(these) == len(words) == count
        codes |= {tree_code(tree) for tree in these}
    assert len(codes) == sum(ROOTED_TREE_COUNTS)


@given(parent_arrays(max_nodes=25, shuffled=True), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_tree_code_ignores_names_and_sibling_order(parent, random):
    tree = Tree.from_parents(parent)
    place = list(range(len(parent)))
    random.shuffle(place)
    moved = [0] * len(parent)
    for i, up in enumerate(parent):
        moved[place[i]] = -1 if up < 0 else place[up]
    other = Tree.from_parents(moved)
    assert tree_code(other) == tree_code(tree)
    assert nested(tree_from_code(tree_code(tree))) == nested(tree)


@given(parent_arrays(max_nodes=7), parent_arrays(max_nodes=7))
@settings(deadline=None)
def test_equal_codes_exactly_for_isomorphic_trees(one, other):
    a, b = Tree.from_parents(one), Tree.from_parents(other)
    assert (tree_code(a) == tree_code(b)) == (nested(a) == nested(b))


@pytest.mark.parametrize("code", [0, -3, 2, 0b111, 0b10110, 0b1100110])
def test_walks_that_do_not_end_at_the_root(code):
    with pytest.raises(CodeError, match=f"{code} is the code of no tree"):
        tree_from_code(code)


def test_a_walk_out_of_canonical_order_is_refused_with_the_right_code():
    assert tree_code(tree_from_code(0b1110010)) == 0b1110010  # larger branch first
    with pytest.raises(CodeError, match=f"its code is {0b1110010}"):
        tree_from_code(0b1101100)


def test_tree_catalogue_is_complete():
    catalogue = tree_catalogue(8)
    assert catalogue.n_separated() == sum(ROOTED_TREE_COUNTS[:8])
    chain = Tree.from_parents([1, 2, -1])
    assert catalogue.identify(chain).candidates == (tree_code(chain),)


# ---- hydrogen ----------------------------------------------------------------------------------------------------------


def test_states_and_prime():
    assert len(hydrogen_states(8)) == 204
    assert len(hydrogen_states(8, spin=True)) == 408
    plain, spin = hydrogen_tree(8), hydrogen_tree(8, spin=True)
    assert (plain.code.p, plain.tree.max_depth, plain.tree.n_leaves) == (17, 3, 204)
    assert (spin.code.p, spin.tree.max_depth, spin.tree.n_leaves) == (17, 4, 408)
    assert plain.tie_classes() == spin.tie_classes() == []


def radial(n, ell):
    """Normalised radial function of hydrogen."""
    norm = np.sqrt((2 / n) ** 3 * factorial(n - ell - 1) / (2 * n * factorial(n + ell)))

    def function(r):
        x = 2 * r / n
        return norm * np.exp(-x / 2) * x**ell * eval_genlaguerre(n - ell - 1, 2 * ell + 1, x)

    return function


@pytest.mark.parametrize(("n", "ell"), [(1, 0), (2, 0), (2, 1), (3, 1), (4, 3), (6, 2), (8, 0), (8, 7)])
def test_closed_forms_against_integrals_of_the_wave_function(n, ell):
    wave = radial(n, ell)

    def mean(f):
        return quad(lambda r: wave(r) ** 2 * r**2 * f(r), 0, 12 * n**2, limit=400)[0]

    states = np.array([(n, ell, ell, 1)])
    value = {name: float(x[0]) for name, x in hydrogen_observables(states).items()}
    energy = -1 / (2 * n**2)
    assert mean(lambda r: 1) == pytest.approx(1)
    assert value["r"] == pytest.approx(mean(lambda r: r), rel=1e-6)
    assert value["r2"] == pytest.approx(mean(lambda r: r**2), rel=1e-6)
    assert value["energy"] == pytest.approx(mean(lambda r: -1 / r) / 2, rel=1e-6)  # virial theorem
    # First-order fine structure: −⟨p⁴⟩/8c² with p² = 2(E + 1/r), Darwin's contact term, and spin–orbit coupling.
    kinetic = -(ALPHA**2) / 2 * mean(lambda r: (energy + 1 / r) ** 2)
    darwin = ALPHA**2 / 8 * wave(0.0) ** 2 if ell == 0 else 0.0  # (π/2)·|ψ(0)|²·α², ψ = R/√(4π)
    orbit = ALPHA**2 / 2 * mean(lambda r: r**-3) * ell / 2 if ell else 0.0
    assert value["fine"] == pytest.approx(kinetic + darwin + orbit, rel=1e-5)


def test_recovery_is_perfect_without_noise_and_chance_when_noise_drowns_it():
    clean = {row["digit"]: row for row in recover_shells(0.0, n_max=5) if row["method"] == "staged"}
    assert [clean[k]["clusters"] for k in (1, 2, 3)] == [5, 15, 55]
    assert all(row["purity"] == 1.0 and row["ARI"] == 1.0 for row in clean.values())
    drowned = recover_shells(50.0, n_max=5)
    for row in drowned:
        assert row["purity"] <= row["chance"] + 0.15
        assert abs(row["ARI"]) < 0.1
    spin = [row for row in recover_shells(0.01, n_max=4, spin=True) if row["method"] == "staged"]
    assert spin[-1]["true"] == 60
    assert spin[-1]["purity"] > 0.99


def test_same_seed_same_rows():
    assert recover_shells(0.1, n_max=3, seed=4) == recover_shells(0.1, n_max=3, seed=4)


def test_bad_hydrogen_arguments():
    with pytest.raises(VpunnError, match="n_max"):
        hydrogen_states(0)
    for noise in (-0.1, np.nan, np.inf):
        with pytest.raises(VpunnError, match="noise"):
            recover_shells(noise)
    with pytest.raises(VpunnError, match="47,275 readings .* need 9 GB"):
        recover_shells(n_max=30)


def test_a_single_reading_is_its_own_cluster():
    assert {row["clusters"] for row in recover_shells(0.1, n_max=1, repeats=1)} == {1}


# ---- decays ------------------------------------------------------------------------------------------------------------


def test_tau_channels():
    tau = read_decays()
    assert tau.tree.n_leaves == 7
    assert tau.tree.columns["branching"][0] == pytest.approx(tau.coverage)
    assert 0.93 < tau.coverage < 0.96
    assert "Particle Data Group" in tau.source
    assert len({row["code"] for row in tau.channels()}) == 7
    assert tau.entropy() <= tau.huffman_length() < tau.entropy() + 1
    assert sum(row["entropy"] for row in tau.digits()) == pytest.approx(tau.entropy())  # chain rule
    assert sum(row["huffman bits"] for row in tau.digits()) >= tau.huffman_length()


def test_saved_channels_are_the_same_and_edited_ones_are_refused(tmp_path):
    tau = read_decays()
    tau.save(tmp_path / "tau")
    back = vpunn.load(tmp_path / "tau")
    assert back.channels() == tau.channels()
    assert (back.source, back.entropy()) == (tau.source, tau.entropy())
    at = list(tau.tree.columns).index("branching")
    for value in (np.nan, -0.1, 0.0, 2.0):
        edit_array(tmp_path / "tau", f"tree.column{at}", lambda array, value=value: np.full_like(array, value))
        with pytest.raises(DataError):
            vpunn.load(tmp_path / "tau")


def test_entropy_error_by_simulation():
    tau = read_decays()
    rng = np.random.default_rng(0)
    draws = tau.branching + tau.error * rng.standard_normal((20000, 7))
    q = draws / draws.sum(axis=1, keepdims=True)
    assert tau.entropy_error() == pytest.approx(float((-(q * np.log2(q)).sum(axis=1)).std()), rel=0.05)


def best_prefix_code(weights) -> float:
    """The least average length over all sets of code lengths that satisfy Kraft's inequality."""
    n = len(weights)
    lengths = itertools.product(range(1, n), repeat=n)
    return min(
        sum(w * k for w, k in zip(weights, some, strict=True)) for some in lengths if sum(2.0**-k for k in some) <= 1
    )


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=5))
@settings(max_examples=30, deadline=None)
def test_huffman_is_optimal(weights):
    q = np.array(weights) / sum(weights)
    assert float(q @ huffman_lengths(q)) == pytest.approx(best_prefix_code(q))


CHAIN = {
    "particle": "D*+",
    "fractions": "conditional",
    "channels": [
        {"name": "D0 pi+", "branching": 0.677, "error": 0.005, "channels": [
            {"name": "K- pi+", "branching": 0.04, "error": 0.0004},
            {"name": "other D0", "branching": 0.96},
        ]},
        {"name": "D+ pi0", "branching": 0.307},
    ],
}  # fmt: skip


def test_chains_multiply_conditional_fractions(tmp_path):
    path = tmp_path / "chain.json"
    path.write_text(json.dumps(CHAIN))
    chain = read_decays(path)
    at = list(chain.tree.labels[chain.tree.leaves]).index("K- pi+")
    assert chain.branching[at] == pytest.approx(0.677 * 0.04)
    assert chain.error[at] == pytest.approx(0.677 * 0.04 * np.hypot(0.005 / 0.677, 0.01))
    assert chain.coverage == pytest.approx(0.677 + 0.307)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"channels": []}, "non-empty list"),
        ({"channels": [{"branching": 0.5}]}, 'no "name"'),
        ({"channels": [{"name": "a"}]}, r'"branching" of D\*\+ → a must be a number in \(0, 1\], got None'),
        ({"channels": [{"name": "a", "branching": -0.2}]}, "got -0.2"),
        ({"channels": [{"name": "a", "branching": 0.8}, {"name": "b", "branching": 0.7}]}, "sum to 1.5"),
        ({"channels": [{"name": "a", "branching": 0.8, "error": "small"}]}, '"error" of'),
        ({"fractions": "relative"}, "'relative'"),
        ({"channels": [{"name": ["a"], "branching": 0.5}]}, 'no "name"'),
        (  # 0.1 × (1 + 1) is below 1, yet the two cannot exclude one another
            {"channels": [{"name": "a", "branching": 0.1, "channels": [{"name": n, "branching": 1} for n in "bc"]}]},
            r"below D\*\+ → a sum to 2",
        ),
        (
            {"channels": [{"name": "a", "branching": 1e-200, "channels": [{"name": "b", "branching": 1e-200}]}]},
            "'b' is smaller than any number",
        ),
    ],
)
def test_bad_decay_files(tmp_path, change, message):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({**CHAIN, **change}))
    with pytest.raises(DataError, match=message):
        read_decays(path)


def test_unreadable_decay_files(tmp_path):
    with pytest.raises(DataError, match="cannot read"):
        read_decays(tmp_path / "none.json")
    (tmp_path / "cut.json").write_text('{"particle": ')
    with pytest.raises(DataError, match="cannot read"):
        read_decays(tmp_path / "cut.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(DataError, match="not a decay file"):
        read_decays(tmp_path / "list.json")
    for name, content in {"deep": "[" * 100_000, "long": '{"particle": ' + "9" * 5000 + "}"}.items():
        (tmp_path / f"{name}.json").write_text(content)
        with pytest.raises(DataError, match="cannot read"):
            read_decays(tmp_path / f"{name}.json")


def test_rare_channels_keep_their_share(tmp_path):
    rare = [{"name": "rare", "channels": [{"name": "x", "branching": 1e-20}, {"name": "y", "branching": 3e-20}]}]
    path = tmp_path / "rare.json"
    path.write_text(
        "\ufeff" + json.dumps({"particle": "p", "channels": [{"name": "common", "branching": 0.5}, *rare]}), "utf-8"
    )
    _, second = read_decays(path).digits()
    assert second["entropy"] == pytest.approx(8e-20 * -(0.25 * np.log2(0.25) + 0.75 * np.log2(0.75)))


def test_codes_that_are_no_numbers_or_too_long_to_print():
    for code in ("x", 1.5, None, True):
        with pytest.raises(CodeError, match="is the code of no tree"):
            tree_from_code(code)
    with pytest.raises(CodeError, match="a number of 20,001 bits"):
        tree_from_code(2**20_000)
