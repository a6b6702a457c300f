"""Traits on a dated tree of mammals: RMSE (log10) and cover of 95 % intervals on random fifths held out; and how time grows.

PanTHERIA's traits on the supertree of 5,020 tips. ``python -m benchmarks.phylogeny [--seeds 3] [--tips 1000000]``; the files
are read from ``$VPUNN_DATA_DIR``. Where R is installed, one likelihood of nlme (with λ given) and one ape::pic stand beside ours.
``--trees 20`` simulates instead: traits that evolved as each model says, on random trees of 500 tips (every other one
ultrametric), a fifth held out. ``--elton`` takes EltonTraits, many of whose values were filled in; ``--classes`` PanTHERIA's
activity, trophic level and terrestriality.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

from benchmarks.common import write_results
from vpunn import Tree, VPuNNClassifier, VPuNNRegressor, read_tree
from vpunn.cli.common import emit
from vpunn.io import read_trees
from vpunn.regress.likelihood import Rows, evaluate
from vpunn.regress.variances import Branches

TRAITS = {
    "body mass": "5-1_AdultBodyMass_g",
    "gestation": "9-1_GestationLen_d",
    "litter size": "15-1_LitterSize",
    "longevity": "17-1_MaxLongevity_m",
}
#: One likelihood of each, in CPU seconds.
SCRIPT = """
suppressMessages({library(ape); library(nlme)}); set.seed(1); t <- rcoal(N); d <- data.frame(y = rnorm(N), sp = t$tip.label)
s <- function(x) sum(system.time(x)[1:2])
cat(s(gls(y ~ 1, d, corPagel(0.5, t, form = ~sp, fixed = TRUE), method = "REML")), s(for (i in 1:20) pic(d$y, t)) / 20)
"""


#: Of EltonTraits, which fills many of them in from the genus or family.
ELTON = {
    "body mass (Elton)": "BodyMass-Value",
    "fruit, % of diet": "Diet-Fruit",
    "invertebrates, % of diet": "Diet-Inv",
}


def pantheria(folder: Path) -> tuple[Tree, pd.Series, pd.Series, pd.DataFrame]:
    """The dated supertree, the species of every row as it writes them, whether they are in it, and the table."""
    tree = read_tree(folder / "public/phylogeny/mammals_ele_1307.nex.gz")
    table = pd.read_csv(
        folder / "PanTHERIA_1-0_WR05_Aug2008.txt", sep="\t", lineterminator="\r", na_values=[-999, "-999.00"]
    )
    names = table["MSW05_Binomial"].str.replace(" ", "_")
    return tree, names, names.isin(set(tree.labels[tree.leaves])), table


def mammals(folder: Path, seeds: int) -> Iterator[dict[str, Any]]:
    """Each trait of PanTHERIA with the likeliest evolution, and how the intervals cover."""
    tree, names, known, table = pantheria(folder)
    for trait, column in TRAITS.items():
        rows = known & (table[column] > 0)
        X, y = names[rows].to_numpy(object)[:, None], np.log10(table[column][rows].to_numpy(float))
        yield {"trait": trait, "rows": len(y), **held_out(tree, X, y, "auto", seeds)}


def elton(folder: Path, seeds: int) -> Iterator[dict[str, Any]]:
    """Traits that were not measured everywhere, on the same tree with its lower dates, by every model."""
    tree = list(read_trees(folder / "public/phylogeny/mammals_ele_1307.nex.gz").values())[1]
    table = pd.read_csv(folder / "public/phylogeny/MamFuncDat.txt", sep="\t", encoding="latin-1")
    names = table["Scientific"].astype(str).str.replace(" ", "_")
    known = names.isin(set(tree.labels[tree.leaves]))
    for trait, column in ELTON.items():
        rows = known & table[column].notna()
        y = table[column][rows].to_numpy(float)
        X = names[rows].to_numpy(object)[:, None]
        for model in FITTED:
            found = held_out(tree, X, np.log10(y) if "mass" in trait else y, model, seeds)
            yield {"trait": trait, "asked": model, "rows": len(y), **found}


#: Classes of PanTHERIA.
CLASSES = {
    "activity": "1-1_ActivityCycle",
    "trophic level": "6-2_TrophicLevel",
    "terrestriality": "12-2_Terrestriality",
}


def classes(folder: Path, seeds: int) -> Iterator[dict[str, Any]]:
    """Classes along branches (Mk, equal and symmetric rates) and by depth: accuracy and log loss on random fifths."""
    tree, names, known, table = pantheria(folder)
    ways = {
        "Mk, equal rates": VPuNNClassifier(tree, evolution="mk"),
        "Mk, symmetric rates": VPuNNClassifier(tree, evolution="mk", rates="symmetric"),
        "by depth": VPuNNClassifier(tree),
    }
    for trait, column in CLASSES.items():
        rows = known & table[column].notna()
        X, y = names[rows].to_numpy(object)[:, None], table[column][rows].astype(int).to_numpy()
        for way, model in ways.items():
            right, loss = [], []
            for seed in range(seeds):
                order = np.random.default_rng(seed).permutation(len(y))
                test, train = order[: len(y) // 5], order[len(y) // 5 :]
                proba = model.fit(X[train], y[train]).predict_proba(X[test])
                at = np.searchsorted(model.classes_, y[test])
                right.append(np.mean(proba.argmax(axis=1) == at))
                loss.append(-np.mean(np.log(np.maximum(proba[np.arange(len(at)), at], 1e-9))))
            found = {"accuracy": float(np.mean(right)), "log loss": float(np.mean(loss))}
            yield {"trait": trait, "model": way, "rows": len(y), **found}


def held_out(tree: Tree, X: np.ndarray, y: np.ndarray, evolution: str, seeds: int) -> dict[str, Any]:
    """RMSE and cover of 95 % intervals on random fifths, and the models chosen."""
    errors, inside, models = [], [], []
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(y))
        test, train = order[: len(y) // 5], order[len(y) // 5 :]
        model = VPuNNRegressor(tree, evolution=evolution).fit(X[train], y[train])
        mean, sd = model.predict(X[test], return_std=True)
        errors.append(np.sqrt(np.mean((mean - y[test]) ** 2)))
        inside.append(np.mean(np.abs(mean - y[test]) < 1.96 * sd))
        models.append(model.evolution_)
    return {
        "RMSE": float(np.mean(errors)),
        "95 % covers": float(np.mean(inside)),
        "models": " ".join(sorted(set(models))),
    }


def growth(tips: int) -> dict[str, Any]:
    """One likelihood and one fit with λ on a random binary tree, in CPU seconds; R beside it up to 2,000 tips."""
    rng = np.random.default_rng(0)
    parent, stack = [-1], [(0, tips)]
    while stack:
        node, size = stack.pop()
        if size > 1:
            first = int(rng.integers(1, size))
            for part in (first, size - first):
                parent.append(node)
                stack.append((len(parent) - 1, part))
    tree = Tree.from_parents(np.array(parent), columns={"length": rng.exponential(size=len(parent))})
    leaves, y = np.asarray(tree.leaves), rng.normal(size=tips)
    rows = Rows.of(Branches.of(tree), leaves, y, np.zeros((tips, 0)), np.ones(tips), None)
    evaluate(rows, "lambda", {"lambda": 0.5})
    X = tree.labels[leaves].astype(object)[:, None]
    row: dict[str, Any] = {
        "tips": tips,
        "likelihood, s": _seconds(lambda: evaluate(rows, "lambda", {"lambda": 0.5}), 5),
    }
    row["fit, s"] = _seconds(lambda: VPuNNRegressor(tree, evolution="lambda").fit(X, y), 1)
    if tips <= 2000 and shutil.which("Rscript"):
        done = subprocess.run(["Rscript", "-e", SCRIPT.replace("N)", f"{tips})")], capture_output=True, text=True)
        if not done.returncode:
            row["nlme likelihood, s"], row["ape::pic, s"] = map(float, done.stdout.split()[-2:])
    return row


#: How a simulated trait evolves: pull α (per height), exponent of the lengths, share of a tip's variance that branches explain.
WORLDS = {
    "brownian": (0.0, 1.0, 1.0),
    "lambda = 0.6": (0.0, 1.0, 0.6),
    "ou, α = 3": (3.0, 1.0, 1.0),
    "kappa = 0.3": (0.0, 0.3, 1.0),
    "no signal": (0.0, 1.0, 0.0),
}
FITTED = ("brownian", "lambda", "ou", "kappa", "auto")


def random_tree(rng: np.random.Generator, tips: int, ultrametric: bool) -> Tree:
    """Lineages that split at random until there are enough; else lengths are exponential."""
    parent, length, open_ends = [-1], [0.0], [0]
    while len(open_ends) < tips:
        split = open_ends.pop(int(rng.integers(len(open_ends))))
        wait = rng.exponential(1 / (len(open_ends) + 1))
        for end in (*open_ends, split) if ultrametric else ():
            length[end] += wait
        for _ in range(2):
            parent.append(split)
            length.append(0.0 if ultrametric else rng.exponential())
            open_ends.append(len(parent) - 1)
    if ultrametric:
        wait = rng.exponential(1 / tips)
        for end in open_ends:
            length[end] += wait
    return Tree.from_parents(np.array(parent), columns={"length": np.array(length)})


def simulated_trait(rng: np.random.Generator, tree: Tree, alpha: float, kappa: float, share: float) -> np.ndarray:
    """One value a tip, drawn from the root down, with a spread of about 1."""
    length, height = tree.columns["length"] / _height(tree).max(), np.zeros(tree.n_nodes)
    value = np.zeros(tree.n_nodes)
    for node in range(1, tree.n_nodes):
        step = length[node] ** kappa
        keep = np.exp(-alpha * step)
        variance = (1 - keep**2) / (2 * alpha) if alpha else step
        above = int(tree.parent[node])
        value[node] = keep * value[above] + rng.normal() * np.sqrt(variance)
        height[node] = height[above] + step
    tips = np.asarray(tree.leaves)
    own = rng.normal(size=len(tips)) * np.sqrt((1 - share) * height[tips])
    return np.asarray(np.sqrt(share) * value[tips] + own)


def _height(tree: Tree) -> np.ndarray:
    out = np.zeros(tree.n_nodes)
    for node in range(1, tree.n_nodes):
        out[node] = out[tree.parent[node]] + tree.columns["length"][node]
    return out


def simulated(trees: int, tips: int = 500) -> Iterator[dict[str, Any]]:
    """Held-out tips under every true model: RMSE over that of the true model, and what 95 % intervals cover."""
    for world, how in WORLDS.items():
        errors: dict[str, list[float]] = {name: [] for name in FITTED}
        inside: dict[str, list[float]] = {name: [] for name in FITTED}
        for seed in range(trees):
            rng = np.random.default_rng(seed)
            tree = random_tree(rng, tips, ultrametric=seed % 2 == 0)
            y, X = simulated_trait(rng, tree, *how), tree.labels[tree.leaves].astype(object)[:, None]
            order = rng.permutation(tips)
            test, train = order[: tips // 5], order[tips // 5 :]
            for name in FITTED:
                model = VPuNNRegressor(tree, evolution=name).fit(X[train], y[train])
                mean, sd = model.predict(X[test], return_std=True)
                errors[name].append(float(np.sqrt(np.mean((mean - y[test]) ** 2))))
                inside[name].append(float(np.mean(np.abs(mean - y[test]) < 1.96 * sd)))
        best = np.min([errors[name] for name in FITTED if name != "auto"], axis=0)
        for name in FITTED:
            yield {
                "truth": world,
                "model": name,
                "RMSE": float(np.mean(errors[name])),
                "over the best": float(np.mean(errors[name] / best)),
                "at worst": float(np.max(errors[name] / best)),
                "95 % covers": float(np.mean(inside[name])),
            }


def _seconds(call: Any, times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - start) / times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tips", type=int, nargs="*", default=[500, 1000, 2000, 1_000_000])
    parser.add_argument("--trees", type=int, default=0, help="simulate on so many trees, and do nothing else")
    parser.add_argument("--elton", action="store_true", help="EltonTraits by every model, and nothing else")
    parser.add_argument("--classes", action="store_true", help="classes along branches and by depth, and nothing else")
    options = parser.parse_args()
    folder = Path(os.environ.get("VPUNN_DATA_DIR", "."))
    for name, asked, make in (
        ("simulated", options.trees, lambda: simulated(options.trees)),
        ("elton", options.elton, lambda: elton(folder, options.seeds)),
        ("classes", options.classes, lambda: classes(folder, options.seeds)),
    ):
        if asked:
            rows = list(make())
            emit(rows, as_json=False)
            print(f"written: {write_results(f'phylogeny-{name}', rows)}")
            return
    found = list(mammals(folder, options.seeds))
    emit(found, as_json=False)
    grown = [growth(tips) for tips in options.tips]
    emit([{key: row.get(key) for key in dict.fromkeys(k for r in grown for k in r)} for row in grown], as_json=False)
    print(f"written: {write_results('phylogeny', [*found, *grown])}")


if __name__ == "__main__":
    main()
