"""Names of a table and nodes of a tree: spellings that mean one thing, blank levels that are known, and what is in no tree."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import DataError, check_choice, examples, rows_have
from vpunn.tables.cells import CHANGES, LabelCells
from vpunn.tree import Tree
from vpunn.tree.find import suggestions
from vpunn.tree.lookup import UNKNOWN, missing_cells

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vpunn._types import Cell, Label

MATCHES = ("exact", "loose")


def spelling_key(label: Label) -> str:
    """What is left of a name when case, underscores, quotes around it, runs of blanks, trailing dots and forms of Unicode do
    not count.

    >>> spelling_key(" Garden_ tools.") == spelling_key("GARDEN TOOLS"), spelling_key("ﬁsh")
    (True, 'fish')
    """
    return " ".join(_words(label)).casefold().rstrip(". ")


def _words(label: Label) -> list[str]:
    return unicodedata.normalize("NFKC", str(label)).replace("_", " ").strip(QUOTES).split()


#: Marks around a name that are no part of it.
QUOTES = " \t'\"‘’“”"


def without_authority(label: Label) -> str:
    """A species' name without who described it and when: what follows two small words or more, from a capital to a capital or year.

    >>> without_authority("Panthera_leo_(Linnaeus,_1758)"), without_authority("Quercus robur L. subsp. robur")
    ('Panthera leo', 'Quercus robur L. subsp. robur')
    """
    words = _words(label)
    start = next((k for k, word in enumerate(words) if k > 1 and word.lstrip("([")[:1].isupper()), len(words))
    last = words[-1].strip("()[],.") if words else ""
    small = all(word.islower() for word in words[1:start])
    named = small and start < len(words) and (last.isdecimal() or last[:1].isupper())
    return " ".join(words[:start] if named else words)


def merged(cells: LabelCells) -> tuple[LabelCells, dict[str, list[str]], int]:
    """Cells with the commonest of spellings that differ in `spelling_key` alone, by column; what was merged into each name, and in
    how many cells."""
    values, found, total = cells.values.copy(), dict[str, list[str]](), 0
    for k in range(values.shape[1]):
        count = Counter(cell for cell in values[:, k].tolist() if isinstance(cell, str))
        alike: dict[str, list[str]] = {}
        for name, _ in sorted(count.items(), key=lambda pair: (-pair[1], pair[0])):
            alike.setdefault(spelling_key(name), []).append(name)
        called = {name: names[0] for names in alike.values() for name in names[1:]}
        for names in alike.values():
            if len(names) > 1:
                found.setdefault(names[0], []).extend(names[1:])
        if called:
            total += sum(count[name] for name in called)
            values[:, k] = [called.get(cell, cell) for cell in values[:, k].tolist()]
    return replace(cells, values=values), found, total


class Spelling:
    """Names as a tree writes them: built once, asked often.

    The number 7 and the text "7" always match. Loosely, the spelling does not count (`spelling_key`), and a readable name
    (the tree's column ``name``, as ontologies have it) means its node too, each if it means one label only. A name that is not
    found so is found without who described it (`without_authority`).

    >>> spell = Spelling(Tree.from_paths([["Homo_sapiens"], ["Pan"]], root="apes"), "loose")
    >>> spell("homo sapiens"), spell("Pan"), spell("Gorilla"), spell("Homo sapiens Linnaeus, 1758")
    (('Homo_sapiens', True), ('Pan', False), ('Gorilla', False), ('Homo_sapiens', True))
    """

    def __init__(self, tree: Tree, match: str = "exact") -> None:
        check_choice("match", match, MATCHES)
        labels = tree.labels.tolist()
        self.known = set(labels)
        self.by_text = _unique({}, ((str(label), label) for label in labels))
        self.by_key: dict[str, Any] = {}
        self.by_bare: dict[str, Any] = {}
        if match == "loose":
            names = tree.columns["name"].tolist() if "name" in tree.columns else []
            self.by_key = _unique(
                {}, ((spelling_key(name), label) for name, label in zip(names, labels, strict=False) if name)
            )
            self.by_key |= _unique({}, ((spelling_key(label), label) for label in labels))
            self.by_bare = _unique({}, ((spelling_key(without_authority(label)), label) for label in labels))

    def __call__(self, cell: Cell) -> tuple[Any, bool]:
        """The tree's name for a cell, or the cell itself if it has none, and whether it was matched loosely."""
        if cell is None or cell in self.known:
            return cell, False
        if str(cell) in self.by_text:
            return self.by_text[str(cell)], False
        if not self.by_key:
            return cell, False
        for found, key in ((self.by_key, spelling_key(cell)), (self.by_bare, spelling_key(without_authority(cell)))):
            if key in found:
                return found[key], True
        return cell, False


def matched(cells: LabelCells, tree: Tree, match: str = "exact") -> tuple[LabelCells, int]:
    """Cells as the tree writes them (`Spelling`), and how many were rewritten by ``"loose"`` matching.

    A first level column that holds nothing but the root's label is left out, and blank levels are filled in as the tree has them.
    """
    spell, values, spelled = Spelling(tree, match), cells.values.copy(), dict[Any, Any]()
    changes = np.zeros((len(values), CHANGES), np.int64) if cells.changes is None else cells.changes.copy()
    for k in range(values.shape[1]):
        for i, cell in enumerate(values[:, k].tolist()):
            values[i, k], loosely = spell(cell)
            changes[i, 3] += loosely
            if loosely:
                spelled[cell] = values[i, k]
    first = [cell for cell in values[:, 0].tolist() if cell is not None]
    if values.shape[1] > 1 and first and all(cell == tree.labels[0] for cell in first):
        values = values[:, 1:]
    found = LabelCells(values, changes, spelled)
    if values.shape[1] > 1 and (values == UNKNOWN).any():
        unseen = locate(tree, found)[1]
        found = completed(found, (tree.labels[path[path > 0]].tolist() for path in tree.paths(tree.leaves)), unseen)
    return found, found.loose


def completed(cells: LabelCells, paths: Iterable[Sequence[Any]], rows: np.ndarray | None = None) -> LabelCells:
    """Blank levels above a given one (of ``rows``), from the one path that agrees with all that a row gives.

    Where several do, or none, they stay `UNKNOWN`.

    >>> cells = LabelCells(np.array([["Garden", "(missing)", "Rake"]], object))
    >>> completed(cells, [("Garden", "Tools", "Rake"), ("Garden", "Plants", "Rose")]).values.tolist()
    [['Garden', 'Tools', 'Rake']]
    """
    blank = cells.values == UNKNOWN
    gap = np.flatnonzero(blank.any(axis=1) if rows is None else blank.any(axis=1) & rows)
    values = cells.values.copy()
    changes = np.zeros((len(values), CHANGES), np.int64) if cells.changes is None else cells.changes.copy()
    shapes: dict[tuple[bool, ...], dict[Any, Any]] = {}
    length = (~missing_cells(values)).sum(axis=1)
    known = {tuple(path) for path in paths} if len(gap) else set()
    for i in gap.tolist():
        shape = tuple(blank[i, : length[i]].tolist())
        if shape not in shapes:
            shapes[shape] = _by_given(known, shape)
        path = shapes[shape].get(_given(values[i], shape))
        if path is not None:
            values[i, : len(path)] = path
            changes[i, [1, 4]] = 0, 1
    return replace(cells, values=values, changes=changes)


def _by_given(paths: Iterable[Sequence[Any]], shape: Sequence[bool]) -> dict[Any, Any]:
    """Beginnings of paths by their levels that are not blank in a shape; None where several have the same."""
    found: dict[Any, Any] = {}
    for path in paths:
        if len(path) >= len(shape) and UNKNOWN not in path:
            begin = tuple(path[: len(shape)])
            given = _given(begin, shape)
            found[given] = begin if found.get(given, begin) == begin else None
    return found


def _given(path: Sequence[Any], shape: Sequence[bool]) -> tuple[Any, ...]:
    return tuple(cell for cell, blank in zip(path, shape, strict=False) if not blank)


def _unique(found: dict[str, Any], pairs: Iterable[tuple[str, Label]]) -> dict[str, Any]:
    """Names that mean one label only."""
    twice = set()
    for key, label in pairs:
        if key in found and found[key] != label:
            twice.add(key)
        found.setdefault(key, label)
    return {key: label for key, label in found.items() if key not in twice}


def locate(tree: Tree, cells: LabelCells) -> tuple[np.ndarray, np.ndarray]:
    """The deepest known node of every row, and which rows name something below it that is not in the tree."""
    rows = cells.values if cells.values.shape[1] > 1 else cells.values[:, 0]
    nodes, depth = tree.locate(rows, unseen="ancestor")
    return nodes, tree.depth[nodes] < depth


def unseen_error(tree: Tree, cells: LabelCells, unseen: np.ndarray, where: object, fix: str) -> DataError:
    """The sentence about labels that are not in a tree: how many rows, which labels, what was meant, the fix."""
    rows = np.flatnonzero(unseen)
    named = [_name(row) for row in cells.values[rows].tolist()]
    different = list(dict.fromkeys(named))
    last = last_name(cells.values[rows[0]].tolist())
    close = suggestions(tree, last)
    if not close and isinstance(last, str):
        close = [str(label) for label in tree.labels.tolist() if spelling_key(label) == spelling_key(last)][:1]
    meant = f" (did you mean {close[0]!r}?)" if close else ""
    return DataError(
        f"{rows_have(len(rows), len(unseen), where)} labels that are not in the tree: "
        f"{examples(different, limit=3)}{meant}, first in row {rows[0]} (counted from 0); {fix}."
    )


def last_name(row: Sequence[Any]) -> Any:
    """The deepest label of a row."""
    return next((cell for cell in reversed(row) if cell is not None), None)


def _name(row: Sequence[Any]) -> str:
    return " / ".join(str(cell) for cell in row if cell is not None)
