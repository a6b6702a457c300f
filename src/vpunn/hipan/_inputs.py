"""What a caller gives to `fit`, checked and read: rows with their labels, descriptions of nodes, validation rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set, ValuesView
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from vpunn.errors import VpunnError, examples, refuse_lazy
from vpunn.hipan import _targets as targets
from vpunn.hipan._views import Layout, Rows, Sample, checked_blocks
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn._types import Descriptions, Features, Targets, Validation
    from vpunn.hipan.classifier import HiPaNClassifier


#: Descriptions are numbered in one signed byte.
MAX_DESCRIPTIONS = 127


def checked_pair(model: HiPaNClassifier, X: Features, y: Targets) -> tuple[dict[str, Any], Any]:
    """Features checked as scikit-learn does; targets only counted, because tuples and level columns are allowed."""
    refuse_lazy(y)
    check_column(y)
    blocks = checked_blocks(model, X)
    X = next(iter(blocks.values()))
    if not isinstance(y, list | tuple):
        y = np.asarray(y)
    check_length(X, y)
    column = np.asarray(y, dtype=object) if not hasattr(y, "dtype") else np.asarray(y)
    if column.ndim == 1 and column.dtype.kind == "c":
        raise VpunnError(f"labels are texts or whole numbers, got complex ones such as {column[0]}.")
    if column.ndim == 1 and column.dtype.kind == "f":
        from vpunn._sklearn import check_classification_targets

        if not np.isfinite(column).all():
            raise VpunnError("Input y contains NaN or infinity; every row needs a label.")
        try:
            check_classification_targets(column)
        except ValueError as error:
            raise VpunnError(str(error)) from error
    if column.ndim == 2 and column.shape[1] == 1:
        y = targets.as_column(np.asarray(y))
    return blocks, y


def check_length(X: Features, y: Targets) -> None:
    """One label per row."""
    check_column(y)
    if not hasattr(y, "__len__"):
        y = np.asarray(y)
    if len(y) != X.shape[0]:
        raise VpunnError(
            f"X has {X.shape[0]:,} rows but y has {len(y):,}; one label per row (inconsistent numbers of samples)."
        )


def check_column(y: Targets) -> None:
    """Something with labels in it that can be counted."""
    targets.refuse_single(y)
    if not (hasattr(y, "__len__") or hasattr(y, "__array__")) or isinstance(y, Mapping | Set | ValuesView):
        raise VpunnError(f"y must hold one label per row in a list or an array, got {repr(y)[:60]}.")


@contextmanager
def whole_or_as_before(model: HiPaNClassifier) -> Iterator[None]:
    """What is done inside changes the model as a whole, or, if it is refused or interrupted, not at all: half of it is new numbers
    beside old ones of other sizes."""
    before = dict(model.__dict__)
    try:
        yield
    except BaseException:
        model.__dict__.clear()
        model.__dict__.update(before)
        raise


def half_precision(rows: Rows) -> Rows:
    """Words as they will be stored, so that a loaded model equals the fitted one."""
    rows.words.data = rows.words.data.astype(np.float16).astype(np.float32)
    return rows


def validation_rows(given: Validation, model: HiPaNClassifier, flat: np.ndarray | None) -> Sample:
    """Rows and labels of the caller's own to learn the combiner from; classes without training rows need a tree to stand in."""
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise VpunnError(f"validation is a pair (X, y) of rows and their labels, got {type(given).__name__}.")
    rows = model.layout_.read(checked_blocks(model, given[0], model.layout_))
    check_length(rows.words, given[1])
    if flat is None:
        node = targets.check_in_tree(model.tree_, given[1])
    else:
        known = {label: k + 1 for k, label in enumerate(flat.tolist())}
        labels = targets.as_column(given[1]).tolist()
        if other := sorted({str(label) for label in labels if label not in known}):
            raise VpunnError(
                f"validation has labels that no training row has: {examples(other)}; give a tree with them."
            )
        node = np.array([known[label] for label in labels], np.int32)
    return Sample(rows, node, np.ones(len(node), np.float32), np.zeros(len(node), np.int8))


def with_descriptions(sample: Sample, X_nodes: Descriptions, layout: Layout, tree: Tree, flat: bool) -> Sample:
    """The training rows followed by the descriptions that are not empty; the root of flat classes takes none."""
    tables = descriptions(X_nodes, layout, tree)
    parts, described, kinds = [sample.rows], [sample.node], [sample.kind]
    for k in range(max(map(len, tables.values()))):
        given = {name: table[k] for name, table in tables.items()}
        rows = half_precision(layout.read(given))
        for name, block in rows.dense.items():  # here a row of zeros is always an empty one
            block[~layout.table(given, name).any(1)] = 0
        has = np.diff(rows.words.indptr) > 0
        for block in rows.dense.values():
            has = has | np.asarray(block.any(1))
        has[0] &= not flat
        at = np.flatnonzero(has)
        parts.append(rows[at])
        described.append(at.astype(np.int32))
        kinds.append(np.full(len(at), k + 1, np.int8))
    node = np.concatenate(described)
    weight = np.concatenate([sample.weight, np.ones(len(node) - len(sample.node), np.float32)])
    return Sample(Rows.joined(parts), node, weight, np.concatenate(kinds))


def descriptions(given: Descriptions, layout: Layout, tree: Tree) -> dict[str, list[Any]]:
    """Tables of descriptions of every block, empty where none were given, equally many of each."""
    if (isinstance(given, Mapping) and not sparse.issparse(given)) == layout.single:
        raise VpunnError("X_nodes has the form of X: a matrix or list of them, or a dict with those of the blocks.")
    by_block = dict(given) if not layout.single else {"": given}
    if other := [name for name in by_block if name not in layout.names]:
        raise VpunnError(f"X_nodes names the blocks {examples(other)}, X has {examples(layout.names)}.")
    lists = {name: list(t) if isinstance(t, list | tuple) else [t] for name, t in by_block.items()}
    kinds = max(map(len, lists.values()), default=0)
    if kinds > MAX_DESCRIPTIONS:
        raise VpunnError(f"X_nodes can hold at most {MAX_DESCRIPTIONS} descriptions per node, got {kinds:,}.")
    tables = {}
    for name, columns, dense in zip(layout.names, layout.columns, layout.dense, strict=True):
        expected = (tree.n_nodes, columns)
        nothing = np.zeros(expected) if dense else sparse.csr_matrix(expected)
        tables[name] = [_description(table, expected, dense, name) for table in lists.get(name, [])]
        tables[name] += [nothing] * (kinds - len(tables[name]))
    return tables


def _description(given: Features, expected: tuple[int, int], dense: bool, block: str) -> Features:
    """One table of descriptions: finite numbers, a row per node and the columns of X."""
    of = f" of block {block!r}" if block else ""
    given = targets.in_place(given, f"X_nodes{of}")
    try:
        table = given if sparse.issparse(given) else np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise VpunnError(f"X_nodes{of} must be a table of numbers of shape {expected}, or a list of them.") from None
    if table.shape != expected:
        raise VpunnError(
            f"X_nodes{of} needs one row per node of the tree and the columns of X, {expected}, got {table.shape}."
        )
    table = sparse.csr_matrix(table, dtype=np.float64, copy=True)
    table.sum_duplicates()
    table.eliminate_zeros()
    if not np.isfinite(table.data).all():
        raise VpunnError(f"X_nodes{of} contains NaN or infinity; leave rows of nodes without a description at zero.")
    targets.refuse_huge(table, f"X_nodes{of}")
    return table.toarray() if dense else table


def n_empty(tree: Tree, node: np.ndarray) -> int:
    """Possible answers without a row: leaves, and inner nodes if any row is labelled with one."""
    met = np.zeros(tree.n_nodes, bool)
    met[node] = True
    possible = tree.is_leaf if not met[~tree.is_leaf].any() else np.ones(tree.n_nodes, bool)
    return int((possible & ~met).sum())
