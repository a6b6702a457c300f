"""Kernels that are given what is not a number, nothing, or far too much stay within their arrays.

`make test` runs this file a second time inside `test_within_bounds`, with every array access checked (NUMBA_BOUNDSCHECK=1).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from vpunn import Tree
from vpunn.hipan._arrays import Answer, Room
from vpunn.hipan._rest import Prior, Rest, rings_around
from vpunn.hipan.kernels.propose import keep_best, rarest_first
from vpunn.hipan.kernels.rest import merge_best
from vpunn.hipan.kernels.sets import NEAREST, ByRow, Tray, _find_nearest
from vpunn.hipan.kernels.walk import along, at_depth, deepest

NAN = float("nan")
#: Helpers are compiled inside of kernels only; their Python form checks every access by itself.
CHECKED = os.environ.get("NUMBA_BOUNDSCHECK") == "1"


def flat_question(n: int, factor: float, k: int, p: float = 0.5):
    """One row over n flat classes with weights in turn small and large, asked for its best k."""
    prior = np.where(np.arange(n + 1) % 2, 1e-9, 1.0)
    prior[0] = 0
    half = 1 << (n + 1 - 1).bit_length()
    peaks = np.zeros(2 * half)
    peaks[half : half + n + 1] = prior / prior.sum()
    for i in range(half - 1, 0, -1):
        peaks[i] = max(peaks[2 * i], peaks[2 * i + 1])
    size = np.ones(n + 1, np.int32)
    size[0] = n + 1
    answer = Answer(np.array([[3]], np.int32), np.array([[p]]))
    rest = Rest(np.zeros((1, 1), np.int32), np.zeros((1, 1)), np.full((1, 1), factor), np.full((1, 1), factor))
    return merge_best(answer, peaks, np.array([0, n + 1]), size, rest, k, Room())


@pytest.mark.parametrize("factor", [NAN, -1.0, float("inf"), -float("inf"), 0.0, 1.0])
@pytest.mark.parametrize("p", [0.5, NAN])
def test_the_best_of_a_thousand_classes(factor, p):
    """With NaN every comparison is false: the stack of slices grew past its end and the heap was overwritten."""
    nodes, _ = flat_question(1000, factor, 1, p)
    assert nodes.shape == (1, 1) and -1 <= nodes[0, 0] <= 1000


def test_the_best_are_sorted_and_right():
    nodes, values = flat_question(50, 0.5, 5)
    assert nodes[0, 0] == 3 and values[0, 0] == 0.5  # the candidate
    assert nodes[0, 1:].tolist() == [2, 4, 6, 8]


@pytest.mark.parametrize("limit", [0, 1, 3, 10])
@pytest.mark.parametrize("values", [[NAN] * 5, [1.0, NAN, 3.0, NAN, 2.0], [2.0, 2.0, 2.0, 2.0, 2.0]])
def test_keeping_the_best_of_anything(limit, values):
    best = np.full(max(limit, 1), -9, np.int32)
    filled = keep_best.py_func(np.array(values, np.float32), 5, limit, np.arange(5, dtype=np.int32), best)
    assert filled == min(limit, 5)
    assert len(set(best[:filled].tolist())) == filled and (best[:filled] >= 0).all()


def testrarest_first_is_a_stable_sort_by_frequency():
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 5, 40)
    start = np.concatenate([[0], np.cumsum(sizes)])
    indices = rng.permutation(40).astype(np.int32)
    rarest = np.empty(40, np.int64)
    openers, scorers = rarest_first.py_func(5, 35, indices, start, (10, 25), rarest)
    slow = sorted((a for a in range(5, 35) if sizes[indices[a]]), key=lambda a: (sizes[indices[a]], a))
    assert rarest[: len(slow)].tolist() == slow
    total = np.cumsum([sizes[indices[a]] for a in slow])
    assert (openers, scorers) == (int((total <= 10).sum()), int((total <= 25).sum()))


def test_rings_around_candidates_that_are_not_numbers():
    tree = Tree.from_parents([-1, 0, 0, 1, 1])
    prior = np.array([0, 0, 0.5, 0.25, 0.25])
    fixed = Prior(tree, prior, np.zeros(5, np.int32))
    answer = Answer(np.array([[3, 4], [-1, -1]], np.int32), np.full((2, 2), NAN))
    chain = rings_around(fixed, answer, np.full((2, 1), NAN)).chain
    assert (chain < 5).all()
    nan = np.full(chain.shape, NAN)
    for walk, asked in (
        (deepest, 0.5),
        (deepest, 0.0),
        (deepest, NAN),
        (at_depth, 0),
        (at_depth, 2),
        (along, np.array([3, 2])),
    ):
        found = walk(answer, fixed.shares, fixed.outline, Rest(chain, nan, nan, nan[:, :1]), asked, Room())
        if walk is along:
            assert np.array_equal(found[0], tree.paths([3, 2])) and len(found[1]) == 2
        else:
            assert len(found) == 2 and ((found >= 0) & (found < 5)).all()


def test_items_whose_products_cancel_on_the_way_are_listed_once():
    """They were listed anew each time their sum was zero, behind the end of the list."""
    product = np.array([1.0, -1.0, 1.0, -1.0, 0.5], np.float32)  # of five features with the one item
    memory = SimpleNamespace(columns=ByRow(np.arange(6), np.zeros(5, np.int32), product))
    near, row = np.zeros(NEAREST, np.float32), np.zeros(NEAREST, np.int32)
    room = np.zeros(1, np.float32), np.zeros(1, np.bool_), np.zeros(1, np.int32), np.zeros((7, 1), np.float32)
    tray = Tray(np.ones(5, np.float32), *room, near, row)
    rows = ByRow(np.array([0, 5]), np.arange(5), np.ones(5, np.float32))
    assert _find_nearest.py_func(rows, 0, memory, tray) == 1 and tray.near[0] == 0.5
    assert tray.similarity[0] == 0 and not tray.met[0]


def test_a_classifier_of_words_and_of_numbers_end_to_end():
    from vpunn.hipan import HiPaNClassifier

    rng = np.random.default_rng(0)
    paths = [("animal", "bird", "owl"), ("animal", "bird", "wren"), ("animal", "fish"), ("plant",)]
    tree = Tree.from_paths(paths, root="life")
    words = sparse.csr_matrix(rng.poisson(0.5, (40, 9)).astype(float))
    about = sparse.csr_matrix(rng.poisson(0.5, (tree.n_nodes, 9)).astype(float))
    model = HiPaNClassifier(tree, epochs=2, candidates=2).fit(words, [p[-1] for p in paths] * 10, X_nodes=about)
    new = sparse.vstack([words[:5], sparse.csr_matrix((1, 9)), sparse.csr_matrix(np.ones((1, 9)))]).tocsr()
    for rule in ("node", "path"):
        model.posterior(new).best(rule)
    assert np.allclose(model.predict_proba(new).sum(1), 1)
    flat = HiPaNClassifier(epochs=1, candidates=3).fit(rng.normal(size=(30, 3)), np.arange(30) % 6)
    assert np.isfinite(flat.predict_proba(rng.normal(size=(4, 3)) * 1e20)).all()


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
