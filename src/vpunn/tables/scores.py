"""Scores of a model of tables, as sums: of rows in any parts, on any machine, what ``vpunn evaluate`` says of all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vpunn.hipan.distribution import NodeDistribution, stop_at
from vpunn.metrics import CalibrationSums, HierarchicalSums
from vpunn.tables.answers import Evaluation
from vpunn.tables.gaps import Gaps
from vpunn.tables.truth import Remark, added

if TYPE_CHECKING:
    from vpunn._types import Features

#: 90 % of a normal distribution lie within so many standard deviations.
NORMAL_QUANTILE = 1.6448536269514722
#: Smallest probability in the log loss: a class that was impossible costs so much.
FLOOR = 1e-9


class Scores(Protocol):
    """Scores of some rows; those that add up have ``+`` as well."""

    def evaluation(self, notes: tuple[str, ...] = ()) -> Evaluation:
        """The scores of all rows."""
        ...


@dataclass(frozen=True)
class Scored:
    """How many rows were scored, their scores (None of no row), what there is to say of them, and their missing numbers."""

    rows: int = 0
    scores: Any = None
    remarks: tuple[Remark, ...] = ()
    gaps: Gaps = field(default_factory=Gaps)

    def __add__(self, other: Scored) -> Scored:
        both = [scores for scores in (self.scores, other.scores) if scores is not None]
        total = both[0] + both[1] if len(both) == 2 else next(iter(both), None)
        return Scored(self.rows + other.rows, total, added(self.remarks + other.remarks), self.gaps + other.gaps)


@dataclass(frozen=True)
class ClassScores:
    """What a classifier's answers to some rows score."""

    nodes: HierarchicalSums = HierarchicalSums()  # noqa: RUF009 (a sum of no rows)
    exact: int = 0
    top: int = 0
    covered: int = 0
    best: CalibrationSums = CalibrationSums()  # noqa: RUF009
    depths: tuple[CalibrationSums, ...] = ()  #: of the balls on the answers' paths, from depth 1 on

    @classmethod
    def of(cls, model: Any, X: Features, nodes: np.ndarray, wrong: np.ndarray) -> ClassScores:
        """Of answers against nodes; rows marked ``wrong`` have no right answer at all."""
        tree, posterior = model.tree_, model.posterior(X)
        best, p = posterior.top_k(min(5, len(model.class_nodes_)))
        hit = (best == nodes[:, None]) & ~wrong[:, None]
        cautious = stop_at(posterior, "risk", alpha=0.1, scores=model.miss_scores_)
        covered = tree.is_ancestor(cautious, nodes) & ~wrong
        return cls(
            HierarchicalSums.of(tree, nodes, best[:, 0]),
            int(hit[:, 0].sum()),
            int(hit.any(1).sum()),
            int(covered.sum()),
            CalibrationSums.of(p[:, 0], hit[:, 0]),
            tuple(_by_depth(posterior, nodes, best[:, 0], wrong)),
        )

    def __add__(self, other: ClassScores) -> ClassScores:
        depths = zip_longest(self.depths, other.depths, fillvalue=CalibrationSums())
        return ClassScores(
            self.nodes + other.nodes,
            self.exact + other.exact,
            self.top + other.top,
            self.covered + other.covered,
            self.best + other.best,
            tuple(mine + theirs for mine, theirs in depths),
        )

    def evaluation(self, notes: tuple[str, ...] = ()) -> Evaluation:
        """The scores of all rows."""
        n = self.nodes.n
        places = {k: v for k, v in self.nodes.scores().items() if k not in ("n", "prefix_accuracy")}
        scores = {
            "rows": n,
            "exact": self.exact / n,
            "top-5": self.top / n,
            **places,
            "ECE": self.best.scores()["ECE"],
            "coverage at 90 %": self.covered / n,
        }
        by_depth = [{"depth": depth, **one.scores()} for depth, one in enumerate(self.depths, 1)]
        return Evaluation(scores, by_depth, notes)


def _by_depth(
    posterior: NodeDistribution, truth: np.ndarray, answer: np.ndarray, wrong: np.ndarray
) -> Iterator[CalibrationSums]:
    """Accuracy and calibration of the balls on the answers' paths, for each depth that an answer reaches."""
    balls, p = posterior.chain(answer)
    for depth in range(1, balls.shape[1]):
        there = np.flatnonzero(balls[:, depth] >= 0)
        if not len(there):
            return
        right = posterior.tree.is_ancestor(balls[there, depth], truth[there]) & ~wrong[there]
        yield CalibrationSums.of(p[there, depth], right)


@dataclass(frozen=True)
class NumberScores:
    """What predicted numbers score: sums of their errors, and the mean and spread of the truth (added by Chan's update)."""

    n: int = 0
    squares: float = 0.0
    sizes: float = 0.0
    inside: int = 0
    sd: float = 0.0
    mean: float = 0.0
    spread: float = 0.0

    @classmethod
    def of(cls, truth: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> NumberScores:
        """Of predictions with their standard deviations."""
        error, away = truth - mean, truth - truth.mean()
        inside = np.abs(error) <= NORMAL_QUANTILE * sd
        sums = float(error @ error), float(np.abs(error).sum()), int(inside.sum()), float(sd.sum())
        return cls(len(truth), *sums, float(truth.mean()), float(away @ away))

    def __add__(self, other: NumberScores) -> NumberScores:
        n, away = self.n + other.n, other.mean - self.mean
        share = other.n / n if n else 0.0
        return NumberScores(
            n,
            self.squares + other.squares,
            self.sizes + other.sizes,
            self.inside + other.inside,
            self.sd + other.sd,
            self.mean + away * share,
            self.spread + other.spread + away**2 * self.n * share,
        )

    def evaluation(self, notes: tuple[str, ...] = ()) -> Evaluation:
        """The scores of all rows."""
        n = self.n
        scores = {
            "rows": n,
            "RMSE": float(np.sqrt(self.squares / n)),
            "MAE": self.sizes / n,
            "R²": 1.0 - self.squares / self.spread if self.spread > 0 else float("nan"),
            "coverage at 90 %": self.inside / n,
            "mean sd": self.sd / n,
        }
        return Evaluation(scores, [], notes)


@dataclass(frozen=True)
class LevelScores:
    """What probabilities of classes score: the rows, the right ones, and the sum of their log losses."""

    n: int
    right: int
    loss: float

    @classmethod
    def of(cls, proba: np.ndarray, column: np.ndarray, wrong: np.ndarray) -> LevelScores:
        """Of probabilities whose true column is told; rows marked ``wrong`` have no right answer at all."""
        p = np.where(wrong, 0.0, proba[np.arange(len(column)), column])
        right = int(((proba.argmax(axis=1) == column) & ~wrong).sum())
        return cls(len(column), right, float(-np.log(np.clip(p, FLOOR, 1.0)).sum()))

    def __add__(self, other: LevelScores) -> LevelScores:
        return LevelScores(self.n + other.n, self.right + other.right, self.loss + other.loss)

    def evaluation(self, notes: tuple[str, ...] = ()) -> Evaluation:
        """The scores of all rows."""
        n = self.n
        return Evaluation({"rows": n, "exact": self.right / n, "log loss": self.loss / n + 0.0}, [], notes)


@dataclass(frozen=True)
class SetScores:
    """Scores of sets of labels, which are made of all rows at once."""

    scores: dict[str, float]

    def evaluation(self, notes: tuple[str, ...] = ()) -> Evaluation:
        """The scores of all rows."""
        return Evaluation(self.scores, [], notes)
