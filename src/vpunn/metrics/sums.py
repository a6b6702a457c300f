"""Scores that add up: of rows in any parts, made anywhere, the scores of all rows."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np

from vpunn._types import Numbers
from vpunn.errors import VpunnError
from vpunn.metrics._checks import FloatArray, node_pairs
from vpunn.metrics.confidence import CalibrationInterval, _bins, _confidences, interval_of_bins
from vpunn.metrics.nodes import prefix_accuracy, ultrametric_loss, wu_palmer
from vpunn.tree import Nodes, Tree


class _Sums:
    """Fields that add up."""

    def __add__(self, other: Any) -> Self:
        if type(other) is not type(self):
            return NotImplemented
        return type(self)(*(_plus(getattr(self, one.name), getattr(other, one.name)) for one in fields(self)))  # type: ignore[arg-type]

    def __radd__(self, other: Any) -> Self:
        return self if isinstance(other, int) and other == 0 else NotImplemented  # so that sum(parts) works


def _plus(a: Any, b: Any) -> Any:
    """The sum of two numbers or of two tables, the shorter one filled up with zeros."""
    if np.ndim(a) == 0 or np.shape(a) == np.shape(b):
        return a + b
    total = np.zeros(np.maximum(np.shape(a), np.shape(b)))
    for part in (a, b):
        total[tuple(map(slice, np.shape(part)))] += part
    return total


@dataclass(frozen=True)
class HierarchicalSums(_Sums):
    """What `hierarchical_summary` needs of some rows; ``+`` adds the rows of others, up to rounding in any order.

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1], labels=["animal", "bird", "fish", "owl", "robin"])
    >>> true, said = tree.index(["owl", "owl", "fish"]), tree.index(["owl", "robin", "fish"])
    >>> parts = [HierarchicalSums.of(tree, true[:1], said[:1]), HierarchicalSums.of(tree, true[1:], said[1:])]
    >>> sum(parts).scores()["leaf_accuracy"], sum(parts) == HierarchicalSums.of(tree, true, said)
    (0.6666666666666666, True)
    """

    n: int = 0
    exact: int = 0
    shared: int = 0  #: edges that the two paths share
    depth_true: int = 0
    depth_said: int = 0
    wu_palmer: float = 0.0
    ultrametric: float = 0.0
    prefix: FloatArray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, tree: Tree, true: Nodes, predicted: Nodes) -> HierarchicalSums:
        """The sums of some rows."""
        t, q = node_pairs(tree, true, predicted)
        return cls(
            len(t),
            int((t == q).sum()),
            int(tree.lca_depth(t, q).sum()),
            int(tree.depth[t].sum()),
            int(tree.depth[q].sum()),
            float(wu_palmer(tree, t, q).sum()),
            float(ultrametric_loss(tree, t, q).sum()),
            np.round(prefix_accuracy(tree, t, q) * len(t)),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HierarchicalSums):
            return NotImplemented
        return all(np.array_equal(getattr(self, one.name), getattr(other, one.name)) for one in fields(self))

    __hash__ = None  # type: ignore[assignment]

    def scores(self) -> dict[str, Any]:
        """The numbers of `hierarchical_summary`."""
        if not self.n:
            raise VpunnError("there are no rows to score.")
        same = float(self.exact == self.n)  # only roots, named alike
        precision, recall = (self.shared / total if total else same for total in (self.depth_said, self.depth_true))
        prefix = (self.prefix / self.n).tolist()
        return {
            "n": self.n,
            "root_accuracy": prefix[0],
            "leaf_accuracy": self.exact / self.n,
            "prefix_accuracy": prefix,
            "hierarchical_precision": precision,
            "hierarchical_recall": recall,
            "hierarchical_f1": 2 * precision * recall / (precision + recall) if precision + recall else 0.0,
            "wu_palmer": self.wu_palmer / self.n,
            "mean_lca_depth": self.shared / self.n,
            "ultrametric_loss": self.ultrametric / self.n,
        }


@dataclass(frozen=True)
class CalibrationSums(_Sums):
    """Confidences and whether they were right, by bins of equal width: what `calibration_error_interval` needs of some rows.

    >>> half = CalibrationSums.of([0.9, 0.6], [True, False])
    >>> sum([half, half]).scores()["ECE"] == half.scores()["ECE"]
    True
    """

    table: FloatArray = field(
        default_factory=lambda: np.zeros((5, 15))
    )  #: count, gap, gap², c(1 − c), right of every bin

    @classmethod
    def of(cls, confidence: Numbers, correct: Numbers, *, bins: int = 15) -> CalibrationSums:
        """The sums of some rows; none is no mistake."""
        if not len(np.atleast_1d(np.asarray(confidence))):
            return cls(np.zeros((5, bins)))
        c, right = _confidences(confidence, correct)
        which = _bins(c, bins, "uniform")
        gap = right - c
        columns = (np.ones(len(c)), gap, gap * gap, c * (1 - c), right)
        return cls(np.array([np.bincount(which, values, minlength=bins) for values in columns]))

    @property
    def n(self) -> int:
        """Rows added."""
        return int(self.table[0].sum())

    def interval(self) -> CalibrationInterval:
        """The calibration error, and how large it would be by chance."""
        if not self.n:
            raise VpunnError("there are no rows to score.")
        return interval_of_bins(*self.table[:4, self.table[0] > 0])

    def scores(self) -> dict[str, float]:
        """Rows, the share that was right, the mean confidence, the calibration error and how much of it is chance."""
        found, (count, gap, _, _, right) = self.interval(), self.table.sum(axis=1)
        return {
            "rows": self.n,
            "right": float(right / count),
            "said": float((right - gap) / count),
            "ECE": found.value,
            "by chance": found.noise,
        }


def hierarchical_summary(tree: Tree, true: Nodes, predicted: Nodes) -> dict[str, Any]:
    """Every score of `vpunn.metrics.nodes` for one set of predictions, as plain numbers (the prefix accuracies as a list)."""
    return HierarchicalSums.of(tree, true, predicted).scores()
