"""Lists of codes: tables that were written code by code, and will be asked code by code.

Let N_r be the number of classes with r rows (r groups, if rows come in groups: *units*) among n, and N_0 the number of possible
answers without any. Good and Turing: a new row belongs to the classes met r times with probability (r+1) N_{r+1} / n, which is
what leaving out rows at random shows. But lists that give every code at least one text break the formula: it says N_1/n for the
unmet, of which there may be none. Two things tell such a list. A class that would be expected more than three times is met in 95
of 100 cases, so each of the unmet ones stands for three rows at most, all of them for 3 N_0. And of rows drawn at random, sizes of
classes do not fall off much more steeply from one to two than further on *and* break N_1² ≤ 2 N_0 N_2. Where neither speaks
against N_1, surely, nothing changes. Where one does, rows were not drawn at random but listed.

The same holds for lists that give most codes two texts, or two to four: many classes of a to b rows and fewer of other sizes near
by are no draw at random if N_b² > (b+1)/b · N_{b-1} N_{b+1}, which is not to be expected of rows drawn by any chances at all, nor
of what is left of them without their smallest classes. A list of one to b rows must end so as well: where the tree was made of the
labels that were met, nothing is known of N_0, and any table has too few empty leaves.

Rows left out at random would show the classes of a list with a row less than they will have, and as seldom as they stand in the
table. So they are not held out (single rows as often as unmet classes are expected), and larger classes are cut down to as few
rows in turn, a few at a time so that the others compete as they will, and count so much that classes known by so few are asked
about as often as there are such classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: Classes of up to so many units may have been listed (of more, rows held out at random show nearly what will be asked), if they
#: are so many times as many as those of other sizes near by, and there are so many larger ones that can be cut down.
LISTED, PEAK, LARGER = 4, 2.0, 5
#: Classes of one unit stand out if they are so many times as many as larger ones let expect. (Of rows drawn at random from four
#: tasks they were 0.9 to 1.3 times as many; of sizes by a power law, 1 / r² to 1 / r³, 2.5 to 3 times.)
APART = 4.0
#: Units that a class without any stands for at most: of classes expected that often 95 in 100 are met.
UNMET = 3.0
#: So many standard deviations (of a count: its root) more classes than chance allows make a list.
SURELY = 3.0
#: So much of the questions is about listed classes at most.
MOST_LISTED = 0.95
#: Rows held out of a class that is cut down to few, how many are cut down at once, and the least and largest share of the larger
#: classes that may be, unless fewer are enough: what is left should be as rich as what will answer.
THINNED, CUT_AT_ONCE, LEAST_CUT, MOST_CUT = 8, 40, 0.1, 0.2
#: Rows of classes cut down count at least and at most so much, in the mean of a round.
COUNTS_FOR = 0.25, 8.0


class CodeList(NamedTuple):
    """What of a table is a list: for every number of units that its classes have, 0 to `LISTED`, the share of questions about
    them that rows held out at random miss; and how many classes are in the list, and how many are larger than those."""

    missed: Floats
    few: int
    large: int

    @property
    def most(self) -> int:
        """Units of its largest classes; 0 where nothing is listed."""
        return int(np.flatnonzero(self.missed).max(initial=0))

    def has(self, size: Ints) -> npt.NDArray[np.bool_]:
        """Whether classes of these sizes are in it."""
        return np.append(self.missed > 0, False)[np.minimum(size, LISTED + 1)]

    def odds(self, usual: int, out: int, cut: int) -> float:
        """How much each of ``out`` rows of ``cut`` classes counts beside the ``usual`` ones of a round: as much as the questions
        they stand for. There are so many more small classes in a round, and so many larger ones less, than there will be, so they
        count the more: each class is the answer as often, against one of the other kind, as it will be."""
        about = float(self.missed.sum())
        odds = about / (1.0 - about) * max(usual, 1) / max(out, 1)
        crowded = (self.few + cut) / max(self.few, 1) * self.large / max(self.large - cut, 1)
        return float(np.clip(odds * crowded, *COUNTS_FOR))


def question(size: Ints, n_empty: int, alike: bool) -> tuple[float, CodeList]:
    """How often a single row is held out, and what is listed, by the units of each class. Where classes are ``alike`` in size any
    row shows what will be asked, unless it is the only one."""
    met = np.bincount(size, minlength=2 * LISTED + 2).astype(float)  # N_r
    n, single = float(np.arange(len(met)) @ met), single_by_chance(met, n_empty)
    sizes = [
        k for k in sizes_of_list(met, single) if k < size.max() - 1 and not (alike and k > 1)
    ]  # others cannot be cut down
    drawn = n - sum(k * met[k] for k in sizes)
    unmet = single / max(drawn + single, 1.0)  # Good and Turing's share, without the rows of the list
    missed = np.zeros(LISTED + 1)
    for k in sizes:
        shown = 0.0 if k + 1 in sizes else (k + 1) * met[k + 1] / n  # by random rows
        missed[k] = (1.0 - unmet) * max(met[k] / met.sum() - shown, 0.0)
    missed *= MOST_LISTED / max(missed.sum(), MOST_LISTED)
    found = CodeList(missed, 0, 0)
    found = found._replace(few=int(found.has(size).sum()), large=int((size > found.most + 1).sum()))
    if not missed[1]:
        return (single / met[1] if met[1] else 1.0), found
    among = min(unmet / (1.0 - missed.sum()), MOST_LISTED)  # of the rows that are not of classes cut down
    return float(min(among / (1.0 - among) * drawn / met[1], 1.0)), found


def single_by_chance(met: Floats, n_empty: int) -> float:
    """How many of the N_1 classes of one unit may have been met by chance, if ``n_empty`` have not: no more than `UNMET` for each.

    Fewer if they stand out from larger ones in two ways. Sizes fall off more steeply than they go on, and N_1² > 2 N_0 N_2, which
    rows drawn by any chances do not. (The second alone is no sign: classes that have no second row to be drawn break it as well.)

    >>> [round(single_by_chance(np.array([0, 600, pairs, 90]), 250)) for pairs in (0, 7, 300)]
    [47, 94, 600]
    >>> round(single_by_chance(np.array([0, 600, 7, 90]), 9000))
    600
    """
    drawn = np.sqrt(2.0 * n_empty * _at_most(met[2]))
    apart = met[3:].sum() >= LARGER and _surely(met[1], max(APART * _steady(met), drawn))
    return float(min(met[1], UNMET * n_empty, max(_steady(met), drawn) if apart else np.inf))


def _surely(many: float, others: float) -> bool:
    return bool(many > 0 and many - others >= SURELY * np.sqrt(many))


def _at_most(count: float) -> float:
    """As many as may be expected where so many were met: roots of counts vary by one half."""
    return float((np.sqrt(count + 0.375) + 0.5 * SURELY) ** 2)


def _steady(met: Floats) -> float:
    """How many classes of one unit there would be if sizes fell off from one to two as they do from two on."""
    return float(met[2] * max(met[2:].sum() / max(met[3:].sum(), 1.0), 1.0))


def _ends(met: Floats, b: int) -> bool:
    """Whether a list may end at classes of ``b`` units: there are many up to that, and surely fewer beyond than of drawn ones."""
    if not _surely(met[b // 2 + 1 : b + 1].sum(), PEAK * met[b + 1 : 2 * b + 1].sum()) or met[b + 2 :].sum() < LARGER:
        return False
    if b == 1:
        return _surely(met[1], APART * _steady(met))
    return _surely(met[b], np.sqrt((b + 1) / b * max(met[b - 1], 1.0) * _at_most(met[b + 1])))


def sizes_of_list(met: Floats, single: float) -> list[int]:
    """How many units listed classes have, by N_r and the number of ``single`` ones that are as expected.

    >>> met = np.zeros(2 * LISTED + 2)
    >>> met[2:5], met[9] = 200, 150
    >>> sizes_of_list(met, 0), sizes_of_list(met + 60, 60)
    ([2, 3, 4], [])
    """
    ends = [b for b in range(1, LISTED + 1) if _ends(met, b)]
    if _surely(met[1], single):
        a, b = 1, min(ends, default=0)
    else:
        runs = [(b, a) for b in ends for a in range(2, b + 1) if _surely(met[a : b + 1].sum(), PEAK * met[1:a].sum())]
        b, a = min(runs, default=(-1, 0))
    return [k for k in range(a, b + 1) if met[k]]


def unmet_in_list(node: Ints, unit: Ints, n_empty: int) -> float | None:
    """Where every class has a single row, a list: the share of questions about classes without any. None where rows were drawn.

    >>> unmet_in_list(np.arange(6), np.arange(6), 0), unmet_in_list(np.arange(6), np.arange(6), 1)
    (0.0, 0.5)
    >>> unmet_in_list(np.array([0, 1, 1]), np.arange(3), 0)
    """
    classes = len(np.unique(node))
    if classes < 2 or len(node) > classes:
        return None
    return min(UNMET * n_empty / classes, 1.0)


def as_asked(weight: npt.ArrayLike, rows: npt.ArrayLike) -> Floats:
    """How often classes are expected to be asked about, in units of the ``weight`` that all of their ``rows`` have together: half a
    row more than they have. Those of a list, which is asked by code, count alike, as much as a class has in the mean; larger ones
    as much together as they are many, each in proportion; and those without any less than listed ones, as half a row is less than
    what the least of these have and a half. (Copies and groups count here as so many rows.)

    >>> as_asked([0, 1, 4], [0, 1, 4])
    array([0.5, 1.5, 4.5])
    >>> rows = np.array([0] + [1] * 80 + [21] * 20)  # 500 rows of 100 classes
    >>> as_asked(rows, rows)[[0, 1, 81]].round(2)
    array([1.67, 5.  , 5.  ])
    """
    given = np.asarray(weight, np.float64)
    share, size = given + 0.5, np.minimum(np.asarray(rows, np.int64), 2 * LISTED + 1)
    met = np.bincount(size, minlength=2 * LISTED + 2).astype(float)
    n_empty, met[0] = int(met[0]), 0.0
    listed = np.isin(size, sizes_of_list(met, single_by_chance(met, n_empty)))
    larger = ~listed & (size > 0)
    if listed.any() and larger.any():
        mean = given.sum() / met.sum()
        share[larger] *= mean * larger.sum() / share[larger].sum()
        share[size == 0] = 0.5 * mean / (size[listed].min() + 0.5)
        share[listed] = mean
    return share


def turns_of(node: Ints, units_of_row: Ints, codes: CodeList, wanted: int, rng: np.random.Generator) -> list[Ints]:
    """Classes that are cut down in each round, for ``wanted`` rows: in turn all that are large enough for it."""
    large = np.unique(node[units_of_row > max(codes.most, 1) + 1])
    rich = rng.permutation(large)  # where there is no list too: what is drawn later stays as it was
    if wanted < 1 or not len(rich):
        return [rich[:0]]
    at_once = int(np.clip(CUT_AT_ONCE, LEAST_CUT * len(rich), MOST_CUT * len(rich)))
    at_once = max(min(at_once, -(-wanted // THINNED)), 1)
    return np.array_split(rich, -(-len(rich) // at_once))


def cut_down(
    node: Ints, unit: Ints, chosen: Ints, codes: CodeList, rng: np.random.Generator
) -> tuple[Ints, Floats, Ints]:
    """Rows of the ``chosen`` classes, which are to keep as few units as listed ones have: a few rows of each to be held out with
    what they count, and the others.

    Those few stand for the root of what the class has lost (weights of mean one). If new rows come as these came they should stand
    for all of it, and large classes, which have more kinds of rows, are harder; if a list is asked code by code, every class should
    count alike. The root lies between, and leaves the answer to more than a few large classes.
    """
    if not len(chosen):
        return np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64)
    out, stand_for, dropped = [], [], []
    by_class = np.argsort(node, kind="stable")
    start, stop = np.searchsorted(node[by_class], chosen), np.searchsorted(node[by_class], chosen, side="right")
    keeps = rng.choice(len(codes.missed), len(chosen), p=codes.missed / codes.missed.sum())
    for a, b, k in zip(start, stop, keeps, strict=True):
        rows = by_class[a:b]
        order = rng.permutation(np.unique(unit[rows]))
        out.append(rows[np.isin(unit[rows], order[k : k + THINNED])])
        dropped.append(rows[np.isin(unit[rows], order[k + THINNED :])])
        stand_for.append(np.full(len(out[-1]), np.sqrt(1.0 + len(dropped[-1]) / len(out[-1]))))
    weight = np.concatenate(stand_for)
    return np.concatenate(out), weight / weight.mean(), np.concatenate(dropped)
