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
from vpunn.io import write_table
from vpunn.scale import (
    BallSums,
    ClassSums,
    encode,
    evaluate,
    predict,
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
        answers = predict(tmp_path / "model", lazy, columns=["label"], keep=["w"])
        found = client.compute(answers).result()
        assert found.columns.tolist() == answers.columns.tolist() and found.prediction.tolist() == mean.tolist()
        coded = client.compute(encode(tree, lazy, column="label")).result()
        assert coded.node.tolist() == nodes.tolist() and coded.depth.tolist() == tree.depth[nodes].tolist()
    odd = dd.from_pandas(pd.DataFrame({"label": ["n1", "zzz"]}), npartitions=1)
    assert encode(tree, odd, column="label", unseen="null").compute()["node"].tolist() == [tree.index("n1"), pd.NA]
    with pytest.raises(VpunnError, match="'zzz'"):
        encode(tree, odd, column="label").compute()
    with pytest.raises(DataError, match="no column 'z'"):
        predict(tmp_path / "model", lazy, columns=["z"])


def test_a_dataset_is_predicted_to_the_bytes_of_one_process(rows, client, tmp_path):
    tree, nodes, frame = rows
    vpunn.VPuNNRegressor.from_sums(BallSums.from_rows(tree, nodes, frame.y)).save(tmp_path / "model")
    (tmp_path / "in").mkdir()
    for i, part in enumerate((slice(0, 1500), slice(1500, 1500), slice(1500, 4000))):
        frame.iloc[part].to_parquet(tmp_path / "in" / f"{i}.parquet", index=False, row_group_size=700)
    options = {"columns": ["label"], "keep": ["w"], "batch_rows": 250, "part_rows": 500}
    predict(tmp_path / "model", tmp_path / "in", tmp_path / "one", **options)
    predict(tmp_path / "model", tmp_path / "in", tmp_path / "many", engine=client, **options)
    kept = [{p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("one", "many")]
    assert kept[0] == kept[1] and len(kept[0]) == 9
    assert ds.dataset(tmp_path / "many").to_table()["w"].to_pylist() == frame.w.tolist()


@pytest.fixture(scope="module")
def sources(rows, tmp_path_factory):
    """The same rows as each kind of source, and a model that can be evaluated."""
    from vpunn.tables.inputs import Inputs
    from vpunn.tables.regressor import TableRegressor
    from vpunn.tables.samples import read_sample

    folder = tmp_path_factory.mktemp("sources")
    _, _, frame = rows
    inputs = Inputs(("y",), (), (), ("kind", "label"))
    TableRegressor.fit(read_sample(frame, inputs, "t", regress=True), inputs).save(folder / "model", {})
    cuts = [slice(0, 1500), slice(1500, 4000)]
    for kind in ("csv", "parquet", "jsonl"):
        (folder / kind).mkdir()
        for i, cut in enumerate(cuts):
            write_table(frame.iloc[cut], folder / kind / f"{i}.{kind}")
    lazy = dd.concat([dd.from_pandas(frame.iloc[cut], npartitions=1) for cut in cuts])
    found = {
        "text files": folder / "csv",
        "lines": str(folder / "jsonl" / "*.jsonl"),
        "a list": [folder / "parquet" / "0.parquet", folder / "csv" / "1.csv"],
        "a data set": ds.dataset(folder / "parquet"),
        "a frame": lazy,
    }
    return folder / "model", found


@pytest.mark.parametrize("kind", ["text files", "lines", "a list", "a data set", "a frame"])
def test_every_verb_takes_every_source(rows, sources, client, tmp_path, kind):
    tree, nodes, frame = rows
    model, found = sources
    source, sizes = found[kind], {"batch_rows": 250, "part_rows": 500}
    parts = []
    for place, engine in (("here", None), ("there", client)):
        predict(model, source, f"{tmp_path}/answers-{place}/", keep=["w"], engine=engine, **sizes)
        encode(tree, source, f"{tmp_path}/codes-{place}/", column="label", engine=engine, **sizes)
        scores = evaluate(model, source, engine=engine, batch_rows=250).scores
        sums = sum_rows(tree, source, label="label", y="y", engine=engine)
        assert sums == BallSums.from_rows(tree, nodes, frame.y)
        written = [sorted((tmp_path / f"{what}-{place}").glob("part*")) for what in ("answers", "codes")]
        parts.append([scores, *[[(p.name, p.read_bytes()) for p in paths] for paths in written]])
    assert parts[0] == parts[1] and [len(some) for some in parts[0][1:]] == [8, 8]
    assert ds.dataset(f"{tmp_path}/codes-here").to_table()["node"].to_pylist() == nodes.tolist()
    assert ds.dataset(f"{tmp_path}/answers-here").to_table()["row"].to_pylist() == list(range(4000))
    whole = evaluate(model, found["a data set"], batch_rows=4000)
    assert list(parts[0][0].values()) == pytest.approx(list(whole.scores.values()), rel=1e-9)


def test_sources_and_places_that_cannot_be_used(rows, sources, client, tmp_path):
    tree, _, frame = rows
    model, found = sources
    for call, said in (
        (lambda: predict(model, frame, tmp_path / "x.csv"), "rows come from a file, a folder.* got a DataFrame"),
        (lambda: predict(model, found["text files"]), "say where the answers go"),
        (lambda: predict(model, found["text files"], tmp_path / "x.csv"), "has 2 files, so the output is a folder"),
        (lambda: predict(model, found["a list"][1], tmp_path / "x.csv", engine=client), "workers write parts"),
        (lambda: encode(tree, found["a frame"]), "say with column=.* which column of the frame"),
        (lambda: encode(tree, found["a frame"], tmp_path / "x"), "say with column="),
        (lambda: evaluate(vpunn.load(model), found["a list"], engine=client), "workers open the model themselves"),
        (lambda: sum_rows(tree, found["a data set"], label="z", y="y"), "the dataset has no column 'z'"),
        (lambda: evaluate(model, found["text files"], unseen="maybe"), "unseen='maybe' is unknown"),
    ):
        with pytest.raises(VpunnError, match=said):
            call()
    assert not list(tmp_path.iterdir())


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
    with pytest.raises(VpunnError, match="say where the codes go"):
        encode(tree, frame, column="label")


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
            ["distributed", "vpunn.scale", "vpunn.scale.summing", "pyarrow.parquet"]
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
    predict(tmp_path / "model", tmp_path / "in", tmp_path / "one", **options)
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
                predict(tmp_path / "model", tmp_path / "in", out, engine=client, **options)
                assert sum_rows(tree, tmp_path / "in", label="label", y="y", engine=client) == whole
                names = {p.name: p.read_bytes() for p in out.glob("[p_]*")}
                assert names == {p.name: p.read_bytes() for p in (tmp_path / "one").glob("[p_]*")}
                rounds += 1
        finally:
            stop.set()
            killer.join()
    assert len(killed) == kills
    assert pq.read_metadata(next((tmp_path / "many0").glob("part-*"))).num_rows == 5000
