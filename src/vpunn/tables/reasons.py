"""Why a row of a table is answered as it is, in the words and columns of the table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vpunn.errors import VpunnError, examples
from vpunn.tables.cells import texts_of
from vpunn.tables.gaps import filled_numbers

if TYPE_CHECKING:
    import pandas as pd

    from vpunn.tables.models import TableClassifier
    from vpunn.tables.regressor import TableRegressor

#: Words and columns told for a branch.
TOLD = 5


def explain_table_row(
    fitted: TableClassifier | TableRegressor, frame: pd.DataFrame, where: object, node: object = None
) -> Any:
    """The model's explanation of the one row of ``frame``; what words and columns contribute stands under their names."""
    inputs, model = fitted.inputs, fitted.model
    X = fitted.rows(frame, where)
    if hasattr(model, "models_"):
        raise VpunnError(
            "an answer averaged over trees is a sum along each of them; ask one: model.model.models_[0].explain(…)."
        )
    if inputs.levels:
        told = model.explain(X, feature_names=[*inputs.levels, *inputs.columns])
        if not inputs.log:
            return told
        return replace(told, name=f"log10 of {examples(inputs.target)} = ", original=10.0**told.prediction)
    every = fitted.feature_names()  # type: ignore[union-attr]
    # all features, so that the words of a branch sum to what it contributes
    options: dict[str, Any] = {"k": len(every), "feature_names": every}
    found = model.explain(X, **options) if node is None else model.explain(X, node, **options)
    words, cells = texts_of(frame, inputs.text, where)[0] if inputs.text else "", cells_of(frame, fitted, where)
    if getattr(model, "multilabel_", False):
        return replace(found, features=_told(words, found.features, cells), neighbours=found.neighbours[:TOLD])
    return replace(found, balls=[replace(ball, features=_told(words, ball.features, cells)) for ball in found.balls])


def cells_of(frame: pd.DataFrame, fitted: TableClassifier | TableRegressor, where: object) -> dict[str, str]:
    """What the numbers and categories of one row are, medians where a number is missing."""
    inputs = fitted.inputs
    numbers = filled_numbers(frame, inputs, where)[0].tolist() if inputs.columns else []
    cells = {name: f"{number:.4g}" for name, number in zip(inputs.columns, numbers, strict=False)}
    return cells | {name: str(frame[name].iloc[0]) for name in inputs.categories}


def _told(words: str, features: Any, cells: dict[str, str]) -> list[tuple[str, float]]:
    from vpunn.text import by_word

    return by_word(words, features, cells)[:TOLD]
