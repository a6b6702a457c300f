"""Which balls made a number: the coefficients along one row's chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vpunn._types import Features
from vpunn.errors import VpunnError
from vpunn.tree import Tree


@dataclass(frozen=True)
class BallTerm:
    """One ball on the chain: its coefficient, and the running total down to it."""

    node: int
    label: Any
    depth: int
    coefficient: float
    total: float


@dataclass(frozen=True)
class NumberExplanation:
    """A prediction as a sum over the balls around a row, root first, and what covariates add; ``str()`` is readable.

    The ``total`` of the last ball is the value at the row's node to the bit; the coefficients are differences of such
    values, so their sum agrees with it up to float rounding. ``unseen`` counts levels of the row below its last known
    ball: nothing is known there, so they add 0. ``original`` is the prediction on the scale of the data, where logarithms
    were learned.
    """

    name: str
    prediction: float
    balls: tuple[BallTerm, ...]
    covariates: tuple[tuple[str, float], ...]
    unseen: int
    original: float | None = None

    @property
    def verdict(self) -> str:
        """One sentence: the ball that moves the number most below the root."""
        if len(self.balls) == 1:
            return f"{self.name}{self.prediction:.3g} is the value of {self.balls[0].label!r} alone."
        most = max(self.balls[1:], key=lambda ball: abs(ball.coefficient))
        return f"{self.name}{self.prediction:.3g}; {most.label!r} moves it most, by {most.coefficient:+.3g}."

    def __str__(self) -> str:
        terms = [(ball.coefficient, "  " * ball.depth + str(ball.label)) for ball in self.balls]
        terms += [(value, text) for text, value in self.covariates]
        numbers = [f"{value:+.4g}" for value, _ in terms]
        width = max(map(len, numbers))
        lines = [f"{self.name}{self.prediction:.4g} = the sum of"]
        lines += [f"  {number:>{width}}  {text}" for number, (_, text) in zip(numbers, terms, strict=True)]
        if self.unseen:
            many = "1 level" if self.unseen == 1 else f"{self.unseen} levels"
            are = "is unseen: its" if self.unseen == 1 else "are unseen: their"
            lines.append(f"{many} below {self.balls[-1].label!r} {are} balls add 0")
        if self.original is not None:
            lines.append(f"which is the logarithm of {self.original:.4g}")
        return "\n".join(lines)


def explained(
    tree: Tree,
    node: int,
    values: npt.NDArray[np.float64],
    covariates: list[tuple[str, float]],
    prediction: float,
    depth: int,
    name: str = "",
) -> NumberExplanation:
    """The explanation of ``prediction`` at ``node``, from the value of every ball; ``depth`` is how deep the row's path goes."""
    chain = tree.ancestors(node)
    total = values[chain]
    steps = np.append(total[:1], np.diff(total))
    balls = [
        BallTerm(int(i), tree.labels[i], int(tree.depth[i]), float(c), float(t))
        for i, c, t in zip(chain, steps, total, strict=True)
    ]
    return NumberExplanation(name, prediction, tuple(balls), tuple(covariates), max(depth - int(tree.depth[node]), 0))


def check_one_row(nodes: npt.NDArray[Any], X: Features) -> None:
    """Refuse several rows, or none."""
    if len(nodes) != 1:
        one = "X.iloc[[i]]" if hasattr(X, "iloc") else "X[[i]]"
        raise VpunnError(f"explain takes one row, got {len(nodes):,}; pass {one} to keep it two-dimensional.")
