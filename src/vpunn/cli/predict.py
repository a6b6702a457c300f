"""``vpunn predict``, ``evaluate``, ``explain``: what a model that ``vpunn fit`` wrote says about the rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vpunn.cli.common import JsonFlag, add, emit, folded, refuse_unused, say
from vpunn.cli.tables import AS_FOUND, Ask, Model, Reading, Table, notes_on_origin
from vpunn.errors import VpunnError, counted, examples

if TYPE_CHECKING:
    import pandas as pd

    from vpunn.tables.models import TableModel


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (predict, evaluate, explain):
        add(app, command)


@dataclass(frozen=True)
class Stop:
    """Where an answer stops."""

    stop: Annotated[
        str | None, typer.Option(help="threshold, risk, depth or cost: answer a surer branch instead of a node.")
    ] = None
    threshold: Annotated[float | None, typer.Option(help="For --stop threshold; 0.5 if not given.")] = None
    alpha: Annotated[float | None, typer.Option(help="Accepted risk for --stop risk; 0.1 if not given.")] = None
    depth: Annotated[int | None, typer.Option(min=0, help="For --stop depth; 1 if not given.")] = None

    cost: Annotated[
        float | None,
        typer.Option(help="For --stop cost: what a wrong step at depth k costs, to the power of k; 1 if not given."),
    ] = None

    def options(self) -> dict[str, Any]:
        """As the models take them; numbers that belong to another rule are refused."""
        given = {"threshold": self.threshold, "risk": self.alpha, "depth": self.depth, "cost": self.cost}
        for (rule, value), name in zip(given.items(), ("--threshold", "--alpha", "--depth", "--cost"), strict=True):
            if self.stop != rule:
                refuse_unused({name: value}, f"it belongs to --stop {rule}")
        if self.stop is None:
            return {}
        return {
            "stop": self.stop,
            "threshold": 0.5 if self.threshold is None else self.threshold,
            "alpha": 0.1 if self.alpha is None else self.alpha,
            "depth": 1 if self.depth is None else self.depth,
            "cost": 1.0 if self.cost is None else self.cost,
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
            help="Write a table (.csv, .xlsx, .parquet, …) instead of printing, in constant memory; a folder of parts "
            "that can be continued if it ends in / or the input is a folder or pattern."
        ),
    ] = None,
    reading: Reading = AS_FOUND,
    json: JsonFlag = False,
) -> None:
    """Predict the place, or the number, of every row of a table."""
    from vpunn.tables.inputs import split_names

    if until.stop is not None and top > 1:
        raise VpunnError(f"--stop gives one branch per row, so --top {top} does not go with it; leave one of them out.")
    if rule != "node" and (until.stop is not None or top > 1):
        raise VpunnError(f"--rule {rule} gives one node per row; leave --stop and --top out.")
    chosen = {name: v for name, v in (("top", top), ("rule", rule)) if v not in (1, "node")} | until.options()
    if ask is not None:
        refuse_unused({"--keep": keep}, "--ask has no columns")
    if keep is not None and not split_names(keep):
        raise VpunnError("name at least one column after --keep.")
    if out is not None:
        refuse_unused({"--json": json or None}, "--out writes a table; its ending .jsonl gives JSON lines")
        if out != "-" and table is not None and not _is_piped(table) and ask is None:
            _predict_files(model, table, out, chosen, split_names(keep), reading)
            return
        if out != "-":
            from vpunn.io.frames import check_table_path

            check_table_path(out)
    from vpunn.tables.gaps import FILL_IN, Gaps
    from vpunn.tables.models import open_table_model
    from vpunn.tables.regressor import TableRegressor

    fitted = open_table_model(model, answers_only=True)
    _check_asked(fitted, table, ask, reading)
    if isinstance(fitted, TableRegressor):
        refuse_unused({"--stop": until.stop, "--top": top if top > 1 else None}, "this model predicts a number")
        chosen = {}
    frame, filled = None, []
    if table is not None or fitted.inputs.numeric:
        rows = _rows_asked(fitted, ask) if table is None else reading.read(table, fitted.inputs, split_names(keep))
        where = table or "--ask"
        gaps = Gaps.of(rows, fitted.inputs, where)
        gaps.refuse_empty(where, FILL_IN)
        frame = fitted.answer_table(rows, where, keep=split_names(keep), **chosen)
        filled = gaps.said(fitted.inputs)
        found = {str(name): cells for name, cells in frame.to_dict("list").items()}
    else:
        assert ask is not None and not isinstance(fitted, TableRegressor)
        found = fitted.ask(ask, **chosen)  # without pandas, which takes longer to import than a text to answer
    _say_unknown(found, fitted.fallback, bool(fitted.inputs.levels))
    _say_all(filled)
    if out is not None:
        import pandas as pd

        from vpunn.io.frames import write_table

        write_table(pd.DataFrame(found) if frame is None else frame, out)
        if out != "-":
            typer.echo(f"written: {out} ({counted(len(found['row']), 'row')})")
        return
    if not json:
        found["path"] = [_short(path) for path in found["path"]]
        if all(found["known"]):
            del found["known"]
    emit(_records(found), json)


def _predict_files(
    model: Path, table: Path, out: str, options: dict[str, Any], keep: list[str], reading: Reading
) -> None:
    """Files through a model, in constant memory, to a file or a folder of parts."""
    from vpunn import scale
    from vpunn.files import check_not_read
    from vpunn.io.frames import check_table_path
    from vpunn.io.streams import is_folder, table_files

    files = table_files(table)
    if not is_folder(out) and len(files) == 1:
        check_table_path(out)
    check_not_read(out, *files)
    predictor = scale.Predictor(model, keep=keep, **options)
    done = scale.predict(predictor, table, out, delimiter=reading.delimiter, encoding=reading.encoding)
    _say_dark(done.unknown, list(done.examples), predictor.fallback, not predictor.places)
    _say_all(done.notes)
    typer.echo(f"written: {out} ({counted(done.rows, 'row')})")


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
    """Score predictions against the target column of a table.

    Without a table: on the test part of the task that the model was fitted on."""
    from vpunn.tables.fits import task_rows
    from vpunn.tables.gaps import FILL_IN, Gaps
    from vpunn.tables.models import open_table_model

    fitted = open_table_model(model)
    several = getattr(fitted.model, "multilabel_", False)  # their scores are made of all rows at once
    if table is not None and not _is_piped(table) and not (several and table.is_file()):
        import pandas as pd

        from vpunn import scale
        from vpunn.io.streams import column_names
        from vpunn.tables.samples import check_inputs

        how = {"delimiter": reading.delimiter, "encoding": reading.encoding}
        if table.is_file():
            check_inputs(pd.DataFrame(columns=pd.Index(column_names(table, **how))), fitted.inputs, table)
        found = scale.evaluate(fitted, table, unseen=unseen, **how)  # type: ignore[arg-type]
    else:
        frame = task_rows(fitted.inputs) if table is None else reading.read(table, fitted.inputs)
        Gaps.of(frame, fitted.inputs, table).refuse_empty(table, FILL_IN)
        found = fitted.evaluate(frame, table or fitted.inputs.task, unseen)  # type: ignore[arg-type]
    notes = [*notes_on_origin(model, table), *found.notes]
    if json:
        emit({**found.scores, "by depth": found.by_depth, "notes": notes}, True)
        return
    emit(found.table(), False)
    for note in notes:
        typer.echo(folded(f"note: {note}"))
    if found.by_depth:
        typer.echo("\nHow often the answer's branch is right at each depth, and how probable it is said to be")
        emit(found.by_depth, False, "(ECE: how far the two differ; by chance: as far as luck alone would take them):")


def explain(
    model: Model,
    table: Table = None,
    ask: Ask = None,
    row: Annotated[int, typer.Option(min=0, help="Row of the table, from 0.")] = 0,
    node: Annotated[str | None, typer.Option(help="Explain this node instead of the best one.")] = None,
    reading: Reading = AS_FOUND,
    json: JsonFlag = False,
) -> None:
    """Say why a row, or a text of your own, is placed where it is.

    Shown is what each branch contributes."""
    from dataclasses import asdict

    from vpunn.tables.gaps import Gaps
    from vpunn.tables.models import open_table_model
    from vpunn.tables.reasons import explain_table_row

    fitted = open_table_model(model)
    _check_asked(fitted, table, ask, reading)
    if table is not None:
        frame = reading.read(table, fitted.inputs)
    else:
        frame = _rows_asked(fitted, ask)
    if row >= len(frame):
        raise VpunnError(f"there is no row {row}; the table has rows 0 to {len(frame) - 1}.")
    frame = frame.iloc[[row]]
    where = "--ask" if table is None else f"row {row} of {table}"
    _say_all(Gaps.of(frame, fitted.inputs, where).said(fitted.inputs))
    if fitted.inputs.text and not fitted.known(fitted.rows(frame, where)).all():  # type: ignore[union-attr]
        say("the text holds no word the model knows; the answer is the prior")
    found = explain_table_row(fitted, frame, where, node)
    if json:
        emit(asdict(found), True)
    else:
        typer.echo(folded(str(found)))


# ---- what is read ----------------------------------------------------------------------------------------------------


def _is_piped(table: Path) -> bool:
    """Whether a table comes from another program: by -, /dev/stdin or <(…)."""
    return str(table) == "-" or table.is_fifo() or table.is_char_device()


def _check_asked(fitted: TableModel, table: Path | None, ask: str | None, reading: Reading) -> None:
    """What is asked about is a table or a text, and the model can read it."""
    if (table is None) == (ask is None):
        raise VpunnError("give either a table or --ask with a text.")
    if table is not None and " " in str(table) and not table.exists() and fitted.inputs.text:
        raise VpunnError(f"there is no table {str(table)!r}; if it is a text of your own, write --ask before it.")
    if ask is None:
        return
    if not fitted.inputs.text:
        raise VpunnError("this model reads numeric columns or levels, so it cannot be asked a text; give a table.")
    refuse_unused({"--delimiter": reading.delimiter, "--encoding": reading.encoding}, "--ask is no table")


def _rows_asked(fitted: TableModel, ask: str | None) -> pd.DataFrame:
    """A text as a table of one row, in the first of the model's text columns; nothing is known of all others."""
    import pandas as pd

    inputs = fitted.inputs
    first, *others = inputs.text
    unknown = dict.fromkeys(others, "") | dict.fromkeys(inputs.columns, float("nan"))
    return pd.DataFrame([{first: ask, **unknown, **dict.fromkeys(inputs.categories)}])


def _say_unknown(found: dict[str, Any], fallback: str, numbers: bool) -> None:
    """Answers that rest on nothing in the row are said to, and so are answers without a label."""
    dark = list(dict.fromkeys(int(row) for row, known in zip(found["row"], found["known"], strict=True) if not known))
    _say_dark(len(dark), dark[:4], fallback, numbers)
    bare = [int(row) for row, label in zip(found["row"], found.get("label", ()), strict=False) if label == ""]
    if bare:
        say(f"{_rows(len(bare), bare, 'gets', 'get')} no label: none is likely enough")


def _say_dark(count: int, rows: list[int], fallback: str, numbers: bool) -> None:
    if not count:
        return
    whose = f"{fallback}'" if fallback.endswith("s") else f"{fallback}'s"
    if numbers:
        say(f"{_rows(count, rows, 'has', 'have')} no level, or one the model does not know; the answer is the {whose}")
    else:
        holds = _rows(count, rows, "holds", "hold")
        say(f"{holds} nothing the model knows; the answer is the {whose}, the same for all such rows")


def _rows(count: int, rows: list[int], one: str, many: str) -> str:
    """Some rows, by number, and what they do."""
    return f"{counted(count, 'row')} (row {examples(rows, limit=3, total=count)}) {one if count == 1 else many}"


def _say_all(sentences: Sequence[str]) -> None:
    for sentence in sentences:
        say(sentence)


def _records(found: dict[str, Any]) -> list[dict[str, Any]]:
    """A record per row; a number that is not there is None, since JSON has no NaN."""
    columns = [cells if isinstance(cells, list) else cells.tolist() for cells in found.values()]
    return [
        {name: None if cell != cell else cell for name, cell in zip(found, row, strict=True)}
        for row in zip(*columns, strict=True)
    ]


def _short(path: str) -> str:
    """The end of a path, as much as fits beside a label in a terminal; files and JSON have all of it."""
    steps = path.split(" / ")
    kept = len(steps)
    while kept > 2 and len(" / ".join(steps[-kept:])) > 60:
        kept -= 1
    return path if kept == len(steps) else "… / " + " / ".join(steps[-kept:])
