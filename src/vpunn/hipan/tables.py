"""From a stranger's table to rows and labels: which columns a model reads, what the cells mean, and what was found there.

One rule for cells that name places on a tree, in every command: blanks around a name do not count, letters are composed
(NFC), an empty cell at the end of level columns ends the path, one above a given label is the level "(missing)", and a column
whose cells are all whole numbers written plainly holds numbers (007 is a name). What the rule changed is counted in a
`TableReport`.
"""

from __future__ import annotations

import csv
import re
import reprlib
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import DataError, VpunnError, check_choice, counted, examples, rows_have
from vpunn.hipan._targets import LARGEST_FEATURE
from vpunn.io.frames import check_columns
from vpunn.io.tables import whole_labels
from vpunn.tree import Tree
from vpunn.tree._inputs import label_array, object_array
from vpunn.tree._labels import suggestions
from vpunn.tree.build import UNKNOWN
from vpunn.tree.levels import NodeFinder, level_cells, missing_cells

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from vpunn._types import Cell, Json, Label, Targets

MISSING = ("error", "drop")
MATCHES = ("exact", "loose")


@dataclass(frozen=True)
class Inputs:
    """Which columns a model reads: texts, numbers, levels (of a regressor), and its target; kept with the model."""

    target: tuple[str, ...]
    text: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    groups: str | None = None
    task: str | None = None
    seed: int = 0
    label_sep: str | None = None  #: what separates the labels in a cell of the target, if rows have several
    match: str = "exact"  #: how names of the table are found in the tree

    def __post_init__(self) -> None:
        used = Counter([*self.target, *self.text, *self.columns, *self.levels])
        twice = [name for name, count in used.items() if count > 1]
        if twice:
            raise VpunnError(f"the column {examples(twice)} is named twice; a column is an input or the target, once.")
        if self.groups is not None and (self.groups,) == self.target:
            raise VpunnError(
                f"the column {self.groups!r} is the target; --groups names the source of a row, such as a shop."
            )

    def block(self, kind: str) -> str:
        """The block of features that texts ("words") or "numbers" make, for messages; "" where there is one block only."""
        return kind if self.text and self.columns else ""

    @property
    def names(self) -> list[str]:
        """All columns that are read to predict."""
        return [*self.text, *self.columns, *self.levels]

    @property
    def as_text(self) -> list[str]:
        """Columns whose cells are read as they are written; the target of a regressor is a number."""
        return [*self.text, *self.levels, *(() if self.levels else self.target)]

    def settings(self) -> dict[str, Any]:
        """As kept in ``model.json``."""
        kept: dict[str, Any] = {"target": join_names(self.target)}
        for name in ("text", "columns", "levels"):
            if getattr(self, name):
                kept[name] = list(getattr(self, name))
        if self.groups is not None:
            kept["groups"] = self.groups
        if self.label_sep is not None:
            kept["label_sep"] = self.label_sep
        if self.match != "exact":
            kept["match"] = self.match
        return kept | ({"task": self.task, "seed": self.seed} if self.task is not None else {})

    @classmethod
    def from_settings(cls, kept: Json, where: object) -> Inputs:
        """What `settings` gave, checked."""
        lists = ("text", "columns", "levels")
        if not isinstance(kept, Mapping) or not any(kept.get(name) for name in lists):
            raise DataError(
                f"{str(where)!r} does not say which columns it reads; `vpunn fit` writes a model that does."
            )
        given = [kept.get(name, []) for name in lists]
        match = kept.get("match", "exact")
        told = isinstance(kept.get("target"), str) and isinstance(kept.get("seed", 0), int) and match in MATCHES
        if not told or not all(isinstance(v, list) and all(isinstance(n, str) for n in v) for v in given):
            raise DataError(f"{str(where)!r} is damaged: its list of columns cannot be read; fit the model again.")
        task, groups = kept.get("task"), kept.get("groups")
        words = [None if word is None else str(word) for word in (groups, task, kept.get("label_sep"))]
        text, columns, levels = (tuple(names) for names in given)
        target = tuple(split_names(kept["target"]))
        return cls(target, text, columns, levels, words[0], words[1], int(kept.get("seed", 0)), words[2], match)


def split_names(names: str | None) -> list[str]:
    """Column names separated by commas; one with a comma in it stands in double quotes.

    >>> split_names('order, family,"genus, species"')
    ['order', 'family', 'genus, species']
    """
    cells = next(csv.reader([names or ""], skipinitialspace=True), [])
    return [name.strip() for name in cells if name.strip()]


def join_names(names: Sequence[str]) -> str:
    """The text that `split_names` splits."""
    return ",".join('"' + name.replace('"', '""') + '"' if "," in name or '"' in name else name for name in names)


# ---- cells -----------------------------------------------------------------------------------------------------------


@dataclass
class LabelCells:
    """Cells that name places, (rows, columns) of labels with None where there is none, and what reading them changed."""

    values: np.ndarray
    trimmed: int = 0
    gaps: int = 0
    ends: int = 0

    @property
    def blank(self) -> np.ndarray:
        """Rows without any label."""
        return np.asarray(missing_cells(self.values).all(axis=1))

    def take(self, rows: np.ndarray) -> LabelCells:
        """Some of the rows; what was changed is told of all."""
        return LabelCells(self.values[rows], self.trimmed, self.gaps, self.ends)

    def labels(self) -> Targets:
        """As estimators take them: one label per row, or level columns."""
        column = self.values[:, 0]
        if self.values.shape[1] > 1:
            return self.values
        return np.array(column.tolist()) if all(type(cell) is int for cell in column) else column


def place_cells(frame: pd.DataFrame, names: Sequence[str], where: object) -> LabelCells:
    """The cells of label or level columns, read by the rule of this module; numbers only where all of a column are."""
    check_columns(frame, names, where)
    raw = np.empty((len(frame), len(names)), object)
    trimmed = 0
    for k, name in enumerate(names):
        cells, missing = label_array(_plain_cells(frame[name], where))
        texts = [None if gone else _clean(cell) for cell, gone in zip(cells.tolist(), missing, strict=True)]
        trimmed += sum(a is not None and a != b for a, b in zip(texts, cells.tolist(), strict=True))
        present = np.array([text is not None for text in texts], bool)
        column = object_array(texts)
        if present.any() and all(isinstance(text, str) for text in column[present]):
            column[present] = whole_labels(column[present]).tolist()
        raw[:, k] = column
    filled = ~missing_cells(raw)
    values = level_cells(raw, list(range(len(names))))
    gaps = (~missing_cells(values) & ~filled).any(axis=1)
    ends = missing_cells(values).any(axis=1) & filled.any(axis=1)
    return LabelCells(values, trimmed, int(gaps.sum()), int(ends.sum()))


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
    """Numeric columns as floats, NaN where a cell is empty; a cell that is no finite number is refused with its place."""
    import pandas as pd

    check_columns(frame, names, where, block)
    found = np.empty((len(frame), len(names)))
    for k, name in enumerate(names):
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column.dtype):
            values = column.to_numpy(dtype=float, na_value=np.nan)
        else:
            values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
            odd = np.flatnonzero(np.isnan(values) & column.notna().to_numpy())
            if len(odd) and _PLAIN_NUMBER.fullmatch(
                str(column.iloc[odd[0]])
            ):  # as older versions of pandas give up on 1e999
                _refuse_cells(column, odd[:1], where, block, "too large or infinite", "correct or leave out these rows")
            if len(odd):
                fix = "write numbers like 3.5, or name the column in --text if it holds words or kinds"
                _refuse_cells(column, odd, where, block, "not numeric", fix)
        infinite = np.flatnonzero(np.abs(values) > LARGEST_FEATURE)
        if len(infinite):
            _refuse_cells(column, infinite, where, block, "too large or infinite", "correct or leave out these rows")
        found[:, k] = values
    return found


def _in_block(block: str) -> str:
    return f" (block {block!r})" if block else ""


def _refuse_cells(column: pd.Series[Any], rows: np.ndarray, where: object, block: str, what: str, fix: str) -> None:
    cells = examples([str(cell)[:40] for cell in column.iloc[rows[:3]]], total=len(rows), limit=3)
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


def _key(label: Label) -> str:
    """What is left of a name when case, underscores and runs of blanks do not count."""
    return " ".join(str(label).replace("_", " ").casefold().split())


class Spelling:
    """Names as a tree writes them: built once, asked often.

    The number 7 and the text "7" always match. Loosely, case, underscores and runs of blanks do not count, and a readable name
    (the tree's column ``name``, as ontologies have it) means its node too, each if it means one label only.

    >>> spell = Spelling(Tree.from_paths([["Homo_sapiens"], ["Pan"]], root="apes"), "loose")
    >>> spell("homo sapiens"), spell("Pan"), spell("Gorilla")
    (('Homo_sapiens', True), ('Pan', False), ('Gorilla', False))
    """

    def __init__(self, tree: Tree, match: str = "exact") -> None:
        check_choice("match", match, MATCHES)
        labels = tree.labels.tolist()
        self.known = set(labels)
        self.by_text = _unique({}, ((str(label), label) for label in labels))
        self.by_key: dict[str, Any] = {}
        if match == "loose":
            names = tree.columns["name"].tolist() if "name" in tree.columns else []
            self.by_key = _unique({}, ((_key(name), label) for name, label in zip(names, labels, strict=False) if name))
            self.by_key |= _unique({}, ((_key(label), label) for label in labels))

    def __call__(self, cell: Cell) -> tuple[Any, bool]:
        """The tree's name for a cell, or the cell itself if it has none, and whether it was matched loosely."""
        if cell is None or cell in self.known:
            return cell, False
        if str(cell) in self.by_text:
            return self.by_text[str(cell)], False
        key = _key(cell)
        return (self.by_key[key], True) if key in self.by_key else (cell, False)


def matched(cells: LabelCells, tree: Tree, match: str = "exact") -> tuple[LabelCells, int]:
    """Cells as the tree writes them (`Spelling`), and how many were rewritten by ``"loose"`` matching.

    A first level column that holds nothing but the root's label is left out.
    """
    spell, values, loose = Spelling(tree, match), cells.values.copy(), 0
    for k in range(values.shape[1]):
        for i, cell in enumerate(values[:, k].tolist()):
            values[i, k], loosely = spell(cell)
            loose += loosely
    first = [cell for cell in values[:, 0].tolist() if cell is not None]
    if values.shape[1] > 1 and first and all(cell == tree.labels[0] for cell in first):
        values = values[:, 1:]
    return LabelCells(values, cells.trimmed, cells.gaps, cells.ends), loose


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
    if cells.values.shape[1] > 1:
        nodes, depths = NodeFinder(tree, by_label=False).locate(cells.values)
        return nodes, tree.depth[nodes] < depths
    column = cells.values[:, 0]
    known = set(tree.labels.tolist())
    unseen = np.array([cell is not None and cell not in known for cell in column.tolist()], bool)
    nodes = np.zeros(len(column), np.int64)
    here = ~unseen & ~cells.blank
    if here.any():
        nodes[here] = tree.index(object_array(column[here].tolist()))
    return nodes, unseen


def unseen_error(tree: Tree, cells: LabelCells, unseen: np.ndarray, where: object, fix: str) -> DataError:
    """The sentence about labels that are not in a tree: how many rows, which labels, what was meant, the fix."""
    rows = np.flatnonzero(unseen)
    named = [_name(row) for row in cells.values[rows].tolist()]
    different = list(dict.fromkeys(named))
    last = last_name(cells.values[rows[0]].tolist())
    close = suggestions(tree, last)
    if not close and isinstance(last, str):
        close = [str(label) for label in tree.labels.tolist() if _key(label) == _key(last)][:1]
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


# ---- what was read ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableReport:
    """What a table holds, counted before a model is fitted on it; ``verdict`` is one line, ``notes`` are odd things found."""

    where: str
    rows: int
    columns: int
    classes: int
    depth: int
    gaps: int = 0
    ends: int = 0
    dropped: int = 0
    trimmed: int = 0
    duplicates: int = 0
    conflicts: int = 0
    singles: int = 0
    notes: tuple[str, ...] = field(default=())

    @property
    def verdict(self) -> str:
        """One line: what was read."""
        parts = [
            f"{counted(self.rows, 'row')}, {counted(self.columns, 'column')}",
            counted(self.classes, "class", "classes") + (f", depth {self.depth}" if self.depth > 1 else ""),
            f"{counted(self.gaps + self.ends, 'row')} with blank levels"
            if self.gaps + self.ends
            else "no blank levels",
            counted(self.duplicates, "duplicate row"),
            f"{counted(self.singles, 'class', 'classes')} with one row",
        ]
        parts += [f"{counted(self.dropped, 'row')} left out"] if self.dropped else []
        return f"read {self.where}: {'; '.join(parts)}"

    def __str__(self) -> str:
        return "\n".join([self.verdict, *(f"  note: {note}" for note in self.notes)])

    def facts(self) -> dict[str, Any]:
        """The counts, as JSON has them."""
        names = ("rows", "columns", "classes", "depth", "gaps", "ends", "dropped", "trimmed", "duplicates", "conflicts")
        return {name: getattr(self, name) for name in names} | {"singles": self.singles, "notes": list(self.notes)}


def describe_table(
    frame: pd.DataFrame,
    inputs: Inputs,
    cells: LabelCells,
    where: object,
    *,
    left_out: Sequence[str] = (),
    dropped: int = 0,
    rematched: int = 0,
    sets: Sequence[set[Any]] | None = None,
) -> TableReport:
    """Count what a table holds for a model: classes, blanks, repeated rows, classes seen once, names that differ in case only.

    ``sets`` are the labels of rows with several, which are counted one by one; ``left_out`` says why rows were dropped.
    """
    import pandas as pd

    paths = pd.Series([tuple(row) for row in cells.values.tolist()])
    count = paths.value_counts()
    inside = pd.util.hash_pandas_object(frame[inputs.names].astype(str), index=False).to_numpy()
    both = pd.DataFrame({"inside": inside, "label": pd.factorize(paths)[0]})
    again = both.duplicated().to_numpy()
    labels_of_input = both.drop_duplicates().groupby("inside").size()
    conflicts = int(both["inside"].isin(labels_of_input.index[labels_of_input > 1]).sum())
    notes = []
    if cells.gaps:
        notes.append(
            f'{counted(cells.gaps, "row has", "rows have")} a blank level above a given one; it is called "{UNKNOWN}"'
        )
    if cells.ends:
        notes.append(
            f"{counted(cells.ends, 'row ends', 'rows end')} above the last level column, at the label reached there"
        )
    if cells.trimmed:
        notes.append(
            f"{counted(cells.trimmed, 'label')} written with blanks around or letters in two parts, which do not count"
        )
    if rematched:
        notes.append(
            f"{counted(rematched, 'label was', 'labels were')} matched loosely (case, underscores and blanks do not count)"
        )
    if conflicts:
        notes.append(
            f"{counted(conflicts, 'row has', 'rows have')} the same inputs as another row and a different label"
        )
    notes += left_out
    if len(count) > 1 and len(count) == len(frame) and not inputs.levels and sets is None:
        notes.append("every class has one row, so none can be held out: probabilities are a guess, and likely too sure")
    notes += [
        f"the column {name!r} holds TRUE and FALSE, which are read as 1 and 0"
        for name in inputs.columns
        if pd.api.types.is_bool_dtype(frame[name].dtype)
    ]
    notes += [
        f"the column {name!r} holds {different} different whole numbers and is read as a quantity; if they stand for kinds, "
        "name it in --text"
        for name, different in _coded_columns(frame, inputs.columns)
    ]
    if sets is not None:
        count = pd.Series([(label,) for row in sets for label in row], dtype=object).value_counts()
        bare = sum(not row for row in sets)
        if bare:
            notes.append(f"{counted(bare, 'row has', 'rows have')} no label, which teaches too")
        if not any(len(row) > 1 for row in sets):
            notes.append(f"no cell of {inputs.target[0]!r} holds {inputs.label_sep!r} between two labels")
    texts = {name for path in count.index for name in path if isinstance(name, str)}
    twins = [names for names in _same_but_for_case(texts) if len(names) > 1]
    if twins:
        differ = counted(len(twins), "name differs", "names differ")
        told = "they count as different, so write them alike if they are one"
        notes.append(f"{differ} in case, blanks or underscores only, such as {examples(twins[0])}: {told}")
    depth = max((sum(cell is not None for cell in path) for path in count.index), default=0)
    singles = int((count == 1).sum())
    return TableReport(
        str(where),
        len(frame),
        frame.shape[1],
        len(count),
        depth,
        cells.gaps,
        cells.ends,
        dropped,
        cells.trimmed,
        int(again.sum()),
        conflicts,
        singles,
        tuple(notes),
    )


#: A numeric column with at most so many different values, all whole and each met ten times, may hold codes of kinds.
FEW_VALUES = 20


def _coded_columns(frame: pd.DataFrame, names: Sequence[str]) -> list[tuple[str, int]]:
    """Numeric columns that look like categories, with the number of their values; two values are a yes or no either way."""
    found = []
    for name in names:
        values = frame[name].dropna().to_numpy(float)
        different = np.unique(values)
        if 2 < len(different) <= min(FEW_VALUES, len(values) // 10) and (different == np.round(different)).all():
            found.append((str(name), len(different)))
    return found


def _same_but_for_case(names: set[str]) -> list[list[str]]:
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        found.setdefault(_key(name), []).append(name)
    return list(found.values())
