"""`Predictor` inside Ray and Spark: the same answers as on the spot. Slow, because each starts its own engine."""

from __future__ import annotations

import os
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import vpunn
from vpunn.scale import Predictor

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # what the engines warn of among themselves
]


@pytest.fixture
def rows(tmp_path):
    """A saved regressor, a folder of Parquet files, and the answers made here."""
    rng = np.random.default_rng(0)
    tree = vpunn.Tree.from_paths([f"b{i // 10}/c{i}" for i in range(60)], sep="/", root="all")
    kind, price = [f"c{i}" for i in rng.integers(0, 60, 900)], rng.normal(size=900)
    model = vpunn.VPuNNRegressor(tree).fit(pd.DataFrame({"kind": kind}), price).save(tmp_path / "model")
    table = pa.table({"id": np.arange(900), "kind": [*kind[:-1], "new"]})
    (tmp_path / "rows").mkdir()
    for part in range(3):
        pq.write_table(table.slice(300 * part, 300), tmp_path / "rows" / f"{part}.parquet")
    predictor = Predictor(model, columns=["kind"], keep=["id"])
    return predictor, tmp_path / "rows", predictor(table).to_pandas()


def same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    found = found.sort_values("id", ignore_index=True)[list(expected.columns)]
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)


def test_ray(rows, monkeypatch):
    ray = pytest.importorskip("ray", reason="needs ray (pip install ray)")
    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    predictor, folder, expected = rows
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        data = ray.data.read_parquet(str(folder))
        same(data.map_batches(predictor, batch_format="pyarrow").to_pandas(), expected)
    finally:
        ray.shutdown()


def test_spark(rows, monkeypatch):
    sql = pytest.importorskip("pyspark.sql", reason="needs pyspark and Java (pip install pyspark)")
    from pyspark.sql.pandas.types import from_arrow_schema

    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, sys.executable)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    predictor, folder, expected = rows

    def answer(batches):
        for batch in batches:
            yield from predictor(batch).to_batches()

    spark = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        frame = spark.read.parquet(str(folder))
        schema = from_arrow_schema(predictor.schema(pq.read_schema(next(folder.glob("*.parquet")))))
        same(frame.mapInArrow(answer, schema).toPandas(), expected)
    finally:
        spark.stop()
