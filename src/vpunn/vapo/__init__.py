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
from vpunn.errors import VpunnError, check_choice
from vpunn.vapo.adam import AdamScalar, AdamState
from vpunn.vapo.blackbox import minimize_digits
from vpunn.vapo.digits import DigitHeads, DigitNetwork
from vpunn.vapo.driver import drive
from vpunn.vapo.fisher import fisher_block, information, information_blocks
from vpunn.vapo.gist import GISTScalar
from vpunn.vapo.heads import DenseMSEHead, QuadraticHeads, SoftmaxHeads
from vpunn.vapo.leaky import LeakyRegression
from vpunn.vapo.result import VapoResult
from vpunn.vapo.schedule import SCHEDULES, Phase, Schedule

__all__ = [
    "SCHEDULES",
    "AdamScalar",
    "AdamState",
    "DenseMSEHead",
    "DigitHeads",
    "DigitNetwork",
    "GISTScalar",
    "LeakyRegression",
    "Phase",
    "QuadraticHeads",
    "Schedule",
    "SoftmaxHeads",
    "VapoResult",
    "fisher_block",
    "information",
    "information_blocks",
    "minimize",
]

METHODS = ("gist", "adam", "fisher")
#: What solvers are made with beside the options of `minimize`.
INNER = ("self", "problem", "loss", "seed", "start", "theta", "rest", "args", "kwargs", "options")


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

    ``method`` is ``gist``, ``adam`` or ``fisher``: one of the problem's own ``solvers``, of which ``auto`` takes the first. A
    callable is a black box and needs ``p`` and ``n`` (see `blackbox.minimize_digits`). Options by method: gist ``neighbourhood``,
    ``batch``, ``patience``, ``max_sweeps``; adam ``schedule``, ``tolerance``; fisher ``tolerance``, ``max_steps``. Same seed, same
    result to the bit, also when resumed from a checkpoint.

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
    check_choice("method", method, ("auto", *METHODS))
    solvers = problem.solvers
    name = next(iter(solvers)) if method == "auto" else method
    if name not in solvers:
        raise VpunnError(f"{type(problem).__name__} is solved by {' or '.join(solvers)}, not by {name}.")
    _check_options(solvers[name], options, f"method={name!r}")
    solver = solvers[name](problem, seed=seed, start=start, **options)
    return drive(solver, checkpoint=checkpoint, checkpoint_every=checkpoint_every, resume=resume, progress=progress)


def _check_options(function: Any, options: dict[str, Any], what: str, needed: tuple[str, ...] = ()) -> None:
    makers = (
        [vars(each).get("__init__", object) for each in reversed(function.__mro__)]
        if isinstance(function, type)
        else [function]
    )
    taken = dict.fromkeys(name for make in makers for name in inspect.signature(make).parameters)
    known = [name for name in taken if name not in INNER]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise VpunnError(f"{what} takes no option {', '.join(map(repr, unknown))}; it knows {', '.join(known)}.")
    missing = [name for name in needed if name not in options]
    if missing:
        raise VpunnError(f"{what} needs {' and '.join(missing)}, e.g. minimize(loss, p=5, n=100).")
