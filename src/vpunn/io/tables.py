"""Edge, path and level tables: CSV, TSV and Parquet, and plain lists of paths.

Tables are Arrow tables from file to labels: its parser and casts are compiled and tell an empty cell from an empty text.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import DataError, examples
from vpunn.files import Source, find_delimiter
from vpunn.io.frames import broken_quote, long_cells, wrong_cells
from vpunn.io.writers import EXTRA, FRAME_COLUMNS, read_extra
from vpunn.tree import Tree
from vpunn.tree._edges import Choices, by_row
from vpunn.tree._inputs import collection, label_array, object_array
from vpunn.tree.build import tree_from_paths, tree_of_edges, tree_of_levels, with_report

if TYPE_CHECKING:
    import pyarrow as pa

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
    encoding: str = "utf-8",
    numbers: bool = True,
    **options: Any,
) -> Tree:
    """A CSV or TSV file with one row per edge, path or node; see `tree_from_table` for which columns mean what.

    ``delimiter`` is found in the first line unless given. Without ``header=True`` or ``False``, the first line counts as
    a header unless its cells appear as labels further down (any two edges of a tree are linked by shared labels, so a
    first line that shares none is no edge). Labels are text, but if all of them are whole numbers written plainly they
    become integers (not with ``numbers=False``). Further columns become numbers or truth values where all cells are;
    empty cells are missing values.
    """
    delimiter = delimiter or find_delimiter(source.data[:10_000].decode("utf-8", "replace"))
    if not isinstance(delimiter, str) or len(delimiter) != 1:
        raise DataError(f"delimiter={delimiter!r} must be a single character, such as ';'.")
    top = header is not False
    table = _parse(source, delimiter, encoding, top)
    note: tuple[str, ...] = ()
    named = _named(table, (*PARENT_NAMES, *CHILD_NAMES, *PATH_NAMES)) is not None
    asked = any(options.get(key) is not None for key in ("parent", "child", "label", "paths", "levels"))
    if header is None and not named and not asked and _looks_like_data(table):
        top = False
        table = _parse(source, delimiter, encoding, top)
        note = ("the first line was read as data, because it does not look like a header",)
    if table.num_rows == 0:
        raise DataError(
            f"{source.name}: the table has no rows below its first line, {examples(table.column_names)}; "
            "add them, or pass header=False if that line is data."
        )

    def by_line(rows: np.ndarray) -> str:
        lines = np.array([line for line, _ in _numbered_rows(source.text(encoding), delimiter)])
        return f"line {examples(lines[rows + top])}"

    return with_report(tree_from_table(table, source.name, by_line, numbers=numbers, **options), *note)


def read_parquet(source: Source, **options: Any) -> Tree:
    """A Parquet file with one row per edge, path or node; see `tree_from_table` for which columns mean what."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(io.BytesIO(source.data))
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{source.name}: not a readable Parquet file ({str(error).splitlines()[0]}).") from None
    return tree_from_table(table, source.name, **options)


def read_paths(source: Source, *, sep: str | None = None, root: str | None = None, encoding: str = "utf-8") -> Tree:
    """One path per line, labels separated by ``sep``: by default a tab if the first line has one, else a slash."""
    lines = [line.rstrip("\r") for line in source.text(encoding).split("\n")]
    given = [line for line in lines if line]
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
    **edges: Any,
) -> Tree:
    """A tree from a table; columns that do not make the tree are kept with the nodes.

    - ``levels=["order", "family", …]``: one column per level (``root`` and ``gaps`` as in `tree_from_levels`).
    - ``paths="lineage"``, or a column called path or lineage, or the only column: paths cut at ``sep``.
    - ``parent="…"`` and ``child="…"``, or columns called so (or id, source, target…), or the two columns of a table
      that has only two: edges, one row per child. Empty parents and those in ``no_parent`` mark the root. A column
      ``label`` beside a child column of ids names the nodes, so that names may repeat.

    A table that `write_tree` wrote is recognised and read back exactly. ``place`` is how messages call rows.
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
        tree = _own_table(table, numbers)
        if tree is not None:
            return tree
    if parent is None and child is None and _named(table, PARENT_NAMES) is None:
        paths = paths or _named(table, PATH_NAMES) or (columns[0] if len(columns) == 1 else None)
    if paths is not None:
        rest = {key: _values(table[key]) for key in columns if key != paths}
        given = table[paths].to_pylist()
        blank = np.array([k for k, path in enumerate(given) if path is None], np.int64)
        if len(blank):
            raise DataError(f"{name}: there is no path in {place(blank)}; fill it in, or leave the row out.")
        return tree_from_paths(given, sep=sep, root=edges.get("root"), columns=rest)
    parent, child = _edge_columns(table, name, parent, child)
    label = label or ("label" if "label" in columns and "label" not in (parent, child) else None)
    up, down = _ends(table[parent], table[child], no_parent, numbers, place, f"{name}: the column {child!r}")
    rest = {key: _values(table[key]) for key in columns if key not in (parent, child, label)}
    choices = Choices(policy, place=place, **edges)
    if label is None:
        return tree_of_edges(up, down, choices, rest)
    ids = tree_of_edges(up, down, choices, {**rest, "label": _labels(table[label], numbers)})
    names, unnamed = label_array(ids.columns["label"])
    if unnamed.any():  # a node without a row of its own keeps its id for a name
        names = np.where(unnamed, ids.labels.astype(object), names)
    kept = {key: value for key, value in ids.columns.items() if key != "label"}
    return ids.replace(labels=names, columns=kept)


def _own_table(table: pa.Table, numbers: bool) -> Tree | None:
    """The tree of a table that `to_frame` made, or None if the rows were changed since."""
    ids, parents = (_values(table[key]) for key in ("id", "parent"))
    if parents.dtype.kind != "i" or not np.array_equal(ids, np.arange(table.num_rows)):
        return None
    columns = {key: _values(table[key]) for key in table.column_names[len(FRAME_COLUMNS) :] if key != EXTRA}
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
            "pass parent='…' and child='…', or paths='…', or levels=['…', …]."
        )
    return parent, child


def _named(table: pa.Table, names: Sequence[str]) -> str | None:
    """The column that carries the first of these names, in any case of letters."""
    lower = {column.lower(): column for column in reversed(table.column_names)}
    return next((lower[name] for name in names if name in lower), None)


# ---- text to cells ---------------------------------------------------------------------------------------------------


#: Bytes of text that Arrow parses at once; it counts them in 32 bits, so that more than 2 GiB would overflow.
LARGEST_BLOCK = 1 << 30


def _parse(source: Source, delimiter: str, encoding: str, header: bool) -> pa.Table:
    """All cells as text; an empty cell without quotes is null."""
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    text = source.text(encoding)
    _refuse_open_quote(source, text, delimiter)
    first = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    names = next((row for row in first if row), None)
    if names is None:
        raise DataError(f"{source.name} is empty; an edge table has lines such as 'animal,bird'.")
    if not header:
        names = [f"column {k + 1}" for k in range(len(names))]
    elif len(set(names)) < len(names):
        twice = [column for column in dict.fromkeys(names) if names.count(column) > 1]
        raise DataError(f"{source.name}: two columns are called {examples(twice)}; rename one, or pass header=False.")
    data = source.data if encoding == "utf-8" else text.encode()
    if not data.endswith((b"\n", b"\r")):
        data += b"\n"  # without it, Arrow cannot skip a header that is the last line
    try:
        return arrow_csv.read_csv(
            pa.py_buffer(data),
            read_options=arrow_csv.ReadOptions(
                column_names=names,
                skip_rows=first.line_num if header else 0,
                use_threads=False,
                block_size=min(len(data) + 1, LARGEST_BLOCK),
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.large_string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):  # a header and nothing else
            return pa.table({column: pa.array([], pa.large_string()) for column in names})
        for line, cells in _numbered_rows(text, delimiter):
            if len(cells) != len(names):
                raise wrong_cells(source, line, len(cells), len(names), delimiter) from None
        detail = str(error).splitlines()[0].removeprefix("CSV parse error: ").rstrip(". ")
        raise DataError(
            f"{source.name}: {detail}; quote cells that contain {delimiter!r}, or pass delimiter=…."
        ) from None


def _numbered_rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows, each with the line on which it begins; blank lines are none."""
    rows, line = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), 1
    with long_cells(text):
        for cells in rows:
            if cells:
                yield line, cells
            line = rows.line_num + 1


def _refuse_open_quote(source: Source, text: str, delimiter: str) -> None:
    """Refuse a quote that is never closed: Arrow takes all that follows for one cell."""
    if text.count('"') % 2 == 0:
        return
    rows, line = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), 1
    try:
        with long_cells(text):
            for _ in rows:
                line = rows.line_num + 1
    except csv.Error as error:
        if "unexpected end of data" in str(error):
            raise broken_quote(source, line, error) from None


def _looks_like_data(table: pa.Table) -> bool:
    """Whether the names of the columns are rather the first row: they appear among the cells, or are the only cell."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if table.num_columns == 1:
        return True
    cells = pa.array(table.column_names, pa.large_string())
    return any(pc.any(pc.is_in(column, cells)).as_py() for column in table.columns)


# ---- cells to labels and values --------------------------------------------------------------------------------------

_WHOLE = "^(0|-?[1-9][0-9]{0,18})$"  # as Python prints whole numbers: no 007, no 1e3


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
    if len(present) and not _all_match(present, _WHOLE):
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


def _values(cells: pa.ChunkedArray) -> np.ndarray:
    """A further column: text becomes numbers or truth values if all cells are; nulls become NaN or None."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if _is_text(cells):
        cells = _guess(cells)
    if pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type):
        if cells.null_count:
            cells = pc.fill_null(cells.cast(pa.float64()), np.nan)
        return np.asarray(cells.to_numpy())
    if pa.types.is_boolean(cells.type) and cells.null_count == 0:
        return np.asarray(cells.to_numpy())
    return object_array(cells.to_pylist())


def _guess(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text as the narrowest of truth values, whole numbers and numbers that holds all of it, else as it is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    filled = pc.if_else(pc.equal(cells, ""), pa.scalar(None, cells.type), cells)  # a quoted empty cell is no number
    present = filled.drop_null()
    if _all_match(present, "^([Tt]rue|[Ff]alse)$"):
        return pc.starts_with(pc.utf8_lower(filled), "t")
    whole = _whole(filled) if len(present) else cells
    if whole is not None:
        return whole
    if not pc.any(pc.match_substring_regex(present, r"^[-+]?0[0-9]|[^-+.0-9eEnaifNAIF]")).as_py():
        try:
            return filled.cast(pa.float64())
        except pa.ArrowInvalid:
            pass
    return cells
