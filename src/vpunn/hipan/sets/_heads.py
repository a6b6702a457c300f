"""One linear head per ball: does a row have an answer in it? Squared hinge, trained in the dual, all balls of a model."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from vpunn.hipan._crew import Arrays, Crew
from vpunn.hipan.kernels import sets as kernels
from vpunn.hipan.kernels.sets import ByRow

#: Cost of a row beyond its margin, the constant feature, and passes over the active rows.
COST, BIAS, EPOCHS = 3.0, 0.3, 6
#: Features in more than this share of the rows make no near misses. Up to so many rows, where it costs little, a larger share.
COMMON, LARGER, LARGER_UP_TO = 0.01, 0.03, 450
#: Smaller weights are dropped.
FLOOR = 0.03


class Trained(NamedTuple):
    """Weights by feature (features × labels) and the offset of each label."""

    weights: sparse.csr_matrix
    offset: np.ndarray


def as_sparse(matrix: sparse.csr_matrix) -> ByRow:
    """A SciPy matrix as the kernels read it."""
    return ByRow(
        matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), np.ascontiguousarray(matrix.data, np.float32)
    )


def train(
    X: sparse.csr_matrix, Y: sparse.csr_matrix, weight: np.ndarray, rng: np.random.Generator, crew: Crew
) -> Trained:
    """Heads of all columns of ``Y`` (rows × labels, closed under ancestors). Each is trained by itself."""
    order = rng.permutation(X.shape[0]).astype(np.int32)
    positives = Y.T.tocsr()
    cuts = _even(np.diff(positives.indptr), crew.shards)
    common = crew.share((X, X.T.tocsr(), weight, order))
    parts = ((positives[a:b], a) for a, b in itertools.pairwise(cuts) if a < b)
    found = crew.run(_train, (common,), parts)
    label, feature, value = (np.concatenate([part[k] for part in found]) for k in range(3))
    value = value.astype(np.float16).astype(np.float32)
    return Trained(
        sparse.csr_matrix((value, (feature, label)), shape=(X.shape[1], Y.shape[1])),
        np.concatenate([part[3] for part in found]),
    )


def _even(counts: np.ndarray, parts: int) -> np.ndarray:
    """Where to cut labels so that every part has about as many rows."""
    inside = np.searchsorted(np.cumsum(counts + 1), np.arange(1, parts) * ((counts + 1).sum() / parts))
    return np.concatenate([[0], inside, [len(counts)]])


def _train(common: tuple[Any, ...], positives: sparse.csr_matrix, base: int) -> Arrays:
    """Heads of some labels (labels × rows that have them): label and feature of every weight, its value, and the offsets."""
    X, columns, weight, order = common
    (n, features), labels = X.shape, positives.shape[0]
    common_rows = int(max(COMMON * n, min(LARGER * n, LARGER_UP_TO))) + 1
    plan = kernels.Plan((1.0 / (2.0 * COST * weight)).astype(np.float32), BIAS, 0.2, FLOOR, 0.1, common_rows, EPOCHS)
    desk = kernels.Desk(
        np.zeros(features, np.float32),
        np.full(features, -1, np.int32),
        np.full(features, -1, np.int32),
        np.empty(features, np.int32),
        np.zeros(n, np.float32),
        np.full(n, -1, np.int8),
        np.full(n, -1, np.int32),
        np.empty(n, np.int32),
    )
    table = as_sparse(X), as_sparse(positives), as_sparse(columns), order, plan, desk, base
    offset, filled = np.full(labels, -1.0, np.float32), np.zeros(1, np.int64)
    room = 4 * X.nnz + 64 * features + n + 1024
    head_ids, head_values = np.empty((room, 2), np.int32), np.empty(room, np.float32)
    done = 0
    while True:
        done = kernels.train_heads(*table, done, offset, head_ids, head_values, filled)
        if done == labels:
            break
        for seen in (desk.seen_feature, desk.marked, desk.seen_row):
            seen[:] = -1  # the label that did not fit is trained again
        head_ids, head_values = (np.concatenate([a, np.empty_like(a)]) for a in (head_ids, head_values))
    heads = slice(filled[0])
    return head_ids[heads, 0] + base, head_ids[heads, 1].copy(), head_values[heads].copy(), offset
