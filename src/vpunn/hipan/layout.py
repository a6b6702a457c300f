"""Blocks of columns: what the rows of ``X`` consist of, and how they are read.

A sparse block holds words, counts and the like (zero means absent): its rows are read at unit length, in 32 bits. A dense block
holds numbers, which the experts standardise themselves. A dense table that is mostly zeros and never negative, as ``toarray()``
makes one, holds words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from vpunn.errors import DataError
from vpunn.hipan._kernel import kernel
from vpunn.hipan.experts import Rows
from vpunn.store import Draft, Stored

#: Dense tables with this many columns or more and this share of zeros hold words.
WORDY_COLUMNS, WORDY_ZEROS = 65, 0.8


class Views(dict[str, Any]):
    """Named blocks of features for the same rows: ``Views(words=X, meaning=E)``; a plain dict does as well.

    >>> views = Views(words=sparse.csr_matrix(np.eye(3)), size=np.ones((3, 2)))
    >>> views.take([0, 2])["size"].shape
    (2, 2)
    """

    def __init__(self, blocks: Mapping[str, Any] | None = None, **more: Any) -> None:
        super().__init__(blocks or {}, **more)

    def take(self, rows: np.ndarray | slice) -> Views:
        """Some of the rows of every block."""
        return Views({name: block[rows] for name, block in self.items()})


class Layout(NamedTuple):
    """Names, kinds and widths of the blocks a model was fitted on; a single matrix is a block without a name."""

    names: tuple[str, ...]
    dense: tuple[bool, ...]
    columns: tuple[int, ...]

    @classmethod
    def of(cls, blocks: Mapping[str, Any]) -> Self:
        """The layout of checked blocks."""
        dense = tuple(not sparse.issparse(X) and not _wordy(X) for X in blocks.values())
        return cls(tuple(blocks), dense, tuple(int(X.shape[1]) for X in blocks.values()))

    @property
    def single(self) -> bool:
        """Whether ``X`` is one matrix."""
        return self.names == ("",)

    @property
    def first(self) -> np.ndarray:
        """Where the columns of every block begin, if all stand side by side; and their number."""
        return np.concatenate([[0], np.cumsum(self.columns)]).astype(np.int64)

    def read(self, blocks: Mapping[str, Any]) -> Rows:
        """Checked blocks as the experts read them; what the caller passed stays as it is."""
        return Rows(
            tuple(
                np.ascontiguousarray(X.toarray() if sparse.issparse(X) else X, np.float64) if dense else unit_rows(X)
                for X, dense in zip((blocks[name] for name in self.names), self.dense, strict=True)
            )
        )

    def write(self, draft: Draft) -> None:
        """Put what `stored` reads into a draft."""
        draft.settings["blocks"] = [list(row) for row in zip(self.names, self.dense, self.columns, strict=True)]

    @classmethod
    def stored(cls, stored: Stored) -> Self:
        """The layout in a folder."""
        rows = stored.setting("blocks", list)
        told = [isinstance(row, list) and [type(cell) for cell in row] == [str, bool, int] for row in rows]
        if not rows or not all(told) or len({row[0] for row in rows}) < len(rows) or min(row[2] for row in rows) < 0:
            raise DataError(f"{str(stored.path)!r}: the blocks of columns are not as they should be.")
        names, dense, columns = zip(*rows, strict=True)
        return cls(names, dense, columns)


def _wordy(X: np.ndarray) -> bool:
    return X.shape[1] >= WORDY_COLUMNS and float((X == 0).mean()) >= WORDY_ZEROS and bool((X >= 0).all())


def unit_rows(X: Any) -> sparse.csr_matrix:
    """Rows scaled to length one in 32 bits, columns in order, without stored zeros; empty rows stay empty."""
    if not isinstance(X, sparse.csr_matrix) or not X.has_canonical_format or not X.data.all():
        X = sparse.csr_matrix(X, dtype=np.float64, copy=True)
        X.sum_duplicates()
        X.eliminate_zeros()
    data = np.empty(X.nnz, np.float32)
    _unit(X.indptr.astype(np.int64), X.data.astype(np.float64), data)
    out = sparse.csr_matrix(X.shape, dtype=np.float32)  # not from arrays, which would be checked again
    out.data, out.indices, out.indptr = data, X.indices.astype(np.int32), X.indptr.astype(np.int32)
    out.has_canonical_format = True
    return out


@kernel
def _unit(start, x, out):
    for r in range(len(start) - 1):
        top, total = 0.0, 0.0
        for i in range(start[r], start[r + 1]):
            top = max(top, abs(x[i]))
        for i in range(start[r], start[r + 1]):
            total += (x[i] / top) ** 2
        for i in range(start[r], start[r + 1]):
            out[i] = x[i] / top / np.sqrt(total)
