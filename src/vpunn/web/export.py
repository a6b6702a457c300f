"""A subtree as a file: one HTML page that still zooms and searches, or a table, Newick or JSON text."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.io.spreadsheets import without_formulas
from vpunn.tree import Tree
from vpunn.web.layers import Layers
from vpunn.web.replies import ApiError, Reply
from vpunn.web.subject import Subject, clean

if TYPE_CHECKING:
    from vpunn._types import Json

#: Form → (ending, media type).
EXPORTS = {
    "html": ("html", "text/html; charset=utf-8"),
    "csv": ("csv", "text/csv; charset=utf-8"),
    "newick": ("nwk", "text/plain; charset=utf-8"),
    "json": ("json", "application/json"),
}
#: Ending → media type of what the page consists of.
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
#: A page with more nodes is cut at the deepest level that fits, and says so.
MAX_PAGE = 200_000
ASSETS = Path(__file__).parent / "assets"
#: The page's modules, each after those it imports.
MODULES = (
    "shape",
    "colors",
    "dom",
    "server",
    "saved",
    "api",
    "labels",
    "state",
    "columns",
    "icicle",
    "radial",
    "dendrogram",
    "disk",
    "list",
    "gestures",
    "view",
    "panel",
    "search",
    "answer",
    "tables",
    "ask",
    "picture",
    "main",
)


def exported(subject: Subject, node: int, form: str, depth: int | None, *, raw: bool = False) -> Reply:
    """The subtree below a node, cut ``depth`` levels below it if that is given; ``raw`` CSV has formulas as they are."""
    tree = subject.tree.subtree(node)
    levels = tree.max_depth if depth is None else min(depth, tree.max_depth)
    if form == "html":
        per_level = np.cumsum(np.bincount(tree.depth))
        fits = int(np.searchsorted(per_level, MAX_PAGE, side="right")) - 1
        if fits < 0:
            raise ApiError(422, f"a page holds at most {MAX_PAGE:,} nodes.", "depth")
        levels = min(levels, fits)
    hidden = 0
    if levels < tree.max_depth:
        hidden = int((tree.depth > levels).sum())
        tree = cut(tree, levels)
    kind = EXPORTS[form][1]
    if form == "html":
        note = ""
        if hidden:
            note = f"Cut {levels} levels below {subject.name(node)}: {hidden:,} deeper nodes are left out."
        return Reply(page(subject, node, tree, note).encode("utf-8", "replace"), kind)
    if form == "csv":
        frame = tree.to_frame() if raw else without_formulas(tree.to_frame())
        return Reply(frame.to_csv(index=False).encode("utf-8", "replace"), kind)
    if form == "json":  # its keys name and children are the label and the subtrees
        columns = {f"{key}_column" if key in ("name", "children") else key: v for key, v in tree.columns.items()}
        tree = tree.replace(columns=columns)
    return Reply((tree.to_newick() if form == "newick" else tree.to_json()).encode("utf-8", "replace"), kind)


def cut(tree: Tree, levels: int) -> Tree:
    """The tree without nodes deeper than ``levels``; the column ``below`` counts what each node lost."""
    kept = np.flatnonzero(tree.depth <= levels)
    place = np.full(tree.n_nodes, -1, np.int64)
    place[kept] = np.arange(len(kept))
    parent = np.where(tree.parent[kept] >= 0, place[tree.parent[kept]], -1)
    below = np.where(tree.depth[kept] == levels, tree.size[kept] - 1, 0)
    part = tree.take(parent, kept)
    return part.replace(columns={**part.columns, "below": below})


def page(subject: Subject, node: int, tree: Tree, note: str) -> str:
    """One HTML file with shape, labels, columns and the current colours inside; it asks for nothing else.

    Data travel as gzipped base64 in script elements that browsers do not run; the policy allows exactly the inlined
    script and style, and no connection at all.
    """

    part = Subject(tree, subject.title, own=subject.own)
    names = [part.name(i) for i in range(tree.n_nodes)]
    also = [part.also(i) for i in range(tree.n_nodes)]
    labels = [clean(str(label)) for label in tree.labels.tolist()]
    columns = {}
    for name, values in tree.columns.items():
        if values.ndim == 1 and name != "name":
            columns[str(name)] = [
                "" if v is None or v != v else v if isinstance(v, int | float) else clean(str(v))
                for v in values.tolist()
            ]
    layers = Layers(part)
    painted = {}
    for entry in layers.names():
        layer = layers.layer(entry["name"])
        painted[entry["name"]] = {"legend": layer.legend, "bytes": base64.b64encode(layer.colour.tobytes()).decode()}
    summary = {
        "title": clean(subject.title),
        "nodes": tree.n_nodes,
        "leaves": tree.n_leaves,
        "depth": tree.max_depth,
        "branching": tree.max_branching,
        "p": part.code.p,
        "hash": part.hash,
        "bytes_per_depth": len(part.shape) // tree.n_nodes,
        "columns": list(columns),
        "layers": layers.names(),
        "color": next(iter(part.own), None),
        "model": None,
        "note": note,
        "from": {"id": node, "path": [subject.name(i) for i in subject.tree.ancestors(node).tolist()]},
    }
    data = {
        "shape": base64.b64encode(part.shape).decode(),
        "names": names,
        "labels": labels if labels != names else None,
        "also": also if any(also) else None,
        "columns": columns,
        "layers": painted,
    }
    return document(summary, data)


def document(summary: dict[str, Any], data: dict[str, Any] | None, mode: str = "file") -> str:
    """The explorer's page with everything inlined; ``mode`` says where its answers come from: the file or a notebook."""
    setup = {"mode": mode, "summary": summary}
    packed = (
        ""
        if data is None
        else base64.b64encode(
            gzip.compress(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace"), 6, mtime=0)
        ).decode()
    )
    script, style = bundle(), (ASSETS / "style.css").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data: blob:; "
        "connect-src data:; base-uri 'none'; form-action 'none'"
    )
    html = re.sub(r'<link rel="(?:module)?preload"[^>]*>\n', "", (ASSETS / "index.html").read_text(encoding="utf-8"))
    html = html.replace("<!--policy-->", f'<meta http-equiv="Content-Security-Policy" content="{policy}">')
    html = html.replace('<link rel="stylesheet" href="assets/style.css">', f"<style>{style}</style>")
    inside = (
        f'<script type="application/json" id="setup">{_inline(setup)}</script>'
        f'<script type="text/plain" id="data">{packed}</script>'
        f'<script type="module">{script}</script>'
    )
    return html.replace('<script type="module" src="assets/main.js"></script>', inside)


def _inline(value: Json) -> str:
    """JSON that no HTML parser takes for markup."""
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@lru_cache(maxsize=1)
def bundle() -> str:
    """All modules as one: their names are distinct, so leaving out the import lines and the word export is enough."""
    parts: list[str] = []
    for name in MODULES:
        lines = (ASSETS / f"{name}.js").read_text(encoding="utf-8").splitlines()
        parts.extend(line.removeprefix("export ") for line in lines if not line.startswith("import "))
    return "\n".join(parts)
