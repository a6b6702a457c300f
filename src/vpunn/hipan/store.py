"""A fitted classifier as a folder: parameters, tree, blocks of columns, every expert, the combiner and the rows learned from.

Arrays stand there as the loops read them and are memory-mapped, so that loading is checking, and a loaded model answers with the
same bits. What follows from the tree is made again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from vpunn.errors import DataError, VpunnError
from vpunn.hipan import experts as rooms
from vpunn.hipan import set_store
from vpunn.hipan.combiner import Combiner
from vpunn.hipan.descriptions import Descriptions
from vpunn.hipan.engine import Model, Task
from vpunn.hipan.evidence import names
from vpunn.hipan.experts import Experts, Rows
from vpunn.hipan.holding import counts
from vpunn.hipan.inputs import LARGEST_WEIGHT
from vpunn.hipan.layout import Layout
from vpunn.hipan.posterior import Spread
from vpunn.hipan.prior import Prior
from vpunn.hipan.schema import Matrix, Numbers, Part, Reader, Writer
from vpunn.hipan.tree_arrays import Grown, Occupied
from vpunn.store import Draft, Stored
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn.hipan.answering import Answering

#: 3: the classifier of slots and tables.
FORMAT = 3


def write(model: Answering, draft: Draft) -> None:
    """Put a fitted classifier into a draft."""
    if model.multilabel_:
        return set_store.write(model, draft)
    if own := rooms.own_of(None if model.experts is None else tuple(model.experts)):
        raise VpunnError(
            f"a model with {type(own[0]).__name__} among its experts cannot be saved: of a classifier of scikit-learn only pickle "
            "keeps what it learned; leave it out of experts."
        )
    write_front(model, draft)
    made, task = model.model_, model.task_
    writer = Writer(draft)
    draft.array("places", made.experts.tree.place)
    draft.array("share", made.spread.share, balls=True)
    draft.array("room", made.experts.room)
    if made.ratio is not None:
        draft.array("ratio", made.ratio)
    draft.settings["novel"] = bool(made.novelty)
    told = {
        "experts": [
            [block, type(expert).__name__, writer.write(f"expert.{i}", expert)]
            for i, (block, expert) in enumerate(made.experts.experts)
        ],
        "combiner": writer.write("combiner", made.combiner),
        "rows": [] if task is None else [writer.write(f"row.{i}", block) for i, block in enumerate(task.rows.blocks)],
    }
    draft.text("parts", json.dumps(told))
    draft.settings["experts"] = [type(expert).__name__ for _, expert in made.experts.experts]
    draft.settings |= {
        "training_rows": int(model.rows_at_.sum()),
        "described_rows": 0 if task is None else len(task.node) - task.n,
        "held_out_exact": float(model.held_out_exact_),
        "changed_rows": int(model.changed_rows_),
    }
    draft.array("miss_scores", model.miss_scores_)
    if task is None:
        draft.array("rows_at", model.rows_at_.astype(np.int32))
        return
    draft.array("row.node", task.node.astype(np.int32))
    draft.array("row.weight", task.weight.astype(np.float32))
    if task.groups is not None:
        draft.array("row.group", task.groups.astype(np.int32))


def write_front(model: Answering, draft: Draft) -> None:
    """What every model has: parameters, the tree, blocks of columns, and names."""
    draft.params(model, skip=("tree", "class_prior"))
    prior = model.class_prior
    draft.settings["class_prior"] = prior if isinstance(prior, str) else np.asarray(prior, np.float64).tolist()
    draft.settings |= {"flat": model.flat_, "n_features": int(model.n_features_in_)}
    draft.settings["multilabel"] = bool(model.multilabel_)
    model.layout_.write(draft)
    draft.add("tree", model.tree_)
    if model.flat_:
        draft.labels("classes", model.classes_)
    if hasattr(model, "feature_names_in_"):
        draft.labels("feature_names", model.feature_names_in_)


def read_front(cls: type[Answering], stored: Stored) -> tuple[Answering, np.ndarray | None]:
    """The model as far as `write_front` has written it, and the labels of flat classes."""
    if stored.format < FORMAT:
        raise DataError(
            f"{str(stored.path)!r} holds a HiPaNClassifier of format {stored.format} (vpunn {stored.version}), which answered by "
            "other rules; fit it again and save it."
        )
    tree, flat = stored.get("tree", Tree), stored.setting("flat", bool)
    model = cls(None if flat else tree, **stored.params(cls))
    model.class_prior = stored.setting("class_prior", (str, list))
    model._check_params()
    model.tree_, model.multilabel_ = tree, stored.setting("multilabel", bool)
    model.layout_ = Layout.stored(stored)
    model.n_features_in_ = stored.setting("n_features", int)
    if sum(model.layout_.columns) != model.n_features_in_:
        raise stored.damaged(f"the blocks of columns do not make up {model.n_features_in_:,}")
    if "feature_names" in stored:
        model.feature_names_in_ = stored.labels("feature_names", model.n_features_in_)
    return model, stored.labels("classes", tree.n_nodes - 1) if flat else None


def read(cls: type[Answering], stored: Stored) -> Answering:
    """The fitted classifier, everything checked."""
    if stored.settings.get("multilabel") is True:
        return set_store.read(cls, stored)
    model, flat = read_front(cls, stored)
    layout, tree = model.layout_, model.tree_
    grown = Grown.of(tree)
    place = stored.array("places", dtype="i4", shape=(None,), low=0, high=grown.blocks, monotone=True)
    if not len(place) or not grown.is_place[place].all() or (np.diff(place) == 0).any():
        raise stored.damaged("array 'places' does not hold places of the tree")
    has = np.zeros(grown.blocks, bool)
    has[place] = True
    occupied = Occupied.of(grown, has)
    reader = Reader(
        stored,
        (grown, occupied),
        {"blocks": occupied.blocks, "leaves": len(occupied.leaf), "nodes": tree.n_nodes},
    )
    told = parts_told(stored, {"experts": list, "combiner": dict, "rows": list})
    readers = [reader.of_block({"columns": width}) for width in layout.columns]
    experts = [_expert(part, i, layout, readers, stored) for i, part in enumerate(told["experts"])]
    room = stored.array("room", dtype="f8", shape=(grown.blocks,), low=0, finite=False)
    made = Experts(experts, occupied, grown, room)
    lengths = {"evidence": len(names(made.columns))}
    combiner = reader.of_block(lengths).read("combiner", told["combiner"], Part(Combiner))
    share = stored.array("share", dtype="f8", shape=(grown.blocks,), low=0)
    novelty = stored.setting("novel", bool)
    ratio = stored.array("ratio", dtype="f4", shape=(grown.blocks,), low=0) if "ratio" in stored else None
    model.model_ = Model(tree, grown, Spread.of(grown, share), made, combiner, novelty, ratio)
    if told["rows"] or "row.node" in stored:
        model.task_ = _task(stored, told["rows"], model, readers)
        model.rows_at_ = counts(model.task_)
    else:
        model.task_ = None
        model.rows_at_ = stored.array("rows_at", dtype="i4", shape=(tree.n_nodes,), low=0)
    model._set_classes(flat)
    model.held_out_exact_ = float(min(max(stored.setting("held_out_exact", (int, float)), 0.0), 1.0))
    model.changed_rows_ = max(stored.setting("changed_rows", int), 0)
    model.miss_scores_ = stored.array("miss_scores", dtype="f8", shape=(None,), low=0, high=1.001)
    return model


def _expert(told: Any, i: int, layout: Layout, readers: list[Reader], stored: Stored) -> tuple[int, Any]:
    """One expert and the block that it reads."""
    if not isinstance(told, list) or len(told) != 3 or type(told[0]) is not int or not 0 <= told[0] < len(readers):
        raise stored.damaged(f"expert {i} is {told!r}")
    block, name, fields = told
    known = {kind.__name__: kind for kind in (Prior, *(rooms.NUMBERS if layout.dense[block] else rooms.WORDS))}
    if name not in known:
        raise stored.damaged(f"expert {i} is a {name!r}")
    return block, readers[block].read(f"expert.{i}", fields, Part(known[name]))


def parts_told(stored: Stored, kinds: dict[str, type]) -> dict[str, Any]:
    """How the parts hang together."""
    try:
        told = json.loads(stored.text("parts"))
    except ValueError as error:
        raise stored.damaged(f"'parts' is no JSON ({error})") from None
    if not isinstance(told, dict) or any(not isinstance(told.get(name), kind) for name, kind in kinds.items()):
        raise stored.damaged("'parts' does not say what the model consists of")
    return told


def _task(stored: Stored, told: list[Any], model: Answering, readers: list[Reader]) -> Task:
    """The rows that were learned from."""
    layout, tree = model.layout_, model.tree_
    if len(told) != len(readers):
        raise stored.damaged("the rows are not those of the blocks")
    node = stored.array("row.node", dtype="i4", shape=(None,), low=0, high=tree.n_nodes)
    weight = stored.array("row.weight", dtype="f4", shape=(len(node),), low=0, high=2 * LARGEST_WEIGHT)
    blocks = tuple(
        reader.of_block({"rows": len(node)}).read(
            f"row.{i}", t, Numbers("f8", ("rows", "columns")) if dense else Matrix("rows", "columns")
        )
        for i, (reader, t, dense) in enumerate(zip(readers, told, layout.dense, strict=True))
    )
    more = stored.setting("described_rows", int)
    if not 0 <= more < max(len(node), 1):
        raise stored.damaged(f"{more} rows are said to describe nodes")
    kinds: list[tuple[sparse.csr_matrix, ...]] = [()] * len(blocks)
    for block, expert in model.model_.experts.experts:
        if isinstance(expert, Descriptions):
            kinds[block] = expert.kinds
    described = tuple(kinds) if any(kinds) else ()
    n = len(node) - more
    groups = stored.array("row.group", dtype="i4", shape=(n,), low=0) if "row.group" in stored else None
    chosen = None if model.experts is None else tuple(model.experts)
    return Task(tree, Rows(blocks), node, weight, n, groups, described, chosen)
