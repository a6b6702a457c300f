"""Soft-max heads trained in shards of balls: each ball belongs to one shard, the loss is added up once a step.

With a law per ball (``factorisation="node"``) the heads of different balls share nothing but the loss that says when to stop. Balls
in preorder are cut into stretches, which are whole subtrees but for the balls above a cut; a step of a stretch needs nothing but
its own numbers, and what comes out is the same bytes as `vpunn.vapo.minimize` gives, for any number of shards and workers.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from vpunn._types import Engine, Numbers
from vpunn.errors import VpunnError, check_choice, check_whole
from vpunn.scale.engine import Sent, checked_engine, each
from vpunn.vapo.adam import AdamSolver
from vpunn.vapo.driver import drive
from vpunn.vapo.fisher import FisherSolver
from vpunn.vapo.heads import SoftmaxHeads
from vpunn.vapo.result import VapoResult

Solver = FisherSolver | AdamSolver


def minimize_heads(
    heads: SoftmaxHeads,
    method: str = "fisher",
    *,
    shards: int = 8,
    engine: Engine = None,
    seed: int = 0,
    start: Numbers | None = None,
    checkpoint: Any = None,
    checkpoint_every: int = 20,
    resume: bool = False,
    **options: Any,
) -> VapoResult:
    """`vpunn.vapo.minimize` of ``node`` soft-max heads by Fisher or full-batch Adam, every step in ``shards``; the same bytes.

    ``engine`` is a ``distributed.Client`` (None: this process). A step moves 8 (Fisher) or 24 to 32 (Adam) bytes a parameter each
    way, so this pays where a step costs more than that, or where the counts live on the workers; the optimum itself is known in
    closed form (`SoftmaxHeads.closed_form`, and `from_sums` for rows on many machines). Checkpoints are those of `minimize`.

    >>> from vpunn import Tree, vapo
    >>> heads = SoftmaxHeads(Tree.from_parents([-1, 0, 0, 1, 1, 1, 2, 2]))
    >>> start = np.linspace(-1, 1, heads.n_parameters)
    >>> whole = vapo.minimize(heads, "fisher", start=start)
    >>> (minimize_heads(heads, shards=3, start=start).parameters == whole.parameters).all()
    np.True_
    """
    if type(heads) is not SoftmaxHeads or heads.layout.factorisation != "node":
        raise VpunnError(
            "shards need SoftmaxHeads with factorisation='node': laws that balls share belong to no shard; use vpunn.vapo.minimize."
        )
    check_whole("shards", shards)
    check_choice("method", method, ("fisher", "adam"))
    solver: Solver = (FisherSolver if method == "fisher" else AdamSolver)(heads, seed=seed, start=start, **options)
    if isinstance(solver, AdamSolver) and solver.schedule.batch:
        raise VpunnError("Adam runs in shards on all items at once; pass a schedule without mini-batches, e.g. 'auto'.")
    whole = _Sharded(solver, int(shards), checked_engine(engine))
    return drive(whole, checkpoint=checkpoint, checkpoint_every=checkpoint_every, resume=resume)


class _Sharded:
    """A solver whose steps are made in stretches of balls; all else is the solver's."""

    def __init__(self, solver: Solver, shards: int, engine: Engine) -> None:
        self._solver, self._engine = solver, engine
        self._layout = _heads_of(solver).layout
        contexts = self._layout.n_contexts
        cuts = np.unique(np.linspace(0, contexts, min(shards, contexts) + 1).astype(np.int64))
        self._stretches = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
        self._parts = [Sent(_part(solver, *stretch)) for stretch in self._stretches]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._solver, name)

    def epoch(self, number: int) -> int:
        """One step of every stretch, from the numbers of all."""
        own = [self._cut(*stretch) for stretch in self._stretches]
        tasks = [(part, number, state) for part, state in zip(self._parts, own, strict=True)]
        made = list(each(self._engine, _step, tasks))
        for stretch, (_, state) in zip(self._stretches, made, strict=True):
            for name, array in self._cut(*stretch).items():
                array[...] = state[name]
        return sum(spent for spent, _ in made)

    def _cut(self, low: int, high: int) -> dict[str, np.ndarray]:
        """Views of the state's arrays: a number a slot, or one a ball."""
        layout = self._layout
        slots = slice(layout.start[low], layout.start[high])
        return {
            name: array[slots] if len(array) == layout.n_slots and name != "steps" else array[low:high]
            for name, array in self._solver.state.items()
        }


def _heads_of(solver: Solver) -> SoftmaxHeads:
    assert isinstance(solver.problem, SoftmaxHeads)
    return solver.problem


def _part(solver: Solver, low: int, high: int) -> Solver:
    """The solver of some balls: their slots, counts and weights, and everybody's total."""
    whole = _heads_of(solver)
    heads, layout = copy(whole), copy(whole.layout)
    slots = slice(layout.start[low], layout.start[high])
    layout.start = layout.start[low : high + 1] - layout.start[low]
    layout.context, layout.digit = layout.context[slots] - low, layout.digit[slots]
    layout.position = layout.position[low:high]
    heads.__dict__ |= {"layout": layout, "mass": whole.mass[slots], "counts": heads.counts[slots]}
    heads.__dict__ |= {"frequencies": whole.frequencies[slots], "weights": heads.weights[slots]}
    for name in ("tree", "items"):  # a step does not look at them, and they need not travel
        heads.__dict__.pop(name)
    options: dict[str, Any] = {"seed": solver.seed, "tolerance": solver.tolerance}
    start = np.zeros(layout.n_slots)
    if isinstance(solver, AdamSolver):
        return AdamSolver(heads, schedule=solver.schedule, start=start, **options)
    return FisherSolver(heads, start=start, **options)


def _step(part: Solver, number: int, state: dict[str, np.ndarray]) -> tuple[int, dict[str, np.ndarray]]:
    for name, array in state.items():
        part.state[name][...] = array
    return part.epoch(number), {name: array.copy() for name, array in part.state.items()}
