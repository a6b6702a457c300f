"""Scores of predictions summed batch by batch: what ``vpunn evaluate`` says of a table that does not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn import metrics
from vpunn._progress import progress_bar
from vpunn._types import DataSource, Features, HasTree
from vpunn.errors import DataError, VpunnError, check_choice, counted, examples, rows_have
from vpunn.io.streams import read_batches, table_files
from vpunn.placing import conformal
from vpunn.tables.answers import Evaluation
from vpunn.tables.cells import LabelCells, locate, matched, numbers_of, refuse_missing, unseen_error
from vpunn.tables.gaps import FILL_IN, Gaps
from vpunn.tables.inputs import target_cells
from vpunn.tables.models import TableClassifier, open_table_model
from vpunn.tables.regressor import NORMAL_QUANTILE
from vpunn.tables.truth import UNSEEN

if TYPE_CHECKING:
    import pandas as pd

BINS = 15


class Calibration:
    """Confidences and whether they were right, as sums by bin: `metrics.calibration_error_interval` needs nothing else."""

    def __init__(self) -> None:
        self.sums = np.zeros((5, BINS))  # count, gap, gap², c(1 − c), c

    def add(self, confidence: np.ndarray, right: np.ndarray) -> None:
        """Add rows."""
        which = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
        gap = right - confidence
        for at, values in enumerate((None, gap, gap * gap, confidence * (1 - confidence), confidence)):
            self.sums[at] += np.bincount(which, values, minlength=BINS)

    @property
    def n(self) -> int:
        """Rows added."""
        return int(self.sums[0].sum())

    @property
    def error(self) -> float:
        """The calibration error."""
        return float(np.abs(self.sums[1]).sum() / self.sums[0].sum())

    def row(self, depth: int) -> dict[str, Any]:
        """A line of the table by depth."""
        full = self.sums[0] > 0
        found = metrics.confidence.interval_of_bins(*self.sums[:4, full])
        gap, said = self.sums[1].sum() / self.n, self.sums[4].sum() / self.n
        return {
            "depth": depth,
            "rows": self.n,
            "right": float(said + gap),
            "said": float(said),
            "ECE": found.value,
            "by chance": found.noise,
        }


class _Scores:
    """Sums over rows, the notes about them, and the evaluation they make."""

    def __init__(self, fitted: Any, where: object, unseen: str) -> None:
        self.fitted, self.where, self.unseen = fitted, where, unseen
        self.n = self.new = self.blank = self.dark = 0
        self.gaps = Gaps()
        self.sums: dict[str, float] = {}

    def merge(self, other: Any) -> None:
        """Add the sums of other rows."""
        self.n, self.new, self.blank = self.n + other.n, self.new + other.new, self.blank + other.blank
        self.dark += other.dark
        self.gaps += other.gaps
        self._count(**other.sums)

    def _count(self, **values: Any) -> None:
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + float(value)

    def _said_of_gaps(self) -> list[str]:
        """The sentence about missing numbers; a column without any is refused here, where all rows are known."""
        self.gaps.refuse_empty(self.where, FILL_IN)
        return self.gaps.said(self.fitted.inputs)


class ClassScores(_Scores):
    """Scores of a classifier of tables, batch by batch: the numbers of `TableClassifier.evaluate`, up to rounding."""

    def __init__(self, fitted: TableClassifier, where: object, unseen: str) -> None:
        super().__init__(fitted, where, unseen)
        self.top = Calibration()
        self.depths: list[Calibration] = []
        self.threshold = conformal.conformal_threshold(fitted.model.miss_scores_, 0.1)

    def add(self, frame: pd.DataFrame) -> None:
        """Add the rows of a batch."""
        fitted, inputs = self.fitted, self.fitted.inputs
        cells, _ = matched(target_cells(frame, inputs, self.where), fitted.model.label_tree_, inputs.match)
        blank = cells.blank
        if blank.any() and self.unseen != "skip":
            raise DataError(
                f"{rows_have(int(blank.sum()), len(blank), self.where)} no label in {examples(inputs.target)}; fill them in, "
                "or give --unseen skip."
            )
        nodes, new = locate(fitted.model.label_tree_, cells)
        if new.any() and self.unseen == "error":
            fix = "--unseen ancestor, skip or wrong scores the rest"
            raise unseen_error(fitted.model.label_tree_, cells, new, self.where, fix)
        self.new, self.blank = self.new + int(new.sum()), self.blank + int(blank.sum())
        keep = np.flatnonzero(~((new | blank) if self.unseen == "skip" else blank))
        if len(keep):
            X = fitted.rows(frame.iloc[keep], self.where)
            self.dark += int((~fitted.known(X, frame.iloc[keep], self.where)).sum())
            self.gaps += Gaps.of(frame.iloc[keep], inputs, self.where)
            self._score(X, nodes[keep], np.asarray(new[keep]) & (self.unseen == "wrong"))

    def merge(self, other: Any) -> None:
        """Add the sums of other rows."""
        super().merge(other)
        self.top.sums += other.top.sums
        while len(self.depths) < len(other.depths):
            self.depths.append(Calibration())
        for mine, theirs in zip(self.depths, other.depths, strict=False):
            mine.sums += theirs.sums

    def _score(self, X: Features, nodes: np.ndarray, wrong: np.ndarray) -> None:
        model = self.fitted.model
        tree, posterior = model.tree_, model.posterior(X)
        best, p = posterior.top_k(min(5, len(model.class_nodes_)))
        hit = (best == nodes[:, None]) & ~wrong[:, None]
        first, n = best[:, 0], len(nodes)
        cautious = conformal.cautious_nodes(posterior, self.threshold)
        shared = tree.lca_depth(nodes, first)
        means = metrics.hierarchical_summary(tree, nodes, first)
        self.n += n
        self._count(
            exact=hit[:, 0].sum(),
            top=hit.any(1).sum(),
            covered=(tree.is_ancestor(cautious, nodes) & ~wrong).sum(),
            shared=shared.sum(),
            depth_true=tree.depth[nodes].sum(),
            depth_said=tree.depth[first].sum(),
            same=(nodes == first).sum(),
            **{name: n * means[name] for name in ("root_accuracy", "leaf_accuracy", "wu_palmer", "ultrametric_loss")},
        )
        self.top.add(p[:, 0], hit[:, 0])
        balls, chain = posterior.chain(first)
        for depth in range(1, balls.shape[1]):
            there = np.flatnonzero(balls[:, depth] >= 0)
            if not len(there):
                break
            while len(self.depths) < depth:
                self.depths.append(Calibration())
            right = tree.is_ancestor(balls[there, depth], nodes[there]) & ~wrong[there]
            self.depths[depth - 1].add(chain[there, depth], right)

    def evaluation(self) -> Evaluation:
        """The scores of all rows."""
        if not self.n:
            raise DataError(f"no row of {str(self.where)!r} can be scored: none has a label that the model knows.")
        s, n = self.sums, self.n
        whole = float(s["same"] == n)
        precision, recall = (s["shared"] / total if total else whole for total in (s["depth_said"], s["depth_true"]))
        scores = {
            "rows": n,
            "exact": s["exact"] / n,
            "top-5": s["top"] / n,
            "root_accuracy": s["root_accuracy"] / n,
            "leaf_accuracy": s["leaf_accuracy"] / n,
            "hierarchical_precision": precision,
            "hierarchical_recall": recall,
            "hierarchical_f1": 2 * precision * recall / (precision + recall) if precision + recall else 0.0,
            "wu_palmer": s["wu_palmer"] / n,
            "mean_lca_depth": s["shared"] / n,
            "ultrametric_loss": s["ultrametric_loss"] / n,
            "ECE": self.top.error,
            "coverage at 90 %": s["covered"] / n,
        }
        how = {"skip": "left out", "ancestor": "scored at their deepest known ancestor", "wrong": "counted as wrong"}
        notes = (
            [f"{counted(self.new, 'row has', 'rows have')} labels the model does not know, {how[self.unseen]}"]
            if self.new
            else []
        )
        if self.blank:
            notes.append(f"{counted(self.blank, 'row')} without a label left out")
        notes += self.fitted.said_of_dark(self.dark)
        notes += self._said_of_gaps()
        by_depth = [one.row(depth) for depth, one in enumerate(self.depths, 1)]
        return Evaluation(scores, by_depth, tuple(notes))


class NumberScores(_Scores):
    """Scores of a regressor of tables, batch by batch; the mean and spread of the truth by Chan's update."""

    mean = spread = 0.0

    def merge(self, other: Any) -> None:
        """Add the sums of other rows."""
        if other.n:
            self._spread(other.n, other.mean, other.spread)
        super().merge(other)

    def _spread(self, m: int, mean: float, spread: float) -> None:
        """Mean and spread of the truth with ``m`` more rows; ``n`` still counts those before."""
        away = mean - self.mean
        self.spread += spread + away**2 * self.n * m / (self.n + m)
        self.mean += away * m / (self.n + m)

    def add(self, frame: pd.DataFrame) -> None:
        """Add the rows of a batch."""
        fitted, inputs = self.fitted, self.fitted.inputs
        numbers = numbers_of(frame, inputs.target, self.where)
        if self.unseen != "skip":
            fix = "fill in or leave out these rows, or give --unseen skip"
            refuse_missing(numbers, inputs.target, self.where, fix)
        X = fitted.rows(frame, self.where)
        cells = LabelCells(X[:, : X.shape[1] - len(inputs.columns)])
        _, new = locate(fitted.model.tree_, cells)
        if new.any() and self.unseen == "error":
            raise unseen_error(fitted.model.tree_, cells, new, self.where, "--unseen ancestor or skip scores the rest")
        self.new += int(new.sum())
        keep = ~np.isnan(numbers[:, 0]) & ~(new & (self.unseen == "skip"))
        if not keep.any():
            return
        self.gaps += Gaps.of(frame[keep], inputs, self.where)
        mean, sd = fitted.model.predict(X[keep], return_std=True)
        truth = numbers[keep, 0]
        error, m = truth - mean, len(truth)
        self._spread(m, float(truth.mean()), float(((truth - truth.mean()) ** 2).sum()))
        self.n += m
        inside = np.abs(error) <= NORMAL_QUANTILE * sd
        self._count(squares=error @ error, size=np.abs(error).sum(), inside=inside.sum(), sd=sd.sum())

    def evaluation(self) -> Evaluation:
        """The scores of all rows."""
        if self.n < 2:
            raise DataError(f"fewer than two rows of {str(self.where)!r} can be scored.")
        s, n = self.sums, self.n
        scores = {
            "rows": n,
            "RMSE": float(np.sqrt(s["squares"] / n)),
            "MAE": s["size"] / n,
            "R²": 1.0 - s["squares"] / self.spread if self.spread > 0 else float("nan"),
            "coverage at 90 %": s["inside"] / n,
            "mean sd": s["sd"] / n,
        }
        how = "left out" if self.unseen == "skip" else "predicted at their deepest known ancestor"
        notes = (
            [f"{counted(self.new, 'row has', 'rows have')} levels the model does not know, {how}"] if self.new else []
        )
        notes += self._said_of_gaps()
        return Evaluation(scores, [], tuple(notes))


def evaluate_stream(
    model: HasTree,
    source: DataSource,
    *,
    unseen: str = "ancestor",
    delimiter: str | None = None,
    encoding: str | None = None,
    batch_rows: int = 1 << 16,
) -> Evaluation:
    """`vpunn evaluate` in constant memory: scores of a model of tables over files, a folder, a pattern or a list of them."""
    check_choice("unseen", unseen, UNSEEN)
    fitted = open_table_model(Path(model)) if not hasattr(model, "inputs") else model
    scores = scores_of(fitted, source, unseen)
    found = table_files(source)
    with progress_bar("evaluating…", verbose=sum(path.stat().st_size for path in found) > 8 << 20) as bar:
        for frame in frames_of(fitted, found, delimiter, encoding, batch_rows):
            scores.add(frame)
            bar.say(f"{scores.n:,} rows")
    return scores.evaluation()


def scores_of(fitted: Any, where: object, unseen: str) -> ClassScores | NumberScores:
    """Empty sums of scores for a model of tables."""
    if isinstance(fitted, TableClassifier) and getattr(fitted.model, "multilabel_", False):
        raise VpunnError(
            "rows with several labels are scored from one table that fits into memory, not from a folder or in parts; "
            "evaluate its files one by one."
        )
    if isinstance(fitted, TableClassifier):
        return ClassScores(fitted, where, unseen)
    if unseen == "wrong":
        raise DataError(
            "--unseen wrong is for labels; a number is predicted at the deepest known ancestor, or skipped."
        )
    return NumberScores(fitted, where, unseen)


def frames_of(
    fitted: Any, found: Sequence[Path], delimiter: str | None, encoding: str | None, rows: int
) -> Iterator[pd.DataFrame]:
    """The columns a model reads, and its target, batch by batch."""
    inputs = fitted.inputs
    names = list(dict.fromkeys([*inputs.names, *inputs.target]))
    for path in found:
        reading: dict[str, Any] = {"delimiter": delimiter, "encoding": encoding, "rows": rows}
        for table in read_batches(path, names, as_text=inputs.as_text, **reading):
            yield table.to_pandas()
