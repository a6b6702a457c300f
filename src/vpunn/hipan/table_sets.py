"""Tables whose rows have several labels in one cell, such as ``red; round; fruit``: what ``vpunn fit --label-sep`` makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import DataError, VpunnError, check_choice, examples
from vpunn.hipan.table_models import Evaluation, TableClassifier, kept_columns, paths_of
from vpunn.hipan.table_samples import Sample, with_groups
from vpunn.hipan.tables import Cells, Inputs, describe_table, place_cells
from vpunn.metrics import sets as scores

if TYPE_CHECKING:
    import pandas as pd


def split_cell(cell: Any, separator: str) -> set[str]:
    """The labels of a cell, without blanks around them; an empty cell has none.

    >>> sorted(split_cell("red; round;", ";"))
    ['red', 'round']
    """
    return set() if cell is None else {part.strip() for part in str(cell).split(separator) if part.strip()}


def read_set_sample(frame: pd.DataFrame, inputs: Inputs, where: object) -> Sample:
    """Rows to be fitted; an empty cell is a row without an answer."""
    if len(inputs.target) != 1 or not inputs.label_sep:
        raise VpunnError(f"--label-sep cuts the cells of one target column, got {examples(inputs.target)}.")
    cells = place_cells(frame, inputs.target, where)
    report = describe_table(frame, inputs, cells, where)
    return with_groups(Sample(frame, cells, report), inputs)


class SetTableClassifier(TableClassifier):
    """A `HiPaNClassifier` of label sets with the columns it reads."""

    def labels(self, cells: Cells) -> list[set[str]]:
        """A set of labels per row."""
        return [split_cell(cell, str(self.inputs.label_sep)) for cell in cells.values[:, 0]]

    def predict(self, frame: pd.DataFrame, where: object, *, keep: Sequence[str] = (), **options: Any) -> pd.DataFrame:
        """One row per row: its labels joined by the separator, the least probability among them, and their paths."""
        import pandas as pd

        if not self.model.multilabel_:
            return super().predict(frame, where, keep=keep, **options)
        X = self.rows(frame, where)
        sets, p = self._sets(X, **options)
        joint = f"{self.inputs.label_sep} ".replace("  ", " ")
        found: dict[str, Any] = {"row": np.arange(len(frame))}
        found |= {name: np.asarray(cells) for name, cells in kept_columns(frame, keep, where).items()}
        tree = self.model.tree_
        found["label"] = [joint.join(map(str, self.model.labels_[nodes].tolist())) for nodes in sets]
        found["probability"] = [
            float(row[nodes].min()) if len(nodes) else np.nan for nodes, row in zip(sets, p, strict=True)
        ]
        found["path"] = [" | ".join(paths_of(tree, nodes)) for nodes in sets]
        found["known"] = self.known(X)
        return pd.DataFrame(found)

    def _sets(
        self,
        X: Any,
        *,
        top: int = 1,
        rule: str = "node",
        stop: str | None = None,
        threshold: float = 0.5,
        alpha: float = 0.1,
        depth: int = 1,
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Nodes of every row's set, the likeliest first, and the marginals of all nodes."""
        if rule != "node":
            raise VpunnError(f"--rule {rule} chooses one node per row, and these rows have several; leave it out.")
        check_choice("stop", stop or "threshold", ("threshold", "risk"))
        how = "size" if top > 1 else stop or "threshold"
        p = self.model.predict_node_proba(X)
        named = self.model.predict_sets(X, how, threshold=threshold, alpha=alpha, size=top)  # type: ignore[arg-type]
        found = []
        for labels, row in zip(named, p, strict=True):
            nodes = (
                np.asarray(self.model.label_tree_.index(sorted(labels, key=str)), np.int64)
                if labels
                else np.zeros(0, np.int64)
            )
            found.append(nodes[np.argsort(-row[nodes], kind="stable")])
        return found, p

    def evaluate(self, frame: pd.DataFrame, where: object, unseen: Any = "ancestor") -> Evaluation:
        """F1 of the sets with their ancestors, Fmax, share of missed answers; labels the model does not know are left out."""
        if not self.model.multilabel_:
            return super().evaluate(frame, where, unseen)
        tree = self.model.label_tree_
        known = {label: i for i, label in enumerate(tree.labels.tolist())}
        given = self.labels(place_cells(frame, self.inputs.target, where))
        new = sorted({label for row in given for label in row if label not in known})
        if new and unseen == "error":
            raise DataError(f"{len(new):,} labels of {str(where)!r} are not known to the model: {examples(new)}.")
        truth = scores.with_ancestors(
            tree, scores.table_of(tree, [[known[x] for x in row if x in known] for row in given])
        )
        posterior = self.model.posterior(self.rows(frame, where))
        said = posterior.above(0.5)
        every = posterior.node_proba()
        every[:, 0] = 0.0
        same = (truth != said).sum(1)
        found = {
            "rows": truth.shape[0],
            "exact": float(np.mean(np.asarray(same).ravel() == 0)),
            "F1 by rows": scores.example_f1(truth, said),
            "F1 by pairs": scores.micro_f1(truth, said),
            "Fmax": scores.f_max(truth, every).value,
            "missed at risk 0.1": scores.missed_share(truth, posterior.above(self.model.sets_.threshold_for(0.1))),
        }
        notes = (f"{len(new):,} labels the model does not know ({examples(new, limit=3)}) are left out",) if new else ()
        return Evaluation(found, [], notes)
