"""Dense blocks and descriptions in the model of sets: planes of evidence about every ball, (rows, balls) each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from vpunn.hipan._directions import directed, exactly
from vpunn.hipan._views import says, unit_rows
from vpunn.hipan.kernels.sets import ByRow, lift
from vpunn.hipan.sets._trust import weighed

#: Nearest items that vote, and the ridge of the head per row.
BLOCK_VOTERS, RIDGE = 10, 1e-2
#: A ball is a candidate if a plane says more than this: votes, heads, and of descriptions cosine and share of words.
VOTE_CUT, HEAD_CUT, TEXT_CUT, SHARE_CUT = 0.0, 0.2, 0.3, 0.5


@dataclass
class Block:
    """One dense block: standardised rows of length one, which vote, and one ridge head for all balls."""

    name: str
    centre: np.ndarray
    scale: np.ndarray
    items: np.ndarray  #: directions of the rows, `exactly`, so that products have the same bits in any batch
    Y: sparse.csr_matrix
    head: np.ndarray  #: (columns, balls) directions
    length: np.ndarray
    rate: np.ndarray

    @classmethod
    def fitted(cls, name: str, X: np.ndarray, Y: sparse.csr_matrix) -> Block:
        """The block of training rows and the balls of each."""
        known = np.asarray(X, np.float64)[says(X)]
        known = known if len(known) else np.zeros((1, X.shape[1]))
        centre, scale = known.mean(0), known.std(0)
        scale[scale < 1e-9] = np.inf  # constant columns say nothing
        items = _directions(X, centre, scale)
        rate = np.asarray(Y.mean(0), np.float64).ravel()
        gram = items.astype(np.float64).T @ items + RIDGE * len(items) * np.eye(items.shape[1])
        sums = (Y.T @ items).astype(np.float64) - np.outer(rate, items.sum(0, dtype=np.float64))
        head, length = directed(np.linalg.solve(gram, sums.T).T)
        return cls(name, centre, scale, items, Y, np.ascontiguousarray(head.T), length, rate)

    def names(self) -> tuple[str, ...]:
        """Names of the planes."""
        return f"{self.name}: share of the nearest items", f"{self.name}: head score"

    def planes(self, X: np.ndarray) -> list[np.ndarray]:
        """Votes of the nearest items and head scores, (rows, balls) each."""
        from vpunn.hipan.kernels.products import best_columns

        z = _directions(X, self.centre, self.scale)
        similarity = z @ self.items.T
        near = best_columns(similarity, min(BLOCK_VOTERS, len(self.items)))
        near = np.maximum(near, 0)
        weight = np.maximum(np.take_along_axis(similarity, near.astype(np.int64), 1), 0.0).astype(np.float64) ** 2
        weight /= np.maximum(weight.sum(1, keepdims=True), 1e-12)
        start = np.arange(len(z) + 1) * near.shape[1]
        votes = sparse.csr_matrix((weight.ravel(), near.ravel(), start), shape=(len(z), len(self.items))) @ self.Y
        score = (z @ self.head).astype(np.float64) * self.length + self.rate
        return [votes.toarray().astype(np.float32), score.astype(np.float32)]


def _directions(X: np.ndarray, centre: np.ndarray, scale: np.ndarray) -> np.ndarray:
    z = (np.asarray(X, np.float64) - centre) / scale
    z[~says(X)] = 0.0
    length = np.sqrt((z * z).sum(1))
    return exactly(z / np.where(length > 0, length, 1.0)[:, None])


@dataclass
class Description:
    """One kind of description of every ball: its words at unit length, and the share that each word has of it."""

    name: str
    words: sparse.csr_matrix  #: balls × features, each feature times its trust
    share: sparse.csr_matrix  #: balls × features; the shares of a ball sum to 1
    parents: ByRow
    order: np.ndarray

    @classmethod
    def of(
        cls, name: str, text: sparse.csr_matrix, trust: np.ndarray, parents: ByRow, order: np.ndarray
    ) -> Description:
        """From the description of every ball, balls × features."""
        share = unit_rows(text)
        share.data = share.data**2
        return cls(name, weighed(text, trust), share, parents, order)

    def names(self) -> tuple[str, ...]:
        """Names of the planes."""
        return (
            f"similarity with {self.name}",
            f"share of the words of {self.name}",
            f"largest share of the words of {self.name} below it",
        )

    def planes(self, rows: sparse.csr_matrix, weighed_rows: sparse.csr_matrix) -> list[np.ndarray]:
        """Cosine with every ball's description, how much of it the row says, and the most it says of one below."""
        present = sparse.csr_matrix((np.ones(rows.nnz, np.float32), rows.indices, rows.indptr), shape=rows.shape)
        near = sparse.csr_matrix(weighed_rows @ self.words.T).toarray().astype(np.float32)
        said = sparse.csr_matrix(present @ self.share.T).toarray().astype(np.float32)
        below = said.copy()
        lift(below, self.parents, self.order)
        return [near, said, below]


def readable(texts: list[sparse.csr_matrix], words: sparse.csr_matrix) -> list[sparse.csr_matrix]:
    """Descriptions without the words that no row has.

    Rows held out may have such words and new rows cannot, if the features were made of the training rows alone.
    """
    known = np.bincount(words.indices, minlength=words.shape[1]) > 0
    return [sparse.csr_matrix(text @ sparse.diags(known.astype(np.float32))) for text in texts]


def beyond(texts: list[sparse.csr_matrix], words: sparse.csr_matrix) -> bool:
    """Whether descriptions have words that no row has: then features were made of both, and new rows may have them."""
    known = np.bincount(words.indices, minlength=words.shape[1]) > 0
    return any(not known[text.indices].all() for text in texts)
