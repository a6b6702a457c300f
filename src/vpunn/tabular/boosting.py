"""Gradient boosting for tables: LightGBM when installed, scikit-learn's histogram boosting otherwise; one small front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from vpunn._types import Targets
from vpunn.errors import VpunnError, check_choice, examples
from vpunn.store import Draft, Storable, Stored
from vpunn.tabular._forest import Forest


class Booster(Storable):
    """``kind`` is ``"regression"`` or ``"classification"``; columns in ``categorical`` hold small whole numbers or NaN.

    ``predict`` returns values, or one probability per class in the order of ``classes_``. ``engine`` says which library
    is used. Both run on one thread: results repeat, and the tables here are small.
    """

    model_: Any

    def __init__(
        self, kind: str, categorical: Sequence[int] = (), *, rounds: int = 300, seed: int = 0, engine: str | None = None
    ) -> None:
        check_choice("kind", kind, ("regression", "classification"))
        self.kind, self.categorical, self.rounds, self.seed = kind, list(categorical), rounds, seed
        self.engine = engine or best_engine()
        check_choice("engine", self.engine, ("lightgbm", "sklearn"))

    def fit(self, features: np.ndarray, target: Targets, weights: np.ndarray | None = None) -> Booster:
        """Train; ``target`` holds numbers, or class labels of any kind; ``weights`` count in the loss, by their ratios."""
        target = np.asarray(target)
        if self.kind == "classification":
            self.classes_, target = _classes(target)
        else:
            target = _finite(target)
        # both libraries refuse splits of little weight: very small weights must not mean no splits
        weights = None if weights is None else weights / weights.mean()
        if self.engine == "lightgbm":
            self._fit_lightgbm(features, target, weights)
        else:
            self._fit_sklearn(features, target, weights)
        return self

    def _fit_lightgbm(self, features: np.ndarray, target: np.ndarray, weights: np.ndarray | None) -> None:
        import lightgbm

        settings: dict[str, Any] = {"learning_rate": 0.05, "num_leaves": 31, "seed": self.seed, "verbose": -1}
        settings |= {"num_threads": 1, "deterministic": True}
        if self.kind == "regression":
            settings["objective"] = "regression"
        elif len(self.classes_) == 2:
            settings["objective"] = "binary"
        else:
            settings |= {"objective": "multiclass", "num_class": len(self.classes_)}
        data = lightgbm.Dataset(
            features, target, weight=weights, categorical_feature=self.categorical, params={"verbose": -1}
        )
        self.model_ = lightgbm.train(settings, data, self.rounds)

    def _fit_sklearn(self, features: np.ndarray, target: np.ndarray, weights: np.ndarray | None) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        make = HistGradientBoostingRegressor if self.kind == "regression" else HistGradientBoostingClassifier
        # more categories than scikit-learn bins: read such a column as numbers
        bins = [j for j in self.categorical if np.nanmax(features[:, j], initial=0) < 255]
        with threadpool_limits(1, user_api="openmp"):  # sums in another order are other bytes
            fitted = make(
                max_iter=self.rounds,
                learning_rate=0.05,
                early_stopping=False,
                categorical_features=bins or None,
                random_state=self.seed,
            ).fit(features, target, sample_weight=weights)
        self.model_ = Forest.of(fitted, bins, features, len(self.classes_) if self.kind == "classification" else 0)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Values (regression) or class probabilities, one row each."""
        if self.engine != "lightgbm":
            return np.asarray(self.model_.predict(features))
        found = np.asarray(self.model_.predict(features, num_threads=1))
        if self.kind == "classification" and len(self.classes_) == 2:
            return np.column_stack([1.0 - found, found])
        return found

    def _to_store(self, draft: Draft) -> None:
        """LightGBM's own text, or the trees of scikit-learn's boosting as arrays."""
        draft.settings |= {name: getattr(self, name) for name in ("kind", "categorical", "rounds", "seed", "engine")}
        if self.kind == "classification":
            draft.labels("classes", self.classes_)
        if self.engine == "lightgbm":
            draft.text("lightgbm", self.model_.model_to_string())
        else:
            draft.settings |= {"width": self.model_.width, "binned": list(self.model_.known)}
            self.model_.put(draft)

    @classmethod
    def _from_store(cls, stored: Stored) -> Booster:
        kind, categorical = stored.setting("kind", str), stored.setting("categorical", list)
        rounds, seed = stored.setting("rounds", int), stored.setting("seed", int)
        found = cls(kind, categorical, rounds=rounds, seed=seed, engine=stored.setting("engine", str))
        if kind == "classification":
            found.classes_ = stored.labels("classes")
        if found.engine == "lightgbm":
            found.model_ = _lightgbm(stored.text("lightgbm"))
        else:
            width, binned = stored.setting("width", int), stored.setting("binned", list)
            if any(type(j) is not int or not 0 <= j < width for j in binned):
                raise VpunnError(f"the columns of categories {binned!r} are not among {width} columns.")
            found.model_ = Forest.get(stored, width, binned, len(found.classes_) if kind == "classification" else 0)
        return found


def _lightgbm(text: str) -> Any:
    try:
        import lightgbm
    except (ImportError, OSError):
        raise VpunnError("its predictors need LightGBM; install it with: pip install 'vpunn[tab]'.") from None
    try:
        return lightgbm.Booster(model_str=text)
    except (lightgbm.basic.LightGBMError, ValueError, IndexError) as error:
        raise VpunnError(f"LightGBM cannot read its model: {error}.") from None


def _classes(target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct labels and the place of each row's label among them."""
    try:
        classes, place = np.unique(target, return_inverse=True)
    except TypeError:
        raise VpunnError(
            "the labels of a classification must compare with each other; turn them all into text."
        ) from None
    if len(classes) < 2:
        raise VpunnError(
            f"a classification needs at least two classes; the target holds only {examples(classes.tolist())}."
        )
    return classes, place


def _finite(target: np.ndarray) -> np.ndarray:
    """The target of a regression as finite numbers."""
    try:
        values = target.astype(np.float64)
    except (ValueError, TypeError):
        text = examples(list(dict.fromkeys(map(str, target.ravel()))))
        raise VpunnError(
            f'a regression needs a target of numbers; got {text}; use kind="classification" for labels.'
        ) from None
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise VpunnError(f"the target is missing or infinite in row {examples(bad.tolist())}; drop those rows first.")
    return values


def best_engine() -> str:
    """``"lightgbm"`` if it can be imported, else ``"sklearn"``."""
    try:
        import lightgbm  # noqa: F401
    except (ImportError, OSError):  # OSError: installed, but its OpenMP library is missing
        return "sklearn"
    return "lightgbm"


def guess_kind(target: Targets) -> str:
    """Numbers with more than 20 different values, or fractions, are a regression; anything else is a classification."""
    values = np.asarray(target)
    if values.dtype.kind not in "fiu":
        return "classification"
    fractions = values.dtype.kind == "f" and bool((values != np.round(values)).any())
    return "regression" if fractions or len(np.unique(values)) > 20 else "classification"
