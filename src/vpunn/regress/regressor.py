"""Prediction from a hierarchical category: `VPuNNRegressor` and `VPuNNClassifier`.

X is a column of node labels (with ``tree=``) or several level columns, broadest first, as a DataFrame or an array; numeric
columns named by ``covariates`` stand beside the tree. One coefficient per ball is shrunk towards its parent by as much as
the data ask for, so rare and unseen categories borrow from their ancestors and nothing is tuned by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from vpunn._rows import check_squares, counting_weights, row_numbers, squarable
from vpunn._sklearn import RegressorMixin, check_is_fitted, validate_data
from vpunn._types import FeatureNames, Features, Ratios, Targets, Weights
from vpunn.errors import VpunnError, check_choice, examples, refuse_lazy
from vpunn.regress.base import MAX_COLUMNS, HierarchicalInput
from vpunn.regress.evolution import EvolutionFit, candidate, fit_evolution, read_number, written
from vpunn.regress.explanation import NumberExplanation, check_one_row, explained
from vpunn.regress.shrinkage import ShrinkageFit, fit_moments, fit_shrinkage
from vpunn.regress.variances import FREE, Branches
from vpunn.store import Draft, Stored
from vpunn.tree import Tree

if TYPE_CHECKING:
    import pandas as pd

    from vpunn.regress.answers import Signal
    from vpunn.scale import BallSums

FloatArray = np.ndarray
Fit = ShrinkageFit | EvolutionFit
FITS: dict[str, type[Fit]] = {"ShrinkageFit": ShrinkageFit, "EvolutionFit": EvolutionFit}


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
    evolution : None, variances by depth; or a model along the branches of ``tree``: ``"brownian"`` (Brownian motion), ``"lambda"``
        (with Pagel's λ), ``"ou"`` (Ornstein–Uhlenbeck) and ``"kappa"`` (Pagel's κ), both with λ too, and ``"auto"``, the one of
        these and of variances by depth that has the least AIC (`selection_` is the table).
    lengths : of branches: a column of the tree (default ``"length"``), a number for all, or one per node; or what to do about
        lengths that no process has, ``{"negative": "zero", "zero": "tiny", "missing": "mean"}`` (see `branch_lengths`).
    y_error : name or position of the column of X that holds the standard error of each y, or NaN; `predict` reads over it.
    parameters : values of λ (``"lambda"``), ``"alpha"`` and ``"kappa"`` that are not to be found by likelihood.

    Attributes
    ----------
    evolution_ (the model, ``"depth"`` where variances are by depth), parameters_ (of the model: σ² per unit of length is ``rate``),
    tree_, coef_ (c_B per node, or one row per target; the sum along a path is the prediction at covariates 0),
    covariate_coef_, noise_variance_ (σ²), depth_variance_ (of a difference at depth 1…K; λ is their quotient; NaN along branches),
    log_likelihood_.

    >>> X = [["Rodentia", "Mus"], ["Rodentia", "Mus"], ["Rodentia", "Rattus"], ["Cetacea", "Orcinus"]]
    >>> model = VPuNNRegressor().fit(X, [1.2, 1.4, 2.3, 6.5])
    >>> mean, sd = model.predict([["Rodentia", "Mus"], ["Rodentia", "Glis"], ["Carnivora", "Ursus"]], return_std=True)
    >>> mean.round(1)                    # an unseen genus, an unseen order
    array([1.4, 1.8, 4.1])
    >>> bool(sd[0] < sd[1] < sd[2])
    True
    """

    _compared: Sequence[dict[str, Any]] = ()  #: what "auto" chose from, for the first target

    def __init__(
        self,
        tree: Tree | None = None,
        *,
        covariates: Sequence[str | int] | None = None,
        penalty: float | Sequence[float] | None = None,
        evolution: str | None = None,
        lengths: Any = None,
        y_error: str | int | None = None,
        parameters: Mapping[str, float] | None = None,
    ) -> None:
        self.tree = tree
        self.covariates = covariates
        self.penalty = penalty
        self.evolution = evolution
        self.lengths = lengths
        self.y_error = y_error
        self.parameters = parameters

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = True  # on continuous columns, which are no categories: every value is its own
        return tags

    def fit(self, X: Features, y: Targets, *, sample_weight: Weights = None) -> VPuNNRegressor:
        """Fit; y may have several columns, each with its own variances. ``sample_weight`` counts repetitions."""
        refuse_lazy(X, y)
        X, y = validate_data(
            self, X, row_numbers(y), dtype=None, ensure_all_finite=False, multi_output=True, y_numeric=True
        )
        nodes, covariates = self._read_for_fit(X)
        weight = counting_weights(sample_weight, len(X))
        ratios = None if self.penalty is None else 1.0 / _positive(self.penalty, self.tree_.max_depth)
        targets = np.asarray(y, dtype=float).reshape(len(y), -1)
        branches = self._branches()
        error = self._errors_of(X)
        self._fits: list[Fit] = []
        self._compared = ()
        for target in targets.T:
            check_squares(target, weight)
            if branches is None:
                fit: Fit = fit_shrinkage(self.tree_, nodes, target, covariates=covariates, weight=weight, ratios=ratios)
            else:
                fit, table = self._evolved(branches, nodes, target, covariates, weight, error)
                self._compared = self._compared or table
            self._fits.append(fit)
        self._one_target = y.ndim == 1
        self._training = nodes, targets[:, 0]
        self._gather_fits()
        return self

    def _branches(self) -> Branches | None:
        """What evolution happens along; None where variances are by depth."""
        if self.evolution is not None:
            check_choice("evolution", self.evolution, (*FREE, "auto"))
        told = {"lengths": self.lengths, "y_error": self.y_error, "parameters": self.parameters}
        for name, value in told.items():
            if self.evolution is None and value is not None:
                raise VpunnError(
                    f'{name} belongs to a model along branches; say which by evolution="auto", or leave it out.'
                )
        if self.evolution is None or (
            self.evolution == "auto" and self.lengths is None and "length" not in self.tree_.columns
        ):
            return None  # without lengths, variances by depth are all there is to choose
        if self.penalty is not None:
            raise VpunnError(
                "penalty belongs to variances by depth, which evolution=None has; leave one of the two out."
            )
        return Branches.of(self.tree_, self.lengths)

    def _evolved(
        self,
        branches: Branches,
        nodes: np.ndarray,
        y: FloatArray,
        covariates: FloatArray | None,
        weight: FloatArray,
        error: FloatArray | None,
    ) -> tuple[Fit, list[dict[str, Any]]]:
        """One target's fit along branches, or by depth where "auto" finds that this is more likely; and what it compared."""
        along, table = fit_evolution(
            branches,
            nodes,
            y,
            model=str(self.evolution),
            covariates=covariates,
            weight=weight,
            error=error,
            parameters=self.parameters,
        )
        if self.evolution != "auto" or error is not None or self.parameters:
            return along, table
        by_depth = fit_shrinkage(self.tree_, nodes, y, covariates=covariates, weight=weight)
        row = candidate("depth", by_depth.log_likelihood, 1 + self.tree_.max_depth)
        return by_depth if row["AIC"] < min(r["AIC"] for r in table) else along, [*table, row]

    def _errors_of(self, X: FloatArray) -> FloatArray | None:
        """Standard errors of y, where a column holds them; a blank is none."""
        if self._error_column is None:
            return None
        given = X[:, self._error_column].astype(object)  # text, if X was a list of names and numbers
        values = squarable(np.where(given != given, 0.0, given), "the column of y_error")
        if (values < 0).any():
            raise VpunnError(f"standard errors are at least 0; got {examples(values[values < 0])}.")
        return values

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
        self.covariate_coef_ = self._gather([fit.slopes for fit in self._fits])
        self.noise_variance_ = self._gather([np.float64(fit.noise) for fit in self._fits])
        along = [fit for fit in self._fits if isinstance(fit, EvolutionFit)]
        self.evolution_ = self._gather([fit.model if isinstance(fit, EvolutionFit) else "depth" for fit in self._fits])
        if along:
            found = [fit.parameters if isinstance(fit, EvolutionFit) else {} for fit in self._fits]
            self.parameters_: Any = found[0] if self._one_target else found
        if along or self._compared:
            self.selection_ = list(self._compared)
        nothing = np.full(self.tree_.max_depth, np.nan)
        self.depth_variance_ = self._gather(
            [nothing if isinstance(fit, EvolutionFit) else fit.ratios * fit.noise for fit in self._fits]
        )
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
        mean, sd = self._answer(*self._place(X), return_std)
        return (mean, sd) if return_std else mean

    def _answer(
        self, nodes: np.ndarray, depths: np.ndarray, covariates: FloatArray | None, return_std: bool = True
    ) -> tuple[FloatArray, FloatArray | None]:
        """Mean and standard deviation (None if nobody asks) of rows that `_place` has placed."""
        mean = self._columns([fit.predict(nodes, covariates) for fit in self._fits])
        if not return_std:
            return mean, None
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
        return cast("tuple[FloatArray, FloatArray]", self._answer(nodes, depths, covariates))

    def explain(self, X: Features, target: int = 0, *, feature_names: FeatureNames = None) -> NumberExplanation:
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
            for j, value, slope in zip(self._covariate_columns, covariates[0], fit.slopes, strict=True):
                extra.append((f"{names[j]} = {value:g} × {slope:.3g}", float(value * slope)))
        found = float(fit.predict(nodes, covariates)[0])
        return explained(self.tree_, int(nodes[0]), fit.values, extra, found, int(depths[0]))

    def ancestors(self, target: int = 0, *, level: float = 0.95) -> pd.DataFrame:
        """The state of every inner node with its interval, covariates at 0: columns node, label, depth, mean, sd, low, high.

        >>> import io, vpunn
        >>> tree = vpunn.read_tree(io.StringIO("((owl:1,wren:1):1,emu:2);"))
        >>> model = VPuNNRegressor(tree, evolution="brownian").fit([["owl"], ["wren"], ["emu"]], [2.0, 4.0, 6.0])
        >>> model.ancestors()[["label", "mean"]].round(3)
                label   mean
        0   owl … emu  4.286
        1  owl … wren  3.429
        """
        from vpunn.regress.answers import states

        return states(self, target, level)

    def contrasts(self, X: Features = None, y: Targets = None) -> pd.DataFrame:
        """Felsenstein's independent contrasts of the rows just fitted, or of others: node, label, child, contrast, variance.

        A tip's rows are averaged. A contrast is the difference of the sides of a node divided by its standard deviation.
        """
        from vpunn.regress.answers import contrasts

        return contrasts(self.tree_, *self._rows_for(X, y), lengths=self.lengths)

    def signal(
        self, X: Features = None, y: Targets = None, *, permutations: int = 999, random_state: int = 0
    ) -> Signal:
        """Phylogenetic signal of the rows just fitted, or of others: Pagel's λ with its test, Blomberg's K with permutations."""
        from vpunn.regress.answers import signal

        rows = self._rows_for(X, y)
        return signal(self.tree_, *rows, lengths=self.lengths, permutations=permutations, random_state=random_state)

    def _rows_for(self, X: Features, y: Targets) -> tuple[np.ndarray, FloatArray]:
        check_is_fitted(self)
        if X is not None:
            return self._place(X)[0], np.asarray(y, float)
        if not hasattr(self, "_training"):
            raise VpunnError("a loaded model has no training rows; pass X and y.")
        return self._training

    def coefficients(self, target: int = 0) -> pd.DataFrame:
        """Intercept and covariates with standard error, t and two-sided p (PGLS, where `evolution` is a model along branches)."""
        from vpunn.regress.answers import coefficient_table

        return coefficient_table(self, target)

    def _to_store(self, draft: Draft) -> None:
        self._write_input(draft)
        draft.settings["one_target"] = self._one_target
        if self._compared:
            draft.settings["compared"] = [
                {name: written(value) for name, value in row.items()} for row in self._compared
            ]
        draft.settings["targets"] = len(self._fits)
        for j, fit in enumerate(self._fits):
            draft.add(f"fit{j}", fit)

    @classmethod
    def _from_store(cls, stored: Stored) -> VPuNNRegressor:
        model = cls._read_input(stored)
        compared = stored.settings.get("compared", [])
        model._compared = [{name: read_number(value) for name, value in row.items()} for row in compared]
        count, model._one_target = stored.setting("targets", int), stored.setting("one_target", bool)
        if not 0 < count <= (1 if model._one_target else MAX_COLUMNS):
            raise VpunnError(f"there are fits for {count} targets.")
        model._fits = [model._stored_fit(stored, f"fit{j}") for j in range(count)]
        model._gather_fits()
        return model

    def _stored_fit(self, stored: Stored, name: str) -> Fit:
        """A fit of this tree with these covariates."""
        asked = (self.tree_.n_nodes, len(self._covariate_columns))
        fit: Fit = stored.get(name, FITS.get(stored.part(name).kind, ShrinkageFit))
        deep = not isinstance(fit, ShrinkageFit) or len(fit.ratios) == self.tree_.max_depth
        if (len(fit.values), len(fit.slopes)) != asked or not deep:
            raise VpunnError(f"its {name} is not of a tree of {asked[0]} nodes and {asked[1]} covariates.")
        return fit

    def _gather(self, parts: list[Any]) -> Any:
        return parts[0] if self._one_target else np.stack(parts)

    def _columns(self, parts: list[FloatArray]) -> FloatArray:
        return parts[0] if self._one_target else np.column_stack(parts)


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
