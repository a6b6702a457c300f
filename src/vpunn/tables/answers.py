"""Answers and scores as tables: what a model says about rows, in columns with names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._show import show
from vpunn.errors import counted
from vpunn.io.frames import check_columns
from vpunn.tree import Tree
from vpunn.tree.unnamed import named_paths

if TYPE_CHECKING:
    import pandas as pd


#: What a score means, in a few words; those that matter first stand first.
MEANING = {
    "exact": "answered with the right place itself",
    "top-5": "the right place is among five answers",
    "coverage at 90 %": "right if vague answers may be given",
    "RMSE": "typical error, large ones count more",
    "R²": "share of differences explained; 1 is all",
    "MAE": "the error, on average",
    "F1 by rows": "how far the sets agree, 0 to 1",
    "F1 by pairs": "the same, all rows and labels together",
    "missed at risk 0.1": "labels missed; meant to be one in ten",
    "Fmax": "F1 by rows at its best threshold",
    "rows": "rows that were scored",
    "root_accuracy": "answered in the right topmost branch",
    "leaf_accuracy": "the same as exact, of whole paths",
    "hierarchical_precision": "steps of the answers that are right",
    "hierarchical_recall": "steps of the truths that were found",
    "hierarchical_f1": "both together, 0 to 1",
    "wu_palmer": "how near answers are, 1 is there",
    "mean_lca_depth": "steps down until answer and truth part",
    "ultrametric_loss": "mean distance in the tree, 0 is right",
    "ECE": "how far probabilities are off, 0 is honest",
    "mean sd": "how far off it expects to be",
}


def called(score: str) -> str:
    """A score as people read it."""
    return score.replace("_", " ")


@dataclass(frozen=True)
class Evaluation:
    """Scores of predictions for rows with known answers: ``scores`` by name, the same ``by_depth``, and what was counted."""

    scores: dict[str, float]
    by_depth: list[dict[str, Any]]
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """One sentence."""
        rows = int(self.scores["rows"])
        if "exact" in self.scores:
            said = f"{100 * self.scores['exact']:.1f} % of {counted(rows, 'row')} placed exactly"
        else:
            said = f"root mean squared error {self.scores['RMSE']:.4g} over {counted(rows, 'row')}, R² {self.scores['R²']:.3f}"
        return "; ".join([said, *self.notes])

    def table(self) -> list[dict[str, Any]]:
        """The scores with what they mean, those that matter first."""
        first = [name for name in MEANING if name in self.scores]
        names = [*first, *(name for name in self.scores if name not in MEANING)]
        return [
            {"score": called(name), "value": self.scores[name], "what it says": MEANING.get(name, "")} for name in names
        ]

    def __str__(self) -> str:
        return self.verdict

    def _repr_html_(self) -> str:
        cells = [(show(row["score"]), show(row["value"]), show(row["what it says"])) for row in self.table()]
        rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in cells)
        return f"<p>{escape(self.verdict)}</p><table>{rows}</table>"


@dataclass(frozen=True)
class Answers:
    """Nodes and probabilities, (rows, answers), of a tree whose answers are called ``labels``."""

    tree: Tree
    labels: np.ndarray
    nodes: np.ndarray
    probability: np.ndarray

    def columns(self, kept: Mapping[str, Any], known: np.ndarray) -> dict[str, Any]:
        """One row per answer; -1 is none."""
        row, rank = np.nonzero(self.nodes >= 0)
        nodes = self.nodes[row, rank]
        found: dict[str, Any] = {"row": row, **{name: np.asarray(cells)[row] for name, cells in kept.items()}}
        if self.nodes.shape[1] > 1:
            found["rank"] = rank + 1
        found |= {
            "label": self.labels[nodes],
            "probability": self.probability[row, rank],
            "depth": self.tree.depth[nodes],
            "node": nodes,
            "path": paths_of(self.tree, nodes),
            "known": known[row],
        }
        return found


#: Columns of answers; a kept column of such a name is called "given …".
ANSWER_NAMES = frozenset(
    ("row", "rank", "label", "probability", "depth", "node", "path", "known", "prediction", "sd", "low", "high")
)


def kept_columns(frame: pd.DataFrame, names: Sequence[str], where: object) -> dict[str, Any]:
    """Columns of a table that are handed through beside the answers."""
    check_columns(frame, names, where)
    return {called: frame[name].to_numpy() for name, called in kept_names(names).items()}


def kept_names(names: Sequence[str]) -> dict[str, str]:
    """What kept columns are called beside the answers, each otherwise than all others.

    >>> kept_names(["sku", "row", "given row"])
    {'sku': 'sku', 'row': 'given given row', 'given row': 'given row'}
    """
    found = {}
    for name in names:
        called = name
        while called in ANSWER_NAMES or (called != name and called in names):
            called = f"given {called}"
        found[name] = called
    return found


def paths_of(tree: Tree, nodes: np.ndarray) -> list[str]:
    """The way from the root to every node, as text; inner nodes that have no name are left out."""
    different, place = np.unique(nodes, return_inverse=True)
    texts = [" / ".join(map(str, path)) for path in named_paths(tree, different)]
    return [texts[i] for i in place.ravel().tolist()]
