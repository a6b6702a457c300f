"""What every part of a fitted classifier consists of: one line for each field, by which it is written, and checked when it is read.

Parts are NamedTuples and dataclasses of arrays. A length is a number or a name; a name means the same length wherever it stands in
a model, and is fixed by what is known first (the tree, the blocks of columns) or by the first array that has it. What several
parts share is written once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from vpunn.hipan.combiner import Combiner
from vpunn.hipan.descriptions import Descriptions
from vpunn.hipan.dictionary import Dictionary
from vpunn.hipan.feature_table import FeatureTable
from vpunn.hipan.gaussian import Gaussian
from vpunn.hipan.heads import Heads
from vpunn.hipan.linear_numbers import LinearNumbers
from vpunn.hipan.nearest import Items, Nearest
from vpunn.hipan.nearest_numbers import NearestNumbers
from vpunn.hipan.prior import Prior
from vpunn.hipan.readings import Standard, Whitened
from vpunn.hipan.set_combiner import SetCombiner
from vpunn.hipan.set_forest import Forest
from vpunn.hipan.set_networks import Network
from vpunn.hipan.set_numbers import KernelRidge, NumberExperts
from vpunn.hipan.set_words import Words
from vpunn.hipan.sums import Sums
from vpunn.hipan.tree_arrays import Grown, Occupied
from vpunn.store import Draft, Stored

Length = int | str | None


class Numbers(NamedTuple):
    """An array: the letters of its kind or its type, its lengths, and the numbers that it may hold (``high`` may be a length)."""

    dtype: str
    shape: tuple[Length, ...]
    low: float | None = None
    high: float | str | None = None
    rising: bool = False
    finite: bool = True


class Matrix(NamedTuple):
    """A sparse matrix by rows, in 32 bits."""

    rows: Length
    columns: Length


class Part(NamedTuple):
    """Another part; ``lengths`` are what its own names mean here."""

    kind: type
    lengths: Mapping[str, Length] = {}


class Several(NamedTuple):
    """A tuple of things of one kind, or, with several kinds, one of each."""

    kinds: tuple[Any, ...]


class Given(NamedTuple):
    """What is known from the tree and not written."""

    kind: type


class Value(NamedTuple):
    """One number above 0."""

    kind: type


TREE = Given(Occupied)
#: Numbers as they are read have a few digits; beyond this their squares are no numbers.
MOST = 1e100


def _read(*shape: Length) -> Numbers:
    return Numbers("f8", shape, low=-MOST, high=MOST)


#: Every part and its fields.
SCHEMA: dict[type, dict[str, Any]] = {
    FeatureTable: {
        "start": Numbers("i8", ("columns+1",), low=0, rising=True),
        "block": Numbers("i4", ("entries",), low=0, high="table"),
        "value": Numbers("f4", ("entries", "values")),
        "blocks": Value(int),
    },
    Items: {
        "leaf": Numbers("i", ("rows",), low=0, high="leaves"),
        "weight": Numbers("f", ("rows",), low=0),
        "tree": TREE,
    },
    Prior: {
        "count": Numbers("f4", ("blocks",)),
        "frequent": Numbers("i4", ("leaves",), low=0, high="leaves"),
        "tree": TREE,
    },
    Sums: {
        "table": Part(FeatureTable, {"table": "blocks", "values": 3, "entries": None}),
        "norm": Numbers("f4", ("blocks",), low=0),
        "log_news": Numbers("f4", ("blocks",)),
        "tree": TREE,
    },
    Nearest: {
        "rows": Matrix("rows", "columns"),
        "table": Part(FeatureTable, {"table": "rows", "values": 1, "entries": None}),
        "items": Part(Items),
    },
    Heads: {
        "table": Part(FeatureTable, {"table": "blocks", "values": 1, "entries": None}),
        "bias": Numbers("f4", ("blocks",)),
        "tree": TREE,
    },
    Dictionary: {"entries": Matrix("columns", "columns"), "sums": Part(Sums), "items": Part(Nearest)},
    Descriptions: {
        "kinds": Several((Matrix("nodes", "columns"),)),
        "dictionary": Part(Dictionary),
        "grown": Given(Grown),
    },
    Standard: {
        "low": Numbers("f8", ("columns",), finite=False),
        "high": Numbers("f8", ("columns",), finite=False),
        "mean": Numbers("f8", ("columns",)),
        "scale": Numbers("f8", ("columns",), low=0, finite=False),
    },
    Whitened: {"standard": Part(Standard), "turn": _read("columns", "width")},
    Gaussian: {"reading": Part(Whitened), "mean": _read("blocks", "width"), "tree": TREE},
    NearestNumbers: {
        "readings": Several((Part(Standard), Part(Whitened))),
        "rows": Several((_read("rows", "columns"), _read("rows", "width"))),
        "typical": Several((Value(float),)),
        "items": Part(Items),
    },
    LinearNumbers: {
        "reading": Part(Standard),
        "ridge": _read("columns+1", "leaves"),
        "logistic": _read("columns+1", "leaves"),
        "tree": TREE,
    },
    Combiner: {
        "mean": Numbers("f4", ("evidence",)),
        "spread": Numbers("f4", ("evidence",), low=1e-12),
        "linear": Numbers("f4", ("evidence",)),
        "inner": Numbers("f4", ("evidence", "hidden")),
        "bias": Numbers("f4", ("hidden",)),
        "outer": Numbers("f4", ("hidden",)),
    },
    Words: {
        "rows": Matrix("rows", "columns"),
        "trust": Numbers("f4", ("columns",), low=0),
        "heads": Matrix("columns", "nodes"),
        "offset": Numbers("f4", ("nodes",)),
        "truth": Matrix("rows", "nodes"),
    },
    Network: {
        "w1": Numbers("f8", ("columns", "first")),
        "w2": Numbers("f8", ("first", "second")),
        "w3": Numbers("f8", ("second", "asked")),
        "b1": Numbers("f8", ("first",)),
        "b2": Numbers("f8", ("second",)),
        "b3": Numbers("f8", ("asked",)),
    },
    KernelRidge: {
        "landmark": Numbers("f8", ("landmarks", "columns")),
        "usual": Value(float),
        "slope": Numbers("f4", ("landmarks", "nodes")),
    },
    Forest: {
        "root": Numbers("i4", ("trees",), low=0, high="splits"),
        "column": Numbers("i4", ("splits",), low=-1, high="columns"),
        "cut": Numbers("f8", ("splits",)),
        "left": Numbers("i4", ("splits",), low=0),
        "right": Numbers("i4", ("splits",), low=0),
        "row": Numbers("i4", ("held",), low=0, high="rows"),
        "share": Numbers("f4", ("held",), low=0),
    },
    NumberExperts: {
        "standard": Part(Standard),
        "rate": Numbers("f8", ("nodes",), low=0),
        "asked": Numbers("i4", ("asked",), low=0, high="nodes"),
        "networks": Several((Part(Network), Part(Network))),
        "ridge": Part(KernelRidge),
        "forest": Part(Forest),
        "truth": Matrix("rows", "nodes"),
    },
    SetCombiner: {
        "mean": Numbers("f4", ("evidence",)),
        "spread": Numbers("f4", ("evidence",), low=1e-12),
        "linear": Numbers("f4", ("evidence",)),
        "inner": Numbers("f4", ("evidence", "hidden")),
        "bias": Numbers("f4", ("hidden",)),
        "outer": Numbers("f4", ("hidden",)),
        "constant": Numbers("f4", (1,)),
    },
}


class Writer:
    """Puts parts into a draft; ``told`` in its settings says how they hang together."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.kept: dict[int, tuple[str, Any]] = {}  # what is written, so that it is not freed meanwhile

    def write(self, name: str, thing: Any) -> Any:
        """The arrays of a part, and what `Reader.read` has to be told of it."""
        if isinstance(thing, Grown | Occupied):
            return None
        if isinstance(thing, bool | int | float | str | np.integer | np.floating):
            return thing
        if type(thing) is tuple:
            return [self.write(f"{name}.{i}", one) for i, one in enumerate(thing)]
        if id(thing) in self.kept:
            return {"same": self.kept[id(thing)][0]}
        self.kept[id(thing)] = name, thing
        if isinstance(thing, np.ndarray):
            self.draft.array(name, thing)
            return name
        if sparse.issparse(thing):
            for part in ("data", "indices", "indptr"):
                self.draft.array(f"{name}.{part}", getattr(thing, part))
            return name
        fields = SCHEMA[type(thing)]
        return {f: self.write(f"{name}.{f}", getattr(thing, f)) for f in fields}


class Reader:
    """Reads parts of a folder; ``given`` are the parts that follow from the tree, ``lengths`` what is known."""

    def __init__(self, stored: Stored, given: tuple[Any, ...], lengths: Mapping[str, int]) -> None:
        self.stored, self.lengths = stored, dict(lengths)
        self.given = {type(thing): thing for thing in given}
        self.kept: dict[str, tuple[Any, tuple[int | None, ...]]] = {}
        self.things: dict[str, Any] = {}

    def of_block(self, lengths: Mapping[str, int]) -> Reader:
        """The same folder, where some lengths are known and others are open again."""
        more = Reader(self.stored, tuple(self.given.values()), {**self.lengths, **lengths})
        more.kept, more.things = self.kept, self.things
        return more

    def read(self, name: str, told: Any, field: Any) -> Any:
        """A part, after checking every number in it."""
        if isinstance(field, Given):
            return self.given[field.kind]
        if isinstance(told, dict) and set(told) == {"same"}:
            name = str(told["same"])
            if isinstance(field, Part):
                thing, lengths = self.kept.get(name, (None, ()))
                shape = self._shape()
                if type(thing) is not field.kind or any(
                    None not in pair and pair[0] != pair[1] for pair in zip(lengths, shape, strict=True)
                ):
                    raise self.stored.damaged(f"a {field.kind.__name__} is said to be {name!r}")
                return thing
        made = self._read(name, told, field)
        if isinstance(field, Part):
            self.kept[name] = made, self._shape()
        if isinstance(field, Matrix | Numbers):  # checked for each that has it, and one thing for all
            first = self.things.setdefault(name, made)
            made = first if first.shape == made.shape else made
        return made

    def _shape(self) -> tuple[int | None, ...]:
        return self.lengths.get("columns"), self.lengths.get("rows")

    def _read(self, name: str, told: Any, field: Any) -> Any:
        if isinstance(field, Numbers):
            return self._numbers(name, field)
        if isinstance(field, Matrix):
            return self._matrix(name, field)
        if isinstance(field, Value):
            if type(told) is not field.kind or not told > 0:  # type: ignore[operator]
                raise self.stored.damaged(f"{name!r} is {told!r}")
            return told
        if isinstance(field, Several):
            kinds = field.kinds * len(told) if isinstance(told, list) and len(field.kinds) == 1 else field.kinds
            if not isinstance(told, list) or len(told) != len(kinds):
                raise self.stored.damaged(f"{name!r} is {told!r}")
            return tuple(self.read(f"{name}.{i}", t, kind) for i, (t, kind) in enumerate(zip(told, kinds, strict=True)))
        fields = SCHEMA[field.kind]
        if not isinstance(told, dict) or set(told) != set(fields):
            raise self.stored.damaged(f"{name!r} is no {field.kind.__name__}")
        before = {key: self.lengths.pop(key, None) for key in field.lengths}
        self.lengths |= {k: self._known(v) for k, v in field.lengths.items() if self._known(v) is not None}
        made = field.kind(**{f: self.read(f"{name}.{f}", told[f], kind) for f, kind in fields.items()})
        self._check(name, made)
        for key, value in before.items():
            self.lengths.pop(key, None)
            if value is not None:
                self.lengths[key] = value
        return made

    def _known(self, length: Length) -> int | None:
        if isinstance(length, str):
            more = length.endswith("+1")
            found = self.lengths.get(length.removesuffix("+1"))
            return None if found is None else found + more
        return length

    def _numbers(self, name: str, field: Numbers) -> np.ndarray:
        shape = tuple(self._known(length) for length in field.shape)
        high = self._known(field.high) if isinstance(field.high, str) else field.high
        array = self.stored.array(
            name, dtype=field.dtype, shape=shape, low=field.low, high=high, monotone=field.rising, finite=field.finite
        )
        for length, n in zip(field.shape, array.shape, strict=True):
            if isinstance(length, str) and not length.endswith("+1"):
                self.lengths.setdefault(length, n)
        return array

    def _matrix(self, name: str, field: Matrix) -> sparse.csr_matrix:
        rows, columns = self._known(field.rows), self._known(field.columns)
        assert columns is not None
        lengths = (None if rows is None else rows + 1,)
        start = self.stored.array(f"{name}.indptr", dtype="i", shape=lengths, low=0, monotone=True)
        if not len(start) or start[0] != 0:
            raise self.stored.damaged(f"array '{name}.indptr' does not start at 0")
        n = int(start[-1])
        place = self.stored.array(f"{name}.indices", dtype="i", shape=(n,), low=0, high=max(columns, 1))
        data = self.stored.array(f"{name}.data", dtype="f4", shape=(n,))
        if isinstance(field.rows, str):
            self.lengths.setdefault(field.rows, len(start) - 1)
        out = sparse.csr_matrix((len(start) - 1, columns), dtype=np.float32)  # not from arrays, which would be copied
        out.data, out.indices, out.indptr = data, place, start
        return out

    def _check(self, name: str, made: Any) -> None:
        """What no field says alone."""
        if isinstance(made, FeatureTable):
            start, block, _ = made.arrays
            if start[0] != 0 or start[-1] != len(block) or made.blocks != self.lengths["table"]:
                raise self.stored.damaged(f"the entries of {name!r} are not what their starts say")
            rising = np.empty(len(block) + 1, bool)
            np.greater(block[1:], block[:-1], out=rising[1:-1])
            rising[start] = True  # the first of a feature may be any
            if not rising.all():
                raise self.stored.damaged(f"the blocks of a feature in {name!r} are not in order")
        if isinstance(made, Forest):
            inner, here = made.column >= 0, np.arange(len(made.column))
            most = np.where(inner, len(here) - 1, len(made.row))
            down = (made.left > here) & (made.right > here)
            if (made.left > most).any() or (made.right > most).any() or not down[inner].all():
                raise self.stored.damaged(f"the splits of {name!r} are no trees")


def parts_of(kind: type) -> tuple[str, ...]:
    """The names of the fields of a part, as it declares them."""
    return tuple(f.name for f in dataclass_fields(kind)) if is_dataclass(kind) else tuple(kind._fields)  # type: ignore[attr-defined]
