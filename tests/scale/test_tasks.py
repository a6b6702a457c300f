"""Workers that die with all that was sent to them: it is sent again, and the results are the same bytes."""

from __future__ import annotations

import os
import signal

import numpy as np
import pandas as pd
import pytest

import vpunn
from vpunn import vapo
from vpunn.errors import VpunnError
from vpunn.scale import BallSums, minimize_heads, sum_rows
from vpunn.scale.engine import Sent, each
from vpunn.scale.heads import _Sharded
from vpunn.vapo.heads import SoftmaxHeads

dask = pytest.importorskip("dask", reason="needs dask (extra scale)")
distributed = pytest.importorskip("distributed", reason="needs dask.distributed (extra scale)")
dd = pytest.importorskip("dask.dataframe", reason="needs dask's DataFrame (extra scale)")

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:.*:ResourceWarning"),
]


@pytest.fixture(scope="module")
def mortal(no_dashboard):
    """One worker, a process: whoever kills it kills all copies of what was sent. Its nanny forks the next one at once."""
    from distributed.utils import get_mp_context

    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(
            ["distributed", "vpunn.scale.summing", "vpunn.scale.heads", "dask.dataframe"]
        )
        settings = {"n_workers": 1, "threads_per_worker": 1, "processes": True}
        with distributed.LocalCluster(**settings, **no_dashboard) as cluster, distributed.Client(cluster) as one:
            yield one


def deadly(folder, times=1):
    """A function that kills its process the first times it is called. A worker cannot import this module: it travels by value."""

    def die():
        died = len(os.listdir(folder))
        if died < times:
            (folder / str(died)).touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return die


def test_sums_are_the_same_when_the_tree_is_lost(mortal, tmp_path):
    rng = np.random.default_rng(0)
    tree = vpunn.Tree.from_parents([-1, *rng.integers(0, np.arange(1, 50))], labels=[f"n{i}" for i in range(50)])
    nodes = rng.integers(0, 50, 400)
    frame = pd.DataFrame({"label": tree.labels[nodes], "y": rng.normal(size=400)})
    die = deadly(tmp_path)

    def read(part):
        die()
        return part

    lazy = dd.from_pandas(frame, npartitions=3).map_partitions(read, meta=frame.iloc[:0])
    assert sum_rows(tree, lazy, label="label", y="y", engine=mortal) == BallSums.from_rows(tree, nodes, frame.y)
    assert len(os.listdir(tmp_path)) == 1


def test_tasks_are_the_same_when_what_they_share_is_lost(mortal, tmp_path):
    die = deadly(tmp_path)

    def work(rows, heads, part):
        if part == 2:  # after some are made: these are lost, too
            die()
        return rows[part] * heads[1]

    shared = Sent(np.arange(4.0)), Sent((np.ones(2), np.full(2, 3.0)))
    for _ in range(2):  # the second time with what was sent last
        found = each(mortal, work, [(*shared, i) for i in range(4)])
        assert [one.tolist() for one in found] == [[3.0 * i] * 2 for i in range(4)]
    assert [one.tolist() for one in each(None, work, [(*shared, 1)])] == [[3.0, 3.0]]
    assert len(os.listdir(tmp_path)) == 1


def test_heads_are_the_same_when_their_shards_are_lost(mortal, monkeypatch):
    heads = SoftmaxHeads(vpunn.Tree.from_parents([-1, 0, 0, 1, 1, 1, 2, 2]))
    start = np.linspace(-1, 1, heads.n_parameters)
    whole = vapo.minimize(heads, "fisher", start=start)
    epoch, killed = _Sharded.epoch, []

    def interrupted(self, number):
        if number == 2:
            killed.extend(mortal.run(os.getpid).values())
            os.kill(killed[-1], signal.SIGKILL)
        return epoch(self, number)

    monkeypatch.setattr(_Sharded, "epoch", interrupted)
    found = minimize_heads(heads, shards=3, start=start, engine=mortal)
    assert killed and found.parameters.tobytes() == whole.parameters.tobytes()


def test_a_task_that_kills_its_workers_is_given_up(mortal, tmp_path, monkeypatch):
    monkeypatch.setattr(mortal.cluster.scheduler, "allowed_failures", 1)
    with pytest.raises(VpunnError, match=r"given up after 2 tries.*died.*memory"):
        list(each(mortal, lambda sent, die: die(), [(Sent(3), deadly(tmp_path, times=9))]))
    assert len(os.listdir(tmp_path)) == 2


def test_a_mistake_of_the_work_itself_is_not_tried_again(client, tmp_path):
    def wrong(sent):
        (tmp_path / str(len(os.listdir(tmp_path)))).touch()
        raise FileNotFoundError("rows.parquet")

    with pytest.raises(FileNotFoundError, match=r"rows\.parquet"):
        list(each(client, wrong, [(Sent(1),)]))
    assert len(os.listdir(tmp_path)) == 1


def test_work_that_is_cancelled_by_itself_is_not_asked_for_again(mortal):
    def cancelled():
        raise distributed.CancelledError("mine")

    with pytest.raises(distributed.CancelledError, match="mine"):
        list(each(mortal, cancelled, [()]))


def test_a_closed_engine_is_said_to_be_closed(mortal):
    with distributed.Client(mortal.scheduler.address) as other:
        pass
    with pytest.raises(VpunnError, match="engine was closed"):
        list(each(other, len, [((),)]))
