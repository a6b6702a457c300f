"""The fit of the classifier in five steps, and what comes out of it: a model that answers.

1. places     a place for every row, and where an answer may lie without rows
2. folds      groups of rows that leave together
3. evidence   what experts say of rows they have not seen
4. combiner   one soft-max over the slots
5. experts    of all rows, for questions
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from vpunn.placing.combiner import HIDDEN, Combiner
from vpunn.placing.evidence import Sample, names
from vpunn.placing.experts import BATCH, Experts, Rows, Seen
from vpunn.placing.folds import as_asked, equal_rows, folds, joined, refuse_singles
from vpunn.placing.held_out import HeldOut
from vpunn.placing.nearest import Nearest
from vpunn.placing.posterior import Posterior, Spread
from vpunn.placing.sums import Sums
from vpunn.placing.tree_arrays import Grown, Occupied
from vpunn.tree import Tree

#: Classes whose rows a row is rival to.
RIVALS = 8
#: More leaves than this share without rows: questions may belong to them.
EMPTY = 0.01


@dataclass
class Task:
    """What there is to learn from: rows as blocks of columns, the node and the weight of each; those from ``n`` on never leave."""

    tree: Tree
    rows: Rows
    node: np.ndarray
    weight: np.ndarray
    n: int  # rows that may be held out: the others describe nodes
    groups: np.ndarray | None = None
    described: tuple[tuple[Any, ...], ...] = ()


@dataclass
class Model:
    """Everything that answers need."""

    tree: Tree
    grown: Grown
    spread: Spread
    experts: Experts
    combiner: Combiner
    novelty: bool

    def posterior(self, rows: Rows, *, evidence: bool = False) -> Posterior:
        """The distribution of every row."""
        seen = list(self.experts.examine_all(rows)) if len(rows) else []
        return posterior_of(self.tree, self.spread, self.combiner, seen, evidence=evidence)


def posterior_of(
    tree: Tree, spread: Spread, combiner: Combiner, seen: Sequence[Seen], *, evidence: bool = False
) -> Posterior:
    """What the combiner makes of the evidence."""
    width = max((s.slots.shape[1] for s in seen), default=1)
    slots = np.full((sum(len(s.slots) for s in seen), width), -1, np.int32)
    probability, row = np.zeros(slots.shape, np.float32), 0
    for s in seen:
        part = slice(row, row + len(s.slots))
        slots[part, : s.slots.shape[1]] = s.slots
        probability[part][slots[part] >= 0] = combiner.probability(s.evidence, s.start)
        row = part.stop
    return Posterior(tree, spread, slots, probability, seen if evidence else None)


def fit(task: Task, novelty: bool | str, rng: np.random.Generator, hidden: int = HIDDEN) -> tuple[Model, HeldOut]:
    """Learn; also what was held out, by which the model is calibrated."""
    # 1. places
    grown, place, rows_at, expected, share, room = places(task, novelty)
    rivals = find_rivals(task, place, grown)
    # 2. folds
    group = equal_rows([block[: task.n] for block in task.rows.blocks])
    group = group if task.groups is None else joined(group, task.groups)
    held_out = folds(group, place[: task.n], rows_at, expected, rng)
    if not held_out:
        raise refuse_singles()
    # 3. evidence of rows that the experts have not seen
    seen: list[Seen] = []
    for leaving in held_out:
        kept = np.setdiff1d(np.arange(len(place)), leaving, assume_unique=True)
        some = task.rows.take(kept)
        experts = Experts.fit(some, place[kept], task.weight[kept], rivals[kept], grown, room, task.described)
        asked = Rows(tuple(as_asked(b[leaving], k) for b, k in zip(task.rows.blocks, some.blocks, strict=True)))
        seen += experts.examine_all(asked)
        columns = experts.columns
        del experts
    held = HeldOut(seen, np.concatenate(held_out), place, task.weight, grown)
    # 4. combiner
    decides = [i for i, column in enumerate(columns) if column.decides]
    combiner = Combiner.fit(held.evidence(), decides, rng, hidden)
    # 5. experts of all rows
    experts = Experts.fit(task.rows, place, task.weight, rivals, grown, room, task.described)
    assert len(names(experts.columns)) == len(combiner.mean)
    return Model(task.tree, grown, Spread.of(grown, share), experts, combiner, expected), held


class Places(NamedTuple):
    """Where rows lie, and where answers may: the place of every row, rows per place, whether answers may lie where no row does, the
    shares of places in what is elsewhere, and how many places of every block may be the answer."""

    grown: Grown
    place: np.ndarray
    rows_at: np.ndarray
    novelty: bool
    share: np.ndarray
    room: np.ndarray


def places(task: Task, novelty: bool | str) -> Places:
    """O(blocks + rows)."""
    grown = Grown.of(task.tree)
    place = grown.place[task.node]
    rows_at = np.bincount(place, minlength=grown.blocks)
    is_leaf = grown.is_place & ~grown.is_stop
    empty = is_leaf & (rows_at == 0)
    expected = bool(empty.sum() > EMPTY * is_leaf.sum()) if novelty == "auto" else bool(novelty)
    share = empty.astype(np.float64) if expected else rows_at.astype(np.float64)
    room = np.full(grown.blocks, np.inf) if expected else grown.below((rows_at > 0).astype(np.float64))
    return Places(grown, place, rows_at, expected, share, room)


def learned_more(model: Model, task: Task) -> Model:
    """Experts of other rows of the same tree; how they are combined stays as it is."""
    grown, place, _, _, share, room = places(task, model.novelty)
    rivals = find_rivals(task, place, grown)
    experts = Experts.fit(task.rows, place, task.weight, rivals, grown, room, task.described)
    return replace(model, spread=Spread.of(grown, share), experts=experts)


def find_rivals(task: Task, place: np.ndarray, grown: Grown) -> np.ndarray:
    """Places that each row is like, by sums and by items of all rows; for all folds at once, since they only choose examples."""
    has_rows = np.bincount(place, minlength=grown.blocks) > 0
    tree = Occupied.of(grown, has_rows)
    leaf_of = np.full(grown.blocks, -1, np.int32)
    leaf_of[tree.place] = np.arange(len(tree.place))
    leaf, found = leaf_of[place], [np.full((len(place), 1), -1)]
    for block in task.rows.blocks:
        if sp.issparse(block):
            sample = Sample(block, leaf, task.weight, np.full((len(place), 1), -1), tree, grown)
            looks = Sums.fit(sample, {}), Nearest.fit(sample, {})
            parts = []
            for start in range(0, len(place), BATCH * 8):
                rows = block[start : start + BATCH * 8]
                parts.append(np.concatenate([way for e in looks for way in e.look(rows).propose(RIVALS)], 1))
            leaves = np.concatenate(parts)
            found.append(np.where(leaves >= 0, tree.place[leaves], -1))
    return np.concatenate(found, 1)
