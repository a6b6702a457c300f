"""Groups: the catalogue by GAP against our own computation, relabelling, isomorphism, and tables that are no groups."""

import itertools
from collections import Counter
from math import gcd

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy.combinatorics import Permutation, PermutationGroup
from sympy.combinatorics.named_groups import AlternatingGroup, DihedralGroup, SymmetricGroup

from vpunn.hipaq import (
    Group,
    GroupError,
    GroupProfile,
    HiPaQ,
    find_isomorphism,
    group_catalogue,
    group_invariants,
    group_name,
    identify_group,
    small_group,
    subgroup_lattice,
)
from vpunn.hipaq.group_invariants import MEANING

NAMES = group_catalogue(125).names
LARGER = [name for name in group_catalogue().names if name[0] > 125]
KNOWN = dict(zip(group_catalogue().names, group_catalogue().rows, strict=True))
RNG = np.random.default_rng(0)
#: Number of groups of order 1 … 24 (OEIS A000001).
COUNTS = [1, 1, 1, 2, 1, 2, 1, 5, 2, 2, 1, 5, 1, 2, 1, 14, 1, 5, 1, 5, 2, 2, 1, 15]


def shuffled(group: Group, rng: np.random.Generator) -> Group:
    return group.relabelled(rng.permutation(group.order))


def invariants_of(group: Group) -> tuple:
    return tuple(group_invariants(group).values())


# ---- the catalogue -----------------------------------------------------------------------------------------------------


def test_every_group_of_order_up_to_125_once():
    assert len(NAMES) == 1251
    orders = Counter(order for order, _ in NAMES)
    assert [orders[n] for n in range(1, 25)] == COUNTS
    assert (orders[32], orders[64], orders[96]) == (51, 267, 231)
    assert max(orders) == 125


def test_larger_orders_are_complete():
    """Orders up to 200 but for 128 and 192 at least (OEIS A000001), and three of the hardest told apart by the test alone."""
    orders = Counter(order for order, _ in LARGER)
    assert set(range(126, 201)) - {128, 192} <= set(orders)
    assert (orders[144], orders[160], orders[162], orders[168], orders[180], orders[200]) == (197, 238, 55, 57, 37, 52)
    for name in ((160, 70), (160, 71), (189, 5)):
        found = identify_group(shuffled(small_group(*name), RNG))
        assert (found.candidates, found.settled_by) == ((name,), "test")


def test_every_group_has_its_own_code_and_can_be_looked_up():
    groups = group_catalogue()
    codes = groups.code.encode(groups.tree.leaves).tolist()
    assert len(set(codes)) == len(groups.names) >= 2194
    for name in groups.names[::50]:
        assert groups.lookup(groups.code_of(name)) == (name,)


def test_invariants_alone_separate_nearly_all():
    assert group_catalogue(125).n_separated() == 1251
    groups = group_catalogue()
    ties = groups.tie_classes()
    assert groups.n_separated() == len(groups.names) - sum(map(len, ties))
    assert {name for same in ties for name in same if name[0] not in (128, 192) and name[0] <= 200} == {
        (160, 70), (160, 71), (160, 76), (160, 79), (189, 4), (189, 5),
    }  # fmt: skip


def test_sharing_digits_means_sharing_invariants():
    """Two groups share exactly as many digits as they agree on leading invariants."""
    groups = group_catalogue()
    a, b = RNG.integers(0, len(groups.names), (2, 3000))
    near = np.arange(len(groups.names) - 1)  # neighbours in the catalogue share long prefixes
    a, b = np.append(a, near), np.append(b, near + 1)
    leaf = np.array([groups._leaf[name] for name in groups.names])
    shared = groups.code.valuation(leaf[a], leaf[b])
    for i, j, k in zip(a, b, shared, strict=True):
        agree = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(groups.rows[i], groups.rows[j], strict=True))
        assert k == len(list(agree))


# ---- two computations agree --------------------------------------------------------------------------------------------


def sample_of_names() -> list:
    """Every group of order ≤ 60, and a sample above that includes those that are not soluble."""
    low, high = ([name for name in NAMES if (name[0] <= 60) == small] for small in (True, False))
    some = [*(high[i] for i in RNG.choice(len(high), 100, replace=False)), (120, 5), (120, 34), (120, 35), (168, 42)]
    return [*low, *some, *(LARGER[i] for i in RNG.choice(len(LARGER), 30, replace=False))]


def test_invariants_from_relabelled_tables_equal_gap():
    for name in sample_of_names():
        assert invariants_of(shuffled(small_group(*name), RNG)) == KNOWN[name], name


def test_two_hundred_random_relabellings_never_change_a_code():
    groups = group_catalogue()
    for at in RNG.choice(len(NAMES), 200, replace=False):
        found = identify_group(shuffled(small_group(*NAMES[at]), RNG))
        assert found.candidates == (NAMES[at],)
        assert found.code == groups.code_of(NAMES[at])


def obvious_invariants(group: Group) -> dict:
    """A slow twin by definitions, with plain loops."""
    table, n, e = group.table.tolist(), group.order, group.identity
    inverse = [row.index(e) for row in table]

    def order(x):
        k, y = 1, x
        while y != e:
            k, y = k + 1, table[y][x]
        return k

    def closure(seed):
        found = {e, *seed}
        while True:
            more = {table[a][b] for a in found for b in found}
            if more == found:
                return found
            found = more

    conjugacy = {frozenset(table[table[inverse[g]][x]][g] for g in range(n)) for x in range(n)}
    commutators = closure({table[table[inverse[a]][inverse[b]]][table[a][b]] for a in range(n) for b in range(n)})
    exponent = 1
    for x in range(n):
        exponent = exponent * order(x) // gcd(exponent, order(x))
    pairs = Counter(len(closure({x, y})) for x in range(n) for y in range(n))
    profile = Counter((order(min(c)), len(c)) for c in conjugacy)
    return {
        "exponent": exponent,
        "derived_order": len(commutators),
        "classes": tuple((o, s, k) for (o, s), k in sorted(profile.items())),
        "pairs": tuple(sorted(pairs.items())),
    }


@pytest.mark.parametrize("name", [name for name in NAMES if name[0] <= 16])
def test_slow_twin(name):
    group = shuffled(small_group(*name), RNG)
    mine, slow = GroupProfile(group), obvious_invariants(group)
    assert (mine.exponent, mine.classes, mine.pairs) == (slow["exponent"], slow["classes"], slow["pairs"])
    assert group.order // int(np.prod(mine.abelianisation)) == slow["derived_order"]


def test_known_groups():
    quaternion = GroupProfile(small_group(8, 4))
    assert quaternion.classes == ((1, 1, 1), (2, 1, 1), (4, 2, 3))
    a5 = group_invariants(AlternatingGroup(5))
    assert (a5["order"], a5["abelianisation"], a5["nilpotency"], a5["derived_length"]) == (60, (), -1, -1)
    trivial = group_invariants([[0]])
    assert (trivial["order"], trivial["nilpotency"], trivial["derived_length"], trivial["pairs"]) == (
        1,
        0,
        0,
        ((1, 1),),
    )
    assert GroupProfile(small_group(64, 267)).abelianisation == (2,) * 6


# ---- what users pass ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "name"),
    [
        (SymmetricGroup(4), (24, 12)),
        (AlternatingGroup(4), (12, 3)),
        (DihedralGroup(4), (8, 3)),
        (SymmetricGroup(5), (120, 34)),
        (PermutationGroup([Permutation([1, 0, 2]), Permutation([0, 2, 1])]), (6, 1)),
        ([Permutation(0, 1, 2, 3, 4, 5, 6)], (7, 1)),
    ],
)
def test_sympy_groups(group, name):
    assert identify_group(group, verify=True).candidates == (name,)


def test_direct_and_semidirect_products():
    n = np.arange(12)
    product = (((n[:, None] // 3 + n[None, :] // 3) % 4) * 3) + (n[:, None] + n[None, :]) % 3
    assert identify_group(product).candidates == ((12, 2),)  # C4 × C3 = C12
    assert group_name(12, 2) == "C12"


@given(st.integers(1, 40), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_cyclic_tables_under_any_names(n, random):
    names = list(range(n))
    random.shuffle(names)
    table = [[0] * n for _ in range(n)]
    for a in range(n):
        for b in range(n):
            table[names[a]][names[b]] = names[(a + b) % n]
    assert group_name(*identify_group(table).candidates[0]) == (f"C{n}" if n > 1 else "1")


@given(st.lists(st.permutations(range(5)), min_size=1, max_size=3))
@settings(max_examples=25, deadline=None)
def test_permutation_groups_have_sympys_order(generators):
    assert Group.from_permutations(generators).order == PermutationGroup([Permutation(g) for g in generators]).order()


# ---- isomorphism -------------------------------------------------------------------------------------------------------


def test_isomorphism_is_a_homomorphism_and_non_isomorphic_groups_have_none():
    for order in (8, 12, 16, 24):
        some = [small_group(*name) for name in NAMES if name[0] == order]
        for i, j in itertools.product(range(len(some)), repeat=2):
            other = shuffled(some[j], RNG)
            image = find_isomorphism(some[i], other)
            assert (image is not None) == (i == j)
            if image is not None:
                assert np.array_equal(image[some[i].table], other.table[image[:, None], image[None, :]])


def test_tie_classes_are_settled_by_the_test():
    """Whatever the invariants leave together is still told apart, and truly not isomorphic."""
    cascade = group_catalogue().invariants
    coarse = type(cascade)(
        {name: cascade.cascade[name] for name in list(cascade.cascade)[:7]}, prepare=GroupProfile, same=cascade.same
    )
    names = [name for name in NAMES if name[0] in (16, 27, 32)]
    small = coarse.catalogue([small_group(*name) for name in names], names)  # also proves them pairwise different
    assert small.tie_classes()
    for same in small.tie_classes()[:8]:
        for name in same[:3]:
            found = small.identify(shuffled(small_group(*name), RNG))
            assert (found.candidates, found.settled_by, found.code) == ((name,), "test", small.code_of(name))


# ---- what is no group --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[0, 1, 2], [1, 2, 0]], "n × n"),
        ([[0, 1], [1]], "n × n"),
        ([], "n × n"),
        ([1, 2, 3], r"n × n with n ≥ 1, got shape \(3,\)"),
        (5, "n × n"),
        ([[10**30]], "element numbers"),
        ([[1e300]], "element numbers"),
        (np.zeros((2, 2, 2), int), "n × n"),
        ([[0, 1], [1, 2]], r"entry \(1, 1\) is 2"),
        ([[0, 1], [-1, 0]], r"entry \(1, 0\) is -1"),
        ([[0, 0.5], [1, 0]], "element numbers"),
        ([["e", "a"], ["a", "e"]], "element numbers"),
        ([[0, 0], [0, 0]], "no element is an identity"),
        ([[1, 0], [1, 0]], "no element is an identity"),
        ([[0, 1], [1, 1]], "element 1 has no inverse"),
    ],
)
def test_refusals(table, message):
    with pytest.raises(GroupError, match=message):
        Group.from_table(table)


def first_bad_triple(table):
    n = len(table)
    return next(
        (
            t
            for t in itertools.product(range(n), repeat=3)
            if table[table[t[0]][t[1]]][t[2]] != table[t[0]][table[t[1]][t[2]]]
        ),
        None,
    )


def test_a_loop_that_is_not_associative_names_the_first_triple():
    loop = [  # the smallest Latin square with identity that is no group
        [0, 1, 2, 3, 4],
        [1, 0, 3, 4, 2],
        [2, 4, 0, 1, 3],
        [3, 2, 4, 0, 1],
        [4, 3, 1, 2, 0],
    ]
    assert first_bad_triple(loop) == (1, 1, 2)
    with pytest.raises(GroupError, match=r"not associative at the triple \(1, 1, 2\): \(1·1\)·2 = 2 but 1·\(1·2\) = 4"):
        Group.from_table(loop)


@given(st.sampled_from([name for name in NAMES if 4 <= name[0] <= 12]), st.data())
@settings(max_examples=60, deadline=None)
def test_one_wrong_entry_is_always_found(name, data):
    table = np.array(small_group(*name).table)
    n = len(table)
    a, b = data.draw(st.integers(1, n - 1)), data.draw(st.integers(1, n - 1))
    table[a, b] = data.draw(st.integers(0, n - 1).filter(lambda x: x != table[a, b]))
    with pytest.raises(GroupError) as refused:
        Group.from_table(table)
    if "triple" in str(refused.value):
        assert f"triple {first_bad_triple(table.tolist())}" in str(refused.value)


def test_other_bad_input():
    with pytest.raises(GroupError, match="generator 1 is not a permutation"):
        Group.from_permutations([[1, 0], [0, 0]])
    with pytest.raises(GroupError, match="more than 5,000"):
        Group.from_permutations(SymmetricGroup(8))
    with pytest.raises(GroupError, match="order 8 has numbers 1 … 5"):
        small_group(8, 6)
    with pytest.raises(GroupError, match="its orders are 1–127"):
        small_group(1000, 1)
    with pytest.raises(GroupError, match="order 8 has numbers 1 … 5"):
        group_name(8, 6)
    for no_list in (5, None, [[[0], [1, 2]]]):
        with pytest.raises(GroupError, match="list"):
            Group.from_permutations(no_list)
    with pytest.raises(GroupError, match="360 elements"):
        identify_group(AlternatingGroup(6))


def test_meaning_lists_every_digit():
    assert list(MEANING) == list(group_catalogue().invariants.cascade)


# ---- subgroups ---------------------------------------------------------------------------------------------------------


def slow_lattice(group: Group) -> tuple[set, set]:
    """All subsets closed under products, by brute force, and the pairs of them with nothing between."""
    n = group.order
    rest = [x for x in range(n) if x != group.identity]
    found = set()
    for many in range(n):
        for some in itertools.combinations(rest, many):
            members = frozenset({group.identity, *some})
            if n % len(members) == 0 and all(int(group.table[a, b]) in members for a in members for b in members):
                found.add(members)
    over = {(a, b) for a in found for b in found if b < a}
    return found, {(a, b) for a, b in over if not any((a, c) in over and (c, b) in over for c in found)}


@pytest.mark.parametrize("name", [name for name in NAMES if name[0] <= 12])
def test_subgroups_are_those_of_brute_force(name):
    subgroups, covers = slow_lattice(small_group(*name))
    lattice = subgroup_lattice(shuffled(small_group(*name), RNG))
    assert Counter(lattice.columns["order"].tolist()) == Counter(map(len, subgroups))
    assert len(lattice) - 1 + lattice.n_extra == len(covers)
    pairs = Counter((len(a), len(b)) for a, b in covers)
    start, up = lattice.all_parents
    order = lattice.columns["order"]
    assert pairs == Counter(
        (int(order[u]), int(order[v])) for v in range(len(lattice)) for u in up[start[v] : start[v + 1]]
    )


def test_numbers_of_subgroups_are_the_known_ones():
    known = {(8, 3): 10, (8, 4): 6, (24, 12): 30, (60, 5): 59, (32, 51): 374, (120, 34): 156, (16, 14): 67}
    assert {name: len(subgroup_lattice(small_group(*name))) for name in known} == known
    square = subgroup_lattice(small_group(8, 3))
    assert square.columns["normal"].sum() == 6


def test_unfolded_lattices_have_codes_that_no_renaming_changes():
    codes = {}
    for name in [name for name in NAMES if name[0] == 16]:
        one, other = (
            HiPaQ(subgroup_lattice(shuffled(small_group(*name), RNG), policy="unfold"), canonical=True) for _ in "ab"
        )
        assert one == other and one.check()
        codes[name] = tuple(one.codes.tolist())
    assert (
        codes[16, 1] != codes[16, 14] and 10 <= len(set(codes.values())) <= 14
    )  # the lattice does not know everything


def test_lattices_that_are_too_large_and_what_is_no_group_are_refused():
    with pytest.raises(GroupError, match="more than 5,000 subgroups"):
        subgroup_lattice(Group.from_permutations([[*range(2 * k), 2 * k + 1, 2 * k] for k in range(7)]))
    with pytest.raises(GroupError, match="n × n"):
        subgroup_lattice([[0, 1]])
