"""v-PuNNs: one coefficient per ball, summed along the ancestor chain, F(x) = Σ_{B∋x} c_B.

The layers of the paper stand side by side, one per depth, and add up (stacking them does not type-check, AUDIT E-28).
Only balls that exist are stored, so a network on a tree has n_nodes parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from vpunn._arrays import object_array
from vpunn._types import Numbers, OneOrMany
from vpunn.errors import VpunnError
from vpunn.network.gauges import Gauge, check_depths, differences, extend_to_nodes, lossless_depths
from vpunn.network.rings import Kind, Ring, valuations
from vpunn.padic import check_prime, code_prime
from vpunn.store import Draft, Storable, Stored
from vpunn.tree import Nodes, Tree
from vpunn.tree.sweeps import sweep_down

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True)
class VanDerPutLayer:
    """All balls of one depth: Φ_D(x) has one entry per ball of depth D and at most one is non-zero.

    ``balls`` are the node ids of that depth. A node above depth D lies in none of them.
    """

    tree: Tree
    depth: int
    coefficients: np.ndarray

    @property
    def balls(self) -> np.ndarray:
        """Node ids of the balls of this layer, in preorder."""
        start, ids = self.tree.levels
        return ids[start[self.depth] : start[self.depth + 1]]

    def active(self, nodes: Nodes) -> np.ndarray:
        """Position among ``balls`` of the ball around each node, −1 for nodes above this depth. O(log n) each."""
        ids = self.tree.check_nodes(np.atleast_1d(nodes))
        found = np.full(len(ids), -1, np.int64)
        deep = self.tree.depth[ids] >= self.depth
        found[deep] = np.searchsorted(self.balls, ids[deep], side="right") - 1
        return found

    def activations(self, nodes: Nodes) -> csr_array:
        """Φ_D as a sparse real matrix, one row per node and one column per ball."""
        from scipy.sparse import csr_array

        at = self.active(nodes)
        rows = np.flatnonzero(at >= 0)
        values = self.coefficients[at[rows]].astype(float)
        return csr_array((values, (rows, at[rows])), shape=(len(at), len(self.coefficients)))

    def __call__(self, nodes: Nodes) -> np.ndarray:
        """This layer's share of F at each node: the coefficient of the one ball that fires, or zero."""
        at = self.active(nodes)
        out: np.ndarray = np.take(self.coefficients, np.maximum(at, 0), axis=0)
        out[at < 0] = self.coefficients.dtype.type(0) if self.coefficients.dtype != object else Fraction(0)
        return out


class VPuNN(Storable):
    """A v-PuNN on a tree: immutable, one coefficient per node, F(x) = Σ_{B∋x} c_B.

    ``values`` says where the numbers live: ``"real"`` (floats, any trailing shape), ``"integer"``, ``"rational"``
    (Fractions) or ``"padic"`` (Q_p to absolute precision p^−precision). The last three are exact; floats lose at most
    about depth·1e-16 of the largest value met on the way. `predict` never leaks (α = 0); see `surrogate`.

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1], labels=["animal", "bird", "fish", "owl", "robin"])
    >>> net = VPuNN(tree, values="rational").interpolate([Fraction(1, 3), 2, 5])     # owl, robin, fish
    >>> [str(c) for c in net.coefficients_]                                          # animal, bird, owl, robin, fish
    ['1/3', '0', '0', '5/3', '14/3']
    >>> [str(y) for y in net.predict(tree.leaves)]
    ['1/3', '2', '5']
    >>> [str(c) for c in net.to_gauge("mean").coefficients_]
    ['37/12', '-23/12', '-5/6', '5/6', '23/12']
    """

    def __init__(
        self,
        tree: Tree,
        coefficients: Numbers | None = None,
        *,
        values: Kind = "real",
        p: int | None = None,
        precision: int = 20,
    ) -> None:
        self.tree = tree
        #: The prime of the codes: the smallest ≥ branching + 1 unless given.
        self.p = code_prime(tree.max_branching) if p is None else check_prime(p)
        ring = Ring(values, self.p, precision)
        if coefficients is None:
            stored = ring.zeros((tree.n_nodes,))
        else:
            ring, stored = ring.store(coefficients)
            _check_length(stored, tree.n_nodes, "coefficients", "one per node")
        self._set(ring, stored)

    def _set(self, ring: Ring, stored: np.ndarray) -> None:
        self.ring = ring
        if stored.dtype == np.int64 and ring.kind == "integer" and stored.size:
            largest = max(abs(int(stored.min())), abs(int(stored.max())))
            if largest * (self.tree.max_depth + 1) >= 2**62:  # sums along a chain must stay exact
                stored = stored.astype(object)
        self._stored = stored
        self._stored.flags.writeable = False

    def _with(self, stored: np.ndarray, ring: Ring | None = None) -> VPuNN:
        """A network like this one with other stored coefficients."""
        twin = object.__new__(VPuNN)
        twin.tree, twin.p = self.tree, self.p
        twin._set(ring or self.ring, stored)
        return twin

    def __repr__(self) -> str:
        return f"VPuNN({self.tree!r}, values={self.ring.kind!r}, {self.n_nonzero:,} non-zero coefficients)"

    # ---- files -----------------------------------------------------------------------------------------------------

    def _to_store(self, draft: Draft) -> None:
        ring = self.ring
        draft.add("tree", self.tree)
        draft.settings |= {"values": ring.kind, "p": self.p, "precision": int(ring.precision), "shift": int(ring.shift)}
        draft.settings["shape"] = list(self._stored.shape)
        if self._stored.dtype != object:
            draft.array("coefficients", self._stored, balls=True)
            return
        exact = [Fraction(number) for number in self._stored.ravel().tolist()]
        draft.labels("coefficients", [f"{x.numerator:x}/{x.denominator:x}" for x in exact])

    @classmethod
    def _from_store(cls, stored: Stored) -> VPuNN:
        shape = tuple(stored.setting("shape", list))
        tree = stored.get("tree", Tree)
        net = cls(tree, values=stored.setting("values", str), p=stored.setting("p", int))
        ring = Ring(net.ring.kind, net.p, stored.setting("precision", int), stored.setting("shift", int))
        if "coefficients" in stored.names:
            numbers = stored.array("coefficients", dtype="f8" if ring.kind == "real" else "i8", shape=shape)
        else:
            texts = stored.labels("coefficients", int(np.prod(shape)))
            exact = [Fraction(int(n, 16), int(d, 16)) for n, d in (text.split("/") for text in texts)]
            whole = ring.kind != "rational"
            numbers = object_array([x.numerator if whole else x for x in exact]).reshape(shape)
        _check_length(numbers, tree.n_nodes, "coefficients", "one per node")
        return net._with(numbers, ring)

    # ---- fitting ---------------------------------------------------------------------------------------------------

    def interpolate(self, leaf_values: Numbers, gauge: Gauge = "vdp") -> VPuNN:
        """The network with F = ``leaf_values`` on ``tree.leaves`` (in that order), in the given gauge. O(n).

        Gauge ``vdp`` uses at most #leaves non-zero coefficients, ``mean`` up to #nodes. This is the sound form of the
        paper's approximation theorem (AUDIT S10): exact for every function, in integers, rationals and Q_p.
        """
        ring, given = self.ring.store(leaf_values)
        _check_length(given, self.tree.n_leaves, "leaf values", "one per leaf, in the order of tree.leaves")
        node_values = extend_to_nodes(self.tree, given, gauge, ring)
        return self._with(differences(self.tree, node_values, ring), ring)

    def interpolate_nodes(self, node_values: Numbers) -> VPuNN:
        """The network with F = ``node_values`` on *all* nodes, which leaves no gauge freedom: #nodes coefficients."""
        ring, given = self.ring.store(node_values)
        _check_length(given, self.tree.n_nodes, "node values", "one per node")
        return self._with(differences(self.tree, given, ring), ring)

    def to_gauge(self, gauge: Gauge) -> VPuNN:
        """The same function on leaves with its coefficients in another gauge (values at internal nodes change)."""
        node_values = extend_to_nodes(self.tree, self._values[self.tree.leaves], gauge, self.ring)
        return self._with(differences(self.tree, node_values, self.ring))

    # ---- evaluation ------------------------------------------------------------------------------------------------

    @cached_property
    def _values(self) -> np.ndarray:
        return self.ring.reduce(sweep_down(self.tree, self._stored))

    @property
    def coefficients_(self) -> np.ndarray:
        """c_B for every node B, indexed by node id."""
        return self.ring.show(self._stored)

    @property
    def valuations_(self) -> np.ndarray:
        """v_B of c_B = p^v·u, as the paper stores coefficients: the p-adic valuation of every coefficient, ∞ for zero.

        >>> net = VPuNN(Tree.from_parents([-1, 0, 0]), [9, 0, 5], values="integer")
        >>> net.p, net.valuations_.tolist(), net.units_.tolist()
        (3, [2.0, inf, 0.0], [1, 0, 5])
        """
        return valuations(self._exact_coefficients(), self.p)

    @property
    def units_(self) -> np.ndarray:
        """u_B of c_B = p^v·u: what is left without the powers of p (0 for zero). A whole unit, not just one digit: the paper's
        u ∈ {1, …, p − 1} holds only p − 1 values per valuation and cannot be zero (AUDIT E-27)."""
        exact, powers = self._exact_coefficients(), self.valuations_
        units = np.empty(exact.shape, object)
        for at in np.ndindex(exact.shape):
            c = exact[at]
            unit = c / Fraction(self.p) ** int(powers[at]) if c else Fraction(0)
            units[at] = int(unit) if unit.denominator == 1 else unit
        return units

    def _exact_coefficients(self) -> np.ndarray:
        if self.ring.kind == "real":
            raise VpunnError("floats have no p-adic valuation; use values='integer', 'rational' or 'padic'.")
        shown = np.asarray(self.coefficients_)
        exact = np.empty(shown.shape, object)
        exact.ravel()[:] = [Fraction(c) for c in shown.ravel().tolist()]
        return exact

    def predict(self, nodes: Nodes) -> OneOrMany:
        """F at node ids: the sum of the coefficients on each ancestor chain. One sweep for all nodes, then look-ups."""
        ids = self.tree.check_nodes(nodes)
        found = self.ring.show(self._values[np.atleast_1d(ids)])
        return found if ids.ndim else found[0]

    def sparse_activation_path(self, node: int) -> np.ndarray:
        """The balls that fire for a node: its ancestor chain, root first (the paper's map T6)."""
        return self.tree.ancestors(node)

    def ablate(self, ball: int) -> VPuNN:
        """The network without one coefficient. F changes by −c_B inside the ball and not by a bit outside."""
        at = self.tree._one_node(ball)
        stored = self._stored.copy()
        stored[at] = self.ring.zero
        return self._with(stored)

    # ---- layers and depth schedules --------------------------------------------------------------------------------

    def layer(self, depth: int) -> VanDerPutLayer:
        """The balls of one depth with their coefficients."""
        at = int(check_depths(self.tree, [depth])[0])
        start, ids = self.tree.levels
        return VanDerPutLayer(self.tree, at, self.coefficients_[ids[start[at] : start[at + 1]]])

    @property
    def layers(self) -> list[VanDerPutLayer]:
        """All layers, root first; F is their sum."""
        return [self.layer(k) for k in range(self.tree.max_depth + 1)]

    def restrict(self, depths: Sequence[int] | np.ndarray) -> VPuNN:
        """The network with only the layers of a depth schedule; the other coefficients become zero."""
        keep = np.isin(self.tree.depth, check_depths(self.tree, depths))
        stored = self._stored.copy()
        stored[~keep] = self.ring.zero
        return self._with(stored)

    def prune_depths(self) -> VPuNN:
        """Fold away the layers in which every node is an only child; leaf values stay as they are (S20)."""
        keep = np.isin(self.tree.depth, lossless_depths(self.tree))
        stored = self._stored.copy()
        start, ids = self.tree.levels
        for k in range(self.tree.max_depth, 0, -1):  # deepest first: runs of dropped layers fold upwards together
            level = ids[start[k] : start[k + 1]]
            if not keep[level[0]]:
                stored[self.tree.parent[level]] += stored[level]
                stored[level] = self.ring.zero
        return self._with(self.ring.reduce(stored))

    # ---- facts -----------------------------------------------------------------------------------------------------

    @property
    def n_nonzero(self) -> int:
        """How many balls carry a non-zero coefficient."""
        filled = (self._stored != 0).astype(bool)
        return int(filled.reshape(self.tree.n_nodes, -1).any(axis=1).sum())

    def lipschitz_constant(self) -> Fraction | float:
        """The smallest L with ‖F(x) − F(y)‖ ≤ L·p^−ν(x,y) on leaves, ν the depth of their common ancestor (S12).

        With p-adic size (integer, rational and p-adic values) L = max_B |c_B|_p · p^(depth(B)−1) over the ``vdp``
        coefficients, as an exact Fraction; F is 1-Lipschitz iff ν_p(c_B) ≥ depth(B) − 1. With real values L is
        max_B p^depth(B) · (largest − smallest value in B), a float. O(n).
        """
        tree = self.tree
        if tree.n_leaves == 1:
            return 0.0 if self.ring.kind == "real" else Fraction(0)
        if self.ring.kind == "real":
            return self._real_lipschitz()
        coefficients = self.to_gauge("vdp")._stored.reshape(tree.n_nodes, -1)
        found = valuations(coefficients, self.p)
        matters = (coefficients != 0).astype(bool) & (tree.depth > 0)[:, None]
        if not matters.any():
            return Fraction(0)
        exponent = (tree.depth.astype(np.int64)[:, None] - 1 + self.ring.shift - found)[matters]
        return Fraction(self.p) ** int(exponent.max())

    def _real_lipschitz(self) -> float:
        """Ranges of the slices, from running extremes bottom up; the largest scaled range wins."""
        tree = self.tree
        flat = self._values.reshape(tree.n_nodes, -1)
        high, low = flat.copy(), flat.copy()
        internal = ~tree.is_leaf
        high[internal], low[internal] = -np.inf, np.inf
        start, ids = tree.levels
        best = 0.0
        for k in range(tree.max_depth, 0, -1):
            level = ids[start[k] : start[k + 1]]
            parents, first = np.unique(tree.parent[level], return_index=True)
            high[parents] = np.maximum.reduceat(high[level], first, axis=0)
            low[parents] = np.minimum.reduceat(low[level], first, axis=0)
            spread = float((high[parents] - low[parents]).max())
            if spread > 0:
                exponent = np.log(spread) + (k - 1) * np.log(self.p)
                best = max(best, spread * float(self.p) ** (k - 1) if exponent < 700 else np.inf)
        return best


def _check_length(given: np.ndarray, wanted: int, what: str, how: str) -> None:
    got = len(given) if given.ndim else 0
    if got != wanted:
        raise VpunnError(f"got {got:,} {what} where {wanted:,} are needed: {how}.")
