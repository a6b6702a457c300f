"""Linear heads of few classes: one against the rest by squared hinge loss, solved nearly to the end (dual coordinate descent).

Where classes are few and rows many this is hard to beat, so it is there in full: what scikit-learn's `LinearSVC` finds on the same
words within a fraction of a per cent, all classes at once, its cost C chosen on rows held out. Weights are kept as
half-precision numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from vpunn.hipan._arrays import Sparse
from vpunn.hipan._balls import FEW_CLASSES, Balls, Items
from vpunn.hipan._weights import half

#: Costs tried, from strong to weak regularisation; and rows that are enough to choose among them.
COSTS, CHOOSING = (0.5, 2.0, 8.0), 5_000
#: Largest violation that is left, passes at most, and orders of the rows that are taken in turn.
TOLERANCE, PASSES, ORDERS = 0.05, 60, 10

EVIDENCE = (
    "linear heads below the best",
    "log-probability by the linear heads",
    "linear heads below the best, cut at one",
)

Floats = npt.NDArray[np.float32]
Nodes = npt.NDArray[np.int32]


@dataclass
class Linear:
    """By feature the weights that are not zero (one in seven of words that one row alone has, half of the others) and the numbers
    of their classes, and the classes' constants; no classes where there are many, or no words."""

    classes: Nodes
    weight: Sparse
    constant: Floats
    cost: float = COSTS[0]

    @classmethod
    def none(cls, balls: Balls) -> Linear:
        """Heads of no class."""
        return cls(np.zeros(0, np.int32), no_weights(balls.items.X.shape[1]), np.zeros(0, np.float32))

    @classmethod
    def fitted(cls, balls: Balls, cost: float, wanted: bool, dual: Floats | None = None) -> Linear:
        """Heads of the classes of some items, or of none if they are not ``wanted``.

        ``dual`` (items, classes), what each item has in them, is where it starts, and is written: from those of nearly the same
        items they are sooner there, and it is the same place.

        That is decided once for a model (`is_for` all of its rows): its combiner reads them, or does not, whatever rows are left.
        """
        if not wanted:
            return cls.none(balls)
        return cls(balls.classes, *_solve(balls.items, balls.classes, cost, dual), cost).rounded()

    def rounded(self) -> Linear:
        """Weights as half-precision numbers hold them; those these heads had are written over."""
        half(self.weight.data, self.weight.data)
        return replace(self, constant=half(self.constant))

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(state["weight"], np.ndarray):  # pickled before zeros were left out
            weight, constant = without_zeros(state["weight"])
            state = state | {"weight": weight, "constant": constant}
        vars(self).update(state)

    def names(self) -> tuple[str, ...]:
        """Evidence columns."""
        return EVIDENCE if len(self.classes) else ()

    def ranked(self) -> tuple[str, ...]:
        """Of these, those by which candidates are ranked."""
        return EVIDENCE[1:2] if len(self.classes) else ()

    def scores(self, X: sparse.csr_matrix) -> Floats:
        """Of every class, (rows, classes)."""
        from vpunn.hipan.kernels.linear import linear_scores

        return linear_scores(Sparse.of(X), self.weight, self.constant)

    def look(self, X: sparse.csr_matrix) -> LinearLook:
        """Scores of some rows."""
        return LinearLook(self, self.scores(X))


@dataclass
class LinearLook:
    """What the linear heads say about some rows."""

    heads: Linear
    score: Floats

    def propose(self, limit: int) -> list[Nodes]:
        """Nothing: all classes are candidates already."""
        return []

    def evidence(self, candidates: Nodes) -> Floats:
        """Evidence (rows, candidates + 1, columns)."""
        classes = self.heads.classes
        out = np.zeros((len(candidates), candidates.shape[1] + 1, len(self.heads.names())), np.float32)
        if not len(classes) or not len(candidates):
            return out
        at = np.minimum(np.searchsorted(classes, candidates), len(classes) - 1)
        here = (classes[at] == candidates) & (candidates >= 0)
        below = self.score - self.score.max(1, keepdims=True)
        margin = np.where(here, np.take_along_axis(below, at, 1), np.float32(-4.0))
        total = np.log(np.exp(4.0 * below).sum(1, dtype=np.float64)).astype(np.float32)
        out[:, :-1, 0] = margin
        out[:, :-1, 1] = 4.0 * margin - total[:, None]
        out[:, :-1, 2] = np.maximum(margin, -1.0)
        out[:, -1, 1] = -total
        out[:, :-1][candidates < 0] = 0
        return out


def is_for(items: Items) -> bool:
    """Whether there are few classes, and words to tell them apart by."""
    return 2 <= len(np.unique(items.node)) <= FEW_CLASSES and items.X.nnz > 0


def chosen(
    balls: Balls, X: sparse.csr_matrix, node: Nodes, weight: Floats, wanted: bool, dual: Floats | None = None
) -> Linear:
    """Heads of the items if they are ``wanted``, their cost the one that is most often right on some rows that are not among these.

    Costs rise until one is worse than the one before: what is too weakly regularised takes longest to solve. ``dual`` is written as
    by `Linear.fitted`.
    """
    if not wanted or not is_for(balls.items):
        return Linear.fitted(balls, COSTS[0], wanted)
    rows = np.linspace(0, len(balls.items.node) - 1, min(len(balls.items.node), CHOOSING)).astype(np.int64)
    some = balls.items.take(rows)
    classes = np.unique(some.node).astype(np.int32)
    if len(classes) < 2:
        return Linear.fitted(balls, COSTS[0], wanted)
    everything = len(rows) == len(balls.items.node)
    best, most = Linear.none(balls), -1.0
    for cost in COSTS:
        own = np.zeros((len(rows), len(classes)), np.float32)
        heads = Linear(classes, *_solve(some, classes, cost, own), cost)
        right = float(weight @ (classes[heads.scores(X).argmax(1)] == node))
        if right < most:
            break
        if right > most:
            best, most = heads if everything else replace(best, cost=cost), right
            if everything and dual is not None:
                dual[:] = own
        del heads  # as large as anything in a fit
    if not everything:
        return Linear.fitted(balls, best.cost, wanted, dual)
    return best.rounded()


def no_weights(n_features: int) -> Sparse:
    """Of any classes."""
    return Sparse(np.zeros(n_features + 1, np.int64), np.zeros(0, np.uint8), np.zeros(0, np.float32))


def without_zeros(whole: Floats) -> tuple[Sparse, Floats]:
    """Weights by feature, and constants, of weights (features + 1, classes), the constants last."""
    found = sparse.csr_matrix(whole[:-1])
    small = np.min_scalar_type(whole.shape[1])
    return Sparse(found.indptr.astype(np.int64), found.indices.astype(small), found.data), whole[-1]


def _solve(items: Items, classes: Nodes, cost: float, dual: Floats | None = None) -> tuple[Sparse, Floats]:
    """Weights and constants."""
    from vpunn.hipan.kernels.linear import solve_one_against_rest

    X = items.X
    if len(classes) < 2 or not X.nnz:  # what is left of few rows: nothing to tell apart
        return no_weights(X.shape[1]), np.zeros(len(classes), np.float32)
    own = np.searchsorted(classes, items.node).astype(np.int32)
    if dual is None:
        dual = np.zeros((len(own), len(classes)), np.float32)
    rng = np.random.default_rng(0)
    order = np.stack([rng.permutation(len(own)).astype(np.int32) for _ in range(ORDERS)])
    row_cost = (cost * items.weight).astype(np.float32)
    given = Sparse.of(X), own, row_cost, order, dual, X.shape[1]
    return solve_one_against_rest(*given, np.float32(TOLERANCE), PASSES)[:2]
