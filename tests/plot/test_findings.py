"""What the pictures of findings show is what was found: the numbers are read back from the drawn artists."""

from __future__ import annotations

import numpy as np
import pytest

from shapes import AWKWARD, full
from strategies import random_tree
from vpunn import VpunnError, plot, structure

TREE = random_tree(600, 0)


def lines(ax) -> dict[str, np.ndarray]:
    return {line.get_label(): np.column_stack(line.get_data()) for line in ax.get_lines()}


def test_branching_lines_are_shares():
    found = structure.branching(TREE, permutations=9)
    drawn = lines(found.plot())
    values, counts = found.at(3)
    assert drawn["depth 3"][:, 0].tolist() == values.tolist()
    assert drawn["depth 3"][:, 1] == pytest.approx([counts[values >= v].sum() / counts.sum() for v in values])
    assert len(drawn["all depths"]) == len(found.total[0])


def test_histogram_bars_count_nodes():
    found = structure.branching(TREE, permutations=9)
    ax = plot.degree_histogram(found, 2)
    assert sum(bar.get_height() for bar in ax.patches) == found.at(2)[1].sum()


def test_box_counting_draws_the_counts_and_the_fit():
    found = structure.box_counting(TREE)
    ax = found.plot(claimed=1.46)
    drawn = lines(ax)
    assert drawn["N(k) branches, k steps down"][:, 1] == pytest.approx(np.log(found.counts) / np.log(found.p))
    fit = next(points for name, points in drawn.items() if name.startswith(f"slope {found.slope:.3f}"))
    assert np.diff(fit[:, 1]) == pytest.approx(found.slope)
    assert any("1.46" in name for name in drawn)
    assert "$\\log_p N(k)$" in ax.get_ylabel()


def test_entropy_lines():
    found = structure.entropy(TREE)
    drawn = lines(found.plot())
    assert any(np.array_equal(points[:, 1], found.digit) for points in drawn.values())
    assert any(np.array_equal(points[:, 1], found.given) for points in drawn.values())
    assert any(np.array_equal(points[:, 1], found.prefix[1:]) for points in drawn.values())


def test_spectrum_puts_nodes_where_the_vectors_say():
    found = structure.spectrum(TREE)
    dots = found.plot().collections[0]
    order = np.argsort(-found.tree.depth, kind="stable")  # shallow nodes on top
    assert np.asarray(dots.get_offsets()) == pytest.approx(found.position[order])
    assert np.asarray(dots.get_array()).tolist() == found.tree.depth[order].tolist()


def test_distance_matrix_shows_valuations():
    found = structure.distance_matrix(TREE, sample=30)
    shown = found.plot().images[0].get_array()
    off = ~np.eye(30, dtype=bool)
    assert (np.asarray(shown)[off] == found.valuation[off]).all()


def test_mapper_draws_sets_and_names_families():
    found = structure.mapper(full(3, 3))
    ax = found.plot()
    assert len(ax.collections[1].get_offsets()) == found.graph.number_of_nodes()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(found.graph.graph["families"].values())
    many = structure.mapper(full(9, 2)).plot()
    said = [text.get_text() for text in many.get_legend().get_texts()]
    assert len(said) == 8 and said[-1] == "2 other families"  # one grey, not colours without a name


def test_scores_and_agreement_are_the_numbers():
    rng = np.random.default_rng(0)
    found = structure.how_ultrametric(np.concatenate([rng.normal(m, 1, (15, 2)) for m in (0, 6, 30)]))
    ax = found.plot()
    texts = {text.get_text() for text in ax.texts}
    assert f"{found.score:.2f}" in texts and f"{found.random_points[0]:.2f}" in texts
    same = structure.compare_trees(TREE, TREE).plot()
    assert [bar.get_width() for bar in same.patches] == pytest.approx([1.0, 1.0, 1.0])


def test_magnitudes_and_claims():
    found = structure.magnitudes(TREE, np.random.default_rng(0).normal(size=len(TREE)))
    assert lines(found.plot())["mean |c|"][:, 1] == pytest.approx(found.mean)
    topics = structure.prefix_information(TREE, np.arange(len(TREE)) % 5)
    assert lines(topics.plot())["after the first k digits"][:, 1] == pytest.approx(topics.after_prefix)
    levels = structure.shared_levels(TREE, TREE.leaves[:40], [f"{i % 3}.{i % 7}" for i in range(40)])
    assert lines(levels.plot())["mean"][:, 1] == pytest.approx(levels.mean)
    against = structure.entropy(TREE).against(np.linspace(1, 0, 5))
    assert against.plot().collections[0].get_offsets()[:, 1].tolist() == np.linspace(1, 0, 5).tolist()


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_trees_are_drawn_or_explained(name):
    tree = AWKWARD[name]
    for found in (
        structure.branching(tree, permutations=9),
        structure.box_counting(tree),
        structure.entropy(tree),
        structure.spectrum(tree),
        structure.mapper(tree),
        structure.distance_matrix(tree),
        structure.compare_trees(tree, tree),
        structure.prefix_information(tree, np.arange(tree.n_nodes)),
        structure.magnitudes(tree, np.zeros(tree.n_nodes)),
    ):
        ax = found.plot()
        ax.figure.draw_without_rendering()
        assert ax.get_xlabel() or not ax.axison


def test_axes_are_used_if_given_and_strangers_refused():
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert structure.entropy(TREE).plot(ax) is ax
    with pytest.raises(VpunnError, match="no picture"):
        plot.finding(3)
