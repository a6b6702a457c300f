"""The combiner: evidence about slots in, one log-odds per slot out, soft-max over the slots of a row."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

import numpy as np

from vpunn.hipan._kernel import at, kernel

#: The ridge of a weight's departure from the best single columns; the sum of losses is not divided by rows.
RIDGE = 20.0
#: The same for the two levels of `elsewhere`: how often it is true is simply counted.
FREE = 1e-3
#: Hidden units, and the ridge of their weights (of the sum of losses, too).
HIDDEN, DECAY = 64, 2.0
#: Standard deviations, where evidence is cut.
FAR = 8.0
#: So many held-out rows are half way from the convex fit to the hidden units.
ENOUGH = 300
EPOCHS, BATCH, RATE = 15, 128, 1e-2
#: Rows that the convex fit is made of: its few weights do not need more.
CONVEX_ROWS = 2000
#: A slot that is behind by so many nats has no probability.
NOTHING = -60.0
#: Slots that the convex fit finds less likely are left out when hidden units learn.
UNLIKELY = 1e-4


class Seen(NamedTuple):
    """Standardised evidence about held-out rows, one line for each offered slot, row by row."""

    evidence: np.ndarray  # (lines, columns) float32
    start: np.ndarray  # (rows + 1,) the lines of each row
    known: np.ndarray  # (lines,) whether the slot is a place with rows
    true: np.ndarray  # (rows,) the line of the answer
    weight: np.ndarray  # (rows,) their sum is how many rows there are; 0: nothing is learned from the row

    def some(self, most: int) -> Seen:
        """A copy of those that count, every so manieth of them if they are more than twice as many."""
        rows = np.flatnonzero(self.weight > 0)
        rows = rows[:: max(1, len(rows) // most)]
        counts = np.diff(self.start)[rows]
        start = np.concatenate([[0], np.cumsum(counts)])
        lines = np.repeat(self.start[rows] - start[:-1], counts) + np.arange(start[-1])
        true = start[:-1] + self.true[rows] - self.start[rows]
        return Seen(self.evidence[lines], start, self.known[lines], true, self.weight[rows])


class Combiner(NamedTuple):
    """score(slot) = l z + v relu(W z + b), z = (evidence - mean) / spread.

    l: a ridge conditional logit about the best single columns. The hidden units start at nothing, learn what it misses, and count
    for n / (n + 300). Cost of the fit: epochs x lines x columns x hidden units.
    """

    mean: np.ndarray
    spread: np.ndarray
    linear: np.ndarray
    inner: np.ndarray  # (columns, hidden)
    bias: np.ndarray  # (hidden,)
    outer: np.ndarray  # (hidden,)

    @classmethod
    def fit(
        cls,
        seen: Seen,
        scale: tuple[np.ndarray, np.ndarray],
        decides: list[int],
        rng: np.random.Generator,
        hidden: int = HIDDEN,
    ) -> Combiner:
        """``scale``: mean and spread of the evidence before it was standardised; ``decides``: the columns any of which could
        answer alone."""
        few = seen.some(CONVEX_ROWS)
        linear = _convex(few, decides)
        n, d = float(seen.weight.sum()), len(linear)
        start = [linear, rng.normal(0, d**-0.5, (d, hidden)), np.zeros(hidden), np.zeros(hidden)]
        made = _adam(seen, [a.astype(np.float32) for a in start], rng)
        worth = np.float32(n / (n + ENOUGH))
        mixed = linear + worth * (made[0] - linear)
        return cls(*scale, mixed.astype(np.float32), made[1], made[2], worth * made[3])

    @classmethod
    def usual(cls, weights: np.ndarray) -> Combiner:
        """Where no row could be held out: ``weights`` of the evidence as it stands."""
        d, nothing = len(weights), np.zeros(0, np.float32)
        return cls(
            np.zeros(d, np.float32),
            np.ones(d, np.float32),
            weights.astype(np.float32),
            np.zeros((d, 0), np.float32),
            nothing,
            nothing,
        )

    def probability(self, evidence: np.ndarray, start: np.ndarray) -> np.ndarray:
        """The probability of every line among those of its row."""
        out = np.empty(len(evidence), np.float32)
        nought = np.clip(-self.mean / self.spread, -FAR, FAR)  # most evidence is 0: what that says is added up once
        _probability(
            evidence, start, tuple(self), (nought, self.bias + nought @ self.inner, np.empty_like(self.bias)), out
        )
        return out


def standardise(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """In place, cut at eight deviations; the mean and the standard deviation of every column. No copy is made of any."""
    total = np.zeros((2, z.shape[1]))
    _add_rows(z, total[0])
    mean = (total[0] / len(z)).astype(np.float32)
    _add_squares(z, mean, total[1])
    spread = np.sqrt(total[1] / len(z)).astype(np.float32)
    spread[spread < 1e-6] = 1
    _standardise(z, mean, spread)
    return mean, spread


@kernel
def _add_rows(z, total):
    for i in range(len(z)):
        for k in range(len(total)):
            total[k] += z[i, k]


@kernel
def _add_squares(z, mean, total):
    for i in range(len(z)):
        for k in range(len(total)):
            total[k] += np.float64(z[i, k] - mean[k]) ** 2


@kernel
def _standardise(z, mean, spread):
    """In place, cut at eight deviations."""
    for i in range(len(z)):
        for k in range(len(mean)):
            z[i, k] = min(max((z[i, k] - mean[k]) / spread[k], np.float32(-FAR)), np.float32(FAR))


@kernel
def _probability(evidence, start, combiner, room, out):
    (mean, spread, linear, inner, _, outer), (nought, bias, unit) = combiner, room
    for r in range(len(start) - 1):
        top = np.float32(-np.inf)
        for i in range(start[r], start[r + 1]):
            score = np.float32(0)
            for h in range(len(unit)):
                unit[h] = bias[h]
            for k in range(len(nought)):
                x = evidence[at(i), at(k)]
                if x != 0:
                    x = (x - mean[k]) / spread[k]
                    x = min(max(x, np.float32(-FAR)), np.float32(FAR)) - nought[k]
                    score += linear[k] * x
                    for h in range(len(unit)):
                        unit[h] += x * inner[at(k), at(h)]
            for h in range(len(unit)):
                score += outer[h] * max(unit[h], np.float32(0))
            out[at(i)], top = score, max(top, score)
        total = np.float32(0)
        for i in range(start[r], start[r + 1]):
            out[at(i)] = np.exp(out[at(i)] - top)
            total += out[at(i)]
        for i in range(start[r], start[r + 1]):
            out[at(i)] /= total


@kernel
def _softmax(score, start, p):
    """The soft-max of the lines of every row, and the log of its sum."""
    for r in range(len(start) - 1):
        top = -np.inf
        for i in range(start[r], start[r + 1]):
            top = max(top, score[at(i)])
        total = 0.0
        for i in range(start[r], start[r + 1]):
            far = score[at(i)] - top
            p[at(i)] = np.exp(far) if far > NOTHING else 0.0  # numbers too small to be normal ones are slow
            total += p[at(i)]
        for i in range(start[r], start[r + 1]):
            p[at(i)] /= total


def _shares(score: np.ndarray, start: np.ndarray) -> np.ndarray:
    p = np.empty(len(score), np.float32)
    _softmax(score.astype(np.float32, copy=False), start, p)
    return p


def _smoothed(true: np.ndarray, start: np.ndarray, n: float) -> np.ndarray:
    """What to aim at: the truth, and by Laplace's rule one row more than there are, which may be any slot."""
    doubt = 1 / (n + 1)
    lines = np.diff(start)
    target = np.repeat(doubt / lines, lines)
    target[true] += 1 - doubt
    return target.astype(np.float32)


def _convex(seen: Seen, decides: list[int]) -> np.ndarray:
    """min sum of losses + ridge |l - l0|^2 / 2 by Newton's method; l0 is the average of the single columns:

    l0 = sum over columns c of  w_c * likelihood of c alone with its best weight w_c / sum of these.
    """
    z = seen.evidence
    ridge = np.full(z.shape[1], RIDGE)
    ridge[-2:] = FREE
    centre = np.zeros(z.shape[1])
    centre[decides] = _single_columns(seen, decides)
    target, weight = (
        _smoothed(seen.true, seen.start, float(seen.weight.sum())),
        np.repeat(seen.weight, np.diff(seen.start)),
    )

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        p = _shares(z @ w.astype(np.float32), seen.start)
        lost = -float((weight * target * np.log(np.maximum(p, 1e-12))).sum(dtype=np.float64))
        return lost + float((ridge * (w - centre) ** 2).sum()) / 2, p

    w = centre.copy()
    value, p = loss(w)
    for _ in range(30):
        slope = z.T @ (weight * (p - target)) + ridge * (w - centre)
        share = (weight * p)[:, None]
        weighed = share * z
        mean = np.add.reduceat(p[:, None] * z, seen.start[:-1])
        curve = z.T @ weighed - mean.T @ (seen.weight[:, None] * mean) + np.diag(ridge)
        step = np.linalg.solve(curve.astype(np.float64), slope.astype(np.float64))
        size = 1.0
        while size > 1e-4:
            tried, q = loss(w - size * step)
            if tried < value:
                break
            size /= 2
        else:
            break
        gained, w, value, p = value - tried, w - size * step, tried, q
        if gained < 1e-2:
            break
    return w


def _single_columns(seen: Seen, decides: list[int]) -> np.ndarray:
    """The best weight of every single column among known slots, of rows whose answer is one, times its share of the likelihood."""
    told = seen.known[seen.true]
    if not told.any():
        return np.zeros(len(decides))
    row = np.repeat(np.arange(len(told)), np.diff(seen.start))
    lines = np.flatnonzero(seen.known & told[row])
    start = np.concatenate([[0], np.cumsum(np.bincount(row[lines], minlength=len(told))[told])])
    true = np.searchsorted(lines, seen.true[told])
    weight = np.repeat(seen.weight[told], np.diff(start))
    target = weight * _smoothed(true, start, float(seen.weight[told].sum()))
    weights, best, explained = np.exp(np.arange(-3, 4.1, 0.25)), np.zeros(len(decides)), np.zeros(len(decides))
    for i, c in enumerate(decides):
        column = seen.evidence[lines, c]
        fits = [float((target * np.log(_shares(w * column, start) + 1e-12)).sum(dtype=np.float64)) for w in weights]
        best[i], explained[i] = weights[int(np.argmax(fits))], max(fits)
    share = np.exp((explained - explained.max()) / np.sqrt(seen.weight[told].sum()))
    return np.asarray(best * share / share.sum())


def _adam(seen: Seen, weights: list[np.ndarray], rng: np.random.Generator) -> list[np.ndarray]:
    """Mini-batches, a rate that falls to nought; ``weights`` = l, W, b, v."""
    first, second = [np.zeros_like(a) for a in weights], [np.zeros_like(a) for a in weights]
    line, start, true = _likely(seen, weights[0])
    rows_that_count, distinct = np.flatnonzero(seen.weight > 0), float(seen.weight.sum())
    steps = EPOCHS * int(np.ceil(distinct / BATCH))  # rows that have left often are not learned more often
    decay, n = np.float32(DECAY / distinct), len(rows_that_count)
    batches = (
        rows for _ in range(EPOCHS) for rows in np.split(rng.permutation(rows_that_count), range(BATCH, n, BATCH))
    )
    for step, rows in enumerate(islice(batches, steps), 1):
        counts = start[rows + 1] - start[rows]
        begin = np.concatenate([[0], np.cumsum(counts)])
        linear, w, b, v = weights
        x = seen.evidence[line[np.repeat(start[rows] - begin[:-1], counts) + np.arange(begin[-1])]]
        h = x @ w
        h += b
        np.maximum(h, 0, out=h)
        g = _shares(x @ linear + h @ v, begin)
        g[begin[:-1] + true[rows] - start[rows]] -= 1
        g *= np.repeat((seen.weight[rows] / seen.weight[rows].sum()).astype(np.float32), counts)
        slopes = [x.T @ g, None, None, h.T @ g + decay * v]
        np.sign(h, out=h)
        h *= g[:, None]
        h *= v
        slopes[1], slopes[2] = x.T @ h + decay * w, h.sum(0)
        rate = RATE * (1 - step / steps)
        for a, s, m, q in zip(weights, slopes, first, second, strict=True):
            m += 0.1 * (s - m)
            q += 0.001 * (s * s - q)
            a -= np.float32(rate / (1 - 0.9**step)) * m / (np.sqrt(q / np.float32(1 - 0.999**step)) + 1e-8)
    return weights


def _likely(seen: Seen, linear: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The lines that the hidden units learn from: the true ones, and those that the convex fit finds likely enough; where those of
    each row begin among them, and where the true one of each row is."""
    likely = _shares(seen.evidence @ linear, seen.start) >= UNLIKELY
    likely[seen.true] = True
    before = np.concatenate([[0], np.cumsum(likely)])
    return np.flatnonzero(likely), before[seen.start], before[seen.true]
