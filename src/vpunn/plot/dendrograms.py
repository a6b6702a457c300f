"""The dendrogram: names on the right, joined where their branches meet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._types import Numbers
from vpunn.errors import VpunnError, counted
from vpunn.plot._branches import branch_colours, large_branches, name_colours, value_colours
from vpunn.plot._names import FEWEST, LETTER, room_of, settled, widths, write_labels
from vpunn.plot._places import cut
from vpunn.plot._style import FAINT, INK, axes_for, names_of, short
from vpunn.tree import Tree
from vpunn.tree.unnamed import unnamed

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: Tips drawn if nobody says how many: all that a phylogeny may have, and the largest balls of other trees.
DATED, OTHERS = 300, 40
#: Pieces of a branch that is painted by a number.
PIECES = 12


def dendrogram(
    tree: Tree,
    ax: Axes | None = None,
    *,
    leaves: int | None = None,
    column: str | None = None,
    legend: bool = True,
    values: Numbers | None = None,
    name: str = "",
) -> Axes:
    """Names on the right, joined where their balls meet; beyond ``leaves`` tips the largest balls stand for what is in them.

    The horizontal axis is depth, or the column ``height`` (merge heights of a linkage), or the distance from the root where the
    tree has branch lengths (column ``length``); such a tree shows every tip up to 300, others 40. Inner balls are named on the line
    that leads to them where that is long enough, the largest first; ``legend`` names the colours. ``values``, a number a node such
    as ``model.predict_nodes(np.arange(tree.n_nodes))[0]``, paints every branch from its parent's to its own; ``name`` is what they
    are of.
    """
    if leaves is None:
        leaves = DATED if "length" in tree.columns else OTHERS
    painted = None if values is None else _checked(tree, values)
    inside = _kept(tree, leaves)
    kept = np.flatnonzero(inside)
    tips = kept[np.bincount(tree.parent[kept[1:]], minlength=tree.n_nodes)[kept] == 0]
    branches = large_branches(tree, inside=inside)
    x, axis, where = _across(tree, kept)
    height = None if where == "depth" else x
    wide = 7.2 if height is not None else float(np.clip(3.2 + 0.8 * x[kept].max(), 7.2, 11.0))
    key = painted is None and legend and len(branches.balls) > 1
    ax = axes_for(ax, (wide + (1.8 if key else 0), 0.8 + float(np.clip(12 / len(tips), 0.1, 0.2)) * len(tips)))
    y = np.zeros(tree.n_nodes)
    y[tips] = np.arange(len(tips))
    joins, ends = _joined(tree, kept, y)
    down = np.stack([np.column_stack([x[joins], x[joins]]), ends], axis=2)
    _draw(ax, tree, kept[1:], np.column_stack([x, y]), joins, down, branch_colours(tree, branches), painted, name)
    gone = tree.n_leaves - int(tree.leaf_counts[tips].sum())
    said = f"  ({counted(gone, 'leaf', 'leaves')} of further branches not drawn)" if gone else ""
    ax.set(xlabel=axis + said, ylim=(len(tips) - 0.4, -0.6))
    if height is None:
        ax.set_xticks(range(0, int(x[kept].max()) + 1, max(1, int(x[kept].max()) // 8)))
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    if legend and painted is None:
        name_colours(ax, tree, branches, column)
    _name_rows(ax, tree, tips, kept[~np.isin(kept, tips)], np.column_stack([x, y]), column)
    return ax


def _joined(tree: Tree, kept: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The forks, and how high the first and the last child of each are; ``y`` becomes the middle of the two for all above tips."""
    up = tree.parent[kept[1:]]
    below = np.bincount(up, minlength=tree.n_nodes)[kept]
    stops = kept[below != 1]  # in preorder the way from an only child down to the next stop is one stretch
    forks = kept[below > 1]
    order = np.argsort(up, kind="stable")
    edges = np.searchsorted(up[order], np.column_stack([forks, forks + 1])) - np.array([0, 1])
    ends = kept[1:][order][edges]
    at = stops[np.searchsorted(stops, ends)]
    deepest = np.argsort(-tree.depth[forks], kind="stable")
    for level in np.split(deepest, np.flatnonzero(np.diff(tree.depth[forks[deepest]])) + 1):
        y[forks[level]] = y[at[level]].mean(1)
    y[kept] = y[stops[np.searchsorted(stops, kept)]]
    return forks, y[ends]


def _across(tree: Tree, kept: np.ndarray) -> tuple[np.ndarray, str, str]:
    """Where nodes stand across the picture, what the axis is called, and which column that is."""
    if "height" in tree.columns:
        return np.nan_to_num(np.asarray(tree.columns["height"], float)), "height of the merge", "height"
    if "length" in tree.columns:
        from vpunn.regress._pruning_kernels import path_sums

        length = np.nan_to_num(np.asarray(tree.columns["length"], float))
        far = path_sums(tree.parent, length)
        if far[kept].max() > 0:
            return far, "branch length from the root", "length"
    return tree.depth.astype(float), "depth", "depth"


def _checked(tree: Tree, values: Numbers) -> np.ndarray:
    found = np.asarray(values, dtype=float)
    if found.shape != (tree.n_nodes,):
        raise VpunnError(f"values needs one number for each of the {tree.n_nodes:,} nodes, got shape {found.shape}.")
    return found


def _draw(
    ax: Axes,
    tree: Tree,
    nodes: np.ndarray,
    xy: np.ndarray,
    joins: np.ndarray,
    down: np.ndarray,
    shade: np.ndarray,
    painted: np.ndarray | None,
    name: str,
) -> None:
    """The lines: one across for every branch, in the colour of its ball or from its parent's number to its own; one down a join."""
    from matplotlib.collections import LineCollection

    parent = tree.parent[nodes]
    if painted is None:
        ax.add_collection(LineCollection(list(down), colors=[FAINT], linewidths=1))
        lines = np.stack([np.column_stack([xy[parent, 0], xy[nodes, 1]]), xy[nodes]], axis=1)
        ax.add_collection(LineCollection(list(lines), colors=shade[nodes], linewidths=1.4))
    else:
        colour, scale = value_colours(painted)
        ends = np.linspace(0, 1, PIECES + 1)
        x = xy[parent, 0][:, None] + (xy[nodes, 0] - xy[parent, 0])[:, None] * ends
        y = np.broadcast_to(xy[nodes, 1][:, None], x.shape)
        lines = np.stack([np.stack([x[:, :-1], y[:, :-1]], -1), np.stack([x[:, 1:], y[:, 1:]], -1)], axis=2).reshape(
            -1, 2, 2
        )
        middle = (ends[1:] + ends[:-1]) / 2
        between = painted[parent][:, None] + (painted[nodes] - painted[parent])[:, None] * middle
        ax.add_collection(LineCollection(list(down), colors=colour[joins], linewidths=2.2))
        ax.add_collection(LineCollection(list(lines), colors=scale.to_rgba(between.ravel()), linewidths=2.2))
        figure: Any = ax.figure
        figure.colorbar(scale, ax=ax, label=name, shrink=0.6, pad=0.02)
    ax.autoscale_view()


def _kept(tree: Tree, leaves: int) -> np.ndarray:
    """Which nodes are drawn: a cut, or the largest children of a root that has more of them than there may be tips."""
    kept, children = cut(tree, leaves), tree.children(0)
    if len(kept) == 1:
        kept = np.append(children[np.argsort(-tree.leaf_counts[children], kind="stable")][:leaves], 0)
    inside = np.zeros(tree.n_nodes, bool)
    inside[kept] = True
    return inside


def _name_rows(ax: Axes, tree: Tree, tips: np.ndarray, inner: np.ndarray, xy: np.ndarray, column: str | None) -> None:
    """Tips are named at the ends of their lines, for which the axis makes room; then inner nodes, the largest first."""
    settled(ax)
    wide, tall = room_of(ax)
    size = float(np.clip(0.6 * tall / len(tips), 4.5, 8.0))
    tips = tips[np.argsort(-tree.leaf_counts[tips], kind="stable")]
    letters = min(34, int(0.4 * wide / (LETTER * size)))
    leaves = [counted(n, "leaf", "leaves") for n in tree.leaf_counts[tips].tolist()]
    more = [f"  ({n})" if size > 1 else "" for n, size in zip(leaves, tree.size[tips].tolist(), strict=True)]
    texts = [short(text, letters) + said for text, said in zip(names_of(tree, tips, column), more, strict=True)]
    way = np.abs(xy[:, 0] - xy[0, 0])
    margin, span = 14.0, max(float(way[tips].max()), 1e-9)  # points left of the root, for its own name
    scale = min((wide - margin - 10 - widths(ax, texts, size)) / np.maximum(way[tips], 1e-3 * span))
    scale = max(scale, 0.3 * wide / span)  # points for a step of 1
    towards = 1.0 if xy[tips, 0].max() > xy[0, 0] else -1.0
    start = xy[0, 0] - towards * margin / scale
    ax.set_xlim(start, start + towards * wide / scale)
    write_labels(ax, xy[tips], texts, size=size, limit=len(tips), anchor="row")
    _name_lines(
        ax, tree, inner[np.argsort(-tree.leaf_counts[inner], kind="stable")], xy, way * scale, 0.9 * size, column
    )


def _name_lines(
    ax: Axes, tree: Tree, inner: np.ndarray, xy: np.ndarray, way: np.ndarray, size: float, column: str | None
) -> None:
    """Names above the lines that lead to inner nodes, cut to their lengths; the root's beside its own, upright."""
    texts, at = [], []
    said, bare = isinstance(tree.labels[tree.leaves[0]], str), unnamed(tree)
    above = np.where(inner > 0, tree.parent[inner], 0)
    inner = inner[(inner == 0) | (way[inner] - way[above] - 6 >= LETTER * size)]  # there is room for a letter
    for node, name in zip(inner.tolist(), names_of(tree, inner, column), strict=True):
        if bare[node] or (said and not isinstance(tree.labels[node], str) and "name" not in tree.columns):
            continue  # a number that a merge of a linkage was given is no name, nor is what stands in for one
        up = tree.parent[node] if node else node
        letters = int((way[node] - way[up] - 6) / (LETTER * size))
        if node and (len(name) <= letters or letters >= FEWEST):
            texts.append(short(name, letters))
            at.append((xy[up, 0], xy[node, 1]))
        elif node == 0:
            tall = room_of(ax)[1]
            ax.annotate(
                short(name, max(int(0.9 * tall / (LETTER * size)), 1)), xy[0], xytext=(-3, 0), textcoords="offset points",
                fontsize=size, color=INK, rotation=90, rotation_mode="anchor", ha="center", va="bottom",
            )  # fmt: skip
    write_labels(ax, np.array(at).reshape(-1, 2), texts, size=size, limit=len(texts))
