"""Pictures of identifiers: which invariant singles out each group, and how pure recovered digits are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.hipaq import Catalogue
from vpunn.hipaq.invariants import TIE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GREYS = ("#e4e7eb", "#cdd2d9")


def plot_groups(groups: Catalogue) -> Figure:
    """The tree as an icicle: row k holds the classes after k digits, a coloured cell is a group alone in its class."""
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    tree = groups.tree
    depth, n = tree.max_depth, tree.n_leaves
    alone_at = np.array([groups.separating_digit()[name] for name in tree.labels[tree.leaves]])
    levels = np.arange(1, depth + 1)[:, None]
    path = tree.paths(tree.leaves)[:, 1:].T
    chain = np.where(path >= 0, path, tree.leaves)
    together = alone_at > levels
    starts = (np.diff(chain, axis=1, prepend=-1) != 0) & together
    cells = np.where(together, np.cumsum(starts, axis=1) % 2, alone_at + 1)  # neighbouring classes in two greys

    figure = Figure(figsize=(11, 5), layout="constrained")
    axes = figure.subplots()
    used = np.unique(alone_at)
    palette = _digit_colours(depth)
    axes.imshow(
        cells,
        aspect="auto",
        interpolation="nearest",
        cmap=ListedColormap([*GREYS, *palette]),
        vmin=-0.5,
        vmax=depth + 1.5,
    )
    names = [*groups.invariants.cascade, TIE][:depth]
    axes.set_yticks(range(depth), [f"{k}  {name}" for k, name in enumerate(names, 1)])
    orders = np.array([name[0] for name in tree.labels[tree.leaves]])
    crowded = [order for order in np.unique(orders) if (orders == order).sum() >= 25]
    axes.set_xticks([float(np.flatnonzero(orders == order).mean()) for order in crowded], crowded)
    axes.set_xlabel(f"{n:,} groups, in the order of their codes; ticks: orders with 25 groups or more")
    counts = {int(k): int((alone_at == k).sum()) for k in used}
    handles = [Patch(color=GREYS[0], label="still together")] + [
        Patch(color=palette[k - 1], label=f"{names[k - 1]}: {counts[k]}") for k in counts
    ]
    axes.legend(handles=handles, title="singled out by", loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    axes.set_title("Which invariant singles out each group of order ≤ 125", loc="left")
    return figure


def _digit_colours(count: int) -> list[Any]:
    from matplotlib import colormaps

    return [colormaps["turbo"](x) for x in np.linspace(0.05, 0.95, count)]


def plot_purity(rows: list[dict[str, Any]]) -> Figure:
    """Purity against noise, one panel per method, one line per digit, chance dotted."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    notes = {"staged": "staged, number of clusters found", "Ward": "Ward on everything, true numbers given"}
    for axes, (method, note) in zip(panels, notes.items(), strict=True):
        for digit, colour in ((1, "#0b6fb8"), (2, "#d1632a"), (3, "#3b8f4e")):
            mine = [row for row in rows if row["method"] == method and row["digit"] == digit]
            x, y, sd = (np.array([row[key] for row in mine]) for key in ("noise", "purity", "sd"))
            name = ("n", "n, ℓ", "n, ℓ, m")[digit - 1]
            axes.plot(x, y, "o-", ms=3.5, color=colour, label=f"{digit} digit{'s' * (digit > 1)} ({name})")
            axes.fill_between(x, y - sd, y + sd, color=colour, alpha=0.2, lw=0)
            axes.plot(x, [row["chance"] for row in mine], ":", color=colour)
        axes.set_title(note, loc="left")
        axes.set_xlabel("measurement error")
        axes.grid(alpha=0.25)
    panels[0].set_ylabel("purity (dotted: chance)")
    panels[0].set_ylim(0, 1.03)
    panels[0].legend(frameon=False)
    return figure
