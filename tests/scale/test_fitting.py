"""A classifier fitted in shards: the same bytes on any engine, from any checkpoint, however often it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from scipy import sparse

from vpunn import HiPaNClassifier, Tree
from vpunn.errors import DataError, VpunnError
from vpunn.hipan._crew import Crew, shard_of
from vpunn.scale import fit_classifier
from vpunn.scale.fitting import _Cluster

SETTINGS = {"random_state": 3, "epochs": 2, "candidates": 12}


def problem(rows=900, classes=120):
    """Classes that share words with their siblings; more of them than are all candidates."""
    rng = np.random.default_rng(0)
    tree = Tree.from_paths([f"b{i // 30}/c{i // 6}/d{i}" for i in range(classes)], sep="/", root="all")
    leaf = rng.integers(0, classes, rows)
    words = np.concatenate([leaf[:, None], classes + leaf[:, None] // 6, rng.integers(0, 200, (rows, 4))], 1)
    words[:, 2:] += classes + classes // 6
    matrix = sparse.csr_matrix((np.ones(words.size), words.ravel(), np.arange(0, words.size + 1, 6)), (rows, 340))
    return tree, matrix, np.array([f"d{i}" for i in leaf])


TREE, X, Y = problem()


def bytes_of(model):
    return model.predict_proba(X[:60]).tobytes()


def fitted(**options):
    return fit_classifier(HiPaNClassifier(TREE, **SETTINGS), X, Y, **options)


@pytest.fixture(scope="module")
def thrice():
    """In three shards."""
    return fitted(shards=3)


def test_one_shard_is_the_plain_fit():
    plain = HiPaNClassifier(TREE, **SETTINGS).fit(X, Y)
    assert bytes_of(fitted(shards=1)) == bytes_of(plain)
    assert not hasattr(plain, "_crew")


def test_shards_are_as_right(thrice):
    plain = HiPaNClassifier(TREE, **SETTINGS).fit(X[:700], Y[:700])
    parts = fit_classifier(HiPaNClassifier(TREE, **SETTINGS), X[:700], Y[:700], shards=5)
    right = [np.mean(model.predict(X[700:]) == Y[700:]) for model in (plain, parts)]
    assert right[1] > 0.5 and abs(right[0] - right[1]) < 0.05
    assert bytes_of(parts) != bytes_of(plain)


def test_a_cluster_gives_the_bytes_of_one_process(thrice, client):
    assert bytes_of(fitted(shards=3, engine=client)) == bytes_of(thrice)


def test_a_stopped_fit_goes_on_to_the_same_bytes(thrice, tmp_path, monkeypatch):
    class Stopped(Exception):
        pass

    stops, done = [9, 5, 2], []
    run = _Cluster._results

    def interrupted(self, work, shared, tasks):
        for found in run(self, work, shared, tasks):
            if stops and len(done) == stops[-1]:
                stops.pop()
                raise Stopped
            done.append(work.__name__)
            yield found

    monkeypatch.setattr(_Cluster, "_results", interrupted)
    for _ in range(3):
        with pytest.raises(Stopped):
            fitted(shards=3, checkpoint=tmp_path / "kept")
    before = len(done)
    model = fitted(shards=3, checkpoint=tmp_path / "kept")
    assert bytes_of(model) == bytes_of(thrice)
    assert before == 9  # nothing that was finished is made again
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["_manifest.json"]


def test_a_damaged_part_is_made_again_and_another_job_is_refused(thrice, tmp_path, monkeypatch):
    folder = tmp_path / "kept"
    monkeypatch.setattr(_Cluster, "_path", lambda self, part: folder / f"all-{self.step:05d}-{part:05d}.npz")
    fitted(shards=3, checkpoint=folder)
    for path in sorted(folder.glob("all-*.npz"))[::2]:
        path.write_bytes(path.read_bytes()[:100])
    assert bytes_of(fitted(shards=3, checkpoint=folder)) == bytes_of(thrice)
    with pytest.raises(DataError, match="another job.*shards"):
        fitted(shards=2, checkpoint=folder)
    with pytest.raises(DataError, match="another job.*rows"):
        fit_classifier(HiPaNClassifier(TREE, **SETTINGS), X, Y[::-1], shards=3, checkpoint=folder)


def test_refusals(tmp_path):
    model = HiPaNClassifier(TREE, random_state=None)
    for given, said in (
        ({"shards": 0}, "at least 1, got 0"),
        ({"shards": True}, "got True"),
        ({"engine": "here"}, "distributed.Client"),
        ({"checkpoint": tmp_path / "x"}, "random_state"),
    ):
        with pytest.raises(VpunnError, match=said):
            fit_classifier(model, X, Y, **given)
    with pytest.raises(VpunnError, match="label sets"):
        fit_classifier(model, X, [{a, "d0"} for a in Y], shards=2)
    with pytest.raises(VpunnError, match="HiPaNClassifier, got a Tree"):
        fit_classifier(TREE, X, Y)
    assert not (tmp_path / "x").exists()


def test_shards_are_whole_nodes_in_order():
    rng = np.random.default_rng(1)
    for shards in (1, 2, 7, 50):
        node = rng.integers(0, 30, 200)
        owner = shard_of(node, shards)
        assert owner.min() >= 0 and owner.max() < shards
        by_node = [np.unique(owner[node == one]) for one in np.unique(node)]
        assert all(len(found) == 1 for found in by_node)
        assert np.all(np.diff(np.concatenate(by_node)) >= 0)
    assert np.bincount(shard_of(np.arange(100), 4)).tolist() == [25] * 4
    assert Crew().shards == 1


SCRIPT = """
    import sys
    from test_fitting import fitted, bytes_of
    model = fitted(shards=3, checkpoint=sys.argv[1])
    open(sys.argv[2], "wb").write(bytes_of(model))
"""


@pytest.mark.parametrize("kills", [pytest.param(20, marks=pytest.mark.slow)])
def test_killed_fits_end_with_the_same_bytes(thrice, tmp_path, kills):
    """``kill -9`` at random moments of the whole run: it is started again until it ends."""
    rng = np.random.default_rng(kills)
    where = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT)]
    killed = 0
    for round in range(3 * kills):
        folder, out = tmp_path / f"kept{killed // 5}", tmp_path / f"out{round}"
        process = subprocess.Popen([*command, str(folder), str(out)], env=where)
        if killed < kills:
            time.sleep(rng.uniform(1.5, 5.0))
            process.send_signal(signal.SIGKILL)
        code = process.wait()
        killed += code == -signal.SIGKILL
        if code == 0:
            assert out.read_bytes() == bytes_of(thrice)
            if killed >= kills:
                return
    raise AssertionError(f"only {killed} of {kills} kills in {3 * kills} runs")
