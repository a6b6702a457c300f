"""GIST on any function of n digits: minimise a black box on (Z/pZ)^n with nothing but its values.

Digits are searched coarse to fine: digit 0 moves a point by p-adic distance 1, digit k by p^−k, so for an objective
that follows the tree a digit can be judged once the ones before it are right, and one sweep suffices. After a success
the search looks next to it first and learns which way the successes travel, so it adapts to digits stored fine to
coarse; a coordinate is looked at again only after something has moved.

At a local optimum the search either stops with its certificate or, while the budget lasts, perturbs: a window of
neighbouring digits is redrawn and searched again, and kept if no worse. Window widths that brought gains are drawn
more often.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args

import numpy as np

from vpunn._types import Numbers
from vpunn.errors import VpunnError, check_choice, examples
from vpunn.vapo.gist import Neighbourhood, neighbours
from vpunn.vapo.result import VapoResult

Order = Literal["valuation", "random"]
WIDTHS = (2, 3, 5, 8)


class _Spent(Exception):
    """The budget is used up."""


class _Point:
    """Digits, their loss, and the coordinates whose whole neighbourhood was evaluated from here without a gain."""

    def __init__(self, x: np.ndarray, value: float) -> None:
        self.x, self.value = x, value
        self.looked = np.zeros(len(x), bool)


class _Search:
    """The current point, the best one, and the bookkeeping of evaluations."""

    def __init__(
        self,
        loss: Callable[[np.ndarray], Any],
        x: np.ndarray,
        p: int,
        neighbourhood: Neighbourhood,
        budget: float,
        vectorized: bool,
    ) -> None:
        self.function, self.p, self.neighbourhood = loss, p, neighbourhood
        self.budget, self.vectorized = budget, vectorized
        self.evaluations = 0
        self.best = _Point(x.copy(), np.inf)
        self.at: list[int] = []
        self.history: list[float] = []
        self.here = self.point(x)

    def point(self, x: np.ndarray) -> _Point:
        """A point to go on from, evaluated."""
        value = float(self.evaluate(x[None, :])[0])
        return self.best if np.array_equal(x, self.best.x) else _Point(x, value)

    def evaluate(self, wanted: np.ndarray) -> np.ndarray:
        """Losses of several points; keeps the best, and raises when the budget ends before all of them are evaluated."""
        points = wanted[: int(min(len(wanted), self.budget - self.evaluations))]
        if len(points) == 0:
            raise _Spent
        found = self.function(points) if self.vectorized else [self.function(x.copy()) for x in points]
        try:
            values = np.asarray(found, float)
        except (TypeError, ValueError):
            raise VpunnError(
                f"the loss must return a number, got {found[0]!r} at digits {examples(points[0])}."
            ) from None
        if values.shape != (len(points),):
            raise VpunnError(
                f"the loss must return one number per point, got shape {values.shape} for {len(points)} points."
            )
        if np.isnan(values).any():
            raise VpunnError(f"the loss is NaN at digits {examples(points[np.isnan(values)][0])}.")
        i = int(values.argmin())
        if values[i] < self.best.value:
            self.best = _Point(points[i].copy(), float(values[i]))
            self.at.append(self.evaluations + i + 1)
            self.history.append(self.best.value)
        self.evaluations += len(points)
        if len(points) < len(wanted):
            raise _Spent
        return values

    def improve(self, k: int) -> bool:
        """Move digit k to the best of its neighbourhood if that is strictly better."""
        here = self.here
        options = neighbours(int(here.x[k]), self.p, self.neighbourhood)
        points = np.repeat(here.x[None, :], len(options), axis=0)
        points[:, k] = options
        values = self.evaluate(points)
        i = int(values.argmin())
        better = bool(values[i] < here.value)
        if better:
            self.here = self.best if np.array_equal(points[i], self.best.x) else _Point(points[i], float(values[i]))
        if not better or self.neighbourhood == "full":  # the best of all digits is so from each of them
            self.here.looked[k] = True
        return better

    def descend(self, order: np.ndarray) -> None:
        """Move coordinates until none of them improves any more, looking next to the last success first."""
        at, direction = -1, 1
        while True:
            for i in _outwards(at, direction, len(order)):
                if not self.here.looked[order[i]] and self.improve(int(order[i])):
                    at, direction = i, (direction if i == at else 1 if i > at else -1)
                    break
            else:
                return


def _outwards(at: int, direction: int, count: int) -> Iterator[int]:
    """Positions by distance from ``at``, the ones in ``direction`` before the ones behind; from −1: 0, 1, 2, …"""
    for distance in range(count + 1):
        for i in dict.fromkeys((at + direction * distance, at - direction * distance)):
            if 0 <= i < count:
                yield i


def minimize_digits(
    loss: Callable[[np.ndarray], Any],
    p: int,
    n: int,
    *,
    neighbourhood: Neighbourhood = "full",
    order: Order = "valuation",
    budget: int | None = None,
    coordinates: int | None = None,
    patience: int = 2,
    start: Numbers | None = None,
    vectorized: bool = False,
    seed: int = 0,
) -> VapoResult:
    """Minimise ``loss(digits)`` over n digits in 0…p−1. Use it through `vapo.minimize(loss, p=…, n=…)`.

    Without ``budget`` the search ends at the first point that is optimal in its neighbourhood and certifies it. With a
    budget of evaluations it goes on from there by perturbation and returns the best point seen. The certificate says
    ``optimal`` only if every neighbour of the returned point was evaluated; ``looked_at`` counts the coordinates of which
    that is true. ``coordinates`` limits
    a sweep to that many random digits (stochastic GIST); after ``patience`` sweeps without gain all digits take over.
    ``vectorized`` losses take an (m, n) array and return m values. One sweep costs n·(p−1) or n·2 evaluations.
    """
    _check_arguments(p, n, neighbourhood, order, budget, coordinates, patience)
    began, rng = time.perf_counter(), np.random.default_rng(seed)
    x = rng.integers(0, p, n) if start is None else _check_start(start, p, n)
    search = _Search(loss, x, p, neighbourhood, np.inf if budget is None else budget, vectorized)
    every = np.arange(n) if order == "valuation" else rng.permutation(n)
    try:
        if coordinates is not None and coordinates < n:
            _sampled_sweeps(search, coordinates, patience, rng)
        search.descend(every)
        if budget is not None and n > 1:
            _perturb(search, rng)
    except _Spent:
        pass
    best = search.best
    proved = bool(best.looked.all())
    certificate = {
        "optimal": proved,
        "neighbourhood": neighbourhood,
        "coordinates": n,
        "looked_at": int(best.looked.sum()),
        "evaluations": search.evaluations,
    }
    return VapoResult(
        parameters=best.x,
        loss=best.value,
        history=np.array(search.history),
        at=np.array(search.at, np.int64),
        evaluations=search.evaluations,
        seconds=time.perf_counter() - began,
        converged=proved,
        seed=seed,
        method="gist",
        epochs=-(-search.evaluations // (n * max(1, p - 1))),
        certificate=certificate,
    )


def _sampled_sweeps(search: _Search, coordinates: int, patience: int, rng: np.random.Generator) -> None:
    stale, n = 0, len(search.here.x)
    while stale < patience:
        moved = [search.improve(int(k)) for k in np.sort(rng.choice(n, coordinates, replace=False))]
        stale = 0 if any(moved) else stale + 1


def _perturb(search: _Search, rng: np.random.Generator) -> None:
    """Redraw a window of digits, search it again, keep it if the loss is no worse; until the budget is spent."""
    n = len(search.here.x)
    widths = np.array([w for w in WIDTHS if w <= n] or [n])
    reward = np.ones(len(widths))
    while True:
        arm = int(rng.choice(len(widths), p=reward / reward.sum()))
        low = int(rng.integers(0, n - widths[arm] + 1))
        window = np.arange(low, low + widths[arm])
        before, x = search.here, search.here.x.copy()
        x[window] = rng.integers(0, search.p, len(window))
        search.here = search.point(x)
        search.descend(window)
        reward[arm] = 0.95 * reward[arm] + (1.0 if search.here.value < before.value else 0.02)
        if search.here.value > before.value:
            search.here = before


def _check_start(start: Numbers, p: int, n: int) -> np.ndarray:
    x = np.array(start)
    if x.shape != (n,) or x.dtype.kind not in "iu":
        raise VpunnError(f"start needs {n} integer digits, got {x.dtype} of shape {x.shape}.")
    bad = (x < 0) | (x >= p)
    if bad.any():
        raise VpunnError(f"digits must lie in 0..{p - 1}, got {examples(x[bad])}.")
    return x.astype(np.int64)


def _check_arguments(
    p: int, n: int, neighbourhood: str, order: str, budget: int | None, coordinates: int | None, patience: int
) -> None:
    if not (isinstance(p, int | np.integer) and isinstance(n, int | np.integer) and p >= 2 and n >= 1):
        raise VpunnError(f"p={p!r} and n={n!r} must be integers with p ≥ 2 values per digit and n ≥ 1 digits.")
    check_choice("neighbourhood", neighbourhood, get_args(Neighbourhood))
    check_choice("order", order, get_args(Order))
    for name, value in (("budget", budget), ("coordinates", coordinates), ("patience", patience)):
        if value is not None and value < 1:
            raise VpunnError(f"{name}={value!r} must be at least 1.")
