"""Diagrams drawn from our own objects: geometries of hierarchies, a v-PuNN at work on one item, a network beside it; and UMAP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._types import Features, Numbers
from vpunn.errors import VpunnError
from vpunn.plot._style import FAINT, INK, PALETTE, axes_for, colours, legend, names_of, short
from vpunn.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EUCLIDEAN = (
    "Euclidean space $R^d$\nn leaves of any ultrametric fit exactly\nin $n-1$ dimensions; path distances of\n"
    "trees only with distortion ~ $\\sqrt{\\log\\log n}$"
)
HYPERBOLIC = (
    "Hyperbolic space $H^d$\nroom grows exponentially, so trees fit\nwith little distortion even for d = 2,\n"
    "if coordinates have enough bits"
)
P_ADIC = (
    "p-adic integers $Z_p$\ndistance $p^{-\\nu}$, ν = depth of the common ancestor\n"
    "exact for every tree with branching < p, in integers;\none ball = one subtree"
)


def _write_box(
    ax: Axes, x: float, y: float, text: str, colour: str, *, width: float = 0.26, height: float = 0.2, size: float = 8.5
) -> None:
    from matplotlib.patches import FancyBboxPatch

    shape = FancyBboxPatch(
        (x - width / 2, y - height / 2),
        width,
        height,
        boxstyle="round,pad=0.012",
        facecolor=colour + "22",
        edgecolor=colour,
        linewidth=1.2,
    )
    ax.add_patch(shape)
    ax.text(x, y, text, ha="center", va="center", fontsize=size, color=INK, linespacing=1.35)


def _arrow(
    ax: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    text: str = "",
    *,
    shift: tuple[float, float] = (0, 0.03),
) -> None:
    ax.annotate("", end, xytext=start, arrowprops={"arrowstyle": "-|>", "color": FAINT, "linewidth": 1.2})
    if text:
        ax.text(
            (start[0] + end[0]) / 2 + shift[0],
            (start[1] + end[1]) / 2 + shift[1],
            text,
            ha="center",
            va="center",
            fontsize=8,
            color=INK,
        )


def geometries(ax: Axes | None = None) -> Axes:
    """Three homes for a hierarchy and what each can hold, without the errors of the paper's landscape (E-56)."""
    ax = axes_for(ax, (8.4, 4.6), bare=True)
    _write_box(
        ax,
        0.2,
        0.75,
        EUCLIDEAN,
        PALETTE[0],
        width=0.36,
        height=0.26,
    )
    _write_box(
        ax,
        0.8,
        0.75,
        HYPERBOLIC,
        PALETTE[5],
        width=0.36,
        height=0.26,
    )
    _write_box(
        ax,
        0.5,
        0.2,
        P_ADIC,
        PALETTE[2],
        width=0.46,
        height=0.26,
    )
    _arrow(ax, (0.385, 0.75), (0.615, 0.75), "negative\ncurvature", shift=(0, 0.075))
    _arrow(ax, (0.78, 0.61), (0.66, 0.34), "keep only who\nshares an ancestor", shift=(0.15, -0.01))
    _arrow(ax, (0.34, 0.34), (0.22, 0.61), "one coordinate\nper merge", shift=(-0.13, 0.0))
    ax.set(xlim=(0, 1), ylim=(0.02, 0.95))
    return ax


def architecture(
    tree: Tree, node: int, coefficients: Numbers | None = None, ax: Axes | None = None, *, column: str | None = None
) -> Axes:
    """A v-PuNN at work on one item: its balls light up, their coefficients add up, its digits make the code.

    ``coefficients`` has one number per node (`VPuNN.coefficients_`); without it only the balls and digits are drawn.
    """
    from vpunn.padic import next_prime

    chain = tree.ancestors(node).tolist()
    if len(chain) > 7:
        chain = [*chain[:4], *chain[-3:]]
    c = None if coefficients is None else np.asarray(coefficients, float)
    p = next_prime(tree.max_branching + 1)
    ax = axes_for(ax, (9.0, 0.9 + 0.72 * len(chain)), bare=True)
    rows = np.linspace(0.9, 0.14, len(chain))
    gap = float(rows[0] - rows[1]) if len(chain) > 1 else 0.15
    _write_box(
        ax, 0.09, 0.52, f"item x\n{short(names_of(tree, node, column)[0], 16)}", PALETTE[7], width=0.14, height=0.18
    )
    for y, ball, text in zip(rows, chain, names_of(tree, chain, column), strict=True):
        k = int(tree.depth[ball])
        _arrow(ax, (0.165, 0.52), (0.24, y))
        _write_box(
            ax,
            0.36,
            y,
            f"$\\chi_{{B_{{{k}}}}}$(x) = 1   {short(text, 22)}",
            PALETTE[0],
            width=0.235,
            height=0.62 * gap,
            size=8,
        )
        if c is not None:
            _arrow(ax, (0.482, y), (0.53, y))
            _write_box(
                ax, 0.6, y, f"$c_{{B_{{{k}}}}}$ = {c[ball]:+.3g}", PALETTE[2], width=0.125, height=0.62 * gap, size=8
            )
            _arrow(ax, (0.668, y), (0.715, 0.52))
        if k:
            ax.text(
                0.995,
                y,
                f"$a_{{{k - 1}}}$ = {tree.digit[ball]}  ×  {p}$^{{{k - 1}}}$",
                ha="right",
                va="center",
                fontsize=8.5,
                color=INK,
            )
    if c is not None:
        total = float(c[tree.ancestors(node)].sum())
        _write_box(ax, 0.77, 0.52, f"F(x) = Σ c\n= {total:.3g}", PALETTE[5], width=0.105, height=0.18)
    ax.text(0.995, 0.985, "digits of the code", ha="right", va="top", fontsize=8.5, color=FAINT)
    if len(tree.ancestors(node)) > len(chain):
        ax.text(0.36, (rows[3] + rows[4]) / 2, "⋮", ha="center", va="center", fontsize=11, color=INK)
    ax.set(xlim=(0, 1), ylim=(0.02, 1.0))
    return ax


def versus(tree: Tree, ax: Axes | None = None, *, inputs: int = 8, hidden: int = 12) -> Axes:
    """A dense network beside a v-PuNN on the same tree: every weight touches every input, or one coefficient one subtree."""
    ax = axes_for(ax, (9.0, 4.2), bare=True)
    left = [(0.05, y) for y in np.linspace(0.12, 0.78, inputs)]
    middle = [(0.2, y) for y in np.linspace(0.06, 0.84, hidden)]
    for a in left:
        for b in middle:
            ax.plot([a[0], b[0]], [a[1], b[1]], color=FAINT, linewidth=0.3, zorder=1)
    for b in middle:
        ax.plot([b[0], 0.35], [b[1], 0.45], color=FAINT, linewidth=0.5, zorder=1)
    for points, colour in ((left, PALETTE[7]), (middle, PALETTE[0]), ([(0.35, 0.45)], PALETTE[5])):
        at = np.array(points)
        ax.scatter(at[:, 0], at[:, 1], s=46, color=colour, zorder=2)
    ax.text(0.2, 0.97, "dense network", ha="center", va="top", fontsize=11, weight="bold", color=INK)
    ax.text(
        0.2,
        0.905,
        "f(x) ≈ Σ aᵢ σ(wᵢ·x + bᵢ): a weight belongs to no part of the data",
        ha="center",
        va="top",
        fontsize=8,
        color=INK,
    )
    kept, at_x = _largest_children(tree)
    x, y = 0.54 + 0.44 * at_x, 0.78 - 0.2 * tree.depth
    path = [0]  # the balls around one item: down the largest
    while len(below := kept[tree.parent[kept] == path[-1]]):
        path.append(int(below[np.argmax(tree.leaf_counts[below])]))
    for node in kept[1:].tolist():
        up, on = tree.parent[node], node in path
        ax.plot([x[up], x[node]], [y[up], y[node]], color=PALETTE[5 if on else 2], linewidth=2 if on else 0.9, zorder=1)
    shade = [PALETTE[5] if node in path else PALETTE[2] for node in kept.tolist()]
    ax.scatter(x[kept], y[kept], s=46, color=shade, zorder=2)
    ax.text(0.74, 0.97, "v-PuNN", ha="center", va="top", fontsize=11, weight="bold", color=INK)
    ax.text(
        0.74,
        0.905,
        f"F(x) = Σ c_B over the balls around x, exact: {tree.n_nodes:,} balls, one number each",
        ha="center",
        va="top",
        fontsize=8,
        color=INK,
    )
    ax.set(xlim=(0, 1.02), ylim=(0, 1))
    for node, name in zip(path, names_of(tree, np.array(path)), strict=True):
        said = {"ha": "right", "va": "bottom"} if node != path[-1] or node == 0 else {"ha": "center", "va": "top"}
        place = (
            (x[node] - 0.014, y[node]) if said["ha"] == "right" else (x[node], y[node] - 0.035)
        )  # siblings beside it
        ax.text(*place, short(name, 18), fontsize=8, color=INK, ha=said["ha"], va=said["va"])
    return ax


def _largest_children(tree: Tree, most: tuple[int, ...] = (3, 3, 2)) -> tuple[np.ndarray, np.ndarray]:
    """The largest few children of the largest few children, in preorder, and a place in [0, 1] for each: tips evenly spread."""
    kept, level = [0], [0]
    for count in most:
        found = [tree.children(node) for node in level]
        level = [int(i) for c in found for i in np.sort(c[np.argsort(-tree.leaf_counts[c], kind="stable")[:count]])]
        kept += level
    order = np.sort(np.array(kept))
    parents = set(tree.parent[order].tolist())
    tips = [node for node in order.tolist() if node not in parents]
    x = np.full(tree.n_nodes, np.nan)
    x[tips] = np.linspace(0, 1, len(tips)) if len(tips) > 1 else 0.5
    for node in order[::-1].tolist():
        if node in parents:
            x[node] = x[order[tree.parent[order] == node]].mean()
    return order, x


def umap(rows: Features, groups: Any, ax: Axes | None = None, *, names: Any = None, seed: int = 0) -> Axes:
    """UMAP of a numeric table (columns standardised), coloured by group. Needs umap-learn (``pip install 'vpunn[figures]'``)."""
    try:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # umap warns about a tensorflow it does not need
            from umap import UMAP
    except ImportError as error:
        raise VpunnError("UMAP needs umap-learn: pip install 'vpunn[figures]'.") from error
    table = np.asarray(rows, float)
    table = (table - table.mean(0)) / np.maximum(table.std(0), 1e-12)
    group = np.asarray(groups)
    if len(group) != len(table):
        raise VpunnError(f"umap needs one group per row: got {len(group):,} groups for {len(table):,} rows.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one worker, because the seed is fixed: what was asked for
        at = np.asarray(UMAP(random_state=seed, n_jobs=1).fit_transform(table))
    ax = axes_for(ax, (5.6, 4.8))
    values = np.unique(group)
    for value, colour in zip(values, colours(len(values)), strict=True):
        here = group == value
        label = str(names[value]) if names is not None else f"digit {value}"
        ax.scatter(
            at[here, 0],
            at[here, 1],
            s=5,
            color=colour,
            linewidths=0,
            alpha=0.7,
            rasterized=len(at) > 2000,
            label=f"{label} ({int(here.sum()):,})",
        )
    ax.set(xlabel="UMAP 1 (no unit)", ylabel="UMAP 2 (no unit)")
    legend(ax, markerscale=3)
    return ax
