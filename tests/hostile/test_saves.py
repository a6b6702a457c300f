"""A save deletes nothing that is not its own: foreign folders, files put in at any moment, and writers that are killed."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path

import numpy as np
import pytest

import vpunn
from commands import run
from hostile.kills import first_saves, put_in
from vpunn import Tree
from vpunn.cli import app
from vpunn.errors import DataError
from vpunn.files import short_name
from vpunn.store import _swap

TREE = Tree.from_parents([-1, 0, 0])
OTHER = Tree.from_parents([-1, 0, 0, 1, 1])


@pytest.fixture
def model(tmp_path):
    return TREE.save(tmp_path / "model")


def everything(folder):
    """Every file below a folder, hidden ones too, with its bytes."""
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def foreign_model(folder):
    (folder / "model.json").write_text('{"learner":{}}')
    np.save(folder / "train.npy", np.arange(9))


def forged_model(folder):
    """What looks like ours in every word, but was not sealed by us."""
    TREE.save(folder / "x")
    head = json.loads((folder / "x" / "model.json").read_text())
    head["arrays"]["train"] = head["arrays"]["parent"]
    shutil.rmtree(folder / "x")
    (folder / "model.json").write_text(json.dumps(head))
    np.save(folder / "train.npy", np.arange(9))


def nested(depth):
    """A model in a model in a model …"""
    plain = {"kind": "a", "format": 1, "settings": {}, "arrays": {}}
    return functools.reduce(lambda inner, _: {**plain, "parts": {"a": inner}}, range(depth), plain)


def with_more(name):
    def build(folder):
        folder.rmdir()
        TREE.save(folder)
        if name.endswith("/"):
            (folder / name).mkdir()
            (folder / name / "diary.txt").write_text("dear diary")
        else:
            (folder / name).write_bytes(b"mine")

    return build


def with_a_link(folder):
    """One of the model's own arrays is a link to somebody's file."""
    folder.rmdir()
    TREE.save(folder)
    (folder / "parent.npy").rename(folder.parent / "kept.npy")
    (folder / "parent.npy").symlink_to(folder.parent / "kept.npy")


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (foreign_model, "its model.json was not written by vpunn"),
        (forged_model, "its model.json was not written by vpunn, or was changed since"),
        (lambda folder: (folder / "model.json").write_text("[" * 100_000), "not written by vpunn"),
        (lambda folder: (folder / "model.json").write_text(json.dumps(nested(400))), "not written by vpunn"),
        (lambda folder: (folder / "model.json").mkdir(), "not written by vpunn"),
        (lambda folder: os.mkfifo(folder / "model.json"), "not written by vpunn"),
        (with_more("mine.npy"), "also holds 'mine.npy'"),
        (with_more("sub.npy/"), "also holds 'sub.npy'"),
        (with_more("weights.safetensors"), "also holds 'weights.safetensors'"),
        (with_more(".hidden.npy"), "also holds '.hidden.npy'"),
        (with_a_link, "also holds 'parent.npy'"),
    ],
)
def test_what_is_not_ours_stays(tmp_path, build, said):
    folder = tmp_path / "folder"
    folder.mkdir()
    build(folder)
    before = sorted(p.name for p in folder.iterdir()), everything(folder) if said.startswith("also") else None
    with pytest.raises(DataError, match=said):
        OTHER.save(folder)
    assert before == (sorted(p.name for p in folder.iterdir()), everything(folder) if before[1] else None)
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_models_inside_models_without_end_are_refused(model):
    (model / "model.json").write_text(json.dumps(nested(400)))
    with pytest.raises(DataError, match="does not describe a model"):
        Tree.load(model)


def test_links_working_directories_and_mounts_are_refused(model, tmp_path, monkeypatch):
    link, nowhere = tmp_path / "latest", tmp_path / "dangling"
    link.symlink_to(model)
    nowhere.symlink_to(tmp_path / "nothing")
    for path in (link, f"{link}/", nowhere):
        with pytest.raises(DataError, match="it is a link; save to"):
            OTHER.save(path)
    for path in ("/", "/proc", *(["/dev/shm"] if os.path.ismount("/dev/shm") else [])):
        with pytest.raises(DataError, match="cannot write"):
            OTHER.save(path)
    sleeper = subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], cwd=model, stdin=-1, stdout=-1)
    try:
        sleeper.stdout.readline()
        if sys.platform == "linux":
            with pytest.raises(DataError, match="the working directory of a process; name a folder in it"):
                OTHER.save(model)
    finally:
        sleeper.communicate(b"\n")
    monkeypatch.chdir(model)
    for path in (".", "", model):
        with pytest.raises(DataError, match="the working directory of a process"):
            OTHER.save(path)
    assert Tree.load(model) == TREE
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="the working directory"):
        OTHER.save("../" + tmp_path.name)
    assert Tree.load(OTHER.save("model")) == OTHER


@pytest.mark.parametrize("exchange", [True, False])
def test_what_is_put_in_during_a_save_moves_across(model, monkeypatch, exchange):
    """At the last moment, and with names that the new model has too."""

    def late(*paths):
        (model / "notes.txt").write_text("mine")
        (model / "sub.npy").mkdir(exist_ok=True)
        (model / "sub.npy" / "deep.txt").write_text("mine too")
        np.save(model / "column0.npy", np.arange(7))
        return taken(*paths) if exchange else False

    taken = _swap._exchange
    monkeypatch.setattr(_swap, "_exchange", late)
    new = OTHER.replace(columns={"mass": np.arange(5.0)})
    new.save(model)
    assert Tree.load(model) == new
    assert (model / "notes.txt").read_text() == "mine"
    assert (model / "sub.npy" / "deep.txt").read_text() == "mine too"
    assert np.load(model / "column0.npy.1").tolist() == list(range(7))  # its name was taken
    assert [p.name for p in model.parent.iterdir()] == ["model"]


def test_a_folder_that_stops_being_a_model_during_a_save_stays(model, monkeypatch):
    """Its owner deletes the model and begins something else in the folder, before or after the last look at it."""

    def spoil():
        for file in list(model.iterdir()):
            file.unlink()
        np.save(model / "train.npy", np.arange(9))

    taken, calls = _swap._exchange, []

    def late(*paths):
        if not calls:
            spoil()
        calls.append(paths)
        return taken(*paths)

    monkeypatch.setattr(_swap, "_exchange", late)
    with pytest.raises(DataError, match="put there meanwhile"):
        OTHER.save(model)
    assert [p.name for p in model.iterdir()] == ["train.npy"]
    with pytest.raises(DataError, match="no model"):
        OTHER.save(model)
    assert [p.name for p in model.parent.iterdir()] == ["model"]


def test_a_folder_of_the_name_that_waits_aside_stays(model):
    """Old models wait in ``.model.replaced`` on some systems; a folder of that name that is no model is somebody's."""
    mine = model.with_name(".model.replaced")
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    OTHER.save(model)
    assert (mine / "notes.txt").read_text() == "mine" and [p.name for p in mine.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    "words",
    [
        "encode tree.csv --out {tree.csv}",
        "encode tree.csv table.csv --out {tree.csv}",
        "encode tree.csv table.csv --out {table.csv}",
        "encode tree.csv link.csv --out {table.csv}",
        "distance tree.csv a b --matrix --out {tree.csv}",
        "tree convert tree.csv {tree.csv}",
        "discover table.csv --codes {table.csv}",
    ],
)
def test_no_command_writes_over_what_it_reads(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    Path("tree.csv").write_text("child,parent\na,r\nb,r\n")
    Path("table.csv").write_text("label,n,m\na,1,2\nb,2,3\n")
    Path("link.csv").symlink_to("table.csv")
    before = everything(tmp_path)
    with pytest.raises(DataError, match=r"it is the file that is read; name another file, or it would be lost"):
        run(app, *words.translate({ord("{"): None, ord("}"): None}).split())
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    ("words", "name", "said"),
    [
        ("reproduce hipaq --only decays --seeds 1 --out out", "out/hipaq/report.html", "which vpunn has not written"),
        ("reproduce hipaq --only decays --seeds 1 --out out", "out/hipaq/report.json", "which vpunn has not written"),
        ("figures F3 --data tree.csv --out out", "out/index.html", "which vpunn has not written"),
        ("figures F3 --data tree.csv --out out", "out/F03.png", "which vpunn has not written"),
        ("report tree.csv", "report.html", "it is no page of vpunn"),
    ],
)
def test_reports_replace_reports_alone(tmp_path, monkeypatch, words, name, said):
    monkeypatch.chdir(tmp_path)
    Path("tree.csv").write_text("child,parent\na,r\nb,r\nc,a\nd,a\n")
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text('{"mine": 1}')
    before = everything(tmp_path)
    with pytest.raises(DataError, match=said):
        run(app, *words.split())
    assert everything(tmp_path) == before
    Path(name).unlink()
    run(app, *words.split())
    run(app, *words.split())  # over its own


def test_private_folders_stay_private(model):
    model.chmod(0o700)
    OTHER.save(model)
    assert model.stat().st_mode & 0o777 == 0o700


def test_a_stranger_reads_what_he_may_and_writes_nothing(capfd):
    """A model of one user, opened by another who may only read it: every refusal is a sentence, nothing is left behind."""
    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        path = OTHER.save(place / "model")
        place.chmod(0o755)
        path.chmod(0o755)
        for file in path.iterdir():
            file.chmod(0o644)
        closed = TREE.save(place / "closed")
        closed.chmod(0o700)
        mine = place / "mine"
        mine.mkdir()
        mine.chmod(0o777)
        (mine / "kept.nwk").write_text("mine")
        (mine / "kept.nwk").chmod(0o444)
        if (writer := os.fork()) == 0:
            failed = 1
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                assert Tree.load(path) == OTHER
                for target in (path, place / "new", closed, closed / "inside"):
                    with pytest.raises(DataError, match="cannot (write|use)"):
                        TREE.save(target)
                for read in (Tree.load, vpunn.load):
                    with pytest.raises(DataError):
                        read(closed)
                with pytest.raises(DataError, match="read-only"):
                    vpunn.write_tree(TREE, place / "tree.nwk")
                with pytest.raises(DataError, match="that file is read-only"):
                    vpunn.write_tree(TREE, mine / "kept.nwk")
                assert (mine / "kept.nwk").read_text() == "mine"
                failed = 0
            finally:
                sys.stdout.flush()
                if failed:
                    traceback.print_exc()
                os._exit(failed)
        assert os.waitpid(writer, 0)[1] == 0, capfd.readouterr().err
        assert sorted(p.name for p in place.iterdir()) == ["closed", "mine", "model"]
        assert Tree.load(path) == OTHER and Tree.load(closed) == TREE


@pytest.mark.parametrize("name", ["a" * 51, "a" * 250, "é" * 100, "line\nbreak"])
def test_leftovers_of_any_name_are_swept(tmp_path, name):
    """A writer that died half-way, and one that died when the old folder, with something new in it, had just moved out."""
    path = OTHER.save(tmp_path / name)
    half, old = (tmp_path / f".{short_name(path)}.{'0' * 16}.{ending}" for ending in ("part", "1.swap"))
    half.mkdir()
    (half / "weight.npy").write_bytes(b"half")
    os.utime(half, (0, 0))
    TREE.save(tmp_path / "model").rename(old)
    (old / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match=r"also holds 'notes\.txt'"):
        TREE.save(path)
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert (path / "notes.txt").read_text() == "mine"


def test_first_saves_of_many_processes_all_end_well(tmp_path):
    assert first_saves(tmp_path, 3) == {"failed": 0, "left": []}


def test_no_file_is_lost_whoever_is_killed(tmp_path):
    found = put_in(tmp_path, 1.5)
    assert found["put"] > 10 and not found["lost"] and not found["odd"], found


def test_a_reader_meets_whole_models_only_while_others_save(model):
    trees, stop = [TREE, OTHER], threading.Event()

    def save(tree):
        while not stop.is_set():
            tree.save(model)

    savers = [threading.Thread(target=save, args=(tree,)) for tree in trees]
    for saver in savers:
        saver.start()
    try:
        assert all(Tree.load(model) in trees for _ in range(100))
    finally:
        stop.set()
        for saver in savers:
            saver.join()
    assert sorted(Path(model).parent.iterdir()) == [model]
