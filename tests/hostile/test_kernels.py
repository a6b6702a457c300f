"""Kernels that are given what is not a number, nothing, or far too much stay within their arrays.

`make test` runs this file a second time inside `test_within_bounds`, with every array access checked (NUMBA_BOUNDSCHECK=1).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from vpunn import Tree
from vpunn.hipan.combiner import Combiner
from vpunn.hipan.nearest_numbers import nearest
from vpunn.hipan.posterior import Posterior, Spread
from vpunn.hipan.tree_arrays import Grown

NAN = float("nan")
CHECKED = os.environ.get("NUMBA_BOUNDSCHECK") == "1"


def question(tree: Tree, p: list[float], share: float = 1.0) -> Posterior:
    """Two rows that offer the root, a few places and a ball, at any probabilities."""
    grown = Grown.of(tree)
    places = np.where(grown.is_place, share, 0.0)
    slots = np.full((2, len(p)), -1, np.int32)
    slots[0] = np.linspace(0, grown.blocks - 1, len(p)).astype(np.int32)
    slots[1, 0] = grown.blocks - 1
    return Posterior(tree, Spread.of(grown, places), slots, np.array([p, p], np.float32))


TREES = {
    "flat": Tree.from_parents([-1] + [0] * 1000),
    "chain": Tree.from_parents(list(range(-1, 60))),
    "deep": Tree.from_parents([-1, 0, 0, 1, 1, 3, 3]),
}


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
@pytest.mark.parametrize("p", [NAN, -1.0, float("inf"), -float("inf"), 0.0, 1.0, 1e30])
@pytest.mark.parametrize("share", [1.0, 0.0, NAN])
def test_a_posterior_of_what_are_no_probabilities(tree, p, share):
    """With NaN every comparison is false: lists that end where a value falls below another grow past their end."""
    posterior, n = question(tree, [p, 0.5, p], share), tree.n_nodes
    with np.errstate(all="ignore"):
        for k in (1, 3, n):
            nodes, _ = posterior.top_k(k)
            assert nodes.shape == (2, k) and (nodes >= -1).all() and (nodes < n).all()
        for threshold in (0.0, 0.02, 0.5, 1.0, NAN):
            found = posterior.deepest(threshold)
            assert ((found >= 0) & (found < n)).all()
        balls, _ = posterior.chain(np.array([n - 1, 0]))
        assert balls[:, 0].tolist() == [0, 0] and balls[0].max() == n - 1
        assert posterior.masses(slice(None)).shape == (2, n)


def test_the_best_of_a_thousand_classes_are_sorted_and_right():
    posterior = question(TREES["flat"], [0.5, 0.3, 0.2])
    nodes, p = posterior.top_k(1000)
    offered = posterior.spread.grown.node[posterior.slots[0, 1:]]
    assert nodes[0, :2].tolist() == offered.tolist() and np.allclose(p[0, :2], [0.3, 0.2])
    assert (np.diff(p[0]) <= 0).all() and len(set(nodes[0].tolist())) == 1000 and np.isclose(p[0].sum(), 1, atol=1e-3)


@pytest.mark.parametrize("k", [1, 3, 40])
@pytest.mark.parametrize("value", [NAN, 0.0, 1e200, float("inf")])
def test_the_nearest_of_anything(k, value):
    items = np.random.default_rng(0).normal(size=(30, 3))
    items[::2] = value
    with np.errstate(all="ignore"):
        item, _ = nearest(np.full((2, 3), value), items, k)
    assert (item >= -1).all() and (item < 30).all()


def test_a_combiner_of_what_are_no_numbers_gives_every_line_something():
    rng = np.random.default_rng(0)
    parts = rng.normal(size=5), np.ones(5), rng.normal(size=5), rng.normal(size=(5, 4)), np.zeros(4), rng.normal(size=4)
    combiner = Combiner(*(part.astype(np.float32) for part in parts))
    evidence = np.full((6, 5), 1e30, np.float32)
    evidence[3:] = NAN
    p = combiner.probability(evidence, np.array([0, 3, 3, 6]))
    assert np.allclose(p[:3], 1 / 3) and p.shape == (6,)


def test_a_classifier_of_words_and_of_numbers_end_to_end():
    from vpunn.hipan import HiPaNClassifier

    rng = np.random.default_rng(0)
    paths = [("animal", "bird", "owl"), ("animal", "bird", "wren"), ("animal", "fish"), ("plant",)]
    tree = Tree.from_paths(paths, root="life")
    words = sparse.csr_matrix(rng.poisson(0.5, (40, 9)).astype(float))
    about = sparse.csr_matrix(rng.poisson(0.5, (tree.n_nodes, 9)).astype(float))
    model = HiPaNClassifier(tree).fit(words, [p[-1] for p in paths] * 10, X_nodes=about)
    new = sparse.vstack([words[:5], sparse.csr_matrix((1, 9)), sparse.csr_matrix(np.ones((1, 9)))]).tocsr()
    for rule in ("node", "path"):
        model.posterior(new).best(rule)
    assert np.allclose(model.predict_proba(new).sum(1), 1)
    flat = HiPaNClassifier().fit(rng.normal(size=(30, 3)), np.arange(30) % 6)
    assert np.isfinite(flat.predict_proba(rng.normal(size=(4, 3)) * 1e20)).all()
    sets = [{p[-1], "owl"} if i % 2 else {p[-1]} for i, p in enumerate(paths * 10)]
    several = HiPaNClassifier(tree).fit({"words": words, "numbers": rng.normal(size=(40, 2))}, sets)
    assert len(several.predict({"words": new, "numbers": np.zeros((7, 2))})) == 7


@pytest.mark.skipif(CHECKED, reason="this is the run inside the run")
def test_within_bounds(tmp_path):
    """The same tests with every access to an array checked; unoptimised, which compiles in half the time."""
    cache = Path(os.environ.get("VPUNN_CHECKED_CACHE", tmp_path))  # compiled code does not say whether it checks
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache), "NUMBA_OPT": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore:Cannot cache", __file__],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
