"""One matrix, method × case: every method in a process of its own, one thread, CPU seconds; answers are kept and scored here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.common import RESULTS
from benchmarks.predict import runner
from benchmarks.predict.cases import CASES, PARTS, Case
from benchmarks.predict.other_cases import OTHER
from vpunn import metrics
from vpunn.errors import DataError
from vpunn.tree import Tree

__all__ = ["RESULTS", "against_the_best", "beside", "right", "run", "score", "write_case"]

#: Module each method needs, to say "not installed" without a long wait.
NEEDS = {
    "pecos": "pecos",
    "napkinxc-plt": "napkinxc",
    "napkinxc-hsm": "napkinxc",
    "fasttext": "fasttext",
    "hiclass": "hiclass",
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
}
OURS = "vpunn"
#: The obvious choices every case is measured against.
METHODS = (OURS, "linear-svm", "logistic", "pecos", "napkinxc-plt", "napkinxc-hsm", "nearest", "centroid")
#: What is said of a method that had no time left.
OVER = "not run to its end: the time for all cases was over"
#: Training a model per class and setting: left out beyond this many (rows × classes), and said so.
TOO_MANY = {"linear-svm": 30_000_000, "logistic": 2_000_000, "hiclass": 3_000_000}


def write_case(case: Case, folder: Path) -> None:
    """The files that `runner.Data` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        np.save(folder / f"{part}-nodes.npy", case.nodes[part])
        for block, matrix in case.X[part].items():
            _write(folder / f"{block}-{part}", matrix)
        if case.texts:
            lines = "\n".join(" ".join(str(text).split()) for text in case.texts[part])
            (folder / f"{part}.txt").write_text(lines, encoding="utf-8")
    for block, tables in case.X_nodes.items():
        for k, matrix in enumerate(tables):
            _write(folder / f"{block}-nodes-{k}", matrix)
    if case.groups is not None:
        np.save(folder / "groups.npy", case.groups)
    np.save(folder / "tree.npy", case.tree.parent)
    about = {
        "name": case.name,
        "blocks": list(case.X["train"]),
        "described": {b: len(tables) for b, tables in case.X_nodes.items()},
        **case.options,
    }
    (folder / "about.json").write_text(json.dumps(about))


def _write(path: Path, matrix: Any) -> None:
    if sparse.issparse(matrix):
        sparse.save_npz(path.with_suffix(".npz"), matrix)
    else:
        np.save(path.with_suffix(".npy"), np.asarray(matrix, np.float32))


def interpreters() -> dict[str, str]:
    """Python interpreters of peers from ``VPUNN_PEERS`` (method or module name = path, separated by commas)."""
    pairs = [part.split("=", 1) for part in os.environ.get("VPUNN_PEERS", "").split(",") if "=" in part]
    return {name.strip(): path.strip() for name, path in pairs}


def run(
    cases: list[str],
    methods: list[str],
    *,
    seeds: list[int],
    kept: Path,
    part: str = "test",
    fresh: tuple[str, ...] = (OURS,),
    budget: float = 600.0,
    clock: float = np.inf,
    show: Callable[[str], None] = print,
) -> list[dict[str, Any]]:
    """One row per case, split and method. Answers are kept in the folder ``kept``; those of ``fresh`` methods are made anew.

    A method has ``budget`` seconds on a case, all of them together ``clock``; what is left out for that says so.
    """
    rows, end = [], time.monotonic() + clock
    for name in cases:
        for seed in seeds:
            folder = kept / f"{name}-{seed}"
            try:
                if not (folder / "about.json").exists():
                    write_case((CASES | OTHER)[name](seed), folder)
            except DataError as error:
                rows.append({"case": name, "seed": seed, "method": OURS, "note": str(error)})
                continue
            for method in methods:
                note = _answered(method, folder, budget, end - time.monotonic(), anew=method in fresh)
                row = {"case": name, "seed": seed, "method": method}
                rows.append(row | ({"note": note} if note else score(folder, method, part)))
                show(_line(rows[-1]))
    return rows


def _line(row: dict[str, Any]) -> str:
    cells = [f"{row['case']:<22} {row['method']:<14}"]
    cells += [
        f"{k} {v:.3f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items() if k not in ("case", "method")
    ]
    return "  ".join(cells)


def _answered(method: str, folder: Path, budget: float, left: float, *, anew: bool) -> str:
    """Run a method on a written case unless its answer is there; the reason if there is none.

    It has ``budget`` seconds of the ``left`` ones; that they were not enough is kept only if it had the whole budget.
    """
    answer, reason = folder / f"{method}.npz", folder / f"{method}.note"
    if not anew and (answer.exists() or reason.exists()):
        return "" if answer.exists() else reason.read_text()
    for old in (answer, reason):
        old.unlink(missing_ok=True)
    classes = len(np.unique(np.load(folder / "train-nodes.npy")))
    if classes * len(np.load(folder / "train-nodes.npy")) > TOO_MANY.get(method, np.inf):
        return f"left out: a model for each of {classes:,} classes takes too long"
    if left <= 0:
        return OVER
    table = interpreters()
    python = table.get(method) or table.get(NEEDS.get(method, "")) or sys.executable
    if method in NEEDS and subprocess.run([python, "-c", f"import {NEEDS[method]}"], capture_output=True).returncode:
        return "not installed"
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    try:
        done = subprocess.run(
            [python, runner.__file__, method, str(folder)],
            capture_output=True,
            text=True,
            timeout=min(budget, left),
            env=os.environ | threads,
        )
    except subprocess.TimeoutExpired:
        if left < budget:
            return OVER
        note = f"not finished within {budget:.0f} s"
        reason.write_text(note)
        return note
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return f"failed: {lines[-1][:300]}"
    return ""


def score(folder: Path, method: str, part: str) -> dict[str, Any]:
    """The measures of one kept answer on one part."""
    tree = Tree.from_parents(np.load(folder / "tree.npy"))
    truth = np.load(folder / f"{part}-nodes.npy")
    empty = ~np.isin(truth, np.load(folder / "train-nodes.npy"))
    with np.load(folder / f"{method}.npz") as found:
        nodes, scores = found[f"{part}_nodes"], found[f"{part}_scores"]
        best = found[f"{part}_answer"] if f"{part}_answer" in found else np.maximum(nodes[:, 0], 0)
        coverage = float(found[f"{part}_covered"]) if f"{part}_covered" in found else None
        fit, predict = float(found["fit_seconds"]), float(found["predict_seconds"])
        size, rss = float(found["bytes"]) / 1e6, float(found["rss"])
        before = (
            float(found["rss_before"]) if "rss_before" in found else float("nan")
        )  # not in answers kept from before
        asked = sum(len(found[f"{p}_nodes"]) for p in PARTS[1:])
    hit = nodes == truth[:, None]
    row = {
        "exact": float((best == truth).mean()),
        "top-5": float(hit.any(1).mean()),
        "depth-1": float(right(folder, method, part, "depth-1").mean()),
        "of the answer": float(metrics.root_accuracy(tree, truth, best)),
        "Wu–Palmer": float(metrics.wu_palmer(tree, truth, best).mean()),
    }
    if np.isfinite(scores[:, 0]).all():
        calibration = metrics.calibration_error_interval(np.clip(scores[:, 0], 0, 1), hit[:, 0])
        row |= {"ECE": float(calibration.value), "by chance": float(calibration.noise)}
    if empty.any():
        row["empty classes"] = float((best == truth)[empty].mean())
    if coverage is not None:
        row["coverage"] = coverage
    with np.load(folder / f"{method}.npz") as found:
        if f"{part}_of_truth" in found:
            row["nats"] = float(-np.log(np.maximum(found[f"{part}_of_truth"], 1e-12)).mean())
            row["F"] = taxonomic_f(tree, truth, found[f"{part}_deepest"])
            row["one row ms"] = 1000 * float(found["one_row"])
    return row | {
        "fit s": fit,
        "rows/s": asked / max(predict, 1e-9),
        "RSS MB": rss,
        "before the fit": before,
        "MB": size,
    }


def taxonomic_f(tree: Tree, truth: np.ndarray, answer: np.ndarray) -> float:
    """F of cautious answers as taxonomists count: one that is less deep than the truth is not found, but no error either."""
    right = answer == truth
    wrong = ~right & (tree.depth[answer] >= tree.depth[truth])
    precision, recall = right.sum() / max((right | wrong).sum(), 1), right.mean()
    return float(2 * precision * recall / max(precision + recall, 1e-9))


#: What must not be below the peers, each beside the peer that is best at it on validation rows.
MEASURES = ("exact", "depth-1", "top-5")


def right(folder: Path, method: str, part: str, measure: str = "exact") -> np.ndarray:
    """Which rows of a part a method answered exactly, with the right ball of depth 1, or among its five.

    Asked for depth 1 a method names its most probable ball there or, if it knows no balls, that of its answer.
    """
    truth = np.load(folder / f"{part}-nodes.npy")
    with np.load(folder / f"{method}.npz") as found:
        nodes = found[f"{part}_nodes"]
        best = found[f"{part}_answer"] if f"{part}_answer" in found else nodes[:, 0]
        ball = found.get(f"{part}_ball", best)
    if measure == "top-5":
        return np.asarray((nodes == truth[:, None]).any(1))
    if measure == "depth-1":
        tree = Tree.from_parents(np.load(folder / "tree.npy"))
        first = [tree.ancestor_at(a, np.minimum(tree.depth[a], 1)) for a in (truth, np.maximum(ball, 0))]
        return np.asarray(first[0] == first[1])
    return np.asarray(best == truth)


def beside(
    kept: Path, name: str, seeds: list[int], peers: list[str], part: str, measure: str
) -> tuple[str, np.ndarray]:
    """The peer that is best at ``measure`` on validation rows, and ours minus its, row by row."""
    folders = [kept / f"{name}-{seed}" for seed in seeds]
    chosen = max(peers, key=lambda m: np.mean([right(f, m, "validation", measure).mean() for f in folders]))
    gains = [right(f, OURS, part, measure).astype(float) - right(f, chosen, part, measure) for f in folders]
    return chosen, np.concatenate(gains)


def against_the_best(kept: Path, rows: list[dict[str, Any]], part: str = "test") -> list[dict[str, Any]]:
    """Per case: ours beside the peer that is best on validation rows; the difference with a paired 99 % interval over rows.

    Depth 1 and top-5 likewise, each beside the peer that is best at it.
    """
    table = []
    for name in dict.fromkeys(row["case"] for row in rows):
        mine = [row for row in rows if row["case"] == name and "exact" in row]
        of = {m: {row["seed"] for row in mine if row["method"] == m} for m in {row["method"] for row in mine}}
        seeds = sorted(of.get(OURS, set()))
        peers = sorted(m for m in of if m not in (OURS, "vpunn-shuffled") and of[m] >= of.get(OURS, set()))
        if not peers or not seeds:
            continue

        def mean(method: str, key: str, mine: list[dict[str, Any]] = mine) -> float | None:
            values = [row[key] for row in mine if row["method"] == method and row.get(key) is not None]
            return float(np.mean(values)) if values else None

        cells: dict[str, Any] = {"case": name, "ours": mean(OURS, "exact")}
        for measure in MEASURES:
            peer, gain = beside(kept, name, seeds, peers, part, measure)
            half = 2.576 * gain.std() / np.sqrt(len(gain))
            verdict = "above" if gain.mean() > half else "below" if gain.mean() < -half else "level"
            if measure == "exact":
                chosen = peer
                cells |= {"best peer": peer, "its exact": mean(peer, "exact")}
            cells[f"{measure} by"] = f"{gain.mean():+.3f} ± {half:.3f} {verdict}"
        for key in ("ECE", "by chance", "coverage", "fit s", "rows/s", "RSS MB"):
            cells[key] = mean(OURS, key)
            if key in ("fit s", "RSS MB"):
                cells[f"peer’s {key}"] = mean(chosen, key)
        table.append(cells)
    return table
