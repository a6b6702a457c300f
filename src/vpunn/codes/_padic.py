"""Codes: one exact integer per node, in which the tree can be read off the digits.

The code of a node at depth d is x = Σ_{k<d} a_k p^k, where a_k is the child taken at depth k, counted from 1, and a digit
0 says that the path has stopped. The root's choice stands at p⁰: only then is the p-adic distance of two codes
p^{-depth of the lowest common ancestor} (the audit's E-01, E-02, S3–S5), for all nodes and not just leaves.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

from vpunn._rows import slices
from vpunn._types import Codes, Labels, OneOrMany
from vpunn.codes._stamped import StampedCodes
from vpunn.codes._text import MODES, read_code, write_digits, write_int
from vpunn.errors import CodeError, advice, check_choice, examples
from vpunn.padic import as_integers, check_prime, code_prime, from_radix, product, show_integer, to_radix
from vpunn.store import Draft, Storable, Stored
from vpunn.tree import IntArray, Nodes, Tree, _loops

#: Exact integers for a set of nodes are refused beyond this many bits in all (1 GiB), digit tables beyond 4 GiB.
MAX_BITS = 2**33
MAX_DIGITS = 2**30
#: Digits that `decode` holds at a time.
BLOCK_DIGITS = 2**22


class DigitCode(Storable):
    """What all codes of a tree share: digit k is written with radix ``radices[k]``; see `PadicCode`.

    Only the weights of the digits differ between codes, so digits, decoding and the valuation are defined here once.
    """

    tree: Tree
    radices: np.ndarray

    def __init__(self, tree: Tree, radices: np.ndarray) -> None:
        self.tree = tree
        self.radices = np.asarray(radices, np.int64)
        self.radices.flags.writeable = False

    @property
    def K(self) -> int:
        """Digits of the longest code: the depth of the tree in edges."""
        return self.tree.max_depth

    @cached_property
    def bits(self) -> int:
        """Bits of the largest number that K digits can write."""
        return (product(self.radices.tolist()) - 1).bit_length()

    # ---- nodes to numbers and back ---------------------------------------------------------------------------------

    def digits(self, nodes: Nodes | None = None) -> IntArray:
        """Digits of the nodes (default: all), root digit first and 0 after the path's end: an (n, K) int32 array.

        One node gives one row. O(total depth); 4·n·K bytes, so a table past 4 GiB is refused.
        """
        ids = self._ids(nodes)
        self._check_table(ids.size)
        table = np.zeros((ids.size, self.K), np.int32)
        _walks(table.size).along_paths(self.tree.parent, self.tree.depth, self.tree.digit, ids.reshape(-1), table)
        return table.reshape(*ids.shape, self.K)

    def encode(self, nodes: Nodes | None = None) -> OneOrMany:
        """Codes of the nodes (default: all) as exact integers in an object array; one node gives one Python int.

        The codes of the whole tree are computed level by level once, x(node) = x(parent) + digit·weight, and kept; few
        nodes are encoded from their digits instead. More than 2³³ bits in all (a chain of a million nodes has 5·10¹¹)
        are refused; `valuation`, `ball` and `tree.lca_depth` need no integers.
        """
        ids = self._ids(nodes)
        if "_codes" in self.__dict__ or ids.size * 4 >= self.tree.n_nodes:
            codes = self._codes if nodes is None else self._codes[ids]
        else:
            self._check_size(ids)
            codes = from_radix(self.digits(ids.reshape(-1)), self.radices).reshape(ids.shape)
        return codes.item() if ids.ndim == 0 and isinstance(codes, np.ndarray) else codes

    @cached_property
    def _codes(self) -> np.ndarray:
        """Codes of all nodes."""
        tree = self.tree
        self._check_size(np.arange(tree.n_nodes))
        start, ids = tree.levels
        codes = np.zeros(tree.n_nodes, object)
        weight = 1
        for k, radix in enumerate(self.radices.tolist()):
            level = ids[start[k + 1] : start[k + 2]]
            codes[level] = codes[tree.parent[level]] + tree.digit[level].astype(object) * weight
            weight *= radix
        codes.flags.writeable = False
        return codes

    def decode(self, codes: Codes, *, strict: bool = True) -> OneOrMany:
        """Nodes of integer codes: one integer gives an int, several an int64 array. O(K) each.

        A number that is the code of no node is an error that says which digit leaves the tree: one beyond the number of
        children, or any digit after a 0. With ``strict=False`` it gives the deepest node whose digits it begins with.
        """
        values, scalar = as_integers(codes)
        flat = values.reshape(-1)
        found, wrong = np.empty(len(flat), np.int64), np.empty(len(flat), np.int64)
        rows = max(BLOCK_DIGITS // max(self.K, 1), 1)
        for part in slices(len(flat), rows):
            digits, rest = to_radix(flat[part], self.radices)
            found[part], wrong[part] = _walks(digits.size).descend(*self.tree.child_index, digits)
            wrong[part][(wrong[part] < 0) & (rest != 0).astype(bool)] = self.K
        if strict and (wrong >= 0).any():
            raise CodeError(self._explain(flat, found, wrong))
        return int(found[0]) if scalar else found.reshape(values.shape)

    def _explain(self, values: np.ndarray, found: IntArray, wrong: IntArray) -> str:
        """One sentence about the first number that is no code."""
        row = int(np.flatnonzero(wrong >= 0)[0])
        k, node, code = int(wrong[row]), int(found[row]), values[row]
        digits = to_radix(values[row : row + 1], self.radices)[0][0]
        name, depth = examples(self.tree.labels[node : node + 1]), int(self.tree.depth[node])
        if code < 0:
            reason = "codes are not negative"
        elif k == self.K:
            reason = f"it has more than K = {self.K} digits"
        elif k > depth:
            reason = f"digit {k} is {digits[k]} although digit {depth} is 0, where the path stops (at {name})"
        else:
            reason = f"digit {k} is {digits[k]} but {name}, reached by then, has {self.tree.n_children[node]} children"
        others = int((wrong >= 0).sum()) - 1
        more = f" ({others:,} more numbers are no codes either)" if others else ""
        return (
            f"the number {show_integer(code)} at position {row} is the code of no node: {reason}{more}; "
            f"{advice('strict', False, 'decode(…, strict=False) gives')} the nearest ancestor."
        )

    # ---- geometry ----------------------------------------------------------------------------------------------------

    def valuation(self, u: Nodes, v: Nodes) -> OneOrMany:
        """How many leading digits two nodes share = depth of their lowest common ancestor; arrays broadcast.

        For distinct nodes it is ν(x − y) of their codes, exactly. A node shares all its digits with itself, so equal
        nodes give their own depth (ν(0) itself would be infinite); `distance` is 0 there.
        """
        return self.tree.lca_depth(u, v)

    def distance(self, u: Nodes, v: Nodes, *, exact: bool = False, alpha: float | None = None) -> OneOrMany:
        """1 / (product of the radices of the shared digits), which is p^{-valuation}; 0 for equal nodes.

        Floats by default, which lose distances below 1e-308 to 0; ``exact=True`` gives Fractions; ``alpha`` gives the paper's
        exp(−α·depth of the common ancestor) instead, the same order with another scale (α = ln p is p^{-valuation}). To
        compare or sort distances use `valuation`: the larger, the closer.
        """
        shared = np.asarray(self.valuation(u, v))
        same = np.asarray(u) == np.asarray(v)
        if alpha is not None:
            if (
                exact
                or isinstance(alpha, bool)
                or not isinstance(alpha, int | float | np.number)
                or not 0 < alpha < np.inf
            ):
                raise CodeError(f"alpha={alpha!r} must be a positive number, without exact=True.")
            decayed = np.where(same, 0.0, np.exp(-float(alpha) * shared))
            return float(decayed) if decayed.ndim == 0 else decayed
        if exact:
            counts, place = np.unique(shared, return_inverse=True)
            radii = np.array([Fraction(1, product(self.radices[:k].tolist())) for k in counts], object)
            fractions = radii[place.reshape(shared.shape)]
            if shared.ndim == 0:
                return Fraction(0) if same else fractions
            fractions[same] = Fraction(0)
            return fractions
        with np.errstate(over="ignore"):  # a product past 1e308 is a distance of 0
            radius = 1 / np.cumprod(np.concatenate([[1.0], self.radices]))
        found = np.where(same, 0.0, radius[shared])
        return float(found) if found.ndim == 0 else found

    def ball(self, nodes: Nodes, k: Any) -> Any:
        """B_k(x) as a node: the ancestor at depth k, whose subtree is all nodes sharing x's first k digits."""
        return self.tree.ancestor_at(nodes, k)

    def members(self, node: int, k: int) -> IntArray:
        """Ids of all nodes in B_k(node), which stand side by side."""
        part = self.tree.slice(self.ball(node, k))
        return np.arange(part.start, part.stop)

    # ---- checks ------------------------------------------------------------------------------------------------------

    def _ids(self, nodes: Nodes | None) -> IntArray:
        """Checked ids, always as a fresh int64 array, so that the kernels are compiled for one type only."""
        return np.arange(self.tree.n_nodes) if nodes is None else self.tree.check_nodes(nodes).astype(np.int64)

    def _check_table(self, n: int) -> None:
        if n * self.K > MAX_DIGITS:
            raise CodeError(
                f"a table of {n:,} × {self.K:,} digits does not fit in memory; take fewer nodes at a time, "
                "or use valuation, ball and tree.lca_depth, which need no digits."
            )

    def _check_size(self, ids: IntArray) -> None:
        """Refuse integers that would not fit, before making the first one."""
        bits_at = np.concatenate([[0.0], np.cumsum(np.log2(self.radices))])
        total = float(bits_at[self.tree.depth[ids]].sum())
        if total > MAX_BITS:
            raise CodeError(
                f"the codes of these {ids.size:,} nodes are exact integers of {total:.2g} bits in all (the limit is 2**33); "
                "encode fewer nodes, or use valuation, ball and tree.lca_depth, which need no integers."
            )

    # ---- on disk ---------------------------------------------------------------------------------------------------

    def _to_store(self, draft: Draft) -> None:
        draft.settings |= self._settings()
        draft.add("tree", self.tree)

    @classmethod
    def _from_store(cls, stored: Stored) -> Self:
        return cls._of(stored.get("tree", Tree), stored)

    def _settings(self) -> dict[str, str]:
        return {}

    @classmethod
    def _of(cls, tree: Tree, stored: Stored) -> Self:
        raise NotImplementedError


class PadicCode(DigitCode):
    """The single-prime code of a tree: x = Σ_k a_k p^k, exact, injective and isometric on all nodes.

    ``p`` is the smallest prime ≥ max_branching + 1, or any larger prime you give, for instance to leave room for nodes
    inserted later. ``K`` is the depth of the tree.

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1], labels=["animal", "bird", "fish", "owl", "robin"])
    >>> code = PadicCode(tree)
    >>> code
    PadicCode(p=3, K=2, 4 bits, 5 nodes)
    >>> dict(zip(tree.labels, code.encode()))
    {'animal': 0, 'bird': 1, 'owl': 4, 'robin': 7, 'fish': 2}
    >>> owl, robin, fish = tree.index(["owl", "robin", "fish"])
    >>> code.valuation(owl, [robin, fish]), code.distance(owl, [robin, fish], exact=True)
    (array([1, 0], dtype=int32), array([Fraction(1, 3), Fraction(1, 1)], dtype=object))
    >>> tree.labels[code.decode([7, 2])].tolist()
    ['robin', 'fish']
    >>> tree.labels[code.members(owl, 1)].tolist()  # the ball of radius 1/3 around the owl
    ['bird', 'owl', 'robin']
    >>> code.decode(5)
    Traceback (most recent call last):
    vpunn.errors.CodeError: the number 5 at position 0 is the code of no node: digit 1 is 1 but 'fish', reached by then, \
has 0 children; decode(…, strict=False) gives the nearest ancestor.
    >>> [code.format(robin, mode) for mode in MODES]
    ['7', '[1, 2]', '…2|1', '1 + 2*3', 'animal/bird/robin']
    """

    p: int

    def __init__(self, tree: Tree, p: int | None = None) -> None:
        if not isinstance(tree, Tree):
            raise CodeError(
                f"a code needs a Tree, got {type(tree).__name__}; Tree.from_parents, from_edges or read_tree make one."
            )
        least = tree.max_branching + 1
        self.p = code_prime(tree.max_branching) if p is None else check_prime(p)
        if self.p < least:
            widest = tree.labels[int(np.argmax(tree.n_children))]
            raise CodeError(
                f"p = {p} is too small: {widest!r} has {tree.max_branching} children, "
                f"whose digits 1 to {tree.max_branching} need a prime ≥ {least}, such as {code_prime(tree.max_branching)}."
            )
        super().__init__(tree, np.full(tree.max_depth, self.p, np.int64))

    def __repr__(self) -> str:
        return f"PadicCode(p={self.p}, K={self.K}, {self.bits:,} bits, {self.tree.n_nodes:,} nodes)"

    # ---- text ----------------------------------------------------------------------------------------------------------

    def format(self, nodes: Nodes | None = None, mode: str = "int") -> OneOrMany:
        """Codes as text: one node gives a str, several an object array.

        ``int``     the integer itself
        ``digits``  ``[1, 2]``: root digit first, without the zeros after the path's end
        ``bars``    ``…2|1``: as numbers are written, so the root digit is the last one
        ``series``  ``1 + 2*3``: the sum the code stands for, root digit first
        ``path``    ``animal/bird/robin``: labels instead of digits

        The root is ``0``, ``[]``, ``…0``, ``0`` and its label. `parse` reads all but ``path``.
        """
        check_choice("mode", mode, MODES)
        ids = self._ids(nodes)
        flat = ids.reshape(-1)
        if mode == "int":
            texts = [write_int(code) for code in self.encode(flat).tolist()]
        elif mode == "path":
            texts = self._label_paths(flat)
        else:
            rows = zip(self.digits(flat).tolist(), self.tree.depth[flat].tolist(), strict=True)
            texts = [write_digits(row[:depth], self.p, mode) for row, depth in rows]
        if ids.ndim == 0:
            return texts[0]
        found = np.empty(len(texts), object)
        found[:] = texts
        return found.reshape(ids.shape)

    def _label_paths(self, nodes: IntArray) -> list[str]:
        tree = self.tree
        self._check_table(len(nodes))
        chain = np.zeros((len(nodes), self.K), np.int32)
        own_ids = np.arange(tree.n_nodes, dtype=np.int32)
        own_ids.flags.writeable = False  # as tree.digit is: the same compiled kernel serves both
        _walks(chain.size).along_paths(tree.parent, tree.depth, own_ids, nodes, chain)
        names = np.array([str(label) for label in tree.labels], object) if len(nodes) > 1 else tree.labels
        rows = zip(names[chain].tolist(), tree.depth[nodes].tolist(), strict=True)
        return ["/".join(map(str, [names[0], *row[:depth]])) for row, depth in rows]

    def parse(self, texts: Labels, *, strict: bool = True) -> OneOrMany:
        """Nodes of codes written by `format` in any mode but ``path``; the mode is recognised. One text gives one int.

        ``strict`` is that of `decode`.

        >>> code = PadicCode(Tree.from_parents([-1, 0, 0, 1, 1]))
        >>> code.parse(["7", "[1, 2]", "…2|1", "1 + 2*3"])
        array([3, 3, 3, 3])
        """
        listed = np.asarray(texts, dtype=object)
        self._check_table(listed.size)
        numbers = np.zeros(listed.size, object)
        digits = np.zeros((listed.size, self.K), np.int64)
        for row, text in enumerate(listed.reshape(-1).tolist()):
            found = read_code(text, self.p, self.K, strict=strict)
            if isinstance(found, int):
                numbers[row] = found
            else:
                digits[row, : len(found)] = found
        return self.decode((numbers + from_radix(digits, self.radices)).reshape(listed.shape), strict=strict)

    @property
    def fingerprint(self) -> str:
        """Tells this code apart from that of any other tree, sibling order, label or prime: ``p`` and `Tree.fingerprint`."""
        return f"{self.p}-{self.tree.fingerprint}"

    def stamp(self, nodes: Nodes | None = None, *, release: str = "") -> StampedCodes:
        """Codes to be kept (default: of all leaves) with the fingerprint of this code, so that no other tree reads them wrongly."""
        ids = np.atleast_1d(self.tree.leaves if nodes is None else self._ids(nodes))
        labels, chains = self.tree.labels, self.tree.paths(ids)[:, 1:]
        paths = [tuple(labels[chain[chain >= 0]].tolist()) for chain in chains]
        return StampedCodes(self.encode(ids), paths, self.p, self.fingerprint, release)

    def read(self, stamped: StampedCodes, *, by: Literal["code", "path"] = "code", strict: bool = True) -> IntArray:
        """Nodes of stamped codes. Codes of another tree are refused; ``by="path"`` finds their nodes by label paths instead.

        A path that this tree does not have is an error, or −1 with ``strict=False``.

        >>> old = PadicCode(Tree.from_paths(["a/x", "b/y"], sep="/", root="all"))
        >>> new = PadicCode(Tree.from_paths(["a/x", "a/z", "b/y"], sep="/", root="all"))
        >>> kept = old.stamp(release="1.0")
        >>> new.read(kept)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        vpunn.errors.CodeError: these codes were made on another tree or prime (release '1.0', fingerprint 3-...
        >>> new.tree.labels[new.read(kept, by="path")].tolist()
        ['x', 'y']
        """
        check_choice("by", by, ("code", "path"))
        if stamped.fingerprint == self.fingerprint:
            return np.asarray(self.decode(stamped.codes))
        if by == "code":
            was = f"release {stamped.release!r}, " if stamped.release else ""
            raise CodeError(
                f"these codes were made on another tree or prime ({was}fingerprint {stamped.fingerprint[:9]}…); "
                + advice("by", "path", "read(…, by='path') finds")
                + " their nodes by label paths."
            )
        return self.tree.locate(list(stamped.paths), unseen="error" if strict else "null").nodes

    def _settings(self) -> dict[str, str]:
        return {"p": str(self.p)}

    @classmethod
    def _of(cls, tree: Tree, stored: Stored) -> Self:
        return cls(tree, int(stored.setting("p", str)))

    def summary(self) -> list[dict[str, Any]]:
        """Bits per node of every code of this tree, as rows for a table: single prime, mixed radix, packed words."""
        from vpunn.codes._mixed_radix import MixedRadixCode

        mixed, packed = MixedRadixCode(self.tree), self.tree.packed
        spread = f"{int(mixed.radices.min())} to {int(mixed.radices.max())}" if self.K else "none"
        words = packed.layout == "words"
        return [
            {"code": "single prime", "bits": self.bits, "note": f"p = {self.p}, K = {self.K}"},
            {"code": "mixed radix", "bits": mixed.bits, "note": f"radices {spread}, one per depth"},
            {
                "code": "packed words",
                "bits": packed.bits if words else None,
                "note": "child strings by share of leaves" if words else "too deep; heavy paths answer instead",
            },
        ]


def _walks(cells: int) -> Any:
    """The walks between nodes and digits: compiled, or in Python where so few cells are filled sooner that way."""
    if _loops.in_python(cells):
        return _loops
    from vpunn.codes import _kernels

    return _kernels
