"""The loop all tree optimisers share: epochs, history, checkpoints that resume to the bit, progress."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from vpunn._progress import progress_bar
from vpunn._types import Numbers
from vpunn.errors import VpunnError, examples
from vpunn.vapo.checkpoint import Checkpoint, run_of
from vpunn.vapo.result import VapoResult


class Solver(Protocol):
    """One optimiser on one problem. ``state`` holds every array needed to go on; epochs draw randomness from
    ``default_rng([seed, epoch])`` only, so a resumed run repeats the uninterrupted one bit by bit."""

    method: str
    problem: Any
    seed: int
    epochs: int
    tolerance: float
    state: dict[str, np.ndarray]

    def epoch(self, number: int) -> int:
        """Advance; return the evaluations spent."""

    def parameters(self) -> np.ndarray:
        """The current point."""

    def finished(self, history: list[float]) -> bool:
        """Whether to stop before ``epochs`` are used up."""

    def settings(self) -> dict[str, Any]:
        """Everything that shapes the run, for the checkpoint."""

    def certificate(self) -> dict[str, Any] | None:
        """What is proved about the current point."""


def drive(
    solver: Solver,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 20,
    resume: bool = False,
    progress: bool = False,
) -> VapoResult:
    """Run a solver to its end. With ``checkpoint``, its state is written to that folder every ``checkpoint_every`` epochs and at
    the end, whole or not at all; ``resume`` continues from it if it exists. What belongs to another tree or to other settings is
    refused and left as it is."""
    if checkpoint_every < 1:
        raise VpunnError(f"checkpoint_every={checkpoint_every!r} must be at least 1 epoch.")
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and not path.parent.is_dir():
        raise VpunnError(f"there is no folder {str(path.parent)!r} for the checkpoint {path.name!r}; create it first.")
    saved = None if path is None or not path.exists() else Checkpoint.open(path, solver)
    began, spent = time.perf_counter(), 0.0
    history, evaluations = [solver.problem.loss(solver.parameters())], 0
    best, best_loss = solver.parameters().copy(), history[0]
    if saved is not None and resume:
        evaluations, spent, best_loss = (saved.counts[name] for name in ("evaluations", "seconds", "best_loss"))
        history, best = saved.arrays["history"].tolist(), saved.arrays["best"]
        for name, array in solver.state.items():
            array[...] = saved.arrays[name]

    def save() -> None:
        if path is not None:
            seconds = spent + time.perf_counter() - began
            counts = {"evaluations": int(evaluations), "seconds": seconds, "best_loss": float(best_loss)}
            arrays = {"history": np.array(history), "best": best, **solver.state}
            Checkpoint(run_of(solver), counts, arrays).save(path)

    done = len(history) - 1
    with progress_bar(solver.method, solver.epochs, verbose=progress, done=done) as bar:
        while done < solver.epochs and not solver.finished(history):
            evaluations += solver.epoch(done)
            done += 1
            history.append(solver.problem.loss(solver.parameters()))
            if history[-1] < best_loss:
                best, best_loss = solver.parameters().copy(), history[-1]
            bar()
            bar.say(f"loss {history[-1]:.6g}")
            if done % checkpoint_every == 0:
                save()
    if done % checkpoint_every:
        save()
    certificate = solver.certificate()
    if (
        certificate is not None and certificate["optimal"]
    ):  # it speaks about the current point, which is also the lowest up to rounding
        best, best_loss = solver.parameters().copy(), history[-1]
    return VapoResult(
        parameters=best,
        loss=float(best_loss),
        history=np.array(history),
        evaluations=int(evaluations),
        seconds=spent + time.perf_counter() - began,
        converged=_converged(solver, best_loss, history, certificate),
        seed=solver.seed,
        method=solver.method,
        epochs=done,
        certificate=certificate,
    )


def real_start(problem: Any, start: Numbers | None) -> np.ndarray:
    """Where to begin: the problem's own choice, or a copy of the given finite numbers."""
    if start is None:
        return np.array(problem.initial(), float)
    values = np.array(start)
    if values.shape != (problem.n_parameters,) or values.dtype.kind not in "iuf":
        raise VpunnError(f"start needs {problem.n_parameters:,} numbers, got {values.dtype} of shape {values.shape}.")
    if not np.isfinite(values).all():
        raise VpunnError(f"start must be finite, got {examples(values[~np.isfinite(values)])}.")
    return values.astype(float)


def _converged(solver: Solver, loss: float, history: list[float], certificate: dict[str, Any] | None) -> bool:
    if certificate is not None:
        return bool(certificate["optimal"])
    known = getattr(solver.problem, "known_optimum", None)
    if known is not None:
        return bool(loss - known <= solver.tolerance)
    tail = history[-5:]
    return len(tail) == 5 and max(tail) - min(tail) <= solver.tolerance
