"""Pictures of trees: what is drawn lies where the tree says, for five nodes and for a million, and no two labels touch."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings

from shapes import AWKWARD, full
from strategies import random_tree, trees
from vpunn import Tree, VpunnError, plot
from vpunn.plot._branches import OTHER, large_branches
from vpunn.plot._names import outline as outline_of
from vpunn.plot._places import aggregate, cut, nested_circles, outline, wedges

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


@settings(max_examples=60, deadline=None)
@given(trees())
def test_branches_are_large_balls_apart(tree):
    """Colours never cross an ancestor line, the largest come first, and no branch beside them is as large as one of them."""
    balls, family = large_branches(tree)
    assert all(family[i] == family[tree.parent[i]] or family[tree.parent[i]] == -1 for i in range(1, tree.n_nodes))
    sizes = tree.leaf_counts[balls]
    assert len(balls) <= 7 and (np.diff(sizes) <= 0).all() and (family[balls] == np.arange(len(balls))).all()
    above = {up for ball in balls.tolist() for up in tree.ancestors(ball)[:-1].tolist()}
    beside = [i for i in range(1, tree.n_nodes) if family[i] == -1 and i not in above and tree.parent[i] in above]
    assert all(tree.leaf_counts[i] <= sizes[-1] for i in beside)


def grown(*branches: int) -> Tree:
    """A root whose children have so many leaves."""
    return Tree.from_paths(
        [(f"branch {k}", f"leaf {k}.{i}") for k, n in enumerate(branches) for i in range(n)], root="all"
    )


def coloured(tree: Tree) -> list[int]:
    return tree.leaf_counts[large_branches(tree).balls].tolist()


def test_colours_are_those_of_the_largest_branches():
    assert coloured(grown(3, 40, 5, 8, 2, 30, 2, 6, 2, 20)) == [40, 30, 20, 8, 6, 5, 3]
    # of equal branches all have a colour, or none
    assert coloured(grown(9, 5, 4, 4, 4, 4, 4, 4)) == [9, 5]
    assert coloured(grown(*[4] * 8)) == [32] and coloured(grown(*[4] * 7)) == [4] * 7
    # one child that holds nearly all is opened, but not into crumbs
    paths = [("most", f"part {k}", f"{k}.{i}") for k in range(4) for i in range(9)]
    deep = Tree.from_paths([*paths, ("few", "f")], root="all")
    assert coloured(deep) == [9, 9, 9, 9, 1]
    assert coloured(grown(40, 2, 1)) == [40, 2, 1]


@pytest.mark.parametrize("draw", [plot.icicle, plot.radial, plot.dendrogram, plot.force, plot.poincare])
def test_the_legend_counts_the_leaves_of_every_colour(draw):
    from matplotlib.colors import to_hex

    tree = grown(3, 40, 5, 8, 2, 30, 2, 6, 2, 20)
    more = {"colour": "family"} if draw is plot.poincare else {}
    key = draw(tree, **more).get_legend()
    said = [text.get_text() for text in key.get_texts()]
    assert said[0] == "branch 1 (40)" and said[-1] == "other (6)" and len(said) == 8
    assert sum(int(text.split("(")[1].strip(")")) for text in said) == tree.n_leaves
    assert to_hex(key.get_patches()[-1].get_facecolor()) == to_hex(OTHER)
    assert draw(tree, legend=False, **more).get_legend() is None
    assert draw(grown(*[4] * 8), **more).get_legend() is None  # one colour needs no key


def test_a_legend_stays_in_a_figure_that_nobody_lays_out():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4))
    ax = plot.icicle(grown(9, 5, 3), figure.subplots())
    figure.draw_without_rendering()
    assert ax.get_legend().get_window_extent().x1 < figure.bbox.x1


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
    drawn = [(t.get_text(), outline_of(t, figure._get_renderer())) for t in ax.texts if t.get_text()]
    return [(a, b) for (a, x), (b, y) in combinations(drawn, 2) if x.intersects_path(y)]


@pytest.mark.parametrize("draw", [plot.radial, plot.poincare, plot.icicle, plot.balls, plot.dendrogram])
@pytest.mark.parametrize("size", [12, 60, 400, 3000])
def test_labels_do_not_touch(draw, size):
    tree = random_tree(size, 3)
    ax = draw(Tree.from_parents(tree.parent, [f"a longish name {i}" for i in range(size)]))
    assert ax.texts and overlaps(ax) == []


@pytest.mark.parametrize("draw", [plot.radial, plot.dendrogram])
def test_outlines_are_those_of_turned_names(draw):
    ax = draw(Tree.from_paths([["a", "x"], ["a", "y"], ["b", "z"]], root="a root with a long name"))
    for word in ax.texts:
        drawn = word.get_window_extent()
        assert outline_of(word, None).get_extents().get_points() == pytest.approx(drawn.get_points(), abs=1e-6)


def test_radial_names_leaves_around_the_rim():
    """All leaves where there is room, all around where there is not, and every name inside the picture."""
    few, many = Tree.from_parents([-1] + [0] * 60), Tree.from_parents([-1] + [0] * 600)
    named = {text.get_text() for text in plot.radial(few).texts}
    assert named == {str(i) for i in range(61)}
    ax = plot.radial(many)
    leaves = [int(text.get_text()) for text in ax.texts if text.get_text() != "0"]
    assert 60 < len(leaves) < 600 and np.diff(sorted(leaves)).max() < 12
    assert all(ax.get_window_extent().contains(*point) for t in ax.texts for point in outline_of(t, None).vertices)
    assert not list(plot.radial(few, labels=0).texts)


def test_poincare_radius_is_depth():
    tree = random_tree(200, 1)
    dots = plot.poincare(tree).collections[-1].get_offsets()
    radius = np.hypot(*np.asarray(dots).T)
    step = 2 * np.arctanh(0.97) / tree.max_depth
    assert 2 * np.arctanh(radius) == pytest.approx(step * tree.depth, abs=1e-6)  # hyperbolic distance from the centre


def test_dendrogram_shows_what_it_collapses():
    tree = full(3, 5)
    ax = plot.dendrogram(tree, leaves=9)
    shown = [text.get_text() for text in ax.texts if "leaves" in text.get_text()]
    assert len(shown) == 9 and all("(27 leaves)" in text for text in shown)
    star = plot.dendrogram(Tree.from_parents([-1] + [0] * 60), leaves=40)
    assert len(star.texts) == 41 and "20 leaves of further branches not drawn" in star.get_xlabel()


def test_dendrogram_names_inner_balls_where_they_fit():
    ax = plot.dendrogram(NAMED)
    assert {text.get_text() for text in ax.texts} == set(NAMED.labels.tolist())
    frame = ax.get_window_extent()
    assert all(frame.contains(*point) for text in ax.texts for point in outline_of(text, None).vertices)
    # on a short line a long name is cut, and a name of which nothing could be read is not written
    deep = Tree.from_paths([[f"the long name of ball {k}" for k in range(depth)] for depth in (3, 9, 40)])
    words = [text.get_text() for text in plot.dendrogram(deep).texts]
    assert not [word for word in words if 0 < len(word.rstrip("…")) < 4]


def test_dendrogram_of_a_linkage_uses_heights():
    from scipy.cluster.hierarchy import linkage

    tree = Tree.from_linkage(linkage([[0.0], [1.0], [5.0]]), ["a", "b", "c"])
    ax = plot.dendrogram(tree)
    assert ax.get_xlabel() == "height of the merge"
    assert {text.get_text() for text in ax.texts} == set("abc")  # merges have numbers, which are no names


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


def test_a_chain_and_a_star_cost_little_or_are_refused():
    chain = Tree.from_parents(np.arange(-1, 2999))
    ax = plot.code(chain, chain.n_nodes - 1)
    assert "2,959 digits in the middle are not drawn" in ax.get_title(loc="left")
    assert [t.get_text() for t in ax.texts if "a_{2998}" in t.get_text()]
    assert len(plot.poincare(chain).patches) < 70
    boxes = plot.icicle(chain)
    assert len(boxes.get_yticks()) < 30 and len(boxes.texts) < 30  # a report on it took minutes
    with pytest.raises(VpunnError, match="at most 2,000 nodes, and the tree has 3,000"):
        plot.diagram(chain)


def test_a_phylogeny_is_drawn_by_its_lengths_and_painted_by_a_trait():
    tree = random_tree(250, 3)
    tree = tree.replace(columns={"length": np.random.default_rng(0).exponential(size=tree.n_nodes)})
    values = tree.depth.astype(float)
    ax = plot.dendrogram(tree, values=values, name="mass")
    assert ax.get_xlabel() == "branch length from the root"
    far = np.zeros(tree.n_nodes)
    for node in range(1, tree.n_nodes):
        far[node] = far[tree.parent[node]] + tree.columns["length"][node]
    ends = np.concatenate([np.array(lines.get_segments())[:, -1, 0] for lines in ax.collections[1:2]])
    np.testing.assert_allclose(ends.max(), far.max())
    assert len(ax.texts) >= min(tree.n_leaves, 300)  # every tip has its name
    colours = ax.collections[1].get_colors().reshape(tree.n_nodes - 1, -1, 4)
    assert (colours[:, 0] != colours[:, -1]).any(axis=1).mean() > 0.9  # from the parent's number to its own
    with pytest.raises(VpunnError, match="one number for each"):
        plot.dendrogram(tree, values=[1.0])
