"""A folder on disk as a tree of files and folders."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vpunn.errors import DataError, examples
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn._types import FilePath


def read_folder(path: FilePath, *, hidden: bool = True, files: bool = True) -> Tree:
    """Folders and files below a folder, siblings in alphabetical order; labels are names without their path.

    Columns: ``kind`` (folder, file or link) and ``bytes`` (of files; NaN for others). Symbolic links are leaves and are
    not followed. ``hidden=False`` leaves out names that start with a dot, ``files=False`` everything but folders.
    Folders that may not be read stay in the tree as leaves and are listed in the report.
    """
    top = Path(path)
    if not top.is_dir():
        raise DataError(f"{str(path)!r} is not a folder; the format directory reads the files and folders below one.")
    places, parent, labels = [str(top)], [-1], [top.resolve().name or str(top.resolve())]
    kinds, sizes, closed = ["folder"], [np.nan], []
    for i, place in enumerate(places):  # the lists grow while they are walked: breadth first, no recursion
        if kinds[i] != "folder":
            continue
        try:
            with os.scandir(place) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            closed.append(place)
            continue
        for entry in entries:
            kind = "link" if entry.is_symlink() else "folder" if entry.is_dir(follow_symlinks=False) else "file"
            if (entry.name.startswith(".") and not hidden) or (kind != "folder" and not files):
                continue
            places.append(entry.path)
            parent.append(i)
            labels.append(os.fsencode(entry.name).decode("utf-8", "replace"))
            kinds.append(kind)
            sizes.append(np.nan)
            if kind == "file":
                with suppress(OSError):  # gone meanwhile
                    sizes[-1] = float(entry.stat(follow_symlinks=False).st_size)
    report = [f"could not look into {len(closed):,} folders: {examples(closed)}"] if closed else []
    columns = {"kind": np.array(kinds, object), "bytes": np.array(sizes)}
    return Tree.from_parents(np.array(parent), labels, columns=columns, report=report)
