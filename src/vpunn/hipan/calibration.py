"""Calibration: what the model would have said of held-out rows had its combiner not learned from them.

The combiner of each half of the held-out rows judges the other half; equal rows are in the same half.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vpunn.hipan import conformal
from vpunn.hipan.combiner import Combiner
from vpunn.hipan.engine import Model
from vpunn.hipan.held_out import HeldOut

#: Fewer held-out rows than this are not worth a combiner of their own.
WORTH_A_COMBINER = 50
#: So many rows judged are enough to know how often the model errs: the other half is not judged, too.
ENOUGH = 1500


def measured(
    model: Model, held: HeldOut | None, group: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """The conformal scores of held-out rows and the share that is answered exactly, each by a combiner that has not seen it;
    ``group`` of every training row. None and 0 where no row could be held out."""
    if held is None:
        return np.zeros(0), 0.0
    half = rng.integers(0, 2, int(group.max()) + 1)[group[held.row]].astype(bool)
    few = min(half.sum(), (~half).sum()) < WORTH_A_COMBINER
    judged, scores, right = np.zeros(len(half), bool), np.zeros(len(half)), np.zeros(len(half))
    for part in (half, ~half):
        if part.any() and judged.sum() < ENOUGH:
            combiner = model.combiner if few else _combiner_of(model, held, ~part, rng)
            _judge(model, combiner, held, part, (scores, right))
            judged |= part
    weight = held.weight[judged] * (1 if model.ratio is None else model.ratio[held.place[judged]])
    if not weight.any():  # no question belongs where rows were held out
        return np.zeros(0), 0.0
    return conformal.of_equal_weight(scores[judged], weight), float(np.average(right[judged], weights=weight))


def _judge(
    model: Model, combiner: Combiner, held: HeldOut, part: np.ndarray, told: tuple[np.ndarray, np.ndarray]
) -> None:
    """The scores of rows of a part, and whether they are answered exactly."""
    scale = {"mean": np.zeros_like(held.mean), "spread": np.ones_like(held.spread)}  # what is held out is standardised
    model = replace(model, combiner=combiner._replace(**scale))
    node = held.grown.node[held.place].astype(np.int64)
    for rows, seen in held.batches():
        posterior = model.posterior_of([model.judged(seen)])
        mine = part[rows]
        told[0][rows][mine] = conformal.miss_scores(posterior, node[rows])[mine]
        told[1][rows][mine] = (posterior.best() == node[rows])[mine]


def _combiner_of(model: Model, held: HeldOut, rows: np.ndarray, rng: np.random.Generator) -> Combiner:
    hidden = len(model.combiner.bias)
    return Combiner.fit(held.taught(rows), (held.mean, held.spread), model.experts.columns, rng, hidden)
