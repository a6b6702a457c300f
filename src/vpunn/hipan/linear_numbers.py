"""Linear heads on numbers: a ridge, and the heads of words on the standardised reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
from scipy.special import logsumexp

from vpunn.hipan.evidence import Column, Look, Sample, Slots
from vpunn.hipan.gaussian import Gaussian, highest
from vpunn.hipan.readings import Standard, on_grid
from vpunn.hipan.tree_arrays import Occupied

#: Rows x columns x classes up to which the logistic regression is made.
LOGISTIC = 1e9
#: Of the ridge, in rows.
RIDGE = 10.0
#: Steps of the logistic regression.
STEPS = 30


@dataclass(frozen=True)
class LinearNumbers:
    """Two linear heads for every class, on the standardised reading with a column of ones.

    Ridge on one-hot targets, in closed form, for any number of classes: O(columns^2 x (rows + classes)). Multinomial logistic
    regression where affordable, O(rows x columns x classes) a step, else the ridge.
    """

    reading: Standard
    ridge: np.ndarray  # (columns + 1, leaves)
    logistic: np.ndarray
    tree: Occupied

    columns: ClassVar[tuple[Column, ...]] = (
        Column("ridge head", kinds="known", decides=True),
        Column("logistic head", kinds="known", decides=True),
    )

    @classmethod
    def fit(cls, sample: Sample, earlier: dict[str, object]) -> LinearNumbers:
        """Both, on the same rows."""
        reading = cast(Gaussian, earlier["Gaussian"]).reading.standard
        z, n = _with_ones(reading.read(sample.rows)), len(sample.tree.leaf)
        weight = sample.weight / sample.weight.mean()
        ridge = _ridge(z, sample.leaf, weight, n)
        logistic = _logistic(z, sample.leaf, weight, n) if z.size * n <= LOGISTIC else ridge
        return cls(reading, on_grid(ridge), on_grid(logistic), sample.tree)

    def look(self, rows: np.ndarray) -> Look:
        """The largest scores of each propose."""
        z = _with_ones(self.reading.read(rows))
        score = z @ self.logistic
        scores = z @ self.ridge, score - logsumexp(score, axis=1, keepdims=True)

        def values(slots: Slots) -> list[np.ndarray]:
            leaf = self.tree.first_leaf[slots.asked.block[slots.asked.own]]
            leaf = np.minimum(leaf, len(self.tree.leaf) - 1)
            return [s[np.arange(len(z))[:, None], leaf] for s in scores]

        return Look(lambda k: [highest(s, k)[0] for s in scores], values)


def _with_ones(z: np.ndarray) -> np.ndarray:
    return np.column_stack([z, np.ones(len(z))])


def _ridge(z: np.ndarray, leaf: np.ndarray, weight: np.ndarray, n: int) -> np.ndarray:
    """(Z'Z + k I)^-1 Z'Y; for one-hot Y, Z'Y is the sums of the classes."""
    sums = np.zeros((n, z.shape[1]))
    np.add.at(sums, leaf, z * weight[:, None])
    return np.asarray(np.linalg.solve(z.T @ (z * weight[:, None]) + RIDGE * np.eye(z.shape[1]), sums.T))


def _logistic(z: np.ndarray, leaf: np.ndarray, weight: np.ndarray, n: int) -> np.ndarray:
    """min - sum log P + |W|^2 / 2, the intercept free; in 32 bits, which halves the time."""
    from scipy.optimize import minimize

    rows, free = np.arange(len(z)), np.r_[np.ones(z.shape[1] - 1), 0][:, None].astype(np.float32)
    z, weight = z.astype(np.float32), weight.astype(np.float32)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        w = flat.reshape(z.shape[1], n).astype(np.float32)
        p = z @ w
        p -= p.max(1, keepdims=True)
        true = p[rows, leaf]
        np.exp(p, out=p)
        total = p.sum(1)
        lost = float(weight @ (np.log(total) - true)) + float((free * w * w).sum()) / 2
        p *= (weight / total)[:, None]
        p[rows, leaf] -= weight
        return lost, (z.T @ p + free * w).ravel().astype(np.float64)

    found = minimize(loss, np.zeros(z.shape[1] * n), jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    return np.asarray(found.x.reshape(-1, n))
