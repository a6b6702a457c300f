"""The combiner of the model of sets: evidence about one label of one row in, log-odds out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vpunn.hipan._balls import writable
from vpunn.hipan._combiner import anything

#: Passes over the pairs, pairs to a step, and the penalty on all weights.
PASSES, PAIRS_A_STEP, PENALTY = 8, 1024, 1e-4


class Odds(NamedTuple):
    """Log-odds of a pair with standardised evidence z: ``linear·z + output·max(0, hidden z + bias) + constant``."""

    centre: np.ndarray
    scale: np.ndarray
    linear: np.ndarray
    hidden: np.ndarray
    hidden_bias: np.ndarray
    output: np.ndarray
    constant: np.ndarray

    def of(self, evidence: np.ndarray) -> np.ndarray:
        """Log-odds of pairs, one at a time in fixed loops: the same bits alone and in a batch."""
        from vpunn.hipan.kernels.combine import combine

        places = np.zeros((len(evidence), 1), np.int32)
        centre, scale, *rest = map(writable, self[:-1])
        score = combine(evidence[:, None, :], places, centre, scale, *anything(len(centre)), *rest)[:, 0]
        return np.asarray(score + self.constant, np.float32)


def fit_odds(
    evidence: np.ndarray, truth: np.ndarray, weight: np.ndarray, hidden: int, rng: np.random.Generator
) -> Odds:
    """Minimise the weighted log loss: the linear part first (convex), then hidden units by Adam; the last third is averaged."""
    n, width = evidence.shape
    if not n:  # the rows held out had nothing in common with the others: even odds
        zero = np.zeros(width, np.float32)
        empty = np.zeros((hidden, width), np.float32), np.zeros(hidden, np.float32), np.zeros(hidden, np.float32)
        return Odds(zero, zero + 1, zero, *empty, np.zeros(1, np.float32))
    centre, scale = evidence.mean(0, dtype=np.float64), evidence.std(0, dtype=np.float64)
    scale[scale < 1e-6] = 1.0
    z = ((evidence - centre) / scale).astype(np.float32)
    share = (weight / weight.mean()).astype(np.float32)
    y = truth.astype(np.float32)
    linear, constant = _fit_linear(z, y, share)
    params = [
        linear.astype(np.float32),
        (rng.standard_normal((hidden, width)) * np.sqrt(1.0 / width)).astype(np.float32),
        np.zeros(hidden, np.float32),
        (rng.standard_normal(hidden) * 0.1).astype(np.float32),
        np.array([constant], np.float32),
    ]
    mean = [np.zeros_like(p, dtype=np.float64) for p in params]
    first, second = [np.zeros_like(p) for p in params], [np.zeros_like(p) for p in params]
    passes = max(PASSES, min(60, -(-PASSES * 60_000 // max(n, 1))))
    step = averaged = 0
    for turn in range(passes):
        order = rng.permutation(n)
        rate = np.float32(3e-3 * (1.0 - 0.7 * turn / passes))
        for at in range(0, n, PAIRS_A_STEP):
            pick = order[at : at + PAIRS_A_STEP]
            step += 1
            for k, gradient in enumerate(_gradients(z[pick], y[pick], share[pick], params)):
                gradient += np.float32(PENALTY) * params[k]
                first[k] += np.float32(0.1) * (gradient - first[k])
                second[k] += np.float32(0.01) * (gradient * gradient - second[k])
                right = np.float32(np.sqrt(1 - 0.99**step) / (1 - 0.9**step))
                params[k] -= rate * right * first[k] / (np.sqrt(second[k]) + np.float32(1e-8))
            if turn >= passes - max(passes // 3, 1):
                averaged += 1
                for total, p in zip(mean, params, strict=True):
                    total += (p - total) / averaged
    kept = [p.astype(np.float32) for p in mean]
    return Odds(centre.astype(np.float32), scale.astype(np.float32), *kept)


def _fit_linear(z: np.ndarray, y: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, float]:
    from scipy.optimize import minimize

    total = float(share.sum())

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        score = (z @ w[:-1].astype(np.float32)).astype(np.float64) + w[-1]
        value = float((share * (np.logaddexp(0.0, score) - y * score)).sum() / total) + 0.5 * PENALTY * float(w @ w)
        error = (share * (1.0 / (1.0 + np.exp(-score)) - y) / total).astype(np.float32)
        return value, np.append(error @ z, error.sum()).astype(np.float64) + PENALTY * w

    found = minimize(loss, np.zeros(z.shape[1] + 1), jac=True, method="L-BFGS-B", options={"maxiter": 80, "ftol": 1e-7})
    return np.asarray(found.x[:-1]), float(found.x[-1])


def _gradients(z: np.ndarray, y: np.ndarray, share: np.ndarray, params: list[np.ndarray]) -> list[np.ndarray]:
    linear, hidden, bias, output, constant = params
    inside = z @ hidden.T + bias
    active = np.maximum(inside, 0)
    score = z @ linear + active @ output + constant
    error = share * (1.0 / (1.0 + np.exp(-score)) - y) / np.float32(len(y))
    back = error[:, None] * output * (inside > 0)
    return [error @ z, back.T @ z, back.sum(0), error @ active, np.array([error.sum()], np.float32)]
