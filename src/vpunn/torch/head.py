"""`HierarchicalHead`: any encoder's output to a distribution over the nodes of a tree, one soft-max per ball."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from vpunn._types import FeatureNames, Label, TensorLike
from vpunn.errors import VpunnError, check_choice, check_whole
from vpunn.torch._head import Head, Of
from vpunn.torch._module import IGNORE_INDEX, autocasting, full_precision
from vpunn.torch._ops import path_log_prob, sparse_path_log_prob
from vpunn.torch._segments import pieces, segment_log_softmax, sum_down
from vpunn.torch._slots import answers_below, slots_of
from vpunn.tree import Tree, sweep_down

if TYPE_CHECKING:
    from vpunn.explanations import Explanation
    from vpunn.torch.posterior import HeadPosterior


class HierarchicalHead(Head):
    """Child soft-max at every ball: P(node | x) = Π_{B on its path} soft-max over B's children of ⟨w_c, x⟩ + b_c.

    Only children that exist compete, and a ball with one child has no parameters. ``w_c`` is a van der Put difference:
    the vector of a node is W_c = Σ_{B∋c} w_B (`node_vectors`), what siblings share with their ancestors cancels in their
    soft-max, and a ridge on w (`penalty`, or the optimiser's weight decay) pulls every node to its parent. All weights
    start at 0 and the biases at the logarithm of the answers below, so that at first every answer is equally likely.

    Parameters
    ----------
    tree : the hierarchy; targets are its node ids (``tree.index(labels)``).
    in_features : length of the encoder's vectors.
    inner_answers : inner nodes that can be answers themselves: none, all (True), or node ids. A target at an inner node that
        cannot be an answer means "somewhere in this ball" and trains P(ball).
    rank : if given, x goes through a linear map to this many features first: for trees of millions of nodes.
    bias : whether options have a bias.
    sparse : gradients hold the touched balls only (SGD, Adagrad and SparseAdam take them). Much faster on large trees;
        a compiled graph is split around the step, and `DistributedDataParallel`, which knows sparse gradients of its own
        embeddings only, needs ``sparse=False``.

    ``loss`` costs O(batch · depth · branching · features), whatever the size of the tree; ``log_prob`` of everything
    O(batch · nodes · features). Log-probabilities are single precision or better, also under autocast or with
    bfloat16 weights. Not twice differentiable along paths.

    >>> tree = Tree.from_paths([("animal", "bird"), ("animal", "fish"), ("plant", "tree"), ("plant", "fern")], root="life")
    >>> head = HierarchicalHead(tree, in_features=3, bias=False)
    >>> x = torch.eye(3)
    >>> head.log_prob(x).exp()[0].tolist()
    [0.25, 0.25, 0.25, 0.25]
    >>> target = tree.index(["fish", "plant", "tree"])
    >>> optimiser = torch.optim.SGD(head.parameters(), lr=3.0)
    >>> for _ in range(50):
    ...     optimiser.zero_grad()
    ...     head.loss(x, target).backward()
    ...     optimiser.step()
    >>> head.predict(x).tolist()[::2], head.predict(x, stop="threshold", threshold=0.9).tolist()
    (['fish', 'tree'], ['fish', 'plant', 'tree'])
    """

    slot: Tensor
    stop_slot: Tensor
    start: Tensor
    choice: Tensor
    up: Tensor
    piece: Tensor
    piece_choice: Tensor

    def __init__(
        self,
        tree: Tree,
        in_features: int,
        *,
        inner_answers: Any = False,
        rank: int | None = None,
        bias: bool = True,
        sparse: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(tree, in_features, inner_answers)
        self.rank, self.sparse = None if rank is None else check_whole("rank", rank), bool(sparse)
        self.slots = slots_of(tree, self.inner_answers)
        self._constant("slot", self.slots.slot)
        self._constant("stop_slot", self.slots.stop_slot)
        self._constant("start", self.slots.start)
        self._constant("choice", self.slots.choice)
        self._constant("up", np.where(tree.parent < 0, tree.n_nodes, tree.parent))
        piece, piece_choice = pieces(self.slots.start)
        self._constant("piece", piece)
        self._constant("piece_choice", piece_choice)
        features = self.in_features if rank is None else int(rank)
        self.project = None if rank is None else nn.Linear(self.in_features, features, bias=False)
        self.weight = nn.Parameter(torch.empty(self.slots.n_slots, features))
        self.bias = nn.Parameter(torch.empty(self.slots.n_slots)) if bias else None
        self.reset_parameters()
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Weights 0; biases such that every answer is equally likely; the map to ``rank`` features random."""
        nn.init.zeros_(self.weight)
        if self.bias is not None:
            below = answers_below(self.tree, self.inner_answers)[self.slots.node]
            is_stop = np.zeros(self.slots.n_slots, bool)
            is_stop[self.slots.stop_slot[self.slots.stop_slot >= 0]] = True
            with torch.no_grad():
                self.bias.copy_(torch.from_numpy(np.log(np.where(is_stop, 1, below))))
        if self.project is not None:
            nn.init.normal_(self.project.weight, std=self.in_features**-0.5)

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.rank is None else f", rank={self.rank}")

    # ---- training ----------------------------------------------------------------------------------------------------

    def loss(
        self,
        x: Tensor,
        target: TensorLike,
        *,
        depth_weights: TensorLike = None,
        sample_weight: TensorLike = None,
        ignore_index: int = IGNORE_INDEX,
        reduction: str = "mean",
    ) -> Tensor:
        """−log P(target | x), Σ_k λ_k (−log P(k-th ball of the path | the one above)); the mean over rows.

        ``target`` holds node ids. ``depth_weights`` λ_1…λ_K weigh the steps (all 1 by default), "stop here" counting as a
        step one deeper. Rows with ``ignore_index`` count nothing; a batch of none but such rows, or of no rows, costs 0.
        """
        target, kept = self._targets(x, target, ignore_index)
        cost = -self.step_log_prob(x, target)
        if depth_weights is not None:
            cost = cost * self._depth_weights(depth_weights, cost)
        return self._reduced(cost.sum(1), kept, sample_weight, reduction)

    def step_log_prob(self, x: Tensor, nodes: Tensor) -> Tensor:
        """log P of each step of the paths to ``nodes``, (rows, K + 1): column k − 1 is the step to depth k, and that after
        the last is "stop here", in place; 0 where there is no choice. One operation, differentiable."""
        return self.steps_of_features(self._features(x), nodes)

    def steps_of_features(self, features: Tensor, nodes: Tensor) -> Tensor:
        """`step_log_prob` of what the balls see."""
        inside = torch.arange(self.max_depth + 1, device=nodes.device) <= self.node_depth[nodes].unsqueeze(1)
        slots = torch.where(inside, self.slot[self.ancestors(nodes)], -1)[:, 1:]
        slots = nn.functional.pad(slots, (0, 1), value=-1)
        slots = slots.scatter(1, self.node_depth[nodes].unsqueeze(1), self.stop_slot[nodes].unsqueeze(1))
        bias = self.weight.new_empty(0) if self.bias is None else self.bias
        inputs = (features, self.weight, bias, self.start, self.choice, slots)
        found: Tensor = sparse_path_log_prob(*inputs) if self.sparse else path_log_prob(*inputs)[0]
        return found

    def penalty(self, target: TensorLike = None, ridge: TensorLike = 1.0) -> Tensor:
        """Ridge on the differences, Σ_c λ_depth(c) |w_c|²: each node is pulled to its parent.

        ``ridge`` is λ or one number per depth 1…K. With ``target`` only the balls on the way to these nodes count, which
        touches what a step touches anyway and so weighs balls by how often they are visited.
        """
        rows = torch.arange(self.slots.n_slots, device=self.weight.device)
        if target is not None:
            chain = self.ancestors(self.node_ids(target))
            slots = torch.cat([self.slot[chain].flatten(), self.stop_slot[self.node_ids(target)].flatten()])
            chosen = torch.unique(self.choice[slots[slots >= 0]])
            size = self.start[chosen + 1] - self.start[chosen]
            which = torch.repeat_interleave(size)
            rows = self.start[chosen][which] + torch.arange(len(which), device=which.device)
            rows = rows - (torch.cumsum(size, 0) - size)[which]
        touched = nn.functional.embedding(rows, self.weight, sparse=self.sparse and target is not None)
        scale = torch.as_tensor(ridge, dtype=touched.dtype, device=touched.device)
        if scale.ndim:
            depth = self.node_depth[torch.from_numpy(self.slots.node).to(rows.device)[rows]]
            scale = self._depth_weights(scale, touched)[depth.clamp(min=1) - 1]
        return (scale * touched.square().sum(1)).sum()

    def _depth_weights(self, given: Any, like: Tensor) -> Tensor:
        """λ_1…λ_K, and the last once more for "stop here" below it."""
        weights = torch.as_tensor(given, dtype=like.dtype, device=like.device)
        deepest = max(self.max_depth, 1)
        if weights.shape != (deepest,):
            raise VpunnError(f"this takes one weight for each depth 1…{deepest}, got shape {tuple(weights.shape)}.")
        return torch.cat([weights, weights[-1:]])[: self.max_depth + 1]

    def _features(self, x: Tensor) -> Tensor:
        if self.project is not None:
            x = self.project(x if autocasting(x.device) else x.to(self.weight.dtype))
        return super()._features(x)

    # ---- everything at once ------------------------------------------------------------------------------------------

    def log_prob(self, x: Tensor, of: Of = "leaves") -> Tensor:
        """log P of all ``"leaves"`` (in the order of ``tree.leaves``), all ``"balls"`` (nodes), or all ``"answers"``: leaves
        and allowed stops, `answers`, whose probabilities sum to 1. (rows, …), differentiable; O(rows · nodes · features)."""
        check_choice("of", of, ("leaves", "balls", "answers"))
        self._check_features(x)
        features = self._features(x)
        if of == "answers":
            return self.answers_of_features(features)
        ball = sum_down(self._all_steps(features)[self.slot], self.up, self.max_depth)
        return (ball[self.leaves] if of == "leaves" else ball).T

    def answers_of_features(self, features: Tensor) -> Tensor:
        """log P of every answer for what the balls see, (rows, answers)."""
        step = self._all_steps(features)
        ball = sum_down(step[self.slot], self.up, self.max_depth)
        return (ball[self.answers] + step[self.stop_slot[self.answers]]).T

    def _all_steps(self, features: Tensor) -> Tensor:
        """log P of every option in its ball, (slots + 1, rows); the last row is 0 and stands where there is no choice."""
        with full_precision(features.device):
            scores = self.weight.to(features.dtype) @ features.T
            if self.bias is not None:
                scores = scores + self.bias.to(features.dtype)[:, None]
            count = len(self.start) - 1
            step = segment_log_softmax(scores, self.choice, self.piece, self.piece_choice, count)
            return torch.cat([step, step.new_zeros((1, step.shape[1]))])

    # ---- answers -----------------------------------------------------------------------------------------------------

    def posterior(self, x: TensorLike) -> HeadPosterior:
        """The distribution of each row as an object with exact questions: best, top_k, chain, deepest, at_depth."""
        from vpunn.torch.posterior import HeadPosterior

        return HeadPosterior(self, self._checked(x))

    def explain(
        self, x: TensorLike, node: Label = None, *, k: int = 5, feature_names: FeatureNames = None
    ) -> Explanation:
        """Why one row is placed at ``node`` (a label or id; default: its answer), ball by ball; see `vpunn.explain`."""
        from vpunn.torch.posterior import explain_head

        return explain_head(self, x, node, k, feature_names)

    def _options(self) -> dict[str, Any]:
        return {
            "in_features": self.in_features,
            "rank": self.rank,
            "bias": self.bias is not None,
            "sparse": self.sparse,
        }

    # ---- as arrays ---------------------------------------------------------------------------------------------------

    def input_weights(self) -> np.ndarray:
        """Weight of every option on the *input* features, (slots, in_features), whatever the rank."""
        with torch.no_grad():
            weight = self.weight if self.project is None else self.weight @ self.project.weight
            return weight.float().cpu().numpy() if weight.dtype.itemsize < 4 else weight.cpu().numpy()

    def node_vectors(self) -> np.ndarray:
        """W of every node, (nodes, in_features): Σ of the differences along its ancestors."""
        own = np.zeros((self.n_nodes, self.in_features), self.input_weights().dtype)
        reached = self.slots.slot >= 0
        own[reached] = self.input_weights()[self.slots.slot[reached]]
        return sweep_down(self.tree, own)
