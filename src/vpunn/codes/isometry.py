"""Is the code what it promises to be? Losslessness and isometry, counted on a given tree.

The paper reports a rank correlation of −0.90 to −0.96 between code distance and LCA depth; for an exact code it is −1,
and anything else counts encoding errors (AUDIT E-65). So the defects themselves are counted here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vpunn.codes._padic import PadicCode

_CHUNK = 100_000


@dataclass(frozen=True)
class Losslessness:
    """What `check_losslessness` counted; a sound code has zeros in the three middle fields and ρ = −1."""

    pairs: int
    defects: int
    collisions: int
    round_trip_failures: int
    spearman: float
    nodes: int

    @property
    def exact(self) -> bool:
        """No pair, node or round trip is wrong."""
        return not (self.defects or self.collisions or self.round_trip_failures)


def check_losslessness(code: PadicCode, pairs: int = 1_000_000, seed: int = 0) -> Losslessness:
    """Count isometry defects on random node pairs, and collisions and failed round trips over *all* nodes.

    The valuation is found here the slow way, as the first position where two digit rows differ; the LCA depth comes
    from the packed words. The two share no arithmetic, so each checks the other. ρ is Spearman's rank correlation of
    distance p^-ν with LCA depth over pairs of distinct nodes (NaN if they all have the same depth).

    >>> from vpunn.tree import Tree
    >>> check_losslessness(PadicCode(Tree.from_parents([-1, 0, 0, 1, 1, 2])), pairs=1000)
    Losslessness(pairs=1000, defects=0, collisions=0, round_trip_failures=0, spearman=-1.0, nodes=6)
    """
    tree = code.tree
    rng = np.random.default_rng(seed)
    u, v = (rng.integers(0, tree.n_nodes, pairs) for _ in range(2))
    valuation = np.concatenate(
        [_first_difference(code, u[i : i + _CHUNK], v[i : i + _CHUNK]) for i in range(0, pairs, _CHUNK)]
    )
    depth = tree.lca_depth(u, v)
    distinct = u != v
    defects = int((valuation != depth)[distinct].sum() + (valuation[~distinct] != code.K).sum())
    integers = code.encode()
    back = code.decode(integers)
    return Losslessness(
        pairs=pairs,
        defects=defects,
        collisions=tree.n_nodes - len(set(integers.tolist())),
        round_trip_failures=int((back != np.arange(tree.n_nodes)).sum()),
        spearman=_spearman(-valuation[distinct], depth[distinct]),
        nodes=tree.n_nodes,
    )


def _first_difference(code: PadicCode, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Number of leading digits two nodes share: K if all agree."""
    differ = code.digits(u) != code.digits(v)
    return np.where(differ.any(axis=1), differ.argmax(axis=1), code.K)


def _spearman(distance: np.ndarray, depth: np.ndarray) -> float:
    """Rank correlation; only the order of ``distance`` matters, so −ν stands for p^-ν without underflow."""
    from scipy.stats import rankdata

    if len(depth) == 0 or depth.min() == depth.max():
        return float("nan")
    return round(float(np.corrcoef(rankdata(distance), rankdata(depth))[0, 1]), 12)
