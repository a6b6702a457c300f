"""Models that know which columns of a table they read: what ``vpunn fit`` writes and the other commands open.

A `TableClassifier` places rows by text and numbers on a tree (`HiPaNClassifier`), a `TableRegressor` predicts a number from
level columns (`VPuNNRegressor`). Both read tables by the rules of `vpunn.tables.cells`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from vpunn._progress import Bar, following
from vpunn.errors import DataError, VpunnError
from vpunn.hipan import Views
from vpunn.hipan.answering import Answering
from vpunn.hipan.distribution import Rule, stop_at
from vpunn.store import OF_TABLES, Stored
from vpunn.tables.answers import Answers, kept_columns
from vpunn.tables.categories import forgotten
from vpunn.tables.cells import LabelCells, texts_of
from vpunn.tables.face import TableFace
from vpunn.tables.gaps import filled_numbers, numberless, with_medians
from vpunn.tables.inputs import Inputs
from vpunn.tables.level_classes import TableLevelClassifier
from vpunn.tables.regressor import TableRegressor
from vpunn.tables.samples import TableRows
from vpunn.tables.scores import ClassScores, Scores
from vpunn.tables.truth import Remark, Truth, Unseen, true_nodes
from vpunn.text.tfidf import TextReader
from vpunn.tree import Tree
from vpunn.tree.lookup import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd

    from vpunn._types import Features, FilePath, Labels, Targets
    from vpunn.hipan.classifier import HiPaNClassifier, Keep
    from vpunn.text import TextFeatures


class TableClassifier(TableFace):
    """A `HiPaNClassifier`, or the half of it that answers, with the columns it reads and, for texts, their features.

    `vpunn.fit` makes one of a data frame, ``vpunn fit`` of a table file. Texts and numbers together are two blocks, "words" and
    "numbers"; categories are numbers, too.
    """

    def __init__(self, model: Answering, inputs: Inputs, features: TextFeatures | TextReader | None = None) -> None:
        self.model, self.inputs, self.features = model, inputs, features

    @classmethod
    def fit(
        cls,
        sample: TableRows,
        inputs: Inputs,
        *,
        tree: Tree | None = None,
        characters: bool = True,
        mixed: str = "cut",
        answers: str = "auto",
        seed: int = 0,
        bar: Bar | None = None,
    ) -> Self:
        """Fit on rows of a table; without a tree it is grown from the labels."""
        from vpunn.hipan.classifier import HiPaNClassifier

        bar = bar or Bar()
        where = sample.report.where
        inputs, features = with_medians(inputs, sample.frame, where), None
        with bar.stage("features", 20):
            if inputs.text:
                features = new_text_features(characters, len(sample), mixed)
                _fit_texts(features, texts_of(sample.frame, inputs.text, where, inputs.block("words")), where)
        if answers == "auto" and tree is None and len(inputs.target) > 1 and not sample.cells.ends:
            answers = "leaves"  # level columns that are filled to the last list all places there are
        model = HiPaNClassifier(tree, answers=answers, random_state=seed)  # type: ignore[arg-type]
        made = cls(model, inputs, features)
        X = made.rows(sample.frame, where)
        with bar.stage("classifier", 80) as part, following(part):
            model.fit(X, made.labels(sample.cells), groups=sample.groups)
        made.report = sample.report
        return made

    def labels(self, cells: LabelCells) -> Targets:
        """The target as the classifier takes it."""
        return cells.labels()

    def save(self, path: FilePath, provenance: Mapping[str, Any] | None = None, keep: Keep = "rows") -> Path:
        """Write a folder that `vpunn.load` and the commands open; ``provenance`` says where the rows were from.

        It holds every row as the model reads it; with ``keep="sums"`` none, see `HiPaNClassifier.save`.
        """
        draft = self.model.draft(provenance) if keep == "rows" else self._learner.draft(provenance, keep=keep)
        draft.settings["inputs"] = self.inputs.settings()
        if self.features is not None:
            draft.add("features", self.features)
        return draft.write(path)

    @property
    def _learner(self) -> HiPaNClassifier:
        if type(self.model) is Answering:
            raise VpunnError("this model was opened to answer only; open it with vpunn.load.")
        return cast("HiPaNClassifier", self.model)

    def forget(self, rows: Labels) -> Self:
        """Take training rows out, by their numbers in the order in which they were read (`HiPaNClassifier.forget`).

        Words and categories that no other row has go with them; medians of numbers, the tree and its labels stay.
        """
        model, layout = self._learner.forget(rows), self.model.layout_
        if self.features is not None:
            cast("TextFeatures", self.features).forget(model.unheard(layout.names[0]))
        if self.inputs.categories:
            self.inputs = forgotten(self.inputs, model.held_rows().blocks[-1])
        self.report = None
        return self

    def refresh(self) -> Self:
        """Learn everything again from the rows that the model holds."""
        self._learner.refresh()
        return self

    def rows(self, frame: pd.DataFrame, where: object) -> Features:
        """The features of a table's rows: words, numbers (medians where they are missing), or both as blocks."""
        inputs, words = self.inputs, None
        if self.features is not None:
            words = self.features.transform(texts_of(frame, inputs.text, where, inputs.block("words")))
        return as_blocks(words, filled_numbers(frame, inputs, where) if inputs.numeric else None)

    def known(self, X: Features, frame: pd.DataFrame | None = None, where: object = None) -> np.ndarray:
        """Which rows hold anything the model knows; the answer for the others is the prior, or that of medians.

        ``frame`` is the table that ``X`` was made of: its rows may lack all numbers.
        """
        if hasattr(X, "indptr"):
            return np.asarray(np.diff(X.indptr) > 0)
        words = X["words"] if isinstance(X, Mapping) else None
        given = np.ones(len(X) if words is None else words.shape[0], bool)
        if frame is not None:
            given = ~numberless(frame, self.inputs, where)
        if words is None:
            return given
        return np.asarray((np.diff(words.indptr) > 0) | given)

    @property
    def fallback(self) -> str:
        """What answers rows that hold nothing the model knows."""
        return "medians" if self.inputs.numeric else "prior"

    def feature_names(self) -> list[str]:
        """What the features are called, as `by_word` takes them apart: ``words__…``, ``characters__…`` and ``numbers__column``
        (of a category as often as it has values)."""
        words = [] if self.features is None else self.features.get_feature_names_out().tolist()
        kinds = zip(self.inputs.categories, self.inputs.values, strict=True)
        numeric = [*self.inputs.columns, *(name for name, values in kinds for _ in values)]
        return [*words, *(f"numbers__{name}" for name in numeric)]

    def answers(
        self, X: Features, *, top: int = 1, rule: Rule = "node", stop: str | None = None, **options: Any
    ) -> Answers:
        """Nodes and their probabilities, (rows, answers): the most probable ones, or one ball per row with ``stop``."""
        posterior = self.model.posterior(X)
        if stop is not None:
            nodes = stop_at(posterior, stop, scores=self.model.miss_scores_, **options)
            balls, p = posterior.chain(nodes)
            last = (balls >= 0).sum(1) - 1
            return Answers(
                self.model.tree_, self.model.tree_.labels, nodes[:, None], p[np.arange(len(p)), last][:, None]
            )
        if rule == "node":
            nodes, p = posterior.top_k(min(top, len(self.model.class_nodes_)))
            return Answers(self.model.tree_, self.model.labels_, nodes, p)
        best = posterior.best(rule)
        return Answers(self.model.tree_, self.model.labels_, best[:, None], posterior.exact(best)[:, None])

    def predict(self, frame: pd.DataFrame) -> Any:
        """A value of the target for every row, as the training rows write it: labels, or a frame of level columns."""
        nodes = self.answers(self.rows(frame, "the frame")).nodes[:, 0]
        if self.inputs.path_sep is None and len(self.inputs.target) == 1:
            return self.model.labels_[nodes]
        return self._paths(nodes, frame)

    def _paths(self, nodes: np.ndarray, frame: pd.DataFrame) -> Any:
        """Places as level columns, None below the last level; or as paths, as the target writes them."""
        import pandas as pd

        different, place = np.unique(nodes, return_inverse=True)
        paths = [[None if x == UNKNOWN else x for x in self.model.tree_.path(node)[1:]] for node in different.tolist()]
        if self.inputs.path_sep is not None:
            return np.array([self.inputs.path_sep.join(map(str, path)) for path in paths], object)[place.ravel()]
        names = list(self.inputs.target)
        cells = [[*path, *[None] * (len(names) - len(path))] for path in paths]
        return pd.DataFrame(cells, columns=names, dtype=object).iloc[place.ravel()].set_index(frame.index)

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        """The probability of each of ``classes_``, (rows, classes)."""
        return np.asarray(self.model.predict_proba(self.rows(frame, "the frame")))

    @property
    def classes_(self) -> np.ndarray:
        """The labels that `predict` answers with, the columns of `predict_proba`."""
        return np.asarray(self.model.classes_)

    def answer_table(
        self, frame: pd.DataFrame, where: object = "the frame", *, keep: Sequence[str] = (), **options: Any
    ) -> pd.DataFrame:
        """`said` as a frame, with columns of the table handed through."""
        import pandas as pd

        X = self.rows(frame, where)
        kept = kept_columns(frame, keep, where)
        return pd.DataFrame(self.said(X, kept, self.known(X, frame, where), **options))

    def ask(self, text: str, **options: Any) -> dict[str, Any]:
        """`said` of one text, which stands in the first of the columns."""
        assert self.features is not None
        X = self.features.transform([text + " " * (len(self.inputs.text) - 1)])
        return self.said(X, {}, self.known(X), **options)

    def said(self, X: Features, kept: Mapping[str, Any], known: np.ndarray, **options: Any) -> dict[str, Any]:
        """One row per answer, as columns: row, kept ones, label, probability, depth, node, path, and whether anything was known."""
        return self.answers(X, **options).columns(kept, known)

    def truth(self, frame: pd.DataFrame, where: object, unseen: Unseen = "ancestor") -> Truth:
        """Which rows are scored, and the nodes that are true of them; see `vpunn.tables.truth`."""
        return true_nodes(frame, self.inputs, self.model.label_tree_, where, unseen)

    def remarks_on(self, X: Features, frame: pd.DataFrame, where: object) -> tuple[Remark, ...]:
        """Rows that hold nothing the model knows."""
        dark, what = int((~self.known(X, frame, where)).sum()), "nothing the model knows"
        return (Remark(dark, f"row holds {what}", f"rows hold {what}", f" (answered by the {self.fallback})"),)

    def score(self, X: Features, truth: Truth, where: object) -> Scores:
        """Scores of the answers against nodes."""
        return ClassScores.of(self.model, X, truth.answers, truth.wrong)


TableModel = TableClassifier | TableRegressor


def open_table_model(path: Path, *, answers_only: bool = False) -> TableModel:
    """A folder that ``vpunn fit`` wrote; with ``answers_only`` its classifier cannot learn on, and needs no scikit-learn."""
    return table_model_of(Stored.open(path), answers_only=answers_only)


def table_model_of(stored: Stored, *, answers_only: bool = False) -> TableModel:
    """The model of an opened folder."""
    path = stored.path
    if stored.kind not in OF_TABLES:
        raise DataError(
            f"{str(path)!r} holds a {stored.kind}, not a model that `vpunn fit` wrote; `vpunn info {path}` says what it is."
        )
    inputs = Inputs.from_settings(stored.settings.get("inputs"), path)
    if stored.kind in ("VPuNNRegressor", "TreeSampleRegressor"):
        from vpunn.regress import TreeSampleRegressor, VPuNNRegressor

        of_numbers = VPuNNRegressor if stored.kind == "VPuNNRegressor" else TreeSampleRegressor
        return TableRegressor(of_numbers.from_stored(stored), inputs)
    if stored.kind == "VPuNNClassifier":
        from vpunn.regress import VPuNNClassifier

        return TableLevelClassifier(VPuNNClassifier.from_stored(stored), inputs)
    kinds: tuple[type[Answering], type[TextFeatures] | type[TextReader]] = Answering, TextReader
    if not answers_only:
        from vpunn.hipan.classifier import HiPaNClassifier
        from vpunn.text import TextFeatures

        kinds = HiPaNClassifier, TextFeatures
    features = stored.get("features", kinds[1]) if inputs.text else None
    kind = TableClassifier
    if inputs.label_sep is not None:
        from vpunn.tables.sets import SetTableClassifier

        kind = SetTableClassifier
    return kind(kinds[0].from_stored(stored), inputs, features)


def as_blocks(words: Features, numbers: np.ndarray | None) -> Features:
    """Features of texts and of numeric columns as a classifier takes them: one matrix, or two blocks."""
    if words is None or numbers is None:
        return numbers if words is None else words
    return Views(words=words, numbers=numbers)


def new_text_features(characters: bool, rows: int, mixed: str = "whole") -> TextFeatures:
    """Text features; words of a single row help to recognise its class, its character n-grams are too many to keep."""
    from vpunn.text import text_features

    least = 2 if characters and rows > 1000 else 1
    return text_features(characters=(3, 5) if characters else None, min_rows=least, mixed=mixed)  # type: ignore[arg-type]


def _fit_texts(features: TextFeatures, texts: list[str], where: object) -> None:
    """Learn the words of the training texts, which must have some."""
    try:
        features.fit(texts)
    except ValueError as error:
        if "hold no word" in str(error):
            raise DataError(
                f"the texts of {str(where)!r} hold no word (letters or digits); name another column in --text, or fill it in."
            ) from None
        raise DataError(f"the texts of {str(where)!r} give no features: {str(error).rstrip('.')}.") from error
