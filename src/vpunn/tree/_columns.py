"""Columns of labels to node ids without a Python object per row: Arrow's arrays, dictionaries and chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import TreeError, check_choice, counted, examples, refuse_lazy

if TYPE_CHECKING:
    from vpunn.tree._tree import Tree

#: What may happen to labels that the tree does not have.
UNSEEN = ("error", "null")


class TextIndex:
    """A hash table of the labels' bytes: about 12 bytes a label beside the text itself, looked up by a compiled loop."""

    def __init__(self, labels: np.ndarray) -> None:
        """Labels must all be text, and different."""
        from vpunn.tree import _kernels

        self.offsets, self.data = text_buffers(labels)
        size = 1 << max(4, int(2 * len(labels)).bit_length())
        self.slots = np.full(size, -1, np.int32)
        self.twin = int(_kernels.fill_slots(self.offsets, self.data, self.slots))

    def find(self, column: Any) -> np.ndarray:
        """The place of each text of an Arrow array among the labels, −1 if it is none (or missing)."""
        from vpunn.tree import _kernels

        offsets, data = text_buffers(column)
        found = _kernels.find_texts(self.offsets, self.data, self.slots, offsets, data)
        if column.null_count:
            found[column.is_null().to_numpy(zero_copy_only=False)] = -1
        return np.asarray(found)


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


def text_index(tree: Tree) -> TextIndex | None:
    """The index of a tree whose labels are all different texts, built once; None for other labels."""
    if tree.labels.dtype.kind not in "OU":
        return None
    if tree.labels.dtype == object and not all(type(label) is str for label in tree.labels.tolist()):
        return None
    index = TextIndex(tree.labels)
    return None if index.twin >= 0 else index


def encode_column(tree: Tree, column: Any, unseen: str = "error") -> Any:
    """See `Tree.encode_column`."""
    import pyarrow as pa

    refuse_lazy(column)
    check_choice("unseen", unseen, UNSEEN)
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        column = pa.array(column, from_pandas=True)
    if isinstance(column, pa.ChunkedArray):
        parts = [encode_column(tree, chunk, unseen) for chunk in column.chunks]
        return pa.chunked_array(parts, pa.int32())
    if pa.types.is_dictionary(column.type):
        words = _find(tree, column.dictionary)
        used = column.indices.drop_null().to_numpy()
        if unseen == "error" and len(words) and (words[used] < 0).any():
            _refuse(tree, column.dictionary, np.unique(used[words[used] < 0]))
        return pa.array(words, pa.int32(), mask=words < 0).take(column.indices)
    found = _find(tree, column)
    if unseen == "error" and (found < 0).any():
        lost = found < 0
        lost[column.is_null().to_numpy(zero_copy_only=False)] = False
        if lost.any():
            _refuse(tree, column, np.flatnonzero(lost))
    return pa.array(found, pa.int32(), mask=found < 0)


def _find(tree: Tree, column: Any) -> np.ndarray:
    """Node ids of an Arrow array of labels, −1 where there is none."""
    import pyarrow as pa

    texts = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if texts and tree._text_index is not None:
        return np.asarray(tree._text_index.find(column))
    import pandas as pd

    table, node, ambiguous = tree._lookup
    if pa.types.is_integer(column.type) and not column.null_count:
        asked = pd.Index(column.to_numpy())
    else:
        asked = pd.Index(np.array(column.to_pylist(), object), tupleize_cols=False)
    found = np.asarray(table.get_indexer(asked), np.int64)
    if ambiguous is not None and node is not None:
        twice = (found >= 0) & ambiguous[found]
        if twice.any():
            tree.index([asked[int(np.flatnonzero(twice)[0])]])  # refuses it, with the paths of its namesakes
        found = np.where(found >= 0, node[found], -1)
    return found.astype(np.int32)


def _refuse(tree: Tree, column: Any, rows: np.ndarray) -> None:
    shown = [column[int(i)].as_py() for i in rows[:5]]
    raise TreeError(
        f"{counted(len(rows), 'label is', 'labels are')} not in the tree: {examples(shown, total=len(rows))}; add them "
        "with tree.insert, or pass unseen='null'."
    )
