"""Dense tables with more columns than rows, such as genes: read in the space that their rows span."""

from __future__ import annotations

import time

import numpy as np
import pytest

from vpunn.hipan import HiPaNClassifier, _dense
from vpunn.hipan._dense import Space
from vpunn.tree import Tree

TREE = Tree.from_paths([("a", "x"), ("a", "y"), ("b", "z"), ("b", "w")], root="r")


def genes(rows: int, columns: int, moved: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose class moves some columns, with a common part that no class has."""
    rng = np.random.default_rng(seed)
    means, loadings = np.zeros((4, columns)), rng.normal(size=(5, columns))
    for mean in means:
        mean[rng.choice(columns, moved, replace=False)] = rng.normal(size=moved)
    at = rng.integers(0, 4, rows)
    X = means[at] + 0.4 * rng.normal(size=(rows, 5)) @ loadings + rng.normal(size=(rows, columns))
    return X, np.array(list("xyzw"))[at]


@pytest.mark.parametrize("columns", [256, 300])  # beside 60 rows
def test_the_span_of_the_rows_keeps_every_product_of_items(columns, monkeypatch):
    X, y = genes(60, columns)
    node = np.asarray(TREE.index(y))
    spanned = Space.of(X, node)
    monkeypatch.setattr(_dense, "_spanned", lambda Z: None)
    whole = Space.of(X, node)
    assert spanned.turn.shape[1] < 60 < whole.turn.shape[1]
    products = []
    for space in (spanned, whole):
        unit, length = space.read(X)
        rows = unit * length[:, None]
        products.append(rows @ rows.T / (length**2).mean())  # spaces differ in unit
    assert np.allclose(*products, atol=5e-3)  # rows are kept in half precision


def test_a_table_of_more_rows_than_columns_is_read_as_it_is():
    assert _dense._spanned(np.eye(5, 9)) is None  # nor is one of few columns
    assert _dense._spanned(np.ones((300, 300))) is None
    assert _dense._spanned(np.vstack([np.eye(5), np.eye(5)])) is None


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_wide_rows_that_are_all_the_same(rows):
    model = HiPaNClassifier(TREE, random_state=0).fit(np.full((rows, 300), 3.0), ["x", "y", "x", "x", "y"][:rows])
    posterior = model.posterior(np.vstack([np.full(300, 3.0), np.arange(300.0)]))
    assert np.isfinite(posterior.top_k(1)[1]).all()
    assert set(model.predict(np.full((1, 300), 3.0))) <= {"x", "y"}


def test_twenty_thousand_columns_cost_what_their_rows_cost():
    X, y = genes(200, 20_000, moved=1000)
    started = time.process_time()
    model = HiPaNClassifier(TREE, random_state=0).fit(X[:100], y[:100])
    right = (model.predict(X[100:]) == y[100:]).mean()
    assert time.process_time() - started < 60  # 20,000 axes by 20,000 would take hours
    assert right > 0.8
