"""What ``X`` may be, checked: a table of finite numbers, or several named blocks of them for the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from vpunn._rows import LARGEST_FEATURE, counting_weights
from vpunn.errors import VpunnError, examples, refuse_lazy
from vpunn.hipan.experts import Rows
from vpunn.hipan.layout import Layout
from vpunn.hipan.targets import refuse_masked
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn._types import Descriptions, Features, FittedModel, Weights
    from vpunn.hipan.classifier import HiPaNClassifier

#: Beyond this, weights squared leave the range of 32-bit numbers.
LARGEST_WEIGHT = 1e9


def checked_blocks(model: FittedModel, X: Features, layout: Layout | None = None) -> dict[str, Any]:
    """``X`` as blocks of finite numbers with equally many rows and, given a ``layout``, its names and columns."""
    if not isinstance(X, Mapping) or sparse.issparse(X):  # a dictionary of keys is a matrix
        if layout is not None and not layout.single:
            raise VpunnError(
                f"this model reads the blocks {examples(layout.names)}; pass a dict with a matrix for each."
            )
        return {"": checked_features(model, X, reset=layout is None)}
    if layout is not None and layout.single:
        raise VpunnError(f"this model reads one matrix, got blocks named {examples(list(X))}.")
    if not X:
        raise VpunnError("X has no blocks; give at least one matrix, such as {'words': X}.")
    if bare := [name for name in X if not isinstance(name, str) or not name]:
        raise VpunnError(f"names of blocks are texts, such as 'words', got {examples(bare)}.")
    names = tuple(X) if layout is None else layout.names
    if layout is not None and set(X) != set(names):
        wrong = {"is missing": sorted(set(names) - set(X)), "is not one of them": sorted(set(X) - set(names))}
        said = " and ".join(f"{examples(blocks)} {what}" for what, blocks in wrong.items() if blocks)
        raise VpunnError(f"this model reads the blocks {examples(names)}; {said}.")
    blocks = {name: checked_block(X[name], name) for name in names}
    rows = {name: block.shape[0] for name, block in blocks.items()}
    if len(set(rows.values())) > 1:
        raise VpunnError(
            "blocks differ in their number of rows: " + ", ".join(f"{k!r} has {n:,}" for k, n in rows.items()) + "."
        )
    for name, columns in zip(layout.names, layout.columns, strict=True) if layout is not None else ():
        if blocks[name].shape[1] != columns:
            raise VpunnError(
                f"block {name!r} has {blocks[name].shape[1]:,} columns, the model was fitted on {columns:,}."
            )
    if layout is None:
        model.n_features_in_ = sum(block.shape[1] for block in blocks.values())
    return blocks


def checked_features(model: FittedModel, X: Features, *, reset: bool = True) -> Features:
    """Features checked as scikit-learn does, its complaints as errors of this library."""
    X = in_place(X)
    plain = _plain(X, None if reset else getattr(model, "n_features_in_", -1))
    if plain is not None and (reset or not hasattr(model, "feature_names_in_")):
        if reset:
            model.n_features_in_ = plain.shape[1]
            model.__dict__.pop("feature_names_in_", None)
        return plain
    from vpunn._sklearn import validate_data

    refuse_lazy(X)
    _refuse_texts(X)
    refuse_masked(X, "X")
    estimator = model if reset else as_estimator(model)
    return refuse_huge(validate_data(estimator, X, accept_sparse="csr", dtype=np.float64, reset=reset))


def as_estimator(model: FittedModel) -> HiPaNClassifier:
    """A model as scikit-learn asks for it, of one that only answers."""
    from vpunn.hipan.classifier import HiPaNClassifier

    if isinstance(model, HiPaNClassifier):
        return model
    whole = HiPaNClassifier()
    whole.__dict__ |= model.__dict__
    return whole


def refuse_unfitted(model: FittedModel) -> None:
    """The sentence about a model that was not fitted, as scikit-learn says it."""
    from vpunn._sklearn import check_is_fitted

    check_is_fitted(as_estimator(model), "tree_")


def _holds_numbers(column: Any, kind: Any) -> bool:
    """Whether a column of pandas or of polars is one of numbers, by its dtype or by every cell."""
    numeric = getattr(kind, "kind", "O") in "biufc" or bool(getattr(kind, "is_numeric", bool)())
    return numeric or all(isinstance(cell, Real) for cell in column)


def _refuse_texts(X: Features) -> None:
    """Texts are no features yet."""
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        words = [name for name, kind in zip(X.columns, X.dtypes, strict=True) if not _holds_numbers(X[name], kind)]
        blank = [name for name in X.columns if name not in words and np.isnan(np.asarray(X[name], np.float64)).any()]
        if words:
            also = f", and blanks in {examples(blank)}" if blank else ""
            raise VpunnError(
                f"X has columns that are no numbers: {examples(words)}{also}; vpunn.fit(frame, target) reads such frames as "
                "they are."
            )
    first = next(iter(X), None) if isinstance(X, list | tuple) or getattr(X, "ndim", 0) == 1 else None
    if isinstance(first, str):
        raise VpunnError(
            f"X is a column of texts, such as {first[:40]!r}; make features of them first: text_features().fit_transform(X)."
        )


def _plain(X: Features, columns: int | None = None) -> Features | None:
    """X if it is rows of finite numbers in an array or by rows: there is nothing to complain of, and scikit-learn is not needed.

    Numbers stay in 32 or 64 bits, others are turned; None if X is something else.
    """
    words = isinstance(X, sparse.csr_matrix | sparse.csr_array)
    if not (words or type(X) is np.ndarray) or X.dtype.kind not in "biuf" or X.dtype.itemsize > 8 or X.ndim != 2:
        return None
    if 0 in X.shape or (columns is not None and X.shape[1] != columns):
        return None
    if words and (X.indices.dtype != np.int32 or X.indptr.dtype != np.int32):
        return None
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    values = X.data if words else X
    return X if not values.size or max(float(values.max()), -float(values.min())) <= LARGEST_FEATURE else None


def in_place(X: Features, name: str = "X") -> Features:
    """X, after refusing a compressed sparse matrix whose numbers stand outside of its shape: SciPy makes one without a look, and
    loops over its places would read what is no part of it. Places of types that SciPy does not make are turned."""
    if not sparse.issparse(X) or not hasattr(X, "indptr"):
        return X
    start, columns = X.indptr, X.shape[0 if X.format == "csc" else 1] // getattr(X, "blocksize", (1, 1))[1]
    if start[0] != 0 or start[-1] > len(X.indices) or (len(start) > 2 and (start[1:] < start[:-1]).any()):
        raise VpunnError(
            f"{name} is a sparse matrix whose indptr does not rise from 0 to the number of its entries; build it anew."
        )
    at = X.indices[: start[-1]]
    if len(at) and (at.min() < 0 or at.max() >= columns):
        found = at.min() if at.min() < 0 else at.max()
        raise VpunnError(
            f"{name} is a sparse matrix of {columns:,} columns with an entry in column {found:,}; words that the columns do not "
            "know must be left out."
        )
    if {X.indices.dtype, X.indptr.dtype} <= {np.dtype(np.int32), np.dtype(np.int64)}:
        return X
    places = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return type(X)((X.data, *places), shape=X.shape)


def refuse_huge(X: Features, name: str = "X") -> Features:
    """The features, after refusing numbers that are finite but would not stay so when they are standardised or squared."""
    values = X.data if sparse.issparse(X) else X
    if values.size and not max(values.max(), -values.min()) <= LARGEST_FEATURE:
        at = int(np.argmax(np.abs(values)))
        row, column = (X.tocoo().row[at], X.tocoo().col[at]) if sparse.issparse(X) else divmod(at, X.shape[1])
        raise VpunnError(
            f"{name} holds {values.flat[at]:g} in row {row:,}, column {column:,}, counted from 0; numbers may be at most "
            f"{LARGEST_FEATURE:g}: rescale the column or leave the row out."
        )
    return X


def checked_block(X: Features, name: str) -> Features:
    """One named block of features: a table of finite numbers, sparse or dense."""
    X = in_place(X, f"block {name!r}")
    plain = _plain(X)
    if plain is not None:
        return plain
    refuse_lazy(X)
    _refuse_texts(X)
    refuse_masked(X, f"block {name!r}")
    from vpunn._sklearn import check_array

    try:
        checked = check_array(X, accept_sparse="csr", dtype=np.float64, ensure_min_samples=0)
    except (TypeError, VpunnError) as error:
        raise VpunnError(f"block {name!r} cannot be used: {error}") from error
    return refuse_huge(checked, f"block {name!r}")


def checked_weight(sample_weight: Weights, rows: int) -> np.ndarray:
    """One weight of at least zero per row, not all of them zero, small enough to add up in single precision."""
    return counting_weights(sample_weight, rows, LARGEST_WEIGHT).astype(np.float32)


def descriptions(given: Descriptions, layout: Layout, tree: Tree) -> dict[str, list[Any]]:
    """Tables of descriptions of every block, empty where none were given, equally many of each."""
    if (isinstance(given, Mapping) and not sparse.issparse(given)) == layout.single:
        raise VpunnError("X_nodes has the form of X: a matrix or list of them, or a dict with those of the blocks.")
    by_block = dict(given) if not layout.single else {"": given}
    if other := [name for name in by_block if name not in layout.names]:
        raise VpunnError(f"X_nodes names the blocks {examples(other)}, X has {examples(layout.names)}.")
    lists = {name: list(t) if isinstance(t, list | tuple) else [t] for name, t in by_block.items()}
    kinds = max(map(len, lists.values()), default=0)
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
    given = in_place(given, f"X_nodes{of}")
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
    refuse_huge(table, f"X_nodes{of}")
    return table.toarray() if dense else table


def with_descriptions(
    rows: Rows, node: np.ndarray, X_nodes: Descriptions, layout: Layout, tree: Tree, flat: bool
) -> tuple[Rows, np.ndarray, tuple[tuple[Any, ...], ...]]:
    """The training rows followed by the descriptions that are not empty, the node of each, and all of them for every block.

    A description without numbers has those of its class in the mean, or of all rows. The root of flat classes takes none.
    """
    tables = descriptions(X_nodes, layout, tree)
    kinds = [
        layout.read({name: table[k] for name, table in tables.items()}) for k in range(max(map(len, tables.values())))
    ]
    usual = [None if sparse.issparse(block) else _usual_numbers(block, node, tree.n_nodes) for block in rows.blocks]
    parts, nodes = [rows], [node]
    for kind in kinds:
        said = [np.diff(b.indptr) > 0 if sparse.issparse(b) else b.any(1) for b in kind.blocks]
        has = np.logical_or.reduce(said)
        has[0] &= not flat
        at = np.flatnonzero(has)
        some = (
            b[at] if u is None else np.where(own[at, None], b[at], u[at])
            for b, u, own in zip(kind.blocks, usual, said, strict=True)
        )
        parts.append(Rows(tuple(some)))
        nodes.append(at.astype(node.dtype))
    blocks = tuple(
        sparse.csr_matrix(sparse.vstack(same)) if sparse.issparse(same[0]) else np.concatenate(same)
        for same in zip(*(part.blocks for part in parts), strict=True)
    )
    return Rows(blocks), np.concatenate(nodes), tuple(zip(*(kind.blocks for kind in kinds), strict=True))


def _usual_numbers(block: np.ndarray, node: np.ndarray, n_nodes: int) -> np.ndarray:
    """The mean of the rows of every node, of all rows where it has none: (nodes, columns)."""
    count = np.bincount(node, minlength=n_nodes)
    sums = np.zeros((n_nodes, block.shape[1]))
    np.add.at(sums, node, block)
    return np.where(count[:, None] > 0, sums / np.maximum(count, 1)[:, None], block.mean(0))
