"""How the measure of `_measure` is learned, and whether it pays.

*Weights.* Every item near to a held-out row votes for its class by exp(nearness); the weights make the share of the row's own
class largest (neighbourhood components analysis, Goldberger et al. 2004, with a diagonal metric). Items are those nearest by the
weights to begin with, then by the weights found. A ridge on the logarithms, and a few votes for any class, keep single rows from
deciding.

*Whether it pays.* The combiner without hidden units is fitted with this evidence and without, each half of the held-out rows
judging the other. Unless the loss falls surely and by something, the model does without: what has nothing to add costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from vpunn.hipan._balls import Balls
from vpunn.hipan._combiner import losses_with_and_without
from vpunn.hipan._measure import MOST, Measure, numbers_of
from vpunn.hipan._slots import Slots
from vpunn.hipan._teaching import HeldOut, slots
from vpunn.hipan._views import Rows, Sample

#: Held-out rows that the weights are learned from at most, the items near to each, and how often those are looked for.
ROWS, ITEMS, TURNS = 500, 128, 2
#: Weights to begin with: of the words, and of all columns together.
OF_WORDS, OF_NUMBERS = 8.0, 2.0
#: Logarithms of the least and the largest weight, the ridge that draws them to the beginning, and steps of a turn.
SMALLEST, LARGEST, RIDGE, STEPS = -7.0, 6.0, 0.1, 30
#: The share of votes that any class could have, and among how many.
ANY, CLASSES = 0.05, 20
#: Fewer held-out rows do not tell whether it pays; by how much the loss must fall, in all and in standard deviations; a row counts
#: for this much at most; and how many rows are asked.
FEW_HELD, WORTH, SURELY, ONE_ROW, ASKED = 200, 0.01, 3.0, 3.0, 2000


def measurable(rows: Rows) -> bool:
    """Whether a table of such rows can be measured: it has narrow blocks, and neither too few nor too many numbers."""
    numbers = numbers_of(rows)
    return len(rows) >= FEW_HELD and 0 < numbers.size <= MOST


def measured(balls: Balls, numbers: npt.NDArray[np.float32], asked: Sample) -> Measure:
    """The measure of some items by rows that are not among them."""
    columns = numbers.shape[1]
    words = OF_WORDS if balls.items.X.shape[1] else np.exp(SMALLEST)  # next to nothing
    weight = np.array([words, *[OF_NUMBERS / max(columns, 1)] * columns], np.float32)
    start = Measure(balls.tree, balls, numbers, weight)
    return start.weighted(fit_weights(start, asked))


def fit_weights(start: Measure, asked: Sample) -> npt.NDArray[np.float32]:
    """Weights of the words and of every column, drawn to those at the ``start``."""
    from scipy.optimize import minimize

    if len(asked.node) > ROWS:
        asked = asked.take(np.linspace(0, len(asked.node) - 1, ROWS).astype(np.int64))
    first = now = np.log(start.weight.astype(np.float64))
    for _ in range(TURNS):
        votes = _votes(start.weighted(np.exp(now)), asked)
        bounds = [(SMALLEST, LARGEST)] * len(now)
        with threadpool_limits(1, user_api="blas"):  # sums in another order are other bytes
            found = minimize(
                votes.loss, now, args=(first,), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS}
            )
        now = found.x
    return np.exp(now).astype(np.float32)


def heard_together(balls: Balls, rows: Rows, kept: npt.NDArray[Any], asked: Sample, silent: Sequence[str]) -> bool:
    """Whether narrow blocks that say nothing by themselves surely add to the votes of the items, those of the ``rows`` that were
    ``kept``: the year says nothing about the team of a player, but about that of this player. Half of the rows ``asked`` learn the
    weights, the others judge."""
    losses = []
    for left_out in ((), silent):
        dense = {name: block for name, block in asked.rows.dense.items() if name not in left_out}
        some = replace(asked, rows=Rows(asked.rows.words, dense))
        measure = measured(balls, numbers_of(rows, left_out)[kept], some.take(np.arange(0, len(asked.node), 2)))
        judging = some.take(np.arange(1, len(asked.node), 2))
        losses.append(_votes(measure, judging).shares(measure.weight)[0])
    return _surely_less(losses[1] - losses[0])


def _votes(measure: Measure, asked: Sample) -> _Votes:
    """The items nearest to some rows."""
    item, _ = measure.closest(asked.rows, ITEMS)
    own = (measure.node[item] == asked.node[:, None]) & (item >= 0)
    return _Votes(_nearness(measure, asked.rows, item), item >= 0, own, asked.weight)


def _nearness(measure: Measure, rows: Rows, item: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
    """What each weight multiplies in the nearness of some items to each row, (rows, items, weights)."""
    words, at = measure.balls.items.X, measure.placed(rows)
    parts = np.zeros((*item.shape, 1 + at.shape[1]), np.float32)
    if words.shape[1]:
        asked = rows.words[np.repeat(np.arange(len(item)), item.shape[1])]
        parts[:, :, 0] = np.asarray(words[item.ravel()].multiply(asked).sum(1)).reshape(item.shape)
    parts[:, :, 1:] = -np.square(np.nan_to_num(at[:, None, :] - measure.numbers[item]))
    return parts


class _Votes:
    """Items near to rows: the parts of their nearness, which are ``there``, which have the row's ``own`` class."""

    def __init__(
        self,
        parts: npt.NDArray[np.float32],
        there: npt.NDArray[np.bool_],
        own: npt.NDArray[np.bool_],
        weight: npt.NDArray[Any],
    ) -> None:
        self.parts, self.there, self.own = parts.reshape(-1, parts.shape[2]), there, own
        self.weight = weight.astype(np.float64) / max(float(weight.mean()) if len(weight) else 1.0, 1e-300)

    def shares(self, weight: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float64], ...]:
        """By some weights: the loss of every row, minus the logarithm of its own class's likely share, the share, and the votes."""
        near = (self.parts @ weight.astype(np.float32)).reshape(self.own.shape).astype(np.float64)
        near[~self.there] = -np.inf
        vote = np.exp(near - near.max(1, keepdims=True, initial=-1e30))
        vote /= np.maximum(vote.sum(1, keepdims=True), 1e-300)
        share = (vote * self.own).sum(1)
        return -np.log((1.0 - ANY) * share + ANY / CLASSES), share, vote

    def loss(
        self, log_weight: npt.NDArray[np.float64], first: npt.NDArray[np.float64]
    ) -> tuple[float, npt.NDArray[np.float64]]:
        """The sum of the losses, with the ridge, and its gradient."""
        weight, away = np.exp(log_weight), log_weight - first
        losses, share, vote = self.shares(weight)
        slope = ((1.0 - ANY) * self.weight * np.exp(losses))[:, None] * vote * (self.own - share[:, None])
        value = float(self.weight @ losses + RIDGE * (away @ away))
        return value, -(slope.ravel().astype(np.float32) @ self.parts) * weight + 2.0 * RIDGE * away


def pays(held: HeldOut, n_classes: int, names: tuple[str, ...], own: npt.NDArray[np.bool_]) -> bool:
    """Whether the columns that are the measure's ``own`` make held-out rows surely likelier. The rows that tell are moved to the
    front, and back: evidence is large, and as it stands nothing of it is copied."""
    n = len(held.node)
    if n < FEW_HELD:
        return False
    asked = np.linspace(0, n - 1, min(n, ASKED)).astype(np.int64)
    first, second = asked[::2], asked[1::2]
    order = np.concatenate([first, second, np.setdiff1d(np.arange(n), asked)])
    held.put_in_order(order)
    halves = []
    for half in (slice(0, len(first)), slice(len(first), len(asked))):
        some = held.take(half)
        valid, truth = slots(some.seen.candidates, some.node, n_classes)
        halves.append(Slots.of(some.seen.evidence, valid, truth, some.weight))
    with threadpool_limits(1, user_api="blas"):
        losses, without = losses_with_and_without(halves, names, own)
    held.put_in_order(np.argsort(order))
    return _surely_less(without - losses)


def _surely_less(gain: npt.NDArray[np.float64]) -> bool:
    """Whether losses fell surely, and by something; ``gain`` is by how much that of each row did."""
    gain = np.clip(gain, -ONE_ROW, ONE_ROW)
    return bool(len(gain) and gain.mean() > max(WORTH, SURELY * gain.std() / np.sqrt(len(gain))))
