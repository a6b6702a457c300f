"""Wide dense blocks whose classes are no blobs: rings, spirals, several clusters each, somewhere in many columns.

Encoders give every class a direction, so wide blocks are read by angles, along the axes on which classes differ in their means.
Where they do not, those axes say nothing, and the nearest rows by plain distance would. A few rows left out tell: if the nearest by
plain distance are surely more often of their class than both the nearest by angle and the likeliest by the means, the block is read
plainly (`Space.plain`), with spreads of its own for every class and votes by distance (`_local`), as narrow blocks are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from vpunn.hipan._dense import Space
from vpunn.hipan._local import suits
from vpunn.hipan._within import WIDE

#: Rows left out, items that they are compared with at most, and how many of those vote.
ASKED, ITEMS, VOTERS = 400, 4000, 5
#: By how much more of the rows must be right, in all and in standard deviations.
WORTH, SURELY = 0.02, 3.0
#: Numbers in the spreads of all classes, at most.
MOST = 10_000_000


def tells_plainly(X: npt.NDArray[np.float32], node: npt.NDArray[Any]) -> bool:
    """Whether plain distances tell the classes of a wide block surely better than angles and means do."""
    n_classes = len(np.unique(node))
    if X.shape[1] < WIDE or not suits(len(X), n_classes) or n_classes * X.shape[1] ** 2 > MOST:
        return False
    order = np.random.default_rng(0).permutation(len(X))
    asked, rest = np.split(order[: ASKED + ITEMS], [min(ASKED, len(X) // 4)])
    with threadpool_limits(1, user_api="blas"):  # sums in another order are other bytes
        by_means, by_angle = _by_angles(Space.of(X[rest], node[rest]), X, node, asked, rest)
        plainly = _by_distance(Space.plain(X[rest], node[rest]), X, node, asked, rest)
    return all(_surely_more(plainly, other) for other in (by_means, by_angle))


def _by_angles(space: Space, X: Any, node: Any, asked: Any, rest: Any) -> tuple[npt.NDArray[np.bool_], ...]:
    """Which rows the means of the classes tell, and which the nearest items by angle."""
    (unit, length), (items, far) = space.read(X[asked]), space.read(X[rest])
    classes, own = np.unique(node[rest], return_inverse=True)
    Z, heard = unit * space.heard(length)[:, None], items * space.heard(far)[:, None]
    means = np.zeros((len(classes), Z.shape[1]))
    np.add.at(means, own.ravel(), heard)
    means /= np.bincount(own.ravel())[:, None]
    score = (Z * space.metric) @ means.T - 0.5 * (means**2 @ space.metric)
    return classes[score.argmax(1)] == node[asked], _voted(unit @ items.T, node, asked, rest)


def _by_distance(space: Space, X: Any, node: Any, asked: Any, rest: Any) -> npt.NDArray[np.bool_]:
    """Which rows the nearest items tell."""
    (unit, length), (items, far) = space.read(X[asked]), space.read(X[rest])
    here, there = unit * length[:, None], items * far[:, None]
    return _voted(2.0 * (here @ there.T) - (there.astype(np.float64) ** 2).sum(1), node, asked, rest)


def _voted(near: npt.NDArray[Any], node: Any, asked: Any, rest: Any) -> npt.NDArray[np.bool_]:
    """Which rows have the class that most of the nearest items have, of equals that of the nearest."""
    best = np.argpartition(near, -VOTERS, axis=1)[:, -VOTERS:]
    best = np.take_along_axis(best, np.argsort(-np.take_along_axis(near, best, 1), 1, kind="stable"), 1)
    voters = node[rest][best]
    votes = (voters[:, :, None] == voters[:, None]).sum(2)
    return np.asarray(voters[np.arange(len(asked)), votes.argmax(1)] == node[asked])


def _surely_more(right: npt.NDArray[np.bool_], other: npt.NDArray[np.bool_]) -> bool:
    gain = right.astype(np.float64) - other
    return bool(gain.mean() > max(WORTH, SURELY * gain.std() / np.sqrt(len(gain))))
