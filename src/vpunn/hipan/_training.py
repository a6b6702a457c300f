"""Fitting: heads on most rows, evidence on the rows held out, by which `_teaching` has a combiner learn, then heads on all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse

from vpunn._progress import reached
from vpunn.hipan._arrays import Sparse
from vpunn.hipan._balls import FEW_CLASSES, Balls
from vpunn.hipan._crew import Crew
from vpunn.hipan._dense import are_many
from vpunn.hipan._experts import Decided, Experts, Seen
from vpunn.hipan._holdout import HEAVY, Round, pace, plan_holdout
from vpunn.hipan._linear import Linear, chosen, is_for
from vpunn.hipan._lists import unmet_in_list
from vpunn.hipan._local import suits
from vpunn.hipan._measure import Measure, numbers_of
from vpunn.hipan._measuring import heard_together, measurable, measured, pays
from vpunn.hipan._nearest import Nearest
from vpunn.hipan._places import repeats
from vpunn.hipan._plain import tells_plainly
from vpunn.hipan._ram import give_back
from vpunn.hipan._teaching import HeldOut
from vpunn.hipan._unseen import as_unseen, asked_again, still_found
from vpunn.hipan._views import Rows, Sample
from vpunn.hipan._weights import Heads, by_likelihood, train_branch
from vpunn.hipan._within import WIDE
from vpunn.tree import Tree

#: A row whose loss is below this when it is met is not visited again.
EXPLAINED = 0.1
#: A row whose loss is above this looks for new classes to be told from before each pass, the others do before the second only.
CONFUSED = 1.0
#: Among more dense rows than this, the nearest of each is not looked for: few are held out together with theirs.
MANY_DENSE = 10_000
#: Of heavy rows no further pass is made once no more than this share was confused when met again: it makes heads surer, at a
#: price. (Shorter rows get all passes: those of 29 classes by headlines lose 0.002 without.)
HARDLY = 0.001
#: Passes over heavy rows of few classes, which linear heads tell apart: on validation rows more bring nothing. (Shorter rows of
#: several sources lose 0.006 with one.)
BESIDE_LINEAR = 1
#: How often heads that answer are trained, unless rows are heavy or classes few: where they end depends on the order of rows, and
#: their mean is right a little more often (on validation rows of ten of twelve splits of seven tasks, in the mean of four seeds).
TIMES = 3
#: Held-out rows that tell whether a dense block has a say.
LOOKED_AT = 1000
#: One of so many rows must have its node proposed by likelihoods alone, or they do not propose: on validation rows one of 5 or more
#: has among yes and no, one of 150 to none of texts.
WORTH_FINDING = 50
#: Rows that were learned and are asked again.
KNOWN = 300
#: Part of a fit that the heads take; the combiner and its calibration take the rest.
HEADS_SHARE = 0.6


@dataclass
class Settings:
    """What `HiPaNClassifier` passes down."""

    candidates: int
    epochs: int
    holdout: float
    hidden: int
    crew: Crew = field(default_factory=Crew)
    heavy: bool = False  #: as all rows of a fit are, whichever are held out
    in_cells: bool = False  #: whether those of dense blocks stand in cells, likewise
    is_local: bool = False  #: whether classes have spreads of their own there, likewise
    placed: frozenset[str] = frozenset()  #: in which of them rows stand where others stand, likewise
    plain: frozenset[str] = frozenset()  #: which of them are read by plain distances, likewise
    beside: bool = False  #: whether linear heads stand beside those of balls, likewise
    nearer: bool = False  #: whether nearness to an item never counts against its class


def fit_parts(
    tree: Tree,
    sample: Sample,
    given: Sample | None,
    unit: np.ndarray,
    n_empty: int,
    settings: Settings,
    rng: np.random.Generator,
) -> tuple[Experts, HeldOut]:
    """Train the experts. Rows held out take no part in the model that judges them, neither in its sums nor its weights.

    Where rows to be judged are ``given``, none are held out.
    """
    few, heavy = is_for(sample.words()), sample.rows.words.nnz >= HEAVY
    is_local = suits(len(sample.node), len(np.unique(sample.node)))
    in_cells = are_many(len(sample.node))
    dense, asked = sample.rows.dense, sample.kind == 0
    placed = frozenset(name for name, block in dense.items() if repeats(block))
    plain = frozenset(name for name, block in dense.items() if tells_plainly(block[asked], sample.node[asked]))
    settings = replace(
        settings, heavy=heavy, in_cells=in_cells, is_local=is_local, placed=placed, plain=plain, beside=few and heavy
    )
    times = 1 if heavy or few else TIMES
    if given is not None:
        experts = _trained(tree, sample, None, settings, rng, times)
        _first_look(experts, sample, np.arange(len(sample.node)), given, settings, few)
        judged = HeldOut.joined(judge(experts, given, settings, np.arange(len(given.node))))
        return _measured_if_it_pays(experts, judged, n_empty)
    asked = np.flatnonzero(sample.kind == 0)
    node = sample.node[asked].astype(np.int64)
    unmet = unmet_in_list(node, unit, n_empty)
    rounds = []
    if unmet != 0.0:
        nearest = _nearest_row(sample.take(asked).rows, unit)
        few_classes, rich = len(np.unique(node)) <= FEW_CLASSES, len(sample.rows.dense) > 0
        others = len(sample.node) - len(asked)
        share, enough = pace(settings.holdout, len(asked), others, _numbers(sample), few_classes, rich)
        rounds = plan_holdout(node, unit, n_empty, share, rng, nearest, enough)
        del nearest  # it holds all rows by feature
    found: list[HeldOut] = []
    decided: Decided | None = None  # what the first round finds holds for all
    dual: np.ndarray | None = None  # of the linear heads of the last round, where those of all rows start
    hide = True
    for done, one in enumerate(rounds):
        reached(f"heads {done + 1}/{len(rounds) + 1}", HEADS_SHARE * done / (len(rounds) + 1))
        out = asked[one.out]
        left = np.concatenate([out, asked[one.dropped]])
        kept = np.setdiff1d(np.arange(len(sample.node)), left)
        if len(kept) == 0:  # a single row cannot be held out from itself
            kept = out
        experts = _trained(tree, _as_listed(sample, kept, asked, one), decided, settings, rng)
        experts.heads.energy = experts.heads.energy[:0].copy()  # they are not trained again
        own = np.zeros((len(kept), len(experts.balls.classes)), np.float32) if few else None
        if decided is None:
            decided = _first_look(experts, sample, kept, sample.take(out), settings, few, own)
            hide = still_found(experts.balls.items, sample.take(out))
        else:
            experts.linear = Linear.fitted(experts.balls, decided.cost, few, own)
        asking = sample.take(out)
        asking.weight = (asking.weight * one.weight).astype(np.float32)
        found += judge(experts, asking, settings, out, (one.together(node, unit), one.is_cut()), hide=hide)
        if own is not None and done + 1 == len(rounds):
            dual = np.zeros((len(sample.node), own.shape[1]), np.float32)
            dual[kept] = own
        del experts, own, asking  # before the next ones: of a million rows they take gigabytes
        give_back()
    reached(f"heads {len(rounds) + 1}/{len(rounds) + 1}", HEADS_SHARE * len(rounds) / (len(rounds) + 1))
    # From the beginning, as the judged ones were: heads that go on where those stopped are surer than what was judged.
    everything = _trained(tree, sample, decided, settings, rng, times)
    again = None if unmet is None else asked_again(sample.take(asked), unmet, rng)
    if again is not None and decided is None:
        _first_look(everything, sample, None, again, settings, few)
    else:
        if dual is not None and dual.shape[1] < len(everything.balls.classes):
            dual = None
        everything.linear = Linear.fitted(everything.balls, decided.cost if decided else 0.0, few, dual)
    if again is not None:
        found += judge(everything, again, settings, hide=False)
    give_back()
    return _measured_if_it_pays(everything, HeldOut.joined(found), n_empty)


def _as_listed(sample: Sample, kept: np.ndarray, asked: np.ndarray, one: Round) -> Sample:
    """The ``kept`` rows; those of classes cut down weigh as much as the rows of a list (of ``asked`` ones) that they stand for: by
    weights that make up for the number of a class's rows they would weigh next to nothing beside those."""
    learned = sample.take(kept)
    if one.n_cut and len(one.listed):
        cut = (learned.kind == 0) & np.isin(learned.node, sample.node[asked[one.cut()]])
        weighs, should = learned.weight[cut].mean(), sample.weight[asked[one.listed]].mean()
        if weighs > 0:
            learned.weight = np.where(cut, learned.weight * np.float32(should / weighs), learned.weight)
    return learned


def _measured_if_it_pays(experts: Experts, held: HeldOut, n_empty: int) -> tuple[Experts, HeldOut]:
    """Experts and what they said about rows held out: without the learned measure if it does not make those likelier."""
    if experts.measure is None:
        return experts, held
    names = experts.names()
    own = np.array([name.removeprefix("rank by ") in experts.measure.names() for name in names])
    if pays(held, len(experts.balls.classes) + n_empty, names, own):
        return experts, held
    held.forget_columns(own)
    return experts.without_measure(), held


def known_rows(experts: Experts, sample: Sample, settings: Settings) -> HeldOut:
    """Evidence about some of the rows that were learned."""
    asked = np.flatnonzero(sample.kind == 0)
    some = asked[np.linspace(0, len(asked) - 1, min(len(asked), KNOWN)).astype(np.int64)]
    return HeldOut.joined(judge(experts, sample.take(some), settings, hide=False))


def _trained(
    tree: Tree, sample: Sample, decided: Decided | None, settings: Settings, rng: np.random.Generator, times: int = 1
) -> Experts:
    """Experts of some rows, heads trained on all of them, so many ``times``: theirs is the mean."""
    experts = Experts.fitted(
        tree, sample, decided, settings.in_cells, settings.is_local, settings.placed, settings.plain
    )
    give_back()  # the sums came out of matrices of several times their size
    train_branch(experts.balls, experts.heads, rng)
    give_back()
    rows = np.arange(len(sample.node))
    known = train(experts.balls, experts.heads, rows, settings, rng)
    for done in range(1, times):
        other = Heads.zeros(experts.balls)
        train(experts.balls, other, rows, settings, rng, known)
        experts.heads.draw_to(other, 1 / (done + 1))
        del other
    give_back()
    experts.heads = experts.heads.rounded()
    give_back()
    return experts


def _first_look(
    experts: Experts,
    sample: Sample,
    kept: np.ndarray | None,
    asked: Sample,
    settings: Settings,
    few: bool,
    dual: np.ndarray | None = None,
) -> Decided:
    """What rows the experts have not seen decide for good: which blocks have a say (the others leave) and propose, whether
    likelihoods do, the linear heads' cost (``dual``: see `chosen`), and the weights of the measure; the penalties of the dense
    heads are as these experts chose them. Items are the rows ``kept``; None: rows that were learned are asked, and nothing is
    measured, as each would find itself."""
    silent = without_a_say(experts, asked, settings.candidates)
    apart = [name for name in silent if sample.rows.dense[name].shape[1] < WIDE]
    kept = kept if kept is not None and measurable(sample.rows) else None
    if apart and kept is not None and heard_together(experts.balls, sample.rows, kept, asked, apart):
        silent = [name for name in silent if name not in apart]
        for name in apart:
            experts.dense[name].proposes = False
    for name in silent:
        for blocks in (experts.dense, sample.rows.dense, asked.rows.dense):
            blocks.pop(name, None)
    experts.linear = chosen(experts.balls, asked.rows.words, asked.node, asked.weight, few, dual)
    experts.balls.by_likelihood = finds_by_likelihood(experts, asked, settings.candidates)
    proposes = {name for name, block in experts.dense.items() if block.proposes}
    penalty = {name: block.penalty for name, block in experts.dense.items()}
    rest = experts.linear.cost, experts.balls.by_likelihood
    if kept is not None and measurable(sample.rows):
        measure = measured(experts.balls, numbers_of(sample.rows)[kept], asked)
        measure.proposes = _adds_nodes(experts, measure, asked, settings.candidates)
        experts.measure = measure
        return Decided(proposes, penalty, *rest, measure.weight, measure.proposes)
    return Decided(proposes, penalty, *rest)


def _numbers(sample: Sample) -> int:
    """How many numbers are read again and again to train experts: entries of words, and of dense blocks with trained heads."""
    few = len(np.unique(sample.node)) <= FEW_CLASSES
    return int(sample.rows.words.nnz) + (sum(block.size for block in sample.rows.dense.values()) if few else 0)


def _nearest_row(rows: Rows, unit: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
    """For some of the rows the nearest one of another unit, by the words or else by the first dense block."""
    if rows.words.nnz:
        nowhere = np.zeros(len(rows), np.int32)
        memory = Nearest(Tree.from_parents([-1]), nowhere, nowhere, rows.words, sparse.csc_matrix(rows.words))
        return lambda some: memory.closest(rows.words[some], 1, unit[some], unit)[0][:, 0]
    X = next(iter(rows.dense.values()), None)
    if X is None or len(X) > MANY_DENSE:
        return None
    Z = np.asarray((X - X.mean(0)) / np.maximum(X.std(0), 1e-9), np.float32)
    Z /= np.maximum(np.sqrt((Z**2).sum(1, keepdims=True)), 1e-9)

    def by_angle(some: np.ndarray) -> np.ndarray:
        near = Z[some] @ Z.T
        near[unit[some][:, None] == unit] = -2.0
        return np.asarray(near.argmax(1))

    return by_angle


def without_a_say(experts: Experts, asked: Sample, limit: int) -> list[str]:
    """Dense blocks in which held-out rows lie no nearer to their own class than to any other; at least one block stays.

    Nearer by the centroids' angles or by the closed-form head, each class against its mean over the rows, so that a common class
    is not ahead by being common. The share of classes that are farther than the row's own averages ½ by chance, with a standard
    deviation of √(1/12n); some `LOOKED_AT` rows are enough to tell. A block that has a say proposes only if it finds nodes that the
    words do not, twice as often as any list of that length would.
    """
    if not experts.dense:
        return []
    asked = _some(asked)
    silent = []
    words = experts.balls.items.X.nnz > 0
    first, read = None, experts.read(asked.rows)
    for name, block in experts.dense.items():
        look = block.look(asked.rows.dense[name])
        known = (look.length > 0) & (block.class_at[asked.node] >= 0)
        own = block.class_at[asked.node[known]]
        scores = (look.centroids(), look.closed())
        ahead = max(_ahead(score[known], own) for score in scores) if known.any() else 1.0
        if ahead < 3.0 / np.sqrt(12.0 * max(int(known.sum()), 1)):
            silent.append(name)
            continue
        if len(experts.balls.classes) <= FEW_CLASSES or not words:
            continue
        if first is None:
            first = experts.proposals(asked.rows, read, [], limit)
        more = experts.proposals(asked.rows, read, [look], limit)
        block.proposes = _finds_more(first, more, asked.node, len(experts.balls.classes))
    return silent if words or len(silent) < len(experts.dense) else silent[1:]


def _finds_more(first: np.ndarray, more: np.ndarray, node: np.ndarray, n_classes: int) -> bool:
    """Whether candidates that ``more`` has beside the ``first`` are right twice as often as any list of that length would be."""
    missed = (first != node[:, None]).all(1)
    found = missed & (more == node[:, None]).any(1)
    chance = ((more >= 0).sum(1) - (first >= 0).sum(1))[missed].sum() / n_classes
    return bool(found.sum() > 2.0 * chance + 3.0)


def _adds_nodes(experts: Experts, measure: Measure, asked: Sample, limit: int) -> bool:
    """Whether the measure finds nodes that all others miss."""
    if len(experts.balls.classes) <= FEW_CLASSES:
        return False
    asked = _some(asked)
    with experts.balls.ready_for(asked.rows.words):
        read, looks = experts.read(asked.rows), experts.look(asked.rows)
    first = experts.proposals(asked.rows, read, looks, limit)
    more = experts.proposals(asked.rows, read, [*looks, measure.look(asked.rows)], limit)
    return _finds_more(first, more, asked.node, len(experts.balls.classes))


def finds_by_likelihood(experts: Experts, asked: Sample, limit: int) -> bool:
    """Whether likelihoods propose the nodes of one row in `WORTH_FINDING`, and more than any list would, that nobody else does.

    Of texts they find next to none, and every candidate takes time. Of rows with many features that say little each, as those of
    yes and no, they find what cosines miss.
    """
    balls = experts.balls
    if len(balls.classes) <= FEW_CLASSES or not balls.items.X.nnz or not balls.use_likelihood:
        return False
    asked = _some(asked)
    with balls.ready_for(asked.rows.words):
        read, looks = experts.read(asked.rows), experts.look(asked.rows)
    first = experts.proposals(asked.rows, read, looks, limit)
    missed = np.flatnonzero((first != asked.node[:, None]).all(1))
    more = by_likelihood(balls, Sparse.of(asked.rows.words[missed]), limit)
    found = (more == asked.node[missed, None]).any(1).sum()
    chance = (more >= 0).sum() / len(balls.classes)
    return bool(found > 2.0 * chance + max(3.0, len(asked.node) / WORTH_FINDING))


def _some(asked: Sample) -> Sample:
    """As many of the rows as are enough to tell."""
    if len(asked.node) <= LOOKED_AT:
        return asked
    return asked.take(np.linspace(0, len(asked.node) - 1, LOOKED_AT).astype(np.int64))


def _ahead(score: np.ndarray, own: np.ndarray) -> float:
    """The mean share of other columns that each row's own one is above, every column against its mean, less ½."""
    score = score - score.mean(0)
    mine = score[np.arange(len(score)), own][:, None]
    behind = (score < mine).sum(1) + 0.5 * ((score == mine).sum(1) - 1)
    return float(behind.mean() / max(score.shape[1] - 1, 1)) - 0.5


def train(
    balls: Balls,
    heads: Heads,
    rows: np.ndarray,
    settings: Settings,
    rng: np.random.Generator,
    known: np.ndarray | None = None,
) -> np.ndarray | None:
    """Passes over some of the items, each against the classes the heads confuse it with; explained rows drop out.

    Returns the nearest classes of each, it itself left out, which are ``known`` when other heads of the same rows are trained.
    """
    if not balls.items.X.shape[1]:
        return None
    limit = min(settings.candidates, len(balls.classes))
    near = limit * 5 // 8 or 1
    crew = settings.crew
    there = crew.share(balls)
    known = crew.nearest(there, rows, limit) if known is None else known
    nearest = known
    candidates = np.full((len(balls.items.node), max(2 * near, nearest.shape[1])), -1, np.int32)
    candidates[rows, : nearest.shape[1]] = nearest
    losses = np.full(len(balls.items.node), np.inf, np.float32)
    for epoch in range(min(settings.epochs, BESIDE_LINEAR) if settings.beside else settings.epochs):
        if epoch:
            waiting = losses[rows] > EXPLAINED
            rows, nearest = rows[waiting], np.ascontiguousarray(nearest[waiting])
            if not len(rows):
                return known
            if epoch > 1 and settings.heavy and (losses[rows] > CONFUSED).sum() <= HARDLY * len(losses):
                return known
            again = np.flatnonzero(losses[rows] > CONFUSED) if epoch > 1 else np.arange(len(rows))
            some = rows[again]
            found = crew.confused(there, crew.share(heads.arrays()), some, nearest[again, :near], near)
            candidates[some] = -1
            candidates[some, : found.shape[1]] = found
            del found
        give_back()
        crew.passed(balls, there, heads, candidates, rng.permutation(rows), losses)
    return known


def judge(
    experts: Experts,
    sample: Sample,
    settings: Settings,
    row: np.ndarray | None = None,
    standing: tuple[np.ndarray, np.ndarray] | None = None,
    *,
    hide: bool = True,
) -> list[HeldOut]:
    """Candidates and evidence for rows the model has not seen, a batch at a time; rare features ``hide`` as in new rows
    (`as_unseen`). ``standing`` says which stand together, and which are of classes that were cut down.

    Batches are joined once the experts are gone: evidence is large, and so are they.
    """
    words = as_unseen(experts.balls.items.X, sample.rows.words) if hide else sample.rows.words
    rows = Rows(words, sample.rows.dense)
    parts = list(experts.batches(len(rows)))
    give_back()
    with experts.balls.ready_for(words):
        give_back()
        found = settings.crew.examined(experts, rows, parts, settings.candidates)
    row = np.full(len(rows), -1) if row is None else row
    together, cut = (-1 - np.arange(len(rows)), np.zeros(len(rows), bool)) if standing is None else standing
    return [
        HeldOut(Seen(*seen), sample.node[part], sample.weight[part], row[part], together[part], cut[part])
        for seen, part in zip(found, parts, strict=True)
    ]
