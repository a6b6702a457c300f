"""A classifier fitted in parts: the bytes of one process on any engine, from any checkpoint, however often it is killed."""

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
    import sys
    from test_fitting import SETTINGS, bytes_of, problem
    from vpunn import HiPaNClassifier
    from vpunn.scale import fit_classifier
    tree, X, y = problem(rows=9000)
    model = fit_classifier(HiPaNClassifier(tree, **SETTINGS), X, y, checkpoint=sys.argv[1])
    open(sys.argv[2], "wb").write(bytes_of(model))
"""


def parts_in(folder):
    """When each finished part of a fit was written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("step-?????-?????.npz")}


@pytest.mark.parametrize("kills", [pytest.param(20, marks=pytest.mark.slow)])
def test_killed_fits_end_with_the_same_bytes(tmp_path, kills):
    """``kill -9`` at random shares of what a whole run takes here: it is started again until it ends, from the parts it has."""
    tree, rows, labels = problem(rows=9000)
    right = bytes_of(HiPaNClassifier(tree, **SETTINGS).fit(rows, labels))
    where = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT)]
    start = time.perf_counter()
    subprocess.run([*command, str(tmp_path / "straight"), str(tmp_path / "out")], env=where, check=True)
    whole = time.perf_counter() - start
    assert (tmp_path / "out").read_bytes() == right
    rng = np.random.default_rng(kills)
    left, resumed = [], 0  # parts that a kill left behind; runs that found parts
    for _ in range(2 * kills):
        folder, out = tmp_path / f"kept{len(left) // 5}", tmp_path / f"out{len(left)}"
        before = parts_in(folder)
        resumed += bool(before)
        process = subprocess.Popen([*command, str(folder), str(out)], env=where)
        try:
            code = process.wait(None if len(left) == kills else whole * rng.uniform(0.2, 0.75))
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if code == 0:
            assert out.read_bytes() == right
            if len(left) == kills:
                break
        else:
            assert code == -signal.SIGKILL
            assert before.items() <= parts_in(folder).items()  # nothing that was finished is made again
            left.append(len(parts_in(folder)))
    assert len(left) == kills, f"only {len(left)} of {kills} kills in {2 * kills} runs"
    assert resumed >= kills // 4 and len(set(left)) >= 3, f"{resumed} runs went on; kills left {sorted(left)} parts"
