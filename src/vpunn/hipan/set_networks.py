"""Small networks that say of every node whether an answer lies in it, in NumPy."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from vpunn.hipan._kernel import kernel
from vpunn.hipan.readings import on_grid

#: Units of each of the two hidden layers, and the share of them that a step leaves out.
UNITS, DROPOUT = 500, 0.7
#: Rows of a step, and the largest rate; it falls to nought.
BATCH, RATE = 128, 2e-3
#: At least so many steps, and so many passes over the rows.
STEPS, PASSES = 750, 25
#: Weights stay below this, so that 32 bits hold them exactly.
LARGEST = 60.0


class Network(NamedTuple):
    """log-odds = W3 relu(W2 relu(W1 z + b1) + b2) + b3: log loss on all nodes at once; b3 starts at the prior.

    Cost: max(steps x 128, passes x rows) x weights. Weights and units lie on a grid, so that sums are exact and do not depend on
    how many rows are read at once.
    """

    w1: np.ndarray
    w2: np.ndarray
    w3: np.ndarray
    b1: np.ndarray
    b2: np.ndarray
    b3: np.ndarray

    @classmethod
    def fit(cls, z: np.ndarray, truth: np.ndarray, weight: np.ndarray, rng: np.random.Generator) -> Network:
        """From rows (rows, columns), what is true of each (rows, nodes) and how much each counts."""
        sizes = [z.shape[1], UNITS, UNITS, truth.shape[1]]
        rate = np.clip((weight @ truth) / weight.sum(), 1e-6, 1 - 1e-6)
        params = [rng.uniform(-1, 1, (a, b)) / np.sqrt(a) for a, b in pairwise(sizes)]
        params += [np.zeros(UNITS), np.zeros(UNITS), np.log(rate / (1 - rate))]
        made = [a.astype(np.float32) for a in params]
        _train(z.astype(np.float32), truth, (weight / weight.mean()).astype(np.float32), made, rng)
        return cls(*(on_grid(np.clip(a.astype(np.float64), -LARGEST, LARGEST)) for a in made))

    def read(self, z: np.ndarray) -> np.ndarray:
        """The log-odds of every node."""
        h = on_grid(np.maximum(z @ self.w1 + self.b1, 0))
        h = on_grid(np.maximum(h @ self.w2 + self.b2, 0))
        return np.asarray(h @ self.w3 + self.b3)


def _train(
    z: np.ndarray, truth: np.ndarray, weight: np.ndarray, params: list[np.ndarray], rng: np.random.Generator
) -> None:
    """Adam on mini-batches; ``params`` are three matrices and their biases, changed in place."""
    n = len(z)
    a_pass = -(-n // BATCH)
    passes = max(PASSES, -(-STEPS // a_pass))
    moments = [(np.zeros(a.size, np.float32), np.zeros(a.size, np.float32)) for a in params]
    step, kept = 0, np.float32(1 / (1 - DROPOUT))
    w1, w2, w3, b1, b2, b3 = params
    for _ in range(passes):
        for rows in np.split(rng.permutation(n), range(BATCH, n, BATCH)):
            x = z[rows]
            m1, m2 = ((rng.random((len(rows), UNITS), np.float32) >= DROPOUT) * kept for _ in range(2))
            h1 = np.maximum(x @ w1 + b1, 0) * m1
            h2 = np.maximum(h1 @ w2 + b2, 0) * m2
            g3 = 1 / (1 + np.exp(np.minimum(-(h2 @ w3 + b3), 60)))
            g3 -= truth[rows]
            g3 *= (weight[rows] / len(rows))[:, None]
            g2 = (g3 @ w3.T) * m2 * (h2 > 0)
            g1 = (g2 @ w2.T) * m1 * (h1 > 0)
            step += 1
            rate = RATE * (1 - step / (passes * a_pass + 1)) / (1 - 0.9**step)
            slopes = x.T @ g1, h1.T @ g2, h2.T @ g3, g1.sum(0), g2.sum(0), g3.sum(0)
            for a, slope, moment in zip(params, slopes, moments, strict=True):
                _adam(a.ravel(), slope.ravel(), moment, np.float32(rate), np.float32(1 / (1 - 0.999**step)))


@kernel
def _adam(value, slope, moments, rate, right):
    mean, square = moments
    for i in range(len(value)):
        mean[i] += np.float32(0.1) * (slope[i] - mean[i])
        square[i] += np.float32(0.001) * (slope[i] * slope[i] - square[i])
        value[i] -= rate * mean[i] / (np.sqrt(square[i] * right) + np.float32(1e-8))
