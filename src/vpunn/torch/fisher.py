"""`FisherBlocks`: an optimiser that steps the balls of a `HierarchicalHead` by natural gradients."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from vpunn._types import TensorLike
from vpunn.errors import VpunnError
from vpunn.torch.head import HierarchicalHead
from vpunn.vapo.ball_fisher import BallFisher


class FisherBlocks:
    """Natural-gradient steps for the weights and biases of a `HierarchicalHead`; the encoder keeps an optimiser of its own.

    Every ball has one Fisher block, soft-max curvature ⊗ second moments of the rows that come through it, as running means over
    batches (`vpunn.vapo.ball_fisher.BallFisher`, on the CPU). Call ``step(x, target)`` after ``backward`` with the rows of the
    batch; only balls on their paths move.

    Parameters: ``head``; ``lr`` (1 is a whole Newton step); ``damping``, ``radius``, ``memory`` as in `BallFisher`.

    >>> from vpunn.tree import Tree
    >>> tree = Tree.from_paths([("animal", "bird"), ("animal", "fish"), ("plant", "fern")], root="life")
    >>> head, x, target = HierarchicalHead(tree, 3), torch.eye(3), tree.index(["bird", "fish", "fern"])
    >>> optimiser = FisherBlocks(head)
    >>> for _ in range(10):
    ...     optimiser.zero_grad()
    ...     head.loss(x, target).backward()
    ...     optimiser.step(x, target)
    >>> head.loss(x, target).item() < 0.1
    True
    """

    def __init__(
        self,
        head: HierarchicalHead,
        lr: float = 1.0,
        *,
        damping: float = 1e-3,
        radius: float = 1.0,
        memory: float = 0.9,
    ) -> None:
        if not isinstance(head, HierarchicalHead):
            raise VpunnError(f"FisherBlocks steps a HierarchicalHead, got {type(head).__name__}.")
        if not 0 < lr <= 10:
            raise VpunnError(f"lr is a number between 0 and 10, got {lr!r}.")
        self.head, self.lr = head, lr
        columns = head.weight.shape[1] + (head.bias is not None)
        self.blocks = BallFisher(head.slots.start, columns, damping=damping, radius=radius, memory=memory)

    def zero_grad(self) -> None:
        """Forget the gradients of the head's weights and biases."""
        self.head.weight.grad = None
        if self.head.bias is not None:
            self.head.bias.grad = None

    @torch.no_grad()
    def step(self, x: Tensor, target: TensorLike) -> None:
        """Take the curvature of a batch and step by its gradients."""
        head = self.head
        if head.weight.grad is None:
            raise VpunnError("there are no gradients; call backward on the head's loss before step.")
        nodes = head.node_ids(target)
        features = head._features(x)
        p = head._all_steps(features)[:-1].exp().double().cpu().numpy()
        slots = torch.cat([head.slot[head.ancestors(nodes)], head.stop_slot[nodes].unsqueeze(1)], 1).cpu().numpy()
        row, column = np.nonzero(slots >= 0)
        inside = np.zeros((len(head.slots.ball), len(x)), bool)
        inside[head.slots.choice[slots[row, column]], row] = True
        rows, gradient = features.double().cpu().numpy(), _dense(head.weight.grad)
        if head.bias is not None and head.bias.grad is not None:
            rows = np.concatenate([rows, np.ones((len(rows), 1))], 1)
            gradient = np.concatenate([gradient, _dense(head.bias.grad)[:, None]], 1)
        self.blocks.observe(p, rows, inside)
        change = torch.from_numpy(-self.lr * self.blocks.direction(gradient, np.asarray(inside.any(1)))).to(head.weight)
        head.weight.add_(change[:, : head.weight.shape[1]])
        if head.bias is not None:
            head.bias.add_(change[:, -1])


def _dense(gradient: Tensor) -> np.ndarray:
    return np.asarray((gradient.to_dense() if gradient.is_sparse else gradient).double().cpu().numpy())
