"""``vpunn data``: which data sets there are, fetch them, and say where their files lie."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vpunn.cli.common import JsonFlag, emit

Keys = Annotated[list[str], typer.Argument(help="Data sets, as named by `vpunn data list`.")]


def register(app: typer.Typer) -> None:
    """Add the ``data`` family to the command line."""
    family = typer.Typer(no_args_is_help=True, help="Real hierarchies and tables: list, fetch, find.")
    family.command("list")(list_datasets)
    family.command("fetch")(fetch)
    family.command("path")(path)
    app.add_typer(family, name="data")


def list_datasets(as_json: JsonFlag = False) -> None:
    """List the data sets, with sizes, licences and what is here already."""
    from vpunn.datasets.catalog import CATALOG
    from vpunn.datasets.fetch import find_file

    rows = [
        {
            "name": dataset.key,
            "what": dataset.title,
            "version": dataset.version,
            "MB": round(dataset.size / 1e6, 1),
            "here": all(find_file(file) is not None for file in dataset.files),
            "licence": dataset.licence,
        }
        for dataset in CATALOG.values()
    ]
    emit(rows, as_json)


def fetch(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets, as named by `vpunn data list`.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Fetch all of them.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Fetch data sets, unless they are there, and print their files."""
    from vpunn.datasets.catalog import CATALOG
    from vpunn.datasets.fetch import fetch_dataset
    from vpunn.errors import DataError

    chosen = list(CATALOG) if everything else names
    if not chosen:
        raise DataError(f"name a data set to fetch ({', '.join(CATALOG)}), or give --all.")
    _print_paths({key: fetch_dataset(key) for key in chosen}, as_json)


def path(names: Keys, as_json: JsonFlag = False) -> None:
    """Print where the files of data sets lie, one per line.

    It fetches nothing: a missing file is an error."""
    from vpunn.datasets.catalog import describe_dataset
    from vpunn.datasets.fetch import find_file
    from vpunn.errors import DataError

    found: dict[str, dict[str, Path]] = {}
    for key in names:
        paths = {file.name: find_file(file) for file in describe_dataset(key).files}
        missing = [name for name, where in paths.items() if where is None]
        if missing:
            raise DataError(f"{key} is not on this machine ({', '.join(missing)}); run `vpunn data fetch {key}`.")
        found[key] = {name: where for name, where in paths.items() if where is not None}
    _print_paths(found, as_json)


def _print_paths(found: dict[str, dict[str, Path]], as_json: bool) -> None:
    """Plain lines, so that ``$(vpunn data path wine-quality)`` works in a shell; or JSON by data set and file."""
    if as_json:
        emit({key: {name: str(where) for name, where in files.items()} for key, files in found.items()}, as_json)
        return
    for files in found.values():
        for where in files.values():
            typer.echo(where)
