"""How a value looks in a table cell and in JSON, and the table itself; used by reports and by the command line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rich.table import Table


def show(value: Any) -> str:
    """A cell: thousands separated, floats to four significant digits, nothing for None.

    >>> show(52427), show(0.123456), show(True), show(None)
    ('52,427', '0.1235', 'yes', '')
    """
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)


def rich_table(title: str, columns: Sequence[str], right: Sequence[bool], cells: Iterable[Sequence[str]]) -> Table:
    """A table as wide as the terminal, long cells folded, numbers to the right; cells are data, never markup."""
    from rich.table import Table
    from rich.text import Text

    named = any(str(name).strip() for name in columns)
    table = Table(
        title=Text(title) if title else None,
        title_justify="left",
        box=None,
        header_style="bold",
        pad_edge=False,
        show_header=named,
    )
    for name, is_number in zip(columns, right, strict=True):
        table.add_column(Text(str(name)), justify="right" if is_number else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    return table


def is_number(value: Any) -> bool:
    """Whether a cell is set to the right: a number, or nothing."""
    return value is None or isinstance(value, Number)


def plain(value: Any) -> Any:
    """NumPy numbers and arrays as their Python twins, anything else as text: the ``default`` of ``json.dumps``."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value)
