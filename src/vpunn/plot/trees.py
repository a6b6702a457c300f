"""Trees from 5 to 3 million nodes: icicle, radial, Poincaré disk, force-directed, nested balls, small diagrams.

All of them draw what the eye can tell apart and say what they leave out: parts thinner than a pixel or so are drawn as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._types import Numbers
from vpunn.errors import VpunnError
from vpunn.padic import next_prime
from vpunn.plot._branches import Branches, branch_colours, large_branches, name_colours, value_colours
from vpunn.plot._names import write_labels, write_rim
from vpunn.plot._places import aggregate, force_layout, nested_circles, outline, wedges
from vpunn.plot._style import FAINT, GRID, INK, PALETTE, axes_for, by_depth, depth_map, names_of, short
from vpunn.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Shells of a disk that are drawn.
SHELLS = 60
#: Nodes of a diagram at most, and digits of a code at its beginning and at its end.
DIAGRAM_NODES = 2000
FIRST_DIGITS, LAST_DIGITS = 30, 10
#: Icicle boxes and radial wedges thinner than this share of the whole are not drawn one by one.
THIN = 1 / 900


def icicle(
    tree: Tree,
    ax: Axes | None = None,
    *,
    node: int = 0,
    depth: int | None = None,
    values: Numbers | None = None,
    label: str = "",
    column: str | None = None,
    legend: bool = True,
) -> Axes:
    """Balls as boxes below their parents, as wide as their share of the leaves; names where they fit.

    A colour per large branch (``legend`` names them), or per ball the mean of ``values`` (a numeric column by name, or one
    number per node). Balls too thin to see are drawn as one pale box below their parent.
    """
    from matplotlib.collections import PolyCollection

    data = None if values is None else aggregate(tree, values)[tree.slice(node)]
    part = tree.subtree(node) if node else tree
    ax = axes_for(ax, (10.4 if legend and data is None else 9.0, 4.8))
    left, width = wedges(part)
    limit = part.max_depth if depth is None else min(depth, part.max_depth)
    seen = (width >= THIN) & (part.depth <= limit)
    if depth is None:  # levels on which nothing can be seen are cut off
        limit = int(part.depth[seen].max())
    shade, scale, branches = _ball_colours(part, data, fade=0.09)
    shown = np.flatnonzero(seen)
    below = shown[(part.n_children[shown] > 0) & (part.depth[shown] < limit)]
    pale = np.column_stack([0.75 + 0.25 * shade[below, :3], np.ones(len(below))])
    boxes = [_box(left[i], width[i], part.depth[i] + 1) for i in below]
    ax.add_collection(PolyCollection(boxes, facecolors=pale, linewidths=0))
    thin = np.where(width[shown] > 0.004, 0.6, 0.0)
    ax.add_collection(
        PolyCollection(
            [_box(left[i], width[i], part.depth[i]) for i in shown],
            facecolors=shade[shown],
            edgecolors="white",
            linewidths=thin,
        )
    )
    ax.set(xlim=(0, 1), ylim=(-(limit + 1), 0), ylabel="depth")
    depths = range(0, limit + 1, 1 + limit // 24)
    ax.set_yticks([-(k + 0.5) for k in depths], [str(k) for k in depths])
    ticks = np.linspace(0, 1, 5)
    ax.set_xticks(ticks, [f"{x * part.n_leaves:,.0f}" for x in ticks])
    hidden = part.n_nodes - len(shown)
    ax.set_xlabel(
        "leaves, in the order of their codes"
        + (f"  ({hidden:,} of {part.n_nodes:,} nodes are too thin to draw)" if hidden else "")
    )
    if scale is not None:
        ax.figure.colorbar(
            scale, ax=ax, label=label or (values if isinstance(values, str) else "mean over the branch"), shrink=0.8
        )
    if legend and branches is not None:
        name_colours(ax, part, branches, column)
    _names_in_boxes(ax, part, shown, left, width, shade, column)
    return ax


def _box(left: float, width: float, depth: int) -> list[tuple[float, float]]:
    return [(left, -depth), (left + width, -depth), (left + width, -depth - 1), (left, -depth - 1)]


def _ball_colours(tree: Tree, data: np.ndarray | None, fade: float = 0.0) -> tuple[np.ndarray, Any, Branches | None]:
    """A colour per node, by value or by large branch; the colour scale of values, or the branches."""
    if data is not None:
        return *value_colours(data), None
    found = large_branches(tree)
    return branch_colours(tree, found, fade), None, found


def _names_in_boxes(
    ax: Axes, tree: Tree, shown: np.ndarray, left: np.ndarray, width: np.ndarray, shade: np.ndarray, column: str | None
) -> None:
    """Names in boxes that are wide enough, cut to fit."""
    figure: Any = ax.figure
    figure.draw_without_rendering()
    points = ax.get_window_extent().width * 72 / figure.dpi
    tall = ax.get_window_extent().height * 72 / figure.dpi / max(-ax.get_ylim()[0], 1)
    size = float(np.clip(tall * 0.6, 4.5, 8.5))
    if tall < size:  # no letter is as low as these boxes
        return
    letters = (width[shown] * points / (0.56 * size)).astype(int)
    wide = shown[letters >= 4]
    for node, text, room in zip(wide, names_of(tree, wide, column), letters[letters >= 4], strict=True):
        dark = float(shade[node, :3] @ (0.3, 0.59, 0.11)) < 0.5
        ax.text(left[node] + width[node] / 2, -tree.depth[node] - 0.5, short(text, int(room) - 1), ha="center", va="center",
                fontsize=size, color="white" if dark else INK, clip_on=True)  # fmt: skip


def radial(
    tree: Tree,
    ax: Axes | None = None,
    *,
    values: Numbers | None = None,
    labels: int = 24,
    column: str | None = None,
    legend: bool = True,
) -> Axes:
    """The root in the middle, depth outwards, every ball a wedge; branches coloured, or balls by the mean of ``values``.

    What is drawn last on each way out is named around the rim where its name fits, the largest balls first; inside, at most
    ``labels`` balls are (0: no names at all).
    """
    from matplotlib.collections import LineCollection

    ax = axes_for(ax, (8.2 if legend and values is None else 6.4, 6.4), bare=True)
    left, width = wedges(tree)
    shown = np.flatnonzero((width >= THIN) | (tree.n_nodes <= 1500))
    xy = _polar(left + width / 2, tree.depth / max(int(tree.depth[shown].max()), 1))
    shade, scale, branches = _ball_colours(tree, None if values is None else aggregate(tree, values))
    below = shown[shown > 0]
    lines = np.stack([xy[tree.parent[below]], xy[below]], axis=1)
    thick = np.clip(6 * np.sqrt(width[below]), 0.35, 3.0)
    ax.add_collection(LineCollection(list(lines), colors=shade[below], linewidths=thick))
    leaves = shown[tree.is_leaf[shown]]
    ax.scatter(xy[leaves, 0], xy[leaves, 1], s=9 if len(leaves) < 400 else 2, c=shade[leaves], linewidths=0, zorder=3)
    ax.scatter([0], [0], s=30, color=INK, zorder=4)
    ax.set(xlim=(-1.06, 1.06), ylim=(-1.06, 1.06))
    ax.set_aspect("equal")
    if legend and branches is not None:
        name_colours(ax, tree, branches, column)
    if scale is not None:
        ax.figure.colorbar(
            scale, ax=ax, shrink=0.6, label=values if isinstance(values, str) else "mean over the branch"
        )
    _say_hidden(ax, tree.n_nodes - len(shown), tree.n_nodes)
    if labels:
        _name_wedges(ax, tree, shown[np.argsort(-tree.leaf_counts[shown], kind="stable")], xy, labels, column)
    return ax


def _name_wedges(ax: Axes, tree: Tree, order: np.ndarray, xy: np.ndarray, labels: int, column: str | None) -> None:
    """Names of the nodes in ``order``: around the rim of those without a child in it, inside of the others."""
    parts = np.zeros(tree.n_nodes, bool)
    parts[tree.parent[order[order > 0]]] = True
    tips, inner = order[~parts[order] & (order > 0)], order[parts[order]][: 12 * labels]
    angle, radius = np.arctan2(xy[tips, 1], xy[tips, 0]), np.hypot(*xy[tips].T)
    write_rim(ax, angle, radius, names_of(tree, tips, column), size=8.0 if len(tips) <= 40 else 7.0)
    write_labels(ax, xy[inner], [short(t, 26) for t in names_of(tree, inner, column)], limit=labels)


def _polar(turn: np.ndarray, radius: np.ndarray) -> np.ndarray:
    angle = np.pi / 2 - 2 * np.pi * turn
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def _say_hidden(ax: Axes, hidden: int, total: int) -> None:
    """In a corner, where a round picture leaves room."""
    if hidden:
        said = f"{hidden:,} of {total:,} nodes\nare too thin to draw"
        ax.text(0.0, 0.0, said, transform=ax.transAxes, ha="left", va="bottom", fontsize=7.5, color=FAINT)


def poincare(
    tree: Tree,
    ax: Axes | None = None,
    *,
    colour: str = "depth",
    labels: int = 16,
    step: float | None = None,
    column: str | None = None,
    legend: bool = True,
) -> Axes:
    """The Poincaré disk by exact placement: a node of depth k at hyperbolic distance k·step from the centre, in its wedge.

    Shells are concentric because depth *is* the radius here (the audit's E-85): the picture shows the tree, not a learned
    space. ``colour`` is ``"depth"`` or ``"family"``.
    """
    from matplotlib.collections import LineCollection
    from matplotlib.patches import Circle

    ax = axes_for(ax, (7.8 if legend and colour == "family" else 6.4, 6.0), bare=True)
    left, width = wedges(tree)
    if step is None:  # the last shell just inside the rim
        step = 2 * float(np.arctanh(0.97)) / max(tree.max_depth, 1)
    radius = np.tanh(step * np.arange(tree.max_depth + 1) / 2)
    xy = _polar(left + width / 2, radius[tree.depth])
    ax.add_patch(Circle((0, 0), 1.0, fill=False, edgecolor=INK, linewidth=1.2))
    for r in radius[1 :: 1 + tree.max_depth // SHELLS]:
        ax.add_patch(Circle((0, 0), r, fill=False, edgecolor=GRID, linewidth=0.6, zorder=0))
    shown = np.flatnonzero((width >= THIN / 3) | (tree.n_nodes <= 3000))
    below = shown[shown > 0]
    lines = np.stack([xy[tree.parent[below]], xy[below]], axis=1)
    ax.add_collection(LineCollection(list(lines), colors=FAINT, linewidths=0.35, alpha=0.7, zorder=1))
    many = tree.n_nodes > 2000
    if colour == "family":
        branches = large_branches(tree)
        shade = branch_colours(tree, branches)
        ax.scatter(xy[:, 0], xy[:, 1], s=3 if many else 14, c=shade, linewidths=0, rasterized=many, zorder=2)
        if legend:
            name_colours(ax, tree, branches, column)
    else:
        dots = ax.scatter(
            xy[:, 0],
            xy[:, 1],
            s=3 if many else 14,
            c=tree.depth,
            cmap=depth_map(),
            linewidths=0,
            rasterized=many,
            zorder=2,
        )
        ax.figure.colorbar(dots, ax=ax, label="depth", shrink=0.7)
    ax.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05))
    ax.set_aspect("equal")
    order = np.argsort(-tree.leaf_counts, kind="stable")[: 12 * labels]
    write_labels(ax, xy[order], [short(t, 24) for t in names_of(tree, order, column)], limit=labels)
    return ax


def force(
    tree: Tree,
    ax: Axes | None = None,
    *,
    seed: int = 0,
    labels: int = 0,
    skeleton: int = 700,
    column: str | None = None,
    legend: bool = True,
) -> Axes:
    """A force-directed layout, for contrast: springs pull children to parents, all nodes push each other away.

    The forces act on the ``skeleton`` largest balls; other nodes are thrown around the nearest of these, so that any tree
    finishes in seconds.
    """
    from matplotlib.collections import LineCollection

    ax = axes_for(ax, (7.8 if legend else 6.4, 6.0), bare=True)
    xy = force_layout(tree, skeleton=skeleton, seed=seed)
    branches = large_branches(tree)
    shade = branch_colours(tree, branches)
    many = tree.n_nodes > 2000
    lines = np.stack([xy[tree.parent[1:]], xy[1:]], axis=1)
    ax.add_collection(
        LineCollection(list(lines), colors=shade[1:], linewidths=0.15 if many else 0.8, alpha=0.5, rasterized=many)
    )
    ax.scatter(xy[:, 0], xy[:, 1], s=0.8 if many else 16, c=shade, linewidths=0, rasterized=many, zorder=2)
    ax.autoscale_view()
    ax.set_aspect("equal")
    if legend:
        name_colours(ax, tree, branches, column)
    if labels:
        order = outline(tree, 10 * labels)
        order = order[np.argsort(-tree.leaf_counts[order], kind="stable")]
        write_labels(ax, xy[order], [short(t, 24) for t in names_of(tree, order, column)], limit=labels)
    return ax


def balls(
    tree: Tree,
    ax: Axes | None = None,
    *,
    depth: int = 3,
    node: int | None = None,
    labels: bool = True,
    column: str | None = None,
) -> Axes:
    """Balls as circles inside circles: two are nested or apart, never crossing. The balls around ``node`` are drawn bold."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Circle

    ax = axes_for(ax, (5.6, 5.6), bare=True)
    depth = min(depth, tree.max_depth)
    centre, radius = nested_circles(tree, depth)
    shown = np.flatnonzero(radius > 0.004)
    shade = by_depth(depth + 2)[::-1]
    circles = [Circle(tuple(centre[i]), radius[i]) for i in shown]
    faces = [(*shade[tree.depth[i]][:3], 0.16) for i in shown]
    ax.add_collection(
        PatchCollection(circles, facecolors=faces, edgecolors=[shade[tree.depth[i]] for i in shown], linewidths=0.7)
    )
    if node is not None:
        for ball in tree.ancestors(node)[: depth + 1].tolist():
            ax.add_patch(
                Circle(tuple(centre[ball]), radius[ball], fill=False, edgecolor=PALETTE[5], linewidth=2.0, zorder=3)
            )
    ax.set(xlim=(-1.03, 1.03), ylim=(-1.03, 1.03))
    ax.set_aspect("equal")
    if labels:
        last = shown[(tree.depth[shown] == depth) | tree.is_leaf[shown]]
        across = ax.get_window_extent().width * 72 / ax.figure.dpi / 2.06  # points for a radius of 1
        room = (radius[last] * 2 * across / 4.4).astype(int)  # letters of 7.5 points that fit
        last, room = last[room >= 4], room[room >= 4]
        order = np.argsort(-radius[last], kind="stable")
        texts = [short(t, int(r)) for t, r in zip(names_of(tree, last[order], column), room[order], strict=True)]
        write_labels(ax, centre[last[order]], texts, limit=60, size=7.5, anchor="center")
    return ax


def code(tree: Tree, node: int, ax: Axes | None = None, *, column: str | None = None) -> Axes:
    """A node's code digit by digit: each step names a ball, takes one digit, and shrinks the set of leaves (bars, logarithmic).

    Of a long code the middle is left out, which the title says.
    """
    chain = tree.ancestors(node).tolist()
    left_out = max(len(chain) - 1 - FIRST_DIGITS - LAST_DIGITS, 0)
    if left_out:
        chain = chain[: FIRST_DIGITS + 1] + chain[-LAST_DIGITS:]
    ax = axes_for(ax, (8.0, 0.9 + 0.42 * len(chain)))
    p = next_prime(tree.max_branching + 1)
    y = np.arange(len(chain))
    leaves = tree.leaf_counts[chain]
    ax.barh(y, leaves, color=[(*c[:3], 0.8) for c in by_depth(len(chain))], height=0.62, left=0.8)
    for i, (ball, text) in enumerate(zip(chain, names_of(tree, chain, column), strict=True)):
        said = "root" if i == 0 else f"$a_{{{tree.depth[ball] - 1}}}$ = {tree.digit[ball]}"
        ax.text(-0.01, i, said, transform=ax.get_yaxis_transform(), ha="right", va="center", fontsize=9, color=INK)
        ax.text(
            leaves[i] * 1.15 + 0.8,
            i,
            f"{short(text, 26)}: {leaves[i]:,} {'leaf' if leaves[i] == 1 else 'leaves'}",
            va="center",
            fontsize=8.5,
            color=INK,
        )
    value = " + ".join(f"{tree.digit[ball]}·{p}$^{{{k}}}$" for k, ball in enumerate(chain[1:5]))
    gone = f" ({left_out:,} digits in the middle are not drawn)" if left_out else ""
    ax.set_title(f"code = {value or 0}{' + …' if len(chain) > 5 else ''}{gone}", fontsize=9.5, loc="left", color=INK)
    ax.set(xscale="log", xlim=(0.8, leaves[0] * 300), xlabel="leaves in the branch")
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.invert_yaxis()
    return ax


def diagram(
    tree: Tree,
    ax: Axes | None = None,
    *,
    ball: int | None = None,
    texts: Any = None,
    digits: bool = True,
    inner: bool = False,
) -> Axes:
    """A small tree from the root down, digits on its edges, the subtree ``ball`` shaded; for trees of up to a few hundred nodes.

    ``texts`` are written below the leaves (default: their labels; an empty list: nothing); ``inner`` names the inner nodes too.
    Dotted lines lead to extra parents.
    """
    if tree.n_nodes > DIAGRAM_NODES:
        raise VpunnError(
            f"a diagram draws at most {DIAGRAM_NODES:,} nodes, and the tree has {tree.n_nodes:,}; draw a part of it "
            "(tree.subtree(node)) or a picture for large trees, such as plot.icicle(tree)."
        )
    left, width = wedges(tree)
    x, y = left + width / 2, -tree.depth.astype(float)
    ax = axes_for(ax, (min(2.5 + 0.32 * tree.n_leaves, 12.0), 1.2 + 0.8 * tree.max_depth), bare=True)
    words = names_of(tree, tree.leaves) if texts is None else [str(text) for text in texts]
    lines = 1 + max((word.count("\n") for word in words), default=0)
    inside = np.zeros(tree.n_nodes, bool)
    if ball is not None:
        inside[tree.slice(ball)] = True
        box = (left[ball] - 0.004, width[ball] + 0.008)
        deep = -float(tree.depth[tree.slice(ball)].max()) - 0.35 - 0.12 * (lines - 1)
        ax.fill_between([box[0], box[0] + box[1]], deep, y[ball] + 0.3, color=PALETTE[2], alpha=0.16, linewidth=0)
    path = set() if ball is None else set(tree.ancestors(ball).tolist())
    for node in range(1, tree.n_nodes):
        up = tree.parent[node]
        on = node in path or inside[node]
        ax.plot(
            [x[up], x[node]],
            [y[up], y[node]],
            color=PALETTE[2] if on else FAINT,
            linewidth=1.8 if on else 0.9,
            zorder=1,
        )
        if digits and (width[node] > 0.025 or node in path):
            at = ((x[up] + 2 * x[node]) / 3, (y[up] + 2 * y[node]) / 3)
            ground = {"boxstyle": "circle,pad=0.12", "facecolor": "white", "edgecolor": "none"}
            ax.text(*at, str(tree.digit[node]), fontsize=8, color=INK, ha="center", va="center", bbox=ground, zorder=2)
    child = np.repeat(np.arange(tree.n_nodes), np.diff(tree.extra_parents[0]))
    for node, up in zip(child.tolist(), tree.extra_parents[1].tolist(), strict=True):
        ax.plot([x[up], x[node]], [y[up], y[node]], color=INK, linewidth=0.9, linestyle=":", zorder=1)
    ax.scatter(
        x,
        y,
        s=34 if tree.n_nodes < 60 else 14,
        c=[PALETTE[2] if i or n in path else INK for n, i in enumerate(inside)],
        zorder=3,
    )
    if inner:
        named = np.flatnonzero(~tree.is_leaf)
        for node, word in zip(named.tolist(), names_of(tree, named), strict=True):
            outer = node > 0 and x[node] < x[tree.parent[node]]  # on the side where no edge comes from above
            place, ha = (x[node] - 0.014, "right") if outer else (x[node] + 0.014, "left")
            ax.text(place, y[node] + 0.06, word, ha=ha, va="bottom", fontsize=9, color=INK, weight="bold")
    for leaf, word in zip(tree.leaves.tolist(), words, strict=False):
        ax.text(x[leaf], y[leaf] - 0.14, word, ha="center", va="top", fontsize=8, color=INK)
    ax.set(xlim=(-0.01, 1.01), ylim=(-tree.max_depth - 0.75, 0.35))
    return ax
