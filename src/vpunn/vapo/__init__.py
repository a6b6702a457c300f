"""VAPO, valuation-adaptive perturbation optimisation: one front, `minimize`, over three optimisers.

- ``gist``: greedy steps on digits; on `DigitHeads`, `DigitNetwork`, any black-box function on (Z/pZ)^n, and on
  `SoftmaxHeads`, `DenseMSEHead`, `LeakyRegression` with their values held to digits.
- ``adam``: lazy per-ball Adam on `SoftmaxHeads`, `QuadraticHeads`, `DenseMSEHead`, `LeakyRegression`, and through
  rounding on `DigitHeads`.
- ``fisher``: natural gradient with the exact block-diagonal Fisher information on `SoftmaxHeads`.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from vpunn._types import Numbers
from vpunn.errors import VpunnError
from vpunn.vapo.adam import AdamScalar, AdamSolver, AdamState
from vpunn.vapo.blackbox import minimize_digits
from vpunn.vapo.driver import drive
from vpunn.vapo.fisher import FisherSolver, fisher_block, information, information_blocks
from vpunn.vapo.gist import DigitNetwork, GISTScalar, GistSolver
from vpunn.vapo.heads import DigitHeads, SoftmaxHeads
from vpunn.vapo.leaky import LeakyRegression
from vpunn.vapo.result import VapoResult
from vpunn.vapo.schedule import SCHEDULES, Phase, Schedule

__all__ = [
    "SCHEDULES",
    "AdamScalar",
    "AdamState",
    "DigitNetwork",
    "GISTScalar",
    "LeakyRegression",
    "Phase",
    "Schedule",
    "VapoResult",
    "fisher_block",
    "information",
    "information_blocks",
    "minimize",
]

_SOLVERS: dict[str, Any] = {"gist": GistSolver, "adam": AdamSolver, "fisher": FisherSolver}


def minimize(
    problem: Any,
    method: str = "auto",
    *,
    seed: int = 0,
    start: Numbers | None = None,
    checkpoint: Any = None,
    checkpoint_every: int = 20,
    resume: bool = False,
    progress: bool = False,
    **options: Any,
) -> VapoResult:
    """Minimise the loss of heads, of a digit network, or of a black box; returns a `VapoResult`.

    ``method`` is ``gist``, ``adam`` or ``fisher``; ``auto`` takes fisher for plain soft-max heads, adam for other real
    parameters and gist for digits. A callable is a black box and needs ``p`` and ``n`` (see `blackbox.minimize_digits`).
    Options by method: gist ``neighbourhood, batch, patience, max_sweeps``; adam ``schedule, tolerance``; fisher ``tolerance,
    max_steps``. Same seed, same result to the bit, also when resumed from a checkpoint.

    >>> from vpunn.tree import Tree
    >>> heads = SoftmaxHeads(Tree.from_parents([-1, 0, 0, 1, 1, 1]))
    >>> result = minimize(heads)
    >>> result.method, result.converged, abs(result.loss - heads.optimum()) < 1e-6
    ('fisher', True, True)
    >>> minimize(lambda x: float((x != 3).sum()), p=5, n=4).parameters
    array([3, 3, 3, 3])
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise VpunnError(f"seed={seed!r} must be a whole number ≥ 0.")
    if callable(problem):
        if method not in ("auto", "gist"):
            raise VpunnError(
                f"method={method!r} needs a model with gradients; a black box is minimised with method='gist'."
            )
        if checkpoint is not None:
            raise VpunnError(
                "black-box searches keep no checkpoints; pass start=result.parameters to go on from a result."
            )
        _check_options(minimize_digits, options, "a black box", ("p", "n"))
        return minimize_digits(problem, start=start, seed=seed, **options)
    name = _default_method(problem) if method == "auto" else method
    if name not in _SOLVERS:
        raise VpunnError(f"method={method!r} is unknown; choose one of auto, {', '.join(_SOLVERS)}.")
    kind = (
        problem.solver(name) if hasattr(problem, "solver") else _SOLVERS[name]
    )  # a problem may bring its own optimisers
    _check_options(kind, options, f"method={name!r}")
    solver = kind(problem, seed=seed, start=start, **options)
    return drive(solver, checkpoint=checkpoint, checkpoint_every=checkpoint_every, resume=resume, progress=progress)


def _default_method(problem: Any) -> str:
    if isinstance(problem, DigitHeads | DigitNetwork):
        return "gist"
    return "fisher" if type(problem) is SoftmaxHeads and not problem.margin else "adam"


def _check_options(function: Any, options: dict[str, Any], what: str, needed: tuple[str, ...] = ()) -> None:
    taken = inspect.signature(function).parameters
    known = [name for name in taken if name not in ("self", "problem", "loss", "seed", "start")]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise VpunnError(f"{what} takes no option {', '.join(map(repr, unknown))}; it knows {', '.join(known)}.")
    missing = [name for name in needed if name not in options]
    if missing:
        raise VpunnError(f"{what} needs {' and '.join(missing)}, e.g. minimize(loss, p=5, n=100).")
