"""Which connections stay: as many as there are file descriptors for, and none that keeps the server waiting without end.

A connection waits for us while its request is answered, and we wait for it while it is silent or has sent half of a request. When
there are too many, the one that we have waited for longest is closed: silent ones first, then those with half-sent bodies. Every
second those are closed that take too long over a request's head, or do not take the answer that they asked for.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any, TypeAlias

#: What `guarded` makes: uvicorn's protocol, with what a door asks for.
Connection: TypeAlias = Any

#: Connections at once, if the system allows so many.
MOST = 1000
#: Connections that are accepted in one turn of the loop.
ACCEPTED = 32
#: Seconds that the head of a request may take, from when the connection was made or from its first byte.
HEAD_SECONDS = 20.0
#: Seconds without a byte taken from an answer, and bytes of all answers that may wait to be taken.
TAKE_SECONDS = 30.0
UNTAKEN_BYTES = 1 << 28


def limits() -> tuple[int, int]:
    """How many connections may be open, and how many may be accepted in one turn: as the number of file descriptors allows."""
    try:
        import resource

        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        taken = len(os.listdir("/dev/fd"))
    except (ImportError, OSError):
        return MOST, ACCEPTED
    if allowed == resource.RLIM_INFINITY:
        return MOST, ACCEPTED
    turn = max(1, min(ACCEPTED, allowed // 16))
    # a connection is known some turns after it was accepted, and its descriptor is free some turns after it was closed
    return max(4, min(MOST, allowed - taken - 4 * turn - 16)), turn


class Door:
    """The connections of a server, those first that we have waited for longest."""

    def __init__(self) -> None:
        self.most, self.turn = limits()
        self.since: dict[Connection, float] = {}

    def enter(self, one: Connection) -> None:
        """A new connection; if there is no room, the one that we have waited for longest goes."""
        self.since[one] = time.monotonic()
        if len(self.since) > self.most:
            self.close_one()

    def leave(self, one: Connection) -> None:
        """A connection is closed."""
        self.since.pop(one, None)

    def answered(self, one: Connection) -> None:
        """A request was answered: from now on we wait for the next."""
        if self.since.pop(one, None) is not None:
            self.since[one] = time.monotonic()

    def close_one(self) -> None:
        """Close the connection that we have waited for longest, of those in the earliest state that there is."""
        self._close(min(self.since, key=lambda one: one.state()))  # the first of equals

    def _close(self, one: Connection) -> None:
        self.leave(one)
        one.transport.abort()

    def close_all(self) -> None:
        """Cut whatever is still there."""
        for one in list(self.since):
            self._close(one)

    def sweep(self) -> None:
        """Close what takes too long."""
        now, waiting = time.monotonic(), 0
        for one, since in list(self.since.items()):
            left = one.transport.get_write_buffer_size()
            if left < one.left[0] or not left or not one.left[0]:
                one.left = left, now
            waiting += left
            began = since if one.begun is None else one.begun
            slow_head = one.state() == SILENT and now - began > HEAD_SECONDS and (one.begun is not None or one.is_new)
            if slow_head or (left and now - one.left[1] > TAKE_SECONDS):
                self._close(one)
                waiting -= left
        for one in sorted(self.since, key=lambda one: one.left[1]):
            if waiting <= UNTAKEN_BYTES:
                break
            if one.left[0]:
                waiting -= one.left[0]
                self._close(one)


#: What a connection does, the earlier ones to be closed first.
SILENT, SENDING, ANSWERED = range(3)


def guarded(door: Door) -> type[asyncio.Protocol]:
    """uvicorn's protocol, telling ``door`` what happens."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Guarded(H11Protocol):
        begun: float | None = None  #: when the first byte of the request came that is being sent
        left = (0, 0.0)  #: bytes of answers not taken, and when there were last fewer of them
        is_new = True  #: nothing was answered yet

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            door.enter(self)

        def connection_lost(self, exc: Exception | None) -> None:
            door.leave(self)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.begun is None:
                self.begun = time.monotonic()
            super().data_received(data)

        def on_response_complete(self) -> None:
            self.begun, self.is_new = None, False
            door.answered(self)
            super().on_response_complete()

        def state(self) -> int:
            """SILENT (also with half of a head), SENDING a body, or being ANSWERED."""
            cycle = self.cycle
            if cycle is None or cycle.response_complete:
                return SILENT
            return SENDING if cycle.more_body else ANSWERED

    return Guarded
