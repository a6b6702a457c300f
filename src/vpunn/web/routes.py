"""The API's table of contents: one row a route. Dispatch, checks, the OpenAPI document and refusals follow from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from vpunn.web import about_model, about_tree
from vpunn.web.export import ASSETS, KINDS
from vpunn.web.replies import ApiError, Reply
from vpunn.web.subject import clip

if TYPE_CHECKING:
    from vpunn.web.api import Api
    from vpunn.web.asked import Asked


@dataclass(frozen=True)
class Parameter:
    """A query parameter: its name, what it means, and whether it must be there."""

    name: str
    meaning: str
    required: bool = False


@dataclass(frozen=True)
class Body:
    """What a POST sends: the media types that are read (the first is the usual one) and its schema."""

    kinds: tuple[str, ...]
    schema: Mapping[str, Any]


@dataclass(frozen=True)
class Route:
    """One row: ``handler`` answers ``method path``; ``when`` are the kinds of models it is for, None for any subject."""

    method: str
    path: str
    summary: str
    handler: Callable[[Api, Asked], Reply]
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    when: tuple[str, ...] | None = None
    pace: str = "quick"  #: who does it: ``instant`` needs no thread, ``slow`` work may take seconds

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods it takes: whoever may GET may ask for the head alone."""
        return ("GET", "HEAD") if self.method == "GET" else (self.method,)

    def check_body(self, body: bytes, kind: str, most: int) -> None:
        """Whether a body is small enough and of a kind that is read."""
        assert self.body is not None
        if len(body) > most:
            raise ApiError(413, f"the body has {len(body):,} bytes; at most {most:,} are read.", "body")
        given = kind.partition(";")[0].strip().lower()
        if given not in self.body.kinds:
            raise ApiError(
                415,
                f"{self.path} reads {self.body.kinds[0]}, not {clip(given)!r}; set the Content-Type header.",
                "Content-Type",
            )


def find_route(routes: Iterable[Route], method: str, path: str, model: str | None) -> Route:
    """The route of a request to a subject with a ``model`` of some kind (None without one), or why there is none."""
    there = [route for route in routes if route.path == path]
    if not there:
        raise ApiError(404, f"there is no {clip(path)!r} here; GET /api/openapi.json lists what there is.", "path")
    taken = [route for route in there if method in route.methods]
    if not taken:
        allow = ", ".join(sorted({m for route in there for m in route.methods}))
        raise ApiError(405, f"{path} takes {allow}, not {clip(method, 20)}.", "method", {"Allow": allow})
    fitting = [route for route in taken if route.when is None or model in route.when]
    if fitting:
        return fitting[0]
    if model is None:
        raise ApiError(404, "a tree is served here, without a model; `vpunn serve MODEL` serves one.", "path")
    does = {"sets": "gives rows several labels", "number": "predicts a number", "class": "predicts a class from levels"}
    what = {**does, "places": "places rows"}[model]
    raise ApiError(422, f"this model {what}, and a test table is about one label; use vpunn evaluate.", "body")


def _query(*listed: tuple[str, str], needs: Iterable[str] = ()) -> tuple[Parameter, ...]:
    """Parameters from (name, meaning)."""
    return tuple(Parameter(name, meaning, name in set(needs)) for name, meaning in listed)


#: How a node is written in a query.
NODE = "a label, or @id"
STAT = "mean, sum or count"
TABLE = Body(("text/csv", "text/tab-separated-values"), {"type": "string"})

_TEXTS = {"type": "array", "items": {"type": "string"}, "description": "for a model of texts"}
_ROWS = {"type": "array", "items": {"type": "object"}, "description": "cells by column name"}
_X = {
    "type": "array",
    "items": {"type": "array", "items": {"type": "number"}},
    "description": "features as numbers",
}
QUESTION = Body(
    ("application/json",),
    {
        "type": "object",
        "properties": {
            "texts": _TEXTS,
            "rows": _ROWS,
            "X": _X,
            "top": {"type": "integer", "minimum": 0, "maximum": 100, "default": 5},
            "risk": {
                "type": "number",
                "description": "stop at the smallest branch that is wrong this rarely (conformal)",
            },
            "threshold": {"type": "number", "description": "stop at the deepest branch at least this probable"},
            "explain": {"type": "boolean", "description": "what spoke for each turn (one row only)"},
            "beliefs": {"type": "boolean", "description": "all branches with probability ≥ 0.001 (one row only)"},
        },
    },
)
NUMBER_QUESTION = Body(
    ("application/json",),
    {
        "type": "object",
        "required": ["rows"],
        "properties": {
            "rows": {
                "type": "array",
                "items": {"type": "object"},
                "description": "cells by column name: levels (null ends the path) and covariates (null is read as the median)",
            }
        },
    },
)

ROUTES = (
    Route("GET", "/api/health", "whether the server is alive, and what it serves", about_tree.health, pace="instant"),
    Route(
        "GET",
        "/api/ready",
        "whether everything is read and compiled, so that answers take no longer than they need",
        about_tree.ready,
        pace="instant",
    ),
    Route("GET", "/api/openapi.json", "this document", about_tree.document),
    Route("GET", "/api/tree", "counts, prime, hash, layers, and what the model can do", about_tree.summary),
    Route(
        "GET",
        "/api/shape",
        "the depth of every node in preorder as bytes",
        about_tree.shape,
        _query(("hash", "the tree's hash; cached for ever")),
    ),
    Route(
        "GET",
        "/api/labels",
        "names of nodes",
        about_tree.labels,
        _query(
            ("ids", "ids and ranges: 0-9,17"),
            ("hash", "the tree's hash; names are then cached for ever"),
            needs=["ids"],
        ),
    ),
    Route(
        "GET",
        "/api/node",
        "path, code in five print modes, counts, columns, siblings, further parents and children",
        about_tree.node,
        _query(("id", NODE), ("layer", "also its value in this layer"), ("stat", STAT), needs=["id"]),
    ),
    Route(
        "GET",
        "/api/children",
        "a page of children",
        about_tree.children,
        _query(
            ("id", NODE),
            ("start", "first child"),
            ("count", "1 to 500, default 50"),
            ("sort", "order, name or size"),
            needs=["id"],
        ),
    ),
    Route(
        "GET",
        "/api/search",
        "nodes by words, prefixes, label or code",
        about_tree.search,
        _query(("q", "what is typed"), ("limit", "1 to 200"), needs=["q"]),
    ),
    Route(
        "GET",
        "/api/lca",
        "common ancestor, distance, digits",
        about_tree.lca,
        _query(("a", NODE), ("b", NODE), needs="ab"),
    ),
    Route(
        "GET",
        "/api/describe",
        "what a branch contains and stands for",
        about_tree.describe,
        _query(("id", NODE), needs=["id"]),
    ),
    Route(
        "GET",
        "/api/layer",
        "the legend of a layer",
        about_tree.layer,
        _query(("name", "a layer of /api/tree"), ("stat", STAT), needs=["name"]),
    ),
    Route(
        "GET",
        "/api/layer.bin",
        "a layer as bytes",
        about_tree.layer_bytes,
        _query(("name", "a layer"), ("stat", STAT), ("as", "color (uint8) or weight (float32)"), needs=["name"]),
    ),
    Route(
        "GET",
        "/api/export",
        "a subtree as a file",
        about_tree.export,
        _query(
            ("id", NODE),
            ("format", "html, csv, newick or json"),
            ("depth", "levels to keep"),
            ("raw", "yes: cells of the CSV that begin as formulas do are given as they are, without an apostrophe"),
        ),
        pace="slow",
    ),
    Route(
        "GET",
        "/api/examples",
        "a few training rows to ask first, as the model holds them",
        about_model.examples,
        when=("places", "sets", "number", "class"),
    ),
    Route(
        "GET",
        "/api/triage",
        "where the model fails on the table last sent, or on the rows that the explorer was opened with",
        about_model.scored,
        when=("places",),
    ),
    Route(
        "GET",
        "/api/rows",
        "rows of the table last sent to /api/triage",
        about_model.rows,
        _query(("id", f"the branch: {NODE}"), needs=["id"]),
        when=("places",),
    ),
    Route(
        "POST",
        "/api/table",
        "add a table as layers to colour and size by",
        about_tree.table,
        _query(("label", "the column that names nodes"), ("name", "what to call the table")),
        TABLE,
        pace="slow",
    ),
    Route(
        "POST",
        "/api/predict",
        "answers of the model",
        about_model.predict,
        body=QUESTION,
        when=("places", "sets"),
    ),
    Route(
        "POST",
        "/api/predict",
        "answers of the model",
        about_model.predict,
        body=NUMBER_QUESTION,
        when=("number", "class"),
    ),
    Route(
        "GET",
        "/api/confusion",
        "which branches are taken for which in the table last sent to /api/triage",
        about_model.confusion,
        _query(("depth", "of the branches, from 1 on")),
        when=("places",),
    ),
    Route(
        "POST",
        "/api/answers",
        "the likeliest place of every row of a table, the least certain first",
        about_model.table,
        body=TABLE,
        when=("places",),
    ),
    Route(
        "POST",
        "/api/triage",
        "where the model fails on a table with the right answers",
        about_model.triage,
        _query(("target", "the column of the right answers")),
        TABLE,
        when=("places",),
        pace="slow",
    ),
)


@lru_cache(maxsize=1)
def page_routes() -> tuple[Route, ...]:
    """Every file of the page by its URL: what is not in this table is not served, so no path leads out of the folder."""
    found = []
    for path in sorted(ASSETS.iterdir()):
        if path.suffix in KINDS:
            reply = Reply(path.read_bytes(), KINDS[path.suffix])
            url = "/" if path.name == "index.html" else f"/assets/{path.name}"
            found.append(Route("GET", url, "a file of the page", partial(_always, reply)))
    return tuple(found)


def _always(reply: Reply, api: Api, asked: Asked) -> Reply:
    return reply


def openapi(routes: Iterable[Route], model: str | None, limit: str) -> dict[str, Any]:
    """The OpenAPI document of the routes that a subject has; ``limit`` says how much a request may ask for."""
    from vpunn import __version__

    problem = {"$ref": "#/components/responses/Problem"}
    paths: dict[str, Any] = {}
    for route in routes:
        if route.when is not None and model not in route.when:
            continue
        listed = [
            {
                "name": one.name,
                "in": "query",
                "required": one.required,
                "description": one.meaning,
                "schema": {"type": "string"},
            }
            for one in route.parameters
        ]
        entry: dict[str, Any] = {"summary": route.summary, "parameters": listed}
        if route.body is not None:
            content = {kind: {"schema": route.body.schema} for kind in route.body.kinds}
            entry["requestBody"] = {"required": True, "content": content}
        entry["responses"] = {"200": {"description": route.summary}, "default": problem}
        paths.setdefault(route.path, {})[route.method.lower()] = entry
    error = {"type": "object", "properties": {"error": {"type": "string"}, "where": {"type": "string"}}}
    problem_body = {
        "description": "one sentence, and the parameter it is about",
        "content": {"application/json": {"schema": error}},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "vpunn explorer", "version": __version__, "description": limit},
        "paths": paths,
        "components": {"responses": {"Problem": problem_body}},
    }
