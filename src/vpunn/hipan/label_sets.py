"""Rows with several labels: the probability that some answer lies in a node, for every node, on the engine of single labels.

The fit in five steps:

1. nodes      the labels of every row with all their ancestors, by any edge
2. folds      groups of rows that leave together
3. evidence   what experts of words, of numbers and of descriptions say about rows they have not seen, node by node
4. combiner   one log-odds for every pair of row and node, then a repair by depth
5. experts    of all rows, for questions

A node is never more probable than any of its parents: half the largest of what is below it, half the least of what is above it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from vpunn.errors import VpunnError
from vpunn.hipan.experts import Rows
from vpunn.hipan.folds import equal_rows, folds, joined
from vpunn.hipan.holding import stacked
from vpunn.hipan.set_calibration import DEPTHS, fit_repair, risk_threshold
from vpunn.hipan.set_combiner import SetCombiner
from vpunn.hipan.set_experts import SetExperts, beyond, dense_of, log_odds, of_nodes, readable, words_of
from vpunn.hipan.set_nodes import Nodes, closed_sets, has
from vpunn.hipan.set_posterior import SetPosterior
from vpunn.hipan.set_words import Pairs
from vpunn.tree import Tree

#: Folds that are held out where there are numbers: networks are trained anew for each.
FOLDS_OF_NUMBERS = 2
#: Two thirds of the held-out rows teach the combiner, the others repair it; fewer of them do both.
WORTH_A_PART = 150


class Risk(NamedTuple):
    """What the promise of ``stop="risk"`` rests on: the marginals of true nodes, what each weighs in its row, and how many rows."""

    p: np.ndarray
    weight: np.ndarray
    rows: int


@dataclass
class SetModel:
    """Everything that answers need."""

    tree: Tree
    class_nodes: np.ndarray
    rows: Rows
    weight: np.ndarray
    experts: SetExperts
    combiner: SetCombiner
    slope: np.ndarray = field(default_factory=lambda: np.ones(DEPTHS + 1))  # repair of log-odds by depth
    shift: np.ndarray = field(default_factory=lambda: np.zeros(DEPTHS + 1))
    rest: float = 0.0  # rate of nodes that are no candidates, as a share of their rate in training
    risk: Risk = field(default_factory=lambda: Risk(np.zeros(0), np.zeros(0), 0))
    groups: np.ndarray | None = None  # of rows that are held out together

    @property
    def nodes(self) -> Nodes:
        """The nodes that rows have."""
        return self.experts.nodes

    @property
    def ball(self) -> np.ndarray:
        """Their numbers in the tree."""
        return self.nodes.node

    def names(self) -> tuple[str, ...]:
        """Names of the columns of evidence."""
        return self.experts.names

    def posterior(self, rows: Rows, *, evidence: bool = False) -> SetPosterior:
        """Marginals of rows; with ``evidence`` what the combiner read is kept."""
        return self.judge(self.experts.examine(rows), evidence=evidence)

    def judge(self, seen: Pairs, *, evidence: bool = False) -> SetPosterior:
        """`posterior` of rows that have been examined."""
        odds = self.combiner.log_odds(seen.evidence)
        silent = self.experts.unknown(seen.evidence)
        rate = np.clip(self.experts.words.rate[seen.place[silent]], 1e-6, 1 - 1e-6)
        odds[silent] = np.log(rate / (1 - rate))  # what holds of rows in general
        return SetPosterior(self, seen.start, seen.place, odds, seen.evidence if evidence else None)

    def settle(self, start: np.ndarray, place: np.ndarray, odds: np.ndarray) -> np.ndarray:
        """Marginals (rows, nodes) of candidates with log-odds: settled among parents and children, repaired by depth, raised."""
        many = len(self.ball)
        p = np.zeros((len(start) - 1, many), np.float32)
        p[np.repeat(np.arange(len(p)), np.diff(start)), place] = 1 / (1 + np.exp(-np.clip(odds, -60, 60)))
        p = self.nodes.agreed(p)
        group = np.minimum(self.nodes.depth, DEPTHS)
        x = log_odds(p) * self.slope[group].astype(np.float32) + self.shift[group].astype(np.float32)
        repaired = np.where(p > 0, 1 / (1 + np.exp(-x)), 0)
        rest = self.rest * self.experts.words.rate
        return self.nodes.raised(np.maximum(repaired, rest).astype(np.float32))

    def threshold_for(self, alpha: float) -> float:
        """The largest threshold whose share of missed answers is at most ``alpha`` in expectation."""
        return risk_threshold(*self.risk, alpha)

    def calibrated(self, posterior: SetPosterior, closed: sp.csr_matrix) -> SetModel:
        """The model with its promise of ``stop="risk"`` set on other rows; ``closed`` are their true nodes (rows, nodes)."""
        return replace(self, risk=Risk(*true_marginals(posterior, closed)))

    def with_rows(self, rows: Rows, closed: sp.csr_matrix, weight: np.ndarray, rng: np.random.Generator) -> SetModel:
        """The model with further rows and their nodes (rows, nodes): experts are fitted on all rows, the combiner stays."""
        more = None if self.groups is None else self.groups.max() + 1 + np.arange(len(weight))
        groups = None if more is None else np.concatenate([self.groups, more])
        every, closed = stacked([self.rows, rows]), sp.csr_matrix(sp.vstack([self.closed, closed]))
        return self._of_rows(every, closed, np.concatenate([self.weight, weight]), groups, rng)

    def without_rows(self, gone: np.ndarray, rng: np.random.Generator) -> SetModel:
        """The model without some of its rows: experts are fitted on the others, the combiner stays."""
        stay = np.setdiff1d(np.arange(len(self.rows)), gone)
        groups = None if self.groups is None else self.groups[stay]
        return self._of_rows(self.rows.take(stay), self.closed[stay], self.weight[stay], groups, rng)

    def _of_rows(
        self,
        rows: Rows,
        closed: sp.csr_matrix,
        weight: np.ndarray,
        groups: np.ndarray | None,
        rng: np.random.Generator,
    ) -> SetModel:
        nodes, truth = _nodes(self.tree, closed)
        experts = SetExperts.fit(rows, nodes, truth, weight, self.experts.texts, rng)
        return replace(self, rows=rows, weight=weight, experts=experts, groups=groups)

    @property
    def closed(self) -> sp.csr_matrix:
        """The nodes of the rows, (rows, nodes of the tree)."""
        known = self.experts.words.truth.tocoo()
        shape = (known.shape[0], self.tree.n_nodes)
        return sp.csr_matrix((known.data, (known.row, self.ball[known.col])), shape=shape)


class _Held(NamedTuple):
    """Rows that the experts have not seen, in random order: what they said, and the true nodes and weights."""

    seen: Pairs
    closed: sp.csr_matrix
    weight: np.ndarray

    @classmethod
    def joined(cls, parts: list[_Held]) -> _Held:
        seen, closed, weight = zip(*parts, strict=True)
        return cls(Pairs.joined(list(seen)), sp.csr_matrix(sp.vstack(closed)), np.concatenate(weight))

    def take(self, rows: np.ndarray) -> _Held:
        return _Held(self.seen.take(rows), self.closed[rows], self.weight[rows])


def fit(
    tree: Tree,
    rows: Rows,
    sets: tuple[np.ndarray, np.ndarray],
    class_nodes: np.ndarray,
    weight: np.ndarray,
    rng: np.random.Generator,
    *,
    groups: np.ndarray | None = None,
    texts: tuple[sp.csr_matrix, ...] = (),
    validation: tuple[Rows, sp.csr_matrix] | None = None,
) -> SetModel:
    """Learn from rows whose labels are ``sets`` of nodes ``(start, ids)``.

    ``texts`` are descriptions of all nodes (nodes of the tree, features), one matrix a kind. With ``validation``, rows and their
    nodes (rows, nodes of the tree), those teach the combiner and none are held out.
    """
    # 1. nodes
    closed = closed_sets(tree, sets)
    nodes, truth = _nodes(tree, closed)
    # 2. folds
    held_out = [] if validation else _folds(rows, groups, rng)
    # 3. evidence of rows that the experts have not seen
    words, held = words_of(rows), []
    wide = beyond(of_nodes(texts, nodes), words)
    for leaving in held_out:
        kept = np.setdiff1d(np.arange(len(rows)), leaving, assume_unique=True)
        kept = kept if len(kept) else leaving
        known = texts if wide else readable(texts, words[kept])
        experts = SetExperts.fit(rows.take(kept), nodes, truth[kept], weight[kept], known, rng)
        order = rng.permutation(leaving)
        held.append(_Held(experts.examine(rows.take(order)), closed[order], weight[order]))
        del experts
    # 5. experts of all rows
    experts = SetExperts.fit(rows, nodes, truth, weight, texts, rng)
    if validation:
        order = rng.permutation(len(validation[0]))
        asked = validation[0].take(order), validation[1][order]
        held = [_Held(experts.examine(asked[0]), asked[1], np.ones(len(order)))]
    # 4. combiner
    n = [len(part.weight) for part in held]
    teach = check = held
    if sum(n) > WORTH_A_PART:
        teach = [part.take(np.arange(max(2 * k // 3, 1))) for part, k in zip(held, n, strict=True)]
        check = [part.take(np.arange(max(2 * k // 3, 1), k)) for part, k in zip(held, n, strict=True)]
    learned = _Held.joined(teach)
    row, place = learned.seen.row, learned.seen.place
    true = has(sp.csr_matrix(learned.closed[:, nodes.node]), row, place)
    combiner = SetCombiner.fit(
        learned.seen.evidence, true, learned.weight[row], len(learned.weight), experts.alone, rng
    )
    model = SetModel(tree, class_nodes, rows, weight, experts, combiner, groups=groups)
    return _repaired(model, _Held.joined(check))


def _folds(rows: Rows, groups: np.ndarray | None, rng: np.random.Generator) -> list[np.ndarray]:
    """Rows of each fold; where all are of one group, half of the rows, and one row alone is asked about itself."""
    n = len(rows)
    equal = equal_rows(list(rows.blocks))
    equal = equal if groups is None else joined(equal, groups)
    for group in (equal, np.arange(n)):
        found = folds(group, np.zeros(n, np.int64), np.array([n]), True, rng)
        if found:
            return found[:FOLDS_OF_NUMBERS] if dense_of(rows) else found
    return [np.arange(n)]


def _nodes(tree: Tree, closed: sp.csr_matrix) -> tuple[Nodes, sp.csr_matrix]:
    """The nodes that rows have, and which row has which."""
    node = np.flatnonzero(np.asarray(closed.sum(0)).ravel() > 0)
    if not len(node):
        raise VpunnError("every label is the root of the tree, which holds for all rows; there is nothing to learn.")
    return Nodes.of(tree, node), sp.csr_matrix(closed[:, node])


def _repaired(model: SetModel, held: _Held) -> SetModel:
    """The model with log-odds repaired by depth, the rate of nodes that are no candidates, and the promise of risk."""
    posterior = model.judge(held.seen)
    truth = sp.csr_matrix(held.closed[:, model.ball])
    rate = model.experts.words.rate.astype(np.float64)
    missed = float(truth.sum() - has(truth, held.seen.row, posterior.place).sum())
    outside = float(rate.sum() * len(posterior) - rate[posterior.place].sum())
    rest = min(missed / outside, 1.0) if outside > 0 else 0.0
    p, true, group = [], [], []
    for part in posterior.parts():
        settled = posterior.marginals(part)
        at, place = np.nonzero(settled > 1e-3)
        p.append(settled[at, place])
        true.append(has(truth[part], at, place))
        group.append(np.minimum(model.nodes.depth[place], DEPTHS))
    slope, shift = fit_repair(np.concatenate(p), np.concatenate(true), np.concatenate(group), DEPTHS + 1)
    model = replace(model, slope=slope, shift=shift, rest=rest)
    risk = Risk(*true_marginals(replace(posterior, model=model), held.closed))
    # These rows also chose the repair, and new ones may be told a little less surely: without `calibrate` no label that is
    # more likely than not is left out, whatever share of misses is accepted.
    return replace(model, risk=risk._replace(p=np.minimum(risk.p, 0.5)))


def true_marginals(posterior: SetPosterior, closed: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray, int]:
    """Marginals of the true nodes of every row, the weight of each (a row's sum to 1) and the number of rows.

    Rows without an answer have nothing to miss; nodes never met have marginal 0.
    """
    model: Any = posterior.model
    at_place = np.full(model.tree.n_nodes, -1, np.int64)
    at_place[model.ball] = np.arange(len(model.ball))
    counts = np.diff(closed.indptr)
    row, at = np.repeat(np.arange(len(counts)), counts), at_place[closed.indices]
    p = np.zeros(len(at), np.float32)
    for part in posterior.parts():
        low, high, _ = part.indices(len(posterior))
        here = np.flatnonzero((row >= low) & (row < high) & (at >= 0))
        p[here] = posterior.marginals(part)[row[here] - low, at[here]]
    return p, 1.0 / counts[row], len(counts)
