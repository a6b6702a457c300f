"""A distribution over the nodes of a tree for every row, whatever model it comes from, and where an answer stops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Literal, get_args

import numpy as np

from vpunn import metrics
from vpunn._rows import slices
from vpunn.errors import VpunnError, check_choice
from vpunn.tree import Tree

#: Rows whose dense distributions are held in memory at once.
CHUNK_ENTRIES = 8_000_000
#: ``"node"``: the most probable node. ``"path"``: probable, and sharing most of its path with whatever else may be true.
Rule = Literal["node", "path"]
#: Where an answer stops; see `stop_at`.
Stop = Literal["threshold", "risk", "depth", "cost"]
#: Nodes that ``rule="path"`` chooses among.
LIKELIEST = 16


class NodeDistribution(ABC):
    """Every row's distribution over the nodes of a tree, whatever model it comes from, and the questions to it.

    A model gives `masses`, `chain` and `top_k`; the other answers follow. The explorer, reports, conformal prediction and
    `explain` ask these questions only.
    """

    tree: Tree

    @abstractmethod
    def __len__(self) -> int:
        """Number of rows."""

    @abstractmethod
    def masses(self, part: slice) -> np.ndarray:
        """Probability that the answer is exactly each node, dense (rows of ``part``, nodes)."""

    @abstractmethod
    def chain(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The balls around one node per row, root first (−1 padded), and their probabilities."""

    @abstractmethod
    def top_k(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable nodes and their probabilities, exact; −1 and 0 where there are fewer."""

    def best(self, rule: Rule = "node") -> np.ndarray:
        """One answer per row. ``"node"``: the most probable node, the first of `top_k`; what `predict` answers.

        ``"path"`` weighs the balls around an answer as well: exact answers are a little rarer, wrong ones lie nearer to the
        truth. Of the likeliest nodes it is the one that maximises P(c) + 2 E[shared path] / (its length + the typical length),
        where the expected number of shared balls is Σ_{B∋c} P(B). In a flat tree both rules are the same.
        """
        check_choice("rule", rule, get_args(Rule))
        if rule == "node":
            return self.top_k(1)[0][:, 0]
        nodes, p = self.top_k(LIKELIEST)
        depth = np.where(nodes >= 0, self.tree.depth[nodes], 0)
        typical = (p * depth).sum(1) / np.maximum(p.sum(1), 1e-12)
        worth = np.full(nodes.shape, -np.inf)
        for j in range(nodes.shape[1]):
            there = nodes[:, j] >= 0
            balls, q = self.chain(np.where(there, nodes[:, j], 0))
            shared = np.where(balls >= 0, q, 0.0)[:, 1:].sum(1)
            length = np.maximum(depth[:, j] + typical, 1e-12)
            worth[:, j] = np.where(there, p[:, j] + 2 * shared / length, -np.inf)
        return np.asarray(np.take_along_axis(nodes, worth.argmax(1)[:, None], 1)[:, 0])

    def exact(self, nodes: np.ndarray) -> np.ndarray:
        """Probability that the answer is exactly the given node, one per row: its ball's minus that of its children."""
        out = np.empty(len(self))
        for part in self.parts():
            here = nodes[part]
            out[part] = self.masses(part)[np.arange(len(here)), here]
        return out

    def parts(self) -> Iterator[slice]:
        """The rows, as many at a time as dense distributions may be held in memory."""
        step = max(CHUNK_ENTRIES // self.tree.n_nodes, 1)
        return slices(len(self), step)

    def chunks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Probability of every ball, dense, a part of the rows at a time."""
        for part in self.parts():
            yield part, self.tree.subtree_sum(np.ascontiguousarray(self.masses(part).T)).T

    def deepest(self, threshold: float) -> np.ndarray:
        """The deepest ball with probability ≥ threshold (the more probable of equally deep ones; the root if none)."""
        answer = np.zeros(len(self), np.int64)
        for part, p in self.chunks():
            rank = np.where(p >= threshold, self.tree.depth + 0.5 * np.minimum(p, 1.0), -1.0)
            rank[:, 0] = np.maximum(rank[:, 0], 0.0)
            answer[part] = rank.argmax(1)
        return answer

    def at_depth(self, depth: int) -> np.ndarray:
        """The best answer cut at ``depth``: the most probable ball of that depth, or a node above it that stops there."""
        answer = np.zeros(len(self), np.int64)
        for part, p in self.chunks():
            exact = self.masses(part)
            value = np.where(self.tree.depth == depth, p, np.where(self.tree.depth < depth, exact, -1.0))
            answer[part] = value.argmax(1)
        return answer

    def cheapest(self, cost: float) -> np.ndarray:
        """The node that costs least in expectation; a wrong digit at depth k costs ``cost`` to the k (`metrics.bayes_nodes`)."""
        answer, depths = np.zeros(len(self), np.int64), max(self.tree.max_depth, 1)
        for part, p in self.chunks():
            weights = cost ** (np.arange(depths) - (depths - 1.0 if cost > 1 else 0.0))  # at most 1: nothing overflows
            answer[part] = metrics.bayes_nodes(self.tree, np.clip(p, 0.0, 1.0), weights=weights)[0]
        return answer


def stop_at(
    posterior: NodeDistribution,
    rule: str,
    *,
    threshold: float = 0.5,
    alpha: float = 0.1,
    depth: int = 1,
    cost: float = 1.0,
    scores: np.ndarray | None = None,
) -> np.ndarray:
    """The ball at which every row's answer stops, which may be surer than any node; every room asks here.

    ``"threshold"``: the deepest ball with probability ≥ ``threshold``. ``"risk"``: the smallest ball around the answer that holds
    the truth with probability ≥ 1 − ``alpha``, by the calibration ``scores`` (`conformal`). ``"depth"``: the best answer cut at
    ``depth``. ``"cost"``: the node that costs least when a wrong digit at depth k costs ``cost`` to the k.
    """
    from vpunn.hipan import conformal

    check_choice("stop", rule, get_args(Stop))
    if rule == "threshold":
        if not _is_number(threshold) or not 0 <= threshold <= 1:
            raise VpunnError(f"threshold is a probability between 0 and 1, got {threshold!r}.")
        return posterior.deepest(float(threshold))
    if rule == "risk":
        if scores is None:
            raise VpunnError('stop="risk" needs rows the model has not seen: call calibrate with such rows first.')
        return conformal.cautious_nodes(posterior, conformal.conformal_threshold(scores, alpha))
    if rule == "depth":
        deepest = posterior.tree.max_depth
        if not isinstance(depth, int | np.integer) or not 0 <= depth <= deepest:
            raise VpunnError(
                f"depth must lie between 0 and {deepest}, the depth of the tree, and be whole; got {depth!r}."
            )
        return posterior.at_depth(int(depth))
    if not _is_number(cost) or not 0 < cost < np.inf:
        raise VpunnError(f"cost must be a number above 0, got {cost!r}; 1 counts wrong digits of all depths alike.")
    return posterior.cheapest(float(cost))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
