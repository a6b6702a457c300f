"""``vpunn report``: one self-contained page about a tree or a classifier."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vpunn.cli.common import JsonFlag
from vpunn.errors import VpunnError

if TYPE_CHECKING:
    from vpunn.report import Report


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(report)


def report(
    source: Annotated[str, typer.Argument(help="A tree file, a data set such as wordnet, or a folder of vpunn fit.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    test: Annotated[Path | None, typer.Option(help="Test table for a model: the columns it was fitted on.")] = None,
    json: JsonFlag = False,
) -> None:
    """Write a page about a tree (what it is, codes, structure) or about a model on a test table (accuracy, mistakes, examples)."""
    from vpunn.io.files import check_writable, save

    check_writable(out, (".html", ".htm"))
    page = (
        _model_page(Path(source), test, out)
        if (Path(source) / "model.json").is_file()
        else _tree_page(source, test, out)
    )
    save(out, page.to_html().encode())
    if json:
        typer.echo(page.to_json())
        return
    for block in page.blocks[1:]:
        if block["kind"] != "text":
            break
        typer.echo(block["text"])
    typer.echo(f"written: {out}")


def _tree_page(source: str, test: Path | None, out: Path) -> Report:
    from vpunn.cli.structure import read_source
    from vpunn.report import report_tree

    if test is not None:
        raise VpunnError(f"{source} is a tree, and --test is for models; leave it out, or name a folder of vpunn fit.")
    title = source if "." not in source else Path(source).stem
    return report_tree(read_source(source), f"{title}: a hierarchy", f"vpunn report {source} --out {out}")


def _model_page(folder: Path, test: Path | None, out: Path) -> Report:
    from vpunn.cli import predict
    from vpunn.report import report_model

    if test is None and "task" not in predict._opened(folder)[1]:
        raise VpunnError(
            "a page about a model needs --test TABLE with the target column, of rows it was not fitted on."
        )
    model, X, frame, meta = predict._load_all(folder, test, None)
    labels = predict._labels(frame, meta["target"], test)
    shown = [name for name in (meta.get("text") or []) if name in frame]
    texts = None if not shown else [" / ".join(map(str, row)) for row in frame[shown].itertuples(index=False)]
    words = f" --test {test}" if test else ""
    return report_model(
        model,
        X,
        labels,
        f"{folder.name}: a classifier on {len(labels):,} test rows",
        f"vpunn report {folder}{words} --out {out}",
        texts=texts,
    )
