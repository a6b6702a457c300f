"""Readers and writers: of trees, `read_tree` and `write_tree`; of tables, `read_table` and `write_table`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpunn import files
from vpunn.errors import DataError, TreeError
from vpunn.io.frames import read_table, write_table
from vpunn.io.nexus import is_nexus, read_nexus_trees
from vpunn.io.text_tables import SEP_LINE
from vpunn.io.texts import wide_encoding
from vpunn.io.writers import ENDINGS, write_tree
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn._types import FileSource


__all__ = ["FORMATS", "read_table", "read_tree", "read_trees", "write_table", "write_tree"]

_READERS = {
    "csv": ("tables", "read_text_table"),
    "tsv": ("tables", "read_text_table"),
    "parquet": ("tables", "read_parquet"),
    "paths": ("tables", "read_paths"),
    "newick": ("newick", "read_newick"),
    "nexus": ("nexus", "read_nexus"),
    "obo": ("obo", "read_obo"),
    "json": ("nested", "read_json"),
    "ncbi": ("ncbi", "read_ncbi"),
    "directory": ("folders", "read_folder"),
}

#: Formats that `read_tree` knows.
FORMATS = tuple(_READERS)

_READ_ENDINGS = {
    **ENDINGS,
    ".obo": "obo",
    ".nex": "nexus",
    ".nexus": "nexus",
    ".nxs": "nexus",
    ".trees": "nexus",
    ".paths": "paths",
    ".dmp": "ncbi",
    ".zip": "ncbi",
    ".tar": "ncbi",
    ".tgz": "ncbi",
}


def read_tree(path: FileSource, format: str | None = None, policy: str = "first", **options: Any) -> Tree:
    """Read a tree from a file, a folder, an open file, or standard input (``"-"``).

    The format follows from the ending, else from the content: ``csv``, ``tsv`` and ``parquet`` tables of edges, paths
    or levels, lists of ``paths``, ``newick``, ``nexus``, ``obo``, nested ``json``, the ``ncbi`` dump (folder or archive), and for
    any other folder its ``directory`` tree. Files packed with gzip, bzip2 or xz are unpacked. ``policy`` says which
    parent counts where a node has several (see `vpunn.tree.dag`); what was dropped is in ``tree.report``.

    ``options`` belong to the format, see the reader's docstring: `tables.tree_from_table` and `tables.read_text_table`
    (parent, child, label, paths, levels, delimiter, header…), `newick.read_newick`, `nexus.read_nexus`
    (tree_name), `obo.read_obo` (relations,
    namespace, obsolete), `nested.read_json` (name, children), `ncbi.read_ncbi`, `folders.read_folder` (hidden, files);
    those that read edges also take the options of `vpunn.tree.build.tree_from_edges` (root, add_root, duplicates,
    self_parents, max_nodes).

    >>> import io
    >>> tree = read_tree(io.StringIO("parent,child,wings\\nanimal,bird,2\\nanimal,fish,0\\nbird,owl,2\\n"))
    >>> print(tree.show())
    animal
    ├─ bird
    │  └─ owl
    └─ fish
    >>> tree.columns["wings"]
    array([nan,  2.,  2.,  0.])
    """
    if format is not None and format not in FORMATS:
        raise DataError(f"there is no format {format!r}; choose one of {', '.join(FORMATS)}.")
    stream = hasattr(path, "read") or str(path) == "-"
    if not stream:
        files.check_path(path)
    if not stream and not Path(path).exists():
        raise DataError(f"there is no file or folder {str(path)!r}.")
    if format is None and not stream:
        format = _format_of_path(Path(path))
    source: Any = path
    if format not in ("ncbi", "directory"):
        source = files.load(path)
        if format in ("newick", "nexus"):  # the endings .tre and .trees are used for both
            format = "nexus" if is_nexus(source.data) else "newick"
        format = format or _format_of_content(source)
    elif stream:
        raise DataError(f"format {format!r} needs a path, it cannot be read from a stream.")
    module, function = _READERS[format]
    reader = getattr(import_module(f"vpunn.io.{module}"), function)
    known = reader_options(reader)
    unknown = [name for name in options if name not in known]
    if unknown:
        have = ", ".join(sorted(known - {"policy"})) or "none"
        raise DataError(f"reading format {format!r} has no option {unknown[0]!r}; its options are: {have}.")
    if "policy" in known:
        options["policy"] = policy
    if format == "tsv":
        options.setdefault("delimiter", "\t")
    try:
        tree: Tree = reader(source, **options)
        return tree
    except TreeError as error:
        raise TreeError(f"{getattr(source, 'name', None) or path}: {error}") from None


def read_trees(path: FileSource, **options: Any) -> dict[str, Tree]:
    """All trees of a NEXUS or Newick file by name (a sample of phylogenies, say).

    >>> import io
    >>> trees = read_trees(io.StringIO("#NEXUS\\nbegin trees;\\ntree a = (owl,wren);\\ntree b = ((owl,wren),emu);\\nend;"))
    >>> {name: tree.n_leaves for name, tree in trees.items()}
    {'a': 2, 'b': 3}
    """
    if not hasattr(path, "read"):
        files.check_path(path)
        if not Path(path).is_file():
            raise DataError(f"there is no file {str(path)!r}.")
    return read_nexus_trees(files.load(path), **options)


def reader_options(reader: Callable[..., Tree]) -> set[str]:
    """The keyword options of a reader and of the function it hands further ones to."""
    from vpunn.io import tables
    from vpunn.tree.build import tree_from_edges

    known: set[str] = set()
    queue = [reader]
    for function in queue:
        parameters = inspect.signature(function).parameters.values()
        known |= {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            is_table = function.__name__ in ("read_text_table", "read_parquet")
            queue.append(tables.tree_from_table if is_table else tree_from_edges)
    return known - {"columns", "commas", "prepare"}


def _format_of_path(path: Path) -> str | None:
    """The format that a folder or an ending stands for; None if only the content can tell."""
    if path.is_dir():
        return "ncbi" if (path / "nodes.dmp").exists() else "directory"
    return _READ_ENDINGS.get(files.suffix(path))


def _format_of_content(source: files.Source) -> str:
    """The format that the first bytes look like."""
    data = source.data
    if code := wide_encoding(data):
        data = data[:4000].decode(code, "ignore").removeprefix("\ufeff").encode()
    head = data[:4000].lstrip()
    if data.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"(", b"[&")):
        return "newick"
    if head.startswith((b"{", b"[{", b"[\n")):
        return "json"
    if head.startswith(b"format-version:") or b"[Term]" in head:
        return "obo"
    if is_nexus(data):
        return "nexus"
    if SEP_LINE.match(head[:20].decode("utf-8", "replace")):
        return "csv"
    line = head[: head.find(b"\n") + 1 or None]
    if b"\t|\t" in line:
        raise DataError(f"{source.name} looks like nodes.dmp of the NCBI taxonomy; give its path and format='ncbi'.")
    if b"\t" in line:
        return "tsv"
    if b"," in line or b";" in line.rstrip().rstrip(b";") or b"|" in line:
        return "csv"
    if line.rstrip().endswith(b";"):
        return "newick"
    if b"/" in line:
        return "paths"
    raise DataError(
        f"cannot tell the format of {source.name} from its ending or content; pass format='…': {', '.join(FORMATS)}."
    )
