"""``vpunn predict``, ``evaluate``, ``explain``: what a model that ``vpunn fit`` wrote says about the rows of a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vpunn.cli.common import JsonFlag, emit, grouped, refuse_unused, say
from vpunn.cli.tables import AS_FOUND, Ask, Model, Reading, Table
from vpunn.errors import VpunnError, examples

if TYPE_CHECKING:
    import pandas as pd

    from vpunn.hipan.table_models import TableModel


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (predict, evaluate, explain):
        app.command()(grouped(command))


@dataclass(frozen=True)
class Stop:
    """Where an answer stops, and the numbers of each rule (None: not given)."""

    stop: Annotated[
        str | None, typer.Option(help="threshold, risk or depth: answer a surer ball instead of a node.")
    ] = None
    threshold: Annotated[float | None, typer.Option(help="For --stop threshold; 0.5 if not given.")] = None
    alpha: Annotated[float | None, typer.Option(help="Accepted risk for --stop risk; 0.1 if not given.")] = None
    depth: Annotated[int | None, typer.Option(min=0, help="For --stop depth; 1 if not given.")] = None

    def options(self) -> dict[str, Any]:
        """As the models take them; numbers that belong to another rule are refused."""
        given = {"threshold": self.threshold, "risk": self.alpha, "depth": self.depth}
        for (rule, value), name in zip(given.items(), ("--threshold", "--alpha", "--depth"), strict=True):
            if self.stop != rule:
                refuse_unused({name: value}, f"it belongs to --stop {rule}")
        if self.stop is None:
            return {}
        return {
            "stop": self.stop,
            "threshold": 0.5 if self.threshold is None else self.threshold,
            "alpha": 0.1 if self.alpha is None else self.alpha,
            "depth": 1 if self.depth is None else self.depth,
        }


NO_STOP = Stop()


def predict(
    model: Model,
    table: Table = None,
    ask: Ask = None,
    top: Annotated[int, typer.Option(min=1, help="Answers per row.")] = 1,
    until: Stop = NO_STOP,
    rule: Annotated[
        str,
        typer.Option(help="node: the most probable node; path: one that shares most of its path with all likely ones."),
    ] = "node",
    keep: Annotated[str | None, typer.Option(help="Columns of the table to hand through, such as id,sku.")] = None,
    out: Annotated[
        str | None,
        typer.Option(
            help="Write a table (.csv, .tsv, .parquet, .jsonl) instead of printing, in constant memory; a folder of parts "
            "that can be continued if it ends in / or the input is a folder or pattern."
        ),
    ] = None,
    reading: Reading = AS_FOUND,
    json: JsonFlag = False,
) -> None:
    """Predict the place, or the number, of every row of a table, or of one text."""
    from vpunn.hipan.tables import split_names

    if until.stop is not None and top > 1:
        raise VpunnError(f"--stop gives one ball per row, so --top {top} does not go with it; leave one of them out.")
    if rule != "node" and (until.stop is not None or top > 1):
        raise VpunnError(f"--rule {rule} gives one node per row; leave --stop and --top out.")
    chosen = {name: v for name, v in (("top", top), ("rule", rule)) if v not in (1, "node")} | until.options()
    if ask is not None:
        refuse_unused({"--keep": keep}, "--ask has no columns")
    if out is not None:
        refuse_unused({"--json": json or None}, "--out writes a table; its ending .jsonl gives JSON lines")
        if out != "-" and table is not None and not _is_piped(table) and ask is None:
            _predict_files(model, table, out, chosen, split_names(keep), reading)
            return
        if out != "-":
            from vpunn.io.frames import check_table_path

            check_table_path(out)
    fitted, frame = _open(model, table, ask, reading, split_names(keep))
    if fitted.inputs.levels:
        refuse_unused({"--stop": until.stop, "--top": top if top > 1 else None}, "this model predicts a number")
        chosen = {}
    found = fitted.predict(frame, table or "--ask", keep=split_names(keep), **chosen)
    _say_unknown(found, bool(fitted.inputs.levels))
    if out is not None:
        from vpunn.io.frames import write_table

        write_table(found, out)
        if out != "-":
            typer.echo(f"written: {out} ({len(found):,} rows)")
        return
    if json:
        emit(_records(found), True)
        return
    shown = found.assign(path=[_short(path) for path in found["path"]])
    emit(_records(shown.drop(columns="known") if shown["known"].all() else shown), False)


def _predict_files(
    model: Path, table: Path, out: str, options: dict[str, Any], keep: list[str], reading: Reading
) -> None:
    """Files through a model, in constant memory, to a file or a folder of parts."""
    from vpunn.io.frames import check_table_path
    from vpunn.io.streams import is_folder, table_files
    from vpunn.scale import Predictor, predict_stream

    files = table_files(table)
    if not is_folder(out) and len(files) == 1:
        check_table_path(out)
    if any(Path(out).exists() and Path(out).samefile(file) for file in files):
        raise VpunnError(f"--out {out} is the table that is read; name another file, or it would be lost.")
    predictor = Predictor(model, keep=keep, **options)
    done = predict_stream(predictor, table, out, delimiter=reading.delimiter, encoding=reading.encoding)
    _say_dark(done.unknown, list(done.examples), not predictor.places)
    typer.echo(f"written: {out} ({done.rows:,} rows)")


def evaluate(
    model: Model,
    table: Table = None,
    unseen: Annotated[
        str,
        typer.Option(
            help="Labels the model does not know: error, skip, ancestor (score at the deepest known one) or wrong."
        ),
    ] = "ancestor",
    reading: Reading = AS_FOUND,
    json: JsonFlag = False,
) -> None:
    """Compare predictions with the target column of a table (or the test part of the task the model was fitted on)."""
    from vpunn.hipan.table_fits import task_rows
    from vpunn.hipan.table_models import open_table_model

    fitted = open_table_model(model)
    several = getattr(fitted.model, "multilabel_", False)  # their scores are made of all rows at once
    if table is not None and not _is_piped(table) and _is_large(table) and not (several and table.is_file()):
        from vpunn.scale import evaluate_stream

        how = {"delimiter": reading.delimiter, "encoding": reading.encoding}
        found = evaluate_stream(fitted, table, unseen=unseen, **how)  # type: ignore[arg-type]
    else:
        frame = task_rows(fitted.inputs) if table is None else reading.read(table, fitted.inputs)
        found = fitted.evaluate(frame, table or fitted.inputs.task, unseen)  # type: ignore[arg-type]
    if json:
        emit({**found.scores, "by depth": found.by_depth, "notes": list(found.notes)}, True)
        return
    emit(found.scores, False)
    for note in found.notes:
        typer.echo(f"note: {note}")
    if found.by_depth:
        title = "\nthe ball around the answer at each depth: how often it is right and how probable it is said to be"
        emit(found.by_depth, False, title)


def explain(
    model: Model,
    table: Table = None,
    ask: Ask = None,
    row: Annotated[int, typer.Option(min=0, help="Row of the table, from 0.")] = 0,
    node: Annotated[str | None, typer.Option(help="Explain this node instead of the best one.")] = None,
    reading: Reading = AS_FOUND,
    json: JsonFlag = False,
) -> None:
    """Say why a row, or a text of your own, is placed where it is: each ball's contribution, summing to the score."""
    from dataclasses import asdict

    from vpunn.explain import explain as explain_row
    from vpunn.hipan.tables import texts_of
    from vpunn.text import by_word

    fitted, frame = _open(model, table, ask, reading)
    if row >= len(frame):
        raise VpunnError(f"there is no row {row}; the table has rows 0 to {len(frame) - 1}.")
    frame, inputs = frame.iloc[[row]], fitted.inputs
    X = fitted.rows(frame, "--ask" if table is None else f"row {row} of {table}")
    features = getattr(fitted, "features", None)
    found: Any
    if features is None:
        names = None if inputs.levels else list(inputs.columns)
        found = explain_row(fitted.model, X, node, feature_names=names)
    else:  # all features, so that the words of a ball sum to what it contributes
        every = fitted.feature_names()  # type: ignore[union-attr]
        found = explain_row(fitted.model, X, node, k=len(every), feature_names=every)
        (words,) = texts_of(frame, inputs.text, table)
        cells = {name: f"{float(frame[name].iloc[0]):.4g}" for name in inputs.columns}
        if getattr(fitted.model, "multilabel_", False):
            said = by_word(words, found.features, cells)[:5]
            found = replace(found, features=said, neighbours=found.neighbours[:5])
        else:
            balls = [replace(ball, features=by_word(words, ball.features, cells)[:5]) for ball in found.balls]
            found = replace(found, balls=balls)
        if not fitted.known(X).all():  # type: ignore[union-attr]
            say("the text holds no word the model knows; the answer is the prior")
    if json:
        emit(asdict(found), True)
    else:
        typer.echo(str(found))


# ---- what is read ----------------------------------------------------------------------------------------------------


def _is_piped(table: Path) -> bool:
    """Whether a table comes from another program: by -, /dev/stdin or <(…)."""
    return str(table) == "-" or table.is_fifo() or table.is_char_device()


def _is_large(table: Path) -> bool:
    """Whether a table passes through in batches: it is a folder, a pattern, or larger than what is read at once."""
    from vpunn.io.streams import SMALL

    return not table.is_file() or table.stat().st_size > SMALL


def _open(
    model: Path, table: Path | None, ask: str | None, reading: Reading, keep: Any = ()
) -> tuple[TableModel, pd.DataFrame]:
    """The model and the rows that are asked about: a table, or one row with the text."""
    import pandas as pd

    from vpunn.hipan.table_models import open_table_model

    fitted = open_table_model(model)
    if (table is None) == (ask is None):
        raise VpunnError("give either a table or --ask with a text.")
    if table is not None:
        return fitted, reading.read(table, fitted.inputs, keep)
    if not fitted.inputs.text or fitted.inputs.columns:
        raise VpunnError("this model reads numeric columns or levels, so it cannot be asked a text; give a table.")
    refuse_unused({"--delimiter": reading.delimiter, "--encoding": reading.encoding}, "--ask is no table")
    cells = [ask, *[""] * (len(fitted.inputs.text) - 1)]
    return fitted, pd.DataFrame({name: [cell] for name, cell in zip(fitted.inputs.text, cells, strict=True)})


def _say_unknown(found: pd.DataFrame, numbers: bool) -> None:
    """Answers that rest on nothing in the row are said to."""
    dark = found.loc[~found["known"], "row"].unique()
    _say_dark(len(dark), dark[:4].tolist(), numbers)


def _say_dark(count: int, rows: list[int], numbers: bool) -> None:
    if count:
        what, then = (
            ("levels the model does not know", "deepest known ancestor")
            if numbers
            else ("nothing the model knows", "prior")
        )
        holds = "hold" if count > 1 else "holds"
        many = f"{count:,} row{'s' if count > 1 else ''}"
        say(f"{many} (row {examples(rows, limit=3, total=count)}) {holds} {what}; the answer is the {then}'s")


def _records(found: pd.DataFrame) -> list[dict[str, Any]]:
    """A record per row; a number that is not there is None, since JSON has no NaN."""
    rows = found.to_dict("records")
    return [{str(name): None if cell != cell else cell for name, cell in row.items()} for row in rows]


def _short(path: str) -> str:
    """The end of a path, as much as fits beside a label in a terminal; files and JSON have all of it."""
    steps = path.split(" / ")
    kept = len(steps)
    while kept > 2 and len(" / ".join(steps[-kept:])) > 60:
        kept -= 1
    return path if kept == len(steps) else "… / " + " / ".join(steps[-kept:])
