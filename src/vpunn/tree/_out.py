"""What leaves a tree: ids of columns, other libraries' objects, text, tables, and a folder on disk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx
    import numpy as np
    import pandas as pd

    from vpunn.io.store import Draft, Stored
    from vpunn.tree._tree import Tree


class TreeOut:
    """The methods of `Tree` that write; the writers stand in `vpunn.io`."""

    def to_networkx(self: Tree) -> networkx.DiGraph:  # type: ignore[misc]
        """A networkx DiGraph on node ids with attributes ``label`` and the columns; edges parent → child."""
        from vpunn.io import writers

        return writers.to_networkx(self)

    def to_newick(self: Tree) -> str:  # type: ignore[misc]
        """Newick text; names quoted where needed, branch lengths from the column ``length`` if there is one."""
        from vpunn.io import writers

        return writers.to_newick(self)

    def to_json(self: Tree) -> str:  # type: ignore[misc]
        """Nested JSON: ``{"name": …, "children": […]}`` with the columns as further keys."""
        from vpunn.io import writers

        return writers.to_json(self)

    def to_frame(self: Tree) -> pd.DataFrame:  # type: ignore[misc]
        """One row per node: id, label, parent, depth, size, digit, and the columns."""
        from vpunn.io import writers

        return writers.to_frame(self)

    def to_linkage(self: Tree) -> np.ndarray:  # type: ignore[misc]
        """A SciPy linkage matrix; only binary trees have one."""
        from vpunn.io import writers

        return writers.to_linkage(self)

    def save(self: Tree, path: str | os.PathLike[str], *, provenance: Mapping[str, Any] | None = None) -> Path:  # type: ignore[misc]
        """Write labels, columns, report and arrays as a folder of plain arrays, whole or not at all (`vpunn.io.store`)."""
        return self.draft(provenance).write(path)

    def draft(self: Tree, provenance: Mapping[str, Any] | None = None) -> Draft:  # type: ignore[misc]
        """What `save` writes."""
        from vpunn.io.store import Draft

        draft = Draft("Tree", provenance=provenance)
        draft.tree(self)
        return draft

    @staticmethod
    def load(path: str | os.PathLike[str], *, verify: bool = True) -> Tree:
        """Open a folder of `save`; the arrays are checked to be one tree, and memory-mapped if large."""
        from vpunn.io.store import Stored, steady

        return steady(path, lambda: Stored.open(path, "Tree", verify=verify).tree())

    @staticmethod
    def from_stored(stored: Stored) -> Tree:
        """The tree of an opened folder."""
        stored.check_kind("Tree")
        return stored.tree()
