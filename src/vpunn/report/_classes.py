"""What a page about classes from levels says: how often they are right, how honest the probabilities are, what is mistaken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn import plot
from vpunn.errors import VpunnError, counted
from vpunn.metrics import calibration_error_interval, reliability
from vpunn.report._numbers import MIN_ROWS
from vpunn.report._page import Report
from vpunn.report._sections import add_summary, add_tree, called, draw, sentence
from vpunn.report._triage import discovered
from vpunn.report._words import CHANCE, with_meaning
from vpunn.structure import Finding
from vpunn.tree import Tree
from vpunn.tree.unnamed import named_paths

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from vpunn._types import Features, Targets
    from vpunn.regress import VPuNNClassifier

#: Smallest probability in the log loss, as in `vpunn evaluate`.
FLOOR = 1e-9
#: Names in the picture of the tree.
TIPS = 40


@dataclass(frozen=True, eq=False, repr=False)
class ClassRows(Finding):
    """Test rows of a classifier from levels: where they stand, the probability of every class, and the true class.

    ``truth`` is the place of the class in ``classes``, −1 for one that the model has never seen.
    """

    tree: Tree
    nodes: np.ndarray
    classes: np.ndarray
    truth: np.ndarray
    proba: np.ndarray
    ignorant: np.ndarray  #: what is said of a row of which nothing is known

    @property
    def said(self) -> np.ndarray:
        """The most probable class of every row, as its place."""
        return np.asarray(self.proba.argmax(axis=1))

    @property
    def right(self) -> np.ndarray:
        """Which rows are answered with their class."""
        return np.asarray(self.said == self.truth)

    def of_truth(self, proba: np.ndarray) -> np.ndarray:
        """The probability of the true class of every row; 0 of one never seen."""
        return np.where(self.truth >= 0, proba[np.arange(len(proba)), self.truth], 0.0)

    def summary(self) -> dict[str, float]:
        """By name; what the commonest class alone would reach stands beside what the tree reaches."""
        blind = np.broadcast_to(self.ignorant, self.proba.shape)
        return {
            "rows": len(self.truth),
            "class right": float(self.right.mean()),
            "class right without the tree": float((blind.argmax(axis=1) == self.truth).mean()),
            "log loss": self._loss(self.proba),
            "log loss without the tree": self._loss(blind),
        }

    def _loss(self, proba: np.ndarray) -> float:
        return float(np.mean(-np.log(np.clip(self.of_truth(proba), FLOOR, 1.0)))) + 0.0

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Share right against the probability of the answer."""
        curve = reliability(self.proba.max(axis=1), self.right, strategy="quantile", bins=10)
        return plot.reliability(curve, ax, **options)

    @property
    def verdict(self) -> str:
        """One sentence."""
        found = self.summary()
        return (
            f"{100 * found['class right']:.1f} % of {counted(len(self.truth), 'row')} get their class. Always answering the "
            f"commonest class would be right for {100 * found['class right without the tree']:.1f} %."
        )

    def confusions(self, top: int = 15) -> list[dict[str, Any]]:
        """What is taken for what, most frequent first."""
        wrong = np.flatnonzero(~self.right)
        names = [*map(str, self.classes), "(never seen)"]  # which −1 is the place of
        pairs, count = np.unique(np.column_stack([self.truth[wrong], self.said[wrong]]), axis=0, return_counts=True)
        order = np.argsort(-count, kind="stable")[:top]
        return [
            {"truth": names[t], "answer": names[a], "rows": n}
            for (t, a), n in zip(pairs[order].tolist(), count[order].tolist(), strict=True)
        ]

    def off_branches(self, top: int = 15) -> list[dict[str, Any]]:
        """Branches whose answers are right more or less often than they say, by more than chance (false discovery rate 5 %)."""
        p = self.proba.max(axis=1)
        n, claimed, right, noise = (
            self.tree.subtree_sum(np.bincount(self.nodes, weights=w, minlength=len(self.tree)))
            for w in (np.ones(len(p)), p, self.right.astype(float), p * (1 - p))
        )
        balls = np.flatnonzero(n >= MIN_ROWS)
        z = (right - claimed)[balls] / np.sqrt(np.maximum(noise[balls], 1e-12))
        order = np.argsort(-np.abs(z), kind="stable")[:top]
        order = order[discovered(np.abs(z), sides=2)[order]]
        return [
            {
                "branch": name,
                "depth": int(self.tree.depth[ball]),
                "rows": int(n[ball]),
                "share right": float(right[ball] / n[ball]),
                "mean probability": float(claimed[ball] / n[ball]),
                "standard errors": float(z[i]),
            }
            for i, ball, name in zip(
                order.tolist(), balls[order].tolist(), called(self.tree, balls[order]), strict=True
            )
        ]


def page_of_classes(model: VPuNNClassifier, X: Features, y: Targets, title: str, command: str) -> Report:
    """A page about a fitted `VPuNNClassifier` on test rows."""
    truth = np.asarray(y)
    if truth.ndim != 1 or not len(truth):
        raise VpunnError("a page about test rows needs one class a row, and at least one row.")
    proba = model.predict_proba(X)
    if len(proba) != len(truth):
        raise VpunnError(f"a page needs one class per row: got {len(truth):,} for {len(proba):,} rows.")
    place = {kind: j for j, kind in enumerate(model.classes_.tolist())}
    column = np.array([place.get(kind, -1) for kind in truth.tolist()])
    found = ClassRows(model.tree_, model.nodes_of(X), model.classes_, column, proba, model.node_proba_[0])
    report = Report(title, command)
    add_summary(report, found, "Share right against the probability of the answer.")
    _add_accuracy(report, found)
    _add_mistakes(report, found)
    _add_branches(report, model)
    _add_rows(report, model, X, found)
    add_tree(report, found.tree)
    return report


def _add_accuracy(report: Report, found: ClassRows) -> None:
    report.heading("Accuracy and calibration")
    report.table("Scores", with_meaning(found.summary()))
    error = calibration_error_interval(found.proba.max(axis=1), found.right)
    report.text(
        f"Answers given with probability p should be right in a share p of the rows: the two differ by {error.value:.3f} on "
        f"average; exact probabilities would differ by {error.noise:.3f} in so many rows."
    )
    rows: list[dict[str, Any]] = []
    for j, kind in enumerate(found.classes.tolist()):
        true, said = found.truth == j, found.said == j
        rows.append(
            {
                "class": str(kind),
                "rows": int(true.sum()),
                "answered": int(said.sum()),
                "both": int((true & said).sum()),
                "mean probability": float(found.proba[:, j].mean()),
            }
        )
    report.table("By class: rows that have it, that get it, and both", sorted(rows, key=lambda row: -row["rows"])[:40])


def _add_mistakes(report: Report, found: ClassRows) -> None:
    report.heading("Where it is wrong")
    taken = found.confusions()
    if taken:
        report.table("What is taken for what", taken)
    else:
        report.text("All rows are right.")
    off = found.off_branches()
    if off:
        report.table("Branches whose answers are not right as often as they say", off)
    else:
        report.text(f"No branch is right more or less often than it says by more than chance explains {CHANCE}.")


def _add_branches(report: Report, model: VPuNNClassifier) -> None:
    """How probable the commonest class is along the branches, and how fast classes change there."""
    report.heading("Classes along the branches")
    names = [str(kind) for kind in model.classes_]
    if hasattr(model, "rates_") and len(names) > 1:
        pairs = [(i, j) for i in range(len(names)) for j in range(len(names)) if i != j]
        rows: list[dict[str, Any]] = [
            {"from": names[i], "to": names[j], "rate": float(model.rates_[i, j])} for i, j in pairs
        ]
        report.table(
            "How fast a class changes into another, per unit of branch length",
            sorted(rows, key=lambda row: -row["rate"])[:15],
        )
    top = int(model.node_proba_[0].argmax())
    if model.tree_.n_nodes > 1:
        draw(
            report,
            f"How probable {names[top]!r} is in every branch; numbers count the leaves in what is not opened.",
            plot.dendrogram(model.tree_, leaves=TIPS, values=model.node_proba_[:, top], name=f"P({names[top]})"),
        )


def _add_rows(report: Report, model: VPuNNClassifier, X: Features, found: ClassRows, count: int = 4) -> None:
    """The rows whose class was least expected, one at a node, each with the branches that made its probability."""
    report.heading("Examples")
    p = found.of_truth(found.proba)
    order = np.argsort(p, kind="stable")
    _, first = np.unique(found.nodes[order], return_index=True)
    for row in order[np.sort(first)][:count].tolist():
        path = " / ".join(map(str, named_paths(found.tree, found.nodes[[row]])[0]))
        said, true = str(found.classes[found.said[row]]), int(found.truth[row])
        truth = f"is {str(found.classes[true])!r}, with {p[row]:.2f}" if true >= 0 else "is a class never seen"
        report.text(
            sentence(f"row {row} at {path}: {said!r} with probability {found.proba[row].max():.2f}; the truth {truth}.")
        )
        reason = model.explain(X[row : row + 1])
        steps = [(str(ball.label), ball.coefficient, None) for ball in reason.balls]
        steps += [(name, value, None) for name, value in reason.covariates]
        ax = plot.activation(steps)
        ax.set_xlabel(f"what the branch adds to P({said})")
        draw(report, f"The branches around row {row}.", ax)
