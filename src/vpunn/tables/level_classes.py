"""`TableLevelClassifier`: a class from the level columns (or the one label column of a tree) and numbers of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import DataError, VpunnError, check_choice, counted, examples
from vpunn.tables.answers import Evaluation, kept_columns, paths_of
from vpunn.tables.cells import place_cells
from vpunn.tables.names import locate, unseen_error
from vpunn.tables.regressor import TableRegressor
from vpunn.tables.truth import UNSEEN, Truth, Unseen
from vpunn.tree import Tree

if TYPE_CHECKING:
    import pandas as pd

#: Smallest probability in the log loss: a class that was impossible costs so much.
FLOOR = 1e-9


class TableLevelClassifier(TableRegressor):
    """A `VPuNNClassifier` with the columns it reads, as `TableRegressor` is of a number."""

    @classmethod
    def _new(cls, tree: Tree | None, trees: Sequence[Tree] | None = None, **settings: Any) -> Any:
        from vpunn.regress import VPuNNClassifier

        if trees is not None:
            raise VpunnError("several trees at once are averaged for numbers, not for classes; choose one tree.")
        return VPuNNClassifier(tree, **settings)

    def scaled(self, numbers: Any, where: object) -> Any:
        """Classes as text: what a table writes as 1 is a name here."""
        return np.array([str(kind) for kind in np.asarray(numbers).tolist()])

    def predict(self, frame: pd.DataFrame, return_std: bool = False) -> Any:
        """The most probable class of every row."""
        return self.model.predict(self.rows(frame, "the frame"))

    def answer_table(
        self, frame: pd.DataFrame, where: object = "the frame", *, keep: Sequence[str] = ()
    ) -> pd.DataFrame:
        """One row per row: the most probable class, its probability, and the deepest known ball behind it."""
        import pandas as pd

        X = self.rows(frame, where)
        proba = self.model.predict_proba(X)
        tree, cells = self.model.tree_, self._levels(X)
        nodes, unseen = locate(tree, cells)
        found = {"prediction": self.model.classes_[proba.argmax(axis=1)], "probability": proba.max(axis=1)}
        found |= {"known": ~(unseen | cells.blank), "depth": tree.depth[nodes], "node": nodes}
        found["path"] = np.array(paths_of(tree, nodes), object)
        return pd.DataFrame({"row": np.arange(len(X)), **kept_columns(frame, keep, where), **found})

    def truth(self, frame: pd.DataFrame, where: object, unseen: Unseen = "ancestor") -> Truth:
        """Which rows are scored, and their classes; rows with unseen levels as at their deepest known ancestor, or left out."""
        check_choice("unseen", unseen, UNSEEN)
        if unseen == "wrong":
            raise VpunnError(
                "--unseen wrong is for places; a class is predicted at the deepest known ancestor, or skipped."
            )
        given = place_cells(frame, self.inputs.target, where)
        keep, notes = ~given.blank, []
        if given.blank.any():
            notes.append(f"{counted(int(given.blank.sum()), 'row')} without a class left out")
        levels = self._levels(self.rows(frame, where))
        strange = locate(self.model.tree_, levels)[1]
        if strange.any() and unseen == "error":
            raise unseen_error(self.model.tree_, levels, strange, where, "--unseen ancestor or skip scores the rest")
        if strange.any() and unseen == "skip":
            keep &= ~strange
        if strange.any():
            how = "left out" if unseen == "skip" else "predicted at their deepest known ancestor"
            notes.append(f"{counted(int(strange.sum()), 'row has', 'rows have')} levels the model does not know, {how}")
        if not keep.any():
            raise DataError(
                f"no row of {str(where)!r} can be scored: none has a class and levels that the model knows."
            )
        classes = self.scaled(given.values[keep, 0], where)
        new = ~np.isin(classes, self.model.classes_)
        if new.any():
            notes.append(f"classes the model has not seen are wrong: {examples(dict.fromkeys(classes[new].tolist()))}")
        return Truth(np.flatnonzero(keep), classes, notes, new)

    def evaluate(self, frame: pd.DataFrame, where: object = "the frame", unseen: Unseen = "ancestor") -> Evaluation:
        """Accuracy and log loss of the rows of `truth`."""
        truth = self.truth(frame, where, unseen)
        rows = frame.iloc[truth.rows]
        X = self.rows(rows, where)
        proba = self.model.predict_proba(X)
        column = np.searchsorted(self.model.classes_, truth.answers).clip(max=proba.shape[1] - 1)
        right = np.where(truth.wrong, 0.0, proba[np.arange(len(column)), column])
        scores = {
            "rows": len(column),
            "exact": float(np.mean((proba.argmax(axis=1) == column) & ~truth.wrong)),
            "log loss": float(np.mean(-np.log(np.clip(right, FLOOR, 1.0)))) + 0.0,
        }
        return Evaluation(scores, [], (*truth.notes, *self.notes_on(X, rows, where)))
