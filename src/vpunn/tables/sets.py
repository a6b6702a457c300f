"""Tables whose rows have several labels in one cell, such as ``red; round; fruit``: what ``vpunn fit --label-sep`` makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._arrays import object_array
from vpunn.errors import DataError, VpunnError, check_choice, counted, examples
from vpunn.io.frames import check_columns
from vpunn.metrics import sets as measures
from vpunn.tables.answers import paths_of
from vpunn.tables.cells import LabelCells, place_cells
from vpunn.tables.inputs import Inputs, describe_table
from vpunn.tables.models import TableClassifier
from vpunn.tables.names import matched, unseen_error
from vpunn.tables.samples import TableRows, notes_on_gaps, rows_with_numbers, unseen_ways, with_groups
from vpunn.tables.scores import Scores, SetScores
from vpunn.tables.truth import Truth, Unseen, true_sets
from vpunn.tree import Tree

if TYPE_CHECKING:
    import pandas as pd

    from vpunn._types import Cell, Features


def split_cell(cell: Cell, separator: str) -> set[str]:
    """The labels of a cell, without blanks around them; an empty cell has none.

    >>> sorted(split_cell("red; round;", ";"))
    ['red', 'round']
    """
    return set() if cell is None else {part.strip() for part in str(cell).split(separator) if part.strip()}


def set_cells(frame: pd.DataFrame, inputs: Inputs, where: object) -> LabelCells:
    """The target's cells as text; lists, as JSON lines and Parquet have them, are written with the separator."""
    check_columns(frame, inputs.target, where)
    column, sep = frame[inputs.target[0]], str(inputs.label_sep)
    if column.dtype == object:
        cells = [_joined(cell, sep, column.name, where) for cell in column.tolist()]
        frame = frame.assign(**{str(column.name): object_array(cells)})
    return place_cells(frame, inputs.target, where)


def _joined(cell: Cell, sep: str, name: object, where: object) -> Cell:
    if not isinstance(cell, list | tuple | set | np.ndarray):
        return cell
    parts = [str(part) for part in cell]
    odd = [part for part in parts if sep in part]
    if odd:
        raise DataError(
            f"the label {odd[0]!r} in the column {name!r} of {str(where)!r} holds the separator {sep!r}; give --label-sep a text "
            "that no label holds."
        )
    return sep.join(parts) or None


def named_sets(sets: Sequence[set[str]], tree: Tree, match: str) -> list[set[Any]]:
    """Labels as a tree writes them: the number 7 for "7", and Homo_sapiens for Homo sapiens if names match loosely."""
    different = sorted(set().union(*sets))
    found = matched(LabelCells(object_array(different)[:, None]), tree, match)[0].values[:, 0]
    called = dict(zip(different, found.tolist(), strict=True))
    return [{called[label] for label in row} for row in sets]


def read_set_sample(
    frame: pd.DataFrame,
    inputs: Inputs,
    where: object,
    tree: Tree | None = None,
    missing: str = "median",
    unseen: str = "error",
) -> TableRows:
    """Rows to be fitted, as `read_sample` does it; but an empty cell is a row without an answer, which teaches too."""
    if len(inputs.target) != 1 or not inputs.label_sep:
        raise VpunnError(f"--label-sep cuts the cells of one target column, got {examples(inputs.target)}.")
    cells = set_cells(frame, inputs, where)
    sets: list[set[Any]] = [split_cell(cell, inputs.label_sep) for cell in cells.values[:, 0]]
    new, numbered = np.zeros(len(frame), bool), rows_with_numbers(frame, inputs.columns, inputs, where, missing)[1]
    if tree is not None:
        sets = named_sets(sets, tree, inputs.match)
        labels = set(tree.labels.tolist())
        new = np.array([not row <= labels for row in sets], bool)
        if new.any() and unseen == "error":
            first = [sorted(map(str, row - labels))[0] if row - labels else None for row in sets]
            raise unseen_error(tree, LabelCells(object_array(first)[:, None]), new, where, unseen_ways(inputs.match))
    empty, strange = int((~numbered).sum()), int((new & numbered).sum())
    if empty + strange:
        rows = np.flatnonzero(numbered & ~new)
        if not len(rows):
            raise DataError(
                f"no row of {str(where)!r} is left: all lack a number or have labels that are not in the tree."
            )
        frame, cells, sets = frame.iloc[rows], cells.take(rows), [sets[row] for row in rows.tolist()]
    left_out = [f"{counted(empty, 'row')} without a number left out"] if empty else []
    left_out += [f"{counted(strange, 'row')} not in the tree left out"] if strange else []
    report = describe_table(frame, inputs, cells, where, left_out=left_out, dropped=empty + strange, sets=sets)
    report = replace(report, notes=(*report.notes, *notes_on_gaps(frame, inputs, where)))
    return with_groups(TableRows(frame, cells, report), inputs)


class SetTableClassifier(TableClassifier):
    """A `HiPaNClassifier` of label sets with the columns it reads."""

    def labels(self, cells: LabelCells) -> list[set[str]]:
        """A set of labels per row."""
        sets = [split_cell(cell, str(self.inputs.label_sep)) for cell in cells.values[:, 0]]
        tree = getattr(self.model, "label_tree_", self.model.tree)  # the second while it is being fitted
        return sets if tree is None else named_sets(sets, tree, self.inputs.match)

    def predict(self, frame: pd.DataFrame) -> Any:
        """A set of labels for every row."""
        return self.model.predict(self.rows(frame, "the frame")) if self.model.multilabel_ else super().predict(frame)

    def said(self, X: Features, kept: Mapping[str, Any], known: np.ndarray, **options: Any) -> dict[str, Any]:
        """One row per row: its labels joined by the separator, the least probability among them, and their paths.

        With ``top`` one row per label, the likeliest first, as of a model with one label per row. A row without labels has
        no probability.
        """
        if not self.model.multilabel_:
            return super().said(X, kept, known, **options)
        sets, p = self._sets(X, **options)
        tree = self.model.tree_
        if options.get("top", 1) > 1:
            return self._ranked(sets, p, kept, known)
        sep = str(self.inputs.label_sep)
        joint = f"{sep} " if sep in (";", ",") else sep
        found: dict[str, Any] = {"row": np.arange(len(sets))}
        found |= {name: np.asarray(cells) for name, cells in kept.items()}
        found["label"] = [joint.join(map(str, self.model.labels_[nodes].tolist())) for nodes in sets]
        found["probability"] = [
            float(row[nodes].min()) if len(nodes) else np.nan for nodes, row in zip(sets, p, strict=True)
        ]
        found["path"] = [" | ".join(paths_of(tree, nodes)) for nodes in sets]
        found["known"] = known
        return found

    def _ranked(
        self, sets: list[np.ndarray], p: np.ndarray, kept: Mapping[str, Any], known: np.ndarray
    ) -> dict[str, Any]:
        """One row per label of every row."""
        size = np.array([len(nodes) for nodes in sets], np.int64)
        row, nodes = np.repeat(np.arange(len(sets)), size), np.concatenate(sets).astype(np.int64)
        found: dict[str, Any] = {"row": row} | {name: np.asarray(cells)[row] for name, cells in kept.items()}
        found["rank"] = np.arange(len(row)) - np.repeat(np.cumsum(size) - size, size) + 1
        tree = self.model.tree_
        found |= {"label": self.model.labels_[nodes], "probability": p[row, nodes], "depth": tree.depth[nodes]}
        found |= {"node": nodes, "path": paths_of(tree, nodes), "known": known[row]}
        return found

    def _sets(
        self,
        X: Features,
        *,
        top: int = 1,
        rule: str = "node",
        stop: str | None = None,
        threshold: float = 0.5,
        alpha: float = 0.1,
        depth: int = 1,
        cost: float = 1.0,
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Nodes of every row's set, the likeliest first, and the marginals of all nodes."""
        if rule != "node":
            raise VpunnError(f"--rule {rule} chooses one node per row, and these rows have several; leave it out.")
        check_choice("stop", stop or "threshold", ("threshold", "risk"))
        how = "size" if top > 1 else stop or "threshold"
        p = self.model.predict_node_proba(X)
        named = self.model.predict_sets(X, how, threshold=threshold, alpha=alpha, size=top)
        found = []
        for labels, row in zip(named, p, strict=True):
            nodes = (
                np.asarray(self.model.label_tree_.index(sorted(labels, key=str)), np.int64)
                if labels
                else np.zeros(0, np.int64)
            )
            found.append(nodes[np.argsort(-row[nodes], kind="stable")])
        return found, p

    @property
    def lack(self) -> str:  # type: ignore[override]
        """Why no row of a table can be scored."""
        return "none has only labels that the model knows" if self.model.multilabel_ else super().lack

    def score(self, X: Features, truth: Truth, where: object) -> Scores:
        """F1 of the sets with their ancestors, Fmax, share of missed answers.

        Labels the model does not know are left out (``"ancestor"``: all they have in common with the tree is its root), or
        with ``"skip"`` the rows that have one.
        """
        if not self.model.multilabel_:
            return super().score(X, truth, where)
        tree = self.model.label_tree_
        known = {label: i for i, label in enumerate(tree.labels.tolist())}
        true = measures.table_of(tree, [[known[x] for x in row] for row in truth.answers])
        true, posterior = measures.with_ancestors(tree, true), self.model.posterior(X)
        said, every = posterior.above(0.5), posterior.node_proba()
        every[:, 0] = 0.0
        same = (true != said).sum(1)
        return SetScores(
            {
                "rows": true.shape[0],
                "exact": float(np.mean(np.asarray(same).ravel() == 0)),
                "F1 by rows": measures.example_f1(true, said),
                "F1 by pairs": measures.micro_f1(true, said),
                "Fmax": measures.f_max(true, every).value,
                "missed at risk 0.1": measures.missed_share(true, posterior.above(self.model.sets_.threshold_for(0.1))),
            }
        )

    def truth(self, frame: pd.DataFrame, where: object, unseen: Unseen = "ancestor") -> Truth:
        """Which rows are scored, and the sets of labels that are true of them; see `vpunn.tables.truth`."""
        if not self.model.multilabel_:
            return super().truth(frame, where, unseen)
        return true_sets(self.labels(set_cells(frame, self.inputs, where)), self.model.label_tree_, where, unseen)
