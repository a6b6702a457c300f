"""How the columns of a dense block count: each by its own spread, all as they were measured, or bent.

Columns of different units must be standardised. But of pixels, spectra or genes those that vary most often tell most, and
standardising drowns them among a thousand that hardly vary and say nothing. And the spread of prices, areas or masses is made by a
few rows, beside which all others are alike: such columns are *bent*, to asinh((x − median) / typical distance), which is about
linear near the median and a logarithm far from it.

Rows left out one at a time tell which it is: ridge regression on the classes answers for each as if it had not been learned, in
closed form from the products of the rows, so that a table of thousands of columns costs what its rows cost. Columns are
standardised unless something else surely tells better.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from vpunn.hipan._within import WIDE

Array = npt.NDArray[Any]

#: Rows that are enough to tell.
ENOUGH = 400
#: Ridges tried, as shares of the mean square of a row; the best of each reading is compared.
RIDGES = (0.01, 0.1, 1.0, 10.0)
#: The mean gain must be above its standard deviation, and be such a share of the loss: less changes no answers to speak of.
WORTH = 0.012
#: A column has long tails if its standard deviation is so many times what the middle half of its rows tells; of normal columns it
#: is 1, of exponential ones 1.2, of lognormal ones with a deviation of 1 (in logarithms) 2, of 1.5 it is 5.
LONG_TAILS = 3.0
#: Rows that tell the middle half, and distances of which the largest numbers are multiples that can be written.
LOOKED_AT, TINY = 2000, 1e-100


def column_scales(X: Array, node: Array | None) -> Array:
    """How every column is read, (4, columns): mean and spread (of bent ones after that), and the centre and unit by which it is
    bent, unit 0 if it is not. Sums are in 64 bits; a column that does not vary has spread 1. Columns that count as they were
    measured have one spread, the root of their mean square. Without a ``node`` of every row all columns are standardised.
    """
    X = np.ascontiguousarray(X, np.float64)  # sums in another order are other bits
    plain = np.concatenate([_mean_and_spread(X), np.zeros((2, X.shape[1]))])
    if node is None:
        return plain
    some = _some_rows(node)
    if not len(some):
        return plain
    target = (node[some][:, None] == np.unique(node[some])).astype(np.float64)
    with threadpool_limits(1, user_api="blas"):  # sums in another order are other bytes
        scale = _bent_if_better(X, plain, some, target)
        measured = X.shape[1] >= WIDE and _tell_as_measured(bend(X[some], scale) - scale[0], scale[1], target)
    if measured:
        varies = np.ptp(X, axis=0) > 0
        largest = float(scale[1][varies].max())
        scale[1] = largest * np.sqrt((np.where(varies, scale[1] / largest, 0.0) ** 2).mean())
    return scale


def bend(X: Array, scale: Array) -> Array:
    """Columns of long tails as their logarithms far from the centre, in 64 bits; others as they are."""
    X = np.ascontiguousarray(X, np.float64)
    at = np.flatnonzero(scale[3] > 0)
    if len(at):
        X = X.copy()
        X[:, at] = np.arcsinh((X[:, at] - scale[2, at]) / scale[3, at])
    return X


def _mean_and_spread(X: Array) -> Array:
    largest = np.maximum(np.abs(X).max(0, initial=0.0), 1e-300)  # first, so that squares neither overflow nor vanish
    centre = (X / largest).mean(0)
    spread = np.sqrt(((X / largest - centre) ** 2).mean(0))
    return np.stack([centre * largest, np.where(spread > 1e-14, spread, 1.0 / largest) * largest])


def _bent_if_better(X: Array, plain: Array, some: Array, target: Array) -> Array:
    """The scales with columns of long tails bent, if rows left out are told surely better so."""
    centre, unit = _middle(X, plain[1])
    if not unit.any():
        return plain
    bent = np.stack([*plain[:2], centre, unit])
    bent[:2] = _mean_and_spread(bend(X, bent))
    usual, losses = (_losses((bend(X[some], scale) - scale[0]) / scale[1], target) for scale in (plain, bent))
    return bent if _surely_less(usual, losses) else plain


def _middle(X: Array, spread: Array) -> tuple[Array, Array]:
    """Medians and typical distances from them, 0 of columns without long tails, and of those that have two values."""
    rows = X if len(X) <= LOOKED_AT else X[np.linspace(0, len(X) - 1, LOOKED_AT).astype(np.int64)]
    low, centre, high = np.quantile(rows, (0.25, 0.5, 0.75), axis=0)
    away = np.abs(rows - centre)
    unit = np.median(away, axis=0)
    for k in np.flatnonzero(unit == 0):  # more than half of the rows are the same
        others = away[away[:, k] > 0, k]
        unit[k] = np.median(others) if len(others) else 0.0
    with np.errstate(over="ignore"):
        tails = spread * 1.349 > LONG_TAILS * (high - low)
    several = (away > 0) & (np.abs(away - unit) > 1e-9 * unit)
    return centre, np.where(tails & several.any(0) & (unit > TINY), unit, 0.0)


def _tell_as_measured(raw: Array, spread: Array, target: Array) -> bool:
    """Whether the classes of rows left out are told surely better by columns as they are than by standardised ones."""
    return _surely_less(_losses(raw / spread, target), _losses(raw / np.abs(raw).max(initial=1e-300), target))


def _surely_less(usual: Array, losses: Array) -> bool:
    """Whether losses are less than usual by more than a standard deviation of that, and by something."""
    gain = usual - losses
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
    places = [start[c] + np.unique(np.linspace(0, count[c] - 1, each).astype(np.int64)) for c in several]
    return np.asarray(order[np.concatenate(places)])


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
