"""What a fitted classifier answers, without scikit-learn: the half of `HiPaNClassifier` that a command opens to predict."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, Self, cast, get_args

import numpy as np
from scipy import sparse

from vpunn._progress import announced_compiling
from vpunn._threads import check_n_jobs, in_threads
from vpunn.errors import VpunnError, check_choice
from vpunn.hipan import _store
from vpunn.hipan import _targets as targets
from vpunn.hipan._arrays import own
from vpunn.hipan._balls import Balls
from vpunn.hipan._combiner import Combiner
from vpunn.hipan._dense import Dense
from vpunn.hipan._experts import Experts, Seen
from vpunn.hipan._first import FirstOpinion, among_settled, in_their_slots, settle
from vpunn.hipan._linear import Linear
from vpunn.hipan._lists import as_asked
from vpunn.hipan._measure import Measure
from vpunn.hipan._rest import Prior, rounded
from vpunn.hipan._unknown import unknown_answer
from vpunn.hipan._views import Layout, Rows, checked_blocks
from vpunn.hipan._weights import Heads
from vpunn.hipan.posterior import Posterior
from vpunn.hipan.sets import _front as label_sets
from vpunn.placing.distribution import Rule, Stop, stop_at
from vpunn.store import Draft, Storable, Stored
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn._types import Beliefs, FeatureNames, Features, Label, Labels, Seed, Targets
    from vpunn.hipan.sets._front import SetExplanation
    from vpunn.hipan.sets._model import SetModel
    from vpunn.hipan.sets._posterior import SetPosterior


class Answering(Storable):
    """A fitted classifier as far as it answers; `HiPaNClassifier` adds what learns, and what scikit-learn asks of an estimator.

    ``Answering.from_stored`` opens what `HiPaNClassifier.save` wrote and answers with the same bits.
    """

    _stored_as = "HiPaNClassifier"
    _store_format = 2  # since linear heads are kept without their zeros
    balls_: Balls
    heads_: Heads
    linear_: Linear
    dense_: dict[str, Dense]
    measure_: Measure | None = None
    by_code_: bool = (
        False  #: whether all classes of a list count alike before a row is read, as in all but older models
    )
    alone_: np.ndarray | None = None  #: rows of every node that share no feature with any other; None in older folders
    combiner_: Combiner
    first_: FirstOpinion | None = None
    layout_: Layout
    miss_scores_: np.ndarray
    multilabel_: bool
    sets_: SetModel
    tree_: Tree
    n_features_in_: int
    feature_names_in_: np.ndarray

    def __init__(
        self,
        tree: Tree | None = None,
        *,
        candidates: int = 12,
        epochs: int = 4,
        holdout: float = 0.1,
        hidden: int = 32,
        n_jobs: int | None = None,
        random_state: Seed = 0,
    ) -> None:
        self.tree = tree
        self.candidates = candidates
        self.epochs = epochs
        self.holdout = holdout
        self.hidden = hidden
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ---- what it consists of -----------------------------------------------------------------------------------------

    @property
    def experts_(self) -> Experts:
        """All experts of the fitted model."""
        kept = getattr(self, "_experts", None)
        parts = self.balls_, self.heads_, self.linear_, self.dense_, self.measure_
        same = kept is not None and all(a is b for a, b in zip(kept.parts(), parts, strict=True))
        return cast(Experts, kept) if same else Experts(*parts)

    def _check_counts(self) -> None:
        """What fitting and answering both use."""
        for name, low in (("candidates", 1), ("epochs", 1), ("hidden", 1)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < low:
                raise VpunnError(f"{name} must be a whole number of at least {low}, got {value!r}.")
        check_n_jobs(self.n_jobs)

    def _check_params(self) -> None:
        """All parameters, whether a caller gave them or a file."""
        self._check_counts()
        if not _is_number(self.holdout) or not 0 < self.holdout <= 0.5:
            raise VpunnError(f"holdout is a share of the rows in (0, 0.5], got {self.holdout!r}.")
        if self.tree is not None and not isinstance(self.tree, Tree):
            raise VpunnError(
                f"tree must be a vpunn Tree or None, got {type(self.tree).__name__}; Tree.from_edges builds one."
            )
        seed = self.random_state
        source = seed is None or seed is np.random or isinstance(seed, np.random.RandomState)
        if not (0 <= int(seed) < 2**32 if isinstance(seed, Integral) else source):
            raise VpunnError(f"random_state must be a seed from 0 to 2**32 - 1 or None, got {seed!r}.")

    def _rows(self, X: Features) -> Rows:
        """New rows as the experts read them."""
        return self.layout_.read(checked_blocks(self, X, self.layout_))

    def _set_classes(self, flat: np.ndarray | None) -> None:
        """Nodes that can be an answer: all leaves, and inner nodes too if any row or description was labelled with one."""
        self.flat_ = flat is not None
        self._experts = self.experts_
        tree, counts = self.tree_, self.balls_.counts[: self.tree_.n_nodes]
        possible = tree.is_leaf | (counts > 0)
        possible[self.balls_.classes] = True
        if (counts[~tree.is_leaf] > 0).any():
            possible[:] = True
        share = np.zeros(tree.n_nodes)
        items = self.balls_.items
        rows = np.bincount(items.node[items.kind == 0], minlength=tree.n_nodes)
        share[possible] = as_asked(counts[possible], rows[possible]) if self.by_code_ else counts[possible] + 0.5
        if flat is not None:  # the root only holds the classes together
            share[0] = 0.0
        self.prior_ = rounded(share / share.sum())
        self.fixed_ = Prior(tree, self.prior_, self.balls_.branch_of)
        self.branch_share_ = self.fixed_.by_branch[1:]
        self.unknown_ = unknown_answer(
            tree, self.prior_, np.zeros(tree.n_nodes) if self.alone_ is None else self.alone_
        )
        self.class_nodes_ = np.flatnonzero(share)
        if flat is None:  # scikit-learn's log loss and AUC take columns to be in the order of labels
            self.class_nodes_ = targets.by_label(tree, self.class_nodes_)
        labels = tree.labels[self.class_nodes_]
        self.classes_ = flat if flat is not None else labels
        self.labels_ = tree.labels
        if flat is not None:
            self.labels_ = np.concatenate(
                [flat[:1], flat]
            )  # the root cannot be answered; its label only fills the place

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

    @announced_compiling()
    def posterior(self, X: Features, *, evidence: bool = False) -> Beliefs:
        """The distribution over nodes of each row: the one object behind `predict`, `top_k`, the stop rules and explanations.

        With ``evidence`` it keeps what the combiner read, which takes rows × candidates × columns of memory. Of a model of label
        sets it is a `SetPosterior`, whose ball probabilities are marginals.
        """
        if self._several():
            return self.sets_.posterior(self._rows(X), evidence=evidence)
        if not hasattr(self, "balls_"):
            targets.refuse_unfitted(self)
        self._check_counts()
        rows, experts = self._rows(X), self.experts_

        def answer(part: slice) -> tuple[Posterior, Any]:
            some = rows if part == slice(0, len(rows)) else rows[part]
            return self._answered(some, experts, evidence)

        answered = in_threads(answer, experts.batches(len(rows)), self.n_jobs)
        if len(answered) == 1 and not evidence:
            return answered[0][0]
        found, read = zip(*answered, strict=True)
        wide = max(p.candidates.shape[1] for p in found)
        return Posterior(
            self.tree_,
            np.concatenate([_widened(p.candidates, wide, -1) for p in found]),
            np.concatenate([_widened(p.probability, wide, 0) for p in found]),
            np.concatenate([p.rest for p in found]),
            self.prior_,
            self.balls_.branch_of,
            np.concatenate([p.tilt for p in found]),
            self.combiner_.ring_weights,
            rows if evidence else None,
            np.concatenate([_widened(part[:, :-1], wide, 0) for part in read]) if evidence else None,
            np.concatenate([p.unknown for p in found if p.unknown is not None]),
            self.fixed_,
            None if found[0].settled is None else np.concatenate([p.settled for p in found]),
        )

    def _answered(self, rows: Rows, experts: Experts, evidence: bool) -> tuple[Posterior, Any]:
        """The distributions of some rows, and all evidence if it is asked for; rows that the first opinion settles need none."""
        first, limit = self.first_, int(self.candidates)
        if first is None or not first.speaks(experts):
            seen = experts.examine(rows, limit)
            return self._posterior_of(seen, self.combiner_), seen.evidence if evidence else None
        heard = first.hear(experts, rows, limit)
        sure = first.known(rows) & first.settled(heard)
        others = np.flatnonzero(~sure | evidence)
        seen = experts.examine(rows[others], limit)
        found = self._posterior_of(seen, self.combiner_)
        posterior = among_settled(found, others, len(rows), heard.candidates.shape[1])
        settle(posterior, first, heard, sure)
        return posterior, in_their_slots(seen.evidence, seen.candidates, posterior.candidates) if evidence else None

    def _posterior_of(self, seen: Seen, combiner: Combiner) -> Posterior:
        """Softmax of the combiner's scores over candidates and "none"."""
        candidates, unknown = seen.candidates, seen.candidates[:, 0] < 0
        p, none = combiner.shares(seen.evidence, candidates, len(self.class_nodes_))
        tilt = combiner.tilt(seen.branch_score, self.branch_share_, ~unknown)
        if unknown.any() and self.prior_.max() < 1:
            named, share = self.unknown_
            wide = max(candidates.shape[1], len(named))
            candidates, p = _widened(candidates.copy(), wide, -1), _widened(p, wide, 0)
            candidates[unknown, : len(named)], p[unknown, : len(named)] = named, share
            none[unknown] = max(1.0 - float(share.sum()), 0.0)
        return Posterior(
            self.tree_,
            candidates,
            p,
            none,
            self.prior_,
            self.balls_.branch_of,
            tilt,
            combiner.ring_weights,
            unknown=unknown,
            fixed=self.fixed_,
        )

    def locate(self, X: Features, rule: Rule = "node") -> np.ndarray:
        """Node id of the place of each row: the answer of `predict`."""
        posterior = self.posterior(X)
        return np.asarray(posterior.best() if self._several() else posterior.best(rule))

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
        with all likely ones (`Posterior.best`): a little less often exact, nearer to the truth when wrong.

        With ``stop`` the answer may be a ball that is surer than any node.

        ``"threshold"``: the deepest ball with probability ≥ ``threshold``. ``"risk"``: the smallest ball around this
        answer that contains the truth with probability ≥ 1 − ``alpha`` (see `calibrate`). ``"depth"``: the
        best answer cut at ``depth``. ``"cost"``: the node that costs least when a wrong digit at depth k costs ``cost``^k.
        """
        if self._several():
            return self.predict_sets(X, stop or "threshold", threshold=threshold, alpha=alpha)  # type: ignore[arg-type]
        check_choice("rule", rule, get_args(Rule))
        if stop is not None and rule != "node":
            raise VpunnError(f"rule={rule!r} chooses among nodes and stop={stop!r} among balls; give one of them.")
        posterior = self.posterior(X)
        if stop is None:
            return np.asarray(self.labels_[posterior.best(rule)])
        options: dict[str, Any] = {"threshold": threshold, "alpha": alpha, "depth": depth, "cost": cost}
        nodes = stop_at(posterior, stop, scores=self.miss_scores_, **options)
        return np.asarray(self.tree_.labels[nodes])

    def predict_sets(
        self,
        X: Features,
        stop: Literal["threshold", "risk", "size"] = "threshold",
        *,
        threshold: float = 0.5,
        alpha: float = 0.1,
        size: int = 5,
    ) -> list[set[Label]]:
        """A set of labels per row, of a model that was fitted on label sets: the most specific balls that are likely enough.

        ``"threshold"``: those with a marginal ≥ ``threshold``. ``"risk"``: the largest threshold at which the expected share of
        missed answers (true labels with their ancestors) is at most ``alpha`` (see `calibrate`). ``"size"``: the ``size`` likeliest
        classes. Where no specific label is sure, the answer is the inner ball that is; where nothing is, the set is empty.
        """
        if not self._several():
            raise VpunnError("predict_sets needs a model fitted on label sets, such as fit(X, [{'a', 'b'}, {'c'}]).")
        posterior = cast("SetPosterior", self.posterior(X))
        return label_sets.predict_sets(self, posterior, stop, threshold=threshold, alpha=alpha, size=size)

    def explain_set(
        self, x: Features, label: Label = None, *, k: int = 5, feature_names: FeatureNames = None
    ) -> SetExplanation:
        """Why one label (default: the likeliest) of one row has its marginal, of a model fitted on label sets."""
        return label_sets.explain_sets(self, x, label, k, feature_names)

    def _several(self) -> bool:
        """Whether the model was fitted on label sets."""
        return bool(getattr(self, "multilabel_", False))

    def predict_path(self, X: Features) -> list[tuple[Label, ...]]:
        """Labels from the root down to the answer of `predict`."""
        return [self.tree_.path(int(node)) for node in self.locate(X)]

    def top_k(self, X: Features, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable labels of each row and their probabilities, both (rows, k); exact."""
        _check_k(k)
        nodes, p = self.posterior(X).top_k(min(int(k), len(self.class_nodes_)))
        return self.labels_[nodes], p

    def predict_proba(self, X: Features, k: int | None = None) -> np.ndarray | sparse.csr_matrix:
        """Probability of every class in ``classes_`` (in the order of labels), dense; with ``k`` a sparse matrix of each row's k
        largest."""
        if k is not None:
            _check_k(k)
        posterior = self.posterior(X)
        if self._several() and k is None:
            return posterior.class_marginals()
        place = np.full(self.tree_.n_nodes, -1, np.int64)
        place[self.class_nodes_] = np.arange(len(self.class_nodes_))
        if k is not None:
            nodes, p = posterior.top_k(min(int(k), len(self.class_nodes_)))
            start = np.arange(len(nodes) + 1) * nodes.shape[1]
            return sparse.csr_matrix(
                (p.ravel(), place[nodes].ravel(), start), shape=(len(nodes), len(self.class_nodes_))
            )
        out = np.empty((len(posterior), len(self.class_nodes_)))
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

    def __setstate__(self, state: dict[str, Any]) -> None:
        checked = getattr(super(), "__setstate__", vars(self).update)  # scikit-learn's compares versions
        checked(state)
        vars(self).update(own(vars(self)))

    def _to_store(self, draft: Draft) -> None:
        (label_sets if self._several() else _store).write(targets.as_estimator(self), draft)

    @classmethod
    def _from_store(cls, stored: Stored) -> Self:
        if stored.settings.get("multilabel") is True:
            layout = _store.layout_of(stored, stored.setting("n_features", int))
            return cast(Self, label_sets.read(cls, stored, layout))
        model = cast(Self, _store.read(cls, stored))
        model.multilabel_ = False
        return model


class _Root:
    """Label of the root over flat classes: equal to no label that a caller can ask for."""

    def __repr__(self) -> str:
        return "(all)"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating)


def _check_k(k: object) -> None:
    if not isinstance(k, int | np.integer) or k < 1:
        raise VpunnError(f"k must be a whole number of at least 1, got {k!r}.")


def _widened(array: np.ndarray, wide: int, fill: float) -> np.ndarray:
    """More slots of candidates, so that batches can be joined."""
    missing = wide - array.shape[1]
    return (
        np.pad(array, [(0, 0), (0, missing)] + [(0, 0)] * (array.ndim - 2), constant_values=fill) if missing else array
    )
