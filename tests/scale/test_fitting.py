"""A classifier fitted in parts: the bytes of one process on any engine, from any checkpoint, however often it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from scipy import sparse

from vpunn import HiPaNClassifier, Tree
from vpunn.errors import DataError, VpunnError
from vpunn.scale import fit_classifier
from vpunn.scale.fitting import _Folds

SETTINGS = {"random_state": 3}


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
    """Answers and the weights of the combiner."""
    learned = b"" if model.multilabel_ else b"".join(part.tobytes() for part in model.model_.combiner)
    return model.predict_proba(X[:60]).tobytes() + learned


def fitted(**options):
    return fit_classifier(HiPaNClassifier(TREE, **SETTINGS), X, Y, **options)


@pytest.fixture(scope="module")
def plain():
    """In one process, by the model itself."""
    return HiPaNClassifier(TREE, **SETTINGS).fit(X, Y)


def test_a_cluster_gives_the_bytes_of_one_process(plain, client):
    assert bytes_of(fitted(engine=client)) == bytes_of(plain)


def test_a_stopped_fit_goes_on_to_the_same_bytes(plain, tmp_path, monkeypatch):
    class Stopped(Exception):
        pass

    stops, done = [4, 3, 1], []
    run = _Folds._results

    def interrupted(self, work, tasks):
        for found in run(self, work, tasks):
            if stops and len(done) == stops[-1]:
                stops.pop()
                raise Stopped
            done.append(work.__name__)
            yield found

    monkeypatch.setattr(_Folds, "_results", interrupted)
    for _ in range(3):
        with pytest.raises(Stopped):
            fitted(checkpoint=tmp_path / "kept")
    before = len(done)
    model = fitted(checkpoint=tmp_path / "kept")
    assert bytes_of(model) == bytes_of(plain)
    assert before == 4  # nothing that was finished is made again
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["_manifest.json"]


def test_a_damaged_part_is_made_again_and_another_job_is_refused(plain, tmp_path, monkeypatch):
    folder = tmp_path / "kept"
    monkeypatch.setattr(_Folds, "_path", lambda self, part: folder / f"all-{self.step:05d}-{part:05d}.npz")
    fitted(checkpoint=folder)
    for path in sorted(folder.glob("all-*.npz"))[::2]:
        path.write_bytes(path.read_bytes()[:100])
    assert bytes_of(fitted(checkpoint=folder)) == bytes_of(plain)
    with pytest.raises(DataError, match="another job.*rows"):
        fit_classifier(HiPaNClassifier(TREE, **SETTINGS), X, Y[::-1], checkpoint=folder)


def test_refusals(tmp_path):
    model = HiPaNClassifier(TREE, random_state=None)
    for wrong, said in (
        ({"engine": "here"}, "distributed.Client"),
        ({"checkpoint": tmp_path / "x"}, "random_state"),
    ):
        with pytest.raises(VpunnError, match=said):
            fit_classifier(model, X, Y, **wrong)
    with pytest.raises(VpunnError, match="HiPaNClassifier, got a Tree"):
        fit_classifier(TREE, X, Y)
    assert not (tmp_path / "x").exists()


def test_label_sets_are_fitted_here(client):
    sets = [{label, "d0"} if i % 3 else {label} for i, label in enumerate(Y[:300])]
    plain = HiPaNClassifier(TREE, **SETTINGS).fit(X[:300], sets)
    assert bytes_of(fit_classifier(HiPaNClassifier(TREE, **SETTINGS), X[:300], sets, engine=client)) == bytes_of(plain)


SCRIPT = """
    import signal, sys, time
    signal.setitimer(signal.ITIMER_PROF, float(sys.argv[3]))  # nobody handles the signal: it ends the process as kill -9 does
    from test_fitting import SETTINGS, bytes_of, problem
    from vpunn import HiPaNClassifier
    from vpunn.scale import fit_classifier
    tree, X, y = problem(rows=9000)
    model = fit_classifier(HiPaNClassifier(tree, **SETTINGS), X, y, checkpoint=sys.argv[1])
    open(sys.argv[2], "wb").write(bytes_of(model))
    print(time.process_time())
"""


def parts_in(folder):
    """When each finished part of a fit was written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("step-?????-?????.npz")}


@pytest.mark.parametrize("kills", [pytest.param(20, marks=pytest.mark.slow)])
def test_killed_fits_end_with_the_same_bytes(tmp_path, kills):
    """Killed at random shares of the CPU seconds of a whole run: it is started again until it ends, from the parts it has."""
    tree, rows, labels = problem(rows=9000)
    right = bytes_of(HiPaNClassifier(tree, **SETTINGS).fit(rows, labels))
    where = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT)]

    def run(folder, out, seconds=0.0):
        """CPU seconds of a run that ended by itself, None of one that was killed after so many; 0: it is not."""
        done = subprocess.run([*command, str(folder), str(out), str(seconds)], env=where, capture_output=True)
        assert done.returncode in (0, -signal.SIGPROF), done.stderr
        assert done.returncode or out.read_bytes() == right
        return None if done.returncode else float(done.stdout)

    whole = run(tmp_path / "straight", tmp_path / "out")
    rng = np.random.default_rng(kills)
    runs, left, resumed = 1, [], 0  # parts that each kill left behind; runs to the end that found parts
    for fit in range(kills // 4):
        folder, out = tmp_path / f"kept{fit}", tmp_path / f"out{fit}"
        while len(left) < 4 * (fit + 1):
            before, runs = parts_in(folder), runs + 1
            assert runs <= 2 * kills, f"only {len(left)} of {kills} kills in {runs} runs"
            if run(folder, out, whole * rng.uniform(0.2, 0.7)) is None:
                assert before.items() <= parts_in(folder).items()  # nothing that was finished is made again
                left.append(len(parts_in(folder)))
        resumed, runs = resumed + bool(parts_in(folder)), runs + 1
        assert run(folder, out) is not None
    assert resumed >= 2 and len(set(left)) >= 3, f"{resumed} fits went on from parts; kills left {sorted(left)} parts"
