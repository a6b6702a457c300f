"""What the models of tables have in common in Python: the tree, explanations, scores, and how they are shown."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from vpunn.errors import VpunnError, counted, examples
from vpunn.tables.reasons import explain_table_row

if TYPE_CHECKING:
    import pandas as pd

    from vpunn.tables.inputs import Inputs, TableReport
    from vpunn.tree import Tree


class TableFace:
    """A fitted ``model`` and the columns of a table that it reads, its ``inputs``."""

    model: Any
    inputs: Inputs
    report: TableReport | None = (
        None  #: what the training rows held and what was done with them; kept until the model is saved
    )

    @property
    def tree_(self) -> Tree:
        """The tree of places."""
        tree: Tree = self.model.tree_
        return tree

    def explain(self, frame: pd.DataFrame, row: int = 0, node: object = None) -> Any:
        """Why a row of a frame (the first, if none is named) is answered as it is; ``node`` asks about another label."""
        if not 0 <= row < len(frame):
            raise VpunnError(f"there is no row {row}; the frame has rows 0 to {len(frame) - 1}.")
        return explain_table_row(self, frame.iloc[[row]], f"row {row} of the frame", node)  # type: ignore[arg-type]

    def explore(self, **options: Any) -> Any:
        """Walk the tree with the model's answers on it, in a browser or a notebook; see `vpunn.web.explore`."""
        from vpunn.web import explore

        return explore(self, **options)

    def __str__(self) -> str:
        inputs, tree = self.inputs, self.tree_
        read = {
            "words of": inputs.text,
            "numbers": inputs.columns,
            "categories": inputs.categories,
            "levels": inputs.levels,
        }
        told = "; ".join(f"{kind} {examples(names)}" for kind, names in read.items() if names)
        size = f"{counted(tree.n_leaves, 'leaf', 'leaves')}, depth {tree.max_depth}"
        return f"{type(self).__name__}: {examples(inputs.target)} from {told} ({size})"

    def __repr__(self) -> str:
        return f"<{self}>"

    def _repr_html_(self) -> str:
        notes = [] if self.report is None else [self.report.verdict, *self.report.notes]
        return f"<b>{escape(str(self))}</b>" + "".join(f"<br>{escape(note)}" for note in notes)
