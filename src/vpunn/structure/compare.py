"""Two trees on the same leaves: shared clusters (Robinson–Foulds), shared triplets, correlated depths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vpunn.errors import VpunnError, check_whole, examples
from vpunn.metrics import closest_pairs
from vpunn.structure._finding import Finding, mean_interval
from vpunn.tree import Tree


@dataclass(frozen=True, eq=False, repr=False)
class TreeComparison(Finding):
    """Distances between the two trees on their ``n_common`` common leaves; 0 is agreement.

    ``robinson_foulds`` counts clusters (leaf sets of inner nodes, without single leaves and the whole) that only one tree
    has, of ``n_clusters`` in both together. ``triplet`` is the share of leaf triples that the trees resolve differently,
    ``conflicting`` the part of it where both resolve the triple and disagree (the rest is resolved by one tree only);
    sampled if ``interval`` is wider than a point. ``cophenetic`` is the correlation of the depths of common ancestors.
    None where undefined.
    """

    n_common: int
    only_a: int
    only_b: int
    robinson_foulds: int
    n_clusters: int
    triplet: float | None
    interval: tuple[float, float] | None
    conflicting: float | None
    cophenetic: float | None

    @property
    def normalised(self) -> float | None:
        """Robinson–Foulds divided by its largest possible value."""
        return self.robinson_foulds / self.n_clusters if self.n_clusters else None

    @property
    def verdict(self) -> str:
        lost = ""
        if self.only_a or self.only_b:
            lost = f" ({self.only_a:,} leaves of the first and {self.only_b:,} of the second tree have no partner)"
        if self.triplet is None or self.conflicting is None:
            common = "leaf" if self.n_common == 1 else "leaves"
            return f"{self.n_common} common {common}: trees on fewer than three leaves do not differ{lost}."
        if self.robinson_foulds == 0:
            return f"the trees group their {self.n_common:,} common leaves alike{lost}."
        rf = "" if self.normalised is None else f"{self.normalised:.0%} of the clusters are in one tree only"
        depth = (
            "" if self.cophenetic is None else f", and depths of common ancestors correlate with {self.cophenetic:.2f}"
        )
        return (
            f"{rf}; {self.triplet:.1%} of the leaf triples differ, {self.conflicting:.1%} in outright conflict{depth}, over "
            f"{self.n_common:,} common leaves{lost}."
        )

    def summary(self) -> dict[str, Any]:
        return {
            "common leaves": self.n_common,
            "Robinson–Foulds": self.robinson_foulds,
            "of clusters": self.n_clusters,
            "normalised": self.normalised,
            "triplet distance": self.triplet,
            "conflicting triplets": self.conflicting,
            "cophenetic correlation": self.cophenetic,
        }


def compare_trees(a: Tree, b: Tree, *, sample: int = 200_000, seed: int = 0) -> TreeComparison:
    """Robinson–Foulds, triplet and cophenetic comparison of two trees whose leaves carry the same labels.

    Leaves are matched by label; those that only one tree has are left out and counted (a tree restricted to fewer leaves
    keeps its clusters' traces). Clusters are compared by 128-bit sums of random numbers per leaf, O(nodes); triples and
    pairs are enumerated up to ``sample`` of them and sampled (``seed``) beyond, the triplet distance then with its interval.
    Two leaves with one label are an error.

    >>> from vpunn import Tree
    >>> one = Tree.from_paths([["ab", "a"], ["ab", "b"], ["cd", "c"], ["cd", "d"]], root="r")
    >>> two = Tree.from_paths([["ac", "a"], ["ac", "c"], ["bd", "b"], ["bd", "d"]], root="r")
    >>> found = compare_trees(one, two)
    >>> found.robinson_foulds, found.triplet, compare_trees(one, one).robinson_foulds
    (4, 1.0, 0)
    """
    check_whole("sample", sample)
    in_a, in_b, only_a, only_b = _match(a, b)
    n = len(in_a)
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 2**64, (n, 2), dtype=np.uint64)
    clusters_a, clusters_b = _clusters(a, in_a, keys), _clusters(b, in_b, keys)
    shared = len(clusters_a & clusters_b)
    total = len(clusters_a) + len(clusters_b)
    robinson_foulds = total - 2 * shared
    if n < 3:
        return TreeComparison(n, only_a, only_b, robinson_foulds, total, None, None, None, None)
    triples, population = draw_tuples(n, 3, sample, rng)
    kind_a, kind_b = (_topology(tree, at[triples]) for tree, at in ((a, in_a), (b, in_b)))
    different = kind_a != kind_b
    triplet, low, high = mean_interval(different.astype(float), population)
    conflict = float((different & (kind_a > 0) & (kind_b > 0)).mean())
    pairs, _ = draw_tuples(n, 2, sample, rng)
    x, y = (tree.lca_depth(at[pairs[:, 0]], at[pairs[:, 1]]).astype(float) for tree, at in ((a, in_a), (b, in_b)))
    cophenetic = float(np.corrcoef(x, y)[0, 1]) if np.ptp(x) > 0 and np.ptp(y) > 0 else None
    return TreeComparison(
        n, only_a, only_b, robinson_foulds, total, triplet, (max(low, 0.0), min(high, 1.0)), conflict, cophenetic
    )


def _match(a: Tree, b: Tree) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Nodes of the common leaves in both trees, and how many leaves each has alone."""
    import pandas as pd

    names = [pd.Index(tree.labels[tree.leaves], tupleize_cols=False) for tree in (a, b)]
    for which, index in zip(("first", "second"), names, strict=True):
        if not index.is_unique:
            twice = examples(index[index.duplicated()][:1])
            raise VpunnError(
                f"two leaves of the {which} tree are labelled {twice}; trees are compared by leaf labels, so rename one."
            )
    at = names[1].get_indexer(names[0])
    if (at < 0).all():
        raise VpunnError(
            f"the trees share no leaf: the first has labels such as {examples(names[0][:1])}, the second {examples(names[1][:1])}."
        )
    here = np.flatnonzero(at >= 0)
    n = len(here)
    return a.leaves[here].astype(np.int64), b.leaves[at[here]].astype(np.int64), a.n_leaves - n, b.n_leaves - n


def _clusters(tree: Tree, leaves: np.ndarray, keys: np.ndarray) -> set[tuple[int, int]]:
    """Each non-trivial cluster of the common leaves as a pair of numbers: the sums of its leaves' keys modulo 2⁶⁴."""
    values = np.zeros((tree.n_nodes, 2), np.uint64)
    values[leaves] = keys
    running = np.zeros((tree.n_nodes + 1, 2), np.uint64)
    np.cumsum(values, axis=0, out=running[1:])  # wraps around, and so does the difference
    sums = running[np.arange(tree.n_nodes) + tree.size] - running[:-1]
    present = np.zeros(tree.n_nodes, np.int64)
    present[leaves] = 1
    count = tree.subtree_sum(present)
    inner = np.flatnonzero((count > 1) & (count < len(leaves)))
    return set(map(tuple, sums[inner].tolist()))


def _topology(tree: Tree, triples: np.ndarray) -> np.ndarray:
    """The closest pair of each triple of nodes."""
    x, y, z = triples.T
    return closest_pairs([tree.lca_depth(x, y), tree.lca_depth(x, z), tree.lca_depth(y, z)])


def draw_tuples(n: int, k: int, sample: int, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """All k-subsets of n things if there are at most ``sample``, else that many drawn uniformly; and how many there are."""
    from itertools import combinations
    from math import comb

    population = comb(n, k)
    if population <= sample:
        return np.array(list(combinations(range(n), k)), np.int64).reshape(-1, k), float(population)
    out = np.empty((0, k), np.int64)
    while len(out) < sample:
        drawn = np.sort(rng.integers(0, n, (int(1.3 * (sample - len(out))) + 64, k)), axis=1)
        out = np.concatenate([out, drawn[(np.diff(drawn, axis=1) > 0).all(1)]])
    return out[:sample], float(population)
