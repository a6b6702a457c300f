"""Packed machine-word codes: LCA depth from one gather per node, an xor, a count of leading zeros and a popcount.

Each child gets a prefix-free bit string whose length follows its share of the leaves, ⌈log₂(leaves of parent / leaves
of child)⌉ but at least 1, so a leaf needs about log₂ n + K bits. A node's code is the strings along its path; a mask
marks the bit where each digit ends. Two nodes share exactly the digits that end inside their common code prefix.

Code and mask are cut into *tiers* of 32 bits, and one 64-bit word holds a tier of both: code above, mask below. Random
pairs part within the first tier, so one 8-byte gather per node answers them; only pairs that share 32 code bits read
on. That halves the memory traffic of a full code beside a full mask and is why this is close to the gather limit.

Trees whose codes would pass `MAX_TIERS` words (long unary chains, caterpillars) use heavy paths instead: no codes,
4 bytes per node, at most log₂ n steps per query.
"""

from __future__ import annotations

import numpy as np

from vpunn.errors import TreeError

MAX_TIERS = 4
#: Words up to this size lie in the processor's own caches, where fetching a block first costs more than it saves.
NEAR_BYTES = 1 << 20

IntArray = np.ndarray


class PackedCode:
    """Answers `lca_depth` for one tree, with the layout that suits it (`layout` is ``"words"`` or ``"heavy"``)."""

    def __init__(self, parent: IntArray, depth: IntArray, size: IntArray, leaves: IntArray) -> None:
        from vpunn.tree import _kernels

        self._parent, self._depth = parent, depth
        code_bits = np.zeros(len(size), np.uint16)
        lengths, longest = _kernels.digit_lengths(size, leaves, code_bits)
        #: Bits of the longest code (of the part looked at, when heavy paths are used).
        self.bits = int(longest)
        tiers = max(1, -(-self.bits // _kernels.TIER_BITS))
        if tiers <= MAX_TIERS:
            self.layout = "words"
            # NumPy asks the system for huge pages, numba does not: random reads miss the page tables half as often
            self.words = np.zeros((tiers, len(size)), np.uint64)
            _kernels.pack_words(size, lengths, code_bits, self.words)
            self.words.flags.writeable = False
        else:
            self.layout = "heavy"
            self.head = _kernels.heavy_heads(size)
            self.head.flags.writeable = False

    @property
    def nbytes(self) -> int:
        """Memory held by the code itself."""
        return int(self.words.nbytes if self.layout == "words" else self.head.nbytes)

    def lca_depth(self, u: IntArray, v: IntArray) -> IntArray:
        """LCA depth of each pair of node ids (equal one-dimensional shapes)."""
        from vpunn.tree import _kernels

        out = np.empty(len(u), np.int32)
        if self.layout == "words":
            near = self.words.shape[0] == 1 and self.words.nbytes <= NEAR_BYTES
            answer = _kernels.lca_depth_near if near else _kernels.lca_depth_far
            bad = answer(self.words, _unsigned(u), _unsigned(v), out)
        else:
            bad = _kernels.lca_depth_heavy(self.head, self._parent, self._depth, u, v, out)
        if bad >= 0:
            n = len(self._parent)
            wrong = int(u[bad]) if not 0 <= u[bad] < n else int(v[bad])
            raise TreeError(f"node id {wrong} at pair {bad} is outside this tree of {n:,} nodes (ids 0 to {n - 1}).")
        return out

    def lca_depth_matrix(self, u: IntArray, v: IntArray) -> IntArray:
        """LCA depths of every node in ``u`` with every node in ``v`` (ids already checked), shape (len(u), len(v))."""
        from vpunn.tree import _kernels

        out = np.empty((len(u), len(v)), np.int32)
        if self.layout == "words":
            _kernels.lca_depth_table(self.words, u, v, out)
        else:
            for i, node in enumerate(u):
                row = np.full(len(v), node, dtype=v.dtype)
                _kernels.lca_depth_heavy(self.head, self._parent, self._depth, row, v, out[i])
        return out


def _unsigned(ids: IntArray) -> IntArray:
    """The same bytes as unsigned numbers: one comparison finds ids on either side of the tree."""
    return ids.view(f"u{ids.dtype.itemsize}") if ids.dtype.kind == "i" else ids
