"""Descriptions of the nodes themselves (`X_nodes`), each kind compared with the row directly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import scipy.sparse as sp

from vpunn.hipan._kernel import at, kernel
from vpunn.hipan.dictionary import Dictionary
from vpunn.hipan.evidence import Column, Look, Sample, Slots
from vpunn.hipan.feature_table import csr
from vpunn.hipan.tree_arrays import Grown


@dataclass(frozen=True)
class Descriptions:
    """Of every kind: the cosine of the row and the node's description, and how much of the description the row holds; of the node,
    and of the node with the row read through the dictionary. They are training rows too, so they propose as items do."""

    kinds: tuple[sp.csr_matrix, ...]  # (nodes, features)
    dictionary: Dictionary
    grown: Grown

    @property
    def columns(self) -> tuple[Column, ...]:
        """Four for every kind."""
        return tuple(
            column
            for k in range(len(self.kinds))
            for column in (
                Column(f"description {k + 1}", decides=True),
                Column(f"share of description {k + 1} in the row"),
                Column(f"description {k + 1} of the parent", kinds="known"),
                Column(f"description {k + 1} through the dictionary"),
            )
        )

    @classmethod
    def fit(cls, sample: Sample, earlier: dict[str, object]) -> Descriptions:
        """Nothing is learned."""
        return cls(sample.described, cast(Dictionary, earlier["Dictionary"]), sample.grown)

    def look(self, rows: sp.csr_matrix) -> Look:
        """They propose nothing of their own."""

        def values(slots: Slots) -> list[np.ndarray]:
            read = self.dictionary.read(rows)
            node = self.grown.node[slots.block].astype(np.int64)
            parent = self.grown.node[self.grown.parent[np.where(slots.known & ~self._stops(slots), slots.block, 0)]]
            out = []
            for kind in self.kinds:
                own, share = self._alike(rows, kind, node, slots)
                above, _ = self._alike(rows, kind, parent.astype(np.int64), slots)
                through, _ = self._alike(read, kind, node, slots)
                out += [own, share, above, through]
            return out

        return Look(lambda k: [], values)

    def _stops(self, slots: Slots) -> np.ndarray:
        """Places that stand for an inner node: their parent ball is the same node."""
        return np.asarray(self.grown.node[self.grown.parent[slots.block]] == self.grown.node[slots.block])

    def _alike(
        self, rows: sp.csr_matrix, kind: sp.csr_matrix, node: np.ndarray, slots: Slots
    ) -> tuple[np.ndarray, np.ndarray]:
        alike, share = np.zeros(node.shape, np.float32), np.zeros(node.shape, np.float32)
        _alike(csr(rows), csr(kind), node, slots.block, np.zeros(rows.shape[1], np.float32), (alike, share))
        return alike, share


@kernel
def _alike(rows, kind, node, block, wide, out):
    (indptr, indices, data), (first, feature, value), (alike, share) = rows, kind, out
    for r in range(len(node)):
        for i in range(indptr[r], indptr[r + 1]):
            wide[at(indices[i])] = data[i]
        for s in range(node.shape[1]):
            if block[r, s] >= 0:
                total = np.float32(0)
                for e in range(first[at(node[r, s])], first[at(node[r, s] + 1)]):
                    x, y = wide[at(feature[at(e)])], value[at(e)]
                    total += abs(y)
                    if x != 0:
                        alike[r, s] += x * y
                        share[r, s] += abs(y)
                if total > 0:
                    share[r, s] /= total
        for i in range(indptr[r], indptr[r + 1]):
            wide[at(indices[i])] = 0
