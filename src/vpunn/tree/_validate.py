"""Is this a tree? Checks on parent pointers, each with one sentence that says what is wrong and where."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from vpunn._arrays import label_array
from vpunn._types import Numbers
from vpunn.errors import TreeError, examples


def as_parent_array(parent: Numbers) -> np.ndarray:
    """Parent pointers as int64, refusing anything that is not a one-dimensional list of whole numbers."""
    try:
        up = np.asarray(parent)
    except ValueError:  # rows of different lengths
        raise TreeError("parent pointers must be one number per node, got nested lists.") from None
    if up.ndim != 1:
        raise TreeError(f"parent pointers must be one-dimensional, got shape {up.shape}.")
    if len(up) == 0:
        raise TreeError("a tree needs at least one node, got no parent pointers; a single node is [-1].")
    if up.dtype.kind == "f" and (abs(up) < 2**53).all() and (up == np.floor(up)).all():
        up = up.astype(np.int64)
    if up.dtype.kind not in "iu":
        raise TreeError(f"parent pointers must be integers (-1 for the root), got {examples(up)}.")
    if len(up) >= 2**31:
        raise TreeError(f"a tree may have at most 2**31 - 1 nodes, got {len(up):,}.")
    return up.astype(up.dtype.newbyteorder("="), copy=False)  # the kernels read this machine's byte order only


def as_labels(labels: Sequence[Hashable] | np.ndarray | None, n: int) -> np.ndarray | None:
    """Labels as a one-dimensional array: numbers stay numbers, everything else becomes an object array."""
    if labels is None:
        return None
    if isinstance(labels, np.ndarray) and labels.ndim == 1 and labels.dtype.kind in "iuO":
        array = labels
    else:
        if not isinstance(labels, Iterable):
            raise TreeError(f"labels must be one name per node, got {labels!r}.")
        listed = list(labels)
        if listed and all(
            isinstance(x, int | np.integer) and not isinstance(x, bool) and -(2**63) <= x < 2**63 for x in listed
        ):
            array = np.array(listed, dtype=np.int64)
        else:
            array = np.fromiter((x.item() if isinstance(x, np.generic) else x for x in listed), object, len(listed))
            if set(map(type, listed)) <= {float, np.float64, int}:
                array = label_array(array)[0]  # whole floats are integers, as `tree_from_edges` reads them
    if len(array) != n:
        raise TreeError(f"need one label per node: got {len(array):,} labels for {n:,} nodes.")
    return array


def find_root(up: np.ndarray, labels: np.ndarray | None) -> int:
    """The position of the only root, after checking ranges and self-parents."""
    n = len(up)
    name = _namer(labels)
    bad = np.flatnonzero((up < -1) | (up >= n))
    if len(bad):
        raise TreeError(
            f"node {name(bad[0])} has parent {int(up[bad[0]])}, but parents run from -1 (root) to {n - 1}"
            f" ({len(bad):,} such node{'s' if len(bad) > 1 else ''})."
        )
    own = np.flatnonzero(up == np.arange(n))
    if len(own):
        raise TreeError(
            f"node {examples([name(i) for i in own[:5]], len(own))} is its own parent; mark the root with -1."
        )
    roots = np.flatnonzero(up == -1)
    if len(roots) == 0:
        raise TreeError(f"no root: every node has a parent, so there is a cycle ({cycle_text(up, 0, name)}).")
    if len(roots) > 1:
        raise TreeError(
            f"{len(roots):,} roots ({examples([name(i) for i in roots[:5]], len(roots))}) but a tree has one;"
            " from_edges and read_tree take add_root='name' to put a new root above them."
        )
    return int(roots[0])


def describe_cycle(up: np.ndarray, labels: np.ndarray | None, reached: np.ndarray) -> str:
    """Sentence about nodes the root does not reach: with one root they hang below a cycle."""
    lost = np.ones(len(up), bool)
    lost[reached] = False
    start = int(np.flatnonzero(lost)[0])
    return f"{int(lost.sum()):,} nodes cannot be reached from the root because of a cycle: {cycle_text(up, start, _namer(labels))}."


def cycle_text(up: np.ndarray, start: int, name: Any) -> str:
    """The cycle above ``start`` printed as ``a → b → a`` (child to parent), shortened in the middle if long."""
    seen: dict[int, int] = {}
    walk: list[int] = []
    node = start
    while node not in seen:
        seen[node] = len(walk)
        walk.append(node)
        node = int(up[node])
    ring = [str(name(i)) for i in [*walk[seen[node] :], node]]
    return " → ".join(ring if len(ring) <= 8 else [*ring[:4], "…", *ring[-3:]])


def _namer(labels: np.ndarray | None) -> Any:
    return lambda i: int(i) if labels is None else labels[i]


def check_preorder(parent: np.ndarray, depth: np.ndarray, size: np.ndarray, digit: np.ndarray) -> str:
    """Empty text if the four arrays are one valid preorder tree, else the first thing that is wrong."""
    n = len(parent)
    if n == 0:
        return "the arrays are empty; a tree has at least one node."
    if not len(depth) == len(size) == len(digit) == n:
        return f"the arrays have different lengths ({n}, {len(depth)}, {len(size)}, {len(digit)})."
    if (parent[0], depth[0], digit[0], size[0]) != (-1, 0, 0, n):
        return f"node 0 must be the root with parent -1, depth 0, digit 0 and size {n}."
    ids = np.arange(1, n)
    up = parent[1:]
    bad = np.flatnonzero((up < 0) | (up >= ids))
    if len(bad):
        return f"node {bad[0] + 1} has parent {up[bad[0]]}, which does not come before it."
    tests = {
        "depth is not its parent's plus one": depth[1:] != depth[up] + 1,
        "subtree is not inside its parent's slice": ids + size[1:] > up + size[up],
        "size is smaller than 1": size[1:] < 1,
    }
    for text, wrong in tests.items():
        if wrong.any():
            return f"node {np.flatnonzero(wrong)[0] + 1}: {text}."
    # In preorder the node before i is either i's parent (then i is a first child) or ends the slice of i's left sibling.
    first = up == ids - 1
    if (digit[1:][first] != 1).any():
        return f"node {ids[first][np.flatnonzero(digit[1:][first] != 1)[0]]} is a first child but its digit is not 1."
    follows = ids[:0]
    left = np.flatnonzero(ids + size[1:] < up + size[up]) + 1  # nodes that have a right sibling
    follows = left + size[left]
    if (parent[follows] != parent[left]).any() or (digit[follows] != digit[left] + 1).any():
        return "some sibling does not continue its left neighbour's digits."
    if first.sum() + len(left) != n - 1:
        return "slices do not tile their parents."
    return ""


def node_column(name: str, values: Any, n: int) -> np.ndarray:
    """A column of one value per node."""
    array = np.asarray(values)
    if array.shape[:1] != (n,):
        got = f"{len(array):,}" if array.ndim else repr(values)
        raise TreeError(f"column {name!r} needs one value per node: got {got} for {n:,} nodes.")
    return array
