"""From what a user names or holds to what is explored: a tree, a fitted model, a model's folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpunn.errors import VpunnError
from vpunn.tree import Tree
from vpunn.web.beliefs import ClassifierAnswers
from vpunn.web.subject import Subject

#: What roots are called that were made for trees without one.
UNNAMED = ("", "root")

if TYPE_CHECKING:
    from vpunn._types import Features, HasTree, Targets, Vectorizer
    from vpunn.web.batch import ScoredTable


def as_subject(
    source: HasTree, title: str | None = None, *, features: Vectorizer = None, columns: dict[str, Any] | None = None
) -> Subject:
    """A subject from a `Tree`, anything with a ``tree``, a fitted classifier (with the ``features`` before it), a fitted
    regressor or a model folder; models that cannot be asked are refused.

    ``columns`` are further per-node columns to show and colour by.
    """
    if isinstance(source, str | os.PathLike):
        return open_model(Path(source))
    if hasattr(source, "inputs") and hasattr(source, "answer_table"):  # what vpunn.fit made
        return table_subject(source, title)
    answers = None
    tree = source if isinstance(source, Tree) else getattr(source, "tree_", None)
    if tree is None:
        tree = getattr(source, "tree", None)
    if hasattr(source, "posterior") and hasattr(source, "tree_"):
        answers = ClassifierAnswers(source, features)
    elif hasattr(source, "predict_nodes") or hasattr(source, "node_proba_"):
        from vpunn.web.numbers import as_table, number_subject

        return number_subject(as_table(source), title or _title(source, source.tree_), columns)
    elif hasattr(source, "predict") and hasattr(source, "tree_"):
        name = type(source).__name__
        raise VpunnError(
            f"the explorer cannot ask a {name}; it asks a HiPaNClassifier, a VPuNNRegressor, a VPuNNClassifier and what "
            "`vpunn fit` wrote. "
            "Its tree alone is shown by `.tree_.explore()` of the loaded model."
        )
    if not isinstance(tree, Tree):
        raise VpunnError(
            f"the explorer shows a Tree, a fitted classifier or a model folder, got {type(source).__name__}."
        )
    if columns:
        tree = tree.replace(columns={**tree.columns, **columns})
    return Subject(tree, title or _title(source, tree), answers)


def scored_rows(subject: Subject, source: HasTree, X: Features, y: Targets) -> ScoredTable:
    """Rows with right answers, answered by the subject's classifier; a model of tables reads them from its columns."""
    from vpunn.web.batch import ScoredTable

    answers = subject.answers
    if not isinstance(answers, ClassifierAnswers) or answers.several:
        raise VpunnError("the explorer shows the mistakes of a classifier with one label a row; leave X and y out.")
    if y is None:
        raise VpunnError("mistakes need the right answers: explore(X, y).")
    return ScoredTable.of_rows(answers, source.rows(X, "X") if hasattr(source, "inputs") else X, y)


def _title(source: HasTree, tree: Tree) -> str:
    given = getattr(source, "title", None)
    return str(given) if isinstance(given, str) and given else str(tree.labels[0])


def is_model(path: Path) -> bool:
    """Whether a folder holds something that was saved with `vpunn.store`."""
    return (path / "model.json").is_file()


def open_model(path: Path) -> Subject:
    """Whatever was saved in a folder: a model of `vpunn fit` with the columns it reads, another model, or a tree."""
    from vpunn.store import Stored, load

    stored = Stored.open(path)
    if "inputs" in stored.settings:
        from vpunn.tables.models import open_table_model

        return table_subject(open_table_model(path), path.name)
    return as_subject(load(path), path.name)


def table_subject(table: Any, name: str | None = None) -> Subject:
    """A subject from a model of tables, which names the columns it reads; ``name`` is its title if it has no better one."""
    from vpunn.tables.regressor import TableRegressor
    from vpunn.web.numbers import number_subject

    inputs = table.inputs
    target = ", ".join(inputs.target)
    if hasattr(table.model, "models_"):
        raise VpunnError("the explorer shows one tree, and this model has several; explore one of `.model.models_`.")
    if isinstance(table, TableRegressor):
        return number_subject(table, f"{target} by {', '.join(inputs.levels)}" if inputs.levels else target)
    subject = Subject(table.tree_, name or target, ClassifierAnswers(table.model, table.features, table.inputs))
    if inputs.task is not None:
        subject.title = dataset_title(inputs.task)
    elif subject.name(0) not in UNNAMED:
        subject.title = subject.name(0)
    return subject


def dataset_title(name: str) -> str:
    """What a data set is called, briefly; a name that is none stays."""
    from vpunn.datasets.catalog import ALIASES, CATALOG

    key = ALIASES.get(name, name)
    named = key in CATALOG and key.startswith(name.partition("-")[0])  # mammalia is a part of ncbi
    return CATALOG[key].title.partition(",")[0] if named else name
