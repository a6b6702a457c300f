"""``vpunn fit``, ``predict``, ``evaluate``, ``explain``: place rows of a table on a tree, or predict a number from its levels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vpunn._progress import progress_bar
from vpunn.cli.common import JsonFlag, emit, refuse_unused, say
from vpunn.cli.structure import Format, Options, read_source
from vpunn.errors import VpunnError, examples

if TYPE_CHECKING:
    import pandas as pd

    from vpunn.hipan.table_models import TableModel
    from vpunn.hipan.tables import Inputs

Model = Annotated[Path, typer.Argument(help="Folder that `vpunn fit` wrote.")]
Table = Annotated[
    Path | None,
    typer.Argument(
        help="CSV, TSV, Parquet or JSON lines table with the columns the model reads; - for standard input."
    ),
]
Ask = Annotated[str | None, typer.Option(help="A text of your own instead of a table.")]
Delimiter = Annotated[
    str | None, typer.Option(help="What separates the cells of a text table; found by itself if not given.")
]
Encoding = Annotated[
    str | None, typer.Option(help="Encoding of a text table, such as cp1252; UTF-8 and UTF-16 are found.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (fit, predict, evaluate, explain):
        app.command()(command)


def fit(
    table: Annotated[
        Path, typer.Argument(help="CSV, TSV, Parquet or JSON lines table, or the name of a task (wordnet, go, …).")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the model.")],
    target: Annotated[
        str | None, typer.Option(help="Column of labels (default: label), or level columns separated by commas.")
    ] = None,
    label_sep: Annotated[
        str | None, typer.Option(help="Rows have several labels, separated by this in the target's cells, such as ';'.")
    ] = None,
    levels: Annotated[
        str | None,
        typer.Option(help="Level columns, broadest first: the target, or with --regress what is known of a row."),
    ] = None,
    text: Annotated[str | None, typer.Option(help="Text columns, separated by commas.")] = None,
    columns: Annotated[str | None, typer.Option(help="Numeric columns, separated by commas.")] = None,
    regress: Annotated[
        str | None, typer.Option(help="Predict the number in this column from --levels (and --columns).")
    ] = None,
    tree: Annotated[str | None, typer.Option(help="Tree file (or data set) whose labels the table uses.")] = None,
    match: Annotated[
        str | None, typer.Option(help="exact, or loose: Homo_sapiens in the tree is 'homo sapiens' in the table.")
    ] = None,
    missing: Annotated[
        str, typer.Option(help="Rows without a label or number, or not in the tree: error or drop.")
    ] = "error",
    characters: Annotated[bool | None, typer.Option(help="Also use character n-grams of the text.")] = None,
    test_size: Annotated[
        float | None, typer.Option(help="First fit without this share of the rows and score them.")
    ] = None,
    folds: Annotated[
        int | None, typer.Option(help="First score every row by a model fitted without its part of so many.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    format: Format = None,
    policy: Annotated[str | None, typer.Option(help="For --tree: which parent a node with several keeps.")] = None,
    option: Options = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    json: JsonFlag = False,
) -> None:
    """Fit a model on a table and write it to a folder; the model written has seen all rows."""
    from vpunn.hipan import table_models as models
    from vpunn.io.store import check_replaceable

    out.parent.mkdir(parents=True, exist_ok=True)
    check_replaceable(out)
    if not table.exists() and _task_name(table) is not None:
        given: dict[str, Any] = {"--target": target, "--levels": levels, "--text": text, "--columns": columns}
        given |= {"--regress": regress, "--label-sep": label_sep}
        given |= {"--tree": tree, "--test-size": test_size, "--folds": folds}
        refuse_unused(given, f"{table} is a task, which brings its own columns, tree and test rows")
        with progress_bar("fitting…", 100) as bar:
            model: TableModel = models.fit_task(
                _task_name(table) or "", characters=characters is not False, seed=seed, bar=bar
            )
        facts: dict[str, Any] = {}
    else:
        inputs = _inputs(target, levels, text, columns, regress)
        if label_sep is not None:
            refuse_unused({"--levels": levels, "--regress": regress, "--match": match}, "--label-sep cuts one column")
            inputs = replace(inputs, label_sep=label_sep)
        if tree is None:
            refuse_unused(
                {"--match": match, "--format": format, "--policy": policy, "--option": option}, "there is no --tree"
            )
        if text is None:
            refuse_unused({"--characters": characters}, "there is no --text")
        if test_size is not None and folds is not None:
            raise VpunnError("--test-size and --folds are two ways of holding rows out; give one of them.")
        frame = _read(table, inputs, delimiter, encoding)
        answers = None if tree is None else read_source(tree, format, policy or "first", option)
        sample = models.read_sample(
            frame,
            inputs,
            table,
            regress=regress is not None,
            tree=answers,
            match=match or "exact",
            missing=missing,
        )
        if not json:
            typer.echo(str(sample.report))
        kind: Any = models.TableRegressor if regress is not None else models.TableClassifier
        if label_sep is not None:
            from vpunn.hipan.table_sets import SetTableClassifier

            kind = SetTableClassifier
        options = {"tree": answers, "characters": characters is not False, "seed": seed}
        facts = {"read": sample.report.facts()} if json else {}
        if test_size is not None or folds is not None:
            parts = list(models.splits(sample, inputs, test_size=test_size, folds=folds, seed=seed))
            scores = []
            for k, (train, test) in enumerate(parts, 1):
                with progress_bar(f"fitting without held-out rows {k}/{len(parts)}…", 100) as bar:
                    part = kind.fit(sample.take(train), inputs, bar=bar, **options)
                scores.append(part.evaluate(sample.take(test).frame, table))
            facts |= models.summary_of(scores)
        with progress_bar("fitting…", 100) as bar:
            model = kind.fit(sample, inputs, bar=bar, **options)
    model.save(out, {"data": str(table), "command": "vpunn fit"})
    size = sum(f.stat().st_size for f in out.iterdir())
    emit({**facts, "nodes": model.model.tree_.n_nodes, "MB": size / 1e6, "model": str(out)}, json)


def predict(
    model: Model,
    table: Table = None,
    ask: Ask = None,
    top: Annotated[int, typer.Option(min=1, help="Answers per row.")] = 1,
    stop: Annotated[
        str | None, typer.Option(help="threshold, risk or depth: answer a surer ball instead of a node.")
    ] = None,
    threshold: Annotated[float | None, typer.Option(help="For --stop threshold; 0.5 if not given.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Accepted risk for --stop risk; 0.1 if not given.")] = None,
    depth: Annotated[int | None, typer.Option(min=0, help="For --stop depth; 1 if not given.")] = None,
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
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    json: JsonFlag = False,
) -> None:
    """Predict the place, or the number, of every row of a table, or of one text."""
    from vpunn.hipan.tables import split_names

    if stop is not None and top > 1:
        raise VpunnError(f"--stop gives one ball per row, so --top {top} does not go with it; leave one of them out.")
    if rule != "node" and (stop is not None or top > 1):
        raise VpunnError(f"--rule {rule} gives one node per row; leave --stop and --top out.")
    for name, value, needs in (
        ("--threshold", threshold, "threshold"),
        ("--alpha", alpha, "risk"),
        ("--depth", depth, "depth"),
    ):
        if stop != needs:
            refuse_unused({name: value}, f"it belongs to --stop {needs}")
    if ask is not None:
        refuse_unused({"--keep": keep}, "--ask has no columns")
    if out is not None:
        refuse_unused({"--json": json or None}, "--out writes a table; its ending .jsonl gives JSON lines")
        if out != "-" and table is not None and str(table) != "-" and ask is None:
            chosen: dict[str, Any] = {name: v for name, v in (("top", top), ("rule", rule)) if v not in (1, "node")}
            if stop is not None:
                chosen |= {"stop": stop, **_stop_options(threshold, alpha, depth)}
            _predict_files(model, table, out, chosen, split_names(keep), delimiter, encoding)
            return
        if out != "-":
            from vpunn.io.frames import check_table_path

            check_table_path(out)
    fitted, frame = _open(model, table, ask, delimiter, encoding, split_names(keep))
    options: dict[str, Any] = {"top": top, "rule": rule, "stop": stop}
    if stop is not None:
        options |= _stop_options(threshold, alpha, depth)
    if fitted.inputs.levels:
        refuse_unused({"--stop": stop, "--top": top if top > 1 else None}, "this model predicts a number")
        options = {}
    found = fitted.predict(frame, table or "--ask", keep=split_names(keep), **options)
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


def _stop_options(threshold: float | None, alpha: float | None, depth: int | None) -> dict[str, Any]:
    """The numbers of the stop rules, with what they are if not given."""
    return {
        "threshold": 0.5 if threshold is None else threshold,
        "alpha": 0.1 if alpha is None else alpha,
        "depth": 1 if depth is None else depth,
    }


def _predict_files(
    model: Path, table: Path, out: str, options: dict[str, Any], keep: list[str], delimiter: str | None, encoding: Any
) -> None:
    """Files through a model, in constant memory, to a file or a folder of parts."""
    from vpunn.io.frames import check_table_path
    from vpunn.io.streams import is_folder, table_files
    from vpunn.scale import Predictor, predict_stream

    if not is_folder(out) and len(table_files(table)) == 1:
        check_table_path(out)
    predictor = Predictor(model, keep=keep, **options)
    done = predict_stream(predictor, table, out, delimiter=delimiter, encoding=encoding)
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
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    json: JsonFlag = False,
) -> None:
    """Compare predictions with the target column of a table (or the test part of the task the model was fitted on)."""
    from vpunn.hipan.table_models import open_table_model, task_rows

    fitted = open_table_model(model)
    if table is not None and str(table) != "-" and _is_large(table):
        from vpunn.scale import evaluate_stream

        found = evaluate_stream(fitted, table, unseen=unseen, delimiter=delimiter, encoding=encoding)
    else:
        frame = task_rows(fitted.inputs) if table is None else _read(table, fitted.inputs, delimiter, encoding)
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
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    json: JsonFlag = False,
) -> None:
    """Say why a row, or a text of your own, is placed where it is: each ball's contribution, summing to the score."""
    from dataclasses import asdict

    from vpunn.explain import explain as explain_row
    from vpunn.hipan.tables import texts_of
    from vpunn.text import by_word

    fitted, frame = _open(model, table, ask, delimiter, encoding)
    if row >= len(frame):
        raise VpunnError(f"there is no row {row}; the table has rows 0 to {len(frame) - 1}.")
    frame, inputs = frame.iloc[[row]], fitted.inputs
    X = fitted.rows(frame, table or "--ask")
    features = getattr(fitted, "features", None)
    found: Any
    if features is None:
        names = None if inputs.levels else list(inputs.columns)
        found = explain_row(fitted.model, X, node, feature_names=names)
    else:  # all features, so that the words of a ball sum to what it contributes
        found = explain_row(fitted.model, X, node, k=X.shape[1], feature_names=features.get_feature_names_out())
        (words,) = texts_of(frame, inputs.text, table)
        if getattr(fitted.model, "multilabel_", False):
            found = replace(found, features=by_word(words, found.features)[:5], neighbours=found.neighbours[:5])
        else:
            balls = [replace(ball, features=by_word(words, ball.features)[:5]) for ball in found.balls]
            found = replace(found, balls=balls)
        if not fitted.known(X).all():  # type: ignore[union-attr]
            say("the text holds no word the model knows; the answer is the prior")
    if json:
        emit(asdict(found), True)
    else:
        typer.echo(str(found))


# ---- what is read ----------------------------------------------------------------------------------------------------


def _inputs(
    target: str | None, levels: str | None, text: str | None, columns: str | None, regress: str | None
) -> Inputs:
    """The columns that the options of `fit` name."""
    from vpunn.hipan.tables import Inputs, split_names

    given = {"--target": target, "--levels": levels, "--text": text, "--columns": columns, "--regress": regress}
    empty = [name for name, value in given.items() if value is not None and not split_names(value)]
    if empty:
        raise VpunnError(f"name at least one column after {empty[0]}.")
    names = {name: tuple(split_names(value)) for name, value in given.items()}
    if regress is not None:
        refuse_unused({"--target": target, "--text": text}, "--regress predicts a number from --levels and --columns")
        if levels is None:
            raise VpunnError(
                "--regress needs --levels with the level columns (or the label column of --tree), broadest first."
            )
        if len(names["--regress"]) > 1:
            raise VpunnError(f"--regress takes one column, got {examples(names['--regress'])}.")
        return Inputs(names["--regress"], (), names["--columns"], names["--levels"])
    if target is not None and levels is not None:
        raise VpunnError("--target and --levels both name the target; give one of them.")
    if (text is None) == (columns is None):
        raise VpunnError("say either --text with text columns or --columns with numeric columns.")
    return Inputs(names["--levels"] or names["--target"] or ("label",), names["--text"], names["--columns"])


def _is_large(table: Path) -> bool:
    """Whether a table passes through in batches: it is a folder, a pattern, or larger than what is read at once."""
    from vpunn.io.streams import SMALL

    return not table.is_file() or table.stat().st_size > SMALL


def _read(table: Path, inputs: Inputs, delimiter: str | None, encoding: str | None, keep: Any = ()) -> pd.DataFrame:
    from vpunn.io import read_table

    return read_table(table, as_text=[*inputs.as_text, *keep], delimiter=delimiter, encoding=encoding)


def _open(
    model: Path, table: Path | None, ask: str | None, delimiter: str | None, encoding: str | None, keep: Any = ()
) -> tuple[TableModel, pd.DataFrame]:
    """The model and the rows that are asked about: a table, or one row with the text."""
    import pandas as pd

    from vpunn.hipan.table_models import open_table_model

    fitted = open_table_model(model)
    if (table is None) == (ask is None):
        raise VpunnError("give either a table or --ask with a text.")
    if table is not None:
        return fitted, _read(table, fitted.inputs, delimiter, encoding, keep)
    if not fitted.inputs.text or fitted.inputs.columns:
        raise VpunnError("this model reads numeric columns or levels, so it cannot be asked a text; give a table.")
    refuse_unused({"--delimiter": delimiter, "--encoding": encoding}, "--ask is no table")
    cells = [ask, *[""] * (len(fitted.inputs.text) - 1)]
    return fitted, pd.DataFrame({name: [cell] for name, cell in zip(fitted.inputs.text, cells, strict=True)})


def _task_name(table: Path) -> str | None:
    """The task that a word means; None for what is meant as a file."""
    from vpunn.datasets.tasks import TASKS

    name = {"wordnet-3.0": "wordnet"}.get(str(table), str(table))
    return name if name in TASKS else None


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
    return [{str(name): cell for name, cell in row.items()} for row in found.to_dict("records")]


def _short(path: str) -> str:
    """The end of a path, as much as fits beside a label in a terminal; files and JSON have all of it."""
    steps = path.split(" / ")
    kept = len(steps)
    while kept > 2 and len(" / ".join(steps[-kept:])) > 60:
        kept -= 1
    return path if kept == len(steps) else "… / " + " / ".join(steps[-kept:])
