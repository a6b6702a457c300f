"""Head weights: one sparse block per ball, trained by softmax over hard candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vpunn._rows import slices
from vpunn.hipan._arrays import Numbers, Sparse, filled
from vpunn.hipan._balls import PROPOSING, Balls, Items, writable
from vpunn.hipan._combiner import evidence_names

OWN_RATE, BALL_RATE, BIAS_RATE = np.float32(2.0), np.float32(1.0), np.float32(0.1)
#: Numbers that are rounded at once: all of them would need their memory several times, and these stay in the cache.
ROUNDED_AT_ONCE = 16_384
#: Passes over the rows for the weights of the depth-1 balls.
BRANCH_PASSES = 4


@dataclass
class Heads:
    """Weights of all (ball, feature) entries and biases of all balls, with AdaGrad's sums of squared gradients.

    ``branch`` holds a second weight vector per depth-1 ball, a column each and the bias in the last row: the heads above are
    trained among hard candidates, which mostly share their branch, so the choice of the branch is learned on its own.
    Heads that are not being trained keep the energies' upper halves only (`rounded`).
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
        return np.ascontiguousarray(self.weight), self.bias, self.energy, self.bias_energy, self.branch

    def side_by_side(self) -> np.ndarray:
        """Weight and energy of every entry as one pair, as they are trained; from here on both are columns of this array."""
        pairs = self.weight.base
        if pairs is None or pairs is not self.energy.base or pairs.shape != (len(self.weight), 2):
            pairs = np.empty((len(self.weight), 2), np.float32)
            pairs[:, 0], pairs[:, 1] = self.weight, self.energy
            self.weight, self.energy = pairs.T
        return pairs

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
        heads.weight[place[there]], heads.energy[place[there]] = self.weight[there], _whole(self.energy)[there]
        heads.bias, heads.bias_energy = self.bias.copy(), _whole(self.bias_energy).copy()
        heads.branch = self.branch.copy()
        return heads

    def draw_to(self, other: Heads, share: float) -> None:
        """Move by a ``share`` of the way to other heads of the same balls."""
        for name in ("weight", "bias", "energy", "bias_energy"):
            mine = getattr(self, name)
            mine += np.float32(share) * (getattr(other, name) - mine)

    def rounded(self) -> Heads:
        """Weights as they are stored: half precision, so that a loaded model equals the saved one bit for bit.

        Some are rounded in place: these heads are done with.
        """
        small, bias, branch = half(self.weight), half(self.bias), half(self.branch, self.branch)
        return Heads(small, bias, upper_halves(self.energy), upper_halves(self.bias_energy), branch)


def half(values: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Values as half-precision numbers hold them, written to ``out`` if given; those beyond their range become the largest.

    What ``astype`` gives, which takes ten times as long for numbers below 2⁻¹⁴, of which weights have many.
    """
    from vpunn.hipan.kernels.rows import round_to_half

    out = np.empty(values.shape, np.float32) if out is None else out
    flat = out.reshape(-1)
    round_to_half(np.ascontiguousarray(values).reshape(-1), flat)
    if not np.may_share_memory(flat, out):  # part of a larger array, which one stretch of memory cannot show
        out[...] = flat.reshape(out.shape)
    return out


def upper_halves(values: np.ndarray) -> np.ndarray:
    """The upper 16 bits of 32-bit numbers: their whole range, to three figures. Enough for a step length, at half the size."""
    out = np.empty(len(values), np.uint16)
    for part in slices(len(values), ROUNDED_AT_ONCE):
        out[part] = values[part].view(np.uint32) >> 16
    return out


def _whole(energy: np.ndarray) -> np.ndarray:
    """The 32-bit numbers of `upper_halves`, or as they are."""
    return energy if energy.dtype == np.float32 else np.asarray((energy.astype(np.uint32) << 16).view(np.float32))


def propose_for_items(balls: Balls, items: Items, limit: int) -> np.ndarray:
    """The classes nearest to each of some training rows by coverage · cosine, the row itself left out of its class."""
    return _nearest(balls, Sparse.of(items.X), items.node, items.weight, limit)


def _nearest(balls: Balls, rows: Sparse, own: np.ndarray, weight: np.ndarray, limit: int) -> np.ndarray:
    from vpunn.hipan.kernels.propose import propose_by_centroid

    with balls.rooms.one() as room:
        return propose_by_centroid(
            rows,
            own,
            weight,
            balls.entries,
            balls.entry_sum,
            balls.norm2,
            balls.tree.n_nodes,
            min(limit, len(balls.classes)),
            PROPOSING,
            room,
        )


def propose(balls: Balls, heads: Heads, rows: Sparse, read: Sparse, limit: int) -> np.ndarray:
    """Candidates of every row (−1 padded): by coverage · cosine, the same read through the dictionary, by likelihood if that finds
    what the others do not, then by head score."""
    from vpunn.hipan.kernels.propose import merged

    new = filled(len(rows.indptr) - 1, -1, np.int32)
    nothing = np.zeros(len(new), np.float32)
    first = _nearest(balls, rows, new, nothing, limit)
    few = max(limit // 2, 1)
    first = merged(first, _nearest(balls, read, new, nothing, few), few)
    if balls.by_likelihood:
        first = merged(first, by_likelihood(balls, rows, limit), limit)
    return add_by_heads(balls, heads, rows, first, limit)


def by_likelihood(balls: Balls, rows: Sparse, limit: int) -> np.ndarray:
    """The nodes by whose own rows each row is likeliest, −1 padded."""
    from vpunn.hipan.kernels.propose import propose_by_likelihood

    limit = min(limit, len(balls.classes))
    with balls.rooms.one() as room:
        return propose_by_likelihood(
            rows, balls.entries, balls.entry_sum, balls.background, balls.alone, limit, PROPOSING, room
        )


def train_branch(balls: Balls, heads: Heads, rng: np.random.Generator) -> None:
    """Each depth-1 ball against the others, by squared hinge loss."""
    from vpunn.hipan.kernels.train import train_branches

    X = balls.items.X
    if not heads.branch.shape[1] or not X.shape[1]:
        return
    rows, columns = heads.branch.shape
    flat = np.zeros(2 * rows * columns, np.float32)  # of every feature weights and, behind them, energies
    both = flat.reshape(rows, -1)
    both[:, columns:] = 1
    branch = balls.branch_of[balls.items.node]
    for _ in range(BRANCH_PASSES):
        train_branches(Sparse.of(X), branch, balls.items.weight, rng.permutation(X.shape[0]), both)
    for part in slices(rows, ROUNDED_AT_ONCE):  # the weights move together in place: they are large
        flat[part.start * columns : part.stop * columns] = both[part, :columns].reshape(-1)
    del both
    flat.resize(rows * columns, refcheck=False)
    heads.branch = flat.reshape(rows, columns)


def add_by_heads(balls: Balls, heads: Heads, rows: Sparse, first: np.ndarray, limit: int) -> np.ndarray:
    """The given candidates and, behind them, the best ``limit`` classes by head score."""
    from vpunn.hipan.kernels.propose import propose_by_heads

    limit = min(limit, len(balls.classes))
    with balls.rooms.one() as room:
        return propose_by_heads(
            rows, balls.ancestry, balls.entries, heads.weight, heads.bias, limit, PROPOSING, first, room
        )


def train_pass(balls: Balls, heads: Heads, candidates: np.ndarray, order: np.ndarray, losses: np.ndarray) -> None:
    """One pass over the items in ``order``; ``candidates`` and ``losses`` (written) have a row per item."""
    from vpunn.hipan.kernels.train import Weights, train_heads

    weights = Weights(heads.side_by_side(), heads.bias, heads.bias_energy)
    train_heads(
        Sparse.of(balls.items.X),
        balls.items.node,
        balls.items.weight,
        candidates,
        balls.ancestry,
        balls.tree.max_depth,
        balls.entries,
        weights,
        order,
        (OWN_RATE, BALL_RATE, BIAS_RATE),
        losses,
    )


def gather(
    balls: Balls, heads: Heads, rows: Sparse, read: Sparse, candidates: np.ndarray, out: np.ndarray
) -> np.ndarray:
    """Write the evidence for the candidates, see `combiner.EVIDENCE`, into the first columns of ``out`` (rows, candidates + 1,
    columns), all zero; returns the scores of the depth-1 balls."""
    if not balls.items.X.shape[1]:
        _without_words(balls, candidates, out)
        return np.zeros((len(candidates), heads.branch.shape[1]), np.float32)
    from vpunn.hipan.kernels.evidence import gather_evidence

    measures = balls.norm2, balls.seen, balls.news, balls.counts, balls.background, balls.alone, balls.use_likelihood
    with balls.rooms.one() as room:
        return gather_evidence(
            rows,
            read,
            candidates,
            balls.ancestry,
            balls.places,
            balls.tree.max_depth,
            balls.entries,
            Numbers(balls.entry_sum, heads.weight, heads.bias, *measures),
            heads.branch,
            balls.memory,
            balls.n_kinds,
            room,
            out,
        )


def _without_words(balls: Balls, candidates: np.ndarray, out: np.ndarray) -> None:
    """What there is to say about candidates where no block holds words: how often they were met, and where they stand."""
    names = evidence_names(balls.n_kinds)
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
