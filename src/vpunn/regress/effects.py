"""Several trees at once around any regressor: `TreeEffects`.

    y = f(covariates) + Σ over effects of the value of the row's node on that effect's tree + noise

A mixed model whose fixed part is any scikit-learn regressor. Two facts make it simple. What a row adds to its own effect is
known in closed form, so every row can be told what the *other* rows say of it. And fitting f to y − (what others say), weighted
by how sure they are, has generalised least squares as its fixed point, whatever f is linear in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vpunn._rows import counting_weights, row_numbers
from vpunn._sklearn import BaseEstimator, RegressorMixin, check_is_fitted, validate_data
from vpunn._types import FeatureNames, Features, Seed, Targets, Weights
from vpunn.errors import VpunnError, examples, refuse_lazy
from vpunn.regress._effect import Effect, specs_of
from vpunn.regress._rounds import Rounds, said_of
from vpunn.regress.boosted import BoostedTrees
from vpunn.regress.explanation import BallTerm, NumberExplanation, check_one_row, explained
from vpunn.regress.regressor import VPuNNRegressor
from vpunn.store import Draft, Storable, Stored

FloatArray = np.ndarray


@dataclass(frozen=True)
class EffectsExplanation:
    """A prediction as what the estimator said and what each effect's balls said; ``str()`` is readable."""

    prediction: float
    estimator: float  #: what f said of the covariates
    source: str  #: what f is
    effects: tuple[NumberExplanation, ...]

    @property
    def balls(self) -> tuple[BallTerm, ...]:
        """Of all effects, one after the other."""
        return tuple(ball for part in self.effects for ball in part.balls)

    def __str__(self) -> str:
        lines = [f"{self.prediction:.4g} = the sum of", f"  {self.estimator:+.4g}  {self.source}"]
        for part in self.effects:
            head, *rest = str(part).splitlines()
            lines += [
                f"  {part.prediction:+.4g}  {head.partition(' = ')[0]}, the sum of",
                *(f"  {one}" for one in rest),
            ]
        return "\n".join(lines)


class TreeEffects(RegressorMixin, Storable, BaseEstimator):
    """Regression with several categories, each a flat one or a tree, beside covariates that any regressor reads.

    Alternates between f, fitted to y less what *other* rows say of the row's categories, and the effects, fitted to y less
    what f says of rows it has not seen (``cv`` folds). Variances by restricted likelihood. It stops when the likelihood of rows
    left out grows by less than ``tol`` a row, and keeps the best round. O(rows + nodes) beside a few fits of the estimator.

    Parameters
    ----------
    estimator : regressor of the other columns, which it gets as an array of floats; None: `HistGradientBoostingRegressor()`.
    effects : a list, of a column (name or position), a tuple of level columns (broadest first), or a dict from one of these to its
        tree, or to a dict of ``"tree"``, ``"evolution"`` and ``"lengths"`` (as in `VPuNNRegressor`), and ``"slope"``: a column x of
        numbers, for x·c_B in place of c_B (lme4's ``(0 + x | group)``). Or one such dict. Crossed or nested, as the rows have them.
    cv : folds for what f says of rows it has not seen; the answer is the mean of their regressors.
    max_iter, tol : rounds at most, and the gain in log-likelihood a row that is worth another.
    random_state : seed of folds, and of the default estimator.

    Attributes: effects_ (per effect its `VPuNNRegressor`), names_, estimators_, noise_variance_, history_ (by round: log-likelihood
    of rows left out, a row), n_iter_ (rounds, the best one last).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> shop, day = rng.integers(0, 30, 400), rng.integers(0, 7, 400)
    >>> y = rng.normal(size=30)[shop] + rng.normal(size=7)[day] + 0.1 * rng.normal(size=400)
    >>> model = TreeEffects(effects=[0, 1]).fit(np.column_stack([shop, day]), y)
    >>> float(np.sqrt(model.noise_variance_).round(2))
    0.1
    >>> mean, sd = model.predict([[3, 2], [99, 2]], return_std=True)          # 99: a shop that nobody has seen
    >>> sd.round(1)
    array([0.1, 1.1])
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        effects: Any = (),
        cv: int = 5,
        max_iter: int = 10,
        tol: float = 1e-3,
        random_state: Seed = None,
    ) -> None:
        self.estimator = estimator
        self.effects = effects
        self.cv = cv
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags

        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        tags.input_tags.allow_nan = self.estimator is None or get_tags(self.estimator).input_tags.allow_nan
        return tags

    def fit(self, X: Features, y: Targets, *, sample_weight: Weights = None) -> TreeEffects:
        """Fit; ``sample_weight`` counts repetitions."""
        refuse_lazy(X, y)
        self._check_settings()
        X, y = validate_data(self, X, row_numbers(y), dtype=None, ensure_all_finite=False, y_numeric=True)
        y = np.asarray(y, dtype=float)
        weight = counting_weights(sample_weight, len(y))
        self._read_columns(X)
        for effect in self._effects:
            effect.read(X)
        rounds = Rounds(self, self._effects, self._covariates_of(X), y, weight)
        rounds.run()
        self.names_ = [effect.spec.name for effect in self._effects]
        self.effects_ = [effect.model for effect in self._effects]
        self.estimators_, self._mean, self.noise_variance_ = rounds.estimators, rounds.mean, rounds.noise
        self.history_ = rounds.history
        self.n_iter_ = rounds.best + 1
        return self

    def _check_settings(self) -> None:
        for name, least in (("cv", 2), ("max_iter", 1)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < least:
                raise VpunnError(f"{name} must be a whole number of at least {least}, got {value!r}.")
        if isinstance(self.tol, bool) or not isinstance(self.tol, int | float) or not self.tol >= 0:
            raise VpunnError(f"tol must be a number of at least 0, got {self.tol!r}.")
        if isinstance(self.estimator, type) or not (self.estimator is None or hasattr(self.estimator, "fit")):
            raise VpunnError(
                f"estimator must be a regressor, such as LinearRegression(), or None, got {self.estimator!r}."
            )

    def _read_columns(self, X: np.ndarray) -> None:
        """Which columns belong to which effect, and which are covariates."""
        specs = specs_of(self.effects)
        self._effects = [
            Effect(
                spec,
                self._positions(spec.columns, X.shape[1]),
                None if spec.slope is None else self._positions([spec.slope], X.shape[1])[0],
            )
            for spec in specs
        ]
        taken = {place for effect in self._effects for place in effect.places}
        self._covariates = [j for j in range(X.shape[1]) if j not in taken]

    def _positions(self, columns: Any, width: int) -> list[int]:
        names = list(getattr(self, "feature_names_in_", ()))
        out = []
        for column in columns:
            if isinstance(column, str):
                if column not in names:
                    raise VpunnError(f"there is no effect column {column!r} in X, which has {examples(names)}.")
                out.append(names.index(column))
            elif not -width <= column < width:
                raise VpunnError(f"effect column {column!r} is no position in X, which has {width} columns.")
            else:
                out.append(int(column) % width)
        return out

    def _covariates_of(self, X: np.ndarray) -> FloatArray | None:
        if not self._covariates:
            return None
        try:
            return np.asarray(X[:, self._covariates].astype(float))
        except (TypeError, ValueError, OverflowError) as error:
            raise VpunnError(
                f"columns that are no effect must be numbers ({error}); name them in effects=, or encode or drop them."
            ) from None

    def _estimated(self, covariates: FloatArray | None, rows: int) -> FloatArray:
        """f of new rows: the mean of the folds' regressors."""
        if covariates is None or not self.estimators_:
            return np.full(rows, self._mean)
        with said_of(self.estimators_[0]):
            told = [model.predict(covariates) for model in self.estimators_]
        return np.asarray(np.mean(told, axis=0)) + self._mean

    def _new(self, X: Features) -> np.ndarray:
        check_is_fitted(self)
        refuse_lazy(X)
        return np.asarray(validate_data(self, X, dtype=None, ensure_all_finite=False, reset=False))

    def predict(self, X: Features, return_std: bool = False) -> Any:
        """Mean per row; with ``return_std`` also the standard deviation of a new observation there.

        A category that no row has shown is told by its deepest known ancestor, at a larger standard deviation.
        """
        X = self._new(X)
        mean = self._estimated(self._covariates_of(X), len(X))
        variance = np.full(len(X), self.noise_variance_)
        for effect in self._effects:
            value, own = effect.predict(X)
            mean = mean + value
            variance += own
        return (mean, np.sqrt(variance)) if return_std else mean

    def explain(self, X: Features, *, feature_names: FeatureNames = None) -> EffectsExplanation:
        """What the estimator and each effect's balls said of one row; ``feature_names`` changes nothing here.

        >>> X = [["owl", "north"], ["owl", "south"], ["emu", "south"], ["emu", "north"], ["owl", "north"]]
        >>> print(TreeEffects(effects=[0, 1]).fit(X, [1.0, 1.2, 5.2, 5.0, 0.9]).explain([["owl", "west"]]))
        1.068 = the sum of
          +2.66  the mean of y
          -1.612  column 0, the sum of
            +0.403  root
            -2.015    owl
          +0.0204  column 1, the sum of
            +0.0204  root
          1 level below 'root' is unseen: its balls add 0
        """
        X = self._new(X)
        check_one_row(np.arange(len(X)), X)
        parts = []
        for effect in self._effects:
            node, depth = (int(found[0]) for found in effect.model._located(X[:, effect.places]))
            x = effect._slopes(X)
            share = 1.0 if x is None else float(x[0]) / effect.unit
            values = effect.fit.values * share
            parts.append(
                explained(effect.model.tree_, node, values, [], float(values[node]), depth, f"{effect.spec.name} = ")
            )
        said = float(self._estimated(self._covariates_of(X), 1)[0])
        source = "the mean of y"
        if self.estimators_:
            first = self.estimators_[0]
            source = f"{getattr(first, 'name', type(first).__name__)}, from the covariates"
        return EffectsExplanation(said + sum(part.prediction for part in parts), said, source, tuple(parts))

    def _to_store(self, draft: Draft) -> None:
        check_is_fitted(self)
        draft.params(self, skip=("estimator", "effects"))
        draft.settings |= {
            "covariates": self._covariates,
            "n_features": int(self.n_features_in_),
            "mean": self._mean,
            "noise": self.noise_variance_,
            "history": self.history_,
            "best": self.n_iter_,
            "estimators": len(self.estimators_),
            "effects": [effect.facts() for effect in self._effects],
        }
        if hasattr(self, "feature_names_in_"):
            draft.labels("feature_names", self.feature_names_in_)
        for j, effect in enumerate(self._effects):
            draft.add(f"effect{j}", effect.model)
        for j, model in enumerate(self.estimators_):
            draft.add(f"estimator{j}", _storable(model))

    @classmethod
    def _from_store(cls, stored: Stored) -> TreeEffects:
        model = cls(**stored.params(cls))
        model.n_features_in_ = stored.setting("n_features", int)
        if "feature_names" in stored:
            model.feature_names_in_ = stored.labels("feature_names", model.n_features_in_)
        model._covariates = [int(j) for j in stored.setting("covariates", list)]
        model._mean, model.noise_variance_ = stored.setting("mean", float), stored.setting("noise", float)
        model.history_, model.n_iter_ = stored.setting("history", list), stored.setting("best", int)
        facts = stored.setting("effects", list)
        model._effects = [Effect.of_facts(one, stored.get(f"effect{j}", VPuNNRegressor)) for j, one in enumerate(facts)]
        places = [*model._covariates, *(place for effect in model._effects for place in effect.places)]
        if not set(places) <= set(range(model.n_features_in_)) or not model.noise_variance_ >= 0:
            raise VpunnError(f"columns {places} are none of {model.n_features_in_}.")
        model.effects = [effect.spec.given() for effect in model._effects]
        model.names_ = [effect.spec.name for effect in model._effects]
        model.effects_ = [effect.model for effect in model._effects]
        model.estimators_ = [
            stored.get(f"estimator{j}", BoostedTrees) for j in range(stored.setting("estimators", int))
        ]
        if model.estimators_ and max(trees.width for trees in model.estimators_) > len(model._covariates):
            raise VpunnError(f"its trees ask for more than {len(model._covariates)} covariates.")
        return model


def _storable(estimator: Any) -> BoostedTrees:
    """An estimator as plain arrays."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    if isinstance(estimator, BoostedTrees):
        return estimator
    if not isinstance(estimator, HistGradientBoostingRegressor):
        raise VpunnError(
            f"a {type(estimator).__name__} has no form without pickle, so this model cannot be saved; the default estimator can be."
        )
    return BoostedTrees.of(estimator)
