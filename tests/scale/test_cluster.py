"""vpunn.scale on dask.distributed: any partitioning and any engine to the same bytes, also when workers are killed."""

from __future__ import annotations

import contextlib
import os
import signal
import threading

import numpy as np
import pandas as pd
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import vpunn
from vpunn.errors import DataError, VpunnError
from vpunn.scale import (
    BallSums,
    ClassSums,
    encode_frame,
    evaluate_dataset,
    evaluate_stream,
    predict_dataset,
    predict_frame,
    predict_stream,
    sum_rows,
)
from vpunn.tabular import LatentTreeEncoder, TabHiPaN, semantic_ids
from vpunn.vapo.heads import SoftmaxHeads

dask = pytest.importorskip("dask", reason="needs dask (extra scale)")
distributed = pytest.importorskip("distributed", reason="needs dask.distributed (extra scale)")
dd = pytest.importorskip("dask.dataframe", reason="needs dask's DataFrame (extra scale)")

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:.*:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Sending large graph"),
]


@pytest.fixture(scope="module")
def rows():
    """A tree with text labels, and a frame of rows on it."""
    rng = np.random.default_rng(0)
    tree = vpunn.Tree.from_parents([-1, *rng.integers(0, np.arange(1, 300))], labels=[f"n{i}" for i in range(300)])
    nodes = rng.integers(0, 300, 4000)
    frame = pd.DataFrame(
        {"label": tree.labels[nodes], "y": rng.normal(size=4000) + tree.depth[nodes], "x": rng.normal(size=4000)}
    )
    frame["w"] = rng.random(4000)
    frame["kind"] = np.where(nodes < 40, "rare", np.where(frame.y > 2, "high", "low"))
    return tree, nodes, frame


def test_any_partitioning_and_engine_gives_the_same_bytes(rows, client, tmp_path):
    tree, nodes, frame = rows
    columns = {"label": "label", "y": "y", "X": ["x"], "w": "w"}
    whole = BallSums.from_rows(tree, nodes, frame.y, frame[["x"]], frame.w)
    counts = ClassSums.from_rows(tree, nodes, frame.kind.to_numpy(str))
    model = vpunn.VPuNNRegressor.from_sums(whole).coef_.tobytes()
    head = SoftmaxHeads.from_sums(counts).closed_form().tobytes()
    for partitions, engine in ((1, None), (2, client), (7, client), (7, None)):
        lazy = dd.from_pandas(frame.sort_values("kind"), npartitions=partitions)  # classes missing in some partitions
        lazy = dd.concat([lazy, dd.from_pandas(frame.iloc[:0], npartitions=1)])  # and an empty one
        sums = sum_rows(tree, lazy, engine=engine, **columns)
        assert sums == whole and vpunn.VPuNNRegressor.from_sums(sums).coef_.tobytes() == model
        counted = sum_rows(tree, lazy, label="label", y="kind", classes=True, engine=engine)
        assert counted == counts and SoftmaxHeads.from_sums(counted).closed_form().tobytes() == head
    for i, part in enumerate(np.array_split(np.arange(4000), 5)):
        frame.iloc[part].to_parquet(tmp_path / f"{i}.parquet", index=False)
    assert sum_rows(tree, tmp_path, engine=client, **columns) == whole


def test_predictions_and_codes_of_a_lazy_frame(rows, client, tmp_path):
    tree, nodes, frame = rows
    model = vpunn.VPuNNRegressor.from_sums(BallSums.from_rows(tree, nodes, frame.y))
    model.save(tmp_path / "model")
    mean = model.predict(frame[["label"]].to_numpy())
    for partitions in (1, 2, 7):
        lazy = dd.from_pandas(frame, npartitions=partitions)
        answers = predict_frame(tmp_path / "model", lazy, columns=["label"], keep=["w"])
        found = client.compute(answers).result()
        assert found.columns.tolist() == answers.columns.tolist() and found.prediction.tolist() == mean.tolist()
        coded = client.compute(encode_frame(tree, lazy, "label")).result()
        assert coded.node.tolist() == nodes.tolist() and coded.depth.tolist() == tree.depth[nodes].tolist()
    odd = dd.from_pandas(pd.DataFrame({"label": ["n1", "zzz"]}), npartitions=1)
    assert encode_frame(tree, odd, "label", unseen="null").compute()["node"].tolist() == [tree.index("n1"), pd.NA]
    with pytest.raises(VpunnError, match="'zzz'"):
        encode_frame(tree, odd, "label").compute()
    with pytest.raises(DataError, match="no column 'z'"):
        predict_frame(tmp_path / "model", lazy, columns=["z"])


def test_a_dataset_is_predicted_to_the_bytes_of_one_process(rows, client, tmp_path):
    tree, nodes, frame = rows
    vpunn.VPuNNRegressor.from_sums(BallSums.from_rows(tree, nodes, frame.y)).save(tmp_path / "model")
    (tmp_path / "in").mkdir()
    for i, part in enumerate((slice(0, 1500), slice(1500, 1500), slice(1500, 4000))):
        frame.iloc[part].to_parquet(tmp_path / "in" / f"{i}.parquet", index=False, row_group_size=700)
    options = {"columns": ["label"], "keep": ["w"], "batch_rows": 250, "part_rows": 500}
    predict_stream(tmp_path / "model", tmp_path / "in", tmp_path / "one", **options)
    predict_dataset(tmp_path / "model", tmp_path / "in", tmp_path / "many", engine=client, **options)
    kept = [{p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("one", "many")]
    assert kept[0] == kept[1] and len(kept[0]) == 9
    assert ds.dataset(tmp_path / "many").to_table()["w"].to_pylist() == frame.w.tolist()


def test_scores_of_files_are_those_of_a_stream(rows, client, tmp_path):
    from vpunn.tables.inputs import Inputs
    from vpunn.tables.regressor import TableRegressor
    from vpunn.tables.samples import read_sample

    _, _, frame = rows
    inputs = Inputs(("y",), (), (), ("kind", "label"))
    TableRegressor.fit(read_sample(frame, inputs, "t", regress=True), inputs).save(tmp_path / "m", {})
    (tmp_path / "in").mkdir()
    for i in range(3):
        frame.iloc[i::3].to_parquet(tmp_path / "in" / f"{i}.parquet", index=False)
    one, many = (
        evaluate_stream(tmp_path / "m", tmp_path / "in"),
        evaluate_dataset(tmp_path / "m", tmp_path / "in", engine=client),
    )
    np.testing.assert_allclose(list(many.scores.values()), list(one.scores.values()), rtol=1e-12)
    again = evaluate_dataset(tmp_path / "m", tmp_path / "in")
    assert again.scores == many.scores


def test_a_lazy_frame_is_refused_where_it_would_be_loaded(rows):
    tree, _, frame = rows
    lazy = dd.from_pandas(frame, npartitions=2)
    model = vpunn.VPuNNRegressor(tree)
    for call in (
        lambda: model.fit(lazy[["label"]], frame.y),
        lambda: model.fit(frame[["label"]], lazy.y),
        lambda: vpunn.PadicTargetEncoder(tree).fit(lazy[["label"]], frame.y),
        lambda: vpunn.VPuNNRegressor.from_sums(BallSums.from_rows(tree, [1, 2], [1.0, 2.0])).predict(lazy[["label"]]),
        lambda: vpunn.Tree.from_edges(lazy.label, lazy.kind),
        lambda: tree.index(lazy.label),
        lambda: tree.encode_column(lazy.label),
        lambda: vpunn.HiPaNClassifier(tree).fit(lazy[["x"]], frame.label),
        lambda: vpunn.HiPaNClassifier(tree).fit({"numbers": lazy[["x"]]}, frame.label),
        lambda: vpunn.HiPaNClassifier(tree).fit(frame[["x"]], lazy.label),
        lambda: LatentTreeEncoder().fit(lazy[["x"]]),
        lambda: TabHiPaN().fit(frame[["x"]], lazy.y),
        lambda: semantic_ids(lazy[["x"]]),
    ):
        with pytest.raises(VpunnError, match="not loaded into memory silently"):
            call()
    with pytest.raises(VpunnError, match="engine must be a distributed.Client"):
        sum_rows(tree, lazy, label="label", y="y", engine="here")
    with pytest.raises(VpunnError, match="takes a dask DataFrame"):
        encode_frame(tree, frame, "label")


def test_a_checkpoint_of_another_job_is_refused(rows, tmp_path):
    tree, nodes, frame = rows
    frame.to_parquet(tmp_path / "rows.parquet", index=False)
    kept = {"label": "label", "checkpoint": tmp_path / "kept"}
    assert sum_rows(tree, tmp_path / "rows.parquet", y="y", **kept) == BallSums.from_rows(tree, nodes, frame.y)
    with pytest.raises(DataError, match="another job: its 'columns' differ"):
        sum_rows(tree, tmp_path / "rows.parquet", y="x", **kept)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3, 20])
def test_killed_workers_change_nothing(rows, no_dashboard, tmp_path, kills):
    """A cluster whose workers are killed at random moments; new ones are forked from a process that has imported everything."""
    from distributed.utils import get_mp_context

    # A local cluster gives a worker up that is not there some seconds after it was lost, though it be on its way back again.
    settings = {
        "distributed.worker.multiprocessing-method": "forkserver",
        "distributed.deploy.lost-worker-timeout": "1h",
    }
    with dask.config.set(settings):
        get_mp_context().set_forkserver_preload(
            ["distributed", "vpunn.scale", "vpunn.scale.cluster", "pyarrow.parquet"]
        )
        _kill_workers(rows, no_dashboard, tmp_path, kills)


def _kill_workers(rows, no_dashboard, tmp_path, kills):
    tree, nodes, frame = rows
    big = pd.concat([frame] * 20, ignore_index=True)
    (tmp_path / "in").mkdir()
    for i in range(8):
        big.iloc[i::8].to_parquet(tmp_path / "in" / f"{i:02d}.parquet", index=False)
    whole = BallSums.from_rows(tree, np.tile(nodes, 20), big.y)
    vpunn.VPuNNRegressor.from_sums(whole).save(tmp_path / "model")
    options = {"columns": ["label"], "batch_rows": 5000, "part_rows": 5000}
    predict_stream(tmp_path / "model", tmp_path / "in", tmp_path / "one", **options)
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, **no_dashboard}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
        client.cluster.scheduler.allowed_failures = 1000
        stop, killed = threading.Event(), []

        def kill() -> None:
            rng = np.random.default_rng(0)
            while len(killed) < kills and not stop.wait(0.05):
                if len(cluster.scheduler.workers) < 2:  # those killed last are not back at work
                    continue
                stop.wait(float(rng.uniform(0.0, 0.5)))
                workers = [w.process.pid for w in cluster.workers.values() if w.process is not None and w.process.pid]
                with contextlib.suppress(ProcessLookupError):  # it ended by itself a moment ago
                    if workers:
                        os.kill(int(rng.choice(workers)), signal.SIGKILL)
                        killed.append(1)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            rounds = 0
            while killer.is_alive() and rounds < 20 * kills:  # rounds, not seconds: a busy machine is slower at both
                out = tmp_path / f"many{rounds}"
                predict_dataset(tmp_path / "model", tmp_path / "in", out, engine=client, **options)
                assert sum_rows(tree, tmp_path / "in", label="label", y="y", engine=client) == whole
                names = {p.name: p.read_bytes() for p in out.glob("[p_]*")}
                assert names == {p.name: p.read_bytes() for p in (tmp_path / "one").glob("[p_]*")}
                rounds += 1
        finally:
            stop.set()
            killer.join()
    assert len(killed) == kills
    assert pq.read_metadata(next((tmp_path / "many0").glob("part-*"))).num_rows == 5000
