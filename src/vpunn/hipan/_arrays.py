"""Groups of arrays that kernels take as one argument, and arrays that are kept from call to call.

Blocks. The classifier keeps one sparse block of numbers per ball. Ball ``c < N`` is the single node ``c`` (digit 0
after its path: "stop here"); ball ``N + u`` is the subtree of an inner node ``u`` other than the root. The chain of a
node is its own block, then the subtree blocks of itself (if inner) and of its ancestors. All blocks live in one matrix
stored by feature: entry ``e`` of feature ``f`` (``start[f] ≤ e < start[f+1]``) belongs to block ``block[e]``, strictly
rising within the feature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from scipy import sparse


Array = npt.NDArray[Any]


class Sparse(NamedTuple):
    """The three arrays of a sparse matrix: by row, or by column."""

    indptr: Array
    indices: Array
    data: Array

    @classmethod
    def of(cls, matrix: sparse.csr_matrix | sparse.csc_matrix) -> Sparse:
        """Those of `scipy.sparse.csr_matrix` or ``csc_matrix``."""
        return cls(matrix.indptr, matrix.indices, matrix.data)

    @classmethod
    def by_far(cls, matrix: sparse.csr_matrix | sparse.csc_matrix) -> Sparse:
        """The same with pointers of 64 bits, whatever the size: kernels that read an index are compiled for one type."""
        return cls(matrix.indptr.astype(np.int64), matrix.indices, matrix.data)

    def entries(self, which: Array) -> Sparse:
        """Some of the entries, those marked in ``which``."""
        before = np.zeros(len(which) + 1, self.indptr.dtype)
        np.cumsum(which, out=before[1:])
        return Sparse(before[self.indptr], self.indices[which], self.data[which])


class Entries(NamedTuple):
    """Which blocks hold a number at a feature.

    Features that occur in many blocks (``row[f] ≥ 0``) also have a row in ``table``, so that a lookup is one read: for 32 blocks
    each a bit per block that has an entry, and how many of the feature's entries come before these.
    """

    start: Array
    block: Array
    row: Array
    table: Array


class Ancestry(NamedTuple):
    """The tree as far as chains of blocks need it."""

    parent: Array
    inner: Array


class Places(NamedTuple):
    """What evidence says about where a node stands."""

    depth: Array
    n_children: Array
    branch_of: Array


class Alone(NamedTuple):
    """What the likelihood by a node's own rows takes: how much every node is expected to have met before any row, shared out as
    in the root; and for every node the logarithm of how much more it is with its rows."""

    expected: np.float32
    growth: Array


class Numbers(NamedTuple):
    """Numbers of entries (sum, head weight), of blocks (bias, squared length, shrinking) and of features (background)."""

    entry_sum: Array
    weight: Array
    bias: Array
    norm2: Array
    seen: Array
    news: Array
    counts: Array
    background: Array
    alone: Alone
    use_likelihood: bool


class Memory(NamedTuple):
    """The memory: from where to where the items of a node stand, the kind and weight of each, and their words."""

    span: Array
    kind: Array
    weight: Array
    words: Sparse
    longest: int


class Listed(NamedTuple):
    """The blocks around a row's candidates: where each block stands in the list (−1: nowhere), the list, and room to walk up."""

    place: Array
    blocks: Array
    stack: Array


class Hits(NamedTuple):
    """Stored entries at (listed block, feature of the row): the entry, the block's place in the list, the feature's in the row."""

    entry: Array
    block: Array
    position: Array


class Answer(NamedTuple):
    """Candidates (rows, k), −1 padded, and their probabilities."""

    candidates: Array
    probability: Array


class Shares(NamedTuple):
    """The prior of every node and of its ball, and the number of its branch."""

    prior: Array
    ball: Array
    branch: Array


class Outline(NamedTuple):
    """The tree as far as rings and balls need it."""

    parent: Array
    depth: Array
    size: Array


class Lift(NamedTuple):
    """Products are multiplied by the column's ``scale`` and the row's ``length`` and lifted by the column's ``bias``."""

    length: Array
    scale: Array
    bias: Array


class Asked(NamedTuple):
    """Which rows look into which cells: ``row[begin[c] : end[c]]`` look into cell c."""

    row: Array
    begin: Array
    end: Array


def filled(shape: int | tuple[int, ...], value: float, dtype: npt.DTypeLike) -> Array:
    """`numpy.full` in a third of its time, which counts when one row is asked."""
    out = np.empty(shape, dtype)
    out.fill(value)
    return out


def own(thing: Any) -> Any:
    """The thing with arrays of its own where they are read-only, as in processes that joblib hands a model to: loops are compiled
    for arrays that can be written to. Objects of this package are changed in place."""
    if isinstance(thing, np.ndarray):
        return thing if thing.flags.writeable else np.array(thing)
    if isinstance(thing, list | tuple):
        parts = [own(part) for part in thing]
        return type(thing)(*parts) if hasattr(thing, "_fields") else type(thing)(parts)
    if isinstance(thing, dict):
        return {name: own(part) for name, part in thing.items()}
    if type(thing).__module__.startswith(("vpunn.hipan.", "scipy.sparse.")) and hasattr(thing, "__dict__"):
        for name, part in vars(thing).items():
            object.__setattr__(thing, name, own(part))  # some are frozen for everybody else
    return thing


class Room:
    """Arrays that a caller wants again and again, made once; whoever uses one leaves it as it was."""

    def __init__(self) -> None:
        self._kept: dict[str, Array] = {}

    def full(self, name: str, shape: int | tuple[int, ...], dtype: npt.DTypeLike, value: float = 0) -> Array:
        """An array of that shape, all ``value``."""
        kept = self._kept.get(name)
        wanted = shape if isinstance(shape, tuple) else (shape,)
        if kept is None or kept.shape != wanted:
            kept = self._kept[name] = filled(wanted, value, dtype)
        return kept

    def empty(self, name: str, least: int, dtype: npt.DTypeLike) -> Array:
        """At least so many numbers of any value."""
        kept = self._kept.get(name)
        if kept is None or len(kept) < least:
            kept = self._kept[name] = np.empty(least, dtype)
        return kept


class _Taken:
    def __init__(self, free: list[Room]) -> None:
        self._free = free

    def __enter__(self) -> Room:
        try:
            self._room = self._free.pop()  # safe between threads
        except IndexError:
            self._room = Room()
        return self._room

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._free.append(self._room)


class Rooms:
    """One `Room` for every thread that is at work, kept for the next one."""

    def __init__(self) -> None:
        self._free: list[Room] = []

    def one(self) -> _Taken:
        """A room of one's own inside ``with``; it is given up, not returned, if what happened there failed."""
        return _Taken(self._free)

    def __reduce__(self) -> tuple[Any, ...]:
        return Rooms, ()
