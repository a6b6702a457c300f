"""Writers that are killed while they write: ``python tests/hostile/kills.py FOLDER KILLS``; prints what was found, as JSON.

One process imports everything once and forks a writer per kill, so that many moments of a write are met in seconds. After
each kill the target must be the old content or the new one, whole.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import vpunn
from vpunn import Tree, files
from vpunn.errors import DataError
from vpunn.io import write_tree
from vpunn.io.frames import read_table, write_table
from vpunn.store import Draft

ROWS = 20_000


def _frame(version: int) -> pd.DataFrame:
    return pd.DataFrame({"n": np.full(ROWS, version), "word": ["owl"] * ROWS})


def _version_of(frame: pd.DataFrame) -> int:
    assert len(frame) == ROWS and frame["n"].nunique() == 1, "an incomplete table"
    return int(frame["n"][0])


def _tree(version: int) -> Tree:
    parent = np.zeros(5000, np.int64)
    parent[0] = -1
    return Tree.from_parents(parent, labels=[f"{version} {k}" for k in range(5000)])


def _tree_version(tree: Tree) -> int:
    assert tree.n_nodes == 5000, "an incomplete tree"
    return int(str(tree.labels[0]).split()[0])


def _fit(path: Path, version: int) -> None:
    """``vpunn fit`` as typed."""
    from commands import predict_app, run

    table = path.with_name(f"rows{version}.csv")
    if not table.exists():
        texts = ["small owl bird", "large fish sea", "green fern leaf", f"word{version} tree"] * 10
        write_table(pd.DataFrame({"text": texts, "label": [f"c{k % 4}" for k in range(40)]}), table)
    run(predict_app(), "fit", table, "--text", "text", "--out", path, "--seed", str(version))


def _tabular_fit(path: Path, version: int) -> None:
    """``vpunn tabular fit`` as typed."""
    from commands import run
    from vpunn.cli import app

    table = path.with_name("numbers.csv")
    if not table.exists():
        write_table(pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=list("abc")), table)
    run(app, "tabular", "fit", table, "--epochs", "0", "--out", path, "--seed", str(version))


def _fitted(path: Path) -> int:
    model = vpunn.load(path)
    return int(getattr(model, "model", model).random_state)


def _reproduce(path: Path, version: int) -> None:
    """``vpunn reproduce`` as typed; the number of seeds tells the versions apart."""
    from commands import run
    from vpunn.cli import app

    run(app, "reproduce", "hipaq", "--only", "decays", "--seeds", str(version + 1), "--out", path)


def _reproduced(path: Path) -> int:
    """Every file of the report is whole; each is the old one or the new one."""
    folder = path / "hipaq"
    assert (folder / "report.html").read_text().rstrip().endswith("</html>"), "an incomplete page"
    for table in folder.glob("tables/*.csv"):
        read_table(table)
    for picture in folder.glob("figure-*.png"):
        assert picture.read_bytes().endswith(b"IEND\xaeB`\x82"), "an incomplete picture"
    command = json.loads((folder / "report.json").read_text())["command"]
    return int("--seeds 2" in command)


#: The file that is fetched, its two versions, and the server of this process that has them.
FETCHED = [bytes([version]) * (1 << 21) for version in (0, 1)]


class _Archive(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        content = FETCHED[int(self.path[-1])]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None: ...


def _fetch(path: Path, version: int) -> None:
    """A data set from an upstream server into the cache: downloaded, compared with the catalogue, renamed."""
    from vpunn.datasets.catalog import DataFile, Dataset, Upstream
    from vpunn.datasets.fetch import fetch_files

    os.environ.pop("VPUNN_DATA_DIR", None)
    os.environ["XDG_CACHE_HOME"] = str(path.parent.parent)
    file = DataFile(path.name, 1 << 21, hashlib.sha256(FETCHED[version]).hexdigest())
    source = Upstream(f"http://127.0.0.1:{_server().server_port}/{version}", {path.name: None})
    fetch_files(Dataset("test", "a test", "1", "none", "none", (file,), (source,)), (file,))


@functools.cache
def _server() -> HTTPServer:
    server = HTTPServer(("127.0.0.1", 0), _Archive)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _fetched(path: Path) -> int:
    content = path.read_bytes()
    assert content in FETCHED, "an incomplete file"
    return content[0]


#: Name of the target, how a version is written, and which version a reader finds (an error if none).
WRITERS: dict[str, tuple[str, Callable[[Path, int], Any], Callable[[Path], int]]] = {
    "table": ("t.csv", lambda path, v: write_table(_frame(v), path), lambda path: _version_of(read_table(path))),
    "packed table": ("t.csv.gz", lambda p, v: write_table(_frame(v), p), lambda p: _version_of(read_table(p))),
    "tree file": ("t.json", lambda p, v: write_tree(_tree(v), p), lambda p: _tree_version(vpunn.io.read_tree(p))),
    "model folder": ("tree", lambda path, v: _tree(v).save(path), lambda path: _tree_version(Tree.load(path))),
    "vpunn data fetch": ("f.bin", _fetch, _fetched),
    "vpunn reproduce": ("reports", _reproduce, _reproduced),
    "vpunn fit": ("model", _fit, _fitted),
    "vpunn tabular fit": ("model", _tabular_fit, _fitted),
}


def forked(work: Callable[[], Any]) -> int:
    """Start a writer; its process id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def kill_matrix(folder: Path, kills: int) -> dict[str, Any]:
    """For every writer: versions found after each kill, and what was left over."""
    rng, found = np.random.default_rng(0), {}
    for name, (target, write, version) in WRITERS.items():
        place = folder / name.replace(" ", "_") / "vpunn"
        place.mkdir(parents=True)
        path = place / target
        write(path, 1)  # compiles and reads what there is to read
        assert version(path) == 1
        start = time.perf_counter()
        write(path, 0)
        whole = time.perf_counter() - start
        before = {entry.name for entry in place.iterdir()}
        seen: list[int] = []
        for _ in range(kills):
            writer = forked(lambda path=path, write=write: write(path, 1))
            time.sleep(float(rng.uniform(0, 1.3 * whole)))
            os.kill(writer, signal.SIGKILL)
            os.waitpid(writer, 0)
            seen.append(version(path))
            if seen[-1]:
                write(path, 0)
        litter = {entry.name for entry in place.iterdir()} - before
        visible = [entry for entry in litter if not entry.startswith(".")]
        hidden = [entry for entry in litter if entry.startswith(".")]
        for entry in hidden:  # as if a day had passed
            os.utime(place / entry, (0, 0))
        write(path, 1)
        kept = [entry.name for entry in place.iterdir() if entry.name.startswith(".")]
        found[name] = {
            "old": seen.count(0),
            "new": seen.count(1),
            "visible": visible,
            "swept": len(hidden),
            "kept": kept,
        }
    return found


def races(folder: Path, seconds: float) -> dict[str, Any]:
    """Three writers of one target at once, and a reader who looks all the time: how many looks, how many incomplete."""
    found = {}
    for name in ("table", "tree file", "model folder"):
        target, write, version = WRITERS[name]
        place = folder / f"race_{name.replace(' ', '_')}"
        place.mkdir()
        path = place / target
        write(path, 0)
        until = time.perf_counter() + seconds

        def keep_writing(k: int, path: Path = path, write: Any = write, until: float = until) -> None:
            while time.perf_counter() < until:
                write(path, k % 2)

        writers = [forked(lambda k=k: keep_writing(k)) for k in range(3)]
        looks, broken = 0, []
        while time.perf_counter() < until:
            try:
                version(path)
            except Exception as error:
                broken.append(f"{type(error).__name__}: {error}")
            looks += 1
        codes = [os.waitpid(writer, 0)[1] for writer in writers]
        left = sorted(entry.name for entry in place.iterdir())
        found[name] = {"looks": looks, "broken": broken[:3], "failed": sum(map(bool, codes)), "left": left}
    return found


def first_saves(folder: Path, turns: int, writers: int = 8) -> dict[str, Any]:
    """Many processes save to one new path at the same time: how many fail, and what they leave."""
    failed, tree = 0, _tree(0)
    for turn in range(turns):
        path, go = folder / f"first{turn}", time.monotonic() + 0.05

        def save(path: Path = path, go: float = go) -> None:
            while time.monotonic() < go:
                pass
            tree.save(path)

        failed += sum(bool(os.waitpid(writer, 0)[1]) for writer in [forked(save) for _ in range(writers)])
        Tree.load(path)
    return {"failed": failed, "left": sorted(entry.name for entry in folder.iterdir() if entry.name.startswith("."))}


def put_in(folder: Path, seconds: float, writers: int = 8) -> dict[str, Any]:
    """Processes save to one folder and are killed, while others put their own files and folders in and take them out again.

    Afterwards the folder is saved to twice more; what was put in and is nowhere then is ``lost``, and what stands in the
    folder's neighbourhood without belonging there is ``odd``.
    """
    path, out, notes = folder / "model", folder / "out", folder / "notes"
    small = Tree.from_parents([-1, 0, 0])
    small.save(path)
    out.mkdir()

    def save() -> None:
        rng = np.random.default_rng(os.getpid())
        while True:
            draft = Draft("Example", {"writer": os.getpid()})
            for k in range(int(rng.integers(1, 6))):
                draft.array(f"a{k}", np.full(100, k))
            try:
                draft.write(path)
            except DataError as error:
                if "also holds" not in str(error):
                    raise

    def put() -> None:
        rng = np.random.default_rng(os.getpid())
        for k in itertools.count():
            name = f"mine{os.getpid()}_{k}{rng.choice(['.npy', '.txt', '.npy/deep'])}"
            with contextlib.suppress(FileNotFoundError):
                if name.endswith("/deep"):
                    (path / name).parent.mkdir()
                (path / name).write_text(name)
                with open(notes, "a") as file:
                    file.write(name + "\n")
            time.sleep(float(rng.uniform(0, 0.03)))

    def take_out() -> None:
        for entry in os.listdir(path):
            if entry.startswith("mine"):
                os.rename(path / entry, out / entry)

    def keep_taking_out() -> None:
        while True:
            with contextlib.suppress(OSError):
                take_out()
            time.sleep(0.005)

    savers = [forked(save) for _ in range(writers)]
    others = [forked(put), forked(put), forked(keep_taking_out)]
    rng, until, died = np.random.default_rng(0), time.monotonic() + seconds, 0
    while time.monotonic() < until:
        time.sleep(float(rng.uniform(0, 0.05)))
        k = int(rng.integers(writers))
        died += os.waitpid(savers[k], os.WNOHANG)[0] != 0 or not _killed(savers[k])
        savers[k] = forked(save)
    for process in [*others, *savers]:
        _killed(process)
    for _ in range(3):
        with contextlib.suppress(DataError):  # it says that the folder also holds what came back
            small.save(path)
        take_out()
    put_names = notes.read_text().split()
    lost = [name for name in put_names if not (out / name).exists()]
    odd = [entry.name for entry in folder.iterdir() if entry.name.startswith(".") and not _unfinished(entry)]
    return {"put": len(put_names), "lost": lost, "odd": odd, "died": died, "whole": Tree.load(path) == small}


def _unfinished(entry: Path) -> bool:
    """What a killed writer had not put in place; later writers remove it after a day."""
    return entry.name.endswith((".part", f".{entry.stat().st_ino:x}.swap"))


def _killed(process: int) -> bool:
    """Kill a process; whether that is what it died of."""
    os.kill(process, signal.SIGKILL)
    return os.waitpid(process, 0)[1] == signal.SIGKILL


def main() -> None:
    """The command."""
    folder, kills = Path(sys.argv[1]), int(sys.argv[2])
    seconds = 2.0 if kills < 20 else 10.0
    found = {"kills": kill_matrix(folder, kills), "races": races(folder, seconds)}
    if kills >= 20:
        (folder / "first").mkdir()
        (folder / "put").mkdir()
        found |= {"first saves": first_saves(folder / "first", 60), "put in": put_in(folder / "put", 30.0, writers=48)}
    print(json.dumps(found))


if __name__ == "__main__":
    files.LEFTOVER_SECONDS = 3600.0
    main()
