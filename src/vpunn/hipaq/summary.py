"""The paper's table of HiPaQ (T16): four hierarchies, what they cost and what is true of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vpunn._cost import measured
from vpunn.hipaq._group_catalogue import group_catalogue, known_orders
from vpunn.hipaq.decays import read_decays
from vpunn.hipaq.hierarchies import HiPaQ
from vpunn.hipaq.hydrogen import hydrogen_tree
from vpunn.hipaq.invariants import Catalogue


def hierarchy_table() -> list[dict[str, Any]]:
    """One row a hierarchy: leaves, (p, K), numbers (coefficients of the v-PuNN), CPU seconds, and the key result.

    The seconds are those of making the tree from what is stored, the codes and the check, without imports and invariants
    (`vpunn.hipaq.group_invariants` of all groups of order ≤ 125 takes about 6 s).
    """
    import sklearn.metrics  # noqa: F401  # loaded before anything is timed

    rows: list[tuple[str, Callable[[], tuple[Any, str]]]] = [
        ("groups of order ≤ 125", lambda: _groups(125)),
        (f"groups of orders {known_orders()}", lambda: _groups(None)),
        ("τ⁻ decay channels", _decays),
        ("hydrogen states, n ≤ 8", _hydrogen),
    ]
    return [_row(name, make) for name, make in rows]


def _row(name: str, make: Callable[[], tuple[Any, str]]) -> dict[str, Any]:
    with measured() as cost:
        tree, result = make()
        one = HiPaQ(tree)
        good = one.check()
    return {
        "hierarchy": name,
        "leaves": tree.n_leaves,
        "(p, K)": f"({one.p}, {one.K})",
        "numbers": one.n_parameters,
        "CPU s": round(cost.seconds, 3),
        "key result": f"{'one code each' if good else good.verdict}; {result}",
    }


def _groups(largest: int | None) -> tuple[Any, str]:
    groups: Catalogue = group_catalogue.__wrapped__(largest)  # made again: the seconds are counted
    alone, ties = groups.n_separated(), len(groups.tie_classes())
    rest = f", {ties} pairs by a look-up" if ties else ""
    return groups.tree, f"{alone:,} of {len(groups.names):,} told apart by invariants alone{rest}"


def _decays() -> tuple[Any, str]:
    decays = read_decays()
    return decays.tree, f"{decays.entropy():.3f} bits a channel, Huffman {decays.huffman_length():.3f}"


def _hydrogen() -> tuple[Any, str]:
    states = hydrogen_tree(8)
    one, shells = HiPaQ(states.tree), {name: name[0] for name in states.names}
    return states.tree, f"purity {one.purity(shells, 1):.0%} by construction: the first digit is the shell"
