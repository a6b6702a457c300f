"""From table cells to nodes: label columns and level columns, with unseen labels falling back to their known ancestors.

Used by the estimators that take a hierarchical categorical input. `Tree.index` and `Tree.index_paths` are strict and
raise on unknown labels; here an unknown label is an ordinary event, answered by the deepest ancestor that is known.
"""

from __future__ import annotations

import numpy as np

from vpunn._types import Features
from vpunn.errors import TreeError, examples
from vpunn.tree import Tree
from vpunn.tree._inputs import label_array
from vpunn.tree.build import UNKNOWN, tree_from_levels


class NodeFinder:
    """Finds the node of each row of cells. Build with a tree (``NodeFinder(tree)``) or from cells (`NodeFinder.grow`).

    With a given tree one column holds *node labels* (any depth) and several columns hold *levels*, broadest first,
    starting below the root. A tree grown from cells always reads levels.
    """

    def __init__(self, tree: Tree, by_label: bool) -> None:
        import pandas as pd

        self.tree = tree
        self.by_label = by_label
        words, vocabulary = pd.factorize(label_array(tree.labels)[0])
        self._vocabulary = pd.Index(vocabulary, tupleize_cols=False)
        if by_label:
            # Inner nodes of a phylogeny may share a name, such as their support: refused only where a row asks for it.
            self._repeated = np.bincount(words[words >= 0], minlength=len(vocabulary)) > 1
            self._node_of_word = np.zeros(len(vocabulary), np.int64)
            named = np.flatnonzero(words >= 0)[::-1]
            self._node_of_word[words[named]] = named
        else:
            self._edges = pd.Index(tree.parent[1:].astype(np.int64) * len(vocabulary) + words[1:])
            if not self._edges.is_unique:
                twin = 1 + int(np.flatnonzero(self._edges.duplicated())[0])
                raise TreeError(
                    f"{tree.labels[tree.parent[twin]]!r} has two children named {tree.labels[twin]!r}, so level columns "
                    "cannot tell them apart; rename one."
                )

    @classmethod
    def grow(cls, cells: np.ndarray) -> NodeFinder:
        """The tree of the paths in level cells, one path per row; its root is labelled ``"root"``."""
        import pandas as pd

        return cls(tree_from_levels(pd.DataFrame(cells), root="root"), by_label=False)

    def locate(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The deepest known node of every row, and the depth the row's own path would have.

        The two differ in depth for rows with unseen labels. An unseen *node label* says nothing, so it is put at the
        root with the depth of the deepest leaf; a missing one (None, NaN, "") is the root itself.
        """
        import pandas as pd

        if self.by_label:
            return self._locate_labels(cells[:, 0])
        filled = ~missing_cells(cells)
        lengths = filled.sum(axis=1)
        nodes = np.zeros(len(cells), np.int64)
        going = np.ones(len(cells), bool)
        for k in range(cells.shape[1]):
            rows = np.flatnonzero(going & filled[:, k])
            word = self._vocabulary.get_indexer(pd.Index(cells[rows, k], dtype=object, tupleize_cols=False))
            edge = self._edges.get_indexer(nodes[rows] * len(self._vocabulary) + word)
            known = (word >= 0) & (edge >= 0)
            nodes[rows[known]] = edge[known] + 1
            going[rows[~known]] = False
        return nodes, lengths

    def _locate_labels(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        import pandas as pd

        word = self._vocabulary.get_indexer(pd.Index(labels, dtype=object, tupleize_cols=False))
        shared = word[(word >= 0) & self._repeated[word]]
        if len(shared):
            raise TreeError(
                f"the labels {examples(list(dict.fromkeys(self._vocabulary[shared])))} name several nodes of the tree each, so "
                "they do not say which; pass level columns instead, or a tree where they are unique."
            )
        nodes = np.where(word >= 0, self._node_of_word[word], 0)
        unseen = (word < 0) & ~missing_cells(labels)
        return nodes, np.where(unseen, self.tree.max_depth, self.tree.depth[nodes])


def missing_cells(cells: np.ndarray) -> np.ndarray:
    """Which cells say nothing: None, NaN or the empty string."""
    import pandas as pd

    return np.asarray(pd.isna(cells) | (cells == ""))


def level_cells(X: Features, columns: list[int]) -> np.ndarray:
    """The chosen columns of a two-dimensional array as objects: whole floats as integers, missing cells as None.

    A missing cell with a label below it is no end of a path but a gap; it becomes the level `UNKNOWN`, so that the labels
    below keep their depth.
    """
    cells = np.empty((len(X), len(columns)), object)
    for at, column in enumerate(columns):
        cells[:, at], missing = label_array(X[:, column])
        cells[missing, at] = None
    filled = ~missing_cells(cells)
    reaches = np.logical_or.accumulate(filled[:, ::-1], axis=1)[:, ::-1]
    cells[reaches & ~filled] = UNKNOWN
    return cells
