"""What every command shares: output as table or JSON, groups of options, and the debug flag."""

from __future__ import annotations

import functools
import inspect
import json
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from vpunn.errors import VpunnError


@dataclass
class State:
    """Options given before the command, and the names of those that it takes itself."""

    debug: bool = False
    takes: frozenset[str] = frozenset()


state = State()

#: Longer tables are not folded to the terminal's width, which takes half a millisecond a row.
FOLDED_ROWS = 1000

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def emit(rows: Sequence[Mapping[str, Any]] | Mapping[str, Any], as_json: bool, title: str = "") -> None:
    """Print one record or a list of records, as JSON or as a table: folded to fit a terminal, else one line per row."""
    from vpunn._show import is_number, plain, rich_table, show  # with NumPy, which `--help` does without

    if as_json:
        typer.echo(json.dumps(rows, default=plain, ensure_ascii=False, indent=1))
        return
    if isinstance(rows, Mapping):
        rows = [{"": key, " ": value} for key, value in rows.items()]
    columns = list(rows[0]) if rows else []
    right = [all(is_number(row[name]) for row in rows) for name in columns]
    cells = [[_cell(show(row[name])) for name in columns] for row in rows]
    if len(rows) <= FOLDED_ROWS and sys.stdout is not None and sys.stdout.isatty():  # None: the output is closed
        from rich.console import Console

        # Labels are data: neither [brackets] nor :colons: in them mean anything.
        console = Console(highlight=False, markup=False, emoji=False)
        if title:  # above the table, not folded to its width
            console.print(title)
        console.print(rich_table("", columns, right, cells))
    else:
        typer.echo("\n".join([*([title] if title else []), *_aligned(columns, right, cells)]))


#: Longer cells are cut in tables; files and JSON have all of them.
LONGEST_CELL = 500

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def _cell(text: str) -> str:
    """A cell of one line: what would move the cursor is written as Python writes it, and what is too long is cut."""
    if len(text) > LONGEST_CELL:
        text = f"{text[:LONGEST_CELL]}… ({len(text):,} characters)"
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def add(family: typer.Typer, command: Callable[..., None]) -> None:
    """Make a function a command; arguments that are dataclasses are groups of options (`grouped`)."""
    family.command(cls=InGroups)(grouped(command))


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose arguments may be dataclasses: typer sees an option for each of their fields, the command sees the groups.

    A field says what its option is, as an argument of a command does: ``seed: Annotated[int, typer.Option(…)] = 0``.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    flat = []
    for argument in inspect.signature(command).parameters.values():
        if argument.name not in groups:
            flat.append(argument.replace(kind=argument.KEYWORD_ONLY, annotation=hints[argument.name]))
            continue
        kinds = get_type_hints(groups[argument.name], include_extras=True)
        for field in fields(groups[argument.name]):
            unset = argument.empty if field.default is MISSING else field.default
            option = argument.replace(name=field.name, kind=argument.KEYWORD_ONLY, default=unset)
            said = copy(kinds[field.name].__metadata__[0])  # some stand in two groups
            said.rich_help_panel = str(groups[argument.name].__doc__).partition("\n")[0].rstrip(".")
            flat.append(option.replace(annotation=Annotated[kinds[field.name].__origin__, said]))

    @functools.wraps(command)
    def run(**given: Any) -> None:
        made = {
            name: kind(**{field.name: given.pop(field.name) for field in fields(kind)}) for name, kind in groups.items()
        }
        command(**given, **made)

    del run.__wrapped__  # typer would look there
    run.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in flat}
    return run


class InGroups(TyperCommand):
    """A command whose help shows the options of each dataclass together, under what its docstring says."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, options of the command itself, then the groups."""
        found: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            own = "Arguments" if parameter.param_type_name == "argument" else "Options"
            if record is not None:
                found.setdefault(getattr(parameter, "rich_help_panel", None) or own, []).append(record)
        for title, records in found.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def shell_voice(name: str, value: object) -> str:
    """The library's advice as the command that runs can follow it: by its own option, or not at all (see `errors.advice`).

    >>> state.takes = frozenset({"encoding"})
    >>> shell_voice("encoding", "latin-1"), shell_voice("strict", False)
    ('give --encoding latin-1', '')
    """
    if name == "node":
        return "say which by its path, as written here; in a table, give level columns (--levels)"
    word = str(value) if value == "…" else shlex.quote(str(value))
    plain = f"give --{name.replace('_', '-')} {word}"
    option, words = _OPTIONS.get((name, value), (name, plain))
    return words if option in state.takes else ""


#: Advice that is more than the option of its name: the option that the command must take, and the words.
_OPTIONS: dict[tuple[str, object], tuple[str, str]] = {
    ("unseen", "null"): ("unseen", "give --unseen null, or --match loose if only case, '_' and blanks differ"),
    ("unseen", "ancestor"): ("unseen", "--unseen ancestor or skip"),
    ("answers", "leaves"): ("leaves", "give --leaves"),
    ("strict", False): ("lenient", "--lenient gives"),
    ("by", "path"): ("by_path", "--by-path finds"),
}


def reader_voice(name: str, value: object) -> str:
    """The same of what reads trees, which takes most of its options by ``-o``.

    >>> state.takes = frozenset({"option"})
    >>> reader_voice("header", False), reader_voice("levels", ["order", "genus"])
    ('give -o header=false', 'give -o levels=order,genus')
    """
    if name in ("format", "policy", "node"):
        return shell_voice(name, value)
    listed = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    option = f"{name}={listed.lower() if isinstance(value, bool) else listed}"
    there = "" if "option" in state.takes else " to vpunn tree convert"
    return f"give -o {option if option.isprintable() and ' ' not in option else shlex.quote(option)}{there}"


def say(sentence: str) -> None:
    """A remark beside the answer, on standard error."""
    sys.stderr.write(f"vpunn: {sentence}.\n")


def folded(text: str) -> str:
    """Lines that fit the terminal, each continued below its own beginning; as they are where no one looks on."""
    if sys.stdout is None or not sys.stdout.isatty():
        return text
    width = max(shutil.get_terminal_size().columns, 40)
    lines: list[str] = []
    for line in text.split("\n"):
        below = " " * (len(line) - len(line.lstrip()) + 4)
        how = {"break_long_words": False, "break_on_hyphens": False}
        lines += textwrap.wrap(line, width, subsequent_indent=below, **how) or [""]  # type: ignore[arg-type]
    return "\n".join(lines)


def beside(source: object, kind: str = "model") -> Path:
    """Where the model of a table, a tree or a data set is written, if nobody says.

    >>> str(beside("tables/shop.csv.gz")), str(beside("wordnet", "hipan"))
    ('tables/shop-model', 'wordnet-hipan')
    """
    path = Path(str(source))
    name = "vpunn" if str(source) == "-" else path.name.split(".")[0]
    return path.parent / f"{name}-{kind}"


def refuse_unused(options: Mapping[str, Any], why: str) -> None:
    """Refuse options that were given (are not None) and would do nothing."""
    given = [name for name, value in options.items() if value is not None and value != []]
    if given:
        raise VpunnError(f"{given[0]} does nothing here: {why}; leave it out.")


def _aligned(columns: list[str], right: list[bool], cells: list[list[str]]) -> list[str]:
    """One line per row, however wide: what other programs can read, and a hundred times faster than folding."""
    from rich.cells import cell_len

    lines = [columns, *cells] if any(name.strip() for name in columns) else cells
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    space = [[" " * (width - cell_len(cell)) for width, cell in zip(widths, line, strict=True)] for line in lines]
    return [
        "  ".join(gap + cell if r else cell + gap for gap, cell, r in zip(gaps, line, right, strict=True)).rstrip()
        for gaps, line in zip(space, lines, strict=True)
    ]
