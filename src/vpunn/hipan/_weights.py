"""Head weights: one sparse block per ball, trained by softmax over hard candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from vpunn.hipan._balls import PROPOSING, Balls, Items, writable
from vpunn.hipan._combiner import evidence_names

OWN_RATE, BALL_RATE, BIAS_RATE = np.float32(2.0), np.float32(1.0), np.float32(0.1)
#: Passes over the rows for the weights of the depth-1 balls.
BRANCH_PASSES = 4


@dataclass
class Heads:
    """Weights of all (ball, feature) entries and biases of all balls, with AdaGrad's sums of squared gradients.

    ``branch`` holds a second weight vector per depth-1 ball, a column each and the bias in the last row: the heads above are
    trained among hard candidates, which mostly share their branch, so the choice of the branch is learned on its own.
    """

    weight: np.ndarray
    bias: np.ndarray
    energy: np.ndarray
    bias_energy: np.ndarray
    branch: np.ndarray

    def __post_init__(self) -> None:
        self.weight, self.bias, self.branch = map(writable, (self.weight, self.bias, self.branch))

    def arrays(self) -> tuple[np.ndarray, ...]:
        """What they consist of, in the order `Heads` takes it."""
        return self.weight, self.bias, self.energy, self.bias_energy, self.branch

    def __reduce__(self) -> tuple[Any, ...]:
        return Heads, self.arrays()

    @classmethod
    def zeros(cls, balls: Balls) -> Heads:
        """Untrained heads."""
        n, blocks = balls.n_entries, 2 * balls.tree.n_nodes
        branch = np.zeros((balls.items.X.shape[1] + 1, balls.branch_of.max()), np.float32)
        energy = np.full(n, 0.3, np.float32), np.ones(blocks, np.float32)
        return cls(np.zeros(n, np.float32), np.zeros(blocks, np.float32), *energy, branch)

    def carried(self, old: Balls, new: Balls) -> Heads:
        """The same weights in the layout of ``new``, a model of the same tree with more rows; new entries start at zero."""
        heads = Heads.zeros(new)
        keys, wanted = new.keys(), old.keys()
        place = np.searchsorted(keys, wanted)
        there = place < len(keys)
        there[there] = (
            keys[place[there]] == wanted[there]
        )  # sums of signed features may have become zero, and their entry gone
        heads.weight[place[there]], heads.energy[place[there]] = self.weight[there], self.energy[there]
        heads.bias, heads.bias_energy = self.bias.copy(), self.bias_energy.copy()
        heads.branch = self.branch.copy()
        return heads

    def rounded(self) -> Heads:
        """Weights as they are stored: half precision, so that a loaded model equals the saved one bit for bit."""
        small, bias, branch = (half(a) for a in (self.weight, self.bias, self.branch))
        energy, bias_energy = (from_halves(upper_halves(a)) for a in (self.energy, self.bias_energy))
        return Heads(small, bias, energy, bias_energy, branch)


def half(values: np.ndarray) -> np.ndarray:
    """Values as half-precision numbers hold them; those beyond their range become the largest."""
    return np.asarray(np.clip(values, -65504, 65504).astype(np.float16).astype(np.float32))


def upper_halves(values: np.ndarray) -> np.ndarray:
    """The upper 16 bits of 32-bit numbers: their whole range, to three figures. Enough for a step length, at half the size."""
    return np.asarray((values.view(np.uint32) >> 16).astype(np.uint16))


def from_halves(upper: np.ndarray) -> np.ndarray:
    """The 32-bit numbers of `upper_halves`."""
    return np.asarray((upper.astype(np.uint32) << 16).view(np.float32))


def propose_for_items(balls: Balls, items: Items, limit: int) -> np.ndarray:
    """The classes nearest to each of some training rows by coverage · cosine, the row itself left out of its class."""
    return _nearest(balls, items.X, items.node, items.weight, limit)


def _nearest(balls: Balls, X: sparse.csr_matrix, own: np.ndarray, weight: np.ndarray, limit: int) -> np.ndarray:
    from vpunn.hipan.kernels.propose import propose_by_centroid

    found: np.ndarray = propose_by_centroid(
        X.indptr,
        X.indices,
        X.data,
        own,
        weight,
        balls.feature_start,
        balls.entry_block,
        balls.entry_sum,
        balls.norm2,
        balls.tree.n_nodes,
        min(limit, len(balls.classes)),
        *PROPOSING,
    )
    return found


def propose(balls: Balls, heads: Heads, X: sparse.csr_matrix, read: sparse.csr_matrix, limit: int) -> np.ndarray:
    """Candidates of every row (−1 padded): by coverage · cosine, the same read through the dictionary, then by head score."""
    new = np.full(X.shape[0], -1, np.int32)
    nothing = np.zeros(X.shape[0], np.float32)
    first = _nearest(balls, X, new, nothing, limit)
    first = merged(first, _nearest(balls, read, new, nothing, max(limit // 2, 1)))
    return add_by_heads(balls, heads, X, first, limit)


def train_branch(balls: Balls, heads: Heads, rng: np.random.Generator) -> None:
    """Each depth-1 ball against the others, by squared hinge loss."""
    from vpunn.hipan.kernels.train import train_branches

    X = balls.items.X
    if not heads.branch.shape[1] or not X.shape[1]:
        return
    heads.branch, energy = np.zeros_like(heads.branch), np.ones_like(heads.branch)
    for _ in range(BRANCH_PASSES):
        train_branches(
            X.indptr,
            X.indices,
            X.data,
            balls.branch_of[balls.items.node],
            balls.items.weight,
            rng.permutation(X.shape[0]),
            heads.branch,
            energy,
        )


def merged(first: np.ndarray, more: np.ndarray) -> np.ndarray:
    """Candidates of both, each once, the first ones in front; −1 padded."""
    more = np.where((more[:, :, None] == first[:, None, :]).any(2), -1, more)
    both = np.concatenate([first, more], 1)
    order = np.argsort(both < 0, axis=1, kind="stable")
    return np.ascontiguousarray(np.take_along_axis(both, order, 1))


def add_by_heads(balls: Balls, heads: Heads, X: sparse.csr_matrix, first: np.ndarray, limit: int) -> np.ndarray:
    """The given candidates and, behind them, the best ``limit`` classes by head score."""
    from vpunn.hipan.kernels.propose import propose_by_heads

    found: np.ndarray = propose_by_heads(
        X.indptr,
        X.indices,
        X.data,
        balls.parent,
        balls.inner,
        balls.feature_start,
        balls.entry_block,
        heads.weight,
        heads.bias,
        min(limit, len(balls.classes)),
        *PROPOSING,
        first,
    )
    return found


def train_pass(balls: Balls, heads: Heads, candidates: np.ndarray, order: np.ndarray, losses: np.ndarray) -> None:
    """One pass over the items in ``order``; ``candidates`` and ``losses`` (written) have a row per item."""
    from vpunn.hipan.kernels.train import train_heads

    X = balls.items.X
    both = np.stack([heads.weight, heads.energy], 1)  # side by side, so that an update waits for memory once
    train_heads(
        X.indptr,
        X.indices,
        X.data,
        balls.items.node,
        balls.items.weight,
        candidates,
        balls.parent,
        balls.inner,
        balls.tree.max_depth,
        balls.feature_start,
        balls.entry_block,
        balls.dense_row,
        balls.dense_entry,
        both,
        heads.bias,
        heads.bias_energy,
        order,
        OWN_RATE,
        BALL_RATE,
        BIAS_RATE,
        losses,
    )
    heads.weight, heads.energy = both[:, 0].copy(), both[:, 1].copy()


def gather(
    balls: Balls, heads: Heads, X: sparse.csr_matrix, read: sparse.csr_matrix, candidates: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Evidence (rows, candidates + 1, columns) for the candidates, see `combiner.EVIDENCE`; scores of the depth-1 balls."""
    if not X.shape[1]:
        return _without_words(balls, candidates), np.zeros((len(candidates), heads.branch.shape[1]), np.float32)
    from vpunn.hipan.kernels.evidence import gather_evidence

    memory = balls.memory
    found: tuple[np.ndarray, np.ndarray] = gather_evidence(
        (X.indptr, X.indices, X.data),
        (read.indptr, read.indices, read.data),
        candidates,
        (balls.parent, balls.depth, balls.inner, balls.n_children, balls.branch_of, balls.tree.max_depth),
        (
            balls.feature_start,
            balls.entry_block,
            balls.entry_sum,
            heads.weight,
            heads.bias,
            balls.dense_row,
            balls.dense_entry,
            heads.branch,
        ),
        (balls.norm2, balls.seen, balls.news, balls.counts, balls.background, balls.use_likelihood),
        (balls.memory_span, balls.memory_kind, balls.memory_weight, memory.indptr, memory.indices, memory.data),
        balls.n_kinds,
    )
    return found


def _without_words(balls: Balls, candidates: np.ndarray) -> np.ndarray:
    """What there is to say about candidates where no block holds words: how often they were met, and where they stand."""
    names = evidence_names(balls.n_kinds)
    out = np.zeros((len(candidates), candidates.shape[1] + 1, len(names)), np.float32)
    parent = np.maximum(balls.parent[candidates], 0)
    said = {
        "log count of training items": np.log1p(balls.counts[candidates]),
        "log count in the parent ball": np.log1p(balls.counts[balls.tree.n_nodes + parent]),
        "depth": np.float32(0.1) * balls.depth[candidates],
        "inner node": balls.inner[candidates],
        "log number of siblings": np.log1p(np.where(candidates > 0, balls.n_children[parent], 0)),
    }
    for name, values in said.items():
        out[:, :-1, names.index(name)] = values
    out[:, :-1][candidates < 0] = 0
    out[:, -1, names.index("none of the candidates")] = 1
    return out
