"""Log-probabilities of paths as one torch operation: it costs the options along the paths, not the tree.

`path_log_prob` is a registered custom operation, so `torch.compile` and autograd see one node with known shapes. On the
CPU in single or double precision it runs compiled loops, elsewhere (other devices, half-precision weights) plain tensor
operations over (row, option) pairs; both normalise in at least single precision.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

#: Numbers held at once by the tensor form: pairs · features.
PAIR_ENTRIES = 1 << 24


class _Visits(NamedTuple):
    """The valid entries of a padded table of slots, sorted by the choice they belong to."""

    at: Tensor  # position in the flattened table
    row: Tensor
    slot: Tensor
    choice: Tensor


def _visits(slots: Tensor, choice: Tensor) -> _Visits:
    flat = slots.reshape(-1)
    at = torch.nonzero(flat >= 0).squeeze(1)
    of = choice[flat[at]]
    order = torch.argsort(of, stable=True)
    at = at[order]
    row = torch.div(at, max(slots.shape[1], 1), rounding_mode="floor")
    return _Visits(at, row, flat[at], of[order])


def _compiled(*tensors: Tensor) -> bool:
    """Whether the loops of `_kernels` can take these tensors."""
    kinds = {t.dtype for t in tensors}
    return all(t.device.type == "cpu" for t in tensors) and kinds in ({torch.float32}, {torch.float64})


def _arrays(*tensors: Tensor) -> list[np.ndarray]:
    return [t.detach().contiguous().numpy() for t in tensors]


class _Groups(NamedTuple):
    """Visits as the compiled loops want them."""

    edges: np.ndarray
    choice: np.ndarray
    row: np.ndarray
    slot: np.ndarray


def _groups(visits: _Visits) -> _Groups:
    row, slot, of = _arrays(visits.row, visits.slot, visits.choice)
    first = np.flatnonzero(np.diff(of, prepend=-1))
    return _Groups(np.append(first, len(of)), of[first], row, slot)


def _forward(x: Tensor, weight: Tensor, bias: Tensor, start: Tensor, choice: Tensor, slots: Tensor) -> list[Tensor]:
    """log p and the normaliser of every entry of ``slots``; 0 where the entry is −1."""
    kind = torch.promote_types(x.dtype, torch.float32)
    log_p, normaliser = (torch.zeros(slots.numel(), dtype=kind, device=x.device) for _ in range(2))
    visits = _visits(slots, choice)
    if len(visits.at):
        if _compiled(x, weight, bias):
            from vpunn.torch import _kernels

            g = _groups(visits)
            found = [torch.empty(len(g.row), dtype=kind) for _ in range(2)]
            _kernels.path_forward(*_arrays(x, weight, bias, start), g.edges, g.choice, g.row, g.slot, *_arrays(*found))
            log_p[visits.at], normaliser[visits.at] = found
        else:
            for part, pair, visit, first in _pairs(visits, start, x.shape[1]):
                score = _pair_scores(x, weight, bias, part, pair, visit, kind)
                z = _segment_log_sum_exp(score, visit, len(part.at))
                log_p[part.at] = score[first + part.slot - start[part.choice]] - z
                normaliser[part.at] = z
    return [log_p.view(slots.shape), normaliser.view(slots.shape)]


def _pairs(visits: _Visits, start: Tensor, features: int) -> Any:
    """Strips of visits with their (visit, option) pairs: the slot and the visit of each pair, each visit's first pair."""
    length = start[visits.choice + 1] - start[visits.choice]
    strip = torch.div(torch.cumsum(length * features, 0) - 1, PAIR_ENTRIES, rounding_mode="floor")
    for at in torch.split(torch.arange(len(strip), device=strip.device), torch.bincount(strip).tolist()):
        part = _Visits(*(field[at] for field in visits))
        size = length[at]
        visit = torch.repeat_interleave(torch.arange(len(at), device=strip.device), size)
        first = torch.cumsum(size, 0) - size
        pair = start[part.choice][visit] + torch.arange(len(visit), device=strip.device) - first[visit]
        yield part, pair, visit, first


def _pair_scores(
    x: Tensor, weight: Tensor, bias: Tensor, part: _Visits, pair: Tensor, visit: Tensor, kind: torch.dtype
) -> Tensor:
    score = (weight[pair].to(kind) * x[part.row[visit]].to(kind)).sum(1)
    return score + bias[pair].to(kind) if len(bias) else score


def _segment_log_sum_exp(score: Tensor, segment: Tensor, count: int) -> Tensor:
    top = torch.full((count,), -torch.inf, dtype=score.dtype, device=score.device)
    top = top.scatter_reduce(0, segment, score, "amax")
    total = torch.zeros_like(top).index_add_(0, segment, torch.exp(score - top[segment]))
    return top + torch.log(total)


class SparseRows(NamedTuple):
    """Gradients of the rows ``slots`` (ascending) of weight and bias."""

    slots: Tensor
    weight: Tensor
    bias: Tensor


def _backward(
    grad: Tensor,
    normaliser: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    start: Tensor,
    choice: Tensor,
    slots: Tensor,
) -> tuple[Tensor, SparseRows]:
    """Gradient of x, and of the touched rows of weight and bias."""
    visits = _visits(slots, choice)
    pull, z = grad.reshape(-1)[visits.at], normaliser.reshape(-1)[visits.at]
    touched = torch.unique_consecutive(visits.choice)
    size = start[touched + 1] - start[touched]
    place = torch.cumsum(size, 0) - size
    which = torch.repeat_interleave(torch.arange(len(touched), device=x.device), size)
    rows = start[touched][which] + torch.arange(len(which), device=x.device) - place[which]
    if _compiled(x, weight, bias):
        from vpunn.torch import _kernels

        grad_x = np.zeros(tuple(x.shape), x.detach().numpy().dtype)
        grad_w, grad_b = np.empty((len(rows), x.shape[1]), grad_x.dtype), np.zeros(len(rows), grad_x.dtype)
        if len(rows):
            g = _groups(visits)
            arrays = _arrays(z.to(x.dtype), pull.to(x.dtype), place)
            _kernels.path_backward(
                *_arrays(x, weight, bias, start), g.edges, g.choice, g.row, g.slot, *arrays, grad_x, grad_w, grad_b
            )
        return torch.from_numpy(grad_x), SparseRows(rows, torch.from_numpy(grad_w), torch.from_numpy(grad_b))
    kind = torch.promote_types(x.dtype, torch.float32)
    gx = torch.zeros(x.shape, dtype=kind, device=x.device)
    gw = torch.zeros((len(rows), x.shape[1]), dtype=kind, device=x.device)
    gb = torch.zeros(len(rows), dtype=kind, device=x.device)
    pull, z = pull.to(kind), z.to(kind)
    if not len(rows):
        return gx.to(x.dtype), SparseRows(rows, gw.to(weight.dtype), gb.to(bias.dtype))
    begin = 0
    for part, pair, visit, first in _pairs(visits, start, x.shape[1]):
        own = slice(begin, begin + len(part.at))
        begin = own.stop
        score = _pair_scores(x, weight, bias, part, pair, visit, kind)
        share = -torch.exp(score - z[own][visit]) * pull[own][visit]
        share.index_add_(0, first + part.slot - start[part.choice], pull[own])
        gx.index_add_(0, part.row[visit], share[:, None] * weight[pair].to(kind))
        target = torch.searchsorted(rows, pair)
        gw.index_add_(0, target, share[:, None] * x[part.row[visit]].to(kind))
        gb.index_add_(0, target, share)
    return gx.to(x.dtype), SparseRows(rows, gw.to(weight.dtype), gb.to(bias.dtype))


@torch.library.custom_op("vpunn::path_log_prob", mutates_args=())
def path_log_prob(
    x: Tensor, weight: Tensor, bias: Tensor, start: Tensor, choice: Tensor, slots: Tensor
) -> list[Tensor]:
    """log p of the option ``slots[i, k]`` in its ball for row i of ``x`` (0 for −1), and the normalisers.

    Slot s scores ⟨weight[s], x⟩ + bias[s] (``bias`` may be empty); choice c owns the slots ``start[c]:start[c+1]``.
    Once differentiable in x, weight and bias.
    """
    return _forward(x, weight, bias, start, choice, slots)


@path_log_prob.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor, start: Tensor, choice: Tensor, slots: Tensor) -> list[Tensor]:
    kind = torch.promote_types(x.dtype, torch.float32)
    return [x.new_empty(slots.shape, dtype=kind), x.new_empty(slots.shape, dtype=kind)]


@torch.library.custom_op("vpunn::path_log_prob_backward", mutates_args=())
def path_log_prob_backward(
    grad: Tensor,
    normaliser: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    start: Tensor,
    choice: Tensor,
    slots: Tensor,
) -> list[Tensor]:
    """Dense gradients of x, weight and bias."""
    grad_x, rows = _backward(grad, normaliser, x, weight, bias, start, choice, slots)
    dense = torch.zeros_like(weight)
    dense[rows.slots] = rows.weight
    dense_b = torch.zeros_like(bias)
    if len(bias):
        dense_b[rows.slots] = rows.bias
    return [grad_x, dense, dense_b]


@path_log_prob_backward.register_fake
def _(
    grad: Tensor,
    normaliser: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    start: Tensor,
    choice: Tensor,
    slots: Tensor,
) -> list[Tensor]:
    return [torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    ctx.save_for_backward(output[1], *inputs)


def _pull_back(ctx: Any, grads: list[Tensor]) -> tuple[Any, ...]:
    grad_x, grad_w, grad_b = path_log_prob_backward(grads[0], *ctx.saved_tensors)
    return grad_x, grad_w, grad_b, None, None, None


path_log_prob.register_autograd(_pull_back, setup_context=_keep)


class SparsePathLogProb(torch.autograd.Function):
    """The same operation with gradients of weight and bias that hold the touched rows alone (sparse COO)."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        log_p, normaliser = _forward(*inputs)
        ctx.save_for_backward(normaliser, *inputs)
        return log_p

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        normaliser, x, weight, bias, *layout = ctx.saved_tensors
        grad_x, rows = _backward(grad, normaliser, x, weight, bias, *layout)

        def scattered(values: Tensor, like: Tensor) -> Tensor:
            return torch.sparse_coo_tensor(
                rows.slots[None], values, like.shape, is_coalesced=True, check_invariants=False
            )

        return (
            grad_x,
            scattered(rows.weight, weight),
            scattered(rows.bias, bias) if len(bias) else None,
            None,
            None,
            None,
        )


@torch.compiler.disable
def sparse_path_log_prob(*inputs: Tensor) -> Tensor:
    """`SparsePathLogProb` outside compiled graphs, which know no sparse gradients."""
    found: Tensor = SparsePathLogProb.apply(*inputs)
    return found
