"""Which rows are held out inside ``fit``: rows that look like the ones that will be asked.

*Together.* Rows of one group (``groups=``) are held out together. Of texts with copies, under one label or several, whether new
rows will meet them cannot be read off the training rows, and the combiner must have seen both, or it distrusts memory where it is
right, or trusts it where it is not. So of texts under one label two thirds leave with all their copies, of those under several one
third, and of the others every row leaves alone: never the copies of one label without the rest, or what is left of a text that has
been labelled seven times right and three times wrong would speak for the three.

*Last rows.* Holding out the only row of a class asks about a class the model has not met. How often will that be asked? As
Good and Turing say, unless the table is a list of codes: `_lists` tells, and how such a table is held out.

*In proportion.* Every class is held out by the same share. What is left of a class then does not tell how much of it was held out
(a combiner that learns "the class that has shrunk" knows something no new row tells), and a class of two rows loses one of them.

*Neighbours.* A new row finds its nearest training row in its place. So a row is not held out together with its nearest row: where
rows come as near copies, the combiner would learn from the few that lost theirs that memory is not to be trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from vpunn.hipan._lists import THINNED, CodeList, cut_down, question, turns_of
from vpunn.hipan._places import keys

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: Held-out rows that make a good combiner, those of one round that tell whether a block has a say, and the share of the rows that
#: may be held out at once to get there.
PLENTY, TELLING, HELD_AT_ONCE = 2000, 200, 0.2
#: So many are held out at most: a combiner learns no more from more, and each is compared with all rows.
MOST_HELD = 10_000
#: Numbers that experts of all rows read: to train again on few costs next to nothing, on many more than held-out rows are worth.
LIGHT, HEAVY = 100_000, 500_000
#: Rounds go on until so many rows were held out, or all have had their turn: light rows, others, and rows of many classes. (Of few,
#: twice as many brought nothing on validation rows; of many 0.003 in exact answers, but not where words have descriptions beside.)
ENOUGH_LIGHT, ENOUGH, ENOUGH_OF_MANY = 2000, 1500, 3000
#: Of lists so many times as many rows are asked before it is enough: those of a class cut down are told together and worth less.
ENOUGH_OF_LISTS = 1.5
#: A row less is noticed in classes of some nine rows at most: the difference in log(1 + rows).
ONE_ROW_TELLS = 0.1
#: A text of more than this share of the rows is a phrase.
PHRASE = 0.01


class Round(NamedTuple):
    """Rows held out together with what each counts, and rows that neither teach nor are asked about in this round; how many of
    those held out, the last ones, are of classes that were cut down; and rows of the list that these stand for."""

    out: Ints
    weight: Floats
    dropped: Ints
    n_cut: int = 0
    listed: Ints = np.zeros(0, np.int64)

    def is_cut(self) -> npt.NDArray[np.bool_]:
        """Which of those held out are of classes that were cut down."""
        return np.asarray(np.arange(len(self.out)) >= len(self.out) - self.n_cut)

    def cut(self) -> Ints:
        """Those held out of classes that were cut down."""
        return self.out[self.is_cut()]

    def together(self, node: Ints, unit: Ints) -> Ints:
        """Equal numbers for rows that stand or fall together: of one unit, or of one class that was cut down, all of which are told
        by the few rows that it has kept."""
        return np.where(self.is_cut(), int(unit.max(initial=0)) + 1 + node[self.out], unit[self.out])


def pace(share: float, rows: int, others: int, numbers: int, few: bool, rich: bool = False) -> tuple[float, int]:
    """The share of the rows to be held out at once, at least ``share``, and how many rows are enough to stop.

    Experts that judge have fewer rows than those that will answer, so they are less often right, and classes are smaller: the fewer
    are held out at once the better, and the more rounds it takes, each of which reads as many ``numbers`` as all rows have. Heavy
    rows are held out once, up to a fifth of them; of few rows it is a fifth as well. ``others`` are items that always stay
    (descriptions): among many of those a fifth of the rows is missed less. Where classes are not ``few`` a combiner has more to
    learn, but in light tables with descriptions only if evidence is ``rich``, of dense blocks.

    >>> pace(0.1, 4000, 0, 40_000, True), pace(0.1, 4000, 0, 200_000, True), pace(0.1, 4000, 8000, 200_000, True)
    ((0.1, 2000), (0.1, 1500), (0.2, 1500))
    >>> pace(0.1, 4000, 0, 40_000, False), pace(0.1, 50_000, 0, 10**6, True), pace(0.1, 50_000, 0, 10**6, False)
    ((0.1, 3000), (0.1, 1), (0.2, 1))
    """
    share = max(share, min(TELLING / max(rows, 1), HELD_AT_ONCE))
    more = not few and (rich or not others)
    if numbers < LIGHT:
        return share, ENOUGH_OF_MANY if more else ENOUGH_LIGHT
    if numbers >= HEAVY:
        return max(share, min((PLENTY if few else MOST_HELD) / max(rows, 1), HELD_AT_ONCE)), 1
    most = min(PLENTY / max(rows, 1), HELD_AT_ONCE, share * (1.0 + others / max(rows, 1)))
    return max(share, most), ENOUGH_OF_MANY if more else ENOUGH


def plan_holdout(
    node: Ints,
    unit: Ints,
    n_empty: int,
    share: float,
    rng: np.random.Generator,
    nearest: Callable[[Ints], Ints] | None = None,
    enough: int = ENOUGH,
) -> list[Round]:
    """Rounds of rows; ``unit`` numbers what is held out together, ``n_empty`` possible answers have no row at all.

    ``nearest`` gives for some rows the nearest row of another unit (−1: none); rounds go on until ``enough`` rows were held out.

    >>> rounds = plan_holdout(np.arange(6), np.arange(6), 0, 0.5, np.random.default_rng(0))  # one row a class, all classes met
    >>> sorted(len(round.out) for round in rounds)  # nothing looks like the question, so any rows must do
    [3, 3]
    """
    n = len(node)
    units_of_row = _units_of_class(node, unit)
    if (units_of_row == 1).all():  # every class is one row and its copies: then copies are what will be asked
        unit = np.arange(n)
        units_of_row = _units_of_class(node, unit)
    alike = counts_tell(units_of_row)
    chance, codes = question(units_of_row[np.unique(node, return_index=True)[1]], n_empty, alike)
    about_list = float(codes.missed.sum())
    free = (units_of_row > 1) & ~codes.has(units_of_row) | (units_of_row == 1) & (rng.random(n) < chance)
    rows = _in_order(node, unit, free, rng)
    if alike:  # one unit of every class at once, and all are left with equally many
        share, nearest = float(np.mean(1.0 / units_of_row[units_of_row > 1])), None
        n = len(rows)  # of which classes of one unit have none
    part = int(np.ceil(min(max(share * n, 1), MOST_HELD)))
    ordinary = max(int(part * (1.0 - about_list)), 1)
    turns = turns_of(node, units_of_row, codes, int(about_list * part), rng)
    once = min(part, ordinary + THINNED * len(turns[0]))
    enough = int(enough * (ENOUGH_OF_LISTS if len(turns[0]) else 1.0))
    count = int(np.clip(np.ceil(enough / once), 1, np.ceil(len(rows) / ordinary)))
    starts = np.append(np.flatnonzero(np.diff(unit[rows], prepend=-1)), len(rows))  # a unit is not cut
    cuts = [int(starts[min(int(np.searchsorted(starts, k * ordinary)), len(starts) - 1)]) for k in range(count + 1)]
    listed = np.flatnonzero(codes.has(units_of_row))
    return [
        _one_round(node, unit, rows[a:b], turns[turn % len(turns)], codes, nearest, rng)._replace(listed=listed)
        for turn, (a, b) in enumerate(pairwise(cuts))
        if b > a
    ]


def _in_order(node: Ints, unit: Ints, free: npt.NDArray[np.bool_], rng: np.random.Generator) -> Ints:
    """Rows whose units are ``free`` to be held out, any if none is, unit by unit in the order in which they are."""
    if not free.any():
        free = np.ones(len(node), bool)
    eligible = np.setdiff1d(np.unique(unit[free]), np.unique(unit[~free]))
    if not len(eligible):
        eligible = np.unique(unit)
    order = _spread(eligible, node, unit, rng)
    place = np.full(int(unit.max(initial=0)) + 1, -1, np.int64)
    place[order] = np.arange(len(order))
    rows = np.flatnonzero(place[unit] >= 0)
    return np.asarray(rows[np.argsort(place[unit[rows]], kind="stable")])


def _one_round(
    node: Ints,
    unit: Ints,
    usual: Ints,
    chosen: Ints,
    codes: CodeList,
    nearest: Callable[[Ints], Ints] | None,
    rng: np.random.Generator,
) -> Round:
    """The ``usual`` rows, those of them that may be, and some of the ``chosen`` classes, which are cut down."""
    out, stand_for, dropped = cut_down(node, unit, chosen, codes, rng)
    usual, lost = (usual, usual[:0]) if nearest is None else _apart(usual, unit, nearest)
    usual = usual[~np.isin(node[usual], node[out])]  # what is left of a class cut down stays
    usual = usual[~np.isin(unit[usual], unit[np.concatenate([out, dropped])])]
    beside = np.setdiff1d(np.flatnonzero(np.isin(unit, unit[out])), out)  # the same texts under other labels
    weight = np.concatenate([np.ones(len(usual)), codes.odds(len(usual), len(out), len(chosen)) * stand_for])
    dropped = np.union1d(np.union1d(dropped, beside), np.setdiff1d(lost, out))
    return Round(np.concatenate([usual, out]), weight, dropped, len(out))


def counts_tell(count: npt.ArrayLike) -> bool:
    """Whether what is left of a class tells that one of its rows was held out: classes differ less in size than by that one row.

    ``count`` has the size of every row's class. Of classes of two rows each, the one with one row left is the answer every time;
    a new row finds two in all of them.

    >>> counts_tell([2] * 40), counts_tell([1, 2, 2, 4, 4, 4, 4, 9, 9, 9, 9, 9, 9, 9, 9, 9])
    (True, False)
    """
    sizes = np.asarray(count, np.float64)
    several = sizes[sizes >= 2]
    if not len(several):
        return False
    one_row = np.mean(np.log1p(several) - np.log(several))
    return bool(one_row > ONE_ROW_TELLS and np.std(np.log1p(several)) < one_row)


def _spread(eligible: Ints, node: Ints, unit: Ints, rng: np.random.Generator) -> Ints:
    """Units in an order of which every run holds all classes in proportion: each goes round the clock from an hour of its own.

    So what is left of a class does not tell how much of it was held out, and classes of two rows lose one of them, not both.
    """
    kept = np.flatnonzero(np.isin(unit, eligible))
    first, size = np.unique(unit[kept], return_index=True, return_counts=True)[1:]
    order = rng.permutation(len(eligible))
    order = order[np.argsort(node[kept[first]][order], kind="stable")]
    label, count = node[kept[first]][order], size[order].astype(float)
    start = np.flatnonzero(np.diff(label, prepend=-1))
    at = np.repeat(np.arange(len(start)), np.diff(np.append(start, len(label))))
    before = np.cumsum(count) - count
    within = (before - before[start][at] + 0.5 * count) / np.add.reduceat(count, start)[at]
    return np.asarray(eligible[order[np.argsort((within + rng.random(len(start))[at]) % 1.0, kind="stable")]])


def _apart(rows: Ints, unit: Ints, nearest: Callable[[Ints], Ints]) -> tuple[Ints, Ints]:
    """Of some rows in order, whole units, those whose nearest row is not held out with them, and others that must leave with those.

    A unit none of whose rows has its nearest one in place stays: of two neighbours that is the first. What a row is near to decides
    about it, not what is near to it: rows in the middle of their class, the nearest of many, are asked about as often as others.
    """
    found = nearest(rows)
    near = np.where((found >= 0) & (unit[found] != unit[rows]), unit[found], -1)
    start = np.flatnonzero(np.diff(unit[rows], prepend=-1))
    out = set(unit[rows[start]].tolist())
    for here, beside in zip(unit[rows[start]].tolist(), np.split(near, start[1:]), strict=True):
        if out.issuperset(beside.tolist()):
            out.discard(here)
    leave = np.isin(unit[rows], list(out))
    lost = np.isin(near, list(out))
    return rows[leave & ~lost], rows[leave & lost]


def _units_of_class(node: Ints, unit: Ints) -> Ints:
    """For every row, in how many units its class occurs."""
    pairs = np.unique(np.stack([node, unit], 1), axis=0)
    classes, count = np.unique(pairs[:, 0], return_counts=True)
    return count[np.searchsorted(classes, node)]


def units(
    words: sparse.csr_matrix, dense: list[npt.NDArray[np.float32]], groups: Ints | None, node: Ints | None = None
) -> Ints:
    """Numbers of what is held out together: rows with the same features and, if given, the same group.

    Where the ``node`` of each is given, a third of the texts goes together, another if it has one node only, and the others row by
    row, as do phrases so common (`PHRASE`) that much of the table would go with them.
    """
    same = _same(words, dense)
    if node is not None:
        n, kind = len(same), same % 3  # numbers follow random sums: every third is any text
        phrase = np.bincount(same)[same] > max(PHRASE * n, 2)
        several = np.bincount(np.unique(np.stack([same, node], 1), axis=0)[:, 0])[same] > 1
        apart = np.where(phrase | (kind == 2) | (several & (kind == 1)), np.arange(n), -1)
        same = np.unique(np.stack([same, apart], 1), axis=0, return_inverse=True)[1].ravel().astype(np.int64)
    if groups is None:
        return same
    from scipy.sparse.csgraph import connected_components

    n = len(same)
    offset = int(same.max(initial=0)) + 1
    row = np.arange(n)
    links = sparse.coo_matrix(
        (np.ones(2 * n), (np.concatenate([row, row]), n + np.concatenate([same, offset + groups]))),
        shape=(n + offset + int(groups.max(initial=0)) + 1,) * 2,
    )
    return np.asarray(connected_components(links, directed=False)[1][:n], np.int64)


def in_halves(together: Ints, rng: np.random.Generator) -> list[Ints]:
    """All rows in two halves by chance, those of the same number in one of them.

    >>> [half.tolist() for half in in_halves(np.array([5, 5, 5, 8, 9, 2]), np.random.default_rng(3))]
    [[5, 4], [2, 1, 3, 0]]
    """
    order = rng.permutation(len(together))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    first, at = np.unique(together, return_index=True, return_inverse=True)[1:]
    early = place[first][at.ravel()] < (len(order) + 1) // 2
    return [order[early[order]], order[~early[order]]]


def _same(words: sparse.csr_matrix, dense: list[npt.NDArray[np.float32]]) -> Ints:
    """Equal numbers for rows with equal features; empty rows stay apart."""
    number, empty = _numbered(words, dense)
    number[empty] = number.max(initial=0) + 1 + np.arange(int(empty.sum()))
    return np.unique(number, return_inverse=True)[1].astype(np.int64)


def same_rows(words: sparse.csr_matrix, dense: list[npt.NDArray[np.float32]]) -> Ints:
    """Equal numbers for rows with equal features, all empty ones alike."""
    return _numbered(words, dense)[0]


def _numbered(words: sparse.csr_matrix, dense: list[npt.NDArray[np.float32]]) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Numbers of rows by two independent random sums of their features, and which rows are empty."""
    rng = np.random.default_rng(20)
    key = np.zeros((words.shape[0], 2))
    if words.shape[1]:
        key += words @ rng.standard_normal((words.shape[1], 2))
    for block in dense:
        sums = block.astype(np.float64) @ rng.standard_normal((block.shape[1], 2))
        key += sums[_first_copy(block)]  # the last bits of a product depend on where a row stands
    number = np.unique(np.ascontiguousarray(key).view("V16").ravel(), return_inverse=True)[1].ravel()
    return number.astype(np.int64), np.asarray(~key.any(1))


def _first_copy(block: npt.NDArray[np.float32]) -> Ints:
    """For every row the first one with the same numbers."""
    first, copy = np.unique(keys(block), return_index=True, return_inverse=True)[1:]
    return np.asarray(first[copy.ravel()], np.int64)
