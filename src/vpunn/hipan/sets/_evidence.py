"""What is known about every label of a row: nearest items, heads, words and rates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from vpunn.hipan.kernels import sets as kernels
from vpunn.hipan.kernels.sets import ByRow, Cuts, SetMemory
from vpunn.hipan.sets._heads import as_sparse

#: Names of the columns, in the order of the kernel.
COLUMNS = (
    "share of the nearest items, by similarity squared",
    "share of the nearest items, by its fourth power",
    "share of the thirty nearest items",
    "share of the three nearest items",
    "similarity of the nearest item that has it",
    "head score",
    "share among rows with the same words",
    "least head score of a parent",
    "least share of the nearest items at a parent",
    "least share by words at a parent",
    "log rate",
    "log rate within the rarest parent",
    "similarity of the nearest item",
    "mean similarity of the nearest items",
    "log number of known features",
    "depth",
)
assert len(COLUMNS) == kernels.WIDTH
#: Columns that are 0 for a row of which nothing is known.
SAYS = [COLUMNS.index("similarity of the nearest item"), COLUMNS.index("log number of known features")]
#: Labels with a head score, share by words or rate above these are candidates, besides those of near items.
CUTS = (-0.6, 0.1, 0.05)
#: Prior rows behind the share of a label among the rows with a word.
SHRINK = 2.0
#: Rows examined at once; the answer for a row does not depend on it.
BATCH = 512


class Pairs(NamedTuple):
    """Candidate labels of rows, ``label[start[i]:start[i + 1]]``, and the evidence about each."""

    start: np.ndarray
    label: np.ndarray
    evidence: np.ndarray

    def some(self, part: slice) -> Pairs:
        """Some of the rows."""
        low, high, _ = part.indices(len(self.start) - 1)
        span = slice(self.start[low], self.start[max(low, high)])
        return Pairs(self.start[low : max(low, high) + 1] - self.start[low], self.label[span], self.evidence[span])

    @staticmethod
    def joined(parts: list[Pairs]) -> Pairs:
        """Several, one after the other."""
        counts = np.concatenate([np.diff(part.start) for part in parts])
        return Pairs(
            np.concatenate([[0], np.cumsum(counts)]),
            np.concatenate([part.label for part in parts]),
            np.concatenate([part.evidence for part in parts]),
        )


def remember(
    X: sparse.csr_matrix,
    Y: sparse.csr_matrix,
    weights: sparse.csr_matrix,
    offset: np.ndarray,
    parents: ByRow,
    depth: np.ndarray,
) -> SetMemory:
    """All that evidence is read from; sums are rebuilt from the rows."""
    present = sparse.csr_matrix((np.ones(X.nnz, np.float32), X.indices, X.indptr), shape=X.shape)
    counts = sparse.csr_matrix(present.T @ Y)
    rate = np.asarray(Y.sum(0), np.float64).ravel() / max(X.shape[0], 1)
    return SetMemory(
        columns=as_sparse(X.T.tocsr()),
        labels=as_sparse(Y),
        heads=as_sparse(weights),
        counts=as_sparse(counts),
        offset=np.ascontiguousarray(offset, np.float32),
        rate=rate.astype(np.float32),
        parents=parents,
        depth=depth.astype(np.float32),
    )


def examine(memory: SetMemory, X: sparse.csr_matrix, planes: np.ndarray, plane_cuts: np.ndarray) -> Pairs:
    """Candidates of rows and the evidence about them; ``planes`` (planes, rows, labels) is what other experts say."""
    rows, labels, n = as_sparse(X), len(memory.offset), X.shape[0]
    cuts = Cuts(*CUTS, SHRINK, plane_cuts)
    n_items, features = memory.labels.start.shape[0] - 1, memory.columns.start.shape[0] - 1
    tray = kernels.Tray(
        np.zeros(features, np.float32),
        np.zeros(n_items, np.float32),
        np.zeros(n_items, np.bool_),
        np.empty(n_items, np.int32),
        np.zeros((7, labels), np.float32),
        np.zeros(kernels.NEAREST, np.float32),
        np.zeros(kernels.NEAREST, np.int32),
    )
    start = np.zeros(n + 1, np.int64)
    room = max(n * 128, 4096) + labels
    label, evidence = np.empty(room, np.int32), np.empty((room, kernels.WIDTH + len(plane_cuts)), np.float32)
    done = 0
    while True:
        done = kernels.examine(rows, planes, done, memory, cuts, tray, start, label, evidence)
        if done == n:
            return Pairs(start, label[: start[-1]].copy(), evidence[: start[-1]].copy())
        label = np.concatenate([label, np.empty_like(label)])
        evidence = np.concatenate([evidence, np.empty_like(evidence)])
