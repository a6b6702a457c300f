"""Prediction from a hierarchical category: `VPuNNRegressor` and `VPuNNClassifier`.

X is a column of node labels (with ``tree=``) or several level columns, broadest first, as a DataFrame or an array; numeric
columns named by ``covariates`` stand beside the tree. One coefficient per ball is shrunk towards its parent by as much as
the data ask for, so rare and unseen categories borrow from their ancestors and nothing is tuned by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

from vpunn._rows import check_no_missing, row_weights
from vpunn._sklearn import ClassifierMixin, RegressorMixin, check_classification_targets, check_is_fitted, validate_data
from vpunn._types import FeatureNames, Features, Label, Ratios, Targets, Weights
from vpunn.errors import VpunnError, examples, refuse_lazy
from vpunn.regress._explain import BallSum, ball_sum, check_one_row
from vpunn.regress._inputs import HierarchicalInput
from vpunn.regress.shrinkage import ShrinkageFit, fit_class_shrinkage, fit_moments, fit_shrinkage
from vpunn.store import Draft, Stored
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn.scale import BallSums, ClassSums

FloatArray = np.ndarray


#: The fields of a `ShrinkageFit` with their dtypes; those in the second tuple hold one number, or row, per ball.
_FIT_ARRAYS = {
    **dict.fromkeys(("values", "variance", "noise", "ratios", "beta", "beta_covariance", "centres"), "f8"),
    **dict.fromkeys(("ball_variance", "open_variance", "log_likelihood"), "f8"),
    **{"evaluations": "i8", "converged": "?"},
}
_FIT_OF_BALLS = ("values", "variance", "centres", "ball_variance")
#: Fields that folders written before do not have.
_LATE = ("ball_variance", "open_variance")


class VPuNNRegressor(RegressorMixin, HierarchicalInput):
    """Regression on a hierarchical category, y = x·β + Σ_{B∋node} c_B + noise, with every ball shrunk to its parent.

    Exact ridge on van der Put differences (the nested random-effects BLUP) in O(nodes); the ridge of each depth is found
    by restricted marginal likelihood. A row with unseen labels is predicted at its deepest known ancestor, with a larger
    predictive standard deviation. A missing level (None, NaN, "") ends the path: in `fit` the row is at that node; in `predict`
    it is one more row of that ball, which may be anywhere below, as the ball's training rows are.

    Parameters
    ----------
    tree : the hierarchy; then X has one column of node labels, or level columns that start below the root. None builds
        it from the level columns of X.
    covariates : names or positions of numeric columns of X that enter linearly; all others are labels or levels, in
        their order. In a pipeline, put them behind a ColumnTransformer and name positions.
    penalty : a ridge λ > 0, or one per depth 1…K, instead of the marginal likelihood's choice.

    Attributes
    ----------
    tree_, coef_ (c_B per node, or one row per target; the sum along a path is the prediction at covariates 0),
    covariate_coef_, noise_variance_ (σ²), depth_variance_ (of a difference at depth 1…K; λ is their quotient),
    log_likelihood_.

    >>> X = [["Rodentia", "Mus"], ["Rodentia", "Mus"], ["Rodentia", "Rattus"], ["Cetacea", "Orcinus"]]
    >>> model = VPuNNRegressor().fit(X, [1.2, 1.4, 2.3, 6.5])
    >>> mean, sd = model.predict([["Rodentia", "Mus"], ["Rodentia", "Glis"], ["Carnivora", "Ursus"]], return_std=True)
    >>> mean.round(1)                    # an unseen genus, an unseen order
    array([1.4, 1.8, 4.1])
    >>> bool(sd[0] < sd[1] < sd[2])
    True
    """

    def __init__(
        self,
        tree: Tree | None = None,
        *,
        covariates: Sequence[str | int] | None = None,
        penalty: float | Sequence[float] | None = None,
    ) -> None:
        self.tree = tree
        self.covariates = covariates
        self.penalty = penalty

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = True  # on continuous columns, which are no categories: every value is its own
        return tags

    def fit(self, X: Features, y: Targets, *, sample_weight: Weights = None) -> VPuNNRegressor:
        """Fit; y may have several columns, each with its own variances. ``sample_weight`` counts repetitions."""
        refuse_lazy(X, y)
        X, y = validate_data(self, X, y, dtype=None, ensure_all_finite=False, multi_output=True, y_numeric=True)
        nodes, covariates = self._read_for_fit(X)
        weight = row_weights(sample_weight, len(X))
        ratios = None if self.penalty is None else 1.0 / _positive(self.penalty, self.tree_.max_depth)
        targets = np.asarray(y, dtype=float).reshape(len(y), -1)
        self._fits: list[ShrinkageFit] = [
            fit_shrinkage(self.tree_, nodes, target, covariates=covariates, weight=weight, ratios=ratios)
            for target in targets.T
        ]
        self._one_target = y.ndim == 1
        self._gather_fits()
        return self

    @classmethod
    def from_sums(cls, sums: BallSums, *, penalty: Ratios = None, levels: int | None = None) -> VPuNNRegressor:
        """The regressor of `vpunn.scale.BallSums`, wherever its rows were summed: the same bytes for any partitioning.

        X of `predict` then has one column of node labels, or ``levels`` level columns, followed by the covariates. Equal to
        `fit` on the same rows up to rounding (the sums are exact, those of `fit` are not).
        """
        model = cls._reading(sums.tree, levels, sums.n_covariates, penalty=penalty)
        ratios = None if penalty is None else 1.0 / _positive(penalty, sums.tree.max_depth)
        model._fits = [fit_moments(sums.tree, sums.moments(j), ratios) for j in range(sums.n_targets)]
        model._one_target = sums.n_targets == 1
        model._gather_fits()
        return model

    def _gather_fits(self) -> None:
        """The fitted attributes, from the fit of each target."""
        self.coef_ = self._gather([fit.coefficients(self.tree_) for fit in self._fits])
        self.covariate_coef_ = self._gather([fit.beta for fit in self._fits])
        self.noise_variance_ = self._gather([np.float64(fit.noise) for fit in self._fits])
        self.depth_variance_ = self._gather([fit.ratios * fit.noise for fit in self._fits])
        self.log_likelihood_ = self._gather([np.float64(fit.log_likelihood) for fit in self._fits])

    def predict(self, X: Features, return_std: bool = False) -> Any:
        """Posterior mean per row; with ``return_std`` also the standard deviation of a *new observation* there.

        Where the path ends at an inner node (a missing level, or the label of one), the variance is the mean over the
        training rows of its ball, those that ended there and those below: (value at the row's node − value of the ball)² and
        the variance of that value, plus noise. One row more stands for children no row has shown.

        >>> X = [["bird", "owl"], ["bird", "owl"], ["bird", "emu"], ["bird", "emu"], ["fish", "cod"], ["fish", "cod"]]
        >>> model = VPuNNRegressor().fit(X, [1.1, 1.3, 4.5, 4.4, 2.2, 2.0])
        >>> mean, sd = model.predict([["bird", "owl"], ["bird", None]], return_std=True)
        >>> mean.round(1), sd.round(1)           # an owl, and some bird: an owl or an emu or a new one
        (array([1.2, 2.6]), array([0.2, 1.6]))
        """
        nodes, depths, covariates = self._place(X)
        mean = self._columns([fit.predict(nodes, covariates) for fit in self._fits])
        if not return_std:
            return mean
        variances = [fit.predictive_variance(self.tree_, nodes, depths, covariates) for fit in self._fits]
        return mean, np.sqrt(self._columns(variances))

    def predict_nodes(
        self, nodes: np.ndarray, covariates: FloatArray | None = None, *, known: np.ndarray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of a new observation at nodes found already: `predict` without reading labels.

        Rows that are not ``known`` stand at a node because their own label is unseen; they are as uncertain as the deepest leaf.
        """
        check_is_fitted(self)
        nodes = self.tree_.check_nodes(nodes)
        depths = self.tree_.depth[nodes]
        if known is not None:
            depths = np.where(known, depths, self.tree_.max_depth)
        mean = self._columns([fit.predict(nodes, covariates) for fit in self._fits])
        variances = [fit.predictive_variance(self.tree_, nodes, depths, covariates) for fit in self._fits]
        return mean, np.sqrt(self._columns(variances))

    def explain(self, X: Features, target: int = 0, *, feature_names: FeatureNames = None) -> BallSum:
        """Which balls made the prediction of one row: c_B along its chain, then x·β; the running total ends in `predict`.

        ``target`` chooses the column of y if there are several. ``feature_names`` names the columns of X, so the covariates.

        >>> X = [["Rodentia", "Mus"], ["Rodentia", "Mus"], ["Rodentia", "Rattus"], ["Cetacea", "Orcinus"]]
        >>> print(VPuNNRegressor().fit(X, [1.2, 1.4, 2.3, 6.5]).explain([["Rodentia", "Glis"]]))
        1.836 = the sum of
          +4.071  root
          -2.235    Rodentia
        1 level below 'Rodentia' is unseen: its balls add 0
        """
        nodes, depths, covariates = self._place(X)
        check_one_row(nodes, X)
        if not 0 <= target < len(self._fits):
            raise VpunnError(f"target {target} is no column of y, which has {len(self._fits)}.")
        fit = self._fits[target]
        extra = []
        if covariates is not None:
            names = feature_names
            if names is None:
                names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
            if len(names) != self.n_features_in_:
                raise VpunnError(f"feature_names needs {self.n_features_in_:,} names, got {len(names):,}.")
            for j, value, slope in zip(self._covariate_columns, covariates[0], fit.beta, strict=True):
                extra.append((f"{names[j]} = {value:g} × {slope:.3g}", float(value * slope)))
        found = float(fit.predict(nodes, covariates)[0])
        return ball_sum(self.tree_, int(nodes[0]), fit.values, extra, found, int(depths[0]))

    def _to_store(self, draft: Draft) -> None:
        self._write_input(draft)
        draft.settings["one_target"] = self._one_target
        for name in _FIT_ARRAYS:
            draft.array(name, np.stack([getattr(fit, name) for fit in self._fits]), balls=name in _FIT_OF_BALLS)

    @classmethod
    def _from_store(cls, stored: Stored) -> VPuNNRegressor:
        model = cls._read_input(stored)
        n, K, c = model.tree_.n_nodes, model.tree_.max_depth, len(model._covariate_columns)
        m = len(stored.array("noise", shape=(None,)))
        shapes: dict[str, tuple[int, ...]] = {"values": (m, n), "variance": (m, n), "centres": (m, n, c)}
        shapes |= {"ratios": (m, K), "beta": (m, c), "beta_covariance": (m, c, c)}
        shapes |= {"ball_variance": (m, n), "open_variance": (m, K + 1)}
        arrays = {
            name: stored.array(name, dtype=kind, shape=shapes.get(name, (m,)), **_range_of(name))
            for name, kind in _FIT_ARRAYS.items()
            if name in stored or name not in _LATE
        }
        if not set(_LATE) <= set(arrays):
            arrays |= _as_new_names(model.tree_, arrays["variance"], arrays["ratios"] * arrays["noise"][:, None])
        model._fits = []
        for j in range(m):
            one = {name: array[j] if array.ndim > 1 else array[j].item() for name, array in arrays.items()}
            model._fits.append(ShrinkageFit(**one))
        model._one_target = stored.setting("one_target", bool)
        if not m or (model._one_target and m > 1):
            raise VpunnError(f"there are fits for {m} targets.")
        model._gather_fits()
        return model

    def _gather(self, parts: list[Any]) -> Any:
        return parts[0] if self._one_target else np.stack(parts)

    def _columns(self, parts: list[FloatArray]) -> FloatArray:
        return parts[0] if self._one_target else np.column_stack(parts)


class VPuNNClassifier(ClassifierMixin, HierarchicalInput):
    """Class probabilities from a hierarchical category: the same shrinkage applied to class indicators.

    Every ball's distribution is a convex mix of its own counts and its parent's distribution, so probabilities are
    positive and sum to 1 by construction. The mixing of each depth, shared by the classes, minimises the exact
    leave-one-out log loss (closed form from the sweeps), which also calibrates it. On PanTHERIA's categorical traits
    this beat one-vs-rest logistic random effects in log loss, Brier score and calibration on all five (docs/regression.md).

    Covariates enter through a soft-max on top, logit_c = a·log p_c(node) + x·γ_c + b_c, fitted on the leave-one-out
    probabilities with unit ridge on γ for standardised x.

    Parameters ``tree`` and ``covariates`` as in `VPuNNRegressor`. Unseen labels get their deepest known ancestor's
    distribution.

    Attributes: tree_, classes_, node_proba_ (nodes × classes), penalty_ (ridge λ of each depth).

    >>> X = [["cat", "lion"], ["cat", "tiger"], ["dog", "wolf"], ["dog", "fox"], ["dog", "fox"]]
    >>> model = VPuNNClassifier().fit(X, ["solo", "solo", "pack", "solo", "pack"])
    >>> model.predict([["dog", "jackal"]])
    array(['pack'], dtype='<U4')
    """

    def __init__(self, tree: Tree | None = None, *, covariates: Sequence[str | int] | None = None) -> None:
        self.tree = tree
        self.covariates = covariates

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
        weight = row_weights(sample_weight, len(X))
        found = fit_class_shrinkage(self.tree_, nodes, column, len(self.classes_), weight)
        self.node_proba_, self.penalty_ = found.proba, 1.0 / found.ratios
        self._softmax = None
        if covariates is not None and len(self.classes_) > 1:
            self._softmax = _SoftmaxOnTop(found.left_out, column, covariates, weight)
        return self

    @classmethod
    def from_sums(cls, sums: ClassSums, *, levels: int | None = None) -> VPuNNClassifier:
        """The classifier of `vpunn.scale.ClassSums`, wherever its rows were counted; see `VPuNNRegressor.from_sums`."""
        if not len(sums.counts):
            raise VpunnError("no rows were counted, so there is nothing to fit.")
        model = cls._reading(sums.tree, levels, 0)
        model.classes_, model._softmax = sums.classes, None
        weight = sums.counts.astype(float)
        found = fit_class_shrinkage(sums.tree, sums.nodes, sums.column, len(sums.classes), weight)
        model.node_proba_, model.penalty_ = found.proba, 1.0 / found.ratios
        return model

    def predict_proba(self, X: Features) -> FloatArray:
        """Probability of each class, columns in the order of ``classes_``."""
        nodes, _, covariates = self._place(X)
        proba = self.node_proba_[nodes]
        return proba if self._softmax is None else self._softmax.apply(proba, covariates)

    def predict(self, X: Features) -> np.ndarray:
        """The most probable class."""
        proba = self.predict_proba(X)
        return np.asarray(self.classes_[np.argmax(proba, axis=1)])

    def explain(self, X: Features, label: Label = None) -> BallSum:
        """Which balls made the probability of one row's class (the predicted one, or ``label``), and what covariates changed."""
        nodes, depths, covariates = self._place(X)
        check_one_row(nodes, X)
        proba = self.node_proba_[nodes]
        final = proba if self._softmax is None else self._softmax.apply(proba, covariates)
        place = {value: j for j, value in enumerate(self.classes_.tolist())}
        if label is not None and label not in place:
            raise VpunnError(f"{label!r} is no class; the classes are {examples(self.classes_)}.")
        at = int(np.argmax(final[0])) if label is None else place[label]
        extra = [] if self._softmax is None else [("covariates", float(final[0, at] - proba[0, at]))]
        name = f"P({self.classes_[at]}) = "
        return ball_sum(
            self.tree_, int(nodes[0]), self.node_proba_[:, at], extra, float(final[0, at]), int(depths[0]), name
        )

    def _to_store(self, draft: Draft) -> None:
        self._write_input(draft)
        draft.labels("classes", self.classes_)
        draft.array("node_proba", self.node_proba_, balls=True)
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
        model.penalty_ = stored.array("penalty", dtype="f8", shape=(tree.max_depth,), low=0)
        model._softmax = None
        if "softmax.a" in stored:
            model._softmax = top = object.__new__(_SoftmaxOnTop)
            shapes = {"a": (), "gamma": (c + 1, m), "centre": (c,), "scale": (c,)}
            for name, shape in shapes.items():
                setattr(top, name, stored.array(f"softmax.{name}", dtype="f8", shape=shape))
            top.a = float(top.a)
        return model


def _as_new_names(tree: Tree, variance: FloatArray, steps: FloatArray) -> dict[str, FloatArray]:
    """What rows that end at an inner node add, where no rows were counted: as much as a new name at every depth below."""
    down = np.pad(np.cumsum(steps, axis=1), ((0, 0), (1, 0)))
    below = down[:, -1:] - down
    balls = np.where(tree.is_leaf, variance, variance + below[:, tree.depth])
    return {"ball_variance": balls, "open_variance": below}


def _range_of(name: str) -> dict[str, Any]:
    """Numbers a prediction is the sum of stay so small that it is finite; a log-likelihood may be infinite."""
    if name in _LATE:
        return {"low": 0, "high": 1e300}  # squares of numbers up to 1e150, however small the noise is
    return {"finite": False} if name == "log_likelihood" else {"low": -1e150, "high": 1e150}


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


def _positive(penalty: Ratios, depth: int) -> FloatArray:
    try:
        values = np.asarray(penalty, dtype=float)
    except (TypeError, ValueError):
        raise VpunnError(f"penalty must be a number or one per depth, got {penalty!r}.") from None
    if not np.all(np.isfinite(values) & (values > 0)):
        raise VpunnError(f"penalty must be positive and finite, got {penalty!r}.")
    if values.ndim and values.shape != (depth,):
        raise VpunnError(f"penalty needs one number, or one for each of the {depth} depths, got {penalty!r}.")
    return values
