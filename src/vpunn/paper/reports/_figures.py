"""Figures of the hierarchy reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from vpunn.metrics import Reliability


def _axes(width: float, height: float) -> tuple[Figure, Any]:
    """A figure without pyplot, so that nothing global is opened or left open."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def convergence(runs: Mapping[str, Any]) -> Figure:
    """Loss above the optimum against epochs, both logarithmic."""
    figure, axes = _axes(7, 4)
    for label, run in runs.items():
        gap = np.maximum(run.history - run.optimum, 1e-9)
        axes.plot(np.arange(1, len(gap) + 1), gap, label=label, linewidth=1.6)
    axes.set(xscale="log", yscale="log", xlabel="epoch + 1", ylabel="cross-entropy above the optimum (nats per item)")
    axes.axhline(1e-6, color="0.6", linewidth=0.8, linestyle=":")
    axes.legend(frameon=False, fontsize=9)
    return figure


def digit_accuracy(by_head: Mapping[str, np.ndarray], said: Sequence[float]) -> Figure:
    """Accuracy by digit position for each kind of knowledge."""
    figure, axes = _axes(7, 4)
    names = {"depth": "told nothing", "markov": "told the parent digit", "node": "told the whole prefix"}
    for head, values in by_head.items():
        axes.plot(range(len(values)), values, marker="o", markersize=3, label=f"ceiling, {names[head]}")
    if said:
        axes.plot(range(len(said)), said, color="black", linestyle="--", marker="x", label="paper (T21)")
    axes.set(xlabel="digit k (0 = root's choice)", ylabel="accuracy %, real digits only", ylim=(0, 104))
    axes.legend(frameon=False, fontsize=9)
    return figure


def digit_protocols(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """T21 as curves: accuracy by position under each protocol, with the share of padding as a shade."""
    figure, axes = _axes(7, 4)
    k = [row["k"] for row in rows]
    axes.fill_between(k, [row["padding"] for row in rows], color="0.9", label="share of padding", linewidth=0)
    for name, style in (("shown", "C3o-"), ("honest", "C0o-"), ("ceiling", "k--")):
        values = [float(str(row[name]).split(" ")[0]) for row in rows]
        axes.plot(k, values, style, markersize=3, linewidth=1.4, label=name)
    axes.set(xlabel="digit k (0 = root's choice)", ylabel="right, %", ylim=(0, 104))
    axes.legend(frameon=False, fontsize=9)
    return figure


def reliability(curve: Reliability) -> Figure:
    """Accuracy against confidence per bin."""
    figure, axes = _axes(4.6, 4.4)
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    share = curve.n_items / curve.n_items.sum()
    axes.scatter(curve.confidence, curve.accuracy, s=20 + 900 * share, alpha=0.6)
    axes.set(xlabel="confidence", ylabel="share right", xlim=(0, 1.02), ylim=(0, 1.02), aspect="equal")
    return figure
