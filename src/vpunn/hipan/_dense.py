"""The dense expert: rows of numbers (embeddings, measurements) compared with balls and items in a space of their own.

A block is standardised and whitened by the spread *within* classes, S = Σ (x − μ_c)(x − μ_c)ᵀ / (rows − classes), shrunk to a
multiple of the identity (`_within`): where rows of one class differ, differences count little. Then it is
turned to the axes of the spread λ *between* classes, and an axis counts λ / (1 + 2λ), as it does in the odds that two rows have one
class against two (probabilistic discriminant analysis); in wide blocks axes with little spread are left out. In that space every
ball has the sum of its rows, as in `_balls`, and speaks by

- the cosine with its centroid, at the node, its ball and the ball above;
- a closed-form head, ⟨z, μ⟩ − ‖μ‖²/2 + ln count, with means shrunk along the ancestors, the more the less an axis tells (linear
  discriminant analysis on a tree);
- its nearest items, by angle and by distance, and the votes of the row's nearest items of all, at the node, parent and branch;
- a trained head where classes are few (`_logistic`);
- each description of the node.

Cost: O(columns) a row for every item and class, a block at a time: no more than the best is kept; where there are many items, for
some of them (`_cells`). Directions are rounded so that their products are exact (`exactly`): a row gives the same bits alone and in
a batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from vpunn._rows import slices
from vpunn.hipan._arrays import Asked, Lift
from vpunn.hipan._balls import FEW_CLASSES, Items, branches
from vpunn.hipan._cells import CELLS_FROM, Cells, nearest_centre
from vpunn.hipan._directions import directed, exactly, padded
from vpunn.hipan._local import LOCAL, Local, suits
from vpunn.hipan._logistic import fit_logistic
from vpunn.hipan._nearest import SHARPNESS, VOTERS
from vpunn.hipan._places import PLACED, Places
from vpunn.hipan._views import LARGEST, says
from vpunn.hipan._within import PART, WIDE, usual_doubt, within
from vpunn.tree import Tree

Floats = npt.NDArray[np.float32]
Nodes = npt.NDArray[np.int32]
Starts = npt.NDArray[np.int64]

#: Blocks of as many columns, and more than rows, are read in the space of their rows. In smaller ones the axes off that space cost
#: little, and tell how far a new row lies from all items, which tables of a handful of rows need.
MANY_COLUMNS = 256
#: Axes on which classes spread less than this share of the mean over all axes are left out of those.
FAINT_AXIS = 0.5
#: Classes stand in cells where there are so many for each of these: with fewer, all products cost no more than the centres'.
CLASSES_A_CELL = 4
#: Rows nearer to the centre than this, of the spread within classes, have no direction.
NOWHERE = 1e-6
#: Where this many classes drawn by their items hold more items than there are, all products are kept instead of made again.
CROWD = 160

EVIDENCE = (
    "cosine with the node's own centroid",
    "cosine with its ball's centroid",
    "cosine with the parent ball's centroid",
    "similarity of the nearest item",
    "similarity of the second nearest item",
    "log-distance of the nearest item above the least",
    "votes of the nearest items for the node",
    "votes of the nearest items for the parent",
    "votes of the nearest items for the branch",
    "closed-form head below the best",
    "log-probability by the closed-form head",
    "log-probability of the parent by the closed-form head",
    "trained head below the best",
    "log-probability by the trained head",
    "cosine with the node's own centroid, below the best",
    "cosine with its ball's centroid, below the best",
    "cosine with the parent ball's centroid, below the best",
    "similarity of the nearest item, below the best",
    "similarity of the nearest item or description",
    "similarity of the nearest item or description, below the best",
)
PER_KIND = ("similarity with description {}", "similarity with description {}, below the best")


RANKED = (
    "cosine with the node's own centroid",
    "similarity of the nearest item or description",
    "log-probability by the closed-form head",
    "log-probability by the trained head",
)
RANKED_PER_KIND = ("similarity with description {}",)


def dense_ranked(block: str, n_kinds: int) -> tuple[str, ...]:
    """Names of the evidence columns that candidates are ranked by."""
    columns = RANKED + tuple(name.format(k + 1) for k in range(n_kinds) for name in RANKED_PER_KIND)
    return tuple(f"{block}: {name}" for name in columns)


def dense_names(block: str, n_kinds: int) -> tuple[str, ...]:
    """Names of all evidence columns of a dense block."""
    columns = EVIDENCE + tuple(name.format(k + 1) for k in range(n_kinds) for name in PER_KIND)
    return tuple(f"{block}: {name}" for name in columns)


@dataclass
class Space:
    """How rows of a block are read: (x − centre) / scale · turn, and what the closed-form head takes along each axis.

    ``pull`` is the spread of classes over that of the rows of a class: a mean is that of its rows and 1 / pull of the ball above.
    ``metric`` weighs the axes. ``usual`` is the length that the heads give all rows, 0 for their own: in wide blocks it tells how
    plain a row is rather than which class it has, and rows that the encoder has not learned from are longer or shorter than others.
    """

    centre: Floats
    scale: Floats
    turn: Floats
    pull: Floats
    metric: Floats
    usual: float = 0.0

    @classmethod
    def of(cls, X: npt.NDArray[Any], node: Nodes) -> Space:
        """Standardise, whiten within classes, and weigh by the spread between them."""
        Z = np.array(X, np.float64)  # worked on in place: several copies would be much of what a fit holds in memory
        centre, scale = Z.mean(0), _scale_of(Z)
        width = Z.shape[1]
        Z -= centre
        Z /= scale
        basis = _spanned(Z)
        Z = Z if basis is None else Z @ basis
        spread, doubt, n_classes = within(Z, node, width)
        value, axes = np.linalg.eigh(spread)
        white = axes / np.sqrt(np.maximum(value, 1e-9))
        between, axes = np.linalg.eigh(white.T @ (Z.T @ Z / len(Z)) @ white - np.eye(Z.shape[1]))
        between, axes = np.maximum(between[::-1], 0.0), axes[:, ::-1]
        doubt += (1.0 - doubt) * usual_doubt(width, n_classes - 1)
        mean = between.sum() / width
        between = (1.0 - doubt) * between + doubt * mean if between.any() else np.ones(len(between))
        wide = width >= WIDE
        kept = between >= (FAINT_AXIS * mean if wide else 0.0)
        between, turn = between[kept], white @ axes[:, kept]
        turn = turn if basis is None else basis @ turn
        turn = turn * np.where(
            turn[np.abs(turn).argmax(0), np.arange(len(between))] < 0, -1.0, 1.0
        )  # signs are arbitrary
        count = between / (1.0 + 2.0 * between)
        count /= count.mean()
        turn = turn * np.sqrt(count)
        usual = float(np.sqrt((count * (1.0 + between)).sum())) if wide else 0.0
        metric = 1.0 / (count * (1.0 + between / (1.0 + between)))  # a mean of one row is as unsure as that row
        centre, scale, turn, pull, metric = (np.asarray(a, np.float32) for a in (centre, scale, turn, between, metric))
        return cls(centre, scale, turn, pull, metric, usual)

    @classmethod
    def plain(cls, X: npt.NDArray[Any], node: Nodes) -> Space:
        """The columns as they are given: distances are those of the rows themselves."""
        Z = np.array(X, np.float64)
        centre, scale = Z.mean(0), _scale_of(Z)
        Z = (Z - centre) / scale
        spread = np.maximum(np.diag(within(Z, node, Z.shape[1]).spread), 1e-9)
        between = np.maximum((Z**2).mean(0) / spread - 1.0, 0.0)
        between = between if between.any() else np.ones(len(between))
        metric = 1.0 / (spread * (1.0 + between / (1.0 + between)))
        parts = (centre, scale, np.eye(Z.shape[1]), between, metric)
        centre, scale, turn, pull, metric = (np.asarray(a, np.float32) for a in parts)
        return cls(centre, scale, turn, pull, metric)

    def read(self, X: npt.NDArray[Any]) -> tuple[Floats, Floats]:
        """Directions of the rows in the space (`exactly`), and their lengths: 0 of rows that say nothing. A row at the centre has
        no direction, and what lies there can still be told by the heads and by distances."""
        from vpunn.hipan.kernels.dense import times

        unit, lengths = np.empty((len(X), self.turn.shape[1]), np.float32), np.empty(len(X), np.float32)
        for part in slices(len(X), PART):
            standard, said = (np.asarray(X[part], np.float64) - self.centre) / self.scale, says(X[part])
            standard[~said] = 0
            Z, length = times(standard, self.turn)
            Z[length < NOWHERE] = 0
            unit[part] = exactly(Z / np.where(length >= NOWHERE, length, 1.0)[:, None])
            lengths[part] = np.where(said, np.maximum(length, NOWHERE), 0.0)
        return unit, lengths

    def heard(self, length: Floats) -> Floats:
        """The lengths of rows for the heads."""
        return np.where(length > 0, np.float32(self.usual), np.float32(0)) if self.usual else length


def _scale_of(Z: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What the columns are divided by."""
    scale = Z.std(0)
    scale = np.where(scale > 1e-9 * np.maximum(np.abs(Z.mean(0)), 1e-9), scale, LARGEST)  # constant ones say nothing
    if Z.shape[1] >= WIDE:  # the layout has given its columns the scales that they count by
        scale[scale < LARGEST] = np.sqrt((scale[scale < LARGEST] ** 2).mean()) if (scale < LARGEST).any() else 1.0
    return np.asarray(scale)


def _spanned(Z: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    """Orthonormal axes (columns) of all that fewer rows than columns span; None if there are more rows, or not `MANY_COLUMNS`.

    Off these axes items are all alike, so nothing can be learned there, and tables of thousands of columns, such as genes, cost
    what their rows cost.
    """
    if Z.shape[1] < max(MANY_COLUMNS, len(Z) + 1):
        return None
    value, axes = np.linalg.eigh(Z @ Z.T)
    real = value > 1e-10 * float(value[-1])
    if not real.any():  # rows that are all the same
        return np.eye(Z.shape[1], 1)
    return np.asarray(Z.T @ (axes[:, real] / np.sqrt(value[real])))


#: What a block keeps when it learns more items.
KEPT_OF_BLOCKS = ("proposes", "penalty", "own_length", "is_local", "is_placed", "is_plain")


def are_many(items: int) -> bool:
    """Whether so many items stand in cells."""
    return items >= CELLS_FROM


@dataclass
class Dense:
    """One dense block, fitted on items."""

    name: str
    tree: Tree
    items: Items
    space: Space | None = None
    head: Floats | None = None
    proposes: bool = True
    cells: Cells | None = None
    in_cells: bool | None = None  #: whether items stand in cells; None: if they are many
    penalty: float | None = None  #: of the trained head; None: to be chosen
    own_length: bool = False  #: whether that reads all rows at their own length, as in older folders
    is_local: bool | None = (
        None  #: whether classes have spreads of their own; None: if that suits them. Never in wide blocks
    )
    is_placed: bool = False  #: whether items at the place of a row speak
    is_plain: bool = False  #: whether a wide block is read by plain distances, as narrow ones are
    classes: Nodes = field(init=False)

    def __post_init__(self) -> None:
        items, tree = self.items, self.tree
        if self.space is None:
            with threadpool_limits(1, user_api="blas"):  # sums in another order are other bytes
                self.space = (Space.plain if self.is_plain else Space.of)(items.X, items.node)
        n = tree.n_nodes
        unit, length = self.space.read(items.X)
        self.span = np.searchsorted(np.sort(items.node), np.arange(n + 1)).astype(np.int64)
        size = np.diff(self.span).astype(np.float64)
        if self.is_local is None:
            self.is_local = suits(len(unit), int((size > 0).sum()))
        self.is_local &= self.is_plain or items.X.shape[1] < WIDE
        self.crowded = self.is_local or bool(CROWD * (size**2).sum() > size.sum() ** 2)
        in_cells = are_many(len(unit)) if self.in_cells is None else self.in_cells
        if self.cells is None and in_cells and not self.crowded:
            self.cells = Cells.of(unit)
        self._remember(unit, length)
        self.classes = np.unique(items.node).astype(np.int32)
        self.n_kinds = int(items.kind.max(initial=0))
        self._means(unit, self.space.heard(length))
        self._centroids(unit)
        if self.head is None:
            self.head = self._trained(unit * self._length(length)[:, None])
        head, self.head_length = directed(self.head[:-1].T)
        self.head_direction = padded(head)
        self.branch = branches(tree)
        with threadpool_limits(1, user_api="blas"):
            self.local = Local(self, unit, length) if self.is_local else None
        self.places = Places(unit, length, items, n) if self.is_placed else None

    def _remember(self, unit: Floats, length: Floats) -> None:
        """Directions of the items, cell by cell, and where those of each node stand."""
        node, kind, cells = self.items.node, self.items.kind, self.cells
        cell = np.zeros(len(node), np.int32) if cells is None else cells.of_item
        order = np.lexsort((-kind.astype(np.int8), node, cell))
        self.memory, self.memory_length = padded(unit[order]), length[order]
        self.memory_node, self.memory_kind = node[order].astype(np.int32), kind[order]
        self.by_node = np.argsort(self.memory_node, kind="stable").astype(np.int32)
        self.cell_start = None if cells is None else cells.starts(cell[order])

    def _sums(self, unit: Floats, length: Floats) -> npt.NDArray[np.float64]:
        """Weighted sums of the rows of every node."""
        from vpunn.hipan.kernels.dense import add_rows

        own = np.zeros((self.tree.n_nodes, unit.shape[1]))
        add_rows(unit, length, self.items.node, self.items.weight, own)
        return own

    def _centroids(self, unit: Floats) -> None:
        """Unit sums of the rows of every node and of every inner ball that has some; where each block stands: classes first, in
        their order."""
        tree, n = self.tree, self.tree.n_nodes
        own = self._sums(unit, np.ones(len(unit), np.float32))
        sums = np.concatenate([own, tree.subtree_sum(own)])
        length = np.sqrt((sums**2).sum(1))
        kept = length > 1e-6
        kept[n:] &= ~tree.is_leaf
        kept[n] = False  # the root separates nothing
        stays = kept[self.classes]
        self.own = self.classes[stays]  # classes whose rows do not cancel
        blocks = np.concatenate([self.own, n + np.flatnonzero(kept[n:])])
        self.block_at = np.full(2 * n, -1, np.int32)
        self.block_at[blocks] = np.arange(len(blocks))
        self.centroid = padded(directed(sums[blocks])[0])
        self.class_start, self.own_start = None, None
        if self.cells is not None and self.class_cell is not None:
            self.class_start, self.own_start = (self.cells.starts(c) for c in (self.class_cell, self.class_cell[stays]))

    def _means(self, unit: Floats, length: Floats) -> None:
        """Head of every class in closed form: mean shrunk to that of the ball above, its half square, and the log count."""
        assert self.space is not None
        tree, items = self.tree, self.items
        n = tree.n_nodes
        own, count = self._sums(unit, length), np.bincount(items.node, items.weight, minlength=n)
        total, number = tree.subtree_sum(own), tree.subtree_sum(count)
        pull, ball = self.space.pull.astype(np.float64), np.zeros_like(own)
        for depth in range(1, tree.max_depth + 1):
            at = np.flatnonzero(tree.depth == depth)
            ball[at] = (total[at] * pull + ball[tree.parent[at]]) / (number[at][:, None] * pull + 1.0)
        above = np.where(tree.is_leaf, np.maximum(tree.parent, 0), np.arange(n))
        classes = self.classes
        mean = (own[classes] * pull + ball[above[classes]]) / (count[classes][:, None] * pull + 1.0)
        share = np.bincount(items.node[items.kind == 0], minlength=n)[classes] + 0.5
        bias = (np.log(share / share.sum()) - 0.5 * (mean**2 @ self.space.metric)).astype(np.float32)
        direction, size = directed(mean * self.space.metric)
        order = self._place_classes(padded(direction))
        self.ball_mean, self.own_mean = ball, mean[order]
        self.mean, self.mean_length, self.mean_bias = padded(direction[order]), size[order], bias[order]
        self.classes = classes[order]
        self.class_at = np.full(n, -1, np.int32)
        self.class_at[self.classes] = np.arange(len(classes))

    def _place_classes(self, direction: Floats) -> npt.NDArray[np.int64]:
        """The order in which classes stand: cell by cell if there are many more than cells, each in that of its mean."""
        self.class_cell: Nodes | None = None
        number = len(direction)
        few = number <= FEW_CLASSES  # a trained head has them in the tree's order
        if self.cells is None or few or number < CLASSES_A_CELL * len(self.cells.centre):
            return np.arange(number)
        cell = nearest_centre(direction, self.cells.centre)
        order = np.argsort(cell, kind="stable")
        self.class_cell = cell[order]
        return order

    def _trained(self, Z: Floats) -> Floats:
        """Softmax weights of few classes, bias in the last row; nothing where there are many."""
        if not 2 <= len(self.classes) <= FEW_CLASSES:
            return np.zeros((Z.shape[1] + 1, 0), np.float32)
        place = np.searchsorted(self.classes, self.items.node)
        with threadpool_limits(1, user_api="blas"):
            head, self.penalty = fit_logistic(Z, place, self.items.weight, len(self.classes), self.penalty)
        return head

    def ball_head(self, block: int) -> tuple[npt.NDArray[Any], float]:
        """What a ball adds to the closed-form head: weights of the standardised columns, and a constant.

        Ball ``c`` below the number of nodes is the node alone, ``n_nodes + u`` the subtree of inner node u. Along the balls
        around a class the sums are its head, up to the log count: μ_c is the sum of the differences μ_B − μ_(ball above).
        """
        assert self.space is not None
        tree, n = self.tree, self.tree.n_nodes
        if block < n:
            above = self.ball_mean[block if not tree.is_leaf[block] else max(int(tree.parent[block]), 0)]
            own = self.own_mean[self.class_at[block]] if self.class_at[block] >= 0 else above
        else:
            own = self.ball_mean[block - n]
            above = self.ball_mean[max(int(tree.parent[block - n]), 0)]
        metric = self.space.metric.astype(np.float64)
        return self.space.turn @ (metric * (own - above)), -0.5 * float((own**2 - above**2) @ metric)

    def hears(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The columns of some rows as the closed-form head reads them: standardised, and all of one length in a wide block."""
        assert self.space is not None
        length = self.space.read(X)[1]
        factor = self.space.heard(length) / np.where(length > 0, length, 1.0)
        return np.asarray((X - self.space.centre) / self.space.scale * factor[:, None])

    def names(self) -> tuple[str, ...]:
        """Evidence columns."""
        more = (LOCAL if self.local else ()) + (PLACED if self.places else ())
        return dense_names(self.name, self.n_kinds) + tuple(f"{self.name}: {name}" for name in more)

    def ranked(self) -> tuple[str, ...]:
        """Of these, those by which candidates are ranked."""
        return dense_ranked(self.name, self.n_kinds)

    def look(self, X: npt.NDArray[Any]) -> Look:
        """Some rows as the block sees them."""
        assert self.space is not None
        unit, length = self.space.read(X)
        unit = padded(unit)
        near = unit @ self.memory.T if self.crowded else np.zeros((len(unit), 0), np.float32)
        return Look(self, unit, length, self.space.heard(length), near, self._by_trained_head(unit, length))

    @property
    def has_trained_head(self) -> bool:
        """Whether classes are few enough for one."""
        return self.head is not None and self.head.shape[1] > 0

    def trained(self, X: npt.NDArray[Any]) -> Floats:
        """Scores (rows, classes) by the trained head alone."""
        assert self.space is not None
        unit, length = self.space.read(X)
        return self._by_trained_head(padded(unit), length)

    def _length(self, length: Floats) -> Floats:
        """The lengths of rows for the trained head."""
        assert self.space is not None
        return length if self.own_length else self.space.heard(length)

    def _by_trained_head(self, unit: Floats, length: Floats) -> Floats:
        assert self.head is not None
        heard = self._length(length)[:, None]
        return np.asarray((unit @ self.head_direction.T) * (heard * self.head_length) + self.head[-1])


@dataclass
class Look:
    """What a dense block says about some rows."""

    block: Dense
    unit: Floats
    length: Floats
    heard: Floats  #: the length for the heads
    near: Floats  #: products with all items, where they are kept
    trained: Floats
    nearest: tuple[Nodes, Floats] | None = None  #: items and similarities, nearest first, once they were looked for

    def centroids(self) -> Floats:
        """Cosines with the centroids of all classes (0 where the rows of one cancel)."""
        at = self.block.block_at[self.block.classes]
        found = np.zeros((len(self.unit), len(at)), np.float32)
        found[:, at >= 0] = self.unit @ self.block.centroid[at[at >= 0]].T
        return found

    def closed(self) -> Floats:
        """Scores of all classes by the closed-form head."""
        block = self.block
        return np.asarray((self.unit @ block.mean.T) * block.mean_length * self.heard[:, None] + block.mean_bias)

    @cached_property
    def asked(self) -> Asked | None:
        """The cells that the rows look into."""
        return None if self.block.cells is None else self.block.cells.asked(self.unit)

    def closest(self, count: int) -> tuple[Nodes, Floats]:
        """The nearest items (of the cells looked into), nearest first, and their similarities."""
        from vpunn.hipan.kernels.products import best_columns

        count = min(count, len(self.block.memory))
        if self.nearest is None or self.nearest[0].shape[1] < count:
            if self.block.crowded:
                best = best_columns(self.near, count)
                self.nearest = best, np.take_along_axis(self.near, best, 1)
            else:
                self.nearest = self._best(self.block.memory, count, self.block.cell_start)
        item, similarity = self.nearest
        return np.ascontiguousarray(item[:, :count]), np.ascontiguousarray(similarity[:, :count])

    def _best(
        self, columns: Floats, limit: int, start: Starts | None, lift: Lift | None = None
    ) -> tuple[Nodes, Floats]:
        """The largest products with some directions, all of them or those of the cells looked into: from where to where those
        of each cell stand."""
        from vpunn.hipan.kernels.products import best_in_cells, best_products

        limit = min(limit, len(columns))
        if start is None or self.asked is None:
            return best_products(self.unit, columns, limit, lift)
        return best_in_cells(self.unit, columns, limit, self.asked, start, lift)

    def propose(self, limit: int) -> list[Nodes]:
        """Nodes by centroid and by closed-form head, ``limit`` of each, and by nearest item, which may repeat; rows that say
        nothing in the block propose nothing (−1)."""
        block = self.block
        if not block.proposes:
            return []
        head = Lift(self.heard, block.mean_length, block.mean_bias)
        found = [block.classes[self._best(block.mean, limit, block.class_start, head)[0]]]
        if len(block.own):  # their centroids come before those of the balls
            found.append(block.own[self._best(block.centroid[: len(block.own)], limit, block.own_start)[0]])
        found.append(block.memory_node[self.closest(max(2 * limit, VOTERS))[0][:, : 2 * limit]])
        if block.places is not None:
            found.append(block.places.propose(*self._standing(), limit))
        return [np.where(self.length[:, None] > 0, nodes, np.int32(-1)) for nodes in found]

    def evidence(self, candidates: Nodes) -> Floats:
        """Evidence (rows, candidates + 1, columns)."""
        from vpunn.hipan.kernels.dense import gather_dense

        block = self.block
        found: Floats = gather_dense(
            candidates,
            block.tree.parent,
            block.branch,
            (self.unit, self.length, self.heard, self.near),
            (block.memory, block.memory_length, block.memory_node, block.memory_kind, block.span, block.by_node),
            (block.centroid, block.block_at),
            (block.mean, block.mean_length, block.mean_bias, self.trained, block.class_at),
            block.n_kinds,
            self.closest(VOTERS),
            np.float32(SHARPNESS),
        )
        parts = [found]
        if block.local is not None:
            at = block.class_at[candidates]
            class_of = np.where(candidates < 0, -1, np.where(at < 0, len(block.classes), at)).astype(np.int32)
            parts.append(block.local.evidence(block, (self.unit, self.length, self.near), class_of))
        if block.places is not None:
            parts.append(block.places.evidence(*self._standing(), candidates))
        return np.concatenate(parts, 2) if len(parts) > 1 else found

    def _standing(self) -> tuple[Floats, Floats]:
        """Directions, as they were read, and lengths: where the rows stand."""
        assert self.block.space is not None
        return self.unit[:, : self.block.space.turn.shape[1]], self.length
