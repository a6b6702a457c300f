"""`HiPaNClassifier`: place items on a tree, with a probability for every branch, calibrated on held-out rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from vpunn._progress import announced_compiling, reached
from vpunn._rows import row_groups, row_weights
from vpunn._seed import generator_of
from vpunn._sklearn import BaseEstimator, ClassifierMixin
from vpunn.errors import VpunnError
from vpunn.placing import calibration, conformal, engine, inputs, set_answers, set_targets, targets
from vpunn.placing.answering import Answering
from vpunn.placing.engine import Task
from vpunn.placing.experts import Rows
from vpunn.placing.folds import equal_rows, joined
from vpunn.placing.layout import Layout

if TYPE_CHECKING:
    from vpunn._types import (
        Descriptions,
        FeatureNames,
        Features,
        Groups,
        Label,
        Labels,
        Targets,
        Validation,
        Vectorizer,
        Weights,
    )
    from vpunn.explain import Explanation
    from vpunn.placing.set_posterior import SetPosterior


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
        one leaf in a hundred has no rows. If you made the tree from the labels pass True, for a closed list False.
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
            keep = weight > 0
            rows = self.layout_.read(blocks)
            if not keep.all():
                rows, node, weight = rows.take(np.flatnonzero(keep)), node[keep], weight[keep]
                group = None if group is None else group[keep]
            del X, blocks
            task = Task(self.tree_, rows, node, weight, len(node), group)
            if X_nodes is not None:
                task = _described(task, X_nodes, self.layout_, flat is not None)
            made_here = self.tree is None and flat is None
            return self._learn(task, True if self.novelty == "auto" and made_here else self.novelty, flat, run)

    def _learn(self, task: Task, novelty: Any, flat: np.ndarray | None, run: engine.Run) -> HiPaNClassifier:
        rng = generator_of(self.random_state)
        group = equal_rows([block[: task.n] for block in task.rows.blocks])
        group = group if task.groups is None else joined(group, task.groups)
        with threadpool_limits(1, user_api="blas"):  # sums in another order are other bytes
            # 2. folds, evidence, combiner and experts
            self.model_, held = engine.fit(task, novelty, rng, run=run)
            self._set_classes(flat)
            # 3. calibration on what was held out
            reached("calibration", 0.9)
            self.miss_scores_ = calibration.miss_scores(self.model_, held, group, rng)
        self.task_ = task
        task.groups = None
        return self

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
        old = self.task_
        first, last = slice(0, old.n), slice(old.n, None)  # descriptions of nodes stay at the end
        task = Task(
            old.tree,
            _stacked([old.rows.take(first), rows.take(keep), old.rows.take(last)]),
            np.concatenate([old.node[first], node[keep], old.node[last]]).astype(np.int32),
            np.concatenate([old.weight[first], weight[keep], old.weight[last]]),
            old.n + len(keep),
            None,
            old.described,
        )
        with threadpool_limits(1, user_api="blas"):
            self.model_ = engine.learned_more(self.model_, task)
        self.task_ = task
        self._set_classes(self.classes_ if self.flat_ else None)
        return self

    # ---- answers -----------------------------------------------------------------------------------------------------

    def score(self, X: Features, y: Targets, sample_weight: Weights = None) -> float:
        """Accuracy, of labels, level columns or paths."""
        if self._several():
            return set_answers.score(self, X, y)
        targets.refuse_single(y)
        nodes = None if self.flat_ else targets.path_nodes(self.tree_, y)
        if nodes is None:
            return float(super().score(X, y, sample_weight))
        right = self.posterior(X).best() == nodes
        return float(np.average(right, weights=row_weights(sample_weight, len(right))))

    def explain(
        self, X: Features, node: Label = None, *, k: int = 5, feature_names: FeatureNames = None
    ) -> Explanation:
        """Why one row is placed at ``node`` (a label; default: the answer of `predict`), branch by branch; see `vpunn.explain`."""
        from vpunn.explain import explain

        return cast("Explanation", explain(self, X, node, k=k, feature_names=feature_names))

    def explore(self, features: Vectorizer = None, **options: Any) -> Any:
        """Walk the tree with the model's beliefs on it, in a browser or a notebook; ``features`` turns texts into rows.

        See `vpunn.web.explore` for the options.
        """
        from vpunn.web import explore

        return explore(self, features=features, **options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _described(task: Task, X_nodes: Descriptions, layout: Layout, flat: bool) -> Task:
    rows, node, described = inputs.with_descriptions(task.rows, task.node, X_nodes, layout, task.tree, flat)
    weight = np.concatenate([task.weight, np.ones(len(node) - task.n, np.float32)])
    return Task(task.tree, rows, node, weight, task.n, task.groups, described)


def _stacked(parts: list[Rows]) -> Rows:
    """Rows one after the other."""
    return Rows(
        tuple(
            sparse.csr_matrix(sparse.vstack(same)) if sparse.issparse(same[0]) else np.concatenate(same)
            for same in zip(*(part.blocks for part in parts), strict=True)
        )
    )


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
