"""The JSON API: questions about a tree and a model, answered the same way over HTTP and inside a notebook.

`Api.answer` takes what a request consists of and returns a `Reply`; it knows nothing of sockets. Every error is an `ApiError`
with one sentence and the name of the parameter it is about. ``docs/explorer.md`` lists the routes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._show import plain
from vpunn.codes._text import MODES
from vpunn.errors import VpunnError
from vpunn.padic import show_integer
from vpunn.web.batch import TestTable
from vpunn.web.export import EXPORTS, export
from vpunn.web.layers import Layers
from vpunn.web.openapi import openapi
from vpunn.web.replies import ApiError, Reply, error_reply, json_reply
from vpunn.web.subject import NODE_ID, Subject, clean, clip

if TYPE_CHECKING:
    from fractions import Fraction

    from vpunn._types import Cell, Json
    from vpunn.web.beliefs import Ask, Believer
    from vpunn.web.numbers import NumberAsk, NumberBeliever


#: Labels, children and search results a single answer may hold.
MAX_LABELS = 2000
MAX_CHILDREN = 500
MAX_RESULTS = 200
#: A longer path is shown by its ends, a longer code is not written as an integer or a series.
LONG_PATH = 200
#: A cell of the node panel is cut at this length.
MAX_CELL = 4000

Query = Mapping[str, str]


@dataclass(frozen=True)
class Limits:
    """How much one request may ask for."""

    body_bytes: int = 8_000_000
    rows: int = 10_000


class Api:
    """The API of one subject."""

    def __init__(self, subject: Subject, limits: Limits | None = None) -> None:
        self.subject = subject
        self.limits = limits or Limits()
        self.layers = Layers(subject)
        self._tested: TestTable | None = None
        self._sorted_children = lru_cache(maxsize=16)(self._sort_children)
        self._describe = lru_cache(maxsize=256)(self._description)
        get: dict[str, Callable[[Query], Reply]] = {
            "/api/health": self.health,
            "/api/openapi.json": lambda _: json_reply(openapi(self.limits, self._answers())),
            "/api/tree": self.tree,
            "/api/shape": self.shape,
            "/api/labels": self.labels,
            "/api/node": self.node,
            "/api/children": self.children,
            "/api/search": self.search,
            "/api/lca": self.lca,
            "/api/describe": self.describe,
            "/api/layer": self.layer,
            "/api/layer.bin": self.layer_bytes,
            "/api/export": self.export,
            "/api/rows": self.rows,
        }
        post: dict[str, Callable[[Query, bytes], Reply]] = {
            "/api/predict": self.predict,
            "/api/table": self.table,
            "/api/triage": self.triage,
        }
        self._get, self._post = get, post

    # ---- one door ----------------------------------------------------------------------------------------------------

    def answer(self, method: str, path: str, query: Query, body: bytes = b"", kind: str = "") -> Reply:
        """The answer to a request; user errors become error documents, nothing else is caught."""
        try:
            self.check_route(method, path)
            if method != "POST":
                return self._get[path](query)
            self.check_body(path, body, kind)
            return self._post[path](query, body)
        except ApiError as error:
            return error_reply(error)
        except VpunnError as error:
            return error_reply(ApiError(422, str(error), path))
        except UnicodeError:  # labels that are no text, such as file names of another encoding
            return error_reply(
                ApiError(422, "a label of this tree is no valid Unicode, so it cannot be looked up.", path)
            )

    def check_route(self, method: str, path: str) -> None:
        """Whether there is such a route, and whether it takes this method."""
        known = [name for name, routes in (("GET", self._get), ("POST", self._post)) if path in routes]
        if not known:
            raise ApiError(404, f"there is no {clip(path)!r} here; GET /api/openapi.json lists what there is.", "path")
        if method not in (*known, "HEAD" if "GET" in known else ""):
            allow = ", ".join([*known, *(["HEAD"] if "GET" in known else [])])
            raise ApiError(405, f"{path} takes {allow}, not {clip(method, 20)}.", "method", {"Allow": allow})

    def check_body(self, path: str, body: bytes, kind: str) -> None:
        """Whether a body is small enough and of the kind the route reads."""
        if len(body) > self.limits.body_bytes:
            raise ApiError(
                413, f"the body has {len(body):,} bytes; at most {self.limits.body_bytes:,} are read.", "body"
            )
        wanted = ("application/json",) if path == "/api/predict" else ("text/csv", "text/tab-separated-values")
        given = kind.partition(";")[0].strip().lower()
        if given not in wanted:
            raise ApiError(
                415, f"{path} reads {wanted[0]}, not {clip(given)!r}; set the Content-Type header.", "Content-Type"
            )

    # ---- the tree ----------------------------------------------------------------------------------------------------

    def health(self, query: Query) -> Reply:
        """Alive, and what is served."""
        from vpunn import __version__

        tree = self.subject.tree
        return json_reply({"status": "ok", "version": __version__, "title": self.subject.title, "nodes": tree.n_nodes})

    def tree(self, query: Query) -> Reply:
        """What the page needs to know before it draws."""
        return json_reply(self.summary())

    def summary(self) -> dict[str, Any]:
        """Counts, prime, hash, layers and what the model can do."""
        subject, tree = self.subject, self.subject.tree
        believer = subject.believer
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
            "model": None if believer is None else believer.summary(),
        }

    def shape(self, query: Query) -> Reply:
        """The depth of every node in preorder, 1, 2 or 4 bytes each."""
        if query.get("hash", self.subject.hash) != self.subject.hash:
            raise ApiError(404, "this server shows another tree by now; load the page again.", "hash")
        return Reply(self.subject.shape, "application/octet-stream", forever="hash" in query)

    def labels(self, query: Query) -> Reply:
        """Names of nodes given as ids and ranges: ``ids=0-9,17``."""
        ids = _ranges(_text(query, "ids"), self.subject.tree.n_nodes)
        return json_reply([self.subject.name(i) for i in ids], forever=query.get("hash") == self.subject.hash)

    def node(self, query: Query) -> Reply:
        """All about one node: path, code, counts, columns."""
        i = self._node(query, "id")
        subject, tree = self.subject, self.subject.tree
        chain = tree.ancestors(i).tolist()
        shown = chain if len(chain) <= LONG_PATH else chain[:10] + chain[10 - LONG_PATH :]
        parent = int(tree.parent[i])
        first, size = int(tree.child_index[0][parent]), 0
        siblings: dict[str, Any] = {"count": 0, "previous": None, "next": None}
        if parent >= 0:
            size = int(tree.n_children[parent])
            place, ids = int(tree.digit[i]) - 1, tree.child_index[1]
            siblings = {
                "count": size,
                "previous": subject.brief(int(ids[first + place - 1])) if place else None,
                "next": subject.brief(int(ids[first + place + 1])) if place + 1 < size else None,
            }
        layer = query.get("layer")
        found = {
            **subject.brief(i),
            "digit": int(tree.digit[i]),
            "children": int(tree.n_children[i]),
            "path": [subject.brief(j) for j in shown],
            "skipped": len(chain) - len(shown),
            "siblings": siblings,
            "also_below": [subject.brief(j) for j in self._extra(tree.extra_parents, i)],
            "also_above": [subject.brief(j) for j in self._extra(tree.extra_children, i)],
            "codes": self._codes(i),
            "radius": f"{subject.code.p}^-{tree.depth[i]}" if i else "1",
            "columns": {str(name): _cell(values[i]) for name, values in tree.columns.items()},
            "layer": None if layer is None else self.layers.layer(layer, query.get("stat", "mean")).value(i),
        }
        return json_reply(found)

    @staticmethod
    def _extra(links: tuple[np.ndarray, np.ndarray], i: int) -> list[int]:
        """The first of a node's extra parents or children."""
        start, ids = links
        return [int(j) for j in ids[start[i] : start[i + 1]][:LONG_PATH]]

    def _codes(self, i: int) -> dict[str, str]:
        code = self.subject.code
        if code.tree.depth[i] > LONG_PATH:
            return {"digits": clip(code.format(i, "digits"), MAX_CELL)}
        return {mode: clip(code.format(i, mode), MAX_CELL) for mode in MODES}

    def children(self, query: Query) -> Reply:
        """A page of a node's children: in tree order, by name, or by size."""
        i = self._node(query, "id")
        sort = query.get("sort", "order")
        if sort not in ("order", "name", "size"):
            raise ApiError(400, f"sort={clip(sort)!r} is unknown; choose one of order, name, size.", "sort")
        start = _number(query, "start", 0, 0, 2**31)
        count = _number(query, "count", 50, 1, MAX_CHILDREN)
        ids = self._sorted_children(i, sort)
        page = [self.subject.brief(j) for j in ids[start : start + count].tolist()]
        return json_reply({"total": len(ids), "start": start, "children": page})

    def _sort_children(self, i: int, sort: str) -> np.ndarray:
        tree = self.subject.tree
        ids = tree.children(i)
        if sort == "size":
            return ids[np.argsort(-tree.size[ids], kind="stable")]
        if sort == "name":
            names = [self.subject.name(j).casefold() for j in ids.tolist()]
            return ids[sorted(range(len(names)), key=names.__getitem__)]
        return ids

    def search(self, query: Query) -> Reply:
        """Nodes by words, beginnings of words, label or code; and what was perhaps meant."""
        text = clip(_text(query, "q", empty=True), 200).strip()
        limit = _number(query, "limit", 30, 1, MAX_RESULTS)
        found: list[dict[str, Any]] = []
        seen: set[int] = set()
        for how, nodes in (
            ("label", self._by_label(text)),
            ("code", self._by_code(text)),
            ("name", self._by_words(text, limit)),
        ):
            for i in nodes:
                if i not in seen and len(found) < limit:
                    seen.add(i)
                    found.append({**self.subject.brief(i), "by": how, "above": self._above(i)})
        meant = [] if found or not text else self.subject.search.suggest(text)
        return json_reply({"query": text, "results": found, "did_you_mean": meant})

    def _by_label(self, text: str) -> list[int]:
        if NODE_ID.fullmatch(text):
            node = int(text[1:])
            return [node] if node < self.subject.tree.n_nodes else []
        return self.subject.labelled(text)[:MAX_RESULTS]

    def _by_code(self, text: str) -> list[int]:
        if not text or not set(text) <= set("0123456789[], |…+*^ ."):
            return []
        try:
            return [int(self.subject.code.parse(text))]
        except VpunnError:
            return []

    def _by_words(self, text: str, limit: int) -> list[int]:
        return [int(node) for node in self.subject.search.find(text, limit)]

    def _above(self, i: int) -> list[str]:
        """The names of the three balls above a node, nearest last: enough to tell namesakes apart."""
        chain = []
        for _ in range(3):
            i = int(self.subject.tree.parent[i])
            if i < 0:
                break
            chain.append(self.subject.name(i))
        return chain[::-1]

    def lca(self, query: Query) -> Reply:
        """The lowest common ancestor of two nodes, their distance and both codes."""
        a, b = self._node(query, "a"), self._node(query, "b")
        subject, code = self.subject, self.subject.code
        shared = int(code.valuation(a, b))
        exact = code.distance(a, b, exact=True) if shared <= LONG_PATH else None
        digits = [code.digits(i)[: int(subject.tree.depth[i])].tolist() for i in (a, b)]
        found = {
            "a": subject.brief(a),
            "b": subject.brief(b),
            "lca": subject.brief(int(subject.tree.lca(a, b))),
            "valuation": shared,
            "distance": "0" if a == b else f"{code.p}^-{shared}",
            "exact": None if exact is None else clip(_fraction(exact), 400),
            "digits": [row[:LONG_PATH] for row in digits],
        }
        return json_reply(found)

    def describe(self, query: Query) -> Reply:
        """What a ball contains and stands for (`vpunn.explain.describe_ball`)."""
        return json_reply(self._describe(self._node(query, "id")))

    def _description(self, i: int) -> dict[str, Any]:
        from vpunn.explain import describe_ball

        tree, believer = self.subject.tree, self.subject.believer
        if believer is not None:
            found = believer.describe(i)
        else:
            # where labels are numbers, a number means a label
            found = describe_ball(tree, tree.labels[i] if tree.labels.dtype.kind in "iu" else i)
        return {
            "id": i,
            "nodes": found.n_nodes,
            "leaves": found.n_leaves,
            "rows": found.n_rows,
            "entropy": found.entropy,
            "members": [clean(str(member)) for member in found.members],
            "speaks_for": [[_word(name), value] for name, value in found.speaks_for],
            "text": clean(str(found)),
        }

    # ---- layers ------------------------------------------------------------------------------------------------------

    def layer(self, query: Query) -> Reply:
        """The legend of a layer."""
        return json_reply(self.layers.layer(_text(query, "name"), query.get("stat", "mean")).legend)

    def layer_bytes(self, query: Query) -> Reply:
        """A layer: one byte a node, or with ``as=weight`` one float32 a node."""
        name, what = _text(query, "name"), query.get("as", "color")
        if what == "weight":
            return Reply(self.layers.weights(name).astype("<f4").tobytes(), "application/octet-stream")
        if what != "color":
            raise ApiError(400, f"as={clip(what)!r} is unknown; choose color or weight.", "as")
        return Reply(self.layers.layer(name, query.get("stat", "mean")).colour.tobytes(), "application/octet-stream")

    def table(self, query: Query, body: bytes) -> Reply:
        """Add a table as layers."""
        return json_reply(self.layers.add_table(body, query.get("label"), clip(query.get("name", "table"), 40)), 201)

    # ---- the model ---------------------------------------------------------------------------------------------------

    def predict(self, query: Query, body: bytes) -> Reply:
        """Answers of the model for texts or rows."""
        ask: Any = self.read_ask(body)
        return json_reply(self._believer().answer([ask])[0])

    def read_ask(self, body: bytes) -> Ask | NumberAsk:
        """A checked question to the model."""
        return self._believer().read_ask(read_json(body), self.limits.rows)

    def triage(self, query: Query, body: bytes) -> Reply:
        """Where the model fails on a table with the right answers; the table is kept for `rows` until the next one."""
        believer: Any = self._believer()
        what = {"sets": "gives rows several labels", "number": "predicts a number"}.get(self._answers() or "")
        if what:
            raise ApiError(422, f"this model {what}, and a test table is about one label; use vpunn evaluate.", "body")
        self._tested = TestTable(believer, body, query.get("target"), self.limits.rows)
        return json_reply(self._tested.summary())

    def rows(self, query: Query) -> Reply:
        """Rows of the table last sent to `triage` behind a ball."""
        node = self._node(query, "id")
        if self._tested is None:
            raise ApiError(404, "no test table has been sent yet; POST one to /api/triage.", "path")
        return json_reply(self._tested.rows(node))

    def _answers(self) -> str | None:
        """What the model answers: ``places``, ``sets`` or a ``number``; None without a model."""
        return None if self.subject.believer is None else str(self.subject.believer.summary()["answers"])

    def _believer(self) -> Believer | NumberBeliever:
        if self.subject.believer is None:
            raise ApiError(404, "a tree is served here, without a model; `vpunn serve MODEL` serves one.", "path")
        return self.subject.believer

    # ---- out ---------------------------------------------------------------------------------------------------------

    def export(self, query: Query) -> Reply:
        """A subtree as a page of its own, CSV, Newick or JSON."""
        node = self._node(query, "id") if "id" in query else 0
        form = query.get("format", "html")
        if form not in EXPORTS:
            raise ApiError(400, f"format={clip(form)!r} is unknown; choose one of {', '.join(EXPORTS)}.", "format")
        depth = _number(query, "depth", -1, 0, 2**31) if "depth" in query else None
        reply = export(self, node, form, depth, query)
        name = "".join(c if c.isalnum() and c.isascii() else "_" for c in self.subject.name(node))[:40] or "tree"
        file = f'attachment; filename="{name}.{EXPORTS[form][0]}"'
        return replace(reply, headers={**reply.headers, "Content-Disposition": file})

    def _node(self, query: Query, name: str) -> int:
        return self.subject.resolve(_text(query, name), name)


def read_json(body: bytes) -> dict[str, Any]:
    """A JSON object, or an error that says why not."""
    try:
        value = json.loads(body)
    except RecursionError:
        raise ApiError(400, "the body is nested too deeply to be a question.", "body") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise ApiError(400, f"the body is not JSON: {clip(str(error), 200)}.", "body") from None
    if not isinstance(value, dict):
        raise ApiError(422, f"the body must be a JSON object, got {type(value).__name__}.", "body")
    return value


def _text(query: Query, name: str, *, empty: bool = False) -> str:
    value = query.get(name)
    if value is None or not (value or empty):
        raise ApiError(400, f"the parameter {name}= is missing.", name)
    return value


def _number(query: Query, name: str, default: int, least: int, most: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 12 and least <= int(text) <= most):
        raise ApiError(400, f"{name} must be a whole number from {least} to {most}, got {clip(text)!r}.", name)
    return int(text)


def _ranges(text: str, n: int) -> list[int]:
    """``0-3,7`` as [0, 1, 2, 3, 7], every id inside the tree and not too many of them."""
    found: list[int] = []
    for part in text.split(","):
        ends = part.split("-")
        if len(ends) > 2 or not all(end.isascii() and end.isdigit() and len(end) < 11 for end in ends):
            raise ApiError(400, f"ids are numbers and ranges such as 0-9,17; got {clip(part)!r}.", "ids")
        first, last = int(ends[0]), int(ends[-1])
        if not first <= last < n:
            raise ApiError(400, f"ids must lie between 0 and {n - 1}, the smaller first; got {clip(part)!r}.", "ids")
        if len(found) + last - first >= MAX_LABELS:
            raise ApiError(400, f"at most {MAX_LABELS:,} labels are given at once; ask again for the rest.", "ids")
        found.extend(range(first, last + 1))
    return found


def _fraction(value: Fraction) -> str:
    return f"{value.numerator}/{show_integer(value.denominator)}" if value.denominator != 1 else str(value.numerator)


def _cell(value: Cell) -> Json:
    """A column's value for JSON: numbers as they are, anything else as text."""
    value = plain(value) if isinstance(value, np.generic | np.ndarray) else value
    if value is None or isinstance(value, bool | int | float):
        return value
    return clip(clean(str(value)), MAX_CELL)


def _word(name: str) -> str:
    """A feature as people know it: ``words__men`` is the word *men*."""
    return clean(name.partition("__")[2] or name)
