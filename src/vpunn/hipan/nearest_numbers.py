"""Nearest items by distance, in both readings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from vpunn.hipan._kernel import kernel
from vpunn.hipan.evidence import Column, Look, Sample, Slots
from vpunn.hipan.feature_table import insert
from vpunn.hipan.gaussian import Gaussian
from vpunn.hipan.nearest import ITEMS, SHARPNESS, Items, Near
from vpunn.hipan.readings import Standard, Whitened

#: Items whose distances are in memory at once.
TILE = 4096
#: Rows by which the usual distance of a nearest item is found.
SOME = 500


@dataclass(frozen=True)
class NearestNumbers:
    """likeness = 1 / (1 + d / the usual distance of a nearest item)."""

    readings: tuple[Standard | Whitened, ...]
    rows: tuple[np.ndarray, ...]  # the training rows in each reading
    typical: tuple[float, ...]
    items: Items

    columns: ClassVar[tuple[Column, ...]] = tuple(
        Column(f"{name}, {reading}", decides=decides, usual=usual if reading == "standardised" else 0.0)
        for reading in ("standardised", "whitened")
        for name, decides, usual in (
            ("vote by distance", True, 0.0),
            ("nearest by distance", True, SHARPNESS),
            ("second by distance", False, 0.0),
        )
    )

    @classmethod
    def fit(cls, sample: Sample, earlier: dict[str, object]) -> NearestNumbers:
        """Keep the rows in both readings."""
        whitened = cast(Gaussian, earlier["Gaussian"]).reading
        readings = (whitened.standard, whitened)
        rows = tuple(reading.read(sample.rows) for reading in readings)
        typical = []
        for z in rows:
            some = z[:: max(1, len(z) // SOME)]
            second = nearest(some, z, 2)[1][:, -1]
            typical.append(max(float(np.median(second)), 1e-9))
        return cls(readings, rows, tuple(typical), Items(sample.leaf, sample.weight, sample.tree))

    def look(self, rows: np.ndarray) -> Look:
        """The nearest items of each reading propose their leaves."""
        found = []
        for reading, items, typical in zip(self.readings, self.rows, self.typical, strict=True):
            item, distance = nearest(reading.read(rows), items, min(ITEMS, len(items)))
            found.append(Near(item, (1 / (1 + distance / typical)).astype(np.float32)))

        def propose(k: int) -> list[np.ndarray]:
            return [self.items.leaf[near.item][:, :k] for near in found]

        def values(slots: Slots) -> list[np.ndarray]:
            return [value for near in found for value in self.items.tally(near, slots)[:3]]

        return Look(propose, values)


def nearest(z: np.ndarray, items: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest items of every row and their distances, nearest first. O(rows x items x columns)."""
    k = min(k, len(items))
    item, close = np.full((len(z), k), -1, np.int32), np.full((len(z), k), -np.inf)
    for start in range(0, len(items), TILE):
        tile = items[start : start + TILE]
        # -d^2 without what is the same for all items
        _closest(2 * (z @ tile.T) - (tile**2).sum(1), start, item, close)
    return item, np.sqrt(np.maximum((z**2).sum(1, keepdims=True) - close, 0))


@kernel
def _closest(score, start, item, close):
    for r in range(len(score)):
        for i in range(score.shape[1]):
            insert(start + i, score[r, i], item[r], close[r])
