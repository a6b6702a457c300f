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

#: Reports on a hierarchy: they take releases and policies.
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
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted report in --out: train only what is missing.")
    ] = False,
    policy: Annotated[
        str | None, typer.Option(help="How a graph becomes a tree: first, deepest, most-specific, unfold.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Run a target and print, then write, its report."""
    name = target.partition("-")[0]
    if target != "all" and name not in TARGETS:
        raise VpunnError(f"unknown target {target!r}; choose one of {', '.join(TARGETS)} or all.")
    if resume and source is not None:
        raise VpunnError("--resume goes on in --out, and --from trains nothing; give one of them.")
    options: dict[str, Any] = {"only": tuple(only or ()), "source": source, "resume": resume}
    if name in HIERARCHIES:
        options["policy"] = policy
    elif policy is not None or name != target:
        flag = "--policy" if policy is not None else repr(target)
        raise VpunnError(f"{flag} is for {', '.join(HIERARCHIES)}; leave it out for {name}.")
    if target == "all" and only:
        raise VpunnError("--only names tables of one report; name that report instead of all.")
    documents, began = [], time.process_time()
    for each in [t for t in TARGETS if t not in ONLY_BY_NAME] if target == "all" else [target]:
        report, folder = _make(each, out, seeds, options, target == "all")
        documents.append(report.to_json())
        if not json:
            report.print()
            typer.echo(f"\nwritten: {folder / 'report.html'}, {folder / 'report.json'}")
    if json:
        typer.echo(documents[0] if target != "all" else f"[{','.join(documents)}]")
    elif target == "all":
        typer.echo(f"\n{len(documents)} reports in {time.process_time() - began:,.0f} CPU seconds")


def _make(target: str, out: Path, seeds: int, options: dict[str, Any], several: bool) -> tuple[Any, Path]:
    name = target.partition("-")[0]
    folder = out / target
    if several and options["source"] is not None:  # the folder of all reports
        options = {**options, "source": options["source"] / target}
    extra = {"target": target} if name in HIERARCHIES else {}
    report = import_module(f"vpunn.paper.reports.{name}").run(seeds=seeds, out=folder, **extra, **options)
    return report, report.write(folder)
