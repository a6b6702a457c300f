"""The combiner of rows with several labels: evidence about one node of one row in, log-odds out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vpunn.hipan._kernel import at, kernel

#: Hidden units, and the penalty on all weights of the mean loss.
HIDDEN, PENALTY = 64, 1e-4
#: Pairs that are learned from in all, and pairs of a step.
PAIRS, STEP = 480_000, 1024
#: Passes over the pairs, at least and at most, and the rate of the first step.
LEAST, MOST, RATE = 8, 60, 3e-3
#: So many held-out rows are half way from the linear fit to the hidden units; and what they weigh against what is known before.
ENOUGH, BEFORE = 300, 20.0
#: Standard deviations, where evidence is cut.
FAR = 8.0


class SetCombiner(NamedTuple):
    """log-odds = constant + l z + v relu(W z + b), z = (evidence - mean) / spread.

    l: a ridge logistic regression about the columns that could answer alone. The hidden units learn what it misses, and count for
    n / (n + 300). Cost of the fit: passes x pairs x columns x hidden units.
    """

    mean: np.ndarray
    spread: np.ndarray
    linear: np.ndarray
    inner: np.ndarray  # (columns, hidden)
    bias: np.ndarray  # (hidden,)
    outer: np.ndarray  # (hidden,)
    constant: np.ndarray  # (1,)

    @classmethod
    def fit(
        cls,
        evidence: np.ndarray,
        truth: np.ndarray,
        weight: np.ndarray,
        rows: int,
        alone: np.ndarray,
        rng: np.random.Generator,
    ) -> SetCombiner:
        """``alone``: how much each column counts as log-odds before any row was held out; ``rows``: how many were."""
        n, width = evidence.shape
        zero, empty = np.zeros(width, np.float32), np.zeros(HIDDEN, np.float32)
        if not n:  # the rows held out had nothing in common with the others
            return cls(
                zero, zero + 1, alone.astype(np.float32), np.zeros((width, HIDDEN), np.float32), empty, empty, zero[:1]
            )
        mean, spread = evidence.mean(0, dtype=np.float64), evidence.std(0, dtype=np.float64)
        spread[spread < 1e-6] = 1
        z = np.clip((evidence - mean) / spread, -FAR, FAR).astype(np.float32)
        share, y = (weight / weight.mean()).astype(np.float32), truth.astype(np.float32)
        centre = np.append(alone * spread, alone @ mean)
        linear = _logistic(z, y, share, centre)
        start = [
            linear[:-1].astype(np.float32),
            rng.normal(0, width**-0.5, (width, HIDDEN)).astype(np.float32),
            empty.copy(),
            empty.copy(),
            linear[-1:].astype(np.float32),
        ]
        made = _adam(z, y, share, [a.copy() for a in start], rng)
        worth = np.float32(rows / (rows + ENOUGH))
        first = start[0] + worth * (made[0] - start[0])
        constant = start[4] + worth * (made[4] - start[4])
        return cls(
            mean.astype(np.float32), spread.astype(np.float32), first, made[1], made[2], worth * made[3], constant
        )

    def log_odds(self, evidence: np.ndarray) -> np.ndarray:
        """Of pairs, one at a time in fixed loops: the same bits alone and in a batch."""
        out = np.empty(len(evidence), np.float32)
        _log_odds(np.ascontiguousarray(evidence, np.float32), tuple(self), np.empty(len(self.bias), np.float32), out)
        return out


@kernel
def _log_odds(evidence, combiner, unit, out):
    mean, spread, linear, inner, bias, outer, constant = combiner
    for i in range(len(evidence)):
        score = constant[0]
        for h in range(len(unit)):
            unit[h] = bias[h]
        for k in range(len(mean)):
            x = (evidence[at(i), at(k)] - mean[k]) / spread[k]
            x = min(max(x, np.float32(-FAR)), np.float32(FAR))
            score += linear[k] * x
            if x != 0:
                for h in range(len(unit)):
                    unit[h] += x * inner[at(k), at(h)]
        for h in range(len(unit)):
            score += outer[h] * max(unit[h], np.float32(0))
        out[at(i)] = score


def _logistic(z: np.ndarray, y: np.ndarray, share: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """min mean loss + BEFORE / (2 pairs) |w - centre|^2, the constant free."""
    from scipy.optimize import minimize

    total, free = float(share.sum()), np.append(np.ones(z.shape[1]), 1e-3)

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        score = (z @ w[:-1].astype(np.float32)).astype(np.float64) + w[-1]
        away = (w - centre) * free * BEFORE / total
        value = float((share * (np.logaddexp(0.0, score) - y * score)).sum() / total) + 0.5 * float(away @ (w - centre))
        error = (share * (1.0 / (1.0 + np.exp(-np.clip(score, -60, 60))) - y) / total).astype(np.float32)
        return value, np.append(error @ z, error.sum()).astype(np.float64) + away

    found = minimize(loss, centre, jac=True, method="L-BFGS-B", options={"maxiter": 80, "ftol": 1e-7})
    return np.asarray(found.x)


def _adam(
    z: np.ndarray, y: np.ndarray, share: np.ndarray, params: list[np.ndarray], rng: np.random.Generator
) -> list[np.ndarray]:
    """Mini-batches; the weights of the last third of the passes are averaged. ``params`` = l, W, b, v, constant."""
    n = len(z)
    passes = int(np.clip(-(-PAIRS // n), LEAST, MOST))
    first, second = [np.zeros_like(a) for a in params], [np.zeros_like(a) for a in params]
    mean = [np.zeros(a.shape) for a in params]
    step = averaged = 0
    for turn in range(passes):
        rate = np.float32(RATE * (1 - 0.7 * turn / passes))
        for pick in np.split(rng.permutation(n), range(STEP, n, STEP)):
            step += 1
            right = np.float32(np.sqrt(1 - 0.99**step) / (1 - 0.9**step))
            for a, slope, m, q in zip(
                params, _slopes(z[pick], y[pick], share[pick], params), first, second, strict=True
            ):
                slope += np.float32(PENALTY) * a
                m += np.float32(0.1) * (slope - m)
                q += np.float32(0.01) * (slope * slope - q)
                a -= rate * right * m / (np.sqrt(q) + np.float32(1e-8))
            if turn >= passes - max(passes // 3, 1):
                averaged += 1
                for total, a in zip(mean, params, strict=True):
                    total += (a - total) / averaged
    return [a.astype(np.float32) for a in mean]


def _slopes(z: np.ndarray, y: np.ndarray, share: np.ndarray, params: list[np.ndarray]) -> list[np.ndarray]:
    linear, inner, bias, outer, constant = params
    unit = np.maximum(z @ inner + bias, 0)
    score = np.clip(z @ linear + unit @ outer + constant, -60, 60)
    error = share * (1 / (1 + np.exp(-score)) - y) / np.float32(len(y))
    back = error[:, None] * outer * (unit > 0)
    return [z.T @ error, z.T @ back, back.sum(0), unit.T @ error, error.sum(keepdims=True)]
