"""All groups of some orders, with the invariants GAP computed and generators to rebuild every table without it.

The file ``data/groups.json.gz`` is made by ``tools/make_group_table.py``; numbers are GAP's SmallGroup numbers.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from vpunn.errors import check_whole
from vpunn.hipaq.group_invariants import GROUP_CASCADE, GroupProfile
from vpunn.hipaq.groups import Group, GroupError, find_isomorphism
from vpunn.hipaq.invariants import Catalogue, Identification, Invariants


@cache
def _entries() -> dict[tuple[int, int], dict[str, Any]]:
    """(order, number) → description, generators and invariant values."""
    packed = files("vpunn.hipaq").joinpath("data/groups.json.gz").read_bytes()
    rows = json.loads(gzip.decompress(packed))["groups"]
    return {(row["order"], row["number"]): row for row in rows}


@cache
def known_orders() -> str:
    """The orders in the catalogue, all of whose groups are there.

    >>> known_orders().startswith("1–")
    True
    """
    orders = np.unique([order for order, _ in _entries()])
    runs = np.split(orders, np.flatnonzero(np.diff(orders) > 1) + 1)
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def isomorphic(one: GroupProfile, other: GroupProfile) -> bool:
    """Decide isomorphism by search, pruned by the finest colouring of the elements."""
    return find_isomorphism(one.group, other.group, one.element_colours, other.element_colours) is not None


def small_group(order: int, number: int) -> Group:
    """The group GAP calls SmallGroup(order, number), for the orders of the catalogue, without GAP.

    >>> small_group(8, 4).element_orders.tolist()
    [1, 2, 4, 4, 4, 4, 4, 4]
    """
    return Group.from_regular(_entry(order, number)["generators"])


def _entry(order: int, number: int) -> dict[str, Any]:
    try:
        return _entries()[order, number]
    except KeyError:
        known = [n for o, n in _entries() if o == order]
        text = f"order {order} has numbers 1 … {max(known)}" if known else f"its orders are {known_orders()}"
        raise GroupError(f"SmallGroup({order}, {number}) is not in the catalogue: {text}.") from None


def group_name(order: int, number: int) -> str:
    """GAP's description of the structure, such as ``C2 x D8``; for people, not an identifier (it can repeat)."""
    return str(_entry(order, number)["name"])


@cache
def group_catalogue(largest: int | None = None) -> Catalogue:
    """The catalogue of all shipped groups, or of those of order ≤ ``largest``: names are (order, number) pairs, digits follow
    `MEANING`.

    >>> groups = group_catalogue(largest=125)
    >>> len(groups.names)
    1251
    >>> square = [[1, 2, 3, 0], [0, 3, 2, 1]]
    >>> groups.identify(Group.from_permutations(square)).candidates
    ((8, 3),)
    """
    entries = {
        name: row for name, row in _entries().items() if largest is None or name[0] <= check_whole("largest", largest)
    }
    rows = [tuple(_tuples(value) for value in row["values"]) for row in entries.values()]
    cascade = Invariants(GROUP_CASCADE, prepare=GroupProfile, same=isomorphic)
    return cascade.catalogue_from_values(rows, list(entries), member=lambda name: GroupProfile(small_group(*name)))


def identify_group(group: Any, *, verify: bool = False) -> Identification:
    """Which group of the catalogue is this? ``group`` is a table, a `Group`, or SymPy permutations.

    Invariants first; a tie class is settled by an explicit isomorphism test, so the answer is always one group.

    >>> identify_group([[0, 1], [1, 0]]).candidates
    ((2, 1),)
    """
    profile = GroupProfile(group)
    if (profile.order, 1) not in _entries():
        raise GroupError(
            f"this group has {profile.order:,} elements, but the catalogue holds the orders {known_orders()}; "
            "group_invariants(group) still describes it."
        )
    return group_catalogue().identify(profile.group, verify=verify)


def _tuples(value: Any) -> Any:
    """JSON lists as the tuples the invariant functions return."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
