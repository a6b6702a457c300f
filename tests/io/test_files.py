"""The one atomic writer: whole or not at all, links followed, permissions kept, leftovers swept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from vpunn.cli import app
from vpunn.errors import DataError
from vpunn.io.files import LEFTOVER_SECONDS, check_writable, make_folder, save, written_beside


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "model.bin"
    save(path, b"old")

    def write_half() -> None:
        with written_beside(path) as scratch:
            scratch.write_bytes(b"new, half")
            raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        write_half()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.bin"]
    save(path, b"new")
    assert path.read_bytes() == b"new"


def test_scratch_names_are_random_hidden_and_keep_the_ending(tmp_path):
    with written_beside(tmp_path / "a.PNG") as one, written_beside(tmp_path / "a.PNG") as two:
        assert one != two
        assert {path.parent for path in (one, two)} == {tmp_path}
        assert all(path.name.startswith(".a.PNG.") and path.suffix == ".png" for path in (one, two))
        one.write_bytes(b"1")
        two.write_bytes(b"2")
    assert (tmp_path / "a.PNG").read_bytes() == b"1"  # the outer block ends last


def test_the_longest_names_can_be_written(tmp_path):
    path = tmp_path / ("ä" * 120 + ".csv")
    save(path, b"long")
    assert path.read_bytes() == b"long"
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX permissions")
def test_permissions_follow_the_umask_or_the_old_file(tmp_path):
    before = os.umask(0o027)
    try:
        save(tmp_path / "new", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640
    (tmp_path / "new").chmod(0o604)
    save(tmp_path / "new", b"again")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o604


def test_symbolic_links_stay_and_their_target_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "data", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    save(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    (tmp_path / "dangling").symlink_to(tmp_path / "there" / "made")
    save(tmp_path / "dangling", b"made")
    assert (tmp_path / "there" / "made").read_bytes() == b"made"


def test_a_killed_writer_leaves_the_old_file_and_its_scratch_is_swept_later(tmp_path):
    path = tmp_path / "big"
    save(path, b"old")
    code = (
        "import sys, time\nfrom vpunn.io.files import written_beside\n"
        "with written_beside(sys.argv[1]) as scratch:\n"
        "    scratch.write_bytes(b'half'); print('writing', flush=True); time.sleep(60)\n"
    )
    source = str(Path(__file__).parents[2] / "src")
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": source}
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        writer.send_signal(signal.SIGKILL if os.name != "nt" else signal.SIGTERM)
    assert path.read_bytes() == b"old"
    (left,) = [name for name in os.listdir(tmp_path) if name != "big"]
    save(tmp_path / "other", b"")
    save(path, b"young scratch files may be in use")
    assert left in os.listdir(tmp_path)
    old = time.time() - LEFTOVER_SECONDS - 60
    os.utime(tmp_path / left, (old, old))
    save(tmp_path / "other", b"not its target")
    assert left in os.listdir(tmp_path)
    save(path, b"swept")
    assert sorted(os.listdir(tmp_path)) == ["big", "other"]


def test_places_that_cannot_be_written_are_refused_before_the_work(tmp_path):
    with pytest.raises(DataError, match="it is a folder; name a file in it"):
        check_writable(tmp_path)
    with pytest.raises(DataError, match="there is no folder '.*nowhere'; create it first"):
        check_writable(tmp_path / "nowhere" / "x")
    with pytest.raises(DataError, match="its ending '.txt' is not one of .png, .svg"):
        check_writable(tmp_path / "x.txt", (".png", ".svg"))
    with pytest.raises(DataError, match="named by text or a pathlib.Path"), written_beside(5):  # type: ignore[arg-type]
        pass


def test_a_folder_for_outputs_is_made_and_tried(tmp_path):
    assert make_folder(tmp_path / "a" / "b").is_dir()
    assert not list((tmp_path / "a" / "b").iterdir())
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="it is a file; choose another place"):
        make_folder(tmp_path / "file")


@pytest.mark.skipif(
    os.name != "posix" or not os.path.exists("/proc"), reason="needs /proc, where nothing can be written"
)
def test_a_folder_that_cannot_be_written_is_refused():
    with pytest.raises(DataError, match="cannot write into the folder '/proc/owl'"):
        make_folder("/proc/owl")


def test_the_demo_looks_at_its_folder_before_it_fetches_anything(tmp_path, monkeypatch):
    monkeypatch.setattr("vpunn.datasets.load_wordnet", lambda: pytest.fail("fetched before the folder was tried"))
    (tmp_path / "file").write_text("x")
    found = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "file")])
    assert isinstance(found.exception, DataError) and "it is a file" in str(found.exception)
