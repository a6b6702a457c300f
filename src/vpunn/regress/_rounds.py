"""The alternation of `TreeEffects`: f from what other rows say, effects from what f says of rows it has not seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._rows import check_squares
from vpunn._seed import seed_of
from vpunn._sklearn import clone
from vpunn.errors import VpunnError

if TYPE_CHECKING:
    from vpunn.regress._effect import Effect
    from vpunn.regress.effects import TreeEffects

FloatArray = np.ndarray
#: Sweeps over the effects at most, and the change, in units of y's spread, at which they end.
SWEEPS, SETTLED = 100, 1e-6
#: How often variances and what others say follow each other in a round.
PASSES = 3


@contextmanager
def said_of(estimator: Any) -> Iterator[None]:
    """What the regressor of the covariates complains of, in one sentence."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        said = str(error).splitlines()[0].rstrip(".")
        raise VpunnError(
            f"the estimator {type(estimator).__name__} cannot use the columns that are no effect ({said}); fill in or drop what it "
            "cannot read, or take another estimator."
        ) from error


class Rounds:
    """One fit; after `run` it holds the best round's regressors and noise, and the effects hold that round's values."""

    def __init__(
        self,
        model: TreeEffects,
        effects: list[Effect],
        covariates: FloatArray | None,
        y: FloatArray,
        weight: FloatArray,
    ) -> None:
        self.model, self.effects, self.covariates, self.y, self.weight = model, effects, covariates, y, weight
        self.random = np.random.RandomState(seed_of(model.random_state))
        self.mean = float(np.average(y, weights=weight))
        self.spread = float(np.sqrt(np.average((y - self.mean) ** 2, weights=weight)))
        check_squares(y, weight)
        shape = (len(effects), len(y))
        self.added = np.zeros(shape)  #: what each effect adds to each row
        self.left, self.sure = np.zeros(shape), np.zeros(shape)  #: what other rows say of that, and its variance
        self.estimators: list[Any] = []
        self.floor = max(1e-10 * self.spread**2, 1e-300)
        self.noise = max(self.spread**2, self.floor)
        self.history: list[float] = []
        self.best = 0

    def run(self) -> None:
        """Alternate until rows left out gain no more."""
        kept: tuple[Any, ...] = ()
        left, sure = np.zeros_like(self.y), np.zeros_like(self.y)  # what others say of a row, and its variance
        for _ in range(self.model.max_iter):
            target = self.y - self.mean - left
            estimators, seen = self._out_of_fold(target, self.weight * self.noise / (self.noise + sure))
            rest = self.y - self.mean - seen
            left, sure = self._effects_of(rest)
            score = self._score(rest - left, sure)
            gain = score - (self.history[self.best] if self.history else -np.inf)
            self.history.append(score)
            if gain > 0:
                self.best = len(self.history) - 1
                kept = estimators, self.noise, [effect.keep() for effect in self.effects]
            if gain < self.model.tol or not estimators or not self.effects:
                break
        self.estimators, self.noise, fits = kept
        for effect, fit in zip(self.effects, fits, strict=True):
            effect.finish(fit)

    def _score(self, error: FloatArray, variance: FloatArray) -> float:
        """Log-likelihood a row of rows left out."""
        if self.spread == 0:
            return 0.0
        total = np.maximum(self.noise + variance, 1e-300)
        return float(-0.5 * np.average(np.log(2 * np.pi * total) + error**2 / total, weights=self.weight))

    def _out_of_fold(self, target: FloatArray, weight: FloatArray) -> tuple[list[Any], FloatArray]:
        """The estimator fitted without each fold in turn, and what it says there."""
        seen = np.zeros_like(target)
        folds = min(int(self.model.cv), len(target))
        if self.covariates is None or folds < 2:
            return [], seen
        from sklearn.model_selection import KFold
        from sklearn.utils.validation import has_fit_parameter

        estimators = []
        for train, test in KFold(folds, shuffle=True, random_state=self.random).split(target):
            if not weight[train].any():
                train = np.arange(len(target))
            estimator = self._new_estimator()
            options = {"sample_weight": weight[train]} if has_fit_parameter(estimator, "sample_weight") else {}
            rows = self.covariates[train]
            with said_of(estimator):  # a column without any value says nothing, and not every regressor reads it
                estimator.fit(np.where(np.isnan(rows).all(axis=0), 0.0, rows), target[train], **options)
                seen[test] = estimator.predict(self.covariates[test])
            estimators.append(estimator)
        return estimators, seen

    def _new_estimator(self) -> Any:
        if self.model.estimator is not None:
            return clone(self.model.estimator)
        from sklearn.ensemble import HistGradientBoostingRegressor

        return HistGradientBoostingRegressor(random_state=int(self.random.randint(2**31 - 1)))

    def _effects_of(self, rest: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Learn the variances and solve all effects for what f leaves; what others say of each row, and its variance.

        An effect's variances are learned from what the left-out values of the others leave, by the rows' certainty of those.
        """
        for _ in range(PASSES if len(self.effects) > 1 else len(self.effects)):
            learned = []
            for e, effect in enumerate(self.effects):
                part, beside = rest - self.left.sum(axis=0) + self.left[e], self.sure.sum(axis=0) - self.sure[e]
                weight = self.weight * self.noise / (self.noise + beside)
                learned.append(effect.learn(part, weight * (self.weight.sum() / weight.sum())))
            self.noise = max(min(learned), self.floor)
            self._solve(rest)
            error = rest - self.added.sum(axis=0)
            self.noise = max(float((self.weight * rest) @ error) / max(self.weight.sum() - 1, 1.0), self.floor)
            self._solve(rest)
            for e, effect in enumerate(self.effects):
                self.left[e], self.sure[e] = effect.left_out(self._part(rest, e), self.noise)
        if not self.effects:
            self.noise = max(float(np.average(rest**2, weights=self.weight)), self.floor)
        return self.left.sum(axis=0), self.sure.sum(axis=0)

    def _part(self, rest: FloatArray, e: int) -> FloatArray:
        """What the other effects leave to one of them."""
        return np.asarray(rest - self.added.sum(axis=0) + self.added[e])

    def _solve(self, rest: FloatArray) -> None:
        """All effects at once, by Gauss and Seidel over the trees, each of which is solved exactly."""
        for _ in range(SWEEPS if len(self.effects) > 1 else 1):
            change = 0.0
            for e, effect in enumerate(self.effects):
                new = effect.solve(self._part(rest, e), self.weight, self.noise)
                change = max(change, float(np.abs(new - self.added[e]).max()))
                self.added[e] = new
            if change <= SETTLED * self.spread:
                break
