"""What ``X`` may be: one matrix, or several named blocks of features for the same rows, each sparse or dense.

Sparse blocks hold words, counts and the like (zero means absent) and are read together as one matrix of words; every dense block
has a space of its own (`_dense`). A dense table that is mostly zeros and never negative, as ``toarray()`` makes one, holds words.
Columns of words that are numbers after all (`_numbers`) make a dense block of their own.
A row of zeros in a dense block of many columns says nothing, as in a sparse one. Dense columns are standardised in 64 bits
before they are kept in 32, so that nanoseconds since 1970 or a hundred thousand and one differ as much as they should.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from vpunn.errors import VpunnError, examples
from vpunn.hipan import _targets as targets
from vpunn.hipan._balls import Items
from vpunn.hipan._numbers import number_columns
from vpunn.hipan._scales import bend, column_scales

if TYPE_CHECKING:
    from vpunn._types import Features, FittedModel


#: Dense tables with this many columns or more and this share of zeros hold words.
WORDY_COLUMNS, WORDY_ZEROS = 65, 0.8
#: In narrower dense blocks a row of zeros is a row like any other.
SILENT_COLUMNS = 16
#: A row of many columns that lies at all their means is no row of zeros: its first standardised number is this instead of 0.
AT_THE_MEANS = 1e-30
#: Standardised numbers beyond this cannot be squared in 32 bits; no training row has such.
LARGEST = 1e15


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


def says(block: np.ndarray) -> np.ndarray:
    """Which rows of a dense block say something."""
    return np.asarray(block.any(1)) if block.shape[1] >= SILENT_COLUMNS else np.ones(len(block), bool)


@dataclass
class Rows:
    """Rows as the experts read them: one matrix of words (no columns if there are none) and the dense blocks."""

    words: sparse.csr_matrix
    dense: dict[str, np.ndarray]

    def __len__(self) -> int:
        return int(self.words.shape[0])

    def __getitem__(self, rows: np.ndarray | slice) -> Rows:
        return Rows(self.words[rows], {name: block[rows] for name, block in self.dense.items()})

    @staticmethod
    def joined(parts: list[Rows]) -> Rows:
        """Several one after the other."""
        names = parts[0].dense
        return Rows(
            sparse.csr_matrix(sparse.vstack([p.words for p in parts])),
            {name: np.concatenate([p.dense[name] for p in parts]) for name in names},
        )

    def known(self) -> np.ndarray:
        """Which rows say anything at all."""
        some = self.words.indptr[1:] > self.words.indptr[:-1]
        for block in self.dense.values():
            some = some | says(block)
        return np.asarray(some)


@dataclass
class Sample:
    """Training rows: what the experts read of them, and the node, weight and kind of each, as in `Items`."""

    rows: Rows
    node: np.ndarray
    weight: np.ndarray
    kind: np.ndarray

    def take(self, rows: np.ndarray) -> Sample:
        """Some of the rows."""
        return Sample(self.rows[rows], self.node[rows], self.weight[rows], self.kind[rows])

    def words(self) -> Items:
        """The items of the words."""
        return Items(self.rows.words, self.node, self.weight, self.kind)

    def numbers(self, name: str) -> Items:
        """The items of a dense block that say something in it."""
        X = self.rows.dense[name]
        some, kind = says(X), self.kind
        if not some.any():  # any item stands for none, as a row: the block has no descriptions
            some[:1], kind = True, np.zeros_like(kind)
        return Items(X[some], self.node[some], self.weight[some], kind[some])


@dataclass(frozen=True)
class Layout:
    """Names, kinds and widths of the blocks a model was fitted on; a single matrix is a block without a name."""

    names: tuple[str, ...]
    dense: tuple[bool, ...]
    columns: tuple[int, ...]
    scales: tuple[np.ndarray, ...]  #: how the columns of what is in `numbers` are read, in that order (`column_scales`)
    silent: tuple[str, ...] = ()  #: dense blocks that said nothing about held-out rows; they are not read
    apart: tuple[np.ndarray, ...] = ()  #: columns of every block of words that are numbers

    @property
    def single(self) -> bool:
        """Whether ``X`` is one matrix."""
        return self.names == ("",)

    def words(self) -> int:
        """Columns of the matrix of words; those that are numbers are empty there."""
        return sum(n for n, dense in zip(self.columns, self.dense, strict=True) if not dense)

    def numbers(self) -> dict[str, tuple[str, np.ndarray]]:
        """What has a space of its own, silent or not: the block it comes from and its columns there.

        Dense blocks first, a single one called "numbers"; then numbers among words.
        """
        widths = dict(zip(self.names, self.columns, strict=True))
        dense = [name for name, dense in zip(self.names, self.dense, strict=True) if dense]
        words = [name for name in self.names if name not in dense]
        found = {name or "numbers": (name, np.arange(widths[name])) for name in dense}
        for name, columns in zip(words, self.apart or [_NONE] * len(words), strict=True):
            if len(columns):
                called = f"numbers of {name}" if name else "numbers"
                while called in widths or called in found:
                    called += "'"
                found[called] = name, columns
        return found

    def dense_names(self) -> list[str]:
        """What has a space of its own and is read."""
        return [name for name in self.numbers() if name not in self.silent]

    def dense_widths(self) -> list[int]:
        """And how many columns each has."""
        return [len(columns) for name, (_, columns) in self.numbers().items() if name not in self.silent]

    @classmethod
    def of(cls, blocks: dict[str, Any], node: np.ndarray | None = None) -> Layout:
        """The layout of checked blocks; where rows have one ``node`` each, those tell how columns count (`_scales`)."""
        dense = tuple(not sparse.issparse(X) and not _wordy(X) for X in blocks.values())
        words = (X for X, is_dense in zip(blocks.values(), dense, strict=True) if not is_dense)
        apart = tuple(number_columns(_canonical(X)) for X in words)
        layout = cls(tuple(blocks), dense, tuple(int(X.shape[1]) for X in blocks.values()), (), apart=apart)
        return replace(
            layout, scales=tuple(column_scales(layout.table(blocks, name), node) for name in layout.numbers())
        )

    def table(self, blocks: Mapping[str, Any], called: str) -> np.ndarray:
        """The numbers of one of `numbers` as they were given."""
        name, columns = self.numbers()[called]
        X = blocks[name]
        if len(columns) < X.shape[1]:
            X = (sparse.csr_matrix(X) if sparse.issparse(X) else X)[:, columns]
        return np.asarray(X.toarray() if sparse.issparse(X) else X)

    def read(self, blocks: dict[str, Any]) -> Rows:
        """Checked blocks as the experts read them."""
        numbers = self.numbers()
        dense = {
            called: _standard(self.table(blocks, called), scale)
            for called, scale in zip(numbers, self.scales, strict=True)
            if called not in self.silent
        }
        columns = {name: columns for name, columns in numbers.values()}
        words = [
            _unit(_without(X, columns[name]) if name in columns else X)
            for (name, X), is_dense in zip(blocks.items(), self.dense, strict=True)
            if not is_dense
        ]
        n = next(iter(blocks.values())).shape[0]
        if not words:
            return Rows(sparse.csr_matrix((n, 0), dtype=np.float32), dense)
        return Rows(words[0] if len(words) == 1 else unit_rows(sparse.csr_matrix(sparse.hstack(words))), dense)


_NONE = np.zeros(0, np.int64)


def _standard(X: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Columns as they count (`column_scales`), rows that say nothing zero."""
    standard = (bend(X, scale) - scale[0]) / scale[1]
    said = says(X)
    standard[~said] = 0
    standard = np.asarray(np.clip(standard, -LARGEST, LARGEST), np.float32)
    standard[said & ~says(standard), 0] = AT_THE_MEANS
    return standard


def _wordy(X: np.ndarray) -> bool:
    return X.shape[1] >= WORDY_COLUMNS and float((X == 0).mean()) >= WORDY_ZEROS and bool((X >= 0).all())


def _canonical(X: Features) -> sparse.csr_matrix:
    """Sorted, without stored zeros; X stays as it is."""
    if not isinstance(X, sparse.csr_matrix) or not X.has_canonical_format or not X.data.all():
        X = sparse.csr_matrix(X, dtype=np.float64, copy=True)
        X.sum_duplicates()
        X.eliminate_zeros()
    return X


def _without(X: Features, columns: np.ndarray) -> sparse.csr_matrix:
    """The same width, some columns empty."""
    kept = np.ones(X.shape[1])
    kept[columns] = 0.0
    X = sparse.csr_matrix(X, dtype=np.float64, copy=True)
    X.data *= kept[X.indices]
    return _canonical(X)


def _unit(X: Features) -> sparse.csr_matrix:
    """Features as unit rows in float32."""
    return unit_rows(_canonical(X))


def unit_rows(X: sparse.csr_matrix) -> sparse.csr_matrix:
    """Rows scaled to length one in float32; empty rows stay empty."""
    from vpunn.hipan.kernels.rows import unit_values

    out = copy(X)  # not made from its arrays, which would be checked again: that is felt when one row is asked
    out.data, out.indices, out.indptr = unit_values(X.indptr, X.data), X.indices.copy(), X.indptr.copy()
    return out


def checked_blocks(model: FittedModel, X: Features, layout: Layout | None = None) -> dict[str, Any]:
    """``X`` as blocks of finite numbers with equally many rows and, given a ``layout``, its names and columns."""
    if not isinstance(X, Mapping) or sparse.issparse(X):  # a dictionary of keys is a matrix
        if layout is not None and not layout.single:
            raise VpunnError(
                f"this model reads the blocks {examples(layout.names)}; pass a dict with a matrix for each."
            )
        return {"": targets.checked_features(model, X, reset=layout is None)}
    if layout is not None and layout.single:
        raise VpunnError(f"this model reads one matrix, got blocks named {examples(list(X))}.")
    if not X:
        raise VpunnError("X has no blocks; give at least one matrix, such as {'words': X}.")
    if bare := [name for name in X if not isinstance(name, str) or not name]:
        raise VpunnError(f"names of blocks are texts, such as 'words', got {examples(bare)}.")
    names = tuple(X) if layout is None else layout.names
    if layout is not None and set(X) != set(names):
        wrong = {"is missing": sorted(set(names) - set(X)), "is not one of them": sorted(set(X) - set(names))}
        said = " and ".join(f"{examples(blocks)} {what}" for what, blocks in wrong.items() if blocks)
        raise VpunnError(f"this model reads the blocks {examples(names)}; {said}.")
    blocks = {name: targets.checked_block(X[name], name) for name in names}
    rows = {name: block.shape[0] for name, block in blocks.items()}
    if len(set(rows.values())) > 1:
        raise VpunnError(
            "blocks differ in their number of rows: " + ", ".join(f"{k!r} has {n:,}" for k, n in rows.items()) + "."
        )
    for name, columns in zip(layout.names, layout.columns, strict=True) if layout is not None else ():
        if blocks[name].shape[1] != columns:
            raise VpunnError(
                f"block {name!r} has {blocks[name].shape[1]:,} columns, the model was fitted on {columns:,}."
            )
    if layout is None:
        model.n_features_in_ = sum(block.shape[1] for block in blocks.values())
    return blocks
