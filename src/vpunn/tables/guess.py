"""What the columns of a table look like: words, numbers, categories, or nothing that a model can read.

`guess_columns` looks at cells only. It is what `vpunn.fit` goes by for columns that nobody has named, and what ``vpunn fit TABLE``
shows before anything is fitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from vpunn.errors import counted, examples
from vpunn.tables.cells import written_numbers
from vpunn.tables.names import Spelling, spelling_key

if TYPE_CHECKING:
    import pandas as pd

    from vpunn.tree import Tree

Kind = Literal["text", "number", "category", "list", "id", "date", "constant", "empty", "other"]

#: A category has at most this share of different cells, so that most of its values come back.
REPEATS = 0.5
#: Longer cells (in words, on average) are sentences, not names.
SHORT = 4.0
#: Single words that differ in this share of the rows are numbers or names of rows.
NEARLY_ALL = 0.95
#: A category of more values is read as words, which take no column each.
MANY = 1000
#: So many pairs of equal numbers are expected of quantities; ids have none.
TWINS = 5.0
#: So many different whole numbers that only ever grow are ids.
ASCENDING = 8
#: Rows that are looked at.
LOOKED_AT = 20_000


@dataclass(frozen=True)
class Guess:
    """What a column looks like, why, in a few words, and how many different ``values`` a category has."""

    kind: Kind
    why: str
    values: int = 0

    @property
    def usable(self) -> bool:
        """Whether a model can read it."""
        return self.read_as in ("text", "number", "category")

    @property
    def read_as(self) -> Kind:
        """What a model reads the column as."""
        return "text" if self.kind == "category" and self.values > MANY else self.kind


def guess_columns(frame: pd.DataFrame) -> dict[str, Guess]:
    """What every column looks like.

    >>> import pandas as pd
    >>> shop = {"sku": ["a1", "a2", "a3", "a4"], "price": [2.5, 3, None, 4], "kind": ["tea", "Tea", "cake", "cake"]}
    >>> for name, guess in guess_columns(pd.DataFrame(shop)).items():
    ...     print(f"{name}: {guess.kind}, {guess.why}")
    sku: id, another word in every row
    price: number, from 2.5 to 4, 1 blank
    kind: category, 2 different values in 3 spellings
    """
    return {str(name): _guess(frame.iloc[:LOOKED_AT, at]) for at, name in enumerate(frame.columns)}


def _guess(column: pd.Series) -> Guess:
    import pandas as pd

    there = column.dropna()
    blanks = len(column) - len(there)
    also = f", {counted(blanks, 'blank')}" if blanks else ""
    if not len(there):
        return Guess("empty", "no cell is filled")
    if there.dtype == object and any(isinstance(cell, list | tuple | set | frozenset | np.ndarray) for cell in there):
        return Guess("list", "several values in a cell")
    if pd.api.types.is_datetime64_any_dtype(there.dtype):
        return Guess("date", f"from {there.min()} to {there.max()}{also}")
    if pd.api.types.is_complex_dtype(there.dtype):
        return Guess("other", "complex numbers")
    if pd.api.types.is_numeric_dtype(there.dtype) and not pd.api.types.is_bool_dtype(there.dtype):
        return _of_numbers(there.to_numpy(float), also)
    written = written_numbers(there) if there.dtype == object or isinstance(there.dtype, pd.StringDtype) else None
    if written is not None:
        return _of_numbers(written[~np.isnan(written)], also)
    return _of_names(there, also)


def _of_numbers(values: np.ndarray, also: str) -> Guess:
    """Quantities come back now and then, and stand in no order; whole numbers that do neither are ids."""
    n, different = len(values), len(np.unique(values))
    if different == 1:
        return Guess("constant", f"every cell is {values[0]:g}{also}")
    width = float(np.ptp(values))
    if different == n > 2 and bool((values == np.round(values)).all()):
        if width == n - 1:
            return Guess("id", f"counts the rows from {values.min():g}{also}")
        if n * (n - 1) / 2 > TWINS * width or (n >= ASCENDING and bool((np.diff(values) > 0).all())):
            return Guess("id", f"another whole number in every row{also}")
    return Guess("number", f"from {values.min():.4g} to {values.max():.4g}{also}")


def _of_names(there: pd.Series, also: str) -> Guess:
    """Cells of words: names that come back, names of rows, or texts."""
    import pandas as pd

    texts = there.astype(str).str.strip()
    spelled = texts.nunique()
    different = len({spelling_key(text) for text in texts.unique()})
    if spelled == 1:
        return Guess("constant", f"every cell is {examples([texts.iloc[0]])}{also}")
    words = float(texts.str.count(r"\s+").mean()) + 1
    named = isinstance(there.dtype, pd.CategoricalDtype) or pd.api.types.is_bool_dtype(there.dtype)
    if words == 1 and spelled >= NEARLY_ALL * len(there) and spelled > max(REPEATS * len(there), 2) and not named:
        return Guess("id", f"another word in {'' if spelled == len(there) else 'nearly '}every row{also}")
    if named or words == 1 or (different <= max(REPEATS * len(there), 2) and words < SHORT):
        several = f" in {spelled:,} spellings" if spelled > different else ""
        return Guess("category", f"{counted(different, 'different value')}{several}{also}", different)
    return Guess("text", f"{words:.0f} words a cell{also}" if words > 1.5 else f"{different:,} different words{also}")


def columns_of(guesses: Mapping[str, Guess], kind: Kind, without: Iterable[str] = ()) -> tuple[str, ...]:
    """Names of the columns that are read as a kind, in the table's order."""
    left_out = set(without)
    return tuple(name for name, guess in guesses.items() if guess.read_as == kind and name not in left_out)


def guess_target(frame: pd.DataFrame, guesses: Mapping[str, Guess], without: Iterable[str] = ()) -> tuple[str, ...]:
    """The columns that may be the labels: category columns that stand below each other, or the one with most values; () if none.

    One column stands below another if each of its values goes with one value of the other only; of several, the fullest. Names
    that differ in their spelling only (`spelling_key`) are one value.
    """
    left_out = set(without)
    keys = {
        name: frame[name].map(_key)
        for name, guess in guesses.items()
        if guess.kind == "category" and name not in left_out
    }
    size = {name: column.nunique() for name, column in keys.items()}
    names = sorted(keys, key=lambda name: (size[name], keys[name].count()))
    best: tuple[str, ...] = ()
    for last in reversed(range(len(names))):
        chain = [names[last]]
        for name in reversed(names[:last]):
            if size[name] < size[chain[0]] and _below(keys[chain[0]], keys[name]):
                chain.insert(0, name)
        if len(chain) > len(best):
            best = tuple(chain)
    return best


def _key(cell: Any) -> Any:
    """What a cell is called, however it is spelled; None for a blank one."""
    return (spelling_key(cell) or None) if isinstance(cell, str) else cell


def _below(column: pd.Series, other: pd.Series) -> bool:
    import pandas as pd

    both = pd.DataFrame({"low": column, "high": other}).dropna()
    return len(both) > 0 and bool((both.groupby("low", observed=True)["high"].nunique() <= 1).all())


def names_in(frame: pd.DataFrame, guesses: Mapping[str, Guess], tree: Tree) -> tuple[str | None, bool, bool]:
    """The column most of whose names stand in a tree, None if there is none; whether some do so loosely only, and whether some do
    not."""
    spell = Spelling(tree, "loose")
    best: tuple[float, str | None, bool, bool] = (0.5, None, False, False)
    for name, guess in guesses.items():
        if guess.kind not in ("text", "id", "category", "number"):
            continue
        cells = [cell.strip() if isinstance(cell, str) else cell for cell in frame[name].dropna().unique().tolist()]
        found = [spell(cell) for cell in cells]
        share = float(np.mean([label in spell.known for label, _ in found]))
        if share > best[0]:
            best = share, name, any(loosely for _, loosely in found), share < 1
    return best[1:]


def suggestions(
    frame: pd.DataFrame, guesses: Mapping[str, Guess], tree: Tree | None = None
) -> list[dict[str, tuple[str, ...]]]:
    """Options of ``vpunn fit`` that would fit a table of which only its cells are known: for its labels, then for a number.

    With a tree one column names places in it.
    """
    names, loosely, strange = (None, False, False) if tree is None else names_in(frame, guesses, tree)
    once = names is not None and frame[names].nunique() >= NEARLY_ALL * frame[names].count()
    target = guess_target(frame, guesses) if names is None else () if once else (names,)
    rest = {
        "text": columns_of(guesses, "text", target),
        "columns": columns_of(guesses, "number", target),
        "categories": columns_of(guesses, "category", target),
    }
    given = {"levels" if len(target) > 1 else "target": target, **rest} if target else {}
    levels = target if names is None else (names,)
    numbers = columns_of(guesses, "number", levels)
    kinds = guess_target(frame, guesses, levels)[-1:] if once else ()
    found = [given, {"classify": kinds, "levels": levels} if kinds else {}]
    if numbers and (len(levels) > 1 or names is not None):
        found.append({"regress": numbers[:1], "levels": levels})
    also = {"match": ("loose",)} if loosely or _spelled_twice(frame, target) else {}
    also |= {"unseen": ("skip",)} if strange else {}
    return [{name: v for name, v in one.items() if v} | also for one in found if one]


def _spelled_twice(frame: pd.DataFrame, names: Sequence[str]) -> bool:
    """Whether a column holds names that differ in their spelling only; blanks around them never count."""
    columns = [frame[name].dropna().astype(str).str.strip() for name in names]
    return any(column.nunique() > column.map(spelling_key).nunique() for column in columns)


def said_of(guesses: Mapping[str, Guess], target: Sequence[str]) -> list[str]:
    """One sentence for each thing that was done with columns nobody named: how they are read, and which are left out."""
    read = {"text": "as words", "number": "as numbers", "category": "as categories"}
    lines = [
        f"{how}: {', '.join(columns_of(guesses, kind, target))}"  # type: ignore[arg-type]
        for kind, how in read.items()
        if columns_of(guesses, kind, target)  # type: ignore[arg-type]
    ]
    out = [f"{name} ({g.why})" for name, g in guesses.items() if not g.usable and name not in target]
    said = [f"columns read {'; '.join(lines)}"] if lines else []
    return [*said, *([f"columns left out: {', '.join(out)}"] if out else [])]
