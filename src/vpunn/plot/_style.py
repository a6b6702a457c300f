"""One look for all pictures: dark text on a light ground, colours that colour-blind readers can tell apart, named axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

    from vpunn.tree import Nodes

#: Eight colours of Okabe and Ito, safe for the common kinds of colour blindness; black comes last.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A100", "#222222")
INK = "#1b1f24"
FAINT = "#8a929b"
GRID = "#e3e6ea"


def axes_for(ax: Axes | None, size: tuple[float, float] = (6.4, 4.0), *, bare: bool = False) -> Axes:
    """The axes given, or those of a new figure; with a frame of two sides, or none if ``bare``.

    In a notebook (an interactive backend) a new figure is pyplot's, so that it is shown; elsewhere nothing global is
    opened or left open.
    """
    if ax is None:
        import matplotlib

        if matplotlib.is_interactive():
            import matplotlib.pyplot as plt

            ax = plt.figure(figsize=size, layout="constrained").subplots()
        else:
            from matplotlib.figure import Figure

            ax = Figure(figsize=size, layout="constrained").subplots()
    if bare:
        ax.set_axis_off()
    else:
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color(FAINT)
        ax.tick_params(colors=INK, labelsize=9)
        ax.set_axisbelow(True)
    return ax


def colours(count: int) -> list[Any]:
    """``count`` colours: the palette, then lighter and darker copies of it."""
    from matplotlib.colors import to_rgb

    out: list[Any] = []
    for i in range(count):
        base = np.array(to_rgb(PALETTE[i % len(PALETTE)]))
        turn = i // len(PALETTE)
        mix = (0.0, 0.45, -0.35)[turn % 3]
        out.append(tuple(base + mix * (1 - base)) if mix >= 0 else tuple(base * (1 + mix)))
    return out


def depth_map(light: bool = False) -> Colormap:
    """The colour scale for ordered quantities such as depth; cut at the bright end, which paper does not show."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps["viridis"](np.linspace(0.0, 0.98 if light else 0.9, 256)))


def by_depth(count: int) -> list[Any]:
    """One colour per depth, dark to bright."""
    return [depth_map()(x) for x in np.linspace(0, 1, max(count, 1))]


def legend(ax: Axes, **options: Any) -> None:
    """A legend without a frame, if there is anything to name."""
    if ax.get_legend_handles_labels()[1]:
        ax.legend(**{"fontsize": 8.5, "facecolor": "white", "edgecolor": "none", "framealpha": 0.9, **options})


def integer_ticks(ax: Axes, axis: str = "x") -> None:
    """Whole numbers on an axis that counts."""
    from matplotlib.ticker import MaxNLocator

    getattr(ax, f"{axis}axis").set_major_locator(MaxNLocator(integer=True))


def short(text: Any, letters: int) -> str:
    """At most so many letters, the rest an ellipsis."""
    words = str(text)
    return words if len(words) <= letters else words[: max(letters - 1, 1)] + "…"


def explain_nothing(ax: Axes, sentence: str) -> Axes:
    """Where there is nothing to draw, the reason stands in the picture."""
    from textwrap import fill

    ax.set_axis_off()
    ax.text(0.5, 0.5, fill(sentence, 46), ha="center", va="center", transform=ax.transAxes, color=INK)
    return ax


def names_of(tree: Any, nodes: Nodes, column: str | None = None) -> Sequence[str]:
    """What people call the nodes (`Tree.names`, or another column), as a picture writes it."""
    ids = np.atleast_1d(nodes)
    if column is None or column not in tree.columns:
        found = tree.names[ids].tolist()
    else:
        pairs = zip(tree.columns[column][ids], tree.names[ids], strict=True)
        found = [str(value) if value else name for value, name in pairs]
    return [text.replace("$", r"\$") for text in found]
