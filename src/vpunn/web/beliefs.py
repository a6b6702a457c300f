"""A fitted classifier behind the API: questions in, its posterior out, as the library answers them.

Every number comes from `HiPaNClassifier.posterior`, so the service says exactly what ``predict``, ``top_k`` and the command line
say. A question is a handful of rows; `ClassifierAnswers.answer` puts those of many questions into one call of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._rows import slices
from vpunn.errors import examples
from vpunn.web.asked import Wanted
from vpunn.web.questions import check_cells, check_fields, fill_gaps, read_list, read_numbers
from vpunn.web.remembered import Remembered
from vpunn.web.replies import ApiError
from vpunn.web.subject import clean, clip

if TYPE_CHECKING:
    from vpunn._types import Beliefs, FeatureNames, Features, FittedModel, Vectorizer
    from vpunn.hipan.distribution import NodeDistribution
    from vpunn.hipan.set_posterior import SetPosterior
    from vpunn.tables.inputs import Inputs
    from vpunn.tree import Tree


#: Balls less probable than this are not sent: they would not be visible.
FAINT = 1e-3
#: Answers listed for a row at most, and words shown for a turn.
MAX_TOP = 100
WORDS = 8
#: Training rows that are shown beside an answer.
NEAREST = 3
#: Texts whose words are counted in one piece, and characters that one may have: nobody can break into a piece.
TEXTS, TEXT_LENGTH = 256, 1_000_000


@dataclass(frozen=True)
class Ask:
    """A checked question: features, and what is wanted about each row."""

    X: Any
    top: int
    risk: float | None
    threshold: float | None
    explain: bool
    beliefs: bool
    text: str | None = None  #: what the first row says, for its explanation; None if only features are known
    cells: Mapping[str, str] = field(default_factory=dict)  #: its numbers, as they are shown
    notes: tuple[str, ...] = ()  #: what reading the rows changed

    def __len__(self) -> int:
        first = next(iter(self.X.values())) if isinstance(self.X, Mapping) else self.X
        return int(first.shape[0])

    def pieces(self, size: int) -> list[Ask]:
        """The question in pieces of so many rows: what is said of a row does not depend on the others."""
        if len(self) <= size:
            return [self]
        return [replace(self, X=_rows_of(self.X, part)) for part in slices(len(self), size)]


class ClassifierAnswers:
    """A model, the text features in front of it (or None), and the columns it reads (None if it names none)."""

    def __init__(self, model: FittedModel, features: Vectorizer = None, inputs: Inputs | None = None) -> None:
        self.model = model
        self.features = features
        self.inputs = inputs
        self.several = bool(getattr(model, "multilabel_", False))  # labels per row
        self.kind = "sets" if self.several else "places"
        self.text, self.numeric = ([], []) if inputs is None else (list(inputs.text), list(inputs.columns))
        self.categories = [] if inputs is None else list(inputs.categories)
        self.columns = [*self.text, *self.numeric, *self.categories]
        self.targets = [] if inputs is None else list(inputs.target)
        self.path_sep = None if inputs is None else inputs.path_sep

    @property
    def _numbers(self) -> bool:
        """Whether the model reads numbers, or categories as numbers."""
        return bool(self.numeric or self.categories)

    @cached_property
    def names(self) -> FeatureNames:
        """Names of the features; making those of half a million words takes longer than an answer."""
        if self.features is None:
            return None
        kinds = zip(self.categories, () if self.inputs is None else self.inputs.values, strict=True)
        return np.array(
            [*self.features.get_feature_names_out(), *self.numeric, *(n for n, all_of in kinds for _ in all_of)]
        )

    @cached_property
    def remembered(self) -> Remembered:
        """The training rows that the model holds."""
        return Remembered(self)

    def examples(self) -> list[dict[str, Any]]:
        """A few questions to start with."""
        return self.remembered.examples()

    @property
    def tree(self) -> Tree:
        """The tree whose nodes are the answers."""
        found: Tree = self.model.tree_
        return found

    def summary(self) -> dict[str, Any]:
        """What can be asked."""
        return {
            "kind": type(self.model).__name__,
            "input": "columns" if self._numbers else "text" if self.features is not None else "numbers",
            "columns": self.columns,
            "numeric": self.numeric,
            "features": int(self.model.n_features_in_),
            "target": ", ".join(self.targets) or None,
            "answers": self.kind,
        }

    def warm(self) -> None:
        """Answer an empty question once: compiles what is not compiled, reads what is mapped."""
        from vpunn.tables.models import as_blocks  # with scikit-learn, which a tree alone does without

        X: Any = np.zeros(
            (1, self.inputs.width if self.inputs is not None and self._numbers else self.model.n_features_in_)
        )
        if self.features is not None:
            X = as_blocks(self.features.transform(["warm"]), X if self._numbers else None)
        self.answer([Ask(X, 3, 0.1, None, True, True)])

    # ---- questions ---------------------------------------------------------------------------------------------------

    def words(self, texts: Sequence[str], where: str, wanted: Wanted) -> Features:
        """What the model reads of texts, some at a time."""
        longest = max(map(len, texts), default=0)
        if longest > TEXT_LENGTH:
            raise ApiError(413, f"a text has {longest:,} characters; at most {TEXT_LENGTH:,} are read.", where)
        parts = []
        for part in slices(len(texts), TEXTS):
            wanted.check()
            parts.append(self.features.transform(texts[part]))
        return _stacked(parts)

    def read_ask(self, body: dict[str, Any], max_rows: int, wanted: Wanted | None = None) -> Ask:
        """A question from its JSON; every field is checked."""
        check_fields(body, {"texts", "rows", "X", "top", "risk", "threshold", "explain", "beliefs"})
        given = [name for name in ("texts", "rows", "X") if name in body]
        if len(given) != 1:
            raise ApiError(422, "give exactly one of texts, rows and X.", "body")
        listed = read_list(body, given[0], max_rows)
        risk, threshold = (_share(body, name) for name in ("risk", "threshold"))
        if risk is not None and threshold is not None:
            raise ApiError(422, "give either a risk or a threshold: they are two rules for where to stop.", "risk")
        if risk is not None and not 0 < risk < 1:
            raise ApiError(422, f"risk must lie between 0 and 1, got {risk!r}.", "risk")
        top = body.get("top", 5)
        if isinstance(top, bool) or not isinstance(top, int) or not 0 <= top <= MAX_TOP:
            raise ApiError(422, f"top must be a whole number from 0 to {MAX_TOP}, got {clip(repr(top))}.", "top")
        flags = [body.get(name, False) for name in ("explain", "beliefs")]
        if any(not isinstance(flag, bool) for flag in flags):
            raise ApiError(422, "explain and beliefs are true or false.", "explain")
        if any(flags) and len(listed) > 1:
            raise ApiError(422, "explain and beliefs are for one row at a time.", given[0])
        X, notes = self._features(given[0], listed, wanted or Wanted())  # which refuses what is no text or number
        text, cells = self._said(given[0], listed[0], X)
        return Ask(X, top, risk, threshold, flags[0], flags[1], text, cells, tuple(notes))

    def _features(self, kind: str, listed: list[Any], wanted: Wanted) -> tuple[Features, list[str]]:
        """The features of a question's rows, and what was done about missing numbers."""
        from vpunn.tables.models import as_blocks  # with scikit-learn, which a tree alone does without

        if kind != "rows" and self.features is not None and self._numbers:
            more = [*self.numeric, *self.categories]
            raise ApiError(422, f"this model reads texts and the columns {examples(more)}; ask with rows.", kind)
        if kind == "X":
            return read_numbers(listed, int(self.model.n_features_in_), kind), []
        if kind == "texts":
            if self.features is None:
                raise ApiError(422, "this model was fitted on numbers; ask with rows or X.", "texts")
            wrong = [text for text in listed if not isinstance(text, str)]
            if wrong:
                raise ApiError(422, f"texts must be strings, got {clip(repr(wrong[0]))}.", "texts")
            return self.words(listed, kind, wanted), []
        check_cells(listed, self.columns)
        words, numbers, notes = None, None, list[str]()
        if self.features is not None:
            texts = [[row[name] for name in self.text] for row in listed]
            words = self.words([" ".join("" if c is None else str(c) for c in row) for row in texts], kind, wanted)
        if self.inputs is not None and self._numbers:
            given = read_numbers([[row[name] for name in self.numeric] for row in listed], len(self.numeric), kind)
            numbers, notes = fill_gaps(given, self.inputs, [[row[name] for name in self.categories] for row in listed])
        return as_blocks(words, numbers), notes

    def _said(self, kind: str, row: Any, X: Features) -> tuple[str | None, dict[str, str]]:
        """The text of a question and its numbers as they are shown; no text where features were given in place of it."""
        if kind == "X" or self.features is None:
            return None, {}
        if kind == "texts":
            return row, {}
        words = " ".join("" if row[name] is None else str(row[name]) for name in self.text)
        numbers = X["numbers"][0].tolist() if self.numeric else []
        cells = {name: f"{number:.4g}" for name, number in zip(self.numeric, numbers, strict=False)}
        return words, cells | {name: str(row[name]) for name in self.categories}

    # ---- answers -----------------------------------------------------------------------------------------------------

    def answer(self, asks: list[Ask]) -> list[dict[str, Any]]:
        """The answer to every question, from one posterior of all their rows."""
        if len({type(ask.X) for ask in asks}) > 1:  # texts beside features
            return [self.answer([ask])[0] for ask in asks]
        posterior = self.model.posterior(_stacked([ask.X for ask in asks]))
        best = posterior.best()
        balls, p = posterior.chain(best)
        most = min(max(ask.top for ask in asks), self.tree.n_nodes)
        top = posterior.top_k(most) if most else (np.zeros((len(best), 0), np.int64), np.zeros((len(best), 0)))
        found, start = [], 0
        for ask in asks:
            rows = range(start, start + len(ask))
            stops = self._stops(posterior, ask)
            answers = [self._row(r, best, balls, p, top, ask, stops) for r in rows]
            if self.several:
                for one, labels in zip(answers, self._sets(posterior, ask, rows), strict=True):
                    one["labels"] = labels
            if ask.beliefs:
                answers[0]["beliefs"] = self._beliefs(posterior, start)
            if ask.explain:
                answers[0] |= self._why(ask)
            found.append({"answers": answers, "notes": list(ask.notes)})
            start += len(ask)
        return found

    def _row(
        self,
        r: int,
        best: np.ndarray,
        balls: np.ndarray,
        p: np.ndarray,
        top: tuple[np.ndarray, np.ndarray],
        ask: Ask,
        stops: np.ndarray | None,
    ) -> dict[str, Any]:
        node, depth = int(best[r]), int(self.tree.depth[best[r]])
        chain = zip(balls[r, : depth + 1].tolist(), p[r, : depth + 1].tolist(), strict=True)
        listed = zip(top[0][r, : ask.top].tolist(), top[1][r, : ask.top].tolist(), strict=True)
        found: dict[str, Any] = {
            **self._name(node),
            "path": [{**self._name(i), "probability": q} for i, q in chain],
            "top": [{**self._name(i), "probability": q} for i, q in listed if i >= 0],
        }
        if stops is not None:
            found["stop"] = self._name(int(stops[r]))
        return found

    def _sets(self, posterior: SetPosterior, ask: Ask, rows: range) -> list[list[dict[str, Any]]]:
        """Of a model of label sets, the labels of each row under the question's rule: at least as likely as not by default."""
        from vpunn.hipan.set_posterior import deepest_only

        threshold = 0.5 if ask.threshold is None else ask.threshold
        if ask.risk is not None:
            threshold = posterior.model.threshold_for(ask.risk)
        kept = deepest_only(self.tree, posterior.above(threshold))
        p = posterior.node_proba()
        sets = [kept.indices[kept.indptr[r] : kept.indptr[r + 1]] for r in rows]
        return [
            [
                {**self._name(int(i)), "probability": float(p[r, i])}
                for i in nodes[np.argsort(-p[r, nodes], kind="stable")]
            ]
            for r, nodes in zip(rows, sets, strict=True)
        ]

    def _name(self, node: int) -> dict[str, Any]:
        return {"node": node, "label": clean(str(self.tree.labels[node]))}

    def _stops(self, posterior: NodeDistribution, ask: Ask) -> np.ndarray | None:
        """Where each row's answer stops under the question's rule; of all rows, since that is what the rules take."""
        from vpunn.hipan.distribution import stop_at

        if self.several:  # a set has no one place to stop
            return None
        if ask.risk is not None:
            return stop_at(posterior, "risk", alpha=ask.risk, scores=self.model.miss_scores_)
        return None if ask.threshold is None else stop_at(posterior, "threshold", threshold=ask.threshold)

    def _beliefs(self, posterior: Beliefs, row: int) -> dict[str, Any]:
        """The probability of every ball that can be seen."""
        p = (
            posterior.node_proba()[row]
            if self.several
            else self.tree.subtree_sum(posterior.masses(slice(row, row + 1))[0])
        )
        nodes = np.flatnonzero(p >= FAINT)
        return {"nodes": nodes.tolist(), "probabilities": np.minimum(p[nodes], 1.0).tolist()}

    def _why(self, ask: Ask) -> dict[str, Any]:
        """What spoke, as `vpunn explain` tells it: words and numbers at each turn, parts of the model, rows most like this one."""
        from vpunn.explanations import BallContribution, explain

        names = (self.numeric or None) if self.names is None else self.names
        k = WORDS if ask.text is None else int(self.model.n_features_in_)  # a word is told with all its n-grams
        found: Any = explain(self.model, ask.X, k=k, feature_names=names)
        # Of label sets the likeliest label is explained; else each ball (the posterior comes from a classifier).
        balls = [found] if self.several else [ball for ball in found.balls if isinstance(ball, BallContribution)]
        turns = [
            {
                **self._name(ball.node),
                "stops": bool(getattr(ball, "stops_here", False)),
                "probability": ball.probability,
                "head": ball.head,
                "spoke": [[clean(name), value] for name, value in self._spoke(ask, ball.features)],
            }
            for ball in balls
        ]
        near = found.neighbours if self.several else found.near
        at = found.node if self.several else None
        nearest = [{**self.remembered.told(row, at), "likeness": likeness} for row, likeness in near[:NEAREST]]
        return {"turns": turns, "speakers": list(getattr(found, "spoke", {}).items()), "nearest": nearest}

    def _spoke(self, ask: Ask, features: list[tuple[str, float]]) -> list[tuple[str, float]]:
        from vpunn.text import by_word

        if ask.text is None:
            return [(str(name).partition("__")[2] or str(name), value) for name, value in features]
        named = [(f"numbers__{name}" if name in self.numeric else str(name), value) for name, value in features]
        return by_word(ask.text, named, ask.cells)[:WORDS]

    def describe(self, node: int) -> Any:
        """What the model knows of a ball; of label sets, which have no rows of a ball alone, what the tree says."""
        from vpunn.explanations import describe_ball

        labels, source = self.tree.labels, self.tree if self.several else self.model
        return describe_ball(source, labels[node] if labels.dtype.kind in "iu" else node, feature_names=self.names)


def _rows_of(X: Any, part: slice) -> Any:
    """Some rows of a matrix, or of every block."""
    return {name: _rows_of(block, part) for name, block in X.items()} if isinstance(X, Mapping) else X[part]


def _stacked(parts: list[Any]) -> Features:
    """Features of several questions as one: matrices of a kind, or blocks of them."""
    from scipy import sparse

    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], Mapping):
        return {name: _stacked([part[name] for part in parts]) for name in parts[0]}
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.vstack(parts)


def _share(body: dict[str, Any], name: str) -> float | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ApiError(422, f"{name} must be a number between 0 and 1, got {clip(repr(value))}.", name)
    return float(value)
