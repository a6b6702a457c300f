"""`HiPaNClassifier`: place items on a tree, with a probability for every ball, calibrated on held-out rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.sparse import issparse
from threadpoolctl import threadpool_limits

from vpunn._progress import announced_compiling, reached
from vpunn._rows import row_groups, row_weights, slices
from vpunn._seed import generator_of
from vpunn._sklearn import BaseEstimator, ClassifierMixin
from vpunn.errors import VpunnError
from vpunn.hipan import _inputs as inputs
from vpunn.hipan import _targets as targets
from vpunn.hipan._alike import Kinds, kinds_of_rows, kinds_of_words
from vpunn.hipan._answering import Answering
from vpunn.hipan._arrays import Answer
from vpunn.hipan._balls import Balls, Items
from vpunn.hipan._combiner import Combiner, fit_temperature
from vpunn.hipan._copies import written_once
from vpunn.hipan._crew import Crew
from vpunn.hipan._dense import KEPT_OF_BLOCKS, Dense
from vpunn.hipan._experts import BATCH
from vpunn.hipan._first import choose_first, settle
from vpunn.hipan._holdout import in_halves, units
from vpunn.hipan._linear import Linear
from vpunn.hipan._measure import Measure, numbers_of
from vpunn.hipan._ram import give_back
from vpunn.hipan._rest import fit_rings, rings_around
from vpunn.hipan._teaching import HeldOut, is_guess, learn_to_combine, mean_loss, slots, with_better_bounds
from vpunn.hipan._training import HEADS_SHARE, Settings, fit_parts, known_rows, train
from vpunn.hipan._unknown import alone
from vpunn.hipan._views import Layout, Sample
from vpunn.hipan._weights import Heads, train_branch
from vpunn.hipan.sets import _front as label_sets
from vpunn.placing import conformal

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
    from vpunn.hipan.sets._posterior import SetPosterior

#: Fewer held-out rows than this are not worth a combiner of their own.
WORTH_A_COMBINER = 50


class HiPaNClassifier(ClassifierMixin, Answering, BaseEstimator):
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
    epochs : passes over the data at most; rows that the heads explain well are left out of the later ones, and long tables of
        which hardly a row is confused have no later ones, nor have those of few classes, which linear heads tell apart.
    holdout : least share of the rows held out at once for the combiner (more if there are few; small tables in several rounds; at
        most 10,000 a round).
    hidden : units of the combiner.
    n_jobs : threads that answer, each a tile of 1,024 rows at a time, and that propose and judge in `fit` (None: one, −1: one
        per core); the bits stay the same.
    random_state : seed; the same seed gives the same bytes.

    Cost: O(non-zeros of X · depth) memory, a few passes of O(candidates · depth) per non-zero to fit, about 0.1–0.2 ms a
    row to predict. Sparse X is used as it is, dense X is standardised (wide tables: unless that tells less); rows are scaled
    to unit length. Features never seen carry no weight; an empty row gets the prior and the classes of rows like it. A node
    without training rows stays possible through the rest mass, and becomes a candidate of its own through ``X_nodes``.

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
        validation: Validation = None,
        multilabel: bool = False,
        classes: Labels = None,
    ) -> HiPaNClassifier:
        """Fit on rows ``X`` and their labels.

        Rows may have several labels each: a `set` per row, a sparse indicator with ``classes=`` (the labels of its columns), or
        with ``multilabel=True`` lists or a dense indicator. Then ``multilabel_`` is true, `predict` answers with sets and ball
        probabilities mean "some answer lies in the ball" (docs/label_sets.md). An empty set is a row without an answer; a label
        adds nothing to one below it; if every set has one label the model is that of plain labels.

        ``X`` is one matrix, or a dict (or `Views`) of named blocks of features, such as ``{"words": X, "meaning": E}``.
        ``X_nodes`` has one row of features per node of the tree (rows may be empty): a matrix, or a dict with a matrix for some of
        the blocks. Several kinds of description (names, definitions) are given as a list of such matrices. Descriptions count as
        training rows of their node (not with label sets), and each kind is also compared directly. Rows of one of the ``groups``
        (texts of one source) are held out together; of rows with the same features some leave with all of their copies, the others
        one by one. A table in which every row stands g times is learned as if each stood there once. With ``validation=(X, y)``
        the combiner learns from those rows and none are held out: better where they look more like the questions to come than the
        training rows do.
        """
        settings = self._settings()
        if y is None:
            raise VpunnError("requires y to be passed, but the target y is None.")
        with inputs.whole_or_as_before(self):
            sets = label_sets.read_sets(y, multilabel, classes)
            if sets is not None and not sets.single():
                return label_sets.fit_label_sets(self, X, sets, sample_weight, X_nodes, groups, validation)
            self.multilabel_, y = False, y if sets is None else list(sets.labels)
            validation = label_sets.single_pair(validation)
            flat: np.ndarray | None = None
            blocks, y = inputs.checked_pair(self, X, y)
            if self.tree is None:
                self.tree_, node, flat = targets.tree_of(y)
            else:
                self.tree_ = self.tree
                node = targets.check_in_tree(self.tree_, y)
            first = next(iter(blocks.values()))
            weight = targets.checked_weight(sample_weight, first)
            group = row_groups(groups, first.shape[0])
            self.layout_ = Layout.of(blocks, node)
            keep = weight > 0
            if not keep.all():
                blocks = {name: block[keep] for name, block in blocks.items()}
            rows, node, weight = self.layout_.read(blocks), node[keep], weight[keep]
            group = None if group is None else group[keep]
            once = written_once(rows, node, group) if np.ptp(weight) == 0 else None
            if once is not None:
                rows, node, weight = rows[once], node[once], weight[once]
                group = None if group is None else group[once]
            kinds = kinds_of_words(rows.words)
            rows = inputs.half_precision(rows)
            del X, blocks, first  # where the caller keeps none, nobody does
            sample = Sample(rows, node, weight, np.zeros(len(node), np.int8))
            self.by_code_ = True
            self.alone_ = np.bincount(
                sample.node, sample.weight / sample.weight.mean() * alone(rows), self.tree_.n_nodes
            )
            unit = units(rows.words, list(rows.dense.values()), group, sample.node)
            if X_nodes is not None:
                sample = inputs.with_descriptions(sample, X_nodes, self.layout_, self.tree_, flat is not None)
            del rows
            return self._learn(sample, unit, flat, validation, kinds, settings)

    def _learn(
        self,
        sample: Sample,
        unit: np.ndarray,
        flat: np.ndarray | None,
        validation: Validation,
        kinds: Kinds,
        settings: Settings,
    ) -> HiPaNClassifier:
        """Experts of the rows, the combiner of those held out, and its calibration; rows of one ``unit`` are held out together."""
        rng = generator_of(self.random_state)
        empty = 0 if flat is not None else inputs.n_empty(self.tree_, sample.node[: len(unit)])
        asked = None if validation is None else inputs.validation_rows(validation, self, flat)
        experts, held = fit_parts(self.tree_, sample, asked, unit, empty, settings, rng)
        if asked is None:
            kinds = kinds_of_rows(kinds, sample.rows.dense, unit)
        else:
            kinds = kinds_of_rows(kinds_of_words(asked.rows.words), asked.rows.dense, np.arange(len(asked.node)))
        self.balls_, self.heads_, self.dense_ = experts.balls, experts.heads, experts.dense
        self.linear_, self.measure_ = experts.linear, experts.measure
        self.layout_ = replace(self.layout_, silent=tuple(set(self.layout_.dense_names()) - set(self.dense_)))
        self._set_classes(flat)
        reached("combiner", HEADS_SHARE)
        settings = self._set_combiner(held, sample, settings, rng)
        reached("calibration", 0.85)
        self._calibrate_on(held, kinds, settings, rng)
        del held
        self.balls_.complete()
        give_back()
        return self

    def _settings(self) -> Settings:
        self._check_params()
        crew = getattr(self, "_crew", None) or Crew(n_jobs=self.n_jobs)
        return Settings(int(self.candidates), int(self.epochs), float(self.holdout), int(self.hidden), crew)

    def _set_combiner(self, held: HeldOut, sample: Sample, settings: Settings, rng: np.random.Generator) -> Settings:
        """The combiner of the held-out rows, and how such ones are to be learned.

        Where labels are partly chance, rows near an item of a class may have it less often than all else tells. A combiner that has
        learned so answers the opposite about the rows it was taught; if it loses more on those than on rows held out, it is fitted
        again and nearness never counts against a class.
        """
        n_classes = len(self.class_nodes_)
        combiner = self._learned_combiner(held, settings, rng)
        known = known_rows(self.experts_, sample, settings)
        self.combiner_ = with_better_bounds(combiner, known, n_classes)
        if mean_loss(self.combiner_, known, n_classes) > mean_loss(combiner, held, n_classes):
            settings = replace(settings, nearer=True)
            self.combiner_ = with_better_bounds(self._learned_combiner(held, settings, rng), known, n_classes)
        return settings

    def _learned_combiner(self, held: HeldOut, settings: Settings, rng: np.random.Generator) -> Combiner:
        """The combiner of some held-out rows; those whose node was no candidate teach it where such answers lie."""
        give_back()
        n_classes = len(self.class_nodes_)
        combiner = learn_to_combine(
            held, self.experts_, n_classes, self.branch_share_, settings.hidden, settings.nearer, rng
        )
        candidates = held.seen.candidates
        missed = np.flatnonzero((candidates != held.node[:, None]).all(1) & (candidates[:, 0] >= 0))
        if not len(missed):
            return combiner
        found = self._posterior_of(held.take(missed).seen, combiner)
        rings = rings_around(self.fixed_, Answer(found.candidates, found.probability), found.tilt)
        return combiner._replace(ring_weights=fit_rings(rings, self.tree_, held.node[missed]))

    def _calibrate_on(self, held: HeldOut, kinds: Kinds, settings: Settings, rng: np.random.Generator) -> None:
        """Temperature and conformal scores from the held-out rows, each half by a combiner of the other half, new to it: rows that
        stand ``together``, as copies do, rows of one group or of a class that was cut down, are in the same half.

        Rows that many others are like are scored as the model will answer them (`_alike`). The evidence is gone afterwards.
        """
        self.first_ = None
        first, second = in_halves(held.together, rng)
        held.put_in_order(np.concatenate([first, second]))
        halves = slice(0, len(first)), slice(len(first), len(held.node))
        combiners = [self.combiner_] * 2
        if min(len(first), len(second)) >= WORTH_A_COMBINER:
            combiners, temperature = self._combiners_of(held, halves, settings, rng)
            self.combiner_ = self.combiner_.cooled(temperature)
        give_back()
        scores = np.empty(len(held.node))
        for half, combiner in zip(halves, combiners, strict=True):
            for rows in slices(half.stop, BATCH, half.start):
                seen = held.take(rows).seen
                posterior = self._posterior_of(seen, combiner)
                if self.first_ is not None:
                    heard = self.first_.heard(self.experts_, seen)
                    settle(posterior, self.first_, heard, self.first_.settled(heard))
                scores[rows] = conformal.miss_scores(posterior, held.node[rows])
                del seen, posterior
        held.forget_evidence()  # before what only answers need is made
        kind = np.where(held.row >= 0, kinds.of[held.row], -1)
        alike = np.flatnonzero(kind >= 0)
        if len(alike):
            asked, which = np.unique(kind[alike], return_inverse=True)
            answers = self._answered(kinds.rows[asked], self.experts_, False)[0]
            scores[alike] = conformal.miss_scores(answers, held.node[alike], which)
        self.miss_scores_ = conformal.of_equal_weight(scores, held.weight)

    def _combiners_of(
        self, held: HeldOut, halves: tuple[slice, slice], settings: Settings, rng: np.random.Generator
    ) -> tuple[list[Combiner], float]:
        """For each half of the held-out rows a combiner of the other half, new to it, and their temperature; what may be settled by
        a first opinion follows from them too.

        A combiner is surer about the rows it has learned from than about others; the temperature takes that back.
        """
        candidates, evidence, _ = held.seen
        combiners = [self._learned_combiner(held.take(rest), settings, rng) for rest in halves[::-1]]
        give_back()
        score = np.empty((len(candidates), candidates.shape[1] + 1), np.float32)
        for half, combiner in zip(halves, combiners, strict=True):
            for rows in slices(half.stop, BATCH, half.start):
                score[rows] = combiner.scores(evidence[rows], candidates[rows])
        valid, truth = slots(candidates, held.node, len(self.class_nodes_))
        temperature = fit_temperature(score, valid, truth, held.weight)
        if not is_guess(held, self.experts_):
            with threadpool_limits(1, user_api="blas"):
                n_classes, cooled = len(self.class_nodes_), score / temperature
                self.first_ = choose_first(self.experts_, held.seen, cooled, valid, truth, held.weight, n_classes)
        return [combiner.cooled(temperature) for combiner in combiners], temperature

    def calibrate(self, X: Features, y: Targets) -> HiPaNClassifier:
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

    def partial_fit(
        self, X: Features, y: Targets, classes: Labels = None, *, sample_weight: Weights = None
    ) -> HiPaNClassifier:
        """Learn more rows of the same tree: they join the sums and the memory and the heads are trained on them (the depth-1 balls'
        weights on all rows again).

        The first call is a ``fit`` (with ``classes`` as the tree's leaves if there is no tree). The combiner stays as it is. With
        label sets the heads of all balls are trained again on all rows; `calibrate` again for the promise of ``stop="risk"``.
        """
        if self._several():
            label_sets.learn_more(self, X, y, sample_weight, classes)
            return self
        if not hasattr(self, "balls_"):
            named = classes if issparse(y) else None
            if label_sets.read_sets(y, classes=named) is not None:
                return self.fit(X, y, sample_weight=sample_weight, classes=named)
            if self.tree is None and classes is not None and y is not None:
                known = np.unique(np.asarray(classes))
                missing = np.setdiff1d(known, np.unique(targets.as_column(y)))
                if len(missing):
                    raise VpunnError(
                        "the first partial_fit without a tree must see every class; pass "
                        "tree=Tree.from_paths([(c,) for c in classes], root='all') to learn classes later."
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
            kept = {part: getattr(block, part) for part in KEPT_OF_BLOCKS}
            in_cells = block.cells is not None  # as its combiner has learned
            self.dense_[name] = Dense(name, self.tree_, more, block.space, in_cells=in_cells, **kept)
        self.balls_ = Balls(self.tree_, items, by_likelihood=old.by_likelihood).complete()
        self.linear_ = Linear.fitted(self.balls_, self.linear_.cost, len(self.linear_.classes) > 0)
        if self.measure_ is not None:
            numbers = np.concatenate([self.measure_.numbers, numbers_of(rows)])
            measure = self.measure_
            self.measure_ = Measure(self.tree_, self.balls_, numbers, measure.weight, measure.proposes)
        heads = self.heads_.carried(old, self.balls_)
        rng = generator_of(self.random_state)
        train_branch(self.balls_, heads, rng)
        train(self.balls_, heads, np.arange(len(old.items.node), len(items.node)), self._settings(), rng)
        self.heads_ = heads.rounded()
        self._set_classes(self.classes_ if self.flat_ else None)
        return self

    # ---- answers -----------------------------------------------------------------------------------------------------

    def score(self, X: Features, y: Targets, sample_weight: Weights = None) -> float:
        """Accuracy, of labels, level columns or paths; of a model of label sets the mean F1 of predicted and true sets with their
        ancestors."""
        if not self._several():
            inputs.check_column(y)
            nodes = None if self.flat_ else targets.path_nodes(self.tree_, y)
            if nodes is None:
                return float(super().score(X, y, sample_weight))
            right = self.posterior(X).best() == nodes
            return float(np.average(right, weights=row_weights(sample_weight, len(right))))
        if sample_weight is not None:
            raise VpunnError("score of label sets takes no sample_weight; pass the rows that count.")
        return label_sets.score(self, X, y)

    def explain(
        self, X: Features, node: Label = None, *, k: int = 5, feature_names: FeatureNames = None
    ) -> Explanation:
        """Why one row is placed at ``node`` (a label; default: the answer of `predict`), ball by ball; see `vpunn.explain`."""
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


__all__ = ["Combiner", "Heads", "HiPaNClassifier"]
