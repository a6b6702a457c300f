"""`TableRegressor`: a number from the level columns and numbers of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from vpunn._progress import Bar
from vpunn.errors import DataError, examples
from vpunn.tables.answers import kept_columns, paths_of
from vpunn.tables.cells import LabelCells, place_cells
from vpunn.tables.face import TableFace
from vpunn.tables.gaps import Gaps, filled_numbers, with_medians
from vpunn.tables.inputs import Inputs
from vpunn.tables.names import locate, matched
from vpunn.tables.samples import TableRows
from vpunn.tables.scores import NORMAL_QUANTILE, NumberScores, Scores
from vpunn.tables.truth import Remark, Truth, Unseen, true_numbers
from vpunn.tree import Tree

if TYPE_CHECKING:
    import pandas as pd

    from vpunn._types import Features, FilePath


class TableRegressor(TableFace):
    """A `VPuNNRegressor` or `TreeSampleRegressor` with the level columns (or one label column) and covariates it reads."""

    fallback = "deepest known ancestor"
    lack = "none has a number and levels that the model knows"
    least = 2

    def __init__(self, model: Any, inputs: Inputs) -> None:
        self.model, self.inputs = model, inputs

    @classmethod
    def fit(
        cls,
        sample: TableRows,
        inputs: Inputs,
        *,
        tree: Tree | None = None,
        bar: Bar | None = None,
        how: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> Self:
        """Fit on rows of a table; without a tree it is grown from the level columns. ``how`` are options of the estimator."""
        inputs = with_medians(inputs, sample.frame, sample.report.where)
        made = cls(cls._new(tree, covariates=_positions(inputs), **(how or {})), inputs)
        made.report = sample.report
        with (bar or Bar()).stage("regression", 100):
            rows = made._table(sample.frame, sample.cells, sample.report.where)
            made.model.fit(rows, made.scaled(sample.numbers, sample.report.where))
        return made

    @classmethod
    def _new(cls, tree: Tree | None, trees: Sequence[Tree] | None = None, **settings: Any) -> Any:
        """The estimator to fit, on one tree or averaged over several."""
        from vpunn.regress import TreeSampleRegressor, VPuNNRegressor

        if trees is None:
            return VPuNNRegressor(tree, **settings)
        return TreeSampleRegressor(trees, estimator=VPuNNRegressor(**settings))

    def scaled(self, numbers: Any, where: object) -> Any:
        """Numbers of the target on the scale on which the model learns: log10 with ``inputs.log``."""
        if not self.inputs.log:
            return numbers
        low = numbers[numbers <= 0]
        if len(low):
            raise DataError(
                f"{examples(self.inputs.target)} in {str(where)!r} holds {low[0]:g}, which has no logarithm; leave --log out, or "
                "leave out these rows."
            )
        return np.log10(numbers)

    def unscaled(self, values: np.ndarray) -> np.ndarray:
        """The opposite of `scaled`."""
        return np.asarray(10.0**values if self.inputs.log else values)

    def save(self, path: FilePath, provenance: Mapping[str, Any] | None = None) -> Path:
        """Write a folder that `vpunn.load` and the commands open; ``provenance`` says where the rows were from."""
        draft = self.model.draft(provenance)
        draft.settings["inputs"] = self.inputs.settings()
        return Path(draft.write(path))

    def _table(self, frame: pd.DataFrame, cells: LabelCells, where: object) -> np.ndarray:
        """Levels and covariates side by side, as the regressor reads them."""
        numbers = filled_numbers(frame, self.inputs, where)
        return np.concatenate([cells.values, numbers.astype(object)], axis=1)

    def rows(self, frame: pd.DataFrame, where: object) -> np.ndarray:
        """New rows as the regressor reads them."""
        cells = place_cells(frame, self.inputs.levels, where)
        at = LabelCells(matched(cells, self.model.tree_, self.inputs.match)[0].values)
        if at.values.shape[1] != cells.values.shape[1]:  # the root's own column was left out, as in fit
            at = cells
        return self._table(frame, at, where)

    def predict(self, frame: pd.DataFrame, return_std: bool = False) -> Any:
        """A number for every row, and with ``return_std`` the standard deviation of a new observation beside it.

        Of a model of logarithms the number is the median, on the scale of the data.
        """
        mean, sd = self.model.predict(self.rows(frame, "the frame"), return_std=True)
        return (self.unscaled(mean), self._spread(mean, sd)) if return_std else self.unscaled(mean)

    def _spread(self, mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
        """Standard deviation on the scale of the data: that of a log-normal number where logarithms were learned."""
        if not self.inputs.log:
            return sd
        natural = (np.log(10) * sd) ** 2
        return np.asarray(10.0**mean * np.exp(natural / 2) * np.sqrt(np.expm1(natural)))

    def answer_table(
        self, frame: pd.DataFrame, where: object = "the frame", *, keep: Sequence[str] = ()
    ) -> pd.DataFrame:
        """One row per row: mean, standard deviation of a new observation, a 90 % interval, and the deepest known ball behind it."""
        import pandas as pd

        X = self.rows(frame, where)
        mean, sd = self.model.predict(X, return_std=True)
        tree = self.model.tree_
        cells = self._levels(X)
        nodes, unseen = locate(tree, cells)
        known = ~(unseen | cells.blank)
        half = NORMAL_QUANTILE * sd
        found: dict[str, Any] = {
            name: self.unscaled(v) for name, v in (("prediction", mean), ("low", mean - half), ("high", mean + half))
        }
        found = {"prediction": found["prediction"], "sd": self._spread(mean, sd), **found}
        found |= {"known": known, "depth": tree.depth[nodes], "node": nodes, "path": paths_of(tree, nodes)}
        return pd.DataFrame({"row": np.arange(len(X)), **kept_columns(frame, keep, where), **found})

    def truth(self, frame: pd.DataFrame, where: object, unseen: Unseen = "ancestor") -> Truth:
        """Which rows are scored, and their numbers; see `vpunn.tables.truth`."""
        levels = self._levels(self.rows(frame, where))
        return true_numbers(frame, levels, self.inputs, self.model.tree_, where, unseen)

    def score(self, X: Features, truth: Truth, where: object) -> Scores:
        """Errors of the predictions, on the scale on which the model learns."""
        mean, sd = self.model.predict(X, return_std=True)
        return NumberScores.of(self.scaled(truth.answers, where), mean, sd)

    def notes_on(self, remarks: tuple[Remark, ...], gaps: Gaps) -> tuple[str, ...]:
        """What to know beside the scores, the scale first."""
        scale = [f"numbers are log10 of {examples(self.inputs.target)}"] if self.inputs.log else []
        return (*scale, *super().notes_on(remarks, gaps))

    def _levels(self, X: np.ndarray) -> LabelCells:
        """The levels of rows as the regressor reads them, without the covariates."""
        return LabelCells(X[:, : X.shape[1] - len(self.inputs.columns)])


def _positions(inputs: Inputs) -> list[int] | None:
    """Covariates stand behind the levels."""
    first = len(inputs.levels)
    return list(range(first, first + len(inputs.columns))) or None
