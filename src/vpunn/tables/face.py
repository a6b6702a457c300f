"""What the models of tables have in common in Python: the tree, explanations, scores, and how they are shown."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from vpunn.errors import DataError, VpunnError, counted, examples
from vpunn.tables.answers import Evaluation
from vpunn.tables.gaps import Gaps
from vpunn.tables.reasons import explain_table_row
from vpunn.tables.scores import Scored, Scores
from vpunn.tables.truth import Remark, Truth, Unseen, added

if TYPE_CHECKING:
    import pandas as pd

    from vpunn._types import Features
    from vpunn.tables.inputs import Inputs, TableReport
    from vpunn.tree import Tree


class TableFace:
    """A fitted ``model`` and the columns of a table that it reads, its ``inputs``."""

    model: Any
    inputs: Inputs
    report: TableReport | None = (
        None  #: what the training rows held and what was done with them; kept until the model is saved
    )

    #: Why no row of a table can be scored, and how many it takes.
    lack = "none has a label that the model knows"
    least = 1

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

    def evaluate(self, frame: pd.DataFrame, where: object = "the frame", unseen: Unseen = "ancestor") -> Evaluation:
        """Compare answers with the target columns; ``unseen`` says what happens to labels (or levels) the model does not know.

        ``"ancestor"`` scores them at their deepest known ancestor, ``"skip"`` leaves such rows out, ``"wrong"`` counts them
        as wrong, ``"error"`` refuses. Rows without a target are left out.
        """
        return self.evaluation(self.scored(frame, where, unseen), where)

    def scored(self, frame: pd.DataFrame, where: object, unseen: Unseen) -> Scored:
        """The scores of some rows; those of batches add up to the scores of all."""
        truth = self.truth(frame, where, unseen)
        if not len(truth.rows):
            return Scored(remarks=truth.remarks)
        rows = frame.iloc[truth.rows]
        X = self.rows(rows, where)
        remarks = added([*truth.remarks, *self.remarks_on(X, rows, where)])
        return Scored(len(rows), self.score(X, truth, where), remarks, Gaps.of(rows, self.inputs, where))

    def evaluation(self, scored: Scored, where: object) -> Evaluation:
        """Scores as they are shown, with notes."""
        self.check_scored(scored.rows, where)
        if scored.rows < self.least:
            raise DataError(f"fewer than two rows of {str(where)!r} can be scored.")
        made: Evaluation = scored.scores.evaluation(self.notes_on(scored.remarks, scored.gaps))
        return made

    def check_scored(self, rows: int, where: object) -> None:
        """Refuse a table of which no row can be scored."""
        if not rows:
            raise DataError(f"no row of {str(where)!r} can be scored: {self.lack}.")

    def notes_on(self, remarks: tuple[Remark, ...], gaps: Gaps) -> tuple[str, ...]:
        """What to know beside the scores, a sentence each."""
        return (*map(str, added(remarks)), *gaps.said(self.inputs))

    def remarks_on(self, X: Features, frame: pd.DataFrame, where: object) -> tuple[Remark, ...]:
        """What to know of rows that are answered."""
        return ()

    def rows(self, frame: pd.DataFrame, where: object) -> Any:
        """New rows as the model reads them."""
        raise NotImplementedError

    def truth(self, frame: pd.DataFrame, where: object, unseen: Unseen = "ancestor") -> Truth:
        """Which rows are scored, and what is true of them; see `vpunn.tables.truth`."""
        raise NotImplementedError

    def score(self, X: Features, truth: Truth, where: object) -> Scores:
        """Scores of the answers to rows against the truth."""
        raise NotImplementedError

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
