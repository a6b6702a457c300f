"""A first opinion: rows that one expert settles, so that nobody else is asked about them.

Where classes are few the expert is the linear heads of the words, or the trained head of a dense block. Where they are many it is
memory, the nearest items, if most rows are near copies of what was learned; it is asked about rows that lie as near to one of
them as such held-out rows do. Held-out rows tell how far the second best class
must lie below the best one so that the combiner, hearing all experts, would give the same answer in all but one case of a hundred,
and probabilities hardly better. The probabilities of rows that are so sure are fitted on such held-out rows alone: a softmax of
two numbers a class, how far it lies below the best, and the same cut at one, and of "none".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vpunn.hipan._balls import FEW_CLASSES
from vpunn.hipan._combiner import in_rows
from vpunn.hipan._experts import Experts, Seen
from vpunn.hipan._linear import EVIDENCE as LINEAR
from vpunn.hipan._nearest import EVIDENCE as VOTES
from vpunn.hipan._slots import Slots, fit_linear
from vpunn.hipan._views import Rows, says
from vpunn.hipan.posterior import Posterior
from vpunn.placing.conformal import of_equal_weight

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Nodes = npt.NDArray[np.int32]

#: How often the combiner may answer otherwise, with one case of doubt; how much the mean loss of all rows may grow; the share of
#: rows that makes it worth asking first, and of memory, whose rows are looked for twice if they are not settled; and how many
#: shares between that and all of them are tried.
OTHERWISE, WORSE, WORTHWHILE, OF_COPIES, SHARES_TRIED = 0.01, 0.005, 0.1, 0.5, 31
#: Evidence columns that tell how far a class lies below the best: of the words, of a dense block (behind its name), and of memory.
OF_WORDS, OF_DENSE, OF_MEMORY = LINEAR[0], "trained head below the best", VOTES[3]
#: How near the nearest item is, of each candidate; and the share of settled held-out rows that may lie farther from theirs.
HOW_NEAR, FARTHER = "similarity of the nearest training item", 0.01
#: No class is farther below than this.
LOWEST = -60.0


class Heard(NamedTuple):
    """Classes that an expert speaks of, (rows, classes), −1 padded, how far below the best each lies, and how near memory's
    nearest item is to each row."""

    candidates: Nodes
    below: Floats
    near: Floats

    @property
    def lead(self) -> Floats:
        """How far the second best class lies below the best."""
        if self.below.shape[1] < 2:
            return np.full(len(self.below), -LOWEST)
        return np.asarray(-np.partition(self.below, -2, axis=1)[:, -2])

    def take(self, rows: npt.NDArray[Any]) -> Heard:
        """Some of the rows."""
        return Heard(self.candidates[rows], self.below[rows], self.near[rows])

    def packed(self) -> Heard:
        """The same, all classes in front."""
        there = self.candidates >= 0
        if (there[:, :-1] >= there[:, 1:]).all():
            return self
        order = np.argsort(~there, axis=1, kind="stable")
        candidates, below = np.take_along_axis(self.candidates, order, 1), np.take_along_axis(self.below, order, 1)
        return Heard(candidates, below, self.near)


class FirstOpinion(NamedTuple):
    """Which ``block`` speaks (None: the words), how far the runner-up must be below, and weights of the two numbers and "none";
    whether it is the ``memory`` of the words that speaks, and how ``near`` its nearest item must be."""

    block: str | None
    sure: float
    weight: Floats
    memory: bool = False
    near: float = 0.0

    @property
    def speaker(self) -> str:
        """Who speaks, in words."""
        if self.block is not None:
            return f"trained head of {self.block!r}"
        return "nearest items" if self.memory else "linear heads of the words"

    def speaks(self, experts: Experts) -> bool:
        """Whether the expert knows all classes of the model, which may have grown since."""
        return (self.block, self.memory) in first_speakers(experts)

    def hear(self, experts: Experts, rows: Rows, limit: int) -> Heard:
        """What the expert says: of every class of ``experts.balls.classes``, or memory of those of the nearest items, at most
        ``limit``."""
        from vpunn.hipan.kernels.propose import merged

        if self.memory:
            look = experts.balls.nearest.look(rows.words)
            candidates = merged(np.zeros((len(rows), 0), np.int32), look.node, limit)
            score = look.evidence(candidates)[:, :-1, VOTES.index(OF_MEMORY)]
            return _heard(candidates, score, look.similarity.max(1, initial=0.0))
        if self.block is None:
            score = experts.linear.scores(rows.words)
        else:
            score = experts.dense[self.block].trained(rows.dense[self.block])
        return _heard(np.tile(experts.balls.classes, (len(rows), 1)), score)

    def heard(self, experts: Experts, seen: Seen) -> Heard:
        """The same from the evidence about rows."""
        name = OF_MEMORY if self.memory else OF_WORDS if self.block is None else f"{self.block}: {OF_DENSE}"
        score = seen.evidence[:, :-1, experts.names().index(name)]
        near = seen.evidence[:, :-1, experts.names().index(HOW_NEAR)].max(1, initial=0.0) if self.memory else None
        return _heard(np.where(_spoken_of(experts, seen, self.memory), seen.candidates, -1), score, near)

    def settled(self, heard: Heard) -> Bools:
        """Which rows are sure enough."""
        return np.asarray((heard.candidates >= 0).any(1) & (heard.lead >= self.sure) & (heard.near >= self.near))

    def known(self, rows: Rows) -> Bools:
        """Which rows say anything to this expert."""
        if self.block is None:
            return np.asarray(rows.words.indptr[1:] > rows.words.indptr[:-1])
        return says(rows.dense[self.block])

    def probabilities(self, heard: Heard, n_classes: int) -> Floats:
        """Of every class and, last, of "none" (0 if all ``n_classes`` are spoken of), each row by itself."""
        below, there = heard.below, heard.candidates >= 0
        score = np.full((len(below), below.shape[1] + 1), self.weight[2])
        score[there.sum(1) >= n_classes, -1] = -np.inf
        score[:, :-1] = np.where(there, self.weight[0] * below + self.weight[1] * np.maximum(below, -1.0), -np.inf)
        p = np.exp(score - score.max(1, keepdims=True))
        return np.asarray(p / np.cumsum(p, axis=1)[:, -1:])


def _heard(candidates: Nodes, score: npt.NDArray[Any], near: npt.NDArray[Any] | None = None) -> Heard:
    """Scores of candidates below the best of the row; the lowest where there is no candidate."""
    below = np.where(candidates >= 0, score, -np.inf).astype(np.float64)
    below -= below.max(1, keepdims=True, initial=-1e30)
    return Heard(
        candidates, np.maximum(below, LOWEST), np.zeros(len(below)) if near is None else near.astype(np.float64)
    )


def settle(posterior: Posterior, first: FirstOpinion, heard: Heard, sure: Bools) -> None:
    """Write what the first opinion says of the rows that it is ``sure`` of."""
    rows, wide = np.flatnonzero(sure), heard.candidates.shape[1]
    some = heard.take(rows).packed()
    p = first.probabilities(some, int((posterior.prior > 0).sum()))
    posterior.candidates[rows, :wide], posterior.candidates[rows, wide:] = some.candidates, -1
    posterior.probability[rows, :wide], posterior.probability[rows, wide:] = p[:, :-1], 0.0
    posterior.rest[rows], posterior.tilt[rows] = p[:, -1], 1.0
    posterior.settled = np.asarray(sure)


def among_settled(posterior: Posterior, places: npt.NDArray[np.int64], rows: int, wide: int) -> Posterior:
    """The rows of a distribution in their places among ``rows`` rows of which the others, with ``wide`` candidates, are to be
    settled."""
    own = posterior.candidates.shape[1]  # one, if nothing is known of any of them
    candidates, probability = np.full((rows, max(own, wide)), -1, np.int32), np.zeros((rows, max(own, wide)))
    rest, unknown, tilt = np.zeros(rows), np.zeros(rows, bool), np.ones((rows, posterior.tilt.shape[1]))
    candidates[places, :own], probability[places, :own] = posterior.candidates, posterior.probability
    rest[places], tilt[places], unknown[places] = posterior.rest, posterior.tilt, posterior.unknown
    return replace(posterior, candidates=candidates, probability=probability, rest=rest, tilt=tilt, unknown=unknown)


def in_their_slots(evidence: npt.NDArray[np.float32], candidates: Nodes, wanted: Nodes) -> npt.NDArray[np.float32]:
    """Evidence about the ``wanted`` candidates, and "none", of that about ``candidates``, in which all of them are."""
    found = (wanted[:, :, None] == candidates[:, None, :]) & (wanted >= 0)[:, :, None]
    out = np.take_along_axis(evidence[:, :-1], found.argmax(2)[:, :, None], 1)
    out[~found.any(2)] = 0
    return np.concatenate([out, evidence[:, -1:]], 1)


def first_speakers(experts: Experts) -> list[tuple[str | None, bool]]:
    """Experts that could settle rows, their block and whether it is memory: those with a trained head of every class, and memory
    where classes are many."""
    classes = experts.balls.classes
    words = len(classes) > 0 and np.array_equal(experts.linear.classes, classes)
    dense = (name for name, block in experts.dense.items() if block.has_trained_head)
    found: list[tuple[str | None, bool]] = [(None, False)] if words else []
    found += [(name, False) for name in dense if np.array_equal(experts.dense[name].classes, classes)]
    return [*found, (None, True)] if len(classes) > FEW_CLASSES and experts.balls.items.X.shape[1] else found


def choose_first(
    experts: Experts,
    seen: Seen,
    score: Floats,
    valid: Bools,
    truth: npt.NDArray[np.int64],
    weight: npt.NDArray[Any],
    n_classes: int,
) -> FirstOpinion | None:
    """The expert that settles most held-out rows, or None: what all experts have ``seen``, and the combiner's ``score``, about the
    ``valid`` slots of rows that this combiner has not learned from; ``truth`` is the right slot of each row, which counts by its
    ``weight``."""
    found, most = None, 0.0
    score = np.where(valid, score, -np.inf).astype(np.float64)
    worth = in_rows(weight)
    for block, memory in first_speakers(experts):
        heard = FirstOpinion(block, 0.0, np.zeros(3), memory).heard(experts, seen)
        there = heard.candidates >= 0
        whole = np.flatnonzero(there.any(1) if memory else there.all(1))
        order = whole[np.argsort(-heard.lead[whole], kind="stable")]
        settled = _up_to(worth[order])
        other = _up_to((worth * (heard.below.argmax(1) != score.argmax(1)))[order])
        right, may = _among(there, valid, truth)
        shares = np.linspace(settled[-1], (OF_COPIES if memory else WORTHWHILE) * settled[-1], SHARES_TRIED)
        for count in np.unique(np.searchsorted(settled, shares, side="right") - 1)[::-1]:
            rows = order[:count]
            if settled[count] <= most or other[count] + 1 > OTHERWISE * (settled[count] + 1):
                continue
            some, counts = heard.take(rows), worth[rows]
            near = float(np.quantile(of_equal_weight(some.near, counts), FARTHER)) if memory else 0.0
            weights = _weights(some.below, may[rows], right[rows], counts)
            first = FirstOpinion(block, float(some.lead.min()), weights, memory, near)
            p = np.log(np.maximum(first.probabilities(some, n_classes), 1e-12))
            if _loss(p, right[rows], counts) - _loss(score[rows], truth[rows], counts) <= WORSE * settled[-1]:
                found, most = first, settled[count]
                break
    return found


def _up_to(worth: Floats) -> Floats:
    """What the first 0, 1, 2, … rows are worth together."""
    return np.concatenate([[0.0], np.cumsum(worth)])


def _among(there: Bools, valid: Bools, truth: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Bools]:
    """The right slots if only those ``there`` can be, "none" for others, and which slots can be."""
    rows = np.arange(len(truth))
    may = np.concatenate([there, valid[:, -1:]], 1)
    right = np.where(may[rows, truth], truth, there.shape[1])
    may[rows, right] = True
    return right, may


def _spoken_of(experts: Experts, seen: Seen, memory: bool) -> Bools:
    """The candidates that an expert speaks of: memory of those with votes, the others of all."""
    if not memory:
        return np.asarray(seen.candidates >= 0)
    return np.asarray((seen.candidates >= 0) & (seen.evidence[:, :-1, experts.names().index(VOTES[0])] > 0))


def _loss(score: Floats, truth: npt.NDArray[np.int64], worth: Floats) -> float:
    """Summed cross-entropy of the right slots."""
    below = score - score.max(1, keepdims=True)
    return float((worth * (np.log(np.exp(below).sum(1)) - below[np.arange(len(truth)), truth])).sum())


def _weights(below: Floats, valid: Bools, truth: npt.NDArray[np.int64], worth: Floats) -> Floats:
    z = np.zeros((*valid.shape, 3), np.float32)
    z[:, :-1, 0], z[:, :-1, 1], z[:, -1, 2] = below, np.maximum(below, -1.0), 1.0
    start = np.array([1.0, 1.0, -5.0], np.float32)
    seen = Slots.of(z, valid, truth, worth.astype(np.float32))
    return fit_linear(seen, start, 1.0 / float(worth.sum()), np.ones(3))[0].astype(np.float64)
