"""Answers and scores as tables: what a model says about rows, in columns with names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import counted
from vpunn.io.frames import check_columns
from vpunn.tree import Tree

if TYPE_CHECKING:
    import pandas as pd


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

    def __str__(self) -> str:
        return self.verdict


@dataclass(frozen=True)
class Answers:
    """Nodes and probabilities, (rows, answers), of a tree whose answers are called ``labels``."""

    tree: Tree
    labels: np.ndarray
    nodes: np.ndarray
    probability: np.ndarray

    def columns(self, kept: Mapping[str, Any], known: np.ndarray) -> dict[str, Any]:
        """One row per answer."""
        n, k = self.nodes.shape
        row, nodes = np.repeat(np.arange(n), k), self.nodes.ravel()
        found: dict[str, Any] = {"row": row, **{name: np.asarray(cells)[row] for name, cells in kept.items()}}
        if k > 1:
            found["rank"] = np.tile(np.arange(1, k + 1), n)
        found |= {
            "label": self.labels[nodes],
            "probability": self.probability.ravel(),
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
    """The way from the root to every node, as text."""
    different, place = np.unique(nodes, return_inverse=True)
    texts = [" / ".join(map(str, tree.path(node))) for node in different.tolist()]
    return [texts[i] for i in place.ravel().tolist()]
