"""Placement of held-out items: vpunn beside the tools people would pick, one thread, every method in its own process.

    python -m benchmarks.predict --cases isco,digits --methods vpunn,linear-svm --part validation

Set VPUNN_PEERS="pecos=/path/to/python,napkinxc=/path/to/python" for tools that need an environment of their own
(`make bench` builds them). Answers are kept under benchmarks/results/predict and made anew for vpunn only.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.common import RESULTS, write_results
from benchmarks.predict.cases import CASES, ENCODED, QUICK
from benchmarks.predict.matrix import METHODS, OURS, against_the_best, run
from benchmarks.predict.other_cases import OTHER
from benchmarks.predict.table import markdown
from vpunn.cli.common import JsonFlag, emit

GROUPS = {"quick": list(QUICK), "all": [name for name in CASES if name not in ENCODED], "encoders": list(ENCODED)}
GROUPS |= {"other": list(OTHER)}


def main(
    cases: Annotated[
        str,
        typer.Option(help="Names with commas, 'quick', 'all', 'encoders', what 'all' leaves out, or 'other' tasks."),
    ] = "all",
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = ",".join(METHODS),
    seeds: Annotated[str, typer.Option(help="Split seeds, separated by commas.")] = "1",
    part: Annotated[str, typer.Option(help="validation to choose settings, test to report.")] = "test",
    fresh: Annotated[str, typer.Option(help="Methods whose kept answers are not used.")] = OURS,
    kept: Annotated[Path, typer.Option(help="Folder of kept answers.")] = RESULTS / "predict",
    budget: Annotated[float, typer.Option(help="Seconds each method may take on a case.")] = 600.0,
    hours: Annotated[float, typer.Option(help="Hours for all cases; what is left then says so.")] = 24.0,
    json: JsonFlag = False,
) -> None:
    """Compare, print a row per method and case, and ours against the best peer of every case."""
    names = GROUPS.get(cases) or [c for c in cases.split(",") if c]
    rows = run(
        names,
        [m for m in methods.split(",") if m],
        seeds=[int(s) for s in seeds.split(",")],
        kept=kept,
        part=part,
        fresh=tuple(fresh.split(",")),
        budget=budget,
        clock=3600.0 * hours,
    )
    written = write_results(f"predict-{cases if cases in GROUPS else 'some'}-{part}", rows)
    compared = against_the_best(kept, rows, part)
    written.with_suffix(".md").write_text(markdown(rows, compared), encoding="utf-8")
    emit(
        compared, json, f"ours beside the peer that is best on validation rows, {part} rows ({written.stem}.md has all)"
    )


if __name__ == "__main__":
    typer.run(main)
