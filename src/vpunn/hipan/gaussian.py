"""Discriminant analysis along the tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vpunn.hipan._kernel import kernel
from vpunn.hipan.evidence import Column, Look, Sample, Slots
from vpunn.hipan.feature_table import insert
from vpunn.hipan.readings import Whitened, on_grid
from vpunn.hipan.tree_arrays import Occupied


@dataclass(frozen=True)
class Gaussian:
    """score = -|z - m_B|^2 / 2 in the whitened reading, with means shrunk down the tree:

    m_B = (sum of the rows of B + k m_parent) / (rows of B + k),   k = variance within / between classes.
    """

    reading: Whitened
    mean: np.ndarray  # (blocks, columns)
    tree: Occupied

    columns: ClassVar[tuple[Column, ...]] = (Column("Gaussian", decides=True), Column("Gaussian of the parent"))

    @classmethod
    def fit(cls, sample: Sample, earlier: dict[str, object]) -> Gaussian:
        """O(rows x columns^2 + blocks x columns)."""
        reading, tree = Whitened.fit(sample), sample.tree
        z = reading.read(sample.rows)
        weight = sample.weight / sample.weight.mean()
        sums = np.zeros((len(tree.leaf), z.shape[1]))
        np.add.at(sums, sample.leaf, z * weight[:, None])
        total = tree.sums(sums)
        count = tree.sums(np.bincount(sample.leaf, weight, len(tree.leaf)))
        k = 1 / max(float(z.var(0).mean()) - 1, 0.01)
        mean = np.empty_like(total)
        mean[0] = total[0] / count[0]
        for level in tree.levels()[1:]:
            mean[level] = (total[level] + k * mean[tree.parent[level]]) / (count[level] + k)[:, None]
        return cls(reading, on_grid(mean), tree)

    def look(self, rows: np.ndarray) -> Look:
        """The likeliest leaves propose."""
        z = self.reading.read(rows)
        score = z @ self.mean.T - (self.mean**2).sum(1) / 2 - (z**2).sum(1, keepdims=True) / 2
        leaves = score[:, self.tree.leaf]

        def values(slots: Slots) -> list[np.ndarray]:
            row = np.arange(len(z))[:, None]
            block = slots.asked.block
            return [score[row, block[slots.asked.own]], score[row, block[slots.asked.parent]]]

        return Look(lambda k: [highest(leaves, k)[0]], values)


def highest(score: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Of every row the k largest scores and where they stand, largest first (-1: none)."""
    shape = len(score), min(k, score.shape[1])
    place, value = np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32)
    _highest(np.ascontiguousarray(score, np.float32), place, value)
    return place, value


@kernel
def _highest(score, place, value):
    for r in range(len(score)):
        for i in range(score.shape[1]):
            insert(i, score[r, i], place[r], value[r])
