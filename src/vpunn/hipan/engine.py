"""The fit of the classifier in five steps, and what comes out of it: a model that answers.

1. places     a place for every row, and where an answer may lie without rows
2. folds      groups of rows that leave together
3. evidence   what experts say of rows they have not seen
4. experts    of all rows, for questions
5. combiner   one soft-max over the slots
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from vpunn._progress import reached
from vpunn.hipan.combiner import HIDDEN, Combiner
from vpunn.hipan.evidence import Sample, names, usual
from vpunn.hipan.experts import BATCH, Experts, Rows, Seen
from vpunn.hipan.folds import as_asked, equal_rows, folds, joined
from vpunn.hipan.held_out import HeldOut
from vpunn.hipan.nearest import Nearest
from vpunn.hipan.posterior import Posterior, Spread
from vpunn.hipan.sums import Sums
from vpunn.hipan.tree_arrays import Grown, Occupied, Places
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
    experts: tuple[Any, ...] | None = None  # names and classifiers; None: all


@dataclass
class Model:
    """Everything that answers need."""

    tree: Tree
    grown: Grown
    spread: Spread
    experts: Experts
    combiner: Combiner
    novelty: bool
    #: How much oftener than training rows questions belong to each block; None: as often.
    ratio: np.ndarray | None = None

    def posterior(self, rows: Rows, *, evidence: bool = False) -> Posterior:
        """The distribution of every row."""
        return self.posterior_of(self.judged(seen, evidence) for seen in self.experts.examine_all(rows))

    def judged(self, seen: Seen, evidence: bool = False) -> Judged:
        """What the combiner makes of the evidence about some rows, which is not kept unless it is asked for."""
        probability = np.zeros(seen.slots.shape, np.float32)
        probability[seen.slots >= 0] = self.combiner.probability(seen.evidence, seen.start)
        if self.ratio is not None:
            probability *= self.ratio[seen.slots]
            probability /= np.maximum(np.cumsum(probability, 1)[:, -1:], np.float32(1e-30))
        return Judged(seen.slots, probability, seen if evidence else None)

    def posterior_of(self, judged: Iterable[Judged]) -> Posterior:
        """The distributions of all rows, from those of some at a time."""
        parts = list(judged)
        rows, width = sum(len(j.slots) for j in parts), max((j.slots.shape[1] for j in parts), default=1)
        slots, probability, row = np.full((rows, width), -1, np.int32), np.zeros((rows, width), np.float32), 0
        for j in parts:
            part = slice(row, row + len(j.slots)), slice(0, j.slots.shape[1])
            slots[part], probability[part], row = j.slots, j.probability, part[0].stop
        kept = [j.seen for j in parts if j.seen is not None]
        return Posterior(self.tree, self.spread, slots, probability, kept or None)


class Judged(NamedTuple):
    """The slots of some rows, their probabilities, and the evidence if it is asked for."""

    slots: np.ndarray
    probability: np.ndarray
    seen: Seen | None


Arrays = tuple[np.ndarray, ...]
#: ``run(work, shared, parts)``: ``work(*shared, *part)`` for every part, in order; here, in threads, or on other machines.
Run = Callable[[Callable[..., Arrays], tuple[Any, ...], list[tuple[Any, ...]]], Iterable[Arrays]]


def here(work: Callable[..., Arrays], shared: tuple[Any, ...], parts: list[tuple[Any, ...]]) -> Iterable[Arrays]:
    """One part after the other, in this process."""
    return (work(*shared, *part) for part in parts)


def fit(
    task: Task, novelty: bool | float | str, rng: np.random.Generator, hidden: int = HIDDEN, run: Run = here
) -> tuple[Model, HeldOut | None]:
    """Learn; also what was held out, by which the model is calibrated (None: no row could be, or none that tells classes apart)."""
    # 1. places
    where = places(task, novelty)
    grown, place, rows_at, expected, room = where
    rivals = find_rivals(task, place, grown)
    # 2. folds
    group = equal_rows([block[: task.n] for block in task.rows.blocks])
    group = group if task.groups is None else joined(group, task.groups)
    held_out = folds(group, place[: task.n], rows_at, expected, rng)
    # 3. evidence of rows that the experts have not seen
    found = run(examined, (task, where, rivals), [(leaving,) for leaving in held_out])
    seen = (Seen(*arrays[i : i + 3]) for arrays in told(found, len(held_out)) for i in range(0, len(arrays), 3))
    new = float(novelty) if isinstance(novelty, float | np.floating) else None
    held = HeldOut.of(seen, held_out, task.weight, where, new) if held_out else None
    share = shares(rows_at, grown, expected, held.how_often() if held else [1.0, 1.0, 1.0])
    if held and held.lost.all():  # they say that classes are new, and nothing of which of the known ones it is
        held = None
    # 4. experts of all rows
    reached("experts", 0.65)
    experts = Experts.fit(task.rows, place, task.weight, rivals, grown, room, task.described, task.experts)
    # 5. combiner
    reached("combiner", 0.8)
    if held is None:  # one row, or copies of one, in every class
        combiner = Combiner.usual(usual(experts.columns))
    else:
        combiner = Combiner.fit(held.taught(), (held.mean, held.spread), experts.columns, rng, hidden)
    assert len(names(experts.columns)) == len(combiner.mean)
    return Model(task.tree, grown, Spread.of(grown, share), experts, combiner, expected), held


def told(found: Iterable[Arrays], folds: int) -> Iterator[Arrays]:
    """The evidence of every fold, whoever follows the fit being told which it is."""
    parts = iter(found)
    for fold in range(folds):
        reached(f"fold {fold + 1}/{folds}", 0.6 * fold / folds)
        yield next(parts)


def examined(task: Task, where: Places, rivals: np.ndarray, leaving: np.ndarray) -> Arrays:
    """What experts of the other rows say of those that leave: the arrays of `Seen`, one batch after the other."""
    place = where.place
    kept = np.setdiff1d(np.arange(len(place)), leaving, assume_unique=True)
    some = task.rows.take(kept)
    experts = Experts.fit(
        some, place[kept], task.weight[kept], rivals[kept], where.grown, where.room, task.described, task.experts
    )
    asked = Rows(tuple(as_asked(b[leaving], k) for b, k in zip(task.rows.blocks, some.blocks, strict=True)))
    return tuple(array for seen in experts.examine_all(asked) for array in (seen.slots, seen.known, seen.evidence))


def places(task: Task, novelty: bool | float | str) -> Places:
    """O(blocks + rows)."""
    grown = Grown.of(task.tree)
    place = grown.place[task.node]
    rows_at = np.bincount(place, minlength=grown.blocks)
    is_leaf = grown.is_place & ~grown.is_stop
    empty = is_leaf & (rows_at == 0)
    expected = bool(empty.sum() > EMPTY * is_leaf.sum()) if novelty == "auto" else bool(novelty)
    room = np.full(grown.blocks, np.inf) if expected else grown.below((rows_at > 0).astype(np.float64))
    return Places(grown, place, rows_at, expected, room)


def kinds_of_places(grown: Grown, has_rows: np.ndarray) -> tuple[np.ndarray, ...]:
    """Places with rows, empty leaves, empty stops."""
    empty = grown.is_place & ~has_rows
    return has_rows, empty & ~grown.is_stop, empty & grown.is_stop


def shares(rows_at: np.ndarray, grown: Grown, novelty: bool, how_often: list[float]) -> np.ndarray:
    """Where an answer lies that is `elsewhere`: the share of every place.

    A closed list has only places with rows, which share it out by rows. Where new classes come, ``how_often`` says how often it is
    a place with rows, an empty leaf, an empty stop; empty ones of a kind are alike. A tree without empty leaves does not list its
    new classes: they stay at their ball.
    """
    kinds = kinds_of_places(grown, rows_at > 0)
    if not novelty or not kinds[1].any():
        return rows_at * float(not novelty)
    weights = [np.where(places, np.maximum(rows_at, 1), 0) for places in kinds]
    return np.asarray(sum(often * w / max(w.sum(), 1) for often, w in zip(how_often, weights, strict=True)))


def asked_as_often(model: Model, prior: np.ndarray, rows_at: np.ndarray) -> Model:
    """The model for questions that belong to nodes as often as ``prior`` says, in place of as often as ``rows_at`` has rows there.

    By Bayes' rule every known place counts prior / share of rows, a ball what its places count together; what has no rows counts 1.
    """
    at, wanted = np.zeros(model.grown.blocks), np.zeros(model.grown.blocks)
    at[model.grown.place], wanted[model.grown.place] = rows_at, np.where(rows_at > 0, prior, 0)
    before, after = model.grown.below(at / at.sum()), model.grown.below(wanted / wanted.sum())
    ratio = np.where(before > 0, after / np.maximum(before, 1e-300), 1.0).astype(np.float32)
    share = np.where(at > 0, model.spread.share * ratio, model.spread.share)
    return replace(model, ratio=ratio, spread=Spread.of(model.grown, share))


def learned_more(model: Model, task: Task) -> Model:
    """Experts of other rows of the same tree; how they are combined stays as it is."""
    grown, place, rows_at, _, room = places(task, model.novelty)
    had_rows = np.zeros(grown.blocks, bool)
    had_rows[model.experts.tree.place] = True
    how_often = [float(model.spread.share[kind].sum()) for kind in kinds_of_places(grown, had_rows)]
    spread = Spread.of(grown, shares(rows_at, grown, model.novelty, how_often))
    rivals = find_rivals(task, place, grown)
    experts = Experts.fit(task.rows, place, task.weight, rivals, grown, room, task.described, task.experts)
    return replace(model, spread=spread, experts=experts)


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
            for start in range(0, len(place), BATCH * 2):
                rows = block[start : start + BATCH * 2]
                parts.append(np.concatenate([way for e in looks for way in e.look(rows).propose(RIVALS)], 1))
            leaves = np.concatenate(parts)
            found.append(np.where(leaves >= 0, tree.place[leaves], -1))
    return np.concatenate(found, 1)
