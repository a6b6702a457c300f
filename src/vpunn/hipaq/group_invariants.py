"""What can be said about a finite group without naming its elements, cheap facts first.

Every function here is an isomorphism invariant computed from the multiplication table alone (NumPy, no GAP); the table
shipped with the package holds the same quantities computed by GAP's own algorithms, and the tests compare the two.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from vpunn.hipaq.groups import Group, as_group

#: Digit → what it says. The order of the cascade: each digit splits what the ones before left together.
MEANING: dict[str, str] = {
    "order": "number of elements",
    "abelianisation": "cyclic factors of G/G′, prime powers",
    "exponent": "least k with x^k = 1 for all x",
    "nilpotency": "nilpotency class, −1 if not nilpotent",
    "derived_length": "derived length, −1 if not soluble",
    "centre": "cyclic factors of the centre",
    "derived": "cyclic factors of G′/G″ (the order of G′ itself follows from the first two digits)",
    "classes": "conjugacy classes as (element order, size, how many)",
    "powers": "classes told apart by the colours of their powers and roots, repeated until stable (colours, digest)",
    "pairs": "how many pairs (x, y) generate a subgroup of each order",
    "products": "classes told apart by the colours of (y, x·y) over all y, repeated until stable (colours, digest)",
}


class GroupProfile:
    """The invariants of one group, each computed when first asked for and kept.

    >>> from vpunn.hipaq.groups import Group
    >>> quaternions = GroupProfile(Group.from_permutations([[1, 2, 3, 0, 5, 6, 7, 4], [4, 7, 6, 5, 2, 1, 0, 3]]))
    >>> quaternions.order, quaternions.abelianisation, quaternions.centre, quaternions.classes
    (8, (2, 2), (2,), ((1, 1, 1), (2, 1, 1), (4, 2, 3)))
    """

    def __init__(self, group: Any) -> None:
        self.group: Group = as_group(group)

    # ---- whole-group facts -------------------------------------------------------------------------------------------

    @property
    def order(self) -> int:
        return self.group.order

    @property
    def exponent(self) -> int:
        return len(self.group.powers)

    @cached_property
    def _derived(self) -> np.ndarray:
        everything = np.arange(self.order)
        return self.group.commutators(everything, everything)

    @cached_property
    def abelianisation(self) -> tuple[int, ...]:
        return self._cyclic_factors(np.arange(self.order), self._derived)

    @cached_property
    def centre(self) -> tuple[int, ...]:
        class_of, _ = self.group.classes
        central = np.flatnonzero(np.bincount(class_of)[class_of] == 1)
        return self._cyclic_factors(central, np.array([self.group.identity]))

    @cached_property
    def derived(self) -> tuple[int, ...]:
        return self._cyclic_factors(self._derived, self.group.commutators(self._derived, self._derived))

    @cached_property
    def nilpotency(self) -> int:
        return self._series_length(lambda last: self.group.commutators(last, np.arange(self.order)))

    @cached_property
    def derived_length(self) -> int:
        return self._series_length(lambda last: self.group.commutators(last, last))

    def _series_length(self, step: Callable[[np.ndarray], np.ndarray]) -> int:
        """Steps of a descending series down to the trivial group; −1 if it stops before."""
        last, length = np.arange(self.order), 0
        while len(last) > 1:
            smaller = self._derived if length == 0 else step(last)
            if len(smaller) == len(last):
                return -1
            last, length = smaller, length + 1
        return length

    def _cyclic_factors(self, members: np.ndarray, modulo: np.ndarray) -> tuple[int, ...]:
        """Prime-power orders of the cyclic factors of the abelian group ``members / modulo``.

        The number of factors of order ≥ p^j is log_p of #{x : x^(p^j) = 1} / #{x : x^(p^(j−1)) = 1}.
        """
        trivial = np.zeros(self.order, bool)
        trivial[modulo] = True
        factors: list[int] = []
        for p in prime_divisors(len(members) // len(modulo)):
            power, solved, at_least = 1, len(modulo), []
            while True:
                power *= p
                now = int(trivial[self.group.powers[power % self.exponent][members]].sum())
                rank = round(np.log(now / solved) / np.log(p))
                if not rank:
                    break
                at_least.append((power, rank))
                solved = now
            for (q, rank), (_, next_rank) in zip(at_least, [*at_least[1:], (0, 0)], strict=True):
                factors += [q] * (rank - next_rank)
        return tuple(sorted(factors))

    # ---- classes and their colours -----------------------------------------------------------------------------------

    @cached_property
    def _class_start(self) -> tuple[list[Any], np.ndarray]:
        class_of, representatives = self.group.classes
        sizes = np.bincount(class_of)
        orders = self.group.element_orders[representatives]
        return rank_signatures(list(zip(orders.tolist(), sizes.tolist(), strict=True)))

    @cached_property
    def classes(self) -> tuple[tuple[int, int, int], ...]:
        return tuple((order, size, count) for (order, size), count in self._class_start[0])

    @cached_property
    def _by_power(self) -> tuple[list[Any], np.ndarray]:
        """Refinement by power maps: the colours met on x², x³, …, and the colours of the p-th roots of x."""
        class_of, representatives = self.group.classes
        orders = self.group.element_orders[representatives].tolist()
        walk = class_of[self.group.powers[:, representatives]]  # walk[k, c] = class of c's k-th power
        primes = prime_divisors(self.order)
        roots = [[np.flatnonzero(walk[p % self.exponent] == c) for p in primes] for c in range(len(representatives))]

        def signature(c: int, colour: np.ndarray) -> Any:
            powers = tuple(colour[walk[2 : orders[c], c]].tolist())
            return (int(colour[c]), powers, tuple(collected(colour[found].tolist()) for found in roots[c]))

        return refine(self._class_start[1], signature)

    @cached_property
    def powers(self) -> tuple[int, str]:
        rounds, colours = self._by_power
        return int(colours.max()) + 1, digest(rounds)

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        from vpunn.hipaq._kernels import two_generator_orders

        class_of, representatives = self.group.classes
        # ⟨x, y⟩ depends on y only through the cyclic subgroup ⟨y⟩, and up to conjugation on the class of x.
        cyclic, generators = np.unique(self.cyclic_names, return_counts=True)
        orders = two_generator_orders(self.group.table, self.group.identity, representatives, cyclic)
        weights = np.bincount(class_of)[:, None] * generators[None, :]
        totals = np.bincount(orders.ravel(), weights.ravel()).astype(np.int64)
        return tuple((int(m), int(totals[m])) for m in np.flatnonzero(totals))

    @property
    def cyclic_names(self) -> np.ndarray:
        """For every y the least generator of ⟨y⟩: the least power of y that has y's order."""
        orders = self.group.element_orders
        powers = self.group.powers
        return np.asarray(np.where(orders[powers] == orders, powers, self.order).min(axis=0))

    @cached_property
    def _by_product(self) -> tuple[list[Any], np.ndarray]:
        """Refinement by products: for x, how often a y of one colour gives x·y of another."""
        class_of, representatives = self.group.classes
        products = class_of[self.group.table[representatives]]

        def signature(c: int, colour: np.ndarray) -> Any:
            width = int(colour.max()) + 1
            keys, counts = np.unique(colour[class_of] * width + colour[products[c]], return_counts=True)
            pairs = zip((keys // width).tolist(), (keys % width).tolist(), counts.tolist(), strict=True)
            return (int(colour[c]), tuple(((y, xy), count) for y, xy, count in pairs))

        return refine(self._by_power[1], signature)

    @cached_property
    def products(self) -> tuple[int, str]:
        rounds, colours = self._by_product
        return int(colours.max()) + 1, digest(rounds)

    @property
    def element_colours(self) -> np.ndarray:
        """The finest colouring of the elements found; isomorphisms preserve it, which prunes the search for them."""
        return np.asarray(self._by_product[1][self.group.classes[0]])


#: The cascade for `vpunn.hipaq.Invariants`: digit name → function of a `GroupProfile`.
GROUP_CASCADE: dict[str, Callable[[GroupProfile], Hashable]] = {name: attrgetter(name) for name in MEANING}


def group_invariants(group: Any) -> dict[str, Hashable]:
    """All invariants of a group given as a table, permutations or a `Group`, in cascade order.

    >>> group_invariants([[0, 1], [1, 0]])["pairs"]
    ((1, 1), (2, 3))
    """
    profile = GroupProfile(group)
    return {name: value(profile) for name, value in GROUP_CASCADE.items()}


# ---- colour refinement -----------------------------------------------------------------------------------------------


def refine(colours: np.ndarray, signature: Callable[[int, np.ndarray], Any]) -> tuple[list[Any], np.ndarray]:
    """Recolour by signatures until the number of colours stops growing: ``(history, colours)``.

    A colour is the rank of its signature among the sorted signatures present, and the history lists them with their
    counts, so equal histories mean equal colourings whatever the elements are called.
    """
    rounds: list[Any] = []
    while True:
        counted, new = rank_signatures([signature(c, colours) for c in range(len(colours))])
        rounds.append(counted)
        if len(counted) == len(np.unique(colours)):
            return rounds, new
        colours = new


def rank_signatures(signatures: Sequence[Any]) -> tuple[list[Any], np.ndarray]:
    """Sorted distinct signatures with counts, and the rank of each."""
    counted = sorted(Counter(signatures).items())
    rank = {value: at for at, (value, _) in enumerate(counted)}
    return counted, np.array([rank[value] for value in signatures])


def collected(values: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Sorted (value, count) pairs."""
    return tuple(sorted(Counter(values).items()))


def digest(history: Any) -> str:
    """Sixteen hex digits of SHA-256 of the history as compact JSON: 64 bits, so a chance clash among 10⁵ groups is ~ 10⁻¹⁰."""
    text = json.dumps(history, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def prime_divisors(n: int) -> list[int]:
    """The primes dividing n, ascending.

    >>> prime_divisors(360)
    [2, 3, 5]
    """
    found, p = [], 2
    while n > 1:
        if p * p > n:
            p = n
        if n % p == 0:
            found.append(p)
            while n % p == 0:
                n //= p
        p += 1
    return found
