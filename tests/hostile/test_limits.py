"""Small inputs that once took minutes, gigabytes or the process: each gets an answer or one sentence, soon."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from vpunn import Tree, files
from vpunn.codes import PadicCode
from vpunn.errors import CodeError, DataError, VpunnError, examples
from vpunn.explanations import export_tree_for_viz
from vpunn.hipan import HiPaNClassifier
from vpunn.io.frames import read_table, write_table
from vpunn.io.nested import read_json
from vpunn.io.obo import read_terms
from vpunn.network import VPuNN
from vpunn.vapo import SoftmaxHeads, minimize
from vpunn.vapo.checkpoint import Checkpoint

SMALL = Tree.from_parents([-1, 0, 0])


def cpu_seconds(work) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


# ---- quadratic -------------------------------------------------------------------------------------------------------


def test_blanks_after_an_obo_id_cost_a_pass():
    text = f"[Term]\nid: a\n[Term]\nid: b\nis_a: a{' ' * 200_000}x\nis_a: a ! a {{comment}}\n"
    source = files.Source("x.obo", text.encode())
    assert cpu_seconds(lambda: list(read_terms(source))) < 2  # 200,000 squared would be minutes
    assert list(read_terms(source))[1].links[1] == ("is_a", "a")


@pytest.mark.parametrize("text", ["[" + " " * 200_000 + "x", "..." + " " * 200_000, "[1," + " " * 200_000 + "x"])
def test_blanks_in_the_text_of_a_code_cost_a_pass(text):
    def parse() -> None:
        with pytest.raises(CodeError, match="cannot read"):
            PadicCode(SMALL).parse(text)

    assert cpu_seconds(parse) < 2


def test_codes_with_blanks_are_still_read():
    code = PadicCode(Tree.from_parents([-1, 0, 1, 1]))
    assert [code.parse(text) for text in ("[ 1,  2 ]", "[1,2]", "[ ]", "[]")] == [3, 3, 0, 0]


def test_a_row_of_many_features_costs_a_pass():
    rng = np.random.default_rng(0)
    X = sparse.random(200, 60_000, 0.01, format="csr", random_state=0)
    model = HiPaNClassifier().fit(X, rng.integers(0, 8, 200))
    long = sparse.csr_matrix(np.ones((1, 60_000)))
    model.predict(long[:, :])
    assert cpu_seconds(lambda: model.predict(long)) < 1.5  # 3.5 s when the features were sorted one by one


# ---- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packer", [gzip, bz2, lzma])
def test_a_packed_file_may_not_grow_without_limit(packer, monkeypatch):
    data = b"a,b\n" * 100_000
    packed = packer.compress(data)
    assert files.load(io.BytesIO(packed)).data == data
    monkeypatch.setattr(files, "UNPACK_BYTES", 1000)
    monkeypatch.setattr(files, "UNPACK_RATIO", 2)
    with pytest.raises(DataError, match=f"unpacks to more than {max(1000, 2 * len(packed)):,}; set VPUNN_UNPACK_LIMIT"):
        files.load(io.BytesIO(packed))
    monkeypatch.setenv("VPUNN_UNPACK_LIMIT", "400000")
    assert files.load(io.BytesIO(packed)).data == data
    monkeypatch.setenv("VPUNN_UNPACK_LIMIT", "399999")
    with pytest.raises(DataError, match="more than 399,999"):
        files.load(io.BytesIO(packed))
    monkeypatch.setenv("VPUNN_UNPACK_LIMIT", "lots")
    with pytest.raises(DataError, match="no number of bytes"):
        files.load(io.BytesIO(packed))


def test_numbers_too_long_for_python_are_named_with_their_place():
    text = '{"name": "a",\n "n": ' + "9" * 5000 + "}"
    with pytest.raises(DataError, match=r"f\.json, line 2, column 7: a whole number of more than 4,300 digits"):
        read_json(files.Source("f.json", text.encode()))
    with pytest.raises(VpunnError, match=r"a whole number of 401 digits; use values='integer'"):
        VPuNN(SMALL).interpolate([10**400, 1])
    with pytest.raises(VpunnError, match=r"5,001 digits"):
        VPuNN(SMALL).interpolate([10**5000, 1])
    assert VPuNN(SMALL, values="integer").interpolate([10**400, 1]).predict([1])[0] == 10**400
    assert examples([10**5000, "x" * 10**6]).endswith("… (1,000,002 characters)")


# ---- the classifier ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def numbers():
    rng = np.random.default_rng(0)
    return HiPaNClassifier().fit(rng.normal(size=(60, 5)), np.arange(60) % 10)


@pytest.mark.parametrize("value", [1e308, -1e308, 1e151])
def test_numbers_that_overflow_when_scaled_are_refused(numbers, value):
    row = np.array([[0, value, 0, 0, 0.0]])
    for X in (row, sparse.csr_matrix(row)):
        with pytest.raises(VpunnError, match=r"row 0, column 1, counted from 0; numbers may be at most 1e\+150"):
            numbers.predict(X)
    with pytest.raises(VpunnError, match="rescale the column"):
        HiPaNClassifier().fit(np.array([[value], [-value], [1.0], [2.0]]), [0, 1, 0, 1])


def test_the_largest_numbers_allowed_give_probabilities(numbers):
    p = numbers.predict_proba(np.array([[1e150, 0, 0, 0, -1e150], [1e-308, 0, 0, 0, 0]]))
    assert np.isfinite(p).all() and np.allclose(p.sum(1), 1)


@pytest.mark.parametrize("jobs", [0, 2.5, "many"])
def test_parameters_set_after_fit_are_checked_where_they_are_used(numbers, jobs):
    try:
        with pytest.raises(VpunnError, match="n_jobs"):
            numbers.set_params(n_jobs=jobs).predict(np.zeros((1, 5)))
    finally:
        numbers.set_params(n_jobs=None)


def test_learning_on_after_load_is_learning_on_before_save(tmp_path):
    rng = np.random.default_rng(0)
    X, y = sparse.csr_matrix(rng.poisson(0.6, (80, 12)).astype(float)), np.arange(80) % 5
    more, labels = X[::-1][:20], np.arange(20) % 5
    model = HiPaNClassifier().fit(X, y)
    loaded = HiPaNClassifier.load(model.save(tmp_path / "m"))
    for one in (model, loaded):
        one.partial_fit(more, labels)
    assert np.array_equal(model.predict_proba(X), loaded.predict_proba(X))


def test_the_number_of_threads_does_not_change_the_bytes(tmp_path):
    script = (
        "import sys, numpy as np; from vpunn.hipan import HiPaNClassifier; rng = np.random.default_rng(0)\n"
        "y = rng.integers(0, 20, 1500); X = rng.normal(size=(20, 150))[y] / 2 + rng.normal(size=(1500, 150))\n"
        "HiPaNClassifier().fit(X, y).save(sys.argv[1] + '/one')\n"
        "Y = [{int(a), int(a) * 7 % 20} for a in y]\n"
        "HiPaNClassifier().fit(np.maximum(X, 0) * (X > 1), Y).save(sys.argv[1] + '/several')"
    )
    for threads in ("1", "2"):
        environment = {**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        (tmp_path / threads).mkdir()
        subprocess.run([sys.executable, "-c", script, str(tmp_path / threads)], env=environment, check=True)
    files_of = [sorted(f for f in (tmp_path / threads).rglob("*") if f.is_file()) for threads in ("1", "2")]
    assert len(files_of[0]) > 40
    for one, two in zip(*files_of, strict=True):
        assert one.read_bytes() == two.read_bytes(), one.name


# ---- other people's programs -----------------------------------------------------------------------------------------


def test_a_label_cannot_end_the_script_it_stands_in():
    label = "</script><script>alert(1)</script>&\u2028"
    text = export_tree_for_viz(Tree.from_parents([-1, 0], labels=["a", label]))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text)["children"][0]["name"] == label


def test_cells_that_start_a_formula_can_be_written_as_text(tmp_path):
    frame = pd.DataFrame({"=cmd": ["=1+1", "-cmd", "-2"], "n": [-1.5, 2.0, 3.0]})
    path = write_table(frame, tmp_path / "t.csv", spreadsheet=True)
    assert path.read_text().splitlines()[:3] == ["'=cmd,n", "'=1+1,-1.5", "'-cmd,2.0"]
    assert read_table(write_table(frame, path))["=cmd"].tolist()[0] == "=1+1"


# ---- checkpoints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["adam", "fisher"])
def test_edited_checkpoints_are_refused(tmp_path, method):
    heads = SoftmaxHeads(Tree.from_parents([-1, 0, 0, 0, 1, 1, 2, 2, 2]))
    path = tmp_path / "run"
    minimize(heads, method, checkpoint=path, checkpoint_every=1)
    whole = Checkpoint.load(path)
    state = [name for name in whole.arrays if name not in ("history", "best")]
    edits = [{name: None} for name in ("history", "best", *state)]
    edits += [{name: np.full_like(array, np.nan)} for name, array in whole.arrays.items() if array.dtype.kind == "f"]
    edits += [{"history": np.zeros(10**6)}, {"history": np.zeros((2, 2))}, {"more": np.zeros(3)}, {"best": np.zeros(1)}]
    for edit in edits:
        arrays = {name: array for name, array in {**whole.arrays, **edit}.items() if array is not None}
        Checkpoint(whole.run, whole.counts, arrays).save(path)
        with pytest.raises(VpunnError, match="damaged"):
            minimize(heads, method, checkpoint=path, resume=True)
