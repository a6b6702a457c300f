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

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["text", "number", "category", "list", "id", "date", "constant", "empty", "other"]

#: A category has at most this share of different cells, so that most of its values come back.
REPEATS = 0.5
#: Longer cells (in words, on average) are sentences, not names.
SHORT = 4.0
#: Single words that differ in this share of the rows are numbers or names of rows.
NEARLY_ALL = 0.95
#: Rows that are looked at.
LOOKED_AT = 20_000


@dataclass(frozen=True)
class Guess:
    """What a column looks like, and why, in a few words."""

    kind: Kind
    why: str

    @property
    def usable(self) -> bool:
        """Whether a model can read it."""
        return self.kind in ("text", "number", "category")


def guess_columns(frame: pd.DataFrame) -> dict[str, Guess]:
    """What every column looks like.

    >>> import pandas as pd
    >>> shop = {"sku": ["a1", "a2", "a3", "a4"], "price": [2.5, 3, None, 4], "kind": ["tea", "tea", "cake", "cake"]}
    >>> for name, guess in guess_columns(pd.DataFrame(shop)).items():
    ...     print(f"{name}: {guess.kind}, {guess.why}")
    sku: id, another word in every row
    price: number, from 2.5 to 4, 1 blank
    kind: category, 2 different values
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
    different = there.nunique() if there.dtype != object else there.astype(str).str.strip().nunique()
    if different == 1:
        return Guess("constant", f"every cell is {examples([there.iloc[0]])}{also}")
    if pd.api.types.is_complex_dtype(there.dtype):
        return Guess("other", "complex numbers")
    if pd.api.types.is_numeric_dtype(there.dtype) and not pd.api.types.is_bool_dtype(there.dtype):
        return _of_numbers(there.to_numpy(float), different, also)
    texts = there.astype(str).str.strip()
    words = float(texts.str.count(r"\s+").mean()) + 1
    named = isinstance(there.dtype, pd.CategoricalDtype) or pd.api.types.is_bool_dtype(there.dtype)
    if named or (different <= max(REPEATS * len(there), 2) and words < SHORT):
        return Guess("category", f"{different:,} different values{also}")
    if different >= NEARLY_ALL * len(there) and words == 1:
        return Guess("id", f"another word in {'' if different == len(there) else 'nearly '}every row{also}")
    return Guess("text", f"{words:.0f} words a cell{also}" if words > 1.5 else f"{different:,} different words{also}")


def _of_numbers(values: np.ndarray, different: int, also: str) -> Guess:
    whole = bool((values == np.round(values)).all())
    if whole and different == len(values) > 2 and np.ptp(values) == len(values) - 1:
        return Guess("id", f"counts the rows from {values.min():g}{also}")
    return Guess("number", f"from {values.min():.4g} to {values.max():.4g}{also}")


def columns_of(guesses: Mapping[str, Guess], kind: Kind, without: Iterable[str] = ()) -> tuple[str, ...]:
    """Names of the columns of a kind, in the table's order."""
    left_out = set(without)
    return tuple(name for name, guess in guesses.items() if guess.kind == kind and name not in left_out)


def guess_target(frame: pd.DataFrame, guesses: Mapping[str, Guess]) -> tuple[str, ...]:
    """The columns that may be the labels: category columns that stand below each other, or the one with most values; () if none.

    One column stands below another if each of its values goes with one value of the other only; of several, the fullest.
    """
    columns = {name: frame[name].map(_stripped) for name in columns_of(guesses, "category")}
    frame = frame.assign(**columns)
    names = sorted(columns, key=lambda name: (frame[name].nunique(), frame[name].count()))
    best: tuple[str, ...] = ()
    for last in reversed(range(len(names))):
        chain = [names[last]]
        for name in reversed(names[:last]):
            if frame[name].nunique() < frame[chain[0]].nunique() and _below(frame, chain[0], name):
                chain.insert(0, name)
        if len(chain) > len(best):
            best = tuple(chain)
    return best


def _stripped(cell: Any) -> Any:
    return cell.strip() if isinstance(cell, str) else cell


def _below(frame: pd.DataFrame, name: str, other: str) -> bool:
    both = frame[[name, other]].dropna()
    return len(both) > 0 and bool((both.groupby(name, observed=True)[other].nunique() <= 1).all())


def suggestion(frame: pd.DataFrame, guesses: Mapping[str, Guess]) -> dict[str, tuple[str, ...]]:
    """Options of ``vpunn fit`` that would fit a table of which only its cells are known; without a target if none is found."""
    target = guess_target(frame, guesses)
    rest = {
        "text": columns_of(guesses, "text", target),
        "columns": columns_of(guesses, "number", target),
        "categories": columns_of(guesses, "category", target),
    }
    named = {"levels" if len(target) > 1 else "target": target}
    return {name: columns for name, columns in {**named, **rest}.items() if columns}


def said_of(guesses: Mapping[str, Guess], target: Sequence[str]) -> list[str]:
    """One sentence for each thing that was done with columns nobody named: how they are read, and which are left out."""
    read = {"text": "as words", "number": "as numbers", "category": "as categories"}
    lines = [
        f"{how}: {', '.join(columns_of(guesses, kind, target))}"  # type: ignore[arg-type]
        for kind, how in read.items()
        if columns_of(guesses, kind, target)  # type: ignore[arg-type]
    ]
    out = [f"{name} ({g.why})" for name, g in guesses.items() if not g.usable and name not in target]
    return [f"columns read {'; '.join(lines)}", *([f"columns left out: {', '.join(out)}"] if out else [])]
