"""The JSON API: questions about a tree and a model, answered the same way over HTTP and inside a notebook.

`Api.answer` takes what a request consists of and returns a `Reply`; it knows nothing of sockets. Every error is an `ApiError`
with one sentence and the name of the parameter it is about. `routes.ROUTES` is the table of what can be asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from vpunn.errors import VpunnError
from vpunn.web.about_tree import description, sort_children
from vpunn.web.asked import Asked, Wanted
from vpunn.web.layers import Layers
from vpunn.web.replies import ApiError, Reply, error_reply
from vpunn.web.routes import ROUTES, Route, find_route, openapi, page_routes
from vpunn.web.subject import Subject, clean

if TYPE_CHECKING:
    from vpunn.web.batch import ScoredTable
    from vpunn.web.beliefs import ClassifierAnswers
    from vpunn.web.numbers import RegressorAnswers


@dataclass(frozen=True)
class Limits:
    """How much one request may ask for."""

    body_bytes: int = 8_000_000
    rows: int = 10_000
    columns: int = 1_000
    cells: int = 5_000_000


class Api:
    """The API of one subject: what answers share, and the one door to them."""

    def __init__(self, subject: Subject, limits: Limits | None = None, *, page: bool = False) -> None:
        self.subject = subject
        self.routes = (*ROUTES, *page_routes()) if page else ROUTES
        self.limits = limits or Limits()
        self.layers = Layers(subject)
        self.scored: ScoredTable | None = subject.scored
        self.sorted_children = lru_cache(maxsize=16)(partial(sort_children, subject))
        self.description = lru_cache(maxsize=256)(partial(description, subject))

    def answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes = b"",
        kind: str = "",
        *,
        wanted: Wanted | None = None,
    ) -> Reply:
        """The answer to a request; user errors become error documents, nothing else is caught."""
        try:
            route = self.find(method, path)
            if route.body is not None:
                route.check_body(body, kind, self.limits.body_bytes)
            return route.handler(self, Asked(query, body, wanted or Wanted()))
        except ApiError as error:
            return error_reply(error)
        except VpunnError as error:
            return error_reply(ApiError(422, str(error), path))
        except UnicodeError:  # labels that are no text, such as file names of another encoding
            return error_reply(
                ApiError(422, "a label of this tree is no valid Unicode, so it cannot be looked up.", path)
            )

    def find(self, method: str, path: str) -> Route:
        """The route of a request, or why there is none."""
        return find_route(self.routes, method, path, self.kind)

    # ---- what answers share ------------------------------------------------------------------------------------------

    @property
    def answers(self) -> ClassifierAnswers | RegressorAnswers:
        """Who answers for the model; routes that need one are not found without it."""
        assert self.subject.answers is not None
        return self.subject.answers

    @property
    def kind(self) -> str | None:
        """What the model answers: ``places``, ``sets``, a ``number`` or a ``class``; None without a model."""
        return None if self.subject.answers is None else self.subject.answers.kind

    def node(self, asked: Asked, name: str) -> int:
        """The node that a parameter names."""
        return self.subject.resolve(asked.text(name), name)

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        limit = f"At most {self.limits.body_bytes:,} bytes and {self.limits.rows:,} rows a request."
        return openapi(ROUTES, self.kind, limit)

    def summary(self) -> dict[str, Any]:
        """Counts, prime, hash, layers and what the model can do."""
        subject, tree = self.subject, self.subject.tree
        return {
            "title": clean(subject.title),
            "nodes": tree.n_nodes,
            "leaves": tree.n_leaves,
            "depth": tree.max_depth,
            "branching": tree.max_branching,
            "p": subject.code.p,
            "hash": subject.hash,
            "bytes_per_depth": len(subject.shape) // tree.n_nodes,
            "columns": [str(name) for name in tree.columns],
            "layers": self.layers.names(),
            "color": next(iter(subject.own), None),
            "model": None if subject.answers is None else subject.answers.summary(),
            "scored": subject.scored is not None,
        }
