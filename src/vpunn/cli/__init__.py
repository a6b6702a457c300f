"""The command line: thin commands over the library, one module per family.

Every command prints a table for people or, with ``--json``, one JSON document. Errors are one sentence on standard
error and exit code 1; ``--debug`` before the command shows the traceback.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from typing import Annotated, Any

import typer

from vpunn import __version__, _progress
from vpunn.cli import (
    codes,
    data,
    demo,
    explore,
    fit,
    hipan,
    hipaq,
    info,
    paper,
    predict,
    report,
    tabular,
    tree,
)
from vpunn.cli.common import shell_voice, state
from vpunn.errors import CodeChangeWarning, DataWarning, VpunnError, speaking
from vpunn.files import clipped

try:  # what is raised for wrong words: newer versions of typer carry click inside, older ones depend on it
    from typer import TyperException as UsageError
except ImportError:
    from click import UsageError  # type: ignore[assignment]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: drawing boxes around it takes a third of the time of `vpunn --help`
    help="Learning on hierarchies. Begin with `vpunn demo`, or with `vpunn fit TABLE`, which shows the columns of a table.",
)
for family in (demo, fit, predict, report, explore, info, codes, data, tree, tabular, hipan, hipaq, paper):
    family.register(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"vpunn {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options that come before the command."""
    state.debug = debug
    state.takes = _options_of(getattr(context.command, "commands", {}).get(context.invoked_subcommand))
    _progress.quiet = quiet


def _options_of(command: Any) -> frozenset[str]:
    """Names of the options of a command, or of all commands of a family."""
    family = getattr(command, "commands", {"": command}).values()
    return frozenset(parameter.name for one in family for parameter in getattr(one, "params", ()))


def main() -> None:
    """Entry point of the ``vpunn`` command."""
    warnings.showwarning = _say_warning
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a label may hold letters that the terminal's encoding has not
            stream.reconfigure(errors="backslashreplace")
    try:
        with speaking(shell_voice):
            code = app(standalone_mode=False) or 0
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where a full disk or a reader gone away is still told
        sys.exit(code)
    except BrokenPipeError:  # the reader (head, less) went away: not our error, and nothing more to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (VpunnError, OSError, UnicodeEncodeError, MemoryError) as error:
        lost = _lost_letters()
        if state.debug:
            raise
        _say_and_exit(lost or _in_shell(error), 1)
    except (typer.Abort, KeyboardInterrupt):
        _say_and_exit("stopped.", 130)
    except UsageError as error:
        said, context = error.format_message(), getattr(error, "ctx", None)
        said = said.replace(" (env var: 'None')", "")  # as older versions of typer say of every option
        if said.split()[3:4] == ["--starts"]:  # one of the ways to read words that mix letters and digits
            said = "No such option: --starts; write --mixed starts."
        if "\n" in said:  # no command at all: the message is the help itself
            sys.stderr.write(said + "\n")
            sys.exit(2)
        place = context.command_path if context else "vpunn"
        _say_and_exit(f"{said} ({place} --help tells more)", 2)


def _in_shell(error: Exception) -> str:
    """The sentence of an error."""
    if isinstance(error, UnicodeEncodeError):
        return f"a name holds half of a letter ({error.object[error.start : error.end]!a}), which no file can keep; repair it."
    if isinstance(error, MemoryError):
        return "there is not enough memory for this; give fewer rows or columns at a time, or a larger machine."
    if isinstance(error, OSError) and error.strerror and isinstance(error.filename, str):
        return f"cannot use {clipped(error.filename)}: {error.strerror}."
    return str(error)


def _lost_letters() -> str:
    """What to say of a command that failed and whose words were read in a locale without their letters."""
    poor = sys.getfilesystemencoding().lower() not in ("utf-8", "utf8")
    if poor and any("\udc80" <= letter <= "\udcff" for word in sys.argv for letter in word):
        return "this locale has no letters for a word of the command; set PYTHONUTF8=1 or LC_ALL=C.UTF-8."
    return ""


def _say_warning(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
    """Our own warnings are sentences for the user; where in the code they arose does not help there."""
    if issubclass(category, DataWarning | CodeChangeWarning):
        sys.stderr.write(f"vpunn: {message}\n")
    elif state.debug or not issubclass(category, DeprecationWarning):  # between libraries, not to the user
        sys.stderr.write(warnings.formatwarning(message, category, *place[:2]))


def _say_and_exit(sentence: str, code: int) -> None:
    sys.stderr.write(f"vpunn: {' '.join(sentence.split())}\n")
    sys.exit(code)
