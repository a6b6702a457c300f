"""What every analysis returns: numbers, a sentence, a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._show import show

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Finding:
    """A result with a ``verdict`` in one sentence; ``str()`` is the numbers and the sentence, ``plot`` draws them."""

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        raise NotImplementedError

    def summary(self) -> dict[str, Any]:
        """The few numbers that matter, by name."""
        raise NotImplementedError

    def rows(self) -> list[dict[str, Any]]:
        """The whole answer as a table; empty if the summary is all there is."""
        return []

    def __str__(self) -> str:
        pairs = {name: show(value) for name, value in self.summary().items() if value is not None}
        wide = max(map(len, pairs), default=0)
        return "\n".join([*(f"{name:<{wide}}  {value}" for name, value in pairs.items()), self.verdict])

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.verdict}>"

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the finding on ``ax`` (a new figure if None) and return the axes; options as its picture takes them."""
        from vpunn import plot

        return plot.finding(self, ax, **options)


def p_text(p: float) -> str:
    """A p-value as it is printed."""
    return f"p = {p:.2g}" if p >= 1e-3 else "p < 0.001"


def mean_interval(values: np.ndarray, population: float, level: float = 0.95) -> tuple[float, float, float]:
    """Mean of sampled values with a normal interval for the mean of all ``population`` of them; exact if all are here."""
    from scipy.stats import t as student

    mean = float(values.mean())
    if len(values) >= population:
        return mean, mean, mean
    spread = float(values.std(ddof=1)) / np.sqrt(len(values))
    half = float(student.ppf((1 + level) / 2, len(values) - 1)) * spread
    return mean, mean - half, mean + half
