"""Information in the digits of the leaves: one by one, as prefixes, and each given what came before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vpunn._types import Weights
from vpunn.errors import VpunnError
from vpunn.structure._finding import Finding, p_text
from vpunn.structure._source import coded


@dataclass(frozen=True, eq=False, repr=False)
class Entropy(Finding):
    """Bits, for k = 0 … K−1: ``digit[k]`` = H(d_k), ``given[k]`` = H(d_k | d_0 … d_{k−1}); and for k = 0 … K the bits of
    the first k digits together, ``prefix[k]`` = H(d_0 … d_{k−1}), which never falls. ``stopped[k]`` is the weight of
    leaves whose path ends before digit k (their digit is 0)."""

    p: int
    digit: np.ndarray
    given: np.ndarray
    prefix: np.ndarray
    stopped: np.ndarray

    @property
    def verdict(self) -> str:
        if len(self.digit) == 0:
            return "a single node has no digits, hence no information."
        falls = np.flatnonzero(np.diff(self.digit) < -1e-12)
        top = int(np.argmax(self.digit))
        shape = (
            f"H(d_k) rises to {self.digit[top]:.2f} bits at digit {top} and falls {len(falls)} time"
            f"{'s' if len(falls) > 1 else ''} (no law makes it rise)"
            if len(falls)
            else f"H(d_k) never falls here, up to {self.digit[top]:.2f} bits at digit {top} (which no law demands)"
        )
        return (
            f"{shape}, against log2 {self.p} = {np.log2(self.p):.2f}; the prefixes hold {self.prefix[-1]:.2f} bits in all, "
            "rising with every digit as they must."
        )

    def summary(self) -> dict[str, Any]:
        return {
            "digits": len(self.digit),
            "bits in all": float(self.prefix[-1]),
            "largest H(d_k)": float(self.digit.max()) if len(self.digit) else None,
            "log2 p": float(np.log2(self.p)),
        }

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "k": k,
                "H(d_k)": float(self.digit[k]),
                "H(d_0…d_k)": float(self.prefix[k + 1]),
                "H(d_k | prefix)": float(self.given[k]),
                "stopped before": float(self.stopped[k]),
            }
            for k in range(len(self.digit))
        ]

    def against(self, accuracy: Any) -> EntropyAgainst:
        """Does accuracy drop where entropy rises? Spearman's ρ of ``accuracy[k]`` with H(d_k), k = 0 … (NaN: left out)."""
        from scipy.stats import spearmanr

        values = np.asarray(accuracy, float)
        if values.ndim != 1 or len(values) > len(self.digit):
            raise VpunnError(
                f"accuracy needs one number per digit, at most {len(self.digit)}, got shape {values.shape}."
            )
        known = ~np.isnan(values)
        x, y = self.digit[: len(values)][known], values[known]
        if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
            return EntropyAgainst(x, y, None, None)
        rho, p = spearmanr(x, y)
        return EntropyAgainst(x, y, float(rho), float(p))


@dataclass(frozen=True, eq=False, repr=False)
class EntropyAgainst(Finding):
    """Entropy and accuracy of the same digits and their rank correlation ``rho``; None where it is undefined."""

    entropy: np.ndarray
    accuracy: np.ndarray
    rho: float | None
    p_value: float | None

    @property
    def verdict(self) -> str:
        if self.rho is None or self.p_value is None:
            return "fewer than three digits with differing values: a correlation is not defined."
        claim = (
            "accuracy drops where entropy rises"
            if self.rho < 0 and self.p_value < 0.05
            else "accuracy does not drop where entropy rises"
        )
        return f"{claim}: ρ = {self.rho:+.2f} over {len(self.entropy)} digits, {p_text(self.p_value)}."

    def summary(self) -> dict[str, Any]:
        return {"digits": len(self.entropy), "Spearman ρ": self.rho, "p-value": self.p_value}


def entropy(source: Any, weights: Weights = None) -> Entropy:
    """Entropies of the digits of a point drawn uniformly, or by ``weights`` (one per point, ≥ 0).

    ``source`` is a tree, whose points are its leaves in preorder, a table of digits (n, K), or a model that gives either.
    H(d_k | prefix) = Σ_B w_B · H(child | B) over the balls of depth k, and the prefixes are its running sum: they rise,
    which is asserted (the paper says it of single digits, which is false: the audit's E-54, S22). O(nodes log nodes).

    >>> from vpunn import Tree
    >>> found = entropy(Tree.from_parents([-1, 0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4]))
    >>> found.digit.tolist(), found.prefix.tolist()
    ([2.0, 1.0], [0.0, 2.0, 3.0])
    """
    tree, nodes, written, p, _ = coded(source)
    share = np.ones(len(nodes)) if weights is None else np.asarray(weights, float)
    if share.shape != nodes.shape or not (np.isfinite(share) & (share >= 0)).all() or share.sum() <= 0:
        raise VpunnError(
            f"weights must be {len(nodes):,} finite numbers ≥ 0 (one per point) with a positive sum, got shape {share.shape}."
        )
    mass = np.bincount(nodes, weights=share, minlength=tree.n_nodes)
    ball = tree.subtree_sum(mass)
    total, K = ball[0], tree.max_depth
    own = _bits(ball / total)
    # H of the next digit in a ball, times the ball's share: its own −s·log s taken from those of its children and of what
    # stops there; rounding may leave −1e-17.
    below = np.bincount(tree.parent[1:], weights=own[1:], minlength=tree.n_nodes) + _bits(mass / total)
    extra = np.where(tree.is_leaf, 0.0, np.maximum(below - own, 0.0))
    extra[(tree.n_children == 1) & (mass == 0)] = 0.0
    given_bits = np.bincount(tree.depth, weights=extra, minlength=K + 1)[:K]
    prefix = np.concatenate([[0.0], np.cumsum(given_bits)])
    assert (np.diff(prefix) >= 0).all(), "a longer prefix cannot hold less"
    width = int(written.max(initial=0)) + 1
    keys, where = np.unique(tree.depth[1:].astype(np.int64) * width + written[1:], return_inverse=True)
    share = np.bincount(where, weights=ball[1:] / total, minlength=len(keys))
    level = keys // width - 1
    reached = np.bincount(level, weights=share, minlength=K)
    stopped = np.maximum(1.0 - reached, 0.0)
    stopped[stopped < 1e-12] = 0.0
    digit = np.bincount(level, weights=_bits(share), minlength=K) + _bits(stopped)
    return Entropy(p, np.maximum(digit, 0.0), given_bits, prefix, stopped)


def _bits(share: np.ndarray) -> np.ndarray:
    """−s log2 s, 0 at 0."""
    from scipy.special import entr

    return np.asarray(entr(share) / np.log(2))
