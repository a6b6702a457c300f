"""Target ``baselines``: the paper's T14 as it was run, and made honest: held-out placement, same features, split and budget.

The paper fed its baselines the answer (audit E-62) and gave no leaf accuracy for any of them. Here every method gets the TF-IDF
word 1–2-grams of a text and must find the node. The harness is ``benchmarks/predict`` of a checkout and is not installed with the
library. Tools that live in other interpreters are named in the environment variable ``VPUNN_PEERS`` as ``method=path`` pairs
separated by commas; those not installed are reported as such.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from vpunn._progress import progress_bar
from vpunn.errors import DataError
from vpunn.paper.captions import captions
from vpunn.paper.reports._shelf import Section, Shelf, assemble, choose, command_line
from vpunn.report import Report

#: Tasks of the paper's kind, and the methods that get each.
CASES = ("wordnet", "wordnet-texts", "go", "go-process", "go-component", "naics", "isco", "headlines")
METHODS = (
    "vpunn",
    "pecos",
    "napkinxc-plt",
    "napkinxc-hsm",
    "linear-svm",
    "nearest",
    "centroid",
    "hierarchical-nb",
    "fasttext",
)
#: The paper's slow baselines and hiclass train a model per class or node, hours on WordNet.
SLOW = ("hiclass", "sgd-logistic", "mlp-256", "xgboost", "lightgbm")
SLOW_CASE = "isco"
#: The control, on one split of every task.
CONTROL = "vpunn-shuffled"
#: Splits are numbered from here: split 0 was for choosing settings.
FIRST_SPLIT = 1
#: Seconds a method may take on one split of one task.
BUDGET = 300.0
#: Seconds that all methods may take together on a task; a further split is begun only if the first one would fit into what is left.
TASK = 720.0
#: CPU seconds of each of the paper's baselines. The paper grants them an hour; the growth of the last sizes says what that does.
#: Six methods of these and eight tasks of those come to less than two hours.
GROWTH = 120.0


def harness() -> Any:
    """The module ``benchmarks.predict.matrix`` of the checkout this library runs from."""
    root = Path(__file__).resolve().parents[4]
    if not (root / "benchmarks" / "predict" / "matrix.py").is_file():
        raise DataError(
            "the target 'baselines' runs benchmarks/predict, which is part of a checkout and not of the installed library; "
            "clone the repository and run `make reproduce` or `vpunn reproduce baselines` there."
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return import_module("benchmarks.predict.matrix")


@dataclass
class Budgeted(Shelf):
    """A shelf with the CPU seconds of each of the paper's baselines."""

    growth: float = GROWTH


def run(
    seeds: int = 10,
    *,
    out: str | Path | None = None,
    source: str | Path | None = None,
    only: Collection[str] = (),
    resume: bool = False,
    growth: float = GROWTH,
) -> Report:
    """The report: at most three splits per task, ``seeds`` shuffles for the traits, ``growth`` CPU seconds per method of T14."""
    wanted = choose(SECTIONS, "baselines", only)
    shelf = Budgeted("baselines", seeds, out, source, resume, growth=growth)
    report = Report(
        "Held-out placement and traits, every method on the same split", command_line("baselines", shelf.seeds, only)
    )
    return assemble(shelf, report, wanted)


def _given_digits(shelf: Budgeted, report: Report) -> None:
    """T14 as the paper ran it."""
    from vpunn.paper.reports import given_digits
    from vpunn.paper.reports._bench import load_hierarchy

    tree = load_hierarchy("wordnet").tree
    limits = {"budget": shelf.growth, "memory": given_digits.MEMORY}
    found = shelf.fact("T14", lambda: {**limits, "rows": given_digits.compared(tree, shelf.growth)})
    rows = given_digits.table(tree, found["rows"], found["budget"])
    report.heading("The paper's six baselines, given the digits of the answer")
    report.table(f"{captions('T14')}: the paper's protocol, training items = test items", rows, name="T14")
    sizes = [{"method": name, **row} for name, grown in found["rows"].items() for row in grown]
    report.table("T14: leaf and digit accuracy and CPU seconds by number of leaves", sizes, name="T14-sizes")
    report.text(
        f"WordNet, {tree.n_leaves:,} leaves, one class and one example each; the input is the code of the answer (E-62), so a "
        "table that sorts codes has 100 %, and none of these numbers says how a new word would be placed: on held-out leaves "
        "every one of them scores 0, because their class has no example. Methods ran on random leaves, twice as many each time, "
        f"with {found['budget']:g} CPU seconds and {found.get('memory', np.inf) / 1024:g} GB each; what all leaves would take "
        "follows from the growth of the last two sizes. "
        "One-against-all logistic regression and the network grow with the square of the leaves; the paper gives them an hour "
        "and prints 741.7 and 7,353.4 s without an accuracy (E-63). “Hierarchical” naive Bayes is the flat Gaussian one, by its "
        "count of parameters; the Huffman soft-max has a logistic regression at every inner node of the Huffman tree of equal "
        "counts, so its code says nothing about the hierarchy. Ensembles predict digit by digit, the digit itself among their "
        "inputs."
    )


def _placement(shelf: Shelf, report: Report) -> None:
    """Every method with the same features, split and budget on held-out rows."""
    report.heading("Held-out placement")
    report.text(
        "Exact node, top-5, first digit (depth 1), Wu–Palmer similarity and calibration error (ECE, 15 bins) on test rows that no "
        "method has seen. Settings were chosen on validation rows. "
        f"{CONTROL} gets one split; {', '.join(SLOW)} get one split of {SLOW_CASE}; every tool has {BUDGET / 60:g} minutes of one "
        f"core for a split of a task, and all together {TASK / 60:g} minutes for a task; splits that would not fit are left out "
        "for all. "
        "'By chance' is the ECE that perfect probabilities would show on so many rows."
    )
    splits = list(range(FIRST_SPLIT, FIRST_SPLIT + min(shelf.seeds, 3)))
    for name in CASES:
        found = shelf.fact(f"placement on {name}", partial(_place, name, splits))
        report.table(f"{name}: mean over {found['splits']} split(s)", found["rows"])


def _place(name: str, splits: list[int]) -> dict[str, Any]:
    """One row per method over the same splits for all: as many as fit into the task's time, at least the first."""
    matrix = harness()
    options: dict[str, Any] = {
        "kept": matrix.RESULTS / "predict",
        "budget": BUDGET,
        "fresh": ("vpunn", CONTROL),
    }
    more = [CONTROL, *(SLOW if name == SLOW_CASE else ())]
    start, longest, rows, done = time.monotonic(), 0.0, list[dict[str, Any]](), 0
    with progress_bar(f"Placement on {name}", len(splits) * len(METHODS) + len(more), TASK) as bar:
        for split in splits:
            begun = time.monotonic() - start
            if begun + longest > TASK:
                break
            for method in (*METHODS, *(more if split == splits[0] else ())):
                left = start + TASK - time.monotonic()
                bar.enter(f"{method}, split {split}")
                rows += matrix.run([name], [method], seeds=[split], clock=left, show=lambda line: None, **options)
                bar()
            longest, done = max(longest, time.monotonic() - start - begun), done + 1
    if done > 1 and any(row["seed"] == splits[done - 1] and row.get("note") == matrix.OVER for row in rows):
        done -= 1  # the last took longer than those before and not all methods had their turn
    return {"splits": done, "rows": averaged([row for row in rows if row["seed"] in splits[:done]])}


def _traits(shelf: Shelf, report: Report) -> None:
    from vpunn.paper.reports.traits import trait_rows

    report.heading("Traits of mammals")
    rows = shelf.fact("traits", lambda: trait_rows(shelf.seeds))
    report.table(f"PanTHERIA, RMSE of log10 traits: 5-fold, mean over {shelf.seeds} shuffle(s)", rows)


SECTIONS = [Section(("T14",), _given_digits), Section(("placement",), _placement), Section(("traits",), _traits)]


def averaged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean of every measure over the splits and the spread of the first, one row per method; a note stands if any split had one."""
    table = []
    keys = list(dict.fromkeys(key for row in rows for key in row if key not in ("method", "note", "case", "seed")))
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == method]
        cells: dict[str, Any] = {"method": method}
        for key in keys:
            values = [row[key] for row in mine if row.get(key) is not None]
            cells[key] = float(np.mean(values)) if values else None
            if key == "exact" and len(values) > 1:
                cells["± exact"] = float(np.std(values, ddof=1))
        cells["note"] = next((row["note"] for row in mine if "note" in row), "")
        table.append(cells)
    return table
