"""Sigmoids of balls with the true-path rule: against maxima over all descendants written out, and learning, saving, refusing."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs vpunn[torch]")

import vpunn  # noqa: E402
from vpunn import Tree  # noqa: E402
from vpunn.errors import VpunnError  # noqa: E402
from vpunn.torch import SetHead, TruePathLoss  # noqa: E402

TREE = Tree.from_edges(
    [("r", "a"), ("r", "b"), ("a", "c"), ("a", "d"), ("b", "d"), ("b", "e"), ("d", "f"), ("e", "f"), ("c", "g")]
)


def below(node: int) -> list[int]:
    """A node and all that have it among their ancestors by any path."""
    return [i for i in range(TREE.n_nodes) if node in TREE.all_ancestors(i)]


def test_loss_is_the_definition_written_out():
    rng = np.random.default_rng(0)
    logits = torch.tensor(rng.normal(size=(20, TREE.n_nodes)), dtype=torch.float64)
    sets = [rng.choice(TREE.n_nodes, size=k % 4, replace=False).tolist() for k in range(20)]
    found = TruePathLoss(TREE, reduction="none")(logits, sets)
    for row, answers, said in zip(logits.tolist(), sets, found.tolist(), strict=True):
        mine = {int(a) for i in answers for a in TREE.all_ancestors(i)}
        want = 0.0
        for ball in range(1, TREE.n_nodes):
            if ball in mine:
                want += np.log1p(np.exp(-max(row[i] for i in below(ball) if i in mine)))
            else:
                want += np.log1p(np.exp(max(row[i] for i in below(ball))))
        assert said == pytest.approx(want)
    table = np.zeros((20, TREE.n_nodes))
    for i, row in enumerate(sets):
        table[i, row] = 1
    assert torch.equal(TruePathLoss(TREE, reduction="none")(logits, table), found)


def test_gradients_are_finite_and_right():
    logits = torch.randn(3, TREE.n_nodes, dtype=torch.float64, generator=torch.manual_seed(0), requires_grad=True)
    criterion = TruePathLoss(TREE)
    assert torch.autograd.gradcheck(lambda x: criterion(x, [[TREE.index("f")], [], [TREE.index("c")]]), logits)


def test_head_learns_sets_keeps_the_rule_and_is_saved(tmp_path):
    rng = np.random.default_rng(1)
    leaves = TREE.index(["g", "f", "e"])
    chosen = rng.random((200, 3)) < 0.4
    x = torch.tensor(chosen + rng.normal(scale=0.1, size=chosen.shape), dtype=torch.float32)
    sets = [leaves[row].tolist() for row in chosen]
    head = SetHead(TREE, 3)
    optimiser = torch.optim.Adam(head.parameters(), lr=0.2)
    for _ in range(80):
        optimiser.zero_grad()
        head.loss(x, sets).backward()
        optimiser.step()
    p = head.marginals(x).numpy()
    start, up = TREE.all_parents
    child = np.repeat(np.arange(TREE.n_nodes), np.diff(start))
    assert TREE.n_extra == 2 and (p[:, child] <= p[:, up]).all() and (p[:, 0] == 1).all()
    # e is implied by f, so the most specific answers hold it only where f is absent
    want = [set(TREE.labels[row].tolist()) - ({"e"} if leaves[1] in row else set()) for row in sets]
    assert np.mean([a == b for a, b in zip(head.predict_sets(x), want, strict=True)]) > 0.95
    head.save(tmp_path / "head")
    again = vpunn.load(tmp_path / "head")
    assert isinstance(again, SetHead) and torch.equal(again.marginals(x), head.marginals(x))


def test_bad_targets_are_refused():
    criterion = TruePathLoss(TREE)
    with pytest.raises(VpunnError, match="one column per node"):
        criterion(torch.zeros(2, 3), [[], []])
    with pytest.raises(VpunnError, match="one set of node ids per row"):
        criterion(torch.zeros(2, TREE.n_nodes), [[1]])
    with pytest.raises(VpunnError, match="outside this tree"):
        criterion(torch.zeros(1, TREE.n_nodes), [[99]])
    with pytest.raises(VpunnError, match="holds 0 and 1"):
        criterion(torch.zeros(1, TREE.n_nodes), np.full((1, TREE.n_nodes), 2))
