"""``vpunn reproduce``: the paper's tables beside ours, one report per target."""

from __future__ import annotations

import time
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from vpunn.cli.common import JsonFlag
from vpunn.errors import VpunnError

#: Each is a module of `vpunn.paper.reports` with ``run(seeds: int) -> Report``.
TARGETS = ("wordnet", "go", "ncbi", "hipaq", "tabular", "baselines")

#: Left out of ``all``: every peer may take ten minutes per task and split.
ONLY_BY_NAME = ("baselines",)

#: Reports made of sections: they take releases, policies, single tables and earlier models.
HIERARCHIES = ("wordnet", "go", "ncbi")


def register(app: typer.Typer) -> None:
    """Add the command."""
    slow = ", ".join(ONLY_BY_NAME)
    app.command(help=f"Write the report of one target ({', '.join(TARGETS)}) or of all but {slow}, which takes hours.")(
        reproduce
    )


def reproduce(
    target: Annotated[str, typer.Argument(help="Which report to make, or 'all'; a release as in wordnet-3.0.")],
    out: Annotated[
        Path, typer.Option(help="Folder for report.html, report.json, tables, figures, checkpoints.")
    ] = Path("reports"),
    seeds: Annotated[int, typer.Option(min=1, help="Number of random seeds, from 0.")] = 10,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this table, such as T10; may be given several times.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--from", help="Folder of an earlier report: use its models, train nothing.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="How a graph becomes a tree: first, deepest, most-specific, unfold.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Run a target and print, then write, its report."""
    name = target.partition("-")[0]
    if target != "all" and name not in TARGETS:
        raise VpunnError(f"unknown target {target!r}; choose one of {', '.join(TARGETS)} or all.")
    options: dict[str, Any] = {"only": tuple(only or ()), "source": source, "policy": policy}
    if name not in HIERARCHIES:
        given = [flag for flag, value in (("--only", only), ("--from", source), ("--policy", policy)) if value]
        if given or name != target:
            raise VpunnError(
                f"{given[0] if given else target!r} is for {', '.join(HIERARCHIES)}; leave it out for {name}."
            )
    documents, began = [], time.process_time()
    for each in [t for t in TARGETS if t not in ONLY_BY_NAME] if target == "all" else [target]:
        report, folder = _make(each, out, seeds, options)
        documents.append(report.to_json())
        if not json:
            report.print()
            typer.echo(f"\nwritten: {folder / 'report.html'}, {folder / 'report.json'}")
    if json:
        typer.echo(documents[0] if target != "all" else f"[{','.join(documents)}]")
    elif target == "all":
        typer.echo(f"\n{len(documents)} reports in {time.process_time() - began:,.0f} CPU seconds")


def _make(target: str, out: Path, seeds: int, options: dict[str, Any]) -> tuple[Any, Path]:
    from vpunn.io.files import make_folder

    name = target.partition("-")[0]
    folder = make_folder(out / target)
    extra = {**options, "target": target, "out": folder} if name in HIERARCHIES else {}
    report = import_module(f"vpunn.paper.reports.{name}").run(seeds=seeds, **extra)
    return report, report.write(folder)
