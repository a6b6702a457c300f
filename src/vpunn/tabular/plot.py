"""A picture of a latent tree: balls as boxes, as wide as their share of the rows, with what sets each apart."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from vpunn.tabular.encoder import LatentTreeEncoder

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_balls(encoder: LatentTreeEncoder, depth: int = 3) -> Figure:
    """Balls down to ``depth``, one band per level; boxes too narrow for words carry their label or nothing."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

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
    figure = Figure(figsize=(11.0, 1.0 + 1.25 * (depth + 1)), layout="constrained")
    axis = figure.subplots()
    colours = colormaps["tab10"]
    for node in map(int, np.flatnonzero(tree.depth <= depth)):
        k, share = int(tree.depth[node]), rows[node] / rows[0]
        family = int(tree.digit[tree.ancestor_at(node, 1)]) - 1 if k else 7
        colour = (*colours(family % 10)[:3], 0.75 - 0.15 * min(k, 4))
        axis.barh(-k, rows[node], left=left[node], height=0.94, facecolor=colour, edgecolor="white", linewidth=1.5)
        wide = int(150 * share)  # letters that fit on a line at this font size
        if wide < 3:
            continue
        text = f"{tree.labels[node]} ({share:.0%})"
        if wide >= 14:
            text = f"{tree.labels[node]}: {int(rows[node]):,} rows ({share:.0%})"
            if k:
                words = encoder.describe(node, columns=3 if wide > 30 else 2).sentence()
                text += "\n" + "\n".join(fill(words, wide).splitlines()[:4])
        elif wide < 9:
            text = str(tree.labels[node]) if wide >= len(str(tree.labels[node])) else ""
        axis.text(left[node] + rows[node] / 2, -k, text, ha="center", va="center", fontsize=7.5)
    axis.set(xlim=(0, rows[0]), xlabel="rows")
    axis.set_yticks([-k for k in range(depth + 1)], ["all rows", *(f"digit {k}" for k in range(1, depth + 1))])
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.tick_params(left=False)
    return figure
