"""A test table: the model's answers for all its rows, where it fails (`vpunn.report.triage`), and the rows behind a branch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import VpunnError, examples
from vpunn.web.asked import Wanted
from vpunn.web.layers import read_csv
from vpunn.web.replies import ApiError
from vpunn.web.subject import clean, clip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpunn._types import Features, Targets
    from vpunn.tree import Tree
    from vpunn.web.beliefs import ClassifierAnswers

#: Balls, confusions and rows listed.
LISTED = 12
SHOWN_ROWS = 100
#: Branches of a table of confusions.
CONFUSED = 12


class AskedTable:
    """A table as questions: its cells, what each row says, and the features of all."""

    def __init__(self, answers: ClassifierAnswers, data: bytes, max_rows: int, wanted: Wanted | None = None) -> None:
        from vpunn.tables.gaps import FILL_IN, Gaps, filled_numbers
        from vpunn.tables.models import as_blocks  # with scikit-learn, which a tree alone does without

        self.answers, self.frame = answers, read_csv(data)
        if len(self.frame) > max_rows:
            raise ApiError(413, f"{len(self.frame):,} rows are more than the {max_rows:,} a request may hold.", "body")
        self.check(answers.columns, "body")
        if not answers.columns:
            raise ApiError(
                422, "this model does not say which columns it reads; `vpunn fit` writes one that does.", "body"
            )
        self.cells = self.frame[answers.columns]
        wrong = [name for name in answers.numeric if self.cells[name].dtype.kind not in "biuf"]
        if wrong:
            raise ApiError(422, f"the columns {examples(wrong)} are not numbers.", "body")
        words: Any = None
        if answers.features is not None:
            texts = self.cells[answers.text].astype(object)
            said = texts.where(texts.notna(), "").to_numpy().tolist()
            self.texts = [" ".join(map(str, row)) for row in said]
            words = answers.words(self.texts, "body", wanted or Wanted())
        numbers, self.notes = None, list[str]()
        if answers.inputs is not None and answers.inputs.numeric:
            gaps = Gaps.of(self.cells, answers.inputs, "the table")
            gaps.refuse_empty("the table", FILL_IN)
            numbers = filled_numbers(self.cells, answers.inputs, "the table")
            self.notes = gaps.said(answers.inputs)
        if numbers is not None:  # the question as the page writes it: cells by name
            rows = self.cells.astype(object).where(self.cells.notna(), "").to_numpy().tolist()
            self.texts = [json.dumps(dict(zip(answers.columns, row, strict=True)), default=str) for row in rows]
        self.X = as_blocks(words, numbers)

    def check(self, names: Sequence[str], where: str) -> None:
        """Refuse a table without a column."""
        missing = [name for name in names if name not in self.frame]
        if missing:
            has = examples(list(self.frame))
            raise ApiError(422, f"the table has no column {clip(missing[0])!r}; it has {has}.", where)

    def answered(self) -> dict[str, Any]:
        """The likeliest place of every row, the least certain first."""
        tree = self.answers.tree
        node, p = (a[:, 0] for a in self.answers.model.posterior(self.X).top_k(1))
        rows = [
            {"row": i, "text": self.texts[i], "shown": clip(clean(self.texts[i]), 160), "node": int(node[i]),
             "label": clean(str(tree.labels[node[i]])), "probability": float(p[i])}
            for i in np.argsort(p, kind="stable").tolist()
        ]  # fmt: skip
        return {"rows": rows, "notes": self.notes}


class ScoredTable:
    """A table with the right answers, asked once."""

    __test__ = False  # pytest collects classes by this name

    def __init__(
        self, answers: ClassifierAnswers, X: Features, y: Targets, texts: Sequence[str], notes: Sequence[str] = ()
    ) -> None:
        from vpunn.report import triage

        self.texts, self.notes, self.found = texts, list(notes), triage(answers.model, X, y)

    @classmethod
    def of_rows(cls, answers: ClassifierAnswers, X: Features, y: Targets) -> ScoredTable:
        """Rows as the model was fitted on."""
        from vpunn.web.remembered import ReadRows

        rows = ReadRows(answers, answers.model._rows(X))
        return cls(answers, X, y, [rows.question(i) for i in range(len(rows.rows))])

    @classmethod
    def of_table(
        cls,
        answers: ClassifierAnswers,
        data: bytes,
        target: str | None,
        max_rows: int,
        wanted: Wanted | None = None,
    ) -> ScoredTable:
        """A CSV with a column of right answers."""
        from vpunn.tables.cells import split_paths
        from vpunn.tables.inputs import split_names

        asked = AskedTable(answers, data, max_rows, wanted)
        frame = asked.frame
        names = split_names(target) or answers.targets or ["label"]
        asked.check(names, "target")
        if answers.path_sep is not None and len(names) == 1:
            frame, names = split_paths(frame, names[0], answers.path_sep, "the table")
        labels = [frame[name].to_numpy() for name in names]
        truth = labels[0] if len(labels) == 1 else np.stack([np.asarray(v, object) for v in labels], 1)
        try:
            return cls(answers, asked.X, truth, asked.texts, asked.notes)
        except VpunnError as error:
            raise ApiError(422, str(error), "target") from None

    def confusion(self, depth: int) -> dict[str, Any]:
        """How many rows of every branch of a depth are put into which, of the branches with the most mistakes."""
        found, tree = self.found, self.found.tree
        true, said = (_branch(tree, nodes, depth) for nodes in (found.true, found.predicted))
        part, rows = np.unique(np.concatenate([true[true != said], said[true != said]]), return_counts=True)
        shown = np.sort(part[np.argsort(-rows, kind="stable")[:CONFUSED]])
        counts = np.zeros((len(shown), len(shown)), np.int64)
        kept = np.isin(true, shown) & np.isin(said, shown)
        np.add.at(counts, (np.searchsorted(shown, true[kept]), np.searchsorted(shown, said[kept])), 1)
        names = [clean(str(found.names[i])) for i in shown.tolist()]
        return {"depth": depth, "nodes": shown.tolist(), "names": names, "counts": counts.tolist()}

    def summary(self) -> dict[str, Any]:
        """The triage as numbers, and as tables for the page: title, column names, rows with the node to go to."""
        data = self.found.to_dict(LISTED)
        rate = "{:.0%}".format
        parts = [
            {
                "title": "Where paths go wrong",
                "columns": ["branch", "mistakes", "of rows", "rate"],
                "rows": [
                    _line(b["ball"], b["name"], b["mistakes"], b["reached"], rate(b["rate"])) for b in data["hardest"]
                ],
            },
            {
                "title": "What is taken for what",
                "columns": ["at", "truth", "answer", "rows"],
                "rows": [
                    _line(c["fork"], c["fork_name"], c["true_name"], c["predicted_name"], c["rows"])
                    for c in data["confusions"]
                ],
            },
            {
                "title": "Over-confident branches",
                "columns": ["branch", "rows", "says", "is"],
                "rows": [
                    _line(b["ball"], b["name"], b["rows"], rate(b["confidence"]), rate(b["accuracy"]))
                    for b in data["overconfident"]
                ],
            },
        ]
        return {**data, "parts": [part for part in parts if part["rows"]], "notes": self.notes}

    def rows(self, node: int) -> dict[str, Any]:
        """The rows behind a ball: those that go wrong in it, the surest first, then the other rows whose truth lies in it."""
        found = self.found
        wrong = found.rows_at(node, below=True)
        rest = np.setdiff1d(np.flatnonzero(found.tree.is_ancestor(node, found.true)), wrong)
        rows = np.concatenate([wrong, rest]).astype(np.int64)
        listed = [
            {
                "row": i,
                "text": self.texts[i],
                "shown": clip(clean(self.texts[i]), 160),
                "truth": clean(str(found.names[found.true[i]])),
                "answer": clean(str(found.names[found.predicted[i]])),
                "probability": float(found.confidence[i]),
                "right": not bool(found.wrong[i]),
            }
            for i in rows[:SHOWN_ROWS].tolist()
        ]
        return {"id": node, "name": clean(str(found.names[node])), "total": len(rows), "rows": listed}


def _branch(tree: Tree, nodes: np.ndarray, depth: int) -> np.ndarray:
    """The ancestor of each node at a depth; a node that lies above it stays."""
    found = np.asarray(nodes, np.int64).copy()
    while (deep := tree.depth[found] > depth).any():
        found[deep] = tree.parent[found[deep]]
    return found


def _line(node: int, *cells: Any) -> dict[str, Any]:
    return {"node": node, "cells": [clean(cell) if isinstance(cell, str) else cell for cell in cells]}
