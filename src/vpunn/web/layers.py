"""Colour and size: a column of the tree or of a user's table, carried up the tree and written as one byte a node.

A number is summed over every ball (one sweep), so that counts, sums, means and error rates of a ball are known at once.
A category shows, for every ball, the commonest one among its nodes. The scale is fixed by the whole tree, not by the part
in view, so a colour means the same thing wherever one looks.
"""

from __future__ import annotations

import io
import re
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._rows import slices
from vpunn.errors import VpunnError, examples
from vpunn.tree import Tree
from vpunn.web.asked import Wanted
from vpunn.web.replies import ApiError
from vpunn.web.subject import Subject, clip

if TYPE_CHECKING:
    import pandas as pd

    from vpunn._types import Json
    from vpunn.web.api import Limits


#: What can be shown of a number in a ball.
STATISTICS = ("mean", "sum", "count")
#: Byte of a node without a value.
NOTHING = 255
#: Colours of a scale, and categories that get a colour of their own; rarer ones share the last.
STEPS = 255
CATEGORIES = 8
#: Rows that are matched in one piece.
MATCHED = 20_000
#: Tables and painted layers kept; the least used goes first.
MAX_TABLES, TABLE_BYTES = 8, 1 << 26
MAX_LAYERS = 6


@dataclass(frozen=True)
class Rows:
    """Values of some rows, each at its node: a column of the tree has one row a node, a table any number."""

    title: str
    nodes: np.ndarray
    values: np.ndarray
    own: str = ""  #: of balls already, not to be added up: their ``value``, or the ``difference`` from their parents'

    @property
    def is_number(self) -> bool:
        """Whether the values can be added up."""
        return self.values.dtype.kind in "biuf"


@dataclass(frozen=True)
class Layer:
    """One byte a node, what the bytes mean, and (for numbers) the value of every ball."""

    legend: dict[str, Any]
    colour: np.ndarray
    values: np.ndarray | None
    categories: list[str]

    def value(self, node: int) -> Json:
        """What a ball shows, as a number or a word."""
        if self.values is not None:
            return None if np.isnan(self.values[node]) else float(self.values[node])
        return None if self.colour[node] == NOTHING else self.categories[self.colour[node]]


class Layers:
    """The columns of a subject and the tables added to it."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._tables: OrderedDict[str, dict[str, Rows]] = OrderedDict()
        self._made: OrderedDict[tuple[str, str], Layer] = OrderedDict()
        self._count = 0
        self._lock = Lock()

    def names(self) -> list[dict[str, Any]]:
        """All columns that can be shown: name, title and kind."""
        found = []
        for name, rows in self._sources().items():
            kind = "number" if rows.is_number else "category"
            found.append({"name": name, "title": rows.title, "kind": kind, "own": bool(rows.own)})
        return found

    def _sources(self) -> dict[str, Rows]:
        tree = self.subject.tree
        found: dict[str, Rows] = {}
        for name, values in tree.columns.items():
            if values.ndim == 1 and (values.dtype.kind in "biuf" or _is_category(values)):
                found[name] = Rows(name, np.arange(tree.n_nodes), values, self.subject.own.get(name, ""))
        with self._lock:
            for table in self._tables.values():
                found.update(table)
        return found

    def add_table(
        self, data: bytes, label: str | None = None, name: str = "table", wanted: Wanted | None = None
    ) -> dict[str, Any]:
        """Read a CSV or TSV table, find its label column, match its rows to nodes, and keep its columns as layers."""
        wanted = wanted or Wanted()
        frame = read_csv(data)
        column, nodes = self._labels(frame, label, wanted)
        known = nodes >= 0
        if not known.any():
            raise ApiError(
                422,
                f"no cell of the column {clip(str(column))!r} is the label of a node; cells are such as "
                f"{examples(frame[column].astype(str)[:3])}, labels such as {examples(self.subject.tree.labels[:3])}.",
                "body",
            )
        with self._lock:
            self._count += 1
            key = f"t{self._count}"
        layers = {f"{key}.rows": Rows(f"rows of {name}", nodes[known], np.ones(int(known.sum())))}
        taken = {rows.title for rows in self._sources().values()}
        for other in frame.columns:
            wanted.check()
            values = frame[other].to_numpy()[known]
            if other != column and (values.dtype.kind in "biuf" or _is_category(values)):
                title = (
                    f"{other} of {name}" if str(other) in taken else str(other)
                )  # two columns of one name are told apart
                layer = f"{key}.{other}"
                layers[layer if layer not in layers else f"{layer}, column"] = Rows(title, nodes[known], values)
        with self._lock:
            self._tables[key] = layers
            while len(self._tables) > 1 and (
                len(self._tables) > MAX_TABLES or sum(map(_bytes_of, self._tables.values())) > TABLE_BYTES
            ):
                self._tables.popitem(last=False)
        lost = frame[column][~known].astype(str)
        return {
            "table": key,
            "label": str(column),
            "rows": len(frame),
            "matched": int(known.sum()),
            "unmatched": [clip(text) for text in lost[:5]],
            "layers": [entry for entry in self.names() if entry["name"] in layers],
        }

    def _labels(self, frame: pd.DataFrame, label: str | None, wanted: Wanted) -> tuple[Any, np.ndarray]:
        """The column that names nodes (the one most of whose cells do, unless it is given) and the node of each row."""
        if label is not None and label not in frame:
            raise ApiError(422, f"the table has no column {clip(label)!r}; it has {examples(list(frame))}.", "label")
        best: tuple[Any, np.ndarray] | None = None
        for column in [label] if label is not None else list(frame)[:50]:
            cells = frame[column].to_numpy()
            parts = []
            for part in slices(len(cells), MATCHED):
                wanted.check()
                parts.append(match(self.subject, cells[part]))
            nodes = np.concatenate(parts)
            if best is None or (nodes >= 0).sum() > (best[1] >= 0).sum():
                best = column, nodes
        assert best is not None
        return best

    def layer(self, name: str, statistic: str = "mean") -> Layer:
        """The painted layer of a column, from the cache or made now."""
        if statistic not in STATISTICS:
            raise ApiError(400, f"stat={clip(statistic)!r} is unknown; choose one of {', '.join(STATISTICS)}.", "stat")
        key = (name, statistic)
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key]
        rows = self._rows(name)
        made = (
            paint_number(self.subject.tree, rows, statistic)
            if rows.is_number
            else paint_category(self.subject.tree, rows)
        )
        with self._lock:
            self._made[key] = made
            while len(self._made) > MAX_LAYERS:
                self._made.popitem(last=False)
        return made

    def weights(self, name: str) -> np.ndarray:
        """What each node adds to the size of its balls: the sum of its rows' values, nothing where that is not positive."""
        rows = self._rows(name)
        if not rows.is_number or rows.own:
            what = "holds a number of each ball" if rows.own else "is not a column of numbers"
            raise ApiError(400, f"{clip(name)!r} {what}, so it gives no sizes.", "name")
        sums, _ = _totals(self.subject.tree.n_nodes, rows)
        weights = np.where(sums > 0, sums, 0.0)
        if not weights.sum() <= np.finfo(np.float32).max:
            raise ApiError(422, f"the sums of {clip(rows.title)!r} are too large for sizes; divide the column.", "name")
        return weights

    def _rows(self, name: str) -> Rows:
        sources = self._sources()
        if name not in sources:
            known = (
                f"there are {examples(list(sources))}" if sources else "this tree has none; POST /api/table adds some"
            )
            raise ApiError(404, f"there is no layer {clip(name)!r}; {known}.", "name")
        return sources[name]


def paint_number(tree: Tree, rows: Rows, statistic: str) -> Layer:
    """The mean, sum or count of the rows in every ball, on a scale (logarithmic if it spans three decades).

    Numbers that are of balls already are painted as they are. Differences have a scale with 0 in the middle; the root, which
    differs from nothing, has no colour.
    """
    if rows.own:
        values = rows.values.astype(np.float64)
        shown = np.where(tree.depth > 0, values, np.nan) if rows.own == "difference" else values
        return _painted(rows, "", values, shown, centred=rows.own == "difference")
    sums, counts = _totals(tree.n_nodes, rows)
    ball_sums, ball_counts = tree.subtree_sum(sums), tree.subtree_sum(counts)
    if not np.isfinite(ball_sums).all():
        raise ApiError(422, f"the sums of {clip(rows.title)!r} are too large for a number; divide the column.", "name")
    with np.errstate(invalid="ignore", divide="ignore"):
        values = {"mean": ball_sums / ball_counts, "sum": ball_sums, "count": ball_counts.astype(float)}[statistic]
    values = np.where(ball_counts > 0, values, np.nan).astype(np.float64)
    return _painted(rows, statistic, values, values)


def _painted(rows: Rows, statistic: str, values: np.ndarray, shown: np.ndarray, *, centred: bool = False) -> Layer:
    """Numbers of all balls on a scale that those ``shown`` span."""
    known = shown[np.isfinite(shown)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    log = low > 0 and high / low >= 1000
    if statistic in ("mean", "") and not log and len(known) > 1000:  # single odd nodes would use up the scale
        low, high = (float(q) for q in np.quantile(known, [0.01, 0.99]))
    if centred:
        high = max(abs(low), abs(high))
        low, log = -high, False
    span = (np.log(high) - np.log(low)) if log else high - low
    with np.errstate(invalid="ignore", divide="ignore"):
        place = ((np.log(shown) - np.log(low)) if log else shown - low) / (span or 1.0)
    colour = np.full(len(values), NOTHING, np.uint8)
    there = np.isfinite(place)
    colour[there] = np.clip(place[there] * (STEPS - 1), 0, STEPS - 1).astype(np.uint8)
    legend = {"kind": "number", "title": rows.title, "stat": statistic, "low": low, "high": high, "log": log}
    return Layer(legend, colour, values, [])


def paint_category(tree: Tree, rows: Rows) -> Layer:
    """The commonest value of every ball, a node's own value counting before those of its descendants."""
    import pandas as pd

    number, names = pd.factorize(rows.values)
    order = np.argsort(-np.bincount(number[number >= 0], minlength=len(names)), kind="stable")
    rank = np.empty(len(names), np.int64)
    rank[order] = np.arange(len(names))
    shown = [str(names[i]) for i in order[:CATEGORIES]]
    if len(names) > CATEGORIES:
        shown[CATEGORIES - 1] = f"{len(names) - CATEGORIES + 1:,} others"
    value = np.where(number >= 0, np.minimum(rank[number], CATEGORIES - 1), -1)
    most = np.zeros(tree.n_nodes, np.int64)
    colour = np.full(tree.n_nodes, NOTHING, np.uint8)
    for k in range(len(shown)):
        count = tree.subtree_sum(np.bincount(rows.nodes[value == k], minlength=tree.n_nodes))
        more = count > most
        colour[more], most[more] = k, count[more]
    known = value >= 0
    # of a node's own rows the commonest value, of equally common ones the one commoner in all
    pairs, times = np.unique(rows.nodes[known] * CATEGORIES + value[known], return_counts=True)
    order = np.lexsort((-pairs, times))  # the last write wins
    colour[pairs[order] // CATEGORIES] = pairs[order] % CATEGORIES
    legend = {"kind": "category", "title": rows.title, "names": shown}
    return Layer(legend, colour, None, shown)


def _totals(n: int, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Sum and number of the rows at every node; missing values do not count."""
    values = rows.values.astype(np.float64)
    there = np.isfinite(values)
    nodes = rows.nodes[there]
    return np.bincount(nodes, values[there], minlength=n), np.bincount(nodes, minlength=n)


def _bytes_of(layers: dict[str, Rows]) -> int:
    """What a table takes, a text counted as 64 bytes."""
    return sum(rows.values.nbytes * (1 if rows.is_number else 8) for rows in layers.values())


def _is_category(values: np.ndarray) -> bool:
    """Whether texts repeat often enough to be colours: definitions and names do not."""
    import pandas as pd

    if values.dtype.kind in "biuf" or values.ndim != 1:
        return False
    try:
        distinct = pd.Series(values[: 1_000_000 : max(len(values) // 20_000, 1)]).nunique()
    except TypeError:
        return False
    return 2 <= distinct <= 200


def match(subject: Subject, cells: np.ndarray) -> np.ndarray:
    """The node of every cell by label or, where labels do not fit, by a name that only one node has; −1 for none."""
    import pandas as pd

    filled = pd.Series(cells).dropna()
    texts = filled.map(lambda v: str(int(v)) if isinstance(v, float) and v.is_integer() else str(v).strip())
    found = np.full(len(cells), -1, np.int64)
    if len(texts):
        found[filled.index.to_numpy()] = subject.match_texts(texts.to_numpy(object))
    return found


def read_limits(data: bytes, limits: Limits) -> None:
    """Refuse a table with too many columns or cells before it is read: a column takes more time than its cells."""
    plain = re.sub(rb'"[^"]*"', b"", data.lstrip())  # names in quotes may hold marks and line breaks
    lines = re.split(rb"[\r\n]+", plain, maxsplit=4)[:4]
    columns = 1 + max(line.count(mark) for mark in (b",", b"\t", b";", b"|") for line in lines)
    if columns > limits.columns:
        raise ApiError(413, f"a table may have at most {limits.columns:,} columns.", "body")
    if columns * (data.count(b"\n") + 1) > limits.cells:
        raise ApiError(413, f"a table may have at most {limits.cells:,} cells.", "body")


def read_csv(data: bytes) -> pd.DataFrame:
    """A table sent as text (`vpunn.io.read_table`); packed bytes are refused, since they may unpack to anything."""
    from vpunn.io import read_table

    if b"\0" in data[:4096] or data[:3] in (b"\x1f\x8b\x08", b"BZh") or data[:2] == b"\x1f\x8b":
        raise ApiError(422, "the table is not plain text; send CSV, unpacked.", "body")
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ApiError(
            422, f"the table is not UTF-8 text: byte {data[error.start]:#x} at {error.start}.", "body"
        ) from None
    table = io.BytesIO(data)
    table.name = "the table"  # as messages call it
    try:
        return read_table(table)
    except VpunnError as error:
        raise ApiError(422, clip(str(error), 300), "body") from None
