"""What is known before a row is read, and how much there is to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from vpunn.hipan.evidence import Column, Look, Sample, Slots
from vpunn.hipan.feature_table import sizes
from vpunn.hipan.slots import KNOWN
from vpunn.hipan.tree_arrays import Occupied


@dataclass(frozen=True)
class Prior:
    """Counts. Where there are no more classes than slots, all of them are offered."""

    count: np.ndarray  # (blocks,) log(1 + rows)
    frequent: np.ndarray  # leaves, the most frequent first
    tree: Occupied

    columns: ClassVar[tuple[Column, ...]] = (
        Column("log count", decides=True, usual=1.0),
        Column("log count of the parent"),
        Column("depth"),
        Column("inner node", kinds="known"),
        Column("log number of features in the row"),
        Column("length of the row"),
    )

    @classmethod
    def fit(cls, sample: Sample, earlier: dict[str, object]) -> Prior:
        """O(rows)."""
        rows = np.bincount(sample.leaf, sample.weight, len(sample.tree.leaf))
        frequent = np.argsort(-rows, kind="stable").astype(np.int32)
        return cls(np.log1p(sample.tree.sums(rows)).astype(np.float32), frequent, sample.tree)

    def look(self, rows: Any) -> Look:
        """All classes, where they are few, of rows that say something: the others are answered by the shares of places."""
        if sp.issparse(rows):
            features, _, length = sizes(rows)
        else:
            features, length = np.zeros(len(rows)), np.sqrt((np.asarray(rows) ** 2).sum(1))

        def propose(k: int) -> list[np.ndarray]:
            said = features > 0 if sp.issparse(rows) else np.ones(len(rows), bool)
            return [np.where(said[:, None], self.frequent, -1)] if len(self.frequent) <= KNOWN else []

        def values(slots: Slots) -> list[np.ndarray]:
            asked, wide = slots.asked, np.ones(slots.block.shape, np.float32)
            count, depth = self.count[asked.block], self.tree.depth[asked.block] * np.float32(0.1)
            stop = np.zeros(self.tree.blocks, np.float32)
            stop[self.tree.leaf] = self.tree.is_stop
            of_slot = [count[asked.own], count[asked.parent], depth[asked.own], stop[asked.block][asked.own]]
            return [*of_slot, wide * np.log1p(features)[:, None], wide * length[:, None]]

        return Look(propose, values)
