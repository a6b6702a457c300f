"""Where a run can go on to the bit: a model folder with the solver's arrays, written between two epochs."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import VpunnError, examples
from vpunn.store import Draft, Storable, Stored

if TYPE_CHECKING:
    from vpunn.vapo.driver import Solver

#: Numbers of a run beside its arrays.
COUNTS: dict[str, Any] = {"evaluations": int, "seconds": float, "best_loss": float}


class Checkpoint(Storable):
    """What ``run`` it belongs to (tree, items, settings), its ``counts``, and its ``arrays``: the solver's state, the best point
    so far and the history of losses, one more than epochs."""

    def __init__(self, run: dict[str, Any], counts: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        self.run, self.counts, self.arrays = run, counts, arrays

    @classmethod
    def open(cls, path: Path, solver: Solver) -> Checkpoint:
        """The checkpoint of this very run; any other is refused."""
        found, here = cls.load(path), run_of(solver)
        changed = [name for name in {**found.run, **here} if found.run.get(name) != here.get(name)]
        if "tree and items" in changed:
            raise VpunnError(
                f"the checkpoint {path} belongs to another tree or items; it was left as it is, choose another path."
            )
        if changed:
            there = ", ".join(f"{name} {found.run.get(name)!r} there, {here.get(name)!r} here" for name in changed[:3])
            raise VpunnError(
                f"the checkpoint {path} has other settings ({there}); it was left as it is, choose another path."
            )
        if wrong := found._unlike(solver):
            raise VpunnError(f"the checkpoint {path} is damaged ({wrong}); it was left as it is, choose another path.")
        return found

    def _unlike(self, solver: Solver) -> str:
        """What keeps the solver from going on from these arrays; empty if nothing."""
        wanted = {"best": solver.parameters(), **solver.state}
        if other := sorted({"history", *wanted} ^ set(self.arrays)):
            return f"it lacks or should not have the array {examples(other)}"
        for name, like in wanted.items():
            if self.arrays[name].shape != like.shape or self.arrays[name].dtype != like.dtype:
                return f"its array {name!r} is {self.arrays[name].dtype}{self.arrays[name].shape}, not {like.dtype}{like.shape}"
        history = self.arrays["history"]
        if history.dtype != float or history.ndim != 1 or not 1 <= len(history) <= solver.epochs + 1:
            return f"it has {history.size:,} losses, and the run {solver.epochs:,} epochs"
        return ""

    def _to_store(self, draft: Draft) -> None:
        draft.settings |= {"run": self.run, **self.counts}
        for name, array in self.arrays.items():
            draft.array(name, array)

    @classmethod
    def _from_store(cls, stored: Stored) -> Checkpoint:
        counts = {name: stored.setting(name, kind) for name, kind in COUNTS.items()}
        arrays = {name: np.array(stored.array(name, dtype="iuf")) for name in stored.names}
        return cls(stored.setting("run", dict), counts, arrays)


def run_of(solver: Solver) -> dict[str, Any]:
    """A fingerprint of the tree (shape and labels) and of the items on it, and every setting of the run."""
    tree, digest = solver.problem.tree, hashlib.sha256()
    digest.update(tree.parent.tobytes())
    digest.update("\0".join(map(str, tree.labels)).encode())
    digest.update(np.ascontiguousarray(solver.problem.items).tobytes())
    own = {"method": solver.method, "seed": solver.seed, **solver.problem.settings(), **solver.settings()}
    return {"tree and items": digest.hexdigest(), **own}
