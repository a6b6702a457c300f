"""Wide blocks whose classes are no blobs are read by plain distances; others as they were."""

from __future__ import annotations

import numpy as np
import pytest

import vpunn
from vpunn.hipan import HiPaNClassifier
from vpunn.hipan._dense import Space
from vpunn.hipan._plain import tells_plainly


def rings(columns, rows=1400, seed=0):
    """Three rings around one centre, turned into many columns with a little noise: no class has a direction."""
    rng = np.random.default_rng(seed)
    ring, Z = rng.integers(0, 3, rows), rng.normal(size=(rows, 4))
    Z *= ((1 + ring) / np.linalg.norm(Z, axis=1))[:, None]
    turn = np.linalg.qr(rng.normal(size=(columns, columns)))[0][:4]
    return 10 * Z @ turn + 0.3 * rng.normal(size=(rows, columns)), np.array(["small", "middle", "large"])[ring]


def blobs(columns, rows=1400, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, rows)
    return rng.normal(size=(rows, columns)) + 0.5 * rng.normal(size=(3, columns))[label], np.array(["a", "b", "c"])[
        label
    ]


@pytest.mark.parametrize("columns", [64, 120])
def test_rings_in_many_columns_are_told(columns, tmp_path):
    X, y = rings(columns)
    model = HiPaNClassifier(random_state=0).fit(X[:1000], y[:1000])
    assert model.score(X[1000:], y[1000:]) > 0.97
    model.save(tmp_path / "model")
    loaded = vpunn.load(tmp_path / "model")
    assert np.array_equal(loaded.posterior(X[1000:]).top_k(3)[1], model.posterior(X[1000:]).top_k(3)[1])
    loaded.partial_fit(X[1000:1100], y[1000:1100])
    assert loaded.score(X[1100:], y[1100:]) > 0.97


def test_classes_that_have_a_direction_are_read_by_it():
    for made, plainly in ((rings, True), (blobs, False)):
        X, y = made(80)
        node = np.unique(y, return_inverse=True)[1]
        assert tells_plainly(X.astype(np.float32), node) == plainly
        assert not tells_plainly(X[:, :60].astype(np.float32), node)  # narrow blocks are read so anyway
        assert not tells_plainly(X[:80].astype(np.float32), node[:80])  # too few rows to tell


def test_a_plain_space_keeps_distances():
    X, y = rings(70)
    space = Space.plain(X, np.unique(y, return_inverse=True)[1])
    unit, length = space.read(X[:50])
    Z = unit * length[:, None]
    apart, given = (np.linalg.norm(A[:, None] - A[None], axis=2) for A in (Z, X[:50]))
    kept = apart[np.triu_indices(50, 1)] / given[np.triu_indices(50, 1)]
    assert kept.std() / kept.mean() < 0.01
