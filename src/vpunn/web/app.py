"""The HTTP side: one ASGI application for `vpunn serve` (the API) and `vpunn explore` (the API and the page).

It answers only to names it was told (a foreign ``Host`` is how DNS rebinding looks), refuses posts from other origins, reads
bodies only up to the limit, serves no file that is not in its table, and sends a policy under which a page can load nothing
from elsewhere.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from vpunn.errors import VpunnError
from vpunn.web.about_model import predict, read_question
from vpunn.web.api import Api
from vpunn.web.asked import Asked
from vpunn.web.replies import ApiError, Reply, error_reply, json_reply

if TYPE_CHECKING:
    from vpunn.web.beliefs import Ask
    from vpunn.web.numbers import NumberAsk
    from vpunn.web.subject import Subject


#: Names of this machine for itself.
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
#: Questions to the model that may wait; more are refused with 503.
MAX_WAITING = 1000
#: Rows taken together into one call of the model.
MAX_BATCH = 256
#: Smaller answers are sent as they are.
WORTH_PACKING = 1400
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


def make_app(api: Api, *, hosts: Collection[str] = ()) -> Starlette:
    """The application; ``hosts`` are names it answers to besides this machine's own for itself."""
    allowed = LOOPBACK | {host.lower() for host in hosts}
    batcher = Batcher(api.subject)

    async def handle(request: Request) -> Response:
        try:
            check_origin(request, allowed)
            reply = await _answer(request, api, batcher)
        except ApiError as error:
            reply = error_reply(error)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception:
            request.app.state.failures += 1
            problem = ApiError(500, "the server failed on this request; its log says where.", request.url.path)
            import traceback

            traceback.print_exc()
            reply = error_reply(problem)
        return (
            await asyncio.to_thread(_response, request, reply)
            if len(reply.body) > 100_000
            else _response(request, reply)
        )

    async def unknown(request: Request, _: Exception) -> Response:
        return await handle(request)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        batcher.close()

    methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"]
    # a method that HTTP does not know is refused in our words too: `handle` finds that no route takes it
    app = Starlette(
        routes=[Route("/{path:path}", handle, methods=methods)], lifespan=lifespan, exception_handlers={405: unknown}
    )
    app.state.failures = 0
    return app


async def _answer(request: Request, api: Api, batcher: Batcher) -> Reply:
    method, path, kind = request.method, request.url.path, request.headers.get("content-type", "")
    route = api.find(method, path)
    query = dict(request.query_params)
    body = b"" if route.body is None else await read_body(request, api.limits.body_bytes)
    if route.handler is predict:
        route.check_body(body, kind, api.limits.body_bytes)
        ask = await asyncio.to_thread(read_question, api, Asked(query, body))
        return await batcher.answer(ask)
    return await asyncio.to_thread(api.answer, method, path, query, body, kind)


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


async def read_body(request: Request, limit: int) -> bytes:
    """The body, or a 413 as soon as it is known to be too large."""
    sentence = f"the body is larger than {limit:,} bytes; send fewer rows at a time."
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > limit:
        raise ApiError(413, sentence, "body", {"Connection": "close"})
    parts, total = [], 0
    async for part in request.stream():
        total += len(part)
        if total > limit:
            raise ApiError(413, sentence, "body", {"Connection": "close"})
        parts.append(part)
    return b"".join(parts)


class Batcher:
    """Questions that wait together are answered by one call of the model, in one thread of its own.

    The model's answer for a row does not depend on the other rows, so neither do the replies.
    """

    def __init__(self, subject: Subject) -> None:
        self.answers: Any = subject.answers
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="vpunn-model")
        self._waiting: list[tuple[Any, asyncio.Future[Reply]]] = []
        self._running = False
        self._closed = False

    async def answer(self, ask: Ask | NumberAsk) -> Reply:
        """The reply to one question."""
        if self._closed or len(self._waiting) >= MAX_WAITING:
            raise ApiError(503, "too many questions are waiting; ask again in a second.", "path", {"Retry-After": "1"})
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting.append((ask, future))
        if not self._running:
            self._running = True
            asyncio.get_running_loop().create_task(self._work())
        return await future

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                batch: list[tuple[Any, asyncio.Future[Reply]]] = []
                rows = 0
                while self._waiting and (not batch or rows + len(self._waiting[0][0]) <= MAX_BATCH):
                    batch.append(self._waiting.pop(0))
                    rows += len(batch[-1][0])
                replies = await loop.run_in_executor(self._thread, self._answer, [ask for ask, _ in batch])
                for (_, future), reply in zip(batch, replies, strict=True):
                    if not future.done():  # the client may have gone
                        future.set_result(reply)
        finally:
            self._running = False

    def _answer(self, asks: list[Any]) -> list[Reply]:
        """Replies to a batch; if it fails as a whole, to each question alone, so that only the culprit gets the error."""
        try:
            return [json_reply(found) for found in self.answers.answer(asks)]
        except Exception as error:
            if len(asks) > 1:
                return [reply for ask in asks for reply in self._answer([ask])]
            if isinstance(error, ApiError):
                return [error_reply(error)]
            if isinstance(error, VpunnError):
                return [error_reply(ApiError(422, str(error), "body"))]
            import traceback

            traceback.print_exc()
            return [
                error_reply(ApiError(500, "the model failed on this question; the server's log says where.", "body"))
            ]

    def close(self) -> None:
        """Take no more questions."""
        self._closed = True
        self._thread.shutdown(wait=True, cancel_futures=False)


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
