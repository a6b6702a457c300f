"""T2 measured: distances by hand, an exact code without defects, and placements that are only as good as what was learned."""

from __future__ import annotations

import json

import numpy as np
import pytest

from strategies import random_tree
from vpunn import Tree
from vpunn.datasets import load_wordnet
from vpunn.paper.reports import geometries
from vpunn.paper.reports.geometries import classical_scaling, euclid, hyperbolic, placed


def test_distances_are_those_of_the_plane_and_the_disk():
    x, y = np.array([[0.3, 0.4]]), np.array([[-0.2, 0.1]])
    assert euclid(x, y)[0] == pytest.approx(np.hypot(0.5, 0.3))
    # the same by moving x to the origin: |(y − x)/(1 − conj(x) y)| for complex numbers
    a, b = 0.3 + 0.4j, -0.2 + 0.1j
    assert hyperbolic(x, y)[0] == pytest.approx(2 * np.arctanh(abs((b - a) / (1 - a.conjugate() * b))))


def test_scaling_a_path_is_exact_in_one_dimension():
    chain = Tree.from_parents([-1, 0, 1, 2, 3])
    cloud = classical_scaling(chain, 1)
    assert cloud.distance(cloud.points[0], cloud.points[4]) == pytest.approx(4)
    assert cloud.shared(cloud.points[2:3], cloud.points[4:5])[0] == pytest.approx(
        2
    )  # the depth of their common ancestor


def test_the_code_is_exact_and_embeddings_are_judged_on_the_same_pairs():
    rows = geometries.faithful(random_tree(120, seed=4), 4000)
    exact = rows[0]
    assert (exact["distortion, worst"], exact["ultrametric defects %"], exact["triplets right %"]) == (1, 0, 100)
    assert exact["ρ(shared way, LCA depth)"] == pytest.approx(1)
    assert len(rows) == 1 + len(geometries.made_here())
    assert all(row["distortion, worst"] > 1 and row["triplets right %"] < 100 for row in rows[1:])
    json.dumps(rows)


def test_unseen_leaves_are_placed_by_texts_that_say_where():
    """Texts that spell the parent out: the classifier finds it, and the code's placement is exact; shuffled, it is not."""
    few = {"triples": 4000, "made": {"Euclid": geometries.MADE["Euclidean, 10 dimensions"]}}
    paths = [f"{a}/{a}{b}/{a}{b}{c}" for a in "abc" for b in "abcd" for c in range(12)]
    tree = Tree.from_paths(paths, sep="/", root="all")
    texts = np.array(
        [f"kin{tree.labels[p]} tribe{str(tree.labels[p])[0]}" if p >= 0 else "" for p in tree.parent], object
    )
    found = placed(tree, texts, 0, **few)
    for name in ("exact code, HiPaNClassifier", "exact code, nearest text"):
        assert found[name]["rho"] == pytest.approx(1)
        assert found[name]["triplets right %"] == 100
        assert found[name]["ultrametric defects %"] == 0
    mixed = texts.copy()
    mixed[tree.leaves] = np.random.default_rng(0).permutation(texts[tree.leaves])
    assert abs(placed(tree, mixed, 0, **few)["exact code, HiPaNClassifier"]["rho"]) < 0.3
    assert "Verdict: " in geometries.verdict([found])


def test_the_mammals_are_there():
    tree = load_wordnet("3.1").tree
    assert tree.size[tree.index(geometries.ROOT)] > 900
