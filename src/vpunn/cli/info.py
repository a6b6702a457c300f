"""``vpunn info``: what a saved model, code or tree is, without loading it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from vpunn.cli.common import JsonFlag, emit


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(info)


def info(
    path: Annotated[Path, typer.Argument(help="Folder that a save method, `vpunn fit` or `vpunn tabular fit` wrote.")],
    verify: Annotated[bool, typer.Option(help="Compare the checksum of every array.")] = True,
    json: JsonFlag = False,
) -> None:
    """Say what a saved model is: kind, version, size, tree, which numbers belong to balls, settings, where it comes from."""
    from vpunn.io.store import Stored

    facts = {**Stored.open(path, verify=verify).facts(), "checksums": "all agree" if verify else "not compared"}
    emit(facts if json else dict(_flat(facts)), json)


def _flat(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested facts as one list of lines; what is empty or unset says nothing."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}: ")
        elif name == "bytes":
            yield f"{prefix}size of arrays", f"{value / 1e6:,.3g} MB"
        elif value is not None and value != "":
            yield f"{prefix}{name}", value
