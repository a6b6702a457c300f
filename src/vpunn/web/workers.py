"""Threads that answer requests: a few of each pace, so that slow work never takes those of quick work."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from vpunn.web.replies import ApiError

Result = TypeVar("Result")

#: Pieces of work that may wait for a thread; more are refused with 503.
WAITING = 200


class Workers:
    """Some threads that take work in turn. They end with the process, also in the middle of a piece of work."""

    def __init__(self, name: str, count: int) -> None:
        self._todo: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._waiting = 0
        for i in range(count):
            threading.Thread(target=self._serve, name=f"vpunn-{name}-{i}", daemon=True).start()

    def _serve(self) -> None:
        while True:
            self._todo.get()()

    def submit(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """The future of what ``work`` will return, for the loop that asks."""
        if self._waiting >= WAITING:
            raise ApiError(503, "too many requests are waiting; ask again in a second.", "path", {"Retry-After": "1"})
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting += 1

        def done(method: str, value: Any) -> None:
            self._waiting -= 1
            if not future.done():  # the client may have gone
                getattr(future, method)(value)

        def run() -> None:
            try:
                tell = partial(done, "set_result", None if future.cancelled() else work())
            except BaseException as error:
                tell = partial(done, "set_exception", error)
            try:
                loop.call_soon_threadsafe(tell)
            except RuntimeError:  # the server has stopped: nobody waits any more
                return

        self._todo.put(run)
        return future
