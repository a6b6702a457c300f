"""T15, F10 and F19: HiPaN's own probabilities, and those of a classifier that sees features, on rows that they have not seen.

A label's probability is its share of a whole distribution over the labels. The multi-class Brier score is the mean of
1 − 2 p(true) + Σ p²; ECE has 15 bins of equal width; NLL is the mean over rows whose truth has a probability at all, and the share
of the others, whose logarithm is infinite, stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._progress import progress_bar
from vpunn.datasets.tasks import PlacementTask, load_task
from vpunn.errors import DataError
from vpunn.metrics import (
    Reliability,
    calibration_error,
    calibration_error_interval,
    reliability_by_depth,
)
from vpunn.paper import printed
from vpunn.paper.contents import captions
from vpunn.paper.hipan import HiPaN
from vpunn.paper.hybrid import Rule, paper_digits
from vpunn.paper.reports._run import Bench, spread
from vpunn.paper.reports.hipan_tables import split
from vpunn.report import Report
from vpunn.tree import Tree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The task with features beside each hierarchy. Mammals have none but names, and a species' name contains its genus, the answer;
#: a taxonomy with features is that of the fungi.
TASK = {"wordnet": "wordnet", "go": "go", "ncbi": "fungi"}
#: Split 0 was for choosing settings.
SPLITS = (1, 2, 3)
#: The digits the paper draws (F19), as depths of the balls they name.
DRAWN = (4, 9, 14, 17)
#: Leaves that HiPaN's distributions are judged on, at most, and as many that its temperatures are fitted on.
JUDGED = 1000
#: The columns of T15: a score, how it is written, and its factor.
SCORES = {
    "ECE %": ("ece", 100, ".2f"),
    "ECE by chance %": ("ece by chance", 100, ".2f"),
    "Brier": ("brier", 1, ".4f"),
    "Brier at least": ("brier bound", 1, ".4f"),
    "NLL": ("nll", 1, ".3f"),
    "truth at 0 %": ("zero", 100, ".2f"),
    "accuracy %": ("accuracy", 100, ".2f"),
}


# ---- distributions and how they are judged ---------------------------------------------------------------------------


@dataclass
class Answers:
    """What is kept of distributions over labels: the likeliest, its probability, the logarithm of the truth's, Σ p², and the
    likeliest's path with the probability of every ball on it (NaN past its end)."""

    best: list[np.ndarray]
    confidence: list[np.ndarray]
    log_true: list[np.ndarray]
    square: list[np.ndarray]
    path: list[np.ndarray]

    @classmethod
    def of(cls, parts: Iterable[tuple[np.ndarray, ...]]) -> Answers:
        """From parts of the rows, each these five arrays."""
        return cls(*(list(column) for column in zip(*parts, strict=True)))

    def judged(self, tree: Tree, true: np.ndarray) -> dict[str, Any]:
        """All numbers of T15, and the diagrams of F10 and F19 by depth."""
        best, confidence, log_true, square, path = (
            np.concatenate(part) for part in (self.best, self.confidence, self.log_true, self.square, self.path)
        )
        right, named = best == true, np.isfinite(log_true)
        error = calibration_error_interval(confidence, right)
        curves = reliability_by_depth(tree, true, best, path, bins=10, strategy="quantile")
        return {
            "rows": len(true),
            "accuracy": float(right.mean()),
            "ece": float(error.value),
            "ece by chance": float(error.noise),
            "ece mass": float(calibration_error(confidence, right, strategy="quantile")),
            "brier": float((1 - 2 * np.exp(log_true) + square).mean()),
            "brier bound": float((~right).mean() / 2),
            "nll": float(-log_true[named].mean()) if named.any() else np.nan,
            "zero": float(1 - named.mean()),
            "curves": {str(k): [np.asarray(v).tolist() for v in curve] for k, curve in curves.items()},
        }


def curves_of(found: dict[str, Any]) -> dict[int, Reliability]:
    """The kept diagrams by depth, those with at least 30 rows."""
    made = {int(k): Reliability(*(np.asarray(v) for v in curve)) for k, curve in found["curves"].items()}
    return {k: curve for k, curve in made.items() if curve.n_items.sum() >= 30}


def _row(model: str, protocol: str, found: list[dict[str, Any]], note: str = "") -> dict[str, Any]:
    shares = {name: spread([one[key] * by for one in found], how) for name, (key, by, how) in SCORES.items()}
    return {"model": model, "protocol": protocol, "rows": found[0]["rows"], **shares, "note": note}


def _printed(name: str) -> list[dict[str, Any]]:
    """The paper's row, with the least Brier score that its own errors allow."""
    if name not in TASK:
        return []
    wrong, (ece, brier) = printed.least_error(name), printed.CALIBRATION[name]
    note = f"{wrong:.2f} % of its own labels are wrong at least, which bounds Brier (E-68)"
    least = f"{wrong / 200:.4f}"
    said = {"model": "as printed", "ECE %": ece, "Brier": brier, "Brier at least": least, "note": note}
    return [dict.fromkeys(("model", "protocol", "rows", *SCORES, "note")) | said]


# ---- HiPaN itself ----------------------------------------------------------------------------------------------------


def answers_of(model: HiPaN, nodes: np.ndarray, rule: Rule) -> Answers:
    """HiPaN's distributions of leaves."""
    law, tree = model.likelihood(rule), model.tree
    digits, leaves = paper_digits(tree, nodes), tree.leaves
    one = law.common()[:, None] if rule == "predicted" else None

    def part(rows: slice) -> tuple[np.ndarray, ...]:
        log = law.shown(digits[rows]) if one is None else one
        p = np.exp(log)
        best = np.broadcast_to(leaves[p[leaves].argmax(axis=0)], len(digits[rows]))
        at = np.arange(len(best)) if one is None else np.zeros(len(best), np.int64)
        depths = np.arange(1, tree.max_depth + 1)
        chain = tree.ancestor_at(best[:, None], np.minimum(depths, tree.depth[best][:, None]))
        path = np.where(depths <= tree.depth[best][:, None], p[chain, at[:, None]], np.nan)
        square = np.square(p[leaves]).sum(axis=0)[at]
        return best, p[best, at], log[nodes[rows], at], square, path

    return Answers.of(part(rows) for rows in law.parts(len(nodes)))


def measure_hipan(bench: Bench) -> dict[str, list[dict[str, Any]]]:
    """Both models by both rules, on leaves they were trained on and on hidden ones, there also with temperatures of others."""
    found: dict[str, list[dict[str, Any]]] = {}
    with progress_bar("judging probabilities", 2 * bench.seeds) as advance:
        for key, optimizer in (("hipan-ds", "gist"), ("hipan", "adam")):
            for seed in range(bench.seeds):
                ending = f".seed{seed}" if seed else ""
                hidden, seen = split(bench.tree, seed)
                order = np.random.default_rng([seed, 8]).permutation(hidden)
                fit, test = order[: len(order) // 2][:JUDGED], order[len(order) // 2 :][:JUDGED]
                known = np.random.default_rng([seed, 9]).permutation(bench.tree.leaves)[:JUDGED]
                whole, _ = bench.hipan(f"{key}{ending}", optimizer=optimizer, seed=seed)
                part, _ = bench.hipan(f"{key}-heldout{ending}", items=seen, optimizer=optimizer, seed=seed)
                for rule in rules_said:
                    plans = [("trained", whole, known), ("hidden", part, test)]
                    if len(fit):
                        twin = part.with_result(part.result_, seen).calibrate(fit, rule)  # type: ignore[arg-type]
                        plans.append(("calibrated", twin, test))
                    for name, model, nodes in plans:
                        if len(nodes):
                            judged = answers_of(model, nodes, rule).judged(bench.tree, nodes)
                            if seed:
                                del judged["curves"]
                            found.setdefault(f"{key} {rule} {name}", []).append(judged)
                advance()
    return found


rules_said: dict[Rule, str] = {"given": "shown the digit", "predicted": "nothing shown"}
PARTS_SAID = {
    "trained": "leaves of the training",
    "hidden": "held-out leaves",
    "calibrated": "held-out leaves, calibrated",
}
NOTES = {
    "given trained": "checks given digits; the root's digit is not shown",
    "given hidden": "hidden leaves are shown their digits too, so little changes",
    "given calibrated": "one temperature a depth, from other hidden leaves",
    "predicted trained": "no input: one distribution for every leaf (E-45)",
    "predicted hidden": "hidden leaves have values near the start",
    "predicted calibrated": "flat in every ball: as likely as it gets without input",
}


def of_hipan(bench: Bench, report: Report) -> None:
    """T15, F10 and F19 of the paper's own model."""
    found = bench.fact("T15-HiPaN", lambda: measure_hipan(bench))
    rows = _printed(bench.kind)
    for key, judged in found.items():
        model, rule, part = key.split()
        protocol = f"{rules_said[rule]}, {PARTS_SAID[part]}"
        rows.append(_row("HiPaN-DS" if model == "hipan-ds" else "HiPaN", protocol, judged, NOTES[f"{rule} {part}"]))
    report.table(f"{captions('T15')}: likelihoods of whole labels by HiPaN itself", rows, name="T15-HiPaN")
    report.text(
        "A leaf's probability is the product of the heads' soft-maxes along its path, over the children that exist (§6.7); a head "
        "trained by squared error stands for a Gaussian around its value. Shown the digit, a ball gives the true child what its "
        f"two logits say and shares the rest evenly. At most {JUDGED:,} leaves each, mean ± s.d. over {bench.seeds} split(s)."
    )
    curves = {
        f"HiPaN, {rules_said[rule]}": curves_of(found[f"hipan {rule} hidden"][0])
        for rule in rules_said
        if f"hipan {rule} hidden" in found
    }
    _pictures(report, {name: curve for name, curve in curves.items() if curve}, "held-out leaves")


# ---- classifiers that see features -----------------------------------------------------------------------------------


def measure(task: PlacementTask, seed: int) -> dict[str, Any]:
    """Fit `HiPaNClassifier` on the training rows of a task, judge the label distributions of its test rows."""
    from vpunn.hipan.classifier import HiPaNClassifier

    train, test, described = features(task)
    novelty: Any = task.sequences or "auto"  # two of three fungi asked for are of a species that the reference has not
    model = HiPaNClassifier(task.tree, novelty=novelty, random_state=seed).fit(
        train, task.labels("train"), X_nodes=described
    )
    posterior, true = model.posterior(test), task.nodes["test"]
    chosen, confidence = posterior.top_k(1)
    _, along = posterior.chain(chosen[:, 0])
    path = np.where(along[:, 1:] > 0, along[:, 1:], np.nan)

    def part(rows: Any) -> tuple[np.ndarray, ...]:
        p = posterior.masses(rows)
        with np.errstate(divide="ignore"):  # a place that nothing speaks for has no probability at all
            log = np.log(p[np.arange(len(p)), true[rows]])
        return chosen[rows, 0], confidence[rows, 0], log, np.square(p).sum(axis=1), path[rows]

    judged = Answers.of(part(rows) for rows in posterior.parts()).judged(posterior.tree, true)
    return {"task": task.name, **judged}


def features(task: PlacementTask) -> tuple[Any, Any, Any]:
    """Training rows, test rows and descriptions of nodes as TF-IDF: words, or runs of seven letters of a sequence."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    from vpunn.tables.models import new_text_features

    given, n = task.texts["train"], task.tree.n_nodes
    if task.sequences:
        vectors: Any = TfidfVectorizer(analyzer="char", ngram_range=(7, 7), sublinear_tf=True, dtype=np.float32)
    else:
        vectors = new_text_features(False, len(given))
    everything = vectors.fit_transform(np.concatenate([given, *task.descriptions])).tocsr()
    described = [everything[len(given) + k * n :][:n] for k in range(len(task.descriptions))] or None
    return everything[: len(given)], vectors.transform(task.texts["test"]), described


def with_features(bench: Bench, report: Report) -> None:
    """T15 at label level by a classifier, with F10 and F19."""
    name = TASK[bench.name]
    load = bench.work.get("task", lambda seed: load_task(name, seed))

    def all_splits() -> list[dict[str, Any]]:  # each is kept by itself: a split of WordNet takes minutes
        return [bench.fact(f"T15, split {seed}", lambda: measure(load(seed), seed)) for seed in SPLITS[: bench.seeds]]  # noqa: B023

    try:
        found = bench.fact("T15", all_splits)
    except DataError:
        if name != "fungi":
            raise
        report.text(
            "T15 by a classifier that sees features is left out: mammals have names only, which contain the answer, and the fungi "
            "that stand in for them were not there; they are read from public/its in the folder that VPUNN_DATA_DIR names."
        )
        return
    rows = [*_printed(bench.kind), _row("HiPaNClassifier", "held-out rows", found, "one answer per row, nothing shown")]
    report.table(f"{captions('T15')} by a classifier that sees features", rows, name="T15-labels")
    report.text(
        f"Protocol: {found[0]['task']}, {len(found)} split(s): fitted on training rows, test rows read once; a label's probability "
        "is its share of the whole distribution over nodes."
    )
    _pictures(report, {"HiPaNClassifier": curves_of(found[0])}, "held-out rows")


# ---- F10 and F19 -----------------------------------------------------------------------------------------------------


def _pictures(report: Report, curves: dict[str, dict[int, Reliability]], rows: str) -> None:
    if curves:
        names = ", ".join(curves)
        report.figure(f"{captions('F10')}: calibration error of balls by depth, on {rows}: {names}.", by_depth(curves))
        report.figure(f"{captions('F19')}: reliability at some depths, on {rows}: {names}.", diagrams(curves))


def by_depth(curves: dict[str, dict[int, Reliability]]) -> Figure:
    """F10: calibration error by depth, one picture a model."""
    from matplotlib.figure import Figure

    from vpunn import plot

    figure = Figure(figsize=(7.2 * len(curves), 4.0), layout="constrained")
    for ax, (name, curve) in zip(np.atleast_1d(figure.subplots(1, len(curves))), curves.items(), strict=True):
        plot.reliability_by_depth(curve, ax)
        ax.set_title(name, fontsize=10)
    return figure


def diagrams(curves: dict[str, dict[int, Reliability]]) -> Figure:
    """F19: reliability at the paper's digits where the tree has them, else at four depths from first to last; a row a model."""
    from matplotlib.figure import Figure

    from vpunn import plot

    depths = np.array(sorted(set.intersection(*(set(curve) for curve in curves.values()))))
    named = [k for k in DRAWN if k in depths]
    spread_out = (
        depths[np.unique(np.linspace(0, max(len(depths) - 1, 0), 4).astype(int))].tolist() if len(depths) else []
    )
    chosen = named if len(named) == 4 else spread_out
    figure = Figure(figsize=(3.6 * max(len(chosen), 1), 3.7 * len(curves)), layout="constrained")
    axes = np.atleast_2d(figure.subplots(len(curves), max(len(chosen), 1), squeeze=False))
    for row, (name, curve) in zip(axes, curves.items(), strict=True):
        for ax, k in zip(row, chosen, strict=False):
            plot.reliability(curve[k], ax)
            text = f"{name}, digit d{k - 1}:\n{int(curve[k].n_items.sum()):,} rows, error {100 * curve[k].ece:.1f} %"
            ax.set_title(text, fontsize=9)
    return figure
