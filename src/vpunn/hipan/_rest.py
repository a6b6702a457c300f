"""Where the answer lies when it is none of the candidates: in one of the rings around the best of them.

The balls around a row's most probable candidate are nested, B₀ ⊃ B₁ ⊃ … ⊃ B_d, the root first, and every other node lies in
one ring B_k \\ B_{k+1}. Whether an answer that lies in B_k also lies in B_{k+1} follows from two shares: how much of the
candidates' probability in B_k and how much of its prior lie there, by a logistic function with three numbers for the step out of
the root and three for all others, fitted on held-out rows. Within a ring nodes count by their prior; outside of B₁ also by
how well the row suits their depth-1 ball.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from vpunn.hipan._arrays import Answer, Outline, Rooms, Shares
from vpunn.hipan._balls import writable
from vpunn.tree import Tree
from vpunn.tree.sweeps import sweep_down

#: Constant, weight of the candidates' share and of the prior's, for the first step and the others: this is the prior alone.
BY_PRIOR = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])

#: Weight of the shared path against the exact node in the answer by ``"path"``; chosen on validation rows.
AGREEMENT = 1.0


def rounded(prior: np.ndarray) -> np.ndarray:
    """The prior as multiples of 2⁻⁵⁰: every sum of its numbers is exact, so what is left of a ball is never a rounding error."""
    return np.where(prior > 0, np.maximum(np.rint(np.ldexp(prior, 50)), 1.0), 0.0) * 2.0**-50


class Rings(NamedTuple):
    """The balls around each row's best candidate and the prior that is left in them, arrays (rows, depth + 1)."""

    chain: np.ndarray  #: balls from the root down to the smallest with room for others, −1 padded
    ring: np.ndarray  #: prior of ring k without candidates, ring 0 as tilted by the branches
    core: np.ndarray  #: the same of the next ball
    vote: np.ndarray  #: log-odds that a candidate in ball k lies in the next ball, by the candidates' probabilities

    @property
    def uncertain(self) -> np.ndarray:
        """Where both the ring and the next ball have room."""
        return (self.ring > 0) & (self.core > 0)


class Rest(NamedTuple):
    """The rest mass of every row, spread."""

    chain: np.ndarray  #: see `Rings`
    inside: np.ndarray  #: rest mass in ball k of the chain
    factor: np.ndarray  #: what turns the prior of a node in ring k into its probability
    outer: np.ndarray  #: the same in ring 0, for each branch


def down_the_largest(tree: Tree, prior: np.ndarray) -> int:
    """The node reached from the root by entering the most probable ball below, until stopping is more probable than each."""
    ball, node = tree.subtree_sum(prior), 0
    while not tree.is_leaf[node]:
        children = tree.children(node)
        largest = int(children[ball[children].argmax()])
        if prior[node] > ball[largest]:
            break
        node = largest
    return node


class Prior:
    """The prior over the nodes of a tree and what follows from it, worked out once for all rows."""

    def __init__(self, tree: Tree, prior: np.ndarray, branch: np.ndarray) -> None:
        self.tree = tree
        self.shares = Shares(writable(prior), tree.subtree_sum(prior), writable(branch))
        self.outline = Outline(*(writable(array) for array in (tree.parent, tree.depth, tree.size)))
        self.below = np.concatenate([[0.0], np.cumsum(prior)])
        self.rooms = Rooms()

    def __reduce__(self) -> tuple[Any, ...]:
        return Prior, (self.tree, self.shares.prior, self.shares.branch)

    @cached_property
    def by_branch(self) -> np.ndarray:
        """The part of every branch, that of no branch in front."""
        return np.bincount(self.shares.branch, self.shares.prior, minlength=1)

    @cached_property
    def edges(self) -> np.ndarray:
        """Where each branch starts in the order of nodes, and the end: a depth-1 ball is one slice, the root comes before."""
        branch = self.shares.branch
        return np.searchsorted(branch, np.arange(branch.max(initial=0) + 2))

    @cached_property
    def peaks(self) -> np.ndarray:
        """A tree of maxima over the prior: entry i is the larger of 2i and 2i + 1, the nodes come last."""
        half = 1 << (self.tree.n_nodes - 1).bit_length()
        peaks = np.zeros(2 * half)
        peaks[half : half + self.tree.n_nodes] = self.shares.prior
        while half > 1:
            half //= 2
            peaks[half : 2 * half] = peaks[2 * half : 4 * half].reshape(-1, 2).max(1)
        return peaks

    @cached_property
    def typical(self) -> tuple[float, np.ndarray]:
        """The mean depth of a node, and of each branch the node that by the prior alone shares most of its path (−1: none)."""
        prior, tree = self.shares.prior, self.tree
        mean = float(prior @ tree.depth)
        length = tree.depth + mean + 2.0
        worth = np.where(prior > 0, prior + AGREEMENT * sweep_down(tree, self.shares.ball) * 2.0 / length, -1.0)
        node = np.array([a + worth[a:b].argmax() for a, b in pairwise(self.edges.tolist())])
        node[prior[node] <= 0] = -1
        return mean, node


def rings_around(prior: Prior, answer: Answer, tilt: np.ndarray) -> Rings:
    """The rings of every row."""
    from vpunn.hipan.kernels.rest import measure_rings

    deepest = prior.tree.max_depth
    return Rings(*measure_rings(answer, tilt, prior.shares, prior.below, prior.by_branch, prior.outline, deepest))


def spread_rest(
    rings: Rings, rest: np.ndarray, tilt: np.ndarray, weights: np.ndarray, unknown: np.ndarray | None = None
) -> Rest:
    """Walk inwards: what stays in a ring is spread over it by the prior; by the prior alone in ``unknown`` rows."""
    from vpunn.hipan.kernels.rest import spread_rings

    by_prior = np.zeros(len(rest), bool) if unknown is None else unknown
    return Rest(rings.chain, *spread_rings(rings, rest, tilt, weights, BY_PRIOR, by_prior))


def fit_rings(rings: Rings, tree: Tree, truth: np.ndarray) -> np.ndarray:
    """Logistic regression of "lies in the next ball too" for rows whose node is no candidate, drawn to `BY_PRIOR`."""
    chain, size = rings.chain, tree.size
    within = (chain >= 0) & (truth[:, None] >= chain) & (truth[:, None] < chain + size[chain])
    asked = within[:, :-1] & rings.uncertain[:, :-1] & (chain[:, 1:] >= 0)
    weights = BY_PRIOR.copy()
    for step, levels in enumerate((slice(0, 1), slice(1, None))):
        here = asked[:, levels]
        share = np.log(rings.core[:, :-1][:, levels][here] / rings.ring[:, :-1][:, levels][here])
        z = np.stack([np.ones(len(share)), rings.vote[:, :-1][:, levels][here], share], 1)
        weights[step] = _regress(z, within[:, 1:][:, levels][here].astype(float), BY_PRIOR[step])
    return weights


def _regress(z: np.ndarray, inner: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Logistic regression with a ridge towards ``start``: Newton's method, steps halved until they improve."""

    def loss(w: np.ndarray) -> float:
        return float(np.logaddexp(0.0, z @ w).sum() - inner @ (z @ w) + 0.5 * ((w - start) ** 2).sum())

    weights, now = start, loss(start)
    for _ in range(50):
        p = _logistic(z @ weights)
        gradient = z.T @ (p - inner) + weights - start
        move = np.linalg.solve((z * (p * (1.0 - p))[:, None]).T @ z + np.eye(len(start)), gradient)
        while (new := loss(weights - move)) > now and np.abs(move).max() > 1e-9:
            move = move / 2
        if not new < now - 1e-9:
            break
        weights, now = weights - move, new
    return weights


def _logistic(x: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(x, -30.0, 30.0))))
