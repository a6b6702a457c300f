"""What each part of the classifier is for: the same rows with one part off, validation rows, several seeds.

python -m benchmarks.ablation                                # all of it; the table goes to docs/measured/ablation.md
python -m benchmarks.ablation --tasks isco --switches "as it is,no hidden units"

Tasks of words are those of `benchmarks.predict`; small tables are scikit-learn's, cut to 40-300 training rows.
"""

from __future__ import annotations

import json
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.common import RESULTS, write_results
from benchmarks.predict.cases import CASES
from benchmarks.small_tables import draw
from vpunn.hipan import HiPaNClassifier, engine, experts, folds
from vpunn.hipan.evidence import assemble, names
from vpunn.tree import Tree

TABLE = Path(__file__).parents[1] / "docs" / "measured" / "ablation.md"
#: A dozen small tables, read together as one task.
SMALL = {"breast_cancer": (40, 75, 150, 300), "wine": (40, 75, 120), "iris": (40, 75, 100), "digits": (75, 150, 300)}
WORDS, NUMBERS = ([kind.__name__ for kind in kinds] for kinds in (experts.WORDS, experts.NUMBERS))
WORDS.remove("Descriptions")  # those that no task here has


@contextmanager
def changed(module: Any, name: str, value: Any) -> Iterator[None]:
    """Something else under a name."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def blind(word: str) -> Any:
    """Without the columns of evidence whose name holds a word."""

    def some(values: Any, columns: Any, slots: Any) -> np.ndarray:
        out = assemble(values, columns, slots)
        out[:, [word in name for name in names(columns)]] = 0
        return out

    return changed(experts, "assemble", some)


def no_hidden_units() -> Any:
    """The convex fit and what it becomes by the same steps, without hidden units."""
    return changed(engine, "fit", partial(engine.fit, hidden=0))


#: What is switched: how the code is changed meanwhile, or which parameters are given.
SWITCHES: dict[str, tuple[Callable[[], Any] | None, dict[str, Any]]] = {
    "as it is": (None, {}),
    **{f"without {name}": (None, {"experts": [n for n in WORDS + NUMBERS if n != name]}) for name in WORDS + NUMBERS},
    "no columns of the parent": (partial(blind, "of the parent"), {}),
    "no best known slot told to elsewhere": (partial(blind, "of the best known"), {}),
    "no hidden units": (no_hidden_units, {}),
    "held-out rows keep their own words": (lambda: changed(engine, "as_asked", lambda held, kept: held), {}),
    "a third of the held-out rows": (lambda: changed(folds, "IN_ALL", folds.IN_ALL // 3), {}),
    "rows leave once": (lambda: changed(folds, "AGAIN", 1), {}),
    "novelty=True": (None, {"novelty": True}),
}
#: Switches that do nothing on tasks of a kind.
OF_WORDS = {
    *(f"without {name}" for name in WORDS),
    "held-out rows keep their own words",
    "a third of the held-out rows",
}
OF_NUMBERS = {*(f"without {name}" for name in NUMBERS), "rows leave once"}


def of_words(name: str, options: dict[str, Any], seed: int) -> tuple[float, float]:
    """Exact answers and nats of validation rows."""
    case = CASES[name](1)
    only = next(iter(case.X["train"]))
    described = case.X_nodes.get(only) or None
    model = HiPaNClassifier(case.tree, random_state=seed, **options)
    model.fit(case.X["train"][only], case.tree.labels[case.nodes["train"]], X_nodes=described)
    posterior, truth = model.posterior(case.X["validation"][only]), case.nodes["validation"]
    nats = -np.log(np.maximum(posterior.exact(truth), 1e-12)).mean()
    return float((posterior.best() == truth).mean()), float(nats)


def of_numbers(options: dict[str, Any], seed: int) -> tuple[float, float]:
    """Means over the small tables; draws from 100 on, which choose and do not report."""
    scores = []
    for table, sizes in SMALL.items():
        for size in sizes:
            X, asked, y, truth = draw(table, size, 100 + seed)
            tree = Tree.from_paths([(f"class {c}",) for c in np.unique(y)], root="all")
            model = HiPaNClassifier(tree, random_state=seed, **options).fit(X, [f"class {c}" for c in y])
            posterior, node = model.posterior(asked), tree.index([f"class {c}" for c in truth])
            nats = -np.log(np.maximum(posterior.exact(np.asarray(node)), 1e-12)).mean()
            scores.append((float((posterior.best() == node).mean()), float(nats)))
    exact, nats = np.mean(scores, 0)
    return float(exact), float(nats)


def measure(task: str, switch: str, seeds: int) -> dict[str, Any]:
    """One line: the means over seeds and how far seeds differ, relative to nothing."""
    change, options = SWITCHES[switch]
    found, start = [], time.process_time()
    for seed in range(seeds):
        with change() if change is not None else changed(folds, "AGAIN", folds.AGAIN):
            found.append(of_numbers(options, seed) if task == "small tables" else of_words(task, options, seed))
    mean, spread = np.mean(found, 0), np.std(found, 0) / max(seeds - 1, 1) ** 0.5
    cells = {"exact": mean[0], "± exact": spread[0], "nats": mean[1], "± nats": spread[1]}
    told = {name: round(float(value), 4) for name, value in cells.items()}
    return {"task": task, "switch": switch} | told | {"CPU s": round(time.process_time() - start, 1)}


def page(rows: list[dict[str, Any]], seeds: int) -> str:
    """The table of the docs: differences to `as it is`."""
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    found = {(row["task"], row["switch"]): row for row in rows}
    lines = [
        "# What each part of the classifier is for",
        "",
        f'`python -m benchmarks.ablation --tasks "{",".join(tasks)}" --seeds {seeds}`: validation rows, means over {seeds} seeds ± '
        "standard error. One part is off in each line; what follows is the difference to the classifier as it is, exact answers "
        "(above nought: better without the part) and nats (below nought: better without it). *Small tables* are the means of "
        f"{sum(map(len, SMALL.values()))} tables of 40 to 300 rows.",
        "",
        "| | " + " | ".join(tasks) + " |",
        "|---|" + "---|" * len(tasks),
    ]
    for switch in dict.fromkeys(row["switch"] for row in rows):
        cells = []
        for task in tasks:
            row, base = found.get((task, switch)), found.get((task, "as it is"))
            if row is None or base is None:
                cells.append("–")
            elif row is base:
                cells.append(f"{row['exact']:.3f} ± {row['± exact']:.3f}, {row['nats']:.3f} ± {row['± nats']:.3f}")
            else:
                cells.append(f"{row['exact'] - base['exact']:+.3f}, {row['nats'] - base['nats']:+.3f}")
        lines.append(f"| {switch} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main(
    tasks: Annotated[str, typer.Option(help="Cases of benchmarks.predict, and 'small tables'.")] = (
        "isco,headlines,small tables"
    ),
    switches: Annotated[str, typer.Option(help="Names with commas; all if empty.")] = "",
    seeds: Annotated[int, typer.Option(help="Seeds (of small tables: draws).")] = 2,
) -> None:
    """Measure, print and keep line by line; then write the page of all lines that are kept."""
    for task in tasks.split(","):
        for switch in switches.split(",") if switches else SWITCHES:
            if switch not in (OF_WORDS if task == "small tables" else OF_NUMBERS):
                row = measure(task, switch, seeds)
                print(row, flush=True)
                rows = [*(r for r in kept() if (r["task"], r["switch"]) != (task, switch)), row]
                write_results("ablation", sorted(rows, key=lambda r: list(SWITCHES).index(r["switch"])))
    TABLE.write_text(page(kept(), seeds), encoding="utf-8")
    print(TABLE)


def kept() -> list[dict[str, Any]]:
    """What earlier runs have measured: it may be done in pieces."""
    path = RESULTS / "ablation.json"
    return json.loads(path.read_text())["rows"] if path.exists() else []


if __name__ == "__main__":
    typer.run(main)
