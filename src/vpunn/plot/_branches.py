"""Colours of branches: by large branch, with a key that says how many leaves each colour stands for, or by a number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vpunn.plot._style import colours, depth_map, names_of, short
from vpunn.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: A branch with a larger share of the leaves gives way to its children: one colour for nearly all says little.
LARGE = 1 / 3
#: But not if the colours would then stand for less than this share of the leaves.
COLOURED = 2 / 3
#: Branches with less than this share of the leaves get no colour: nobody would find it in the picture.
SMALL = 0.01
#: What lies in none of the coloured branches, and what lies above them.
OTHER = (0.74, 0.76, 0.79)


class Branches(NamedTuple):
    """Large branches without a common leaf: their balls, the largest first, and per node the number of its branch (−1: none)."""

    balls: np.ndarray
    family: np.ndarray


def large_branches(tree: Tree, count: int = 7, *, inside: np.ndarray | None = None) -> Branches:
    """At most ``count`` large branches, found from the root down; ``inside`` says which nodes a picture shows, if not all.

    The root gives way to its children, and so does every ball with more than a third of the leaves, the largest first, as long as
    no fewer branches are coloured and they hold two thirds of the leaves. Equal branches are coloured all or not at all. If
    nothing can be told apart by this (a star), the whole tree is one branch.
    """
    tips = [(-tree.n_leaves, 0)]  # sorted, and a hundred at most: smaller balls are left out
    closed: set[int] = set()
    nodes, forks = _forks(tree, inside)
    while wide := [tip for tip in tips[:2] if tip[1] not in closed and -tip[0] > LARGE * tree.n_leaves]:
        opened = wide[0]
        fork = forks[np.searchsorted(forks, opened[1])]  # the first place further down where the way parts
        below = nodes[tree.parent[nodes] == fork]
        new = list(zip((-tree.leaf_counts[below]).tolist(), below.tolist(), strict=True))
        trial = sorted([*(tip for tip in tips if tip != opened), *new])
        before, after = _largest(tips, count), _largest(trial, count)
        told = -sum(size for size, _ in after)
        if new and (opened[1] == 0 or (len(after) >= len(before) and told >= COLOURED * tree.n_leaves)):
            tips = trial
        else:
            closed.add(opened[1])
    chosen = _largest(tips, count)
    balls = np.array([node for _, node in chosen] if len(chosen) > 1 else [0])
    return Branches(balls, _numbered(tree, balls))


def _forks(tree: Tree, inside: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The nodes that matter, in preorder, and those of them below which the way parts or ends."""
    matter = tree.leaf_counts >= SMALL * tree.n_leaves
    nodes = np.flatnonzero(matter if inside is None else matter & inside)
    below = np.bincount(tree.parent[nodes[1:]], minlength=tree.n_nodes)[nodes]
    return nodes, nodes[below != 1]


def _largest(tips: list[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """The first of sorted pairs of −leaves and node; none of those that are as large as one left out."""
    left_out = tips[count][0] if len(tips) > count else 0
    return [tip for tip in tips[:count] if tip[0] < left_out]


def _numbered(tree: Tree, balls: np.ndarray) -> np.ndarray:
    """Per node the place of its ball among ``balls``, which have no node in common; −1 in none."""
    order = np.argsort(balls)
    start, nodes = balls[order], np.arange(tree.n_nodes)
    at = np.searchsorted(start, nodes, side="right") - 1
    return np.where((at >= 0) & (nodes < start[at] + tree.size[start[at]]), order[at], -1)


def branch_colours(tree: Tree, found: Branches, fade: float = 0.0) -> np.ndarray:
    """(nodes, 4): the colour of each node's branch, grey outside; paler by ``fade`` with each step down."""
    from matplotlib.colors import to_rgb

    base = np.array([OTHER, *(to_rgb(colour) for colour in colours(len(found.balls)))])
    start = np.where(found.family >= 0, tree.depth[found.balls[found.family]], 1)
    pale = np.clip((tree.depth - start) * fade, 0, 0.6)[:, None]
    rgb = base[found.family + 1]
    return np.column_stack([rgb + (1 - rgb) * pale, np.ones(tree.n_nodes)])


def value_colours(data: np.ndarray) -> tuple[np.ndarray, Any]:
    """(nodes, 4) by a number per node, light grey where there is none, and the colour scale."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    known = data[np.isfinite(data)]
    norm = Normalize(*(np.quantile(known, [0.01, 0.99]) if len(known) else (0, 1)))
    scale = ScalarMappable(norm, depth_map(light=True))
    out = np.asarray(scale.to_rgba(np.where(np.isfinite(data), data, float(norm.vmin or 0.0))))
    out[~np.isfinite(data)] = (0.93, 0.93, 0.93, 1.0)
    return out, scale


def name_colours(ax: Axes, tree: Tree, found: Branches, column: str | None = None) -> None:
    """A key beside the picture: each coloured branch and what is left, with the number of their leaves; nothing for one colour."""
    from matplotlib.patches import Patch

    leaves = tree.leaf_counts[found.balls]
    rest = tree.n_leaves - int(leaves.sum())
    if len(found.balls) + (rest > 0) < 2:
        return
    shown = zip(names_of(tree, found.balls, column), leaves.tolist(), colours(len(leaves)), strict=True)
    keys = [Patch(color=colour, label=f"{short(name, 26)} ({n:,})") for name, n, colour in shown]
    keys += [Patch(color=OTHER, label=f"other ({rest:,})")] if rest else []
    figure: Any = ax.figure
    if figure.get_layout_engine() is None:  # nobody else makes room for it
        box = ax.get_position()
        ax.set_position((box.x0, box.y0, 0.72 * box.width, box.height))
    ax.legend(
        handles=keys, title="branch (leaves)", loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, fontsize=8,
        title_fontsize=8, frameon=False, alignment="left", handlelength=1.0, handleheight=1.0,
    )  # fmt: skip
