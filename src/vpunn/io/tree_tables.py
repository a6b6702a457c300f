"""Edge, path and level tables: CSV, TSV and Parquet, and plain lists of paths.

Tables are Arrow tables from file to labels: its parser and casts are compiled and tell an empty cell from an empty text.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._arrays import collection, label_array, object_array
from vpunn.errors import DataError, TreeError, advice, either, examples, first_words
from vpunn.files import Source
from vpunn.io.cells import PLAIN_WHOLE, Column, seen
from vpunn.io.frames import say_guess, warn_of
from vpunn.io.text_tables import TextTable, open_text_table
from vpunn.io.texts import open_text
from vpunn.tree import Tree
from vpunn.tree._edges import Choices, by_row
from vpunn.tree.build import tree_from_paths, tree_of_edges, tree_of_levels, with_report
from vpunn.tree.convert import EXTRA, FRAME_COLUMNS, check_labels, frame_columns, read_extra

if TYPE_CHECKING:
    import pyarrow as pa

    from vpunn._types import Cell

#: Column names that are understood without being told, in order of preference.
PARENT_NAMES = ("parent", "parent_id", "parentid", "parent_tax_id", "source", "from", "hypernym", "broader")
CHILD_NAMES = (
    "child",
    "child_id",
    "id",
    "node",
    "node_id",
    "tax_id",
    "target",
    "to",
    "hyponym",
    "narrower",
    "label",
    "name",
)
PATH_NAMES = ("path", "lineage")


def read_text_table(
    source: Source,
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    numbers: bool = True,
    **options: Any,
) -> Tree:
    """A CSV or TSV file with one row per edge, path or node; see `tree_from_table` for which columns mean what.

    The file is read as `vpunn.io.read_table` reads one: its encoding, its separator, a first line ``sep=;``, quotes, cells such
    as NA that hold nothing, decimal commas. Without ``header=True`` or ``False``, the first line counts as
    a header unless its cells appear as labels further down (any two edges of a tree are linked by shared labels, so a
    first line that shares none is no edge). Labels are text, but if all of them are whole numbers written plainly they
    become integers (not with ``numbers=False``). Further columns become numbers or truth values where all cells are;
    empty cells are missing values; what stands in quotes is text as it is, also "NA".
    """
    text = open_text_table(source, delimiter, encoding, names=header is not False)
    table = _cells(text)
    note: tuple[str, ...] = ()
    named = _named(table, (*PARENT_NAMES, *CHILD_NAMES, *PATH_NAMES)) is not None
    asked = any(options.get(key) is not None for key in ("parent", "child", "label", "paths", "levels"))
    if header is None and not named and not asked and _looks_like_data(table):
        text = open_text_table(source, delimiter, encoding, names=False)
        table = _cells(text)
        note = ("the first line was read as data, because it does not look like a header",)
    if table.num_rows == 0:
        raise DataError(
            f"{source.name!r} has no rows below its column names, {examples(table.column_names)}; "
            + either("add them", advice("header", False, note="if that line is data"))
            + "."
        )

    def by_line(rows: np.ndarray) -> str:
        lines = np.array([line for line, _ in text.rows()])
        return f"line {examples(lines[rows])}"

    commas = text.mark != ","
    tree = tree_from_table(table, source.name, by_line, numbers=numbers, commas=commas, **options)
    further = [name for name in table.column_names if name in tree.columns]
    warn_of(text, seen([table], further, commas) if commas else {})
    return with_report(tree, *note)


def _cells(text: TextTable) -> pa.Table:
    """All cells of a table that describes a tree, as text."""
    import pyarrow as pa

    blocks = list(text.blocks())
    if not blocks:
        return pa.table({name: pa.array([], pa.string()) for name in text.names})
    return pa.concat_tables(blocks)


def read_tsv(source: Source, *, delimiter: str | None = "\t", **options: Any) -> Tree:
    """`read_text_table` of cells between tabs."""
    return read_text_table(source, delimiter=delimiter, **options)


def read_parquet(source: Source, **options: Any) -> Tree:
    """A Parquet file with one row per edge, path or node; see `tree_from_table` for which columns mean what."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(io.BytesIO(source.data))
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{source.name}: not a readable Parquet file ({first_words(error)}).") from None
    return tree_from_table(table, source.name, **options)


def read_paths(source: Source, *, sep: str | None = None, root: str | None = None, encoding: str | None = None) -> Tree:
    """One path per line, labels separated by ``sep``: by default a tab if the first line has one, else a slash."""
    text = open_text(source, encoding)
    say_guess(text)
    with text.lines() as lines:
        given = [line for line in lines.read().replace("\r\n", "\n").split("\n") if line]
    if not given:
        raise DataError(f"{source.name} is empty; a path list has one path per line, such as 'animal/bird/owl'.")
    return tree_from_paths(given, sep=sep or ("\t" if "\t" in given[0] else "/"), root=root)


def tree_from_table(
    table: pa.Table,
    name: str,
    place: Callable[[np.ndarray], str] = by_row,
    *,
    policy: str = "first",
    parent: str | None = None,
    child: str | None = None,
    label: str | None = None,
    paths: str | None = None,
    levels: Sequence[str] | None = None,
    sep: str = "/",
    no_parent: Sequence[Any] = ("",),
    gaps: str = "error",
    numbers: bool = False,
    commas: bool = False,
    **edges: Any,
) -> Tree:
    """A tree from a table; columns that do not make the tree are kept with the nodes.

    - ``levels=["order", "family", …]``: one column per level (``root`` and ``gaps`` as in `tree_from_levels`).
    - ``paths="lineage"``, or a column called path or lineage, or the only column: paths cut at ``sep``.
    - ``parent="…"`` and ``child="…"``, or columns called so (or id, source, target…), or the two columns of a table
      that has only two: edges, one row per child. Empty parents and those in ``no_parent`` mark the root. A column
      ``label`` beside a child column of ids names the nodes, so that names may repeat.

    A table that `write_tree` wrote is recognised and read back exactly. ``place`` is how messages call rows, ``commas`` whether
    3,5 may be a number.
    """
    columns = list(table.column_names)
    if levels is not None:
        levels = list(collection(levels, "levels must be a list of columns"))
    no_parent = list(collection(no_parent, "no_parent must be a list of values"))
    asked = [column for column in (parent, child, label, paths, *(levels or ())) if column is not None]
    absent = [column for column in asked if column not in columns]
    if absent:
        raise DataError(
            f"{name}: there is no column {examples(absent)}; the columns are {examples(columns, limit=20)}."
        )
    if table.num_rows == 0:
        raise DataError(f"{name}: the table has no rows; a tree needs at least one node.")
    if levels is not None:
        return tree_of_levels(table.select(list(levels)).to_pandas(), place, root=edges.get("root", "root"), gaps=gaps)
    if not asked and tuple(columns[: len(FRAME_COLUMNS)]) == FRAME_COLUMNS:
        tree = _own_table(table, numbers, commas)
        if tree is not None:
            return tree
    if parent is None and child is None and _named(table, PARENT_NAMES) is None:
        paths = paths or _named(table, PATH_NAMES) or (columns[0] if len(columns) == 1 else None)
    if paths is not None:
        rest = {key: _values(table[key], commas) for key in columns if key != paths}
        given = table[paths].to_pylist()
        blank = np.array([k for k, path in enumerate(given) if path is None], np.int64)
        if len(blank):
            raise DataError(f"{name}: there is no path in {place(blank)}; fill it in, or leave the row out.")
        return tree_from_paths(given, sep=sep, root=edges.get("root"), columns=rest)
    parent, child = _edge_columns(table, name, parent, child)
    label = label or ("label" if "label" in columns and "label" not in (parent, child) else None)
    up, down = _ends(table[parent], table[child], no_parent, numbers, place, f"{name}: the column {child!r}")
    rest = {key: _values(table[key], commas) for key in columns if key not in (parent, child, label)}
    choices = Choices(policy, place=place, **edges)
    if label is None:
        return tree_of_edges(up, down, choices, rest)
    ids = tree_of_edges(up, down, choices, {**rest, "label": _labels(table[label], numbers)})
    names, unnamed = label_array(ids.columns["label"])
    if unnamed.any():  # a node without a row of its own keeps its id for a name
        names = np.where(unnamed, ids.labels.astype(object), names)
    kept = {key: value for key, value in ids.columns.items() if key != "label"}
    return ids.replace(labels=names, columns=kept)


def _own_table(table: pa.Table, numbers: bool, commas: bool) -> Tree | None:
    """The tree of a table that `to_frame` made, or None if the rows were changed since."""
    ids, parents = (_values(table[key]) for key in ("id", "parent"))
    if parents.dtype.kind != "i" or not np.array_equal(ids, np.arange(table.num_rows)):
        return None
    further = [key for key in table.column_names[len(FRAME_COLUMNS) :] if key != EXTRA]
    columns = {key: _values(table[key], commas) for key in further}
    extra = read_extra(table[EXTRA].to_pylist(), len(ids)) if EXTRA in table.column_names else None
    return Tree.from_parents(parents, _labels(table["label"], numbers), columns=columns, extra_parents=extra)


def _edge_columns(table: pa.Table, name: str, parent: str | None, child: str | None) -> tuple[str, str]:
    parent = parent or _named(table, PARENT_NAMES)
    child = child or _named(table, CHILD_NAMES)
    if parent is None and child is None and table.num_columns == 2:
        return table.column_names[0], table.column_names[1]
    if parent is None or child is None:
        raise DataError(
            f"{name}: cannot tell which columns hold parents and children among {examples(table.column_names, limit=20)}; "
            f"{advice('parent', '…')} and {advice('child', '…')}, or {advice('paths', '…')}, or {advice('levels', ['…', '…'])}."
        )
    return parent, child


def _named(table: pa.Table, names: Sequence[str]) -> str | None:
    """The column that carries the first of these names, in any case of letters."""
    lower = {column.lower(): column for column in reversed(table.column_names)}
    return next((lower[name] for name in names if name in lower), None)


def _looks_like_data(table: pa.Table) -> bool:
    """Whether the names of the columns are rather the first row: they appear among the cells, or are the only cell."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if table.num_columns == 1:
        return True
    cells = pa.array(table.column_names, pa.string())
    return any(pc.any(pc.is_in(column, cells)).as_py() for column in table.columns)


# ---- cells to labels and values --------------------------------------------------------------------------------------


def _is_text(cells: pa.ChunkedArray) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type))


def _has_empty_text(cells: pa.ChunkedArray) -> bool:
    """Whether some cell is text without a character (not null)."""
    import pyarrow.compute as pc

    return _is_text(cells) and pc.min(pc.binary_length(cells)).as_py() == 0


def _all_match(cells: pa.ChunkedArray, pattern: str) -> bool:
    import pyarrow.compute as pc

    return len(cells) > 0 and bool(pc.all(pc.match_substring_regex(cells, pattern), min_count=0).as_py())


def _whole(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Text as 64-bit integers, or None if some cell is not one (nulls stay null)."""
    import pyarrow as pa

    present = cells.drop_null()
    if len(present) and not _all_match(present, PLAIN_WHOLE):
        return None
    try:
        return cells.cast(pa.int64())
    except pa.ArrowInvalid:  # nineteen digits, but too large
        return None


def whole_labels(labels: np.ndarray) -> np.ndarray:
    """Text labels as integers if all of them are whole numbers written plainly, else as they are."""
    import pyarrow as pa

    return _labels(pa.chunked_array([pa.array(labels, pa.large_string())]), numbers=True)


def _labels(cells: pa.ChunkedArray, numbers: bool) -> np.ndarray:
    """Labels of one column: integers if all cells are (with ``numbers`` also as text), else objects, None if null."""
    import pyarrow as pa

    if numbers and _is_text(cells) and cells.null_count == 0:
        whole = _whole(cells)
        cells = cells if whole is None else whole
    if pa.types.is_integer(cells.type) and cells.null_count == 0:
        return np.asarray(cells.to_numpy())
    return object_array(cells.to_pylist())


def _ends(
    up: pa.ChunkedArray,
    down: pa.ChunkedArray,
    no_parent: list[Any],
    numbers: bool,
    place: Callable[[np.ndarray], str],
    where: str,
) -> tuple[Any, Any]:
    """Parents (None if there is none) and children, which must agree on being text or numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if down.null_count or _has_empty_text(down):
        rows = np.flatnonzero([cell is None or cell == "" for cell in down.to_pylist()])
        raise DataError(f"{where} has empty cells ({place(rows)}); each row needs a child.")
    if no_parent != [""] or _has_empty_text(
        up
    ):  # arrays made here bring in pandas, which takes longer than a small file
        try:
            missing = pa.array(no_parent if _is_text(up) else [x for x in no_parent if x != ""], up.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            raise DataError(
                f"no_parent={no_parent!r} must hold values of the type of the parent column, {up.type}."
            ) from None
        up = pc.if_else(pc.is_in(up, missing), pa.scalar(None, up.type), up)
    if numbers and _is_text(up) and _is_text(down):
        above, below = _whole(up), _whole(down)
        if above is not None and below is not None:
            up, down = above, below
    return object_array(up.to_pylist()), _labels(down, numbers=False)


def _values(cells: pa.ChunkedArray, commas: bool = False) -> np.ndarray:
    """A further column: text becomes numbers or truth values if all cells are; nulls become NaN or None."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if _is_text(cells):
        column = Column(commas)
        column.see(cells)
        cells = cells if column.kind == "empty" else column.read(cells)
    if pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type):
        if cells.null_count:
            cells = pc.fill_null(cells.cast(pa.float64()), np.nan)
        return np.asarray(cells.to_numpy())
    if pa.types.is_boolean(cells.type) and cells.null_count == 0:
        return np.asarray(cells.to_numpy())
    return object_array(cells.to_pylist())


# ---- writing -----------------------------------------------------------------------------------------------------------


def write_csv(tree: Tree, delimiter: str = ",") -> bytes:
    """CSV text: all text quoted, missing values empty without quotes, so that they differ from empty text."""
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    check_labels(tree)
    columns: dict[str, pa.Array] = {}
    for name, values in frame_columns(tree).items():
        if values.dtype == object:
            texts = [x if type(x) is str else None if x is None or x != x else _cell(x) for x in values.tolist()]
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


def write_tsv(tree: Tree) -> bytes:
    """The same between tabs."""
    return write_csv(tree, "\t")


def write_parquet(tree: Tree) -> bytes:
    """A Parquet file with a row per node, which `read_parquet` reads back."""
    import pyarrow as pa
    from pyarrow import parquet

    check_labels(tree)
    columns: dict[str, pa.Array] = {}
    for name, values in frame_columns(tree).items():
        try:
            columns[name] = pa.array(values, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            detail = first_words(error)
            raise TreeError(
                f"Parquet cannot hold the column {name!r} ({detail}); make it all text, or write JSON."
            ) from None
    buffer = io.BytesIO()
    parquet.write_table(pa.table(columns), buffer)
    return buffer.getvalue()
