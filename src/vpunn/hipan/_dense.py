"""The dense expert: rows of numbers (embeddings, measurements) compared with balls and items in a space of their own.

A block is standardised and whitened by the spread *within* classes, S = Σ (x − μ_c)(x − μ_c)ᵀ / (rows − classes), shrunk to a
multiple of the identity by as many numbers as it has columns: where rows of one class differ, differences count little. In that
space every ball has the sum of its rows, as in `_balls`, and speaks by

- the cosine with its centroid, at the node, its ball and the ball above;
- a closed-form head, ⟨z, μ⟩ − ‖μ‖²/2 + ln count, with means shrunk along the ancestors (linear discriminant analysis on a tree);
- its nearest items, by angle and by distance, and the votes of the row's nearest items of all, at the node, parent and branch;
- a trained head where classes are few (`_logistic`);
- each description of the node.

Cost: O(columns) a row for every item and ball. Directions are rounded so that their products are exact (`exactly`): a row gives
the same bits alone and in a batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from vpunn.hipan._balls import FEW_CLASSES, Items, branches
from vpunn.hipan._logistic import fit_logistic
from vpunn.hipan._nearest import SHARPNESS, VOTERS
from vpunn.hipan._views import LARGEST, says
from vpunn.tree import Tree

Floats = npt.NDArray[np.float32]
Nodes = npt.NDArray[np.int32]

#: A mean of this many rows' worth of its parent's.
DOUBT = 1.0

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
    """How rows of a block are read: (x − centre) / scale · turn."""

    centre: Floats
    scale: Floats
    turn: Floats

    @classmethod
    def of(cls, X: npt.NDArray[Any], node: Nodes, weight: Floats) -> Space:
        """Standardise, then whiten within classes."""
        X = np.asarray(X, np.float64)
        centre, scale = X.mean(0), X.std(0)
        scale = np.where(
            scale > 1e-9 * np.maximum(np.abs(centre), 1e-9), scale, LARGEST
        )  # constant columns say nothing
        Z = (X - centre) / scale
        classes, at = np.unique(node, return_inverse=True)
        count = np.bincount(at)
        sums = np.zeros((len(classes), X.shape[1]))
        np.add.at(sums, at, Z)
        several = count[at] > 1
        inside = Z[several] - (sums / count[:, None])[at[several]]
        freedom = max(len(inside) - int((count > 1).sum()), 0)
        width = X.shape[1]
        spread = inside.T @ inside / max(freedom, 1)
        usual = float(np.trace(spread)) / width if freedom else 1.0
        usual = usual if usual > 1e-9 else 1.0
        doubt = (width + 10.0) / (width + 10.0 + freedom)
        value, axes = np.linalg.eigh((1.0 - doubt) * spread + doubt * usual * np.eye(width))
        axes = axes * np.where(axes[np.abs(axes).argmax(0), np.arange(width)] < 0, -1.0, 1.0)  # signs are arbitrary
        turn = axes / np.sqrt(np.maximum(value, 1e-9))
        return cls(centre.astype(np.float32), scale.astype(np.float32), turn.astype(np.float32))

    def read(self, X: npt.NDArray[Any]) -> tuple[Floats, Floats]:
        """Directions of the rows in the whitened space (`exactly`), and their lengths."""
        from vpunn.hipan.kernels.dense import times

        standard = (np.asarray(X, np.float64) - self.centre) / self.scale
        standard[~says(X)] = 0
        Z, length = times(standard, self.turn)
        return exactly(Z / np.where(length > 0, length, 1.0)[:, None]), length.astype(np.float32)


def exactly(directions: npt.NDArray[Any]) -> Floats:
    """Rows of length one as multiples of 2⁻¹², a little shorter so that rounding does not make them longer than one.

    Products of two such rows, and all their partial sums, are multiples of 2⁻²⁴ of at most one: every sum is exact in 32 bits, so
    a product has the same bits in any order, alone or in a batch, whatever library multiplies with however many threads.
    """
    room = 1.0 - np.sqrt(directions.shape[1]) * 2.0**-13
    return np.asarray(np.rint(np.asarray(directions, np.float64) * (4096 * room)) / 4096, np.float32)


def directed(vectors: npt.NDArray[Any]) -> tuple[Floats, Floats]:
    """Columns of `exactly` that point where the rows of ``vectors`` do, and the lengths."""
    length = np.sqrt((np.asarray(vectors, np.float64) ** 2).sum(1))
    unit = vectors / np.where(length > 0, length, 1.0)[:, None]
    return np.ascontiguousarray(exactly(unit).T), length.astype(np.float32)


@dataclass
class Dense:
    """One dense block, fitted on items."""

    name: str
    tree: Tree
    items: Items
    space: Space | None = None
    head: Floats | None = None
    proposes: bool = True
    classes: Nodes = field(init=False)

    def __post_init__(self) -> None:
        items, tree = self.items, self.tree
        if self.space is None:
            with threadpool_limits(1, user_api="blas"):  # sums in another order are other bytes
                self.space = Space.of(items.X, items.node, items.weight)
        n = tree.n_nodes
        unit, length = self.space.read(items.X)
        order = np.lexsort((-items.kind.astype(np.int8), items.node))
        self.memory = np.ascontiguousarray(unit[order].T)  # `exactly` directions
        self.memory_length, self.memory_node = length[order], items.node[order].astype(np.int32)
        self.memory_kind = items.kind[order]
        self.span = np.searchsorted(self.memory_node, np.arange(n + 1)).astype(np.int64)
        self.classes = np.unique(items.node).astype(np.int32)
        self.n_kinds = int(items.kind.max(initial=0))
        self._centroids(unit)
        self._means(unit * length[:, None])
        if self.head is None:
            self.head = self._trained(unit * length[:, None])
        self.head_direction, self.head_length = directed(self.head[:-1].T)
        self.class_at = np.full(n, -1, np.int32)
        self.class_at[self.classes] = np.arange(len(self.classes))
        self.branch = branches(tree)

    def _centroids(self, unit: Floats) -> None:
        """Unit sums of the rows of every node and of every inner ball that has some; where each block stands."""
        tree, items = self.tree, self.items
        n = tree.n_nodes
        own = np.zeros((n, unit.shape[1]))
        np.add.at(own, items.node, unit * items.weight[:, None].astype(np.float64))
        sums = np.concatenate([own, tree.subtree_sum(own)])
        length = np.sqrt((sums**2).sum(1))
        kept = length > 1e-6
        kept[n:] &= ~tree.is_leaf
        kept[n] = False  # the root separates nothing
        self.block_at = np.full(2 * n, -1, np.int32)
        self.block_at[kept] = np.arange(int(kept.sum()))
        self.centroid = directed(sums[kept])[0]

    def _means(self, Z: Floats) -> None:
        """Head of every class in closed form: mean shrunk to that of the ball above, its half square, and the log count."""
        tree, items = self.tree, self.items
        n = tree.n_nodes
        own, count = np.zeros((n, Z.shape[1])), np.bincount(items.node, items.weight, minlength=n)
        np.add.at(own, items.node, Z * items.weight[:, None].astype(np.float64))
        total, number = tree.subtree_sum(own), tree.subtree_sum(count)
        ball = np.zeros_like(own)
        for depth in range(1, tree.max_depth + 1):
            at = np.flatnonzero(tree.depth == depth)
            up = ball[tree.parent[at]]
            ball[at] = (total[at] + DOUBT * up) / (number[at] + DOUBT)[:, None]
        above = np.where(tree.is_leaf, np.maximum(tree.parent, 0), np.arange(n))
        classes = self.classes
        mean = (own[classes] + DOUBT * ball[above[classes]]) / (count[classes] + DOUBT)[:, None]
        self.ball_mean, self.own_mean = ball, mean
        self.mean, self.mean_length = directed(mean)
        share = np.bincount(items.node[items.kind == 0], minlength=n)[classes] + 0.5
        self.mean_bias = (np.log(share / share.sum()) - 0.5 * (mean**2).sum(1)).astype(np.float32)

    def _trained(self, Z: Floats) -> Floats:
        """Softmax weights of few classes, bias in the last row; nothing where there are many."""
        if not 2 <= len(self.classes) <= FEW_CLASSES:
            return np.zeros((Z.shape[1] + 1, 0), np.float32)
        place = np.searchsorted(self.classes, self.items.node)
        with threadpool_limits(1, user_api="blas"):
            return fit_logistic(Z, place, self.items.weight, len(self.classes))

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
        return self.space.turn @ (own - above), -0.5 * float((own**2).sum() - (above**2).sum())

    def names(self) -> tuple[str, ...]:
        """Evidence columns."""
        return dense_names(self.name, self.n_kinds)

    def ranked(self) -> tuple[str, ...]:
        """Of these, those by which candidates are ranked."""
        return dense_ranked(self.name, self.n_kinds)

    def look(self, X: npt.NDArray[Any]) -> Look:
        """All products of some rows with items, balls and heads."""
        assert self.space is not None and self.head is not None
        unit, length = self.space.read(X)
        closed = (unit @ self.mean) * (length[:, None] * self.mean_length) + self.mean_bias
        trained = self._by_trained_head(unit, length)
        near, balls = unit @ self.memory, unit @ self.centroid
        return Look(self, length, near, balls, closed, trained)

    @property
    def has_trained_head(self) -> bool:
        """Whether classes are few enough for one."""
        return self.head is not None and self.head.shape[1] > 0

    def trained(self, X: npt.NDArray[Any]) -> Floats:
        """Scores (rows, classes) by the trained head alone."""
        assert self.space is not None
        return self._by_trained_head(*self.space.read(X))

    def _by_trained_head(self, unit: Floats, length: Floats) -> Floats:
        assert self.head is not None
        return np.asarray((unit @ self.head_direction) * (length[:, None] * self.head_length) + self.head[-1])


@dataclass
class Look:
    """What a dense block says about some rows."""

    block: Dense
    length: Floats
    near: Floats
    balls: Floats
    closed: Floats
    trained: Floats
    nearest: Nodes | None = None  #: items from the nearest on, once they have been looked for

    def propose(self, limit: int) -> list[Nodes]:
        """Nodes by centroid, by closed-form head, ``limit`` of each, and by nearest item; the first may repeat."""
        from vpunn.hipan.kernels.dense import best_columns

        block = self.block
        if not block.proposes:
            return []
        n = block.tree.n_nodes
        own = np.flatnonzero(block.block_at[:n] >= 0).astype(np.int32)
        self.nearest = best_columns(self.near, min(max(2 * limit, VOTERS), self.near.shape[1]))
        by_item = block.memory_node[self.nearest[:, : 2 * limit]]
        found = [
            own[best_columns(self.balls[:, : len(own)], min(limit, len(own)))],
            block.classes[best_columns(self.closed, min(limit, len(block.classes)))],
            by_item,
        ]
        return found

    def evidence(self, candidates: Nodes) -> Floats:
        """Evidence (rows, candidates + 1, columns)."""
        from vpunn.hipan.kernels.dense import best_columns, gather_dense

        block = self.block
        tree = block.tree
        voters = min(VOTERS, self.near.shape[1])
        nearest = best_columns(self.near, voters) if self.nearest is None else self.nearest[:, :voters]
        found: Floats = gather_dense(
            candidates,
            tree.parent,
            block.branch,
            (self.near, self.length, block.memory_length, block.memory_node, block.memory_kind, block.span),
            (self.balls, block.block_at),
            (self.closed, self.trained, block.class_at),
            block.n_kinds,
            np.ascontiguousarray(nearest),
            np.float32(SHARPNESS),
        )
        return found
