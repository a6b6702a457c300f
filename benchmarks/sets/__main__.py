"""Label sets on graphs: vpunn beside the tools people would pick, one thread, the same features, sets and splits.

    python -m benchmarks.sets --tasks proteins --splits 1,2,3 --methods vpunn,10-NN,napkinxc-plt

All methods read word 1–2-gram TF-IDF of the texts, learn from train and validation rows and are scored on the test rows, on the
sets with all ancestors by any path. ``average`` is the mean of 10-NN and one-vs-rest SVM. Set
VPUNN_PEERS="pecos=/path/to/python,napkinxc=/path/to/python" for the peers.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from typing import Annotated, Any

import numpy as np
import typer
from scipy import sparse

from benchmarks.common import write_results
from benchmarks.sets.methods import run
from vpunn.datasets.set_tasks import SetTask, load_set_task
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


def paired(truth: Any, ours: Any, other: Any, draws: int = 200) -> tuple[float, float]:
    """95 % interval of the difference in Fmax over resampled test rows."""
    rng, n = np.random.default_rng(0), truth.shape[0]
    gaps = []
    for _ in range(draws):
        pick = rng.integers(0, n, n)
        coarse = scores.THRESHOLDS[9:80:3]
        gaps.append(
            scores.f_max(truth[pick], ours[pick], coarse).value - scores.f_max(truth[pick], other[pick], coarse).value
        )
    return float(np.quantile(gaps, 0.025)), float(np.quantile(gaps, 0.975))


def main(
    tasks: Annotated[str, typer.Option(help="Tasks, separated by commas.")] = "proteins",
    splits: Annotated[str, typer.Option(help="Seeds of the splits.")] = "1,2,3",
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = DEFAULT,
    draws: Annotated[int, typer.Option(help="Resamplings of the paired intervals; 0 leaves them out.")] = 200,
) -> None:
    """Score methods on tasks and write benchmarks/results/sets.json."""
    rows = []
    for name in tasks.split(","):
        for seed in map(int, splits.split(",")):
            task = whole(load_set_task(name, seed))
            features = text_features(characters=None, min_rows=1)
            X, X_test = (
                features.fit_transform(task.texts["train"]).tocsr(),
                features.transform(task.texts["test"]).tocsr(),
            )
            Y, truth = task.closed("train"), task.closed("test")
            bits = scores.information_content(task.tree, Y)
            kept: dict[str, Any] = {}
            for method in methods.split(","):
                if method == "average":
                    found, seconds = sparse.csr_matrix((kept["10-NN"] + kept["one-vs-rest SVM"]) * 0.5), np.nan
                else:
                    found, seconds = run(method, X, Y, X_test, task, seed)
                kept[method] = found
                row: dict[str, Any] = {"task": name, "split": seed, "method": method, "CPU s": seconds}
                row |= judged(truth, found, bits)
                if method != "vpunn" and "vpunn" in kept and draws:
                    row["vpunn better by, low"], row["vpunn better by, high"] = paired(
                        truth, kept["vpunn"], found, draws
                    )
                rows.append(row)
                typer.echo("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else str(v) for k, v in row.items()))
            write_results("sets", rows)


if __name__ == "__main__":
    typer.run(main)
