"""Label sets on graphs: vpunn beside the tools people would pick, one thread, the same features, sets and splits.

    python -m benchmarks.sets --tasks proteins --splits 1,2,3 --methods vpunn,10-NN,napkinxc-plt

All methods read word 1–2-gram TF-IDF of the texts (``--mixed cut``: words that mix letters and digits are cut where the two
meet, ``--mixed starts``: they are whole and have beginnings,
``--characters``: character 3–5-grams within words; ``--names``: names of the terms too, as ``X_nodes`` of vpunn and as
further training rows of the others), learn from train
and validation rows and are scored on the test rows, on the sets with all ancestors by any path. ``average`` is the mean of 10-NN
and one-vs-rest SVM. Each method runs in a process of its own; one that needs longer than ``--limit`` seconds is said not to have
finished. With ``--keep FOLDER`` scores are kept there, and read again by a later run with other methods.
VPUNN_PEERS="pecos=/path/to/python,napkinxc=/path/to/python" names the peers' environments.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from scipy import sparse

from benchmarks.common import write_results
from benchmarks.sets.methods import FREE, run
from benchmarks.sets.tasks import SetTask, load_set_task
from vpunn.metrics import sets as scores
from vpunn.text import text_features

DEFAULT = "vpunn,10-NN,one-vs-rest SVM,average,napkinxc-plt,pecos"


def whole(task: SetTask) -> SetTask:
    """Settings are chosen on validation rows beforehand; what is quoted learns from them too."""
    texts = {"train": np.concatenate([task.texts["train"], task.texts["validation"]]), "test": task.texts["test"]}
    nodes = {"train": task.nodes["train"] + task.nodes["validation"], "test": task.nodes["test"]}
    return SetTask(task.name, task.tree, texts, nodes)


def judged(truth: Any, found: Any, bits: np.ndarray) -> dict[str, float]:
    """All scores of one method."""
    best = scores.f_max(truth, found)
    said = sparse.csr_matrix(found >= best.threshold, dtype=float)
    clipped = found.copy()
    clipped.data = np.clip(clipped.data, 0.0, 1.0)
    honest = scores.ball_calibration(truth, clipped)
    return {
        "Fmax": best.value,
        "Smin": scores.s_min(truth, found, bits).value,
        "P@1": scores.precision_at(truth, found, 1),
        "P@5": scores.precision_at(truth, found, 5),
        "micro F1": scores.micro_f1(truth, said),
        "macro F1": scores.macro_f1(truth, said),
        "ECE": honest.value,
        "ECE by chance": honest.noise,
    }


def risk_kept(truth: Any, found: Any, alpha: float, draws: int = 100) -> dict[str, float]:
    """Share of missed answers when ``stop="risk"`` promises ``alpha``: mean and spread over random calibration halves of the rows.

    Also the mean number of balls that are answered. Scores below 0.005 were not kept and count as 0.
    """
    from vpunn.hipan.set_calibration import risk_threshold

    n, counts = truth.shape[0], np.diff(truth.indptr)
    row = np.repeat(np.arange(n), counts)
    p, weight = np.asarray(found[row, truth.indices]).ravel(), 1.0 / counts[row]
    said = np.repeat(np.arange(n), np.diff(found.indptr))
    rng, missed, size = np.random.default_rng(0), [], []
    for _ in range(draws):
        calibrates = np.zeros(n, bool)
        calibrates[rng.permutation(n)[: n // 2]] = True
        here = calibrates[row]
        t = risk_threshold(p[here], weight[here], n // 2, alpha)
        missed.append(float((weight * (p < t))[~here].sum()) / (n - n // 2))
        size.append(float(((found.data >= t) & ~calibrates[said]).sum()) / (n - n // 2))
    mean = {"missed": float(np.mean(missed)), "missed, spread": float(np.std(missed)), "balls": float(np.mean(size))}
    return {f"{name} at {alpha:g}": value for name, value in mean.items()}


class Case:
    """One task and split, and what methods say about its test rows."""

    def __init__(
        self, name: str, seed: int, keep: Path | None, limit: float, characters: bool, mixed: str, names: bool
    ) -> None:
        self.name = name + "-characters" * characters + f"-{mixed}" * (mixed != "whole") + "-names" * names
        self.seed, self.keep, self.limit = seed, keep, limit
        self.task = whole(load_set_task(name, seed))
        features = text_features(
            characters=(3, 5) if characters else None, min_rows=2 if characters else 1, mixed=mixed
        )
        self.described = self.task.tree.columns["name"].astype(object) if names else np.zeros(0, object)
        features.fit(np.concatenate([self.task.texts["train"], self.described]))
        self.X = features.transform(self.task.texts["train"]).tocsr()
        self.nodes = features.transform(self.described).tocsr() if names else self.X[:0]
        self.test = features.transform(self.task.texts["test"]).tocsr()
        self.Y, self.truth = self.task.closed("train"), self.task.closed("test")
        self.bits = scores.information_content(self.task.tree, self.Y)

    def scored(self, method: str) -> tuple[Any, dict[str, float]]:
        """Scores of a method and its cost, kept or new."""
        if method == "average":
            pair = self.scored("10-NN")[0], self.scored("one-vs-rest SVM")[0]
            return sparse.csr_matrix((pair[0] + pair[1]) * 0.5), FREE
        stem = None if self.keep is None else self.keep / f"{self.name}-{self.seed}-{method.replace(' ', '-')}"
        if stem is not None and stem.with_suffix(".json").exists():
            return sparse.load_npz(stem.with_suffix(".npz")), json.loads(stem.with_suffix(".json").read_text())
        X, Y = (self.X, self.Y) if method == "vpunn" else self._with_names()
        found, cost = run(method, X, Y, self.test, self.nodes, self.task, self.seed, self.limit)
        if stem is not None:
            stem.parent.mkdir(parents=True, exist_ok=True)
            sparse.save_npz(stem.with_suffix(".npz"), found)
            stem.with_suffix(".json").write_text(json.dumps(cost))
        return found, cost

    def _with_names(self) -> tuple[Any, Any]:
        """Training rows, and the name of every ball that some row has as a row of it and its ancestors."""
        met = np.flatnonzero(np.asarray(self.Y.sum(0)).ravel() > 0) if len(self.described) else np.zeros(0, int)
        if not len(met):
            return self.X, self.Y
        own = scores.with_ancestors(self.task.tree, scores.table_of(self.task.tree, met[:, None].tolist()))
        return sparse.vstack([self.X, self.nodes[met]]).tocsr(), sparse.vstack([self.Y, own]).tocsr()


def main(
    tasks: Annotated[str, typer.Option(help="Tasks, separated by commas.")] = "proteins",
    splits: Annotated[str, typer.Option(help="Seeds of the splits.")] = "1,2,3",
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = DEFAULT,
    draws: Annotated[int, typer.Option(help="Resamplings of the paired intervals.")] = 1000,
    limit: Annotated[float, typer.Option(help="Seconds by the clock that a method may take.")] = 3600.0,
    keep: Annotated[Path | None, typer.Option(help="Folder to keep scores in.")] = None,
    characters: Annotated[bool, typer.Option(help="Character 3–5-grams besides words, for all methods.")] = False,
    mixed: Annotated[
        str, typer.Option(help="Words that mix letters and digits, for all: whole, cut or starts.")
    ] = "whole",
    names: Annotated[bool, typer.Option(help="Names of the terms, for all: X_nodes, or further rows.")] = False,
) -> None:
    """Score methods on tasks and write benchmarks/results/sets.json."""
    rows: list[dict[str, Any]] = []
    for name in tasks.split(","):
        for seed in map(int, splits.split(",")):
            case, ours = Case(name, seed, keep, limit, characters, mixed, names), None
            for method in methods.split(","):
                try:
                    found, cost = case.scored(method)
                except (TimeoutError, KeyError) as reason:
                    typer.echo(f"{name} {seed} {method}: left out, {reason!r}")
                    continue
                ours = found if method == "vpunn" else ours
                row = {"task": case.name, "split": seed, "method": method} | cost | judged(case.truth, found, case.bits)
                if method == "vpunn":
                    for alpha in (0.1, 0.2, 0.3):
                        row |= risk_kept(case.truth, found, alpha)
                elif ours is not None:
                    row["vpunn better by, low"], row["vpunn better by, high"] = scores.f_max_gain(
                        case.truth, ours, found, draws=draws
                    )
                rows.append(row)
                typer.echo("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else str(v) for k, v in row.items()))
            write_results("sets", rows)
    _means(rows)


def _means(rows: list[dict[str, Any]]) -> None:
    """Means over the splits, by task and method."""
    for key in dict.fromkeys((row["task"], row["method"]) for row in rows):
        mine = [row for row in rows if (row["task"], row["method"]) == key]
        names = [k for k, v in mine[0].items() if isinstance(v, float)]
        mean = {k: float(np.mean([row[k] for row in mine if k in row])) for k in names}
        typer.echo(f"mean of {len(mine)}: {' '.join(key)}  " + "  ".join(f"{k} {v:.4g}" for k, v in mean.items()))


if __name__ == "__main__":
    typer.run(main)
