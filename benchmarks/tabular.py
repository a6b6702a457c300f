"""Latent trees: speed and memory of clustering and of encoding, and what semantic ids are worth.

Every case runs in its own process on one thread, so that peak memory is its own. Times are the processor time of the
case (best of several runs where short), because other work on a shared machine stretches wall-clock time; memory is the
peak over what the process held when the data were ready. ``python -m benchmarks.tabular [case ...]``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import numpy as np

from benchmarks.common import best_seconds, peak_rss_mb, write_results
from vpunn.cli.common import emit


def rows_of(n: int, d: int = 11, clusters: int = 8) -> np.ndarray:
    """Gaussian clusters: ``clusters`` centres of spread 2, unit noise."""
    random = np.random.default_rng(0)
    return 2 * random.normal(size=(clusters, d))[random.integers(clusters, size=n)] + random.normal(size=(n, d))


def cpu_seconds(call: Callable[[], Any], repeats: int = 1) -> float:
    """Least processor time of a few runs."""
    return best_seconds(call, repeats, time.process_time)


def measured(what: str, limit: str, call: Callable[[], Any], repeats: int = 1) -> dict[str, Any]:
    """Time and memory of one call, beside the limit it must keep."""
    before = peak_rss_mb()
    seconds = cpu_seconds(call, repeats)
    return {"case": what, "seconds": seconds, "MB above the data": peak_rss_mb() - before, "limit": limit}


def repeats(n: int) -> int:
    """Short cases run three times."""
    return 3 if n < 10_000 else 1


def ward(n: int, limit: str) -> list[dict[str, Any]]:
    from vpunn.tabular import ward_cost, ward_linkage

    ward_linkage(rows_of(100), verbose=False)  # compile
    rows = rows_of(n)
    told = str(ward_cost(n, rows.shape[1]))
    what = f"vpunn ward_linkage, {n:,} × 11 (it says: {told})"
    return [measured(what, limit, lambda: ward_linkage(rows, verbose=False), repeats(n))]


def fastcluster_ward(n: int) -> list[dict[str, Any]]:
    import fastcluster

    rows = rows_of(n)
    what = f"fastcluster linkage_vector, {n:,} × 11"
    return [measured(what, "", lambda: fastcluster.linkage_vector(rows, "ward"), repeats(n))]


def scipy_ward(n: int) -> list[dict[str, Any]]:
    from scipy.cluster.hierarchy import linkage

    rows = rows_of(n)
    return [measured(f"scipy linkage, {n:,} × 11", "", lambda: linkage(rows, "ward"))]


def fitted(method: str, n: int, limit: str) -> list[dict[str, Any]]:
    """Fitting the encoder, then encoding rows it has not seen."""
    from vpunn.tabular import LatentTreeEncoder

    LatentTreeEncoder(method, random_state=0, verbose=False).fit(rows_of(3_000)).transform(rows_of(10))
    rows = rows_of(n)
    encoder = LatentTreeEncoder(method, random_state=0, verbose=False)
    found = [measured(f"LatentTreeEncoder({method!r}).fit, {n:,} × 11", limit, lambda: encoder.fit(rows))]
    fresh = rows_of(200_000)
    seconds = cpu_seconds(lambda: encoder.transform(fresh), 3)
    what = f"transform after {method!r}: {len(fresh) / seconds:,.0f} rows/s"
    return [*found, {"case": what, "seconds": seconds, "limit": "≥ 200,000 rows/s"}]


def agreement() -> list[dict[str, Any]]:
    """Are the clusters of two-stage those of exact Ward? 50,000 rows."""
    from sklearn.metrics import adjusted_rand_score

    from vpunn.tabular import LatentTreeEncoder

    rows, found = rows_of(50_000), []
    exact = LatentTreeEncoder(nodes_per_level=[8], verbose=False).fit(rows)
    quick = LatentTreeEncoder("two-stage", nodes_per_level=[8], random_state=0, verbose=False)
    seconds = cpu_seconds(lambda: quick.fit(rows))
    score = adjusted_rand_score(exact.leaf_, quick.leaf_)
    found.append(
        {"case": f"two-stage against exact Ward, 50,000 rows, 8 clusters: ARI {score:.3f}", "seconds": seconds}
    )
    kept = LatentTreeEncoder(verbose=False).fit(rows[:5000]).kept_
    return [*found, {"case": f"rows that stay in Ward's own leaf (5,000 rows, 64 leaves): {kept:.2%}"}]


def ids() -> list[dict[str, Any]]:
    """Recall of 10 nearest neighbours by shared prefix: digit images, and WordNet glosses as 128-dimensional vectors."""
    from sklearn.datasets import load_digits
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    from vpunn.datasets import load_wordnet
    from vpunn.tabular import prefix_recall, semantic_ids

    glosses = load_wordnet().tree.columns["gloss"]
    words = TfidfVectorizer(min_df=3, sublinear_tf=True).fit_transform(map(str, glosses))
    vectors = TruncatedSVD(128, random_state=0).fit_transform(words)
    found = []
    for name, data, metric in (
        ("digit images", load_digits().data, "euclidean"),
        ("WordNet glosses", vectors, "cosine"),
    ):
        for p in (8, 256):
            start = time.process_time()
            made = semantic_ids(data, p=p, K=3, metric=metric)
            seconds = time.process_time() - start
            assert len(np.unique(made.digits, axis=0)) == len(data)
            for row in prefix_recall(made, data):
                text = f"recall {row['recall']:.3f} among {row['candidates']:,.1f} of {len(data):,} (chance {row['chance']:.4f})"
                found.append({"case": f"{name}, p = {p}, {int(row['digits'])} digits: {text}", "seconds": seconds})
    return found


CASES: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "ward-5k": lambda: ward(5_000, "≤ 0.5 s"),
    "fastcluster-5k": lambda: fastcluster_ward(5_000),
    "scipy-5k": lambda: scipy_ward(5_000),
    "ward-50k": lambda: ward(50_000, "≤ 40 s, ≤ 300 MB"),
    "fastcluster-50k": lambda: fastcluster_ward(50_000),
    "fit-ward": lambda: fitted("ward", 5_000, ""),
    "fit-kmeans": lambda: fitted("kmeans", 1_000_000, ""),
    "fit-two-stage": lambda: fitted("two-stage", 1_000_000, "≤ 60 s, ≤ 2 GB"),
    "agreement": agreement,
    "ids": ids,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help=f"which of {', '.join(CASES)}; all by default")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(json.dumps(CASES[options.inside](), default=float))
        return
    rows: list[dict[str, Any]] = []
    for name in options.cases or CASES:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.tabular", "--inside", name], capture_output=True, text=True
        )
        if done.returncode:
            why = done.stderr.strip().splitlines()[-1]
            rows.append({"case": f"{name}: {why}"})  # a peer that is not installed is a result, not an end
            continue
        rows += json.loads(done.stdout.splitlines()[-1])
    names = ("case", "seconds", "MB above the data", "limit")
    emit([{name: row.get(name) for name in names} for row in rows], as_json=False)
    if not options.cases:
        print(f"written: {write_results('tabular', rows)}")


if __name__ == "__main__":
    main()
