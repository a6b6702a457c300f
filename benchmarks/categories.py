"""Many categories: one or two columns of thousands of names beside ordinary ones; ours and peers on the same published folds.

Wages (28,013 person-years; the person) and imdb (88,360 films; director and type), the first folds of Sigrist's study of
high-cardinality categories. Whatever is chosen is chosen on a fifth of the training rows. A peer that is not installed is listed
as such. One thread each, CPU seconds of fitting and answering. Folds are kept one by one, so that an interrupted command goes on
where it stopped. ``python -m benchmarks.categories [--data wages] [--folds 2]``; the tables are read from
``$VPUNN_DATA_DIR/public/categories``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from benchmarks.common import Runs, write_results
from vpunn.cli.common import emit
from vpunn.regress import TreeEffects, VPuNNRegressor

TABLES = {"wages": ("ln_wage", ["idcode"]), "imdb": ("score", ["director_id", "type_id"])}
#: What GPBoost and LightGBM may be: the defaults, and smaller trees.
GRID: list[dict[str, Any]] = [
    {},
    {"num_leaves": 8, "min_data_in_leaf": 100},
    {"max_depth": 1, "min_data_in_leaf": 100},
]
ROUNDS = 1000
Frame = pd.DataFrame
Array = np.ndarray
Method = Callable[[Frame, Array, Frame, list[str]], Array]


def ours(X: Frame, y: Array, new: Frame, names: list[str]) -> Array:
    return np.asarray(TreeEffects(effects=names, random_state=0).fit(X, y).predict(new))


def ours_linear(X: Frame, y: Array, new: Frame, names: list[str]) -> Array:
    """The first category alone, and everything else linear."""
    covariates = [name for name in X.columns if name not in names]
    kept = [names[0], *covariates]
    return np.asarray(VPuNNRegressor(covariates=covariates).fit(X[kept], y).predict(new[kept]))


def lightgbm(X: Frame, y: Array, new: Frame, names: list[str]) -> Array:
    """Names as its own categories; tuned."""
    import lightgbm as lgb

    kinds = {name: pd.CategoricalDtype(sorted(X[name].unique())) for name in names}
    X, new = X.astype(kinds), new.astype(kinds)
    train, held = train_test_split(np.arange(len(y)), test_size=0.2, random_state=0)
    best: tuple[float, Any] = (np.inf, None)
    fixed = {"n_jobs": 1, "verbose": -1, "random_state": 0}
    for setting in GRID:
        model = lgb.LGBMRegressor(n_estimators=ROUNDS, **setting, **fixed)
        stop = lgb.early_stopping(20, verbose=False)
        model.fit(X.iloc[train], y[train], eval_set=[(X.iloc[held], y[held])], callbacks=[stop])
        score = model.best_score_["valid_0"]["l2"]
        best = min(best, (score, {**setting, "n_estimators": model.best_iteration_}), key=lambda pair: pair[0])
    return np.asarray(lgb.LGBMRegressor(**best[1], **fixed).fit(X, y).predict(new))


def catboost(X: Frame, y: Array, new: Frame, names: list[str]) -> Array:
    """Its own target statistics; stopped on held-out rows."""
    from catboost import CatBoostRegressor

    kinds = dict.fromkeys(names, str)
    X, new = X.astype(kinds), new.astype(kinds)
    train, held = train_test_split(np.arange(len(y)), test_size=0.2, random_state=0)
    options = {
        "thread_count": 1,
        "verbose": False,
        "random_seed": 0,
        "cat_features": names,
        "allow_writing_files": False,
    }
    model = CatBoostRegressor(iterations=ROUNDS, early_stopping_rounds=20, **options)
    model.fit(X.iloc[train], y[train], eval_set=(X.iloc[held], y[held]))
    whole = CatBoostRegressor(
        iterations=max(model.best_iteration_ + 1, 1), learning_rate=model.learning_rate_, **options
    )
    return np.asarray(whole.fit(X, y).predict(new))


def gpboost(X: Frame, y: Array, new: Frame, names: list[str]) -> Array:
    """Boosting with random effects; tuned, and stopped on held-out rows."""
    import gpboost as gpb

    covariates = X.drop(columns=names).to_numpy(float)

    def fitted(rows: Array, setting: dict[str, Any], rounds: int, held: Array | None = None) -> Any:
        effects = gpb.GPModel(group_data=X.iloc[rows][names].to_numpy(), likelihood="gaussian", num_parallel_threads=1)
        table, stop = gpb.Dataset(covariates[rows], y[rows]), {}
        if held is not None:
            effects.set_prediction_data(group_data_pred=X.iloc[held][names].to_numpy())
            stop = {"valid_sets": table.create_valid(covariates[held], y[held]), "early_stopping_rounds": 20}
            stop |= {"use_gp_model_for_validation": True, "verbose_eval": False}
        options = {"verbose": -1, "num_threads": 1, "seed": 0, "metric": "mse", **setting}
        return gpb.train(params=options, train_set=table, gp_model=effects, num_boost_round=rounds, **stop)

    train, held = train_test_split(np.arange(len(y)), test_size=0.2, random_state=0)
    tried = [(fitted(train, setting, ROUNDS, held), k) for k, setting in enumerate(GRID)]
    best, k = min(tried, key=lambda pair: pair[0].best_score["valid_0"]["l2"])
    whole = fitted(np.arange(len(y)), GRID[k], best.best_iteration)
    table = new.drop(columns=names).to_numpy(float)
    found = whole.predict(data=table, group_data_pred=new[names].to_numpy(), pred_latent=True)
    return np.asarray(found["fixed_effect"] + found["random_effect_mean"])


def encoded(X: Frame, y: Array, new: Frame, names: list[str]) -> Array:
    """category_encoders' target encoder before scikit-learn's boosting."""
    from category_encoders import TargetEncoder
    from sklearn.ensemble import HistGradientBoostingRegressor

    kinds = dict.fromkeys(names, str)
    encoder = TargetEncoder(cols=names).fit(X.astype(kinds), y)
    model = HistGradientBoostingRegressor(random_state=0).fit(encoder.transform(X.astype(kinds)).to_numpy(), y)
    return np.asarray(model.predict(encoder.transform(new.astype(kinds)).to_numpy()))


def lme4(X: Frame, y: Array, new: Frame, names: list[str]) -> Array:
    """R's linear mixed model."""
    if shutil.which("Rscript") is None:
        raise ImportError("Rscript is not installed")
    with tempfile.TemporaryDirectory() as folder:
        X.assign(target=y).to_csv(f"{folder}/train.csv", index=False)
        new.to_csv(f"{folder}/new.csv", index=False)
        effects = " + ".join(f"(1 | {name})" for name in names)
        script = f"""
            suppressMessages(library(lme4)); d <- read.csv("{folder}/train.csv"); n <- read.csv("{folder}/new.csv")
            x <- setdiff(names(d), c("target", {", ".join(f'"{name}"' for name in names)}))
            f <- as.formula(paste("target ~", paste(x, collapse = " + "), "+ {effects}"))
            m <- lmer(f, d, control = lmerControl(calc.derivs = FALSE))
            write.csv(predict(m, n, allow.new.levels = TRUE), "{folder}/out.csv", row.names = FALSE)"""
        done = subprocess.run(["Rscript", "-e", script], capture_output=True, text=True)
        if done.returncode:
            raise ImportError(done.stderr.strip().splitlines()[-1])
        return np.asarray(pd.read_csv(f"{folder}/out.csv").to_numpy()[:, 0])


METHODS: dict[str, Method] = {
    "vpunn TreeEffects": ours,
    "vpunn VPuNNRegressor, linear": ours_linear,
    "GPBoost, tuned": gpboost,
    "CatBoost": catboost,
    "LightGBM categories, tuned": lightgbm,
    "category_encoders + boosting": encoded,
    "lme4": lme4,
}


def spent() -> float:
    """CPU seconds of this process and those it has waited for."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def rows_of(name: str, folder: Path, folds: int, methods: list[str]) -> list[dict[str, Any]]:
    """Every method on the first folds of one table."""
    target, names = TABLES[name]
    frame = pd.read_csv(folder / f"{name}.csv.gz")
    y = frame.pop(target).to_numpy(float)
    training = [
        np.asarray(rows) - 1 for rows in json.loads(gzip.decompress((folder / f"{name}.folds.json.gz").read_bytes()))
    ]
    kept = Runs("categories")

    def run(method: str, fold: int) -> dict[str, Any]:
        train = training[fold]
        test = np.setdiff1d(np.arange(len(y)), train)
        start = spent()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = METHODS[method](frame.iloc[train], y[train], frame.iloc[test], names)
        return {"MSE": float(np.mean((found - y[test]) ** 2)), "seconds": spent() - start}

    out = []
    for method in methods:
        row: dict[str, Any] = {"table": name, "method": method}
        try:
            found = [
                kept(lambda: run(method, fold), table=name, method=method, fold=fold)  # noqa: B023
                for fold in range(folds)
            ]
        except Exception as error:  # a peer's failure is a result, not an end
            row["error"] = f"{type(error).__name__}: {error}"[:120]
        else:
            errors = [one["MSE"] for one in found]
            row |= {"MSE": float(np.mean(errors)), "by fold": " ".join(f"{error:.4f}" for error in errors)}
            row["CPU s a fold"] = float(np.mean([one["seconds"] for one in found]))
        print(row, flush=True)
        out.append(row)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="*", choices=TABLES, default=list(TABLES))
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--folds", type=int, default=2)
    options = parser.parse_args()
    folder = Path(os.environ.get("VPUNN_DATA_DIR", ".")) / "public" / "categories"
    rows = [row for name in options.data for row in rows_of(name, folder, options.folds, options.methods)]
    emit([{key: row.get(key) for key in dict.fromkeys(k for r in rows for k in r)} for row in rows], as_json=False)
    print(f"written: {write_results('categories', rows)}")


if __name__ == "__main__":
    main()
