"""Two fixed readings of numbers: standardised with tails cut, and whitened within classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vpunn.hipan.evidence import Sample

#: Interquartile ranges beyond the quartiles, where numbers are cut.
FAR = 3.0
#: Quartiles nearer together than this part of a standard deviation are one value with noise: nothing is cut.
NARROW = 1e-3
#: What is read are multiples of this, so that sums of products are exact and do not depend on how many rows are read at once.
GRID = 2.0**-18


def on_grid(z: np.ndarray) -> np.ndarray:
    """The nearest multiples of 2^-18."""
    return np.asarray(np.rint(z / GRID) * GRID)


class Standard(NamedTuple):
    """z = (x - mean) / standard deviation, of x cut at three interquartile ranges beyond the quartiles; a missing x is the mean."""

    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(cls, x: np.ndarray) -> Standard:
        """O(numbers x log rows)."""
        low, high = np.percentile(x, (25, 75), axis=0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            reach = FAR * (high - low) * (1 + (NARROW * x.std(0) / (high - low)) ** 3)
        reach[np.isnan(reach)] = np.inf
        low, high = low - reach, high + reach
        x = np.clip(x, low, high)
        spread = x.std(0)
        return cls(low, high, x.mean(0), np.where(spread > 1e-12 * np.maximum(abs(x).max(0), 1e-300), spread, np.inf))

    def read(self, x: np.ndarray) -> np.ndarray:
        """A column without spread is nought."""
        return on_grid((np.clip(x, self.low, self.high) - self.mean) / self.scale)


class Whitened(NamedTuple):
    """z = S^(-1/2) x of the standardised x, S the covariance within classes, shrunk as Ledoit and Wolf do."""

    standard: Standard
    turn: np.ndarray

    @classmethod
    def fit(cls, sample: Sample) -> Whitened:
        """O(rows x columns^2)."""
        standard = Standard.fit(sample.rows)
        z = standard.read(sample.rows)
        count = np.bincount(sample.leaf, minlength=len(sample.tree.leaf))
        mean = np.zeros((len(count), z.shape[1]))
        np.add.at(mean, sample.leaf, z)
        within = z - (mean / np.maximum(count, 1)[:, None])[sample.leaf]
        within *= np.sqrt(count / np.maximum(count - 1, 1))[sample.leaf, None]
        within = within[count[sample.leaf] > 1]
        covariance = shrunk_covariance(within if len(within) > 1 else z - z.mean(0))
        value, vector = np.linalg.eigh(covariance)
        largest = max(float(value[-1]), 1e-12)
        return cls(standard, on_grid(vector / np.sqrt(np.maximum(value, 1e-4 * largest))))

    def read(self, x: np.ndarray) -> np.ndarray:
        """What the standard reading says, turned."""
        return on_grid(self.standard.read(x) @ self.turn)


def shrunk_covariance(x: np.ndarray) -> np.ndarray:
    """(1 - a) S + a (mean variance) I of rows whose mean is nought, with Ledoit and Wolf's a. O(rows x columns^2).

    scikit-learn's `ledoit_wolf` gives the same and loads scipy.stats for it, which takes longer than most fits.
    """
    n, p = x.shape
    covariance = x.T @ x / n
    size, mean = float((covariance**2).sum()), float(np.trace(covariance)) / p
    apart = size - p * mean**2
    noise = (float(((x**2).sum(1) ** 2).mean()) - size) / n
    a = min(max(noise, 0.0) / apart, 1.0) if apart > 0 else 0.0
    return np.asarray((1 - a) * covariance + a * mean * np.eye(p))
