"""One table in the forms that libraries give it: the same answers for all, and no input is changed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

from vpunn import HiPaNClassifier, PadicEncoder, PadicTargetEncoder, Tree, VPuNNClassifier, VPuNNRegressor
from vpunn.errors import VpunnError

RNG = np.random.default_rng(0)
N = 60
LEVELS = pd.DataFrame(
    {"order": np.array(["R", "C", "P"])[np.arange(N) % 3], "genus": np.array(list("abcdef"))[np.arange(N) % 6]}
)
LEVELS.loc[3, "genus"] = None
Y = RNG.normal(size=N) + np.arange(N) % 3
X = RNG.normal(size=(N, 4)) + np.eye(4)[np.arange(N) % 4] * 3


def text_forms(frame):
    """Nullable text, categories, Arrow's text and dictionaries, pyarrow, polars if it is there."""
    yield frame
    yield frame.astype("string")
    yield frame.astype("category")
    yield frame.astype(pd.ArrowDtype(pa.string()))
    yield frame.astype(pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))
    table = pa.Table.from_pandas(frame, preserve_index=False)
    yield table
    polars = None
    try:
        import polars
    except ImportError:
        return
    yield polars.from_arrow(table)
    yield polars.from_arrow(table).with_columns(polars.all().cast(polars.Categorical))


def number_forms(values):
    yield values
    frame = pd.DataFrame(values, columns=list("abcd"))
    yield frame
    yield frame.astype("Float64")
    yield frame.astype(pd.ArrowDtype(pa.float64()))
    yield frame.astype(object)
    yield pa.Table.from_pandas(frame, preserve_index=False)
    yield np.repeat(values, 2, axis=1)[:, ::2]
    yield np.asfortranarray(values)


def all_equal(found):
    first = np.asarray(found[0])
    return [i for i, other in enumerate(found) if not np.array_equal(first, np.asarray(other))]


@pytest.mark.parametrize(
    "use",
    [
        lambda table: VPuNNRegressor().fit(table, Y).predict(table),
        lambda table: VPuNNClassifier().fit(table, np.arange(N) % 2).predict_proba(table),
        lambda table: PadicTargetEncoder().fit(table, Y).transform(table),
        lambda table: PadicEncoder().fit(table).transform(table),
        lambda table: Tree.from_levels(table, root="life").size,
    ],
)
def test_levels_of_any_library(use):
    found = [use(table) for table in text_forms(LEVELS)]
    assert len(found) >= 6 and not all_equal(found)


def test_edges_of_any_library():
    edges = pd.DataFrame({"parent": ["r", "r", "a"], "child": ["a", "b", "c"]})
    trees = [Tree.from_edges(table) for table in text_forms(edges)]
    assert len(trees) >= 6 and all(tree == trees[0] for tree in trees)


def test_numbers_weights_and_labels_of_any_library():
    labels = np.array(list("pqrs"))[np.arange(N) % 4]
    found = [HiPaNClassifier(random_state=0).fit(form, labels).predict_proba(form) for form in number_forms(X)]
    assert not all_equal(found)
    weight = np.linspace(1, 2, N)
    forms = (
        weight,
        pd.Series(weight, dtype="Float64"),
        pd.Series(weight, dtype=pd.ArrowDtype(pa.float64())),
        pa.array(weight),
    )
    assert not all_equal([VPuNNRegressor().fit(LEVELS, Y, sample_weight=form).predict(LEVELS) for form in forms])
    for y in (pd.Series([None, *Y[1:]], dtype="Float64"), pa.array([None, *Y[1:]])):
        with pytest.raises((VpunnError, ValueError), match="NaN|missing|no number"):
            VPuNNRegressor().fit(LEVELS, y)


def test_sparse_rows_with_odd_entries():
    """Duplicate, unsorted and explicit zero entries, wide indices: the same model, the matrix as it was."""
    plain = sparse.random(N, 30, 0.2, format="csr", random_state=0)
    plain.data[:] = np.round(plain.data * 5) + 1
    twice = sparse.csr_matrix(
        (np.repeat(plain.data, 2) / 2, np.repeat(plain.indices, 2), plain.indptr * 2), plain.shape
    )
    shuffled = plain.copy()
    for a, b in zip(plain.indptr[:-1], plain.indptr[1:], strict=True):
        order = RNG.permutation(b - a) + a
        shuffled.indices[a:b], shuffled.data[a:b] = plain.indices[order], plain.data[order]
    shuffled.has_sorted_indices = False
    ends = np.append(plain.indptr[:-1], plain.indptr[-1] + 1)
    zeros = sparse.csr_matrix((np.append(plain.data, 0.0), np.append(plain.indices, 29), ends), plain.shape)
    wide = sparse.csr_matrix((plain.data, plain.indices.astype(np.int64), plain.indptr.astype(np.int64)), plain.shape)
    labels = np.arange(N) % 4
    found = []
    for matrix in (plain, twice, shuffled, zeros, wide, plain.tocsc(), plain.tocoo(), sparse.csr_array(plain)):
        before = matrix.data.copy()
        found.append(HiPaNClassifier(random_state=0).fit(matrix, labels).predict_proba(matrix))
        assert np.array_equal(before, matrix.data)
    assert not all_equal(found)
