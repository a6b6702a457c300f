"""The codes table: a tree as rows of a database, in which "inside this ball" is a range of numbers or of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vpunn.errors import CodeError
from vpunn.tree import Tree

if TYPE_CHECKING:
    import pyarrow as pa

#: Larger sets of path keys (very deep trees) are refused: their bytes grow with the sum of all depths.
MOST_BYTES = 1 << 34


def key_lengths(digits: np.ndarray) -> np.ndarray:
    """Bytes that each digit takes in a path key: 1 below 128, 2 below 16,384, 3 below 2²¹, 4 below 2²⁸, else 5."""
    limits = np.array([1 << 7, 1 << 14, 1 << 21, 1 << 28])
    return np.where(digits > 0, 1 + np.searchsorted(limits, digits, side="right"), 0)


def codes_table(tree: Tree) -> pa.Table:
    """One row per node for a database: ``label, node, last, depth, path_key`` as an Arrow table, in preorder. O(Σ depths).

    ``node`` is the preorder position and ``last`` the position of the last node of its ball, so "inside ball b" is
    ``node BETWEEN b.node AND b.last``. Positions change when nodes are inserted; ``path_key`` does not: it holds the digits of
    the path as bytes (`Tree.insert` gives new leaves the next free digit), each digit prefix-free and in order, so that keys
    sort as the tree does in preorder and a ball is a prefix: ``path_key >= k AND path_key < k || '\\xff'``. The root's key is
    empty. A digit below 128 is one byte; larger ones say their length in the first byte (10…, 110…, 1110…), as UTF-8 does.

    >>> tree = Tree.from_parents([-1, 0, 0, 1], labels=["all", "bird", "fish", "owl"])
    >>> for row in codes_table(tree).to_pylist():
    ...     print(*row.values())
    all 0 3 0 b''
    bird 1 2 1 b'\\x01'
    owl 2 2 2 b'\\x01\\x01'
    fish 3 3 1 b'\\x02'
    """
    import pyarrow as pa

    from vpunn.codes import _kernels

    length = key_lengths(tree.digit)
    from vpunn.tree.sweeps import sweep_down

    total = sweep_down(tree, length.astype(np.int64))
    offsets = np.zeros(tree.n_nodes + 1, np.int64)
    np.cumsum(total, out=offsets[1:])
    if offsets[-1] > MOST_BYTES:
        raise CodeError(
            f"the path keys of {tree!r} would take {offsets[-1]:,} bytes, because the tree is so deep; use node and last, "
            "which take 8 bytes a node."
        )
    data = np.empty(int(offsets[-1]), np.uint8)
    _kernels.fill_keys(tree.parent, tree.digit, length, offsets, data)
    kind = pa.large_binary()
    keys = pa.Array.from_buffers(kind, tree.n_nodes, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    if offsets[-1] < 1 << 31:
        keys = keys.cast(pa.binary())
    nodes = np.arange(tree.n_nodes, dtype=np.int32)
    last = nodes + tree.size - np.int32(1)
    return pa.table(
        {
            "label": _label_column(tree),
            "node": pa.array(nodes),
            "last": pa.array(last),
            "depth": pa.array(np.asarray(tree.depth)),
            "path_key": keys,
        }
    )


def _label_column(tree: Tree) -> pa.Array:
    """Labels as Arrow has them: numbers and text as they are, anything else as it is printed."""
    import pyarrow as pa

    try:
        return pa.array(tree.labels, from_pandas=False)
    except (pa.ArrowException, TypeError):
        return pa.array([None if label is None else str(label) for label in tree.labels.tolist()])


def path_key(tree: Tree, node: int) -> bytes:
    """The path key of one node, as in `codes_table`. O(depth)."""
    key = b""
    for digit in tree.digit[tree.ancestors(node)[1:]].tolist():
        n = int(key_lengths(np.array([digit]))[0])
        head = (0xFF00 >> (n - 1)) & 0xFF if n > 1 else 0
        key += (digit | head << 8 * (n - 1)).to_bytes(n, "big")
    return key
