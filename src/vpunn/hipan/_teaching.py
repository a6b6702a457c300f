"""What a combiner is taught by: evidence about rows that took no part in training, and how much they are worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from vpunn._rows import slices
from vpunn.hipan._balls import FEW_CLASSES
from vpunn.hipan._combiner import (
    ALIKE_TELLTALE,
    ALONE,
    FEW_ROWS,
    OF_MEMORY,
    TELLTALE,
    Combiner,
    fit_combiner,
    fit_sharpness,
)
from vpunn.hipan._experts import Experts, Seen
from vpunn.hipan._holdout import counts_tell
from vpunn.hipan._ram import give_back

#: How much alike the fates of held-out rows are that stand together: their correlation, as it would be in a sample of clusters.
TOLD_TOGETHER = 0.4
#: Rows that a list's rows asked again are worth at most, however many: they are all made by one guess.
GUESS = 20.0
#: Rows whose evidence is moved at once.
MOVED_AT_ONCE = 64
#: What `HeldOut` has of every row beside the evidence.
OF_ROWS = ("node", "weight", "row", "together", "cut")


@dataclass
class HeldOut:
    """Evidence about rows that took no part in training, and where they belong: what the combiner learns from."""

    seen: Seen
    node: np.ndarray
    weight: np.ndarray
    row: np.ndarray  #: which of the rows it was, −1 if it was asked otherwise
    together: np.ndarray  #: equal numbers for rows that stand or fall together (`Round.together`)
    cut: np.ndarray  #: which are of classes that were cut down

    def take(self, rows: np.ndarray | slice) -> HeldOut:
        """Some of the rows; of a slice nothing is copied."""
        return HeldOut(Seen(*(part[rows] for part in self.seen)), *(getattr(self, name)[rows] for name in OF_ROWS))

    def put_in_order(self, order: np.ndarray) -> None:
        """Move all rows, a slot at a time: nothing is held twice."""
        candidates, evidence, branch_score = self.seen
        for slot in range(evidence.shape[1]):
            evidence[:, slot] = evidence[order, slot]
        self.seen = Seen(candidates[order], evidence, branch_score[order])
        for name in OF_ROWS:
            setattr(self, name, getattr(self, name)[order])

    def forget_evidence(self) -> None:
        """Keep where the rows belong, no more."""
        self.seen = Seen(*(part[:0].copy() for part in self.seen))
        give_back()

    def forget_columns(self, columns: np.ndarray) -> None:
        """Leave out some pieces of evidence. The others move up where they stand: evidence is large."""
        evidence = self.seen.evidence
        rows, width = len(evidence), evidence.shape[1] * int((~columns).sum())
        flat = evidence.reshape(-1)
        for part in slices(rows, MOVED_AT_ONCE):
            flat[part.start * width : part.stop * width] = evidence[part][:, :, ~columns].reshape(-1)
        self.seen = self.seen._replace(evidence=flat[: rows * width].reshape(rows, evidence.shape[1], -1))

    @classmethod
    def joined(cls, parts: list[HeldOut]) -> HeldOut:
        """Several rounds as one; the list is emptied on the way, so that hardly a row is held twice."""
        if len(parts) == 1:
            return parts.pop()
        wide = max(p.seen.candidates.shape[1] for p in parts)
        rows = sum(len(p.node) for p in parts)
        candidates = np.full((rows, wide), -1, np.int32)
        evidence = np.zeros((rows, wide + 1, parts[0].seen.evidence.shape[2]), np.float32)
        branch_score = np.concatenate([p.seen.branch_score for p in parts])
        of_rows = [np.concatenate([getattr(p, name) for p in parts]) for name in OF_ROWS]
        start = 0
        while parts:
            p = parts.pop(0)
            stop, width = start + len(p.node), p.seen.candidates.shape[1]
            candidates[start:stop, :width] = p.seen.candidates
            evidence[start:stop, :width] = p.seen.evidence[:, :-1]
            evidence[start:stop, -1] = p.seen.evidence[:, -1]
            start = stop
            del p
            give_back()
        return cls(Seen(candidates, evidence, branch_score), *of_rows)


def learn_to_combine(
    held: HeldOut,
    experts: Experts,
    n_classes: int,
    share: np.ndarray,
    hidden: int,
    nearer: bool,
    rng: np.random.Generator,
) -> Combiner:
    """Fit the combiner on held-out evidence; ``share`` is the part of the prior in each branch, of ``n_classes`` nodes in all.
    ``hidden`` units; ``nearer``: see `fit_combiner`."""
    candidates, evidence, branch_score = held.seen
    valid, truth = slots(candidates, held.node, n_classes)
    missed = (truth == candidates.shape[1]) & (candidates[:, 0] >= 0)
    sharpness = fit_sharpness(branch_score[missed], experts.balls.branch_of[held.node[missed]], share)
    with threadpool_limits(1, user_api="blas"):  # sums in another order are other bytes
        unread: tuple[str, ...] = ()
        if len(experts.balls.classes) <= FEW_CLASSES:
            unread = TELLTALE
        elif counts_tell(experts.balls.counts[held.node]):
            unread = ALIKE_TELLTALE
        weight, guess = held.weight, is_guess(held, experts)
        if len(weight) < FEW_ROWS:
            weight = as_often_as_expected(weight, missed, n_classes - len(experts.balls.classes), n_classes)
        combiner = fit_combiner(
            evidence,
            valid,
            truth,
            weight,
            experts.names(),
            rng,
            hidden=hidden,
            unread=unread,
            nearer=nearer,
            worth=min(worth_alone(weight, np.where(held.cut, held.node, -1)), GUESS if guess else np.inf),
            decisive=OF_MEMORY if guess else ALONE,
        )
    return combiner._replace(sharpness=sharpness)


def is_guess(held: HeldOut, experts: Experts) -> bool:
    """Whether rows that were learned are among those held out, asked otherwise (`asked_again`), and no descriptions tell classes
    that have no other row."""
    return bool((held.row < 0).any()) and not (experts.balls.items.kind > 0).any()


def worth_alone(weight: np.ndarray, cut: np.ndarray) -> float:
    """As many rows that stand alone and count alike as rows of this ``weight`` are worth, where those of a class that was ``cut``
    down (its number; −1: of none), which the few that it has kept tell, are right or wrong together:
    (Σ w)² / Σ_clusters (ρ (Σ w)² + (1 − ρ) Σ w²), ρ = `TOLD_TOGETHER`. Where none was, all rows count.

    >>> [worth_alone(np.ones(4), np.array(cut)) for cut in ([-1, -1, -1, -1], [-1, -1, 2, 3], [7, 7, 7, 7])]
    [4.0, 4.0, 1.8181818181818181]
    """
    if (cut < 0).all():
        return float(len(cut))
    cluster = np.unique(np.where(cut < 0, -1 - np.arange(len(cut)), cut), return_inverse=True)[1].ravel()
    w = weight.astype(np.float64)
    alike, apart = np.square(np.bincount(cluster, w)).sum(), np.square(w).sum()
    return max(float(w.sum() ** 2 / max(TOLD_TOGETHER * alike + (1.0 - TOLD_TOGETHER) * apart, 1e-300)), 1.0)


def with_better_bounds(combiner: Combiner, known: HeldOut, n_classes: int) -> Combiner:
    """The combiner with bounds of evidence or without, whichever explains rows that were learned better.

    Hardly a row held out is as like an item as they are, so that a combiner may answer the opposite when asked for them.
    """
    return min(combiner, combiner.unbounded(), key=lambda tried: mean_loss(tried, known, n_classes))


def mean_loss(combiner: Combiner, held: HeldOut, n_classes: int) -> float:
    """What a combiner loses on the right answers of some rows, by their weight."""
    candidates, evidence, _ = held.seen
    truth = slots(candidates, held.node, n_classes)[1]
    p = np.column_stack(combiner.shares(evidence, candidates, n_classes))[np.arange(len(truth)), truth]
    return float(-(held.weight @ np.log(np.maximum(p, 1e-12))) / held.weight.sum())


def as_often_as_expected(weight: np.ndarray, missed: np.ndarray, n_empty: int, n_classes: int) -> np.ndarray:
    """Weights of a few held-out rows of which those whose class no other row has, ``missed``, count no more than such classes are
    expected to: half a row each of the ``n_empty``, as in the prior, beside a row and a half of each other class.

    A table of a handful of rows loses whole classes whenever it loses rows. That is no sign that the one class without rows will
    be asked about two times in three, as often as not by a copy of a row of another.

    >>> as_often_as_expected(np.ones(4), np.array([True, True, True, False]), 1, 3).round(3)  # 1/6 of the weight of the others
    array([0.056, 0.056, 0.056, 1.   ])
    """
    lost = float(weight[missed].sum())
    expected = float(weight[~missed].sum()) * 0.5 * n_empty / (1.5 * (n_classes - n_empty))
    return np.where(missed, weight * min(expected / lost, 1.0), weight) if lost else weight


def slots(candidates: np.ndarray, node: np.ndarray | None, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Which slots hold something, and the slot of the right answer (the last, "none", if it is not a candidate).

    "None" is no answer where every known class is a candidate already.
    """
    valid = np.ones((len(candidates), candidates.shape[1] + 1), bool)
    valid[:, :-1] = candidates >= 0
    valid[:, -1] = valid[:, :-1].sum(1) < n_classes
    if node is None:
        return valid, np.zeros(0, np.int64)
    hit = candidates == node[:, None]
    valid[:, -1] |= ~hit.any(1)
    return valid, np.where(hit.any(1), hit.argmax(1), candidates.shape[1])
