"""The NCBI taxonomy dump: ``nodes.dmp`` and ``names.dmp``, in a folder or in the archive they come in."""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn import files
from vpunn._arrays import object_array
from vpunn.errors import DataError, first_words
from vpunn.tree import Tree
from vpunn.tree.build import tree_from_edges, with_report

if TYPE_CHECKING:
    import pyarrow as pa

    from vpunn._types import FilePath


def read_ncbi(path: FilePath, *, policy: str = "first", **edges: Any) -> Tree:
    """The taxonomy; labels are taxonomy ids (integers).

    ``path`` is a folder with the two files, one of the files, or taxdump.tar.gz / taxdmp.zip. Columns: ``rank``, ``name``
    (scientific) and ``common_name`` (GenBank's if there is one, else the first). Without names.dmp only ``rank`` is
    filled. ``root=40674`` (a taxonomy id) keeps what lies below a taxon.
    """

    dump = _dump(Path(path))
    if "nodes.dmp" not in dump:
        raise DataError(f"{str(path)!r} holds no nodes.dmp; give the folder or archive of the NCBI taxonomy dump.")
    nodes = _table(dump["nodes.dmp"], "nodes.dmp", path, {"id": 0, "parent": 2, "rank": 4})
    child, parent = nodes["id"].to_numpy(), nodes["parent"].to_numpy()
    rank = nodes["rank"].combine_chunks().dictionary_encode()
    columns: dict[str, Any] = {"rank": object_array(rank.dictionary.to_pylist())[rank.indices.to_numpy()]}
    if "names.dmp" in dump:
        names = _table(dump["names.dmp"], "names.dmp", path, {"id": 0, "name": 2, "kind": 6})
        columns["name"] = _first(names, child, ["scientific name"])
        columns["common_name"] = _first(names, child, ["genbank common name", "common name"])
    edges.setdefault("self_parents", "root")  # the dump writes the root as its own parent
    tree = tree_from_edges(parent, child, policy=policy, columns=columns, **edges)
    return tree if "names.dmp" in dump else with_report(tree, "there was no names.dmp, so taxa have no names")


def _dump(path: Path) -> dict[str, bytes]:
    """The contents of nodes.dmp and names.dmp, wherever they are."""
    wanted = ("nodes.dmp", "names.dmp")
    try:
        if path.is_dir() or path.name in wanted:
            folder = path if path.is_dir() else path.parent
            return {name: (folder / name).read_bytes() for name in wanted if (folder / name).exists()}
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as bundle:
                return {Path(name).name: bundle.read(name) for name in bundle.namelist() if Path(name).name in wanted}
        if path.is_file() and tarfile.is_tarfile(path):
            with tarfile.open(path) as archive:
                members = [member for member in archive if member.isfile() and Path(member.name).name in wanted]
                return {Path(m.name).name: stream.read() for m in members if (stream := archive.extractfile(m))}
        return {"nodes.dmp": files.load(path).data}
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"cannot read {str(path)!r}: {getattr(error, 'strerror', None) or error}.") from None


def _table(data: bytes, name: str, path: FilePath, fields: dict[str, int]) -> pa.Table:
    """The wanted fields of a dump. Fields end in tab bar tab, so that every second tab-separated cell is a bar."""
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    first = data[: data.find(b"\n") + 1].decode("utf-8", "replace").rstrip("\r\n").split("\t")
    if len(first) <= max(fields.values()) or set(first[1::2]) != {"|"}:
        raise DataError(
            f"{str(path)!r}: line 1 of {name} is not of the form '1\\t|\\t…\\t|'; this is not an NCBI dump."
        )
    wanted = {place: field for field, place in fields.items()}
    columns = [wanted.get(k, str(k)) for k in range(len(first))]
    try:
        return arrow_csv.read_csv(
            pa.py_buffer(data),
            read_options=arrow_csv.ReadOptions(column_names=columns, use_threads=False),
            parse_options=arrow_csv.ParseOptions(delimiter="\t", quote_char=False),  # names contain stray quotes
            convert_options=arrow_csv.ConvertOptions(
                include_columns=list(fields),
                column_types={
                    field: pa.int64() if field in ("id", "parent") else pa.large_string() for field in fields
                },
                null_values=[],
            ),
        )
    except pa.ArrowInvalid as error:
        raise DataError(f"{str(path)!r}: {name} is damaged: {first_words(error)}; fetch it again.") from None


def _first(names: pa.Table, wanted: np.ndarray, kinds: list[str]) -> np.ndarray:
    """For each taxon its first name of the first of these kinds that it has, else None."""
    import pandas as pd
    import pyarrow.compute as pc

    parts = [names.filter(pc.equal(names["kind"], kind)) for kind in kinds]
    ids = pd.Index(np.concatenate([part["id"].to_numpy() for part in parts]))
    texts = [text for part in parts for text in part["name"].to_pylist()]
    again = ids.duplicated()
    found = ids[~again].get_indexer(pd.Index(wanted))
    return np.asarray(
        object_array([*(text for text, twice in zip(texts, again.tolist(), strict=True) if not twice), None])[found]
    )
