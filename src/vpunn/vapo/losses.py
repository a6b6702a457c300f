"""Losses of the digit heads: node cross-entropy with its weightings, the margin term, and the paper's two-logit forms.

The ultrametric prefix loss Σ_k λ_k·[prefixes differ] judges *predicted nodes* and lives in `vpunn.metrics`
(`ultrametric_loss`, with its Bayes-optimal decoder `bayes_nodes`); its trainable stand-in is the cross-entropy here.
All functions work on slots: one entry per competing child, grouped by context (see `heads.Layout`).
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from scipy.special import expit

from vpunn.errors import check_choice

Weighting = Literal["none", "inverse-sqrt", "huffman"]


def segment_log_softmax(scores: np.ndarray, start: np.ndarray, context: np.ndarray) -> np.ndarray:
    """log soft-max inside each context; ``context`` is the context of each slot."""
    top = np.maximum.reduceat(scores, start[:-1])
    shifted = scores - top[context]
    return np.asarray(shifted - np.log(np.add.reduceat(np.exp(shifted), start[:-1]))[context])


def slot_weights(weighting: Weighting, counts: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Weight of each slot's loss terms, scaled so that the mean over observed digits is 1.

    ``none``; ``inverse-sqrt``: 1/√count, which the paper calls Huffman weighting (AUDIT E-50); ``huffman``: the true
    Huffman code length of the child among its siblings, in bits.
    Everything but ``none`` moves the optimum away from the observed frequencies, so it costs calibration.
    """
    check_choice("weighting", weighting, get_args(Weighting))
    seen = counts > 0
    weights = np.ones(len(counts))
    if weighting == "none" or not seen.any():
        return weights
    if weighting == "inverse-sqrt":
        weights[seen] = 1 / np.sqrt(counts[seen])
    else:
        from vpunn.vapo import _kernels as _head_kernels

        weights = _head_kernels.huffman_lengths(start, counts).astype(float)
    mean = (weights * counts).sum() / counts.sum()
    return weights / mean if mean > 0 else weights


def margin_loss(
    scores: np.ndarray, counts: np.ndarray, start: np.ndarray, context: np.ndarray, margin: float
) -> tuple[float, np.ndarray]:
    """Σ_t counts_t · max(0, margin − s_t + max_{c≠t} s_c) and its (sub)gradient: the paper's undefined "hinge" (S17).

    Contexts with a single slot have no rival and cost nothing.
    """
    winner = first_best(scores, start, context)
    rest = scores.copy()
    rest[winner] = -np.inf
    runner_up = first_best(rest, start, context)
    second, rival = rest[runner_up], scores[winner][context]
    rival[winner] = second
    short = np.maximum(0.0, margin - scores + rival)
    active = np.where((short > 0) & np.isfinite(rival), counts, 0.0)
    gradient = -active
    others = active.copy()
    others[winner] = 0.0
    gradient[winner] += np.add.reduceat(others, start[:-1])
    has_rival = np.isfinite(second)
    np.add.at(gradient, runner_up[has_rival], active[winner][has_rival])
    return float((active * np.where(active > 0, short, 0.0)).sum()), gradient


def first_best(scores: np.ndarray, start: np.ndarray, context: np.ndarray) -> np.ndarray:
    """The best-scored slot of every context, the first of equals."""
    best = np.maximum.reduceat(scores, start[:-1])
    at = np.where(scores == best[context], np.arange(len(scores)), len(scores))
    return np.minimum.reduceat(at, start[:-1])


# ---- the paper's two-logit forms, with the right gradients (AUDIT E-41) ------------------------------------------------


def two_logit_loss(v: float, other: float, target: float, tau: float = 0.5) -> tuple[float, float, float]:
    """−log σ(z_g − z_o) with z_g = −τ(v−t)², z_o = −τ(v_o−t)²: the loss and its derivatives by v and v_o."""
    gap = -tau * (v - target) ** 2 + tau * (other - target) ** 2
    wrong = float(expit(-gap))
    return float(np.logaddexp(0.0, -gap)), 2 * tau * (v - target) * wrong, -2 * tau * (other - target) * wrong


def bernoulli_loss(v: float, digit: float, right: bool, tau: float = 0.5) -> tuple[float, float]:
    """One logit −τ(v−ψ)² + 0 for "ψ is the digit": the loss and its derivative 2τ(v−ψ)[σ(τ(v−ψ)²) − (1−y)].

    The paper prints σ(τ⁻¹(·)²) and subtracts the indicator of a right digit: wrong scale and wrong sign.

    >>> round(bernoulli_loss(2.3, 1, True)[1], 3), round(bernoulli_loss(2.3, 1, False)[1], 3)
    (0.909, -0.391)
    """
    z = -tau * (v - digit) ** 2
    loss = np.logaddexp(0.0, -z) if right else np.logaddexp(0.0, z)
    return float(loss), float(2 * tau * (v - digit) * (expit(-z) - (0.0 if right else 1.0)))


def ordinal_loss(v: float, digits: np.ndarray, target: float, tau: float = 0.5) -> tuple[float, float]:
    """Full soft-max over all children with scores −τ(v−c)²: the loss and its derivative 2τ(E_q[c] − t)."""
    scores = -tau * (v - np.asarray(digits, float)) ** 2
    top = scores.max()
    q = np.exp(scores - top)
    partition = q.sum()
    loss = tau * (v - target) ** 2 + top + np.log(partition)
    return float(loss), float(2 * tau * ((q * digits).sum() / partition - target))
