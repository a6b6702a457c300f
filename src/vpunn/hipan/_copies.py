"""Tables that were written several times, joined with themselves by mistake, say.

Such copies tell nothing about what will be asked, but they look like rows that are met again and again, and a combiner learns from
them to trust memory. Where rows repeat by themselves, as of a few categorical columns, some repeat more often than others. Where
all rows stand there a multiple of g times, the table was multiplied, and one in g is learned.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vpunn.hipan._holdout import same_rows
from vpunn.hipan._views import Rows

Ints = npt.NDArray[np.int64]

#: Numbers are all divisible by g with probability g^−count by chance; it must be below 2 to the power of minus this.
SURELY = 20.0


def written_once(rows: Rows, node: Ints, group: Ints | None = None) -> Ints | None:
    """The rows of a table that was multiplied, each as often as it stood there before; None if it was not.

    Copies are rows of the same features, ``node`` and ``group``.

    >>> from scipy import sparse
    >>> rows, node = Rows(sparse.csr_matrix(np.tile(np.eye(24), (3, 1))), {}), np.tile(np.arange(24), 3)
    >>> kept = written_once(rows, node)
    >>> kept.tolist() == list(range(24)), written_once(rows[kept], node[kept])
    (True, None)
    """
    if len(node) < SURELY:
        return None
    text = same_rows(rows.words, list(rows.dense.values()))
    keys = [text, node] if group is None else [text, node, group]
    at, count = np.unique(np.stack(keys, 1), axis=0, return_inverse=True, return_counts=True)[1:]
    times = int(np.gcd.reduce(count))
    if len(count) * np.log2(times) < SURELY:
        return None
    order = np.argsort(at.ravel(), kind="stable")
    place = np.empty(len(node), np.int64)  # the first, second, … of its copies
    place[order] = np.arange(len(node)) - np.repeat(np.cumsum(count) - count, count)
    return np.flatnonzero(place < (count // times)[at.ravel()])
