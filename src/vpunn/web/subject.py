"""What is explored: a tree under a name, perhaps with a fitted model, and how its nodes are named and found."""

from __future__ import annotations

import hashlib
import re
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.codes import PadicCode
from vpunn.errors import VpunnError, examples
from vpunn.tree import Tree
from vpunn.web.replies import ApiError
from vpunn.web.search import SearchIndex, as_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vpunn.web.batch import ScoredTable
    from vpunn.web.beliefs import ClassifierAnswers
    from vpunn.web.numbers import RegressorAnswers


#: A node id, told from a label by its sign: ``@17``.
NODE_ID = re.compile(r"@(\d{1,10})")
#: A label that is a whole number, as it is written.
WHOLE = re.compile(r"-?[0-9]{1,19}")


class Subject:
    """A tree, its title, and the `ClassifierAnswers` (of a regressor `RegressorAnswers`) that answers for a model, or None.

    ``own`` names columns of the tree that are not to be added up over balls, since each value is of a ball already: ``value``
    of the ball itself, ``difference`` from its parent's. The first of them is the colour the page opens with.
    Everything derived (code, search index, hash of the shape) is made on first use, once, also when many threads ask.
    """

    def __init__(
        self,
        tree: Tree,
        title: str = "tree",
        answers: ClassifierAnswers | RegressorAnswers | None = None,
        own: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(tree, Tree):
            raise VpunnError(f"the explorer shows a Tree or a fitted model, got {type(tree).__name__}.")
        self.tree = tree
        self.title = title
        self.answers = answers
        self.own = dict(own or {})
        self.state = "ready"  #: ``warming`` or ``failed`` while or after what visitors need was made before they come
        self.scored: ScoredTable | None = None  #: rows with right answers that the page opens with
        self._lock = Lock()
        names = tree.columns.get("name")
        self._names = tree.labels if names is None else names
        self._common = tree.columns.get("common_name")

    @cached_property
    def code(self) -> PadicCode:
        """The tree's p-adic code."""
        return PadicCode(self.tree)

    @property
    def search(self) -> SearchIndex:
        """The search index, built by whoever asks first."""
        with self._lock:
            return self._search

    @cached_property
    def _search(self) -> SearchIndex:
        return SearchIndex(self.tree)

    @cached_property
    def shape(self) -> bytes:
        """The depths of all nodes in preorder, in the fewest bytes: everything else about the shape follows from them."""
        width = np.uint8 if self.tree.max_depth < 256 else "<u2" if self.tree.max_depth < 65536 else "<u4"
        return self.tree.depth.astype(width).tobytes()

    @cached_property
    def hash(self) -> str:
        """A name for shape, labels and columns: what is stored under it never goes stale."""
        state = hashlib.sha256(self.shape)
        for name, values in (("", self.tree.labels), *self.tree.columns.items()):
            state.update(name.encode("utf-8", "replace") + b"\0")
            if values.dtype.kind in "biuf":
                state.update(values.tobytes())
            else:
                for buffer in as_text(values.ravel()).buffers():
                    state.update(b"" if buffer is None else buffer)
        return state.hexdigest()[:16]

    def name(self, node: int) -> str:
        """What people call a node: its common name, or its name, or its label."""
        return _text(self._common, node) or _text(self._names, node) or clean(str(self.tree.labels[node]))

    def also(self, node: int) -> str:
        """The other name of a node with a common one, such as the scientific name of a species."""
        return _text(self._names, node) if _text(self._common, node) else ""

    def ref(self, node: int) -> str:
        """What to write in a URL: the label where it names this node alone, else ``@id``."""
        label = clean(str(self.tree.labels[node]))
        usable = label and not label.startswith("@") and len(label) <= 100 and self._by_label.alone[node]
        return label if usable else f"@{node}"

    def brief(self, node: int) -> dict[str, Any]:
        """The least that is shown of a node anywhere."""
        return {
            "id": node,
            "ref": self.ref(node),
            "label": clean(str(self.tree.labels[node])),
            "name": self.name(node),
            "also": self.also(node),
            "depth": int(self.tree.depth[node]),
            "size": int(self.tree.size[node]),
            "leaves": int(self.tree.leaf_counts[node]),
        }

    def resolve(self, text: str, where: str) -> int:
        """The node that ``@id``, a label, or a number that is no label means; otherwise a 404 that suggests others."""
        if match := NODE_ID.fullmatch(text):
            node = int(match[1])
            if node >= self.tree.n_nodes:
                raise ApiError(404, f"there is no node {text}; ids go from @0 to @{self.tree.n_nodes - 1}.", where)
            return node
        try:
            return self.find_label(text)
        except ApiError as error:
            number = int(text) if re.fullmatch(r"[0-9]{1,10}", text) else self.tree.n_nodes
            if number < self.tree.n_nodes and error.status == 404:
                return number
            raise ApiError(error.status, str(error), where) from None

    def labelled(self, text: str) -> list[int]:
        """All nodes whose label reads so."""
        rows = self._by_label.get(text, [])
        return [rows] if isinstance(rows, int) else list(rows)

    def find_label(self, text: str) -> int:
        """The one node whose label reads so."""
        rows = self.labelled(text)
        if len(rows) == 1:
            return rows[0]
        if rows:
            ids = ", ".join(f"@{node}" for node in rows[:5])
            raise ApiError(400, f"{text!r} names {len(rows)} nodes; say which: {ids}.", "")
        named = [self.tree.labels[i] for i in self.search.find(text, 3).tolist()] if text.strip() else []
        hint = f"did you mean {examples(named)}?" if named else "GET /api/search?q= finds labels."
        raise ApiError(404, f"no node is labelled {clip(text)!r}; {hint}", "")

    def match_texts(self, texts: np.ndarray) -> np.ndarray:
        """The node of each text by label, else by a readable name that is one node's alone; −1 for none."""
        found = self._by_label.find_many(texts)
        rest = np.flatnonzero(found < 0)
        if len(rest) and self._names is not self.tree.labels:
            found[rest] = self._name_index.find_many(texts[rest])
        return found

    @cached_property
    def _name_index(self) -> _Labels:
        return _Labels(self._names)

    @property
    def _by_label(self) -> _Labels:
        with self._lock:
            return self._label_index

    @cached_property
    def _label_index(self) -> _Labels:
        return _Labels(self.tree.labels)


class _Labels:
    """Nodes by the text of their label: a hash table of those that name one node alone, and a scan for the others."""

    def __init__(self, labels: np.ndarray) -> None:
        import pandas as pd

        self.whole = labels.dtype.kind in "iu"
        self.texts = labels if self.whole else np.array([clean(str(label)) for label in labels.tolist()], object)
        everything = pd.Index(self.texts)
        #: which nodes have a label of their own
        self.alone = ~np.asarray(everything.duplicated(keep=False))
        self.unique = bool(self.alone.all())
        self.nodes = np.flatnonzero(self.alone)
        self.table = everything if self.unique else everything[self.nodes]

    def get(self, text: str, default: object) -> Any:
        """The node, or all nodes if there are several, or ``default``."""
        key: Any = text
        if self.whole:
            if not WHOLE.fullmatch(text):
                return default
            key = int(text)
        try:
            return int(self.nodes[self.table.get_loc(key)])
        except KeyError:
            return default if self.unique else np.flatnonzero(self.texts == key).tolist() or default

    def find_many(self, texts: np.ndarray) -> np.ndarray:
        """The node of each text, −1 where none or several are labelled so."""
        import pandas as pd

        found = np.full(len(texts), -1, np.int64)
        asked = np.arange(len(texts))
        keys: Any = texts
        if self.whole:  # compared as integers: a float would confuse labels beyond 2⁵³
            numbers = [int(text) if WHOLE.fullmatch(text) else None for text in texts.tolist()]
            asked = np.array([i for i, n in enumerate(numbers) if n is not None and -(2**63) <= n < 2**63], np.int64)
            keys = np.array([numbers[i] for i in asked.tolist()], np.int64)
        at = self.table.get_indexer(pd.Index(keys))
        found[asked[at >= 0]] = self.nodes[at[at >= 0]]
        return found


def _text(values: np.ndarray | None, node: int) -> str:
    """A cell of a column of texts, empty where there is none."""
    value = None if values is None else values[node]
    return "" if value is None or value != value else clean(str(value))


def clean(text: str) -> str:
    """Text that JSON, UTF-8 and a page can carry: lone surrogates and control characters become �."""
    if text.isprintable():
        return text
    text = text.encode("utf-8", "replace").decode()
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "�", text)


def clip(text: str, length: int = 80) -> str:
    """The beginning of a long text."""
    return text if len(text) <= length else text[: length - 1] + "…"
