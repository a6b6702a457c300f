"""How many children nodes have, by depth: the distribution, its tail, and whether it repeats from depth to depth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpunn.errors import check_whole, counted
from vpunn.structure._finding import Finding, p_text
from vpunn.structure._source import coded

#: Depths are merged into at most this many bands of equal mass for the test, so that its cost is bounded.
BANDS = 64
#: A tail is fitted only to at least this many nodes.
TAIL = 50


@dataclass(frozen=True)
class TailFit:
    """A discrete power law P(b) ∝ b^{-α}, b ≥ ``start``, beside a geometric and a log-normal tail on the same nodes.

    ``geometric`` and ``lognormal`` are Vuong's statistic of the power law against each (positive: the power law fits
    better) with its two-sided p-value.
    """

    alpha: float
    start: int
    n: int
    distance: float  #: Kolmogorov–Smirnov distance between data and fit
    geometric: tuple[float, float]
    lognormal: tuple[float, float]

    @property
    def verdict(self) -> str:
        """Which tails the data rule out."""
        out = [name for name in ("geometric", "lognormal") if self._beats(name) > 0]
        better = [name for name in ("geometric", "lognormal") if self._beats(name) < 0]
        if better:
            return f"not a power law: a {' and a '.join(better)} tail fits the {self.n:,} nodes with ≥ {self.start} children better"
        against = f"better than a {' and a '.join(out)} tail" if out else "which no alternative beats"
        open_ = [] if len(out) == 2 else [name for name in ("geometric", "lognormal") if name not in out]
        undecided = f" and cannot be told from a {' or a '.join(open_)} one" if open_ and out else ""
        return f"heavy tail of exponent {self.alpha:.2f} from {self.start} children on, {against}{undecided}"

    def _beats(self, name: str) -> int:
        statistic, p = getattr(self, name)
        return int(np.sign(statistic)) if p < 0.05 else 0


@dataclass(frozen=True, eq=False, repr=False)
class Branching(Finding):
    """Inner nodes counted by (``depth``, ``degree``), as parallel arrays with ``count``.

    ``information`` is I(depth; degree) in bits, how much of the ``degree_bits`` of a node's degree its depth tells; under
    the hypothesis that all depths share one distribution the p-value is ``p_value`` (permutations; None where undefined).
    ``shift`` is, per depth of ``depths``, the Kolmogorov–Smirnov distance of its distribution to that of the other depths.
    """

    depth: np.ndarray
    degree: np.ndarray
    count: np.ndarray
    n_nodes: np.ndarray  #: nodes by depth, leaves included
    information: float | None
    chance: float | None  #: mean information of permuted trees
    degree_bits: float
    p_value: float | None
    depths: np.ndarray
    shift: np.ndarray
    tail: TailFit | None

    @property
    def total(self) -> tuple[np.ndarray, np.ndarray]:
        """Degrees and how many inner nodes have each, all depths together."""
        values, where = np.unique(self.degree, return_inverse=True)
        return values, np.bincount(where, weights=self.count, minlength=len(values)).astype(np.int64)

    def at(self, depth: int) -> tuple[np.ndarray, np.ndarray]:
        """Degrees and counts of the inner nodes at one depth."""
        here = self.depth == depth
        return self.degree[here], self.count[here]

    @property
    def verdict(self) -> str:
        inner = int(self.count.sum())
        if inner == 0:
            return "a single node has no branching."
        values, counts = self.total
        mean = float(values @ counts) / inner
        if self.p_value is None or self.information is None or self.chance is None:
            why = (
                f"every inner node has {values[0]:,} child{'ren' if values[0] > 1 else ''}"
                if len(values) == 1
                else "only one depth has inner nodes"
            )
            nodes = f"{counted(inner, 'inner node')} with {mean:.2f} children on average"
            return f"{nodes}; self-similarity is not a question, because {why}."
        excess = max(self.information - self.chance, 0.0)
        told = f"depth tells {excess:.3f} of the {self.degree_bits:.2f} bits of a node's degree beyond chance"
        worst = int(self.depths[np.argmax(self.shift)])
        if self.p_value < 0.05:
            similar = (
                f"branching is not self-similar ({p_text(self.p_value)}): {told}, most at depth {worst} "
                f"(distance {self.shift.max():.2f})"
            )
        else:
            similar = f"the depths cannot be told apart ({p_text(self.p_value)}): {told}"
        return f"{similar}; {self.tail.verdict if self.tail else 'too few nodes for a tail fit'}."

    def summary(self) -> dict[str, Any]:
        values, counts = self.total
        inner = int(self.count.sum())
        return {
            "inner nodes": inner,
            "mean children": float(values @ counts) / inner if inner else None,
            "largest": int(values.max()) if inner else None,
            "I(depth; degree) bits": self.information,
            "by chance": self.chance,
            "p-value": self.p_value,
            "tail exponent": self.tail.alpha if self.tail else None,
        }

    def rows(self) -> list[dict[str, Any]]:
        out = []
        for k, shift in zip(self.depths.tolist(), self.shift.tolist(), strict=True):
            values, counts = self.at(k)
            inner = int(counts.sum())
            out.append(
                {
                    "depth": k,
                    "nodes": int(self.n_nodes[k]),
                    "inner": inner,
                    "mean children": float(values @ counts) / inner,
                    "largest": int(values.max()),
                    "distance to other depths": shift,
                }
            )
        return out


def branching(source: Any, *, permutations: int = 999, seed: int = 0) -> Branching:
    """Degree distributions by depth, a fit of the tail, and a test whether all depths share one distribution.

    ``source`` is a tree, a table of digits (n, K), whose tree is that of their prefixes, or a model that gives either.
    The test asks how many bits I(depth; degree) a node's depth tells about its number of children, and compares with
    trees whose depths are permuted among the inner nodes: p = (1 + #{permuted ≥ seen}) / (1 + permutations). It is
    undefined, and said to be, where all inner nodes have one degree (paths) or stand at one depth (stars). The tail is
    fitted as in Clauset, Shalizi and Newman (start by smallest Kolmogorov–Smirnov distance, maximum likelihood), and
    compared with others by Vuong's test. O(nodes), plus permutations × (depths × distinct degrees).

    >>> from vpunn import Tree
    >>> found = branching(Tree.from_parents([-1, 0, 0, 1, 1, 2, 2]))
    >>> found.verdict
    '3 inner nodes with 2.00 children on average; self-similarity is not a question, because every inner node has 2 children.'
    """
    from scipy.stats import entropy

    check_whole("permutations", permutations)
    tree = coded(source).tree
    inner = np.flatnonzero(~tree.is_leaf)
    width = int(tree.max_branching) + 1
    keys, count = np.unique(tree.depth[inner].astype(np.int64) * width + tree.n_children[inner], return_counts=True)
    depth, degree = keys // width, keys % width
    depths = np.unique(depth)
    degrees, where = np.unique(degree, return_inverse=True)
    bits = float(entropy(np.bincount(where, weights=count), base=2)) if len(inner) else 0.0
    information = chance = p_value = None
    if len(depths) > 1 and len(degrees) > 1:
        table = _bands(depth, where, count, len(degrees))
        information, chance, p_value = _test(table, permutations, seed)
    tail = _fit_tail(degrees, np.bincount(where, weights=count).astype(np.int64)) if len(inner) else None
    shift = _shifts(np.searchsorted(depths, depth), where, count, len(depths), len(degrees))
    return Branching(
        depth, degree, count, np.bincount(tree.depth), information, chance, bits, p_value, depths, shift, tail
    )


def _bands(depth: np.ndarray, where: np.ndarray, count: np.ndarray, n_degrees: int) -> np.ndarray:
    """Counts of inner nodes by band of depths and by degree; a band is one depth unless there are very many."""
    levels, level = np.unique(depth, return_inverse=True)
    if len(levels) > BANDS:
        mass = np.cumsum(np.bincount(level, weights=count))
        band = np.minimum((mass - 1) * BANDS // mass[-1], BANDS - 1).astype(np.int64)
        level = np.unique(band, return_inverse=True)[1][level]
    table = np.zeros((int(level.max()) + 1, n_degrees), np.int64)
    np.add.at(table, (level, where), count)
    return table


def _test(table: np.ndarray, permutations: int, seed: int) -> tuple[float, float, float]:
    """Mutual information of a table's two sides, its mean over tables with the same margins, and the p-value."""
    from scipy.stats import entropy, random_table

    n = table.sum()
    margins = entropy(table.sum(0), base=2) + entropy(table.sum(1), base=2)

    def information(tables: np.ndarray) -> np.ndarray:
        share = tables.reshape(len(tables), -1) / n
        return np.asarray(margins + np.where(share > 0, share * np.log2(np.where(share > 0, share, 1.0)), 0.0).sum(1))

    seen = float(information(table[None])[0])
    law = random_table(table.sum(1), table.sum(0), seed=np.random.default_rng(seed))
    drawn = []
    step = max(1, 4_000_000 // table.size)  # tables held in memory at once
    for start in range(0, permutations, step):
        drawn.append(information(law.rvs(min(step, permutations - start)).reshape(-1, *table.shape)))
    null = np.concatenate(drawn)
    p = (1 + int((null >= seen - 1e-12).sum())) / (1 + permutations)
    return max(seen, 0.0), float(null.mean()), p


def _shifts(level: np.ndarray, where: np.ndarray, count: np.ndarray, n_depths: int, n_degrees: int) -> np.ndarray:
    """Kolmogorov–Smirnov distance of each depth's degrees to those of all other depths; 0 where there are no others."""
    total = np.bincount(where, weights=count, minlength=n_degrees)
    out = np.zeros(n_depths)
    if n_depths < 2 or n_degrees < 2:
        return out
    step = max(1, 4_000_000 // n_degrees)  # depths held as dense rows at once
    for first in range(0, n_depths, step):
        a, b = np.searchsorted(level, [first, first + step])
        here = np.zeros((min(step, n_depths - first), n_degrees))
        here[level[a:b] - first, where[a:b]] = count[a:b]
        rest = total - here
        share, other = (np.cumsum(rows, 1) / rows.sum(1, keepdims=True) for rows in (here, rest))
        out[first : first + step] = np.abs(share - other).max(1)
    return out


# ---- the tail ----------------------------------------------------------------------------------------------------------


def _fit_tail(degrees: np.ndarray, counts: np.ndarray) -> TailFit | None:
    """The power-law tail with the start that fits best; None if fewer than `TAIL` nodes or 3 degrees would be left."""
    from scipy.optimize import minimize_scalar
    from scipy.special import zeta

    left = np.cumsum(counts[::-1])[::-1]  # nodes at or above each degree
    best: tuple[float, int, float] | None = None
    for i in np.flatnonzero(left >= TAIL)[:50].tolist():
        x, c = degrees[i:].astype(float), counts[i:]
        if len(x) < 3:
            break
        logs, start = float(c @ np.log(x)) / left[i], float(x[0])
        alpha = minimize_scalar(lambda a: a * logs + np.log(zeta(a, start)), bounds=(1.01, 12.0), method="bounded").x  # noqa: B023
        fitted = 1.0 - zeta(alpha, x + 1) / zeta(alpha, start)
        seen = np.cumsum(c) / left[i]
        distance = float(np.abs(seen - fitted).max())
        if best is None or distance < best[2]:
            best = (float(alpha), i, distance)
    if best is None:
        return None
    alpha, i, distance = best
    x, c = degrees[i:].astype(float), counts[i:]
    power = -alpha * np.log(x) - np.log(zeta(alpha, x[0]))
    return TailFit(
        alpha,
        int(degrees[i]),
        int(left[i]),
        distance,
        _vuong(power, _geometric(x, c), c),
        _vuong(power, _lognormal(x, c), c),
    )


def _geometric(x: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Log-probabilities of the best geometric tail from x[0] on."""
    over = float(c @ (x - x[0])) / c.sum()
    stop = 1.0 / (1.0 + over)
    return np.asarray(np.log(stop) + (x - x[0]) * np.log1p(-stop))


def _lognormal(x: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Log-probabilities of the best log-normal tail from x[0] on, rounded to whole numbers."""
    from scipy.optimize import minimize
    from scipy.stats import norm

    def logs(theta: np.ndarray) -> np.ndarray:
        mu, sigma = theta[0], np.exp(theta[1])
        low, high = (np.log(x - 0.5) - mu) / sigma, (np.log(x + 0.5) - mu) / sigma
        mass = np.maximum(norm.sf(low) - norm.sf(high), 1e-300)
        return np.asarray(np.log(mass) - np.log(np.maximum(norm.sf((np.log(x[0] - 0.5) - mu) / sigma), 1e-300)))

    cost: Callable[[np.ndarray], float] = lambda theta: -float(c @ logs(theta))  # noqa: E731
    mean = float(c @ np.log(x)) / c.sum()
    found = minimize(cost, [mean, 0.0], method="Nelder-Mead", options={"maxiter": 400, "xatol": 1e-4, "fatol": 1e-4})
    return logs(found.x)


def _vuong(one: np.ndarray, other: np.ndarray, c: np.ndarray) -> tuple[float, float]:
    """Vuong's statistic of two laws' log-probabilities on counted values, and its two-sided p-value."""
    from scipy.stats import norm

    n, gap = c.sum(), one - other
    mean = float(c @ gap) / n
    spread = float(np.sqrt(max(float(c @ (gap - mean) ** 2) / n, 1e-300)))
    statistic = mean * np.sqrt(n) / spread
    return float(statistic), float(2 * norm.sf(abs(statistic)))
