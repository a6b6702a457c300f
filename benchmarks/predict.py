"""Placement of held-out items: vpunn beside the tools people would pick, one thread, one run.

    python benchmarks/predict.py --task wordnet --seeds 1,2,3 --methods vpunn,pecos,napkinxc-plt,centroid

Set VPUNN_PEERS="pecos=/path/to/python,napkinxc=/path/to/python" for tools that need an environment of their own.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from typing import Annotated

import typer

from vpunn.cli.common import JsonFlag, emit
from vpunn.paper.reports.baselines import averaged, compare


def main(
    task: Annotated[str, typer.Option(help="wordnet, wordnet-texts, go, go-process or go-component.")] = "wordnet",
    seeds: Annotated[
        str, typer.Option(help="Split seeds, separated by commas; split 0 was for choosing settings.")
    ] = "1",
    methods: Annotated[str, typer.Option(help="Methods, separated by commas; all if empty.")] = "",
    budget: Annotated[float, typer.Option(help="Seconds each tool may take.")] = 600.0,
    json: JsonFlag = False,
) -> None:
    """Compare and print one row per method, averaged over the seeds."""
    chosen = [m for m in methods.split(",") if m] or None
    rows = [row for seed in seeds.split(",") for row in compare(task, int(seed), chosen, budget)]
    emit(averaged(rows), json, f"{task}, seeds {seeds}")


if __name__ == "__main__":
    typer.run(main)
