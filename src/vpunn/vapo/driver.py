"""The loop all tree optimisers share: epochs, history, checkpoints that resume to the bit, progress."""

from __future__ import annotations

import hashlib
import json
import os
import time
import zipfile
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from vpunn._progress import progress_bar
from vpunn._types import Numbers
from vpunn.errors import VpunnError, examples
from vpunn.files import written_beside
from vpunn.vapo.result import VapoResult

FORMAT = "vpunn-vapo-checkpoint-1"


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
    """Run a solver to its end. With ``checkpoint``, its state is written there every ``checkpoint_every`` epochs and at the
    end, atomically; ``resume`` continues from the file if it exists. A file that belongs to another tree or to other
    settings is refused and left as it is."""
    if checkpoint_every < 1:
        raise VpunnError(f"checkpoint_every={checkpoint_every!r} must be at least 1 epoch.")
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and not path.parent.is_dir():
        raise VpunnError(f"there is no folder {str(path.parent)!r} for the checkpoint {path.name!r}; create it first.")
    identity = "" if path is None else _identity(solver)
    saved = None if path is None or not path.exists() else _read(path, identity, solver)
    began, spent = time.perf_counter(), 0.0
    history, evaluations = [solver.problem.loss(solver.parameters())], 0
    best, best_loss = solver.parameters().copy(), history[0]
    if saved is not None and resume:
        meta, arrays = saved
        history, evaluations, spent = list(arrays.pop("history")), meta["evaluations"], meta["seconds"]
        best, best_loss = arrays.pop("best"), meta["best_loss"]
        for name, array in arrays.items():
            solver.state[name][...] = array

    def save(epoch: int) -> None:
        if path is not None:
            meta = {
                "format": FORMAT,
                "identity": identity,
                "settings": _all_settings(solver),
                "epoch": epoch,
                "evaluations": evaluations,
                "seconds": spent + time.perf_counter() - began,
                "best_loss": best_loss,
            }
            _write(path, meta, {"history": np.array(history), "best": best, **solver.state})

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
                save(done)
    if done % checkpoint_every:
        save(done)
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


# ---- checkpoints -------------------------------------------------------------------------------------------------------


def _all_settings(solver: Solver) -> dict[str, Any]:
    return {"method": solver.method, "seed": solver.seed, **solver.problem.settings(), **solver.settings()}


def _identity(solver: Solver) -> str:
    """A fingerprint of the tree (shape and labels) and of the items on it."""
    tree, digest = solver.problem.tree, hashlib.sha256()
    digest.update(tree.parent.tobytes())
    digest.update("\0".join(map(str, tree.labels)).encode())
    digest.update(np.ascontiguousarray(solver.problem.items).tobytes())
    return f"{digest.hexdigest()} {json.dumps(_all_settings(solver), sort_keys=True)}"


def _write(path: Path, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    with written_beside(path) as beside, beside.open("wb") as file:
        np.savez(file, **{"meta": np.array(json.dumps(meta)), **arrays})  # type: ignore[arg-type]


def _read(path: Path, identity: str, solver: Solver) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    room = sum(array.nbytes for array in (solver.parameters(), *solver.state.values())) + 8 * solver.epochs
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            if sum(part.file_size for part in file.zip.infolist()) > 2 * room + (1 << 20):  # before it takes the memory
                raise ValueError("more than the arrays of this run can hold")
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(str(arrays.pop("meta")))
        known = meta["format"] == FORMAT
    except (
        OSError,
        EOFError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        MemoryError,
        zipfile.BadZipFile,
    ) as error:
        raise VpunnError(
            f"{path} is not a VAPO checkpoint and was left as it is; choose another checkpoint path."
        ) from error
    if not known:
        raise VpunnError(
            f"{path} has the unknown checkpoint format {meta['format']!r}; choose another checkpoint path."
        )
    tree_there, _, settings_there = meta["identity"].partition(" ")
    tree_here, _, settings_here = identity.partition(" ")
    if tree_there != tree_here:
        raise VpunnError(
            f"the checkpoint {path} belongs to another tree or items; it was left as it is, choose another path."
        )
    if settings_there != settings_here:
        there, here = json.loads(settings_there), json.loads(settings_here)
        changed = sorted(name for name in {*there, *here} if there.get(name) != here.get(name))
        detail = ", ".join(f"{name} {there.get(name)!r} there, {here.get(name)!r} here" for name in changed[:3])
        raise VpunnError(
            f"the checkpoint {path} has other settings ({detail}); it was left as it is, choose another path."
        )
    if wrong := _damage(meta, arrays, solver):
        raise VpunnError(f"the checkpoint {path} is damaged ({wrong}); it was left as it is, choose another path.")
    return meta, arrays


def _damage(meta: dict[str, Any], arrays: dict[str, np.ndarray], solver: Solver) -> str:
    """What keeps a run from going on from these arrays; empty if nothing."""
    wanted = {"best": solver.parameters(), **solver.state}
    if other := sorted({"history", *wanted} ^ set(arrays)):
        return f"it lacks or should not have the array {examples(other)}"
    for name, like in wanted.items():
        found = arrays[name]
        if found.shape != like.shape or found.dtype != like.dtype:
            return f"its array {name!r} is {found.dtype}{found.shape}, not {like.dtype}{like.shape}"
        if found.dtype.kind == "f" and not (np.isfinite(found).all() if found.ndim else not np.isnan(found)):
            return f"its array {name!r} holds values that are not finite"
    history, epoch = arrays["history"], meta.get("epoch")
    if history.dtype != float or history.ndim != 1 or not np.isfinite(history).all():
        return "its history holds something else than finite losses"
    if type(epoch) is not int or len(history) != epoch + 1 or epoch > solver.epochs:
        return f"it has {len(history):,} losses for epoch {epoch!r} of {solver.epochs:,}"
    numbers = meta.get("evaluations"), meta.get("seconds"), meta.get("best_loss")
    if not all(type(x) in (int, float) and abs(float(x)) < np.inf for x in numbers):  # type: ignore[arg-type]
        return f"its counts are {examples(numbers)}"
    return ""
