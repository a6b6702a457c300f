"""`TableLevelClassifier`: a class from the level columns (or the one label column of a tree) and numbers of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import VpunnError, check_choice
from vpunn.tables.answers import kept_columns, paths_of
from vpunn.tables.cells import place_cells
from vpunn.tables.names import locate
from vpunn.tables.regressor import TableRegressor
from vpunn.tables.scores import LevelScores, Scores
from vpunn.tables.truth import UNSEEN, Remark, Truth, Unseen, added, unseen_levels
from vpunn.tree import Tree

if TYPE_CHECKING:
    import pandas as pd

    from vpunn._types import Features


class TableLevelClassifier(TableRegressor):
    """A `VPuNNClassifier` with the columns it reads, as `TableRegressor` is of a number."""

    lack = "none has a class and levels that the model knows"
    least = 1

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
        new, remark = unseen_levels(self.model.tree_, self._levels(self.rows(frame, where)), where, unseen)
        keep = np.flatnonzero(~given.blank & ~(new & (unseen == "skip")))
        classes = self.scaled(given.values[keep, 0], where)
        wrong = ~np.isin(classes, self.model.classes_)
        names, what = tuple(dict.fromkeys(classes[wrong].tolist())), "the model has not seen"
        remarks = [
            remark,
            Remark(int(given.blank.sum()), "row", "rows", " without a class left out"),
            Remark(
                int(wrong.sum()), f"row has a class {what}", f"rows have classes {what}", ", counted as wrong", names
            ),
        ]
        return Truth(keep, classes, added(remarks), wrong)

    def score(self, X: Features, truth: Truth, where: object) -> Scores:
        """Accuracy and log loss."""
        proba = self.model.predict_proba(X)
        column = np.searchsorted(self.model.classes_, truth.answers).clip(max=proba.shape[1] - 1)
        return LevelScores.of(proba, column, truth.wrong)
