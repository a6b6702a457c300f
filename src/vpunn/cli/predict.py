"""``vpunn fit``, ``predict``, ``evaluate`` and ``explain``: place rows of a table, or a text of your own, on a tree."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from vpunn.cli.common import JsonFlag, emit
from vpunn.errors import DataError, VpunnError, examples

Model = Annotated[Path, typer.Argument(help="Folder that `vpunn fit` wrote.")]
Table = Annotated[Path | None, typer.Argument(help="CSV, TSV or Parquet table with the columns the model was fitted on.")]
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
    from vpunn.text import save_text_features, text_features

    features = None
    descriptions: Any = None
    if not table.exists() and str(table) in _task_names():
        from vpunn.tasks import load_task

        task = load_task(str(table), seed)
        given, labels, answers = task.texts["train"], task.labels("train"), task.tree
        features = text_features(characters=(3, 5) if characters else None, min_rows=2)
        everything = features.fit_transform(np.concatenate([given, *task.descriptions]))
        n = answers.n_nodes
        X = everything[: len(given)]
        descriptions = [everything[len(given) + k * n :][:n] for k in range(len(task.descriptions))] or None
        inputs: dict[str, Any] = {"text": ["text"]}
    else:
        frame = _read(table)
        if (text is None) == (columns is None):
            raise VpunnError("say either --text with text columns or --columns with numeric columns.")
        inputs = {"text": _split(text)} if text else {"columns": _split(columns)}
        wanted = _split(target)
        labels = _column(frame, wanted[0], table) if len(wanted) == 1 else np.stack([_column(frame, c, table) for c in wanted], 1)
        answers = None
        if tree is not None:
            from vpunn.io import read_tree

            answers = read_tree(tree)
        if text:
            features = text_features(characters=(3, 5) if characters else None, min_rows=2 if len(frame) > 1000 else 1)
            X = features.fit_transform(_texts(frame, inputs["text"], table))
        else:
            X = _numbers(frame, inputs["columns"], table)
    model = _with_progress(lambda: HiPaNClassifier(answers, random_state=seed).fit(X, labels, X_nodes=descriptions))
    out.mkdir(parents=True, exist_ok=True)
    model.save(out / "model.npz")
    if features is not None:
        save_text_features(features, out / "features.npz")
    from vpunn.io.files import save

    save(out / "inputs.json", json_format.dumps({**inputs, "target": target}).encode())
    size = sum(f.stat().st_size for f in out.iterdir())
    emit({"rows": X.shape[0], "features": X.shape[1], "nodes": model.tree_.n_nodes, "MB": size / 1e6, "model": str(out)}, json)


def predict(
    model: Model,
    table: Table = None,
    ask: Ask = None,
    top: Annotated[int, typer.Option(min=1, help="Answers per row.")] = 1,
    stop: Annotated[str | None, typer.Option(help="threshold, risk or depth: answer a surer ball instead of a node.")] = None,
    threshold: Annotated[float, typer.Option(help="For --stop threshold.")] = 0.5,
    alpha: Annotated[float, typer.Option(help="Accepted risk for --stop risk.")] = 0.1,
    depth: Annotated[int, typer.Option(help="For --stop depth.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Write a CSV table instead of printing.")] = None,
    json: JsonFlag = False,
) -> None:
    """Predict the place of every row of a table, or of one text."""
    fitted, X = _load(model, table, ask)
    rows: list[dict[str, Any]] = []
    if stop is not None:
        answer = fitted.predict(X, stop=stop, threshold=threshold, alpha=alpha, depth=depth)
        rows = [{"row": i, "label": label} for i, label in enumerate(answer)]
    else:
        labels, p = fitted.top_k(X, top)
        lookup = fitted._label_tree()
        paths = {name: " / ".join(map(str, fitted.tree_.path(lookup.index(name)))) for name in set(labels.ravel().tolist())}
        for i, (names, values) in enumerate(zip(labels.tolist(), p, strict=True)):
            for name, value in zip(names, values, strict=True):
                rows.append({"row": i, "label": name, "probability": float(value), "path": paths[name]})
    if out is not None:
        import pandas as pd

        from vpunn.io.files import save

        save(out, pd.DataFrame(rows).to_csv(index=False).encode())
        typer.echo(f"written: {out}")
        return
    emit(rows, json)


def evaluate(model: Model, table: Table = None, json: JsonFlag = False) -> None:
    """Compare predictions with the target column of a table (or the test part of the task the model was fitted on)."""
    from vpunn import metrics

    fitted, X, frame, meta = _load_all(model, table, None)
    wanted = _split(meta["target"])
    levels = [_column(frame, name, table) for name in wanted]
    truth = levels[0] if len(levels) == 1 else list(zip(*(level.tolist() for level in levels), strict=True))
    from vpunn.hipan.targets import check_in_tree

    tree = fitted.tree_
    nodes = check_in_tree(fitted._label_tree(), truth)
    best, p = fitted._posterior(X).top_k(5)
    hit = best == nodes[:, None]
    covered = tree.is_ancestor(np.asarray(_risk_nodes(fitted, X)), nodes)
    result = {
        "rows": len(nodes),
        "exact": float(hit[:, 0].mean()),
        "top-5": float(hit.any(1).mean()),
        **metrics.hierarchical_summary(tree, nodes, best[:, 0]),
        "ECE": metrics.calibration_error(p[:, 0], hit[:, 0]),
        "coverage at 90 %": float(np.mean(covered)),
    }
    emit({key: value for key, value in result.items() if np.ndim(value) == 0}, json)


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
    names = None
    if (model / "features.npz").exists():
        from vpunn.text import load_text_features

        names = load_text_features(model / "features.npz").get_feature_names_out()
    found = explain_row(fitted, X[[row]], node, feature_names=names)
    if json:
        emit(asdict(found), True)
    else:
        typer.echo(str(found))


def _task_names() -> list[str]:
    from vpunn.tasks import TASKS

    return list(TASKS)


def _split(names: str | None) -> list[str]:
    return [name.strip() for name in (names or "").split(",") if name.strip()]


def _read(path: Path) -> Any:
    """A table by its suffix."""
    import pandas as pd

    if not path.exists():
        raise DataError(f"there is no file {str(path)!r}.")
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    return pd.read_csv(path, sep="\t" if path.suffix in (".tsv", ".tab") else ",")


def _column(frame: Any, name: str, path: Path | None) -> np.ndarray:
    if name not in frame:
        raise DataError(f"{str(path)!r} has no column {name!r}; it has {examples(list(frame.columns))}.")
    return frame[name].to_numpy()


def _texts(frame: Any, names: list[str], path: Path | None) -> list[str]:
    parts = [frame[name].fillna("").astype(str) if name in frame else _column(frame, name, path) for name in names]
    return [" ".join(cells) for cells in zip(*parts, strict=True)]


def _numbers(frame: Any, names: list[str], path: Path | None) -> np.ndarray:
    columns = [_column(frame, name, path) for name in names]
    wrong = [name for name, values in zip(names, columns, strict=True) if values.dtype.kind not in "biuf"]
    if wrong:
        raise DataError(f"columns {examples(wrong)} of {str(path)!r} are not numeric; pass texts with --text.")
    return np.stack(columns, 1).astype(float)


def _load(model: Path, table: Path | None, ask: str | None) -> tuple[Any, Any]:
    fitted, X, _, _ = _load_all(model, table, ask)
    return fitted, X


def _load_all(model: Path, table: Path | None, ask: str | None) -> tuple[Any, Any, Any, dict[str, Any]]:
    """The model, the features of what is asked, the table, and what the model was fitted on."""
    from vpunn.hipan import HiPaNClassifier
    from vpunn.text import load_text_features

    if not (model / "inputs.json").exists():
        raise DataError(f"{str(model)!r} is not a model folder; `vpunn fit` writes one.")
    meta = json_format.loads((model / "inputs.json").read_text())
    if (table is None) == (ask is None):
        raise VpunnError("give either a table or --ask with a text.")
    fitted = HiPaNClassifier.load(model / "model.npz")
    if ask is not None:
        if "text" not in meta:
            raise VpunnError("this model was fitted on numeric columns, so it cannot be asked a text; give a table.")
        return fitted, load_text_features(model / "features.npz").transform([ask]), None, meta
    assert table is not None
    frame = _read(table)
    if "text" in meta:
        return fitted, load_text_features(model / "features.npz").transform(_texts(frame, meta["text"], table)), frame, meta
    return fitted, _numbers(frame, meta["columns"], table), frame, meta


def _risk_nodes(fitted: Any, X: Any) -> np.ndarray:
    from vpunn.hipan import conformal

    return conformal.cautious_nodes(fitted._posterior(X), conformal.conformal_threshold(fitted.miss_scores_, 0.1))


def _with_progress(work: Any) -> Any:
    """Run with a spinner on standard error."""
    from rich.console import Console

    with Console(stderr=True).status("fitting…"):
        return work()
