"""Mixed-radix codes: the same digits, each depth with a radix of its own size (the audit's L1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from vpunn._types import Codes, OneOrMany
from vpunn.codes._padic import DigitCode, PadicCode
from vpunn.errors import CodeError
from vpunn.padic import as_integers, from_radix, show_integer, to_radix
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn.store import Stored


class MixedRadixCode(DigitCode):
    """x = Σ_k a_k M_k with M_k = Π_{j<k} m_j and m_k = 1 + b_k, where b_k is the largest branching at depth k.

    Same digits, same valuation (x ≡ y mod M_k iff the first k digits agree), so the same balls; the distance 1/M_ν is an
    ultrametric too, though no multiplicative norm. It never takes more bits than the single prime, and usually far fewer,
    because one wide node makes only its own depth wide. Convert with `to_padic` and `from_padic`.

    >>> tree = Tree.from_parents([-1, 0, 0, 0, 1, 2, 2])
    >>> code = MixedRadixCode(tree)
    >>> code, code.radices
    (MixedRadixCode(K=2, 4 bits, 7 nodes), array([4, 3]))
    >>> code.encode().tolist()
    [0, 1, 5, 2, 6, 10, 3]
    >>> code.to_padic(code.encode()).tolist() == PadicCode(tree).encode().tolist()
    True
    """

    def __init__(self, tree: Tree) -> None:
        start, ids = tree.levels
        widest = np.maximum.reduceat(tree.digit[ids], start[1:-1]) if tree.max_depth else np.zeros(0, np.int64)
        super().__init__(tree, widest.astype(np.int64) + 1)

    def __repr__(self) -> str:
        return f"MixedRadixCode(K={self.K}, {self.bits:,} bits, {self.tree.n_nodes:,} nodes)"

    @classmethod
    def _of(cls, tree: Tree, stored: Stored) -> Self:
        return cls(tree)

    def to_padic(self, codes: Codes, p: int | None = None) -> OneOrMany:
        """The same nodes' codes as `PadicCode(tree, p)` writes them: digits are kept, only their weights change."""
        return _rewrite(codes, self, PadicCode(self.tree, p))

    def from_padic(self, codes: Codes, p: int | None = None) -> OneOrMany:
        """The inverse of `to_padic`; a digit too large for its depth is an error."""
        return _rewrite(codes, PadicCode(self.tree, p), self)


def _rewrite(codes: Codes, old: DigitCode, new: DigitCode) -> Any:
    values, scalar = as_integers(codes)
    digits, rest = to_radix(values.reshape(-1), old.radices)
    outside = np.flatnonzero((rest != 0).astype(bool))
    if len(outside):
        raise CodeError(
            f"{show_integer(values.reshape(-1)[outside[0]])} is not a code of {old!r}: it is negative or too large."
        )
    written = from_radix(digits, new.radices)
    return written[0] if scalar else written.reshape(values.shape)
