"""Fitting as ``vpunn fit`` does it: rows of a table, or a named task, to a model that knows its columns; rows held out first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._progress import Bar, following, progress_bar
from vpunn.errors import VpunnError
from vpunn.tables.answers import Evaluation
from vpunn.tables.inputs import Inputs
from vpunn.tables.level_classes import TableLevelClassifier
from vpunn.tables.models import TableClassifier, TableModel, new_text_features
from vpunn.tables.regressor import TableRegressor
from vpunn.tables.samples import TableRows
from vpunn.tree import Tree

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class FitPlan:
    """What to fit on the rows of a table, and which rows to hold out first for scores (``test_size`` or ``folds``)."""

    inputs: Inputs
    tree: Tree | None = None
    regress: bool = False
    numbers: Mapping[str, Any] = field(
        default_factory=dict
    )  #: how a number or class of levels evolves: evolution, lengths
    characters: bool = True
    mixed: str = "cut"
    test_size: float | None = None
    folds: int | None = None
    answers: str = "auto"
    seed: int = 0

    def model(self, sample: TableRows, bar: Bar | None = None) -> TableModel:
        """The model of some rows."""
        if self.regress:
            kind_of = TableLevelClassifier if self.inputs.classes else TableRegressor
            return kind_of.fit(sample, self.inputs, tree=self.tree, bar=bar, how=self.numbers)
        kind = TableClassifier
        if self.inputs.label_sep is not None:
            from vpunn.tables.sets import SetTableClassifier

            kind = SetTableClassifier
        options = {"characters": self.characters, "mixed": self.mixed, "answers": self.answers, "seed": self.seed}
        return kind.fit(sample, self.inputs, tree=self.tree, bar=bar, **options)  # type: ignore[arg-type]

    def held_out(self, sample: TableRows) -> dict[str, float]:
        """Scores of rows that a model fitted without them predicts; nothing if none are to be held out."""
        if self.test_size is not None and self.folds is not None:
            raise VpunnError("--test-size and --folds are two ways of holding rows out; give one of them.")
        if self.test_size is None and self.folds is None:
            return {}
        parts = list(splits(sample, self.inputs, test_size=self.test_size, folds=self.folds, seed=self.seed))
        scores = []
        for k, (train, test) in enumerate(parts, 1):
            with progress_bar(f"fitting without held-out rows {k}/{len(parts)}…", 100) as bar:
                part = self.model(sample.take(train), bar)
            scores.append(part.evaluate(sample.take(test).frame, sample.report.where))
        return summary_of(scores)


def splits(
    sample: TableRows, inputs: Inputs, *, test_size: float | None, folds: int | None, seed: int
) -> Iterator[Any]:
    """(training rows, held-out rows): one split, or ``folds`` of them. Rows of a group, or with the same inputs, stay together."""
    import pandas as pd
    from sklearn.model_selection import GroupKFold, GroupShuffleSplit

    groups = sample.groups
    if groups is None:
        groups = pd.util.hash_pandas_object(sample.frame[inputs.names].astype(str), index=False).to_numpy()
    n = len(set(groups.tolist()))
    if test_size is not None:
        if not 0 < test_size < 1:
            raise VpunnError(f"--test-size is a share of the rows between 0 and 1, got {test_size!r}.")
        way: Any = GroupShuffleSplit(1, test_size=test_size, random_state=seed)
    else:
        assert folds is not None
        if not 2 <= folds <= n:
            raise VpunnError(f"--folds needs a whole number from 2 to {n}, the different rows or groups; got {folds}.")
        way = GroupKFold(folds, shuffle=True, random_state=seed)
    try:
        yield from way.split(np.zeros(len(sample)), groups=groups)
    except ValueError as error:
        raise VpunnError(f"the rows cannot be split: {error}.") from None


#: Scores that others of a summary say already.
SAID_ONCE = ("leaf_accuracy", "hierarchical_precision", "hierarchical_recall", "mean_lca_depth", "ultrametric_loss")


def summary_of(scores: Sequence[Evaluation]) -> dict[str, float]:
    """Mean scores of several splits, with the standard deviation between them if there are several."""
    found: dict[str, float] = {}
    for name in scores[0].scores:
        values = [one.scores[name] for one in scores]
        if name in SAID_ONCE:
            continue
        if name == "rows":
            found["held-out rows"] = int(sum(values))
        else:
            found[f"held-out {name}"] = float(np.mean(values))
            if len(values) > 1:
                found[f"held-out {name}, sd"] = float(np.std(values, ddof=1))
    return found


def fit_task(name: str, *, characters: bool = True, seed: int = 0, bar: Bar | None = None) -> TableClassifier:
    """A classifier of a named task (`vpunn.datasets.tasks`), whose nodes may have descriptions; `task_rows` has its test rows."""
    from vpunn.datasets.tasks import load_task
    from vpunn.hipan.classifier import HiPaNClassifier

    bar = bar or Bar()
    task = load_task(name, seed)
    given, n = task.texts["train"], task.tree.n_nodes
    with bar.stage("features", 20):
        features = new_text_features(characters, len(given))
        everything = features.fit_transform(np.concatenate([given, *task.descriptions]))
    described = [everything[len(given) + k * n :][:n] for k in range(len(task.descriptions))] or None
    model = HiPaNClassifier(task.tree, random_state=seed)
    with bar.stage("classifier", 80) as part, following(part):
        model.fit(everything[: len(given)], task.labels("train"), X_nodes=described)
    return TableClassifier(model, Inputs(("label",), ("text",), task=name, seed=seed), features)


def task_rows(inputs: Inputs) -> pd.DataFrame:
    """The test part of the task that a model was fitted on."""
    import pandas as pd

    from vpunn.datasets.tasks import load_task

    if inputs.task is None:
        raise VpunnError(
            "give a table with the target column; only a model fitted on a named task brings its own test rows."
        )
    task = load_task(inputs.task, inputs.seed)
    return pd.DataFrame({"text": task.texts["test"], "label": task.labels("test")})
