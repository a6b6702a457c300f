"""What rows bring beside their features: a target, a weight and a group each; and some of them at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from vpunn._types import Groups, Targets, Weights
from vpunn.errors import VpunnError, counted, examples

#: Beyond this, squares and sums of features leave the range of 64-bit numbers.
LARGEST_FEATURE = 1e150

#: Weights that count repetitions add up, and multiply squares, within these bounds.
LARGEST_WEIGHT, SMALLEST_WEIGHT = 1e15, 1e-15


def slices(rows: int, step: int, first: int = 0) -> Iterator[slice]:
    """``step`` rows at a time, one slice after the other, from the ``first`` on; none of no rows.

    >>> list(slices(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return (slice(start, min(start + step, rows)) for start in range(first, rows, step))


def row_weights(sample_weight: Weights, rows: int) -> np.ndarray:
    """One finite weight of at least zero per row, not all of them zero; ones if none are given, or one number for all.

    >>> row_weights(None, 2), row_weights([1, 0.5], 2)
    (array([1., 1.]), array([1. , 0.5]))
    """
    if sample_weight is None:
        return np.ones(rows)
    weight = checked_weights(sample_weight, rows)
    if rows and not weight.any():
        raise VpunnError("all sample weights are zero, so there is nothing to learn from.")
    return weight


def counting_weights(sample_weight: Weights, rows: int, largest: float = LARGEST_WEIGHT) -> np.ndarray:
    """`row_weights` that count repetitions of rows: of a size at which they can be added up."""
    weight = row_weights(sample_weight, rows)
    if weight.max(initial=0) > largest:
        found = f"{weight.max():g}"
        raise VpunnError(
            f"sample weights may be at most {largest:g}, got {found}; divide all of them by the same number."
        )
    if rows and weight.max() < SMALLEST_WEIGHT:
        raise VpunnError(
            f"some sample weight must be at least {SMALLEST_WEIGHT:g}, got {weight.max():g} at most; multiply all of them by "
            "the same number."
        )
    return weight


def checked_weights(sample_weight: Weights, rows: int) -> np.ndarray:
    """One finite weight of at least zero per row, all zeros too: a part of the rows may weigh nothing."""
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except OverflowError:
        raise VpunnError(
            "sample_weight holds numbers that no float can hold; divide all of them by the same number."
        ) from None
    except (TypeError, ValueError):
        raise VpunnError(f"sample_weight must hold numbers, got {examples(np.ravel(sample_weight))}.") from None
    if weight.ndim == 0:
        weight = np.full(rows, weight)
    if weight.shape != (rows,):
        raise VpunnError(f"sample_weight needs one number per row, {rows:,} of them, got shape {weight.shape}.")
    bad = ~(np.isfinite(weight) & (weight >= 0))
    if bad.any():
        raise VpunnError(f"sample weights must be finite and at least 0; got {examples(weight[bad])}.")
    return weight


def row_numbers(y: Targets) -> Any:
    """Targets of a regression as numbers that can be squared, in the shape that they have; None is left to scikit-learn.

    >>> row_numbers([1, "2.5"])
    array([1. , 2.5])
    """
    try:
        given = np.asarray(y)
    except ValueError:  # lists of several lengths
        raise VpunnError("y must hold one number per row, or equally many in each.") from None
    if hasattr(y, "toarray"):
        raise VpunnError("y is a sparse matrix; pass y.toarray().")
    if y is None or given.dtype.kind == "c" or given.ndim not in (1, 2):
        return y
    if given.dtype.kind in "mM":
        raise VpunnError(
            f"y holds dates or times ({examples(given.ravel()[:1])}); turn them into numbers, such as days."
        )
    check_no_missing(given)
    try:
        values = given.astype(np.float64)
    except OverflowError:
        raise VpunnError("y holds numbers that no float can hold; divide all of them by the same number.") from None
    except (TypeError, ValueError):
        raise VpunnError(f"y must hold numbers, got {examples(given)}; encode them, or fit a classifier.") from None
    large = np.argwhere(~(np.abs(values) <= LARGEST_FEATURE))
    if len(large):
        raise VpunnError(
            f"y holds {values[tuple(large[0])]:g} in row {large[0][0]:,}, counted from 0; numbers may be at most "
            f"{LARGEST_FEATURE:g}: rescale y or leave the row out."
        )
    return values


def squarable(values: Any, what: str) -> np.ndarray:
    """Numbers that are finite and can be squared; ``what`` begins the sentence about those that are not.

    >>> squarable(["1", 2], "the column 'x'")
    array([1., 2.])
    """
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise VpunnError(f"{what} must hold numbers ({error}); encode or leave out what is none.") from None
    bad = np.argwhere(~(np.abs(np.atleast_1d(numbers)) <= LARGEST_FEATURE))
    if len(bad):
        raise VpunnError(
            f"{what} must be finite numbers up to {LARGEST_FEATURE:g}; not so in rows {examples(np.unique(bad[:, 0]))}: impute, "
            "rescale or drop them first."
        )
    return np.asarray(numbers)


def check_squares(y: np.ndarray, weight: np.ndarray) -> None:
    """Refuse targets whose squares leave the floats when they are added by weight."""
    largest = float(np.abs(y).max(initial=0.0))
    with np.errstate(over="ignore"):
        fits = np.isfinite(largest**2 * weight.sum())
    if not fits:
        raise VpunnError(
            f"y holds numbers of up to {largest:.3g}, whose squares times their weights no float can hold: rescale y."
        )


def uneven_weights(weight: np.ndarray) -> np.ndarray | None:
    """None where all weights are equal: then only the rows matter, and they count as without weights, to the bit.

    >>> uneven_weights(np.array([2.0, 2.0])), uneven_weights(np.array([2.0, 1.0]))
    (None, array([2., 1.]))
    """
    return None if (weight == weight[0]).all() else weight


def row_groups(groups: Groups, rows: int) -> np.ndarray | None:
    """Groups as numbers from 0, one per row; None if none are given."""
    if groups is None:
        return None
    given = np.asarray(groups)
    if given.ndim != 1 or len(given) != rows:
        raise VpunnError(f"groups needs one entry per row, {rows:,} of them, got an array of shape {given.shape}.")
    missing = _missing_rows(given)
    if len(missing):
        raise VpunnError(
            f"groups has no value in {counted(len(missing), 'row')}: {examples(missing)}; give each of them a group, a number of "
            "its own if it has none, or leave groups out."
        )
    try:
        return np.unique(given, return_inverse=True)[1].astype(np.int64)
    except TypeError as error:
        raise VpunnError(f"groups of several types have no order ({error}); turn all of them into text.") from error


def check_no_missing(y: Targets) -> None:
    """Refuse targets with None or NaN among them."""
    bad = _missing_rows(np.asarray(y))
    if len(bad):
        raise VpunnError(f"y is missing in rows {examples(bad)}; drop those rows first.")


def _missing_rows(values: np.ndarray) -> np.ndarray:
    """Rows that hold None or NaN."""
    if values.dtype.kind not in "OmM":  # pandas is large to import and needed for objects and dates alone
        missing = np.atleast_1d(values != values)
    else:
        import pandas as pd

        missing = np.atleast_1d(pd.isna(values))
    return np.flatnonzero(missing if missing.ndim == 1 else missing.reshape(len(missing), -1).any(axis=1))
