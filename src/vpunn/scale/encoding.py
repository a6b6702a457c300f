"""Codes of a column of labels from anywhere, written to a file or a folder of parts, here or on an engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._types import DataSource, Engine, Table
from vpunn.errors import DataError, VpunnError, check_choice, examples
from vpunn.io.streams import Parts, is_folder, regrouped, writing_table
from vpunn.scale.engine import checked_engine
from vpunn.scale.sources import BATCH_ROWS, Fragment, Part, Reading, check_frame, is_dask, parts_of
from vpunn.scale.writing import PART_ROWS, Sizes, Written, write_rows
from vpunn.tables.names import Spelling
from vpunn.tree import Tree

if TYPE_CHECKING:
    import pyarrow as pa


def encode(
    tree: Tree,
    source: DataSource | None,
    out: Any = None,
    *,
    column: str | None = None,
    mode: str | None = None,
    prime: int | None = None,
    unseen: str = "error",
    match: str = "exact",
    delimiter: str | None = None,
    encoding: str | None = None,
    engine: Engine = None,
    batch_rows: int = BATCH_ROWS,
    part_rows: int = PART_ROWS,
) -> Any:
    """Codes of a column of labels, row by row: ``label, node, last, depth, path_key`` and, with ``mode``, the printed ``code``.

    Sources, ``out`` and ``engine`` are those of `predict`; a dask DataFrame without ``out`` gives the frame with the columns
    ``node`` and ``depth`` beside its own, lazily. ``source`` None encodes the tree's own nodes (with their readable ``name`` if it
    has one). See `codes_table` for what the columns mean. Labels the tree does not have are an error, or null with
    ``unseen="null"``; ``match="loose"`` finds them by `Spelling`, and the label written is the tree's.
    """
    check_choice("unseen", unseen, ("error", "null"))
    if out is None:
        return _lazily(tree, source, column, unseen)
    step = _Encode(tree, mode, prime, unseen, match)
    options = {"column": column, "mode": mode, "unseen": unseen} | ({} if match == "exact" else {"match": match})
    job = {"command": "encode", "tree": tree.fingerprint, "options": options}
    if source is None:
        return _own_nodes(step, out, job, batch_rows, part_rows)
    name = column
    if name is None:
        if is_dask(source):
            raise DataError("say with column='…' which column of the frame holds the labels.")
        name = _label_column(parts_of(source, ())[0], delimiter, encoding)
    step.column = name
    reading = Reading((name,), (name,), delimiter, encoding)
    sizes = Sizes.checked(batch_rows, part_rows)
    inputs = parts_of(source, [name])
    done, tally, parts = write_rows(step, inputs, reading, out, job, sizes, checked_engine(engine), "encoding")
    if parts is not None:
        parts.finish(rows=tally.rows)
    return done


class _Encode:
    """Codes of labels; its tables are made once where it is used, and do not travel."""

    def __init__(self, tree: Tree, mode: str | None, prime: int | None, unseen: str, match: str) -> None:
        self.tree, self.mode, self.prime, self.unseen, self.match = tree, mode, prime, unseen, match
        self.column = ""
        self._made: tuple[Any, Any, Spelling | None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None}

    @property
    def made(self) -> tuple[Any, Any, Spelling | None]:
        """The table of codes, what prints them, and how names are matched."""
        if self._made is None:
            from vpunn.codes import PadicCode, codes_table

            code = None if self.mode is None else PadicCode(self.tree, self.prime)
            spell = None if self.match == "exact" else Spelling(self.tree, self.match)
            self._made = codes_table(self.tree), code, spell
        return self._made

    def __call__(self, table: pa.Table, start: int, where: object) -> pa.Table:
        import pyarrow as pa

        label, spell = table[self.column].combine_chunks(), self.made[2]
        if spell is not None:
            words = label.cast(pa.string()).dictionary_encode()
            called = [None if word is None else str(spell(word)[0]) for word in words.dictionary.to_pylist()]
            label = pa.array(called, pa.string()).take(words.indices)
        nodes = self.tree.encode_column(label, self.unseen)
        return self.answers(label, nodes.combine_chunks() if isinstance(nodes, pa.ChunkedArray) else nodes)

    def gaps(self, table: pa.Table, where: object) -> None:
        return None

    def answers(self, label: Any, nodes: Any) -> pa.Table:
        """The columns that are written."""
        import pyarrow as pa

        codes, code, _ = self.made
        taken = codes.take(nodes)
        found = {"label": label, **{name: taken[name] for name in ("node", "last", "depth", "path_key")}}
        if code is not None:
            known = nodes.is_valid().to_numpy(zero_copy_only=False)
            texts = np.full(len(nodes), None, object)
            texts[known] = code.format(np.asarray(nodes.drop_null()), self.mode)
            found["code"] = pa.array(texts, pa.string())
        return pa.table(found)


def _own_nodes(step: _Encode, out: Any, job: dict[str, Any], batch_rows: int, part_rows: int) -> Written:
    """The codes of all nodes, in preorder."""
    import pyarrow as pa

    tree, names = step.tree, None
    if "name" in tree.columns:
        names = pa.array([None if name is None else str(name) for name in tree.columns["name"].tolist()])
    labels = step.made[0]["label"]

    def tables() -> Iterator[pa.Table]:
        for start in range(0, tree.n_nodes, batch_rows):
            nodes = pa.array(np.arange(start, min(start + batch_rows, tree.n_nodes), dtype=np.int32))
            found = step.answers(labels.slice(start, len(nodes)), nodes)
            yield found if names is None else found.append_column("name", names.slice(start, len(nodes)))

    if is_folder(out):
        parts = Parts.open(Path(out), {**job, "input": [], "part_rows": part_rows})
        for at, table in enumerate(regrouped(tables(), part_rows)):
            if not parts.path(0, at).exists():
                parts.write(0, at, [table])
        parts.finish(rows=tree.n_nodes)
    else:
        with writing_table(Path(out)) as writer:
            for table in tables():
                writer.write(table)
    return Written(Path(out), tree.n_nodes)


def _label_column(part: Part, delimiter: str | None, encoding: str | None) -> str:
    """The column of labels of a table: ``label``, or the only one."""
    from vpunn.io.streams import column_names

    if isinstance(part, Fragment):
        names = list(part.fragment.physical_schema.names)
    else:
        names = column_names(part.path, delimiter, encoding)
    if len(names) == 1 or "label" in names:
        return "label" if "label" in names else names[0]
    raise DataError(f"{part.name!r} has the columns {examples(names)}; say with --column which one holds the labels.")


def _lazily(tree: Tree, frame: Any, column: str | None, unseen: str) -> Any:
    if not is_dask(frame):
        raise VpunnError("say where the codes go: out='codes/' is a folder of parts, out='codes.csv' one table.")
    if column is None:
        raise DataError("say with column='…' which column of the frame holds the labels.")
    check_frame(frame, [column])
    meta = frame._meta.assign(node=np.array([], np.int64), depth=np.array([], np.int64))
    if unseen == "null":
        meta = meta.astype({"node": "Int64", "depth": "Int64"})
    from dask.base import normalize_token

    # The tree is hashed by its fingerprint, so that the graph holds it once and building it costs nothing.
    normalize_token.register(Tree, lambda one: ("vpunn.Tree", one.fingerprint))
    return frame.map_partitions(_encoded_frame, tree, column, unseen, meta=meta)


def _encoded_frame(frame: Table, tree: Tree, column: str, unseen: str) -> Any:
    import pandas as pd
    import pyarrow as pa

    nodes = tree.encode_column(pa.array(frame[column], from_pandas=True), unseen)
    found = pd.Series(nodes.to_pandas(types_mapper={pa.int32(): pd.Int64Dtype()}.get).array, frame.index)
    depth = pa.array(tree.depth.astype(np.int64)).take(nodes)
    deep = pd.Series(depth.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get).array, frame.index)
    if unseen == "error":
        if nodes.null_count:
            raise DataError(
                f"column {column!r} has {nodes.null_count:,} missing labels; fill them in, or pass unseen='null'."
            )
        found, deep = found.astype(np.int64), deep.astype(np.int64)
    return frame.assign(node=found, depth=deep)
