"""The command line: thin commands over the library, one module per family.

Every command prints a table for people or, with ``--json``, one JSON document. Errors are one sentence on standard
error and exit code 1; ``--debug`` before the command shows the traceback.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from vpunn.cli import data, demo, hipaq, reproduce, structure
from vpunn.cli.common import state
from vpunn.errors import VpunnError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Exact p-adic codes and learning on hierarchies.",
)
for family in (structure, data, demo, hipaq, reproduce):
    family.register(app)


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False,
) -> None:
    """Options that come before the command."""
    state.debug = debug


def main() -> None:
    """Entry point of the ``vpunn`` command."""
    try:
        app()
    except BrokenPipeError:  # the reader (head, less) went away: not our error, and nothing more to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (VpunnError, OSError) as error:
        if state.debug:
            raise
        sys.stderr.write(f"vpunn: {' '.join(str(error).split())}\n")
        sys.exit(1)
