"""`ClassSums`: how often each class occurs at each node, as counts that add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vpunn._rows import check_no_missing, checked_weights
from vpunn._types import Table, Targets, Weights
from vpunn.errors import DataError, VpunnError, examples
from vpunn.scale._frames import as_arrow, check_node_ids, frame_nodes, same_tree
from vpunn.store import Draft, Storable, Stored
from vpunn.tree import Nodes, Tree

Array = npt.NDArray[Any]


class ClassSums(Storable):
    """How often each class was seen at each node: what a classifier on a tree, or an encoder of classes, needs of its rows.

    Only cells that were seen are kept, so a class missing in one part is normal; ``+`` joins the classes of both. Weights must
    be whole numbers here: they count repetitions, and a part of a row cannot be left out (`VPuNNClassifier` chooses its
    shrinkage by leaving rows out).

    >>> tree = Tree.from_parents([-1, 0, 0])
    >>> both = ClassSums.from_rows(tree, [1, 1], ["a", "b"]) + ClassSums.from_rows(tree, [2], ["c"])
    >>> both.classes.tolist(), both.table().tolist()
    (['a', 'b', 'c'], [[0, 0, 0], [1, 1, 0], [0, 0, 1]])
    """

    exact = True

    def __init__(self, tree: Tree, classes: Array, nodes: Array, column: Array, counts: Array) -> None:
        """``counts`` of class ``column`` at ``nodes``; cells may repeat and come in any order."""
        self.tree, self.classes = tree, classes
        keys, at = np.unique(nodes.astype(np.int64) * max(len(classes), 1) + column, return_inverse=True)
        total = np.zeros(len(keys), np.int64)
        np.add.at(total, at, counts)
        seen = total > 0
        self.counts = total[seen]
        self.nodes, self.column = np.divmod(keys[seen], max(len(classes), 1))

    @classmethod
    def from_rows(cls, tree: Tree, nodes: Nodes, y: Targets, w: Weights = None) -> ClassSums:
        """Count the class ``y`` of rows at ``nodes``; ``w`` (whole numbers) says how often each row counts."""
        nodes = check_node_ids(tree, nodes)
        labels = np.asarray(y)
        if labels.shape != nodes.shape:
            raise VpunnError(f"y needs one class for each of {len(nodes):,} rows, got shape {labels.shape}.")
        check_no_missing(labels)
        weights = None if w is None else checked_weights(w, len(nodes))
        if weights is not None and (weights != np.floor(weights)).any():
            odd = weights[weights != np.floor(weights)]
            raise VpunnError(f"weights of classes count repetitions and must be whole numbers, got {examples(odd)}.")
        counts = np.ones(len(nodes), np.int64) if weights is None else weights.astype(np.int64)
        classes, column = np.unique(labels, return_inverse=True)
        return cls(tree, classes, nodes, column, counts)

    @classmethod
    def from_frame(
        cls, tree: Tree, frame: Table, *, node: str = "node", label: str = "class", count: str = "count"
    ) -> ClassSums:
        """Counts computed elsewhere (``GROUP BY node, class``): one row per node and class."""
        table = as_arrow(frame)
        for name in (node, label, count):
            if name not in table.column_names:
                raise DataError(f"the frame has no column {name!r}; it has {examples(table.column_names)}.")
        counts = np.asarray(table[count].to_numpy(zero_copy_only=False))
        return cls.from_rows(tree, frame_nodes(tree, table[node]), np.asarray(table[label].to_pylist()), counts)

    @property
    def n_rows(self) -> int:
        """Rows counted."""
        return int(self.counts.sum())

    def weights(self) -> Array:
        """Rows at every node, as doubles."""
        return np.bincount(self.nodes, self.counts, minlength=self.tree.n_nodes)

    def table(self) -> Array:
        """(nodes × classes) counts."""
        found = np.zeros((self.tree.n_nodes, len(self.classes)), np.int64)
        found[self.nodes, self.column] = self.counts
        return found

    def __add__(self, other: Any) -> ClassSums:
        if not isinstance(other, ClassSums):
            return NotImplemented
        same_tree(self.tree, other.tree)
        if not (len(self.classes) and len(other.classes)):  # an empty part says nothing about the kind of its classes
            return self if len(self.classes) else other
        if (self.classes.dtype.kind in "OUS") != (other.classes.dtype.kind in "OUS"):
            raise VpunnError(
                f"classes such as {examples(self.classes[:2])} and {examples(other.classes[:2])} are of two kinds; "
                "read the column as text in every part."
            )
        classes = np.union1d(self.classes, other.classes)
        column = [np.searchsorted(classes, part.classes)[part.column] for part in (self, other)]
        joined = [np.concatenate(pair) for pair in ((self.nodes, other.nodes), column, (self.counts, other.counts))]
        return ClassSums(self.tree, classes, *joined)

    def __radd__(self, other: Any) -> ClassSums:
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClassSums):
            return NotImplemented
        same = all(
            np.array_equal(getattr(self, n), getattr(other, n)) for n in ("classes", "nodes", "column", "counts")
        )
        return same and self.tree.fingerprint == other.tree.fingerprint

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ClassSums({self.n_rows:,} rows, {len(self.classes)} classes; {self.tree!r})"

    def _to_store(self, draft: Draft) -> None:
        draft.add("tree", self.tree)
        draft.labels("classes", self.classes)
        for name in ("nodes", "column", "counts"):
            draft.array(name, getattr(self, name))

    @classmethod
    def _from_store(cls, stored: Stored) -> ClassSums:
        tree, classes = stored.get("tree", Tree), stored.labels("classes")
        nodes = stored.array("nodes", dtype="i8", shape=(None,), low=0, high=tree.n_nodes)
        column = stored.array("column", dtype="i8", shape=nodes.shape, low=0, high=len(classes))
        counts = stored.array("counts", dtype="i8", shape=nodes.shape, low=1)
        return cls(tree, classes, nodes, column, counts)
