"""Calibration of input-free digit heads on leaves they have not seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vpunn.metrics import Reliability, calibration_error, reliability
from vpunn.tree import Tree
from vpunn.tree.sweeps import sweep_down
from vpunn.vapo.heads import Layout, SoftmaxHeads

#: Shrinkage strengths tried: pseudo-items spread evenly over the children of each ball.
STRENGTHS = np.array([0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])


@dataclass(frozen=True)
class HeldOut:
    """One value per seed, and the reliability curve of the first."""

    ece: np.ndarray
    ece_mass: np.ndarray
    ece_raw: np.ndarray
    brier: np.ndarray
    accuracy: np.ndarray
    #: The same of whole labels: the likeliest leaf as the one answer.
    label_ece: np.ndarray
    label_brier: np.ndarray
    label_accuracy: np.ndarray
    curve: Reliability


def held_out_calibration(tree: Tree, seeds: int, hidden: float = 0.2) -> HeldOut:
    """Hide a share of the leaves, fit digit laws on the rest, predict each digit of the hidden leaves from its prefix.

    The law of a ball is its observed child counts plus λ pseudo-items spread evenly; λ is chosen by the likelihood of a
    tenth of the *training* leaves. A digit's confidence is the probability of the most likely child.
    """
    rows, curve = [], None
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(tree.leaves)
        cut = int(len(order) * (1 - hidden))
        inner = int(cut * 0.9)
        train, tune, test = order[:cut], order[inner:cut], order[cut:]
        strength = _best_strength(tree, order[:inner], tune)
        confidence, right, weight = digit_predictions(tree, train, test, strength)
        raw_confidence, raw_right, _ = digit_predictions(tree, train, test, 0.0)
        c, r = np.repeat(confidence, weight), np.repeat(right, weight)
        raw = calibration_error(np.repeat(raw_confidence, weight), np.repeat(raw_right, weight))
        rows.append(
            (
                calibration_error(c, r),
                calibration_error(c, r, strategy="quantile"),
                raw,
                ((c - r) ** 2).mean(),
                r.mean(),
                *label_calibration(tree, train, test, strength),
            )
        )
        curve = curve or reliability(c, r)
    assert curve is not None
    ece, mass, raw_ece, brier, accuracy, *label = np.array(rows).T
    return HeldOut(ece, mass, raw_ece, brier, accuracy, label[0], label[1], label[2], curve)


def label_calibration(tree: Tree, train: np.ndarray, test: np.ndarray, strength: float) -> tuple[float, float, float]:
    """ECE, multi-class Brier score and accuracy of whole labels: the law on the leaves is the product of the digit laws.

    Without input every leaf gets the same answer, the likeliest leaf, with the same small confidence.
    """
    law, _, _ = _laws(tree, train, test, strength)
    with np.errstate(divide="ignore"):
        p = np.exp(sweep_down(tree, np.append(0.0, np.log(law[Layout(tree).slot[1:]]))))
    answer = tree.leaves[np.argmax(p[tree.leaves])]
    right = (test == answer).astype(float)
    brier = 1 + float((p[tree.leaves] ** 2).sum()) - 2 * float(p[test].mean())
    return calibration_error(np.full(len(test), p[answer]), right), brier, float(right.mean())


def digit_predictions(
    tree: Tree, train: np.ndarray, test: np.ndarray, strength: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Confidence, whether right, and number of test items for every (ball, child) edge that test leaves pass through."""
    law, picked, passing = _laws(tree, train, test, strength)
    used = np.flatnonzero(passing)
    context = Layout(tree).context[used]
    return law[picked[context]], (picked[context] == used).astype(float), passing[used].astype(np.int64)


def _laws(
    tree: Tree, train: np.ndarray, test: np.ndarray, strength: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probability of every slot, the most likely slot of every context, and test items through every slot."""
    seen, asked = _counts(tree, train), _counts(tree, test)
    layout = Layout(tree)
    size = np.diff(layout.start)[layout.context]
    mass = seen + strength / size
    total = layout.per_context(mass)[layout.context]
    law = np.where(total > 0, mass / np.where(total > 0, total, 1), 1 / size)
    best = np.maximum.reduceat(law, layout.start[:-1])
    at = np.where(law == best[layout.context], np.arange(len(law)), len(law))
    return law, np.minimum.reduceat(at, layout.start[:-1]), asked


def _best_strength(tree: Tree, train: np.ndarray, tune: np.ndarray) -> float:
    scores = []
    for strength in STRENGTHS:
        law, _, asked = _laws(tree, train, tune, float(strength))
        scores.append(float((asked * np.log(law)).sum()))
    return float(STRENGTHS[int(np.argmax(scores))])


def _counts(tree: Tree, leaves: np.ndarray) -> np.ndarray:
    items = np.bincount(leaves, minlength=tree.n_nodes).astype(float)
    return SoftmaxHeads(tree, items=items).counts


def digit_predictions_by_depth(
    tree: Tree, seed: int = 0, hidden: float = 0.2
) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Confidence and rightness of digits of hidden leaves by depth of the ball they name, one entry per item.

    The protocol of `held_out_calibration`, one seed.
    """
    order = np.random.default_rng(seed).permutation(tree.leaves)
    cut = int(len(order) * (1 - hidden))
    inner = int(cut * 0.9)
    strength = _best_strength(tree, order[:inner], order[inner:cut])
    law, picked, passing = _laws(tree, order[:cut], order[cut:], strength)
    layout = Layout(tree)
    used = np.flatnonzero(passing)
    context = layout.context[used]
    weight = passing[used].astype(np.int64)
    confidence, right = (
        np.repeat(values, weight) for values in (law[picked[context]], (picked[context] == used).astype(float))
    )
    depth = np.repeat(layout.position[context] + 1, weight)
    return {int(k): (confidence[depth == k], right[depth == k]) for k in np.unique(depth)}
