"""`HiPaNClassifier`: place items on a tree, with a probability for every branch, calibrated on held-out rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from vpunn._progress import announced_compiling, reached
from vpunn._rows import row_groups, row_weights
from vpunn._seed import generator_of
from vpunn._sklearn import BaseEstimator, ClassifierMixin
from vpunn.errors import VpunnError, check_choice, check_whole
from vpunn.hipan import (
    calibration,
    conformal,
    engine,
    explanation,
    holding,
    inputs,
    set_answers,
    set_targets,
    targets,
)
from vpunn.hipan.answering import Answering
from vpunn.hipan.engine import Task
from vpunn.hipan.experts import Rows, experts_of, own_of
from vpunn.hipan.explanation import Explanation
from vpunn.hipan.folds import equal_rows, joined
from vpunn.hipan.layout import Layout
from vpunn.store import Draft

if TYPE_CHECKING:
    from vpunn._types import (
        Descriptions,
        FeatureNames,
        Features,
        FilePath,
        Groups,
        Label,
        Labels,
        Targets,
        Validation,
        Vectorizer,
        Weights,
    )
    from vpunn.hipan.set_answers import SetExplanation
    from vpunn.hipan.set_posterior import SetPosterior

#: What of the training rows is written.
Keep = Literal["rows", "sums"]


class HiPaNClassifier(ClassifierMixin, Answering, BaseEstimator):
    """Classifier whose labels are nodes of a tree, leaves or inner nodes of any depth.

    Experts look at a row: sums of rows per branch, nearest rows, linear heads, a dictionary, discriminant analysis. Each says what
    speaks for a few places; one small combiner, fitted on rows held out inside ``fit``, weighs what they say against each other and
    against *the answer is elsewhere below this branch*. What comes out is a probability for every node (README.md of this room).

    Parameters
    ----------
    tree : the tree whose labels ``y`` uses. Without one it is built from ``y``: level columns or tuples give their
        paths, plain labels a root with one child per class.
    novelty : may a question belong to a class without training rows? "auto": yes if `fit` made the tree from paths, or more than
        one leaf in a hundred has no rows. If you made the tree from the labels pass True, for a closed list False;
        a share of the questions, such as 0.3, where you know it better than training rows tell.
    class_prior : how often questions belong to each class that has rows. "rows": as often as training rows; "uniform": all alike,
        as where a list has one row for some classes and many for others; or a weight for each of ``classes_``.
    experts : names of the experts that speak (None: all): Sums, Nearest, Heads, Dictionary, Descriptions of words, Gaussian,
        NearestNumbers, LinearNumbers of numbers; and classifiers of scikit-learn that have probabilities, each of which is fitted
        on every dense block, for up to 200 classes. Of such a classifier nothing can be saved: `save` refuses.
    answers : which nodes `predict` and `top_k` answer with. "auto": leaves where all training labels are leaves and ``novelty`` is
        off, else any node; "leaves" or "all" ask for them.
    n_jobs : threads that answer (None: one, -1: one per core); the bits stay the same.
    random_state : seed; the same seed gives the same bytes.

    Sparse X holds words or counts, dense X numbers; a dict of both is several blocks. An empty row gets what is usual. Cost: about
    O(non-zeros x depth) memory, five passes of the experts to fit, 0.1-0.5 ms a row to predict.

    >>> from vpunn import Tree
    >>> tree = Tree.from_paths([("animal", "bird"), ("animal", "fish"), ("plant", "tree"), ("plant", "fern")], root="life")
    >>> X = np.array([[2, 0, 1, 0], [0, 2, 1, 0], [2, 0, 0, 1], [0, 2, 0, 1]] * 5, dtype=float)
    >>> model = HiPaNClassifier(tree, random_state=0).fit(X, ["bird", "fish", "tree", "fern"] * 5)
    >>> model.predict(X[:2]).tolist()
    ['bird', 'fish']
    >>> p = model.predict_node_proba(X[:1])[0]
    >>> bool(p[tree.index("animal")] >= p[tree.index("bird")]), round(float(p[0]), 6)
    (True, 1.0)
    """

    @announced_compiling()
    def fit(
        self,
        X: Features,
        y: Targets,
        *,
        sample_weight: Weights = None,
        X_nodes: Descriptions = None,
        groups: Groups = None,
        multilabel: bool = False,
        classes: Labels = None,
        validation: Validation = None,
    ) -> HiPaNClassifier:
        """Fit on rows ``X`` and their labels.

        Rows may have several labels each: a `set` per row, a sparse indicator with ``classes=`` (the labels of its columns), or
        with ``multilabel=True`` lists or a dense indicator. Then ``multilabel_`` is true, `predict` answers with sets and the
        probability of a node means "some answer lies in it" (docs/label_sets.md); with ``validation=(X, y)`` the combiner learns
        from those rows and none are held out. If every set has one label the model is that of plain labels.

        ``X`` is one matrix, or a dict (or `Views`) of named blocks of features, such as ``{"words": X, "meaning": E}``.
        ``X_nodes`` has one row of features per node of the tree (rows may be empty): a matrix, or a dict with a matrix for some of
        the blocks. Several kinds of description (names, definitions) are given as a list of such matrices. Descriptions count as
        training rows of their node, and each kind is also compared directly. Rows of one of the ``groups`` (texts of one source)
        are held out together, and so are rows with the same features.
        """
        return self._fit(
            X,
            y,
            sample_weight=sample_weight,
            X_nodes=X_nodes,
            groups=groups,
            multilabel=multilabel,
            classes=classes,
            validation=validation,
        )

    def _fit(
        self,
        X: Features,
        y: Targets,
        *,
        sample_weight: Weights = None,
        X_nodes: Descriptions = None,
        groups: Groups = None,
        multilabel: bool = False,
        classes: Labels = None,
        validation: Validation = None,
        run: engine.Run = engine.here,
    ) -> HiPaNClassifier:
        """`fit`; ``run`` says where the parts of the work are done (label sets are learned here)."""
        self._check_params()
        if y is None:
            raise VpunnError("requires y to be passed, but the target y is None.")
        with whole_or_as_before(self):
            sets = set_targets.read_sets(y, multilabel, classes)
            if sets is not None and not sets.single():
                if self.experts is not None or not isinstance(self.class_prior, str) or self.class_prior != "rows":
                    raise VpunnError("class_prior and experts are for rows with one label each; these have several.")
                return set_answers.fit(self, X, sets, sample_weight, X_nodes, groups, validation)
            if validation is not None:
                raise VpunnError(
                    "validation= teaches the combiner of rows with several labels; these have one each: leave it out."
                )
            self.multilabel_, y = False, y if sets is None else list(sets.labels)
            # 1. inputs: blocks of columns, a node and a weight for every row
            blocks = inputs.checked_blocks(self, X)
            n = next(iter(blocks.values())).shape[0]
            y, flat = targets.checked(y, n), None
            if self.tree is None:
                self.tree_, node, flat = targets.tree_of(y)
            else:
                self.tree_, node = self.tree, targets.check_in_tree(self.tree, y)
            weight = inputs.checked_weight(sample_weight, n)
            group = row_groups(groups, n)
            self.layout_ = Layout.of(blocks)
            chosen = self._chosen()
            keep = weight > 0
            rows = self.layout_.read(blocks)
            if not keep.all():
                rows, node, weight = rows.take(np.flatnonzero(keep)), node[keep], weight[keep]
                group = None if group is None else group[keep]
            del X, blocks
            task = Task(self.tree_, rows, node, weight, len(node), group, experts=chosen)
            if X_nodes is not None:
                task = _described(task, X_nodes, self.layout_, flat is not None)
            made_here = self.tree is None and flat is None
            return self._learn(task, True if self.novelty == "auto" and made_here else self.novelty, flat, run)

    def _chosen(self) -> tuple[Any, ...] | None:
        """``experts``, each block having one."""
        chosen = None if self.experts is None else tuple(self.experts)
        for name, dense in zip(self.layout_.names, self.layout_.dense, strict=True):
            if not experts_of(dense, chosen) and not (dense and own_of(chosen)):
                kinds = ", ".join(k.__name__ for k in experts_of(dense, None))
                raise VpunnError(f"experts names none that reads block {name!r}: {kinds} do.")
        return chosen

    def _learn(
        self, task: Task, novelty: Any, flat: np.ndarray | None, run: engine.Run = engine.here
    ) -> HiPaNClassifier:
        rng = generator_of(self.random_state)
        group = equal_rows([block[: task.n] for block in task.rows.blocks])
        group = group if task.groups is None else joined(group, task.groups)
        with threadpool_limits(1, user_api="blas"):  # sums in another order are other bytes
            # 2. folds, evidence, combiner and experts
            self.model_, held = engine.fit(task, novelty, rng, run=run)
            self.rows_at_ = holding.counts(task)
            self._set_classes(flat)
            self._weigh_classes()
            # 3. calibration on what was held out
            reached("calibration", 0.9)
            self.miss_scores_, self.held_out_exact_ = calibration.measured(self.model_, held, group, rng)
        self.task_, self.changed_rows_ = task, 0
        return self

    def forget(self, rows: Labels) -> HiPaNClassifier:
        """Take training rows out, by their numbers in the order in which they were learned (rows of weight 0 are not among them).

        All experts are fitted again on the rows that stay, so every sum, head and neighbour is what a fit without these rows has.
        The combiner and the calibration are from before until `refresh`; ``changed_rows_`` counts how many rows they do not
        know of. The tree and its labels stay, and rows behind a forgotten one move up. What was saved before still holds the row.
        """
        with whole_or_as_before(self):
            if self._several():
                set_answers.forget(self, rows)
                return self
            task = holding.held(self)
            gone = holding.row_numbers(rows, task.n)
            holding.learned(self, holding.without(task, gone), len(gone))
        return self

    def refresh(self) -> HiPaNClassifier:
        """Learn everything again from the rows that the model holds, the combiner and the calibration too."""
        with whole_or_as_before(self):
            if self._several():
                set_answers.refresh(self)
            else:
                holding.renewed(self, holding.held(self))
        return self

    def held_rows(self) -> Rows:
        """The training rows as the experts read them, a matrix for each block."""
        return self.sets_.rows if self._several() else holding.held(self).rows

    def unheard(self, block: str = "") -> np.ndarray:
        """Columns of a block of words that no training row and no description has; `TextFeatures.forget` blanks their words."""
        texts = () if self._several() else holding.held(self).described
        return holding.unheard(self.layout_, self.held_rows(), texts, block)

    def calibrate(self, X: Features, y: Targets) -> HiPaNClassifier:
        """Recalibrate on rows that ``fit`` has not seen.

        The conformal threshold of ``predict(stop="risk")`` is then set on rows the model knows nothing of, which is what its
        guarantee asks for (after ``fit`` alone it rests on rows held out in turn, which is close but not exact).
        Probabilities do not change.
        """
        posterior = self.posterior(X)
        if self._several():
            set_answers.calibrate(self, cast("SetPosterior", posterior), y)
            return self
        targets.check_length(y, len(posterior))
        self.miss_scores_ = conformal.miss_scores(posterior, self.nodes_of(y))
        return self

    def partial_fit(
        self, X: Features, y: Targets, classes: Labels = None, *, sample_weight: Weights = None
    ) -> HiPaNClassifier:
        """Learn more rows of the same tree: all experts are fitted again on all rows. The combiner and the calibration stay as they
        are; `fit` renews them, too.

        The first call is a ``fit`` (with ``classes`` as the tree's leaves if there is no tree).
        """
        if self._several():
            set_answers.learn_more(self, X, y, sample_weight, classes)
            return self
        if not hasattr(self, "tree_"):
            named = classes if sparse.issparse(y) else None
            if y is not None and set_targets.read_sets(y, classes=named) is not None:
                return self.fit(X, y, sample_weight=sample_weight, classes=named)
            if self.tree is None and classes is not None and y is not None:
                known = np.unique(np.asarray(classes))
                if len(np.setdiff1d(known, np.unique(targets.as_column(y)))):
                    raise VpunnError(
                        "the first partial_fit without a tree must see every class; pass "
                        "tree=Tree.from_paths([(c,) for c in classes], root='all') to learn classes later."
                    )
            return self.fit(X, y, sample_weight=sample_weight)
        rows = self._rows(X)
        targets.check_length(y, len(rows))
        node, weight = self.nodes_of(y), inputs.checked_weight(sample_weight, len(rows))
        keep = np.flatnonzero(weight > 0)
        task = holding.with_more(holding.held(self), rows.take(keep), node[keep], weight[keep])
        holding.learned(self, task, len(keep))
        return self

    # ---- answers -----------------------------------------------------------------------------------------------------

    def score(self, X: Features, y: Targets, sample_weight: Weights = None) -> float:
        """Accuracy, of labels, level columns or paths."""
        if self._several():
            return set_answers.score(self, X, y)
        targets.refuse_single(y)
        nodes = None if self.flat_ else targets.path_nodes(self.tree_, y)
        if nodes is None:
            return float(super().score(X, targets.as_it_stands(y), sample_weight))
        right = self.posterior(X).best() == nodes
        return float(np.average(right, weights=row_weights(sample_weight, len(right))))

    def explain(
        self, X: Features, node: Label = None, *, k: int = 5, feature_names: FeatureNames = None
    ) -> Explanation | SetExplanation:
        """Why one row is placed at ``node`` (a label; default: the answer of `predict`): what spoke for it and what against, branch
        by branch, with the ``k`` features that count most in each."""
        if self._several():
            check_whole("k", k, 0)
            return self.explain_set(X, node, k=k, feature_names=feature_names)
        return explanation.explain(self, X, node, k, feature_names)

    def save(self, path: FilePath, *, provenance: Mapping[str, Any] | None = None, keep: Keep = "rows") -> Path:
        """Write the model as a folder of ``.npy`` arrays and ``model.json`` (no pickle), replacing an older one at the end.

        The folder holds every training row as the numbers or counted words that the model reads; ``vpunn info`` says how many.
        With ``keep="sums"`` it holds none: what is written is another model, fitted here on the same rows, that answers with
        sums per branch and linear heads alone. It knows its own accuracy (``held_out_exact_``) and cannot `partial_fit`,
        `forget` or `refresh`. The sum of a class that has one row is that row.
        """
        return self.draft(provenance, keep=keep).write(path)

    def draft(self, provenance: Mapping[str, Any] | None = None, *, keep: Keep = "rows") -> Draft:
        """What `save` writes; `Draft.add` puts it into a larger model."""
        check_choice("keep", keep, get_args(Keep))
        return super(HiPaNClassifier, self if keep == "rows" else holding.without_rows(self)).draft(provenance)

    def explore(self, X: Features = None, y: Targets = None, *, features: Vectorizer = None, **options: Any) -> Any:
        """Walk the tree with the model's beliefs on it, in a browser or a notebook; ``features`` turns texts into rows.

        With rows ``X`` that the model has not seen and their labels ``y`` it opens on the mistakes. See `vpunn.web.explore`.
        """
        from vpunn.web import explore

        return explore(self, X, y, features=features, **options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _described(task: Task, X_nodes: Descriptions, layout: Layout, flat: bool) -> Task:
    rows, node, described = inputs.with_descriptions(task.rows, task.node, X_nodes, layout, task.tree, flat)
    weight = np.concatenate([task.weight, np.ones(len(node) - task.n, np.float32)])
    return replace(task, rows=rows, node=node, weight=weight, described=described)


@contextmanager
def whole_or_as_before(model: HiPaNClassifier) -> Iterator[None]:
    """What is done inside changes the model as a whole, or, if it is refused or interrupted, not at all: half of it is new numbers
    beside old ones of other sizes."""
    before = dict(model.__dict__)
    try:
        yield
    except BaseException:
        model.__dict__.clear()
        model.__dict__.update(before)
        raise


__all__ = ["HiPaNClassifier"]
