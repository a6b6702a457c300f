"""What a combiner learns from: evidence about the candidates of held-out rows, and the best weights of it by Newton's method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from vpunn._rows import slices
from vpunn.hipan._ram import ROWS_AT_ONCE

#: Slots less likely than this by the best linear combination teach the hidden units nothing.
HOPELESS = 1e-4
#: Where evidence has more columns than words alone bring, it is large enough to be read in part: slots of less than this part of an
#: even share tell too little of how the loss bends.
COLUMNS, UNLIKELY = 44, 0.05
#: If no less than this share of the slots hold something, the others are passed over where they stand, and nothing is copied.
MOST_HOLD = 0.5
#: Pieces of evidence whose products are made at once.
NUMBERS_AT_ONCE = 200_000
#: Newton's steps at most, how often one is halved, and how much less loss is worth another.
STEPS, HALVINGS, LESS = 30, 20, 1e-5


class Slots(NamedTuple):
    """Evidence about the slots of some rows, one behind the other."""

    z: np.ndarray  #: (slots, columns)
    start: np.ndarray  #: where the slots of each row begin
    size: np.ndarray  #: and how many there are
    right: np.ndarray  #: where its right one stands
    weight: np.ndarray  #: of each row
    void: np.ndarray  #: slots that hold nothing
    place: np.ndarray | None = None  #: of each slot in ``z``, if that has more than these

    @classmethod
    def of(cls, evidence: np.ndarray, valid: np.ndarray, truth: np.ndarray, weight: np.ndarray) -> Slots:
        """The ``valid`` slots of ``evidence`` (rows, slots, columns); ``truth`` is the number of the right one of each row.

        They are copied if many are not valid. Where all classes are candidates hardly any is, and evidence is large.
        """
        if valid.mean() >= MOST_HOLD:
            size = np.full(len(valid), valid.shape[1])
            start = np.cumsum(size) - size
            z = evidence.reshape(valid.size, -1)
            return cls(z, start, size, start + truth, weight, np.flatnonzero(~valid.reshape(-1)))
        size = valid.sum(1)
        start = np.cumsum(size) - size
        within = np.cumsum(valid, 1)[np.arange(len(valid)), truth] - 1
        return cls(evidence[valid], start, size, start + within, weight, np.zeros(0, np.int64))

    def parts(self) -> Iterator[np.ndarray]:
        """The evidence about slots that hold something, some at a time."""
        for part in slices(len(self.z), ROWS_AT_ONCE):
            some = self.void[np.searchsorted(self.void, part.start) : np.searchsorted(self.void, part.stop)]
            yield np.delete(self.z[part], some - part.start, 0) if len(some) else self.z[part]

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the most that each piece of evidence says."""
        extremes = [(part.min(0), part.max(0)) for part in self.parts() if len(part)]
        return np.min([least for least, _ in extremes], 0), np.max([most for _, most in extremes], 0)

    def take(self, rows: np.ndarray, columns: Sequence[int]) -> Slots:
        """Some of the rows and of the evidence about them."""
        size = self.size[rows]
        start = np.cumsum(size) - size
        there = np.arange(size.sum()) + np.repeat(self.start[rows] - start, size)
        void = np.flatnonzero(np.isin(there, self.void)) if len(self.void) else self.void
        right = self.right[rows] - self.start[rows] + start
        return Slots(self.z[np.ix_(there, columns)], start, size, right, self.weight[rows], void)

    def likely(self, linear: np.ndarray) -> Slots:
        """The right slots and those that are not `HOPELESS` by a linear combination: of fifty classes a handful.

        `standard` takes rows of them. They stay where they are: evidence is large.
        """
        kept = self.softmax(self.z @ linear)[0] > HOPELESS
        kept[self.right] = True
        size = np.add.reduceat(kept, self.start, dtype=self.size.dtype)
        right = np.cumsum(kept)[self.right] - 1
        return Slots(self.z, np.cumsum(size) - size, size, right, self.weight, self.void[:0], np.flatnonzero(kept))

    def standard(self, rows: np.ndarray, centre: np.ndarray, unit: np.ndarray) -> Slots:
        """Some of the rows, of `likely` slots; evidence counts less the ``centre`` and times its ``unit``."""
        from vpunn.hipan.kernels.combine import taken

        size = self.size[rows]
        start = np.cumsum(size) - size
        right = self.right[rows] - self.start[rows] + start
        z = taken(self.z, self.place, self.start, self.size, rows, centre, unit)
        return Slots(z, start, size, right, self.weight[rows], self.void)

    def softmax(self, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities of the slots of each row, written over their ``score``, and the loss of its right one."""
        score[self.void] = -np.inf
        score -= np.repeat(np.maximum.reduceat(score, self.start), self.size)
        below = score[self.right]
        p = np.exp(score, out=score)
        total = np.add.reduceat(p, self.start)
        p /= np.repeat(total, self.size)
        return p, np.log(total) - below

    def curvature(self, p: np.ndarray, share: np.ndarray) -> np.ndarray:
        """Second derivatives of the mean loss of rows of a ``share`` each, at the probabilities ``p`` of their slots: how much the
        evidence about them varies. Some rows at a time: the evidence is large."""
        width = self.z.shape[1]
        total = np.zeros((width, width))
        for rows in slices(len(self.start), max(NUMBERS_AT_ONCE * len(self.start) // max(self.z.size, 1), 1)):
            first, size = self.start[rows.start], self.size[rows]
            some = slice(first, first + int(size.sum()))
            z, q = self.z[some], p[some, None].astype(np.float32)
            if width > COLUMNS:
                kept = p[some] > np.repeat(UNLIKELY / size, size)  # one at least of every row
                size = np.add.reduceat(kept, self.start[rows] - first, dtype=size.dtype)
                z, q = z[kept], q[kept]
            z = z - np.repeat(np.add.reduceat(q * z, np.cumsum(size) - size, 0), size, 0)
            z *= np.sqrt(q * np.repeat(share[rows], size)[:, None].astype(np.float32))
            total += z.T @ z
        return total


def fit_linear(seen: Slots, start: np.ndarray, penalty: float, unit: np.ndarray) -> tuple[np.ndarray, float]:
    """The best combiner without hidden units, a ridge drawing it to ``start``, and its loss: convex, so that whichever evidence is
    good is found at once. Weights are those of evidence times its ``unit`` (0: it is not read); what is the same for all slots of
    a row makes no difference."""
    share = (seen.weight / max(float(seen.weight.sum()), 1e-12)).astype(np.float64)

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        p, losses = seen.softmax((seen.z @ (w * unit).astype(np.float32)).astype(np.float64))
        return float(share @ losses) + 0.5 * penalty * float((w - start) @ (w - start)), p

    now = start.astype(np.float64)
    value, p = loss(now)
    for _ in range(STEPS):
        curvature = seen.curvature(p, share) * np.outer(unit, unit) + penalty * np.eye(len(now))
        p[seen.right] -= 1.0
        p *= np.repeat(share, seen.size)
        slope = (p.astype(np.float32) @ seen.z).astype(np.float64) * unit + penalty * (now - start)
        step = np.linalg.solve(curvature, slope)
        gain = float(slope @ step) / 2.0
        for _ in range(HALVINGS):
            less, p = loss(now - step)
            if less <= value:
                break
            step /= 2.0
        else:
            break
        now, before, value = now - step, value, less
        if gain < LESS or before - value < LESS:
            break
    return now.astype(np.float32), value
