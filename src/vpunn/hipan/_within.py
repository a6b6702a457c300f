"""The spread of dense rows within their classes, and how much of its estimate is taken back.

S = Σ (x − μ_c)(x − μ_c)ᵀ / f, with f = rows − classes, is drawn to the mean m of its variances, (1 − α) S + α m I: of few rows
the axes are chance. α = (columns + 10) / (columns + 10 + f) suits most tables. But where columns nearly repeat each other, the axes
on which rows of a class hardly differ tell most, and a little of m drowns them. So narrow tables try smaller α, and take one for
which both questions to rows left out, one at a time, speak: are they likelier, and is their class? The first alone would trust axes
that tell nothing about the class, the second alone those that tell by chance.

Leaving a row out of S takes away a product of its own deviation d, f S − (n_c / (n_c − 1)) d dᵀ, so in the axes of S every answer
is a few sums (Sherman and Morrison): O(rows · columns · classes) for each α. The likelihood is Hoffbeck's and Landgrebe's (1996).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vpunn._rows import slices

Array = npt.NDArray[Any]

#: Rows of which numbers are held in 64 bits at a time.
PART = 4096
#: Blocks of this many columns are wide: embeddings rather than measurements.
WIDE = 64
#: How often α is halved to be tried, and down to which no table of that many rows is worth it.
HALVINGS, LITTLE = 11, 0.02


class Within(NamedTuple):
    """The spread, shrunk; by how much (α); and the number of classes."""

    spread: Array
    doubt: float
    n_classes: int


def usual_doubt(width: int, freedom: int) -> float:
    """How much of a spread estimated from so many rows is replaced by the mean over all axes."""
    return (width + 10.0) / (width + 10.0 + freedom)


def within(Z: Array, node: Array, width: int) -> Within:
    """The spread of rows of a block of ``width`` columns around their class."""
    classes, at = np.unique(node, return_inverse=True)
    count = np.bincount(at)
    means = np.zeros((len(classes), Z.shape[1]))
    np.add.at(means, at, Z)
    means /= count[:, None]
    several = np.flatnonzero(count[at] > 1)
    inside = Z[several]
    for part in slices(len(several), PART):
        inside[part] -= means[at[several[part]]]
    freedom = max(len(inside) - int((count > 1).sum()), 0)
    spread = inside.T @ inside / max(freedom, 1)
    usual = float(np.trace(spread)) / width if freedom else 1.0
    usual = usual if usual > 1e-9 else 1.0
    doubt = usual_doubt(width, freedom)
    if width < WIDE and len(classes) > 1 and freedom > 2 and doubt > LITTLE:
        left = _LeftOut(Z[several], inside, at[several], means, count, spread, usual)
        doubt = max(left.likeliest(doubt), left.best_told(doubt))
    return Within((1.0 - doubt) * spread + doubt * usual * np.eye(Z.shape[1]), doubt, len(classes))


class _LeftOut:
    """Rows of classes of several, each as if it had taken no part in the spread, nor in the mean of its class."""

    def __init__(
        self, X: Array, inside: Array, own: Array, means: Array, count: Array, spread: Array, usual: float
    ) -> None:
        self.value, axes = np.linalg.eigh(spread)
        self.value = np.maximum(self.value, 0.0)
        self.X, self.inside, self.means = X @ axes, inside @ axes, means @ axes
        self.own, self.row, self.usual = own, np.arange(len(own)), usual
        self.count = np.tile(count.astype(np.float64), (len(own), 1))
        self.grown = self.count[self.row, own] / (
            self.count[self.row, own] - 1.0
        )  # d from the mean of the others, over d
        self.count[self.row, own] -= 1.0
        self.freedom = len(own) - len(np.unique(own))

    def likeliest(self, doubt: float) -> float:
        """The α that makes the rows likeliest, on the axes on which rows of a class differ at all."""
        real = self.value > 1e-9 * self.value[-1]
        best, chosen = -np.inf, doubt
        for tried in _halved(doubt):
            spread = self._spread(tried)
            far, _, left = self._far(tried, spread)
            if (left <= 1e-9).any():
                break
            likely = -0.5 * float(len(far) * np.log(spread[real]).sum() + np.log(left).sum() + (self.grown * far).sum())
            if likely > best:
                best, chosen = likely, tried
        return chosen

    def best_told(self, doubt: float) -> float:
        """The α by which the classes of the rows are told best, where that is surely better than by ``doubt``: by more than a
        standard deviation of the gain."""
        usual = self._losses(doubt)
        least, chosen = float(usual.sum()), doubt
        for tried in list(_halved(doubt))[1:]:
            losses = self._losses(tried)
            if not np.isfinite(losses).all():
                break
            gain = usual - losses
            if losses.sum() < least and gain.sum() > np.sqrt(len(gain)) * gain.std():
                least, chosen = float(losses.sum()), tried
        return chosen

    def _spread(self, tried: float) -> Array:
        """Variances along the axes, shrunk, of rows one fewer."""
        return np.asarray((1.0 - tried) * self.freedom / (self.freedom - 1.0) * self.value + tried * self.usual)

    def _far(self, tried: float, spread: Array) -> tuple[Array, Array, Array]:
        """dᵀ A⁻¹ d of every row left out, times n / (n − 1), as A loses c d dᵀ; c; and what is left of one."""
        square = self.inside**2 @ (1.0 / spread)
        taken = (1.0 - tried) * self.grown / (self.freedom - 1.0)
        left = 1.0 - taken * square
        return self.grown * square / left, taken, left

    def _losses(self, tried: float) -> Array:
        """−log of the probability of every row's class by Student's distribution around the means of the classes."""
        spread = self._spread(tried)
        far, taken, left = self._far(tried, spread)
        if (left <= 1e-9).any():
            return np.full(len(far), np.inf)
        X, means, inside = (A / np.sqrt(spread) for A in (self.X, self.means, self.inside))
        square = (X**2).sum(1)[:, None] - 2.0 * X @ means.T + (means**2).sum(1)
        square += (taken / left)[:, None] * ((inside * X).sum(1)[:, None] - inside @ means.T) ** 2
        square[self.row, self.own] = self.grown * far
        square = np.maximum(square, 0.0) / (1.0 + 1.0 / self.count)  # a mean is itself unsure
        score = np.log(self.count + 0.5) - 0.5 * (self.freedom + 1.0) * np.log1p(square / self.freedom)
        score -= score.max(1, keepdims=True)
        return np.asarray(np.log(np.exp(score).sum(1)) - score[self.row, self.own])


def _halved(doubt: float) -> Iterator[float]:
    for k in range(HALVINGS + 1):
        yield doubt * 2.0**-k
