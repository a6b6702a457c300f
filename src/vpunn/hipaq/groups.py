"""Finite groups as multiplication tables: validation, generators, relabelling, isomorphism.

A `Group` is an n × n integer table ``table[a, b] = a·b``. Tables come from a user, from permutations (SymPy's or plain
lists), or from the shipped catalogue; whatever they are called outside, elements are 0 … n−1 here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from vpunn._types import Table
from vpunn.errors import VpunnError, examples

#: Closing permutations under multiplication stops here: a table of this order already takes 200 MB.
MAX_ORDER = 5000


class GroupError(VpunnError):
    """A table or a set of permutations is not a group, or the group is not in the catalogue."""


@dataclass(frozen=True, eq=False)
class Group:
    """A finite group by its multiplication table; make one with `from_table` or `from_permutations`.

    >>> Group.from_table([[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    Group(order 3)
    >>> Group.from_permutations([[1, 2, 3, 0], [0, 3, 2, 1]])  # a square's rotation and mirror
    Group(order 8)
    >>> Group.from_table([[0, 1, 2], [1, 0, 1], [2, 2, 0]])
    Traceback (most recent call last):
    vpunn.hipaq.groups.GroupError: not associative at the triple (1, 1, 2): (1·1)·2 = 2 but 1·(1·2) = 0.
    """

    table: np.ndarray
    identity: int

    # ---- construction ----------------------------------------------------------------------------------------------

    @classmethod
    def from_table(cls, table: Table) -> Group:
        """From an n × n table whose entry (a, b) is the product a·b of the elements numbered a and b from 0.

        Shape, range, identity, inverses and associativity are checked; the first failure is named, for associativity
        by the first triple (a, b, c), in order, with (a·b)·c ≠ a·(b·c). O(n²·generators) for a good table.
        """
        array = _as_table(table)
        identity = _find_identity(array)
        _check_inverses(array, identity)
        _check_associative(array, _magma_generators(array, identity))
        return cls(_frozen(array), identity)

    @classmethod
    def from_permutations(cls, generators: Any) -> Group:
        """From permutations: lists of images of 0 … d−1, SymPy ``Permutation`` objects, or a ``PermutationGroup``.

        The product a·b means a first, then b (SymPy's convention). Elements are numbered in the order they are found
        from the identity, which is 0. O(order²).
        """
        return cls.from_regular(_close(_as_permutations(generators)))

    @classmethod
    def from_regular(cls, given: Any) -> Group:
        """From right multiplications ``given[g][x] = x·g`` by generators g, with elements 0 … n−1 and identity 0.

        Trusted to be those of a group. The table follows from x·(y·g) = (x·y)·g: one gather per element along a walk
        from the identity.
        """
        steps = np.asarray(given, dtype=np.int64)
        if not steps.size:
            return cls.from_table([[0]])
        n = steps.shape[1]
        table = np.full((n, n), -1, np.int64)
        table[:, 0] = np.arange(n)
        queue = [0]
        for y in queue:
            for step in steps:
                target = int(step[y])
                if table[0, target] < 0:
                    table[:, target] = step[table[:, y]]
                    queue.append(target)
        if len(queue) < n:
            raise GroupError(f"the generators reach {len(queue)} of {n} elements; pass a full generating set.")
        return cls(_frozen(table), 0)

    # ---- views -----------------------------------------------------------------------------------------------------

    @property
    def order(self) -> int:
        """Number of elements."""
        return len(self.table)

    @cached_property
    def inverse(self) -> np.ndarray:
        """The inverse of every element."""
        return np.asarray(np.argmax(self.table == self.identity, axis=1))

    @cached_property
    def powers(self) -> np.ndarray:
        """``powers[k, x] = x^k`` for k = 0 … exponent − 1."""
        everything = np.arange(self.order)
        rows = [np.full(self.order, self.identity)]
        while (step := self.table[rows[-1], everything]).max() != self.identity or step.min() != self.identity:
            rows.append(step)
        return np.array(rows)

    @cached_property
    def element_orders(self) -> np.ndarray:
        """Order of every element."""
        hits = np.vstack([self.powers[1:] == self.identity, np.ones((1, self.order), bool)])
        return np.asarray(np.argmax(hits, axis=0) + 1)

    @cached_property
    def classes(self) -> tuple[np.ndarray, np.ndarray]:
        """Conjugacy classes: ``(class_of, representatives)``; O(n²) by one gather of g⁻¹·x·g for all pairs."""
        everything = np.arange(self.order)
        conjugates = self.table[self.table[self.inverse[:, None], everything[None, :]], everything[:, None]]
        representatives, class_of = np.unique(conjugates.min(axis=0), return_inverse=True)
        return class_of, representatives

    def span(self, elements: Iterable[int] | np.ndarray) -> np.ndarray:
        """The subgroup generated by some elements, sorted; squares the set until nothing new appears."""
        members = np.unique(np.append(np.asarray(list(elements), np.int64), self.identity))
        while True:
            grown = np.unique(self.table[np.ix_(members, members)])
            if len(grown) == len(members):
                return members
            members = grown

    def commutators(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """The subgroup generated by all a⁻¹·b⁻¹·a·b with a in ``left``, b in ``right``."""
        a, b = left[:, None], right[None, :]
        products = self.table[self.table[self.inverse[a], self.inverse[b]], self.table[a, b]]
        return self.span(np.unique(products))

    def relabelled(self, permutation: Any) -> Group:
        """The same group with element x called ``permutation[x]``."""
        new = np.asarray(permutation, dtype=np.int64)
        table = np.empty_like(self.table)
        table[new[:, None], new[None, :]] = new[self.table]
        return Group(_frozen(table), int(new[self.identity]))

    def __repr__(self) -> str:
        return f"Group(order {self.order})"


def as_group(given: Any) -> Group:
    """A `Group` from whatever describes one: a Group, a table, a SymPy ``PermutationGroup`` or a list of ``Permutation``."""
    if isinstance(given, Group):
        return given
    if hasattr(given, "generators") or (isinstance(given, Sequence) and given and hasattr(given[0], "array_form")):
        return Group.from_permutations(given)
    return Group.from_table(given)


def find_isomorphism(
    group: Group, other: Group, colours: np.ndarray | None = None, other_colours: np.ndarray | None = None
) -> np.ndarray | None:
    """A map ``image[x]`` with image[x·y] = image[x]·image[y], or None: this *decides* isomorphism.

    Backtracking over images of a short generating set. ``colours`` (any isomorphism-invariant colouring of the elements,
    by default element orders and class sizes; give both or neither) prunes the images; each partial choice is checked by
    extending it to the subgroup generated so far.
    """
    if group.order != other.order:
        return None
    mine = _default_colours(group) if colours is None else colours
    theirs = _default_colours(other) if other_colours is None else other_colours
    if not np.array_equal(np.sort(mine), np.sort(theirs)):
        return None
    choice = _short_generators(group, mine)

    def search(images: list[int]) -> np.ndarray | None:
        partial = _extend(group, other, choice[: len(images)], images)
        if partial is None:
            return None
        if len(images) == len(choice):
            return partial
        for candidate in np.flatnonzero(theirs == mine[choice[len(images)]]).tolist():
            found = search([*images, candidate])
            if found is not None:
                return found
        return None

    return search([])


def _extend(group: Group, other: Group, generators: Sequence[int], images: Sequence[int]) -> np.ndarray | None:
    """The homomorphism with these images on the generated subgroup (−1 outside), or None if there is none or not injective."""
    image = np.full(group.order, -1, np.int64)
    image[group.identity] = other.identity
    queue = [group.identity]
    for x in queue:
        for g, h in zip(generators, images, strict=True):
            y, target = int(group.table[x, g]), int(other.table[image[x], h])
            if image[y] < 0:
                image[y] = target
                queue.append(y)
            elif image[y] != target:
                return None
    hit = image[image >= 0]
    return image if len(np.unique(hit)) == len(hit) else None


def _short_generators(group: Group, colours: np.ndarray) -> list[int]:
    """Greedy generating set: largest growth first, and among equals the element with the rarest colour."""
    rarity = np.bincount(colours)[colours]
    chosen: list[int] = []
    members = np.array([group.identity])
    while len(members) < group.order:
        outside = np.setdiff1d(np.arange(group.order), members)
        spans = {int(x): len(group.span(np.append(members, x))) for x in outside}
        best = min(spans, key=lambda x: (-spans[x], rarity[x], x))
        chosen.append(best)
        members = group.span(np.append(members, best))
    return chosen


def _default_colours(group: Group) -> np.ndarray:
    class_of, _ = group.classes
    return np.asarray(group.element_orders * (group.order + 1) + np.bincount(class_of)[class_of])


# ---- reading and checking ------------------------------------------------------------------------------------------


def _as_table(table: Table) -> np.ndarray:
    try:
        array = np.asarray(table)
    except ValueError:
        array = np.empty(0, object)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.size:
        ragged = isinstance(table, Sequence) and not array.size and all(isinstance(row, Sequence) for row in table)
        got = (
            f"rows of lengths {examples([len(row) for row in table])}"
            if ragged and len(table)
            else f"shape {np.shape(array)}"
        )
        raise GroupError(f"a multiplication table is n × n with n ≥ 1, got {got}; give one row per element.")
    floats = array.dtype.kind == "f" and bool((abs(array) < 2**53).all())
    if not (array.dtype.kind in "iu" or (floats and np.array_equal(array, np.trunc(array)))):
        raise GroupError(
            f"table entries must be element numbers from 0, got {examples(array.ravel())}; number the elements first."
        )
    array = array.astype(np.int64)
    bad = np.argwhere((array < 0) | (array >= len(array)))
    if len(bad):
        a, b = bad[0].tolist()
        raise GroupError(
            f"entry ({a}, {b}) is {array[a, b]}, but {len(array)} elements are numbered 0 … {len(array) - 1}."
        )
    return array


def _find_identity(table: np.ndarray) -> int:
    everything = np.arange(len(table))
    two_sided = (table == everything).all(axis=1) & (table == everything[:, None]).all(axis=0)
    found = np.flatnonzero(two_sided)
    if len(found):
        return int(found[0])
    # The most nearly neutral element makes the most helpful counterexample.
    near = int(np.argmax((table == everything).sum(axis=1)))
    wrong = np.flatnonzero(table[near] != everything)
    side = f"{near}·{wrong[0]} = {table[near, wrong[0]]}" if len(wrong) else ""
    if not side:
        x = int(np.flatnonzero(table[:, near] != everything)[0])
        side = f"{x}·{near} = {table[x, near]}"
    raise GroupError(
        f"no element is an identity (nearest is {near}, but {side}); a group has one e with e·x = x·e = x."
    )


def _check_inverses(table: np.ndarray, identity: int) -> None:
    for name, axis in (("no product {0}·b", 1), ("no product b·{0}", 0)):
        missing = np.flatnonzero(~(table == identity).any(axis=axis))
        if len(missing):
            text = name.format(missing[0])
            raise GroupError(
                f"element {missing[0]} has no inverse: {text} is the identity {identity}; "
                "a group's table has every element once in each row."
            )


def _magma_generators(table: np.ndarray, identity: int) -> tuple[int, ...]:
    """Elements whose products, bracketed in any way, give everything: greedy, lowest number first."""
    chosen: list[int] = []
    members = np.array([identity])
    while len(members) < len(table):
        outside = np.ones(len(table), bool)
        outside[members] = False
        chosen.append(int(np.argmax(outside)))
        members = np.append(members, chosen[-1])
        while True:
            grown = np.union1d(members, table[np.ix_(members, members)])
            if len(grown) == len(members):
                break
            members = grown
    return tuple(chosen)


def _check_associative(table: np.ndarray, generators: Sequence[int]) -> None:
    """Light's test: the elements s with (x·s)·y = x·(s·y) for all x, y are closed under products, so generators suffice."""
    if all(np.array_equal(table[table[:, s]], table[:, table[s]]) for s in generators):
        return
    for a in range(len(table)):
        wrong = np.argwhere(table[table[a]] != table[a][table])
        if len(wrong):
            b, c = wrong[0].tolist()
            left, right = table[table[a, b], c], table[a, table[b, c]]
            raise GroupError(
                f"not associative at the triple ({a}, {b}, {c}): ({a}·{b})·{c} = {left} but {a}·({b}·{c}) = {right}."
            )


def _as_permutations(given: Any) -> list[np.ndarray]:
    """Image arrays padded to a common degree."""
    listed = getattr(given, "generators", given)
    if not isinstance(listed, Iterable):
        raise GroupError(
            f"permutations are given as a list of lists of images, such as [[1, 2, 0], [1, 0, 2]], got {given!r}."
        )
    items = list(listed)
    try:
        arrays = [np.asarray(getattr(item, "array_form", item)) for item in items]
    except ValueError:
        raise GroupError(
            "a permutation is one flat list of images, got nested lists; list the image of each point."
        ) from None
    for at, array in enumerate(arrays):
        if array.ndim != 1 or array.dtype.kind not in "iu" or not np.array_equal(np.sort(array), np.arange(len(array))):
            raise GroupError(
                f"generator {at} is not a permutation of 0 … {max(array.size - 1, 0)}: {examples(array.ravel())}; "
                "list the image of each point."
            )
    degree = max((len(array) for array in arrays), default=0)
    return [np.append(array, np.arange(len(array), degree)).astype(np.int64) for array in arrays]


def _close(generators: Sequence[np.ndarray]) -> np.ndarray:
    """Right multiplications: for each generator g and each element x, both numbered as found, the number of x·g."""
    if not generators:
        return np.empty((0, 0), np.int64)
    start = np.arange(len(generators[0]))
    number = {start.tobytes(): 0}
    elements = [start]
    steps: list[list[int]] = [[] for _ in generators]
    for element in elements:
        for column, generator in zip(steps, generators, strict=True):
            product = generator[element]  # first element, then generator
            key = product.tobytes()
            if key not in number:
                if len(elements) == MAX_ORDER:
                    raise GroupError(
                        f"the permutations generate more than {MAX_ORDER:,} elements, too many for a table."
                    )
                number[key] = len(elements)
                elements.append(product)
            column.append(number[key])
    return np.array(steps)


def _frozen(table: np.ndarray) -> np.ndarray:
    table.flags.writeable = False
    return table
