"""Trees that split rows by their numbers, so that rows of one leaf have similar label sets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from vpunn.hipan._kernel import at, kernel

#: Trees, rows of a leaf at least, the share of columns that a split looks at, and the principal scores that it explains.
TREES, LEAF, COLUMNS, SCORES = 100, 2, 0.5, 30


class Forest(NamedTuple):
    """P(node) = mean over trees of its weighted share among the training rows in the row's leaf.

    Trees are arrays one after the other: of an inner node the column, the cut and the two nodes below it, of a leaf
    (column -1) its slice of ``row``. Fit: O(trees x rows x columns x log rows).
    """

    root: np.ndarray  # (trees,) the first node of each
    column: np.ndarray  # (nodes,)
    cut: np.ndarray  # (nodes,) up to here to the left
    left: np.ndarray  # (nodes,) or where the rows of a leaf begin
    right: np.ndarray  # (nodes,) or where they end
    row: np.ndarray  # (trees x rows,)
    share: np.ndarray  # (trees x rows,) what the row counts in its leaf, over the number of trees

    @classmethod
    def fit(cls, z: np.ndarray, truth: sp.csr_matrix, weight: np.ndarray, rng: np.random.Generator) -> Forest:
        """Extremely randomised trees on what most of the label sets vary in."""
        from sklearn.ensemble import ExtraTreesRegressor

        seed = int(rng.integers(2**31))
        made = ExtraTreesRegressor(TREES, min_samples_leaf=LEAF, max_features=COLUMNS, random_state=seed)
        made.fit(z, principal_scores(truth, seed), weight)
        parts, nodes, rows = [], 0, 0
        for tree in (one.tree_ for one in made.estimators_):
            leaf = tree.apply(z.astype(np.float32))
            order = np.argsort(leaf, kind="stable")
            is_leaf = tree.children_left < 0
            ids = np.arange(tree.node_count)
            left = np.where(is_leaf, np.searchsorted(leaf[order], ids) + rows, tree.children_left + nodes)
            right = np.where(is_leaf, np.searchsorted(leaf[order], ids, "right") + rows, tree.children_right + nodes)
            share = weight[order] / np.bincount(leaf, weight, tree.node_count)[leaf[order]] / TREES
            parts.append((np.where(is_leaf, -1, tree.feature), tree.threshold, left, right, order, share))
            nodes, rows = nodes + tree.node_count, rows + len(order)
        root = np.concatenate([[0], np.cumsum([len(part[0]) for part in parts])[:-1]])
        column, cut, left, right, row, share = (np.concatenate(some) for some in zip(*parts, strict=True))
        ints = (a.astype(np.int32) for a in (root, column, left, right, row))
        root, column, left, right, row = ints
        return cls(root, column, cut, left, right, row, share.astype(np.float32))

    def read(self, z: np.ndarray, truth: sp.csr_matrix) -> np.ndarray:
        """The probability of every node, with the label sets of the training rows."""
        out = np.zeros((len(z), truth.shape[1]))
        _read(np.ascontiguousarray(z, np.float32), tuple(self), (truth.indptr.astype(np.int64), truth.indices), out)
        return out


def principal_scores(truth: sp.csr_matrix, seed: int) -> np.ndarray:
    """What label sets vary in most; all of it where there is little."""
    if min(truth.shape) <= SCORES + 1:
        return np.asarray(truth.toarray(), np.float64)
    from sklearn.decomposition import TruncatedSVD

    return np.asarray(TruncatedSVD(SCORES, random_state=seed).fit_transform(truth.astype(np.float64)))


@kernel
def _read(z, forest, truth, out):
    (root, column, cut, left, right, row, share), (start, label) = forest, truth
    for r in range(len(z)):
        for t in range(len(root)):
            v = root[t]
            while column[at(v)] >= 0:
                v = left[at(v)] if z[r, at(column[at(v)])] <= cut[at(v)] else right[at(v)]
            for i in range(left[at(v)], right[at(v)]):
                j = row[at(i)]
                for k in range(start[at(j)], start[at(j + 1)]):
                    out[r, at(label[at(k)])] += share[at(i)]
