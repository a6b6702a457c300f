"""The combiner: evidence about each candidate in, one log-odds per candidate out, softmax over the row's candidates.

It is the only part of the classifier whose numbers do not belong to a ball. It is small (about a thousand numbers), shared
by all balls, and sees no feature of the row itself: only how strongly each source of evidence speaks for a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from vpunn.errors import VpunnError
from vpunn.hipan._balls import writable
from vpunn.hipan._ram import centre_and_scale
from vpunn.hipan._rest import BY_PRIOR
from vpunn.hipan._slots import COLUMNS, Slots, fit_linear

#: What the columns of `_evidence_kernels.gather_evidence` mean, in order; `evidence_names` adds those of descriptions.
EVIDENCE = (
    "cosine with the node's own centroid",
    "cosine with its ball's centroid",
    "cosine with the parent ball's centroid",
    "cosine with the grandparent ball's centroid",
    "similarity of the nearest training item",
    "similarity of the second nearest item",
    "share of the row the node has seen",
    "share of the row its ball has seen",
    "share of the row the parent ball has seen",
    "log-likelihood shrunk along the ancestors, below the best",
    "head score below the best",
    "head score of the node's own block",
    "head score of the parent's path, below the best",
    "log count of training items",
    "log count in the parent ball",
    "depth",
    "inner node",
    "coverage × cosine below the best",
    "nearest-item similarity below the best",
    "cosine below the best",
    "log-probability by the heads",
    "log-probability of the parent by the heads",
    "none of the candidates",
    "log number of siblings",
    "log number of features in the row",
    "nearest item among siblings, below the best",
    "nearest item, row read through the dictionary",
    "cosine with the node's centroid, row read through the dictionary",
    "nearest item through the dictionary, below the best",
    "cosine through the dictionary, below the best",
    "log-likelihood of the depth-1 ball, below the best",
    "log-probability of the depth-1 ball by the heads",
    "score of the depth-1 ball among all of them, below the best",
    "log-likelihood by the node's own rows, below the best",
)
#: Columns that folders without a list of theirs do not know.
LATER = (
    "log-likelihood by the node's own rows, below the best",
    "rank by log-likelihood by the node's own rows, below the best",
)


KIND_EVIDENCE = (
    "similarity with description {}",
    "share of description {} that the row has",
    "similarity with description {}, row read through the dictionary",
    "similarity with description {}, below the best",
    "share of description {}, below the best",
    "similarity with description {} through the dictionary, below the best",
)


#: Evidence by which candidates are also ranked: an answer that is best by several counts is likelier than its distances tell.
RANKED = (
    "log-probability by the heads",
    "coverage × cosine below the best",
    "nearest-item similarity below the best",
    "log-likelihood shrunk along the ancestors, below the best",
    "cosine through the dictionary, below the best",
    "log-likelihood by the node's own rows, below the best",
)
RANKED_PER_KIND = ("similarity with description {}",)


def ranked_names(n_kinds: int) -> tuple[str, ...]:
    """Names of the evidence columns of words that candidates are ranked by."""
    return RANKED + tuple(name.format(k + 1) for k in range(n_kinds) for name in RANKED_PER_KIND)


def evidence_names(n_kinds: int) -> tuple[str, ...]:
    """Names of all evidence columns of a model with that many descriptions per node."""
    return EVIDENCE + tuple(name.format(k + 1) for k in range(n_kinds) for name in KIND_EVIDENCE)


#: Passes over the held-out rows, and steps at least, as far as the rows suffice: a pass more per hundred from so many rows on.
PASSES, STEPS, MANY = 20, 500, 800

NONE = EVIDENCE.index("none of the candidates")
#: Where classes are few their counts tell which is which, and what is left of each in a round tells what was held out.
TELLTALE = ("log count of training items", "log count in the parent ball")
#: Where classes are alike in size and small, these tell that too: a class of one row has no second nearest.
ALIKE_TELLTALE = (*TELLTALE, "similarity of the second nearest item")
#: Evidence that could decide alone, in any block: the combiner starts from the best of them and is drawn to it.
ALONE = (
    "log-probability by the heads",
    "log-likelihood shrunk along the ancestors, below the best",
    "log-likelihood by the node's own rows, below the best",
    "log-probability by the linear heads",
    "log-votes of the nearest items for the node",
    "log-votes of the nearest items by the measure for the node",
    "nearest-item similarity below the best",
    "log-probability by the closed-form head",
    "log-probability by the trained head",
    "log-probability by the quadratic head",
    "log-votes of many nearest items by distance",
    "log-share of the items at the row's place",
)
#: Of these, what the nearest items say.
OF_MEMORY = tuple(name for name in ALONE if "nearest" in name)
#: Where the best linear combination loses less than this a row, hidden units have nothing to add.
SETTLED = 0.01
#: Held-out rows that the start is worth where there are `COLUMNS`, as of words alone; of twice as many it is worth four times as
#: many rows, as there are more ways to fit chance.
DOUBT = 5.0
#: Fewer held-out rows choose the one piece of evidence that explains them best, no more. Of a few rows of few classes each lies
#: nearer to another class once it has left its own: they teach to answer the opposite, and a sum of columns can be made to.
FEW_ROWS = 30
#: Where there are more columns than `COLUMNS`, so many rows tell which one explains them best.
ENOUGH_ALONE = 1000
#: If even the best would count for less than this of what it says, or against it, all count as they are.
WEAK = 0.2
#: By fewer held-out rows than this, nearness to an item does not count against its class: the few that lie nearest to another class
#: would say so by chance, and rows that have a copy among the items, as no held-out row has, would be far from their own class.
CHANCE = 200
#: A share of rows that could be anything, and how much likelier that must make all rows, in logarithms: three standard deviations.
ODD, SURELY_LIKELIER = 0.001, 4.5
#: Half of the hundred rows that doubt another temperature than 1.
DOUBTED = 50.0
#: Temperatures tried, in logarithms: from half to twice.
LARGEST_LOG = 0.7
NEAREST_ITEM = "log-distance of the nearest item above the least"


class Combiner(NamedTuple):
    """Score of a candidate with standardised evidence z: ``linear·z + output·max(0, hidden z + bias)``.

    What is less than the ``least`` or more than the ``most`` that held-out rows showed counts as that.
    Where an answer lies that is no candidate: ``sharpness`` says how much the depth-1 balls' scores for the row decide,
    ``ring_weights`` how near to the best candidate it is (`rest.fit_rings`).
    """

    centre: np.ndarray
    scale: np.ndarray
    least: np.ndarray
    most: np.ndarray
    linear: np.ndarray
    hidden: np.ndarray
    hidden_bias: np.ndarray
    output: np.ndarray
    sharpness: np.ndarray
    ring_weights: np.ndarray

    def scores(self, evidence: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Scores (rows, candidates + 1) of an evidence array, one row at a time in compiled loops; −inf where there is none."""
        from vpunn.hipan.kernels.combine import combine

        return np.asarray(combine(evidence, candidates, *map(writable, self[:-2])))

    def shares(self, evidence: np.ndarray, candidates: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
        """Softmax of the scores: probabilities of the candidates, and of "none" where not all classes are candidates."""
        from vpunn.hipan.kernels.combine import softmax

        p, none, numbers = softmax(self.scores(evidence, candidates), candidates, n_classes)
        if not numbers:
            raise VpunnError("the combiner's scores are not finite; the model is damaged, fit or load it again.")
        return p, none

    def unbounded(self) -> Combiner:
        """The same for evidence of any size."""
        least, most = anything(len(self.centre))
        return self._replace(least=least, most=most)

    def reading(self, columns: Sequence[int], width: int) -> Combiner:
        """The same for evidence of ``width`` columns, of which it reads those it was learned from and no other."""

        def among(values: np.ndarray, other: np.ndarray) -> np.ndarray:
            out = np.broadcast_to(other.astype(np.float32), (*values.shape[:-1], width)).copy()
            out[..., list(columns)] = values
            return out

        least, most = anything(width)
        none, one = np.zeros(width), np.ones(width)
        others = {"centre": none, "scale": one, "least": least, "most": most, "linear": none, "hidden": none}
        return self._replace(**{name: among(getattr(self, name), other) for name, other in others.items()})

    def cooled(self, temperature: float) -> Combiner:
        """The same with all scores divided by a temperature."""
        return self._replace(
            linear=(self.linear / temperature).astype(np.float32), output=(self.output / temperature).astype(np.float32)
        )

    def tilt(self, branch_score: np.ndarray, share: np.ndarray, known: np.ndarray) -> np.ndarray:
        """How much likelier than by the prior the nodes of each branch are, (rows, branches) with 1 for "no branch" in front.

        ``share`` is the branches' part of the prior; rows that are not ``known`` to any ball keep the prior.
        """
        tilt = np.ones((len(branch_score), len(share) + 1))
        if len(share) and known.all():
            np.exp(_log_tilt(branch_score, share, float(self.sharpness)), out=tilt[:, 1:])
        elif len(share):
            tilt[known, 1:] = np.exp(_log_tilt(branch_score[known], share, float(self.sharpness)))
        return tilt


def _log_tilt(branch_score: np.ndarray, share: np.ndarray, sharpness: float) -> np.ndarray:
    """Logarithm of exp(sharpness · score) over its mean under the prior."""
    lifted = sharpness * (branch_score.astype(np.float64) - branch_score.max(1, keepdims=True))
    return np.asarray(lifted - np.log((np.exp(lifted) * share).sum(1) / share.sum())[:, None])


def fit_sharpness(branch_score: np.ndarray, branch: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The sharpness that makes the branches of rows whose node was no candidate likeliest; 0, the prior, without such rows.

    ``branch`` counts from 1; rows of no branch are left out. Few rows leave it near 1.
    """
    inside = branch > 0
    if not inside.any():
        return np.zeros(())
    found = branch[inside] - 1
    at = np.arange(len(found))
    grid = np.arange(0, 12.1, 0.25)
    fit = [_log_tilt(branch_score[inside], share, s)[at, found].sum() - 0.5 * (s - 1.0) ** 2 for s in grid]
    return np.array(grid[np.argmax(fit)])


def fit_combiner(
    evidence: np.ndarray,
    valid: np.ndarray,
    truth: np.ndarray,
    weight: np.ndarray,
    names: Sequence[str],
    rng: np.random.Generator,
    *,
    hidden: int = 32,
    unread: Sequence[str] = (),
    nearer: bool = False,
    worth: float | None = None,
    decisive: Sequence[str] = ALONE,
) -> Combiner:
    """Minimise the weighted softmax cross-entropy of ``truth`` (slot of the right candidate) by Adam in mini-batches.

    ``valid`` marks the slots that hold a candidate, ``names`` the columns. First the one ``decisive`` column that does best alone;
    then the best linear combination, a ridge drawing it to that start; then the hidden units. The ridge is worth `DOUBT` held-out
    rows, so few rows stay near the best single expert, fewer than `FEW_ROWS` at it, and evidence that says nothing gets next to no
    weight; what is the same for all candidates, or ``unread``, gets none, and nearness no negative one by few rows (`CHANCE`) or if
    only ``nearer`` may be likelier.
    All rows together are ``worth`` as many that have nothing to do with each other. Batches are drawn by ``rng``; the last third of
    the passes averages the weights, which replaces a tuned learning-rate schedule.
    """
    n, width = len(evidence) if worth is None else worth, evidence.shape[2]
    seen = Slots.of(evidence, valid, truth, weight)
    centre, scale = centre_and_scale(seen.parts)
    least, most = seen.bounds() if n >= FEW_ROWS else anything(width)
    read = np.array([name not in unread for name in names]) & (scale >= 1e-6)  # nothing is learned from constants
    scale[scale < 1e-6] = 1.0
    penalty = np.float32(DOUBT * (width / COLUMNS) ** 2 / n)
    alone, misled = _best_alone(seen, [k for k, name in enumerate(names) if _decides(name, decisive)], scale, read)
    if n < FEW_ROWS:
        alone = _as_they_are(names, read, scale) if misled else alone
        best, loss = alone, 0.0
    else:
        best, loss = fit_linear(seen, alone, float(penalty), read / scale)
        near = [k for k, name in enumerate(names) if "nearest" in name] if nearer or n < CHANCE else []
        while against := [k for k in near if read[k] and best[k] < 0]:
            read[against], alone[against] = False, 0
            best, loss = fit_linear(seen, alone, float(penalty), read / scale)
    params = [
        best,
        (rng.standard_normal((hidden, width)) * np.sqrt(1.0 / width) * read).astype(np.float32),
        np.zeros(hidden, np.float32),
        (rng.standard_normal(hidden) * 0.1).astype(np.float32),
    ]
    if loss > SETTLED:
        unit = (read / scale).astype(np.float32)
        seen = seen.likely(best * unit)
        params = _with_hidden_units(seen, (centre.astype(np.float32), unit), params, alone, penalty, rng)
    else:
        params[3] = 0 * params[3]
    linear, weights, bias, output = params
    return Combiner(
        centre.astype(np.float32),
        scale.astype(np.float32),
        least,
        most,
        linear,
        weights,
        bias,
        output,
        np.zeros(()),
        BY_PRIOR,
    )


def anything(width: int) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of evidence that let every number pass."""
    most = np.full(width, np.finfo(np.float32).max, np.float32)
    return -most, most


def _with_hidden_units(
    seen: Slots,
    standard: tuple[np.ndarray, np.ndarray],
    params: list[np.ndarray],
    alone: np.ndarray,
    penalty: np.float32,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Adam from ``params`` (linear, hidden, hidden bias, output), drawn to one piece of evidence ``alone``; evidence counts less
    and times what is ``standard``."""
    n = len(seen.size)
    now = np.concatenate([p.ravel() for p in params])  # one behind the other: each step is one for all of them
    params = _cut(now, params)
    drawn_to, first, second = np.zeros((3, len(now)), np.float32)
    drawn_to[: len(alone)] = alone
    mean = np.zeros(len(now))
    batch = int(np.clip(n // 12, 16, 112))
    epochs = int(np.ceil(max(PASSES, min(STEPS * batch / n, PASSES + (n - MANY) / 100))))
    step = averaged = 0
    for epoch in range(epochs):
        order = rng.permutation(n)
        for start in range(0, n, batch):
            g = _gradient(seen.standard(order[start : start + batch], *standard), params)
            step += 1
            rate = 3e-3 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            g += penalty * (now - drawn_to)
            first += np.float32(0.1) * (g - first)
            second += np.float32(0.001) * (g * g - second)
            now -= np.float32(rate) * first / (np.sqrt(second) + np.float32(1e-8))
            if epoch >= epochs - max(epochs // 3, 1):
                averaged += 1
                mean += (now - mean) / averaged
    return _cut(mean.astype(np.float32), params)


def _cut(flat: np.ndarray, like: list[np.ndarray]) -> list[np.ndarray]:
    """Parts of an array in the shapes of others, one behind the other."""
    ends = np.cumsum([p.size for p in like])
    return [part.reshape(p.shape) for part, p in zip(np.split(flat, ends[:-1]), like, strict=True)]


def fit_temperature(score: np.ndarray, valid: np.ndarray, truth: np.ndarray, weight: np.ndarray) -> float:
    """What scores of rows that the combiner has not learned from must be divided by to be as sure as they are right.

    The likeliest temperature, with a hundred rows' worth of doubt that it is another than 1. A handful of rows whose class was held
    for impossible would have all others cooled: where all are surely likelier if one of a thousand could be anything, the
    temperature is the likeliest given that. It makes none surer, as answers leave no room for such rows.

    One number for all scores is a compromise: where a third of the rows is labelled with the node above theirs, the combiner is too
    sure which of the two it is, and not sure enough that it is no other. So where it is surely likelier that answers are right when
    they were and wrong when they were at another temperature, it is that one.
    """
    below = np.where(valid, score, -np.inf).astype(np.float64)
    below -= below.max(1, keepdims=True)
    at, log_size, rows = np.arange(len(below)), np.log(valid.sum(1)), in_rows(weight)

    def loss(log_t: float, odd: float) -> float:
        scaled = below * np.exp(-log_t)
        losses = np.log(np.exp(scaled).sum(1)) - scaled[at, truth]
        if odd:
            losses = -np.logaddexp(np.log1p(-odd) - losses, np.log(odd) - log_size)
        return float(rows @ losses + DOUBTED * log_t**2)

    log_t, of_others = _least(lambda log_t: loss(log_t, 0.0)), _least(lambda log_t: loss(log_t, ODD))
    if log_t > 0 and loss(log_t, 0.0) - loss(of_others, ODD) > SURELY_LIKELIER:
        return float(np.exp(max(of_others, 0.0)))
    answer = below[:, :-1].argmax(1)
    right, size = answer == truth, valid.sum(1)

    def unlikely(log_t: float) -> float:
        p = np.exp(below * np.exp(-log_t))
        p = (1.0 - ODD) * p[at, answer] / p.sum(1) + ODD / size
        return float(-(rows @ np.log(np.maximum(np.where(right, p, 1.0 - p), ODD / size))))

    best = _least(lambda log_t: unlikely(log_t) + DOUBTED * log_t**2)
    return float(np.exp(best if unlikely(log_t) - unlikely(best) > SURELY_LIKELIER else log_t))


def _least(loss: Callable[[float], float]) -> float:
    """Where a function of one hollow is least within ±`LARGEST_LOG`, by golden sections, to a thousandth."""
    golden = (np.sqrt(5.0) - 1.0) / 2.0
    low, high = -LARGEST_LOG, LARGEST_LOG
    left, right = high - golden * (high - low), low + golden * (high - low)
    below, above = loss(left), loss(right)
    while high - low > 1e-3:
        if below < above:
            high, right, above = right, left, below
            left = high - golden * (high - low)
            below = loss(left)
        else:
            low, left, below = left, right, above
            right = low + golden * (high - low)
            above = loss(right)
    return (low + high) / 2.0


def in_rows(weight: np.ndarray) -> np.ndarray:
    """Weights in rows that count alike: together as many as they are worth, (Σw)² / Σw² (Kish), whatever their scale.

    >>> in_rows(np.ones(3)).tolist(), in_rows(np.array([4.0, 2.0, 2.0, 0.0])).sum().round(2).item()
    ([1.0, 1.0, 1.0], 2.67)
    """
    weight = weight.astype(np.float64)
    return np.asarray(weight * (weight.sum() / (weight * weight).sum()))


def _decides(name: str, decisive: Sequence[str] = ALONE) -> bool:
    return not name.startswith("rank by ") and name.split(": ", 1)[-1] in decisive


def _best_alone(seen: Slots, columns: Sequence[int], scale: np.ndarray, read: np.ndarray) -> tuple[np.ndarray, bool]:
    """Weights of the one column, and of "none", that explain the rows best, and whether that column then counts for next to
    nothing or against what it says."""
    best, found, misled = np.inf, np.zeros(seen.z.shape[1], np.float32), True
    rows = len(seen.size)
    some = np.linspace(0, rows - 1, min(rows, ENOUGH_ALONE) if len(scale) > COLUMNS else rows).astype(np.int64)
    told = seen.take(some, [*columns, NONE])
    for at, k in enumerate(columns):
        start = np.array([scale[k], -3 * scale[NONE]], np.float32)  # as it is, "none" unlikely
        both = [k, NONE]
        pair, loss = fit_linear(told._replace(z=told.z[:, [at, -1]]), start, 1e-4, read[both] / scale[both])
        if loss < best:
            best, found, misled = loss, np.zeros_like(found), bool(pair[0] < WEAK * scale[k] or not read[k])
            found[both] = pair
    return found, misled


def _as_they_are(names: Sequence[str], read: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Weights by which every piece of evidence that could decide alone counts as it says, and nearness to an item with it."""
    counts = np.array([_decides(name) or name.endswith(NEAREST_ITEM) for name in names]) & read
    weights = np.where(counts, scale, 0.0)
    weights[NONE] = -3 * scale[NONE]
    return weights.astype(np.float32)


def losses_with_and_without(halves: Sequence[Slots], names: Sequence[str], some: np.ndarray) -> list[np.ndarray]:
    """The loss of every row of two ``halves``, one behind the other, by the best combiner without hidden units of the other half,
    as in `fit_combiner`: by one that reads all evidence, and by one that does not read ``some`` of it."""
    _, scale = centre_and_scale(lambda: chain.from_iterable(half.parts() for half in halves))
    read = scale >= 1e-6
    scale[~read] = 1.0
    losses: list[list[np.ndarray]] = [[], []]
    for judging, learning in (halves, halves[::-1]):
        decisive = [k for k, name in enumerate(names) if _decides(name) and not some[k]]
        alone, _ = _best_alone(learning, decisive, scale, read)
        for found, unit in zip(losses, (read / scale, (read & ~some) / scale), strict=True):
            linear, _ = fit_linear(learning, alone, DOUBT / len(learning.size), unit)
            score = (judging.z @ (linear * unit).astype(np.float32)).astype(np.float64)
            found.append(judging.softmax(score)[1])
    return [np.concatenate(found) for found in losses]


def _gradient(seen: Slots, params: list[np.ndarray]) -> np.ndarray:
    """Gradient of the mean cross-entropy with respect to (linear, hidden, hidden bias, output), one behind the other."""
    from vpunn.hipan.kernels.combine import through_hidden

    linear, hidden, bias, output = params
    active = seen.z @ hidden.T
    active += bias
    np.maximum(active, 0, out=active)
    error, _ = seen.softmax(seen.z @ linear + active @ output)
    error[seen.right] -= 1
    error *= np.repeat((seen.weight / max(seen.weight.sum(), 1e-12)).astype(np.float32), seen.size)
    of_output = error @ active
    back, of_bias = through_hidden(active, error, output)
    return np.concatenate([error @ seen.z, (back.T @ seen.z).ravel(), of_bias, of_output])
