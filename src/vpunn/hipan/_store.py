"""What a saved classifier consists of: tree, training rows, weights of balls, combiner, and what takes long to derive from these.

Arrays are kept as the kernels read them and are memory-mapped, so that loading is checking. The derived ones may be missing, as in
folders of older versions; then they are made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from vpunn.errors import DataError, examples
from vpunn.hipan._arrays import Sparse
from vpunn.hipan._balls import MEASURES, MEMORY_ONCE, PARTS, Balls, Items
from vpunn.hipan._cells import Cells
from vpunn.hipan._combiner import LATER, Combiner, anything
from vpunn.hipan._dense import Dense, Space
from vpunn.hipan._directions import is_exact, padded_width
from vpunn.hipan._first import FirstOpinion, first_speakers
from vpunn.hipan._linear import Linear, without_zeros
from vpunn.hipan._measure import HEAVIEST, Measure
from vpunn.hipan._rest import BY_PRIOR
from vpunn.hipan._targets import LARGEST_WEIGHT, refuse_unfitted
from vpunn.hipan._views import LARGEST, Layout
from vpunn.hipan._weights import Heads
from vpunn.hipan._within import WIDE
from vpunn.store import Draft, Stored
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn.hipan._answering import Answering


#: Weights of balls: half-precision numbers (`Heads.rounded`), kept in 32 bits as the kernels read them. Older folders have 16.
_HEADS = {"weight": "head.weight", "bias": "head.bias", "branch": "branch.weight"}
#: Weights of the linear heads, by feature, and constants. Older folders have all of them, zeros too, in one array.
_LINEAR = "linear.start", "linear.class", "linear.value", "linear.constant"
#: What AdaGrad remembers, so that a loaded model learns on as the saved one would have.
_ENERGY = {"energy": "head.energy", "bias_energy": "head.bias_energy"}

#: What follows from the rows but takes long: `Balls.derived`. Older folders have the first three only.
_DERIVED = {"feature_start": "head.feature_start", "entry_block": "head.block", "entry_sum": "head.sum"}
_DERIVED |= {name: f"ball.{name}" for name in MEASURES}
_DERIVED |= {f"{matrix}.{part}": f"{matrix}.{part}" for matrix in ("nearest", "dictionary") for part in PARTS}
_OF_BALLS = {"entry_sum", "norm2", "seen", "news"}


def write(model: Answering, draft: Draft) -> None:
    """Put a fitted classifier into a draft."""
    if not hasattr(model, "balls_"):
        refuse_unfitted(model)
    balls, items = model.balls_, model.balls_.items
    draft.params(model)
    draft.settings |= {"flat": model.flat_, "n_features": int(model.n_features_in_), "rows": len(items.node)}
    draft.add("tree", model.tree_)
    if model.flat_:
        draft.labels("classes", model.classes_)
    draft.array("rows.data", items.X.data.astype(np.float16), balls=True)  # a row is remembered at its node
    draft.array("rows.indices", items.X.indices.astype(np.int32))
    draft.array("rows.indptr", items.X.indptr.astype(np.int64))
    draft.array("rows.node", items.node.astype(np.int32))
    draft.array("rows.weight", items.weight.astype(np.float32), balls=True)
    draft.array("rows.kind", items.kind.astype(np.int8))
    for name, values in balls.derived().items():
        draft.array(_DERIVED[name], values, balls=name in _OF_BALLS)
    for name, stored in _HEADS.items():
        draft.array(stored, getattr(model.heads_, name), balls=True)
    for name, stored in _ENERGY.items():
        draft.array(stored, getattr(model.heads_, name), balls=True)
    for name, value in model.combiner_._asdict().items():
        draft.array(f"combiner.{name}", value)
    draft.settings["evidence"] = list(model.experts_.names())
    draft.array("miss_scores", model.miss_scores_)
    if model.alone_ is not None and model.alone_.any():
        draft.array("alone.node", np.flatnonzero(model.alone_))
        draft.array("alone.count", model.alone_[model.alone_ > 0], balls=True)
    draft.settings |= {"remembers": int(balls.remembers), "by_likelihood": bool(balls.by_likelihood)}
    draft.settings["asked_by_code"] = model.by_code_
    if model.first_ is not None and model.first_.speaks(model.experts_):  # not of classes that have grown since
        draft.settings["first"] = {name: getattr(model.first_, name) for name in ("block", "sure", "memory", "near")}
        draft.array("first.weight", model.first_.weight)
    write_layout(model.layout_, draft)
    draft.settings["linear_cost"] = float(model.linear_.cost)
    draft.array("linear.classes", model.linear_.classes.astype(np.int32))
    for name, values in zip(_LINEAR, (*model.linear_.weight, model.linear_.constant), strict=True):
        draft.array(name, values, balls=values.dtype == np.float32)
    for number, block in enumerate(model.dense_.values()):
        draft.part(f"dense{number}", _dense_draft(block))
    if model.measure_ is not None:
        draft.settings["measure_proposes"] = model.measure_.proposes
        draft.array("measure.weight", model.measure_.weight)
        draft.array("measure.numbers", model.measure_.numbers, balls=True)
    if hasattr(model, "feature_names_in_"):
        draft.labels("feature_names", model.feature_names_in_)


def read(cls: type[Answering], stored: Stored) -> Answering:
    """The fitted classifier, everything checked."""
    tree = stored.get("tree", Tree)
    flat, total = stored.setting("flat", bool), stored.setting("n_features", int)
    layout = layout_of(stored, total)
    width = layout.words()
    model = cls(None if flat else tree, **stored.params(cls))
    model.tree_, model.n_features_in_, model.layout_ = tree, total, layout
    if "feature_names" in stored:
        model.feature_names_in_ = stored.labels("feature_names", total)
    model._check_params()
    # First, because everything built below has a place for each feature: a folder cannot claim more of them than it holds.
    start = stored.array("head.feature_start", dtype="i8", shape=(width + 1,), low=0, monotone=True)
    items = _items(stored, tree, width)
    remembers = stored.setting("remembers", int) if "remembers" in stored.settings else MEMORY_ONCE
    if not 0 < remembers <= MEMORY_ONCE:
        raise DataError(f"{str(stored.path)!r}: setting 'remembers' is {remembers!r}.")
    if all(name in stored for name in _DERIVED.values()):
        made = _derived(stored, start, 2 * tree.n_nodes, len(items.node))
        model.balls_ = balls = Balls(tree, items, made, remembers)
    else:
        model.balls_ = balls = Balls(tree, items, remembers=remembers)
        block = stored.array("head.block", dtype="i4", shape=(None,), low=0, high=2 * tree.n_nodes)
        if not np.array_equal(start, balls.feature_start) or not np.array_equal(block, balls.entry_block):
            raise DataError(f"{str(stored.path)!r}: the weights do not belong to these rows; fit and save them again.")
        balls.complete()  # here: several threads that ask would each make it
    if "by_likelihood" in stored.settings:  # as none did in older folders
        balls.by_likelihood = stored.setting("by_likelihood", bool)
    model.heads_ = _heads(stored, balls)
    model.linear_ = _linear(stored, balls)
    model.dense_ = {
        name: _dense(stored.part(f"dense{number}", "Dense"), name, tree, columns)
        for number, (name, columns) in enumerate(zip(layout.dense_names(), layout.dense_widths(), strict=True))
    }
    model.measure_ = _measure(stored, balls, layout)
    model.combiner_ = _combiner(stored, model.experts_.names())
    model.first_ = _first(stored, model)
    model.alone_ = _alone(stored, tree)
    model.by_code_ = "asked_by_code" in stored.settings and stored.setting("asked_by_code", bool)
    model._set_classes(stored.labels("classes", tree.n_nodes - 1) if flat else None)
    model.miss_scores_ = stored.array("miss_scores", dtype="f8", shape=(None,), low=0, high=1.001)
    return model


def _alone(stored: Stored, tree: Tree) -> np.ndarray | None:
    """How many rows of each node share no feature with any other; older folders do not say."""
    if "alone.node" not in stored:
        return None
    node = stored.array("alone.node", dtype="i8", shape=(None,), low=0, high=tree.n_nodes)
    count = stored.array("alone.count", dtype="f8", shape=(len(node),), low=0, high=1e18)
    return np.bincount(node, count, tree.n_nodes)


def _measure(stored: Stored, balls: Balls, layout: Layout) -> Measure | None:
    """The learned measure, if the folder has one: a weight of the words and of every column of the narrow blocks."""
    if "measure.weight" not in stored:
        return None
    columns = sum(width for width in layout.dense_widths() if width < WIDE)
    weight = stored.array("measure.weight", dtype="f4", shape=(1 + columns,), low=0, high=HEAVIEST)
    shape = len(balls.items.node), columns
    numbers = stored.array("measure.numbers", dtype="f4", shape=shape, low=-1.001 * LARGEST, high=1.001 * LARGEST)
    return Measure(balls.tree, balls, numbers, weight, stored.setting("measure_proposes", bool))


def _first(stored: Stored, model: Answering) -> FirstOpinion | None:
    """The first opinion, if the folder has one, of an expert that is there."""
    if "first" not in stored.settings:
        return None
    about = stored.setting("first", dict)
    block, sure, memory = about.get("block"), about.get("sure"), about.get("memory", False)
    near = about.get("near", 0.0)  # none in older folders
    known = isinstance(memory, bool) and (block, memory) in first_speakers(model.experts_)
    if not known or any(not isinstance(least, float) or not 0 <= least < np.inf for least in (sure, near)):
        raise DataError(f"{str(stored.path)!r}: setting 'first' is {about!r}.")
    weight = stored.array("first.weight", dtype="f8", shape=(3,), low=-1e6, high=1e6)
    return FirstOpinion(block, sure, weight, memory, near)


def write_layout(layout: Layout, draft: Draft) -> None:
    """Put what `layout_of` reads into a draft."""
    draft.settings["blocks"] = [list(row) for row in zip(layout.names, layout.dense, layout.columns, strict=True)]
    draft.settings["silent"] = list(layout.silent)
    for number, scale in enumerate(layout.scales):
        draft.array(f"scale{number}", scale[:2])
        if scale[3].any():
            draft.array(f"bend{number}", scale[2:])
    for number, columns in enumerate(layout.apart):
        draft.array(f"apart{number}", columns)


def _heads(stored: Stored, balls: Balls) -> Heads:
    """Weights, biases and energies, of the shapes that the balls ask for."""
    blocks, branches = 2 * balls.tree.n_nodes, (balls.items.X.shape[1] + 1, int(balls.branch_of.max()))
    shapes = {"weight": (balls.n_entries,), "bias": (blocks,), "branch": branches}
    read = {}
    for name, shape in shapes.items():
        values = stored.array(
            _HEADS[name], dtype="f", shape=shape, low=-65504, high=65505
        )  # the range of half precision
        if values.dtype.itemsize > 4:
            raise DataError(f"{str(stored.path)!r}: array {_HEADS[name]!r} holds {values.dtype}, not float32.")
        read[name] = values.astype(np.float32, copy=False)
    energy, bias_energy = (
        stored.array(_ENERGY[name], dtype="u2", shape=(size,), low=1, high=0x7F80)
        for name, size in (("energy", balls.n_entries), ("bias_energy", blocks))
    )  # from the least positive number to the largest finite one
    return Heads(read["weight"], read["bias"], energy, bias_energy, read["branch"])


def _derived(stored: Stored, start: np.ndarray, n_blocks: int, rows: int) -> dict[str, np.ndarray]:
    """`Balls.derived`: every place is within its array, every number finite. Blocks rise within a feature, as kernels rely on."""
    width, count = len(start) - 1, int(start[-1])
    block = stored.array("head.block", dtype="i4", shape=(count,), low=0, high=n_blocks)
    _check_rising(stored, start, block, "the blocks of a feature")
    found = {"feature_start": start, "entry_block": block}
    found["entry_sum"] = stored.array("head.sum", dtype="f4", shape=(count,))
    for name in MEASURES:
        size = width if name == "background" else n_blocks
        found[name] = stored.array(_DERIVED[name], dtype="f4", shape=(size,))
    for matrix, most, reach in (("nearest", rows, 1.001), ("dictionary", width, 1.01)):
        indptr = stored.array(f"{matrix}.indptr", dtype="iu", shape=(width + 1,), low=0, monotone=True)
        if indptr[0] != 0:
            raise DataError(f"{str(stored.path)!r}: array '{matrix}.indptr' does not start at 0; the model is damaged.")
        inside = int(indptr[-1])
        found[f"{matrix}.indptr"] = indptr
        found[f"{matrix}.indices"] = stored.array(f"{matrix}.indices", dtype="i4", shape=(inside,), low=0, high=most)
        found[f"{matrix}.data"] = stored.array(f"{matrix}.data", dtype="f4", shape=(inside,), low=-reach, high=reach)
    return found


def _check_rising(stored: Stored, start: np.ndarray, values: np.ndarray, what: str) -> None:
    """Values rise strictly from each start to the next, and the starts begin at 0."""
    rising = np.empty(len(values) + 1, bool)
    np.greater(values[1:], values[:-1], out=rising[1:-1])
    rising[start] = True  # the first of a part may be anything
    if start[0] != 0 or not rising.all():
        raise DataError(f"{str(stored.path)!r}: {what} are not in order; the model is damaged.")


def layout_of(stored: Stored, total: int) -> Layout:
    """Names, kinds and widths of the blocks, which must make up all columns."""
    rows = stored.setting("blocks", list)
    try:
        names, dense, columns = zip(*((str(name), bool(kind), int(width)) for name, kind, width in rows), strict=True)
    except (TypeError, ValueError) as error:
        raise DataError(f"{str(stored.path)!r}: the blocks of features are not as they should be.") from error
    if min(columns) < 0 or sum(columns) != total:
        raise DataError(f"{str(stored.path)!r}: the blocks of features do not make up {total:,} columns.")
    words = [width for width, is_dense in zip(columns, dense, strict=True) if not is_dense]
    layout = Layout(names, dense, columns, (), apart=tuple(_apart(stored, k, width) for k, width in enumerate(words)))
    silent = stored.setting("silent", list) if "silent" in stored.settings else []  # older folders have none
    if not set(silent) <= set(layout.numbers()):
        raise DataError(f"{str(stored.path)!r}: blocks {examples(silent)} are not among those of the model.")
    widths = layout.dense_widths()
    scales = [_scale(stored, k, width) for k, width in enumerate(widths)]
    return replace(layout, scales=tuple(scales), silent=tuple(silent))


def _scale(stored: Stored, number: int, width: int) -> np.ndarray:
    """How the columns of a dense block are read (`column_scales`); in older folders none is bent."""
    scale, bend = stored.array(f"scale{number}", dtype="f8", shape=(2, width)), np.zeros((2, width))
    if f"bend{number}" in stored:
        bend = stored.array(f"bend{number}", dtype="f8", shape=(2, width))
    if (scale[1] <= 0).any() or (bend[1] < 0).any():
        raise DataError(f"{str(stored.path)!r}: the spread of a column is not above 0; the model is damaged.")
    return np.concatenate([scale, bend])


def _apart(stored: Stored, number: int, width: int) -> np.ndarray:
    """Columns of a block of words that are numbers; older folders read all as words."""
    if f"apart{number}" not in stored:
        return np.zeros(0, np.int64)
    columns = stored.array(f"apart{number}", dtype="i8", shape=(None,), low=0, high=width)
    if (np.diff(columns) <= 0).any():
        raise DataError(f"{str(stored.path)!r}: the columns of numbers are not in order; the model is damaged.")
    return columns


def _dense_draft(block: Dense) -> Draft:
    """A dense block: its rows, how they are read, and the trained head; all else is rebuilt from these."""
    assert block.space is not None and block.head is not None
    settings: dict[str, object] = {"proposes": block.proposes, "usual": block.space.usual}
    settings |= {"penalty": block.penalty, "own_length": block.own_length}
    settings |= {"is_local": block.is_local, "is_placed": block.is_placed, "is_plain": block.is_plain}
    draft = Draft("Dense", settings)
    draft.array("rows", block.items.X)
    draft.array("node", block.items.node.astype(np.int32))
    draft.array("weight", block.items.weight.astype(np.float32))
    draft.array("kind", block.items.kind.astype(np.int8))
    for name in ("centre", "scale", "turn", "pull", "metric"):
        draft.array(name, getattr(block.space, name))
    draft.array("head", block.head, balls=True)
    if block.cells is not None:
        draft.array("cells.centre", block.cells.centre)
        draft.array("cells.item", block.cells.of_item)
    return draft


def _dense(stored: Stored, name: str, tree: Tree, width: int) -> Dense:
    """A dense block, everything checked."""
    node = stored.array("node", dtype="i4", shape=(None,), low=0, high=tree.n_nodes)
    rows = stored.array("rows", dtype="f4", shape=(len(node), width))
    weight = stored.array("weight", dtype="f4", shape=(len(node),), low=0)
    kind = stored.array("kind", dtype="i1", shape=(len(node),), low=0)
    centre, scale = (stored.array(part, dtype="f4", shape=(width,)) for part in ("centre", "scale"))
    turn = stored.array("turn", dtype="f4", shape=(width, None))
    head = stored.array("head", dtype="f4", shape=(turn.shape[1] + 1, None))
    if head.shape[1] not in (0, len(np.unique(node))):
        raise DataError(f"{str(stored.path)!r}: the head of block {name!r} does not belong to its rows.")
    proposes = stored.setting("proposes", bool)
    space = Space(centre, scale, turn, *_axes(stored, turn.shape[1]))
    penalty = stored.settings.get("penalty")  # none in older folders, nor where classes are many
    if penalty is not None and not (isinstance(penalty, float) and 0 < penalty < np.inf):
        raise DataError(f"{str(stored.path)!r}: setting 'penalty' is {penalty!r}.")
    own_length = stored.setting("own_length", bool) if "own_length" in stored.settings else True  # in older folders
    is_local = stored.setting("is_local", bool) if "is_local" in stored.settings else False  # in older folders
    cells = _cells(stored, len(node), turn.shape[1])
    items, in_cells = Items(rows, node, weight, kind), cells is not None
    is_placed = stored.setting("is_placed", bool) if "is_placed" in stored.settings else False  # in older folders
    is_plain = stored.setting("is_plain", bool) if "is_plain" in stored.settings else False  # in older folders
    read = (proposes, cells, in_cells, penalty, own_length, is_local, is_placed, is_plain)
    return Dense(name, tree, items, space, head, *read)


def _cells(stored: Stored, items: int, width: int) -> Cells | None:
    """The cells of a block's items; None where it was fitted without, as older ones and those of few items were."""
    if "cells.centre" not in stored:
        return None
    centre = stored.array("cells.centre", dtype="f4", shape=(None, padded_width(width)), low=-1, high=1.001)
    if not len(centre) or not is_exact(centre):
        raise DataError(f"{str(stored.path)!r}: the centres of cells are no rounded directions; the model is damaged.")
    of_item = stored.array("cells.item", dtype="i4", shape=(items,), low=0, high=len(centre))
    return Cells(np.asarray(centre), np.asarray(of_item))


def _axes(stored: Stored, width: int) -> tuple[np.ndarray, np.ndarray, float]:
    """What the closed-form head takes along each axis; in older folders all axes are alike and rows have their own length."""
    if "pull" not in stored:
        return np.ones(width, np.float32), np.ones(width, np.float32), 0.0
    pull, metric = (stored.array(part, dtype="f4", shape=(width,), low=0) for part in ("pull", "metric"))
    usual = stored.setting("usual", float)
    if not 0 <= usual < np.inf:
        raise DataError(f"{str(stored.path)!r}: setting 'usual' is {usual!r}.")
    return pull, metric, usual


def _linear(stored: Stored, balls: Balls) -> Linear:
    """The linear heads: of the classes of the rows, or of none (what the combiner reads tells which)."""
    classes = stored.array("linear.classes", dtype="i4", shape=(None,))
    if len(classes) and not np.array_equal(classes, balls.classes):
        raise DataError(f"{str(stored.path)!r}: the linear heads do not belong to these rows.")
    weight, constant = _linear_weights(stored, balls.items.X.shape[1], len(classes))
    cost = stored.setting("linear_cost", float)
    if not 0 < cost < np.inf:
        raise DataError(f"{str(stored.path)!r}: setting 'linear_cost' is {cost!r}.")
    return Linear(classes, weight, constant, cost)


def _linear_weights(stored: Stored, width: int, n_classes: int) -> tuple[Sparse, np.ndarray]:
    """Weights by feature, and constants."""
    if "linear.weight" in stored:  # an older folder
        whole = stored.array("linear.weight", dtype="f2", shape=(width + 1, n_classes))
        return without_zeros(whole.astype(np.float32))
    start = stored.array(_LINEAR[0], dtype="i8", shape=(width + 1,), low=0, monotone=True)
    count = int(start[-1])
    which = stored.array(_LINEAR[1], dtype="u", shape=(count,), high=n_classes)
    if start[0] != 0:
        raise DataError(
            f"{str(stored.path)!r}: the weights of the linear heads do not begin at 0; the model is damaged."
        )
    value, constant = (
        stored.array(name, dtype="f4", shape=(size,), low=-65504, high=65505)  # the range of half precision
        for name, size in ((_LINEAR[2], count), (_LINEAR[3], n_classes))
    )
    return Sparse(start, which, value), constant


def _items(stored: Stored, tree: Tree, width: int) -> Items:
    """The training rows: their pointers, features and nodes are in range before any kernel sees them."""
    node = stored.array("rows.node", dtype="i4", shape=(None,), low=0, high=tree.n_nodes)
    n = len(node)
    indptr = stored.array("rows.indptr", dtype="i8", shape=(n + 1,), low=0, monotone=True)
    count = int(indptr[-1])
    indices = stored.array("rows.indices", dtype="i4", shape=(count,), low=0, high=width)
    _check_rising(stored, indptr, indices, "the features of a row")
    data = stored.array("rows.data", dtype="f2", shape=(count,), finite=False).astype(np.float32)
    least, most = float(data.min(initial=0)), float(data.max(initial=0))
    if not -1.001 <= least <= most <= 1.001:  # unit rows
        holds = (
            "values that are not finite" if not np.isfinite([least, most]).all() else f"{least} to {most}, not -1 to 1"
        )
        raise DataError(f"{str(stored.path)!r}: array 'rows.data' holds {holds}; the model is damaged.")
    weight = stored.array("rows.weight", dtype="f4", shape=(n,), low=0, high=1.001 * LARGEST_WEIGHT)
    kind = stored.array("rows.kind", dtype="i1", shape=(n,), low=0)
    X = sparse.csr_matrix((data, indices, indptr.astype(np.int32) if count < 2**31 else indptr), shape=(n, width))
    return Items(X, node, weight, kind)


def _combiner(stored: Stored, names: Sequence[str]) -> Combiner:
    """The combiner, which may have learned from some of the evidence only: folders that do not list it are older than `LATER`."""
    known = [name for name in names if name not in LATER]
    if "evidence" in stored.settings:
        known = stored.setting("evidence", list)
    place = {name: k for k, name in enumerate(names)}
    if len(set(map(str, known))) < len(known) or any(name not in place for name in map(str, known)):
        raise DataError(
            f"{str(stored.path)!r}: the combiner reads evidence that this version does not know; fit and save the model again."
        )
    found = _learned(stored, len(known))
    return found if len(known) == len(names) else found.reading([place[name] for name in known], len(names))


def _learned(stored: Stored, width: int) -> Combiner:
    hidden = len(stored.array("combiner.output", shape=(None,)))
    shapes: dict[str, tuple[int, ...]] = {name: (width,) for name in ("centre", "scale", "linear")}
    shapes |= {"hidden": (hidden, width), "hidden_bias": (hidden,), "output": (hidden,), "sharpness": ()}
    shapes["ring_weights"] = BY_PRIOR.shape
    wide = ("sharpness", "ring_weights")  # the others are what the kernel was compiled for
    ranges: dict[str, dict[str, Any]] = {
        "scale": {"low": 1e-7},
        "sharpness": {"low": 0, "high": 1000},
    }  # the latter is chosen from 0 to 12
    found = {
        name: stored.array(
            f"combiner.{name}", dtype="f8" if name in wide else "f4", shape=shapes[name], **ranges.get(name, {})
        )
        for name in shapes
    }
    least, most = anything(width)  # as older folders say nothing of it
    if "combiner.least" in stored:
        least, most = (stored.array(f"combiner.{name}", dtype="f4", shape=(width,)) for name in ("least", "most"))
    if not (least <= most).all():
        raise DataError(f"{str(stored.path)!r}: the combiner's least evidence is above the most; the model is damaged.")
    return Combiner(least=least, most=most, **found)
