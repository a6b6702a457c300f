"""Natural gradients of soft-max heads that read features: one Fisher block a ball (limitation L2 of the paper).

The Fisher information of a ball's weights (options × features) is Σ over its rows of (diag p − p pᵀ) ⊗ x xᵀ. A block keeps the
mean curvature C of the soft-max and the second moments S of the rows in the ball, F ≈ C ⊗ S: exact where all rows of a ball have
the same probabilities, or where it has one row. Two balls share no weights, so the blocks are the whole matrix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vpunn.errors import VpunnError

#: Up to so many options, and features without the bias, a factor is a full matrix; beyond that its diagonal.
FULL = 64


class _Group(NamedTuple):
    """Balls whose numbers of options are alike: ``slots`` is padded with −1."""

    balls: np.ndarray
    slots: np.ndarray


class BallFisher:
    """Blocks C ⊗ S of all balls as running means over batches, and the step they make of a gradient.

    Ball c owns the rows ``start[c]:start[c + 1]`` of the weights. The last column of the features is 1 where heads have a bias.

    Parameters
    ----------
    start : first slot of every ball, and the number of slots at the end.
    features : columns of the weights, the bias included.
    damping : added to both factors as in K-FAC, so that F + damping · I is what is inverted.
    radius : trust region: the step's ½ Δᵀ F Δ is at most this.
    memory : how much of the running means stays at each batch.

    >>> blocks = BallFisher(np.array([0, 2, 5]), features=2)  # a ball of two options and one of three
    >>> weight, x = np.zeros((5, 2)), np.array([[1.0, 1.0], [-1.0, 1.0]])
    >>> losses = [blocks.step(weight, x, np.array([[0, 2], [1, -1]])) for _ in range(20)]
    >>> round(losses[0], 2), losses[-1] < 0.1  # two rows, the second visits the first ball only
    (1.24, True)
    """

    def __init__(
        self, start: np.ndarray, features: int, *, damping: float = 1e-3, radius: float = 1.0, memory: float = 0.9
    ) -> None:
        for name, value, high in (("damping", damping, 1e6), ("radius", radius, 1e12), ("memory", memory, 1.0)):
            if not 0 <= value < high or (value == 0 and name != "memory"):
                raise VpunnError(f"{name} is a number between 0 and {high:g}, got {value!r}.")
        self.start, self.damping, self.radius, self.memory = np.asarray(start, np.int64), damping, radius, memory
        self.width = np.diff(self.start)
        self.full = features <= FULL + 1
        padded = 2 ** np.ceil(np.log2(np.maximum(self.width, 1))).astype(np.int64)
        padded[self.width > FULL] = 0
        self.groups = []
        for size in np.unique(padded[padded > 0]).tolist():
            balls = np.flatnonzero(padded == size)
            slots = self.start[balls, None] + np.arange(size)
            self.groups.append(_Group(balls, np.where(np.arange(size) < self.width[balls, None], slots, -1)))
        self.wide = np.flatnonzero(self.width > FULL)
        self.rows = np.zeros(len(self.width))
        self.moments = np.zeros((len(self.width), features, features) if self.full else (len(self.width), features))
        self.curvature = [np.zeros((*g.slots.shape, g.slots.shape[1])) for g in self.groups]
        self.diagonal = np.zeros(int(self.start[-1]))
        self.weight = 0.0  # of the batches so far in the running means

    def observe(self, p: np.ndarray, x: np.ndarray, inside: np.ndarray) -> None:
        """Take a batch: ``p`` (slots, rows) is the probability of each option in its ball, ``inside`` (balls, rows) says which
        rows come through a ball."""
        keep, new = self.memory, (1 - self.memory) / max(len(x), 1)
        seen = inside.astype(x.dtype)
        self.weight = keep * self.weight + (1 - keep)
        self.rows = keep * self.rows + new * seen.sum(1)
        self.moments *= keep
        touched = np.flatnonzero(np.asarray(inside.any(1)))
        if self.full:
            outer = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
            self.moments[touched] += new * (seen[touched] @ outer).reshape(-1, *self.moments.shape[1:])
        else:
            self.moments[touched] += new * (seen[touched] @ x**2)
        for group, curvature in zip(self.groups, self.curvature, strict=True):
            curvature *= keep
            here = np.flatnonzero(inside[group.balls].any(1))
            if len(here):
                q = np.where((group.slots[here] >= 0)[:, :, None], p[group.slots[here]], 0.0)
                q = q * seen[group.balls[here]][:, None, :]
                curvature[here] -= new * (q @ q.transpose(0, 2, 1))
                curvature[here[:, None], np.arange(q.shape[1]), np.arange(q.shape[1])] += new * q.sum(2)
        if len(self.wide):
            of = np.repeat(np.arange(len(self.width)), self.width)
            slots = np.flatnonzero(self.width[of] > FULL)
            self.diagonal *= keep
            self.diagonal[slots] += new * (p[slots] * (1 - p[slots]) * seen[of[slots]]).sum(1)

    def block(self, ball: int) -> np.ndarray:
        """C ⊗ S of one ball as a matrix over its weights, row by row; of the batches seen, per row of a batch."""
        options = self._options(ball)
        moments = self.moments[ball] if self.full else np.diag(self.moments[ball])
        return np.asarray(np.kron(options / max(float(self.rows[ball]), 1e-300), moments) / max(self.weight, 1e-300))

    def _options(self, ball: int) -> np.ndarray:
        c = int(self.width[ball])
        if c > FULL:
            return np.diag(self.diagonal[self.start[ball] : self.start[ball + 1]])
        for group, curvature in zip(self.groups, self.curvature, strict=True):
            at = np.searchsorted(group.balls, ball)
            if at < len(group.balls) and group.balls[at] == ball:
                return np.asarray(curvature[at, :c, :c])
        raise VpunnError(f"there is no ball {ball!r}; they go from 0 to {len(self.width) - 1}.")

    def direction(self, gradient: np.ndarray, touched: np.ndarray) -> np.ndarray:
        """(F + damping)⁻¹ ``gradient`` on the ``touched`` balls (a mask), 0 elsewhere, inside the trust region."""
        step, squares = np.zeros_like(gradient), 0.0
        share = max(self.weight, 1e-300)
        for group, curvature in zip(self.groups, self.curvature, strict=True):
            here = np.flatnonzero(touched[group.balls])
            if not len(here):
                continue
            balls, slots = group.balls[here], group.slots[here]
            rows = np.maximum(self.rows[balls], 1e-300)
            options, moments = curvature[here] / rows[:, None, None], self.moments[balls] / share
            found, square = self._solve(options, moments, np.where((slots >= 0)[:, :, None], gradient[slots], 0.0))
            step[slots[slots >= 0]] = found[slots >= 0]
            squares += square
        for ball in self.wide[touched[self.wide]].tolist():  # few: balls of more than 64 children
            own = slice(self.start[ball], self.start[ball + 1])
            options = self.diagonal[own] / max(float(self.rows[ball]), 1e-300)
            moments = self.moments[ball] / share
            factor = moments if self.full else np.diag(moments)
            balance = _balance(options.mean(), np.trace(factor) / len(factor))
            root = np.sqrt(self.damping)
            step[own] = np.linalg.solve(factor + root / balance * np.eye(len(factor)), gradient[own].T).T
            step[own] /= (options + root * balance)[:, None]
            squares += float((step[own] * (options[:, None] * (step[own] @ factor))).sum())
        return step * min(1.0, np.sqrt(self.radius / (0.5 * squares))) if squares > 0 else step

    def _solve(self, options: np.ndarray, moments: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, float]:
        """A⁻¹ G B⁻¹ for every ball of a group and Σ ΔᵀFΔ; A and B are the damped factors."""
        c, root = options.shape[1], np.sqrt(self.damping)
        mean_options = np.trace(options, axis1=1, axis2=2) / c
        mean_moments = (np.trace(moments, axis1=1, axis2=2) if self.full else moments.sum(1)) / moments.shape[1]
        balance = _balance(mean_options, mean_moments)[:, None, None]
        step = np.linalg.solve(options + root * balance * np.eye(c), gradient)
        if self.full:
            step = np.linalg.solve(
                moments + root / balance * np.eye(moments.shape[1]), step.transpose(0, 2, 1)
            ).transpose(0, 2, 1)
            far = options @ step @ moments
        else:
            step = step / (moments[:, None, :] + root / balance)
            far = options @ (step * moments[:, None, :])
        return step, float((step * far).sum())

    def step(self, weight: np.ndarray, x: np.ndarray, slots: np.ndarray, *, rate: float = 1.0) -> float:
        """One step of NumPy heads, in place: ``slots`` (rows, steps) names the options on each row's path, −1 for none.

        Returns the mean of −log P of the paths before the step.
        """
        of = np.repeat(np.arange(len(self.width)), self.width)
        score = weight @ x.T
        score -= np.maximum.reduceat(score, self.start[:-1], axis=0)[of]
        p = np.exp(score)
        total = np.add.reduceat(p, self.start[:-1], axis=0)
        p /= total[of]
        row, column = np.nonzero(slots >= 0)
        chosen = slots[row, column]
        inside = np.zeros((len(self.width), len(x)), bool)
        inside[of[chosen], row] = True
        loss = float(-(score[chosen, row] - np.log(total[of[chosen], row])).sum() / len(x))
        pull = np.where(inside[of], p, 0.0)
        np.subtract.at(pull, (chosen, row), 1.0)
        self.observe(p, x, inside)
        weight -= rate * self.direction(pull @ x / len(x), np.asarray(inside.any(1)))
        return loss


def _balance(options: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """How K-FAC divides the damping between the two factors: by the ratio of their mean sizes."""
    return np.asarray(np.sqrt(np.maximum(options, 1e-12) / np.maximum(moments, 1e-12)))
