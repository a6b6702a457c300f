"""Folds: which rows are held out together, and how they are read."""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import Any

import numpy as np
import scipy.sparse as sp

#: Of the rows, a fold has at most this share and this many; all folds together have so many.
SHARE, MOST, IN_ALL = 0.2, 6000, 6000
#: Where rows are few they leave again in other company, until so many have left in all, but not more often than this.
FEW, AGAIN = 1500, 4


def equal_rows(blocks: list[Any]) -> np.ndarray:
    """A group number per row; rows that are equal in every block have the same. O(non-zeros)."""

    def bytes_of(block: Any, r: int) -> bytes:
        if not sp.issparse(block):
            return bytes(block[r].tobytes())
        a, b = block.indptr[r : r + 2]
        return bytes(block.indices[a:b].tobytes() + block.data[a:b].tobytes())

    rows = (b"".join(bytes_of(b, r) for b in blocks) for r in range(blocks[0].shape[0]))
    prints = [int.from_bytes(blake2b(row, digest_size=8).digest(), "little") for row in rows]
    return by_first_appearance(np.array(prints, np.uint64))


def by_first_appearance(group: np.ndarray) -> np.ndarray:
    """Groups numbered as they come, lest a last bit of a number draws other folds."""
    _, first, number = np.unique(group, return_index=True, return_inverse=True)
    return np.asarray(first.argsort().argsort()[number])


def joined(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Groups of rows that are linked by either numbering."""
    n = len(a)
    links = sp.coo_matrix((np.ones(2 * n), (np.tile(np.arange(n), 2), np.concatenate([n + a, n + a.max() + 1 + b]))))
    size = n + int(a.max()) + int(b.max()) + 2
    graph = sp.csr_matrix((links.data, (links.row, links.col)), shape=(size, size))
    return by_first_appearance(sp.csgraph.connected_components(graph, directed=False)[1][:n])


def rounds(n: int) -> int:
    """How often every one of n rows is held out."""
    return max(1, min(AGAIN, FEW // n))


def folds(
    group: np.ndarray, leaf: np.ndarray, rows: np.ndarray, novelty: bool, rng: np.random.Generator
) -> list[np.ndarray]:
    """The rows of every fold. Whole groups in random order, a fifth of the rows each at most; none where none can leave.

    ``rows``: how many rows every class has, those that never leave among them. ``novelty``: may the last row of a class leave? If
    so, the share of held-out rows whose class is unknown is Good and Turing's estimate of the share of questions that are new. If
    not (a closed list), such a group stays. A group's turn is drawn with its first row, so that a group more or less moves few.
    """
    n, out = len(leaf), []
    size = max(1, min(int(SHARE * n), MOST))
    first = np.unique(group, return_index=True)[1]
    for _ in range(rounds(n)):
        turn = rng.random(n)[first][group]
        order = turn.argsort(kind="stable")
        groups = deque(np.split(order, 1 + np.flatnonzero(np.diff(group[order]))))
        for _ in range(min(5, -(-IN_ALL // size))):
            held = _leaving(groups, leaf, rows, size, novelty)
            if len(held):
                out.append(held)
    return out


def _leaving(
    groups: deque[np.ndarray], leaf: np.ndarray, rows: np.ndarray, size: int, novelty: bool = False
) -> np.ndarray:
    """So many rows of the next groups; a closed list keeps a row of every class."""
    left, held, taken = rows.copy(), [np.zeros(0, np.int64)], 0
    while taken < size and groups:
        leaving = groups.popleft()
        np.subtract.at(left, leaf[leaving], 1)
        if taken + len(leaving) < len(leaf) and (novelty or (left[leaf[leaving]] > 0).all()):
            held.append(leaving)
            taken += len(leaving)
        else:
            np.add.at(left, leaf[leaving], 1)
    return np.sort(np.concatenate(held))


def as_asked(held: Any, kept: Any) -> Any:
    """Held-out rows as they would be read if they came as questions.

    A vectoriser knows the words of all rows it was fitted on, the held-out ones among them; of a question it reads only words that
    some row has. So words that no kept row has are dropped, and the row keeps its length. Without this, held-out rows look poorer
    than questions do, and the combiner grows too sure.
    """
    if not sp.issparse(held):
        return held
    known = np.bincount(kept.indices, minlength=kept.shape[1]) > 0
    read = held.copy()
    read.data = read.data * known[read.indices]
    read.eliminate_zeros()
    before, after = (np.sqrt(np.asarray(m.multiply(m).sum(1)).ravel()) for m in (held, read))
    longer = sp.diags_array((before / np.maximum(after, 1e-12)).astype(np.float32))
    return sp.csr_matrix(longer @ read, dtype=np.float32)
