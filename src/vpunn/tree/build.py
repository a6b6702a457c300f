"""Trees from edges, paths and level columns.

All constructors end in `Tree.from_parents`; this module turns labels into integers (one hash pass), sorts out roots,
repeats and several parents, and carries further columns along. Nothing recurses and nothing loops over nodes in Python.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._arrays import as_frame, collection, label_array, number_labels
from vpunn._types import Labels
from vpunn.errors import TreeError, advice, check_choice, either, examples
from vpunn.tree import dag
from vpunn.tree._edges import Choices, EdgeList, node_columns, split_pairs
from vpunn.tree._tree import Tree
from vpunn.tree.lookup import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd


def tree_from_edges(
    parents: Labels,
    children: Labels = None,
    *,
    policy: str = "first",
    root: Hashable | None = None,
    add_root: Hashable | None = None,
    duplicates: str = "drop",
    self_parents: str = "error",
    columns: Mapping[str, Any] | pd.DataFrame | None = None,
    max_nodes: int = dag.MAX_UNFOLDED,
) -> Tree:
    """A tree from (parent, child) pairs of labels, in any order. Siblings keep the order of their rows. O(n).

    Give two sequences of equal length, or one list of pairs, one (n, 2) array or one DataFrame with two columns. A
    missing parent (None, NaN) marks its child as the root; without such a row the root is the node without a parent.

    - ``policy`` decides for nodes with several parents, see `vpunn.tree.dag`; the edges it drops are listed in
      ``tree.report``, and `vpunn.tree.dag.dropped_edges` returns them as a table.
    - ``add_root="name"`` puts a new root above several parentless nodes (with only one, nothing is added);
      ``root="name"`` keeps that node and what lies below it. Otherwise several parentless nodes are an error.
    - ``duplicates``: repeated edges are ``"drop"``-ped (and reported) or an ``"error"``.
    - ``self_parents``: a node that is its own parent is an ``"error"``, or with ``"root"`` a root (as NCBI writes it).
    - ``columns``: per-node values under a name, either one value per edge that describes the edge's child, or a dict
      from label to value; or a DataFrame indexed by label. Nodes without a value get NaN or None.
    - ``max_nodes`` bounds what ``policy="unfold"`` may create.

    >>> tree = tree_from_edges([("string", "violin"), ("music", "string"), ("music", "wind"), ("string", "lute")])
    >>> print(tree.show())
    music
    ├─ string
    │  ├─ violin
    │  └─ lute
    └─ wind
    >>> tree_from_edges(["a", "b", "c"], ["b", "c", "a"])
    Traceback (most recent call last):
    ...
    vpunn.errors.TreeError: the edges run in a cycle, written from child to parent: b → a → c → b; remove one of them.
    """
    choices = Choices(policy, root, add_root, duplicates, self_parents, max_nodes)
    return tree_of_edges(*split_pairs(parents, children), choices, columns)


def tree_of_edges(up: Any, down: Any, choices: Choices, columns: Mapping[str, Any] | pd.DataFrame | None) -> Tree:
    """`tree_from_edges` with all choices made."""
    above, no_parent = label_array(up)
    below, no_child = label_array(down)
    if len(above) != len(below):
        raise TreeError(f"need one parent per child: got {len(above):,} parents and {len(below):,} children.")
    if no_child.any():
        where = choices.place(np.flatnonzero(no_child))
        raise TreeError(f"the child is missing ({where}); only parents may be missing, to mark the root.")
    if above.dtype != below.dtype:
        above, below = above.astype(object), below.astype(object)
    rows = np.flatnonzero(~no_parent)
    codes, labels = number_labels(np.concatenate([below, above[rows]]))
    child, parent = codes[: len(below)], codes[len(below) :]
    marked = np.full(len(labels), -1, np.int64)
    marked[child[no_parent]] = np.flatnonzero(no_parent)
    return EdgeList(parent, child[rows], rows, labels, marked).to_tree(choices, columns, n_rows=len(below))


def tree_from_paths(
    paths: Iterable[Any],
    *,
    sep: str | None = None,
    root: Hashable | None = None,
    columns: Mapping[str, Any] | None = None,
) -> Tree:
    """A tree from root-to-node label paths: sequences of labels, or strings cut at ``sep``. O(total length).

    A node *is* its path, so equal names in different places are different nodes. Repeated paths and paths that are the
    beginning of another add nothing. All paths must start with the same label, which is the root, unless ``root``
    gives a name for a new root above them (then ``()`` is the root itself). Separators at either end of a string are
    ignored; an empty label between two separators is an error. ``columns`` holds one value per path, for the node
    where it ends.

    >>> tree = tree_from_paths(["lib/python/os.py", "lib/README", "bin/README"], sep="/", root="usr")
    >>> print(tree.show())
    usr
    ├─ lib
    │  ├─ python
    │  │  └─ os.py
    │  └─ README
    └─ bin
       └─ README
    """
    if hasattr(paths, "columns"):  # walking through a DataFrame gives the names of its columns
        raise TreeError(
            f"from_paths takes rows of labels, got a table with the columns {examples(list(paths.columns))}; "
            "Tree.from_levels(table) reads level columns, one path per row."
        )
    given = list(collection(paths, "paths must be a list of paths, each a sequence of labels"))
    if sep is not None:
        if not isinstance(sep, str) or not sep:
            raise TreeError(f"sep={sep!r} cannot separate labels; leave sep out to pass paths as sequences of labels.")
        wrong = [path for path in given if not isinstance(path, str)]
        if wrong:
            raise TreeError(f"with sep={sep!r} every path must be a string, got {examples(wrong)}.")
        given = [_split(path, sep) for path in given]
    elif any(isinstance(path, str | bytes) for path in given):
        raise TreeError(
            f"got strings as paths ({examples([p for p in given if isinstance(p, str | bytes)])}); "
            "pass sep='/' (or your separator) to cut them into labels, or pass sequences of labels."
        )
    try:
        lengths = np.fromiter((len(path) for path in given), np.int64, len(given))
    except TypeError:
        wrong = [path for path in given if not hasattr(path, "__len__")]
        raise TreeError(f"a path must be a sequence of labels from the root down, got {examples(wrong)}.") from None
    words, missing = label_array(np.fromiter(chain.from_iterable(given), object, int(lengths.sum())))
    if missing.any():
        at = int(np.searchsorted(np.cumsum(lengths), np.flatnonzero(missing)[0], side="right"))
        raise TreeError(
            f"path {at} has a missing label: {tuple(given[at])!r}; leave the rest of a short path out instead."
        )
    return _from_words(words, lengths, root, columns)


def tree_from_levels(
    frame: pd.DataFrame,
    columns: Sequence[str] | None = None,
    *,
    root: Hashable | None = "root",
    gaps: str = "error",
) -> Tree:
    """A tree from level columns of a table, broadest first (order, family, genus, species): one path per row.

    A missing or empty cell ends the path; a label after a missing one is an error, or with ``gaps="skip"`` the missing
    level is left out of that path, with ``gaps="fill"`` it becomes the label "(missing)" and deeper ones keep their
    depth. ``columns`` defaults to all columns. ``root`` names the node above the first column;
    with ``root=None`` the first column must hold one label, which is the root.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"order": ["Rodentia", "Rodentia", "Primates"], "genus": ["Mus", "Rattus", None]})
    >>> print(tree_from_levels(rows, root="Mammalia").show())
    Mammalia
    ├─ Rodentia
    │  ├─ Mus
    │  └─ Rattus
    └─ Primates
    """
    import pandas as pd

    frame = as_frame(frame)
    if not isinstance(frame, pd.DataFrame):
        raise TreeError(
            f"from_levels needs a table (pandas, polars, Arrow), got {reprlib.repr(frame)}; from_paths takes plain rows of labels."
        )
    names = list(collection(frame.columns if columns is None else columns, "columns must be a list of level columns"))
    absent = [name for name in names if name not in frame.columns]
    if absent or not names:
        raise TreeError(
            f"no level column {examples(absent)} in the table, which has {examples(list(frame.columns), limit=20)}."
            if absent
            else "from_levels needs at least one level column."
        )
    return tree_of_levels(frame[names], lambda rows: f"row {frame.index[rows[0]]!r}", root=root, gaps=gaps)


def tree_of_levels(
    frame: pd.DataFrame, place: Callable[[np.ndarray], str], *, root: Hashable | None = "root", gaps: str = "error"
) -> Tree:
    """The tree of a table of nothing but level columns; ``place`` is how messages call its rows."""
    check_choice("gaps", gaps, ("error", "skip", "fill"))
    names = list(frame.columns)
    cells = np.empty((len(frame), len(names)), object)
    filled = np.empty(cells.shape, bool)
    for k in range(len(names)):
        cells[:, k], missing = label_array(frame.iloc[:, k])
        filled[:, k] = ~missing & (cells[:, k] != "")
    lengths = filled.sum(axis=1)
    last = np.where(filled, np.arange(1, len(names) + 1), 0).max(axis=1)
    gap = np.flatnonzero(lengths != last)
    if len(gap) and gaps == "error":
        row = gap[0]
        k = int(np.flatnonzero(~filled[row])[0])
        after = examples(cells[row][k:][filled[row][k:]], limit=1)
        raise TreeError(
            f"{len(gap):,} row{'s have' if len(gap) > 1 else ' has'} a label below a missing one, such as "
            f"{place(gap[:1])}, where {names[k]!r} is missing but {after} follows; "
            + either(
                "fill the level in",
                advice("gaps", "skip", note="to leave it out of the path"),
                advice("gaps", "fill", note="to call it (missing)"),
            )
            + "."
        )
    if len(gap) and gaps == "fill":
        inside = ~filled & (np.arange(len(names)) < last[:, None])
        cells[inside], filled[inside], lengths = UNKNOWN, True, last
    return _from_words(cells[filled], lengths, root, None)


def with_report(tree: Tree, *lines: str) -> Tree:
    """The same tree with lines put before its report."""
    return tree.replace(report=(*lines, *tree.report))


def _from_words(words: np.ndarray, lengths: np.ndarray, root: Hashable | None, columns: Any) -> Tree:
    """The tree of label sequences laid end to end, cut by ``lengths``."""
    from vpunn.tree import _dag_kernels as kernels

    if len(lengths) == 0 and root is None:
        raise TreeError("there are no paths; a tree needs at least one node.")
    start = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=start[1:])
    codes, vocabulary = number_labels(words)
    up, word, end = kernels.trie(codes, start, len(vocabulary) + 1)
    labels = np.empty(len(up), object)
    labels[1:] = vocabulary[word[1:]]
    if root is None:
        tops = np.flatnonzero(up == 0)
        if (lengths == 0).any() or len(tops) != 1:
            what = f"start with {len(tops):,} different labels ({examples(labels[tops])})"
            if (lengths == 0).any():
                what = f"include an empty one (number {np.flatnonzero(lengths == 0)[0]})"
            raise TreeError(
                f"the paths {what}, so there is no single root; {advice('root', '…')} to put a new root above them."
            )
        up, labels, end = up[1:] - 1, labels[1:], end - 1  # node 1 is the common first label
    else:
        labels[0] = root
    row = np.full(len(up), -1, np.int64)
    row[end[::-1]] = np.arange(len(end))[::-1]  # backwards, so that the first of equal paths describes the node
    names = label_array(labels)[0] if len(up) else labels
    return Tree.from_parents(up, names, columns=node_columns(columns, row, names, len(lengths)))


def _split(path: str, sep: str) -> list[str]:
    labels = path.removeprefix(sep).removesuffix(sep).split(sep)
    if "" in labels:
        if path in ("", sep):
            return []
        raise TreeError(f"the path {path!r} has an empty label between two separators {sep!r}; remove one of them.")
    return labels
