"""Training curricula: which digits train for how many epochs at what rate.

The paper gives two that contradict each other (AUDIT E-53); both are here under their own names, neither is canonical.
Digit positions count from the root, so the paper's "k ∈ {K−1, K−2}" are positions 0 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from vpunn.errors import check_choice

Digits = Literal["all", "deep", "root"]


@dataclass(frozen=True)
class Phase:
    """``epochs`` passes at learning rate ``rate`` over ``digits``: all, deep (position ≥ 2) or root (positions 0 and 1)."""

    name: str
    epochs: int
    rate: float
    digits: Digits = "all"

    def active(self, positions: np.ndarray) -> np.ndarray:
        """Which of the digit positions this phase trains."""
        if self.digits == "all":
            return np.ones(len(positions), bool)
        return positions >= 2 if self.digits == "deep" else positions < 2


@dataclass(frozen=True)
class Schedule:
    """Phases in order. ``batch`` items per update, digit by digit and freshly shuffled each epoch; None is full batch.

    ``cosine`` lets the rate of each phase fall to zero along a half cosine; ``decay="sqrt"`` is the η/√t of the paper's
    theorem, t counting epochs from 1 over all phases. ``betas`` are Adam's.
    """

    name: str
    phases: tuple[Phase, ...]
    batch: int | None = None
    betas: tuple[float, float] = (0.9, 0.999)
    cosine: bool = False
    decay: Literal["none", "sqrt"] = "none"

    def __post_init__(self) -> None:
        check_choice("decay", self.decay, ("none", "sqrt"))

    def settings(self) -> dict[str, Any]:
        """Everything that shapes a run, for checkpoints."""
        phases = [[phase.name, phase.epochs, phase.rate, phase.digits] for phase in self.phases]
        found = {"schedule": self.name, "phases": phases, "batch": self.batch, "betas": list(self.betas)}
        return {**found, "cosine": self.cosine, **({"decay": self.decay} if self.decay != "none" else {})}

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> Schedule:
        """The schedule of `settings`."""
        rest = {**settings}
        name, phases = rest.pop("schedule"), tuple(Phase(*phase) for phase in rest.pop("phases"))
        return cls(name, phases, **{**rest, "betas": tuple(rest["betas"])})

    @property
    def epochs(self) -> int:
        """Epochs of all phases together."""
        return sum(phase.epochs for phase in self.phases)

    def at(self, epoch: int) -> tuple[Phase, float]:
        """The phase and the learning rate of an epoch, counted from 0."""
        falling = 1 / np.sqrt(epoch + 1) if self.decay == "sqrt" else 1.0
        for phase in self.phases:
            if epoch < phase.epochs:
                fall = 0.5 * (1 + np.cos(np.pi * epoch / phase.epochs)) if self.cosine else 1.0
                return phase, phase.rate * fall * falling
            epoch -= phase.epochs
        raise IndexError(f"the schedule {self.name!r} has {self.epochs} epochs")


SCHEDULES = {
    # Full batch. β₂ = 0.95 forgets the large first gradients, without which 0.999 needs thousands of steps.
    "auto": Schedule("auto", (Phase("fit", 360, 0.5),), betas=(0.9, 0.95), cosine=True),
    "paper-main": Schedule(
        "paper-main",
        (
            Phase("deep warm-up", 8, 0.03, "deep"),
            Phase("root warm-up", 4, 0.03, "root"),
            Phase("fine-tune", 100, 0.015),
        ),
        batch=64,
    ),
    "paper-appendix": Schedule(
        "paper-appendix",
        (
            Phase("deep warm-up", 20, 1e-3, "deep"),
            Phase("root warm-up", 20, 1e-3, "root"),
            Phase("fine-tune", 20, 1e-3),
        ),
        batch=64,
    ),
}


def find_schedule(schedule: str | Schedule) -> Schedule:
    """A schedule by name, or the given one."""
    if isinstance(schedule, Schedule):
        return schedule
    check_choice("schedule", schedule, SCHEDULES)
    return SCHEDULES[schedule]
