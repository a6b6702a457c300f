"""Checks shared by the metrics."""

from __future__ import annotations

import numpy as np

from vpunn._types import Numbers
from vpunn.errors import VpunnError, examples
from vpunn.tree import Nodes, Tree

FloatArray = np.ndarray


def finite(values: Numbers, name: str) -> FloatArray:
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise VpunnError(f"{name} must be a list of numbers.") from None
    if array.ndim != 1 or not array.size:
        raise VpunnError(f"{name} must be a non-empty list of numbers, got shape {array.shape}.")
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise VpunnError(f"{name} must be finite; it is not at rows {examples(bad)}.")
    return array


def same_length(a: np.ndarray, b: np.ndarray, first: str, second: str) -> None:
    if len(a) != len(b):
        raise VpunnError(f"{first} and {second} must be equally long, got {len(a):,} and {len(b):,} values.")


def node_pairs(tree: Tree, true: Nodes, predicted: Nodes) -> tuple[np.ndarray, np.ndarray]:
    t, q = np.atleast_1d(tree.check_nodes(true)), np.atleast_1d(tree.check_nodes(predicted))
    if t.ndim != 1 or t.shape != q.shape or not len(t):
        raise VpunnError(f"need as many predicted nodes as true ones, and at least one: got {q.size} and {t.size}.")
    return t.astype(np.int64), q.astype(np.int64)
