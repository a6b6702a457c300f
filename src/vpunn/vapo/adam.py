"""Adam-VAPO: lazy per-ball Adam on logits, two-logit values or (straight through a rounding) digits.

The paper claims an O(T^-½) rate; its proof does not hold (AUDIT E-38), so the only claims made here are measured: for
input-free soft-max heads the optimum is known and the run is compared with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._types import Numbers
from vpunn.errors import VpunnError
from vpunn.vapo.driver import real_start
from vpunn.vapo.schedule import Phase, Schedule, find_schedule

if TYPE_CHECKING:
    from vpunn.vapo.heads import SoftmaxHeads

#: Adam's ε. Gradients of deep balls are as small as 1/items, so the usual 1e-8 would slow them down.
EPSILON = 1e-12


class AdamState:
    """Value v, moments m and u of every parameter, and a step counter per row of parameters that move together."""

    def __init__(self, values: np.ndarray, row: np.ndarray | None = None) -> None:
        self.v = np.array(values, float)
        self.m, self.u = np.zeros_like(self.v), np.zeros_like(self.v)
        self.row = np.arange(len(self.v)) if row is None else row
        self.steps = np.zeros(int(self.row.max()) + 1, np.int64)

    def step(self, gradient: np.ndarray, rate: float, betas: tuple[float, float] = (0.9, 0.999)) -> None:
        """Adam on all parameters whose gradient is not zero; the others neither move nor age."""
        at = np.flatnonzero(gradient)
        moving = np.zeros(len(self.steps), bool)
        moving[self.row[at]] = True
        self.steps += moving
        self._move(at, gradient[at], rate, betas)

    def _move(self, at: Any, gradient: Any, rate: float, betas: tuple[float, float]) -> None:
        b1, b2 = betas
        t = self.steps[self.row[at]]
        ages = np.arange(np.max(t, initial=0) + 1)
        fade1, fade2 = (b1**ages)[t], (b2**ages)[t]  # few ages, many parameters
        self.m[at] = b1 * self.m[at] + (1 - b1) * gradient
        self.u[at] = b2 * self.u[at] + (1 - b2) * gradient**2
        self.v[at] -= rate * (self.m[at] / (1 - fade1)) / (np.sqrt(self.u[at] / (1 - fade2)) + EPSILON)


class AdamScalar:
    """One coefficient as the paper's map T6 shows it: a real latent whose rounding is a digit. Alone, or one of an `AdamState`.

    >>> AdamScalar(2.6).digit(5), AdamScalar(-0.6).digit(5)
    (3, 4)
    >>> state = AdamState(np.array([0.0, 2.6]))
    >>> scalar = AdamScalar(state, 1)
    >>> scalar.digit(5), round(scalar.step(gradient=-1.0, rate=0.5).value, 6)
    (3, 3.1)
    >>> state.v.round(6).tolist()
    [0.0, 3.1]
    """

    def __init__(self, state: AdamState | float, index: int = 0) -> None:
        if not isinstance(state, AdamState):
            if isinstance(state, bool) or not isinstance(state, int | float | np.number) or not np.isfinite(state):
                raise VpunnError(f"an AdamScalar starts from a finite number, got {state!r}.")
            state = AdamState(np.array([state], float))
        self.state, self.index = state, index

    @property
    def value(self) -> float:
        """The latent v."""
        return float(self.state.v[self.index])

    def digit(self, p: int) -> int:
        """The paper's projection round(v) mod p."""
        return int(np.round(self.state.v[self.index])) % p

    def step(self, gradient: float, rate: float = 0.015, betas: tuple[float, float] = (0.9, 0.999)) -> AdamScalar:
        """The paper's Algorithm 5 on this coefficient alone."""
        self.state.steps[self.state.row[self.index]] += 1
        self.state._move(self.index, gradient, rate, betas)
        return self


class FullBatchAdam:
    """Adam by the problem's own gradient, all items at once."""

    method = "adam"

    def __init__(
        self,
        problem: Any,
        *,
        schedule: str | Schedule = "auto",
        start: Numbers | None = None,
        seed: int = 0,
        tolerance: float = 1e-6,
    ) -> None:
        self.problem, self.seed, self.tolerance = problem, seed, tolerance
        self.schedule = find_schedule(schedule)
        self.epochs = self.schedule.epochs
        self.adam = self._state(real_start(problem, start))
        self.state = {"v": self.adam.v, "m": self.adam.m, "u": self.adam.u, "steps": self.adam.steps}

    def _state(self, values: np.ndarray) -> AdamState:
        return AdamState(values)

    def settings(self) -> dict[str, Any]:
        return self.schedule.settings()

    def parameters(self) -> np.ndarray:
        return self.adam.v

    def certificate(self) -> None:
        return None

    def finished(self, history: list[float]) -> bool:
        """Fixed schedules run to their end; ``auto`` stops early once the known optimum is reached."""
        known = self.problem.known_optimum
        return self.schedule.name == "auto" and known is not None and history[-1] - known <= 0.1 * self.tolerance

    def stretch(self) -> float:
        """A factor of the schedule's rate."""
        return 1.0

    def epoch(self, number: int) -> int:
        phase, rate = self.schedule.at(number)
        gradient = self.problem.gradient(self.parameters())
        gradient[~phase.active(self.problem.positions)] = 0.0
        self.adam.step(gradient, rate * self.stretch(), self.schedule.betas)
        return int(np.count_nonzero(gradient))


class FarAdam(FullBatchAdam):
    """Values that are digits may lie far from the start: ``auto`` has enough reach to cross the whole range (AUDIT E-53)."""

    def stretch(self) -> float:
        return max(1.0, self.problem.tree.max_branching / 50) if self.schedule.name == "auto" else 1.0


class RoundedAdam(FarAdam):
    """Digits are names here, not points of a circle: latents are rounded and clipped, they do not wrap."""

    def parameters(self) -> np.ndarray:
        return np.clip(np.round(self.adam.v), 0, self.problem.p - 1).astype(np.int64)


class AdamSolver(FullBatchAdam):
    """Adam on soft-max heads, compiled: full batch, or the paper's mini-batches."""

    problem: SoftmaxHeads

    def __init__(self, problem: SoftmaxHeads, **options: Any) -> None:
        super().__init__(problem, **options)
        self._events = _digit_events(problem) if self.schedule.batch else []
        self._scratch = np.zeros((2, problem.n_parameters))

    def _state(self, values: np.ndarray) -> AdamState:
        return AdamState(values, self.problem.layout.context)

    def epoch(self, number: int) -> int:
        phase, rate = self.schedule.at(number)
        if self.schedule.batch:
            return self._shuffled_epoch(self.problem, number, phase, rate)
        return self._full_batch(self.problem, np.flatnonzero(phase.active(self.problem.positions)), rate)

    def _grouped(self, heads: SoftmaxHeads, rate: float) -> tuple[Any, Any, Any]:
        """The kernels' arguments: the slots, Adam's arrays and the constants of a step."""
        from vpunn.vapo._kernels import AdamArrays, AdamStep, Slots

        layout, adam = heads.layout, self.adam
        return (
            Slots(layout.start, layout.digit, heads.score_kind, heads.tau, heads.margin),
            AdamArrays(adam.v, adam.m, adam.u, adam.steps, *self._scratch),
            AdamStep(rate, *self.schedule.betas, EPSILON),
        )

    def _full_batch(self, heads: SoftmaxHeads, contexts: np.ndarray, rate: float) -> int:
        from vpunn.vapo import _kernels as _head_kernels

        _head_kernels.adam_update(contexts, heads.mass, 1 / heads.total, *self._grouped(heads, rate))
        return len(contexts)

    def _shuffled_epoch(self, heads: SoftmaxHeads, number: int, phase: Phase, rate: float) -> int:
        """The paper's digit-wise shuffling: digit positions in random order, the items of each freshly permuted."""
        from vpunn.vapo import _kernels as _head_kernels

        grouped = self._grouped(heads, rate)
        rng, updates = np.random.default_rng([self.seed, number]), 0
        for k in rng.permutation(len(self._events)):
            if not phase.active(np.array([k]))[0]:
                continue
            slots, amounts = self._events[k]
            order = rng.permutation(len(slots))
            updates += _head_kernels.adam_epoch(
                slots[order], amounts[order], self.schedule.batch, heads.layout.context, *grouped
            )
        return int(updates)


def _digit_events(problem: SoftmaxHeads) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each digit position: the slot every item passes through there, and its weight."""
    tree, layout = problem.tree, problem.layout
    items = np.flatnonzero(problem.items)
    events = []
    for ball in tree.paths(items).T[1:]:
        deep = ball >= 0
        slots = layout.slot[ball[deep]]
        events.append((slots, problem.items[items[deep]] * problem.weights[slots]))
    return events
