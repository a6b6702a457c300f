"""Rows held out: what experts that have not seen them said, and what the combiner learns from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from vpunn.hipan import combiner as combining
from vpunn.hipan.experts import Seen
from vpunn.hipan.slots import truth
from vpunn.hipan.tree_arrays import Places


class HeldOut:
    """Rows held out, in the order in which they were examined. Their evidence stands in memory once, and standardised."""

    def __init__(self, seen: Iterable[Seen], row: np.ndarray, lost: np.ndarray, weight: np.ndarray, where: Places):
        """``lost``: whether the last row of its place left with it."""
        grown = where.grown
        self.row, self.place, self.lost, self.grown, self.weight = row, where.place[row], lost, grown, weight
        parts, self.evidence = [], np.empty((0, 0), np.float32)
        for s in seen:  # what is appended is let go of before the next is made
            lines = len(self.evidence)
            self.evidence.resize((lines + len(s.evidence), s.evidence.shape[1]), refcheck=False)
            self.evidence[lines:] = s.evidence
            parts.append((s.slots, s.known))
        width, at = max(slots.shape[1] for slots, _ in parts), 0
        self.slots = np.full((len(row), width), -1, np.int32)
        self.known = np.zeros(self.slots.shape, bool)
        for slots, known in parts:
            rows = slice(at, at + len(slots))
            self.slots[rows, : slots.shape[1]], self.known[rows, : slots.shape[1]], at = slots, known, rows.stop
        self.start = Seen(self.slots, self.known, self.evidence).start
        #: The slot of every answer; -1: a closed list may offer no block around a place that was not proposed.
        self.true = truth(self.slots, self.place, grown)
        self.mean, self.spread = combining.standardise(self.evidence)

    @classmethod
    def of(
        cls,
        seen: Iterable[Seen],
        leaving: list[np.ndarray],
        weight: np.ndarray,
        where: Places,
        new: float | None = None,
    ) -> HeldOut:
        """The rows that left in every fold; ``weight`` of every row. ``new``: the share of questions whose class has no rows, if it
        is known better than by how often held-out rows have lost their class: both kinds then count accordingly."""
        row = np.concatenate(leaving)
        gone = [np.bincount(where.place[rows], minlength=where.grown.blocks) for rows in leaving]
        lost = [(where.rows_at - g)[where.place[rows]] == 0 for rows, g in zip(leaving, gone, strict=True)]
        counts = weight[row] / weight[row].mean() * len(np.unique(row)) / len(row)  # one that left often counts once
        without = np.concatenate(lost)
        found = float(np.average(without, weights=counts))
        if new is not None and 0 < found < 1:
            counts = counts * np.where(without, new / found, (1 - new) / (1 - found))
        return cls(seen, row, without, counts, where)

    def how_often(self) -> list[float]:
        """How often an answer that is no known slot is a place with rows, or a leaf or stop that lost its own: counts + 1."""
        known = self.known[np.arange(len(self.true)), self.true] & (self.true >= 0)
        stop = self.grown.is_stop[self.place]
        return [1 + float((~known & kind).sum()) for kind in (~self.lost, self.lost & ~stop, self.lost & stop)]

    def taught(self, some: np.ndarray | None = None) -> combining.Seen:
        """What the combiner learns from: all rows, or those chosen by ``some``; what has no true slot counts nothing."""
        offered = self.slots >= 0
        line = np.cumsum(offered, 1)[np.arange(len(offered)), self.true] - 1
        told = self.true >= 0 if some is None else (self.true >= 0) & some
        first = self.start[:-1]
        return combining.Seen(
            self.evidence,
            self.start,
            self.known[offered],
            first + np.where(self.true >= 0, line, 0),
            np.where(told, self.weight, 0),
        )

    def batches(self, rows: int = 256) -> Iterator[tuple[slice, Seen]]:
        """The rows some at a time, their evidence standardised."""
        for begin in range(0, len(self.row), rows):
            part = slice(begin, min(begin + rows, len(self.row)))
            lines = slice(self.start[part.start], self.start[part.stop])
            yield part, Seen(self.slots[part], self.known[part], self.evidence[lines])
