"""Tasks on an engine that outlive its workers: what was lost is sent and asked for again, with the same results.

dask makes a lost result again by running its task again. What was scattered has no task: when the last worker that holds it dies,
dask forgets it and cancels all that reads it. One death is enough, for dask drops copies that no waiting task reads. So the sender
keeps what it sent (`Sent`), and tasks that were cancelled are asked for again. A task is a function of its arguments, so it gives
the same bytes the second time.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from vpunn._types import Engine
from vpunn.errors import VpunnError, counted

#: A task is asked for at most so often: few are unlucky twice, and one that is lost each time kills its workers itself.
TRIES = 10
#: Seconds before lost tasks are asked for again: dask notices meanwhile which workers are dead.
PAUSE = 0.2


class Sent:
    """Something that tasks read, sent to the workers when the first task needs it, and again when they have lost it.

    ``everywhere`` sends it to every worker, else to one, to which dask then gives the tasks that read it.
    """

    def __init__(self, thing: Any, everywhere: bool = True) -> None:
        self.thing, self.everywhere = thing, everywhere
        self._there: Any = None

    def at(self, engine: Engine) -> Any:
        """What stands for it in a task: the thing itself without an engine, else dask's future."""
        if engine is None:
            return self.thing
        if self._there is None:
            # A key of its own: of equal keys dask may forget the second with the first (dask/distributed#4612).
            there = engine.scatter(self.thing, hash=False)
            if self.everywhere:
                _copy_to_all(engine, there)
            self._there = there
        return self._there

    def forget(self, there: Any) -> None:
        """Send it again next time, if ``there`` is still the latest that was sent."""
        if self._there is there:
            self._there = None


def _copy_to_all(engine: Engine, there: Any) -> None:
    """A task on every worker that reads it; a worker that dies meanwhile is done without.

    ``scatter(broadcast=True)`` would wait for a dead worker for ever (dask/distributed#5704).
    """
    from dask.distributed import wait

    where = {"allow_other_workers": True, "pure": False}
    wait([engine.submit(_read, there, workers=[worker], **where) for worker in engine.nthreads()])


def _read(thing: Any) -> None:
    """Nothing: a worker that runs it holds its argument."""


def each(engine: Engine, work: Callable[..., Any], tasks: Iterable[Sequence[Any]]) -> Iterator[Any]:
    """``work(*task)`` of every task, in order, on an engine or (None) here; arguments may be `Sent`."""
    if engine is None:
        for task in tasks:
            yield work(*_arguments(task, None))
    else:
        yield from results(engine, partial(engine.submit, work, pure=False), tasks)


def results(engine: Engine, ask: Callable[..., Any], tasks: Iterable[Sequence[Any]]) -> Iterator[Any]:
    """The results of the futures that ``ask(*task)`` gives, in order; a future that dask cancels is asked for again.

    Given up, with an error, after `TRIES` losses of the same task. No result is kept here or there once it was given out.
    """
    asked = deque(_Asked(engine, ask, task) for task in tasks)
    _ask_for_lost(asked)
    while asked:
        while not asked[0].is_made():
            time.sleep(PAUSE)
            _ask_for_lost(asked)  # all of them, so that they run side by side again
        yield asked.popleft().made


def _ask_for_lost(asked: Iterable[_Asked]) -> None:
    for one in asked:
        if one.lost and not one.again():
            return  # no worker took what it reads: nor will one for the next task


class _Asked:
    """One task and the future of its result."""

    def __init__(self, engine: Engine, ask: Callable[..., Any], task: Sequence[Any]) -> None:
        self.engine, self.ask, self.task = engine, ask, task
        self.tries, self.arguments, self.future = 0, list(task), None
        self.error: Exception | None = None
        self.made: Any = None

    @property
    def lost(self) -> bool:
        """Whether dask will not make it: it was not asked for yet, or was cancelled."""
        return self.future is None or self.future.cancelled()

    def again(self) -> bool:
        """Ask for it, and send anew what it read the last time; False if the workers did not take that."""
        from dask.distributed import CancelledError

        if self.engine.status in ("closing", "closed"):
            raise VpunnError("the engine was closed before all of its work was done; open it again.") from self.error
        if self.tries == TRIES:
            raise _given_up(TRIES) from self.error
        self.tries += 1
        for one, there in zip(self.task, self.arguments, strict=True):
            if isinstance(one, Sent):
                one.forget(there)
        try:
            self.arguments = _arguments(self.task, self.engine)
        # A worker that dies while it is sent to: the connection breaks, or the scheduler looks it up in vain.
        except (OSError, KeyError, CancelledError) as error:
            self.future, self.error = None, error
            return False
        self.future = self.ask(*self.arguments)
        return True

    def is_made(self) -> bool:
        """Wait for it, and keep it as ``made``; False if it is lost."""
        from dask.distributed import CancelledError, KilledWorker

        if self.future is None:
            return False
        try:
            self.made = self.future.result()
        except CancelledError as error:
            if not self.future.cancelled():  # the work itself raised it
                raise
            self.error = error
            return False
        except KilledWorker as error:
            raise _given_up(error.allowed_failures + 1) from error
        return True


def _arguments(task: Sequence[Any], engine: Engine) -> list[Any]:
    return [one.at(engine) if isinstance(one, Sent) else one for one in task]


def _given_up(tries: int) -> VpunnError:
    return VpunnError(
        f"a task was given up after {counted(tries, 'try', 'tries')}: each time its workers died, or the engine had none; their "
        "logs say why (most often they have too little memory)."
    )
