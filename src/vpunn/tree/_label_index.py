"""The index behind `Tree.locate`: labels to nodes, edges to children; built when first asked."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from vpunn._arrays import label_array, object_array
from vpunn.errors import TreeError, examples

#: Texts among more labels than this are looked up by their bytes: a dict of them would take several times their size.
DICT_UP_TO = 300_000
#: Fewer numbers than this are looked up in a dict, sooner than a compiled loop is loaded.
COMPILED_FROM = 1_000

_WHOLE = re.compile(r"-?[0-9]{1,18}")


class LabelIndex:
    """Labels to nodes, and edges to children, built when first asked; kept by the tree (`Tree.label_index`).

    A *place* is the first node that carries a label. Large trees of texts or whole numbers have a hash table of the bytes (about
    12 bytes a label beside them) that a compiled loop reads, as have columns of Arrow; others have a dict, which is sooner made.
    """

    def __init__(self, parent: np.ndarray, labels: np.ndarray) -> None:
        self.parent, self.labels = parent, labels
        self.whole = labels.dtype.kind in "iu"

    @cached_property
    def texts(self) -> bool:
        """Whether all labels are text that can be written as bytes."""
        if self.whole or not all(type(label) is str for label in self.labels.tolist()):
            return False
        try:
            "".join(self.labels.tolist()).encode()
        except UnicodeEncodeError:  # half of a letter
            return False
        return True

    @cached_property
    def has_tuples(self) -> bool:
        """Whether tuples are labels here, so that they are no paths."""
        return not self.whole and any(isinstance(label, tuple) for label in self.labels.tolist())

    def place(self, label: Any) -> int:
        """The place of one label, −1 if there is none."""
        if len(self.labels) > DICT_UP_TO:
            return int(self.places(object_array([label]))[0][0])
        try:
            found = self._table.get(_key(label), -1)
        except TypeError as error:
            raise TreeError(f"labels must be hashable to be looked up: {error} among {examples([label])}.") from None
        return found if found >= 0 else self._place_of_twin(label)

    def places(self, labels: Any) -> tuple[np.ndarray, np.ndarray]:
        """The place of every label of a column (−1: none), and which cells are missing and no label of the tree."""
        if hasattr(labels, "null_count") and not hasattr(labels, "iloc"):
            return self._places_of_arrow(labels)
        kind = _only_kind(labels)
        if kind is str and self.texts:
            found = self._texts_at(labels)
            return found, np.zeros(len(found), bool)
        if kind is int and self.whole:
            found = self._numbers_at(np.asarray(labels, np.int64))
            return found, np.zeros(len(found), bool)
        cells, missing = label_array(labels)
        if cells.dtype == object:
            found = self._objects_at(cells.tolist())
        else:
            found = self._numbers_at(cells)
            found[missing] = -1
        return found, missing & (found < 0)

    def _places_of_arrow(self, column: Any) -> tuple[np.ndarray, np.ndarray]:
        import pyarrow as pa

        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
            column = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
        if pa.types.is_dictionary(column.type):  # each word once
            at = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
            words = self.places(column.dictionary)[0]
            found = words[at] if len(words) else np.full(len(column), -1, np.int64)
        elif _is_text(column.type) and self.texts:
            found = self._hashed.find(column)
        elif _is_text(column.type) and self.whole:
            found = self._numbers_at(*_written_numbers(column))
        elif pa.types.is_integer(column.type) and self.texts:
            found = self._hashed.find(column.cast(pa.large_string()))
        elif pa.types.is_integer(column.type):
            found = self._numbers_at(column.fill_null(0).to_numpy(zero_copy_only=False))
        else:
            return self.places(object_array(column.to_pylist()))
        missing = column.is_null().to_numpy(zero_copy_only=False)
        if missing.any():
            found = np.where(missing, -1 if self.whole or self.texts else self.place(None), found)
        return found, missing & (found < 0)

    def _numbers_at(self, numbers: np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
        """Places of whole numbers; those not ``known`` have none."""
        if not self.whole:
            return self._objects_at(numbers.tolist())
        if len(numbers) < COMPILED_FROM and len(self.labels) <= DICT_UP_TO:
            found = np.array([self._table.get(number, -1) for number in numbers.tolist()], np.int64)
        else:
            found = self._hashed.find(numbers)
        return found if known is None else np.where(known, found, -1)

    def _texts_at(self, labels: Any) -> np.ndarray:
        """Places of texts among texts."""
        if len(self.labels) > DICT_UP_TO:
            return self._hashed.find(labels)
        get = self._table.get
        return np.fromiter(map(get, labels, itertools.repeat(-1)), np.int64, len(labels))

    def _objects_at(self, labels: list[Any]) -> np.ndarray:
        """Places of labels of any kind: themselves, or as the whole number that a text writes."""
        if self.whole:
            limits = np.iinfo(np.int64)
            numbers = [_number(label) for label in labels]
            known = [number is not None and limits.min <= number <= limits.max for number in numbers]
            kept = [number if fits else 0 for number, fits in zip(numbers, known, strict=True)]
            return self._numbers_at(np.array(kept, np.int64), np.array(known, bool))
        if self.texts:
            written = [label if isinstance(label, str) else _twin(label) for label in labels]
            known = [text is not None for text in written]
            found = np.full(len(labels), -1, np.int64)
            found[known] = self._texts_at([text for text in written if text is not None])
            return found
        try:
            get = self._table.get
            found = np.fromiter((get(_key(label), -1) for label in labels), np.int64, len(labels))
        except TypeError as error:
            raise TreeError(f"labels must be hashable to be looked up: {error} among {examples(labels)}.") from None
        for i in np.flatnonzero(found < 0).tolist():
            found[i] = self._place_of_twin(labels[i])
        return found

    def _place_of_twin(self, label: Any) -> int:
        twin = _twin(label)
        return -1 if twin is None else self._table.get(twin, -1)

    # What is built when it is first needed.

    @cached_property
    def _hashed(self) -> TextTable | NumberTable:
        return NumberTable(self.labels) if self.whole else TextTable(self.labels)

    @cached_property
    def _table(self) -> dict[Any, int]:
        """The place of every label; a missing one is None."""
        names = self.labels.tolist()
        keys = names if self.texts or self.whole else [_key(name) for name in names]
        try:
            return dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))
        except TypeError as error:
            raise TreeError(f"labels must be hashable to be looked up: {error} among {examples(names)}.") from None

    @cached_property
    def word(self) -> np.ndarray:
        """The place of every node's own label: equal for namesakes."""
        if (self.texts or self.whole) and len(self.labels) > DICT_UP_TO:
            return self._hashed.word
        if len(self._table) == len(self.labels):
            return np.arange(len(self.labels))
        return self._objects_at(self.labels.tolist())

    @cached_property
    def repeated(self) -> np.ndarray | None:
        """For every place whether several nodes carry its label; None if none does."""
        twice = np.bincount(self.word, minlength=len(self.labels)) > 1
        return twice if twice.any() else None

    def all_of(self, place: int) -> np.ndarray:
        """All nodes that carry the label of a place."""
        return np.flatnonzero(self.word == place)

    @cached_property
    def _edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Edges (parent, label of the child) in order, as one number each, and the child of each."""
        key = self.parent[1:].astype(np.int64) * len(self.parent) + self.word[1:]
        order = np.argsort(key)
        key = key[order]
        twins = np.flatnonzero(key[1:] == key[:-1])
        if len(twins):
            child = int(order[twins[0]]) + 1
            raise TreeError(
                f"{self.labels[self.parent[child]]!r} has two children named {self.labels[child]!r}, so paths and level "
                "columns cannot tell them apart; rename one."
            )
        return key, order + 1

    def child(self, nodes: np.ndarray, place: np.ndarray) -> np.ndarray:
        """The child of each node that carries the label of a place, −1 if there is none."""
        key, child = self._edges
        if not len(key):
            return np.full(len(nodes), -1, np.int64)
        wanted = nodes * len(self.parent) + place
        at = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
        return np.where((key[at] == wanted) & (place >= 0), child[at], -1)


def _key(label: Any) -> Any:
    """A label as it is looked up: NaN, which equals nothing, is None."""
    return None if isinstance(label, float) and label != label else label


def _number(label: Any) -> int | None:
    """The whole number that a cell is, or that a text writes."""
    if isinstance(label, str):
        return int(label) if _WHOLE.fullmatch(label) else None
    if isinstance(label, int | np.integer | float) and not isinstance(label, bool) and label == label:
        return int(label) if abs(label) != np.inf and label == int(label) else None
    return None


def _twin(label: Any) -> int | str | None:
    """The whole number that a text writes, or the text that writes a whole number; None for all others."""
    number = _number(label)
    return None if number is None else number if isinstance(label, str) else str(number)


def _only_kind(labels: Any) -> type | None:
    """The one type of all labels of a column: text, or whole numbers of 64 bits; None for others."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "iu":
        return int if labels.dtype.itemsize < 8 or labels.dtype.kind == "i" else None
    cells = labels.tolist() if isinstance(labels, np.ndarray) and labels.dtype == object else labels
    kinds = set(map(type, cells)) if isinstance(cells, Sequence) else set()
    if kinds == {int}:
        return int if min(cells) >= -(2**63) and max(cells) < 2**63 else None
    return str if kinds == {str} else None


def _is_text(kind: Any) -> bool:
    """Whether an Arrow type is text."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _written_numbers(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """The whole numbers that an Arrow column of texts writes (0 elsewhere), and where it writes one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    written = pc.fill_null(pc.match_substring_regex(column, "^-?[0-9]{1,18}$"), False)
    numbers = pc.if_else(written, column, pa.scalar("0", column.type)).cast(pa.int64())
    return numbers.to_numpy(zero_copy_only=False), written.to_numpy(zero_copy_only=False)


class NumberTable:
    """A hash table of whole numbers, looked up by a compiled loop."""

    def __init__(self, labels: np.ndarray) -> None:
        from vpunn.tree import _kernels

        self.labels = np.ascontiguousarray(labels, np.int64)
        self.slots = np.full(1 << max(4, int(2 * len(labels)).bit_length()), -1, np.int32)
        #: of every number the first node that carries it
        self.word = np.asarray(_kernels.fill_number_slots(self.labels, self.slots))

    def find(self, numbers: Any) -> np.ndarray:
        """The place of each number, −1 if it is none."""
        from vpunn.tree import _kernels

        asked = np.ascontiguousarray(numbers, np.int64)
        return np.asarray(_kernels.find_numbers(self.labels, self.slots, asked), np.int64)


class TextTable:
    """A hash table of the bytes of texts, looked up by a compiled loop."""

    def __init__(self, labels: np.ndarray) -> None:
        from vpunn.tree import _kernels

        self.offsets, self.data = text_buffers(labels)
        self.slots = np.full(1 << max(4, int(2 * len(labels)).bit_length()), -1, np.int32)
        #: of every text the first one equal to it
        self.word = np.asarray(_kernels.fill_slots(self.offsets, self.data, self.slots))

    def find(self, column: Any) -> np.ndarray:
        """The place of each text of an Arrow array or a list, −1 if it is none (or missing)."""
        from vpunn.tree import _kernels

        try:
            offsets, data = text_buffers(column)
        except UnicodeEncodeError:  # half of a letter, which no label here holds
            return np.array([-1 if _broken(text) else int(self.find([text])[0]) for text in column], np.int64)
        found = np.asarray(_kernels.find_texts(self.offsets, self.data, self.slots, offsets, data), np.int64)
        if getattr(column, "null_count", 0):
            found[column.is_null().to_numpy(zero_copy_only=False)] = -1
        return found


def _broken(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def text_buffers(texts: Any) -> tuple[np.ndarray, np.ndarray]:
    """Offsets (int64, one more than texts) and the UTF-8 bytes of texts, of an Arrow array without a copy of its bytes."""
    import pyarrow as pa

    if not isinstance(texts, pa.Array):
        texts = pa.array(texts, pa.large_string(), from_pandas=False)
    if not pa.types.is_large_string(texts.type):
        texts = texts.cast(pa.large_string())
    _, offsets, data = texts.buffers()
    start = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    bytes_ = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return start, bytes_
