"""What ``y`` may be when rows have several labels: sets, lists or indicator columns; always node ids of one tree.

A label that is an ancestor of another one of the row adds nothing: whoever is a *robin* is a *bird*. An empty set says that
none of the labels is right.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from vpunn.errors import VpunnError, examples, repeated
from vpunn.hipan import inputs, targets
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn._types import Label, Labels, SetTargets


class LabelSets(NamedTuple):
    """The labels of all rows one after the other: row ``i`` has ``labels[start[i]:start[i + 1]]``."""

    start: np.ndarray
    labels: list[Any]
    classes: np.ndarray | None  #: the labels of the indicator's columns

    def __len__(self) -> int:
        return len(self.start) - 1

    def single(self) -> bool:
        """Whether every row has exactly one label."""
        return bool((np.diff(self.start) == 1).all())

    def column(self) -> Labels:
        """The one label of each row, as `fit` takes labels."""
        if any(isinstance(label, tuple) for label in self.labels):
            return list(self.labels)
        return (
            np.array(self.labels)
            if self.labels and not isinstance(self.labels[0], str)
            else np.array(self.labels, object)
        )


def read_sets(y: SetTargets, multilabel: bool = False, classes: Labels = None) -> LabelSets | None:
    """Label sets if ``y`` holds them: sets, a sparse indicator, or with ``multilabel`` lists or a dense indicator; else None."""
    if classes is not None and not isinstance(classes, str):  # a text is its letters
        targets.refuse_single(classes, "classes", "one label per column")
    if sparse.issparse(y):
        y = inputs.in_place(y, "y")
        return _from_indicator(sparse.csr_matrix(y), classes)
    targets.refuse_single(y)
    if multilabel and hasattr(y, "columns") and hasattr(y, "to_numpy"):
        y, classes = y.to_numpy(), list(y.columns) if classes is None else classes
    if hasattr(y, "tolist") and getattr(y, "ndim", 1) == 2:
        return _from_indicator(_dense(y), classes) if multilabel else _no_classes(classes)
    if not isinstance(y, Iterable):
        return None
    rows = list(y)
    some = [isinstance(row, set | frozenset) for row in rows]
    if not any(some) and not multilabel:
        return _no_classes(classes)
    if multilabel:
        some = [isinstance(row, set | frozenset | list | tuple | np.ndarray) for row in rows]
    if not all(some):
        wrong = [row for row, ok in zip(rows, some, strict=True) if not ok]
        raise VpunnError(
            f"some rows have sets of labels and others not, such as {examples(wrong[:3])}; write {{label}} for one label "
            "and set() for none."
        )
    if multilabel and classes is not None and rows and not any(isinstance(row, set | frozenset) for row in rows):
        return _from_indicator(_dense(np.array(rows)), classes)
    parts = [sorted(row, key=_order) if isinstance(row, set | frozenset) else list(row) for row in rows]
    missing = [i for i, part in enumerate(parts) if any(targets._absent(label) for label in part)]
    if missing:
        raise VpunnError(f"rows {examples(missing)} have a missing label (None or NaN) in their set; leave it out.")
    start = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return LabelSets(start, [label for part in parts for label in part], None)


def _order(label: Label) -> tuple[str, Any]:
    """Sets have no order, and the same set must always give the same model."""
    return type(label).__name__, label if isinstance(label, str | int | float | tuple) else repr(label)


def _no_classes(classes: Labels) -> LabelSets | None:
    """No sets, so there are no columns to name either."""
    if classes is not None:
        raise VpunnError(
            "classes= names the columns of an indicator matrix; pass it with a sparse y or multilabel=True."
        )
    return None


def _dense(y: SetTargets) -> sparse.csr_matrix:
    table = np.asarray(y)
    if table.ndim != 2 or table.dtype.kind not in "biuf":
        raise VpunnError(
            f"an indicator of several labels is a table of 0 and 1, got {table.dtype} of shape {table.shape}."
        )
    return sparse.csr_matrix(table)


def _from_indicator(table: sparse.csr_matrix, classes: Labels) -> LabelSets:
    table.sum_duplicates()
    table.eliminate_zeros()
    if not np.isin(table.data, (0, 1)).all():
        raise VpunnError(
            f"an indicator of several labels holds 0 and 1 only, got {examples(np.unique(table.data)[:5])}."
        )
    if classes is None:
        raise VpunnError(f"name the {table.shape[1]:,} columns of the indicator with classes=[…].")
    names = list(classes)
    if len(names) != table.shape[1]:
        raise VpunnError(
            f"classes= needs one label per column of the indicator: got {len(names):,} for {table.shape[1]:,}."
        )
    column = np.empty(len(names), object)
    column[:] = names
    if len(set(names)) < len(names):
        raise VpunnError(f"classes= names a label twice: {examples(repeated(names))}.")
    return LabelSets(table.indptr.astype(np.int64), column[table.indices].tolist(), column)


def place_sets(sets: LabelSets, tree: Tree | None) -> tuple[Tree, np.ndarray, np.ndarray | None]:
    """The tree (built from the labels if none is given), the node of every label, and the classes if there was no tree."""
    known = sets.labels if sets.classes is None else sets.classes.tolist()
    if not known or not sets.labels:
        raise VpunnError("all label sets are empty, so there is nothing to learn; give at least one row a label.")
    if tree is not None:
        return tree, targets.check_in_tree(tree, list(sets.labels)).astype(np.int32), None
    grown, node, flat = targets.tree_of(list(known))
    if sets.classes is not None:
        place = dict(zip(known, node.tolist(), strict=True))
        node = np.array([place[label] for label in sets.labels], np.int32)
    return grown, node, flat
