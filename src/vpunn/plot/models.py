"""Pictures of models: how sure and how right, what is taken for what, how training went, which branches made a number."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.plot._style import (
    FAINT,
    GRID,
    INK,
    PALETTE,
    axes_for,
    by_depth,
    explain_nothing,
    integer_ticks,
    legend,
    short,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from vpunn.metrics import Reliability, RiskCoverage


def reliability(
    curve: Reliability | None, ax: Axes | None = None, *, label: str | None = None, colour: Any = None
) -> Axes:
    """Share right against confidence, one dot per bin, with the 95 % band that exact probabilities would stay in (None: no rows).

    Dots are as large as their share of the items.
    """
    ax = axes_for(ax, (4.4, 4.2))
    if curve is None:
        return explain_nothing(ax, "nothing was answered with a probability")
    c, n = np.asarray(curve.confidence), np.asarray(curve.n_items)
    ax.plot([0, 1], [0, 1], color=FAINT, linewidth=1)
    half = 1.96 * np.sqrt(np.maximum(c * (1 - c), 1e-12) / n)
    ax.vlines(c, np.maximum(c - half, 0), np.minimum(c + half, 1), color=GRID, linewidth=7, zorder=1)
    share = n / max(n.sum(), 1)
    ax.plot(c, curve.accuracy, color=colour or PALETTE[0], linewidth=0.9, zorder=2)
    ax.scatter(
        c,
        curve.accuracy,
        s=14 + 260 * share,
        color=colour or PALETTE[0],
        edgecolor="white",
        linewidth=0.6,
        zorder=3,
        label=label,
        clip_on=False,  # a dot at 1 is whole
    )
    ax.set(xlabel="confidence", ylabel="share right", xlim=(-0.02, 1.02), ylim=(-0.02, 1.04))
    ax.set_aspect("equal")
    legend(ax, loc="upper left")
    return ax


def reliability_by_depth(curves: Mapping[int, Reliability], ax: Axes | None = None) -> Axes:
    """Expected calibration error of the branches at every depth (bars), and what exact ones would show by chance (line)."""
    ax = axes_for(ax)
    if not curves:
        return explain_nothing(ax, "no prediction reaches below the root")
    depths = np.array(list(curves))
    seen = np.array([curves[k].ece for k in depths.tolist()]) * 100
    chance = np.array([chance_error(curves[k]) for k in depths.tolist()]) * 100
    ax.bar(depths, seen, color=PALETTE[0], width=0.7, label="seen")
    ax.plot(
        depths,
        chance,
        color=PALETTE[5],
        marker="_",
        markersize=14,
        linewidth=0,
        markeredgewidth=2,
        label="exact probabilities, by chance",
    )
    top = float(max(seen.max(), chance.max())) * 1.2 + 1e-9
    for k, value, n in zip(depths, seen, (int(curves[k].n_items.sum()) for k in depths.tolist()), strict=True):
        ax.annotate(
            f"{n:,}",
            (k, value),
            xytext=(0, 6),
            textcoords="offset points",
            ha="center",
            fontsize=7,
            color=INK,
            rotation=90 if len(depths) > 12 else 0,
        )
    ax.set(xlabel="depth of the branch (numbers: items)", ylabel="expected calibration error, %", ylim=(0, top * 1.1))
    integer_ticks(ax)
    legend(ax)
    return ax


def chance_error(curve: Reliability) -> float:
    """Mean of the calibration error if every bin's items were right with exactly its mean confidence (normal approximation)."""
    spread = np.sqrt(np.maximum(curve.confidence * (1 - curve.confidence), 0.0) / curve.n_items)
    return float(np.sum(curve.n_items * spread * np.sqrt(2 / np.pi)) / curve.n_items.sum())


def risk_coverage(
    curve: RiskCoverage, ax: Axes | None = None, *, label: str = "answered by confidence", colour: Any = None
) -> Axes:
    """Share of wrong answers among the most confident items, as more of them are answered; at random, the line is flat."""
    ax = axes_for(ax, (5.2, 3.8))
    ax.plot(
        curve.coverage, curve.risk, color=colour or PALETTE[0], linewidth=1.8, label=f"{label} (area {curve.area:.3f})"
    )
    ax.axhline(
        curve.risk[-1], color=FAINT, linestyle="--", linewidth=1, label=f"answered at random: {curve.risk[-1]:.2f}"
    )
    ax.set(xlabel="share of items answered", ylabel="share of them wrong", xlim=(0, 1.01), ylim=(0, None))
    legend(ax, loc="best")
    return ax


def predicted(mean: Any, truth: Any, half: Any = None, ax: Axes | None = None, *, most: int = 2000) -> Axes:
    """Truth against prediction, a dot per row and, with ``half``, a bar of that much either way.

    Of more than ``most`` rows evenly spaced ones are drawn, in the order of their predictions.
    """
    ax = axes_for(ax, (4.8, 4.4))
    x, y = np.asarray(mean, float), np.asarray(truth, float)
    order = np.argsort(x, kind="stable")
    rows = order[np.unique(np.linspace(0, len(x) - 1, min(len(x), most)).astype(int))]
    if half is not None:
        wide = np.asarray(half, float)[rows]
        thick = float(np.clip(400 / len(np.unique(x[rows])), 1.0, 8.0))
        ax.vlines(x[rows], x[rows] - wide, x[rows] + wide, color=GRID, linewidth=thick, zorder=1)
    ends = float(min(x[rows].min(), y[rows].min())), float(max(x[rows].max(), y[rows].max()))
    ax.plot(ends, ends, color=FAINT, linewidth=1, zorder=2)
    ax.scatter(x[rows], y[rows], s=10, color=PALETTE[0], alpha=0.7, linewidth=0, zorder=3)
    ax.set(xlabel="prediction", ylabel="truth")
    if len(rows) < len(x):
        ax.set_title(f"{len(rows):,} of {len(x):,} rows", fontsize=9, color=INK)
    return ax


def confusion(triage: Any, ax: Axes | None = None, *, depth: int = 1, largest: int = 14) -> Axes:
    """Truth against answer for the branches at a depth, each row in per cent; branches beyond the ``largest`` are one."""
    ax = axes_for(ax, (6.2, 5.4))
    balls, table = triage.matrix(depth)
    names = [short(triage.names[ball], 22) for ball in balls.tolist()]
    if len(balls) > largest:
        order = np.argsort(-(table.sum(0) + table.sum(1)), kind="stable")
        keep, rest = np.sort(order[: largest - 1]), order[largest - 1 :]
        small = np.zeros((largest, largest), np.int64)
        small[:-1, :-1] = table[np.ix_(keep, keep)]
        small[-1, :-1], small[:-1, -1] = table[np.ix_(rest, keep)].sum(0), table[np.ix_(keep, rest)].sum(1)
        small[-1, -1] = table[np.ix_(rest, rest)].sum()
        table, names = small, [*(names[i] for i in keep.tolist()), f"{len(rest):,} others"]
    share = 100 * table / np.maximum(table.sum(1, keepdims=True), 1)
    ax.imshow(share, cmap="Blues", vmin=0, vmax=100)
    for i, j in zip(*np.nonzero(table), strict=True):
        text = f"{share[i, j]:.0f}" if share[i, j] >= 0.5 else "·"
        ax.text(j, i, text, ha="center", va="center", fontsize=8, color="white" if share[i, j] > 55 else INK)
    ax.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor", fontsize=8)
    ax.set_yticks(
        range(len(names)), [f"{name} ({n:,})" for name, n in zip(names, table.sum(1).tolist(), strict=True)], fontsize=8
    )
    ax.set(xlabel="answer", ylabel="truth (rows)", title="% of the rows of a true branch")
    ax.title.set_fontsize(10)
    return ax


def descent(histories: Mapping[str, Any], ax: Axes | None = None, *, optimum: float | None = None) -> Axes:
    """Loss of one or several `VapoResult`s over epochs (F7): above the ``optimum`` on a logarithmic axis where that is known."""
    ax = axes_for(ax)
    for (name, run), colour in zip(histories.items(), PALETTE, strict=False):
        history = np.asarray(getattr(run, "history", run), float)
        y = history if optimum is None else np.maximum(history - optimum, 1e-12)
        ax.plot(np.arange(1, len(y) + 1), y, color=colour, linewidth=1.6, label=name)
    if optimum is not None:
        ax.set_yscale("log")
    ax.set(xscale="log", xlabel="epoch + 1", ylabel="loss" if optimum is None else "loss above the optimum")
    legend(ax)
    return ax


def levels(progress: Any, ax: Axes | None = None, *, ylabel: str = "accuracy of digit k") -> Axes:
    """Something measured by digit after some epochs: ``progress`` maps a name to one number per digit; one line each."""
    ax = axes_for(ax)
    for (name, values), colour in zip(progress.items(), by_depth(len(progress)), strict=True):
        ax.plot(range(len(values)), values, color=colour, marker="o", markersize=3, label=name)
    ax.set(xlabel="digit k (0 = the root's choice)", ylabel=ylabel)
    integer_ticks(ax)
    legend(ax)
    return ax


def activation(explanation: Any, ax: Axes | None = None) -> Axes:
    """The balls around an answer, root first: what each adds to the score (bars) and how probable it is (line).

    Takes an `Explanation` of `vpunn.explain`, or a list of (name, contribution, probability or None).
    """
    if hasattr(explanation, "balls"):
        steps = [(f"stop at {b.label}" if b.stops_here else b.label, b.head, b.probability) for b in explanation.balls]
    else:
        steps = list(explanation)
    ax = axes_for(ax, (6.4, 0.9 + 0.42 * len(steps)))
    if not steps:
        return explain_nothing(ax, "no branches to show")
    value = np.array([0.0 if step[1] is None else step[1] for step in steps])
    ax.barh(range(len(steps)), value, color=[PALETTE[0] if v >= 0 else PALETTE[5] for v in value], height=0.6)
    names = [short(name, 30) for name, _, _ in steps]
    ax.set_yticks(range(len(steps)), names, fontsize=9)
    ax.axvline(0, color=INK, linewidth=0.8)
    span = max(np.ptp(np.append(value, 0.0)), 1e-9)
    for i, (_, _, p) in enumerate(steps):
        if p is not None:
            ax.text(max(value.max(), 0) + 0.06 * span, i, f"P = {p:.2f}", va="center", fontsize=8.5, color=INK)
    ax.set(
        xlabel="what the branch adds to the score",
        xlim=(min(value.min(), 0) - 0.05 * span, max(value.max(), 0) + 0.35 * span),
    )
    ax.invert_yaxis()
    return ax


def latent_tree(encoder: Any, ax: Axes | None = None, *, depth: int = 3) -> Axes:
    """Balls of a `LatentTreeEncoder` as boxes, one band per level, as wide as their share of the rows, with what sets each apart.

    Boxes too narrow for words carry their label or nothing.
    """
    from matplotlib import colormaps

    tree = encoder.tree_
    rows = tree.columns["rows"].astype(float)
    depth = min(depth, tree.max_depth)
    # a ball starts where its parent starts plus the rows of its elder siblings
    left = np.zeros(tree.n_nodes)
    used = np.zeros(tree.n_nodes)
    for ball in range(1, tree.n_nodes):
        up = tree.parent[ball]
        left[ball] = left[up] + used[up]
        used[up] += rows[ball]
    ax = axes_for(ax, (11.0, 1.0 + 1.25 * (depth + 1)))
    colours = colormaps["tab10"]
    for node in map(int, np.flatnonzero(tree.depth <= depth)):
        k, share = int(tree.depth[node]), rows[node] / rows[0]
        family = int(tree.digit[tree.ancestor_at(node, 1)]) - 1 if k else 7
        colour = (*colours(family % 10)[:3], 0.75 - 0.15 * min(k, 4))
        ax.barh(-k, rows[node], left=left[node], height=0.94, facecolor=colour, edgecolor="white", linewidth=1.5)
        wide = int(150 * share)  # letters that fit on a line at this font size
        if wide < 3:
            continue
        text = f"{tree.labels[node]} ({share:.0%})"
        if wide >= 14:
            text = f"{tree.labels[node]}: {rows[node]:,.0f} rows ({share:.0%})"
            if k:
                words = encoder.describe(node, columns=3 if wide > 30 else 2).sentence()
                text += "\n" + "\n".join(fill(words, wide).splitlines()[:4])
        elif wide < 9:
            text = str(tree.labels[node]) if wide >= len(str(tree.labels[node])) else ""
        ax.text(left[node] + rows[node] / 2, -k, text, ha="center", va="center", fontsize=7.5)
    ax.set(xlim=(0, rows[0]), xlabel="rows")
    ax.set_yticks([-k for k in range(depth + 1)], ["all rows", *(f"digit {k}" for k in range(1, depth + 1))])
    ax.spines["left"].set_visible(False)
    ax.tick_params(left=False)
    return ax
