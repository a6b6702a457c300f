"""What every head over a tree does alike: targets, stop rules, conformal thresholds and model folders."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch
from torch import Tensor

from vpunn._types import FeatureNames, Label, Targets, TensorLike
from vpunn.errors import VpunnError, check_whole, examples
from vpunn.hipan import conformal
from vpunn.hipan.distribution import Stop, stop_at
from vpunn.torch._module import IGNORE_INDEX, TreeModule, check_targets, reduced
from vpunn.torch._slots import inner_answer_mask
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn.explanations import Explanation
    from vpunn.hipan.distribution import NodeDistribution
    from vpunn.store import Draft, Stored

Of = Literal["leaves", "balls", "answers"]


class Head(TreeModule):
    """Vectors of ``in_features`` numbers to a distribution over `answers`: the leaves and the ``inner_answers``."""

    answers: Tensor
    leaves: Tensor

    def __init__(self, tree: Tree, in_features: int, inner_answers: Any) -> None:
        super().__init__(tree)
        self.in_features = check_whole("in_features", in_features)
        self.inner_answers = inner_answer_mask(tree, inner_answers)
        self._constant("answers", np.flatnonzero(tree.is_leaf | self.inner_answers))
        self._constant("leaves", tree.leaves)
        self.miss_scores_: np.ndarray | None = None

    @abstractmethod
    def loss(
        self,
        x: Tensor,
        target: TensorLike,
        *,
        sample_weight: TensorLike = None,
        ignore_index: int = IGNORE_INDEX,
        reduction: str = "mean",
    ) -> Tensor:
        """−log P(target | x)."""

    @abstractmethod
    def log_prob(self, x: Tensor, of: Of = "leaves") -> Tensor:
        """log P of all ``"leaves"``, all ``"balls"`` (nodes) or all ``"answers"``."""

    @abstractmethod
    def posterior(self, x: TensorLike) -> NodeDistribution:
        """The distribution of each row as an object with exact questions: best, top_k, chain, deepest, at_depth."""

    @abstractmethod
    def explain(
        self, x: TensorLike, node: Label = None, *, k: int = 5, feature_names: FeatureNames = None
    ) -> Explanation:
        """Why one row is placed at ``node`` (a label or id; default: its answer), ball by ball; see `vpunn.explain`."""

    def forward(self, x: Tensor, target: TensorLike = None, **options: Any) -> Tensor:
        """`loss` with a target, else `log_prob` of the leaves."""
        return self.log_prob(x) if target is None else self.loss(x, target, **options)

    def extra_repr(self) -> str:
        return f"{self.n_nodes:,} nodes, {len(self.answers):,} answers, in_features={self.in_features}"

    def _targets(self, x: Tensor, target: TensorLike, ignored: int) -> tuple[Tensor, Tensor]:
        self._check_features(x)
        nodes = check_targets(target, len(x), self.n_nodes, "targets", "nodes", ignored, x.device)
        kept = nodes != ignored
        return torch.where(kept, nodes, 0), kept

    def _check_features(self, x: Tensor) -> None:
        if not isinstance(x, Tensor) or x.ndim != 2 or x.shape[1] != self.in_features:
            got = f"shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
            raise VpunnError(f"the head takes a tensor of rows of {self.in_features} features, got {got}.")

    def _features(self, x: Tensor) -> Tensor:
        """What the balls see, in single precision at least: half-precision vectors are widened before anything is summed."""
        weight = next(self.parameters())
        return x.to(torch.promote_types(torch.promote_types(x.dtype, weight.dtype), torch.float32))

    def _reduced(self, cost: Tensor, kept: Tensor, sample_weight: TensorLike, reduction: str) -> Tensor:
        weight = kept.to(cost.dtype)
        if sample_weight is not None:
            weight = weight * torch.as_tensor(sample_weight, dtype=cost.dtype, device=cost.device)
        # A row left out may hold anything, NaN too: 0 · NaN must not reach the sum.
        each = torch.where(kept, cost, torch.zeros((), dtype=cost.dtype, device=cost.device))
        return reduced(each, weight, reduction)

    # ---- answers -----------------------------------------------------------------------------------------------------

    def _checked(self, x: TensorLike) -> Tensor:
        """Rows as the balls see them, after refusing those that are no numbers."""
        weight = next(self.parameters())
        x = torch.as_tensor(x, dtype=None if isinstance(x, Tensor) else weight.dtype).to(weight.device)
        self._check_features(x)
        with torch.no_grad():
            features = self._features(x)
        bad = torch.nonzero(~torch.isfinite(features).all(1)).flatten()
        if len(bad):
            raise VpunnError(f"features are NaN or infinite in rows {examples(bad.tolist())}; they have no answer.")
        return features

    def top_k(self, x: TensorLike, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable labels of each row and their probabilities, exact."""
        nodes, p = self.posterior(x).top_k(k)
        return self.tree.labels[nodes], p

    def predict(
        self,
        x: TensorLike,
        stop: Stop | None = None,
        *,
        threshold: float = 0.5,
        alpha: float = 0.1,
        depth: int = 1,
        cost: float = 1.0,
    ) -> np.ndarray:
        """One label per row: the most probable answer, or with ``stop`` a ball that is surer.

        The rules are those of `HiPaNClassifier.predict`: ``"threshold"``, the deepest ball with P ≥ ``threshold``; ``"risk"``,
        the smallest ball around the answer that holds the truth with probability ≥ 1 − ``alpha``, after `calibrate`;
        ``"depth"``, the best answer cut at ``depth``; ``"cost"``, the node that costs least when a wrong digit at depth k costs
        ``cost``^k.
        """
        posterior = self.posterior(x)
        rules: dict[str, Any] = {"threshold": threshold, "alpha": alpha, "depth": depth, "cost": cost}
        nodes = posterior.best() if stop is None else stop_at(posterior, stop, scores=self.miss_scores_, **rules)
        labels: np.ndarray = self.tree.labels[nodes]
        return labels

    def calibrate(self, x: TensorLike, nodes: TensorLike) -> Self:
        """Set the conformal threshold of ``predict(stop="risk")`` on rows with known ``nodes`` that training has not seen."""
        truth = self.node_ids(nodes).cpu().numpy()
        posterior = self.posterior(x)
        if truth.shape != (len(posterior),):
            raise VpunnError(f"there must be one node per row: got shape {truth.shape} for {len(posterior):,} rows.")
        self.miss_scores_ = conformal.miss_scores(posterior, truth)
        return self

    # ---- as other models are ----------------------------------------------------------------------------------------

    @property
    def tree_(self) -> Tree:
        """The tree, under the name fitted models have."""
        return self.tree

    @property
    def n_features_in_(self) -> int:
        """`in_features`, under the name fitted models have."""
        return self.in_features

    def nodes_of(self, y: Targets) -> np.ndarray:
        """Node ids of labels; unknown ones are refused."""
        return np.atleast_1d(self.tree.index(y))

    def _to_store(self, draft: Draft) -> None:
        super()._to_store(draft)
        draft.array("inner_answers", np.flatnonzero(self.inner_answers))
        if self.miss_scores_ is not None:
            draft.array("miss_scores", self.miss_scores_)

    @classmethod
    def _arrays_of(cls, stored: Stored, tree: Tree) -> dict[str, Any]:
        return {"inner_answers": stored.array("inner_answers", dtype="iu", shape=(None,), low=0, high=tree.n_nodes)}

    @classmethod
    def _from_store(cls, stored: Stored) -> Self:
        head = super()._from_store(stored)
        if "miss_scores" in stored:
            head.miss_scores_ = stored.array("miss_scores", dtype="f", shape=(None,), low=0.0)
        return head
