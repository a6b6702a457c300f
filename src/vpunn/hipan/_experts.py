"""The experts of a model: words (`_balls`, `_weights`), and one for every dense block.

Each proposes nodes and brings named evidence. A new kind of data is a new expert: something that is fitted on items, looks at
rows (``look``), proposes nodes for them and gives evidence about any candidates. The combiner sees only the named columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vpunn.hipan._balls import FEW_CLASSES, Balls
from vpunn.hipan._combiner import evidence_names, ranked_names
from vpunn.hipan._dense import Dense, dense_ranked
from vpunn.hipan._dictionary import read_through
from vpunn.hipan._views import Rows, Sample
from vpunn.hipan._weights import Heads, gather, merged, propose
from vpunn.tree import Tree

#: Rows examined at once; the answer for a row does not depend on it.
BATCH = 1024
#: Numbers held at once for the products of a batch with all items and balls.
ROOM = 16_000_000


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
    dense: dict[str, Dense]

    @classmethod
    def fitted(cls, tree: Tree, sample: Sample) -> Experts:
        """Sums and spaces of the rows; the heads of the words are still to be trained."""
        balls = Balls(tree, sample.words())
        return cls(
            balls, Heads.zeros(balls), {name: Dense(name, tree, sample.numbers(name)) for name in sample.rows.dense}
        )

    def names(self) -> tuple[str, ...]:
        """Names of all evidence columns."""
        return self._measured() + tuple(f"rank by {name}" for name in self._ranked())

    def _measured(self) -> tuple[str, ...]:
        return evidence_names(self.balls.n_kinds) + tuple(
            name for dense in self.dense.values() for name in dense.names()
        )

    def _ranked(self) -> tuple[str, ...]:
        words = ranked_names(self.balls.n_kinds) if self.balls.items.X.shape[1] else ()
        return words + tuple(name for d in self.dense.values() for name in dense_ranked(d.name, d.n_kinds))

    def batches(self, rows: int) -> Iterator[slice]:
        """Slices of rows that fit in memory."""
        wide = sum(d.memory.shape[1] + d.centroid.shape[1] + 2 * len(d.classes) for d in self.dense.values())
        step = min(BATCH, max(ROOM // max(wide, 1), 1))
        for start in range(0, max(rows, 1), step):
            yield slice(start, min(start + step, rows))

    def examine(self, rows: Rows, limit: int) -> Seen:
        """Candidates of every row and the evidence about them: ``limit`` by each way of proposing; all where there are few."""
        from vpunn.hipan.kernels.ranks import log_ranks

        balls, heads = self.balls, self.heads
        read = read_through(balls.dictionary, rows.words)
        looks = [block.look(rows.dense[name]) for name, block in self.dense.items()]
        if len(balls.classes) <= FEW_CLASSES:
            candidates = np.tile(balls.classes, (len(rows), 1))
        else:
            candidates = propose(balls, heads, rows.words, read, limit)
            for look in looks:
                for more in look.propose(limit):
                    candidates = merged(candidates, more)
        candidates[~rows.known()] = -1
        candidates = np.ascontiguousarray(candidates[:, : max(int((candidates >= 0).sum(1).max(initial=0)), 1)])
        evidence, branch_score = gather(balls, heads, rows.words, read, candidates)
        evidence = np.concatenate([evidence, *(look.evidence(candidates) for look in looks)], 2) if looks else evidence
        place = {name: k for k, name in enumerate(self._measured())}
        columns = np.array([place[name] for name in self._ranked()], np.int64)
        return Seen(candidates, np.concatenate([evidence, log_ranks(evidence, candidates, columns)], 2), branch_score)
