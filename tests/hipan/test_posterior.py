"""The posterior beside slow twins: every question is asked of the dense masses of a handful of random trees."""

from __future__ import annotations

import numpy as np
import pytest

from vpunn.hipan.posterior import Posterior, Spread
from vpunn.hipan.tree_arrays import Grown
from vpunn.tree import Tree


def random_tree(n: int, rng: np.random.Generator) -> Tree:
    return Tree.from_parents([-1, *(int(rng.integers(max(0, i - 6), i)) for i in range(1, n))])


def random_posterior(seed: int) -> Posterior:
    """Known places and balls of random trees, with shares or without."""
    rng = np.random.default_rng(seed)
    tree = random_tree(int(rng.integers(1, 40)), rng)
    grown = Grown.of(tree)
    share = np.where(grown.is_place, rng.integers(0, 3, grown.blocks), 0) * (seed % 3 > 0)
    balls = np.flatnonzero(~grown.is_place)
    slots = np.full((12, 9), -1, np.int32)
    for row in slots:
        some = rng.choice(np.flatnonzero(grown.is_place), min(4, tree.n_nodes), replace=False)
        above = [] if not len(balls) else [0, *rng.choice(balls, min(3, len(balls)), replace=False)]
        offered = rng.permutation(list(dict.fromkeys([*some, *above])))
        row[: len(offered)] = offered
    p = np.where(slots >= 0, rng.exponential(size=slots.shape) ** 2, 0)
    return Posterior(
        tree, Spread.of(grown, share.astype(float)), slots, (p / p.sum(1, keepdims=True)).astype(np.float32)
    )


def dense(posterior: Posterior) -> np.ndarray:
    """The definition: every place of a territory by its share, or the stop of the ball."""
    grown, share = posterior.spread.grown, posterior.spread.share
    out = np.zeros((len(posterior), posterior.tree.n_nodes))
    for r, row in enumerate(posterior.slots):
        offered = [int(b) for b in row if b >= 0]
        for b, p in zip(row, posterior.probability[r], strict=True):
            if b < 0:
                continue
            inner = [c for c in offered if c != b and b <= c < b + grown.size[b]]
            territory = [
                i
                for i in range(b, b + grown.size[b])
                if not any(c <= i < c + grown.size[c] for c in inner) and share[i] > 0
            ]
            if grown.size[b] == 1 or not territory:
                out[r, grown.node[grown.stop[b]]] += p
            else:
                for i in territory:
                    out[r, grown.node[i]] += p * share[i] / share[territory].sum()
    return out


@pytest.mark.parametrize("seed", range(12))
def test_every_question_has_the_answer_of_the_dense_masses(seed):
    posterior = random_posterior(seed)
    tree, wanted = posterior.tree, dense(posterior)
    masses = posterior.masses(slice(None))
    assert np.allclose(masses, wanted, atol=1e-6) and np.allclose(masses.sum(1), 1, atol=1e-5)
    below = np.array([[masses[r, v : v + tree.size[v]].sum() for v in range(tree.n_nodes)] for r in range(len(masses))])
    for k in (1, 3, tree.n_nodes):
        node, p = posterior.top_k(k)
        assert np.allclose(p, -np.sort(-masses, 1)[:, : p.shape[1]], atol=1e-6)
        told = node >= 0
        assert np.allclose(np.where(told, np.take_along_axis(masses, np.maximum(node, 0), 1), 0), p, atol=1e-6)
    nodes = np.random.default_rng(seed).integers(0, tree.n_nodes, len(masses))
    balls, p = posterior.chain(nodes)
    for r, v in enumerate(nodes):
        path = [b for b in range(tree.n_nodes) if b <= v < b + tree.size[b]]
        assert balls[r][balls[r] >= 0].tolist() == path and np.allclose(p[r][: len(path)], below[r, path], atol=1e-6)
    depth = np.asarray(tree.depth)
    for threshold in (0.031, 0.2, 0.5, 0.9):
        found = posterior.deepest(threshold)
        assert (below[np.arange(len(found)), found] >= threshold - 1e-6).all()
        likely = np.where(below >= threshold + 1e-6, depth, -1)
        assert (depth[found] >= likely.max(1)).all()
