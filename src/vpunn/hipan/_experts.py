"""The experts of a model: words (`_balls`, `_weights`), and one for every dense block.

Each proposes nodes and brings named evidence. A new kind of data is a new expert: something that is fitted on items, looks at
rows (``look``), proposes nodes for them and gives evidence about any candidates. The combiner sees only the named columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from vpunn._rows import slices
from vpunn.hipan._arrays import Sparse
from vpunn.hipan._balls import FEW_CLASSES, Balls
from vpunn.hipan._combiner import evidence_names, ranked_names
from vpunn.hipan._dense import Dense, Look
from vpunn.hipan._linear import Linear, LinearLook
from vpunn.hipan._measure import Measure, MeasureLook, numbers_of
from vpunn.hipan._nearest import Nearest, NearestLook
from vpunn.hipan._views import Rows, Sample
from vpunn.hipan._weights import Heads, gather, propose
from vpunn.tree import Tree

#: Rows examined at once; the answer for a row does not depend on it.
BATCH = 1024
#: Numbers held at once for the products of a batch with all items and balls.
ROOM = 16_000_000


AnyLook = Look | LinearLook | NearestLook | MeasureLook


class Decided(NamedTuple):
    """What the first rows held out decide for all experts of a model: those that judge and those that answer must be alike."""

    proposes: set[str]  #: dense blocks that propose
    penalty: dict[str, float | None]  #: of their trained heads
    cost: float  #: of the linear heads
    by_likelihood: bool  #: whether nodes are also proposed by likelihood
    measure: np.ndarray | None = None  #: weights of the learned measure, where there is one
    measure_proposes: bool = False


class Seen(NamedTuple):
    """What the experts say about some rows: candidates (−1 padded), evidence about each and "none", scores of the depth-1 balls."""

    candidates: np.ndarray
    evidence: np.ndarray
    branch_score: np.ndarray


@dataclass
class Experts:
    """All experts of a model."""

    balls: Balls
    heads: Heads
    linear: Linear
    dense: dict[str, Dense]
    measure: Measure | None = None

    @classmethod
    def fitted(
        cls,
        tree: Tree,
        sample: Sample,
        decided: Decided | None = None,
        in_cells: bool | None = None,
        is_local: bool | None = None,
        placed: Collection[str] = (),
        plain: Collection[str] = (),
    ) -> Experts:
        """Sums and spaces of the rows; the heads of the words are still to be trained. All dense blocks propose, or as decided."""
        balls = Balls(tree, sample.words(), by_likelihood=decided is not None and decided.by_likelihood)
        dense = {}
        for name in sample.rows.dense:
            proposes = decided is None or name in decided.proposes
            penalty = None if decided is None else decided.penalty[name]
            items = sample.numbers(name)
            dense[name] = Dense(
                name,
                tree,
                items,
                proposes=proposes,
                penalty=penalty,
                in_cells=in_cells,
                is_local=is_local,
                is_placed=name in placed,
                is_plain=name in plain,
            )
        experts = cls(balls, Heads.zeros(balls), Linear.none(balls), dense)
        if decided is not None and decided.measure is not None:
            numbers = numbers_of(sample.rows)
            experts.measure = Measure(tree, balls, numbers, decided.measure, decided.measure_proposes)
        return experts

    def parts(self) -> tuple[Balls, Heads, Linear, dict[str, Dense], Measure | None]:
        """What it was made of."""
        return self.balls, self.heads, self.linear, self.dense, self.measure

    def others(self) -> Iterator[Nearest | Linear | Dense | Measure]:
        """Every expert but balls and heads."""
        if self.balls.items.X.shape[1]:
            yield self.balls.nearest
            if len(self.linear.classes):
                yield self.linear
        yield from self.dense.values()
        if self.measure is not None:
            yield self.measure

    def look(self, rows: Rows) -> list[AnyLook]:
        """Some rows as each of the others sees them: in its dense block, in the words, or in all blocks."""
        looks: list[AnyLook] = []
        for expert in self.others():
            if isinstance(expert, Measure):
                looks.append(expert.look(rows))
            elif isinstance(expert, Dense):
                looks.append(expert.look(rows.dense[expert.name]))
            else:
                looks.append(expert.look(rows.words))
        return looks

    def names(self) -> tuple[str, ...]:
        """Names of all evidence columns."""
        return self._measured() + tuple(f"rank by {name}" for name in self._ranked())

    def _measured(self) -> tuple[str, ...]:
        return evidence_names(self.balls.n_kinds) + tuple(name for e in self.others() for name in e.names())

    def _ranked(self) -> tuple[str, ...]:
        words = ranked_names(self.balls.n_kinds) if self.balls.items.X.shape[1] else ()
        return words + tuple(name for e in self.others() for name in e.ranked())

    def batches(self, rows: int) -> list[slice]:
        """Slices of rows that fit in memory, at least one."""
        wide = sum(len(d.memory) for d in self.dense.values() if d.crowded)
        step = min(BATCH, max(ROOM // max(wide, 1), 1))
        return list(slices(rows, step)) or [slice(0, 0)]

    def proposals(self, rows: Rows, read: Sparse, looks: Sequence[AnyLook], limit: int) -> np.ndarray:
        """Candidates (−1 padded) by the words (``read``: through the dictionary), and by what other experts see; ``limit`` by each
        way of proposing."""
        from vpunn.hipan.kernels.propose import merged

        balls = self.balls
        if len(balls.classes) <= FEW_CLASSES:
            return np.tile(balls.classes, (len(rows), 1))
        candidates = np.zeros((len(rows), 0), np.int32)
        if rows.words.shape[1]:
            candidates = propose(balls, self.heads, Sparse.of(rows.words), read, limit)
        for look in looks:
            for more in look.propose(limit):
                candidates = merged(candidates, more, limit)
        return candidates

    def read(self, rows: Rows) -> Sparse:
        """The words of some rows, read through the dictionary."""
        words = Sparse.of(rows.words)
        return self.balls.dictionary.read(words) if rows.words.shape[1] else words

    def examine(self, rows: Rows, limit: int) -> Seen:
        """Candidates of every row and the evidence about them: ``limit`` by each way of proposing; all where there are few."""
        from vpunn.hipan.kernels.ranks import add_log_ranks

        read = self.read(rows)
        looks = self.look(rows)
        candidates = self.proposals(rows, read, looks, limit)
        candidates[~rows.known()] = -1
        candidates = np.ascontiguousarray(candidates[:, : max(int((candidates >= 0).sum(1).max(initial=0)), 1)])
        evidence = np.zeros((len(rows), candidates.shape[1] + 1, len(self._names)), np.float32)
        branch_score = gather(self.balls, self.heads, Sparse.of(rows.words), read, candidates, evidence)
        at = len(evidence_names(self.balls.n_kinds))
        for look in looks:
            said = look.evidence(candidates)
            evidence[:, :, at : at + said.shape[2]] = said
            at += said.shape[2]
        add_log_ranks(evidence, candidates, self._ranked_columns)
        return Seen(candidates, evidence, branch_score)

    def without_measure(self) -> Experts:
        """The same without the learned measure."""
        return Experts(self.balls, self.heads, self.linear, self.dense)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return self.names()

    @cached_property
    def _ranked_columns(self) -> np.ndarray:
        place = {name: k for k, name in enumerate(self._measured())}
        return np.array([place[name] for name in self._ranked()], np.int64)
