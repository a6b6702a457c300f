"""CSV that is opened in a spreadsheet: a text cell that begins as a formula does would be run there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from vpunn._types import Cell

#: How a spreadsheet recognises a formula (also by the wide signs of Asian scripts), and what begins so but is none.
_FORMULA = re.compile(r"[=+\-@\uff1d\uff0b\uff0d\uff20\t\r\n]")
_HARMLESS = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d{1,3})?|[+-]")


def as_text(cell: Cell) -> Cell:
    """A cell as a spreadsheet should show it: an apostrophe before what it would run.

    >>> [as_text(cell) for cell in ("=1+1", "-2", "-cmd", "owl", -2, None)]
    ["'=1+1", '-2', "'-cmd", 'owl', -2, None]
    """
    if not isinstance(cell, str) or not _FORMULA.match(cell) or _HARMLESS.fullmatch(cell):
        return cell
    return f"'{cell}"


def without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with every name and text cell `as_text`; numbers stay numbers.

    Readers do not take the apostrophe away again: for a file that programs read, write the table as it is.
    """
    frame = frame.rename(columns=as_text)
    for at, kind in enumerate(frame.dtypes):
        if getattr(kind, "kind", "O") not in "biufcmM":
            column = frame.iloc[:, at].astype(object)
            texts = [as_text(cell) for cell in column.tolist()]
            if any(a is not b for a, b in zip(texts, column.tolist(), strict=True)):
                frame.isetitem(at, texts)
    return frame
