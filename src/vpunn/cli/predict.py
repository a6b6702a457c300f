"""``vpunn fit``, ``predict``, ``evaluate`` and ``explain``: place rows of a table, or a text of your own, on a tree."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from vpunn._progress import progress_bar
from vpunn.cli.common import JsonFlag, emit
from vpunn.errors import DataError, VpunnError, examples
from vpunn.io import read_table, write_table
from vpunn.io.store import Stored

Model = Annotated[Path, typer.Argument(help="Folder that `vpunn fit` wrote.")]
Table = Annotated[
    Path | None, typer.Argument(help="CSV, TSV or Parquet table with the columns the model was fitted on.")
]
Ask = Annotated[str | None, typer.Option(help="A text of your own instead of a table.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (fit, predict, evaluate, explain):
        app.command()(command)


def fit(
    table: Annotated[Path, typer.Argument(help="CSV, TSV or Parquet table, or the name of a task (wordnet, go, …).")],
    out: Annotated[Path, typer.Option(help="Folder for the model.")],
    target: Annotated[str, typer.Option(help="Column of labels, or level columns separated by commas.")] = "label",
    text: Annotated[str | None, typer.Option(help="Text columns, separated by commas.")] = None,
    columns: Annotated[str | None, typer.Option(help="Numeric columns, separated by commas.")] = None,
    tree: Annotated[Path | None, typer.Option(help="Tree file whose labels the target uses.")] = None,
    characters: Annotated[bool, typer.Option(help="Also use character n-grams of the text.")] = True,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    json: JsonFlag = False,
) -> None:
    """Fit a classifier on a table with a text column or numeric columns and write it to a folder."""
    from vpunn.hipan import HiPaNClassifier
    from vpunn.io.store import check_replaceable

    out.parent.mkdir(parents=True, exist_ok=True)
    check_replaceable(out)
    features = None
    descriptions: Any = None
    if not table.exists() and str(table) in _task_names():
        from vpunn.datasets.tasks import load_task

        task = load_task(str(table), seed)
        given, labels, answers = task.texts["train"], task.labels("train"), task.tree
        features = _new_features(characters, len(given))
        everything = features.fit_transform(np.concatenate([given, *task.descriptions]))
        n = answers.n_nodes
        X = everything[: len(given)]
        descriptions = [everything[len(given) + k * n :][:n] for k in range(len(task.descriptions))] or None
        inputs: dict[str, Any] = {"text": ["text"], "target": "label", "task": str(table), "seed": seed}
    else:
        frame = read_table(table)
        if (text is None) == (columns is None):
            raise VpunnError("say either --text with text columns or --columns with numeric columns.")
        inputs = {"text": _split(text)} if text is not None else {"columns": _split(columns)}
        inputs["target"] = target
        if not (inputs.get("text") or inputs.get("columns")) or not _split(target):
            raise VpunnError("name at least one column after --text or --columns, and one after --target.")
        labels = _labels(frame, target, table)
        answers = None
        if tree is not None:
            from vpunn.io import read_tree

            answers = read_tree(tree)
        if text is not None:
            features = _new_features(characters, len(frame))
            X = _first_features(features, _texts(frame, inputs["text"], table), table)
        else:
            X = _numbers(frame, inputs["columns"], table)
    with progress_bar("fitting…"):
        model = HiPaNClassifier(answers, random_state=seed).fit(X, labels, X_nodes=descriptions)
    draft = model.draft({"data": str(table), "command": "vpunn fit"})
    draft.settings["inputs"] = inputs
    if features is not None:
        draft.part("features", features.draft())
    draft.write(out)
    size = sum(f.stat().st_size for f in out.iterdir())
    emit(
        {"rows": X.shape[0], "features": X.shape[1], "nodes": model.tree_.n_nodes, "MB": size / 1e6, "model": str(out)},
        json,
    )


def _new_features(characters: bool, rows: int) -> Any:
    """Text features; words of a single row help to recognise its class, its character n-grams are too many to keep."""
    from vpunn.text import text_features

    return text_features(characters=(3, 5) if characters else None, min_rows=2 if characters and rows > 1000 else 1)


def predict(
    model: Model,
    table: Table = None,
    ask: Ask = None,
    top: Annotated[int, typer.Option(min=1, help="Answers per row.")] = 1,
    stop: Annotated[
        str | None, typer.Option(help="threshold, risk or depth: answer a surer ball instead of a node.")
    ] = None,
    threshold: Annotated[float, typer.Option(help="For --stop threshold.")] = 0.5,
    alpha: Annotated[float, typer.Option(help="Accepted risk for --stop risk.")] = 0.1,
    depth: Annotated[int, typer.Option(help="For --stop depth.")] = 1,
    rule: Annotated[
        str,
        typer.Option(help="node: the most probable node; path: one that shares most of its path with all likely ones."),
    ] = "node",
    out: Annotated[Path | None, typer.Option(help="Write a CSV table instead of printing.")] = None,
    json: JsonFlag = False,
) -> None:
    """Predict the place of every row of a table, or of one text."""
    if stop is not None and top > 1:
        raise VpunnError(f"--stop gives one ball per row, so --top {top} does not go with it; leave one of them out.")
    if rule != "node" and (stop is not None or top > 1):
        raise VpunnError(f"--rule {rule} gives one node per row; leave --stop and --top out.")
    fitted, X = _load(model, table, ask)
    rows: list[dict[str, Any]] = []
    if stop is not None:
        answer = fitted.predict(X, stop=stop, threshold=threshold, alpha=alpha, depth=depth)
        rows = [{"row": i, "label": label} for i, label in enumerate(answer)]
    else:
        posterior = fitted.posterior(X)
        if rule == "node":
            nodes, p = posterior.top_k(min(top, len(fitted.class_nodes_)))
        else:
            nodes = posterior.best(rule)[:, None]  # checked there, with a sentence
            p = posterior.exact(nodes[:, 0])[:, None]
        names = fitted.labels_[nodes].tolist()
        paths = {node: _path(fitted.tree_, node) for node in np.unique(nodes).tolist()}
        for i, at in enumerate(nodes.tolist()):
            for name, value, node in zip(names[i], p[i].tolist(), at, strict=True):
                rows.append({"row": i, "label": name, "probability": value, "path": paths[node]})
    if out is not None:
        import pandas as pd

        write_table(pd.DataFrame(rows), out)
        typer.echo(f"written: {out}")
        return
    emit(rows if json else [{**row, "path": _short(row["path"])} if "path" in row else row for row in rows], json)


def evaluate(model: Model, table: Table = None, json: JsonFlag = False) -> None:
    """Compare predictions with the target column of a table (or the test part of the task the model was fitted on)."""
    from vpunn import metrics

    if table is None and "task" not in _opened(model)[1]:
        raise VpunnError(
            "give a table with the target column; only a model fitted on a named task brings its own test rows."
        )
    fitted, X, frame, meta = _load_all(model, table, None)
    from vpunn.hipan import conformal

    tree = fitted.tree_
    nodes = fitted.nodes_of(_labels(frame, meta["target"], table))
    posterior = fitted.posterior(X)
    best, p = posterior.top_k(5)
    hit = best == nodes[:, None]
    cautious = conformal.cautious_nodes(posterior, conformal.conformal_threshold(fitted.miss_scores_, 0.1))
    covered = tree.is_ancestor(cautious, nodes)
    result = {
        "rows": len(nodes),
        "exact": float(hit[:, 0].mean()),
        "top-5": float(hit.any(1).mean()),
        **metrics.hierarchical_summary(tree, nodes, best[:, 0]),
        "ECE": metrics.calibration_error(p[:, 0], hit[:, 0]),
        "coverage at 90 %": float(np.mean(covered)),
    }
    result = {key: value for key, value in result.items() if np.ndim(value) == 0}
    depths = _by_depth(posterior, nodes, best[:, 0])
    if json:
        emit({**result, "by depth": depths}, True)
        return
    emit(result, False)
    if depths:
        emit(
            depths,
            False,
            "\nthe ball around the answer at each depth: how often it is right and how probable it is said to be",
        )


def _by_depth(posterior: Any, truth: np.ndarray, answer: np.ndarray) -> list[dict[str, Any]]:
    """Accuracy and calibration of the balls on the answers' paths, a row per depth that an answer reaches."""
    from vpunn import metrics

    tree = posterior.tree
    balls, p = posterior.chain(answer)
    rows = []
    for depth in range(1, balls.shape[1]):
        there = np.flatnonzero(balls[:, depth] >= 0)
        if not len(there):
            break
        right = tree.is_ancestor(balls[there, depth], truth[there])
        found = metrics.calibration_error_interval(p[there, depth], right)
        rows.append(
            {
                "depth": depth,
                "rows": len(there),
                "right": float(right.mean()),
                "said": float(p[there, depth].mean()),
                "ECE": found.value,
                "by chance": found.noise,
            }
        )
    return rows


def explain(
    model: Model,
    table: Table = None,
    ask: Ask = None,
    row: Annotated[int, typer.Option(min=0, help="Row of the table, from 0.")] = 0,
    node: Annotated[str | None, typer.Option(help="Explain this node instead of the best one.")] = None,
    json: JsonFlag = False,
) -> None:
    """Say why a row, or a text of your own, is placed where it is: each ball's contribution, summing to the score."""
    from dataclasses import asdict

    from vpunn.explain import explain as explain_row

    fitted, X = _load(model, table, ask)
    if row >= X.shape[0]:
        raise VpunnError(f"there is no row {row}; the table has rows 0 to {X.shape[0] - 1}.")
    stored, meta = _opened(model)
    names = _text_features(stored).get_feature_names_out() if "text" in meta else meta["columns"]
    found = explain_row(fitted, X[[row]], node, feature_names=names)
    if json:
        emit(asdict(found), True)
    else:
        typer.echo(str(found))


def _task_names() -> list[str]:
    from vpunn.datasets.tasks import TASKS

    return list(TASKS)


def _split(names: str | None) -> list[str]:
    return [name.strip() for name in (names or "").split(",") if name.strip()]


def _labels(frame: Any, target: str, path: Path | None) -> np.ndarray:
    """The target column, or level columns side by side."""
    levels = [_column(frame, name, path) for name in _split(target)]
    return levels[0] if len(levels) == 1 else np.stack([np.asarray(level, dtype=object) for level in levels], 1)


def _first_features(features: Any, texts: list[str], path: Path) -> Any:
    """The features of the training texts, which must contain words."""
    try:
        return features.fit_transform(texts)
    except ValueError as error:
        raise DataError(f"the texts of {str(path)!r} give no features: {error}.") from error


def _path(tree: Any, node: int) -> str:
    return " / ".join(map(str, tree.path(node)))


def _short(path: str) -> str:
    """The end of a path, as much as fits beside a label in a terminal; files and JSON have all of it."""
    steps = path.split(" / ")
    kept = len(steps)
    while kept > 2 and len(" / ".join(steps[-kept:])) > 60:
        kept -= 1
    return path if kept == len(steps) else "… / " + " / ".join(steps[-kept:])


def _opened(model: Path) -> tuple[Stored, dict[str, Any]]:
    """The folder of a model and what it was fitted on."""
    stored = Stored.open(model, "HiPaNClassifier")
    meta = stored.settings.get("inputs")
    if not isinstance(meta, dict) or "target" not in meta or not ("text" in meta or "columns" in meta):
        raise DataError(f"{str(model)!r} does not say which columns it reads; `vpunn fit` writes a model that does.")
    return stored, meta


def _text_features(stored: Stored) -> Any:
    from vpunn.text import TextFeatures

    return TextFeatures.from_stored(stored.part("features"))


def _column(frame: Any, name: str, path: Path | None) -> np.ndarray:
    from vpunn.io.frames import check_columns

    check_columns(frame, [name], path)
    return np.asarray(frame[name].to_numpy())


def _texts(frame: Any, names: list[str], path: Path | None) -> list[str]:
    import pandas as pd

    columns = [_column(frame, name, path) for name in names]
    parts = [
        ["" if gap else str(cell) for cell, gap in zip(cells.tolist(), pd.isna(cells), strict=True)]
        for cells in columns
    ]
    return [" ".join(cells) for cells in zip(*parts, strict=True)]


def _numbers(frame: Any, names: list[str], path: Path | None) -> np.ndarray:
    columns = [_column(frame, name, path) for name in names]
    wrong = [name for name, values in zip(names, columns, strict=True) if values.dtype.kind not in "biuf"]
    if wrong:
        raise DataError(f"columns {examples(wrong)} of {str(path)!r} are not numeric; pass texts with --text.")
    return np.stack(columns, 1).astype(float)


def _load(model: Path, table: Path | None, ask: str | None) -> tuple[Any, Any]:
    if _opened(model) and (table is None) == (ask is None):
        raise VpunnError("give either a table or --ask with a text.")
    fitted, X, _, _ = _load_all(model, table, ask)
    return fitted, X


def _load_all(model: Path, table: Path | None, ask: str | None) -> tuple[Any, Any, Any, dict[str, Any]]:
    """The model, the features of what is asked, the table, and what the model was fitted on."""
    from vpunn.hipan import HiPaNClassifier

    stored, meta = _opened(model)
    fitted = HiPaNClassifier.from_stored(stored)
    if ask is not None:
        if "text" not in meta:
            raise VpunnError("this model was fitted on numeric columns, so it cannot be asked a text; give a table.")
        return fitted, _text_features(stored).transform([ask]), None, meta
    frame = _test_rows(meta) if table is None else read_table(table)
    if "text" in meta:
        return fitted, _text_features(stored).transform(_texts(frame, meta["text"], table)), frame, meta
    return fitted, _numbers(frame, meta["columns"], table), frame, meta


def _test_rows(meta: dict[str, Any]) -> Any:
    """The test part of the task that a model was fitted on."""
    import pandas as pd

    from vpunn.datasets.tasks import load_task

    task = load_task(meta["task"], meta["seed"])
    return pd.DataFrame({"text": task.texts["test"], meta["target"]: task.labels("test")})
