"""Rows with several answers in deep models: one sigmoid per ball, with the true-path rule along all edges of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, softplus

from vpunn._types import TensorLike
from vpunn.errors import VpunnError, check_choice, check_whole
from vpunn.torch._module import TreeModule, check_whole_ids, full_precision, reduced
from vpunn.tree import Tree


class _Raised(TreeModule):
    """Scores of nodes (rows, nodes) raised to their ancestors by any path: s'(B) = max over B and all below it of s."""

    child: Tensor
    above: Tensor

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        start, up = tree.all_parents
        child = np.repeat(np.arange(tree.n_nodes), np.diff(start))
        level = np.zeros(
            tree.n_nodes, np.int64
        )  # edges on the longest path from the root: a child's is below its parents'
        for node in tree.topological[1:].tolist():
            level[node] = level[up[start[node] : start[node + 1]]].max() + 1
        order = np.argsort(-level[child], kind="stable")
        self._constant("child", child[order])
        self._constant("above", up[order])
        cuts = np.flatnonzero(np.diff(level[child][order])) + 1
        self.steps = np.split(np.arange(len(child)), cuts) if len(child) else []

    def raised(self, scores: Tensor) -> Tensor:
        """One step per level of the graph, deepest first; O(rows · edges)."""
        for step in self.steps:
            edges = slice(int(step[0]), int(step[-1]) + 1)
            above = self.above[edges].expand(len(scores), -1)
            scores = scores.scatter_reduce(1, above, scores[:, self.child[edges]], "amax")
        return scores

    def answers(self, target: TensorLike, rows: int, device: torch.device) -> Tensor:
        """Answers as a table (rows, nodes) of booleans, closed under ancestors; from lists of node ids or such a table."""
        if isinstance(target, Tensor | np.ndarray):
            given = torch.as_tensor(target, device=device)
            if given.shape != (rows, self.n_nodes) or bool(((given != 0) & (given != 1)).any()):
                raise VpunnError(
                    f"a table of answers holds 0 and 1 and has shape ({rows}, {self.n_nodes}), one column per node; got "
                    f"shape {tuple(given.shape)}."
                )
            start, ids = given.ne(0).sum(1).cumsum(0).cpu().numpy(), given.nonzero()[:, 1].cpu().numpy()
            start = np.concatenate([[0], start])
        else:
            lists = [torch.as_tensor(row, dtype=None if len(row) else torch.int64) for row in target]
            if len(lists) != rows:
                raise VpunnError(f"there must be one set of node ids per row: got {len(lists):,} for {rows:,} rows.")
            start = np.concatenate([[0], np.cumsum([len(row) for row in lists])])
            every = torch.cat(lists) if lists else torch.zeros(0, dtype=torch.int64)
            check_whole_ids(every, "node ids")
            ids = self.node_ids(every).cpu().numpy()
        closed, nodes = self.tree.closure((start.astype(np.int64), ids))
        table = torch.zeros(rows, self.n_nodes, dtype=torch.bool, device=device)
        row = np.repeat(np.arange(rows), np.diff(closed))
        table[torch.from_numpy(row).to(device), torch.from_numpy(nodes.astype(np.int64)).to(device)] = True
        return table


class TruePathLoss(_Raised):
    """Log loss of the marginals of all balls but the root, with P(B) = σ(max of the logits of B and all below it).

    A ball of an answer is judged by the largest logit among the *answers* below it, a ball without one by the largest logit of
    all below it (the max-constraint loss of Giunchiglia and Lukasiewicz), so that what pushes a ball up is never a wrong part of
    it. Marginals never exceed those of a parent, extra parents included.

    ``criterion(logits, sets)``: logits (rows, nodes) in the order of node ids (that of the root is not used), and a list of node
    ids per row or a table of 0 and 1; ancestors are implied. An empty set is a row without an answer.

    >>> tree = Tree.from_edges([("thing", "pet"), ("thing", "mammal"), ("pet", "dog"), ("mammal", "dog")])
    >>> round(TruePathLoss(tree)(torch.zeros(1, 4), [[tree.index("dog")]]).item(), 4)  # three balls at log 2
    2.0794
    """

    def __init__(self, tree: Tree, *, reduction: str = "mean") -> None:
        super().__init__(tree)
        check_choice("reduction", reduction, ("mean", "sum", "none"))
        self.reduction = reduction

    def forward(self, logits: Tensor, target: TensorLike) -> Tensor:
        """The loss of a batch, summed over balls."""
        if logits.ndim != 2 or logits.shape[1] != self.n_nodes:
            raise VpunnError(f"logits must have one column per node ({self.n_nodes:,}), got {tuple(logits.shape)}.")
        with full_precision(logits.device):
            scores = logits.to(torch.promote_types(logits.dtype, torch.float32))
            mine = self.answers(target, len(scores), scores.device)
            low = torch.finfo(scores.dtype).min
            own = self.raised(torch.where(mine, scores, low))
            each = torch.where(mine, softplus(-torch.where(mine, own, 0.0)), softplus(self.raised(scores)))[:, 1:].sum(
                1
            )
        return reduced(each, torch.ones_like(each), self.reduction)


class SetHead(TreeModule):
    """Any encoder's output to P(some answer lies in the ball), for every ball of a tree with or without extra parents.

    One linear logit per ball; `TruePathLoss` trains them, `marginals` are monotone along every edge. Parameters: ``tree``,
    ``in_features`` (length of the encoder's vectors). Weights start at 0, biases at −2.

    >>> tree = Tree.from_edges([("thing", "pet"), ("thing", "mammal"), ("pet", "dog"), ("mammal", "dog"), ("mammal", "cow")])
    >>> head, x = SetHead(tree, in_features=2), torch.eye(2)
    >>> sets = [[tree.index("dog"), tree.index("cow")], [tree.index("pet")]]
    >>> optimiser = torch.optim.Adam(head.parameters(), lr=0.3)
    >>> for _ in range(60):
    ...     optimiser.zero_grad()
    ...     head.loss(x, sets).backward()
    ...     optimiser.step()
    >>> [sorted(row) for row in head.predict_sets(x)]
    [['cow', 'dog'], ['pet']]
    """

    def __init__(self, tree: Tree, in_features: int) -> None:
        super().__init__(tree)
        self.in_features = check_whole("in_features", in_features)
        self.weight = nn.Parameter(torch.zeros(tree.n_nodes, self.in_features))
        self.bias = nn.Parameter(torch.full((tree.n_nodes,), -2.0))
        self.criterion = TruePathLoss(tree)

    def _options(self) -> dict[str, Any]:
        return {"in_features": self.in_features}

    def forward(self, x: Tensor, target: TensorLike = None) -> Tensor:
        """`loss` with a target, else the logits of all nodes."""
        return linear(x, self.weight, self.bias) if target is None else self.loss(x, target)

    def loss(self, x: Tensor, target: TensorLike) -> Tensor:
        """Mean `TruePathLoss` of a batch; ``target`` is a list of node ids per row or a table of 0 and 1."""
        return torch.as_tensor(self.criterion(self(x), target))

    @torch.no_grad()
    def marginals(self, x: Tensor) -> Tensor:
        """P(some answer lies in the ball), (rows, nodes); 1 at the root, never above that of a parent."""
        logits = self(x)
        found = torch.sigmoid(self.criterion.raised(logits.to(torch.promote_types(logits.dtype, torch.float32))))
        found[:, 0] = 1.0
        return found

    def predict_sets(self, x: Tensor, *, threshold: float = 0.5) -> list[set[Any]]:
        """The labels of the most specific balls with a marginal of at least ``threshold``, one set per row."""
        from scipy import sparse

        from vpunn.hipan.set_posterior import deepest_only

        if not 0 <= threshold <= 1:
            raise VpunnError(f"threshold is a probability between 0 and 1, got {threshold!r}.")
        above = (self.marginals(x) >= threshold).cpu().numpy()
        above[:, 0] = False
        kept = deepest_only(self.tree, sparse.csr_matrix(above.astype(float)))
        ends = zip(kept.indptr[:-1], kept.indptr[1:], strict=True)
        return [set(self.tree.labels[kept.indices[a:b]].tolist()) for a, b in ends]
