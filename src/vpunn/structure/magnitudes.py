"""Sizes of a model's coefficients by depth, and how few bits they need."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from vpunn._types import Numbers
from vpunn.errors import VpunnError
from vpunn.padic import code_prime
from vpunn.structure._finding import Finding
from vpunn.tree import Tree
from vpunn.tree.sweeps import sweep_down


@dataclass(frozen=True, eq=False, repr=False)
class Magnitudes(Finding):
    """|c_B| of a model's coefficients by depth: ``mean`` and ``quartiles`` (columns 25, 50, 75 %) over ``count`` balls.

    ``slope`` is the least-squares slope of log_p mean |c| against depth, which the paper puts at −1 (|θ_k| ~ p^{-k}).
    ``bits`` is the smallest number of bits per coefficient (a uniform grid over their range) that keeps the root mean
    square error of F at the leaves within ``tolerance`` of its standard deviation there; ``error`` has that error for 1 … bits.
    """

    p: int
    count: np.ndarray
    mean: np.ndarray
    quartiles: np.ndarray
    slope: float | None
    tolerance: float
    bits: int | None
    error: np.ndarray

    @property
    def verdict(self) -> str:
        few = (
            "all coefficients but the root's are zero: no bits are needed"
            if self.bits is None
            else f"{self.bits} bits per coefficient keep F at the leaves within {self.tolerance:.0%} of its spread"
        )
        if self.slope is None:
            return f"fewer than two depths have non-zero coefficients, so no decay can be fitted; {few}."
        return (
            f"mean |c| changes by a factor of p^{self.slope:+.3f} per depth (p = {self.p}), "
            f"{'as' if abs(self.slope + 1) < 0.1 else 'not'} p^−1{' says' if abs(self.slope + 1) < 0.1 else ''}; {few}."
        )

    def summary(self) -> dict[str, Any]:
        return {"p": self.p, "slope of log_p |c|": self.slope, "bits per coefficient": self.bits}

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"depth": k, "balls": int(n), "mean |c|": float(m), "median |c|": float(q[1])}
            for k, (n, m, q) in enumerate(zip(self.count, self.mean, self.quartiles, strict=True))
        ]


def magnitudes(tree: Tree, coefficients: Numbers, *, tolerance: float = 0.01) -> Magnitudes:
    """Sizes of a model's coefficients by depth (F8) and how few bits they need.

    ``coefficients`` are real, one per node (``VPuNN.coefficients``) or one row per node. F(x) = Σ_{B∋x} c_B. O(nodes × bits).

    >>> from vpunn import Tree
    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1, 2, 2])
    >>> found = magnitudes(tree, [0.0, 1.0, 0.4, -0.4, -1.0, 0.4, -0.4])
    >>> found.mean.tolist(), found.bits
    ([0.0, 1.0, 0.4], 6)
    """
    if not 1e-9 <= tolerance <= 1:
        raise VpunnError(f"tolerance is a share of the spread from 1e-9 to 1, got {tolerance!r}.")
    c = np.asarray(coefficients, float)
    if c.shape[:1] != (tree.n_nodes,) or not np.isfinite(c).all():
        raise VpunnError(
            f"coefficients need one finite number (or row) per node ({tree.n_nodes:,}), got shape {c.shape}."
        )
    flat = c.reshape(tree.n_nodes, -1)
    size = np.abs(flat).mean(1)
    start, ids = tree.levels
    levels = [size[ids[a:b]] for a, b in pairwise(start.tolist())]
    mean = np.array([level.mean() for level in levels])
    quartiles = np.array([np.quantile(level, [0.25, 0.5, 0.75]) for level in levels])
    p = code_prime(tree.max_branching)
    below = np.flatnonzero(mean[1:] > 1e-9 * mean.max(initial=0.0)) + 1  # less is rounding
    slope = float(np.polyfit(below, np.log(mean[below]) / np.log(p), 1)[0]) if len(below) > 1 else None
    bits, error = _needed_bits(tree, flat, tolerance)
    return Magnitudes(p, np.diff(start), mean, quartiles, slope, tolerance, bits, error)


def _needed_bits(tree: Tree, c: np.ndarray, tolerance: float) -> tuple[int | None, np.ndarray]:
    """The smallest grid that is fine enough, and the relative errors of all grids up to it; the root stays as it is."""
    exact = sweep_down(tree, c)[tree.leaves]
    spread = float(exact.std(0).mean())
    low, high = float(c[1:].min(initial=0.0)), float(c[1:].max(initial=0.0))
    if spread == 0 or low == high:
        return None, np.zeros(0)
    errors = []
    for bits in range(1, 54):  # a float has no more
        step = (high - low) / (2**bits - 1)
        rounded = c.copy()
        rounded[1:] = low + np.round((c[1:] - low) / step) * step
        errors.append(float(np.sqrt(((sweep_down(tree, rounded)[tree.leaves] - exact) ** 2).mean())) / spread)
        if errors[-1] <= tolerance:
            break
    return len(errors), np.array(errors)
