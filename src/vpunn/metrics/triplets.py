"""Triplets: which two of three items are the closest, by two opinions."""

from __future__ import annotations

import numpy as np

from vpunn._types import Numbers
from vpunn.errors import VpunnError


def closest_pairs(shared: Numbers) -> np.ndarray:
    """Which pair of every triple (x, y, z) shares most: 1 = xy, 2 = xz, 3 = yz; 0 if no pair shares more than both others.

    ``shared`` has three rows, what xy, xz and yz share, such as the depths of their common ancestors.

    >>> closest_pairs([[3, 1, 0, 2], [1, 1, 0, 2], [1, 2, 0, 1]]).tolist()
    [1, 3, 0, 0]
    """
    xy, xz, yz = np.asarray(shared)
    found = np.where((xy > xz) & (xy > yz), 1, np.where((xz > xy) & (xz > yz), 2, 0))
    return np.where((yz > xy) & (yz > xz), 3, found)


def triplet_accuracy(truth: Numbers, found: Numbers) -> float:
    """Of the triples whose closest pair ``truth`` knows, the share in which ``found`` has the same; no answer is a guess, 1/3.

    Both as in `closest_pairs`.

    >>> triplet_accuracy([[1, 1, 0], [0, 0, 0], [0, 0, 0]], [[2, 0, 1], [1, 0, 0], [1, 0, 0]]) == (1 + 1 / 3) / 2
    True
    """
    true, said = closest_pairs(truth), closest_pairs(found)
    known = true > 0
    if not known.any():
        raise VpunnError(f"none of {len(true):,} triples has a closest pair in truth, so there is nothing to judge.")
    right = np.where(said == 0, 1 / 3, said == true)
    return float(right[known].mean())
