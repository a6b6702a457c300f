"""Rows held out: what experts that have not seen them said, and what the combiner learns from."""

from __future__ import annotations

import numpy as np

from vpunn.placing import combiner as combining
from vpunn.placing.experts import Seen
from vpunn.placing.slots import truth
from vpunn.placing.tree_arrays import Grown


class HeldOut:
    """Rows held out, in the order in which they were examined."""

    def __init__(self, seen: list[Seen], row: np.ndarray, place: np.ndarray, weight: np.ndarray, grown: Grown):
        self.seen, self.row, self.place, self.grown = seen, row, place[row], grown
        self.weight = weight[row] / weight[row].mean()

    def evidence(self) -> combining.Seen:
        """What the combiner learns from: a copy, since it is standardised in place."""
        offered = [s.slots >= 0 for s in self.seen]
        counts = np.concatenate([o.sum(1) for o in offered])
        known = np.concatenate([s.known[o] for s, o in zip(self.seen, offered, strict=True)])
        true, row = [], 0
        for s, o in zip(self.seen, offered, strict=True):
            slot = truth(s.slots, self.place[row : row + len(o)], self.grown)
            line = np.cumsum(o, 1)[np.arange(len(o)), slot] - 1
            true.append(np.where(slot >= 0, line, -1))
            row += len(o)
        line = np.concatenate(true)
        told = line >= 0  # a closed list may hold no offered block around a place that was not proposed
        keep = np.repeat(told, counts)
        evidence = np.concatenate([s.evidence for s in self.seen])
        start_of = np.concatenate([[0], np.cumsum(counts[told])])
        return combining.Seen(
            evidence if keep.all() else evidence[keep],
            start_of,
            known[keep],
            start_of[:-1] + line[told],
            self.weight[told],
        )
