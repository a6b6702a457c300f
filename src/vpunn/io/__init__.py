"""Readers and writers: of trees, `read_tree` and `write_tree`; of tables, `read_table` and `write_table`."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vpunn import files
from vpunn.errors import DataError, TreeError, advice, check_choice
from vpunn.io.frames import read_table, write_table
from vpunn.io.nexus import is_nexus, read_nexus_trees
from vpunn.io.text_tables import SEP_LINE
from vpunn.io.texts import wide_encoding
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn._types import FilePath, FileSource


__all__ = ["FORMATS", "read_table", "read_tree", "read_trees", "write_table", "write_tree"]


class Format(NamedTuple):
    """A way to write a tree down: its file here has the reader and, if it is written too, the writer."""

    name: str
    file: str
    read: str
    write: str = ""
    endings: tuple[str, ...] = ()
    starts: tuple[bytes, ...] = ()  #: how such a file begins, blanks before it left out


_FORMATS = {
    form.name: form
    for form in (
        Format("csv", "tree_tables", "read_text_table", "write_csv", (".csv",)),
        Format("tsv", "tree_tables", "read_tsv", "write_tsv", (".tsv", ".tab")),
        Format("parquet", "tree_tables", "read_parquet", "write_parquet", (".parquet", ".pq"), (b"PAR1",)),
        Format("paths", "tree_tables", "read_paths", "", (".paths",)),
        Format("newick", "newick", "read_newick", "write_newick", (".nwk", ".newick", ".tree", ".tre"), (b"(", b"[&")),
        Format("nexus", "nexus", "read_nexus", "", (".nex", ".nexus", ".nxs", ".trees"), (b"#NEXUS", b"#nexus")),
        Format("obo", "obo", "read_obo", "write_obo", (".obo",), (b"format-version:",)),
        Format("json", "nested", "read_json", "write_json", (".json",), (b"{", b"[{", b"[\n")),
        Format("ncbi", "ncbi", "read_ncbi", "", (".dmp", ".zip", ".tar", ".tgz")),
        Format("directory", "folders", "read_folder"),
    )
}

#: Formats that `read_tree` knows, and those that `write_tree` knows by their endings.
FORMATS = tuple(_FORMATS)
ENDINGS = {ending: form.name for form in _FORMATS.values() if form.write for ending in form.endings}
_READ_ENDINGS = {ending: form.name for form in _FORMATS.values() for ending in form.endings}


def read_tree(path: FileSource, format: str | None = None, policy: str = "first", **options: Any) -> Tree:
    """Read a tree from a file, a folder, an open file, or standard input (``"-"``).

    The format follows from the ending, else from the content: ``csv``, ``tsv`` and ``parquet`` tables of edges, paths
    or levels, lists of ``paths``, ``newick``, ``nexus``, ``obo``, nested ``json``, the ``ncbi`` dump (folder or archive), and for
    any other folder its ``directory`` tree. Files packed with gzip, bzip2 or xz are unpacked. Of
    several Newick or NEXUS trees the first is read, or the one called ``tree_name``; `read_trees` reads all. ``policy`` says which
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
    check_choice("format", format or FORMATS[0], FORMATS)
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
        format = format or _format_of_content(source)
        if format in ("newick", "nexus"):  # one ending may be of both, and both may hold several trees
            several = is_nexus(source.data) or source.data.count(b";") > 1 or "tree_name" in options
            format = "nexus" if several else "newick"
    elif stream:
        raise DataError(f"format {format!r} needs a path, it cannot be read from a stream.")
    reader = _function(format, "read")
    known = reader_options(reader)
    unknown = [name for name in options if name not in known]
    if unknown:
        have = ", ".join(sorted(known - {"policy"})) or "none"
        raise DataError(f"reading format {format!r} has no option {unknown[0]!r}; its options are: {have}.")
    if "policy" in known:
        options["policy"] = policy
    try:
        tree: Tree = reader(source, **options)
        return tree
    except TreeError as error:
        raise TreeError(f"{getattr(source, 'name', None) or path}: {error}") from None


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
    check_choice("format", format, dict.fromkeys(ENDINGS.values()))
    files.save(path, _function(format, "write")(tree))


def _function(format: str, what: str) -> Callable[..., Any]:
    """The reader or the writer of a format."""
    form = _FORMATS[format]
    found: Callable[..., Any] = getattr(import_module(f"vpunn.io.{form.file}"), getattr(form, what))
    return found


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
    from vpunn.io import tree_tables as tables
    from vpunn.tree.build import tree_from_edges

    hands_on: dict[Any, Callable[..., Tree]] = {tables.read_tsv: tables.read_text_table}
    hands_on |= dict.fromkeys((tables.read_text_table, tables.read_parquet), tables.tree_from_table)
    known: set[str] = set()
    queue = [reader]
    for function in queue:
        parameters = inspect.signature(function).parameters.values()
        known |= {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            queue.append(hands_on.get(function, tree_from_edges))
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
    for form in _FORMATS.values():
        if head.startswith(form.starts or (b"\0",)):
            return form.name
    if b"[Term]" in head:
        return "obo"
    if is_nexus(data):
        return "nexus"
    if SEP_LINE.match(head[:20].decode("utf-8", "replace")):
        return "csv"
    line = head[: head.find(b"\n") + 1 or None]
    if b"\t|\t" in line:
        raise DataError(
            f"{source.name} looks like nodes.dmp of the NCBI taxonomy; {advice('format', 'ncbi')} with its path."
        )
    if b"\t" in line:
        return "tsv"
    if b"," in line or b";" in line.rstrip().rstrip(b";") or b"|" in line:
        return "csv"
    if line.rstrip().endswith(b";"):
        return "newick"
    if b"/" in line:
        return "paths"
    raise DataError(
        f"cannot tell the format of {source.name} from its ending or content; {advice('format', '…')}: {', '.join(FORMATS)}."
    )
