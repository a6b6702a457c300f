"""``vpunn reproduce`` and ``vpunn figures``: the paper's tables beside ours, and its nineteen figures from real data."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vpunn.cli.common import JsonFlag, emit
from vpunn.errors import VpunnError

if TYPE_CHECKING:
    from vpunn.report import Report
    from vpunn.tree import Tree

#: Left out of ``all``: every baseline may take two minutes, or the paper's hour.
ONLY_BY_NAME = ("baselines",)
#: Hierarchies to draw, by the names of `vpunn figures`, with their titles.
TITLES = {"wordnet": "WordNet nouns", "go": "Gene Ontology, molecular function", "mammalia": "NCBI taxonomy, Mammalia"}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(reproduce)
    app.command()(figures)


def reproduce(
    target: Annotated[
        str | None,
        typer.Argument(
            help="wordnet, go, ncbi, hipaq, tabular, baselines, all (of them but baselines), a release as in wordnet-3.0, or a "
            "tree of your own: a file or a data set."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for report.html, report.json, tables, figures, checkpoints.")
    ] = Path("reports"),
    seeds: Annotated[int, typer.Option(min=1, help="Number of random seeds, from 0.")] = 10,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this table, such as T10 (see --list); may be given several times.")
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
    hour: Annotated[bool, typer.Option("--hour", help="baselines: the paper's hour of CPU time for each.")] = False,
    minutes: Annotated[
        float | None, typer.Option(min=0.01, help="baselines: so many minutes for each instead; 2 if not given.")
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Show the words of --only and end.")] = False,
    json: JsonFlag = False,
) -> None:
    """Run the paper's experiments: its numbers, ours, and the reason."""
    from vpunn.paper.reports import HIERARCHIES, TARGETS, words_of

    if listing:
        wanted = [*TARGETS, "own"] if target in (None, "all") else [target if target in TARGETS else "own"]
        rows = [{"target": t, "--only": word, "shows": said} for t in wanted for word, said in words_of(t).items()]
        return emit(rows, json)
    if target is None:
        raise VpunnError(f"say which report to make: one of {', '.join(TARGETS)}, all, or a tree of your own.")
    if resume and source is not None:
        raise VpunnError("--resume goes on in --out, and --from trains nothing; give one of them.")
    if hour and minutes is not None:
        raise VpunnError("--hour is --minutes 60; give one of them.")
    minutes = 60.0 if hour else minutes
    if minutes is not None and target != "baselines":
        raise VpunnError(f"--hour and --minutes are the time of each baseline; leave them out for {target}.")
    if target == "all" and only:
        raise VpunnError("--only names tables of one report; name that report instead of all.")
    if target in TARGETS and target not in HIERARCHIES and policy is not None:
        raise VpunnError(f"--policy is for {', '.join(HIERARCHIES)} and trees; leave it out for {target}.")
    options: dict[str, Any] = {"only": tuple(only or ()), "source": source, "resume": resume, "policy": policy}
    if minutes is not None:
        options["work"] = {"budget": 60.0 * minutes}
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
    return None


def _make(target: str, out: Path, seeds: int, options: dict[str, Any], several: bool) -> tuple[Report, Path]:
    from vpunn.paper.reports import HIERARCHIES, TARGETS
    from vpunn.paper.reports import reproduce as make

    if target in TARGETS or target.partition("-")[0] in HIERARCHIES:
        folder = out / target
        if several and options["source"] is not None:  # the folder of all reports
            options = {**options, "source": options["source"] / target}
        report = make(target, seeds, out=folder, **options)
        return report, report.write(folder)
    from vpunn.cli.source import read_source
    from vpunn.paper.figures import draw_figures, from_report, own_figures

    tree, name = read_source(target, policy=options["policy"] or "first"), Path(target).stem or "tree"
    folder = out / name
    report = make(name, seeds, out=folder, data=tree, **options)
    written = report.write(folder)
    if not options["only"]:
        inputs = from_report(name, name, tree, options["source"] or folder)
        for figure, _, error in draw_figures(inputs, own_figures(), folder / "figures"):
            if error is not None:
                typer.echo(f"{figure.key} skipped: {error}", err=True)
    return report, written


def figures(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which figures, F1 to F19 (all by default); trees to draw, too.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="wordnet, go, mammalia or a tree file; may be repeated. Default: wordnet, or what --from is about."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for PNG, SVG and captions.")] = Path("figures"),
    source: Annotated[
        Path | None,
        typer.Option("--from", help="A folder of vpunn reproduce: redraw from its checkpoints, without training."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of samples and starts.")] = 0,
) -> None:
    """Draw the paper's figures, with what they show, and errors."""
    from vpunn.cli.source import read_source
    from vpunn.paper._figure_inputs import Inputs
    from vpunn.paper.figures import draw_figures, find_figures, from_report, own_figures

    trees = [name for name in names or () if name in TITLES or Path(name).exists()]
    data, names = [*(data or ()), *trees] or None, [name for name in names or () if name not in trees] or None
    chosen = [figure.key for figure in find_figures(names)]  # refuse unknown names before any work
    planned = None if source is None or data else _planned(source)
    skipped = 0
    for number, name in enumerate(data or [planned[0] if planned else "wordnet"]):
        tree = planned[1] if planned else read_source(name)
        title = TITLES.get(name, Path(name).stem)
        if source is None:
            inputs = Inputs(name, title, tree, seed=seed)
        else:
            inputs = from_report(name, title, tree, source, seed)
        folder = out / (name if name in TITLES else Path(name).stem) if len(data or ()) > 1 else out
        others = [key for key in chosen if key not in own_figures()]
        keys = chosen if number == 0 and (name in TITLES or names) else [key for key in chosen if key not in others]
        if number == 0 and keys != chosen:
            typer.echo(f"left out: {', '.join(others)}, which are not about {name}; name them to draw them", err=True)
        for figure, caption, error in draw_figures(inputs, keys, folder):
            if error is not None:
                skipped += 1
                typer.echo(f"{figure.key} skipped: {error}", err=True)
            else:
                typer.echo(caption)
        drawn = len(list(folder.glob("F*.png")))
        several = "figure" if drawn == 1 else "figures"
        typer.echo(f"written: {folder}/index.html, captions.md and {drawn} {several} as PNG and SVG")
    if skipped:
        raise typer.Exit(1)


def _planned(source: Path) -> tuple[str, Tree] | None:
    """The hierarchy a report is about, by its own plan; None if the folder has none."""
    from vpunn.paper.reports import HIERARCHIES
    from vpunn.paper.reports._run import PLAN, load_hierarchy, read_json

    path = source / "checkpoints" / PLAN
    plan = read_json(path) if path.is_file() else None
    if not isinstance(plan, dict) or plan.get("report") not in HIERARCHIES:
        return None
    tree = load_hierarchy(plan["report"], plan.get("release"), plan.get("policy")).tree
    return ("mammalia" if plan["report"] == "ncbi" else plan["report"]), tree
