"""Many categories: one or two columns of thousands of names beside ordinary ones; ours and peers on the same published folds.

Wages (28,013 person-years; the person) and imdb (88,360 films; director and type), the first folds of Sigrist's study of
high-cardinality categories. Whatever is chosen is chosen on a fifth of the training rows. A peer that is not installed is listed
as such. One thread each, CPU seconds of choosing, fitting and answering. Folds and settings tried are kept one by one, so that an
interrupted command goes on where it stopped. ``python -m benchmarks.categories [--data wages] [--folds 2]``; the tables are read
from ``$VPUNN_DATA_DIR/public/categories``.
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
from dataclasses import dataclass, field
from functools import partial
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
#: What LightGBM may be: the defaults, and smaller trees.
GRID: list[dict[str, Any]] = [
    {},
    {"num_leaves": 8, "min_data_in_leaf": 100},
    {"max_depth": 1, "min_data_in_leaf": 100},
]
#: What GPBoost may be; its learning rate matters more than its trees.
GPBOOST = [{"learning_rate": rate, **trees} for rate in (0.1, 0.03) for trees in GRID[:2]]
ROUNDS = 1000
Frame = pd.DataFrame
Array = np.ndarray


@dataclass
class Task:
    """One fold of a table: rows to learn from, rows to answer, and which columns are categories."""

    X: Frame
    y: Array
    new: Frame
    names: list[str]
    kept: Callable[..., Any]
    seconds: float = 0.0  #: spent so far
    start: float = field(default_factory=lambda: spent())

    def best(
        self, settings: list[dict[str, Any]], fitted: Callable[[dict[str, Any], Array, Array], tuple[float, int]]
    ) -> tuple[dict[str, Any], int]:
        """The setting with the least error on a fifth of the training rows, and its rounds; ``fitted`` tells both."""
        train, held = train_test_split(np.arange(len(self.y)), test_size=0.2, random_state=0)

        def tried(setting: dict[str, Any]) -> dict[str, Any]:
            start = spent()
            error, rounds = fitted(setting, train, held)
            return {"error": error, "rounds": rounds, "seconds": spent() - start}

        found = [self.kept(lambda: tried(setting), setting=setting) for setting in settings]  # noqa: B023
        self.seconds += sum(one["seconds"] for one in found)
        self.start = spent()
        best = min(range(len(found)), key=lambda k: found[k]["error"])
        return settings[best], int(found[best]["rounds"])

    def finished(self, answers: Array, truth: Array) -> dict[str, float]:
        """Its error, and all CPU seconds."""
        return {"MSE": float(np.mean((answers - truth) ** 2)), "seconds": self.seconds + spent() - self.start}


def ours(task: Task) -> Array:
    return np.asarray(TreeEffects(effects=task.names, random_state=0).fit(task.X, task.y).predict(task.new))


def ours_linear(task: Task) -> Array:
    """The first category alone, and everything else linear."""
    covariates = [name for name in task.X.columns if name not in task.names]
    kept = [task.names[0], *covariates]
    return np.asarray(VPuNNRegressor(covariates=covariates).fit(task.X[kept], task.y).predict(task.new[kept]))


def lightgbm(task: Task) -> Array:
    """Names as its own categories; tuned."""
    import lightgbm as lgb

    kinds = {name: pd.CategoricalDtype(sorted(task.X[name].unique())) for name in task.names}
    X, new, y = task.X.astype(kinds), task.new.astype(kinds), task.y
    fixed = {"n_jobs": 1, "verbose": -1, "random_state": 0}

    def fitted(setting: dict[str, Any], train: Array, held: Array) -> tuple[float, int]:
        model = lgb.LGBMRegressor(n_estimators=ROUNDS, **setting, **fixed)
        stop = lgb.early_stopping(20, verbose=False)
        model.fit(X.iloc[train], y[train], eval_set=[(X.iloc[held], y[held])], callbacks=[stop])
        return model.best_score_["valid_0"]["l2"], model.best_iteration_

    setting, rounds = task.best(GRID, fitted)
    return np.asarray(lgb.LGBMRegressor(n_estimators=rounds, **setting, **fixed).fit(X, y).predict(new))


def catboost(task: Task) -> Array:
    """Its own target statistics; stopped on held-out rows."""
    from catboost import CatBoostRegressor

    kinds = dict.fromkeys(task.names, str)
    X, new, y = task.X.astype(kinds), task.new.astype(kinds), task.y
    options = {"thread_count": 1, "verbose": False, "random_seed": 0, "cat_features": task.names}
    options["allow_writing_files"] = False
    train, held = train_test_split(np.arange(len(y)), test_size=0.2, random_state=0)
    model = CatBoostRegressor(iterations=ROUNDS, early_stopping_rounds=20, **options)
    model.fit(X.iloc[train], y[train], eval_set=(X.iloc[held], y[held]))
    rounds = max(model.best_iteration_ + 1, 1)
    whole = CatBoostRegressor(iterations=rounds, learning_rate=model.learning_rate_, **options)
    return np.asarray(whole.fit(X, y).predict(new))


def gpboost(task: Task) -> Array:
    """Boosting with random effects; tuned, and stopped on held-out rows."""
    import gpboost as gpb

    groups, y = task.X[task.names].to_numpy(), task.y
    covariates = task.X.drop(columns=task.names).to_numpy(float)
    fixed = {"verbose": -1, "num_threads": 1, "seed": 0, "metric": "mse"}

    def trained(rows: Array, setting: dict[str, Any], rounds: int, held: Array | None = None) -> Any:
        effects = gpb.GPModel(group_data=groups[rows], likelihood="gaussian", num_parallel_threads=1)
        table, stop = gpb.Dataset(covariates[rows], y[rows]), {}
        if held is not None:
            effects.set_prediction_data(group_data_pred=groups[held])
            stop = {"valid_sets": table.create_valid(covariates[held], y[held]), "early_stopping_rounds": 20}
            stop |= {"use_gp_model_for_validation": True, "verbose_eval": False}
        options = {**fixed, **setting}
        return gpb.train(params=options, train_set=table, gp_model=effects, num_boost_round=rounds, **stop)

    def fitted(setting: dict[str, Any], train: Array, held: Array) -> tuple[float, int]:
        model = trained(train, setting, ROUNDS, held)
        return model.best_score["valid_0"]["l2"], model.best_iteration

    setting, rounds = task.best(GPBOOST, fitted)
    whole = trained(np.arange(len(y)), setting, rounds)
    table = task.new.drop(columns=task.names).to_numpy(float)
    found = whole.predict(data=table, group_data_pred=task.new[task.names].to_numpy(), pred_latent=True)
    return np.asarray(found["fixed_effect"] + found["random_effect_mean"])


def encoded(task: Task) -> Array:
    """category_encoders' target encoder before scikit-learn's boosting."""
    from category_encoders import TargetEncoder
    from sklearn.ensemble import HistGradientBoostingRegressor

    kinds = dict.fromkeys(task.names, str)
    X, new = task.X.astype(kinds), task.new.astype(kinds)
    encoder = TargetEncoder(cols=task.names).fit(X, task.y)
    model = HistGradientBoostingRegressor(random_state=0).fit(encoder.transform(X).to_numpy(), task.y)
    return np.asarray(model.predict(encoder.transform(new).to_numpy()))


def lme4(task: Task) -> Array:
    """R's linear mixed model."""
    if shutil.which("Rscript") is None:
        raise ImportError("Rscript is not installed")
    with tempfile.TemporaryDirectory() as folder:
        task.X.assign(target=task.y).to_csv(f"{folder}/train.csv", index=False)
        task.new.to_csv(f"{folder}/new.csv", index=False)
        effects = " + ".join(f"(1 | {name})" for name in task.names)
        script = f"""
            suppressMessages(library(lme4)); d <- read.csv("{folder}/train.csv"); n <- read.csv("{folder}/new.csv")
            x <- setdiff(names(d), c("target", {", ".join(f'"{name}"' for name in task.names)}))
            f <- as.formula(paste("target ~", paste(x, collapse = " + "), "+ {effects}"))
            m <- lmer(f, d, control = lmerControl(calc.derivs = FALSE))
            write.csv(predict(m, n, allow.new.levels = TRUE), "{folder}/out.csv", row.names = FALSE)"""
        done = subprocess.run(["Rscript", "-e", script], capture_output=True, text=True)
        if done.returncode:
            raise ImportError(done.stderr.strip().splitlines()[-1])
        return np.asarray(pd.read_csv(f"{folder}/out.csv").to_numpy()[:, 0])


METHODS: dict[str, Callable[[Task], Array]] = {
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
        part = partial(kept, table=name, method=method, fold=fold)
        task = Task(frame.iloc[train], y[train], frame.iloc[test], names, part)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return task.finished(METHODS[method](task), y[test])

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
