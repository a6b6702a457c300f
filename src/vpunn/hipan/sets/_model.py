"""`SetModel`: probabilities that some answer of a row lies in a ball, for rows with several labels.

Every ball gets a linear head (`_heads`) that is asked "is one of the answers in here?"; nearest items, words and rates bring
further evidence (`_evidence`); one small combiner makes log-odds of it (`_odds`). The largest log-odds below a ball become its
own, along all edges of the graph, so that no ball is less likely than one of its parts; log-odds are repaired by depth.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import sparse

from vpunn._progress import reached
from vpunn._rows import slices
from vpunn.errors import VpunnError
from vpunn.hipan._crew import Arrays, Crew
from vpunn.hipan._training import Settings
from vpunn.hipan._views import Rows
from vpunn.hipan.kernels import sets as kernels
from vpunn.hipan.kernels.sets import ByRow, SetMemory
from vpunn.hipan.sets import _blocks, _evidence, _heads
from vpunn.hipan.sets._evidence import Pairs
from vpunn.hipan.sets._odds import Odds, fit_odds
from vpunn.hipan.sets._posterior import SetPosterior
from vpunn.hipan.sets._repair import fit_repair, risk_threshold
from vpunn.hipan.sets._trust import agreement, weighed
from vpunn.tree import Tree

#: Rows held out at most: a fifth of all at a time, with heads trained anew for each, until there are so many. Two thirds
#: teach the combiner, the others repair it by depth and set the promise of ``stop="risk"``.
HELD_OUT, FIFTHS = 8000, 5
#: Fewer of them do both.
WORTH_HALVING = 150
#: Log-odds below this count as nothing.
LOW = -12.0
#: Depths from here on share one repair.
DEPTHS = 8


@dataclass
class SetModel:
    """A fitted model. ``ball`` are the nodes that are, or have below them, a label of some row (not the root), ascending."""

    tree: Tree
    ball: np.ndarray
    class_nodes: np.ndarray
    rows: Rows
    Y: sparse.csr_matrix  #: rows × ball, closed under ancestors
    weight: np.ndarray  #: of each row
    texts: list[sparse.csr_matrix]  #: descriptions, nodes × features, one matrix a kind
    trust: np.ndarray  #: weight of each feature, by how much rows that share it agree
    heads: sparse.csr_matrix  #: features × ball
    offset: np.ndarray
    odds: Odds
    slope: np.ndarray  #: repair of log-odds by depth
    shift: np.ndarray
    rest: float  #: rate of labels that are no candidates, as a share of their rate in training
    risk_p: np.ndarray  #: marginals of the true balls of rows left out
    risk_weight: np.ndarray  #: weight of each; a row's sum to 1
    risk_rows: int

    def __post_init__(self) -> None:
        self.memory = remember(
            self.tree, self.ball, weighed(self.rows.words, self.trust), self.Y, self.heads, self.offset
        )
        self.blocks = [_blocks.Block.fitted(name, X, self.Y) for name, X in self.rows.dense.items()]
        place = np.full(self.tree.n_nodes, -1, np.int64)
        place[self.ball] = np.arange(len(self.ball))
        order = place[self.tree.topological]
        self.order = order[order >= 0]
        self.group = np.minimum(self.tree.depth[self.ball].astype(np.int64), DEPTHS)
        self.described = [
            _blocks.Description.of(f"description {k + 1}", text[self.ball], self.trust, self.memory.parents, self.order)
            for k, text in enumerate(self.texts)
        ]
        cuts = [_blocks.VOTE_CUT, _blocks.HEAD_CUT] * len(self.blocks)
        cuts += [_blocks.TEXT_CUT, _blocks.SHARE_CUT, _blocks.SHARE_CUT] * len(self.texts)
        self.cuts = np.array(cuts, np.float32)

    def posterior(self, rows: Rows, *, evidence: bool = False) -> SetPosterior:
        """Marginals of rows; with ``evidence`` what the combiner read is kept."""
        return self.judge(self.examine(rows), evidence=evidence)

    def judge(self, seen: Pairs, *, evidence: bool = False) -> SetPosterior:
        """`posterior` of rows that have been examined."""
        odds = self.odds.of(seen.evidence)
        silent = ~seen.evidence[:, _evidence.SAYS].any(1)
        if self.cuts.size:
            silent &= ~seen.evidence[:, len(_evidence.COLUMNS) :].any(1)
        rate = np.clip(self.memory.rate[seen.label[silent]], 1e-6, 1 - 1e-6)
        odds[silent] = np.log(rate / (1 - rate))  # no evidence at all: what holds of rows in general
        return SetPosterior(self, seen.start, seen.label, odds, seen.evidence if evidence else None)

    def examine(self, rows: Rows) -> Pairs:
        """Candidates and evidence of rows, a batch at a time."""
        parts = []
        for part in list(slices(len(rows), _evidence.BATCH)) or [slice(0, 0)]:
            some = rows[part]
            words = weighed(some.words, self.trust)
            planes = [p for block in self.blocks for p in block.planes(some.dense[block.name])]
            planes += [p for kind in self.described for p in kind.planes(some.words, words)]
            shape = (len(planes), len(some), len(self.ball))
            stacked = np.stack(planes) if planes else np.zeros(shape, np.float32)
            parts.append(_evidence.examine(self.memory, words, stacked, self.cuts))
        return Pairs.joined(parts)

    def names(self) -> tuple[str, ...]:
        """Names of the columns of evidence."""
        others: list[_blocks.Block | _blocks.Description] = [*self.blocks, *self.described]
        return _evidence.COLUMNS + tuple(name for other in others for name in other.names())

    def settle(self, start: np.ndarray, label: np.ndarray, odds: np.ndarray) -> np.ndarray:
        """Marginals (rows, ``ball``) of candidates with log-odds."""
        out = np.empty((len(start) - 1, len(self.ball)), np.float32)
        rest = (self.rest * self.memory.rate).astype(np.float32)
        repair = self.slope.astype(np.float32), self.shift.astype(np.float32)
        kernels.settle(start, label, odds, LOW, self.memory.parents, self.order, self.group, *repair, rest, out)
        return out

    def threshold_for(self, alpha: float) -> float:
        """The largest threshold whose share of missed balls is at most ``alpha`` in expectation."""
        return risk_threshold(self.risk_p, self.risk_weight, self.risk_rows, alpha)

    def calibrated(self, posterior: SetPosterior, closed: sparse.csr_matrix) -> SetModel:
        """The model with its promise of ``stop="risk"`` set on other rows; ``closed`` are their true balls (rows × nodes)."""
        p, weight, rows = true_marginals(posterior, closed)
        return replace(self, risk_p=p, risk_weight=weight, risk_rows=rows)


def fit_sets(
    tree: Tree,
    rows: Rows,
    sets: tuple[np.ndarray, np.ndarray],
    texts: list[sparse.csr_matrix],
    class_nodes: np.ndarray,
    weight: np.ndarray,
    unit: np.ndarray,
    settings: Settings,
    rng: np.random.Generator,
    validation: tuple[Rows, sparse.csr_matrix] | None = None,
) -> SetModel:
    """Fit on rows whose labels are ``sets`` of node ids, ``(start, ids)``; rows of one ``unit`` are left out together.

    ``texts`` are descriptions of all nodes (nodes × features), one matrix a kind: further evidence about the balls. With
    ``validation``, rows and their balls (rows × nodes), those teach the combiner and none are left out.
    """
    closed = closed_sets(tree, sets)
    ball = np.flatnonzero(np.asarray(closed.sum(0)).ravel() > 0)
    if not len(ball):
        raise VpunnError("every label is the root of the tree, which holds for all rows; there is nothing to learn.")
    Y = sparse.csr_matrix(closed[:, ball])
    wide = _blocks.beyond(texts, rows.words)
    crew, asked = settings.crew, []
    parts = [] if validation else held_out(unit, rng)
    for k, out in enumerate(parts):
        reached(f"heads {k + 1}/{len(parts) + 1}", 0.7 * k / (len(parts) + 1))
        rest = np.setdiff1d(np.arange(len(unit)), out) if len(unit) > 1 else out
        known = texts if wide else _blocks.readable(texts, rows.words[rest])
        teacher = _with_heads(tree, ball, class_nodes, rows[rest], Y[rest], known, weight[rest], rng, crew)
        asked.append(HeldSets.of(teacher, rows[out], closed[out], weight[out], crew))
    reached(f"heads {len(parts) + 1}/{len(parts) + 1}", 0.7 * len(parts) / (len(parts) + 1))
    model = _with_heads(tree, ball, class_nodes, rows, Y, texts, weight, rng, crew)
    if validation:
        order = rng.permutation(len(validation[0]))
        asked = [HeldSets.of(model, validation[0][order], validation[1][order], np.ones(len(order)), crew)]
    return _taught(model, asked, settings, rng)


class HeldSets(NamedTuple):
    """Rows that the heads of a model have not seen, in random order: what it knows about them, their balls and weights."""

    seen: Pairs
    closed: sparse.csr_matrix  #: rows × nodes
    weight: np.ndarray

    @staticmethod
    def of(model: SetModel, rows: Rows, closed: sparse.csr_matrix, weight: np.ndarray, crew: Crew) -> HeldSets:
        """Rows examined by a model, blocks of them by whoever does the work."""
        found = crew.run(_examine_part, (crew.share(model),), ((rows[part],) for part in crew.slices(len(rows))))
        return HeldSets(Pairs.joined([Pairs(*part) for part in found]), closed, weight)

    @staticmethod
    def joined(parts: list[HeldSets]) -> HeldSets:
        """Several, one after the other."""
        seen, closed, weight = zip(*parts, strict=True)
        return HeldSets(Pairs.joined(list(seen)), sparse.csr_matrix(sparse.vstack(closed)), np.concatenate(weight))

    def some(self, part: slice) -> HeldSets:
        """Some of the rows."""
        return HeldSets(self.seen.some(part), self.closed[part], self.weight[part])


def _examine_part(model: SetModel, rows: Rows) -> Arrays:
    return tuple(model.examine(rows))


def _taught(model: SetModel, asked: list[HeldSets], settings: Settings, rng: np.random.Generator) -> SetModel:
    """The model with a combiner learned from rows that were asked, and repaired on others of them."""
    reached("combiner", 0.7)
    cuts = [max(2 * len(part.weight) // 3, 1) for part in asked]
    few = sum(len(part.weight) for part in asked) <= WORTH_HALVING
    teach = HeldSets.joined([part if few else part.some(slice(cut)) for part, cut in zip(asked, cuts, strict=True)])
    check = (
        teach if few else HeldSets.joined([part.some(slice(cut, None)) for part, cut in zip(asked, cuts, strict=True)])
    )
    row = np.repeat(np.arange(len(teach.weight)), np.diff(teach.seen.start))
    truth = _has(teach.closed[:, model.ball], row, teach.seen.label)
    odds = fit_odds(teach.seen.evidence, truth, teach.weight[row], settings.hidden, rng)
    model = replace(model, odds=odds)
    return _repaired(model, model.judge(check.seen), check.closed)


def held_out(unit: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Rows that are held out, in random order, one round after the other: whole units, a fifth of the rows each."""
    n = len(unit)
    place = rng.permutation(int(unit.max(initial=0)) + 1)[unit]
    order = np.argsort(place, kind="stable")
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))  # a unit is not cut
    if len(starts) == 1:
        return [rng.permutation(n)[: max(n // 2, 1)]]
    wanted = min(HELD_OUT, n)
    rounds = min(FIFTHS, -(-wanted * FIFTHS // n))
    cuts = np.append(starts, n)[np.searchsorted(starts, np.arange(1, rounds + 1) * wanted // rounds)]
    parts = [order[a:b] for a, b in itertools.pairwise([0, *cuts.tolist()]) if a < b]
    parts = [part for part in parts if len(part) <= n / 2]
    if not parts:  # one unit is most of the rows
        parts = [min(order[: starts[1]], order[starts[1] :], key=len)]
    return [rng.permutation(part) for part in parts]


def _with_heads(
    tree: Tree,
    ball: np.ndarray,
    class_nodes: np.ndarray,
    rows: Rows,
    Y: sparse.csr_matrix,
    texts: list[sparse.csr_matrix],
    weight: np.ndarray,
    rng: np.random.Generator,
    crew: Crew,
) -> SetModel:
    """A model of rows with trained heads, still without a combiner."""
    trust = agreement(rows.words, Y)
    trained = _heads.train(weighed(rows.words, trust), Y, weight, rng, crew)
    none, blank = np.zeros(0), Odds(*(np.zeros(0, np.float32),) * 7)
    plain = np.ones(DEPTHS + 1), np.zeros(DEPTHS + 1)
    heads = trained.weights, trained.offset
    return SetModel(tree, ball, class_nodes, rows, Y, weight, texts, trust, *heads, blank, *plain, 0.0, none, none, 0)


def _repaired(model: SetModel, posterior: SetPosterior, closed: sparse.csr_matrix) -> SetModel:
    """The model with log-odds repaired by depth, the rate of labels that are no candidates, and the promise of risk."""
    Y = sparse.csr_matrix(closed[:, model.ball])
    row = np.repeat(np.arange(len(posterior)), np.diff(posterior.start))
    rate = model.memory.rate.astype(np.float64)
    missed = float(Y.sum() - _has(Y, row, posterior.label).sum())
    outside = float(rate.sum() * len(posterior) - rate[posterior.label].sum())
    rest = min(missed / outside, 1.0) if outside > 0 else 0.0
    p, truth, group = [], [], []
    for part in posterior.parts():
        raised = posterior.marginals(part)
        at, label = np.nonzero(raised > 1e-3)
        p.append(raised[at, label])
        truth.append(_has(Y[part], at, label))
        group.append(model.group[label])
    slope, shift = fit_repair(np.concatenate(p), np.concatenate(truth), np.concatenate(group), DEPTHS + 1)
    model = replace(model, slope=slope, shift=shift, rest=rest)
    found = model.calibrated(replace(posterior, model=model), closed)
    # These rows also chose the repair, and new ones may be told a little less surely: without `calibrate` no label that is
    # more likely than not is left out, whatever share of misses is accepted.
    return replace(found, risk_p=np.minimum(found.risk_p, 0.5))


def with_rows(
    model: SetModel,
    rows: Rows,
    closed: sparse.csr_matrix,
    weight: np.ndarray,
    rng: np.random.Generator,
    crew: Crew,
) -> SetModel:
    """The model with further rows and their balls (rows × nodes). Heads are trained on all rows; the combiner stays as it is."""
    old = model.Y.tocoo()
    before = sparse.csr_matrix((old.data, (old.row, model.ball[old.col])), shape=(old.shape[0], model.tree.n_nodes))
    every = sparse.csr_matrix(sparse.vstack([before, closed]))
    ball = np.flatnonzero(np.asarray(every.sum(0)).ravel() > 0)
    kept = ("odds", "slope", "shift", "rest", "risk_p", "risk_weight", "risk_rows")
    grown = _with_heads(
        model.tree,
        ball,
        model.class_nodes,
        Rows.joined([model.rows, rows]),
        sparse.csr_matrix(every[:, ball]),
        model.texts,
        np.concatenate([model.weight, weight]),
        rng,
        crew,
    )
    return replace(grown, **{name: getattr(model, name) for name in kept})


def closed_sets(tree: Tree, sets: tuple[np.ndarray, np.ndarray]) -> sparse.csr_matrix:
    """Sets of nodes with all ancestors by any path but the root, (sets × nodes) of 0 and 1."""
    start, ids = tree.closure(sets)
    shape = (len(start) - 1, tree.n_nodes)
    table = sparse.csr_matrix((np.ones(len(ids), np.float32), ids, start), shape=shape)
    table.data[table.indices == 0] = 0.0
    table.eliminate_zeros()
    return table


def remember(
    tree: Tree,
    ball: np.ndarray,
    X: sparse.csr_matrix,
    Y: sparse.csr_matrix,
    heads: sparse.csr_matrix,
    offset: np.ndarray,
) -> SetMemory:
    """All that evidence is read from: rows, heads and sums, and the edges among the balls."""
    start, up = tree.all_parents
    place = np.full(tree.n_nodes, -1, np.int64)
    place[ball] = np.arange(len(ball))
    child = place[np.repeat(np.arange(tree.n_nodes), np.diff(start))]
    inside = (child >= 0) & (place[up] >= 0)
    counts = np.bincount(child[inside], minlength=len(ball))
    parents = ByRow(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        place[up[inside]].astype(np.int32),
        np.ones(int(inside.sum()), np.float32),
    )
    return _evidence.remember(X, Y, heads, offset, parents, tree.depth[ball])


def true_marginals(posterior: SetPosterior, closed: sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray, int]:
    """Marginals of the true balls of every row, the weight of each (a row's sum to 1) and the number of rows.

    Rows without an answer have nothing to miss; balls never met have marginal 0.
    """
    model = posterior.model
    place = np.full(model.tree.n_nodes, -1, np.int64)
    place[model.ball] = np.arange(len(model.ball))
    counts = np.diff(closed.indptr)
    row = np.repeat(np.arange(len(counts)), counts)
    at = place[closed.indices]
    p = np.zeros(len(at), np.float32)
    for part in posterior.parts():
        low, high, _ = part.indices(len(posterior))
        here = np.flatnonzero((row >= low) & (row < high) & (at >= 0))
        p[here] = posterior.marginals(part)[row[here] - low, at[here]]
    return p, 1.0 / counts[row], len(counts)


def _has(Y: sparse.csr_matrix, row: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Which pairs of row and label are in a table of 0 and 1."""
    width = np.int64(Y.shape[1])
    mine = np.repeat(np.arange(Y.shape[0], dtype=np.int64), np.diff(Y.indptr)) * width + Y.indices
    return np.isin(row * width + label, mine)
