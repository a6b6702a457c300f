"""What a ball looks like: per-ball statistics in original units, and the columns that set it apart from its siblings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vpunn.store import Draft, Stored
from vpunn.tabular._columns import TableCoder
from vpunn.tree import Tree
from vpunn.tree.sweeps import sweep_up

#: No ball and no row that takes part weighs less: products of weights keep their digits down to here.
LEAST_WEIGHT = 1e-100


@dataclass(frozen=True)
class Difference:
    """One column: its value in the ball, among the siblings, and the gap in standard deviations of the parent."""

    column: Any
    here: str
    siblings: str
    effect: float


@dataclass(frozen=True)
class BallProfile:
    """A branch in words; ``print`` it, or read the fields."""

    ball: str
    rows: int | float  # summed weights where rows were weighted
    share: float
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        many = f"{self.rows:,}" if isinstance(self.rows, int) else f"{self.rows:,.2f}"
        lines = [f"branch {self.ball}: {many} rows ({self.share:.1%})"]
        for d in self.differences:
            lines.append(f"  {d.column}: {d.here} here, {d.siblings} in its siblings ({d.effect:+.2f} s.d.)")
        return "\n".join(lines)

    def sentence(self) -> str:
        """One line: the columns with the direction of their gap."""
        parts = [f"{'high' if d.effect > 0 else 'low'} {d.column} ({d.here})" for d in self.differences]
        return ", ".join(parts) or "no column differs from its siblings"


@dataclass
class BallStatistics:
    """Counts, means and spreads of every column in every ball, and shares of categories.

    Missing values count in no mean; a ball in which a column is never observed has mean NaN there.
    """

    tree: Tree
    table: TableCoder
    rows: np.ndarray
    count: np.ndarray
    mean: np.ndarray
    spread: np.ndarray
    shares: list[np.ndarray]

    @classmethod
    def of(
        cls,
        tree: Tree,
        table: TableCoder,
        leaf: np.ndarray,
        numbers: np.ndarray,
        codes: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> BallStatistics:
        """By one sweep up from the leaves. With ``weights`` (positive, one a row) a row counts as often as it weighs, and
        ``rows`` and ``count`` are sums of weights."""
        rows = _by_ball(tree, leaf, np.ones((len(leaf), 1)), weights)[:, 0]
        # sums of standardised values: squares of raw ones would lose digits when the mean is large
        unit = np.where(table.spread > 0, table.spread, 1.0)
        values = (numbers - table.mean) / unit
        seen = np.isfinite(values)
        values = np.where(seen, values, 0.0)
        count = _by_ball(tree, leaf, seen.astype(float), weights)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = _by_ball(tree, leaf, values, weights) / count
            variance = np.maximum(_by_ball(tree, leaf, values**2, weights) / count - mean**2, 0.0)
        shares = [_shares(tree, leaf, codes[:, k], len(levels), weights) for k, levels in enumerate(table.levels)]
        return cls(tree, table, rows, count, table.mean + unit * mean, unit * np.sqrt(variance), shares)

    def put(self, draft: Draft) -> None:
        """Write the numbers into a draft; tree and columns stand elsewhere."""
        for name in ("rows", "count", "mean", "spread"):
            draft.array(f"statistics.{name}", getattr(self, name), balls=True)
        for k, share in enumerate(self.shares):
            draft.array(f"statistics.share{k}", share, balls=True)

    @classmethod
    def get(cls, stored: Stored, tree: Tree, table: TableCoder) -> BallStatistics:
        """The statistics of `put`."""

        def of(name: str, *width: int, **limits: Any) -> np.ndarray:
            return stored.array(f"statistics.{name}", dtype="f8", shape=(tree.n_nodes, *width), **limits)

        m = len(table.numeric)
        rows, count = of("rows", low=LEAST_WEIGHT), of("count", m)
        mean, spread = (of(name, m, finite=False) for name in ("mean", "spread"))
        shares = [of(f"share{k}", len(levels), low=0) for k, levels in enumerate(table.levels)]
        return cls(tree, table, rows, count, mean, spread, shares)

    def typical(self, nodes: np.ndarray) -> Any:
        """Means of numbers and commonest category of each ball, as a table."""
        codes = np.empty((len(nodes), len(self.shares)), np.int64)
        for k, share in enumerate(self.shares):
            codes[:, k] = _commonest(share[nodes])
        return self.table.join(self.mean[nodes], codes)

    def describe(self, node: int, columns: int) -> BallProfile:
        """The ``columns`` columns with the largest gap between a ball and its siblings (the root has none)."""
        tree = self.tree
        found = [] if node == 0 else self._number_gaps(node) + self._category_gaps(node)
        found.sort(key=lambda d: -abs(d.effect))
        mass = float(self.rows[node])
        top = tuple(d for d in found[:columns] if abs(d.effect) > 0)
        rows = int(mass) if mass.is_integer() else mass
        return BallProfile(str(tree.labels[node]), rows, mass / self.rows[0], top)

    def _number_gaps(self, node: int) -> list[Difference]:
        up = int(self.tree.parent[node])
        found = []
        for k, j in enumerate(self.table.numeric):
            others = self.count[up, k] - self.count[node, k]
            spread = self.spread[up, k]
            if others <= 0 or not self.count[node, k] or not spread > 0:
                continue
            here = float(self.mean[node, k])
            there = float((self.count[up, k] * self.mean[up, k] - self.count[node, k] * here) / others)
            found.append(Difference(self.table.names[j], f"{here:.4g}", f"{there:.4g}", (here - there) / spread))
        return found

    def _category_gaps(self, node: int) -> list[Difference]:
        """For each categorical column the category whose share differs most, in s.d. of its indicator in the parent."""
        up = int(self.tree.parent[node])
        others = self.rows[up] - self.rows[node]
        found: list[Difference] = []
        if others <= 0:
            return found
        for share, levels, j in zip(self.shares, self.table.levels, self.table.symbolic, strict=True):
            there = (share[up] * self.rows[up] - share[node] * self.rows[node]) / others
            spread = np.sqrt(share[up] * (1.0 - share[up]))
            gap = np.divide(share[node] - there, spread, out=np.zeros_like(there), where=spread > 0)
            if not len(gap):
                continue
            k = int(np.argmax(np.abs(gap)))
            name = f"{self.table.names[j]} = {levels[k]}"
            found.append(Difference(name, f"{share[node, k]:.0%}", f"{max(there[k], 0.0):.0%}", float(gap[k])))
        return found


def _by_ball(tree: Tree, leaf: np.ndarray, values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Sum row values (n × m) over every ball."""
    total = np.zeros((tree.n_nodes, values.shape[1]))
    values = values if weights is None else weights[:, None] * values
    for k in range(values.shape[1]):
        total[:, k] = np.bincount(leaf, weights=values[:, k], minlength=tree.n_nodes)
    return sweep_up(tree, total)


def _shares(tree: Tree, leaf: np.ndarray, code: np.ndarray, many: int, weights: np.ndarray | None) -> np.ndarray:
    """Share of each category in each ball, among all its rows."""
    known = code >= 0
    inside = None if weights is None else weights[known]
    flat = np.bincount(leaf[known] * many + code[known], inside, minlength=tree.n_nodes * many).reshape(-1, many)
    rows = sweep_up(tree, np.bincount(leaf, weights, minlength=tree.n_nodes).astype(float)[:, None])
    return np.asarray(sweep_up(tree, flat.astype(float)) / rows)


def _commonest(share: np.ndarray) -> np.ndarray:
    """Most frequent category of each row of shares, −1 where none was ever seen."""
    return np.where(share.sum(axis=1) > 0, share.argmax(axis=1), -1) if share.shape[1] else np.full(len(share), -1)
