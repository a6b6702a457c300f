"""Losses on the logits of leaves that know the tree: drop-in for ``torch.nn.CrossEntropyLoss``.

A ball is a slice of the leaves, so the balls around a target cut its row of logits into at most 2K + 1 segments: one
segment log-sum-exp gives the probability of every ball on the path, in O(batch · classes) and without any classes × classes
table. The columns of the logits may be in any order; the permutation is stored.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from vpunn._types import TensorLike
from vpunn.errors import VpunnError, check_choice, examples
from vpunn.metrics import depth_weights
from vpunn.torch._module import IGNORE_INDEX, TreeModule, check_targets, full_precision, reduced
from vpunn.tree import Tree

#: Stands for log 0 where a ring holds no class; finite, so that its gradient is 0 and not NaN.
EMPTY = -1e30


class LeafLoss(TreeModule):
    """What the losses share: ``criterion(logits, target)`` with logits (rows, classes) and the column of each true class.

    Parameters
    ----------
    tree : the hierarchy.
    classes : the node of each column, as labels or node ids; default: the leaves in preorder. Inner nodes may be
        classes too. Whole numbers are node ids, also where labels are numbers (there give ``tree.index(labels)``).
    weight : one factor ≥ 0 per class, as in `torch.nn.CrossEntropyLoss`.
    ignore_index : rows with this target count nothing; a batch of none but such rows, or of no rows, costs 0.
    label_smoothing : share ε of −mean_c log p(c) mixed into the loss.
    reduction : "mean" (weighted by ``weight``), "sum" or "none".

    NaN logits give a NaN loss, a logit of −inf rules its class out. Reductions are single precision or better, also under autocast.
    """

    order: Tensor
    first: Tensor
    last: Tensor
    place: Tensor
    class_node: Tensor
    weight: Tensor | None

    def __init__(
        self,
        tree: Tree,
        classes: TensorLike = None,
        *,
        weight: Any = None,
        ignore_index: int = IGNORE_INDEX,
        label_smoothing: float = 0.0,
        reduction: str = "mean",
    ) -> None:
        super().__init__(tree)
        nodes = _class_nodes(tree, classes)
        if not 0 <= label_smoothing < 1:
            raise VpunnError(f"label_smoothing must lie in [0, 1), got {label_smoothing!r}.")
        check_choice("reduction", reduction, ("mean", "sum", "none"))
        self.n_classes, self.ignore_index = len(nodes), ignore_index
        self.label_smoothing, self.reduction = label_smoothing, reduction
        order = np.argsort(nodes, kind="stable")
        ranked, place = nodes[order], np.empty(len(nodes), np.int64)
        place[order] = np.arange(len(nodes))
        self._constant("order", order)
        self._constant("class_node", nodes)
        self._constant("place", place)
        # The classes in ball B are the slice first[B]:last[B] of the classes in preorder.
        self._constant("first", np.searchsorted(ranked, np.arange(tree.n_nodes)))
        self._constant("last", np.searchsorted(ranked, np.arange(tree.n_nodes) + tree.size))
        given = None if weight is None else torch.as_tensor(weight, dtype=torch.float32)
        if given is not None and (given.shape != (len(nodes),) or not bool(((given >= 0) & given.isfinite()).all())):
            raise VpunnError(f"weight needs one finite factor ≥ 0 for each of the {len(nodes):,} classes.")
        self.register_buffer("weight", given, persistent=False)

    def forward(self, logits: Tensor, target: TensorLike) -> Tensor:
        """The loss of a batch."""
        if logits.ndim != 2 or logits.shape[1] != self.n_classes:
            raise VpunnError(f"logits must have one column per class ({self.n_classes:,}), got {tuple(logits.shape)}.")
        given = check_targets(
            target, len(logits), self.n_classes, "targets", "classes", self.ignore_index, logits.device
        )
        kept = given != self.ignore_index
        column = torch.where(kept, given, 0)
        with full_precision(logits.device):
            rows = logits.to(torch.promote_types(logits.dtype, torch.float32))[:, self.order]
            each = self._each(_Rings(self, rows, column), self.class_node[column])
            if self.label_smoothing:
                flat = torch.logsumexp(rows, 1) - rows.mean(1)
                each = (1 - self.label_smoothing) * each + self.label_smoothing * flat
        mass = kept.to(each.dtype)
        if self.weight is not None:
            mass = mass * self.weight[column]
        # A row left out may hold anything, NaN too: 0 · NaN must not reach the sum.
        return reduced(
            torch.where(kept, each, torch.zeros((), dtype=each.dtype, device=each.device)), mass, self.reduction
        )

    def _each(self, rings: _Rings, node: Tensor) -> Tensor:
        """The loss of every row, given its rings and the node of its true class."""
        raise NotImplementedError


class _Rings:
    """A batch of logits (columns in preorder) cut into rings around the targets.

    Ring k < K holds the classes that leave the target's path after depth k; the last holds the target alone.
    """

    def __init__(self, loss: LeafLoss, rows: Tensor, column: Tensor) -> None:
        nodes = loss.class_node[column]
        chain = loss.ancestors(nodes)
        alone = torch.arange(loss.max_depth + 1, device=rows.device) > loss.node_depth[nodes].unsqueeze(1)
        own = loss.place[column].unsqueeze(1)
        low = torch.where(alone, own, loss.first[chain])
        high = torch.where(alone, own + 1, loss.last[chain])
        # Nested slices: 0 = low₀ ≤ … ≤ low_K < high_K ≤ … ≤ high₀ = number of classes.
        edges = torch.cat([low, high.flip(1)], 1)
        self.rows, self.length = rows, edges.diff(dim=1)
        flat = edges[:, :-1] + loss.n_classes * torch.arange(len(rows), device=rows.device).unsqueeze(1)
        end = torch.full((1,), rows.numel(), dtype=flat.dtype, device=flat.device)
        self.offsets = torch.cat([flat.flatten(), end])
        self.depth = loss.max_depth

    def _folded(self, segments: Tensor) -> tuple[Tensor, Tensor]:
        """Segments by ring: left of the target (with the target alone last), and right of it."""
        table = segments.view(len(self.rows), 2 * self.depth + 1)
        left, right = table[:, : self.depth + 1], table[:, self.depth + 1 :].flip(1)
        return left, torch.nn.functional.pad(right, (0, 1))

    def sums(self, values: Tensor) -> Tensor:
        """Σ of (rows, classes) values over every ring, (rows, K + 1)."""
        total = torch.segment_reduce(values.reshape(-1), "sum", offsets=self.offsets, unsafe=True, initial=0)
        left, right = self._folded(total)
        return left + right

    def sizes(self) -> Tensor:
        """Number of classes in every ring."""
        left, right = self._folded(self.length)
        return left + right

    def log_balls(self) -> Tensor:
        """log P of the ball at each depth 0…K around the target (the target alone below its depth): (rows, K + 1)."""
        with torch.no_grad():
            top = torch.segment_reduce(
                self.rows.reshape(-1), "max", offsets=self.offsets, unsafe=True, initial=-torch.inf
            )
            left, right = self._folded(top)
            highest = torch.maximum(left, torch.cat([right[:, :-1], left[:, -1:]], 1))
            highest = torch.where(torch.isneginf(highest), 0.0, highest)
            both = torch.cat([highest, highest[:, :-1].flip(1)], 1).flatten()
            shift = torch.repeat_interleave(both, self.length.flatten(), output_size=self.rows.numel())
        total = self.sums(torch.exp(self.rows - shift.view(self.rows.shape)))
        # no class there, or none that is possible (logits of −inf mask classes out); the target's own ring is never empty
        empty = torch.nn.functional.pad((total == 0)[:, :-1], (0, 1))
        ring = torch.where(empty, EMPTY, torch.log(torch.where(empty, 1.0, total)) + highest)
        inside = torch.logcumsumexp(ring.flip(1), 1).flip(1)
        return inside - inside[:, :1]


class HierarchicalCrossEntropy(LeafLoss):
    """HXE: −Σ_k λ_k log P(k-th ball of the path | the one above), P(ball) being the sum of its leaves' soft-max.

    ``weights="exponential"``: λ = exp(−alpha · steps between the ball and the class), so that coarse steps count less
    (Bertinetto et al. 2020); alpha = 0 is the plain cross-entropy. ``"information"``: λ is the share of the path's information
    log(classes above / classes here) that the step carries, times the number of steps that carry any. Or give
    one λ per depth 1…K. NumPy counterpart: `vpunn.metrics.path_probabilities` of the summed soft-max.

    >>> tree = Tree.from_paths([("animal", "bird"), ("animal", "fish"), ("plant", "fern")], root="life")
    >>> logits = torch.tensor([[2.0, 1.0, 0.0]])
    >>> plain = torch.nn.functional.cross_entropy(logits, torch.tensor([0]))
    >>> bool(torch.isclose(HierarchicalCrossEntropy(tree, alpha=0.0)(logits, [0]), plain))
    True
    >>> columns = HierarchicalCrossEntropy(tree, classes=["fern", "bird", "fish"])  # any order of the columns
    >>> columns(logits[:, [2, 0, 1]], [1]).item() == HierarchicalCrossEntropy(tree)(logits, [0]).item()
    True
    """

    step_weight: Tensor

    def __init__(
        self,
        tree: Tree,
        classes: TensorLike = None,
        *,
        alpha: float = 0.1,
        weights: Literal["exponential", "information"] | Any = "exponential",
        **options: Any,
    ) -> None:
        super().__init__(tree, classes, **options)
        if not np.isfinite(alpha):
            raise VpunnError(f"alpha must be a finite number, got {alpha!r}.")
        self.alpha = float(alpha)
        self.scheme = weights if isinstance(weights, str) else "given"
        check_choice("weights", self.scheme, ("exponential", "information", "given"))
        given = _per_depth(tree, weights) if self.scheme == "given" else np.zeros(max(tree.max_depth, 1))
        self.register_buffer("step_weight", torch.from_numpy(given), persistent=False)

    def _each(self, rings: _Rings, node: Tensor) -> Tensor:
        log_p = rings.log_balls()
        step = log_p.diff(dim=1)
        return -(self._lambdas(rings, node, step.dtype) * step).sum(1)

    def _lambdas(self, rings: _Rings, node: Tensor, kind: torch.dtype) -> Tensor:
        if self.scheme == "given":
            return self.step_weight[: self.max_depth].to(kind)
        depth = torch.arange(1, self.max_depth + 1, device=node.device)
        if self.scheme == "exponential":
            above = (self.node_depth[node].unsqueeze(1) - depth).clamp(min=0)
            return torch.exp(-self.alpha * above.to(kind))
        inside = rings.sizes().flip(1).cumsum(1).flip(1).to(kind)
        information = (inside[:, :-1] / inside[:, 1:]).log()
        total = information.sum(1, keepdim=True)
        return information * (information > 0).sum(1, keepdim=True) / torch.where(total > 0, total, 1.0)


class UltrametricLoss(LeafLoss):
    """Expected ultrametric loss of a class drawn from the soft-max: Σ_k λ_k (1 − P(the target's ball at depth k)).

    ``weights`` λ_1…λ_K; by default those that make the loss the expected p-adic distance (`vpunn.metrics.depth_weights`,
    base ``p``). Bounded, hence robust to wrong labels, and flat where a row is hopelessly wrong: start from a trained
    model or mix in ``label_smoothing``. NumPy counterpart: the mean of `vpunn.metrics.ultrametric_loss` under the soft-max.
    """

    depth_weight: Tensor

    def __init__(
        self,
        tree: Tree,
        classes: TensorLike = None,
        *,
        weights: TensorLike = None,
        p: int | None = None,
        **options: Any,
    ):
        super().__init__(tree, classes, **options)
        chosen = depth_weights(tree, p) if weights is None else _per_depth(tree, weights)
        self.register_buffer("depth_weight", torch.from_numpy(chosen), persistent=False)

    def _each(self, rings: _Rings, node: Tensor) -> Tensor:
        missed = -torch.expm1(rings.log_balls()[:, 1:])
        return (missed * self.depth_weight[: self.max_depth].to(missed.dtype)).sum(1)


class ExpectedDepthLoss(LeafLoss):
    """Digits of the target's path that a class drawn from the soft-max is expected to miss: depth(t) − E[ν(t, c)].

    It is `UltrametricLoss` with λ = 1 down to the target's own depth. NumPy counterpart: ``tree.lca_depth`` averaged under the
    soft-max (`vpunn.metrics.mean_lca_depth`).
    """

    def _each(self, rings: _Rings, node: Tensor) -> Tensor:
        inside = torch.arange(1, self.max_depth + 1, device=node.device) <= self.node_depth[node].unsqueeze(1)
        return torch.where(inside, -torch.expm1(rings.log_balls()[:, 1:]), 0.0).sum(1)


class SoftLabelLoss(LeafLoss):
    """Cross-entropy to soft labels q(c) ∝ exp(−beta · cost(ν(t, c))): near classes are partly right.

    cost(ν) = Σ_{k>ν} λ_k with ``weights`` λ_1…λ_K, by default 1/K each, so that it is the share of digits missed.
    Large ``beta`` is the plain cross-entropy, 0 the uniform distribution. Constant on rings, so nothing classes × classes is
    built. NumPy counterpart: `vpunn.metrics.ultrametric_loss` for the costs, −Σ q log p.
    """

    cost: Tensor

    def __init__(
        self, tree: Tree, classes: TensorLike = None, *, beta: float = 10.0, weights: TensorLike = None, **options: Any
    ):
        super().__init__(tree, classes, **options)
        if not np.isfinite(beta) or beta < 0:
            raise VpunnError(f"beta must be a finite number ≥ 0, got {beta!r}.")
        self.beta = float(beta)
        deepest = max(tree.max_depth, 1)
        chosen = np.full(deepest, 1.0 / deepest) if weights is None else _per_depth(tree, weights)
        tail = np.append(np.cumsum(chosen[::-1])[::-1], 0.0)
        self.register_buffer("cost", torch.from_numpy(tail if tree.max_depth else tail[-1:]), persistent=False)

    def _each(self, rings: _Rings, node: Tensor) -> Tensor:
        kind = rings.rows.dtype
        share = torch.exp(-self.beta * self.cost.to(kind)) * torch.ones_like(rings.sizes(), dtype=kind)
        share = share / (share * rings.sizes()).sum(1, keepdim=True)
        return torch.logsumexp(rings.rows, 1) - (share * rings.sums(rings.rows)).sum(1)


def _class_nodes(tree: Tree, classes: TensorLike) -> np.ndarray:
    """Distinct node ids of the columns."""
    if classes is None:
        return tree.leaves.astype(np.int64)
    given = classes if hasattr(classes, "dtype") else np.array(classes, dtype=object)
    is_id = np.asarray(given).dtype.kind in "iu" or all(isinstance(c, int | np.integer) for c in given)
    nodes = np.asarray(tree.check_nodes(np.asarray(given, np.int64)) if is_id else tree.index(list(given)), np.int64)
    if nodes.ndim != 1 or not len(nodes):
        raise VpunnError("classes must list at least one node, one per column of the logits.")
    values, count = np.unique(nodes, return_counts=True)
    if (count > 1).any():
        raise VpunnError(
            f"classes names {examples(tree.labels[values[count > 1]])} more than once; columns must differ."
        )
    return nodes


def _per_depth(tree: Tree, weights: TensorLike) -> np.ndarray:
    found = np.asarray(weights, dtype=float)
    if found.shape != (max(tree.max_depth, 1),) or not (np.isfinite(found) & (found >= 0)).all():
        raise VpunnError(f"weights needs one finite number ≥ 0 for each depth 1…{tree.max_depth}, got {weights!r}.")
    return found
