"""GIST-VAPO: greedy integer steps on digits, one coordinate at a time, with a certificate at the end.

Neighbourhoods: ``pm1`` tries θ±1 mod p, as the paper does, and can get stuck on the way to a better digit (AUDIT E-40);
``full`` tries every admissible digit and so finds the coordinate optimum. A move must lower the loss strictly, so the
search ends, and the last sweep, in which nothing moved, proves that the point is optimal in its neighbourhood.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from vpunn._types import Numbers
from vpunn.errors import VpunnError, check_choice, check_whole, examples
from vpunn.padic import code_prime
from vpunn.tree.sweeps import sweep_up
from vpunn.vapo.driver import real_start

if TYPE_CHECKING:
    from vpunn.vapo.digits import DigitHeads

Neighbourhood = Literal["full", "pm1"]


class GISTScalar:
    """One digit as the paper's map T6 shows it: value and the greedy step of Algorithm 4. Alone, or one digit of a vector.

    >>> GISTScalar(3, p=5).step(lambda digit: (digit - 1) ** 2).value
    2
    >>> theta = np.array([0, 0])
    >>> losses = [1, 2, 0, 2, 2]                                     # AUDIT E-40
    >>> GISTScalar(theta, 1, p=5).step(lambda t: losses[t[1]]).value, theta.tolist()
    (0, [0, 0])
    >>> GISTScalar(theta, 1, p=5).step(lambda t: losses[t[1]], neighbourhood="full").value, theta.tolist()
    (2, [0, 2])
    """

    def __init__(self, theta: int | np.ndarray, index: int | None = None, *, p: int) -> None:
        self._alone = index is None
        if index is None and (isinstance(theta, bool) or not isinstance(theta, int | np.integer)):
            raise VpunnError(f"a GISTScalar alone is one whole digit, got {theta!r}; for a vector pass its index too.")
        self.theta: np.ndarray = np.array([theta]) if index is None else theta  # type: ignore[assignment]
        self.index, self.p = index or 0, p
        if not 0 <= self.value < p:
            raise VpunnError(f"a digit must lie in 0..{p - 1}, got {self.value}.")

    @property
    def value(self) -> int:
        """The digit."""
        return int(self.theta[self.index])

    def digit(self) -> int:
        """The digit itself; an `AdamScalar` has to round for it."""
        return self.value

    def step(self, loss: Any, neighbourhood: Neighbourhood = "pm1") -> GISTScalar:
        """Move to the best digit of the neighbourhood if that lowers the loss (of the digit, or of the vector) strictly."""
        here = self.value
        best, lowest = here, self._judge(loss)
        for value in neighbours(here, self.p, neighbourhood):
            self.theta[self.index] = value
            found = self._judge(loss)
            if found < lowest:
                best, lowest = value, found
        self.theta[self.index] = best
        return self

    def _judge(self, loss: Any) -> Any:
        return loss(self.value if self._alone else self.theta)


def neighbours(digit: int, p: int, neighbourhood: Neighbourhood) -> list[int]:
    """The digits a coordinate may move to."""
    if neighbourhood == "full":
        return [value for value in range(p) if value != digit]
    return list(dict.fromkeys(value for value in ((digit - 1) % p, (digit + 1) % p) if value != digit))


class GistSweeps:
    """Sweeps over digits, each of which moves a digit only where that lowers the loss strictly.

    With ``batch`` a sweep is first judged on that many randomly drawn items, until ``patience`` such sweeps in a row bring the
    full loss no new minimum; full sweeps then finish from the best point, until ``rest`` of them in a row move nothing. One
    such sweep proves that the point is optimal in its neighbourhood. Without ``batch`` every sweep is full.
    """

    method = "gist"
    tolerance = 0.0

    def __init__(
        self,
        problem: Any,
        theta: np.ndarray,
        *,
        neighbourhood: Neighbourhood = "full",
        batch: int | None = None,
        patience: int = 2,
        seed: int = 0,
        max_sweeps: int = 1000,
        rest: int = 1,
    ) -> None:
        check_choice("neighbourhood", neighbourhood, get_args(Neighbourhood))
        for name, value in (
            ("batch", 1 if batch is None else batch),
            ("patience", patience),
            ("max_sweeps", max_sweeps),
        ):
            check_whole(name, value)
        self.problem, self.seed, self.epochs = problem, seed, max_sweeps
        self.full = neighbourhood == "full"
        self.neighbourhood, self.batch, self.patience, self.rest = neighbourhood, batch, patience, rest
        self.state = {
            "theta": theta,
            "moved": np.array(-1),  # moves of the last full sweep, −1 before there was one
            "tried": np.array(0),  # evaluations of the last full sweep
            "still": np.array(0),  # full sweeps in a row that moved nothing
            "stale": np.array(0),  # sampled sweeps since the last new minimum
            "kept": theta.copy(),  # the best point of the sampled sweeps, where the full ones start
            "lowest": np.array(problem.loss(theta)),
        }

    def settings(self) -> dict[str, Any]:
        return {"neighbourhood": self.neighbourhood, "batch": self.batch, "patience": self.patience}

    def parameters(self) -> np.ndarray:
        return self.state["theta"]

    def finished(self, history: list[float]) -> bool:
        return int(self.state["still"]) >= self.rest

    def certificate(self) -> dict[str, Any]:
        """Whether the last full sweep found nothing to improve, how many digits it looked at and how much that cost."""
        proved, n = int(self.state["moved"]) == 0, self.problem.n_parameters
        return {
            "optimal": proved,
            "neighbourhood": self.neighbourhood,
            "coordinates": n,
            "looked_at": n if proved else 0,
            "evaluations": int(self.state["tried"]),
        }

    def epoch(self, number: int) -> int:
        state = self.state
        if self.batch is None or state["stale"] >= self.patience:
            moved, evaluations = self.sweep(None)
            state["moved"][...], state["tried"][...] = moved, evaluations
            state["still"][...] = 0 if moved else state["still"] + 1
            return int(evaluations)
        evaluations = self.sweep(np.random.default_rng([self.seed, number]))[1]
        now = self.problem.loss(state["theta"])
        if now < state["lowest"]:
            state["stale"][...], state["lowest"][...], state["kept"][...] = 0, now, state["theta"]
        else:
            state["stale"] += 1
        if state["stale"] >= self.patience:
            state["theta"][...] = state["kept"]
        return int(evaluations)

    def sweep(self, rng: np.random.Generator | None) -> tuple[int, int]:
        """One sweep in place, judged on all items or on ``batch`` drawn ones: its moves and evaluations."""
        raise NotImplementedError


class DigitGist(GistSweeps):
    """Sweeps on `DigitHeads`."""

    def __init__(self, problem: Any, *, start: Numbers | None = None, **options: Any) -> None:
        super().__init__(problem, problem.check_digits(problem.initial() if start is None else start), **options)

    def sweep(self, rng: np.random.Generator | None) -> Any:
        problem = self.problem
        mass = problem.mass if rng is None else _sampled_mass(problem, self.batch or 1, rng)
        return _sweep_of_heads(self, mass, problem.loss_code, problem.p, problem.tau)


class NetworkGist(DigitGist):
    """Sweeps on a `DigitNetwork`."""

    def sweep(self, rng: np.random.Generator | None) -> Any:
        from vpunn.vapo import _kernels

        problem, tree, theta = self.problem, self.problem.tree, self.state["theta"]
        weight = tree.is_leaf.astype(float)
        if rng is not None:
            weight[:] = 0.0
            weight[rng.choice(tree.leaves, min(self.batch or 1, tree.n_leaves), replace=False)] = 1.0
        nodes, value, circular = np.arange(tree.n_nodes), problem.predict(theta), problem.loss_name == "circular"
        return _kernels.network_sweep(
            tree.size, nodes, problem.target, weight, value, theta, self.full, problem.p, circular
        )[:2]


class RealGist(GistSweeps):
    """Full sweeps on real values that are held to digits 0…p − 1, without ``batch``; here of `DenseMSEHead`."""

    def __init__(self, problem: Any, *, start: Numbers | None = None, **options: Any) -> None:
        if options.get("batch") is not None:
            raise VpunnError(f"GIST on {type(problem).__name__} makes full sweeps; leave out batch, or use adam.")
        self.p = code_prime(problem.tree.max_branching)
        super().__init__(problem, as_digits(real_start(problem, start), self.p, given=start is not None), **options)

    def sweep(self, rng: np.random.Generator | None) -> Any:
        from vpunn.vapo import _kernels

        return _sweep_of_heads(self, self.problem.mass, _kernels.SQUARED, self.p, 1.0)


class LogitGist(RealGist):
    """Full sweeps on the logits of soft-max heads."""

    def sweep(self, rng: np.random.Generator | None) -> Any:
        from vpunn.vapo import _kernels

        problem, layout = self.problem, self.problem.layout
        every, theta = np.arange(layout.n_contexts), self.state["theta"]
        return _kernels.logit_sweep(
            every, layout.start, problem.mass, layout.digit, theta, self.full, self.p, problem.score_kind, problem.tau
        )


class LeakyGist(RealGist):
    """Full sweeps on the coefficients of a `LeakyRegression`."""

    def sweep(self, rng: np.random.Generator | None) -> Any:
        from vpunn.vapo import _kernels

        problem, theta = self.problem, self.state["theta"]
        tree, errors = problem.tree, np.zeros(problem.tree.n_nodes)
        errors[tree.leaves] = problem.errors(theta)
        weight = tree.is_leaf.astype(float)
        return _kernels.leaky_sweep(tree.size, weight, errors, theta, problem.alpha, self.full, self.p)


def _sweep_of_heads(solver: GistSweeps, mass: np.ndarray, loss: int, p: int, tau: float) -> Any:
    from vpunn.vapo import _kernels

    layout, theta = solver.problem.layout, solver.state["theta"]
    every = np.arange(layout.n_contexts)
    return _kernels.gist_sweep(every, layout.start, mass, layout.digit, theta, solver.full, loss, p, tau)[:2]


def as_digits(values: np.ndarray, p: int, *, given: bool) -> np.ndarray:
    """Real values that are digits: a given start must consist of them, an own one is rounded mod p."""
    digits = np.rint(values) % p
    if given and (digits != values).any():
        raise VpunnError(f"GIST starts from digits in 0..{p - 1}, got {examples(values[digits != values])}.")
    return np.asarray(digits)


def _sampled_mass(problem: DigitHeads, batch: int, rng: np.random.Generator) -> np.ndarray:
    """Weighted slot counts of ``batch`` items drawn at random (with their weights as chances)."""
    share = problem.items / problem.total
    drawn = np.bincount(rng.choice(len(share), batch, p=share), minlength=len(share)).astype(float)
    through = sweep_up(problem.tree, drawn)
    slots = problem.layout.slot[1:]
    return np.asarray(np.bincount(slots, through[1:], minlength=problem.layout.n_slots) * problem.weights)
