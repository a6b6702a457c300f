"""Whether the columns of a wide dense block count each by its own spread, or all as they were measured.

Columns of different units must be standardised. But of pixels, spectra or genes those that vary most often tell most, and
standardising drowns them among a thousand that hardly vary and say nothing. Rows left out one at a time tell which it is: ridge
regression on the classes answers for each as if it had not been learned, in closed form from the products of the rows, so that a
table of thousands of columns costs what its rows cost. Columns keep the scales they came with only if that surely tells better.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: Rows that are enough to tell.
ENOUGH = 400
#: Ridges tried, as shares of the mean square of a row; the best of each reading is compared.
RIDGES = (0.01, 0.1, 1.0, 10.0)
#: The mean gain must be above its standard deviation, and be such a share of the loss: less changes no answers to speak of.
WORTH = 0.012


def as_measured(X: Array, scale: Array, node: Array) -> bool:
    """Whether the classes of rows left out are told surely better by the columns as they are than by standardised ones (``scale``:
    their means and spreads)."""
    some = _some_rows(node)
    if not len(some):
        return False
    target = (node[some][:, None] == np.unique(node[some])).astype(np.float64)
    raw = np.ascontiguousarray(X[some], np.float64) - scale[0]
    usual = _losses(raw / scale[1], target)
    gain = usual - _losses(raw / np.abs(raw).max(initial=1e-300), target)
    return bool(gain.mean() > max(gain.std() / np.sqrt(len(gain)), WORTH * usual.mean()))


def _some_rows(node: Array) -> Array:
    """At most `ENOUGH` rows of classes of several, of each class alike; none if there are not two such classes."""
    order = np.argsort(node, kind="stable")
    _, start, count = np.unique(node[order], return_index=True, return_counts=True)
    several = np.flatnonzero(count > 1)
    if len(several) < 2:
        return np.zeros(0, np.int64)
    each = max(ENOUGH // len(several), 2)
    several = several[np.unique(np.linspace(0, len(several) - 1, ENOUGH // each).astype(np.int64))]
    return np.concatenate([
        order[start[c] + np.unique(np.linspace(0, count[c] - 1, each).astype(np.int64))] for c in several
    ])  # fmt: skip


def _losses(Z: Array, target: Array) -> Array:
    """Squared errors of every row left out of a ridge regression on the classes, by the ridge that has the least."""
    Z = Z - Z.mean(0)
    products = Z @ Z.T
    size = float(np.trace(products)) / len(Z)
    if not size > 0.0:
        return np.asarray((target**2).sum(1))
    value, axes = np.linalg.eigh(products / size)
    value = np.maximum(value, 0.0)
    target = target - target.mean(0)
    turned = axes.T @ target
    best: Array | None = None
    for ridge in RIDGES:
        kept = value / (value + ridge)
        own = (axes**2) @ kept + 1.0 / len(Z)
        error = ((target - axes @ (kept[:, None] * turned)) ** 2).sum(1) / (1.0 - np.minimum(own, 1.0 - 1e-9)) ** 2
        if best is None or error.mean() < best.mean():
            best = error
    assert best is not None
    return best
