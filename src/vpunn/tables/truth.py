"""What the rows of a table should be answered: one rule for ``vpunn evaluate`` and ``vpunn report``.

A row whose label the model does not know counts as long as nothing else is said: it is scored at the deepest ancestor of its
label that is known, which a flat list of labels has at its root, so that every answer is wrong. Leaving such rows out makes a
model look better than it is. ``unseen`` chooses otherwise. Rows without a label (or number) cannot be scored and are left out, as
fitting leaves them out. All of it is counted in remarks, and those of batches add up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from vpunn.errors import DataError, VpunnError, advice, check_choice, counted, examples
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


@dataclass(frozen=True)
class Remark:
    """What to know of some rows, in words for one of them and for several.

    >>> str(Remark(2, "row has new labels", "rows have new labels", ", left out", ("a", "b")))
    "2 rows have new labels ('a', 'b'), left out"
    """

    count: int
    one: str
    many: str
    end: str = ""
    names: tuple[Any, ...] = ()

    def __str__(self) -> str:
        named = f" ({examples(self.names, limit=3)})" if self.names else ""
        return f"{counted(self.count, self.one, self.many)}{named}{self.end}"


def added(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    """Remarks with those of the same words as one; those about no row are left out."""
    found: dict[tuple[str, str], Remark] = {}
    for remark in remarks:
        key = remark.one, remark.end
        before = found.get(key, replace(remark, count=0))
        names = tuple(dict.fromkeys((*before.names, *remark.names)))
        found[key] = replace(remark, count=before.count + remark.count, names=names)
    return tuple(remark for remark in found.values() if remark.count)


class Truth(NamedTuple):
    """Rows that are scored (their places in the table), what is true of them, and what was left out or changed.

    ``answers`` are nodes of a classifier, sets of labels, numbers or classes; ``wrong`` marks rows that no answer is right for.
    There may be no row at all.
    """

    rows: np.ndarray
    answers: Any
    remarks: tuple[Remark, ...]
    wrong: np.ndarray


def scored_anyway() -> str:
    """What to do about labels that are not known, where they are refused."""
    return advice("unseen", "ancestor", "unseen='ancestor' or 'skip'") + " scores the rest"


def true_nodes(frame: pd.DataFrame, inputs: Inputs, tree: Tree, where: object, unseen: Unseen) -> Truth:
    """Of a classifier with one label per row: the nodes of its ``tree``."""
    check_choice("unseen", unseen, UNSEEN)
    cells, _ = matched(target_cells(frame, inputs, where), tree, inputs.match)
    blank = cells.blank
    nodes, new = locate(tree, cells)
    if new.any() and unseen == "error":
        raise unseen_error(tree, cells, new, where, scored_anyway())
    labels = dict.fromkeys(str(last_name(row)) for row in cells.values[new].tolist())
    what = "labels the model does not know"
    remarks = added(
        [
            Remark(int(new.sum()), f"row has {what}", f"rows have {what}", f", {SAID.get(unseen)}", tuple(labels)),
            Remark(int(blank.sum()), "row", "rows", " without a label left out"),
        ]
    )
    keep = np.flatnonzero(~((new | blank) if unseen == "skip" else blank))
    return Truth(keep, nodes[keep], remarks, np.asarray(new[keep]) & (unseen == "wrong"))


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
    new, remark = unseen_levels(tree, cells, where, unseen)
    missing = np.isnan(numbers[:, 0])
    keep = np.flatnonzero(~missing & ~(new & (unseen == "skip")))
    remarks = added([remark, Remark(int(missing.sum()), "row", "rows", " without a number left out")])
    return Truth(keep, numbers[keep, 0], remarks, np.zeros(len(keep), bool))


def unseen_levels(tree: Tree, cells: LabelCells, where: object, unseen: Unseen) -> tuple[np.ndarray, Remark]:
    """Which rows have levels that the tree does not, and what to say of them."""
    _, new = locate(tree, cells)
    if new.any() and unseen == "error":
        raise unseen_error(tree, cells, new, where, scored_anyway())
    how = ", left out" if unseen == "skip" else ", predicted at their deepest known ancestor"
    what = "levels the model does not know"
    return new, Remark(int(new.sum()), f"row has {what}", f"rows have {what}", how)


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
            f"{scored_anyway()}."
        )
    rows, names, what = np.arange(len(given)), tuple(new), "labels the model does not know"
    remark = Remark(len(new), "label the model does not know", what, " left out", names)
    if unseen == "skip":
        rows = np.array([k for k, row in enumerate(given) if row <= known], np.int64)
        remark = Remark(len(given) - len(rows), f"row has {what}", f"rows have {what}", ", left out", names)
    return Truth(rows, [given[k] & known for k in rows.tolist()], added([remark]), np.zeros(len(rows), bool))
