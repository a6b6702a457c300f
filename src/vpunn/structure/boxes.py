"""Box counting: how many balls of each radius the leaves need, and what "dimension" can mean for a finite tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vpunn.errors import VpunnError
from vpunn.padic import check_prime
from vpunn.structure._finding import Finding
from vpunn.structure._source import coded


@dataclass(frozen=True, eq=False, repr=False)
class BoxCount(Finding):
    """``counts[k]`` balls of radius p^{-k} cover the leaves; ``local[k]`` = log_p(counts[k+1] / counts[k]).

    ``slope`` is the least-squares slope of log_p N(k) over k in ``fit`` (both ends included) with its 95 % interval
    ``interval``; ``rate`` is the same slope in natural logarithms, ln N per level, which is a growth rate and not a
    dimension. All three are None for fewer than two depths, the interval for fewer than three.
    """

    p: int
    counts: np.ndarray
    local: np.ndarray
    fit: tuple[int, int] | None
    slope: float | None
    interval: tuple[float, float] | None
    rate: float | None
    r_squared: float | None

    @property
    def verdict(self) -> str:
        if self.slope is None or self.fit is None:
            return (
                "fewer than two levels below the root: no slope to measure; the dimension is 0, as of any finite set."
            )
        low, high = self.interval or (float("nan"), float("nan"))
        sure = f" [{low:.3f}, {high:.3f}]" if self.interval else " (two points, no interval)"
        return (
            f"log_{self.p} N(k) grows by {self.slope:.3f}{sure} per level for k = {self.fit[0]} to {self.fit[1]}, at most "
            f"{self.local.max():.3f} anywhere (no set in Z_p exceeds 1, and a finite one has dimension 0 in the limit); "
            f"in natural logarithms that is {self.rate:.2f} per level, a growth rate and not a dimension."
        )

    def summary(self) -> dict[str, Any]:
        fit = self.fit and f"k = {self.fit[0]} to {self.fit[1]}"
        return {
            "p": self.p,
            "leaves": int(self.counts[-1]),
            "fit range": fit,
            "slope (log_p)": self.slope,
            "95 % interval": self.interval and f"{self.interval[0]:.4f} to {self.interval[1]:.4f}",
            "R²": self.r_squared,
            "growth rate (ln)": self.rate,
            "largest local slope": float(self.local.max()) if len(self.local) else None,
        }

    def rows(self) -> list[dict[str, Any]]:
        local = [*self.local.tolist(), None]
        return [
            {"k": k, "N(k)": int(n), "local slope": s} for k, (n, s) in enumerate(zip(self.counts, local, strict=True))
        ]


def box_counting(source: Any, *, p: int | None = None, fit: tuple[int, int] | None = None) -> BoxCount:
    """N(k), local slopes, and a fitted slope with its range and interval (the audit's S23, against the paper's 1.46).

    ``source`` is a tree, a table of digits (n, K), or a model that gives either. A ball of radius p^{-k} is a node at depth
    k, or a point above that depth on its own, so N(k) = #{nodes at depth k} + #{points at depth < k}, where points are the
    leaves, or the nodes at which rows of digits end. A ball has at most p − 1 children and its own stop, so every local
    slope, and with it every fitted one, is ≤ 1; this is asserted. ``fit`` defaults to k = 1 up to the first k at which half
    of the points have a ball of their own. The interval takes the residuals as independent, which consecutive levels are
    not: read it as a lower bound on the doubt. O(nodes).

    >>> from vpunn import Tree
    >>> found = box_counting(Tree.from_parents([-1, 0, 0, 1, 1, 2, 2]), fit=(0, 2))
    >>> found.counts.tolist(), round(found.slope, 3), round(found.rate, 3)
    ([1, 2, 4], 0.631, 0.693)
    """
    given = coded(source)
    tree, smallest = given.tree, given.p
    p = smallest if p is None else check_prime(p)
    if p < smallest:
        raise VpunnError(f"p={p} cannot write {given.digit.max():,} children and a stop; use p ≥ {smallest}.")
    nodes = np.bincount(tree.depth)
    ends = np.bincount(tree.depth[given.ends], minlength=len(nodes))
    counts = nodes + np.concatenate([[0], np.cumsum(ends)[:-1]])
    logs = np.log(counts)
    local = np.diff(logs) / np.log(p)
    assert (local <= 1.0 + 1e-12).all(), "a ball cannot have more than p parts"
    last = len(counts) - 1
    if fit is None:
        first = min(1, last)
        fit = (first, max(int(np.argmax(counts * 2 >= counts[-1])), min(first + 1, last)))
    else:
        low, high = fit
        if not 0 <= low < high <= last:
            raise VpunnError(f"fit={fit!r} must be two depths 0 ≤ first < last ≤ {last}, the depth of this tree.")
    if fit[1] <= fit[0]:
        return BoxCount(p, counts, local, None, None, None, None, None)
    k = np.arange(fit[0], fit[1] + 1)
    rate, error, r_squared = _line(k, logs[k])
    slope = rate / np.log(p)
    assert slope <= 1.0 + 1e-12, "a fitted slope is a weighted mean of local slopes"
    interval = None if error is None else ((rate - error) / np.log(p), (rate + error) / np.log(p))
    return BoxCount(p, counts, local, (int(fit[0]), int(fit[1])), float(slope), interval, float(rate), r_squared)


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float | None, float | None]:
    """Least-squares slope, half the width of its 95 % interval, and R² (None for a constant)."""
    from scipy.stats import linregress, t

    found = linregress(x, y)
    error = float(t.ppf(0.975, len(x) - 2) * found.stderr) if len(x) > 2 else None
    return float(found.slope), error, (float(found.rvalue**2) if np.ptp(y) > 0 else None)
