"""Pictures of what `vpunn.structure` finds, one per kind of finding."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import VpunnError, counted
from vpunn.plot._branches import OTHER
from vpunn.plot._names import write_labels
from vpunn.plot._style import (
    FAINT,
    GRID,
    INK,
    PALETTE,
    axes_for,
    by_depth,
    colours,
    depth_map,
    explain_nothing,
    integer_ticks,
    legend,
    names_of,
    short,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from vpunn import structure as s

#: Scatter plots of more points than this are drawn as pixels inside a vector file.
MANY = 2_000


def finding(result: Any, ax: Axes | None = None, **options: Any) -> Axes:
    """Draw any finding of `vpunn.structure`; results call this from their ``.plot()``."""
    draw = _DRAW.get(type(result).__name__)
    if draw is None:
        raise VpunnError(f"there is no picture for a {type(result).__name__}; findings of vpunn.structure have one.")
    known = list(signature(draw).parameters)[2:]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise VpunnError(
            f"the picture of a {type(result).__name__} takes no option {unknown[0]!r}; it knows {', '.join(known) or 'none'}."
        )
    drawn: Axes = draw(result, ax, **options)
    return drawn


def branching(result: s.Branching, ax: Axes | None = None, *, depths: Any = None) -> Axes:
    """Share of inner nodes with at least b children, one line per depth, both axes logarithmic; the tail fit dashed."""
    ax = axes_for(ax)
    if len(np.unique(result.degree)) < 2:
        return explain_nothing(ax, result.verdict)
    shown = [int(k) for k in (result.depths if depths is None else depths) if (result.depth == k).any()]
    if depths is None and len(shown) > 12:
        shown = [shown[i] for i in np.unique(np.linspace(0, len(shown) - 1, 12).astype(int))]
    for k, colour in zip(shown, by_depth(len(shown)), strict=True):
        values, counts = result.at(k)
        share = np.cumsum(counts[::-1])[::-1] / counts.sum()
        ax.plot(values, share, color=colour, linewidth=1.2, marker=".", markersize=3.5, label=f"depth {k}")
    values, counts = result.total
    share = np.cumsum(counts[::-1])[::-1] / counts.sum()
    ax.plot(values, share, color=INK, linewidth=2, label="all depths")
    if result.tail is not None:
        start = share[np.searchsorted(values, result.tail.start)]
        x = np.geomspace(result.tail.start, values.max(), 30)
        slope = 1 - result.tail.alpha
        ax.plot(
            x,
            start * (x / x[0]) ** slope,
            color=PALETTE[5],
            linestyle="--",
            linewidth=1.6,
            label=f"tail fit, exponent {result.tail.alpha:.2f}",
        )
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="children b of an inner node",
        ylabel="share of inner nodes with ≥ b children",
    )
    legend(ax, ncols=2 if len(shown) > 6 else 1)
    return ax


def degree_histogram(result: s.Branching, depth: int, ax: Axes | None = None, *, bins: Any = None) -> Axes:
    """How many inner nodes of one depth have how many children, in bins that double (a panel of F18)."""
    from matplotlib.ticker import MaxNLocator

    ax = axes_for(ax, (3.2, 2.4))
    values, counts = result.at(depth)
    if len(values) == 0:
        return explain_nothing(ax, f"no inner node has depth {depth}")
    edges = degree_bins(int(result.degree.max())) if bins is None else np.asarray(bins)
    height = np.histogram(values, edges, weights=counts)[0]
    ax.bar(edges[:-1], height, width=np.diff(edges), align="edge", color=PALETTE[0], edgecolor="white", linewidth=0.6)
    ax.set(xscale="log", xlim=(edges[0], edges[-1]), xlabel="children", ylabel="inner nodes")
    mean = float(values @ counts) / counts.sum()
    ax.set_title(f"depth {depth}: {counted(int(counts.sum()), 'inner node')}, mean {mean:.1f}", fontsize=9, color=INK)
    ticks = [int(e) for e in edges if e in (1, 4, 16, 64, 256, 1024, 4096)]
    ax.set_xticks(ticks, [str(t) for t in ticks])
    ax.minorticks_off()
    ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    return ax


def degree_bins(largest: int) -> np.ndarray:
    """Edges 1, 2, 4, 8 and so on past the largest degree."""
    return 2.0 ** np.arange(int(np.log2(max(largest, 4))) + 2)


def box_counting(result: s.BoxCount, ax: Axes | None = None, *, claimed: float | None = None) -> Axes:
    """log_p N(k) against k, which is log_p 1/ε: the fitted slope, the largest possible one, and (if given) a claimed one."""
    ax = axes_for(ax)
    k = np.arange(len(result.counts))
    y = np.log(result.counts) / np.log(result.p)
    if len(k) > 1:
        edge = k[k <= max(2.2 * y.max(), 1.0)]
        ax.fill_between(edge, edge, y.max() * 1.6 + 1, color=GRID, linewidth=0, label="impossible: slope above 1")
        if claimed is not None:
            short_k = np.array([0.0, min(1.6 * y.max() / claimed, k[-1])])
            ax.plot(
                short_k,
                claimed * short_k,
                color=PALETTE[5],
                linestyle=":",
                linewidth=1.6,
                label=f"slope {claimed:g}, as the paper claims",
            )
    ax.plot(k, y, marker="o", markersize=4, linewidth=1, color=PALETTE[0], label="N(k) branches, k steps down")
    if result.fit is not None and result.slope is not None:
        a, b = result.fit
        x = np.arange(a, b + 1)
        line = y[x].mean() + result.slope * (x - x.mean())
        low, high = result.interval or (result.slope, result.slope)
        ax.plot(
            x, line, color=INK, linewidth=2, label=f"slope {result.slope:.3f} [{low:.3f}, {high:.3f}], k = {a} to {b}"
        )
    ax.set(
        xlabel=f"k = $\\log_p(1/\\epsilon)$,  p = {result.p}",
        ylabel="$\\log_p N(k)$",
        ylim=(0, max(y.max() * 1.6, 0.5)),
    )
    ax.set_xlim(-0.2, max(k[-1], 1) + 0.2)
    integer_ticks(ax)
    legend(ax, loc="lower right")
    return ax


def entropy(result: s.Entropy, ax: Axes | None = None) -> Axes:
    """Bits by digit: of the digit alone, given the digits before it, and of the whole prefix; log2 p dashed."""
    ax = axes_for(ax)
    k = np.arange(len(result.digit))
    if len(k) == 0:
        return explain_nothing(ax, result.verdict)
    ax.plot(
        k,
        result.prefix[1:],
        color=FAINT,
        marker="s",
        markersize=3.5,
        label="$H(d_0 … d_k)$: the prefix, which only rises",
    )
    ax.axhline(
        np.log2(result.p), color=INK, linewidth=1, linestyle="--", label=f"$\\log_2 p$ = {np.log2(result.p):.2f}"
    )
    ax.plot(k, result.digit, color=PALETTE[0], marker="o", markersize=4, label="$H(d_k)$: the digit alone")
    ax.plot(
        k,
        result.given,
        color=PALETTE[1],
        marker="^",
        markersize=4,
        label="$H(d_k\\,|\\,d_0 … d_{k-1})$: given what came before",
    )
    ax.set(xlabel="digit k (0 = the root's choice)", ylabel="bits", ylim=(0, None))
    integer_ticks(ax)
    legend(ax)
    return ax


def entropy_against(result: s.EntropyAgainst, ax: Axes | None = None) -> Axes:
    """Accuracy of each digit against its entropy."""
    ax = axes_for(ax, (4.6, 3.8))
    if len(result.entropy) == 0:
        return explain_nothing(ax, result.verdict)
    ax.scatter(result.entropy, result.accuracy, c=np.arange(len(result.entropy)), cmap=depth_map(), s=36)
    title = "" if result.rho is None else f"ρ = {result.rho:+.2f}, p = {result.p_value:.2g}"
    ax.set(xlabel="$H(d_k)$, bits", ylabel="accuracy of digit k", title=title)
    at = np.column_stack([result.entropy, result.accuracy])
    write_labels(ax, at, [str(k) for k in range(len(at))], size=7.5, limit=len(at))
    return ax


def spectrum(result: s.Spectrum, ax: Axes | None = None, *, labels: int = 6) -> Axes:
    """Nodes in the plane of the second and third eigenvector, coloured by depth; the largest branches are named."""
    ax = axes_for(ax, (5.6, 5.0))
    if len(result.eigenvalues) < 2:
        return explain_nothing(ax, result.verdict)
    tree, at = result.tree, result.position
    order = np.argsort(-tree.depth, kind="stable")
    dots = ax.scatter(
        at[order, 0],
        at[order, 1],
        c=tree.depth[order],
        cmap=depth_map(),
        s=6 if len(at) > MANY else 18,
        linewidths=0,
        rasterized=len(at) > MANY,
    )
    ax.scatter([0], [0], marker="*", s=120, color=PALETTE[5], edgecolor="white", linewidth=0.5, zorder=4, label="root")
    ax.figure.colorbar(dots, ax=ax, label="depth", shrink=0.8)
    ax.set(xlabel="second eigenvector of the Laplacian", ylabel="third eigenvector")
    ax.locator_params(nbins=5)
    ax.margins(0.12)
    far = _spread_labels(tree, at, 3 * labels)
    write_labels(ax, at[far], [short(name, 26) for name in names_of(tree, far)], limit=labels)
    legend(ax, loc="best")
    return ax


def _spread_labels(tree: Any, at: np.ndarray, count: int) -> list[int]:
    """The nodes with most descendants whose places in the picture are at least a tenth of its width apart."""
    span = np.maximum(np.ptp(at, 0), 1e-12)
    chosen: list[int] = []
    for node in np.argsort(-tree.size, kind="stable")[1:2000].tolist():
        if all(np.abs((at[node] - at[other]) / span).max() > 0.12 for other in chosen):
            chosen.append(node)
        if len(chosen) == count:
            break
    return chosen


def mapper(result: s.Mapper, ax: Axes | None = None, *, largest: int = 24, sets: int = 400) -> Axes:
    """The nerve: a circle per set, as large as its leaves, a colour for each large top-level family; components apart."""
    from vpunn.plot._layouts import pack_components

    ax = axes_for(ax, (7.2, 5.2), bare=True)
    graph = result.graph
    if graph.number_of_nodes() == 0:
        return explain_nothing(ax, result.verdict)
    place, shown = pack_components(graph, result.components, largest, sets)
    size = np.array([graph.nodes[i]["leaves"] for i in shown], float)
    family = np.array([graph.nodes[i]["family"] for i in shown])
    ids, total = np.unique(family, return_inverse=True)
    families = ids[np.argsort(-np.bincount(total, weights=size), kind="stable")].tolist()
    named = families[: len(PALETTE) - 1]
    colour = dict.fromkeys(families, OTHER) | dict(zip(named, colours(len(named)), strict=True))
    from matplotlib.collections import LineCollection

    edges = [(place[a], place[b]) for a, b in graph.edges if a in place and b in place]
    ax.add_collection(LineCollection(edges, colors=FAINT, linewidths=0.4, alpha=0.6, zorder=1))
    xy = np.array([place[i] for i in shown])
    ax.scatter(
        xy[:, 0],
        xy[:, 1],
        s=4 + 160 * np.sqrt(size / size.max()),
        c=[colour[f] for f in family.tolist()],
        edgecolor="white",
        linewidth=0.4,
        zorder=2,
    )
    for family in named:
        ax.scatter([], [], color=colour[family], s=40, label=short(graph.graph["families"][family], 28))
    if len(families) > len(named):
        others = counted(len(families) - len(named), "other family", "other families")
        ax.scatter([], [], color=OTHER, s=40, label=others)
    legend(ax, loc="upper center", bbox_to_anchor=(0.5, -0.01), ncols=2)
    left_out = graph.number_of_nodes() - len(shown)
    rest = f"; {left_out:,} smaller sets are not drawn" if left_out else ""
    sizes = f"{counted(result.n_components, 'component')}, {counted(graph.number_of_nodes(), 'set')}"
    ax.set_title(f"{sizes}{rest}", fontsize=10, color=INK)
    ax.autoscale_view()
    ax.set_aspect("equal")
    return ax


def distance_matrix(result: s.DistanceMatrix, ax: Axes | None = None) -> Axes:
    """Valuations of all pairs as a heat map, in the order of the codes."""
    ax = axes_for(ax, (5.4, 4.8))
    n = len(result.leaves)
    values = result.valuation.astype(float)
    np.fill_diagonal(values, np.nan)
    if n < 2:
        return explain_nothing(ax, result.verdict)
    top = max(float(np.nanmax(values)), 1.0)
    picture = ax.imshow(values, cmap=depth_map(light=True), vmin=0, vmax=top, interpolation="nearest", origin="upper")
    bar = ax.figure.colorbar(picture, ax=ax, shrink=0.85)
    integer_ticks(bar.ax, "y")
    bar.set_label(f"valuation ν;  distance = {result.p}$^{{-ν}}$")
    ax.set(xlabel=f"{n:,} leaves in the order of their codes", ylabel="the same leaves")
    return ax


def tree_comparison(result: s.TreeComparison, ax: Axes | None = None) -> Axes:
    """Agreement of two trees by three measures, 1 = the same."""
    ax = axes_for(ax, (5.6, 2.4))
    values = {
        "shared clusters\n(1 − Robinson–Foulds)": None if result.normalised is None else 1 - result.normalised,
        "shared triplets": None if result.triplet is None else 1 - result.triplet,
        "cophenetic correlation": result.cophenetic,
    }
    known = {name: value for name, value in values.items() if value is not None}
    if not known:
        return explain_nothing(ax, result.verdict)
    ax.barh(range(len(known)), list(known.values()), color=PALETTE[0], height=0.55)
    for i, value in enumerate(known.values()):
        ax.text(max(value, 0) + 0.01, i, f"{value:.2f}", va="center", fontsize=9, color=INK)
    ax.set_yticks(range(len(known)), list(known))
    ax.set(xlim=(min(0, *known.values()), 1.12), xlabel=f"agreement over {result.n_common:,} common leaves")
    ax.invert_yaxis()
    return ax


def prefix_information(result: s.PrefixInformation, ax: Axes | None = None) -> Axes:
    """Bits of the value that a prefix of k digits, or digit k alone, leaves open."""
    ax = axes_for(ax)
    ax.axhline(result.bits, color=FAINT, linestyle="--", linewidth=1, label=f"nothing known: {result.bits:.2f} bits")
    ax.plot(
        range(len(result.after_prefix)),
        result.after_prefix,
        color=PALETTE[0],
        marker="o",
        markersize=4,
        label="after the first k digits",
    )
    ax.plot(
        range(len(result.after_digit)),
        result.after_digit,
        color=PALETTE[1],
        marker="^",
        markersize=4,
        label="after digit k alone",
    )
    ax.set(xlabel="k", ylabel="bits of the value left open", ylim=(0, result.bits * 1.15 + 0.05))
    integer_ticks(ax)
    legend(ax)
    return ax


def shared_levels(result: s.SharedLevels, ax: Axes | None = None) -> Axes:
    """Depth of the common ancestor against shared levels of the other code: mean, and the middle half of the pairs."""
    ax = axes_for(ax, (5.2, 3.8))
    low, high = result.quartiles[:, 0], result.quartiles[:, 2]
    ax.vlines(result.levels, low, high, color=PALETTE[4], linewidth=7, label="middle half of the pairs")
    ax.plot(result.levels, result.mean, color=PALETTE[0], marker="o", label="mean")
    for s_, m, c in zip(result.levels, result.mean, result.count, strict=True):
        ax.annotate(f"{c:,} pairs", (s_, m), xytext=(8, -10), textcoords="offset points", fontsize=7.5, color=INK)
    ax.set(xlabel="levels of the other code shared", ylabel="depth of the common ancestor", ylim=(0, None))
    ax.set_xlim(result.levels.min() - 0.3, result.levels.max() + 0.6)
    integer_ticks(ax)
    legend(ax, loc="upper left")
    return ax


def magnitudes(result: s.Magnitudes, ax: Axes | None = None, *, claim: bool = True) -> Axes:
    """Mean |c_B| by depth with the middle half of the balls, and the decay p^{-k} the paper claims."""
    ax = axes_for(ax)
    k = np.flatnonzero(result.mean > 1e-9 * result.mean.max(initial=0.0))
    if len(k) == 0:
        return explain_nothing(ax, result.verdict)
    quartiles = np.maximum(result.quartiles[k], result.mean[k].min() * 1e-2)
    ax.fill_between(
        k,
        quartiles[:, 0],
        quartiles[:, 2],
        color=PALETTE[4],
        alpha=0.35,
        linewidth=0,
        label="middle half of the branches",
    )
    ax.plot(k, result.mean[k], color=PALETTE[0], marker="o", markersize=4, label="mean |c|")
    if claim:
        below = k[k >= 1]
        floor = max(min(quartiles[:, 0].min(), result.mean[k].min()) / 1e4, 1e-300)
        if len(below):
            line = result.mean[below[0]] * float(result.p) ** -(below - below[0]).astype(float)
            seen = line >= floor
            ax.plot(
                below[seen],
                line[seen],
                color=PALETTE[5],
                linestyle="--",
                label=f"the paper's $p^{{-k}}$, p = {result.p}",
            )
        ax.set_ylim(floor, None)
    ax.set(yscale="log", xlabel="depth of the branch", ylabel="|coefficient|")
    integer_ticks(ax)
    legend(ax)
    return ax


def ultrametricity(result: s.Ultrametricity, ax: Axes | None = None) -> Axes:
    """The score between chance (permuted distances, 0) and an exact tree (1), with random points for comparison."""
    ax = axes_for(ax, (6.0, 2.4))
    if result.score is None or result.random_points is None:
        return explain_nothing(ax, result.verdict)
    low, high = result.interval or (result.score, result.score)
    rows = [("these data", result.score, (low, high), PALETTE[0])]
    mean, spread = result.random_points
    rows.append(("random points\nof the same spread", mean, (mean - 2 * spread, mean + 2 * spread), FAINT))
    if result.additive is not None:
        rows.append(("these data as a tree\nwith branch lengths", result.additive, (result.additive,) * 2, PALETTE[2]))
    for i, (_, value, (a, b), colour) in enumerate(rows):
        ax.plot([a, b], [i, i], color=colour, linewidth=5, alpha=0.4, solid_capstyle="butt")
        ax.plot([value], [i], marker="o", color=colour, markersize=8)
        ax.annotate(
            f"{value:.2f}", (value, i), xytext=(0, 8), textcoords="offset points", ha="center", fontsize=9, color=INK
        )
    for x, text in ((0.0, "permuted"), (1.0, "exact tree")):
        ax.axvline(x, color=INK, linewidth=0.8, linestyle=":")
        ax.text(x, -0.75, text, ha="center", fontsize=8, color=INK)
    ax.set_yticks(range(len(rows)), [row[0] for row in rows])
    ax.set(
        ylim=(len(rows) - 0.5, -0.9),
        xlim=(min(-0.08, low - 0.05, mean - 0.1), 1.12),
        xlabel="share of what an exact tree would give",
    )
    return ax


_DRAW: dict[str, Any] = {
    "BoxCount": box_counting,
    "Branching": branching,
    "DistanceMatrix": distance_matrix,
    "Entropy": entropy,
    "EntropyAgainst": entropy_against,
    "Magnitudes": magnitudes,
    "Mapper": mapper,
    "PrefixInformation": prefix_information,
    "SharedLevels": shared_levels,
    "Spectrum": spectrum,
    "TreeComparison": tree_comparison,
    "Ultrametricity": ultrametricity,
}
