"""The classifier's answer for a batch of rows as a distribution over nodes, and exact questions to it.

A row's distribution is a few candidates with a probability each, and a rest that is spread over all other nodes in
proportion to how often they were seen and to how well the row suits their depth-1 ball. Node probabilities are sums of it over
slices, so a ball's probability is its own stop mass plus that of its children, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vpunn.hipan.balls import writable
from vpunn.sweeps import sweep_down
from vpunn.tree import Tree

#: Rows whose dense distributions are held in memory at once.
CHUNK_ENTRIES = 8_000_000
#: Weight of the shared path against the exact node in `Posterior.best`; chosen on validation rows.
AGREEMENT = 1.0


@dataclass
class Posterior:
    """``candidates`` (−1 padded) and their ``probability``, both (rows, k), and the ``rest`` (rows,), over a ``prior``.

    ``branch`` numbers the depth-1 ball of every node (0: none) and ``tilt`` (rows, branches) says how much likelier than by
    the prior the nodes of a branch are for a row.
    """

    tree: Tree
    candidates: np.ndarray
    probability: np.ndarray
    rest: np.ndarray
    prior: np.ndarray
    branch: np.ndarray
    tilt: np.ndarray

    def __len__(self) -> int:
        return len(self.rest)

    @cached_property
    def factor(self) -> np.ndarray:
        """What turns the prior of a node that is no candidate into its probability, for every row and branch."""
        row = np.arange(len(self))[:, None]
        tilted = self.prior[self.candidates] * self.tilt[row, self.branch[self.candidates]]
        left = 1.0 - np.where(self.candidates >= 0, tilted, 0.0).sum(1)
        return self.tilt * np.where(left > 1e-12, self.rest / np.maximum(left, 1e-12), 0.0)[:, None]

    def top_k(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable nodes and their probabilities, exact; −1 and 0 where there are fewer."""
        from vpunn.hipan._combine_kernels import merge_best

        most = k + self.candidates.shape[1]
        ranked = [part.start + np.argsort(-self.prior[part], kind="stable")[:most] for part in self._branches()]
        start = np.cumsum([0, *map(len, ranked)])
        return merge_best(
            self.candidates, self.probability, self.factor, writable(self.prior), np.concatenate(ranked), start, k
        )

    def _branches(self) -> list[slice]:
        """The nodes of each branch: one slice, because a depth-1 ball is one, and the root (or everything) comes before."""
        edge = np.searchsorted(self.branch, np.arange(self.tilt.shape[1] + 1))
        return [slice(a, b) for a, b in zip(edge[:-1].tolist(), edge[1:].tolist(), strict=True)]

    def best(self, agreement: float = AGREEMENT) -> np.ndarray:
        """One answer per row: probable itself, and sharing as much of its path as possible with whatever else may be true.

        The answer maximises p(c) + a · 2 E[shared path] / (its length + the typical length). The expected number of shared balls
        is Σ_{B∋c} P(B), a sum along the ancestors; scaled as in the Wu–Palmer similarity. With a clear favourite this is the
        most probable node; where nothing is probable it stays in the most probable ball, and be it at a typical node of a branch
        that holds no candidate. In a flat tree both are the same.
        """
        from vpunn.hipan._combine_kernels import choose

        tree = self.tree
        ball = tree.subtree_sum(self.prior)
        length = tree.depth + float(self.prior @ tree.depth) + 2.0
        worth = np.where(self.prior > 0, self.prior + agreement * sweep_down(tree, ball) * 2.0 / length, -1.0)
        typical = np.array([part.start + worth[part].argmax() for part in self._branches()])
        typical[self.prior[typical] <= 0] = -1
        return choose(
            self.candidates, self.probability, self.factor, self.branch, writable(self.prior), ball, tree.parent,
            tree.depth, float(length[0] - 2.0), typical, float(agreement),
        )

    def masses(self, part: slice) -> np.ndarray:
        """Probability that the answer is exactly each node, dense (rows of ``part``, nodes)."""
        dense = self.factor[part][:, self.branch] * self.prior
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
        factor = np.take_along_axis(self.factor, self.branch[balls], 1)  # the same for all nodes of a ball below the root
        stop = balls + tree.size[balls]
        background = cumulative[stop] - cumulative[balls]
        p = np.zeros(balls.shape)
        for slot in range(self.candidates.shape[1]):
            c = self.candidates[:, slot, None]
            within = (c >= balls) & (c < stop) & (c >= 0)
            p += np.where(within, self.probability[:, slot, None], 0.0)
            background = background - np.where(within, self.prior[c], 0.0)
        p += factor * np.maximum(background, 0.0)
        p[:, 0] = 1.0
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
