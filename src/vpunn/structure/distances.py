"""The distance matrix of some leaves in the order of their codes: nested blocks, and a count of broken triangles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vpunn.errors import VpunnError, check_whole
from vpunn.structure._finding import Finding
from vpunn.structure._source import coded
from vpunn.tree import Nodes


@dataclass(frozen=True, eq=False, repr=False)
class DistanceMatrix(Finding):
    """``valuation[i, j]`` = depth of the lowest common ancestor of ``leaves[i]`` and ``leaves[j]``; distance p^{-valuation}.

    ``violations`` counts the triples (of ``triples``) that break d(x, z) ≤ max(d(x, y), d(y, z)); ``unordered`` counts
    neighbouring pairs that are farther apart than some pair enclosing them: 0 says the matrix is made of nested blocks.
    """

    p: int
    leaves: np.ndarray
    labels: np.ndarray
    valuation: np.ndarray
    violations: int
    unordered: int

    @property
    def triples(self) -> int:
        """Triples of distinct leaves that were checked."""
        n = len(self.leaves)
        return n * (n - 1) * (n - 2) // 6

    @property
    def verdict(self) -> str:
        n = len(self.leaves)
        if n < 3:
            return f"{n} {'leaf' if n == 1 else 'leaves'}: no triangle to check."
        blocks = "nested blocks along the diagonal" if self.unordered == 0 else f"{self.unordered} places out of order"
        return (
            f"{self.violations:,} of {self.triples:,} triangles among {n:,} leaves break the strong triangle inequality, "
            f"which no code can (it follows from comparing prefixes and says nothing about learning); in code order: {blocks}."
        )

    def summary(self) -> dict[str, Any]:
        inner = self.valuation[np.triu_indices(len(self.leaves), 1)]
        return {
            "leaves": len(self.leaves),
            "violations": self.violations,
            "triples": self.triples,
            "mean valuation": float(inner.mean()) if len(inner) else None,
            "largest valuation": int(inner.max()) if len(inner) else None,
        }


def distance_matrix(source: Any, nodes: Nodes | None = None, *, sample: int = 400, seed: int = 0) -> DistanceMatrix:
    """Valuations among ``nodes`` (default: ``sample`` random points, all if there are fewer), in the order of their codes.

    ``source`` is a tree, whose points are its leaves, a table of digits (n, K), or a model that gives either; equal rows of
    digits are points at distance 0.
    Distances are kept as integers, because p^{-18} underflows single precision. If each valuation is the smallest of those
    between neighbours on the way from one node to the other, the matrix is made of nested blocks and no triangle can be
    broken; only otherwise are the triples counted one by one. O(m²) for m nodes, of which at most 5,000 are taken.

    >>> from vpunn import Tree
    >>> found = distance_matrix(Tree.from_parents([-1, 0, 0, 1, 1]))
    >>> found.valuation.tolist(), found.violations
    ([[2, 1, 0], [1, 2, 0], [0, 0, 1]], 0)
    """
    check_whole("sample", sample)
    tree, points, _, p, _ = coded(source)
    if nodes is None:
        leaves = points
        if len(leaves) > sample:
            leaves = np.random.default_rng(seed).choice(leaves, sample, replace=False)
    else:
        leaves = np.unique(np.atleast_1d(tree.check_nodes(nodes)))
    if len(leaves) > 5000:
        raise VpunnError(f"a matrix of {len(leaves):,} nodes is too large to look at; give at most 5,000.")
    leaves = np.sort(leaves).astype(np.int64)
    valuation = tree.lca_depth_matrix(leaves)
    depth = valuation.copy()
    np.fill_diagonal(depth, tree.max_depth + 1)  # a point is at distance 0 from itself, nearer than from anything
    off = np.diagonal(depth, 1)
    unordered = 0
    for i in range(len(leaves) - 1):
        unordered += int((depth[i, i + 1 :] != np.minimum.accumulate(off[i:])).sum())
    return DistanceMatrix(
        p,
        leaves,
        tree.labels[leaves],
        valuation,
        count_violations(depth) if unordered else 0,
        unordered,
    )


def count_violations(valuation: np.ndarray) -> int:
    """Triples whose smallest valuation is attained once: the largest distance of a triangle must occur twice."""
    n, broken = len(valuation), 0
    for i in range(n - 2):
        row = valuation[i, i + 1 :]
        inner = valuation[i + 1 :, i + 1 :]
        # each unordered pair (j, k) is seen twice in the square, so the count is halved
        bad = (row[:, None] < np.minimum(row[None, :], inner)) | (row[None, :] < np.minimum(row[:, None], inner))
        bad |= inner < np.minimum(row[:, None], row[None, :])
        np.fill_diagonal(bad, False)
        broken += int(bad.sum()) // 2
    return broken
