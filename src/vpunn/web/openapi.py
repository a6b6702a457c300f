"""The OpenAPI document of the API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vpunn.web.api import Limits

#: GET routes: what they give, and their parameters (name, required, meaning).
_GET: dict[str, tuple[str, list[tuple[str, bool, str]]]] = {
    "/api/health": ("whether the server is alive, and what it serves", []),
    "/api/tree": ("counts, prime, hash, layers, and what the model can do", []),
    "/api/shape": (
        "the depth of every node in preorder as bytes",
        [("hash", False, "the tree's hash; cached for ever")],
    ),
    "/api/labels": ("names of nodes", [("ids", True, "ids and ranges: 0-9,17")]),
    "/api/node": (
        "path, code in five print modes, counts, columns, siblings, further parents and children",
        [
            ("id", True, "a label, or @id"),
            ("layer", False, "also its value in this layer"),
            ("stat", False, "mean, sum, count"),
        ],
    ),
    "/api/children": (
        "a page of children",
        [
            ("id", True, "a label, or @id"),
            ("start", False, "first child"),
            ("count", False, "1 to 500, default 50"),
            ("sort", False, "order, name or size"),
        ],
    ),
    "/api/search": (
        "nodes by words, prefixes, label or code",
        [("q", True, "what is typed"), ("limit", False, "1 to 200")],
    ),
    "/api/lca": ("common ancestor, distance, digits", [("a", True, "a label, or @id"), ("b", True, "a label, or @id")]),
    "/api/describe": ("what a ball contains and stands for", [("id", True, "a label, or @id")]),
    "/api/layer": (
        "the legend of a layer",
        [("name", True, "a layer of /api/tree"), ("stat", False, "mean, sum or count")],
    ),
    "/api/layer.bin": (
        "a layer as bytes",
        [
            ("name", True, "a layer"),
            ("stat", False, "mean, sum or count"),
            ("as", False, "color (uint8) or weight (float32)"),
        ],
    ),
    "/api/export": (
        "a subtree as a file",
        [
            ("id", False, "a label, or @id"),
            ("format", False, "html, csv, newick or json"),
            ("depth", False, "levels to keep"),
        ],
    ),
}

_MODEL_GET = {
    "/api/rows": ("rows of the table last sent to /api/triage", [("id", True, "the ball: a label, or @id")]),
}

_ASK = {
    "type": "object",
    "properties": {
        "texts": {"type": "array", "items": {"type": "string"}, "description": "for a model of texts"},
        "rows": {"type": "array", "items": {"type": "object"}, "description": "cells by column name"},
        "X": {
            "type": "array",
            "items": {"type": "array", "items": {"type": "number"}},
            "description": "features as numbers",
        },
        "top": {"type": "integer", "minimum": 0, "maximum": 100, "default": 5},
        "risk": {"type": "number", "description": "stop at the smallest ball that is wrong this rarely (conformal)"},
        "threshold": {"type": "number", "description": "stop at the deepest ball at least this probable"},
        "explain": {"type": "boolean", "description": "what spoke for each turn (one row only)"},
        "beliefs": {"type": "boolean", "description": "all balls with probability ≥ 0.001 (one row only)"},
    },
}

#: What a model of numbers is asked.
_ASK_NUMBER = {
    "type": "object",
    "required": ["rows"],
    "properties": {
        "rows": {
            "type": "array",
            "items": {"type": "object"},
            "description": "cells by column name: levels (null ends the path) and covariates (null is read as the median)",
        }
    },
}


def openapi(limits: Limits, answers: str | None) -> dict[str, Any]:
    """The document; routes of a model only where there is one, and ``answers`` says of what kind: places, sets, number."""
    from vpunn import __version__

    problem = {"$ref": "#/components/responses/Problem"}
    paths: dict[str, Any] = {}
    for path, (what, parameters) in (_GET | (_MODEL_GET if answers == "places" else {})).items():
        listed = [
            {"name": name, "in": "query", "required": required, "description": meaning, "schema": {"type": "string"}}
            for name, required, meaning in parameters
        ]
        paths[path] = {
            "get": {
                "summary": what,
                "parameters": listed,
                "responses": {"200": {"description": what}, "default": problem},
            }
        }
    bodies: dict[str, tuple[str, str, dict[str, Any]]] = {
        "/api/table": ("add a table as layers to colour and size by", "text/csv", {"type": "string"})
    }
    if answers is not None:
        ask = _ASK_NUMBER if answers == "number" else _ASK
        bodies["/api/predict"] = ("answers of the model", "application/json", ask)
    if answers == "places":
        what = "where the model fails on a table with the right answers"
        bodies["/api/triage"] = (what, "text/csv", {"type": "string"})
    for path, (what, kind, schema) in bodies.items():
        body = {"required": True, "content": {kind: {"schema": schema}}}
        paths[path] = {
            "post": {
                "summary": what,
                "requestBody": body,
                "responses": {"200": {"description": what}, "default": problem},
            }
        }
    limit = f"At most {limits.body_bytes:,} bytes and {limits.rows:,} rows a request."
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
