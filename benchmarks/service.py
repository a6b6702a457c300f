"""What a loaded classifier costs to serve: the folder, loading it, one row at a time by every stop rule, many rows, two threads.

    python -m benchmarks.service [--keep FOLDER] [wordnet] [ncbi] [headlines] [few]

Models are fitted on words (1–2-grams) of the training texts; ``--keep`` saves them there and uses what it finds. ``ncbi`` is all
of NCBI (2.6 million nodes): names of 100,000 leaves, to be placed under their parent. ``few`` are 27,152 glosses of WordNet in its
50 largest balls of one depth. CPU times of one thread, and wall times where
threads are compared.
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.predict.cases import few_classes
from vpunn.datasets.tasks import load_task
from vpunn.hipan import HiPaNClassifier
from vpunn.text import text_features

STOPS: dict[str, dict[str, Any]] = {
    "most probable node": {},
    'stop="threshold"': {"stop": "threshold"},
    'stop="depth"': {"stop": "depth", "depth": 2},
    'stop="risk"': {"stop": "risk"},
    'rule="path"': {"rule": "path"},
}


def words(name: str) -> tuple[Any, Any, Any, Any]:
    """Tree, training rows, their labels and rows to ask."""
    if name == "few":
        case = few_classes(1)
        X, asked = case.X["train"]["words"], case.X["validation"]["words"]
        return case.tree, X, case.tree.labels[case.nodes["train"]], asked
    features = text_features(characters=None, min_rows=1)
    if name != "ncbi":
        task = load_task(name)
        X = features.fit_transform(task.texts["train"])
        return task.tree, X, task.labels("train"), features.transform(task.texts["validation"])
    from vpunn.datasets import load_ncbi

    tree = load_ncbi(root=None).tree
    leaves = np.random.default_rng(0).permutation(tree.leaves)[:103_000]
    names = np.array([str(x) for x in tree.columns.get("name", tree.labels)[leaves]], object)
    X = features.fit_transform(names[:100_000])
    return tree, X, tree.labels[tree.parent[leaves[:100_000]]], features.transform(names[100_000:])


def kept(name: str, folder: Path) -> tuple[Path, Any]:
    """A saved model and rows to ask it, fitted unless they are there."""
    model, rows = folder / f"{name}.model", folder / f"{name}.rows"
    if not model.exists():
        tree, X, y, asked = words(name)
        HiPaNClassifier(tree).fit(X, y).save(model)
        rows.write_bytes(pickle.dumps(asked))
    return model, pickle.loads(rows.read_bytes())


def cpu_ms(work: Callable[[], Any], times: int) -> tuple[float, float]:
    """Least and median CPU milliseconds of so many turns, fewer if they take more than ten seconds."""
    found: list[float] = []
    while len(found) < times and sum(found) < 10_000:
        start = time.process_time()
        work()
        found.append(1e3 * (time.process_time() - start))
    return min(found), float(np.median(found))


def threads(model: Any, rows: Any) -> tuple[float, float]:
    """How much faster two threads are (wall, best of seven interleaved runs each), and how much more CPU they take."""
    wall: dict[int, list[float]] = {1: [], 2: []}
    cpu: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(7):
        for n in (1, 2):
            model.n_jobs = n
            start, used = time.perf_counter(), time.process_time()
            model.predict(rows)
            wall[n].append(time.perf_counter() - start)
            cpu[n].append(time.process_time() - used)
    model.n_jobs = None
    return min(wall[1]) / min(wall[2]), min(cpu[2]) / min(cpu[1])


def measure(name: str, folder: Path) -> None:
    """Print the lines of one model."""
    path, asked = kept(name, folder)
    size = sum(file.stat().st_size for file in path.iterdir()) / 1e6
    model = HiPaNClassifier.load(path, verify=False)

    def line(what: str, least: float, median: float, unit: str = "ms") -> None:
        print(f"| {name} | {what} | {least:.2f} | {median:.2f} | {unit} |", flush=True)

    print(f"| {name} | folder | {size:.0f} | | MB |")
    line("load, structure checked", *cpu_ms(lambda: HiPaNClassifier.load(path, verify=False), 15))
    line("load, checksums too", *cpu_ms(lambda: HiPaNClassifier.load(path), 5))
    line("copy by pickle", *cpu_ms(lambda: pickle.loads(pickle.dumps(model, 5)), 5))
    rows = [asked[i] for i in range(min(200, asked.shape[0]))]
    for what, options in STOPS.items():
        model.predict(rows[0], **options)
        turn = iter(rows * (1 + 1000 // len(rows)))
        line(f"one row, {what}", *cpu_ms(lambda: model.predict(next(turn), **options), 1000))  # noqa: B023
    least, median = cpu_ms(lambda: model.predict(asked), 5)
    line("rows a CPU second", 1e3 * asked.shape[0] / median, 1e3 * asked.shape[0] / least, "rows/s")
    faster, dearer = threads(model, asked)
    print(f"| {name} | two threads | {faster:.2f} × faster | {dearer:.2f} × the CPU | |")


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["wordnet"])
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    print("| model | what | least | median | unit |\n|---|---|---:|---:|---|")
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for name in given.names:
            measure(name, folder)


if __name__ == "__main__":
    main()
