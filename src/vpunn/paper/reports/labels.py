"""T15, F10 and F19 at label level: a classifier that sees texts, on held-out rows, with whole distributions over the labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.metrics import Reliability, calibration_error, calibration_error_interval, reliability_by_depth
from vpunn.paper.captions import captions
from vpunn.paper.reports import _numbers as paper
from vpunn.paper.reports._bench import Bench
from vpunn.report import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The task with texts on each hierarchy; the taxonomy has none (a species' name contains its genus, the answer).
TASK = {"wordnet": "wordnet", "go": "go"}
#: Split 0 was for choosing settings.
SPLIT = 1
#: The digits the paper draws (F19), as depths of the balls they name.
DRAWN = (4, 9, 14, 17)


def measure(name: str) -> dict[str, Any]:
    """Fit on the training rows of a task, judge the label distributions of its test rows.

    The multi-class Brier score is the mean of 1 − 2 p(true) + Σ p² over rows, with all nodes as classes.
    """
    from vpunn.datasets.tasks import load_task
    from vpunn.tables.fits import fit_task

    task = load_task(TASK[name], SPLIT)
    model = fit_task(TASK[name], characters=False, seed=SPLIT)
    true = task.nodes["test"]
    assert model.features is not None
    posterior = model.model.posterior(model.features.transform(task.texts["test"]))
    nodes, probability = posterior.top_k(1)
    best, confidence = nodes[:, 0], probability[:, 0]
    right = best == true
    brier = np.empty(len(true))
    of_true = np.empty(len(true))
    for part in posterior.parts():
        p = posterior.masses(part)
        of_true[part] = p[np.arange(len(p)), true[part]]
        brier[part] = 1 - 2 * of_true[part] + (p**2).sum(axis=1)
    error = calibration_error_interval(confidence, right)
    _, along = posterior.chain(best)
    curves = reliability_by_depth(
        posterior.tree, true, best, np.where(along[:, 1:] > 0, along[:, 1:], np.nan), bins=10, strategy="quantile"
    )
    return {
        "task": task.name,
        "rows": len(true),
        "accuracy": float(right.mean()),
        "ece": float(error.value),
        "ece low": float(error.low),
        "ece high": float(error.high),
        "ece by chance": float(error.noise),
        "ece mass": float(calibration_error(confidence, right, strategy="quantile")),
        "brier": float(brier.mean()),
        "brier bound": float((~right).mean() / 2),
        "nll": float(-np.log(np.maximum(of_true, 1e-300)).mean()),
        "curves": {str(k): [np.asarray(v).tolist() for v in curve] for k, curve in curves.items()},
    }


def curves_of(found: dict[str, Any]) -> dict[int, Reliability]:
    """The kept diagrams by depth, those with at least 30 rows."""
    made = {int(k): Reliability(*(np.asarray(v) for v in curve)) for k, curve in found["curves"].items()}
    return {k: curve for k, curve in made.items() if curve.n_items.sum() >= 30}


def calibration(bench: Bench, report: Report) -> None:
    """T15 at label level, with F10 and F19."""
    if bench.name not in TASK:
        report.text(
            "T15, F10 and F19 at label level need rows with features: the taxonomy has none but names, and a species' name "
            "contains its genus, which is the answer. The digit heads without input follow."
        )
        return
    found = bench.fact("T15", lambda: measure(bench.name))
    ece, brier = paper.CALIBRATION[bench.name]
    wrong = paper.least_error(bench.name)
    within = f"95 % interval {100 * found['ece low']:.2f}–{100 * found['ece high']:.2f} %"
    rows = [
        ("label: ECE, 15 equal-width bins", ece, f"{100 * found['ece']:.2f} %", within),
        ("label: ECE of exact probabilities, by chance", "", f"{100 * found['ece by chance']:.2f} %", "on so many rows"),
        ("label: ECE, equal-mass bins", "", f"{100 * found['ece mass']:.2f} %", ""),
        ("label: Brier score, multi-class", brier, round(found["brier"], 4),
         f"at least {wrong / 200:.4f} with the paper's own errors ({wrong:.2f} %, E-68); ½·error here: {found['brier bound']:.4f}"),
        ("label: negative log-likelihood, nats", "", round(found["nll"], 3), ""),
        ("label: accuracy", "", f"{100 * found['accuracy']:.1f} %", "one answer per row, nothing shown"),
    ]  # fmt: skip
    report.table(
        f"{captions('T15')} at label level, on held-out rows",
        [dict(zip(("quantity", "paper", "ours", "note"), row, strict=True)) for row in rows],
        name="T15-labels",
    )
    report.text(
        f"Protocol: {found['task']}, split {SPLIT}: HiPaNClassifier fitted on training texts, {found['rows']:,} test rows read "
        "once; a label's probability is its share of the whole distribution over nodes."
    )
    curves = curves_of(found)
    report.figure(
        f"{captions('F10')}: calibration error of the balls on the predicted path, by depth, on held-out rows (numbers: rows).",
        _by_depth(curves),
    )
    report.figure(f"{captions('F19')}: reliability at four depths, on held-out rows.", _diagrams(curves))


def _by_depth(curves: dict[int, Reliability]) -> Figure:
    from matplotlib.figure import Figure

    from vpunn import plot

    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    plot.reliability_by_depth(curves, figure.subplots())
    return figure


def _diagrams(curves: dict[int, Reliability]) -> Figure:
    """Reliability at the paper's digits where the tree has them, else at four depths from first to last."""
    from matplotlib.figure import Figure

    from vpunn import plot

    depths = np.array(sorted(curves))
    named = [k for k in DRAWN if k in curves]
    chosen = named if len(named) == 4 else depths[np.unique(np.linspace(0, len(depths) - 1, 4).astype(int))].tolist()
    figure = Figure(figsize=(3.6 * len(chosen), 3.7), layout="constrained")
    for ax, k in zip(np.atleast_1d(figure.subplots(1, len(chosen))).ravel(), chosen, strict=True):
        curve = curves[k]
        plot.reliability(curve, ax)
        ax.set_title(f"digit d{k - 1}: {int(curve.n_items.sum()):,} rows, error {100 * curve.ece:.1f} %", fontsize=9)
    return figure
