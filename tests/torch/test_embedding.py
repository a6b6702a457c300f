"""`PadicEmbedding`, its compressed form, and valuations, beside sums and comparisons along explicit ancestor chains."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import random_tree, trees
from vpunn.errors import VpunnError
from vpunn.torch import PadicEmbedding, Valuation, ValuationBias
from vpunn.tree import Tree


@settings(max_examples=40)
@given(trees(25), st.booleans(), st.integers(0, 3))
def test_a_vector_is_the_sum_over_the_ancestors(tree, sparse, seed):
    rng = np.random.default_rng(seed)
    items = rng.integers(0, tree.n_nodes, 6)
    table = PadicEmbedding(tree, 3, items=items, sparse=sparse, padding_idx=1, dtype=torch.float64)
    torch.nn.init.normal_(table.weight)
    index = torch.tensor([[0, 5], [2, 1]])
    found = table(index)
    wanted = torch.stack([table.weight[tree.ancestors(int(items[i]))].sum(0) * (i != 1) for i in index.flatten()])
    assert torch.allclose(found, wanted.view(2, 2, 3))
    assert torch.allclose(table.node_vectors()[items[0]], found[0, 0])
    pull = torch.randn(2, 2, 3, dtype=torch.float64)
    grad = torch.autograd.grad((found * pull).sum(), table.weight)[0]
    dense = torch.autograd.grad((wanted.view(2, 2, 3) * pull).sum(), table.weight)[0]
    assert torch.allclose(grad.to_dense() if grad.is_sparse else grad, dense)
    assert grad.is_sparse == sparse


@settings(max_examples=30)
@given(trees(25), st.sampled_from(["mean", "vdp"]))
def test_the_transform_of_given_vectors_is_exact(tree, gauge):
    rng = np.random.default_rng(0)
    leaves = rng.permutation(tree.leaves)
    vectors = torch.from_numpy(rng.normal(size=(len(leaves), 4)))
    table = PadicEmbedding.from_pretrained(tree, vectors, items=leaves, gauge=gauge)
    assert torch.allclose(table(torch.arange(len(leaves))), vectors, atol=1e-12)
    in_order = PadicEmbedding.from_pretrained(tree, vectors[np.argsort(leaves)], gauge=gauge)
    assert torch.allclose(in_order(leaves.astype(np.int64)), vectors, atol=1e-12)


def test_new_leaves_inherit_and_old_vectors_stay():
    tree = Tree.from_parents([-1, 0, 0, 1, 1, 2], labels=list("rabcde"))
    for items in (None, ["d", "c", "e"]):
        table = PadicEmbedding(tree, 3, items=items)
        torch.nn.init.normal_(table.weight)
        grown = table.insert(tree.index(["b", "a", "r"]), ["x", "y", "z"])
        old, new = list("cde"), ["x", "y", "z"]
        if items is None:
            before, after = tree.index(old), grown.tree.index(old)
            fresh, parents = grown.tree.index(new), grown.tree.index(["b", "a", "r"])
            assert torch.equal(grown(fresh), grown(parents))
        else:
            before = after = np.arange(3)
            assert grown.num_embeddings == 6 and grown.item_node.tolist()[3:] == grown.tree.index(new).tolist()
            assert torch.equal(grown(np.array([3])), table.node_vectors()[[tree.index("b")]])
        assert torch.equal(table(before), grown(after))


def test_unseen_leaves_keep_their_parents_vector_in_training():
    tree = random_tree(60, seed=3, reach=10)
    table = PadicEmbedding(tree, 4)
    seen, unseen = tree.leaves[::2].astype(np.int64), tree.leaves[1::2].astype(np.int64)
    optimiser = torch.optim.SGD(table.parameters(), lr=0.1)
    for _ in range(5):
        optimiser.zero_grad()
        (table(seen) - 1).square().sum().backward()
        optimiser.step()
    assert torch.allclose(table(unseen), table(tree.parent[unseen].astype(np.int64)))
    assert not torch.allclose(table(seen), table(tree.parent[seen].astype(np.int64)))


@pytest.mark.parametrize("dim", [4, 5])
def test_compressed_error_is_bounded_by_half_steps(dim):
    tree = random_tree(80, seed=2, reach=15)
    table = PadicEmbedding(tree, dim)
    torch.nn.init.normal_(table.weight)
    everything = torch.arange(tree.n_nodes)
    exact = table(everything)
    weight = table.weight.detach().abs().amax(1).numpy()
    for bits in (8, 4, [8] * 3 + [4] * (tree.max_depth - 2)):
        small = table.compressed(bits)
        width = np.broadcast_to(bits, (tree.max_depth + 1,))[tree.depth]
        half = weight / np.where(width == 8, 127, 7) / 2
        bound = np.array([half[tree.ancestors(i)].sum() for i in range(tree.n_nodes)])
        assert ((small(everything) - exact).abs().amax(1).detach().numpy() <= bound + 1e-5).all()
        assert small.nbytes < table.weight.numel() * 4
    cut = table.compressed([8, 8] + [0] * (tree.max_depth - 1))
    top = tree.ancestor_at(np.arange(tree.n_nodes), np.minimum(tree.depth, 1))
    assert torch.equal(cut(everything), cut(top))
    with pytest.raises(VpunnError, match="0, 4 or 8"):
        table.compressed(3)


@settings(max_examples=60)
@given(trees(40))
def test_valuation_equals_the_tree(tree):
    every = np.arange(tree.n_nodes)
    found = Valuation(tree)(every[:, None], every[None])
    assert np.array_equal(found, tree.lca_depth_matrix(every))


def test_valuation_of_a_deep_chain():
    tree = Tree.from_parents(np.arange(-1, 399))
    assert Valuation(tree)([399, 399, 5], [399, 300, 398]).tolist() == [399, 300, 5]


def test_attention_bias_and_edges():
    tree = random_tree(50, seed=1, reach=9)
    bias = ValuationBias(tree, heads=3)
    torch.nn.init.normal_(bias.table)
    rng = np.random.default_rng(0)
    nodes = rng.integers(0, 50, (2, 6))
    padding = torch.zeros(2, 6, dtype=torch.bool)
    padding[0, 4:] = True
    found = bias(nodes, padding=padding)
    shared = tree.lca_depth(nodes[:, :, None], nodes[:, None, :])
    wanted = bias.table.detach().numpy()[:, shared].transpose(1, 0, 2, 3)
    assert np.allclose(found.detach()[1], wanted[1]) and torch.isneginf(found[0, :, :, 4:]).all()
    q = torch.randn(2, 3, 6, 4)
    out = torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=found)
    out.sum().backward()
    assert torch.isfinite(out).all() and bias.table.grad.any()
    edges = rng.integers(0, 50, (2, 9))
    assert np.allclose(bias.edges(edges).detach(), bias.table.detach().numpy()[:, tree.lca_depth(*edges)].T)
    assert bias(nodes[0], nodes[1]).shape == (3, 6, 6)


def test_compiles_and_refuses():
    tree = random_tree(30, seed=3, reach=6)
    table = PadicEmbedding(tree, 4)
    index = torch.tensor([[0, 29], [5, 7]])
    assert torch.allclose(torch.compile(table, backend="aot_eager", fullgraph=True)(index), table(index))
    for call, words in (
        (lambda: table([30]), "indices 30 are outside"),
        (lambda: table([0.5]), "whole numbers"),
        (lambda: PadicEmbedding(tree, 0), "dim must be"),
        (lambda: PadicEmbedding.from_pretrained(tree, torch.zeros(2, 3)), "rows, got"),
        (lambda: PadicEmbedding.from_pretrained(tree, torch.zeros(1, 3), items=tree.leaves[:1]), "have none"),
        (lambda: PadicEmbedding.from_pretrained(tree, torch.full((tree.n_leaves, 3), torch.nan)), "must be finite"),
        (lambda: ValuationBias(tree, 0), "heads must be"),
        (lambda: ValuationBias(tree, 1).edges([1, 2]), "shape"),
        (lambda: ValuationBias(tree, 1)([[30]]), "node ids 30 are outside"),
    ):
        with pytest.raises(VpunnError, match=words):
            call()
