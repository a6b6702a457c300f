"""The experts of a dense block for rows with several labels: two networks, a kernel ridge and trees, each about every node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from vpunn.hipan.readings import Standard, on_grid
from vpunn.hipan.set_forest import Forest
from vpunn.hipan.set_networks import Network

#: Names of the experts, in the order in which they answer, and how far each is trusted before any row was held out.
NAMES = "network of standardised rows", "network of rows of equal length", "kernel ridge", "trees"
TRUST = np.array([0.3, 0.3, 0.2, 0.2])
#: Nodes of fewer rows are not asked of the networks: they answer the rate.
FEWEST = 5
#: Decay of the kernel per median distance, and its ridge.
DECAY, RIDGE = 3.0, 0.3
#: Rows that carry the kernel ridge, and rows that are compared with them at a time.
LANDMARKS, TILE = 4000, 1024


class KernelRidge(NamedTuple):
    """P(node) = rate + sum over landmarks of a k(x, landmark),  k = exp(-3 d / median d) between rows of length one.

    With no more rows than landmarks, a = (K + 0.3 / weight)^-1 (truth - rate). O(rows x landmarks^2 + landmarks^2 x nodes).
    """

    landmark: np.ndarray  # (landmarks, columns)
    usual: float  # the median distance between them
    slope: np.ndarray  # (landmarks, nodes)

    @classmethod
    def fit(cls, u: np.ndarray, excess: sp.csr_matrix, weight: np.ndarray, rng: np.random.Generator) -> KernelRidge:
        """``excess``: what is true of the rows; its weighted mean is taken off."""
        from scipy.linalg import solve

        n, rate = len(u), (weight @ excess) / weight.sum()
        weight = weight / weight.mean()
        chosen = np.sort(rng.permutation(n)[:LANDMARKS])
        landmark = u[chosen]
        distance = _distance(landmark, landmark)
        usual = max(float(np.median(distance)), 1e-6)
        between = np.exp(distance * (-DECAY / usual))
        if len(chosen) == n:
            left, right = between + np.diag(RIDGE / np.maximum(weight, 1e-6)), excess.toarray() - rate
        else:
            left, right = RIDGE * between, np.zeros((len(chosen), excess.shape[1]))
            for start in range(0, n, TILE):
                part = slice(start, start + TILE)
                like = np.exp(_distance(u[part], landmark) * (-DECAY / usual)) * np.sqrt(weight[part])[:, None]
                left += like.T @ like
                like *= np.sqrt(weight[part])[:, None]
                right += (excess[part].T @ like).T - np.outer(like.sum(0), rate)
        slope = solve(left, right, assume_a="pos", overwrite_a=True, overwrite_b=True)
        return cls(landmark, usual, on_grid(np.clip(slope, -60, 60)).astype(np.float32))  # exact in 32 bits

    def read(self, u: np.ndarray) -> np.ndarray:
        """How far every node is above its rate."""
        return np.asarray(
            on_grid(np.exp(_distance(u, self.landmark) * (-DECAY / self.usual))) @ self.slope.astype(np.float64)
        )


def _distance(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Between rows of length one or nought; exact, since these lie on a grid."""
    square = (u**2).sum(1)[:, None] + (v**2).sum(1) - 2 * (u @ v.T)
    return np.asarray(np.sqrt(np.maximum(square, 0)))


@dataclass(frozen=True)
class NumberExperts:
    """All of them, fitted on the same rows of one block."""

    standard: Standard
    rate: np.ndarray  # (nodes,)
    asked: np.ndarray  # nodes that the networks are asked about
    networks: tuple[Network, Network]
    ridge: KernelRidge
    forest: Forest
    truth: sp.csr_matrix  # (training rows, nodes)

    @classmethod
    def fit(cls, x: np.ndarray, truth: sp.csr_matrix, weight: np.ndarray, rng: np.random.Generator) -> NumberExperts:
        """From rows of numbers and the nodes of each (rows, nodes), ancestors included."""
        standard = Standard.fit(x)
        z, u = _readings(standard, x)
        asked = np.flatnonzero(np.diff(truth.tocsc().indptr) >= min(FEWEST, len(x))).astype(np.int32)
        some = truth[:, asked].toarray().astype(bool)
        networks = (
            Network.fit(z, some, weight, rng),
            Network.fit(on_grid(u * np.sqrt(x.shape[1])), some, weight, rng),
        )
        rate = np.asarray((weight @ truth) / weight.sum(), np.float64)
        ridge, forest = KernelRidge.fit(u, truth, weight, rng), Forest.fit(z, truth, weight, rng)
        return cls(standard, rate, asked, networks, ridge, forest, truth)

    def read(self, x: np.ndarray) -> np.ndarray:
        """The probability of every node by every expert, (experts, rows, nodes)."""
        z, u = _readings(self.standard, x)
        out = np.empty((len(NAMES), len(x), len(self.rate)), np.float32)
        for k, view in enumerate((z, on_grid(u * np.sqrt(x.shape[1])))):
            out[k] = self.rate
            out[k][:, self.asked] = 1 / (1 + np.exp(-np.clip(self.networks[k].read(view), -60, 60)))
        out[2] = np.clip(self.rate + self.ridge.read(u), 0, 1)
        out[3] = self.forest.read(z, self.truth)
        return out


def _readings(standard: Standard, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows standardised, and of length one."""
    z = standard.read(np.asarray(x, np.float64))
    length = np.sqrt((z**2).sum(1, keepdims=True))
    return z, on_grid(z / np.maximum(length, 1e-12))
