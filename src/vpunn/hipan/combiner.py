"""The combiner: evidence about slots in, one log-odds per slot out, soft-max over the slots of a row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from vpunn.hipan._kernel import at, kernel
from vpunn.hipan.evidence import Column, of_known

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
#: Where the logarithm of a single column's weight is looked for.
LOG_WEIGHTS = (-3.0, 4.0)
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
        """A copy of those that count, so many of them at most, evenly from all."""
        rows = np.flatnonzero(self.weight > 0)
        most = min(most, len(rows))
        rows = rows[np.arange(most) * len(rows) // most]
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
        columns: Sequence[Column],
        rng: np.random.Generator,
        hidden: int = HIDDEN,
    ) -> Combiner:
        """``scale``: mean and spread of the evidence before it was standardised; ``columns``: what the evidence is made of."""
        linear = _convex(seen.some(CONVEX_ROWS), [i for i, column in enumerate(columns) if column.decides])
        n, d = float(seen.weight.sum()), len(linear)
        start = [linear, rng.normal(0, d**-0.5, (d, hidden)), np.zeros(hidden), np.zeros(hidden)]
        nought = _nought(*scale)
        parts = nought[: of_known(columns)], nought[of_known(columns) :]
        made = _adam(seen, [a.astype(np.float32) for a in start], parts, rng)
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
        nought = _nought(self.mean, self.spread)  # most evidence is 0: what that says is added up once
        room = np.empty_like(self.bias), np.empty(len(nought) + 3, np.int64), np.empty(len(nought) + 3, np.float32)
        _probability(evidence, start, tuple(self), (nought, self.bias + nought @ self.inner, *room), out)
        return out


def _nought(mean: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Evidence of 0, standardised."""
    return np.asarray(np.clip(-mean / spread, -FAR, FAR))


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
    (mean, spread, linear, inner, _, outer), (nought, bias, unit, column, value) = combiner, room
    for r in range(len(start) - 1):
        top = np.float32(-np.inf)
        for i in range(start[r], start[r + 1]):
            score, n = np.float32(0), 0
            for h in range(len(unit)):
                unit[h] = bias[h]
            for k in range(len(nought)):
                x = evidence[at(i), at(k)]
                if x != 0:
                    x = (x - mean[k]) / spread[k]
                    x = min(max(x, np.float32(-FAR)), np.float32(FAR)) - nought[k]
                    score += linear[k] * x
                    column[at(n)], value[at(n)] = k, x
                    n += 1
            for j in range(n, n + 3):  # four at a time: the units are read and written a quarter as often
                column[at(j)], value[at(j)] = 0, 0
            for j in range(0, n, 4):
                a, b, c, d = column[at(j)], column[at(j + 1)], column[at(j + 2)], column[at(j + 3)]
                w, x, y, z = value[at(j)], value[at(j + 1)], value[at(j + 2)], value[at(j + 3)]
                for h in range(len(unit)):
                    unit[at(h)] += (w * inner[at(a), at(h)] + x * inner[at(b), at(h)]) + (
                        y * inner[at(c), at(h)] + z * inner[at(d), at(h)]
                    )
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
        curve = _curvature(seen, p) + np.diag(ridge)
        step = np.linalg.solve(curve, slope.astype(np.float64))
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


def _curvature(seen: Seen, p: np.ndarray) -> np.ndarray:
    """sum over rows of weight x the covariance of the evidence under p, some rows at a time."""
    curve = np.zeros((seen.evidence.shape[1],) * 2)
    for first in range(0, len(seen.weight), BATCH):
        start = seen.start[first : first + BATCH + 1]
        z, root = seen.evidence[start[0] : start[-1]].copy(), np.sqrt(seen.weight[first : first + BATCH])
        mean = np.zeros((len(start) - 1, z.shape[1]), np.float32)
        _weigh(z, start - start[0], p[start[0] : start[-1]], root.astype(np.float32), mean)
        curve += z.T @ z
        curve -= mean.T @ mean
    return curve


@kernel
def _weigh(z, start, p, root, mean):
    """Every line times the root of its weight and share, in place; the means of rows times the root of their weight."""
    for r in range(len(start) - 1):
        for i in range(start[r], start[r + 1]):
            own, one = root[r] * p[at(i)], root[r] * np.sqrt(p[at(i)])
            for k in range(z.shape[1]):
                mean[at(r), at(k)] += own * z[at(i), at(k)]
                z[at(i), at(k)] *= one


def _single_columns(seen: Seen, decides: list[int]) -> np.ndarray:
    """The best weight of every single column among known slots, of rows whose answer is one, times its share of the likelihood."""
    from scipy.optimize import minimize_scalar

    told = seen.known[seen.true]
    if not told.any():
        return np.zeros(len(decides))
    row = np.repeat(np.arange(len(told)), np.diff(seen.start))
    lines = np.flatnonzero(seen.known & told[row])
    start = np.concatenate([[0], np.cumsum(np.bincount(row[lines], minlength=len(told))[told])])
    true = np.searchsorted(lines, seen.true[told])
    weight = np.repeat(seen.weight[told], np.diff(start))
    target = weight * _smoothed(true, start, float(seen.weight[told].sum()))
    best, explained = np.zeros(len(decides)), np.zeros(len(decides))
    for i, c in enumerate(decides):
        column = seen.evidence[lines, c]

        def lost(log_weight: float, column: np.ndarray = column) -> float:
            p = _shares(np.exp(np.float32(log_weight)) * column, start)
            return -float((target * np.log(p + 1e-12)).sum(dtype=np.float64))

        found = minimize_scalar(lost, bounds=LOG_WEIGHTS, method="bounded", options={"xatol": 0.1})
        best[i], explained[i] = np.exp(found.x), -found.fun
    share = np.exp((explained - explained.max()) / np.sqrt(seen.weight[told].sum()))
    return np.asarray(best * share / share.sum())


def _adam(
    seen: Seen, weights: list[np.ndarray], nought: tuple[np.ndarray, np.ndarray], rng: np.random.Generator
) -> list[np.ndarray]:
    """Mini-batches, a rate that falls to nought; ``weights`` = l, W, b, v. Evidence of known places is 0 where that of `elsewhere`
    stands, and the other way round: ``nought`` is what that says, which is not multiplied line by line."""
    first, second = [np.zeros_like(a) for a in weights], [np.zeros_like(a) for a in weights]
    line, start, true = _likely(seen, weights[0])
    known, split = seen.known[line], len(nought[0])
    places, balls = slice(0, split), slice(split, None)
    rows_that_count, distinct = np.flatnonzero(seen.weight > 0), float(seen.weight.sum())
    steps = EPOCHS * int(np.ceil(distinct / BATCH))  # rows that have left often are not learned more often
    decay, n = np.float32(DECAY / distinct), len(rows_that_count)
    batches = (
        rows for _ in range(EPOCHS) for rows in np.split(rng.permutation(rows_that_count), range(BATCH, n, BATCH))
    )
    for step, rows in enumerate(islice(batches, steps), 1):
        counts = start[rows + 1] - start[rows]
        begin = np.concatenate([[0], np.cumsum(counts)])
        lines = np.repeat(start[rows] - begin[:-1], counts) + np.arange(begin[-1])
        linear, w, b, v = weights
        score, parts = np.empty(len(lines), np.float32), []
        for mine, own, other, rest in (
            (known[lines], places, balls, nought[1]),
            (~known[lines], balls, places, nought[0]),
        ):
            x = seen.evidence[line[lines[mine]], own]
            h = x @ w[own]
            _rectify(h, b + rest @ w[other])
            score[mine] = x @ linear[own] + (h @ v + rest @ linear[other])
            parts.append((mine, own, other, rest, x, h))
        g = _shares(score, begin)
        g[begin[:-1] + true[rows] - start[rows]] -= 1
        g *= np.repeat((seen.weight[rows] / seen.weight[rows].sum()).astype(np.float32), counts)
        slopes = [np.zeros_like(linear), decay * w, np.zeros_like(b), decay * v]
        for mine, own, other, rest, x, h in parts:
            one = g[mine]
            slopes[3] += h.T @ one
            _back(h, one, v)
            total = h.sum(0)
            slopes[0][own] += x.T @ one
            slopes[0][other] += rest * one.sum()
            slopes[1][own] += x.T @ h
            slopes[1][other] += rest[:, None] * total
            slopes[2] += total
        rate = RATE * (1 - step / steps)
        for a, s, m, q in zip(weights, slopes, first, second, strict=True):
            m += 0.1 * (s - m)
            q += 0.001 * (s * s - q)
            a -= np.float32(rate / (1 - 0.9**step)) * m / (np.sqrt(q / np.float32(1 - 0.999**step)) + 1e-8)
    return weights


@kernel
def _rectify(h, b):
    """h = relu(h + b), in place."""
    for i in range(len(h)):
        for k in range(len(b)):
            h[at(i), at(k)] = max(h[at(i), at(k)] + b[k], np.float32(0))


@kernel
def _back(h, g, v):
    """The slope of every line in the hidden units, in their place: g v where they speak."""
    for i in range(len(h)):
        for k in range(len(v)):
            h[at(i), at(k)] = g[at(i)] * v[k] if h[at(i), at(k)] > 0 else np.float32(0)


def _likely(seen: Seen, linear: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The lines that the hidden units learn from: the true ones, and those that the convex fit finds likely enough; where those of
    each row begin among them, and where the true one of each row is."""
    likely = _shares(seen.evidence @ linear, seen.start) >= UNLIKELY
    likely[seen.true] = True
    before = np.concatenate([[0], np.cumsum(likely)])
    return np.flatnonzero(likely), before[seen.start], before[seen.true]
