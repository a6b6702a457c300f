"""Saved latent trees and ids are the same ones, and damaged ones are refused."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import vpunn
from stores import edit_array, write_head
from vpunn.errors import DataError
from vpunn.tabular import LatentTreeEncoder, semantic_ids

RANDOM = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "height": np.where(RANDOM.random(90) < 0.1, np.nan, RANDOM.normal(170, 10, 90)),
        "town": RANDOM.choice(["Ulm", "Bonn", "Köln"], 90),
        "children": RANDOM.integers(0, 4, 90),
        "flat": 1,
    }
)
NEW = pd.DataFrame({"height": [160.0, np.nan], "town": ["Rom", "Ulm"], "children": [9, 1], "flat": [1, 1]})

ENCODERS = {
    "ward": {"p": 3, "K": 3},
    "levels": {"nodes_per_level": [3, 9], "output": "codes"},
    "kmeans": {"method": "kmeans", "p": 4, "K": 2, "random_state": 1, "output": "one-hot"},
    "refined": {"p": 3, "K": 2, "refine": True, "output": "prefixes"},
    "two-stage": {"method": "two-stage", "n_prototypes": 20, "random_state": np.random.RandomState(0)},
    "categorical": {"categorical": ["children", 1]},
}


@pytest.mark.parametrize("name", ENCODERS)
def test_a_loaded_encoder_is_the_same(tmp_path, name):
    encoder = LatentTreeEncoder(**ENCODERS[name]).fit(TABLE)
    again = vpunn.load(encoder.save(tmp_path / "m"), verify=True)
    for X in (TABLE, NEW):
        one, other = encoder.transform(X), again.transform(X)
        assert (one != other).sum() == 0
        pd.testing.assert_frame_equal(encoder.inverse_transform(one), again.inverse_transform(other))
    assert again.code_.p == encoder.code_.p
    assert again.kept_ == encoder.kept_
    assert np.array_equal(again.leaf_, encoder.leaf_)
    assert again.tree_ == encoder.tree_
    assert [str(again.describe(k)) for k in range(again.tree_.n_nodes)] == [
        str(encoder.describe(k)) for k in range(encoder.tree_.n_nodes)
    ]
    assert (again.linkage_ is None) == (encoder.linkage_ is None)
    if name == "refined":
        assert str(again.refinement_) == str(encoder.refinement_)


def test_an_encoder_of_arrays_is_kept_too(tmp_path):
    rows = RANDOM.normal(size=(40, 3))
    encoder = LatentTreeEncoder(K=2).fit(rows)
    again = LatentTreeEncoder.load(encoder.save(tmp_path / "m"))
    assert np.array_equal(again.transform(rows), encoder.transform(rows))
    assert isinstance(again.inverse_transform(again.transform(rows)), np.ndarray)


@pytest.mark.parametrize(
    ("array", "change", "said"),
    [
        ("prototypes", lambda a: a[1:], "shape"),
        ("prototype_ball", lambda a: a + 1000, "not below"),
        ("table.mean", lambda a: a * np.nan, "not finite"),
        ("table.share0", lambda a: a - 1, "below 0"),
        ("statistics.rows", lambda a: a * 0, "below 1e-100"),
        ("tree.digit", lambda a: a * 0, "no tree"),
    ],
)
def test_edited_encoders_are_refused(tmp_path, array, change, said):
    path = LatentTreeEncoder(K=2).fit(TABLE).save(tmp_path / "m")
    edit_array(path, array, change)
    with pytest.raises(DataError, match=said):
        LatentTreeEncoder.load(path)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_loaded_ids_are_the_same(tmp_path, metric):
    vectors = RANDOM.normal(size=(60, 5))
    vectors[40:45] = vectors[0]
    ids = semantic_ids(vectors, p=5, K=2, metric=metric)
    again = vpunn.load(ids.save(tmp_path / "ids"), verify=True)
    assert np.array_equal(again.digits, ids.digits)
    assert again.digits.dtype == ids.digits.dtype
    assert (again.n_collisions, again.p, again.K, again.metric) == (ids.n_collisions, 5, 2, metric)
    new = RANDOM.normal(size=(9, 5))
    assert np.array_equal(again.assign(new), ids.assign(new))


@pytest.mark.parametrize(("name", "value"), [("K", 0), ("K", 1), ("K", -3), ("p", 2), ("p", 4)])
def test_ids_that_their_digits_cannot_name_are_refused(tmp_path, name, value):
    folder = semantic_ids(RANDOM.normal(size=(60, 5)), p=5, K=2).save(tmp_path / "ids")
    head = json.loads((folder / "model.json").read_text())
    head["settings"][name] = value
    write_head(folder, head)
    with pytest.raises(DataError, match="cannot name"):
        vpunn.load(folder)
