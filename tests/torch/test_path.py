"""`PathHead` beside a slow twin that adds up paths node by node, in double precision."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vpunn
from strategies import random_tree, trees
from vpunn.errors import VpunnError
from vpunn.torch import PathHead
from vpunn.tree import Tree


def random_head(tree, inner_answers=False, seed=0, dtype=torch.float64):
    head = PathHead(tree, 3, inner_answers=inner_answers, dtype=dtype)
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=rng, dtype=torch.float64))
    return head


def rows(count, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(count, 3)))


def twin(head, x):
    """P of the answers and P of the balls, one path at a time."""
    tree, answers, ball = head.tree, head.answers.tolist(), head.ball.tolist()
    values = {name: p.detach().numpy() for name, p in head.named_parameters()}
    logits = np.zeros((len(x), len(answers)))
    for j, node in enumerate(answers):
        logits[:, j] = x @ values["own"][j] + values["own_bias"][j]
        for above in tree.ancestors(node).tolist():
            if above in ball:
                at = ball.index(above)
                logits[:, j] += x @ values["shared"][at] + values["shared_bias"][at]
    exact = np.zeros((len(x), tree.n_nodes))
    exact[:, answers] = np.exp(logits - logits.max(1, keepdims=True))
    exact /= exact.sum(1, keepdims=True)
    return exact, tree.subtree_sum(np.ascontiguousarray(exact.T)).T


@settings(max_examples=40)
@given(trees(25), st.booleans(), st.integers(0, 5))
def test_equals_the_twin_on_random_trees(tree, inner, seed):
    head = random_head(tree, inner, seed)
    x = rows(4)
    exact, ball = twin(head, x.numpy())
    answers = head.answers.numpy()
    assert np.allclose(head.log_prob(x, "answers").detach().exp(), exact[:, answers], atol=1e-12)
    assert np.allclose(head.log_prob(x).detach().exp(), exact[:, tree.leaves], atol=1e-12)
    assert np.allclose(head.log_prob(x, "balls").detach().exp(), ball, atol=1e-12)
    target = np.random.default_rng(seed).integers(0, tree.n_nodes, 4)
    wanted = np.where(np.isin(target, answers), exact[range(4), target], ball[range(4), target])
    assert np.allclose(head.loss(x, target, reduction="none").detach(), -np.log(wanted), atol=1e-10)
    posterior = head.posterior(x)
    assert np.allclose(posterior.masses(slice(None)), exact) and np.allclose(next(posterior.chunks())[1], ball)
    nodes, p = posterior.top_k(tree.n_nodes + 3)
    assert np.allclose(np.take_along_axis(exact, nodes, 1), p) and (np.diff(p) <= 0).all()
    assert (posterior.best() == nodes[:, 0]).all() and nodes.shape[1] == len(answers)
    balls, along = posterior.chain(nodes[:, -1])
    for i in range(4):
        chain = tree.ancestors(int(nodes[i, -1]))
        assert balls[i, : len(chain)].tolist() == chain.tolist() and (balls[i, len(chain) :] == -1).all()
        assert np.allclose(along[i, : len(chain)], ball[i, chain])


def test_without_shared_weights_it_is_a_flat_soft_max():
    head = random_head(random_tree(60, seed=5, reach=9), True)
    flat = torch.nn.Linear(3, len(head.answers), dtype=torch.float64)
    with torch.no_grad():
        head.shared.zero_(), head.shared_bias.zero_()
        flat.weight.copy_(head.own), flat.bias.copy_(head.own_bias)
    x, target = rows(7), torch.arange(0, 56, 8)
    assert torch.equal(head.log_prob(x, "answers"), torch.log_softmax(flat(x), 1))
    ours, theirs = head.loss(x, target), torch.nn.functional.cross_entropy(flat(x), target)
    ours.backward(), theirs.backward()
    assert torch.isclose(ours, theirs) and torch.allclose(head.own.grad, flat.weight.grad)


def test_gradients_and_the_sums_they_are():
    head = random_head(random_tree(30, seed=3, reach=6), [0, 4])
    x, target = rows(7).requires_grad_(), torch.tensor([1, 5, 29, 12, 12, 0, -100])

    def loss(own, shared, x):
        return torch.func.functional_call(head, {"own": own, "shared": shared}, (x, target))

    assert torch.autograd.gradcheck(loss, (head.own, head.shared, x))
    assert torch.autograd.gradcheck(lambda x: head.log_prob(x, "balls"), (x,))
    # Shared weights get the sum of what the answers in their ball get.
    head.loss(x, target).backward()
    for at, ball in enumerate(head.ball.tolist()):
        inside = slice(int(head.first[ball]), int(head.last[ball]))
        assert torch.allclose(head.shared.grad[at], head.own.grad[inside].sum(0))


def test_explanations_add_up():
    head = random_head(random_tree(80, seed=9, reach=12), True)
    x = rows(1)
    with torch.no_grad():
        logits = head.logits(x)[0]
    for node in (None, 40, 0):
        why = head.explain(x, node, feature_names=["a", "b", "c"])
        assert np.isclose(sum(b.log_conditional for b in why.balls), why.log_probability)
        assert np.isclose(why.log_probability, -head.loss(x, [why.node]).item())
        assert np.isclose(why.score, (logits[head.answers.tolist().index(why.node)] - logits.mean()).item())


def test_rules_folders_and_half_precision(tmp_path):
    tree = random_tree(40, seed=1, reach=7)
    head, x = random_head(tree, [0, 2], dtype=torch.float32), rows(30).float()
    head.calibrate(x, np.resize(head.answers.numpy(), 30))
    back = vpunn.load(head.save_pretrained(tmp_path / "model"))
    assert type(back) is PathHead and torch.equal(back.log_prob(x), head.log_prob(x))
    for options in ({"stop": "risk", "alpha": 0.2}, {"stop": "threshold"}, {"stop": "depth"}):
        assert back.predict(x, **options).tolist() == head.predict(x, **options).tolist()
    low = head.to(torch.bfloat16).log_prob(x.bfloat16(), "answers")
    assert low.dtype == torch.float32 and (low.exp().double().sum(1) - 1).abs().max() < 1e-5


def test_one_node_decays_and_refusals():
    alone = PathHead(Tree.from_parents([-1]), 2)
    x = torch.ones(3, 2)
    assert alone.loss(x, [0, 0, 0]).item() == 0.0 and alone.predict(x).tolist() == [0, 0, 0]
    head = random_head(random_tree(20, seed=1), dtype=torch.float32)
    assert [g["weight_decay"] for g in head.groups(own=2.0, shared=1.0)] == [2.0, 1.0, 0.0]
    assert sum(len(g["params"]) for g in head.groups()) == len(list(head.parameters()))
    assert torch.isclose(head.penalty(0.0, 2.0), 2 * head.shared.square().sum())
    x = torch.ones(2, 3)
    for call, words in (
        (lambda: head.loss(x, [0, 20]), "targets 20 are outside this tree of 20 nodes"),
        (lambda: head.loss(torch.ones(2, 4), [0, 1]), "rows of 3 features"),
        (lambda: head.predict(x * torch.nan), "NaN or infinite in rows 0, 1"),
    ):
        with pytest.raises(VpunnError, match=words):
            call()
    with torch.no_grad():
        head.own[0] = torch.nan
    with pytest.raises(VpunnError, match="weights are not finite"):
        head.predict(x)
