"""What a fitted classifier answers, without scikit-learn: the half of `HiPaNClassifier` that a command opens to predict."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, Self, cast, get_args

import numpy as np
from scipy import sparse

from vpunn._progress import announced_compiling
from vpunn._threads import check_n_jobs, in_threads
from vpunn.errors import VpunnError, check_choice, check_whole
from vpunn.hipan import inputs, set_answers, store, targets
from vpunn.hipan.distribution import Rule, Stop, stop_at
from vpunn.hipan.engine import Model, Task, asked_as_often
from vpunn.hipan.experts import BATCH, NUMBERS, WORDS, Rows
from vpunn.hipan.layout import Layout
from vpunn.hipan.own_classifier import check_experts
from vpunn.hipan.posterior import Posterior
from vpunn.store import Draft, Storable, Stored
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn._types import Beliefs, FeatureNames, Features, Label, Labels, Seed, Targets
    from vpunn.hipan.label_sets import SetModel
    from vpunn.hipan.set_answers import SetExplanation
    from vpunn.hipan.set_posterior import SetPosterior

#: Which nodes may be answers.
Answers = Literal["auto", "leaves", "all"]
#: Whether answers may belong to classes without rows: a share of the questions, or yes, no, or what the tree looks like.
Novelty = Literal["auto"] | bool | float
#: How often questions belong to each class: as training rows do, to all alike, or a weight for each of ``classes_``.
ClassPrior = Literal["rows", "uniform"] | np.ndarray | list[float]


class Answering(Storable):
    """A fitted classifier as far as it answers; `HiPaNClassifier` adds what learns, and what scikit-learn asks of an estimator.

    ``Answering.from_stored`` opens what `HiPaNClassifier.save` wrote and answers with the same bits.
    """

    _stored_as = "HiPaNClassifier"
    _store_format = store.FORMAT
    model_: Model
    task_: Task | None  #: the rows that were learned from; None: they were left out (`holding`)
    rows_at_: np.ndarray  #: how many rows every node had
    held_out_exact_: float  #: the share of held-out rows that was answered exactly
    changed_rows_: int  #: rows that came or went since the combiner and the calibration were learned
    layout_: Layout
    miss_scores_: np.ndarray
    multilabel_: bool
    sets_: SetModel  #: of rows with several labels
    flat_: bool
    tree_: Tree
    classes_: np.ndarray
    class_nodes_: np.ndarray
    labels_: np.ndarray
    n_features_in_: int
    feature_names_in_: np.ndarray

    def __init__(
        self,
        tree: Tree | None = None,
        *,
        novelty: Novelty = "auto",
        class_prior: ClassPrior = "rows",
        experts: Sequence[Any] | None = None,
        answers: Answers = "auto",
        n_jobs: int | None = None,
        random_state: Seed = 0,
    ) -> None:
        self.tree = tree
        self.novelty = novelty
        self.class_prior = class_prior
        self.experts = experts
        self.answers = answers
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_params(self) -> None:
        """All parameters, whether a caller gave them or a file."""
        check_n_jobs(self.n_jobs)
        check_choice("answers", self.answers, get_args(Answers))
        share = isinstance(self.novelty, float | np.floating) and 0 <= self.novelty < 1
        if self.novelty != "auto" and not isinstance(self.novelty, bool | np.bool_) and not share:
            raise VpunnError(
                f"novelty is True, False, 'auto' or a share of the questions from 0 to 1, got {self.novelty!r}."
            )
        if not isinstance(self.class_prior, str) or self.class_prior not in ("rows", "uniform"):
            _checked_prior(self.class_prior)
        check_experts(self.experts, [kind.__name__ for kind in (*WORDS, *NUMBERS)])
        if self.tree is not None and not isinstance(self.tree, Tree):
            raise VpunnError(
                f"tree must be a vpunn Tree or None, got {type(self.tree).__name__}; Tree.from_edges builds one."
            )
        seed = self.random_state
        source = seed is None or seed is np.random or isinstance(seed, np.random.RandomState)
        if not (0 <= int(seed) < 2**32 if isinstance(seed, Integral) else source):
            raise VpunnError(f"random_state must be a seed from 0 to 2**32 - 1 or None, got {seed!r}.")

    # ---- what it consists of -----------------------------------------------------------------------------------------

    def _rows(self, X: Features) -> Rows:
        """New rows as the experts read them."""
        return self.layout_.read(inputs.checked_blocks(self, X, self.layout_))

    def _set_classes(self, flat: np.ndarray | None) -> None:
        """Nodes that may be an answer (see ``answers``), in the order of their labels."""
        tree, model = self.tree_, self.model_
        self.flat_ = flat is not None
        inner = bool(model.experts.tree.is_stop.any())  # some row is labelled with an inner node
        self._leaves_only = self.flat_ or self.answers == "leaves"
        if self._leaves_only or (self.answers == "auto" and not model.novelty and not inner):
            self.class_nodes_ = np.flatnonzero(tree.is_leaf)
        else:
            self.class_nodes_ = np.arange(tree.n_nodes)
        if flat is None:  # scikit-learn's log loss and AUC take columns to be in the order of labels
            self.class_nodes_ = targets.by_label(tree, self.class_nodes_)
        self.labels_ = tree.labels if flat is None else np.concatenate([flat[:1], flat])  # the root is never answered
        self.classes_ = tree.labels[self.class_nodes_] if flat is None else flat

    def _weigh_classes(self) -> None:
        """What ``class_prior`` says of how often questions belong where."""
        if not isinstance(self.class_prior, str) or self.class_prior != "rows":
            self.model_ = asked_as_often(self.model_, self._prior(), self.rows_at_)

    def _prior(self) -> np.ndarray:
        """``class_prior`` as a weight of every node."""
        prior = np.ones(self.tree_.n_nodes)
        if not isinstance(self.class_prior, str):
            given = _checked_prior(self.class_prior)
            if len(given) != len(self.class_nodes_):
                raise VpunnError(
                    f"class_prior has {len(given):,} weights, classes_ {len(self.class_nodes_):,} classes; give one for each."
                )
            prior[:] = 0
            prior[self.class_nodes_] = given
        if not prior[self.rows_at_ > 0].any():
            raise VpunnError("class_prior is 0 for every class that has rows; some of them must be possible.")
        return prior

    def nodes_of(self, y: Targets) -> np.ndarray:
        """Node ids of labels as `fit` takes them; labels that are not in the tree are refused."""
        return targets.check_in_tree(self.label_tree_, y)

    @property
    def label_tree_(self) -> Tree:
        """The tree under the labels that `predict` answers with; flat classes keep their own type."""
        if not self.flat_:
            return self.tree_
        labels = np.concatenate([np.array([_Root()], object), self.classes_.astype(object)])
        return self.tree_.relabel(labels)

    def _several(self) -> bool:
        """Whether the model was fitted on label sets."""
        return bool(getattr(self, "multilabel_", False))

    # ---- answers -----------------------------------------------------------------------------------------------------

    @announced_compiling()
    def posterior(self, X: Features, *, evidence: bool = False) -> Beliefs:
        """The distribution over nodes of each row: the one object behind `predict`, `top_k`, the stop rules and explanations.

        With ``evidence`` it keeps what the experts said, which takes rows × slots × columns of memory.
        """
        if not hasattr(self, "tree_"):
            inputs.refuse_unfitted(self)
        check_n_jobs(self.n_jobs)
        if self._several():
            return set_answers.posterior(self, X, evidence)
        rows, model = self._rows(X), self.model_
        parts = [slice(start, start + BATCH) for start in range(0, len(rows), BATCH)]
        judged = in_threads(
            lambda part: model.judged(model.experts.examine(rows.take(part)), evidence), parts, self.n_jobs
        )
        found = model.posterior_of(judged)
        return found.on_leaves() if self._leaves_only else found

    def locate(self, X: Features, rule: Rule = "node") -> np.ndarray:
        """Node id of the place of each row: the answer of `predict`."""
        return np.asarray(cast(Posterior, self.posterior(X)).best(rule))

    def predict(
        self,
        X: Features,
        stop: Stop | None = None,
        *,
        threshold: float = 0.5,
        alpha: float = 0.1,
        depth: int = 1,
        cost: float = 1.0,
        rule: Rule = "node",
    ) -> Labels:
        """One label per row: the most probable node, the first of `top_k`. With ``rule="path"`` one that shares most of its path
        with all likely ones (`NodeDistribution.best`): a little less often exact, nearer to the truth when wrong.

        With ``stop`` the answer may be a branch that is surer than any node; see `vpunn.hipan.distribution.stop_at` for
        ``threshold``, ``alpha`` (see `calibrate`), ``depth`` and ``cost``.
        """
        if self._several():
            return self.predict_sets(X, stop or "threshold", threshold=threshold, alpha=alpha)  # type: ignore[arg-type]
        if stop is not None and rule != "node":
            raise VpunnError(f"rule={rule!r} chooses among nodes and stop={stop!r} among balls; give one of them.")
        posterior = self.posterior(X)
        if stop is None:
            return np.asarray(self.labels_[posterior.best(rule)])
        options: dict[str, Any] = {"threshold": threshold, "alpha": alpha, "depth": depth, "cost": cost}
        return np.asarray(self.tree_.labels[stop_at(posterior, stop, scores=self.miss_scores_, **options)])

    def predict_sets(
        self,
        X: Features,
        stop: Literal["threshold", "risk", "size"] = "threshold",
        *,
        threshold: float = 0.5,
        alpha: float = 0.1,
        size: int = 5,
    ) -> list[set[Label]]:
        """A set of labels per row, of a model that was fitted on label sets: the most specific nodes that are likely enough.

        ``"threshold"``: those with a marginal ≥ ``threshold``. ``"risk"``: the largest threshold at which the expected share of
        missed answers (true labels with their ancestors) is at most ``alpha`` (see `calibrate`). ``"size"``: the ``size`` likeliest
        classes. Where no specific label is sure, the answer is the branch that is; where nothing is, the set is empty.
        """
        if not self._several():
            raise VpunnError("predict_sets needs a model fitted on label sets, such as fit(X, [{'a', 'b'}, {'c'}]).")
        found = cast("SetPosterior", self.posterior(X))
        return set_answers.predict_sets(self, found, stop, threshold=threshold, alpha=alpha, size=size)

    def explain_set(
        self, x: Features, label: Label = None, *, k: int = 5, feature_names: FeatureNames = None
    ) -> SetExplanation:
        """Why one label (default: the likeliest) of one row has its marginal, of a model fitted on label sets."""
        return set_answers.explain_sets(self, x, label, k, feature_names)

    def predict_path(self, X: Features) -> list[tuple[Label, ...]]:
        """Labels from the root down to the answer of `predict`."""
        return [self.tree_.path(int(node)) for node in self.locate(X)]

    def top_k(self, X: Features, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable labels of each row and their probabilities."""
        nodes, p = self.posterior(X).top_k(min(check_whole("k", k), len(self.class_nodes_)))
        return np.asarray(self.labels_[nodes]), p

    def predict_proba(self, X: Features, k: int | None = None) -> np.ndarray | sparse.csr_matrix:
        """Probability of each of ``classes_``, (rows, classes); sparse with ``k``, only the k most probable of each row."""
        if k is not None:
            check_whole("k", k)
        posterior = self.posterior(X)
        place = np.full(self.tree_.n_nodes, -1, np.int64)
        place[self.class_nodes_] = np.arange(len(self.class_nodes_))
        shape = len(posterior), len(self.class_nodes_)
        if k is not None:
            nodes, p = posterior.top_k(min(int(k), shape[1]))
            told = (nodes >= 0) & (place[nodes] >= 0)
            start = np.concatenate([[0], np.cumsum(told.sum(1))])
            return sparse.csr_matrix((p[told], place[nodes[told]], start), shape=shape)
        if self._several():
            return cast("SetPosterior", posterior).class_marginals()
        out = np.empty(shape)
        for part in posterior.parts():
            out[part] = posterior.masses(part)[:, self.class_nodes_]
        return out

    def predict_node_proba(self, X: Features) -> np.ndarray:
        """Probability of every ball, (rows, nodes): a ball's is its own stop mass plus that of its children; the root has 1."""
        posterior = self.posterior(X)
        out = np.empty((len(posterior), self.tree_.n_nodes))
        for part, p in posterior.chunks():
            out[part] = p
        return out

    # ---- keeping -----------------------------------------------------------------------------------------------------

    def _to_store(self, draft: Draft) -> None:
        if not hasattr(self, "tree_"):
            inputs.refuse_unfitted(self)
        store.write(inputs.as_estimator(self), draft)

    @classmethod
    def _from_store(cls, stored: Stored) -> Self:
        return cast(Self, store.read(cls, stored))


def _checked_prior(given: Any) -> np.ndarray:
    """Weights of classes as numbers, of at least 0 and not all of them 0."""
    try:
        prior = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        prior = np.zeros(0)
    if prior.ndim != 1 or not len(prior) or not (np.isfinite(prior) & (prior >= 0)).all() or not prior.any():
        raise VpunnError(
            f"class_prior is 'rows', 'uniform' or a weight of at least 0 for each of classes_, got {repr(given)[:60]}."
        )
    return prior


class _Root:
    """Label of the root over flat classes: equal to no label that a caller can ask for."""

    def __repr__(self) -> str:
        return "root"
