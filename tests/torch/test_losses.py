"""Losses on leaf logits beside the NumPy library, in double precision, on random trees and column orders."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import random_tree, trees
from vpunn.errors import VpunnError
from vpunn.metrics import mistakes, path_probabilities, ultrametric_loss
from vpunn.torch import ExpectedDepthLoss, HierarchicalCrossEntropy, SoftLabelLoss, UltrametricLoss
from vpunn.tree import Tree

LOSSES = [HierarchicalCrossEntropy, UltrametricLoss, ExpectedDepthLoss, SoftLabelLoss]


@st.composite
def cases(draw):
    """A tree, an order of (some of) its nodes as classes, logits and targets."""
    tree = draw(trees(20))
    pool = draw(st.sampled_from(["leaves", "nodes"]))
    nodes = tree.leaves if pool == "leaves" else np.arange(tree.n_nodes)
    seed = draw(st.integers(0, 100))
    rng = np.random.default_rng(seed)
    classes = rng.permutation(nodes)[: rng.integers(1, len(nodes) + 1)].astype(np.int64)
    logits = rng.normal(scale=draw(st.sampled_from([1.0, 5.0])), size=(4, len(classes)))
    return tree, classes, logits, rng.integers(0, len(classes), 4)


def soft_max(logits):
    e = np.exp(logits - logits.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@settings(max_examples=60)
@given(cases(), st.sampled_from([0.0, 0.4]))
def test_hierarchical_cross_entropy(case, alpha):
    tree, classes, logits, target = case
    p = soft_max(logits)
    mass = np.zeros((4, tree.n_nodes))
    mass[:, classes] = p
    balls = tree.subtree_sum(np.ascontiguousarray(mass.T)).T
    truth = classes[target]
    path = path_probabilities(tree, truth, balls)
    above = np.column_stack([np.ones(4), path[:, :-1]]) if tree.max_depth else path
    steps = tree.depth[truth][:, None] - np.arange(1, tree.max_depth + 1)
    wanted = -np.nansum(np.exp(-alpha * np.maximum(steps, 0)) * np.log(path / above), axis=1)
    # Where the class is an inner node, the last step is to the class itself rather than to anything below it.
    inner = ~tree.is_leaf[truth]
    own = p[range(4), target]
    wanted = np.where(inner, wanted - np.log(own / balls[range(4), truth]), wanted)
    found = HierarchicalCrossEntropy(tree, classes, alpha=alpha, reduction="none")(torch.from_numpy(logits), target)
    assert np.allclose(found, wanted, rtol=1e-6, atol=1e-9)
    if alpha == 0:
        assert np.allclose(found, -np.log(own))


@settings(max_examples=60)
@given(cases(), st.sampled_from([None, 2]))
def test_expected_ultrametric_loss_depth_and_soft_labels(case, base):
    tree, classes, logits, target = case
    p, truth, given_logits = soft_max(logits), classes[target], torch.from_numpy(logits)
    pairs = np.repeat(truth, len(classes)), np.tile(classes, 4)
    weights = np.random.default_rng(1).random(max(tree.max_depth, 1))
    for options in ({"p": base}, {"weights": weights}):
        cost = ultrametric_loss(tree, *pairs, **options).reshape(4, -1)
        found = UltrametricLoss(tree, classes, reduction="none", **options)(given_logits, target)
        assert np.allclose(found, (p * cost).sum(1) * (tree.max_depth > 0), rtol=1e-6, atol=1e-12)
    missed = (tree.depth[pairs[0]] - tree.lca_depth(*pairs)).reshape(4, -1)
    found = ExpectedDepthLoss(tree, classes, reduction="none")(given_logits, target)
    assert np.allclose(found, (p * missed).sum(1), rtol=1e-6, atol=1e-9)
    cost = ultrametric_loss(tree, *pairs, weights=weights).reshape(4, -1)
    q = soft_max(-3.0 * cost)
    found = SoftLabelLoss(tree, classes, beta=3.0, weights=weights, reduction="none")(given_logits, target)
    assert np.allclose(found, -(q * np.log(p)).sum(1), rtol=1e-6)


def test_information_weights_carry_the_whole_path():
    tree = Tree.from_paths([("a", "b", "c"), ("a", "b", "d"), ("a", "e"), ("f",)], root="r")
    loss = HierarchicalCrossEntropy(tree, weights="information", reduction="none")
    logits = torch.zeros(4, 4, dtype=torch.float64)
    # With equal logits −log P of a step is exactly its information I_k; λ_k = m·I_k/ΣI, so the loss is m·ΣI²/ΣI.
    found = loss(logits, [0, 1, 2, 3])
    wanted = []
    for steps in ([4 / 3, 3 / 2, 2.0], [4 / 3, 3 / 2, 2.0], [4 / 3, 3.0], [4.0]):
        information = np.log(steps)
        wanted.append(len(steps) * (information**2).sum() / information.sum())
    assert np.allclose(found, wanted)


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_weights_smoothing_and_rows_left_out(loss):
    tree = random_tree(30, seed=3, reach=6)
    rng = np.random.default_rng(0)
    classes = rng.permutation(tree.leaves).astype(np.int64)
    weight = rng.random(len(classes))
    logits = torch.from_numpy(rng.normal(size=(6, len(classes)))).requires_grad_()
    target = torch.tensor([0, 3, -100, 1, 2, 3])
    plain = loss(tree, classes, reduction="none")
    criterion = loss(tree, classes, weight=weight, label_smoothing=0.1)
    assert torch.autograd.gradcheck(lambda z: criterion(z, target), (logits,))
    kept = target >= 0
    flat = -torch.log_softmax(logits, 1).mean(1)
    each = 0.9 * plain(logits, target) + 0.1 * torch.where(kept, flat, 0.0)
    mass = torch.where(kept, criterion.weight[target.clamp(min=0)], 0.0)
    assert torch.allclose(criterion(logits, target), (each * mass).sum() / mass.sum())
    assert plain(logits, target)[2] == 0
    for nothing, rows in ((torch.full((6,), -100), logits), (torch.empty(0, dtype=torch.int64), logits[:0])):
        value = criterion(rows, nothing)
        value.backward()
        assert value.item() == 0 and not logits.grad.any()
    spoiled = logits.detach().clone()
    spoiled[2] = torch.nan
    assert torch.isfinite(criterion(spoiled, target))
    spoiled[0] = torch.nan
    assert torch.isnan(criterion(spoiled, target))


@pytest.mark.parametrize("loss", LOSSES)
def test_far_off_logits_stay_finite(loss):
    tree = random_tree(40, seed=1, reach=7)
    logits = torch.zeros(2, tree.n_leaves)
    logits[0, 3] = 1e4  # the target's ball has probability exp(−10⁴)
    logits.requires_grad_()
    value = loss(tree)(logits, [0, 0])
    value.backward()
    assert torch.isfinite(value) and torch.isfinite(logits.grad).all()
    if loss is HierarchicalCrossEntropy:
        assert value > 1000
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss(tree)(logits.detach().bfloat16(), [0, 0]).dtype == torch.float32


@pytest.mark.parametrize("loss", [HierarchicalCrossEntropy, UltrametricLoss, ExpectedDepthLoss])
@pytest.mark.parametrize("masked", [[3], [2, 3], [1], [1, 2, 3]])
def test_classes_masked_out_by_minus_infinity_are_those_of_a_very_small_logit(loss, masked):
    tree = Tree.from_paths([("a", "b"), ("a", "c"), ("d", "e"), ("d", "f")], root="r")
    found = []
    for low in (-torch.inf, -200.0):
        logits = torch.tensor([[0.3, -0.2, 0.9, 0.1]], dtype=torch.float64)
        logits[0, masked] = low
        logits.requires_grad_(True)
        value = loss(tree)(logits, [0])
        value.backward()
        found.append(torch.cat([value.detach().reshape(1), logits.grad.flatten()]))
    assert torch.allclose(*found, atol=1e-12)


def test_what_cannot_be_used_is_refused_in_one_sentence():
    tree = random_tree(20, seed=1)
    n = tree.n_leaves
    z = torch.zeros(2, n)
    for call, words in (
        (lambda: UltrametricLoss(tree)(z, [0, n]), f"targets {n} are outside this tree of {n} classes"),
        (lambda: UltrametricLoss(tree)(z[:, :-1], [0, 0]), "one column per class"),
        (lambda: UltrametricLoss(tree, weights=[1.0]), "for each depth"),
        (lambda: UltrametricLoss(tree, classes=[3, 3]), "more than once"),
        (lambda: UltrametricLoss(tree, weight=[1.0]), "one finite factor"),
        (lambda: UltrametricLoss(tree, label_smoothing=1.0), "label_smoothing"),
        (lambda: UltrametricLoss(tree, reduction="max"), "choose one of mean, sum, none"),
        (lambda: HierarchicalCrossEntropy(tree, weights="deep"), "choose one of exponential"),
        (lambda: SoftLabelLoss(tree, beta=-1), "beta must be"),
    ):
        with pytest.raises(VpunnError, match=words):
            call()


@pytest.mark.parametrize("loss", [HierarchicalCrossEntropy, SoftLabelLoss])
def test_compiles_to_one_graph(loss):
    tree = random_tree(30, seed=3, reach=6)
    criterion = loss(tree)
    logits = torch.randn(4, tree.n_leaves, generator=torch.Generator().manual_seed(0))
    target = torch.tensor([0, 1, 2, -100])
    compiled = torch.compile(criterion, backend="aot_eager", fullgraph=True)
    assert torch.allclose(compiled(logits, target), criterion(logits, target))


def test_mistakes_on_logits():
    tree = Tree.from_paths([("a", "b", "c"), ("a", "b", "d"), ("a", "e"), ("f",)], root="r")
    c, d, e, f = tree.index(["c", "d", "e", "f"])
    found = mistakes(tree, [c, c, c, c], [[c, d], [d, c], [e, c], [f, c]], at=(1, 2, 5))
    assert found.accuracy == 0.25 and found.severity == pytest.approx((1 + 2 + 3) / 3)
    assert found.depth == pytest.approx((2 + 1 + 0) / 3) and found.depths.tolist() == [1, 1, 1, 0]
    assert found.distance_at == {1: pytest.approx(6 / 4), 2: pytest.approx((1 + 1 + 2 + 3) / 8)}
    assert "75.0% of 4" in found.verdict and "severity" in str(found)
    assert found.plot().get_title()
    assert mistakes(tree, [c], [[c]]).verdict == "All 1 answers are right."
    with pytest.raises(VpunnError, match="row of ranked nodes"):
        mistakes(tree, [c, c], [[c]])
