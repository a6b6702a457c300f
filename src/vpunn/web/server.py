"""Running the application: in the foreground for the command line, in a thread for tests and notebooks."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import sys
import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from vpunn.errors import VpunnError
from vpunn.web.api import Api, Limits
from vpunn.web.subject import Subject

if TYPE_CHECKING:
    import uvicorn


#: Seconds that requests under way have to end when the server is told to stop.
GRACE = 1.0
#: Connections that the system keeps until they are accepted.
BACKLOG = 2048
#: Seconds that an idle connection is kept: longer than clients keep theirs, so that none is closed under a request.
KEEP_ALIVE = 75


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, so that a port in use is one sentence before anything is loaded or printed."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named TCP, so that asyncio sends at once: without it the second half of an answer waits 40 ms for an acknowledgement.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(BACKLOG)  # from here on a visitor waits for the server instead of being refused
    except (OSError, OverflowError) as error:
        sock.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise VpunnError(
            f"cannot listen on {host} port {port}: {reason}; choose another with --port (0 takes a free one)."
        ) from None
    return sock


def make_server(
    subject: Subject, *, page: bool = True, hosts: Collection[str] = (), limits: Limits | None = None
) -> uvicorn.Server:
    """A uvicorn server of the subject, not yet running."""
    try:
        import uvicorn

        from vpunn.web.app import make_app
        from vpunn.web.door import Door, guarded
    except ImportError as error:
        raise VpunnError(f"the explorer needs {error.name}: pip install 'vpunn[web]'.") from error
    app = make_app(Api(subject, limits, page=page), hosts=hosts)
    door = Door()
    config = uvicorn.Config(
        app,
        http=guarded(door),
        log_level="error",  # whatever a stranger sends is no line in the log
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="off",
        backlog=door.turn,
        timeout_graceful_shutdown=int(GRACE) + 1,
        timeout_keep_alive=KEEP_ALIVE,
    )

    class Server(uvicorn.Server):
        """Stops within two seconds, looks after its connections, and does not log what strangers can cause."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            asyncio.get_running_loop().set_exception_handler(quiet)
            await super().startup(sockets)
            for sock in sockets or []:
                sock.listen(BACKLOG)  # asyncio has set it to what is accepted in one turn

        async def on_tick(self, counter: int) -> bool:
            if counter % 10 == 0:  # of a tenth of a second each
                door.sweep()
            return await super().on_tick(counter)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.state.service.stop(GRACE)
            asyncio.get_running_loop().call_later(GRACE + 0.5, door.close_all)
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL + 1)  # what is cut off now is no error
            await super().shutdown(sockets)

    def quiet(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            door.close_one()  # something else than connections has taken the descriptors
        elif not isinstance(error, ConnectionError):
            loop.default_exception_handler(context)

    return Server(config)


def serve(
    subject: Subject,
    sock: socket.socket,
    *,
    page: bool = True,
    hosts: Collection[str] = (),
    limits: Limits | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until interrupted or terminated; requests under way are answered first. ``ready`` is told the address."""
    server = make_server(subject, page=page, hosts=hosts, limits=limits)
    if ready is not None:
        ready(address(sock))
    warm(subject)
    try:
        server.run(sockets=[sock])
    except KeyboardInterrupt:  # uvicorn has stopped gracefully and raises it again for whoever called
        pass
    finally:
        sock.close()


def warm(subject: Subject) -> threading.Thread:
    """Build what the first visitor would otherwise wait for, in the background."""

    def build() -> None:
        try:
            subject.hash  # noqa: B018
            subject.tree.child_index  # noqa: B018
            subject.search.find("a", 1)
            subject.code.format(subject.tree.n_nodes - 1, "digits")
            subject.tree.lca_depth(0, subject.tree.n_nodes - 1)
            if subject.answers is not None:
                subject.answers.warm()
            subject.state = "ready"
        except Exception as error:  # the first visitor will see it again, with a place
            subject.state = "failed"
            sys.stderr.write(f"vpunn: warming up failed: {error}\n")

    subject.state = "warming"
    thread = threading.Thread(target=build, name="vpunn-warm", daemon=True)
    thread.start()
    return thread


def address(sock: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port = sock.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


class Running:
    """A server in a thread of this process: ``with Running(subject) as url: …``."""

    def __init__(self, subject: Subject, **options: Any) -> None:
        self.sock = listen("127.0.0.1", 0)
        self.server = make_server(subject, **options)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.sock]}, daemon=True)

    def __enter__(self) -> str:
        self.thread.start()
        return address(self.sock)

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(GRACE + 15)
        self.sock.close()
