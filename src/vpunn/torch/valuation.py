"""Valuations of pairs of nodes inside a model: attention biases and edge features.

In preorder the valuation ν(u, v), the depth of the lowest common ancestor, is a range minimum: for u < v it is
min(depth[u+1 … v]) − 1. A table of minima over runs of length 2^j answers any pair with two gathers, on any device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vpunn._types import TensorLike
from vpunn.errors import VpunnError, check_whole
from vpunn.torch._module import TreeModule
from vpunn.tree import Tree


class Valuation(TreeModule):
    """ν(u, v) of node ids that broadcast, as int64: the number of digits their codes share; a node with itself has its depth.

    Memory: nodes · log₂(nodes) bytes (two bytes each for trees deeper than 254).

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1], labels=["animal", "bird", "fish", "owl", "robin"])
    >>> owl, robin, fish = tree.index(["owl", "robin", "fish"])
    >>> Valuation(tree)(torch.tensor([owl, owl, owl]), torch.tensor([owl, robin, fish])).tolist()
    [2, 1, 0]
    """

    minima: Tensor
    log2: Tensor

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        kind = np.uint8 if tree.max_depth < 255 else np.int32
        rows = [tree.depth.astype(kind)]
        reach = 1
        while 2 * reach <= tree.n_nodes:
            last = rows[-1]
            rows.append(np.concatenate([np.minimum(last[:-reach], last[reach:]), last[len(last) - reach :]]))
            reach *= 2
        self.register_buffer("minima", torch.from_numpy(np.stack(rows).reshape(-1)), persistent=False)
        length = np.maximum(np.arange(tree.n_nodes + 1), 1)
        self.register_buffer("log2", torch.from_numpy(np.frexp(length)[1].astype(np.uint8) - 1), persistent=False)

    def forward(self, u: TensorLike, v: TensorLike) -> Tensor:
        """ν of each pair."""
        u, v = torch.broadcast_tensors(self.node_ids(u), self.node_ids(v))
        low, high = torch.minimum(u, v), torch.maximum(u, v)
        length = (high - low).clamp(min=1)
        run = self.log2[length].long()
        first = torch.minimum(low + 1, high)  # of a node with itself: its own depth
        after = high + 1 - torch.bitwise_left_shift(torch.ones_like(run), run)
        least = torch.minimum(self.minima[run * self.n_nodes + first], self.minima[run * self.n_nodes + after])
        return least.long() - (low != high).long()


class ValuationBias(Valuation):
    """A learned bias per attention head and valuation, bias[head, ν(query, key)]: K + 1 scalars a head, 0 at the start.

    ``forward(nodes)`` of (batch, length) node ids gives (batch, heads, length, length), ready as the ``attn_mask`` of
    `torch.nn.functional.scaled_dot_product_attention`; ``padding`` (batch, length) marks keys that are no tokens
    (−inf). ``forward(queries, keys)`` takes both sides. `edges` gives the same scalars for a list of edges, a feature for
    graph layers.

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1])
    >>> bias = ValuationBias(tree, heads=2)
    >>> bias(torch.tensor([[2, 3, 4]])).shape, bias.edges(torch.tensor([[2, 3], [3, 4]])).shape
    (torch.Size([1, 2, 3, 3]), torch.Size([2, 2]))
    """

    def __init__(self, tree: Tree, heads: int) -> None:
        super().__init__(tree)
        heads = check_whole("heads", heads)
        self.table = nn.Parameter(torch.zeros(heads, tree.max_depth + 1))

    def forward(self, queries: Any, keys: Any = None, padding: Tensor | None = None) -> Tensor:
        """Biases (…, heads, queries, keys)."""
        q = self.node_ids(queries)
        k = q if keys is None else self.node_ids(keys)
        if q.ndim < 1 or q.shape[:-1] != k.shape[:-1]:
            raise VpunnError(f"queries and keys must be lists of nodes per sequence, got {q.shape} and {k.shape}.")
        bias = self._of(super().forward(q.unsqueeze(-1), k.unsqueeze(-2))).movedim(-1, -3)
        if padding is not None:
            bias = bias.masked_fill(padding.unsqueeze(-2).unsqueeze(-3), -torch.inf)
        return bias

    def edges(self, edge_index: Any) -> Tensor:
        """(edges, heads) for ``edge_index`` of shape (2, edges) with the node ids of both ends."""
        ends = torch.as_tensor(edge_index)
        if ends.ndim != 2 or len(ends) != 2:
            raise VpunnError(f"edge_index must have shape (2, edges), got {tuple(ends.shape)}.")
        return self._of(super().forward(ends[0], ends[1]))

    def _options(self) -> dict[str, Any]:
        return {"heads": len(self.table)}

    def _of(self, valuation: Tensor) -> Tensor:
        return nn.functional.embedding(valuation, self.table.T)
