"""Rows that a model knows in the form of rows it does not: what new rows bring of rare features, and a list's rows asked again."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from vpunn.hipan._balls import Items
from vpunn.hipan._holdout import MOST_HELD
from vpunn.hipan._views import Rows, Sample, unit_rows

#: Held-out rows that tell whether rare features may be hidden from them.
COMPARED = 200
#: What a row of a list keeps of its words when it is asked again, and how far its numbers move towards another row's.
KEPT, MOVED = 0.5, 1.0 / 3.0


def as_unseen(known: sparse.csr_matrix, X: sparse.csr_matrix) -> sparse.csr_matrix:
    """Held-out rows in the form they would have had as new rows.

    The vocabulary was collected from all training rows, the held-out ones among them, so they bring rare features a new
    row would not: if every feature of the data occurs in at least m rows, a held-out row keeps only features that occur in
    at least m of the *known* rows (their share of m, where m is large), and returns to unit length.
    """
    occurs = np.bincount(known.indices, minlength=X.shape[1])
    total = occurs + np.bincount(X.indices, minlength=X.shape[1])
    least = total[total > 0].min() if total.any() else 1
    share = known.shape[0] / (known.shape[0] + X.shape[0])
    return _with(X, occurs[X.indices] >= np.ceil(least * share - 1e-9))


def _with(X: sparse.csr_matrix, keep: np.ndarray) -> sparse.csr_matrix:
    """Rows with some of their entries, of length one."""
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    start = np.concatenate([[0], np.cumsum(np.bincount(row[keep], minlength=X.shape[0]))])
    return unit_rows(sparse.csr_matrix((X.data[keep], X.indices[keep], start), shape=X.shape))


def still_found(known: Items, asked: Sample) -> bool:
    """Whether held-out rows without their rare features (`as_unseen`) lie nearest to their own class half as often as with them.

    Where every class has two rows with a word of their own, the vocabulary has each such word just often enough, and a held-out row
    loses the very word that new rows will bring: a combiner would learn that the class whose rows are alike is never the answer.
    """
    some = np.linspace(0, len(asked.node) - 1, min(len(asked.node), COMPARED)).astype(np.int64)
    X, node = asked.rows.words[some], asked.node[some]
    cut = as_unseen(known.X, asked.rows.words)[some]
    classes, at = np.unique(known.node, return_inverse=True)
    own = np.minimum(np.searchsorted(classes, node), len(classes) - 1)
    met = classes[own] == node
    if cut.nnz == X.nnz or not met.any():
        return True
    member = sparse.csr_matrix((np.ones(len(at), np.float32), (at, np.arange(len(at)))))
    centroid = unit_rows(sparse.csr_matrix(member @ known.X))
    chance = 1.0 / len(classes)
    with_them, without = (_nearest_is(own[met], rows[met] @ centroid.T) - chance for rows in (X, cut))
    return bool(without >= 0.5 * with_them)


def _nearest_is(own: np.ndarray, near: sparse.csr_matrix) -> float:
    """How often the largest number of a row stands in its own column; of several largest each counts its share."""
    score = near.toarray()
    best = score >= score.max(1, keepdims=True)
    return float(np.mean(best[np.arange(len(own)), own] / best.sum(1)))


def asked_again(sample: Sample, unmet: float, rng: np.random.Generator) -> Sample:
    """Rows of a list (one row a class) as somebody would ask for them: half of the words, and half of those of any other row,
    numbers moved towards another row's.

    Holding such a row out asks about a class the model has never met, which teaches only that no answer is right. How much a new
    text has in common with the list's nobody can tell from the list; half is a guess. (With no words of others they would be nearer
    to their class than any new text, and teach that what is not very near is none.) They stand for the share of the questions that
    is not about ``unmet`` classes, and for half of them at least.
    """
    some = np.sort(rng.permutation(len(sample.node))[:MOST_HELD])
    taken = sample.take(some)
    X = taken.rows.words
    keep = rng.random(X.nnz) < KEPT
    first = X.indptr[:-1][np.diff(X.indptr) > 0]
    keep[first] |= ~np.logical_or.reduceat(keep, first) if len(first) else False  # no row is left without a word
    other = rng.integers(0, len(sample.node), len(some))
    beside = sparse.csr_matrix(sample.rows.words[other])
    words = unit_rows(sparse.csr_matrix(_with(X, keep) + _with(beside, rng.random(beside.nnz) < KEPT)))
    words.sort_indices()
    dense = {name: _moved(block[some], block[other]) for name, block in sample.rows.dense.items()}
    weight = taken.weight * np.float32(max(1.0 - unmet, 0.5) * len(sample.node) / len(some))
    return Sample(Rows(words, dense), taken.node, weight, taken.kind)


def _moved(block: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.asarray(block + np.float32(MOVED) * (other - block), block.dtype)
