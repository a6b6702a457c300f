"""Why: what linear heads and the combiner made of one row, in terms of the columns of ``X`` and of the names of the evidence.

The heads are one vector per ball. Those of words are fitted so; those of numbers are one per class, w_c, and the ball B has
c_B = mean of w below B - mean of w below its parent, so that the sum along the path is the score of the class again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vpunn.hipan.evidence import names
from vpunn.hipan.experts import Rows, Seen
from vpunn.hipan.heads import Heads
from vpunn.hipan.linear_numbers import LinearNumbers
from vpunn.hipan.nearest import Nearest
from vpunn.hipan.nearest_numbers import NearestNumbers, nearest

if TYPE_CHECKING:
    from vpunn._types import FittedModel


class Heard(NamedTuple):
    """One row as the heads of every block hear it: columns of X that are not nought, their values, and what is constant."""

    columns: list[np.ndarray]
    values: list[np.ndarray]


def row_counts(model: FittedModel) -> np.ndarray:
    """Training rows of every ball: (nodes,)."""
    return np.asarray(model.tree_.subtree_sum(model.rows_at_.astype(np.float64)))


def chain_blocks(model: FittedModel, node: int) -> list[int]:
    """The block of heads of every step to a node: a ball for each node on the way, then the answer itself; 0 where a step has none.

    A ball that holds the same rows as the one above it has nothing to tell.
    """
    grown, tree = model.model_.grown, model.model_.experts.tree
    path = np.asarray(model.tree_.ancestors(node))
    ball = grown.place[path] - (np.asarray(model.tree_.size)[path] > 1)
    steps = [*ball.tolist(), *([int(grown.place[node])] if not model.tree_.is_leaf[node] else [])]
    blocks = tree.of_block[steps].tolist()
    return [b if k == 0 or b != blocks[k - 1] else 0 for k, b in enumerate(blocks)]


def hear(model: FittedModel, rows: Rows) -> Heard:
    """One row, for `head_parts`."""
    first, columns, values = model.layout_.first, [], []
    for i, expert in _linear(model):
        block = rows.blocks[i]
        if isinstance(expert, Heads):
            columns.append(first[i] + block.indices.astype(np.int64))
            values.append(np.asarray(block.data, np.float64))
        else:
            columns.append(first[i] + np.arange(block.shape[1]))
            values.append(expert.reading.read(block)[0])
    return Heard(columns, values)


def head_parts(model: FittedModel, heard: Heard, block: int) -> tuple[dict[int, float], float]:
    """What each of the row's columns adds to the head score of a block, and its constant."""
    found: dict[int, float] = {}
    constant, first = 0.0, model.layout_.first
    for (i, expert), columns, values in zip(_linear(model), heard.columns, heard.values, strict=True):
        if not block:
            continue
        if isinstance(expert, Heads):
            start, of, value = expert.table.arrays
            for column, x in zip(columns.tolist(), values.tolist(), strict=True):
                low, high = start[column - first[i] : column - first[i] + 2]
                at = low + np.flatnonzero(of[low:high] == block)
                if len(at):
                    found[column] = float(value[at[0], 0]) * x
            constant += float(expert.bias[block])
        else:
            weight = _of_ball(expert, block)
            found |= dict(zip(columns.tolist(), (weight[:-1] * values).tolist(), strict=True))
            constant += float(weight[-1])
    return {column: value for column, value in found.items() if value}, constant


def ball_weights(model: FittedModel, block: int) -> np.ndarray:
    """The weights of one block over all columns of X."""
    out, first = np.zeros(model.n_features_in_), model.layout_.first
    for i, expert in _linear(model):
        here = out[first[i] : first[i + 1]]
        if isinstance(expert, Heads):
            start, of, value = expert.table.arrays
            at = np.flatnonzero(of == block)
            here[np.searchsorted(start, at, side="right") - 1] = value[at, 0]
        elif block:
            here[:] = _of_ball(expert, block)[:-1]
    return out


def _of_ball(expert: LinearNumbers, block: int) -> np.ndarray:
    tree = expert.tree

    def mean(b: int) -> np.ndarray:
        low, high = tree.first_leaf[b], tree.first_leaf[b + tree.size[b]]
        return np.asarray(expert.logistic[:, low:high].mean(1))

    return np.asarray(mean(block) - mean(int(tree.parent[block])))


def _linear(model: FittedModel) -> list[tuple[int, Any]]:
    return [(i, e) for i, e in model.model_.experts.experts if isinstance(e, Heads | LinearNumbers)]


def evidence_names(model: FittedModel) -> tuple[list[str], list[str]]:
    """The names of the evidence, and of the block of columns that each comes from ("" for what concerns all)."""
    layout, columns = model.layout_, []
    for k, (i, expert) in enumerate(model.model_.experts.experts):
        prefix = f"{layout.names[i]}: " if k and not layout.single else ""
        columns += [column._replace(name=prefix + column.name) for column in expert.columns]
    named = names(columns)
    plain = [name.removeprefix("elsewhere: ") for name in named]
    blocks = [next((b for b in layout.names if b and name.startswith(f"{b}: ")), "") for name in plain]
    return named, blocks


#: What an expert is called where it speaks.
SPEAKERS = {
    "Prior": "how common it is",
    "Sums": "sums of rows",
    "Nearest": "nearest rows",
    "Heads": "linear heads",
    "Dictionary": "dictionary",
    "Descriptions": "descriptions",
    "Gaussian": "Gaussians",
    "NearestNumbers": "nearest rows",
    "LinearNumbers": "linear heads",
}


def speakers(model: FittedModel) -> dict[str, list[int]]:
    """The columns of evidence that every expert fills, by what it is called; the block stands before it where there are several."""
    layout, fitted = model.layout_, model.model_.experts.experts
    marked = names(
        [column._replace(name=f"<{k}>") for k, (_, expert) in enumerate(fitted) for column in expert.columns]
    )
    found: dict[str, list[int]] = {}
    for k, (i, expert) in enumerate(fitted):
        kind = type(expert).__name__
        prefix = f"{layout.names[i]}: " if k and not layout.single else ""
        mine = [at for at, name in enumerate(marked) if f"<{k}>" in name]
        if mine:
            found[prefix + SPEAKERS.get(kind, kind)] = mine
    return found


def spoke(model: FittedModel, evidence: np.ndarray, groups: list[list[int]]) -> list[float]:
    """How much each group of columns spoke for a slot: the log-odds lost if it had brought what is usual."""
    combiner = model.model_.combiner
    lines = np.repeat(evidence[None], 2 * len(groups), 0).astype(np.float32)
    for g, columns in enumerate(groups):
        lines[2 * g + 1, columns] = combiner.mean[columns]
    p = combiner.probability(lines, 2 * np.arange(len(groups) + 1)).astype(np.float64).reshape(-1, 2)
    return [float(worth) for worth in np.log(np.maximum(p[:, 0], 1e-30) / np.maximum(p[:, 1], 1e-30))]


def slot_of(model: FittedModel, seen: Seen, node: int) -> int:
    """The line of evidence about a node as an answer of the only row; -1 if it was not proposed."""
    place = model.model_.grown.place[node]
    slots = seen.slots[0]
    at = np.flatnonzero(slots[slots >= 0] == place)
    return int(at[0]) if len(at) else -1


def nearest_rows(model: FittedModel, rows: Rows, node: int, k: int) -> list[tuple[int, float]]:
    """Training rows at or below a node that are most like the only row, by the first block that compares rows, and how alike."""
    tree = model.tree_
    for i, expert in model.model_.experts.experts:
        if isinstance(expert, Nearest):
            near = expert.nearest(rows.blocks[i])
            item, alike = near.item[0], near.alike[0]
        elif isinstance(expert, NearestNumbers):
            item, distance = nearest(expert.readings[0].read(rows.blocks[i]), expert.rows[0], 10 * k)
            item, alike = item[0], 1 / (1 + distance[0] / expert.typical[0])
        else:
            continue
        at = model.task_.node[np.maximum(item, 0)]
        here = (item >= 0) & (item < model.task_.n) & (at >= node) & (at < node + tree.size[node])
        return list(zip(item[here][:k].tolist(), np.asarray(alike)[here][:k].tolist(), strict=True))
    return []
