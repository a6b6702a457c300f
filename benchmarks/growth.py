"""How cost grows with size: CPU seconds, peak memory and exponents, as a table and a plot.

    python -m benchmarks.growth                  # every operation at growing sizes (a few minutes)
    python -m benchmarks.growth big ROWS         # regressor: sum, fit and predict ROWS rows of Parquet (1e8 takes 10 GB of disk)
    python -m benchmarks.growth cluster          # on paper: 1e8 rows on 1e7 leaves, from rates measured here
    python -m benchmarks.growth names ROWS … [vpunn] [pecos]  # one or both on ROWS names of species, to be placed in their family

Each size runs in a process of its own, so that peak memory means something; CPU time counts all its threads, and what is prepared
before the measured step is not in it. The exponent is the slope of log(CPU) against log(size) over the upper half of the sizes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import write_results
from vpunn._cost import peak_mb
from vpunn.cli.common import emit
from vpunn.tree import Tree

Step = Callable[[], Any]


def random_tree(n: int, text: bool = False) -> Tree:
    """Uniform attachment, labelled by numbers or by text."""
    rng = np.random.default_rng(0)
    parent = np.empty(n, np.int64)
    parent[0] = -1
    parent[1:] = rng.random(n - 1) * np.arange(1, n)
    labels = np.array([f"node {i}" for i in range(n)], object) if text else None
    return Tree.from_parents(parent, labels=labels)


def build(n: int) -> Step:
    """A tree of n nodes from shuffled parent pointers, with its packed code."""
    rng = np.random.default_rng(0)
    parent = np.append(-1, (rng.random(n - 1) * np.arange(1, n)).astype(np.int64))
    return lambda: Tree.from_parents(parent).packed


def codes(n: int) -> Step:
    """The codes table of n nodes."""
    from vpunn.codes import codes_table

    tree = random_tree(n)
    return lambda: codes_table(tree)


def encode(n: int) -> Step:
    """n text labels to nodes of a tree of 100,000."""
    import pyarrow as pa

    tree = random_tree(100_000, text=True)
    column = pa.array(tree.labels[np.random.default_rng(1).integers(0, 100_000, n)])
    tree.encode_column(column[:1])  # builds the index
    return lambda: tree.encode_column(column)


def sums(n: int) -> Step:
    """Exact sums of n rows with one covariate on a tree of 100,000 nodes."""
    from vpunn.scale import BallSums

    tree, rng = random_tree(100_000), np.random.default_rng(1)
    nodes, y, x = rng.integers(0, 100_000, n), rng.normal(size=n), rng.normal(size=(n, 1))
    return lambda: BallSums.from_rows(tree, nodes, y, x)


def fit(n: int) -> Step:
    """The regressor of sums, on a tree of n nodes with three rows a node."""
    import vpunn
    from vpunn.scale import BallSums

    tree, rng = random_tree(n), np.random.default_rng(1)
    rows = BallSums.from_rows(tree, rng.integers(0, n, 3 * n), rng.normal(size=3 * n))
    return lambda: vpunn.VPuNNRegressor.from_sums(rows)


def fit_rows(n: int) -> Step:
    """The regressor of n rows in memory with a column of text labels, on a tree of 10,000 nodes."""
    import pandas as pd

    import vpunn

    tree, rng = random_tree(10_000, text=True), np.random.default_rng(1)
    nodes = rng.integers(0, 10_000, n)
    frame, y = pd.DataFrame({"label": tree.labels[nodes]}), rng.normal(size=n)
    return lambda: vpunn.VPuNNRegressor(tree).fit(frame, y)


def semantic_ids(n: int) -> Step:
    """Ids of n rows of 64 numbers."""
    from vpunn.tabular import semantic_ids as ids

    rng = np.random.default_rng(1)
    centres = rng.normal(size=(200, 64))
    rows = centres[rng.integers(0, 200, n)] + 0.5 * rng.normal(size=(n, 64))
    return lambda: ids(rows)


def refine(n: int) -> Step:
    """One sweep of `refine_tree` over n rows, a tenth of them in a wrong leaf; three children a ball, fifteen rows a leaf."""
    from vpunn.tabular import refine_tree
    from vpunn.tabular.refine import planted_rows

    depth = round(np.log(n / 15) / np.log(3))
    rows, tree, leaf = planted_rows(0.5, 0, spreads=tuple(4.0 * 0.6**k for k in range(depth)), columns=8)
    rng = np.random.default_rng(1)
    start = np.where(rng.random(len(leaf)) < 0.1, rng.permutation(leaf), leaf)
    return lambda: refine_tree(rows, tree, start, sweeps=1, verbose=False)


OPERATIONS: dict[str, tuple[Callable[[int], Step], tuple[int, ...]]] = {
    "build a tree": (build, (30_000, 100_000, 300_000, 1_000_000, 3_000_000)),
    "codes table": (codes, (30_000, 100_000, 300_000, 1_000_000, 3_000_000)),
    "encode a column": (encode, (30_000, 100_000, 300_000, 1_000_000, 3_000_000)),
    "sum rows": (sums, (30_000, 100_000, 300_000, 1_000_000, 3_000_000)),
    "fit from sums": (fit, (10_000, 30_000, 100_000, 300_000, 1_000_000)),
    "fit rows in memory": (fit_rows, (10_000, 30_000, 100_000, 300_000, 1_000_000)),
    "semantic ids": (semantic_ids, (30_000, 100_000, 300_000, 1_000_000)),
    "refine a tree": (refine, (3_645, 10_935, 32_805, 98_415)),
}


def measure(name: str, size: int) -> dict[str, Any]:
    """One operation at one size, warmed up on the smallest, in this process."""
    prepare, sizes = OPERATIONS[name]
    prepare(sizes[0])()
    step = prepare(size)
    before = peak_mb()
    begun = time.process_time()
    step()
    return {"size": size, "CPU s": time.process_time() - begun, "MB before": before, "MB peak": peak_mb()}


def exponent(sizes: list[float], seconds: list[float]) -> float:
    """Slope of log time against log size over the upper half, of two sizes at least."""
    half = min(len(sizes) // 2, len(sizes) - 2)
    return float(np.polyfit(np.log(sizes[half:]), np.log(np.maximum(seconds[half:], 1e-4)), 1)[0])


def run(names: list[str]) -> None:
    """Every operation at every size, then the table and the plot."""
    found = []
    for name in names:
        rows = []
        for size in OPERATIONS[name][1]:
            command = [sys.executable, "-m", "benchmarks.growth", "one", name, str(size)]
            rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        slope = exponent([row["size"] for row in rows], [row["CPU s"] for row in rows])
        found += [{"operation": name, **row, "exponent": slope} for row in rows]
        emit([row for row in found if row["operation"] == name], False)
    write_results("growth", found)
    plot(found, Path("benchmarks/results/growth.png"))


def plot(found: list[dict[str, Any]], path: Path) -> None:
    """CPU seconds against size, a line per operation."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7, 5))
    for name in dict.fromkeys(row["operation"] for row in found):
        rows = [row for row in found if row["operation"] == name]
        ax.loglog(
            [row["size"] for row in rows],
            [row["CPU s"] for row in rows],
            marker="o",
            label=f"{name} (exponent {rows[0]['exponent']:.2f})",
        )
    ax.set_xlabel("size: rows or nodes")
    ax.set_ylabel("CPU seconds")
    ax.legend(fontsize=8)
    ax.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, bbox_inches="tight")


# ---- one large run ---------------------------------------------------------------------------------------------------


def big(rows: int, leaves: int = 1_000_000) -> None:
    """Synthetic rows on a million leaves, as Parquet: summed, fitted and predicted in constant memory, in this one process."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import vpunn
    from vpunn.scale import predict, sum_rows

    with tempfile.TemporaryDirectory(prefix="growth-") as scratch:
        folder = Path(scratch)
        rng = np.random.default_rng(0)
        groups = leaves // 100
        parent = np.concatenate([[-1], np.zeros(100), 1 + np.arange(groups) % 100, 101 + np.arange(leaves) % groups])
        tree = Tree.from_parents(parent.astype(np.int64))  # labelled by position in ``parent``
        effect = rng.normal(size=len(parent))
        (folder / "in").mkdir()
        size = 5_000_000
        begun = time.process_time()
        for at in range(0, rows, size):
            n = min(size, rows - at)
            label = (len(parent) - leaves + rng.integers(0, leaves, n)).astype(np.int32)
            up = parent[label].astype(np.int64)
            y = effect[label] + effect[up] + 3.0 + rng.normal(size=n)
            table = pa.table({"label": label, "y": y.round(3)})
            pq.write_table(table, folder / "in" / f"{at // size:05d}.parquet")
        made, wall = time.process_time() - begun, time.monotonic()
        begun = time.process_time()
        sums = sum_rows(tree, folder / "in", label="label", y="y")
        summed = time.process_time() - begun
        model = vpunn.VPuNNRegressor.from_sums(sums)
        fitted = time.process_time() - begun - summed
        model.save(folder / "model")
        del sums
        options: dict[str, Any] = {"columns": ["label"], "part_rows": 1 << 22}
        predict(folder / "model", folder / "in", f"{folder}/out/", **options)
        done = time.process_time() - begun
        disk = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
        row = {
            "rows": rows,
            "leaves": leaves,
            "make CPU s": made,
            "sum CPU s": summed,
            "fit CPU s": fitted,
            "predict CPU s": done - summed - fitted,
            "wall s (sum, fit, predict)": time.monotonic() - wall,
            "peak MB": peak_mb(),
            "disk GB": disk / 1e9,
            "noise variance (true: 1)": float(model.noise_variance_),
        }
        emit(row, False)
        write_results(f"growth-{rows}", [row])


def cluster(rows: float = 1e8, nodes: float = 1.1e7, network: float = 1.25e9) -> None:
    """Bytes moved and critical path of `vpunn.scale.sum_rows` and a fit, from rates measured on this machine.

    Each of W threads sums two groups, the sums of a group (as large as the tree) are added four at a time, and one machine fits.
    ``network`` is bytes per second and link.
    """
    size = 1_000_000
    seconds = {name: measure(name, size)["CPU s"] / size for name in ("sum rows", "fit from sums")}
    tree, rng = random_tree(100_000), np.random.default_rng(1)
    from vpunn.scale import BallSums

    one = BallSums.from_rows(tree, rng.integers(0, 100_000, size), rng.normal(size=size))
    limbs = sum(part.limbs.shape[1] for part in (one.weight, *one.columns))
    begun = time.process_time()
    both = one + one
    add = (time.process_time() - begun) / tree.n_nodes
    assert both.n_rows == 2 * size
    bytes_ = 8.0 * limbs * nodes
    found = []
    for workers in (1, 4, 16, 64):
        groups = 2 * workers
        levels = int(np.ceil(np.log(groups) / np.log(4)))
        moved = bytes_ * (groups - 1) if workers > 1 else 0.0
        path = {
            "sum": seconds["sum rows"] * rows / workers,
            "add": levels * 3 * add * nodes,
            "move": levels * 3 * bytes_ / network if workers > 1 else 0.0,
            "fit": seconds["fit from sums"] * nodes,
        }
        row = {"threads": workers, "GB a part": bytes_ / 1e9, "GB moved": moved / 1e9}
        found.append(row | {f"{name} s": value for name, value in path.items()} | {"path s": sum(path.values())})
    emit(found, False)
    write_results("growth-cluster", found)


def names(sizes: list[int], methods: list[str], seed: int = 1) -> None:
    """Species to families by character 3–5-grams of their names: exact accuracy, CPU and memory of the classifier and of PECOS."""
    from benchmarks.predict.matrix import RESULTS, run, write_case
    from benchmarks.predict.names import species

    kept, rows = RESULTS / "predict", []
    for size in sizes:
        if not (kept / f"names-{size}-{seed}" / "about.json").exists():
            write_case(species(size, seed), kept / f"names-{size}-{seed}")
        rows += run([f"names-{size}"], methods, seeds=[seed], kept=kept, budget=7200.0)
    for method in methods:
        mine = [
            (size, row["fit s"])
            for size, row in zip(np.repeat(sizes, len(methods)), rows, strict=True)
            if row["method"] == method and "fit s" in row
        ]
        if len(mine) > 1:
            print(f"{method}: exponent {exponent(*map(list, zip(*mine, strict=True))):.2f}")
    write_results("growth-names", rows)


def main() -> None:
    """See the module."""
    given = sys.argv[1:]
    if given[:1] == ["one"]:
        print(json.dumps(measure(given[1], int(given[2]))))
    elif given[:1] == ["big"]:
        big(int(float(given[1])))
    elif given[:1] == ["cluster"]:
        cluster()
    elif given[:1] == ["names"]:
        methods = [name for name in given[1:] if name.isalpha()]
        sizes = sorted(int(float(size)) for size in given[1:] if size not in methods)
        names(sizes, methods or ["vpunn", "pecos"])
    else:
        run(given or list(OPERATIONS))


if __name__ == "__main__":
    main()
