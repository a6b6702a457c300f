"""Soft-max inside every ball at once, for scores of shape (slots, rows)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

#: Terms added one after the other in single precision; longer segments are summed in pieces of this many.
PIECE = 256


def pieces(start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cut segments into pieces of at most `PIECE`: the piece of every slot, and the segment of every piece."""
    size = np.diff(start)
    count = -(-size // PIECE)
    first = np.cumsum(count) - count
    segment = np.repeat(np.arange(len(size)), size)
    return first[segment] + (np.arange(int(start[-1])) - start[segment]) // PIECE, np.repeat(
        np.arange(len(size)), count
    )


def segment_log_softmax(scores: Tensor, segment: Tensor, piece: Tensor, piece_segment: Tensor, count: int) -> Tensor:
    """log soft-max of (slots, rows) scores inside each of ``count`` segments; sums go over pieces, so that 43,705 terms
    lose no more than a few hundred do."""
    index = segment[:, None].expand_as(scores)
    top = scores.new_full((count, scores.shape[1]), -torch.inf).scatter_reduce(0, index, scores.detach(), "amax")
    shifted = scores - top[segment]
    part = scores.new_zeros((len(piece_segment), scores.shape[1])).index_add(0, piece, shifted.exp())
    total = scores.new_zeros((count, scores.shape[1])).index_add(0, piece_segment, part)
    return shifted - total.log()[segment]


def sum_down(values: Tensor, parent: Tensor, depth: int) -> Tensor:
    """Σ over each node's ancestors and itself of (nodes, rows) values, in ⌈log₂(depth + 1)⌉ doublings.

    ``parent`` points past the end at the root; there stands a row of zeros.
    """
    jump, reach = parent, 1
    end = torch.full((1,), len(parent), dtype=parent.dtype, device=parent.device)
    while reach <= depth:
        padded = torch.cat([values, values.new_zeros((1, *values.shape[1:]))])
        values = values + padded[jump]
        jump = torch.cat([jump, end])[jump]
        reach *= 2
    return values
