"""The HTTP side: one ASGI application for `vpunn serve` (the API) and `vpunn explore` (the API and the page).

It answers only to names it was told (a foreign ``Host`` is how DNS rebinding looks), refuses posts from other origins, reads
bodies only up to the limit, serves no file that is not in its table, and sends a policy under which a page can load nothing
from elsewhere.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from vpunn.errors import VpunnError
from vpunn.web.about_model import predict, read_question
from vpunn.web.api import Api
from vpunn.web.asked import Asked, Wanted
from vpunn.web.replies import ApiError, Reply, error_reply, json_reply
from vpunn.web.subject import clip
from vpunn.web.workers import Workers

if TYPE_CHECKING:
    from vpunn.web.beliefs import Ask
    from vpunn.web.numbers import NumberAsk
    from vpunn.web.subject import Subject


Result = TypeVar("Result")

#: Names of this machine for itself.
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
#: Questions to the model that may wait; more are refused with 503.
MAX_WAITING = 1000
#: Rows taken together into one call of the model.
MAX_BATCH = 256
#: Smaller answers are sent as they are; larger ones are packed in a thread, and larger questions read in a slow one.
WORTH_PACKING, WORTH_A_THREAD = 1400, 100_000
#: Bytes of all bodies that are read or worked on at once, and seconds that one may take to come.
BODIES_BYTES, BODY_SECONDS = 1 << 26, 120
#: So often it is looked whether the client still waits.
LOOK_SECONDS = 0.25
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


class Service:
    """Who answers requests: threads for quick, for slow and for the model's work, and the bodies that are being read."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.paces = {"quick": Workers("quick", 4), "slow": Workers("slow", 2)}
        self.batcher = Batcher(api.subject)
        self.bodies = Bodies(max(BODIES_BYTES, 2 * api.limits.body_bytes))
        self.until = float("inf")
        self.failures = 0

    def stop(self, seconds: float) -> None:
        """Take no more questions, and answer those under way within so many seconds, or not at all."""
        self.until = asyncio.get_running_loop().time() + seconds
        self.bodies.stop()
        self.batcher.close()

    async def answer(self, request: Request) -> Reply:
        """The reply to a request."""
        api, method, path = self.api, request.method, request.url.path
        kind = request.headers.get("content-type", "")
        route = api.find(method, path)
        query = read_query(request)
        if route.pace == "instant":  # whatever else is going on
            return api.answer(method, path, query)
        if route.body is None:
            return await self.work(request, route.pace, lambda wanted: api.answer(method, path, query, wanted=wanted))
        with self.bodies.reading() as read:
            body = await read.all(request, api.limits.body_bytes)
            if route.handler is not predict:
                return await self.work(
                    request, route.pace, lambda wanted: api.answer(method, path, query, body, kind, wanted=wanted)
                )
            route.check_body(body, kind, api.limits.body_bytes)
            pace = "quick" if len(body) <= WORTH_A_THREAD else "slow"
            ask = await self.work(request, pace, lambda wanted: read_question(api, Asked(query, body, wanted)))
            return await self.wait(request, self.batcher.ask(ask), Wanted())

    async def work(self, request: Request, pace: str, do: Callable[[Wanted], Result]) -> Result:
        """What ``do`` returns in a thread of that pace; it is told when nobody waits any more."""
        wanted = Wanted()
        return await self.wait(request, self.paces[pace].submit(lambda: do(wanted)), wanted)

    async def wait(self, request: Request, future: asyncio.Future[Result], wanted: Wanted) -> Result:
        """The result of a future, unless the client goes or the server stops before."""
        loop = asyncio.get_running_loop()
        try:
            while not (await asyncio.wait({future}, timeout=LOOK_SECONDS))[0]:
                if await request.is_disconnected():
                    raise ClientDisconnect
                if loop.time() > self.until:
                    raise ApiError(503, "the server is stopping; ask again later.", "path", {"Connection": "close"})
            return future.result()
        finally:
            if not future.done():
                wanted.no_more = True
                future.cancel()


def make_app(api: Api, *, hosts: Collection[str] = ()) -> Starlette:
    """The application; ``hosts`` are names it answers to besides this machine's own for itself."""
    allowed = LOOPBACK | {host.lower() for host in hosts}
    service = Service(api)

    async def handle(request: Request) -> Response:
        try:
            check_origin(request, allowed)
            reply = await service.answer(request)
            if len(reply.body) > WORTH_A_THREAD:
                return await service.work(request, "quick", lambda _: _response(request, reply))
        except ApiError as error:
            reply = error_reply(error)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception:
            service.failures += 1
            problem = ApiError(500, "the server failed on this request; its log says where.", request.url.path)
            import traceback

            traceback.print_exc()
            reply = error_reply(problem)
        return _response(request, reply)

    async def unknown(request: Request, _: Exception) -> Response:
        return await handle(request)

    methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"]
    # a method that HTTP does not know is refused in our words too: `handle` finds that no route takes it
    app = Starlette(routes=[Route("/{path:path}", handle, methods=methods)], exception_handlers={405: unknown})
    app.state.service = service
    return app


def read_query(request: Request) -> dict[str, str]:
    """The query's parameters, each of which may stand there once."""
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in found:
            raise ApiError(400, f"the parameter {clip(name)}= stands twice; give it once.", name)
        found[name] = value
    return found


def check_origin(request: Request, allowed: Collection[str]) -> None:
    """Refuse requests that reached us under a foreign name, or that a page of another origin sends."""
    host = request.headers.get("host", "")
    if _host_name(host) not in allowed:
        raise ApiError(
            400, f"this server does not answer to the name {host[:80]!r}; start it with --allow-host NAME.", "Host"
        )
    origin = request.headers.get("origin")
    foreign = request.headers.get("sec-fetch-site") in ("cross-site", "same-site")
    if request.method not in ("GET", "HEAD") and (foreign or (origin is not None and _netloc(origin) != host)):
        raise ApiError(403, "posts from pages of other origins are refused.", "Origin")


def _netloc(origin: str) -> str:
    """Name and port of an Origin header; empty if it is malformed."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _host_name(host: str) -> str:
    """The name in a Host header, without the port; empty if it is malformed."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


class Bodies:
    """The bodies of requests that are being read or worked on, bounded in sum: the oldest half-sent one makes room for others."""

    def __init__(self, most: int) -> None:
        self.most, self.total = most, 0
        self.halves: dict[Half, None] = {}

    @contextmanager
    def reading(self) -> Iterator[Half]:
        """A body that counts until the end of the block."""
        half = Half(self)
        try:
            yield half
        finally:
            half.forget()

    def make_room(self, size: int, half: Half) -> bool:
        """Take so many bytes for one body, those of the oldest other half-sent ones if they must; False if there are none."""
        while self.total + size > self.most:
            oldest = next((one for one in self.halves if one is not half), None)
            if oldest is None:
                return False
            oldest.stop("more came than are read at once, and this was the oldest")
        self.total += size
        return True

    def stop(self) -> None:
        """Wait for no more bytes."""
        for half in list(self.halves):
            half.stop("the server is stopping")


class Half:
    """One body, as far as it has come."""

    def __init__(self, bodies: Bodies) -> None:
        self.bodies, self.size, self.why = bodies, 0, f"it did not come within {BODY_SECONDS} seconds"
        self.clock = asyncio.timeout(BODY_SECONDS)

    def forget(self) -> None:
        """Its bytes no longer count."""
        self.bodies.total -= self.size
        self.size = 0
        self.bodies.halves.pop(self, None)

    def stop(self, why: str) -> None:
        """End the wait for more bytes."""
        self.forget()
        self.why = why
        with suppress(RuntimeError):  # it has just ended by itself
            self.clock.reschedule(0)

    async def all(self, request: Request, limit: int) -> bytes:
        """The whole body, or a 413 as soon as it is known to be too large."""
        sentence = f"the body is larger than {limit:,} bytes; send fewer rows at a time."
        length = request.headers.get("content-length", "0")
        if length.isdigit() and int(length) > limit:
            raise ApiError(413, sentence, "body", {"Connection": "close"})
        found = bytearray()
        try:
            async with self.clock:
                self.bodies.halves[self] = None
                async for part in request.stream():
                    if len(found) + len(part) > limit:
                        raise ApiError(413, sentence, "body", {"Connection": "close"})
                    if not self.bodies.make_room(len(part), self):
                        busy = {"Connection": "close", "Retry-After": "1"}
                        raise ApiError(503, "too many bodies are being read; ask again in a second.", "body", busy)
                    self.size += len(part)
                    found += part
        except TimeoutError:
            raise ApiError(408, f"the body was not read: {self.why}.", "body", {"Connection": "close"}) from None
        finally:
            self.bodies.halves.pop(self, None)  # whole: it is worked on, and makes no more room
        return bytes(found)


class Batcher:
    """Questions that wait together are answered by one call of the model, in one thread of its own; long ones in pieces, in turn.

    The model's answer for a row does not depend on the other rows, so neither do the replies.
    """

    def __init__(self, subject: Subject) -> None:
        self.answers: Any = subject.answers
        self._thread = Workers("model", 1)
        self._waiting: list[Waiting] = []
        self._running = False
        self._closed = False

    def ask(self, ask: Ask | NumberAsk) -> asyncio.Future[Reply]:
        """The reply to one question; if it is cancelled, the rest of the question is not answered."""
        if self._closed or len(self._waiting) >= MAX_WAITING:
            raise ApiError(503, "too many questions are waiting; ask again in a second.", "path", {"Retry-After": "1"})
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Reply] = loop.create_future()
        self._waiting.append(Waiting(ask.pieces(MAX_BATCH), future))
        if not self._running:
            self._running = True
            self._task = loop.create_task(self._work())
        return future

    async def _work(self) -> None:
        try:
            while self._waiting:
                batch: list[Waiting] = []
                rows = 0
                while self._waiting and (not batch or rows + len(self._waiting[0].pieces[0]) <= MAX_BATCH):
                    one = self._waiting.pop(0)
                    if not one.future.done():  # the client may have gone
                        batch.append(one)
                        rows += len(one.pieces[0])
                if not batch:
                    continue
                pieces = [one.pieces.pop(0) for one in batch]
                found = await self._thread.submit(partial(self._answer, pieces))
                for one, answer in zip(batch, found, strict=True):
                    one.found.append(answer)
                    if isinstance(answer, ApiError):
                        one.pieces.clear()
                    if one.pieces:
                        self._waiting.append(one)
                    elif not one.future.done():
                        one.future.set_result(one.reply())
        finally:
            self._running = False

    def _answer(self, asks: list[Any]) -> list[dict[str, Any] | ApiError]:
        """Answers to a batch; if it fails as a whole, to each question alone, so that only the culprit gets the error."""
        try:
            found: list[dict[str, Any] | ApiError] = self.answers.answer(asks)
            return found
        except Exception as error:
            if len(asks) > 1:
                return [answer for ask in asks for answer in self._answer([ask])]
            if isinstance(error, ApiError):
                return [error]
            if isinstance(error, VpunnError):
                return [ApiError(422, str(error), "body")]
            import traceback

            traceback.print_exc()
            return [ApiError(500, "the model failed on this question; the server's log says where.", "body")]

    def close(self) -> None:
        """Take no more questions."""
        self._closed = True


@dataclass
class Waiting:
    """A question that waits: the pieces still to be answered, and the answers to the others."""

    pieces: list[Any]
    future: asyncio.Future[Reply]
    found: list[dict[str, Any] | ApiError] = field(default_factory=list)

    def reply(self) -> Reply:
        """The answers to all pieces as one, or what went wrong with the last."""
        last = self.found[-1]
        if isinstance(last, ApiError):
            return error_reply(last)
        answers = [answer for piece in self.found if isinstance(piece, dict) for answer in piece["answers"]]
        return json_reply({**last, "answers": answers})


@lru_cache(maxsize=32)
def _packed(body: bytes) -> bytes:
    return gzip.compress(body, 5, mtime=0)


def _response(request: Request, reply: Reply) -> Response:
    headers = {**HEADERS, **reply.headers, "Content-Type": reply.kind, "Vary": "Accept-Encoding"}
    headers["Cache-Control"] = "private, max-age=31536000, immutable" if reply.forever else "no-cache"
    body = reply.body
    if len(body) > WORTH_PACKING and "gzip" in request.headers.get("accept-encoding", ""):
        body = _packed(body) if reply.forever else gzip.compress(body, 4, mtime=0)
        headers["Content-Encoding"] = "gzip"
    headers["Content-Length"] = str(len(body))
    return Response(b"" if request.method == "HEAD" else body, status_code=reply.status, headers=headers)
