"""Nested JSON: ``{"name": "bird", "children": [{"name": "owl"}, {"name": "wren"}]}``"""

from __future__ import annotations

import gc
import json
import re
import sys
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._arrays import label_array, object_array, take_or_missing
from vpunn.errors import DataError, TreeError, advice, examples
from vpunn.files import HALF_LETTER, Source, half_letter, keys_once
from vpunn.tree import Tree
from vpunn.tree.convert import EXTRA, check_labels, extra_lists, read_extra, refuse_columns
from vpunn.tree.sweeps import depth_first

if TYPE_CHECKING:
    from vpunn._types import Cell, Json


def read_json(
    source: Source,
    *,
    name: str = "name",
    children: str = "children",
    add_root: str | None = None,
    encoding: str = "utf-8",
) -> Tree:
    """A node is an object with the keys ``name`` and ``children`` (absent or null at leaves); further keys are columns;
    ``extra_parents`` is a list of ids (preorder positions) of further parents.

    A list of nodes at the top is a forest, which needs ``add_root="label"``. Nesting may have any depth: what Python's
    own parser finds too deep goes to a slower one that does not recurse.
    """
    text = source.text(encoding)
    half = half_letter(text)
    if half:
        raise source.error(
            len(text[: text.find(half)].encode()), f"{HALF_LETTER} ({half}); repair it where it comes from."
        )
    collects = gc.isenabled()
    gc.disable()  # millions of new dicts and no garbage: searching it again and again would double the time
    try:
        try:
            top = json.loads(text, object_pairs_hook=keys_once)
        except RecursionError:
            top = parse_deep(text)
        return _from_top(source, top, name, children, add_root)
    except json.JSONDecodeError as error:
        detail = error.msg[:1].lower() + error.msg[1:]
        raise DataError(
            f"{source.name}, line {error.lineno:,}, column {error.colno:,}: this is not JSON: {detail}."
        ) from None
    except ValueError as error:
        if "stands twice" in str(error):
            raise DataError(f"{source.name}: {error}; remove or rename one of them.") from None
        if "int_max_str_digits" not in str(error):
            raise
        at = _LONG_NUMBER.search(text)
        raise source.error(
            len(text[: at.start() if at else 0].encode()),
            f"a whole number of more than {sys.get_int_max_str_digits():,} digits; write it as text, or raise the limit with "
            "sys.set_int_max_str_digits.",
        ) from None
    finally:
        if collects:
            gc.enable()


def _from_top(source: Source, top: Json, name: str, children: str, add_root: str | None) -> Tree:
    if isinstance(top, list):
        if add_root is None and len(top) != 1:
            raise DataError(
                f"{source.name}: the top is a list of {len(top):,} nodes; {advice('add_root', '…')} to put a root above them."
            )
        top = top[0] if add_root is None else {name: add_root, children: top}
    return _flatten(source, top, name, children)


def _flatten(source: Source, top: Json, name: str, children: str) -> Tree:
    """Parent pointers of nested dicts, breadth first: the lists grow while they are walked."""
    nodes, parent, labels = [top], [-1], list[Any]()
    for i, node in enumerate(nodes):
        why = _wrong(node, name, children)
        if why:
            where = "the top" if i == 0 else f"child {i - parent.index(parent[i]) + 1:,} of {labels[parent[i]]!r}"
            raise DataError(f"{source.name}: {where} {why}.")
        labels.append(node[name])
        below = node.get(children) or ()
        nodes += below
        parent += [i] * len(below)
    keys = dict.fromkeys(key for node in nodes for key in node)
    own = (name, children, EXTRA)
    columns = {key: _column([node.get(key) for node in nodes]) for key in keys if key not in own}
    names = object_array(labels)
    up = np.array(parent)
    tree = Tree.from_parents(up, names if None in labels else label_array(names)[0], columns=columns)
    if EXTRA not in keys:
        return tree
    # The lists are preorder ids already, so they are read against the finished tree.
    place = Tree.from_parents(up).labels
    lists = [nodes[at].get(EXTRA) for at in place.tolist()]
    return Tree.from_parents(
        tree.parent, tree.labels, columns=tree.columns, extra_parents=read_extra(lists, tree.n_nodes)
    )


def _wrong(node: Json, name: str, children: str) -> str:
    """What keeps a JSON value from being a node; empty if nothing."""
    if not isinstance(node, dict):
        return f"is {_short(node)} instead of an object with the keys {name!r} and {children!r}"
    if name not in node:
        keys = examples(list(node), limit=10) or "no key at all"
        return f"has no {name!r} but {keys}; {advice('name', '…')} to say which key names a node"
    if isinstance(node[name], dict | list):
        return f"has {_short(node[name])} as its {name!r} instead of text or a number"
    if not isinstance(node.get(children, []), list | None):
        return f"has {_short(node[children])} as its {children!r} instead of a list of nodes"
    return ""


def _column(values: list[Any]) -> np.ndarray:
    """Values of one key, missing where a node does not have it."""
    present = [value for value in values if value is not None]
    at = np.full(len(values), -1, np.int64)
    at[[value is not None for value in values]] = np.arange(len(present))
    return take_or_missing(object_array(present), at)


def _short(value: Json) -> str:
    text = "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "…"


_LONG_NUMBER = re.compile(r"(?<![\w.])-?\d{640,}(?![\w.])")  # Python's limit can be no lower than 640
_SPACE = r"[ \t\n\r]*"
_BLANK = re.compile(_SPACE)
_VALUE = re.compile(  # an opening bracket, the quote that starts a string, or a scalar
    rf'{_SPACE}(?:([\[{{])|(")|(-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?)|(true|false|null|NaN|-?Infinity))'
)
_WORDS = {"true": True, "false": False, "null": None, "NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}
_KEY = re.compile(rf'{_SPACE}"([^"\\\x00-\x1f]*)"{_SPACE}:')  # a key without escapes, and its colon
_NEXT = re.compile(rf"{_SPACE}([,\]}}])")


def parse_deep(text: str) -> Json:
    """Parse JSON of any depth with a list for a stack; the same result and errors as `json.loads`, ten times slower.

    >>> deep = "[" * 100_000 + "]" * 100_000
    >>> type(parse_deep(deep)).__name__
    'list'
    """
    stack: list[Any] = []  # open lists and dicts
    keys: list[Any] = []  # for each of them the key whose value comes next (None in lists)
    at = 0
    while True:
        match = _VALUE.match(text, at)
        if not match:
            raise json.JSONDecodeError("Expecting value", text, _skip(text, at))
        at = match.end()
        kind = match.lastindex
        if kind == 1:
            is_list = match[1] == "["
            end = _skip(text, at)
            if text[end : end + 1] != ("]" if is_list else "}"):
                stack.append([] if is_list else {})
                key, at = (None, at) if is_list else _read_key(text, at)
                keys.append(key)
                continue
            at = end + 1
            value: Any = [] if is_list else {}
        elif kind == 2:
            value, at = scanstring(text, at, True)
        elif kind == 6:
            value = _WORDS[match[6]]
        else:
            value = float(match[3]) if match[4] or match[5] else int(match[3])
        while stack:  # put the finished value into what holds it, and close what ends here
            holder = stack[-1]
            match = _NEXT.match(text, at)
            is_list = type(holder) is list
            if is_list:
                holder.append(value)
            elif keys[-1] in holder:
                raise ValueError(f"the key {keys[-1]!r} stands twice in one object")
            else:
                holder[keys[-1]] = value
            if not match or match[1] == ("}" if is_list else "]"):
                raise json.JSONDecodeError("Expecting ',' delimiter", text, _skip(text, at))
            at = match.end()
            if match[1] == ",":
                if not is_list:
                    keys[-1], at = _read_key(text, at)
                break
            keys.pop()
            value = stack.pop()
        else:
            at = _skip(text, at)
            if at != len(text):
                raise json.JSONDecodeError("Extra data", text, at)
            return value


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _read_key(text: str, at: int) -> tuple[str, int]:
    """The key of an object's next member, and where its value starts."""
    match = _KEY.match(text, at)
    if match:
        return match[1], match.end()
    at = _skip(text, at)
    if text[at : at + 1] != '"':
        raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
    key, at = scanstring(text, at + 1, True)
    at = _skip(text, at)
    if text[at : at + 1] != ":":
        raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
    return key, at + 1


# ---- writing -----------------------------------------------------------------------------------------------------------


def write_json(tree: Tree) -> bytes:
    """A file of nested JSON with one tree."""
    return (to_json(tree) + "\n").encode()


def to_json(tree: Tree) -> str:
    """Nested JSON: ``{"name": …, "children": […]}`` with the columns as further keys (left out where missing).

    >>> to_json(Tree.from_parents([-1, 0, 0], labels=["bird", "owl", "wren"]))
    '{"name": "bird", "children": [{"name": "owl"}, {"name": "wren"}]}'
    """
    refuse_columns(tree, ("name", "children", EXTRA) if tree.n_extra else ("name", "children"), "nested JSON")
    check_labels(tree)
    enter = object_array([f'{{"name": {_json_value(label, "label")}' for label in tree.labels.tolist()])
    columns = dict(tree.columns) | ({EXTRA: extra_lists(tree)} if tree.n_extra else {})
    for key, column in columns.items():
        start = f", {_json_value(str(key), 'column')}: "
        enter += object_array(["" if _absent(v) else start + _json_value(v, key) for v in column.tolist()])
    inner = ~tree.is_leaf
    enter[tree.digit > 1] = ", " + enter[tree.digit > 1]
    enter[inner] += ', "children": ['
    return depth_first(tree, enter, np.array(["}", "]}"], object)[inner.astype(int)])


def _json_value(value: Cell, where: object) -> str:
    """JSON text of a label or of a column's value; text and plain numbers take a short cut."""
    if type(value) is str:
        return json.encoder.encode_basestring(value)
    if type(value) is int:
        return repr(value)
    try:
        return _ENCODER.encode(value)
    except TypeError:
        kind = type(value).__name__
        raise TreeError(
            f"the {where} {value!r} is a {kind}, which JSON cannot hold; make it text or a number first."
        ) from None


_ENCODER = json.JSONEncoder(ensure_ascii=False)


def _absent(value: Cell) -> bool:
    return value is None or value != value
