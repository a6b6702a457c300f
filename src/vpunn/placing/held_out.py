"""Rows held out: what experts that have not seen them said, and what the combiner learns from."""

from __future__ import annotations

import numpy as np

from vpunn.placing import combiner as combining
from vpunn.placing.experts import Seen
from vpunn.placing.folds import rounds
from vpunn.placing.slots import truth
from vpunn.placing.tree_arrays import Grown


class HeldOut:
    """Rows held out, in the order in which they were examined."""

    def __init__(self, seen: list[Seen], row: np.ndarray, place: np.ndarray, weight: np.ndarray, n: int, grown: Grown):
        self.seen, self.row, self.place, self.grown = seen, row, place[row], grown
        self.weight = weight[row] / weight[row].mean() / rounds(n)  # a row that has left often counts once

    def _parts(self, of_rows: np.ndarray) -> list[np.ndarray]:
        return np.split(of_rows, np.cumsum([len(s.slots) for s in self.seen])[:-1])

    def _true(self) -> list[np.ndarray]:
        """The slot of every answer, batch by batch; -1: a closed list may offer no block around a place that was not proposed."""
        return [truth(s.slots, p, self.grown) for s, p in zip(self.seen, self._parts(self.place), strict=True)]

    def how_often(self, lost: np.ndarray) -> list[float]:
        """How often an answer that is no known slot is a place with rows, or a leaf or stop that ``lost`` its own: counts + 1."""
        known = [s.known[np.arange(len(t)), t] & (t >= 0) for s, t in zip(self.seen, self._true(), strict=True)]
        elsewhere, stop = ~np.concatenate(known), self.grown.is_stop[self.place]
        return [1 + float((elsewhere & kind).sum()) for kind in (~lost, lost & ~stop, lost & stop)]

    def evidence(self) -> combining.Seen:
        """What the combiner learns from: a copy, since it is standardised in place."""
        offered = [s.slots >= 0 for s in self.seen]
        counts = np.concatenate([o.sum(1) for o in offered])
        known = np.concatenate([s.known[o] for s, o in zip(self.seen, offered, strict=True)])
        true = self._true()
        line = [np.cumsum(o, 1)[np.arange(len(o)), t] - 1 for o, t in zip(offered, true, strict=True)]
        told = np.concatenate(true) >= 0
        keep = np.repeat(told, counts)
        evidence = np.concatenate([s.evidence for s in self.seen])
        start_of = np.concatenate([[0], np.cumsum(counts[told])])
        return combining.Seen(
            evidence if keep.all() else evidence[keep],
            start_of,
            known[keep],
            start_of[:-1] + np.concatenate(line)[told],
            self.weight[told],
        )
