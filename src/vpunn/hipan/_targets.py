"""What ``y`` may be: node labels of a given tree, plain classes, level columns or paths; always one node per row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from vpunn._rows import LARGEST_FEATURE, row_weights
from vpunn.errors import TreeError, VpunnError, examples, refuse_lazy
from vpunn.tree import Tree
from vpunn.tree.lookup import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vpunn._types import Cell, Features, FittedModel, Targets, Weights
    from vpunn.hipan.classifier import HiPaNClassifier


#: Beyond these, weights squared leave the range of 32-bit numbers.
LARGEST_WEIGHT, SMALLEST_WEIGHT = 1e9, 1e-15
#: Nobody asks for the probabilities of more classes than this, and to sort their labels would take seconds.
A_COLUMN_EACH = 500_000


def nodes_of(tree: Tree, y: Targets) -> np.ndarray:
    """Node ids of targets: labels of the tree, or paths below its root as tuples or level columns."""
    values = paths_of(y) if getattr(y, "ndim", 1) == 2 and y.shape[1] > 1 else as_column(y)
    if len(values) and isinstance(values[0], tuple) and values[0] not in set(tree.labels[:1]):
        return tree.locate(without_gaps(values)).nodes.astype(np.int32)
    return np.asarray(tree.index(values), dtype=np.int32)


def tree_of(y: Targets) -> tuple[Tree, np.ndarray, np.ndarray | None]:
    """A tree for targets that come without one, the node of every row, and the classes if the targets are flat.

    Level columns (2-D) or tuples give a tree of their paths; plain labels give a root with one child per class.
    """
    values = paths_of(y) if _is_table(y) else as_column(y)
    if len(values) and isinstance(values[0], tuple):
        values = without_gaps(values)
        tree = Tree.from_paths(sorted(set(values.tolist()), key=repr), root="(all)")
        return tree, tree.locate(values).nodes.astype(np.int32), None
    reject_missing(values)
    try:
        classes, place = np.unique(values, return_inverse=True)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in values.tolist()})
        raise VpunnError(
            f"labels of several types ({', '.join(kinds)}) have no order; turn all of them into text."
        ) from None
    labels = np.empty(len(classes) + 1, object)
    labels[0] = "(all)"
    labels[1:] = classes.tolist()
    tree = Tree.from_parents(np.concatenate([[-1], np.zeros(len(classes), np.int64)]), labels)
    return tree, (place + 1).astype(np.int32), classes


def path_nodes(tree: Tree, y: Targets) -> np.ndarray | None:
    """Nodes of level columns or paths, −1 where the tree has none; None if the targets are labels."""
    values = paths_of(y) if _is_table(y) else as_column(y)
    if not len(values) or not isinstance(values[0], tuple) or values[0] in set(tree.labels[:1]):
        return None
    return tree.locate(without_gaps(values), unseen="null").nodes


def _is_table(y: Targets) -> bool:
    """Level columns: a two-dimensional array, or lists of one length above one."""
    if hasattr(y, "ndim"):
        return bool(y.ndim == 2 and y.shape[1] > 1)
    return (
        len(y) > 0 and all(isinstance(row, list) for row in y) and len({len(row) for row in y}) == 1 and len(y[0]) > 1
    )


def paths_of(y: Targets) -> np.ndarray:
    """Level columns as one tuple per row, see `without_gaps`; not all cells of a row may be missing."""
    table = np.asarray(y)
    reject_indicator(table)
    rows = without_gaps([tuple(row) for row in (y if isinstance(y, list) else table.tolist())])
    bare = [i for i, row in enumerate(rows) if not row]
    if bare:
        raise VpunnError(f"rows {examples(bare)} have no label in any level column; leave them out.")
    return rows


def without_gaps(paths: Targets) -> np.ndarray:
    """Paths as an array of tuples: missing cells at the end are left out, those above a label are called "(missing)"."""
    column = np.empty(len(paths), object)
    column[:] = [_without_gap(path) for path in paths]
    return column


def _without_gap(path: Iterable[Cell]) -> tuple[Any, ...]:
    cells = [UNKNOWN if _absent(cell) or (isinstance(cell, str) and not cell) else cell for cell in path]
    while cells and cells[-1] is UNKNOWN:
        cells.pop()
    return tuple(cells)


def as_column(y: Targets) -> np.ndarray:
    """Targets as a one-dimensional array; tuples stay tuples, several labels per row are refused."""
    if isinstance(y, list | tuple) and any(isinstance(value, list | set | frozenset) for value in y):
        raise VpunnError(
            f"a row can have one label only, got {examples([v for v in y if isinstance(v, list | set | frozenset)][:3])}; "
            "repeat the row once per label, or write paths as tuples."
        )
    if isinstance(y, list | tuple) and any(isinstance(value, tuple) for value in y):
        column = np.empty(len(y), object)
        column[:] = y
        y = column
    array = np.asarray(y)
    if array.ndim == 2:
        reject_indicator(array)
    if array.dtype == object and array.ndim == 1:
        return _all_paths_or_none(array)
    if array.ndim > 2 or (array.ndim == 2 and array.shape[1] != 1):
        raise VpunnError(f"y must hold one label per row or level columns, got an array of shape {array.shape}.")
    if array.ndim == 1 and array.dtype.kind in "biufUS":
        return np.ascontiguousarray(array)
    from vpunn._sklearn import column_or_1d

    return np.asarray(column_or_1d(array, warn=True))


def _all_paths_or_none(column: np.ndarray) -> np.ndarray:
    """Refuse a mixture of paths and labels."""
    paths = [isinstance(value, tuple) for value in column]
    if any(paths) and not all(paths):
        raise VpunnError(
            f"y mixes paths and labels, such as {column[paths.index(True)]!r} and {column[paths.index(False)]!r}."
        )
    return column


def refuse_single(y: Targets, name: str = "y", one: str = "one label per row") -> None:
    """A column of labels is no single one."""
    if y is None or isinstance(y, str | bytes) or (hasattr(y, "ndim") and y.ndim == 0):
        raise VpunnError(f"{name} must hold {one}, got {repr(y)[:60]}.")
    _refuse_masked(y, name)


def reject_missing(values: np.ndarray) -> None:
    """Every row needs a label."""
    if values.dtype.kind in "mM":  # as plain values some would be numbers
        empty = np.flatnonzero(np.isnat(values)).tolist()
    else:
        empty = [i for i, value in enumerate(values.tolist()) if _absent(value)] if values.dtype.kind in "Of" else []
    if empty:
        many = f"{len(empty):,} of {len(values):,} rows"
        raise VpunnError(f"y has no label (NaN or None) in {many}, at {examples(empty)}; leave those rows out.")
    if values.dtype.kind in "Of":
        endless = [i for i, value in enumerate(values.tolist()) if isinstance(value, float) and abs(value) == np.inf]
        if endless:
            raise VpunnError(f"y is infinite in row {examples(endless)}, which is no label; leave those rows out.")


def reject_indicator(table: np.ndarray) -> None:
    """A 0/1 matrix means several labels per row, which one path per row cannot hold."""
    if table.shape[1] > 1 and table.dtype.kind in "biuf":
        raise VpunnError(
            f"the targets are a numeric table of shape {table.shape}, which reads as several labels per row; give one label "
            "per row, or level columns of names."
        )


def _absent(cell: Cell) -> bool:
    """None, NaN, or the missing values of pandas."""
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and cell != cell)


def by_label(tree: Tree, nodes: np.ndarray) -> np.ndarray:
    """Nodes in the order of their labels; as they are where labels cannot be compared, or are too many for a column each.

    >>> tree = Tree.from_edges([("root", "b"), ("root", "a")])
    >>> tree.labels[by_label(tree, np.array([1, 2]))].tolist()
    ['a', 'b']
    """
    labels = tree.labels[nodes]
    if len(nodes) > A_COLUMN_EACH:
        return nodes
    try:
        return nodes[np.argsort(labels, kind="stable")]
    except TypeError:  # numbers and texts
        return nodes


def check_in_tree(tree: Tree, y: Targets) -> np.ndarray:
    """`nodes_of` with the sentence that names the fit."""
    refuse_single(y)
    try:
        return nodes_of(tree, y)
    except TreeError as error:
        reject_missing(np.asarray(as_column(y) if np.ndim(y) < 2 else []))
        raise VpunnError(f"the targets do not fit the tree: {error}") from error


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
    _refuse_masked(X, "X")
    estimator = model if reset else as_estimator(model)
    try:
        with np.errstate(invalid="ignore"):  # infinities of both signs are complained of below
            checked = validate_data(estimator, X, accept_sparse="csr", dtype=np.float64, reset=reset)
    except (TypeError, ValueError) as error:
        if isinstance(error, TypeError) and isinstance(X, np.ndarray):  # scikit-learn's own checks ask for it
            raise
        raise VpunnError(_in_one_sentence(error, X)) from error
    return refuse_huge(checked)


def _in_one_sentence(error: Exception, X: Features) -> str:
    """What scikit-learn or NumPy complain of: the first line, and the way out; arrays are not printed."""
    said = str(error).splitlines()[0].rstrip(".:")
    if isinstance(error, TypeError):
        said = f"X must be a table of numbers, got {type(X).__name__} ({said})"
    elif said.startswith("Expected 2D"):
        said += "; Reshape your data: one column is X.reshape(-1, 1), one row X.reshape(1, -1)"
    elif said.startswith("Input "):  # what follows there is advice on other estimators
        said += "; fill in or leave out the rows concerned"
    elif said.startswith("Complex data"):
        said += "; give the real and imaginary parts as columns of their own"
    return f"{said}."


def _refuse_masked(given: Features, name: str) -> None:
    """Masked entries hold numbers that are not meant to be read."""
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        count = int(np.ma.getmaskarray(given).sum())
        raise VpunnError(
            f"{name} has {count:,} masked entries; fill them in with .filled(value) or leave their rows out."
        )


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

    check_is_fitted(as_estimator(model), "balls_")


def _refuse_texts(X: Features) -> None:
    """Texts are no features yet."""
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
    _refuse_masked(X, f"block {name!r}")
    from vpunn._sklearn import check_array

    try:
        with np.errstate(invalid="ignore"):
            checked = check_array(X, accept_sparse="csr", dtype=np.float64, ensure_min_samples=0)
    except (TypeError, ValueError) as error:
        raise VpunnError(f"block {name!r} cannot be used: {_in_one_sentence(error, X)}") from error
    return refuse_huge(checked, f"block {name!r}")


def checked_weight(sample_weight: Weights, X: Features) -> np.ndarray:
    """One weight of at least zero per row, not all of them zero, small enough to add up in single precision."""
    weight = row_weights(sample_weight, X.shape[0])
    if weight.max(initial=0) > LARGEST_WEIGHT:
        found = f"{weight.max():g}"
        raise VpunnError(
            f"sample weights may be at most {LARGEST_WEIGHT:g}, got {found}; divide all of them by the same number."
        )
    if X.shape[0] and weight.max() < SMALLEST_WEIGHT:
        raise VpunnError(
            f"some sample weight must be at least {SMALLEST_WEIGHT:g}, got {weight.max():g} at most; multiply all of them by "
            "the same number."
        )
    return weight.astype(np.float32)
