"""The classifier's answer for a batch of rows as a distribution over nodes, and exact questions to it.

A row's distribution is a few candidates with a probability each, and a rest that is spread over all other nodes in
proportion to how often they were seen. Node probabilities are sums of it over slices, so a ball's probability is
its own stop mass plus that of its children, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vpunn.hipan.balls import writable
from vpunn.sweeps import sweep_down
from vpunn.tree import Tree

#: Rows whose dense distributions are held in memory at once.
CHUNK_ENTRIES = 8_000_000
#: Weight of the shared path against the exact node in `Posterior.best`; chosen on split 0 of the tasks.
AGREEMENT = 1.0


@dataclass
class Posterior:
    """``candidates`` (−1 padded) and their ``probability``, both (rows, k), and the ``rest`` (rows,), over a ``prior``."""

    tree: Tree
    candidates: np.ndarray
    probability: np.ndarray
    rest: np.ndarray
    prior: np.ndarray

    def __len__(self) -> int:
        return len(self.rest)

    def spread(self) -> np.ndarray:
        """Factor that turns the prior of a node that is no candidate into its probability, for every row."""
        listed = np.where(self.candidates >= 0, self.prior[self.candidates], 0.0).sum(1)
        left = 1.0 - listed
        return np.where(left > 1e-12, self.rest / np.maximum(left, 1e-12), 0.0)

    def top_k(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable nodes and their probabilities, exact; −1 and 0 where there are fewer.

        Best first: candidates and the rest are each sorted, so the answer is a merge of two lists. The first k + C
        nodes of the prior contain the best k that are no candidate.
        """
        rows, width = self.candidates.shape
        favourites = np.argsort(-self.prior, kind="stable")[: k + width]
        favourites = favourites[self.prior[favourites] > 0]
        shared = (self.candidates[:, :, None] == favourites).any(1)
        other = np.where(shared, -1.0, self.spread()[:, None] * self.prior[favourites])
        node = np.concatenate([self.candidates.astype(np.int64), np.broadcast_to(favourites, (rows, len(favourites)))], 1)
        value = np.concatenate([np.where(self.candidates >= 0, self.probability, -1.0), other], 1)
        if node.shape[1] < k:
            short = k - node.shape[1]
            node = np.pad(node, ((0, 0), (0, short)), constant_values=-1)
            value = np.pad(value, ((0, 0), (0, short)), constant_values=-1.0)
        order = np.lexsort((node, -value), axis=1)[:, :k]
        best, p = np.take_along_axis(node, order, 1), np.take_along_axis(value, order, 1)
        return np.where(p < 0, -1, best), np.maximum(p, 0.0)

    def best(self, agreement: float = AGREEMENT) -> np.ndarray:
        """One answer per row: probable itself, and sharing as much of its path as possible with whatever else may be true.

        The answer maximises p(c) + a · 2 E[shared path] / (its length + the typical length). The expected number of shared balls
        is Σ_{B∋c} P(B), a sum along the ancestors; scaled as in the Wu–Palmer similarity. With a clear favourite this is the
        most probable node; where nothing is probable it stays in the most probable ball. In a flat tree both are the same.
        """
        from vpunn.hipan._combine_kernels import choose

        tree = self.tree
        ball = tree.subtree_sum(self.prior)
        typical = float(self.prior @ tree.depth)
        along = sweep_down(tree, ball) * 2.0 / (tree.depth + typical + 2.0)
        fallback = int(np.where(self.prior > 0, self.prior + agreement * along, -1.0).argmax())
        prior = writable(self.prior)
        return choose(
            self.candidates, self.probability, self.spread(), prior, ball, tree.parent, tree.depth, typical, fallback,
            float(agreement),
        )

    def masses(self, part: slice) -> np.ndarray:
        """Probability that the answer is exactly each node, dense (rows of ``part``, nodes)."""
        dense = self.spread()[part, None] * self.prior
        row, slot = np.nonzero(self.candidates[part] >= 0)
        dense[row, self.candidates[part][row, slot]] = self.probability[part][row, slot]
        return dense

    def chunks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Probability of every ball, dense, a part of the rows at a time."""
        step = max(CHUNK_ENTRIES // self.tree.n_nodes, 1)
        for start in range(0, len(self), step):
            part = slice(start, min(start + step, len(self)))
            yield part, self.tree.subtree_sum(np.ascontiguousarray(self.masses(part).T)).T

    def chain(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The balls around one node per row, root first (−1 padded), and their probabilities."""
        tree = self.tree
        depth = tree.depth[nodes]
        levels = np.arange(tree.max_depth + 1)
        inside = levels <= depth[:, None]
        balls = np.where(inside, tree.ancestor_at(nodes[:, None], np.minimum(levels, depth[:, None])), -1)
        cumulative = np.concatenate([[0.0], np.cumsum(self.prior)])
        stop = balls + tree.size[balls]
        background = cumulative[stop] - cumulative[balls]
        p = np.zeros(balls.shape)
        for slot in range(self.candidates.shape[1]):
            c = self.candidates[:, slot, None]
            within = (c >= balls) & (c < stop) & (c >= 0)
            p += np.where(within, self.probability[:, slot, None], 0.0)
            background = background - np.where(within, self.prior[c], 0.0)
        p += self.spread()[:, None] * np.maximum(background, 0.0)
        return balls, np.where(inside, np.minimum(p, 1.0), 0.0)

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
