"""Calibration: what the model would have said of held-out rows had its combiner not learned from them.

The combiner of each half of the held-out rows judges the other half; equal rows are in the same half.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from vpunn.placing import conformal
from vpunn.placing.combiner import Combiner
from vpunn.placing.engine import Model, posterior_of
from vpunn.placing.experts import Seen
from vpunn.placing.held_out import HeldOut

#: Fewer held-out rows than this are not worth a combiner of their own.
WORTH_A_COMBINER = 50


def measured(model: Model, held: HeldOut, group: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """The conformal scores of held-out rows and the share that is answered exactly, each by a combiner that has not seen it;
    ``group`` of every training row."""
    half = rng.integers(0, 2, int(group.max()) + 1)[group[held.row]].astype(bool)
    scores, right, node = np.zeros(len(half)), np.zeros(len(half)), held.grown.node[held.place].astype(np.int64)
    few = min(half.sum(), (~half).sum()) < WORTH_A_COMBINER
    for part in (half, ~half):
        if part.any():
            combiner = model.combiner if few else _combiner_of(model, taken(held, ~part), rng)
            posterior = posterior_of(model.tree, model.spread, combiner, taken(held, part).seen)
            scores[part] = conformal.miss_scores(posterior, node[part])
            right[part] = posterior.best() == node[part]
    return conformal.of_equal_weight(scores, held.weight), float(np.average(right, weights=held.weight))


def _combiner_of(model: Model, held: HeldOut, rng: np.random.Generator) -> Combiner:
    decides = [i for i, column in enumerate(model.experts.columns) if column.decides]
    return Combiner.fit(held.evidence(), decides, rng, len(model.combiner.bias))


def taken(held: HeldOut, rows: np.ndarray) -> HeldOut:
    """Some of the rows held out."""
    some = copy(held)
    some.row, some.place, some.weight = held.row[rows], held.place[rows], held.weight[rows]
    parts = np.split(rows, np.cumsum([len(s.slots) for s in held.seen])[:-1])
    some.seen = [
        Seen(s.slots[mine], s.known[mine], s.evidence[np.repeat(mine, (s.slots >= 0).sum(1))])
        for s, mine in zip(held.seen, parts, strict=True)
    ]
    return some
