"""What the rows of a table should be answered: one rule for ``vpunn evaluate`` and ``vpunn report``.

A row whose label the model does not know counts as long as nothing else is said: it is scored at the deepest ancestor of its
label that is known, which a flat list of labels has at its root, so that every answer is wrong. Leaving such rows out makes a
model look better than it is. ``unseen`` chooses otherwise. Rows without a label (or number) cannot be scored and are left out, as
fitting leaves them out. All of it is counted in notes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from vpunn.errors import DataError, VpunnError, check_choice, counted, examples
from vpunn.tables.cells import LabelCells, numbers_of
from vpunn.tables.inputs import Inputs, target_cells
from vpunn.tables.names import last_name, locate, matched, unseen_error

if TYPE_CHECKING:
    import pandas as pd

    from vpunn.tree import Tree

Unseen = Literal["error", "skip", "ancestor", "wrong"]
UNSEEN = ("error", "skip", "ancestor", "wrong")

#: What happens to rows whose label a model does not know.
SAID = {"skip": "left out", "ancestor": "scored at their deepest known ancestor", "wrong": "counted as wrong"}


class Truth(NamedTuple):
    """Rows that are scored (their places in the table), what is true of them, and what was left out or changed.

    ``answers`` are nodes of a classifier, sets of labels or numbers; ``wrong`` marks rows that no answer is right for.
    """

    rows: np.ndarray
    answers: Any
    notes: list[str]
    wrong: np.ndarray


def true_nodes(frame: pd.DataFrame, inputs: Inputs, tree: Tree, where: object, unseen: Unseen) -> Truth:
    """Of a classifier with one label per row: the nodes of its ``tree``."""
    check_choice("unseen", unseen, UNSEEN)
    cells, _ = matched(target_cells(frame, inputs, where), tree, inputs.match)
    blank = cells.blank
    nodes, new = locate(tree, cells)
    if new.any() and unseen == "error":
        raise unseen_error(tree, cells, new, where, "--unseen ancestor or skip scores the rest")
    notes = []
    if new.any():
        labels = list(dict.fromkeys(str(last_name(row)) for row in cells.values[new].tolist()))
        notes.append(
            f"{counted(int(new.sum()), 'row has', 'rows have')} labels the model does not know "
            f"({examples(labels, limit=3)}), {SAID[unseen]}"
        )
    if blank.any():
        notes.append(f"{counted(int(blank.sum()), 'row')} without a label left out")
    keep = np.flatnonzero(~((new | blank) if unseen == "skip" else blank))
    if not len(keep):
        raise DataError(f"no row of {str(where)!r} can be scored: none has a label that the model knows.")
    return Truth(keep, nodes[keep], notes, np.asarray(new[keep]) & (unseen == "wrong"))


def true_numbers(
    frame: pd.DataFrame, cells: LabelCells, inputs: Inputs, tree: Tree, where: object, unseen: Unseen
) -> Truth:
    """Of a regressor: its target column; ``cells`` are the levels of the rows, as it reads them."""
    check_choice("unseen", unseen, UNSEEN)
    if unseen == "wrong":
        raise VpunnError(
            "--unseen wrong is for labels; a number is predicted at the deepest known ancestor, or skipped."
        )
    numbers = numbers_of(frame, inputs.target, where)
    _, new = locate(tree, cells)
    if new.any() and unseen == "error":
        raise unseen_error(tree, cells, new, where, "--unseen ancestor or skip scores the rest")
    missing, notes = np.isnan(numbers[:, 0]), []
    keep = np.flatnonzero(~missing & ~(new & (unseen == "skip")))
    if new.any():
        how = "left out" if unseen == "skip" else "predicted at their deepest known ancestor"
        notes.append(f"{counted(int(new.sum()), 'row has', 'rows have')} levels the model does not know, {how}")
    if missing.any():
        notes.append(f"{counted(int(missing.sum()), 'row')} without a number left out")
    if not len(keep):
        raise DataError(f"no row of {str(where)!r} can be scored: none has a number and levels that the model knows.")
    return Truth(keep, numbers[keep, 0], notes, np.zeros(len(keep), bool))


def true_sets(given: list[set[Any]], tree: Tree, where: object, unseen: Unseen) -> Truth:
    """Of a classifier of label sets: ``given`` without the labels it does not know, or (``"skip"``) without such rows."""
    check_choice("unseen", unseen, UNSEEN)
    if unseen == "wrong":
        raise VpunnError("--unseen wrong is for one label per row; of several, give error, skip or ancestor.")
    known = set(tree.labels.tolist())
    new = sorted({label for row in given for label in row} - known, key=str)
    if new and unseen == "error":
        raise DataError(
            f"{counted(len(new), 'label')} of {str(where)!r} not known to the model: {examples(new)}; "
            "--unseen ancestor or skip scores the rest."
        )
    rows, notes = np.arange(len(given)), []
    if new:
        notes = [f"{counted(len(new), 'label')} the model does not know ({examples(new, limit=3)}) left out"]
    if new and unseen == "skip":
        rows = np.array([k for k, row in enumerate(given) if row <= known], np.int64)
        if not len(rows):
            raise DataError(f"no row of {str(where)!r} can be scored: none has only labels that the model knows.")
        notes = [
            f"{counted(len(given) - len(rows), 'row has', 'rows have')} labels the model does not know "
            f"({examples(new, limit=3)}), left out"
        ]
    return Truth(rows, [given[k] & known for k in rows.tolist()], notes, np.zeros(len(rows), bool))
