"""Tasks on an engine, a ``distributed.Client``, or (None) one after another in this process.

dask makes a lost result again by running its task again. What many tasks read is therefore a task of its own (`Sent`): the
scheduler keeps it, so that a worker that dies loses nothing for good. A task is a function of its arguments, so it gives the same
bytes the second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from vpunn._types import Engine
from vpunn.errors import VpunnError, counted


class Sent:
    """Something that many tasks read: it travels once, and from worker to worker."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing
        self._future: Any = None

    def at(self, engine: Engine) -> Any:
        """What stands for it in a task: the thing itself without an engine, else dask's future."""
        if engine is None:
            return self.thing
        if self._future is None or self._future.client is not engine:
            self._future = _submit(engine, _same, [self.thing])
        return self._future


def checked_engine(engine: Engine) -> Any:
    """The engine, if it is one."""
    if engine is not None and not (hasattr(engine, "submit") and hasattr(engine, "scatter")):
        raise VpunnError(
            f"engine must be a distributed.Client, or None for this process; got a {type(engine).__name__}."
        )
    return engine


def each(engine: Engine, work: Callable[..., Any], tasks: Iterable[Sequence[Any]]) -> Iterator[Any]:
    """``work(*task)`` of every task, in order; arguments may be `Sent`. Here, a task is taken up when its result is asked for."""
    if engine is None:
        for task in tasks:
            yield work(*(one.thing if isinstance(one, Sent) else one for one in task))
        return
    waiting = [submit(engine, work, task) for task in tasks][::-1]
    while waiting:
        yield result_of(engine, waiting.pop())  # it is forgotten as soon as it was given out


def submit(engine: Any, work: Callable[..., Any], task: Sequence[Any]) -> Any:
    """The future of ``work(*task)``."""
    return _submit(engine, work, [one.at(engine) if isinstance(one, Sent) else one for one in task])


def result_of(engine: Any, future: Any) -> Any:
    """What a future came to, or one sentence about why there is nothing."""
    from dask.distributed import CancelledError, KilledWorker

    try:
        return future.result()
    except KilledWorker as error:
        tries = counted(error.allowed_failures + 1, "try", "tries")
        raise VpunnError(
            f"a task was given up after {tries}: each time its workers died; their logs say why (most often they have too little "
            "memory)."
        ) from error
    except CancelledError as error:
        if future.cancelled() or engine.status in ("closing", "closed"):
            raise VpunnError(
                "the engine was closed, or restarted, before all of its work was done; open it again."
            ) from error
        raise


def _submit(engine: Any, work: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    import dask

    if engine.status in ("closing", "closed"):
        raise VpunnError("the engine was closed before all of its work was done; open it again.")
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):  # a tree may be large
        return engine.submit(work, *arguments, pure=False)


def _same(thing: Any) -> Any:
    return thing
