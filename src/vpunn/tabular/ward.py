"""Ward's clustering in O(n·d) memory, with weights, progress and an estimate beforehand.

The nearest-neighbour chain keeps only cluster centres and weights: about 1.5·n² distances of d terms each, never an
n × n matrix (SciPy's would be 19 GB at 50,000 rows). The result is a SciPy linkage matrix, heights as SciPy's.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from vpunn._progress import progress_bar
from vpunn.errors import VpunnError


@dataclass(frozen=True)
class Cost:
    """What a computation is expected to take."""

    seconds: float
    bytes: int

    def __str__(self) -> str:
        minutes = self.seconds / 60
        span = (
            f"{self.seconds:.1f} s"
            if minutes < 2
            else f"{minutes:.0f} min"
            if minutes < 120
            else f"{minutes / 60:.1f} h"
        )
        return f"about {span} and {max(1, round(self.bytes / 1e6)):,} MB"


def ward_cost(n_rows: int, n_columns: int) -> Cost:
    """Estimated time and memory of `ward_linkage`, from a few milliseconds of measuring this machine.

    >>> ward_cost(1_000_000, 11).seconds > 100 * ward_cost(50_000, 11).seconds
    True
    """
    from vpunn.tabular import _kernels

    n = max(n_rows, 1)
    # caches make small scans cheaper per element, so measure a width near the average one of the real run
    width = int(np.clip(n // 2, 64, 200_000))
    sample = np.zeros((n_columns, width))
    weight, scratch = np.ones(width), np.empty(width)
    _kernels._nearest(sample, weight, 1, 0, scratch)  # compile outside the clock
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        _kernels._nearest(sample, weight, width, 0, scratch)
        best = min(best, time.perf_counter() - start)
    seconds = 3.0 * n * best * (n / 2) / width  # about 3n scans over n/2 clusters on average
    return Cost(seconds, 8 * n * (n_columns + 12))


def ward_linkage(rows: np.ndarray, weights: np.ndarray | None = None, *, verbose: bool | None = None) -> np.ndarray:
    """Ward's linkage matrix of ``rows`` (n × d floats): exact, O(n²·d) time, O(n·d) memory.

    Merging A and B costs √(2·w_A·w_B/(w_A+w_B))·‖mean_A − mean_B‖; ``weights`` (default 1) let one row stand for many.
    The estimate is printed with a progress bar when the run is expected to pass two seconds (``verbose`` forces it on
    or off). The last column holds the summed weights, which for weights of 1 are the usual counts.

    >>> ward_linkage(np.array([[0.0], [1.0], [10.0]]))[:, :2]
    array([[0., 1.],
           [2., 3.]])
    """
    from vpunn.tabular import _kernels

    rows = np.asarray(rows, dtype=np.float64)
    n, d = rows.shape
    if not np.isfinite(rows).all():
        bad = int((~np.isfinite(rows)).sum())
        raise VpunnError(f"ward_linkage needs finite numbers, but {bad} are not; fill or drop them first.")
    if n and float(np.abs(rows).max(initial=0.0)) > 1e140:
        raise VpunnError(
            f"ward_linkage squares values, but the largest is {np.abs(rows).max():g}; rescale the columns."
        )
    weight = np.ones(n) if weights is None else np.array(weights, dtype=np.float64)
    if len(weight) != n or not (weight > 0).all():
        least = weight.min(initial=np.inf)
        raise VpunnError(f"weights must be {n} positive numbers, one per row; got {len(weight)}, the least {least:g}.")
    if n < 2:
        return np.empty((0, 4))
    centre = np.ascontiguousarray((rows - rows.mean(axis=0)).T)  # centred: large offsets would cost digits
    cluster, slot_of = np.arange(n), np.arange(n)
    chain, state = np.empty(n + 1, np.int64), np.array([n, 0, 0])
    merges = np.empty((n - 1, 4))
    cost = ward_cost(n, d)
    with progress_bar(f"exact Ward on {n:,} rows, {cost}", n - 1, cost.seconds, verbose) as advance:
        budget = max(1, n // 100)
        while state[2] < n - 1:
            before = int(state[2])
            _kernels.ward_chain(centre, weight, cluster, slot_of, chain, state, merges, budget)
            advance(int(state[2]) - before)
    merges[:, 2] = np.sqrt(2.0 * merges[:, 2])
    merges = merges[np.argsort(merges[:, 2], kind="stable")]
    pairs = _kernels.relabel_merges(merges[:, 0].astype(np.int64), merges[:, 1].astype(np.int64))
    merges[:, :2] = np.sort(pairs, axis=1)
    return merges
