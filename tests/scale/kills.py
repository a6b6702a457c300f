"""Streams and checkpointed sums that are killed while they run: ``python tests/scale/kills.py FOLDER KILLS``; prints JSON.

One process imports everything once and forks a run per kill, so that twenty kills take seconds. After each kill what is there
is whole; at the end the run goes on to the bytes of one that was never killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import vpunn
from vpunn.scale import BallSums, predict, sum_rows

NODES, ROWS, FILES = 2000, 200_000, 16
SIZES: dict[str, Any] = {"columns": ["label"], "batch_rows": 10_000, "part_rows": 10_000}


def prepare(folder: Path) -> None:
    """A regressor of labels, a Parquet file to predict, and the same rows in several files to sum."""
    rng = np.random.default_rng(1)
    labels = [f"n{i}" for i in range(NODES)]
    tree = vpunn.Tree.from_parents([-1, *rng.integers(0, np.arange(1, NODES))], labels=labels)
    nodes, y = rng.integers(0, NODES, ROWS), rng.normal(size=ROWS)
    whole = BallSums.from_rows(tree, nodes, y)
    whole.save(folder / "whole")
    tree.save(folder / "tree")
    vpunn.VPuNNRegressor.from_sums(whole, penalty=1.0).save(folder / "model")
    table = pa.table({"label": tree.labels[nodes].astype(str), "y": y})
    pq.write_table(table, folder / "rows.parquet")
    (folder / "in").mkdir()
    for k in range(FILES):
        pq.write_table(table.take(np.arange(k, ROWS, FILES)), folder / "in" / f"{k:02d}.parquet")
    predict(folder / "model", folder / "rows.parquet", f"{folder}/straight/", **SIZES)


def stream(folder: Path) -> None:
    """Predictions into a folder of parts."""
    predict(folder / "model", folder / "rows.parquet", f"{folder}/killed/", **SIZES)


def check_stream(folder: Path) -> int:
    """How many parts there are, each of them whole."""
    parts = list((folder / "killed").glob("part-*.parquet"))
    assert all(pq.read_metadata(part).num_rows == SIZES["part_rows"] for part in parts)
    return len(parts)


def stream_is_right(folder: Path) -> bool:
    """Whether the parts are those of a run that was never killed."""
    found = [{p.name: p.read_bytes() for p in (folder / name).glob("[p_]*")} for name in ("straight", "killed")]
    return found[0] == found[1] and "_manifest.json" in found[0]


def fit(folder: Path) -> None:
    """Sums with a checkpoint, then a model."""
    sums = sum_rows(vpunn.load(folder / "tree"), folder / "in", label="label", y="y", checkpoint=folder / "kept")
    sums.save(folder / "sums")


def check_fit(folder: Path) -> int:
    """How many files have been summed, each sum loads."""
    kept = list((folder / "kept").glob("sums-*"))
    for one in kept:
        vpunn.load(one)
    return len(kept)


def fit_is_right(folder: Path) -> bool:
    """Whether the sums are those of all rows at once."""
    return bool(vpunn.load(folder / "sums") == vpunn.load(folder / "whole"))


JOBS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], int], Callable[[Path], bool], str]] = {
    "stream": (stream, check_stream, stream_is_right, "killed/part-*"),
    "fit": (fit, check_fit, fit_is_right, "kept/sums-*"),
}


def forked(work: Callable[[], Any]) -> int:
    """Start work in a process of its own; its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def finished(work: Callable[[], Any]) -> float:
    """Let work run to its end; seconds."""
    begun = time.perf_counter()
    assert os.waitpid(forked(work), 0)[1] == 0
    return time.perf_counter() - begun


def without(path: Path) -> None:
    """Take a part away, so that the next run has something to do."""
    for inside in path.iterdir() if path.is_dir() else ():
        inside.unlink()
    path.rmdir() if path.is_dir() else path.unlink()


def main() -> None:
    """The command."""
    folder, kills = Path(sys.argv[1]), int(sys.argv[2])
    finished(lambda: prepare(folder))  # in a child: this process stays without threads, and can be forked
    rng, found = np.random.default_rng(kills), {}
    for name, (work, check, right, parts) in JOBS.items():
        whole = finished(lambda work=work: work(folder))
        stopped, seen = 0, []
        for _ in range(kills):
            for path in sorted(folder.glob(parts))[:: int(rng.integers(1, 3))]:
                without(path)
            running = forked(lambda work=work: work(folder))
            time.sleep(float(rng.uniform(0.05, 0.9)) * whole)
            os.kill(running, signal.SIGKILL)
            stopped += os.waitpid(running, 0)[1] == signal.SIGKILL
            seen.append(check(folder))
        finished(lambda work=work: work(folder))
        found[name] = {"stopped": stopped, "parts": seen, "right": right(folder)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
