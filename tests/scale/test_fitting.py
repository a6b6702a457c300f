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
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from vpunn import HiPaNClassifier, Tree
from vpunn.errors import DataError, VpunnError
from vpunn.hipan._crew import Crew, add_up, shard_of
from vpunn.hipan.sets._heads import _even
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
    """Answers and, as one expert may settle all of them, the weights of the heads."""
    heads = b"" if model.multilabel_ else model.heads_.weight.tobytes()
    return model.predict_proba(X[:60]).tobytes() + heads


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
    for wrong, said in (
        ({"shards": 0}, "at least 1, got 0"),
        ({"shards": True}, "got True"),
        ({"engine": "here"}, "distributed.Client"),
        ({"checkpoint": tmp_path / "x"}, "random_state"),
    ):
        with pytest.raises(VpunnError, match=said):
            fit_classifier(model, X, Y, **wrong)
    with pytest.raises(VpunnError, match="HiPaNClassifier, got a Tree"):
        fit_classifier(TREE, X, Y)
    assert not (tmp_path / "x").exists()


def test_label_sets_are_the_same_in_any_shards(client, tmp_path):
    sets = [{label, "d0"} if i % 3 else {label} for i, label in enumerate(Y)]
    plain = HiPaNClassifier(TREE, **SETTINGS).fit(X, sets)
    for options in ({"shards": 1}, {"shards": 7, "checkpoint": tmp_path / "kept"}, {"shards": 3, "engine": client}):
        other = fit_classifier(HiPaNClassifier(TREE, **SETTINGS), X, sets, **options)
        assert bytes_of(other) == bytes_of(plain)
        assert other.sets_.heads.data.tobytes() == plain.sets_.heads.data.tobytes()


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(1, 40))
def test_labels_are_cut_into_even_parts(counts, parts):
    cuts = _even(np.array(counts), parts)
    assert len(cuts) == parts + 1 and cuts[0] == 0 and cuts[-1] == len(counts) and (np.diff(cuts) >= 0).all()
    sizes = np.add.reduceat(np.append(np.array(counts) + 1, 0), np.minimum(cuts[:-1], len(counts)))
    assert (sizes[np.diff(cuts) > 0] <= (sum(counts) + len(counts)) / parts + max(counts) + 1).all()


def test_steps_of_several_shards_are_as_long_as_those_of_one():
    """Of n equal pushes AdaGrad makes 1 + 1/√2 + … + 1/√n ≈ 2√n: shards that take n/4 each must not get 2·√(n/4)·4."""

    def pushed(times, energy=1.0):
        value = 0.0
        for _ in range(times):
            energy += 1.0
            value += 1.0 / np.sqrt(energy)
        return value, energy - 1.0

    place, (change, more) = np.array([1]), pushed(100)
    value, energy = np.zeros(3), np.ones(3)
    add_up(value, energy, [(place, np.array([change]), np.array([more]))])
    assert value.tolist() == [0.0, change, 0.0] and energy.tolist() == [1.0, 101.0, 1.0]
    add_up(value := np.zeros(3), energy := np.ones(3), [(place, np.array([change]), np.array([more]))] * 4)
    assert energy[1] == 401.0 and value[1] == pytest.approx(pushed(400)[0], rel=0.1)


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
