"""All experts of all blocks of columns, fitted on the same rows: what `fit` and the answers share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from vpunn.hipan.descriptions import Descriptions
from vpunn.hipan.dictionary import Dictionary
from vpunn.hipan.evidence import Column, Expert, Sample, Slots, assemble
from vpunn.hipan.gaussian import Gaussian
from vpunn.hipan.heads import Heads
from vpunn.hipan.linear_numbers import LinearNumbers
from vpunn.hipan.nearest import Nearest
from vpunn.hipan.nearest_numbers import NearestNumbers
from vpunn.hipan.own_classifier import OwnClassifier
from vpunn.hipan.prior import Prior
from vpunn.hipan.slots import Asked, offer
from vpunn.hipan.sums import Sums
from vpunn.hipan.tree_arrays import Grown, Occupied

#: Experts of a sparse block, in the order in which they may use each other.
WORDS: tuple[Any, ...] = (Sums, Nearest, Heads, Dictionary, Descriptions)
#: Experts of a dense block.
NUMBERS: tuple[Any, ...] = (Gaussian, NearestNumbers, LinearNumbers)
#: Those that hold rows, or ask one that does.
HOLD_ROWS: tuple[Any, ...] = (Nearest, Dictionary, Descriptions, NearestNumbers)
#: What an expert asks of others.
NEEDS: dict[Any, tuple[Any, ...]] = {
    Dictionary: (Sums, Nearest),
    Descriptions: (Sums, Nearest, Dictionary),
    NearestNumbers: (Gaussian,),
    LinearNumbers: (Gaussian,),
    OwnClassifier: (Gaussian,),
}
#: Proposals of a way.
LIMIT = 12
#: Rows that are examined at a time; answers do not depend on it.
BATCH = 1024


class Rows(NamedTuple):
    """Rows as the experts read them: one matrix for each block of columns."""

    blocks: tuple[Any, ...]

    def __len__(self) -> int:
        return int(self.blocks[0].shape[0])

    def take(self, rows: Any) -> Rows:
        """Some of them."""
        return Rows(tuple(block[rows] for block in self.blocks))


class Seen(NamedTuple):
    """Slots of some rows (rows, width; -1: empty), which of them are known places, and a line of evidence for each offered one."""

    slots: np.ndarray
    known: np.ndarray
    evidence: np.ndarray

    @property
    def start(self) -> np.ndarray:
        """The lines of each row: (rows + 1,)."""
        return np.concatenate([[0], np.cumsum((self.slots >= 0).sum(1))])


def experts_of(dense: bool, chosen: tuple[Any, ...] | None) -> list[Any]:
    """Those of a block that are named (None: all)."""
    return [k for k in (NUMBERS if dense else WORDS) if chosen is None or k.__name__ in chosen]


def sums_alone(chosen: tuple[Any, ...] | None) -> tuple[str, ...]:
    """The names among them of those that hold no rows."""
    return tuple(
        k.__name__ for k in (*WORDS, *NUMBERS) if k not in HOLD_ROWS and (chosen is None or k.__name__ in chosen)
    )


def own_of(chosen: tuple[Any, ...] | None) -> list[Any]:
    """The classifiers among what is chosen."""
    return [one for one in chosen or () if not isinstance(one, str)]


class Experts:
    """Fitted experts; ``room`` is how many places of every block may be the answer."""

    def __init__(self, experts: list[tuple[int, Expert]], tree: Occupied, grown: Grown, room: np.ndarray):
        self.experts, self.tree, self.grown, self.room = experts, tree, grown, room
        self.columns: list[Column] = [c for _, e in experts for c in e.columns]

    @classmethod
    def fit(
        cls,
        rows: Rows,
        place: np.ndarray,
        weight: np.ndarray,
        rivals: np.ndarray,
        grown: Grown,
        room: np.ndarray,
        described: tuple[tuple[Any, ...], ...] = (),
        chosen: tuple[Any, ...] | None = None,
    ) -> Experts:
        """From rows at places of the grown tree; ``rivals`` are places too (-1: none). ``chosen``: see `experts_of`."""
        has_rows = np.bincount(place, minlength=grown.blocks) > 0
        tree = Occupied.of(grown, has_rows)
        leaf_of = np.full(grown.blocks + 1, -1, np.int32)
        leaf_of[tree.place] = np.arange(len(tree.place))
        leaf, rival = leaf_of[place], leaf_of[rivals]
        first = Sample(rows.blocks[0], leaf, weight, rival, tree, grown)
        experts: list[tuple[int, Expert]] = [(0, Prior.fit(first, {}))]
        for i, block in enumerate(rows.blocks):
            earlier: dict[str, Any] = {}
            sample = first._replace(rows=block, described=described[i] if described else ())
            dense = not sp.issparse(block)
            speak = experts_of(dense, chosen)
            needed = {k for one in [*speak, *([OwnClassifier] if own_of(chosen) else [])] for k in NEEDS.get(one, ())}
            for kind in NUMBERS if dense else WORDS:
                if kind in speak or kind in needed:
                    earlier[kind.__name__] = kind.fit(sample, earlier)
            experts += [(i, earlier[kind.__name__]) for kind in speak]
            experts += [(i, OwnClassifier.fit(sample, earlier, own)) for own in own_of(chosen) if dense]
        return cls(experts, tree, grown, room)

    def examine(self, rows: Rows) -> Seen:
        """The slots of some rows, and the evidence about them."""
        looks = [expert.look(rows.blocks[i]) for i, expert in self.experts]
        block = offer([way for look in looks for way in look.propose(LIMIT)], self.grown, self.tree, self.room)
        known = (block >= 0) & (self.grown.size[block] == 1)
        slots = Slots(block, Asked.of(block, self.grown, self.tree), known)
        values = [value for look in looks for value in look.values(slots)]
        return Seen(block, known, assemble(values, self.columns, slots))

    def examine_all(self, rows: Rows) -> Iterator[Seen]:
        """A batch at a time."""
        for start in range(0, len(rows), BATCH):
            yield self.examine(rows.take(slice(start, start + BATCH)))
