"""``vpunn reproduce``: the paper's tables beside ours, one report per target."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from vpunn.cli.common import JsonFlag
from vpunn.errors import VpunnError

#: Each is a module of `vpunn.paper.reports` with ``run(seeds: int) -> Report``.
TARGETS = ("wordnet", "go", "ncbi", "hipaq", "tabular", "baselines")

#: Left out of ``all``: every peer may take ten minutes per task and split.
ONLY_BY_NAME = ("baselines",)


def register(app: typer.Typer) -> None:
    """Add the command."""
    slow = ", ".join(ONLY_BY_NAME)
    app.command(help=f"Write the report of one target ({', '.join(TARGETS)}) or of all but {slow}, which takes hours.")(
        reproduce
    )


def reproduce(
    target: Annotated[str, typer.Argument(help="Which report to make, or 'all'.")],
    out: Annotated[Path, typer.Option(help="Folder for report.html, report.json and figures.")] = Path("reports"),
    seeds: Annotated[int, typer.Option(min=1, help="Number of random seeds, from 0.")] = 10,
    json: JsonFlag = False,
) -> None:
    """Run a target and print, then write, its report."""
    if target != "all" and target not in TARGETS:
        raise VpunnError(f"unknown target {target!r}; choose one of {', '.join(TARGETS)} or all.")
    documents = []
    for name in [t for t in TARGETS if t not in ONLY_BY_NAME] if target == "all" else [target]:
        report = import_module(f"vpunn.paper.reports.{name}").run(seeds=seeds)
        folder = report.write(out / name)
        documents.append(report.to_json())
        if not json:
            report.print()
            typer.echo(f"\nwritten: {folder / 'report.html'}, {folder / 'report.json'}")
    if json:
        typer.echo(documents[0] if target != "all" else f"[{','.join(documents)}]")
