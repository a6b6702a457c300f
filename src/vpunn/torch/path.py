"""`PathHead`: one soft-max over all answers whose logits are sums along paths, a v-PuNN as output layer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from vpunn._types import FeatureNames, Label, TensorLike
from vpunn.errors import check_choice
from vpunn.torch._head import Head, Of
from vpunn.torch._module import IGNORE_INDEX, full_precision
from vpunn.torch._segments import sum_down
from vpunn.tree import Tree, sweep_down

if TYPE_CHECKING:
    from vpunn.explanations import Explanation
    from vpunn.torch.posterior import DensePosterior


class PathHead(Head):
    """One soft-max over all answers: logit(node | x) = Σ_{B∋node} ⟨w_B, x⟩ + b_B, and P = soft-max of the logits.

    An answer has weights of its own, and every ball below the root has weights that all answers in it share, so relatives
    have in common what their balls say. With all shared weights 0 it *is* a flat soft-max, and a decay on them says how
    much relatives share; own and shared weights take decays of their own (`groups`, `penalty`), found on validation rows.
    All weights start at 0: every answer equally likely.

    Parameters
    ----------
    tree : the hierarchy; targets are its node ids (``tree.index(labels)``).
    in_features : length of the encoder's vectors.
    inner_answers : inner nodes that can be answers themselves: none, all (True), or node ids. A target at an inner node
        that cannot be an answer means "somewhere in this ball" and trains P(ball).

    A step costs O(rows · answers · features), as a flat soft-max does, plus one sweep over the shared weights of the inner
    balls. `HierarchicalHead` (a soft-max in every ball) costs the paths alone, whatever the size of the tree.

    >>> tree = Tree.from_paths([("animal", "bird"), ("animal", "fish"), ("plant", "tree"), ("plant", "fern")], root="life")
    >>> head = PathHead(tree, in_features=3)
    >>> x, target = torch.eye(3), tree.index(["fish", "plant", "bird"])  # nothing is said about which plant
    >>> optimiser = torch.optim.SGD(head.groups(own=0.1, shared=0.01), lr=1.0)
    >>> for _ in range(100):
    ...     optimiser.zero_grad()
    ...     head.loss(x, target).backward()
    ...     optimiser.step()
    >>> head.predict(x).tolist()[::2], head.predict(x, stop="threshold", threshold=0.8).tolist()
    (['fish', 'bird'], ['animal', 'plant', 'animal'])
    """

    up: Tensor
    holder: Tensor
    ball: Tensor
    first: Tensor
    last: Tensor

    def __init__(
        self,
        tree: Tree,
        in_features: int,
        *,
        inner_answers: Any = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(tree, in_features, inner_answers)
        answer = np.asarray(self.answers)
        # What all answers share cancels in the soft-max, so the root has no weights: its place is one past the last ball.
        inner = np.flatnonzero(~tree.is_leaf)[1:] if tree.n_nodes > 1 else np.empty(0, np.int64)
        place = np.full(tree.n_nodes, len(inner), np.int64)
        place[inner] = np.arange(len(inner))
        self._constant("up", place[tree.parent[inner]])
        self._constant("holder", place[np.where(tree.is_leaf[answer], np.maximum(tree.parent[answer], 0), answer)])
        # The answers in a ball are consecutive, as its nodes are.
        self._constant("first", np.searchsorted(answer, np.arange(tree.n_nodes)))
        self._constant("last", np.searchsorted(answer, np.arange(tree.n_nodes) + tree.size))
        self._constant("ball", inner)
        self.own = nn.Parameter(torch.empty(len(answer), self.in_features))
        self.own_bias = nn.Parameter(torch.empty(len(answer)))
        self.shared = nn.Parameter(torch.empty(len(inner), self.in_features))
        self.shared_bias = nn.Parameter(torch.empty(len(inner)))
        self.reset_parameters()
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Everything 0: all answers are equally likely."""
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    # ---- training ----------------------------------------------------------------------------------------------------

    def groups(self, own: float = 0.0, shared: float = 0.0, **options: Any) -> list[dict[str, Any]]:
        """Parameter groups of an optimiser with weight decay: ``own`` for answers, ``shared`` for balls, 0 for biases."""
        parts: Iterable[tuple[list[nn.Parameter], float]] = (
            ([self.own], own),
            ([self.shared], shared),
            ([self.own_bias, self.shared_bias], 0.0),
        )
        return [{"params": params, "weight_decay": decay, **options} for params, decay in parts]

    def penalty(self, own: float = 1.0, shared: float = 1.0) -> Tensor:
        """``own`` Σ_answers |w|² + ``shared`` Σ_balls |w|², for optimisers without a weight decay."""
        return own * self.own.square().sum() + shared * self.shared.square().sum()

    def loss(
        self,
        x: Tensor,
        target: TensorLike,
        *,
        sample_weight: TensorLike = None,
        ignore_index: int = IGNORE_INDEX,
        reduction: str = "mean",
    ) -> Tensor:
        """−log P(target | x), the mean over rows; ``target`` holds node ids.

        Rows with ``ignore_index`` count nothing; a batch of none but such rows, or of no rows, costs 0.
        """
        target, kept = self._targets(x, target, ignore_index)
        logits = self.logits(self._features(x))
        first, last = self.first[target], self.last[target]
        truth = logits.gather(1, first.unsqueeze(1)).squeeze(1)  # an answer is the first of those in its own ball
        wide = torch.nonzero(self.answers[first] != target).flatten()
        if len(wide):  # somewhere in a ball: its answers together
            column = torch.arange(logits.shape[1], device=logits.device)
            inside = (column >= first[wide].unsqueeze(1)) & (column < last[wide].unsqueeze(1))
            truth = truth.index_put((wide,), logits[wide].masked_fill(~inside, -torch.inf).logsumexp(1))
        return self._reduced(logits.logsumexp(1) - truth, kept, sample_weight, reduction)

    # ---- everything at once ------------------------------------------------------------------------------------------

    def answer_weights(self) -> tuple[Tensor, Tensor]:
        """The flat soft-max this head is: W (answers, features) and b (answers) with every path summed up, differentiable."""
        with full_precision(self.own.device):
            shared = torch.cat([self.shared, self.shared_bias.unsqueeze(1)], 1)
            path = sum_down(shared.to(torch.promote_types(shared.dtype, torch.float32)), self.up, self.max_depth)
            path = torch.cat([path, path.new_zeros(1, path.shape[1])])[self.holder]
            return self.own.to(path.dtype) + path[:, :-1], self.own_bias.to(path.dtype) + path[:, -1]

    def logits(self, features: Tensor) -> Tensor:
        """Scores of all answers, (rows, answers)."""
        weight, bias = self.answer_weights()
        kind = torch.promote_types(features.dtype, weight.dtype)
        with full_precision(features.device):
            return nn.functional.linear(features.to(kind), weight.to(kind), bias.to(kind))

    def log_prob(self, x: Tensor, of: Of = "leaves") -> Tensor:
        """log P of all ``"leaves"`` (in the order of ``tree.leaves``), all ``"balls"`` (nodes), or all ``"answers"``: leaves
        and allowed inner nodes, whose probabilities sum to 1. (rows, …), differentiable; O(rows · nodes · features)."""
        check_choice("of", of, ("leaves", "balls", "answers"))
        self._check_features(x)
        found = torch.log_softmax(self.logits(self._features(x)), 1)
        if of == "answers":
            return found
        if of == "leaves":
            return found[:, self.last[self.leaves] - 1]
        return self.balls_of_answers(found)

    def balls_of_answers(self, answers: Tensor) -> Tensor:
        """log Σ P over the answers of every ball, from the deepest level up; (rows, nodes)."""
        node = answers.new_full((self.n_nodes, len(answers)), -torch.inf).index_copy(0, self.answers, answers.T)
        start, ids = self.tree.levels
        for depth in range(self.max_depth, 0, -1):
            level = ids[start[depth] : start[depth + 1]].astype(np.int64)
            below, parents = (torch.from_numpy(a).to(answers.device) for a in (level, self.tree.parent[level]))
            above, to = torch.unique_consecutive(parents.long(), return_inverse=True)
            top = (
                node[above]
                .detach()
                .scatter_reduce(0, to[:, None].expand(-1, node.shape[1]), node[below].detach(), "amax")
            )
            total = (node[above] - top).exp().index_add(0, to, (node[below] - top[to]).exp())
            node = node.index_copy(0, above, total.log() + top)
        return node.T

    # ---- answers -----------------------------------------------------------------------------------------------------

    def posterior(self, x: TensorLike) -> DensePosterior:
        """The distribution of each row as an object with exact questions: best, top_k, chain, deepest, at_depth."""
        from vpunn.torch.posterior import DensePosterior

        return DensePosterior(self, self._checked(x))

    def explain(
        self, x: TensorLike, node: Label = None, *, k: int = 5, feature_names: FeatureNames = None
    ) -> Explanation:
        """Why one row is placed at ``node`` (a label or id; default: its answer), ball by ball; see `vpunn.explain`."""
        from vpunn.torch.posterior import explain_path

        return explain_path(self, x, node, k, feature_names)

    def _options(self) -> dict[str, Any]:
        return {"in_features": self.in_features}

    # ---- as arrays ---------------------------------------------------------------------------------------------------

    def node_vectors(self) -> np.ndarray:
        """What every node's own score reads, (nodes, in_features): Σ of the weights along its path; own weights of leaves
        included, those of inner answers not."""
        own = np.zeros((self.n_nodes, self.in_features))
        with torch.no_grad():
            own[self.ball.cpu().numpy()] = self.shared.double().cpu().numpy()
            answer, leaf = self.answers.cpu().numpy(), self.tree.is_leaf
            own[answer[leaf[answer]]] = self.own.double().cpu().numpy()[leaf[answer]]
        return sweep_down(self.tree, own)
