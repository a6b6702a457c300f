"""Holding a tree against what is known of its nodes: topics by prefix, levels of another code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpunn._types import Targets
from vpunn.errors import VpunnError, check_whole
from vpunn.structure._finding import Finding
from vpunn.structure.compare import draw_tuples
from vpunn.tree import Nodes, Tree


@dataclass(frozen=True, eq=False, repr=False)
class PrefixInformation(Finding):
    """What the digits of a code tell about a value: ``bits`` = H(value), ``after_prefix[k]`` = H(value | first k digits)
    (k = 0 … ), ``after_digit[k]`` = H(value | digit k alone)."""

    n_items: int
    n_values: int
    bits: float
    after_prefix: np.ndarray
    after_digit: np.ndarray

    @property
    def verdict(self) -> str:
        if self.bits == 0:
            return f"all {self.n_items:,} items have one value: there is nothing to tell."
        enough = np.flatnonzero(self.after_prefix <= 0.01 * self.bits)
        end = len(self.after_prefix) - 1
        prefix = (
            f"the first {enough[0]} digits tell all but {self.after_prefix[enough[0]]:.3f} of its {self.bits:.2f} bits"
            if len(enough)
            else f"{end} digits leave {self.after_prefix[end]:.2f} of its {self.bits:.2f} bits open"
        )
        if len(self.after_digit) == 0:
            return f"{prefix}."
        best = int(np.argmin(self.after_digit))
        return f"{prefix}; no digit alone does: the best, digit {best}, leaves {self.after_digit[best]:.2f}."

    def summary(self) -> dict[str, Any]:
        return {
            "items": self.n_items,
            "values": self.n_values,
            "bits": self.bits,
            "after all digits": float(self.after_prefix[-1]),
        }

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"k": k, "bits left by k digits": float(self.after_prefix[k]), "bits left by digit k alone": alone}
            for k, alone in enumerate([*self.after_digit.tolist(), None])
        ]


def prefix_information(
    tree: Tree, values: str | Targets, nodes: Nodes | None = None, *, digits: int = 32
) -> PrefixInformation:
    """How much of a value (a column of the tree by name, or one value per node) the digits of a code tell.

    Items are ``nodes``, by default all leaves; missing values (None, NaN) are left out. Bits are those of the counted
    frequencies, without correction: a prefix that leaves one item per ball leaves nothing open. At most ``digits`` digits
    are looked at. O(items × digits).

    >>> from vpunn import Tree
    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1, 2, 2])
    >>> found = prefix_information(tree, ["", "", "x", "x", "", "x", "y"])   # the leaves hold x, x and x, y
    >>> found.after_prefix.round(3).tolist(), found.after_digit.round(3).tolist()
    ([0.811, 0.5, 0.0], [0.5, 0.5])
    """
    import pandas as pd

    if isinstance(values, str):
        if values not in tree.columns:
            raise VpunnError(f"this tree has no column {values!r}; it has {', '.join(tree.columns) or 'none'}.")
        values = tree.columns[values]
    column = pd.Series(values if hasattr(values, "__len__") else list(values), dtype=object)
    if len(column) != tree.n_nodes:
        raise VpunnError(f"values need one entry per node ({tree.n_nodes:,}), got {len(column):,}.")
    items = (tree.leaves if nodes is None else np.atleast_1d(tree.check_nodes(nodes))).astype(np.int64)
    number, names = pd.factorize(column.iloc[items])
    items, number = items[number >= 0], number[number >= 0]
    if len(items) == 0:
        raise VpunnError("no item has a value; give nodes that have one.")
    depth = tree.depth[items]
    K = min(int(depth.max()), check_whole("digits", digits))
    total = _bits(number)
    prefix, alone = [total], []
    for k in range(1, K + 1):
        ball = tree.ancestor_at(items, np.minimum(k, depth))
        prefix.append(_left(ball, number, len(names)))
        alone.append(_left(np.where(depth >= k, tree.digit[ball], 0), number, len(names)))
    return PrefixInformation(len(items), len(names), total, np.array(prefix), np.array(alone))


def _bits(numbers: np.ndarray) -> float:
    from scipy.stats import entropy

    return float(entropy(np.unique(numbers, return_counts=True)[1], base=2))


def _left(given: np.ndarray, number: np.ndarray, n_values: int) -> float:
    """H(number | given)."""
    return max(_bits(given.astype(np.int64) * n_values + number) - _bits(given), 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class SharedLevels(Finding):
    """Pairs of nodes by ``levels`` of another code they share and the depth of their common ancestor: ``mean[s]`` depth for
    s shared levels over ``count[s]`` pairs; ``rho`` is Spearman's correlation over the pairs (None where undefined), and
    ``balanced`` the same with every number of shared levels weighted alike."""

    n_items: int
    n_pairs: int
    levels: np.ndarray
    count: np.ndarray
    mean: np.ndarray
    quartiles: np.ndarray
    rho: float | None
    balanced: float | None

    @property
    def verdict(self) -> str:
        if self.rho is None:
            return "all pairs share equally many levels or equally deep ancestors: a correlation is not defined."
        even = (
            "" if self.balanced is None else f", {self.balanced:+.2f} with every number of shared levels counted alike"
        )
        return (
            f"nodes that share more levels of the other code lie closer here: ρ = {self.rho:+.2f} over {self.n_pairs:,} pairs of "
            f"{self.n_items:,} nodes{even}."
            if self.rho > 0
            else f"shared levels and closeness do not go together: ρ = {self.rho:+.2f} over {self.n_pairs:,} pairs."
        )

    def summary(self) -> dict[str, Any]:
        return {"nodes": self.n_items, "pairs": self.n_pairs, "Spearman ρ": self.rho, "balanced ρ": self.balanced}

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"shared levels": int(s), "pairs": int(c), "mean depth of common ancestor": float(m)}
            for s, c, m in zip(self.levels, self.count, self.mean, strict=True)
        ]


def shared_levels(
    tree: Tree, nodes: Nodes, codes: Sequence[Any], *, separator: str = ".", sample: int = 2_000_000, seed: int = 0
) -> SharedLevels:
    """Do nodes that share levels of another hierarchical code (EC numbers, ICD, …) lie close in this tree?

    ``codes`` has one text per node of ``nodes``, cut at ``separator``; a level ``-`` means "not specified" and ends the
    code. Pairs are enumerated up to ``sample`` and drawn at random beyond. O(nodes + pairs).

    >>> from vpunn import Tree
    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1, 2, 2])
    >>> found = shared_levels(tree, tree.leaves, ["1.1", "1.2", "2.1", "2.2"])
    >>> found.mean.tolist(), found.rho
    ([0.0, 1.0], 1.0)
    """
    from scipy.stats import spearmanr

    items = np.atleast_1d(tree.check_nodes(nodes))
    if len(items) != len(codes):
        raise VpunnError(f"shared_levels needs one code per node: got {len(codes):,} codes for {len(items):,} nodes.")
    if len(items) < 2:
        raise VpunnError("shared_levels compares pairs; give at least two nodes.")
    pairs, _ = draw_tuples(len(items), 2, check_whole("sample", sample), np.random.default_rng(seed))
    depth = np.asarray(tree.lca_depth(items[pairs[:, 0]], items[pairs[:, 1]]))
    shared = _common_levels([str(code).split(separator) for code in codes], pairs)
    levels, which, count = np.unique(shared, return_inverse=True, return_counts=True)
    mean = np.bincount(which, weights=depth) / count
    quartiles = np.array([np.quantile(depth[which == i], [0.25, 0.5, 0.75]) for i in range(len(levels))])
    rho = balanced = None
    if len(levels) > 1 and np.ptp(depth) > 0:
        rho = float(spearmanr(shared, depth)[0])
        few = np.random.default_rng(seed)
        size = int(min(count.min(), 20_000))
        even = np.concatenate([few.choice(np.flatnonzero(which == i), size, replace=False) for i in range(len(levels))])
        if size > 1 and np.ptp(depth[even]) > 0:
            balanced = float(spearmanr(shared[even], depth[even])[0])
    return SharedLevels(len(items), len(pairs), levels, count, mean, quartiles, rho, balanced)


def _common_levels(codes: list[list[str]], pairs: np.ndarray) -> np.ndarray:
    """How many leading levels both codes of each pair have in common."""
    import pandas as pd

    longest = max(map(len, codes))
    same = np.ones(len(pairs), bool)
    shared = np.zeros(len(pairs), np.int64)
    ended = np.zeros(len(codes), bool)
    for k in range(longest):
        ended |= np.array([len(code) <= k or code[k] in ("-", "") for code in codes])
        word = pd.factorize(np.array([code[k] if k < len(code) else "" for code in codes], object))[0]
        word = np.where(ended, -1 - np.arange(len(codes)), word)
        same &= word[pairs[:, 0]] == word[pairs[:, 1]]
        shared += same
    return shared
