"""What leaves a tree: ids of columns, other libraries' objects, text, tables, and a folder on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from vpunn.errors import DataError
from vpunn.store import PLAIN, Draft, Storable, Stored
from vpunn.tree._parents import check_extra
from vpunn.tree._validate import check_preorder
from vpunn.tree.dag import EdgeReport

if TYPE_CHECKING:
    import networkx
    import numpy as np
    import pandas as pd

    from vpunn.tree._tree import Tree

#: What a tree is made of.
ARRAYS = ("parent", "depth", "size", "digit")


class TreeOut(Storable):
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

    # ---- on disk ---------------------------------------------------------------------------------------------------

    def _to_store(self: Tree, draft: Draft) -> None:  # type: ignore[misc]
        for name in ARRAYS:
            draft.array(name, getattr(self, name))
        draft.labels("labels", self.labels)
        if self.n_extra:
            draft.array("extra_start", self.extra_parents[0])
            draft.array("extra_parents", self.extra_parents[1])
        for at, (column, values) in enumerate(self.columns.items()):
            if not isinstance(column, str):
                raise DataError(f"columns of a saved tree are named by text, got {column!r}.")
            try:
                _write_column(draft, f"column{at}", values)
            except DataError as error:
                raise DataError(f"column {column!r} of the tree cannot be saved: {error}") from None
        lines = []
        for at, line in enumerate(self.report):
            if isinstance(line, EdgeReport):
                draft.labels(f"report{at}.parents", line.parents)
                draft.labels(f"report{at}.children", line.children)
            lines.append([str(line), getattr(line, "reason", None), isinstance(line, EdgeReport)])
        draft.settings |= {"columns": list(self.columns), "report": lines}

    @classmethod
    def _from_store(cls, stored: Stored) -> Self:
        parent = stored.array("parent", dtype="i4", shape=(None,))
        n = len(parent)
        depth, size, digit = (stored.array(name, dtype="i4", shape=(n,)) for name in ARRAYS[1:])
        if wrong := check_preorder(parent, depth, size, digit):
            raise stored.damaged(f"its arrays are no tree: {wrong.rstrip('.')}")
        labels, extra = stored.labels("labels", n), None
        if "extra_start" in stored:
            extra = stored.array("extra_start", dtype="i8"), stored.array("extra_parents", dtype="i4")
            if wrong := check_extra(parent, extra, labels):
                raise stored.damaged(f"its extra parents cannot be: {wrong.rstrip('.')}")
        columns = {}
        for at, key in enumerate(stored.setting("columns", list)):
            columns[str(key)] = values = _read_column(stored, f"column{at}")
            if values.shape[:1] != (n,):
                raise stored.damaged(f"column {key!r} has {len(values)} values for {n} nodes")
        report: list[str] = []
        for at, (text, reason, edges) in enumerate(stored.setting("report", list)):
            if edges:
                above, below = (stored.labels(f"report{at}.{side}") for side in ("parents", "children"))
            report.append(EdgeReport(text, above, below, reason) if edges else str(text))
        return cls(parent, depth, size, digit, labels, columns, report, extra)  # type: ignore[call-arg]


def _write_column(draft: Draft, name: str, values: np.ndarray) -> None:
    if values.ndim > 1 and values.dtype.kind not in PLAIN:
        raise DataError(f"it holds {values.dtype} in shape {values.shape}; one value per node can be saved.")
    draft.labels(name, values)


def _read_column(stored: Stored, name: str) -> np.ndarray:
    return stored.labels(name) if f"{name}.offsets" in stored.names else stored.array(name, finite=False)
