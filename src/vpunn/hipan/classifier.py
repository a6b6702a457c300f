"""`HiPaNClassifier`: place items on a tree, with a probability for every ball, calibrated on held-out rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from vpunn._progress import announced_compiling, reached
from vpunn._threads import check_n_jobs, in_threads
from vpunn.errors import VpunnError, check_choice
from vpunn.hipan import _inputs as inputs
from vpunn.hipan import _store, conformal
from vpunn.hipan import _targets as targets
from vpunn.hipan._arrays import Answer
from vpunn.hipan._balls import Balls, Items
from vpunn.hipan._combiner import Combiner, fit_temperature
from vpunn.hipan._crew import Crew
from vpunn.hipan._dense import Dense
from vpunn.hipan._experts import Experts, Seen
from vpunn.hipan._holdout import units
from vpunn.hipan._linear import Linear
from vpunn.hipan._rest import Prior, down_the_largest, fit_rings, rings_around, rounded
from vpunn.hipan._training import HEADS_SHARE, HeldOut, Settings, fit_parts, learn_to_combine, slots, train
from vpunn.hipan._views import Layout, Rows, Sample, checked_blocks
from vpunn.hipan._weights import Heads, train_branch
from vpunn.hipan.posterior import Posterior, Rule
from vpunn.hipan.sets import _front as label_sets
from vpunn.io.store import Draft, Storable, Stored
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn.hipan.sets._posterior import SetPosterior

#: Fewer held-out rows than this are not worth a combiner of their own.
FEW = 50


class HiPaNClassifier(ClassifierMixin, Storable, BaseEstimator):
    """Classifier whose labels are nodes of a tree, leaves or inner nodes of any depth.

    The model is a van der Put expansion with one block of numbers per ball B: the sum of its training rows and a weight
    vector w_B, so that the head score of a node is s(node) = Σ_{B∋node} ⟨w_B, x⟩ and siblings share what their ancestors
    know. The balls propose a few candidates per row; evidence about each (head score, centroid, likelihood shrunk along
    the ancestors, nearest training items, counts, at the node and at its parent, also with the row read through a
    dictionary learned across classes) goes through one small combiner that is fitted on rows held out inside ``fit``.
    What comes out is a probability distribution over nodes.

    Parameters
    ----------
    tree : the tree whose labels ``y`` uses. Without one it is built from ``y``: level columns or tuples give their
        paths, plain labels a root with one child per class.
    candidates : nodes proposed per row by the centroids, again by the heads, and half as many through the dictionary.
    epochs : passes over the data; rows that the heads explain well are left out of the later ones.
    holdout : least share of the rows held out for the combiner (more, and in several rounds, if there are few).
    hidden : units of the combiner.
    n_jobs : threads that answer, each a tile of 1,024 rows at a time, and that propose and judge in `fit` (None: one, −1: one
        per core); the bits stay the same.
    random_state : seed; the same seed gives the same bytes.

    Cost: O(non-zeros of X · depth) memory, a few passes of O(candidates · depth) per non-zero to fit, about 0.1–0.2 ms a
    row to predict. Sparse X is used as it is, dense X is standardised; rows are scaled to unit length. Features never
    seen carry no weight; an empty row gets the prior. A node without training rows stays possible through the
    rest mass, and becomes a candidate of its own through ``X_nodes``.

    >>> tree = Tree.from_paths([("animal", "bird"), ("animal", "fish"), ("plant", "tree"), ("plant", "fern")], root="life")
    >>> X = np.array([[2, 0, 1, 0], [0, 2, 1, 0], [2, 0, 0, 1], [0, 2, 0, 1]] * 5, dtype=float)
    >>> model = HiPaNClassifier(tree, random_state=0).fit(X, ["bird", "fish", "tree", "fern"] * 5)
    >>> model.predict(X[:2]).tolist()
    ['bird', 'fish']
    >>> p = model.predict_node_proba(X[:1])[0]
    >>> bool(p[tree.index("animal")] >= p[tree.index("bird")]), round(float(p[0]), 6)
    (True, 1.0)
    """

    def __init__(
        self,
        tree: Tree | None = None,
        *,
        candidates: int = 12,
        epochs: int = 4,
        holdout: float = 0.1,
        hidden: int = 32,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.tree = tree
        self.candidates = candidates
        self.epochs = epochs
        self.holdout = holdout
        self.hidden = hidden
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ---- fitting -----------------------------------------------------------------------------------------------------

    @announced_compiling()
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        X_nodes: Any = None,
        groups: Any = None,
        validation: Any = None,
        multilabel: bool = False,
        classes: Any = None,
    ) -> HiPaNClassifier:
        """Fit on rows ``X`` and their labels.

        Rows may have several labels each: a `set` per row, a sparse indicator with ``classes=`` (the labels of its columns), or
        with ``multilabel=True`` lists or a dense indicator. Then ``multilabel_`` is true, `predict` answers with sets and ball
        probabilities mean "some answer lies in the ball" (docs/label_sets.md). An empty set is a row without an answer; a label
        adds nothing to one below it; if every set has one label the model is that of plain labels.

        ``X`` is one matrix, or a dict (or `Views`) of named blocks of features, such as ``{"words": X, "meaning": E}``.
        ``X_nodes`` has one row of features per node of the tree (rows may be empty): a matrix, or a dict with a matrix for some of
        the blocks. Several kinds of description (names, definitions) are given as a list of such matrices. Descriptions count as
        training rows of their node, and each kind is also compared directly. Rows of one of the ``groups`` (texts of one source)
        are held out together, as rows with the same features and label always are. With ``validation=(X, y)`` the combiner learns
        from those rows and none are held out: better where they look more like the questions to come than the training rows do.
        """
        settings = self._settings()
        if y is None:
            raise VpunnError("requires y to be passed, but the target y is None.")
        sets = label_sets.read_sets(y, multilabel, classes)
        if sets is not None and not sets.single():
            if validation is not None:
                raise VpunnError(
                    "validation rows are for one label per row; a model of label sets holds rows out itself."
                )
            return cast(HiPaNClassifier, label_sets.fit_label_sets(self, X, sets, sample_weight, X_nodes, groups))
        self.multilabel_, y = False, y if sets is None else list(sets.labels)
        flat: np.ndarray | None = None
        blocks, y = inputs.checked_pair(self, X, y)
        if self.tree is None:
            self.tree_, node, flat = targets.tree_of(y)
        else:
            self.tree_ = self.tree
            node = targets.check_in_tree(self.tree_, y)
        first = next(iter(blocks.values()))
        weight = targets.checked_weight(sample_weight, first)
        group = targets.checked_groups(groups, first.shape[0])
        self.layout_ = Layout.of(blocks)
        keep = weight > 0
        rows = inputs.half_precision(self.layout_.read({name: block[keep] for name, block in blocks.items()}))
        sample = Sample(rows, node[keep], weight[keep], np.zeros(int(keep.sum()), np.int8))
        unit = units(rows.words, list(rows.dense.values()), None if group is None else group[keep], sample.node)
        if X_nodes is not None:
            sample = inputs.with_descriptions(sample, X_nodes, self.layout_, self.tree_, flat is not None)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        empty = 0 if flat is not None else inputs.n_empty(self.tree_, sample.node[: len(unit)])
        asked = None if validation is None else inputs.validation_rows(validation, self, flat)
        experts, held = fit_parts(self.tree_, sample, asked, unit, empty, settings, rng)
        self.balls_, self.heads_, self.dense_ = experts.balls, experts.heads, experts.dense
        self.linear_ = experts.linear
        self.layout_ = replace(self.layout_, silent=tuple(set(self.layout_.dense_names()) - set(self.dense_)))
        self._set_classes(flat)
        reached("combiner", HEADS_SHARE)
        self.combiner_ = self._learned_combiner(held, settings, rng)
        reached("calibration", 0.85)
        self._calibrate_on(held, settings, rng)
        return self

    @property
    def experts_(self) -> Experts:
        """All experts of the fitted model."""
        kept = getattr(self, "_experts", None)
        parts = self.balls_, self.heads_, self.linear_, self.dense_
        same = kept is not None and all(a is b for a, b in zip(kept.parts(), parts, strict=True))
        return cast(Experts, kept) if same else Experts(*parts)

    def _check_counts(self) -> None:
        """What fitting and answering both use."""
        for name, low in (("candidates", 1), ("epochs", 1), ("hidden", 1)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < low:
                raise VpunnError(f"{name} must be a whole number of at least {low}, got {value!r}.")
        check_n_jobs(self.n_jobs)

    def _settings(self) -> Settings:
        self._check_counts()
        if not _is_number(self.holdout) or not 0 < self.holdout <= 0.5:
            raise VpunnError(f"holdout is a share of the rows in (0, 0.5], got {self.holdout!r}.")
        if self.tree is not None and not isinstance(self.tree, Tree):
            raise VpunnError(
                f"tree must be a vpunn Tree or None, got {type(self.tree).__name__}; Tree.from_edges builds one."
            )
        try:
            check_random_state(self.random_state)
        except ValueError as error:
            raise VpunnError(
                f"random_state must be a seed from 0 to 2**32 - 1 or None, got {self.random_state!r}."
            ) from error
        crew = getattr(self, "_crew", None) or Crew(n_jobs=self.n_jobs)
        return Settings(int(self.candidates), int(self.epochs), float(self.holdout), int(self.hidden), crew)

    def _rows(self, X: Any) -> Rows:
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
        share = np.where(possible, counts + 0.5, 0.0).astype(np.float64)
        if flat is not None:  # the root only holds the classes together
            share[0] = 0.0
        self.prior_ = rounded(share / share.sum())
        self.fixed_ = Prior(tree, self.prior_, self.balls_.branch_of)
        self.branch_share_ = self.fixed_.by_branch[1:]
        self.usual_ = down_the_largest(tree, self.prior_)
        self.class_nodes_ = np.flatnonzero(share)
        labels = tree.labels[self.class_nodes_]
        self.classes_ = flat if flat is not None else labels
        self.labels_ = tree.labels
        if flat is not None:
            self.labels_ = np.concatenate(
                [flat[:1], flat]
            )  # the root cannot be answered; its label only fills the place

    def _learned_combiner(self, held: HeldOut, settings: Settings, rng: np.random.Generator) -> Combiner:
        """The combiner of some held-out rows; those whose node was no candidate teach it where such answers lie."""
        n_classes = len(self.class_nodes_)
        combiner = learn_to_combine(held, self.experts_, n_classes, self.branch_share_, settings, rng)
        candidates = held.seen.candidates
        missed = np.flatnonzero((candidates != held.node[:, None]).all(1) & (candidates[:, 0] >= 0))
        if not len(missed):
            return combiner
        found = self._posterior_of(held.take(missed).seen, combiner)
        rings = rings_around(self.fixed_, Answer(found.candidates, found.probability), found.tilt)
        return combiner._replace(ring_weights=fit_rings(rings, self.tree_, held.node[missed]))

    def _calibrate_on(self, held: HeldOut, settings: Settings, rng: np.random.Generator) -> None:
        """Temperature and conformal scores from the held-out rows, each half by a combiner of the other half, new to it.

        A combiner is surer about the rows it has learned from than about others; the temperature takes that back.
        """
        candidates, evidence, _ = held.seen
        halves = np.array_split(rng.permutation(len(held.node)), 2)
        combiners = [self.combiner_] * 2
        if len(halves[1]) >= FEW:
            combiners = [self._learned_combiner(held.take(rest), settings, rng) for rest in halves[::-1]]
            score = np.empty((len(candidates), candidates.shape[1] + 1), np.float32)
            for rows, combiner in zip(halves, combiners, strict=True):
                score[rows] = combiner.scores(evidence[rows], candidates[rows])
            valid, truth = slots(candidates, held.node, len(self.class_nodes_))
            temperature = fit_temperature(score, valid, truth, held.weight)
            self.combiner_ = self.combiner_.cooled(temperature)
            combiners = [combiner.cooled(temperature) for combiner in combiners]
        scores = np.empty(len(held.node))
        for rows, combiner in zip(halves, combiners, strict=True):
            if len(rows):
                posterior = self._posterior_of(held.take(rows).seen, combiner)
                scores[rows] = conformal.miss_scores(posterior, held.node[rows])
        self.miss_scores_ = scores

    def calibrate(self, X: Any, y: Any) -> HiPaNClassifier:
        """Recalibrate on rows that ``fit`` has not seen.

        The conformal threshold of ``predict(stop="risk")`` is then set on rows the model knows nothing of, which is what its
        guarantee asks for (after ``fit`` alone it rests on rows held out in turn, which is close but not exact).
        Probabilities do not change.
        """
        if self._several():
            label_sets.calibrate(self, cast("SetPosterior", self.posterior(X)), y)
            return self
        posterior = self.posterior(X)
        inputs.check_length(np.empty((len(posterior), 0)), y)
        node = self.nodes_of(y)
        self.miss_scores_ = conformal.miss_scores(posterior, node)
        return self

    def nodes_of(self, y: Any) -> np.ndarray:
        """Node ids of labels as `fit` takes them; labels that are not in the tree are refused."""
        return targets.check_in_tree(self.label_tree_, y)

    @property
    def label_tree_(self) -> Tree:
        """The tree under the labels that `predict` answers with; flat classes keep their own type."""
        if not self.flat_:
            return self.tree_
        labels = np.concatenate([np.array([_Root()], object), self.classes_.astype(object)])
        return self.tree_.relabel(labels)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, *, sample_weight: Any = None) -> HiPaNClassifier:
        """Learn more rows of the same tree: they join the sums and the memory and the heads are trained on them (the depth-1 balls'
        weights on all rows again).

        The first call is a ``fit`` (with ``classes`` as the tree's leaves if there is no tree). The combiner stays as it is.
        """
        if self._several():
            raise VpunnError("a model of label sets learns all rows at once; fit it again with the new rows added.")
        if not hasattr(self, "balls_"):
            if self.tree is None and classes is not None and y is not None:
                known = np.unique(np.asarray(classes))
                missing = np.setdiff1d(known, np.unique(targets.as_column(y)))
                if len(missing):
                    raise VpunnError(
                        "the first partial_fit without a tree must see every class; pass tree=Tree.from_paths([(c,) for c in "
                        "classes]) to learn classes later."
                    )
            return self.fit(X, y, sample_weight=sample_weight)
        rows = inputs.half_precision(self._rows(X))
        inputs.check_length(rows.words, y)
        node = self.nodes_of(y)
        weight = targets.checked_weight(sample_weight, rows.words)
        keep = weight > 0
        rows, node, weight = rows[keep], node[keep], weight[keep]
        old = self.balls_
        kind = np.zeros(len(node), np.int8)
        items = old.items.joined(Items(rows.words, node, weight, kind))
        for name, block in self.dense_.items():
            more = block.items.joined(Sample(rows, node, weight, kind).numbers(name))
            self.dense_[name] = Dense(name, self.tree_, more, block.space, proposes=block.proposes)
        self.balls_ = Balls(self.tree_, items)
        self.linear_ = Linear.fitted(self.balls_, self.linear_.cost)
        heads = self.heads_.carried(old, self.balls_)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        train_branch(self.balls_, heads, rng)
        train(self.balls_, heads, np.arange(len(old.items.node), len(items.node)), self._settings(), rng)
        self.heads_ = heads.rounded()
        self._set_classes(self.classes_ if self.flat_ else None)
        return self

    # ---- answers -----------------------------------------------------------------------------------------------------

    @announced_compiling()
    def posterior(self, X: Any, *, evidence: bool = False) -> Any:
        """The distribution over nodes of each row: the one object behind `predict`, `top_k`, the stop rules and explanations.

        With ``evidence`` it keeps what the combiner read, which takes rows × candidates × columns of memory. Of a model of label
        sets it is a `SetPosterior`, whose ball probabilities are marginals.
        """
        if self._several():
            return self.sets_.posterior(self._rows(X), evidence=evidence)
        if not hasattr(self, "balls_"):
            check_is_fitted(self, "balls_")
        self._check_counts()
        rows, experts = self._rows(X), self.experts_

        def answer(part: slice) -> tuple[Posterior, Any]:
            some = rows if part == slice(0, len(rows)) else rows[part]
            seen = experts.examine(some, int(self.candidates))
            return self._posterior_of(seen, self.combiner_), seen.evidence if evidence else None

        answered = in_threads(answer, list(experts.batches(len(rows))), self.n_jobs)
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
        )

    def _posterior_of(self, seen: Seen, combiner: Combiner) -> Posterior:
        """Softmax of the combiner's scores over candidates and "none"."""
        candidates, unknown = seen.candidates, seen.candidates[:, 0] < 0
        score = combiner.scores(seen.evidence, candidates).astype(np.float64)
        valid, _ = slots(candidates, None, len(self.class_nodes_))
        score[~valid[:, -1], -1] = -np.inf
        top = score.max(1, keepdims=True)
        if not np.isfinite(top).all():
            raise VpunnError("the combiner's scores are not finite; the model is damaged, fit or load it again.")
        p = np.exp(score - top)
        p /= np.cumsum(p, axis=1)[
            :, -1:
        ]  # in order: `sum` groups by the width, which is that of the widest row of the batch
        tilt = combiner.tilt(seen.branch_score, self.branch_share_, ~unknown)
        if unknown.any() and self.prior_[self.usual_] < 1:
            candidates = candidates.copy()
            candidates[unknown, 0], p[unknown, 0] = self.usual_, min(float(self.prior_.max()) * (1 + 1e-9), 1.0)
            p[unknown, -1] = 1.0 - p[unknown, 0]
        return Posterior(
            self.tree_,
            candidates,
            np.ascontiguousarray(p[:, :-1]),
            p[:, -1],
            self.prior_,
            self.balls_.branch_of,
            tilt,
            combiner.ring_weights,
            unknown=unknown,
            fixed=self.fixed_,
        )

    def locate(self, X: Any, rule: Rule = "node") -> np.ndarray:
        """Node id of the place of each row: the answer of `predict`."""
        posterior = self.posterior(X)
        return np.asarray(posterior.best() if self._several() else posterior.best(rule))

    def predict(
        self,
        X: Any,
        stop: Literal["threshold", "risk", "depth"] | None = None,
        *,
        threshold: float = 0.5,
        alpha: float = 0.1,
        depth: int = 1,
        rule: Rule = "node",
    ) -> Any:
        """One label per row: the most probable node, the first of `top_k`. With ``rule="path"`` one that shares most of its path
        with all likely ones (`Posterior.best`): a little less often exact, nearer to the truth when wrong.

        With ``stop`` the answer may be a ball that is surer than any node.

        ``"threshold"``: the deepest ball with probability ≥ ``threshold``. ``"risk"``: the smallest ball around this
        answer that contains the truth with probability ≥ 1 − ``alpha`` (see `calibrate`). ``"depth"``: the
        best answer cut at ``depth``.
        """
        if self._several():
            return self.predict_sets(X, stop or "threshold", threshold=threshold, alpha=alpha)  # type: ignore[arg-type]
        check_choice("rule", rule, get_args(Rule))
        if stop is not None and rule != "node":
            raise VpunnError(f"rule={rule!r} chooses among nodes and stop={stop!r} among balls; give one of them.")
        posterior = self.posterior(X)
        if stop is None:
            return np.asarray(self.labels_[posterior.best(rule)])
        if stop == "threshold":
            if not _is_number(threshold) or not 0 <= threshold <= 1:
                raise VpunnError(f"threshold is a probability between 0 and 1, got {threshold!r}.")
            nodes = posterior.deepest(threshold)
        elif stop == "risk":
            nodes = conformal.cautious_nodes(posterior, conformal.conformal_threshold(self.miss_scores_, alpha))
        elif stop == "depth":
            if not isinstance(depth, int | np.integer) or not 0 <= depth <= self.tree_.max_depth:
                deepest = self.tree_.max_depth
                raise VpunnError(
                    f"depth must lie between 0 and {deepest}, the depth of the tree, and be whole; got {depth!r}."
                )
            nodes = posterior.at_depth(depth)
        else:
            raise VpunnError(f"stop must be 'threshold', 'risk', 'depth' or None, got {stop!r}.")
        return np.asarray(self.tree_.labels[nodes])

    def predict_sets(
        self,
        X: Any,
        stop: Literal["threshold", "risk", "size"] = "threshold",
        *,
        threshold: float = 0.5,
        alpha: float = 0.1,
        size: int = 5,
    ) -> list[set[Any]]:
        """A set of labels per row, of a model that was fitted on label sets: the most specific balls that are likely enough.

        ``"threshold"``: those with a marginal ≥ ``threshold``. ``"risk"``: the largest threshold at which the expected share of
        missed answers (true labels with their ancestors) is at most ``alpha`` (see `calibrate`). ``"size"``: the ``size`` likeliest
        classes. Where no specific label is sure, the answer is the inner ball that is; where nothing is, the set is empty.
        """
        if not self._several():
            raise VpunnError("predict_sets needs a model fitted on label sets, such as fit(X, [{'a', 'b'}, {'c'}]).")
        posterior = cast("SetPosterior", self.posterior(X))
        return label_sets.predict_sets(self, posterior, stop, threshold=threshold, alpha=alpha, size=size)

    def explain_set(self, x: Any, label: Any = None, *, k: int = 5, feature_names: Any = None) -> Any:
        """Why one label (default: the likeliest) of one row has its marginal, of a model fitted on label sets."""
        return label_sets.explain_sets(self, x, label, k, feature_names)

    def _several(self) -> bool:
        """Whether the model was fitted on label sets."""
        return bool(getattr(self, "multilabel_", False))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy; of a model of label sets the mean F1 of predicted and true sets with their ancestors."""
        if not self._several():
            return float(super().score(X, y, sample_weight))
        if sample_weight is not None:
            raise VpunnError("score of label sets takes no sample_weight; pass the rows that count.")
        return label_sets.score(self, X, y)

    def explore(self, features: Any = None, **options: Any) -> Any:
        """Walk the tree with the model's beliefs on it, in a browser or a notebook; ``features`` turns texts into rows.

        See `vpunn.web.explore` for the options.
        """
        from vpunn.web import explore

        return explore(self, features=features, **options)

    def predict_path(self, X: Any) -> list[tuple[Any, ...]]:
        """Labels from the root down to the answer of `predict`."""
        return [self.tree_.path(int(node)) for node in self.locate(X)]

    def top_k(self, X: Any, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable labels of each row and their probabilities, both (rows, k); exact."""
        _check_k(k)
        nodes, p = self.posterior(X).top_k(min(int(k), len(self.class_nodes_)))
        return self.labels_[nodes], p

    def predict_proba(self, X: Any, k: int | None = None) -> Any:
        """Probability of every class in ``classes_``, dense; with ``k`` a sparse matrix of each row's k largest."""
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

    def predict_node_proba(self, X: Any) -> np.ndarray:
        """Probability of every ball, (rows, nodes): a ball's is its own stop mass plus that of its children; the root has 1."""
        posterior = self.posterior(X)
        out = np.empty((len(posterior), self.tree_.n_nodes))
        for part, p in posterior.chunks():
            out[part] = p
        return out

    # ---- keeping -----------------------------------------------------------------------------------------------------

    def _to_store(self, draft: Draft) -> None:
        (label_sets if self._several() else _store).write(self, draft)

    @classmethod
    def _from_store(cls, stored: Stored) -> HiPaNClassifier:
        if stored.settings.get("multilabel") is True:
            layout = _store.layout_of(stored, stored.setting("n_features", int))
            return cast(HiPaNClassifier, label_sets.read(cls, stored, layout))
        model = cast(HiPaNClassifier, _store.read(cls, stored))
        model.multilabel_ = False
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class _Root:
    """Label of the root over flat classes: equal to no label that a caller can ask for."""

    def __repr__(self) -> str:
        return "(all)"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating)


def _check_k(k: Any) -> None:
    if not isinstance(k, int | np.integer) or k < 1:
        raise VpunnError(f"k must be a whole number of at least 1, got {k!r}.")


def _widened(array: np.ndarray, wide: int, fill: float) -> np.ndarray:
    """More slots of candidates, so that batches can be joined."""
    missing = wide - array.shape[1]
    return (
        np.pad(array, [(0, 0), (0, missing)] + [(0, 0)] * (array.ndim - 2), constant_values=fill) if missing else array
    )


__all__ = ["Combiner", "Heads", "HiPaNClassifier"]
