"""``vpunn report``: one self-contained page about a tree or a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vpunn.cli.common import JsonFlag, grouped, refuse_unused, say
from vpunn.cli.tables import AS_FOUND, Reading
from vpunn.errors import VpunnError, counted, examples

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from vpunn._types import FittedModel, SetTargets, Targets
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
    """Write a page about a tree (what it is, codes, structure) or about a model of vpunn fit on a test table (how good, how
    honest, where it goes wrong, examples)."""
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
        if not Path(source).exists():
            raise VpunnError(f"there is no folder {source!r}; --test needs one that vpunn fit has written (its --out).")
        raise VpunnError(f"{source} is a tree, and --test is for models; leave it out, or name a folder of vpunn fit.")
    title = source if "." not in source else Path(source).stem
    return report_tree(read_source(source), f"{title}: a hierarchy", f"vpunn report {source} --out {out}")


def _model_page(folder: Path, test: Path | None, out: Path, reading: Reading) -> Report:
    """Rows without an answer, or with one the model does not know, are left out, and the page says how many."""
    from vpunn.hipan.table_fits import task_rows
    from vpunn.hipan.table_gaps import FILL_IN, Gaps
    from vpunn.hipan.table_models import open_table_model
    from vpunn.report import report_model

    fitted = open_table_model(folder)
    inputs = fitted.inputs
    if test is None and inputs.task is None:
        raise VpunnError(
            "a page about a model needs --test TABLE with the target column, of rows it was not fitted on."
        )
    frame = task_rows(inputs) if test is None else reading.read(test, inputs)
    where = test or inputs.task
    kind, pick = (
        ("a regressor", _numbers)
        if inputs.levels
        else ("a classifier of label sets", _label_sets)
        if getattr(fitted.model, "multilabel_", False)
        else ("a classifier", _labels)
    )
    rows, y, left_out = pick(fitted, frame, where)
    if not len(rows):
        raise VpunnError(f"no row of {where} has an answer this model knows in {', '.join(inputs.target)}.")
    gaps = Gaps.of(frame.iloc[rows], inputs, where)
    gaps.refuse_empty(where, FILL_IN)
    X = fitted.rows(frame.iloc[rows], where)
    shown = frame[list(inputs.text)].iloc[rows].fillna("") if inputs.text else None
    texts = None if shown is None else [" / ".join(map(str, row)) for row in shown.itertuples(index=False)]
    command = f"vpunn report {folder}{f' --test {test}' if test else ''} --out {out}"
    title = f"{folder.name}: {kind} on {counted(len(rows), 'row')} of {where}"
    names = getattr(fitted, "feature_names", lambda: None)()
    page = report_model(fitted.model, X, y, title, command, texts=texts, feature_names=names)
    for note in [*left_out, *gaps.said(inputs)]:
        page.text(f"{note}.")
        say(note)
    return page


def _labels(fitted: FittedModel, frame: pd.DataFrame, where: object) -> tuple[np.ndarray, Targets, list[str]]:
    """Rows with a label the model knows, their labels, and what is left out."""
    import numpy as np

    from vpunn.hipan.table_cells import locate, matched
    from vpunn.hipan.tables import target_cells

    tree, inputs = fitted.model.label_tree_, fitted.inputs
    cells, _ = matched(target_cells(frame, inputs, where), tree, inputs.match)
    rows = np.flatnonzero(~locate(tree, cells)[1] & ~cells.blank)
    return rows, cells.take(rows).labels(), _left_out(len(rows), len(frame), "label this model knows")


def _label_sets(fitted: FittedModel, frame: pd.DataFrame, where: object) -> tuple[np.ndarray, SetTargets, list[str]]:
    """All rows; labels the model does not know are left out of their sets."""
    import numpy as np

    from vpunn.hipan.table_sets import set_cells

    known = set(fitted.model.label_tree_.labels.tolist())
    given = fitted.labels(set_cells(frame, fitted.inputs, where))
    new = sorted({label for row in given for label in row} - known, key=str)
    note = [f"{counted(len(new), 'label')} the model does not know ({examples(new, limit=3)}) left out"]
    return np.arange(len(frame)), [row & known for row in given], note if new else []


def _numbers(fitted: FittedModel, frame: pd.DataFrame, where: object) -> tuple[np.ndarray, Targets, list[str]]:
    """Rows with a number."""
    import numpy as np

    from vpunn.hipan.table_cells import numbers_of

    y = numbers_of(frame, fitted.inputs.target, where)[:, 0]
    rows = np.flatnonzero(~np.isnan(y))
    return rows, y[rows], _left_out(len(rows), len(frame), "number")


def _left_out(kept: int, total: int, what: str) -> list[str]:
    gone = total - kept
    return [f"{gone:,} of {counted(total, 'row')} have no {what} and were left out"] if gone else []
