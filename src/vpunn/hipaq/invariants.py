"""Identifiers whose digits mean something: a tree of objects by an ordered list of invariants.

Level k of the tree is the value of invariant k, so two objects share k digits exactly if they agree on the first k
invariants. Objects that agree on all of them form a *tie class*; a further digit, the position in the catalogue, keeps
their codes apart and is a look-up, not an invariant: it is labelled so everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import VpunnError, examples
from vpunn.store import Draft, Storable, Stored
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn.codes import PadicCode

#: Name of the digit that is a catalogue position and no invariant.
TIE = "tie (look-up)"


class InvariantError(VpunnError):
    """A cascade, a catalogue or a question to it cannot be used as it is."""


class Invariants:
    """An ordered list of invariant functions, cheap and coarse first.

    ``cascade`` maps a digit's name to a function of the object; values must be hashable and, within a digit, sortable.
    ``prepare`` turns what a user passes into what the functions take (once per object). ``same(a, b)``, if given,
    decides whether two prepared objects are really the same; it settles tie classes when an object is identified.

    >>> cascade = Invariants({"letters": len, "vowels": lambda word: sum(c in "aeiou" for c in word)})
    >>> words = cascade.catalogue(["owl", "auk", "emu", "wren", "kiwi"])
    >>> for row in words.digits():
    ...     print(row["digit"], row["invariant"], row["classes"], row["alone"])
    1 letters 2 0
    2 vowels 4 3
    3 tie (look-up) 5 5
    >>> words.tie_classes()
    [('auk', 'emu')]
    >>> words.identify("rook").candidates, words.identify("coot").path
    (('kiwi',), {'letters': 4, 'vowels': 2})
    """

    def __init__(
        self,
        cascade: Mapping[str, Callable[[Any], Hashable]],
        *,
        prepare: Callable[[Any], Any] | None = None,
        same: Callable[[Any, Any], bool] | None = None,
    ) -> None:
        if not isinstance(cascade, Mapping):
            raise InvariantError(
                f"the cascade maps a digit's name to a function, such as {{'size': len}}, got {cascade!r}."
            )
        if not cascade:
            raise InvariantError("the cascade is empty; give at least one invariant function, such as {'size': len}.")
        self.cascade = dict(cascade)
        self.prepare = prepare or (lambda given: given)
        self.same = same

    def values(self, given: Any) -> dict[str, Hashable]:
        """All invariants of one object, in order."""
        prepared = self.prepare(given)
        return {name: function(prepared) for name, function in self.cascade.items()}

    def catalogue(self, objects: Iterable[Any], names: Sequence[Hashable] | None = None) -> Catalogue:
        """Compute every invariant of every object and build the tree; names default to the objects themselves.

        With ``same``, two entries that are the same object are an error; without it they merely share a tie class.
        """
        objects = list(objects)
        prepared = [self.prepare(given) for given in objects]
        names = list(objects if names is None else names)
        rows = [tuple(function(item) for function in self.cascade.values()) for item in prepared]
        found = self.catalogue_from_values(rows, names, member=lambda name: members[name])  # which checks the names
        members = dict(zip(names, prepared, strict=True))
        for twins in found.tie_classes() if self.same else ():
            for at, name in enumerate(twins):
                again = [
                    other for other in twins[:at] if self.same and self.same(found.member(other), found.member(name))
                ]
                if again:
                    raise InvariantError(f"{again[0]!r} and {name!r} are the same object; keep one of them.")
        return found

    def catalogue_from_values(
        self,
        rows: Sequence[Sequence[Hashable]],
        names: Sequence[Hashable],
        member: Callable[[Any], Any] | None = None,
    ) -> Catalogue:
        """A catalogue from invariants computed before, one row per object; ``member(name)`` fetches a prepared object."""
        if not rows:
            raise InvariantError("the catalogue is empty; give at least one object.")
        if len(names) != len(rows):
            raise InvariantError(f"got {len(names)} names for {len(rows)} objects; give one name per object.")
        wrong = [row for row in rows if len(row) != len(self.cascade)]
        if wrong:
            raise InvariantError(
                f"each object needs {len(self.cascade)} values, one per invariant, got {examples(wrong)}."
            )
        try:
            count = Counter(names)
        except TypeError as error:
            raise InvariantError(
                f"names must be hashable ({error}), got {examples(names)}; pass names=… of your own."
            ) from None
        if len(count) < len(names):
            twice = [name for name, times in count.items() if times > 1]
            raise InvariantError(
                f"names must be unique, but {examples(twice)} occur more than once; pass names=… of your own."
            )
        tree = _build_tree(list(self.cascade), rows, names)
        return Catalogue(self, tree, [tuple(row) for row in rows], tuple(names), member)


@dataclass(frozen=True)
class Identification:
    """What a catalogue says about an object.

    ``path`` holds the invariant values; ``candidates`` are the names that agree on all of them (none if the object is
    new); ``code`` is the integer code of the deepest ball known to contain the object, ``digits`` its digits. With one
    candidate left, ``settled_by`` says why: ``test`` means the explicit test found them the same, ``invariants`` that
    nothing else in the catalogue agrees on all digits, which is proof only if the catalogue is complete. ``new_at``
    names the invariant whose value nothing in the catalogue has.
    """

    code: int
    digits: tuple[int, ...]
    path: dict[str, Hashable]
    candidates: tuple[Any, ...]
    settled_by: str = ""
    new_at: str = ""


class Catalogue(Storable):
    """Objects by invariants: ``tree`` (leaves are named), ``code`` (its `PadicCode`), look-ups both ways.

    Siblings are sorted by value, so codes depend on the set of objects and not on the order they came in; only tie
    digits follow the given order. Tree columns: ``invariant`` (which one a node's digit states) and ``value``.

    Saved are names and values, from which the same tree and the same codes are built again; functions and objects are not. A
    loaded catalogue looks up and, with `identify_values`, identifies; `using` gives it its functions back.
    """

    def __init__(
        self,
        invariants: Invariants,
        tree: Tree,
        rows: list[tuple[Any, ...]],
        names: tuple[Any, ...],
        member: Callable[[Any], Any] | None = None,
    ) -> None:
        self.invariants = invariants
        self.tree = tree
        self.rows = rows
        self.names = names
        self._member = member

    def member(self, name: Hashable) -> Any:
        """The prepared object behind a name."""
        if self._member is None:
            raise InvariantError(
                "this catalogue was built from values alone and holds no objects; pass member=… to fetch them."
            )
        self._leaf_of(name)
        return self._member(name)

    @cached_property
    def code(self) -> PadicCode:
        """The p-adic code of the tree: p is the smallest prime above the largest branching."""
        from vpunn.codes import PadicCode

        return PadicCode(self.tree)

    @cached_property
    def _leaf(self) -> dict[Hashable, int]:
        return {self.tree.labels[leaf]: int(leaf) for leaf in self.tree.leaves}

    def code_of(self, name: Hashable) -> int:
        """The integer code of a named object."""
        return int(self.code.encode(self._leaf_of(name)))

    def _leaf_of(self, name: Hashable) -> int:
        if not isinstance(name, Hashable) or name not in self._leaf:
            raise InvariantError(f"{name!r} is not in the catalogue, which holds {examples(self.names)}.")
        return self._leaf[name]

    def lookup(self, code: int) -> tuple[Any, ...]:
        """The names in the ball of a code: one name for a full code, all that share the prefix for a shorter one."""
        return self._names_below(int(self.code.decode(code)))

    def identify(self, given: Any, *, verify: bool = False) -> Identification:
        """Compute the invariants one by one, walking down the tree while the catalogue knows the value.

        Tie classes are settled by the test ``same`` if there is one; ``verify`` runs it on a single candidate too.
        """
        prepared = self.invariants.prepare(given)
        node, path, new_at = self._walk(lambda name: self.invariants.cascade[name](prepared))
        if new_at:
            return self._answer(node, path, (), new_at=new_at)
        candidates = self._names_below(node)
        if len(candidates) == 1 and not verify:
            return self._answer(node, path, candidates, settled_by="invariants")
        if self.invariants.same is None:
            if verify:
                raise InvariantError("verify=True needs a test; build the cascade with Invariants(…, same=…).")
            return self._answer(node, path, candidates)
        for name in candidates:
            if self.invariants.same(self.member(name), prepared):
                return self._answer(self._leaf[name], path, (name,), settled_by="test")
        return self._answer(node, path, (), new_at=TIE)

    def identify_values(self, values: Mapping[str, Hashable]) -> Identification:
        """`identify` for invariants computed elsewhere: the value of every digit by name. Ties stay ties.

        >>> words = Invariants({"letters": len}).catalogue(["owl", "auk", "wren"])
        >>> words.identify_values({"letters": 4}).candidates, words.identify_values({"letters": 5}).new_at
        (('wren',), 'letters')
        """
        missing = [name for name in self.invariants.cascade if name not in values]
        if missing:
            raise InvariantError(
                f"the value of {missing[0]!r} is missing; give one for each of the cascade's invariants."
            )
        node, path, new_at = self._walk(values.__getitem__)
        if new_at:
            return self._answer(node, path, (), new_at=new_at)
        found = self._names_below(node)
        return self._answer(node, path, found, settled_by="invariants" if len(found) == 1 else "")

    def _walk(self, value_of: Callable[[str], Hashable]) -> tuple[int, dict[str, Hashable], str]:
        """Down the tree while the catalogue knows the value: the last node, the values so far, the digit that is new."""
        node, path = 0, dict[str, Hashable]()
        for name in self.invariants.cascade:
            path[name] = value = value_of(name)
            if not isinstance(value, Hashable):
                raise InvariantError(f"the value of {name!r} must be hashable, got {value!r}.")
            child = self._child.get((node, value))
            if child is None:
                return node, path, name
            node = child
        return node, path, ""

    def using(self, invariants: Invariants, member: Callable[[Any], Any] | None = None) -> Catalogue:
        """This catalogue with the functions of a cascade of the same digits, for one that was loaded."""
        if list(invariants.cascade) != list(self.invariants.cascade):
            raise InvariantError(
                f"this catalogue has the digits {examples(self.invariants.cascade)}, the cascade {examples(invariants.cascade)}."
            )
        return Catalogue(invariants, self.tree, self.rows, self.names, member)

    # ---- saving --------------------------------------------------------------------------------------------------------

    def _to_store(self, draft: Draft) -> None:
        """Names and values; the fingerprint of the tree says whether they still give the same codes."""
        draft.settings |= {"cascade": list(self.invariants.cascade), "fingerprint": self.tree.fingerprint}
        draft.labels("names", _objects(self.names))
        draft.labels("rows", _objects(self.rows))

    @classmethod
    def _from_store(cls, stored: Stored) -> Catalogue:
        names = stored.labels("names")
        cascade = Invariants({name: partial(_not_saved, name) for name in stored.setting("cascade", list)})
        found = cascade.catalogue_from_values(stored.labels("rows", len(names)).tolist(), names.tolist())
        if found.tree.fingerprint != stored.setting("fingerprint", str):
            raise InvariantError(
                "the values no longer give the tree that was saved, so codes would differ; save it again."
            )
        return found

    def _answer(self, node: int, path: dict[str, Hashable], candidates: tuple[Any, ...], **rest: str) -> Identification:
        chain = self.tree.ancestors(node)[1:]
        digits = tuple(self.tree.digit[chain].tolist())
        return Identification(int(self.code.encode(node)), digits, path, candidates, **rest)

    @cached_property
    def _child(self) -> dict[tuple[int, Hashable], int]:
        values, parents = self.tree.columns["value"], self.tree.parent.tolist()
        return {(parents[node], values[node]): node for node in range(1, self.tree.n_nodes)}

    def _names_below(self, node: int) -> tuple[Any, ...]:
        part = self.tree.slice(node)
        return tuple(self.tree.labels[part][self.tree.is_leaf[part]].tolist())

    # ---- what the digits do --------------------------------------------------------------------------------------------

    def digits(self) -> list[dict[str, Any]]:
        """One row per digit: how many classes the prefix makes, how many objects are alone in theirs, what remains."""
        depth_counts = [self._class_sizes(k) for k in range(1, self.tree.max_depth + 1)]
        rows, before = [], 0
        for k, sizes in enumerate(depth_counts, start=1):
            alone = int((sizes == 1).sum())
            name = [*self.invariants.cascade, TIE][k - 1]
            rows.append(
                {
                    "digit": k,
                    "invariant": name,
                    "kind": "look-up" if name == TIE else "invariant",
                    "classes": len(sizes),
                    "alone": alone,
                    "newly alone": alone - before,
                    "largest class": int(sizes.max()),
                }
            )
            before = alone
        return rows

    def _class_sizes(self, depth: int) -> np.ndarray:
        """Sizes of the classes that agree on the first ``depth`` digits."""
        start, ids = self.tree.levels
        here = self.tree.leaf_counts[ids[start[depth] : start[depth + 1]]]
        shallower = (self.tree.is_leaf & (self.tree.depth < depth)).sum()
        return np.append(here, np.ones(shallower, here.dtype))

    def separating_digit(self) -> dict[Any, int]:
        """For every object the first digit after which it is alone (the tie digit if invariants never separate it)."""
        alone = self.tree.leaf_counts == 1
        first = np.flatnonzero(alone & ~np.append(False, alone[self.tree.parent[1:]]))
        leaf = self.tree.leaves[
            np.searchsorted(self.tree.leaves, first)
        ]  # the only leaf below: the next one in preorder
        return dict(zip(self.tree.labels[leaf].tolist(), self.tree.depth[first].tolist(), strict=True))

    def tie_classes(self) -> list[tuple[Any, ...]]:
        """Groups of names that agree on every invariant."""
        start, ids = self.tree.levels
        full = ids[start[len(self.invariants.cascade)] : start[len(self.invariants.cascade) + 1]]
        return [self._names_below(int(node)) for node in full[self.tree.leaf_counts[full] > 1]]

    def n_separated(self) -> int:
        """How many objects the invariants alone single out."""
        return len(self.names) - sum(map(len, self.tie_classes()))

    def __repr__(self) -> str:
        count, depth = len(self.names), len(self.invariants.cascade)
        return f"Catalogue({count:,} objects, {depth} invariants, {self.n_separated():,} separated by them)"


def _not_saved(name: str, given: Any) -> Hashable:
    raise InvariantError(
        f"a loaded catalogue has no function for {name!r}; use identify_values, or using(invariants) to give it back."
    )


def _build_tree(levels: list[str], rows: Sequence[Sequence[Hashable]], names: Sequence[Hashable]) -> Tree:
    """One node per distinct prefix of values, siblings sorted by value; a tie level only below shared full paths."""
    parents, labels, values, kinds = [np.array([-1])], [np.array(["all"], object)], [_objects([None])], [_objects([""])]
    here = np.zeros(len(rows), np.int64)  # node of every object so far
    count = 1
    for k, level in enumerate(levels):
        distinct, rank = _ranked(level, [row[k] for row in rows])
        keys, here = np.unique(here * len(distinct) + rank, return_inverse=True)
        value = distinct[keys % len(distinct)]
        parents.append(keys // len(distinct))
        values.append(value)
        labels.append(_objects([f"{level}={item}" for item in value]))
        kinds.append(_objects([level] * len(keys)))
        here = here + count
        count += len(keys)
    shared = np.bincount(here, minlength=count)[here] > 1
    flat = np.concatenate(labels)
    unique = np.flatnonzero(~shared)
    flat[here[unique]] = _objects(list(names))[unique]
    tied = np.flatnonzero(shared)
    tied = tied[np.argsort(here[tied], kind="stable")]
    position = np.arange(len(tied)) - np.searchsorted(here[tied], here[tied])
    return Tree.from_parents(
        np.concatenate([*parents, here[tied]]),
        np.concatenate([flat, _objects(list(names))[tied]]),
        columns={
            "value": np.concatenate([*values, position.astype(object)]),
            "invariant": np.concatenate([*kinds, _objects([TIE] * len(tied))]),
        },
    )


def _ranked(level: str, values: Sequence[Hashable]) -> tuple[np.ndarray, np.ndarray]:
    """Sorted distinct values and the rank of each value."""
    try:
        distinct = sorted(set(values))  # type: ignore[type-var]
    except TypeError as error:
        raise InvariantError(
            f"the values of {level!r} must be hashable and sortable ({error}); got {examples(values)}."
        ) from error
    rank = {value: at for at, value in enumerate(distinct)}
    return _objects(distinct), np.array([rank[value] for value in values])


def _objects(values: Sequence[Any]) -> np.ndarray:
    """A one-dimensional object array, also of tuples."""
    return np.fromiter(values, object, len(values))
