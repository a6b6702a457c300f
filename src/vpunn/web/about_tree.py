"""Answers about the tree: its summary and shape, nodes, search, layers of colour, files. `routes` says which is whose."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._show import plain
from vpunn.codes._text import MODES
from vpunn.errors import VpunnError
from vpunn.padic import show_integer
from vpunn.web.export import EXPORTS, exported
from vpunn.web.layers import read_limits
from vpunn.web.replies import ApiError, Reply, json_reply
from vpunn.web.subject import NODE_ID, Subject, clean, clip

if TYPE_CHECKING:
    from fractions import Fraction

    from vpunn._types import Cell, Json
    from vpunn.web.api import Api
    from vpunn.web.asked import Asked


#: Children and search results a single answer may hold.
MAX_CHILDREN = 500
MAX_RESULTS = 200
#: A longer path is shown by its ends, a longer code is not written as an integer or a series.
LONG_PATH = 200
#: A cell of the node panel is cut at this length.
MAX_CELL = 4000


def health(api: Api, asked: Asked) -> Reply:
    """Alive, and what is served."""
    from vpunn import __version__

    subject = api.subject
    nodes = subject.tree.n_nodes
    return json_reply({"status": "ok", "version": __version__, "title": subject.title, "nodes": nodes})


def ready(api: Api, asked: Asked) -> Reply:
    """Whether the first visitor would wait for nothing but his answer."""
    state = api.subject.state
    if state == "ready":
        return json_reply({"status": "ready"})
    what = (
        "warming up failed; the server's log says why" if state == "failed" else "the model is being read and compiled"
    )
    raise ApiError(503, f"{what}; ask again in a second.", "path", {"Retry-After": "1"})


def document(api: Api, asked: Asked) -> Reply:
    """The OpenAPI document."""
    return json_reply(api.openapi())


def summary(api: Api, asked: Asked) -> Reply:
    """What the page needs to know before it draws."""
    return json_reply(api.summary())


def shape(api: Api, asked: Asked) -> Reply:
    """The depth of every node in preorder, 1, 2 or 4 bytes each."""
    subject, given = api.subject, asked.get("hash")
    if given not in (None, subject.hash):
        raise ApiError(404, "this server shows another tree by now; load the page again.", "hash")
    return Reply(subject.shape, "application/octet-stream", forever=given is not None)


def labels(api: Api, asked: Asked) -> Reply:
    """Names of nodes given as ids and ranges: ``ids=0-9,17``."""
    subject = api.subject
    names = [subject.name(i) for i in asked.ids("ids", subject.tree.n_nodes)]
    return json_reply(names, forever=asked.get("hash") == subject.hash)


# ---- nodes -----------------------------------------------------------------------------------------------------------


def node(api: Api, asked: Asked) -> Reply:
    """All about one node: path, code, counts, columns."""
    i = api.node(asked, "id")
    subject, tree = api.subject, api.subject.tree
    chain = tree.ancestors(i).tolist()
    shown = chain if len(chain) <= LONG_PATH else chain[:10] + chain[10 - LONG_PATH :]
    layer = asked.get("layer")
    found = {
        **subject.brief(i),
        "digit": int(tree.digit[i]),
        "children": int(tree.n_children[i]),
        "path": [subject.brief(j) for j in shown],
        "skipped": len(chain) - len(shown),
        "siblings": _siblings(subject, i),
        "also_below": [subject.brief(j) for j in _linked(tree.extra_parents, i)],
        "also_above": [subject.brief(j) for j in _linked(tree.extra_children, i)],
        "codes": _codes(subject, i),
        "radius": f"{subject.code.p}^-{tree.depth[i]}" if i else "1",
        "columns": {str(name): _cell(values[i]) for name, values in tree.columns.items()},
        "layer": None if layer is None else api.layers.layer(layer, asked.query.get("stat", "mean")).value(i),
    }
    return json_reply(found)


def _siblings(subject: Subject, i: int) -> dict[str, Any]:
    """How many children the parent has, and which stand beside this one."""
    tree = subject.tree
    parent = int(tree.parent[i])
    if parent < 0:
        return {"count": 0, "previous": None, "next": None}
    start, ids = tree.child_index
    first, size, place = int(start[parent]), int(tree.n_children[parent]), int(tree.digit[i]) - 1
    return {
        "count": size,
        "previous": subject.brief(int(ids[first + place - 1])) if place else None,
        "next": subject.brief(int(ids[first + place + 1])) if place + 1 < size else None,
    }


def _linked(links: tuple[np.ndarray, np.ndarray], i: int) -> list[int]:
    """The first of a node's extra parents or children."""
    start, ids = links
    return [int(j) for j in ids[start[i] : start[i + 1]][:LONG_PATH]]


def _codes(subject: Subject, i: int) -> dict[str, str]:
    code = subject.code
    if code.tree.depth[i] > LONG_PATH:
        return {"digits": clip(code.format(i, "digits"), MAX_CELL)}
    return {mode: clip(code.format(i, mode), MAX_CELL) for mode in MODES}


def _cell(value: Cell) -> Json:
    """A column's value for JSON: numbers as they are, anything else as text."""
    value = plain(value) if isinstance(value, np.generic | np.ndarray) else value
    if value is None or isinstance(value, bool | int | float):
        return value
    return clip(clean(str(value)), MAX_CELL)


def children(api: Api, asked: Asked) -> Reply:
    """A page of a node's children: in tree order, by name, or by size."""
    i = api.node(asked, "id")
    sort = asked.choice("sort", ("order", "name", "size"))
    start = asked.number("start", 0, 0, 2**31)
    count = asked.number("count", 50, 1, MAX_CHILDREN)
    ids = api.sorted_children(i, sort)
    page = [api.subject.brief(j) for j in ids[start : start + count].tolist()]
    return json_reply({"total": len(ids), "start": start, "children": page})


def sort_children(subject: Subject, i: int, sort: str) -> np.ndarray:
    """The children of a node in one of three orders."""
    tree = subject.tree
    ids = tree.children(i)
    if sort == "size":
        return ids[np.argsort(-tree.size[ids], kind="stable")]
    if sort == "name":
        names = [subject.name(j).casefold() for j in ids.tolist()]
        return ids[sorted(range(len(names)), key=names.__getitem__)]
    return ids


def search(api: Api, asked: Asked) -> Reply:
    """Nodes by words, beginnings of words, label or code; and what was perhaps meant."""
    subject = api.subject
    text = clip(asked.text("q", empty=True), 200).strip()
    limit = asked.number("limit", 30, 1, MAX_RESULTS)
    found: list[dict[str, Any]] = []
    seen: set[int] = set()
    for how, nodes in (
        ("label", _by_label(subject, text)),
        ("code", _by_code(subject, text)),
        ("name", subject.search.find(text, limit).tolist()),
    ):
        for i in nodes:
            if i not in seen and len(found) < limit:
                seen.add(i)
                found.append({**subject.brief(i), "by": how, "above": _above(subject, i)})
    meant = [] if found or not text else subject.search.suggest(text)
    return json_reply({"query": text, "results": found, "did_you_mean": meant})


def _by_label(subject: Subject, text: str) -> list[int]:
    if NODE_ID.fullmatch(text):
        node = int(text[1:])
        return [node] if node < subject.tree.n_nodes else []
    return subject.labelled(text)[:MAX_RESULTS]


def _by_code(subject: Subject, text: str) -> list[int]:
    if not text or not set(text) <= set("0123456789[], |…+*^ ."):
        return []
    try:
        return [int(subject.code.parse(text))]
    except VpunnError:
        return []


def _above(subject: Subject, i: int) -> list[str]:
    """The names of the three balls above a node, nearest last: enough to tell namesakes apart."""
    return [subject.name(j) for j in subject.tree.ancestors(i)[:-1][-3:].tolist()]


def lca(api: Api, asked: Asked) -> Reply:
    """The lowest common ancestor of two nodes, their distance and both codes."""
    a, b = api.node(asked, "a"), api.node(asked, "b")
    subject, code = api.subject, api.subject.code
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


def _fraction(value: Fraction) -> str:
    return f"{value.numerator}/{show_integer(value.denominator)}" if value.denominator != 1 else str(value.numerator)


def describe(api: Api, asked: Asked) -> Reply:
    """What a ball contains and stands for (`vpunn.explanations.describe_ball`)."""
    return json_reply(api.description(api.node(asked, "id")))


def description(subject: Subject, i: int) -> dict[str, Any]:
    """What the model, or without one the tree, knows of a ball."""
    from vpunn.explanations import describe_ball

    tree = subject.tree
    if subject.answers is not None:
        found = subject.answers.describe(i)
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


def _word(name: str) -> str:
    """A feature as people know it: ``words__men`` is the word *men*."""
    return clean(name.partition("__")[2] or name)


# ---- layers ----------------------------------------------------------------------------------------------------------


def layer(api: Api, asked: Asked) -> Reply:
    """The legend of a layer."""
    return json_reply(api.layers.layer(asked.text("name"), asked.query.get("stat", "mean")).legend)


def layer_bytes(api: Api, asked: Asked) -> Reply:
    """A layer: one byte a node, or with ``as=weight`` one float32 a node."""
    name = asked.text("name")
    if asked.choice("as", ("color", "weight")) == "weight":
        found = api.layers.weights(name).astype("<f4")
    else:
        found = api.layers.layer(name, asked.query.get("stat", "mean")).colour
    return Reply(found.tobytes(), "application/octet-stream")


def table(api: Api, asked: Asked) -> Reply:
    """Add a table as layers."""
    name = clip(asked.query.get("name", "table"), 40)
    read_limits(asked.body, api.limits)
    return json_reply(api.layers.add_table(asked.body, asked.get("label"), name, asked.wanted), 201)


# ---- out -------------------------------------------------------------------------------------------------------------


def export(api: Api, asked: Asked) -> Reply:
    """A subtree as a page of its own, CSV, Newick or JSON."""
    node = 0 if asked.get("id") is None else api.node(asked, "id")
    form = asked.choice("format", tuple(EXPORTS))
    depth = None if asked.get("depth") is None else asked.number("depth", 0, 0, 2**31)
    reply = exported(api.subject, node, form, depth, raw=asked.choice("raw", ("no", "yes")) == "yes")
    name = "".join(c if c.isalnum() and c.isascii() else "_" for c in api.subject.name(node))[:40] or "tree"
    file = f'attachment; filename="{name}.{EXPORTS[form][0]}"'
    return replace(reply, headers={**reply.headers, "Content-Disposition": file})
