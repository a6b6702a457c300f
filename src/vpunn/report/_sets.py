"""What a page about rows with several labels says: sets against sets, how honest the probabilities are, which labels are missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from vpunn import plot
from vpunn.errors import VpunnError, counted
from vpunn.metrics import reliability, sets
from vpunn.report._page import Report
from vpunn.report._sections import add_summary, add_tree, called
from vpunn.report._words import with_meaning
from vpunn.structure import Finding
from vpunn.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from vpunn._types import FeatureNames, Features, FittedModel, SetTargets, Texts
    from vpunn.hipan.set_posterior import SetPosterior
    from vpunn.metrics.confidence import Reliability


#: A ball belongs to the answer from this probability on.
ANSWERED = 0.5


@dataclass(frozen=True, eq=False, repr=False)
class SetRows(Finding):
    """Test rows: what is true, what is answered and how probable every ball is, (rows, nodes), all with ancestors and no root."""

    tree: Tree
    truth: sparse.csr_matrix
    said: sparse.csr_matrix
    proba: sparse.csr_matrix

    def summary(self) -> dict[str, float]:
        """By name."""
        pairs, rows = (sets.precision_recall(self.truth, self.said, average) for average in ("micro", "example"))
        best = sets.f_max(self.truth, self.proba)
        return {
            "rows": self.truth.shape[0],
            "sets exactly right": float(np.mean(_row_sums(self.truth != self.said) == 0)),
            "F1 by rows": rows.f1,
            "F1 by pairs": pairs.f1,
            "precision by pairs": pairs.precision,
            "recall by pairs": pairs.recall,
            "Fmax": best.value,
            "threshold of Fmax": best.threshold,
            "labels a row has": sets.set_size(self.truth),
            "labels a row gets": sets.set_size(self.said),
        }

    @property
    def verdict(self) -> str:
        """One sentence."""
        found = self.summary()
        return (
            f"{100 * found['sets exactly right']:.1f} % of {counted(self.truth.shape[0], 'row')} get exactly their labels. The "
            f"sets agree with F1 {found['F1 by rows']:.3f} on average (1: the same labels, 0: none in common; ancestors count); "
            f"{found['Fmax']:.3f} is the best that another threshold reaches."
        )

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """How often rows have a branch against its probability, from 0.01 on."""
        return plot.reliability(self.curve(), ax, **options)

    def curve(self) -> Reliability | None:
        """The numbers of that picture; None if no branch has such a probability."""
        said = self.proba.tocoo()
        right = np.asarray(self.truth[said.row, said.col]).ravel() > 0
        return reliability(np.minimum(said.data, 1.0), right, strategy="quantile", bins=10) if len(right) else None

    def row_f1(self) -> np.ndarray:
        """F1 of every row; two empty sets agree."""
        both, total = _row_sums(self.truth.multiply(self.said)), _row_sums(self.truth) + _row_sums(self.said)
        return np.where(total > 0, 2 * both / np.maximum(total, 1), 1.0)

    def labels(self) -> dict[str, np.ndarray]:
        """Per node: rows that have it, that get it, and both."""
        tables = {"true": self.truth, "said": self.said, "both": self.truth.multiply(self.said)}
        return {name: np.asarray(table.sum(0), np.int64).ravel() for name, table in tables.items()}


def page_of_sets(
    model: FittedModel,
    X: Features,
    y: SetTargets,
    title: str,
    command: str,
    *,
    texts: Texts = None,
    feature_names: FeatureNames = None,
) -> Report:
    """A page about a fitted classifier of label sets on test rows."""
    tree = model.label_tree_
    truth = _truth(tree, y)
    posterior = model.posterior(X)
    if len(posterior) != truth.shape[0]:
        raise VpunnError(f"a page needs one set per row: got {truth.shape[0]:,} sets for {len(posterior):,} rows.")
    if not len(posterior):
        raise VpunnError("a page about test rows needs at least one row.")
    found = SetRows(tree, truth, posterior.above(ANSWERED), _marginals(posterior))
    report = Report(title, command)
    add_summary(report, found, "Share of rows that have a branch against the probability said.")
    _add_scores(report, found, posterior, model.sets_)
    _add_calibration(report, found)
    _add_labels(report, found)
    _add_examples(report, model, X, found, texts, feature_names)
    add_tree(report, tree)
    return report


def _truth(tree: Tree, y: Sequence[Any]) -> sparse.csr_matrix:
    """The true sets with their ancestors; labels the tree does not have are refused."""
    rows = [np.atleast_1d(tree.index(sorted(row, key=str))).tolist() if len(row) else [] for row in y]
    return sets.with_ancestors(tree, sets.table_of(tree, rows))


def _marginals(posterior: SetPosterior) -> sparse.csr_matrix:
    """Probabilities that a threshold may reach, a part of the rows at a time: the table of all balls would not fit."""
    parts = []
    for _, p in posterior.chunks():
        p[:, 0] = 0.0
        parts.append(sparse.csr_matrix(np.where(p >= sets.THRESHOLDS[0], p, 0.0)))
    return sparse.csr_matrix(sparse.vstack(parts))


def _row_sums(table: sparse.csr_matrix) -> np.ndarray:
    return np.asarray(table.sum(1), float).ravel()


def _add_scores(report: Report, found: SetRows, posterior: SetPosterior, engine: FittedModel) -> None:
    report.heading("Scores")
    shown = found.summary()
    shown["labels missed at risk 0.1"] = sets.missed_share(found.truth, posterior.above(engine.threshold_for(0.1)))
    report.table(
        "Sets with their ancestors, answered from probability ½ on",
        with_meaning(shown),
    )
    counts, rows = found.labels(), []
    for depth in range(1, found.tree.max_depth + 1):
        at = found.tree.depth == depth
        true, said, both = (int(counts[name][at].sum()) for name in ("true", "said", "both"))
        if true + said:
            rows.append(
                {"depth": depth, "labels that rows have": true, "that they get": said, **_ratios(true, said, both)}
            )
    report.table("By depth in the tree", rows)


def _ratios(true: int, said: int, both: int) -> dict[str, float | None]:
    """Precision of what was said and recall of what is true; None of nothing."""
    return {"precision": both / said if said else None, "recall": both / true if true else None}


def _add_calibration(report: Report, found: SetRows) -> None:
    """How probable branches are said to be against how often rows have them, and what other thresholds would give."""
    report.heading("Probabilities")
    curve, said = found.curve(), found.proba.tocoo()
    if curve is None:
        report.text("No branch is given a probability of 0.01 or more.")
        return
    right = np.asarray(found.truth[said.row, said.col]).ravel() > 0
    report.text(
        f"Of {len(right):,} pairs of a row and a branch with a probability of 0.01 or more, the share that is true differs "
        f"from it by {curve.ece:.3f} on average (the calibration error); by chance it would by {plot.chance_error(curve):.3f}."
    )
    total = found.truth.nnz
    rows = []
    for threshold in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        over = said.data >= threshold
        hit, count = int(right[over].sum()), int(over.sum())
        rows.append(
            {"threshold": threshold, "labels a row gets": count / found.truth.shape[0], **_ratios(total, count, hit)}
        )
    report.table("Other thresholds: what is answered, how much of it is right, how much is found", rows)


def _add_labels(report: Report, found: SetRows, top: int = 15) -> None:
    """Labels that are missed most often, and those that are answered most often without being there."""
    report.heading("Labels")
    counts = found.labels()
    missed, wrong = counts["true"] - counts["both"], counts["said"] - counts["both"]
    for title, fault in (("Missed most often", missed), ("Answered most often where they are not", wrong)):
        order = np.argsort(-fault, kind="stable")[:top]
        order = order[fault[order] > 0]
        if not len(order):
            report.text(f"{title}: none.")
            continue
        rows = []
        for node, name in zip(order.tolist(), called(found.tree, order), strict=True):
            true, said, both = (int(counts[key][node]) for key in ("true", "said", "both"))
            faults = {"missed": int(missed[node]), "wrongly answered": int(wrong[node])}
            rows.append(
                {
                    "label": name,
                    "depth": int(found.tree.depth[node]),
                    "rows": true,
                    **faults,
                    **_ratios(true, said, both),
                }
            )
        report.table(title, rows)


def _add_examples(
    report: Report,
    model: FittedModel,
    X: Features,
    found: SetRows,
    texts: Texts,
    feature_names: FeatureNames,
    count: int = 4,
) -> None:
    """The best row and the worst, the surest of them first: what is true, what was answered, and what spoke for it."""
    report.heading("Examples")
    f1 = found.row_f1()
    sure = np.asarray(found.proba.max(1).todense()).ravel()
    rows = [*np.lexsort((-sure, -f1))[:1], *np.lexsort((-sure, f1))[: count - 1]]
    for row in dict.fromkeys(map(int, rows)):
        said = f" {str(texts[row])[:160]!r}" if texts is not None else ""
        report.text(f"Row {row}{said}: F1 {f1[row]:.2f}.")
        one = slice(row, row + 1)
        x = {name: block[one] for name, block in X.items()} if isinstance(X, Mapping) else X[one]
        held = [set(table[row].indices.tolist()) for table in (found.truth, found.said)]
        nodes = sorted(held[0] | held[1], key=lambda node: (-found.proba[row, node], node))[:10]
        names = called(found.tree, nodes)
        table = [
            {
                "label": name,
                "probability": float(found.proba[row, node]),
                "true": "yes" if node in held[0] else "no",
                "answered": "yes" if node in held[1] else "no",
                "speaks for it": _why(model, x, node, None if texts is None else str(texts[row]), feature_names),
            }
            for node, name in zip(nodes, names, strict=True)
        ]
        report.table(f"Labels of row {row}, the likeliest first", table) if table else report.text(
            "No label, and none given."
        )


def _why(model: FittedModel, x: Features, node: int, text: str | None, feature_names: FeatureNames) -> str:
    """The words (or features) that speak for a label, as far as they have names."""
    from vpunn.explanations import explain
    from vpunn.text import by_word

    if feature_names is None:
        return ""
    try:
        label = model.label_tree_.labels[node]
        reason = explain(model, x, label, k=len(feature_names), feature_names=feature_names)
    except VpunnError as error:  # no training row has it, or two nodes are called so
        return str(error)
    features = reason.features if text is None else by_word(text, reason.features)
    return ", ".join(f"{name} {value:+.2f}" for name, value in features[:4])
