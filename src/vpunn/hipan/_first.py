"""A first opinion: where classes are few, most rows are settled by one expert, and nobody else is asked about them.

The expert is the linear heads of the words, or the trained head of a dense block. Held-out rows tell how far the second best class
must lie below the best one so that the combiner, hearing all experts, would give the same answer in all but one case of a hundred,
and probabilities hardly better.
The probabilities of rows that are so sure are fitted on such held-out rows alone: a softmax of two numbers a class, how far it lies
below the best, and the same cut at one, and of "none".
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vpunn.hipan._combiner import Slots, fit_linear
from vpunn.hipan._experts import Experts
from vpunn.hipan._linear import EVIDENCE as LINEAR
from vpunn.hipan._views import Rows, says
from vpunn.hipan.posterior import Posterior

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Nodes = npt.NDArray[np.int32]

#: How often the combiner may answer otherwise, with one case of doubt; how much the mean loss of all rows may grow; the share of
#: rows that makes it worth asking first; and how many shares between that and all of them are tried.
OTHERWISE, WORSE, WORTHWHILE, STEPS = 0.01, 0.005, 0.1, 31
#: Evidence columns that tell how far a class lies below the best: of the words, and of a dense block (behind its name).
OF_WORDS, OF_DENSE = LINEAR[0], "trained head below the best"
#: No class is farther below than this.
LOWEST = -60.0


class FirstOpinion(NamedTuple):
    """Which ``block`` speaks (None: the words), how far the runner-up must be below, and weights of the two numbers and "none"."""

    block: str | None
    sure: float
    weight: Floats

    def speaks(self, experts: Experts) -> bool:
        """Whether the expert knows all classes of the model, which may have grown since."""
        return self.block in first_speakers(experts)

    def hear(self, experts: Experts, rows: Rows) -> Floats:
        """How far below the best every class of ``experts.balls.classes`` lies, (rows, classes)."""
        if self.block is None:
            score = experts.linear.scores(rows.words)
        else:
            score = experts.dense[self.block].trained(rows.dense[self.block])
        below = score.astype(np.float64)
        below -= below.max(1, keepdims=True)
        return np.maximum(below, LOWEST)

    def heard(self, experts: Experts, evidence: npt.NDArray[np.float32]) -> Floats:
        """The same from the evidence about rows of which all classes are candidates."""
        return np.asarray(evidence[:, :-1, _column(experts, self.block)], np.float64)

    def settled(self, below: Floats) -> Bools:
        """Which rows are sure enough."""
        return np.asarray(_lead(below) >= self.sure)

    def known(self, rows: Rows) -> Bools:
        """Which rows say anything to this expert."""
        if self.block is None:
            return np.asarray(rows.words.indptr[1:] > rows.words.indptr[:-1])
        return says(rows.dense[self.block])

    def probabilities(self, below: Floats, none: bool) -> Floats:
        """Of every class and, last, of "none" (0 unless it is possible), each row by itself."""
        score = np.full((len(below), below.shape[1] + 1), self.weight[2] if none else -np.inf)
        score[:, :-1] = self.weight[0] * below + self.weight[1] * np.maximum(below, -1.0)
        p = np.exp(score - score.max(1, keepdims=True))
        return np.asarray(p / np.cumsum(p, axis=1)[:, -1:])


def settle(posterior: Posterior, first: FirstOpinion, below: Floats, known: Bools, classes: Nodes) -> None:
    """Write what the first opinion says of the ``known`` rows that it settles; all classes are candidates of every such row."""
    rows = np.flatnonzero(known & first.settled(below))
    p = first.probabilities(below[rows], bool((posterior.prior > 0).sum() > len(classes)))
    posterior.candidates[rows] = classes
    posterior.probability[rows], posterior.rest[rows], posterior.tilt[rows] = p[:, :-1], p[:, -1], 1.0
    posterior.settled = np.zeros(len(posterior), bool)
    posterior.settled[rows] = True


def among_settled(posterior: Posterior, places: npt.NDArray[np.int64], rows: int, classes: Nodes) -> Posterior:
    """The rows of a distribution in their places among ``rows`` rows of which the others are to be settled."""
    candidates, probability = np.tile(classes, (rows, 1)), np.zeros((rows, len(classes)))
    rest, unknown, tilt = np.zeros(rows), np.zeros(rows, bool), np.ones((rows, posterior.tilt.shape[1]))
    wide = posterior.candidates.shape[1]  # one, if nothing is known of any of them
    candidates[places, :wide], candidates[places, wide:] = posterior.candidates, -1
    probability[places, :wide], rest[places], tilt[places] = posterior.probability, posterior.rest, posterior.tilt
    unknown[places] = posterior.unknown
    return replace(posterior, candidates=candidates, probability=probability, rest=rest, tilt=tilt, unknown=unknown)


def first_speakers(experts: Experts) -> list[str | None]:
    """Experts that could settle rows: those with a trained head of every class."""
    classes = experts.balls.classes
    words: list[str | None] = [None] if len(classes) and np.array_equal(experts.linear.classes, classes) else []
    dense = (name for name, block in experts.dense.items() if block.has_trained_head)
    return words + [name for name in dense if np.array_equal(experts.dense[name].classes, classes)]


def choose_first(
    experts: Experts, evidence: npt.NDArray[np.float32], score: Floats, valid: Bools, truth: npt.NDArray[np.int64]
) -> FirstOpinion | None:
    """The expert that settles most held-out rows, or None: ``evidence`` of all experts, and the combiner's ``score``, about the
    ``valid`` slots of rows that this combiner has not learned from; ``truth`` is the right slot of each row."""
    found, most = None, 0
    whole = np.flatnonzero(valid[:, :-1].all(1))
    score, valid, truth = np.where(valid, score, -np.inf)[whole].astype(np.float64), valid[whole], truth[whole]
    for block in first_speakers(experts):
        below = evidence[whole, :-1, _column(experts, block)].astype(np.float64)
        order = np.argsort(-_lead(below), kind="stable")
        other = np.cumsum((below.argmax(1) != score.argmax(1))[order])
        for count in np.unique(np.linspace(len(order), WORTHWHILE * len(order), STEPS).astype(int))[::-1]:
            rows = order[:count]
            if count <= most or other[count - 1] + 1 > OTHERWISE * (count + 1):
                continue
            first = FirstOpinion(
                block, float(_lead(below[rows]).min()), _weights(below[rows], valid[rows], truth[rows])
            )
            p = first.probabilities(below[rows], bool(valid[:, -1].any()))
            if _loss(np.log(np.maximum(p, 1e-12)), truth[rows]) - _loss(score[rows], truth[rows]) <= WORSE * len(order):
                found, most = first, count
                break
    return found


def _loss(score: Floats, truth: npt.NDArray[np.int64]) -> float:
    """Summed cross-entropy of the right slots."""
    below = score - score.max(1, keepdims=True)
    return float((np.log(np.exp(below).sum(1)) - below[np.arange(len(truth)), truth]).sum())


def _column(experts: Experts, block: str | None) -> int:
    return experts.names().index(OF_WORDS if block is None else f"{block}: {OF_DENSE}")


def _lead(below: Floats) -> Floats:
    """How far the second best class lies below the best."""
    return np.asarray(-np.partition(below, -2, axis=1)[:, -2])


def _weights(below: Floats, valid: Bools, truth: npt.NDArray[np.int64]) -> Floats:
    z = np.zeros((*valid.shape, 3), np.float32)
    z[:, :-1, 0], z[:, :-1, 1], z[:, -1, 2] = below, np.maximum(below, -1.0), 1.0
    one = np.ones(len(z), np.float32)
    start = np.array([1.0, 1.0, -5.0], np.float32)
    return fit_linear(Slots.of(z[valid], valid, truth, one), start, 1.0 / len(z))[0].astype(np.float64)
