"""The paper's neurons and their leak, and its counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import trees
from vpunn.errors import VpunnError
from vpunn.network import VPuNN
from vpunn.paper.balls import BallNeuron, n_full_balls, n_markov_heads, parameter_counts
from vpunn.tree import Tree
from vpunn.vapo.leaky import surrogate


def test_counts_of_the_paper():  # AUDIT 5.6
    assert n_markov_heads(409, 18) == 3_018_420
    assert n_markov_heads(331, 14) == 1_538_488
    assert n_markov_heads(281, 15) == 1_188_630
    assert n_full_balls(5, 3) == 156
    assert n_full_balls(5, 4) == 781


@given(st.integers(2, 50), st.integers(0, 12))
def test_counts_are_the_sums_they_stand_for(p, K):
    assert n_full_balls(p, K) == sum(p**j for j in range(K + 1))
    if K:
        assert n_markov_heads(p, K) == p + p * p + (K - 1) * (p * p + p)


WRONG = [(1, 3, "from 2.*got 1"), (3, -2, "at least 0, got -2"), ("a", 3, "got 'a'")]


@pytest.mark.parametrize(("p", "K", "said"), WRONG)
def test_counts_refuse_what_is_no_tree(p, K, said):
    for count in (n_full_balls, n_markov_heads):
        with pytest.raises(VpunnError, match=said):
            count(p, K)


@settings(max_examples=30)
@given(trees(), st.integers(0, 99), st.floats(0.005, 0.02))
def test_leak_lives_in_the_surrogate_only(tree: Tree, seed: int, alpha: float) -> None:
    c = np.random.default_rng(seed).normal(size=tree.n_nodes)
    net, every = VPuNN(tree, c), np.arange(tree.n_nodes)
    leaky = sum(BallNeuron(tree, b, c[b]).surrogate(every, alpha) for b in range(tree.n_nodes))
    np.testing.assert_allclose(surrogate(net, every, alpha), leaky, atol=1e-12)
    assert surrogate(net, every, 0.0).tobytes() == net.predict(every).tobytes()
    with pytest.raises(VpunnError, match="real"):
        surrogate(VPuNN(tree, values="rational"), every)


def test_the_three_parameter_counts() -> None:
    star = Tree.from_parents([-1, *[0] * 408, 1])
    assert parameter_counts(star)["n_markov_heads"] == 2 * 409 * 410
    quaternary = Tree.from_parents([-1, *(np.arange(84) // 4)])
    assert parameter_counts(quaternary) == {
        "n_nodes": 85,
        "n_full_balls": 156,
        "n_markov_heads": 90,
    }
