"""What README, CONTRIBUTING and docs/ name exists: parts of the package, commands and their options, make targets, links."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
from pathlib import Path

import pytest
import typer

from vpunn.cli import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if not {"_build", "auto_gallery"} & set(path.parts)),
]
COMMANDS = typer.main.get_command(app)


def exists(name: str) -> bool:
    """Whether a dotted name of the package leads somewhere."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def shown_commands(text: str) -> set[str]:
    """Commands as a reader copies them: lines of blocks of code, and code in a sentence."""
    blocks = re.findall(r"^```.*?^```", text, flags=re.M | re.S) + re.findall(r"^(?:    |\$ ).*$", text, flags=re.M)
    line = re.compile(r"^(?:\$ |    )?(vpunn [a-z].*?)(?:\s+#.*)?$", flags=re.M)
    found = {command for block in blocks for command in line.findall(block)}
    return found | set(re.findall(r"`(vpunn [a-z][^`]*)`", text))


def wrong_in(command: str) -> str:
    """What a shown command has that the program has not; empty if all of it exists."""
    command = command.partition(" | ")[0].partition(" > ")[0].partition(" && ")[0]
    try:
        words = shlex.split(command)[1:]
    except ValueError:  # an apostrophe of the sentence around it
        words = command.split()[1:]
    here = COMMANDS
    while words and hasattr(here, "commands"):
        name = words.pop(0).rstrip(",.;:")
        if name.startswith("-"):  # options before the command
            continue
        if "|" in name:  # a choice of commands, of which each must exist
            return ", ".join(part for part in name.split("|") if part not in here.commands)
        if name not in here.commands:
            return name
        here = here.commands[name]
    known = {flag for param in here.params for flag in (*param.opts, *param.secondary_opts)} | {"--help"}
    asked = [word.partition("=")[0].rstrip(",.;:)") for word in words if re.match(r"--?[a-zA-Z]", word)]
    return ", ".join(flag for flag in asked if flag not in known and not re.match(r"-\d", flag))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_names_exists(page):
    text = page.read_text(encoding="utf-8")
    names = set(re.findall(r"`(vpunn(?:\.[A-Za-z_]\w*)+)", text)) - {"vpunn.cli"}
    if importlib.util.find_spec("torch") is None:
        names = {name for name in names if not name.startswith("vpunn.torch")}
    assert [name for name in sorted(names) if not exists(name)] == []
    wrong = {command: wrong_in(command) for command in sorted(shown_commands(text))}
    assert {command: said for command, said in wrong.items() if said} == {}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M))
    assert set(re.findall(r"(?:`|^    )make ([a-z-]+)", text, flags=re.M)) <= targets
    for module in set(re.findall(r"python -m (benchmarks[\w.]*)", text)):
        path = ROOT / module.rstrip(".").replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        made = "auto_gallery" in link or link.startswith(("http", "reports/"))
        assert made or (page.parent / link).exists(), link


def test_what_does_not_exist_is_found():
    assert not exists("vpunn.tree.Forest") and exists("vpunn.tree.Tree.from_paths")
    assert wrong_in("vpunn plant tree.csv") == "plant"
    assert wrong_in("vpunn fit a.csv --target kind --colour red") == "--colour"
    assert wrong_in("vpunn tree info wordnet --json") == ""
    assert shown_commands("say `vpunn info PATH` or\n    vpunn fit a.csv  # why\n") == {
        "vpunn info PATH",
        "vpunn fit a.csv",
    }
