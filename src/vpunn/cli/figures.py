"""``vpunn figures``: the paper's nineteen figures, drawn from real data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vpunn.errors import VpunnError

if TYPE_CHECKING:
    from vpunn.tree import Tree

#: Data sets by the names this command knows, with their titles.
TITLES = {"wordnet": "WordNet nouns", "go": "Gene Ontology, molecular function", "mammalia": "NCBI taxonomy, Mammalia"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(figures)


def figures(
    names: Annotated[list[str] | None, typer.Argument(help="Which figures, F1 to F19; all by default.")] = None,
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
    """Draw the paper's figures from a hierarchy, each with a caption that says what it shows and where the paper errs."""
    from vpunn.cli.structure import read_source
    from vpunn.paper._study import Study
    from vpunn.paper.figures import draw_figures, find_figures, saved_labels, saved_models

    find_figures(names)  # refuse unknown names before any work
    planned = None if source is None or data else _planned(source)
    wanted = data or [planned[0] if planned else "wordnet"]
    saved = saved_models(source) if source is not None else []
    labels = saved_labels(source) if source is not None else None
    skipped = 0
    for name in wanted:
        tree = planned[1] if planned else read_source(name)
        fitting = [
            model for model in saved if getattr(model, "tree", None) is not None and model.tree.n_nodes == tree.n_nodes
        ]
        if saved and not fitting:
            raise VpunnError(
                f"no model under {source} belongs to {name} ({tree.n_nodes:,} nodes); name its own folder."
            )
        study = Study(name, TITLES.get(name, Path(name).stem), tree, fitting, seed, labels, str(source or ""))
        folder = out / (name if name in TITLES else Path(name).stem) if len(wanted) > 1 else out
        figures = find_figures(names)
        others = [figure.key for figure in figures if not figure.about_data]
        if name in TITLES or names:
            others = others if name != wanted[0] else []
        elif name == wanted[0]:
            typer.echo(f"left out: {', '.join(others)}, which are not about {name}; name them to draw them", err=True)
        keys = [figure.key for figure in figures if figure.key not in others]
        for figure, caption, error in draw_figures(study, keys, folder):
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
    from vpunn.paper.reports._bench import TITLES as HIERARCHIES
    from vpunn.paper.reports._bench import load_hierarchy
    from vpunn.paper.reports._shelf import PLAN, read_json

    path = source / "checkpoints" / PLAN
    plan = read_json(path) if path.is_file() else None
    if not isinstance(plan, dict) or plan.get("report") not in HIERARCHIES:
        return None
    tree = load_hierarchy(plan["report"], plan.get("release"), plan.get("policy")).tree
    return ("mammalia" if plan["report"] == "ncbi" else plan["report"]), tree
