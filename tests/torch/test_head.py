"""`HierarchicalHead` beside a slow twin that walks node by node, in double precision."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import random_tree, trees
from vpunn.errors import VpunnError
from vpunn.hipan import conformal
from vpunn.torch import HierarchicalHead
from vpunn.torch import _ops as ops
from vpunn.tree import Tree, sweep_down
from vpunn.vapo.losses import segment_log_softmax


def random_head(tree, features=3, seed=0, inner_answers=False, dtype=torch.float64, **options):
    head = HierarchicalHead(tree, features, inner_answers=inner_answers, dtype=dtype, **options)
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=rng, dtype=torch.float64))
    return head


def twin_log_prob(head, x):
    """(balls, exact answers) by walking down from the root, one node and one row at a time."""
    tree, weight = head.tree, head.input_weights()
    bias = np.zeros(len(weight)) if head.bias is None else head.bias.detach().numpy()
    ball = np.full((len(x), tree.n_nodes), np.nan)
    exact = np.full((len(x), tree.n_nodes), -np.inf)
    for i, row in enumerate(x):
        ball[i, 0] = 0.0
        for b in range(tree.n_nodes):
            options = [(int(c), int(head.slots.slot[c])) for c in tree.children(b)]
            if head.inner_answers[b]:
                options.append((-1, int(head.slots.stop_slot[b])))
            if not options:
                exact[i, b] = ball[i, b]
            scores = np.array([weight[s] @ row + bias[s] if len(options) > 1 else 0.0 for _, s in options])
            for (child, _), score in zip(options, scores, strict=True):
                conditional = score - scores.max() - np.log(np.exp(scores - scores.max()).sum())
                if child < 0:
                    exact[i, b] = ball[i, b] + conditional
                else:
                    ball[i, child] = ball[i, b] + conditional
    return ball, exact


def rows(count, features=3, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(count, features)))


@settings(max_examples=60)
@given(trees(25), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 5))
def test_equals_the_twin_on_random_trees(tree, stops, sparse, bias, seed):
    head = random_head(tree, seed=seed, inner_answers=stops, sparse=sparse, bias=bias)
    x = rows(4)
    ball, exact = twin_log_prob(head, x.numpy())
    assert np.allclose(head.log_prob(x, "balls").detach(), ball, atol=1e-12)
    assert np.allclose(head.log_prob(x).detach(), ball[:, tree.leaves], atol=1e-12)
    answers = head.answers.numpy()
    assert np.allclose(head.log_prob(x, "answers").detach(), exact[:, answers], atol=1e-12)
    assert np.allclose(np.exp(exact).sum(1), 1)
    target = np.random.default_rng(seed).integers(0, tree.n_nodes, 4)
    wanted = np.where(np.isin(target, answers), exact[range(4), target], ball[range(4), target])
    assert np.allclose(head.loss(x, target, reduction="none").detach(), -wanted, atol=1e-12)
    assert np.isclose(head.loss(x, target).item(), -wanted.mean())


@settings(max_examples=60)
@given(trees(25), st.booleans(), st.integers(0, 5))
def test_every_question_to_the_posterior_equals_the_twin(tree, stops, seed):
    head = random_head(tree, seed=seed, inner_answers=stops)
    x = rows(3)
    posterior = head.posterior(x)
    ball, exact = (np.exp(p) for p in twin_log_prob(head, x.numpy()))
    assert len(posterior) == 3 and posterior.tree is tree
    order = np.argsort(-exact, axis=1, kind="stable")[:, : len(head.answers)]
    nodes, p = posterior.top_k(tree.n_nodes + 3)
    assert np.allclose(p, np.take_along_axis(exact, order, 1)) and np.allclose(np.take_along_axis(exact, nodes, 1), p)
    assert all(len(set(row)) == len(head.answers) for row in nodes.tolist())
    assert (posterior.best() == posterior.top_k(1)[0][:, 0]).all()
    assert np.allclose(posterior.masses(slice(None)), exact) and np.allclose(posterior.exact(nodes[:, 0]), p[:, 0])
    assert np.allclose(next(posterior.chunks())[1], ball)
    balls, along = posterior.chain(nodes[:, -1])
    for i in range(3):
        chain = tree.ancestors(int(nodes[i, -1]))
        assert balls[i, : len(chain)].tolist() == chain.tolist() and (balls[i, len(chain) :] == -1).all()
        assert np.allclose(along[i, : len(chain)], ball[i, chain])
    for depth in range(tree.max_depth + 1):
        value = np.where(tree.depth == depth, ball, np.where(tree.depth < depth, exact, -1.0))
        assert np.allclose(value[range(3), posterior.at_depth(depth)], value.max(1))
    for threshold in (0.0, 0.2, 0.5, 1.0):
        found = posterior.deepest(threshold)
        rank = np.where(ball >= threshold - 1e-9, tree.depth + 0.5 * ball, -1.0)
        assert np.allclose(rank[range(3), found], rank.max(1))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("stops", [False, True])
def test_gradients(sparse, stops):
    tree = random_tree(30, seed=3, reach=6)
    head = random_head(tree, inner_answers=stops, sparse=sparse)
    x = rows(7).requires_grad_()
    target = torch.tensor([1, 5, 29, 12, 12, 0, -100])

    def loss(weight, bias, x):
        state = {"weight": weight, "bias": bias}
        return torch.func.functional_call(head, state, (x, target))

    if not sparse:
        assert torch.autograd.gradcheck(loss, (head.weight, head.bias, x))
    grads = torch.autograd.grad(head.loss(x, target), (head.weight, head.bias, x))
    # The dense formula differentiates through ordinary tensor operations.
    balls, answers = head.log_prob(x, "balls"), head.log_prob(x, "answers")
    picked = []
    for i, t in enumerate(target.tolist()[:-1]):
        at = torch.nonzero(head.answers == t).flatten()
        picked.append(answers[i, at[0]] if len(at) else balls[i, t])
    dense = torch.autograd.grad(-torch.stack(picked).mean(), (head.weight, head.bias, x))
    for ours, wanted in zip(grads, dense, strict=True):
        assert torch.allclose(ours.to_dense() if ours.is_sparse else ours, wanted, atol=1e-12)
    assert grads[0].is_sparse == sparse


def test_tensor_form_equals_compiled_loops(monkeypatch):
    tree = random_tree(60, seed=5, reach=9)
    head = random_head(tree, features=4, inner_answers=True)
    x = rows(9, 4).requires_grad_()
    target = np.random.default_rng(0).integers(0, 60, 9)
    compiled = head.loss(x, target)
    grads = torch.autograd.grad(compiled, (head.weight, head.bias, x))
    monkeypatch.setattr(ops, "_compiled", lambda *tensors: False)
    monkeypatch.setattr(ops, "PAIR_ENTRIES", 40)  # many strips
    tensors = head.loss(x, target)
    again = torch.autograd.grad(tensors, (head.weight, head.bias, x))
    assert torch.allclose(compiled, tensors, atol=1e-13)
    for one, other in zip(grads, again, strict=True):
        assert torch.allclose(one, other, atol=1e-13)


def test_strips_of_a_wide_ball_equal_the_whole(monkeypatch):
    from vpunn.torch import _kernels

    tree = Tree.from_parents([-1] + [0] * 50)
    head = random_head(tree)
    x = rows(20).requires_grad_()
    target = np.random.default_rng(0).integers(0, 51, 20)
    whole = head.loss(x, target)
    grads = torch.autograd.grad(whole, (head.weight, x))
    python = {name: getattr(_kernels, name).py_func for name in ("path_forward", "path_backward")}
    monkeypatch.setitem(python["path_forward"].__globals__, "STRIP", 120)
    for name, function in python.items():
        monkeypatch.setattr(_kernels, name, function)
    cut = head.loss(x, target)
    assert torch.allclose(whole, cut)
    for one, other in zip(grads, torch.autograd.grad(cut, (head.weight, x)), strict=True):
        assert torch.allclose(one, other)


def test_loss_equals_the_numpy_library():
    """`vpunn.vapo.losses.segment_log_softmax` on the exported weights, summed along ancestors by `sweep_down`."""
    tree = random_tree(300, seed=2)
    head = random_head(tree, features=5, rank=2)
    x = rows(6, 5)
    target = np.random.default_rng(3).integers(0, 300, 6)
    weight, choices = head.input_weights(), head.slots
    wanted = []
    for row, t in zip(x.numpy(), target, strict=True):
        step = segment_log_softmax(weight @ row + head.bias.detach().numpy(), choices.start, choices.choice)
        own = np.where(choices.slot >= 0, step[choices.slot], 0.0)
        wanted.append(-sweep_down(tree, own)[t])
    assert np.isclose(head.loss(x, target).item(), np.mean(wanted), rtol=1e-6)


def test_depth_weights_and_sample_weights():
    tree = random_tree(40, seed=1, reach=5)
    head = random_head(tree, inner_answers=True)
    x, target = rows(5), torch.tensor([3, 39, 20, 0, 7])
    steps = head.step_log_prob(x, target)
    weights = np.arange(1.0, tree.max_depth + 1)
    every = head.loss(x, target, depth_weights=weights, reduction="none")
    assert torch.allclose(every, -(steps[:, :-1] * torch.from_numpy(weights)).sum(1))
    plain = head.loss(x, target, reduction="none")
    mine = torch.tensor([1.0, 2.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    assert torch.allclose(head.loss(x, target, sample_weight=mine), (plain * mine).sum() / 4)
    with pytest.raises(VpunnError, match="one weight for each depth"):
        head.loss(x, target, depth_weights=[1.0])


def test_single_precision_sums_to_one_on_a_star_of_43705_children():
    tree = Tree.from_parents([-1] + [0] * 43_705)
    head = random_head(tree, features=8, dtype=torch.float32)
    x = rows(5, 8).float()
    p = head.log_prob(x).exp().double().sum(1)
    assert (p - 1).abs().max() < 1e-5
    target = np.array([1, 43_705, 7, 8, 9])
    assert torch.allclose(head.loss(x, target, reduction="none"), -head.log_prob(x)[range(5), target - 1], atol=1e-4)


def test_one_node_chains_and_stops():
    alone = HierarchicalHead(Tree.from_parents([-1]), 2)
    x = torch.ones(3, 2)
    assert alone.loss(x, [0, 0, 0]).item() == 0.0 and alone.weight.shape == (0, 2)
    assert alone.predict(x).tolist() == [0, 0, 0] and alone.log_prob(x).tolist() == [[0.0]] * 3
    chain = HierarchicalHead(Tree.from_parents([-1, 0, 1, 2]), 2)
    assert chain.loss(x, [3, 2, 0]).item() == 0.0 and chain.slots.n_slots == 0
    stopping = HierarchicalHead(Tree.from_parents([-1, 0, 1, 2]), 2, inner_answers=True)
    assert np.allclose(stopping.log_prob(x, "answers").detach().exp(), 0.25)
    assert stopping.loss(x, [3, 2, 0]).item() == pytest.approx(np.log(4))
    some = HierarchicalHead(Tree.from_parents([-1, 0, 1, 2]), 2, inner_answers=[1])
    assert some.answers.tolist() == [1, 3]


def test_half_precision_normalises_in_single_precision():
    tree = random_tree(2000, seed=4, reach=None)
    head = random_head(tree, features=6, dtype=torch.float32)
    x = rows(6, 6).float()
    target = np.random.default_rng(1).integers(0, 2000, 6)
    exact = head.loss(x, target)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under = head.loss(x, target)
        p = head.log_prob(x, "answers")
        low = random_head(tree, features=6, dtype=torch.float32, rank=2).loss(x, target)
    assert under.dtype == p.dtype == low.dtype == torch.float32
    assert torch.allclose(exact, under) and (p.exp().double().sum(1) - 1).abs().max() < 1e-5
    half = random_head(tree, features=6, dtype=torch.float32).to(torch.bfloat16)
    p = half.log_prob(x.bfloat16(), "answers")
    assert p.dtype == torch.float32 and (p.exp().double().sum(1) - 1).abs().max() < 1e-5
    loss = half.loss(x.bfloat16(), target)
    loss.backward()
    assert loss.dtype == torch.float32 and half.weight.grad.dtype == torch.bfloat16
    assert torch.allclose(loss, exact, rtol=0.02)
    assert half.top_k(x, 3)[0].shape == (6, 3)


def test_what_cannot_be_used_is_refused_in_one_sentence():
    tree = random_tree(20, seed=1)
    head = random_head(tree, dtype=torch.float32)
    x = torch.ones(2, 3)
    for call, words in (
        (lambda: head.loss(x, [0, 20]), r"targets 20 are outside this tree of 20 nodes"),
        (lambda: head.loss(x, [0, -1]), "targets -1 are outside"),
        (lambda: head.loss(x, [0]), "one target per row"),
        (lambda: head.loss(x, [0.5, 1.0]), "whole numbers, got a tensor of float32"),
        (lambda: head.loss(torch.ones(2, 4), [0, 1]), "rows of 3 features"),
        (lambda: head.predict(x * torch.nan), "NaN or infinite in rows 0, 1"),
        (lambda: head.predict(x, stop="risk"), "call calibrate"),
        (lambda: head.predict(x, stop="depth", depth=99), "depth must lie between"),
        (lambda: head.predict(x, stop="never"), "stop="),
        (lambda: head.loss(x, [0, 1], reduction="median"), "choose one of none, mean, sum"),
        (lambda: HierarchicalHead(tree, 0), "in_features must be a whole number"),
        (lambda: HierarchicalHead([1, 2], 3), "must be a vpunn Tree"),
        (lambda: head.top_k(x, 0), "k must be"),
        (lambda: head.explain(x), "explain takes one row"),
    ):
        with pytest.raises(VpunnError, match=words):
            call()
    other = HierarchicalHead(random_tree(20, seed=2), 3)
    with pytest.raises(VpunnError, match="belong to another tree"):
        other.load_state_dict(head.state_dict())
    twin = HierarchicalHead(tree, 3)
    twin.load_state_dict(head.state_dict())
    assert torch.equal(twin.log_prob(x), head.log_prob(x))
    with torch.no_grad():
        head.weight[0] = torch.nan
    with pytest.raises(VpunnError, match="weights are not finite"):
        head.predict(x)
    assert torch.isnan(head.loss(x, [19, 19]))


@pytest.mark.parametrize("sparse", [False, True])
def test_nothing_to_learn_costs_nothing(sparse):
    head = random_head(random_tree(20, seed=1), sparse=sparse)
    x = rows(3).requires_grad_()
    for given_x, target in ((x, [-100] * 3), (x[:0], torch.empty(0, dtype=torch.int64))):
        head.zero_grad()
        loss = head.loss(given_x, target)
        loss.backward()
        grad = head.weight.grad
        assert loss.item() == 0.0 and not (grad.to_dense() if grad.is_sparse else grad).any()
    assert head.loss(x[:0], torch.empty(0, dtype=torch.int64), reduction="none").shape == (0,)
    nan = torch.cat([x.detach(), torch.full((1, 3), torch.nan)])
    assert torch.equal(head.loss(nan, [5, 6, 7, -100]), head.loss(x, [5, 6, 7]))


def test_conformal_answers_contain_the_truth():
    tree = random_tree(200, seed=7, reach=40)
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(200, 8))
    node = rng.choice(tree.leaves, 3000)
    x = torch.from_numpy(sweep_down(tree, centres)[node] + 2 * rng.normal(size=(3000, 8))).float()
    head = HierarchicalHead(tree, 8, sparse=True)
    optimiser = torch.optim.SGD(head.parameters(), lr=0.05)
    for _ in range(60):
        optimiser.zero_grad()
        head.loss(x[:1000], node[:1000]).backward()
        optimiser.step()
    head.calibrate(x[1000:2000], node[1000:2000])
    for alpha in (0.1, 0.3):
        answer = tree.index(head.predict(x[2000:], stop="risk", alpha=alpha))
        covered = tree.is_ancestor(answer, node[2000:]).mean()
        assert 1 - alpha - 0.04 < covered
        assert tree.depth[answer].mean() > 0.3  # not the root for everyone
    scores = conformal.miss_scores(head.posterior(x[1000:2000]), node[1000:2000])
    assert np.array_equal(scores, head.miss_scores_)


def test_explanation_sums_to_the_log_probability():
    tree = random_tree(80, seed=9, reach=12)
    head = random_head(tree, inner_answers=True)
    x = rows(1)
    for node in (None, 40, 0):
        why = head.explain(x, node, feature_names=["a", "b", "c"])
        assert np.isclose(sum(b.log_conditional for b in why.balls), why.log_probability)
        assert np.isclose(why.log_probability, -head.loss(x, [why.node]).item())
        assert np.isclose(sum(b.head for b in why.balls), why.score)
        for b in why.balls[1:]:  # three features: all terms are listed
            slot = head.slots.stop_slot[b.node] if b.stops_here else head.slots.slot[b.node]
            family = head.slots.choice == head.slots.choice[slot]
            bias = (head.bias[slot] - head.bias[torch.from_numpy(family)].mean()).item()
            assert np.isclose(sum(v for _, v in b.features) + bias, b.head)
    assert "probability" in str(why)


def test_node_vectors_are_sums_of_differences():
    tree = random_tree(50, seed=2, reach=8)
    head = random_head(tree, bias=False)
    x = rows(4)
    score = head.node_vectors() @ x.numpy().T  # absolute vectors give the same soft-maxes as their differences
    start, ids = tree.child_index
    for b in np.flatnonzero(tree.n_children > 1):
        children = ids[start[b] : start[b + 1]]
        conditional = score[children] - np.log(np.exp(score[children]).sum(0))
        balls = head.log_prob(x, "balls").detach().numpy()
        assert np.allclose(balls[:, children] - balls[:, [b]], conditional.T)


def test_ridge_on_differences():
    tree = random_tree(50, seed=2, reach=8)
    head = random_head(tree, inner_answers=True, sparse=True)
    full = head.penalty(ridge=0.5)
    assert torch.isclose(full, 0.5 * head.weight.square().sum())
    per_depth = np.arange(1.0, tree.max_depth + 1)
    depth = np.maximum(tree.depth[head.slots.node], 1)
    wanted = (per_depth[depth - 1] * head.weight.detach().numpy().T ** 2).sum()
    assert np.isclose(head.penalty(ridge=per_depth).item(), wanted)
    part = head.penalty([17], ridge=1.0)
    part.backward()
    touched = head.weight.grad.coalesce().indices()[0].tolist()
    balls = tree.ancestors(17)
    assert sorted(touched) == [s for s in range(head.slots.n_slots) if head.slots.ball[head.slots.choice[s]] in balls]


def test_torch_compile_gives_one_graph():
    tree = random_tree(60, seed=5, reach=9)
    head = random_head(tree, dtype=torch.float32)
    x, target = rows(5).float(), torch.tensor([1, 30, 59, 7, 0])
    compiled = torch.compile(head, backend="aot_eager", fullgraph=True)
    loss = compiled(x, target)
    assert torch.allclose(loss, head.loss(x, target))
    loss.backward()
    grad = head.weight.grad.clone()
    head.zero_grad()
    head.loss(x, target).backward()
    assert torch.allclose(grad, head.weight.grad)
    assert torch.allclose(compiled(x), head.log_prob(x), atol=1e-6)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch looks at it where the graph is split
def test_torch_compile_splits_the_graph_for_sparse_gradients():
    tree = random_tree(60, seed=5, reach=9)
    head = random_head(tree, dtype=torch.float32, sparse=True)
    x, target = rows(5).float(), torch.tensor([1, 30, 59, 7, 0])
    loss = torch.compile(head, backend="aot_eager")(x, target)
    loss.backward()
    assert torch.allclose(loss, head.loss(x, target)) and head.weight.grad.is_sparse


def test_another_device_is_only_a_move():
    """The meta device runs every shape of the dense pass without any CPU memory behind it."""
    head = HierarchicalHead(random_tree(60, seed=5), 4).to("meta")
    out = head.log_prob(torch.empty(3, 4, device="meta"), "answers")
    assert out.device.type == "meta" and out.shape == (3, len(head.answers))
    assert all(buffer.device.type == "meta" for buffer in head.buffers())
