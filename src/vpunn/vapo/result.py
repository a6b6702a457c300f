"""What every optimiser returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vpunn.store import Draft, Storable, Stored


@dataclass(frozen=True)
class VapoResult(Storable):
    """The outcome of `vapo.minimize`.

    ``parameters`` and ``loss`` belong to the best point visited. ``history`` is the loss at the start and after every epoch
    (sweep, step); for black boxes the best loss after every improvement, with ``at`` the evaluations spent by then.
    ``evaluations`` counts losses or gradients of single balls, and calls of the function for black boxes. ``converged``
    means: within the tolerance of the optimum where that is known, else optimal in the searched neighbourhood, else no
    longer falling. ``certificate`` says what a GIST search proved about the point it returns; None if nothing.
    """

    parameters: np.ndarray
    loss: float
    history: np.ndarray
    evaluations: int
    seconds: float
    converged: bool
    seed: int
    method: str
    epochs: int = 0
    certificate: dict[str, Any] | None = None
    at: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def _to_store(self, draft: Draft) -> None:
        names = ("loss", "evaluations", "seconds", "converged", "seed", "method", "epochs", "certificate")
        draft.settings |= {name: getattr(self, name) for name in names}
        for name in ("parameters", "history", "at"):
            draft.array(name, getattr(self, name))

    @classmethod
    def _from_store(cls, stored: Stored) -> VapoResult:
        kinds: dict[str, Any] = {"loss": float, "seconds": float, "evaluations": int, "seed": int, "epochs": int}
        settings = {name: stored.setting(name, kind) for name, kind in kinds.items()}
        settings |= {"converged": bool(stored.setting("converged", bool)), "method": stored.setting("method", str)}
        arrays = {
            name: np.array(stored.array(name, dtype="iuf", shape=(None,))) for name in ("parameters", "history", "at")
        }
        return cls(**arrays, **settings, certificate=stored.setting("certificate", dict | type(None)))  # type: ignore[arg-type]

    def __repr__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return (
            f"VapoResult({self.method}: loss {self.loss:.6g} after {self.epochs} epochs, "
            f"{self.evaluations:,} evaluations, {self.seconds:.2f} s, {state})"
        )
