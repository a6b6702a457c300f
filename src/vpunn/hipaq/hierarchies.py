"""HiPaQ on a hierarchy: the leaves of a tree by their digits, ready without fitting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from vpunn.codes import PadicCode, tree_of_digits
from vpunn.errors import CodeError, VpunnError, check_whole, counted
from vpunn.hipaq.hydrogen import purity
from vpunn.hipaq.invariants import Identification
from vpunn.network import VPuNN
from vpunn.padic import show_integer, to_digits
from vpunn.store import Draft, Storable, Stored
from vpunn.tree import Tree


@dataclass(frozen=True)
class HiPaQCheck:
    """What `HiPaQ.check` found: every leaf has a code of its own (``injective``), and the codes alone give back the tree
    (``rebuilds``), so that hierarchies with equal codes are isomorphic."""

    leaves: int
    injective: bool
    rebuilds: bool

    def __bool__(self) -> bool:
        return self.injective and self.rebuilds

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        if self:
            return f"{counted(self.leaves, 'leaf', 'leaves')} with a code each, from which the tree follows."
        return f"{'two leaves share a code' if not self.injective else 'the codes do not give back the tree'}."

    def __str__(self) -> str:
        return self.verdict


class HiPaQ(Storable):
    """The paper's HiPaQ of any hierarchy: a v-PuNN on the leaves whose value is the leaf's K digits.

    Nothing is trained: ``network`` interpolates the codes exactly, c_B = digit·p^(depth − 1), one coefficient a ball. Siblings
    keep the order of the tree; with ``canonical`` they are ordered by the shape of what is below them, so that codes do not
    depend on names or order: two hierarchies have equal codes exactly if they are isomorphic, and ``==`` says whether.

    ``tree`` is the tree with its siblings in order, ``labels`` and ``codes`` belong to its leaves, from left to right.

    >>> trees = [Tree.from_paths(paths, sep="/", root="r") for paths in (["a/x", "a/y", "b"], ["k", "m/2", "m/1"])]
    >>> one, other = (HiPaQ(tree, canonical=True) for tree in trees)
    >>> one.codes.tolist(), other.codes.tolist(), one == other
    ([4, 7, 2], [4, 7, 2], True)
    >>> one.prefix(1).tolist(), one.identify(7).candidates, other.identify(1).candidates
    ([1, 1, 2], ('y',), ('2', '1'))
    >>> one.purity(["a", "a", "b"], 1), one.check().verdict
    (1.0, '3 leaves with a code each, from which the tree follows.')
    """

    def __init__(self, tree: Tree, *, canonical: bool = False) -> None:
        if not isinstance(tree, Tree):
            raise VpunnError(
                f"HiPaQ needs a Tree, got {type(tree).__name__}; vpunn.read_tree makes one from a file, and a cascade of "
                "invariants is vpunn.hipaq.Invariants."
            )
        self.canonical = bool(canonical)
        self.tree = tree.canonical() if self.canonical else tree

    @cached_property
    def code(self) -> PadicCode:
        """The code of all nodes."""
        return PadicCode(self.tree)

    @property
    def p(self) -> int:
        """The prime: the smallest with room for every child and a stop."""
        return self.code.p

    @property
    def K(self) -> int:
        """Digits of the longest code."""
        return self.code.K

    @cached_property
    def network(self) -> VPuNN:
        """The v-PuNN over the integers whose value at every node is its code."""
        return VPuNN(self.tree, values="integer").interpolate_nodes(self.code.encode())

    @property
    def n_parameters(self) -> int:
        """Coefficients of the v-PuNN: one a ball."""
        return self.tree.n_nodes

    @property
    def labels(self) -> np.ndarray:
        """The leaves' labels, in the order of ``codes``."""
        return np.asarray(self.tree.labels[self.tree.leaves])

    @cached_property
    def codes(self) -> np.ndarray:
        """One code a leaf: exact integers."""
        return np.asarray(self.code.encode(self.tree.leaves))

    @property
    def digits(self) -> np.ndarray:
        """One row of K digits a leaf, 0 after the path's end."""
        return np.asarray(self.code.digits(self.tree.leaves))

    def prefix(self, k: int) -> np.ndarray:
        """The first k digits of every leaf, as a code: that of the branch at depth k which holds it."""
        return np.asarray(self.code.encode(self._balls(k)))

    def _balls(self, k: int) -> np.ndarray:
        leaves = self.tree.leaves
        return np.asarray(self.tree.ancestor_at(leaves, np.minimum(check_whole("k", k, 0), self.tree.depth[leaves])))

    def purity(self, labels: str | Sequence[Any] | Mapping[Any, Any], k: int) -> float:
        """Share of the leaves whose label is the commonest among those with the same first k digits.

        ``labels`` are one a leaf in the order of ``codes``, a mapping from leaf to label, or the name of a column of the tree.
        It grows with k, up to 1 where every leaf stands alone: compare it with the purity of shuffled labels.
        """
        import pandas as pd

        leaves = self.tree.leaves
        if isinstance(labels, str):
            if labels not in self.tree.columns:
                known = ", ".join(self.tree.columns) or "none"
                raise VpunnError(f"this tree has no column {labels!r}; it has {known}.")
            labels = self.tree.columns[labels][leaves]
        elif isinstance(labels, Mapping):
            lost = [leaf for leaf in self.labels.tolist() if leaf not in labels]
            if lost:
                raise VpunnError(f"the mapping has no label for the leaf {lost[0]!r} ({len(lost):,} in all).")
            labels = [labels[leaf] for leaf in self.labels.tolist()]
        if len(labels) != len(leaves):
            raise VpunnError(f"purity needs one label a leaf ({len(leaves):,}), got {len(labels):,}.")
        return purity(self._balls(k), pd.factorize(pd.Series(list(labels), dtype=object), use_na_sentinel=False)[0])

    def identify(self, code: int) -> Identification:
        """What a code, or a prefix of one, names: all leaves of its branch (one for a leaf's code).

        For a number that is no code ``candidates`` is empty, ``new_at`` names the digit that leads nowhere, and the rest
        speaks of the last branch on the way.
        """
        if isinstance(code, bool) or not isinstance(code, int | np.integer) or code < 0:
            raise CodeError(f"a code is a whole number from 0, got {code!r}.")
        node = int(self.code.decode(int(code), strict=False))
        chain = self.tree.ancestors(node)[1:]
        part = self.tree.slice(node)
        known = int(self.code.encode(node))
        below = tuple(self.tree.labels[part][self.tree.is_leaf[part]].tolist()) if known == code else ()
        return Identification(
            known,
            tuple(self.tree.digit[chain].tolist()),
            {f"digit {k}": name for k, name in enumerate(self.tree.names[chain].tolist())},
            below,
            settled_by="code" if len(below) == 1 else "",
            new_at="" if known == code else f"digit {len(chain)}",
        )

    def check(self) -> HiPaQCheck:
        """Whether all codes differ, and whether the tree can be built again from nothing but the codes and p.

        >>> HiPaQ(Tree.from_parents([-1, 0, 0, 1])).check()
        HiPaQCheck(leaves=2, injective=True, rebuilds=True)
        """
        codes, tree = self.codes.tolist(), self.tree
        injective = len(set(codes)) == len(codes)
        if self.K == 0:
            return HiPaQCheck(1, injective, True)
        rows = to_digits(self.codes, self.p, self.K)
        again = tree_of_digits(rows)
        same = np.array_equal(again.tree.parent, tree.parent) and np.array_equal(again.nodes, tree.leaves)
        return HiPaQCheck(len(codes), injective, same)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HiPaQ):
            return NotImplemented
        return self.canonical == other.canonical and self.p == other.p and np.array_equal(self.codes, other.codes)

    def __hash__(self) -> int:
        return hash((self.canonical, self.p, len(self.tree)))

    def __repr__(self) -> str:
        order = "canonical" if self.canonical else "siblings as given"
        leaves = counted(self.tree.n_leaves, "leaf", "leaves")
        return f"HiPaQ({leaves}, p={show_integer(self.p)}, K={self.K}, {self.n_parameters:,} coefficients, {order})"

    def _to_store(self, draft: Draft) -> None:
        draft.add("tree", self.tree)
        draft.settings["canonical"] = self.canonical

    @classmethod
    def _from_store(cls, stored: Stored) -> HiPaQ:
        return cls(stored.get("tree", Tree), canonical=bool(stored.setting("canonical", bool)))
