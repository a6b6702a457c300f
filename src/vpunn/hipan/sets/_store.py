"""What a saved model of sets consists of: rows, label sets, heads and combiner; sums are rebuilt from these."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from vpunn.errors import DataError
from vpunn.hipan._views import Layout, Rows
from vpunn.hipan.sets._model import DEPTHS, SetModel
from vpunn.hipan.sets._odds import Odds
from vpunn.store import Draft, Stored
from vpunn.tree import Tree


def write(model: SetModel, draft: Draft) -> None:
    """Put a model into a draft."""
    draft.settings |= {"rows": len(model.rows), "texts": len(model.texts), "rest": float(model.rest)}
    draft.settings["risk_rows"] = int(model.risk_rows)
    draft.array("ball", model.ball.astype(np.int32))
    draft.array("class_nodes", model.class_nodes.astype(np.int32))
    _matrix(draft, "rows", model.rows.words)
    _matrix(draft, "sets", model.Y)
    _matrix(draft, "heads", model.heads)
    for k, text in enumerate(model.texts):
        _matrix(draft, f"text{k}", text)
    for k, block in enumerate(model.rows.dense.values()):
        draft.array(f"dense{k}", block)
    draft.array("weight", model.weight.astype(np.float32))
    draft.array("offset", model.offset, balls=True)
    draft.array("trust", model.trust.astype(np.float32))
    for name, value in model.odds._asdict().items():
        draft.array(f"odds.{name}", value)
    for name in ("slope", "shift", "risk_p", "risk_weight"):
        draft.array(name, np.asarray(getattr(model, name), np.float64))


def _matrix(draft: Draft, name: str, matrix: sparse.csr_matrix) -> None:
    matrix.sort_indices()
    draft.array(f"{name}.data", matrix.data.astype(np.float16), balls=name == "heads")
    draft.array(f"{name}.indices", matrix.indices.astype(np.int32))
    draft.array(f"{name}.indptr", matrix.indptr.astype(np.int64))


def _read_matrix(stored: Stored, name: str, rows: int, columns: int) -> sparse.csr_matrix:
    """A matrix whose pointers and columns are in range and in order before any kernel sees them."""
    start = stored.array(f"{name}.indptr", dtype="i8", shape=(rows + 1,), low=0, monotone=True)
    count = int(start[-1])
    ids = stored.array(f"{name}.indices", dtype="i4", shape=(count,), low=0, high=max(columns, 1))
    data = stored.array(f"{name}.data", dtype="f2", shape=(count,)).astype(np.float32)
    inside = np.ones(max(count, 1), bool)
    inside[start[:-1][np.diff(start) > 0]] = False
    if start[0] != 0 or (np.diff(ids)[inside[1:count]] <= 0).any():
        raise DataError(f"{str(stored.path)!r}: the columns of {name!r} are not in order; the model is damaged.")
    return sparse.csr_matrix((data, np.array(ids), np.array(start)), shape=(rows, columns))


def read(stored: Stored, tree: Tree, layout: Layout) -> SetModel:
    """The model, everything checked."""
    n = stored.setting("rows", int)
    ball = np.array(stored.array("ball", dtype="i4", shape=(None,), low=1, high=tree.n_nodes), np.int64)
    if not len(ball) or (np.diff(ball) <= 0).any():
        raise DataError(f"{str(stored.path)!r}: the balls are not in order; the model is damaged.")
    class_nodes = np.array(stored.array("class_nodes", dtype="i4", shape=(None,), low=1, high=tree.n_nodes), np.int64)
    width, balls = layout.words(), len(ball)
    dense = {
        name: np.array(stored.array(f"dense{k}", dtype="f4", shape=(n, columns)))
        for k, (name, columns) in enumerate(zip(layout.dense_names(), layout.dense_widths(), strict=True))
    }
    texts = [_read_matrix(stored, f"text{k}", tree.n_nodes, width) for k in range(stored.setting("texts", int))]
    sets = _read_matrix(stored, "sets", n, balls)
    if not (sets.data == 1).all():
        raise DataError(f"{str(stored.path)!r}: the label sets are not 0 and 1; the model is damaged.")
    hidden = len(stored.array("odds.output", shape=(None,)))
    columns = len(stored.array("odds.linear", shape=(None,)))
    shapes: dict[str, tuple[int, ...]] = {name: (columns,) for name in ("centre", "scale", "linear")}
    shapes |= {"hidden": (hidden, columns), "hidden_bias": (hidden,), "output": (hidden,), "constant": (1,)}
    odds = Odds(*(np.array(stored.array(f"odds.{name}", dtype="f4", shape=shapes[name])) for name in Odds._fields))
    risk_p = stored.array("risk_p", dtype="f8", shape=(None,), low=0, high=1.001)
    rest = stored.setting("rest", (int, float))
    if "trust" in stored:
        trust = np.array(stored.array("trust", dtype="f4", shape=(width,), low=0))
    else:  # written before features were weighed
        trust = np.ones(width, np.float32)
    if "weight" in stored:
        weight = np.array(stored.array("weight", dtype="f4", shape=(n,), low=0))
    else:  # written before rows were added to fitted models
        weight = np.ones(n, np.float32)
    model = SetModel(
        tree,
        ball,
        class_nodes,
        Rows(_read_matrix(stored, "rows", n, width), dense),
        sets,
        weight,
        texts,
        trust,
        _read_matrix(stored, "heads", width, balls),
        np.array(stored.array("offset", dtype="f4", shape=(balls,))),
        odds,
        np.array(stored.array("slope", dtype="f8", shape=(DEPTHS + 1,), low=0)),
        np.array(stored.array("shift", dtype="f8", shape=(DEPTHS + 1,))),
        float(min(max(rest, 0.0), 1.0)),
        np.array(risk_p),
        np.array(stored.array("risk_weight", dtype="f8", shape=risk_p.shape, low=0)),
        stored.setting("risk_rows", int),
    )
    if columns != len(model.names()) or (odds.scale <= 0).any():
        raise DataError(f"{str(stored.path)!r}: the combiner does not belong to this model; fit and save it again.")
    return model
