"""What every command shares: output as table or JSON, and the debug flag."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer


@dataclass
class State:
    """Options given before the command."""

    debug: bool = False


state = State()

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def plain(value: Any) -> Any:
    """NumPy numbers and arrays as their Python twins, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value)


def emit(rows: Sequence[Mapping[str, Any]] | Mapping[str, Any], as_json: bool, title: str = "") -> None:
    """Print one record or a list of records, as JSON or as a table that fits the terminal."""
    if as_json:
        typer.echo(json.dumps(rows, default=plain, ensure_ascii=False, indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    if isinstance(rows, Mapping):
        rows = [{"": key, " ": value} for key, value in rows.items()]
    table = Table(title=title or None, title_justify="left", box=None, header_style="bold", pad_edge=False)
    columns = list(rows[0]) if rows else []
    for name in columns:
        right = all(isinstance(row[name], int | float | np.number) for row in rows)
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(show(row[name]) for name in columns))
    Console(highlight=False, markup=False).print(table)


def show(value: Any) -> str:
    """A cell: thousands separated, floats to four significant digits, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
