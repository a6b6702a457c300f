"""From a stranger's table to rows and labels: which columns a model reads, and what was found there."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._rows import LARGEST_FEATURE
from vpunn.errors import DataError, VpunnError, advice, counted, examples
from vpunn.tables.cells import LabelCells, numbers_of, place_cells, split_paths
from vpunn.tables.names import MATCHES, spelling_key
from vpunn.tree.lookup import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd

    from vpunn._types import Json

#: Rows that lack a label, or a number: which are kept (see `vpunn.tables.samples`).
MISSING = ("median", "drop", "error")


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
    path_sep: str | None = None  #: what separates the levels in a cell of the target, if it holds paths
    medians: tuple[float, ...] = ()  #: of the numeric columns in the training rows; they stand in for missing numbers
    categories: tuple[str, ...] = ()
    values: tuple[tuple[str, ...], ...] = ()  #: of each category, in the training rows
    shares: tuple[tuple[float, ...], ...] = ()  #: of the rows that have them
    log: bool = False  #: whether a regressor learned log10 of its target
    classes: bool = False  #: whether the target beside levels is a class, not a number

    def __post_init__(self) -> None:
        used = Counter([*self.target, *self.names])
        twice = [name for name, count in used.items() if count > 1]
        if twice:
            raise VpunnError(f"the column {examples(twice)} is named twice; a column is an input or the target, once.")
        if self.groups is not None and (self.groups,) == self.target:
            raise VpunnError(
                f"the column {self.groups!r} is the target; --groups names the source of a row, such as a shop."
            )

    def block(self, kind: str) -> str:
        """The block of features that texts ("words") or "numbers" make, for messages; "" where there is one block only."""
        return kind if self.text and self.numeric else ""

    @property
    def numeric(self) -> bool:
        """Whether a model reads numbers: those of columns, or categories written as numbers."""
        return bool(self.columns or self.categories)

    @property
    def width(self) -> int:
        """How many numbers a row has: its numeric columns, and one for each value of its categories."""
        return len(self.columns) + sum(map(len, self.values))

    @property
    def names(self) -> list[str]:
        """All columns that are read to predict."""
        return [*self.text, *self.columns, *self.categories, *self.levels]

    @property
    def as_text(self) -> list[str]:
        """Columns whose cells are read as they are written; the target of a regressor is a number."""
        return [*self.text, *self.categories, *self.levels, *(self.target if self.classes or not self.levels else ())]

    def settings(self) -> dict[str, Any]:
        """As kept in ``model.json``."""
        kept: dict[str, Any] = {"target": join_names(self.target)}
        for name in LISTS:
            if getattr(self, name):
                kept[name] = list(getattr(self, name))
        if self.groups is not None:
            kept["groups"] = self.groups
        if self.label_sep is not None:
            kept["label_sep"] = self.label_sep
        if self.match != "exact":
            kept["match"] = self.match
        if self.path_sep is not None:
            kept["path_sep"] = self.path_sep
        for name in ("log", "classes"):
            if getattr(self, name):
                kept[name] = True
        if self.medians:
            kept["medians"] = list(self.medians)
        if self.categories:
            kept["values"] = [dict(zip(*both, strict=True)) for both in zip(self.values, self.shares, strict=True)]
        return kept | ({"task": self.task, "seed": self.seed} if self.task is not None else {})

    @classmethod
    def from_settings(cls, kept: Json, where: object) -> Inputs:
        """What `settings` gave, checked."""
        if not isinstance(kept, Mapping) or not any(kept.get(name) for name in LISTS):
            raise DataError(
                f"{str(where)!r} does not say which columns it reads; `vpunn fit` writes a model that does."
            )
        text, columns, categories, levels = given = [kept.get(name, []) for name in LISTS]
        match, medians, values = kept.get("match", "exact"), kept.get("medians", []), kept.get("values", [])
        told = isinstance(kept.get("target"), str) and isinstance(kept.get("seed", 0), int) and match in MATCHES
        told = told and are_medians(medians, columns) and are_values(values, categories)
        if not told or not all(isinstance(v, list) and all(isinstance(n, str) for n in v) for v in given):
            raise DataError(f"{str(where)!r} is damaged: its list of columns cannot be read; fit the model again.")
        words = {name: kept.get(name) for name in ("groups", "task", "label_sep", "path_sep")}
        return cls(
            tuple(split_names(kept["target"])),
            tuple(text),
            tuple(columns),
            tuple(levels),
            **{name: None if word is None else str(word) for name, word in words.items()},
            seed=int(kept.get("seed", 0)),
            log=kept.get("log", False) is True,
            classes=kept.get("classes", False) is True,
            match=match,
            medians=tuple(map(float, medians)),
            categories=tuple(categories),
            values=tuple(tuple(one) for one in values),
            shares=tuple(tuple(map(float, one.values())) for one in values),
        )


#: The lists of columns that a model may read, as ``model.json`` calls them.
LISTS = ("text", "columns", "categories", "levels")


def are_medians(kept: Json, columns: Json) -> bool:
    """Whether what a model kept are medians of its columns: a usable number of each, or none at all (an older version)."""
    if not isinstance(kept, list) or not isinstance(columns, list) or len(kept) not in (0, len(columns)):
        return False
    return all(isinstance(v, int | float) and not isinstance(v, bool) and abs(v) <= LARGEST_FEATURE for v in kept)


def are_values(kept: Json, categories: Json) -> bool:
    """Whether what a model kept are the values of its categories, each with a share of the rows."""
    if not isinstance(kept, list) or not isinstance(categories, list) or len(kept) != len(categories):
        return False
    shares = [share for one in kept if isinstance(one, Mapping) for share in one.values()]
    told = all(isinstance(v, int | float) and not isinstance(v, bool) and 0 <= v <= 1 for v in shares)
    return told and all(isinstance(one, Mapping) for one in kept)


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


def target_cells(frame: pd.DataFrame, inputs: Inputs, where: object) -> LabelCells:
    """The places that a table gives its rows: a label, level columns, or the levels of a path in one cell."""
    if inputs.path_sep is not None:
        frame, names = split_paths(frame, inputs.target[0], inputs.path_sep, where)
        return place_cells(frame, names, where)
    return place_cells(frame, inputs.target, where)


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
    blanks: int = 0  #: rows of ``gaps`` or ``ends``; some are of both

    @property
    def verdict(self) -> str:
        """One line: what was read."""
        parts = [
            f"{counted(self.rows, 'row')}, {counted(self.columns, 'column')}",
            counted(self.classes, "class", "classes") + (f", depth {self.depth}" if self.depth > 1 else ""),
            f"{counted(self.blanks, 'row')} with blank levels" if self.blanks else "no blank levels",
            f"{counted(self.duplicates, 'duplicate row')} in the columns used",
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
    sets: Sequence[set[Any]] | None = None,
    numbers: np.ndarray | None = None,
) -> TableReport:
    """Count what a table holds for a model: classes, blanks, repeated rows, classes seen once, names that differ in case only.

    All of it is counted in the rows that are left, and rows repeat each other if they do so in the columns that are used.
    ``sets`` are the labels of rows with several, which are counted one by one, ``numbers`` what a regressor learns; ``left_out``
    says why rows were dropped.
    """
    import pandas as pd

    paths = pd.Series([tuple(row) for row in cells.values.tolist()])
    count = paths.value_counts()
    inside = pd.util.hash_pandas_object(frame[inputs.names].astype(str), index=False).to_numpy()
    both = pd.DataFrame({"inside": inside, "label": pd.factorize(paths)[0] if numbers is None else numbers})
    again = both.duplicated().to_numpy()
    conflicts = 0
    if numbers is None:  # several numbers in one place are no conflict, but its spread
        labels_of_input = both.drop_duplicates().groupby("inside").size()
        conflicts = int(both["inside"].isin(labels_of_input.index[labels_of_input > 1]).sum())
    notes = [*_notes_on_cells(cells, conflicts, are_answers=not inputs.levels), *left_out]
    if len(count) > 1 and len(count) == len(frame) and not inputs.levels and sets is None:
        notes.append("every class has one row, so none can be held out: probabilities are a guess, and likely too sure")
    notes += _notes_on_columns(frame, inputs.columns)
    if sets is not None:
        count = pd.Series([(label,) for row in sets for label in row], dtype=object).value_counts()
        bare = sum(not row for row in sets)
        if bare:
            notes.append(f"{counted(bare, 'row has', 'rows have')} no label, which teaches too")
        if not any(len(row) > 1 for row in sets):
            notes.append(f"no cell of {inputs.target[0]!r} holds {inputs.label_sep!r} between two labels")
    notes += _notes_on_case({name for path in count.index for name in path if isinstance(name, str)})
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
        cells.blanks,
    )


def _notes_on_cells(cells: LabelCells, conflicts: int, are_answers: bool) -> list[str]:
    """How the cells of labels were read, a sentence each."""
    notes: list[str] = []
    if cells.gaps:
        notes.append(
            f"{counted(cells.gaps, 'row has', 'rows have')} a blank level above a given one, and no other row tells which; "
            f'it is called "{UNKNOWN}"'
        )
    if cells.completed:
        notes.append(
            f"{counted(cells.completed, 'row lacked', 'rows lacked')} a level above a given one, which is filled in as other rows "
            "have it"
        )
    if cells.ends:
        only = advice("answers", "leaves", note="for the last levels alone") if are_answers else ""
        notes.append(
            f"{counted(cells.ends, 'row ends', 'rows end')} above the last level column, at the label reached there"
            f"{f', which may be an answer, too; {only}' if only else ''}"
        )
    if cells.trimmed:
        notes.append(
            f"{counted(cells.trimmed, 'label')} written with blanks around or with Unicode spelled two ways, which does not count"
        )
    if cells.loose:
        notes.append(f"{counted(cells.loose, 'label was', 'labels were')} matched loosely: {_spelled(cells.spelled)}")
    if conflicts:
        notes.append(
            f"{counted(conflicts, 'row has', 'rows have')} the same inputs as another row and a different label"
        )
    return notes


def _spelled(names: Mapping[Any, Any], limit: int = 5) -> str:
    """Names as a table has them and as the tree has them: a few, and how many more."""
    shown = ", ".join(f"{name!r} is {label!r}" for name, label in list(names.items())[:limit])
    return f"{shown} and {len(names) - limit:,} more" if len(names) > limit else shown


def _notes_on_columns(frame: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """Numeric columns that may not be meant as numbers."""
    import pandas as pd

    notes = [
        f"the column {name!r} holds TRUE and FALSE, which are read as 1 and 0"
        for name in columns
        if pd.api.types.is_bool_dtype(frame[name].dtype)
    ]
    notes += [
        f"the column {name!r} holds {different} different whole numbers and is read as a quantity; if they stand for kinds, "
        "name it in --text"
        for name, different in _coded_columns(frame, columns)
    ]
    return notes


def _notes_on_case(names: set[str]) -> list[str]:
    """Names that differ in how they are written only."""
    twins = [alike for alike in _same_but_for_case(names) if len(alike) > 1]
    if not twins:
        return []
    differ = counted(len(twins), "name is", "names are")
    loosely = advice("match", "loose", note="to read them as one")
    told = f"they count as different{f'; {loosely}' if loosely else ''}"
    return [f"{differ} spelled in several ways, such as {examples(twins[0])}: {told}"]


#: A numeric column with at most so many different values, all whole and each met ten times, may hold codes of kinds.
FEW_VALUES = 20


def _coded_columns(frame: pd.DataFrame, names: Sequence[str]) -> list[tuple[str, int]]:
    """Numeric columns that look like categories, with the number of their values; two values are a yes or no either way."""
    found = []
    for name in names:
        values = numbers_of(frame, [name], "the table")[:, 0]
        values = values[~np.isnan(values)]
        different = np.unique(values)
        if 2 < len(different) <= min(FEW_VALUES, len(values) // 10) and (different == np.round(different)).all():
            found.append((str(name), len(different)))
    return found


#: What stands between the levels of a path, the longer ones first.
PATH_MARKS = ("::", ">", "/", "|", "\\")


def like_paths(cells: LabelCells, inputs: Inputs) -> list[str]:
    """A note if nearly all labels of a column are paths that share their first levels, which would be lost."""
    if inputs.path_sep is not None or len(inputs.target) > 1:
        return []
    labels = sorted({cell for cell in cells.values[:, 0].tolist() if isinstance(cell, str)})
    for mark in PATH_MARKS:
        paths = [label for label in labels if mark in label.strip(mark)]
        tops = {label.strip(mark).partition(mark)[0].strip() for label in paths}
        if len(paths) >= 4 and len(paths) >= 0.9 * len(labels) and 1 < len(tops) <= len(paths) / 2:
            looks = f"the labels of {inputs.target[0]!r} look like paths, such as {paths[0]!r}"
            return [f"{looks}: {advice('path_sep', mark)} to read their levels, which are lost otherwise"]
    return []


def _same_but_for_case(names: set[str]) -> list[list[str]]:
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        found.setdefault(spelling_key(name), []).append(name)
    return list(found.values())
