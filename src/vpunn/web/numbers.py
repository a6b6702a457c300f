"""A model of levels behind the API: rows of levels in, a number or a class out, and what every branch says about it.

Answers are those of `TableRegressor.predict`, which ``vpunn predict`` prints. A model is one coefficient per ball, so the tree
carries it whole: `ball_columns` gives every node the fitted mean of its ball and its coefficient (or how probable each class is
there), and the sum of the coefficients on a path, with what covariates add, is the prediction. Along branches these are the
states of ancestors.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import VpunnError, counted
from vpunn.web.asked import Wanted
from vpunn.web.questions import check_cells, check_fields, fill_gaps, read_list, read_numbers
from vpunn.web.replies import ApiError
from vpunn.web.subject import Subject, clean, clip

if TYPE_CHECKING:
    import pandas as pd

    from vpunn.regress import VPuNNClassifier, VPuNNRegressor
    from vpunn.tables.regressor import TableRegressor


#: Leaves offered as first questions.
EXAMPLES = 3
#: Classes whose probability colours the tree.
SHOWN = 8


@dataclass(frozen=True)
class NumberAsk:
    """A checked question: rows of levels and covariates."""

    frame: pd.DataFrame
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.frame)

    def pieces(self, size: int) -> list[NumberAsk]:
        """The question itself: how a column of labels is read depends on all its cells."""
        return [self]


class RegressorAnswers:
    """A regressor that knows its level columns and covariates, as `ClassifierAnswers` is for a classifier."""

    kind = "number"

    def __init__(self, table: TableRegressor) -> None:
        self.table, self.model, self.tree = table, table.model, table.model.tree_
        if not self.model._one_target:
            raise VpunnError(
                f"this regressor predicts {len(self.model.coef_)} numbers, and the explorer shows one; fit one model for each."
            )
        self._name_columns()
        self.values = self.model.predict_nodes(np.arange(self.tree.n_nodes))[0]  # at covariates 0

    def _name_columns(self) -> None:
        inputs = self.table.inputs
        self.levels, self.numeric = list(inputs.levels), list(inputs.columns)
        self.columns = [*self.levels, *self.numeric]
        self.target = ", ".join(inputs.target)
        #: what the numbers of branches are of; an answer is of the target itself
        self.scale = f"log10 of {self.target}" if inputs.log else self.target

    def summary(self) -> dict[str, Any]:
        """What can be asked."""
        return {
            "kind": type(self.model).__name__,
            "input": "columns",
            "columns": self.columns,
            "numeric": self.numeric,
            "features": len(self.columns),
            "target": self.target,
            "scale": self.scale,
            "answers": self.kind,
        }

    def examples(self) -> list[dict[str, Any]]:
        """Leaves of different branches to ask first, their covariates left to the medians."""
        tree, found = self.tree, []
        for child in np.random.default_rng(0).permutation(tree.children(0)).tolist()[:EXAMPLES]:
            path = [str(tree.labels[i]) for i in tree.ancestors(child + int(tree.size[child]) - 1).tolist()[1:]]
            cells = dict.fromkeys(self.columns, "") | dict(zip(self.levels, path, strict=False))
            found.append({"text": json.dumps(cells), "shown": clean(" › ".join(path))})
        return found

    def ball_columns(self) -> dict[str, tuple[np.ndarray, str]]:
        """One number per ball and what it is: of the ball itself (``value``), or beyond its parent (``difference``)."""
        n, medians = self.tree.n_nodes, np.array(self.table.inputs.medians)
        at, covariates = "", None
        if self.numeric:
            at = " at median covariates" if len(medians) else " at covariates 0"
            covariates = np.tile(medians if len(medians) else np.zeros(len(self.numeric)), (n, 1))
        mean, sd = self.model.predict_nodes(np.arange(n), covariates)
        evolved = self.model.evolution_ != "depth"
        found = {
            f"{'ancestral state' if evolved else 'fitted mean'}{at}": (mean, "value"),
            "coefficient": (np.array(self.model.coef_), "difference"),
            "sd of a new row": (sd, "value"),
        }
        if evolved:
            found["sd of the state"] = np.sqrt(self.model._fits[0].state_variance(np.arange(n), covariates)), "value"
        return found

    def warm(self) -> None:
        """Answer an empty question once."""
        row = {name: None for name in self.levels} | {name: 0.0 for name in self.numeric}
        self.answer([self.read_ask({"rows": [row]}, 1)])

    def read_ask(self, body: dict[str, Any], max_rows: int, wanted: Wanted | None = None) -> NumberAsk:
        """A question from its JSON; every field is checked."""
        import pandas as pd

        check_fields(body, {"rows"})
        if "rows" not in body:
            raise ApiError(422, f"this model predicts a {self.kind} from columns; ask with rows.", "body")
        listed = read_list(body, "rows", max_rows)
        check_cells(listed, self.columns)
        for name in self.levels:
            for cell in (row[name] for row in listed):
                if isinstance(cell, bool) or not isinstance(cell, str | int | float | None):
                    raise ApiError(
                        422, f"{name!r} holds labels, which are texts or numbers, got {clip(repr(cell))}.", "rows"
                    )
        frame = pd.DataFrame({name: pd.Series([row[name] for row in listed], dtype=object) for name in self.levels})
        if not self.numeric:
            return NumberAsk(frame)
        numbers = read_numbers([[row[name] for name in self.numeric] for row in listed], len(self.numeric), "rows")
        filled, notes = fill_gaps(numbers, self.table.inputs)
        return NumberAsk(pd.concat([frame, pd.DataFrame(filled, columns=self.numeric)], axis=1), tuple(notes))

    def answer(self, asks: list[NumberAsk]) -> list[dict[str, Any]]:
        """The answer to every question, each read alone: how a column of labels is read depends on all its cells."""
        return [self._answer(ask) for ask in asks]

    def _answer(self, ask: NumberAsk) -> dict[str, Any]:
        found = self.table.answer_table(ask.frame, "rows")
        columns = ["prediction", "sd", "low", "high", "known", "node"]
        rows = []
        for r, row in enumerate(found[columns].to_dict("records")):
            chain = self.tree.ancestors(row["node"])
            path = zip(chain.tolist(), self.model.coef_[chain].tolist(), self.values[chain].tolist(), strict=True)
            cells = zip(self.numeric, ask.frame.iloc[r, len(self.levels) :], self.model.covariate_coef_, strict=True)
            rows.append(
                {
                    **row,
                    "label": self._label(row["node"]),
                    "path": [
                        {"node": i, "label": self._label(i), "coefficient": c, "total": total} for i, c, total in path
                    ],
                    "covariates": [
                        {"name": name, "value": float(v), "slope": float(slope), "adds": float(v * slope)}
                        for name, v, slope in cells
                    ],
                }
            )
        return {"answers": rows, "notes": self._notes(ask, found)}

    def _notes(self, ask: NumberAsk, found: pd.DataFrame) -> list[str]:
        new = int((~found["known"]).sum())
        if not new:
            return list(ask.notes)
        have = counted(new, "row has", "rows have")
        return [*ask.notes, f"{have} no level, or one the model does not know: predicted at the {self.table.fallback}"]

    def _label(self, node: int) -> str:
        return clean(str(self.tree.labels[node]))

    def describe(self, node: int) -> Any:
        """What a ball contains."""
        from vpunn.explanations import describe_ball

        labels = self.tree.labels
        return describe_ball(self.tree, labels[node] if labels.dtype.kind in "iu" else node)


class LevelClassAnswers(RegressorAnswers):
    """A `VPuNNClassifier` that knows its level columns and covariates: the class of a row, and of every branch."""

    kind = "class"

    def __init__(self, table: TableRegressor) -> None:
        self.table, self.model, self.tree = table, table.model, table.model.tree_
        self._name_columns()

    def ball_columns(self) -> dict[str, tuple[np.ndarray, str]]:
        """The likeliest class of every node, and how probable each of the commonest classes is there."""
        proba, names = self.model.node_proba_, np.array([str(kind) for kind in self.model.classes_.tolist()], object)
        likeliest = proba.argmax(axis=1)
        found = {}
        if (likeliest != likeliest[0]).any():
            found["likeliest class"] = names[likeliest], "value"
        for j in np.argsort(-proba.mean(axis=0), kind="stable")[:SHOWN].tolist():
            found[f"P({names[j]})"] = np.ascontiguousarray(proba[:, j]), "value"
        return found

    def _answer(self, ask: NumberAsk) -> dict[str, Any]:
        found = self.table.answer_table(ask.frame, "rows")
        every = self.model.predict_proba(self.table.rows(ask.frame, "rows"))
        rows = []
        for row, p in zip(found[["probability", "known", "node"]].to_dict("records"), every, strict=True):
            order, chain = np.argsort(-p, kind="stable"), self.tree.ancestors(row["node"])
            totals = self.model.node_proba_[chain, order[0]]
            path = zip(chain.tolist(), np.diff(totals, prepend=0.0).tolist(), totals.tolist(), strict=True)
            names = [str(kind) for kind in self.model.classes_[order].tolist()]
            rows.append(
                {
                    "prediction": names[0],
                    **row,
                    "classes": [
                        {"name": name, "probability": float(x)} for name, x in zip(names, p[order], strict=True)
                    ],
                    "label": self._label(row["node"]),
                    "path": [
                        {"node": i, "label": self._label(i), "coefficient": c, "total": total} for i, c, total in path
                    ],
                    "beyond": float(p[order[0]] - totals[-1]),
                }
            )
        return {"answers": rows, "notes": self._notes(ask, found)}


def number_subject(table: TableRegressor, title: str, columns: dict[str, Any] | None = None) -> Subject:
    """A model of levels on its tree, every node with the numbers of its ball and further ``columns``."""
    answers = LevelClassAnswers(table) if table.inputs.classes else RegressorAnswers(table)
    found = answers.ball_columns()
    given = {**answers.tree.columns, **(columns or {})}
    tree = answers.tree.replace(columns=given | {name: values for name, (values, _) in found.items()})
    return Subject(tree, title, answers, {name: kind for name, (_, kind) in found.items()})


def as_table(model: VPuNNRegressor | VPuNNClassifier) -> TableRegressor:
    """A model that was fitted on arrays, its columns called as it knows them, else by their places."""
    from vpunn.tables.inputs import Inputs
    from vpunn.tables.level_classes import TableLevelClassifier
    from vpunn.tables.regressor import TableRegressor

    levels, covariates = model._level_columns, model._covariate_columns
    if [*levels, *covariates] != list(range(model.n_features_in_)):
        raise VpunnError(
            "the explorer asks regressors whose covariates stand behind the levels, in their order; fit it on such columns, "
            "or look at its tree alone: model.tree_.explore()."
        )
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        label = ["label"] if model._by_label else [f"level {k + 1}" for k in range(len(levels))]
        names = [*label, *(f"covariate {k + 1}" for k in range(len(covariates)))]
    names = [str(name) for name in names]
    classes = hasattr(model, "classes_")
    inputs = Inputs(("prediction",), (), tuple(names[len(levels) :]), tuple(names[: len(levels)]), classes=classes)
    return (TableLevelClassifier if classes else TableRegressor)(model, inputs)
