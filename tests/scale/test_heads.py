"""Soft-max heads trained in shards: the bytes of one piece."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import random_tree
from vpunn import Tree, vapo
from vpunn.errors import VpunnError
from vpunn.scale import minimize_heads
from vpunn.vapo.heads import SoftmaxHeads

TREE = random_tree(400, 3, 40)


def same(one, other):
    return one.parameters.tobytes() == other.parameters.tobytes() and one.history.tobytes() == other.history.tobytes()


@settings(max_examples=15, deadline=None)
@given(
    shards=st.integers(1, 12),
    seed=st.integers(0, 20),
    nodes=st.integers(3, 120),
    method=st.sampled_from(["fisher", "adam"]),
)
def test_any_number_of_shards_gives_the_same_bytes(shards, seed, nodes, method):
    tree = random_tree(nodes, seed)
    heads = SoftmaxHeads(tree, items=np.random.default_rng(seed).integers(1, 9, tree.n_nodes))
    start = np.random.default_rng(seed).normal(size=heads.n_parameters)
    whole = vapo.minimize(heads, method, start=start, seed=seed)
    assert same(minimize_heads(heads, method, shards=shards, start=start, seed=seed), whole)


def test_a_cluster_and_a_checkpoint_change_nothing(client, tmp_path):
    heads = SoftmaxHeads(TREE, weighting="inverse-sqrt")
    start = np.random.default_rng(0).normal(size=heads.n_parameters)
    whole = vapo.minimize(heads, "adam", start=start)
    assert same(minimize_heads(heads, "adam", shards=3, start=start, engine=client), whole)
    half = tmp_path / "half"

    class Stopped(Exception):
        pass

    def stop(number):
        if number == 30:
            raise Stopped

    class Early(vapo.adam.AdamSolver):
        def epoch(self, number):
            stop(number)
            return super().epoch(number)

    with pytest.raises(Stopped):
        vapo.driver.drive(Early(heads, start=start), checkpoint=half, checkpoint_every=10)
    assert half.exists()  # a run begun in one piece goes on in shards
    assert same(minimize_heads(heads, "adam", shards=4, start=start, checkpoint=half, resume=True), whole)


def test_refusals():
    heads = SoftmaxHeads(TREE)
    for given_, said in (
        ({"heads": SoftmaxHeads(TREE, "markov")}, "belong to no shard"),
        ({"shards": 0}, "at least 1"),
        ({"method": "gist"}, "choose one of fisher, adam"),
        ({"method": "adam", "schedule": "paper-main"}, "mini-batches"),
        ({"engine": 3}, "distributed.Client"),
    ):
        with pytest.raises(VpunnError, match=said):
            minimize_heads(**{"heads": heads, **given_})
    star = SoftmaxHeads(Tree.from_parents([-1, 0, 0]))
    assert minimize_heads(star, shards=99).converged
