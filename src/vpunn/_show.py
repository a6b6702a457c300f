"""How a value looks in a table cell and in JSON; used by reports and by the command line."""

from __future__ import annotations

from typing import Any

import numpy as np


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


def plain(value: Any) -> Any:
    """NumPy numbers and arrays as their Python twins, anything else as text: the ``default`` of ``json.dumps``."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value)
