"""Classes from a hierarchical category: `VPuNNClassifier`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

from vpunn._rows import check_no_missing, counting_weights
from vpunn._sklearn import ClassifierMixin, check_classification_targets, check_is_fitted, validate_data
from vpunn._types import FeatureNames, Features, Label, Targets, Weights
from vpunn.errors import VpunnError, check_choice, examples, refuse_lazy
from vpunn.regress.base import HierarchicalInput
from vpunn.regress.explanation import NumberExplanation, check_one_row, explained
from vpunn.regress.shrinkage import fit_class_shrinkage
from vpunn.store import Draft, Stored
from vpunn.tree import Tree

if TYPE_CHECKING:
    import pandas as pd

    from vpunn.scale import ClassSums

FloatArray = np.ndarray


class VPuNNClassifier(ClassifierMixin, HierarchicalInput):
    """Class probabilities from a hierarchical category: the same shrinkage applied to class indicators.

    Every ball's distribution is a convex mix of its own counts and its parent's distribution, so probabilities are
    positive and sum to 1 by construction. The mixing of each depth, shared by the classes, minimises the exact
    leave-one-out log loss (closed form from the sweeps), which also calibrates it. On PanTHERIA's categorical traits
    this beat one-vs-rest logistic random effects in log loss, Brier score and calibration on all five (docs/regression.md).

    Covariates enter through a soft-max on top, logit_c = a·log p_c(node) + x·γ_c + b_c, fitted on the leave-one-out
    probabilities with unit ridge on γ for standardised x.

    Parameters ``tree`` and ``covariates`` as in `VPuNNRegressor`. Unseen labels get their deepest known ancestor's
    distribution. ``evolution="mk"`` lets classes evolve along the branches of ``tree`` (``lengths`` as in `VPuNNRegressor`): the Mk
    model with rates ``"equal"`` or ``"symmetric"``, most likely ones, and a uniform root. A row at an inner node is then a new tip
    below it; `ancestors` has the nodes themselves.

    Attributes: tree_, classes_, node_proba_ (nodes × classes), penalty_ (ridge λ of each depth), or rates_ (Q, per unit of length)
    and log_likelihood_ of the Mk model.

    >>> X = [["cat", "lion"], ["cat", "tiger"], ["dog", "wolf"], ["dog", "fox"], ["dog", "fox"]]
    >>> model = VPuNNClassifier().fit(X, ["solo", "solo", "pack", "solo", "pack"])
    >>> model.predict([["dog", "jackal"]])
    array(['pack'], dtype='<U4')
    """

    _below: FloatArray | None = None  #: per node: of a new tip below it, where classes evolve

    def __init__(
        self,
        tree: Tree | None = None,
        *,
        covariates: Sequence[str | int] | None = None,
        evolution: str | None = None,
        rates: str = "equal",
        lengths: Any = None,
    ) -> None:
        self.tree = tree
        self.covariates = covariates
        self.evolution = evolution
        self.rates = rates
        self.lengths = lengths

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # on continuous columns, as for the regressor
        return tags

    def fit(self, X: Features, y: Targets, *, sample_weight: Weights = None) -> VPuNNClassifier:
        """Fit; ``sample_weight`` counts repetitions."""
        refuse_lazy(X, y)
        X, y = validate_data(self, X, y, dtype=None, ensure_all_finite=False)
        check_no_missing(y)
        check_classification_targets(y)
        self.classes_, column = np.unique(y, return_inverse=True)
        nodes, covariates = self._read_for_fit(X)
        weight = counting_weights(sample_weight, len(X))
        self._below = None
        if self._evolves():
            self._softmax = None
            return self._evolved(nodes, column, weight)
        found = fit_class_shrinkage(self.tree_, nodes, column, len(self.classes_), weight)
        self.node_proba_, self.penalty_ = found.proba, 1.0 / found.ratios
        self._softmax = None
        if covariates is not None and len(self.classes_) > 1:
            self._softmax = _SoftmaxOnTop(found.left_out, column, covariates, weight)
        return self

    def _evolves(self) -> bool:
        """Whether classes change along branches; options that do not go together are refused."""
        if self.evolution is not None:
            check_choice("evolution", self.evolution, ("mk",))
        check_choice("rates", self.rates, ("equal", "symmetric"))
        if self.evolution is None and (self.rates != "equal" or self.lengths is not None):
            raise VpunnError('rates and lengths belong to evolution="mk"; add it, or leave them out.')
        if self.evolution is not None and self.covariates:
            raise VpunnError('evolution="mk" reads no covariates; leave one of the two out.')
        return self.evolution is not None

    def _evolved(self, nodes: np.ndarray, column: np.ndarray, weight: FloatArray) -> VPuNNClassifier:
        from vpunn.regress.classes import fit_classes

        kinds = len(self.classes_)
        found = fit_classes(self.tree_, nodes, column, kinds, weight, rates=self.rates, lengths=self.lengths)
        self.node_proba_, self._below, self.rates_ = found.proba, found.below, found.rates
        self.log_likelihood_ = found.log_likelihood
        return self

    def ancestors(self) -> pd.DataFrame:
        """The distribution of every inner node: columns node, label, depth, and one for each class.

        >>> import io, vpunn
        >>> tree = vpunn.read_tree(io.StringIO("((owl:1,hawk:1):1,emu:2);"))
        >>> model = VPuNNClassifier(tree, evolution="mk").fit([["owl"], ["hawk"], ["emu"]], ["meat", "meat", "plants"])
        >>> model.ancestors().round(2)
           node       label  depth  meat  plants
        0     0   owl … emu      0  0.58    0.42
        1     1  owl … hawk      1  0.88    0.12
        """
        import pandas as pd

        check_is_fitted(self)
        inner = np.flatnonzero(~np.asarray(self.tree_.is_leaf))
        where = {"node": inner, "label": self.tree_.labels[inner], "depth": self.tree_.depth[inner]}
        classes = self.classes_.tolist()
        return pd.DataFrame(where | {c: self.node_proba_[inner, j] for j, c in enumerate(classes)})

    @classmethod
    def from_sums(cls, sums: ClassSums, *, levels: int | None = None) -> VPuNNClassifier:
        """The classifier of `vpunn.scale.ClassSums`, wherever its rows were counted; see `VPuNNRegressor.from_sums`."""
        if not len(sums.counts):
            raise VpunnError("no rows were counted, so there is nothing to fit.")
        model = cls._reading(sums.tree, levels, 0)
        model.classes_, model._softmax, model._below = sums.classes, None, None
        weight = sums.counts.astype(float)
        found = fit_class_shrinkage(sums.tree, sums.nodes, sums.column, len(sums.classes), weight)
        model.node_proba_, model.penalty_ = found.proba, 1.0 / found.ratios
        return model

    def predict_proba(self, X: Features) -> FloatArray:
        """Probability of each class, columns in the order of ``classes_``."""
        nodes, _, covariates = self._place(X)
        return self.proba_at(nodes, covariates)

    def proba_at(self, nodes: np.ndarray, covariates: FloatArray | None = None) -> FloatArray:
        """`predict_proba` of rows at nodes found already, without reading labels."""
        proba = self._rows_proba(nodes)
        return proba if self._softmax is None else self._softmax.apply(proba, covariates)

    def _rows_proba(self, nodes: np.ndarray) -> FloatArray:
        """Of rows at nodes: where classes evolve, a row at an inner node is a tip below it."""
        return np.asarray((self.node_proba_ if self._below is None else self._below)[nodes])

    def predict(self, X: Features) -> np.ndarray:
        """The most probable class."""
        proba = self.predict_proba(X)
        return np.asarray(self.classes_[np.argmax(proba, axis=1)])

    def explain(self, X: Features, label: Label = None, *, feature_names: FeatureNames = None) -> NumberExplanation:
        """Which balls made the probability of one row's class (the predicted one, or ``label``), and what covariates changed.

        ``feature_names`` changes nothing here: covariates act together.
        """
        nodes, depths, covariates = self._place(X)
        check_one_row(nodes, X)
        proba = self._rows_proba(nodes)
        final = self.proba_at(nodes, covariates)
        place = {value: j for j, value in enumerate(self.classes_.tolist())}
        if label is not None and label not in place:
            raise VpunnError(f"{label!r} is no class; the classes are {examples(self.classes_)}.")
        at = int(np.argmax(final[0])) if label is None else place[label]
        extra = [] if self._softmax is None else [("covariates", float(final[0, at] - proba[0, at]))]
        if self._below is not None and not self.tree_.is_leaf[nodes[0]]:
            extra = [("change on the way to a tip below", float(proba[0, at] - self.node_proba_[nodes[0], at]))]
        name = f"P({self.classes_[at]}) = "
        return explained(
            self.tree_, int(nodes[0]), self.node_proba_[:, at], extra, float(final[0, at]), int(depths[0]), name
        )

    def _to_store(self, draft: Draft) -> None:
        self._write_input(draft)
        draft.labels("classes", self.classes_)
        draft.array("node_proba", self.node_proba_, balls=True)
        if self._below is not None:
            draft.array("below", self._below, balls=True)
            draft.array("rates", self.rates_)
            draft.settings["log_likelihood"] = self.log_likelihood_
        else:
            draft.array("penalty", self.penalty_)
        if self._softmax is not None:
            for name in ("a", "gamma", "centre", "scale"):
                draft.array(f"softmax.{name}", getattr(self._softmax, name))

    @classmethod
    def _from_store(cls, stored: Stored) -> VPuNNClassifier:
        model = cls._read_input(stored)
        tree, c = model.tree_, len(model._covariate_columns)
        model.classes_ = stored.labels("classes")
        m = len(model.classes_)
        model.node_proba_ = stored.array("node_proba", dtype="f8", shape=(tree.n_nodes, m), low=0)
        if not np.allclose(model.node_proba_.sum(1), 1.0, atol=1e-6):
            raise VpunnError("the probabilities of a node do not sum to 1.")
        model._softmax = None
        model._below = None
        if "below" in stored:
            model._below = stored.array("below", dtype="f8", shape=(tree.n_nodes, m), low=0)
            model.rates_ = stored.array("rates", dtype="f8", shape=(m, m))
            model.log_likelihood_ = stored.setting("log_likelihood", float)
        else:
            model.penalty_ = stored.array("penalty", dtype="f8", shape=(tree.max_depth,), low=0)
        if "softmax.a" in stored:
            model._softmax = top = object.__new__(_SoftmaxOnTop)
            shapes = {"a": (), "gamma": (c + 1, m), "centre": (c,), "scale": (c,)}
            for name, shape in shapes.items():
                setattr(top, name, stored.array(f"softmax.{name}", dtype="f8", shape=shape))
            top.a = float(top.a)
        return model


class _SoftmaxOnTop:
    """logit_c = a·log p_c + x·γ_c + b_c by maximum likelihood, ridge ½|γ|² + ½|b|² on standardised x."""

    def __init__(self, proba: FloatArray, column: np.ndarray, x: FloatArray, weight: FloatArray) -> None:
        from scipy.optimize import minimize

        used = weight > 0
        self.centre = np.average(x[used], axis=0, weights=weight[used])
        spread = np.sqrt(np.average((x[used] - self.centre) ** 2, axis=0, weights=weight[used]))
        self.scale = np.where(spread > 0, spread, 1.0)
        evidence, design = np.log(proba), self._design(x)
        shape = (design.shape[1], proba.shape[1])
        rows = np.arange(len(column))

        def loss(theta: FloatArray) -> tuple[float, FloatArray]:
            a, gamma = theta[0], theta[1:].reshape(shape)
            p = softmax(a * evidence + design @ gamma, axis=1)
            value = -float(weight @ np.log(np.maximum(p[rows, column], 1e-300))) + 0.5 * float((gamma**2).sum())
            p[rows, column] -= 1.0
            p *= weight[:, None]
            return value, np.append((p * evidence).sum(), (design.T @ p + gamma).ravel())

        start = np.append(1.0, np.zeros(shape[0] * shape[1]))
        found = minimize(loss, start, jac=True, method="L-BFGS-B")
        self.a, self.gamma = float(found.x[0]), found.x[1:].reshape(shape)

    def apply(self, proba: FloatArray, x: FloatArray | None) -> FloatArray:
        assert x is not None
        return np.asarray(softmax(self.a * np.log(proba) + self._design(x) @ self.gamma, axis=1))

    def _design(self, x: FloatArray) -> FloatArray:
        return np.column_stack([np.ones(len(x)), (x - self.centre) / self.scale])
