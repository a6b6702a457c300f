"""`TableLevelClassifier`: a class from the level columns (or the one label column of a tree) and numbers of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import DataError, VpunnError, counted, examples
from vpunn.tables.answers import Evaluation, kept_columns, paths_of
from vpunn.tables.cells import locate, place_cells, unseen_error
from vpunn.tables.regressor import TableRegressor
from vpunn.tables.truth import Unseen
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

    def evaluate(self, frame: pd.DataFrame, where: object = "the frame", unseen: Unseen = "ancestor") -> Evaluation:
        """Accuracy and log loss of rows with a class; rows with unseen levels as at their deepest known ancestor, or left out."""
        given = place_cells(frame, self.inputs.target, where)
        keep, notes = ~given.blank, []
        if given.blank.any():
            notes.append(f"{counted(int(given.blank.sum()), 'row')} without a class left out")
        rows_read = self.rows(frame, where)
        strange = locate(self.model.tree_, self._levels(rows_read))[1]
        if strange.any() and unseen == "error":
            raise unseen_error(
                self.model.tree_, self._levels(rows_read), strange, where, "--unseen ancestor or skip scores the rest"
            )
        if strange.any() and unseen != "ancestor":
            keep &= ~strange
            notes.append(
                f"{counted(int(strange.sum()), 'row has', 'rows have')} levels the model does not know, left out"
            )
        if not keep.any():
            raise DataError(
                f"no row of {str(where)!r} can be scored: none has a class and levels that the model knows."
            )
        rows, truth = frame[keep], self.scaled(given.values[keep, 0], where)
        X = self.rows(rows, where)
        proba = self.model.predict_proba(X)
        place = {kind: j for j, kind in enumerate(self.model.classes_.tolist())}
        column = np.array([place.get(kind, -1) for kind in truth.tolist()])
        if (column < 0).any():
            notes.append(
                f"classes the model has not seen are wrong: {examples(dict.fromkeys(truth[column < 0].tolist()))}"
            )
        right = np.where(column >= 0, proba[np.arange(len(column)), column], 0.0)
        scores = {
            "rows": len(truth),
            "exact": float(np.mean(proba.argmax(axis=1) == column)),
            "log loss": float(np.mean(-np.log(np.clip(right, FLOOR, 1.0)))) + 0.0,
        }
        return Evaluation(scores, [], (*notes, *self.notes_on(X, rows, where)))
