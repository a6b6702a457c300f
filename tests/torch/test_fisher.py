"""Fisher blocks beside finite differences of the gradient, and the steps they make."""

import numpy as np
import pytest
import torch

from strategies import random_tree
from vpunn.errors import VpunnError
from vpunn.torch import FisherBlocks, HierarchicalHead
from vpunn.vapo.ball_fisher import BallFisher


def heads(seed, scale=1.0, features=3):
    tree = random_tree(30, seed=seed, reach=8)
    head = HierarchicalHead(tree, features, dtype=torch.float64)
    torch.manual_seed(seed)
    with torch.no_grad():
        head.weight.normal_(std=scale) if scale else None
        head.bias.normal_(std=1.0)
    return tree, head


def finite_differences(head, ball, x, target, epsilon=1e-5):
    """The Hessian of the loss in the weights and biases of one ball, row by row of (weight | bias)."""
    first, last = head.slots.start[ball : ball + 2]
    columns = head.weight.shape[1] + 1

    def gradient():
        head.zero_grad()
        head.loss(x, target).backward()
        return torch.cat([head.weight.grad, head.bias.grad[:, None]], 1)[first:last].flatten().clone()

    out = []
    for option in range(first, last):
        for column in range(columns):
            entry = (
                head.bias[option : option + 1] if column == columns - 1 else head.weight[option, column : column + 1]
            )
            with torch.no_grad():
                entry += epsilon
            up = gradient()
            with torch.no_grad():
                entry -= 2 * epsilon
            down = gradient()
            with torch.no_grad():
                entry += epsilon
            out.append((up - down) / (2 * epsilon))
    return torch.stack(out).numpy()


@pytest.mark.parametrize("case", ["one row", "equal probabilities"])
def test_blocks_equal_finite_differences_where_they_are_exact(case):
    tree, head = heads(1, scale=1.0 if case == "one row" else 0.0)
    target = torch.tensor([29]) if case == "one row" else torch.arange(30)
    x = torch.randn(len(target), 3, dtype=torch.float64)
    optimiser = FisherBlocks(head, lr=1e-9, memory=0.0)
    head.loss(x, target).backward()
    optimiser.step(x, target)
    on_path = {int(head.slots.choice[head.slots.slot[n]]) for n in tree.ancestors(29)[1:] if head.slots.slot[n] >= 0}
    assert on_path
    for ball in on_path:
        assert np.allclose(optimiser.blocks.block(ball), finite_differences(head, ball, x, target), atol=1e-7)


@pytest.mark.parametrize("features", [3, 70])
def test_torch_and_numpy_heads_take_the_same_step_and_it_is_the_damped_inverse(features):
    _, head = heads(2, features=features)
    target = torch.from_numpy(np.random.default_rng(0).integers(0, 30, 40))
    x = torch.randn(40, features, dtype=torch.float64)
    weight = torch.cat([head.weight, head.bias[:, None]], 1).detach().numpy().copy()
    before = weight.copy()
    rows = np.concatenate([x.numpy(), np.ones((40, 1))], 1)
    blocks = BallFisher(head.slots.start, features + 1, radius=1e9)
    loss = blocks.step(weight, rows, paths(head, target))
    optimiser = FisherBlocks(head, radius=1e9)
    value = head.loss(x, target)
    value.backward()
    gradient = torch.cat([head.weight.grad, head.bias.grad[:, None]], 1).numpy()
    optimiser.step(x, target)
    assert np.isclose(loss, value.item())
    assert np.allclose(weight, torch.cat([head.weight, head.bias[:, None]], 1).detach(), atol=1e-8)
    ball = int(np.argmax(blocks.rows))
    own = slice(*head.slots.start[ball : ball + 2])
    options = blocks._options(ball) / blocks.rows[ball]
    moments = blocks.moments[ball] / blocks.weight
    moments = moments if blocks.full else np.diag(moments)
    c, d = len(options), len(moments)
    padded = int(2 ** np.ceil(np.log2(c)))
    balance = np.sqrt(np.trace(options) / padded / (np.trace(moments) / d))
    root = np.sqrt(blocks.damping)
    damped = np.kron(options + root * balance * np.eye(c), moments + root / balance * np.eye(d))
    assert np.allclose((before - weight)[own].ravel(), np.linalg.solve(damped, gradient[own].ravel()))


def paths(head, target):
    """The options on each row's path, −1 where the chain repeats the node."""
    chain = head.ancestors(target).numpy()
    new = np.concatenate([np.ones((len(chain), 1), bool), chain[:, 1:] != chain[:, :-1]], 1)
    return np.where(new, head.slots.slot[chain], -1)


def test_the_trust_region_holds_and_training_is_quick():
    tree, head = heads(3)
    rng = np.random.default_rng(0)
    centre = rng.normal(size=(30, 3)) * 3
    target = rng.choice(tree.leaves, 200)
    x = torch.from_numpy(centre[target] + rng.normal(size=(200, 3)))
    blocks = FisherBlocks(head, radius=1e-3)
    start = torch.cat([head.weight, head.bias[:, None]], 1).detach().clone()
    head.loss(x, target).backward()
    blocks.step(x, target)
    change = (torch.cat([head.weight, head.bias[:, None]], 1).detach() - start).numpy()
    square = 0.0
    for ball in range(len(head.slots.ball)):
        own = change[slice(*head.slots.start[ball : ball + 2])].ravel()
        square += own @ blocks.blocks.block(ball) @ own
    assert 0 < 0.5 * square <= 1e-3 + 1e-12
    first, blocks = head.loss(x, target).item(), FisherBlocks(head)
    for _ in range(15):
        blocks.zero_grad()
        head.loss(x, target).backward()
        blocks.step(x, target)
    assert head.loss(x, target).item() < 0.5 * first


def test_a_wide_ball_and_refusals():
    from vpunn.tree import Tree

    wide = HierarchicalHead(Tree.from_parents([-1] + [0] * 80), 2)
    optimiser = FisherBlocks(wide)
    x, target = torch.randn(80, 2), torch.arange(1, 81)
    for _ in range(5):
        optimiser.zero_grad()
        loss = wide.loss(x, target)
        loss.backward()
        optimiser.step(x, target)
    assert wide.loss(x, target).item() < np.log(80)
    with pytest.raises(VpunnError, match="steps a HierarchicalHead"):
        FisherBlocks(torch.nn.Linear(2, 2))
    with pytest.raises(VpunnError, match="damping is a number"):
        FisherBlocks(wide, damping=0.0)
    optimiser.zero_grad()
    with pytest.raises(VpunnError, match="call backward"):
        optimiser.step(x, target)
