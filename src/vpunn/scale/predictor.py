"""`Predictor`: a saved model as a function from batch to batch with a declared schema, for streams and for other engines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import DataError, VpunnError, examples, refuse_lazy
from vpunn.store import Stored

if TYPE_CHECKING:
    import pyarrow as pa

    from vpunn.tables.gaps import Gaps


class Predictor:
    """A model folder as ``batch → answers``: one row of answers per row (``top`` rows with ``top=``), Arrow in, Arrow out.

    Takes what ``vpunn fit`` wrote, which knows its columns, or a saved `VPuNNRegressor` or `VPuNNClassifier` of labels with
    ``columns=`` naming the label column and then the covariates. Pickling ships the path; the arrays are memory-mapped where
    it is used, so the processes of a machine share one copy. Batches may be Arrow tables or record batches, pandas frames or
    dicts of arrays (as Ray's ``map_batches`` hands them); the answers' types are those of `schema`, whatever a batch holds, also
    an empty one. Where a batch lacks a number, a model of tables reads the median of its training rows; `gaps` counts them.

    >>> import tempfile, pyarrow as pa, vpunn
    >>> tree = vpunn.Tree.from_parents([-1, 0, 0], labels=["all", "a", "b"])
    >>> model = vpunn.VPuNNRegressor(tree, penalty=1.0).fit([["a"], ["a"], ["b"]], [1.0, 3.0, 8.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     predictor = Predictor(model.save(f"{folder}/model"), columns=["kind"])
    ...     answers = predictor(pa.table({"kind": ["b", "new"]}))
    >>> answers.column_names, answers["node"].to_pylist()
    (['prediction', 'sd', 'known', 'node'], [2, 0])
    """

    def __init__(
        self, path: str | os.PathLike[str], *, columns: Sequence[str] = (), keep: Sequence[str] = (), **options: Any
    ) -> None:
        """``options`` are those of ``vpunn predict`` for a classifier: top, rule, stop with threshold, alpha and depth."""
        self.path, self.columns, self.options = Path(path), list(columns), options
        self.keep = list(dict.fromkeys(keep))
        self._open()

    def _open(self) -> None:
        stored = Stored.open(self.path)
        self._table: Any = None
        self._model: Any = None
        if "inputs" in stored.settings:
            if self.columns:
                raise VpunnError(f"{str(self.path)!r} knows its columns; leave columns= out.")
            from vpunn.tables.models import TableClassifier, open_table_model

            self._table = open_table_model(self.path, answers_only=True)
            self.columns = list(self._table.inputs.names)
            self._classes = isinstance(self._table, TableClassifier)
            if self.options and not self._classes:
                given = "--stop" if "stop" in self.options else f"--{next(iter(self.options))}"
                raise VpunnError(f"{given} does nothing here: this model predicts a number; leave it out.")
        else:
            from vpunn.store import load

            self._model = load(self.path)
            kind = type(self._model).__name__
            if kind not in ("VPuNNRegressor", "VPuNNClassifier") or not self._model._by_label:
                raise VpunnError(
                    f"{str(self.path)!r} holds a {kind} that does not read one column of labels; predict with a model that "
                    "`vpunn fit` wrote, or with a VPuNNRegressor or VPuNNClassifier of node labels."
                )
            if len(self.columns) != self._model.n_features_in_:
                raise VpunnError(
                    f"this model reads {self._model.n_features_in_} columns, a label and covariates; columns= names "
                    f"{examples(self.columns)}."
                )
            self._classes = kind == "VPuNNClassifier"
        self.checksum = str(stored._head.get("sha256", ""))

    def __reduce__(self) -> tuple[Any, ...]:
        columns = self.columns if self._table is None else ()
        return _again, (str(self.path), tuple(columns), tuple(self.keep), self.options)

    @property
    def places(self) -> bool:
        """Whether answers are places on the tree (else numbers)."""
        return self._classes

    @property
    def fallback(self) -> str:
        """What answers rows that hold nothing the model knows."""
        return "deepest known ancestor" if self._table is None else str(self._table.fallback)

    @property
    def names(self) -> list[str]:
        """Columns that a batch must have."""
        return list(dict.fromkeys([*self.columns, *self.keep]))

    def schema(self, given: pa.Schema | None = None) -> pa.Schema:
        """The answers' columns and types; kept columns have the types that ``given``, the input's schema, says (else text)."""
        import pyarrow as pa

        from vpunn.tables.answers import kept_names

        kept = [
            pa.field(called, pa.string() if given is None else given.field(name).type)
            for name, called in kept_names(self.keep).items()
        ]
        number, whole, text, truth = pa.float64(), pa.int64(), pa.string(), pa.bool_()
        if self._table is None:
            own = {"label": self._label_type(self._model.classes_), "probability": number} if self._classes else {}
            own = own or {"prediction": number, "sd": number}
            own |= {"known": truth, "node": whole}
            return pa.schema([*kept, *own.items()])
        if self._classes:
            several = self.options.get("top", 1) > 1
            sets = getattr(self._table.model, "multilabel_", False) and not several  # a row's labels in one cell
            label = text if sets else self._label_type(self._table.model.labels_)
            own = ({"rank": whole} if several else {}) | {"label": label, "probability": number}
            own |= ({} if sets else {"depth": pa.int32(), "node": whole}) | {"path": text, "known": truth}
        else:
            own = dict.fromkeys(("prediction", "sd", "low", "high"), number)
            if self._table.inputs.classes:
                own = {"prediction": self._label_type(self._table.model.classes_), "probability": number}
            own |= {"known": truth, "depth": pa.int32(), "node": whole, "path": text}
        return pa.schema([("row", whole), *kept, *own.items()])

    @staticmethod
    def _label_type(labels: np.ndarray) -> pa.DataType:
        import pyarrow as pa

        whole = labels.dtype.kind in "iu" or (
            labels.dtype == object and all(type(label) is int for label in labels.tolist())
        )
        return pa.int64() if whole else pa.string()

    def __call__(self, batch: Any, *, start: int = 0, where: object = "the batch") -> pa.Table:
        """Answers for a batch whose first row is row ``start`` of the whole."""
        import pyarrow as pa

        table = as_table(batch, self.names, where)
        schema = self.schema(table.schema)
        if not len(table):
            return schema.empty_table()
        if self._table is None:
            return self._fast(table, schema)
        frame = table.to_pandas()
        found = self._table.answer_table(frame, where, keep=self.keep, **self.options)
        found["row"] += start
        if self._classes and schema.field("label").type == pa.string():
            found["label"] = [None if label is None else str(label) for label in found["label"].tolist()]
        return pa.Table.from_pandas(found, schema=schema, preserve_index=False).replace_schema_metadata()

    def gaps(self, batch: Any, where: object = "the batch") -> Gaps:
        """The missing numbers of a batch, which its answers rest on medians for; batches add up (``Gaps() + …``)."""
        from vpunn.tables.gaps import Gaps

        if self._table is None or not self._table.inputs.columns:
            return Gaps()
        inputs = self._table.inputs
        return Gaps.of(as_table(batch, inputs.columns, where).to_pandas(), inputs, where)

    def said(self, gaps: Gaps) -> list[str]:
        """The sentence about missing numbers, if there were any."""
        return gaps.said(self._table.inputs) if gaps.rows else []

    def _fast(self, table: pa.Table, schema: pa.Schema) -> pa.Table:
        """A model of node labels: no Python object per row."""
        import pyarrow as pa

        model, tree = self._model, self._model.tree_
        nodes, known, blank = _nodes_of(tree, table[self.columns[0]])
        covariates = None
        if len(self.columns) > 1:
            covariates = np.column_stack([_numbers(table[name], name) for name in self.columns[1:]])
        columns: list[Any] = [table[name] for name in self.keep]
        if self._classes:
            proba = model.proba_at(nodes, covariates)
            best = np.argmax(proba, axis=1)
            label = pa.array(np.asarray(model.classes_)).cast(schema.field("label").type)
            columns += [label.take(pa.array(best)), pa.array(proba[np.arange(len(best)), best])]
        else:
            mean, sd = model.predict_nodes(nodes, covariates, known=known | blank)
            columns += [pa.array(mean), pa.array(sd)]
        return pa.table([*columns, pa.array(known), pa.array(nodes)], schema=schema)


def _again(path: str, columns: Sequence[str], keep: Sequence[str], options: dict[str, Any]) -> Predictor:
    return Predictor(path, columns=columns, keep=keep, **options)


def as_table(batch: Any, names: Sequence[str], where: object) -> pa.Table:
    """A batch of any kind as an Arrow table of the columns asked for."""
    import pyarrow as pa

    if isinstance(batch, pa.RecordBatch):
        table = pa.Table.from_batches([batch])
    elif isinstance(batch, pa.Table):
        table = batch
    elif hasattr(batch, "iloc"):
        refuse_lazy(batch)
        table = pa.Table.from_pandas(batch, preserve_index=False)
    elif isinstance(batch, dict):
        table = pa.table(batch)
    else:
        raise VpunnError(f"a batch is an Arrow table, a frame or a dict of columns, got a {type(batch).__name__}.")
    lost = [name for name in names if name not in table.column_names]
    if lost:
        raise DataError(f"{str(where)!r} has no column {lost[0]!r}; it has {examples(table.column_names, limit=20)}.")
    return table.select(list(names)).replace_schema_metadata()


def _nodes_of(tree: Any, column: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes of a column of labels, the root where a label is missing or unseen; which were known, and which missing."""
    nodes = tree.locate(column, unseen="null").nodes
    return np.maximum(nodes, 0), nodes >= 0, np.asarray(column.is_null().to_numpy(), bool)


def _numbers(column: Any, name: str) -> np.ndarray:
    values = np.asarray(column.to_numpy(), float)
    if not np.isfinite(values).all():
        raise DataError(
            f"column {name!r} has {int((~np.isfinite(values)).sum()):,} cells that are missing or infinite."
        )
    return values
