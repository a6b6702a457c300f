"""Small tables of numbers: accuracy and nats beside scikit-learn's models, and how far probabilities move when nothing has changed.

python -m benchmarks.small_tables accuracy                  # draws 0-9; --draws 100-109 to choose settings by
python -m benchmarks.small_tables stability                 # noise of 1e-6, permuted columns, rows in another order
python -m benchmarks.small_tables first                     # CPU seconds of a first fit and answer, compilation included
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.common import write_results
from vpunn.tree import Tree

#: Training rows of each of scikit-learn's tables.
SIZES = {"breast_cancer": (40, 75, 150), "wine": (40, 75), "iris": (40, 75), "digits": (75, 150)}
#: Tables by which stability is measured.
TABLES = 20


def ours(X: np.ndarray, y: np.ndarray, seed: int = 0) -> Callable[[np.ndarray], np.ndarray]:
    """Fit; what comes back says the probability of every class of the sorted ones."""
    from vpunn.hipan.engine import Task, fit
    from vpunn.hipan.experts import Rows

    classes, at = np.unique(y, return_inverse=True)
    tree = Tree.from_edges([("all", f"class {c}") for c in classes])
    order = np.asarray(tree.index([f"class {c}" for c in classes]))
    task = Task(tree, Rows((np.asarray(X, float),)), order[at], np.ones(len(y), np.float32), len(y))
    model = fit(task, "auto", np.random.default_rng(seed))[0]
    return lambda Q: model.posterior(Rows((np.asarray(Q, float),))).masses(slice(None))[:, order]


def peers() -> dict[str, Any]:
    """On standardised columns."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    models = {
        "logistic": LogisticRegression(max_iter=2000),
        "LDA": LinearDiscriminantAnalysis(),
        "5-NN": KNeighborsClassifier(5),
    }
    return {name: make_pipeline(StandardScaler(), model) for name, model in models.items()}


def draw(table: str, size: int, seed: int) -> list[np.ndarray]:
    """Training and test rows, training and test classes."""
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    X, y = getattr(datasets, f"load_{table}")(return_X_y=True)
    return list(train_test_split(X, y, train_size=size, stratify=y, random_state=seed))


def accuracy(draws: range) -> list[dict[str, Any]]:
    """Exact answers and nats of every table and size, means over the draws; all tables at the end."""
    rows = []
    for table, sizes in SIZES.items():
        for size in sizes:
            scores: dict[str, list[tuple[float, float]]] = {}
            for seed in draws:
                a, b, u, v = draw(table, size, seed)
                for name, peer in peers().items():
                    scores.setdefault(name, []).append(_scores(peer.fit(a, u).predict_proba(b), v))
                scores.setdefault("vpunn", []).append(_scores(ours(a, u)(b), v))
            means = {name: np.mean(found, 0) for name, found in scores.items()}
            rows.append({"table": f"{table} {size}"} | _cells(means))
            print(rows[-1], flush=True)
    names = list(means)
    mean = {n: [np.mean([row[f"{n} {k}"] for row in rows]) for k in ("exact", "nats")] for n in names}
    rows.append({"table": "mean"} | _cells(mean))
    return rows


def _cells(means: dict[str, Any]) -> dict[str, float]:
    return {f"{n} {k}": round(float(v), 4) for n, m in means.items() for k, v in zip(("exact", "nats"), m, strict=True)}


def _scores(p: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    right = p[np.arange(len(truth)), truth]
    return float((p.argmax(1) == truth).mean()), float(-np.log(np.maximum(right, 1e-15)).mean())


def stability(tables: int = TABLES) -> list[dict[str, Any]]:
    """The largest change of a probability by noise of 1e-6 of a column's spread, by permuted columns, by rows in another order."""
    rows = []
    kinds = [(table, size) for table, sizes in SIZES.items() for size in sizes]
    for t in range(tables):
        table, size = kinds[t % len(kinds)]
        X, Q, y, _ = draw(table, size, 200 + t)
        rng = np.random.default_rng(t)
        before, order, columns = ours(X, y)(Q), rng.permutation(len(X)), rng.permutation(X.shape[1])
        noisy = X + 1e-6 * X.std(0) * rng.normal(size=X.shape)
        changed = {
            "noise": ours(noisy, y)(Q),
            "columns": ours(X[:, columns], y)(Q[:, columns]),
            "rows": ours(X[order], y[order])(Q),
            "seed": ours(X, y, 1)(Q),
        }
        rows.append(
            {"table": f"{table} {size}"} | {k: round(float(abs(p - before).max()), 4) for k, p in changed.items()}
        )
        print(rows[-1], flush=True)
    rows.append({"table": "mean"} | {k: round(float(np.mean([row[k] for row in rows])), 4) for k in changed})
    return rows


def first() -> list[dict[str, Any]]:
    """CPU seconds of a process that fits and answers words and numbers, with and without compiled loops on disk."""
    program = (
        "import time, numpy as np, scipy.sparse as sp\n"
        "from vpunn.hipan.engine import Task, fit\n"
        "from vpunn.hipan.experts import Rows\n"
        "from vpunn.tree import Tree\n"
        "rng = np.random.default_rng(0)\n"
        "y = rng.integers(1, 5, 80)\n"
        "tree = Tree.from_edges([('all', str(c)) for c in range(4)])\n"
        "blocks = sp.random_array((80, 30), density=0.3, rng=rng, format='csr', dtype=np.float32), rng.normal(size=(80, 3))\n"
        "blocks = (sp.csr_matrix(blocks[0]), blocks[1])\n"
        "model = fit(Task(tree, Rows(blocks), y, np.ones(80, np.float32), 80), 'auto', rng)[0]\n"
        "posterior = model.posterior(Rows(blocks))\n"
        "posterior.top_k(2), posterior.deepest(0.7), posterior.masses(slice(2))\n"
        "print(time.process_time())\n"
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("compiled at once", "compiled before"):
            done = subprocess.run(
                [sys.executable, "-c", program],
                capture_output=True,
                text=True,
                check=True,
                env=os.environ | {"NUMBA_CACHE_DIR": folder},
            )
            rows.append({"process": name, "CPU s": round(float(done.stdout), 2)})
    return rows


def main(
    what: Annotated[str, typer.Argument(help="accuracy, stability or first.")] = "accuracy",
    draws: Annotated[str, typer.Option(help="First and last draw of accuracy.")] = "0-9",
) -> None:
    """Measure, print, write."""
    low, high = map(int, draws.split("-"))
    start = time.process_time()
    made = {"accuracy": lambda: accuracy(range(low, high + 1)), "stability": stability, "first": first}
    rows = made[what]()
    print(*rows, sep="\n")
    print(write_results(f"small-tables-{what}", rows), f"{time.process_time() - start:.0f} CPU s")


if __name__ == "__main__":
    typer.run(main)
