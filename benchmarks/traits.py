"""PanTHERIA: predict mammal traits from order, family and genus; shuffled 5-fold, the same folds for everybody, one thread.

Nine continuous traits (log10, RMSE over the held-out rows) and five categorical ones (accuracy, log loss, ECE). Every
method runs with its defaults, ours included, plus LightGBM tuned inside each training fold (first seed only: it is slow). A
peer that is not installed or fails is listed as such. ``python -m benchmarks.traits [--repeats 5]``.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import TargetEncoder

from benchmarks.common import best_seconds, write_results
from vpunn.cli.common import emit
from vpunn.datasets import load_pantheria
from vpunn.metrics import calibration_error_interval, negative_log_likelihood
from vpunn.regress import VPuNNClassifier, VPuNNRegressor
from vpunn.regress.encoders import PadicTargetEncoder
from vpunn.regress.shrinkage import fit_shrinkage, restricted_log_likelihood
from vpunn.tree import Tree

LEVELS = ["Order", "Family", "Genus"]

CONTINUOUS = {
    "body mass": "AdultBodyMass_g",
    "gestation": "GestationLen_d",
    "litter size": "LitterSize",
    "longevity": "MaxLongevity_m",
    # nobody looked at these while the method was chosen
    "neonate mass": "NeonateBodyMass_g",
    "weaning age": "WeaningAge_d",
    "sexual maturity": "SexualMaturityAge_d",
    "home range": "HomeRange_km2",
    "population density": "PopulationDensity_n/km2",
}
CATEGORICAL = ["ActivityCycle", "TrophicLevel", "Terrestriality", "DietBreadth", "HabitatBreadth"]
#: Smallest probability in the log loss, the same for everybody.
FLOOR = 1e-3


class BackOffMeans(BaseEstimator):
    """Mean of the genus if it was seen, else of the family, else of the order, else of all."""

    def fit(self, X: pd.DataFrame, y: Any) -> BackOffMeans:
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

    def fit(self, X: pd.DataFrame, y: Any) -> AsCategories:
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


class BackOffFrequencies(BackOffMeans):
    """The same with class frequencies, and one pseudo-row spread evenly over the classes in every group."""

    def fit(self, X: pd.DataFrame, y: Any) -> BackOffFrequencies:
        self.classes_, codes = np.unique(y, return_inverse=True)
        super().fit(X, np.eye(len(self.classes_))[codes])
        for k, means in enumerate(self.means_):
            rows = X.groupby(LEVELS[: k + 1]).size().loc[means.index].to_numpy()[:, None]
            self.means_[k] = (means * rows + 1 / len(self.classes_)) / (rows + 1)
        return self

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        return super().predict(X)


def hierarchy_of(frame: pd.DataFrame) -> dict[str, Any]:
    """Order → family → genera, in the nested form that category_encoders takes."""
    return {
        order: {family: tuple(sorted(g["Genus"].unique())) for family, g in o.groupby("Family")}
        for order, o in frame.groupby("Order")
    }


Method = tuple[str, Callable[[], Any]]


def regressors(frame: pd.DataFrame) -> Iterator[Method]:
    yield "vpunn VPuNNRegressor", VPuNNRegressor
    yield "vpunn PadicTargetEncoder + ridge", lambda: make_pipeline(PadicTargetEncoder(random_state=0), Ridge())
    yield "back-off means", BackOffMeans
    yield "sklearn TargetEncoder + ridge", lambda: make_pipeline(TargetEncoder(), Ridge())
    yield from lightgbm_methods("LGBMRegressor", "neg_root_mean_squared_error")
    yield "LightGBM on sklearn TargetEncoder", lambda: make_pipeline(TargetEncoder(), lightgbm("LGBMRegressor"))
    for name in ("TargetEncoder", "JamesSteinEncoder", "MEstimateEncoder", "CatBoostEncoder"):
        yield f"category_encoders {name} + ridge", lambda name=name: make_pipeline(category_encoder(name), Ridge())
    yield (
        "category_encoders TargetEncoder(hierarchy) + ridge",
        lambda: make_pipeline(
            category_encoder("TargetEncoder", cols=["Genus"], hierarchy={"Genus": hierarchy_of(frame)}),
            GenusOnly(),
            Ridge(),
        ),
    )


class GenusOnly(BaseEstimator):
    """Keeps the encoded genus only."""

    def fit(self, X: pd.DataFrame, y: Any = None) -> GenusOnly:
        return self

    def transform(self, X: pd.DataFrame) -> np.ndarray:
        return X[["Genus"]].to_numpy(dtype=float)


def classifiers(frame: pd.DataFrame) -> Iterator[Method]:
    yield "vpunn VPuNNClassifier", VPuNNClassifier
    yield "back-off frequencies", BackOffFrequencies
    yield "sklearn TargetEncoder + logistic", lambda: make_pipeline(TargetEncoder(), LogisticRegression(max_iter=1000))
    yield from lightgbm_methods("LGBMClassifier", "neg_log_loss")


def lightgbm_methods(kind: str, scoring: str) -> Iterator[Method]:
    grid = {"min_child_samples": [2, 5, 20], "cat_smooth": [1, 10], "n_estimators": [50, 200]}
    yield "LightGBM categories", lambda: AsCategories(lightgbm(kind))
    yield "LightGBM categories, tuned", lambda: AsCategories(GridSearchCV(lightgbm(kind), grid, scoring=scoring, cv=3))


def category_encoder(name: str, **options: Any) -> Any:
    import category_encoders

    return getattr(category_encoders, name)(**options)


def run(
    name: str, make: Callable[[], Any], repeats: int, evaluate: Callable[[Any, int], dict[str, Any]]
) -> dict[str, Any]:
    """One method on one task; what went wrong if it did."""
    repeats = 1 if name.endswith("tuned") else repeats
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = evaluate(make, repeats)
    except Exception as error:  # a peer's failure is a result, not an end
        return {"method": name, "error": f"{type(error).__name__}: {error}"[:200]}
    return {"method": name, **result, "seconds per fit": (time.perf_counter() - start) / (5 * repeats)}


def continuous_rows(frame: pd.DataFrame, repeats: int, tuned: bool) -> Iterator[dict[str, Any]]:
    for trait, column in CONTINUOUS.items():
        rows = frame[frame[column] > 0]
        X, y = rows[LEVELS].reset_index(drop=True), np.log10(rows[column].to_numpy())

        def evaluate(make: Any, repeats: int, X: Any = X, y: Any = y) -> dict[str, Any]:
            errors, inside = [], []
            for seed in range(repeats):
                left = np.empty(len(y))
                for train, test in KFold(5, shuffle=True, random_state=seed).split(X):
                    model = make().fit(X.iloc[train], y[train])
                    left[test] = model.predict(X.iloc[test])
                    if isinstance(model, VPuNNRegressor):
                        mean, sd = model.predict(X.iloc[test], return_std=True)
                        inside.append(np.abs(y[test] - mean) <= 1.96 * sd)
                errors.append(np.sqrt(np.mean((left - y) ** 2)))
            cover = {"95 % interval covers": float(np.mean(np.concatenate(inside)))} if inside else {}
            return {
                "RMSE": float(np.mean(errors)),
                "RMSE, seed 0": errors[0],
                "sd over seeds": float(np.std(errors)),
                **cover,
            }

        for name, make in regressors(frame):
            if tuned or not name.endswith("tuned"):
                yield {"trait": trait, "rows": len(y), **run(name, make, repeats, evaluate)}


def categorical_rows(frame: pd.DataFrame, repeats: int, tuned: bool) -> Iterator[dict[str, Any]]:
    for column in CATEGORICAL:
        rows = frame[frame[column].notna()]
        X, y = rows[LEVELS].reset_index(drop=True), rows[column].astype(int).to_numpy()
        classes, codes = np.unique(y, return_inverse=True)

        def evaluate(
            make: Any, repeats: int, X: Any = X, y: Any = y, classes: Any = classes, codes: Any = codes
        ) -> dict[str, Any]:
            probas = []
            for seed in range(repeats):
                left = np.zeros((len(y), len(classes)))
                for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y):
                    model = make().fit(X.iloc[train], y[train])
                    left[np.ix_(test, np.searchsorted(classes, model.classes_))] = model.predict_proba(X.iloc[test])
                probas.append(left)
            proba, target = np.concatenate(probas), np.tile(codes, repeats)
            right = proba.argmax(axis=1) == target
            ece = calibration_error_interval(probas[0].max(axis=1), right[: len(y)])
            loss = negative_log_likelihood(np.minimum(proba, 1.0), target, floor=FLOOR)
            return {
                "accuracy": float(right.mean()),
                "log loss": loss,
                "ECE, seed 0": ece.value,
                "ECE of chance": ece.noise,
            }

        for name, make in classifiers(frame):
            if tuned or not name.endswith("tuned"):
                yield {"trait": column, "rows": len(y), **run(name, make, repeats, evaluate)}


def speed_rows() -> list[dict[str, Any]]:
    """100,000 rows on a tree of 111,111 nodes: one likelihood evaluation, and a whole fit."""
    parent = np.concatenate([[-1], np.repeat(np.arange(11_111), 10)])
    tree = Tree.from_parents(parent)
    rng = np.random.default_rng(0)
    nodes = rng.choice(tree.leaves, 100_000).astype(np.int64)
    y = rng.normal(size=tree.n_nodes)[tree.parent[nodes]] + rng.normal(size=len(nodes))
    one = best_seconds(lambda: restricted_log_likelihood(tree, nodes, y, 1.0))
    fit = best_seconds(lambda: fit_shrinkage(tree, nodes, y), repeats=3)
    size = f"{len(nodes):,} rows, {tree.n_nodes:,} nodes"
    return [
        {"trait": size, "method": "vpunn: read data, likelihood and solution once", "seconds per fit": one},
        {"trait": size, "method": "vpunn: fit with all variances", "seconds per fit": fit},
    ]


def show(rows: list[dict[str, Any]]) -> None:
    """Print a table; a row that lacks a column (an error instead of a score) leaves it empty."""
    names = dict.fromkeys(name for row in rows for name in row)
    emit([{name: row.get(name) for name in names} for row in rows], as_json=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="how many times the 5 folds are drawn")
    parser.add_argument(
        "--no-tuning", action="store_true", help="leave out the tuned LightGBM, which takes most of the time"
    )
    options = parser.parse_args()
    frame = load_pantheria()
    rows: list[dict[str, Any]] = []
    for part in (continuous_rows, categorical_rows):
        found = list(part(frame, options.repeats, not options.no_tuning))
        show(found)
        rows += found
    found = speed_rows()
    show(found)
    print(f"written: {write_results('traits', rows + found)}")


if __name__ == "__main__":
    main()
