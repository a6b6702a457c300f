"""Fisher information against brute force: the covariance of the score, leaf by leaf, by finite differences."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import trees
from vpunn.tree import Tree
from vpunn.vapo import information
from vpunn.vapo.fisher import information_blocks
from vpunn.vapo.heads import Factorisation, SoftmaxHeads


def by_enumeration(heads: SoftmaxHeads, theta: np.ndarray) -> np.ndarray:
    """E[(∂ log P(leaf) / ∂θ_s)²] for every slot s; P is a law on the leaves, so this is the Fisher matrix's diagonal."""
    leaves, step = heads.tree.leaves, 1e-6
    p = heads.node_probabilities(theta)[leaves]
    assert p.sum() == pytest.approx(1)
    diagonal = np.empty(len(theta))
    for s in range(len(theta)):
        up, down = theta.copy(), theta.copy()
        up[s] += step
        down[s] -= step
        score = (np.log(heads.node_probabilities(up)[leaves]) - np.log(heads.node_probabilities(down)[leaves])) / (
            2 * step
        )
        assert p @ score == pytest.approx(0, abs=1e-7)
        diagonal[s] = p @ score**2
    return diagonal


@pytest.mark.parametrize("factorisation", get_args(Factorisation))
@given(tree=trees(max_nodes=14).filter(lambda tree: tree.n_nodes > 1), seed=st.integers(0, 10**6))
def test_information_is_the_variance_of_the_score(factorisation: Factorisation, tree: Tree, seed: int) -> None:
    heads = SoftmaxHeads(tree, factorisation)
    theta = np.random.default_rng(seed).normal(size=heads.n_parameters)
    expected = by_enumeration(heads, theta)
    assert information_blocks(heads, theta) == pytest.approx(heads.layout.per_context(expected), abs=1e-6)
    by_depth = np.bincount(heads.layout.position[heads.layout.context], expected, minlength=tree.max_depth)
    assert information(heads, theta) == pytest.approx(by_depth, abs=1e-6)


def test_unreachable_balls_carry_no_information() -> None:
    heads = SoftmaxHeads(Tree.from_parents([-1, 0, 0, 1, 1]))
    theta = np.array([-800.0, 0.0, 0.0, 0.0])
    assert information(heads, theta).tolist() == [0.0, 0.0]
