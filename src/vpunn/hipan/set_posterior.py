"""The answer of the model of sets for a batch of rows: the probability that some answer lies in a node, for every node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from vpunn.hipan.distribution import NodeDistribution

if TYPE_CHECKING:
    from vpunn.hipan.label_sets import SetModel
    from vpunn.tree import Tree


@dataclass
class SetPosterior(NodeDistribution):
    """Marginals of every row: P(some answer lies in the node), 1 at the root, never above that of a parent by any edge.

    The sum over siblings may exceed 1, because a row may have several answers. ``evidence`` is what the combiner read, kept
    only when asked for.
    """

    model: SetModel
    start: np.ndarray
    place: np.ndarray
    odds: np.ndarray
    evidence: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def tree(self) -> Tree:  # type: ignore[override]
        """The tree of the labels."""
        return self.model.tree

    def marginals(self, part: slice) -> np.ndarray:
        """P(some answer in the node) of rows, for the nodes the model has met: (rows, ``model.ball``), float32."""
        low, high, _ = part.indices(len(self))
        span = slice(self.start[low], self.start[high])
        return self.model.settle(self.start[low : high + 1] - self.start[low], self.place[span], self.odds[span])

    def chunks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """P(some answer in the node) for every node of the tree, a part of the rows at a time; nodes never met have 0."""
        for part in self.parts():
            known = self.marginals(part)
            out = np.zeros((len(known), self.tree.n_nodes))
            out[:, self.model.ball] = known
            out[:, 0] = 1.0
            yield part, out

    def node_proba(self) -> np.ndarray:
        """All of `chunks` in one array."""
        out = np.empty((len(self), self.tree.n_nodes))
        for part, p in self.chunks():
            out[part] = p
        return out

    def masses(self, part: slice) -> np.ndarray:
        """The part of each ball's probability that no child explains: the ball's minus its likeliest child's, at least 0."""
        known = self.marginals(part)
        out = np.zeros((len(known), self.tree.n_nodes))
        out[:, self.model.ball] = known
        out[:, 0] = 1.0
        below = np.zeros_like(out)
        start, up = self.tree.all_parents
        child = np.repeat(np.arange(self.tree.n_nodes), np.diff(start))
        for row, value in zip(below, out, strict=True):
            np.maximum.at(row, up, value[child])
        return np.asarray(np.maximum(out - below, 0.0))

    def chain(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nodes of the tree above one node per row, root first (−1 padded), and their probabilities."""
        balls = self.tree.paths(nodes)
        p = np.zeros(balls.shape)
        for part, every in self.chunks():
            here = balls[part]
            p[part] = np.where(here >= 0, np.take_along_axis(every, np.maximum(here, 0), 1), 0.0)
        return balls, p

    @cached_property
    def _class_places(self) -> np.ndarray:
        return np.searchsorted(self.model.ball, self.model.class_nodes)

    def class_marginals(self) -> np.ndarray:
        """Marginals of the classes, (rows, classes)."""
        out = np.zeros((len(self), len(self.model.class_nodes)))
        met = np.flatnonzero(np.isin(self.model.class_nodes, self.model.ball))
        for part in self.parts():
            out[part, met] = self.marginals(part)[:, self._class_places[met]]
        return out

    def top_k(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k classes with the largest marginals, of equal ones the first, and the marginals."""
        p = self.class_marginals()
        k = min(k, p.shape[1])
        order = np.argsort(-p, axis=1, kind="stable")[:, :k]
        return self.model.class_nodes[order], np.take_along_axis(p, order, 1)

    def above(self, threshold: float) -> sparse.csr_matrix:
        """Balls with a marginal of at least ``threshold``, (rows, nodes) of 0 and 1: closed under ancestors, no root."""
        parts = [sparse.csr_matrix(self.marginals(part) >= threshold) for part in self.parts()]
        known = sparse.csr_matrix(sparse.vstack(parts)).tocoo()
        shape = (len(self), self.tree.n_nodes)
        return sparse.csr_matrix((np.ones(known.nnz), (known.row, self.model.ball[known.col])), shape=shape)


def deepest_only(tree: Tree, closed: sparse.csr_matrix) -> sparse.csr_matrix:
    """Of sets closed under ancestors, the nodes without a child in the set: the most specific answers."""
    start, up = tree.all_parents
    child = np.repeat(np.arange(tree.n_nodes), np.diff(start))
    rise = sparse.csr_matrix((np.ones(len(up)), (child, up)), shape=(tree.n_nodes, tree.n_nodes))
    inner = sparse.csr_matrix(closed @ rise)
    inner.data[:] = 1.0
    kept = sparse.csr_matrix(closed - closed.multiply(inner))
    kept.eliminate_zeros()
    kept.sort_indices()
    return kept
