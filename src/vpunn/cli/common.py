"""What every command shares: output as table or JSON, and the debug flag."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Annotated, Any

import typer

from vpunn.cells import plain, show


@dataclass
class State:
    """Options given before the command."""

    debug: bool = False


state = State()

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


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
        right = all(isinstance(row[name], Number) for row in rows)
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(show(row[name]) for name in columns))
    # Labels are data: neither [brackets] nor :colons: in them mean anything.
    Console(highlight=False, markup=False, emoji=False).print(table)
