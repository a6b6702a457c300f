"""`BallSums`: what regressors, encoders and heads learn from rows, as sums that add up exactly (`ClassSums` counts classes).

Rows may be summed in any parts, anywhere, and the parts added in any order: the sums are the same bytes, hence so are the
models made from them (`VPuNNRegressor.from_sums` and its siblings). They grow with the tree, not with the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from vpunn._rows import checked_weights
from vpunn._types import Features, Table, Targets, Weights
from vpunn.errors import DataError, VpunnError, examples
from vpunn.regress.shrinkage import NodeMoments
from vpunn.scale._exact import ExactSums, exact_products, times_ten
from vpunn.scale._frames import (
    as_arrow,
    check_node_ids,
    frame_nodes,
    number_columns,
    same_tree,
    sum_column,
)
from vpunn.scale.class_sums import ClassSums
from vpunn.store import Draft, Storable, Stored
from vpunn.tree import Nodes, Tree

Array = npt.NDArray[Any]


class BallSums(Storable):
    """Σw, Σwy and Σwx at every node, and Σwyy, Σwyx, Σwxx in all: everything a regression on a tree needs of its rows.

    Make it with `from_rows`, or with `from_frame` from sums a database computed; add with ``+``, which is exactly associative
    and commutative: each sum is a whole number of 32-bit limbs over the whole range of doubles (`ExactSums`). About 8 bytes a
    limb, node and column; one limb for counts, four for measurements. ``exact`` is False if any part came from sums of floats
    computed elsewhere, which depend on the order they were added in. What is above a node is not stored: a ball's sum is the
    sum over its slice.

    >>> tree = Tree.from_parents([-1, 0, 0])
    >>> day1 = BallSums.from_rows(tree, [1, 1, 2], [0.1, 0.2, 0.3])
    >>> day2 = BallSums.from_rows(tree, [2, 2], [1e16, -1e16])
    >>> day1 + day2 == day2 + day1
    True
    >>> (day1 + day2).totals()[:, 0]                # floats would have lost the 0.3
    array([0. , 0.3, 0.3])
    """

    def __init__(self, tree: Tree, n_targets: int = 1, n_covariates: int = 0) -> None:
        """No rows yet: nothing but zeros."""
        self.tree, self.n_targets, self.n_covariates = tree, n_targets, n_covariates
        m = n_targets + n_covariates
        #: Rows summed so far (of `from_frame`: unknown, so its rows of sums).
        self.n_rows = 0
        self.exact = True
        self.weight = ExactSums(tree.n_nodes)
        self.columns = [ExactSums(tree.n_nodes) for _ in range(m)]
        #: Decimal places: column j holds 10^places[j] times its sum, so that decimals are whole numbers.
        self.places = [0] * m
        self.products = {
            (i, j): Fraction(0) for i in range(m) for j in range(i, m) if i == j or j >= n_targets
        }  # of two targets none is needed

    # ---- making ------------------------------------------------------------------------------------------------------

    @classmethod
    def from_rows(cls, tree: Tree, nodes: Nodes, y: Targets, X: Features = None, w: Weights = None) -> Any:
        """Sums of rows at ``nodes`` with targets ``y`` (one or several columns), covariates ``X`` and weights ``w``. O(rows).

        Numbers are summed; a ``y`` of text, truth values or objects is counted by class instead, as
        `ClassSums.from_rows` (call that for classes named by whole numbers).
        """
        if np.asarray(y).dtype.kind not in "iuf":
            if X is not None:
                raise VpunnError("classes are counted without covariates; leave X out.")
            return ClassSums.from_rows(tree, nodes, y, w)
        n = len(np.asarray(nodes))
        targets = number_columns(y, "y", n)
        width = 0 if X is None else number_columns(X, "X", n).shape[1]
        made = cls(tree, targets.shape[1], width)
        made.add_rows(nodes, y, X, w)
        return made

    def add_rows(self, nodes: Nodes, y: Targets, X: Features = None, w: Weights = None) -> Self:
        """Add rows in place, for streams: no second set of arrays. Nothing is changed if a row is refused."""
        nodes = check_node_ids(self.tree, nodes)
        n = len(nodes)
        weights = None if w is None else checked_weights(w, n)
        parts = [number_columns(y, "y", n)] + ([] if X is None else [number_columns(X, "X", n)])
        table = np.concatenate(parts, axis=1)
        if parts[0].shape[1] != self.n_targets or table.shape[1] != len(self.columns):
            raise VpunnError(
                f"these sums have {self.n_targets} targets and {self.n_covariates} covariates, "
                f"got {parts[0].shape[1]} and {table.shape[1] - parts[0].shape[1]}."
            )
        if any(self.places):
            raise VpunnError("these sums hold decimals; add rows to sums of their own, and those to these.")
        self.weight.add(nodes, np.ones(n) if weights is None else weights)
        for sums, column in zip(self.columns, table.T, strict=True):
            sums.add(nodes, column, weights)
        for i, j in self.products:
            self.products[i, j] += exact_products(table[:, i], table[:, j], weights)
        self.n_rows += n
        return self

    @classmethod
    def from_frame(
        cls,
        tree: Tree,
        frame: Table,
        *,
        node: str = "node",
        weight: str = "weight",
        sums: str | Sequence[str] = "sum",
        products: str | Sequence[str] = "product",
        n_targets: int = 1,
    ) -> BallSums:
        """Sums computed elsewhere (SQL ``GROUP BY node``, Spark, Polars): a frame with one or more rows per node.

        Columns: ``node`` (ids, or labels if they are text), ``weight`` (Σw, or COUNT(*)), ``sums`` (Σwy of each target, then
        Σwx of each covariate) and ``products``: Σwyy of each target, then, row by row of the upper triangle, those that
        involve a covariate (yx…, xx…). Whole numbers and decimals (SQL ``DECIMAL``) are exact however they were grouped;
        floats are not, and mark the result ``exact=False``. Frames of pandas, Polars and Arrow are read.
        """
        named = [[s] if isinstance(s, str) else list(s) for s in (sums, products)]
        m = len(named[0])
        made = cls(tree, n_targets, m - n_targets)
        keys = sorted(made.products, key=lambda key: (key[0] != key[1] or key[0] >= n_targets, key))
        if len(named[1]) != len(keys):
            raise VpunnError(
                f"{n_targets} targets and {m - n_targets} covariates need {len(keys)} products, got {examples(named[1])}."
            )
        table = as_arrow(frame)
        for name in (node, weight, *named[0], *named[1]):
            if name not in table.column_names:
                raise DataError(f"the frame has no column {name!r}; it has {examples(table.column_names)}.")
        ids = frame_nodes(tree, table[node])
        made.n_rows = len(ids)
        made.weight, places, made.exact = sum_column(table[weight], ids, tree.n_nodes, weight)
        if places:
            raise DataError(f"column {weight!r} counts rows or weights and must be whole numbers or floats.")
        for j, name in enumerate(named[0]):
            made.columns[j], made.places[j], exact = sum_column(table[name], ids, tree.n_nodes, name)
            made.exact &= exact
        for key, name in zip(keys, named[1], strict=True):
            one, places, exact = sum_column(table[name], np.zeros(len(ids), np.int64), 1, name)
            made.products[key] = one.exact(0) / Fraction(10) ** places
            made.exact &= exact
        return made

    # ---- adding ------------------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> BallSums:
        """The sums of both parts; the order and the grouping of additions do not change a bit of it."""
        if not isinstance(other, BallSums):
            return NotImplemented
        both = self.copy()
        both += other
        return both

    def __radd__(self, other: Any) -> BallSums:
        return self if isinstance(other, int) and other == 0 else NotImplemented  # so that sum(parts) works

    def __iadd__(self, other: Any) -> Self:
        if not isinstance(other, BallSums):
            return NotImplemented
        same_tree(self.tree, other.tree)
        if (self.n_targets, self.n_covariates) != (other.n_targets, other.n_covariates):
            raise VpunnError(
                f"sums of {self.n_targets} targets and {self.n_covariates} covariates cannot be added to those of "
                f"{other.n_targets} and {other.n_covariates}."
            )
        self.weight += other.weight
        for j, theirs in enumerate(other.columns):
            more = other.places[j] - self.places[j]
            if more > 0:
                self.columns[j], self.places[j] = times_ten(self.columns[j], more), other.places[j]
            self.columns[j] += times_ten(theirs, -more) if more < 0 else theirs
        for key, value in other.products.items():
            self.products[key] += value
        self.n_rows += other.n_rows
        self.exact &= other.exact
        return self

    def copy(self) -> BallSums:
        """The same sums in arrays of their own."""
        made = BallSums(self.tree, self.n_targets, self.n_covariates)
        made.weight += self.weight
        for mine, theirs in zip(made.columns, self.columns, strict=True):
            mine += theirs
        made.products, made.places = dict(self.products), list(self.places)
        made.n_rows, made.exact = self.n_rows, self.exact
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BallSums):
            return NotImplemented
        return (
            self.tree.fingerprint == other.tree.fingerprint
            and (self.weight, self.columns, self.places) == (other.weight, other.columns, other.places)
            and (self.products, self.n_rows, self.exact) == (other.products, other.n_rows, other.exact)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        kind = "exact" if self.exact else "not exact"
        return f"BallSums({self.n_rows:,} rows, {self.n_targets} targets, {self.n_covariates} covariates, {kind}; {self.tree!r})"

    # ---- reading -----------------------------------------------------------------------------------------------------

    def weights(self) -> Array:
        """Σw at every node, as doubles."""
        return self.weight.round()

    def totals(self) -> Array:
        """(nodes × columns): Σwy of each target, then Σwx of each covariate, at every node, as doubles."""
        return np.column_stack([self._pair(j)[0] for j in range(len(self.columns))])

    def _pair(self, column: int) -> tuple[Array, Array]:
        """One column's sums as hi + lo."""
        hi, lo = self.columns[column].pairs()
        if self.places[column]:
            ten = 10.0 ** self.places[column]
            whole = hi / ten
            hi, lo = whole, (_product_error(whole, ten, hi) + lo) / ten
        return hi, lo

    def _whole(self, column: int) -> Fraction:
        """One column's sum over the whole tree, exactly."""
        limbs = self.columns[column].limbs
        low = self.columns[column].low
        total = sum(int(part) << (32 * k) for k, part in enumerate(_exact_column_sums(limbs)))
        return Fraction(total) * Fraction(2) ** (32 * low) / Fraction(10) ** self.places[column]

    def moments(self, target: int = 0) -> NodeMoments:
        """What `vpunn.regress.shrinkage` fits: one target and the covariates, standardised by exact moments.

        Centre and spread come from exact fractions, so a mean far above the spread costs no digits.
        """
        if not 0 <= target < self.n_targets:
            raise VpunnError(f"target {target} is no column of y, which has {self.n_targets}.")
        chosen = [target, *range(self.n_targets, len(self.columns))]
        limbs = self.weight.limbs
        rows = Fraction(sum(int(part) << (32 * k) for k, part in enumerate(_exact_column_sums(limbs))))
        rows *= Fraction(2) ** (32 * self.weight.low)
        if rows <= 0:
            raise VpunnError("all weights are zero, so there is nothing to fit; add rows with a positive weight.")
        sums = [self._whole(j) for j in chosen]
        centre = [Fraction(_double(s / rows)) for s in sums]
        m = len(chosen)
        central = [[Fraction(0)] * m for _ in range(m)]
        for a in range(m):
            for b in range(a, m):
                raw = self.products[min(chosen[a], chosen[b]), max(chosen[a], chosen[b])]
                central[a][b] = raw - centre[a] * sums[b] - centre[b] * sums[a] + centre[a] * centre[b] * rows
        weight, weight_rest = self.weight.pairs()
        spread = [_root(max(central[a][a], Fraction(0)) / rows) for a in range(m)]
        scale = [s if s > 1e-12 * abs(float(c)) else 0.0 for s, c in zip(spread, centre, strict=True)]
        total = np.zeros((self.tree.n_nodes, m))
        gram = np.zeros((m, m))
        for a in range(m):
            if scale[a] == 0.0:
                continue
            hi, lo = self._pair(chosen[a])
            total[:, a] = _centred(hi, lo, float(centre[a]), weight, weight_rest, scale[a])
            for b in range(a, m):
                if scale[b] != 0.0:
                    gram[a, b] = gram[b, a] = float(central[a][b] / (Fraction(scale[a]) * Fraction(scale[b])))
        return NodeMoments(float(rows), np.array([float(c) for c in centre]), np.array(scale), weight, total, gram)

    # ---- files -------------------------------------------------------------------------------------------------------

    def _to_store(self, draft: Draft) -> None:
        draft.add("tree", self.tree)
        for name, sums in zip(self._names(), [self.weight, *self.columns], strict=True):
            draft.array(name, (sums.limbs & 0xFFFFFFFF).astype(np.uint32), balls=True)
        draft.settings |= {
            "n_targets": self.n_targets,
            "n_covariates": self.n_covariates,
            "n_rows": self.n_rows,
            "exact": self.exact,
            "low": [sums.low for sums in [self.weight, *self.columns]],
            "places": self.places,
            "products": [[i, j, f"{v.numerator:x}", f"{v.denominator:x}"] for (i, j), v in self.products.items()],
        }

    def _names(self) -> list[str]:
        return ["weight", *(f"column{j}" for j in range(len(self.columns)))]

    @classmethod
    def _from_store(cls, stored: Stored) -> BallSums:
        counts = [stored.setting(name, int) for name in ("n_targets", "n_covariates", "n_rows")]
        tree = stored.get("tree", Tree)
        if min(counts) < 0 or counts[0] < 1:
            raise VpunnError(f"it cannot have {counts[0]} targets, {counts[1]} covariates and {counts[2]} rows.")
        made = cls(tree, counts[0], counts[1])
        made.n_rows, made.exact = counts[2], stored.setting("exact", bool)
        made.places = [int(k) for k in stored.setting("places", list)]
        low = stored.setting("low", list)
        products = {
            (int(i), int(j)): Fraction(int(n, 16), int(d, 16)) for i, j, n, d in stored.setting("products", list)
        }
        if len(made.places) != len(made.columns) or products.keys() != made.products.keys() or min(made.places) < 0:
            raise VpunnError("its sums and their products do not belong together.")
        made.products = products
        read = []
        for name, at in zip(made._names(), low, strict=True):
            limbs = stored.array(name, dtype="u4", shape=(tree.n_nodes, None)).astype(np.int64)
            if not limbs.shape[1] or not -300 < int(at) < 300:
                raise VpunnError(f"{name!r} has no digits, or digits outside the doubles.")
            limbs[:, -1] = ((limbs[:, -1] + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
            read.append(ExactSums(tree.n_nodes, int(at), limbs))
        made.weight, made.columns = read[0], read[1:]
        return made


def shrunk_centroids(sums: BallSums) -> Array:
    """(nodes × targets): the mean of each target at every node, shrunk to its parent's, as the regressor would predict it.

    Sum feature columns as targets, ``BallSums.from_rows(tree, nodes, features)``, and every ball has a centroid, those without
    rows their nearest ancestor's. O(nodes · targets · evaluations).
    """
    from vpunn.regress.shrinkage import fit_moments

    return np.column_stack([fit_moments(sums.tree, sums.moments(j)).values for j in range(sums.n_targets)])


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def _exact_column_sums(limbs: Array) -> list[int]:
    """The sum of each limb over all nodes, as Python's integers; blocks keep the partial sums inside 64 bits."""
    block = 1 << 30
    return [sum(int(limbs[i : i + block, k].sum()) for i in range(0, len(limbs), block)) for k in range(limbs.shape[1])]


def _double(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        raise VpunnError(
            "the mean of a column exceeds the range of doubles; divide the column by a constant."
        ) from None


def _root(value: Fraction) -> float:
    """The square root of an exact fraction, also where its square is no double."""
    if value == 0:
        return 0.0
    shift = (value.numerator.bit_length() - value.denominator.bit_length()) // 2
    return math.ldexp(math.sqrt(float(value / Fraction(4) ** shift)), shift)


def _product_error(a: Array, b: float, wanted: Array | None = None) -> Array:
    """a·b minus its rounding (or ``wanted`` − a·b) exactly, by Dekker's splitting; factors below 2⁹⁰⁰."""
    c = 134217729.0
    a1 = c * a - (c * a - a)
    b1 = c * b - (c * b - b)
    a2, b2, p = a - a1, b - b1, a * b
    error = a2 * b2 - (((p - a1 * b1) - a2 * b1) - a1 * b2)
    return np.asarray(error if wanted is None else (wanted - p) - error)


def _centred(hi: Array, lo: Array, centre: float, weight: Array, weight_rest: Array, scale: float) -> Array:
    """(Σwy − centre·Σw)/scale at every node, without cancellation: all in units of a power of two near the data."""
    shift = -math.frexp(max(abs(centre), scale))[1]
    hi, lo, c = np.ldexp(hi, shift), np.ldexp(lo, shift), math.ldexp(centre, shift)
    p = c * weight
    left = (hi - p) + (lo - _product_error(weight, c) - c * weight_rest)
    return np.asarray(left / math.ldexp(scale, shift))
