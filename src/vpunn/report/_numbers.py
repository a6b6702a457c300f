"""What a page about a regressor says: how far off its numbers are, how honest its intervals, which branches are off."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn import plot
from vpunn.errors import VpunnError, counted
from vpunn.report._page import Report
from vpunn.report._sections import add_summary, add_tree, called, draw, sentence
from vpunn.report._triage import discovered
from vpunn.report._words import CHANCE, EVOLUTION, with_meaning
from vpunn.structure import Finding
from vpunn.tree import Tree
from vpunn.tree.unnamed import named_paths

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from vpunn._types import Features, Targets
    from vpunn.regress import VPuNNRegressor

#: Balls with fewer test rows are not accused.
MIN_ROWS = 10


@dataclass(frozen=True, eq=False, repr=False)
class Errors(Finding):
    """Test rows of a regressor: where they stand, what is true, what is said, and the standard deviation of a new observation."""

    tree: Tree
    nodes: np.ndarray
    truth: np.ndarray
    mean: np.ndarray
    sd: np.ndarray

    @property
    def error(self) -> np.ndarray:
        """Truth minus prediction."""
        return np.asarray(self.truth - self.mean)

    def covered(self, share: float) -> float:
        """Share of the rows inside the central interval that should hold ``share`` of them."""
        return float(np.mean(np.abs(self.error) <= NormalDist().inv_cdf((1 + share) / 2) * self.sd))

    def summary(self) -> dict[str, float]:
        """By name; R² compares with the mean of the test rows."""
        spread = float(np.sum((self.truth - self.truth.mean()) ** 2))
        return {
            "rows": len(self.truth),
            "root mean squared error": float(np.sqrt(np.mean(self.error**2))),
            "mean absolute error": float(np.abs(self.error).mean()),
            "median absolute error": float(np.median(np.abs(self.error))),
            "R²": 1.0 - float(self.error @ self.error) / spread if spread > 0 else float("nan"),
            "mean standard deviation said": float(self.sd.mean()),
        }

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Truth against prediction; bars are 90 % intervals."""
        return plot.predicted(self.mean, self.truth, NormalDist().inv_cdf(0.95) * self.sd, ax, **options)

    @property
    def verdict(self) -> str:
        """One sentence."""
        found = self.summary()
        compared = f"; R², the share explained, is {found['R²']:.3f}" if np.isfinite(found["R²"]) else ""
        return (
            f"The numbers of {counted(len(self.truth), 'row')} are typically off by {found['root mean squared error']:.4g} (root "
            f"mean squared error{compared}). Intervals that should hold 90 % of them hold {100 * self.covered(0.9):.1f} %."
        )

    def off_balls(self, top: int = 15) -> list[dict[str, Any]]:
        """Balls whose rows are off to one side by more than chance: mean error, and its size in standard errors.

        Standard errors are those of independent rows with the standard deviations said; listed is what survives a false
        discovery rate of 5 % over all balls with enough rows.
        """
        n, error, square = (
            self.tree.subtree_sum(np.bincount(self.nodes, weights=w, minlength=len(self.tree)))
            for w in (np.ones(len(self.nodes)), self.error, self.sd**2)
        )
        balls = np.flatnonzero(n >= MIN_ROWS)
        z = error[balls] / np.sqrt(square[balls])
        order = np.argsort(-np.abs(z), kind="stable")[:top]
        order = order[discovered(np.abs(z), sides=2)[order]]
        names = called(self.tree, balls[order])
        return [
            {
                "branch": name,
                "depth": int(self.tree.depth[balls[i]]),
                "rows": int(n[balls[i]]),
                "mean error": float(error[balls[i]] / n[balls[i]]),
                "standard errors": float(z[i]),
            }
            for i, name in zip(order.tolist(), names, strict=True)
        ]


def page_of_numbers(model: VPuNNRegressor, X: Features, y: Targets, title: str, command: str) -> Report:
    """A page about a fitted `VPuNNRegressor` on test rows."""
    truth = np.asarray(y, float)
    if truth.ndim != 1 or np.ndim(model.noise_variance_):
        raise VpunnError("a page about numbers shows one target; fit a model for each column of y.")
    if not len(truth) or not np.isfinite(truth).all():
        raise VpunnError("a page about test rows needs at least one row, and finite numbers in y.")
    mean, sd = model.predict(X, return_std=True)
    if len(mean) != len(truth):
        raise VpunnError(f"a page needs one number per row: got {len(truth):,} for {len(mean):,} rows.")
    found = Errors(model.tree_, model.nodes_of(X), truth, mean, sd)
    report = Report(title, command)
    add_summary(report, found, "Truth against prediction; bars are 90 % intervals.")
    _add_errors(report, found)
    _add_levels(report, model, found)
    _add_balls(report, found)
    _add_rows(report, model, X, found)
    add_tree(report, found.tree)
    return report


def _add_errors(report: Report, found: Errors) -> None:
    """How far off, how honest, and how both depend on what is known of a row."""
    report.heading("Errors and intervals")
    report.table("Scores", with_meaning(found.summary()))
    shares = (0.5, 0.8, 0.9, 0.95, 0.99)
    report.table(
        "Intervals around the prediction: the share of rows they should hold and do",
        [{"should hold": share, "hold": found.covered(share)} for share in shares],
    )
    rows = []
    for depth in np.unique(found.tree.depth[found.nodes]).tolist():
        at = found.tree.depth[found.nodes] == depth
        rows.append(
            {
                "known to depth": depth,
                "rows": int(at.sum()),
                "root mean squared error": float(np.sqrt(np.mean(found.error[at] ** 2))),
                "standard deviation said": float(np.sqrt(np.mean(found.sd[at] ** 2))),
            }
        )
    report.table("By the deepest branch that the model knows of a row", rows)


def _add_levels(report: Report, model: VPuNNRegressor, found: Errors) -> None:
    """What each depth of the tree contributes, as the model has learned it and as these rows use it."""
    report.heading("What the levels add")
    report.text(
        "A prediction is a sum over the branches around a row. A level that varies tells rows apart; one near 0 repeats its parent."
    )
    paths, learned = found.tree.paths(found.nodes), np.sqrt(np.asarray(model.depth_variance_, float))
    rows = []
    for depth, sd in enumerate(learned.tolist(), 1):
        here = paths[:, depth][paths[:, depth] >= 0] if depth < paths.shape[1] else np.zeros(0, int)
        used = float(np.std(model.coef_[here])) if len(here) else None
        row = {"depth": depth, "learned sd": sd, "sd over these rows": used}
        rows.append(row if sd == sd else {"depth": depth, "sd over these rows": used})  # along branches, none by depth
    report.table("Standard deviation of what a level adds", rows)
    beside = {"noise, sd": float(np.sqrt(model.noise_variance_))}
    if model.evolution_ != "depth":
        report.text(f"Differences grow along the branches, by the model {model.evolution_!r}.")
        beside |= {EVOLUTION.get(name, name): value for name, value in model.parameters_.items()}
    report.table("Beside the tree", [{"part": name, "value": value} for name, value in beside.items()])


def _add_balls(report: Report, found: Errors) -> None:
    report.heading("Where it is off")
    off = found.off_balls()
    if off:
        report.table("Branches that are off to one side (truth minus prediction)", off)
    else:
        report.text(f"No branch is off to one side by more than chance explains {CHANCE}.")


def _add_rows(report: Report, model: VPuNNRegressor, X: Features, found: Errors, count: int = 4) -> None:
    """The rows furthest off for what was said of them, one at a node, each with the branches that made its number."""
    report.heading("Examples")
    far = np.abs(found.error) / found.sd
    order = np.argsort(-far, kind="stable")
    _, first = np.unique(found.nodes[order], return_index=True)
    for row in order[np.sort(first)][:count].tolist():
        path = " / ".join(map(str, named_paths(found.tree, found.nodes[[row]])[0]))
        report.text(
            sentence(
                f"row {row} at {path}: predicted {found.mean[row]:.4g} ± {found.sd[row]:.2g}; the truth is {found.truth[row]:.4g}, "
                f"{far[row]:.1f} standard deviations away."
            )
        )
        reason = model.explain(X[row : row + 1])
        steps = [(str(ball.label), ball.coefficient, None) for ball in reason.balls]
        steps += [(name, value, None) for name, value in reason.covariates]
        ax = plot.activation(steps)
        ax.set_xlabel("what the branch adds to the number")
        draw(report, f"The branches around row {row}.", ax)
