"""PanTHERIA traits from order, family and genus: held-out error of five methods, and the simple peers the benchmark shares."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from vpunn._sklearn import BaseEstimator
from vpunn._types import Targets

LEVELS = ["Order", "Family", "Genus"]
TRAITS = {
    "body mass": "AdultBodyMass_g",
    "gestation": "GestationLen_d",
    "litter size": "LitterSize",
    "longevity": "MaxLongevity_m",
}


class BackOffMeans(BaseEstimator):
    """Mean of the genus if it was seen, else of the family, else of the order, else of all."""

    def fit(self, X: pd.DataFrame, y: Targets) -> BackOffMeans:
        target = pd.DataFrame(np.asarray(y).reshape(len(y), -1), index=X.index)
        self.means_ = [target.groupby([X[name] for name in LEVELS[: k + 1]]).mean() for k in range(len(LEVELS))]
        self.all_ = target.mean().to_numpy()
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        found = np.tile(self.all_, (len(X), 1))
        for k, means in enumerate(self.means_):
            keys = pd.MultiIndex.from_frame(X[LEVELS[: k + 1]]) if k else pd.Index(X[LEVELS[0]])
            rows = means.index.get_indexer(keys)
            found[rows >= 0] = means.to_numpy()[rows[rows >= 0]]
        return found.squeeze(axis=1) if found.shape[1] == 1 else found


class AsCategories(BaseEstimator):
    """Wraps an estimator that wants pandas categories (with the categories of the training rows)."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def _convert(self, X: pd.DataFrame) -> pd.DataFrame:
        return X.assign(**{name: pd.Categorical(X[name], kinds) for name, kinds in self.kinds_.items()})

    def fit(self, X: pd.DataFrame, y: Targets) -> AsCategories:
        self.kinds_ = {name: sorted(X[name].unique()) for name in LEVELS}
        self.estimator.fit(self._convert(X), y)
        self.classes_ = getattr(self.estimator, "classes_", None)
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        return np.asarray(self.estimator.predict(self._convert(X)))

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        return np.asarray(self.estimator.predict_proba(self._convert(X)))


def lightgbm(kind: str) -> Any:
    import lightgbm

    return getattr(lightgbm, kind)(n_jobs=1, verbose=-1, random_state=0)


def methods() -> dict[str, Callable[[], Any]]:
    """What is compared, each with its defaults."""
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import TargetEncoder

    from vpunn.regress import VPuNNRegressor

    return {
        "vpunn VPuNNRegressor": VPuNNRegressor,
        "back-off means": BackOffMeans,
        "sklearn TargetEncoder + ridge": lambda: make_pipeline(TargetEncoder(), Ridge()),
        "LightGBM categories": lambda: AsCategories(lightgbm("LGBMRegressor")),
    }


def trait_rows(seeds: int) -> list[dict[str, Any]]:
    """One row per method: RMSE of log10 traits over shuffled 5-fold, mean over ``seeds`` shuffles."""
    from vpunn.datasets import load_pantheria

    frame, table = load_pantheria(), []
    for name, make in methods().items():
        row: dict[str, Any] = {"method": name}
        if name.startswith("LightGBM") and importlib.util.find_spec("lightgbm") is None:
            table.append({**row, "note": "not installed"})
            continue
        for trait, column in TRAITS.items():
            rows = frame[frame[column] > 0]
            X, y = rows[LEVELS].reset_index(drop=True), np.log10(rows[column].to_numpy())
            row[trait] = float(np.mean([_held_out_rmse(make, X, y, seed) for seed in range(seeds)]))
        table.append({**row, "note": ""})
    return table


def _held_out_rmse(make: Callable[[], Any], X: pd.DataFrame, y: np.ndarray, seed: int) -> float:
    from sklearn.model_selection import KFold

    left = np.empty(len(y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # encoders of peers warn about unseen genera, which is the point here
        for train, test in KFold(5, shuffle=True, random_state=seed).split(X):
            left[test] = make().fit(X.iloc[train], y[train]).predict(X.iloc[test])
    return float(np.sqrt(np.mean((left - y) ** 2)))
