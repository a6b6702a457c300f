"""Pictures of trees: what is drawn lies where the tree says, for five nodes and for a million, and no two labels touch."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings

from shapes import AWKWARD, full
from strategies import random_tree, trees
from vpunn import Tree, VpunnError, plot
from vpunn.plot._places import aggregate, cut, families, nested_circles, outline, wedges

NAMED = Tree.from_parents(
    [-1, 0, 0, 1, 1, 2, 2, 2], labels=["life", "animals", "plants", "owl", "fish", "oak", "fern", "moss"]
)


def boxes(ax) -> np.ndarray:
    return np.array([path.vertices[:4] for path in ax.collections[-1].get_paths()])


@settings(max_examples=40, deadline=None)
@given(trees())
def test_wedges_nest(tree):
    left, width = wedges(tree)
    up = tree.parent[1:]
    assert (left[1:] >= left[up] - 1e-12).all() and (left[1:] + width[1:] <= left[up] + width[up] + 1e-12).all()
    assert width[tree.leaves].sum() == pytest.approx(1.0) and (left[0], width[0]) == (0.0, 1.0)


@settings(max_examples=40, deadline=None)
@given(trees())
def test_outlines_and_cuts_are_trees(tree):
    for count in (1, 3, 10):
        kept = outline(tree, count)
        assert kept[0] == 0 and set(tree.parent[kept[1:]].tolist()) <= set(kept.tolist())
        part = cut(tree, count)
        assert set(tree.parent[part[1:]].tolist()) <= set(part.tolist())
        tips = set(part.tolist()) - set(tree.parent[part[1:]].tolist())
        assert len(tips) <= count
        covered = np.concatenate([np.arange(t, t + tree.size[t]) for t in tips])
        assert set(tree.leaves.tolist()) <= set(covered.tolist())
    family = families(tree)
    assert all(family[i] == family[tree.parent[i]] or family[tree.parent[i]] == -1 for i in range(1, tree.n_nodes))


@settings(max_examples=40, deadline=None)
@given(trees(max_nodes=25))
def test_circles_are_nested_or_apart(tree):
    centre, radius = nested_circles(tree, 3)
    for a, b in combinations(np.flatnonzero(radius > 0).tolist(), 2):
        far = np.hypot(*(centre[a] - centre[b]))
        inside = tree.is_ancestor(a, b)
        assert far + radius[b] <= radius[a] + 1e-9 if inside else far >= radius[a] + radius[b] - 1e-9


def test_icicle_boxes_are_the_balls():
    ax = plot.icicle(NAMED)
    drawn = boxes(ax)
    left, width = wedges(NAMED)
    assert len(drawn) == NAMED.n_nodes
    for node, box in enumerate(drawn):
        assert box[:, 0].min() == pytest.approx(left[node]) and np.ptp(box[:, 0]) == pytest.approx(width[node])
        assert box[:, 1].max() == -NAMED.depth[node]
    assert {text.get_text() for text in ax.texts} == set(NAMED.labels.tolist())


def test_a_value_is_aggregated_up_the_tree():
    values = np.full(NAMED.n_nodes, np.nan)
    values[NAMED.index(["owl", "fish", "oak"])] = [2.0, 4.0, 9.0]
    mean = aggregate(NAMED, values)
    twin = [np.nanmean(v) if np.isfinite(v := values[NAMED.slice(i)]).any() else np.nan for i in range(NAMED.n_nodes)]
    assert mean == pytest.approx(twin, nan_ok=True)
    ax = plot.icicle(NAMED, values=values, label="size")
    assert ax.figure.axes[-1].get_ylabel() == "size"
    with pytest.raises(VpunnError, match="no column"):
        plot.icicle(NAMED, values="weight")
    with pytest.raises(VpunnError, match="numbers"):
        plot.icicle(NAMED, values=list("abcdefgh"))


def overlaps(ax) -> list[tuple[str, str]]:
    figure = ax.figure
    figure.draw_without_rendering()
    drawn = [(t.get_text(), t.get_window_extent()) for t in ax.texts if t.get_text()]
    return [(a, b) for (a, x), (b, y) in combinations(drawn, 2) if x.overlaps(y)]


@pytest.mark.parametrize("draw", [plot.radial, plot.poincare, plot.icicle, plot.balls])
def test_labels_do_not_touch(draw):
    tree = random_tree(400, 3)
    assert overlaps(draw(Tree.from_parents(tree.parent, [f"a longish name {i}" for i in range(400)]))) == []


def test_poincare_radius_is_depth():
    tree = random_tree(200, 1)
    dots = plot.poincare(tree).collections[-1].get_offsets()
    radius = np.hypot(*np.asarray(dots).T)
    step = 2 * np.arctanh(0.97) / tree.max_depth
    assert 2 * np.arctanh(radius) == pytest.approx(step * tree.depth, abs=1e-6)  # hyperbolic distance from the centre


def test_dendrogram_shows_what_it_collapses():
    tree = full(3, 5)
    ax = plot.dendrogram(tree, leaves=9)
    shown = [text.get_text() for text in ax.texts]
    assert len(shown) == 9 and all("(27 leaves)" in text for text in shown)
    assert len(plot.dendrogram(NAMED).texts) == NAMED.n_leaves


def test_dendrogram_of_a_linkage_uses_heights():
    from scipy.cluster.hierarchy import linkage

    tree = Tree.from_linkage(linkage([[0.0], [1.0], [5.0]]), ["a", "b", "c"])
    assert plot.dendrogram(tree).get_xlabel() == "height of the merge"


def test_code_picture_names_digits():
    node = int(NAMED.index("fern"))
    ax = plot.code(NAMED, node)
    assert [bar.get_width() for bar in ax.patches] == NAMED.leaf_counts[NAMED.ancestors(node)].tolist()
    texts = [text.get_text() for text in ax.texts]
    assert "$a_{0}$ = 2" in texts and "$a_{1}$ = 2" in texts
    assert "2·5$^{0}$ + 2·5$^{1}$" in ax.get_title(loc="left")


def test_diagram_marks_the_ball():
    ax = plot.diagram(NAMED, ball=int(NAMED.index("plants")))
    from matplotlib.colors import to_hex

    marked = [to_hex(c) == plot.PALETTE[2].lower() for c in ax.collections[-1].get_facecolors()]
    assert np.flatnonzero(marked).tolist() == [0, *range(4, 8)]  # the path to the ball and all that is in it


def test_architecture_adds_up():
    c = np.arange(NAMED.n_nodes, dtype=float)
    node = int(NAMED.index("oak"))
    texts = " ".join(text.get_text() for text in plot.architecture(NAMED, node, c).texts)
    assert f"= {c[NAMED.ancestors(node)].sum():.3g}" in texts


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize(
    "draw",
    [plot.icicle, plot.radial, plot.dendrogram, plot.poincare, plot.force, plot.balls, plot.diagram, plot.versus],
)
def test_awkward_trees_are_drawn(name, draw):
    draw(AWKWARD[name]).figure.draw_without_rendering()


@pytest.mark.parametrize("draw", [plot.icicle, plot.radial, plot.dendrogram])
def test_a_million_nodes_are_drawn_in_little(draw):
    tree = random_tree(1_000_000, 0)
    ax = draw(tree)
    assert sum(len(c.get_paths()) for c in ax.collections) + len(ax.lines) < 60_000


def test_diagram_names_inner_nodes_when_asked():
    tree = Tree.from_paths([["a", "x"], ["a", "y"], ["b", "z"]], root="r")
    ax = plot.diagram(tree, inner=True, texts=["x\n1", "y\n2", "z\n3"])
    assert [t.get_text() for t in ax.texts if not t.get_text().isdigit()] == ["r", "a", "b", "x\n1", "y\n2", "z\n3"]
    assert {t.get_text() for t in plot.diagram(tree).texts if not t.get_text().isdigit()} == {"x", "y", "z"}


def test_versus_lights_up_one_chain_of_a_lopsided_tree():
    """A root with one huge child still shows its other children, and names the balls around one item."""
    tree = Tree.from_parents([-1, 0, 0, 0, 1, 1, 1, 4, 4, 4, 4], labels=list("rabcdefghij"))
    ax = plot.versus(tree)
    points = np.concatenate([c.get_offsets() for c in ax.collections[3:]])
    assert len(points) == 1 + 3 + 3 + 2 and len(np.unique(points.round(6), axis=0)) == 9
    assert {t.get_text() for t in ax.texts} >= {"r", "a", "d", "g"}
