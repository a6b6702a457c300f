"""Traits on a dated tree of mammals: RMSE (log10) and cover of 95 % intervals on random fifths held out; and how time grows.

PanTHERIA's traits on the supertree of 5,020 tips. ``python -m benchmarks.phylogeny [--seeds 3] [--tips 1000000]``; the files
are read from ``$VPUNN_DATA_DIR``. Where R is installed, one likelihood of nlme (with λ given) and one ape::pic stand beside ours.
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
from vpunn import Tree, VPuNNRegressor, read_tree
from vpunn.cli.common import emit
from vpunn.regress.evolution import Rows, evaluate
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


def mammals(folder: Path, seeds: int) -> Iterator[dict[str, Any]]:
    """Each trait with the likeliest evolution, by order, family and genus alone, and how the intervals cover."""
    tree = read_tree(folder / "public/phylogeny/mammals_ele_1307.nex.gz")
    table = pd.read_csv(
        folder / "PanTHERIA_1-0_WR05_Aug2008.txt", sep="\t", lineterminator="\r", na_values=[-999, "-999.00"]
    )
    names = table["MSW05_Binomial"].str.replace(" ", "_")
    known = names.isin(set(tree.labels[tree.leaves]))
    for trait, column in TRAITS.items():
        rows = known & (table[column] > 0)
        X, y = names[rows].to_numpy(object)[:, None], np.log10(table[column][rows].to_numpy(float))
        errors, inside, models = [], [], []
        for seed in range(seeds):
            order = np.random.default_rng(seed).permutation(len(y))
            test, train = order[: len(y) // 5], order[len(y) // 5 :]
            model = VPuNNRegressor(tree, evolution="auto").fit(X[train], y[train])
            mean, sd = model.predict(X[test], return_std=True)
            errors.append(np.sqrt(np.mean((mean - y[test]) ** 2)))
            inside.append(np.mean(np.abs(mean - y[test]) < 1.96 * sd))
            models.append(model.evolution_)
        yield {
            "trait": trait,
            "rows": len(y),
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


def _seconds(call: Any, times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - start) / times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tips", type=int, nargs="*", default=[500, 1000, 2000, 1_000_000])
    options = parser.parse_args()
    found = list(mammals(Path(os.environ.get("VPUNN_DATA_DIR", ".")), options.seeds))
    emit(found, as_json=False)
    grown = [growth(tips) for tips in options.tips]
    emit([{key: row.get(key) for key in dict.fromkeys(k for r in grown for k in r)} for row in grown], as_json=False)
    print(f"written: {write_results('phylogeny', [*found, *grown])}")


if __name__ == "__main__":
    main()
