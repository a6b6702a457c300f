"""A fitted model of label sets as a folder: every expert, the combiner, the repair, and the rows learned from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from vpunn.hipan import store
from vpunn.hipan.experts import Rows
from vpunn.hipan.inputs import LARGEST_WEIGHT
from vpunn.hipan.label_sets import Risk, SetModel
from vpunn.hipan.schema import Matrix, Numbers, Part, Reader, Several, Writer
from vpunn.hipan.set_answers import set_classes
from vpunn.hipan.set_calibration import DEPTHS
from vpunn.hipan.set_combiner import SetCombiner
from vpunn.hipan.set_experts import SetExperts
from vpunn.hipan.set_nodes import Nodes
from vpunn.hipan.set_numbers import NumberExperts
from vpunn.hipan.set_words import Words
from vpunn.store import Draft, Stored

if TYPE_CHECKING:
    from vpunn.hipan.answering import Answering

#: What `parts` of a folder tells of.
PARTS: dict[str, type] = {"words": dict, "numbers": list, "texts": list, "combiner": dict, "rows": list}


def write(model: Answering, draft: Draft) -> None:
    """Put a fitted model of sets into a draft."""
    store.write_front(model, draft)
    sets, writer = model.sets_, Writer(draft)
    told = {
        "words": writer.write("words", sets.experts.words),
        "numbers": writer.write("numbers", sets.experts.numbers),
        "texts": writer.write("texts", sets.experts.texts),
        "combiner": writer.write("combiner", sets.combiner),
        "rows": writer.write("rows", sets.rows.blocks),
    }
    draft.text("parts", json.dumps(told))
    draft.settings |= {"rest": float(sets.rest), "risk_rows": int(sets.risk.rows)}
    draft.settings |= {"training_rows": len(sets.rows), "changed_rows": int(model.changed_rows_)}
    if sets.groups is not None:
        draft.array("row.group", sets.groups.astype(np.int32))
    draft.array("nodes", sets.ball.astype(np.int32))
    draft.array("class_nodes", sets.class_nodes.astype(np.int32))
    draft.array("row.weight", sets.weight.astype(np.float32))
    for name, value in (("slope", sets.slope), ("shift", sets.shift), ("risk.p", sets.risk.p)):
        draft.array(name, np.asarray(value, np.float64))
    draft.array("risk.weight", np.asarray(sets.risk.weight, np.float64))


def read(cls: type[Answering], stored: Stored) -> Answering:
    """The fitted model of sets, everything checked."""
    model, flat = store.read_front(cls, stored)
    tree, layout = model.tree_, model.layout_
    node = np.array(stored.array("nodes", dtype="i4", shape=(None,), low=1, high=tree.n_nodes), np.int64)
    if not len(node) or (np.diff(node) <= 0).any():
        raise stored.damaged("array 'nodes' is not in order")
    weight = stored.array("row.weight", dtype="f4", shape=(None,), low=0, high=2 * LARGEST_WEIGHT)
    told = store.parts_told(stored, PARTS)
    reader = Reader(stored, (), {"rows": len(weight), "nodes": len(node)})
    dense = [n for n, is_dense in zip(layout.columns, layout.dense, strict=True) if is_dense]
    words = reader.of_block({"columns": sum(layout.columns) - sum(dense)})
    blocks = told["rows"]
    if not isinstance(blocks, list) or len(blocks) != len(layout.columns):
        raise stored.damaged("the rows are not those of the blocks")
    rows = tuple(
        reader.of_block({"columns": n}).read(
            f"rows.{i}", t, Numbers("f8", ("rows", "columns")) if is_dense else Matrix("rows", "columns")
        )
        for i, (t, n, is_dense) in enumerate(zip(blocks, layout.columns, layout.dense, strict=True))
    )
    if not isinstance(told["numbers"], list) or len(told["numbers"]) != len(dense):
        raise stored.damaged("the experts of numbers are not those of the blocks")
    of_words = words.read("words", told["words"], Part(Words))
    if not (of_words.truth.data == 1).all():
        raise stored.damaged("the label sets are not 0 and 1")
    numbers = tuple(
        reader.of_block({"columns": n}).read(f"numbers.{i}", t, Part(NumberExperts))
        for i, (t, n) in enumerate(zip(told["numbers"], dense, strict=True))
    )
    texts = words.read("texts", told["texts"], Several((Matrix(tree.n_nodes, "columns"),)))
    experts = SetExperts(Nodes.of(tree, node), of_words, numbers, texts)
    combiner = reader.of_block({"evidence": len(experts.names)}).read("combiner", told["combiner"], Part(SetCombiner))
    p = stored.array("risk.p", dtype="f8", shape=(None,), low=0, high=1.001)
    risk = Risk(
        np.array(p),
        np.array(stored.array("risk.weight", dtype="f8", shape=p.shape, low=0)),
        stored.setting("risk_rows", int),
    )
    rest = stored.setting("rest", (int, float))
    model.sets_ = SetModel(
        tree,
        np.array(stored.array("class_nodes", dtype="i4", shape=(None,), low=1, high=tree.n_nodes), np.int64),
        Rows(rows),
        weight,
        experts,
        combiner,
        np.array(stored.array("slope", dtype="f8", shape=(DEPTHS + 1,), low=0)),
        np.array(stored.array("shift", dtype="f8", shape=(DEPTHS + 1,))),
        float(min(max(rest, 0.0), 1.0)),
        risk,
        stored.array("row.group", dtype="i4", shape=(len(weight),), low=0) if "row.group" in stored else None,
    )
    model.changed_rows_ = max(stored.setting("changed_rows", int), 0)
    set_classes(model, flat)
    return model
