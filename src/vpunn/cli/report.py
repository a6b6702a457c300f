"""``vpunn report``: one self-contained page about a tree or a classifier."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vpunn.cli.common import JsonFlag, grouped, refuse_unused, say
from vpunn.cli.tables import AS_FOUND, Reading
from vpunn.errors import VpunnError

if TYPE_CHECKING:
    from vpunn.report import Report


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(grouped(report))


def report(
    source: Annotated[str, typer.Argument(help="A tree file, a data set such as wordnet, or a folder of vpunn fit.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    test: Annotated[Path | None, typer.Option(help="Test table for a model: the columns it was fitted on.")] = None,
    reading: Reading = AS_FOUND,
    json: JsonFlag = False,
) -> None:
    """Write a page about a tree (what it is, codes, structure) or about a model on a test table (accuracy, mistakes, examples)."""
    from vpunn.io.files import check_writable, save

    check_writable(out, (".html", ".htm"))
    if test is None:
        refuse_unused({"--delimiter": reading.delimiter, "--encoding": reading.encoding}, "there is no --test")
    page = (
        _model_page(Path(source), test, out, reading)
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


def _model_page(folder: Path, test: Path | None, out: Path, reading: Reading) -> Report:
    """Rows without a label, or with one the model does not know, are left out, and the page says how many."""
    import numpy as np

    from vpunn.hipan.table_fits import task_rows
    from vpunn.hipan.table_models import open_table_model
    from vpunn.hipan.tables import locate, matched, place_cells
    from vpunn.report import report_model

    fitted = open_table_model(folder)
    inputs = fitted.inputs
    if not hasattr(fitted.model, "posterior"):
        raise VpunnError(
            f"{folder} holds a {type(fitted.model).__name__}; pages are made for classifiers and for trees."
        )
    if getattr(fitted.model, "multilabel_", False):
        raise VpunnError(
            f"{folder} gives rows several labels, and pages are about one; `vpunn evaluate {folder}` scores it."
        )
    if test is None and inputs.task is None:
        raise VpunnError(
            "a page about a model needs --test TABLE with the target column, of rows it was not fitted on."
        )
    frame = task_rows(inputs) if test is None else reading.read(test, inputs)
    where = test or inputs.task
    cells, _ = matched(place_cells(frame, inputs.target, where), fitted.model.label_tree_, inputs.match)
    _, new = locate(fitted.model.label_tree_, cells)
    keep = np.flatnonzero(~new & ~cells.blank)
    if len(keep) == 0:
        raise VpunnError(f"no row of {where} has a label this model knows in {', '.join(inputs.target)}.")
    X = fitted.rows(frame.iloc[keep], where)
    shown = frame[list(inputs.text)].iloc[keep] if inputs.text else None
    texts = None if shown is None else [" / ".join(map(str, row)) for row in shown.itertuples(index=False)]
    command = f"vpunn report {folder}{f' --test {test}' if test else ''} --out {out}"
    title = f"{folder.name}: a classifier on {len(keep):,} test rows"
    page = report_model(fitted.model, X, cells.take(keep).labels(), title, command, texts=texts)
    if len(keep) < len(frame):
        left_out = f"{len(frame) - len(keep):,} of {len(frame):,} rows have no label this model knows and were left out"
        page.text(f"{left_out}.")
        say(left_out)
    return page
