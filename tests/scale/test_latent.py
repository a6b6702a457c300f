"""Latent trees of tables on many machines: the same bytes for any partitioning."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vpunn.errors import DataError, VpunnError
from vpunn.scale import fit_latent_tree
from vpunn.tabular import LatentTreeEncoder


def table(rows=3000):
    rng = np.random.default_rng(0)
    centre = rng.normal(size=(9, 3)) * 8
    return pd.DataFrame(centre[rng.integers(0, 9, rows)] + rng.normal(size=(rows, 3)), columns=["a", "b", "c"])


def write(folder, frame, parts):
    folder.mkdir()
    for i, part in enumerate(np.array_split(np.arange(len(frame)), parts)):
        pq.write_table(pa.Table.from_pandas(frame.iloc[part], preserve_index=False), folder / f"{i:02d}.parquet")
    return folder


def encoder():
    return LatentTreeEncoder("two-stage", nodes_per_level=[3, 9], n_prototypes=100, random_state=2)


def facts(model, frame):
    return model.tree_.parent.tobytes(), model.tree_.columns["rows"].tolist(), model.transform(frame).tobytes()


def test_any_partitioning_and_engine_gives_the_same_bytes(client, tmp_path):
    frame = table()
    shuffled = frame.sample(frac=1, random_state=1)
    one = fit_latent_tree(write(tmp_path / "one", frame, 1), ["a", "b", "c"], encoder=encoder(), sample=1000)
    assert one.tree_.columns["rows"][0] == 3000  # all of them, not the sample
    leaf = one.apply(frame.to_numpy())
    assert one.tree_.columns["rows"][one.tree_.leaves].tolist() == np.bincount(leaf)[one.tree_.leaves].tolist()
    many = fit_latent_tree(write(tmp_path / "many", shuffled, 7), ["a", "b", "c"], encoder=encoder(), sample=1000)
    assert facts(many, frame.to_numpy()) == facts(one, frame.to_numpy())
    dd = pytest.importorskip("dask.dataframe", reason="needs dask's DataFrame (extra scale)")
    lazy = dd.from_pandas(shuffled, npartitions=5)
    there = fit_latent_tree(lazy, ["a", "b", "c"], encoder=encoder(), sample=1000, engine=client)
    assert facts(there, frame.to_numpy()) == facts(one, frame.to_numpy())


def test_the_sample_is_fair_and_the_clusters_are_found(tmp_path):
    frame = table(6000)
    model = fit_latent_tree(write(tmp_path / "x", frame, 3), ["a", "b", "c"], encoder=encoder(), sample=900)
    share = model.tree_.columns["rows"] / 6000
    assert len(model.leaf_) == 900
    of_sample = np.bincount(model.leaf_, minlength=model.tree_.n_nodes)[model.tree_.leaves] / 900
    assert np.abs(of_sample - share[model.tree_.leaves]).max() < 0.05


def test_refusals(tmp_path):
    frame = table(50)
    frame["text"] = "x"
    folder = write(tmp_path / "x", frame, 2)
    with pytest.raises(DataError, match="'text' is not a column of numbers"):
        fit_latent_tree(folder, ["a", "text"])
    with pytest.raises(VpunnError, match="at least one column"):
        fit_latent_tree(folder, [])
    with pytest.raises(VpunnError, match="sample must be"):
        fit_latent_tree(folder, ["a"], sample=0)
    with pytest.raises(DataError, match="source is empty"):
        fit_latent_tree(write(tmp_path / "y", frame.iloc[:0], 1), ["a"])
