"""``vpunn report``: one self-contained page about a tree or a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vpunn.cli.common import JsonFlag, add, folded, refuse_unused
from vpunn.cli.source import AS_NAMED, TreeFile
from vpunn.cli.tables import AS_FOUND, Reading, notes_on_origin
from vpunn.errors import VpunnError, counted

if TYPE_CHECKING:
    import pandas as pd

    from vpunn.report import Report
    from vpunn.tables.inputs import Inputs


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, report)


def report(
    source: Annotated[str, typer.Argument(help="A tree file, a data set such as wordnet, or a folder of vpunn fit.")],
    table: Annotated[
        Path | None, typer.Argument(help="For a model: a table with its columns, of rows it was not fitted on.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    unseen: Annotated[
        str | None,
        typer.Option(
            help="Labels that the model does not know: error, skip or ancestor (score at the deepest known one, as vpunn "
            "evaluate does; the default)."
        ),
    ] = None,
    reading: Reading = AS_FOUND,
    how: TreeFile = AS_NAMED,
    json: JsonFlag = False,
) -> None:
    """Write a page about a tree, or a model on rows of a table.

    A tree: what it is, its codes, its structure. A model: how good, how honest, where it goes wrong, examples."""
    from vpunn.files import check_writable, save
    from vpunn.report import Report

    check_writable(out, (".html", ".htm"))
    Report.check_place(out)
    if table is None:
        refuse_unused({"--delimiter": reading.delimiter, "--encoding": reading.encoding}, "there is no table")
    page = (
        _model_page(Path(source), table, out, reading, unseen or "ancestor")
        if (Path(source) / "model.json").is_file()
        else _tree_page(source, how, table, out, unseen)
    )
    save(out, page.to_html().encode())
    if json:
        typer.echo(page.to_json())
        return
    for block in page.blocks[1:]:
        if block["kind"] == "heading":
            break
        if block["kind"] == "text":
            typer.echo(folded(block["text"]))
    typer.echo(f"written: {out}")


def _tree_page(source: str, how: TreeFile, table: Path | None, out: Path, unseen: str | None) -> Report:
    from vpunn.report import report_tree

    if table is not None:
        if not Path(source).exists():
            raise VpunnError(
                f"there is no folder {source!r}; a table is for a model, a folder that vpunn fit has written."
            )
        raise VpunnError(f"{source} is a tree, and a table is for models; leave it out, or name a folder of vpunn fit.")
    refuse_unused({"--unseen": unseen}, f"{source} is a tree, and no model")
    title = source if "." not in source else Path(source).stem
    return report_tree(how.read(source), f"{title}: a hierarchy", f"vpunn report {source} --out {out}")


def _model_page(folder: Path, table: Path | None, out: Path, reading: Reading, unseen: str) -> Report:
    """Which rows are scored, and as what, is what `vpunn evaluate` says; the page has its notes."""
    from vpunn.report import report_model
    from vpunn.tables.fits import task_rows
    from vpunn.tables.gaps import FILL_IN, Gaps
    from vpunn.tables.models import open_table_model

    fitted = open_table_model(folder)
    inputs = fitted.inputs
    if table is None and inputs.task is None:
        raise VpunnError(
            f"a page about a model needs a table with the target column, of rows it was not fitted on: vpunn report {folder} TABLE."
        )
    if unseen == "wrong":
        raise VpunnError(
            "a page shows where the truth lies, so --unseen wrong is for vpunn evaluate alone; leave it out."
        )
    frame = task_rows(inputs) if table is None else reading.read(table, inputs)
    where = table or inputs.task
    truth = fitted.truth(frame, where, unseen)  # type: ignore[arg-type]
    fitted.check_scored(len(truth.rows), where)
    rows = frame.iloc[truth.rows]
    gaps = Gaps.of(rows, inputs, where)
    gaps.refuse_empty(where, FILL_IN)
    X = fitted.rows(rows, where)
    several = getattr(fitted.model, "multilabel_", False)
    kind = "a classifier of label sets" if several else "a classifier"
    if inputs.levels:
        kind = "classes from levels" if inputs.classes else "a regressor"
    about = (
        f"{folder.name}: {kind} on {counted(len(rows), 'row')} of {where}",
        f"vpunn report {folder}{f' {table}' if table else ''} --out {out}",
    )
    names = fitted.feature_names() if several else None  # type: ignore[union-attr]
    how = {"texts": _texts(rows, inputs), "feature_names": names, "by_node": not several and not inputs.levels}
    answers = fitted.scaled(truth.answers, where) if inputs.levels else truth.answers  # type: ignore[union-attr]
    page = report_model(fitted.model, X, answers, *about, **how)  # type: ignore[arg-type]
    said = fitted.notes_on((*truth.remarks, *fitted.remarks_on(X, rows, where)), gaps)
    for note in [*notes_on_origin(folder, table), *said]:
        page.remark(note)
    return page


def _texts(rows: pd.DataFrame, inputs: Inputs) -> list[str] | None:
    """What the examples of a page show beside a row."""
    if not inputs.text:
        return None
    return [" / ".join(map(str, row)) for row in rows[list(inputs.text)].fillna("").itertuples(index=False)]
