"""Evidence: what experts say of slots, by name, and how it is put before the combiner.

An expert is one file and one line in `experts.WORDS` or `experts.NUMBERS`:

    Expert.columns                   the names of what it says
    Expert.fit(sample, earlier)      -> expert; it may use those that stand before it, by name
    expert.look(rows)                -> Look(propose, values): two questions that share the reading of the rows
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from vpunn.hipan._kernel import at, helper, kernel
from vpunn.hipan.slots import Asked
from vpunn.hipan.tree_arrays import Grown, Occupied

#: What evidence is cut at, so that it fits into 32 bits.
HUGE = 1e30


class Column(NamedTuple):
    """One kind of evidence. ``kinds``: of slots that it tells about, "both" or "known". ``decides``: it could answer alone, so it
    is told below the best and as a rank, too, and the best known slot's is told to `elsewhere`. ``usual``: its weight where no row
    can be held out; what is a log-odds as it stands has one."""

    name: str
    kinds: str = "both"
    decides: bool = False
    usual: float = 0.0


class Sample(NamedTuple):
    """Training rows of one block of columns (CSR words or an array of numbers), and what is known of each."""

    rows: Any
    leaf: np.ndarray  # (rows,) its class, a leaf of the tree
    weight: np.ndarray  # (rows,)
    rivals: np.ndarray  # (rows, k) leaves that it is like, its own perhaps among them; -1: none
    tree: Occupied
    grown: Grown
    described: tuple[Any, ...] = ()  # descriptions of the nodes in this block, a matrix (nodes, columns) for each kind


class Slots(NamedTuple):
    """What is offered to some rows: blocks of the grown tree (-1: empty), and the lines at which they are asked about."""

    block: np.ndarray  # (rows, slots)
    asked: Asked
    known: np.ndarray  # (rows, slots) whether it is a place with rows


class Look(NamedTuple):
    """``propose(k)``: arrays (rows, k) of leaves, best first, -1: none; one for each way of the expert's own.
    ``values(slots)``: one array (rows, slots) for each of its columns."""

    propose: Callable[[int], list[np.ndarray]]
    values: Callable[[Slots], list[np.ndarray]]


class Expert(Protocol):
    """What one file brings."""

    @property
    def columns(self) -> Sequence[Column]:
        """The names of what it says."""

    def look(self, rows: Any) -> Look:
        """Read new rows."""


def names(columns: Sequence[Column]) -> list[str]:
    """Of what `assemble` returns, in its order."""
    decide = [c.name for c in columns if c.decides]
    elsewhere = [c.name for c in columns if c.kinds == "both"] + [f"{n} of the best known" for n in decide]
    known = [c.name for c in columns] + [n + how for how in (", below the best", ", rank") for n in decide]
    return known + [f"elsewhere: {n}" for n in elsewhere] + ["elsewhere", "elsewhere below the root"]


def of_known(columns: Sequence[Column]) -> int:
    """So many of `names` are about known places; the others are about `elsewhere`."""
    return len(columns) + 2 * sum(column.decides for column in columns)


def usual(columns: Sequence[Column]) -> np.ndarray:
    """The weight of each where no row could be held out; an `elsewhere` has none."""
    return np.array([c.usual for c in columns] + [0.0] * (len(names(columns)) - len(columns)), np.float32)


def assemble(values: list[np.ndarray], columns: Sequence[Column], slots: Slots) -> np.ndarray:
    """One line for each offered slot, row by row: (offered, len(names)) float32; each kind of slot has columns of its own.

    Below the best: value - its best among known slots. Rank: log(1 + how many known slots say more).
    """
    with np.errstate(over="ignore"):
        raw = np.stack(values).astype(np.float32, copy=False)
    decide = np.flatnonzero([c.decides for c in columns])
    both = np.flatnonzero([c.kinds == "both" for c in columns])
    offered = int((slots.block >= 0).sum())
    out = np.zeros((offered, len(columns) + 3 * len(decide) + len(both) + 2), np.float32)
    wide = slots.block.shape[1]
    logs = np.log1p(np.arange(wide + 1)).astype(np.float32)
    _assemble(raw, slots.block, slots.known, decide, both, logs, np.empty(wide, np.float32), out)
    return out


@kernel
def _assemble(raw, block, known, decide, both, logs, among, out):
    line, c, d, e = 0, len(raw), len(decide), len(both)
    for r in range(len(block)):
        first = line
        for s in range(block.shape[1]):
            if block[r, s] >= 0:
                if known[r, s]:
                    for k in range(c):
                        out[at(line), at(k)] = _cut(raw[at(k), r, s])
                else:
                    for k in range(e):
                        out[at(line), at(c + 2 * d + k)] = _cut(raw[both[at(k)], r, s])
                    out[at(line), out.shape[1] - 2] = 1
                    out[at(line), out.shape[1] - 1] = block[r, s] == 0
                line += 1
        for k in range(d):
            column, top, n, here = raw[decide[k], r], np.float32(0), 0, first
            for s in range(block.shape[1]):
                if block[r, s] >= 0 and known[r, s]:
                    among[at(n)] = _cut(column[at(s)])
                    top = among[at(n)] if n == 0 else max(top, among[at(n)])
                    n += 1
            for s in range(block.shape[1]):
                if block[r, s] >= 0:
                    if known[r, s]:
                        more, own = 0, _cut(column[at(s)])
                        for t in range(n):
                            more += among[at(t)] > own
                        out[at(here), at(c + k)], out[at(here), at(c + d + k)] = own - top, logs[at(more)]
                    else:
                        out[at(here), at(c + 2 * d + e + k)] = top
                    here += 1


@helper
def _cut(x):
    return min(max(x, np.float32(-HUGE)), np.float32(HUGE))
