"""Trees as text, tables, graphs and files.

Nested formats are written without recursion: node ``i`` (preorder) is entered as event ``2·i − depth`` and left as
event ``2·(i + size) − depth − 1`` of the 2n events of a depth-first walk, so opening and closing texts can be placed
in one array and joined.
"""

from __future__ import annotations

import io
import json
import re
import reprlib
import warnings
from numbers import Real
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn import files
from vpunn.errors import DataError, DataWarning, TreeError, examples
from vpunn.tree import Tree
from vpunn.tree._inputs import object_array
from vpunn.tree.unnamed import unnamed

if TYPE_CHECKING:
    import networkx
    import pandas as pd

    from vpunn._types import Cell, FilePath, Json

#: Columns of `to_frame` that describe the tree itself.
FRAME_COLUMNS = ("id", "label", "parent", "depth", "size", "digit")
#: The column of further parents, written only if there are any: lists of ids, which are preorder positions.
EXTRA = "extra_parents"

#: Formats that `write_tree` knows, by file ending.
ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".nwk": "newick",
    ".newick": "newick",
    ".tree": "newick",
    ".tre": "newick",
    ".json": "json",
    ".obo": "obo",
}


def write_tree(tree: Tree, path: FilePath, format: str | None = None) -> None:
    """Write a tree file that `read_tree` reads back: csv, tsv, parquet, newick, json or obo.

    The format follows from the ending (also before .gz, .bz2, .xz) unless given; ``"-"`` is standard output. The file
    appears whole or not at all. Tables and JSON keep all columns and extra parents; OBO keeps extra parents and the columns it
    has tags for; Newick keeps ``length`` and ``comment`` and warns of extra parents, which it cannot hold. Text formats
    cannot tell the label 7 from the label "7": tables read back as numbers if all labels are whole numbers, Newick
    reads text unless asked for ``numbers=True``. Labels that are neither text nor numbers are refused.
    """
    if not isinstance(tree, Tree):
        raise DataError(f"write_tree takes a tree and then a path, got {reprlib.repr(tree)} as the tree.")
    files.check_path(path)
    format = format or ENDINGS.get(files.suffix(path))
    if format is None:
        raise DataError(
            f"cannot tell the format of {str(path)!r} from its ending; use one of {', '.join(ENDINGS)}, or pass format=…."
        )
    if format == "newick":
        data = (to_newick(tree) + "\n").encode()
    elif format == "json":
        data = (to_json(tree) + "\n").encode()
    elif format == "obo":
        from vpunn.io.obo import to_obo

        data = to_obo(tree).encode()
    elif format in ("csv", "tsv"):
        data = _text_table(tree, "," if format == "csv" else "\t")
    elif format == "parquet":
        data = _parquet(tree)
    else:
        raise DataError(f"cannot write format {format!r}; choose one of {', '.join(dict.fromkeys(ENDINGS.values()))}.")
    files.save(path, data)


def to_frame(tree: Tree) -> pd.DataFrame:
    """One row per node in preorder: id, label, parent (an id, −1 at the root), depth, size, digit, and the columns.

    >>> to_frame(Tree.from_parents([-1, 0, 0], labels=["bird", "owl", "wren"]))
       id label  parent  depth  size  digit
    0   0  bird      -1      0     3      0
    1   1   owl       0      1     1      1
    2   2  wren       0      1     1      2
    """
    import pandas as pd

    return pd.DataFrame(_frame_columns(tree))


def _frame_columns(tree: Tree) -> dict[str, np.ndarray]:
    _refuse(tree, (*FRAME_COLUMNS, EXTRA) if tree.n_extra else FRAME_COLUMNS, "a table of nodes")
    own = (np.arange(tree.n_nodes), tree.labels, tree.parent, tree.depth, tree.size, tree.digit)
    columns = dict(zip(FRAME_COLUMNS, own, strict=True)) | {str(key): value for key, value in tree.columns.items()}
    if tree.n_extra:
        columns[EXTRA] = _extra_lists(tree)
    return {key: value if value.ndim == 1 else object_array(value.tolist()) for key, value in columns.items()}


def to_networkx(tree: Tree) -> networkx.DiGraph:
    """A networkx DiGraph on node ids with attributes ``label`` and the columns; edges parent → child.

    Edges from extra parents carry the attribute ``extra=True``.
    """
    import networkx

    _refuse(tree, ("label",), "a graph")
    graph = networkx.DiGraph()
    names = ["label", *tree.columns]
    values = zip(*(column.tolist() for column in (tree.labels, *tree.columns.values())), strict=True)
    graph.add_nodes_from((i, dict(zip(names, row, strict=True))) for i, row in enumerate(values))
    graph.add_edges_from(zip(tree.parent[1:].tolist(), range(1, tree.n_nodes), strict=True))
    start, ids = tree.extra_parents
    child = np.repeat(np.arange(tree.n_nodes), np.diff(start))
    graph.add_edges_from(zip(ids.tolist(), child.tolist(), strict=True), extra=True)
    return graph


def to_newick(tree: Tree) -> str:
    """Newick text; names quoted where needed, branch lengths and comments from the columns of these names.

    Inner nodes that had no name in a file have none in this one.

    >>> to_newick(Tree.from_parents([-1, 0, 0], labels=["bird", "barn owl", "robin's kin"]))
    "('barn owl','robin''s kin')bird;"
    """
    _check_labels(tree)
    say_dropped(tree, "Newick")
    bare = unnamed(tree).tolist()
    labels = zip(tree.labels.tolist(), bare, strict=True)
    names = ["" if label is None or empty else _newick_name(str(label)) for label, empty in labels]
    if "comment" in tree.columns:
        notes = tree.columns["comment"].tolist()
        _check_comments(notes)
        names = [name if note is None else f"{name}[{note}]" for name, note in zip(names, notes, strict=True)]
    if "length" in tree.columns:
        lengths = np.asarray(tree.columns["length"], dtype=float).tolist()
        names = [name if x != x else f"{name}:{x!r}" for name, x in zip(names, lengths, strict=True)]
    inner = ~tree.is_leaf
    enter = np.array(["", ",", "(", ",("], object)[(tree.digit > 1) + 2 * inner]
    leave = object_array(names)
    leave[inner] = ")" + leave[inner]
    return _walk(tree, enter, leave) + ";"


def to_json(tree: Tree) -> str:
    """Nested JSON: ``{"name": …, "children": […]}`` with the columns as further keys (left out where missing).

    >>> to_json(Tree.from_parents([-1, 0, 0], labels=["bird", "owl", "wren"]))
    '{"name": "bird", "children": [{"name": "owl"}, {"name": "wren"}]}'
    """
    _refuse(tree, ("name", "children", EXTRA) if tree.n_extra else ("name", "children"), "nested JSON")
    _check_labels(tree)
    enter = object_array([f'{{"name": {_json_value(label, "label")}' for label in tree.labels.tolist()])
    columns = dict(tree.columns) | ({EXTRA: _extra_lists(tree)} if tree.n_extra else {})
    for key, column in columns.items():
        start = f", {_json_value(str(key), 'column')}: "
        enter += object_array(["" if _absent(v) else start + _json_value(v, key) for v in column.tolist()])
    inner = ~tree.is_leaf
    enter[tree.digit > 1] = ", " + enter[tree.digit > 1]
    enter[inner] += ', "children": ['
    return _walk(tree, enter, np.array(["}", "]}"], object)[inner.astype(int)])


def to_linkage(tree: Tree) -> np.ndarray:
    """A SciPy linkage matrix of a binary tree; observation ``k`` is the leaf ``tree.leaves[k]``.

    Heights come from the column ``height``, else a node's height is the number of edges down to its farthest leaf.
    Every inner node must have two children (`collapse_unary` removes single ones) and stand no lower than them.
    """
    say_dropped(tree, "a linkage matrix")
    inner = np.flatnonzero(~tree.is_leaf)
    wrong = inner[tree.n_children[inner] != 2]
    if len(wrong) or not len(inner):
        why = (
            f"{len(wrong):,} nodes have another number of children than two ({examples(tree.labels[wrong])})"
            if len(wrong)
            else "this tree has a single node"
        )
        raise TreeError(f"only binary trees are linkages, and {why}; collapse_unary() removes nodes with one child.")
    if "height" in tree.columns:
        height = np.asarray(tree.columns["height"], dtype=float)
    else:
        from vpunn.io import _kernels

        height = _kernels.edges_below(tree.parent).astype(float)
    child = np.arange(1, tree.n_nodes)
    low = child[~(height[tree.parent[1:]] >= height[1:]) & ~tree.is_leaf[1:]]
    if len(low) or not np.isfinite(height[inner]).all():
        bad = tree.parent[low] if len(low) else inner[~np.isfinite(height[inner])]
        raise TreeError(
            f"the column 'height' must be a number that does not decrease towards the root, which fails at "
            f"{examples(tree.labels[bad])}; repair it or drop the column."
        )
    # Of equal heights the later one in preorder goes first, so that children are merged before their parents.
    order = inner[np.lexsort((-inner, height[inner]))]
    cluster = np.empty(tree.n_nodes, np.int64)
    cluster[tree.leaves] = np.arange(tree.n_leaves)
    cluster[order] = tree.n_leaves + np.arange(len(order))
    first = order + 1
    second = first + tree.size[first]
    return np.column_stack([cluster[first], cluster[second], height[order], tree.leaf_counts[order]]).astype(float)


# ---- helpers ---------------------------------------------------------------------------------------------------------


def _extra_lists(tree: Tree) -> np.ndarray:
    """For every node the list of its extra parents, None where there are none."""
    start, ids = tree.extra_parents
    lists = np.full(tree.n_nodes, None, object)
    for node in np.flatnonzero(np.diff(start)).tolist():
        lists[node] = ids[start[node] : start[node + 1]].tolist()
    return lists


def say_dropped(tree: Tree, what: str) -> None:
    """Warn that a format holds one parent per node only."""
    if tree.n_extra:
        warnings.warn(
            f"{what} holds one parent per node, so {tree.n_extra:,} extra parents are left out; "
            "tables, JSON, OBO and `save` keep them.",
            DataWarning,
            stacklevel=3,
        )


def read_extra(lists: Json, n: int) -> tuple[np.ndarray, np.ndarray]:
    """``(start, ids)`` of what `_extra_lists` wrote, as lists or as their JSON text; anything else is an error."""
    counts, ids = np.zeros(n + 1, np.int64), list[int]()
    for node, given in enumerate(lists):
        if given is None or given != given:
            continue
        try:
            found = json.loads(given) if isinstance(given, str) else list(given)
        except (TypeError, ValueError):
            found = None
        if not isinstance(found, list) or not all(isinstance(x, int | np.integer) for x in found):
            raise DataError(f"the extra parents of node {node} must be a list of ids such as [3, 17], got {given!r}.")
        counts[node + 1] = len(found)
        ids += found
    return np.cumsum(counts), np.array(ids, np.int64)


def _walk(tree: Tree, enter: np.ndarray, leave: np.ndarray) -> str:
    """Join the texts of entering and leaving nodes in the order of a depth-first walk."""
    ids = np.arange(tree.n_nodes, dtype=np.int64)
    events = np.empty(2 * tree.n_nodes, object)
    events[2 * ids - tree.depth] = enter
    events[2 * (ids + tree.size) - tree.depth - 1] = leave
    return "".join(events.tolist())


def _check_labels(tree: Tree) -> None:
    """Files hold text and numbers (or nothing); a tuple would come back as something else, or not at all."""
    labels = tree.labels.tolist()
    odd = tuple(kind for kind in set(map(type, labels)) if not issubclass(kind, str | Real | NoneType))
    if odd:
        wrong = [label for label in labels if isinstance(label, odd)]
        raise TreeError(
            f"labels must be text or numbers to be written to a file, got {examples(wrong)}; "
            "make a tree with such labels: tree.relabel([str(x) for x in tree.labels])."
        )


_PLAIN_NAME = re.compile(r"[^\x00-\x20()\[\]:;,'\"]+")


def _newick_name(name: str) -> str:
    return name if not name or _PLAIN_NAME.fullmatch(name) else "'" + name.replace("'", "''") + "'"


def _check_comments(notes: list[Any]) -> None:
    """Comments end at a bracket, so only balanced ones can be written."""
    for note in notes:
        depth = 0
        for mark in re.findall(r"[\[\]]", str(note or "")):
            depth += 1 if mark == "[" else -1
            if depth < 0:
                break
        if depth:
            raise TreeError(
                f"the comment {note!r} has an unmatched bracket, which Newick cannot hold; mend the column 'comment'."
            )


def _absent(value: Cell) -> bool:
    return value is None or value != value


def _json_value(value: Cell, where: object) -> str:
    """JSON text of a label or of a column's value; text and plain numbers take a short cut."""
    if type(value) is str:
        return json.encoder.encode_basestring(value)
    if type(value) is int:
        return repr(value)
    try:
        return _ENCODER.encode(value)
    except TypeError:
        kind = type(value).__name__
        raise TreeError(
            f"the {where} {value!r} is a {kind}, which JSON cannot hold; make it text or a number first."
        ) from None


_ENCODER = json.JSONEncoder(ensure_ascii=False)


def _parquet(tree: Tree) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    _check_labels(tree)
    columns: dict[str, pa.Array] = {}
    for name, values in _frame_columns(tree).items():
        try:
            columns[name] = pa.array(values, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            detail = str(error).splitlines()[0].rstrip(".")
            raise TreeError(
                f"Parquet cannot hold the column {name!r} ({detail}); make it all text, or write JSON."
            ) from None
    buffer = io.BytesIO()
    parquet.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def _text_table(tree: Tree, delimiter: str) -> bytes:
    """CSV text: all text quoted, missing values empty without quotes, so that they differ from empty text."""
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    _check_labels(tree)
    columns: dict[str, pa.Array] = {}
    for name, values in _frame_columns(tree).items():
        if values.dtype == object:
            texts = [x if type(x) is str else None if _absent(x) else _cell(x) for x in values.tolist()]
            columns[name] = pa.array(texts, pa.large_string())
        else:
            columns[name] = pa.array(values, from_pandas=True)
    buffer = io.BytesIO()
    arrow_csv.write_csv(pa.table(columns), buffer, arrow_csv.WriteOptions(delimiter=delimiter))
    data = buffer.getvalue()
    if b"\0" in data:
        raise TreeError("a name or a cell holds the character \\0, which no text table does; write Parquet or JSON.")
    return data


def _cell(value: Cell) -> str:
    """A cell that is not text: lists and such as JSON where possible, everything else as Python shows it."""
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, list | tuple | dict) else str(value)


def _refuse(tree: Tree, taken: tuple[str, ...], what: str) -> None:
    """Columns must not have names that the format uses itself."""
    clash = [name for name in tree.columns if name in taken]
    if clash:
        raise TreeError(f"{what} uses the name {examples(clash)} itself; rename that column of the tree.")
