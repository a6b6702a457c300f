"""Cells of a table: names of places on a tree, texts and numbers, and what of them is refused.

One rule for cells that name places on a tree, in every command: blanks around a name do not count, letters are composed
(NFC), an empty cell at the end of level columns ends the path, one above a given label is the level "(missing)", and a column
whose cells are all whole numbers written plainly holds numbers (007 is a name). What the rule changed is counted in a
`TableReport`.
"""

from __future__ import annotations

import re
import reprlib
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._arrays import label_array, object_array
from vpunn._rows import LARGEST_FEATURE
from vpunn.errors import DataError, check_choice, examples, rows_have
from vpunn.io.cells import COMMA_NUMBER
from vpunn.io.frames import check_columns
from vpunn.io.tree_tables import whole_labels
from vpunn.tree import Tree
from vpunn.tree.find import suggestions
from vpunn.tree.lookup import UNKNOWN, missing_cells

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from vpunn._types import Cell, Label, Targets

MATCHES = ("exact", "loose")
#: Kinds of changes that `LabelCells` counts.
CHANGES = 5


@dataclass
class LabelCells:
    """Cells that name places, (rows, columns) of labels with None where there is none, and what reading them changed.

    ``changes`` has a row per row: how many cells were trimmed, whether a blank level is called `UNKNOWN`, whether the path ends
    early, how many cells were matched loosely, and whether a blank level was `completed`; None if nothing was.
    ``spelled`` has the tree's name for every name matched loosely.
    """

    values: np.ndarray
    changes: np.ndarray | None = None
    spelled: Mapping[Any, Any] = field(default_factory=dict)

    @property
    def blank(self) -> np.ndarray:
        """Rows without any label."""
        return np.asarray(missing_cells(self.values).all(axis=1))

    @property
    def trimmed(self) -> int:
        """Cells that were written with blanks around or letters in two parts."""
        return self._total(0)

    @property
    def gaps(self) -> int:
        """Rows with a blank level above a given one, of which nothing else is known."""
        return self._total(1)

    @property
    def ends(self) -> int:
        """Rows that end above the last level."""
        return self._total(2)

    @property
    def blanks(self) -> int:
        """Rows with a blank level, above or below a given one; some have both."""
        return 0 if self.changes is None else int(self.changes[:, [1, 2, 4]].any(axis=1).sum())

    @property
    def completed(self) -> int:
        """Rows whose blank level above a given one was filled in (`completed`)."""
        return self._total(4)

    @property
    def loose(self) -> int:
        """Cells that were matched loosely."""
        return self._total(3)

    def _total(self, change: int) -> int:
        return 0 if self.changes is None else int(self.changes[:, change].sum())

    def take(self, rows: np.ndarray) -> LabelCells:
        """Some of the rows, and what was changed in them."""
        return LabelCells(self.values[rows], None if self.changes is None else self.changes[rows], self.spelled)

    def labels(self) -> Targets:
        """As estimators take them: one label per row, or level columns."""
        column = self.values[:, 0]
        if self.values.shape[1] > 1:
            return self.values
        return np.array(column.tolist()) if all(type(cell) is int for cell in column) else column


def place_cells(frame: pd.DataFrame, names: Sequence[str], where: object, *, gaps: bool = True) -> LabelCells:
    """The cells of label or level columns, read by the rule of this module; numbers only where all of a column are.

    Without ``gaps`` the columns are not levels of each other, so an empty cell stays empty.
    """
    check_columns(frame, names, where)
    raw, changes = np.empty((len(frame), len(names)), object), np.zeros((len(frame), CHANGES), np.int64)
    for k, name in enumerate(names):
        cells, missing = label_array(_plain_cells(frame[name], where))
        texts = [None if gone else _clean(cell) for cell, gone in zip(cells.tolist(), missing, strict=True)]
        changes[:, 0] += [a is not None and a != b for a, b in zip(texts, cells.tolist(), strict=True)]
        present = np.array([text is not None for text in texts], bool)
        column = object_array(texts)
        if present.any() and all(isinstance(text, str) for text in column[present]):
            column[present] = whole_labels(column[present]).tolist()
        raw[:, k] = column
    filled = ~missing_cells(raw)
    if not gaps:
        raw[~filled] = None
        return LabelCells(raw)
    values = _without_gaps(raw, filled)
    changes[:, 1] = (~missing_cells(values) & ~filled).any(axis=1)
    changes[:, 2] = missing_cells(values).any(axis=1) & filled.any(axis=1)
    return LabelCells(values, changes)


def _without_gaps(cells: np.ndarray, filled: np.ndarray) -> np.ndarray:
    """Missing cells as None; one with a label below it is no end of a path but a gap, which becomes the level `UNKNOWN`."""
    reaches = np.logical_or.accumulate(filled[:, ::-1], axis=1)[:, ::-1]
    values = cells.copy()
    values[~filled] = None
    values[reaches & ~filled] = UNKNOWN
    return values


def split_paths(frame: pd.DataFrame, name: str, separator: str, where: object) -> tuple[pd.DataFrame, list[str]]:
    """A column of paths such as ``Home > Kitchen > Knives`` as a table of level columns, at least two, and their names.

    Separators at the ends of a path do not count; an empty level between two others stays empty.
    """
    import pandas as pd

    check_columns(frame, [name], where)
    cells = object_array(list(_plain_cells(frame[name], where)))
    first, last = separator.lstrip(), separator.rstrip()
    paths = [
        [] if gone else str(cell).strip().removeprefix(first).removesuffix(last).split(separator)
        for cell, gone in zip(cells.tolist(), missing_cells(cells), strict=True)
    ]
    names = [f"{name} {k + 1}" for k in range(max([2, *map(len, paths)]))]
    levels = [[*(level.strip() for level in path), *[None] * (len(names) - len(path))] for path in paths]
    return pd.DataFrame(levels, columns=names, dtype=object), names


def _plain_cells(column: pd.Series[Any], where: object) -> pd.Series[Any] | list[Cell]:
    """A column of labels: dates as text; cells that hold several things are refused."""
    if column.dtype.kind in "mM":
        return column.astype(object).map(str).where(column.notna(), None)
    if column.dtype != object:
        return column
    refuse_nested(column, where, "write one label in a cell, or give --label-sep if rows have several")
    cells = column.tolist()
    return [str(cell) if isinstance(cell, date) and cell == cell else cell for cell in cells]


def refuse_nested(column: pd.Series[Any], where: object, fix: str) -> None:
    """Refuse lists, objects and bytes in the cells of a column, as JSON lines and Parquet may have them."""
    for row, cell in enumerate(column.tolist()):
        if isinstance(cell, list | tuple | set | dict | np.ndarray | bytes):
            kind = "bytes" if isinstance(cell, bytes) else "an object" if isinstance(cell, dict) else "a list"
            raise DataError(
                f"the column {column.name!r} of {str(where)!r} holds {kind} in row {row} (counted from 0): "
                f"{reprlib.repr(cell)}; {fix}."
            )


def refuse_bytes(frame: pd.DataFrame, names: Sequence[str], where: object) -> None:
    """Refuse bytes in text columns, which may be text in any encoding or none."""
    for name in names:
        if frame[name].dtype == object and any(isinstance(cell, bytes) for cell in frame[name].tolist()):
            refuse_nested(frame[name], where, "write it as text")


def _clean(cell: Cell) -> Cell:
    """A name without blanks around it and with composed letters; None if nothing is left."""
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    return (text if text.isascii() else unicodedata.normalize("NFC", text)) or None


def texts_of(frame: pd.DataFrame, names: Sequence[str], where: object, block: str = "") -> list[str]:
    """One text per row: the cells of text columns side by side, nothing for missing ones."""
    import pandas as pd

    check_columns(frame, names, where, block)
    refuse_bytes(frame, names, where)
    columns = [frame[name].to_numpy() for name in names]
    parts = [
        ["" if gap else str(cell) for cell, gap in zip(cells.tolist(), pd.isna(cells), strict=True)]
        for cells in columns
    ]
    return [" ".join(cells) for cells in zip(*parts, strict=True)]


def numbers_of(frame: pd.DataFrame, names: Sequence[str], where: object, block: str = "") -> np.ndarray:
    """Numeric columns as floats, NaN where a cell is missing: empty, blank, or a word such as NA, also in JSON and Parquet.

    A cell that is something else and no finite number is refused with its place.
    """
    import pandas as pd
    from pandas._libs.parsers import STR_NA_VALUES

    check_columns(frame, names, where, block)
    found = np.empty((len(frame), len(names)))
    for k, name in enumerate(names):
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column.dtype):
            values = column.to_numpy(dtype=float, na_value=np.nan)
        else:
            try:
                values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
            except OverflowError:  # a whole number beyond all floats
                values = pd.to_numeric(column.astype(str), errors="coerce").to_numpy(dtype=float, na_value=np.nan)
            odd = np.flatnonzero(np.isnan(values) & column.notna().to_numpy())
            odd = odd[[str(cell).strip() not in STR_NA_VALUES for cell in column.iloc[odd]]] if len(odd) else odd
            if len(odd) and _PLAIN_NUMBER.fullmatch(
                str(column.iloc[odd[0]])
            ):  # as older versions of pandas give up on 1e999
                _refuse_cells(column, odd[:1], where, block, "too large or infinite", "correct or leave out these rows")
            if len(odd):
                _refuse_no_numbers(column, odd, where, block)
        infinite = np.flatnonzero(np.abs(values) > LARGEST_FEATURE)
        if len(infinite):
            _refuse_cells(column, infinite, where, block, "too large or infinite", "correct or leave out these rows")
        found[:, k] = values
    return found


def _refuse_no_numbers(column: pd.Series[Any], odd: np.ndarray, where: object, block: str) -> None:
    """Refuse cells that are no numbers: beside numbers such as 19,8 those few that kept their commas from being read."""
    commas = column.iloc[odd].astype(str).str.strip().str.fullmatch(COMMA_NUMBER).to_numpy(bool)
    few = "write numbers there, or empty these cells, which are read as the median of the column"
    if commas.any() and not commas.all():
        _refuse_cells(column, odd[~commas], where, block, "not numeric", few)
    fix = few if len(odd) < column.notna().sum() else "write numbers like 3.5; words and kinds belong in --text"
    if commas.all():
        fix = "write 3,5 as 3.5, and thousands without a comma"
    _refuse_cells(column, odd, where, block, "not numeric", fix)


def _in_block(block: str) -> str:
    return f" (block {block!r})" if block else ""


def _refuse_cells(column: pd.Series[Any], rows: np.ndarray, where: object, block: str, what: str, fix: str) -> None:
    cells = examples(list(dict.fromkeys(str(cell)[:40] for cell in column.iloc[rows])), limit=3)
    raise DataError(
        f"the column {column.name!r}{_in_block(block)} of {str(where)!r} is {what} in row {examples(rows, limit=3)} "
        f"(counted from 0): {cells}; {fix}."
    )


def refuse_missing(X: np.ndarray, names: Sequence[str], where: object, fix: str, block: str = "") -> None:
    """Refuse missing numbers, naming column and row."""
    for k, name in enumerate(names):
        rows = np.flatnonzero(np.isnan(X[:, k]))
        if len(rows):
            raise DataError(
                f"the column {name!r}{_in_block(block)} of {str(where)!r} has no number (NaN) in {len(rows):,} of {len(X):,} "
                f"rows, row {examples(rows, limit=3)} (counted from 0); {fix}."
            )


def refuse_measurements(cells: LabelCells, names: Sequence[str], where: object) -> None:
    """Refuse a target of decimal numbers that hardly repeat: a quantity, not a class (1.10 and 1.2 as chapters are classes)."""
    column = [cell for cell in cells.values[:, 0].tolist() if cell is not None]
    different = set(map(str, column))
    if len(names) > 1 or len(different) <= max(len(column) / 2, 3) or all(isinstance(cell, int) for cell in column):
        return
    if all(_is_decimal(text) for text in different):
        raise DataError(
            f"the target {names[0]!r} of {str(where)!r} holds numbers such as {examples(column, limit=2)} that hardly repeat; "
            f"predict them with --regress {names[0]} and --levels, or round them to classes."
        )


_PLAIN_NUMBER = re.compile(r"\s*[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\s*")


def _is_decimal(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# ---- cells and a tree ------------------------------------------------------------------------------------------------


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

    >>> cells = LabelCells(object_array(["Garden", "(missing)", "Rake"])[None])
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
